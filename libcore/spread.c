/* SPDX-License-Identifier: Apache-2.0 */
/* A request's task takes pieces of the work until none is left; tasks on other shards do so beside it. Who comes late finds nothing to do, so a busy
 * shard delays nobody: only pieces that were taken are waited for. */
#include "spread.h"

#include <stdlib.h>

#include "task.h"

struct work {
	atomic_uint next, done, users;
	unsigned count, piece;
	void (*fn)(void *arg, unsigned i);
	void *arg; /* the caller's: only used with a piece in hand */
	struct task *caller;
};

static void work_on(struct work *w)
{
	unsigned from;

	while ((from = atomic_fetch_add(&w->next, w->piece)) < w->count) {
		unsigned end = w->count - from < w->piece ? w->count : from + w->piece;

		for (unsigned i = from; i < end; i++)
			w->fn(w->arg, i);
		if (atomic_fetch_add(&w->done, end - from) + end - from == w->count && task_self() != w->caller)
			task_wake(w->caller);
	}
}

static void let_go(struct work *w)
{
	if (atomic_fetch_sub(&w->users, 1) == 1)
		free(w);
}

static void help(void *arg)
{
	work_on(arg);
	let_go(arg);
}

static void call_for_help(struct work *w, unsigned helpers)
{
	unsigned shards = runtime_shards(), own = shard_number(shard_self()), pieces = (w->count + w->piece - 1) / w->piece;

	for (unsigned i = 1; i < shards && i < pieces && i <= helpers; i++) {
		atomic_fetch_add(&w->users, 1);
		if (task_spawn(runtime_shard((own + i) % shards), help, w))
			atomic_fetch_sub(&w->users, 1); /* not the last: the caller is one */
	}
}

void spread_among(unsigned helpers, unsigned count, unsigned piece, void (*fn)(void *arg, unsigned i), void *arg)
{
	struct work *w = helpers && count > piece && runtime_shards() > 1 ? malloc(sizeof(*w)) : NULL;

	for (unsigned i = 0; i < count && !w; i++)
		fn(arg, i);
	if (!w)
		return;
	*w = (struct work){ .users = 1, .count = count, .piece = piece, .fn = fn, .arg = arg, .caller = task_self() };
	call_for_help(w, helpers);
	work_on(w);
	task_shield(true);
	while (atomic_load(&w->done) < count)
		task_wait(NO_DEADLINE);
	task_shield(false);
	let_go(w);
}

void spread(unsigned count, unsigned piece, void (*fn)(void *arg, unsigned i), void *arg)
{
	spread_among(count > piece ? runtime_free_cpus() : 0, count, piece, fn, arg);
}
