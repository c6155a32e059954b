/* SPDX-License-Identifier: Apache-2.0 */
/* rename(2) of what is no directory, between names at two subvolumes, so that nobody sees half of it (D5, D6 in doc/distribution.md). What
 * arrives waits in `work` beside its name-to-be: a pointer that has its anchor already, or a link where the object is there. Then both
 * names are marked, what has them is moved to v.ID.N, what arrives gets them, it is decided, and the rest is cleared away. The data stay where
 * they are. */
#include "dht.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE	 2
#endif
enum { TRIES = 8, RENAMES = 32 };
#define STEPS_NS 30000000000u /* to end what was begun, whatever becomes of the caller */

/* What has one of the names, and where that is. */
struct found {
	struct gfid stands;   /* what has the name: the object, or a pointer; null: nothing */
	struct inode *object; /* a reference */
	struct attr attr;     /* of the object */
	int child;
};
struct move {
	struct request *rq;
	struct dht *d;
	const struct loc *loc[2];
	uint32_t flags;
	struct found found[2];
	struct intent it;
};

static void found_clear(struct found *f)
{
	inode_unref(f->object);
	*f = (struct found){ 0 };
}

/* ---- looking ---- */

static int take_found(struct found *f, struct lookup_out *out, int child)
{
	f->object = inode_ref(out->inode);
	f->attr = out->attr;
	f->child = child;
	fop_out_clear(FOP_lookup, out);
	return 0;
}

static int look_once(struct move *m, int n)
{
	int child = m->it.side[n].child, err;
	struct lookup_in in = { .loc = { .parent = m->loc[n]->parent, .name = m->loc[n]->name } };
	struct lookup_out out = { 0 };
	struct aim aim;

	err = lookup_on(m->rq, m->d->x->child[child], &in, &out);
	if (err)
		return err;
	m->found[n].stands = out.inode->gfid;
	if (!(out.attr.flags & ATTR_POINTER))
		return take_found(&m->found[n], &out, child);
	err = aim_of(m->d, &out, &aim);
	fop_out_clear(FOP_lookup, &out);
	memset(&out, 0, sizeof(out));
	if (!err)
		err = look_at_anchor(m->rq, m->d, &aim, &out);
	if (err)
		return err == -ENOENT ? -EAGAIN : err; /* it has just gone, or moved */
	return take_found(&m->found[n], &out, aim.child);
}

static int look_at_side(struct move *m, int n)
{
	int err = -EAGAIN;

	for (int tries = 0; err == -EAGAIN && tries < TRIES; tries++) {
		found_clear(&m->found[n]);
		err = look_once(m, n);
	}
	return err == -EAGAIN ? -EIO : err;
}

static bool can_move(const struct found *f)
{
	return !S_ISDIR(f->attr.mode) && !S_ISBLK(f->attr.mode) && !S_ISCHR(f->attr.mode);
}

/* 1: there is nothing to do. */
static int judge(struct move *m)
{
	const struct found *from = &m->found[0], *to = &m->found[1];

	if (!can_move(from))
		return -EXDEV;
	if (!to->object)
		return m->flags & RENAME_EXCHANGE ? -ENOENT : 0;
	if (m->flags & RENAME_NOREPLACE)
		return -EEXIST;
	if (m->flags & RENAME_EXCHANGE ? !can_move(to) : false)
		return -EXDEV;
	if (S_ISDIR(to->attr.mode))
		return -EISDIR;
	return gfid_equal(&from->object->gfid, &to->object->gfid);
}

/* Nobody makes us prepare what he may not do. */
static int may(struct move *m)
{
	int err = 0;

	for (int n = 0; n < 2 && !err; n++) {
		struct access_in in = { .inode = m->loc[n]->parent, .mask = W_OK | X_OK };
		struct access_out out;

		err = access_on(m->rq, m->d->x->child[m->it.side[n].child], &in, &out);
	}
	return err;
}

/* ---- what arrives ---- */

