/* SPDX-License-Identifier: Apache-2.0 */
/* The bricks of one volume, which this process serves: the limit of an account is for what all of them have of it together. Who claims holds the pool's lock, then
 * that of one ledger after the other; what is charged rises under claims only, so what was added up a moment ago is no less than what there is. Each brick starts by itself:
 * while one is missing nobody knows what it has, and nothing is claimed of what has a limit.
 *
 * If the volume has bricks at other servers, too, all that is here together stays within the allotment that this server has (allot.h), which stratusd sees to.
 *
 * A member of a replica set stands in a pool by itself. If the volume has several sets each has an allotment; the member that decides about limits in the set's view keeps to it. */
#include <errno.h>

#include "by-base.h"
#include "usage.h"

struct tenant { /* whose allotment is of interest, as something was to grow */
	uint64_t base;
	struct allot_own own;
};
struct pool {
	char *name;
	pthread_mutex_t lock; /* taken before a ledger's; guards what follows */
	struct ledger *first;
	unsigned ledgers, whole; /* how many there are, and are to be */
	char *unit;		 /* the replica set; NULL: there is none */
	uint64_t term;		 /* of it: the view in which this member decides; 0: it does not */
	atomic_uint servers;	 /* that have bricks of the volume, or its sets; 1: there are no allotments */
	struct tenant *tenant;	 /* by base */
	size_t tenants;
	struct soft_list soft; /* of those that have a soft limit */
	struct allot_pool listed;
	bool is_listed;
	struct pool *next;
};

static struct {
	pthread_mutex_t lock; /* taken before a pool's */
	struct pool *first;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct pool *make(const char *name, const char *unit)
{
	struct pool *p = calloc(1, sizeof(*p));

	if (!p || !(p->name = strdup(name)) || (unit && !(p->unit = strdup(unit)))) {
		free(p ? p->name : NULL);
		free(p);
		return NULL;
	}
	pthread_mutex_init(&p->lock, NULL);
	p->servers = 1;
	p->next = all.first;
	all.first = p;
	return p;
}

static void drop(struct pool *p)
{
	struct pool **at = &all.first;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	if (p->is_listed)
		allot_pool_remove(&p->listed);
	free(p->tenant);
	free(p->soft.at);
	pthread_mutex_destroy(&p->lock);
	free(p->name);
	free(p->unit);
	free(p);
}

static int join(struct ledger *l, const char *name, const char *unit, unsigned bricks)
{
	struct ledger **last;
	struct pool *p;

	pthread_mutex_lock(&all.lock);
	for (p = unit ? NULL : all.first; p && (p->unit || strcmp(p->name, name) != 0); p = p->next)
		;
	p = p ? p : make(name, unit);
	if (p) {
		pthread_mutex_lock(&p->lock);
		for (last = &p->first; *last; last = &(*last)->next)
			;
		*last = l;
		l->next = NULL;
		l->pool = p;
		p->ledgers++;
		p->whole = bricks;
		pthread_mutex_unlock(&p->lock);
	}
	pthread_mutex_unlock(&all.lock);
	return p ? 0 : -ENOMEM;
}

int pool_join(struct ledger *l, const char *name, unsigned bricks)
{
	return join(l, name, NULL, bricks);
}

int pool_join_set(struct ledger *l, const char *name, const char *set)
{
	return join(l, name, set, 1);
}

/* Each of them is told, so the last word is the newest. */
void pool_resize(struct ledger *l, unsigned bricks)
{
	if (!l->pool)
		return;
	pthread_mutex_lock(&l->pool->lock);
	l->pool->whole = bricks;
	pthread_mutex_unlock(&l->pool->lock);
}

void pool_leave(struct ledger *l)
{
	struct pool *p = l->pool;
	struct ledger **at;

	if (!p)
		return;
	pthread_mutex_lock(&all.lock);
	pthread_mutex_lock(&p->lock);
	for (at = &p->first; *at != l; at = &(*at)->next)
		;
	*at = l->next;
	p->ledgers--;
	l->pool = NULL;
	pthread_mutex_unlock(&p->lock);
	if (!p->ledgers)
		drop(p);
	pthread_mutex_unlock(&all.lock);
}

bool pool_enter(struct ledger *l, uint64_t base, struct amount *others)
{
	struct amount sum = { 0 };

	*others = sum;
	if (!l->pool)
		return true;
	pthread_mutex_lock(&l->pool->lock);
	for (struct ledger *other = l->pool->first; other; other = other->next) {
		struct amount a = other == l ? (struct amount){ 0 } : ledger_taken(other, base);

		sum.bytes += a.bytes;
		sum.inodes += a.inodes;
	}
	*others = sum;
	return l->pool->ledgers >= l->pool->whole;
}

void pool_exit(struct ledger *l)
{
	if (l->pool)
		pthread_mutex_unlock(&l->pool->lock);
}

void pool_each(struct ledger *l, void (*fn)(struct ledger *, void *), void *arg)
{
	if (!l->pool)
		fn(l, arg);
	for (struct ledger *at = l->pool ? l->pool->first : NULL; at; at = at->next)
		fn(at, arg);
}

/* ---- allotments ---- */

static struct tenant *find_tenant(struct pool *p, uint64_t base, size_t *place)
{
	*place = place_by_base(p->tenant, p->tenants, sizeof(*p->tenant), base);
	return *place < p->tenants && p->tenant[*place].base == base ? &p->tenant[*place] : NULL;
}

static uint64_t fresh_number(void)
{
	struct gfid random;
	uint64_t number;

	gfid_create(&random);
	memcpy(&number, random.bytes + 8, sizeof(number));
	number = number >> 1 | 1;
	return number;
}

/* NULL: memory is short, so it has no allotment. */
static struct tenant *need_tenant(struct pool *p, uint64_t base)
{
	size_t place;
	struct tenant *t = find_tenant(p, base, &place), *grown;

