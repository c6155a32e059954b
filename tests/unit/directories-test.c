/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: directories that get a name at another subvolume; who does that may die at any message; and none gets below itself. */
#include "half-way.h"

#include "place.h"

static char *joined(char to[80], const char *directory, const char *name)
{
	if (snprintf(to, 80, "%s/%s", directory, name) >= 80)
		abort();
	return to;
}

PROPERTY(a_directory_gets_a_name_at_another_subvolume)
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b"), *c = name_at(2, "c");
	struct attr before, after;
	char path[80], other[80];

	CHECK_INT(put_directory(a, "text"), 0);
	CHECK_INT(tree_getattr(&tree, a, &before), 0);
	CHECK_INT(tree_rename(&tree, a, b, 0), 0);
	CHECK(says(a, NULL) && says(b, "/text"));
	CHECK_INT(tree_getattr(&tree, b, &after), 0);
	CHECK(gfid_equal(&before.gfid, &after.gfid) && after.nlink == before.nlink && S_ISDIR(after.mode));
	CHECK_INT(census().anchors, 1);
	CHECK_INT(tree_rename(&tree, b, c, 0), 0); /* a pointer */
	CHECK(says(b, NULL) && says(c, "/text"));
	CHECK_INT(census().anchors, 1);
	CHECK_INT(put(joined(path, c, "more"), "more"), 0);
	CHECK_INT(tree_mkdir(&tree, joined(other, c, "dir"), 0755), 0);
	CHECK_INT(tree_rename(&tree, path, joined(other, c, "dir/more"), 0), 0);
	CHECK(reads(other, "more"));
	CHECK_INT(tree_rmdir(&tree, c), -ENOTEMPTY);
	CHECK_INT(tree_unlink(&tree, c), -EISDIR);
	CHECK_INT(tree_unlink(&tree, other), 0);
	CHECK_INT(tree_rmdir(&tree, joined(path, c, "dir")), 0);
	CHECK_INT(tree_unlink(&tree, joined(path, c, "in")), 0);
	CHECK_INT(tree_rmdir(&tree, c), 0);
	CHECK(says(c, NULL));
	CHECK_INT(tree_rmdir(&tree, c), -ENOENT);
	CHECK_INT(census().anchors, 0);
	CHECK_INT(census().work, 0);
}

/* All that there is of types and flags. */
PROPERTY(what_rename_refuses_it_refuses_across)
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b"), *c = name_at(2, "c");
	char path[80];

	CHECK_INT(put_directory(a, "text"), 0);
	CHECK_INT(put(b, "file"), 0);
	CHECK_INT(put_directory(c, "full"), 0);
	CHECK_INT(tree_rename(&tree, a, b, 0), -ENOTDIR);
	CHECK_INT(tree_rename(&tree, b, a, 0), -EISDIR);
	CHECK_INT(tree_rename(&tree, a, c, 0), -ENOTEMPTY);
	CHECK_INT(tree_rename(&tree, a, c, RENAME_NOREPLACE), -EEXIST);
	CHECK_INT(tree_rename(&tree, c, c, 0), 0);
	CHECK(says(a, "/text") && says(b, "file") && says(c, "/full"));
	CHECK_INT(tree_unlink(&tree, b), 0);
	CHECK_INT(tree_rename(&tree, c, b, 0), 0); /* the same behind pointers */
	CHECK_INT(put(c, "file"), 0);
	CHECK_INT(tree_rename(&tree, c, b, 0), -EISDIR);
	CHECK_INT(tree_rename(&tree, b, c, 0), -ENOTDIR);
	CHECK_INT(tree_rename(&tree, a, b, 0), -ENOTEMPTY);
	CHECK_INT(tree_create(&tree, b, O_RDWR, 0644, NULL), -EISDIR);
	CHECK_INT(tree_create(&tree, b, O_RDWR | O_EXCL, 0644, NULL), -EEXIST);
	CHECK_INT(tree_mkdir(&tree, b, 0755), -EEXIST);
	CHECK_INT(tree_unlink(&tree, joined(path, b, "in")), 0);
	CHECK_INT(tree_rename(&tree, a, b, 0), 0);
	CHECK(says(a, NULL) && says(b, "/text") && says(c, "file"));
	CHECK_INT(census().anchors, 1);
	CHECK_INT(census().work, 0);
}

