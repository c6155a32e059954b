/* SPDX-License-Identifier: Apache-2.0 */
/* features/access against the kernel: the same objects are made on a real file system and over debug/memory, the same callers ask
 * for the same things, and both must answer alike. Needs root (to be everyone) and a file system with ACLs; else skipped. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/posix_acl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "tree.h"

enum { OPEN_FOR_EXEC = 040 }; /* __FMODE_EXEC, as features/access knows it */

#define GRAPH                                                                                                                  \
	"volume memory\ntype debug/memory\nend-volume\n"                                                                       \
	"volume stats\ntype debug/io-stats\nsubvolumes memory\nend-volume\n"                                                   \
	"volume access\ntype features/access\nsubvolumes stats\nend-volume\n"

static char dir[64] = "access-test.XXXXXX";
static unsigned seed;
static atomic_int failures;
#define CHECK(condition)                                                                                                       \
	((condition) ? 0 : (fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition), failures++))

static unsigned dice(unsigned sides)
{
	return rand_r(&seed) / 7 % sides;
}

struct caller {
	uid_t uid;
	gid_t gid;
	int count;
	gid_t groups[3];
};

static const gid_t all_groups[] = { 2001, 2002, 2003 };

static struct caller any_caller(void)
{
	struct caller c = { .uid = (uid_t[]){ 1001, 1001, 1002, 1003, 0 }[dice(5)], .gid = 2000 + dice(4) };

	for (int i = 0; i < 3; i++)
		if (dice(3) == 0)
			c.groups[c.count++] = all_groups[i];
	return c;
}

static void become(struct tree *t, const struct caller *c)
{
	t->uid = c->uid;
	t->gid = c->gid;
	t->groups = c->groups;
	t->group_count = c->count;
}

static void become_for_good(const struct caller *c)
{
	umask(0);
	if (setgroups(c->count, c->groups) || setresgid(c->gid, c->gid, c->gid) || setresuid(c->uid, c->uid, c->uid))
		_exit(255);
}

/* ---- objects that are the same on both sides ---- */

struct object {
	char path[48];
	mode_t mode; /* with its type: S_IFREG or S_IFDIR */
	uid_t uid;
	gid_t gid;
	uint8_t acl[4 + 8 * 7];
	size_t acl_size; /* 0: none */
};

static void acl_add(struct object *o, uint16_t tag, uint16_t perm, uint32_t id)
{
	uint8_t *at = o->acl + o->acl_size;

	memcpy(at, &tag, 2);
	memcpy(at + 2, &perm, 2);
	memcpy(at + 4, &id, 4);
	o->acl_size += 8;
}

static void any_acl(struct object *o)
{
	memcpy(o->acl, "\2\0\0\0", 4);
	o->acl_size = 4;
	acl_add(o, ACL_USER_OBJ, dice(8), -1);
	if (dice(2))
		acl_add(o, ACL_USER, dice(8), 1002);
	acl_add(o, ACL_GROUP_OBJ, dice(8), -1);
	if (dice(2))
		acl_add(o, ACL_GROUP, dice(8), 2001);
	if (dice(2))
		acl_add(o, ACL_GROUP, dice(8), 2002);
	acl_add(o, ACL_MASK, dice(3) ? 7 : dice(8), -1);
	acl_add(o, ACL_OTHER, dice(8), -1);
}

static struct object any_object(const char *path, mode_t type)
{
	struct object o = { .mode = type | (dice(2) ? dice(01000) : 0777 & ~dice(01000) & ~dice(01000)) };

	snprintf(o.path, sizeof(o.path), "%s", path);
	o.uid = 1001 + dice(2);
	o.gid = 2001 + dice(2);
	if (dice(4) == 0)
		o.mode |= S_ISGID;
	if (dice(3) == 0)
		o.mode |= type == S_IFDIR ? S_ISVTX : S_ISUID;
	if (dice(3) == 0)
		any_acl(&o);
	return o;
}

