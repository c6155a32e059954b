/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of fsck-test share: who runs it, what it told, and what is right beside what is found. */
#ifndef STRATUS_FSCK_TEST_H
#define STRATUS_FSCK_TEST_H
#include "dht-tree.h"

#ifdef __SANITIZE_THREAD__ /* which is slow, and not there for this: not at each, and one round, whatever it finds */
enum { STEP = 6, SLOW = 2, ROUNDS = 1, ENOUGH = 0, LOOKS = 4 };
#else
enum { STEP = 1, SLOW = 1, ROUNDS = 20, ENOUGH = 2, LOOKS = 20 };
#endif

extern char *told; /* by the last fsck */

int fsck(const char *words); /* runs it. What was told is in `told` */
int count(const char *line); /* such lines in `told` */
bool is_clean(void);
bool found_and_mended(const char *what, int number); /* told, nothing changed; put right; clean */

/* name_at, in a buffer that is kept longer. In the place of the first subvolume, if that has left, the last. */
const char *named(int child, const char *prefix);
const char *lost_name(const struct gfid *, char path[64]);
void at_brick(int child);

/* What is right, and stays: a file in a directory, one with names at two subvolumes, one that was renamed to another one. */
extern char kept[3][64];
int build_kept(void);
bool is_kept(void);

/* fsck-test-under-way.c */
extern const struct CMUnitTest under_way[];
extern const unsigned under_way_count;
#endif