/* The file systems of the bricks see but their own part of the tree. */
PROPERTY(no_directory_gets_below_itself)
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b"), *c = name_at(0, "c");
	char path[80], deep[80], other[80];

	CHECK_INT(tree_mkdir(&tree, a, 0755), 0);
	CHECK_INT(tree_mkdir(&tree, b, 0755), 0);
	CHECK_INT(tree_mkdir(&tree, c, 0755), 0);
	CHECK_INT(tree_mkdir(&tree, joined(deep, b, "deep"), 0755), 0);
	CHECK_INT(tree_rename(&tree, b, joined(path, a, "b"), 0), 0); /* a/b leads to subvolume 1 */
	CHECK_INT(tree_rename(&tree, a, joined(deep, path, "deep/a"), 0), -EINVAL);
	CHECK_INT(tree_rename(&tree, a, joined(deep, path, "a"), 0), -EINVAL);
	CHECK_INT(tree_rename(&tree, path, joined(deep, path, "b"), 0), -EINVAL);
	CHECK_INT(tree_rename(&tree, joined(deep, a, "b/deep"), c, RENAME_EXCHANGE), 0); /* in other trees */
	CHECK_INT(tree_rename(&tree, joined(deep, a, "b/deep"), joined(other, a, "c"), 0),
		  0); /* it was c: home, and a pointer */
	CHECK_INT(tree_rename(&tree, a, joined(deep, a, "c/a"), 0), -EINVAL);
	CHECK_INT(tree_rename(&tree, a, joined(deep, c, "a"), 0), 0); /* c is deep, at subvolume 1 */
	CHECK_INT(tree_rename(&tree, c, joined(deep, c, "a/b/c"), 0), -EINVAL);
	CHECK_INT(tree_rename(&tree, joined(deep, c, "a/b"), c, RENAME_EXCHANGE), -EINVAL);
	CHECK(there(joined(deep, c, "a/c")) && there(joined(deep, c, "a/b")));
	CHECK_INT(tree_rmdir(&tree, joined(deep, c, "a/c")), 0);
	CHECK_INT(tree_rmdir(&tree, joined(deep, c, "a/b")), 0);
	CHECK_INT(tree_rmdir(&tree, joined(deep, c, "a")), 0);
	CHECK_INT(tree_rmdir(&tree, c), 0);
	CHECK_INT(census().anchors, 0);
	CHECK_INT(census().work, 0);
}

#define ELSEWHERE "option lean 0\n option scatter 1\n option sweep-interval 10ms" /* all are made elsewhere than their names */

PROPERTY_WITH(a_directory_is_made_elsewhere_than_its_name, ELSEWHERE, "1M")
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b");
	char path[80];
	struct attr attr;

	CHECK_INT(tree_mkdir(&tree, a, 0751), 0);
	CHECK_INT(tree_getattr(&tree, a, &attr), 0);
	CHECK(S_ISDIR(attr.mode) && (attr.mode & 0777) == 0751 && attr.nlink == 2);
	CHECK_INT(tree_mkdir(&tree, a, 0755), -EEXIST);
	CHECK_INT(census().anchors, 1);
	CHECK_INT(put(joined(path, a, "file"), "text"), 0);
	CHECK_INT(tree_mkdir(&tree, joined(path, a, "below"), 0755), 0);
	CHECK_INT(census().anchors, 2);
	CHECK_INT(tree_rename(&tree, a, joined(path, a, "below/a"), 0), -EINVAL);
	CHECK_INT(tree_rename(&tree, joined(path, a, "below"), b, 0), 0);
	CHECK_INT(tree_rename(&tree, a, joined(path, b, "a"), 0), 0);
	CHECK(reads(joined(path, b, "a/file"), "text"));
	CHECK_INT(tree_unlink(&tree, path), 0);
	CHECK_INT(tree_rmdir(&tree, joined(path, b, "a")), 0);
	CHECK_INT(tree_rmdir(&tree, b), 0);
	CHECK_INT(census().anchors, 0);
	CHECK_INT(census().work, 0);
}

