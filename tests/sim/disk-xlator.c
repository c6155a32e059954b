/* SPDX-License-Identifier: Apache-2.0 */
/* sim/disk: a simulated disk as the leaf of a brick's graph. Each call takes a while before and after the moment at which it is done,
 * and the machine may crash in both. */
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/xattr.h>

#include "disk.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE	 2
#endif

enum { QUICK_NS = 5000, COMMON_NS = 150000, FILE_MAX = 8 << 20, WAIT_NS = 20000000, PIECE = 64 };

struct sim_disk {
	int64_t member;
	char *state_dir;
	struct disk *disk;
	struct xlator *x;
	struct request *rq; /* whose call is just being done */
};

static const struct option options[] = {
	{ "member", OPTION_INT, OPTION_AT(struct sim_disk, member), NULL, "which disk", 0, BRICKS_MAX },
	{ "state-dir", OPTION_STRING, OPTION_AT(struct sim_disk, state_dir), "", "a directory that is on this disk, too" },
	{ NULL }
};

/* ---- time and faults ---- */

/* A shielded sleep: disks are not cancelled. */
static void spend(uint64_t ns)
{
	uint64_t until = clock_ns() + ns;

	task_shield(true);
	while (task_wait(until) != -ETIMEDOUT)
		;
	task_shield(false);
}

static void latency(struct disk *d)
{
	const struct disk_faults *f = disk_faults(d);
	uint64_t ns = chance_between(CHANCE_DISK, QUICK_NS, COMMON_NS);

	if (f->slow_ns)
		ns += chance_below(CHANCE_DISK, f->slow_ns);
	spend(ns);
	while (f->stuck_until > sim_now())
		spend(WAIT_NS);
	crash_point();
}

typedef int act(struct sim_disk *, struct request *, const void *in, void *out);

/* EIO comes before the deed as well as after it. */
static int perform(struct request *rq, struct xlator *x, enum fop fop, act *fn, const void *in, void *out)
{
	struct sim_disk *p = x->private;
	const struct disk_faults *f = disk_faults(p->disk);
	bool broken, after;
	int err;

	latency(p->disk);
	broken = chance_of(CHANCE_DISK, f->eio);
	after = broken && chance_below(CHANCE_DISK, 2);
	if (broken && !after)
		return -EIO;
	p->rq = rq;
	err = fn(p, rq, in, out);
	disk_commit(p->disk);
	crash_point();
	if (chance_below(CHANCE_DISK, 2))
		latency(p->disk);
	if (!after)
		return err;
	if (!err)
		fop_out_clear((int)fop, out);
	return -EIO;
}

/* ---- objects ---- */

static struct time now(void)
{
	return time_of_ns(clock_wall_ns());
}

static struct disk_object *object_of(struct sim_disk *p, const struct inode *inode)
{
	return inode ? disk_find(p->disk, &inode->gfid) : NULL;
}

static void put_attr(struct sim_disk *p, const struct attr *a)
{
	disk_change(p->disk, &(struct disk_change){ .kind = CHANGE_ATTR, .gfid = a->gfid, .attr = *a });
}

/* The contents have changed. */
static void touch(struct sim_disk *p, struct disk_object *o)
{
	struct attr a = o->attr;

	a.ctime = now();
	a.mtime = p->rq->time_ns ? change_time(&o->changed, p->rq, NULL) : a.ctime;
	put_attr(p, &a);
}

static void set_links(struct sim_disk *p, struct disk_object *o, uint32_t nlink)
{
	struct attr a = o->attr;

	a.nlink = nlink;
	a.ctime = now();
	put_attr(p, &a);
}

/* Something is known of the inode: it is to tell when it goes. */
static struct inode *inode_of(struct sim_disk *p, const struct disk_object *o)
{
	struct inode *inode = inode_get(p->x->inodes, &o->attr.gfid, o->attr.mode & S_IFMT);

	if (inode && !inode_slot(inode, p->x))
		inode_slot_set(inode, p->x, p);
	return inode;
}

