/* SPDX-License-Identifier: Apache-2.0 */
/* features/usage at one member of a replica set, and directories that have limits (doc/usage.md, D9 to D13): the number comes from above, the first member decides, tags come in
 * any order and each is charged from then on, and no border is judged by what the ledger knows. Needs root. */
#include "usage-test.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "quota.h"

enum {
	DIRS_OF_ONE = 256,
	DIRS_OF_ONE_ELSEWHERE = 512
}; /* as many as the first member decides; as many as any other does after it */
static atomic_int failures;

static void run(void (*fn)(void *))
{
	in_set = true;
	open_tree();
	assert_true(EVENTUALLY(is_exact()));
	failures = 0;
	assert_int_equal(task_call(fn, NULL), 0);
	assert_int_equal(failures, 0);
	assert_true(EVENTUALLY(is_exact()));
	expect_equal();
	tree_close(&tree);
}

/* ---- as features/replica asks ---- */

static int say(enum limits_rule rule, uint32_t uid, enum fop fop, const void *in, void *out)
{
	struct request rq;
	int err;

	request_init(&rq, tree.graph, 0);
	rq.limits = rule;
	rq.uid = rq.gid = uid;
	rq.group_count = 0;
	err = fop_call(&rq, tree.at, fop, in, out);
	request_finish(&rq);
	return err;
}

static int set(enum limits_rule rule, const char *at, const char *name, const void *value, size_t size)
{
	cleanup_inode struct inode *inode = NULL;
	struct setxattr_in in = { .name = name, .value = { (uint32_t)size, (void *)value } };
	struct setxattr_out out = { 0 };
	int err = tree_walk(&tree, at, &inode);

	in.inode = inode;
	return err ? err : say(rule, 0, FOP_setxattr, &in, &out);
}

static int limit(enum limits_rule rule, const char *at, const char *text)
{
	return set(rule, at, QUOTA_XATTR, text, strlen(text));
}

static int unset(enum limits_rule rule, const char *at, const char *name)
{
	cleanup_inode struct inode *inode = NULL;
	struct removexattr_in in = { .name = name };
	struct removexattr_out out = { 0 };
	int err = tree_walk(&tree, at, &inode);

	in.inode = inode;
	return err ? err : say(rule, 0, FOP_removexattr, &in, &out);
}

static int make(enum limits_rule rule, uint32_t uid, const char *in, const char *name, bool directory)
{
	cleanup_inode struct inode *parent = NULL;
	struct mkdir_in dir = { .mode = 0777 };
	struct mkdir_out made = { 0 };
	struct mknod_in node = { .mode = S_IFREG | 0666 };
	struct mknod_out noded = { 0 };
	int err = tree_walk(&tree, in, &parent);

	dir.loc = node.loc = (struct loc){ .parent = parent, .name = name };
	gfid_create(&dir.gfid);
	node.gfid = dir.gfid;
	if (!err)
		err = directory ? say(rule, uid, FOP_mkdir, &dir, &made) : say(rule, uid, FOP_mknod, &node, &noded);
	fop_out_clear(FOP_mkdir, &made);
	fop_out_clear(FOP_mknod, &noded);
	return err;
}

static int make_acmes(const char *name)
{
	return make(LIMITS_FIRST, BASE_A, "", name, true);
}

static int move(enum limits_rule rule, const char *from_dir, const char *from, const char *to_dir, const char *to)
{
	cleanup_inode struct inode *source = NULL, *target = NULL;
	struct rename_in in = { .from.name = from, .to.name = to };
	struct rename_out out = { 0 };
	int err = tree_walk(&tree, from_dir, &source);

	if (!err)
		err = tree_walk(&tree, to_dir, &target);
	in.from.parent = source;
	in.to.parent = target;
	return err ? err : say(rule, 0, FOP_rename, &in, &out);
}

