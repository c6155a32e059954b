/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of posix-test share: a brick for each test, checks, and calls to the brick. */
#ifndef STRATUS_POSIX_TEST_H
#define STRATUS_POSIX_TEST_H
#include "test-tasks.h"
#include "test-check.h"
#include "test.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "born.h"
#include "graph.h"

#define VOLUME_ID "6d6a1f70-0d3c-4c1d-9a65-3d1a7c1f4b01"
#define BRICK_ID  "0f0e0d0c-0b0a-4908-8706-050403020100"
#define OTHER_ID  "11111111-2222-4333-8444-555555555555"

/* ---- posix-test.c: a brick for each test ---- */

extern char base[128]; /* the test's directory: the brick is "brick" in it */
extern struct graph *graph;
extern struct xlator *brick; /* at the top of the graph */
extern struct inode *root;
extern atomic_int failures;

/* A path of base and the name, by a format with two %s; one of four buffers of the thread. */
const char *test_path(const char *format, const char *name);
const char *test_brick_path(const char *name);
/* A graph that serves the directory, with more options; 0, or -errno and the reason. */
int test_try_open(const char *directory, const char *volume, const char *id, const char *more, struct graph **,
		  struct problem *);
void test_close_graph(struct graph *);
void test_open_brick(void);
void test_close_brick(void); /* each test begins and ends with an open one */
/* In a task; the test fails if a check has failed. */
void test_run(task_fn *);

#define PROPERTY(name)                                                                                                         \
	static void name##_(void *arg);                                                                                        \
	void name(void **state)                                                                                                \
	{                                                                                                                      \
		(void)state;                                                                                                   \
		test_run(name##_);                                                                                             \
	}                                                                                                                      \
	static void name##_(void *arg __attribute__((unused)))

/* ---- posix-test-ask.c: a call each, by root if no request is given; 0 (or a size) or -errno ---- */

struct rq {
	struct request r;
};
static inline void rq_end(struct rq *q)
{
	request_finish(&q->r);
}
#define REQUEST(name, user)                                                                                                    \
	__attribute__((cleanup(rq_end))) struct rq name;                                                                       \
	request_init(&name.r, graph, 0);                                                                                       \
	name.r.uid = (user);                                                                                                   \
	name.r.gid = (user);                                                                                                   \
	name.r.group_count = 0

struct gfid fresh_gfid(void);
/* `inode` and `file` may be NULL, else they are the caller's. */
int ask_make_file_as(struct request *, struct inode *parent, const char *name, mode_t, struct inode **inode,
		     struct file **file);
int ask_make_file(struct inode *parent, const char *name, struct inode **inode, struct file **file);
int ask_make_directory(struct inode *parent, const char *name, mode_t, struct inode **inode); /* inode may be NULL */
int ask_find(struct inode *parent, const char *name, struct inode **inode, struct attr *);    /* both may be NULL */
int ask_attr(struct inode *, struct file *, struct attr *);
int ask_set(struct request *, struct inode *, const struct setattr *);
int ask_put(struct request *, struct file *, uint64_t offset, uint32_t flags, const void *bytes, size_t,
	    uint64_t *at);						 /* write; `at` may be NULL */
int ask_get(struct file *, uint64_t offset, void *bytes, uint32_t size); /* read */
int ask_drop(struct inode *parent, const char *name, bool directory);	 /* unlink or rmdir */
int ask_move(struct request *, struct inode *from, const char *a, struct inode *to, const char *b, uint32_t flags,
	     struct inode *moved);
int ask_link(struct request *, struct inode *, struct inode *parent, const char *name);

struct disk_link {
	struct gfid parent;
	unsigned length;
	char name[256];
};
struct disk_identity {
	struct gfid gfid;
	unsigned links, more;
	struct disk_link link[64];
	ssize_t size;
};
/* The identity that the object has on the brick's file system; false if it has none, or one that is not understood. */
bool disk_read(const char *path, struct disk_identity *);
bool disk_has(const struct disk_identity *, const struct inode *parent, const char *name); /* this link */

/* ---- the tests: each is of the property that its name says ---- */

typedef void test_fn(void **state);
/* posix-test-make.c */
test_fn nothing_is_visible_without_identity, creation_sets_owner_mode_and_umask, an_unknown_group_list_is_asked_for,
	inherited_acls_are_the_kernels, nothing_is_visible_without_what_it_is_born_with, what_cannot_be_born_leaves_nothing,
	what_exists_is_not_born_again, what_is_made_in_a_removed_directory_is_stale;
/* posix-test-tail.c */
test_fn a_power_cut_leaves_a_last_page_old_or_new, a_page_is_on_disk_before_its_file_grows_behind_it,
	a_page_is_on_disk_before_its_file_grows_by_a_hole, what_is_younger_than_a_sync_waits_for_no_disk,
	what_no_power_cut_leaves_is_left_alone, large_writes_are_in_pieces_only_where_changes_are_ordered,
	no_page_is_in_two_pieces, with_o_dsync_a_large_write_is_one_call;
/* posix-test-identity.c */
test_fn forged_handles_are_refused, handles_outlive_a_restart_and_one_key, handles_of_removed_objects_are_stale,
	handles_of_another_brick_are_stale, renames_and_links_keep_the_identity, a_name_that_was_not_noted_is_noted_later,
	the_same_name_in_two_directories_of_one_gfid_is_noted_twice, an_object_with_a_name_lists_one,
	what_is_noted_twice_is_put_right, a_name_whose_object_is_made_anew_is_looked_up_again,
	a_name_that_cannot_go_stays_noted, what_cannot_be_read_is_not_taken_for_gone,
	a_name_whose_handle_cannot_be_read_keeps_its_identity, the_identity_of_one_link_fits_into_the_inode,
	foreign_objects_get_an_identity, internal_attributes_are_hidden, a_resent_request_succeeds_if_the_first_was_done,
	nobody_gives_an_object_more_names_of_xattrs_than_can_be_listed,
	who_says_that_he_has_made_another_ones_object_is_refused, who_names_what_is_replaced_replaces_nothing_else,
	an_object_that_is_made_again_is_the_new_one, a_former_object_does_not_come_back_by_its_handle, a_gfid_is_given_once;
/* posix-test-data.c */
test_fn appends_never_overlap, an_unlinked_open_file_lives_on, direct_io_falls_back_where_it_must,
	direct_io_reaches_the_disk_when_the_provider_says_so, an_open_file_does_only_what_it_was_opened_for,
	holes_are_punched_found_and_copied, much_is_copied_in_parts, privileges_go_with_changes_by_ordinary_users,
	times_are_set_to_the_nanosecond_or_left;
/* posix-test-dir.c */
test_fn the_private_directory_is_hidden, listings_give_each_entry_once, directories_that_were_removed_are_not_kept_open,
	what_was_removed_is_closed_soon, what_was_removed_just_now_is_left_alone,
	a_brick_that_stops_has_closed_what_was_removed, the_cache_of_directories_is_bounded;
/* posix-test-compound.c */
test_fn a_compound_stops_at_a_condition_that_fails, a_compound_passes_results_on, compounds_are_alone_at_their_objects;
#endif
