/* SPDX-License-Identifier: Apache-2.0 */
/* mount/fuse: what a program is told whose call uses a directory that somebody removes: the second time, that it is not there. The test is the table of nodes. */
#include "test-tasks.h"
#include "test.h"

#include <errno.h>
#include <stdlib.h>

#include "fuse-internal.h"
#include "tree.h"

enum { OLD = 2, NEW = 3, NODES = 4, PID = 4711 };

static struct tree tree;
static int failures;
static struct inode *nodes[NODES];

struct inode *node(const struct mount *m, uint64_t nodeid)
{
	(void)m;
	return nodeid < NODES ? nodes[nodeid] : NULL;
}

/* What a request is told that found that something is stale. */
static int told(struct mount *m, uint32_t opcode, uint64_t in, uint64_t other)
{
	struct ask *a = calloc(1, sizeof(*a) + sizeof(struct fuse_rename2_in) + 1);
	struct xlator top = { .child = (struct xlator *[]){ tree.at } };
	int err;

	request_init(&a->rq, tree.graph, 0);
	a->mount = m;
	a->top = &top;
	a->head = (struct fuse_in_header){ .opcode = opcode, .nodeid = in, .pid = PID };
	if (opcode == FUSE_RENAME)
		((struct fuse_rename_in *)a->arg)->newdir = other;
	else if (opcode == FUSE_RENAME2)
		((struct fuse_rename2_in *)a->arg)->newdir = other;
	err = gone_error(a, -ESTALE);
	request_finish(&a->rq);
	free(a);
	return err;
}

static struct mount *mount_new(void)
{
	struct mount *m = calloc(1, sizeof(*m));

	pthread_mutex_init(&m->told_lock, NULL);
	return m;
}

static void mount_end(struct mount *m)
{
	pthread_mutex_destroy(&m->told_lock);
	free(m);
}

/* What the second call of two is told, both of which found that something is stale. */
static int told_twice(uint32_t opcode, uint64_t in, uint64_t other)
{
	struct mount *m = mount_new();
	int first = told(m, opcode, in, other), second = told(m, opcode, in, other);

	mount_end(m);
	return first == -ESTALE ? second : 1;
}

/* What a process can ask of the directory that it is in. */
static const uint32_t of_itself[] = { FUSE_GETATTR,   FUSE_STATX,    FUSE_SETATTR,     FUSE_OPENDIR, FUSE_GETXATTR,
				      FUSE_LISTXATTR, FUSE_SETXATTR, FUSE_REMOVEXATTR, FUSE_STATFS };

static void one_is_gone(uint64_t which)
{
	CHECK_INT(tree_mkdir(&tree, "old", 0755), 0);
	CHECK_INT(tree_mkdir(&tree, "new", 0755), 0);
	CHECK_INT(tree_walk(&tree, "old", &nodes[OLD]), 0);
	CHECK_INT(tree_walk(&tree, "new", &nodes[NEW]), 0);
	for (int i = 0; i < 2; i++)
		CHECK_INT(told_twice(i ? FUSE_RENAME : FUSE_RENAME2, OLD, NEW), -ESTALE);
	CHECK_INT(tree_rmdir(&tree, which == OLD ? "old" : "new"), 0);
	for (int i = 0; i < 2; i++)
		CHECK_INT(told_twice(i ? FUSE_RENAME : FUSE_RENAME2, OLD, NEW), -ENOENT);
	CHECK_INT(told_twice(FUSE_UNLINK, OLD, 0), which == OLD ? -ENOENT : -ESTALE);
	for (size_t i = 0; i < sizeof(of_itself) / sizeof(of_itself[0]); i++)
		CHECK_INT(told_twice(of_itself[i], which, 0), -ENOENT);
	CHECK_INT(told_twice(FUSE_FSYNCDIR, which, 0), -ESTALE); /* of an open one: Linux does not try again */
	CHECK_INT(tree_rmdir(&tree, which == OLD ? "new" : "old"), 0);
	for (int i = 0; i < NODES; i++)
		inode_unref_at(&nodes[i]);
}

static void each_is_gone(void *arg)
{
	(void)arg;
	one_is_gone(OLD);
	one_is_gone(NEW);
}

/* open(2) of a new name, in the directory that the process is in: Linux tries again after the first request, and is not done with the second. */
static void it_stays_gone(void *arg)
{
	struct mount *m = mount_new();

	(void)arg;
	CHECK_INT(tree_mkdir(&tree, "old", 0755), 0);
	CHECK_INT(tree_mkdir(&tree, "new", 0755), 0);
	CHECK_INT(tree_walk(&tree, "old", &nodes[OLD]), 0);
	CHECK_INT(tree_walk(&tree, "new", &nodes[NEW]), 0);
	CHECK_INT(told(m, FUSE_READDIR, OLD, 0), -ESTALE);
	CHECK_INT(tree_rmdir(&tree, "old"), 0);
	CHECK_INT(told(m, FUSE_READDIRPLUS, OLD, 0), -ENOENT);
	CHECK_INT(told(m, FUSE_LOOKUP, OLD, 0), -ESTALE);
	CHECK_INT(told(m, FUSE_LOOKUP, OLD, 0), -ENOENT);
	CHECK_INT(told(m, FUSE_CREATE, OLD, 0), -ENOENT);
	CHECK_INT(told(m, FUSE_CREATE, NEW, 0), -ESTALE); /* another call */
	CHECK_INT(tree_rmdir(&tree, "new"), 0);
	for (int i = 0; i < NODES; i++)
		inode_unref_at(&nodes[i]);
	mount_end(m);
}

static void a_directory_that_is_gone_stays_gone_for_the_rest_of_the_call(void **state)
{
	struct problem p = { "" };

	(void)state;
	if (tree_open(&tree, "volume m\n type debug/memory\nend-volume\n", &p))
		fail_msg("%s", p.text);
	assert_int_equal(task_call(it_stays_gone, NULL), 0);
	tree_close(&tree);
	assert_int_equal(failures, 0);
}

static void of_a_renaming_either_directory_may_be_the_one_that_is_gone(void **state)
{
	struct problem p = { "" };

	(void)state;
	if (tree_open(&tree, "volume m\n type debug/memory\nend-volume\n", &p))
		fail_msg("%s", p.text);
	assert_int_equal(task_call(each_is_gone, NULL), 0);
	tree_close(&tree);
	assert_int_equal(failures, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_a_renaming_either_directory_may_be_the_one_that_is_gone),
		cmocka_unit_test(a_directory_that_is_gone_stays_gone_for_the_rest_of_the_call),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
