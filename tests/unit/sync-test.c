/* SPDX-License-Identifier: Apache-2.0 */
/* Locks and conditions between tasks of several shards, and what one lets others help with. */
#include "test-tasks.h"
#include "test.h"

#include <errno.h>
#include <unistd.h>

#include "beside.h"
#include "request.h"
#include "spread.h"
#include "task.h"

static struct task_lock lock;
static long guarded;
static atomic_int ended;

static int start(void **state)
{
	(void)state;
	guarded = 0;
	ended = 0;
	return runtime_start(2, 0);
}

static void count_up(void *arg)
{
	(void)arg;
	for (int i = 0; i < 500; i++) {
		if (task_lock(&lock, NO_DEADLINE))
			return;
		long seen = guarded;
		if (i % 7 == 0)
			task_yield();
		guarded = seen + 1;
		task_unlock(&lock);
	}
	ended++;
}

static void a_lock_has_one_holder(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(task_spawn(runtime_shard(i), count_up, NULL), 0);
	assert_true(EVENTUALLY(ended == 20));
	assert_int_equal(guarded, 20 * 500);
}

static void hold(void *arg)
{
	atomic_int *phase = arg;

	if (task_lock(&lock, NO_DEADLINE))
		return;
	*phase = 1;
	while (*phase == 1)
		task_sleep_ms(1);
	task_unlock(&lock);
	ended++;
}

static void try_for_a_while(void *arg)
{
	atomic_store((atomic_int *)arg, task_lock(&lock, clock_ns() + 5000000));
}

static void who_gives_up_leaves_the_queue(void **state)
{
	atomic_int phase = 0, result = 1;

	(void)state;
	assert_int_equal(task_spawn(runtime_shard(0), hold, &phase), 0);
	assert_true(EVENTUALLY(phase == 1));
	assert_int_equal(task_call(try_for_a_while, &result), 0);
	assert_int_equal(result, -ETIMEDOUT);
	phase = 2;
	assert_true(EVENTUALLY(ended == 1));
	assert_int_equal(task_call(try_for_a_while, &result), 0);
	assert_int_equal(result, 0);
	lock.held = false;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct task_cond cond;
static int tokens;

static void take_token(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&mutex);
	while (!tokens)
		task_cond_wait(&cond, &mutex, NO_DEADLINE);
	tokens--;
	pthread_mutex_unlock(&mutex);
	ended++;
}

static void every_signal_serves_one_waiter(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(task_spawn(runtime_shard(i), take_token, NULL), 0);
	for (int i = 0; i < 100; i++) {
		pthread_mutex_lock(&mutex);
		tokens++;
		pthread_mutex_unlock(&mutex);
		task_cond_signal(&cond);
	}
	assert_true(EVENTUALLY(ended == 100));
	assert_int_equal(tokens, 0);
}

/* ---- spread ---- */

enum { ROUNDS = 200, NUMBERS = ROUNDS * 5 };
static atomic_uint marks[NUMBERS];

static void mark(void *arg, unsigned i)
{
	atomic_fetch_add(&marks[i], 1);
	atomic_fetch_add((atomic_uint *)arg, 1);
}

static void spread_many(void *arg)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		atomic_uint called = 0;
		unsigned count = round * 5;

		spread_among(1, count, 1 + round % 16, mark, &called);
		if (called != count)
			atomic_store((atomic_int *)arg, 1);
	}
	ended++;
}

static void each_number_is_called_once_and_waited_for(void **state)
{
	atomic_int wrong = 0;

	(void)state;
	for (unsigned i = 0; i < 6; i++)
		task_spawn(runtime_shard(i % 2), spread_many, &wrong);
	while (ended < 6)
		usleep(1000);
	assert_int_equal(wrong, 0);
	for (unsigned i = 0; i < NUMBERS; i++)
		assert_int_equal(marks[i], 6 * (ROUNDS - 1 - i / 5)); /* rounds that count further than it */
}

/* ---- beside ---- */

enum { BRANCHES = 5 };
struct parts {
	struct request rq;
	bool endless, right;
	unsigned begun, at_once, most, cancelled, ended;
	struct task *task;
};

static void part(void *arg, unsigned i, struct request *rq)
{
	struct parts *p = arg;

	p->right &= i == p->begun++ && rq != &p->rq && rq->uid == p->rq.uid && rq->task == task_self();
	p->at_once++;
	p->most = p->at_once > p->most ? p->at_once : p->most;
	if (p->endless)
		p->cancelled += task_wait(NO_DEADLINE) == -ECANCELED;
	for (int tries = 0; !p->endless && tries < 10000 && (!tries || p->begun < BRANCHES); tries++)
		task_sleep_ms(1); /* until all are at it, or not: if they go one after the other */
	p->at_once--;
	p->ended++;
}

static void ask_beside(void *arg)
{
	struct parts *p = arg;

	p->task = task_self();
	request_init(&p->rq, NULL, 0);
	p->rq.uid = 77;
	beside(&p->rq, BRANCHES, part, p);
	p->right &= p->ended == BRANCHES;
	request_finish(&p->rq);
}

static void cancel_soon(void *arg)
{
	struct parts *p = arg;

	while (!p->task || p->begun < BRANCHES)
		task_sleep_ms(1);
	task_cancel(p->task);
}

/* All on one shard. */
static void parts_go_side_by_side_and_end_together(void **state)
{
	struct parts p = { .right = true };

	(void)state;
	assert_int_equal(task_call(ask_beside, &p), 0);
	assert_true(p.right);
	assert_int_equal(p.most, BRANCHES);
}

static void a_cancel_is_one_of_all_parts(void **state)
{
	struct parts p = { .right = true, .endless = true };

	(void)state;
	assert_int_equal(task_spawn(runtime_shard(0), cancel_soon, &p), 0);
	assert_int_equal(task_call(ask_beside, &p), 0);
	assert_true(p.right);
	assert_int_equal(p.cancelled, BRANCHES);
}

static int start_one(void **state)
{
	(void)state;
	return runtime_start(1, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_lock_has_one_holder, start, tasks_stop),
		cmocka_unit_test_setup_teardown(who_gives_up_leaves_the_queue, start, tasks_stop),
		cmocka_unit_test_setup_teardown(every_signal_serves_one_waiter, start, tasks_stop),
		cmocka_unit_test_setup_teardown(each_number_is_called_once_and_waited_for, start, tasks_stop),
		cmocka_unit_test_setup_teardown(parts_go_side_by_side_and_end_together, start_one, tasks_stop),
		cmocka_unit_test_setup_teardown(a_cancel_is_one_of_all_parts, start_one, tasks_stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
