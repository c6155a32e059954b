/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of grow-test share: a fourth subvolume comes to a volume of three, with clients that know and clients that do not; the rebalancer; and a tree that is to be whole. */
#ifndef STRATUS_GROW_TEST_H
#define STRATUS_GROW_TEST_H
#include "dht-tree.h"

#include <stdatomic.h>

enum { BEFORE = 3, NEW = 3, NAMES = 60 };

#define OTHER_CLIENT(name)                                                                                                     \
	"volume " name "\n type cluster/dht\n option lean 0\n option initial 3\n subvolumes c0 c1 c2 c3\nend-volume\n"
#define LACKING_CLIENT(name)                                                                                                   \
	"volume " name "\n type cluster/dht\n option lean 0\n option sweep-interval 10ms\n subvolumes c0 c1 c2\nend-volume\n"
#define WEIGHING_CLIENT(name, weights)                                                                                         \
	"volume " name "\n type cluster/dht\n option lean 0\n option initial 3\n option weights " weights                      \
	"\n subvolumes c0 c1 c2 c3\nend-volume\n"
#define GROWS(name)                                                                                                            \
	static void name##_(void *arg);                                                                                        \
	static void name(void **state)                                                                                         \
	{                                                                                                                      \
		(void)state;                                                                                                   \
		initial = BEFORE;                                                                                              \
		more_volumes = OTHER_CLIENT("second") LACKING_CLIENT("lacking") WEIGHING_CLIENT("weighs", "1,1,1,4")           \
			WEIGHING_CLIENT("weighs-again", "3,1,1,2,9");                                                          \
		run(name##_, "", "256M");                                                                                      \
		initial = SUBVOLUMES;                                                                                          \
		more_volumes = "";                                                                                             \
	}                                                                                                                      \
	static void name##_(void *arg __attribute__((unused)))

void while_it_moves(struct layout *); /* that of the root */
/* A name that moves from there to the new one; or -1: one that does not move. In one of eight buffers. */
const char *moving_name(int from, const char *prefix);
int begin_to_move(void); /* nobody moves names: each operation meets them where they were */

extern char told[1024]; /* by the last command */
int command(const char *client, const char *verb, const char *second);
bool is_done(const char *client); /* its rebalance, in a while */
bool grows(const char *client);	  /* that one's rebalance comes to its end */
bool is_whole(void);		  /* fsck finds nothing */

int fill(void); /* NAMES of each of six kinds */
bool all_there(void);
bool all_at_their_owners(void);
int listed(void); /* names, or an error */

struct reader {
	struct file *dir;
	uint64_t offset;
	int names;
	bool end;
};
int read_more(struct reader *, uint32_t size);
int read_to_end(struct reader *);

/* What tasks do meanwhile. */
extern struct load {
	atomic_int running, wrong;
	atomic_bool stop;
} load;

/* grow-test-held.c */
extern const struct CMUnitTest held_up[];
extern const unsigned held_up_count;

/* grow-test-known.c */
extern const struct CMUnitTest known_tests[];
extern const unsigned known_tests_count;
#endif