static void free_if_gone(struct sim_disk *p, const struct gfid *g)
{
	struct disk_object *o = disk_find(p->disk, g);

	if (!o || o->attr.nlink)
		return;
	disk_change(p->disk, &(struct disk_change){ .kind = CHANGE_FREE, .gfid = *g, .offset = o->serial });
	disk_commit(p->disk);
}

static void disk_forget_inode(struct xlator *x, struct inode *inode, void *slot)
{
	(void)slot;
	free_if_gone(x->private, &inode->gfid);
}

static void attr_of(const struct disk_object *o, struct attr *a)
{
	*a = o->attr;
	a->blocks = (a->size + 511) / 512;
}

static int give(struct sim_disk *p, struct disk_object *o, struct inode **inode, struct attr *attr)
{
	*inode = inode_of(p, o);
	attr_of(o, attr);
	return *inode ? 0 : -ESTALE;
}

/* ---- names ---- */

static struct disk_entry *entry_of(struct disk_object *dir, const char *name)
{
	struct disk_entry *e = dir->entry;

	while (e && strcmp(e->name, name))
		e = e->next;
	return e;
}

static int resolve(struct sim_disk *p, const struct loc *loc, struct disk_object **dir, struct disk_object **found)
{
	struct disk_entry *e;
	int err = name_check(loc->name);

	if (err)
		return err;
	*dir = object_of(p, loc->parent);
	if (!*dir)
		return -ESTALE;
	if (!S_ISDIR((*dir)->attr.mode))
		return -ENOTDIR;
	if (!(*dir)->attr.nlink)
		return -ENOENT;
	e = entry_of(*dir, loc->name);
	*found = e ? disk_find(p->disk, &e->gfid) : NULL;
	if (e && !*found)
		sim_fail("the disk of brick %u has a name without an object", disk_member(p->disk));
	return 0;
}

static void enter(struct sim_disk *p, struct disk_object *dir, const char *name, const struct gfid *g)
{
	disk_change(p->disk, &(struct disk_change){ .kind = CHANGE_ENTER,
						    .gfid = dir->attr.gfid,
						    .other = *g,
						    .name = name,
						    .offset = disk_cookie(p->disk) });
	touch(p, dir);
}

static void leave(struct sim_disk *p, struct disk_object *dir, const char *name)
{
	disk_change(p->disk, &(struct disk_change){ .kind = CHANGE_LEAVE, .gfid = dir->attr.gfid, .name = name });
	touch(p, dir);
}

static struct attr fresh_attr(struct sim_disk *p, const struct disk_object *dir, const struct gfid *g, mode_t mode)
{
	struct attr a = { .gfid = *g, .mode = mode, .nlink = S_ISDIR(mode) ? 2 : 1, .blksize = 4096 };

	a.uid = p->rq->uid;
	a.gid = dir->attr.mode & S_ISGID ? dir->attr.gid : p->rq->gid;
	if (S_ISDIR(mode))
		a.mode |= dir->attr.mode & S_ISGID;
	a.ctime = now();
	a.atime = a.mtime = a.btime = p->rq->time_ns ? time_of_ns(p->rq->time_ns) : a.ctime;
	return a;
}

static int make(struct sim_disk *p, const struct loc *loc, const struct gfid *g, mode_t mode, const char *target,
		struct disk_object **made)
{
	struct disk_object *dir, *there;
	struct disk_change c = { .kind = CHANGE_NEW, .gfid = *g };
	int err = resolve(p, loc, &dir, made);

	if (err)
		return err;
	if (*made)
		return p->rq->resent && gfid_equal(g, &(*made)->attr.gfid) ? 0 : -EEXIST;
	if (disk_faults(p->disk)->full)
		return -ENOSPC;
	there = disk_find(p->disk, g);
	if (there && there->attr.nlink) {
		trace("an object is made whose gfid is in use");
		return -EEXIST;
	}
	c.attr = fresh_attr(p, dir, g, mode);
	c.offset = disk_serial(p->disk);
	c.bytes = target;
	c.size = c.attr.size = target ? strlen(target) : 0;
	disk_change(p->disk, &c);
	enter(p, dir, loc->name, g);
	if (S_ISDIR(mode))
		set_links(p, dir, dir->attr.nlink + 1);
	*made = disk_find(p->disk, g);
	if (p->rq->time_ns)
		change_time(&(*made)->changed, p->rq, NULL);
	return 0;
}

