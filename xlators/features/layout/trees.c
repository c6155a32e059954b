/* SPDX-License-Identifier: Apache-2.0 */
/* features/layout: directories that get another parent. The brick's own file system sees to it that none gets below itself, as far as it sees all:
 * within one tree, which is that of the volume's root here, or of a directory that is away. Between two of them a client must look at more. */
#include <stdio.h>

#include "location.h"
#include "shard.h"

/* The directory that is on top of a tree: the first names of the path of what is in it; none for the root's. */
struct top {
	struct blob told;
	const char *path;
	size_t size;
};

static void top_clear(struct top *t)
{
	free(t->told.bytes);
	*t = (struct top){ 0 };
}
#define cleanup_top __attribute__((cleanup(top_clear)))

static bool path_find(struct top *t)
{
	char *at = t->told.bytes;
	const char *key;

	while ((t->path = location_next(&at, (char *)t->told.bytes + t->told.size, &key)))
		if (!strcmp(key, "path"))
			return true;
	return false;
}

/* A path that changes while the leaf looks at it is not told. A leaf that tells none at all is taken to have one tree. */
static int read_path(struct request *rq, struct xlator *x, struct inode *directory, struct top *t)
{
	enum { LOOKS = 16 };
	int err = 0;

	for (int i = 0; i < LOOKS && !err; i++) {
		if (i)
			err = task_sleep_ms(1);
		top_clear(t);
		if (!err)
			err = read_xattr(rq, x, directory, LOCATION_XATTR, &t->told);
		if (!err && path_find(t))
			return 0;
	}
	t->path = "";
	return err == -ENODATA || err == -EOPNOTSUPP ? 0 : err ? err : -EWIDE;
}

static int top_of(struct request *rq, struct xlator *x, struct inode *directory, struct top *t)
{
	enum { NAMES = 4 }; /* .stratus.dht/away/XX/d.GFID */
	int err = read_path(rq, x, directory, t);
	const char *end = t->path;

	if (err || strncmp(t->path, "/" DHT_HIDDEN "/", sizeof(DHT_HIDDEN) + 1) != 0)
		return err;
	for (int i = 0; i < NAMES && *end; i++)
		end += 1 + strcspn(end + 1, "/");
	t->size = (size_t)(end - t->path);
	return 0;
}

int trees_compare(struct request *rq, struct xlator *x, struct inode *a, struct inode *b)
{
	cleanup_top struct top of_a = { 0 }, of_b = { 0 };
	int err = top_of(rq, x, a, &of_a);

	if (!err)
		err = top_of(rq, x, b, &of_b);
	if (err)
		return err;
	return of_a.size == of_b.size && !memcmp(of_a.path, of_b.path, of_a.size) ? 0 : -EWIDE;
}

/* ---- the way up ---- */

bool asks_path(const struct request *rq, enum fop fop, const void *in)
{
	const struct getxattr_in *get = in;

	return fop == FOP_getxattr && get->inode && is_top(rq, get->inode) && get->name &&
	       !strncmp(get->name, DHT_PATH_XATTR, sizeof(DHT_PATH_XATTR) - 1);
}

int path_tell(struct request *rq, struct xlator *x, const struct getxattr_in *in, struct getxattr_out *out)
{
	struct lookup_in look = { 0 };
	struct lookup_out found = { 0 };
	struct gfid gfid;
	int err = gfid_parse(in->name + sizeof(DHT_PATH_XATTR) - 1, &gfid);

	if (!err && !request_is_root(rq))
		err = -EPERM;
	if (err)
		return err;
	look.loc.inode = inode_get(x->inodes, gfid_equal(&gfid, &gfid_root) ? request_top(rq) : &gfid, S_IFDIR);
	err = look.loc.inode ? lookup_on(rq, x->child[0], &look, &found) : -ESTALE; /* it is known, and no directory */
	if (!err)
		err = read_xattr(rq, x, look.loc.inode, LOCATION_XATTR, &out->value);
	if (err == -ENODATA &&
	    !found.attr.nlink) /* it was removed, and is open yet: it has no name, and that is no limit of the brick's */
		err = -ESTALE;
	fop_out_clear(FOP_lookup, &found);
	inode_unref(look.loc.inode);
	return err == -ENOENT ? -ESTALE : err;
}

/* ---- where it says that its pointer is ---- */

int parent_may_change(struct request *rq, struct xlator *x, enum fop fop, struct inode *inode, const void *in, bool *done)
{
	const struct setxattr_in *set = in;
	struct parent before, next;
	struct blob value = { 0 };
	int err;

	if (fop != FOP_setxattr || strcmp(set->name, DHT_PARENT_XATTR) != 0)
		return 0;
	if (parent_decode(set->value.bytes, set->value.size, &next))
		return -EINVAL;
	err = read_xattr(rq, x, inode, DHT_PARENT_XATTR, &value);
	if (!err && !parent_decode(value.bytes, value.size, &before) && before.turn >= next.turn) {
		*done = before.turn == next.turn && before.subvolume == next.subvolume && gfid_equal(&before.gfid, &next.gfid);
		err = *done ? 0 : -EFENCED;
	}
	free(value.bytes);
	return err == -ENODATA ? 0 : err;
}
