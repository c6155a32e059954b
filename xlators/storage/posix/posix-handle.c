/* SPDX-License-Identifier: Apache-2.0 */
/* From inodes to descriptors: kernel handles, the cache of directories, and what can be done with a hold. */
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include "posix.h"

enum { REUSE_ATTEMPTS = 20 };

void fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

struct descriptor *descriptor_create(int fd)
{
	struct descriptor *d = fd < 0 ? NULL : malloc(sizeof *d);

	if (!d) {
		fd_close(&fd);
		return NULL;
	}
	d->fd = fd;
	atomic_init(&d->refs, 1);
	return d;
}

struct descriptor *descriptor_ref(struct descriptor *d)
{
	atomic_fetch_add(&d->refs, 1);
	return d;
}

void descriptor_unref(struct descriptor *d)
{
	if (!d || atomic_fetch_sub(&d->refs, 1) > 1)
		return;
	close(d->fd);
	free(d);
}

/* ---- the kernel's handles ---- */

union handle_room {
	struct file_handle head;
	char bytes[sizeof(struct file_handle) + KERNEL_HANDLE_MAX];
};

static int handle_at(int directory, const char *name, int flags, struct kernel_handle *handle, int *mount)
{
	union handle_room room = { .head.handle_bytes = KERNEL_HANDLE_MAX };

	if (name_to_handle_at(directory, name, &room.head, mount, flags) < 0)
		return result(-1);
	handle->type = room.head.handle_type;
	handle->size = room.head.handle_bytes;
	memcpy(handle->bytes, room.head.f_handle, handle->size);
	return 0;
}

int kernel_handle_of(int fd, struct kernel_handle *handle)
{
	int mount;

	return handle_at(fd, "", AT_EMPTY_PATH, handle, &mount);
}

int kernel_handle_root(struct brick *b, struct kernel_handle *handle)
{
	return handle_at(b->root_fd, "", AT_EMPTY_PATH, handle, &b->mount);
}

int kernel_handle_named(struct brick *b, int directory, const char *name, struct kernel_handle *handle)
{
	int mount, err = handle_at(directory, name, 0, handle, &mount);

	return !err && mount != b->mount ? -EXDEV : err;
}

bool kernel_handles_equal(const struct kernel_handle *a, const struct kernel_handle *b)
{
	return a->type == b->type && a->size == b->size && !memcmp(a->bytes, b->bytes, a->size);
}

/* What has no name any more is there only because a descriptor of it, or of what was in it, waits to be closed (close_late): then it counts as gone. Of a file that
 * is open the descriptor is kept, so it is not asked for by its handle; of a directory none is. */
static bool is_gone(const struct brick *b, int fd)
{
	struct statx st;

	return !statx(fd, "", AT_EMPTY_PATH, STATX_NLINK | STATX_TYPE, &st) && !st.stx_nlink &&
	       !(S_ISDIR(st.stx_mode) && atomic_load(&b->open_directories));
}

int kernel_handle_open(struct brick *b, const struct kernel_handle *handle, int flags)
{
	union handle_room room = { .head.handle_bytes = handle->size, .head.handle_type = handle->type };
	int fd, err = -ENOMEM;

	memcpy(room.head.f_handle, handle->bytes, handle->size);
	atomic_fetch_add_explicit(&b->handles_opened, 1, memory_order_relaxed);
	/* ENOMEM is also what the kernel says while another object is just being made with the same inode number. */
	for (int attempt = 0; err == -ENOMEM && attempt < REUSE_ATTEMPTS; attempt++) {
		bool some = atomic_load(&b->closing.waiting); /* before: it may be closed just behind our back */

		fd = open_by_handle_at(b->root_fd, &room.head, flags | O_CLOEXEC);
		if (fd >= 0 && some && is_gone(b, fd)) {
			if (!close_late(b, fd))
				close(fd);
			return -ESTALE;
		}
		if (fd >= 0)
			return fd;
		err = result(-1);
		if (err == -ENOMEM)
			sched_yield();
	}
	return err == -ENOENT ? -ESTALE : err;
}

int name_open(int directory, const char *name)
{
	struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, directory, name, &how, sizeof how);

	return fd < 0 ? result(fd) : (int)fd;
}

/* ---- objects ---- */