static int act_lookup(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct lookup_in *in = args;
	struct lookup_out *out = result;
	struct disk_object *dir, *o;
	int err = 0;

	(void)rq;
	if (!in->loc.name) {
		o = object_of(p, in->loc.inode);
		return o ? give(p, o, &out->inode, &out->attr) : -ESTALE;
	}
	err = resolve(p, &in->loc, &dir, &o);
	if (err)
		return err;
	return o ? give(p, o, &out->inode, &out->attr) : -ENOENT;
}

static int act_mknod(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct mknod_in *in = args;
	struct mknod_out *out = result;
	struct disk_object *o;
	int err = make(p, &in->loc, &in->gfid, in->mode & ~in->umask, NULL, &o);

	(void)rq;
	if (!err && in->rdev) {
		struct attr a = o->attr;

		a.rdev = in->rdev;
		put_attr(p, &a);
	}
	return err ? err : give(p, o, &out->inode, &out->attr);
}

static int act_mkdir(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct mkdir_in *in = args;
	struct mkdir_out *out = result;
	struct disk_object *o;
	int err = make(p, &in->loc, &in->gfid, S_IFDIR | (in->mode & ~in->umask & 07777), NULL, &o);

	(void)rq;
	return err ? err : give(p, o, &out->inode, &out->attr);
}

static int act_symlink(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct symlink_in *in = args;
	struct symlink_out *out = result;
	struct disk_object *o;
	int err = make(p, &in->loc, &in->gfid, S_IFLNK | 0777, in->target, &o);

	(void)rq;
	return err ? err : give(p, o, &out->inode, &out->attr);
}

static int act_readlink(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct readlink_in *in = args;
	struct readlink_out *out = result;
	struct disk_object *o = object_of(p, in->inode);

	(void)rq;
	if (!o || !S_ISLNK(o->attr.mode))
		return o ? -EINVAL : -ESTALE;
	out->target = strdup(o->data);
	return 0;
}

static int act_link(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct link_in *in = args;
	struct link_out *out = result;
	struct disk_object *dir, *there, *o = object_of(p, in->inode);
	int err = resolve(p, &in->loc, &dir, &there);

	if (err || !o)
		return err ? err : -ESTALE;
	if (S_ISDIR(o->attr.mode))
		return -EPERM;
	if (there && !(rq->resent && there == o))
		return -EEXIST;
	if (!o->attr.nlink)
		return -ENOENT;
	if (!there) {
		if (disk_faults(p->disk)->full)
			return -ENOSPC;
		enter(p, dir, in->loc.name, &o->attr.gfid);
		set_links(p, o, o->attr.nlink + 1);
	}
	attr_of(o, &out->attr);
	return 0;
}

/* Returns whether anybody may still want it. */
static void drop_link(struct sim_disk *p, struct disk_object *o)
{
	struct gfid g = o->attr.gfid;
	struct inode *inode;

	set_links(p, o, S_ISDIR(o->attr.mode) ? 0 : o->attr.nlink - 1);
	inode = inode_find(p->x->inodes, &g);
	if (!inode)
		free_if_gone(p, &g);
	else if (!inode_slot(inode, p->x))
		inode_slot_set(inode, p->x, p);
	inode_unref(inode);
}

static int remove_name(struct sim_disk *p, const struct loc *loc, bool directory)
{
	struct disk_object *dir, *o;
	int err = resolve(p, loc, &dir, &o);

	if (err)
		return err;
	if (!o)
		return p->rq->resent ? 0 : -ENOENT;
	if (directory != S_ISDIR(o->attr.mode))
		return directory ? -ENOTDIR : -EISDIR;
	if (directory && o->entry)
		return -ENOTEMPTY;
	leave(p, dir, loc->name);
	if (directory)
		set_links(p, dir, dir->attr.nlink - 1);
	drop_link(p, o);
	return 0;
}

static int act_unlink(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	(void)rq, (void)result;
	return remove_name(p, &((const struct unlink_in *)args)->loc, false);
}

