/* SPDX-License-Identifier: Apache-2.0 */
/* All that one can do with names and attributes, done by the kernel and over features/access: both must answer alike. */
#include "access-test.h"
#include "moments.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>

struct world { /* two directories with a file and an empty directory in each */
	struct object dir[2], file[2], sub[2];
};
struct deed {
	struct world *w;
	struct caller caller;
	unsigned kind, detail;
	const char *what;
};

static const char *path_of(const char *in, const char *name)
{
	static _Thread_local char path[4][64];
	static _Thread_local unsigned turn;
	char *p = path[turn++ % 4];

	snprintf(p, sizeof(path[0]), "%.48s/%s", in, name);
	return p;
}

static void make_world(struct tree *t, struct world *w, int number)
{
	for (int i = 0; i < 2; i++) {
		char path[32];

		snprintf(path, sizeof(path), "w%d-%d", number, i);
		w->dir[i] = object_any(path, S_IFDIR);
		if (dice(2))
			w->dir[i].mode |= 0733;
		w->file[i] = object_any(path_of(path, "file"), S_IFREG);
		w->sub[i] = object_any(path_of(path, "sub"), S_IFDIR);
		object_make(t, &w->dir[i]);
		object_make(t, &w->file[i]);
		object_make(t, &w->sub[i]);
	}
}

static const int open_flags[] = {
	O_RDONLY, O_WRONLY, O_RDWR, O_RDWR | O_TRUNC, O_RDONLY | O_NOATIME, O_WRONLY | O_APPEND, O_RDONLY | O_TRUNC
};
static const mode_t modes[] = { 0644, 02755, 06711, 01777, 04711, 0 };
static const char *const xattrs[] = { "user.x", "trusted.x", "security.capability", "trusted.stratus.x" };
static const struct timespec times_of[][2] = {
	{ { 1, 0 }, { 2, 0 } },
	{ { 0, UTIME_NOW }, { 0, UTIME_NOW } },
	{ { 0, UTIME_OMIT }, { 0, UTIME_NOW } },
	{ { 0, UTIME_NOW }, { 7, 0 } },
};
static const uint32_t times_valid[] = { SET_ATIME | SET_MTIME, SET_ATIME_NOW | SET_MTIME_NOW, SET_MTIME_NOW,
					SET_ATIME_NOW | SET_MTIME };

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define RESULT(call) ((call) < 0 ? -errno : 0)

enum kind {
	CREATE_NEW,
	OPEN,
	OPEN_CREATE,
	MKDIR,
	MKDIR_EXISTING,
	UNLINK,
	UNLINK_MISSING,
	RMDIR,
	RENAME_NEW,
	RENAME_OVER,
	RENAME_SUB,
	RENAME_SUB_OVER,
	RENAME_HERE,
	EXCHANGE,
	LINK,
	SYMLINK,
	CHMOD,
	CHOWN,
	UTIMES,
	TRUNCATE,
	SETXATTR,
	GETXATTR,
	SETXATTR_SUB,
	SETACL,
	OPENDIR,
	MKFIFO,
	MKDEV,
	STAT,
	KINDS
};
static const char *const kind_names[] = { "create new",
					  "open",
					  "open or create",
					  "mkdir",
					  "mkdir existing",
					  "unlink",
					  "unlink missing",
					  "rmdir",
					  "rename to new",
					  "rename over",
					  "rename directory",
					  "rename directory over",
					  "rename here",
					  "exchange",
					  "link",
					  "symlink",
					  "chmod",
					  "chown",
					  "utimes",
					  "truncate",
					  "setxattr",
					  "getxattr",
					  "setxattr on directory",
					  "set acl",
					  "opendir",
					  "mkfifo",
					  "mkdev",
					  "stat" };

static const uint8_t small_acl[] = { 2, 0, 0,	0,   1,	  0,   7,    0, 255, 255, 255, 255, 4,	 0,
				     5, 0, 255, 255, 255, 255, 0x20, 0, 5,   0,	  255, 255, 255, 255 };

