/* SPDX-License-Identifier: Apache-2.0 */
/* What storage/posix asks of the kernel to change, for all that is in this process: before each change the machine may crash; and it may fail,
 * done or not, where a brick's disk is broken, or if it needs room and there is none. And what it asks for to know an object by: others may come
 * in between, and what lies on a broken disk can't be read. */
#include <dlfcn.h>
#include <limits.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "leaf.h"

enum {
	EIO_SHARE = 8, /* a call to the brick is some changes, and sim/shaky fails whole ones, too */
	ALONE = 6,     /* before and after a change others get their turn once in so many times */
	READS = 12,    /* before a call that only reads */
};

/* Of the brick whose task is running. One that is just starting is spared: it would not start, and nobody looks after it here. */
static const struct disk_faults *faults_here(void)
{
	const struct node *n = plan.posix && task_self() ? node_self() : NULL;

	return n && n->kind == NODE_BRICK && n->ready ? disk_faults(disk_of(n->number)) : NULL;
}

static int fail(int err)
{
	errno = err;
	return -1;
}

/* Between two calls of the kernel other threads do theirs. */
static void let_others_run(unsigned alone)
{
	int err = errno;

	if (faults_here() && chance_below(CHANCE_DISK, alone) == 0)
		leaf_spend(chance_between(CHANCE_DISK, 500, 60000));
	errno = err;
}

/* A thread waits for another; here the other must be given its turn. Callbacks of timers and messages can't wait, nor need they. */
int pthread_mutex_lock(pthread_mutex_t *m)
{
	int err;

	while ((err = pthread_mutex_trylock(m)) == EBUSY) {
		if (!task_self())
			abort();
		leaf_spend(1000);
	}
	return err;
}

/* What storage/posix notes of names may then be wrong, until they are looked up anew. */
static int refuse(int err)
{
	leaf_hurt(node_self()->number);
	return fail(err);
}

static long change_six(bool needs_room, long number, long a, long b, long c, long d, long e, long g)
{
	const struct disk_faults *f;
	bool broken, after;
	long result;

	let_others_run(ALONE);
	crash_point_change();
	f = faults_here();
	if (f && f->full && needs_room)
		return refuse(ENOSPC);
	broken = f && chance_of(CHANCE_DISK, f->eio / EIO_SHARE);
	after = broken && chance_below(CHANCE_DISK, 2);
	if (broken && !after)
		return refuse(EIO);
	result = syscall(number, a, b, c, d, e, g);
	let_others_run(ALONE);
	return after && result >= 0 ? refuse(EIO) : result;
}

static long change(bool needs_room, long number, long a, long b, long c, long d, long e)
{
	return change_six(needs_room, number, a, b, c, d, e, 0);
}

static long look(long number, long a, long b, long c, long d, long e)
{
	const struct disk_faults *f;

	let_others_run(READS);
	f = faults_here();
	if (f && chance_of(CHANCE_DISK, f->eio / EIO_SHARE))
		return refuse(EIO);
	return syscall(number, a, b, c, d, e);
}

/* Indexes and views are changed by the same calls, but lie on a disk that is well. */
static bool is_on_disk(int fd)
{
	char path[PATH_MAX];

	return faults_here() && files_path(fd, path) && leaf_owns(path);
}

static long beside_disk(long number, long a, long b, long c, long d)
{
	crash_point();
	return syscall(number, a, b, c, d);
}

/* The directory, or what is in it: before and after these a machine may crash at the file of the list, and at what is changed on the disk. */
static bool is_of_list_names(int fd, const char *name)
{
	char path[PATH_MAX];

	return !strncmp(name, "names.", 6) || (files_path(fd, path) && strstr(path, "/names."));
}

/* ---- names ---- */

int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
	return (int)change(true, SYS_linkat, from_fd, (long)from, to_fd, (long)to, flags);
}

int symlinkat(const char *target, int fd, const char *name)
{
	int err;

	if (is_on_disk(fd))
		return (int)change(true, SYS_symlinkat, (long)target, fd, (long)name, 0, 0);
	err = (int)syscall(SYS_symlinkat, target, fd, name);
	if (!err)
		files_named(fd, name);
	return err;
}

int mkdirat(int fd, const char *name, mode_t mode)
{
	if (!is_on_disk(fd))
		return (int)syscall(SYS_mkdirat, fd, name, mode);
	return (int)change(true, SYS_mkdirat, fd, (long)name, mode, 0, 0);
}

int mknodat(int fd, const char *name, mode_t mode, dev_t device)
{
	return (int)change(true, SYS_mknodat, fd, (long)name, mode, (long)device, 0);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
	return (int)change(false, SYS_renameat2, from_fd, (long)from, to_fd, (long)to, flags);
}

int unlinkat(int fd, const char *name, int flags)
{
	if (!is_on_disk(fd) && is_of_list_names(fd, name))
		return (int)syscall(SYS_unlinkat, fd, name, flags);
	if (!is_on_disk(fd))
		return (int)beside_disk(SYS_unlinkat, fd, (long)name, flags, 0);
	return (int)change(false, SYS_unlinkat, fd, (long)name, flags, 0, 0);
}

