/* SPDX-License-Identifier: Apache-2.0 */
/* Allotments: whatever is lost, repeated, overtaken, killed or decided by two at once, what servers let be charged is never more than the limit; and when all are up again, all that is free
 * can be had at any of them. `allot-test SEED` runs one seed. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allot.h"

enum {
	UNITS = 4,
	BAG = 64,
	VERSIONS = 20000,
	STEPS = 4000,
	RUNS = 240,
	LIMIT = 100000,
	INODES = 5000,
	KEEP = 50,
	KEEP_INODES = 2
};

static const struct amount keep = { KEEP, KEEP_INODES };
static unsigned first_seed = 1, last_seed = RUNS;
static uint64_t state;
static unsigned seed;

static unsigned below(unsigned n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned)(state >> 11) % n;
}

/* ---- the store: all that was ever committed ---- */

static struct {
	struct allot_doc doc;
	bool is;
} committed[VERSIONS];
static uint64_t version;	/* 0: there never was one */
static struct allot_doc newest; /* that was one */

struct unit {
	char name[8];
	struct allot_own own;
	struct amount taken;
	uint64_t view; /* what its copy of the store has */
};
static struct unit unit[UNITS];
static size_t units;
static struct amount limit, most;
static struct allot_said bag[BAG];
static size_t messages;
static struct allot_said began[UNITS]; /* what who decides remembers, as long as there is no document */
static bool has_begun[UNITS];
static struct {
	bool resizes, moves, anew;
} may_happen;

static struct amount random_amount(void)
{
	unsigned much = below(3) ? 400 : 20000;

	return (struct amount){ below(3) ? below(much) : 0, below(3) ? below(much / 20) : 0 };
}

/* ---- what must hold ---- */

static struct amount charged(void)
{
	struct amount sum = { 0 };

