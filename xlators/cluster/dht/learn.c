/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts as this client knows them. Of the root: at first the one that is implied by the number of subvolumes; any other directory is whole at first. When
 * a brick refuses what goes by that, or says that a directory has shards: what the subvolumes have on disk. Nothing is written here: a client whose
 * volume file is wrong would be believed. */
#include "dht.h"

#include <stdio.h>
#include <stdlib.h>

enum { TRIES = 250, PAUSE_MOST_MS = 128, DOUBTS = 4 };
#define ASK_NS	     5000000000u
#define CHECK_NS     2000000000u
#define TELL_EACH_NS 60000000000u

/* ---- what is known ---- */

bool is_leaving(const struct dht *d, int child)
{
	return child == d->leaving;
}

uint64_t leaving_of(const struct dht *d)
{
	return has_leaver(d) ? 1ull << d->leaving : 0;
}

/* Of one that comes: as it was asked for (of the root), else as those that are there. */
static uint16_t weight_of_new(const struct dht *d, const struct shards *of, const struct layout *now, int child)
{
	uint16_t weight = 1;

	if (of == &d->root && d->weight[child])
		return d->weight[child];
	for (unsigned i = 0; i < now->count; i++)
		weight = now->member[i].weight > weight ? now->member[i].weight : weight;
	return weight;
}

/* By all subvolumes that the layout lacks, and that are to stay, when it is settled; false: none. */
static bool grow(const struct dht *d, const struct shards *of, const struct layout *now, struct layout *l)
{
	struct layout_member more[SUBVOLUMES_MAX];
	unsigned n = 0;

	for (int i = 0; i < d->x->children; i++)
		if (has_subvolume(d, (uint64_t)i) && !layout_find(now, (uint32_t)i) && !is_leaving(d, i))
			more[n++] = (struct layout_member){ .id = (uint32_t)i, .weight = weight_of_new(d, of, now, i) };
	*l = *now;
	if (l->moving)
		layout_settle(l);
	return n && !layout_grow(l, more, n);
}

/* Without the one that is to go, when it is settled; false: it has no part. (Where it has all of it nothing is known yet of who takes its place.) */
static bool shrink(const struct dht *d, const struct layout *now, struct layout *l)
{
	uint32_t id = (uint32_t)d->leaving, home = now->home;

	*l = *now;
	if (!has_leaver(d) || !layout_find(now, id))
		return false;
	if (l->moving)
		layout_settle(l);
	if (!layout_find(l, id))
		return false;
	if (home == id && l->count > 1)
		home = l->member[l->member[0].id == id].id;
	return !layout_shrink(l, &id, 1, home);
}

/* One at a time, when it is settled, so that names flow one way; false: all have the weights that were asked for. (Directories that have grown large are spread evenly.) */
static bool weigh(const struct dht *d, const struct shards *of, const struct layout *now, struct layout *l)
{
	*l = *now;
	if (of != &d->root)
		return false;
	if (l->moving)
		layout_settle(l);
	for (unsigned i = 0; i < l->count; i++) {
		const struct layout_member *m = &l->member[i];
		uint16_t wanted = has_subvolume(d, m->id) ? d->weight[m->id] : 0;

		if (wanted && wanted != m->weight)
			return !layout_weigh(l, m->id, wanted);
	}
	return false;
}

int spread_adopt(struct dht *d, struct shards *of, const struct layout *l)
{
	struct spread *s = calloc(1, sizeof(*s));
	bool newer;

	if (!s)
		return -ENOMEM;
	s->layout = *l;
	s->grows = grow(d, of, l, &s->grown);
	s->shrinks = shrink(d, l, &s->shrunk);
	s->weighs = weigh(d, of, l, &s->weighed);
	for (unsigned i = 0; i < l->count; i++)
		if (has_subvolume(d, l->member[i].id))
			s->members |= 1ull << l->member[i].id;
		else
			s->lacks = true;
	pthread_mutex_lock(&d->lock);
	s->before = atomic_load(&of->spread);
	newer = !s->before || s->before->layout.version < l->version;
	if (newer)
		atomic_store(&of->spread, s);
	pthread_mutex_unlock(&d->lock);
	if (!newer)
		free(s);
	return 0;
}

