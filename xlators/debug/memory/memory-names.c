/* SPDX-License-Identifier: Apache-2.0 */
/* debug/memory: names and directories. */
#include <endian.h>
#include <stdio.h>

#include "memory.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE	 2
#endif

static struct entry **find(struct object *dir, const char *name)
{
	struct entry **at = &dir->entry;

	while (*at && strcmp((*at)->name, name))
		at = &(*at)->next;
	return at;
}

/* The directory of a loc, and where its name is or would be. */
static int resolve(struct xlator *x, const struct loc *loc, struct object **dir, struct entry ***at)
{
	int err = name_check(loc->name);

	if (err)
		return err;
	*dir = memory_object_of(x, loc->parent);
	if (!*dir)
		return -ESTALE;
	if (!S_ISDIR((*dir)->attr.mode))
		return -ENOTDIR;
	if (!(*dir)->attr.nlink)
		return -ENOENT;
	*at = find(*dir, loc->name);
	return 0;
}

static int enter(struct request *rq, struct memory *p, struct object *dir, struct entry **at, const char *name,
		 struct object *o)
{
	struct entry *e = calloc(1, sizeof(*e));

	if (!e || !(e->name = strdup(name))) {
		free(e);
		return -ENOMEM;
	}
	e->object = o;
	e->cookie = ++p->cookie;
	*at = e;
	memory_touch(rq, dir);
	return 0;
}

int memory_make(struct request *rq, struct xlator *x, const struct loc *loc, const struct gfid *gfid, mode_t mode,
		struct object **made)
{
	struct memory *p = x->private;
	struct object *dir, *o;
	struct entry **at;
	int err = resolve(x, loc, &dir, &at);

	if (err)
		return err;
	if (*at) {
		*made = (*at)->object;
		if (!rq->resent || !gfid_equal(gfid, &(*at)->object->attr.gfid) ||
		    !request_may_have_made(rq, mode, (*at)->object->attr.mode, (*at)->object->attr.uid))
			return -EEXIST;
		memory_be_born(rq, *made);
		memory_touch(rq, dir);
		return 0;
	}
	o = memory_bearer(p, gfid);
	if (o && o->attr.nlink) {
		*made = NULL;
		return -EEXIST; /* as storage/posix has it: a client that lies, or a bug */
	}
	o = memory_object_new(p, gfid, mode);
	if (!o)
		return -ENOMEM;
	if (rq->time_ns)
		o->attr.atime = o->attr.mtime = o->attr.btime = change_time(&o->changed, rq, NULL);
	o->attr.uid = rq->uid;
	o->attr.gid = dir->attr.mode & S_ISGID ? dir->attr.gid : rq->gid;
	if (S_ISDIR(mode))
		o->attr.mode |= dir->attr.mode & S_ISGID;
	err = memory_born(rq, o);
	if (!err)
		err = enter(rq, p, dir, at, loc->name, o);
	if (err)
		memory_object_free(p, o);
	else
		dir->attr.nlink += S_ISDIR(mode);
	*made = err ? NULL : o;
	return err;
}

int memory_lookup(struct request *rq, struct xlator *x, const struct lookup_in *in, struct lookup_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *dir, *o;
	struct entry **at;
	int err;

	(void)rq;
	(void)p;
	if (!in->loc.name) {
		o = memory_object_of(x, in->loc.inode);
		return o ? memory_give(x, o, &out->inode, &out->attr) : -ESTALE;
	}
	err = resolve(x, &in->loc, &dir, &at);
	if (!err && !*at)
		err = -ENOENT;
	return err ? err : memory_give(x, (*at)->object, &out->inode, &out->attr);
}

int memory_mknod(struct request *rq, struct xlator *x, const struct mknod_in *in, struct mknod_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *o;
	int err = memory_make(rq, x, &in->loc, &in->gfid, in->mode & ~in->umask, &o);

	(void)p;
	if (err)
		return err;
	o->attr.rdev = in->rdev;
	return memory_give(x, o, &out->inode, &out->attr);
}

int memory_mkdir(struct request *rq, struct xlator *x, const struct mkdir_in *in, struct mkdir_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *o;
	int err = memory_make(rq, x, &in->loc, &in->gfid, S_IFDIR | (in->mode & ~in->umask & 07777), &o);

	(void)p;
	return err ? err : memory_give(x, o, &out->inode, &out->attr);
}

int memory_symlink(struct request *rq, struct xlator *x, const struct symlink_in *in, struct symlink_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *o;
	char *target = strdup(in->target);
	int err = target ? memory_make(rq, x, &in->loc, &in->gfid, S_IFLNK | 0777, &o) : -ENOMEM;

	(void)p;
	if (err) {
		free(target);
		return err;
	}
	free(o->data);
	o->data = target;
	o->attr.size = strlen(target);
	return memory_give(x, o, &out->inode, &out->attr);
}

