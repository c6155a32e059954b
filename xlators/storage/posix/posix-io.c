/* SPDX-License-Identifier: Apache-2.0 */
/* Open files: open, read, write, fsync, seek, fallocate, copy_range. */
#include <linux/falloc.h>
#include <sys/uio.h>

#include "posix.h"

enum { READ_MOST = 64 << 20, LONG_FALLOCATE = 64 << 20, COPY_MOST = 64 << 20, SECTOR = 512 };

/* Linux caches what one call writes in one folio, if it can, and ext4 (Linux 6.16 and later) looks at each block of the folio at each later write to it: 4 KiB
 * in a folio of 1 MiB cost 5.6 us, in one of 256 KiB 2.9. So much is written with one call where nobody else can come between two. */
enum { WRITE_PIECE = 256 << 10, WRITE_EDGE = 4096 };

/* ---- state of an open file ---- */

struct opened *opened_of(const struct xlator *x, struct file *file)
{
	return file ? file_slot(file, x) : NULL;
}

int opened_check(const struct xlator *x, struct file *file)
{
	struct opened *o = opened_of(x, file);
	struct object *object = o ? object_of(x, file->inode) : NULL;

	if (!o)
		return -EBADF;
	return object && atomic_load(&object->ino) != o->ino ? -ESTALE : 0;
}

static void opened_free(struct opened *o)
{
	int buffered = atomic_load(&o->buffered);

	descriptor_unref(o->descriptor);
	fd_close(&buffered);
	pthread_mutex_destroy(&o->lock);
	free(o->entries);
	free(o);
}

void opened_forget(struct xlator *x, struct file *file, void *slot)
{
	struct opened *o = slot;
	struct object *object = object_of(x, file->inode);

	if (object && !o->directory)
		object_closed(object);
	atomic_fetch_sub(o->directory ? &brick_of(x)->open_directories : &brick_of(x)->open_files, 1);
	opened_free(o);
}

static struct opened *opened_new(const struct inode *inode, uint32_t flags, int fd)
{
	struct descriptor *d = descriptor_create(fd);
	struct opened *o = d ? calloc(1, sizeof *o) : NULL;
	struct stat st;

	if (!o || fstat(fd, &st) < 0) {
		free(o);
		descriptor_unref(d);
		return NULL;
	}
	o->descriptor = d;
	o->ino = st.st_ino;
	atomic_init(&o->buffered, -1);
	pthread_mutex_init(&o->lock, NULL);
	o->directory = S_ISDIR(inode->type);
	o->direct = !o->directory && fcntl(fd, F_GETFL) & O_DIRECT;
	o->writable = !o->directory && (flags & O_ACCMODE) != O_RDONLY;
	o->readable = !o->directory && (flags & O_ACCMODE) != O_WRONLY;
	return o;
}

int opened_create(struct xlator *x, struct inode *inode, uint32_t flags, int fd, struct file **out)
{
	struct opened *o = opened_new(inode, flags, fd);
	struct file *file = o ? file_create(inode, flags) : NULL;

	if (!file || file_slot_set(file, x, o) < 0) {
		if (o)
			opened_free(o);
		if (file)
			file_unref(file);
		return -ENOMEM;
	}
	atomic_fetch_add(o->directory ? &brick_of(x)->open_directories : &brick_of(x)->open_files, 1);
	atomic_fetch_add_explicit(&brick_of(x)->opens, 1, memory_order_relaxed);
	if (!o->directory)
		object_opened(object_of(x, inode), o->descriptor);
	*out = file;
	return 0;
}

int open_flags(const struct brick *b, uint32_t flags)
{
	int direct = __atomic_load_n(&b->direct_io, __ATOMIC_RELAXED) ? O_DIRECT : 0;

	return (int)flags & (O_ACCMODE | O_SYNC | O_DSYNC | direct);
}

int open_truncate(struct request *rq, struct xlator *x, struct inode *inode)
{
	cleanup_hold struct hold h = HOLD_NONE;
	struct hold_path path;
	int err = hold_inode(x, inode, &h);

	if (!err && !request_is_root(rq))
		err = privileges_drop(x, inode, &h);
	if (!err)
		err = result(truncate(hold_path(&h, &path), 0));
	return err ? err : time_bring(rq, x, inode, &h);
}

