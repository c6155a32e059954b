/* SPDX-License-Identifier: Apache-2.0 */
/* Open files: open, read, write, close and what else is done to an open file. */
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "fuse-internal.h"

static struct handle *handle_of(uint64_t fh)
{
	return (struct handle *)(uintptr_t)fh;
}

/* It is closed; or the kernel did not take the answer to an open, and will never send the release. */
static void let_go(struct ask *a, struct handle *h)
{
	if (S_ISDIR(h->file->inode->type))
		names_learn(a, h->file->inode, &h->listing);
	cleanup_file struct file *gone = keep_put(a, h);
	struct release_in in = { .file = gone };
	struct release_out out = { 0 };
	handle_destroy(a->mount, h);
	if (gone)
		release_on(&a->rq, ask_child(a), &in, &out);
}

/* Takes over the reference. It was opened at the moment `since`; 0: it is not to be kept when it is closed. */
static int reply_open(struct ask *a, struct file *file, uint32_t open_flags, uint64_t since)
{
	const struct fuse_open_in *arg = (const void *)a->arg;
	struct handle *h = handle_create(a->mount, file);
	if (!h)
		return -ENOMEM;
	h->since = since;
	h->flags = arg->flags;
	h->uid = a->rq.uid;
	h->gid = a->rq.gid;
	struct fuse_open_out out = { .fh = (uintptr_t)h, .open_flags = open_flags };
	if (a->head.opcode == FUSE_OPEN && ask_options(a)->attribute_timeout_ms == 0 && !believe_told(a, file->inode))
		notify_attributes(a->device, a->head.nodeid); /* see entry_keep_for_now */
	if (reply(a, &out, sizeof(out)) != 0)
		let_go(a, h);
	return 0;
}

int serve_open(struct ask *a)
{
	const struct fuse_open_in *arg = (const void *)a->arg;
	struct open_in in = { .inode = node(a->mount, a->head.nodeid), .flags = arg->flags };
	struct open_out out = { 0 };
	uint64_t since = 0;
	struct file *kept = keep_take(a, in.inode, in.flags, &since);
	if (kept)
		return reply_open(a, kept, a->mount->open_flags, since);
	if (keep_worth(in.inode, in.flags))
		since = ask_moment(a);
	known_recast_begins(a->mount, in.flags & O_TRUNC);
	int err = open_on(&a->rq, ask_child(a), &in, &out);
	known_recast_ends(a->mount, in.flags & O_TRUNC);
	return err ? err : reply_open(a, out.file, a->mount->open_flags, since);
}

int serve_opendir(struct ask *a)
{
	struct opendir_in in = { .inode = node(a->mount, a->head.nodeid) };
	struct opendir_out out = { 0 };
	int err = opendir_on(&a->rq, ask_child(a), &in, &out);
	return err ? err : reply_open(a, out.file, 0, 0);
}

/* What was there already others may change at any time; and what a CREATE tells of it the kernel takes for new, whatever it was told since. */
static int reply_create(struct ask *a, const struct create_in *in, struct create_out *made, uint64_t since)
{
	bool is_new = gfid_equal(&made->inode->gfid, &in->gfid);
	struct {
		struct fuse_entry_out entry;
		struct fuse_open_out open;
	} out;
	struct handle *h = handle_create(a->mount, made->file);
	made->file = NULL;
	if (!h)
		return -ENOMEM;
	entry_fill(a, &out.entry, made->inode, &made->attr);
	believe_entry(a, &out.entry, &in->loc, made->inode, is_new ? &made->attr : NULL, since);
	if (is_new && since)
		believe_made(a, &in->loc, made->inode, &made->attr, a->rq.moment);
	out.open = (struct fuse_open_out){ .fh = (uintptr_t)h, .open_flags = a->mount->open_flags };
	node_remember(a->mount, made->inode);
	if (reply(a, &out, sizeof(out)) != 0) {
		node_forget(a->mount, made->inode, 1);
		let_go(a, h);
	}
	return 0;
}

int serve_create(struct ask *a)
{
	const struct fuse_create_in *arg = (const void *)a->arg;
	struct create_in in = {
		.loc = { .parent = node(a->mount, a->head.nodeid), .name = a->arg + sizeof(*arg) },
		.flags = arg->flags,
		.mode = arg->mode,
		.umask = arg->umask,
	};
	struct create_out out = { 0 };
	uint64_t since = ask_moment(a);
	int err = name_check(in.loc.name);
	gfid_create(&in.gfid);
	known_recast_begins(a->mount, in.flags & O_TRUNC); /* of what is there already */
	name_begins(a, in.loc.parent, in.loc.name);
	if (!err)
		err = create_on(&a->rq, ask_child(a), &in, &out);
	name_ends(a, in.loc.parent);
	known_recast_ends(a->mount, in.flags & O_TRUNC);
	if (!err)
		err = reply_create(a, &in, &out, since);
	fop_out_clear(FOP_create, &out);
	return err;
}