static void plan_arrival(struct move *m, int n)
{
	const struct found *f = &m->found[!n];
	struct side *s = &m->it.side[n];

	if (n == 0 && !(m->flags & RENAME_EXCHANGE))
		return;
	s->arrival = f->child == s->child ? ARRIVES_LINK : ARRIVES_POINTER;
	s->aim = (struct aim){ .gfid = f->object->gfid, .child = f->child };
	gfid_create(&s->aim.pgfid);
}

static int link_in_work(struct move *m, int n)
{
	cleanup_inode struct inode *dir = NULL;
	char name[HIDDEN_NAME];
	struct link_in in = { .inode = m->found[!n].object, .loc = { .name = side_name(&m->it, n, KEPT_LINK, name) } };
	struct link_out out = { 0 };
	struct who user = become_root(m->rq);
	int err = side_dir(m->rq, m->d, &m->it, n, &dir);

	in.loc.parent = dir;
	if (!err)
		err = link_on(m->rq, m->d->x->child[m->it.side[n].child], &in, &out);
	become(m->rq, user);
	return err;
}

static int prepare_arrivals(struct move *m)
{
	int err = 0;

	for (int n = 0; n < 2 && !err; n++) {
		const struct side *s = &m->it.side[n];

		if (s->arrival == ARRIVES_POINTER)
			err = pointer_prepare(m->rq, m->d, s->child, &s->aim, m->found[!n].object, &m->found[!n].attr);
		else if (s->arrival == ARRIVES_LINK)
			err = link_in_work(m, n);
	}
	return err;
}

/* ---- marks ---- */

static int mark_one(struct move *m, int n)
{
	struct rename_in names = { .from = *m->loc[n], .to = *m->loc[n] };
	struct patience p = { 0 };
	int err;

	do
		err = side_mark(m->rq, m->d, &m->it, n);
	while (err == -EMARKED && !marks_wait(m->rq, m->d, &p, FOP_rename, &names));
	return err;
}

static void unmark(struct move *m)
{
	side_unmark(m->rq, m->d, &m->it, 0);
	side_unmark(m->rq, m->d, &m->it, 1);
}

/* All in one order, so that no two wait for each other. No step was taken yet if it fails: then the marks go, and all else. */
static int mark_both(struct move *m)
{
	int first = m->it.side[0].child < m->it.side[1].child ? 0 : 1;
	int err = mark_one(m, first);

	return err ? err : mark_one(m, !first);
}

/* ---- under the marks ---- */

/* It is as it was when the intent was written. -EAGAIN */
static int look_again(struct move *m, int n)
{
	struct lookup_out out = { 0 };
	int err = side_look(m->rq, m->d, &m->it, n, m->loc[n]->parent, m->loc[n]->name, &out);
	struct gfid stands = err ? (struct gfid){ { 0 } } : out.inode->gfid;

	fop_out_clear(FOP_lookup, &out);
	if (err && err != -ENOENT)
		return err;
	return gfid_equal(&stands, &m->found[n].stands) ? 0 : -EAGAIN;
}

static int leaves(struct move *m, int n)
{
	cleanup_inode struct inode *dir = NULL;
	char name[HIDDEN_NAME];
	struct loc from = { .parent = m->loc[n]->parent, .name = m->loc[n]->name };
	struct loc to = { .name = side_name(&m->it, n, KEPT_VICTIM, name) };
	int err;

	if (gfid_is_null(&m->found[n].stands))
		return 0;
	err = side_dir(m->rq, m->d, &m->it, n, &dir);
	to.parent = dir;
	return err ? err : intent_step(m->rq, m->d, &m->it, n, &from, &to, &m->found[n].stands);
}

static int arrives(struct move *m, int n)
{
	cleanup_inode struct inode *dir = NULL;
	const struct side *s = &m->it.side[n];
	bool pointer = s->arrival == ARRIVES_POINTER;
	char name[HIDDEN_NAME];
	struct loc from = { .name = pointer ? work_name(WORK_NEW, &s->aim.pgfid, name)
					    : side_name(&m->it, n, KEPT_LINK, name) };
	struct loc to = { .parent = m->loc[n]->parent, .name = m->loc[n]->name };
	int err;

	if (s->arrival == ARRIVES_NOTHING)
		return 0;
	err = work_dir(m->rq, m->d, s->child, work_of(pointer ? &s->aim.pgfid : &m->it.id), false, &dir);
	from.parent = dir;
	return err ? err : intent_step(m->rq, m->d, &m->it, n, &from, &to, pointer ? &s->aim.pgfid : &s->aim.gfid);
}

