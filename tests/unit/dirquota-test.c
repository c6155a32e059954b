/* SPDX-License-Identifier: Apache-2.0 */
/* features/usage and directories that have a limit of their own: what is charged to them is what is below them, never more than the limit, and nothing gets in or out with
 * another tag. Needs root. */
#include "usage-test.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "born.h"
#include "ledger-file.h"
#include "quota.h"

enum { EXCHANGE = 2 };
static atomic_int failures;

static void run(void (*fn)(void *), void *arg)
{
	assert_int_equal(task_call(fn, arg), 0);
	assert_int_equal(failures, 0);
}

static void open_exact(void)
{
	open_tree();
	assert_true(EVENTUALLY(is_exact()));
	failures = 0;
}

static struct tree as_acme(void)
{
	struct tree mine = tree;

	mine.uid = BASE_A;
	return mine;
}

static int set_quota(const char *path, const char *limits)
{
	return tree_setxattr(&tree, path, QUOTA_XATTR, limits, strlen(limits), 0);
}

static int make_dir(const char *path)
{
	struct setattr is_acmes = { .valid = SET_UID, .uid = BASE_A };
	int err = tree_mkdir(&tree, path, 0777);

	return err ? err : tree_setattr(&tree, path, &is_acmes);
}

static int make_file(const char *path, size_t size)
{
	static const char bytes[65536];
	struct tree mine = as_acme();
	struct file *file = NULL;
	int err = tree_create(&mine, path, O_RDWR, 0644, &file);

	if (!err)
		err = tree_write(&mine, file, 0, bytes, size);
	if (file)
		tree_release(&mine, file);
	return err;
}

/* What is told of the object's limit; -errno: there is none. */
static int64_t told(const char *path, const char *key)
{
	struct blob value = { 0 };
	int err = tree_getxattr(&tree, path, QUOTA_XATTR, &value);
	char *text = err ? NULL : strndup(value.bytes, value.size), *at = text ? strstr(text, key) : NULL;
	int64_t n = err ? err : at ? strtoll(at + strlen(key), NULL, 10) : -EPROTO;

	free(text);
	free(value.bytes);
	return n;
}

static int directories(void)
{
	char *text, *at;
	int n = 0;

	tell("directories", "--json", &text);
	for (at = text; (at = strstr(at, "\"directory\"")); at++)
		n++;
	free(text);
	return n;
}

/* ---- who has which tag ---- */

static uint64_t tag_of(const char *path, bool *top)
{
	uint8_t value[24];
	ssize_t size = lgetxattr(path, DIR_XATTR, value, sizeof(value));
	uint64_t tag = 0;

	*top = size == 24;
	for (int i = 0; i < 8 && size >= 8; i++)
		tag = tag << 8 | value[i];
	return tag;
}

static char *living;
static int tops; /* of those */

static uint64_t living_tag(const char *path, bool *top)
{
	uint64_t tag = tag_of(path, top);
	char text[64];

	snprintf(text, sizeof(text), "\"directory\": %" PRIu64 ",", tag);
	return tag && strstr(living, text) ? tag : 0;
}

/* What is in a directory has its tag, unless it begins a tree of its own. */
static int compare_tags(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	char parent[1024];
	bool top, ignored;
	uint64_t tag = living_tag(path, &top), outside;

	(void)st, (void)type;
	if (!ftw->level)
		return 0;
	if (ftw->level == 1 && !strcmp(path + ftw->base, ".stratus"))
		return FTW_SKIP_SUBTREE;
	snprintf(parent, sizeof(parent), "%.*s", ftw->base - 1, path);
	outside = living_tag(parent, &ignored);
	tops += top && tag;
	if (top && tag ? outside : tag != outside)
		fail_msg("seed %" PRIu64 ": %s has tag %" PRIu64 "%s, its directory %" PRIu64, seed, path, tag,
			 top ? " (its own)" : "", outside);
	return 0;
}

static void expect_right(void)
{
	expect_equal();
	tell("directories", "--json", &living);
	tops = 0;
	assert_int_equal(nftw(path_in("brick"), compare_tags, 64, FTW_PHYS | FTW_ACTIONRETVAL), 0);
	free(living);
	assert_int_equal(tops, directories()); /* no row is left of a directory that went */
}

/* ---- random work ---- */

static uint64_t rng;
static uint32_t any(uint32_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 20) % below;
}

