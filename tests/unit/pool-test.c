/* SPDX-License-Identifier: Apache-2.0 */
/* Ledgers of one volume's bricks in one process: a limit is for all of them together, whoever claims at which. */
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "usage.h"

enum { BRICKS = 4, BASE = 65536, THREADS = 8, LIMIT_UNITS = 10007, INODES = 1000003, KEPT = 1 << 20 };
#define UNIT                                                                                                                   \
	(struct amount)                                                                                                        \
	{                                                                                                                      \
		CHARGE_UNIT, 1                                                                                                 \
	}

static char dir[64];
static struct ledger ledger[BRICKS];
static uint32_t row[BRICKS];

static void give(struct ledger *l, int64_t bytes, int64_t inodes)
{
	struct problem p = { "" };
	struct ranges r;
	char text[128];

	snprintf(text, sizeof(text), "globex 131072 65536, acme %d 65536 %lld %lld", BASE, (long long)bytes, (long long)inodes);
	assert_int_equal(ranges_parse(text, NULL, &r, &p), 0);
	assert_int_equal(ledger_ranges(l, &r), 0);
	ranges_free(&r);
}

static void start(unsigned i, const char *pool)
{
	struct problem p = { "" };
	char path[128];
	bool owed;

	ledger[i] = (struct ledger){ .fd = -1 };
	snprintf(path, sizeof(path), "%s/%u", dir, i);
	if (ledger_open(&ledger[i], path, false, &owed, &p))
		fail_msg("%s", p.text);
	give(&ledger[i], (int64_t)LIMIT_UNITS * CHARGE_UNIT, INODES);
	row[i] = ledger_row(&ledger[i], BASE);
	if (*pool)
		assert_int_equal(pool_join(&ledger[i], pool, BRICKS), 0);
}

static void stop(unsigned i)
{
	char path[128];

	pool_leave(&ledger[i]);
	ledger_close(&ledger[i], true);
	snprintf(path, sizeof(path), "%s/%u", dir, i);
	unlink(path);
}

static void with_bricks(void (*fn)(void))
{
	test_directory(dir, sizeof(dir), "pool-test");
	for (unsigned i = 0; i < BRICKS; i++)
		start(i, "one");
	fn();
	for (unsigned i = 0; i < BRICKS; i++)
		stop(i);
	rmdir(dir);
}

/* ---- races ---- */

static int64_t claimed[THREADS];

/* Half of what is claimed is charged, and its claim ends, as when the change is done. */
static void *claims(void *arg)
{
	size_t number = (int64_t *)arg - claimed;
	unsigned i = (unsigned)number % BRICKS;
	struct key key = { number + 1, 1 };
	struct entry was = { row[i], { 0 }, false }, is = was;

	while (!ledger_claim(&ledger[i], row[i], UNIT, true, LIMITS_ALONE)) {
		claimed[number]++;
		if (claimed[number] % 2)
			continue;
		is.amount = (struct amount){ was.amount.bytes + UNIT.bytes, was.amount.inodes + UNIT.inodes };
		ledger_move(&ledger[i], NO_NOTE, &key, &was, &is);
		ledger_unclaim(&ledger[i], row[i], UNIT);
		was = is;
	}
	return NULL;
}

static void race(void)
{
	pthread_t thread[THREADS];
	int64_t sum = 0;

	memset(claimed, 0, sizeof(claimed));
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, claims, &claimed[i]), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < THREADS; i++)
		sum += claimed[i];
	assert_int_equal(sum, LIMIT_UNITS);
	for (unsigned i = 0; i < BRICKS; i++)
		assert_int_equal(ledger_claim(&ledger[i], row[i], UNIT, true, LIMITS_ALONE), -EDQUOT);
	assert_int_equal(ledger_claim(&ledger[0], ledger_row(&ledger[0], 131072), UNIT, true, LIMITS_ALONE),
			 0); /* who has no limit */
}

static void who_races_gets_the_limit_to_the_last_unit_and_no_more(void **state)
{
	(void)state;
	with_bricks(race);
}

