/* SPDX-License-Identifier: Apache-2.0 */
/* storage/posix on the file system of the build directory: what it promises about names, identities, handles and data.
 * Needs root (trusted attributes, handles); skipped otherwise. */
#include "posix-test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

char base[128];
struct graph *graph;
struct xlator *brick;
struct inode *root;
atomic_int failures;

const char *test_path(const char *format, const char *name)
{
	static __thread char text[4][512];
	static __thread int turn;
	char *t = text[turn++ % 4];

	snprintf(t, 512, format, base, name);
	return t;
}

const char *test_brick_path(const char *name)
{
	return test_path("%s/brick/%s", name);
}

int test_try_open(const char *directory, const char *volume, const char *id, const char *more, struct graph **made,
		  struct problem *p)
{
	char text[1024];
	struct volfile v;
	int err;

	snprintf(
		text, sizeof text,
		"volume posix\n type storage/posix\n option directory %s\n option volume-id %s\n option brick-id %s\n%send-volume\n",
		directory, volume, id, more);
	*made = NULL;
	memset(p, 0, sizeof *p);
	err = volfile_parse(text, strlen(text), "test.vol", &v, p);
	if (err)
		return err;
	err = graph_create(&v, NULL, NULL, made, p);
	volfile_free(&v);
	if (!err && (err = graph_start(*made, p))) {
		graph_destroy(*made);
		*made = NULL;
	}
	return err;
}

void test_close_graph(struct graph *g)
{
	graph_stop(g);
	graph_destroy(g);
}

void test_open_brick(void)
{
	struct problem p;

	if (test_try_open(test_path("%s/brick%s", ""), VOLUME_ID, BRICK_ID, " option free-space-floor 0\n", &graph, &p))
		fail_msg("%s", p.text);
	brick = graph->top;
	root = inode_get(graph->inodes, &gfid_root, S_IFDIR);
	assert_non_null(root);
}

void test_close_brick(void)
{
	inode_unref(root);
	test_close_graph(graph);
}

static int set_up_in(char *here) /* a template */
{
	char *whole = mkdtemp(here) ? realpath(here, NULL) : NULL;

	if (!whole || snprintf(base, sizeof base, "%s", whole) >= (int)sizeof base)
		return -1;
	free(whole);
	failures = 0;
	if (mkdir(test_path("%s/brick%s", ""), 0755))
		return -1;
	test_open_brick();
	return 0;
}

static int setup(void **state)
{
	char here[] = "posix-test.XXXXXX";

	(void)state;
	return set_up_in(here);
}

/* A file system that keeps more names than listxattr(2) tells. */
static int setup_tmpfs(void **state)
{
	char here[] = "/dev/shm/posix-test.XXXXXX";

	(void)state;
	return set_up_in(here);
}

static int teardown(void **state)
{
	(void)state;
	test_close_brick();
	return test_remove(base);
}

void test_run(task_fn *fn)
{
	assert_int_equal(task_call(fn, NULL), 0);
	assert_int_equal(failures, 0);
}

/* ---- the brick ---- */

static void expect_refusal(const char *directory, const char *volume, const char *more, const char *sentence)
{
	struct problem p;
	struct graph *g;

	assert_true(test_try_open(directory, volume, BRICK_ID, more, &g, &p) < 0);
	if (!strstr(p.text, sentence))
		fail_msg("\"%s\" does not say \"%s\"", p.text, sentence);
}

