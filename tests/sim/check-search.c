/* SPDX-License-Identifier: Apache-2.0 */
/* Is there an order? The search of Wing and Gong (1993), with the memory of states already seen that Lowe (2017) adds. */
#include "check.h"

enum { STEPS_MAX = 3000000 };

struct seen {
	struct seen *next, *before; /* before: of all, the one that was made before it */
	uint64_t hash;
	uint8_t key[];
};
enum { SEEN_BUCKETS = 1 << 14 };
struct search {
	const struct model *model;
	struct entry *entry;
	unsigned count, left; /* left: that must still be placed */
	uint8_t *placed;
	struct seen **seen; /* SEEN_BUCKETS */
	struct seen *last;
	uint64_t steps;
	unsigned best; /* the most that could be placed */
	unsigned *stuck;
	uint8_t *stood; /* what was placed then */
	bool undecided;
};

static uint64_t hash_bytes(uint64_t h, const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		h = (h ^ bytes[i]) * 0x100000001b3u;
	return h ^ h >> 29;
}

/* True if this was seen before; else it is from now on. */
static bool seen_before(struct search *s, const void *state)
{
	size_t bits = (s->count + 7) / 8, size = bits + s->model->state_size;
	uint8_t key[512 + STATE_MAX];
	struct seen **bucket;
	uint64_t hash;

	memset(key, 0, bits);
	for (unsigned i = 0; i < s->count; i++)
		key[i / 8] |= (uint8_t)(s->placed[i] << i % 8);
	memcpy(key + bits, state, s->model->state_size);
	hash = hash_bytes(14695981039346656037u, key, size);
	bucket = &s->seen[hash % SEEN_BUCKETS];
	for (struct seen *k = *bucket; k; k = k->next)
		if (k->hash == hash && !memcmp(k->key, key, size))
			return true;
	struct seen *k = malloc(sizeof(*k) + size);

	k->next = *bucket;
	k->before = s->last;
	s->last = k;
	k->hash = hash;
	memcpy(k->key, key, size);
	*bucket = k;
	return false;
}

/* Only what was called before the first of those that remain was answered can be next. */
static uint64_t horizon(const struct search *s)
{
	uint64_t first = UINT64_MAX;

	for (unsigned i = 0; i < s->count; i++)
		if (!s->placed[i] && !s->entry[i].optional && s->entry[i].ret < first)
			first = s->entry[i].ret;
	return first;
}

/* A read that fits can always be placed at once. Returns how many were, with their numbers in `list`. */
static unsigned place_reads(struct search *s, void *state, unsigned *list)
{
	unsigned placed = 0;
	bool more = true;

	while (more) {
		uint64_t until = horizon(s);

		more = false;
		for (unsigned i = 0; i < s->count && s->entry[i].call < until; i++) {
			const struct entry *e = &s->entry[i];

			if (s->placed[i] || e->optional || !e->reads || !s->model->apply(e, state))
				continue;
			s->placed[i] = 1;
			s->left--;
			list[placed++] = i;
			more = true;
		}
	}
	return placed;
}

static void note_best(struct search *s)
{
	unsigned placed = 0;

	for (unsigned i = 0; i < s->count; i++)
		placed += !s->entry[i].optional && s->placed[i];
	if (placed <= s->best && s->best) /* the first such order has done with the fewest operations that nobody answered */
		return;
	s->best = placed;
	memcpy(s->stood, s->placed, s->count);
	*s->stuck = UINT32_MAX;
	for (unsigned i = 0; i < s->count; i++)
		if (!s->placed[i] && !s->entry[i].optional &&
		    (*s->stuck == UINT32_MAX || s->entry[i].ret < s->entry[*s->stuck].ret))
			*s->stuck = i;
}

static bool search_from(struct search *s, const void *state);

static bool try_entry(struct search *s, unsigned i, const void *state)
{
	uint8_t next[STATE_MAX] __attribute__((aligned(8)));
	bool found, must = !s->entry[i].optional;

	memcpy(next, state, s->model->state_size);
	if (!s->model->apply(&s->entry[i], next))
		return false;
	if (!must && !memcmp(next, state, s->model->state_size))
		return false; /* of no use here */
	s->placed[i] = 1;
	s->left -= must;
	found = search_from(s, next);
	s->placed[i] = 0;
	s->left += must;
	return found;
}

static bool search_from(struct search *s, const void *state)
{
	unsigned *reads = malloc((s->count + 1) * sizeof(*reads));
	unsigned count = place_reads(s, (void *)state, reads);
	uint64_t until = horizon(s);
	bool found = !s->left;

	if (!found)
		note_best(s);
	if (++s->steps > STEPS_MAX)
		s->undecided = true;
	if (!found && !s->undecided && !seen_before(s, state))
		for (int optional = 0; optional < 2 && !found; optional++)
			for (unsigned i = 0; i < s->count && !found && s->entry[i].call < until && !s->undecided; i++)
				if (!s->placed[i] && s->entry[i].optional == optional && !s->entry[i].reads)
					found = try_entry(s, i, state);
	for (unsigned i = 0; i < count && !found; i++) {
		s->placed[reads[i]] = 0;
		s->left++;
	}
	free(reads);
	return found || s->undecided;
}

static int by_call(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return x->call != y->call ? (x->call < y->call ? -1 : 1) : (x->index > y->index) - (x->index < y->index);
}

static void explain(const struct search *s, unsigned stuck, const char *what)
{
	char text[512] = "?", line[512];

	if (stuck < s->count)
		operation_print(s->entry[stuck].op, text, sizeof(text));
	sim_fail("not linearizable: %s: no order explains %s", what, text);
	for (unsigned i = 0; verbose && i < s->count; i++) {
		operation_print(s->entry[i].op, line, sizeof(line));
		fprintf(stderr, "    %s %s%s\n", s->stood[i] ? " " : "?", s->entry[i].optional ? "(perhaps) " : "", line);
	}
}

static unsigned undecided;

void check_entries(const struct model *m, struct entry *entry, unsigned count, const void *initial, const char *what)
{
	uint8_t state[STATE_MAX] __attribute__((aligned(8))) = { 0 };
	unsigned stuck = UINT32_MAX;
	static struct seen *buckets[SEEN_BUCKETS]; /* all NULL between two searches, of which most see little */
	struct search s = { .model = m, .entry = entry, .count = count, .stuck = &stuck, .seen = buckets };

	qsort(entry, count, sizeof(*entry), by_call);
	s.placed = calloc(count + 1, 1);
	s.stood = calloc(count + 1, 1);
	for (unsigned i = 0; i < count; i++)
		s.left += !entry[i].optional;
	memcpy(state, initial, m->state_size);
	if (count > 4000)
		sim_fail("%s: too long a history to be checked", what);
	else if (!search_from(&s, state))
		explain(&s, stuck, what);
	undecided += s.undecided;
	for (struct seen *k = s.last, *before; k; k = before) {
		before = k->before;
		buckets[k->hash % SEEN_BUCKETS] = NULL;
		free(k);
	}
	free(s.placed);
	free(s.stood);
}

unsigned check_undecided(void)
{
	return undecided;
}

void add_entry(struct entry *list, unsigned *count, const struct operation *o, unsigned index)
{
	bool changes = operation_changes(o), unknown = operation_unknown(o);

	if (unknown && !changes)
		return;
	list[(*count)++] = (struct entry){ .op = o,
					   .call = o->call,
					   .ret = unknown ? UINT64_MAX : o->ret,
					   .optional = unknown,
					   .reads = !changes || (o->err && !unknown),
					   .index = index };
}