static int64_t told(const char *at, const char *key)
{
	struct blob value = { 0 };
	int err = tree_getxattr(&tree, at, QUOTA_XATTR, &value);
	char *text = err ? NULL : strndup(value.bytes, value.size), *found = text ? strstr(text, key) : NULL;
	int64_t n = err ? err : found ? strtoll(found + strlen(key), NULL, 10) : -EPROTO;

	free(text);
	free(value.bytes);
	return n;
}

/* ---- who may, and by which number ---- */

static void is_set(void *arg)
{
	(void)arg;
	CHECK_INT(make_acmes("d"), 0);
	CHECK_INT(limit(LIMITS_ALONE, "d", "0 4 0000000000000011"), -EPERM);
	CHECK_INT(limit(LIMITS_HEAL, "d", "0 4 0000000000000011"), -EPERM);
	for (const char *const *text =
		     (const char *const[]){ "0 4", "0 4 ", "0 4 11", "0 4 0000000000000000", "0 4 8000000000000011",
					    "0 4 000000000000001x", "0 4 0000000000000011 ",
					    "0 4 0000000000000011 0000000000000011", NULL };
	     *text; text++)
		CHECK_INT(limit(LIMITS_FIRST, "d", *text), -EINVAL);
	CHECK_INT(limit(LIMITS_ASK, "d", "0 4 0000000000000011"), -EASKFIRST);
	CHECK_INT(told("d", "inodes-limit "), -ENODATA);
	CHECK_INT(limit(LIMITS_DECIDED, "d", "0 4 0000000000000011"), 0);
	CHECK_INT(told("d", "id 00000000000000"), 11);
	CHECK_INT(limit(LIMITS_FIRST, "d", "0 5 0000000000000022"), 0); /* it keeps its number */
	CHECK_INT(told("d", "id 00000000000000"), 11);
	CHECK_INT(told("d", "inodes-limit "), 5);
	CHECK_INT(set(LIMITS_FIRST, "d", QUOTA_TAG_XATTR, "12345678", 8), -EPERM);
	CHECK_INT(unset(LIMITS_FIRST, "d", QUOTA_TAG_XATTR), -EPERM);
}

static void a_member_takes_the_number_that_all_have(void **s)
{
	(void)s;
	run(is_set);
}

static void are_few(void *arg)
{
	char name[16], text[40];

	(void)arg;
	for (int i = 0; i <= DIRS_OF_ONE + 2; i++) {
		snprintf(name, sizeof(name), "d%d", i);
		snprintf(text, sizeof(text), "0 0 %016x", i + 1);
		CHECK_INT(make_acmes(name), 0);
		if (i < DIRS_OF_ONE)
			CHECK_INT(limit(i & 1 ? LIMITS_FIRST : LIMITS_DECIDED, name, text), 0);
	}
	CHECK_INT(limit(LIMITS_FIRST, "d256", "0 0 0000000000001000"), -EOVERLIMIT);
	CHECK_INT(limit(LIMITS_DECIDED, "d256", "0 0 0000000000001000"), 0); /* the first knows better */
	CHECK_INT(unset(LIMITS_ASK, "d7", QUOTA_XATTR), 0);
	CHECK_INT(unset(LIMITS_ASK, "d8", QUOTA_XATTR), 0);
	CHECK_INT(limit(LIMITS_FIRST, "d257", "0 0 0000000000001001"), 0);
}

/* A client says that the first has decided; it may lie. */
static void are_few_elsewhere(void *arg)
{
	char name[16], text[40];

	(void)arg;
	for (int i = 0; i <= DIRS_OF_ONE_ELSEWHERE; i++) {
		snprintf(name, sizeof(name), "d%d", i);
		snprintf(text, sizeof(text), "0 0 %016x", i + 1);
		CHECK_INT(make_acmes(name), 0);
		CHECK_INT(limit(LIMITS_DECIDED, name, text), i < DIRS_OF_ONE_ELSEWHERE ? 0 : -EOVERLIMIT);
	}
	CHECK_INT(make(LIMITS_FIRST, BASE_B, "", "other", true), 0);
	CHECK_INT(limit(LIMITS_FIRST, "other", "0 0 0000000000001000"), 0); /* there is room for others */
}