/* Of two bricks of a MiB one is nearly full. */
PROPERTY_WITH(directories_lean_to_where_more_is_free, "option lean 5", "1M")
{
	const char *full = name_at(0, "full"), *a = name_at(0, "a"), *b = name_at(1, "b");
	static char text[600000];
	struct file *file = NULL;

	CHECK_INT(tree_create(&tree, full, O_RDWR | O_CREAT, 0644, &file), 0);
	CHECK(tree_write(&tree, file, 0, text, sizeof(text)) >= 0);
	tree_release(&tree, file);
	task_sleep_ms(250); /* so long what is known of the room may be old */
	CHECK_INT(tree_mkdir(&tree, a, 0755), 0);
	CHECK_INT(tree_mkdir(&tree, b, 0755), 0);
	CHECK_INT(census().anchors, 1);
	CHECK_INT(holder(b), 1);
}

/* The power went before that was on disk: it waits still, where nobody finds it. */
PROPERTY_WITH(a_directory_that_was_put_away_is_looked_at_once_more, SWEEPS, "1M")
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b");

	CHECK_INT(put_directory(a, "text"), 0);
	forget('p');
	CHECK_INT(tree_rename(&tree, a, b, 0), 0);
	cut_end();
	CHECK(nothing_is_under_way());
	CHECK(says(a, NULL) && says(b, "/text"));
	CHECK_INT(census().anchors, 1);
}

struct mover {
	unsigned at; /* message before which it is held up */
	char from[80], to[80];
	struct inode *parent; /* a reference on the directory that `to` is in, which is not looked for any more; or NULL */
	int err;
	atomic_bool over;
};

static void move(void *arg)
{
	struct mover *m = arg;

	m->err = tree_rename(&tree, m->from, m->to, 0);
	m->over = true;
}

/* Each alone might; both can't. */
PROPERTY_WITH(two_that_would_make_a_circle_do_not_both_succeed, SWEEPS, "4M")
{
	enum { TIMES = 60 };

	for (int i = 0; i < TIMES && !failures; i++) {
		const char *a = name_at(0, "a"), *b = name_at(i % 2, i % 2 ? "b" : "bb");
		struct mover m[2] = { 0 };
		int done = 0;

		CHECK_INT(tree_mkdir(&tree, a, 0755), 0);
		CHECK_INT(tree_mkdir(&tree, b, 0755), 0);
		snprintf(m[0].from, 80, "%s", a);
		snprintf(m[0].to, 80, "%s/x", b);
		snprintf(m[1].from, 80, "%s", b);
		snprintf(m[1].to, 80, "%s/x", a);
		for (int k = 0; k < 2; k++)
			CHECK_INT(task_spawn(NULL, move, &m[k]), 0);
		for (int k = 0; k < 2; k++) {
			while (!m[k].over)
				task_sleep_ms(1);
			done += !m[k].err;
		}
		CHECK_INT(done, 1);
		CHECK(there(a) != there(b));
		CHECK_INT(tree_rmdir(&tree, m[m[0].err ? 1 : 0].to), 0);
		CHECK_INT(tree_rmdir(&tree, m[m[0].err ? 0 : 1].from), 0);
	}
	CHECK(settles(0));
}

/* From the root. */
static int move_below(const struct mover *m)
{
	cleanup_inode struct inode *root = NULL;
	struct rename_in in = { .from.name = m->from, .to = { .parent = m->parent, .name = strrchr(m->to, '/') + 1 } };
	struct rename_out out = { 0 };
	int err = tree_walk(&tree, "", &root);

	in.from.parent = root;
	return err ? err : tree_call(&tree, tree.at, FOP_rename, &in, &out);
}

static void move_late(void *arg)
{
	struct mover *m = arg;

	stay_before(m->at);
	m->err = tree_rename(&tree, m->from, m->to, 0);
	cut_end();
	m->over = true;
}

/* One that is away already says below which directory it is only once it is decided that it is. */
static int make_directory(const char *name, const char *away)
{
	int err = tree_mkdir(&tree, away ? away : name, 0755);

	return err || !away ? err : tree_rename(&tree, away, name, 0);
}

