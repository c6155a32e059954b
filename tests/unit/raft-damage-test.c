/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a shared store that was damaged on its disk is refused, and nothing of it changed; what a power cut leaves is not. */
#include "test.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fop.h"
#include "free-port.h"
#include "log.h"
#include "path.h"
#include "raft-check.h"
#include "raft-mark.h"
#include "store.h"

/* Values of several sectors, and text, as specifications are. */
enum { COMMITS = 8, VALUE_BYTES = 1500, SECTOR = 512, PATIENCE_MS = 60000, FLIPS = 100 };

static char top[64], crashed[80], copy[80], stopped[80];
static unsigned seed;

static void run(const char *command)
{
	if (system(command))
		fail_msg("failed: %s", command);
}

static int open_store(const char *directory, bool join, struct store **s, struct problem *p)
{
	char address[32];

	snprintf(address, sizeof address, "127.0.0.1:%u", free_port());
	return store_open_shared(directory, "alpha", address, join, NULL, s, p);
}

static void wait_for_lead(struct store *s)
{
	for (int ms = 0; !store_leads(s); ms += 20) {
		assert_true(ms < PATIENCE_MS);
		usleep(20000);
	}
}

static void commit_some(struct store *s)
{
	char text[VALUE_BYTES + 1];
	struct blob value = { .size = VALUE_BYTES, .bytes = text };
	uint64_t from = store_version(s, "volume/a");

	for (uint64_t i = from; i < from + COMMITS; i++) {
		for (size_t k = 0; k < VALUE_BYTES; k++)
			text[k] = (char)('a' + (k * 7 + i) % 23);
		text[VALUE_BYTES] = '\0';
		assert_int_equal(store_replace(s, "volume/a", i, &value), 0);
	}
}

static uint64_t mark_of(const char *directory)
{
	struct problem p = { "" };
	uint64_t index = 0;
	int fd = open(directory, O_RDONLY | O_DIRECTORY);

	assert_true(fd >= 0);
	assert_int_equal(raft_mark_read(fd, &index, &p), 0);
	close(fd);
	return index;
}

/* As what a crash leaves: a copy of the directory while nothing is written. It has a closed segment (two starts) and an open one. */
static int begin(void **state)
{
	cleanup_path char *live = NULL, *command = NULL;
	struct problem p = { "" };
	struct store *s;

	(void)state;
	log_set_level(LOG_ERROR);
	test_directory(top, sizeof top, "raft-damage");
	snprintf(crashed, sizeof crashed, "%s/crashed", top);
	snprintf(copy, sizeof copy, "%s/copy", top);
	snprintf(stopped, sizeof stopped, "%s/stopped", top);
	live = path_format("%s/live", top);
	assert_int_equal(open_store(live, false, &s, &p), 0);
	wait_for_lead(s);
	commit_some(s);
	store_close(s);
	assert_true(mark_of(live) > COMMITS);
	command = path_format("cp -a %s %s", live, stopped);
	run(command);
	if (open_store(live, true, &s, &p))
		fail_msg("%s", p.text);
	wait_for_lead(s);
	commit_some(s);
	for (int ms = 0; mark_of(live) < 2 * COMMITS; ms += 20) { /* it follows while the store is open */
		assert_true(ms < PATIENCE_MS);
		usleep(20000);
	}
	free(command);
	command = path_format("cp -a --sparse=never %s %s", live, crashed);
	run(command);
	store_close(s);
	free(command);
	command = path_format("cp %s/mark %s/mark", live, crashed); /* of all that is there, not only of most */
	run(command);
	return 0;
}

static int end(void **state)
{
	cleanup_path char *command = path_format("rm -rf %s", top);

	(void)state;
	run(command);
	return 0;
}

/* ---- damage ---- */

static void take_copy(const char *of)
{
	cleanup_path char *command = path_format("rm -rf %s && cp -a %s %s", copy, of, copy);

	run(command);
}

/* The name of the file that begins so, the last in order. */
static void find(const char *directory, bool (*is_it)(const char *), char path[200])
{
	DIR *list = opendir(directory);
	char found[100] = "";
	struct dirent *d;

	assert_non_null(list);
	while ((d = readdir(list)))
		if (is_it(d->d_name) && strcmp(d->d_name, found) > 0)
			snprintf(found, sizeof found, "%.99s", d->d_name);
	closedir(list);
	assert_true(*found);
	snprintf(path, 200, "%s/%s", directory, found);
}

static bool is_closed(const char *name)
{
	return strspn(name, "0123456789-") == strlen(name);
}

static bool is_first_open(const char *name)
{
	return !strcmp(name, "open-1");
}