	if (t)
		return t;
	grown = realloc(p->tenant, (p->tenants + 1) * sizeof(*grown));
	if (!grown)
		return NULL;
	p->tenant = grown;
	memmove(grown + place + 1, grown + place, (p->tenants - place) * sizeof(*grown));
	p->tenants++;
	grown[place] =
		(struct tenant){ .base = base,
				 .own = { .incarnation = fresh_number(), .term = p->term, .silent = p->unit && !p->term } };
	return &grown[place];
}

/* Of who has no limit any more nothing is remembered: meanwhile it grows as it likes, and starts anew if it gets one. */
static void forget_tenant(struct pool *p, uint64_t base)
{
	size_t place;

	if (!find_tenant(p, base, &place))
		return;
	p->tenants--;
	memmove(p->tenant + place, p->tenant + place + 1, (p->tenants - place) * sizeof(*p->tenant));
}

/* What each server keeps free of its allotment: together what is kept free of the limit. */
struct amount pool_keeps(const struct ledger *l, struct amount kept)
{
	unsigned servers = l->pool ? l->pool->servers : 1;

	return (struct amount){ (kept.bytes + servers - 1) / servers, (kept.inodes + servers - 1) / servers };
}

static void with_tenant(void *arg, uint64_t base,
			void (*fn)(struct allot_own *, struct amount, struct amount, struct amount, void *), void *fn_arg)
{
	struct amount taken = { 0 }, limit = { 0 }, keep = { 0 };
	struct pool *p = arg;
	struct tenant *t;

	pthread_mutex_lock(&p->lock);
	for (struct ledger *l = p->first; l; l = l->next) {
		taken = amount_sum(taken, ledger_taken(l, base));
		ledger_limit(l, base, &limit, &keep);
	}
	if (!limit.bytes && !limit.inodes)
		forget_tenant(p, base);
	else if (p->ledgers >= p->whole && p->servers > 1 && (t = need_tenant(p, base)))
		fn(&t->own, taken, keep, limit, fn_arg);
	pthread_mutex_unlock(&p->lock);
}

static size_t list_tenants(void *arg, uint64_t *base, size_t max)
{
	struct pool *p = arg;
	size_t count;

	pthread_mutex_lock(&p->lock);
	for (count = 0; count < p->tenants && count < max; count++)
		base[count] = p->tenant[count].base;
	pthread_mutex_unlock(&p->lock);
	return count;
}

static uint64_t term_of(void *arg)
{
	struct pool *p = arg;
	uint64_t term;

	pthread_mutex_lock(&p->lock);
	term = p->term;
	pthread_mutex_unlock(&p->lock);
	return term;
}

struct soft_list *pool_soft(struct ledger *l)
{
	return pool_has_allotments(l) ? &l->pool->soft : NULL;
}

static void put_into_effect(struct pool *p, struct soft_own *own)
{
	static const bool told[2];

	for (struct ledger *l = own->changed ? p->first : NULL; l; l = l->next)
		ledger_set_over(l, own->base, own->over, told);
	own->changed = false;
}

static void with_soft(void *arg, void (*fn)(struct soft_list *, void *), void *fn_arg)
{
	struct pool *p = arg;

	pthread_mutex_lock(&p->lock);
	fn(&p->soft, fn_arg);
	for (size_t i = 0; i < p->soft.count; i++)
		put_into_effect(p, &p->soft.at[i]);
	pthread_mutex_unlock(&p->lock);
}

/* Who had all of a limit begins with what it is given now, and the other way round. */
void pool_spread(struct ledger *l, unsigned servers)
{
	struct pool *p = l->pool;
	bool list, unlist;

	if (!p)
		return;
	pthread_mutex_lock(&all.lock);
	pthread_mutex_lock(&p->lock);
	if ((p->servers > 1) != (servers > 1))
		p->tenants = p->soft.count = 0;
	p->servers = servers;
	list = servers > 1 && !p->is_listed;
	unlist = servers <= 1 && p->is_listed;
	p->is_listed = servers > 1;
	pthread_mutex_unlock(&p->lock);
	if (list) {
		p->listed = (struct allot_pool){ .name = p->name,
						 .unit = p->unit,
						 .pool = p,
						 .with = with_tenant,
						 .list = list_tenants,
						 .term = term_of,
						 .with_soft = with_soft };
		allot_pool_add(&p->listed);
	}
	if (unlist)
		allot_pool_remove(&p->listed);
	pthread_mutex_unlock(&all.lock);
}

/* What the store says is newer than the limits, which change after it, by the same commit. */
void pool_doubt(struct ledger *l)
{
	if (!pool_has_allotments(l))
		return;
	pthread_mutex_lock(&l->pool->lock);
	for (size_t i = 0; i < l->pool->tenants; i++)
		l->pool->tenant[i].own.doubted = true;
	pthread_mutex_unlock(&l->pool->lock);
	allot_wake();
}

bool pool_has_allotments(const struct ledger *l)
{
	return l->pool && l->pool->servers > 1;
}

bool pool_is_of_set(const struct ledger *l)
{
	return pool_has_allotments(l) && l->pool->unit;
}

void pool_decides(struct ledger *l, uint64_t term)
{
	struct pool *p = l->pool;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->term = term;
	for (size_t i = 0; i < p->tenants; i++)
		allot_decides(&p->tenant[i].own, fresh_number(), term);
	pthread_mutex_unlock(&p->lock);
	if (term && pool_has_allotments(l))
		allot_wake();
}

bool pool_has_decider(struct ledger *l)
{
	return term_of(l->pool);
}

/* What is not known yet is nothing. */
struct amount pool_known(struct ledger *l, uint64_t base)
{
	struct tenant *t = need_tenant(l->pool, base);