int memory_readlink(struct request *rq, struct xlator *x, const struct readlink_in *in, struct readlink_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *o = memory_object_of(x, in->inode);

	(void)rq;
	(void)p;
	if (!o || !S_ISLNK(o->attr.mode))
		return o ? -EINVAL : -ESTALE;
	out->target = strdup(o->data);
	return out->target ? 0 : -ENOMEM;
}

int memory_link(struct request *rq, struct xlator *x, const struct link_in *in, struct link_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *dir, *o = memory_object_of(x, in->inode);
	struct entry **at;
	int err = resolve(x, &in->loc, &dir, &at);

	if (err || !o)
		return err ? err : -ESTALE;
	if (S_ISDIR(o->attr.mode))
		return -EPERM;
	if (*at && !(rq->resent && (*at)->object == o))
		return -EEXIST;
	if (!*at) {
		err = enter(rq, p, dir, at, in->loc.name, o);
		if (err)
			return err;
		o->attr.nlink++;
		o->attr.ctime = time_now();
	}
	out->attr = o->attr;
	return 0;
}

static int remove_name(struct request *rq, struct xlator *x, const struct loc *loc, bool directory)
{
	struct memory *p = x->private;
	struct object *dir, *o;
	struct entry **at;
	int err = resolve(x, loc, &dir, &at);

	if (err)
		return err;
	if (!*at)
		return rq->resent ? 0 : -ENOENT;
	o = (*at)->object;
	if (loc->inode && !gfid_equal(&o->attr.gfid, &loc->inode->gfid))
		return rq->resent ? 0 : -ESTALE;
	if (directory != S_ISDIR(o->attr.mode))
		return directory ? -ENOTDIR : -EISDIR;
	if (directory && o->entry)
		return -ENOTEMPTY;
	memory_entry_free(at);
	dir->attr.nlink -= directory;
	memory_touch(rq, dir);
	memory_drop_link(p, o);
	return 0;
}

int memory_unlink(struct request *rq, struct xlator *x, const struct unlink_in *in, struct unlink_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);

	(void)p;
	(void)out;
	return remove_name(rq, x, &in->loc, false);
}

int memory_rmdir(struct request *rq, struct xlator *x, const struct rmdir_in *in, struct rmdir_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);

	(void)p;
	(void)out;
	return remove_name(rq, x, &in->loc, true);
}

static bool is_below(const struct object *o, const struct object *dir)
{
	if (o == dir)
		return true;
	for (const struct entry *e = dir->entry; e; e = e->next)
		if (S_ISDIR(e->object->attr.mode) && is_below(o, e->object))
			return true;
	return false;
}

static int may_replace(const struct object *from, const struct object *to)
{
	if (S_ISDIR(from->attr.mode) != S_ISDIR(to->attr.mode))
		return S_ISDIR(to->attr.mode) ? -EISDIR : -ENOTDIR;
	return to->entry ? -ENOTEMPTY : 0;
}

static void move_subdir(struct object *from, struct object *to, const struct object *moved)
{
	from->attr.nlink -= S_ISDIR(moved->attr.mode);
	to->attr.nlink += S_ISDIR(moved->attr.mode);
}

static int exchange(struct request *rq, struct object *from_dir, struct entry *from, struct object *to_dir, struct entry *to)
{
	struct object *o = from->object;

	move_subdir(from_dir, to_dir, o);
	move_subdir(to_dir, from_dir, to->object);
	from->object = to->object;
	to->object = o;
	memory_touch(rq, from_dir);
	memory_touch(rq, to_dir);
	return 0;
}

/* The name keeps its place in listings, as in most file systems. */
static void replace(struct request *rq, struct memory *p, struct object *dir, struct entry *e, struct object *by)
{
	struct object *gone = e->object;

	e->object = by;
	dir->attr.nlink -= S_ISDIR(gone->attr.mode);
	memory_drop_link(p, gone);
	memory_touch(rq, dir);
}

static bool stands_for(const struct entry *e, const struct inode *inode)
{
	return e && inode && gfid_equal(&e->object->attr.gfid, &inode->gfid);
}

/* Of a request that is sent again. Of an exchange one knows it only if the names' objects are told, of others who tells nothing is believed. */
static bool was_renamed(const struct rename_in *in, const struct entry *from, const struct entry *to)
{
	if (in->flags & RENAME_EXCHANGE)
		return stands_for(from, in->to.inode) && stands_for(to, in->from.inode);
	return in->from.inode ? stands_for(to, in->from.inode) && !stands_for(from, in->from.inode) : !from && to;
}

