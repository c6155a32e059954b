/* SPDX-License-Identifier: Apache-2.0 */
/* POSIX and flock locks: taken at every member, in one order, and given back in the opposite one. */
#include "lock.h"

#include <fcntl.h>

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

static bool locked_ever(struct object *o)
{
	bool ever;

	pthread_mutex_lock(&o->lock);
	ever = o->locked_ever;
	pthread_mutex_unlock(&o->lock);
	return ever;
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
	int err;

	(void)out;
	if (!o || !opened_of(a, in->file))
		return -EBADF;
	if (!locked_ever(o))
		return 0;
	before = brings_of(o);
	lock_all_leave(a, in->file->inode, &all);
	err = afr_view(a, afr_deadline(a, rq), &v);
	if (!err)
		told = flush_all(a, rq, in, &v);
	/* Also without a view, or if it was interrupted: nothing here knows of the locks any more. */
	lock_all_left(a, in->file->inode, &all, told, &before);
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

/* What the members said of a lock. */
struct said {
	unsigned done;	  /* where it was taken, or may have been: a member that refuses the view has it nevertheless */
	unsigned told;	  /* where it was given back */
	unsigned agreed;  /* those of the last view that are IN */
	unsigned suspect; /* and those whose disks fail */
	int why;
	uint64_t reported;   /* the last view in which some were */
	uint64_t give_up_ns; /* until they have to be out of it */
	uint64_t stale_ns;   /* until one has to know the file; 0: one does */
};

static bool disk_fails(int err)
{
	return err == -EIO || err == -EROFS || err == -ENODEV || err == -ENXIO;
}

/* Of a member that is IN. 0: on to the next. */
static int heard(struct said *s, int member, int err)
{
	if (disk_fails(err)) {
		s->suspect |= 1u << member;
		s->why = err;
		return 0;
	}
	s->agreed |= err ? 0 : 1u << member;
	return err == -ENAMELESS ? 0 : err;
}

/* Takes it at the members, the most senior first, which decides. A member that is BACK and can't find the file
 * gets its locks when it is opened there. */
static int take_lock(struct afr *a, struct request *rq, const struct setlk_in *in, const struct view *v, struct said *s)
{
	int err = 0;

	for (unsigned k = 0; k < v->members && !err; k++) {
		int i = v->order[k], one;

		if (v->state[i] < MEMBER_BACK)
			continue;
		err = lock_begins(a, in->file, &in->lock, 1u << i);
		if (err)
			break;
		one = lock_at(a, rq, i, in, v->state[i] == MEMBER_IN);
		s->done |= one && !other_view(one) && one != -ECANCELED ? 0 : 1u << i;
		if (v->state[i] == MEMBER_IN || one == -ECANCELED)
			err = heard(s, i, one);
		else if (one)
			lock_differs(a, in->file, i);
	}
	return err;
}

/* Wherever the file is open; the most senior last. */
static int give_lock(struct afr *a, struct request *rq, const struct setlk_in *in, const struct view *v, struct said *s)
{
	struct opened *o = opened_of(a, in->file);
	unsigned others = others_with(o, v);
	int err = 0;

	for (unsigned k = v->members; k-- > 0 && !err;) {
		int i = v->order[k];

		if (v->state[i] == MEMBER_IN) {
			err = lock_at(a, rq, i, in, false);
			s->told |= err ? 0 : 1u << i;
			err = heard(s, i, err);
		} else if (others >> i & 1) {
			bool missed = !(atomic_load(&a->up) >> i & 1) || lock_at(a, rq, i, in, false);

			s->told |= missed ? 0 : 1u << i;
		}
	}
	return err;
}

/* A member may have taken it: there it is again what it was before, without a moment in which what is held is free. Where that fails it is
 * brought. */
static void undo_part(struct afr *a, struct request *rq, struct setlk_in *part, unsigned done)
{
	unsigned failed = 0;

	for (int i = a->members; i-- > 0;)
		failed |= done >> i & 1 && lock_at(a, rq, i, part, false) ? 1u << i : 0;
	if (failed)
		lock_not_undone(a, part->file, &part->lock, failed);
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

/* Some have done it, and at others the disk fails, as with a change: those are reported, and it is done in a view without them. What was taken is given back before:
 * the most senior that was asked is none now, and who asks one that is (it may get it) waits behind us at the others. */
static int leave_out(struct afr *a, struct request *rq, const struct setlk_in *in, const struct view *v, struct said *s)
{
	if (s->reported != v->epoch)
		s->give_up_ns = afr_deadline(a, rq);
	s->reported = v->epoch;
	if (!s->agreed || clock_ns() >= s->give_up_ns || (s->why == -EROFS && !afr_quorum_without(v, s->suspect)))
		return s->why;
	if (in->lock.type != F_UNLCK) {
		undo_lock(a, rq, in, s->done);
		s->done = 0;
	}
	task_shield(true); /* a cancel is for the loop, which ends with it */
	afr_suspect(a, v, s->suspect, s->why);
	afr_leave_view(a, v->epoch, s->give_up_ns);
	task_shield(false);
	return -EVIEW;
}

static int ask_members(struct afr *a, struct request *rq, const struct setlk_in *in, const struct view *v, struct said *s)
{
	int err;

	s->agreed = s->suspect = 0;
	err = in->lock.type == F_UNLCK ? give_lock(a, rq, in, v, s) : take_lock(a, rq, in, v, s);
	return !err && s->suspect ? leave_out(a, rq, in, v, s) : err;
}

/* A lock may be waited for as long as one likes; a member that knows the file, which may have been removed, no longer than with any other call. */
static bool is_too_late(const struct afr *a, struct said *s, int err, bool waits, uint64_t deadline)
{
	uint64_t now = clock_ns();

	if (!waits)
		return now >= deadline;
	if (err != -ESTALE)
		s->stale_ns = 0;
	else if (!s->stale_ns)
		s->stale_ns = now + a->max_wait_ms * 1000000;
	return s->stale_ns && now >= s->stale_ns;
}

/* The most senior member decides; the others, asked after it (and before it to unlock), then can only agree. */
int afr_setlk(struct request *rq, struct xlator *x, const struct setlk_in *in, struct setlk_out *out)
{
	struct afr *a = afr_of(x);
	struct object *o = object_of(a, in->file->inode);
	uint64_t deadline = afr_deadline(a, rq);
	bool unlock = in->lock.type == F_UNLCK;
	struct said said = { 0 };
	struct brings before;
	unsigned losses;
	struct view v;
	int err;

	(void)out;
	if (!o || !opened_of(a, in->file))
		return -EBADF;
	losses = losses_of(a, in->file->inode);
	before = brings_of(o);
	for (;;) {
		err = afr_view(a, afr_deadline(a, rq), &v);
		if (!err)
			err = ask_members(a, rq, in, &v, &said);
		if (!other_view(err) || is_too_late(a, &said, err, in->lock.wait, deadline))
			break;
		afr_view_stale(a, v.epoch);
		err = task_sleep_ms(SOON_MS);
		if (err)
			break;
	}
	if (other_view(err) && said.suspect)
		err = said.why;
	if (!err)
		err = unlock ? lock_given_back(a, in->file, &in->lock, said.told, &before)
			     : lock_taken(a, in->file, &in->lock, said.done, &before);
	if (err && !unlock)
		undo_lock(a, rq, in, said.done);
	else if (!unlock)
		lost_meanwhile(a, in, losses);
	return err;
}
