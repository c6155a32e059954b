/* SPDX-License-Identifier: Apache-2.0 */
/* What replication needs of a leaf (storage/posix and debug/memory alike): times that come with the request, the names of an object,
 * sync. The first needs root; skipped otherwise. */
#include "test-tasks.h"
#include "test.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tree.h"

static struct tree tree;
static struct xlator *leaf;
static char base[128];
static int failures;
static struct client one, two;

#define LONG_NAME "a-name-of-more-than-twenty-four-bytes-which-the-identity-cuts"

static void open_leaf(const char *volfile)
{
	struct problem problem = { "" };

	failures = 0;
	if (tree_open(&tree, volfile, &problem))
		fail_msg("%s", problem.text);
	leaf = tree.at;
	tree.client = &one;
}

static void on_memory(task_fn *fn)
{
	open_leaf("volume leaf\n type debug/memory\nend-volume\n");
	assert_int_equal(task_call(fn, NULL), 0);
	tree_close(&tree);
	assert_int_equal(failures, 0);
}

static void open_posix(void)
{
	char text[512];

	snprintf(
		text, sizeof(text),
		"volume leaf\n type storage/posix\n option directory %s\n option volume-id 6d6a1f70-0d3c-4c1d-9a65-3d1a7c1f4b01\n"
		" option brick-id 0f0e0d0c-0b0a-4908-8706-050403020100\n option free-space-floor 0\nend-volume\n",
		base);
	open_leaf(text);
}

static void on_posix(task_fn *fn, task_fn *after_restart)
{
	if (geteuid())
		return;
	test_directory(base, sizeof(base), "replica-leaf");
	open_posix();
	assert_int_equal(task_call(fn, NULL), 0);
	tree_close(&tree);
	if (!failures && after_restart) {
		open_posix();
		assert_int_equal(task_call(after_restart, NULL), 0);
		tree_close(&tree);
	}
	test_remove(base);
	assert_int_equal(failures, 0);
}

