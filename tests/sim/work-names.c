/* SPDX-License-Identifier: Apache-2.0 */
/* What clients do with names. */
#include <fcntl.h>

#include "quota.h"
#include "work.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

int lookup(struct worker *w, struct inode *dir, unsigned name, struct inode **found)
{
	struct lookup_in in = { .loc = { .parent = dir, .name = names[name] } };
	struct lookup_out out = { 0 };
	struct operation *o = begin(w, OP_LOOKUP);
	int err;

	o->dir = dir->gfid;
	o->name = name;
	err = call(w, FOP_lookup, &in, &out);
	*found = out.inode;
	if (!err)
		o->object = out.inode->gfid;
	return end(w, err);
}

/* An object of a new gfid is to be made at the name. */
static struct operation *begin_make(struct worker *w, enum what what, const struct inode *dir, unsigned name, mode_t type,
				    struct gfid *gfid)
{
	struct operation *o = begin(w, what);

	gfid_create(gfid);
	o->dir = dir->gfid;
	o->name = name;
	o->object = *gfid;
	o->type = type;
	return o;
}

/* What comes of it is not part of the history, but for what it lets be done no more. One in four is taken away again, if it is still empty. */
static void limit_directory(struct worker *w, struct inode *dir)
{
	char text[32];
	struct setxattr_in in = { .inode = dir, .name = QUOTA_XATTR };
	struct setxattr_out out = { 0 };
	struct removexattr_in remove = { .inode = dir, .name = QUOTA_XATTR };
	struct removexattr_out removed = { 0 };

	in.value.size = (uint32_t)snprintf(text, sizeof(text), "%u %u", (2 + (unsigned)pick(5)) * 8192, (unsigned)pick(5));
	in.value.bytes = text;
	if (!call(w, FOP_setxattr, &in, &out) && !pick(4))
		call(w, FOP_removexattr, &remove, &removed);
}

static int make_directory(struct worker *w, struct inode *dir, unsigned name)
{
	struct mkdir_in in = { .loc = { .parent = dir, .name = names[name] }, .mode = 0755 };
	struct mkdir_out out = { 0 };
	int err;

	begin_make(w, OP_MAKE, dir, name, S_IFDIR, &in.gfid);
	err = call(w, FOP_mkdir, &in, &out);
	if (!err)
		keep_object(w, out.inode);
	end(w, err);
	if (!err && plan.quotas && pick(3))
		limit_directory(w, out.inode);
	fop_out_clear(FOP_mkdir, &out);
	return err;
}

static int make_symlink(struct worker *w, struct inode *dir, unsigned name)
{
	struct symlink_in in = { .loc = { .parent = dir, .name = names[name] }, .target = (char *)"target" };
	struct symlink_out out = { 0 };
	int err;

	begin_make(w, OP_MAKE, dir, name, S_IFLNK, &in.gfid);
	err = call(w, FOP_symlink, &in, &out);
	fop_out_clear(FOP_symlink, &out);
	return end(w, err);
}

static int create(struct worker *w, struct inode *dir, unsigned name, bool exclusive)
{
	struct create_in in = { .loc = { .parent = dir, .name = names[name] },
				.flags = O_RDWR | O_CREAT | (exclusive ? O_EXCL : 0),
				.mode = 0644 };
	struct create_out out = { 0 };
	struct operation *o = begin_make(w, exclusive ? OP_MAKE : OP_OPEN, dir, name, S_IFREG, &in.gfid);
	int err;

	err = call(w, FOP_create, &in, &out);
	if (!err)
		o->found[0] = out.inode->gfid;
	if (!err && exclusive && plan.subvolumes == 1 && !gfid_equal(&out.inode->gfid, &in.gfid))
		sim_fail("an exclusive create gave an object of another gfid");
	end(w, err);
	if (err)
		return err;
	keep_object(w, out.inode);
	keep_file(w, file_ref(out.file));
	fop_out_clear(FOP_create, &out);
	return 0;
}

/* The root most often, else a directory below it, which is made if it is not there. To be unreferenced. */
struct inode *some_directory(struct worker *w)
{
	unsigned name = (unsigned)pick(2);
	struct inode *found = NULL;

	if (pick(100) < 55)
		return inode_ref(w->root);
	if (lookup(w, w->root, name, &found) == -ENOENT)
		make_directory(w, w->root, name);
	if (found && S_ISDIR(found->type))
		return found;
	inode_unref(found);
	return inode_ref(w->root);
}

unsigned some_name(void)
{
	return pick(100) < 85 ? 2 + (unsigned)pick(4) : (unsigned)pick(2);
}

void do_lookup(struct worker *w)
{
	cleanup_inode struct inode *dir = some_directory(w);
	struct inode *found = NULL;

	if (!lookup(w, dir, some_name(), &found))
		keep_object(w, found);
	inode_unref(found);
}

void do_create(struct worker *w)
{
	cleanup_inode struct inode *dir = some_directory(w);

	create(w, dir, 2 + (unsigned)pick(4), pick(100) < 65);
}

void do_mkdir(struct worker *w)
{
	cleanup_inode struct inode *dir = some_directory(w);

	make_directory(w, dir, (unsigned)pick(2));
}

