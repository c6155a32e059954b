/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts of directories: the hash, the three kinds of change, the bytes. */
#include "layout.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include <xxhash.h>

enum { FORMAT = 1, FLAG_MOVING = 1 };
static const uint64_t version_max = 1ull << 62; /* far from where it would wrap, whatever a disk says */

/* ---- numbers in bytes ---- */

static uint64_t get(const uint8_t *at, unsigned size)
{
	uint64_t value = 0;

	while (size-- > 0)
		value = value << 8 | *at++;
	return value;
}

static void put(uint8_t *at, uint64_t value, unsigned size)
{
	while (size-- > 0) {
		at[size] = (uint8_t)value;
		value >>= 8;
	}
}

/* ---- the hash ---- */

/* ".NAME.Ab12Cd" as rsync(1) makes it: how much of it NAME is; 0: it is none. */
static size_t rsync_name(const char *name, size_t length)
{
	enum { RANDOM = 6 };

	if (length < RANDOM + 3 || name[0] != '.' || name[length - RANDOM - 1] != '.')
		return 0;
	for (size_t i = length - RANDOM; i < length; i++)
		if (!((name[i] >= '0' && name[i] <= '9') || (name[i] >= 'A' && name[i] <= 'Z') ||
		      (name[i] >= 'a' && name[i] <= 'z')))
			return 0;
	return length - RANDOM - 2;
}

static size_t without_suffix(const char *name, size_t length)
{
	static const char *const suffixes[] = { "~", ".tmp", ".new", ".part", ".lock" };

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		size_t suffix = strlen(suffixes[i]);

		if (length > suffix && !memcmp(name + length - suffix, suffixes[i], suffix))
			return length - suffix;
	}
	return length;
}

uint64_t layout_key(const struct gfid *directory, const char *name)
{
	size_t length = strlen(name), inner = rsync_name(name, length);
	uint64_t seed = get(directory->bytes, 8) ^ get(directory->bytes + 8, 8);

	return inner ? XXH3_64bits_withSeed(name + 1, inner, seed)
		     : XXH3_64bits_withSeed(name, without_suffix(name, length), seed);
}

uint64_t layout_key_object(const struct gfid *gfid)
{
	return XXH3_64bits(gfid->bytes, sizeof(gfid->bytes));
}

static uint64_t draw(uint64_t key, uint32_t id)
{
	uint8_t bytes[8];

	put(bytes, key, 8);
	return XXH3_64bits_withSeed(bytes, sizeof(bytes), id);
}

/* log2(1 + i / STEPS) with FRACTION bits behind the point. Integers only: floating point may differ between machines. */
enum { FRACTION = 42, STEP_BITS = 12, STEPS = 1 << STEP_BITS };
static uint64_t log_step[STEPS + 1];

/* Squaring a number of [1, 2) gives the next bit of its logarithm: whether it leaves the interval. */
static uint64_t log_exact(unsigned step)
{
	uint64_t x = (1ull << 63) + ((uint64_t)step << (63 - STEP_BITS)), log = 0;

	for (int i = 0; i < FRACTION; i++) {
		unsigned __int128 square = (unsigned __int128)x * x;
		bool bit = square >> 127;

		x = (uint64_t)(square >> (bit ? 64 : 63));
		log = log << 1 | bit;
	}
	return log;
}

__attribute__((constructor)) static void fill_table(void)
{
	for (unsigned i = 0; i < STEPS; i++)
		log_step[i] = log_exact(i);
	log_step[STEPS] = 1ull << FRACTION;
}

/* -log2((hash + 1) / 2^64) with FRACTION bits behind the point, less than 2^48; never rises with the hash. Between two steps it is a
 * line: wrong by 1e-8 at most. */
static uint64_t distance(uint64_t hash)
{
	enum { REST_BITS = 63 - STEP_BITS, REST_KEPT = 21 };
	uint64_t x = hash + 1;
	unsigned power, step;
	uint64_t rest, log;

	if (!x)
		return 0;
	power = 63 - (unsigned)__builtin_clzll(x);
	x <<= 63 - power;
	step = x >> REST_BITS & (STEPS - 1);
	rest = (x & ((1ull << REST_BITS) - 1)) >> (REST_BITS - REST_KEPT);
	log = log_step[step] + ((log_step[step + 1] - log_step[step]) * rest >> REST_KEPT);
	return ((uint64_t)(64 - power) << FRACTION) - log;
}

struct bid {
	uint64_t hash, distance;
	uint32_t id;
	uint16_t weight;
};

