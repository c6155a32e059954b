/* SPDX-License-Identifier: Apache-2.0 */
/* features/usage: births with the gfid of what is there. */
#include "usage-test.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "allot.h"
#include "soft.h"

/* ---- births with the gfid of what is there, and of which nobody has learnt since the start what it is charged ---- */

static struct {
	struct inode *file, *directory; /* references */
	int err[3];
	atomic_bool writes;
	atomic_int ended;
} living;

static void make_living(void *arg)
{
	*(int *)arg = tree_mkdir(&tree, "/d", 0755);
	*(int *)arg |= tree_put(&tree, "/d/f", "text");
	*(int *)arg |= tree_put(&tree, "/f", "text");
	*(int *)arg |= tree_put(&tree, "/other", "text");
}

static void find_living(void *arg)
{
	*(int *)arg = tree_walk(&tree, "/f", &living.file);
	*(int *)arg |= tree_walk(&tree, "/d", &living.directory);
}

static void open_living(void)
{
	int err = -1;

	open_tree();
	assert_true(EVENTUALLY(is_exact()));
	assert_int_equal(task_call(make_living, &err), 0);
	assert_int_equal(err, 0);
	tree_close(&tree);
	open_tree();
	assert_true(is_exact()); /* it does not count, and so learns nothing */
	assert_int_equal(task_call(find_living, &err), 0);
	assert_int_equal(err, 0);
	living.ended = 0;
	living.writes = false;
}

static void close_living(void)
{
	inode_unref_at(&living.file);
	inode_unref_at(&living.directory);
	tree_close(&tree);
}

static void be_born_as_file(void *arg)
{
	struct mknod_in in = { .gfid = living.file->gfid, .mode = S_IFREG | 0644 };
	struct mknod_out out = { 0 };

	(void)arg;
	living.err[0] = tree_loc(&tree, "/new", &in.loc);
	if (!living.err[0])
		living.err[0] = tree_call(&tree, tree.at, FOP_mknod, &in, &out);
	fop_out_clear(FOP_mknod, &out);
	inode_unref(in.loc.parent);
	living.ended++;
}

static void be_born_as_directory(void *arg)
{
	(void)arg;
	living.err[1] = mkdir_as("/newer", &living.directory->gfid);
	living.ended++;
}

static void let_go(void)
{
	hold_tell("hold", "none");
	hold_tell("release", "all");
}

static void a_birth_hides_nothing_from_a_recount(void **s)
{
	char *text;

	(void)s;
	open_living();
	hold_tell("hold", "mknod,mkdir");
	assert_int_equal(task_spawn(NULL, be_born_as_file, NULL), 0);
	assert_int_equal(task_spawn(NULL, be_born_as_directory, NULL), 0);
	assert_true(EVENTUALLY(hold_has(2)));
	tell("recount", NULL, &text);
	free(text);
	for (int i = 0; i < 100 && !is_exact();
	     i++) /* it waits for them: nobody sees that, but in half a second it would have ended */
		usleep(5000);
	let_go();
	assert_true(EVENTUALLY(living.ended == 2));
	assert_int_equal(living.err[0], -EEXIST);
	assert_int_equal(living.err[1], -EEXIST);
	assert_true(EVENTUALLY(is_exact()));
	expect_equal();
	close_living();
}

static void write_living(void *arg)
{
	static const char bytes[50000];
	struct file *file = NULL;

	(void)arg;
	living.err[2] = tree_open_file(&tree, "/f", O_RDWR, &file);
	living.writes = true;
	if (!living.err[2]) {
		living.err[2] = tree_write(&tree, file, 0, bytes, sizeof(bytes));
		tree_release(&tree, file);
	}
	living.ended++;
}

static void who_waits_for_a_birth_of_what_lives_finds_it(void **s)
{
	(void)s;
	open_living();
	hold_tell("hold", "mknod");
	assert_int_equal(task_spawn(NULL, be_born_as_file, NULL), 0);
	assert_true(EVENTUALLY(hold_has(1)));
	assert_int_equal(task_spawn(NULL, write_living, NULL), 0);
	assert_true(EVENTUALLY(living.writes));
	usleep(200000); /* until it waits, most likely */
	let_go();
	assert_true(EVENTUALLY(living.ended == 2));
	assert_int_equal(living.err[0], -EEXIST);
	assert_int_equal(living.err[2], 0);
	expect_equal();
	close_living();
}