	return t ? t->own.may : (struct amount){ 0 };
}

bool pool_may(struct ledger *l, uint64_t base, struct amount limit, struct amount *may)
{
	struct tenant *t = need_tenant(l->pool, base);

	return t && allot_may(&t->own, limit, may);
}

uint64_t pool_wait(struct ledger *l, uint64_t base, struct amount more)
{
	uint64_t ticket = 0;
	struct tenant *t;

	if (!pool_has_allotments(l))
		return 0;
	pthread_mutex_lock(&l->pool->lock);
	t = need_tenant(l->pool, base);
	if (t) {
		t->own.waiting = amount_sum(t->own.waiting, more);
		ticket = ++t->own.asked;
	}
	pthread_mutex_unlock(&l->pool->lock);
	allot_wake();
	return ticket;
}

enum pool_answer pool_answer(struct ledger *l, uint64_t base, uint64_t *ticket)
{
	enum { HEARD_NS = 2000000000 };
	enum pool_answer answer = POOL_SILENT;
	struct tenant *t;
	size_t place;

	if (!pool_has_allotments(l))
		return answer;
	pthread_mutex_lock(&l->pool->lock);
	t = find_tenant(l->pool, base, &place);
	if (t && t->own.refused >= *ticket)
		answer = POOL_REFUSED;
	else if (t && t->own.decided >= *ticket)
		*ticket = ++t->own.asked;
	if (answer == POOL_SILENT && t && t->own.last_heard_ns && clock_ns() < t->own.last_heard_ns + HEARD_NS)
		answer = POOL_HEARD;
	pthread_mutex_unlock(&l->pool->lock);
	return answer;
}

/* It may have been forgotten meanwhile. */
void pool_unwait(struct ledger *l, uint64_t base, struct amount more)
{
	struct tenant *t;
	size_t place;

	if (!pool_has_allotments(l))
		return;
	pthread_mutex_lock(&l->pool->lock);
	t = find_tenant(l->pool, base, &place);
	if (t && t->own.waiting.bytes >= more.bytes && t->own.waiting.inodes >= more.inodes) {
		t->own.waiting.bytes -= more.bytes;
		t->own.waiting.inodes -= more.inodes;
	}
	pthread_mutex_unlock(&l->pool->lock);
}

/* ---- shares ---- */

static int64_t part(int64_t whole, unsigned parts, unsigned number)
{
	return whole > 0 ? whole / parts + (number < whole % parts) : 0;
}

/* Of which of the sets, as their ids end. */
static unsigned number_of(const struct pool *p)
{
	const char *dot = p->unit ? strrchr(p->unit, '.') : NULL;

	return dot ? (unsigned)strtoul(dot + 1, NULL, 10) : 0;
}

/* From where that server's part begins to where it ends, if all stand one behind the other: whole units, which are the limit together. */
static int64_t slice(int64_t limit, int64_t unit, int64_t may, int64_t before, int64_t total, const struct allot_own *own)
{
	int64_t rest = limit > total ? (limit - total) / (int64_t)own->units : 0, begin = before + rest * own->number;
	int64_t end = own->number + 1 == own->units && total < limit ? limit : begin + may + rest;

	return limit ? end / unit * unit - begin / unit * unit : 0;
}

/* Of what nobody was allotted each server tells its part. One that is in no document tells nothing, if there is one. */
static struct amount allotted_share(struct ledger *l, struct tenant *t, struct amount limit)
{
	const struct allot_own *own = &t->own;