static char *any_dir(char name[64])
{
	static const char *const forms[] = { "", "/q%u", "/q%u", "/q%u/s", "/d%u" };

	snprintf(name, 64, forms[any(5)], any(3));
	return name;
}

static char *any_name(char name[64])
{
	any_dir(name);
	snprintf(name + strlen(name), 64 - strlen(name), "/f%u", any(5));
	return name;
}

static void any_work(const char *name)
{
	static const char bytes[9000];
	struct tree who = any(2) ? as_acme() : tree;
	struct file *file = NULL;

	if (tree_create(&who, name, O_RDWR | (any(4) ? 0 : O_TRUNC), 0666, &file))
		return;
	tree_write(&who, file, any(20000), bytes, 1 + any(sizeof(bytes) - 1));
	if (!any(4))
		tree_unlink(&who, name); /* while it is open */
	if (!any(3))
		tree_write(&who, file, any(50000), bytes, sizeof(bytes));
	tree_release(&who, file);
}

static void one_step(void)
{
	static const char value[3000];
	struct setattr set = { .valid = SET_SIZE, .size = any(40000) };
	char a[64], b[64], limits[64];

	any_name(a);
	any_name(b);
	switch (any(14)) {
	case 0:
	case 1:
	case 2:
		any_work(a);
		break;
	case 3:
		tree_unlink(&tree, a);
		break;
	case 4:
	case 5:
		tree_rename(&tree, a, b, any(3) ? 0 : EXCHANGE);
		break;
	case 6:
		tree_link(&tree, a, b);
		break;
	case 7:
		tree_symlink(&tree, "somewhere", a);
		break;
	case 8:
		tree_setattr(&tree, a, &set);
		break;
	case 9:
		tree_setxattr(&tree, a, "user.one", value, any(sizeof(value)), 0);
		break;
	case 10:
		any(4) ? make_dir(any_dir(a)) : tree_rmdir(&tree, any_dir(a));
		break;
	case 11:
		tree_rename(&tree, any_dir(a), any_dir(b), any(3) ? 0 : EXCHANGE);
		break;
	case 12:
		snprintf(limits, sizeof(limits), "%u %u", any(2) * (20000 + any(200000)), any(2) * any(20));
		set_quota(any_dir(a), limits);
		break;
	case 13:
		if (any(6))
			make_dir(any_dir(a));
		else
			tree_removexattr(&tree, any_dir(a), QUOTA_XATTR);
		break;
	}
}

static void many_steps(void *steps)
{
	for (int i = 0; i < *(int *)steps; i++)
		one_step();
}

static void work(int steps)
{
	assert_int_equal(task_call(many_steps, &steps), 0);
}

static void begin_with_limits(void *arg)
{
	(void)arg;
	CHECK_INT(make_dir("/q0"), 0);
	CHECK_INT(set_quota("/q0", "200000 20"), 0);
}

static void what_is_charged_is_what_is_below(void **s)
{
	(void)s;
	rng = seed | 1;
	open_exact();
	failures = 0;
	assert_int_equal(task_call(begin_with_limits, NULL), 0);
	assert_int_equal(failures, 0);
	for (int i = 0; i < 30; i++) {
		work(i ? 200 : 20);
		expect_right();
	}
	tree_close(&tree);
	open_tree();
	assert_true(is_exact());
	expect_right();
	tree_close(&tree);
}

static void a_recount_beside_changes_is_exact(void **s)
{
	char *text;

	(void)s;
	rng = seed | 1;
	slow_ms = 4;
	open_tree();
	slow_ms = 0;
	work(300);
	for (int i = 0; i < 10; i++) {
		tell("recount", NULL, &text);
		free(text);
		work(100);
		assert_true(EVENTUALLY(is_exact()));
		expect_right();
	}
	tree_close(&tree);
}

/* ---- the border ---- */

