/* SPDX-License-Identifier: Apache-2.0 */
/* Byte ranges: who is in whose way, how a new range splits and merges old ones, and who waits for whom. */
#include <fcntl.h>

#include "locks.h"

enum { SEARCH_MAX = 100000 }; /* steps after which a circle of waiters is no longer looked for (Linux: 10) */
enum {
	PAIRS_MAX = 1 << 18
}; /* of locks and of those who wait for one of the same object: each may be compared with each when one is given back */

static bool party_equal(const struct party *a, const struct party *b)
{
	return a->client == b->client && a->owner == b->owner;
}

static bool overlap(const struct lock *a, const struct lock *b)
{
	return a->start <= b->end && b->start <= a->end;
}

static bool conflicts(const struct held *a, const struct held *b)
{
	return overlap(&a->lock, &b->lock) && !party_equal(&a->party, &b->party) &&
	       (a->lock.type == F_WRLCK || b->lock.type == F_WRLCK);
}

/* By its own holder, who has given it back, and what was done under it is still under way. */
static bool taken_again(const struct held *pinned, const struct held *want)
{
	return overlap(&pinned->lock, &want->lock) && party_equal(&pinned->party, &want->party) &&
	       pinned->lock.pid != want->lock.pid;
}

struct held *held_conflict(const struct lock_inode *at, const struct held *want)
{
	struct held *h = at->held[want->lock.kind];

	while (h && !conflicts(h, want))
		h = h->next;
	for (struct pin *p = want->lock.kind == LOCK_POSIX ? at->pin : NULL; p && !h; p = p->next)
		if (conflicts(&p->held, want) || taken_again(&p->held, want))
			h = &p->held;
	return h;
}

bool held_covers(const struct lock_inode *at, const struct held *want)
{
	for (const struct held *h = at->held[want->lock.kind]; h; h = h->next)
		if (party_equal(&h->party, &want->party) && h->lock.type == want->lock.type &&
		    h->lock.start <= want->lock.start && h->lock.end >= want->lock.end)
			return true;
	return false;
}

static bool lies_within(const struct lock *a, const struct lock *b)
{
	return a->start >= b->start && a->end <= b->end;
}

unsigned held_adds(const struct lock_inode *at, const struct held *want)
{
	for (const struct held *h = at->held[want->lock.kind]; h; h = h->next) {
		if (!party_equal(&h->party, &want->party))
			continue;
		if (lies_within(&h->lock, &want->lock) ||
		    (h->lock.type == want->lock.type && lies_within(&want->lock, &h->lock)))
			return 0;
		if (h->lock.start < want->lock.start && h->lock.end > want->lock.end)
			return ADDS_MOST;
	}
	return 1;
}

bool held_gives_back(const struct lock_inode *at, const struct held *want)
{
	for (const struct held *h = at->held[want->lock.kind]; h; h = h->next)
		if (party_equal(&h->party, &want->party) && overlap(&h->lock, &want->lock))
			return true;
	return false;
}

bool held_too_many(const struct lock_inode *at, unsigned adds, bool waits)
{
	return (at->held_count + adds) * (at->waiting + waits) > PAIRS_MAX;
}

bool held_lowers(const struct lock_inode *at, const struct held *want)
{
	if (want->lock.type != F_RDLCK)
		return false;
	for (const struct held *h = at->held[want->lock.kind]; h; h = h->next)
		if (party_equal(&h->party, &want->party) && h->lock.type == F_WRLCK && overlap(&h->lock, &want->lock))
			return true;
	return false;
}

static struct held *take_spare(struct held *spare[2])
{
	for (int i = 0; i < 2; i++) {
		struct held *h = spare[i];

		spare[i] = NULL;
		if (h)
			return h;
	}
	abort(); /* a range splits at most one other: one spare for that and one for the new range */
}

static void insert(struct lock_inode *of, struct held **list, const struct held *value, struct held *spare[2])
{
	struct held *h = take_spare(spare);

	*h = *value;
	h->next = *list;
	*list = h;
	of->held_count++;
	h->party.client->locks++;
	client_count(h->party.client, 1);
}

