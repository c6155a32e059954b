/* SPDX-License-Identifier: Apache-2.0 */
/* A directory that is not empty is moved up to the top before it is looked into. So no path is long, and two descriptors are enough for any depth. */
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct removal {
	int top;
	dev_t device;
	unsigned long moved, removed; /* directories that were moved to the top, and those of them that have gone */
};

static bool is_full(int err)
{
	return err == ENOTEMPTY || err == EEXIST;
}

static int move_up(struct removal *r, int from, const char *name)
{
	char to[sizeof TREE_REMOVED + 20];

	do /* one of that name may be there since a crash: it has its turn, too */
		snprintf(to, sizeof to, TREE_REMOVED "%lu", r->moved++);
	while (renameat(from, name, r->top, to) && is_full(errno));
	return faccessat(r->top, to, F_OK, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
}

static int remove_entry(struct removal *r, int in, const char *name)
{
	if (!unlinkat(in, name, 0) || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (!unlinkat(in, name, AT_REMOVEDIR))
		return 0;
	return is_full(errno) ? move_up(r, in, name) : -errno;
}

static int empty(struct removal *r, const char *name)
{
	int fd = openat(r->top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), err = 0;
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	struct stat st;
	struct dirent *d;

	if (!list) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	if (fstat(fd, &st))
		err = -errno;
	else if (st.st_dev != r->device)
		err = -EXDEV;
	while (!err && (errno = 0, d = readdir(list)))
		if (strcmp(d->d_name, ".") && strcmp(d->d_name, ".."))
			err = remove_entry(r, fd, d->d_name);
	if (!err && errno)
		err = -errno;
	closedir(list);
	return err;
}

static int remove_one(struct removal *r, const char *name)
{
	int err = 0;

	if (!unlinkat(r->top, name, 0) || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	while (!err && unlinkat(r->top, name, AT_REMOVEDIR) && errno != ENOENT)
		err = is_full(errno) ? empty(r, name) : -errno;
	return err;
}

int tree_remove(int top, const char *name)
{
	struct removal r = { .top = top };
	struct stat st;
	int err = fstat(top, &st) ? -errno : 0;

	r.device = st.st_dev;
	if (!err)
		err = remove_one(&r, name);
	while (!err && r.removed < r.moved) {
		char moved[sizeof TREE_REMOVED + 20];

		snprintf(moved, sizeof moved, TREE_REMOVED "%lu", r.removed++);
		err = remove_one(&r, moved);
	}
	return err;
}
