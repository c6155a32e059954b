/* SPDX-License-Identifier: Apache-2.0 */
/* debug/memory: a brick that forgets everything at the end, for tests and first steps: it needs no root and no disk. */
#include <stdio.h>
#include <unistd.h>

#include "memory.h"

static const struct option options[] = {
	{ "limit", OPTION_SIZE, OPTION_AT(struct memory, limit), "256M", "bytes of file data that it takes" },
	{ NULL },
};

int memory_statfs(struct request *rq, struct xlator *x, const struct statfs_in *in, struct statfs_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	uint64_t blocks = p->limit / 4096, bfree = (p->limit - p->bytes) / 4096;

	(void)rq;
	(void)in;
	out->statfs = (struct statfs){ .bsize = 4096,
				       .frsize = 4096,
				       .blocks = blocks,
				       .bfree = bfree,
				       .bavail = bfree,
				       .files = 1000000,
				       .ffree = 1000000 - p->objects,
				       .namemax = 255 };
	return 0;
}

static int memory_sync(struct xlator *x)
{
	(void)x;
	return 0;
}

/* What is left has nothing to do (flush, release, fsync), or is a matter for a translator above. */
static int memory_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	(void)rq;
	(void)x;
	(void)in;
	(void)out;
	switch (fop) {
	case FOP_access:
	case FOP_flush:
	case FOP_release:
	case FOP_fsync:
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static int memory_init(struct xlator *x, struct problem *problem)
{
	struct memory *p = x->private;
	struct object *root;

	pthread_mutex_init(&p->lock, NULL);
	root = memory_object_new(p, &gfid_root, S_IFDIR | 0755);
	if (!root)
		return problem_set(problem, ENOMEM, "%s: not enough memory", x->name);
	root->attr.uid = geteuid();
	root->attr.gid = getegid();
	return 0;
}

static void memory_finish(struct xlator *x)
{
	struct memory *p = x->private;

	for (int i = 0; i < BUCKETS; i++)
		while (p->bucket[i])
			memory_object_free(p, p->bucket[i]);
	pthread_mutex_destroy(&p->lock);
}

static void memory_dump(struct xlator *x, FILE *f)
{
	cleanup_unlock struct memory *p = memory_lock(x);

	fprintf(f, "  objects: %llu\n  bytes: %llu\n", (unsigned long long)p->objects, (unsigned long long)p->bytes);
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "debug/memory",
	.summary = "a brick in memory, for tests",
	.shareable = true,
	.options = options,
	.private_size = sizeof(struct memory),
	.init = memory_init,
	.finish = memory_finish,
	.forget_inode = memory_forget_inode,
	.dump = memory_dump,
	.sync = memory_sync,
	.inode_links = memory_inode_links,
	.any = memory_any,
	.lookup = memory_lookup,
	.getattr = memory_getattr,
	.setattr = memory_setattr,
	.readlink = memory_readlink,
	.mknod = memory_mknod,
	.mkdir = memory_mkdir,
	.symlink = memory_symlink,
	.unlink = memory_unlink,
	.rmdir = memory_rmdir,
	.rename = memory_rename,
	.link = memory_link,
	.create = memory_create,
	.open = memory_open,
	.read = memory_read,
	.write = memory_write,
	.opendir = memory_opendir,
	.readdir = memory_readdir,
	.statfs = memory_statfs,
	.setxattr = memory_setxattr,
	.getxattr = memory_getxattr,
	.listxattr = memory_listxattr,
	.removexattr = memory_removexattr,
	.seek = memory_seek,
	.fallocate = memory_fallocate,
	.copy_range = memory_copy_range,
};