#define PROPERTY(name)                                                                                                         \
	static void name##_(void *arg);                                                                                        \
	static void name(void **state)                                                                                         \
	{                                                                                                                      \
		(void)state;                                                                                                   \
		on_memory(name##_);                                                                                            \
		on_posix(name##_, NULL);                                                                                       \
	}                                                                                                                      \
	static void name##_(void *arg __attribute__((unused)))

static int64_t mtime(const char *path)
{
	struct attr a = { 0 };
	int err = tree_getattr(&tree, path, &a);

	return err ? err : a.mtime.sec * 1000 + a.mtime.nsec / 1000000;
}

static void at_ms(uint64_t ms)
{
	tree.time_ns = ms * 1000000;
}

PROPERTY(what_is_made_and_where_gets_the_time)
{
	struct attr a;

	at_ms(1001);
	CHECK_INT(tree_mkdir(&tree, "d", 0755), 0);
	CHECK_INT(mtime("d"), 1001);
	CHECK_INT(mtime(""), 1001);
	at_ms(1002);
	CHECK_INT(tree_mknod(&tree, "d/f", S_IFREG | 0644, 0), 0);
	CHECK_INT(tree_getattr(&tree, "d/f", &a), 0);
	CHECK_INT(a.mtime.nsec, 2000000);
	CHECK_INT(a.atime.nsec, 2000000);
	CHECK_INT(a.btime.nsec, 2000000);
	CHECK_INT(a.mtime.sec, 1);
	CHECK_INT(mtime("d"), 1002);
	CHECK_INT(mtime(""), 1001);
	at_ms(1003);
	CHECK_INT(tree_mknod(&tree, "d/p", S_IFIFO | 0644, 0), 0);
	CHECK_INT(mtime("d/p"), 1003);
	CHECK_INT(mtime("d"), 1003);
	at_ms(1004);
	CHECK_INT(tree_symlink(&tree, "x", "d/s"), 0);
	CHECK_INT(mtime("d/s"), 1004);
	CHECK_INT(mtime("d"), 1004);
	at_ms(1005);
	CHECK_INT(tree_create(&tree, "d/c", O_RDWR | O_EXCL, 0644, NULL), 0);
	CHECK_INT(mtime("d/c"), 1005);
	CHECK_INT(mtime("d"), 1005);
	at_ms(1006);
	CHECK_INT(tree_link(&tree, "d/c", "l"), 0);
	CHECK_INT(mtime("l"), 1005);
	CHECK_INT(mtime(""), 1006);
	at_ms(1007);
	CHECK_INT(tree_rename(&tree, "l", "d/l", 0), 0);
	CHECK_INT(mtime("d/l"), 1005);
	CHECK_INT(mtime(""), 1007);
	CHECK_INT(mtime("d"), 1007);
	at_ms(1008);
	CHECK_INT(tree_unlink(&tree, "d/l"), 0);
	CHECK_INT(mtime("d/c"), 1005);
	CHECK_INT(mtime("d"), 1008);
	at_ms(1009);
	CHECK_INT(tree_mkdir(&tree, "d/e", 0755), 0);
	at_ms(1010);
	CHECK_INT(tree_rmdir(&tree, "d/e"), 0);
	CHECK_INT(mtime("d"), 1010);
}

static int set(uint32_t valid, int64_t ms, uint64_t size)
{
	struct time t = { ms / 1000, (uint32_t)(ms % 1000) * 1000000 };
	struct setattr s = { .valid = valid, .size = size, .atime = t, .mtime = t, .mode = 0600 };

	return tree_setattr(&tree, "f", &s);
}

static int reserve(struct file *file, uint32_t mode, uint64_t length)
{
	struct fallocate_in in = { file, mode, 0, length };
	struct fallocate_out out = { 0 };

	return tree_call(&tree, leaf, FOP_fallocate, &in, &out);
}

static int copy(struct file *file)
{
	struct copy_range_in in = { file, 0, file, 8192, 3 };
	struct copy_range_out out = { 0 };

	return tree_call(&tree, leaf, FOP_copy_range, &in, &out);
}

PROPERTY(changes_of_a_file_give_it_the_time)
{
	cleanup_file struct file *file = NULL;
	struct attr a;

	at_ms(2000);
	CHECK_INT(tree_create(&tree, "f", O_RDWR, 0644, &file), 0);
	at_ms(2001);
	CHECK_INT(tree_write(&tree, file, 0, "abc", 3), 0);
	CHECK_INT(mtime("f"), 2001);
	at_ms(2002);
	CHECK_INT(set(SET_SIZE, 0, 4096), 0);
	CHECK_INT(mtime("f"), 2002);
	at_ms(2003);
	CHECK_INT(set(SET_SIZE, 0, 4096), 0);
	CHECK_INT(mtime("f"), 2003);
	at_ms(2004);
	CHECK_INT(reserve(file, FALLOC_FL_KEEP_SIZE, 4096), 0);
	CHECK_INT(mtime("f"), 2004);
	at_ms(2005);
	CHECK_INT(copy(file), 0);
	CHECK_INT(mtime("f"), 2005);
	at_ms(2006);
	CHECK_INT(set(SET_MODE, 0, 0), 0);
	CHECK_INT(mtime("f"), 2005);
	at_ms(2007);
	CHECK_INT(set(SET_ATIME_NOW | SET_MTIME_NOW, 0, 0), 0);
	CHECK_INT(tree_getattr(&tree, "f", &a), 0);
	CHECK_INT(a.atime.nsec, 7000000);
	CHECK_INT(mtime("f"), 2007);
	at_ms(2008);
	CHECK_INT(tree_open_file(&tree, "f", O_WRONLY | O_TRUNC, NULL), 0);
	CHECK_INT(mtime("f"), 2008);
	at_ms(2009);
	CHECK_INT(tree_create(&tree, "f", O_WRONLY | O_TRUNC, 0644, NULL), 0);
	CHECK_INT(mtime("f"), 2009);
	at_ms(2010);
	CHECK_INT(set(SET_SIZE | SET_MTIME, 77000, 5), 0);
	CHECK_INT(mtime("f"), 77000);
}

/* So an arbiter hears of writes. */
PROPERTY(a_write_without_data_is_one)
{
	cleanup_file struct file *file = NULL;
	struct setattr s = { .valid = SET_MODE, .mode = 04755 };
	struct write_in in = { .flags = WRITE_KILL_PRIV, .offset = 4096 };
	struct write_out out = { 0 };
	struct attr a;

	at_ms(2500);
	CHECK_INT(tree_create(&tree, "f", O_RDWR, 0644, &file), 0);
	CHECK_INT(tree_setattr(&tree, "f", &s), 0);
	at_ms(2501);
	in.file = file;
	in.data = buffer_create(0);
	CHECK_INT(tree_call(&tree, leaf, FOP_write, &in, &out), 0);
	buffer_unref(in.data);
	CHECK_INT(mtime("f"), 2501);
	CHECK_INT(tree_getattr(&tree, "f", &a), 0);
	CHECK_INT(a.mode & 07777, 0755);
	CHECK_INT((int)a.size, 0);
}

PROPERTY(the_youngest_change_of_a_client_counts_whatever_the_order)
{
	cleanup_file struct file *file = NULL;

	at_ms(3000);
	CHECK_INT(tree_create(&tree, "f", O_RDWR, 0644, &file), 0);
	at_ms(3002);
	CHECK_INT(tree_write(&tree, file, 0, "abc", 3), 0);
	at_ms(3001);
	CHECK_INT(tree_write(&tree, file, 0, "abc", 3), 0);
	CHECK_INT(mtime("f"), 3002);
	at_ms(3004);
	CHECK_INT(set(SET_MTIME, 500, 0), 0); /* back in time, for good */
	at_ms(3003);
	CHECK_INT(tree_write(&tree, file, 0, "abc", 3), 0);
	CHECK_INT(mtime("f"), 500);
	at_ms(3005);
	CHECK_INT(tree_write(&tree, file, 0, "abc", 3), 0);
	CHECK_INT(mtime("f"), 3005);
	at_ms(3007);
	CHECK_INT(tree_write(&tree, file, 0, "abc", 3), 0);
	at_ms(3006);
	CHECK_INT(set(SET_MTIME, 99000, 0), 0); /* was sent before the write */
	CHECK_INT(mtime("f"), 3007);
	at_ms(3008);
	CHECK_INT(set(SET_MTIME, 99000, 0), 0);
	CHECK_INT(mtime("f"), 99000);
	at_ms(3009);
	CHECK_INT(tree_write(&tree, file, 0, "abc", 3), 0);
	CHECK_INT(mtime("f"), 3009);
	at_ms(3011);
	CHECK_INT(tree_mkdir(&tree, "a", 0755), 0);
	at_ms(3010);
	CHECK_INT(tree_mkdir(&tree, "b", 0755), 0);
	CHECK_INT(mtime(""), 3011);
}

PROPERTY(the_last_client_counts_whatever_its_clock_says)
{
	at_ms(4000);
	CHECK_INT(tree_create(&tree, "f", O_RDWR, 0644, NULL), 0);
	tree.client = &two;
	at_ms(3500);
	CHECK_INT(set(SET_SIZE, 0, 1), 0);
	CHECK_INT(mtime("f"), 3500);
	at_ms(0);
	CHECK_INT(set(SET_MTIME, 1234, 0), 0);
	CHECK_INT(mtime("f"), 1234);
	at_ms(3000);
	CHECK_INT(set(SET_SIZE, 0, 1), 0);
	CHECK_INT(mtime("f"), 3000);
	tree.client = &one;
}

/* ---- names ---- */

/* How often the object of `path` is told to have the name in the directory of that path; *all: names told. */
static int told(const char *path, const char *directory, const char *name, unsigned *all)
{
	cleanup_inode struct inode *inode = NULL, *parent = NULL;
	struct blob links = { 0 };
	const uint8_t *at;
	uint32_t count;
	int err = tree_walk(&tree, path, &inode), found = 0;

	err = err ? err : tree_walk(&tree, directory, &parent);
	err = err ? err : leaf->type->inode_links(leaf, inode, &links);
	if (err)
		return err;
	memcpy(&count, links.bytes, 4);
	*all = be32toh(count);
	at = (const uint8_t *)links.bytes + 4;
	for (unsigned i = 0; i < *all; i++, at += 17 + at[16])
		found += !memcmp(at, parent->gfid.bytes, 16) && at[16] == strlen(name) && !memcmp(at + 17, name, at[16]);
	if (at != (const uint8_t *)links.bytes + links.size)
		found = -EBADMSG;
	free(links.bytes);
	return found;
}

static void tells(const char *path, const char *directory, const char *name, unsigned should)
{
	unsigned all = 0;

	CHECK_INT(told(path, directory, name, &all), 1);
	CHECK_INT(all, should);
}

static void names_are_told_(void *arg)
{
	char name[300];

	(void)arg;
	CHECK_INT(tree_mkdir(&tree, "d", 0755), 0);
	CHECK_INT(tree_mkdir(&tree, "d/" LONG_NAME, 0755), 0);
	CHECK_INT(tree_mknod(&tree, "d/f", S_IFREG | 0644, 0), 0);
	CHECK_INT(tree_mknod(&tree, "d/" LONG_NAME "-file", S_IFREG | 0644, 0), 0);
	CHECK_INT(tree_mknod(&tree, "d/" LONG_NAME "-fils", S_IFREG | 0644, 0), 0);
	CHECK_INT(tree_symlink(&tree, "x", "d/" LONG_NAME "-link"), 0);
	tells("d", "", "d", 1);
	tells("d/f", "d", "f", 1);
	tells("d/" LONG_NAME, "d", LONG_NAME, 1);
	tells("d/" LONG_NAME "-file", "d", LONG_NAME "-file", 1);
	tells("d/" LONG_NAME "-fils", "d", LONG_NAME "-fils", 1);
	tells("d/" LONG_NAME "-link", "d", LONG_NAME "-link", 1);
	for (int i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "%s-%d", LONG_NAME, i);
		CHECK_INT(tree_link(&tree, "d/f", name), 0);
		tells("d/f", "", name, (unsigned)i + 2);
	}
	CHECK_INT(tree_rename(&tree, "d/f", "g", 0), 0);
	tells("g", "", "g", 6);
	for (int i = 0; i < 5; i++) {
		tells("g", "", name, 6 - (unsigned)i);
		CHECK_INT(tree_unlink(&tree, name), 0);
		snprintf(name, sizeof(name), "%s-%d", LONG_NAME, i);
	}
	tells("g", "", "g", 1);
	CHECK_INT(tree_rename(&tree, "d/" LONG_NAME, LONG_NAME "-moved", 0), 0);
	tells(LONG_NAME "-moved", "", LONG_NAME "-moved", 1);
	CHECK_INT(leaf->type->sync(leaf), 0);
}

static void names_are_told_after_a_restart_(void *arg)
{
	(void)arg;
	tells("d/" LONG_NAME "-file", "d", LONG_NAME "-file", 1);
	tells("d/" LONG_NAME "-link", "d", LONG_NAME "-link", 1);
	tells(LONG_NAME "-moved", "", LONG_NAME "-moved", 1);
	CHECK_INT(leaf->type->sync(leaf), 0);
}

static void names_are_told_whole(void **state)
{
	(void)state;
	on_memory(names_are_told_);
	on_posix(names_are_told_, names_are_told_after_a_restart_);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_made_and_where_gets_the_time),
		cmocka_unit_test(changes_of_a_file_give_it_the_time),
		cmocka_unit_test(a_write_without_data_is_one),
		cmocka_unit_test(the_youngest_change_of_a_client_counts_whatever_the_order),
		cmocka_unit_test(the_last_client_counts_whatever_its_clock_says),
		cmocka_unit_test(names_are_told_whole),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
