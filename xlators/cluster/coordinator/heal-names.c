/* SPDX-License-Identifier: Apache-2.0 */
/* What a directory names: both members' lists are compared, and what differs is moved or made. */
#include "heal-internal.h"

struct entry {
	char *name;
	struct gfid gfid;
	uint32_t type;
	struct time birth;
};
struct listing {
	struct pair *pair;
	int at;
	size_t count, room;
	struct entry *entry;
};
#define cleanup_listing __attribute__((cleanup(listing_clear)))

static void listing_clear(struct listing *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->entry[i].name);
	free(l->entry);
}

static int grow(struct listing *l)
{
	size_t room = l->room ? l->room * 2 : 64;
	struct entry *grown = l->count < l->room ? l->entry : realloc(l->entry, room * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	if (l->count == l->room)
		l->room = room;
	l->entry = grown;
	return 0;
}

/* The listing did not tell what has the name: perhaps it has gone since, perhaps it could not be read. */
static int ask_again(struct listing *l, struct dirent_plus *e)
{
	cleanup_thing struct thing t = { 0 };
	int err = thing_lookup(l->pair->h, l->pair->rq, l->at, l->pair->inode, e->name, &t);

	if (!err) {
		e->gfid = t.inode->gfid;
		e->type = t.inode->type;
		e->attr = t.attr;
	}
	return err;
}

/* Takes the name over. */
static int add(void *listing, struct dirent_plus *e)
{
	struct listing *l = listing;
	int err = gfid_is_null(&e->gfid) ? ask_again(l, e) : 0;

	if (err == -ENOENT || gfid_equal(&e->gfid, &gfid_limbo))
		return 0;
	if (!err)
		err = grow(l);
	if (err)
		return err;
	link_keep(l->pair->h, e->inode, &e->attr);
	l->entry[l->count++] = (struct entry){ e->name, e->gfid, e->type & S_IFMT, e->attr.btime };
	e->name = NULL;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static int list(struct listing *l)
{
	int err = directory_list(l->pair->h, l->pair->rq, l->at, l->pair->inode, LIST_PLUS, add, l);

	if (!err && l->count)
		qsort(l->entry, l->count, sizeof(*l->entry), by_name);
	return err;
}

static const struct entry *listed(const struct listing *l, const struct entry *e)
{
	const struct entry *f = l->count ? bsearch(e, l->entry, l->count, sizeof(*e), by_name) : NULL;

	return f && f->type == e->type && gfid_equal(&f->gfid, &e->gfid) ? f : NULL;
}

/* The same object stands there; was it born when the source was? */
static int same_object(struct pair *p, const struct entry *source, const struct entry *target)
{
	cleanup_thing struct thing t = { 0 };
	int err;

	if (same_time(&source->birth, &target->birth))
		return 0;
	err = thing_lookup(p->h, p->rq, p->to, p->inode, source->name, &t);
	if (err || !gfid_equal(&t.inode->gfid, &source->gfid))
		return err == -ENOENT ? 0 : err;
	return birth_heal(p, t.inode, &source->birth, &t.attr.btime);
}

/* It waits for another directory, which may wait for a name that follows here. */
static int put_off(int err, int *later)
{
	if (err != -EAGAIN)
		return err;
	*later = err;
	return 0;
}

/* What must go goes first, so that what moved within the directory is found in the limbo. (A name that has changed hands since it was listed leads to
 * what need not go from here.) */
static int heal_listings(struct pair *p, const struct listing *source, const struct listing *target)
{
	int err = 0, later = 0;

	for (size_t i = 0; i < target->count && !err; i++)
		if (!listed(source, &target->entry[i]))
			err = put_off(name_move_away(p, target->entry[i].name, &target->entry[i].gfid), &later);
	for (size_t i = 0; i < source->count && !err; i++) {
		const struct entry *same = listed(target, &source->entry[i]);

		err = same ? same_object(p, &source->entry[i], same) : name_place(p, source->entry[i].name);
		err = put_off(err, &later);
	}
	return err ? err : later;
}

/* Another heal may have moved something out of it since. */
static int ask_times(struct pair *p)
{
	struct getattr_in in = { .inode = p->inode };
	struct getattr_out out = { 0 };
	int err = heal_call(p->h, p->rq, p->to, FOP_getattr, &in, &out);

	if (!err)
		p->target = out.attr;
	return err;
}

int pair_names(struct pair *p)
{
	cleanup_listing struct listing source = { .pair = p, .at = p->from }, target = { .pair = p, .at = p->to };
	int err = list(&source);

	if (!err)
		err = list(&target);
	if (!err)
		err = pair_note_taken(p, heal_listings(p, &source, &target));
	return err || p->changed ? err : ask_times(p);
}
