/* SPDX-License-Identifier: Apache-2.0 */
/* Allotments: the steps, one by one: what is said, what the document takes of that, and what a server makes of the document. */
#include "allot-test.h"

#include <string.h>

#include "allot.h"

enum { both = ALLOT_BYTES | ALLOT_INODES };
static const struct amount all = { 1000, 100 };

static struct allot_doc two(void)
{
	struct allot_said said[2] = { { .unit = "a", .incarnation = 1, .kinds = both, .taken = { 10, 1 } },
				      { .unit = "b", .incarnation = 2, .kinds = both } };
	struct allot_doc d;

	assert_true(allot_begin(&d, 0, said, 2, all));
	return d;
}

static void a_document_is_printed_and_read(void **unused)
{
	static const char *const wrong[] = { "a 1 1 0 5",
					     "a 1 1 0 -5 1",
					     "a 1 1 0 5 1 7 7",
					     "a 1 1 0 5 1\na 2 1 0 5 1",
					     "a 1 1 0 9e9 1",
					     "a 1 1 0 9223372036854775807 1",
					     "a" };
	static char text[ALLOT_TEXT_MAX], again[ALLOT_TEXT_MAX];
	static struct allot_doc d, read;
	size_t size;

	(void)unused;
	d = two();
	d.unit[1].term = 12345678901234567890u;
	size = allot_print(&d, text);
	assert_int_equal(allot_parse(text, size, &read), 0);
	assert_int_equal(allot_print(&read, again), size);
	assert_string_equal(text, again);
	assert_true(!read.unit[0].term && read.unit[1].term == d.unit[1].term);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_int_not_equal(allot_parse(wrong[i], strlen(wrong[i]), &read), 0);
}

static void what_was_given_up_is_not_enforced_before_and_not_twice(void **unused)
{
	struct amount none = { 0 }, may;
	struct allot_own own = { .incarnation = 1 };
	struct allot_doc d = two();
	struct allot_said s;
	bool heard;

	(void)unused;
	assert_true(allot_grant(&d, "a", (struct amount){ 1000, 100 }, all, 2));
	allot_apply(&own, &d, 1, "a");
	assert_true(allot_may(&own, all, &may));
	assert_int_equal(may.bytes, 1000);
	allot_give(&own, (struct amount){ 10, 1 }, none, all, (struct amount){ 100, 0 });
	assert_true(allot_may(&own, all, &may));
	assert_int_equal(may.bytes, 505); /* half of what is free */
	assert_int_equal(may.inodes, 100);
	assert_true(allot_say(&own, "a", (struct amount){ 10, 1 }, none, all, &s));
	assert_true(allot_take(&d, 2, &s, all, &heard));
	assert_false(allot_take(&d, 3, &s, all, &heard)); /* once more */
	assert_true(allot_grant(&d, "b", (struct amount){ 495, 0 }, all, 2));
	assert_false(allot_grant(&d, "b", (struct amount){ 496, 0 }, all, 2));
	allot_apply(&own, &d, 3, "a");
	assert_false(allot_say(&own, "a", (struct amount){ 10, 1 }, none, all, &s));
}

static void one_that_starts_anew_grows_when_the_document_names_it(void **unused)
{
	struct amount none = { 0 }, may;
	struct allot_own own = { .incarnation = 7, .asked = 1 };
	struct allot_doc d = two();
	struct allot_said s, late = { .unit = "a", .incarnation = 1, .kinds = both, .seen = 1, .gift = 1, .capped = true };
	bool heard;

	(void)unused;
	allot_grant(&d, "a", all, all, 2);
	allot_apply(&own, &d, 2, "a");
	assert_false(allot_may(&own, all, &may));
	assert_int_equal(may.bytes, 0);
	assert_true(allot_say(&own, "a", (struct amount){ 30, 0 }, none, all, &s));
	assert_true(allot_take(&d, 3, &s, all, &heard));
	assert_false(allot_take(&d, 4, &late, all, &heard)); /* of the one before */
	assert_false(heard);
	allot_apply(&own, &d, 3, "a");
	assert_true(allot_may(&own, all, &may));
	assert_int_equal(may.bytes, 1000);
}