int serve_read(struct ask *a)
{
	const struct fuse_read_in *arg = (const void *)a->arg;
	struct read_in in = { .file = handle_of(arg->fh)->file, .offset = arg->offset, .size = arg->size };
	struct read_out out = { 0 };
	a->rq.lock_owner = arg->read_flags & FUSE_READ_LOCKOWNER ? arg->lock_owner : 0;
	if (believe_end(a, in.file->inode, in.offset)) {
		reply(a, NULL, 0);
		return 0;
	}
	out.data = known_read(a, in.file->inode, in.offset, in.size);
	struct reading r = { 0 };
	if (!out.data)
		r = known_reading(a, in.file->inode, in.offset, in.size);
	int err = out.data ? 0 : read_on(&a->rq, ask_child(a), &in, &out);
	if (err)
		return err;
	size_t size;
	const void *bytes = buffer_bytes(out.data, &size);
	if (r.since)
		known_content(a, in.file->inode, &r, bytes, size);
	reply(a, bytes, size < arg->size ? size : arg->size);
	buffer_unref(out.data);
	return 0;
}

/* A page written back from the cache (FUSE_WRITE_CACHE) has its place; only write(2) itself appends. */
static uint32_t write_flags(const struct fuse_write_in *arg)
{
	uint32_t flags = arg->write_flags & FUSE_WRITE_KILL_SUIDGID ? WRITE_KILL_PRIV : 0;
	if ((arg->flags & O_APPEND) && !(arg->write_flags & FUSE_WRITE_CACHE))
		flags |= WRITE_APPEND;
	return flags;
}

/* RWF_DSYNC, RWF_SYNC and mounts with `sync` want one write durable; a file opened so is so at the brick by itself. */
static int sync_write(struct ask *a, struct file *file, uint32_t flags)
{
	uint32_t sync = flags & ~file->flags & O_SYNC; /* has the bit of O_DSYNC */
	struct fsync_in in = { .file = file, .datasync = !(sync & ~O_DSYNC) };
	struct fsync_out out = { 0 };
	return sync ? fsync_on(&a->rq, ask_child(a), &in, &out) : 0;
}

static int write_part(struct ask *a, const struct write_in *in, size_t from, size_t to, struct write_out *out)
{
	struct buffer *data = buffer_slice(in->data, from, to - from);
	struct write_in part = { .file = in->file, .offset = in->offset + from, .flags = in->flags, .data = data };
	int err = data ? write_on(&a->rq, ask_child(a), &part, out) : -ENOMEM;
	buffer_unref(data);
	return err;
}

/* Linux looks only for the error of a page that it writes back, never at how much of it was written: so the rest is written here, or it is an error. */
static int write_rest(struct ask *a, const struct write_in *in, struct write_out *out)
{
	while (out->written < in->data->size) {
		struct write_out more = { 0 };
		int err = write_part(a, in, out->written, in->data->size, &more);
		if (err || !more.written)
			return err ? err : -EIO;
		out->written += more.written;
	}
	return 0;
}

enum { QUOTA_UNIT = 4096, FITTING_NS = 1000000000 }; /* after so long it tries no more */

/* Where to cut what has not been written, in the middle between the ends of such units in the file; 0: there is none. */
static size_t cut(const struct write_in *in, size_t written, size_t refused)
{
	uint64_t first = (in->offset + written) / QUOTA_UNIT + 1, last = (in->offset + refused - 1) / QUOTA_UNIT;
	return first <= last ? (first + (last - first) / 2) * QUOTA_UNIT - in->offset : 0;
}

/* A quota refuses a write as a whole, at which disk file systems would write what fits, and refuse the next one. So less is tried, as long as it fits more. Not of an append: if
 * all of it is done after all (a brick's own quota is no clear answer), the part would stand behind it. */
static int write_what_fits(struct ask *a, const struct write_in *in, struct write_out *out)
{
	size_t written = 0, refused = in->data->size, end;
	uint64_t until = clock_ns() + FITTING_NS;
	int err = -EDQUOT;
	bool more = refused > 0;
	while (more && (end = cut(in, written, refused)) && clock_ns() < until) {
		struct write_out part = { 0 };
		err = write_part(a, in, written, end, &part);
		if (!written)
			*out = part;
		if (err)
			refused = end;
		else
			written += part.written;
		more = err ? err == -EDQUOT : written == end;
	}
	out->written = (uint32_t)written;
	return written ? 0 : err;
}

