/* SPDX-License-Identifier: Apache-2.0 */
/* What clients do with files: data, attributes, extended attributes. */
#include <fcntl.h>
#include <linux/falloc.h>

#include "work.h"

enum { VALUES = BLOCK / 8, SIZE_MAX_BLOCKS = 6 };

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
	in = (struct open_in){ .inode = inode_ref(object), .flags = O_RDWR | (plan.losses && !pick(3) ? O_DSYNC : 0) };
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
	o->durable = file->flags & O_DSYNC;
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

void do_write(struct worker *w)
{
	write_block(w, false);
}

void do_append(struct worker *w)
{
	write_block(w, true);
}

static bool is_open(const struct worker *w, const struct file *file)
{
	for (unsigned i = 0; i < FILES_KEPT; i++)
		if (w->file[i] == file)
			return true;
	return false;
}

/* From one file to another: of one and the same the ranges might overlap. (To open the second may have closed the first, and no kernel copies from what is closed: cluster/afr
 * leaves the other one open at a member then, for which who leaves would be waited for. Elsewhere seeds stay what they were.) */
void do_copy(struct worker *w)
{
	cleanup_file struct file *from = some_file(w), *to = some_file(w);
	struct copy_range_in in = { .from = from, .to = to };
	struct copy_range_out out = { 0 };
	struct operation *o;
	int err;

	if (!from || !to || from->inode == to->inode || (plan_leaves() && !is_open(w, from)))
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

void do_allocate(struct worker *w)
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

int read_file(struct worker *w, struct file *file)
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

void do_read(struct worker *w)
{
	cleanup_file struct file *file = some_file(w);

	if (file)
		read_file(w, file);
}

void do_fsync(struct worker *w)
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

void do_truncate(struct worker *w)
{
	unsigned blocks = (unsigned)pick(SIZE_MAX_BLOCKS);

	change_attributes(w, OP_TRUNCATE, &(struct setattr){ .valid = SET_SIZE, .size = blocks * BLOCK }, blocks);
}

void do_chmod(struct worker *w)
{
	change_attributes(w, OP_CHMOD, &(struct setattr){ .valid = SET_MODE, .mode = 0600 + (uint32_t)pick(64) }, 0);
}

int stat_object(struct worker *w, struct inode *object)
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

void do_stat(struct worker *w)
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

int get_xattr(struct worker *w, struct inode *object, unsigned name)
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

void do_xattr(struct worker *w)
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
