/* SPDX-License-Identifier: Apache-2.0 */
/* debug/memory: a brick that forgets everything at the end, for tests and first steps: it needs no root and no disk. */
#include <endian.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "change-time.h"
#include "xlator.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE	 2
#endif

struct entry {
	char *name;
	struct object *object;
	uint64_t cookie; /* rises with each entry made: the offset of readdir */
	struct entry *next;
};
struct pair { /* an extended attribute */
	char *name;
	struct blob value;
	struct pair *next;
};
struct object {
	struct attr attr;
	char *data; /* bytes of a file, or the target of a link */
	struct entry *entry;
	struct pair *xattr;
	struct change_time changed;
	bool known;	     /* an inode's slot points here */
	struct object *next; /* in the table's bucket */
};
enum { BUCKETS = 1024 };
struct memory {
	uint64_t limit;
	pthread_mutex_t lock; /* guards all below; taken before inode locks; inodes are never let go under it */
	struct object *bucket[BUCKETS];
	uint64_t bytes, objects, cookie;
};
#define cleanup_unlock __attribute__((cleanup(unlock_at)))

static const struct option options[] = {
	{ "limit", OPTION_SIZE, OPTION_AT(struct memory, limit), "256M", "bytes of file data that it takes" },
	{ NULL },
};

static void unlock_at(struct memory **p)
{
	pthread_mutex_unlock(&(*p)->lock);
}

static struct memory *locked(struct xlator *x)
{
	struct memory *p = x->private;

	pthread_mutex_lock(&p->lock);
	return p;
}

static struct time now(void)
{
	return time_of_ns(clock_wall_ns());
}

/* ---- objects ---- */

static struct object **bucket_of(struct memory *p, const struct gfid *gfid)
{
	return &p->bucket[(gfid->bytes[15] | gfid->bytes[14] << 8) % BUCKETS];
}

static struct object *object_new(struct memory *p, const struct gfid *gfid, mode_t mode)
{
	struct object *o = calloc(1, sizeof(*o));
	struct object **bucket = bucket_of(p, gfid);

	if (!o)
		return NULL;
	o->attr = (struct attr){ .gfid = *gfid, .mode = mode, .nlink = S_ISDIR(mode) ? 2 : 1, .blksize = 4096 };
	o->attr.atime = o->attr.mtime = o->attr.ctime = o->attr.btime = now();
	o->next = *bucket;
	*bucket = o;
	p->objects++;
	return o;
}

static void pair_free(struct pair **at)
{
	struct pair *pair = *at;

	*at = pair->next;
	free(pair->name);
	free(pair->value.bytes);
	free(pair);
}

static void entry_free(struct entry **at)
{
	struct entry *e = *at;

	*at = e->next;
	free(e->name);
	free(e);
}

static void object_free(struct memory *p, struct object *o)
{
	struct object **at = bucket_of(p, &o->attr.gfid);

	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	while (o->xattr)
		pair_free(&o->xattr);
	while (o->entry)
		entry_free(&o->entry);
	p->bytes -= S_ISREG(o->attr.mode) ? o->attr.size : 0;
	p->objects--;
	free(o->data);
	free(o);
}

/* The object of that gfid that has a name, or else the one that only open files keep. */
static struct object *bearer(struct memory *p, const struct gfid *gfid)
{
	struct object *gone = NULL;

	for (struct object *o = *bucket_of(p, gfid); o; o = o->next) {
		if (!gfid_equal(&o->attr.gfid, gfid))
			continue;
		if (o->attr.nlink)
			return o;
		gone = o;
	}
	return gone;
}

static struct object *object_of(struct xlator *x, struct inode *inode)
{
	struct memory *p = x->private;
	struct object *was = inode_slot(inode, x), *o;

	if (was && was->attr.nlink)
		return was;
	o = bearer(p, &inode->gfid);
	if (!o || o == was)
		return was;
	if (was) { /* it was removed, and made again with the same gfid */
		inode_slot_take(inode, x);
		object_free(p, was);
	}
	if (inode_slot_set(inode, x, o))
		return NULL;
	o->known = true;
	return o;
}

static struct inode *inode_of(struct xlator *x, struct object *o)
{
	struct inode *inode = inode_get(x->inodes, &o->attr.gfid, o->attr.mode & S_IFMT);