/* A value that the kernel takes for its name. */
static const char *value_of(const char *xattr, size_t *size)
{
	*size = strcmp(xattr, "security.capability") ? 1 : 20;
	return *size == 1 ? "1" : "\0\0\0\2\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
}

static int kernel_setxattr(const char *path, const char *name)
{
	size_t size;
	const char *value = value_of(name, &size);

	return RESULT(setxattr(path, name, value, size, 0));
}

static int kernel_chown(const char *path, unsigned detail)
{
	uid_t uid = 1001 + (detail >> 2 & 1);
	gid_t gid = 2001 + detail / 8 % 3;

	return RESULT(chown(path, detail & 1 ? (uid_t)-1 : uid, detail & 2 ? (gid_t)-1 : gid));
}

static int close_if(int fd)
{
	return fd < 0 ? -errno : close(fd);
}

static int kernel_names(const struct deed *d)
{
	const struct world *w = d->w;
	const char *file = w->file[0].path, *sub = w->sub[0].path, *fresh = path_of(w->dir[0].path, "new");

	switch (d->kind) {
	case CREATE_NEW:
		return close_if(open(fresh, O_CREAT | O_EXCL | O_RDWR, modes[d->detail % COUNT(modes)]));
	case MKDIR:
		return RESULT(mkdir(fresh, 0755));
	case MKDIR_EXISTING:
		return RESULT(mkdir(file, 0755));
	case UNLINK:
		return RESULT(unlink(file));
	case UNLINK_MISSING:
		return RESULT(unlink(fresh));
	case RMDIR:
		return RESULT(rmdir(sub));
	case RENAME_NEW:
		return RESULT(rename(file, path_of(w->dir[1].path, "new")));
	case RENAME_OVER:
		return RESULT(rename(file, w->file[1].path));
	case RENAME_SUB:
		return RESULT(rename(sub, path_of(w->dir[1].path, "new")));
	case RENAME_SUB_OVER:
		return RESULT(rename(sub, w->sub[1].path));
	case RENAME_HERE:
		return RESULT(rename(file, fresh));
	case EXCHANGE:
		return RESULT(renameat2(AT_FDCWD, d->detail & 1 ? sub : file, AT_FDCWD, w->file[1].path, RENAME_EXCHANGE));
	case LINK:
		return RESULT(link(file, path_of(w->dir[1].path, "new")));
	case SYMLINK:
		return RESULT(symlink("x", fresh));
	case MKFIFO:
		return RESULT(mkfifo(fresh, 0644));
	case MKDEV:
		return RESULT(mknod(fresh, S_IFCHR | 0644, makedev(1, 3)));
	default:
		return 0;
	}
}

static int kernel_objects(const struct deed *d)
{
	const struct world *w = d->w;
	const char *file = w->file[0].path, *sub = w->sub[0].path, *xattr = xattrs[d->detail % COUNT(xattrs)];
	struct stat st;
	char value[8];

	switch (d->kind) {
	case OPEN:
		return close_if(open(file, open_flags[d->detail % COUNT(open_flags)]));
	case OPEN_CREATE:
		return close_if(open(file, O_CREAT | open_flags[d->detail % COUNT(open_flags)], 0644));
	case CHMOD:
		return RESULT(chmod(file, modes[d->detail % COUNT(modes)]));
	case CHOWN:
		return kernel_chown(file, d->detail);
	case UTIMES:
		return RESULT(utimensat(AT_FDCWD, file, times_of[d->detail % COUNT(times_of)], 0));
	case TRUNCATE:
		return RESULT(truncate(file, 5));
	case SETXATTR:
		return kernel_setxattr(file, xattr);
	case GETXATTR:
		return RESULT(getxattr(file, xattr, value, sizeof(value)));
	case SETXATTR_SUB:
		return RESULT(setxattr(sub, "user.x", "1", 1, 0));
	case SETACL:
		return RESULT(setxattr(file, "system.posix_acl_access", small_acl, sizeof(small_acl), 0));
	case OPENDIR:
		return close_if(open(sub, O_RDONLY | O_DIRECTORY));
	case STAT:
		return RESULT(stat(file, &st));
	default:
		return kernel_names(d);
	}
}

