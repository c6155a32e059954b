/* SPDX-License-Identifier: Apache-2.0 */
/* Intents that their owners do not end: whoever needs a name that one holds, or finds the record old (sweep.c), takes it over and does the rest, or
 * takes back what was done (doc/distribution.md, Intents). The owner may live: it finds out by its next step. */
#include "dht.h"

#include <errno.h>
#include <string.h>

/* ---- what is in `work` ---- */

/* *there: it stands there; the gfid of it, and whether it is a pointer. */
struct kept_object {
	bool there, points;
	struct gfid gfid;
	struct aim aim;
};

static int look_in_work(struct request *rq, struct dht *d, const struct intent *it, int n, enum kept what,
			struct kept_object *o)
{
	cleanup_inode struct inode *dir = NULL;
	char name[HIDDEN_NAME];
	struct lookup_out out = { 0 };
	int err = side_dir(rq, d, it, n, &dir);

	*o = (struct kept_object){ 0 };
	if (!err)
		err = side_look(rq, d, it, n, dir, side_name(it, n, what, name), &out);
	if (!err) {
		o->there = true;
		o->gfid = out.inode->gfid;
		o->points = out.attr.flags & ATTR_POINTER;
	}
	if (!err && o->points)
		err = aim_of(d, &out, &o->aim);
	fop_out_clear(FOP_lookup, &out);
	return err == -ENOENT ? 0 : err;
}

/* ---- decided ---- */

static int end_victim(struct request *rq, struct dht *d, const struct intent *it, int n)
{
	struct kept_object victim;
	char name[HIDDEN_NAME];
	int err = look_in_work(rq, d, it, n, KEPT_VICTIM, &victim);

	if (err || !victim.there)
		return err;
	if (victim.points)
		err = drop_anchor(rq, d, &victim.aim);
	return err ? err : work_remove(rq, d, it, n, side_name(it, n, KEPT_VICTIM, name));
}

int intent_finish(struct request *rq, struct dht *d, const struct intent *it)
{
	struct who user = become_root(rq);
	int err = end_victim(rq, d, it, 0);

	if (!err)
		err = end_victim(rq, d, it, 1);
	if (!err)
		err = intent_remove(rq, d, it);
	become(rq, user);
	return err;
}

/* ---- not decided ---- */

static int drop_arrival(struct request *rq, struct dht *d, const struct intent *it, int n)
{
	const struct side *s = &it->side[n];
	char name[HIDDEN_NAME];
	int err = 0;

	if (s->arrival == ARRIVES_POINTER)
		err = away_end_new(rq, d, s->child, &s->aim);
	else if (s->arrival == ARRIVES_LINK)
		err = work_remove(rq, d, it, n, side_name(it, n, KEPT_LINK, name));
	return err == -ENOENT || err == -ESTALE ? 0 : err; /* it was not made, or a sweep has taken it */
}

int intent_forgo(struct request *rq, struct dht *d, struct intent *it)
{
	struct who user = become_root(rq);
	int err = it->state == INTENT_UNDONE ? 0 : intent_becomes(rq, d, it, INTENT_UNDONE);

	for (int n = 0; n < 2 && !err; n++)
		err = drop_arrival(rq, d, it, n);
	if (!err)
		err = intent_remove(rq, d, it);
	become(rq, user);
	return err;
}

/* A pointer's gfid is in nobody else's hands. Of an object that somebody else may link to that name it tells that our link is gone: the record is no
 * open one any more when that is removed. */
static int has_arrived(struct request *rq, struct dht *d, const struct intent *it, int n, struct inode *parent, bool *yes)
{
	const struct side *s = &it->side[n];
	const struct gfid *gfid = s->arrival == ARRIVES_POINTER ? &s->aim.pgfid : &s->aim.gfid;
	struct kept_object waits = { 0 };
	struct lookup_out out = { 0 };
	int err = side_look(rq, d, it, n, parent, s->name, &out);

	*yes = !err && gfid_equal(&out.inode->gfid, gfid);
	fop_out_clear(FOP_lookup, &out);
	if (err == -ENOENT || (!err && !*yes))
		return 0;
	if (!err && s->arrival == ARRIVES_LINK)
		err = look_in_work(rq, d, it, n, KEPT_LINK, &waits);
	*yes &= !waits.there;
	return err;
}

