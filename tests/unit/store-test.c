/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster store: what is committed stays, what is not was never seen, and of two writers one wins. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fop.h"
#include "log.h"
#include "state.h"

static char directory[64];
static struct store *store;

static struct blob text(const char *bytes)
{
	return (struct blob){ .size = strlen(bytes), .bytes = (void *)bytes };
}

static int replace(const char *key, uint64_t version, const char *value)
{
	struct blob b = text(value);

	return store_replace(store, key, version, &b);
}

static void has(const char *key, uint64_t version, const char *value)
{
	struct blob b;
	uint64_t found;
	int err = store_get(store, key, &b, &found);

	assert_int_equal(err, value ? 0 : -ENOENT);
	assert_int_equal(found, version);
	if (value)
		assert_string_equal(b.bytes, value);
	free(b.bytes);
}

static void open_store(void)
{
	struct problem p = { "" };
	int err = store_open(directory, &store, &p);

	assert_string_equal(p.text, "");
	assert_int_equal(err, 0);
}

static void reopen(void)
{
	store_close(store);
	open_store();
}

static int begin(void **state)
{
	(void)state;
	test_directory(directory, sizeof(directory), "store-test");
	open_store();
	return 0;
}

static int end(void **state)
{
	char command[100];

	(void)state;
	store_close(store);
	snprintf(command, sizeof command, "rm -rf %s", directory);
	return system(command);
}

static void what_is_committed_is_there_after_opening_again(void **state)
{
	(void)state;
	has("volume/a", 0, NULL);
	assert_int_equal(replace("volume/a", 0, "one"), 0);
	assert_int_equal(replace("volume/a", 1, "two\nlines"), 0);
	assert_int_equal(replace("view/a", 0, ""), 0);
	for (int i = 0; i < 2; i++) {
		has("volume/a", 2, "two\nlines");
		has("view/a", 1, "");
		assert_int_equal(store_index(store), 3);
		reopen();
	}
}

static void a_change_of_another_version_changes_nothing(void **state)
{
	struct blob value = text("x");

	(void)state;
	assert_int_equal(replace("volume/a", 1, "one"), -ESTALE);
	assert_int_equal(replace("volume/a", 0, "one"), 0);
	assert_int_equal(replace("volume/a", 0, "two"), -ESTALE);
	assert_int_equal(replace("volume/a", 2, "two"), -ESTALE);
	has("volume/a", 1, "one");
	/* of several changes none is made if one does not fit */
	assert_int_equal(store_commit(store, (struct store_change[]){ { "volume/b", 0, &value }, { "volume/a", 9, &value } },
				      2),
			 -ESTALE);
	has("volume/b", 0, NULL);
	assert_int_equal(store_index(store), 1);
	reopen();
	has("volume/a", 1, "one");
}

static void what_was_removed_goes_on_counting(void **state)
{
	(void)state;
	assert_int_equal(replace("volume/a", 0, "one"), 0);
	assert_int_equal(store_replace(store, "volume/a", 1, NULL), 0);
	has("volume/a", 2, NULL);
	reopen();
	has("volume/a", 2, NULL);
	assert_int_equal(replace("volume/a", 0, "again"), -ESTALE);
	assert_int_equal(replace("volume/a", 2, "again"), 0);
	has("volume/a", 3, "again");
}

static void keys_are_listed_in_order(void **state)
{
	char **keys;

	(void)state;
	assert_int_equal(replace("volume/b", 0, "1"), 0);
	assert_int_equal(replace("volume/a", 0, "1"), 0);
	assert_int_equal(replace("view/b", 0, "1"), 0);
	assert_int_equal(replace("volume/c", 0, "1"), 0);
	assert_int_equal(store_replace(store, "volume/c", 1, NULL), 0);
	keys = store_keys(store, "volume/");
	assert_string_equal(keys[0], "volume/a");
	assert_string_equal(keys[1], "volume/b");
	assert_null(keys[2]);
	free(keys);
}

static void keys_and_sizes_that_can_not_be_are_refused(void **state)
{
	static const char *const keys[] = { "", "volume", "volume/", "/a", "volume/a/b", "volume/a b", "volume/\n" };
	struct blob large = { .size = STORE_VALUE_MAX + 1, .bytes = calloc(1, STORE_VALUE_MAX + 1) };

	(void)state;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		assert_int_equal(replace(keys[i], 0, "x"), -EINVAL);
	assert_int_equal(store_replace(store, "volume/a", 0, &large), -EINVAL);
	large.size--;
	assert_int_equal(store_replace(store, "volume/a", 0, &large), 0);
	free(large.bytes);
}

