/* SPDX-License-Identifier: Apache-2.0 */
/* What stands on a brick, and whose it is, found by a walk through its directory that shares no code with the counters (doc/usage.md). */
#ifndef STRATUS_WALK_H
#define STRATUS_WALK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct problem;
struct walk_account {
	uint64_t base, count;  /* its user ids; count 0: all that are nobody else's */
	int64_t bytes, inodes; /* found */
};
/* Adds up what is below the directory, but its .stratus, for the accounts: the first is nobody's, the others stand by `base`, and have no ids in common; and for the directories with
 * limits, whose tag is `base`, and which stand by it, too. Needs the rights to read all and to open handles. in_set: a member of a replica set, where directories are charged as empty ones, and
 * further names apart. What comes and goes meanwhile may be met or not. 0, or -errno and a sentence. */
int walk_brick(const char *brick, bool in_set, struct walk_account *, size_t count, struct walk_account *directory,
	       size_t directories, struct problem *);
#endif
