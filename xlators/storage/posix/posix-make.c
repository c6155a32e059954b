/* SPDX-License-Identifier: Apache-2.0 */
/* Creation: an object becomes visible with its owner, mode, ACL and identity, or not at all. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "posix.h"

/* What the parent directory says about its new child. */
struct inherited {
	struct acl acl; /* the parent's default ACL; then what of it is the object's own */
	bool any_acl;	/* the parent has one: so the object may have one, or hand one down */
	uid_t uid;
	gid_t gid;
	mode_t mode; /* type and permissions; without the umask where there is no default ACL */
};

int sgid_check(struct request *rq, gid_t gid, mode_t *mode)
{
	int member;

	if (request_is_root(rq) || !(*mode & S_ISGID))
		return 0;
	member = request_in_group(rq, gid);
	if (member < 0)
		return member;
	if (!member)
		*mode &= ~(mode_t)S_ISGID;
	return 0;
}

static int inherit(struct request *rq, const struct hold *parent, const struct making *m, struct inherited *i)
{
	struct statx st;
	int err = hold_stat(parent, &st);

	if (!err)
		err = acl_default(parent, &i->acl);
	if (err)
		return err;
	i->any_acl = i->acl.size;
	i->uid = rq->uid;
	i->gid = st.stx_mode & S_ISGID ? st.stx_gid : rq->gid;
	i->mode = i->acl.size || S_ISLNK(m->mode) ? m->mode : m->mode & ~(m->umask & 0777);
	i->mode &= S_ISDIR(m->mode) ? S_IFMT | 01777 : S_IFMT | 07777;
	if (S_ISDIR(m->mode) && st.stx_mode & S_ISGID)
		i->mode |= S_ISGID;
	else if ((i->mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP))
		err = sgid_check(rq, i->gid, &i->mode);
	return err;
}

/* And its times, which nothing that follows changes. */
static int write_identity(struct request *rq, const struct hold *h, const struct making *m, struct time *birth)
{
	struct identity identity;

	int err = time_birth(rq, h);

	*birth = time_of_ns(rq->time_ns ? rq->time_ns : clock_wall_ns());
	identity_make(&identity, m->gfid, *birth);
	identity_add(&identity, &m->loc->parent->gfid, m->loc->name);
	return err ? err : identity_write(h, &identity, XATTR_CREATE);
}

/* What the leaf itself keeps is not for others to set, and an ACL comes from the parent and the mode. */
static int check_born(struct request *rq, struct born *born)
{
	int err = born_of(rq, born);

	for (unsigned i = 0; i < born->count && !err; i++) {
		const char *name = born->xattr[i].name;

		err = internal_xattr(name) ? -EPERM : !strncmp(name, "system.", 7) ? -EOPNOTSUPP : 0;
	}
	return err;
}

/* Pointers of cluster/dht may use the floor: with them a file gets its name though its data must go elsewhere. */
static bool is_pointer(const struct born *born)
{
	return born->count == 1 && !strcmp(born->xattr[0].name, "trusted.dht.pointer");
}

static int write_born(const struct hold *h, const struct born *born)
{
	int err = 0;

	for (unsigned i = 0; i < born->count && !err; i++)
		err = hold_setxattr(h, born->xattr[i].name, born->xattr[i].value, born->xattr[i].size, 0);
	return err;
}

/* Changing the owner takes these bits away. */
static int special_bits(const struct hold *h, mode_t mode)
{
	struct statx st;
	int err = mode & 07000 ? hold_stat(h, &st) : 0;

	return err || !(mode & 07000) ? err : hold_mode(h, (st.stx_mode & 0777) | (mode & 07000));
}

/* A nameless file gets all it needs, then its name. The kernel does the ACL. */
static int make_file(struct request *rq, const struct hold *parent, const struct making *m, const struct inherited *i,
		     struct hold *made, struct time *birth)
{
	int flags = O_TMPFILE | O_RDWR | O_CLOEXEC | m->open_flags, err;