static void stand_at_the_border(void *arg)
{
	(void)arg;
	CHECK_INT(make_dir("/q"), 0);
	CHECK_INT(set_quota("/q", "1000000 100"), 0);
	CHECK_INT(make_dir("/q/s"), 0);
	CHECK_INT(make_dir("/d"), 0);
	CHECK_INT(make_file("/q/in", 100), 0);
	CHECK_INT(make_file("/d/out", 100), 0);
	CHECK_INT(tree_rename(&tree, "/q/in", "/d/x", 0), -EXDEV);
	CHECK_INT(tree_rename(&tree, "/d/out", "/q/x", 0), -EXDEV);
	CHECK_INT(tree_rename(&tree, "/q/in", "/d/out", EXCHANGE), -EXDEV);
	CHECK_INT(tree_rename(&tree, "/q/s", "/d/s", 0), -EXDEV);
	CHECK_INT(tree_rename(&tree, "/d", "/q/d", 0), -EXDEV);
	CHECK_INT(tree_link(&tree, "/q/in", "/d/x"), -EXDEV);
	CHECK_INT(tree_link(&tree, "/d/out", "/q/s/x"), -EXDEV);
	CHECK_INT(tree_rename(&tree, "/q/in", "/q/s/in", 0), 0);
	CHECK_INT(tree_link(&tree, "/q/s/in", "/q/again"), 0);
	CHECK_INT(tree_rename(&tree, "/q", "/d/moved", 0), 0); /* the directory itself is outside */
	CHECK_INT(make_dir("/p"), 0);
	CHECK_INT(set_quota("/p", "0 0"), 0);
	CHECK_INT(tree_rename(&tree, "/d/moved", "/p/q", 0), -EXDEV);
	CHECK_INT(tree_rename(&tree, "/d/moved/again", "/p/x", 0), -EXDEV);
	CHECK_INT(tree_rename(&tree, "/d/moved", "/p", EXCHANGE), 0);
	CHECK_INT((int)told("/p/s/in", "\ninodes "), 3);
}

static void nothing_gets_in_or_out_with_another_tag(void **s)
{
	(void)s;
	open_exact();
	run(stand_at_the_border, NULL);
	expect_right();
	tree_close(&tree);
}

/* ---- who may, and what ---- */

static void ask_for_limits(void *arg)
{
	struct tree mine = as_acme();

	(void)arg;
	CHECK_INT(make_dir("/q"), 0);
	CHECK_INT(make_file("/f", 1), 0);
	CHECK_INT(tree_setxattr(&mine, "/q", QUOTA_XATTR, "1 1", 3, 0), -EPERM);
	CHECK_INT(set_quota("/q", "1"), -EINVAL);
	CHECK_INT(set_quota("/q", "1 -1"), -EINVAL);
	CHECK_INT(set_quota("/q", "1 1 "), -EINVAL);
	CHECK_INT(set_quota("/q", "99999999999999999999 1"), -EINVAL);
	CHECK_INT(set_quota("/", "1 1"), -EINVAL);
	CHECK_INT(set_quota("/f", "1 1"), -ENOTDIR);
	CHECK_INT((int)told("/q", "x"), -ENODATA);
	CHECK_INT(tree_removexattr(&tree, "/q", QUOTA_XATTR), -ENODATA);
	CHECK_INT(set_quota("/q", "100000 10"), 0);
	CHECK_INT(make_dir("/q/s"), 0);
	CHECK_INT(set_quota("/q/s", "1 1"), -EEXIST);
	CHECK_INT(set_quota("/q", "200000 20"), 0);
	CHECK_INT((int)told("/q/s", "bytes-limit "), 200000);
	CHECK_INT((int)told("/q/s", "inodes-limit "), 20);
	CHECK_INT(tree_setxattr(&mine, "/q", QUOTA_XATTR, "1 1", 3, 0), -EPERM);
	CHECK_INT(tree_removexattr(&mine, "/q", QUOTA_XATTR), -EPERM);
	CHECK_INT(make_dir("/d"), 0);
	CHECK_INT(make_file("/d/f", 1), 0);
	CHECK_INT(set_quota("/d", "1 1"), -ENOTEMPTY);
	CHECK_INT(directories(), 1);
}

static void limits_are_set_on_empty_directories_by_who_may(void **s)
{
	(void)s;
	open_exact();
	run(ask_for_limits, NULL);
	expect_right();
	tree_close(&tree);
	open_exact();
	assert_int_equal(directories(), 1);
	expect_right();
	tree_close(&tree);
}