/* By distance / weight, then by hash. With equal weights the hashes alone say the same. */
static bool better(struct bid *a, struct bid *b)
{
	if (a->weight != b->weight) {
		uint64_t left, right;

		if (a->distance == UINT64_MAX)
			a->distance = distance(a->hash);
		if (b->distance == UINT64_MAX)
			b->distance = distance(b->hash);
		left = a->distance * b->weight;
		right = b->distance * a->weight;
		if (left != right)
			return left < right;
	}
	return a->hash != b->hash ? a->hash > b->hash : a->id < b->id;
}

static struct bid bid_of(const struct layout_member *m, uint64_t key, bool next)
{
	return (struct bid){ draw(key, m->id), UINT64_MAX, m->id, next ? m->next : m->weight };
}

const struct layout_member *member_best(const struct layout_member *m, unsigned n, uint64_t key, bool next)
{
	const struct layout_member *best = NULL;
	struct bid first;

	for (; n > 0; m++, n--) {
		struct bid b;

		if (!(next ? m->next : m->weight))
			continue;
		b = bid_of(m, key, next);
		if (best && !better(&b, &first))
			continue;
		best = m;
		first = b;
	}
	return best;
}

unsigned members_rank(const struct layout_member *m, unsigned n, uint64_t key, unsigned want, unsigned *index)
{
	unsigned found = 0;
	struct bid last;

	while (found < want) {
		struct bid first;
		unsigned best = n;

		for (unsigned i = 0; i < n; i++) {
			struct bid b = bid_of(&m[i], key, false);

			if (!b.weight || (found && !better(&last, &b)) || (best < n && !better(&b, &first)))
				continue;
			best = i;
			first = b;
		}
		if (best == n)
			break;
		index[found++] = best;
		last = first;
	}
	return found;
}

/* ---- who has what ---- */

void layout_single(struct layout *l, uint32_t id)
{
	*l = (struct layout){ .home = id, .count = 1, .member = { { id, 1, 1 } } };
}

void layout_implied(struct layout *l, uint32_t from, unsigned count)
{
	assert(count > 0 && count <= LAYOUT_MEMBERS_MAX);
	*l = (struct layout){ .home = from, .count = count };
	for (unsigned i = 0; i < count; i++)
		l->member[i] = (struct layout_member){ from + i, 1, 1 };
}

const struct layout_member *layout_owner(const struct layout *l, uint64_t key)
{
	return l->count == 1 ? l->member : member_best(l->member, l->count, key, false);
}

const struct layout_member *layout_owner_next(const struct layout *l, uint64_t key)
{
	return l->count == 1 ? l->member : member_best(l->member, l->count, key, true);
}

