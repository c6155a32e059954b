/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/coordinator: what a new view takes members to have done that have forgotten it, or may have. The test is the members. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator.h"

static struct note told[2][2]; /* by the members, of two changes */
static unsigned count[2];

int ask_member(struct coordinator *c, int member, enum replica_verb verb, struct pack *more, struct blob *answer,
	       uint64_t deadline)
{
	struct unpack u = { more->bytes, more->bytes + more->size, false };
	struct pack p = { 0 };

	(void)c, (void)deadline;
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

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_was_started_anew_may_have_done_anything),
		cmocka_unit_test(while_somebody_was_away_others_may_have_done_what_was_not_done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