static bool is_second_open(const char *name)
{
	return !strcmp(name, "open-2");
}

/* Up to where the file has anything. */
static size_t used(const char *path)
{
	FILE *file = fopen(path, "re");
	size_t at = 0, end = 0;
	int c;

	assert_non_null(file);
	while ((c = fgetc(file)) != EOF) {
		at++;
		end = c ? at : end;
	}
	fclose(file);
	return end;
}

static void flip(const char *path, size_t at, unsigned char mask)
{
	int fd = open(path, O_RDWR);
	unsigned char c = 0;

	assert_true(fd >= 0 && pread(fd, &c, 1, (off_t)at) == 1);
	c ^= mask;
	assert_int_equal(pwrite(fd, &c, 1, (off_t)at), 1);
	close(fd);
}

static void zero(const char *path, size_t from, size_t to)
{
	int fd = open(path, O_RDWR);
	static const char nothing[1 << 16];

	assert_true(fd >= 0 && to - from <= sizeof nothing);
	assert_int_equal(pwrite(fd, nothing, to - from, (off_t)from), to - from);
	close(fd);
}

static int look(const char *directory, struct problem *p)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY), err;

	*p = (struct problem){ "" };
	assert_true(fd >= 0);
	err = raft_check(fd, p);
	close(fd);
	return err;
}

static void is_refused(const char *because)
{
	struct problem p;

	if (look(copy, &p) != -EINVAL)
		fail_msg("it is taken, though: %s (%s)", because, p.text);
	if (!strstr(p.text, because))
		fail_msg("'%s' is not in '%s'", because, p.text);
}

static void forget_mark(void)
{
	cleanup_path char *path = path_format("%s/mark", copy);

	assert_int_equal(unlink(path), 0);
}

/* The store opens, and has so many versions of the document, or more. */
static void starts_with(uint64_t version)
{
	struct problem p = { "" };
	struct store *s;

	if (open_store(copy, true, &s, &p))
		fail_msg("%s", p.text);
	wait_for_lead(s);
	assert_true(store_version(s, "volume/a") >= version);
	store_close(s);
}

/* ---- what a crash leaves ---- */

static void what_a_crash_or_a_stop_leaves_is_taken(void **state)
{
	(void)state;
	take_copy(stopped);
	starts_with(COMMITS);
	take_copy(crashed);
	starts_with(2 * COMMITS);
}

/* The last write: some of its sectors, whichever, are not there. Nothing before it is touched. */
static void a_write_that_a_power_cut_has_torn_is_taken(void **state)
{
	char path[200];
	size_t end;

	(void)state;
	take_copy(crashed);
	find(copy, is_first_open, path);
	end = used(path);
	for (unsigned sectors = 1; sectors < 8; sectors++) { /* of 3 or 4, and not all */
		size_t first = (end - 1) / SECTOR - 3;
		struct problem p;

		take_copy(crashed);
		forget_mark(); /* it was not acknowledged */
		for (unsigned k = 0; k < 3; k++)
			if (sectors >> k & 1) {
				size_t from = (first + k + 1) * SECTOR;

				zero(path, from, from + SECTOR);
			}
		if (look(copy, &p))
			fail_msg("sectors %u: %s", sectors, p.text);
	}
	starts_with(2 * COMMITS - 1);
}

static void segments_that_were_only_made_are_taken(void **state)
{
	cleanup_path char *path = NULL;
	char second[200];

	(void)state;
	take_copy(crashed);
	find(copy, is_second_open, second);
	assert_int_equal(truncate(second, 0), 0);
	path = path_format("%s/open-3", copy);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	starts_with(2 * COMMITS);
}

/* The first write to a segment, without the sector that its header was in. */
static void a_first_write_that_lacks_its_header_is_taken(void **state)
{
	char second[200];

	(void)state;
	take_copy(crashed);
	find(copy, is_second_open, second);
	flip(second, SECTOR + 1, 0x55);
	starts_with(2 * COMMITS);
}

static bool is_snapshot(const char *name)
{
	return !strncmp(name, "snapshot-", strlen("snapshot-"));
}

static bool has_snapshot(const char *directory)
{
	DIR *list = opendir(directory);
	bool found = false;
	struct dirent *d;

	assert_non_null(list);
	while (!found && (d = readdir(list)))
		found = is_snapshot(d->d_name) && strstr(d->d_name, ".meta");
	closedir(list);
	return found;
}

