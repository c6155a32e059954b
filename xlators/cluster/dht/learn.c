/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the root as this client knows it: at first the one that is implied by the number of subvolumes, then, when a brick refuses what
 * goes by that, what the subvolumes have on disk. Nothing is written here: a client whose volume file is wrong would be believed. */
#include "dht.h"

#include <stdio.h>
#include <stdlib.h>

enum { TRIES = 250, PAUSE_MOST_MS = 128, DOUBTS = 4 };
#define ASK_NS	     5000000000u
#define CHECK_NS     2000000000u
#define TELL_EACH_NS 60000000000u

/* ---- what is known ---- */

/* By all subvolumes that the layout lacks; false: none, or it is being changed already. */
static bool grow(const struct dht *d, const struct layout *now, struct layout *l)
{
	struct layout_member more[SUBVOLUMES_MAX];
	uint16_t weight = 1;
	unsigned n = 0;

	for (unsigned i = 0; i < now->count; i++)
		weight = now->member[i].weight > weight ? now->member[i].weight : weight;
	for (int i = 0; i < d->x->children; i++)
		if (!layout_find(now, (uint32_t)i))
			more[n++] = (struct layout_member){ .id = (uint32_t)i, .weight = weight };
	*l = *now;
	return n && !layout_grow(l, more, n);
}

static int adopt(struct dht *d, const struct layout *l)
{
	struct spread *s = calloc(1, sizeof(*s));
	bool newer;

	if (!s)
		return -ENOMEM;
	s->layout = *l;
	s->grows = grow(d, l, &s->grown);
	for (unsigned i = 0; i < l->count; i++)
		if (l->member[i].id < (uint32_t)d->x->children)
			s->members |= 1ull << l->member[i].id;
		else
			s->lacks = true;
	pthread_mutex_lock(&d->lock);
	s->before = atomic_load(&d->spread);
	newer = !s->before || s->before->layout.version < l->version;
	if (newer)
		atomic_store(&d->spread, s);
	pthread_mutex_unlock(&d->lock);
	if (!newer)
		free(s);
	return 0;
}

int spread_start(struct dht *d)
{
	struct layout implied;

	layout_implied(&implied, (unsigned)(d->initial ? d->initial : d->x->children));
	return adopt(d, &implied);
}

/* None is given back before: others may read it. There are few. */
void spread_finish(struct dht *d)
{
	struct spread *s = atomic_load(&d->spread);

	while (s) {
		struct spread *before = s->before;

		free(s);
		s = before;
	}
}

const struct spread *spread_of(struct dht *d)
{
	return atomic_load(&d->spread);
}

const struct spread *spread_said(const struct request *rq, struct dht *d)
{
	const struct spread *s = spread_of(d);
	struct place said;

	if (!s->before) /* the usual case: there has been one layout */
		return s;
	if (place_of(rq, &said) <= 0 || MUTANT("say-latest"))
		return s;
	while (s->layout.version > place_version(&said, &gfid_root, 0) && s->before)
		s = s->before;
	return s;
}

static struct owners owners_by(const struct spread *s, const char *name)
{
	const struct layout *l = &s->layout;
	uint64_t key = layout_key(&gfid_root, name);
	int to = (int)layout_owner_next(l, key)->id;

	return (struct owners){ l->moving ? (int)layout_owner(l, key)->id : to, to };
}

struct owners root_owners(struct dht *d, const char *name)
{
	return owners_by(spread_of(d), name);
}

struct owners owners_said(const struct request *rq, struct dht *d, const char *name)
{
	return owners_by(spread_said(rq, d), name);
}

int root_owner(struct dht *d, const char *name)
{
	return root_owners(d, name).to;
}

bool is_at_home(struct dht *d, const char *name, int child)
{
	struct owners o = root_owners(d, name);

	return o.from == child || o.to == child;
}

bool is_member(struct dht *d, int child)
{
	return spread_of(d)->members >> child & 1;
}

uint64_t members_present(struct dht *d)
{
	uint64_t members = spread_of(d)->members, present = members & ~atomic_load(&d->down);

	return present ? present : members;
}

static int say(struct request *rq, const struct place *p, uint64_t version)
{
	struct place said = *p;

	said.version[0] = version;
	if (version)
		said.directory[0] = gfid_root;
	return place_attach(rq, &said);
}

/* Marks are judged by the version alone, and a step of an intent by its mark: so what names were found by is said until the operation is begun again. */
int place_say(struct request *rq, struct dht *d, const struct place *p)
{
	return say(rq, p, spread_said(rq, d)->layout.version);
}

int place_say_newest(struct request *rq, struct dht *d)
{
	return say(rq, &(struct place){ 0 }, spread_of(d)->layout.version);
}

/* ---- what the subvolumes have ---- */

struct told {
	struct layout newest;
	bool any, behind; /* one has a layout; one has an older one than is known here, or none */
};

