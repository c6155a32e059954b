/* SPDX-License-Identifier: Apache-2.0 */
/* A subvolume is to leave the volume ("Taking a subvolume out, in detail" in doc/distribution.md): when the root's names have left it, its directories are given to
 * others, files are brought to where their names are by now, and names that led to directories there lead to where these have gone. Then it is looked at: it may go if
 * nothing is left. What is known of it is on the bricks' disks, so that a round can begin anew at any time. */
#include "rebalance-leave.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "quota.h"

enum { PAUSE_MS = 20, HELD_MS = 5000 };
#define FIND_NS 60000000000u

/* ---- directories ---- */

/* Names go to the others that have some; if there are none, all of it to the best of those that stay. */
static int next_layout(struct rebalance *r, struct layout *l, uint32_t id)
{
	struct layout_member pool[SUBVOLUMES_MAX];
	unsigned n = 0, best;
	uint32_t home = l->home;

	for (int i = 0; i < r->d->x->children; i++)
		if (is_member(r->d, i) && !is_leaving(r->d, i) && (l->count == 1 || layout_find(l, (uint32_t)i)))
			pool[n++] = (struct layout_member){ .id = (uint32_t)i, .weight = 1 };
	if (!members_rank(pool, n, layout_key_object(&r->dir->gfid), 1, &best))
		return -ENOTCONN;
	if (home == id)
		home = pool[best].id;
	return l->count == 1 ? layout_replace(l, &pool[best]) : layout_shrink(l, &id, 1, home);
}

/* What the limit of a directory holds stays where it is (doc/usage.md): the brick would refuse the layout. */
static int has_no_limit(struct rebalance *r, int home)
{
	struct getxattr_in in = { .inode = r->dir, .name = QUOTA_XATTR };
	struct getxattr_out out = { 0 };
	struct request rq;
	int err;

	rebalance_ask(r, &rq, REBALANCE_ASK_NS);
	err = place_say(&rq, r->d, &(struct place){ .flags = PLACE_HERE });
	if (!err)
		err = getxattr_on(&rq, r->d->x->child[home], &in, &out);
	fop_out_clear(FOP_getxattr, &out);
	request_finish(&rq);
	return !err ? -EXDEV : err == -ENODATA || err == -EOPNOTSUPP ? 0 : err;
}

static int begin(struct rebalance *r, struct layout *l, uint32_t id)
{
	struct request rq;
	int err = has_no_limit(r, (int)l->home);

	if (!err)
		err = next_layout(r, l, id);

	if (err)
		return err;
	rebalance_ask(r, &rq, REBALANCE_ASK_NS);
	err = place_say_in(&rq, r->d, r->dir);
	if (!err)
		err = make_shards(&rq, r, l);
	request_finish(&rq);
	if (!err)
		err = copy_shards(r, l);
	return err ? err : layout_write(r, l);
}

/* Who leaves is no member of the newest layout, and is told of it last: by who may have died before that. What it says is what all that comes after this goes by. */
static int tell_who_leaves(struct rebalance *r, const struct layout *newest, int child)
{
	struct layout there = { 0 };
	struct request rq;
	int err;

	rebalance_ask(r, &rq, REBALANCE_ASK_NS);
	err = place_say_in(&rq, r->d, r->dir);
	if (!err)
		err = layout_at(&rq, r->d, child, r->dir, &there);
	request_finish(&rq);
	if (err) /* it has none: so it is no leaver, but a shard that no layout names */
		return err == -ENODATA ? 0 : err;
	return there.version < newest->version ? layout_tell(r, newest, child) : 0;
}

/* From where it stands. 1: who leaves has no part of it any more, and says so. */
static int step(struct rebalance *r, int child, int home)
{
	const struct spread *now = NULL;
	struct layout l;
	int err = layout_now(r, &now);

	if (err)
		return err;
	if (now)
		l = now->layout;
	else
		layout_single(&l, (uint32_t)home);
	if (l.moving)
		return move_and_settle(r, &l);
	if (layout_find(&l, (uint32_t)child))
		return begin(r, &l, (uint32_t)child);
	err = now ? tell_who_leaves(r, &l, child) : 0;
	return err ? err : 1;
}

static int give_directory(struct rebalance *r, const struct gfid *gfid, int child)
{
	struct inode *before = r->dir;
	struct request rq;
	int home, err;

	r->dir = NULL;
	rebalance_ask(r, &rq, FIND_NS);
	err = place_say_newest(&rq, r->d);
	if (!err)
		err = directory_find(&rq, r, gfid, child, &home);
	request_finish(&rq);
	while (!err && !rebalance_stops(r) && (err = step(r, child, home)) == -EAGAIN && rebalance_pause(r, PAUSE_MS))
		err = 0;
	inode_unref(r->dir);
	r->dir = before;
	return err;
}