static void how_many_there_may_be_the_first_decides(void **s)
{
	(void)s;
	run(are_few);
}

static void who_says_that_the_first_decided_does_not_fill_the_table(void **s)
{
	(void)s;
	run(are_few_elsewhere);
}

/* ---- who refuses ---- */

static void is_reached(void *arg)
{
	(void)arg;
	CHECK_INT(make_acmes("d"), 0);
	CHECK_INT(limit(LIMITS_FIRST, "d", "0 2 0000000000000011"), 0);
	CHECK_INT(make(LIMITS_ASK, BASE_A, "d", "a", false), -EASKFIRST);
	CHECK_INT(make(LIMITS_DECIDED, BASE_A, "d", "a", false), 0);
	CHECK_INT(make(LIMITS_FIRST, BASE_A, "d", "b", false), -EOVERLIMIT);
	CHECK_INT(make(LIMITS_DECIDED, BASE_A, "d", "b", false), 0);
	CHECK_INT(make(LIMITS_HEAL, BASE_A, "d", "c", false), 0);
	CHECK_INT(told("d", "inodes "), 4);
	CHECK_INT(make(LIMITS_FIRST, BASE_A, "d", "e", false), -EOVERLIMIT);
	CHECK_INT(limit(LIMITS_FIRST, "d", "0 100000 0000000000000022"), 0);
	CHECK_INT(make(LIMITS_ASK, BASE_A, "d", "e", false), 0); /* far from it */
}

static void the_first_decides_near_a_limit(void **s)
{
	(void)s;
	run(is_reached);
}

/* ---- the border ---- */

static void is_judged(void *arg)
{
	(void)arg;
	CHECK_INT(make_acmes("d"), 0);
	CHECK_INT(make_acmes("e"), 0);
	CHECK_INT(limit(LIMITS_FIRST, "d", "0 0 0000000000000011"), 0);
	CHECK_INT(make(LIMITS_ASK, BASE_A, "d", "in", false), 0);
	CHECK_INT(make(LIMITS_ASK, BASE_A, "e", "out", false), 0);
	CHECK_INT(unset(LIMITS_FIRST, "d", QUOTA_XATTR), -ENOTEMPTY);
	for (enum limits_rule rule = LIMITS_FIRST; rule <= LIMITS_DECIDED; rule++) {
		CHECK_INT(move(rule, "d", "in", "e", "in"), -EXDEV);
		CHECK_INT(move(rule, "e", "out", "d", "out"), -EXDEV);
	}
}

/* The row has gone, and the ledger takes what it has for all. */
static void is_judged_without_rows(void *arg)
{
	(void)arg;
	CHECK_INT(move(LIMITS_ASK, "d", "in", "e", "in"), -EXDEV);
	CHECK_INT(move(LIMITS_ASK, "e", "out", "d", "out"), -EXDEV);
	CHECK_INT(told("d", "inodes "), 2);
	CHECK_INT(move(LIMITS_HEAL, "d", "in", "e", "in"), 0); /* it goes by names that are right elsewhere */
	CHECK_INT(told("d", "inodes "), 2);
	CHECK_INT(move(LIMITS_HEAL, "e", "in", "d", "in"), 0);
}

static void the_border_is_where_tags_are(void **s)
{
	(void)s;
	run(is_judged);
	assert_int_equal(unlink(path_in("ledger")), 0);
	run(is_judged_without_rows);
}

/* ---- tags in any order ---- */

static const uint8_t of_11[8] = { [7] = 0x11 }, of_22[8] = { [7] = 0x22 };
static const uint8_t top_11[24] = { [7] = 0x11, [23] = 4 }, top_22[24] = { [7] = 0x22, [23] = 9 };

