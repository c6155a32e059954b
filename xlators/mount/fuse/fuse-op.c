/* SPDX-License-Identifier: Apache-2.0 */
/* Names, attributes and extended attributes: each operation of the kernel becomes one fop. */
#include <linux/fs.h>
#include <sys/stat.h>

#include "fuse-internal.h"

/* Takes over the reference that the fop gave. */
static int reply_entry(struct ask *a, const struct loc *loc, struct inode *inode, const struct attr *attr, uint64_t since)
{
	struct fuse_entry_out out;
	entry_fill(a, &out, inode, attr);
	believe_entry(a, &out, loc, inode, attr, since);
	if (a->head.opcode == FUSE_LOOKUP)
		entry_keep_for_now(a, &out, inode);
	node_remember(a->mount, inode);
	if (reply(a, &out, sizeof(out)) != 0)
		node_forget(a->mount, inode, 1);
	inode_unref(inode);
	return 0;
}

static int reply_attr(struct ask *a, const struct attr *attr)
{
	uint64_t timeout_ms = ask_options(a)->attribute_timeout_ms;
	struct fuse_attr_out out = { .attr_valid = timeout_ms / 1000, .attr_valid_nsec = timeout_ms % 1000 * 1000000 };
	attr_fill(&out.attr, attr);
	reply(a, &out, sizeof(out));
	return 0;
}

static struct inode *this_node(const struct ask *a)
{
	return node(a->mount, a->head.nodeid);
}

static struct loc child_of(const struct ask *a, const char *name)
{
	return (struct loc){ .parent = this_node(a), .name = name };
}

/* The kernel may believe for a while that there is none. */
static int reply_no_entry(struct ask *a, const struct loc *loc, uint64_t since)
{
	struct fuse_entry_out out = { 0 };
	believe_entry(a, &out, loc, NULL, NULL, since);
	if (!out.entry_valid && !out.entry_valid_nsec)
		return -ENOENT;
	reply(a, &out, sizeof(out));
	return 0;
}

int serve_lookup(struct ask *a)
{
	struct lookup_in in = { .loc = child_of(a, a->arg) };
	struct lookup_out out = { 0 };
	int err = name_check(in.loc.name);
	if (err)
		return err;
	uint64_t absent = name_absent(a, in.loc.parent, in.loc.name);
	if (absent)
		return reply_no_entry(a, &in.loc, absent);
	uint64_t since;
	struct inode *known = known_lookup(a, in.loc.parent, in.loc.name, &out.attr, &since);
	if (known)
		return reply_entry(a, &in.loc, known, &out.attr, since);
	since = ask_moment(a);
	err = lookup_on(&a->rq, ask_child(a), &in, &out);
	if (err == -ENOENT)
		return reply_no_entry(a, &in.loc, since);
	return err ? err : reply_entry(a, &in.loc, out.inode, &out.attr, since);
}

/* Of an open file by its handle, if the kernel names it. */
static int attributes(struct ask *a, uint32_t flags, uint64_t fh, struct attr *attr)
{
	const struct handle *h = flags & FUSE_GETATTR_FH ? (void *)(uintptr_t)fh : NULL;
	struct getattr_in in = { .inode = this_node(a), .file = h ? h->file : NULL };
	struct getattr_out out = { 0 };
	if (known_getattr(a, in.inode, attr))
		return 0;
	uint64_t since = ask_moment(a);
	int err = getattr_on(&a->rq, ask_child(a), &in, &out);
	if (!err)
		known_again(a, in.inode, &out.attr, since);
	*attr = out.attr;
	return err;
}

int serve_getattr(struct ask *a)
{
	const struct fuse_getattr_in *arg = (const void *)a->arg;
	struct attr attr;
	int err = attributes(a, arg->getattr_flags, arg->fh, &attr);
	return err ? err : reply_attr(a, &attr);
}

/* Instead of GETATTR, if the birth is asked for, too. */
int serve_statx(struct ask *a)
{
	const struct fuse_statx_in *arg = (const void *)a->arg;
	uint64_t timeout_ms = ask_options(a)->attribute_timeout_ms;
	struct fuse_statx_out out = { .attr_valid = timeout_ms / 1000, .attr_valid_nsec = timeout_ms % 1000 * 1000000 };
	struct attr attr;
	int err = attributes(a, arg->getattr_flags, arg->fh, &attr);
	if (err)
		return err;
	statx_fill(&out.stat, &attr);
	reply(a, &out, sizeof(out));
	return 0;
}

