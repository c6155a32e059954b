/* SPDX-License-Identifier: Apache-2.0 */
/* Which subvolume has an object, as far as it is known here, or as all of them say; and which one an operation is for. */
#include "dht.h"

#include <stdlib.h>

/* ---- which subvolumes ---- */

uint64_t present_of(struct dht *d)
{
	uint64_t present = all_of(d) & ~atomic_load(&d->down);

	return present ? present : all_of(d);
}

struct inode *root_of(struct dht *d)
{
	return inode_get(d->x->inodes, &gfid_root, S_IFDIR);
}

/* ---- which one has an object: a number in the inode's slot; of a wide directory its shards ---- */

enum { NUMBERS = 4096 }; /* no pointer is so low */

static void *slot_of(int child, bool away)
{
	return (void *)(uintptr_t)(2 * child + 2 + away);
}

struct shards *in_slot(void *slot)
{
	return (uintptr_t)slot < NUMBERS ? NULL : slot;
}

struct shards *shards_of(struct dht *d, const struct inode *inode)
{
	return is_root(inode) ? &d->root : in_slot(inode_slot((struct inode *)inode, d->x));
}

int place_known(struct dht *d, const struct inode *inode)
{
	void *slot = inode_slot((struct inode *)inode, d->x);
	const struct shards *s = in_slot(slot);

	return s ? s->home : (int)((uintptr_t)slot / 2) - 1;
}

bool known_away(struct dht *d, struct inode *inode)
{
	void *slot = inode_slot(inode, d->x);
	struct shards *s = in_slot(slot);

	return s ? atomic_load(&s->away) : (uintptr_t)slot & 1;
}

uint64_t moment_of(const struct dht *d)
{
	return moment_now(d->x->child[__builtin_ctzll(all_of(d))]);
}

atomic_uint_fast64_t *moved_of(struct dht *d, const struct inode *inode)
{
	return &d->moved[gfid_hash(&inode->gfid) % MOVED_HASHES];
}

void place_doubted(struct dht *d, const struct inode *inode)
{
	atomic_uint_fast64_t *moved = moved_of(d, inode);
	uint64_t was = atomic_load(moved), now = moment_of(d);

	while (was < now && !atomic_compare_exchange_weak(moved, &was, now))
		;
}

/* It is known, but maybe found in the other way. Whoever sees no slot in between asks all. */
static int note_way(struct dht *d, struct inode *inode, int child, bool away)
{
	struct shards *s;
	int err = 0;

	if (known_away(d, inode) == away)
		return 0;
	place_doubted(d, inode);
	pthread_mutex_lock(&d->lock);
	s = shards_of(d, inode);
	if (s) {
		atomic_store(&s->away, away);
	} else {
		inode_slot_take(inode, d->x);
		err = inode_slot_set(inode, d->x, slot_of(child, away));
	}
	pthread_mutex_unlock(&d->lock);
	return err == -EEXIST ? 0 : err;
}

void place_moved(struct dht *d, struct inode *inode, int child)
{
	place_doubted(d, inode);
	inode_slot_take(inode, d->x);
	inode_slot_set(inode, d->x, slot_of(child, false)); /* without memory: all are asked */
}

int note_place(struct dht *d, struct inode *inode, int child, bool away)
{
	char text[GFID_TEXT];
	int err, known, now;

	if (!inode || is_root(inode))
		return 0;
	err = place_known(d, inode) == child ? -EEXIST : inode_slot_set(inode, d->x, slot_of(child, away));
	known = err == -EEXIST ? place_known(d, inode) : child;
	if (known == child || known < 0)
		return err == -EEXIST ? note_way(d, inode, child, away) : err;
	now = S_ISDIR(inode->type) ? directory_now(d, inode, known, child) : place_now(d, inode, known, child);
	if (now == child && !S_ISDIR(inode->type))
		place_moved(d, inode, child);
	if (now == child)
		return note_way(d, inode, child, away);
	if (now >= 0)
		return 0;
	log_error(d->x, NULL, "object %s is at %s and at %s: somebody has copied what belongs to bricks; remove one by hand",
		  gfid_text(&inode->gfid, text), d->x->child[known]->name, d->x->child[child]->name);
	return -EIO;
}