static void kept(void)
{
	struct amount all = { (int64_t)LIMIT_UNITS * CHARGE_UNIT - KEPT, 1 };

	assert_int_equal(ledger_claim(&ledger[1], row[1], (struct amount){ all.bytes + 1, 1 }, false, LIMITS_ALONE), -EDQUOT);
	assert_int_equal(ledger_claim(&ledger[1], row[1], all, false, LIMITS_ALONE), 0);
	assert_int_equal(ledger_claim(&ledger[2], row[2], UNIT, false, LIMITS_ALONE), -EDQUOT);
	for (int i = 0; i < KEPT / CHARGE_UNIT; i++)
		assert_int_equal(ledger_claim(&ledger[2], row[2], UNIT, true, LIMITS_ALONE), 0);
	assert_int_equal(ledger_claim(&ledger[2], row[2], UNIT, true, LIMITS_ALONE), -EDQUOT);
}

static void what_is_kept_free_is_for_putting_aside(void **state)
{
	(void)state;
	with_bricks(kept);
}

/* ---- a brick that is not there ---- */

static void missing(void)
{
	assert_int_equal(ledger_claim(&ledger[3], row[3], (struct amount){ (int64_t)LIMIT_UNITS * CHARGE_UNIT, 1 }, true,
				      LIMITS_ALONE),
			 0);
	stop(1);
	assert_int_equal(ledger_claim(&ledger[0], row[0], UNIT, true, LIMITS_ALONE), -EAGAIN);
	assert_int_equal(ledger_claim(&ledger[0], ledger_row(&ledger[0], 131072), UNIT, true, LIMITS_ALONE), 0);
	start(1, "other"); /* of another volume */
	assert_int_equal(ledger_claim(&ledger[0], row[0], UNIT, true, LIMITS_ALONE), -EAGAIN);
	stop(1);
	start(1, "one");
	assert_int_equal(ledger_claim(&ledger[0], row[0], UNIT, true, LIMITS_ALONE), -EDQUOT);
	ledger_unclaim(&ledger[3], row[3], UNIT);
	assert_int_equal(ledger_claim(&ledger[1], row[1], UNIT, true, LIMITS_ALONE), 0);
	assert_int_equal(ledger_claim(&ledger[0], row[0], UNIT, true, LIMITS_ALONE), -EDQUOT);
}

static void nothing_grows_to_a_limit_while_a_brick_is_missing(void **state)
{
	(void)state;
	with_bricks(missing);
}

/* ---- df ---- */

static void shares(void)
{
	struct amount limit, left, usable, limits = { 0 }, lefts = { 0 }, usables = { 0 };

	assert_int_equal(ledger_claim(&ledger[2], row[2], (struct amount){ 0, 10 }, true, LIMITS_ALONE), 0);
	ledger_move(&ledger[2], NO_NOTE, &(struct key){ 1, 1 }, &(struct entry){ row[2], { 0 }, false },
		    &(struct entry){ row[2], { 5 * CHARGE_UNIT, 10 }, false });
	ledger_unclaim(&ledger[2], row[2], (struct amount){ 0, 10 });
	for (unsigned i = 0; i < BRICKS; i++) {
		assert_true(ledger_left(&ledger[i], BASE + 7, &limit, &left, &usable));
		limits = (struct amount){ limits.bytes + limit.bytes, limits.inodes + limit.inodes };
		lefts = (struct amount){ lefts.bytes + left.bytes, lefts.inodes + left.inodes };
		usables = (struct amount){ usables.bytes + usable.bytes, usables.inodes + usable.inodes };
	}
	assert_int_equal(limits.bytes, (int64_t)LIMIT_UNITS * CHARGE_UNIT);
	assert_int_equal(limits.inodes, INODES);
	assert_int_equal(lefts.bytes, (int64_t)(LIMIT_UNITS - 5) * CHARGE_UNIT);
	assert_int_equal(lefts.inodes, INODES - 10);
	assert_int_equal(usables.bytes, lefts.bytes - KEPT);
	assert_int_equal(usables.inodes, lefts.inodes - 64);
	for (unsigned i = 0; i < BRICKS; i++)
		give(&ledger[i], 2, 0); /* less than there are bricks, and less than is used */
	for (unsigned i = 0; i < BRICKS; i++) {
		assert_true(ledger_left(&ledger[i], BASE, &limit, &left, &usable));
		assert_int_equal(limit.bytes, i ? 1 : 2);
		assert_int_equal(left.bytes, 0);
		assert_int_equal(limit.inodes, 0);
	}
	assert_false(ledger_left(&ledger[0], 131072, &limit, &left, &usable));
}