static int take_back_arrival(struct request *rq, struct dht *d, const struct intent *it, int n, struct inode *parent)
{
	cleanup_inode struct inode *dir = NULL;
	const struct side *s = &it->side[n];
	bool pointer = s->arrival == ARRIVES_POINTER, arrived = false;
	char name[HIDDEN_NAME];
	struct loc from = { .parent = parent, .name = s->name };
	struct loc to = { .name = pointer ? work_name(WORK_NEW, &s->aim.pgfid, name) : side_name(it, n, KEPT_LINK, name) };
	int err = s->arrival == ARRIVES_NOTHING ? 0 : has_arrived(rq, d, it, n, parent, &arrived);

	if (err || !arrived)
		return err;
	err = work_dir(rq, d, s->child, work_of(pointer ? &s->aim.pgfid : &it->id), true, &dir);
	to.parent = dir;
	return err ? err : intent_step(rq, d, it, n, &from, &to, pointer ? &s->aim.pgfid : &s->aim.gfid);
}

static int take_back_victim(struct request *rq, struct dht *d, const struct intent *it, int n, struct inode *parent)
{
	cleanup_inode struct inode *dir = NULL;
	struct kept_object victim;
	char name[HIDDEN_NAME];
	struct loc from = { .name = side_name(it, n, KEPT_VICTIM, name) }, to = { .parent = parent, .name = it->side[n].name };
	int err = look_in_work(rq, d, it, n, KEPT_VICTIM, &victim);

	if (err || !victim.there)
		return err;
	err = side_dir(rq, d, it, n, &dir);
	from.parent = dir;
	return err ? err : intent_step(rq, d, it, n, &from, &to, &victim.gfid);
}

/* In the opposite order. */
static int take_back(struct request *rq, struct dht *d, const struct intent *it)
{
	int err = 0;

	for (int n = 1; n >= 0 && !err; n--) {
		cleanup_inode struct inode *parent = side_parent(d, &it->side[n]);

		err = parent ? take_back_arrival(rq, d, it, n, parent) : -ENOMEM;
		if (!err)
			err = take_back_victim(rq, d, it, n, parent);
	}
	return err;
}

/* ---- taking over ---- */

/* Where another intent's mark is, ours has gone: it was decided, or no step was ever taken, for nobody held all marks. */
static int mark_anew(struct request *rq, struct dht *d, const struct intent *it, bool *all)
{
	int err = 0;

	*all = true;
	for (int n = 0; n < 2 && !err; n++) {
		err = side_mark(rq, d, it, n);
		if (err != -EMARKED)
			continue;
		*all = false;
		err = 0;
	}
	return err ? err : intent_stands(rq, d, it);
}

static int unmark(struct request *rq, struct dht *d, const struct intent *it)
{
	int first = side_unmark(rq, d, it, 0), second = side_unmark(rq, d, it, 1);

	first = first == -EFENCED ? 0 : first;
	return first ? first : second == -EFENCED ? 0 : second;
}

static int end_it(struct request *rq, struct dht *d, struct intent *it)
{
	bool all;
	int err = intent_take_over(rq, d, it);

	if (!err)
		err = mark_anew(rq, d, it, &all);
	if (!err && it->state == INTENT_OPEN && all)
		err = take_back(rq, d, it);
	if (!err && it->state == INTENT_OPEN)
		err = intent_becomes(rq, d, it, INTENT_UNDONE);
	if (!err)
		err = unmark(rq, d, it);
	if (err)
		return err;
	return it->state == INTENT_DECIDED ? intent_finish(rq, d, it) : intent_forgo(rq, d, it);
}

