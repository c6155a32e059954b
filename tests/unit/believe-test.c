/* SPDX-License-Identifier: Apache-2.0 */
/* features/believe: its graph may end while it answers the brick. */
#include "test-check.h"
#include "test.h"

#include "test-tasks.h"
#include "tree.h"

static struct tree tree;
int failures;

static const char volumes[] = "volume m\n type debug/memory\nend-volume\n"
			      "volume slow\n type debug/delay-gen\n option delay 100ms\n subvolumes m\nend-volume\n"
			      "volume believe\n type features/believe\n subvolumes slow\nend-volume\n";

static void recall(void *arg)
{
	struct xlator *x = tree_find(&tree, "believe");
	struct event e = { .kind = EVENT_RECALL };

	(void)arg;
	x->type->notify(x, x->child[0], &e);
}

static void a_thread_that_is_no_task_ends_the_graph_while_a_recall_is_answered(void **state)
{
	struct problem problem = { "" };

	(void)state;
	if (tree_open(&tree, volumes, &problem))
		fail_msg("%s", problem.text);
	assert_int_equal(task_call(recall, NULL), 0);
	tree_close(&tree);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_that_is_no_task_ends_the_graph_while_a_recall_is_answered),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