/* The ACL changes the mode: what the kernel made of it is what the memory gets. */
static void make(struct tree *t, struct object *o)
{
	struct tree root = *t;
	struct setattr set = { .valid = SET_MODE | SET_UID | SET_GID };
	struct stat st;
	int err = S_ISDIR(o->mode) ? mkdir(o->path, 0700) : mknod(o->path, S_IFREG | 0600, 0);

	root.at = tree_find(t, "memory");
	root.uid = 0;
	CHECK(!err && !chown(o->path, o->uid, o->gid) && !chmod(o->path, o->mode & 07777));
	CHECK(!o->acl_size || !setxattr(o->path, "system.posix_acl_access", o->acl, o->acl_size, 0));
	CHECK(!stat(o->path, &st));
	CHECK(!(S_ISDIR(o->mode) ? tree_mkdir(&root, o->path, 0700) : tree_mknod(&root, o->path, S_IFREG | 0600, 0)));
	set.uid = o->uid;
	set.gid = o->gid;
	CHECK(!tree_setattr(&root, o->path, &set));
	set = (struct setattr){ .valid = SET_MODE, .mode = st.st_mode & 07777 };
	CHECK(!tree_setattr(&root, o->path, &set));
	CHECK(!o->acl_size || !tree_setxattr(&root, o->path, "system.posix_acl_access", o->acl, o->acl_size, 0));
}

static const char *describe(const struct object *o)
{
	static char text[400];
	int n = snprintf(text, sizeof(text), "%s %o %u:%u", o->path, o->mode, o->uid, o->gid);

	for (size_t i = 4; i < o->acl_size; i += 8)
		n += snprintf(text + n, sizeof(text) - n, " acl(%x,%d,%u)", o->acl[i], o->acl[i + 2],
			      *(const uint32_t *)(o->acl + i + 4));
	return text;
}

static const char *describe_caller(const struct caller *c)
{
	static char text[100];
	int n = snprintf(text, sizeof(text), "%u:%u", c->uid, c->gid);

	for (int i = 0; i < c->count; i++)
		n += snprintf(text + n, sizeof(text) - n, ",%u", c->groups[i]);
	return text;
}

/* ---- access(2) ---- */

enum { OBJECTS = 300, CALLERS = 24 };

static void ask_kernel(const struct object *objects, const struct caller *c, int8_t (*answer)[8])
{
	int fds[2];

	CHECK(!pipe(fds));
	if (!fork()) {
		become_for_good(c);
		for (int i = 0; i < OBJECTS; i++)
			for (int mask = 0; mask < 8; mask++)
				answer[i][mask] = access(objects[i].path, mask) ? -errno : 0;
		_exit(write(fds[1], answer, OBJECTS * 8) != OBJECTS * 8);
	}
	close(fds[1]);
	CHECK(read(fds[0], answer, OBJECTS * 8) == OBJECTS * 8);
	close(fds[0]);
	wait(NULL);
}

static void compare_access(struct tree *t, const struct object *objects, const struct caller *c, int8_t (*answer)[8])
{
	become(t, c);
	for (int i = 0; i < OBJECTS; i++) {
		for (int mask = 0; mask < 8; mask++) {
			int err = tree_access(t, objects[i].path, mask);

			if (err == answer[i][mask])
				continue;
			fprintf(stderr, "%s, asked for %d by %s: the kernel says %d, access says %d\n", describe(&objects[i]),
				mask, describe_caller(c), answer[i][mask], err);
			failures++;
		}
	}
}

/* Without groups the answer must be the same, or that they are needed; and that only where some group would make a difference. */
static void compare_unknown(struct tree *t, const struct object *o, const struct caller *c, int mask)
{
	struct caller other = *c;
	int some[2] = { 0 }, err;

	for (unsigned subset = 0; subset < 8; subset++) {
		other.count = 0;
		for (int i = 0; i < 3; i++)
			if (subset >> i & 1)
				other.groups[other.count++] = all_groups[i];
		become(t, &other);
		some[tree_access(t, o->path, mask) != 0]++;
	}
	t->group_count = -1;
	err = tree_access(t, o->path, mask);
	if (err == -ENEEDGROUPS ? some[0] && some[1] : err ? !some[0] : !some[1])
		return;
	fprintf(stderr, "%s, asked for %d by %s without groups: %d, with: %d times yes, %d times no\n", describe(o), mask,
		describe_caller(c), err, some[0], some[1]);
	failures++;
}