	if (inode)
		object_of(x, inode);
	return inode;
}

static void drop_link(struct memory *p, struct object *o)
{
	o->attr.nlink = S_ISDIR(o->attr.mode) ? 0 : o->attr.nlink - 1;
	o->attr.ctime = now();
	if (!o->attr.nlink && !o->known)
		object_free(p, o);
}

static void memory_forget_inode(struct xlator *x, struct inode *inode, void *slot)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *o = slot;

	(void)inode;
	o->known = false;
	if (!o->attr.nlink)
		object_free(p, o);
}

/* ---- names ---- */

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
	*dir = object_of(x, loc->parent);
	if (!*dir)
		return -ESTALE;
	if (!S_ISDIR((*dir)->attr.mode))
		return -ENOTDIR;
	if (!(*dir)->attr.nlink)
		return -ENOENT;
	*at = find(*dir, loc->name);
	return 0;
}

static void touch(struct request *rq, struct object *o)
{
	o->attr.ctime = now();
	o->attr.mtime = rq->time_ns ? change_time(&o->changed, rq, NULL) : o->attr.ctime;
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
	touch(rq, dir);
	return 0;
}

static int make(struct request *rq, struct xlator *x, const struct loc *loc, const struct gfid *gfid, mode_t mode,
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
		return rq->resent && gfid_equal(gfid, &(*at)->object->attr.gfid) ? 0 : -EEXIST;
	}
	o = bearer(p, gfid);
	if (o && o->attr.nlink) {
		*made = NULL;
		return -EEXIST; /* as storage/posix has it: a client that lies, or a bug */
	}
	o = object_new(p, gfid, mode);
	if (!o)
		return -ENOMEM;
	if (rq->time_ns)
		o->attr.atime = o->attr.mtime = o->attr.btime = change_time(&o->changed, rq, NULL);
	o->attr.uid = rq->uid;
	o->attr.gid = dir->attr.mode & S_ISGID ? dir->attr.gid : rq->gid;
	if (S_ISDIR(mode))
		o->attr.mode |= dir->attr.mode & S_ISGID;
	err = enter(rq, p, dir, at, loc->name, o);
	if (err)
		object_free(p, o);
	else
		dir->attr.nlink += S_ISDIR(mode);
	*made = o;
	return err;
}

static int give(struct xlator *x, struct object *o, struct inode **inode, struct attr *attr)
{
	*inode = inode_of(x, o);
	*attr = o->attr;
	attr->blocks = (attr->size + 511) / 512;
	return *inode ? 0 : -ENOMEM;
}

static int memory_lookup(struct request *rq, struct xlator *x, const struct lookup_in *in, struct lookup_out *out)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *dir, *o;
	struct entry **at;
	int err;

	(void)rq;
	(void)p;
	if (!in->loc.name) {
		o = object_of(x, in->loc.inode);
		return o ? give(x, o, &out->inode, &out->attr) : -ESTALE;
	}
	err = resolve(x, &in->loc, &dir, &at);
	if (!err && !*at)
		err = -ENOENT;
	return err ? err : give(x, (*at)->object, &out->inode, &out->attr);
}

static int memory_mknod(struct request *rq, struct xlator *x, const struct mknod_in *in, struct mknod_out *out)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *o;
	int err = make(rq, x, &in->loc, &in->gfid, in->mode & ~in->umask, &o);

	(void)p;
	if (err)
		return err;
	o->attr.rdev = in->rdev;
	return give(x, o, &out->inode, &out->attr);
}

static int memory_mkdir(struct request *rq, struct xlator *x, const struct mkdir_in *in, struct mkdir_out *out)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *o;
	int err = make(rq, x, &in->loc, &in->gfid, S_IFDIR | (in->mode & ~in->umask & 07777), &o);

	(void)p;
	return err ? err : give(x, o, &out->inode, &out->attr);
}

static int memory_symlink(struct request *rq, struct xlator *x, const struct symlink_in *in, struct symlink_out *out)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *o;
	char *target = strdup(in->target);
	int err = target ? make(rq, x, &in->loc, &in->gfid, S_IFLNK | 0777, &o) : -ENOMEM;

	(void)p;
	if (err) {
		free(target);
		return err;
	}
	free(o->data);
	o->data = target;
	o->attr.size = strlen(target);
	return give(x, o, &out->inode, &out->attr);
}