static void open_as_file(void *arg)
{
	struct create_in in = { .gfid = living.file->gfid, .flags = O_RDWR | O_CREAT, .mode = 0644 };
	struct create_out out = { 0 };

	*(int *)arg = tree_loc(&tree, "/other", &in.loc);
	if (!*(int *)arg)
		*(int *)arg = tree_call(&tree, tree.at, FOP_create, &in, &out);
	fop_out_clear(FOP_create, &out);
	inode_unref(in.loc.parent);
}

static void who_opens_what_is_there_has_nothing_else_charged(void **s)
{
	int err = -1;

	(void)s;
	open_living();
	assert_int_equal(task_call(open_as_file, &err), 0);
	assert_int_equal(err, 0);
	expect_equal();
	close_living();
}

/* In the middle of the recount that is owed for that: the failed look is not one of its own. */
static void a_birth_takes_nothing_of_what_a_disk_did_not_tell(void **s)
{
	int offset = 1 << 20;

	(void)s;
	open_living();
	assert_int_equal(task_call(grow, &offset), 0);
	set_failure("count", "1");
	set_failure("percent", "100");
	hold_tell("hold", "opendir");
	assert_int_equal(task_call(grow, &offset), 0);
	assert_true(EVENTUALLY(hold_has(1)));
	assert_int_equal(task_call(be_born_as_file, NULL), 0);
	assert_int_equal(living.err[0], -EEXIST);
	let_go();
	assert_true(EVENTUALLY(is_exact()));
	expect_equal();
	close_living();
}

static int create_living(const char *path, struct inode *as, uint32_t flags)
{
	struct create_in in = { .gfid = as->gfid, .flags = O_RDWR | O_CREAT | flags, .mode = 0644 };
	struct create_out out = { 0 };
	int err = tree_loc(&tree, path, &in.loc);

	if (!err)
		err = tree_call(&tree, tree.at, FOP_create, &in, &out);
	fop_out_clear(FOP_create, &out);
	inode_unref(in.loc.parent);
	return err;
}

/* Where there is a directory, and where the file itself is: both are opened, as far as they can be. */
static void create_where_something_is(void *arg)
{
	int *err = arg;

	err[0] = create_living("/d", living.file, 0);
	err[1] = create_living("/f", living.file, 0);
	err[2] = create_living("/f", living.file, O_EXCL);
}

static void who_opens_by_its_own_gfid_is_not_charged_for_it_again(void **s)
{
	int err[3] = { 0 };

	(void)s;
	open_living();
	assert_int_equal(task_call(create_where_something_is, err), 0);
	assert_int_equal(err[0], -EISDIR);
	assert_int_equal(err[1], 0);
	assert_int_equal(err[2], -EEXIST);
	expect_equal();
	close_living();
}

static void be_born_where_nothing_can_be(void *arg)
{
	struct inode *parent = NULL;
	struct mknod_in in = { .gfid = living.file->gfid, .mode = S_IFREG | 0644, .loc = { .name = "new" } };
	struct mknod_out out = { 0 };
	int *err = arg;

	err[0] = tree_mkdir(&tree, "/gone", 0755) | tree_walk(&tree, "/gone", &parent) | tree_rmdir(&tree, "/gone");
	in.loc.parent = parent;
	err[1] = err[0] ? 0 : tree_call(&tree, tree.at, FOP_mknod, &in, &out);
	inode_unref(parent);
	fop_out_clear(FOP_mknod, &out);
}

/* In a directory that has gone, and on a full disk. */
static void a_birth_that_fails_charges_nothing_of_what_lives(void **s)
{
	int err[2] = { -1, 0 };

	(void)s;
	open_living();
	assert_int_equal(task_call(be_born_where_nothing_can_be, err), 0);
	assert_int_equal(err[0], 0);
	assert_int_equal(err[1], -ESTALE);
	expect_equal();
	set_failure("fops", "mknod,mkdir");
	set_failure("errno", "ENOSPC");
	set_failure("percent", "100");
	assert_int_equal(task_call(be_born_as_file, NULL), 0);
	assert_int_equal(task_call(be_born_as_directory, NULL), 0);
	assert_int_equal(living.err[0], -ENOSPC);
	assert_int_equal(living.err[1], -ENOSPC);
	assert_true(is_exact()); /* nothing is to be counted anew for that */
	expect_equal();
	close_living();
}

/* ---- what was made, though the birth has failed ---- */

static int append_only(const char *path, bool on)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), flags = 0, err = fd < 0 ? -1 : ioctl(fd, FS_IOC_GETFLAGS, &flags);

	flags = on ? flags | FS_APPEND_FL : flags & ~FS_APPEND_FL;
	if (!err)
		err = ioctl(fd, FS_IOC_SETFLAGS, &flags);
	close(fd);
	return err;
}

