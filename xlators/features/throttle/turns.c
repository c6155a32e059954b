/* SPDX-License-Identifier: Apache-2.0 */
/* Who goes on next. Requests wait in the queue of their tenant; the first of each, once the limits let it go, stands in line for a place below,
 * and the line is served by start-time fair queueing (Goyal, Vin, Cheng: SIGCOMM 1996). */
#include "throttle.h"

enum { PART = 1 << 16 }; /* how long a turn of one part lasts with weight 1, in virtual time */

/* ---- places below ---- */

static bool take_place(struct throttle *t)
{
	unsigned below = atomic_load(&t->below);

	do
		if (below >= (uint64_t)t->at_once)
			return false;
	while (!atomic_compare_exchange_weak(&t->below, &below, below + 1));
	return true;
}

/* ---- the line: a heap, the smallest start first; with the lock held ---- */

/* Told before a place is looked for: whoever gives one back either sees that somebody is in line, or has given it back in time. */
static void tell_length(struct throttle *t)
{
	atomic_store(&t->line_length, (unsigned)t->in_line);
}

static void line_add(struct throttle *t, struct tenant *one)
{
	size_t i = t->in_line++;

	for (; i && t->line[(i - 1) / 2]->start > one->start; i = (i - 1) / 2)
		t->line[i] = t->line[(i - 1) / 2];
	t->line[i] = one;
	one->in_line = true;
	tell_length(t);
}

static void line_drop_first(struct throttle *t)
{
	struct tenant *moved;
	size_t i = 0, child;

	t->line[0]->in_line = false;
	moved = t->line[--t->in_line];
	for (; (child = 2 * i + 1) < t->in_line; i = child) {
		if (child + 1 < t->in_line && t->line[child + 1]->start < t->line[child]->start)
			child++;
		if (t->line[child]->start >= moved->start)
			break;
		t->line[i] = t->line[child];
	}
	t->line[i] = moved;
	tell_length(t);
}

/* ---- queues; with the lock held ---- */

static void add_cost(struct cost *sum, const struct cost *c)
{
	sum->ops += c->ops;
	sum->bytes += c->bytes;
	sum->data += c->data;
}

static void subtract_cost(struct cost *sum, const struct cost *c)
{
	sum->ops -= c->ops;
	sum->bytes -= c->bytes;
	sum->data -= c->data;
}

static void append(struct tenant *who, struct waiter *w)
{
	w->prev = who->last;
	*(w->prev ? &w->prev->next : &who->first) = w;
	who->last = w;
	who->waiting++;
	add_cost(&who->queued, w->cost);
}

static void take_out(struct tenant *who, struct waiter *w)
{
	*(w->prev ? &w->prev->next : &who->first) = w->next;
	*(w->next ? &w->next->prev : &who->last) = w->prev;
	who->waiting--;
	subtract_cost(&who->queued, w->cost);
}

static uint64_t limits_let_go(struct tenant *who, const struct cost *c, uint64_t now)
{
	uint64_t ops = bucket_when(&who->ops, c->ops, now), bytes = bucket_when(&who->bytes, c->bytes, now);

	return ops > bytes ? ops : bytes;
}

static void wake(struct waiter *w)
{
	if (w->task != task_self())
		task_wake(w->task);
}

/* Each that waits for other clients of the tenant may have a recall for each of them. */
static bool has_too_many_aside(const struct tenant *who)
{
	return atomic_load(&who->aside) >= ASIDE;
}

/* The first of the queue is new, or time has passed. It gets in line, or its task is told to sleep until the limits let it go, or until fewer are aside. */
static void consider(struct throttle *t, struct tenant *who)
{
	if (!who->first || who->in_line)
		return;
	if (has_too_many_aside(who)) {
		who->ready_ns = 0;
		return;
	}
	who->ready_ns = limits_let_go(who, who->first->cost, clock_ns());
	if (who->ready_ns) {
		who->first->limited = true;
		wake(who->first);
		return;
	}
	who->start = who->finish > t->now ? who->finish : t->now;
	line_add(t, who);
}

static void serve(struct throttle *t, struct tenant *who)
{
	struct waiter *w = who->first;
	uint64_t now = clock_ns();

	t->now = who->start;
	who->finish = who->start + w->cost->parts * PART / who->weight;
	bucket_take(&who->ops, w->cost->ops, now);
	bucket_take(&who->bytes, w->cost->bytes, now);
	take_out(who, w);
	w->served = true;
	wake(w); /* it may be gone once the lock is open */
}