	for (size_t i = 0; i < units; i++)
		sum = amount_sum(sum, unit[i].taken);
	return sum;
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static struct amount may_be_charged(void)
{
	struct amount sum = { 0 };

	for (size_t i = 0; i < units; i++) {
		struct amount may;

		allot_may(&unit[i].own, limit, &may);
		sum = amount_sum(sum, (struct amount){ larger(may.bytes, unit[i].taken.bytes),
						       larger(may.inodes, unit[i].taken.inodes) });
	}
	return sum;
}

static void check(const char *after)
{
	struct amount sum = may_be_charged();

	if (may_happen.moves)
		return;
	if (sum.bytes > most.bytes || sum.inodes > most.inodes)
		fail_msg("seed %u, after %s: %lld bytes and %lld inodes may be charged, of %lld and %lld", seed, after,
			 (long long)sum.bytes, (long long)sum.inodes, (long long)most.bytes, (long long)most.inodes);
}

/* ---- servers ---- */

static bool fits(const struct unit *u, struct amount more)
{
	struct amount may;

	return allot_may(&u->own, limit, &may) &&
	       u->taken.bytes + more.bytes <= larger(may.bytes - KEEP, more.bytes ? 0 : INT64_MAX / 2) &&
	       u->taken.inodes + more.inodes <= larger(may.inodes - KEEP_INODES, more.inodes ? 0 : INT64_MAX / 2);
}

static bool claim(struct unit *u, struct amount more)
{
	if (fits(u, more)) {
		u->taken = amount_sum(u->taken, more);
		return true;
	}
	u->own.waiting = amount_sum(u->own.waiting, more);
	u->own.asked++;
	return false;
}

static void start(struct unit *u)
{
	u->own = (struct allot_own){ .incarnation = state | 1 };
	below(2);
}

/* Of what was committed it may have less than before, if its copy of the store has to be told again. */
static void crash(struct unit *u)
{
	start(u);
	u->view = below(2) ? u->view : below((unsigned)u->view + 1);
}

static void look(struct unit *u, bool at_all)
{
	u->view = at_all ? version : u->view + below((unsigned)(version - u->view) + 1);
	allot_apply(&u->own, committed[u->view].is ? &committed[u->view].doc : NULL, u->view, u->name);
}

static void release(struct unit *u)
{
	u->taken.bytes -= below((unsigned)u->taken.bytes + 1);
	u->taken.inodes -= below((unsigned)u->taken.inodes + 1);
}

/* ---- who decides: each message by itself, upon what it takes for the newest document ---- */

static void commit(const struct allot_doc *d, uint64_t instead_of)
{
	if (instead_of != version || version == VERSIONS - 1)
		return;
	version++;
	committed[version].doc = newest = *d;
	committed[version].is = true;
	memset(has_begun, 0, sizeof(has_begun));
}

static void begin(const struct allot_said *s, uint64_t at)
{
	struct allot_said said[UNITS];
	struct allot_doc d;
	size_t count = 0;

	for (size_t i = 0; i < units; i++) {
		if (!strcmp(unit[i].name, s->unit)) {
			began[i] = *s;
			has_begun[i] = true;
		}
		if (has_begun[i])
			said[count++] = began[i];
	}
	if (count == units && allot_begin(&d, at, said, count))
		commit(&d, at);
}

static void need(const struct allot_said *s, bool all)
{
	const struct allot_doc *d = &committed[version].doc;
	const struct allot_unit *u = committed[version].is ? allot_find((struct allot_doc *)d, s->unit) : NULL;
	struct amount total = allot_total(d), lacks = { 1, 1 };

	if (u)
		lacks = (struct amount){ larger(0, s->wants.bytes - u->may.bytes) + larger(0, total.bytes - limit.bytes),
					 larger(0, s->wants.inodes - u->may.inodes) + larger(0, total.inodes - limit.inodes) };
	for (size_t i = 0; i < units; i++)
		if (strcmp(unit[i].name, s->unit) && (all || below(4)))
			allot_give(&unit[i].own, unit[i].taken, keep, limit, lacks);
}

static void decide(const struct allot_said *s, bool old)
{
	uint64_t at = old ? version - below(version < 3 ? (unsigned)version + 1 : 3) : version;
	struct allot_doc d = committed[at].doc;
	bool heard, changed;

	if (!committed[at].is) {
		begin(s, at);
		return;
	}
	changed = allot_take(&d, at + 1, s, &heard);
	if (s->round && heard && allot_find(&d, s->unit)->incarnation == s->incarnation)
		changed |= allot_grant(&d, s->unit, s->wants, limit, units);
	if (changed)
		commit(&d, at);
}

/* ---- what happens ---- */

static void say(struct unit *u)
{
	struct allot_said s;

	allot_shrink(&u->own, u->taken, limit);
	if (allot_say(&u->own, u->name, u->taken, keep, limit, &s))
		bag[messages < BAG ? messages++ : below(BAG)] = s;
}

static void deliver(void)
{
	size_t which = messages ? below((unsigned)messages) : 0;
	struct allot_said s;

	if (!messages)
		return;
	s = bag[which];
	if (below(3)) /* else it will come again */
		bag[which] = bag[--messages];
	if (!below(10)) /* it is lost */
		return;
	decide(&s, !below(8));
	if (s.round && below(2))
		need(&s, false);
}

static void resize(void)
{
	limit = (struct amount){ LIMIT / 2 + below(LIMIT), INODES / 2 + below(INODES) };
	most = (struct amount){ larger(most.bytes, limit.bytes), larger(most.inodes, limit.inodes) };
}

/* As by a limit that was lifted, and set again: who has heard of it has grown meanwhile, and begins anew; others go on by what there was before. From then on it is no more than that. */
static void forget(void)
{
	struct amount sum = { 0 };

	if (!version || version == VERSIONS - 1)
		return;
	version++;
	committed[version].is = false;
	for (size_t i = 0; i < units; i++) {
		struct allot_unit *u = allot_find(&newest, unit[i].name);

		if (below(2)) { /* it may still hear of what was before, and have all of that */
			sum = amount_sum(sum, (struct amount){ larger(u ? u->may.bytes : 0, unit[i].taken.bytes),
							       larger(u ? u->may.inodes : 0, unit[i].taken.inodes) });
			continue;
		}
		start(&unit[i]);
		look(&unit[i], true);
		unit[i].taken = amount_sum(unit[i].taken, random_amount());
		sum = amount_sum(sum, unit[i].taken);
	}
	most = (struct amount){ larger(limit.bytes, sum.bytes), larger(limit.inodes, sum.inodes) };
}

static const char *step(void)
{
	struct unit *u = &unit[below((unsigned)units)];

	switch (below(16)) {
	case 0:
	case 1:
	case 2:
		claim(u, random_amount());
		return "a claim";
	case 3:
		if (!below(8)) /* it is full mostly */
			release(u);
		return "a removal";
	case 4:
		if (!below(6))
			crash(u);
		return "a crash";
	case 5:
	case 6:
	case 7:
		say(u);
		return "a message sent";
	case 8:
		if (may_happen.resizes && !below(40))
			resize();
		return "another limit";
	case 9:
		if (may_happen.moves && !below(10))
			u->taken = amount_sum(u->taken, random_amount());
		return "a move";
	case 10:
		if (may_happen.anew && !below(40))
			forget();
		return "a document that went";
	case 11:
	case 12:
		look(u, false);
		return "a look at the store";
	default:
		deliver();
		return "a message heard";
	}
}

/* All are up, and hear each other. */
static void settle(void)
{
	for (int turn = 0; turn < 12; turn++)
		for (size_t i = 0; i < units; i++) {
			struct allot_said s;

			look(&unit[i], true);
			allot_shrink(&unit[i].own, unit[i].taken, limit);
			if (!allot_say(&unit[i].own, unit[i].name, unit[i].taken, keep, limit, &s))
				continue;
			decide(&s, false);
			if (s.round)
				need(&s, true);
		}
}

static void all_can_be_had(void)
{
	struct amount sum, rest;

	for (size_t i = 0; i < units; i++) {
		unit[i].own.waiting = (struct amount){ 0 };
		unit[i].own.decided = unit[i].own.sent = unit[i].own.asked;
		release(&unit[i]);
	}
	settle();
	for (size_t i = 0; i < units; i++) {
		sum = charged();
		rest = (struct amount){ limit.bytes - sum.bytes - (int64_t)units * KEEP,
					limit.inodes - sum.inodes - (int64_t)units * KEEP_INODES };
		if (rest.bytes <= 0 || rest.inodes <= 0)
			return;
		if (!claim(&unit[i], rest)) {
			settle();
			look(&unit[i], true);
			if (!fits(&unit[i], rest))
				fail_msg(
					"seed %u: all are up, and unit %zu can't have %lld bytes and %lld inodes, which are free",
					seed, i, (long long)rest.bytes, (long long)rest.inodes);
			unit[i].taken = amount_sum(unit[i].taken, rest);
			unit[i].own.waiting = (struct amount){ 0 };
			unit[i].own.decided = unit[i].own.sent = unit[i].own.asked;
		}
		check("all was had");
		unit[i].taken = (struct amount){ unit[i].taken.bytes - rest.bytes, unit[i].taken.inodes - rest.inodes };
		settle();
	}
}

static void run(void)
{
	state = seed * 0x9e3779b97f4a7c15u | 1;
	version = 0;
	messages = 0;
	newest.units = 0;
	memset(committed, 0, sizeof(committed[0]));
	memset(has_begun, 0, sizeof(has_begun));
	limit = most = (struct amount){ LIMIT, INODES };
	units = 2 + below(UNITS - 1);
	may_happen.resizes = seed % 4 == 1;
	may_happen.moves = seed % 4 == 2;
	may_happen.anew = seed % 4 == 3;
	for (size_t i = 0; i < units; i++) {
		unit[i] = (struct unit){ .view = 0 };
		snprintf(unit[i].name, sizeof(unit[i].name), "s%zu", i);
		start(&unit[i]);
	}
	for (int i = 0; i < STEPS; i++)
		check(step());
	if (version < 20)
		fail_msg("seed %u: only %d documents", seed, (int)version);
	all_can_be_had();
}

static void nothing_is_allotted_twice_and_all_that_is_free_can_be_had(void **unused)
{
	(void)unused;
	print_message("seeds %u to %u\n", first_seed, last_seed);
	for (seed = first_seed; seed <= last_seed; seed++)
		run();
}

/* ---- the steps, one by one ---- */

static struct allot_doc two(void)
{
	struct allot_said said[2] = { { .unit = "a", .incarnation = 1, .taken = { 10, 1 } },
				      { .unit = "b", .incarnation = 2 } };
	struct allot_doc d;

