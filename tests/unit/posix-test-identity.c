/* SPDX-License-Identifier: Apache-2.0 */
/* storage/posix: which object it is: handles, identities on disk, and requests that come again. */
#include "posix-test.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

/* ---- handles ---- */

PROPERTY(forged_handles_are_refused)
{
	cleanup_inode struct inode *inode = NULL, *back = NULL;
	uint8_t good[HANDLE_SIZE_MAX], bad[HANDLE_SIZE_MAX + 1];
	size_t size = sizeof good;

	CHECK_INT(ask_make_file(root, "f", &inode, NULL), 0);
	CHECK_INT(brick->type->inode_handle(brick, inode, good, &size), 0);
	CHECK_INT(brick->type->inode_from_handle(brick, good, size, &back), 0);
	CHECK(back == inode);
	for (size_t i = 0; i < size * 8; i++) {
		struct inode *none = NULL;

		memcpy(bad, good, size);
		bad[i / 8] ^= (uint8_t)(1 << i % 8);
		CHECK_INT(brick->type->inode_from_handle(brick, bad, size, &none), -ESTALE);
		CHECK(!none);
	}
	for (size_t i = 0; i <= sizeof good; i++) {
		struct inode *none = NULL;

		memset(bad, 0, sizeof bad);
		memcpy(bad, good, size);
		if (i != size)
			CHECK_INT(brick->type->inode_from_handle(brick, bad, i, &none), -ESTALE);
	}
	size = 10;
	CHECK_INT(brick->type->inode_handle(brick, inode, bad, &size), -ENOBUFS);
}

static uint8_t kept_handle[HANDLE_SIZE_MAX];
static size_t kept_size;

static void keep_handle_(void *arg)
{
	cleanup_inode struct inode *inode = NULL;

	(void)arg;
	if (ask_find(root, "f", &inode, NULL))
		CHECK_INT(ask_make_file(root, "f", &inode, NULL), 0);
	kept_size = sizeof kept_handle;
	CHECK_INT(brick->type->inode_handle(brick, inode, kept_handle, &kept_size), 0);
}

static void use_handle_(void *arg)
{
	cleanup_inode struct inode *inode = NULL;
	struct attr a, b;

	(void)arg;
	CHECK_INT(brick->type->inode_from_handle(brick, kept_handle, kept_size, &inode), 0);
	CHECK_INT(ask_attr(inode, NULL, &a), 0);
	CHECK_INT(ask_find(root, "f", NULL, &b), 0);
	CHECK(gfid_equal(&a.gfid, &b.gfid));
	CHECK_INT(a.btime.nsec, b.btime.nsec);
}

static void refuse_handle_(void *arg)
{
	struct inode *inode = NULL;

	(void)arg;
	CHECK_INT(brick->type->inode_from_handle(brick, kept_handle, kept_size, &inode), -ESTALE);
}

static void rotate_key_(void *arg)
{
	char word[] = "rotate-key", *words[] = { word }, *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)arg;
	CHECK_INT(brick->type->command(brick, 1, words, out), 0);
	fclose(out);
	free(text);
}

void handles_outlive_a_restart_and_one_key(void **state)
{
	(void)state;
	test_run(keep_handle_);
	test_close_brick();
	test_open_brick();
	test_run(use_handle_);
	test_run(rotate_key_);
	test_run(use_handle_);
	test_close_brick();
	test_open_brick();
	test_run(use_handle_);
	test_run(rotate_key_);
	test_run(refuse_handle_);
	test_run(keep_handle_);
	test_run(use_handle_);
}

static void find_nothing_by_handle_(void *arg)
{
	cleanup_inode struct inode *inode = NULL;
	struct attr a;
	int err = brick->type->inode_from_handle(brick, kept_handle, kept_size, &inode);

	(void)arg;
	CHECK_INT(err ? err : ask_attr(inode, NULL, &a), -ESTALE);
}

static void unlink_f_(void *arg)
{
	(void)arg;
	CHECK_INT(ask_drop(root, "f", false), 0);
	CHECK_INT(ask_make_file(root, "f", NULL, NULL), 0); /* likely with the same inode number */
}

void handles_of_removed_objects_are_stale(void **state)
{
	(void)state;
	test_run(keep_handle_);
	test_run(unlink_f_);
	test_run(find_nothing_by_handle_);
	test_close_brick();
	test_open_brick();
	test_run(refuse_handle_);
}

void handles_of_another_brick_are_stale(void **state)
{
	struct problem p;

	(void)state;
	test_run(keep_handle_);
	test_close_brick();
	assert_int_equal(mkdir(test_path("%s/other%s", ""), 0755), 0);
	assert_int_equal(test_try_open(test_path("%s/other%s", ""), VOLUME_ID, OTHER_ID, "", &graph, &p), 0);
	brick = graph->top;
	test_run(refuse_handle_);
	test_close_graph(graph);
	test_open_brick();
}

/* ---- identity ---- */