	made->fd = openat(parent->fd, ".", flags, i->mode & 07777);
	if (made->fd < 0 && errno_now() == EINVAL && flags & O_DIRECT)
		made->fd = openat(parent->fd, ".", flags & ~O_DIRECT, i->mode & 07777);
	err = result(made->fd);
	if (!err && (i->uid || i->gid))
		err = hold_owner(made, i->uid, i->gid);
	if (!err)
		err = special_bits(made, i->mode);
	if (!err)
		err = write_identity(rq, made, m, birth);
	if (!err)
		err = write_born(made, &m->born);
	return err ? err : result(linkat(made->fd, "", parent->fd, m->loc->name, AT_EMPTY_PATH));
}

static int stage_node(struct brick *b, const struct making *m, const char *name, mode_t mode, struct hold *made)
{
	int err;

	if (S_ISDIR(mode))
		err = result(mkdirat(b->staging_fd, name, mode & 07777));
	else if (S_ISLNK(mode))
		err = result(symlinkat(m->target, b->staging_fd, name));
	else
		err = result(mknodat(b->staging_fd, name, mode, m->rdev));
	if (err)
		return err;
	made->path = !S_ISDIR(mode);
	made->fd = openat(b->staging_fd, name, O_NOFOLLOW | O_CLOEXEC | (S_ISDIR(mode) ? O_RDONLY | O_DIRECTORY : O_PATH));
	return result(made->fd);
}

/* What the kernel does for a child of the parent: the default ACL is handed down, and limits the mode. */
static int hand_down_acl(const struct hold *made, struct inherited *i)
{
	int err = S_ISDIR(i->mode) ? hold_setxattr(made, ACL_DEFAULT, i->acl.bytes, i->acl.size, 0) : 0;

	if (!err)
		err = acl_inherit(&i->acl, &i->mode);
	return err || !i->acl.size ? err : hold_setxattr(made, ACL_ACCESS, i->acl.bytes, i->acl.size, 0);
}

static int stage(struct request *rq, struct brick *b, const struct making *m, struct inherited *i, const char *name,
		 struct hold *made, struct time *birth)
{
	bool acl = i->acl.size && !S_ISLNK(i->mode);
	int err = stage_node(b, m, name, i->mode, made);

	if (!err && (i->uid || i->gid))
		err = hold_owner(made, i->uid, i->gid);
	if (!err && acl)
		err = hand_down_acl(made, i);
	if (!err && (acl || (i->mode & 07000)))
		err = hold_mode(made, i->mode & 07777);
	if (!err)
		err = write_identity(rq, made, m, birth);
	return err ? err : write_born(made, &m->born);
}

/* What has no nameless form is made in .stratus/staging and moved to its place. */
static int make_staged(struct request *rq, struct brick *b, const struct hold *parent, const struct making *m,
		       struct inherited *i, struct hold *made, struct time *birth)
{
	char name[24];
	int err;

	snprintf(name, sizeof name, "%" PRIxFAST64, atomic_fetch_add(&b->staged, 1));
	err = stage(rq, b, m, i, name, made, birth);
	if (!err)
		err = result(renameat2(b->staging_fd, name, parent->fd, m->loc->name, RENAME_NOREPLACE));
	if (err && unlinkat(b->staging_fd, name, 0) < 0)
		unlinkat(b->staging_fd, name, AT_REMOVEDIR);
	return err;
}

/* What was removed a moment ago may have the last inodes yet, not only blocks. */
static int make_object(struct request *rq, struct brick *b, const struct hold *parent, const struct making *m,
		       struct inherited *i, struct hold *made, struct time *birth)
{
	unsigned tries = 0;
	int err;

	do {
		hold_end(made);
		err = inherit(rq, parent, m, i);
		if (!err)
			err = S_ISREG(m->mode) ? make_file(rq, parent, m, i, made, birth)
					       : make_staged(rq, b, parent, m, i, made, birth);
	} while (err == -ENOSPC && close_now(b, &tries));
	return err;
}

