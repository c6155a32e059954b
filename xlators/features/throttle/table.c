/* SPDX-License-Identifier: Apache-2.0 */
/* The tenants as the option `tenants` names them, and how a request finds its own. */
#include <ctype.h>
#include <inttypes.h>

#include "throttle.h"

/* ---- reading ---- */

static int by_base(const void *a, const void *b)
{
	const struct rule *x = a, *y = b;

	return x->base < y->base ? -1 : x->base > y->base;
}

static int take_number(const char *text, uint64_t most, uint64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoull(text, &end, 10);
	return isdigit((unsigned char)*text) && !*end && !errno && *number <= most ? 0 : -EINVAL;
}

static int take_words(char **word, unsigned words, struct rule *r)
{
	uint64_t base;

	if (words < 2 || strlen(word[0]) > TENANT_NAME || take_number(word[1], UINT32_MAX, &base) || !base)
		return -EINVAL;
	strcpy(r->name, word[0]);
	r->base = (uint32_t)base;
	r->weight = 1;
	if ((words > 2 && take_number(word[2], INT64_MAX, &r->ops)) ||
	    (words > 3 && take_number(word[3], INT64_MAX, &r->bytes)) ||
	    (words > 4 && take_number(word[4], WEIGHT_MAX, &r->weight)))
		return -EINVAL;
	return r->weight && (!r->bytes || r->bytes >= LEAST_BYTES) ? 0 : -EINVAL;
}

static int take_rule(char *text, struct rule *r, struct problem *p)
{
	char *word[5], *one, *rest = text, whole[160];
	unsigned words = 0;

	snprintf(whole, sizeof(whole), "%s", text + strspn(text, " \t"));
	while ((one = strsep(&rest, " \t")))
		if (*one && words++ < 5)
			word[words - 1] = one;
	if (words > 5 || take_words(word, words, r))
		return problem_set(
			p, EINVAL,
			"tenants: \"%s\" is none: write a name, the first user id, operations and bytes in a second (0: no "
			"limit; bytes from %d on) and a weight from 1 to %d",
			whole, LEAST_BYTES, WEIGHT_MAX);
	return 0;
}

static int check(struct rules *r, struct problem *p)
{
	if (r->count)
		qsort(r->rule, r->count, sizeof(*r->rule), by_base);
	for (size_t i = 1; i < r->count; i++)
		if (r->rule[i - 1].base == r->rule[i].base)
			return problem_set(p, EINVAL, "tenants: %s and %s have the same first user id", r->rule[i - 1].name,
					   r->rule[i].name);
	return 0;
}

static size_t commas(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text == ',';
	return n;
}

int rules_parse(const char *text, struct rules *r, struct problem *p)
{
	size_t most = commas(text) + 1;
	char *copy = strdup(text), *rest = copy, *one;
	int err = 0;

	*r = (struct rules){ 0 };
	if (most > TENANTS_MAX)
		err = problem_set(p, EINVAL, "tenants: more than %d", TENANTS_MAX);
	else if (!copy || !(r->rule = calloc(most, sizeof(*r->rule))))
		err = problem_set(p, ENOMEM, "out of memory");
	while (!err && (one = strsep(&rest, ",")))
		if (one[strspn(one, " \t")])
			err = take_rule(one, &r->rule[r->count++], p);
	if (!err)
		err = check(r, p);
	free(copy);
	if (err)
		rules_free(r);
	return err;
}

void rules_free(struct rules *r)
{
	free(r->rule);
	*r = (struct rules){ 0 };
}

/* ---- finding ---- */

static size_t place_of(uint32_t base)
{
	return base * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (PLACES - 1);
}

/* At most half of the places are taken, so the search ends. */
struct tenant *tenant_find(struct throttle *t, uint32_t base)
{
	for (size_t i = place_of(base);; i = (i + 1) & (PLACES - 1)) {
		struct tenant *one = atomic_load_explicit(&t->place[i], memory_order_acquire);

		if (!one)
			return &t->others;
		if (one->base == base)
			return one;
	}
}

static void enter(struct throttle *t, struct tenant *one)
{
	size_t i = place_of(one->base);

	while (atomic_load_explicit(&t->place[i], memory_order_relaxed))
		i = (i + 1) & (PLACES - 1);
	atomic_store_explicit(&t->place[i], one, memory_order_release);
}

/* ---- changing; with the lock held ---- */

static int make_room(struct throttle *t, size_t count)
{
	struct tenant **all, **line;

	if (count <= t->room && t->line)
		return 0;
	all = realloc(t->all, (count + 1) * sizeof(*all));
	t->all = all ? all : t->all;
	line = all ? realloc(t->line, (count + 1) * sizeof(*line)) : NULL;
	t->line = line ? line : t->line;
	if (line)
		t->room = count;
	return line ? 0 : -ENOMEM;
}

static int add(struct throttle *t, uint32_t base)
{
	struct tenant *one = calloc(1, sizeof(*one));

	if (!one)
		return -ENOMEM;
	one->base = base;
	one->weight = 1;
	t->all[t->count++] = one;
	enter(t, one);
	return 0;
}

static int add_missing(struct throttle *t, const struct rules *r)
{
	size_t missing = 0;
	int err;

	for (size_t i = 0; i < r->count; i++)
		missing += tenant_find(t, r->rule[i].base) == &t->others;
	if (t->count + missing > TENANTS_MAX)
		return -ENOSPC;
	err = make_room(t, t->count + missing);
	for (size_t i = 0; i < r->count && !err; i++)
		if (tenant_find(t, r->rule[i].base) == &t->others)
			err = add(t, r->rule[i].base);
	return err;
}

static void rule(struct tenant *one, const struct rule *r, uint64_t now)
{
	snprintf(one->name, sizeof(one->name), "%s", r->name);
	one->listed = true;
	one->weight = r->weight;
	bucket_set(&one->ops, r->ops, LEAST_OPS, now);
	bucket_set(&one->bytes, r->bytes, LEAST_BYTES, now);
	atomic_store(&one->limited, r->ops || r->bytes);
}

/* Who is not named any more has no limits. */
static void unrule(struct tenant *one, uint64_t now)
{
	struct rule none = { .base = one->base, .weight = 1 };

	strcpy(none.name, one->name);
	rule(one, &none, now);
	one->listed = false;
}

/* Whose limits stay keeps what is in the buckets. */
static void put_in_force(struct throttle *t, const struct rules *r, uint64_t now)
{
	for (size_t i = 0; i < t->count; i++)
		t->all[i]->listed = false;
	for (size_t i = 0; i < r->count; i++)
		rule(tenant_find(t, r->rule[i].base), &r->rule[i], now);
	for (size_t i = 0; i < t->count; i++)
		if (!t->all[i]->listed)
			unrule(t->all[i], now);
	turns_changed(t);
}

int rules_apply(struct throttle *t, const struct rules *r, struct problem *p)
{
	int err;

	pthread_mutex_lock(&t->lock);
	err = add_missing(t, r);
	if (!err)
		put_in_force(t, r, clock_ns());
	pthread_mutex_unlock(&t->lock);
	if (err == -ENOSPC)
		return problem_set(p, ENOSPC, "more than %d tenants have come and gone: start the server anew", TENANTS_MAX);
	return err ? problem_set(p, -err, "out of memory") : 0;
}

void tenants_free(struct throttle *t)
{
	for (size_t i = 0; i < t->count; i++)
		free(t->all[i]);
	free(t->all);
	free(t->line);
}