static void the_shares_of_the_bricks_are_the_limit_together(void **state)
{
	(void)state;
	with_bricks(shares);
}

/* ---- allotments ---- */

enum { ALLOTTED_UNITS = 1000 };

static void allot(struct allot_own *own, struct amount taken, struct amount keep, struct amount limit, void *arg)
{
	struct allot_doc d = { .units = 2 };

	(void)taken, (void)arg;
	assert_int_equal(limit.bytes, (int64_t)LIMIT_UNITS * CHARGE_UNIT);
	assert_int_equal(keep.bytes, KEPT / 2); /* the other server keeps as much */
	d.unit[0] = (struct allot_unit){ .name = "other", .incarnation = 1, .may = { 5 * CHARGE_UNIT + 7, 5 } };
	d.unit[1] = (struct allot_unit){ .name = "here",
					 .incarnation = own->incarnation,
					 .may = { ALLOTTED_UNITS * CHARGE_UNIT, INODES / 2 } };
	allot_apply(own, &d, own->seen + 1, "here");
}

static void answer(struct allot_own *own, struct amount taken, struct amount keep, struct amount limit, void *arg)
{
	struct allot_said s;

	assert_int_equal(own->waiting.bytes, 2 * CHARGE_UNIT);
	assert_true(allot_say(own, "here", taken, keep, limit, &s));
	assert_int_equal(s.wants.bytes, taken.bytes + keep.bytes + 2 * CHARGE_UNIT);
	allot_answered(own, s.incarnation, s.round, 1, *(bool *)arg);
}

static void look_taken(struct allot_own *own, struct amount taken, struct amount keep, struct amount limit, void *arg)
{
	(void)own, (void)keep, (void)limit;
	*(struct amount *)arg = taken;
}

static void within_allotment(void)
{
	struct amount more = { 2 * CHARGE_UNIT, 2 }, limit, left, usable, limits = { 0 }, taken;
	bool granted = false;
	uint64_t number;

	for (unsigned i = 0; i < BRICKS; i++)
		pool_spread(&ledger[i], 2);
	assert_int_equal(ledger_claim(&ledger[0], row[0], UNIT, true, LIMITS_ALONE),
			 -EAGAIN); /* it is not known what may grow */
	assert_true(allot_with("one", BASE, allot, NULL));
	assert_false(allot_with("other", BASE, allot, NULL));
	for (int i = 0; i < ALLOTTED_UNITS; i++)
		assert_int_equal(ledger_claim(&ledger[i % BRICKS], row[i % BRICKS], UNIT,
					      i >= ALLOTTED_UNITS - KEPT / 2 / CHARGE_UNIT, LIMITS_ALONE),
				 0);
	assert_int_equal(ledger_claim(&ledger[3], row[3], UNIT, true, LIMITS_ALONE), -EAGAIN);
	assert_int_equal(ledger_claim(&ledger[3], row[3], (struct amount){ (int64_t)LIMIT_UNITS * CHARGE_UNIT, 1 }, true,
				      LIMITS_ALONE),
			 -EDQUOT);
	assert_int_equal(ledger_claim(&ledger[0], ledger_row(&ledger[0], 131072), UNIT, true, LIMITS_ALONE),
			 0); /* who has no limit */
	number = pool_wait(&ledger[1], BASE, more);
	assert_int_equal(pool_answer(&ledger[1], BASE, &number), POOL_SILENT);
	allot_with("one", BASE, answer, &granted);
	assert_int_equal(pool_answer(&ledger[1], BASE, &number), POOL_REFUSED);
	pool_unwait(&ledger[1], BASE, more);
	ledger_unclaim(&ledger[2], row[2], UNIT);
	pool_doubt(&ledger[0]);
	assert_int_equal(ledger_claim(&ledger[2], row[2], UNIT, true, LIMITS_ALONE), -EAGAIN);
	allot_with("one", BASE, allot, NULL);
	assert_int_equal(ledger_claim(&ledger[2], row[2], UNIT, true, LIMITS_ALONE), 0);
	allot_with("one", BASE, look_taken, &taken);
	assert_int_equal(taken.bytes, ALLOTTED_UNITS * CHARGE_UNIT);
	for (unsigned i = 0; i < BRICKS; i++) {
		assert_true(ledger_left(&ledger[i], BASE, &limit, &left, &usable));
		assert_int_equal(limit.bytes % CHARGE_UNIT, 0);
		limits = amount_sum(limits, limit);
	}
	/* its own, and half of what nobody has: the other server tells the rest */
	assert_in_range(limits.bytes, (ALLOTTED_UNITS + (LIMIT_UNITS - ALLOTTED_UNITS - 7) / 2) * CHARGE_UNIT,
			(ALLOTTED_UNITS + (LIMIT_UNITS - ALLOTTED_UNITS) / 2 + 1) * CHARGE_UNIT);
	for (unsigned i = 0; i < BRICKS; i++)
		pool_spread(&ledger[i], 1);
	assert_int_equal(ledger_claim(&ledger[0], row[0], UNIT, true, LIMITS_ALONE), 0);
	assert_false(allot_with("one", BASE, allot, NULL));
}