/* The same log, so far ahead that a snapshot has taken the place of what "stopped" has. The version that it has, or less. */
static uint64_t go_ahead(const char *directory)
{
	struct blob value = { .size = 1, .bytes = (char[]){ "x" } };
	struct problem p = { "" };
	struct store *s;
	uint64_t version;

	if (open_store(directory, true, &s, &p))
		fail_msg("%s", p.text);
	wait_for_lead(s);
	for (version = store_version(s, "volume/a"); !has_snapshot(directory); version++)
		assert_int_equal(store_replace(s, "volume/a", version, &value), 0);
	store_close(s);
	return version - 1;
}

/* To a server that was away a snapshot was sent, and its power went before the log was cut: closed segments end before that, and segments were made to be written to. */
static void a_snapshot_that_was_just_installed_takes_the_place_of_what_is_before_it(void **state)
{
	cleanup_path char *ahead = path_format("%s/ahead", top), *fork = path_format("cp -a %s %s", stopped, ahead),
			  *bring = NULL;
	uint64_t version;

	(void)state;
	run(fork);
	version = go_ahead(ahead);
	take_copy(stopped);
	bring = path_format("cp -a %s/snapshot-* %s && truncate -s 8M %s/open-1 %s/open-2", ahead, copy, copy, copy);
	run(bring);
	assert_true(version > COMMITS);
	starts_with(
		COMMITS +
		1); /* more than the log has: how many more depends on when the snapshot was written, while others were committed */
}

/* ---- what it does not leave ---- */

static void a_flipped_bit_is_refused_wherever_it_is(void **state)
{
	bool (*const kinds[])(const char *) = { is_closed, is_first_open };
	char path[200];
	size_t end;

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		take_copy(crashed);
		find(copy, kinds[k], path);
		end = used(path);
		for (int i = 0; i < FLIPS; i++) {
			size_t at = (size_t)rand_r(&seed) % end;
			unsigned char mask = (unsigned char)(1 << rand_r(&seed) % 8);
			struct problem p;

			flip(path, at, mask);
			if (look(copy, &p) != -EINVAL)
				fail_msg("%s, byte %zu, mask %u: it is taken", path, at, mask);
			flip(path, at, mask);
		}
	}
}

static unsigned char byte_at(const char *path, size_t at)
{
	int fd = open(path, O_RDONLY);
	unsigned char c = 0;

	assert_true(fd >= 0 && pread(fd, &c, 1, (off_t)at) == 1);
	close(fd);
	return c;
}

/* So in what was acknowledged since the mark was written, too. Of text: no number of entries grows, which would look as if more were missing. */
static void a_flipped_bit_of_an_entry_is_refused_without_the_mark(void **state)
{
	char path[200];
	size_t end;

	(void)state;
	take_copy(crashed);
	forget_mark();
	find(copy, is_first_open, path);
	end = used(path) - 2 * VALUE_BYTES;
	for (int i = 0; i < FLIPS; i++) {
		size_t at = end - (size_t)rand_r(&seed) % (VALUE_BYTES * (COMMITS - 4));
		unsigned char c = byte_at(path, at);
		struct problem p;

		if (c < 'a' || c > 'z')
			continue;
		flip(path, at, 0x80);
		if (look(copy, &p) != -EINVAL)
			fail_msg("byte %zu: it is taken", at);
		flip(path, at, 0x80);
	}
}

static void nothing_is_changed_by_who_refuses_and_the_sentence_says_what_to_do(void **state)
{
	cleanup_path char *command = path_format("cd %s && ls >%s/before && cat open-* [0-9]* >>%s/before", copy, top, top),
			  *again = path_format("cd %s && ls >%s/after && cat open-* [0-9]* >>%s/after", copy, top, top),
			  *compare = path_format("cmp %s/before %s/after", top, top);
	struct problem p = { "" };
	struct store *s = NULL;
	char path[200];

	(void)state;
	take_copy(crashed);
	find(copy, is_first_open, path);
	flip(path, used(path) / 2, 1);
	run(command);
	assert_int_equal(open_store(copy, true, &s, &p), -EINVAL);
	assert_null(s);
	assert_non_null(strstr(p.text, "open-1 is damaged at byte"));
	assert_non_null(strstr(p.text, "stratus server remove --keep-bricks alpha"));
	assert_non_null(strstr(p.text, "A damaged log")); /* the last words: it is not cut off */
	run(again);
	run(compare);
}

static void a_tail_that_is_zeros_is_refused(void **state)
{
	char path[200];
	size_t end;

	(void)state;
	take_copy(crashed);
	find(copy, is_first_open, path);
	end = used(path);
	zero(path, end / 2, end);
	is_refused("");
	take_copy(crashed);
	zero(path, (end / 2 + SECTOR) / SECTOR * SECTOR, end); /* as a crash, but for the mark */
	is_refused("went to");
	take_copy(crashed);
	zero(path, 0, end);
	is_refused("went to");
	take_copy(crashed);
	find(copy, is_closed, path);
	end = used(path);
	zero(path, end / 2, end);
	is_refused("damaged at byte");
}

