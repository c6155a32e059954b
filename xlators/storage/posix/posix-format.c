/* SPDX-License-Identifier: Apache-2.0 */
/* The brick's private directory: .stratus/format, lock, keys and staging (doc/disk-format.md). */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/xattr.h>

#include "posix.h"

enum { FORMAT_VERSION = 1, FORMAT_TEXT = 256 };

int format_get(struct brick *b, const char *name, char *text, size_t size)
{
	cleanup_fd int fd = -1;
	char path[64];
	ssize_t n;

	snprintf(path, sizeof path, PRIVATE_DIRECTORY "/%s", name);
	fd = openat(b->root_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return result(-1);
	n = read(fd, text, size - 1);
	if (n < 0)
		return result(n);
	text[n] = '\0';
	return (int)n;
}

static int write_whole(int fd, const char *text, size_t size)
{
	ssize_t n = write(fd, text, size);

	if (n >= 0 && (size_t)n != size)
		return -ENOSPC;
	return n < 0 ? result(n) : result(fsync(fd));
}

int format_put(struct brick *b, const char *name, const char *text, size_t size)
{
	char fresh[64];
	cleanup_fd int fd = -1;
	int err;

	snprintf(fresh, sizeof fresh, "%s.new", name);
	fd = openat(b->private_fd, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	err = fd < 0 ? result(fd) : write_whole(fd, text, size);
	if (!err)
		err = result(renameat(b->private_fd, fresh, b->private_fd, name));
	return err ? err : result(fsync(b->private_fd));
}

/* Anything but lost+found and an unfinished private directory makes it somebody's data. */
static int directory_empty(struct brick *b, bool *empty)
{
	int fd = openat(b->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	int err;

	if (!dir) {
		err = result(-1);
		fd_close(&fd);
		return err;
	}
	*empty = true;
	while ((errno = 0, e = readdir(dir)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && strcmp(e->d_name, "lost+found") &&
		    strcmp(e->d_name, PRIVATE_DIRECTORY))
			*empty = false;
	err = -errno; /* what can't be read may be somebody's data */
	closedir(dir);
	return err;
}

static int same_brick(struct brick *b, const struct gfid *volume, const struct gfid *id, struct problem *problem)
{
	char text[4][GFID_TEXT];

	if (gfid_equal(volume, &b->volume) && gfid_equal(id, &b->id))
		return 0;
	return problem_set(problem, EINVAL,
			   "%s is brick %s of volume %s, not brick %s of volume %s as the volfile says: "
			   "correct the volfile, or the directory",
			   b->directory, gfid_text(id, text[0]), gfid_text(volume, text[1]), gfid_text(&b->id, text[2]),
			   gfid_text(&b->volume, text[3]));
}

static int format_parse(struct brick *b, const char *text, struct problem *problem)
{
	char volume_text[GFID_TEXT] = "", id_text[GFID_TEXT] = "";
	struct gfid volume, id;
	int version = 0;

	if (sscanf(text, "stratus brick %d\nvolume %36s\nbrick %36s\n", &version, volume_text, id_text) < 1)
		return problem_set(problem, EINVAL,
				   "%s/" PRIVATE_DIRECTORY "/format is damaged: restore it (doc/disk-format.md)", b->directory);
	if (version != FORMAT_VERSION)
		return problem_set(problem, EINVAL, "brick %s has format %d; this program knows format %d", b->directory,
				   version, FORMAT_VERSION);
	if (gfid_parse(volume_text, &volume) < 0 || gfid_parse(id_text, &id) < 0)
		return problem_set(problem, EINVAL,
				   "%s/" PRIVATE_DIRECTORY "/format names no volume and brick: restore it "
				   "(doc/disk-format.md)",
				   b->directory);
	return same_brick(b, &volume, &id, problem);
}

int format_check(struct brick *b, bool *fresh, struct problem *problem)
{
	char text[FORMAT_TEXT];
	bool empty = false;
	int err = format_get(b, "format", text, sizeof text);

	*fresh = err == -ENOENT;
	if (err >= 0)
		return format_parse(b, text, problem);
	if (!*fresh)
		return problem_set(problem, -err, "can't read %s/" PRIVATE_DIRECTORY "/format: %s", b->directory,
				   strerror(-err));
	if (b->format == FORMAT_NEVER)
		return problem_set(problem, EINVAL,
				   "%s is no brick and \"option format never\" forbids to make it one: is its "
				   "disk mounted?",
				   b->directory);
	err = directory_empty(b, &empty);
	if (err)
		return problem_set(problem, -err, "can't read %s: %s", b->directory, strerror(-err));
	if (!empty)
		return problem_set(problem, ENOTEMPTY, "%s is no brick and is not empty: name an empty directory",
				   b->directory);
	return 0;
}

/* A directory of ours keeps nothing of what the parent hands down. */
static int private_directory(int parent, const char *name, int *fd)
{
	struct stat st;

	if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
		return result(-1);
	*fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*fd < 0 || fstat(*fd, &st) < 0)
		return result(-1);
	if (st.st_uid != geteuid()) /* somebody has put his own in its place: keys and ids in it are not ours */
		return -EPERM;
	fremovexattr(*fd, ACL_DEFAULT);
	fremovexattr(*fd, ACL_ACCESS);
	return result(fchmod(*fd, 0700));
}

static int take_lock(struct brick *b, struct problem *problem)
{
	b->lock_fd = openat(b->private_fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (b->lock_fd < 0)
		return problem_set(problem, errno, "can't open %s/" PRIVATE_DIRECTORY "/lock: %s", b->directory,
				   strerror(errno));
	if (flock(b->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return problem_set(problem, errno == EWOULDBLOCK ? EBUSY : errno,
				   "brick %s is being served already: stop the other stratusd, or remove one of two volumes "
				   "with this directory",
				   b->directory);
	return 0;
}

static int clear_staging(struct brick *b)
{
	int fd = openat(b->staging_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!dir)
		return result(-1);
	while ((e = readdir(dir)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && unlinkat(b->staging_fd, e->d_name, 0) < 0)
			unlinkat(b->staging_fd, e->d_name, AT_REMOVEDIR);
	closedir(dir);
	return 0;
}

static int write_format(struct brick *b)
{
	char text[FORMAT_TEXT], volume[GFID_TEXT], id[GFID_TEXT];
	struct hold root = { .fd = b->root_fd, .lent = true };
	uint64_t now = clock_wall_ns();
	struct identity identity;
	int n, err;

	identity_make(&identity, &gfid_root, (struct time){ (int64_t)(now / 1000000000), (uint32_t)(now % 1000000000) });
	err = identity_write(&root, &identity, 0);
	if (!err)
		err = keys_create(b);
	if (!err)
		err = result(fsync(b->root_fd));
	if (err)
		return err;
	n = snprintf(text, sizeof text, "stratus brick %d\nvolume %s\nbrick %s\n", FORMAT_VERSION,
		     gfid_text(&b->volume, volume), gfid_text(&b->id, id));
	return format_put(b, "format", text, (size_t)n); /* last: without it the rest counts for nothing */
}

static bool is_full(int err)
{
	return err == ENOSPC || err == EDQUOT;
}

/* What creation relies on: nameless files and trusted attributes. A brick that is full tells nothing of that, and can be read. */
static int try_creation(struct brick *b, struct problem *problem)
{
	cleanup_fd int fd = openat(b->staging_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

	if (fd < 0 && is_full(errno))
		return 0;
	if (fd < 0)
		return problem_set(problem, errno,
				   "the file system of %s can't make nameless files (O_TMPFILE: %s): use ext4, XFS "
				   "or Btrfs",
				   b->directory, strerror(errno));
	if (fsetxattr(fd, IDENTITY_XATTR, "", 0, 0) < 0 && !is_full(errno))
		return problem_set(problem, errno,
				   "the file system of %s can't keep trusted extended attributes (%s): use ext4, "
				   "XFS or Btrfs, as root in the first user namespace",
				   b->directory, strerror(errno));
	return 0;
}

static int open_locked(struct brick *b, struct problem *problem)
{
	bool fresh;
	int err = take_lock(b, problem);

	if (!err)
		err = format_check(b, &fresh, problem);
	if (err)
		return err;
	err = private_directory(b->private_fd, "staging", &b->staging_fd);
	if (!err)
		err = clear_staging(b);
	if (err)
		return problem_set(problem, -err, "can't use %s/" PRIVATE_DIRECTORY "/staging: %s", b->directory,
				   strerror(-err));
	err = try_creation(b, problem);
	if (!err && fresh && (err = write_format(b)))
		problem_set(problem, -err, "can't format %s: %s", b->directory, strerror(-err));
	return err;
}

int format_open(struct brick *b, struct problem *problem)
{
	bool fresh;
	int err = format_check(b, &fresh, problem);

	if (err)
		return err;
	err = private_directory(b->root_fd, PRIVATE_DIRECTORY, &b->private_fd);
	if (err == -EPERM)
		return problem_set(problem, EPERM,
				   "%s/" PRIVATE_DIRECTORY
				   " does not belong to the user that serves the brick: who put it there? Find the "
				   "one that was there before",
				   b->directory);
	if (err)
		return problem_set(problem, -err, "can't make %s/" PRIVATE_DIRECTORY ": %s", b->directory, strerror(-err));
	return open_locked(b, problem);
}

void format_close(struct brick *b)
{
	fd_close(&b->staging_fd);
	fd_close(&b->private_fd);
	fd_close(&b->lock_fd);
}