static void with_bricks_elsewhere_only_what_is_allotted_here_can_be_had(void **state)
{
	(void)state;
	with_bricks(within_allotment);
}

/* ---- readings ---- */

/* Of acme's account on the first brick; the other accounts are never busy, unless `all`. */
static struct reading read_acme(bool all)
{
	struct reading *list, acme = { .begun = 0 };
	size_t count;

	assert_int_equal(ledger_read(&ledger[0], &list, &count), 0);
	assert_int_equal(count, 3);
	for (size_t i = 0; i < count; i++)
		if (list[i].range.base == BASE)
			acme = list[i];
		else
			assert_int_equal(list[i].busy, all);
	free(list);
	return acme;
}

static void busy(void)
{
	struct charge c = { .lock = PTHREAD_MUTEX_INITIALIZER, .row = row[0], .users = 1 };
	struct note n = { .state = NOTE_OBJECT, .row = row[0], .handle_size = 8 };
	uint64_t begun = read_acme(false).begun;
	int note = ledger_note(&ledger[0], &c, &n);

	ledger_begins(&ledger[0], row[0]);
	assert_true(read_acme(false).busy);
	assert_true(read_acme(false).begun != begun);
	c.users = 0;
	begun = read_acme(false).begun;
	assert_false(read_acme(false).busy);
	assert_true(read_acme(false).begun == begun);
	pthread_mutex_lock(&c.lock); /* who holds it is about to begin, or to end */
	assert_true(read_acme(false).busy);
	pthread_mutex_unlock(&c.lock);
	ledger_unnote(&ledger[0], note);
	ledger_unnoted(&ledger[0], 1);
	assert_true(read_acme(true).busy);
	ledger_unnoted(&ledger[0], -1);
	assert_false(read_acme(false).busy);
	ledger_move(&ledger[0], NO_NOTE, &(struct key){ 1, 1 }, &(struct entry){ 0, { 0 }, false },
		    &(struct entry){ row[0], { CHARGE_UNIT, 1 }, false });
	assert_true(read_acme(false).begun != begun); /* it got what was another's */
	assert_int_equal(read_acme(false).amount.bytes, CHARGE_UNIT);
}

static void a_reading_tells_what_is_under_way_and_what_has_begun(void **state)
{
	(void)state;
	with_bricks(busy);
}

/* ---- members of a replica set ---- */

static void other_member(void)
{
	struct ledger *l = &ledger[0];
	int64_t limit = (int64_t)LIMIT_UNITS * CHARGE_UNIT, near = limit / 16;

	pool_leave(l);
	l->near = CHARGE_UNIT; /* a sixteenth is more */
	assert_int_equal(ledger_claim(l, row[0], (struct amount){ limit - near + 1, 1 }, false, LIMITS_ASK), -EASKFIRST);
	assert_int_equal(ledger_claim(l, row[0], (struct amount){ limit - near, 1 }, false, LIMITS_ASK), 0);
	assert_int_equal(ledger_claim(l, row[0], UNIT, false, LIMITS_ASK), -EASKFIRST);
	assert_int_equal(ledger_claim(l, row[0], (struct amount){ near, 1 }, false, LIMITS_FIRST), 0);
	assert_int_equal(ledger_claim(l, row[0], UNIT, false, LIMITS_FIRST), -EDQUOT);
	assert_int_equal(ledger_claim(l, row[0], (struct amount){ near, 1 }, false, LIMITS_DECIDED), 0);
	assert_int_equal(ledger_claim(l, row[0], UNIT, false, LIMITS_DECIDED), -EDQUOT); /* whoever says so, and never asked */
}

