/* SPDX-License-Identifier: Apache-2.0 */
/* storage/posix: open files, their data and their attributes. */
#include "posix-test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

/* ---- data ---- */

enum { APPENDS = 400, APPENDERS = 4 };
struct appender {
	struct file *file;
	char letter;
	uint64_t at[APPENDS];
	atomic_int *left;
	struct task *waiter;
};

static void append_many(void *arg)
{
	struct appender *a = arg;
	char bytes[100];
	REQUEST(q, 0);

	memset(bytes, a->letter, sizeof bytes);
	for (int i = 0; i < APPENDS; i++) {
		if (ask_put(&q.r, a->file, 0, WRITE_APPEND, bytes, sizeof bytes, &a->at[i]) != sizeof bytes)
			failures++;
		if (i % 16 == 0)
			task_yield();
	}
	atomic_fetch_sub(a->left, 1);
	task_wake(a->waiter);
}

PROPERTY(appends_never_overlap)
{
	static struct appender a[APPENDERS];
	cleanup_inode struct inode *f = NULL;
	cleanup_file struct file *one = NULL, *two = NULL;
	atomic_int left = APPENDERS;
	struct open_out out = { 0 };
	char bytes[100];
	REQUEST(q, 0);

	CHECK_INT(ask_make_file(root, "log", &f, &one), 0);
	CHECK_INT(open_on(&q.r, brick, &(struct open_in){ f, O_RDWR | O_APPEND }, &out), 0);
	two = out.file;
	for (int i = 0; i < APPENDERS; i++) { /* two on each of two open files, on both shards */
		a[i] = (struct appender){
			.file = i % 2 ? one : two, .letter = (char)('a' + i), .left = &left, .waiter = task_self()
		};
		CHECK_INT(task_spawn(runtime_shard((unsigned)i / 2), append_many, &a[i]), 0);
	}
	while (atomic_load(&left))
		task_wait(NO_DEADLINE);
	for (int i = 0; i < APPENDERS; i++)
		for (int k = 0; k < APPENDS; k++) {
			CHECK_INT(ask_get(one, a[i].at[k], bytes, sizeof bytes), sizeof bytes);
			for (size_t b = 0; b < sizeof bytes; b++)
				CHECK_INT(bytes[b], a[i].letter);
		}
	struct attr attr;

	CHECK_INT(ask_attr(f, NULL, &attr), 0);
	CHECK_INT(attr.size, APPENDERS * APPENDS * 100);
}

PROPERTY(an_unlinked_open_file_lives_on)
{
	cleanup_inode struct inode *f = NULL;
	cleanup_file struct file *file = NULL;
	struct open_out again = { 0 };
	struct attr a;
	char bytes[8];
	REQUEST(q, 0);

	CHECK_INT(ask_make_file(root, "f", &f, &file), 0);
	CHECK_INT(ask_put(&q.r, file, 0, 0, "content", 7, NULL), 7);
	CHECK_INT(ask_drop(root, "f", false), 0);
	CHECK_INT(ask_find(root, "f", NULL, NULL), -ENOENT);
	CHECK_INT(ask_get(file, 0, bytes, 8), 7);
	CHECK_INT(ask_attr(f, file, &a), 0);
	CHECK_INT(a.nlink, 0);
	CHECK_INT(ask_attr(f, NULL, &a), 0); /* the inode knows that it is open */
	CHECK_INT(a.size, 7);
	CHECK_INT(ask_set(&q.r, f, &(struct setattr){ .valid = SET_SIZE | SET_MODE, .size = 3, .mode = 0600 }), 0);
	CHECK_INT(ask_get(file, 0, bytes, 8), 3);
	CHECK_INT(open_on(&q.r, brick, &(struct open_in){ f, O_RDONLY }, &again), 0);
	CHECK_INT(ask_get(again.file, 0, bytes, 8), 3);
	fop_out_clear(FOP_open, &again);
	CHECK_INT(ask_link(&q.r, f, root, "back"), -ENOENT);
	file_unref(file);
	file = NULL;
	CHECK_INT(ask_attr(f, NULL, &a), -ESTALE);
}

static void put_direct_io(const char *value)
{
	struct problem p;

	CHECK_INT(option_change(brick->type->options, brick->private, "the brick", "direct-io", value, &p), 0);
}

/* Of this process. */
static int direct_descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < 1000; fd++) {
		int flags = fcntl(fd, F_GETFL);

		count += flags >= 0 && flags & O_DIRECT;
	}
	return count;
}

