/* SPDX-License-Identifier: Apache-2.0 */
/* Fan-out: one fop to several children, each in a task of its own. */
#include <assert.h>

#include "graph.h"

struct branch {
	struct fanout *f;
	struct request *rq;
	struct task *task; /* while it runs; guarded by the fan-out's lock */
	int child, status;
	bool started, done;
	void *out;
};

/* Referred to by the caller and by each branch that runs: the last one frees it. */
struct fanout {
	pthread_mutex_t lock; /* guards all below */
	struct task_cond answered;
	struct xlator *x;
	enum fop fop;
	void *in;
	int refs, running, succeeded;
	bool left;
	void (*late)(struct xlator *, int, int, const void *);
	int children;
	struct branch branch[];
};

static void fanout_unref(struct fanout *f)
{
	struct graph *graph = f->x->graph;
	int left;

	pthread_mutex_lock(&f->lock);
	left = --f->refs;
	pthread_mutex_unlock(&f->lock);
	if (left)
		return;
	if (f->in)
		fop_in_clear((int)f->fop, f->in);
	free(f->in);
	for (int i = 0; i < f->children; i++) {
		struct branch *b = &f->branch[i];

		if (b->out)
			fop_out_clear((int)f->fop, b->out);
		free(b->out);
		if (b->rq)
			request_free(b->rq);
	}
	pthread_mutex_destroy(&f->lock);
	free(f);
	atomic_fetch_sub(&graph->requests, 1); /* last: now the graph may go */
}

static void run_branch(void *arg)
{
	struct branch *b = arg;
	struct fanout *f = b->f;
	bool left;
	int err;

	pthread_mutex_lock(&f->lock);
	b->task = b->rq->task = task_self();
	pthread_mutex_unlock(&f->lock);
	err = fop_call(b->rq, f->x->child[b->child], f->fop, f->in, b->out);
	pthread_mutex_lock(&f->lock);
	b->task = NULL;
	b->status = err;
	b->done = true;
	f->running--;
	f->succeeded += !err;
	left = f->left;
	pthread_mutex_unlock(&f->lock);
	task_cond_broadcast(&f->answered);
	if (left && f->late)
		f->late(f->x, b->child, err, err ? NULL : b->out);
	fanout_unref(f);
}

static int start_branch(struct fanout *f, struct request *rq, int child)
{
	struct branch *b = &f->branch[child];
	int err;

	*b = (struct branch){ .f = f, .child = child, .started = true };
	b->rq = request_copy(rq);
	b->out = calloc(1, fop_info[f->fop].out_size);
	if (!b->rq || !b->out)
		return -ENOMEM;
	pthread_mutex_lock(&f->lock);
	f->refs++;
	f->running++;
	pthread_mutex_unlock(&f->lock);
	err = task_spawn(task_shard(task_self()), run_branch, b);
	if (err) {
		pthread_mutex_lock(&f->lock);
		f->refs--;
		f->running--;
		pthread_mutex_unlock(&f->lock);
	}
	return err;
}

struct fanout *fanout_start(struct request *rq, struct xlator *x, enum fop fop, const void *in, uint64_t mask)
{
	struct fanout *f = calloc(1, sizeof(*f) + (size_t)x->children * sizeof(f->branch[0]));
	int err;

	if (!f)
		return NULL;
	pthread_mutex_init(&f->lock, NULL);
	f->x = x;
	atomic_fetch_add(&x->graph->requests, 1); /* stragglers keep the graph */
	f->fop = fop;
	f->refs = 1;
	f->children = x->children;
	f->in = calloc(1, fop_info[fop].in_size);
	err = f->in ? fop_in_copy((int)fop, f->in, in) : -ENOMEM;
	if (err) {
		free(f->in);
		f->in = NULL;
		fanout_unref(f);
		return NULL;
	}
	for (int i = 0; i < x->children && i < 64; i++) {
		if (!(mask >> i & 1))
			continue;
		err = start_branch(f, rq, i);
		if (err) { /* this child counts as one that has answered so */
			f->branch[i].status = err;
			f->branch[i].done = true;
		}
	}
	return f;
}

int fanout_wait(struct fanout *f, int successes, uint64_t deadline_ns)
{
	int err = 0, succeeded;

	pthread_mutex_lock(&f->lock);
	while (!err && f->running && f->succeeded < successes)
		err = task_cond_wait(&f->answered, &f->lock, deadline_ns);
	succeeded = f->succeeded;
	pthread_mutex_unlock(&f->lock);
	return succeeded;
}

const void *fanout_out(const struct fanout *cf, int child, int *err)
{
	struct fanout *f = (struct fanout *)cf;
	struct branch *b = &f->branch[child];
	bool done;

	assert(child < f->children && b->started);
	pthread_mutex_lock(&f->lock);
	done = b->done;
	*err = done ? b->status : -EINPROGRESS;
	pthread_mutex_unlock(&f->lock);
	return *err ? NULL : b->out;
}

int fanout_take(struct fanout *f, int child, void *out)
{
	int err;
	const void *from = fanout_out(f, child, &err);

	if (from) {
		memcpy(out, from, fop_info[f->fop].out_size);
		memset(f->branch[child].out, 0, fop_info[f->fop].out_size);
	}
	return err;
}

void fanout_cancel(struct fanout *f)
{
	pthread_mutex_lock(&f->lock);
	for (int i = 0; i < f->children; i++)
		if (f->branch[i].task)
			task_cancel(f->branch[i].task);
	pthread_mutex_unlock(&f->lock);
}

void fanout_drop(struct fanout *f)
{
	if (!f)
		return;
	fanout_cancel(f);
	fanout_leave(f, NULL);
}

void fanout_leave(struct fanout *f, void (*late)(struct xlator *, int, int, const void *))
{
	pthread_mutex_lock(&f->lock);
	f->left = true;
	f->late = late;
	pthread_mutex_unlock(&f->lock);
	fanout_unref(f);
}