int spread_start(struct dht *d)
{
	struct layout implied;

	layout_implied(&implied, (uint32_t)d->initial_from,
		       (unsigned)(d->initial ? d->initial : d->x->children - d->initial_from));
	atomic_store(&d->root.reached, UINT64_MAX);
	return spread_adopt(d, &d->root, &implied);
}

/* None is given back before: others may read it. There are few. */
void spreads_free(struct shards *of)
{
	struct spread *s = atomic_load(&of->spread);

	while (s) {
		struct spread *before = s->before;

		free(s);
		s = before;
	}
}

const struct spread *spread_of(struct dht *d)
{
	return atomic_load(&d->root.spread);
}

const struct spread *spread_in(struct dht *d, const struct inode *dir)
{
	struct shards *of = shards_of(d, dir);

	return of ? atomic_load(&of->spread) : NULL;
}

static uint64_t version_in(struct dht *d, const struct inode *dir)
{
	const struct spread *s = spread_in(d, dir);

	return s ? s->layout.version : 0;
}

static bool says(const struct place *p, const struct gfid *directory)
{
	return gfid_equal(&p->directory[0], directory) || gfid_equal(&p->directory[1], directory);
}

/* A directory that the request does not name is not what it is about. */
const struct spread *spread_said(const struct request *rq, struct dht *d, const struct inode *dir)
{
	const struct spread *s = spread_in(d, dir);
	struct place said;

	if (!s || (!s->before && is_root(dir))) /* the usual case: there has been one layout */
		return s;
	if (place_of(rq, &said) <= 0 || MUTANT("say-latest") || !says(&said, &dir->gfid))
		return s;
	while (s && s->layout.version > place_version(&said, &dir->gfid, 0) && (s->before || !is_root(dir)))
		s = s->before;
	return s;
}

static struct owners owners_by(const struct spread *s, const struct inode *dir, const char *name)
{
	const struct layout *l = &s->layout;
	uint64_t key = layout_key(&dir->gfid, name);
	int to = (int)layout_owner_next(l, key)->id;

	return (struct owners){ l->moving ? (int)layout_owner(l, key)->id : to, to };
}

struct owners owners_in(struct dht *d, const struct inode *dir, const char *name)
{
	return owners_by(spread_in(d, dir), dir, name);
}

struct owners owners_said(const struct request *rq, struct dht *d, const struct inode *dir, const char *name)
{
	return owners_by(spread_said(rq, d, dir), dir, name);
}

int root_owner(struct dht *d, const char *name)
{
	return (int)layout_owner_next(&spread_of(d)->layout, layout_key(&gfid_root, name))->id;
}

bool is_at_home(struct dht *d, const struct inode *dir, const char *name, int child)
{
	struct owners o = owners_in(d, dir, name);

	return o.from == child || o.to == child;
}

bool is_member(struct dht *d, int child)
{
	return spread_of(d)->members >> child & 1;
}

uint64_t members_present_in(struct dht *d, const struct inode *dir)
{
	uint64_t members = spread_in(d, dir)->members, present = members & ~atomic_load(&d->down);

	return present ? present : members;
}

uint64_t members_present(struct dht *d)
{
	uint64_t members = spread_of(d)->members, present = members & ~atomic_load(&d->down);

	return present ? present : members;
}

/* ---- what requests say ---- */

/* Also of one that is whole: it may be known to have shards before the operation is over. */
static void say(struct place *p, unsigned at, const struct gfid *directory, uint64_t version)
{
	p->directory[at] = *directory;
	p->version[at] = version;
}

/* Marks are judged by the version alone, and a step of an intent by its mark: so what names were found by is said until the operation is begun again. */
int place_say(struct request *rq, struct dht *d, const struct place *p)
{
	struct place said = *p, before;

	if (place_of(rq, &before) > 0 && !MUTANT("say-latest")) {
		memcpy(said.directory, before.directory, sizeof(said.directory));
		memcpy(said.version, before.version, sizeof(said.version));
	} else {
		say(&said, 0, &gfid_root, spread_of(d)->layout.version);
	}
	return place_attach(rq, &said);
}

int place_say_newest(struct request *rq, struct dht *d)
{
	struct place said = { 0 };

	say(&said, 0, &gfid_root, spread_of(d)->layout.version);
	return place_attach(rq, &said);
}

