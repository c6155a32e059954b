/* SPDX-License-Identifier: Apache-2.0 */
/* Who the tenants are: the table that the option `tenants` gives. */
#include "cloud.h"

#include "replica.h"
#include "rows.h"

static const char *const states[TENANT_STATES] = { "active", "suspended", "deleted" };

const char *tenant_state_name(enum tenant_state state)
{
	return states[state];
}

/* ---- reading ---- */

static int take_state(const char *text, uint8_t *state)
{
	for (uint8_t i = 0; i < TENANT_STATES; i++)
		if (!strcmp(text, states[i])) {
			*state = i;
			return 0;
		}
	return -EINVAL;
}

/* Of what could be a name of a directory, and of an option's word. */
static bool is_name(const char *text)
{
	static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

	return *text && *text != '.' && *text != '-' && strlen(text) <= TENANT_NAME && strspn(text, fine) == strlen(text);
}

static int take_words(const struct words *r, struct tenant *t)
{
	uint64_t base, count;

	if (r->count != 5 || !is_name(r->word[0]) || gfid_parse(r->word[1], &t->id) || gfid_is_null(&t->id) ||
	    word_number(r->word[2], UINT32_MAX, &base) || word_number(r->word[3], UINT32_MAX, &count) ||
	    take_state(r->word[4], &t->state))
		return -EINVAL;
	strcpy(t->name, r->word[0]);
	t->base = (uint32_t)base;
	t->count = (uint32_t)count;
	return 0;
}

static int take_tenant(const struct words *r, struct tenant *t, struct problem *p)
{
	if (take_words(r, t))
		return problem_set(p, EINVAL, "\"%.*s\" is no tenant: write NAME ID BASE COUNT active|suspended|deleted",
				   words_shown(r), r->whole.at);
	if (t->base < ID_FIRST || !t->count || (uint64_t)t->base + t->count - 1 > ID_LAST)
		return problem_set(p, EINVAL, "tenant %s: its ids must lie between %u and %u", t->name, ID_FIRST,
				   (unsigned)ID_LAST);
	if (gfid_equal(&t->id, &gfid_root) || gfid_equal(&t->id, &gfid_tenants))
		return problem_set(p, EINVAL, "tenant %s: its id is one that each brick has: take a fresh one", t->name);
	return 0;
}

static int by_base(const void *a, const void *b)
{
	const struct tenant *s = a, *t = b;

	return s->base < t->base ? -1 : s->base > t->base;
}

static int by_gfid(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct gfid));
}

static int by_id(const void *a, const void *b)
{
	return memcmp(&((const struct tenant *)a)->id, &((const struct tenant *)b)->id, sizeof(struct gfid));
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct tenant *)a)->name, ((const struct tenant *)b)->name);
}

/* What no two may have, deleted ones among them: what is theirs is never another's. */
static int common_ids(const struct tenant *a, const struct tenant *b, struct problem *p)
{
	if (a->base >= (uint64_t)b->base + b->count || b->base >= (uint64_t)a->base + a->count)
		return 0;
	return problem_set(p, EINVAL, "tenants %s and %s have ids in common: give each its own", a->name, b->name);
}

static int same_id(const struct tenant *a, const struct tenant *b, struct problem *p)
{
	return gfid_equal(&a->id, &b->id) ? problem_set(p, EINVAL, "tenants %s and %s have the same id", a->name, b->name) : 0;
}

static int same_name(const struct tenant *a, const struct tenant *b, struct problem *p)
{
	return strcmp(a->name, b->name) ? 0 : problem_set(p, EINVAL, "there are two tenants %s, living or deleted", b->name);
}

typedef int tenants_order(const void *, const void *);
typedef int tenants_check(const struct tenant *, const struct tenant *, struct problem *);

static int check_neighbours(struct table *t, tenants_order *order, tenants_check *check, struct problem *p)
{
	int err = 0;

	qsort(t->tenant, t->count, sizeof(*t->tenant), order);
	for (size_t i = 1; i < t->count && !err; i++)
		err = check(&t->tenant[i - 1], &t->tenant[i], p);
	return err;
}

/* Ends sorted by name. */
static int check(struct table *t, struct problem *p)
{
	int err = t->count ? check_neighbours(t, by_base, common_ids, p) : 0;

	if (!err && t->count)
		err = check_neighbours(t, by_id, same_id, p);
	if (!err && t->count)
		err = check_neighbours(t, by_name, same_name, p);
	for (size_t i = 0; i < t->count; i++)
		t->owned[i] = (struct owned){ t->tenant[i].id, i };
	if (t->count)
		qsort(t->owned, t->count, sizeof(*t->owned), by_gfid);
	return err;
}

