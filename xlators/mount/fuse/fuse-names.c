/* SPDX-License-Identifier: Apache-2.0 */
/* Which names a directory does not have. Who has listed it as a whole knows that; and compilers, interpreters and shells look in vain in one directory after
 * the other. So names that were not listed are answered here, as long as a translator below vouches that nobody else has changed the names since (believe_ms).
 *
 * So does who has made a directory just now.
 *
 * What this mount itself adds it adds to the names known, before it is sent; what it takes away stays among them, and is asked for. Names are known by
 * their hashes: one that has the hash of another is asked for, too. */
#include <stdlib.h>

#include "fuse-internal.h"

enum { NAMES_MAX = 65536 }; /* of all directories: 512 KiB */
/* Longer names are asked for: those below may find one too long before they look for it (encryption/crypt, whose texts are longer than what they stand for). */
enum { SURELY_SHORT = 128 };

static struct listed *slot_of(struct mount *m, const struct gfid *gfid)
{
	return &m->names.directory[gfid_hash(gfid) % LISTED_DIRECTORIES];
}

/* FNV-1a, 64 bits (Fowler, Noll, Vo). */
static uint64_t hash_of(const char *name)
{
	uint64_t h = 0xcbf29ce484222325;
	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 0x100000001b3;
	return h;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* With the lock held. */
static void listed_drop(struct names *all, struct listed *l)
{
	all->count -= l->count;
	free(l->hash);
	*l = (struct listed){ 0 };
}

static bool listed_is(const struct listed *l, const struct gfid *gfid)
{
	return l->since && gfid_equal(&l->gfid, gfid);
}

/* ---- learnt from listings ---- */

static uint64_t *hashes_of(const struct listing *l)
{
	uint64_t *hash = malloc((l->entries + 1) * sizeof(*hash)), *at = hash;
	for (unsigned b = 0; hash && b < l->batches; b++)
		for (uint32_t i = 0; i < l->batch[b].entries.count; i++)
			*at++ = hash_of(l->batch[b].entries.entry[i].name);
	if (hash)
		qsort(hash, l->entries, sizeof(*hash), compare);
	return hash;
}

/* Where there is no room all others go: which of them is of use no more is not known. */
static void install(struct names *all, struct listed *l, const struct listed *new)
{
	pthread_mutex_lock(&all->lock);
	listed_drop(all, l);
	for (unsigned i = 0; i < LISTED_DIRECTORIES && all->count + new->count > NAMES_MAX; i++)
		listed_drop(all, &all->directory[i]);
	*l = *new;
	all->count += new->count;
	pthread_mutex_unlock(&all->lock);
}

/* A name that is being added either waits to be added here, or is seen to be under way, or has been added before the names were vouched for. */
static void know(struct ask *a, struct inode *directory, const struct listed *new)
{
	struct names *all = &a->mount->names;
	struct node_state *s = node_state_make(a->mount, directory);
	struct listed *at = slot_of(a->mount, &directory->gfid);
	install(all, at, new);
	bool good = s && atomic_load(&s->adding) == 0 && believed(a, directory, BELIEVE_NAMES, new->since);
	pthread_mutex_lock(&all->lock);
	if (listed_is(at, &directory->gfid) && at->since == new->since) {
		at->good = good;
		if (!good)
			listed_drop(all, at);
	}
	pthread_mutex_unlock(&all->lock);
}

void names_learn(struct ask *a, struct inode *directory, const struct listing *l)
{
	uint64_t since = l->whole && !l->again ? l->batch[0].since : 0;
	if (!since || l->entries > NAMES_MAX / 4 || !believed(a, directory, BELIEVE_NAMES, since))
		return;
	struct listed new = { .gfid = directory->gfid, .since = since, .count = l->entries, .hash = hashes_of(l) };
	if (new.hash)
		know(a, directory, &new);
}

void names_none(struct ask *a, struct inode *directory, uint64_t since)
{
	struct listed new = { .gfid = directory->gfid, .since = since };
	if (believed(a, directory, BELIEVE_NAMES, since))
		know(a, directory, &new);
}

/* ---- changed from here ---- */

/* With the lock held. */
static void add(struct names *all, struct listed *l, uint64_t hash)
{
	uint32_t at = 0;
	uint64_t *more =
		all->count < NAMES_MAX && l->count < NAMES_MAX / 4 ? realloc(l->hash, (l->count + 2) * sizeof(*more)) : NULL;
	if (!more) {
		listed_drop(all, l);
		return;
	}
	l->hash = more;
	for (uint32_t end = l->count; at < end;) {
		uint32_t middle = at + (end - at) / 2;
		if (more[middle] < hash)
			at = middle + 1;
		else
			end = middle;
	}
	memmove(&more[at + 1], &more[at], (l->count - at) * sizeof(*more));
	more[at] = hash;
	l->count++;
	all->count++;
}

void name_begins(struct ask *a, struct inode *directory, const char *name)
{
	struct names *all = &a->mount->names;
	struct node_state *s = node_state_make(a->mount, directory);
	if (s)
		atomic_fetch_add(&s->adding, 1);
	pthread_mutex_lock(&all->lock);
	struct listed *l = slot_of(a->mount, &directory->gfid);
	if (listed_is(l, &directory->gfid))
		add(all, l, hash_of(name));
	pthread_mutex_unlock(&all->lock);
}

void name_ends(struct ask *a, struct inode *directory)
{
	struct node_state *s = node_state(a->mount, directory);
	if (s)
		atomic_fetch_sub(&s->adding, 1);
}

/* ---- looked up ---- */

uint64_t name_absent(struct ask *a, struct inode *directory, const char *name)
{
	struct names *all = &a->mount->names;
	uint64_t since = 0, hash = hash_of(name);
	if (strlen(name) > SURELY_SHORT)
		return 0;
	pthread_mutex_lock(&all->lock);
	const struct listed *l = slot_of(a->mount, &directory->gfid);
	if (listed_is(l, &directory->gfid) && l->good &&
	    (!l->count || !bsearch(&hash, l->hash, l->count, sizeof(hash), compare)))
		since = l->since;
	pthread_mutex_unlock(&all->lock);
	if (!since || strncmp(name, ".stratus", 8) == 0 || !believed(a, directory, BELIEVE_NAME, since) ||
	    !believe_searchable(a, directory))
		return 0;
	atomic_fetch_add(&all->absent, 1);
	return since;
}

void names_forget(struct mount *m)
{
	pthread_mutex_lock(&m->names.lock);
	for (unsigned i = 0; i < LISTED_DIRECTORIES; i++)
		listed_drop(&m->names, &m->names.directory[i]);
	pthread_mutex_unlock(&m->names.lock);
}