static int attach_made(struct request *rq, struct xlator *x, const struct making *m, const struct inherited *i,
		       const struct hold *made, struct time birth, struct inode **inode, struct attr *attr)
{
	struct link_name name = { &m->loc->parent->gfid, m->loc->name };
	struct statx st;
	int err = hold_stat(made, &st);

	if (!err)
		err = object_attach(x, made, &st, m->gfid, birth, inode);
	if (!err) {
		if (!i->any_acl)
			acl_none(object_of(x, *inode));
		attr_fill(x, *inode, &st, attr);
		atomic_store(&object_of(x, *inode)->seen, name_hash(&name));
		time_born(rq, x, *inode);
	}
	return err == -EEXIST || err == -ESTALE ? -EIO : err; /* it is made, which those would deny */
}

/* Other replicas make it only now. */
static int born_now(struct request *rq, struct xlator *x, struct inode *inode, struct attr *attr)
{
	bool touched = time_ns(attr->mtime) != time_ns(attr->btime);
	cleanup_hold struct hold h = HOLD_NONE;
	int err;

	if (!rq->time_ns || time_ns(attr->btime) == (rq->time_ns & ~TIME_KEPT))
		return 0;
	err = hold_inode(x, inode, &h);
	if (!err)
		err = time_be_born(rq, x, inode, &h);
	if (!err && !touched)
		err = time_birth(rq, &h);
	return err ? err : attr_of(x, inode, &h, attr);
}

/* The first try of a resent request was done if the name belongs to just the object that it was to make. */
static int made_before(struct request *rq, struct xlator *x, const struct hold *parent, const struct making *m,
		       struct inode **inode, struct attr *attr)
{
	int mine = name_is(x, parent, m->loc->name, m->gfid), err = mine < 0 ? mine : mine ? 0 : -EEXIST;

	if (!err)
		err = object_find(x, parent->fd, m->loc->parent, m->loc->name, inode, attr);
	if (!err && !request_may_have_made(rq, m->mode, attr->mode, attr->uid)) {
		inode_unref(*inode);
		*inode = NULL;
		err = -EEXIST;
	}
	if (!err)
		err = born_now(rq, x, *inode, attr);
	return err ? err : time_bring(rq, x, m->loc->parent, parent);
}

/* -EEXIST: the gfid is of an object that lives: a client that lies, or a bug. */
static int gfid_free(struct xlator *x, const struct gfid *gfid)
{
	cleanup_inode struct inode *inode = inode_find(x->inodes, gfid);
	cleanup_hold struct hold h = HOLD_NONE;
	struct statx st;
	int err = inode ? hold_inode(x, inode, &h) : -ESTALE;

	if (!err)
		err = hold_stat(&h, &st);
	if (err)
		return err == -ESTALE ? 0 : err;
	return st.stx_nlink > 0 ? -EEXIST : 0;
}

static int make(struct request *rq, struct xlator *x, struct making *m, struct inode **inode, struct attr *attr, int *fd)
{
	cleanup_hold struct hold parent = HOLD_NONE, made = HOLD_NONE;
	struct inherited inherited;
	struct time birth;
	int err = parent_hold(x, m->loc, -EPERM, &parent);

	if (!err)
		err = check_born(rq, &m->born);
	if (!err)
		err = is_pointer(&m->born) ? 0 : brick_room(brick_of(x), rq, born_bytes(&m->born));
	if (!err && gfid_is_null(m->gfid))
		err = -EINVAL;
	if (!err)
		err = gfid_free(x, m->gfid);
	if (!err)
		err = make_object(rq, brick_of(x), &parent, m, &inherited, &made, &birth);
	rq->made |= !err;
	rq->untouched |= err == -ENOSPC;
	err = parent_error(&parent, err);
	if (err == -EEXIST && rq->resent)
		return made_before(rq, x, &parent, m, inode, attr);
	if (!err)
		err = time_bring(rq, x, m->loc->parent, &parent);
	if (!err)
		err = attach_made(rq, x, m, &inherited, &made, birth, inode, attr);
	if (!err && fd && S_ISREG(m->mode)) {
		*fd = made.fd;
		made.fd = -1;
	}
	return err;
}