static int act_rmdir(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	(void)rq, (void)result;
	return remove_name(p, &((const struct rmdir_in *)args)->loc, true);
}

static bool is_below(struct sim_disk *p, const struct disk_object *o, const struct disk_object *dir)
{
	if (o == dir)
		return true;
	for (const struct disk_entry *e = dir->entry; e; e = e->next) {
		const struct disk_object *child = disk_find(p->disk, &e->gfid);

		if (child && S_ISDIR(child->attr.mode) && is_below(p, o, child))
			return true;
	}
	return false;
}

static int may_replace(const struct disk_object *from, const struct disk_object *to)
{
	if (S_ISDIR(from->attr.mode) != S_ISDIR(to->attr.mode))
		return S_ISDIR(to->attr.mode) ? -EISDIR : -ENOTDIR;
	return to->entry ? -ENOTEMPTY : 0;
}

static void move_subdir(struct sim_disk *p, struct disk_object *from, struct disk_object *to, const struct disk_object *moved)
{
	if (from == to || !S_ISDIR(moved->attr.mode))
		return;
	set_links(p, from, from->attr.nlink - 1);
	set_links(p, to, to->attr.nlink + 1);
}

struct move {
	struct disk_object *from_dir, *to_dir, *o, *there;
};

static void exchange(struct sim_disk *p, const struct rename_in *in, const struct move *m)
{
	enter(p, m->from_dir, in->from.name, &m->there->attr.gfid);
	enter(p, m->to_dir, in->to.name, &m->o->attr.gfid);
	move_subdir(p, m->from_dir, m->to_dir, m->o);
	move_subdir(p, m->to_dir, m->from_dir, m->there);
}

static int check_rename(struct sim_disk *p, const struct rename_in *in, struct move *m)
{
	int err = resolve(p, &in->from, &m->from_dir, &m->o);

	err = err ? err : resolve(p, &in->to, &m->to_dir, &m->there);
	if (err)
		return err;
	if (!m->o)
		return p->rq->resent && m->there && in->from.inode && gfid_equal(&in->from.inode->gfid, &m->there->attr.gfid)
			       ? 1
			       : -ENOENT;
	if (S_ISDIR(m->o->attr.mode) && is_below(p, m->to_dir, m->o))
		return -EINVAL;
	if (in->flags & RENAME_EXCHANGE)
		return m->there ? 0 : -ENOENT;
	if (m->there == m->o)
		return in->flags & RENAME_NOREPLACE ? -EEXIST : 1;
	if (m->there)
		return in->flags & RENAME_NOREPLACE ? -EEXIST : may_replace(m->o, m->there);
	return 0;
}

static int act_rename(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct rename_in *in = args;
	struct move m;
	int err = check_rename(p, in, &m);

	(void)rq, (void)result;
	if (err)
		return err < 0 ? err : 0;
	if (in->flags & RENAME_EXCHANGE) {
		exchange(p, in, &m);
		return 0;
	}
	leave(p, m.from_dir, in->from.name);
	enter(p, m.to_dir, in->to.name, &m.o->attr.gfid);
	move_subdir(p, m.from_dir, m.to_dir, m.o);
	set_links(p, m.o, m.o->attr.nlink); /* ctime */
	if (m.there && S_ISDIR(m.there->attr.mode))
		set_links(p, m.to_dir, m.to_dir->attr.nlink - 1);
	if (m.there)
		drop_link(p, m.there);
	return 0;
}

/* ---- files ---- */

static void resize(struct sim_disk *p, struct disk_object *o, uint64_t size)
{
	disk_change(p->disk, &(struct disk_change){ .kind = CHANGE_SIZE, .gfid = o->attr.gfid, .size = size });
	touch(p, o);
}

static int open_object(struct sim_disk *p, struct inode *inode, struct disk_object *o, uint32_t flags, struct file **file)
{
	if (S_ISDIR(o->attr.mode) && (flags & O_ACCMODE) != O_RDONLY)
		return -EISDIR;
	if (flags & O_TRUNC && S_ISREG(o->attr.mode))
		resize(p, o, 0);
	if (!inode_slot(inode, p->x))
		inode_slot_set(inode, p->x, p);
	*file = file_create(inode, flags);
	return 0;
}

