/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/coordinator: the steps of a change of view. The test is the members and the register. */
#include "test-tasks.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator.h"

#define LEASE_LEFT_NS 50000000ull

static int failures;
static unsigned synced;	   /* members that were told to sync, before the view was stored */
static uint64_t synced_by; /* the process that was to do it, the last time one was named */
static int sync_err;
static unsigned unsure;	   /* members that do not know what became of earlier changes of which they have not heard */
static struct view stored; /* as the register has it */
static struct owed stored_owed;
static uint64_t stored_at_ns;
static unsigned listed; /* members whose index was asked for */

/* ---- what is around it ---- */

unsigned tell_members(struct coordinator *c, unsigned mask, enum replica_verb verb, const struct pack *more,
		      uint64_t timeout_ns)
{
	(void)c, (void)timeout_ns;
	if (verb == REPLICA_SYNC && !stored.epoch)
		synced |= mask;
	if (verb == REPLICA_ACTIVATE) {
		struct unpack u = { more->bytes, more->bytes + more->size, false };
		struct view v;

		unpack_view(&u, &v);
		unsure = unpack_u32(&u);
	}
	return mask;
}

int tell_member(struct coordinator *c, int member, enum replica_verb verb, struct pack *more)
{
	(void)c, (void)member, (void)verb;
	pack_free(more);
	return 0;
}

int ask_member(struct coordinator *c, int member, enum replica_verb verb, struct pack *more, struct blob *answer,
	       uint64_t deadline)
{
	struct unpack u = { more->bytes, more->bytes + more->size, false };

	(void)c, (void)answer, (void)deadline;
	if (verb == REPLICA_SYNC && !stored.epoch && !sync_err) {
		synced |= 1u << member;
		synced_by = unpack_u64(&u);
	}
	pack_free(more);
	return verb == REPLICA_SYNC ? sync_err : 0;
}

bool member_live(const struct coordinator *c, int i)
{
	return c->member[i].known;
}

int coordinator_spawn(struct coordinator *c, task_fn *fn, void *arg)
{
	(void)c;
	fn(arg);
	return 0;
}

void coordinator_task_ends(struct coordinator *c)
{
	(void)c;
}

void tell_writable(struct coordinator *c, bool quorum)
{
	c->writable = quorum;
}

int register_write(struct coordinator *c, const struct view *v, struct owed owed, uint64_t version)
{
	(void)c, (void)version;
	stored_owed = owed;
	stored = *v;
	stored_at_ns = clock_ns();
	return 0;
}

int list_index(struct coordinator *c, int member, uint64_t above, struct gfid_list *l)
{
	(void)c, (void)above, (void)l;
	listed |= 1u << member;
	return 0;
}

int pending_ask(struct coordinator *c, int member, uint64_t *count, bool *all, struct blob *answer, struct unpack *rest)
{
	(void)c, (void)member, (void)rest;
	*count = 0;
	*all = false;
	*answer = (struct blob){ 0 };
	return 0;
}

int notes_collect(struct coordinator *c, int member)
{
	(void)c, (void)member;
	return 0;
}

void notes_forgotten(struct coordinator *c, int member)
{
	(void)c, (void)member;
}

void notes_of_away(struct coordinator *c, unsigned others)
{
	(void)c, (void)others;
}

int notes_of_indexes(struct coordinator *c, const struct view *next, int *failed)
{
	(void)c, (void)next, (void)failed;
	return 0;
}

int notes_of_missed(struct coordinator *c, const struct view *next)
{
	(void)c, (void)next;
	return 0;
}

unsigned notes_send(struct coordinator *c, unsigned members)
{
	(void)c;
	return members;
}

void notes_free(struct coordinator *c)
{
	(void)c;
}

void list_add_all(struct gfid_list *to, const struct gfid_list *from)
{
	(void)to, (void)from;
}

void list_sort_unique(struct gfid_list *l)
{
	(void)l;
}

void list_free(struct gfid_list *l)
{
	(void)l;
}

void healers_stop(struct coordinator *c)
{
	(void)c;
}