/* ---- crashes ---- */

static void a_full_store_refuses_what_adds_and_takes_what_removes(void **state)
{
	char large[1500];

	(void)state;
	memset(large, 'x', sizeof large - 1);
	large[sizeof large - 1] = '\0';
	store_size_max = 4000;
	assert_int_equal(replace("volume/a", 0, large), 0);
	assert_int_equal(replace("volume/b", 0, large), 0);
	assert_int_equal(replace("volume/c", 0, large), -E2BIG);
	has("volume/c", 0, NULL);
	has("volume/b", 1, large);
	assert_int_equal(store_replace(store, "volume/a", 1, NULL), 0);
	assert_int_equal(replace("volume/c", 0, large), 0);
	store_size_max = STORE_SIZE_MAX;
}

static const char *dies_before;

static void die(const char *next)
{
	if (!strcmp(next, dies_before))
		_exit(9);
}

/* A process that commits a change and dies before that step. */
static void crash(const char *before)
{
	struct problem p = { "" };
	int status;
	pid_t child;

	store_close(store);
	child = fork();
	if (!child) {
		dies_before = before;
		store_step = die;
		if (store_open(directory, &store, &p))
			_exit(1);
		replace("volume/a", 1, "new");
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WEXITSTATUS(status), 9);
	open_store();
}

static void a_crash_leaves_the_old_state_or_the_new_one(void **state)
{
	static const struct {
		const char *before;
		bool done;
	} crashes[] = { { "write", false }, { "rename", false }, { "sync", true }, { "publish", true } };

	for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) {
		assert_int_equal(replace("volume/a", 0, "old"), 0);
		crash(crashes[i].before);
		has("volume/a", crashes[i].done ? 2 : 1, crashes[i].done ? "new" : "old");
		assert_int_equal(replace("volume/a", crashes[i].done ? 2 : 1, "next"), 0); /* and it goes on */
		has("volume/a", crashes[i].done ? 3 : 2, "next");
		end(state);
		begin(state);
	}
}

static void what_a_crash_left_half_written_is_not_read(void **state)
{
	char path[96];
	int fd;

	(void)state;
	assert_int_equal(replace("volume/a", 0, "one"), 0);
	snprintf(path, sizeof path, "%s/state.new", directory);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_int_equal(write(fd, "stratus st", 10), 10);
	close(fd);
	reopen();
	has("volume/a", 1, "one");
	assert_int_equal(replace("volume/a", 1, "two"), 0);
	reopen();
	has("volume/a", 2, "two");
}

static void failing(const char *next)
{
	char path[96];

	snprintf(path, sizeof path, "%s/state.new", directory);
	if (!strcmp(next, "write"))
		assert_int_equal(mkdir(path, 0700), 0); /* so that the file can't be made */
}

static void what_failed_before_it_was_in_place_was_not_done(void **state)
{
	char path[96];

	(void)state;
	assert_int_equal(replace("volume/a", 0, "one"), 0);
	store_step = failing;
	assert_true(replace("volume/a", 1, "two") < 0);
	store_step = NULL;
	has("volume/a", 1, "one");
	snprintf(path, sizeof path, "%s/state.new", directory);
	rmdir(path);
	assert_int_equal(replace("volume/a", 1, "two"), 0);
}

static void losing(const char *next)
{
	char path[96];

	snprintf(path, sizeof path, "%s/state.new", directory);
	if (!strcmp(next, "rename"))
		unlink(path);
}

static void a_store_in_doubt_serves_nothing(void **state)
{
	struct blob b;
	uint64_t version;

	(void)state;
	assert_int_equal(replace("volume/a", 0, "one"), 0);
	store_step = losing;
	assert_int_equal(replace("volume/a", 1, "two"), -ENOENT);
	store_step = NULL;
	assert_int_equal(store_get(store, "volume/a", &b, &version), -EIO);
	assert_int_equal(replace("volume/a", 1, "two"), -EIO);
	reopen();
	has("volume/a", 1, "one");
}

/* ---- damage ---- */