PROPERTY(renames_and_links_keep_the_identity)
{
	cleanup_inode struct inode *f = NULL, *d = NULL, *e = NULL;
	struct disk_identity i;
	char name[256];
	REQUEST(q, 0);

	CHECK_INT(ask_make_directory(root, "d", 0755, &d), 0);
	CHECK_INT(ask_make_directory(root, "e", 0755, &e), 0);
	CHECK_INT(ask_make_file(d, "one", &f, NULL), 0);
	CHECK(disk_read(test_brick_path("d/one"), &i) && i.links == 1 && disk_has(&i, d, "one") &&
	      gfid_equal(&i.gfid, &f->gfid));
	CHECK_INT(ask_link(&q.r, f, e, "two"), 0);
	CHECK(disk_read(test_brick_path("d/one"), &i) && i.links == 2 && disk_has(&i, d, "one") && disk_has(&i, e, "two"));
	CHECK_INT(ask_move(&q.r, d, "one", root, "three", 0, NULL), 0);
	CHECK(disk_read(test_brick_path("three"), &i) && i.links == 2 && disk_has(&i, root, "three") && disk_has(&i, e, "two"));
	CHECK_INT(ask_drop(e, "two", false), 0);
	CHECK(disk_read(test_brick_path("three"), &i) && i.links == 1 && disk_has(&i, root, "three"));
	CHECK_INT(ask_move(&q.r, root, "d", e, "sub", 0, NULL), 0);
	CHECK(disk_read(test_brick_path("e/sub"), &i) && i.links == 1 && disk_has(&i, e, "sub"));
	CHECK_INT(ask_move(&q.r, e, "sub", root, "three", RENAME_EXCHANGE, NULL), 0);
	CHECK(disk_read(test_brick_path("three"), &i) && i.links == 1 && disk_has(&i, root, "three"));
	CHECK(disk_read(test_brick_path("e/sub"), &i) && i.links == 1 && disk_has(&i, e, "sub") &&
	      gfid_equal(&i.gfid, &f->gfid));
	CHECK_INT(ask_link(&q.r, f, root, "again"), 0);
	CHECK_INT(ask_move(&q.r, e, "sub", root, "again", 0, NULL), 0); /* two names of one object: nothing happens */
	CHECK(disk_read(test_brick_path("e/sub"), &i) && i.links == 2);
	CHECK_INT(ask_make_file(root, "other", NULL, NULL), 0);
	CHECK_INT(ask_move(&q.r, root, "other", e, "sub", 0, NULL), 0); /* a name of one that has two is taken */
	CHECK(disk_read(test_brick_path("again"), &i) && i.links == 1 && disk_has(&i, root, "again"));
	for (int n = 0; n < 70; n++) { /* more than the xattr holds, and back */
		snprintf(name, sizeof name, "%0*d", 60, n);
		CHECK_INT(ask_link(&q.r, f, root, name), 0);
	}
	CHECK(disk_read(test_brick_path("again"), &i) && i.links > 8 && i.more && i.size <= 1024);
	for (int n = 0; n < 70; n++) {
		snprintf(name, sizeof name, "%0*d", 60, n);
		CHECK_INT(ask_drop(root, name, false), 0);
	}
	CHECK(disk_read(test_brick_path("again"), &i) && i.links == 1 && !i.more && disk_has(&i, root, "again"));
}

/* As if a crash had come between the change of a name and its note: the text is the one from before. */
static void put_identity_of(const char *path, const char *text, ssize_t size)
{
	CHECK(!setxattr(test_brick_path(path), "trusted.sfs", text, (size_t)size, 0));
}

PROPERTY(a_name_that_was_not_noted_is_noted_later)
{
	cleanup_inode struct inode *f = NULL;
	struct disk_identity i;
	char one[1024], two[1024];
	ssize_t size_one, size_two;
	REQUEST(q, 0);

	CHECK_INT(ask_make_file(root, "one", &f, NULL), 0);
	size_one = getxattr(test_brick_path("one"), "trusted.sfs", one, sizeof one);
	CHECK_INT(ask_link(&q.r, f, root, "two"), 0);
	size_two = getxattr(test_brick_path("one"), "trusted.sfs", two, sizeof two);
	put_identity_of("one", one, size_one);
	CHECK_INT(ask_find(root, "two", NULL, NULL), 0); /* looked up */
	CHECK(disk_read(test_brick_path("one"), &i) && i.links == 2 && disk_has(&i, root, "two"));
	put_identity_of("one", one, size_one);
	q.r.resent = true;
	CHECK_INT(ask_link(&q.r, f, root, "two"), 0); /* sent again */
	CHECK(disk_read(test_brick_path("one"), &i) && i.links == 2 && disk_has(&i, root, "two"));
	q.r.resent = false;
	CHECK_INT(ask_move(&q.r, root, "two", root, "three", 0, f), 0);
	put_identity_of("one", one, size_one);
	q.r.resent = true;
	CHECK_INT(ask_move(&q.r, root, "two", root, "three", 0, f), 0);
	CHECK(disk_read(test_brick_path("one"), &i) && i.links == 2 && disk_has(&i, root, "three"));
	q.r.resent = false;
	size_one = getxattr(test_brick_path("one"), "trusted.sfs", one, sizeof one);
	CHECK_INT(ask_move(&q.r, root, "three", root, "four", 0, f), 0); /* noted, and not done */
	CHECK(!rename(test_brick_path("four"), test_brick_path("three")));
	CHECK_INT(ask_find(root, "three", NULL, NULL), 0);
	CHECK(disk_read(test_brick_path("one"), &i) && i.links == 2 && disk_has(&i, root, "three") &&
	      disk_has(&i, root, "one"));
	CHECK_INT(ask_drop(root, "three", false), 0);
	put_identity_of("one", two, size_two); /* lists a name that is gone */
	CHECK_INT(ask_move(&q.r, root, "one", root, "four", 0, f), 0);
	CHECK_INT(ask_find(root, "four", NULL, NULL), 0);
	CHECK(disk_read(test_brick_path("four"), &i) && i.links == 1 && disk_has(&i, root, "four"));
}