static void erase(struct lock_inode *of, struct held **at)
{
	struct held *h = *at;

	*at = h->next;
	of->held_count--;
	h->party.client->locks--;
	client_count(h->party.client, -1);
	free(h);
}

/* Cuts the range out of *at, which overlaps it. Returns where to go on. */
static struct held **cut(struct lock_inode *of, struct held **at, const struct lock *range, struct held *spare[2])
{
	struct held *h = *at;

	if (h->lock.start < range->start && h->lock.end > range->end) {
		struct held right = *h;

		right.lock.start = range->end + 1;
		h->lock.end = range->start - 1;
		insert(of, &h->next, &right, spare);
		return &h->next->next;
	}
	if (h->lock.start < range->start)
		h->lock.end = range->start - 1;
	else if (h->lock.end > range->end)
		h->lock.start = range->end + 1;
	else {
		erase(of, at);
		return at;
	}
	return &h->next;
}

static bool touches(const struct lock *a, const struct lock *b)
{
	return overlap(a, b) || (a->end != UINT64_MAX && a->end + 1 == b->start) ||
	       (b->end != UINT64_MAX && b->end + 1 == a->start);
}

bool held_splits(const struct lock_inode *at, const struct held *want)
{
	for (const struct held *h = at->held[want->lock.kind]; h; h = h->next)
		if (party_equal(&h->party, &want->party) && h->lock.start < want->lock.start && h->lock.end > want->lock.end)
			return true;
	return false;
}

void held_apply(struct lock_inode *at, const struct held *want, struct held *spare[2])
{
	struct held **list = &at->held[want->lock.kind], fresh = *want;

	for (struct held **h = list; *h;) {
		if (!party_equal(&(*h)->party, &want->party)) {
			h = &(*h)->next;
		} else if ((*h)->lock.type == want->lock.type && touches(&(*h)->lock, &fresh.lock)) {
			if ((*h)->lock.start < fresh.lock.start)
				fresh.lock.start = (*h)->lock.start;
			if ((*h)->lock.end > fresh.lock.end)
				fresh.lock.end = (*h)->lock.end;
			erase(at, h);
		} else if (overlap(&(*h)->lock, &want->lock)) {
			h = cut(at, h, &want->lock, spare);
		} else {
			h = &(*h)->next;
		}
	}
	if (want->lock.type != F_UNLCK)
		insert(at, list, &fresh, spare);
}

unsigned held_drop(struct lock_inode *at, enum lock_kind kind, bool (*match)(const struct held *, const void *),
		   const void *arg)
{
	unsigned count = 0;

	for (struct held **h = &at->held[kind]; *h;) {
		if (match(*h, arg)) {
			erase(at, h);
			count++;
		} else {
			h = &(*h)->next;
		}
	}
	return count;
}

/* Those who wait in the name of `party` join the queue, each once. Only its own client's are looked at: what others park would use up the steps of who has nothing to do with them. */
static struct waiter *queue_waiters(uint64_t search, const struct party *party, struct waiter *last, unsigned *steps)
{
	for (struct waiter *w = party->client->waiter; w; w = w->client_next) {
		++*steps;
		if (w->want.lock.kind != LOCK_POSIX || w->want.party.owner != party->owner)
			continue;
		if (w->seen == search) /* and with it all others of the party */
			return last;
		w->seen = search;
		w->queue_next = NULL;
		last->queue_next = w;
		last = w;
	}
	return last;
}

/* Breadth first from `me` along "waits for a lock held by". */
bool waits_for_itself(struct locks *p, struct waiter *me)
{
	struct waiter *last = me;
	unsigned steps = 0;

	me->seen = ++p->searches;
	me->queue_next = NULL;
	for (struct waiter *w = me; w; w = w->queue_next) {
		for (struct held *h = w->at->held[LOCK_POSIX]; h; h = h->next) {
			if (++steps > SEARCH_MAX)
				return false;
			if (!conflicts(h, &w->want))
				continue;
			if (w != me && party_equal(&h->party, &me->want.party))
				return true;
			last = queue_waiters(p->searches, &h->party, last, &steps);
		}
	}
	return false;
}
