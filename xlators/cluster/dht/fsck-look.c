/* SPDX-License-Identifier: Apache-2.0 */
/* One look at all subvolumes: what is away, what is under way, then the trees. What is away is known before the pointers are met, so only that is
 * kept in memory. */
#include "fsck.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---- what is away ---- */

const char *away_path(const struct away *a, char path[AWAY_PATH])
{
	struct aim aim = { .gfid = a->gfid, .pgfid = a->pgfid };
	char name[HIDDEN_NAME], text[GFID_TEXT];

	if (a->directory)
		snprintf(name, sizeof(name), "d.%s", gfid_text(&a->gfid, text));
	else
		anchor_name(&aim, name);
	snprintf(path, AWAY_PATH, DHT_HIDDEN "/away/%02x/%s", a->gfid.bytes[0], name);
	return path;
}

/* A gfid as the text begins with it. */
static int take_gfid(const char *text, struct gfid *gfid)
{
	char copy[GFID_TEXT];

	snprintf(copy, sizeof(copy), "%s", text);
	return gfid_parse(copy, gfid);
}

static int away_parse(const char *name, struct away *a)
{
	size_t length = strlen(name);
	int err;

	a->directory = *name == 'd';
	if ((*name != 'a' && *name != 'd') || name[1] != '.' ||
	    length != (a->directory ? 2 + GFID_TEXT - 1 : 2 + 2 * GFID_TEXT - 1))
		return -EINVAL;
	err = take_gfid(name + 2, &a->pgfid);
	if (!err && !a->directory && name[2 + GFID_TEXT - 1] != '.')
		err = -EINVAL;
	if (a->directory)
		a->gfid = a->pgfid;
	else if (!err)
		err = take_gfid(name + 2 + GFID_TEXT, &a->gfid);
	return err;
}

