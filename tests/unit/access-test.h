/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of access-test share: callers, and objects that are the same for the kernel and over debug/memory. */
#ifndef STRATUS_ACCESS_TEST_H
#define STRATUS_ACCESS_TEST_H
#include "test.h"

#include <stdatomic.h>
#include <stdio.h>

#include "born.h"
#include "tree.h"

extern unsigned seed; /* of the dice */
extern atomic_int failures;
#define CHECK(condition)                                                                                                       \
	((condition) ? 0 : (fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition), failures++))

/* ---- access-test-objects.c ---- */
unsigned dice(unsigned sides); /* 0 to sides - 1 */

enum { GROUPS = 3 };
struct caller {
	uid_t uid;
	gid_t gid;
	int count;
	gid_t groups[GROUPS];
};
extern const gid_t all_groups[GROUPS];
struct caller caller_any(void);
void caller_become(struct tree *, const struct caller *); /* the tree's calls are this caller's from now on */
void caller_become_for_good(const struct caller *);	  /* the whole process, which has been forked for it */
const char *caller_text(const struct caller *);		  /* the same buffer each time */

struct object {
	char path[48];
	mode_t mode; /* with its type: S_IFREG or S_IFDIR */
	uid_t uid;
	gid_t gid;
	uint8_t acl[4 + 8 * 7];
	size_t acl_size; /* 0: none */
};
struct object object_any(const char *path, mode_t type);
void object_make(struct tree *, struct object *); /* on both sides */
const char *object_text(const struct object *);	  /* the same buffer each time */

/* ---- access-test-deeds.c ---- */
void deeds_like_the_kernel(void *tree); /* a task_fn */

/* ---- access-test-groups.c ---- */
void groups_like_a_walk(void *tree); /* a task_fn */

/* ---- access-test-sticky.c ---- */
void what_is_said_counts(void *tree); /* a task_fn */
void sent_again_is_done_once(void *tree);
void who_comes_between_is_spared(void *tree);
void what_comes_is_judged(void *tree);
void what_was_moved_before_is_judged(void *tree);
#endif