static int act_create(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct create_in *in = args;
	struct create_out *out = result;
	struct disk_object *o;
	int err = make(p, &in->loc, &in->gfid, S_IFREG | (in->mode & ~in->umask & 07777), NULL, &o);
	bool exists = err == -EEXIST && !(in->flags & O_EXCL) && o;

	(void)rq;
	if (err && !exists)
		return err;
	if (!S_ISREG(o->attr.mode))
		return S_ISDIR(o->attr.mode) ? -EISDIR : -EEXIST;
	err = give(p, o, &out->inode, &out->attr);
	if (!err)
		err = open_object(p, out->inode, o, exists ? in->flags : in->flags & ~(uint32_t)O_TRUNC, &out->file);
	attr_of(o, &out->attr);
	if (err)
		fop_out_clear(FOP_create, out);
	return err;
}

static int act_open(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct open_in *in = args;
	struct disk_object *o = object_of(p, in->inode);

	(void)rq;
	return o ? open_object(p, in->inode, o, in->flags, &((struct open_out *)result)->file) : -ESTALE;
}

static int act_opendir(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct opendir_in *in = args;
	struct disk_object *o = object_of(p, in->inode);

	(void)rq;
	if (!o || !S_ISDIR(o->attr.mode))
		return o ? -ENOTDIR : -ESTALE;
	return open_object(p, in->inode, o, O_RDONLY | O_DIRECTORY, &((struct opendir_out *)result)->file);
}

static int act_read(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct read_in *in = args;
	struct read_out *out = result;
	struct disk_object *o = object_of(p, in->file->inode);
	uint64_t size;

	(void)rq;
	if (!o || !S_ISREG(o->attr.mode))
		return o ? -EISDIR : -ESTALE;
	size = in->offset < o->attr.size ? o->attr.size - in->offset : 0;
	out->data = buffer_from(o->data + (size ? in->offset : 0), size < in->size ? size : in->size);
	return 0;
}

static void write_at(struct sim_disk *p, struct disk_object *o, uint64_t offset, const void *bytes, size_t size)
{
	if (size) /* nothing makes a file no longer */
		disk_change(p->disk, &(struct disk_change){ .kind = CHANGE_WRITE,
							    .gfid = o->attr.gfid,
							    .offset = offset,
							    .bytes = bytes,
							    .size = size });
	touch(p, o);
}

static int act_write(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct write_in *in = args;
	struct write_out *out = result;
	struct disk_object *o = object_of(p, in->file->inode);
	uint64_t offset;
	size_t size;
	const char *bytes = buffer_bytes(in->data, &size);

	(void)rq;
	if (!o)
		return -ESTALE;
	offset = in->flags & WRITE_APPEND ? o->attr.size : in->offset;
	if (offset > FILE_MAX - size)
		return -EFBIG;
	if (disk_faults(p->disk)->full && offset + size > o->attr.size) {
		size = offset < o->attr.size ? o->attr.size - offset : size / 2 / PIECE * PIECE; /* what still goes in */
		if (!size)
			return -ENOSPC;
	}
	write_at(p, o, offset, bytes, size);
	out->written = (uint32_t)size;
	out->offset = offset;
	return 0;
}

static int act_fallocate(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct fallocate_in *in = args;
	struct disk_object *o = object_of(p, in->file->inode);
	uint64_t end, till;
	char *zeros;

	(void)rq, (void)result;
	if (!o)
		return -ESTALE;
	if (in->offset > FILE_MAX || in->length > FILE_MAX)
		return -EFBIG;
	end = in->offset + in->length;
	if (disk_faults(p->disk)->full && !(in->mode & FALLOC_FL_PUNCH_HOLE) && end > o->attr.size)
		return -ENOSPC;
	till = end < o->attr.size ? end : o->attr.size;
	if (in->mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE) && in->offset < till) {
		zeros = calloc(1, till - in->offset);
		write_at(p, o, in->offset, zeros, till - in->offset);
		free(zeros);
	}
	if (!(in->mode & FALLOC_FL_KEEP_SIZE) && end > o->attr.size)
		resize(p, o, end);
	touch(p, o); /* as storage/posix does, whatever was there */
	return 0;
}

