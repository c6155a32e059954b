/* SPDX-License-Identifier: Apache-2.0 */
/* Spans: what of an object this client is changing, so that its own reads and changes wait for it. */
#include "afr.h"

static bool collide(const struct span *a, const struct span *b)
{
	if (a->kind == SPAN_ALL || b->kind == SPAN_ALL)
		return true;
	if (a->kind != b->kind)
		return false;
	return a->kind == SPAN_NAME ? a->start == b->start : a->start < b->end && b->start < a->end;
}

static int span_lock(struct object *o, struct span *s, uint64_t deadline)
{
	int err = 0;

	pthread_mutex_lock(&o->lock);
	for (;;) {
		const struct span *other = o->spans;

		while (other && (!collide(other, s) || MUTANT("no-spans")))
			other = other->next;
		if (!other || err)
			break;
		err = task_cond_wait(&o->changed, &o->lock, deadline);
	}
	if (!err) {
		s->next = o->spans;
		o->spans = s;
	}
	pthread_mutex_unlock(&o->lock);
	return err;
}

static void span_unlock(struct object *o, struct span *s)
{
	struct span **at;

	pthread_mutex_lock(&o->lock);
	for (at = &o->spans; *at != s; at = &(*at)->next)
		;
	*at = s->next;
	object_touched(o, s->kind == SPAN_ALL ? TOUCH_META : TOUCH_ANY);
	pthread_mutex_unlock(&o->lock);
	task_cond_broadcast(&o->changed);
}

int spans_lock(struct object **o, struct span *s, unsigned count, uint64_t deadline)
{
	int err = 0;

	for (unsigned i = 0; i < count; i++) {
		err = span_lock(o[i], &s[i], deadline);
		if (err) {
			spans_unlock(o, s, i);
			return err == -ETIMEDOUT ? -EIO : err;
		}
	}
	return 0;
}

void spans_unlock(struct object **o, struct span *s, unsigned count)
{
	while (count-- > 0)
		span_unlock(o[count], &s[count]);
}

void spans_sent(struct object **o, struct span *s, unsigned count, bool on)
{
	for (unsigned i = 0; i < count; i++) {
		pthread_mutex_lock(&o[i]->lock);
		s[i].sent = on ? ++o[i]->sent : 0;
		pthread_mutex_unlock(&o[i]->lock);
		if (!on)
			task_cond_broadcast(&o[i]->changed);
	}
}

void spans_undone(struct afr *a, struct object **o, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		pthread_mutex_lock(&o[i]->lock);
		o[i]->undone = atomic_fetch_add(&a->undone, 1) + 1;
		pthread_mutex_unlock(&o[i]->lock);
	}
}

bool spans_any(struct object *o, uint64_t before)
{
	const struct span *s;
	bool any;

	pthread_mutex_lock(&o->lock);
	for (s = o->spans; s && !s->sent; s = s->next)
		;
	any = s || o->undone > before;
	pthread_mutex_unlock(&o->lock);
	return any;
}

bool spans_collide(struct object *o, const struct span *with)
{
	const struct span *s;

	pthread_mutex_lock(&o->lock);
	for (s = o->spans; s && !collide(s, with); s = s->next)
		;
	pthread_mutex_unlock(&o->lock);
	return s;
}

int spans_settled(struct object *o, const struct span *seen, uint64_t before, uint64_t deadline)
{
	const struct span *s;
	uint64_t until;
	int err = 0;

	pthread_mutex_lock(&o->lock);
	until = o->sent;
	do {
		for (s = o->spans; s; s = s->next)
			if (s->sent && s->sent <= until && collide(s, seen))
				break;
		if (s)
			err = task_cond_wait(&o->changed, &o->lock, deadline);
	} while (s && !err);
	if (!err && o->undone > before)
		err = -EAGAIN;
	pthread_mutex_unlock(&o->lock);
	return err == -ETIMEDOUT ? -EIO : err;
}
