/* SPDX-License-Identifier: Apache-2.0 */
/* features/usage and a tenant who wants more than he pays for, or that nobody gets on: each property here has been broken once. Needs root. */
#include "usage-test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "born.h"

static atomic_int failures, at_work;

static void open_limited(int bytes, int inodes)
{
	limit_bytes = bytes;
	limit_inodes = inodes;
	open_tree();
	limit_bytes = limit_inodes = 0;
	assert_true(EVENTUALLY(is_exact()));
	failures = 0;
}

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

static bool is_counting(void)
{
	char *text;
	bool counting;

	tell("status", "--json", &text);
	counting = strstr(text, "\"recount\": true");
	free(text);
	return counting;
}

static void recount(void)
{
	char *text;

	tell("recount", NULL, &text);
	free(text);
}

/* "/w" is acme's. */
static void make_room(void *arg)
{
	struct setattr is_acmes = { .valid = SET_UID, .uid = BASE_A };

	(void)arg;
	CHECK_INT(tree_mkdir(&tree, "/w", 0777), 0);
	CHECK_INT(tree_setattr(&tree, "/w", &is_acmes), 0);
}

static struct tree as_acme(void)
{
	struct tree mine = tree;

	mine.uid = BASE_A;
	return mine;
}

static void run(void (*fn)(void *), void *arg)
{
	assert_int_equal(task_call(fn, arg), 0);
	assert_int_equal(failures, 0);
}

/* ---- deep trees ---- */

enum { DEPTH = 1200, DESCRIPTORS = 256 };

static void dig(void *arg)
{
	struct inode *at = inode_get(tree.graph->inodes, &gfid_root, S_IFDIR);

	for (int i = 0; i < DEPTH && !*(int *)arg; i++) {
		struct mkdir_in in = { .loc = { .parent = at, .name = "d" }, .mode = 0755 };
		struct mkdir_out out = { 0 };

		gfid_create(&in.gfid);
		*(int *)arg = tree_call(&tree, tree.at, FOP_mkdir, &in, &out);
		inode_unref(at);
		at = out.inode;
	}
	inode_unref(at);
}

static int dig_and_count(void)
{
	struct rlimit few = { DESCRIPTORS, DESCRIPTORS };
	int err = 0;

	setrlimit(RLIMIT_NOFILE, &few);
	runtime_start(1, 0);
	open_tree();
	if (!EVENTUALLY(is_exact()) || task_call(dig, &err) || err)
		return 2;
	recount();
	if (!EVENTUALLY(is_exact()))
		return 3;
	expect_equal();
	tree_close(&tree);
	return 0;
}