static uint32_t set_valid(uint32_t valid)
{
	static const struct {
		uint32_t kernel, ours;
	} bits[] = { { FATTR_MODE, SET_MODE },
		     { FATTR_UID, SET_UID },
		     { FATTR_GID, SET_GID },
		     { FATTR_SIZE, SET_SIZE },
		     { FATTR_ATIME, SET_ATIME },
		     { FATTR_MTIME, SET_MTIME },
		     { FATTR_ATIME_NOW, SET_ATIME_NOW },
		     { FATTR_MTIME_NOW, SET_MTIME_NOW },
		     { FATTR_KILL_SUIDGID, SET_KILL_PRIV } };
	uint32_t ours = 0;
	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
		ours |= valid & bits[i].kernel ? bits[i].ours : 0;
	if (ours & SET_ATIME_NOW)
		ours &= ~SET_ATIME;
	if (ours & SET_MTIME_NOW)
		ours &= ~SET_MTIME;
	return ours;
}

/* chown(2) with -1 for both ids is for the owner, if there is anything to drop. The kernel asks for the same before somebody writes, who has opened the file for that. */
static int drop_decided(struct ask *a, struct inode *inode)
{
	struct attr attr;
	int err;

	if (request_is_root(&a->rq) || opened_to_write(a->mount, inode))
		return 0;
	err = attributes(a, 0, 0, &attr);
	if (err || attr.uid == a->rq.uid || !(attr.mode & (S_ISUID | S_ISGID)))
		return err;
	if (attr.mode & S_ISUID || attr.mode & S_IXGRP)
		return -EPERM;
	err = request_in_group(&a->rq, attr.gid);
	return err < 0 ? err : err ? 0 : -EPERM;
}

int serve_setattr(struct ask *a)
{
	const struct fuse_setattr_in *arg = (const void *)a->arg;
	const struct handle *h = arg->valid & FATTR_FH ? (void *)(uintptr_t)arg->fh : NULL;
	struct setattr_in in = {
		.inode = this_node(a),
		.file = h ? h->file : NULL,
		.set = { .valid = set_valid(arg->valid),
			 .mode = arg->mode,
			 .uid = arg->uid,
			 .gid = arg->gid,
			 .size = arg->size,
			 .atime = { arg->atime, arg->atimensec },
			 .mtime = { arg->mtime, arg->mtimensec } },
	};
	struct setattr_out out = { 0 };
	if (!in.set.valid && !S_ISDIR(in.inode->type)) {
		int refused = drop_decided(a, in.inode);
		if (refused)
			return refused;
		in.set.valid = SET_KILL_PRIV;
	}
	known_recast_begins(a->mount, in.set.valid & SET_SIZE);
	int err = setattr_on(&a->rq, ask_child(a), &in, &out);
	known_recast_ends(a->mount, in.set.valid & SET_SIZE);
	if (in.set.valid & SET_MODE)
		mode_set(a, in.inode, in.set.mode);
	return err ? err : reply_attr(a, &out.attr);
}

int serve_access(struct ask *a)
{
	const struct fuse_access_in *arg = (const void *)a->arg;
	struct access_in in = { .inode = this_node(a), .mask = arg->mask };
	struct access_out out = { 0 };
	int err = access_on(&a->rq, ask_child(a), &in, &out);
	return reply_done(a, err == -EOPNOTSUPP ? 0 : err); /* a graph that decides nothing refuses nothing */
}

int serve_readlink(struct ask *a)
{
	struct readlink_in in = { .inode = this_node(a) };
	struct readlink_out out = { 0 };
	int err = readlink_on(&a->rq, ask_child(a), &in, &out);
	if (!err)
		reply(a, out.target, strlen(out.target));
	fop_out_clear(FOP_readlink, &out);
	return err;
}

int serve_mknod(struct ask *a)
{
	const struct fuse_mknod_in *arg = (const void *)a->arg;
	struct mknod_in in = {
		.loc = child_of(a, a->arg + sizeof(*arg)), .mode = arg->mode, .umask = arg->umask, .rdev = arg->rdev
	};
	struct mknod_out out = { 0 };
	uint64_t since = ask_moment(a);
	int err = name_check(in.loc.name);
	gfid_create(&in.gfid);
	name_begins(a, in.loc.parent, in.loc.name);
	if (!err)
		err = mknod_on(&a->rq, ask_child(a), &in, &out);
	name_ends(a, in.loc.parent);
	return err ? err : reply_entry(a, &in.loc, out.inode, &out.attr, since);
}

