/* SPDX-License-Identifier: Apache-2.0 */
/* sim/disk: names and directories. */
#include <fcntl.h>

#include "born.h"
#include "disk-xlator.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE	 2
#endif

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
	*dir = disk_object_of(p, loc->parent);
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
	disk_touch(p, dir);
}

static void leave(struct sim_disk *p, struct disk_object *dir, const char *name)
{
	disk_change(p->disk, &(struct disk_change){ .kind = CHANGE_LEAVE, .gfid = dir->attr.gfid, .name = name });
	disk_touch(p, dir);
}

static struct attr fresh_attr(struct sim_disk *p, const struct disk_object *dir, const struct gfid *g, mode_t mode)
{
	struct attr a = { .gfid = *g, .mode = mode, .nlink = S_ISDIR(mode) ? 2 : 1, .blksize = 4096 };

	a.uid = p->rq->uid;
	a.gid = dir->attr.mode & S_ISGID ? dir->attr.gid : p->rq->gid;
	if (S_ISDIR(mode))
		a.mode |= dir->attr.mode & S_ISGID;
	a.ctime = time_now();
	a.atime = a.mtime = a.btime = p->rq->time_ns ? time_of_ns(p->rq->time_ns) : a.ctime;
	return a;
}

static void made_again(struct sim_disk *p, struct disk_object *o)
{
	struct attr a = o->attr;
	bool touched = time_ns(a.mtime) != time_ns(a.btime);

	if (!p->rq->time_ns)
		return;
	a.btime = time_of_ns(p->rq->time_ns);
	if (!touched)
		a.atime = a.mtime = a.btime;
	disk_put_attr(p, &a);
}

struct search {
	struct sim_disk *disk;
	struct gfid gfid;
};

static void leave_one(struct sim_disk *p, struct disk_object *dir, const struct disk_entry *e)
{
	bool below = S_ISDIR(disk_find(p->disk, &e->gfid)->attr.mode);

	leave(p, dir, e->name);
	if (below)
		disk_set_links(p, dir, dir->attr.nlink - 1);
}

static void leave_all(struct disk_object *dir, void *arg)
{
	struct search *s = arg;
	struct disk_entry *e = dir->entry, *next;

	for (; e; e = next) {
		next = e->next;
		if (gfid_equal(&e->gfid, &s->gfid))
			leave_one(s->disk, dir, e);
	}
}

static void drop_all(struct sim_disk *p, const struct gfid *g);

static void drop_below(struct sim_disk *p, struct disk_object *dir)
{
	while (dir->entry) {
		struct disk_object *o = disk_find(p->disk, &dir->entry->gfid);
		struct gfid g = o->attr.gfid;

		leave_one(p, dir, dir->entry);
		if (!S_ISDIR(o->attr.mode) && o->attr.nlink > 1)
			disk_set_links(p, o, o->attr.nlink - 1);
		else
			drop_all(p, &g);
	}
}

/* With its names, and what is below it. */
static void drop_all(struct sim_disk *p, const struct gfid *g)
{
	struct disk_object *o = disk_find(p->disk, g);

	disk_each(p->disk, leave_all, &(struct search){ p, *g });
	drop_below(p, o);
	disk_set_links(p, o, 0);
	disk_free_if_gone(p, g);
}

static bool dropped[BRICKS_MAX];

bool disk_has_dropped(unsigned member)
{
	return dropped[member];
}

/* A file system does not know of gfids: an object that is made with the gfid of another one is an object of its own. That happens if a power cut
 * took the index that would have told healing where the other one is (doc/replication.md, Generations), and a scrub removes that. A disk here
 * has one object of a gfid, so the other goes at once. */
static int make_room(struct sim_disk *p, const struct disk_object *there)
{
	struct gfid g = there->attr.gfid;

	if (!disk_was_cut(p->disk)) {
		trace("an object is made whose gfid is in use");
		return -EEXIST;
	}
	drop_all(p, &g);
	dropped[disk_member(p->disk)] = true;
	return 0;
}

int disk_make(struct sim_disk *p, const struct loc *loc, const struct gfid *g, mode_t mode, const char *target,
	      struct disk_object **made)
{
	struct disk_object *dir, *there;
	struct disk_change c = { .kind = CHANGE_NEW, .gfid = *g };
	struct born born;
	int err = resolve(p, loc, &dir, made);

