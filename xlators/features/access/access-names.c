/* SPDX-License-Identifier: Apache-2.0 */
/* The decisions about names in directories: search, make, remove, rename, and what the sticky bit forbids. */
#include <fcntl.h>

#include "access.h"
#include "place.h"

bool readable(const struct file *f)
{
	return (f->flags & O_ACCMODE) != O_WRONLY;
}

bool writable(const struct file *f)
{
	return (f->flags & O_ACCMODE) != O_RDONLY;
}

/* What has that name now. The child is asked: what a client says of it isn't believed. */
static int look(struct request *rq, struct xlator *x, const struct loc *loc, struct lookup_out *out)
{
	struct lookup_in in = { .loc = { .parent = loc->parent, .name = loc->name } };

	return lookup_on(rq, x->child[0], &in, out);
}

/* Permission on the directory is refused. As on Linux, that there is (no) such name is the more important news. */
static int refuse(struct request *rq, struct xlator *x, const struct loc *loc, int if_exists, int if_absent)
{
	struct lookup_out out = { 0 };
	int err = look(rq, x, loc, &out);

	fop_out_clear(FOP_lookup, &out);
	return !err ? if_exists : err == -ENOENT ? if_absent : err;
}

static int decide_write(struct request *rq, struct xlator *x, const struct loc *loc, int if_exists, int if_absent)
{
	int err = decide_search(rq, x, loc);

	if (err)
		return err;
	err = decide(rq, x, loc->parent, MAY_WRITE | MAY_EXEC);
	return err == -EACCES ? refuse(rq, x, loc, if_exists, if_absent) : err;
}

int decide_search(struct request *rq, struct xlator *x, const struct loc *loc)
{
	if (!loc->parent || !loc->name)
		return -EINVAL;
	if (!S_ISDIR(loc->parent->type))
		return -ENOTDIR;
	return decide(rq, x, loc->parent, MAY_EXEC);
}

int decide_enter(struct request *rq, struct xlator *x, const struct loc *loc)
{
	return decide_write(rq, x, loc, -EEXIST, -EACCES);
}

/* In a sticky directory a name belongs to the owner of its object and to the owner of the directory. */
static int decide_sticky(struct request *rq, const struct facts *dir, const struct attr *victim)
{
	if (!(dir->mode & S_ISVTX) || dir->uid == rq->uid || victim->uid == rq->uid)
		return 0;
	return -EPERM;
}

static bool sticky_matters(const struct request *rq, const struct facts *dir)
{
	return dir->mode & S_ISVTX && dir->uid != rq->uid;
}

/* What was judged must be what goes: *judged is a reference on it, *none that there was nothing. */
static int decide_victim(struct request *rq, struct xlator *x, const struct loc *loc, struct inode **judged, bool *none)
{
	cleanup_facts struct facts *dir = NULL;
	struct lookup_out out = { 0 };
	int err;

	if (is_root(rq))
		return 0;
	dir = facts_get(rq, x, loc->parent, &err);
	if (!dir)
		return err;
	if (!sticky_matters(rq, dir))
		return 0;
	err = look(rq, x, loc, &out);
	if (!err)
		err = decide_sticky(rq, dir, &out.attr);
	if (!err)
		*judged = inode_ref(out.inode);
	*none = err == -ENOENT;
	fop_out_clear(FOP_lookup, &out);
	return err == -ENOENT ? 0 : err; /* no such name: the leaf says what that means */
}

int decide_remove(struct request *rq, struct xlator *x, const struct loc *loc, struct inode **judged)
{
	bool none;
	int err = decide_write(rq, x, loc, -EACCES, -ENOENT);

	return err ? err : decide_victim(rq, x, loc, judged, &none);
}

/* A step of a rename over several subvolumes: whether the directory gets another parent in the end that one knows who sends it. */
static bool is_step(const struct request *rq)
{
	struct place p;

	return place_of(rq, &p) > 0 && !gfid_is_null(&p.intent);
}

/* A directory that gets another parent has its ".." changed: that takes write permission on itself. */
static int decide_reparent(struct request *rq, struct xlator *x, const struct loc *loc)
{
	struct lookup_out out = { 0 };
	int err;

	if (is_root(rq))
		return 0;
	err = look(rq, x, loc, &out);
	if (!err && S_ISDIR(out.inode->type))
		err = decide(rq, x, out.inode, MAY_WRITE);
	fop_out_clear(FOP_lookup, &out);
	return err == -ENOENT ? 0 : err;
}

int decide_rename(struct request *rq, struct xlator *x, const struct rename_in *in, struct renamed *who)
{
	bool exchange = in->flags & RENAME_EXCHANGE;
	int err = decide_search(rq, x, &in->from);

	if (!err)
		err = decide_search(rq, x, &in->to);
	if (!err)
		err = decide_remove(rq, x, &in->from, &who->from);
	if (!err)
		err = decide_write(rq, x, &in->to, in->flags & ~RENAME_EXCHANGE ? -EEXIST : -EACCES,
				   exchange ? -ENOENT : -EACCES);
	if (!err)
		err = decide_victim(rq, x, &in->to, &who->to, &who->to_new);
	if (err || in->from.parent == in->to.parent || is_step(rq))
		return err;
	err = decide_reparent(rq, x, &in->from);
	return err || !exchange ? err : decide_reparent(rq, x, &in->to);
}