static int act_seek(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct seek_in *in = args;
	struct disk_object *o = object_of(p, in->file->inode);

	(void)rq;
	if (!o || in->offset >= o->attr.size)
		return o ? -ENXIO : -ESTALE;
	((struct seek_out *)result)->offset = in->whence == SEEK_HOLE ? o->attr.size : in->offset;
	return 0;
}

static int act_copy_range(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct copy_range_in *in = args;
	struct disk_object *from = object_of(p, in->from->inode), *to = object_of(p, in->to->inode);
	uint64_t length = in->length;
	char *bytes;

	(void)rq;
	if (!from || !to || in->to_offset > FILE_MAX)
		return from && to ? -EFBIG : -ESTALE;
	if (in->from_offset >= from->attr.size)
		length = 0;
	else if (length > from->attr.size - in->from_offset)
		length = from->attr.size - in->from_offset;
	if (length && disk_faults(p->disk)->full && in->to_offset + length > to->attr.size) {
		length = in->to_offset < to->attr.size ? to->attr.size - in->to_offset : length / 2 / PIECE * PIECE;
		if (!length)
			return -ENOSPC;
	}
	bytes = malloc(length + 1);
	if (length)
		memcpy(bytes, from->data + in->from_offset, length);
	write_at(p, to, in->to_offset, bytes, length);
	free(bytes);
	((struct copy_range_out *)result)->copied = length;
	return 0;
}

static int act_fsync(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct fsync_in *in = args;

	(void)rq, (void)result;
	disk_fsync(p->disk, &in->file->inode->gfid);
	return 0;
}

/* ---- attributes ---- */

static struct disk_object *either(struct sim_disk *p, struct inode *inode, struct file *file)
{
	return object_of(p, inode ? inode : file ? file->inode : NULL);
}

static int act_getattr(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct getattr_in *in = args;
	struct disk_object *o = either(p, in->inode, in->file);

	(void)rq;
	if (!o)
		return -ESTALE;
	attr_of(o, &((struct getattr_out *)result)->attr);
	return 0;
}

static void set_times(struct sim_disk *p, struct disk_object *o, struct attr *a, const struct setattr *set)
{
	struct time given = p->rq->time_ns ? time_of_ns(p->rq->time_ns) : now();

	a->ctime = now();
	if (set->valid & (SET_ATIME | SET_ATIME_NOW))
		a->atime = set->valid & SET_ATIME_NOW ? given : set->atime;
	if (set->valid & SET_MTIME_NOW && !p->rq->time_ns)
		a->mtime = given;
	else if (set->valid & (SET_MTIME | SET_MTIME_NOW))
		a->mtime = change_time(&o->changed, p->rq, set->valid & SET_MTIME_NOW ? &given : &set->mtime);
}

static void set_plain(struct attr *a, const struct setattr *set)
{
	if (set->valid & (SET_KILL_PRIV | SET_UID | SET_GID) && S_ISREG(a->mode))
		a->mode &= ~(uint32_t)(S_ISUID | S_ISGID);
	if (set->valid & SET_MODE)
		a->mode = (a->mode & S_IFMT) | (set->mode & 07777);
	if (set->valid & SET_UID)
		a->uid = set->uid;
	if (set->valid & SET_GID)
		a->gid = set->gid;
}

static int act_setattr(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct setattr_in *in = args;
	struct disk_object *o = either(p, in->inode, in->file);
	struct attr a;

	(void)rq;
	if (!o)
		return -ESTALE;
	if (in->set.valid & SET_SIZE && !S_ISREG(o->attr.mode))
		return S_ISDIR(o->attr.mode) ? -EISDIR : -EINVAL;
	if (in->set.valid & SET_SIZE && in->set.size > FILE_MAX)
		return -EFBIG;
	if (in->set.valid & SET_SIZE && in->set.size > o->attr.size && disk_faults(p->disk)->full)
		return -ENOSPC;
	if (in->set.valid & SET_SIZE)
		resize(p, o, in->set.size);
	a = o->attr;
	set_plain(&a, &in->set);
	set_times(p, o, &a, &in->set);
	put_attr(p, &a);
	attr_of(o, &((struct setattr_out *)result)->attr);
	return 0;
}

