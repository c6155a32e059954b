/* SPDX-License-Identifier: Apache-2.0 */
/* Which user ids belong to which account, as the option says it. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>

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

/* 1: it names a range; 0: it is empty; -EINVAL. */
static int parse_one(const char *line, struct range *r)
{
	char more;
	int n;

	while (isspace((unsigned char)*line))
		line++;
	if (!*line)
		return 0;
	if (strchr(line, '-') || strchr(line, '+')) /* scanf takes signs for numbers */
		for (const char *at = line + strcspn(line, " \t"); *at; at++)
			if (*at == '-' || *at == '+')
				return -EINVAL;
	n = sscanf(line, "%64s %" SCNu64 " %" SCNu64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNu64 " %c", r->name,
		   &r->base, &r->count, &r->limit.bytes, &r->limit.inodes, &r->soft.bytes, &r->soft.inodes, &r->grace, &more);
	if (strcspn(line, " \t") > sizeof(r->name) - 1)
		return -EINVAL;
	if (n < 3 || n > 8 || !r->count || r->base > UINT32_MAX || r->count > UINT32_MAX - r->base)
		return -EINVAL;
	return 1;
}

static int add(struct ranges *r, const struct range *one)
{
	struct range *grown = realloc(r->range, (r->count + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	r->range = grown;
	grown[r->count++] = *one;
	return 0;
}

int ranges_parse(const char *text, struct ranges *r, struct problem *p)
{
	char *copy = strdup(text), *rest = copy, *word;
	int err = copy ? 0 : -ENOMEM;

	*r = (struct ranges){ 0 };
	while (!err && (word = strsep(&rest, ","))) {
		struct range one = { .base = 0 };
		int is = parse_one(word, &one);

		if (is < 0)
			err = problem_set(
				p, EINVAL,
				"accounts: \"%.80s\" is none: write a name, the first user id, how many there are, and if there are any limits of bytes and "
				"inodes, soft ones, and seconds of grace",
				word);
		else if (is)
			err = add(r, &one);
		if (!err && r->count >= ACCOUNTS_MAX)
			err = problem_set(p, EINVAL, "accounts: more than %d", ACCOUNTS_MAX - 1);
	}
	free(copy);
	if (!err && r->count)
		qsort(r->range, r->count, sizeof(*r->range), by_base);
	if (!err)
		err = check_overlap(r, p);
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
	free(r->range);
	*r = (struct ranges){ 0 };
}
