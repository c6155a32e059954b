/* SPDX-License-Identifier: Apache-2.0 */
/* The index of features/replica: what is on disk after writes that failed. */
#include "test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "member.h"

static char directory[128];

static struct gfid number(uint8_t n)
{
	return (struct gfid){ { [0] = 1, [15] = n } };
}

static int touch_object(struct index *i, uint8_t n)
{
	struct gfid g = number(n);

	return index_touch(i, &g, S_IFREG, NULL, NULL);
}

static bool has(const struct index *i, uint8_t n)
{
	struct gfid g = number(n);
	const struct index_entry *e = index_find(i, &g);

	return e && e->generation == i->generation && e->type == S_IFREG;
}

static void room(uint64_t bytes)
{
	struct rlimit r;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &r), 0);
	r.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
}

/* A record is 21 bytes long; the fourth does not fit, but part of it does. */
static void a_record_that_was_cut_does_not_garble_those_that_follow(void **state)
{
	struct problem p = { "" };
	struct index i;

	(void)state;
	assert_int_equal(index_open(&i, directory, &p), 0);
	room(3 * 21 + 5);
	for (uint8_t n = 1; n <= 3; n++)
		assert_int_equal(touch_object(&i, n), 0);
	assert_int_not_equal(touch_object(&i, 4), 0);
	assert_int_not_equal(touch_object(&i, 4), 0);
	room(RLIM_INFINITY);
	assert_int_equal(touch_object(&i, 5), 0);
	index_close(&i);
	assert_int_equal(index_open(&i, directory, &p), 0);
	assert_true(has(&i, 1) && has(&i, 2) && has(&i, 3) && has(&i, 5));
	assert_int_equal(i.count, 4);
	index_close(&i);
}

static void what_all_have_synced_is_forgotten(void **state)
{
	struct problem p = { "" };
	struct index_state s;
	struct index i;

	(void)state;
	assert_int_equal(index_open(&i, directory, &p), 0);
	assert_int_equal(touch_object(&i, 1), 0);
	assert_int_equal(index_begin(&i, 5), 0);
	assert_int_equal(touch_object(&i, 2), 0);
	s = index_plan(&i, 3, 3);
	assert_int_equal(index_store(&i, &s), 0);
	assert_true(index_find(&i, &(struct gfid){ { [0] = 1, [15] = 1 } }));
	index_apply(&i, &s);
	index_remove_files(&i, &s);
	for (int again = 0; again < 2; again++) {
		assert_int_equal(i.count, 1);
		assert_true(has(&i, 2));
		assert_int_equal(i.synced, 3);
		assert_int_equal(i.floor, 3);
		index_close(&i);
		assert_int_equal(index_open(&i, directory, &p), 0);
	}
	index_close(&i);
}

static uint8_t serial;

static int handle_of(struct xlator *x, struct inode *inode, void *bytes, size_t *size)
{
	(void)x, (void)inode;
	*(uint8_t *)bytes = serial;
	*size = 1;
	return 0;
}

/* A recovery may have undone it, and its client makes it again with the same gfid. */
static void what_is_made_again_has_its_new_handle(void **state)
{
	struct xlator_type type = { .inode_handle = handle_of };
	struct xlator leaf = { .type = &type };
	struct problem p = { "" };
	struct inode inode = { .type = S_IFDIR };
	struct gfid g = number(1);
	struct index i;

	(void)state;
	assert_int_equal(index_open(&i, directory, &p), 0);
	for (serial = 1; serial <= 3; serial++) {
		assert_int_equal(index_touch(&i, &g, 0, &leaf, NULL), 0);
		assert_int_equal(index_made(&i, &g, S_IFDIR, &leaf, &inode), 0);
		assert_int_equal(index_find(&i, &g)->handle[0], serial);
		if (serial == 2)
			assert_int_equal(index_begin(&i, i.generation + 1), 0);
	}
	index_close(&i);
	assert_int_equal(index_open(&i, directory, &p), 0);
	assert_int_equal(index_find(&i, &g)->handle[0], 3);
	index_close(&i);
}

static void distrust_outlasts_a_sync_that_was_under_way(void **state)
{
	struct problem p = { "" };
	struct index_state s;
	struct index i;

	(void)state;
	assert_int_equal(index_open(&i, directory, &p), 0);
	assert_int_equal(index_begin(&i, 9), 0);
	s = index_plan(&i, 7, 0);
	assert_int_equal(index_distrust(&i), 0);
	assert_int_equal(index_store(&i, &s), -ECANCELED);
	index_apply(&i, &s);
	for (int again = 0; again < 2; again++) {
		assert_int_equal(i.synced, 0);
		index_close(&i);
		assert_int_equal(index_open(&i, directory, &p), 0);
	}
	index_close(&i);
}

static int start(void **state)
{
	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	test_directory(directory, sizeof(directory), "index-test");
	return 0;
}

static int stop(void **state)
{
	(void)state;
	return test_remove(directory);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_that_was_cut_does_not_garble_those_that_follow),
		cmocka_unit_test(what_all_have_synced_is_forgotten),
		cmocka_unit_test(distrust_outlasts_a_sync_that_was_under_way),
		cmocka_unit_test(what_is_made_again_has_its_new_handle),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