static int memory_readlink(struct request *rq, struct xlator *x, const struct readlink_in *in, struct readlink_out *out)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *o = object_of(x, in->inode);

	(void)rq;
	(void)p;
	if (!o || !S_ISLNK(o->attr.mode))
		return o ? -EINVAL : -ESTALE;
	out->target = strdup(o->data);
	return out->target ? 0 : -ENOMEM;
}

static int memory_link(struct request *rq, struct xlator *x, const struct link_in *in, struct link_out *out)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *dir, *o = object_of(x, in->inode);
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
		o->attr.ctime = now();
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
	if (directory != S_ISDIR(o->attr.mode))
		return directory ? -ENOTDIR : -EISDIR;
	if (directory && o->entry)
		return -ENOTEMPTY;
	entry_free(at);
	dir->attr.nlink -= directory;
	touch(rq, dir);
	drop_link(p, o);
	return 0;
}

static int memory_unlink(struct request *rq, struct xlator *x, const struct unlink_in *in, struct unlink_out *out)
{
	cleanup_unlock struct memory *p = locked(x);

	(void)p;
	(void)out;
	return remove_name(rq, x, &in->loc, false);
}

static int memory_rmdir(struct request *rq, struct xlator *x, const struct rmdir_in *in, struct rmdir_out *out)
{
	cleanup_unlock struct memory *p = locked(x);

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
	touch(rq, from_dir);
	touch(rq, to_dir);
	return 0;
}

static int memory_rename(struct request *rq, struct xlator *x, const struct rename_in *in, struct rename_out *out)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *from_dir, *to_dir, *o;
	struct entry **from, **to;
	int err = resolve(x, &in->from, &from_dir, &from);

	(void)out;
	err = err ? err : resolve(x, &in->to, &to_dir, &to);
	if (err)
		return err;
	if (!*from)
		return rq->resent && *to && in->from.inode && gfid_equal(&in->from.inode->gfid, &(*to)->object->attr.gfid)
			       ? 0
			       : -ENOENT;
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
		struct object *gone = (*to)->object;

		entry_free(to);
		to_dir->attr.nlink -= S_ISDIR(gone->attr.mode);
		drop_link(p, gone);
	}
	err = enter(rq, p, to_dir, find(to_dir, in->to.name), in->to.name, o);
	if (err)
		return err;
	move_subdir(from_dir, to_dir, o);
	entry_free(find(from_dir, in->from.name));
	touch(rq, from_dir);
	o->attr.ctime = now();
	return 0;
}

/* ---- files ---- */

static int resize(struct request *rq, struct memory *p, struct object *o, uint64_t size)
{
	char *data;

	if (size > o->attr.size && size - o->attr.size > p->limit - p->bytes)
		return -ENOSPC;
	data = realloc(o->data, size ? size : 1);
	if (!data)
		return -ENOMEM;
	if (size > o->attr.size)
		memset(data + o->attr.size, 0, size - o->attr.size);
	p->bytes += size - o->attr.size;
	o->data = data;
	o->attr.size = size;
	touch(rq, o);
	return 0;
}

static int open_object(struct request *rq, struct xlator *x, struct inode *inode, struct object *o, uint32_t flags,
		       struct file **file)
{
	int err = 0;

	if (S_ISDIR(o->attr.mode) && (flags & O_ACCMODE) != O_RDONLY)
		return -EISDIR;
	if (flags & O_TRUNC && S_ISREG(o->attr.mode))
		err = resize(rq, x->private, o, 0);
	if (err)
		return err;
	*file = file_create(inode, flags);
	return *file ? 0 : -ENOMEM;
}

static int create_object(struct request *rq, struct xlator *x, const struct create_in *in, struct create_out *out)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *o;
	int err = make(rq, x, &in->loc, &in->gfid, S_IFREG | (in->mode & ~in->umask & 07777), &o);
	bool exists = err == -EEXIST && o && !(in->flags & O_EXCL);

	(void)p;
	if (err && !exists)
		return err;
	err = give(x, o, &out->inode, &out->attr);
	if (!err)
		err = open_object(rq, x, out->inode, o, exists ? in->flags : in->flags & ~O_TRUNC, &out->file);
	out->attr = o->attr;
	return err;
}

