/* SPDX-License-Identifier: Apache-2.0 */
/* Files that translators keep beside the simulated disk (indexes, views) are real ones, in a directory of the run. What was not synced
 * of them is lost in a power cut, too; and each write is a point at which a machine may crash. */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "leaf.h"

struct synced { /* what is durable of a file */
	char *path, *bytes;
	size_t size;
	bool there, safe; /* safe: what it is now was durable under another name before it was renamed */
	struct synced *next;
};
struct named { /* a symlink: it is on the disk if what was changed on that after it is */
	char *path;
	uint64_t transaction;
	struct named *next;
};
static struct {
	char root[PATH_MAX];
	size_t length;
	struct synced *first;
	struct named *named;
} files;

void files_begin(const char *directory)
{
	snprintf(files.root, sizeof(files.root), "%s", directory);
	files.length = strlen(files.root);
}

static char *read_whole(const char *path, size_t *size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st = { 0 };
	char *bytes;

	*size = 0;
	if (fd < 0)
		return NULL;
	fstat(fd, &st);
	bytes = malloc((size_t)st.st_size + 1);
	*size = (size_t)pread(fd, bytes, (size_t)st.st_size, 0);
	close(fd);
	return bytes;
}

static struct synced *known(const char *path, bool make)
{
	struct synced *s = files.first;

	while (s && strcmp(s->path, path))
		s = s->next;
	if (!s && make) {
		s = calloc(1, sizeof(*s));
		s->path = strdup(path);
		s->next = files.first;
		files.first = s;
	}
	return s;
}

static void note_synced(const char *path)
{
	struct synced *s = known(path, true);

	free(s->bytes);
	s->bytes = read_whole(path, &s->size);
	s->there = s->bytes;
	s->safe = false;
}

static void each_file(const char *directory, void (*fn)(const char *path))
{
	DIR *dir = opendir(directory);
	struct dirent *e;
	char *list[256], path[PATH_MAX];
	unsigned count = 0;

	while (dir && (e = readdir(dir)) && count < 256)
		if (e->d_name[0] != '.' && snprintf(path, sizeof(path), "%s/%s", directory, e->d_name) < PATH_MAX)
			list[count++] = strdup(path);
	if (dir)
		closedir(dir);
	for (unsigned i = 0; i < count; i++) {
		struct stat st;

		if (!lstat(list[i], &st) && S_ISDIR(st.st_mode))
			each_file(list[i], fn);
		else if (S_ISREG(st.st_mode))
			fn(list[i]);
		free(list[i]);
	}
}

void files_synced(const char *directory)
{
	each_file(directory, note_synced);
}

static void rewrite(const char *path, const char *bytes, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0)
		return;
	if (size && syscall(SYS_write, fd, bytes, size) < 0)
		trace("can't write %s", path);
	close(fd);
}

static void cut_file(const char *path)
{
	struct synced *s = known(path, false);
	size_t size, kept;
	char *now = read_whole(path, &size);

	if (!now)
		return;
	if (s && s->safe) { /* the old one or the new one */
		if (chance_below(CHANCE_DISK, 2) && s->there)
			rewrite(path, s->bytes, s->size);
	} else if (s && s->there && (s->size > size || memcmp(now, s->bytes, s->size))) {
		if (chance_below(CHANCE_DISK, 2))
			rewrite(path, s->bytes, s->size);
	} else {
		kept = s && s->there ? s->size : 0;
		kept += chance_below(CHANCE_DISK, size - kept + 1);
		if (kept < size && truncate(path, (off_t)kept))
			trace("can't truncate %s", path);
		if (!s && chance_below(CHANCE_DISK, 3) == 0)
			unlink(path);
	}
	free(now);
}

/* The descriptors of a process that has died. */
static unsigned close_some(const char *directory)
{
	size_t length = strlen(directory);
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	int list[256];
	unsigned count = 0;

	while (dir && (e = readdir(dir)) && count < 256) {
		char path[PATH_MAX];
		int fd = atoi(e->d_name);

		if (fd > 2 && files_path(fd, path) && !strncmp(path, directory, length))
			list[count++] = fd;
	}
	if (dir)
		closedir(dir);
	for (unsigned i = 0; i < count; i++)
		close(list[i]);
	return count;
}

static void close_all(const char *directory)
{
	while (close_some(directory))
		;
}

void files_crash(const char *directory)
{
	close_all(directory);
}

void files_power_cut(const char *directory)
{
	each_file(directory, cut_file);
	files_synced(directory);
}

void files_cut_names(const char *directory, uint64_t survived)
{
	size_t length = strlen(directory);
	struct named **at = &files.named, *n;

	while ((n = *at)) {
		if (strncmp(n->path, directory, length) || n->path[length] != '/') {
			at = &n->next;
			continue;
		}
		if (n->transaction >= survived && !unlink(n->path))
			trace("%s is forgotten", n->path + files.length);
		*at = n->next;
		free(n->path);
		free(n);
	}
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st, (void)type, (void)at;
	return remove(path);
}

int files_remove(const char *directory)
{
	return nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- the C library's, for all that is in this process ---- */

bool files_path(int fd, char path[PATH_MAX])
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, PATH_MAX - 1);
	if (n < 0)
		return false;
	path[n] = '\0';
	return files.length && !strncmp(path, files.root, files.length);
}

