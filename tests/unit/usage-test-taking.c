/* SPDX-License-Identifier: Apache-2.0 */
/* features/usage: names that are taken away, beside recounts and births. */
#include "usage-test.h"

#include <unistd.h>

/* ---- who takes a name away while all is counted ---- */

static struct {
	struct inode *file; /* a reference: what is known of it is not forgotten */
	atomic_bool ended;
	atomic_int err;
} taken;

static void make_to_take(void *arg)
{
	(void)arg;
	taken.err = tree_put(&tree, "/f", "text") | tree_walk(&tree, "/f", &taken.file);
	taken.err |= tree_put(&tree, "/other", "text");
}

static void open_to_take(void)
{
	open_tree();
	assert_true(EVENTUALLY(is_exact()));
	taken.ended = false;
	assert_int_equal(task_call(make_to_take, NULL), 0);
	assert_int_equal(taken.err, 0);
}

static void take_away(void *arg)
{
	(void)arg;
	taken.err = tree_unlink(&tree, "/f");
	taken.ended = true;
}

/* It is done, and nobody has looked at that yet. */
static void begin_to_take(int parked)
{
	hold_tell("hold", "getattr");
	assert_int_equal(task_spawn(NULL, take_away, NULL), 0);
	assert_true(EVENTUALLY(hold_has(parked)));
	hold_tell("hold", "none");
	assert_int_equal(access(path_in("brick/f"), F_OK), -1);
}

static void recount(void)
{
	char *text;

	tell("recount", NULL, &text);
	free(text);
}

static void end_taking(void)
{
	hold_tell("release", "all");
	assert_true(EVENTUALLY(taken.ended));
	assert_int_equal(taken.err, 0);
	assert_true(EVENTUALLY(is_exact()));
	expect_equal();
	inode_unref_at(&taken.file);
	tree_close(&tree);
}

static void what_is_removed_before_a_recount_and_settled_after_it_is_charged_to_nobody(void **s)
{
	(void)s;
	open_to_take();
	begin_to_take(1);
	recount();
	for (int i = 0; i < 100 && !is_exact(); i++) /* it waits; nobody sees that, but else it would have ended */
		usleep(5000);
	end_taking();
}

static void what_is_removed_in_a_recount_and_settled_after_it_is_charged_to_nobody(void **s)
{
	(void)s;
	open_to_take();
	hold_tell("hold", "opendir");
	recount();
	assert_true(EVENTUALLY(hold_has(1)));
	begin_to_take(2);
	hold_tell("release", "1");
	for (int i = 0; i < 100 && !is_exact(); i++)
		usleep(5000);
	end_taking();
}

static void a_recount_that_waits_does_not_hold_up_the_end(void **s)
{
	(void)s;
	open_to_take();
	inode_unref_at(&taken.file);
	hold_tell("hold", "opendir");
	recount();
	assert_true(EVENTUALLY(hold_has(1)));
	tree_close(&tree);
	open_tree();
	assert_true(EVENTUALLY(is_exact()));
	expect_equal();
	tree_close(&tree);
}

/* ---- who renames what has got the name meanwhile ---- */

static atomic_int moves_ended;

static void move_it(void *arg)
{
	(void)arg;
	taken.err = tree_rename(&tree, "/f", "/moved", 0);
	moves_ended++;
}

static void make_in_its_place(void *arg)
{
	tree_unlink(&tree, "/f");
	*(int *)arg = tree_put(&tree, "/f", "another");
	taken.ended = true;
}

/* It is noted by the name that it is made with until it is settled: who moved it then would take it from its note. */
static void what_is_just_made_in_place_of_what_was_to_be_renamed_is_not(void **s)
{
	static int err = -1;
	bool early;

	(void)s;
	open_to_take();
	moves_ended = 0;
	hold_tell("hold", "rename");
	assert_int_equal(task_spawn(NULL, move_it, NULL), 0);
	assert_true(EVENTUALLY(hold_has(1)));
	hold_tell("hold", "listxattr");
	assert_int_equal(task_spawn(NULL, make_in_its_place, &err), 0);
	assert_true(EVENTUALLY(hold_has(2))); /* there, and not settled */
	hold_tell("hold", "none");
	hold_tell("release", "1");
	usleep(200000);
	early = moves_ended;
	assert_false(early);
	hold_tell("release", "all");
	assert_true(EVENTUALLY(moves_ended == 1));
	end_taking();
	assert_int_equal(err, 0);
}

/* Also after a test that failed. */
static int forget_taken(void **s)
{
	inode_unref_at(&taken.file);
	return teardown(s);
}

int taking_run(void)
{
	static const struct CMUnitTest taking[] = {
		cmocka_unit_test_setup_teardown(what_is_removed_before_a_recount_and_settled_after_it_is_charged_to_nobody,
						setup, forget_taken),
		cmocka_unit_test_setup_teardown(what_is_removed_in_a_recount_and_settled_after_it_is_charged_to_nobody, setup,
						forget_taken),
		cmocka_unit_test_setup_teardown(what_is_just_made_in_place_of_what_was_to_be_renamed_is_not, setup,
						forget_taken),
		cmocka_unit_test_setup_teardown(a_recount_that_waits_does_not_hold_up_the_end, setup, forget_taken),
	};

	return cmocka_run_group_tests(taking, tasks_start, tasks_stop);
}