/* One that has gone meanwhile is none; one that can't be given away now keeps no others. */
static void give_each(struct request *rq, void *arg, struct inode *dir, const struct dirents *list)
{
	struct leaving *v = arg;

	(void)dir;
	for (uint32_t i = 0; i < list->count && rebalance_goes_on(v->r); i++) {
		struct gfid gfid;
		int err = directory_parse(list->entry[i].name, &gfid) ? 1 : 0;

		while (!err && !rebalance_stops(v->r))
			err = give_directory(v->r, &gfid, v->child);
		if (err == -EXDEV)
			rebalance_problem(
				v->r, err,
				"the directory %s at %s has a quota of its own, or is in one that has: it stays until that is taken away "
				"(`stratus quota remove`, by the tenant's administrator)",
				list->entry[i].name + 2, subvolume_name(v->r, v->child));
		else if (err < 0 && err != -ESTALE && err != -ENOENT)
			rebalance_problem(v->r, err, "the directory %s can't be given to others by %s: %s",
					  list->entry[i].name + 2, subvolume_name(v->r, v->child), error_text(err));
		rq->deadline_ns = clock_ns() + REBALANCE_ASK_NS;
	}
}

/* All have the newest layout of r->dir; `ends`: and if its names move by that, they do so to the end, and who was to leave has heard of it. */
static int complete_layout(struct rebalance *r, int child, bool ends)
{
	const struct spread *now = NULL;
	int err = layout_now(r, &now);

	if (err || !ends || !now)
		return err;
	if (now->layout.moving) {
		struct layout l = now->layout;

		err = move_and_settle(r, &l);
		return err ? err : -EAGAIN; /* what it is now, it is told then */
	}
	return layout_find(&now->layout, (uint32_t)child) ? 0 : tell_who_leaves(r, &now->layout, child);
}

/* One that has gone meanwhile has none. */
static int complete_directory(struct rebalance *r, const struct gfid *gfid, int child, bool ends)
{
	struct inode *before = r->dir;
	struct request rq;
	int home, err;

	r->dir = NULL;
	rebalance_ask(r, &rq, FIND_NS);
	err = place_say_newest(&rq, r->d);
	if (!err)
		err = directory_find(&rq, r, gfid, child, &home);
	request_finish(&rq);
	while (!err && (err = complete_layout(r, child, ends)) == -EAGAIN && ends && rebalance_pause(r, PAUSE_MS))
		err = 0;
	inode_unref(r->dir);
	r->dir = before;
	return err == -ESTALE || err == -ENOENT ? 0 : err;
}

static void complete_each(struct request *rq, void *arg, struct inode *dir, const struct dirents *list)
{
	struct leaving *v = arg;

	(void)dir;
	for (uint32_t i = 0; i < list->count && v->completes == rebalance_is_paused(v->r) && !rebalance_stops(v->r); i++) {
		struct gfid gfid;
		int err = directory_parse(list->entry[i].name, &gfid)
				  ? 0
				  : complete_directory(v->r, &gfid, v->child, !v->completes);

		if (err == -EIO) /* that nobody can mend here; it is not to keep the others waiting */
			rebalance_problem(v->r, err,
					  "what the bricks say of the directory %s of %s makes no sense: see `stratus fsck`",
					  list->entry[i].name + 2, subvolume_name(v->r, v->child));
		else
			v->err = v->err ? v->err : err;
		rq->deadline_ns = clock_ns() + REBALANCE_ASK_NS;
	}
}

/* By what they say themselves: the walk may have missed their names. */
static void lead_each(struct request *rq, void *arg, struct inode *dir, const struct dirents *list)
{
	struct leaving *v = arg;

	(void)dir;
	for (uint32_t i = 0; i < list->count && rebalance_goes_on(v->r); i++) {
		struct gfid gfid;

		if (!directory_parse(list->entry[i].name, &gfid))
			lead_gone(v->r, &gfid);
		rq->deadline_ns = clock_ns() + REBALANCE_ASK_NS;
	}
}

/* ---- what one half did that was to leave, and does no more, or stands still ---- */

static int lead_all(struct leaving *v)
{
	struct rebalance *r = v->r;
	int before = r->gave, err;

	r->gave = 1 + v->child;
	err = leaving_each_away(v, v->child, 0, lead_each, v);
	r->gave = before;
	return err;
}

/* As long as it is paused, or is not. */
int complete_directories(struct rebalance *r, int child)
{
	struct leaving v = { .r = r, .child = child, .completes = rebalance_is_paused(r) };
	int err = leaving_each_away(&v, v.child, 0, complete_each, &v);

	err = err ? err : v.err;
	if (!err && !v.completes)
		err = lead_all(&v);
	return err ? err : rebalance_stops(r) ? -ECANCELED : v.completes != rebalance_is_paused(r) ? -EAGAIN : 0;
}

/* ---- what was made for directories that went meanwhile ---- */