static int memory_create(struct request *rq, struct xlator *x, const struct create_in *in, struct create_out *out)
{
	int err = create_object(rq, x, in, out);

	if (err)
		fop_out_clear(FOP_create, out);
	return err;
}

static int memory_open(struct request *rq, struct xlator *x, const struct open_in *in, struct open_out *out)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *o = object_of(x, in->inode);

	(void)p;
	return o ? open_object(rq, x, in->inode, o, in->flags, &out->file) : -ESTALE;
}

static int memory_opendir(struct request *rq, struct xlator *x, const struct opendir_in *in, struct opendir_out *out)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *o = object_of(x, in->inode);

	(void)p;
	if (!o || !S_ISDIR(o->attr.mode))
		return o ? -ENOTDIR : -ESTALE;
	return open_object(rq, x, in->inode, o, O_RDONLY | O_DIRECTORY, &out->file);
}

static int memory_read(struct request *rq, struct xlator *x, const struct read_in *in, struct read_out *out)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *o = object_of(x, in->file->inode);
	uint64_t size;

	(void)rq;
	(void)p;
	if (!o || !S_ISREG(o->attr.mode))
		return o ? -EISDIR : -ESTALE;
	size = in->offset < o->attr.size ? o->attr.size - in->offset : 0;
	out->data = buffer_from(o->data + (size ? in->offset : 0), size < in->size ? size : in->size);
	return out->data ? 0 : -ENOMEM;
}

static int memory_write(struct request *rq, struct xlator *x, const struct write_in *in, struct write_out *out)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *o = object_of(x, in->file->inode);
	uint64_t offset;
	size_t size;
	const char *bytes = buffer_bytes(in->data, &size);
	int err = 0;

	if (!o)
		return -ESTALE;
	offset = in->flags & WRITE_APPEND ? o->attr.size : in->offset;
	if (offset > INT64_MAX - size)
		return -EFBIG;
	if (offset + size > o->attr.size)
		err = resize(rq, p, o, offset + size);
	if (err)
		return err;
	if (size)
		memcpy(o->data + offset, bytes, size);
	if (in->flags & WRITE_KILL_PRIV)
		o->attr.mode &= ~(S_ISUID | S_ISGID);
	touch(rq, o);
	out->written = size;
	out->offset = offset;
	return 0;
}

static int memory_fallocate(struct request *rq, struct xlator *x, const struct fallocate_in *in, struct fallocate_out *out)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *o = object_of(x, in->file->inode);
	uint64_t end;

	(void)out;
	if (!o)
		return -ESTALE;
	if (in->offset > INT64_MAX || in->length > INT64_MAX - in->offset)
		return -EFBIG;
	end = in->offset + in->length;
	if (in->mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE) && in->offset < o->attr.size)
		memset(o->data + in->offset, 0, (end < o->attr.size ? end : o->attr.size) - in->offset);
	touch(rq, o);
	return in->mode & FALLOC_FL_KEEP_SIZE || end <= o->attr.size ? 0 : resize(rq, p, o, end);
}

/* All of a file is data, with the hole that every file has at its end. */
static int memory_seek(struct request *rq, struct xlator *x, const struct seek_in *in, struct seek_out *out)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *o = object_of(x, in->file->inode);

	(void)rq;
	(void)p;
	if (!o || in->offset >= o->attr.size)
		return o ? -ENXIO : -ESTALE;
	out->offset = in->whence == SEEK_HOLE ? o->attr.size : in->offset;
	return 0;
}

static int memory_copy_range(struct request *rq, struct xlator *x, const struct copy_range_in *in, struct copy_range_out *out)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *from = object_of(x, in->from->inode), *to = object_of(x, in->to->inode);
	uint64_t length = in->length;
	int err = 0;

	if (!from || !to || in->to_offset > INT64_MAX / 2)
		return from && to ? -EFBIG : -ESTALE;
	if (in->from_offset >= from->attr.size)
		return 0;
	if (length > from->attr.size - in->from_offset)
		length = from->attr.size - in->from_offset;
	if (in->to_offset + length > to->attr.size)
		err = resize(rq, p, to, in->to_offset + length);
	if (err)
		return err;
	memmove(to->data + in->to_offset, from->data + in->from_offset, length);
	touch(rq, to);
	out->copied = length;
	return 0;
}

