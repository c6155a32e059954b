/* SPDX-License-Identifier: Apache-2.0 */
/* debug/memory: open files and their data. */
#include <fcntl.h>
#include <linux/falloc.h>

#include "memory.h"

int memory_resize(struct request *rq, struct memory *p, struct object *o, uint64_t size)
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
	memory_touch(rq, o);
	return 0;
}

static int open_object(struct request *rq, struct xlator *x, struct inode *inode, struct object *o, uint32_t flags,
		       struct file **file)
{
	int err = 0;

	if (S_ISDIR(o->attr.mode) && (flags & O_ACCMODE) != O_RDONLY)
		return -EISDIR;
	if (flags & O_TRUNC && S_ISREG(o->attr.mode))
		err = memory_resize(rq, x->private, o, 0);
	if (err)
		return err;
	*file = file_create(inode, flags);
	return *file ? 0 : -ENOMEM;
}

static int create_object(struct request *rq, struct xlator *x, const struct create_in *in, struct create_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *o;
	int err = memory_make(rq, x, &in->loc, &in->gfid, S_IFREG | (in->mode & ~in->umask & 07777), &o);
	bool exists = err == -EEXIST && o && !(in->flags & O_EXCL);

	(void)p;
	if (err && !exists)
		return err;
	err = memory_give(x, o, &out->inode, &out->attr);
	if (!err)
		err = open_object(rq, x, out->inode, o, exists ? in->flags : in->flags & ~O_TRUNC, &out->file);
	out->attr = o->attr;
	return err;
}

int memory_create(struct request *rq, struct xlator *x, const struct create_in *in, struct create_out *out)
{
	int err = create_object(rq, x, in, out);

	if (err)
		fop_out_clear(FOP_create, out);
	return err;
}

int memory_open(struct request *rq, struct xlator *x, const struct open_in *in, struct open_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *o = memory_object_of(x, in->inode);

	(void)p;
	return o ? open_object(rq, x, in->inode, o, in->flags, &out->file) : -ESTALE;
}

int memory_opendir(struct request *rq, struct xlator *x, const struct opendir_in *in, struct opendir_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *o = memory_object_of(x, in->inode);

	(void)p;
	if (!o || !S_ISDIR(o->attr.mode))
		return o ? -ENOTDIR : -ESTALE;
	return open_object(rq, x, in->inode, o, O_RDONLY | O_DIRECTORY, &out->file);
}

int memory_read(struct request *rq, struct xlator *x, const struct read_in *in, struct read_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *o = memory_object_of(x, in->file->inode);
	uint64_t size;

	(void)rq;
	(void)p;
	if (!o || !S_ISREG(o->attr.mode))
		return o ? -EISDIR : -ESTALE;
	size = in->offset < o->attr.size ? o->attr.size - in->offset : 0;
	out->data = buffer_from(size ? o->data + in->offset : NULL, size < in->size ? size : in->size);
	return out->data ? 0 : -ENOMEM;
}

int memory_write(struct request *rq, struct xlator *x, const struct write_in *in, struct write_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *o = memory_object_of(x, in->file->inode);
	uint64_t offset;
	size_t size;
	const char *bytes = buffer_bytes(in->data, &size);
	int err = 0;

	if (!o)
		return -ESTALE;
	offset = in->flags & WRITE_APPEND ? o->attr.size : in->offset;
	if (offset > INT64_MAX - size)
		return -EFBIG;
	if (size && offset + size > o->attr.size)
		err = memory_resize(rq, p, o, offset + size);
	if (err)
		return err;
	if (size)
		memcpy(o->data + offset, bytes, size);
	if (in->flags & WRITE_KILL_PRIV)
		o->attr.mode &= ~(S_ISUID | S_ISGID);
	memory_touch(rq, o);
	out->written = size;
	out->offset = offset;
	return 0;
}

int memory_fallocate(struct request *rq, struct xlator *x, const struct fallocate_in *in, struct fallocate_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *o = memory_object_of(x, in->file->inode);
	uint64_t end;

	(void)out;
	if (!o)
		return -ESTALE;
	if (in->offset > INT64_MAX || in->length > INT64_MAX - in->offset)
		return -EFBIG;
	end = in->offset + in->length;
	if (in->mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE) && in->offset < o->attr.size)
		memset(o->data + in->offset, 0, (end < o->attr.size ? end : o->attr.size) - in->offset);
	memory_touch(rq, o);
	return in->mode & FALLOC_FL_KEEP_SIZE || end <= o->attr.size ? 0 : memory_resize(rq, p, o, end);
}

/* All of a file is data, with the hole that every file has at its end. */
int memory_seek(struct request *rq, struct xlator *x, const struct seek_in *in, struct seek_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *o = memory_object_of(x, in->file->inode);

	(void)rq;
	(void)p;
	if (!o || in->offset >= o->attr.size)
		return o ? -ENXIO : -ESTALE;
	out->offset = in->whence == SEEK_HOLE ? o->attr.size : in->offset;
	return 0;
}

int memory_copy_range(struct request *rq, struct xlator *x, const struct copy_range_in *in, struct copy_range_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *from = memory_object_of(x, in->from->inode), *to = memory_object_of(x, in->to->inode);
	uint64_t length = in->length;
	int err = 0;

	if (!from || !to || in->to_offset > INT64_MAX / 2)
		return from && to ? -EFBIG : -ESTALE;
	if (in->from_offset >= from->attr.size)
		return 0;
	if (length > from->attr.size - in->from_offset)
		length = from->attr.size - in->from_offset;
	if (in->to_offset + length > to->attr.size)
		err = memory_resize(rq, p, to, in->to_offset + length);
	if (err)
		return err;
	memmove(to->data + in->to_offset, from->data + in->from_offset, length);
	memory_touch(rq, to);
	out->copied = length;
	return 0;
}
