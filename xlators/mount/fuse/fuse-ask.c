/* SPDX-License-Identifier: Apache-2.0 */
/* A request of the kernel becomes a task: the task asks the graph and replies by the descriptor that read the request. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fuse-internal.h"

/* A write of that size is not copied: the buffer that it was read into goes with it. */
enum { COPY_LIMIT = 16 * 1024, ERROR_LIMIT = 512 /* the kernel's: from here on its own signals */ };

/* Writing to the device never blocks; -ENOENT means that the kernel no longer waits for this answer. */
static int send_reply(struct device *d, uint64_t unique, int err, const void *bytes, size_t size)
{
	struct fuse_out_header head = { .len = sizeof(head) + size, .error = err, .unique = unique };
	struct iovec iov[2] = { { &head, sizeof(head) }, { (void *)(uintptr_t)bytes, size } };
	ssize_t n;
	ordered_before(d->mount);
	do
		n = writev(d->fd, iov, size ? 2 : 1);
	while (n < 0 && errno_now() == EINTR);
	if (n >= 0)
		return 0;
	int error = errno_now();
	if (error != ENOENT && !atomic_load(&d->mount->gone))
		log_warning(d->mount->device->top, NULL, "the kernel refused an answer of %zu bytes (status %d): %s", size, err,
			    strerror(error));
	return -error;
}

int reply(struct ask *a, const void *bytes, size_t size)
{
	a->replied = true;
	return send_reply(a->device, a->head.unique, 0, bytes, size);
}

int reply_done(struct ask *a, int err)
{
	if (err)
		return err;
	reply(a, NULL, 0);
	return 0;
}

void reply_error(struct device *d, uint64_t unique, int err)
{
	if (err == -ECANCELED)
		err = -EINTR;
	if (err == -ESTALE)
		atomic_fetch_add(&d->mount->stale, 1);
	send_reply(d, unique, err > -ERROR_LIMIT && err < 0 ? err : -EIO, NULL, 0);
}

void notify_attributes(struct device *d, uint64_t nodeid)
{
	struct {
		struct fuse_out_header head;
		struct fuse_notify_inval_inode_out body;
	} note = { { sizeof(note), FUSE_NOTIFY_INVAL_INODE, 0 }, { .ino = nodeid, .off = -1 } };
	if (write(d->fd, &note, sizeof(note)) < 0)
		log_debug(d->top, NULL, "the kernel refused a notification: %s", strerror(errno_now()));
}

void notify_names(struct device *d)
{
	struct fuse_out_header note = { sizeof(note), NOTIFY_INC_EPOCH, 0 };
	if (write(d->fd, &note, sizeof(note)) < 0)
		log_debug(d->top, NULL, "the kernel refused a notification: %s", strerror(errno_now()));
}

/* The caller is blocked in this very request, so its groups can't change while we read them. */
static int load_groups(struct request *rq, gid_t **groups)
{
	char path[64], *line = NULL;
	size_t room = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)rq->pid);
	FILE *status = rq->pid > 0 ? fopen(path, "re") : NULL;
	if (!status)
		return -EACCES; /* of a pid namespace that we can't see: nothing is granted on the ground of a guess */
	int count = -ENOENT;
	while (count < 0 && getline(&line, &room, status) > 0) {
		char *at = line + 7, *end;
		if (strncmp(line, "Groups:", 7) != 0)
			continue;
		*groups = malloc((strlen(at) / 2 + 1) * sizeof(gid_t)); /* a number and a blank each */
		count = *groups ? 0 : -ENOMEM;
		if (!*groups)
			break;
		for (gid_t gid; gid = strtoul(at, &end, 10), end != at; at = end)
			(*groups)[count++] = gid;
	}
	free(line);
	fclose(status);
	return count;
}

