/* SPDX-License-Identifier: Apache-2.0 */
/* How often a view is made because a member lacks a directory. */
#include "test.h"

#include "lacking-limit.h"

#define SECOND 1000000000ull

static struct gfid numbered(unsigned number)
{
	struct gfid g = { { (uint8_t)(number >> 8), (uint8_t)number, 1 } };

	return g;
}

static void a_directory_is_made_equal_once_in_a_minute(void **s)
{
	struct lacking_limit l = { 0 };
	struct gfid one = numbered(1), other = numbered(2);
	uint64_t now = 100 * SECOND;

	(void)s;
	assert_true(lacking_may_take(&l, &one, now));
	lacking_take(&l, &one, now);
	assert_false(lacking_may_take(&l, &one, now + 59 * SECOND));
	assert_true(lacking_may_take(&l, &other, now));
	assert_true(lacking_may_take(&l, &one, now + 60 * SECOND));
}

/* Or who makes directories enough would have one made equal again and again. */
static void where_there_are_many_none_is_forgotten_before_that(void **s)
{
	struct lacking_limit l = { 0 };
	uint64_t now = 100 * SECOND;
	struct gfid one;

	(void)s;
	for (unsigned i = 0; i < LACKS_KEPT; i++) {
		one = numbered(i);
		assert_true(lacking_may_take(&l, &one, now));
		lacking_take(&l, &one, now);
	}
	one = numbered(LACKS_KEPT);
	assert_false(lacking_may_take(&l, &one, now + 59 * SECOND));
	assert_true(lacking_may_take(&l, &one, now + 60 * SECOND));
}

static void views_come_the_later_the_more_there_are(void **s)
{
	static const uint64_t pauses[] = { 1, 2, 4, 8, 16, 16 };
	struct lacking_limit l = { 0 };
	uint64_t now = 100 * SECOND;

	(void)s;
	assert_true(lacking_may_view(&l, now));
	for (unsigned i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++) {
		lacking_view(&l, now);
		assert_false(lacking_may_view(&l, now + pauses[i] * SECOND - 1));
		now += pauses[i] * SECOND;
		assert_true(lacking_may_view(&l, now));
	}
}

static void after_a_quiet_minute_they_come_at_once_again(void **s)
{
	struct lacking_limit l = { 0 };
	uint64_t now = 100 * SECOND;

	(void)s;
	for (unsigned i = 0; i < 5; i++)
		lacking_view(&l, now);
	assert_false(lacking_may_view(&l, now + 15 * SECOND));
	now += 16 * SECOND + 60 * SECOND;
	lacking_view(&l, now);
	assert_true(lacking_may_view(&l, now + SECOND));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_directory_is_made_equal_once_in_a_minute),
		cmocka_unit_test(where_there_are_many_none_is_forgotten_before_that),
		cmocka_unit_test(views_come_the_later_the_more_there_are),
		cmocka_unit_test(after_a_quiet_minute_they_come_at_once_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