/* What bricks keep on real disks is not theirs. */
static bool path_of(int fd, char path[PATH_MAX])
{
	return files_path(fd, path) && !leaf_owns(path);
}

/* ---- listings, in the order of names ---- */

struct listing {
	DIR *dir;
	struct dirent *entry;
	size_t count, at;
	struct listing *next;
};
static struct listing *listings;

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct dirent *)a)->d_name, ((const struct dirent *)b)->d_name);
}

static struct listing *list_all(DIR *d, struct dirent *(*next)(DIR *))
{
	struct listing *l = calloc(1, sizeof(*l));
	struct dirent *e;

	l->dir = d;
	while ((e = next(d))) {
		l->entry = realloc(l->entry, (l->count + 1) * sizeof(*e));
		memset(&l->entry[l->count], 0, sizeof(*e));
		memcpy(&l->entry[l->count++], e, e->d_reclen < sizeof(*e) ? e->d_reclen : sizeof(*e));
	}
	qsort(l->entry, l->count, sizeof(*l->entry), by_name);
	l->next = listings;
	return listings = l;
}

/* That of the file system is another on each, and of each kernel: a seed would be another run there. */
struct dirent *readdir(DIR *d)
{
	static struct dirent *(*real)(DIR *);
	struct listing *l = listings;
	char path[PATH_MAX];

	if (!real)
		real = (struct dirent * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir");
	while (l && l->dir != d)
		l = l->next;
	if (!l && !path_of(dirfd(d), path)) /* which takes long: not for each entry */
		return real(d);
	if (!l)
		l = list_all(d, real);
	errno = 0;
	return l->at < l->count ? &l->entry[l->at++] : NULL;
}

int closedir(DIR *d)
{
	int (*real)(DIR *) = (int (*)(DIR *))dlsym(RTLD_NEXT, "closedir");
	struct listing **at = &listings, *l;

	while ((l = *at) && l->dir != d)
		at = &l->next;
	if (l) {
		*at = l->next;
		free(l->entry);
		free(l);
	}
	return real(d);
}

static int synced_now(int fd)
{
	char path[PATH_MAX];
	struct stat st;

	if (!task_self() || fstat(fd, &st))
		return 0;
	crash_point();
	if (!path_of(fd, path))
		return 0;
	if (S_ISDIR(st.st_mode))
		files_synced(path);
	else
		note_synced(path);
	return 0;
}

int fsync(int fd)
{
	return synced_now(fd);
}

int fdatasync(int fd)
{
	return synced_now(fd);
}

/* storage/posix does this. What lies beside it is durable, too. */
int syncfs(int fd)
{
	const struct node *n = task_self() ? node_self() : NULL;
	char path[PATH_MAX];
	int err = 0;

	(void)fd;
	if (!n || n->kind != NODE_BRICK)
		return 0;
	crash_point();
	if (n->ready)
		err = leaf_sync();
	if (!err && snprintf(path, sizeof(path), "%s/%s", files.root, n->name) < PATH_MAX)
		files_synced(path);
	errno = -err;
	return err ? -1 : 0;
}

ssize_t write(int fd, const void *bytes, size_t size)
{
	if (fd > 2)
		crash_point();
	return syscall(SYS_write, fd, bytes, size);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	struct synced *a, *b;
	char path[PATH_MAX], other[PATH_MAX];
	bool ours = task_self() && files.length;

	crash_point();
	if (ours && *from != '/' && from_fd != AT_FDCWD && path_of(from_fd, path) && path_of(to_fd, other)) {
		snprintf(path + strlen(path), sizeof(path) - strlen(path), "/%s", from);
		snprintf(other + strlen(other), sizeof(other) - strlen(other), "/%s", to);
	} else {
		snprintf(path, sizeof(path), "%s", from);
		snprintf(other, sizeof(other), "%s", to);
	}
	if (ours) {
		a = known(path, false);
		b = known(other, true);
		b->safe = a && a->there;
		if (a)
			a->there = false;
	}
	return (int)syscall(SYS_renameat, from_fd, from, to_fd, to);
}

int rename(const char *from, const char *to)
{
	return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

void files_named(int fd, const char *name)
{
	const struct node *self = task_self() && files.length ? node_self() : NULL;
	char path[PATH_MAX];
	struct named *n;

	if (!self || self->kind != NODE_BRICK || plan.posix || !path_of(fd, path))
		return;
	n = malloc(sizeof(*n));
	*n = (struct named){ .transaction = disk_transaction(disk_of(self->number)), .next = files.named };
	if (asprintf(&n->path, "%s/%s", path, name) < 0)
		sim_fail("no memory");
	files.named = n;
}

/* In half of the seeds bricks are on a file system that is not known to keep the order of names. (libcore has another struct of that name; the type comes first in the
 * kernel's.) */
int fstatfs(int fd, void *statfs);
int fstatfs(int fd, void *statfs)
{
	enum { UNKNOWN = 1 };
	int err = (int)syscall(SYS_fstatfs, fd, statfs);

	if (!err && task_self() && files.length && plan.seed % 4 < 2)
		*(long *)statfs = UNKNOWN;
	return err;
}
