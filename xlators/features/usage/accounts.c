/* SPDX-License-Identifier: Apache-2.0 */
/* Which user ids belong to which account, as the option says it. */
#include <errno.h>

#include "by-base.h"
#include "rows.h"
#include "usage.h"

static int by_base(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->base < y->base ? -1 : x->base > y->base;
}

static int check_overlap(const struct ranges *r, struct problem *p)
{
	for (size_t i = 1; i < r->count; i++)
		if (r->range[i - 1].base + r->range[i - 1].count > r->range[i].base)
			return problem_set(p, EINVAL, "accounts: the user ids of %s and %s overlap: give each account its own",
					   r->range[i - 1].name, r->range[i].name);
	return 0;
}

static int take_numbers(const struct words *row, struct range *r)
{
	uint64_t number[ROW_WORDS] = { 0 };

	for (unsigned i = 1; i < row->count; i++)
		if (word_number(row->word[i], i < 3 ? UINT32_MAX : INT64_MAX, &number[i]))
			return -EINVAL;
	*r = (struct range){ .base = number[1],
			     .count = number[2],
			     .limit = { (int64_t)number[3], (int64_t)number[4] },
			     .soft = { (int64_t)number[5], (int64_t)number[6] },
			     .grace = number[7] };
	return !r->count || r->count > UINT32_MAX - r->base ? -EINVAL : 0;
}

static int take_range(const struct words *row, struct range *r, struct problem *p)
{
	if (row->count < 3 || row->count > ROW_WORDS || strlen(row->word[0]) > sizeof(r->name) - 1 || take_numbers(row, r))
		return problem_set(
			p, EINVAL,
			"accounts: \"%.*s\" is none: write a name, the first user id, how many there are, and if there are any limits of bytes and "
			"inodes, soft ones, and seconds of grace",
			words_shown(row), row->whole.at);
	strcpy(r->name, row->word[0]);
	return 0;
}

static int make_room(struct ranges *r, const char *text, size_t most, struct problem *p)
{
	*r = (struct ranges){ .text = strdup(text), .range = malloc(most * sizeof(*r->range)) };
	if (!r->text || !r->range)
		return problem_set(p, ENOMEM, "out of memory");
	return most < ACCOUNTS_MAX ? 0 : problem_set(p, EINVAL, "accounts: more than %d", ACCOUNTS_MAX - 1);
}

static int read_all(const char *text, struct ranges *r, struct problem *p)
{
	struct rows rows = rows_of(text);
	struct words row;
	int err = make_room(r, text, rows_count(rows), p);

	while (!err && rows_next(&rows, &row))
		err = take_range(&row, &r->range[r->count++], p);
	if (!err && r->count)
		qsort(r->range, r->count, sizeof(*r->range), by_base);
	return err ? err : check_overlap(r, p);
}

/* ---- a few rows ---- */

static size_t place_of(const struct ranges *r, uint64_t base)
{
	return place_by_base(r->range, r->count, sizeof(*r->range), base);
}

static void take_out(struct ranges *r, uint64_t base)
{
	size_t at = place_of(r, base);

	r->count--;
	memmove(&r->range[at], &r->range[at + 1], (r->count - at) * sizeof(*r->range));
}

static void put_in(struct ranges *r, const struct range *one)
{
	size_t at = place_of(r, one->base);

	memmove(&r->range[at + 1], &r->range[at], (r->count - at) * sizeof(*r->range));
	r->range[at] = *one;
	r->count++;
}

static int read_change(const struct ranges *before, const char *text, struct rows_change *c, struct ranges *r,
		       struct problem *p)
{
	size_t most = before->count + rows_count(c->come);
	struct words row;
	uint64_t base;
	int err;

	if (most >= ACCOUNTS_MAX) /* perhaps: they can be counted */
		return read_all(text, r, p);
	err = make_room(r, text, most, p);
	if (err)
		return err;
	r->count = before->count;
	memcpy(r->range, before->range, r->count * sizeof(*r->range));
	while (rows_next(&c->gone, &row))
		if (!word_number(row.word[1], UINT32_MAX, &base))
			take_out(r, base);
	while (!err && rows_next(&c->come, &row)) {
		struct range one;

		err = take_range(&row, &one, p);
		if (!err)
			put_in(r, &one);
	}
	return err ? err : check_overlap(r, p);
}

int ranges_parse(const char *text, const struct ranges *before, struct ranges *r, struct problem *p)
{
	struct rows_change c;
	int err;

	*r = (struct ranges){ 0 };
	err = before && rows_few_differ(before->text, text, &c) ? read_change(before, text, &c, r, p) : read_all(text, r, p);
	if (err)
		ranges_free(r);
	return err;
}

const struct range *range_of(const struct ranges *r, uint32_t uid)
{
	size_t low = 0, high = r->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (r->range[middle].base <= uid)
			low = middle + 1;
		else
			high = middle;
	}
	return low && uid - r->range[low - 1].base < r->range[low - 1].count ? &r->range[low - 1] : NULL;
}

void ranges_free(struct ranges *r)
{
	free(r->text);
	free(r->range);
	*r = (struct ranges){ 0 };
}
