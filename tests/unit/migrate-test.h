/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of migrate-test share: a file that stands elsewhere than its name, one that sweeps, and what is to be found in the end. */
#ifndef STRATUS_MIGRATE_TEST_H
#define STRATUS_MIGRATE_TEST_H
#include "migrate-tree.h"

/* Of who sweeps: begins when it is let, and ends what is kept step by step. */
#define SWEEPER                                                                                                                \
	"volume begins\n type debug/hold\n option fops readdir\n subvolumes e0\nend-volume\n"                                  \
	"volume ends\n type debug/hold\n option fops unlink,removexattr\n subvolumes e1\nend-volume\n"                         \
	"volume sweeper\n type cluster/dht\n option lean 0\n option initial 4\n option sweep-interval 10ms\n"                  \
	" subvolumes begins ends e2 e3\nend-volume\n"                                                                          \
	"volume other\n type cluster/dht\n option lean 0\n option initial 4\n option sweep-interval 1h\n"                      \
	" subvolumes e0 e1 e2 e3\nend-volume\n"

const char *put_away(const char *text); /* the name of a file at subvolume 0, which is at 1 */
bool file_reads(struct file *, const char *text);
/* Under that name, and no other, in a while, and nothing is under way. */
bool is_whole(const char *b, const char *text);
bool has_xattr(int subvolume, struct inode *, const char *name);

/* migrate-test-cut.c */
/* Who brings a file dies after so many messages (`done`: the next one is done, but not answered); others end it. *sent: how many he has tried to send. */
void cut_at(unsigned messages, bool done, unsigned *sent);
extern const struct CMUnitTest cuts[];
extern const unsigned cuts_count;

/* migrate-test-power.c */
extern const struct CMUnitTest powers[];
extern const unsigned powers_count;

/* migrate-test-meanwhile.c */
extern const struct CMUnitTest meanwhile[];
extern const unsigned meanwhile_count;
#endif
