/* SPDX-License-Identifier: Apache-2.0 */
/* sim/disk: a simulated disk as the leaf of a brick's graph. Each call takes a while before and after the moment at which it is done,
 * and the machine may crash in both. */
#include "away.h"
#include "disk-xlator.h"
#include "leaf.h"

static const struct option options[] = {
	{ "member", OPTION_INT, OPTION_AT(struct sim_disk, member), NULL, "which disk", 0, BRICKS_MAX },
	{ "state-dir", OPTION_STRING, OPTION_AT(struct sim_disk, state_dir), "", "a directory that is on this disk, too" },
	{ NULL }
};

/* ---- faults ---- */

/* EIO comes before the deed as well as after it. */
static int perform(struct request *rq, struct xlator *x, enum fop fop, disk_act *fn, const void *in, void *out)
{
	struct sim_disk *p = x->private;
	const struct disk_faults *f = disk_faults(p->disk);
	bool broken, after;
	int err;

	leaf_latency(p->disk);
	broken = chance_of(CHANCE_DISK, f->eio);
	after = broken && chance_below(CHANCE_DISK, 2);
	if (broken && !after)
		return -EIO;
	if (f->floor && away_refuses(rq, fop, in))
		return -ENOSPC;
	p->rq = rq;
	err = fn(p, in, out);
	disk_commit(p->disk);
	if (f->loses && !err && fop == FOP_write && chance_below(CHANCE_DISK, 2))
		disk_write_back(p->disk, &((const struct write_in *)in)->file->inode->gfid);
	if (!err)
		away_note(rq, fop, in);
	crash_point();
	if (chance_below(CHANCE_DISK, 2))
		leaf_latency(p->disk);
	if (!after)
		return err;
	if (!err)
		fop_out_clear((int)fop, out);
	return -EIO;
}

/* ---- calls ---- */

static int disk_do_statfs(struct sim_disk *p, const void *args, void *result)
{
	struct statfs *s = &((struct statfs_out *)result)->statfs;

	(void)args;
	*s = (struct statfs){ 4096, 4096, 1 << 20, 1 << 19, 1 << 19, 1 << 20, 1 << 19, 255 };
	if (disk_faults(p->disk)->full)
		s->bfree = s->bavail = 0;
	away_room(s, disk_faults(p->disk));
	return 0;
}

#define ACT(op)                                                                                                                \
	static int handle_##op(struct request *rq, struct xlator *x, const struct op##_in *in, struct op##_out *out)           \
	{                                                                                                                      \
		return perform(rq, x, FOP_##op, disk_do_##op, in, out);                                                        \
	}
#define ACTS(X)                                                                                                                \
	X(lookup)                                                                                                              \
	X(mknod)                                                                                                               \
	X(mkdir)                                                                                                               \
	X(symlink)                                                                                                             \
	X(readlink)                                                                                                            \
	X(link)                                                                                                                \
	X(unlink)                                                                                                              \
	X(rmdir)                                                                                                               \
	X(rename)                                                                                                              \
	X(create)                                                                                                              \
	X(open)                                                                                                                \
	X(opendir)                                                                                                             \
	X(read)                                                                                                                \
	X(write)                                                                                                               \
	X(fallocate)                                                                                                           \
	X(seek)                                                                                                                \
	X(copy_range) X(fsync) X(getattr) X(setattr) X(setxattr) X(getxattr) X(listxattr) X(removexattr) X(readdir) X(statfs)
ACTS(ACT)

static int disk_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	(void)rq, (void)x, (void)in, (void)out;
	return fop == FOP_access || fop == FOP_flush || fop == FOP_release ? 0 : -EOPNOTSUPP;
}

/* ---- the translator ---- */

static void disk_forget_inode(struct xlator *x, struct inode *inode, void *slot)
{
	(void)slot;
	disk_free_if_gone(x->private, &inode->gfid);
}

static int disk_sync_hook(struct xlator *x)
{
	struct sim_disk *p = x->private;

	if (task_self())
		leaf_latency(p->disk);
	if (chance_of(CHANCE_DISK, disk_faults(p->disk)->eio))
		return -EIO;
	if (p->state_dir[0])
		files_synced(p->state_dir);
	return disk_sync(p->disk);
}

static void disk_do_reread(struct xlator *x, const struct file *file, uint64_t offset, uint64_t length)
{
	struct sim_disk *p = x->private;

	(void)offset, (void)length; /* all of it */
	disk_reread(p->disk, &file->inode->gfid);
}

static int disk_init(struct xlator *x, struct problem *problem)
{
	struct sim_disk *p = x->private;

	(void)problem;
	p->x = x;
	p->disk = disk_of((unsigned)p->member);
	if (!p->disk)
		return -ENODEV;
	disk_opened(p->disk);
	return 0;
}

const struct xlator_type sim_disk_type = { .api = STRATUS_API_VERSION,
					   .name = "sim/disk",
					   .summary = "a simulated disk",
					   .options = options,
					   .private_size = sizeof(struct sim_disk),
					   .init = disk_init,
					   .forget_inode = disk_forget_inode,
					   .inode_handle = disk_inode_handle,
					   .inode_from_handle = disk_inode_from_handle,
					   .inode_links = disk_inode_links,
					   .sync = disk_sync_hook,
					   .reread = disk_do_reread,
					   .forget_file = disk_forget_file,
					   .any = disk_any,
#define HANDLER(op) .op = handle_##op,
					   ACTS(HANDLER)
#undef HANDLER
};