static void access_like_the_kernel(void *arg)
{
	struct tree *t = arg;
	static struct object objects[OBJECTS];
	static int8_t answer[OBJECTS][8];

	for (int i = 0; i < OBJECTS; i++) {
		char path[32];

		snprintf(path, sizeof(path), "o%d", i);
		objects[i] = any_object(path, dice(3) ? S_IFREG : S_IFDIR);
		make(t, &objects[i]);
	}
	for (int i = 0; i < CALLERS; i++) {
		struct caller c = any_caller();

		ask_kernel(objects, &c, answer);
		compare_access(t, objects, &c, answer);
		for (int n = 0; n < OBJECTS; n++)
			compare_unknown(t, &objects[n], &c, dice(8));
	}
}

/* ---- all that one can do with names and attributes ---- */

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
		w->dir[i] = any_object(path, S_IFDIR);
		if (dice(2))
			w->dir[i].mode |= 0733;
		w->file[i] = any_object(path_of(path, "file"), S_IFREG);
		w->sub[i] = any_object(path_of(path, "sub"), S_IFDIR);
		make(t, &w->dir[i]);
		make(t, &w->file[i]);
		make(t, &w->sub[i]);
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
		become_for_good(&d->caller);
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

/* Where the kernel goes beyond permissions (fs.protected_*: the client's kernel decides), or the form of a value matters. */
static bool comparable(const struct deed *d)
{
	const char *xattr = xattrs[d->detail % COUNT(xattrs)];
	const struct world *w = d->w;

	if (d->kind == LINK && d->caller.uid && d->caller.uid != w->file[0].uid)
		return !sysctl_on("/proc/sys/fs/protected_hardlinks");
	if (d->kind == OPEN_CREATE && w->dir[0].mode & S_ISVTX)
		return !sysctl_on("/proc/sys/fs/protected_regular");
	if (d->kind == CHOWN && (d->detail & 3) == 3)
		return false;
	if (d->kind == SETXATTR || d->kind == GETXATTR)
		return !strncmp(xattr, "user", 4) || (d->caller.uid ? true : !strcmp(xattr, "trusted.x"));
	return true;
}

/* The modes that are left behind: setgid that was dropped silently. */
static void compare_modes(struct tree *t, const struct deed *d)
{
	const char *path = d->kind == CHMOD ? d->w->file[0].path : path_of(d->w->dir[0].path, "new");
	struct tree root = *t;
	struct attr attr;
	struct stat st;

	if (d->kind != CHMOD && d->kind != CREATE_NEW && d->kind != MKDIR)
		return;
	root.at = tree_find(t, "memory");
	CHECK(!stat(path, &st) && !tree_getattr(&root, path, &attr));
	if (attr.mode == st.st_mode && attr.gid == st.st_gid)
		return;
	fprintf(stderr, "%s by %s: the kernel leaves %o (group %u), access %o (%u)\n", kind_names[d->kind],
		describe_caller(&d->caller), st.st_mode, st.st_gid, attr.mode, attr.gid);
	failures++;
}

static void complain(const struct deed *d, int kernel, int ours)
{
	fprintf(stderr, "%s (%u) by %s: the kernel says %s, access says %s\n", kind_names[d->kind], d->detail,
		describe_caller(&d->caller), kernel ? strerror(-kernel) : "yes", ours ? strerror(-ours) : "yes");
	for (int i = 0; i < 2; i++) {
		fprintf(stderr, "  %s\n", describe(&d->w->dir[i]));
		fprintf(stderr, "  %s\n", describe(&d->w->file[i]));
		fprintf(stderr, "  %s\n", describe(&d->w->sub[i]));
	}
	failures++;
}