static void take_away(void *arg)
{
	(void)arg;
	CHECK_INT(make_dir("/q"), 0);
	CHECK_INT(set_quota("/q", "100000 3"), 0);
	CHECK_INT(make_dir("/q/s"), 0);
	CHECK_INT(make_file("/q/f", 1), 0);
	CHECK_INT(make_file("/q/g", 1), -EDQUOT);
	CHECK_INT(tree_removexattr(&tree, "/q", QUOTA_XATTR), 0);
	CHECK_INT((int)told("/q/f", "x"), -ENODATA);
	CHECK_INT(make_file("/q/g", 1), 0);
	CHECK_INT(tree_rename(&tree, "/q/f", "/f", 0), 0);
	CHECK_INT(set_quota("/q", "1 1"), -ENOTEMPTY);
	CHECK_INT(directories(), 0);
	CHECK_INT(tree_unlink(&tree, "/q/g"), 0);
	CHECK_INT(set_quota("/q/s", "100000 10"), 0); /* its old tag counts for nothing */
	CHECK_INT(tree_rename(&tree, "/f", "/q/s/f", 0), -EXDEV);
	CHECK_INT(make_file("/q/s/f", 1), 0);
	CHECK_INT((int)told("/q/s", "\ninodes "), 2);
	CHECK_INT(tree_unlink(&tree, "/q/s/f"), 0);
	CHECK_INT(tree_rmdir(&tree, "/q/s"), 0);
	CHECK_INT(directories(), 0);
}

static void what_is_taken_away_holds_nothing(void **s)
{
	(void)s;
	open_exact();
	run(take_away, NULL);
	expect_right();
	tree_close(&tree);
}

static void want_many(void *arg)
{
	char name[32];
	int err = 0, i;

	(void)arg;
	for (i = 0; i <= DIRS_OF_ACCOUNT && !err; i++) {
		snprintf(name, sizeof(name), "/m%d", i);
		err = make_dir(name);
		if (!err)
			err = set_quota(name, "0 0");
	}
	CHECK_INT(err, -ENOSPC);
	CHECK_INT(i, DIRS_OF_ACCOUNT + 1);
	CHECK_INT(directories(), DIRS_OF_ACCOUNT);
	CHECK_INT(tree_mkdir(&tree, "/other", 0755), 0);
	CHECK_INT(set_quota("/other", "0 0"), 0); /* of another account */
}

static void nobody_has_too_many(void **s)
{
	(void)s;
	open_exact();
	run(want_many, NULL);
	expect_right();
	tree_close(&tree);
}

/* ---- the limit ---- */

enum { WRITERS = 8, LIMIT_BYTES = 4 << 20, LIMIT_INODES = 120 };
static atomic_int writing, over, refusals;

static void writer(void *arg)
{
	struct tree mine = tree;
	uint64_t random = seed + (uint64_t)(uintptr_t)arg;

	mine.uid = BASE_A + (uid_t)(uintptr_t)arg;
	for (int i = 0; i < 400; i++) {
		refusals += change_one(&mine, "/q", &random) == -EDQUOT;
		over += told("/q", "bytes ") > LIMIT_BYTES || told("/q", "\ninodes ") > LIMIT_INODES;
	}
	writing--;
}

static void set_the_limit(void *arg)
{
	char limits[64];

	(void)arg;
	snprintf(limits, sizeof(limits), "%d %d", LIMIT_BYTES, LIMIT_INODES);
	CHECK_INT(make_dir("/q"), 0);
	CHECK_INT(set_quota("/q", limits), 0);
}

static void there_is_never_more_than_the_limit(void **s)
{
	(void)s;
	open_exact();
	run(set_the_limit, NULL);
	over = refusals = 0;
	writing = WRITERS;
	for (uintptr_t i = 0; i < WRITERS; i++)
		assert_int_equal(task_spawn(runtime_shard(i % 2), writer, (void *)i), 0);
	for (int tries = 0; writing && tries < 6; tries++)
		(void)EVENTUALLY(!writing);
	assert_int_equal(writing, 0);
	assert_int_equal(over, 0);
	assert_true(refusals > 0);
	expect_right();
	tree_close(&tree);
}

