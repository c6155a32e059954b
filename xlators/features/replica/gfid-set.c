/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of gfids: open addressing with linear probing (Knuth, The Art of Computer Programming 3, 6.4). */
#include "member.h"

static const struct gfid gone = { { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
				    0xff } };

static size_t place(const struct gfid_set *s, const struct gfid *g)
{
	return gfid_hash(g) & (s->room - 1);
}

/* What marks free slots is no member. */
static bool is_mark(const struct gfid *g)
{
	return gfid_is_null(g) || gfid_equal(g, &gone);
}

static struct gfid *find(const struct gfid_set *s, const struct gfid *g)
{
	if (!s->room || is_mark(g))
		return NULL;
	for (size_t i = place(s, g);; i = (i + 1) & (s->room - 1)) {
		if (gfid_equal(&s->slot[i], g))
			return &s->slot[i];
		if (gfid_is_null(&s->slot[i]))
			return NULL;
	}
}

bool gfid_set_has(const struct gfid_set *s, const struct gfid *g)
{
	return find(s, g);
}

static void put(struct gfid_set *s, const struct gfid *g)
{
	size_t i = place(s, g);

	while (!gfid_is_null(&s->slot[i]))
		i = (i + 1) & (s->room - 1);
	s->slot[i] = *g;
	s->used++;
	s->count++;
}

static int grow(struct gfid_set *s)
{
	struct gfid_set larger = { .room = s->room ? s->room : 64 };

	while (larger.room < 4 * s->count)
		larger.room *= 2;
	larger.slot = calloc(larger.room, sizeof(*larger.slot));
	if (!larger.slot)
		return -ENOMEM;
	for (size_t i = 0; i < s->room; i++)
		if (!is_mark(&s->slot[i]))
			put(&larger, &s->slot[i]);
	free(s->slot);
	*s = larger;
	return 0;
}

int gfid_set_add(struct gfid_set *s, const struct gfid *g)
{
	int err = 0;

	if (is_mark(g) || gfid_set_has(s, g))
		return 0;
	if (2 * (s->used + 1) > s->room)
		err = grow(s);
	if (err)
		return err;
	put(s, g);
	return 1;
}

bool gfid_set_remove(struct gfid_set *s, const struct gfid *g)
{
	struct gfid *at = find(s, g);

	if (!at)
		return false;
	*at = gone;
	s->count--;
	return true;
}

const struct gfid *gfid_set_next(const struct gfid_set *s, size_t *cursor)
{
	while (*cursor < s->room) {
		const struct gfid *g = &s->slot[(*cursor)++];

		if (!is_mark(g))
			return g;
	}
	return NULL;
}

void gfid_set_free(struct gfid_set *s)
{
	free(s->slot);
	*s = (struct gfid_set){ 0 };
}
