/* SPDX-License-Identifier: Apache-2.0 */
/* Path-based operations on a graph in this process. */
#include "tree.h"

#include <fcntl.h>

int tree_open(struct tree *t, const char *text, struct problem *problem)
{
	return tree_open_named(t, "test", text, problem);
}

int tree_open_named(struct tree *t, const char *path, const char *text, struct problem *problem)
{
	struct volfile file = { 0 };
	int err = volfile_parse(text, strlen(text), path, &file, problem);

	*t = (struct tree){ .group_count = 0 };
	if (!err)
		err = graph_create(&file, NULL, NULL, &t->graph, problem);
	volfile_free(&file);
	if (err)
		return err;
	err = graph_start(t->graph, problem);
	if (err) {
		graph_destroy(t->graph);
		t->graph = NULL;
		return err;
	}
	t->at = t->graph->top;
	return 0;
}

void tree_close(struct tree *t)
{
	graph_stop(t->graph);
	graph_destroy(t->graph);
	t->graph = NULL;
}

struct xlator *tree_find(struct tree *t, const char *volume)
{
	struct xlator *x = graph_find(t->graph, volume);

	if (!x) {
		fprintf(stderr, "the graph has no volume %s\n", volume);
		exit(2);
	}
	return x;
}

int tree_become(struct tree *t, struct xlator *admits, struct client *who, uint32_t id, struct bearer *bearer)
{
	struct inode *inode = NULL;
	int err;

	who->root = (struct gfid){ { 0 } };
	err = admits->type->admit(admits, who, &inode, bearer);
	t->client = who;
	t->uid = t->gid = id;
	t->group_count = 0;
	if (err)
		return err;
	t->admitted = who->root = inode->gfid;
	t->root = &t->admitted;
	inode_unref(inode);
	return 0;
}

int tree_call(struct tree *t, struct xlator *at, enum fop fop, const void *in, void *out)
{
	struct request rq;
	int err;

	request_init(&rq, t->graph, 0);
	rq.uid = t->uid;
	rq.gid = t->gid;
	rq.client = t->client;
	rq.time_ns = t->time_ns;
	rq.group_count = t->group_count;
	if (t->group_count > 0) {
		rq.groups = malloc(t->group_count * sizeof(gid_t));
		memcpy(rq.groups, t->groups, t->group_count * sizeof(gid_t));
	}
	err = fop_call(&rq, at, fop, in, out);
	request_finish(&rq);
	return err;
}

static int call(struct tree *t, enum fop fop, const void *in, void *out)
{
	return tree_call(t, t->at, fop, in, out);
}

/* ---- paths ---- */

static int step(struct tree *t, struct inode **at, const char *name)
{
	struct lookup_in in = { .loc = { .parent = *at, .name = name } };
	struct lookup_out out = { 0 };
	int err = call(t, FOP_lookup, &in, &out);

	inode_unref(*at);
	*at = out.inode;
	return err;
}

int tree_walk(struct tree *t, const char *path, struct inode **inode)
{
	char *copy = strdup(path), *rest = copy, *name;
	int err = 0;

	*inode = inode_get(t->graph->inodes, t->root ? t->root : &gfid_root, S_IFDIR);
	while (!err && (name = strsep(&rest, "/")))
		if (*name)
			err = step(t, inode, name);
	free(copy);
	return err;
}

int tree_loc(struct tree *t, const char *path, struct loc *loc)
{
	const char *slash = strrchr(path, '/');
	char *dir = strndup(path, slash ? slash - path : 0);
	int err;

	*loc = (struct loc){ .name = slash ? slash + 1 : path };
	err = tree_walk(t, dir, &loc->parent);
	free(dir);
	return err;
}

/* ---- names ---- */

int tree_mkdir(struct tree *t, const char *path, mode_t mode)
{
	struct mkdir_in in = { .mode = mode };
	struct mkdir_out out = { 0 };
	int err = tree_loc(t, path, &in.loc);

	gfid_create(&in.gfid);
	if (!err)
		err = call(t, FOP_mkdir, &in, &out);
	fop_out_clear(FOP_mkdir, &out);
	inode_unref(in.loc.parent);
	return err;
}