/* The account's limit holds as well, and statfs(2) shows the smaller one. */
static void see_both(void *arg)
{
	struct tree mine = as_acme();
	struct statfs_in in = { 0 };
	struct statfs_out out = { 0 };
	uint64_t block;

	(void)arg;
	CHECK_INT(make_dir("/q"), 0);
	CHECK_INT(make_dir("/p"), 0);
	CHECK_INT(set_quota("/q", "500000 20"), 0);
	CHECK_INT(set_quota("/p", "900000000 5000"), 0);
	CHECK_INT(make_dir("/q/s"), 0);
	CHECK_INT(tree_walk(&tree, "/q/s", &in.inode), 0);
	CHECK_INT(tree_call(&mine, mine.at, FOP_statfs, &in, &out), 0);
	block = out.statfs.frsize;
	CHECK_INT((int)(out.statfs.blocks), (int)(500000 / block));
	CHECK_INT((int)(out.statfs.bfree), (int)((500000 - 16384) / block));
	CHECK_INT((int)(out.statfs.bavail), (int)((500000 - 16384) / block));
	CHECK_INT((int)out.statfs.files, 20);
	CHECK_INT((int)out.statfs.ffree, 18);
	inode_unref(in.inode);
	CHECK_INT(tree_walk(&tree, "/p", &in.inode), 0);
	CHECK_INT(tree_call(&mine, mine.at, FOP_statfs, &in, &out), 0);
	CHECK_INT((int)(out.statfs.blocks), (int)(1000000 / block));
	CHECK_INT((int)out.statfs.files, 100);
	inode_unref(in.inode);
	CHECK_INT(make_file("/q/a", 60000), 0);
	for (int i = 0; i < 30 && !*(int *)arg; i++) {
		char name[32];

		snprintf(name, sizeof(name), "/p/%d", i);
		*(int *)arg = make_file(name, 60000);
	}
}

static void both_limits_hold(void **s)
{
	int err = 0;

	(void)s;
	limit_bytes = 1000000;
	limit_inodes = 100;
	open_exact();
	limit_bytes = limit_inodes = 0;
	run(see_both, &err);
	assert_int_equal(err, -EDQUOT);
	expect_right();
	tree_close(&tree);
}

/* ---- who wants none ---- */

static int be_born_with(const char *path, const struct born_xattr *with, unsigned count)
{
	struct create_in in = { .flags = O_RDWR | O_CREAT | O_EXCL, .mode = 0644 };
	struct create_out out = { 0 };
	struct request rq;
	struct born after;
	bool kept;
	int err = tree_loc(&tree, path, &in.loc);

	gfid_create(&in.gfid);
	request_init(&rq, tree.graph, 0);
	rq.uid = rq.gid = BASE_A;
	rq.group_count = 0;
	if (!err)
		err = born_attach(&rq, with, count);
	if (!err)
		err = fop_call(&rq, tree.at, FOP_create, &in, &out);
	kept = !born_of(&rq, &after) && after.count == count; /* who asks has his request back as it was */
	for (unsigned i = 0; i < count && kept; i++)
		kept = !strcmp(after.xattr[i].name, with[i].name);
	fop_out_clear(FOP_create, &out);
	request_finish(&rq);
	inode_unref(in.loc.parent);
	return kept ? err : -EPROTO;
}

static void want_no_tag(void *arg)
{
	const struct born_xattr mine[] = { { "user.a", "b", 1 } },
				forged[] = { { "user.a", "b", 1 }, { DIR_XATTR, "12345678", 8 } };
	struct born_xattr many[BORN_MAX];
	struct blob names = { 0 };
	struct listxattr_in in = { 0 };
	struct listxattr_out out = { 0 };

	(void)arg;
	CHECK_INT(make_dir("/q"), 0);
	CHECK_INT(make_dir("/d"), 0);
	CHECK_INT(set_quota("/q", "1000000 100"), 0);
	CHECK_INT(be_born_with("/q/a", mine, 1), 0);
	CHECK_INT(be_born_with("/q/n", NULL, 0), 0);
	CHECK_INT(tree_getxattr(&tree, "/q/a", "user.a", &names), 0);
	free(names.bytes);
	CHECK_INT(be_born_with("/q/b", forged, 2), -EPERM);
	CHECK_INT(be_born_with("/d/b", forged, 2), -EPERM);
	for (unsigned i = 0; i < BORN_MAX; i++) {
		static const char *const name[BORN_MAX] = { "user.0", "user.1", "user.2", "user.3",
							    "user.4", "user.5", "user.6", "user.7" };

		many[i] = (struct born_xattr){ name[i], "x", 1 };
	}
	CHECK_INT(be_born_with("/q/c", many, BORN_MAX), -EINVAL); /* no room for the tag: then there is no object */
	CHECK_INT(be_born_with("/d/c", many, BORN_MAX), 0);
	CHECK_INT(tree_setxattr(&tree, "/q/a", DIR_XATTR, "12345678", 8, 0), -EPERM);
	CHECK_INT(tree_removexattr(&tree, "/q/a", DIR_XATTR), -EPERM);
	CHECK_INT(tree_setxattr(&tree, "/d/c", DIR_XATTR, "12345678", 8, 0), -EPERM);
	CHECK_INT(tree_setxattr(&tree, "/d/c", RESERVED_XATTR, "12345678", 8, 0), -EPERM);
	CHECK_INT(tree_walk(&tree, "/q/a", &in.inode), 0);
	CHECK_INT(tree_call(&tree, tree.at, FOP_listxattr, &in, &out), 0);
	CHECK_INT(out.names.size, sizeof("user.a"));
	fop_out_clear(FOP_listxattr, &out);
	inode_unref(in.inode);
	CHECK_INT((int)told("/q", "\ninodes "), 3);
}