PROPERTY(direct_io_reaches_the_disk_when_the_provider_says_so)
{
	cleanup_inode struct inode *f = NULL;
	struct open_out out = { 0 };
	struct create_out made = { 0 };
	struct create_in in = { .loc = { .parent = root, .name = "g" }, .flags = O_RDWR | O_DIRECT, .mode = 0600 };
	int before = direct_descriptors();
	REQUEST(q, 0);

	CHECK_INT(ask_make_file(root, "f", &f, NULL), 0);
	for (int on = 0; on < 2; on++) {
		put_direct_io(on ? "on" : "off");
		in.gfid = fresh_gfid();
		in.loc.name = on ? "g" : "h";
		CHECK_INT(open_on(&q.r, brick, &(struct open_in){ f, O_RDWR | O_DIRECT }, &out), 0);
		CHECK_INT(create_on(&q.r, brick, &in, &made), 0);
		CHECK_INT(direct_descriptors(), before + (on ? 2 : 0));
		fop_out_clear(FOP_open, &out);
		fop_out_clear(FOP_create, &made);
	}
}

PROPERTY(direct_io_falls_back_where_it_must)
{
	cleanup_inode struct inode *f = NULL;
	cleanup_file struct file *file = NULL;
	struct open_out out = { 0 };
	static char bytes[10000], back[10000];
	uint64_t at;
	REQUEST(q, 0);

	memset(bytes, 'x', sizeof bytes);
	put_direct_io("on");
	CHECK_INT(ask_make_file(root, "f", &f, NULL), 0);
	CHECK_INT(open_on(&q.r, brick, &(struct open_in){ f, O_RDWR | O_DIRECT }, &out), 0);
	file = out.file;
	CHECK_INT(ask_put(&q.r, file, 0, 0, bytes, 8192, NULL), 8192);
	CHECK_INT(ask_put(&q.r, file, 8192, 0, bytes, 1000, NULL), 1000);
	CHECK_INT(ask_put(&q.r, file, 0, WRITE_APPEND, bytes, 5, &at), 5);
	CHECK_INT(at, 9192);
	CHECK_INT(ask_get(file, 0, back, 10000), 9197);
	CHECK(!memcmp(bytes, back, 9197));
	CHECK_INT(ask_get(file, 4096, back, 4096), 4096);
	CHECK_INT(ask_get(file, 3, back, 9), 9);
	CHECK_INT(ask_get(file, 8192, back, 4096), 1005);
	CHECK_INT(ask_get(file, 9197, back, 1), 0);
	CHECK_INT(ask_get(file, 1 << 20, back, 4096), 0);
}

PROPERTY(an_open_file_does_only_what_it_was_opened_for)
{
	cleanup_inode struct inode *f = NULL, *d = NULL;
	cleanup_file struct file *reads = NULL, *writes = NULL;
	struct open_out out = { 0 };
	char byte;
	REQUEST(q, 0);

	CHECK_INT(ask_make_file(root, "f", &f, NULL), 0);
	CHECK_INT(ask_make_directory(root, "d", 0755, &d), 0);
	CHECK_INT(open_on(&q.r, brick, &(struct open_in){ d, O_RDONLY }, &out), -EISDIR);
	CHECK_INT(open_on(&q.r, brick, &(struct open_in){ f, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW }, &out), 0);
	reads = out.file;
	out.file = NULL;
	CHECK_INT(open_on(&q.r, brick, &(struct open_in){ f, O_WRONLY }, &out), 0);
	writes = out.file;
	CHECK_INT(ask_put(&q.r, reads, 0, 0, "x", 1, NULL), -EBADF);
	CHECK_INT(ask_get(writes, 0, &byte, 1), -EBADF);
	CHECK_INT(ask_put(&q.r, writes, INT64_MAX, 0, "xx", 2, NULL), -EFBIG);
	CHECK_INT(ask_put(&q.r, writes, UINT64_MAX, 0, "xx", 2, NULL), -EFBIG);
	CHECK_INT(ask_get(reads, UINT64_MAX, &byte, 1), -EINVAL);
	CHECK_INT(fallocate_on(&q.r, brick, &(struct fallocate_in){ reads, 0, 0, 10 }, &(struct fallocate_out){ 0 }), -EBADF);
	CHECK_INT(readdir_on(&q.r, brick, &(struct readdir_in){ reads, 0, 4096, 0 }, &(struct readdir_out){ 0 }), -ENOTDIR);
}

