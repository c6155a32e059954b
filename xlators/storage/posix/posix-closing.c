/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that closes the last descriptors of removed objects.
 *
 * That is when the file system frees their blocks, and perhaps tells the disk so (mount option `discard`), which takes longer than all else that a
 * removal is. On the thread of a shard it would delay whatever comes next. (XFS has such a thread of its own, "inodegc"; ext4 has not.)
 * It is one for each brick: a disk that hangs keeps no other brick from freeing space. */
#include <signal.h>
#include <time.h>

#include "posix.h"

/* Waking the thread costs about as much as one removal. So it waits for more, and closes them one after the other. And it leaves alone what was removed a
 * moment ago: mostly the directory that had it is removed next, and Linux, which looks at all that it knows of a directory that goes (shrink_dcache_parent), spins
 * while any of that is just being freed. */
enum { OLD_NS = 100000000, GATHER_NS = 20000000, SECOND_NS = 1000000000, TRIES = 3 };

void closing_init(struct closing *c)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&c->came, &monotonic);
	pthread_cond_init(&c->closed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_mutex_init(&c->lock, NULL);
}

static bool in_hurry(const struct closing *c)
{
	return c->hurried || c->ending;
}

static bool are_many(const struct closing *c)
{
	return c->taken - c->done > c->most / 2;
}

static void wait_until(struct closing *c, uint64_t until_ns)
{
	struct timespec until = { (time_t)(until_ns / SECOND_NS), (long)(until_ns % SECOND_NS) };
	int err = 0;

	c->gathering = true;
	while (!err && !in_hurry(c) && !are_many(c))
		err = pthread_cond_timedwait(&c->came, &c->lock, &until);
	c->gathering = false;
}

/* Until there is something to close, and it is old, and a while longer. The lock is held. */
static void gather(struct closing *c)
{
	c->asleep = true;
	while (c->taken == c->done && !c->ending)
		pthread_cond_wait(&c->came, &c->lock);
	c->asleep = false;
	if (c->taken > c->done)
		wait_until(c, c->ring[c->done % CLOSING_MAX].came_ns + OLD_NS + GATHER_NS);
}

static bool may_close(const struct closing *c, bool many, uint64_t now)
{
	uint64_t left = c->taken - c->done;

	return left && (in_hurry(c) || (many && left > c->most / 4) || c->ring[c->done % CLOSING_MAX].came_ns + OLD_NS < now);
}

static void close_next(struct closing *c)
{
	int fd = c->ring[c->done % CLOSING_MAX].fd;

	pthread_mutex_unlock(&c->lock);
	close(fd);
	atomic_fetch_sub(&c->waiting, 1);
	pthread_mutex_lock(&c->lock);
	c->done++;
	if (c->hurried)
		pthread_cond_broadcast(&c->closed);
}

static void *closing_main(void *arg)
{
	struct closing *c = arg;

	pthread_mutex_lock(&c->lock);
	while (!c->ending || c->done < c->taken) {
		gather(c);
		bool many = are_many(c);
		for (uint64_t now = clock_ns(); may_close(c, many, now);)
			close_next(c);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* Signals are for other threads. The lock is held. */
static bool started(struct closing *c)
{
	sigset_t all, old;

	if (c->started)
		return true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	c->started = !pthread_create(&c->thread, NULL, closing_main, c);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return c->started;
}

bool close_late(struct brick *b, int fd)
{
	struct closing *c = &b->closing;
	bool room;

	pthread_mutex_lock(&c->lock);
	room = c->taken - c->done < c->most && started(c);
	if (room) {
		c->ring[c->taken++ % CLOSING_MAX] = (struct closing_one){ fd, clock_ns() };
		atomic_fetch_add(&c->waiting, 1);
	}
	if (room && (c->asleep || (c->gathering && are_many(c))))
		pthread_cond_signal(&c->came);
	pthread_mutex_unlock(&c->lock);
	return room;
}

/* The first time always: it may have been closed between the refusal and this look. And not for as long as others remove. */
bool close_now(struct brick *b, unsigned *tries)
{
	struct closing *c = &b->closing;
	bool first = !*tries, some;
	uint64_t until;

	if ((*tries)++ == TRIES)
		return false;
	if (!atomic_load(&c->waiting))
		return first;
	task_blocks();
	pthread_mutex_lock(&c->lock);
	until = c->taken;
	some = c->done < until;
	c->hurried++;
	pthread_cond_signal(&c->came);
	while (c->done < until)
		pthread_cond_wait(&c->closed, &c->lock);
	c->hurried--;
	pthread_mutex_unlock(&c->lock);
	return some || first;
}

void closing_end(struct closing *c)
{
	bool was_started;

	pthread_mutex_lock(&c->lock);
	c->ending = true;
	was_started = c->started;
	pthread_cond_signal(&c->came);
	pthread_mutex_unlock(&c->lock);
	if (was_started)
		pthread_join(c->thread, NULL);
	c->started = c->ending = false;
}