/* ---- attributes ---- */

int setxattr(const char *path, const char *name, const void *value, size_t size, int flags)
{
	return (int)change(true, SYS_setxattr, (long)path, (long)name, (long)value, (long)size, flags);
}

int fsetxattr(int fd, const char *name, const void *value, size_t size, int flags)
{
	return (int)change(true, SYS_fsetxattr, fd, (long)name, (long)value, (long)size, flags);
}

int removexattr(const char *path, const char *name)
{
	return (int)change(false, SYS_removexattr, (long)path, (long)name, 0, 0, 0);
}

int fremovexattr(int fd, const char *name)
{
	return (int)change(false, SYS_fremovexattr, fd, (long)name, 0, 0, 0);
}

int utimensat(int fd, const char *name, const struct timespec t[2], int flags)
{
	return (int)change(false, SYS_utimensat, fd, (long)name, (long)t, flags, 0);
}

int fchmod(int fd, mode_t mode)
{
	return (int)change(false, SYS_fchmod, fd, mode, 0, 0, 0);
}

int chmod(const char *path, mode_t mode)
{
	return (int)change(false, SYS_fchmodat, AT_FDCWD, (long)path, mode, 0, 0);
}

int fchownat(int fd, const char *name, uid_t uid, gid_t gid, int flags)
{
	return (int)change(false, SYS_fchownat, fd, (long)name, uid, gid, flags);
}

/* ---- who is it? ---- */

int name_to_handle_at(int fd, const char *name, struct file_handle *handle, int *mount, int flags)
{
	return (int)look(SYS_name_to_handle_at, fd, (long)name, (long)handle, (long)mount, flags);
}

int open_by_handle_at(int mount, struct file_handle *handle, int flags)
{
	return (int)look(SYS_open_by_handle_at, mount, (long)handle, flags, 0, 0);
}

int statx(int fd, const char *restrict name, int flags, unsigned mask, struct statx *restrict st)
{
	return (int)look(SYS_statx, fd, (long)name, flags, mask, (long)st);
}

ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
	return look(SYS_getxattr, (long)path, (long)name, (long)value, (long)size, 0);
}

ssize_t fgetxattr(int fd, const char *name, void *value, size_t size)
{
	return look(SYS_fgetxattr, fd, (long)name, (long)value, (long)size, 0);
}

/* ---- data ---- */

int truncate(const char *path, off_t size)
{
	return (int)change(false, SYS_truncate, (long)path, size, 0, 0, 0);
}

/* A tmpfs can't make zeros of what is there; but it can punch it out, and allocate it anew. */
static int make_zeros(int fd, int mode, off_t at, off_t size)
{
	struct stat st;
	long err = syscall(SYS_fallocate, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, size);

	if (!err && !(mode & FALLOC_FL_KEEP_SIZE) && !fstat(fd, &st) && at + size > st.st_size)
		err = syscall(SYS_ftruncate, fd, at + size);
	return (int)err;
}

int fallocate(int fd, int mode, off_t at, off_t size)
{
	const struct disk_faults *f = faults_here();

	if (f && !f->full && mode & FALLOC_FL_ZERO_RANGE) {
		crash_point();
		return make_zeros(fd, mode, at, size);
	}
	return (int)change(true, SYS_fallocate, fd, mode, at, size, 0);
}

/* Nothing but what the files have already fits on a full disk. */
static bool is_full_at(int fd, off_t end)
{
	const struct disk_faults *f = faults_here();
	struct stat st;

	return f && f->full && !fstat(fd, &st) && end > st.st_size;
}

ssize_t copy_file_range(int from, off_t *from_at, int to, off_t *to_at, size_t size, unsigned flags)
{
	crash_point();
	if (is_full_at(to, *to_at + (off_t)size))
		return fail(ENOSPC);
	return syscall(SYS_copy_file_range, from, from_at, to, to_at, size, flags);
}

ssize_t pwritev2(int fd, const struct iovec *v, int count, off_t at, int flags)
{
	struct stat st;

	if (!fstat(fd, &st) && is_full_at(fd, st.st_size + 1))
		return fail(ENOSPC);
	return change_six(false, SYS_pwritev2, fd, (long)v, count, at, at < 0 ? -1 : 0, flags);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at)
{
	struct stat st;

	if (!is_on_disk(fd))
		return beside_disk(SYS_pwrite64, fd, (long)bytes, (long)size, at);
	if (is_full_at(fd, at + (off_t)size) && !fstat(fd, &st)) {
		if (at >= st.st_size)
			return fail(ENOSPC);
		size = (size_t)(st.st_size - at); /* what still goes in */
	}
	return change(false, SYS_pwrite64, fd, (long)bytes, (long)size, at, 0);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at)
{
	return pwrite(fd, bytes, size, at);
}

int fstatvfs(int fd, struct statvfs *to)
{
	int (*real)(int, struct statvfs *) = (int (*)(int, struct statvfs *))dlsym(RTLD_NEXT, "fstatvfs");
	const struct disk_faults *f = faults_here();
	int err = real(fd, to);

	if (f && f->full)
		to->f_bavail = to->f_bfree = 0;
	return err;
}
