/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks: waiting, waking, deadlines, cancelling, and loops that are taken over from a blocking task. */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "task.h"

static int start(void **state)
{
	return runtime_start(2, (unsigned)(uintptr_t)*state);
}

static int stop(void **state)
{
	(void)state;
	runtime_stop();
	return 0;
}

static void add_one(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
}

static void every_spawned_task_runs(void **state)
{
	atomic_int count = 0;

	(void)state;
	for (int i = 0; i < 10000; i++)
		while (task_spawn(runtime_shard((unsigned)i), add_one, &count))
			usleep(100);
	assert_true(EVENTUALLY(count == 10000));
}

struct pair {
	_Atomic(struct task *) a, b;
	atomic_int turns_a, turns_b;
};

static void ping(void *arg)
{
	struct pair *p = arg;

	p->a = task_self();
	while (p->turns_a < 20000) {
		p->turns_a++;
		while (!p->b)
			task_yield();
		task_wake(p->b);
		while (p->turns_b < p->turns_a)
			task_wait(NO_DEADLINE);
	}
}

static void pong(void *arg)
{
	struct pair *p = arg;

	p->b = task_self();
	while (p->turns_b < 20000) {
		while (p->turns_a <= p->turns_b)
			task_wait(NO_DEADLINE);
		p->turns_b++;
		task_wake(p->a);
	}
}

static void no_wake_between_shards_is_lost(void **state)
{
	struct pair p = { NULL };

	(void)state;
	assert_int_equal(task_spawn(runtime_shard(0), ping, &p), 0);
	assert_int_equal(task_spawn(runtime_shard(1), pong, &p), 0);
	assert_true(EVENTUALLY(p.turns_a == 20000 && p.turns_b == 20000));
	struct runtime_stats s;
	assert_true(EVENTUALLY((runtime_stats(&s), s.tasks_live == 0)));
}

static void wait_once(void *arg)
{
	atomic_int *result = arg;
	int err;

	do
		err = task_wait(clock_ns() + 5 * 1000000);
	while (!err);
	atomic_store(result, err);
}

static void a_wait_ends_at_its_deadline(void **state)
{
	atomic_int result = 0;

	(void)state;
	assert_int_equal(task_call(wait_once, &result), 0);
	assert_int_equal(result, -ETIMEDOUT);
}

struct cancelled {
	_Atomic(struct task *) task;
	atomic_int shielded, open;
};

static void wait_twice(void *arg)
{
	struct cancelled *c = arg;

	task_shield(true);
	atomic_store(&c->task, task_self());
	c->shielded = task_wait(clock_ns() + 50 * 1000000);
	while (c->shielded == 0)
		c->shielded = task_wait(clock_ns() + 50 * 1000000);
	task_shield(false);
	c->open = task_wait(clock_ns() + 10000000000);
	while (c->open == 0)
		c->open = task_wait(clock_ns() + 10000000000);
}

static void a_cancel_waits_for_the_shield(void **state)
{
	struct cancelled c = { NULL };

	(void)state;
	assert_int_equal(task_spawn(NULL, wait_twice, &c), 0);
	assert_true(EVENTUALLY(c.task));
	task_cancel(c.task);
	assert_true(EVENTUALLY(c.open));
	assert_int_equal(c.shielded, -ETIMEDOUT);
	assert_int_equal(c.open, -ECANCELED);
}

struct blocker {
	int pipe[2];
	atomic_int others, done;
};

static void block(void *arg)
{
	struct blocker *b = arg;
	char byte;

	if (read(b->pipe[0], &byte, 1) == 1) /* the loop's thread is stuck here */
		b->done = 1;
}

