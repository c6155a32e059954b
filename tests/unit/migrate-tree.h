/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of bringing home share: more clients of the volume of dht-tree.h, one that brings, and what others do with the name meanwhile. */
#ifndef STRATUS_MIGRATE_TREE_H
#define STRATUS_MIGRATE_TREE_H
#include "dht-tree.h"

#include <stdatomic.h>

#define SWEEPS "option sweep-interval 10ms"
#define SECOND                                                                                                                                    \
	"volume second\n type cluster/dht\n option lean 0\n option initial 4\n option sweep-interval 10ms\n subvolumes e0 e1 e2 e3\nend-volume\n" \
	"volume h0\n type debug/hold\n subvolumes e0\nend-volume\n"                                                                               \
	"volume slow\n type cluster/dht\n option lean 0\n option initial 4\n option sweep-interval 1h\n subvolumes h0 e1 e2 e3\nend-volume\n"
#define MOVES(name, options)                                                                                                   \
	static void name##_(void *arg);                                                                                        \
	static void name(void **state)                                                                                         \
	{                                                                                                                      \
		(void)state;                                                                                                   \
		more_volumes = SECOND;                                                                                         \
		run(name##_, options, "64M");                                                                                  \
		more_volumes = "";                                                                                             \
	}                                                                                                                      \
	static void name##_(void *arg __attribute__((unused)))

extern char told[256]; /* by the last command */
int bring(const char *name);
bool brings(const char *name, const char *what); /* that is told of it */

/* What another task does with the name. */
struct deed {
	int (*perform)(const char *b);
	const char *b;
	int err;
	atomic_bool over;
};
extern const char *other_name;
void perform(void *deed);
int unlink_it(const char *b);
int rename_it(const char *b); /* to other_name */
int link_it(const char *b);

/* Another task that brings it, and stands still after so many messages. False: it has not so many, and is at its end. */
struct late {
	unsigned messages;
	char kind; /* or before the first rename from a name of that kind */
	atomic_bool begun;
	struct deed deed;
};
bool bring_late(struct late *, const char *name, unsigned messages);
bool bring_late_at(struct late *, const char *name, char kind);
void bring_ends(struct late *); /* it goes on, to its end */
#endif