/* Of two requests that make the same object one comes first, and the other finds that the gfid is taken. */
int object_make(struct request *rq, struct xlator *x, struct making *m, struct inode **inode, struct attr *attr, int *fd)
{
	pthread_mutex_t *lock = &brick_of(x)->making_lock[m->gfid->bytes[15] % MUTEXES];
	int err;

	pthread_mutex_lock(lock);
	err = make(rq, x, m, inode, attr, fd);
	pthread_mutex_unlock(lock);
	return err;
}

int brick_mknod(struct request *rq, struct xlator *x, const struct mknod_in *in, struct mknod_out *out)
{
	struct making m = { &in->loc, &in->gfid, in->mode, in->umask, .rdev = in->rdev };
	cleanup_passage struct passage passage = { NULL, NULL };
	int err = passage_enter(&passage, rq, x, in->loc.parent, NULL);

	if (!(m.mode & S_IFMT))
		m.mode |= S_IFREG;
	if (S_ISDIR(m.mode) || S_ISLNK(m.mode))
		return -EINVAL;
	return err ? err : object_make(rq, x, &m, &out->inode, &out->attr, NULL);
}

int brick_mkdir(struct request *rq, struct xlator *x, const struct mkdir_in *in, struct mkdir_out *out)
{
	struct making m = { &in->loc, &in->gfid, S_IFDIR | (in->mode & 07777), in->umask };
	cleanup_passage struct passage passage = { NULL, NULL };
	int err = passage_enter(&passage, rq, x, in->loc.parent, NULL);

	return err ? err : object_make(rq, x, &m, &out->inode, &out->attr, NULL);
}

int brick_symlink(struct request *rq, struct xlator *x, const struct symlink_in *in, struct symlink_out *out)
{
	struct making m = { &in->loc, &in->gfid, S_IFLNK | 0777, 0, .target = in->target };
	cleanup_passage struct passage passage = { NULL, NULL };
	int err = passage_enter(&passage, rq, x, in->loc.parent, NULL);

	if (!in->target)
		return -EINVAL;
	return err ? err : object_make(rq, x, &m, &out->inode, &out->attr, NULL);
}

/* The name was there: the file is opened, if it is one. */
static int open_existing(struct request *rq, struct xlator *x, const struct create_in *in, struct create_out *out)
{
	cleanup_hold struct hold parent = HOLD_NONE;
	int err = parent_hold(x, &in->loc, -EPERM, &parent);

	if (!err)
		err = object_find(x, parent.fd, in->loc.parent, in->loc.name, &out->inode, &out->attr);
	if (!err && !S_ISREG(out->attr.mode))
		return S_ISDIR(out->attr.mode) ? -EISDIR : -ESTALE; /* the kernel then looks the name up again */
	if (!err && in->flags & O_TRUNC)
		err = open_truncate(rq, x, out->inode);
	return err;
}

int brick_create(struct request *rq, struct xlator *x, const struct create_in *in, struct create_out *out)
{
	struct making m = { &in->loc, &in->gfid, S_IFREG | (in->mode & 07777), in->umask,
			    .open_flags = open_flags(brick_of(x), in->flags) & ~O_ACCMODE };
	cleanup_passage struct passage passage = { NULL, NULL };
	int fd = -1, err = passage_enter(&passage, rq, x, in->loc.parent, NULL);

	if (!err)
		err = object_make(rq, x, &m, &out->inode, &out->attr, &fd);
	if (err == -EEXIST && !(in->flags & O_EXCL))
		err = open_existing(rq, x, in, out);
	if (!err && fd < 0)
		fd = object_reopen(x, out->inode, open_flags(brick_of(x), in->flags));
	if (!err && fd == -EINVAL && in->flags & O_DIRECT)
		fd = object_reopen(x, out->inode, open_flags(brick_of(x), in->flags) & ~O_DIRECT);
	if (!err && fd < 0)
		err = fd;
	if (!err)
		err = opened_create(x, out->inode, in->flags, fd, &out->file);
	if (!err && in->flags & O_TRUNC) {
		struct hold h = { .fd = fd, .lent = true };

		err = attr_of(x, out->inode, &h, &out->attr);
	}
	if (err)
		fop_out_clear(FOP_create, out);
	return err;
}