void member_waits_longer(struct remote_member *m)
{
	(void)m;
}

/* ---- what holds ---- */

/* A coordinator of three, all of them IN. */
static struct coordinator *leader(void)
{
	struct coordinator *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	synced = listed = 0;
	synced_by = 0;
	sync_err = 0;
	stored = (struct view){ 0 };
	pthread_mutex_init(&c->lock, NULL);
	c->members = 3;
	c->lease_ms = 2000;
	c->view = (struct view){ .epoch = 1, .members = 3, .arbiter = REPLICAS_MAX, .order = { 0, 1, 2 } };
	for (int i = 0; i < 3; i++) {
		c->view.state[i] = MEMBER_IN;
		c->member[i].c = c;
		c->member[i].number = i;
		c->member[i].last.epoch = 1;
		c->member[i].last.incarnation = c->view.incarnation[i] = 10 + (uint64_t)i;
		c->member[i].known = true;
	}
	return c;
}

static int become(struct coordinator *c, enum member_state first, enum member_state second, enum member_state third,
		  uint32_t away)
{
	struct view next = c->view;

	next.state[0] = (uint8_t)first;
	next.state[1] = (uint8_t)second;
	next.state[2] = (uint8_t)third;
	next.away = away;
	return view_change(c, &next, false, "the test");
}

static void drop(struct coordinator **c)
{
	pthread_mutex_destroy(&(*c)->lock);
	free(*c);
}
#define cleanup_leader __attribute__((cleanup(drop)))

/* A power cut of those that are left must take nothing of what the missing ones have; and these are not given up. */
static void few_(void *arg)
{
	cleanup_leader struct coordinator *c = leader();

	(void)arg;
	CHECK_INT(become(c, MEMBER_IN, MEMBER_OUT, MEMBER_OUT, 6), 0);
	CHECK_INT(stored.away, 6);
	CHECK_INT(synced, 1);
	CHECK_INT(become(c, MEMBER_IN, MEMBER_IN, MEMBER_OUT, 4), 0); /* a quorum goes on without it */
	CHECK_INT(stored.away, 0);
}

static void leaves_(void *arg)
{
	cleanup_leader struct coordinator *c = leader();
	uint64_t end = clock_ns() + LEASE_LEFT_NS;

	(void)arg;
	c->member[2].lease_end_ns = end;
	CHECK_INT(become(c, MEMBER_IN, MEMBER_IN, MEMBER_OUT, 0), 0);
	CHECK_INT(stored_at_ns >= end, true);
}

static void comes_back_(void *arg)
{
	cleanup_leader struct coordinator *c = leader();

	(void)arg;
	c->view.state[2] = MEMBER_OUT;
	CHECK_INT(become(c, MEMBER_IN, MEMBER_IN, MEMBER_BACK, 0), 0);
	CHECK_INT(listed, 7);
}

/* Nobody else has everything until the recovery has ended: a power cut of the first must take nothing, and who is missing is not given up. */
static void cold_(void *arg)
{
	cleanup_leader struct coordinator *c = leader();

	(void)arg;
	c->owed.recovery = true;
	CHECK_INT(become(c, MEMBER_IN, MEMBER_OUT, MEMBER_IN, 2), 0);
	CHECK_INT(stored.away, 2);
	CHECK_INT(synced, 1);
	CHECK_INT(synced_by, 10);
	CHECK_INT(stored_owed.held, true);
	c->owed.recovery = false;
	CHECK_INT(become(c, MEMBER_IN, MEMBER_OUT, MEMBER_IN, 2), 0);
	CHECK_INT(stored.away, 0);
	CHECK_INT(stored_owed.held, false);
}

