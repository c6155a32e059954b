/* SPDX-License-Identifier: Apache-2.0 */
/* Timers: a binary heap for each shard, under the shard's lock. */
#include <errno.h>
#include <stdlib.h>

#include "task-internal.h"

static void put(struct shard *s, unsigned at, struct timer *t)
{
	s->heap[at] = t;
	t->slot = at + 1;
}

static void sift_up(struct shard *s, unsigned at, struct timer *t)
{
	while (at && s->heap[(at - 1) / 2]->at_ns > t->at_ns) {
		put(s, at, s->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	put(s, at, t);
}

static void sift_down(struct shard *s, unsigned at, struct timer *t)
{
	for (;;) {
		unsigned child = 2 * at + 1;

		if (child >= s->heap_count)
			break;
		if (child + 1 < s->heap_count && s->heap[child + 1]->at_ns < s->heap[child]->at_ns)
			child++;
		if (s->heap[child]->at_ns >= t->at_ns)
			break;
		put(s, at, s->heap[child]);
		at = child;
	}
	put(s, at, t);
}

static void take_out(struct shard *s, struct timer *t)
{
	unsigned at = t->slot - 1;
	struct timer *last = s->heap[--s->heap_count];

	t->slot = 0;
	if (last == t)
		return;
	if (at && s->heap[(at - 1) / 2]->at_ns > last->at_ns)
		sift_up(s, at, last);
	else
		sift_down(s, at, last);
}

static bool room(struct shard *s)
{
	unsigned wanted = s->heap_room ? 2 * s->heap_room : 64;
	struct timer **heap;

	if (s->heap_count < s->heap_room)
		return true;
	heap = realloc(s->heap, wanted * sizeof(*heap));
	if (!heap)
		return false;
	s->heap = heap;
	s->heap_room = wanted;
	return true;
}

int timer_set(struct shard *s, struct timer *t, uint64_t at_ns)
{
	bool kick = false;
	int err = 0;

	pthread_mutex_lock(&s->lock);
	if (t->slot)
		take_out(s, t);
	t->shard = s;
	t->at_ns = at_ns;
	if (room(s)) {
		sift_up(s, s->heap_count++, t);
		kick = t->slot == 1 && s->sleeping; /* the loop sleeps until a later one */
	} else {
		err = -ENOMEM;
	}
	pthread_mutex_unlock(&s->lock);
	if (kick)
		shard_kick(s);
	return err;
}

void timer_cancel(struct timer *t)
{
	struct shard *s = t->shard;

	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	if (t->slot)
		take_out(s, t);
	pthread_mutex_unlock(&s->lock);
}

int timers_run(struct shard *s)
{
	int left = -1;

	for (;;) {
		struct timer *due = NULL;

		pthread_mutex_lock(&s->lock);
		if (s->heap_count) {
			uint64_t now = clock_ns(), at = s->heap[0]->at_ns;

			if (at <= now) {
				due = s->heap[0];
				take_out(s, due);
			} else {
				uint64_t ms = (at - now + 999999) / 1000000;
				left = ms > 60000 ? 60000 : (int)ms;
			}
		}
		pthread_mutex_unlock(&s->lock);
		if (!due)
			return left;
		due->fn(due->arg);
	}
}