	if (!err)
		err = born_of(p->rq, &born);
	if (err)
		return err;
	if (*made && (!p->rq->resent || !gfid_equal(g, &(*made)->attr.gfid)))
		return -EEXIST;
	if (*made) {
		made_again(p, *made);
		disk_touch(p, dir);
		return 0;
	}
	if (disk_faults(p->disk)->full)
		return disk_has_no_room(p);
	there = disk_find(p->disk, g);
	err = there && there->attr.nlink ? make_room(p, there) : 0;
	if (err)
		return err;
	c.attr = fresh_attr(p, dir, g, mode);
	c.offset = disk_serial(p->disk);
	c.bytes = target;
	c.size = c.attr.size = target ? strlen(target) : 0;
	disk_change(p->disk, &c);
	for (unsigned i = 0; i < born.count; i++)
		disk_change(p->disk, &(struct disk_change){ .kind = CHANGE_XATTR,
							    .gfid = *g,
							    .name = born.xattr[i].name,
							    .bytes = born.xattr[i].size ? born.xattr[i].value : "",
							    .size = born.xattr[i].size });
	enter(p, dir, loc->name, g);
	p->rq->made = true;
	if (S_ISDIR(mode))
		disk_set_links(p, dir, dir->attr.nlink + 1);
	*made = disk_find(p->disk, g);
	if (p->rq->time_ns)
		change_time(&(*made)->changed, p->rq, NULL);
	return 0;
}

int disk_do_lookup(struct sim_disk *p, const void *args, void *result)
{
	const struct lookup_in *in = args;
	struct lookup_out *out = result;
	struct disk_object *dir, *o;
	int err = 0;

	if (!in->loc.name) {
		o = disk_object_of(p, in->loc.inode);
		return o ? disk_give(p, o, &out->inode, &out->attr) : -ESTALE;
	}
	err = resolve(p, &in->loc, &dir, &o);
	if (err)
		return err;
	return o ? disk_give(p, o, &out->inode, &out->attr) : -ENOENT;
}

int disk_do_mknod(struct sim_disk *p, const void *args, void *result)
{
	const struct mknod_in *in = args;
	struct mknod_out *out = result;
	struct disk_object *o;
	int err = disk_make(p, &in->loc, &in->gfid, in->mode & ~in->umask, NULL, &o);

	if (!err && in->rdev) {
		struct attr a = o->attr;

		a.rdev = in->rdev;
		disk_put_attr(p, &a);
	}
	return err ? err : disk_give(p, o, &out->inode, &out->attr);
}

int disk_do_mkdir(struct sim_disk *p, const void *args, void *result)
{
	const struct mkdir_in *in = args;
	struct mkdir_out *out = result;
	struct disk_object *o;
	int err = disk_make(p, &in->loc, &in->gfid, S_IFDIR | (in->mode & ~in->umask & 07777), NULL, &o);

	return err ? err : disk_give(p, o, &out->inode, &out->attr);
}

int disk_do_symlink(struct sim_disk *p, const void *args, void *result)
{
	const struct symlink_in *in = args;
	struct symlink_out *out = result;
	struct disk_object *o;
	int err = disk_make(p, &in->loc, &in->gfid, S_IFLNK | 0777, in->target, &o);

	return err ? err : disk_give(p, o, &out->inode, &out->attr);
}

int disk_do_readlink(struct sim_disk *p, const void *args, void *result)
{
	const struct readlink_in *in = args;
	struct readlink_out *out = result;
	struct disk_object *o = disk_object_of(p, in->inode);

	if (!o || !S_ISLNK(o->attr.mode))
		return o ? -EINVAL : -ESTALE;
	out->target = strdup(o->data);
	return 0;
}

int disk_do_link(struct sim_disk *p, const void *args, void *result)
{
	const struct link_in *in = args;
	struct link_out *out = result;
	struct disk_object *dir, *there, *o = disk_object_of(p, in->inode);
	int err = resolve(p, &in->loc, &dir, &there);

	if (err || !o)
		return err ? err : -ESTALE;
	if (S_ISDIR(o->attr.mode))
		return -EPERM;
	if (there && !(p->rq->resent && there == o))
		return -EEXIST;
	if (!o->attr.nlink)
		return -ENOENT;
	if (!there) {
		if (disk_faults(p->disk)->full)
			return -ENOSPC;
		enter(p, dir, in->loc.name, &o->attr.gfid);
		disk_set_links(p, o, o->attr.nlink + 1);
	}
	disk_attr_of(o, &out->attr);
	return 0;
}