/* The request brings a time, which the directory does not take. */
static void be_born_too_late(void *arg)
{
	struct mknod_in in = { .mode = S_IFREG | 0644 };
	struct mknod_out out = { 0 };
	struct request rq;
	int *err = arg;

	gfid_create(&in.gfid);
	request_init(&rq, tree.graph, 0);
	rq.time_ns = 1000000000;
	*err = tree_loc(&tree, "/d/made", &in.loc);
	if (!*err)
		*err = mknod_on(&rq, tree.at, &in, &out);
	request_finish(&rq);
	fop_out_clear(FOP_mknod, &out);
	inode_unref(in.loc.parent);
}

static void what_was_made_by_a_birth_that_fails_is_charged(void **s)
{
	bool can;
	int err = 0;

	(void)s;
	open_living();
	can = !append_only(path_in("brick/d"), true);
	if (can)
		assert_int_equal(task_call(be_born_too_late, &err), 0);
	append_only(path_in("brick/d"), false);
	if (can) {
		assert_int_equal(err, -EPERM);
		assert_int_equal(access(path_in("brick/d/made"), F_OK), 0);
		assert_true(EVENTUALLY(is_exact()));
		expect_equal();
	}
	close_living();
	if (!can)
		skip();
}

/* ---- requests that come again ---- */

static atomic_bool again_ended, removed;
static int again_err;

static void make_again(void *arg)
{
	struct mknod_in in = { .gfid = living.file->gfid, .mode = S_IFREG | 0644 };
	struct mknod_out out = { 0 };
	struct request rq;

	(void)arg;
	request_init(&rq, tree.graph, 0);
	rq.resent = true;
	again_err = tree_loc(&tree, "/f", &in.loc);
	if (!again_err)
		again_err = mknod_on(&rq, tree.at, &in, &out);
	request_finish(&rq);
	fop_out_clear(FOP_mknod, &out);
	inode_unref(in.loc.parent);
	again_ended = true;
}

static void remove_living(void *arg)
{
	(void)arg;
	tree_unlink(&tree, "/f");
	removed = true;
}

/* Else the brick would make another one, and its note be that of the first. */
static void what_a_first_try_has_made_is_not_taken_away_before_the_second_has_ended(void **s)
{
	bool early;

	(void)s;
	open_living();
	again_ended = removed = false;
	hold_tell("hold", "mknod");
	assert_int_equal(task_spawn(NULL, make_again, NULL), 0);
	assert_true(EVENTUALLY(hold_has(1)));
	assert_int_equal(task_spawn(NULL, remove_living, NULL), 0);
	usleep(200000);
	early = removed;
	let_go();
	assert_true(EVENTUALLY(again_ended && removed));
	assert_false(early);
	assert_int_equal(again_err, 0);
	assert_int_equal(access(path_in("brick/f"), F_OK), -1);
	expect_equal();
	close_living();
}

/* The directory has gone from the brick, say: what the leaf says of that is what is to be told. */
static void what_the_leaf_calls_stale_is_told_so_to_a_second_try(void **s)
{
	(void)s;
	failing = "mknod";
	open_living();
	failing = "getattr";
	set_failure("errno", "ESTALE");
	set_failure("percent", "100");
	assert_int_equal(task_call(make_again, NULL), 0);
	set_failure("percent", "0");
	assert_int_equal(again_err, -ESTALE);
	expect_equal();
	close_living();
}

int births_run(void)
{
	static const struct CMUnitTest births[] = {
		cmocka_unit_test_setup_teardown(a_birth_hides_nothing_from_a_recount, setup, teardown),
		cmocka_unit_test_setup_teardown(who_waits_for_a_birth_of_what_lives_finds_it, setup, teardown),
		cmocka_unit_test_setup_teardown(who_opens_what_is_there_has_nothing_else_charged, setup, teardown),
		cmocka_unit_test_setup_teardown(a_birth_takes_nothing_of_what_a_disk_did_not_tell, setup, teardown),
		cmocka_unit_test_setup_teardown(who_opens_by_its_own_gfid_is_not_charged_for_it_again, setup, teardown),
		cmocka_unit_test_setup_teardown(a_birth_that_fails_charges_nothing_of_what_lives, setup, teardown),
		cmocka_unit_test_setup_teardown(what_was_made_by_a_birth_that_fails_is_charged, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_first_try_has_made_is_not_taken_away_before_the_second_has_ended, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_the_leaf_calls_stale_is_told_so_to_a_second_try, setup, teardown),
	};

	return cmocka_run_group_tests(births, tasks_start, tasks_stop);
}