static int make_room(struct table *t, const char *text, size_t room, struct problem *p)
{
	*t = (struct table){ .text = strdup(text) };
	t->tenant = malloc(room * sizeof(*t->tenant));
	t->owned = malloc(room * sizeof(*t->owned));
	return t->text && t->tenant && t->owned ? 0 : problem_set(p, ENOMEM, "out of memory");
}

static int read_all(const char *text, struct table *t, struct problem *p)
{
	struct rows rows = rows_of(text);
	size_t most = rows_count(rows);
	struct words r;
	int err;

	if (most > TENANTS_MAX)
		return problem_set(p, EINVAL, "more than %d tenants", TENANTS_MAX);
	err = make_room(t, text, most, p);
	while (!err && rows_next(&rows, &r))
		err = take_tenant(&r, &t->tenant[t->count++], p);
	return err ? err : check(t, p);
}

/* ---- a few rows ---- */

/* Where it is, or would come to be, among those that are sorted. */
static size_t place_of(const void *key, const void *list, size_t count, size_t size, tenants_order *order)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (order((const char *)list + middle * size, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Those behind a place in the list of tenants come to be one further, or nearer. */
static void renumber(struct table *t, size_t from, bool further)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->owned[i].tenant >= from)
			t->owned[i].tenant += further ? 1 : (size_t)-1;
}

static void take_out(struct table *t, const char *name)
{
	struct tenant key, *at;
	struct owned *own;

	strcpy(key.name, name);
	at = &t->tenant[place_of(&key, t->tenant, t->count, sizeof(key), by_name)];
	own = &t->owned[place_of(&at->id, t->owned, t->count, sizeof(*own), by_gfid)];
	renumber(t, own->tenant + 1, false);
	t->count--;
	memmove(own, own + 1, (size_t)(t->owned + t->count - own) * sizeof(*own));
	memmove(at, at + 1, (size_t)(t->tenant + t->count - at) * sizeof(*at));
}

static int put_in(struct table *t, const struct tenant *one, struct problem *p)
{
	size_t at = place_of(one, t->tenant, t->count, sizeof(*one), by_name);
	size_t own = place_of(&one->id, t->owned, t->count, sizeof(*t->owned), by_gfid);
	int err = 0;

	for (size_t i = 0; i < t->count && !err; i++)
		err = common_ids(&t->tenant[i], one, p);
	if (!err && own < t->count)
		err = same_id(&t->tenant[t->owned[own].tenant], one, p);
	if (!err && at < t->count)
		err = same_name(&t->tenant[at], one, p);
	if (err)
		return err;
	renumber(t, at, true);
	memmove(&t->tenant[at + 1], &t->tenant[at], (t->count - at) * sizeof(*one));
	memmove(&t->owned[own + 1], &t->owned[own], (t->count - own) * sizeof(*t->owned));
	t->tenant[at] = *one;
	t->owned[own] = (struct owned){ one->id, at };
	t->count++;
	return 0;
}

static int read_change(const struct table *before, const char *text, struct rows_change *c, struct table *t, struct problem *p)
{
	size_t more = rows_count(c->come);
	struct tenant one;
	struct words r;
	int err;

	if (before->count + more > TENANTS_MAX) /* perhaps: it can be counted */
		return read_all(text, t, p);
	err = make_room(t, text, before->count + more, p);
	if (err)
		return err;
	t->count = before->count;
	memcpy(t->tenant, before->tenant, t->count * sizeof(*t->tenant));
	memcpy(t->owned, before->owned, t->count * sizeof(*t->owned));
	while (rows_next(&c->gone, &r))
		take_out(t, r.word[0]);
	while (!err && rows_next(&c->come, &r)) {
		err = take_tenant(&r, &one, p);
		if (!err)
			err = put_in(t, &one, p);
	}
	return err;
}

int table_parse(const char *text, const struct table *before, struct table *t, struct problem *p)
{
	struct rows_change c;
	int err;

	*t = (struct table){ NULL };
	if (before && rows_few_differ(before->text, text, &c))
		err = read_change(before, text, &c, t, p);
	else
		err = read_all(text, t, p);
	if (err)
		table_free(t);
	return err;
}

void table_free(struct table *t)
{
	free(t->text);
	free(t->tenant);
	free(t->owned);
	*t = (struct table){ NULL };
}

/* ---- finding ---- */

const struct tenant *table_find(const struct table *t, const char *name)
{
	struct tenant key;

	strcpy(key.name, name);
	return t->count ? bsearch(&key, t->tenant, t->count, sizeof(key), by_name) : NULL;
}

const struct tenant *table_find_owner(const struct table *t, const struct gfid *id)
{
	const struct owned *found = t->count ? bsearch(id, t->owned, t->count, sizeof(*found), by_gfid) : NULL;

	return found ? &t->tenant[found->tenant] : NULL;
}