static struct disk_pair *pair_of(struct disk_object *o, const char *name)
{
	struct disk_pair *x = o->xattr;

	while (x && strcmp(x->name, name))
		x = x->next;
	return x;
}

static int act_setxattr(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct setxattr_in *in = args;
	struct disk_object *o = object_of(p, in->inode);
	struct disk_pair *x = o ? pair_of(o, in->name) : NULL;

	(void)rq, (void)result;
	if (!o)
		return -ESTALE;
	if (x ? in->flags & XATTR_CREATE : in->flags & XATTR_REPLACE)
		return x ? -EEXIST : -ENODATA;
	if (disk_faults(p->disk)->full)
		return -ENOSPC;
	disk_change(p->disk, &(struct disk_change){ .kind = CHANGE_XATTR,
						    .gfid = o->attr.gfid,
						    .name = in->name,
						    .bytes = in->value.size ? in->value.bytes : "",
						    .size = in->value.size });
	set_links(p, o, o->attr.nlink);
	return 0;
}

static int act_getxattr(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct getxattr_in *in = args;
	struct getxattr_out *out = result;
	struct disk_object *o = object_of(p, in->inode);
	struct disk_pair *x = o ? pair_of(o, in->name) : NULL;

	(void)rq;
	if (!x)
		return o ? -ENODATA : -ESTALE;
	out->value.bytes = malloc(x->value.size + 1);
	memcpy(out->value.bytes, x->value.bytes, x->value.size);
	out->value.size = x->value.size;
	return 0;
}

static int act_listxattr(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct listxattr_in *in = args;
	struct listxattr_out *out = result;
	struct disk_object *o = object_of(p, in->inode);
	uint32_t size = 0;
	char *to;

	(void)rq;
	if (!o)
		return -ESTALE;
	for (const struct disk_pair *x = o->xattr; x; x = x->next)
		size += (uint32_t)strlen(x->name) + 1;
	to = out->names.bytes = malloc(size + 1);
	for (const struct disk_pair *x = o->xattr; x; x = x->next)
		to = stpcpy(to, x->name) + 1;
	out->names.size = size;
	return 0;
}

static int act_removexattr(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct removexattr_in *in = args;
	struct disk_object *o = object_of(p, in->inode);

	(void)rq, (void)result;
	if (!o || !pair_of(o, in->name))
		return o ? -ENODATA : -ESTALE;
	disk_change(p->disk, &(struct disk_change){ .kind = CHANGE_NO_XATTR, .gfid = o->attr.gfid, .name = in->name });
	set_links(p, o, o->attr.nlink);
	return 0;
}

/* ---- directories and the whole ---- */

static int act_readdir(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	const struct readdir_in *in = args;
	struct dirents *to = &((struct readdir_out *)result)->entries;
	struct disk_object *dir = object_of(p, in->file->inode), *o;
	uint32_t most = in->size / 64 + 1;
	const struct disk_entry *e;

	(void)rq;
	if (!dir || !S_ISDIR(dir->attr.mode))
		return dir ? -ENOTDIR : -ESTALE;
	to->entry = calloc(most, sizeof(*to->entry));
	for (e = dir->entry; e && to->count < most; e = e->next) {
		struct dirent_plus *d = &to->entry[to->count];

		if (e->cookie <= in->offset)
			continue;
		o = disk_find(p->disk, &e->gfid);
		if (!o)
			continue;
		*d = (struct dirent_plus){ .next_offset = e->cookie, .type = o->attr.mode & S_IFMT, .name = strdup(e->name) };
		to->count++;
		if (in->flags & READDIR_PLUS) {
			d->gfid = o->attr.gfid;
			give(p, o, &d->inode, &d->attr);
		}
	}
	to->end = !e;
	return 0;
}

static int act_statfs(struct sim_disk *p, struct request *rq, const void *args, void *result)
{
	struct statfs *s = &((struct statfs_out *)result)->statfs;

	(void)rq, (void)args;
	*s = (struct statfs){ 4096, 4096, 1 << 20, 1 << 19, 1 << 19, 1 << 20, 1 << 19, 255 };
	if (disk_faults(p->disk)->full)
		s->bfree = s->bavail = 0;
	return 0;
}