	assert_true(allot_begin(&d, 0, said, 2));
	return d;
}

static void a_document_is_printed_and_read(void **unused)
{
	static const char *const wrong[] = { "a 1 1 0 5",
					     "a 1 1 0 -5 1",
					     "a 1 1 0 5 1 7",
					     "a 1 1 0 5 1\na 2 1 0 5 1",
					     "a 1 1 0 9e9 1",
					     "a 1 1 0 9223372036854775807 1",
					     "a" };
	static char text[ALLOT_TEXT_MAX], again[ALLOT_TEXT_MAX];
	static struct allot_doc d, read;
	size_t size;

	(void)unused;
	d = two();
	size = allot_print(&d, text);
	assert_int_equal(allot_parse(text, size, &read), 0);
	assert_int_equal(allot_print(&read, again), size);
	assert_string_equal(text, again);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_int_not_equal(allot_parse(wrong[i], strlen(wrong[i]), &read), 0);
}

static void what_was_given_up_is_not_enforced_before_and_not_twice(void **unused)
{
	struct amount all = { 1000, 100 }, none = { 0 }, may;
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
	assert_true(allot_take(&d, 2, &s, &heard));
	assert_false(allot_take(&d, 3, &s, &heard)); /* once more */
	assert_true(allot_grant(&d, "b", (struct amount){ 495, 0 }, all, 2));
	assert_false(allot_grant(&d, "b", (struct amount){ 496, 0 }, all, 2));
	allot_apply(&own, &d, 3, "a");
	assert_false(allot_say(&own, "a", (struct amount){ 10, 1 }, none, all, &s));
}

static void one_that_starts_anew_grows_when_the_document_names_it(void **unused)
{
	struct amount all = { 1000, 0 }, none = { 0 }, may;
	struct allot_own own = { .incarnation = 7, .asked = 1 };
	struct allot_doc d = two();
	struct allot_said s, late = { .unit = "a", .incarnation = 1, .seen = 1, .gift = 1, .capped = true };
	bool heard;

	(void)unused;
	allot_grant(&d, "a", all, all, 2);
	allot_apply(&own, &d, 2, "a");
	assert_false(allot_may(&own, all, &may));
	assert_int_equal(may.bytes, 0);
	assert_true(allot_say(&own, "a", (struct amount){ 30, 0 }, none, all, &s));
	assert_true(allot_take(&d, 3, &s, &heard));
	assert_false(allot_take(&d, 4, &late, &heard)); /* of the one before */
	assert_false(heard);
	allot_apply(&own, &d, 3, "a");
	assert_true(allot_may(&own, all, &may));
	assert_int_equal(may.bytes, 1000);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_document_is_printed_and_read),
		cmocka_unit_test(what_was_given_up_is_not_enforced_before_and_not_twice),
		cmocka_unit_test(one_that_starts_anew_grows_when_the_document_names_it),
		cmocka_unit_test(nothing_is_allotted_twice_and_all_that_is_free_can_be_had),
	};

	if (argc > 1)
		first_seed = last_seed = (unsigned)strtoul(argv[1], NULL, 10);
	if (argc > 2)
		last_seed = (unsigned)strtoul(argv[2], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
