/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes: getattr, setattr, readlink, statfs. */
#include <limits.h>
#include <sys/statvfs.h>

#include "posix.h"

int brick_getattr(struct request *rq, struct xlator *x, const struct getattr_in *in, struct getattr_out *out)
{
	struct inode *inode = in->inode ? in->inode : in->file ? in->file->inode : NULL;
	cleanup_hold struct hold h = HOLD_NONE;
	int err = hold_open(x, inode, in->file, &h);

	(void)rq;
	return err ? err : attr_of(x, inode, &h, &out->attr);
}

/* Linux drops S_ISUID, and S_ISGID where it means a group (not mandatory locking). security.capability goes by itself:
 * the kernel removes that for root's writes too. */
int privileges_drop(struct xlator *x, struct inode *inode, const struct hold *h)
{
	struct object *o = object_of(x, inode);
	mode_t keep = 07777;
	struct statx st;
	int err;

	if (!o || !S_ISREG(inode->type) || !atomic_exchange(&o->privileged, false))
		return 0;
	err = hold_stat(h, &st);
	if (err) {
		atomic_store(&o->privileged, true);
		return err;
	}
	if (st.stx_mode & S_IXGRP)
		keep &= ~(mode_t)S_ISGID;
	keep &= ~(mode_t)S_ISUID;
	if (st.stx_mode & S_ISGID & keep)
		atomic_store(&o->privileged, true);
	return (st.stx_mode & 07777 & ~keep) ? hold_mode(h, st.stx_mode & keep) : 0;
}

/* Before it is longer. */
static int settle_tail(struct xlator *x, struct inode *inode, const struct hold *h, uint64_t size)
{
	struct hold_path path;
	uint64_t edge;
	int first = tail_goes_first(x, inode, h, size, &edge);
	cleanup_fd int fd = first > 0 ? open(hold_path(h, &path), O_RDONLY | O_CLOEXEC) : -1;

	return first <= 0 ? first : fd < 0 ? result(fd) : tail_first(x, inode, fd, edge);
}

static int set_size(struct request *rq, struct xlator *x, struct inode *inode, const struct setattr *s, const struct hold *h)
{
	struct hold_path path;
	int err = 0;

	if (!S_ISREG(inode->type))
		return S_ISDIR(inode->type) ? -EISDIR : -EINVAL;
	if (s->size > INT64_MAX)
		return -EFBIG;
	if (!request_is_root(rq) || s->valid & SET_KILL_PRIV)
		err = privileges_drop(x, inode, h);
	if (!err)
		err = settle_tail(x, inode, h, s->size);
	return err ? err : result(truncate(hold_path(h, &path), (off_t)s->size));
}

static int set_mode(struct request *rq, struct xlator *x, struct inode *inode, mode_t mode, const struct hold *h)
{
	struct object *o = object_of(x, inode);
	struct statx st;
	int err = 0;

	mode &= 07777;
	if (S_ISLNK(inode->type))
		return -EOPNOTSUPP;
	if (mode & S_ISGID && !request_is_root(rq) && !S_ISDIR(inode->type)) {
		err = hold_stat(h, &st);
		if (!err)
			err = sgid_check(rq, st.stx_gid, &mode);
	}
	if (!err)
		err = hold_mode(h, mode);
	if (!err && o && mode & (S_ISUID | S_ISGID))
		atomic_store(&o->privileged, true);
	return err;
}

/* Owner before mode, as a new owner takes setuid and setgid away; size before times. */
static int set_all(struct request *rq, struct xlator *x, struct inode *inode, const struct setattr *s, const struct hold *h)
{
	bool alone = (s->valid & (SET_KILL_PRIV | SET_SIZE)) ==
		     SET_KILL_PRIV; /* a chown that changes neither does that, and no more */
	int err = 0;

	if (s->valid & (SET_UID | SET_GID) || alone)
		err = hold_owner(h, s->valid & SET_UID ? s->uid : (uid_t)-1, s->valid & SET_GID ? s->gid : (gid_t)-1);
	if (!err && s->valid & SET_SIZE)
		err = set_size(rq, x, inode, s, h);
	if (!err && s->valid & SET_MODE)
		err = set_mode(rq, x, inode, s->mode, h);
	if (!err && s->valid & (SET_ATIME | SET_MTIME | SET_ATIME_NOW | SET_MTIME_NOW | (rq->time_ns ? SET_SIZE : 0)))
		err = time_set(rq, x, inode, s, h);
	if (!err && s->valid & SET_BIRTH && rq->time_ns)
		err = time_be_born(rq, x, inode, h);
	return err;
}

int brick_setattr(struct request *rq, struct xlator *x, const struct setattr_in *in, struct setattr_out *out)
{
	struct inode *inode = in->inode ? in->inode : in->file ? in->file->inode : NULL;
	cleanup_passage struct passage passage = { NULL, NULL };
	cleanup_hold struct hold h = HOLD_NONE;
	int err = passage_enter(&passage, rq, x, inode, NULL);

	if (!err)
		err = hold_open(x, inode, in->file, &h);
	if (!err)
		err = set_all(rq, x, inode, &in->set, &h);
	return err ? err : attr_of(x, inode, &h, &out->attr);
}

int brick_readlink(struct request *rq, struct xlator *x, const struct readlink_in *in, struct readlink_out *out)
{
	cleanup_hold struct hold h = HOLD_NONE;
	int err = hold_inode(x, in->inode, &h);
	char target[PATH_MAX];
	ssize_t n;

	(void)rq;
	if (err)
		return err;
	if (!S_ISLNK(in->inode->type))
		return -EINVAL;
	n = readlinkat(h.fd, "", target, sizeof target);
	if (n < 0)
		return result(n);
	out->target = strndup(target, (size_t)n);
	return out->target ? 0 : -ENOMEM;
}

int brick_statfs(struct request *rq, struct xlator *x, const struct statfs_in *in, struct statfs_out *out)
{
	struct brick *b = brick_of(x);
	struct statvfs s;
	uint64_t kept;

	(void)rq;
	(void)in;
	if (fstatvfs(b->root_fd, &s) < 0)
		return result(-1);
	kept = brick_floor(b, s.f_blocks * s.f_frsize) / s.f_frsize;
	out->statfs = (struct statfs){
		.bsize = s.f_bsize,
		.frsize = s.f_frsize,
		.blocks = s.f_blocks,
		.bfree = s.f_bfree,
		.bavail = s.f_bavail > kept ? s.f_bavail - kept : 0,
		.files = s.f_files,
		.ffree = s.f_ffree,
		.namemax = s.f_namemax,
	};
	return 0;
}