/* Since it got in line its first request may have been taken back, another one may cost more, and others may have gone aside. */
static bool still_ready(struct tenant *who)
{
	return who->first && !has_too_many_aside(who) && !limits_let_go(who, who->first->cost, clock_ns());
}

static void serve_line(struct throttle *t)
{
	while (t->in_line) {
		struct tenant *who = t->line[0];

		if (still_ready(who)) {
			if (!take_place(t))
				return;
			serve(t, who);
		}
		line_drop_first(t);
		consider(t, who);
	}
}

void turn_changed(struct throttle *t, struct tenant *who)
{
	consider(t, who);
	serve_line(t);
}

void turns_changed(struct throttle *t)
{
	for (size_t i = 0; i < t->count; i++)
		consider(t, t->all[i]);
	consider(t, &t->others);
	serve_line(t);
}

/* ---- requests ---- */

static bool is_crowded(const struct tenant *who)
{
	uint64_t long_ns = CROWD_S * UINT64_C(1000000000);

	return who->waiting > CROWD || who->queued.data > CROWD_BYTES || bucket_time(&who->ops, who->queued.ops) > long_ns ||
	       bucket_time(&who->bytes, who->queued.bytes) > long_ns;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return !a ? b : !b ? a : a < b ? a : b;
}

/* With the lock held; the wait has ended with that, and not by being served. 0: go on. */
static int look_again(struct throttle *t, struct tenant *who, struct request *rq, struct waiter *me, int err)
{
	if (err == -ETIMEDOUT && (!rq->deadline_ns || clock_ns() < rq->deadline_ns))
		err = 0;
	if (err || atomic_load(&rq->hurry)) {
		take_out(who, me);
		me->served = !err;
		if (!err)
			atomic_fetch_add(&t->below, 1);
	}
	consider(t, who);
	serve_line(t);
	return err;
}

static void count(struct tenant *who, const struct waiter *me, uint64_t since_ns)
{
	struct held *h = &who->held[me->limited ? HELD_LIMIT : HELD_SHARE];

	h->count++;
	h->ns += clock_ns() - since_ns;
}

static int sleep_until_served(struct throttle *t, struct tenant *who, struct request *rq, struct waiter *me)
{
	uint64_t since_ns = clock_ns(), until;
	bool served;
	int err = 0;

	pthread_mutex_lock(&t->lock);
	while (!me->served && !err) {
		until = who->first == me && !who->in_line ? who->ready_ns : NO_DEADLINE;
		pthread_mutex_unlock(&t->lock);
		err = atomic_load(&rq->hurry)
			      ? 0
			      : task_wait(earlier(until, rq->deadline_ns)); /* it may have been told before it came here */
		pthread_mutex_lock(&t->lock);
		if (!me->served)
			err = look_again(t, who, rq, me, err);
		else if (err == -ETIMEDOUT)
			err = 0;
	}
	count(who, me, since_ns);
	served = me->served;
	pthread_mutex_unlock(&t->lock);
	if (err && served)
		turn_end(t);
	return err;
}

static int wait_for_turn(struct throttle *t, struct tenant *who, struct request *rq, const struct cost *c)
{
	struct waiter me = { .task = task_self(), .cost = c };
	bool served, crowded;
	int err;

	pthread_mutex_lock(&t->lock);
	append(who, &me);
	consider(t, who);
	serve_line(t);
	served = me.served;
	crowded = is_crowded(who);
	pthread_mutex_unlock(&t->lock);
	if (served)
		return 0;
	if (rq->held)
		rq->held(rq, true, crowded);
	err = sleep_until_served(t, who, rq, &me);
	if (rq->held)
		rq->held(rq, false, false);
	return err;
}

int turn_take(struct throttle *t, struct tenant *who, struct request *rq, const struct cost *c)
{
	if (!atomic_load(&who->limited) && !atomic_load(&t->line_length) && !has_too_many_aside(who) && take_place(t))
		return 0;
	return wait_for_turn(t, who, rq, c);
}

void turn_end(struct throttle *t)
{
	atomic_fetch_sub(&t->below, 1);
	if (!atomic_load(&t->line_length))
		return;
	pthread_mutex_lock(&t->lock);
	serve_line(t);
	pthread_mutex_unlock(&t->lock);
}

void turn_aside(struct throttle *t, struct tenant *who, bool on)
{
	pthread_mutex_lock(&t->lock);
	if (on) {
		atomic_fetch_add(&who->aside, 1);
		atomic_fetch_sub(&t->below, 1);
	} else {
		atomic_fetch_add(&t->below, 1);
		atomic_fetch_sub(&who->aside, 1);
	}
	turn_changed(t, who);
	pthread_mutex_unlock(&t->lock);
}
