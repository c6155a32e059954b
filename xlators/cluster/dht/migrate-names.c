/* SPDX-License-Identifier: Apache-2.0 */
/* Brings home a file that has several names ("Several names" in doc/distribution.md): all of them lead to it by anchors, so its copy gets the same ones, while a mark holds these where it
 * is and where it comes to. Then the file becomes a stub, for all names at once, and tells those who come by the others where it is; until each of them has got a pointer to
 * there. */
#include "dht.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sys/xattr.h>

enum { TRIES = 8, ANCHORS_MOST = 65536 };

static const struct aim *aim_of_it(const struct intent *it)
{
	return &it->side[0].aim;
}

/* ---- which there are ---- */

static void add(struct anchors *a, const struct gfid *pointer)
{
	struct gfid *more;

	if (a->count == a->room) {
		more = a->room < ANCHORS_MOST ? realloc(a->pointer, (2 * a->room + 8) * sizeof(*more)) : NULL;
		if (!more) {
			a->err = -ENOMEM;
			return;
		}
		a->pointer = more;
		a->room = 2 * a->room + 8;
	}
	a->pointer[a->count++] = *pointer;
}

static void meet(struct request *rq, void *arg, struct inode *dir, const struct dirents *list)
{
	struct anchors *a = arg;
	struct gfid pointer, object;

	(void)rq, (void)dir;
	for (uint32_t i = 0; i < list->count && !a->err; i++)
		if (!anchor_parse(list->entry[i].name, &pointer, &object) && gfid_equal(&object, &a->object))
			add(a, &pointer);
}

int anchors_read(struct request *rq, struct dht *d, int child, const struct gfid *object, struct anchors *a)
{
	struct place before = { 0 };
	int err = place_of(rq, &before);

	*a = (struct anchors){ .object = *object };
	if (err >= 0)
		err = away_list(rq, d, child, object->bytes[0], 0, meet, a);
	place_attach(rq, &before); /* who lists forgets what was said of other directories */
	err = err == -ENOENT ? 0 : err;
	return err ? err : a->err;
}

void anchors_clear(struct anchors *a)
{
	free(a->pointer);
	*a = (struct anchors){ 0 };
}

static bool has(const struct anchors *a, const struct gfid *pointer)
{
	for (unsigned i = 0; i < a->count; i++)
		if (gfid_equal(&a->pointer[i], pointer))
			return true;
	return false;
}

/* ---- the marks ---- */

static int hold_at(struct request *rq, struct dht *d, const struct intent *it, int child, uint32_t flags)
{
	cleanup_inode struct inode *dir = NULL;
	const struct gfid *object = &aim_of_it(it)->gfid;
	char name[ANCHORS_NAME];
	int err = away_dir(rq, d, child, object, true, &dir);

	anchors_mark(object, name);
	if (!err)
		err = mark_put(rq, d, it, child, dir, name, flags);
	if (err == -EMARKED && !mark_end_left_over(rq, d, child, dir, mark_hash(name)))
		err = mark_put(rq, d, it, child, dir, name, flags);
	if (err == -ESTALE)
		hidden_forget(d, child);
	return err;
}

int anchors_hold(struct request *rq, struct dht *d, const struct intent *it)
{
	int err = hold_at(rq, d, it, aim_of_it(it)->child, 0);

	return err ? err : hold_at(rq, d, it, it->side[0].child, 0);
}

static int let_go_at(struct request *rq, struct dht *d, const struct intent *it, int child)
{
	cleanup_inode struct inode *dir = NULL;
	const struct gfid *object = &aim_of_it(it)->gfid;
	char name[ANCHORS_NAME];
	struct mark m = { mark_hash(anchors_mark(object, name)), it->id, attempt_of(it), 0 };
	int err = away_dir(rq, d, child, object, false, &dir);

	if (!err)
		err = mark_remove(rq, d, child, dir, &m);
	return err == -ENOENT || err == -ESTALE || err == -EFENCED ? 0 : err;
}

/* Where it was last: who waits there finds all done. */
int anchors_let_go(struct request *rq, struct dht *d, const struct intent *it)
{
	int err = let_go_at(rq, d, it, it->side[0].child);

	return err ? err : let_go_at(rq, d, it, aim_of_it(it)->child);
}

/* ---- those of the copy ---- */

static int say_step(struct request *rq, struct dht *d, const struct intent *it, const struct gfid *expected)
{
	struct place p = { .flags = PLACE_POINTER, .intent = it->id, .attempt = attempt_of(it) };

	if (expected)
		p.expected[0] = *expected;
	return place_say(rq, d, &p);
}

