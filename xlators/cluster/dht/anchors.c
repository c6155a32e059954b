/* SPDX-License-Identifier: Apache-2.0 */
/* Anchors: the names, which no mount shows, of what pointers lead to. A pointer tells for good where its anchor is. Was the object moved since, with all of its names, then what
 * is left there, a stub, keeps the anchor and tells where the object is, which has the same one there. (Of one name: that stands for the object itself by then.) */
#include "dht.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* ---- looking ---- */

static int wrong_anchor(struct dht *d, const struct aim *aim, const char *name)
{
	log_error(d->x, NULL, "%s in " DHT_HIDDEN "/away of %s is another object than its name says", name,
		  d->x->child[aim->child]->name);
	return -EIO;
}

int anchor_look(struct request *rq, struct dht *d, const struct aim *aim, struct lookup_out *out)
{
	cleanup_inode struct inode *dir = NULL;
	struct lookup_in in = { 0 };
	char name[HIDDEN_NAME];
	struct who user;
	int err = away_dir(rq, d, aim->child, &aim->gfid, false, &dir);

	if (err)
		return err;
	in.loc = (struct loc){ .parent = dir, .name = anchor_name(aim, name) };
	user = become_root(rq);
	err = lookup_on(rq, d->x->child[aim->child], &in, out);
	become(rq, user);
	if (err == -ESTALE)
		hidden_forget(d, aim->child); /* the directory was made anew */
	if (!err && !gfid_equal(&out->inode->gfid, &aim->gfid))
		err = wrong_anchor(d, aim, name);
	if (err) {
		fop_out_clear(FOP_lookup, out);
		memset(out, 0, sizeof(*out));
	}
	return err;
}

/* Where the stub says that the object is. -ENOENT: that is no other place: it has just been moved to where its name is. That tells, or waits. */
static int leads_on_to(struct dht *d, const struct aim *aim, const struct lookup_out *stub, struct aim *next)
{
	*next = *aim;
	next->child = (int)stub->attr.rdev;
	if (!has_subvolume(d, stub->attr.rdev)) {
		log_error(d->x, NULL, "a file that was moved is at subvolume %llu, and there is none of that number here",
			  (unsigned long long)stub->attr.rdev);
		return -EIO;
	}
	return next->child == aim->child || MUTANT("lead-not-on") ? -ENOENT : 0;
}

int object_look(struct request *rq, struct dht *d, const struct aim *aim, struct lookup_out *out, int *child)
{
	struct aim next;
	int err = anchor_look(rq, d, aim, out);

	*child = aim->child;
	if (err || !(out->attr.flags & ATTR_POINTER))
		return err;
	err = leads_on_to(d, aim, out, &next);
	fop_out_clear(FOP_lookup, out);
	memset(out, 0, sizeof(*out));
	if (err)
		return err;
	*child = next.child;
	err = anchor_look(rq, d, &next, out);
	if (err || !(out->attr.flags & ATTR_POINTER))
		return err;
	fop_out_clear(FOP_lookup, out);
	memset(out, 0, sizeof(*out));
	return -ENOENT;
}

int look_at_anchor(struct request *rq, struct dht *d, const struct aim *aim, struct lookup_out *out)
{
	int child;

	return object_look(rq, d, aim, out, &child);
}

/* ---- adding ---- */

int anchor_add(struct request *rq, struct dht *d, const struct aim *aim, struct inode *inode, struct link_out *out)
{
	cleanup_inode struct inode *dir = NULL;
	char name[HIDDEN_NAME];
	struct link_in in = { .inode = inode, .loc = { .name = anchor_name(aim, name) } };
	struct who user = become_root(rq);
	int err = away_dir(rq, d, aim->child, &aim->gfid, true, &dir);

	in.loc.parent = dir;
	if (!err)
		err = link_on(rq, d->x->child[aim->child], &in, out);
	become(rq, user);
	if (err == -ESTALE)
		hidden_forget(d, aim->child);
	return err;
}