static void make_directory_of(const struct gfid *gfid, const char *name, struct inode **inode)
{
	REQUEST(q, 0);
	struct mkdir_in in = { .loc = { .parent = root, .name = name }, .gfid = *gfid, .mode = 0755 };
	struct mkdir_out out = { 0 };

	CHECK_INT(mkdir_on(&q.r, brick, &in, &out), 0);
	*inode = inode_ref(out.inode);
	fop_out_clear(FOP_mkdir, &out);
}

static bool is_listed(const char *path, const struct inode *directory, unsigned times)
{
	struct disk_identity i;
	unsigned count = 0;

	if (!disk_read(test_brick_path(path), &i))
		return false;
	for (unsigned n = 0; n < i.links; n++)
		count += gfid_equal(&i.link[n].parent, &directory->gfid) && !strcmp(i.link[n].name, "f");
	return count == times && i.links == times;
}

/* A brick that forgets what nobody uses can't tell that a directory is made a second time. */
PROPERTY(the_same_name_in_two_directories_of_one_gfid_is_noted_twice)
{
	cleanup_inode struct inode *f = NULL, *first = NULL, *second = NULL;
	struct gfid gfid = fresh_gfid();
	REQUEST(q, 0);

	inode_table_keep(graph->inodes, 0);
	make_directory_of(&gfid, "first", &first);
	CHECK_INT(ask_make_file(first, "f", &f, NULL), 0);
	inode_unref_at(&first);
	make_directory_of(&gfid, "second", &second);
	CHECK_INT(ask_link(&q.r, f, second, "f"), 0);
	CHECK(is_listed("first/f", second, 2));
	q.r.resent = true;
	CHECK_INT(ask_link(&q.r, f, second, "f"), 0);
	q.r.resent = false;
	CHECK(is_listed("first/f", second, 2));
	inode_unref_at(&second);
	CHECK_INT(ask_find(root, "first", &first, NULL), 0);
	CHECK_INT(ask_drop(first, "f", false), 0);
	CHECK(is_listed("second/f", first, 1));
	CHECK_INT(ask_link(&q.r, f, root, "other"), 0);
	CHECK_INT(ask_move(&q.r, root, "other", first, "f", 0, f), 0);
	CHECK(is_listed("second/f", first, 2));
	inode_unref_at(&first);
	CHECK_INT(ask_find(root, "second", &second, NULL), 0);
	CHECK_INT(ask_make_file(root, "other", NULL, NULL), 0);
	CHECK_INT(ask_move(&q.r, root, "other", second, "f", 0, NULL), 0); /* takes the name away */
	CHECK(is_listed("first/f", second, 1));
}

/* A process that died between the note of a removal and the removal leaves one entry too few. */
PROPERTY(an_object_with_a_name_lists_one)
{
	cleanup_inode struct inode *f = NULL, *first = NULL, *second = NULL;
	struct gfid gfid = fresh_gfid();
	struct disk_identity i;
	char text[1024];
	ssize_t size;
	REQUEST(q, 0);

	inode_table_keep(graph->inodes, 0);
	make_directory_of(&gfid, "first", &first);
	CHECK_INT(ask_make_file(first, "f", &f, NULL), 0);
	size = getxattr(test_brick_path("first/f"), "trusted.sfs", text, sizeof text);
	inode_unref_at(&first);
	make_directory_of(&gfid, "second", &second);
	CHECK_INT(ask_link(&q.r, f, second, "f"), 0);
	put_identity_of("first/f", text, size);
	CHECK_INT(ask_drop(second, "f", false), 0);
	CHECK(is_listed("first/f", second, 1));
	CHECK_INT(ask_link(&q.r, f, root, "g"), 0);
	put_identity_of("first/f", text, size); /* lists what goes now, and not what stays */
	inode_unref_at(&second);
	CHECK_INT(ask_find(root, "first", &first, NULL), 0);
	CHECK_INT(ask_drop(first, "f", false), 0);
	CHECK(disk_read(test_brick_path("g"), &i) && i.links == 1);
	CHECK_INT(ask_move(&q.r, root, "g", root, "h", 0, f), 0);
	CHECK(disk_read(test_brick_path("h"), &i) && i.links == 1 && disk_has(&i, root, "h"));
	put_identity_of("h", text, size);
	CHECK_INT(ask_find(root, "h", NULL, NULL), 0);
	CHECK(disk_read(test_brick_path("h"), &i) && i.links == 1 && disk_has(&i, root, "h"));
}

PROPERTY(what_is_noted_twice_is_put_right)
{
	enum { ONE = 26 };
	cleanup_inode struct inode *f = NULL;
	struct disk_identity i;
	char text[1024];
	ssize_t size;
	REQUEST(q, 0);

	CHECK_INT(ask_make_file(root, "one", &f, NULL), 0);
	size = getxattr(test_brick_path("one"), "trusted.sfs", text, sizeof text);
	CHECK(size > ONE);
	memcpy(text + size, text + ONE, (size_t)(size - ONE));
	CHECK_INT(ask_link(&q.r, f, root, "two"), 0);
	put_identity_of("one", text, 2 * size - ONE);
	CHECK_INT(ask_find(root, "two", NULL, NULL), 0);
	CHECK(disk_read(test_brick_path("one"), &i) && i.links == 2 && disk_has(&i, root, "one") && disk_has(&i, root, "two"));
}