struct object *object_of(const struct xlator *x, struct inode *inode)
{
	return inode ? inode_slot(inode, x) : NULL;
}

/* Out of the cache, if it is in; what it kept is then the caller's to let go. */
static struct descriptor *uncache(struct directory_cache *cache, struct object *o)
{
	struct descriptor *kept = NULL;

	pthread_mutex_lock(&cache->lock);
	if (o->place >= 0) {
		cache->ring[o->place] = NULL;
		cache->count--;
		o->place = -1;
		pthread_mutex_lock(&o->lock);
		kept = o->kept;
		o->kept = NULL;
		pthread_mutex_unlock(&o->lock);
	}
	pthread_mutex_unlock(&cache->lock);
	return kept;
}

void object_forget(struct xlator *x, struct inode *inode, void *slot)
{
	struct object *o = slot;

	(void)inode;
	object_unindex(brick_of(x), o);
	descriptor_unref(uncache(&brick_of(x)->cache, o));
	descriptor_unref(o->kept);
	pthread_mutex_destroy(&o->lock);
	free(o);
}

void directory_drop(struct xlator *x, struct inode *inode)
{
	struct object *o = object_of(x, inode);

	if (o)
		descriptor_unref(uncache(&brick_of(x)->cache, o));
}

/* A free place, or that of a directory which was not used since the hand last came by. The cache is locked. */
static struct descriptor *make_place(struct directory_cache *cache, unsigned *place)
{
	struct descriptor *kept = NULL;
	struct object *old;

	for (;; cache->hand = (cache->hand + 1) % cache->places) {
		old = cache->ring[cache->hand];
		if (!old || !atomic_exchange(&old->used, false))
			break;
	}
	*place = cache->hand;
	cache->hand = (cache->hand + 1) % cache->places;
	if (old) {
		pthread_mutex_lock(&old->lock);
		kept = old->kept;
		old->kept = NULL;
		pthread_mutex_unlock(&old->lock);
		old->place = -1;
		cache->count--;
	}
	return kept;
}

static void cache_directory(struct brick *b, struct object *o, struct descriptor *d)
{
	struct directory_cache *cache = &b->cache;
	struct descriptor *evicted = NULL;
	unsigned place;

	pthread_mutex_lock(&cache->lock);
	if (o->place < 0 && !o->kept) { /* `kept` of a directory changes under the cache's lock only */
		evicted = make_place(cache, &place);
		cache->ring[place] = o;
		cache->count++;
		o->place = (int)place;
		atomic_store(&o->used, true);
		pthread_mutex_lock(&o->lock);
		o->kept = descriptor_ref(d);
		pthread_mutex_unlock(&o->lock);
	}
	pthread_mutex_unlock(&cache->lock);
	descriptor_unref(evicted);
}

void object_opened(struct object *o, struct descriptor *d)
{
	pthread_mutex_lock(&o->lock);
	o->opens++;
	if (!o->kept)
		o->kept = descriptor_ref(d);
	pthread_mutex_unlock(&o->lock);
}

void object_closed(struct object *o)
{
	struct descriptor *last = NULL;

	pthread_mutex_lock(&o->lock);
	if (o->opens && --o->opens == 0) {
		last = o->kept;
		o->kept = NULL;
	}
	pthread_mutex_unlock(&o->lock);
	descriptor_unref(last);
}

/* ---- holding an object ---- */

static bool hold_kept(struct object *o, struct hold *h, struct kernel_handle *handle)
{
	pthread_mutex_lock(&o->lock);
	if (o->kept)
		h->kept = descriptor_ref(o->kept);
	else
		*handle = o->handle;
	pthread_mutex_unlock(&o->lock);
	if (!h->kept)
		return false;
	h->fd = h->kept->fd;
	if (!atomic_load_explicit(&o->used, memory_order_relaxed))
		atomic_store_explicit(&o->used, true, memory_order_relaxed);
	return true;
}

static int hold_directory(struct brick *b, struct object *o, const struct kernel_handle *handle, struct hold *h)
{
	int fd = kernel_handle_open(b, handle, O_RDONLY | O_DIRECTORY);

	if (fd < 0)
		return fd;
	h->kept = descriptor_create(fd);
	if (!h->kept)
		return -ENOMEM;
	h->fd = fd;
	cache_directory(b, o, h->kept);
	return 0;
}

