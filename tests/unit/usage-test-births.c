/* SPDX-License-Identifier: Apache-2.0 */
/* features/usage: births with the gfid of what is there. */
#include "usage-test.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

int births_run(void)
{
	static const struct CMUnitTest births[] = {
		cmocka_unit_test_setup_teardown(a_birth_hides_nothing_from_a_recount, setup, teardown),
		cmocka_unit_test_setup_teardown(who_waits_for_a_birth_of_what_lives_finds_it, setup, teardown),
		cmocka_unit_test_setup_teardown(who_opens_what_is_there_has_nothing_else_charged, setup, teardown),
		cmocka_unit_test_setup_teardown(a_birth_takes_nothing_of_what_a_disk_did_not_tell, setup, teardown),
	};

	return cmocka_run_group_tests(births, tasks_start, tasks_stop);
}
