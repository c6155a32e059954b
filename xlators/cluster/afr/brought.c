/* SPDX-License-Identifier: Apache-2.0 */
/* Locks are noted here, by inode and owner, with the file that each was taken through; and brought to members that did not hear of them.
 * An owner may have the inode open more than once, and gives back through one file, or closes with it, what it has taken through others. */
#include "lock.h"

#include <fcntl.h>

enum { BRING_AGAIN_MS = 300 };

static bool same_owner(const struct lock *a, const struct lock *b)
{
	return a->kind == b->kind && a->owner == b->owner;
}

/* ---- what is held; with the object's lock held ---- */

/* The record that decides for the lock's owner from `at` on, up to *end or to where that may change: the last that has a place. -1: none. */
static int decides(const struct object *o, const struct lock *l, uint64_t at, uint64_t *end)
{
	int last = -1;

	for (unsigned i = 0; i < o->helds; i++) {
		const struct lock *h = &o->held[i].lock;

		if (!same_owner(h, l) || h->end < at)
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

uint32_t held_at(const struct object *o, const struct lock *l, uint64_t at, uint64_t *end)
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

/* ---- who may have something where; with the object's lock held ---- */

static struct holder *holder_of(struct object *o, const struct lock *l, const struct opened *through)
{
	for (unsigned i = 0; i < o->holders; i++)
		if (o->holder[i].through == through && same_owner(&o->holder[i].of, l))
			return &o->holder[i];
	return NULL;
}

static int holder_add(struct object *o, const struct lock *l, struct opened *through, unsigned members)
{
	struct holder *h = holder_of(o, l, through), *grown;

	if (!h) {
		grown = realloc(o->holder, (o->holders + 1) * sizeof(*grown));
		if (!grown)
			return -ENOLCK;
		o->holder = grown;
		h = &grown[o->holders++];
		*h = (struct holder){ .of = *l, .through = through };
	}
	h->at |= members;
	return 0;
}

static unsigned open_at(const struct afr *a, struct opened *f)
{
	unsigned mask;

	pthread_mutex_lock(&f->lock);
	mask = f->being_opened;
	for (int i = 0; i < a->members; i++)
		mask |= f->at[i] ? 1u << i : 0;
	pthread_mutex_unlock(&f->lock);
	return mask;
}

/* All was given back, as these members know. Where the file is not open nothing is held through it. */
static void holders_left(struct afr *a, struct object *o, const struct lock *l, unsigned members)
{
	unsigned left = 0;

	for (unsigned i = 0; i < o->holders; i++) {
		struct holder *h = &o->holder[i];

		if (same_owner(&h->of, l))
			h->at &= ~members & open_at(a, h->through);
		if (h->at)
			o->holder[left++] = *h;
	}
	o->holders = left;
}

/* Through each file that is open at one of these members, and through which the owner may have something there: that is brought anew. */
static void mark_unlike(struct afr *a, struct object *o, const struct lock *l, unsigned members)
{
	for (unsigned i = 0; i < o->holders; i++) {
		const struct holder *h = &o->holder[i];
		unsigned marked = same_owner(&h->of, l) ? h->at & members & open_at(a, h->through) : 0;

		if (!marked)
			continue;
		pthread_mutex_lock(&h->through->lock);
		h->through->unlike |= marked;
		pthread_mutex_unlock(&h->through->lock);
	}
}

static bool all_alike(struct afr *a, struct object *o)
{
	bool alike = !o->leaving;

	for (int i = 0; i < a->members; i++)
		alike &= !o->brings.going[i];
	for (struct opened *f = o->locked; f && alike; f = f->next_locked)
		alike = !(opened_unlike(f) & open_at(a, f));
	return alike;
}

/* The members that have been brought anything since then, or are just now. What they were told meanwhile may have overtaken that. */
static unsigned brought_since(const struct object *o, const struct brings *before)
{
	unsigned mask = 0;

	for (int i = 0; i < REPLICAS_MAX; i++)
		mask |= o->brings.begun[i] != before->begun[i] || before->going[i] ? 1u << i : 0;
	return mask;
}

/* ---- notes; with the object's lock held ---- */

/* In order: the last that has a place decides there. So what lies within it goes, and an unlock is of use only where an older lock reaches beyond it, or to
 * members to which it did not come. */
static int note_lock(struct object *o, const struct opened *through, const struct lock *l, bool all_know)
{
	struct held_lock *grown;

	if (!object_drop_covered(o, l) && l->type == F_UNLCK && all_know)
		return 0;
	grown = realloc(o->held, (o->helds + 1) * sizeof(*grown));
	if (!grown)
		return -ENOLCK;
	o->held = grown;
	o->held[o->helds++] = (struct held_lock){ .lock = *l, .through = l->type == F_UNLCK ? NULL : through };
	return 0;
}

static bool owner_has_any(const struct object *o, const struct lock *l)
{
	for (unsigned i = 0; i < o->holders; i++)
		if (same_owner(&o->holder[i].of, l))
			return true;
	return false;
}

static bool reaches_into(const struct object *o, unsigned count, const struct lock *l)
{
	for (unsigned i = 0; i < count; i++) {
		const struct lock *h = &o->held[i].lock;

		if (same_owner(h, l) && h->start <= l->end && l->start <= h->end)
			return true;
	}
	return false;
}

/* An unlock that no member lacks any more, and that no older lock reaches into. */
static void drop_settled(struct afr *a, struct object *o)
{
	bool alike = all_alike(a, o);
	unsigned left = 0;

	for (unsigned i = 0; i < o->helds; i++) {
		const struct held_lock *h = &o->held[i];

		if (h->lock.type != F_UNLCK || reaches_into(o, left, &h->lock) || (!alike && owner_has_any(o, &h->lock)))
			o->held[left++] = *h;
	}
	o->helds = left;
}

/* ---- bringing ---- */

/* Those that are held through the file are held at every member; and what its owners have given back is free there. */
static int locks_through(struct afr *a, struct file *f, int member, struct lock **list, unsigned *count)
{
	struct opened *through = opened_of(a, f);
	struct object *o = object_of(a, f->inode);
	int err = 0;

	*list = NULL;
	*count = 0;
	if (!o)
		return -ENOMEM;
	pthread_mutex_lock(&o->lock);
	for (unsigned i = 0; i < o->helds && !err; i++) {
		const struct lock *l = &o->held[i].lock;
		const struct holder *h = holder_of(o, l, through);

		if (l->type == F_UNLCK ? h && h->at >> member & 1 : o->held[i].through == through)
			err = parts_of(o, i, list, count);
	}
	for (unsigned i = 0; i < *count && !err; i++)
		if ((*list)[i].type != F_UNLCK)
			err = holder_add(o, &(*list)[i], through, 1u << member);
	pthread_mutex_unlock(&o->lock);
	return err == -ENOLCK ? -ENOMEM : err;
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

static int bring_all(struct afr *a, struct file *f, struct file *at, int member, unsigned *count)
{
	struct lock *list;
	int err = locks_through(a, f, member, &list, count);

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

/* Through one file after the other: what one brings late (that a lock was given back) would undo what another has brought since (that it was taken again). */
static void bring_begins(struct object *o, int member)
{
	pthread_mutex_lock(&o->lock);
	while (o->brings.going[member])
		task_cond_wait(&o->changed, &o->lock, NO_DEADLINE); /* it is answered, or the connection ends */
	o->brings.begun[member]++;
	o->brings.going[member]++;
	pthread_mutex_unlock(&o->lock);
}

static void bring_ends(struct afr *a, struct object *o, int member, bool any)
{
	pthread_mutex_lock(&o->lock);
	o->brings.begun[member] -= !any;
	o->brings.going[member]--;
	drop_settled(a, o);
	task_cond_broadcast(&o->changed);
	pthread_mutex_unlock(&o->lock);
}

/* It is counted before the locks are listed: see brought_since(). */
int locks_bring(struct afr *a, struct file *f, struct file *at, int member)
{
	struct object *o = object_of(a, f->inode);
	unsigned count = 0;
	int err;

	if (!o)
		return -ENOMEM;
	bring_begins(o, member);
	opened_set_unlike(opened_of(a, f), member, false); /* first: what changes meanwhile is brought next time */
	err = bring_all(a, f, at, member, &count);
	if (err)
		opened_set_unlike(opened_of(a, f), member, true);
	bring_ends(a, o, member, count);
	return err;
}

/* ---- soon ---- */

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

void lock_differs(struct afr *a, struct file *f, int member)
{
	opened_set_unlike(opened_of(a, f), member, true);
	bring_soon(a, f);
}

/* Through all files that were marked, which may be others than that of which somebody made use. */
static void bring_marked(struct afr *a, struct object *o)
{
	struct file **list;
	unsigned count = 0;

	pthread_mutex_lock(&o->lock);
	for (struct opened *f = o->locked; f; f = f->next_locked)
		count++;
	list = malloc((count + 1) * sizeof(*list)); /* no memory: they are brought when they are used next */
	count = 0;
	for (struct opened *f = list ? o->locked : NULL; f; f = f->next_locked) {
		pthread_mutex_lock(&f->lock);
		list[count] = f->unlike && !f->bringing && !f->closed ? file_ref_live(f->file) : NULL;
		pthread_mutex_unlock(&f->lock);
		count += list[count] != NULL;
	}
	pthread_mutex_unlock(&o->lock);
	for (unsigned i = 0; i < count; i++) {
		bring_soon(a, list[i]);
		file_unref(list[i]);
	}
	free(list);
}

/* ---- taken ---- */

static bool is_closed(struct opened *f)
{
	bool closed;

	pthread_mutex_lock(&f->lock);
	closed = f->closed;
	pthread_mutex_unlock(&f->lock);
	return closed;
}

/* With the object's lock held. */
static int list_file(struct object *o, struct file *file, struct opened *f)
{
	if (is_closed(f))
		return -EBADF;
	if (!f->file) {
		f->file = file;
		f->next_locked = o->locked;
		o->locked = f;
	}
	return 0;
}

int lock_begins(struct afr *a, struct file *f, const struct lock *l, unsigned members)
{
	struct object *o = object_of(a, f->inode);
	int err;

	if (!o)
		return -ENOLCK;
	pthread_mutex_lock(&o->lock);
	o->locked_ever = true;
	err = list_file(o, f, opened_of(a, f));
	if (!err)
		err = holder_add(o, l, opened_of(a, f), members);
	pthread_mutex_unlock(&o->lock);
	return err;
}

struct brings brings_of(struct object *o)
{
	struct brings brings;

	pthread_mutex_lock(&o->lock);
	brings = o->brings;
	pthread_mutex_unlock(&o->lock);
	return brings;
}

/* What was brought meanwhile may have been that it is free; and who has the file open, and was not in the view, has not heard of it. Its owner may have given back all meanwhile, and what is noted of him with that: so it is noted again
 * where he has this. Through a file that was closed meanwhile the members have dropped it. */
int lock_taken(struct afr *a, struct file *f, const struct lock *l, unsigned members, const struct brings *before)
{
	struct opened *through = opened_of(a, f);
	struct object *o = object_of(a, f->inode);
	unsigned again = 0;
	int err;

	pthread_mutex_lock(&o->lock);
	err = is_closed(through) ? -EBADF : holder_add(o, l, through, members);
	if (!err)
		err = note_lock(o, through, l, true);
	if (!err)
		again = brought_since(o, before) | (open_at(a, through) & ~members);
	pthread_mutex_unlock(&o->lock);
	for (int i = 0; i < a->members; i++)
		if (again >> i & 1)
			lock_differs(a, f, i);
	return err;
}

/* ---- given back ---- */

void lock_all_leave(struct afr *a, struct inode *inode, const struct lock *all)
{
	struct object *o = object_of(a, inode);

	pthread_mutex_lock(&o->lock);
	o->leaving++;
	object_drop_locks(o, all->kind, all->owner, NULL);
	if (owner_has_any(o, all) && note_lock(o, NULL, all, false))
		log_warning(a->x, NULL, "out of memory: a lock may stay at a member until its file is closed");
	pthread_mutex_unlock(&o->lock);
}

static void left_at(struct afr *a, struct object *o, const struct lock *l, unsigned told, const struct brings *before)
{
	told &= ~brought_since(o, before);
	mark_unlike(a, o, l, ~told);
	if (l->kind == LOCK_POSIX && !l->start && l->end == UINT64_MAX)
		holders_left(a, o, l, told);
}

/* A member that was brought something meanwhile may have been brought the lock after it was told; and one with the file open, through which it was taken, and that
 * could not be told, has it. There it is brought that it was given back: marked and noted in one, or who brings just now would find the mark and not the note. */
int lock_given_back(struct afr *a, struct file *f, const struct lock *l, unsigned told, const struct brings *before)
{
	struct object *o = object_of(a, f->inode);
	int err;

	pthread_mutex_lock(&o->lock);
	left_at(a, o, l, told, before);
	err = note_lock(o, NULL, l, all_alike(a, o));
	drop_settled(a, o);
	pthread_mutex_unlock(&o->lock);
	bring_marked(a, o);
	return err;
}

void lock_all_left(struct afr *a, struct inode *inode, const struct lock *all, unsigned told, const struct brings *before)
{
	struct object *o = object_of(a, inode);

	pthread_mutex_lock(&o->lock);
	left_at(a, o, all, told, before);
	o->leaving--;
	drop_settled(a, o);
	pthread_mutex_unlock(&o->lock);
	bring_marked(a, o);
}

void lock_not_undone(struct afr *a, struct file *f, const struct lock *l, unsigned members)
{
	struct object *o = object_of(a, f->inode);

	pthread_mutex_lock(&o->lock);
	mark_unlike(a, o, l, members);
	if (l->type == F_UNLCK && owner_has_any(o, l) && note_lock(o, NULL, l, false))
		log_warning(a->x, NULL, "out of memory: a lock may stay at a member until its file is closed");
	pthread_mutex_unlock(&o->lock);
	bring_marked(a, o);
}

/* ---- the end of a file ---- */

/* Who has it open no more has let go of what he took through it, at each member that is told that it is closed. */
void locks_end(struct afr *a, struct file *file, struct opened *f)
{
	struct object *o = inode_slot(file->inode, a->x);
	struct opened **at;
	unsigned left = 0;

	if (!o || !f->file)
		return;
	pthread_mutex_lock(&o->lock);
	for (at = &o->locked; *at && *at != f;)
		at = &(*at)->next_locked;
	if (*at)
		*at = f->next_locked;
	f->file = NULL;
	for (unsigned i = 0; i < o->holders; i++)
		if (o->holder[i].through != f)
			o->holder[left++] = o->holder[i];
	o->holders = left;
	object_drop_locks(o, LOCK_FLOCK, 0, f);
	object_drop_locks(o, LOCK_POSIX, 0, f);
	drop_settled(a, o);
	pthread_mutex_unlock(&o->lock);
}