static unsigned entries_in(const char *path)
{
	DIR *dir = opendir(path);
	unsigned count = 0;

	if (!dir)
		return 0;
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void what_is_no_brick_of_ours_is_refused_untouched(void **state)
{
	char dir[140], file[160];

	(void)state;
	snprintf(dir, sizeof dir, "%s/new", base);
	expect_refusal(dir, VOLUME_ID, "", "does not exist");
	assert_int_not_equal(access(dir, F_OK), 0);
	assert_int_equal(mkdir(dir, 0755), 0);
	expect_refusal(dir, VOLUME_ID, " option format never\n", "is no brick");
	expect_refusal(dir, "abc", "", "is not a UUID");
	expect_refusal(dir, VOLUME_ID, " option free-space-floor much\n", "free-space-floor");
	expect_refusal(dir, VOLUME_ID, " option free-space-floor \"1 \"\n", "free-space-floor"); /* no exbibyte */
	expect_refusal(dir, VOLUME_ID, " option free-space-floor 0x10\n", "free-space-floor");
	expect_refusal(dir, VOLUME_ID, " option free-space-floor 100%\n", "free-space-floor");
	snprintf(file, sizeof file, "%s/data", dir);
	close(open(file, O_CREAT | O_WRONLY, 0600));
	expect_refusal(dir, VOLUME_ID, "", "not empty");
	assert_int_equal(entries_in(dir), 3);
	expect_refusal(file, VOLUME_ID, "", "can't open");
	expect_refusal(test_path("%s/brick%s", ""), VOLUME_ID, "", "being served already");
	expect_refusal(test_path("%s/brick%s", ""), OTHER_ID, "", VOLUME_ID);
	expect_refusal(test_path("%s/brick%s", ""), OTHER_ID, "", OTHER_ID);
}

static void fill_staging_(void *arg)
{
	(void)arg;
	CHECK(!mkdir(test_brick_path(".stratus/staging/left"), 0700));
	CHECK(!close(open(test_brick_path(".stratus/staging/over"), O_CREAT | O_WRONLY, 0600)));
}

static void a_start_clears_what_a_crash_left(void **state)
{
	struct stat st;

	(void)state;
	test_run(fill_staging_);
	test_close_brick();
	assert_int_equal(unlink(test_brick_path(".stratus/format")), 0); /* as if the crash came while formatting */
	test_open_brick();
	assert_int_equal(entries_in(test_brick_path(".stratus/staging")), 2);
	assert_int_equal(stat(test_brick_path(".stratus"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(stat(test_brick_path(".stratus/keys"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void make_f_(void *arg)
{
	(void)arg;
	CHECK_INT(ask_make_file(root, "f", NULL, NULL), 0);
}

static void fill_up_(void *arg)
{
	cleanup_inode struct inode *f = NULL;
	cleanup_file struct file *file = NULL;
	REQUEST(q, 0);

	(void)arg;
	CHECK_INT(ask_find(root, "f", &f, NULL), 0);
	struct open_out out = { 0 };

	CHECK_INT(open_on(&q.r, brick, &(struct open_in){ f, O_RDWR }, &out), 0);
	file = out.file;
	CHECK_INT(ask_put(&q.r, file, 0, 0, "x", 1, NULL), -ENOSPC);
	CHECK_INT(ask_make_file(root, "g", NULL, NULL), -ENOSPC);
	CHECK_INT(ask_make_directory(root, "h", 0755, NULL), -ENOSPC);
	CHECK_INT(born_attach(&q.r, &(struct born_xattr){ "user.x", "p", 1 }, 1), 0);
	CHECK_INT(ask_make_file_as(&q.r, root, "g", 0644, NULL, NULL), -ENOSPC);
	CHECK_INT(ask_find(root, "g", NULL, NULL), -ENOENT);
	CHECK_INT(born_attach(&q.r, &(struct born_xattr){ "trusted.dht.pointer", "p", 1 }, 1), 0);
	CHECK_INT(ask_make_file_as(&q.r, root, "pointer", 0644, NULL, NULL), 0); /* but this, for it saves room */
	CHECK_INT(ask_drop(root, "pointer", false), 0);
	CHECK_INT(born_attach(&q.r, NULL, 0), 0);
	CHECK_INT(fallocate_on(&q.r, brick, &(struct fallocate_in){ file, 0, 0, 4096 }, &(struct fallocate_out){ 0 }), -ENOSPC);
	struct statfs_out s = { 0 };

	CHECK_INT(statfs_on(&q.r, brick, &(struct statfs_in){ root }, &s), 0);
	CHECK_INT(s.statfs.bavail, 0);
	CHECK(s.statfs.blocks > 0);
	CHECK_INT(fallocate_on(&q.r, brick, &(struct fallocate_in){ file, 3, 0, 4096 }, &(struct fallocate_out){ 0 }), 0);
	CHECK_INT(ask_drop(root, "f", false), 0);
}

static void below_the_floor_nothing_is_added(void **state)
{
	struct problem p;

	(void)state;
	test_run(make_f_);
	test_close_brick();
	assert_int_equal(test_try_open(test_path("%s/brick%s", ""), VOLUME_ID, BRICK_ID, " option free-space-floor 99.99%\n",
				       &graph, &p),
			 0);
	brick = graph->top;
	root = inode_get(graph->inodes, &gfid_root, S_IFDIR);
	test_run(fill_up_);
}

/* As a recovery makes it, which is given half of the floor. */
static int expected_of_heals;

static void make_healing_(void *arg)
{
	REQUEST(q, 0);

	(void)arg;
	CHECK_INT(ask_make_file_as(&q.r, root, "healed", 0644, NULL, NULL), -ENOSPC);
	q.r.limits = LIMITS_HEAL;
	CHECK_INT(ask_make_file_as(&q.r, root, "healed", 0644, NULL, NULL), expected_of_heals);
}

/* Floors of one and a half times of what is free, and of three times. */
static void who_makes_members_equal_gets_half_of_the_floor(void **state)
{
	struct statvfs s;
	struct problem p;

	(void)state;
	for (int times = 6; times >= 3; times -= 3) {
		char option[64];

		expected_of_heals = times == 3 ? 0 : -ENOSPC;
		test_close_brick();
		assert_int_equal(statvfs(test_path("%s/brick%s", ""), &s), 0);
		snprintf(option, sizeof(option), " option free-space-floor %llu\n",
			 (unsigned long long)s.f_bavail * s.f_frsize / 2 * (unsigned)times);
		assert_int_equal(test_try_open(test_path("%s/brick%s", ""), VOLUME_ID, BRICK_ID, option, &graph, &p), 0);
		brick = graph->top;
		root = inode_get(graph->inodes, &gfid_root, S_IFDIR);
		test_run(make_healing_);
	}
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(nothing_is_visible_without_identity),
		T(nothing_is_visible_without_what_it_is_born_with),
		T(what_cannot_be_born_leaves_nothing),
		T(what_exists_is_not_born_again),
		T(what_is_made_in_a_removed_directory_is_stale),
		T(creation_sets_owner_mode_and_umask),
		T(an_unknown_group_list_is_asked_for),
		T(inherited_acls_are_the_kernels),
		T(forged_handles_are_refused),
		T(handles_outlive_a_restart_and_one_key),
		T(handles_of_removed_objects_are_stale),
		T(handles_of_another_brick_are_stale),
		T(renames_and_links_keep_the_identity),
		T(a_name_that_was_not_noted_is_noted_later),
		T(the_same_name_in_two_directories_of_one_gfid_is_noted_twice),
		T(an_object_with_a_name_lists_one),
		T(what_is_noted_twice_is_put_right),
		T(a_name_that_cannot_go_stays_noted),
		T(what_cannot_be_read_is_not_taken_for_gone),
		T(a_name_whose_handle_cannot_be_read_keeps_its_identity),
		T(the_identity_of_one_link_fits_into_the_inode),
		T(foreign_objects_get_an_identity),
		T(internal_attributes_are_hidden),
		T(a_resent_request_succeeds_if_the_first_was_done),
		T(who_names_what_is_replaced_replaces_nothing_else),
		T(an_object_that_is_made_again_is_the_new_one),
		T(a_former_object_does_not_come_back_by_its_handle),
		T(a_name_whose_object_is_made_anew_is_looked_up_again),
		T(a_gfid_is_given_once),
		T(appends_never_overlap),
		T(an_unlinked_open_file_lives_on),
		T(who_says_that_he_has_made_another_ones_object_is_refused),
		cmocka_unit_test_setup_teardown(nobody_gives_an_object_more_names_of_xattrs_than_can_be_listed, setup_tmpfs,
						teardown),
		T(direct_io_falls_back_where_it_must),
		T(direct_io_reaches_the_disk_when_the_provider_says_so),
		T(an_open_file_does_only_what_it_was_opened_for),
		T(holes_are_punched_found_and_copied),
		T(much_is_copied_in_parts),
		T(privileges_go_with_changes_by_ordinary_users),
		T(times_are_set_to_the_nanosecond_or_left),
		T(the_private_directory_is_hidden),
		T(listings_give_each_entry_once),
		T(directories_that_were_removed_are_not_kept_open),
		T(what_was_removed_is_closed_soon),
		T(what_was_removed_just_now_is_left_alone),
		T(a_brick_that_stops_has_closed_what_was_removed),
		T(the_cache_of_directories_is_bounded),
		T(a_compound_stops_at_a_condition_that_fails),
		T(a_compound_passes_results_on),
		T(compounds_are_alone_at_their_objects),
		T(what_is_no_brick_of_ours_is_refused_untouched),
		T(a_start_clears_what_a_crash_left),
		T(below_the_floor_nothing_is_added),
		T(who_makes_members_equal_gets_half_of_the_floor),
		T(a_power_cut_leaves_a_last_page_old_or_new),
		T(a_page_is_on_disk_before_its_file_grows_behind_it),
		T(a_page_is_on_disk_before_its_file_grows_by_a_hole),
		T(what_is_younger_than_a_sync_waits_for_no_disk),
		T(what_no_power_cut_leaves_is_left_alone),
		T(large_writes_are_in_pieces_only_where_changes_are_ordered),
		T(no_page_is_in_two_pieces),
		T(with_o_dsync_a_large_write_is_one_call),
	};

	if (geteuid() != 0) {
		puts("not root: skipped");
		return 77;
	}
	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
