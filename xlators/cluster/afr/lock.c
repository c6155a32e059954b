/* SPDX-License-Identifier: Apache-2.0 */
/* POSIX and flock locks: taken at every member, in one order; noted here, and brought to members that did not hear of them. */
#include <fcntl.h>

#include "afr.h"

enum { BRING_AGAIN_MS = 300 };

static bool other_view(int err)
{
	return err == -EVIEW || err == -ENOTCONN || err == -ETIMEDOUT || err == -ESTALE;
}

/* ---- what is held ---- */

/* The record that decides for the lock's owner from `at` on, up to *end or to where that may change: the last that has a place. -1: none. */
static int decides(const struct object *o, const struct lock *l, uint64_t at, uint64_t *end)
{
	int last = -1;

	for (unsigned i = 0; i < o->helds; i++) {
		const struct lock *h = &o->held[i].lock;

		if (h->kind != l->kind || h->owner != l->owner || h->end < at)
			continue;
		if (h->start <= at)
			last = (int)i;
		if (h->start > at && h->start <= *end)
			*end = h->start - 1;
		else if (h->start <= at && h->end < *end)
			*end = h->end;
	}
	return last;
}

static uint32_t held_at(const struct object *o, const struct lock *l, uint64_t at, uint64_t *end)
{
	int last = decides(o, l, at, end);

	return last < 0 ? F_UNLCK : o->held[last].lock.type;
}

