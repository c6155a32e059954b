/* SPDX-License-Identifier: Apache-2.0 */
/* What the clients do: operations on few names and files, so that they collide. Each one is written into the history. */
#include <fcntl.h>
#include <linux/falloc.h>

#include "away.h"
#include "born.h"
#include "history.h"
#include "place.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif
enum { FILES_KEPT = 3, OBJECTS_KEPT = 5, WORKERS_MAX = CLIENTS_MAX * 4, VALUES = BLOCK / 8, LIMIT_S = 60, SIZE_MAX_BLOCKS = 6 };

struct worker {
	struct node *node;
	unsigned life, number;
	struct graph *graph;
	struct inode *root, *object[OBJECTS_KEPT];
	struct file *file[FILES_KEPT];
	struct operation *current;
	const struct place *place; /* said with the next call, or NULL */
	enum fop fop;		   /* the one under way, since when; 0: none */
	uint64_t since_ns;
	bool ended;
};
static struct {
	struct worker *worker[1024];
	unsigned workers, left, running;
	uint64_t values, quorum_since;
	bool begun, final_done;
} work;

static uint64_t pick(uint64_t limit)
{
	return chance_below(CHANCE_WORK, limit);
}

static void be_born_with(struct request *rq, enum fop fop, const void *in)
{
	const struct gfid *g = fop == FOP_create    ? &((const struct create_in *)in)->gfid
			       : fop == FOP_mkdir   ? &((const struct mkdir_in *)in)->gfid
			       : fop == FOP_symlink ? &((const struct symlink_in *)in)->gfid
						    : NULL;

	if (g && (g->bytes[0] & 1 || plan.subvolumes > 1))
		born_attach(rq, &(struct born_xattr){ BIRTHMARK, g->bytes, sizeof(g->bytes) }, 1);
}

static int call(struct worker *w, enum fop fop, const void *in, void *out)
{
	struct request rq;
	int err;

	request_init(&rq, w->graph, 0);
	rq.group_count = 0;
	be_born_with(&rq, fop, in);
	if (w->place)
		place_attach(&rq, w->place);
	w->fop = fop;
	w->since_ns = sim_now();
	err = fop_call(&rq, w->graph->top, fop, in, out);
	w->fop = 0;
	request_finish(&rq);
	return err;
}

static struct operation *begin(struct worker *w, enum what what)
{
	w->current = operation_begin(what, w->number);
	work.left -= work.left > 0;
	return w->current;
}

static int end(struct worker *w, int err)
{
	struct operation *o = w->current;

	w->current = NULL;
	operation_end(o, err);
	return err;
}

/* ---- what a worker remembers ---- */

static void keep_object(struct worker *w, struct inode *inode)
{
	struct inode **at = &w->object[pick(OBJECTS_KEPT)];

	inode_unref(*at);
	*at = inode_ref(inode);
}

static void release(struct worker *w, struct file *file)
{
	struct release_in in = { .file = file };
	struct release_out out = { 0 };

	call(w, FOP_release, &in, &out);
	file_unref(file);
}

static void keep_file(struct worker *w, struct file *file)
{
	unsigned at = (unsigned)pick(FILES_KEPT);
	struct file *old = w->file[at];

	w->file[at] = file;
	if (old)
		release(w, old);
}

static struct inode *some_object(struct worker *w, mode_t type)
{
	unsigned from = (unsigned)pick(OBJECTS_KEPT);

	for (unsigned i = 0; i < OBJECTS_KEPT; i++) {
		struct inode *o = w->object[(from + i) % OBJECTS_KEPT];

		if (o && (!type || o->type == type))
			return o;
	}
	return NULL;
}

/* ---- names ---- */

static int lookup(struct worker *w, struct inode *dir, unsigned name, struct inode **found)
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