int serve_mkdir(struct ask *a)
{
	const struct fuse_mkdir_in *arg = (const void *)a->arg;
	struct mkdir_in in = { .loc = child_of(a, a->arg + sizeof(*arg)), .mode = arg->mode, .umask = arg->umask };
	struct mkdir_out out = { 0 };
	uint64_t since = ask_moment(a);
	int err = name_check(in.loc.name);
	gfid_create(&in.gfid);
	name_begins(a, in.loc.parent, in.loc.name);
	if (!err)
		err = mkdir_on(&a->rq, ask_child(a), &in, &out);
	name_ends(a, in.loc.parent);
	if (!err && since && a->rq.moment) {
		since = a->rq.moment;
		names_none(a, out.inode, since);
	}
	return err ? err : reply_entry(a, &in.loc, out.inode, &out.attr, since);
}

int serve_symlink(struct ask *a)
{
	struct symlink_in in = { .loc = child_of(a, a->arg), .target = a->arg + strlen(a->arg) + 1 };
	struct symlink_out out = { 0 };
	uint64_t since = ask_moment(a);
	int err = name_check(in.loc.name);
	gfid_create(&in.gfid);
	name_begins(a, in.loc.parent, in.loc.name);
	if (!err)
		err = symlink_on(&a->rq, ask_child(a), &in, &out);
	name_ends(a, in.loc.parent);
	return err ? err : reply_entry(a, &in.loc, out.inode, &out.attr, since);
}

int serve_unlink(struct ask *a)
{
	struct unlink_in in = { .loc = child_of(a, a->arg) };
	struct unlink_out out = { 0 };
	int err = name_check(in.loc.name);
	known_rename(a->mount);
	if (!err)
		err = unlink_on(&a->rq, ask_child(a), &in, &out);
	known_rename(a->mount);
	return reply_done(a, err);
}

int serve_rmdir(struct ask *a)
{
	struct rmdir_in in = { .loc = child_of(a, a->arg) };
	struct rmdir_out out = { 0 };
	int err = name_check(in.loc.name);
	known_rename(a->mount);
	if (!err)
		err = rmdir_on(&a->rq, ask_child(a), &in, &out);
	known_rename(a->mount);
	return reply_done(a, err);
}

static int rename_names(struct ask *a, const char *names, uint64_t to_directory, uint32_t flags)
{
	struct rename_in in = {
		.from = child_of(a, names),
		.to = { .parent = node(a->mount, to_directory), .name = names + strlen(names) + 1 },
		.flags = flags,
	};
	struct rename_out out = { 0 };
	int err = name_check(in.from.name);
	if (!err)
		err = name_check(in.to.name);
	known_rename(a->mount);
	name_begins(a, in.to.parent, in.to.name);
	name_begins(a, in.from.parent, in.from.name); /* one of RENAME_EXCHANGE, or of RENAME_WHITEOUT */
	if (!err)
		err = rename_on(&a->rq, ask_child(a), &in, &out);
	name_ends(a, in.from.parent);
	name_ends(a, in.to.parent);
	known_rename(a->mount);
	name_moved(a, in.from.parent, in.to.parent);
	if (flags & RENAME_EXCHANGE)
		name_moved(a, in.to.parent, in.from.parent);
	return reply_done(a, err);
}

int serve_rename(struct ask *a)
{
	const struct fuse_rename_in *arg = (const void *)a->arg;
	return rename_names(a, a->arg + sizeof(*arg), arg->newdir, 0);
}

int serve_rename2(struct ask *a)
{
	const struct fuse_rename2_in *arg = (const void *)a->arg;
	return rename_names(a, a->arg + sizeof(*arg), arg->newdir, arg->flags);
}

int serve_link(struct ask *a)
{
	const struct fuse_link_in *arg = (const void *)a->arg;
	struct link_in in = { .inode = node(a->mount, arg->oldnodeid), .loc = child_of(a, a->arg + sizeof(*arg)) };
	struct link_out out = { 0 };
	int err = name_check(in.loc.name);
	known_rename(a->mount);
	name_begins(a, in.loc.parent, in.loc.name);
	if (!err)
		err = link_on(&a->rq, ask_child(a), &in, &out);
	name_ends(a, in.loc.parent);
	known_rename(a->mount);
	return err ? err : reply_entry(a, &in.loc, inode_ref(in.inode), &out.attr, 0);
}