static int add_part(struct lock **list, unsigned *count, const struct lock *l, uint64_t start, uint64_t end)
{
	struct lock *grown = realloc(*list, (*count + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	*list = grown;
	grown[*count] = *l;
	grown[*count].start = start;
	grown[(*count)++].end = end;
	return 0;
}

/* Of one record what no later one has taken the place of: who has the later one already must not be without it for a moment. */
static int parts_of(const struct object *o, unsigned i, struct lock **list, unsigned *count)
{
	const struct lock *l = &o->held[i].lock;
	uint64_t at = l->start, end;
	int err;

	for (;; at = end + 1) {
		end = l->end;
		err = decides(o, l, at, &end) == (int)i ? add_part(list, count, l, at, end) : 0;
		if (err || end >= l->end)
			return err;
	}
}

/* Locks that are held through the file are held at every member. */
static int locks_through(struct afr *a, struct file *f, struct lock **list, unsigned *count)
{
	struct object *o = object_of(a, f->inode);
	int err = 0;

	*list = NULL;
	*count = 0;
	if (!o)
		return -ENOMEM;
	pthread_mutex_lock(&o->lock);
	for (unsigned i = 0; i < o->helds && !err; i++)
		if (o->held[i].through == opened_of(a, f))
			err = parts_of(o, i, list, count);
	pthread_mutex_unlock(&o->lock);
	return err;
}

static int bring_lock(struct afr *a, struct file *at, const struct lock *l, int member)
{
	struct setlk_in in = { at, *l };
	struct setlk_out out = { 0 };
	struct request rq;
	int err;

	in.lock.wait = 0;
	own_request(a, &rq);
	rq.lock_owner = in.lock.owner;
	err = setlk_on(&rq, a->x->child[member], &in, &out);
	request_finish(&rq);
	return err;
}

/* What the member did not hear of is brought another time, and the file not used there before. Who is refused has lost it there. */
int locks_bring(struct afr *a, struct file *f, struct file *at, int member, unsigned *count)
{
	struct lock *list;
	int err = locks_through(a, f, &list, count);

	for (unsigned i = 0; i < *count && !err; i++) {
		int one = bring_lock(a, at, &list[i], member);

		if (other_view(one) || one == -ECANCELED || one == -ENOMEM)
			err = one;
		else if (one)
			log_warning(a->x, NULL, "a lock could not be brought to member %d: %s", member, strerror(-one));
	}
	free(list);
	return err;
}

/* In order: the last that has a place decides there. So what lies within it goes, and an unlock is of use only where an older lock reaches beyond it, or to
 * members to which it did not come. */
static int note_lock(struct afr *a, struct file *f, const struct lock *l, bool all_know)
{
	struct object *o = object_of(a, f->inode);
	struct held_lock *grown;
	int err = 0;

	if (!o)
		return -ENOLCK;
	pthread_mutex_lock(&o->lock);
	if (object_drop_covered(o, l) || l->type != F_UNLCK || !all_know) {
		grown = realloc(o->held, (o->helds + 1) * sizeof(*grown));
		if (grown) {
			o->held = grown;
			o->held[o->helds++] = (struct held_lock){ .lock = *l, .through = opened_of(a, f) };
		} else {
			err = -ENOLCK;
		}
	}
	pthread_mutex_unlock(&o->lock);
	return err;
}

/* ---- members that gave them up ---- */

/* Nobody else takes a lock that one member has which is IN, for a lock is taken at all of them. So it may be lost once those that gave it up could be a
 * view without the others. */
static bool may_be_lost(const struct afr *a, unsigned lost)
{
	struct view v = { .members = (uint8_t)a->members, .arbiter = (uint8_t)a->arbiter_at };

	for (int i = 0; i < a->members; i++) {
		v.order[i] = (uint8_t)i;
		v.state[i] = lost >> i & 1 ? MEMBER_IN : MEMBER_OUT;
	}
	return view_has_quorum(&v);
}

static bool same_place(const struct lock *a, const struct lock *b)
{
	return a->kind == b->kind && a->owner == b->owner && a->start <= b->end && b->start <= a->end;
}

void lock_lost_at(struct afr *a, int member, const struct event *e)
{
	struct object *o = e->inode ? inode_slot(e->inode, a->x) : NULL;
	bool lost = false;

	if (!o)
		return;
	pthread_mutex_lock(&o->lock);
	o->losses++;
	for (unsigned i = 0; i < o->helds; i++) {
		struct held_lock *h = &o->held[i];

		if (h->lock.type == F_UNLCK || !same_place(&h->lock, &e->lock))
			continue;
		h->lost |= 1u << member;
		lost |= may_be_lost(a, h->lost);
	}
	pthread_mutex_unlock(&o->lock);
	if (lost)
		event_up(a->x, e);
}

static unsigned losses_of(struct afr *a, struct inode *inode)
{
	struct object *o = object_of(a, inode);
	unsigned losses;

	if (!o)
		return 0;
	pthread_mutex_lock(&o->lock);
	losses = o->losses;
	pthread_mutex_unlock(&o->lock);
	return losses;
}

/* What was lost while it was being taken found no record of it. It may have been another one: it is told all the same. */
static void lost_meanwhile(struct afr *a, const struct setlk_in *in, unsigned before)
{
	if (losses_of(a, in->file->inode) != before)
		event_up(a->x, &(struct event){ .kind = EVENT_LOCK_LOST, .inode = in->file->inode, .lock = in->lock });
}

/* ---- members that did not hear of them ---- */

struct bringing {
	struct afr *a;
	struct file *file;
};

/* Members that have it open with other locks; 0: it is closed, or the mount ends. */
static unsigned to_bring(struct afr *a, struct opened *o)
{
	unsigned mask = 0;
	bool stopping;

	pthread_mutex_lock(&a->lock);
	stopping = a->stopping;
	pthread_mutex_unlock(&a->lock);
	pthread_mutex_lock(&o->lock);
	for (int i = 0; i < a->members && !o->closed && !stopping; i++)
		mask |= o->at[i] ? o->unlike & 1u << i : 0;
	o->bringing = mask;
	pthread_mutex_unlock(&o->lock);
	return mask;
}

static void bring_task(void *arg)
{
	struct bringing *b = arg;
	unsigned mask;

	while ((mask = to_bring(b->a, opened_of(b->a, b->file)))) {
		task_sleep_ms(BRING_AGAIN_MS);
		for (int i = 0; i < b->a->members; i++)
			if (mask & atomic_load(&b->a->up) & 1u << i)
				file_alike(b->a, b->file, i);
	}
	file_unref(b->file);
	afr_task_ends(b->a);
	free(b);
}

/* Its holder may do no more with the file: so others would wait there for a lock that is free, until it is closed. */
static void bring_soon(struct afr *a, struct file *f)
{
	struct opened *o = opened_of(a, f);
	struct bringing *b = malloc(sizeof(*b));
	bool already;

	pthread_mutex_lock(&o->lock);
	already = o->bringing;
	o->bringing = true;
	pthread_mutex_unlock(&o->lock);
	if (b && !already) {
		*b = (struct bringing){ a, file_ref(f) };
		if (!afr_spawn(a, bring_task, b))
			return;
		file_unref(f);
	}
	free(b);
	if (already)
		return;
	pthread_mutex_lock(&o->lock);
	o->bringing = false; /* no memory: they are brought when it is used next */
	pthread_mutex_unlock(&o->lock);
}

static void differs(struct afr *a, struct file *f, int member, bool is)
{
	opened_set_unlike(opened_of(a, f), member, is);
	if (is)
		bring_soon(a, f);
}

/* ---- given back ---- */

static struct brings brings_of(struct opened *o)
{
	struct brings brings;

	pthread_mutex_lock(&o->lock);
	brings = o->brings;
	pthread_mutex_unlock(&o->lock);
	return brings;
}

/* With its lock held: the members that have been brought anything since then, or are just now. What they were told meanwhile may have overtaken that. */
static unsigned brought_since(const struct opened *o, const struct brings *before)
{
	unsigned mask = 0;

	for (int i = 0; i < REPLICAS_MAX; i++)
		mask |= o->brings.at[i] != before->at[i] || before->at[i] % 2 ? 1u << i : 0;
	return mask;
}

static void differ_at(struct afr *a, struct file *f, unsigned mask)
{
	for (int i = 0; i < a->members; i++)
		if (mask >> i & 1)
			differs(a, f, i, true);
}

/* Where the file was opened meanwhile, or is being opened, the lock may have been brought after all others were told that it is given back, and where it was brought otherwise, too. There
 * it is brought that it was given back, which must be noted before it is. */
static void tell_rest(struct afr *a, struct file *f, const struct lock *l, unsigned told, const struct brings *before)
{
	struct opened *o = opened_of(a, f);
	unsigned rest = 0;

	pthread_mutex_lock(&o->lock);
	told &= ~brought_since(o, before);
	for (int i = 0; i < a->members; i++)
		rest |= (o->at[i] || o->being_opened >> i & 1) && !(told >> i & 1) ? 1u << i : 0;
	pthread_mutex_unlock(&o->lock);
	if (rest)
		note_lock(a, f, l, false);
	differ_at(a, f, rest);
}

/* A lock that was taken, and noted: what was brought meanwhile may have been that it is free. */
static void take_again(struct afr *a, struct file *f, const struct brings *before)
{
	struct opened *o = opened_of(a, f);
	unsigned mask;

	pthread_mutex_lock(&o->lock);
	mask = brought_since(o, before);
	pthread_mutex_unlock(&o->lock);
	differ_at(a, f, mask);
}

/* ---- flush ---- */

/* Members with the file open that are not IN: their locks count again when they are. */
static unsigned others_with(struct opened *o, const struct view *v)
{
	unsigned mask = 0;

	pthread_mutex_lock(&o->lock);
	for (int i = 0; i < v->members; i++)
		mask |= o->at[i] && v->state[i] != MEMBER_IN ? 1u << i : 0;
	pthread_mutex_unlock(&o->lock);
	return mask;
}

static unsigned flush_others(struct afr *a, struct request *rq, const struct flush_in *in, const struct view *v)
{
	unsigned asked = others_with(opened_of(a, in->file), v) & atomic_load(&a->up), told = 0;
	struct fan *f = asked ? fan_call(a, rq, asked, FOP_flush, in, NULL) : NULL;

	for (int i = 0; i < v->members && f; i++)
		told |= fan_result(f, i)->asked && !fan_result(f, i)->status ? 1u << i : 0;
	if (f)
		fan_free(f);
	return told;
}

/* The most senior last, as with any unlock. Who has heard of it. */
static unsigned flush_all(struct afr *a, struct request *rq, const struct flush_in *in, const struct view *v)
{
	unsigned told = flush_others(a, rq, in, v);

	for (unsigned k = v->members; k-- > 0;) {
		struct flush_out nothing = { 0 };

		if (v->state[v->order[k]] == MEMBER_IN && !one_call(a, rq, v->order[k], FOP_flush, in, &nothing, NULL))
			told |= 1u << v->order[k];
	}
	return told;
}

/* Only locks are to be dropped, whichever file they were taken through: without any there is nothing to do. */
int afr_flush(struct request *rq, struct xlator *x, const struct flush_in *in, struct flush_out *out)
{
	struct lock all = { .kind = LOCK_POSIX, .type = F_UNLCK, .end = UINT64_MAX, .owner = in->owner };
	struct afr *a = afr_of(x);
	struct object *o = object_of(a, in->file->inode);
	struct brings before;
	unsigned told = 0;
	struct view v;
	bool any;
	int err;

	(void)out;
	if (!o || !opened_of(a, in->file))
		return -EBADF;
	before = brings_of(opened_of(a, in->file));
	pthread_mutex_lock(&o->lock);
	any = o->locked_ever;
	object_drop_locks(o, LOCK_POSIX, in->owner, NULL);
	pthread_mutex_unlock(&o->lock);
	if (!any)
		return 0;
	err = afr_view(a, afr_deadline(a, rq), &v);
	if (!err)
		told = flush_all(a, rq, in, &v);
	tell_rest(a, in->file, &all, told,
		  &before); /* also without a view, or if it was interrupted: nothing here knows of the locks any more */
	return err;
}

/* ---- locks ---- */

/* Cancelled when the member leaves the view: somebody else decides then. */
static int lock_at(struct afr *a, struct request *rq, int member, const struct setlk_in *in, bool wait)
{
	struct setlk_in one = *in;
	struct fan *f;
	int err;

	one.lock.wait = wait && in->lock.wait;
	f = fan_call(a, rq, 1u << member, FOP_setlk, &one, NULL);
	if (!f)
		return -ENOMEM;
	err = fan_result(f, member)->status;
	fan_free(f);
	return err;
}

/* Takes it at the members, the most senior first, which decides; *done: where it was taken, or may have been: a member that refuses the
 * view has it nevertheless. A member that is BACK and can't find the file
 * gets its locks when it is opened there. */
static int take_lock(struct afr *a, struct request *rq, const struct setlk_in *in, const struct view *v, unsigned *done)
{
	int err = 0;

	for (unsigned k = 0; k < v->members && !err; k++) {
		int i = v->order[k], one;

		if (v->state[i] < MEMBER_BACK)
			continue;
		one = lock_at(a, rq, i, in, v->state[i] == MEMBER_IN);
		*done |= one && !other_view(one) && one != -ECANCELED ? 0 : 1u << i;
		if (v->state[i] == MEMBER_IN || one == -ECANCELED)
			err = one == -ENAMELESS ? 0 : one;
		else
			differs(a, in->file, i, one);
	}
	return err;
}

/* Wherever the file is open; the most senior last. *told: who has heard of it. */
static int give_lock(struct afr *a, struct request *rq, const struct setlk_in *in, const struct view *v, unsigned *told)
{
	struct opened *o = opened_of(a, in->file);
	unsigned others = others_with(o, v);
	int err = 0;

	for (unsigned k = v->members; k-- > 0 && !err;) {
		int i = v->order[k];

		if (v->state[i] == MEMBER_IN) {
			err = lock_at(a, rq, i, in, false);
			*told |= err ? 0 : 1u << i;
			err = err == -ENAMELESS ? 0 : err;
		} else if (others >> i & 1) {
			bool missed = !(atomic_load(&a->up) >> i & 1) || lock_at(a, rq, i, in, false);

			*told |= missed ? 0 : 1u << i;
			differs(a, in->file, i, missed);
		}
	}
	return err;
}

/* A member may have taken it: there it is again what it was before, without a moment in which what is held is free. Where that fails it is
 * brought. */
static void undo_part(struct afr *a, struct request *rq, struct setlk_in *part, unsigned done)
{
	bool all = true;

	for (int i = a->members; i-- > 0;) {
		if (!(done >> i & 1) || !lock_at(a, rq, i, part, false))
			continue;
		all = false;
		opened_set_unlike(opened_of(a, part->file), i, true);
	}
	if (all)
		return;
	if (part->lock.type == F_UNLCK)
		note_lock(a, part->file, &part->lock, false);
	bring_soon(a, part->file);
}

static void undo_lock(struct afr *a, struct request *rq, const struct setlk_in *in, unsigned done)
{
	struct object *o = object_of(a, in->file->inode);
	struct setlk_in part = *in;

	task_shield(true);
	for (uint64_t at = in->lock.start; o && done; at = part.lock.end + 1) {
		part.lock.start = at;
		part.lock.end = in->lock.end;
		pthread_mutex_lock(&o->lock);
		part.lock.type = held_at(o, &in->lock, at, &part.lock.end);
		pthread_mutex_unlock(&o->lock);
		undo_part(a, rq, &part, done);
		if (part.lock.end >= in->lock.end)
			break;
	}
	task_shield(false);
}

static void locks_used(struct afr *a, struct inode *inode)
{
	struct object *o = object_of(a, inode);

	if (!o)
		return;
	pthread_mutex_lock(&o->lock);
	o->locked_ever = true;
	pthread_mutex_unlock(&o->lock);
}

/* The most senior member decides; the others, asked after it (and before it to unlock), then can only agree. */
int afr_setlk(struct request *rq, struct xlator *x, const struct setlk_in *in, struct setlk_out *out)
{
	struct afr *a = afr_of(x);
	uint64_t deadline = afr_deadline(a, rq);
	bool unlock = in->lock.type == F_UNLCK;
	unsigned done = 0, told = 0, losses;
	struct brings before;
	struct view v;
	int err;

	(void)out;
	if (!opened_of(a, in->file))
		return -EBADF;
	locks_used(a, in->file->inode);
	losses = losses_of(a, in->file->inode);
	before = brings_of(opened_of(a, in->file));
	for (;;) {
		err = afr_view(a, afr_deadline(a, rq), &v);
		if (!err)
			err = unlock ? give_lock(a, rq, in, &v, &told) : take_lock(a, rq, in, &v, &done);
		if (!other_view(err) || (clock_ns() >= deadline && !in->lock.wait))
			break;
		afr_view_stale(a, v.epoch);
		err = task_sleep_ms(SOON_MS);
		if (err)
			break;
	}
	if (!err)
		err = note_lock(a, in->file, &in->lock, !opened_unlike(opened_of(a, in->file)));
	if (!err && unlock)
		tell_rest(a, in->file, &in->lock, told, &before);
	else if (!err)
		take_again(a, in->file, &before);
	if (err && !unlock)
		undo_lock(a, rq, in, done);
	else if (!unlock)
		lost_meanwhile(a, in, losses);
	return err;
}