static int copy_one(struct request *rq, struct dht *d, const struct intent *it, struct inode *copy, const struct gfid *pointer)
{
	struct aim aim = { .gfid = aim_of_it(it)->gfid, .pgfid = *pointer, .child = it->side[0].child };
	struct link_out out = { 0 };
	int err = say_step(rq, d, it, NULL);

	if (!err)
		err = anchor_add(rq, d, &aim, copy, &out);
	place_say(rq, d, &(struct place){ 0 });
	return err == -EEXIST ? 0 : err;
}

static int copy_all(struct request *rq, struct dht *d, const struct intent *it, struct inode *copy, const struct anchors *a)
{
	int err = 0;

	for (unsigned i = 0; i < a->count && !err; i++)
		if (!gfid_equal(&a->pointer[i], &aim_of_it(it)->pgfid))
			err = copy_one(rq, d, it, copy, &a->pointer[i]);
	return err;
}

static int are_there(struct request *rq, struct dht *d, const struct intent *it, const struct anchors *a, bool *yes)
{
	struct anchors now;
	int err = anchors_read(rq, d, it->side[0].child, &a->object, &now);

	*yes = !err;
	for (unsigned i = 0; i < a->count && *yes; i++)
		*yes = gfid_equal(&a->pointer[i], &aim_of_it(it)->pgfid) || has(&now, &a->pointer[i]);
	anchors_clear(&now);
	return err;
}

/* The power may have gone before they were on disk, and what syncs after that does not tell: so they are looked at (P5). */
int anchors_copy(struct request *rq, struct dht *d, const struct intent *it, struct inode *copy, const struct anchors *a)
{
	bool there = false;
	int err = 0;

	for (int tries = 0; !err && !there; tries++) {
		err = tries < TRIES ? copy_all(rq, d, it, copy, a) : -EIO;
		if (!err)
			err = hold_at(rq, d, it, it->side[0].child, XATTR_REPLACE);
		if (!err)
			err = are_there(rq, d, it, a, &there);
	}
	return err;
}

static int undo_one(struct request *rq, struct dht *d, const struct intent *it, struct inode *away, const struct gfid *pointer)
{
	struct aim aim = { .gfid = aim_of_it(it)->gfid, .pgfid = *pointer };
	char name[HIDDEN_NAME];
	struct loc loc = { .parent = away, .name = anchor_name(&aim, name) };
	int err = say_step(rq, d, it, &aim.gfid);

	if (!err)
		err = remove_at(rq, d->x->child[it->side[0].child], &loc);
	place_say(rq, d, &(struct place){ 0 });
	return err == -ESTALE ? 0 : err;
}

/* What it is that has the anchors there. NULL: nothing, or nobody knows it by any of them. */
static int find_anchored(struct request *rq, struct dht *d, int child, const struct anchors *a, struct inode *away,
			 struct inode **found)
{
	int err = 0;

	*found = NULL;
	for (unsigned i = 0; i < a->count && !*found && !err; i++) {
		cleanup_inode struct inode *inode = NULL;
		struct aim aim = { .gfid = a->object, .pgfid = a->pointer[i] };
		char name[HIDDEN_NAME];

		err = hidden_find(rq, d, child, away, anchor_name(&aim, name), &inode);
		err = err == -ENOENT || err == -ESTALE ? 0 : err;
		if (inode && gfid_equal(&inode->gfid, &a->object))
			*found = inode_ref(inode);
	}
	return err;
}

/* Neither the file, nor a stub of it; and not another mover's. (A client of the version before did not write down whose it is. But others make no copy there before
 * this one has let go of its name.) */
static int is_copy_of(struct request *rq, struct dht *d, const struct intent *it, struct inode *inode, bool *yes)
{
	int child = it->side[0].child, err;
	struct pointer leads, kept;

	*yes = false;
	err = stub_read(rq, d, child, inode, &leads);
	if (!err)
		err = kept_read(rq, d, child, inode, &kept);
	if (err)
		return err == -ENODATA || err == -ENOENT || err == -ESTALE ? 0 : err;
	*yes = gfid_is_null(&leads.mover) && (gfid_is_null(&kept.mover) || gfid_equal(&kept.mover, &it->id));
	return 0;
}