static void a_recount_gets_to_the_ground_of_a_deep_tree(void **s)
{
	int status;
	pid_t child = fork();

	(void)s;
	if (!child)
		_exit(dig_and_count());
	waitpid(child, &status, 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- many who want the same two directories ---- */

enum { ROUNDS = 300 };

static void back_and_forth(void *arg)
{
	unsigned number = (unsigned)(uintptr_t)arg;
	char there[32], here[32];

	snprintf(here, sizeof(here), "/%s/f%u", number % 2 ? "one" : "two", number);
	snprintf(there, sizeof(there), "/%s/f%u", number % 2 ? "two" : "one", number);
	for (int i = 0; i < ROUNDS; i++) {
		tree_create(&tree, here, O_RDWR, 0644, NULL);
		tree_rename(&tree, here, there, 0);
		tree_link(&tree, there, here);
		tree_unlink(&tree, there);
	}
	at_work--;
}

/* Wants to be alone with each of them. */
static void alone(void *arg)
{
	unsigned number = (unsigned)(uintptr_t)arg;
	const char *dir = number % 2 ? "/one" : "/two";
	struct setattr set = { .valid = SET_UID };

	for (int i = 0; i < ROUNDS; i++) {
		set.uid = owner[i % OWNERS];
		tree_setattr(&tree, dir, &set);
		tree_setxattr(&tree, dir, "user.x", &i, sizeof(i), 0);
	}
	at_work--;
}

static void make_both(void *arg)
{
	(void)arg;
	CHECK_INT(tree_mkdir(&tree, "/one", 0755), 0);
	CHECK_INT(tree_mkdir(&tree, "/two", 0755), 0);
}

static void nobody_waits_in_a_circle_for_two_directories(void **s)
{
	bool done = false;

	(void)s;
	open_limited(0, 0);
	run(make_both, NULL);
	at_work = 8;
	for (uintptr_t i = 0; i < 8; i++)
		assert_int_equal(task_spawn(runtime_shard(i % 2), i < 5 ? back_and_forth : alone, (void *)i), 0);
	for (int tries = 0; !done && tries < 6; tries++)
		done = EVENTUALLY(!at_work);
	assert_int_equal(at_work, 0);
	expect_equal();
	tree_close(&tree);
}

/* ---- directories that are always on the move ---- */

enum { DIRECTORIES = 40 };
static atomic_bool stop;

static void move_without_end(void *arg)
{
	char from[32], to[32];

	(void)arg;
	for (unsigned i = 0; !stop; i++) {
		snprintf(from, sizeof(from), "/%s/d%u", i / DIRECTORIES % 2 ? "two" : "one", i % DIRECTORIES);
		snprintf(to, sizeof(to), "/%s/d%u", i / DIRECTORIES % 2 ? "one" : "two", i % DIRECTORIES);
		tree_rename(&tree, from, to, 0);
	}
	at_work--;
}

static void make_movable(void *arg)
{
	char name[64];

	make_both(arg);
	for (int i = 0; i < DIRECTORIES; i++) {
		snprintf(name, sizeof(name), "/one/d%d", i);
		CHECK_INT(tree_mkdir(&tree, name, 0755), 0);
		strcat(name, "/f");
		CHECK_INT(tree_create(&tree, name, O_RDWR, 0644, NULL), 0);
	}
}

static void a_recount_ends_however_long_directories_are_moved(void **s)
{
	bool ends;

	(void)s;
	slow_ms = 2;
	open_limited(0, 0);
	slow_ms = 0;
	run(make_movable, NULL);
	stop = false;
	at_work = 2;
	for (int i = 0; i < 2; i++)
		assert_int_equal(task_spawn(runtime_shard(i), move_without_end, NULL), 0);
	recount();
	assert_true(EVENTUALLY(is_counting()));
	ends = EVENTUALLY(!is_counting());
	stop = true;
	assert_true(EVENTUALLY(!at_work));
	assert_true(ends);
	assert_true(is_exact());
	expect_equal();
	tree_close(&tree);
}

/* ---- files without a name ---- */

enum { NOTES_THERE_ARE = 8192, MORE = NOTES_THERE_ARE + 100 };
static struct file *orphan[MORE];

static int make_orphan(struct tree *t, int i)
{
	int err = tree_create(t, "/w/o", O_RDWR, 0644, &orphan[i]);

	return err ? err : tree_unlink(t, "/w/o");
}

static void release_orphans(struct tree *t)
{
	for (int i = 0; i < MORE; i++)
		if (orphan[i])
			tree_release(t, orphan[i]);
	memset(orphan, 0, sizeof(orphan));
}

static void make_orphans(void *arg)
{
	struct tree mine = as_acme();

	(void)arg;
	for (int i = 0; i < MORE; i++)
		CHECK_INT(make_orphan(&mine, i), 0);
}

static void end_orphans(void *arg)
{
	struct tree mine = as_acme();

	(void)arg;
	release_orphans(&mine);
}

static bool can_open(unsigned files)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_cur > files + 2000;
}

static void more_files_without_names_than_notes_are_charged_as_long_as_they_are_open(void **s)
{
	struct sums before;

	(void)s;
	if (!can_open(2 * MORE))
		skip();
	open_limited(0, 0);
	run(make_room, NULL);
	before = charged();
	run(make_orphans, NULL);
	assert_int_equal(charged().inodes[1] - before.inodes[1], MORE);
	assert_true(is_exact());
	run(end_orphans, NULL);
	assert_true(EVENTUALLY(charged().inodes[1] == before.inodes[1]));
	expect_equal();
	assert_true(is_exact());
	tree_close(&tree);
}

enum { INODES = 100 };

static void hold_orphans(void *got)
{
	struct tree mine = as_acme();
	int i = 0, err = 0;

	while (i < 2 * INODES && !(err = make_orphan(&mine, i)))
		i++;
	CHECK_INT(err, -EDQUOT);
	*(int *)got = i;
}

static void files_without_names_count_for_the_limit(void **s)
{
	int got = 0;

	(void)s;
	open_limited(0, INODES);
	run(make_room, NULL);
	run(hold_orphans, &got);
	assert_int_equal(got, INODES - 1); /* beside /w */
	run(end_orphans, NULL);
	expect_equal();
	tree_close(&tree);
}

/* ---- requests that come again ---- */

static int again(enum fop fop, const void *in, void *out)
{
	struct request rq;
	int err;

	request_init(&rq, tree.graph, 0);
	rq.uid = rq.gid = BASE_A;
	rq.group_count = 0;
	rq.resent = true;
	err = fop_call(&rq, tree.at, fop, in, out);
	request_finish(&rq);
	return err;
}

static int make_again(enum fop fop, const char *path, const struct gfid *gfid)
{
	struct mkdir_in mkdir_in = { .gfid = *gfid, .mode = 0755 };
	struct create_in create_in = { .gfid = *gfid, .flags = O_RDWR | O_CREAT | O_EXCL, .mode = 0644 };
	struct symlink_in symlink_in = { .gfid = *gfid, .target = "t" };
	union {
		struct mkdir_out mkdir;
		struct create_out create;
		struct symlink_out symlink;
	} out = { 0 };
	struct loc loc;
	int err = tree_loc(&tree, path, &loc);

	mkdir_in.loc = create_in.loc = symlink_in.loc = loc;
	if (!err)
		err = again(fop,
			    fop == FOP_mkdir	? (void *)&mkdir_in
			    : fop == FOP_create ? (void *)&create_in
						: (void *)&symlink_in,
			    &out);
	if (!err)
		fop_out_clear(fop, &out);
	inode_unref(loc.parent);
	return err;
}

static int remove_again(enum fop fop, const char *path)
{
	struct unlink_in in = { 0 };
	struct unlink_out out;
	int err = tree_loc(&tree, path, &in.loc);

	if (!err)
		err = again(fop, &in, &out);
	inode_unref(in.loc.parent);
	return err;
}

static void send_all_twice(void *arg)
{
	static const enum fop making[] = { FOP_mkdir, FOP_create, FOP_symlink };
	struct gfid gfid;
	char name[16];

	(void)arg;
	for (int i = 0; i < 30; i++) {
		enum fop fop = making[i % 3];

		snprintf(name, sizeof(name), "/w/x%d", i);
		gfid_create(&gfid);
		for (int times = 0; times < 3; times++)
			CHECK_INT(make_again(fop, name, &gfid), 0);
		for (int times = 0; times < 2 && i % 2; times++)
			CHECK_INT(remove_again(fop == FOP_mkdir ? FOP_rmdir : FOP_unlink, name), 0);
	}
}

static void what_is_sent_again_is_charged_once(void **s)
{
	(void)s;
	open_limited(0, INODES);
	run(make_room, NULL);
	run(send_all_twice, NULL);
	assert_int_equal(charged().inodes[1], 1 + 15);
	expect_equal();
	recount();
	assert_true(EVENTUALLY(is_exact()));
	expect_equal();
	tree_close(&tree);
}

/* ---- births with attributes ---- */

enum { PIECE = 490 };

static int be_born_with(const char *path, unsigned count)
{
	static const char value[PIECE];
	static const char *const names[BORN_MAX] = { "user.0", "user.1", "user.2", "user.3",
						     "user.4", "user.5", "user.6", "user.7" };
	struct born_xattr xattr[BORN_MAX];
	struct create_in in = { .flags = O_RDWR | O_CREAT | O_EXCL, .mode = 0644 };
	struct create_out out = { 0 };
	struct request rq;
	int err = tree_loc(&tree, path, &in.loc);

	for (unsigned i = 0; i < count; i++)
		xattr[i] = (struct born_xattr){ names[i], value, sizeof(value) };
	gfid_create(&in.gfid);
	request_init(&rq, tree.graph, 0);
	rq.uid = rq.gid = BASE_A;
	rq.group_count = 0;
	if (!err)
		err = born_attach(&rq, xattr, count);
	if (!err)
		err = fop_call(&rq, tree.at, FOP_create, &in, &out);
	fop_out_clear(FOP_create, &out);
	request_finish(&rq);
	inode_unref(in.loc.parent);
	return err;
}

/* Below what is free at the birth; with the rest beyond it, where the brick's file system has room for so much. */
static void be_born_and_get_more(void *refused)
{
	struct tree mine = as_acme();
	static const char more[2000];
	char name[32];
	int err;

	for (int i = 0; i < 200 && !*(int *)refused; i++) {
		snprintf(name, sizeof(name), "/w/b%d", i);
		err = be_born_with(name, BORN_MAX - 2);
		if (!err)
			err = tree_setxattr(&mine, name, "user.more", more, sizeof(more), 0);
		if (err && err != -ENOSPC) /* some file systems have not so much room for them */
			*(int *)refused = err;
	}
}

static void what_is_born_with_attributes_is_charged_for_them(void **s)
{
	int refused = 0;

	(void)s;
	open_limited(400000, 0);
	run(make_room, NULL);
	run(be_born_and_get_more, &refused);
	assert_int_equal(refused, -EDQUOT);
	assert_in_range(charged().bytes[1], 1, 400000);
	expect_equal();
	tree_close(&tree);
}

/* ---- numbers at the edge ---- */

static const uint64_t edges[] = { INT64_MAX,	     INT64_MAX - 1, INT64_MAX - 4096, (uint64_t)INT64_MAX + 1, UINT64_MAX,
				  UINT64_MAX - 4096, 1ull << 62,    1ull << 60,	      (1ull << 60) + 1 };
enum { EDGES = sizeof(edges) / sizeof(*edges), LIMIT = 4 << 20 };
#define LENGTH_MAX (1ull << 60)

static void allocate(struct tree *t, struct file *file, uint32_t mode, uint64_t offset, uint64_t length)
{
	struct fallocate_in in = { .file = file, .mode = mode, .offset = offset, .length = length };
	struct fallocate_out out = { 0 };

	CHECK_INT(tree_call(t, t->at, FOP_fallocate, &in, &out) < 0, 1);
}

static void copy(struct tree *t, struct file *file, uint64_t from, uint64_t to, uint64_t length)
{
	struct copy_range_in in = { .from = file, .from_offset = from, .to = file, .to_offset = to, .length = length };
	struct copy_range_out out = { 0 };

	if (!tree_call(t, t->at, FOP_copy_range, &in, &out))
		CHECK_INT(out.copied, 0);
}

static void go_to_the_edges(void *arg)
{
	struct tree mine = as_acme();
	struct file *file = NULL;

	(void)arg;
	CHECK_INT(tree_create(&mine, "/w/f", O_RDWR, 0644, &file), 0);
	for (int i = 0; i < EDGES; i++) {
		struct setattr cut = { .valid = SET_SIZE, .size = edges[i] };

		CHECK_INT(tree_write(&mine, file, edges[i], "x", 1) < 0, 1);
		CHECK_INT(tree_setattr(&mine, "/w/f", &cut) < 0, 1);
		for (int k = 0; k < EDGES; k++) {
			allocate(&mine, file, 0, edges[i], edges[k]);
			allocate(&mine, file, FALLOC_FL_KEEP_SIZE, edges[i], edges[k]);
			allocate(&mine, file, FALLOC_FL_INSERT_RANGE, edges[i], edges[k]);
			copy(&mine, file, 0, edges[i], edges[k]);
		}
		allocate(&mine, file, FALLOC_FL_KEEP_SIZE, 4096, edges[i]);
		allocate(&mine, file, FALLOC_FL_KEEP_SIZE, edges[i], 4096);
		allocate(&mine, file, FALLOC_FL_ZERO_RANGE, 1, edges[i]);
	}
	CHECK_INT(tree_write(&mine, file, 0, "x", 1), 0); /* nothing has stayed claimed */
	CHECK_INT(tree_write(&mine, file, LIMIT / 2, "x", 1), 0);
	tree_release(&mine, file);
}

static void numbers_at_the_edge_are_refused_and_cost_nothing(void **s)
{
	(void)s;
	open_limited(LIMIT, 0);
	run(make_room, NULL);
	run(go_to_the_edges, NULL);
	assert_in_range(charged().bytes[1], LIMIT / 2, LIMIT / 2 + 6 * 4096);
	expect_equal();
	tree_close(&tree);
}

static void reserve_to_the_edges(void *arg)
{
	struct tree mine = as_acme();
	struct file *file = NULL;

	(void)arg;
	CHECK_INT(tree_create(&mine, "/w/f", O_RDWR, 0644, &file), 0);
	for (int i = 0; i < EDGES; i++) {
		if (edges[i] == LENGTH_MAX) /* where a file may be so long some of it is reserved until the disk is full */
			continue;
		allocate(&mine, file, FALLOC_FL_KEEP_SIZE, 0, edges[i]);
		allocate(&mine, file, FALLOC_FL_KEEP_SIZE, 4096, edges[i]);
		allocate(&mine, file, FALLOC_FL_KEEP_SIZE, edges[i], 4096);
	}
	allocate(&mine, file, FALLOC_FL_KEEP_SIZE, LENGTH_MAX, 1);
	tree_release(&mine, file);
}

/* It was noted before it was refused. */
static void what_no_file_can_reserve_is_not_charged(void **s)
{
	(void)s;
	open_limited(0, 0);
	run(make_room, NULL);
	run(reserve_to_the_edges, NULL);
	assert_in_range(charged().bytes[1], 1, 6 * 4096);
	expect_equal();
	tree_close(&tree);
}

int main(void)
{
	static const struct CMUnitTest alone_in_its_process[] = {
		cmocka_unit_test_setup_teardown(a_recount_gets_to_the_ground_of_a_deep_tree, setup, teardown)
	};
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nobody_waits_in_a_circle_for_two_directories, setup, teardown),
		cmocka_unit_test_setup_teardown(a_recount_ends_however_long_directories_are_moved, setup, teardown),
		cmocka_unit_test_setup_teardown(more_files_without_names_than_notes_are_charged_as_long_as_they_are_open, setup,
						teardown),
		cmocka_unit_test_setup_teardown(files_without_names_count_for_the_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_sent_again_is_charged_once, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_born_with_attributes_is_charged_for_them, setup, teardown),
		cmocka_unit_test_setup_teardown(numbers_at_the_edge_are_refused_and_cost_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(what_no_file_can_reserve_is_not_charged, setup, teardown),
	};
	int failed = cmocka_run_group_tests(alone_in_its_process, NULL, NULL);

	return failed + cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
