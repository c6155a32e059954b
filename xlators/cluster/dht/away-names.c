/* SPDX-License-Identifier: Apache-2.0 */
/* Names that lead to pointers: how they go, and get others at their subvolume. What the pointer leads to keeps a name for as long (away.c). */
#include "dht.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { TRIES = 8, RENAMES = 32 };
#define TOUCH_NS 2000000000u

/* ---- removing ---- */

/* Its name, which is to be that pointer's. As the user. */
static int remove_pointer(struct request *rq, struct dht *d, int child, const struct aim *aim, const struct loc *loc)
{
	struct unlink_in in = { .loc = { .parent = loc->parent, .name = loc->name } };
	struct unlink_out out = { 0 };
	int err = mean_these(rq, d, &aim->pgfid, NULL);

	if (!err)
		err = unlink_on(rq, d->x->child[child], &in, &out);
	mean_pointers(rq, d, false);
	return err;
}

/* The name becomes del.PGFID: that is the moment. If the pointer has that one, too, for somebody was about to replace it, the name just goes. As
 * the user. -EAGAIN: it has changed meanwhile. */
static int take_name(struct request *rq, struct dht *d, int child, const struct loc *loc, const struct aim *aim)
{
	cleanup_inode struct inode *dir = NULL;
	char name[HIDDEN_NAME];
	struct loc from = { .parent = loc->parent, .name = loc->name };
	struct loc to = { .name = work_name(WORK_DEL, &aim->pgfid, name) };
	int err = work_dir(rq, d, child, work_of(&aim->pgfid), true, &dir);

	to.parent = dir;
	if (!err)
		err = rename_pointer(rq, d, child, aim, &from, &to);
	if (err == -EEXIST)
		err = remove_pointer(rq, d, child, aim, loc);
	if (err == -ESTALE)
		hidden_forget(d, child); /* or that was made anew */
	return err == -ESTALE ? -EAGAIN : err;
}

/* The name led to a pointer. What it is now decides: -EAGAIN if that is none. */
static int unlink_once(struct request *rq, struct dht *d, const struct unlink_in *in, int owner)
{
	cleanup_inode struct inode *pointer = NULL;
	struct aim aim;
	struct gfid gfid;
	bool dir = false;
	int err = look_at_name(rq, d, owner, &in->loc, &pointer, &aim, &gfid, &dir);

	if (!err && dir)
		err = -EISDIR;
	if (err)
		return err;
	if (!pointer) {
		struct unlink_in plain = { .loc = { .parent = in->loc.parent, .name = in->loc.name } };
		struct unlink_out out = { 0 };

		err = place_say(rq, d, &(struct place){ .expected = { gfid } });
		if (!err)
			err = unlink_on(rq, d->x->child[owner], &plain, &out);
		mean_pointers(rq, d, false);
		return err == -EPOINTER || err == -ESTALE ? -EAGAIN : err;
	}
	err = take_name(rq, d, owner, &in->loc, &aim);
	if (!err)
		end_now(rq, d, owner, &aim);
	return err;
}

int away_unlink(struct request *rq, struct dht *d, const struct unlink_in *in, int owner)
{
	int err = -EAGAIN;

	for (int tries = 0; err == -EAGAIN && tries < TRIES; tries++)
		err = unlink_once(rq, d, in, owner);
	return err == -EAGAIN ? -ESTALE : err;
}

/* ---- rename at one subvolume ---- */

static int plain_rename(struct request *rq, struct xlator *child, const struct rename_in *in)
{
	struct rename_out out = { 0 };
	int err = rename_on(rq, child, in, &out);

	return err == -ESTALE ? -EAGAIN : err;
}

/* The pointer gets the name del.PGFID beside its own: whoever finds that later, and no other name, ends what was begun here. There it may stand
 * already, of one who gave up, or is as far. */