int memory_rename(struct request *rq, struct xlator *x, const struct rename_in *in, struct rename_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *from_dir, *to_dir, *o;
	struct entry **from, **to;
	int err = resolve(x, &in->from, &from_dir, &from);

	(void)out;
	err = err ? err : resolve(x, &in->to, &to_dir, &to);
	if (err)
		return err;
	if (rq->resent && was_renamed(in, *from, *to))
		return 0;
	if (!*from)
		return -ENOENT;
	if ((in->from.inode && !stands_for(*from, in->from.inode)) || (in->to.inode && !stands_for(*to, in->to.inode)))
		return -ESTALE;
	o = (*from)->object;
	if (S_ISDIR(o->attr.mode) && is_below(to_dir, o))
		return -EINVAL;
	if (in->flags & RENAME_EXCHANGE)
		return *to ? exchange(rq, from_dir, *from, to_dir, *to) : -ENOENT;
	if (*to && (*to)->object == o)
		return in->flags & RENAME_NOREPLACE ? -EEXIST : 0;
	if (*to) {
		err = in->flags & RENAME_NOREPLACE ? -EEXIST : may_replace(o, (*to)->object);
		if (err)
			return err;
		replace(rq, p, to_dir, *to, o);
	} else {
		err = enter(rq, p, to_dir, to, in->to.name, o);
	}
	if (err)
		return err;
	move_subdir(from_dir, to_dir, o);
	memory_entry_free(find(from_dir, in->from.name));
	memory_touch(rq, from_dir);
	o->attr.ctime = time_now();
	return 0;
}

/* ---- the names in a directory, and of an object ---- */

static int fill(struct xlator *x, const struct entry *e, uint32_t flags, struct dirent_plus *to)
{
	*to = (struct dirent_plus){ .next_offset = e->cookie, .type = e->object->attr.mode & S_IFMT, .name = strdup(e->name) };
	if (!to->name)
		return -ENOMEM;
	if (!(flags & READDIR_PLUS))
		return 0;
	to->gfid = e->object->attr.gfid;
	return memory_give(x, e->object, &to->inode, &to->attr);
}

/* How many entries are given: no more than there are, whatever size is asked for. */
static uint32_t entries_for(const struct object *dir, uint32_t size)
{
	uint32_t there = 0;

	for (const struct entry *e = dir->entry; e && there < size / 64; e = e->next)
		there++;
	return there + 1;
}

static int list(struct xlator *x, const struct readdir_in *in, struct dirents *to)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *o = memory_object_of(x, in->file->inode);
	const struct entry *e;
	uint32_t most;
	int err = 0;

	(void)p;
	if (!o || !S_ISDIR(o->attr.mode))
		return o ? -ENOTDIR : -ESTALE;
	most = entries_for(o, in->size);
	to->entry = calloc(most, sizeof(*to->entry));
	if (!to->entry)
		return -ENOMEM;
	for (e = o->entry; e && to->count < most && !err; e = e->next)
		if (e->cookie > in->offset)
			err = fill(x, e, in->flags, &to->entry[to->count++]);
	to->end = !e;
	return err;
}

int memory_readdir(struct request *rq, struct xlator *x, const struct readdir_in *in, struct readdir_out *out)
{
	int err = list(x, in, &out->entries);

	(void)rq;
	if (err)
		fop_out_clear(FOP_readdir, out);
	return err;
}

static size_t put_link(uint8_t *to, const struct object *dir, const char *name)
{
	size_t length = strlen(name);

	memcpy(to, dir->attr.gfid.bytes, 16);
	to[16] = (uint8_t)length;
	memcpy(to + 17, name, length);
	return 17 + length;
}

static uint32_t find_links(const struct memory *p, const struct object *o, uint8_t *to, size_t *size)
{
	uint32_t count = 0;

	for (int i = 0; i < BUCKETS; i++)
		for (const struct object *dir = p->bucket[i]; dir; dir = dir->next)
			for (const struct entry *e = dir->entry; e; e = e->next)
				if (e->object == o && count < o->attr.nlink) {
					*size += put_link(to + *size, dir, e->name);
					count++;
				}
	return count;
}

int memory_inode_links(struct xlator *x, struct inode *inode, struct blob *links)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *o = memory_object_of(x, inode);
	size_t size = 4;
	uint32_t count;
	uint8_t *bytes;

	if (!o)
		return -ESTALE;
	bytes = malloc(4 + o->attr.nlink * (17 + 255u));
	if (!bytes)
		return -ENOMEM;
	count = htobe32(find_links(p, o, bytes, &size));
	memcpy(bytes, &count, sizeof(count));
	*links = (struct blob){ (uint32_t)size, bytes };
	return 0;
}