static void a_decider_of_an_earlier_view_is_not_heard(void **unused)
{
	struct allot_said s = { .unit = "a", .incarnation = 5, .kinds = both, .seen = 1, .term = 8, .taken = { 20, 2 } };
	struct allot_said before = {
		.unit = "a", .incarnation = 1, .kinds = both, .seen = 1, .gift = 1, .capped = true, .taken = { 10, 1 }
	};
	struct allot_doc d = two();
	bool heard;

	(void)unused;
	assert_true(allot_take(&d, 2, &s, all, &heard));
	assert_int_equal(d.unit[0].may.bytes, 20);
	before.seen = 2; /* it has looked at the store since */
	assert_false(allot_take(&d, 3, &before, all, &heard));
	assert_true(heard); /* there is nothing to be said again, and others' rows are not to wait for it */
	s.term = 9;	    /* the same member, in the next view */
	s.incarnation = 6;
	s.seen = 2;
	assert_true(allot_take(&d, 3, &s, all, &heard));
}

static void what_can_not_be_had_is_not_said_in_full(void **unused)
{
	struct amount much = { (int64_t)100 << 40, 100 }, none = { 0 };
	struct allot_own own = { .incarnation = 5 };
	struct allot_said s;

	(void)unused;
	for (int i = 0; i < 3000; i++) {
		own.waiting = amount_sum(own.waiting, (struct amount){ much.bytes - 1, 1 });
		own.asked++;
	}
	assert_true(allot_say(&own, "a", none, none, much, &s));
	assert_int_equal(s.wants.bytes, much.bytes + 1); /* it is to be refused, not granted */
	assert_int_equal(s.wants.inodes, much.inodes + 1);
	own.waiting = (struct amount){ much.bytes, 7 };
	assert_true(allot_say(&own, "a", none, none, much, &s));
	assert_true(s.wants.bytes == much.bytes && s.wants.inodes == 7);
	assert_true(allot_say(&own, "a", none, none, (struct amount){ INT64_MAX, 0 }, &s));
	assert_true(s.wants.bytes == much.bytes && !s.wants.inodes);
}

/* Rounds are small numbers, and begin anew with each process, and go on where they were for each view. */
static void what_an_earlier_incarnation_was_answered_is_not_taken(void **unused)
{
	struct allot_own own = { .incarnation = 5, .asked = 1, .gone = 1 };
	struct amount none = { 0 };
	struct allot_said s;

	(void)unused;
	assert_true(allot_say(&own, "a", none, none, all, &s));
	allot_answered(&own, 4, s.round, 1, false);
	assert_true(!own.refused && !own.decided);
	allot_answered(&own, 5, s.round, 1, false);
	assert_true(own.refused == 1 && own.decided == 1);
}

/* More than one message holds: one after the other, of which some are lost, or not taken. What is said to be done has been, for each of them. */
static void what_is_too_much_for_a_message_goes_on_in_the_next(void **unused)
{
	enum { MANY = 1000, ROWS = 64 };
	static uint64_t looked_at[MANY]; /* what was needed last, as it was said */
	struct allot_turn turn = { .total = 0 };
	uint64_t parts = 0, needed = 0, ends = 0, done = 0;

	(void)unused;
	state = 77;
	for (int i = 0; i < 20000; i++) {
		size_t total = below(100) ? MANY : MANY - 1, at = allot_turn_begin(&turn, total), from = at;
		bool lost = !below(60), taken = below(60);
		uint64_t part;

		for (; at < total && at < from + ROWS; at++)
			looked_at[at] = lost || !taken ? looked_at[at] : turn.looked;
		part = allot_turn_end(&turn, at);
		if (!lost && allot_turn_heard(&parts, part, taken) && turn.done > done) {
			ends++;
			done = turn.done;
			for (size_t k = 0; k < MANY - 1; k++)
				assert_true(looked_at[k] >= done);
		}
		if (lost || !below(60)) /* or the answer was */
			allot_turn_fail(&turn);
		turn.looked = needed += below(3);
	}
	assert_true(ends > 200);
}

