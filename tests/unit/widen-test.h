/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of widen-test share: who widens, and what is in the directories. */
#ifndef STRATUS_WIDEN_TEST_H
#define STRATUS_WIDEN_TEST_H
#include "dht-tree.h"

#include "place.h"

enum { FEW = 6 }; /* names, which are many under few_are_many() */

#define OTHER_CLIENT(name)                                                                                                     \
	"volume " name "\n type cluster/dht\n option lean 0\n option sweep-interval 10ms\n subvolumes c0 c1 c2 c3\nend-volume\n"

int widening(const char *client, const char *verb);
bool is_whole(void); /* fsck finds nothing */
int layout_at(int child, const struct gfid *gfid, const char *path,
	      struct layout *l); /* as the brick has it; version 0: it has none */
unsigned members_of(const char *path, bool *settled);

/* Files called `what` and a number. */
const char *in(const char *dir, const char *what, int i);
int fill(const char *dir, const char *what, int from, int to);
int missing(const char *dir, const char *what, int to);
int listed(const char *dir);
int removed(const char *dir, const char *what, int to);

/* widen-test-cut.c */
void clear_directory(const char *dir);
void few_are_many(void (*fn)(void *));
void what_one_began_to_widen_another_ends(void **state);
void who_dies_while_a_wide_directory_goes_has_removed_it_or_not(void **state);
void names_are_made_again_where_a_wide_directory_dies_for_nobody(void **state);
#endif