int hold_inode(struct xlator *x, struct inode *inode, struct hold *h)
{
	struct object *o = object_of(x, inode);
	struct kernel_handle handle;

	*h = (struct hold)HOLD_NONE;
	if (!o)
		return -ESTALE;
	if (hold_kept(o, h, &handle))
		return 0;
	if (S_ISDIR(inode->type))
		return hold_directory(brick_of(x), o, &handle, h);
	h->fd = kernel_handle_open(brick_of(x), &handle, O_PATH | O_NOFOLLOW);
	h->path = true;
	return h->fd < 0 ? h->fd : 0;
}

int hold_open(struct xlator *x, struct inode *inode, struct file *file, struct hold *h)
{
	struct opened *opened = file ? opened_of(x, file) : NULL;

	if (file && inode && file->inode != inode)
		return -EINVAL;
	if (opened && opened_check(x, file))
		return -ESTALE;
	if (!opened)
		return hold_inode(x, inode ? inode : file ? file->inode : NULL, h);
	*h = (struct hold){ .fd = opened->descriptor->fd, .lent = true };
	return 0;
}

void hold_end(struct hold *h)
{
	if (h->kept)
		descriptor_unref(h->kept);
	else if (!h->lent)
		fd_close(&h->fd);
	*h = (struct hold)HOLD_NONE;
}

int object_reopen(struct xlator *x, struct inode *inode, int flags)
{
	struct object *o = object_of(x, inode);
	struct kernel_handle handle;
	int fd;

	if (!S_ISREG(inode->type) && !S_ISDIR(inode->type)) /* a device of the server, or a FIFO that holds its thread */
		return -EINVAL;
	if (!o)
		return -ESTALE;
	pthread_mutex_lock(&o->lock);
	handle = o->handle;
	pthread_mutex_unlock(&o->lock);
	fd = kernel_handle_open(brick_of(x), &handle, flags);
	if (fd != -ESTALE)
		return fd;
	cleanup_hold struct hold h = HOLD_NONE; /* unlinked, and some file systems don't find it by handle any more */
	struct hold_path path;

	if (!hold_kept(o, &h, &handle))
		return -ESTALE;
	fd = open(hold_path(&h, &path), flags | O_CLOEXEC);
	return fd < 0 ? result(fd) : fd;
}

/* ---- what can be done with a hold ---- */

int hold_stat(const struct hold *h, struct statx *st)
{
	return result(statx(h->fd, "", AT_EMPTY_PATH | AT_STATX_SYNC_AS_STAT, STATX_BASIC_STATS | STATX_BTIME, st));
}

const char *hold_path(const struct hold *h, struct hold_path *path)
{
	snprintf(path->text, sizeof path->text, "/proc/self/fd/%d", h->fd);
	return path->text;
}

int hold_mode(const struct hold *h, mode_t mode)
{
	struct hold_path path;

	return result(h->path ? chmod(hold_path(h, &path), mode) : fchmod(h->fd, mode));
}

int hold_owner(const struct hold *h, uid_t uid, gid_t gid)
{
	return result(fchownat(h->fd, "", uid, gid, AT_EMPTY_PATH));
}

ssize_t hold_getxattr(const struct hold *h, const char *name, void *value, size_t size)
{
	struct hold_path path;
	ssize_t n = h->path ? getxattr(hold_path(h, &path), name, value, size) : fgetxattr(h->fd, name, value, size);

	return n < 0 ? result(n) : n;
}

int hold_setxattr(const struct hold *h, const char *name, const void *value, size_t size, int flags)
{
	struct hold_path path;

	return result(h->path ? setxattr(hold_path(h, &path), name, value, size, flags)
			      : fsetxattr(h->fd, name, value, size, flags));
}

int hold_removexattr(const struct hold *h, const char *name)
{
	struct hold_path path;

	return result(h->path ? removexattr(hold_path(h, &path), name) : fremovexattr(h->fd, name));
}

ssize_t hold_listxattr(const struct hold *h, char *names, size_t size)
{
	struct hold_path path;
	ssize_t n = h->path ? listxattr(hold_path(h, &path), names, size) : flistxattr(h->fd, names, size);

	return n < 0 ? result(n) : n;
}
