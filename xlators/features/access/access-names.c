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

/* As with fs.protected_hardlinks, by which the client's kernel can't go: it leaves to us who may read and write. */
int decide_source(struct request *rq, struct xlator *x, struct inode *inode)
{
	cleanup_facts struct facts *f = NULL;
	int err;

	if (is_root(rq))
		return 0;
	f = facts_get(rq, x, inode, &err);
	if (!f) /* of what has gone since it was done the leaf knows */
		return rq->resent && (err == -ENOENT || err == -ESTALE) ? 0 : err;
	if (f->uid == rq->uid)
		return 0;
	err = S_ISREG(f->mode) && !has_privilege(f) ? decide(rq, x, inode, MAY_READ | MAY_WRITE) : -EPERM;
	return err == -EACCES ? -EPERM : err;
}

int decide_link(struct request *rq, struct xlator *x, struct inode *inode, const struct loc *loc)
{
	int err = decide_search(rq, x, loc);

	if (err)
		return err;
	err = decide_source(rq, x, inode);
	if (err == -EPERM)
		return refuse(rq, x, loc, -EEXIST, -EPERM);
	return err ? err : decide_enter(rq, x, loc);
}

/* In a sticky directory a name belongs to the owner of its object and to the owner of the directory. */
static bool sticky_matters(const struct request *rq, const struct facts *dir)
{
	return dir->mode & S_ISVTX && dir->uid != rq->uid;
}

/* A request that is sent once more, of a name that is not (any more) what it says. The leaf knows whether that was done; but the name may become
 * again what is said before the leaf is asked, so that is judged. One that has gone has no names. */
static int decide_said(struct request *rq, struct xlator *x, struct inode *said)
{
	int err = decide_owner(rq, x, said);

	return err == -ENOENT || err == -ESTALE ? 0 : err;
}

/* Who has the name. *judged is a reference on what was judged, which must be what goes: what has the name, or what the request says that it stands
 * for. *none: nothing has it, and nothing was said. */
static int decide_victim(struct request *rq, struct xlator *x, const struct loc *loc, struct inode **judged, bool *none)
{
	cleanup_facts struct facts *dir = NULL;
	struct lookup_out out = { 0 };
	struct inode *said = loc->inode;
	int err;

	if (is_root(rq))
		return 0;
	dir = facts_get(rq, x, loc->parent, &err);
	if (!dir)
		return err;
	if (!sticky_matters(rq, dir))
		return 0;
	err = look(rq, x, loc, &out);
	*none = err == -ENOENT && !said;
	if (!err && (!said || gfid_equal(&said->gfid, &out.inode->gfid))) {
		err = out.attr.uid == rq->uid ? 0 : -EPERM;
		*judged = err ? NULL : inode_ref(out.inode);
	} else if (said && (!err || err == -ENOENT)) {
		err = rq->resent ? decide_said(rq, x, said) : err ? err : -ESTALE;
		*judged = err ? NULL : inode_ref(said);
	}
	fop_out_clear(FOP_lookup, &out);
	return *none ? 0 : err;
}

/* Nothing has the name, and what comes to have it was not judged. A first try may have removed it, and whether the name is elsewhere the child
 * knows; the directory, which no name in it stands for, keeps it from taking anything. */
static int decide_absent(struct request *rq, const struct loc *loc, struct inode **judged)
{
	if (rq->resent)
		*judged = inode_ref(loc->parent);
	return rq->resent ? 0 : -ENOENT;
}

int decide_remove(struct request *rq, struct xlator *x, const struct loc *loc, struct inode **judged)
{
	bool none = false;
	int err = decide_write(rq, x, loc, -EACCES, -ENOENT);

	if (!err)
		err = decide_victim(rq, x, loc, judged, &none);
	return !err && none ? decide_absent(rq, loc, judged) : err;
}

/* A step of a rename over several subvolumes: whether the directory gets another parent in the end that one knows who sends it. */
static bool is_step(const struct request *rq)
{
	struct place p;

	return place_of(rq, &p) > 0 && !gfid_is_null(&p.intent);
}

/* A directory that gets another parent has its ".." changed: that takes write permission on itself. *judged: as of decide_victim(), which may have set it. */
static int decide_reparent(struct request *rq, struct xlator *x, const struct loc *loc, struct inode **judged)
{
	struct inode *moved = *judged ? *judged : loc->inode;
	struct lookup_out out = { 0 };
	int err;

	if (is_root(rq))
		return 0;
	err = moved ? 0 : look(rq, x, loc, &out);
	if (!err && !moved)
		moved = out.inode;
	if (!err && S_ISDIR(moved->type))
		err = decide(rq, x, moved, MAY_WRITE);
	if (rq->resent && moved && moved != out.inode && (err == -ENOENT || err == -ESTALE))
		err = 0; /* what is said has gone: no name leads there any more */
	if (!err && !*judged)
		*judged = inode_ref(moved);
	fop_out_clear(FOP_lookup, &out);
	return err;
}

/* Nothing has the old name. If a first try moved it, it is what has the new one: nothing else that comes to have the old one is moved. That may be this
 * again, so it is judged as what has the old name is: `owned`, its owner. */
static int decide_moved_before(struct request *rq, struct xlator *x, const struct rename_in *in, struct renamed *who,
			       bool owned)
{
	struct lookup_out out = { 0 };
	int err = rq->resent ? look(rq, x, &in->to, &out) : -ENOENT;

	if (!err && owned && out.attr.uid != rq->uid)
		err = -EPERM;
	if (!err)
		who->from = inode_ref(out.inode);
	fop_out_clear(FOP_lookup, &out);
	return err;
}

static int decide_old_name(struct request *rq, struct xlator *x, const struct rename_in *in, struct renamed *who)
{
	bool none = false;
	int err = decide_write(rq, x, &in->from, -EACCES, -ENOENT);

	if (!err)
		err = decide_victim(rq, x, &in->from, &who->from, &none);
	return !err && none ? decide_moved_before(rq, x, in, who, true) : err;
}

static int decide_new_name(struct request *rq, struct xlator *x, const struct rename_in *in, struct renamed *who)
{
	bool exchange = in->flags & RENAME_EXCHANGE;
	int err = decide_write(rq, x, &in->to, in->flags & ~RENAME_EXCHANGE ? -EEXIST : -EACCES, exchange ? -ENOENT : -EACCES);

	if (err)
		return err;
	err = decide_victim(rq, x, &in->to, &who->to, &who->to_new);
	if (err == -ENOENT && !exchange)
		return -ESTALE; /* who names what is to be replaced wants that replaced, and nothing else done */
	return !err && who->to_new && exchange ? -ENOENT : err;
}

int decide_rename(struct request *rq, struct xlator *x, const struct rename_in *in, struct renamed *who)
{
	int err = decide_search(rq, x, &in->from);

	if (!err)
		err = decide_search(rq, x, &in->to);
	if (!err)
		err = decide_old_name(rq, x, in, who);
	if (!err)
		err = decide_new_name(rq, x, in, who);
	if (err || in->from.parent == in->to.parent || is_step(rq))
		return err;
	err = decide_reparent(rq, x, &in->from, &who->from);
	if (err == -ENOENT) {
		err = decide_moved_before(rq, x, in, who, false);
		if (!err)
			err = decide_reparent(rq, x, &in->from, &who->from);
	}
	if (!err && in->flags & RENAME_EXCHANGE)
		err = decide_reparent(rq, x, &in->to, &who->to);
	return err;
}
