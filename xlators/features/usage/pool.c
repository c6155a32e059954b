/* SPDX-License-Identifier: Apache-2.0 */
/* The bricks of one volume, which this process serves: the limit of an account is for what all of them have of it together. Who claims holds the pool's lock, then
 * that of one ledger after the other; what is charged rises under claims only, so what was added up a moment ago is no less than what there is. Each brick starts by itself:
 * while one is missing nobody knows what it has, and nothing is claimed of what has a limit. */
#include <errno.h>

#include "usage.h"

struct pool {
	char *name;
	pthread_mutex_t lock; /* taken before a ledger's; guards what follows */
	struct ledger *first;
	unsigned ledgers, whole; /* how many there are, and are to be */
	struct pool *next;
};

static struct {
	pthread_mutex_t lock; /* taken before a pool's */
	struct pool *first;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct pool *make(const char *name)
{
	struct pool *p = calloc(1, sizeof(*p));

	if (!p || !(p->name = strdup(name))) {
		free(p);
		return NULL;
	}
	pthread_mutex_init(&p->lock, NULL);
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
	pthread_mutex_destroy(&p->lock);
	free(p->name);
	free(p);
}

int pool_join(struct ledger *l, const char *name, unsigned bricks)
{
	struct ledger **last;
	struct pool *p;

	pthread_mutex_lock(&all.lock);
	for (p = all.first; p && strcmp(p->name, name) != 0; p = p->next)
		;
	p = p ? p : make(name);
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

static int64_t part(int64_t whole, unsigned parts, unsigned number)
{
	return whole > 0 ? whole / parts + (number < whole % parts) : 0;
}

struct amount pool_share(struct ledger *l, struct amount whole)
{
	unsigned number = 0, parts = l->pool ? l->pool->whole : 1;

	for (const struct ledger *at = l->pool ? l->pool->first : l; at != l; at = at->next)
		number++;
	return (struct amount){ part(whole.bytes, parts, number), part(whole.inodes, parts, number) };
}
