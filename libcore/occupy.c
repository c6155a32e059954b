/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that occupies the other one of two CPUs.
 *
 * A program and the loop that serves it wake each other in turn. The kernel puts a thread that wakes up on a CPU that has nothing to do, if
 * there is one, so of two CPUs each wake goes to the other: an interrupt to it, which costs a virtual machine 25 to 30 us, most of it
 * processor time of who sends it. That is so, too, if the loop polls: then one of the two wakes is left. While the other CPU has something
 * to do both stay on one, and a request is two switches (3 us). So instead of the loop this thread polls, for nothing: it yields again and again. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "occupy.h"
#include "task.h"

static struct {
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t wake;
	pthread_t thread;
	bool there, ending;
	atomic_bool parked; /* it is not there, sleeps, or is about to look whether it may */
	atomic_uint_fast64_t until_ns, not_before_ns;
	atomic_uint_fast64_t begun, given_way;
} occupant = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .parked = true };

static bool may_occupy(uint64_t now)
{
	return now >= atomic_load(&occupant.not_before_ns);
}

static bool wanted(void)
{
	uint64_t now = clock_ns();

	return now < atomic_load(&occupant.until_ns) && may_occupy(now);
}

static void spin(void)
{
	uint64_t now = clock_ns(), before;

	atomic_fetch_add(&occupant.begun, 1);
	while (now < atomic_load(&occupant.until_ns)) {
		sched_yield();
		before = now;
		now = clock_ns();
		if (now - before <= CROWDED_NS)
			continue;
		atomic_store(&occupant.not_before_ns, now + CROWDED_SHARE * (now - before));
		atomic_fetch_add(&occupant.given_way, 1);
		return;
	}
}

static void *occupy(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&occupant.lock);
	while (!occupant.ending) {
		atomic_store(&occupant.parked, true); /* before it looks: who sets a new time looks at this after it */
		if (!wanted()) {
			pthread_cond_wait(&occupant.wake, &occupant.lock);
			continue;
		}
		atomic_store(&occupant.parked, false);
		pthread_mutex_unlock(&occupant.lock);
		spin();
		pthread_mutex_lock(&occupant.lock);
	}
	atomic_store(&occupant.parked, true);
	pthread_mutex_unlock(&occupant.lock);
	return NULL;
}

static bool start_or_wake(void)
{
	sigset_t all, old;

	pthread_mutex_lock(&occupant.lock);
	if (!occupant.there) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
		occupant.there = pthread_create(&occupant.thread, NULL, occupy, NULL) == 0;
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	}
	if (atomic_exchange(&occupant.parked, false))
		pthread_cond_signal(&occupant.wake);
	bool there = occupant.there;
	pthread_mutex_unlock(&occupant.lock);
	return there;
}

bool occupy_until(uint64_t ns)
{
	if (!may_occupy(clock_ns()))
		return false;
	atomic_store(&occupant.until_ns, ns);
	return !atomic_load(&occupant.parked) || start_or_wake();
}

void occupy_end(void)
{
	pthread_mutex_lock(&occupant.lock);
	bool there = occupant.there;
	occupant.ending = true;
	atomic_store(&occupant.until_ns, 0);
	pthread_cond_signal(&occupant.wake);
	pthread_mutex_unlock(&occupant.lock);
	if (there)
		pthread_join(occupant.thread, NULL);
	occupant.there = occupant.ending = false;
}

void occupy_stats(struct occupy_stats *stats)
{
	*stats = (struct occupy_stats){ occupant.begun, occupant.given_way, occupant.parked };
}