/* What is known of the set's allotment, and, if *arg, that it is this member's that decides now. */
static void allot_set(struct allot_own *own, struct amount taken, struct amount keep, struct amount limit, void *arg)
{
	struct allot_doc d = { .units = 2 };

	(void)taken, (void)keep, (void)limit;
	d.unit[0] = (struct allot_unit){ .name = "id.0", .incarnation = 1, .may = { CHARGE_UNIT, 5 } };
	d.unit[1] = (struct allot_unit){ .name = "id.1",
					 .incarnation = *(bool *)arg ? own->incarnation : 1,
					 .may = { ALLOTTED_UNITS * CHARGE_UNIT, INODES / 2 } };
	allot_apply(own, &d, own->seen + 1, "id.1");
}

static void nothing_is_said(struct allot_own *own, struct amount taken, struct amount keep, struct amount limit, void *arg)
{
	struct allot_said s;

	(void)arg;
	assert_false(allot_say(own, "id.1", taken, keep, limit, &s));
}

static int claims_units(struct ledger *l, int64_t units, enum limits_rule rule)
{
	return ledger_claim(l, row[0], (struct amount){ units * CHARGE_UNIT, 1 }, true, rule);
}

static void decider(void)
{
	struct ledger *l = &ledger[0], *same = &ledger[1];
	bool names = false;

	pool_leave(l);
	pool_leave(same);
	l->near = CHARGE_UNIT;
	assert_int_equal(pool_join_set(l, "one", "id.1"), 0);
	assert_int_equal(pool_join_set(same, "one", "id.1"), 0); /* another member of it in this process stands by itself */
	pool_spread(l, 2);
	assert_int_equal(claims_units(l, 1, LIMITS_FIRST), -EAGAIN);
	assert_int_equal(claims_units(l, 1, LIMITS_ASK), -EASKFIRST); /* it does not know what the set may have */
	allot_with_unit("one", "id.1", false, BASE, allot_set, &names);
	assert_int_equal(claims_units(l, ALLOTTED_UNITS, LIMITS_ASK), -EASKFIRST);
	assert_int_equal(claims_units(l, ALLOTTED_UNITS * 15 / 16, LIMITS_ASK), 0);
	assert_int_equal(claims_units(l, ALLOTTED_UNITS, LIMITS_DECIDED), 0); /* the first knows what there is */
	ledger_unclaim(l, row[0], (struct amount){ (ALLOTTED_UNITS + ALLOTTED_UNITS * 15 / 16) * CHARGE_UNIT, 2 });
	pool_wait(l, BASE, UNIT);
	allot_with_unit("one", "id.1", false, BASE, nothing_is_said, NULL);
	assert_false(pool_has_decider(l));
	pool_decides(l, 7);
	assert_true(pool_has_decider(l) && !pool_has_decider(same));
	assert_int_equal(claims_units(l, 1, LIMITS_FIRST), -EAGAIN); /* the document names another one */
	names = true;
	allot_with_unit("one", "id.0", false, BASE, allot_set, &names); /* of the other set there is nobody here */
	assert_int_equal(claims_units(l, 1, LIMITS_FIRST), -EAGAIN);
	allot_with_unit("one", "id.1", false, BASE, allot_set, &names);
	assert_int_equal(claims_units(l, ALLOTTED_UNITS, LIMITS_FIRST), 0);
	assert_int_equal(claims_units(l, 1, LIMITS_FIRST), -EAGAIN);
	ledger_unclaim(l, row[0], UNIT);
	pool_decides(l, 0); /* frozen */
	assert_int_equal(claims_units(l, 1, LIMITS_FIRST), -EAGAIN);
	pool_decides(l, 8); /* once more, but others may have been named in between */
	assert_int_equal(claims_units(l, 1, LIMITS_FIRST), -EAGAIN);
	allot_with_unit("one", "id.1", false, BASE, allot_set, &names);
	assert_int_equal(claims_units(l, 1, LIMITS_FIRST), 0);
}