int pointer_prepare_removal(struct request *rq, struct dht *d, int child, struct inode *pointer, const struct aim *aim)
{
	cleanup_inode struct inode *dir = NULL;
	char name[HIDDEN_NAME];
	struct link_in in = { .inode = pointer, .loc = { .name = work_name(WORK_DEL, &aim->pgfid, name) } };
	struct link_out out = { 0 };
	struct who user = become_root(rq);
	int err = work_dir(rq, d, child, work_of(&aim->pgfid), true, &dir);

	in.loc.parent = dir;
	if (!err)
		err = mean_pointers(rq, d, true);
	if (!err)
		err = link_on(rq, d->x->child[child], &in, &out);
	mean_pointers(rq, d, false);
	become(rq, user);
	if (err == -ESTALE)
		hidden_forget(d, child);
	if (err == -ESTALE || err == -ENOENT)
		return -EAGAIN; /* another client has just removed it: the name is looked at again */
	return err == -EEXIST ? 0 : err;
}

/* Nobody makes us prepare what he may not do. */
static int may_rename(struct request *rq, struct xlator *child, const struct rename_in *in)
{
	struct access_in from = { .inode = in->from.parent, .mask = W_OK | X_OK },
			 to = { .inode = in->to.parent, .mask = W_OK | X_OK };
	struct access_out out;
	int err = access_on(rq, child, &from, &out);

	return err || in->from.parent == in->to.parent ? err : access_on(rq, child, &to, &out);
}

/* If it fails, or nobody knows, del.PGFID stays for the sweep, which sees whether there is another name. */
static int replace_pointer(struct request *rq, struct dht *d, const struct rename_in *in, int child, const struct gfid *moved,
			   struct inode *pointer, const struct aim *aim)
{
	int err = may_rename(rq, d->x->child[child], in);

	if (!err && !MUTANT("replace-without-del"))
		err = pointer_prepare_removal(rq, d, child, pointer, aim);
	if (!err)
		err = mean_these(rq, d, moved, &aim->pgfid);
	if (!err)
		err = plain_rename(rq, d->x->child[child], in);
	mean_pointers(rq, d, false);
	if (!err)
		end_now(rq, d, child, aim);
	return err;
}

/* The name stands for that pointer, or file, as it did before the other was looked at: else what was seen may be one name, before and after a rename. */
static int still_stands(struct request *rq, struct dht *d, int child, const struct loc *loc, const struct gfid *what)
{
	cleanup_inode struct inode *pointer = NULL;
	struct gfid gfid;
	struct aim now;
	bool dir;
	int err = look_at_name(rq, d, child, loc, &pointer, &now, &gfid, &dir);

	if (!err && !MUTANT("look-once") && !gfid_equal(pointer ? &now.pgfid : &gfid, what))
		err = -EAGAIN;
	return err == -ENOENT && MUTANT("look-once") ? 0 : err;
}

struct named {		       /* what has one of the names */
	struct inode *pointer; /* a reference, or NULL: it is in place, or nothing is there */
	struct aim aim;
	struct gfid gfid;
	bool dir;
};

static void named_clear(struct named *n)
{
	inode_unref(n->pointer);
}
#define cleanup_named __attribute__((cleanup(named_clear)))

static int look_at_named(struct request *rq, struct dht *d, int child, const struct loc *loc, struct named *n)
{
	return look_at_name(rq, d, child, loc, &n->pointer, &n->aim, &n->gfid, &n->dir);
}

static const struct gfid *object_of(const struct named *n)
{
	return n->pointer ? &n->aim.gfid : &n->gfid;
}

/* Two names of one file: rename(2) does nothing then. (If both are in place the subvolume sees that. One may be a pointer to the other: the file has come to where that is.) */
static bool same(const struct named *a, const struct named *b)
{
	bool points = a->dir ? a->pointer && b->pointer : a->pointer || b->pointer;

	return points && gfid_equal(object_of(a), object_of(b)) && !MUTANT("rename-links");
}

/* Directories behind pointers. -EWIDE: one gets another parent, or goes, so that more must be looked at than these names (across.c). */
static int judge_directories(const struct rename_in *in, const struct named *from, const struct named *to)
{
	bool apart = in->from.parent != in->to.parent, exchange = in->flags & RENAME_EXCHANGE;

	if (!from->pointer && !to->pointer) /* the subvolume sees all of it */
		return 0;
	if (apart && ((from->pointer && from->dir) || (exchange && (from->dir || to->dir))))
		return -EWIDE;
	if (!to->pointer || exchange)
		return 0;
	if (from->dir != to->dir)
		return to->dir ? -EISDIR : -ENOTDIR;
	return to->dir ? -EWIDE : 0;
}

