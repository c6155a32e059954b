/* SPDX-License-Identifier: Apache-2.0 */
/* features/usage above storage/posix: what it has charged is what an independent walk over the brick finds. Needs root. */
#include "usage-test.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "allot.h"
#include "soft.h"

/* ---- random work ---- */

static uint64_t rng;
static uint32_t any(uint32_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 20) % below;
}

static char *any_name(char name[64])
{
	snprintf(name, 64, any(2) ? "/d%u/f%u" : "/f%u", any(3), any(6));
	return name;
}

static void any_write(const char *name)
{
	char bytes[9000] = { 0 };
	struct file *file = NULL;

	if (tree_create(&tree, name, O_RDWR | (any(4) ? 0 : O_TRUNC), 0644, &file))
		return;
	tree_write(&tree, file, any(20000), bytes, 1 + any(sizeof(bytes) - 1));
	if (!any(4)) {
		struct fallocate_in in = {
			.file = file, .mode = any(3) ? FALLOC_FL_KEEP_SIZE : 0, .offset = any(30000), .length = 1 + any(30000)
		};
		struct fallocate_out out = { 0 };

		tree_call(&tree, tree.at, FOP_fallocate, &in, &out);
	}
	if (!any(3))
		tree_unlink(&tree, name); /* while it is open */
	if (!any(3))
		tree_write(&tree, file, any(50000), bytes, sizeof(bytes));
	tree_release(&tree, file);
}