static void of_a_set_only_the_member_that_the_document_names_grants(void **state)
{
	(void)state;
	with_bricks(decider);
}

static void a_member_that_is_not_the_first_asks_near_a_limit_and_follows(void **state)
{
	(void)state;
	with_bricks(other_member);
}

/* ---- soft limits ---- */

enum { SOFT = 20, HARD = 60 };

static void give_soft(struct ledger *l, unsigned soft_units, unsigned grace)
{
	struct problem p = { "" };
	struct ranges r;
	char text[128];

	snprintf(text, sizeof(text), "acme %d 65536 %d %d %u %u %u", BASE, HARD * CHARGE_UNIT, HARD, soft_units * CHARGE_UNIT,
		 soft_units, grace);
	assert_int_equal(ranges_parse(text, NULL, &r, &p), 0);
	assert_int_equal(ledger_ranges(l, &r), 0);
	ranges_free(&r);
}

/* So many units more, or less, are charged at that brick. */
static void charge(unsigned i, int units)
{
	struct entry was = { row[i], { units < 0 ? -units * CHARGE_UNIT : 0, units < 0 ? -units : 0 }, false };
	struct entry is = { row[i], { units > 0 ? units * CHARGE_UNIT : 0, units > 0 ? units : 0 }, false };

	ledger_move(&ledger[i], NO_NOTE, &(struct key){ 1, i }, &was, &is);
	soft_check(&ledger[i], NULL, row[i]);
}

static unsigned logged(const char *what)
{
	char path[128], line[512];
	unsigned count = 0;
	FILE *log;

	snprintf(path, sizeof(path), "%s/log", dir);
	log = fopen(path, "r");
	assert_non_null(log);
	while (fgets(line, sizeof(line), log))
		count += strstr(line, what) != NULL;
	fclose(log);
	return count;
}

static struct over over_at_all(void)
{
	struct over first = ledger_over(&ledger[0], row[0]);

	for (unsigned i = 1; i < BRICKS; i++) {
		assert_int_equal(ledger_over(&ledger[i], row[i]).bytes, first.bytes);
		assert_int_equal(ledger_over(&ledger[i], row[i]).inodes, first.inodes);
	}
	return first;
}

static void log_here(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/log", dir);
	assert_int_equal(log_open(path), 0);
}

static void log_elsewhere(void)
{
	char path[128];

	assert_int_equal(log_open("/dev/null"), 0);
	snprintf(path, sizeof(path), "%s/log", dir);
	unlink(path);
}

static void reopen(unsigned i)
{
	struct problem p = { "" };
	char path[128];
	bool owed;

	pool_leave(&ledger[i]);
	ledger_close(&ledger[i], true);
	ledger[i] = (struct ledger){ .fd = -1 };
	snprintf(path, sizeof(path), "%s/%u", dir, i);
	assert_int_equal(ledger_open(&ledger[i], path, false, &owed, &p), 0);
	give_soft(&ledger[i], SOFT, 0);
	assert_int_equal(pool_join(&ledger[i], "one", BRICKS), 0);
	soft_check_all(&ledger[i], NULL);
}

