/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts: who has a name, what moves when a layout changes, and bytes that lie. */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"

enum { NAMES = 20000 };

static struct gfid directory(unsigned n)
{
	return (struct gfid){ { 0xd1, [6] = 0x40, [8] = 0x80, [14] = (uint8_t)(n >> 8), [15] = (uint8_t)n } };
}

static uint64_t key(unsigned n)
{
	struct gfid d = directory(n % 7);
	char name[32];

	snprintf(name, sizeof(name), "file-%u.txt", n);
	return layout_key(&d, name);
}

static void grow(struct layout *l, unsigned from, unsigned to, uint16_t weight)
{
	struct layout_member more[LAYOUT_MEMBERS_MAX];

	for (unsigned i = from; i < to; i++)
		more[i - from] = (struct layout_member){ .id = i, .weight = weight };
	assert_int_equal(layout_grow(l, more, to - from), 0);
}

/* Members 0 to n - 1, settled. */
static struct layout wide(unsigned n)
{
	struct layout l;

	layout_single(&l, 0);
	if (n > 1) {
		grow(&l, 1, n, 1);
		layout_settle(&l);
	}
	return l;
}

/* Each name stays where it is or goes from a source to a sink. The number that move. */
static unsigned moves(const struct layout *l)
{
	unsigned moved = 0;

	for (unsigned i = 0; i < NAMES; i++) {
		const struct layout_member *was = layout_owner(l, key(i)), *is = layout_owner_next(l, key(i));

		if (was == is)
			continue;
		assert_true(layout_is_source(l, was));
		assert_false(layout_is_source(l, is));
		moved++;
	}
	return moved;
}

static void about(unsigned count, double fraction, double tolerance)
{
	double found = (double)count / NAMES;

	if (found < fraction - tolerance || found > fraction + tolerance)
		fail_msg("%g of the names, not %g", found, fraction);
}

static unsigned share(const struct layout *l, uint32_t id)
{
	unsigned count = 0;

	for (unsigned i = 0; i < NAMES; i++)
		count += layout_owner(l, key(i))->id == id;
	return count;
}

/* What is on disks was placed by these. */
static void owners_never_change_between_versions(void **state)
{
	static const struct {
		unsigned members;
		uint32_t owner[8];
	} known[] = {
		{ 2, { 1, 0, 1, 0, 1, 1, 1, 0 } },
		{ 5, { 3, 4, 3, 0, 1, 3, 4, 0 } },
		{ 256, { 22, 74, 130, 119, 43, 6, 24, 153 } },
	};
	struct layout weighed = wide(3);

	(void)state;
	assert_true(key(0) == 0x243a944cb9bb7a25);
	for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++) {
		struct layout l = wide(known[k].members);

		for (unsigned i = 0; i < 8; i++)
			assert_int_equal(layout_owner(&l, key(i))->id, known[k].owner[i]);
	}
	static const uint32_t by_weight[16] = { 1, 2, 1, 1, 1, 1, 2, 2, 1, 2, 2, 1, 2, 2, 1, 1 };

	assert_int_equal(layout_weigh(&weighed, 1, 1000), 0);
	layout_settle(&weighed);
	assert_int_equal(layout_weigh(&weighed, 2, 700), 0);
	layout_settle(&weighed);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(layout_owner(&weighed, key(i))->id, by_weight[i]);
}

static void what_is_written_to_be_renamed_is_made_where_it_will_be(void **state)
{
	static const char *const of_data[] = {
		"data", "data~", "data.tmp", "data.new", "data.part", "data.lock", ".data.x7Yz09"
	};
	static const char *const others[] = { ".data",	       "data.x7Yz09",  ".data.x7Yz0", ".data.x7Yz0-",
					      ".data.x7Yz099", "data.tmp.tmp", "Data",	      "data." };
	static const char *const themselves[] = { "~", ".tmp", ".x.abcde", "..abcdef", ".", "" };
	struct gfid d = directory(1), e = directory(2);

	(void)state;
	for (size_t i = 0; i < sizeof(of_data) / sizeof(of_data[0]); i++)
		assert_true(layout_key(&d, of_data[i]) == layout_key(&d, "data"));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_true(layout_key(&d, others[i]) != layout_key(&d, "data"));
	for (size_t i = 0; i < sizeof(themselves) / sizeof(themselves[0]); i++)
		for (size_t k = 0; k < i; k++)
			assert_true(layout_key(&d, themselves[i]) != layout_key(&d, themselves[k]));
	assert_true(layout_key(&d, "data") != layout_key(&e, "data"));
}

