/* SPDX-License-Identifier: Apache-2.0 */
/* sim/disk: open files and their data. */
#include <fcntl.h>
#include <linux/falloc.h>

#include "disk-xlator.h"

enum { PIECE = 64 }; /* of a write that no longer fits */

void disk_resize(struct sim_disk *p, struct disk_object *o, uint64_t size)
{
	disk_change(p->disk, &(struct disk_change){ .kind = CHANGE_SIZE, .gfid = o->attr.gfid, .size = size });
	disk_touch(p, o);
}

static int open_object(struct sim_disk *p, struct inode *inode, struct disk_object *o, uint32_t flags, struct file **file)
{
	uint32_t *seen;

	if (S_ISDIR(o->attr.mode) && (flags & O_ACCMODE) != O_RDONLY)
		return -EISDIR;
	if (flags & O_TRUNC && S_ISREG(o->attr.mode))
		disk_resize(p, o, 0);
	if (!inode_slot(inode, p->x))
		inode_slot_set(inode, p->x, p);
	*file = file_create(inode, flags);
	seen = malloc(sizeof(*seen));
	*seen = disk_errors_seen(&o->errors);
	file_slot_set(*file, p->x, seen);
	return 0;
}

void disk_forget_file(struct xlator *x, struct file *file, void *slot)
{
	(void)x, (void)file;
	free(slot);
}

int disk_do_create(struct sim_disk *p, const void *args, void *result)
{
	const struct create_in *in = args;
	struct create_out *out = result;
	struct disk_object *o;
	int err = disk_make(p, &in->loc, &in->gfid, S_IFREG | (in->mode & ~in->umask & 07777), NULL, &o);
	bool exists = err == -EEXIST && !(in->flags & O_EXCL) && o;

	if (err && !exists)
		return err;
	if (!S_ISREG(o->attr.mode))
		return S_ISDIR(o->attr.mode) ? -EISDIR : -EEXIST;
	err = disk_give(p, o, &out->inode, &out->attr);
	if (!err)
		err = open_object(p, out->inode, o, exists ? in->flags : in->flags & ~(uint32_t)O_TRUNC, &out->file);
	disk_attr_of(o, &out->attr);
	if (err)
		fop_out_clear(FOP_create, out);
	return err;
}

int disk_do_open(struct sim_disk *p, const void *args, void *result)
{
	const struct open_in *in = args;
	struct disk_object *o = disk_object_of(p, in->inode);

	return o ? open_object(p, in->inode, o, in->flags, &((struct open_out *)result)->file) : -ESTALE;
}

int disk_do_opendir(struct sim_disk *p, const void *args, void *result)
{
	const struct opendir_in *in = args;
	struct disk_object *o = disk_object_of(p, in->inode);

	if (!o || !S_ISDIR(o->attr.mode))
		return o ? -ENOTDIR : -ESTALE;
	return open_object(p, in->inode, o, O_RDONLY | O_DIRECTORY, &((struct opendir_out *)result)->file);
}

int disk_do_read(struct sim_disk *p, const void *args, void *result)
{
	const struct read_in *in = args;
	struct read_out *out = result;
	struct disk_object *o = disk_object_of(p, in->file->inode);
	uint64_t size;

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
	disk_touch(p, o);
}

int disk_do_write(struct sim_disk *p, const void *args, void *result)
{
	const struct write_in *in = args;
	struct write_out *out = result;
	struct disk_object *o = disk_object_of(p, in->file->inode);
	uint64_t offset;
	size_t size;
	const char *bytes = buffer_bytes(in->data, &size);

	if (!o)
		return -ESTALE;
	offset = in->flags & WRITE_APPEND ? o->attr.size : in->offset;
	if (offset > DISK_FILE_MAX - size)
		return -EFBIG;
	if (disk_faults(p->disk)->full && offset + size > o->attr.size) {
		size = offset < o->attr.size ? o->attr.size - offset : size / 2 / PIECE * PIECE; /* what still goes in */
		if (!size)
			return disk_has_no_room(p);
	}
	write_at(p, o, offset, bytes, size);
	out->written = (uint32_t)size;
	out->offset = offset;
	return in->file->flags & O_DSYNC ? disk_fsync(p->disk, &in->file->inode->gfid, file_slot(in->file, p->x)) : 0;
}

#define HUGE_FILE (1ull << 44) /* there is no room for it, but it might be */

int disk_do_fallocate(struct sim_disk *p, const void *args, void *result)
{
	const struct fallocate_in *in = args;
	struct disk_object *o = disk_object_of(p, in->file->inode);
	uint64_t end, till;
	char *zeros;

	(void)result;
	if (!o)
		return -ESTALE;
	if (in->offset > DISK_FILE_MAX || in->length > DISK_FILE_MAX)
		return in->offset > DISK_FILE_MAX || in->length > HUGE_FILE ? -EFBIG : -ENOSPC;
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
		disk_resize(p, o, end);
	disk_touch(p, o); /* as storage/posix does, whatever was there */
	return 0;
}

int disk_do_seek(struct sim_disk *p, const void *args, void *result)
{
	const struct seek_in *in = args;
	struct disk_object *o = disk_object_of(p, in->file->inode);

	if (!o || in->offset >= o->attr.size)
		return o ? -ENXIO : -ESTALE;
	((struct seek_out *)result)->offset = in->whence == SEEK_HOLE ? o->attr.size : in->offset;
	return 0;
}

int disk_do_copy_range(struct sim_disk *p, const void *args, void *result)
{
	const struct copy_range_in *in = args;
	struct disk_object *from = disk_object_of(p, in->from->inode), *to = disk_object_of(p, in->to->inode);
	uint64_t length = in->length;
	char *bytes;

	if (!from || !to || in->to_offset > DISK_FILE_MAX)
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

int disk_do_fsync(struct sim_disk *p, const void *args, void *result)
{
	const struct fsync_in *in = args;

	(void)result;
	return disk_fsync(p->disk, &in->file->inode->gfid, file_slot(in->file, p->x));
}