/* ---- attributes ---- */

static int memory_getattr(struct request *rq, struct xlator *x, const struct getattr_in *in, struct getattr_out *out)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *o = object_of(x, in->inode ? in->inode : in->file->inode);

	(void)rq;
	(void)p;
	if (!o)
		return -ESTALE;
	out->attr = o->attr;
	out->attr.blocks = (o->attr.size + 511) / 512;
	return 0;
}

static void set_times(struct request *rq, struct object *o, const struct setattr *set)
{
	struct time clock = rq->time_ns ? time_of_ns(rq->time_ns) : now();
	struct time mtime = set->valid & SET_MTIME_NOW ? clock : set->mtime;

	if (set->valid & (SET_ATIME | SET_ATIME_NOW))
		o->attr.atime = set->valid & SET_ATIME_NOW ? clock : set->atime;
	if (set->valid & (SET_MTIME | SET_MTIME_NOW))
		o->attr.mtime = change_time(&o->changed, rq, &mtime);
	o->attr.ctime = now();
}

static int memory_setattr(struct request *rq, struct xlator *x, const struct setattr_in *in, struct setattr_out *out)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *o = object_of(x, in->inode ? in->inode : in->file->inode);
	const struct setattr *set = &in->set;
	int err = 0;

	if (!o)
		return -ESTALE;
	if (set->valid & SET_SIZE)
		err = !S_ISREG(o->attr.mode) ? -EINVAL : set->size > INT64_MAX ? -EFBIG : resize(rq, p, o, set->size);
	if (err)
		return err;
	if (set->valid & (SET_KILL_PRIV | SET_UID | SET_GID) && S_ISREG(o->attr.mode))
		o->attr.mode &= ~(S_ISUID | S_ISGID);
	if (set->valid & SET_MODE)
		o->attr.mode = (o->attr.mode & S_IFMT) | (set->mode & 07777);
	if (set->valid & SET_UID)
		o->attr.uid = set->uid;
	if (set->valid & SET_GID)
		o->attr.gid = set->gid;
	set_times(rq, o, set);
	out->attr = o->attr;
	return 0;
}

static struct pair **find_xattr(struct object *o, const char *name)
{
	struct pair **at = &o->xattr;

	while (*at && strcmp((*at)->name, name))
		at = &(*at)->next;
	return at;
}

static int pair_new(struct pair **at, const char *name)
{
	struct pair *pair = calloc(1, sizeof(*pair));

	if (!pair || !(pair->name = strdup(name))) {
		free(pair);
		return -ENOMEM;
	}
	*at = pair;
	return 0;
}

static int memory_setxattr(struct request *rq, struct xlator *x, const struct setxattr_in *in, struct setxattr_out *out)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *o = object_of(x, in->inode);
	struct pair **at = o ? find_xattr(o, in->name) : NULL;
	void *bytes;

	(void)rq;
	(void)p;
	(void)out;
	if (!o)
		return -ESTALE;
	if (*at ? in->flags & XATTR_CREATE : in->flags & XATTR_REPLACE)
		return *at ? -EEXIST : -ENODATA;
	bytes = malloc(in->value.size ? in->value.size : 1);
	if (!bytes || (!*at && pair_new(at, in->name))) {
		free(bytes);
		return -ENOMEM;
	}
	if (in->value.size)
		memcpy(bytes, in->value.bytes, in->value.size);
	free((*at)->value.bytes);
	(*at)->value = (struct blob){ in->value.size, bytes };
	o->attr.ctime = now();
	return 0;
}

static int memory_getxattr(struct request *rq, struct xlator *x, const struct getxattr_in *in, struct getxattr_out *out)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *o = object_of(x, in->inode);
	struct pair **at = o ? find_xattr(o, in->name) : NULL;

	(void)rq;
	(void)p;
	if (!o || !*at)
		return o ? -ENODATA : -ESTALE;
	out->value.bytes = malloc((*at)->value.size + 1);
	if (!out->value.bytes)
		return -ENOMEM;
	memcpy(out->value.bytes, (*at)->value.bytes, (*at)->value.size);
	out->value.size = (*at)->value.size;
	return 0;
}

