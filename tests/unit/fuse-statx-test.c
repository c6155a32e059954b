/* SPDX-License-Identifier: Apache-2.0 */
/* mount/fuse: what FUSE_STATX tells: all that FUSE_GETATTR does, and the time of birth where that is known. */
#include "test.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "fuse-internal.h"

/* What fuse-node.c needs beside. */
void keep_forget(struct mount *m, const struct inode *inode)
{
	(void)m, (void)inode;
}
void listing_let_go(struct mount *m, struct handle *h)
{
	(void)m, (void)h;
}

static struct attr attr_of_type(uint32_t type)
{
	return (struct attr){
		.gfid = { { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 } },
		.mode = type | 06751,
		.nlink = 17,
		.uid = 18,
		.gid = 19,
		.rdev = makedev(259, 70000),
		.size = 1ull << 40,
		.blocks = 21,
		.blksize = 4096,
		.atime = { 22, 23 },
		.mtime = { 24, 25 },
		.ctime = { 26, 27 },
		.btime = { 28, 29 },
	};
}

static void what_getattr_tells_statx_tells_too(void **state)
{
	const uint32_t types[] = { S_IFREG, S_IFDIR, S_IFCHR };

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct attr attr = attr_of_type(types[i]);
		struct fuse_statx s;
		struct fuse_attr a;

		attr_fill(&a, &attr);
		statx_fill(&s, &attr);
		assert_int_equal(s.mask & STATX_BASIC_STATS, STATX_BASIC_STATS);
		assert_int_equal(s.ino, a.ino);
		assert_int_equal(s.mode, a.mode);
		assert_int_equal(s.nlink, a.nlink);
		assert_int_equal(s.uid, a.uid);
		assert_int_equal(s.gid, a.gid);
		assert_int_equal(makedev(s.rdev_major, s.rdev_minor), a.rdev);
		assert_int_equal(s.size, a.size);
		assert_int_equal(s.blocks, a.blocks);
		assert_int_equal(s.blksize, a.blksize);
		assert_int_equal(s.atime.tv_sec, a.atime);
		assert_int_equal(s.atime.tv_nsec, a.atimensec);
		assert_int_equal(s.mtime.tv_sec, a.mtime);
		assert_int_equal(s.mtime.tv_nsec, a.mtimensec);
		assert_int_equal(s.ctime.tv_sec, a.ctime);
		assert_int_equal(s.ctime.tv_nsec, a.ctimensec);
	}
}

static void a_birth_is_told_only_if_it_is_known(void **state)
{
	struct attr attr = attr_of_type(S_IFREG);
	struct fuse_statx s;

	(void)state;
	statx_fill(&s, &attr);
	assert_true(s.mask & STATX_BTIME);
	assert_int_equal(s.btime.tv_sec, 28);
	assert_int_equal(s.btime.tv_nsec, 29);
	attr.btime = (struct time){ 0 };
	statx_fill(&s, &attr);
	assert_int_equal(s.mask, STATX_BASIC_STATS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_getattr_tells_statx_tells_too),
		cmocka_unit_test(a_birth_is_told_only_if_it_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
