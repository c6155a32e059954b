/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of leave-test share: the last of four subvolumes is to leave, with clients that know and clients that do not; the rebalancer; and a tree that is to be whole. */
#ifndef STRATUS_LEAVE_TEST_H
#define STRATUS_LEAVE_TEST_H
#include "dht-tree.h"

#include <stdatomic.h>

/* IN_ROOT: names there for each number. */
enum { LEAVER = 3, NAMES = 24, MANY = 30, IN_ROOT = 4 };

/* "dht" knows that one leaves; "second" does not, nor does it move anything. "mover" has connections of its own, as one that was started anew. */
#define OWN_HANDLES                                                                                                              \
	"volume h0\n type test/handles\n subvolumes c0\nend-volume\nvolume h1\n type test/handles\n subvolumes c1\nend-volume\n" \
	"volume h2\n type test/handles\n subvolumes c2\nend-volume\nvolume h3\n type test/handles\n subvolumes c3\nend-volume\n" \
	"volume mover\n type cluster/dht\n option lean 0\n option leaving 3\n option sweep-interval 10ms\n subvolumes h0 h1 h2 h3\nend-volume\n"
#define OTHER_CLIENTS                                                                                                                            \
	"volume second\n type cluster/dht\n option lean 0\n option initial 4\n subvolumes c0 c1 c2 c3\nend-volume\n"                             \
	"volume third\n type cluster/dht\n option lean 0\n option leaving 3\n option sweep-interval 10ms\n subvolumes c0 c1 c2 c3\nend-volume\n" \
	"volume scatters\n type cluster/dht\n option lean 0\n option scatter 1\n subvolumes c0 c1 c2 c3\nend-volume\n"                           \
	"volume without\n type cluster/dht\n option lean 0\n option initial 3\n subvolumes c0 c1 c2\nend-volume\n"
#define LEAVES(name)                                                                                                           \
	static void name##_(void *arg);                                                                                        \
	static void name(void **state)                                                                                         \
	{                                                                                                                      \
		(void)state;                                                                                                   \
		more_volumes = OTHER_CLIENTS OWN_HANDLES;                                                                      \
		run(name##_, " option leaving 3\n option sweep-interval 10ms\n", "256M");                                      \
		more_volumes = "";                                                                                             \
	}                                                                                                                      \
	static void name##_(void *arg __attribute__((unused)))

extern char told[2048]; /* by the last command */
int command(const char *client, const char *verb, const char *second);
bool says(const char *client, const char *line); /* as the state of its rebalance, in a while */
bool leaves(const char *client);		 /* that one's rebalance comes to its end */
bool is_whole(void);				 /* fsck finds nothing */

/* In one of eight buffers. */
const char *path(const char *format, int i);
const char *path_in(const char *dir, const char *name);
int fill(int from, int to); /* of numbers, each of which has IN_ROOT names in the root */
bool all_there(int count);
int listed(const char *dir_path); /* names, or an error */

/* What tasks do meanwhile. */
extern struct load {
	atomic_bool stop;
	atomic_int running, wrong;
} load;
void wants(const char *what, const char *name, int got, int want); /* else it is wrong */

/* leave-test-directories.c */
extern const struct CMUnitTest directories[];
extern const unsigned directories_count;

/* leave-test-number.c */
extern const struct CMUnitTest numbers[];
extern const unsigned numbers_count;

/* leave-test-records.c */
extern const struct CMUnitTest records[];
extern const unsigned records_count;
#endif