static int our_names(struct tree *t, const struct deed *d)
{
	const struct world *w = d->w;
	const char *file = w->file[0].path, *sub = w->sub[0].path, *fresh = path_of(w->dir[0].path, "new");

	switch (d->kind) {
	case CREATE_NEW:
		return tree_create(t, fresh, O_EXCL | O_RDWR, modes[d->detail % COUNT(modes)], NULL);
	case MKDIR:
		return tree_mkdir(t, fresh, 0755);
	case MKDIR_EXISTING:
		return tree_mkdir(t, file, 0755);
	case UNLINK:
		return tree_unlink(t, file);
	case UNLINK_MISSING:
		return tree_unlink(t, fresh);
	case RMDIR:
		return tree_rmdir(t, sub);
	case RENAME_NEW:
		return tree_rename(t, file, path_of(w->dir[1].path, "new"), 0);
	case RENAME_OVER:
		return tree_rename(t, file, w->file[1].path, 0);
	case RENAME_SUB:
		return tree_rename(t, sub, path_of(w->dir[1].path, "new"), 0);
	case RENAME_SUB_OVER:
		return tree_rename(t, sub, w->sub[1].path, 0);
	case RENAME_HERE:
		return tree_rename(t, file, fresh, 0);
	case EXCHANGE:
		return tree_rename(t, d->detail & 1 ? sub : file, w->file[1].path, RENAME_EXCHANGE);
	case LINK:
		return tree_link(t, file, path_of(w->dir[1].path, "new"));
	case SYMLINK:
		return tree_symlink(t, "x", fresh);
	case MKFIFO:
		return tree_mknod(t, fresh, S_IFIFO | 0644, 0);
	case MKDEV:
		return tree_mknod(t, fresh, S_IFCHR | 0644, makedev(1, 3));
	default:
		return 0;
	}
}

static int our_chown(struct tree *t, const char *path, unsigned detail)
{
	struct setattr set = { .uid = 1001 + (detail >> 2 & 1), .gid = 2001 + detail / 8 % 3 };

	set.valid = (detail & 1 ? 0 : SET_UID) | (detail & 2 ? 0 : SET_GID);
	if (!set.valid)
		set.valid = SET_KILL_PRIV;
	return tree_setattr(t, path, &set);
}

static int our_getxattr(struct tree *t, const char *path, const char *name)
{
	struct blob value;
	int err = tree_getxattr(t, path, name, &value);

	free(value.bytes);
	return err;
}

static int our_objects(struct tree *t, const struct deed *d)
{
	const struct world *w = d->w;
	const char *file = w->file[0].path, *sub = w->sub[0].path, *xattr = xattrs[d->detail % COUNT(xattrs)];
	struct attr attr;

	switch (d->kind) {
	case OPEN:
		return tree_open_file(t, file, open_flags[d->detail % COUNT(open_flags)], NULL);
	case OPEN_CREATE:
		return tree_create(t, file, open_flags[d->detail % COUNT(open_flags)], 0644, NULL);
	case CHMOD:
		return tree_setattr(t, file, &(struct setattr){ .valid = SET_MODE, .mode = modes[d->detail % COUNT(modes)] });
	case CHOWN:
		return our_chown(t, file, d->detail);
	case UTIMES:
		return tree_setattr(t, file, &(struct setattr){ .valid = times_valid[d->detail % COUNT(times_of)] });
	case TRUNCATE:
		return tree_setattr(t, file, &(struct setattr){ .valid = SET_SIZE, .size = 5 });
	case SETXATTR:
		return tree_setxattr(t, file, xattr, "1", 1, 0);
	case GETXATTR:
		return our_getxattr(t, file, xattr);
	case SETXATTR_SUB:
		return tree_setxattr(t, sub, "user.x", "1", 1, 0);
	case SETACL:
		return tree_setxattr(t, file, "system.posix_acl_access", small_acl, sizeof(small_acl), 0);
	case OPENDIR:
		return tree_opendir(t, sub, NULL);
	case STAT:
		return tree_getattr(t, file, &attr);
	default:
		return our_names(t, d);
	}
}

