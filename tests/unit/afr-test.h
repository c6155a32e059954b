/* SPDX-License-Identifier: Apache-2.0 */
/* A set of members that the test holds in its hand: what the files of afr-test share. */
#ifndef STRATUS_AFR_TEST_H
#define STRATUS_AFR_TEST_H
#include "test-tasks.h"
#include "test.h"

#include <stdatomic.h>

#include "tree.h"

enum { MOST = 3, OWNER = 7, STRANGER = 8 };
extern struct tree tree; /* cluster/afr is on top; member[i], hold[i] and locks[i] one below the other */
extern struct client client;
extern int failures, members;
extern struct xlator *member[MOST], *hold[MOST], *locks[MOST];
extern struct file *file;      /* of make_file() */
extern atomic_int disbelieved; /* how often those above were told not to believe something any more */

/* The last of three is an arbiter. */
void on_set_with_arbiter(task_fn *);
void on_set(int count, task_fn *);
int make_file(void);	      /* "f", opened */
int make_unopened(void);      /* no member has been asked for it */
int make_named(const char *); /* the same, with another name */
unsigned counted_at(int i, const char *what);
bool parked_at(int i); /* hold[i] has something */
void say(struct xlator *to, char *word, char *more);
void all_say(char *word, char *more);
void next_view(void);
void view_number(char *number); /* so many more views than one there have been */
void let_go(int i);		/* of all that hold[i] keeps, and is to keep */
struct lock lock_of(uint32_t type, uint64_t owner);
int lock(struct xlator *at, struct file *through, struct lock);

/* afr-test-change.c */
extern const struct CMUnitTest changes[];
extern const unsigned changes_count;

/* afr-test-brought.c */
extern const struct CMUnitTest brought_tests[];
extern const unsigned brought_tests_count;

/* afr-test-owner.c */
extern const struct CMUnitTest owner_tests[];
extern const unsigned owner_tests_count;

/* afr-test-earlier.c */
extern const struct CMUnitTest earlier_tests[];
extern const unsigned earlier_tests_count;

/* afr-test-held.c */
extern const struct CMUnitTest held_tests[];
extern const unsigned held_tests_count;

/* afr-test-silent.c */
extern const struct CMUnitTest silent_tests[];
extern const unsigned silent_tests_count;
#endif