	if (!own->taken_up && own->asked == own->decided) /* df(1) is to tell what is true, though nothing is to grow */
		t->own.asked++;
	if (!own->seen)
		return (struct amount){ part(limit.bytes, l->pool->servers, number_of(l->pool)),
					part(limit.inodes, l->pool->servers, number_of(l->pool)) };
	if (!own->units)
		return (struct amount){ 0 };
	return (struct amount){
		slice(limit.bytes, CHARGE_UNIT, own->may.bytes, own->before.bytes, own->total.bytes, own),
		slice(limit.inodes, 1, own->may.inodes, own->before.inodes, own->total.inodes, own),
	};
}

struct amount pool_server_share(struct ledger *l, uint64_t base, struct amount limit, struct amount stops)
{
	unsigned servers = l->pool ? l->pool->servers : 1;
	struct amount equal = { part(limit.bytes, servers, 0), part(limit.inodes, servers, 0) }, mine = equal;
	struct tenant *t;

	if (servers <= 1)
		return limit;
	if ((!stops.bytes || !stops.inodes) && (t = need_tenant(l->pool, base)))
		mine = allotted_share(l, t, limit);
	return (struct amount){ stops.bytes ? equal.bytes : mine.bytes, stops.inodes ? equal.inodes : mine.inodes };
}

struct amount pool_share(struct ledger *l, struct amount whole)
{
	unsigned number = 0, parts = l->pool ? l->pool->whole : 1;

	for (const struct ledger *at = l->pool ? l->pool->first : l; at != l; at = at->next)
		number++;
	return (struct amount){ part(whole.bytes / CHARGE_UNIT, parts, number) * CHARGE_UNIT +
					(number || whole.bytes < 0 ? 0 : whole.bytes % CHARGE_UNIT),
				part(whole.inodes, parts, number) };
}
