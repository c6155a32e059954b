/* SPDX-License-Identifier: Apache-2.0 */
/* Intents that their owners do not end: whoever needs a name that one holds, or finds the record old (sweep.c), takes it over and does the rest, or
 * takes back what was done (doc/distribution.md, Intents). The owner may live: it finds out by its next step. */
#include "dht.h"

#include <errno.h>
#include <string.h>

/* ---- decided ---- */

static int end_victim(struct request *rq, struct dht *d, const struct intent *it, int n)
{
	struct standing victim;
	int err = waits_look(rq, d, it, n, &victim);

	if (err || gfid_is_null(&victim.gfid))
		return err;
	if (victim.points && !MUTANT("keep-victims-anchor"))
		err = drop_anchor(rq, d, &victim.aim);
	return err ? err : waits_remove(rq, d, it, n);
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

static const struct gfid *arrival_gfid(const struct side *s)
{
	return s->arrival == ARRIVES_POINTER ? &s->aim.pgfid : &s->aim.gfid;
}

/* All steps were taken back: what waits is what would have arrived, or that was not made. */
static int drop_arrival(struct request *rq, struct dht *d, const struct intent *it, int n)
{
	const struct side *s = &it->side[n];
	struct standing waits;
	int err = waits_look(rq, d, it, n, &waits);

	if (err || s->arrival == ARRIVES_NOTHING || (!gfid_is_null(&waits.gfid) && !gfid_equal(&waits.gfid, arrival_gfid(s))))
		return err;
	if (s->arrival == ARRIVES_POINTER)
		err = drop_anchor(rq, d, &s->aim);
	return err ? err : waits_remove(rq, d, it, n);
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

/* What arrived goes back to where it waited, in exchange for what had the name before, if anything. While the name is marked nobody else puts the same
 * there; and it waited before the record said that steps may be taken. */
static int take_back_arrival(struct request *rq, struct dht *d, const struct intent *it, int n)
{
	const struct gfid *arrival = arrival_gfid(&it->side[n]);
	struct standing waits, named;
	int err = waits_look(rq, d, it, n, &waits);

	if (err || gfid_equal(&waits.gfid, arrival))
		return err;
	err = name_look(rq, d, it, n, &named);
	if (err || !gfid_equal(&named.gfid, arrival))
		return err;
	return side_step(rq, d, it, n, &(struct step_in){ .moved = *arrival, .other = waits.gfid });
}

static int take_back_leaving(struct request *rq, struct dht *d, const struct intent *it, int n)
{
	struct standing waits;
	int err = waits_look(rq, d, it, n, &waits);

	if (err || gfid_is_null(&waits.gfid))
		return err;
	return side_step(rq, d, it, n, &(struct step_in){ .arrives = true, .moved = waits.gfid });
}

/* In the opposite order. */
static int take_back(struct request *rq, struct dht *d, const struct intent *it)
{
	int err = 0;

	for (int n = 0; n < 2 && !err; n++)
		err = it->side[n].arrival == ARRIVES_NOTHING ? take_back_leaving(rq, d, it, n)
							     : take_back_arrival(rq, d, it, n);
	return err;
}

/* ---- taking over ---- */

struct parents {	      /* of the names */
	struct inode *dir[2]; /* references */
	bool gone;	      /* one of them */
};

static void parents_clear(struct parents *p)
{
	inode_unref(p->dir[0]);
	inode_unref(p->dir[1]);
}

/* They are kept, so that they stay known. Of an intent that may have taken steps both are needed: marks keep them from being removed. */
static int find_parents(struct request *rq, struct dht *d, const struct intent *it, struct parents *p)
{
	int err = 0;

	for (int n = 0; n < 2 && !err; n++) {
		err = side_find(rq, d, &it->side[n], &p->dir[n]);
		p->gone |= err == -ESTALE;
		err = err == -ESTALE && it->state != INTENT_OPEN ? 0 : err;
	}
	return err;
}

static bool gone(const struct parents *p, int err)
{
	return p->gone && (err == -ENOENT || err == -ESTALE);
}

/* Where another intent's mark is, ours has gone: it was decided, or no step was ever taken, for nobody held all marks. The same where the directory
 * has gone, which it can't while names in it are marked. */
static int mark_anew(struct request *rq, struct dht *d, const struct intent *it, const struct parents *p, bool *all)
{
	int err = 0;

	*all = true;
	for (int n = 0; n < 2 && !err; n++) {
		err = side_mark(rq, d, it, n);
		if (err != -EMARKED && !gone(p, err))
			continue;
		*all = false;
		err = 0;
	}
	return err ? err : intent_stands(rq, d, it);
}

static int unmark(struct request *rq, struct dht *d, const struct intent *it, const struct parents *p)
{
	int result = 0;

	for (int n = 0; n < 2; n++) {
		int err = side_unmark(rq, d, it, n);

		if (err != -EFENCED && !gone(p, err))
			result = err ? err : result;
	}
	return result;
}

static int end_marked(struct request *rq, struct dht *d, struct intent *it, const struct parents *p)
{
	bool all;
	int err = mark_anew(rq, d, it, p, &all);

	if (!err &&
	    (it->state == INTENT_OPEN ? !MUTANT("forget-steps") : it->state == INTENT_DECIDED && MUTANT("undo-decided")) && all)
		err = take_back(rq, d, it);
	if (!err && it->state == INTENT_OPEN)
		err = intent_becomes(rq, d, it, INTENT_UNDONE);
	return err ? err : unmark(rq, d, it, p);
}

static int end_it(struct request *rq, struct dht *d, struct intent *it)
{
	struct parents p = { 0 };
	int err = find_parents(rq, d, it, &p);

	if (!err)
		err = intent_take_over(rq, d, it);
	if (!err)
		err = end_marked(rq, d, it, &p);
	parents_clear(&p);
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
	struct mark m;
	int child, err = subvolume_of_name(rq, d, loc, fop, &child);

	if (!err)
		err = mark_of(rq, d, child, loc, &m);
	if (!err)
		end_holder(rq, d, child, loc->parent, &m);
}

/* As root, and with nothing of what the caller's request says beside its names. */
static void end_holders(struct request *rq, struct dht *d, enum fop fop, const void *in)
{
	struct request own;

	request_init(&own, d->x->graph, 0);
	own.group_count = 0;
	own.deadline_ns = rq->deadline_ns;
	place_attach(&own, &(struct place){ 0 });
	for (const struct field *f = fop_info[fop].in; f->name; f++) {
		const struct loc *loc = (const void *)((const char *)in + f->offset);

		if (f->kind == FIELD_LOC && loc->parent && loc->name)
			end_at_name(&own, d, loc, fop);
	}
	request_finish(&own);
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