static void a_blocking_task_delays_no_other(void **state)
{
	struct blocker b = { .others = 0 };
	struct runtime_stats s;

	(void)state;
	assert_int_equal(pipe(b.pipe), 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(task_spawn(runtime_shard(i), block, &b), 0);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(task_spawn(runtime_shard(i), add_one, &b.others), 0);
	assert_true(EVENTUALLY(b.others == 100));
	assert_int_equal(b.done, 0);
	runtime_stats(&s);
	assert_true(s.takeovers >= 4);
	assert_int_equal(write(b.pipe[1], "1234", 4), 4);
	assert_true(EVENTUALLY((runtime_stats(&s), s.tasks_live == 0)));
	close(b.pipe[0]);
	close(b.pipe[1]);
}

static int threads_now(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = -2; /* . and .. */

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void threads_of_a_burst_end(void **state)
{
	enum { BURST = 20, KEPT_AT_MOST = 10 };
	struct blocker b = { .others = 0 };
	char bytes[BURST] = "";
	struct runtime_stats s;
	int before = threads_now();

	(void)state;
	assert_int_equal(pipe(b.pipe), 0);
	for (unsigned round = 0; round < 2; round++) { /* the second: what is left still serves, and new ones are made */
		for (unsigned i = 0; i < BURST; i++)
			assert_int_equal(task_spawn(runtime_shard(i), block, &b), 0);
		assert_true(EVENTUALLY(threads_now() >= before + BURST - 2));
		assert_int_equal(write(b.pipe[1], bytes, BURST), BURST);
		for (int i = 0; i < 120 && threads_now() > before + KEPT_AT_MOST; i++)
			sleep(1);
		assert_true(threads_now() <= before + KEPT_AT_MOST);
	}
	assert_true(EVENTUALLY((runtime_stats(&s), s.tasks_live == 0))); /* nobody has the pipe any more */
	close(b.pipe[0]);
	close(b.pipe[1]);
}

static void ring(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
}

static void timers_ring_once_and_cancelled_ones_never(void **state)
{
	struct timer t[100] = { 0 };
	atomic_int rung = 0;

	(void)state;
	for (int i = 0; i < 100; i++) {
		t[i].fn = ring;
		t[i].arg = &rung;
		assert_int_equal(timer_set(runtime_shard(0), &t[i], clock_ns() + (uint64_t)(i % 10 + 2) * 100000000), 0);
	}
	for (int i = 0; i < 50; i++)
		timer_cancel(&t[i]);
	for (int i = 50; i < 100; i++)
		assert_int_equal(timer_set(runtime_shard(0), &t[i], clock_ns() + (uint64_t)(i % 7) * 1000000), 0);
	assert_true(EVENTUALLY(rung == 50));
}

static void deep(char *above, int levels)
{
	char here[512];

	here[0] = above[0];
	task_yield();
	if (levels)
		deep(here, levels - 1);
	above[0] = (char)(here[0] + 1);
}

static void dig(void *arg)
{
	char byte[1] = { 1 };

	deep(byte, 60);
	atomic_store((atomic_int *)arg, byte[0]);
}

static void stacks_keep_their_contents_over_switches(void **state)
{
	atomic_int result[20] = { 0 };

	(void)state;
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(task_spawn(runtime_shard(i), dig, &result[i]), 0);
	for (int i = 0; i < 20; i++)
		assert_true(EVENTUALLY(result[i]));
}

static void *spin(void *stop)
{
	while (!atomic_load((atomic_bool *)stop))
		;
	return NULL;
}

struct swing {
	_Atomic(struct task *) task[2];
	atomic_bool stop;
};

/* Wakes the other one, and waits: so both loops sleep shortly, again and again. */
static void swing(struct swing *s, int me)
{
	s->task[me] = task_self();
	while (!s->stop) {
		if (s->task[!me])
			task_wake(s->task[!me]);
		task_wait(clock_ns() + 500000);
	}
}
static void swing_here(void *arg)
{
	swing(arg, 0);
}
static void swing_there(void *arg)
{
	swing(arg, 1);
}

static bool polled_less_than_before(uint64_t before)
{
	struct runtime_stats s;

	runtime_stats(&s);
	return s.not_polled > before;
}

static void nobody_polls_while_threads_wait_for_cpus(void **state)
{
	unsigned spinners = (unsigned)sysconf(_SC_NPROCESSORS_ONLN) + 2;
	pthread_t thread[64];
	struct swing s = { .stop = false };
	struct runtime_stats before;
	atomic_bool enough = false;

	(void)state;
	if (spinners < 4 || spinners > 64 || access("/proc/loadavg", R_OK))
		skip(); /* one CPU: nobody ever polls. Many: this is no test of them */
	runtime_stats(&before);
	runtime_busy_poll(500000);
	for (unsigned i = 0; i < spinners; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, spin, &enough), 0);
	assert_int_equal(task_spawn(runtime_shard(0), swing_here, &s), 0);
	assert_int_equal(task_spawn(runtime_shard(1), swing_there, &s), 0);
	bool less = EVENTUALLY(polled_less_than_before(before.not_polled));
	runtime_busy_poll(0);
	enough = s.stop = true;
	for (unsigned i = 0; i < spinners; i++)
		pthread_join(thread[i], NULL);
	assert_true(less);
	assert_true(EVENTUALLY((runtime_stats(&before), before.tasks_live == 0)));
}

/* ---- the end ---- */

struct end {
	int threads;
	atomic_int spares, ran;
};

static void leave_a_spare(void *arg)
{
	task_blocks(); /* another thread drives the loop now, and this one is spare when the task has ended */
	atomic_fetch_add((atomic_int *)arg, 1);
}

/* When the spare one has gone, and the one of the other loop. It yields, so that its loop is not taken over before that. */
static void block_at_the_end(void *arg)
{
	struct end *e = arg;

	while (threads_now() > e->threads - 2)
		task_yield();
	task_spawn(runtime_shard(0), add_one, &e->ran);
	task_blocks();
}

static void what_is_left_is_done_though_a_loop_is_taken_over_at_the_end(void **state)
{
	struct end e = { 0 };

	(void)state;
	assert_int_equal(task_spawn(runtime_shard(0), leave_a_spare, &e.spares), 0);
	assert_true(EVENTUALLY(e.spares == 1));
	e.threads = threads_now() - 1; /* without the watchdog, which ends first */
	assert_int_equal(task_spawn(runtime_shard(0), block_at_the_end, &e), 0);
	runtime_stop();
	assert_int_equal(e.ran, 1);
	assert_int_equal(runtime_start(2, 0), 0);
}

#define TEST(name, flags)                                                                                                      \
	{                                                                                                                      \
#name, name, start, stop, (void *)(uintptr_t)(flags)                                                           \
	}
int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_spawned_task_runs, 0),
		TEST(no_wake_between_shards_is_lost, 0),
		TEST(no_wake_between_shards_is_lost, RUNTIME_NEVER_BLOCKS),
		TEST(a_wait_ends_at_its_deadline, 0),
		TEST(a_cancel_waits_for_the_shield, 0),
		TEST(a_blocking_task_delays_no_other, 0),
		TEST(threads_of_a_burst_end, 0),
		TEST(timers_ring_once_and_cancelled_ones_never, 0),
		TEST(stacks_keep_their_contents_over_switches, RUNTIME_NEVER_BLOCKS),
		TEST(nobody_polls_while_threads_wait_for_cpus, RUNTIME_NEVER_BLOCKS),
		TEST(what_is_left_is_done_though_a_loop_is_taken_over_at_the_end, 0),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