PROPERTY(holes_are_punched_found_and_copied)
{
	cleanup_inode struct inode *f = NULL;
	cleanup_file struct file *a = NULL, *b = NULL;
	static char bytes[1 << 16];
	struct seek_out at = { 0 };
	struct copy_range_out copied = { 0 };
	struct attr attr;
	REQUEST(q, 0);

	memset(bytes, 'x', sizeof bytes);
	CHECK_INT(ask_make_file(root, "a", &f, &a), 0);
	CHECK_INT(ask_make_file(root, "b", NULL, &b), 0);
	CHECK_INT(ask_put(&q.r, a, 0, 0, bytes, sizeof bytes, NULL), sizeof bytes);
	CHECK_INT(fallocate_on(&q.r, brick, &(struct fallocate_in){ a, 3, 8192, 8192 }, &(struct fallocate_out){ 0 }), 0);
	CHECK_INT(seek_on(&q.r, brick, &(struct seek_in){ a, 0, SEEK_HOLE }, &at), 0);
	CHECK_INT(at.offset, 8192);
	CHECK_INT(seek_on(&q.r, brick, &(struct seek_in){ a, 8192, SEEK_DATA }, &at), 0);
	CHECK_INT(at.offset, 16384);
	CHECK_INT(seek_on(&q.r, brick, &(struct seek_in){ a, 1 << 20, SEEK_DATA }, &at), -ENXIO);
	CHECK_INT(seek_on(&q.r, brick, &(struct seek_in){ a, 0, SEEK_SET }, &at), -EINVAL);
	CHECK_INT(fallocate_on(&q.r, brick, &(struct fallocate_in){ a, 0x1000, 0, 1 }, &(struct fallocate_out){ 0 }),
		  -EOPNOTSUPP);
	CHECK_INT(copy_range_on(&q.r, brick, &(struct copy_range_in){ a, 100, b, 50, 1 << 20 }, &copied), 0);
	CHECK_INT(copied.copied, sizeof bytes - 100);
	CHECK_INT(ask_get(b, 50, bytes, 10), 10);
	CHECK(!memcmp(bytes, "xxxxxxxxxx", 10));
	CHECK_INT(fsync_on(&q.r, brick, &(struct fsync_in){ b, 1 }, &(struct fsync_out){ 0 }), 0);
	CHECK_INT(ask_attr(NULL, b, &attr), 0);
	CHECK_INT(attr.size, 50 + sizeof bytes - 100);
}

/* For a request that is under way is waited for when the server is to stop. */
PROPERTY(much_is_copied_in_parts)
{
	enum { MUCH = 100 << 20, PART = 64 << 20 };
	cleanup_file struct file *a = NULL, *b = NULL;
	struct copy_range_out copied = { 0 };
	REQUEST(q, 0);

	CHECK_INT(ask_make_file(root, "a", NULL, &a), 0);
	CHECK_INT(ask_make_file(root, "b", NULL, &b), 0);
	CHECK_INT(ask_put(&q.r, a, MUCH - 1, 0, "x", 1, NULL), 1);
	CHECK_INT(copy_range_on(&q.r, brick, &(struct copy_range_in){ a, 0, b, 0, INT64_MAX }, &copied), 0);
	CHECK_INT(copied.copied, PART);
	CHECK_INT(copy_range_on(&q.r, brick, &(struct copy_range_in){ a, PART, b, PART, MUCH }, &copied), 0);
	CHECK_INT(copied.copied, MUCH - PART);
}

/* ---- attributes ---- */