/* A directory that may only grow refuses to lose names, and its files can still be written. */
static bool only_grows(const char *path, bool on)
{
	int fd = open(test_brick_path(path), O_RDONLY | O_DIRECTORY), flags = 0;
	bool can = !ioctl(fd, FS_IOC_GETFLAGS, &flags);

	flags = on ? flags | FS_APPEND_FL : flags & ~FS_APPEND_FL;
	can = can && !ioctl(fd, FS_IOC_SETFLAGS, &flags);
	close(fd);
	return can;
}

PROPERTY(a_name_that_cannot_go_stays_noted)
{
	cleanup_inode struct inode *d = NULL, *f = NULL, *g = NULL;
	struct disk_identity i;
	REQUEST(q, 0);

	CHECK_INT(ask_make_directory(root, "d", 0755, &d), 0);
	CHECK_INT(ask_make_file(d, "one", &f, NULL), 0);
	CHECK_INT(ask_link(&q.r, f, d, "two"), 0);
	CHECK_INT(ask_make_file(root, "other", &g, NULL), 0);
	CHECK_INT(ask_link(&q.r, g, root, "more"), 0);
	if (!only_grows("d", true))
		return; /* this file system cannot do it */
	int err[] = { ask_drop(d, "two", false), ask_move(&q.r, d, "two", root, "three", 0, NULL),
		      ask_move(&q.r, root, "other", d, "two", 0, NULL) };

	CHECK(only_grows("d", false));
	for (int n = 0; n < 3; n++)
		CHECK_INT(err[n], -EPERM);
	CHECK(disk_read(test_brick_path("d/one"), &i) && i.links == 2 && disk_has(&i, d, "one") && disk_has(&i, d, "two"));
	CHECK(disk_read(test_brick_path("other"), &i) && i.links == 2 && disk_has(&i, root, "other"));
}

PROPERTY(the_identity_of_one_link_fits_into_the_inode)
{
	struct disk_identity i;
	char name[256];

	for (int length = 1; length < 256; length += 23) {
		memset(name, 'x', sizeof name);
		name[length] = '\0';
		CHECK_INT(ask_make_file(root, name, NULL, NULL), 0);
		CHECK(disk_read(test_brick_path(name), &i) && i.links == 1 && i.size <= 68 && disk_has(&i, root, name));
	}
	name[254] = 'x';
	memset(name, 'y', 255);
	name[255] = '\0';
	CHECK_INT(ask_make_file(root, name, NULL, NULL), 0);
	memset(name, 'z', 250);
	REQUEST(q, 0);
	char before[256];

	memset(before, 'y', 255);
	before[255] = '\0';
	CHECK_INT(ask_move(&q.r, root, before, root, name, 0, NULL), 0);
	CHECK(disk_read(test_brick_path(name), &i) && i.links == 1 && i.size <= 68 && disk_has(&i, root, name));
}

PROPERTY(foreign_objects_get_an_identity)
{
	cleanup_inode struct inode *a = NULL, *again = NULL, *copy = NULL, *moved = NULL;
	struct disk_identity i;
	char bytes[1024];
	ssize_t n;

	CHECK(!close(open(test_brick_path("foreign"), O_CREAT | O_WRONLY, 0644)));
	CHECK_INT(ask_find(root, "foreign", &a, NULL), 0);
	CHECK(disk_read(test_brick_path("foreign"), &i) && gfid_equal(&i.gfid, &a->gfid) && disk_has(&i, root, "foreign"));
	CHECK_INT(ask_find(root, "foreign", &again, NULL), 0);
	CHECK(a == again);
	n = getxattr(test_brick_path("foreign"), "trusted.sfs", bytes, sizeof bytes);
	CHECK(!close(open(test_brick_path("copy"), O_CREAT | O_WRONLY, 0644))); /* cp -a copies the xattr too */
	CHECK(!setxattr(test_brick_path("copy"), "trusted.sfs", bytes, (size_t)n, 0));
	CHECK_INT(ask_find(root, "copy", &copy, NULL), 0);
	CHECK(copy != a && !gfid_equal(&copy->gfid, &a->gfid));
	CHECK(!rename(test_brick_path("foreign"), test_brick_path("elsewhere"))); /* behind the brick's back */
	CHECK_INT(ask_find(root, "elsewhere", &moved, NULL), 0);
	CHECK(moved == a);
	CHECK(disk_read(test_brick_path("elsewhere"), &i) && i.links == 1 && disk_has(&i, root, "elsewhere"));
	CHECK(!close(open(test_brick_path("odd"), O_CREAT | O_WRONLY, 0644)));
	CHECK(!setxattr(test_brick_path("odd"), "trusted.sfs", "nonsense", 8, 0));
	CHECK_INT(ask_find(root, "odd", NULL, NULL), -EIO);
}