static int memory_listxattr(struct request *rq, struct xlator *x, const struct listxattr_in *in, struct listxattr_out *out)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *o = object_of(x, in->inode);
	uint32_t size = 0;
	char *to;

	(void)rq;
	(void)p;
	if (!o)
		return -ESTALE;
	for (const struct pair *pair = o->xattr; pair; pair = pair->next)
		size += strlen(pair->name) + 1;
	to = out->names.bytes = malloc(size + 1);
	if (!to)
		return -ENOMEM;
	for (const struct pair *pair = o->xattr; pair; pair = pair->next)
		to = stpcpy(to, pair->name) + 1;
	out->names.size = size;
	return 0;
}

static int memory_removexattr(struct request *rq, struct xlator *x, const struct removexattr_in *in,
			      struct removexattr_out *out)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *o = object_of(x, in->inode);
	struct pair **at = o ? find_xattr(o, in->name) : NULL;

	(void)rq;
	(void)p;
	(void)out;
	if (!o || !*at)
		return o ? -ENODATA : -ESTALE;
	pair_free(at);
	return 0;
}

/* ---- directories and the whole ---- */

static int fill(struct xlator *x, const struct entry *e, uint32_t flags, struct dirent_plus *to)
{
	*to = (struct dirent_plus){ .next_offset = e->cookie, .type = e->object->attr.mode & S_IFMT, .name = strdup(e->name) };
	if (!to->name)
		return -ENOMEM;
	if (!(flags & READDIR_PLUS))
		return 0;
	to->gfid = e->object->attr.gfid;
	return give(x, e->object, &to->inode, &to->attr);
}

static int list(struct xlator *x, const struct readdir_in *in, struct dirents *to)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *o = object_of(x, in->file->inode);
	uint32_t most = in->size / 64 + 1;
	const struct entry *e;
	int err = 0;

	(void)p;
	if (!o || !S_ISDIR(o->attr.mode))
		return o ? -ENOTDIR : -ESTALE;
	to->entry = calloc(most, sizeof(*to->entry));
	if (!to->entry)
		return -ENOMEM;
	for (e = o->entry; e && to->count < most && !err; e = e->next)
		if (e->cookie > in->offset)
			err = fill(x, e, in->flags, &to->entry[to->count++]);
	to->end = !e;
	return err;
}

static int memory_readdir(struct request *rq, struct xlator *x, const struct readdir_in *in, struct readdir_out *out)
{
	int err = list(x, in, &out->entries);

	(void)rq;
	if (err)
		fop_out_clear(FOP_readdir, out);
	return err;
}

static int memory_statfs(struct request *rq, struct xlator *x, const struct statfs_in *in, struct statfs_out *out)
{
	cleanup_unlock struct memory *p = locked(x);
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

static int memory_inode_links(struct xlator *x, struct inode *inode, struct blob *links)
{
	cleanup_unlock struct memory *p = locked(x);
	struct object *o = object_of(x, inode);
	size_t size = 4;
	uint32_t count;
	uint8_t *bytes;

	if (!o || !o->attr.nlink)
		return -ESTALE;
	bytes = malloc(4 + o->attr.nlink * (17 + 255u));
	if (!bytes)
		return -ENOMEM;
	count = htobe32(find_links(p, o, bytes, &size));
	memcpy(bytes, &count, sizeof(count));
	*links = (struct blob){ (uint32_t)size, bytes };
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
	root = object_new(p, &gfid_root, S_IFDIR | 0755);
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
			object_free(p, p->bucket[i]);
	pthread_mutex_destroy(&p->lock);
}

static void memory_dump(struct xlator *x, FILE *f)
{
	cleanup_unlock struct memory *p = locked(x);

	fprintf(f, "  objects: %llu\n  bytes: %llu\n", (unsigned long long)p->objects, (unsigned long long)p->bytes);
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "debug/memory",
	.summary = "a brick in memory, for tests",
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
