/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of features/locks share: a file of debug/memory below it, three clients, and what they ask. */
#ifndef LOCKS_TEST_H
#define LOCKS_TEST_H
#include "test-check.h"
#include "test-tasks.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>

#include "tree.h"

struct world {
	struct tree tree;
	struct file *file;
};
extern struct client clients[3];
extern atomic_int failures;
extern const char plain[], large[]; /* volfiles: 100 locks for each client; 40,000 */
void open_world(struct world *, const char *volfile);
void close_world(struct world *);
int set(struct world *, int client, struct lock);
int set_now(struct world *, int client, struct lock); /* by a task of its own */
void gone(struct world *, int client);		      /* its session ends */
uint64_t counter(struct world *, const char *name);   /* of the dump */
/* The type of the lock that stands in the way of a write lock of nobody's. */
uint32_t seen(struct world *, enum lock_kind, uint64_t start, uint64_t end);
struct lock flock_of(uint32_t type, uint64_t owner);
struct lock posix(uint32_t type, uint64_t owner, uint64_t start, uint64_t end);
struct lock waiting(struct lock);
struct lock reclaiming(struct lock);

struct asker {
	struct world *world;
	int client;
	struct lock lock;
	struct task *task;
	atomic_int result; /* 1: not yet */
	atomic_int *order;
	int place;
};
void ask(void *asker);		   /* a task */
void ask_and_wait(struct asker *); /* starts it and waits until it really waits */
/* Many who ask as `like` does, each with an owner of its own; they all wait. And how many of them have that result. */
void park(struct asker *, int count, struct asker like);
int count_of(struct asker *, int count, int result);

/* locks-test-grace.c */
typedef void test_fn(void **state);
test_fn a_client_is_recorded_from_its_first_lock_to_its_end, who_takes_a_lock_while_its_record_is_to_be_removed_keeps_both,
	in_the_grace_period_locks_are_reclaimed_before_new_ones_are_granted, who_had_no_lock_reclaims_nothing_and_is_told,
	the_grace_period_ends_and_forgets_who_did_not_come, a_wrong_state_dir_is_an_error_at_start;

/* locks-test-limits.c */
test_fn one_client_gets_so_many_locks_and_no_more, many_locks_and_many_who_wait_do_not_go_together,
	a_flock_that_may_not_change_its_type_stays_what_it_was, a_flock_that_changes_its_type_keeps_its_place_among_so_many,
	the_clients_of_one_tenant_get_so_many_locks_together, nor_does_one_who_reclaims_get_more,
	the_id_of_another_tenants_client_is_of_no_use;
#endif