PROPERTY(internal_attributes_are_hidden)
{
	static const char *const names[] = { "trusted.sfs", "trusted.sfs.more", "trusted.stratus.mark" };
	cleanup_inode struct inode *f = NULL;
	REQUEST(q, 0);

	CHECK_INT(ask_make_file(root, "f", &f, NULL), 0);
	for (int i = 0; i < 3; i++) {
		struct setxattr_in sin = { .inode = f, .name = names[i], .value = { 1, (void *)"x" } };
		struct getxattr_in gin = { f, names[i] };
		struct removexattr_in rin = { f, names[i] };
		struct setxattr_out sout;
		struct getxattr_out gout = { 0 };
		struct removexattr_out rout;

		CHECK_INT(setxattr_on(&q.r, brick, &sin, &sout), -EPERM);
		CHECK_INT(getxattr_on(&q.r, brick, &gin, &gout), -ENODATA);
		CHECK_INT(removexattr_on(&q.r, brick, &rin, &rout), -EPERM);
	}
	CHECK(!setxattr(test_brick_path("f"), "user.mine", "v", 1, 0));
	CHECK(!setxattr(test_brick_path("f"), "trusted.stratus.mark", "v", 1, 0));
	struct listxattr_in lin = { f };
	struct listxattr_out lout = { 0 };

	CHECK_INT(listxattr_on(&q.r, brick, &lin, &lout), 0);
	CHECK(lout.names.size == sizeof "user.mine" && !strcmp(lout.names.bytes, "user.mine"));
	fop_out_clear(FOP_listxattr, &lout);
}

/* ---- what can't be read ---- */

/* The next call of the kernel that reads an identity, or a handle, fails. */
static atomic_bool identities_broken, handles_broken;

/* Before the next such call somebody else gets in. */
typedef void hook(void);
static _Atomic(hook *) before_stat, before_identity;

static void get_in(_Atomic(hook *) *one)
{
	hook *now = atomic_exchange(one, NULL);

	if (now)
		now();
}

#define FOR_THE_BRICK __attribute__((visibility("default")))
FOR_THE_BRICK int statx(int, const char *, int, unsigned, struct statx *);
FOR_THE_BRICK ssize_t getxattr(const char *, const char *, void *, size_t);
FOR_THE_BRICK int name_to_handle_at(int, const char *, struct file_handle *, int *, int);

static bool breaks(atomic_bool *broken)
{
	bool now = atomic_exchange(broken, false);

	if (now)
		errno = EIO;
	return now;
}

int statx(int fd, const char *name, int flags, unsigned mask, struct statx *st)
{
	if (flags & AT_EMPTY_PATH)
		get_in(&before_stat);
	return (int)syscall(SYS_statx, fd, name, flags, mask, st);
}

ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
	get_in(&before_identity);
	return breaks(&identities_broken) ? -1 : syscall(SYS_getxattr, path, name, value, size);
}

int name_to_handle_at(int fd, const char *name, struct file_handle *handle, int *mount, int flags)
{
	bool broken = flags & AT_EMPTY_PATH && breaks(&handles_broken);

	return broken ? -1 : (int)syscall(SYS_name_to_handle_at, fd, name, handle, mount, flags);
}

PROPERTY(what_cannot_be_read_is_not_taken_for_gone)
{
	cleanup_inode struct inode *f = NULL, *again = NULL;
	struct unlink_in in = { { .parent = root, .name = "f" } };
	struct unlink_out out;
	REQUEST(q, 0);

	CHECK_INT(ask_make_file(root, "f", &f, NULL), 0);
	in.loc.inode = f;
	kept_size = sizeof kept_handle;
	CHECK_INT(brick->type->inode_handle(brick, f, kept_handle, &kept_size), 0);
	for (int resent = 0; resent < 2; resent++) {
		q.r.resent = resent;
		identities_broken = true;
		CHECK_INT(unlink_on(&q.r, brick, &in, &out), -EIO);
		CHECK(!identities_broken);
		identities_broken = true;
		CHECK_INT(ask_move(&q.r, root, "f", root, "g", 0, f), -EIO);
		identities_broken = false;
	}
	CHECK_INT(ask_find(root, "f", NULL, NULL), 0);
	inode_table_keep(graph->inodes, 0);
	inode_unref_at(&f);
	identities_broken = true;
	CHECK_INT(brick->type->inode_from_handle(brick, kept_handle, kept_size, &again), -EIO);
	CHECK_INT(brick->type->inode_from_handle(brick, kept_handle, kept_size, &again), 0);
}

PROPERTY(a_name_whose_handle_cannot_be_read_keeps_its_identity)
{
	cleanup_inode struct inode *f = NULL, *again = NULL;
	REQUEST(q, 0);

	CHECK_INT(ask_make_file(root, "one", &f, NULL), 0);
	CHECK_INT(ask_link(&q.r, f, root, "two"), 0);
	handles_broken = true;
	CHECK_INT(ask_find(root, "two", NULL, NULL), -EIO);
	CHECK(!handles_broken);
	CHECK_INT(ask_find(root, "two", &again, NULL), 0);
	CHECK(again == f);
}

/* ---- resent requests ---- */

static int replace(struct request *rq, const char *name, struct inode *with, const char *old, struct inode *what)
{
	struct rename_in in = { { .parent = root, .name = name, .inode = with },
				{ .parent = root, .name = old, .inode = what },
				0 };
	struct rename_out out;

	return rename_on(rq, brick, &in, &out);
}

