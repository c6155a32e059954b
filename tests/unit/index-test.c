/* SPDX-License-Identifier: Apache-2.0 */
/* The index of features/replica: what is on disk after writes that failed. */
#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "member.h"
#include "order.h"

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

/* ---- directories whose names changed ---- */

static bool ordered = true; /* the file system keeps the order of names */

bool names_are_ordered(int directory_fd)
{
	(void)directory_fd;
	return ordered;
}

static void reopen(struct index *i)
{
	struct problem p = { "" };

	index_close(i);
	assert_int_equal(index_open(i, directory, &p), 0);
}

static int change_names(struct index *i, uint8_t n)
{
	struct xlator_type type = { .inode_handle = handle_of };
	struct xlator leaf = { .type = &type };
	struct inode inode = { .type = S_IFDIR };
	struct gfid g = number(n);
	int err = index_touch(i, &g, S_IFDIR, &leaf, &inode);

	return err ? err : index_names_change(i, &g);
}

static const struct index_entry *entry(const struct index *i, uint8_t n)
{
	struct gfid g = number(n);

	return index_find(i, &g);
}

static char *path_of(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

/* As a power cut leaves it that has come before the file's data, but not before the changes. */
static void directories_are_listed_though_the_file_has_lost_its_end(void **state)
{
	struct problem p = { "" };
	struct index i;

	(void)state;
	serial = 9;
	assert_int_equal(index_open(&i, directory, &p), 0);
	assert_int_equal(index_begin(&i, 20), 0);
	assert_int_equal(change_names(&i, 11), 0);
	assert_int_equal(change_names(&i, 12), 0);
	assert_int_equal(touch_object(&i, 13), 0);
	assert_int_equal(truncate(path_of("index.20"), 0), 0);
	for (int again = 0; again < 2; again++) {
		reopen(&i);
		assert_int_equal(i.unnamed, 0);
		for (uint8_t n = 11; n <= 12; n++) {
			assert_non_null(entry(&i, n));
			assert_int_equal(entry(&i, n)->generation, 20);
			assert_int_equal(entry(&i, n)->type, S_IFDIR);
			assert_int_equal(entry(&i, n)->handle_size, 1);
			assert_int_equal(entry(&i, n)->handle[0], 9);
		}
		assert_null(entry(&i, 13));
	}
	index_close(&i);
}

static unsigned names_in(const char *name)
{
	DIR *d = opendir(path_of(name));
	unsigned count = 0;
	const struct dirent *e;

	while (d && (e = readdir(d)))
		count += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return count;
}

/* Once in each generation; and they go when the file is on disk, for a member may be away for long. */
static void a_directory_has_one_name_in_each_generation(void **state)
{
	struct problem p = { "" };
	struct index_state s;
	struct index i;

	(void)state;
	assert_int_equal(index_open(&i, directory, &p), 0);
	assert_int_equal(index_begin(&i, 30), 0);
	for (int again = 0; again < 3; again++)
		assert_int_equal(change_names(&i, 21), 0);
	assert_int_equal(names_in("names.30"), 1);
	reopen(&i);
	assert_int_equal(change_names(&i, 21), 0);
	assert_int_equal(names_in("names.30"), 1);
	assert_int_equal(index_begin(&i, 31), 0);
	assert_int_equal(change_names(&i, 21), 0);
	assert_int_equal(names_in("names.31"), 1);
	s = index_plan(&i, 30, 20);
	assert_int_equal(index_store(&i, &s), 0);
	index_apply(&i, &s);
	index_remove_files(&i, &s);
	assert_int_not_equal(access(path_of("names.30"), F_OK), 0);
	assert_int_not_equal(access(path_of("names.20"), F_OK), 0);
	assert_int_equal(access(path_of("index.30"), F_OK), 0);
	assert_int_equal(names_in("names.31"), 1);
	reopen(&i);
	assert_int_equal(entry(&i, 21)->generation, 31);
	assert_int_equal(i.unnamed, 0);
	index_close(&i);
}

/* What an older version has begun, and did not note so. */
static void of_a_generation_without_names_it_is_told_that_there_may_be_more(void **state)
{
	struct problem p = { "" };
	struct index i;
	int fd;

	(void)state;
	fd = open(path_of("index.40"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(index_open(&i, directory, &p), 0);
	assert_int_equal(i.generation, 40);
	assert_int_equal(i.unnamed, 40);
	assert_int_equal(change_names(&i, 31), 0);
	assert_int_equal(names_in("names.40"), 0);
	reopen(&i);
	assert_int_equal(i.unnamed, 40);
	assert_int_equal(index_begin(&i, 41), 0);
	assert_int_equal(change_names(&i, 31), 0);
	assert_int_equal(names_in("names.41"), 1);
	assert_int_equal(i.unnamed, 40);
	index_close(&i);
}

static void where_the_file_system_keeps_no_order_it_is_told_of_all_generations(void **state)
{
	struct problem p = { "" };
	struct index i;

	(void)state;
	ordered = false;
	assert_int_equal(index_open(&i, directory, &p), 0);
	assert_int_equal(index_begin(&i, 50), 0);
	assert_true(i.unnamed == UINT64_MAX);
	assert_int_equal(change_names(&i, 41), 0);
	assert_int_not_equal(access(path_of("names.50"), F_OK), 0);
	index_close(&i);
	ordered = true;
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
		cmocka_unit_test(directories_are_listed_though_the_file_has_lost_its_end),
		cmocka_unit_test(a_directory_has_one_name_in_each_generation),
		cmocka_unit_test(of_a_generation_without_names_it_is_told_that_there_may_be_more),
		cmocka_unit_test(where_the_file_system_keeps_no_order_it_is_told_of_all_generations),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