/* The anchors of this intent's copy. By another name others may have brought the file to the same place meanwhile: then those there are the file's. */
static int read_own(struct request *rq, struct dht *d, const struct intent *it, struct inode **away, struct anchors *a)
{
	cleanup_inode struct inode *found = NULL;
	int child = it->side[0].child, err;
	bool own = false;

	*away = NULL;
	err = anchors_read(rq, d, child, &aim_of_it(it)->gfid, a);
	if (!err && a->count)
		err = away_dir(rq, d, child, &a->object, false, away);
	if (!err && a->count)
		err = find_anchored(rq, d, child, a, *away, &found);
	if (!err && found)
		err = is_copy_of(rq, d, it, found, &own);
	if (!own && !MUTANT("undo-others-anchors"))
		a->count = 0;
	return err;
}

/* Whose mark is another's by now has none. */
int anchors_undo(struct request *rq, struct dht *d, const struct intent *it)
{
	cleanup_inode struct inode *away = NULL;
	struct anchors a;
	int err = read_own(rq, d, it, &away, &a);

	for (unsigned i = 0; i < a.count && !err; i++)
		err = undo_one(rq, d, it, away, &a.pointer[i]);
	anchors_clear(&a);
	return err == -EFENCED ? 0 : err;
}

int anchors_left(struct request *rq, struct dht *d, const struct intent *it, bool *left)
{
	cleanup_inode struct inode *away = NULL;
	struct anchors a = { 0 };
	int err = hold_at(rq, d, it, it->side[0].child, XATTR_REPLACE);

	*left = false;
	if (err == -EFENCED || err == -EMARKED)
		return 0;
	if (!err)
		err = read_own(rq, d, it, &away, &a);
	*left = a.count;
	anchors_clear(&a);
	return err;
}

/* ---- names that lead there by the stub ---- */

static int give_name(struct request *rq, struct dht *d, const struct loc *loc, int owner, const struct gfid *old,
		     const struct aim *next)
{
	cleanup_inode struct inode *dir = NULL;
	char name[HIDDEN_NAME];
	struct rename_in in = { .from.name = work_name(WORK_NEW, &next->pgfid, name),
				.to = { .parent = loc->parent, .name = loc->name } };
	struct rename_out out = { 0 };
	int err = work_dir(rq, d, owner, work_of(&next->pgfid), true, &dir);

	in.from.parent = dir;
	if (!err)
		err = mean_these(rq, d, &next->pgfid, old);
	if (!err)
		err = rename_on(rq, d->x->child[owner], &in, &out);
	mean_pointers(rq, d, false);
	return err;
}

/* The old pointer keeps its anchors until that is on disk; it is looked at after that (P5). */
static int has_come(struct request *rq, struct dht *d, const struct loc *loc, int owner, const struct aim *next)
{
	cleanup_inode struct inode *pointer = NULL;
	struct aim now = { .pgfid = { { 0 } } };
	struct gfid gfid;
	bool dir;
	int err = directory_sync(rq, d, owner, loc->parent);

	if (!err)
		err = look_at_name(rq, d, owner, loc, &pointer, &now, &gfid, &dir);
	return err ? err : gfid_equal(&now.pgfid, &next->pgfid) ? 0 : -EAGAIN;
}

/* The name has changed, or somebody holds it, or the file: another time. */
static int or_busy(int err)
{
	return err == -EAGAIN || err == -EMARKED || err == -ENOENT || err == -ESTALE || err == -EPOINTER || err == -EMOVED
		       ? BRING_BUSY
		       : err;
}

/* As who links the file to another name, and renames that over this one. */
static int lead_to(struct request *rq, struct dht *d, const struct loc *loc, int owner, struct inode *pointer,
		   const struct aim *old, const struct lookup_out *object, const struct aim *next)
{
	int err = pointer_prepare_removal(rq, d, owner, pointer, old);

	if (err)
		return err;
	err = pointer_make(rq, d, owner, next, object->inode, &object->attr);
	if (!err)
		err = give_name(rq, d, loc, owner, &old->pgfid, next);
	if (err) {
		away_end_new(rq, d, owner, next); /* what can't be done now a sweep does */
		return err;
	}
	err = has_come(rq, d, loc, owner, next);
	if (!err)
		end_now(rq, d, owner, old);
	return err;
}

int name_lead(struct request *rq, struct dht *d, const struct loc *loc, int owner, struct inode *pointer, const struct aim *old)
{
	struct aim next = { .gfid = old->gfid };
	struct lookup_out object = { 0 };
	int err = object_look(rq, d, old, &object, &next.child);

	if (!err && next.child == old->child)
		err = -EAGAIN;
	gfid_create(&next.pgfid);
	if (!err)
		err = lead_to(rq, d, loc, owner, pointer, old, &object, &next);
	fop_out_clear(FOP_lookup, &object);
	return err ? or_busy(err) : BRING_LED;
}