static void no_client_chooses_its_tag(void **s)
{
	(void)s;
	open_exact();
	run(want_no_tag, NULL);
	expect_right();
	tree_close(&tree);
}

/* Files are put into a directory while it gets its limit: they are in it, and then it gets none, or they have its tag. */
static void put_in(void *arg)
{
	char name[32];

	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "/r/%d-%d", (int)(uintptr_t)arg, i);
		if (make_file(name, 10) == -ENOENT)
			continue;
		tree_unlink(&tree, name);
	}
	writing--;
}

static void set_meanwhile(void *got)
{
	for (int i = 0; i < 100; i++) {
		int err = set_quota("/r", "0 0");

		*(int *)got += !err;
		if (!err)
			CHECK_INT(tree_removexattr(&tree, "/r", QUOTA_XATTR), 0);
		else
			CHECK_INT(err, -ENOTEMPTY);
	}
}

static void make_r(void *arg)
{
	(void)arg;
	CHECK_INT(make_dir("/r"), 0);
}

static void what_comes_in_meanwhile_has_the_tag_or_none_gets_it(void **s)
{
	int got = 0;

	(void)s;
	open_exact();
	run(make_r, NULL);
	writing = 3;
	for (uintptr_t i = 0; i < 3; i++)
		assert_int_equal(task_spawn(runtime_shard(i % 2), put_in, (void *)i), 0);
	run(set_meanwhile, &got);
	assert_true(EVENTUALLY(!writing));
	expect_right();
	tree_close(&tree);
}

/* ---- ledgers that are gone, or old ---- */

static void make_some(void *arg)
{
	(void)arg;
	CHECK_INT(make_dir("/a"), 0);
	CHECK_INT(make_file("/a/f", 1), 0);
	CHECK_INT(make_dir("/a/q"), 0);
	CHECK_INT(set_quota("/a/q", "300000 30"), 0);
	CHECK_INT(make_dir("/a/q/s"), 0);
	CHECK_INT(make_file("/a/q/s/f", 5000), 0);
	CHECK_INT(make_dir("/gone"), 0);
	CHECK_INT(set_quota("/gone", "300000 30"), 0);
	CHECK_INT(make_file("/gone/f", 5000), 0);
	CHECK_INT(tree_removexattr(&tree, "/gone", QUOTA_XATTR), 0);
}

/* Before their directory is met. */
static void change_some(void *arg)
{
	(void)arg;
	CHECK_INT(make_file("/a/q/s/f", 50000), 0);
	CHECK_INT(make_file("/gone/f", 50000), 0);
	CHECK_INT(make_file("/a/q/s/new", 5000), 0);
	CHECK_INT(tree_rename(&tree, "/a/q/s/f", "/f", 0), -EXDEV);
	CHECK_INT(tree_rename(&tree, "/a/f", "/a/q/s/x", 0), -EXDEV);
}

static void find_some(void *arg)
{
	CHECK_INT(directories(), 1);
	CHECK_INT((int)told("/a/q/s/f", "bytes-limit "), 300000);
	CHECK_INT((int)told("/a/q/s/f", "\ninodes "), arg ? 4 : 3);
	CHECK_INT((int)told("/gone/f", "x"), -ENODATA);
}