static int add_away(struct fsck *f, const struct away *a)
{
	if (f->aways == f->away_room) {
		size_t room = f->away_room ? 2 * f->away_room : 256;
		struct away *more = realloc(f->away, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		f->away = more;
		f->away_room = room;
	}
	f->away[f->aways++] = *a;
	return 0;
}

static int visit_away(struct fsck *f, const struct spot *s)
{
	const struct dirent_plus *e = s->entry;
	struct away a = { .child = (uint8_t)s->child };
	char path[AWAY_PATH];
	size_t length = strlen(s->path);
	bool fits;

	if (away_parse(e->name, &a))
		return suspect_add(f, (struct suspect){ .trouble = TROUBLE_UNKNOWN, .child = s->child, .own = e->inode->gfid },
				   spot_path(s));
	away_path(&a, path);
	a.leads_on = e->attr.flags & ATTR_POINTER && !a.directory && has_subvolume(f->d, e->attr.rdev);
	a.next = a.leads_on ? (uint8_t)e->attr.rdev : 0;
	fits = gfid_equal(&e->inode->gfid, &a.gfid) && S_ISDIR(e->attr.mode) == a.directory &&
	       (!(e->attr.flags & ATTR_POINTER) || a.leads_on) && !strncmp(path, s->path, length);
	if (!fits)
		return suspect_add(f,
				   (struct suspect){ .trouble = TROUBLE_AWAY,
						     .child = s->child,
						     .type = e->attr.mode & S_IFMT,
						     .own = e->inode->gfid,
						     .aim = { a.gfid, a.pgfid, s->child } },
				   spot_path(s));
	return add_away(f, &a);
}

static int by_pgfid(const void *a, const void *b)
{
	return memcmp(&((const struct away *)a)->pgfid, &((const struct away *)b)->pgfid, sizeof(struct gfid));
}

struct away *away_find(struct fsck *f, const struct gfid *pgfid, int child)
{
	struct away key = { .pgfid = *pgfid };
	struct away *any = f->aways ? bsearch(&key, f->away, f->aways, sizeof(key), by_pgfid) : NULL, *at = any;

	while (at && at > f->away && !by_pgfid(at - 1, any))
		at--;
	for (; at && at < f->away + f->aways && !by_pgfid(at, any); at++)
		if (at->child == child)
			return at;
	return any;
}

struct away *away_next(struct fsck *f, const struct away *stub)
{
	struct away *next = away_find(f, &stub->pgfid, stub->next);

	return next && next->child == stub->next && next->child != stub->child && gfid_equal(&next->gfid, &stub->gfid) ? next
														       : NULL;
}

void away_meet(struct fsck *f, struct away *a)
{
	struct away *next = a && a->leads_on ? away_next(f, a) : NULL;

	if (a)
		a->seen = true;
	if (next)
		next->seen = true;
}

/* ---- objects that may be at several subvolumes, or are missed where a pointer says that they are ---- */

enum { FILTER_WORDS = 4 << 20, FILTER_BITS = 4 }; /* 32 MiB: of 10^7 files some thousand are looked at again in vain */

/* Perhaps it was seen at a subvolume before. */
static bool filter_seen(struct fsck *f, const struct gfid *gfid)
{
	bool seen = true;

	for (unsigned i = 0; i < FILTER_BITS; i++) {
		uint64_t bit = XXH3_64bits_withSeed(gfid->bytes, sizeof(gfid->bytes), i) % (64ull * FILTER_WORDS);

		seen &= f->filter[0][bit / 64] >> bit % 64 & 1;
		f->filter[1][bit / 64] |= 1ull << bit % 64;
	}
	return seen;
}

static void filter_next(struct fsck *f)
{
	for (size_t i = 0; f->filter[1] && i < FILTER_WORDS; i++)
		if (f->filter[1][i]) /* memory that is not written to is not taken */
			f->filter[0][i] |= f->filter[1][i];
}

static int by_gfid(const void *a, const void *b)
{
	return memcmp(&((const struct wanted *)a)->gfid, &((const struct wanted *)b)->gfid, sizeof(struct gfid));
}

struct wanted *wanted_find(struct fsck *f, const struct gfid *gfid)
{
	struct wanted key = { .gfid = *gfid };

	return f->wanteds ? bsearch(&key, f->wanted, f->wanteds, sizeof(key), by_gfid) : NULL;
}

void wanted_clear(struct fsck *f)
{
	for (size_t i = 0; i < f->wanteds; i++) {
		free(f->wanted[i].path[0]);
		free(f->wanted[i].path[1]);
	}
	free(f->wanted);
	f->wanted = NULL;
	f->wanteds = 0;
}

/* Those that what was kept asks for. */
static int wanted_make(struct fsck *f)
{
	wanted_clear(f);
	if (!f->kept.count)
		return 0;
	f->wanted = calloc(f->kept.count, sizeof(*f->wanted));
	if (!f->wanted)
		return -ENOMEM;
	for (size_t i = 0; i < f->kept.count; i++) {
		const struct suspect *s = &f->kept.at[i];
		const struct gfid *gfid = s->trouble == TROUBLE_POINTER ? &s->aim.gfid : &s->own;

		if ((s->trouble == TROUBLE_POINTER || s->trouble == TROUBLE_TWICE) && !gfid_is_null(gfid))
			f->wanted[f->wanteds++].gfid = *gfid;
	}
	qsort(f->wanted, f->wanteds, sizeof(*f->wanted), by_gfid);
	return 0;
}

static int note_wanted(struct wanted *w, const struct spot *s)
{
	bool other = w->path[0];

	if (other && (w->child[0] == s->child || w->path[1]))
		return 0;
	w->child[other] = s->child;
	w->path[other] = spot_path(s);
	return w->path[other] ? 0 : -ENOMEM;
}

int wanted_meet(struct fsck *f, const struct spot *s)
{
	struct wanted *w = wanted_find(f, &s->entry->inode->gfid);

	return w ? note_wanted(w, s) : 0;
}

/* An object that has data, or could have. */
static int meet_object(struct fsck *f, const struct spot *s)
{
	const struct gfid *gfid = &s->entry->inode->gfid;
	struct wanted *w = wanted_find(f, gfid);
	bool first_look = f->filter[1];

	if (w)
		return note_wanted(w, s);
	if (!first_look || !filter_seen(f, gfid))
		return 0;
	return suspect_add(f, (struct suspect){ .trouble = TROUBLE_TWICE, .own = *gfid }, spot_path(s));
}

/* ---- the trees ---- */

static bool is_stray(struct fsck *f, const struct spot *s)
{
	return !*s->path && !is_at_home(f->d, s->dir, s->entry->name, s->child);
}

/* Each file system has such a one in its root, which is none of ours. */
static bool is_not_ours(struct fsck *f, const struct spot *s)
{
	const struct dirent_plus *e = s->entry;

	return !*s->path &&
	       (!strcmp(e->name, DHT_HIDDEN) || (is_stray(f, s) && S_ISDIR(e->attr.mode) && !strcmp(e->name, "lost+found")));
}

static int visit_tree(struct fsck *f, const struct spot *s)
{
	const struct dirent_plus *e = s->entry;
	int err = 0;

	if (is_not_ours(f, s))
		return PASS;
	if (is_stray(f, s))
		err = suspect_add(f,
				  (struct suspect){ .trouble = TROUBLE_STRAY,
						    .child = s->child,
						    .type = e->attr.mode & S_IFMT,
						    .own = e->inode->gfid },
				  spot_path(s));
	if (err)
		return err;
	if (e->attr.flags & ATTR_POINTER)
		return judge_pointer(f, s);
	f->counts.files += !S_ISDIR(e->attr.mode);
	err = shards_meet(f, s);
	return err ? err : S_ISDIR(e->attr.mode) ? DESCEND : meet_object(f, s);
}

/* What has come to be under way while the trees were looked at: then it is asked only which pointers there are. */
static int visit_work_again(struct fsck *f, const struct spot *s)
{
	struct away *a =
		s->entry->attr.flags & ATTR_POINTER ? away_find(f, &s->entry->inode->gfid, (int)s->entry->attr.rdev) : NULL;

	away_meet(f, a);
	return PASS;
}

/* An anchor of what is left of a file that was moved, or of the copy of one that is being moved: these are no pointers that have a name. */
static bool is_anchor(const struct spot *s)
{
	struct gfid pointer, object;

	return strlen(s->path) == sizeof(DHT_HIDDEN "/away/00") - 1 && !anchor_parse(s->entry->name, &pointer, &object);
}

/* Its files are met where their names are, too, if they have some there. */
static int visit_in_away(struct fsck *f, const struct spot *s)
{
	bool directory = S_ISDIR(s->entry->attr.mode);
	int err;

	if (s->entry->attr.flags & ATTR_POINTER)
		return is_anchor(s) ? PASS : judge_pointer(f, s);
	f->counts.files += !directory && strlen(s->path) > sizeof(DHT_HIDDEN "/away/00") - 1;
	err = shards_meet(f, s);
	return err ? err : directory ? DESCEND : meet_object(f, s);
}

/* One directory of `away`, or of `work`, if there is one. */
static int look_at_one(struct fsck *f, int child, bool away, unsigned number, enter_fn *enters, visit_fn *visit)
{
	cleanup_inode struct inode *dir = NULL;
	struct gfid gfid = { { (uint8_t)number } };
	char path[AWAY_PATH];
	int err = fsck_ask(f);

	snprintf(path, sizeof(path), away ? DHT_HIDDEN "/away/%02x" : DHT_HIDDEN "/work/%x", number);
	if (!err)
		err = away ? away_dir(f->rq, f->d, child, &gfid, false, &dir)
			   : work_dir(f->rq, f->d, child, number, false, &dir);
	if (err == -ENOENT)
		return 0;
	if (err == -EOPNOTSUPP) /* features/cloud shows it to who acts for a tenant */
		return fsck_problem(f, err, "%s has a tree for each tenant, and none of its own: name a tenant with --tenant",
				    f->d->x->child[child]->name);
	if (err)
		return fsck_problem(f, err, "/%s can't be read at %s: %s", path, f->d->x->child[child]->name, error_text(err));
	return fsck_walk(f, child, dir, path, enters, visit);
}

static int look_at_hidden(struct fsck *f, int child, bool away, enter_fn *enters, visit_fn *visit)
{
	int err = 0;

	for (unsigned i = 0; i < (away ? AWAY_DIRS : WORK_DIRS) && !err; i++)
		err = look_at_one(f, child, away, i, enters, visit);
	return err;
}

static int look_at_tree(struct fsck *f, int child)
{
	cleanup_inode struct inode *root = root_of(f->d);
	int err = root ? fsck_walk(f, child, root, "", judge_directory, visit_tree) : -ENOMEM;

	if (!err)
		err = look_at_hidden(f, child, true, judge_directory, visit_in_away);
	filter_next(f);
	return err;
}

/* ---- what is known when all were looked at ---- */

/* A client may have ended it since it was listed. */
static int judge_unseen(struct fsck *f, const struct away *a)
{
	struct suspect s = {
		.trouble = TROUBLE_AWAY, .child = a->child, .own = a->gfid, .aim = { a->gfid, a->pgfid, a->child }
	};
	cleanup_inode struct inode *dir = NULL;
	struct lookup_out out = { 0 };
	char path[AWAY_PATH];
	const char *name;
	bool shard = false, moves = false;
	int err = fsck_find(f, a->child, away_path(a, path), &dir, &name);

	if (!err)
		err = fsck_lookup(f, a->child, dir, name, &out);
	s.type = out.attr.mode & S_IFMT;
	if (!err && a->directory)
		err = is_shard(f, a->child, out.inode, &shard, &moves);
	s.trouble = shard ? TROUBLE_SHARD : TROUBLE_AWAY;
	fop_out_clear(FOP_lookup, &out);
	f->incomplete |= err == -EMARKED; /* the object is being moved with its names */
	if (moves || err == -ENOENT || err == -ESTALE || err == -EMARKED)
		return 0;
	if (err)
		return fsck_problem(f, err, "/%s can't be looked up at %s: %s", path, f->d->x->child[a->child]->name,
				    error_text(err));
	return suspect_add(f, s, strdup(path));
}

/* What is in a directory that could not be read may lead there. */
static int judge_all_unseen(struct fsck *f)
{
	int err = 0;

	for (size_t i = 0; i < f->aways && !err && !f->incomplete; i++)
		if (!f->away[i].seen)
			err = judge_unseen(f, &f->away[i]);
	return err;
}

static int judge_twice(struct fsck *f)
{
	int err = 0;

	for (size_t i = 0; i < f->wanteds && !err; i++) {
		struct wanted *w = &f->wanted[i];
		struct suspect s = { .trouble = TROUBLE_TWICE, .child = w->child[0], .own = w->gfid };

		if (!w->path[1])
			continue;
		s.aim.child = w->child[1];
		s.more = strdup(w->path[1]);
		err = suspect_add(f, s, strdup(w->path[0]));
	}
	return err;
}

/* ---- all ---- */

/* Nothing is judged while one is missing. */
static int ask_all(struct fsck *f)
{
	cleanup_inode struct inode *root = root_of(f->d);
	struct getattr_in in = { .inode = root };
	int err = root ? 0 : -ENOMEM;

	for (int child = 0; child < f->d->x->children && !err; child++) {
		struct getattr_out out = { 0 };

		if (!has_subvolume(f->d, (uint64_t)child))
			continue;
		hidden_forget(f->d, child);
		fsck_ask_raw(f);
		err = getattr_on(f->rq, f->d->x->child[child], &in, &out);
		if (err)
			fsck_problem(f, err, "%s can't be reached (%s): nothing is judged until it is back",
				     f->d->x->child[child]->name, error_text(err));
	}
	return err;
}

static int each_child(struct fsck *f, int (*fn)(struct fsck *, int child))
{
	int err = 0;

	for (int child = 0; child < f->d->x->children && !err; child++)
		err = has_subvolume(f->d, (uint64_t)child) ? fn(f, child) : 0;
	return err;
}

static int look_at_away(struct fsck *f, int child)
{
	return look_at_hidden(f, child, true, NULL, visit_away);
}

static int look_at_work(struct fsck *f, int child)
{
	return look_at_hidden(f, child, false, NULL, judge_work);
}

static int look_at_work_again(struct fsck *f, int child)
{
	return look_at_hidden(f, child, false, NULL, visit_work_again);
}

static void forget_look(struct fsck *f)
{
	f->aways = f->broads = 0;
	f->counts = (struct counts){ 0 };
	f->incomplete = false;
	suspects_clear(&f->now);
}

/* In the first look of several all files are told from each other by a filter. */
static int filter_make(struct fsck *f)
{
	for (int i = 0; i < 2; i++) {
		free(f->filter[i]);
		f->filter[i] = f->looks ? NULL : calloc(FILTER_WORDS, sizeof(*f->filter[i]));
		if (!f->looks && !f->filter[i])
			return -ENOMEM;
	}
	return 0;
}

static int look_at_all(struct fsck *f)
{
	int err = each_child(f, look_at_away);

	if (!err && f->aways)
		qsort(f->away, f->aways, sizeof(*f->away), by_pgfid);
	if (!err)
		err = each_child(f, look_at_work);
	if (!err)
		err = each_child(f, look_at_tree);
	if (!err)
		err = each_child(f, look_at_work_again);
	if (!err && !f->incomplete)
		err = judge_shards(f);
	if (!err)
		err = judge_all_unseen(f);
	return err ? err : judge_twice(f);
}

int fsck_look(struct fsck *f)
{
	int err = filter_make(f);

	forget_look(f);
	if (!err)
		err = wanted_make(f);
	if (!err)
		err = ask_all(f);
	if (!err)
		err = each_child(f, judge_root);
	return err || f->now.count ? err : look_at_all(f);
}