int tree_mknod(struct tree *t, const char *path, mode_t mode, dev_t dev)
{
	struct mknod_in in = { .mode = mode, .rdev = dev };
	struct mknod_out out = { 0 };
	int err = tree_loc(t, path, &in.loc);

	gfid_create(&in.gfid);
	if (!err)
		err = call(t, FOP_mknod, &in, &out);
	fop_out_clear(FOP_mknod, &out);
	inode_unref(in.loc.parent);
	return err;
}

int tree_symlink(struct tree *t, const char *target, const char *path)
{
	struct symlink_in in = { .target = target };
	struct symlink_out out = { 0 };
	int err = tree_loc(t, path, &in.loc);

	gfid_create(&in.gfid);
	if (!err)
		err = call(t, FOP_symlink, &in, &out);
	fop_out_clear(FOP_symlink, &out);
	inode_unref(in.loc.parent);
	return err;
}

int tree_link(struct tree *t, const char *old, const char *path)
{
	struct link_in in = { 0 };
	struct link_out out = { 0 };
	int err = tree_walk(t, old, &in.inode);

	if (!err)
		err = tree_loc(t, path, &in.loc);
	if (!err)
		err = call(t, FOP_link, &in, &out);
	inode_unref(in.inode);
	inode_unref(in.loc.parent);
	return err;
}

int tree_unlink(struct tree *t, const char *path)
{
	struct unlink_in in = { 0 };
	struct unlink_out out = { 0 };
	int err = tree_loc(t, path, &in.loc);

	if (!err)
		err = call(t, FOP_unlink, &in, &out);
	inode_unref(in.loc.parent);
	return err;
}

int tree_rmdir(struct tree *t, const char *path)
{
	struct rmdir_in in = { 0 };
	struct rmdir_out out = { 0 };
	int err = tree_loc(t, path, &in.loc);

	if (!err)
		err = call(t, FOP_rmdir, &in, &out);
	inode_unref(in.loc.parent);
	return err;
}

int tree_rename(struct tree *t, const char *from, const char *to, unsigned flags)
{
	struct rename_in in = { .flags = flags };
	struct rename_out out = { 0 };
	int err = tree_loc(t, from, &in.from);

	if (!err)
		err = tree_loc(t, to, &in.to);
	if (!err)
		err = call(t, FOP_rename, &in, &out);
	inode_unref(in.from.parent);
	inode_unref(in.to.parent);
	return err;
}

int tree_readlink(struct tree *t, const char *path, char **target)
{
	struct readlink_in in = { 0 };
	struct readlink_out out = { 0 };
	int err = tree_walk(t, path, &in.inode);

	if (!err)
		err = call(t, FOP_readlink, &in, &out);
	*target = out.target;
	inode_unref(in.inode);
	return err;
}

/* ---- files ---- */

static void give_file(struct tree *t, struct file *file, struct file **to)
{
	if (to)
		*to = file;
	else
		tree_release(t, file);
}

int tree_create(struct tree *t, const char *path, int flags, mode_t mode, struct file **file)
{
	struct create_in in = { .flags = flags | O_CREAT, .mode = mode };
	struct create_out out = { 0 };
	int err = tree_loc(t, path, &in.loc);

	gfid_create(&in.gfid);
	if (!err)
		err = call(t, FOP_create, &in, &out);
	if (!err) {
		give_file(t, out.file, file);
		inode_unref(out.inode);
	}
	inode_unref(in.loc.parent);
	return err;
}

int tree_put(struct tree *t, const char *path, const char *text)
{
	struct file *file = NULL;
	int err = tree_create(t, path, O_RDWR | O_CREAT | O_EXCL, 0644, &file);

	if (!err)
		err = tree_write(t, file, 0, text, strlen(text));
	if (file)
		tree_release(t, file);
	return err;
}

int tree_open_file(struct tree *t, const char *path, int flags, struct file **file)
{
	struct open_in in = { .flags = flags };
	struct open_out out = { 0 };
	int err = tree_walk(t, path, &in.inode);

	if (!err)
		err = call(t, FOP_open, &in, &out);
	if (!err)
		give_file(t, out.file, file);
	inode_unref(in.inode);
	return err;
}