static void come_in_any_order(void *arg)
{
	(void)arg;
	CHECK_INT(make_acmes("d"), 0);
	CHECK_INT(make(LIMITS_HEAL, BASE_A, "d", "a", false), 0); /* before its directory has the tag */
	CHECK_INT(set(LIMITS_HEAL, "d/a", QUOTA_TAG_XATTR, of_11, 8), 0);
	expect_equal();
	CHECK_INT(told("d/a", "inodes "), 1);
	CHECK_INT(told("d/a", "inodes-limit "), 0);
	CHECK_INT(set(LIMITS_HEAL, "d", QUOTA_TAG_XATTR, top_11, 24), 0);
	CHECK_INT(told("d", "inodes "), 2);
	CHECK_INT(told("d", "inodes-limit "), 4);
	CHECK_INT(make(LIMITS_HEAL, BASE_A, "d", "b", true), 0);
	CHECK_INT(told("d/b", "inodes "), 3);
	CHECK_INT(unset(LIMITS_HEAL, "d", QUOTA_TAG_XATTR), 0); /* a recovery from a member that has not set it yet */
	CHECK_INT(told("d", "inodes "), -ENODATA);
	CHECK_INT(told("d/b", "inodes "), 2);
	expect_equal();
	CHECK_INT(set(LIMITS_HEAL, "d", QUOTA_TAG_XATTR, top_11, 24), 0);
	CHECK_INT(told("d", "inodes "), 3);
	CHECK_INT(make(LIMITS_FIRST, BASE_A, "d", "c", false), 0);
	CHECK_INT(make(LIMITS_FIRST, BASE_A, "d", "e", false), -EOVERLIMIT);
	CHECK_INT(set(LIMITS_HEAL, "d", QUOTA_TAG_XATTR, top_22, 24), 0); /* another one in its place */
	CHECK_INT(set(LIMITS_HEAL, "d/c", QUOTA_TAG_XATTR, of_22, 8), 0);
	CHECK_INT(told("d", "inodes "), 2);
	CHECK_INT(told("d/a", "inodes "), 2);
	expect_equal();
	CHECK_INT(set(LIMITS_HEAL, "d/a", QUOTA_TAG_XATTR, of_22, 8), 0);
	CHECK_INT(set(LIMITS_HEAL, "d/b", QUOTA_TAG_XATTR, of_22, 8), 0);
	CHECK_INT(told("d", "inodes "), 4);
	for (const char *const *wrong = (const char *const[]){ "", "1", "1234567", "123456789", NULL }; *wrong; wrong++)
		CHECK_INT(set(LIMITS_HEAL, "d", QUOTA_TAG_XATTR, *wrong, strlen(*wrong)), -EINVAL);
}

static void are_there_yet(void *arg)
{
	(void)arg;
	CHECK_INT(told("d/b", "inodes "), 4);
	CHECK_INT(told("d", "inodes-limit "), 9);
	CHECK_INT(unset(LIMITS_HEAL, "d", QUOTA_TAG_XATTR), 0);
	CHECK_INT(told("d/b", "inodes "), 3);
}

static void are_left(void *arg)
{
	(void)arg;
	CHECK_INT(told("d/b", "inodes "), 3);
	CHECK_INT(told("d/b", "inodes-limit "), 0); /* it went with the directory */
	CHECK_INT(set(LIMITS_HEAL, "d", QUOTA_TAG_XATTR, top_22, 24), 0);
	CHECK_INT(told("d", "inodes "), 4);
	CHECK_INT(told("d", "inodes-limit "), 9);
}

static void what_has_a_tag_is_charged_whatever_comes_first(void **s)
{
	(void)s;
	run(come_in_any_order);
	run(are_there_yet);
	run(are_left); /* a row without a directory outlives the process */
	assert_int_equal(unlink(path_in("ledger")), 0);
	run(are_there_yet);
	run(are_left);
}

/* ---- what healing brings ---- */