static void growing_moves_names_to_new_members_only(void **state)
{
	struct layout l = wide(1);

	(void)state;
	for (unsigned n = 1; n < 64; n *= 2) {
		grow(&l, n, 2 * n, 1);
		about(moves(&l), 0.5, 0.02);
		for (unsigned i = 0; i < NAMES; i++)
			assert_true(layout_owner(&l, key(i)) == layout_owner_next(&l, key(i)) ||
				    layout_owner_next(&l, key(i))->id >= n);
		layout_settle(&l);
	}
}

static void one_takes_the_place_of_all(void **state)
{
	const struct layout_member new = { .id = 9, .weight = 1 }, old = { .id = 2, .weight = 1 }, none = { .id = 9 };
	uint8_t bytes[LAYOUT_SIZE_MAX];
	static struct layout read, mixed; /* they are large */
	struct layout l = wide(4);

	(void)state;
	assert_int_equal(layout_replace(&l, &old), -EINVAL);
	assert_int_equal(layout_replace(&l, &none), -EINVAL);
	assert_int_equal(layout_replace(&l, &new), 0);
	assert_int_equal(layout_replace(&l, &new), -EBUSY);
	assert_int_equal(l.home, 9);
	for (unsigned i = 0; i < l.count; i++) /* who leaves gives, who comes takes */
		assert_int_equal(layout_is_source(&l, &l.member[i]), l.member[i].id != 9);
	for (unsigned i = 0; i < NAMES; i += 97) {
		assert_true(layout_owner(&l, key(i))->id < 4);
		assert_int_equal(layout_owner_next(&l, key(i))->id, 9);
	}
	assert_int_equal(layout_decode(bytes, layout_encode(&l, bytes), &read), 0);
	mixed = l;
	mixed.member[0].next = 1; /* one that stays would be a source and a sink */
	assert_false(layout_sound(&mixed));
	layout_settle(&l);
	assert_int_equal(l.count, 1);
	assert_int_equal(l.home, 9);
	assert_true(layout_sound(&l));
}

static void shrinking_moves_the_names_of_those_who_leave_only(void **state)
{
	const uint32_t leave[] = { 0, 3 };
	struct layout l = wide(8);

	(void)state;
	assert_int_equal(layout_shrink(&l, leave, 2, 5), 0);
	about(moves(&l), 0.25, 0.02);
	for (unsigned i = 0; i < NAMES; i++) {
		uint32_t was = layout_owner(&l, key(i))->id, is = layout_owner_next(&l, key(i))->id;

		assert_true(is != 0 && is != 3);
		assert_true(was == is || was == 0 || was == 3);
	}
	layout_settle(&l);
	assert_int_equal(l.count, 6);
	assert_int_equal(l.home, 5);
	assert_null(layout_find(&l, 3));
}

static void shares_follow_weights(void **state)
{
	struct layout_member more[] = { { .id = 7, .weight = 200 }, { .id = 9, .weight = 500 } };
	struct layout l;

	(void)state;
	layout_single(&l, 3);
	grow(&l, 4, 5, 100);
	layout_settle(&l);
	assert_int_equal(layout_weigh(&l, 3, 200), 0);
	about(moves(&l), 200.0 / 300 - 1.0 / 101, 0.02);
	layout_settle(&l);
	assert_int_equal(layout_grow(&l, more, 2), 0);
	about(moves(&l), 0.7, 0.02);
	layout_settle(&l);
	about(share(&l, 3), 0.2, 0.01);
	about(share(&l, 4), 0.1, 0.01);
	about(share(&l, 7), 0.2, 0.01);
	about(share(&l, 9), 0.5, 0.01);
	assert_int_equal(layout_weigh(&l, 9, 250), 0);
	about(moves(&l), 0.5 - 25.0 / 75, 0.02);
}