static void one_step(void)
{
	char a[64], b[64], value[3000] = { 0 };
	struct setattr set = { .valid = SET_SIZE, .size = any(40000) };

	any_name(a);
	any_name(b);
	switch (any(13)) {
	case 0:
	case 1:
	case 2:
		any_write(a);
		break;
	case 3:
		tree_unlink(&tree, a);
		break;
	case 4:
		tree_rename(&tree, a, b, any(3) ? 0 : 2);
		break;
	case 5:
		tree_link(&tree, a, b);
		break;
	case 6:
		tree_symlink(&tree, "somewhere", a);
		break;
	case 7:
		tree_setattr(&tree, a, &set);
		break;
	case 8:
		set = (struct setattr){ .valid = SET_UID, .uid = owner[any(OWNERS)] };
		tree_setattr(&tree, a, &set);
		break;
	case 9:
		tree_setxattr(&tree, a, any(2) ? "user.one" : "user.two", value, any(sizeof(value)), 0);
		break;
	case 10:
		tree_removexattr(&tree, a, any(2) ? "user.one" : "user.two");
		break;
	case 12:
		snprintf(a, sizeof(a), "/d%u", any(3));
		snprintf(b, sizeof(b), "/e/d%u", any(3));
		tree_mkdir(&tree, "/e", 0755);
		any(2) ? tree_rename(&tree, a, b, 0) : tree_rename(&tree, b, a, 0);
		break;
	case 11:
		snprintf(a, sizeof(a), "/d%u", any(3));
		any(3) ? tree_mkdir(&tree, a, 0755) : tree_rmdir(&tree, a);
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

/* ---- the properties ---- */

static void what_is_charged_is_what_is_there(void **s)
{
	(void)s;
	rng = seed | 1;
	open_tree();
	assert_true(EVENTUALLY(is_exact()));
	for (int i = 0; i < 20; i++) {
		work(200);
		expect_equal();
	}
	tree_close(&tree);
	open_tree();
	assert_true(is_exact());
	expect_equal();
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
	for (int i = 0; i < 10; i++) {
		tell("recount", NULL, &text);
		free(text);
		work(100);
		assert_true(EVENTUALLY(is_exact()));
		expect_equal();
	}
	tree_close(&tree);
}

static void make(void *arg)
{
	assert_int_equal(tree_put(&tree, arg, "text"), 0);
}

static void what_a_disk_did_not_tell_is_counted_anew(void **s)
{
	int offset = 1 << 20;
	char *text;

	(void)s;
	open_tree();
	task_call(make, (void *)"/f");
	set_failure("percent", "100");
	task_call(grow, &offset);
	assert_false(is_exact());
	set_failure("percent", "0");
	tell("recount", NULL, &text); /* which begins at once, if one was to begin later */
	free(text);
	assert_true(EVENTUALLY(is_exact()));
	expect_equal();
	set_failure("count", "1");
	set_failure("percent", "100");
	task_call(grow, &offset);
	assert_true(EVENTUALLY(is_exact())); /* though nobody asks */
	expect_equal();
	tree_close(&tree);
}

static void reserve_much(void *arg)
{
	struct fallocate_in in = { .mode = FALLOC_FL_KEEP_SIZE, .length = 1 << 20 };
	struct fallocate_out out = { 0 };

	(void)arg;
	if (tree_create(&tree, "/f", O_RDWR, 0644, &in.file))
		return;
	tree_call(&tree, tree.at, FOP_fallocate, &in, &out);
	tree_release(&tree, in.file);
}

static void cut(void *arg)
{
	struct setattr set = { .valid = SET_SIZE, .size = 0 };

	*(int *)arg = tree_setattr(&tree, "/f", &set);
}

/* The cut is done, and what was reserved is gone; only what is charged for that can't be read. */
static void what_was_cut_and_not_read_is_counted_anew(void **s)
{
	int err = -1;

	(void)s;
	failing = "listxattr";
	open_tree();
	failing = "getattr";
	task_call(reserve_much, NULL);
	assert_true(EVENTUALLY(is_exact())); /* a new ledger counts what is there */
	expect_equal();
	set_failure("count", "1");
	set_failure("percent", "100");
	task_call(cut, &err);
	assert_int_equal(err, 0);
	assert_true(EVENTUALLY(is_exact()));
	expect_equal();
	tree_close(&tree);
}

/* As a client does in a session after the one that it was lost in: it says what it has removed. */
static int remove_again(const char *path, struct inode *was)
{
	struct rmdir_in in = { { 0 } };
	struct rmdir_out out;
	struct request rq;
	int err = tree_loc(&tree, path, &in.loc);

	in.loc.inode = was;
	request_init(&rq, tree.graph, 0);
	rq.resent = true;
	if (!err)
		err = rmdir_on(&rq, tree.at, &in, &out);
	request_finish(&rq);
	inode_unref(in.loc.parent);
	return err;
}

static void removed_twice(void *arg)
{
	struct inode *was = NULL;
	struct attr attr;
	int *err = arg;

	err[0] = tree_mkdir(&tree, "/d", 0755);
	err[1] = tree_walk(&tree, "/d", &was);
	err[2] = tree_rmdir(&tree, "/d");
	err[3] = remove_again("/d", was);
	err[4] = tree_mkdir(&tree, "/d", 0755);
	err[5] = remove_again("/d", was);
	err[6] = tree_getattr(&tree, "/d", &attr);
	inode_unref(was);
}

static void what_a_first_try_has_removed_is_gone(void **s)
{
	int err[7] = { 0 };

	(void)s;
	open_tree();
	task_call(removed_twice, err);
	for (int i = 0; i < 7; i++)
		assert_int_equal(err[i], 0);
	assert_true(EVENTUALLY(is_exact()));
	expect_equal();
	tree_close(&tree);
}

/* ---- who takes a name while it is exchanged ---- */

static struct {
	int err;
	atomic_bool done;
} exchanged;

static void exchange_again(void *arg)
{
	struct rename_in in = { .flags = RENAME_EXCHANGE };
	struct rename_out out;
	struct request rq;

	(void)arg;
	request_init(&rq, tree.graph, 0);
	rq.resent = true;
	exchanged.err = tree_loc(&tree, "/p/a", &in.from);
	if (!exchanged.err)
		exchanged.err = tree_loc(&tree, "/q/b", &in.to);
	if (!exchanged.err)
		exchanged.err = rename_on(&rq, tree.at, &in, &out);
	inode_unref(in.from.parent);
	inode_unref(in.to.parent);
	request_finish(&rq);
	exchanged.done = true;
}

static void make_two(void *arg)
{
	(void)arg;
	tree_mkdir(&tree, "/p", 0755);
	tree_mkdir(&tree, "/q", 0755);
	tree_put(&tree, "/p/a", "a");
	tree_put(&tree, "/q/b", "b");
}

/* The directories are known by then, and what is in them not. */
static void exchange_while_one_goes(void *arg)
{
	struct xlator *top = tree.at;

	(void)arg;
	tree_put(&tree, "/p/other", "text");
	tree_put(&tree, "/q/other", "text");
	hold_tell("hold", "getattr");
	task_spawn(NULL, exchange_again, NULL);
	for (int i = 0; i < tries_of(2) && !hold_has(1); i++)
		task_sleep_ms(2);
	tree.at = tree_find(&tree, "posix");
	tree_unlink(&tree, "/q/b");
	tree.at = top;
	hold_tell("hold", "none");
	hold_tell("release", "all");
	for (int i = 0; i < tries_of(2) && !exchanged.done; i++)
		task_sleep_ms(2);
}

static void what_has_gone_meanwhile_is_exchanged_with_nothing(void **s)
{
	(void)s;
	open_tree();
	task_call(make_two, NULL);
	tree_close(&tree);
	open_tree();
	assert_true(
		EVENTUALLY(is_exact())); /* or what a first count asks for would be kept in place of the exchange's question */
	task_call(exchange_while_one_goes, NULL);
	assert_true(exchanged.done);
	assert_true(exchanged.err == -ENOENT || exchanged.err == -ESTALE);
	tree_close(&tree);
}

static void shrunk_after_growth(void *arg)
{
	struct setattr set = { .valid = SET_SIZE, .size = 10 };
	struct fallocate_in in = { .mode = FALLOC_FL_KEEP_SIZE, .offset = 0, .length = 1 << 20 };
	struct fallocate_out out = { 0 };

	(void)arg;
	assert_int_equal(tree_create(&tree, "/f", O_RDWR, 0644, &in.file), 0);
	assert_int_equal(tree_call(&tree, tree.at, FOP_fallocate, &in, &out), 0);
	tree_write(&tree, in.file, 0, "0123456789abcdef", 16);
	assert_int_equal(tree_setattr(&tree, "/f", arg ? arg : &set), 0);
	tree_release(&tree, in.file);
}

static void what_is_reserved_is_charged_until_it_is_cut(void **s)
{
	struct setattr longer = { .valid = SET_SIZE, .size = 100 };
	struct sums sums;

	(void)s;
	open_tree();
	assert_true(EVENTUALLY(is_exact()));
	assert_int_equal(task_call(shrunk_after_growth, &longer), 0);
	expect_equal();
	sums = walk();
	assert_true(sums.bytes[0] > 1 << 20);
	assert_int_equal(task_call(shrunk_after_growth, NULL), 0);
	expect_equal();
	sums = walk();
	assert_true(sums.bytes[0] < 1 << 20);
	tree_close(&tree);
}

/* ---- clients that choose gfids as they like ---- */

static int create_as(const char *path, const struct gfid *gfid, struct file **file)
{
	struct create_in in = { .gfid = *gfid, .flags = O_RDWR | O_CREAT | O_EXCL, .mode = 0644 };
	struct create_out out = { 0 };
	int err = tree_loc(&tree, path, &in.loc);

	if (!err)
		err = tree_call(&tree, tree.at, FOP_create, &in, &out);
	if (!err && file)
		*file = file_ref(out.file);
	fop_out_clear(FOP_create, &out);
	inode_unref(in.loc.parent);
	return err;
}

struct twice {
	int first, again, other_type, charged_open;
};

static void use_twice(void *arg)
{
	static const char bytes[50000];
	struct twice *t = arg;
	struct file *file = NULL;
	struct gfid g;

	gfid_create(&g);
	t->first = create_as("/one", &g, &file);
	if (t->first)
		return;
	tree_write(&tree, file, 0, bytes, sizeof(bytes));
	tree_unlink(&tree, "/one"); /* it is open */
	t->again = create_as("/one", &g, NULL);
	t->other_type = mkdir_as("/other", &g);
	tree_release(&tree, file);
}

static void a_gfid_of_what_is_open_is_not_used_twice(void **s)
{
	struct twice t = { 0 };

	(void)s;
	open_tree();
	assert_true(EVENTUALLY(is_exact()));
	assert_int_equal(task_call(use_twice, &t), 0);
	assert_int_equal(t.first, 0);
	assert_int_equal(t.again, -EEXIST);
	assert_int_equal(t.other_type, -EEXIST);
	expect_equal();
	tree_close(&tree);
}

static void make_alike(void *arg)
{
	struct gfid g;
	char name[16];

	gfid_create(&g);
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "/a%d", i);
		g.bytes[0]++;
		*(int *)arg |= create_as(name, &g, NULL);
	}
}

