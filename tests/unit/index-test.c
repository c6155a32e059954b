/* SPDX-License-Identifier: Apache-2.0 */
/* The index of features/replica: what is on disk after writes that failed. */
#include "test.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "member.h"
#include "order.h"

static char directory[128];

/* ---- in the kernel's place: what is full, or can't be read ---- */

static int no_name, no_directory, unreadable; /* symlinkat, mkdirat, readdir: their error; 0: they do what they do */

int symlinkat(const char *target, int fd, const char *name)
{
	if (!no_name)
		return (int)syscall(SYS_symlinkat, target, fd, name);
	errno = no_name;
	return -1;
}

int mkdirat(int fd, const char *name, mode_t mode)
{
	if (!no_directory)
		return (int)syscall(SYS_mkdirat, fd, name, mode);
	errno = no_directory;
	return -1;
}

struct dirent *readdir(DIR *d)
{
	struct dirent *(*next)(DIR *);

	if (!unreadable) {
		*(void **)&next = dlsym(RTLD_NEXT, "readdir64");
		return next(d);
	}
	errno = unreadable;
	return NULL;
}

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

/* ---- no room for names ---- */

static void goes_on_without_names(int error, uint64_t generation)
{
	struct problem p = { "" };
	struct index i;
	char names[32];

	snprintf(names, sizeof(names), "names.%llu", (unsigned long long)generation);
	assert_int_equal(index_open(&i, directory, &p), 0);
	assert_int_equal(index_begin(&i, generation), 0);
	assert_int_equal(change_names(&i, 61), 0);
	assert_true(i.unnamed < generation);
	no_name = error;
	assert_int_equal(change_names(&i, 62), 0);
	no_name = 0;
	for (int again = 0; again < 2; again++) {
		assert_int_equal(i.unnamed, generation);
		assert_int_not_equal(access(path_of(names), F_OK), 0);
		assert_int_not_equal(access(path_of("names.0"), F_OK), 0);
		assert_int_equal(change_names(&i, 63), 0); /* none is named any more, also where there would be room */
		assert_non_null(entry(&i, 61));
		assert_non_null(entry(&i, 62));
		reopen(&i);
	}
	assert_int_equal(index_begin(&i, generation + 1), 0);
	assert_int_equal(change_names(&i, 61), 0);
	snprintf(names, sizeof(names), "names.%llu", (unsigned long long)generation + 1);
	assert_int_equal(names_in(names), 1);
	assert_int_equal(i.unnamed, generation);
	index_close(&i);
}

/* Or what is full could not be emptied. */
static void where_no_name_has_room_a_change_is_made_and_the_list_says_that_it_may_lack_some(void **state)
{
	(void)state;
	goes_on_without_names(ENOSPC, 60);
	goes_on_without_names(EDQUOT, 62);
}

/* But what fails for another reason is no list that is full: nothing is changed then. */
static void a_name_that_can_not_be_made_for_another_reason_fails_the_change(void **state)
{
	struct problem p = { "" };
	struct index i;

	(void)state;
	assert_int_equal(index_open(&i, directory, &p), 0);
	assert_int_equal(index_begin(&i, 64), 0);
	no_name = EIO;
	assert_int_equal(change_names(&i, 64), -EIO);
	no_name = 0;
	assert_true(i.unnamed < 64);
	assert_int_equal(change_names(&i, 64), 0);
	assert_int_equal(names_in("names.64"), 1);
	index_close(&i);
}

static void where_their_directory_has_no_room_a_generation_begins_without_names(void **state)
{
	struct problem p = { "" };
	struct index i;

	(void)state;
	assert_int_equal(index_open(&i, directory, &p), 0);
	no_directory = EIO;
	assert_int_equal(index_begin(&i, 66), -EIO);
	no_directory = ENOSPC;
	assert_int_equal(index_begin(&i, 66), 0);
	assert_int_equal(change_names(&i, 65), 0);
	no_directory = 0;
	for (int again = 0; again < 2; again++) {
		assert_int_equal(i.generation, 66);
		assert_int_equal(i.unnamed, 66);
		assert_int_not_equal(access(path_of("names.66"), F_OK), 0);
		reopen(&i);
	}
	index_close(&i);
}