int serve_write(struct ask *a)
{
	const struct fuse_write_in *arg = (const void *)a->arg;
	struct write_in in = {
		.file = handle_of(arg->fh)->file, .offset = arg->offset, .flags = write_flags(arg), .data = a->data
	};
	struct write_out out = { 0 };
	if (a->data->size != arg->size)
		return -EINVAL;
	a->rq.lock_owner = arg->write_flags & FUSE_WRITE_LOCKOWNER ? arg->lock_owner : 0;
	struct known before = known_write_begins(a, &in);
	int err = write_on(&a->rq, ask_child(a), &in, &out);
	if (!err && arg->write_flags & FUSE_WRITE_CACHE)
		err = write_rest(a, &in, &out);
	else if (err == -EDQUOT && !(arg->write_flags & FUSE_WRITE_CACHE) && !(in.flags & WRITE_APPEND))
		err = write_what_fits(a, &in, &out);
	known_written(a, &before, &in, err ? 0 : out.written);
	if (!err)
		err = sync_write(a, in.file, arg->flags);
	if (err)
		return err;
	struct fuse_write_out answer = { .size = out.written };
	reply(a, &answer, sizeof(answer));
	return 0;
}

/* Answered at once if nobody ever locked the file through this mount: then there is nothing to drop. */
int serve_flush(struct ask *a)
{
	const struct fuse_flush_in *arg = (const void *)a->arg;
	struct flush_in in = { .file = handle_of(arg->fh)->file, .owner = arg->lock_owner };
	struct flush_out out = { 0 };
	a->rq.lock_owner = arg->lock_owner;
	if (!atomic_load(&node_state(a->mount, in.file->inode)->locked))
		return reply_done(a, 0);
	return reply_done(a, flush_on(&a->rq, ask_child(a), &in, &out));
}

/* The kernel does not wait for it: close(2) has returned already. */
int serve_release(struct ask *a)
{
	const struct fuse_release_in *arg = (const void *)a->arg;
	struct handle *h = handle_of(arg->fh);
	reply(a, NULL, 0);
	if (arg->release_flags & FUSE_RELEASE_FLOCK_UNLOCK)
		flock_drop(a, h->file, arg->lock_owner);
	let_go(a, h);
	return 0;
}

int serve_fsync(struct ask *a)
{
	const struct fuse_fsync_in *arg = (const void *)a->arg;
	struct fsync_in in = { .file = handle_of(arg->fh)->file, .datasync = arg->fsync_flags & FUSE_FSYNC_FDATASYNC };
	struct fsync_out out = { 0 };
	return reply_done(a, fsync_on(&a->rq, ask_child(a), &in, &out));
}

int serve_fallocate(struct ask *a)
{
	const struct fuse_fallocate_in *arg = (const void *)a->arg;
	struct fallocate_in in = {
		.file = handle_of(arg->fh)->file, .mode = arg->mode, .offset = arg->offset, .length = arg->length
	};
	struct fallocate_out out = { 0 };
	known_recast_begins(a->mount, true);
	int err = fallocate_on(&a->rq, ask_child(a), &in, &out);
	known_recast_ends(a->mount, true);
	return reply_done(a, err);
}

int serve_lseek(struct ask *a)
{
	const struct fuse_lseek_in *arg = (const void *)a->arg;
	struct seek_in in = { .file = handle_of(arg->fh)->file, .offset = arg->offset, .whence = arg->whence };
	struct seek_out out = { 0 };
	int err = seek_on(&a->rq, ask_child(a), &in, &out);
	if (err)
		return err;
	struct fuse_lseek_out answer = { .offset = out.offset };
	reply(a, &answer, sizeof(answer));
	return 0;
}

int serve_copy_file_range(struct ask *a)
{
	const struct fuse_copy_file_range_in *arg = (const void *)a->arg;
	struct copy_range_in in = {
		.from = handle_of(arg->fh_in)->file,
		.from_offset = arg->off_in,
		.to = handle_of(arg->fh_out)->file,
		.to_offset = arg->off_out,
		.length = arg->len < INT_MAX ? arg->len : INT_MAX, /* the answer has 32 bits */
	};
	struct copy_range_out out = { 0 };
	known_recast_begins(a->mount, true);
	int err = copy_range_on(&a->rq, ask_child(a), &in, &out);
	known_recast_ends(a->mount, true);
	if (err)
		return err;
	struct fuse_write_out answer = { .size = out.copied };
	reply(a, &answer, sizeof(answer));
	return 0;
}