static void only_changes_in_which_names_flow_one_way_are_taken(void **state)
{
	struct layout_member there = { .id = 2, .weight = 1 }, nothing = { .id = 9 }, fresh = { .id = 9, .weight = 1 };
	const uint32_t all[] = { 0, 1, 2, 3 }, strange[] = { 4 }, twice[] = { 1, 1 };
	static struct layout l, before;

	(void)state;
	before = l = wide(4);
	assert_int_equal(layout_grow(&l, &there, 1), -EINVAL);
	assert_int_equal(layout_grow(&l, &nothing, 1), -EINVAL);
	assert_int_equal(layout_grow(&l, &fresh, 0), -EINVAL);
	assert_int_equal(layout_shrink(&l, all, 4, 0), -EINVAL);
	assert_int_equal(layout_shrink(&l, strange, 1, 0), -EINVAL);
	assert_int_equal(layout_shrink(&l, twice, 2, 0), -EINVAL);
	assert_int_equal(layout_shrink(&l, all, 1, 0), -EINVAL); /* the home can't be one that leaves */
	assert_int_equal(layout_shrink(&l, all, 0, 0), -EINVAL);
	assert_int_equal(layout_weigh(&l, 1, 0), -EINVAL);
	assert_int_equal(layout_weigh(&l, 1, 1), -EINVAL);
	assert_memory_equal(&l, &before, sizeof(l));
	assert_int_equal(layout_grow(&l, &fresh, 1), 0);
	assert_int_equal(layout_grow(&l, &fresh, 1), -EBUSY);
	assert_int_equal(layout_shrink(&l, all, 1, 1), -EBUSY);
	assert_int_equal(layout_weigh(&l, 1, 5), -EBUSY);
	l = wide(LAYOUT_MEMBERS_MAX);
	fresh.id = 1000;
	assert_int_equal(layout_grow(&l, &fresh, 1), -E2BIG);
}

static void the_first_of_a_ranking_do_not_depend_on_how_many_are_wanted(void **state)
{
	struct layout_member m[40];
	unsigned first[40] = { 0 };

	(void)state;
	for (unsigned i = 0; i < 40; i++)
		m[i] = (struct layout_member){ .id = 100 + i, .weight = (uint16_t)(i % 4) };
	for (unsigned d = 0; d < 1000; d++) {
		struct gfid g = directory(d);
		uint64_t k = layout_key_object(&g);
		unsigned all[40], few[5];

		assert_int_equal(members_rank(m, 40, k, 40, all), 30); /* those without weight are never chosen */
		assert_int_equal(members_rank(m, 40, k, 5, few), 5);
		assert_memory_equal(all, few, sizeof(few));
		assert_ptr_equal(member_best(m, 40, k, false), &m[all[0]]);
		first[all[0]]++;
	}
	for (unsigned i = 0; i < 40; i++)
		assert_true(!first[i] == !m[i].weight);
}

static void what_was_encoded_is_decoded(void **state)
{
	const uint32_t leave[] = { 1 };
	const unsigned members[6] = { 1, 2, LAYOUT_MEMBERS_MAX, 3, 3, 3 };
	static struct layout l[6], back;
	uint8_t bytes[LAYOUT_SIZE_MAX];

	(void)state;
	for (unsigned i = 0; i < 6; i++)
		l[i] = wide(members[i]);
	grow(&l[3], 3, 9, 65535);
	assert_int_equal(layout_shrink(&l[4], leave, 1, 2), 0);
	assert_int_equal(layout_weigh(&l[5], 2, 7), 0);
	for (unsigned i = 0; i < 6; i++) {
		size_t size = layout_encode(&l[i], bytes);

		assert_int_equal(layout_decode(bytes, size, &back), 0);
		assert_int_equal(back.version, l[i].version);
		assert_int_equal(back.home, l[i].home);
		assert_int_equal(back.moving, l[i].moving);
		assert_int_equal(back.count, l[i].count);
		assert_memory_equal(back.member, l[i].member, l[i].count * sizeof(back.member[0]));
		for (size_t cut = 0; cut < size; cut++)
			assert_int_equal(layout_decode(bytes, cut, &back), -EINVAL);
	}
}