/* A directory with a limit stays at one subvolume, and can't be given to others; but a member that has more than another was given that before. */
static void gets_a_layout(void *arg)
{
	(void)arg;
	CHECK_INT(make_acmes("d"), 0);
	CHECK_INT(limit(LIMITS_FIRST, "d", "0 4 0000000000000011"), 0);
	for (const char *const *name = (const char *const[]){ "trusted.dht.layout", "trusted.dht.pointer", NULL }; *name;
	     name++) {
		CHECK_INT(set(LIMITS_FIRST, "d", *name, "x", 1), -EXDEV);
		CHECK_INT(set(LIMITS_DECIDED, "d", *name, "x", 1), -EXDEV);
		CHECK_INT(set(LIMITS_HEAL, "d", *name, "x", 1), 0);
	}
}

static void healing_may_bring_a_layout_to_what_has_a_limit(void **s)
{
	(void)s;
	run(gets_a_layout);
}

/* ---- while all is counted ---- */

enum { SLOW_MS = 20, BELOW_D = 20 };

/* As many directories with limits as there may be; one of them has it no more, but what is in it has its tag. */
static void has_most(void *arg)
{
	char name[16], text[40];

	(void)arg;
	CHECK_INT(make_acmes("d"), 0);
	CHECK_INT(make_acmes("more"), 0);
	CHECK_INT(limit(LIMITS_FIRST, "d", "0 100 0000000000001000"), 0);
	for (int i = 0; i < BELOW_D; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		CHECK_INT(make(LIMITS_FIRST, BASE_A, "d", name, true), 0);
	}
	for (int i = 1; i < DIRS_OF_ONE; i++) {
		snprintf(name, sizeof(name), "l%d", i);
		snprintf(text, sizeof(text), "0 0 %016x", i);
		CHECK_INT(make_acmes(name), 0);
		CHECK_INT(limit(LIMITS_FIRST, name, text), 0);
	}
	CHECK_INT(unset(LIMITS_HEAL, "d", QUOTA_TAG_XATTR), 0);
	CHECK_INT(told("d/s0", "inodes "), BELOW_D);
}

/* So many have been counted; 0 as well if nothing counts. */
static int64_t counted(void)
{
	static const char key[] = "\"recounted\": ";
	char *text;
	int64_t n;

	tell("status", "--json", &text);
	n = strtoll(strstr(text, key) + strlen(key), NULL, 10);
	free(text);
	return n;
}

/* What has the tag has been counted, and is not charged yet, when room is looked for. */
static void wants_more(void *arg)
{
	const int64_t all = 3 + BELOW_D + DIRS_OF_ONE - 1; /* with the root, "d" and "more" */

	(void)arg;
	for (int ms = 0; counted() < all && ms < 60000; ms++)
		task_sleep_ms(1);
	CHECK_INT(limit(LIMITS_FIRST, "more", "0 0 0000000000002000"), -EOVERLIMIT);
	CHECK_INT(counted(), all);
}

static void are_charged_yet(void *arg)
{
	(void)arg;
	CHECK_INT(told("d/s0", "inodes "), BELOW_D);
}

static void what_has_been_counted_keeps_its_row(void **s)
{
	(void)s;
	run(has_most);
	assert_int_equal(unlink(path_in("ledger")), 0);
	slow_ms = SLOW_MS;
	open_tree();
	slow_ms = 0;
	assert_int_equal(task_call(wants_more, NULL), 0);
	assert_true(EVENTUALLY(is_exact()));
	assert_int_equal(failures, 0);
	assert_int_equal(task_call(are_charged_yet, NULL), 0);
	assert_int_equal(failures, 0);
	expect_equal();
	tree_close(&tree);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_member_takes_the_number_that_all_have, setup, teardown),
		cmocka_unit_test_setup_teardown(how_many_there_may_be_the_first_decides, setup, teardown),
		cmocka_unit_test_setup_teardown(who_says_that_the_first_decided_does_not_fill_the_table, setup, teardown),
		cmocka_unit_test_setup_teardown(the_first_decides_near_a_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(the_border_is_where_tags_are, setup, teardown),
		cmocka_unit_test_setup_teardown(what_has_a_tag_is_charged_whatever_comes_first, setup, teardown),
		cmocka_unit_test_setup_teardown(healing_may_bring_a_layout_to_what_has_a_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(what_has_been_counted_keeps_its_row, setup, teardown),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