int place_say_in(struct request *rq, struct dht *d, struct inode *dir)
{
	struct place said = { 0 };

	shards_reach(rq, d, dir);
	say(&said, 0, &gfid_root, spread_of(d)->layout.version);
	if (!is_root(dir))
		say(&said, 1, &dir->gfid, version_in(d, dir));
	return place_attach(rq, &said);
}

/* The directories that an operation is about: those of its names, or the one that is its object. */
static unsigned directories_of(enum fop fop, const void *in, struct inode *dir[2])
{
	unsigned n = 0;

	for (const struct field *f = in ? fop_info[fop].in : NULL; f && f->name && n < 2; f++) {
		const void *at = (const char *)in + f->offset;
		const struct loc *loc = at;
		struct inode *one = NULL;

		if (f->kind == FIELD_LOC)
			one = loc->parent && loc->name ? loc->parent : loc->inode;
		else if (f->kind == FIELD_INODE)
			one = *(struct inode *const *)at;
		else if (f->kind == FIELD_FILE && *(struct file *const *)at)
			one = (*(struct file *const *)at)->inode;
		if (one && S_ISDIR(one->type) && (!n || dir[0] != one))
			dir[n++] = one;
	}
	return n;
}

/* There is room for two; the root besides, for what is done by the way. */
int place_say_for(struct request *rq, struct dht *d, enum fop fop, const void *in)
{
	struct place said = { 0 };
	struct inode *dir[2];
	unsigned n = directories_of(fop, in, dir), at = 0;
	bool root = false;

	for (unsigned i = 0; i < n; i++) {
		shards_reach(rq, d, dir[i]);
		root |= is_root(dir[i]);
		say(&said, at++, &dir[i]->gfid, version_in(d, dir[i]));
	}
	if (!root && at < 2)
		say(&said, at, &gfid_root, spread_of(d)->layout.version);
	return place_attach(rq, &said);
}

/* ---- shards ---- */

int shard_reach(struct request *rq, struct dht *d, struct inode *dir, int child)
{
	struct shards *of = shards_of(d, dir);
	struct aim aim = { .gfid = dir->gfid, .child = child, .dir = true };
	struct lookup_out out = { 0 };
	int err;

	if (!of || atomic_load(&of->reached) >> child & 1)
		return 0;
	err = look_at_anchor(rq, d, &aim, &out);
	fop_out_clear(FOP_lookup, &out);
	if (!err)
		atomic_fetch_or(&of->reached, 1ull << child);
	return err == -ENOENT ? -ESTALE : err;
}

