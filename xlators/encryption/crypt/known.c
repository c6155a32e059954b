/* SPDX-License-Identifier: Apache-2.0 */
/* Which slot fits which block, as far as this mount has written the blocks itself: who replaces them whole need not read what he replaces.
 *
 * What was written under the lock is so as long as it is held. From the time before, the slots are compared with those that are there now, a page
 * for each group: who changes a block changes its slots first, with a nonce that nobody else has; but for holes, which fit no slot, and are "old"
 * whichever of the slots is replaced. */
#include "write.h"

enum { PLACES = 4096 }; /* groups of which something is kept, of all files: 18 MiB at most */

void known_finish(struct crypt *c)
{
	for (unsigned i = 0; i < PLACES && c->known; i++)
		free(c->known[i]);
	free(c->known);
	pthread_mutex_destroy(&c->known_lock);
}

/* With the lock. */
static struct known **place_of(const struct crypt *c, uint64_t node, uint64_t group)
{
	return &c->known[(node * 0x9e3779b97f4a7c15 + group) % PLACES];
}

static struct known *take(struct crypt *c, const struct node *n, uint64_t group)
{
	struct known **place, *known = NULL;

	pthread_mutex_lock(&c->known_lock);
	place = c->known ? place_of(c, n->number, group) : &known;
	if (*place && (*place)->node == n->number && (*place)->group == group) {
		known = *place;
		*place = NULL;
	}
	pthread_mutex_unlock(&c->known_lock);
	return known;
}

static void put(struct crypt *c, struct known *known)
{
	struct known **place, *was = known;

	pthread_mutex_lock(&c->known_lock);
	if (!c->known)
		c->known = calloc(PLACES, sizeof(struct known *));
	if (c->known) {
		place = place_of(c, known->node, known->group);
		was = *place;
		*place = known;
	}
	pthread_mutex_unlock(&c->known_lock);
	free(was);
}

void known_forget_small(struct crypt *c, const struct node *n)
{
	for (uint64_t group = 0; group < KNOWN_SMALL && group * GROUP * BLOCK < n->size; group++)
		free(take(c, n, group));
}

/* ---- what was there at the time of another lock ---- */

struct checking {
	struct aside aside;
	struct change *c;
	struct buffer *page;
};

static int read_page(struct op *o, void *arg)
{
	struct checking *k = arg;

	return read_sealed(o, slots_at(k->c->known->group * GROUP), BLOCK, &k->page);
}

static void compare(struct known *known, struct buffer *page, uint64_t hold)
{
	size_t size;
	const uint8_t *bytes = buffer_bytes(page, &size);

	for (size_t i = 0; i < GROUP; i++)
		if (known->which[i] != KNOWN_NOT &&
		    (size < (i + 1) * SLOT_PAIR || memcmp(bytes + i * SLOT_PAIR, known->pairs + i * SLOT_PAIR, SLOT_PAIR) != 0))
			known->which[i] = KNOWN_NOT;
	known->hold = hold;
}

static int check(struct op *o, struct checking *k, unsigned n)
{
	int err = 0, one;

	for (unsigned i = 1; i < n; i++)
		aside_start(&k[i].aside, o, read_page, &k[i]);
	for (unsigned i = 0; i < n; i++) {
		one = i ? aside_end(&k[i].aside, o) : read_page(o, &k[i]);
		if (!one)
			compare(k[i].c->known, k[i].page, o->n->hold);
		buffer_unref(k[i].page);
		err = err ? err : one;
	}
	return err;
}

int known_get(struct op *o, struct change *c, unsigned n)
{
	struct checking old[TOGETHER];
	unsigned olds = 0;

	for (unsigned i = 0; i < n; i++) {
		c[i].known = c[i].existing || c[i].first % GROUP ? take(o->c, o->n, c[i].first / GROUP) : NULL;
		if (!c[i].known || c[i].known->hold == o->n->hold)
			continue;
		if (change_knows_some(&c[i])) {
			old[olds++] = (struct checking){ .c = &c[i] };
		} else {
			free(c[i].known);
			c[i].known = NULL;
		}
	}
	return check(o, old, olds);
}

void known_learn(struct op *o, struct change *c)
{
	struct known *known = c->known ?: malloc(sizeof(*known));

	if (!known)
		return;
	if (!c->known)
		memset(known->which, KNOWN_NOT, sizeof(known->which));
	c->known = NULL;
	known->node = o->n->number;
	known->group = c->first / GROUP;
	known->hold = o->n->hold;
	for (unsigned i = 0; i < c->count; i++) {
		unsigned at = (unsigned)(c->first + i) % GROUP;

		memcpy(known->pairs + at * (size_t)SLOT_PAIR, change_pair(c, i), SLOT_PAIR);
		known->which[at] = c->which[i];
	}
	put(o->c, known);
}