/* The second in the middle of the first, after so many of its messages. False: it has not so many. */
static bool move_between(unsigned messages, bool away)
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b");
	struct mover m[2] = { { .at = messages }, { .at = 0 } };
	bool between;

	if (make_directory(a, away ? name_at(2, "c") : NULL) || make_directory(b, away ? name_at(3, "d") : NULL))
		return ++failures, false;
	snprintf(m[0].from, 80, "%s", a);
	snprintf(m[0].to, 80, "%s/x", b);
	snprintf(m[1].from, 80, "%s", b);
	snprintf(m[1].to, 80, "%s/x", a);
	if (tree_walk(&tree, a, &m[1].parent)) /* else it would wait for the name, which is marked */
		return ++failures, false;
	task_spawn(NULL, move_late, &m[0]);
	while (!stays() && !m[0].over)
		task_sleep_ms(1);
	between = !m[0].over;
	m[1].err = move_below(&m[1]);
	inode_unref(m[1].parent);
	stay_no_more();
	while (!m[0].over)
		task_sleep_ms(1);
	/* Others may have ended the first, who was slow and does not know: EIO. */
	failures += (!m[0].err && !m[1].err) || there(a) == there(b);
	if (failures)
		fprintf(stderr, "after %u messages: %d and %d\n", messages, m[0].err, m[1].err);
	failures += tree_rmdir(&tree, m[there(a)].to) || tree_rmdir(&tree, there(a) ? a : b);
	return between;
}

PROPERTY_WITH(two_that_would_make_a_circle_do_not_whenever_the_second_comes, SWEEPS, "4M")
{
	for (unsigned at = first_moment(1); !failures && move_between(at, false); at += moment_step(1))
		;
	CHECK(settles(0));
}

PROPERTY_WITH(two_that_are_away_make_no_circle_whenever_the_second_comes, SWEEPS, "4M")
{
	for (unsigned at = first_moment(1); !failures && move_between(at, true); at += moment_step(1))
		;
	CHECK(settles(0));
}

/* ---- half way ---- */

static int plain(const char *a, const char *b, const char *c)
{
	(void)b, (void)c;
	return put_directory(a, "text");
}

static int replacing(const char *a, const char *b, const char *c)
{
	int err = put_directory(b, "");

	return err ? err : plain(a, b, c);
}

static int of_pointer(const char *a, const char *b, const char *c)
{
	int err = put_directory(c, "text");

	(void)b;
	return err ? err : tree_rename(&tree, c, a, 0);
}

static int homewards(const char *a, const char *b, const char *c)
{
	int err = put_directory(b, "text");

	(void)c;
	return err ? err : tree_rename(&tree, b, a, 0);
}

static int over_pointer(const char *a, const char *b, const char *c)
{
	int err = put_directory(c, "");

	if (!err)
		err = tree_rename(&tree, c, b, 0);
	return err ? err : put_directory(a, "text");
}

static int with_directory(const char *a, const char *b, const char *c)
{
	int err = put_directory(b, "other");

	return err ? err : plain(a, b, c);
}

static int with_pointer(const char *a, const char *b, const char *c)
{
	int err = put_directory(c, "other");

	if (!err)
		err = tree_rename(&tree, c, b, 0);
	return err ? err : plain(a, b, c);
}

static int with_file(const char *a, const char *b, const char *c)
{
	int err = put(b, "other");

	return err ? err : plain(a, b, c);
}

static int empty_pointer(const char *a, const char *b, const char *c)
{
	int err = put_directory(c, "");

	(void)b;
	return err ? err : tree_rename(&tree, c, a, 0);
}

static int nothing(const char *a, const char *b, const char *c)
{
	(void)a, (void)b, (void)c;
	return 0;
}

static const struct scene makings[] = {
	{ "mkdir elsewhere", nothing, NULL, NULL, .makes = true },
};
static const struct scene in_the_root[] = {
	{ "to a free name", plain, "/text", NULL },
	{ "over an empty directory", replacing, "/text", "/" },
	{ "of a pointer", of_pointer, "/text", NULL },
	{ "to where it stands", homewards, "/text", NULL },
	{ "over a pointer", over_pointer, "/text", "/" },
	{ "over a pointer at the same subvolume", over_pointer, "/text", "/", .beside = true },
	{ "rmdir of a pointer", empty_pointer, "/", NULL, .removes = true },
};
static const struct scene exchanges[] = {
	{ "in exchange", with_directory, "/text", "/other", .flags = RENAME_EXCHANGE },
	{ "in exchange with a pointer", with_pointer, "/text", "/other", .flags = RENAME_EXCHANGE },
	{ "in exchange with a file", with_file, "/text", "other", .flags = RENAME_EXCHANGE },
};
static const struct scene to_other_parents[] = {
	{ "to another parent", plain, "/text", NULL, .below = true },
	{ "to another parent, over an empty directory", replacing, "/text", "/", .below = true },
	{ "to another parent, over a pointer", over_pointer, "/text", "/", .below = true },
	{ "of a pointer to another parent at the same subvolume", of_pointer, "/text", NULL, .below = true, .beside = true },
	{ "to another parent in exchange", with_directory, "/text", "/other", .flags = RENAME_EXCHANGE, .below = true },
	{ "rmdir of a pointer", empty_pointer, "/", NULL, .below = true, .removes = true },
};