void shards_reach(struct request *rq, struct dht *d, struct inode *dir)
{
	struct shards *of = shards_of(d, dir);
	uint64_t mask;

	if (!of || is_root(dir))
		return;
	mask = atomic_load(&of->spread)->members & ~atomic_load(&of->reached) & present_of(d);
	for (int i = 0; mask && i < d->x->children; i++)
		if (mask >> i & 1)
			shard_reach(rq, d, dir, i);
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

static int ask_as_root(struct request *rq, struct dht *d, struct inode *dir, uint64_t mask, uint64_t known, struct told *t)
{
	struct getxattr_in in = { .inode = dir, .name = DHT_LAYOUT_XATTR };
	struct fanout *f;

	shards_reach(rq, d, dir);
	f = fanout_start(rq, d->x, FOP_getxattr, &in, mask);

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

static int ask(const struct request *for_rq, struct dht *d, struct inode *dir, uint64_t mask, uint64_t known, struct told *t)
{
	struct request rq;
	uint64_t until = clock_ns() + ASK_NS;
	int err;

	request_init(&rq, d->x->graph, 0);
	rq.group_count = 0;
	rq.deadline_ns = for_rq->deadline_ns && for_rq->deadline_ns < until ? for_rq->deadline_ns : until;
	err = ask_as_root(&rq, d, dir, mask, known, t);
	request_finish(&rq);
	return err;
}

/* ---- learning ---- */

static int give_up(struct dht *d, const char *why)
{
	uint64_t now = clock_ns(), told = atomic_load(&d->misplaced_told_ns);

	if ((!told || now - told >= TELL_EACH_NS) && atomic_compare_exchange_strong(&d->misplaced_told_ns, &told, now))
		log_error(d->x, NULL, "names of the root, or of a wide directory, are refused by a brick: %s", why);
	return -EIO;
}

int subvolume_lacking(struct dht *d)
{
	return give_up(d,
		       "their layout has a subvolume that this volume file lacks; mount with the one that the volume has now");
}

/* If the graph lacks a subvolume of it, the names of the others are found all the same. */
static int take_newer(struct dht *d, struct inode *dir, const struct layout *l)
{
	struct shards *of;
	int err;

	if (!has_subvolume(d, l->home)) /* it is asked for what only it has */
		return subvolume_lacking(d);
	place_doubted(d, dir);
	err = is_root(dir) ? 0 : shards_make(d, dir, (int)l->home, l);
	of = err ? NULL : shards_of(d, dir);
	if (of)
		err = spread_adopt(d, of, l);
	place_doubted(d, dir); /* and what was asked for meanwhile, of those that had it before */
	if (!err && is_root(dir))
		log_info(d->x, NULL, "the root's layout is version %llu now, of %u subvolumes%s",
			 (unsigned long long)l->version, l->count, l->moving ? "; names are being moved" : "");
	return err;
}

/* -1: it is not known where the directory is. */
static int home_of(struct dht *d, const struct inode *dir)
{
	const struct spread *s = spread_in(d, dir);

	return s ? (int)s->layout.home : place_known(d, dir);
}

/* The home has it first; but a client that knows an old one may know an old home. */
static int look_for_newer(const struct request *rq, struct dht *d, struct inode *dir, struct told *t)
{
	const struct spread *now = spread_in(d, dir);
	uint64_t version = now ? now->layout.version : 0, all = is_root(dir) ? present_of(d) : now ? now->members : 0;
	int home = home_of(d, dir), err = 0;

	if (home >= 0 && present_of(d) >> home & 1)
		err = ask(rq, d, dir, 1ull << home, version, t);
	if (!err && all && (!t->any || t->newest.version <= version))
		err = ask(rq, d, dir, all & present_of(d), version, t);
	if (err)
		return err;
	return t->any && t->newest.version > version ? take_newer(d, dir, &t->newest) : 0;
}

int learn_newer(const struct request *rq, struct dht *d, struct inode *dir)
{
	struct told t = { .any = false };

	return look_for_newer(rq, d, dir, &t);
}

/* What the shard there has itself. */
static int learn_from(const struct request *rq, struct dht *d, struct inode *dir, int child)
{
	struct told t = { .any = false };
	int err = ask(rq, d, dir, 1ull << child, 0, &t);

	return err || !t.any ? err : take_newer(d, dir, &t.newest);
}

/* Its home can be asked only by who has come by it there; where he is now its names are judged by what that shard has. */
int learn_there(struct request *rq, struct dht *d, struct inode *dir, int child)
{
	int home = child, err = is_spread(d, dir) || place_known(d, dir) >= 0 ? 0 : place_say_newest(rq, d);

	if (!err && !is_spread(d, dir) && place_known(d, dir) < 0) {
		err = home_of_shard(rq, d, dir, &home);
		if (!err)
			err = note_place(d, dir, home, true);
	}
	if (!err)
		err = learn_newer(rq, d, dir);
	return err || is_spread(d, dir) ? err : learn_from(rq, d, dir, child);
}

/* What is known may be older than what both have. */
int directory_now(struct dht *d, struct inode *dir, int known, int child)
{
	const struct spread *s = spread_in(d, dir);
	uint64_t those = 1ull << child | (s ? 0 : 1ull << known);
	struct told t = { .any = false };
	struct request rq;
	int home;

	request_init(&rq, d->x->graph, 0);
	if (!(s && s->members >> child & 1) && !ask(&rq, d, dir, those, 0, &t) && t.any &&
	    (!s || t.newest.version > s->layout.version) && !take_newer(d, dir, &t.newest))
		s = spread_in(d, dir);
	request_finish(&rq);
	if (!s)
		return -EEXIST;
	home = (int)s->layout.home;
	if (has_subvolume(d, s->layout.home))
		atomic_store(&shards_of(d, dir)->home, home);
	return s->members >> child & 1		  ? child
	       : s->members >> known & 1	  ? known
	       : has_subvolume(d, s->layout.home) ? home
						  : -EEXIST;
}

int learn_wide(const struct request *rq, struct dht *d, struct inode *dir)
{
	return is_spread(d, dir) ? 0 : learn_newer(rq, d, dir);
}

void learning_begin(struct dht *d, struct learning *l, enum fop fop, const void *in)
{
	*l = (struct learning){ .dirs = directories_of(fop, in, l->dir) };
	l->dirs = directories_of(fop, in, l->dir);
	for (unsigned i = 0; i < l->dirs; i++)
		l->version[i] = version_in(d, l->dir[i]);
}

bool learning_has_learnt(struct dht *d, const struct learning *l)
{
	bool yes = false;

	for (unsigned i = 0; i < l->dirs; i++)
		yes |= version_in(d, l->dir[i]) > l->version[i];
	return yes;
}

static void note_learnt(struct dht *d, struct learning *l)
{
	for (unsigned i = 0; i < l->dirs; i++)
		l->version[i] = version_in(d, l->dir[i]);
}

int layout_learn(const struct request *rq, struct dht *d, struct learning *l)
{
	struct told t[2] = { { .any = false } };
	bool learnt;
	int err = 0;

	if (l->tries++ == TRIES)
		return give_up(
			d,
			"some of them have an older layout of it for long; compare trusted.dht.layout of the bricks' directories");
	for (unsigned i = 0; i < l->dirs && !err && !learning_has_learnt(d, l); i++)
		err = look_for_newer(rq, d, l->dir[i], &t[i]);
	learnt = learning_has_learnt(d, l);
	note_learnt(d, l);
	if (err || learnt)
		return err;
	if (t[0].behind || t[1].behind) /* somebody is giving them the one that is known here */
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

static void note_each(struct dht *d, struct fanout *f, const struct request *rq, uint64_t mask, struct lowest *low)
{
	for (int i = 0; i < d->x->children; i++) {
		struct layout l = { 0 };
		int err = 0;
		const struct getxattr_out *out = mask >> i & 1 ? fanout_out(f, i, &err) : NULL;

		if (!(mask >> i & 1))
			continue;
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

/* Whose answers are needed: a directory that is whole is asked where it is. */
static uint64_t those_of(struct dht *d, struct inode *dir)
{
	const struct spread *s = spread_in(d, dir);
	int home = home_of(d, dir);

	return is_root(dir) ? all_of(d) : s ? s->members : home < 0 ? 0 : 1ull << home;
}

static int ask_those(struct request *rq, struct dht *d, struct inode *dir, uint64_t mask, struct lowest *low)
{
	struct getxattr_in in = { .inode = dir, .name = DHT_LAYOUT_XATTR };
	struct fanout *f;

	shards_reach(rq, d, dir);
	f = fanout_start(rq, d->x, FOP_getxattr, &in, mask);
	if (!f)
		return -ENOMEM;
	fanout_wait(f, d->x->children, rq->deadline_ns);
	note_each(d, f, rq, mask, low);
	fanout_drop(f);
	return low->told.any && low->told.newest.version > version_in(d, dir) ? take_newer(d, dir, &low->told.newest) : 0;
}

int layout_ask_all(struct request *rq, struct dht *d, struct inode *dir, const struct spread **now, uint64_t *least,
		   int *silent)
{
	struct lowest low = { .silent = -1 };
	uint64_t asked = those_of(d, dir);
	const struct layout *l;
	int err = ask_those(rq, d, dir, asked, &low);

	if (!err && those_of(d, dir) & ~asked) { /* of one that has grown wide: there are others */
		low = (struct lowest){ .silent = -1 };
		err = ask_those(rq, d, dir, those_of(d, dir), &low);
	}
	*silent = low.silent;
	*now = spread_in(d, dir);
	if (!err && *now && (*now)->lacks)
		err = subvolume_lacking(d);
	if (err || !*now)
		return err ? err : low.err;
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
	uint32_t next = 0;	    /* a place that was left is taken first */

	while (has_subvolume(d, next))
		next++;
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
	cleanup_inode struct inode *root = root_of(d);
	struct opendir_in of_root = { .inode = root };
	struct learning l;
	int err, none = 0;

	if (!root)
		return -ENOMEM;
	learning_begin(d, &l, FOP_opendir, &of_root);
	rq->deadline_ns = given && given < soon ? given : soon;
	while ((err = look_at_each(rq, d, anew)) == -ELAYOUT && !none)
		none = layout_learn(rq, d, &l);
	rq->deadline_ns = given;
	err = err == -ELAYOUT ? none : err;
	return !err && spread_of(d)->lacks ? subvolume_lacking(d) : err;
}