int serve_statfs(struct ask *a)
{
	struct statfs_in in = { .inode = this_node(a) };
	struct statfs_out out = { 0 };
	int err = statfs_on(&a->rq, ask_child(a), &in, &out);
	if (err)
		return err;
	const struct statfs *s = &out.statfs;
	struct fuse_statfs_out answer = { .st = { s->blocks, s->bfree, s->bavail, s->files, s->ffree, s->bsize, s->namemax,
						  s->frsize } };
	reply(a, &answer, sizeof(answer));
	return 0;
}

static bool is_acl(const char *name)
{
	return strcmp(name, "system.posix_acl_access") == 0 || strcmp(name, "system.posix_acl_default") == 0;
}

static int xattr_check(const struct ask *a, const char *name)
{
	const struct fuse_private *p = ask_options(a);
	bool refused = (!p->selinux && strcmp(name, "security.selinux") == 0) || (!p->acl && is_acl(name));
	return refused ? -EOPNOTSUPP : 0;
}

/* It is part of the mode, which the kernel believes that it knows: only of ctime does it think that it is another one. */
static void acl_changed(struct ask *a, struct inode *inode)
{
	search_denied(a, inode);
	if (a->mount->believes)
		notify_attributes(a->device, a->head.nodeid);
}

int serve_setxattr(struct ask *a)
{
	const struct fuse_setxattr_head *arg = (const void *)a->arg;
	const char *name = a->arg + sizeof(*arg), *value = name + strlen(name) + 1;
	if (arg->size > a->size - (size_t)(value - a->arg))
		return -EINVAL;
	struct setxattr_in in = {
		.inode = this_node(a), .name = name, .value = { arg->size, (void *)(uintptr_t)value }, .flags = arg->flags
	};
	struct setxattr_out out = { 0 };
	int err = is_mark(in.inode, name) ? -EPERM : xattr_check(a, name);
	if (!err)
		err = setxattr_on(&a->rq, ask_child(a), &in, &out);
	if (strcmp(name, "system.posix_acl_access") == 0)
		acl_changed(a, in.inode);
	return reply_done(a, err);
}

/* The kernel asks with size 0 how much room the value needs. */
static int reply_value(struct ask *a, const struct blob *value)
{
	const struct fuse_getxattr_in *arg = (const void *)a->arg;
	struct fuse_getxattr_out length = { .size = value->size };
	if (arg->size == 0)
		reply(a, &length, sizeof(length));
	else if (arg->size < value->size)
		return -ERANGE;
	else
		reply(a, value->bytes, value->size);
	return 0;
}

int serve_getxattr(struct ask *a)
{
	struct getxattr_in in = { .inode = this_node(a), .name = a->arg + sizeof(struct fuse_getxattr_in) };
	struct getxattr_out out = { 0 };
	int err = xattr_check(a, in.name);
	if (!err && is_acl(in.name) && believe_plain(a, in.inode))
		err = -ENODATA;
	if (!err)
		err = getxattr_on(&a->rq, ask_child(a), &in, &out);
	if (!err)
		err = reply_value(a, &out.value);
	fop_out_clear(FOP_getxattr, &out);
	return err;
}

static bool is_shown(const void *arg, const char *name)
{
	return !xattr_check(arg, name);
}

int serve_listxattr(struct ask *a)
{
	struct listxattr_in in = { .inode = this_node(a) };
	struct listxattr_out out = { 0 };
	int err = listxattr_on(&a->rq, ask_child(a), &in, &out);
	if (!err && !ask_options(a)->acl)
		blob_keep_names(&out.names, is_shown, a);
	if (!err)
		err = reply_value(a, &out.names);
	fop_out_clear(FOP_listxattr, &out);
	return err;
}

int serve_removexattr(struct ask *a)
{
	struct removexattr_in in = { .inode = this_node(a), .name = a->arg };
	struct removexattr_out out = { 0 };
	int err = xattr_check(a, in.name);
	return reply_done(a, err ? err : removexattr_on(&a->rq, ask_child(a), &in, &out));
}