/* Of those that have answered by now; *stub: only what is left of it, or a copy, has been found. -1: nothing. *err: why others did not have it. */
static int found_at(const struct request *rq, const struct dht *d, const struct fanout *f, bool *stub, bool *wide, int *err)
{
	int child = -1, why;

	*stub = true;
	for (int i = 0; i < d->x->children && *stub; i++) {
		const struct lookup_out *out = has_subvolume(d, (uint64_t)i) ? fanout_out(f, i, &why) : NULL;

		if (out) {
			child = i;
			*stub = out->attr.flags & ATTR_POINTER;
			*wide = out->attr.flags & ATTR_WIDE;
		} else if (has_subvolume(d, (uint64_t)i) && why != -ESTALE && why != -ENOENT) {
			*err = fanout_error(rq, why);
		}
	}
	return child;
}

/* In a graph that has taken an older one's place, inodes are known that nobody has looked up here: all are asked. One has it, so nobody waits for those that are
 * silent, unless what answers has been moved. */
static int find_place(struct request *rq, struct dht *d, struct inode *inode, int *child)
{
	struct lookup_in in = { .loc = { .inode = inode } };
	struct fanout *f = fanout_start(rq, d->x, FOP_lookup, &in, all_of(d));
	int result = -ESTALE, asked = 0, answered;
	bool stub, wide = false;

	if (!f)
		return -ENOMEM;
	do {
		answered = fanout_wait(f, ++asked, rq->deadline_ns);
		*child = found_at(rq, d, f, &stub, &wide, &result);
	} while (stub && answered >= asked);
	fanout_drop(f);
	if (*child >= 0 && wide && (result = home_of_shard(rq, d, inode, child)))
		return result;
	return *child >= 0 ? note_place(d, inode, *child, !S_ISDIR(inode->type)) : result; /* believed the least */
}

/* ---- which one an operation is for ---- */

static int route_to(struct route *r, int child)
{
	if (r->child != ANY && r->child != child)
		return -EXDEV;
	r->child = child;
	return 0;
}

int subvolume_of(struct request *rq, struct dht *d, struct inode *inode, int *child)
{
	*child = place_known(d, inode);
	return *child < 0 ? find_place(rq, d, inode, child) : 0;
}

int route_inode(struct route *r, struct inode *inode)
{
	int child, err;

	if (!inode || is_root(inode))
		return 0;
	err = subvolume_of(r->rq, r->d, inode, &child);
	return err ? err : route_to(r, child);
}

int route_loc(struct route *r, const struct loc *loc, enum fop fop)
{
	int owner, err;

	if (!loc->parent || !loc->name)
		return route_inode(r, loc->inode);
	if (!spread_said(r->rq, r->d, loc->parent))
		return route_inode(r, loc->parent);
	if (is_root(loc->parent) && !strcmp(loc->name, DHT_HIDDEN))
		return fop_info[fop].flags & FOP_MUTATES ? -EPERM : -ENOENT;
	owner = owners_said(r->rq, r->d, loc->parent, loc->name).to;
	if (!has_subvolume(r->d, (uint64_t)owner))
		return subvolume_lacking(r->d);
	err = shard_reach(r->rq, r->d, loc->parent, owner);
	return err ? err : route_to(r, owner);
}

int subvolume_of_name(struct request *rq, struct dht *d, const struct loc *loc, enum fop fop, int *child)
{
	struct route r = { rq, d, ANY };
	int err = route_loc(&r, loc, fop);

	*child = r.child;
	return err;
}

/* All that the operation names must be at one subvolume. */
int route(struct route *r, enum fop fop, const void *in)
{
	int err = 0;

	for (const struct field *f = fop_info[fop].in; f->name && !err; f++) {
		const void *at = (const char *)in + f->offset;

		if (f->kind == FIELD_LOC)
			err = route_loc(r, at, fop);
		else if (f->kind == FIELD_INODE)
			err = route_inode(r, *(struct inode *const *)at);
		else if (f->kind == FIELD_FILE && *(struct file *const *)at)
			err = route_inode(r, (*(struct file *const *)at)->inode);
	}
	return err;
}

static int note_entries(struct dht *d, const struct dirents *list, int child)
{
	int err = 0;

	for (uint32_t i = 0; i < list->count && !err; i++)
		err = note_place(d, list->entry[i].inode, child, false);
	return err;
}

/* What came is where it came from. */
int note_out(struct dht *d, enum fop fop, void *out, int child, bool away)
{
	int err = 0;

	for (const struct field *f = fop_info[fop].out; f->name && !err; f++) {
		void *at = (char *)out + f->offset;

		if (f->kind == FIELD_INODE)
			err = note_place(d, *(struct inode *const *)at, child, away);
		else if (f->kind == FIELD_DIRENTS) {
			away_entries(at);
			err = note_entries(d, at, child);
		}
	}
	return err;
}
