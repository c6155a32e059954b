/* SPDX-License-Identifier: Apache-2.0 */
/* Directories that somebody else removes while a name in them is used. For names that turn out to be stale (ESTALE) Linux does the call once
 * more, and asks for each of its names anew (LOOKUP_REVAL: path_openat and retry_estale in fs/namei.c); what another has put in the place of the
 * directory is found then. The second time ESTALE would go to the program, which does not expect it: the directory, which was found while the call
 * lasted, is not there any more, and for that POSIX has ENOENT. */
#include "fuse-internal.h"

/* The header's node is the directory. */
static bool uses_name(uint32_t opcode)
{
	switch (opcode) {
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

/* The thread was told so lately, of this call or, if it did not need to try again, of one before. It is forgotten with that. */
static bool told_before(struct mount *m, uint32_t pid)
{
	struct told_stale *t = &m->told_stale[pid % TOLD_STALE];
	uint64_t now = clock_ns();
	bool before;

	pthread_mutex_lock(&m->told_lock);
	before = t->ns && t->pid == pid && now - t->ns < TOLD_STALE_NS;
	*t = before ? (struct told_stale){ 0 } : (struct told_stale){ pid, now };
	pthread_mutex_unlock(&m->told_lock);
	return before;
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
	if (err != -ESTALE || !uses_name(a->head.opcode) || !told_before(a->mount, a->head.pid))
		return err;
	return is_gone(a, node(a->mount, a->head.nodeid)) || is_gone(a, other_directory(a)) ? -ENOENT : err;
}