int intent_end(struct request *rq, struct dht *d, int home, const char *name)
{
	struct who user = become_root(rq);
	struct intent it;
	int err;

	err = intent_read(rq, d, home, name, &it);
	if (err == -EINVAL)
		log_error(d->x, NULL, "%s in " DHT_HIDDEN "/work of %s makes no sense, and is left alone", name,
			  d->x->child[home]->name);
	if (!err)
		err = end_it(rq, d, &it);
	if (!err)
		atomic_fetch_add(&d->taken_over, 1);
	become(rq, user);
	return err;
}

/* ---- who waits for a mark ---- */

struct search {
	struct gfid id;
	char name[HIDDEN_NAME];
};

static void meet(struct request *rq, void *arg, struct inode *dir, const struct dirents *list)
{
	struct search *s = arg;
	struct intent it;

	(void)rq, (void)dir;
	for (uint32_t i = 0; i < list->count; i++)
		if (!intent_parse(list->entry[i].name, &it) && gfid_equal(&it.id, &s->id))
			snprintf(s->name, sizeof(s->name), "%s", list->entry[i].name);
}

/* A mark whose intent is not there was left over: intents are there before their marks, and go after them. */
static int end_holder(struct request *rq, struct dht *d, int child, struct inode *parent, const struct mark *m)
{
	struct search s = { .id = m->intent };
	int home = (int)m->subvolume, err;

	if (home < 0 || home >= d->x->children)
		return -EIO;
	err = work_list(rq, d, home, work_of(&m->intent), meet, &s);
	if (err && err != -ENOENT)
		return err;
	return *s.name ? intent_end(rq, d, home, s.name) : mark_remove(rq, d, child, parent, m);
}

static int mark_of(struct request *rq, struct dht *d, int child, const struct loc *loc, struct mark *m)
{
	char xattr[MARK_NAME];
	struct getxattr_in in = { .inode = loc->parent, .name = mark_name(mark_hash(loc->name), xattr) };
	struct getxattr_out out = { 0 };
	int err = getxattr_on(rq, d->x->child[child], &in, &out);

	m->hash = mark_hash(loc->name);
	if (!err)
		err = mark_decode(out.value.bytes, out.value.size, m);
	fop_out_clear(FOP_getxattr, &out);
	return err;
}

static void end_at_name(struct request *rq, struct dht *d, const struct loc *loc, enum fop fop)
{
	struct who user = become_root(rq);
	struct mark m;
	int child, err = subvolume_of_name(rq, d, loc, fop, &child);

	if (!err)
		err = mark_of(rq, d, child, loc, &m);
	if (!err)
		end_holder(rq, d, child, loc->parent, &m);
	become(rq, user);
}

static void end_holders(struct request *rq, struct dht *d, enum fop fop, const void *in)
{
	for (const struct field *f = fop_info[fop].in; f->name; f++) {
		const struct loc *loc = (const void *)((const char *)in + f->offset);

		if (f->kind == FIELD_LOC && loc->parent && loc->name)
			end_at_name(rq, d, loc, fop);
	}
}

int marks_wait(struct request *rq, struct dht *d, struct patience *p, enum fop fop, const void *in)
{
	enum { PAUSE_MOST_MS = 50 };
	uint64_t now = clock_ns(), since;
	int err;

	if (!p->since_ns)
		*p = (struct patience){ .since_ns = now, .pause_ms = 1 };
	if (now >= rq->deadline_ns)
		return -EIO;
	since = p->taken_over_ns ? p->taken_over_ns : p->since_ns;
	if (now >= since + d->sweep_ms * 1000000) {
		end_holders(rq, d, fop, in);
		p->taken_over_ns = clock_ns();
	}
	err = task_sleep_ms(p->pause_ms);
	p->pause_ms = 2 * p->pause_ms < PAUSE_MOST_MS ? 2 * p->pause_ms : PAUSE_MOST_MS;
	return err;
}