PROPERTY(who_names_what_is_replaced_replaces_nothing_else)
{
	cleanup_inode struct inode *new = NULL, *old = NULL, *other = NULL;
	REQUEST(q, 0);

	CHECK_INT(ask_make_file(root, "new", &new, NULL), 0);
	CHECK_INT(ask_make_file(root, "old", &old, NULL), 0);
	CHECK_INT(ask_move(&q.r, root, "old", root, "elsewhere", 0, old), 0);
	for (int resent = 0; resent < 2; resent++) {
		q.r.resent = resent;
		CHECK_INT(replace(&q.r, "new", new, "old", old), -ESTALE); /* it has gone */
	}
	CHECK_INT(ask_make_file(root, "old", &other, NULL), 0);
	for (int resent = 0; resent < 2; resent++) {
		q.r.resent = resent;
		CHECK_INT(replace(&q.r, "new", new, "old", old), -ESTALE); /* another one is there */
	}
	q.r.resent = false;
	CHECK_INT(ask_find(root, "new", NULL, NULL), 0);
	CHECK_INT(replace(&q.r, "new", new, "old", other), 0);
	q.r.resent = true;
	CHECK_INT(replace(&q.r, "new", new, "old", other), 0); /* it was done */
	q.r.resent = false;
	CHECK_INT(ask_find(root, "elsewhere", NULL, NULL), 0);
}

PROPERTY(a_resent_request_succeeds_if_the_first_was_done)
{
	cleanup_inode struct inode *f = NULL, *d = NULL;
	struct create_in cin = {
		.loc = { .parent = root, .name = "f" }, .gfid = fresh_gfid(), .flags = O_RDWR | O_EXCL, .mode = 0600
	};
	struct mkdir_in min = { .loc = { .parent = root, .name = "d" }, .gfid = fresh_gfid(), .mode = 0700 };
	struct symlink_in sin = { .loc = { .parent = root, .name = "s" }, .gfid = fresh_gfid(), .target = "t" };
	struct mknod_in nin = { .loc = { .parent = root, .name = "p" }, .gfid = fresh_gfid(), .mode = S_IFIFO | 0600 };
	struct unlink_out uout;
	struct rmdir_out rout;
	REQUEST(q, 0);

	for (int i = 0; i < 3; i++) { /* done; resent: done; asked anew: there */
		struct create_out cout = { 0 };
		struct mkdir_out mout = { 0 };
		struct symlink_out sout = { 0 };
		struct mknod_out nout = { 0 };
		int expected = i < 2 ? 0 : -EEXIST;

		q.r.resent = i == 1;
		CHECK_INT(create_on(&q.r, brick, &cin, &cout), expected);
		CHECK_INT(mkdir_on(&q.r, brick, &min, &mout), expected);
		CHECK_INT(symlink_on(&q.r, brick, &sin, &sout), expected);
		CHECK_INT(mknod_on(&q.r, brick, &nin, &nout), expected);
		CHECK(i == 2 ||
		      (cout.file && gfid_equal(&cout.inode->gfid, &cin.gfid) && gfid_equal(&mout.attr.gfid, &min.gfid)));
		fop_out_clear(FOP_create, &cout);
		fop_out_clear(FOP_mkdir, &mout);
		fop_out_clear(FOP_symlink, &sout);
		fop_out_clear(FOP_mknod, &nout);
	}
	q.r.resent = true;
	min.gfid = fresh_gfid();
	struct mkdir_out mout = { 0 };

	CHECK_INT(mkdir_on(&q.r, brick, &min, &mout), -EEXIST); /* somebody else's */
	CHECK_INT(ask_find(root, "f", &f, NULL), 0);
	CHECK_INT(ask_find(root, "d", &d, NULL), 0);
	for (int i = 0; i < 2; i++)
		CHECK_INT(ask_link(&q.r, f, root, "g"), 0);
	CHECK_INT(ask_link(&q.r, f, root, "p"), -EEXIST);
	for (int i = 0; i < 2; i++)
		CHECK_INT(ask_move(&q.r, root, "g", d, "h", 0, f), 0);
	for (int i = 0; i < 2; i++)
		CHECK_INT(ask_move(&q.r, root, "d", root, "e", RENAME_NOREPLACE, d), 0);
	CHECK_INT(ask_move(&q.r, root, "gone", root, "p", 0, f), -ENOENT);
	for (int i = 0; i < 2; i++)
		CHECK_INT(unlink_on(&q.r, brick, &(struct unlink_in){ { .parent = d, .name = "h", .inode = f } }, &uout), 0);
	CHECK_INT(ask_make_file(d, "h", NULL, NULL), 0); /* a third party uses the name again: not ours to remove */
	CHECK_INT(unlink_on(&q.r, brick, &(struct unlink_in){ { .parent = d, .name = "h", .inode = f } }, &uout), 0);
	CHECK_INT(ask_find(d, "h", NULL, NULL), 0);
	CHECK_INT(ask_drop(d, "h", false), 0);
	for (int i = 0; i < 2; i++)
		CHECK_INT(rmdir_on(&q.r, brick, &(struct rmdir_in){ { .parent = root, .name = "e" } }, &rout), 0);
	struct setxattr_in xin = { .inode = f, .name = "user.a", .value = { 1, (void *)"1" }, .flags = XATTR_CREATE };
	struct setxattr_out xout;

	for (int i = 0; i < 2; i++)
		CHECK_INT(setxattr_on(&q.r, brick, &xin, &xout), 0);
	xin.value.bytes = (void *)"2";
	CHECK_INT(setxattr_on(&q.r, brick, &xin, &xout), -EEXIST);
	for (int i = 0; i < 2; i++)
		CHECK_INT(removexattr_on(&q.r, brick, &(struct removexattr_in){ f, "user.a" }, &(struct removexattr_out){ 0 }),
			  0);
}