static void crossings(void)
{
	struct over since;

	log_here();
	for (unsigned i = 0; i < BRICKS; i++)
		give_soft(&ledger[i], SOFT, 0);
	for (unsigned i = 0; i < BRICKS; i++)
		charge(i, SOFT / BRICKS);
	assert_int_equal(over_at_all().bytes, 0); /* as much as it should have is not more */
	charge(2, 1);
	since = over_at_all();
	assert_true(since.bytes && since.inodes);
	charge(3, 5);
	assert_int_equal(logged("bytes, more than its soft limit"), 1);
	assert_int_equal(logged("inodes, more than its soft limit"), 1);
	charge(3, -6);
	assert_int_equal(over_at_all().bytes, 0); /* exactly the limit: not above, not clearly below */
	charge(0, 1);
	assert_int_equal(logged("bytes, more than its soft limit"), 1);
	since = over_at_all();
	assert_true(since.bytes);
	for (unsigned i = 0; i < BRICKS; i++) { /* one after the other, as bricks do */
		reopen(i);
		assert_int_equal(over_at_all().bytes, since.bytes);
	}
	assert_int_equal(logged("bytes, more than its soft limit"), 1);
	charge(0, -3);
	assert_int_equal(logged("less than its soft limit of 81920 again"), 1);
	charge(1, 3);
	assert_int_equal(logged("bytes, more than its soft limit"), 2);
	for (unsigned i = 0; i < BRICKS; i++) {
		give_soft(&ledger[i], 0, 0);
		soft_check_all(&ledger[i], NULL);
	}
	assert_int_equal(over_at_all().bytes, 0); /* no limit, nothing above it */
	log_elsewhere();
}

static void what_is_above_a_soft_limit_is_told_once_and_survives_a_restart(void **state)
{
	(void)state;
	with_bricks(crossings);
}

static void grace(void)
{
	for (unsigned i = 0; i < BRICKS; i++)
		give_soft(&ledger[i], SOFT, 1);
	charge(0, SOFT + 1);
	while (!ledger_claim(&ledger[1], row[1], UNIT, true, LIMITS_ALONE)) /* until the second is over */
		ledger_unclaim(&ledger[1], row[1], UNIT);
	assert_int_equal(ledger_claim(&ledger[1], row[1], UNIT, true, LIMITS_ALONE), -EDQUOT);
	charge(0, -1);
	assert_int_equal(ledger_claim(&ledger[1], row[1], (struct amount){ 2 * CHARGE_UNIT, 2 }, true, LIMITS_ALONE),
			 0); /* it has what it should */
	ledger_unclaim(&ledger[1], row[1], (struct amount){ 2 * CHARGE_UNIT, 2 });
	for (unsigned i = 0; i < BRICKS; i++)
		give_soft(&ledger[i], SOFT, 3600);
	charge(3, 5);
	assert_int_equal(ledger_claim(&ledger[1], row[1], UNIT, true, LIMITS_ALONE), 0);
	ledger_unclaim(&ledger[1], row[1], UNIT);
}

static void after_the_grace_a_soft_limit_is_hard_until_there_is_less(void **state)
{
	(void)state;
	with_bricks(grace);
}

/* ---- over several servers: this one tells what it has, and does what is decided ---- */

static struct allot_pool *shared_pool;

static void take_pool(struct allot_pool *p, void *unused)
{
	(void)unused;
	shared_pool = p;
}

static void with_soft(void (*fn)(struct soft_list *, void *), void *arg)
{
	shared_pool = NULL;
	allot_each_pool(take_pool, NULL);
	assert_non_null(shared_pool);
	shared_pool->with_soft(shared_pool->pool, fn, arg);
}

static void get_said(struct soft_list *list, void *to)
{
	struct soft_own *own = soft_find(list, BASE);

	assert_non_null(own);
	if (!soft_say(own, ++own->mark, to))
		*(struct soft_said *)to = (struct soft_said){ 0 };
	soft_heard(own, UINT64_MAX);
}

static void decide(struct soft_list *list, void *doc)
{
	struct soft_own *own = soft_find(list, BASE);

	soft_apply(own, doc, 1);
	own->answered = own->asked;
	list->confirmed_ns = clock_ns();
}

static void count_known(struct soft_list *list, void *count)
{
	*(size_t *)count = list->count;
}