int tree_opendir(struct tree *t, const char *path, struct file **file)
{
	struct opendir_in in = { 0 };
	struct opendir_out out = { 0 };
	int err = tree_walk(t, path, &in.inode);

	if (!err)
		err = call(t, FOP_opendir, &in, &out);
	if (!err)
		give_file(t, out.file, file);
	inode_unref(in.inode);
	return err;
}

void tree_release(struct tree *t, struct file *file)
{
	struct release_in in = { .file = file };
	struct release_out out;

	call(t, FOP_release, &in, &out);
	file_unref(file);
}

int tree_write(struct tree *t, struct file *file, uint64_t offset, const void *bytes, size_t size)
{
	struct write_in in = { .file = file, .offset = offset, .data = buffer_from(bytes, size) };
	struct write_out out = { 0 };
	int err = call(t, FOP_write, &in, &out);

	buffer_unref(in.data);
	return err ? err : out.written == size ? 0 : -EIO;
}

int tree_read(struct tree *t, struct file *file, uint64_t offset, size_t size, struct buffer **data)
{
	struct read_in in = { .file = file, .offset = offset, .size = size };
	struct read_out out = { 0 };
	int err = call(t, FOP_read, &in, &out);

	*data = out.data;
	return err;
}

/* Moves the entries of `from` to the end of `to`. */
static void append(struct dirents *to, struct dirents *from)
{
	to->entry = realloc(to->entry, (to->count + from->count + 1) * sizeof(*to->entry));
	if (from->count)
		memcpy(to->entry + to->count, from->entry, from->count * sizeof(*to->entry));
	to->count += from->count;
	to->end = from->end;
	free(from->entry);
}

int tree_readdir(struct tree *t, struct file *file, struct dirents *all)
{
	struct readdir_in in = { .file = file, .size = 4096 };
	int err = 0;

	*all = (struct dirents){ 0 };
	while (!err && !all->end) {
		struct readdir_out out = { 0 };

		err = call(t, FOP_readdir, &in, &out);
		if (!err)
			append(all, &out.entries);
		if (all->count)
			in.offset = all->entry[all->count - 1].next_offset;
	}
	return err;
}

/* ---- attributes ---- */

int tree_getattr(struct tree *t, const char *path, struct attr *attr)
{
	struct getattr_in in = { 0 };
	struct getattr_out out = { 0 };
	int err = tree_walk(t, path, &in.inode);

	if (!err)
		err = call(t, FOP_getattr, &in, &out);
	*attr = out.attr;
	inode_unref(in.inode);
	return err;
}

int tree_setattr(struct tree *t, const char *path, const struct setattr *set)
{
	struct setattr_in in = { .set = *set };
	struct setattr_out out = { 0 };
	int err = tree_walk(t, path, &in.inode);

	if (!err)
		err = call(t, FOP_setattr, &in, &out);
	inode_unref(in.inode);
	return err;
}

int tree_access(struct tree *t, const char *path, int mask)
{
	struct access_in in = { .mask = mask };
	struct access_out out = { 0 };
	int err = tree_walk(t, path, &in.inode);

	if (!err)
		err = call(t, FOP_access, &in, &out);
	inode_unref(in.inode);
	return err;
}

int tree_setxattr(struct tree *t, const char *path, const char *name, const void *value, size_t size, int flags)
{
	struct setxattr_in in = { .name = name, .value = { size, (void *)value }, .flags = flags };
	struct setxattr_out out = { 0 };
	int err = tree_walk(t, path, &in.inode);

	if (!err)
		err = call(t, FOP_setxattr, &in, &out);
	inode_unref(in.inode);
	return err;
}

int tree_getxattr(struct tree *t, const char *path, const char *name, struct blob *value)
{
	struct getxattr_in in = { .name = name };
	struct getxattr_out out = { 0 };
	int err = tree_walk(t, path, &in.inode);

	if (!err)
		err = call(t, FOP_getxattr, &in, &out);
	*value = out.value;
	inode_unref(in.inode);
	return err;
}

int tree_removexattr(struct tree *t, const char *path, const char *name)
{
	struct removexattr_in in = { .name = name };
	struct removexattr_out out = { 0 };
	int err = tree_walk(t, path, &in.inode);

	if (!err)
		err = call(t, FOP_removexattr, &in, &out);
	inode_unref(in.inode);
	return err;
}