PROPERTY(nobody_gives_an_object_more_names_of_xattrs_than_can_be_listed)
{
	enum { MANY = 300 };
	cleanup_inode struct inode *f = NULL;
	struct setxattr_out xout;
	struct listxattr_out names = { 0 };
	char name[256];
	int made = 0, err = 0;
	REQUEST(q, 0);
	REQUEST(user, 1000);

	CHECK_INT(ask_make_file(root, "f", &f, NULL), 0);
	if (setxattr(test_brick_path("f"), "user.a", "v", 1, 0)) /* before Linux 6.6 */
		return;
	struct setxattr_in in = { .inode = f, .name = name, .value = { 1, (void *)"v" } };

	for (; made < MANY && !err; made++) {
		snprintf(name, sizeof(name), "user.%03d%0240d", made, 0);
		err = setxattr_on(&user.r, brick, &in, &xout);
	}
	CHECK_INT(err, -ENOSPC);
	CHECK(made > 190 && made < 200);
	in.name = "user.a"; /* which it has */
	CHECK_INT(setxattr_on(&user.r, brick, &in, &xout), 0);
	in.name = "trusted.ours";
	CHECK_INT(setxattr_on(&q.r, brick, &in, &xout), 0);
	in.name = name; /* who copies a file that has more, from before there was a bound */
	for (err = 0; made < MANY && !err; made++) {
		snprintf(name, sizeof(name), "user.%03d%0240d", made, 0);
		err = setxattr_on(&q.r, brick, &in, &xout);
	}
	CHECK_INT(err, -ENOSPC);
	CHECK(made > 255);
	CHECK_INT(listxattr_on(&q.r, brick, &(struct listxattr_in){ f }, &names), 0);
	fop_out_clear(FOP_listxattr, &names);
	in.name = name; /* as another member has it */
	q.r.limits = LIMITS_HEAL;
	CHECK_INT(setxattr_on(&q.r, brick, &in, &xout), 0);
}

/* The client says that it is sent again, and what it makes; another's gfid stands in the answer to a lookup. */
PROPERTY(who_says_that_he_has_made_another_ones_object_is_refused)
{
	cleanup_inode struct inode *f = NULL;
	struct mknod_in node = { .loc = { .parent = root, .name = "node" }, .gfid = fresh_gfid(), .mode = S_IFIFO | 0666 };
	struct mknod_out made = { 0 };
	struct create_out out = { 0 };
	REQUEST(q, 0);
	REQUEST(other, 1000);

	CHECK(!chmod(test_path("%s/brick%s", ""), 0777));
	CHECK_INT(ask_make_file(root, "f", &f, NULL), 0);
	CHECK_INT(mknod_on(&q.r, brick, &node, &made), 0);
	struct create_in theirs = {
		.loc = { .parent = root, .name = "f" }, .gfid = f->gfid, .flags = O_RDWR | O_EXCL, .mode = 0600
	};
	struct create_in pipe = { .loc = node.loc, .gfid = node.gfid, .flags = O_RDWR | O_EXCL, .mode = 0600 };

	q.r.resent = other.r.resent = true;
	CHECK_INT(create_on(&other.r, brick, &theirs, &out), -EEXIST);
	CHECK_INT(create_on(&other.r, brick, &pipe, &out), -EEXIST);
	CHECK_INT(create_on(&q.r, brick, &pipe, &out), -EEXIST);
	fop_out_clear(FOP_mknod, &made);
	CHECK_INT(mknod_on(&q.r, brick, &node, &made), 0); /* which has been done */
	CHECK_INT(create_on(&q.r, brick, &theirs, &out), 0);
	fop_out_clear(FOP_create, &out);
	fop_out_clear(FOP_mknod, &made);
}