int brick_open(struct request *rq, struct xlator *x, const struct open_in *in, struct open_out *out)
{
	cleanup_passage struct passage passage = { NULL, NULL };
	int fd, err = in->flags & O_TRUNC ? passage_enter(&passage, rq, x, in->inode, NULL) : 0;

	if (err || !in->inode)
		return err ? err : -EINVAL;
	if (!S_ISREG(in->inode->type))
		return S_ISDIR(in->inode->type) ? -EISDIR : S_ISLNK(in->inode->type) ? -ELOOP : -EINVAL;
	if ((in->flags & O_ACCMODE) == O_ACCMODE)
		return -EINVAL;
	fd = object_reopen(x, in->inode, open_flags(brick_of(x), in->flags));
	if (fd == -EINVAL && in->flags & O_DIRECT)
		fd = object_reopen(x, in->inode, open_flags(brick_of(x), in->flags) & ~O_DIRECT);
	if (fd < 0)
		return fd;
	if (in->flags & O_TRUNC)
		err = open_truncate(rq, x, in->inode);
	if (err)
		fd_close(&fd);
	return err ? err : opened_create(x, in->inode, in->flags, fd, &out->file);
}

int brick_flush(struct request *rq, struct xlator *x, const struct flush_in *in, struct flush_out *out)
{
	(void)rq;
	(void)out;
	return opened_of(x, in->file) ? 0 : -EBADF;
}

/* The file's last reference closes it (opened_forget): until then other requests may be at it. */
int brick_release(struct request *rq, struct xlator *x, const struct release_in *in, struct release_out *out)
{
	(void)rq;
	(void)out;
	return opened_of(x, in->file) ? 0 : -EBADF;
}

/* ---- data ---- */

/* The descriptor for what O_DIRECT refuses: not aligned, or the odd end of the file. Made when first needed. */
static int buffered_of(struct opened *o)
{
	int fd = atomic_load(&o->buffered), none = -1;
	struct hold h = { .fd = o->descriptor->fd, .lent = true };
	struct hold_path path;

	if (fd >= 0)
		return fd;
	fd = open(hold_path(&h, &path), (fcntl(h.fd, F_GETFL) & (O_ACCMODE | O_SYNC | O_DSYNC)) | O_CLOEXEC);
	if (fd < 0)
		return result(fd);
	if (atomic_compare_exchange_strong(&o->buffered, &none, fd))
		return fd;
	close(fd); /* another request was faster */
	return none;
}

static ssize_t read_some(struct opened *o, char *to, size_t size, off_t offset)
{
	ssize_t n = pread(o->descriptor->fd, to, size, offset);
	int fd;

	if (n >= 0 || errno_now() != EINVAL || !o->direct)
		return n < 0 ? result(n) : n;
	fd = buffered_of(o);
	if (fd < 0)
		return fd;
	n = pread(fd, to, size, offset);
	return n < 0 ? result(n) : n;
}

int brick_read(struct request *rq, struct xlator *x, const struct read_in *in, struct read_out *out)
{
	struct opened *o = opened_of(x, in->file);
	cleanup_buffer struct buffer *data = NULL;
	int err = opened_check(x, in->file);
	size_t done = 0;

	(void)rq;
	if (err || !o->readable)
		return !err && o->directory ? -EISDIR : err ? err : -EBADF;
	if (in->offset > INT64_MAX || in->size > READ_MOST)
		return -EINVAL;
	data = buffer_create(in->size);
	if (!data)
		return -ENOMEM;
	while (done < in->size) {
		ssize_t n = read_some(o, data->data + done, in->size - done, (off_t)(in->offset + done));

		if (n < 0) /* also after a part: what is shorter would say that the file ends there */
			return (int)n;
		if (!n)
			break;
		done += (size_t)n;
		if (o->direct && n % SECTOR)
			break; /* direct reads end within a sector at the end of the file only */
	}
	data->size = done;
	out->data = data;
	data = NULL;
	return 0;
}

static ssize_t write_some(struct opened *o, const char *from, size_t size, off_t offset)
{
	ssize_t n = pwrite(o->descriptor->fd, from, size, offset);
	int fd;

	if (n >= 0 || errno_now() != EINVAL || !o->direct)
		return n < 0 ? result(n) : n;
	fd = buffered_of(o);
	if (fd < 0)
		return fd;
	n = pwrite(fd, from, size, offset);
	return n < 0 ? result(n) : n;
}

/* A member of a set gets changes whose order matters one after the other (they bring their time). Elsewhere two programs may write the same bytes at once, and what is
 * there then is to be what one of them wrote. With O_DSYNC each call waits for the disk, so it is one. No page is in two pieces: what is not cached would be read for that. */
static size_t piece_of(const struct request *rq, const struct opened *o, const struct write_in *in, size_t done, size_t end)
{
	size_t most = WRITE_PIECE - (in->offset + done) % WRITE_EDGE;

	return rq->time_ns && !o->direct && !(in->file->flags & O_DSYNC) && end - done > most ? most : end - done;
}

