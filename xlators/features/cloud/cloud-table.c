/* SPDX-License-Identifier: Apache-2.0 */
/* Who the tenants are: the table that the option `tenants` gives, and to whom a session belongs. */
#include "cloud.h"

static const char *const states[TENANT_STATES] = { "active", "suspended", "deleted" };

const char *tenant_state_name(enum tenant_state state)
{
	return states[state];
}

/* ---- reading ---- */

static int take_number(const char *text, uint32_t *number)
{
	char *end;
	unsigned long long value = strtoull(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || value > UINT32_MAX)
		return -EINVAL;
	*number = (uint32_t)value;
	return 0;
}

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

static int take_tenant(char *text, struct tenant *t, struct problem *p)
{
	char *word[5], *one, *rest = text, whole[160];
	unsigned words = 0;

	snprintf(whole, sizeof(whole), "%s", text + strspn(text, " \t"));
	while ((one = strsep(&rest, " \t")))
		if (*one && words++ < 5)
			word[words - 1] = one;
	if (words != 5 || !is_name(word[0]) || gfid_parse(word[1], &t->id) || gfid_is_null(&t->id) ||
	    take_number(word[2], &t->base) || take_number(word[3], &t->count) || take_state(word[4], &t->state))
		return problem_set(p, EINVAL, "\"%s\" is no tenant: write NAME ID BASE COUNT active|suspended|deleted", whole);
	snprintf(t->name, sizeof(t->name), "%s", word[0]);
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

/* Ends sorted by name. Deleted ones count: what is theirs is never another's. */
static int check(struct table *t, struct problem *p)
{
	struct tenant *at = t->tenant;

	if (!t->count)
		return 0;
	qsort(at, t->count, sizeof(*at), by_base);
	for (size_t i = 1; i < t->count; i++)
		if ((uint64_t)at[i - 1].base + at[i - 1].count > at[i].base)
			return problem_set(p, EINVAL, "tenants %s and %s have ids in common: give each its own", at[i - 1].name,
					   at[i].name);
	qsort(at, t->count, sizeof(*at), by_id);
	for (size_t i = 1; i < t->count; i++)
		if (gfid_equal(&at[i - 1].id, &at[i].id))
			return problem_set(p, EINVAL, "tenants %s and %s have the same id", at[i - 1].name, at[i].name);
	qsort(at, t->count, sizeof(*at), by_name);
	for (size_t i = 1; i < t->count; i++)
		if (!strcmp(at[i - 1].name, at[i].name))
			return problem_set(p, EINVAL, "there are two tenants %s, living or deleted", at[i].name);
	for (size_t i = 0; i < t->count; i++)
		t->owned[i] = (struct owned){ at[i].id, i };
	qsort(t->owned, t->count, sizeof(*t->owned), by_gfid);
	return 0;
}

static size_t commas(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text == ',';
	return n;
}

int table_parse(const char *text, struct table *t, struct problem *p)
{
	size_t most = commas(text) + 1;
	char *copy = strdup(text), *rest = copy, *one;
	int err = copy ? 0 : problem_set(p, ENOMEM, "out of memory");

	*t = (struct table){ NULL, NULL, 0 };
	if (!err && most > TENANTS_MAX)
		err = problem_set(p, EINVAL, "more than %d tenants", TENANTS_MAX);
	if (!err && (!(t->tenant = calloc(most, sizeof(*t->tenant))) || !(t->owned = calloc(most, sizeof(*t->owned)))))
		err = problem_set(p, ENOMEM, "out of memory");
	while (!err && (one = strsep(&rest, ",")))
		if (one[strspn(one, " \t")])
			err = take_tenant(one, &t->tenant[t->count++], p);
	if (!err)
		err = check(t, p);
	free(copy);
	if (err)
		table_free(t);
	return err;
}

void table_free(struct table *t)
{
	free(t->tenant);
	free(t->owned);
	*t = (struct table){ NULL, NULL, 0 };
}

/* ---- asking ---- */

static int find(struct cloud *c, const char *name, struct tenant *copy)
{
	struct tenant key, *found = NULL;

	strcpy(key.name, name);
	pthread_rwlock_rdlock(&c->table_lock);
	if (c->table.count)
		found = bsearch(&key, c->table.tenant, c->table.count, sizeof(key), by_name);
	if (found)
		*copy = *found;
	pthread_rwlock_unlock(&c->table_lock);
	return found && copy->state == TENANT_ACTIVE ? 0 : -EACCES;
}

/* What a suspended tenant has is moved as what others have: only what is deleted is left to the purge. */
static int find_moved(struct cloud *c, const struct gfid *id, struct guest *g)
{
	const struct owned *found = NULL;

	*g = (struct guest){ .moves = true };
	pthread_rwlock_rdlock(&c->table_lock);
	if (c->table.count && c->spread)
		found = bsearch(id, c->table.owned, c->table.count, sizeof(*found), by_gfid);
	if (found)
		g->tenant = c->table.tenant[found->tenant];
	pthread_rwlock_unlock(&c->table_lock);
	return found && g->tenant.state != TENANT_DELETED ? 0 : -EACCES;
}

int whose(struct cloud *c, const struct client *client, struct guest *g)
{
	struct identity who;

	if (!client)
		return MAY_ALL; /* the process's own doings: from the network none comes without a client */
	if (identity_parse(client->identity, &who))
		return -EACCES;
	if (who.kind == IDENTITY_SERVER)
		return gfid_is_null(&client->acts_for) ? MAY_ALL : find_moved(c, &client->acts_for, g);
	if (!identity_is_tenants(&who) || !gfid_is_null(&client->acts_for))
		return -EACCES;
	*g = (struct guest){ .administers = who.kind == IDENTITY_TENANT_ADMIN };
	if (who.kind == IDENTITY_ACCESS && point_find(c, &who, g))
		return -EACCES;
	return find(c, who.name, &g->tenant);
}

bool is_tenants_root(struct cloud *c, const struct gfid *gfid)
{
	bool found;

	pthread_rwlock_rdlock(&c->table_lock);
	found = c->table.count && bsearch(gfid, c->table.owned, c->table.count, sizeof(*c->table.owned), by_gfid);
	pthread_rwlock_unlock(&c->table_lock);
	return found;
}
