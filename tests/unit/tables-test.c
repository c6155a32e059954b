/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of tenants and accounts: one that was changed, row by row, is the one that is read from the beginning. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud.h"
#include "test.h"
#include "usage.h"

enum { MOST = 300, STEPS = 1500, ROW_TEXT = 160 };

struct one {
	unsigned name, id, base, state;
	uint64_t bytes;
};
static struct one list[MOST];
static unsigned count;

static void begin(void **state)
{
	const char *given = getenv("TEST_SEED");
	unsigned seed = given ? (unsigned)atoi(given) : (unsigned)time(NULL);

	(void)state;
	print_message("TEST_SEED=%u\n", seed);
	srand(seed);
	count = 0;
}

/* Now and then a name, an id or user ids that another one has. */
static struct one any(unsigned number)
{
	unsigned other = rand() % 50 ? number : (unsigned)rand() % MOST;

	return (struct one){ number == other || rand() % 3 ? number : other, number == other || rand() % 3 ? number : other,
			     other, (unsigned)rand() % TENANT_STATES, (uint64_t)rand() };
}

/* Some come, go or change; places are anybody's. */
static void step(void)
{
	static unsigned next;

	for (int changes = rand() % 4; changes; changes--) {
		unsigned at = count ? (unsigned)rand() % count : 0;

		switch (count ? rand() % 4 : 0) {
		case 0:
		case 1:
			if (count == MOST)
				break;
			memmove(&list[at + 1], &list[at], (count++ - at) * sizeof(*list));
			list[at] = any(next++ % (2 * MOST));
			break;
		case 2:
			memmove(&list[at], &list[at + 1], (--count - at) * sizeof(*list));
			break;
		default:
			list[at] = any(list[at].name);
		}
	}
}

static const char *tenants_text(void)
{
	static const char *const states[TENANT_STATES] = { "active", "suspended", "deleted" };
	static char text[MOST * ROW_TEXT];
	char *to = text;

	*to = '\0';
	for (unsigned i = 0; i < count; i++)
		to += sprintf(to, "%st%u 0b9f4f0e-95ce-4bb4-8f5c-%012x %u 65536 %s", i ? ", " : "", list[i].name, list[i].id,
			      65536 * (1 + list[i].base), states[list[i].state]);
	return text;
}

static const char *accounts_text(void)
{
	static char text[MOST * ROW_TEXT];
	char *to = text;

	*to = '\0';
	for (unsigned i = 0; i < count; i++)
		to += sprintf(to, "%st%u %u 65536 %llu 0", i ? ", " : "", list[i].name, 65536 * (1 + list[i].base),
			      (unsigned long long)list[i].bytes);
	return text;
}

static void are_same_tables(const struct table *a, const struct table *b)
{
	assert_int_equal(a->count, b->count);
	for (size_t i = 0; i < a->count; i++) {
		const struct tenant *s = &a->tenant[i], *t = &b->tenant[i];

		assert_string_equal(s->name, t->name);
		assert_true(gfid_equal(&s->id, &t->id) && s->base == t->base && s->count == t->count && s->state == t->state);
		assert_true(table_find_owner(a, &t->id) == s);
		assert_true(table_find(a, t->name) == s);
	}
}

static void tenants_that_are_changed_are_those_that_are_read(void **state)
{
	struct table now = { NULL };
	unsigned refused = 0;

	begin(state);
	for (int i = 0; i < STEPS; i++) {
		struct problem p = { "" }, q = { "" };
		struct table whole, changed;
		int err, expected;

		step();
		expected = table_parse(tenants_text(), NULL, &whole, &q);
		err = table_parse(tenants_text(), &now, &changed, &p);
		assert_int_equal(err, expected);
		assert_int_equal(!*p.text, !*q.text);
		if (err) { /* it stays as it was, and so does the list after a while */
			refused++;
			count = rand() % 4 ? count : 0;
			continue;
		}
		are_same_tables(&changed, &whole);
		table_free(&whole);
		table_free(&now);
		now = changed;
	}
	assert_in_range(refused, 1, STEPS - 100);
	table_free(&now);
}

static void accounts_that_are_changed_are_those_that_are_read(void **state)
{
	struct ranges now = { 0 };
	unsigned refused = 0;

	begin(state);
	for (int i = 0; i < STEPS; i++) {
		struct problem p = { "" }, q = { "" };
		struct ranges whole, changed;
		int err, expected;

		step();
		expected = ranges_parse(accounts_text(), NULL, &whole, &q);
		err = ranges_parse(accounts_text(), &now, &changed, &p);
		assert_int_equal(err, expected);
		if (err) {
			refused++;
			count = rand() % 4 ? count : 0;
			continue;
		}
		assert_int_equal(changed.count, whole.count);
		for (size_t k = 0; k < whole.count; k++) {
			const struct range *a = &changed.range[k], *b = &whole.range[k];

			assert_string_equal(a->name, b->name);
			assert_true(a->base == b->base && a->count == b->count && amounts_equal(a->limit, b->limit));
		}
		ranges_free(&whole);
		ranges_free(&now);
		now = changed;
	}
	assert_in_range(refused, 1, STEPS - 100);
	ranges_free(&now);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tenants_that_are_changed_are_those_that_are_read),
		cmocka_unit_test(accounts_that_are_changed_are_those_that_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