/* From *done to `end`, as far as it goes: 0 or -errno. */
static int write_to(struct request *rq, struct brick *b, struct opened *o, const struct write_in *in, size_t end, size_t *done)
{
	unsigned tries = 0;

	while (*done < end) {
		size_t piece = piece_of(rq, o, in, *done, end);
		ssize_t n = write_some(o, in->data->data + *done, piece, (off_t)(in->offset + *done));

		if (n == -ENOSPC && close_now(b, &tries))
			continue;
		if (n <= 0)
			return (int)n;
		*done += (size_t)n;
	}
	return 0;
}

/* Of a write behind which the file has more pages than before, what belongs to the page in which it ends so far. */
static int write_tail(struct request *rq, struct xlator *x, const struct write_in *in, size_t *done)
{
	struct file *file = in->file;
	struct opened *o = opened_of(x, file);
	struct hold h = { .fd = o->descriptor->fd, .lent = true };
	size_t size = in->data->size;
	uint64_t edge;
	int err = tail_goes_first(x, file->inode, &h, in->offset + size, &edge);

	if (err <= 0)
		return err;
	size = edge > in->offset ? edge - in->offset : 0;
	err = write_to(rq, brick_of(x), o, in, size, done);
	return err ? err : *done < size ? -ENOSPC : tail_first(x, file->inode, h.fd, edge);
}

static int write_at(struct request *rq, struct xlator *x, const struct write_in *in, struct write_out *out)
{
	const struct buffer *data = in->data;
	size_t done = 0;
	int err;

	if (in->offset > INT64_MAX || data->size > INT64_MAX - in->offset)
		return -EFBIG;
	err = write_tail(rq, x, in, &done);
	if (!err)
		err = write_to(rq, brick_of(x), opened_of(x, in->file), in, data->size, &done);
	if (in->file->flags & O_DSYNC)
		tail_synced(x, in->file->inode);
	out->written = (uint32_t)done;
	out->offset = in->offset;
	return done ? 0 : err;
}

/* The kernel chooses the place under its own lock and leaves the descriptor's offset behind the data (pwritev2 with
 * offset -1): so the answer is right whatever else writes to the file. */
static ssize_t append_some(int fd, const struct buffer *data, off_t *end)
{
	struct iovec v = { data->data, data->size };
	ssize_t n = pwritev2(fd, &v, 1, -1, RWF_APPEND);

	if (n < 0)
		return result(n);
	*end = lseek(fd, 0, SEEK_CUR);
	return *end < 0 ? result(*end) : n;
}

static ssize_t append_once(struct opened *o, const struct buffer *data, off_t *end)
{
	ssize_t n;

	pthread_mutex_lock(&o->lock);
	n = append_some(o->descriptor->fd, data, end);
	if (n == -EINVAL && o->direct) {
		int fd = buffered_of(o);

		n = fd < 0 ? fd : append_some(fd, data, end);
	}
	pthread_mutex_unlock(&o->lock);
	return n;
}

static int append(struct brick *b, struct opened *o, const struct buffer *data, struct write_out *out)
{
	unsigned tries = 0;
	off_t end = 0;
	ssize_t n;

	do
		n = append_once(o, data, &end);
	while (n == -ENOSPC && close_now(b, &tries));
	if (n < 0)
		return (int)n;
	out->written = (uint32_t)n; /* short only when the disk is full: the rest might land elsewhere */
	out->offset = (uint64_t)(end - n);
	return 0;
}

/* What comes before each change of a file's data. */
static int change_begin(struct request *rq, struct xlator *x, struct file *file, bool kill, uint64_t bytes)
{
	struct opened *o = opened_of(x, file);
	struct hold h = HOLD_NONE;
	int err = opened_check(x, file);

	if (err || !o->writable)
		return err ? err : -EBADF;
	err = bytes ? brick_room(brick_of(x), rq, bytes) : 0;
	if (err || !(kill || !request_is_root(rq)))
		return err;
	h = (struct hold){ .fd = o->descriptor->fd, .lent = true };
	return privileges_drop(x, file->inode, &h);
}

int brick_write(struct request *rq, struct xlator *x, const struct write_in *in, struct write_out *out)
{
	const struct buffer *data = in->data;
	struct opened *o = opened_of(x, in->file);
	size_t size = data ? data->size : 0;
	cleanup_passage struct passage passage = { NULL, NULL };
	int err = passage_enter(&passage, rq, x, in->file ? in->file->inode : NULL, NULL);

	if (!err)
		err = opened_check(x, in->file);
	if (!err && !o->writable)
		err = -EBADF;
	if (!err && size > UINT32_MAX)
		err = -EINVAL;
	if (err || (!size && !rq->time_ns)) /* with a time it is a write elsewhere, whose data an arbiter does not get */
		return err;
	err = change_begin(rq, x, in->file, in->flags & WRITE_KILL_PRIV, size);
	if (!err && size)
		err = in->flags & WRITE_APPEND ? append(brick_of(x), o, data, out) : write_at(rq, x, in, out);
	return err ? err : time_bring_file(rq, x, in->file);
}