/* ---- what can't be read ---- */

static void a_list_that_can_not_be_read_is_not_taken_for_whole(void **state)
{
	struct problem p = { "" };
	struct index i;

	(void)state;
	unreadable = EIO;
	assert_int_not_equal(index_open(&i, directory, &p), 0);
	unreadable = 0;
	assert_non_null(strstr(p.text, "can't"));
	index_close(&i);
}

static void nor_are_names_that_can_not_be_read(void **state)
{
	struct problem p = { "" };
	struct index i;

	(void)state;
	assert_int_equal(index_open(&i, directory, &p), 0);
	assert_int_equal(index_begin(&i, 68), 0);
	assert_int_equal(change_names(&i, 66), 0);
	assert_int_equal(names_load(&i, 68), 0);
	unreadable = EIO;
	assert_int_equal(names_load(&i, 68), -EIO);
	unreadable = 0;
	index_close(&i);
}

/* ---- handles of any bytes ---- */

static uint8_t long_handle[INDEX_HANDLE_MAX];
static size_t handle_length;

static int long_handle_of(struct xlator *x, struct inode *inode, void *bytes, size_t *size)
{
	(void)x, (void)inode;
	memcpy(bytes, long_handle, handle_length);
	*size = handle_length;
	return 0;
}

static uint8_t byte_of(unsigned kind, size_t k)
{
	return kind == 0 ? 0 : kind == 1 ? 0xff : kind == 2 ? (uint8_t)(k % 2) : (uint8_t)(k % 7 ? 200 + k : 0);
}

/* A name tells it, whatever it is: zeros are nothing that the target of a symlink can have. And it takes one byte more, for a longer target costs ext4 a block. */
static void a_name_tells_a_handle_of_any_bytes(void **state)
{
	static const size_t lengths[] = { 0, 1, 2, 3, 47, 48, INDEX_HANDLE_MAX - 1, INDEX_HANDLE_MAX };
	enum { LENGTHS = sizeof(lengths) / sizeof(*lengths), KINDS = 4 };
	struct xlator_type type = { .inode_handle = long_handle_of };
	struct xlator leaf = { .type = &type };
	struct inode inode = { .type = S_IFDIR };
	struct problem p = { "" };
	struct index i;

	(void)state;
	for (unsigned n = 0; n < LENGTHS * KINDS; n++) {
		uint64_t generation = 100 + n;
		struct gfid g = number((uint8_t)(100 + n));
		char name[GFID_TEXT], text[96];
		struct stat st;

		handle_length = lengths[n / KINDS];
		for (size_t k = 0; k < handle_length; k++)
			long_handle[k] = byte_of(n % KINDS, k);
		assert_int_equal(index_open(&i, directory, &p), 0);
		assert_int_equal(index_begin(&i, generation), 0);
		assert_int_equal(index_touch(&i, &g, S_IFDIR, &leaf, &inode), 0);
		assert_int_equal(index_names_change(&i, &g), 0);
		snprintf(text, sizeof(text), "names.%llu/%s", (unsigned long long)generation, gfid_text(&g, name));
		assert_int_equal(lstat(path_of(text), &st), 0);
		assert_int_equal(st.st_size, handle_length + 1);
		snprintf(text, sizeof(text), "index.%llu", (unsigned long long)generation);
		assert_int_equal(truncate(path_of(text), 0), 0);
		reopen(&i);
		assert_non_null(index_find(&i, &g));
		assert_int_equal(index_find(&i, &g)->handle_size, handle_length);
		if (handle_length)
			assert_memory_equal(index_find(&i, &g)->handle, long_handle, handle_length);
		index_close(&i);
	}
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
		cmocka_unit_test(where_no_name_has_room_a_change_is_made_and_the_list_says_that_it_may_lack_some),
		cmocka_unit_test(a_name_that_can_not_be_made_for_another_reason_fails_the_change),
		cmocka_unit_test(where_their_directory_has_no_room_a_generation_begins_without_names),
		cmocka_unit_test(a_list_that_can_not_be_read_is_not_taken_for_whole),
		cmocka_unit_test(nor_are_names_that_can_not_be_read),
		cmocka_unit_test(a_name_tells_a_handle_of_any_bytes),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
