/* SPDX-License-Identifier: Apache-2.0 */
/* Walks through a brick. Directories that are to be read are kept by handle: so the depth of a tree does not matter, nor that one is moved meanwhile. */
#include "walk.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "log.h"

/* The rules of doc/usage.md, once more. */
enum { UNIT = 4096, FURTHER_NAME = 512, LIST_MAX = 65536 };
static const char reserved_name[] = "trusted.usage.end", tag_name[] = "trusted.usage.quota";

struct walk {
	int top; /* the brick */
	dev_t device;
	struct file_handle **todo; /* directories */
	size_t count, room;
	uint64_t *seen; /* inode numbers of files with several names; 0: free. At most half full */
	size_t seen_size, seen_count;
	struct walk_account *account;
	size_t accounts;
	struct walk_account *directory;
	size_t directories;
	bool in_set;
	char *names; /* of attributes: LIST_MAX */
};

/* ---- files with several names ---- */

static uint64_t *place_of(const struct walk *w, uint64_t ino)
{
	size_t i = (ino * 0x9e3779b97f4a7c15u >> 20) & (w->seen_size - 1);

	while (w->seen[i] && w->seen[i] != ino)
		i = (i + 1) & (w->seen_size - 1);
	return &w->seen[i];
}

static int grow_seen(struct walk *w)
{
	struct walk more = { .seen_size = w->seen_size ? 2 * w->seen_size : 1024 };

	more.seen = calloc(more.seen_size, sizeof *more.seen);
	if (!more.seen)
		return -ENOMEM;
	for (size_t i = 0; i < w->seen_size; i++)
		if (w->seen[i])
			*place_of(&more, w->seen[i]) = w->seen[i];
	free(w->seen);
	w->seen = more.seen;
	w->seen_size = more.seen_size;
	return 0;
}

/* 1: it was met by another name. */
static int is_again(struct walk *w, const struct stat *st)
{
	uint64_t *place;

	if (st->st_nlink < 2 || S_ISDIR(st->st_mode))
		return 0;
	if (2 * (w->seen_count + 1) > w->seen_size && grow_seen(w))
		return -ENOMEM;
	place = place_of(w, st->st_ino);
	if (*place)
		return 1;
	*place = st->st_ino;
	w->seen_count++;
	return 0;
}

/* ---- what one object is charged ---- */

static bool is_bricks_own(const char *name)
{
	return !strncmp(name, "trusted.sfs", 11) || !strncmp(name, "trusted.stratus", 15);
}

/* What went meanwhile has none. */
static bool is_gone(int error)
{
	return error == ENOENT || error == ENODATA || error == ENOTSUP || error == ESTALE;
}

struct found { /* in the attributes of an object */
	uint64_t bytes, reserved, tag;
};

static int look_at_xattr(const char *path, const char *name, struct found *f)
{
	uint64_t number[3];
	ssize_t size = lgetxattr(path, name, NULL, 0);

	if (size < 0)
		return is_gone(errno) ? 0 : -errno;
	f->bytes += strlen(name) + (uint64_t)size;
	if (!strcmp(name, reserved_name) && lgetxattr(path, name, number, sizeof number[0]) == sizeof number[0])
		f->reserved = be64toh(number[0]);
	if (!strcmp(name, tag_name) && lgetxattr(path, name, number, sizeof number) >= (ssize_t)sizeof number[0])
		f->tag = be64toh(number[0]);
	return 0;
}

static int look_at_xattrs(struct walk *w, const char *path, struct found *f)
{
	ssize_t size = llistxattr(path, w->names, LIST_MAX);
	int err = 0;

	if (size < 0)
		return is_gone(errno) ? 0 : -errno;
	for (const char *name = w->names; name < w->names + size && !err; name += strlen(name) + 1)
		if (!is_bricks_own(name))
			err = look_at_xattr(path, name, f);
	return err;
}

static struct walk_account *account_of(const struct walk *w, uint64_t uid)
{
	size_t low = 1, high = w->accounts;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (w->account[middle].base <= uid)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 1 && uid - w->account[low - 1].base < w->account[low - 1].count ? &w->account[low - 1] : &w->account[0];
}

static int compare_bases(const void *a, const void *b)
{
	const struct walk_account *x = a, *y = b;

	return x->base < y->base ? -1 : x->base > y->base;
}

static void charge(struct walk_account *a, int64_t bytes)
{
	a->bytes += bytes;
	a->inodes++;
}

