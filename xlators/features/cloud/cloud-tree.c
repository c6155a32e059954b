/* SPDX-License-Identifier: Apache-2.0 */
/* Where the tenants' trees are: directories of the brick by the tenants' names, each with the tenant's id as its gfid. */
#include "cloud.h"

#include <inttypes.h>
#include <stdio.h>

#include "quota.h"
#include "replica.h"

enum { TRIES = 2000 }; /* one each millisecond */

/* Members of a set must have the same times: of what each makes by itself they are this one. */
#define TREES_TIME_NS 1000000000ull

static int begin(struct request *rq, struct xlator *x, uint32_t flags)
{
	struct replica_stamp stamp = { .flags = REPLICA_OWN | flags, .time = TREES_TIME_NS };
	const struct cloud *c = x->private;

	request_init(rq, x->graph, 0);
	return c->replicas ? stamp_attach(rq, &stamp) : 0;
}

int own_begin(struct request *rq, struct xlator *x)
{
	return begin(rq, x, 0);
}

struct inode *brick_root(struct xlator *x)
{
	return inode_get(x->inodes, &gfid_root, S_IFDIR);
}

static int look(struct request *rq, struct xlator *x, struct inode *parent, const char *name, struct inode **inode)
{
	struct lookup_in in = { .loc = { .parent = parent, .name = name } };
	struct lookup_out out = { 0 };
	int err = lookup_on(rq, x->child[0], &in, &out);

	*inode = out.inode;
	return err;
}

static int make(struct request *rq, struct xlator *x, struct inode *parent, const char *name, const struct gfid *gfid,
		mode_t mode, struct inode **inode)
{
	struct mkdir_in in = { .loc = { .parent = parent, .name = name }, .gfid = *gfid, .mode = mode };
	struct mkdir_out out = { 0 };
	int err = mkdir_on(rq, x->child[0], &in, &out);

	*inode = out.inode;
	return err;
}

/* Several clients of one tenant may come at the same time: below, what another is just making is refused (EEXIST) before it can be found. */
static int look_or_make(struct request *rq, struct xlator *x, struct inode *parent, const char *name, const struct gfid *gfid,
			mode_t mode, struct inode **inode)
{
	int err = look(rq, x, parent, name, inode);

	for (int tries = 0; (err == -ENOENT || err == -EVIEW) && tries < TRIES; tries++) {
		if (tries && task_sleep_ms(1))
			return -ECANCELED;
		err = make(rq, x, parent, name, gfid, mode, inode);
		if (err == -EEXIST)
			err = look(rq, x, parent, name, inode);
	}
	if (err == -EVIEW) /* it has been frozen for so long: the client comes again */
		return -EAGAIN;
	if (!err && !S_ISDIR((*inode)->type)) {
		inode_unref(*inode);
		*inode = NULL;
		return -ENOTDIR;
	}
	return err;
}

int tree_all(struct request *rq, struct xlator *x, struct inode **inode)
{
	cleanup_inode struct inode *root = brick_root(x);

	*inode = NULL;
	return root ? look(rq, x, root, TENANTS_DIRECTORY, inode) : -ENOMEM;
}

static int find_or_make(struct request *rq, struct xlator *x, const struct tenant *t, struct inode **inode)
{
	cleanup_inode struct inode *root = brick_root(x), *all = NULL;
	int err = root ? look_or_make(rq, x, root, TENANTS_DIRECTORY, &gfid_tenants, 0700, &all) : -ENOMEM;

	if (err)
		return err;
	rq->uid = rq->root = t->base; /* whose it is to be */
	rq->gid = t->base;
	rq->tree = t->id;
	rq->moves =
		true; /* a brick that came is no use to a tenant who has all that he may have, if this were refused for that */
	return look_or_make(rq, x, all, t->name, &t->id, 0755, inode);
}

int tree_root(struct xlator *x, const struct tenant *t, struct inode **inode)
{
	struct request rq;
	int err;

	*inode = NULL;
	err = own_begin(&rq, x);
	if (!err)
		err = find_or_make(&rq, x, t, inode);
	request_finish(&rq);
	if (!err && !gfid_equal(&(*inode)->gfid, &t->id)) {
		log_error(x, NULL,
			  "the directory " TENANTS_DIRECTORY "/%s of the brick is not that of the tenant %s: move it away",
			  t->name, t->name);
		inode_unref(*inode);
		*inode = NULL;
		err = -EINVAL;
	}
	return err;
}

static int step_down(struct request *rq, struct xlator *x, char *path, struct inode **inode)
{
	char *name;
	int err = 0;

	while (!err && (name = strsep(&path, "/"))) {
		struct inode *below = NULL;

		if (!*name)
			continue; /* before the first, and "/" */
		err = look(rq, x, *inode, name, &below);
		if (!err && !S_ISDIR(below->type))
			err = -ENOTDIR;
		inode_unref(*inode);
		*inode = err ? NULL : below;
		if (err)
			inode_unref(below);
	}
	return err;
}

int tree_below(struct xlator *x, const struct tenant *t, const char *path, struct inode **inode)
{
	int err = tree_root(x, t, inode);
	char *copy = err ? NULL : strdup(path);
	struct request rq;

	if (err)
		return err;
	err = begin(
		&rq, x,
		REPLICA_READ); /* as the set has it: what was at that path while this member was away may be somebody else's by now */
	rq.uid = rq.root = t->base;
	rq.gid = t->base;
	if (!err)
		err = copy ? step_down(&rq, x, copy, inode) : -ENOMEM;
	request_finish(&rq);
	free(copy);
	if (err == -EVIEW || err == -EPENDING || err == -ERECOVERING) /* the client comes again */
		err = -EAGAIN;
	if (err) {
		inode_unref(*inode);
		*inode = NULL;
	}
	return err;
}

static struct xlator *leaf_of(struct xlator *x)
{
	while (!x->type->inode_from_handle && x->children)
		x = x->child[0];
	return x;
}

/* The limit's number finds it, not a path: the way to it may lead over several bricks. */
static int find_limited(struct request *rq, struct xlator *x, struct inode *top, uint64_t limit, struct inode **inode)
{
	struct xlator *leaf = leaf_of(x);
	char name[sizeof(QUOTA_DIRECTORY_XATTR) + 16];
	struct getxattr_in in = { .inode = top, .name = name };
	struct getxattr_out out = { 0 };
	int err;

	snprintf(name, sizeof(name), QUOTA_DIRECTORY_XATTR "%016" PRIx64, limit);
	err = getxattr_on(rq, x->child[0], &in, &out);
	if (err)
		return err == -ENODATA ? -ENOENT : err;
	err = leaf->type->inode_from_handle ? leaf->type->inode_from_handle(leaf, out.value.bytes, out.value.size, inode)
					    : -EOPNOTSUPP;
	fop_out_clear(FOP_getxattr, &out);
	return err == -ESTALE ? -ENOENT : err;
}

int tree_limited(struct xlator *x, const struct tenant *t, uint64_t limit, struct inode **inode)
{
	cleanup_inode struct inode *top = NULL;
	struct request rq;
	int err = tree_root(x, t, &top);

	*inode = NULL;
	if (err)
		return err;
	err = own_begin(&rq, x);
	rq.uid = rq.root = t->base;
	rq.gid = t->base;
	rq.tree = t->id;
	if (!err)
		err = find_limited(&rq, x, top, limit, inode);
	request_finish(&rq);
	return err;
}
