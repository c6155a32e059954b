/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of features/layout share. */
#ifndef STRATUS_SHARD_TEST_H
#define STRATUS_SHARD_TEST_H
#include "test-check.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "born.h"
#include "layout.h"
#include "place.h"
#include "test-tasks.h"
#include "tree.h"

enum { SELF = 1, MEMBERS = 4 };
extern const struct place nowhere; /* stands for: no PLACE */
static const struct place v0 = { 0 }, v7 __attribute__((unused)) = { .version = { 7, 7 } },
			  v8 __attribute__((unused)) = { .version = { 8, 8 } };
static const struct pointer far = { .subvolume = 3, .gfid = { { 1, 2, 3, [15] = 9 } } };
extern struct tree tree;
extern atomic_int failures;

static inline struct loc loc_of(struct inode *parent, const char *name)
{
	return (struct loc){ .parent = parent, .name = name };
}
int say(struct request *rq, const struct place *p, enum fop fop,
	const void *in); /* the versions are of the directories of its names, in their order, unless it says of which */
int look(const struct place *p, struct inode *parent, const char *name, struct inode **inode, struct attr *attr);
int make_dir(const struct place *p, struct inode *parent, const char *name, struct inode **inode);
int move(const struct place *p, struct inode *a, const char *from, struct inode *b, const char *to, uint32_t flags);
int set(struct inode *inode, const char *name, const void *value, size_t size);
struct layout layout_of(uint64_t version);
int put_layout(struct inode *inode, const struct layout *l);
struct inode *root(void);
const char *find_name(const struct inode *parent, uint32_t member, const char *prefix, char name[64]);
const char *name_at(const struct inode *parent, uint32_t member, const char *prefix);
int call(const struct place *p, enum fop fop, const void *in, void *out);
int make_file(const struct place *p, struct inode *parent, const char *name, int flags);
int drop(const struct place *p, struct inode *parent, const char *name, enum fop fop);
extern struct born_xattr born_next[2]; /* what is made next is born with */
extern unsigned born_count;
void born_pointer(void); /* what is made next is a pointer */
extern bool sent_again;	 /* all requests are */
void run_on(task_fn *fn, const char *leaf);
extern const char *below; /* volumes that the leaf is on */

#define LEAF_POSIX                                                                                                             \
	"type storage/posix\n option volume-id 6d6a1f70-0d3c-4c1d-9a65-3d1a7c1f4b01\n"                                         \
	" option brick-id 0f0e0d0c-0b0a-4908-8706-050403020100\n option directory "
/* On both leaves, if it may use a disk. */
#define PROPERTY_AS(kind, name)                                                                                                \
	static void name##_(void *arg);                                                                                        \
	kind void name(void **state)                                                                                           \
	{                                                                                                                      \
		(void)state;                                                                                                   \
		run_on(name##_, "type debug/memory");                                                                          \
		if (!geteuid())                                                                                                \
			run_on(name##_, LEAF_POSIX);                                                                           \
	}                                                                                                                      \
	static void name##_(void *arg __attribute__((unused)))
#define PROPERTY(name) PROPERTY_AS(static, name)

/* ---- shard-test-together.c ---- */
void hold_tell(const char *word, const char *what); /* a command to debug/hold, which is below features/layout */
unsigned hold_parked(void);
void hold_wait(unsigned n); /* until so many are parked */
void wait_for(atomic_bool *done);
void a_layout_waits_for_who_is_inside_and_others_for_it(void **state);
void what_was_read_before_a_change_is_not_kept_after_it(void **state);
void nothing_is_done_by_a_layout_that_has_ended(void **state);
void what_is_replaced_while_it_is_looked_at_is_looked_at_again(void **state);
void what_came_while_a_name_is_taken_is_not_taken(void **state);
void who_is_about_to_lock_counts(void **state);

/* ---- shard-test-taken.c ---- */
void a_moving_name_is_gone_when_that_is_on_disk(void **state);
void what_was_taken_is_told_to_who_is_interrupted_before_it_is_on_disk(void **state);
void who_misses_a_name_while_one_is_taken_waits_for_the_disk(void **state);
void what_was_taken_before_the_start_is_on_disk_before_it_is_missed(void **state);
void without_a_transition_no_name_waits_for_the_disk(void **state);

/* ---- shard-test-marks.c ---- */
void a_marked_name_is_its_intents_alone(void **state);
void a_name_is_marked_by_the_layout_by_which_it_was_found(void **state);
void a_directory_with_marked_names_stays(void **state);
void a_file_that_is_being_moved_is_changed_by_nobody(void **state);
void a_directory_has_no_more_marks_than_there_is_room_for(void **state);

/* ---- shard-test-pointers.c ---- */
int object_fop(const struct place *p, enum fop fop, struct inode *inode); /* one that is by the object, not a name */
void a_pointer_says_where_the_object_is_and_is_not_taken_for_it(void **state);
void who_lists_goes_by_the_layout_too(void **state);
void a_listing_says_what_is_a_pointer(void **state);
void what_all_shards_must_have_is_not_changed_at_one(void **state);

/* ---- shard-test-asks.c ---- */
void older_clients_rename_pointers_as_they_did(void **state);
void what_is_expected_is_there_or_nothing_is_done(void **state);
void what_is_sent_again_takes_nothing_that_was_made_since(void **state);
void hostile_places_are_refused(void **state);
void users_get_what_belongs_to_them(void **state);
void who_knows_less_is_not_told_a_mode_by_who_is_not_the_home(void **state);
#endif