static void objects_with_gfids_that_are_alike_are_all_counted(void **s)
{
	char *text;
	int err = 0;

	(void)s;
	open_tree();
	assert_true(EVENTUALLY(is_exact()));
	assert_int_equal(task_call(make_alike, &err), 0);
	assert_int_equal(err, 0);
	tell("recount", NULL, &text);
	free(text);
	assert_true(EVENTUALLY(is_exact()));
	expect_equal();
	tree_close(&tree);
}

static void ask_compound(void *arg)
{
	struct compound_in in = { .steps = { 0, NULL } };
	struct compound_out out = { 0 };

	*(int *)arg = tree_call(&tree, tree.at, FOP_compound, &in, &out);
}

static void cut_by_opening(void *arg)
{
	struct fallocate_in in = { .mode = FALLOC_FL_KEEP_SIZE, .length = 1 << 20 };
	struct fallocate_out out = { 0 };

	*(int *)arg = tree_create(&tree, "/r", O_RDWR, 0644, &in.file);
	if (*(int *)arg)
		return;
	*(int *)arg = tree_call(&tree, tree.at, FOP_fallocate, &in, &out);
	tree_release(&tree, in.file);
	*(int *)arg |= tree_open_file(&tree, "/r", O_RDWR | O_TRUNC, NULL);
}