/* A set goes on without its first member, which is not asked to freeze, and may live. */
static void a_decider_that_was_left_out_says_nothing_once_it_sees_the_next_one(void **unused)
{
	struct allot_own own = { .incarnation = 5, .term = 8, .asked = 1 };
	struct amount none = { 0 }, may;
	struct allot_doc d = two();
	struct allot_said s;

	(void)unused;
	allot_apply(&own, &d, 1, "a");
	allot_give(&own, none, none, all, (struct amount){ 1, 1 });
	assert_true(own.is_needed); /* it is to be taken up */
	d.unit[0].term = 9;
	allot_apply(&own, &d, 2, "a");
	assert_false(own.is_needed || allot_may(&own, all, &may) || allot_say(&own, "a", none, none, all, &s));
	allot_give(&own, none, none, all, (struct amount){ 1, 1 });
	assert_false(own.is_needed);
	d.unit[0].term = 3; /* of a set that came in the place of that one */
	allot_apply(&own, &d, 3, "a");
	assert_true(allot_say(&own, "a", none, none, all, &s));
	allot_decides(&own, 6, 10);
	allot_apply(&own, &d, 4, "a");
	assert_true(allot_say(&own, "a", none, none, all, &s));
}

/* A set's view may change, or a server start anew, with nothing to grow there since. */
static void who_is_not_taken_up_gives_back_what_is_more_than_a_lower_limit(void **unused)
{
	struct amount none = { 0 }, lower = { 500, 50 };
	struct allot_own own = { .incarnation = 7 };
	struct allot_doc d = two();
	struct allot_said s;
	bool heard;

	(void)unused;
	allot_grant(&d, "a", all, all, 2);
	allot_apply(&own, &d, 2, "a");
	allot_shrink(&own, none, all);
	assert_false(allot_say(&own, "a", none, none, all, &s)); /* there is nothing to give back */
	allot_shrink(&own, none, lower);
	assert_true(allot_say(&own, "a", none, none, lower, &s));
	assert_true(allot_take(&d, 3, &s, lower, &heard));
	allot_apply(&own, &d, 3, "a");
	allot_shrink(&own, none, lower);
	assert_true(allot_say(&own, "a", none, none, lower, &s));
	assert_true(allot_take(&d, 4, &s, lower, &heard));
	assert_int_equal(allot_total(&d).bytes, 0);
}

/* It has inodes limited as before, grows in bytes as it likes, and says nothing of these. */
static void who_does_not_know_yet_what_is_limited_is_not_heard(void **unused)
{
	struct amount inodes = { 0, 100 }, none = { 0 };
	struct allot_own own = { .incarnation = 7, .gone = 5, .asked = 1 };
	struct allot_said said[2] = { { .unit = "b", .incarnation = 2, .gone = 5, .kinds = both } };
	struct allot_doc d = { .units = 0 };
	bool heard;

	(void)unused;
	assert_true(allot_say(&own, "a", (struct amount){ 600, 6 }, none, inodes, &said[1]));
	assert_false(allot_begin(&d, 5, said, 2, all));
	assert_true(allot_say(&own, "a", (struct amount){ 600, 6 }, none, all, &said[1]));
	assert_true(allot_begin(&d, 5, said, 2, all));
	assert_int_equal(d.unit[1].may.bytes, 600);
	allot_apply(&own, &d, 6, "a");
	own.asked++;
	assert_true(allot_say(&own, "a", (struct amount){ 700, 7 }, none, inodes, &said[1]));
	assert_false(allot_take(&d, 7, &said[1], all, &heard));
	assert_false(heard);
}

const struct CMUnitTest steps[] = {
	cmocka_unit_test(a_document_is_printed_and_read),
	cmocka_unit_test(what_was_given_up_is_not_enforced_before_and_not_twice),
	cmocka_unit_test(one_that_starts_anew_grows_when_the_document_names_it),
	cmocka_unit_test(a_decider_of_an_earlier_view_is_not_heard),
	cmocka_unit_test(a_decider_that_was_left_out_says_nothing_once_it_sees_the_next_one),
	cmocka_unit_test(what_can_not_be_had_is_not_said_in_full),
	cmocka_unit_test(what_an_earlier_incarnation_was_answered_is_not_taken),
	cmocka_unit_test(what_is_too_much_for_a_message_goes_on_in_the_next),
	cmocka_unit_test(who_does_not_know_yet_what_is_limited_is_not_heard),
	cmocka_unit_test(who_is_not_taken_up_gives_back_what_is_more_than_a_lower_limit),
};
const unsigned steps_count = sizeof(steps) / sizeof(steps[0]);