int directory_sync(struct request *rq, struct dht *d, int child, struct inode *dir)
{
	struct xlator *at = d->x->child[child];
	struct opendir_in in = { .inode = dir };
	struct opendir_out out = { 0 };
	struct fsync_in sync = { 0 };
	struct fsync_out synced = { 0 };
	struct release_out released = { 0 };
	struct who user = become_root(rq);
	int err = opendir_on(rq, at, &in, &out);

	sync.file = out.file;
	if (!err) {
		err = fsync_on(rq, at, &sync, &synced);
		release_on(rq, at, &(struct release_in){ .file = out.file }, &released);
	}
	file_unref(out.file);
	become(rq, user);
	return err;
}

int anchor_sync(struct request *rq, struct dht *d, const struct aim *aim)
{
	cleanup_inode struct inode *dir = NULL;
	int err = away_dir(rq, d, aim->child, &aim->gfid, false, &dir);

	return err ? err : directory_sync(rq, d, aim->child, dir);
}

/* ---- dropping ---- */

int remove_at(struct request *rq, struct xlator *child, const struct loc *loc)
{
	struct unlink_in in = { .loc = *loc };
	struct unlink_out out = { 0 };
	int err = unlink_on(rq, child, &in, &out);

	if (err == -EISDIR)
		err = rmdir_on(rq, child, (const struct rmdir_in *)&in, (struct rmdir_out *)&out);
	return err == -ENOENT ? 0 : err;
}

static int remove_anchor(struct request *rq, struct dht *d, const struct aim *aim)
{
	cleanup_inode struct inode *away = NULL;
	char anchor[HIDDEN_NAME];
	struct loc there = { .name = anchor_name(aim, anchor) };
	int err = away_dir(rq, d, aim->child, &aim->gfid, false, &away);

	there.parent = away;
	if (!err)
		err = remove_at(rq, d->x->child[aim->child], &there);
	return err == -ENOENT ? 0 : err; /* there is none, or nowhere to look */
}

/* A stub has it: the one that counts is where the object is by now, and goes first. Who dies in between leaves the pointer, and what tells where to look. */
static int remove_both(struct request *rq, struct dht *d, const struct aim *aim)
{
	struct lookup_out stub = { 0 };
	struct place before = { 0 };
	struct aim next;
	int err = place_of(rq, &before) < 0 ? -EIO : mean_pointers(rq, d, true);

	if (!err)
		err = anchor_look(rq, d, aim, &stub);
	if (!err)
		err = stub.attr.flags & ATTR_POINTER ? leads_on_to(d, aim, &stub, &next) : -EBUSY;
	fop_out_clear(FOP_lookup, &stub);
	if (!err)
		err = remove_anchor(rq, d, &next);
	if (!err)
		err = mean_these(rq, d, &aim->gfid, NULL);
	if (!err)
		err = remove_anchor(rq, d, aim);
	place_attach(rq, &before); /* which can't fail any more */
	return err == -ENOENT ? 0 : err;
}

static int drop_target_once(struct request *rq, struct dht *d, const struct aim *aim)
{
	int err = remove_anchor(rq, d, aim);

	return err == -EPOINTER ? remove_both(rq, d, aim) : err;
}

int drop_target(struct request *rq, struct dht *d, const struct aim *aim)
{
	int err = -ESTALE;

	for (int tries = 0; err == -ESTALE && tries < 2; tries++) {
		bool first = true;

		if (tries) /* the brick lost it with its power, or it was made anew */
			hidden_forget(d, aim->child);
		err = aim->dir ? parent_is_first(rq, d, aim, &first) : 0;
		if (!err && !first) /* it was not made for this pointer */
			return 0;
		if (!err)
			err = drop_target_once(rq, d, aim);
	}
	return err == -ENOENT ? 0 : err;
}

int drop_anchor(struct request *rq, struct dht *d, const struct aim *aim)
{
	return aim->dir ? 0 : drop_target(rq, d, aim);
}