PROPERTY_WITH(who_dies_half_way_has_done_it_or_not, SWEEPS, "1M")
{
	play_dying(in_the_root, sizeof(in_the_root) / sizeof(*in_the_root));
}

PROPERTY_WITH(who_dies_in_an_exchange_has_done_it_or_not, SWEEPS, "1M")
{
	play_dying(exchanges, sizeof(exchanges) / sizeof(*exchanges));
}

PROPERTY_WITH(who_dies_on_the_way_to_another_parent_has_done_it_or_not, SWEEPS, "1M")
{
	play_dying(to_other_parents, sizeof(to_other_parents) / sizeof(*to_other_parents));
}

/* ---- a brick that is down ---- */

/* Of a directory at the first subvolume into one at the third, which can't be marked, or comes to be down before there is anything to be taken back. */
static void move_in_vain(const char *in, const char *out, bool dies)
{
	if (!dies)
		let_fail(2, "setxattr,removexattr", "ENOTCONN");
	if (dies) {
		cut_after(0, false);
		count_from_rename_of('p');
	}
	CHECK(tree_rename(&tree, in, out, 0) < 0);
	cut_end();
	let_fail(2, "all,-release", "ENOTCONN");
}

/* So that the directories are there in which it is begun: else it comes to no mark. */
static void move_to_and_fro(const char *a, const char *b)
{
	enum { OFTEN = 64 };

	for (int i = 0; i < OFTEN && !failures; i++) {
		CHECK_INT(tree_rename(&tree, a, b, 0), 0);
		CHECK_INT(tree_rename(&tree, b, a, 0), 0);
	}
}

/* All of them need one mark. */
static void move_beside(bool dies)
{
	const char *p = name_at(0, "p"), *q = name_at(2, "q"), *r = name_at(1, "r");
	char a[80], b[80], in_q[80], in_r[80];

	CHECK_INT(tree_mkdir(&tree, p, 0755), 0);
	CHECK_INT(tree_mkdir(&tree, q, 0755), 0);
	CHECK_INT(tree_mkdir(&tree, r, 0755), 0);
	CHECK_INT(put_directory(joined(a, p, "a"), "a"), 0);
	CHECK_INT(put_directory(joined(b, p, "b"), "b"), 0);
	move_to_and_fro(a, joined(in_q, q, "a"));
	move_in_vain(a, in_q, dies);
	CHECK_INT(tree_rename(&tree, b, joined(in_r, r, "b"), 0), 0);
	CHECK(says(in_r, "/b"));
	let_work(2);
	CHECK_INT(tree_rename(&tree, a, in_q, 0), 0);
	CHECK(says(in_q, "/a"));
	CHECK(nothing_is_under_way());
}

PROPERTY_WITH(a_brick_that_is_down_holds_up_no_directory_that_goes_elsewhere, SWEEPS, "1M")
{
	move_beside(false);
}

PROPERTY_WITH(a_brick_that_is_down_holds_up_no_directory_when_somebody_has_died, SWEEPS, "1M")
{
	move_beside(true);
}

/* The number of that one is none of a subvolume any more; and it is what a record has where nothing arrives, or no directory goes. */
static void who_dies_half_way_where_the_first_has_left(void **state)
{
	gone = 1;
	who_dies_half_way_has_done_it_or_not(state);
	who_dies_in_an_exchange_has_done_it_or_not(state);
	who_dies_on_the_way_to_another_parent_has_done_it_or_not(state);
	gone = 0;
}

PROPERTY_WITH(who_dies_while_making_one_leaves_all_of_it_or_nothing, ELSEWHERE, "1M")
{
	play_dying(makings, sizeof(makings) / sizeof(*makings));
	play_lost_answers(makings, sizeof(makings) / sizeof(*makings));
}