/* It has nothing but leavers by now, so what says that it is at home there, and is none of them, has gone. */
static void drop_if_gone(struct request *rq, struct elsewhere *e, const struct gfid *gfid)
{
	struct aim aim = { .gfid = *gfid, .child = e->v->child, .dir = true };
	struct lookup_out found = { 0 };

	if (look_at_anchor(rq, e->v->r->d, &aim, &found) == -ENOENT)
		shard_drop(rq, e->v->r->d, gfid, e->child, e->v->child);
	fop_out_clear(FOP_lookup, &found);
}

static void drop_those(struct request *rq, void *arg, struct inode *dir, const struct dirents *list)
{
	struct elsewhere *e = arg;

	(void)dir;
	for (uint32_t i = 0; i < list->count; i++) {
		struct gfid gfid;

		rq->deadline_ns = clock_ns() + REBALANCE_ASK_NS;
		if (list->entry[i].attr.flags & ATTR_WIDE && !directory_parse(list->entry[i].name, &gfid))
			drop_if_gone(rq, e, &gfid);
	}
}

/* A shard that was made for a directory which was removed before a layout named it, by who may have died since: of whatever can't be asked now fsck tells. */
static void drop_all(struct leaving *v)
{
	for (int i = 0; i < v->r->d->x->children; i++) {
		struct elsewhere e = { v, i };

		if (i != v->child && has_subvolume(v->r->d, (uint64_t)i))
			leaving_each_away(v, i, READDIR_PLUS, drop_those, &e);
	}
}

/* ---- the whole ---- */

static uint64_t sum_of(const struct stays *s)
{
	return s->names + s->files + s->directories + s->unsaid + s->records + s->open;
}

/* What was moved so far, as a number that rises. */
static uint64_t deeds_of(struct rebalance *r)
{
	uint64_t deeds;

	pthread_mutex_lock(&r->lock);
	deeds = r->moved + r->files;
	pthread_mutex_unlock(&r->lock);
	return deeds;
}

/* Where nothing gets less nobody need hurry; and what holds it up is told. */
static void note_stays(struct rebalance *r, struct stays *s, uint64_t deeds_before)
{
	enum { SOON = 3 };
	bool idle = deeds_of(r) == deeds_before;

	pthread_mutex_lock(&r->lock);
	idle &= r->stays.looked && sum_of(s) >= sum_of(&r->stays);
	s->idle = idle ? r->stays.idle + 1 : 0;
	r->stays = *s;
	pthread_mutex_unlock(&r->lock);
	if (s->idle == SOON && s->what[0])
		log_warning(r->d->x, NULL, "rebalance: %s still has %s", subvolume_name(r, leaver_of(r)), s->what);
	if (idle)
		rebalance_pause(r, r->d->sweep_ms < HELD_MS ? r->d->sweep_ms : HELD_MS);
}

static void forget_skipped(struct rebalance *r)
{
	pthread_mutex_lock(&r->lock);
	rebalance_forget_skipped(r);
	pthread_mutex_unlock(&r->lock);
}

static bool pause_for(void *arg, uint64_t ms)
{
	return rebalance_pause(arg, ms);
}

/* Nothing but what is under way, or is kept for those who had files open: that goes when it is old. */
static bool only_records(const struct stays *s)
{
	return (s->records || s->open) && !s->names && !s->files && !s->directories && !s->unsaid;
}

static int or_told(struct leaving *v, int err)
{
	return !err || err == -ECANCELED
		       ? err
		       : rebalance_problem(v->r, err, "the directories that are away at %s can't be listed: %s",
					   subvolume_name(v->r, v->child), error_text(err));
}

/* What was removed there a power cut might bring back, after it was looked: with the last sync before the look it is gone for good (P5). */
static int look_for_good(struct leaving *v)
{
	int err = leaving_look(v);

	if (err || !leaving_is_empty(v))
		return err;
	err = leaving_sync(v);
	v->stays = (struct stays){ 0 };
	v->kept = 0;
	return err ? err : leaving_look(v);
}

int empty_leaver(struct rebalance *r)
{
	struct leaving v = { .r = r, .child = leaver_of(r) };
	uint64_t deeds = deeds_of(r);
	int err;

	rebalance_step(r, "directories");
	err = or_told(&v, leaving_each_away(&v, v.child, 0, give_each, &v));
	forget_skipped(r);
	rebalance_step(r, "files");
	if (!err)
		err = bring_files(r);
	if (!err)
		err = or_told(&v, leaving_each_away(&v, v.child, 0, lead_each, &v));
	if (err || rebalance_stops(r))
		return err ? err : -ECANCELED;
	rebalance_step(r, "looking");
	err = leaver_say(r); /* one who led before, and knew of no leaver, may have taken it back meanwhile */
	if (!err)
		err = look_for_good(&v);
	if (err)
		return err;
	note_stays(r, &v.stays, deeds);
	if (only_records(&v.stays)) {
		rebalance_step(r, "waiting for what is open");
		sweep_all(r->d, pause_for, r);
	}
	if (!leaving_is_empty(&v))
		return -EAGAIN;
	drop_all(&v);
	return rebalance_stops(r) ? -ECANCELED : 0;
}