/* What is renamed gets a later ctime, as in other file systems: of what a pointer leads to nothing else has been written. Its atime is written as it
 * is, for that is what setattr can do without changing anything. */
static void touch_object(struct request *rq, struct dht *d, const struct named *n)
{
	struct setattr_in in = { .set.valid = SET_ATIME };
	struct setattr_out changed = { 0 };
	struct lookup_out found = { 0 };
	struct who user;
	int child;

	if (object_look(rq, d, &n->aim, &found, &child))
		return;
	in.inode = found.inode;
	in.set.atime = found.attr.atime;
	user = become_root(rq);
	setattr_on(rq, d->x->child[child], &in, &changed);
	become(rq, user);
	fop_out_clear(FOP_lookup, &found);
}

/* The name is what counts: nobody waits long for a subvolume that is stuck, and not at all for one that is down. */
static void touch(struct request *rq, struct dht *d, const struct named *n)
{
	uint64_t deadline_ns = rq->deadline_ns, soon = clock_ns() + TOUCH_NS;

	if (!n->pointer || atomic_load(&d->down) >> n->aim.child & 1)
		return;
	rq->deadline_ns = deadline_ns && deadline_ns < soon ? deadline_ns : soon;
	touch_object(rq, d, n);
	rq->deadline_ns = deadline_ns;
}

/* The pointer to a name that nothing has, or that has what a rename replaces without more; or an exchange: what was seen there is still so then. (Each pointer keeps its anchor,
 * which knows it by its gfid.) */
static int rename_seen(struct request *rq, struct dht *d, const struct rename_in *in, int child, const struct named *from,
		       const struct named *to)
{
	struct place seen_there = { .flags = from->pointer || to->pointer ? PLACE_POINTER : 0,
				    .expected = { from->gfid, to->gfid } };
	bool nothing = gfid_is_null(&to->gfid);
	struct rename_in seen = *in;
	int err = place_say(rq, d, &seen_there);

	seen.flags |= nothing ? RENAME_NOREPLACE : 0;
	if (!err)
		err = plain_rename(rq, d->x->child[child], &seen);
	return err == -EEXIST && nothing && !(in->flags & RENAME_NOREPLACE) ? -EAGAIN : err;
}

static int rename_named(struct request *rq, struct dht *d, const struct rename_in *in, int child, const struct named *from,
			const struct named *to)
{
	int err = judge_directories(in, from, to);

	if (err)
		return err;
	if (to->pointer && !(in->flags & RENAME_EXCHANGE))
		return replace_pointer(rq, d, in, child, &from->gfid, to->pointer, &to->aim);
	if (from->pointer || in->flags & RENAME_EXCHANGE)
		err = rename_seen(rq, d, in, child, from, to);
	else if (!(err = place_say(rq, d, &(struct place){ .expected = { from->gfid } })))
		err = plain_rename(rq, d->x->child[child], in);
	mean_pointers(rq, d, false);
	return err == -EPOINTER ? -EAGAIN : err;
}

static int rename_once(struct request *rq, struct dht *d, const struct rename_in *in, int child)
{
	cleanup_named struct named from = { 0 }, to = { 0 };
	int err = look_at_named(rq, d, child, &in->from, &from);

	if (err) /* the subvolume says what that means */
		return err;
	err = look_at_named(rq, d, child, &in->to, &to);
	if (err && (err != -ENOENT || in->flags & RENAME_EXCHANGE))
		return err;
	if (to.pointer && in->flags & RENAME_NOREPLACE)
		return -EEXIST;
	if (!err && !(in->flags & RENAME_EXCHANGE) && same(&from, &to))
		return still_stands(rq, d, child, &in->from, from.pointer ? &from.aim.pgfid : &from.gfid);
	err = rename_named(rq, d, in, child, &from, &to);
	if (!err)
		touch(rq, d, &from);
	if (!err && in->flags & RENAME_EXCHANGE)
		touch(rq, d, &to);
	return err;
}

int away_rename(struct request *rq, struct dht *d, const struct rename_in *in, int child)
{
	int err = -EAGAIN;

	for (int tries = 0; err == -EAGAIN && tries < RENAMES; tries++) {
		if (tries)
			task_sleep_ms((uint64_t)tries);
		err = rename_once(rq, d, in, child);
	}
	return err == -EAGAIN ? -ESTALE : err;
}