static int make_directory(struct worker *w, struct inode *dir, unsigned name)
{
	struct mkdir_in in = { .loc = { .parent = dir, .name = names[name] }, .mode = 0755 };
	struct mkdir_out out = { 0 };
	int err;

	begin_make(w, OP_MAKE, dir, name, S_IFDIR, &in.gfid);
	err = call(w, FOP_mkdir, &in, &out);
	if (!err)
		keep_object(w, out.inode);
	fop_out_clear(FOP_mkdir, &out);
	return end(w, err);
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
static struct inode *some_directory(struct worker *w)
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

static unsigned some_name(void)
{
	return pick(100) < 85 ? 2 + (unsigned)pick(4) : (unsigned)pick(2);
}

static void do_lookup(struct worker *w)
{
	cleanup_inode struct inode *dir = some_directory(w);
	struct inode *found = NULL;

	if (!lookup(w, dir, some_name(), &found))
		keep_object(w, found);
	inode_unref(found);
}

static void do_create(struct worker *w)
{
	cleanup_inode struct inode *dir = some_directory(w);

	create(w, dir, 2 + (unsigned)pick(4), pick(100) < 65);
}

static void do_mkdir(struct worker *w)
{
	cleanup_inode struct inode *dir = some_directory(w);

	make_directory(w, dir, (unsigned)pick(2));
}

static void do_symlink(struct worker *w)
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

static void do_unlink(struct worker *w)
{
	do_remove(w, false);
}

static void do_rmdir(struct worker *w)
{
	do_remove(w, true);
}

static void do_rename(struct worker *w)
{
	cleanup_inode struct inode *from = some_directory(w), *to = pick(2) ? inode_ref(from) : some_directory(w);
	cleanup_inode struct inode *moved = NULL, *replaced = NULL;
	struct rename_in in = { .from = { .parent = from }, .to = { .parent = to } };
	struct rename_out out = { 0 };
	struct place place = { 0 };
	struct operation *o;
	bool directory = pick(100) < 15;
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

static void do_link(struct worker *w)
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

static int list_directory(struct worker *w, struct inode *dir)
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

static void do_readdir(struct worker *w)
{
	cleanup_inode struct inode *dir = some_directory(w);

	list_directory(w, dir);
}

/* ---- files ---- */

static struct file *some_file(struct worker *w)
{
	struct file *file = w->file[pick(FILES_KEPT)];
	struct inode *object;
	struct open_in in;
	struct open_out out = { 0 };

	if (file && pick(5))
		return file_ref(file);
	object = some_object(w, S_IFREG);
	if (!object)
		return file ? file_ref(file) : NULL;
	in = (struct open_in){ .inode = inode_ref(object), .flags = O_RDWR };
	if (!call(w, FOP_open, &in, &out)) {
		file = file_ref(out.file);
		keep_file(w, out.file);
	} else {
		file = NULL;
	}
	inode_unref(in.inode);
	return file;
}

static void write_block(struct worker *w, bool append)
{
	cleanup_file struct file *file = some_file(w);
	uint64_t bytes[VALUES];
	struct write_in in = { .file = file, .flags = append ? WRITE_APPEND : 0 };
	struct write_out out = { 0 };
	struct operation *o;
	int err;

	if (!file)
		return;
	o = begin(w, append ? OP_APPEND : OP_WRITE);
	o->object = file->inode->gfid;
	o->value = ++work.values;
	o->block = append ? UINT32_MAX : (unsigned)pick(SIZE_MAX_BLOCKS);
	for (unsigned i = 0; i < VALUES; i++)
		bytes[i] = o->value;
	in.data = buffer_from(bytes, BLOCK);
	in.offset = append ? 0 : o->block * BLOCK;
	err = call(w, FOP_write, &in, &out);
	if (!err && append)
		o->block = (unsigned)(out.offset / BLOCK);
	if (!err && (out.written != BLOCK || out.offset % BLOCK))
		sim_fail("a write of %d bytes says that it wrote %u at %llu", BLOCK, out.written,
			 (unsigned long long)out.offset);
	buffer_unref(in.data);
	end(w, err);
}

static void do_write(struct worker *w)
{
	write_block(w, false);
}

static void do_append(struct worker *w)
{
	write_block(w, true);
}

/* From one file to another: of one and the same the ranges might overlap. */
static void do_copy(struct worker *w)
{
	cleanup_file struct file *from = some_file(w), *to = some_file(w);
	struct copy_range_in in = { .from = from, .to = to };
	struct copy_range_out out = { 0 };
	struct operation *o;
	int err;

	if (!from || !to || from->inode == to->inode)
		return;
	o = begin(w, OP_COPY);
	o->object = to->inode->gfid;
	o->from = from->inode->gfid;
	o->block = (unsigned)pick(SIZE_MAX_BLOCKS);
	o->from_block = (unsigned)pick(2);
	o->blocks = 1 + (unsigned)pick(3);
	in.to_offset = o->block * BLOCK;
	in.from_offset = o->from_block * BLOCK;
	in.length = o->blocks * BLOCK;
	err = call(w, FOP_copy_range, &in, &out);
	o->size = out.copied;
	if (!err && (out.copied > in.length || out.copied % BLOCK))
		sim_fail("%llu of %llu bytes were copied", (unsigned long long)out.copied, (unsigned long long)in.length);
	end(w, err);
}

static void do_allocate(struct worker *w)
{
	static const uint32_t modes[] = { 0, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE };
	cleanup_file struct file *file = some_file(w);
	struct fallocate_in in = { .file = file };
	struct fallocate_out out = { 0 };
	struct operation *o;

	if (!file)
		return;
	o = begin(w, OP_ALLOCATE);
	o->object = file->inode->gfid;
	o->block = (unsigned)pick(SIZE_MAX_BLOCKS);
	o->blocks = 1 + (unsigned)pick(3);
	o->value = in.mode = modes[pick(3)];
	in.offset = o->block * BLOCK;
	in.length = o->blocks * BLOCK;
	end(w, call(w, FOP_fallocate, &in, &out));
}

static void take_values(struct operation *o, const struct buffer *data)
{
	uint64_t v[VALUES];

	o->size = data->size;
	for (unsigned b = 0; b < BLOCKS_MAX && (b + 1) * BLOCK <= data->size; b++) {
		memcpy(v, data->data + b * BLOCK, BLOCK);
		for (unsigned i = 1; i < VALUES; i++)
			if (v[i] != v[0])
				sim_fail("a block was torn: %llu and %llu", (unsigned long long)v[0], (unsigned long long)v[i]);
		o->values[b] = v[0];
	}
}

static int read_file(struct worker *w, struct file *file)
{
	struct read_in in = { .file = file, .size = (BLOCKS_MAX + 8) * BLOCK };
	struct read_out out = { 0 };
	struct operation *o = begin(w, OP_READ);
	int err;

	o->object = file->inode->gfid;
	err = call(w, FOP_read, &in, &out);
	if (!err)
		take_values(o, out.data);
	fop_out_clear(FOP_read, &out);
	return end(w, err);
}

static void do_read(struct worker *w)
{
	cleanup_file struct file *file = some_file(w);

	if (file)
		read_file(w, file);
}

static void do_fsync(struct worker *w)
{
	cleanup_file struct file *file = some_file(w);
	struct fsync_in in = { .file = file };
	struct fsync_out out = { 0 };

	if (!file)
		return;
	begin(w, OP_FSYNC)->object = file->inode->gfid;
	end(w, call(w, FOP_fsync, &in, &out));
}

static void change_attributes(struct worker *w, enum what what, const struct setattr *set, unsigned block)
{
	struct inode *object = some_object(w, what == OP_TRUNCATE ? S_IFREG : 0);
	struct setattr_in in = { .set = *set };
	struct setattr_out out = { 0 };
	struct operation *o;

	if (!object || S_ISLNK(object->type))
		return;
	in.inode = inode_ref(object);
	o = begin(w, what);
	o->object = object->gfid;
	o->block = block;
	o->value = set->mode;
	end(w, call(w, FOP_setattr, &in, &out));
	inode_unref(in.inode);
}

static void do_truncate(struct worker *w)
{
	unsigned blocks = (unsigned)pick(SIZE_MAX_BLOCKS);

	change_attributes(w, OP_TRUNCATE, &(struct setattr){ .valid = SET_SIZE, .size = blocks * BLOCK }, blocks);
}

static void do_chmod(struct worker *w)
{
	change_attributes(w, OP_CHMOD, &(struct setattr){ .valid = SET_MODE, .mode = 0600 + (uint32_t)pick(64) }, 0);
}

static int stat_object(struct worker *w, struct inode *object)
{
	struct getattr_in in = { .inode = object };
	struct getattr_out out = { 0 };
	struct operation *o = begin(w, OP_STAT);
	int err;

	o->object = object->gfid;
	err = call(w, FOP_getattr, &in, &out);
	o->size = S_ISREG(object->type) ? out.attr.size : 0;
	o->value = out.attr.mode & 07777;
	o->blocks = out.attr.nlink;
	if (!err && (!gfid_equal(&out.attr.gfid, &object->gfid) || (out.attr.mode & S_IFMT) != object->type))
		sim_fail("getattr answers for another object");
	return end(w, err);
}

static void do_stat(struct worker *w)
{
	struct inode *object = some_object(w, 0);

	if (!object || S_ISLNK(object->type))
		return;
	inode_ref(object);
	stat_object(w, object);
	inode_unref(object);
}

/* ---- extended attributes ---- */

static const char *const xattr_name[2] = { "user.x0", "user.x1" };

static int get_xattr(struct worker *w, struct inode *object, unsigned name)
{
	struct getxattr_in in = { .inode = object, .name = (char *)xattr_name[name] };
	struct getxattr_out out = { 0 };
	struct operation *o = begin(w, OP_GETXATTR);
	int err;

	o->object = object->gfid;
	o->name = name;
	err = call(w, FOP_getxattr, &in, &out);
	if (!err && out.value.size == 8)
		memcpy(&o->value, out.value.bytes, 8);
	else if (!err)
		sim_fail("an xattr has %u bytes", out.value.size);
	fop_out_clear(FOP_getxattr, &out);
	return end(w, err);
}

static void set_xattr(struct worker *w, struct inode *object, unsigned name)
{
	struct operation *o = begin(w, OP_SETXATTR);
	struct setxattr_in in = { .inode = object, .name = (char *)xattr_name[name], .value = { 8, &o->value } };
	struct setxattr_out out = { 0 };

	o->object = object->gfid;
	o->name = name;
	o->value = ++work.values;
	end(w, call(w, FOP_setxattr, &in, &out));
}

static void remove_xattr(struct worker *w, struct inode *object, unsigned name)
{
	struct removexattr_in in = { .inode = object, .name = (char *)xattr_name[name] };
	struct removexattr_out out = { 0 };
	struct operation *o = begin(w, OP_REMOVEXATTR);

	o->object = object->gfid;
	o->name = name;
	end(w, call(w, FOP_removexattr, &in, &out));
}

static void do_xattr(struct worker *w)
{
	struct inode *object = some_object(w, 0);
	unsigned name = (unsigned)pick(2), what = (unsigned)pick(10);

	if (!object)
		return;
	inode_ref(object);
	if (what < 4)
		set_xattr(w, object, name);
	else if (what < 9)
		get_xattr(w, object, name);
	else
		remove_xattr(w, object, name);
	inode_unref(object);
}

/* ---- what the kernel believes ---- */

enum { LOOKS = 12, PAUSE_MS = 120 };

/* Looks at a name, and at what it leads to, again and again for a second or so: most of it the kernel answers. Does not count as work. */
static void do_watch(struct worker *w)
{
	cleanup_inode struct inode *dir = some_directory(w);
	unsigned name = some_name();

	if (pick(100) < 30)
		list_directory(w, dir);
	for (unsigned i = 0; i < LOOKS && work.left; i++) {
		cleanup_inode struct inode *found = NULL;

		work.left++;
		if (!lookup(w, dir, name, &found) && !S_ISLNK(found->type) && pick(2)) {
			work.left += work.left > 0;
			stat_object(w, found);
		}
		task_sleep_ms(pick(PAUSE_MS));
	}
}

/* ---- how many names a file has ---- */

enum { COUNTS = 4, BETWEEN_MS = 8 };

static void do_count(struct worker *w)
{
	struct inode *object = some_object(w, S_IFREG);

	if (!object || !pick(3)) {
		do_link(w);
		return;
	}
	inode_ref(object);
	for (unsigned i = 0; i < COUNTS && work.left; i++) {
		work.left++; /* does not count as work */
		stat_object(w, object);
		task_sleep_ms(pick(BETWEEN_MS));
	}
	inode_unref(object);
}

/* ---- workers ---- */

static const struct {
	void (*run)(struct worker *);
	unsigned weight;
} doings[] = { { do_lookup, 12 }, { do_create, 13 }, { do_mkdir, 2 }, { do_symlink, 2 },  { do_unlink, 7 },
	       { do_rmdir, 2 },	  { do_rename, 8 },  { do_link, 5 },  { do_readdir, 4 },  { do_write, 18 },
	       { do_append, 4 },  { do_read, 14 },   { do_fsync, 3 }, { do_truncate, 4 }, { do_chmod, 3 },
	       { do_stat, 6 },	  { do_xattr, 10 },  { do_copy, 5 },  { do_allocate, 3 } };

/* What makes and ends pointers. */
static void do_with_pointers(struct worker *w)
{
	static void (*const what[])(struct worker *) = { do_create, do_link, do_link, do_rename, do_rename, do_unlink };

	what[pick(sizeof(what) / sizeof(*what))](w);
}

static void do_something(struct worker *w)
{
	unsigned total = 0, at;

	if (plan.kernel && pick(100) < 15) {
		do_watch(w);
		return;
	}
	if (plan.subvolumes > 1 && pick(100) < 25) {
		do_with_pointers(w);
		return;
	}
	if (plan.layout && pick(100) < 30) {
		do_count(w);
		return;
	}
	for (size_t i = 0; i < sizeof(doings) / sizeof(*doings); i++)
		total += doings[i].weight;
	at = (unsigned)pick(total);
	for (size_t i = 0;; i++) {
		if (at < doings[i].weight) {
			doings[i].run(w);
			return;
		}
		at -= doings[i].weight;
	}
}

/* Bursts, with rests in between, so that the work lasts as long as the faults do. */
static void rest(void)
{
	uint64_t mean_ms = 12000 * plan.clients * plan.tasks / plan.operations;
	uint64_t r = pick(100);

	if (r < 50)
		return;
	task_sleep_ms(r < 80 ? pick(4) : pick(10 * mean_ms));
}

static void worker_run(void *arg)
{
	struct worker *w = arg;

	w->root = inode_get(w->graph->inodes, &gfid_root, S_IFDIR);
	while (work.left) {
		do_something(w);
		rest();
	}
	for (unsigned i = 0; i < FILES_KEPT; i++)
		if (w->file[i])
			release(w, w->file[i]);
	w->ended = true;
	work.running--;
}

static void begin_worker(struct node *n)
{
	struct worker *w = calloc(1, sizeof(*w));

	w->node = n;
	w->life = n->life;
	w->graph = n->graph;
	w->number = work.workers;
	work.worker[work.workers++] = w;
	work.running++;
	task_spawn(n->shard, worker_run, w);
}

/* The client's graph has started. */
void work_client_up(struct node *n)
{
	for (unsigned i = 0; work.begun && work.left && i < plan.tasks; i++)
		begin_worker(n);
}

void work_client_died(struct node *n)
{
	for (unsigned i = 0; i < work.workers; i++) {
		struct worker *w = work.worker[i];

		if (w->node != n || w->life != n->life || w->ended)
			continue;
		w->ended = true;
		w->fop = 0;
		work.running--;
	}
}

void work_begin(void)
{
	work.begun = true;
	work.left = plan.operations;
	work.quorum_since = sim_now();
	for (unsigned i = 0; i < plan.clients; i++)
		work_client_up(node_client(i));
}

bool work_done(void)
{
	return !work.left && !work.running;
}

void work_watch(void)
{
	uint64_t now = sim_now(),
		 limit = LIMIT_S * S * (plan.kernel ? plan.tasks : 1); /* a directory is changed by one at a time */
	char text[512];

	if (!world_quorum())
		work.quorum_since = now;
	for (unsigned i = 0; i < work.workers; i++) {
		const struct worker *w = work.worker[i];
		uint64_t since = w->since_ns > work.quorum_since ? w->since_ns : work.quorum_since;

		if (!w->fop || now - since < limit)
			continue;
		snprintf(text, sizeof(text), "%s of worker %u", fop_name(w->fop), w->number);
		if (w->current)
			operation_print(w->current, text, sizeof(text));
		sim_fail("no end of %s within %d s, though a quorum is healthy and connected", text, (int)(limit / S));
	}
}

/* ---- the end ---- */

static void read_all(struct worker *w, struct inode *dir, unsigned depth);

static void read_object(struct worker *w, struct inode *object, unsigned depth)
{
	struct open_in in = { .inode = object, .flags = O_RDONLY };
	struct open_out out = { 0 };
	int err = S_ISLNK(object->type) ? 0 : stat_object(w, object);

	for (unsigned x = 0; x < 2 && !err; x++) {
		err = get_xattr(w, object, x);
		err = err == -ENODATA ? 0 : err;
	}
	if (!err && S_ISREG(object->type))
		err = call(w, FOP_open, &in, &out);
	if (!err && S_ISREG(object->type)) {
		err = read_file(w, out.file);
		release(w, out.file);
	}
	if (err && plan.stack != STACK_NAIVE) /* which is to be found wrong in a better way */
		sim_fail("what is there in the end can't be read: %s", strerror(-err));
	else if (S_ISDIR(object->type) && depth < 8)
		read_all(w, object, depth + 1);
}

static void read_all(struct worker *w, struct inode *dir, unsigned depth)
{
	for (unsigned n = 0; n < NAMES && !sim_failure(); n++) {
		struct inode *found = NULL;
		int err = lookup(w, dir, n, &found);

		if (err && err != -ENOENT && plan.stack != STACK_NAIVE)
			sim_fail("names can't be looked up in the end: %s", strerror(-err));
		else if (found)
			read_object(w, found, depth);
		inode_unref(found);
	}
	if (!sim_failure() && list_directory(w, dir) && plan.stack != STACK_NAIVE)
		sim_fail("a directory can't be listed in the end");
}

static void final_run(void *arg)
{
	struct worker *w = arg;
	unsigned from = operations_count();

	w->root = inode_get(w->graph->inodes, &gfid_root, S_IFDIR);
	read_all(w, w->root, 0);
	for (; operation_at(from); from++)
		operation_at(from)->final = true;
	work.final_done = true;
}

void work_final_reads(void)
{
	struct node *n = node_client((unsigned)chance_below(CHANCE_WORK, plan.clients));
	struct worker *w = calloc(1, sizeof(*w));
	uint64_t until = sim_now() + LIMIT_S * S;

	w->node = n;
	w->life = n->life;
	w->graph = n->graph;
	w->number = work.workers;
	work.worker[work.workers++] = w;
	task_spawn(n->shard, final_run, w);
	while (!work.final_done && !sim_failure() && sim_now() < until)
		task_sleep_ms(10);
	if (!work.final_done)
		sim_fail("the final reads do not end");
}