static int steps(struct move *m)
{
	int err = intent_stands(m->rq, m->d, &m->it);

	for (int n = 0; n < 2 && !err; n++)
		err = look_again(m, n);
	for (int n = 0; n < 2 && !err; n++)
		err = leaves(m, n);
	for (int n = 0; n < 2 && !err; n++)
		err = arrives(m, n);
	return err ? err : side_mark(m->rq, m->d, &m->it, 1); /* what was done there is on disk before it is decided */
}

/* ---- the whole ---- */

/* Some steps may have been taken. */
static void take_back(struct move *m)
{
	char name[HIDDEN_NAME];

	intent_end(m->rq, m->d, m->it.side[0].child, intent_name(&m->it, name));
}

static int carry_out(struct move *m)
{
	int err = mark_both(m);

	if (err) {
		unmark(m);
		intent_forgo(m->rq, m->d, &m->it);
		return err;
	}
	err = steps(m);
	if (!err)
		err = intent_becomes(m->rq, m->d, &m->it, INTENT_DECIDED);
	if (!err) {
		unmark(m);
		intent_finish(m->rq, m->d, &m->it);
		return 0;
	}
	if (err != -EFENCED)
		take_back(m);
	return err == -EFENCED ? -EAGAIN : err;
}

static int begin(struct move *m)
{
	int err = intent_write(m->rq, m->d, &m->it);

	if (err)
		return err;
	err = prepare_arrivals(m);
	if (err)
		intent_forgo(m->rq, m->d, &m->it);
	else
		err = carry_out(m);
	return err == -ENOENT || err == -ESTALE ? -EAGAIN
						: err; /* it has changed since, or a sweep has taken what waited here */
}

static void note_places(struct move *m)
{
	for (int n = 0; n < 2; n++)
		if (m->it.side[n].arrival != ARRIVES_NOTHING)
			note_place(m->d, m->found[!n].object, m->found[!n].child, m->it.side[n].arrival == ARRIVES_POINTER);
}

static void name_sides(struct move *m, const int child[2])
{
	for (int n = 0; n < 2; n++) {
		struct side *s = &m->it.side[n];

		*s = (struct side){ .child = child[n], .parent = m->loc[n]->parent->gfid };
		snprintf(s->name, sizeof(s->name), "%s", m->loc[n]->name);
	}
	gfid_create(&m->it.id);
}

static int across_once(struct move *m, const int child[2])
{
	uint64_t deadline_ns = m->rq->deadline_ns;
	int err;

	name_sides(m, child);
	err = look_at_side(m, 0);
	if (!err)
		err = look_at_side(m, 1);
	if (!err || err == -ENOENT)
		err = !m->found[0].object ? err : judge(m);
	if (err)
		return err;
	err = may(m);
	if (err)
		return err;
	plan_arrival(m, 0);
	plan_arrival(m, 1);
	task_shield(true);
	m->rq->deadline_ns = clock_ns() + STEPS_NS;
	err = begin(m);
	m->rq->deadline_ns = deadline_ns;
	task_shield(false);
	if (!err)
		note_places(m);
	return err;
}

int rename_across(struct request *rq, struct dht *d, const struct rename_in *in, const int child[2])
{
	struct move m = { .rq = rq, .d = d, .loc = { &in->from, &in->to }, .flags = in->flags };
	int err = -EAGAIN;

	for (int tries = 0; err == -EAGAIN && tries < RENAMES; tries++) {
		if (tries)
			task_sleep_ms((uint64_t)tries);
		err = across_once(&m, child);
	}
	found_clear(&m.found[0]);
	found_clear(&m.found[1]);
	if (!err)
		atomic_fetch_add(&d->renamed_across, 1);
	return err == -EAGAIN ? -ESTALE : err > 0 ? 0 : err;
}