PROPERTY(privileges_go_with_changes_by_ordinary_users)
{
	static const uint8_t capability[20] = { 1, 0, 0, 2, 0, 4 };
	cleanup_inode struct inode *f = NULL;
	cleanup_file struct file *file = NULL;
	const struct setattr privileged = { .valid = SET_MODE, .mode = 06755 };
	struct attr a;
	REQUEST(user, 1000);
	REQUEST(admin, 0);

	CHECK_INT(ask_make_file(root, "f", &f, &file), 0);
	CHECK_INT(ask_set(&admin.r, f, &privileged), 0);
	CHECK_INT(ask_put(&admin.r, file, 0, 0, "x", 1, NULL), 1);
	CHECK(!ask_attr(f, NULL, &a) && (a.mode & 07777) == 06755);
	CHECK_INT(ask_put(&admin.r, file, 0, WRITE_KILL_PRIV, "x", 1, NULL), 1);
	CHECK(!ask_attr(f, NULL, &a) && (a.mode & 07777) == 0755);
	CHECK_INT(ask_set(&admin.r, f, &privileged), 0);
	CHECK_INT(ask_put(&user.r, file, 0, 0, "x", 1, NULL), 1);
	CHECK(!ask_attr(f, NULL, &a) && (a.mode & 07777) == 0755);
	CHECK_INT(ask_set(&admin.r, f, &privileged), 0);
	CHECK_INT(ask_set(&user.r, f, &(struct setattr){ .valid = SET_SIZE }), 0);
	CHECK(!ask_attr(f, NULL, &a) && (a.mode & 07777) == 0755);
	CHECK_INT(ask_set(&admin.r, f, &privileged), 0);
	CHECK_INT(ask_set(&admin.r, f, &(struct setattr){ .valid = SET_SIZE | SET_KILL_PRIV }), 0);
	CHECK(!ask_attr(f, NULL, &a) && (a.mode & 07777) == 0755);
	CHECK_INT(ask_set(&admin.r, f, &privileged), 0);
	CHECK_INT(ask_set(&admin.r, f, &(struct setattr){ .valid = SET_KILL_PRIV }), 0);
	CHECK(!ask_attr(f, NULL, &a) && (a.mode & 07777) == 0755);
	CHECK_INT(ask_set(&admin.r, f, &privileged), 0);
	CHECK_INT(ask_set(&admin.r, f, &(struct setattr){ .valid = SET_UID, .uid = 5 }), 0); /* chown, by whomever */
	CHECK(!ask_attr(f, NULL, &a) && (a.mode & 07777) == 0755 && a.uid == 5);
	CHECK_INT(ask_set(&admin.r, f, &(struct setattr){ .valid = SET_MODE, .mode = 02644 }), 0);
	CHECK_INT(ask_put(&user.r, file, 0, 0, "x", 1, NULL), 1); /* S_ISGID without group execution means locking */
	CHECK(!ask_attr(f, NULL, &a) && (a.mode & 07777) == 02644);
	for (int i = 0; i < 3; i++) {
		CHECK(!setxattr(test_brick_path("f"), "security.capability", capability, sizeof capability, 0));
		if (i == 0)
			CHECK_INT(ask_put(&admin.r, file, 0, 0, "x", 1, NULL), 1);
		else if (i == 1)
			CHECK_INT(ask_set(&admin.r, f, &(struct setattr){ .valid = SET_SIZE }), 0);
		else
			CHECK_INT(ask_set(&admin.r, f, &(struct setattr){ .valid = SET_GID, .gid = 9 }), 0);
		CHECK(getxattr(test_brick_path("f"), "security.capability", NULL, 0) < 0);
	}
	CHECK_INT(ask_set(&user.r, f, &(struct setattr){ .valid = SET_MODE, .mode = 02755 }), 0);
	CHECK(!ask_attr(f, NULL, &a) && (a.mode & 07777) == 0755); /* not in group 9 */
}

PROPERTY(times_are_set_to_the_nanosecond_or_left)
{
	cleanup_inode struct inode *f = NULL, *l = NULL;
	struct attr a, b;
	REQUEST(q, 0);
	struct symlink_in in = { .loc = { .parent = root, .name = "l" }, .gfid = fresh_gfid(), .target = "f" };
	struct symlink_out out = { 0 };

	CHECK_INT(ask_make_file(root, "f", &f, NULL), 0);
	CHECK_INT(symlink_on(&q.r, brick, &in, &out), 0);
	l = inode_ref(out.inode);
	fop_out_clear(FOP_symlink, &out);
	for (int i = 0; i < 2; i++) {
		struct inode *x = i ? l : f;

		CHECK_INT(ask_set(&q.r, x, &(struct setattr){ .valid = SET_ATIME, .atime = { 123456789, 987654321 } }), 0);
		CHECK_INT(ask_attr(x, NULL, &a), 0);
		CHECK(a.atime.sec == 123456789 && a.atime.nsec == 987654321 && a.mtime.sec > 1000000000);
		CHECK_INT(ask_set(&q.r, x, &(struct setattr){ .valid = SET_MTIME | SET_ATIME_NOW, .mtime = { -5, 1 } }), 0);
		CHECK_INT(ask_attr(x, NULL, &b), 0);
		CHECK(b.mtime.sec == -5 && b.mtime.nsec == 1 && b.atime.sec > 1000000000);
	}
	CHECK_INT(ask_set(&q.r, f, &(struct setattr){ .valid = SET_MTIME, .mtime = { 0, UTIME_NOW } }), -EINVAL);
	CHECK_INT(ask_set(&q.r, l, &(struct setattr){ .valid = SET_UID, .uid = 42 }), 0);
	CHECK(!ask_attr(l, NULL, &a) && a.uid == 42 && !ask_attr(f, NULL, &a) && a.uid == 0);
	CHECK_INT(ask_set(&q.r, l, &(struct setattr){ .valid = SET_MODE, .mode = 0600 }), -EOPNOTSUPP);
	CHECK_INT(ask_set(&q.r, l, &(struct setattr){ .valid = SET_SIZE }), -EINVAL);
	struct readlink_out target = { 0 };

	CHECK_INT(readlink_on(&q.r, brick, &(struct readlink_in){ l }, &target), 0);
	CHECK(!strcmp(target.target, "f"));
	fop_out_clear(FOP_readlink, &target);
	CHECK_INT(readlink_on(&q.r, brick, &(struct readlink_in){ f }, &target), -EINVAL);
}