static void request_fill(struct ask *a)
{
	request_init(&a->rq, a->top->graph, 0);
	a->rq.uid = a->head.uid;
	a->rq.gid = a->head.gid;
	a->rq.pid = a->head.pid;
	a->rq.client = &a->mount->client;
	a->rq.group_count = -1;
	a->rq.load_groups = load_groups;
	uint64_t timeout_ms = ask_options(a)->request_timeout_ms;
	if (timeout_ms > 0 && !a->op->waits)
		a->rq.deadline_ns = clock_ns() + timeout_ms * 1000000;
}

static void serve(void *arg)
{
	struct ask *a = arg;
	struct mount *m = a->mount;
	int err;
	bool again;
	a->task = task_self();
	ask_enter(a);
	do {
		ask_acquire(a);
		request_fill(a);
		a->renames = atomic_load(&m->knowledge.renames);
		err = sealed_check(a);
		if (!err)
			err = a->op->serve(a);
		again = !a->replied && ask_again(a, err);
		if (err == -ESTALE) {	 /* the kernel asks for the names once more, and those below shall tell what they are */
			known_rename(m); /* nor is what others are learning at this moment good for it */
			known_forget(m);
		}
		if (!again && !a->replied)
			err = gone_error(a, err);
		if (!again) {
			ask_leave(a); /* before the reply: then the kernel may use the number again */
			if (!a->replied)
				reply_error(a->device, a->head.unique, err);
		}
		request_finish(&a->rq);
		ask_release(a);
	} while (again);
	buffer_unref(a->data);
	free(a);
	atomic_fetch_sub(&m->users, 1);
}