static void deeds_like_the_kernel(void *arg)
{
	struct tree *t = arg;

	for (int i = 0; i < 2500 && failures < 10; i++) {
		struct world w;
		struct deed d = { .w = &w, .kind = dice(KINDS), .detail = dice(64) };
		int kernel, ours;

		make_world(t, &w, i);
		d.caller = any_caller();
		if (!comparable(&d))
			continue;
		kernel = ask_kernel_to(&d);
		become(t, &d.caller);
		ours = our_objects(t, &d);
		if (kernel != ours)
			complain(&d, kernel, ours);
		else if (!kernel)
			compare_modes(t, &d);
	}
}

/* ---- what the kernel can't be asked ---- */

static void expect_open_file_rights(struct tree *t)
{
	struct caller c = { .uid = 1001, .gid = 2001 };
	struct buffer *data = NULL;
	struct file *file;
	struct setattr set = { .valid = SET_MODE, .mode = 01777 };

	t->uid = 0;
	CHECK(!tree_mkdir(t, "tmp", 0777));
	CHECK(!tree_setattr(t, "tmp", &set));
	become(t, &c);
	CHECK(!tree_create(t, "tmp/f", O_RDWR, 0, &file)); /* the creator may use what the mode forbids */
	CHECK(!tree_write(t, file, 0, "x", 1));
	CHECK(tree_open_file(t, "tmp/f", O_RDONLY, NULL) == -EACCES);
	tree_release(t, file);
	set.mode = 0600;
	CHECK(!tree_setattr(t, "tmp/f", &set));
	CHECK(!tree_open_file(t, "tmp/f", O_RDONLY, &file));
	CHECK(tree_write(t, file, 0, "x", 1) == -EBADF);
	set.mode = 0;
	CHECK(!tree_setattr(t, "tmp/f", &set)); /* an open file keeps its right */
	CHECK(!tree_read(t, file, 0, 1, &data) && data->size == 1);
	buffer_unref(data);
	tree_release(t, file);
	set.mode = 0600;
	CHECK(!tree_setattr(t, "tmp/f", &set));
	CHECK(!tree_open_file(t, "tmp/f", O_WRONLY, &file));
	CHECK(tree_read(t, file, 0, 1, &data) == -EBADF);
	tree_release(t, file);
}

static void open_files(void *arg)
{
	expect_open_file_rights(arg);
}

static void setuid_is_lost(void *arg)
{
	struct tree *t = arg;
	struct caller owner = { .uid = 1001, .gid = 2001 }, other = { .uid = 1002, .gid = 2001 };
	struct setattr set = { .valid = SET_MODE, .mode = 0777 };
	struct file *file;
	struct attr attr;

	t->uid = 0;
	CHECK(!tree_mkdir(t, "tmp", 0777));
	CHECK(!tree_setattr(t, "tmp", &set));
	for (int how = 0; how < 3; how++) {
		become(t, &owner);
		CHECK(!tree_create(t, "tmp/s", O_RDWR, 0, NULL));
		set.mode = 04777;
		CHECK(!tree_setattr(t, "tmp/s", &set));
		become(t, &other);
		if (how == 0) {
			CHECK(!tree_open_file(t, "tmp/s", O_WRONLY, &file));
			CHECK(!tree_write(t, file, 0, "x", 1));
			tree_release(t, file);
		} else if (how == 1) {
			CHECK(!tree_open_file(t, "tmp/s", O_RDWR | O_TRUNC, NULL));
		} else {
			CHECK(!tree_setattr(t, "tmp/s", &(struct setattr){ .valid = SET_SIZE }));
		}
		CHECK(!tree_getattr(t, "tmp/s", &attr) && !(attr.mode & S_ISUID));
		CHECK(!tree_unlink(t, "tmp/s"));
	}
}