static void a_file_that_was_cut_off_is_refused(void **state)
{
	bool (*const kinds[])(const char *) = { is_closed, is_first_open };
	char path[200];

	(void)state;
	for (size_t k = 0; k < 2; k++)
		for (int i = 0; i < 20; i++) {
			struct problem p;
			size_t size;

			take_copy(crashed);
			find(copy, kinds[k], path);
			size = (size_t)rand_r(&seed) % used(path);
			assert_int_equal(truncate(path, (off_t)size), 0);
			if (look(copy, &p) != -EINVAL)
				fail_msg("%s, cut to %zu: it is taken", path, size);
		}
}

static void a_segment_that_is_missing_is_noticed(void **state)
{
	cleanup_path char *first = path_format("%s/0000000000000001-0000000000000001", copy),
			  *third = path_format("%s/open-3", copy), *copied = NULL;
	char path[200];

	(void)state;
	take_copy(crashed);
	assert_int_equal(unlink(first), 0);
	is_refused("the entries 1 to 1 are missing");
	take_copy(crashed);
	find(copy, is_closed, path); /* the last: the open one would take its numbers */
	assert_int_equal(unlink(path), 0);
	is_refused("went to");
	take_copy(crashed);
	find(copy, is_first_open, path);
	assert_int_equal(unlink(path), 0);
	is_refused("went to");
	take_copy(crashed);
	copied = path_format("cp %s %s && rm %s/open-2", path, third, copy);
	run(copied);
	is_refused("open-2 is missing");
}

static void a_torn_segment_is_the_last_one(void **state)
{
	cleanup_path char *command = path_format("cp %s/open-1 %s/open-2", copy, copy);
	char path[200];

	(void)state;
	take_copy(crashed);
	run(command);
	find(copy, is_first_open, path);
	zero(path, (used(path) - 1) / SECTOR * SECTOR, used(path));
	forget_mark();
	is_refused("open-2 has been written behind it");
}

static void what_an_older_version_had_put_aside_keeps_nobody_from_starting(void **state)
{
	cleanup_path char *path = path_format("%s/corrupt-17-open-1", copy);

	(void)state;
	take_copy(crashed);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	starts_with(2 * COMMITS);
}

static void a_damaged_mark_is_refused_and_half_of_it_is_enough(void **state)
{
	cleanup_path char *path = path_format("%s/mark", copy);
	uint64_t whole = mark_of(crashed);

	(void)state;
	take_copy(crashed);
	flip(path, 9, 1);
	assert_in_range(mark_of(copy), 1, whole);
	flip(path, 4096 + 9, 1);
	is_refused("does not fit");
}

int main(void)
{
#ifdef __SANITIZE_THREAD__ /* as store-raft-test */
	printf("[  SKIPPED ] raft-damage-test: libraft can't be watched by ThreadSanitizer\n");
	return 77;
#endif
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_crash_or_a_stop_leaves_is_taken),
		cmocka_unit_test(a_write_that_a_power_cut_has_torn_is_taken),
		cmocka_unit_test(segments_that_were_only_made_are_taken),
		cmocka_unit_test(a_first_write_that_lacks_its_header_is_taken),
		cmocka_unit_test(a_snapshot_that_was_just_installed_takes_the_place_of_what_is_before_it),
		cmocka_unit_test(a_flipped_bit_is_refused_wherever_it_is),
		cmocka_unit_test(a_flipped_bit_of_an_entry_is_refused_without_the_mark),
		cmocka_unit_test(nothing_is_changed_by_who_refuses_and_the_sentence_says_what_to_do),
		cmocka_unit_test(a_tail_that_is_zeros_is_refused),
		cmocka_unit_test(a_file_that_was_cut_off_is_refused),
		cmocka_unit_test(a_segment_that_is_missing_is_noticed),
		cmocka_unit_test(a_torn_segment_is_the_last_one),
		cmocka_unit_test(what_an_older_version_had_put_aside_keeps_nobody_from_starting),
		cmocka_unit_test(a_damaged_mark_is_refused_and_half_of_it_is_enough),
	};
	const char *given = getenv("STRATUS_TEST_SEED");

	signal(SIGPIPE, SIG_IGN); /* as stratusd does */
	seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
	printf("seed %u (STRATUS_TEST_SEED)\n", seed);
	return cmocka_run_group_tests(tests, begin, end);
}
