/* SPDX-License-Identifier: Apache-2.0 */
/* Directories that somebody else removes while they, or a name in them, are used. For names that turn out to be stale (ESTALE) Linux does the call once
 * more, and asks for each of its names anew (LOOKUP_REVAL: path_openat and retry_estale in fs/namei.c); what another has put in the place of the
 * directory is found then. The second time ESTALE would go to the program, which does not expect it: the directory, which was found while the call
 * lasted, is not there any more, and for that POSIX has ENOENT. */
#include <sys/stat.h>

#include "fuse-internal.h"

/* For which Linux tries again; the header's node is the directory. */
static bool tried_again(uint32_t opcode)
{
	switch (opcode) {
	case FUSE_OPENDIR: /* of the one that a process is in, or holds by O_PATH */
	case FUSE_GETATTR:
	case FUSE_STATX:
	case FUSE_SETATTR:
	case FUSE_GETXATTR:
	case FUSE_LISTXATTR:
	case FUSE_SETXATTR:
	case FUSE_REMOVEXATTR:
	case FUSE_STATFS:
	case FUSE_ACCESS:
	case FUSE_LOOKUP:
	case FUSE_CREATE:
	case FUSE_MKNOD:
	case FUSE_MKDIR:
	case FUSE_SYMLINK:
	case FUSE_LINK:
	case FUSE_UNLINK:
	case FUSE_RMDIR:
	case FUSE_RENAME:
	case FUSE_RENAME2:
		return true;
	default:
		return false;
	}
}

static bool is_told(const struct told_stale *t, const struct inode *directory)
{
	return directory && gfid_equal(&t->gone, &directory->gfid);
}

/* The thread was told so lately, of this call or, if it did not need to try again, of one before; or that one of these is gone, after which the same call
 * may go on (open(2) looks a name up before it makes it). It is forgotten with that. */
static bool told_before(struct ask *a, const struct inode *directory, const struct inode *other)
{
	struct mount *m = a->mount;
	struct told_stale *t = &m->told_stale[a->head.pid % TOLD_STALE];
	uint64_t now = clock_ns();
	bool before;

	pthread_mutex_lock(&m->told_lock);
	before = t->ns && t->pid == a->head.pid && now - t->ns < TOLD_STALE_NS &&
		 (gfid_is_null(&t->gone) || is_told(t, directory) || is_told(t, other));
	*t = before ? (struct told_stale){ 0 } : (struct told_stale){ .pid = a->head.pid, .ns = now };
	pthread_mutex_unlock(&m->told_lock);
	return before;
}

static void told_gone(struct ask *a, const struct inode *directory)
{
	struct mount *m = a->mount;

	pthread_mutex_lock(&m->told_lock);
	m->told_stale[a->head.pid % TOLD_STALE] = (struct told_stale){ a->head.pid, clock_ns(), directory->gfid };
	pthread_mutex_unlock(&m->told_lock);
}

/* So say those who have, or had, it: a directory that somebody has open is there still, with no links. */
static bool is_gone(struct ask *a, struct inode *directory)
{
	struct getattr_in in = { .inode = directory };
	struct getattr_out out = { 0 };
	int err = directory ? getattr_on(&a->rq, ask_child(a), &in, &out) : 0;

	return err == -ESTALE || err == -ENOENT || (!err && directory && !out.attr.nlink);
}

/* The second directory of a renaming, in which the new name is to be. */
static struct inode *other_directory(const struct ask *a)
{
	if (a->head.opcode == FUSE_RENAME)
		return node(a->mount, ((const struct fuse_rename_in *)a->arg)->newdir);
	if (a->head.opcode == FUSE_RENAME2)
		return node(a->mount, ((const struct fuse_rename2_in *)a->arg)->newdir);
	return NULL;
}

int gone_error(struct ask *a, int err)
{
	struct inode *directory, *other, *gone;

	if (err != -ESTALE)
		return err;
	directory = node(a->mount, a->head.nodeid);
	if (!directory || !S_ISDIR(directory->type))
		return err;
	if (a->head.opcode == FUSE_READDIR ||
	    a->head.opcode == FUSE_READDIRPLUS) /* it tries once only; for a C library ENOENT is the end */
		return is_gone(a, directory) ? -ENOENT : err;
	other = other_directory(a);
	if (!tried_again(a->head.opcode) || !told_before(a, directory, other))
		return err;
	gone = is_gone(a, directory) ? directory : is_gone(a, other) ? other : NULL;
	if (gone)
		told_gone(a, gone);
	return gone ? -ENOENT : err;
}