/* What only a client that speaks the wire by itself would ask for. */
static void tricks(void *arg)
{
	struct tree *t = arg;
	struct caller mallory = { .uid = 1001, .gid = 2001 };
	struct setattr_in set = { .set.valid = SET_SIZE };
	struct setattr_out out;
	struct inode *victim;
	struct file *own;
	struct attr attr;

	t->uid = 0;
	CHECK(!tree_mkdir(t, "tmp", 01777));
	CHECK(!tree_setattr(t, "tmp", &(struct setattr){ .valid = SET_MODE, .mode = 01777 }));
	CHECK(!tree_create(t, "tmp/program", O_RDWR, 0755, NULL));
	CHECK(!tree_setattr(t, "tmp/program", &(struct setattr){ .valid = SET_SIZE, .size = 5 }));
	CHECK(!tree_walk(t, "tmp/program", &victim));
	become(t, &mallory);
	CHECK(tree_open_file(t, "tmp/program", O_RDWR | OPEN_FOR_EXEC, NULL) == -EACCES);
	CHECK(tree_open_file(t, "tmp/program", O_WRONLY | OPEN_FOR_EXEC, NULL) == -EACCES);
	CHECK(!tree_open_file(t, "tmp/program", O_RDONLY | OPEN_FOR_EXEC, NULL));
	CHECK(!tree_create(t, "tmp/own", O_RDWR, 0644, &own));
	set.inode = victim;
	set.file = own;
	CHECK(tree_call(t, t->at, FOP_setattr, &set, &out) == -EINVAL);
	set.set.valid = SET_MTIME_NOW;
	CHECK(tree_call(t, t->at, FOP_setattr, &set, &out) == -EINVAL);
	CHECK(!tree_getattr(t, "tmp/program", &attr) && attr.size == 5);
	tree_release(t, own);
	CHECK(tree_unlink(t, "tmp/program") == -EPERM);
	CHECK(tree_rename(t, "tmp/own", "tmp/program", 0) == -EPERM);
	CHECK(!tree_rename(t, "tmp/own", "tmp/new", 0));
	CHECK(!tree_unlink(t, "tmp/new"));
	inode_unref(victim);
}

static long calls(struct tree *t, const char *fop)
{
	char *argv[] = { "stats", "json", NULL }, *text = NULL, *at, key[64];
	struct xlator *x = tree_find(t, "stats");
	size_t size;
	FILE *f = open_memstream(&text, &size);
	long count;

	x->type->command(x, 2, argv, f);
	fclose(f);
	snprintf(key, sizeof(key), "\"%s\":{\"count\":", fop);
	at = strstr(text, key);
	count = at ? atol(at + strlen(key)) : 0;
	free(text);
	return count;
}

static void ask_often(void *arg)
{
	struct tree *t = arg;
	struct caller c = { .uid = 1001, .gid = 2001, .count = 1, .groups = { 2002 } };
	struct inode *inode;
	struct access_in in = { .mask = R_OK };
	struct access_out out;
	long before;

	t->uid = 0;
	CHECK(!tree_create(t, "f", O_RDWR, 0640, NULL));
	CHECK(!tree_walk(t, "f", &inode));
	in.inode = inode;
	become(t, &c);
	CHECK(tree_call(t, t->at, FOP_access, &in, &out) == -EACCES);
	before = calls(t, "getattr") + calls(t, "getxattr");
	for (int i = 0; i < 1000; i++)
		CHECK(tree_call(t, t->at, FOP_access, &in, &out) == -EACCES);
	CHECK(calls(t, "getattr") + calls(t, "getxattr") == before);
	t->uid = 0;
	CHECK(!tree_setattr(t, "f", &(struct setattr){ .valid = SET_GID, .gid = 2002 }));
	become(t, &c);
	CHECK(!tree_call(t, t->at, FOP_access, &in, &out)); /* but a change is seen at once */
	inode_unref(inode);
}

/* ---- compound ---- */

