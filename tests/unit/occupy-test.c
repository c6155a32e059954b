/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that occupies a CPU: it comes when it is told to, leaves when its time is over, and for whoever else wants that CPU. */
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "occupy.h"
#include "task.h"

enum { SECOND = 1000000000 };

static struct occupy_stats now(void)
{
	struct occupy_stats s;

	occupy_stats(&s);
	return s;
}

static int end(void **state)
{
	(void)state;
	occupy_end();
	return 0;
}

/* On a machine whose CPUs others want it may be refused at first. */
static bool begins_after(uint64_t before, uint64_t for_ns)
{
	occupy_until(clock_ns() + for_ns);
	return now().begun > before;
}

static void it_begins_when_told_and_sleeps_when_its_time_is_over(void **state)
{
	(void)state;
	assert_true(now().parked);
	for (int i = 0; i < 20; i++) {
		uint64_t before = now().begun;

		assert_true(EVENTUALLY(begins_after(before, SECOND / 1000)));
		assert_true(EVENTUALLY(now().parked));
	}
}

static void it_is_ended_while_it_occupies(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		uint64_t before = now().begun;

		assert_true(EVENTUALLY(begins_after(before, 60ul * SECOND)));
		occupy_end();
		assert_true(now().parked);
	}
}

static void *spin(void *stop)
{
	while (!atomic_load((atomic_bool *)stop))
		;
	return NULL;
}

static bool gave_way_after(uint64_t before)
{
	occupy_until(clock_ns() + SECOND);
	return now().given_way > before;
}

/* All on one CPU: whoever yields there waits for a slice of the other one. */
static void it_stays_away_from_a_cpu_that_others_want(void **state)
{
	cpu_set_t before, one;
	pthread_t thread;
	atomic_bool enough = false;
	int cpu = sched_getcpu();

	(void)state;
	CPU_ZERO(&one);
	CPU_SET(cpu < 0 ? 0 : cpu, &one);
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(pthread_create(&thread, NULL, spin, &enough), 0);
	uint64_t given_way = now().given_way;
	bool left = EVENTUALLY(gave_way_after(given_way));
	bool refused = EVENTUALLY(!occupy_until(clock_ns() + SECOND));
	enough = true;
	pthread_join(thread, NULL);
	uint64_t begun = now().begun;
	bool again = EVENTUALLY(begins_after(begun, SECOND / 1000));
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	assert_true(left);
	assert_true(refused);
	assert_true(again);
}

/* What comes, comes at once: one who answers each event. */
struct asked {
	struct watch watch; /* first: the callback gets its address */
	atomic_ulong served;
};

static void serve(struct watch *w, uint32_t events)
{
	uint64_t count;

	(void)events;
	if (read(w->fd, &count, sizeof(count)) == sizeof(count))
		atomic_fetch_add(&((struct asked *)w)->served, count);
}

static bool looked_after(const struct runtime_stats *before, struct asked *a)
{
	struct runtime_stats s;
	uint64_t one = 1;

	for (int i = 0; i < 32; i++) {
		unsigned long served = atomic_load(&a->served);

		assert_int_equal(write(a->watch.fd, &one, sizeof(one)), sizeof(one));
		while (atomic_load(&a->served) == served)
			sched_yield();
	}
	runtime_stats(&s);
	return s.occupied > before->occupied || s.not_polled > before->not_polled;
}

/* Or it does not poll at all, since CPUs are short. */
static void a_loop_that_shares_its_cpu_has_the_other_one_occupied(void **state)
{
	struct asked a = { .watch = { .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), .ready = serve } };
	struct runtime_stats before;

	(void)state;
	if (sysconf(_SC_NPROCESSORS_ONLN) != 2 || access("/proc/loadavg", R_OK))
		skip();
	assert_int_equal(runtime_start(2, RUNTIME_NEVER_BLOCKS), 0);
	runtime_stats(&before);
	runtime_busy_poll(500000);
	runtime_share_cpu(true);
	assert_int_equal(shard_watch(runtime_shard(0), &a.watch, EPOLLIN), 0);
	bool looked = EVENTUALLY(looked_after(&before, &a));
	runtime_share_cpu(false);
	runtime_busy_poll(0);
	runtime_stop();
	close(a.watch.fd);
	assert_true(looked);
	assert_true(now().parked);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(it_begins_when_told_and_sleeps_when_its_time_is_over, end),
		cmocka_unit_test_teardown(it_is_ended_while_it_occupies, end),
		cmocka_unit_test_teardown(it_stays_away_from_a_cpu_that_others_want, end),
		cmocka_unit_test_teardown(a_loop_that_shares_its_cpu_has_the_other_one_occupied, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