#define ACT(op)                                                                                                                \
	static int handle_##op(struct request *rq, struct xlator *x, const struct op##_in *in, struct op##_out *out)           \
	{                                                                                                                      \
		return perform(rq, x, FOP_##op, act_##op, in, out);                                                            \
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
	X(read) X(write) X(fallocate) X(seek) X(copy_range) X(fsync) X(getattr) X(setattr) X(setxattr) X(getxattr)             \
		X(listxattr) X(removexattr) X(readdir) X(statfs)
ACTS(ACT)

static int disk_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	(void)rq, (void)x, (void)in, (void)out;
	return fop == FOP_access || fop == FOP_flush || fop == FOP_release ? 0 : -EOPNOTSUPP;
}

/* ---- handles, links, sync ---- */

struct disk_handle {
	struct gfid gfid;
	uint64_t serial;
};

static int disk_inode_handle(struct xlator *x, struct inode *inode, void *bytes, size_t *size)
{
	const struct disk_object *o = object_of(x->private, inode);
	struct disk_handle h;

	if (!o)
		return -ESTALE;
	h = (struct disk_handle){ inode->gfid, o->serial };
	memcpy(bytes, &h, sizeof(h));
	*size = sizeof(h);
	return 0;
}

static int disk_inode_from_handle(struct xlator *x, const void *bytes, size_t size, struct inode **inode)
{
	struct sim_disk *p = x->private;
	const struct disk_object *o;
	struct disk_handle h;

	if (size != sizeof(h))
		return -ESTALE;
	memcpy(&h, bytes, sizeof(h));
	o = disk_find(p->disk, &h.gfid);
	if (!o || o->serial != h.serial)
		return -ESTALE;
	*inode = inode_of(p, o);
	return *inode ? 0 : -ESTALE;
}

static int disk_sync_hook(struct xlator *x)
{
	struct sim_disk *p = x->private;

	if (task_self())
		latency(p->disk);
	if (chance_of(CHANCE_DISK, disk_faults(p->disk)->eio))
		return -EIO;
	disk_sync(p->disk);
	if (p->state_dir[0])
		files_synced(p->state_dir);
	return 0;
}

struct links {
	struct sim_disk *p;
	struct gfid gfid;
	uint8_t *bytes;
	uint32_t size, count;
};

static void add_link(struct disk_object *dir, void *arg)
{
	struct links *l = arg;

	for (const struct disk_entry *e = dir->entry; e && dir->attr.nlink; e = e->next) {
		size_t length = strlen(e->name);

		if (!gfid_equal(&e->gfid, &l->gfid))
			continue;
		l->bytes = realloc(l->bytes, l->size + 17 + length);
		memcpy(l->bytes + l->size, dir->attr.gfid.bytes, 16);
		l->bytes[l->size + 16] = (uint8_t)length;
		memcpy(l->bytes + l->size + 17, e->name, length);
		l->size += 17 + (uint32_t)length;
		l->count++;
	}
}

static int disk_inode_links(struct xlator *x, struct inode *inode, struct blob *out)
{
	struct sim_disk *p = x->private;
	struct links l = { .p = p, .gfid = inode->gfid, .bytes = malloc(4), .size = 4 };

	if (!object_of(p, inode)) {
		free(l.bytes);
		return -ESTALE;
	}
	disk_each(p->disk, add_link, &l);
	l.bytes[0] = l.bytes[1] = 0;
	l.bytes[2] = (uint8_t)(l.count >> 8);
	l.bytes[3] = (uint8_t)l.count;
	*out = (struct blob){ l.size, l.bytes };
	return 0;
}

static int disk_init(struct xlator *x, struct problem *problem)
{
	struct sim_disk *p = x->private;

	(void)problem;
	p->x = x;
	p->disk = disk_of((unsigned)p->member);
	return p->disk ? 0 : -ENODEV;
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
					   .any = disk_any,
#define HANDLER(op) .op = handle_##op,
					   ACTS(HANDLER)
#undef HANDLER
};