static int add(struct walk *w, const char *path, const struct stat *st)
{
	struct walk_account *directory;
	struct found f = { 0 };
	int err = look_at_xattrs(w, path, &f);
	bool dir = S_ISDIR(st->st_mode);
	uint64_t size = w->in_set && dir ? UNIT : (uint64_t)st->st_size, length = f.reserved > size ? f.reserved : size;
	uint64_t names = w->in_set && !dir && st->st_nlink > 1 ? st->st_nlink - 1 : 0;
	int64_t bytes = (int64_t)(names * FURTHER_NAME) +
			(int64_t)((length + UNIT - 1) / UNIT * UNIT + UNIT + (f.bytes > UNIT ? f.bytes - UNIT : 0));

	charge(account_of(w, st->st_uid), bytes);
	directory = f.tag && w->directories ? bsearch(&(struct walk_account){ .base = f.tag }, w->directory, w->directories,
						      sizeof *w->directory, compare_bases)
					    : NULL;
	if (directory)
		charge(directory, bytes);
	return err;
}

/* ---- the walk ---- */

static int push(struct walk *w, int dir, const char *name)
{
	struct file_handle *h = malloc(sizeof *h + MAX_HANDLE_SZ);
	int mount, err;

	if (h && w->count == w->room) {
		size_t room = w->room ? 2 * w->room : 64;
		struct file_handle **grown = realloc(w->todo, room * sizeof(*grown));

		w->todo = grown ? grown : w->todo;
		w->room = grown ? room : w->room;
	}
	if (!h || w->count == w->room) {
		free(h);
		return -ENOMEM;
	}
	h->handle_bytes = MAX_HANDLE_SZ;
	if (!name_to_handle_at(dir, name, h, &mount, 0)) {
		struct file_handle *small = realloc(h, sizeof *h + h->handle_bytes); /* there may be very many */

		w->todo[w->count++] = small ? small : h;
		return 0;
	}
	err = is_gone(errno) ? 0 : -errno;
	free(h);
	return err;
}

static int meet(struct walk *w, int dir, const char *name)
{
	char path[64 + NAME_MAX];
	struct stat st;
	int err;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return is_gone(errno) ? 0 : -errno;
	if (st.st_dev != w->device)
		return 0;
	err = is_again(w, &st);
	if (err)
		return err < 0 ? err : 0;
	snprintf(path, sizeof path, "/proc/self/fd/%d/%s", dir, name);
	err = add(w, path, &st);
	return !err && S_ISDIR(st.st_mode) ? push(w, dir, name) : err;
}

static bool is_skipped(const char *name, bool top)
{
	return !strcmp(name, ".") || !strcmp(name, "..") || (top && !strcmp(name, ".stratus"));
}

/* Takes the descriptor over. */
static int read_directory(struct walk *w, int fd, bool top)
{
	DIR *dir = fdopendir(fd);
	struct dirent *e;
	int err = dir ? 0 : -errno;

	if (!dir)
		close(fd);
	for (errno = 0; !err && (e = readdir(dir)); errno = 0)
		if (!is_skipped(e->d_name, top))
			err = meet(w, fd, e->d_name);
	if (!err && errno && !is_gone(errno))
		err = -errno;
	if (dir)
		closedir(dir);
	return err;
}

static int read_next(struct walk *w)
{
	struct file_handle *h = w->todo[--w->count];
	int fd = open_by_handle_at(w->top, h, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int err = fd < 0 && !is_gone(errno) ? -errno : 0;

	free(h);
	return fd < 0 ? err : read_directory(w, fd, false);
}

static int walk_all(struct walk *w, const char *brick)
{
	struct stat st;
	int err, fd;

	if (fstat(w->top, &st))
		return -errno;
	w->device = st.st_dev;
	err = add(w, brick, &st);
	fd = err ? -1 : openat(w->top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!err)
		err = fd < 0 ? -errno : read_directory(w, fd, true);
	while (!err && w->count)
		err = read_next(w);
	return err;
}

int walk_brick(const char *brick, bool in_set, struct walk_account *account, size_t count, struct walk_account *directory,
	       size_t directories, struct problem *p)
{
	struct walk w = { .account = account,
			  .accounts = count,
			  .directory = directory,
			  .directories = directories,
			  .in_set = in_set,
			  .names = malloc(LIST_MAX) };
	int err;

	for (size_t i = 0; i < count; i++)
		account[i].bytes = account[i].inodes = 0;
	for (size_t i = 0; i < directories; i++)
		directory[i].bytes = directory[i].inodes = 0;
	w.top = open(brick, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = w.top < 0 ? -errno : w.names ? walk_all(&w, brick) : -ENOMEM;
	while (w.count)
		free(w.todo[--w.count]);
	free(w.todo);
	free(w.seen);
	free(w.names);
	if (w.top >= 0)
		close(w.top);
	return err ? problem_set(p, -err, "can't count what is on the brick %s: %s%s", brick, strerror(-err),
				 err == -EPERM || err == -EACCES ? "; run it as root" : "")
		   : 0;
}
