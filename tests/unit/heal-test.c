/* SPDX-License-Identifier: Apache-2.0 */
/* Healing: members that were changed differently become the same again, whatever the order in which their objects are healed.
 * HEAL_SEED=N replays one tree; HEAL_ROUNDS=N makes it longer; HEAL_TEST=PATTERN runs only those tests; HEAL_TALK=1 tells each
 * change and each heal. */
#include "heal-test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct tree tree;
struct xlator *member[MEMBERS];
bool on_disk;
atomic_int failures;
uint64_t seed;
static char base[128];
static bool undone; /* first a heal is begun, and undone */

/* ---- rounds ---- */

static void open_members(int kept)
{
	struct problem problem = { "" };
	char text[4096], name[16];
	size_t n = 0;

	for (int i = 0; i < MEMBERS; i++) {
		if (on_disk)
			n += (size_t)snprintf(text + n, sizeof(text) - n,
					      "volume leaf%d\n type storage/posix\n option directory %s/%d\n"
					      " option volume-id 6d6a1f70-0d3c-4c1d-9a65-3d1a7c1f4b01\n"
					      " option brick-id 0f0e0d0c-0b0a-4908-8706-05040302010%d\n"
					      " option free-space-floor 0\n option inodes-kept %d\nend-volume\n",
					      i, base, i, i, kept);
		else
			n += (size_t)snprintf(text + n, sizeof(text) - n, "volume leaf%d\n type debug/memory\nend-volume\n", i);
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      "volume m%d\n type test/answers\n subvolumes leaf%d\nend-volume\n", i, i);
	}
	snprintf(text + n, sizeof(text) - n, "volume top\n type test/spread\n subvolumes m0 m1 m2\nend-volume\n");
	if (tree_open(&tree, text, &problem))
		fail_msg("%s", problem.text);
	for (int i = 0; i < MEMBERS; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		member[i] = tree_find(&tree, name);
	}
	heal.x = tree.graph->top;
	if (!on_disk)
		inode_table_keep(tree.graph->inodes, 100000); /* so that they can be found */
}

static void make_directories(void)
{
	char path[160];

	test_directory(base, sizeof(base), "heal-test");
	for (int i = 0; i < MEMBERS; i++) {
		snprintf(path, sizeof(path), "%s/%d", base, i);
		assert_int_equal(mkdir(path, 0755), 0);
	}
}

/* Each brick finds all that it has. (The members share one table of inodes, and what is removed at one is forgotten for all.) */
static struct {
	struct inode **inode;
	size_t count;
} kept;

static void keep_all(int at, const char *path)
{
	struct readdir_out out = { 0 };
	char *below = malloc(PATH_ROOM);

	members_list(at, path, &out);
	for (uint32_t i = 0; i < out.entries.count; i++) {
		const struct dirent_plus *e = &out.entries.entry[i];

		if (!(kept.count & (kept.count - 1)))
			kept.inode = realloc(kept.inode, (2 * kept.count + 1) * sizeof(*kept.inode));
		snprintf(below, PATH_ROOM, "%s", path);
		if (!path_add(below, e->name))
			continue;
		tree.at = member[at];
		kept.inode[kept.count] = NULL;
		if (!tree_walk(&tree, below, &kept.inode[kept.count]))
			kept.count++;
		if (S_ISDIR(e->type))
			keep_all(at, below);
	}
	free(below);
	fop_out_clear(FOP_readdir, &out);
}

static void keep_all_(void *arg)
{
	(void)arg;
	for (int i = 0; i < MEMBERS; i++)
		keep_all(i, "");
}

/* The roots were made at different times, by different users. */
static void same_roots(void)
{
	struct setattr s = { .valid = SET_MTIME | SET_MODE | SET_UID | SET_GID, .mode = 0755, .mtime = { 1000, 1 } };

	for (int i = 0; i < MEMBERS; i++) {
		change_begin(i);
		if (tree_setattr(&tree, "", &s))
			failures++;
	}
}

static void change_all_(void *arg)
{
	(void)arg;
	same_roots();
	for (int i = 0; i < 90; i++)
		change_some(7, false);
	for (unsigned i = names.on ? 1 + chance(6) : 5 + chance(80); i--;)
		change_some(1 + chance(7), true);
	queue_note();
}

static void compare_all_(void *arg)
{
	(void)arg;
	members_compare("");
}

