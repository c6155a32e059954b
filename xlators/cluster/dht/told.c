/* SPDX-License-Identifier: Apache-2.0 */
/* Names that a listing has told: a table of their hashes. */
#include "told.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

enum { ROOM = 128 };

struct told_name {
	uint64_t key, number; /* 0: free; places have numbers from 1 on */
	int pass;
};

static struct told_name *cell(const struct told *t, uint64_t key)
{
	size_t i = key % t->room;

	while (t->name[i].number && t->name[i].key != key)
		i = (i + 1) % t->room;
	return &t->name[i];
}

static int grow(struct told *t)
{
	struct told old = *t;

	t->room = old.room ? 2 * old.room : ROOM;
	t->name = calloc(t->room, sizeof(*t->name));
	if (!t->name) {
		*t = old;
		return -ENOMEM;
	}
	for (size_t i = 0; i < old.room; i++)
		if (old.name[i].number)
			*cell(t, old.name[i].key) = old.name[i];
	free(old.name);
	return 0;
}

static int note(struct told *t, struct told_name n)
{
	int err = 2 * t->count < t->room ? 0 : grow(t);
	struct told_name *at;

	if (err)
		return err;
	at = cell(t, n.key);
	t->count += !at->number;
	*at = n;
	t->last = n.number > t->last ? n.number : t->last;
	return 0;
}

static uint64_t hash(const struct told *t, const char *name)
{
	return XXH3_64bits_withSeed(name, strlen(name), t->seed);
}

int told_note(struct told *t, const char *name, uint64_t number, int pass)
{
	return note(t, (struct told_name){ hash(t, name), number, pass });
}

bool told_elsewhere(const struct told *t, const char *name, int pass)
{
	const struct told_name *n = t->count ? cell(t, hash(t, name)) : NULL;

	return n && n->number && n->pass != pass;
}

int told_forget_after(struct told *t, uint64_t number)
{
	struct told all = *t;
	int err = 0;

	if (t->last <= number)
		return 0;
	*t = (struct told){ .seed = all.seed };
	for (size_t i = 0; i < all.room && !err; i++)
		if (all.name[i].number && all.name[i].number <= number)
			err = note(t, all.name[i]);
	free(all.name);
	return err;
}

void told_free(struct told *t)
{
	free(t->name);
}