static void note_layout(struct told *t, const struct layout *l, uint64_t known)
{
	t->behind |= l->version < known;
	if (t->any && l->version <= t->newest.version)
		return;
	t->newest = *l;
	t->any = true;
}

/* One that makes no sense the brick tells of itself. */
static void note_answer(struct told *t, int err, const struct getxattr_out *out, uint64_t known)
{
	struct layout l;

	if (out && !layout_decode(out->value.bytes, out->value.size, &l))
		note_layout(t, &l, known);
	t->behind |= (err == -ENODATA || err == -EOPNOTSUPP) && known;
}

static int ask_as_root(struct request *rq, struct dht *d, uint64_t mask, uint64_t known, struct told *t)
{
	cleanup_inode struct inode *root = root_of(d);
	struct getxattr_in in = { .inode = root, .name = DHT_LAYOUT_XATTR };
	struct fanout *f = root ? fanout_start(rq, d->x, FOP_getxattr, &in, mask) : NULL;

	if (!f)
		return -ENOMEM;
	fanout_wait(f, d->x->children, rq->deadline_ns);
	for (int i = 0; i < d->x->children; i++) {
		int err = 0;
		const struct getxattr_out *out = mask >> i & 1 ? fanout_out(f, i, &err) : NULL;

		note_answer(t, err, out, known);
	}
	fanout_drop(f);
	return 0;
}

static int ask(const struct request *for_rq, struct dht *d, uint64_t mask, uint64_t known, struct told *t)
{
	struct request rq;
	uint64_t until = clock_ns() + ASK_NS;
	int err;

	request_init(&rq, d->x->graph, 0);
	rq.group_count = 0;
	rq.deadline_ns = for_rq->deadline_ns && for_rq->deadline_ns < until ? for_rq->deadline_ns : until;
	err = ask_as_root(&rq, d, mask, known, t);
	request_finish(&rq);
	return err;
}

/* ---- learning ---- */

static int give_up(struct dht *d, const char *why)
{
	uint64_t now = clock_ns(), told = atomic_load(&d->misplaced_told_ns);

	if ((!told || now - told >= TELL_EACH_NS) && atomic_compare_exchange_strong(&d->misplaced_told_ns, &told, now))
		log_error(d->x, NULL, "names of the root are refused by a brick: %s", why);
	return -EIO;
}

int subvolume_lacking(struct dht *d)
{
	return give_up(d,
		       "their layout has a subvolume that this volume file lacks; mount with the one that the volume has now");
}

/* If the graph lacks a subvolume of it, the names of the others are found all the same. */
static int take_newer(struct dht *d, const struct layout *l)
{
	int err;

	if (l->home >= (uint32_t)d->x->children) /* it is asked for what only it has */
		return subvolume_lacking(d);
	err = adopt(d, l);
	if (!err)
		log_info(d->x, NULL, "the root's layout is version %llu now, of %u subvolumes%s",
			 (unsigned long long)l->version, l->count, l->moving ? "; names are being moved" : "");
	return err;
}

/* The home has it first; but a client that knows an old one may know an old home. */
static int look_for_newer(const struct request *rq, struct dht *d, struct told *t)
{
	const struct layout *now = &spread_of(d)->layout;
	uint64_t home = 1ull << now->home & ~atomic_load(&d->down);
	int err = home ? ask(rq, d, home, now->version, t) : 0;

	if (!err && (!t->any || t->newest.version <= now->version))
		err = ask(rq, d, present_of(d), now->version, t);
	if (err)
		return err;
	return t->any && t->newest.version > now->version ? take_newer(d, &t->newest) : 0;
}

void learning_begin(struct dht *d, struct learning *l)
{
	*l = (struct learning){ .version = spread_of(d)->layout.version };
}

int layout_learn(const struct request *rq, struct dht *d, struct learning *l)
{
	uint64_t before = l->version;
	struct told t = { .any = false };
	int err = 0;

	if (l->tries++ == TRIES)
		return give_up(
			d, "some of them have an older layout of it for long; compare trusted.dht.layout of the bricks' roots");
	if (spread_of(d)->layout.version == before)
		err = look_for_newer(rq, d, &t);
	l->version = spread_of(d)->layout.version;
	if (err || l->version > before)
		return err;
	if (t.behind) /* somebody is giving them the one that is known here */
		return task_sleep_ms(l->tries > 7 ? PAUSE_MOST_MS : 1u << (l->tries - 1));
	if (l->doubts++ < DOUBTS) /* the brick may have been given it since it refused */
		return task_sleep_ms(1);
	return give_up(
		d,
		"they belong to another of the subvolumes there; this volume file has others, or has them in another order: mount "
		"with the one that stratus volgen writes");
}

/* ---- what all of them have: of who changes it ---- */

struct lowest {
	uint64_t version[SUBVOLUMES_MAX];
	struct told told;
	int err, silent;
};

