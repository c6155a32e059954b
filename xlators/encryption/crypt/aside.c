/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of one request side by side: each waits for the brick in a task of its own, on the same shard, while the request's task goes on. */
#include "crypt.h"

static void run(void *arg)
{
	struct aside *a = arg;
	bool cancelled;
	int err;

	pthread_mutex_lock(&a->lock);
	a->task = a->o.rq->task = task_self();
	cancelled = a->cancelled;
	pthread_mutex_unlock(&a->lock);
	err = cancelled ? -ECANCELED : a->fn(&a->o, a->arg);
	request_free(a->o.rq);
	pthread_mutex_lock(&a->lock);
	a->task = NULL;
	a->err = err;
	a->done = true;
	task_wake(a->caller);
	pthread_mutex_unlock(&a->lock); /* from here on the caller's memory may be gone */
}

void aside_start(struct aside *a, const struct op *o, int (*fn)(struct op *, void *), void *arg)
{
	*a = (struct aside){ .o = *o, .fn = fn, .arg = arg, .caller = task_self() };
	pthread_mutex_init(&a->lock, NULL);
	a->o.rq = request_copy(o->rq);
	if (a->o.rq && !task_spawn(task_shard(a->caller), run, a))
		return;
	if (a->o.rq)
		request_free(a->o.rq);
	a->o.rq = o->rq; /* memory is short: then one after the other */
	a->err = fn(&a->o, arg);
	a->done = true;
}

static bool is_done(struct aside *a, bool cancel)
{
	bool done;

	pthread_mutex_lock(&a->lock);
	done = a->done;
	if (cancel && !done) {
		a->cancelled = true;
		if (a->task)
			task_cancel(a->task);
	}
	pthread_mutex_unlock(&a->lock);
	return done;
}

int aside_end(struct aside *a, struct op *o)
{
	bool cancelled = false;
	int woken = 0;

	while (!is_done(a, woken == -ECANCELED)) {
		woken = task_wait(NO_DEADLINE);
		cancelled |= woken == -ECANCELED;
	}
	pthread_mutex_destroy(&a->lock);
	o->again |= a->o.again;
	if (a->err && a->o.why) {
		o->why = a->o.why;
		o->where = a->o.where;
	}
	return a->err ? a->err : cancelled ? -ECANCELED : 0;
}