struct lie {
	size_t at;
	uint8_t value;
};

/* Of three members that are not moving. */
static void bytes_that_lie_are_refused(void **state)
{
	static const struct lie lies[] = {
		{ 0, 0 },  { 0, 2 },  { 1, 2 },	 { 1, 1 },  { 2, 1 },  { 3, 2 },  { 3, 4 },  { 4, 0x40 }, { 15, 9 },
		{ 19, 1 }, { 27, 2 }, { 27, 0 }, { 20, 1 }, { 21, 2 }, { 21, 0 }, { 23, 2 }, { 22, 1 },	  { 23, 0 },
	};
	struct layout l = wide(3), back;
	uint8_t bytes[LAYOUT_SIZE_MAX + 1];
	size_t size = layout_encode(&l, bytes);

	(void)state;
	assert_int_equal(layout_decode(bytes, size, &back), 0);
	assert_int_equal(layout_decode(bytes, size + 1, &back), -EINVAL);
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		uint8_t before = bytes[lies[i].at];

		bytes[lies[i].at] = lies[i].value;
		if (lies[i].at == 4)
			bytes[11] = 5; /* version 2^62 + 5 */
		if (layout_decode(bytes, size, &back) != -EINVAL)
			fail_msg("byte %zu as %u was taken", lies[i].at, lies[i].value);
		bytes[lies[i].at] = before;
		bytes[11] = (uint8_t)l.version;
	}
}

/* Whatever is taken can be used, and is what was said. */
static void random_bytes_are_refused_or_sound(void **state)
{
	static uint8_t good[LAYOUT_SIZE_MAX], bytes[LAYOUT_SIZE_MAX], again[LAYOUT_SIZE_MAX];
	struct layout l = wide(4), back;
	unsigned taken = 0;

	(void)state;
	srandom(1);
	grow(&l, 4, 6, 3);
	size_t size = layout_encode(&l, good);

	for (unsigned i = 0; i < 300000; i++) {
		memcpy(bytes, good, size);
		for (int flips = (int)(random() % 4); flips >= 0; flips--)
			bytes[(size_t)random() % size] = random() % 2 ? (uint8_t)random() : (uint8_t)(random() % 3);
		if (layout_decode(bytes, size, &back))
			continue;
		taken++;
		assert_int_equal(layout_encode(&back, again), size);
		assert_memory_equal(bytes, again, size);
		for (unsigned k = 0; k < 4; k++) {
			const struct layout_member *was = layout_owner(&back, key(k)), *is = layout_owner_next(&back, key(k));

			assert_true(was && is && (was == is || (layout_is_source(&back, was) && !layout_is_source(&back, is))));
		}
	}
	assert_true(taken > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(owners_never_change_between_versions),
		cmocka_unit_test(what_is_written_to_be_renamed_is_made_where_it_will_be),
		cmocka_unit_test(growing_moves_names_to_new_members_only),
		cmocka_unit_test(one_takes_the_place_of_all),
		cmocka_unit_test(shrinking_moves_the_names_of_those_who_leave_only),
		cmocka_unit_test(shares_follow_weights),
		cmocka_unit_test(only_changes_in_which_names_flow_one_way_are_taken),
		cmocka_unit_test(the_first_of_a_ranking_do_not_depend_on_how_many_are_wanted),
		cmocka_unit_test(what_was_encoded_is_decoded),
		cmocka_unit_test(bytes_that_lie_are_refused),
		cmocka_unit_test(random_bytes_are_refused_or_sound),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