static void shared(void)
{
	struct soft_doc above = { .over = { 1000, 0 } }, none = { { 0 } };
	struct {
		struct amount limit, left, usable;
	} df;
	struct soft_said said;
	uint64_t number = 0;
	size_t known = 0;

	for (unsigned i = 0; i < BRICKS; i++) {
		give_soft(&ledger[i], SOFT, 3600);
		pool_spread(&ledger[i], 2);
	}
	for (unsigned i = 0; i < BRICKS; i++)
		soft_check_all(&ledger[i], NULL);
	charge(0, SOFT + 1);
	charge(1, 5);
	charge(1, -2);
	with_soft(get_said, &said);
	assert_int_equal(said.now.inodes, SOFT + 4);
	assert_int_equal(said.peak.inodes, SOFT + 6);
	assert_int_equal(over_at_all().bytes, 0);				   /* that is for who adds up all to say */
	assert_int_equal(soft_may(&ledger[0], row[0], UNIT, &number), SOFT_WAITS); /* nothing was confirmed yet */
	with_soft(decide, &none);
	assert_int_equal(soft_may(&ledger[0], row[0], UNIT, &number), SOFT_PASSES);
	with_soft(decide, &above);
	assert_int_equal(over_at_all().bytes, 1000);
	assert_int_equal(over_at_all().inodes, 0);
	number = 0;
	assert_int_equal(soft_may(&ledger[2], row[2], UNIT, &number), SOFT_WAITS);
	assert_int_equal(soft_may(&ledger[2], row[2], (struct amount){ 0, 1 }, &(uint64_t){ 0 }), SOFT_PASSES);
	with_soft(decide, &above);
	assert_int_equal(soft_may(&ledger[2], row[2], UNIT, &number), SOFT_REFUSED);
	assert_true(ledger_left(&ledger[2], BASE, &df.limit, &df.left, &df.usable));
	assert_int_equal(df.left.bytes, 0);
	assert_in_range(df.limit.bytes, 1, SOFT * CHARGE_UNIT / 2); /* this server's part, and of that a brick's */
	for (unsigned i = 0; i < BRICKS; i++) {
		give_soft(&ledger[i], 0, 0);
		soft_check_all(&ledger[i], NULL);
	}
	with_soft(count_known, &known);
	assert_int_equal(known, 0);
	assert_int_equal(over_at_all().bytes, 0);
	for (unsigned i = 0; i < BRICKS; i++)
		pool_spread(&ledger[i], 1);
}

/* A member that does not decide lets itself be asked after the one that does, as soon as that may refuse. */
static void shared_of_sets(void)
{
	struct soft_doc above = { .over = { 1000, 0 } }, none = { { 0 } };
	struct ledger *l = &ledger[0];

	pool_leave(l);
	assert_int_equal(pool_join_set(l, "one", "id.1"), 0);
	give_soft(l, SOFT, 3600);
	pool_spread(l, 2);
	soft_check_all(l, NULL);
	assert_true(soft_asks(l, row[0])); /* nothing was confirmed */
	with_soft(decide, &none);
	assert_false(soft_asks(l, row[0]));
	assert_int_equal(claims_units(l, SOFT + 1, LIMITS_ASK),
			 -EASKFIRST); /* of the allotment nothing is known, which is another thing */
	with_soft(decide, &above);
	assert_true(soft_asks(l, row[0]));
	give_soft(l, SOFT, 0); /* it never becomes hard */
	assert_false(soft_asks(l, row[0]));
}

static void at_another_member_of_a_set_who_is_above_a_soft_limit_asks_first(void **state)
{
	(void)state;
	with_bricks(shared_of_sets);
}

static void over_several_servers_a_soft_limit_is_told_and_held_as_is_decided(void **state)
{
	(void)state;
	with_bricks(shared);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_races_gets_the_limit_to_the_last_unit_and_no_more),
		cmocka_unit_test(what_is_kept_free_is_for_putting_aside),
		cmocka_unit_test(nothing_grows_to_a_limit_while_a_brick_is_missing),
		cmocka_unit_test(the_shares_of_the_bricks_are_the_limit_together),
		cmocka_unit_test(with_bricks_elsewhere_only_what_is_allotted_here_can_be_had),
		cmocka_unit_test(of_a_set_only_the_member_that_the_document_names_grants),
		cmocka_unit_test(what_is_above_a_soft_limit_is_told_once_and_survives_a_restart),
		cmocka_unit_test(after_the_grace_a_soft_limit_is_hard_until_there_is_less),
		cmocka_unit_test(over_several_servers_a_soft_limit_is_told_and_held_as_is_decided),
		cmocka_unit_test(at_another_member_of_a_set_who_is_above_a_soft_limit_asks_first),
		cmocka_unit_test(a_reading_tells_what_is_under_way_and_what_has_begun),
		cmocka_unit_test(a_member_that_is_not_the_first_asks_near_a_limit_and_follows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
