/* SPDX-License-Identifier: Apache-2.0 */
/* The tenants as the option `tenants` names them, and how a request finds its own. */
#include <inttypes.h>

#include "throttle.h"

/* ---- reading ---- */

static int by_base(const void *a, const void *b)
{
	const struct rule *x = a, *y = b;

	return x->base < y->base ? -1 : x->base > y->base;
}

static int take_words(const struct words *row, struct rule *r)
{
	char *const *word = row->word;
	uint64_t base;

	if (row->count < 2 || row->count > 5 || strlen(word[0]) > TENANT_NAME || word_number(word[1], UINT32_MAX, &base) ||
	    !base)
		return -EINVAL;
	strcpy(r->name, word[0]);
	r->base = (uint32_t)base;
	r->weight = 1;
	if ((row->count > 2 && word_number(word[2], INT64_MAX, &r->ops)) ||
	    (row->count > 3 && word_number(word[3], INT64_MAX, &r->bytes)) ||
	    (row->count > 4 && word_number(word[4], WEIGHT_MAX, &r->weight)))
		return -EINVAL;
	return r->weight && (!r->bytes || r->bytes >= LEAST_BYTES) ? 0 : -EINVAL;
}

static int take_rule(const struct words *row, struct rule *r, struct problem *p)
{
	if (!take_words(row, r))
		return 0;
	return problem_set(
		p, EINVAL,
		"tenants: \"%.*s\" is none: write a name, the first user id, operations and bytes in a second (0: no "
		"limit; bytes from %d on) and a weight from 1 to %d",
		words_shown(row), row->whole.at, LEAST_BYTES, WEIGHT_MAX);
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

int rules_parse(struct rows rows, struct rules *r, struct problem *p)
{
	size_t most = rows_count(rows);
	struct words row;
	int err = 0;

	*r = (struct rules){ 0 };
	if (most > TENANTS_MAX)
		err = problem_set(p, EINVAL, "tenants: more than %d", TENANTS_MAX);
	else if (!(r->rule = calloc(most, sizeof(*r->rule))))
		err = problem_set(p, ENOMEM, "out of memory");
	while (!err && rows_next(&rows, &row))
		err = take_rule(&row, &r->rule[r->count++], p);
	if (!err)
		err = check(r, p);
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

static int no_room(int err, struct problem *p)
{
	if (err == -ENOSPC)
		return problem_set(p, ENOSPC, "more than %d tenants have come and gone: start the server anew", TENANTS_MAX);
	return err ? problem_set(p, -err, "out of memory") : 0;
}

static int apply_all(struct throttle *t, const char *text, struct problem *p)
{
	struct rules r;
	int err = rules_parse(rows_of(text), &r, p);

	if (err)
		return err;
	pthread_mutex_lock(&t->lock);
	err = add_missing(t, &r);
	if (!err)
		put_in_force(t, &r, clock_ns());
	pthread_mutex_unlock(&t->lock);
	rules_free(&r);
	return no_room(err, p);
}

static const struct rule *find_rule(const struct rules *r, uint32_t base)
{
	return r->count ? bsearch(&(struct rule){ .base = base }, r->rule, r->count, sizeof(*r->rule), by_base) : NULL;
}

/* One that comes is not there already, but for one that goes. */
static int check_new(struct throttle *t, const struct rules *gone, const struct rules *come, struct problem *p)
{
	for (size_t i = 0; i < come->count; i++) {
		const struct tenant *is = tenant_find(t, come->rule[i].base);

		if (is != &t->others && is->listed && !find_rule(gone, is->base))
			return problem_set(p, EINVAL, "tenants: %s and %s have the same first user id", is->name,
					   come->rule[i].name);
	}
	return 0;
}

static void put_few_in_force(struct throttle *t, const struct rules *gone, const struct rules *come, uint64_t now)
{
	for (size_t i = 0; i < gone->count; i++)
		if (!find_rule(come, gone->rule[i].base))
			unrule(tenant_find(t, gone->rule[i].base), now);
	for (size_t i = 0; i < come->count; i++)
		rule(tenant_find(t, come->rule[i].base), &come->rule[i], now);
	for (size_t i = 0; i < gone->count; i++)
		turn_changed(t, tenant_find(t, gone->rule[i].base));
	for (size_t i = 0; i < come->count; i++)
		turn_changed(t, tenant_find(t, come->rule[i].base));
}

static int apply_change(struct throttle *t, const struct rows_change *c, struct problem *p)
{
	struct rules gone = { 0 }, come = { 0 };
	int err = rules_parse(c->gone, &gone, p), room = 0;

	if (!err)
		err = rules_parse(c->come, &come, p);
	if (!err) {
		pthread_mutex_lock(&t->lock);
		err = check_new(t, &gone, &come, p);
		if (!err)
			room = add_missing(t, &come);
		if (!err && !room)
			put_few_in_force(t, &gone, &come, clock_ns());
		pthread_mutex_unlock(&t->lock);
	}
	rules_free(&gone);
	rules_free(&come);
	return err ? err : no_room(room, p);
}

int tenants_take(struct throttle *t, const char *text, struct problem *p)
{
	struct rows_change c;
	char *copy = strdup(text);
	int err = copy ? 0 : problem_set(p, ENOMEM, "out of memory");

	if (!err)
		err = rows_few_differ(t->text, text, &c) ? apply_change(t, &c, p) : apply_all(t, text, p);
	if (err) {
		free(copy);
		return err;
	}
	free(t->text);
	t->text = copy;
	return 0;
}

void tenants_free(struct throttle *t)
{
	for (size_t i = 0; i < t->count; i++)
		free(t->all[i]);
	free(t->all);
	free(t->line);
	free(t->text);
}