static void nothing_passes_by(void **s)
{
	int err = 0;

	(void)s;
	open_tree();
	assert_true(EVENTUALLY(is_exact()));
	assert_int_equal(task_call(ask_compound, &err), 0);
	assert_int_equal(err, -EOPNOTSUPP);
	assert_int_equal(task_call(cut_by_opening, &err), 0);
	assert_int_equal(err, 0);
	expect_equal();
	assert_true(walk().bytes[0] < 1 << 20);
	tree_close(&tree);
}

/* As long as names of tenants may be. */
static void names_of_accounts_have_64_characters(void **s)
{
	struct problem p = { 0 };
	char text[256];
	struct xlator *x;

	(void)s;
	open_tree();
	x = tree_find(&tree, "usage");
	for (int length = 64; length < 66; length++) {
		char name[80] = "";

		memset(name, 'n', (size_t)length);
		snprintf(text, sizeof(text), "%s 300000 100", name);
		assert_int_equal(option_change(x->type->options, x->private, "usage", "accounts", text, &p), 0);
		x->type->reconfigure(x, option_find(x->type->options, "accounts"));
		{
			char *told;

			tell("status", "--json", &told);
			assert_int_equal(strstr(told, name) != NULL, length == 64);
			free(told);
		}
	}
	tree_close(&tree);
}

/* ---- a volume that comes to be at two servers ---- */

static void open_pool(void)
{
	struct problem p = { 0 };
	char text[2048];

	snprintf(
		text, sizeof(text),
		"volume posix\n type storage/posix\n option directory %s\n option free-space-floor 0\n"
		" option volume-id 6d6a1f70-0d3c-4c1d-9a65-3d1a7c1f4b01\n option brick-id 0f0e0d0c-0b0a-4908-8706-050403020100\n"
		"end-volume\nvolume usage\n type features/usage\n option ledger %s\n option pool one\n"
		" option accounts \"acme %d %d 0 0 8388608 100 3600\"\n subvolumes posix\nend-volume\n",
		path_in("brick"), path_in("ledger"), BASE_A, COUNT);
	if (tree_open(&tree, text, &p))
		fail_msg("%s", p.text);
}

static void reconfigure(const char *name, const char *value)
{
	struct xlator *x = tree_find(&tree, "usage");
	struct problem p = { 0 };

	assert_int_equal(option_change(x->type->options, x->private, "usage", name, value, &p), 0);
	x->type->reconfigure(x, option_find(x->type->options, name));
}

static void note_told(struct soft_list *list, void *told)
{
	*(bool *)told |= soft_find(list, BASE_A) != NULL;
}

static void look_at_pool(struct allot_pool *p, void *told)
{
	p->with_soft(p->pool, note_told, told);
}

static bool is_told(void)
{
	bool told = false;

	allot_each_pool(look_at_pool, &told);
	return told;
}

/* Nobody of the account has to do anything for that: until it is told nothing grows. */
static void what_has_a_soft_limit_is_told_as_soon_as_there_is_a_second_server(void **s)
{
	(void)s;
	open_pool();
	assert_false(is_told());
	reconfigure("pool-servers", "2");
	assert_true(is_told());
	reconfigure("pool-servers", "1");
	reconfigure("pool-bricks", "2"); /* of which one is here */
	reconfigure("pool-servers", "2");
	assert_false(is_told());
	reconfigure("pool-bricks", "1");
	assert_true(is_told());
	tree_close(&tree);
}

/* ---- limits ---- */

enum { WRITERS = 8, LIMIT_BYTES = 4 << 20, LIMIT_INODES = 120 };
static atomic_int writing, over, refusals;

static struct sums charged(void)
{
	struct sums sums = { 0 };
	char *text;

	tell("status", "--json", &text);
	sums.bytes[1] = number_after(text, "acme", "\"bytes\": ");
	sums.inodes[1] = number_after(text, "acme", "\"inodes\": ");
	free(text);
	return sums;
}

static void writer(void *arg)
{
	struct tree mine = tree;
	uint64_t random = seed + (uint64_t)(uintptr_t)arg;

	mine.uid = BASE_A + (uid_t)(uintptr_t)arg;
	for (int i = 0; i < 400; i++) {
		struct sums now;

		refusals += change_one(&mine, "/w", &random) == -EDQUOT;
		now = charged();
		over += now.bytes[1] > LIMIT_BYTES || now.inodes[1] > LIMIT_INODES;
	}
	writing--;
}