static void compounds(void *arg)
{
	struct tree *t = arg;
	struct caller c = { .uid = 1001, .gid = 2001 };
	struct lookup_in look = { .loc.name = "secret" };
	struct open_in open = { .flags = O_RDONLY };
	struct unlink_in unlink = { .loc.name = "secret" };
	struct access_in unsound = { 0 };
	struct step steps[] = { { .fop = FOP_lookup, .in = &look }, { .fop = FOP_open, .in = &open } };
	struct compound_in in = { .steps = { 2, steps } };
	struct compound_out out = { 0 };
	struct inode *root;

	t->uid = 0;
	CHECK(!tree_create(t, "secret", O_RDWR, 0600, NULL));
	CHECK(!tree_walk(t, "", &root));
	look.loc.parent = unlink.loc.parent = root;
	become(t, &c);
	/* The memory has no compound: what is refused must be refused without it, what is allowed must reach it. */
	steps[0].fop = FOP_unlink;
	steps[0].in = &unlink;
	CHECK(!tree_call(t, t->at, FOP_compound, &in, &out));
	CHECK(out.results.count == 1 && out.results.result[0].status == -EACCES && out.results.result[0].fop == FOP_unlink);
	fop_out_clear(FOP_compound, &out);
	steps[0].fop = FOP_open; /* of nothing */
	steps[0].in = &open;
	CHECK(!tree_call(t, t->at, FOP_compound, &in, &out));
	CHECK(out.results.count == 1 && out.results.result[0].status == -EINVAL);
	fop_out_clear(FOP_compound, &out);
	steps[0].fop = FOP_access;
	steps[0].in = &unsound;
	CHECK(tree_call(t, t->at, FOP_compound, &in, &out) == -EINVAL);
	steps[0].fop = FOP_lookup;
	steps[0].in = &look;
	CHECK(tree_call(t, t->at, FOP_compound, &in, &out) == -EOPNOTSUPP);
	inode_unref(root);
}

/* ---- the frame ---- */

static void run(task_fn *fn)
{
	struct problem problem = { "" };
	struct tree t;
	char command[128];

	failures = 0;
	if (geteuid())
		skip();
	strcpy(dir, "/var/tmp/access-test.XXXXXX");
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chmod(dir, 0755), 0);
	assert_int_equal(chdir(dir), 0);
	umask(0);
	if (tree_open(&t, GRAPH, &problem))
		fail_msg("%s", problem.text);
	task_call(fn, &t);
	tree_close(&t);
	assert_int_equal(chdir("/"), 0);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
	assert_int_equal(failures, 0);
}

#define TEST(property, fn)                                                                                                     \
	static void property(void **state)                                                                                     \
	{                                                                                                                      \
		(void)state;                                                                                                   \
		run(fn);                                                                                                       \
	}
TEST(access_answers_like_the_kernel_and_asks_for_groups_only_if_needed, access_like_the_kernel)
TEST(each_operation_is_allowed_or_refused_like_by_the_kernel, deeds_like_the_kernel)
TEST(open_files_keep_the_right_they_were_opened_with, open_files)
TEST(who_writes_or_truncates_takes_setuid_away, setuid_is_lost)
TEST(a_forged_request_gets_no_more_than_an_honest_one, tricks)
TEST(what_is_known_is_not_asked_again, ask_often)
TEST(each_step_of_a_compound_is_judged, compounds)

static int start(void **state)
{
	const char *given = getenv("TEST_SEED");

	(void)state;
	seed = given ? (unsigned)atol(given) : (unsigned)clock_wall_ns();
	printf("TEST_SEED=%u\n", seed);
	return runtime_start(2, 0);
}

static int stop(void **state)
{
	(void)state;
	runtime_stop();
	return 0;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(access_answers_like_the_kernel_and_asks_for_groups_only_if_needed),
		cmocka_unit_test(each_operation_is_allowed_or_refused_like_by_the_kernel),
		cmocka_unit_test(open_files_keep_the_right_they_were_opened_with),
		cmocka_unit_test(a_forged_request_gets_no_more_than_an_honest_one),
		cmocka_unit_test(who_writes_or_truncates_takes_setuid_away),
		cmocka_unit_test(what_is_known_is_not_asked_again),
		cmocka_unit_test(each_step_of_a_compound_is_judged),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
