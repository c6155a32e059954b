/* SPDX-License-Identifier: Apache-2.0 */
/* What a directory names: both members' lists are compared, and what differs is moved or made. */
#include "heal-internal.h"

enum { LIST_BYTES = 256 << 10 };

struct entry {
	char *name;
	struct gfid gfid;
	uint32_t type;
};
struct listing {
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
static int ask_again(struct pair *p, int at, struct dirent_plus *e)
{
	cleanup_thing struct thing t = { 0 };
	int err = thing_lookup(p->h, p->rq, at, p->inode, e->name, &t);

	if (!err) {
		e->gfid = t.inode->gfid;
		e->type = t.inode->type;
	}
	return err;
}

/* Takes the name over. */
static int add(struct pair *p, int at, struct dirent_plus *e, struct listing *l)
{
	int err = gfid_is_null(&e->gfid) ? ask_again(p, at, e) : 0;

	if (err == -ENOENT || gfid_equal(&e->gfid, &gfid_limbo))
		return 0;
	if (!err)
		err = grow(l);
	if (err)
		return err;
	link_keep(p->h, e->inode, &e->attr);
	l->entry[l->count++] = (struct entry){ e->name, e->gfid, e->type & S_IFMT };
	e->name = NULL;
	return 0;
}

static int list_file(struct pair *p, int at, struct file *file, struct listing *l)
{
	struct readdir_in in = { .file = file, .size = LIST_BYTES, .flags = READDIR_PLUS };
	bool end = false;
	int err = 0;

	while (!err && !end) {
		struct readdir_out out = { 0 };

		err = heal_call(p->h, p->rq, at, FOP_readdir, &in, &out);
		for (uint32_t i = 0; i < out.entries.count && !err; i++) {
			in.offset = out.entries.entry[i].next_offset;
			err = add(p, at, &out.entries.entry[i], l);
		}
		end = out.entries.end || !out.entries.count;
		fop_out_clear(FOP_readdir, &out);
	}
	return err;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static int list(struct pair *p, int at, struct listing *l)
{
	struct opendir_in in = { .inode = p->inode };
	struct opendir_out opened = { 0 };
	int err = heal_call(p->h, p->rq, at, FOP_opendir, &in, &opened);

	if (err)
		return err;
	struct release_in release = { .file = opened.file };
	struct release_out released = { 0 };

	err = list_file(p, at, opened.file, l);
	heal_call(p->h, p->rq, at, FOP_release, &release, &released);
	fop_out_clear(FOP_opendir, &opened);
	if (!err && l->count)
		qsort(l->entry, l->count, sizeof(*l->entry), by_name);
	return err;
}

static bool listed(const struct listing *l, const struct entry *e)
{
	const struct entry *f = l->count ? bsearch(e, l->entry, l->count, sizeof(*e), by_name) : NULL;

	return f && f->type == e->type && gfid_equal(&f->gfid, &e->gfid);
}

/* What must go goes first, so that what moved within the directory is found in the limbo. */
static int heal_listings(struct pair *p, const struct listing *source, const struct listing *target)
{
	int err = 0, later = 0;

	for (size_t i = 0; i < target->count && !err; i++)
		if (!listed(source, &target->entry[i]))
			err = name_move_away(p, target->entry[i].name, &target->entry[i].gfid);
	for (size_t i = 0; i < source->count && !err; i++) {
		if (!listed(target, &source->entry[i]))
			err = name_place(p, source->entry[i].name);
		if (err == -EAGAIN) { /* waits for another directory, which may wait for a name that follows here */
			later = err;
			err = 0;
		}
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
	cleanup_listing struct listing source = { 0 }, target = { 0 };
	int err = list(p, p->from, &source);

	if (!err)
		err = list(p, p->to, &target);
	if (!err)
		err = heal_listings(p, &source, &target);
	return err || p->changed ? err : ask_times(p);
}