/* As a recovery does that undoes a creation, which its client then sends again. */
PROPERTY(an_object_that_is_made_again_is_the_new_one)
{
	cleanup_inode struct inode *f = NULL;
	cleanup_file struct file *former = NULL;
	struct create_in in = { .loc = { .parent = root, .name = "f" }, .flags = O_RDWR | O_EXCL, .mode = 0600 };
	struct setxattr_in xin = { .name = "user.a", .value = { 1, (void *)"1" } };
	struct create_out out = { 0 };
	struct setxattr_out xout;
	struct blob links = { 0 };
	struct attr a;
	char value[8];
	REQUEST(q, 0);

	CHECK_INT(ask_make_file(root, "f", &f, &former), 0);
	CHECK_INT(ask_drop(root, "f", false), 0);
	CHECK_INT(brick->type->inode_links(brick, f, &links), 0);
	CHECK(links.size == 4 && !memcmp(links.bytes, "\0\0\0", 4)); /* it has no name any more */
	free(links.bytes);
	in.gfid = f->gfid;
	q.r.time_ns = 1234567890123456789;
	CHECK_INT(create_on(&q.r, brick, &in, &out), 0);
	CHECK_INT(ask_attr(f, NULL, &a), 0);
	CHECK_INT(a.btime.nsec, 123456789);
	q.r.time_ns = 0;
	CHECK(out.inode == f);
	fop_out_clear(FOP_create, &out);
	xin.inode = f; /* the former one is open yet */
	CHECK_INT(setxattr_on(&q.r, brick, &xin, &xout), 0);
	CHECK_INT(getxattr(test_brick_path("f"), "user.a", value, sizeof value), 1);
	CHECK_INT(ask_link(&q.r, f, root, "g"), 0);
	CHECK_INT(ask_attr(f, NULL, &a), 0);
	CHECK_INT(a.nlink, 2);
	CHECK_INT(ask_put(&q.r, former, 0, 0, "xyz", 3, NULL), -ESTALE); /* it would be written to what nobody finds */
	CHECK_INT(ask_attr(f, former, &a), -ESTALE);
	CHECK_INT(ask_attr(f, NULL, &a), 0);
	CHECK_INT(a.size, 0);
	in.loc.name = "h";
	CHECK_INT(create_on(&q.r, brick, &in, &out), -EEXIST);
}

/* Both have lost their names, and both are open. */
PROPERTY(a_former_object_does_not_come_back_by_its_handle)
{
	cleanup_inode struct inode *f = NULL, *none = NULL;
	cleanup_file struct file *former = NULL, *file = NULL;
	struct create_in in = { .loc = { .parent = root, .name = "f" }, .flags = O_RDWR | O_EXCL, .mode = 0600 };
	struct create_out out = { 0 };
	char text[4] = "";
	REQUEST(q, 0);

	CHECK_INT(ask_make_file(root, "f", &f, &former), 0);
	kept_size = sizeof kept_handle;
	CHECK_INT(brick->type->inode_handle(brick, f, kept_handle, &kept_size), 0);
	CHECK_INT(ask_drop(root, "f", false), 0);
	in.gfid = f->gfid;
	CHECK_INT(create_on(&q.r, brick, &in, &out), 0);
	file = file_ref(out.file);
	fop_out_clear(FOP_create, &out);
	CHECK_INT(brick->type->inode_from_handle(brick, kept_handle, kept_size, &none), -ESTALE);
	CHECK_INT(ask_put(&q.r, file, 0, 0, "new", 3, NULL), 3);
	CHECK_INT(ask_drop(root, "f", false), 0);
	CHECK_INT(brick->type->inode_from_handle(brick, kept_handle, kept_size, &none), -ESTALE);
	CHECK_INT(ask_put(&q.r, former, 0, 0, "old", 3, NULL), -ESTALE);
	CHECK_INT(ask_get(file, 0, text, 3), 3);
	CHECK(!strcmp(text, "new"));
}

static struct gfid anew;
static struct inode *made_anew;

/* As a heal does it. */
static void make_f_anew(void)
{
	REQUEST(q, 0);
	struct mknod_in in = { .loc = { .parent = root, .name = "f" }, .gfid = anew, .mode = S_IFREG | 0600 };
	struct mknod_out out = { 0 };

	CHECK_INT(ask_drop(root, "f", false), 0);
	CHECK_INT(mknod_on(&q.r, brick, &in, &out), 0);
	made_anew = inode_ref(out.inode);
	fop_out_clear(FOP_mknod, &out);
}

/* The name stood for something of that gfid all the time. */
PROPERTY(a_name_whose_object_is_made_anew_is_looked_up_again)
{
	_Atomic(hook *) *hooks[] = { &before_stat, &before_identity };

	inode_table_keep(graph->inodes, 0);
	for (int i = 0; i < 2; i++) {
		cleanup_inode struct inode *f = NULL, *found = NULL;
		struct attr a;

		CHECK_INT(ask_make_file(root, "f", &f, NULL), 0);
		anew = f->gfid;
		inode_unref_at(&f); /* forgotten, so it is asked who it is */
		*hooks[i] = make_f_anew;
		CHECK_INT(ask_find(root, "f", &found, &a), 0);
		CHECK(!*hooks[i] && found == made_anew);
		inode_unref_at(&made_anew);
		CHECK_INT(a.nlink, 1);
		CHECK_INT(ask_drop(root, "f", false), 0);
	}
}

PROPERTY(a_gfid_is_given_once)
{
	cleanup_inode struct inode *f = NULL;
	REQUEST(q, 0);

	CHECK_INT(ask_make_file(root, "f", &f, NULL), 0);
	struct mkdir_in in = { .loc = { .parent = root, .name = "d" }, .gfid = f->gfid, .mode = 0700 };
	struct mknod_in nin = { .loc = { .parent = root, .name = "n" }, .gfid = f->gfid, .mode = S_IFREG | 0600 };
	struct mkdir_out out = { 0 };
	struct mknod_out nout = { 0 };

	CHECK_INT(mkdir_on(&q.r, brick, &in, &out), -EEXIST);
	CHECK_INT(mknod_on(&q.r, brick, &nin, &nout), -EEXIST);
	nin.gfid = (struct gfid){ { 0 } };
	CHECK_INT(mknod_on(&q.r, brick, &nin, &nout), -EINVAL);
}
