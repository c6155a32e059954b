/* SPDX-License-Identifier: Apache-2.0 */
/* A branch does each part, and the caller only waits: so a cancel of it is one of all. */
#include "beside.h"

#include <errno.h>
#include <stdlib.h>

#include "request.h"
#include "task.h"

struct branch {
	struct branches *all;
	struct request *rq;
	struct task *task; /* while it runs; guarded by the lock */
	unsigned number;
};

struct branches {
	pthread_mutex_t lock; /* guards all below */
	struct task *caller;
	unsigned running;
	bool cancelled;
	void (*fn)(void *arg, unsigned i, struct request *rq);
	void *arg;
	struct branch branch[];
};

static void run(void *arg)
{
	struct branch *b = arg;
	struct branches *all = b->all;
	struct task *caller = all->caller;

	pthread_mutex_lock(&all->lock);
	b->task = b->rq->task = task_self();
	if (all->cancelled)
		task_cancel(b->task);
	pthread_mutex_unlock(&all->lock);
	all->fn(all->arg, b->number, b->rq);
	request_free(b->rq);
	pthread_mutex_lock(&all->lock);
	b->task = NULL;
	all->running--;
	pthread_mutex_unlock(&all->lock);
	task_wake(caller); /* `all` may be gone */
}

static bool start(struct branches *all, struct request *rq, unsigned i)
{
	struct branch *b = &all->branch[i];

	*b = (struct branch){ .all = all, .rq = request_copy(rq), .number = i };
	if (!b->rq)
		return false;
	pthread_mutex_lock(&all->lock);
	all->running++;
	pthread_mutex_unlock(&all->lock);
	if (!task_spawn(task_shard(task_self()), run, b))
		return true;
	pthread_mutex_lock(&all->lock);
	all->running--;
	pthread_mutex_unlock(&all->lock);
	request_free(b->rq);
	return false;
}

static unsigned still_running(struct branches *all)
{
	unsigned n;

	pthread_mutex_lock(&all->lock);
	n = all->running;
	pthread_mutex_unlock(&all->lock);
	return n;
}

static void cancel_all(struct branches *all, unsigned count)
{
	pthread_mutex_lock(&all->lock);
	all->cancelled = true; /* those that have not begun yet see it then */
	for (unsigned i = 0; i < count; i++)
		if (all->branch[i].task)
			task_cancel(all->branch[i].task);
	pthread_mutex_unlock(&all->lock);
}

static void await(struct branches *all, unsigned count)
{
	while (still_running(all))
		if (task_wait(NO_DEADLINE) == -ECANCELED)
			cancel_all(all, count);
}

void beside(struct request *rq, unsigned count, void (*fn)(void *arg, unsigned i, struct request *rq), void *arg)
{
	struct branches *all = count > 1 ? calloc(1, sizeof(*all) + count * sizeof(all->branch[0])) : NULL;
	unsigned begun = 0;

	if (all) {
		pthread_mutex_init(&all->lock, NULL);
		all->caller = task_self();
		all->fn = fn;
		all->arg = arg;
		while (begun < count && start(all, rq, begun))
			begun++;
		await(all, begun);
		pthread_mutex_destroy(&all->lock);
		free(all);
	}
	for (unsigned i = begun; i < count; i++)
		fn(arg, i, rq);
}
