/* SPDX-License-Identifier: Apache-2.0 */
/* Locks and conditions between tasks. A short spin guards each list of waiters; nobody waits while holding it. */
#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stddef.h>

#include "task-internal.h"

struct task_waiter { /* on the stack of the task that waits; in the list until `served` or it gives up */
	struct task *task;
	struct task_waiter *next;
	atomic_bool served;
};

static void guard(atomic_flag *flag)
{
	for (int spins = 0; atomic_flag_test_and_set_explicit(flag, memory_order_acquire); spins++)
		if (spins > 100)
			sched_yield();
}

static void unguard(atomic_flag *flag)
{
	atomic_flag_clear_explicit(flag, memory_order_release);
}

static void append(struct task_waiter **first, struct task_waiter **last, struct task_waiter *w)
{
	if (*last)
		(*last)->next = w;
	else
		*first = w;
	*last = w;
}

static void drop(struct task_waiter **first, struct task_waiter **last, struct task_waiter *w)
{
	struct task_waiter *before = NULL, *at = *first;

	for (; at != w; at = at->next)
		before = at;
	if (before)
		before->next = w->next;
	else
		*first = w->next;
	if (*last == w)
		*last = before;
}

/* Takes the first waiter out and says so. Returns whom to wake once the guard is open. */
static struct task *serve(struct task_waiter **first, struct task_waiter **last)
{
	struct task_waiter *w = *first;
	struct task *t;

	if (!w)
		return NULL;
	*first = w->next;
	if (!*first)
		*last = NULL;
	t = w->task;
	atomic_store(&w->served, true); /* w may be gone from here on */
	return t;
}

/* After a wait that may have failed. Who was served just in time keeps what it got, and the cancel stays pending. */
static int give_up(struct task_waiter *me, int err, struct task_waiter **first, struct task_waiter **last)
{
	if (!atomic_load(&me->served)) {
		drop(first, last, me);
		return err;
	}
	if (err == -ECANCELED)
		atomic_store(&me->task->cancelled, true);
	return 0;
}

bool task_trylock(struct task_lock *l)
{
	bool got;

	guard(&l->guard);
	got = !l->held;
	l->held = true;
	unguard(&l->guard);
	return got;
}

int task_lock(struct task_lock *l, uint64_t deadline_ns)
{
	struct task_waiter me = { .task = task_self() };
	int err = 0;

	assert(me.task);
	guard(&l->guard);
	if (!l->held) {
		l->held = true;
		unguard(&l->guard);
		return 0;
	}
	append(&l->first, &l->last, &me);
	unguard(&l->guard);
	while (!err && !atomic_load(&me.served))
		err = task_wait(deadline_ns);
	if (!err)
		return 0;
	guard(&l->guard);
	err = give_up(&me, err, &l->first, &l->last);
	unguard(&l->guard);
	return err;
}

void task_unlock(struct task_lock *l)
{
	struct task *next;

	guard(&l->guard);
	assert(l->held);
	next = serve(&l->first, &l->last);
	if (!next)
		l->held = false;
	unguard(&l->guard);
	if (next)
		task_wake(next);
}

int task_cond_wait(struct task_cond *c, pthread_mutex_t *mutex, uint64_t deadline_ns)
{
	struct task_waiter me = { .task = task_self() };
	int err = 0;

	assert(me.task);
	guard(&c->guard);
	append(&c->first, &c->last, &me);
	unguard(&c->guard);
	pthread_mutex_unlock(mutex);
	while (!err && !atomic_load(&me.served))
		err = task_wait(deadline_ns);
	guard(&c->guard);
	err = give_up(&me, err, &c->first, &c->last);
	unguard(&c->guard);
	pthread_mutex_lock(mutex);
	return err;
}

void task_cond_signal(struct task_cond *c)
{
	struct task *t;

	guard(&c->guard);
	t = serve(&c->first, &c->last);
	unguard(&c->guard);
	if (t)
		task_wake(t);
}

void task_cond_broadcast(struct task_cond *c)
{
	struct task *t;

	do {
		guard(&c->guard);
		t = serve(&c->first, &c->last);
		unguard(&c->guard);
		if (t)
			task_wake(t);
	} while (t);
}