void do_symlink(struct worker *w)
{
	cleanup_inode struct inode *dir = some_directory(w);

	make_symlink(w, dir, 2 + (unsigned)pick(4));
}

/* What the name stands for, a reference; NULL: nothing, or that can't be told. */
static struct inode *see(struct worker *w, struct inode *dir, unsigned name, struct gfid *gfid)
{
	struct inode *found = NULL;

	if (lookup(w, dir, name, &found))
		return NULL;
	*gfid = found->gfid;
	return found;
}

static void do_remove(struct worker *w, bool directory)
{
	cleanup_inode struct inode *dir = some_directory(w), *seen = NULL;
	struct unlink_in in = { .loc = { .parent = dir } };
	struct unlink_out out = { 0 };
	unsigned name = directory ? (unsigned)pick(2) : some_name();
	struct place place = { 0 };
	struct operation *o;

	_Static_assert(sizeof(struct unlink_in) == sizeof(struct rmdir_in), "one form for both");
	if (plan.layout && !directory && !(seen = see(w, dir, name, &place.expected[0])))
		return;
	o = begin(w, directory ? OP_RMDIR : OP_UNLINK);
	o->dir = dir->gfid;
	o->name = name;
	in.loc.name = names[name];
	w->place = plan.layout && !directory ? &place : NULL;
	end(w, call(w, directory ? FOP_rmdir : FOP_unlink, &in, &out));
	w->place = NULL;
}

void do_unlink(struct worker *w)
{
	do_remove(w, false);
}

void do_rmdir(struct worker *w)
{
	do_remove(w, true);
}

void do_rename(struct worker *w)
{
	cleanup_inode struct inode *from = some_directory(w), *to = pick(2) ? inode_ref(from) : some_directory(w);
	cleanup_inode struct inode *moved = NULL, *replaced = NULL;
	struct rename_in in = { .from = { .parent = from }, .to = { .parent = to } };
	struct rename_out out = { 0 };
	struct place place = { 0 };
	struct operation *o;
	bool directory = pick(100) < (plan.subvolumes > 1 ? 30 : 15);
	unsigned name = directory ? (unsigned)pick(2) : 2 + (unsigned)pick(4);
	unsigned name2 = directory ? (unsigned)pick(2) : pick(20) ? 2 + (unsigned)pick(4) : (unsigned)pick(2);

	if (plan.layout && !(moved = see(w, from, name, &place.expected[0])))
		return;
	if (plan.layout && !(replaced = see(w, to, name2, &place.expected[1])))
		in.flags = RENAME_NOREPLACE;
	o = begin(w, OP_RENAME);
	o->dir = from->gfid;
	o->dir2 = to->gfid;
	o->name = name;
	o->name2 = name2;
	o->value = in.flags;
	in.from.name = names[name];
	in.to.name = names[name2];
	w->place = plan.layout ? &place : NULL;
	end(w, call(w, FOP_rename, &in, &out));
	w->place = NULL;
}

void do_link(struct worker *w)
{
	cleanup_inode struct inode *dir = some_directory(w);
	struct inode *object = some_object(w, S_IFREG);
	struct link_in in = { .inode = object, .loc = { .parent = dir } };
	struct link_out out = { 0 };
	struct operation *o;

	if (!object)
		return;
	o = begin(w, OP_LINK);
	o->dir = dir->gfid;
	o->name = 2 + (unsigned)pick(4);
	o->object = object->gfid;
	in.loc.name = names[o->name];
	in.inode = inode_ref(object);
	end(w, call(w, FOP_link, &in, &out));
	inode_unref(in.inode);
}

static int note_entries(struct worker *w, struct operation *o, struct file *file)
{
	struct readdir_in in = { .file = file, .size = 4096, .flags = READDIR_PLUS };
	bool end_of = false;
	int err = 0;

	while (!err && !end_of) {
		struct readdir_out out = { 0 };

		err = call(w, FOP_readdir, &in, &out);
		end_of = out.entries.end || !out.entries.count;
		for (uint32_t i = 0; i < out.entries.count; i++) {
			struct dirent_plus *e = &out.entries.entry[i];

			if (gfid_is_null(&e->gfid)) /* it could not be read, or has gone: the listing tells nothing of it */
				err = -EIO;
			if (*e->name == '.')
				sim_fail("a listing shows %s", e->name);
			for (unsigned n = 0; n < NAMES; n++)
				if (!strcmp(e->name, names[n]) && gfid_is_null(&o->found[n]))
					o->found[n] = e->gfid;
			in.offset = e->next_offset;
		}
		fop_out_clear(FOP_readdir, &out);
	}
	return err;
}

int list_directory(struct worker *w, struct inode *dir)
{
	struct opendir_in in = { .inode = dir };
	struct opendir_out out = { 0 };
	struct operation *o = begin(w, OP_READDIR);
	int err;

	o->dir = dir->gfid;
	err = call(w, FOP_opendir, &in, &out);
	if (!err) {
		err = note_entries(w, o, out.file);
		end(w, err ? -EIO : 0);
		release(w, out.file);
		return err;
	}
	return end(w, -EIO); /* whatever it is, it tells nothing */
}

void do_readdir(struct worker *w)
{
	cleanup_inode struct inode *dir = some_directory(w);

	list_directory(w, dir);
}
