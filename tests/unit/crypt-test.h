/* SPDX-License-Identifier: Apache-2.0 */
/* Clients over one brick in memory: A and B with one key, a newer one with a master key more. A's messages can be cut off, and the brick lies to
 * it. */
#ifndef STRATUS_CRYPT_TEST_H
#define STRATUS_CRYPT_TEST_H
#include "test-tasks.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "tree.h"

extern int failures;

struct bed {
	struct tree a, b, newer, brick;
	struct xlator *tear, *lie, *locks;
	struct client client;
	char directory[64];
};
enum { BED_MOST = 1500000 }; /* bytes of a file in these tests: room for writes of several messages */

void bed_make(struct bed *, const char *options); /* of both translators */
void bed_end(struct bed *);
void bed_cut(struct bed *, unsigned messages, unsigned pages);
unsigned bed_heal(struct bed *); /* messages since the cut; A's locks are gone, as when its session has ended */

unsigned bed_locks(struct bed *);			 /* how often A has taken the brick's lock */
unsigned bed_refused(struct bed *);			 /* how often it found what was not written */
void bed_lie(struct bed *, const char *what, int value); /* see lie.c */
unsigned bed_count(struct bed *, const char *what);

/* Small random numbers that a seed repeats. */
struct chance {
	uint64_t state;
};
uint64_t chance(struct chance *, uint64_t below);
uint64_t seed_of_run(uint64_t preset);		      /* $SEED, or the preset */
void fill(struct chance *, uint8_t *to, size_t size); /* with what is not zero */

/* What a file should be. */
struct model {
	uint8_t bytes[BED_MOST]; /* zeros behind the end */
	size_t size;
};
void model_copy(struct model *to, const struct model *from);
/* One random change of a file: as the fop, and to the model. */
struct deed {
	int kind;
	uint64_t offset, size;
	uint8_t *bytes;
};
enum { DEED_WRITE, DEED_APPEND, DEED_TRUNCATE, DEED_PUNCH, DEED_ZERO, DEED_ALLOCATE, DEEDS };
struct deed deed_choose(struct chance *, const struct model *);
int deed_do(struct tree *, struct file *, const struct deed *);
void deed_model(struct model *, const struct deed *);
const char *deed_name(const struct deed *);

int raw_read(struct bed *, const struct gfid *, uint8_t *to, size_t *size);
int raw_write(struct bed *, const struct gfid *, const uint8_t *bytes, size_t size);
int raw_header(struct bed *, const struct gfid *, const void *bytes, size_t size);

/* In the other files of this test: run as tasks, with the bed. */
void large_requests_take_few_messages(void *bed);
void who_lacks_an_epoch_changes_nothing(void *bed);
void an_empty_file_may_get_another_key(void *bed);
void a_large_write_learns_of_another_key(void *bed);
void a_writer_learns_of_holes(void *bed);
void a_lost_lock_is_taken_again(void *bed);
void a_large_write_goes_on_when_the_lock_is_lost(void *bed);
void an_append_leaves_what_others_append(void *bed);
void tampering_behind_a_part_is_told(void *bed);
void a_lock_does_not_stay(void *bed);
void a_lock_goes_with_its_file(void *bed);
void a_cancel_that_is_taken_below_hangs_nobody(void *bed);
void a_brick_that_lies_changes_nothing(void *bed);
void a_short_write_counts_whole_blocks(void *bed);
void crash_leaves_old_or_new(void *bed);
void tampering_is_refused(void *bed);
void foreign_headers_are_refused(void *bed);
void a_header_that_changes_later_is_told(void *bed);
void the_format_before_is_refused_and_kept(void *bed);
void long_names_do_all_that_short_ones_do(void *bed);
void attributes_have_long_names(void *bed);
void lists_have_room_for_plain_names(void *bed);
void a_crash_leaves_one_of_the_names(void *bed);
void a_provider_shows_no_wrong_long_name(void *bed);
void a_provider_shows_no_wrong_target(void *bed);
void a_provider_shows_no_wrong_attribute(void *bed);
void a_late_write_undoes_nothing(void *bed);
void a_late_write_is_done_if_the_lock_was_reclaimed(void *bed);
void what_was_given_up_does_not_come_later(void *bed);
void a_late_append_is_there_once(void *bed);
void a_brick_that_knows_no_lock_is_given_up(void *bed);
int run_without_locked_memory(void); /* tests of their own, in a runtime that they start */
#endif