static int ask_kernel_to(const struct deed *d)
{
	int status = 0;

	if (!fork()) {
		caller_become_for_good(&d->caller);
		_exit(-kernel_objects(d));
	}
	wait(&status);
	return -WEXITSTATUS(status);
}

static bool sysctl_on(const char *path)
{
	FILE *f = fopen(path, "r");
	int on = f ? getc(f) != '0' : false;

	if (f)
		fclose(f);
	return on;
}

/* Where the kernel goes beyond permissions (fs.protected_*: but for hard links the client's kernel decides), or the form of a value matters. */
static bool comparable(const struct deed *d)
{
	const char *xattr = xattrs[d->detail % COUNT(xattrs)];
	const struct world *w = d->w;

	if (d->kind == LINK && d->caller.uid && d->caller.uid != w->file[0].uid)
		return sysctl_on("/proc/sys/fs/protected_hardlinks");
	if (d->kind == OPEN_CREATE && w->dir[0].mode & S_ISVTX)
		return !sysctl_on("/proc/sys/fs/protected_regular");
	if (d->kind == CHOWN && (d->detail & 3) == 3) /* of another's file the kernel doesn't ask who may write to it */
		return !d->caller.uid || d->caller.uid == w->file[0].uid || !(w->file[0].mode & (S_ISUID | S_ISGID));
	if (d->kind == SETXATTR || d->kind == GETXATTR)
		return !strncmp(xattr, "user", 4) || (d->caller.uid ? true : !strcmp(xattr, "trusted.x"));
	return true;
}

/* The modes that are left behind: setuid and setgid that were dropped silently. */
static void compare_modes(struct tree *t, const struct deed *d)
{
	bool set = d->kind == CHMOD || d->kind == CHOWN;
	const char *path = set ? d->w->file[0].path : path_of(d->w->dir[0].path, "new");
	struct tree root = *t;
	struct attr attr;
	struct stat st;

	if (!set && d->kind != CREATE_NEW && d->kind != MKDIR)
		return;
	root.at = tree_find(t, "memory");
	CHECK(!stat(path, &st) && !tree_getattr(&root, path, &attr));
	if (d->kind == CHOWN && !(st.st_mode & S_IXGRP)) /* of one who isn't in the group: a mark of old mandatory locks */
		st.st_mode |= attr.mode & S_ISGID;
	if (attr.mode == st.st_mode && attr.gid == st.st_gid)
		return;
	fprintf(stderr, "%s by %s: the kernel leaves %o (group %u), access %o (%u)\n", kind_names[d->kind],
		caller_text(&d->caller), st.st_mode, st.st_gid, attr.mode, attr.gid);
	failures++;
}

static void complain(const struct deed *d, int kernel, int ours)
{
	fprintf(stderr, "%s (%u) by %s: the kernel says %s, access says %s\n", kind_names[d->kind], d->detail,
		caller_text(&d->caller), kernel ? strerror(-kernel) : "yes", ours ? strerror(-ours) : "yes");
	for (int i = 0; i < 2; i++) {
		fprintf(stderr, "  %s\n", object_text(&d->w->dir[i]));
		fprintf(stderr, "  %s\n", object_text(&d->w->file[i]));
		fprintf(stderr, "  %s\n", object_text(&d->w->sub[i]));
	}
	failures++;
}

void deeds_like_the_kernel(void *arg)
{
	struct tree *t = arg;

	for (int i = (int)first_moment(1); i < 2500 && failures < 10; i += (int)moment_step(1)) {
		struct world w;
		struct deed d = { .w = &w, .kind = dice(KINDS), .detail = dice(64) };
		int kernel, ours;

		make_world(t, &w, i);
		d.caller = caller_any();
		if (!comparable(&d))
			continue;
		kernel = ask_kernel_to(&d);
		caller_become(t, &d.caller);
		ours = our_objects(t, &d);
		if (kernel != ours)
			complain(&d, kernel, ours);
		else if (!kernel)
			compare_modes(t, &d);
	}
}