/* The object is freed at once if nobody may still want it. */
static void drop_link(struct sim_disk *p, struct disk_object *o)
{
	struct gfid g = o->attr.gfid;
	struct inode *inode;

	disk_set_links(p, o, S_ISDIR(o->attr.mode) ? 0 : o->attr.nlink - 1);
	inode = inode_find(p->x->inodes, &g);
	if (!inode)
		disk_free_if_gone(p, &g);
	else if (!inode_slot(inode, p->x))
		inode_slot_set(inode, p->x, p);
	inode_unref(inode);
}

/* What the caller decided on, if it says so. */
static bool is_meant(const struct inode *inode, const struct disk_object *o)
{
	return !inode || (o && gfid_equal(&inode->gfid, &o->attr.gfid));
}

static int remove_name(struct sim_disk *p, const struct loc *loc, bool directory)
{
	struct disk_object *dir, *o;
	int err = resolve(p, loc, &dir, &o);

	if (err)
		return err;
	if (!o || !is_meant(loc->inode, o))
		return p->rq->resent ? 0 : o ? -ESTALE : -ENOENT;
	if (directory != S_ISDIR(o->attr.mode))
		return directory ? -ENOTDIR : -EISDIR;
	if (directory && o->entry)
		return -ENOTEMPTY;
	leave(p, dir, loc->name);
	if (directory)
		disk_set_links(p, dir, dir->attr.nlink - 1);
	drop_link(p, o);
	return 0;
}

int disk_do_unlink(struct sim_disk *p, const void *args, void *result)
{
	(void)result;
	return remove_name(p, &((const struct unlink_in *)args)->loc, false);
}

int disk_do_rmdir(struct sim_disk *p, const void *args, void *result)
{
	(void)result;
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
	disk_set_links(p, from, from->attr.nlink - 1);
	disk_set_links(p, to, to->attr.nlink + 1);
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

/* As storage/posix has it: by the first try, if the new name is the moved object's and the old one is not. */
static bool moved_before(const struct rename_in *in, const struct move *m)
{
	const struct inode *moved = in->from.inode, *other = in->to.inode;

	if (!moved || !m->there || !is_meant(moved, m->there) || (m->o && is_meant(moved, m->o)))
		return false;
	return !(in->flags & RENAME_EXCHANGE) || (other && m->o && is_meant(other, m->o));
}

static int check_rename(struct sim_disk *p, const struct rename_in *in, struct move *m)
{
	int err = resolve(p, &in->from, &m->from_dir, &m->o);

	err = err ? err : resolve(p, &in->to, &m->to_dir, &m->there);
	if (err)
		return err;
	if (p->rq->resent && moved_before(in, m))
		return 1;
	if (!m->o)
		return -ENOENT;
	if (!is_meant(in->from.inode, m->o) || !is_meant(in->to.inode, m->there))
		return -ESTALE;
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

int disk_do_rename(struct sim_disk *p, const void *args, void *result)
{
	const struct rename_in *in = args;
	struct move m;
	int err = check_rename(p, in, &m);

	(void)result;
	if (err)
		return err < 0 ? err : 0;
	if (in->flags & RENAME_EXCHANGE) {
		exchange(p, in, &m);
		return 0;
	}
	leave(p, m.from_dir, in->from.name);
	enter(p, m.to_dir, in->to.name, &m.o->attr.gfid);
	move_subdir(p, m.from_dir, m.to_dir, m.o);
	disk_set_links(p, m.o, m.o->attr.nlink); /* ctime */
	if (m.there && S_ISDIR(m.there->attr.mode))
		disk_set_links(p, m.to_dir, m.to_dir->attr.nlink - 1);
	if (m.there)
		drop_link(p, m.there);
	return 0;
}

/* ---- the names in a directory, and of an object ---- */

int disk_do_readdir(struct sim_disk *p, const void *args, void *result)
{
	const struct readdir_in *in = args;
	struct dirents *to = &((struct readdir_out *)result)->entries;
	struct disk_object *dir = disk_object_of(p, in->file->inode), *o;
	uint32_t most = in->size / 64 + 1;
	const struct disk_entry *e;

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
			disk_give(p, o, &d->inode, &d->attr);
		}
	}
	to->end = !e;
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

int disk_inode_links(struct xlator *x, struct inode *inode, struct blob *out)
{
	struct sim_disk *p = x->private;
	struct links l = { .p = p, .gfid = inode->gfid, .bytes = malloc(4), .size = 4 };

	if (!disk_object_of(p, inode)) {
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