static void each_spoilt_byte_is_found(void **state)
{
	struct state full = { 0 }, back;
	struct blob value = text("some\nvalue"), bytes;
	const struct store_change changes[] = { { "volume/a", 0, &value }, { "view/b", 0, &value } };

	(void)state;
	assert_int_equal(state_apply(&full, changes, 2), 0);
	assert_int_equal(state_apply(&full, &(struct store_change){ "view/b", 1, NULL }, 1), 0);
	assert_int_equal(state_encode(&full, &bytes), 0);
	assert_int_equal(state_decode(bytes.bytes, bytes.size, &back), 0);
	assert_int_equal(back.count, 2);
	assert_true(state_find(&back, "view/b")->gone);
	assert_int_equal(back.index, 2);
	state_free(&back);
	for (size_t i = 0; i < bytes.size; i++) {
		((char *)bytes.bytes)[i] ^= 1;
		assert_int_equal(state_decode(bytes.bytes, bytes.size, &back), -EINVAL);
		((char *)bytes.bytes)[i] ^= 1;
	}
	for (size_t size = 0; size < bytes.size; size++)
		assert_int_equal(state_decode(bytes.bytes, size, &back), -EINVAL);
	free(bytes.bytes);
	state_free(&full);
}

static void a_damaged_store_is_not_opened_nor_overwritten(void **state)
{
	struct problem p = { "" };
	struct store *other;
	char path[96];
	int fd;

	(void)state;
	assert_int_equal(replace("volume/a", 0, "one"), 0);
	store_close(store);
	snprintf(path, sizeof path, "%s/state", directory);
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, "X", 1, 30), 1);
	assert_int_equal(store_open(directory, &other, &p), -EINVAL);
	assert_non_null(strstr(p.text, "damaged"));
	assert_int_equal(ftruncate(fd, 0), 0);
	p.text[0] = '\0';
	assert_int_equal(store_open(directory, &other, &p), -EINVAL);
	close(fd);
	unlink(path);
	open_store();
}

/* ---- several at once ---- */

static void a_second_process_is_refused(void **state)
{
	struct problem p = { "" };
	struct store *other;

	(void)state;
	assert_int_equal(store_open(directory, &other, &p), -EBUSY);
	assert_non_null(strstr(p.text, "another process"));
}

enum { WRITERS = 4, ROUNDS = 25 };

/* Adds 1 to the number in the document, as often as it wins. */
static void *count_up(void *arg)
{
	unsigned *conflicts = arg;

	for (unsigned done = 0; done < ROUNDS;) {
		struct blob b;
		uint64_t version;
		int err = store_get(store, "view/n", &b, &version);
		char next[20];

		snprintf(next, sizeof next, "%d", err ? 1 : atoi(b.bytes) + 1);
		free(b.bytes);
		err = replace("view/n", version, next);
		if (err && err != -ESTALE)
			abort();
		*conflicts += err != 0;
		done += !err;
	}
	return NULL;
}

static void of_several_writers_each_loses_no_change_of_the_others(void **state)
{
	pthread_t thread[WRITERS];
	unsigned conflicts[WRITERS] = { 0 };
	char sum[20];

	(void)state;
	for (int i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, count_up, &conflicts[i]), 0);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(thread[i], NULL);
	snprintf(sum, sizeof sum, "%d", WRITERS * ROUNDS);
	has("view/n", WRITERS * ROUNDS, sum);
	reopen();
	has("view/n", WRITERS * ROUNDS, sum);
}

static void *commit_soon(void *arg)
{
	(void)arg;
	usleep(50000);
	if (replace("volume/a", 0, "one"))
		abort();
	return NULL;
}

static void who_waits_sees_the_change(void **state)
{
	pthread_t thread;

	(void)state;
	assert_int_equal(store_wait(store, 0, 20), 0);
	assert_int_equal(pthread_create(&thread, NULL, commit_soon, NULL), 0);
	assert_int_equal(store_wait(store, 0, 20000), 1);
	has("volume/a", 1, "one");
	pthread_join(thread, NULL);
	store_wake(store);
	assert_int_equal(store_wait(store, 1, 20000), 1); /* at once */
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(what_is_committed_is_there_after_opening_again),
		TEST(a_change_of_another_version_changes_nothing),
		TEST(what_was_removed_goes_on_counting),
		TEST(keys_are_listed_in_order),
		TEST(keys_and_sizes_that_can_not_be_are_refused),
		TEST(a_full_store_refuses_what_adds_and_takes_what_removes),
		TEST(a_crash_leaves_the_old_state_or_the_new_one),
		TEST(what_a_crash_left_half_written_is_not_read),
		TEST(what_failed_before_it_was_in_place_was_not_done),
		TEST(a_store_in_doubt_serves_nothing),
		TEST(each_spoilt_byte_is_found),
		TEST(a_damaged_store_is_not_opened_nor_overwritten),
		TEST(a_second_process_is_refused),
		TEST(of_several_writers_each_loses_no_change_of_the_others),
		TEST(who_waits_sees_the_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
