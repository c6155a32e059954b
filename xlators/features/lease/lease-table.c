/* SPDX-License-Identifier: Apache-2.0 */
/* Who was told of which object. Entries are forgotten in two generations, each of LEASE_KEPT_MS; what does not fit is not leased. */
#include "lease-table.h"

enum { SIZE_LEAST = 64, SIZE_MOST = 8192 };
#define MANY UINT64_MAX

void table_init(struct lease_table *t)
{
	for (unsigned i = 0; i < TABLE_SHARDS; i++) {
		pthread_mutex_init(&t->shard[i].lock, NULL);
		t->shard[i].began_ns = clock_ns();
	}
	atomic_store(&t->time, 1);
}

void table_free(struct lease_table *t)
{
	for (unsigned i = 0; i < TABLE_SHARDS; i++) {
		pthread_mutex_destroy(&t->shard[i].lock);
		free(t->shard[i].now.at);
		free(t->shard[i].before.at);
	}
}

static struct shard_of *shard_for(struct lease_table *t, uint64_t hash)
{
	return &t->shard[hash % TABLE_SHARDS];
}

static struct changes *changes_for(struct shard_of *s, uint64_t hash)
{
	return &s->changes[hash / TABLE_SHARDS % SHARD_BUCKETS];
}

/* ---- entries, with the shard's lock held ---- */

static bool is_null(const struct gfid *g)
{
	static const struct gfid null;

	return gfid_equal(g, &null);
}

/* Where it is, or would be; NULL: there is no table. Never full. */
static struct entry *entry_of(const struct entries *e, const struct gfid *g, uint64_t hash)
{
	unsigned i = e->size ? hash / TABLE_SHARDS % e->size : 0;

	while (e->size && !is_null(&e->at[i].gfid) && !gfid_equal(&e->at[i].gfid, g))
		i = (i + 1) % e->size;
	return e->size ? &e->at[i] : NULL;
}

static bool grow(struct entries *e)
{
	struct entries more = { .size = e->size ? 2 * e->size : SIZE_LEAST, .used = e->used };

	if (more.size > SIZE_MOST)
		return false;
	more.at = calloc(more.size, sizeof(*more.at));
	if (!more.at)
		return false;
	for (unsigned i = 0; i < e->size; i++)
		if (!is_null(&e->at[i].gfid))
			*entry_of(&more, &e->at[i].gfid, gfid_hash(&e->at[i].gfid)) = e->at[i];
	free(e->at);
	*e = more;
	return true;
}

static bool is_anothers(const struct entry *e, uint32_t root)
{
	return e && e->told.bits && e->told.root && root && e->told.root != root;
}

static bool add(struct entries *e, const struct gfid *g, uint64_t hash, struct lessee by)
{
	struct entry *at = entry_of(e, g, hash);

	if (!at || is_null(&at->gfid)) {
		if (4 * (e->used + 1) > 3 * e->size && !grow(e))
			return false;
		at = entry_of(e, g, hash);
		at->gfid = *g;
		e->used++;
	}
	at->told.root = at->told.bits && !by.root ? at->told.root : by.root;
	at->told.bits |= client_bit(by.number);
	return true;
}

static void turn(struct shard_of *s)
{
	uint64_t now = clock_ns();

	if (now < s->began_ns + LEASE_KEPT_MS * 1000000ull)
		return;
	free(s->before.at);
	s->before = s->now;
	s->now = (struct entries){ 0 };
	s->began_ns = now;
}

static void add_told(struct told *sum, const struct entries *e, const struct gfid *g, uint64_t hash)
{
	const struct entry *at = entry_of(e, g, hash);

	if (!at || !at->told.bits)
		return;
	sum->bits |= at->told.bits;
	sum->root = at->told.root ? at->told.root : sum->root;
}

static void keep_bits(const struct entries *e, const struct gfid *g, uint64_t hash, uint64_t bits)
{
	struct entry *at = entry_of(e, g, hash);

	if (at)
		at->told.bits &= bits;
}

/* ---- changes ---- */

static void note_change(struct lease_table *t, struct changes *c, uint64_t client)
{
	uint64_t now = atomic_fetch_add(&t->time, 1) + 1;

	if (c->last_by != client || !client) {
		c->other = c->last;
		c->last_by = client;
	}
	c->last = now;
}

static bool others_changed(const struct changes *c, uint64_t client, uint64_t since)
{
	return (c->running && c->by != client) || (c->last_by == client ? c->other : c->last) > since;
}

bool table_lease(struct lease_table *t, const struct gfid *g, struct lessee by, uint64_t since)
{
	uint64_t hash = gfid_hash(g);
	struct shard_of *s = shard_for(t, hash);
	bool yes;

	pthread_mutex_lock(&s->lock);
	turn(s);
	yes = !others_changed(changes_for(s, hash), by.number, since) && !is_anothers(entry_of(&s->now, g, hash), by.root) &&
	      !is_anothers(entry_of(&s->before, g, hash), by.root) && add(&s->now, g, hash, by);
	pthread_mutex_unlock(&s->lock);
	return yes;
}

struct told table_change(struct lease_table *t, const struct gfid *g, uint64_t client)
{
	uint64_t hash = gfid_hash(g);
	struct shard_of *s = shard_for(t, hash);
	struct changes *c = changes_for(s, hash);
	struct told told = { 0 };

	pthread_mutex_lock(&s->lock);
	c->by = c->running++ && c->by != client ? MANY : client;
	if (!client)
		c->by = MANY;
	note_change(t, c, client);
	add_told(&told, &s->now, g, hash);
	add_told(&told, &s->before, g, hash);
	pthread_mutex_unlock(&s->lock);
	return told;
}

void table_clear(struct lease_table *t, const struct gfid *g, uint64_t client)
{
	uint64_t hash = gfid_hash(g);
	struct shard_of *s = shard_for(t, hash);

	pthread_mutex_lock(&s->lock);
	keep_bits(&s->now, g, hash, client_bit(client));
	keep_bits(&s->before, g, hash, client_bit(client));
	pthread_mutex_unlock(&s->lock);
}

void table_changed(struct lease_table *t, const struct gfid *g, uint64_t client)
{
	uint64_t hash = gfid_hash(g);
	struct shard_of *s = shard_for(t, hash);
	struct changes *c = changes_for(s, hash);

	pthread_mutex_lock(&s->lock);
	note_change(t, c, client);
	c->running--;
	pthread_mutex_unlock(&s->lock);
}

size_t table_count(struct lease_table *t)
{
	size_t count = 0;

	for (unsigned i = 0; i < TABLE_SHARDS; i++) {
		pthread_mutex_lock(&t->shard[i].lock);
		count += t->shard[i].now.used + t->shard[i].before.used;
		pthread_mutex_unlock(&t->shard[i].lock);
	}
	return count;
}