static void note_each(struct dht *d, struct fanout *f, const struct request *rq, struct lowest *low)
{
	for (int i = 0; i < d->x->children; i++) {
		struct layout l = { 0 };
		int err = 0;
		const struct getxattr_out *out = fanout_out(f, i, &err);

		if (out && layout_decode(out->value.bytes, out->value.size, &l))
			err = -EIO;
		else if (out)
			note_layout(&low->told, &l, 0);
		low->version[i] = !err || err == -ENODATA ? l.version : UINT64_MAX;
		if (low->version[i] != UINT64_MAX || low->err)
			continue;
		low->err = fanout_error(rq, err);
		low->silent = i;
	}
}

int layout_ask_all(struct request *rq, struct dht *d, const struct spread **now, uint64_t *least, int *silent)
{
	cleanup_inode struct inode *root = root_of(d);
	struct getxattr_in in = { .inode = root, .name = DHT_LAYOUT_XATTR };
	struct fanout *f = root ? fanout_start(rq, d->x, FOP_getxattr, &in, all_of(d)) : NULL;
	struct lowest low = { .silent = -1 };
	const struct layout *l = &spread_of(d)->layout;
	int err = 0;

	if (!f)
		return -ENOMEM;
	fanout_wait(f, d->x->children, rq->deadline_ns);
	note_each(d, f, rq, &low);
	fanout_drop(f);
	*silent = low.silent;
	if (low.told.any && low.told.newest.version > l->version)
		err = take_newer(d, &low.told.newest);
	*now = spread_of(d);
	if (!err && (*now)->lacks)
		err = subvolume_lacking(d);
	if (err)
		return err;
	l = &(*now)->layout;
	*least = l->version;
	for (unsigned i = 0; i < l->count; i++)
		*least = low.version[l->member[i].id] < *least ? low.version[l->member[i].id] : *least;
	return low.err;
}

/* ---- before what would do harm by a wrong one ---- */

/* A name that belongs there, whether something is called so or not; and, if there is one subvolume more than is known here, to that. So a brick which knows of
 * more refuses it. */
static bool name_for(struct dht *d, int child, char name[32])
{
	enum { NAMES = 1 << 20 };
	struct layout more = spread_of(d)->layout;
	bool changes = more.moving; /* then the version alone tells */
	uint32_t next = (uint32_t)d->x->children;

	if (!more.moving && layout_grow(&more, &(struct layout_member){ .id = next, .weight = more.member[0].weight }, 1))
		return false;
	for (int i = 0; i < NAMES; i++) {
		uint64_t key;

		snprintf(name, 32, "is-at-%d-%d", child, i);
		key = layout_key(&gfid_root, name);
		if ((int)layout_owner(&more, key)->id == child && (changes || layout_owner_next(&more, key)->id == next))
			return true;
		if (changes && (int)layout_owner_next(&more, key)->id == child)
			return true;
	}
	return false;
}

/* 0: it goes by the layout that is known here, or can't be reached; -ELAYOUT. */
static int look_at_one(struct request *rq, struct dht *d, struct inode *root, int child)
{
	char name[32];
	struct lookup_in in = { .loc = { .parent = root, .name = name } };
	struct lookup_out out = { 0 };
	int err;

	if (!name_for(d, child, name))
		return 0;
	err = lookup_on(rq, d->x->child[child], &in, &out);
	fop_out_clear(FOP_lookup, &out);
	if (!err || err == -ENOENT || err == -EACCES || err == -EMARKED) /* who may not look has been judged all the same */
		atomic_fetch_or(&d->agreed, 1ull << child);
	return err == -ELAYOUT ? err : 0;
}

static int look_at_each(struct request *rq, struct dht *d, bool anew)
{
	cleanup_inode struct inode *root = root_of(d);
	uint64_t mask = members_present(d) & (anew ? UINT64_MAX : ~atomic_load(&d->agreed));
	int err = root ? 0 : -ENOMEM;

	if (!err && mask)
		err = place_say_newest(rq, d);
	for (int i = 0; i < d->x->children && !err; i++)
		if (mask >> i & 1)
			err = look_at_one(rq, d, root, i);
	return err;
}

/* Who does not answer soon is not judged: what comes after this waits for it, or does not need it. */
int layout_check(struct request *rq, struct dht *d, bool anew)
{
	uint64_t given = rq->deadline_ns, soon = clock_ns() + (anew ? ASK_NS : CHECK_NS);
	struct learning l;
	int err, none = 0;

	learning_begin(d, &l);
	rq->deadline_ns = given && given < soon ? given : soon;
	while ((err = look_at_each(rq, d, anew)) == -ELAYOUT && !none)
		none = layout_learn(rq, d, &l);
	rq->deadline_ns = given;
	err = err == -ELAYOUT ? none : err;
	return !err && spread_of(d)->lacks ? subvolume_lacking(d) : err;
}