/* Who can't be asked is asked again; a disk that can't sync must not hold up the set for ever. */
static void cold_unsynced_(void *arg)
{
	cleanup_leader struct coordinator *c = leader();

	(void)arg;
	c->owed.recovery = true;
	sync_err = -EVIEW;
	CHECK_INT(become(c, MEMBER_IN, MEMBER_OUT, MEMBER_IN, 2), -EVIEW);
	CHECK_INT(stored.epoch, 0);
	sync_err = -EIO;
	CHECK_INT(become(c, MEMBER_IN, MEMBER_OUT, MEMBER_IN, 2), 0);
	CHECK_INT(stored_owed.held, false);
	sync_err = 0; /* what it could not write it is not told again */
	CHECK_INT(become(c, MEMBER_IN, MEMBER_OUT, MEMBER_IN, 2), 0);
	CHECK_INT(stored_owed.held, false);
	c->owed.recovery = false;
	CHECK_INT(become(c, MEMBER_IN, MEMBER_OUT, MEMBER_IN, 2), 0);
	c->owed.recovery = true;
	CHECK_INT(become(c, MEMBER_IN, MEMBER_OUT, MEMBER_IN, 2), 0);
	CHECK_INT(stored_owed.held, true);
}

/* It may have done, and forgotten, what never came to those that kept running. */
static void forgets_(void *arg)
{
	cleanup_leader struct coordinator *c = leader();
	struct view next = c->view;

	(void)arg;
	next.incarnation[1] = 99;
	CHECK_INT(view_change(c, &next, true, "the test"), 0);
	CHECK_INT(unsure, 0);
	next.incarnation[0] = 99;
	CHECK_INT(view_change(c, &next, true, "the test"), 0);
	CHECK_INT(unsure, 7);
}

static void hold_(void *arg)
{
	cleanup_leader struct coordinator *c = leader();

	(void)arg;
	few_hold(c);
	CHECK_INT(synced, 0); /* all are there: something may yet be acknowledged */
	c->member[0].known = false;
	c->member[0].lease_end_ns = UINT64_MAX;
	few_hold(c);
	CHECK_INT(synced, 0);
	c->member[0].known = true;
	c->member[0].last.incarnation = 99;
	sync_err = -EVIEW;
	few_hold(c);
	CHECK_INT(c->member[2].held_epoch, 0);
	sync_err = -EIO; /* a disk that fails is not asked at each heartbeat */
	few_hold(c);
	sync_err = 0;
	few_hold(c);
	CHECK_INT(synced, 0);
	for (int i = 0; i < 3; i++)
		c->member[i].hold_again_ns = 0;
	few_hold(c);
	CHECK_INT(synced, 6);
	CHECK_INT(synced_by, 12);
	CHECK_INT(c->member[0].held_epoch, 0);
	CHECK_INT(c->member[2].held_epoch, 1);
	synced = 0;
	few_hold(c);
	CHECK_INT(synced, 0);
}

static void run(task_fn *fn)
{
	failures = 0;
	assert_int_equal(task_call(fn, NULL), 0);
	assert_int_equal(failures, 0);
}

static void without_a_quorum_those_that_are_left_sync_and_remember_who_is_away(void **state)
{
	(void)state;
	run(few_);
}

static void a_view_without_a_member_waits_until_its_lease_has_ended(void **state)
{
	(void)state;
	run(leaves_);
}

static void before_a_recovery_from_it_the_first_syncs(void **state)
{
	(void)state;
	run(cold_);
	run(cold_unsynced_);
}

static void nobody_tells_that_a_change_was_not_done_if_the_truth_was_started_anew(void **state)
{
	(void)state;
	run(forgets_);
}

static void who_waits_for_others_syncs(void **state)
{
	(void)state;
	run(hold_);
}

/* What it did itself before it went nobody else may know of. */
static void who_comes_back_gets_what_its_own_index_tells_too(void **state)
{
	(void)state;
	run(comes_back_);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_quorum_those_that_are_left_sync_and_remember_who_is_away),
		cmocka_unit_test(a_view_without_a_member_waits_until_its_lease_has_ended),
		cmocka_unit_test(before_a_recovery_from_it_the_first_syncs),
		cmocka_unit_test(nobody_tells_that_a_change_was_not_done_if_the_truth_was_started_anew),
		cmocka_unit_test(who_waits_for_others_syncs),
		cmocka_unit_test(who_comes_back_gets_what_its_own_index_tells_too),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