#define OP(code, function, fixed, strings, ...)                                                                                \
	[code] = { .name = #code, .serve = serve_##function, .size = fixed, .names = strings, __VA_ARGS__ }
static const struct operation operations[] = {
	OP(FUSE_LOOKUP, lookup, 0, 1),
	OP(FUSE_GETATTR, getattr, sizeof(struct fuse_getattr_in), 0),
	OP(FUSE_STATX, statx, sizeof(struct fuse_statx_in), 0),
	OP(FUSE_SETATTR, setattr, sizeof(struct fuse_setattr_in), 0),
	OP(FUSE_READLINK, readlink, 0, 0),
	OP(FUSE_SYMLINK, symlink, 0, 2),
	OP(FUSE_MKNOD, mknod, sizeof(struct fuse_mknod_in), 1),
	OP(FUSE_MKDIR, mkdir, sizeof(struct fuse_mkdir_in), 1),
	OP(FUSE_UNLINK, unlink, 0, 1),
	OP(FUSE_RMDIR, rmdir, 0, 1),
	OP(FUSE_RENAME, rename, sizeof(struct fuse_rename_in), 2),
	OP(FUSE_LINK, link, sizeof(struct fuse_link_in), 1),
	OP(FUSE_OPEN, open, sizeof(struct fuse_open_in), 0),
	OP(FUSE_READ, read, sizeof(struct fuse_read_in), 0),
	OP(FUSE_WRITE, write, sizeof(struct fuse_write_in), 0),
	OP(FUSE_STATFS, statfs, 0, 0),
	OP(FUSE_RELEASE, release, sizeof(struct fuse_release_in), 0),
	OP(FUSE_FSYNC, fsync, sizeof(struct fuse_fsync_in), 0),
	OP(FUSE_SETXATTR, setxattr, sizeof(struct fuse_setxattr_head), 1),
	OP(FUSE_GETXATTR, getxattr, sizeof(struct fuse_getxattr_in), 1),
	OP(FUSE_LISTXATTR, listxattr, sizeof(struct fuse_getxattr_in), 0),
	OP(FUSE_REMOVEXATTR, removexattr, 0, 1),
	OP(FUSE_FLUSH, flush, sizeof(struct fuse_flush_in), 0),
	OP(FUSE_OPENDIR, opendir, sizeof(struct fuse_open_in), 0),
	OP(FUSE_READDIR, readdir, sizeof(struct fuse_read_in), 0),
	OP(FUSE_RELEASEDIR, release, sizeof(struct fuse_release_in), 0),
	OP(FUSE_FSYNCDIR, fsync, sizeof(struct fuse_fsync_in), 0),
	OP(FUSE_GETLK, getlk, sizeof(struct fuse_lk_in), 0),
	OP(FUSE_SETLK, setlk, sizeof(struct fuse_lk_in), 0),
	OP(FUSE_SETLKW, setlk, sizeof(struct fuse_lk_in), 0, .waits = true),
	OP(FUSE_ACCESS, access, sizeof(struct fuse_access_in), 0),
	OP(FUSE_CREATE, create, sizeof(struct fuse_create_in), 1),
	OP(FUSE_FALLOCATE, fallocate, sizeof(struct fuse_fallocate_in), 0),
	OP(FUSE_READDIRPLUS, readdirplus, sizeof(struct fuse_read_in), 0),
	OP(FUSE_RENAME2, rename2, sizeof(struct fuse_rename2_in), 2),
	OP(FUSE_LSEEK, lseek, sizeof(struct fuse_lseek_in), 0),
	OP(FUSE_COPY_FILE_RANGE, copy_file_range, sizeof(struct fuse_copy_file_range_in), 0),
};
#undef OP

static const struct operation *operation(uint32_t code)
{
	const struct operation *op = code < sizeof(operations) / sizeof(operations[0]) ? &operations[code] : NULL;
	return op && op->serve ? op : NULL;
}

/* The strings behind the fixed part end where the kernel says that they end. */
static bool well_formed(const struct operation *op, const char *arg, size_t size)
{
	if (size < op->size)
		return false;
	arg += op->size, size -= op->size;
	for (unsigned i = 0; i < op->names; i++) {
		const char *end = memchr(arg, 0, size);
		if (!end)
			return false;
		size -= end + 1 - arg, arg = end + 1;
	}
	return true;
}

/* Small data is copied, so that the big buffer can be used again; big data keeps the buffer. */
static struct buffer *take_data(struct device *d, size_t size)
{
	if (size < COPY_LIMIT)
		return buffer_from(d->buffer->base + DATA_AT, size);
	struct buffer *data = buffer_slice(d->buffer, DATA_AT, size);
	buffer_unref(d->buffer);
	d->buffer = NULL;
	return data;
}

static struct ask *ask_create(struct device *d, const struct operation *op, const struct fuse_in_header *head, size_t size)
{
	bool write = head->opcode == FUSE_WRITE;
	size_t kept = write ? sizeof(struct fuse_write_in) : size;
	struct ask *a = malloc(sizeof(*a) + kept + 1);
	if (!a)
		return NULL;
	memset(&a->device, 0, sizeof(*a) - offsetof(struct ask, device)); /* rq: by request_init */
	a->device = d;
	a->mount = d->mount;
	a->op = op;
	a->head = *head;
	a->size = kept;
	memcpy(a->arg, head + 1, kept);
	a->arg[kept] = 0;
	if (write && !(a->data = take_data(d, size - kept))) {
		free(a);
		return NULL;
	}
	return a;
}

/* `size` is that of the argument, which follows the header in the device's buffer. */
void ask_start(struct device *d, const struct fuse_in_header *head, size_t size)
{
	const struct operation *op = operation(head->opcode);
	if (!op) {
		reply_error(d, head->unique, head->opcode == FUSE_IOCTL ? -ENOTTY : -ENOSYS);
		return;
	}
	if (!well_formed(op, (const char *)(head + 1), size)) {
		reply_error(d, head->unique, -EINVAL);
		return;
	}
	uint64_t unique = head->unique;
	struct ask *a = ask_create(d, op, head, size);
	if (!a) {
		reply_error(d, unique, -ENOMEM);
		return;
	}
	atomic_fetch_add(&d->mount->users, 1);
	atomic_fetch_add_explicit(&d->mount->asked, 1, memory_order_relaxed);
	int err = task_run_now(d->shard, serve, a);
	if (err) {
		buffer_unref(a->data);
		free(a);
		atomic_fetch_sub(&d->mount->users, 1);
		reply_error(d, unique, err);
	}
}