static void make_room(void *arg)
{
	struct setattr owner_is = { .valid = SET_UID, .uid = BASE_A };

	(void)arg;
	tree_mkdir(&tree, "/w", 0777);
	tree_setattr(&tree, "/w", &owner_is);
}

static void nobody_has_more_than_his_limit(void **s)
{
	(void)s;
	limit_bytes = LIMIT_BYTES;
	limit_inodes = LIMIT_INODES;
	open_tree();
	limit_bytes = limit_inodes = 0;
	assert_true(EVENTUALLY(is_exact()));
	assert_int_equal(task_call(make_room, NULL), 0);
	over = refusals = 0;
	writing = WRITERS;
	for (uintptr_t i = 0; i < WRITERS; i++)
		assert_int_equal(task_spawn(runtime_shard(i % 2), writer, (void *)i), 0);
	for (int tries = 0; writing && tries < 6; tries++)
		(void)EVENTUALLY(!writing);
	assert_int_equal(writing, 0);
	assert_int_equal(over, 0);
	assert_true(refusals > 0);
	expect_equal();
	tree_close(&tree);
}

/* In pieces, until the first is refused: and then all but a small rest has been used. */
static void fill(void *arg)
{
	static const char bytes[4096];
	struct tree mine = tree;
	struct file *file = NULL;
	struct statfs_in in = { 0 };
	struct statfs_out out = { 0 };
	int err;

	mine.uid = BASE_A;
	*(int *)arg = tree_create(&mine, "/w/full", O_RDWR, 0644, &file);
	if (*(int *)arg)
		return;
	for (uint64_t at = 0; !(err = tree_write(&mine, file, at, bytes, sizeof(bytes))); at += sizeof(bytes))
		;
	*(int *)arg = err;
	if (!tree_call(&mine, mine.at, FOP_statfs, &in, &out) && out.statfs.blocks * out.statfs.frsize != LIMIT_BYTES)
		*(int *)arg = -ERANGE;
	tree_release(&mine, file);
}

static void all_of_it_can_be_had(void **s)
{
	int err = 0;

	(void)s;
	limit_bytes = LIMIT_BYTES;
	open_tree();
	limit_bytes = 0;
	assert_true(EVENTUALLY(is_exact()));
	assert_int_equal(task_call(make_room, NULL), 0);
	assert_int_equal(task_call(fill, &err), 0);
	assert_int_equal(err, -EDQUOT);
	assert_true(charged().bytes[1] > LIMIT_BYTES - LIMIT_BYTES / 100);
	assert_true(charged().bytes[1] <= LIMIT_BYTES);
	expect_equal();
	tree_close(&tree);
}

/* The process is killed in the middle of its work, as often as it says; the next one settles what was noted. */
static void work_on(uint64_t random)
{
	rng = random | 1;
	work(1000000);
}

static void a_killed_process_loses_and_gains_nothing(void **s)
{
	(void)s;
	kill_at_work(12, work_on, expect_equal);
}

int main(void)
{
	static const struct CMUnitTest killed[] = { cmocka_unit_test_setup_teardown(a_killed_process_loses_and_gains_nothing,
										    setup, teardown) };
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_charged_is_what_is_there, setup, teardown),
		cmocka_unit_test_setup_teardown(a_recount_beside_changes_is_exact, setup, teardown),
		cmocka_unit_test_setup_teardown(what_was_cut_and_not_read_is_counted_anew, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_first_try_has_removed_is_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(what_has_gone_meanwhile_is_exchanged_with_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_disk_did_not_tell_is_counted_anew, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_reserved_is_charged_until_it_is_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(a_gfid_of_what_is_open_is_not_used_twice, setup, teardown),
		cmocka_unit_test_setup_teardown(objects_with_gfids_that_are_alike_are_all_counted, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_passes_by, setup, teardown),
		cmocka_unit_test_setup_teardown(names_of_accounts_have_64_characters, setup, teardown),
		cmocka_unit_test_setup_teardown(what_has_a_soft_limit_is_told_as_soon_as_there_is_a_second_server, setup,
						teardown),
		cmocka_unit_test_setup_teardown(nobody_has_more_than_his_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(all_of_it_can_be_had, setup, teardown),
	};
	int failed = cmocka_run_group_tests(killed, NULL, NULL); /* forks, so before there are threads */

	failed += cmocka_run_group_tests(tests, tasks_start, tasks_stop);
	return failed + births_run() + taking_run();
}
