/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/coordinator: what is owed is in the register, from when it is owed until it is done, so that the next coordinator knows. The test decides, and is the register. */
#include "test-tasks.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator.h"

enum { EPOCH = 7 };

static struct coordinator c;
static struct owed in_register;
static unsigned writes, turns;
static void (*turn)(unsigned n); /* what happens in that turn of the loop, from 1 */

/* ---- what is around it ---- */

int register_read(struct coordinator *me, struct view *v, struct owed *owed, uint64_t *version)
{
	(void)me;
	*v = (struct view){ .epoch = EPOCH, .members = 3 };
	*owed = in_register;
	*version = 1;
	return 0;
}

int register_write(struct coordinator *me, const struct view *v, struct owed owed, uint64_t version)
{
	(void)me, (void)v, (void)version;
	in_register = owed;
	writes++;
	return 0;
}

void decide(struct coordinator *me)
{
	me->view.epoch = EPOCH;
	turn(++turns);
}

bool decided(struct coordinator *me)
{
	(void)me;
	return true;
}

uint64_t register_handover_ns(void)
{
	return 0;
}

int coordinator_spawn(struct coordinator *me, task_fn *fn, void *arg)
{
	pthread_mutex_lock(&me->lock);
	me->tasks++;
	pthread_mutex_unlock(&me->lock);
	return task_spawn(NULL, fn, arg);
}

void coordinator_task_ends(struct coordinator *me)
{
	pthread_mutex_lock(&me->lock);
	me->tasks--;
	task_cond_broadcast(&me->changed);
	pthread_mutex_unlock(&me->lock);
}

int tell_member(struct coordinator *me, int member, enum replica_verb verb, struct pack *p)
{
	(void)me, (void)member, (void)verb, (void)p;
	return -ENOTCONN;
}

int coordinator_command(struct xlator *x, int argc, char **argv, FILE *f)
{
	(void)x, (void)argc, (void)argv, (void)f;
	return -EINVAL;
}

void coordinator_dump(struct xlator *x, FILE *f)
{
	(void)x, (void)f;
}

#define NOTHING(name)                                                                                                          \
	void name(struct coordinator *me)                                                                                      \
	{                                                                                                                      \
		(void)me;                                                                                                      \
	}
NOTHING(lacking_look)
NOTHING(departing_look)
NOTHING(scrub_owed)
NOTHING(healers_start)
NOTHING(healers_stop)
NOTHING(lacking_forget)
NOTHING(missed_clear)
NOTHING(notes_free)
NOTHING(scrub_halt)

void tell_writable(struct coordinator *me, bool quorum)
{
	(void)me, (void)quorum;
}

void lease_task(void *member)
{
	(void)member;
}

void list_free(struct gfid_list *list)
{
	(void)list;
}

void scrub_free(struct scrub *scrub)
{
	(void)scrub;
}

void session_recalled(struct coordinator *me, const struct gfid *g)
{
	(void)me, (void)g;
}

/* ---- the loop ---- */

extern const struct xlator_type xlator_type;

static void ends(void)
{
	atomic_store(&c.stopping, true);
}

static bool has_ended(void)
{
	bool yes;

	pthread_mutex_lock(&c.lock);
	yes = !c.tasks;
	pthread_mutex_unlock(&c.lock);
	return yes;
}

static void run_turns(struct owed stored, void (*what)(unsigned))
{
	struct xlator x = { .type = &xlator_type, .name = "coordinator", .private = &c };
	struct problem p = { "" };

	c = (struct coordinator){ .x = &x, .heartbeat_ms = 1, .sync_ms = 3600000, .limbo_epoch = EPOCH };
	pthread_mutex_init(&c.lock, NULL);
	in_register = stored;
	writes = turns = 0;
	turn = what;
	assert_int_equal(xlator_type.start(&x, &p), 0);
	assert_true(EVENTUALLY(has_ended()));
	pthread_mutex_destroy(&c.lock);
}

/* ---- what holds ---- */

static void finds_that_lists_lack_some(unsigned n)
{
	if (n == 2)
		c.owed.unlisted = true;
	if (n == 4)
		c.owed = (struct owed){ 0 };
	if (n == 6)
		ends();
	if (n <= 2)
		assert_int_equal(writes, 0);
	else
		assert_int_equal(writes, n < 5 ? 1 : 2);
	if (n == 3)
		assert_true(in_register.scrub && in_register.unlisted);
}

static void begins_to_owe(unsigned n)
{
	if (n == 2)
		c.owed.scrub = true;
	if (n == 4)
		ends();
	assert_int_equal(writes, n > 2);
}

static void what_comes_to_be_owed_and_what_is_done_are_in_the_register(void **state)
{
	(void)state;
	run_turns((struct owed){ .scrub = true }, finds_that_lists_lack_some);
	assert_false(in_register.scrub || in_register.unlisted);
	run_turns((struct owed){ 0 }, begins_to_owe);
	assert_true(in_register.scrub && !in_register.unlisted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_comes_to_be_owed_and_what_is_done_are_in_the_register),
	};

	setenv("CMOCKA_TEST_ABORT", "1", 1); /* a failed assertion in a task must not longjmp to another stack */
	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