int brick_fsync(struct request *rq, struct xlator *x, const struct fsync_in *in, struct fsync_out *out)
{
	struct opened *o = opened_of(x, in->file);
	int err = opened_check(x, in->file);

	(void)rq;
	(void)out;
	if (err)
		return err;
	if (!o->directory)
		tail_synced(x, in->file->inode);
	task_blocks();
	return result(in->datasync ? fdatasync(o->descriptor->fd) : fsync(o->descriptor->fd));
}

int brick_seek(struct request *rq, struct xlator *x, const struct seek_in *in, struct seek_out *out)
{
	struct opened *o = opened_of(x, in->file);
	off_t at;
	int err = opened_check(x, in->file);

	(void)rq;
	if (err || o->directory)
		return err ? err : -EBADF;
	if (in->whence != SEEK_DATA && in->whence != SEEK_HOLE)
		return -EINVAL;
	if (in->offset > INT64_MAX)
		return -ENXIO;
	pthread_mutex_lock(&o->lock);
	at = lseek(o->descriptor->fd, (off_t)in->offset, (int)in->whence);
	err = result(at);
	pthread_mutex_unlock(&o->lock);
	if (!err)
		out->offset = (uint64_t)at;
	return err;
}

int brick_fallocate(struct request *rq, struct xlator *x, const struct fallocate_in *in, struct fallocate_out *out)
{
	static const uint32_t known = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
	cleanup_passage struct passage passage = { NULL, NULL };
	uint64_t taken = in->mode & FALLOC_FL_PUNCH_HOLE ? 0 : in->length;
	unsigned tries = 0;
	int err = passage_enter(&passage, rq, x, in->file ? in->file->inode : NULL, NULL);

	(void)out;
	if (!err && in->mode & ~known)
		err = -EOPNOTSUPP;
	if (!err && (in->offset > INT64_MAX || in->length > INT64_MAX))
		err = -EFBIG;
	if (!err)
		err = change_begin(rq, x, in->file, false, taken);
	if (err)
		return err;
	if (in->length >= LONG_FALLOCATE)
		task_blocks();
	do
		err = result(
			fallocate(opened_of(x, in->file)->descriptor->fd, (int)in->mode, (off_t)in->offset, (off_t)in->length));
	while (err == -ENOSPC && close_now(brick_of(x), &tries));
	return err ? err : time_bring_file(rq, x, in->file);
}

/* A part is a valid answer: at most COPY_MOST at once, for nothing ends a request in its middle when its session ends, or the server is to stop. */
static int copy_steps(struct request *rq, struct brick *b, int from, int to, const struct copy_range_in *in,
		      struct copy_range_out *out)
{
	off_t source = (off_t)in->from_offset, target = (off_t)in->to_offset;
	const uint64_t most = in->length < COPY_MOST ? in->length : COPY_MOST;
	uint64_t left = most;
	unsigned tries = 0;
	ssize_t n = 0;

	task_blocks();
	while (left) {
		n = copy_file_range(from, &source, to, &target, left, 0);
		if (n < 0 && errno_now() == ENOSPC && close_now(b, &tries))
			continue;
		if (n <= 0)
			break;
		left -= (uint64_t)n;
		if (rq->deadline_ns && clock_ns() > rq->deadline_ns)
			break;
	}
	out->copied = most - left;
	return n < 0 && !out->copied ? result(n) : 0;
}

int brick_copy_range(struct request *rq, struct xlator *x, const struct copy_range_in *in, struct copy_range_out *out)
{
	struct opened *from = opened_of(x, in->from);
	cleanup_passage struct passage passage = { NULL, NULL };
	int err = passage_enter(&passage, rq, x, in->to ? in->to->inode : NULL, NULL);

	if (!err)
		err = opened_check(x, in->from);
	if (!err && !from->readable)
		err = -EBADF;
	if (!err && (in->from_offset > INT64_MAX || in->to_offset > INT64_MAX || in->length > INT64_MAX))
		err = -EINVAL;
	if (!err)
		err = change_begin(rq, x, in->to, false, in->length < COPY_MOST ? in->length : COPY_MOST);
	if (!err)
		err = copy_steps(rq, brick_of(x), from->descriptor->fd, opened_of(x, in->to)->descriptor->fd, in, out);
	return err ? err : time_bring_file(rq, x, in->to);
}