PROPERTY_WITH(an_answer_that_is_lost_loses_nothing_else, SWEEPS, "1M")
{
	play_lost_answers(in_the_root, sizeof(in_the_root) / sizeof(*in_the_root));
	play_lost_answers(exchanges, sizeof(exchanges) / sizeof(*exchanges));
	play_lost_answers(to_other_parents, sizeof(to_other_parents) / sizeof(*to_other_parents));
}

static const struct scene at_one_subvolume[] = {
	{ "to a free name", plain, "/text", NULL, .beside = true },
	{ "over an empty directory", replacing, "/text", "/", .beside = true },
	{ "of a pointer", of_pointer, "/text", NULL, .beside = true },
	{ "in exchange", with_directory, "/text", "/other", .flags = RENAME_EXCHANGE, .beside = true },
	{ "in exchange with a pointer", with_pointer, "/text", "/other", .flags = RENAME_EXCHANGE, .beside = true },
	{ "in exchange with a file", with_file, "/text", "other", .flags = RENAME_EXCHANGE, .beside = true },
	{ "to another parent", plain, "/text", NULL, .below = true, .beside = true },
	{ "to another parent in exchange", with_directory, "/text", "/other", .flags = RENAME_EXCHANGE, .below = true,
	  .beside = true },
	{ "to another parent in exchange with a file", with_file, "/text", "other", .flags = RENAME_EXCHANGE, .below = true,
	  .beside = true },
};

PROPERTY_WITH(what_is_asked_for_twice_is_done_once, SWEEPS, "1M")
{
	play_again(at_one_subvolume, sizeof(at_one_subvolume) / sizeof(*at_one_subvolume));
	play_again(in_the_root, sizeof(in_the_root) / sizeof(*in_the_root));
	play_again(exchanges, sizeof(exchanges) / sizeof(*exchanges));
	play_again(to_other_parents, sizeof(to_other_parents) / sizeof(*to_other_parents));
}

PROPERTY_WITH(who_is_slow_renames_in_the_end, SWEEPS, "1M")
{
	play_slow(in_the_root, sizeof(in_the_root) / sizeof(*in_the_root));
}

PROPERTY_WITH(who_is_slow_exchanges_in_the_end, SWEEPS, "1M")
{
	play_slow(exchanges, sizeof(exchanges) / sizeof(*exchanges));
}

PROPERTY_WITH(who_is_slow_on_the_way_to_another_parent_comes_there_in_the_end, SWEEPS, "1M")
{
	play_slow(to_other_parents, sizeof(to_other_parents) / sizeof(*to_other_parents));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_directory_gets_a_name_at_another_subvolume),
		cmocka_unit_test(what_rename_refuses_it_refuses_across),
		cmocka_unit_test(no_directory_gets_below_itself),
		cmocka_unit_test(a_directory_is_made_elsewhere_than_its_name),
		cmocka_unit_test(directories_lean_to_where_more_is_free),
		cmocka_unit_test(two_that_would_make_a_circle_do_not_both_succeed),
		cmocka_unit_test(two_that_would_make_a_circle_do_not_whenever_the_second_comes),
		cmocka_unit_test(two_that_are_away_make_no_circle_whenever_the_second_comes),
		cmocka_unit_test(a_directory_that_was_put_away_is_looked_at_once_more),
		cmocka_unit_test(who_dies_half_way_has_done_it_or_not),
		cmocka_unit_test(who_dies_in_an_exchange_has_done_it_or_not),
		cmocka_unit_test(who_dies_on_the_way_to_another_parent_has_done_it_or_not),
		cmocka_unit_test(who_dies_while_making_one_leaves_all_of_it_or_nothing),
		cmocka_unit_test(an_answer_that_is_lost_loses_nothing_else),
		cmocka_unit_test(who_dies_half_way_where_the_first_has_left),
		cmocka_unit_test(what_is_asked_for_twice_is_done_once),
		cmocka_unit_test(a_brick_that_is_down_holds_up_no_directory_that_goes_elsewhere),
		cmocka_unit_test(a_brick_that_is_down_holds_up_no_directory_when_somebody_has_died),
		cmocka_unit_test(who_is_slow_renames_in_the_end),
		cmocka_unit_test(who_is_slow_exchanges_in_the_end),
		cmocka_unit_test(who_is_slow_on_the_way_to_another_parent_comes_there_in_the_end),
	};

	if (getenv("DIRECTORIES_TEST")) /* a pattern of names */
		cmocka_set_test_filter(getenv("DIRECTORIES_TEST"));
	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
