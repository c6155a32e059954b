/* SPDX-License-Identifier: Apache-2.0 */
/* When the end of a certificate is told: early enough, not all its life, once a day, and at once when it has come. */
#include "ending.h"

#include <string.h>

#include "path.h"
#include "test.h"

enum { DAY = ENDING_DAY_S, HOUR = 3600 };
#define NOW INT64_C(1800000000) /* 2027-01-15 08:00 UTC */

static bool near_after(int64_t life, int64_t age)
{
	return ending_is_near(NOW - age, NOW - age + life, NOW);
}

static void a_year_is_told_of_in_its_last_month(void **state)
{
	(void)state;
	assert_false(near_after(365 * DAY, 0));
	assert_false(near_after(365 * DAY, 335 * DAY - 1));
	assert_true(near_after(365 * DAY, 335 * DAY));
	assert_true(near_after(365 * DAY, 400 * DAY));
}

static void what_is_short_lived_is_told_of_in_its_second_half(void **state)
{
	(void)state;
	assert_false(near_after(20 * DAY, 10 * DAY - 1));
	assert_true(near_after(20 * DAY, 10 * DAY));
	assert_false(near_after(2 * HOUR, HOUR - 1));
	assert_true(near_after(2 * HOUR, HOUR));
}

static void once_a_day_and_at_once_when_it_has_ended(void **state)
{
	struct ending_told told = { 0 };
	int64_t begins = NOW - 360 * DAY, ends = NOW + 5 * DAY;
	unsigned count = 0;

	(void)state;
	for (int64_t now = NOW - 40 * DAY; now < ends; now += 60)
		count += ending_is_due(&told, begins, ends, now);
	assert_int_equal(count, 30);
	assert_true(ending_is_due(&told, begins, ends, ends + 1));
	assert_false(ending_is_due(&told, begins, ends, ends + 60));
	assert_true(ending_is_due(&told, begins, ends, ends + 1 + DAY));
}

/* One that lives for 12 hours, and whose successor comes after 9. */
static void a_renewed_one_has_no_line_of_its_own(void **state)
{
	struct ending_told told = { 0 };
	unsigned count = 0;

	(void)state;
	for (int64_t at = 0; at < 10 * DAY; at += 60) {
		int64_t begins = NOW + at - at % (9 * HOUR);

		count += ending_is_due(&told, begins, begins + 12 * HOUR, NOW + at);
	}
	assert_in_range(count, 5, 10);
}

static void a_clock_that_was_set_back_makes_no_silence(void **state)
{
	struct ending_told told = { 0 };

	(void)state;
	assert_true(ending_is_due(&told, NOW - 300 * DAY, NOW + 10 * DAY, NOW));
	assert_true(ending_is_due(&told, NOW - 300 * DAY, NOW + 10 * DAY, NOW - 9 * DAY));
	assert_false(ending_is_due(&told, NOW - 300 * DAY, NOW + 10 * DAY, NOW - 9 * DAY + 60));
}

static void says(const char *role, int64_t left, bool near, const char *begin, const char *part)
{
	json_t *one = json_pack("{s:s, s:s, s:I, s:I, s:b}", "role", role, "file", "/f.pem", "begins", (json_int_t)0, "ends",
				(json_int_t)(NOW + left), "near", near);
	cleanup_path char *text = ending_sentence(one, NOW);

	assert_memory_equal(text, begin, strlen(begin));
	if (part)
		assert_non_null(strstr(text, part));
	else
		assert_string_equal(text, begin);
	json_decref(one);
}

static void sentences_hold_what_is_left_and_what_to_do(void **state)
{
	(void)state;
	says("own", 100 * DAY, false, "the certificate /f.pem ends on 2027-04-25 08:00 UTC, in 100 days", NULL);
	says("own", 2 * DAY, true, "the certificate /f.pem ends on 2027-01-17 08:00 UTC, in 2 days: ", "without a restart");
	says("own", 2 * DAY - 1, true, "the certificate /f.pem ends on 2027-01-17 07:59 UTC, in 47 hours: ", "issued");
	says("own", 119 * 60, true, "the certificate /f.pem ends on 2027-01-15 09:59 UTC, in 119 minutes: ", "issued");
	says("own", -DAY, true, "the certificate /f.pem has ended on 2027-01-14 08:00 UTC, 24 hours ago: ", "is refused");
	says("authority", DAY * 9, true, "the authority /f.pem ends on 2027-01-24 08:00 UTC, in 9 days, and with it each",
	     "before");
	says("authority", -DAY * 9, true, "the authority /f.pem has ended on 2027-01-06 08:00 UTC, 9 days ago: ", "another");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_year_is_told_of_in_its_last_month),
		cmocka_unit_test(what_is_short_lived_is_told_of_in_its_second_half),
		cmocka_unit_test(once_a_day_and_at_once_when_it_has_ended),
		cmocka_unit_test(a_renewed_one_has_no_line_of_its_own),
		cmocka_unit_test(a_clock_that_was_set_back_makes_no_silence),
		cmocka_unit_test(sentences_hold_what_is_left_and_what_to_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