static void a_ledger_that_is_gone_is_made_anew(void **s)
{
	(void)s;
	open_exact();
	run(make_some, NULL);
	tree_close(&tree);
	assert_int_equal(unlink(path_in("ledger")), 0);
	slow_ms = 50;
	open_tree();
	slow_ms = 0;
	run(change_some, NULL);
	for (int tries = 0; !is_exact() && tries < 6; tries++)
		(void)EVENTUALLY(is_exact());
	run(find_some, "");
	expect_right();
	tree_close(&tree);
}

static void make_file_there(void *arg)
{
	(void)arg;
	CHECK_INT(make_file("/f", 50000), 0);
}

static void a_ledger_of_version_1_is_taken_over(void **s)
{
	uint32_t one = 1;
	int fd;

	(void)s;
	open_exact();
	run(make_file_there, NULL);
	tree_close(&tree);
	fd = open(path_in("ledger"), O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, &one, sizeof(one), offsetof(struct ledger_file, version)), sizeof(one));
	assert_int_equal(ftruncate(fd, LEDGER_SIZE_1), 0);
	close(fd);
	open_tree();
	assert_true(is_exact());
	expect_right();
	failures = 0;
	run(make_some, NULL);
	run(find_some, NULL);
	expect_right();
	tree_close(&tree);
}

static void make_three(void *arg)
{
	static const char *const names[] = { "/p", "/q", "/r" };

	(void)arg;
	for (int i = 0; i < 3; i++) {
		CHECK_INT(make_dir(names[i]), 0);
		CHECK_INT(set_quota(names[i], "300000 30"), 0);
	}
}

static void find_one(void *arg)
{
	(void)arg;
	CHECK_INT(directories(), 1);
	CHECK_INT((int)told("/r", "bytes-limit "), 7);
	CHECK_INT((int)told("/q", "x"), -ENODATA);
}

/* As when it was killed between the directory and the row. */
static void at_start_the_directories_are_right(void **s)
{
	static const uint8_t seven[16] = { [7] = 7, [15] = 8 };
	uint8_t value[24];

	(void)s;
	open_exact();
	run(make_three, NULL);
	tree_close(&tree);
	assert_int_equal(rmdir(path_in("brick/p")), 0);
	assert_int_equal(lremovexattr(path_in("brick/q"), DIR_XATTR), 0);
	assert_int_equal(lgetxattr(path_in("brick/r"), DIR_XATTR, value, sizeof(value)), sizeof(value));
	memcpy(value + 8, seven, sizeof(seven));
	assert_int_equal(lsetxattr(path_in("brick/r"), DIR_XATTR, value, sizeof(value), 0), 0);
	open_exact();
	run(find_one, NULL);
	tree_close(&tree);
}

/* ---- killed ---- */

static void work_on(uint64_t random)
{
	rng = random | 1;
	work(1000000);
}

static void a_killed_process_loses_and_gains_nothing(void **s)
{
	(void)s;
	kill_at_work(16, work_on, expect_right);
}

int main(void)
{
	static const struct CMUnitTest killed[] = { cmocka_unit_test_setup_teardown(a_killed_process_loses_and_gains_nothing,
										    setup, teardown) };
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_charged_is_what_is_below, setup, teardown),
		cmocka_unit_test_setup_teardown(a_recount_beside_changes_is_exact, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_gets_in_or_out_with_another_tag, setup, teardown),
		cmocka_unit_test_setup_teardown(limits_are_set_on_empty_directories_by_who_may, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_taken_away_holds_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(nobody_has_too_many, setup, teardown),
		cmocka_unit_test_setup_teardown(there_is_never_more_than_the_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(both_limits_hold, setup, teardown),
		cmocka_unit_test_setup_teardown(no_client_chooses_its_tag, setup, teardown),
		cmocka_unit_test_setup_teardown(what_comes_in_meanwhile_has_the_tag_or_none_gets_it, setup, teardown),
		cmocka_unit_test_setup_teardown(a_ledger_that_is_gone_is_made_anew, setup, teardown),
		cmocka_unit_test_setup_teardown(a_ledger_of_version_1_is_taken_over, setup, teardown),
		cmocka_unit_test_setup_teardown(at_start_the_directories_are_right, setup, teardown),
	};
	int failed = cmocka_run_group_tests(killed, NULL, NULL); /* forks, so before there are threads */

	return failed + cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
