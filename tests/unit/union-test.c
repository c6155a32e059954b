/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/coordinator: what a new view takes members to have done that have forgotten it, or may have. The test is the members. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator.h"

static struct note told[2][2]; /* by the members, of two changes */
static unsigned count[2];
static bool all; /* a list tells that it does not tell of all */

int ask_member(struct coordinator *c, int member, enum replica_verb verb, struct pack *more, struct blob *answer,
	       uint64_t deadline)
{
	struct unpack u = { more->bytes, more->bytes + more->size, false };
	struct pack p = { 0 };

	(void)c, (void)deadline;
	if (verb == REPLICA_INDEX) {
		pack_free(more);
		pack_u8(&p, all);
		pack_u64(&p, 0);
		return pack_end(&p, answer);
	}
	assert_int_equal(verb, REPLICA_NOTES);
	for (uint64_t i = unpack_u64(&u); i < count[member]; i++)
		pack_note(&p, &told[member][i]);
	pack_free(more);
	return pack_end(&p, answer);
}

unsigned tell_members(struct coordinator *c, unsigned mask, enum replica_verb verb, const struct pack *more,
		      uint64_t timeout_ns)
{
	(void)c, (void)verb, (void)more, (void)timeout_ns;
	return mask;
}

static struct note change(uint64_t sequence, int32_t status, bool resolved)
{
	return (struct note){ .session = { 1 },
			      .sequence = sequence,
			      .fop = FOP_setattr,
			      .status = status,
			      .resolved = resolved,
			      .objects = 1,
			      .object = { { .kind = NOTE_META, .gfid = { { 7 } } } } };
}

static struct coordinator *gathered(void)
{
	struct coordinator *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	c->members = 2;
	for (int i = 0; i < 2; i++)
		assert_int_equal(notes_collect(c, i), 0);
	return c;
}

static const struct union_note *numbered(const struct coordinator *c, uint64_t sequence)
{
	const struct union_note *u = c->notes;

	while (u && u->note.sequence != sequence)
		u = u->next;
	assert_non_null(u);
	return u;
}

static void drop(struct coordinator *c)
{
	notes_free(c);
	free(c);
}

/* Of the first change both know; the second member has been started anew since, so of the other nobody can say that it has not done it. */
static void who_was_started_anew_may_have_done_anything(void **state)
{
	struct coordinator *c;

	(void)state;
	told[0][0] = told[1][0] = change(1, 0, false);
	told[0][1] = change(2, 0, false);
	count[0] = 2;
	count[1] = 1;
	c = gathered();
	assert_false(numbered(c, 2)->has[1]);
	notes_forgotten(c, 1);
	assert_true(numbered(c, 2)->has[1]);
	assert_int_equal(numbered(c, 2)->status[1], -EIO);
	assert_int_equal(numbered(c, 1)->status[1], 0);
	drop(c);
}

/* The second comes back that was away: what was not done when it heard of it last the first may have done since, and forgotten. */
static void while_somebody_was_away_others_may_have_done_what_was_not_done(void **state)
{
	struct coordinator *c;

	(void)state;
	told[1][0] = change(1, -ECANCELED, true);
	told[1][1] = change(2, 0, true);
	count[0] = 0;
	count[1] = 2;
	c = gathered();
	assert_true(numbered(c, 1)->note.resolved);
	notes_of_away(c, 1u << 0);
	assert_false(numbered(c, 1)->note.resolved);
	assert_true(numbered(c, 1)->has[0]);
	assert_int_equal(numbered(c, 1)->status[0], -EIO);
	assert_true(numbered(c, 2)->note.resolved); /* done is final */
	assert_int_equal(numbered(c, 2)->note.status, 0);
	drop(c);
}

/* Whether there may be directories that no list tells of, where two members that are IN have synced these generations, and may lack some up to those. */
static bool unlisted(uint64_t synced, uint64_t unnamed, uint64_t other_synced, uint64_t other_unnamed)
{
	struct coordinator *c = calloc(1, sizeof(*c));
	struct view next = { .epoch = 2, .members = 2, .state = { MEMBER_IN, MEMBER_IN } };
	int failed = 0;
	bool it_is;

	assert_non_null(c);
	pthread_mutex_init(&c->lock, NULL);
	c->members = 2;
	c->member[0].last = (struct lease_reply){ .synced = synced, .unnamed = unnamed };
	c->member[1].last = (struct lease_reply){ .synced = other_synced, .unnamed = other_unnamed };
	assert_int_equal(notes_of_indexes(c, &next, &failed), 0);
	it_is = c->owed.unlisted;
	pthread_mutex_destroy(&c->lock);
	drop(c);
	return it_is;
}

/* All of the lists begin at what the member has synced that has synced least. */
static void lists_tell_of_all_directories_if_each_does_from_there_on(void **state)
{
	(void)state;
	all = false;
	assert_false(unlisted(5, 0, 7, 5));
	assert_true(unlisted(5, 0, 7, 6));
	assert_true(unlisted(5, UINT64_MAX, 7, 0));
	all = true;
	assert_true(unlisted(5, 0, 7, 0));
	all = false;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_was_started_anew_may_have_done_anything),
		cmocka_unit_test(while_somebody_was_away_others_may_have_done_what_was_not_done),
		cmocka_unit_test(lists_tell_of_all_directories_if_each_does_from_there_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