static void names_remember_(void *arg)
{
	(void)arg;
	names_remember(1);
}

static void names_check_(void *arg)
{
	(void)arg;
	names_check(1);
}

static void undo_some(void)
{
	undo_after = chance(40);
	task_call(names_remember_, NULL);
	task_call(queue_heal_some_and_undo, NULL);
	task_call(names_check_, NULL);
}

static void round_of(uint64_t number, bool cold)
{
	failures = 0;
	seed = number;
	chance_begin(number);
	names.count = 0;
	queue_begin(!names.on && (cold || number % 5 == 4));
	if (on_disk)
		make_directories();
	open_members(16384);
	task_call(change_all_, NULL);
	if (!cold)
		task_call(keep_all_, NULL);
	if (cold) {
		tree_close(&tree);
		open_members(0);
	}
	if (undone)
		undo_some();
	if (!failures)
		task_call(queue_heal_all, NULL);
	if (!failures)
		task_call(compare_all_, NULL);
	queue_end();
	while (kept.count)
		inode_unref(kept.inode[--kept.count]);
	tree_close(&tree);
	if (on_disk)
		test_remove(base);
	if (failures)
		fail_msg("HEAL_SEED=%llu (%s%s)", (unsigned long long)number, on_disk ? "on disk" : "in memory",
			 cold ? ", cold" : "");
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { SHARE = 20 }; /* sanitizers make it slow: a sample */
#else
enum { SHARE = 1 };
#endif

/* The same rounds each time; HEAL_ROUNDS: so many others. HEAL_SEED: this one. */
static void rounds(unsigned count, bool disk, bool cold)
{
	const char *only = getenv("HEAL_SEED"), *more = getenv("HEAL_ROUNDS");
	uint64_t first = only ? strtoull(only, NULL, 0) : more ? (uint64_t)time(NULL) * 1000 : 1;

	on_disk = disk;
	if (disk && geteuid())
		skip();
	count = only ? 1 : more ? (unsigned)atoi(more) / SHARE : count;
	printf("HEAL_SEED=%llu and the %u after it\n", (unsigned long long)first, count - 1);
	for (unsigned i = 0; i < count; i++)
		round_of(first + i, cold);
}

static void members_in_memory_become_the_same(void **s)
{
	(void)s;
	rounds(150 / SHARE, false, false);
}

static void members_on_disk_become_the_same(void **s)
{
	(void)s;
	rounds(40 / SHARE, true, false);
}

static void members_that_know_nothing_any_more_become_the_same(void **s)
{
	(void)s;
	rounds(40 / SHARE, true, true);
}

/* A file with two names: the other is in a directory that has another place, and to get there waits for one that the waiting directory
 * names. */
static void a_directory_may_wait_for_what_is_below_it(void **s)
{
	(void)s;
	if (geteuid())
		skip();
	on_disk = true;
	round_of(1795328549335, true);
}

static void names_of_unfinished_changes_become_the_same(void **s)
{
	(void)s;
	names.on = true;
	rounds(100, false, false);
	rounds(20, true, false);
}

/* A test that failed has not come to its end. */
static int as_at_first(void **s)
{
	(void)s;
	names.on = false;
	undone = false;
	faults = 0;
	return 0;
}

/* What was half done when a call failed, perhaps after the deed, is done the next time. */
static void a_heal_that_fails_is_taken_up_again(void **s)
{
	(void)s;
	faults = 47;
	rounds(60, false, false);
	rounds(20, true, false);
}

/* Names that healing has moved are what they were, and nothing is lost that was out of the way. */
static void a_heal_that_does_not_end_is_undone(void **s)
{
	(void)s;
	undone = true;
	rounds(150, false, false);
	rounds(40, true, false);
}

/* ---- files, one by one ---- */

enum { MIB = 1 << 20 };

static void put(int at, const char *path, uint64_t offset, const char *bytes)
{
	struct file *file = NULL;

	change_begin(at);
	if (tree_open_file(&tree, path, O_RDWR, &file) || tree_write(&tree, file, offset, bytes, strlen(bytes)))
		FAIL("can't write to %s at %d", path, at);
	tree_release(&tree, file);
	tree.time_ns = 1;
}

static uint64_t blocks(int at, const char *path)
{
	struct attr a = { 0 };

	tree.at = member[at];
	if (tree_getattr(&tree, path, &a))
		FAIL("%s is not at %d", path, at);
	return a.blocks;
}

static int heal_file(const char *path, int to, uint64_t from, uint64_t end)
{
	cleanup_inode struct inode *inode = NULL;
	struct request rq;
	int err;

	tree.at = member[0];
	if (tree_walk(&tree, path, &inode))
		return -ENOENT;
	err = heal_request(&heal, &rq);
	err = err ? err : heal_object(&heal, &rq, &inode->gfid, 0, to, from, end);
	heal_request_end(&rq);
	return err;
}

static void make_everywhere(const char *path)
{
	static struct change c = { .kind = FILE_, .number = 0644 };

	snprintf(c.a, sizeof(c.a), "%s", path);
	gfid_create(&c.gfid);
	change_clock += 1000000007;
	for (int i = 0; i < MEMBERS; i++)
		if (change_at(i, &c))
			FAIL("can't make %s at %d", path, i);
	tree.time_ns = 1;
}

static char byte_at(int at, const char *path, uint64_t offset)
{
	struct file *file = NULL;
	struct buffer *b = NULL;
	char byte = '?';

	tree.at = member[at];
	if (!tree_open_file(&tree, path, O_RDONLY, &file) && !tree_read(&tree, file, offset, 1, &b) && b->size)
		byte = b->data[0];
	buffer_unref(b);
	tree_release(&tree, file);
	return byte;
}

static void expect(bool holds, const char *what)
{
	if (!holds)
		FAIL("it does not hold: %s", what);
}

static void files_(void *arg)
{
	(void)arg;
	same_roots();
	make_everywhere("f");
	put(0, "f", 20 * MIB, "end");
	put(1, "f", 5 * MIB, "in a hole of the source");
	expect(!heal_file("f", 1, 0, UINT64_MAX) && !heal_file("f", 2, 0, UINT64_MAX), "sparse files are healed");
	expect(blocks(1, "f") < 1000 && blocks(2, "f") < 1000, "holes stay holes");
	heal.bytes = 0;
	put(0, "f", 3, "x");
	put(0, "f", 9 * MIB, "y");
	expect(!heal_file("f", 1, 0, UINT64_MAX), "differing pieces are healed");
	expect(heal.bytes < 4 * MIB, "only pieces that differ are copied");
	expect(!heal_file("f", 2, 9 * MIB, 9 * MIB + 1), "a range is healed");
	expect(byte_at(2, "f", 9 * MIB) == 'y' && byte_at(2, "f", 3) != 'x', "a range is all that is healed");
	expect(!heal_file("f", 2, 0, 10), "another range is healed");
	make_everywhere("arbitrated");
	heal.arbiter = 1;
	put(0, "arbitrated", 0, "data");
	expect(!heal_file("arbitrated", 1, 0, UINT64_MAX) && byte_at(1, "arbitrated", 0) == '?', "an arbiter gets no data");
	heal.arbiter = -1;
	expect(!heal_file("arbitrated", 1, 0, UINT64_MAX) && !heal_file("arbitrated", 2, 0, UINT64_MAX), "others do");
	members_compare("");
}

static void what_a_file_has_is_copied_where_it_differs(void **s)
{
	(void)s;
	if (geteuid())
		skip(); /* in memory there are no holes */
	failures = 0;
	on_disk = true;
	make_directories();
	open_members(16384);
	task_call(files_, NULL);
	tree_close(&tree);
	test_remove(base);
	assert_int_equal(failures, 0);
}

/* ---- one step of a heal, and then somebody else's ---- */

static void race_on(bool disk, task_fn *fn)
{
	failures = 0;
	seed = 1;
	names.on = false;
	on_disk = disk;
	if (disk)
		make_directories();
	open_members(16384);
	queue_begin(false);
	task_call(fn, NULL);
	queue_drop();
	queue_end();
	tree_close(&tree);
	if (disk)
		test_remove(base);
	assert_int_equal(failures, 0);
}

static void a_directory_that_goes_to_the_limbo_meanwhile_is_taken_from_there(void **s)
{
	(void)s;
	race_on(false, race_directory_goes_to_the_limbo);
	if (!geteuid())
		race_on(true, race_directory_goes_to_the_limbo);
}

static void a_name_that_changed_hands_is_looked_at_again_and_holds_up_no_other(void **s)
{
	(void)s;
	race_on(false, race_name_changes_hands);
	if (!geteuid())
		race_on(true, race_name_changes_hands);
}

static void what_lies_in_the_limbo_is_found_where_no_list_tells_of_it(void **s)
{
	(void)s;
	race_on(false, missed_directories_are_told);
	if (!geteuid())
		race_on(true, missed_directories_are_told);
}

static void what_a_member_lacks_is_told_with_all_that_leads_to_it(void **s)
{
	(void)s;
	race_on(false, lacking_directories_are_told);
	if (!geteuid())
		race_on(true, lacking_directories_are_told);
}

static void what_a_recovery_takes_from_a_directory_is_synced(void **s)
{
	(void)s;
	race_on(false, what_is_taken_is_synced);
	if (!geteuid())
		race_on(true, what_is_taken_is_synced);
}

static int start(void **s)
{
	(void)s;
	return runtime_start(2, 0);
}

static int stop(void **s)
{
	(void)s;
	runtime_stop();
	queue_finish();
	free(kept.inode);
	return 0;
}

/* ---- the bandwidth ---- */

struct healing {
	int err;
	atomic_bool over;
};

static void heal_aside(void *arg)
{
	struct healing *h = arg;

	h->err = heal_file("f", 1, 0, UINT64_MAX);
	atomic_store(&h->over, true);
}

/* A byte in a second: it waits for days, until it may go faster. */
static void is_freed(void *arg)
{
	struct healing h = { .err = 1 };

	(void)arg;
	same_roots();
	make_everywhere("f");
	for (int i = 0; i < 4; i++)
		put(0, "f", (uint64_t)i * MIB, "data");
	atomic_store(&heal.bytes, 0);
	atomic_store(&heal.paid_until_ns, 0);
	atomic_store(&heal.bandwidth, 1);
	task_spawn(NULL, heal_aside, &h);
	for (uint64_t before = 0; !atomic_load(&h.over) && (!before || atomic_load(&heal.bytes) != before); task_sleep_ms(200))
		before = atomic_load(&heal.bytes);
	expect(!atomic_load(&h.over), "it waits");
	atomic_store(&heal.bandwidth, 1ull << 40);
	for (int i = 0; i < 20000 && !atomic_load(&h.over); i++)
		task_sleep_ms(1);
	expect(atomic_load(&h.over), "it goes on");
	atomic_store(&heal.halt, true);
	while (!atomic_load(&h.over))
		task_sleep_ms(1);
	atomic_store(&heal.halt, false);
	atomic_store(&heal.bandwidth, 0);
	expect(!h.err && byte_at(1, "f", 3 * MIB) == 'd', "all is copied");
}

static void a_bandwidth_that_is_changed_counts_for_who_waits_already(void **s)
{
	(void)s;
	race_on(false, is_freed);
}

int main(void)
{
#ifdef __SANITIZE_THREAD__ /* the test's own counters are not made for it yet */
	printf("[  SKIPPED ] heal-test: not yet with ThreadSanitizer\n");
	return 77;
#endif
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_in_memory_become_the_same),
		cmocka_unit_test(members_on_disk_become_the_same),
		cmocka_unit_test(members_that_know_nothing_any_more_become_the_same),
		cmocka_unit_test(a_directory_may_wait_for_what_is_below_it),
		cmocka_unit_test_teardown(names_of_unfinished_changes_become_the_same, as_at_first),
		cmocka_unit_test_teardown(a_heal_that_fails_is_taken_up_again, as_at_first),
		cmocka_unit_test_teardown(a_heal_that_does_not_end_is_undone, as_at_first),
		cmocka_unit_test(what_a_file_has_is_copied_where_it_differs),
		cmocka_unit_test(a_directory_that_goes_to_the_limbo_meanwhile_is_taken_from_there),
		cmocka_unit_test(a_name_that_changed_hands_is_looked_at_again_and_holds_up_no_other),
		cmocka_unit_test(what_lies_in_the_limbo_is_found_where_no_list_tells_of_it),
		cmocka_unit_test(what_a_member_lacks_is_told_with_all_that_leads_to_it),
		cmocka_unit_test(what_a_recovery_takes_from_a_directory_is_synced),
		cmocka_unit_test(a_bandwidth_that_is_changed_counts_for_who_waits_already),
	};

	if (getenv("HEAL_TEST"))
		cmocka_set_test_filter(getenv("HEAL_TEST"));
	return cmocka_run_group_tests(tests, start, stop);
}