/* Where the id is, or belongs. */
static unsigned place_of(const struct layout *l, uint32_t id)
{
	unsigned low = 0, high = l->count;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (l->member[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct layout_member *layout_find(const struct layout *l, uint32_t id)
{
	unsigned at = place_of(l, id);

	return at < l->count && l->member[at].id == id ? &l->member[at] : NULL;
}

bool layout_is_source(const struct layout *l, const struct layout_member *m)
{
	bool growing = false, leaving = false;

	for (unsigned i = 0; i < l->count; i++) {
		growing |= l->member[i].next > l->member[i].weight;
		leaving |= !l->member[i].next;
	}
	return l->moving && (growing && !leaving ? m->next == m->weight : m->next < m->weight);
}

/* ---- changes ---- */

static int begin(struct layout *l, struct layout *changed)
{
	changed->version++;
	changed->moving = true;
	if (!layout_sound(changed))
		return -EINVAL;
	*l = *changed;
	return 0;
}

static int add(struct layout *l, uint32_t id, uint16_t weight)
{
	unsigned at = place_of(l, id);

	if (!weight || (at < l->count && l->member[at].id == id))
		return -EINVAL;
	if (l->count == LAYOUT_MEMBERS_MAX)
		return -E2BIG;
	memmove(&l->member[at + 1], &l->member[at], (l->count - at) * sizeof(l->member[0]));
	l->member[at] = (struct layout_member){ id, 0, weight };
	l->count++;
	return 0;
}

int layout_grow(struct layout *l, const struct layout_member *more, unsigned n)
{
	struct layout changed = *l;
	int err = l->moving ? -EBUSY : n ? 0 : -EINVAL;

	for (unsigned i = 0; i < n && !err; i++)
		err = add(&changed, more[i].id, more[i].weight);
	return err ? err : begin(l, &changed);
}

int layout_shrink(struct layout *l, const uint32_t *ids, unsigned n, uint32_t home)
{
	struct layout changed = *l;

	if (l->moving)
		return -EBUSY;
	for (unsigned i = 0; i < n; i++) {
		const struct layout_member *m = layout_find(&changed, ids[i]);

		if (!m || !m->next)
			return -EINVAL;
		changed.member[m - changed.member].next = 0;
	}
	changed.home = home;
	return begin(l, &changed);
}

int layout_replace(struct layout *l, const struct layout_member *by)
{
	struct layout changed = *l;
	int err;

	if (l->moving)
		return -EBUSY;
	for (unsigned i = 0; i < changed.count; i++)
		changed.member[i].next = 0;
	err = add(&changed, by->id, by->weight);
	changed.home = by->id;
	return err ? err : begin(l, &changed);
}

int layout_weigh(struct layout *l, uint32_t id, uint16_t weight)
{
	const struct layout_member *m = layout_find(l, id);
	struct layout changed = *l;

	if (l->moving)
		return -EBUSY;
	if (!m || !weight || m->weight == weight)
		return -EINVAL;
	changed.member[m - l->member].next = weight;
	return begin(l, &changed);
}

void layout_settle(struct layout *l)
{
	unsigned left = 0;

	assert(l->moving);
	for (unsigned i = 0; i < l->count; i++) {
		if (!l->member[i].next)
			continue;
		l->member[left] = l->member[i];
		l->member[left].weight = l->member[left].next;
		left++;
	}
	l->count = left;
	l->version++;
	l->moving = false;
}

/* ---- what can be relied on ---- */

struct kinds { /* of members, counted */
	unsigned with, without, came, left, raised, lowered;
};

static struct kinds kinds_of(const struct layout *l)
{
	struct kinds k = { 0 };

	for (unsigned i = 0; i < l->count; i++) {
		const struct layout_member *m = &l->member[i];

		k.with += m->weight > 0;
		k.without += !m->weight && !m->next;
		k.came += !m->weight && m->next;
		k.left += m->weight && !m->next;
		k.raised += m->weight && m->next > m->weight;
		k.lowered += m->next && m->next < m->weight;
	}
	return k;
}

/* Just one kind of change, so that names flow one way: see layout_is_source. Two members that are weighed anew might exchange names. */
static bool one_change(const struct kinds *k)
{
	unsigned weighed = k->raised + k->lowered;

	if (k->left == k->with && k->came) /* nobody stays, so who leaves gives, and who comes takes */
		return true;
	return (k->came > 0) + (k->left > 0) + weighed == 1;
}

bool layout_sound(const struct layout *l)
{
	const struct layout_member *home;
	struct kinds k;

	if (l->count < 1 || l->count > LAYOUT_MEMBERS_MAX || l->version + l->moving > version_max)
		return false;
	for (unsigned i = 1; i < l->count; i++)
		if (l->member[i - 1].id >= l->member[i].id)
			return false;
	k = kinds_of(l);
	home = layout_find(l, l->home);
	if (k.without || !k.with || k.left == l->count || !home || !home->next)
		return false;
	return l->moving ? one_change(&k) : !k.came && !k.left && !k.raised && !k.lowered;
}

/* ---- bytes ---- */

size_t layout_encode(const struct layout *l, uint8_t bytes[LAYOUT_SIZE_MAX])
{
	uint8_t *at = bytes + LAYOUT_HEAD_SIZE;

	assert(layout_sound(l));
	bytes[0] = FORMAT;
	bytes[1] = l->moving ? FLAG_MOVING : 0;
	put(bytes + 2, l->count, 2);
	put(bytes + 4, l->version, 8);
	put(bytes + 12, l->home, 4);
	for (unsigned i = 0; i < l->count; i++, at += LAYOUT_MEMBER_SIZE) {
		put(at, l->member[i].id, 4);
		put(at + 4, l->member[i].weight, 2);
		put(at + 6, l->member[i].next, 2);
	}
	return (size_t)(at - bytes);
}

int layout_decode(const void *bytes, size_t size, struct layout *l)
{
	const uint8_t *head = bytes, *at = head + LAYOUT_HEAD_SIZE;

	if (size < LAYOUT_HEAD_SIZE || head[0] != FORMAT || head[1] & ~FLAG_MOVING)
		return -EINVAL;
	l->count = (unsigned)get(head + 2, 2);
	if (l->count > LAYOUT_MEMBERS_MAX || size != LAYOUT_HEAD_SIZE + l->count * LAYOUT_MEMBER_SIZE)
		return -EINVAL;
	l->moving = head[1] & FLAG_MOVING;
	l->version = get(head + 4, 8);
	l->home = (uint32_t)get(head + 12, 4);
	for (unsigned i = 0; i < l->count; i++, at += LAYOUT_MEMBER_SIZE)
		l->member[i] =
			(struct layout_member){ (uint32_t)get(at, 4), (uint16_t)get(at + 4, 2), (uint16_t)get(at + 6, 2) };
	return layout_sound(l) ? 0 : -EINVAL;
}
