/* SPDX-License-Identifier: Apache-2.0 */
/* Is the subvolume that is to leave empty, and will it stay so ("looking" in "Taking a subvolume out, in detail" of doc/distribution.md)? All is looked at that may lead there, or be put back there; what
 * is found first is told. */
#include "rebalance-leave.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

int leaving_each_away(struct leaving *v, int child, uint32_t flags, meet_entries *met, void *arg)
{
	int err = 0;

	for (unsigned i = 0; i < AWAY_DIRS && !err && !rebalance_stops(v->r); i++) {
		struct request rq;

		rebalance_ask(v->r, &rq, REBALANCE_ASK_NS);
		err = away_list(&rq, v->r->d, child, i, flags, met, arg);
		request_finish(&rq);
		err = err == -ENOENT ? 0 : err;
	}
	return err;
}

/* ---- is it empty? ---- */

/* So that it can be told, if it does not go. */
__attribute__((format(printf, 2, 3))) static void note_what(struct leaving *v, const char *format, ...)
{
	va_list args;

	if (v->stays.what[0])
		return;
	va_start(args, format);
	vsnprintf(v->stays.what, sizeof(v->stays.what), format, args);
	va_end(args);
}

static void count_names(struct request *rq, void *arg, struct inode *dir, const struct dirents *list)
{
	struct leaving *v = arg;

	(void)rq, (void)dir;
	for (uint32_t i = 0; i < list->count; i++) {
		const char *name = list->entry[i].name;

		if (!strcmp(name, DHT_HIDDEN) ||
		    !strcmp(name, "lost+found")) /* the file system's own: else it would have moved */
			continue;
		v->stays.names++;
		note_what(v, "the name \"%.100s\"", name);
	}
}

/* Where it was at home last it is not any more: it was removed before somebody came by its name. */
static int has_gone(struct request *rq, struct leaving *v, const struct gfid *gfid, int home, bool *gone)
{
	struct aim aim = { .gfid = *gfid, .child = home, .dir = true };
	struct lookup_out there = { 0 };
	int err = home == v->child || !has_subvolume(v->r->d, (uint64_t)home) ? 0 : look_at_anchor(rq, v->r->d, &aim, &there);

	*gone = err == -ENOENT;
	fop_out_clear(FOP_lookup, &there);
	return *gone ? 0 : err;
}

static void stays(struct leaving *v, const struct gfid *gfid, const char *why)
{
	char text[GFID_TEXT];

	v->stays.directories++;
	note_what(v, "the directory %s, %s", gfid_text(gfid, text), why);
}

static void is_unsaid(struct leaving *v, const struct gfid *gfid)
{
	char text[GFID_TEXT];

	v->stays.unsaid++;
	note_what(v, "the directory %s, whose name leads there", gfid_text(gfid, text));
}

/* Its home is elsewhere, and so does what leads to it, or it has gone; and it has no names. */
static int judge_directory(struct request *rq, struct leaving *v, const struct gfid *gfid)
{
	struct rebalance *r = v->r;
	struct aim aim = { .gfid = *gfid, .child = v->child, .dir = true };
	struct lookup_out found = { 0 };
	struct layout l = { 0 };
	int home = v->child, err = look_at_anchor(rq, r->d, &aim, &found);
	const struct layout_member *m;
	bool gone = false;

	if (!err)
		err = layout_at(rq, r->d, v->child, found.inode, &l);
	m = err ? NULL : layout_find(&l, (uint32_t)v->child);
	if (!err)
		err = home_of_shard(rq, r->d, found.inode, &home);
	if (!err && !l.moving && !m && home == v->child)
		err = has_gone(rq, v, gfid, (int)l.home, &gone);
	if (!err && (l.moving || m))
		stays(v, gfid, "which has a part of its names there");
	else if (!err && home == v->child && !gone)
		is_unsaid(v, gfid);
	else if (!err)
		err = directory_is_empty(rq, r->d, v->child, found.inode);
	fop_out_clear(FOP_lookup, &found);
	if (err == -ENODATA)
		stays(v, gfid, "which no layout names: `stratus fsck --repair` removes it if it is empty");
	else if (err == -ENOTEMPTY)
		stays(v, gfid, "which has left it, and has names there");
	return err == -ENODATA || err == -ENOTEMPTY || err == -ENOENT ? 0 : err;
}

static void judge_each(struct request *rq, void *arg, struct inode *dir, const struct dirents *list)
{
	struct leaving *v = arg;

	(void)dir;
	for (uint32_t i = 0; i < list->count && !v->err; i++) {
		struct gfid gfid;

		rq->deadline_ns = clock_ns() + REBALANCE_ASK_NS;
		if (!directory_parse(list->entry[i].name, &gfid)) {
			v->err = judge_directory(rq, v, &gfid);
		} else {
			v->stays.files++;
			note_what(v, "the file with the anchor %.100s", list->entry[i].name);
		}
	}
}

static void is_under_way(struct leaving *v, const char *name)
{
	v->stays.records++;
	note_what(v, "%.100s, which is under way", name);
}

static void count_records(struct request *rq, void *arg, struct inode *dir, const struct dirents *list)
{
	struct leaving *v = arg;
	struct intent it;
	struct gfid id;

	(void)rq, (void)dir;
	for (uint32_t i = 0; i < list->count; i++) {
		const char *name = list->entry[i].name;

		if (*name == 's' && !kept_parse(name, &id) && intent_parse(name, &it))
			v->stays.open++;
		else
			is_under_way(v, name);
	}
}

/* Where there is none the number is that of no subvolume. */
static bool leads_there(const struct aim *aim, int child)
{
	return aim->child == child && !gfid_is_null(&aim->gfid);
}

static bool names_leaver(const struct intent *it, int leaver)
{
	bool yes = it->moves == 1 + leaver;

	for (int i = 0; i < it->sides; i++)
		yes |= it->side[i].child == leaver || leads_there(&it->side[i].aim, leaver) ||
		       leads_there(&it->side[i].goes, leaver);
	for (unsigned i = 0; i < it->shards; i++)
		yes |= it->shard[i] == leaver;
	return yes;
}

/* One that has got another name since it was listed is read by that: it goes on, and whoever is at it may die yet. -EBUSY: it is never where it was found. */
static int read_record(struct request *rq, struct dht *d, int child, const char *name, struct intent *it)
{
	enum { TRIES = 4 };
	char now[HIDDEN_NAME];
	int err = intent_read(rq, d, child, name, it);

	for (int tries = 0; err == -ENOENT; tries++) {
		if (tries == TRIES)
			return -EBUSY;
		err = intent_find(rq, d, child, &it->id, it);
		if (err) /* it has gone */
			return err;
		err = intent_read(rq, d, child, intent_name(it, now), it);
	}
	return err == -ENXIO ? -EINVAL : err;
}

/* At another subvolume: what is under way there, or is kept there of what was moved, has to do with the one that leaves. */
static int judge_record(struct request *rq, struct leaving *v, int child, struct inode *dir, const char *name)
{
	cleanup_inode struct inode *found = NULL;
	struct pointer p = { 0 };
	struct gfid id;
	uint32_t nlink;
	struct aim aim;
	struct intent it;
	int err;

	if (!intent_parse(name, &it)) {
		err = read_record(rq, v->r->d, child, name, &it);
		if (err == -EINVAL || err == -EBUSY || (!err && names_leaver(&it, v->child)))
			is_under_way(v, name);
		return err == -EBUSY ? 0 : err;
	}
	if (!kept_parse(name, &id)) {
		err = hidden_find(rq, v->r->d, child, dir, name, &found);
		if (!err)
			err = kept_read(rq, v->r->d, child, found, &p);
		v->kept += !err && (int)p.subvolume == v->child; /* until its stub has gone */
		return err;
	}
	if (work_parse(name, &id) && waits_parse(name, &id))
		return 0; /* copies, directories that grow: these have records, and marks, and no part of who leaves */
	err = pointer_look(rq, v->r->d, child, dir, name, &found, &nlink, &aim);
	if (!err && aim.child == v->child)
		is_under_way(v, name);
	return err;
}

static void judge_records(struct request *rq, void *arg, struct inode *dir, const struct dirents *list)
{
	struct elsewhere *e = arg;

	for (uint32_t i = 0; i < list->count && !e->v->err; i++) {
		int err;

		rq->deadline_ns = clock_ns() + REBALANCE_ASK_NS;
		err = judge_record(rq, e->v, e->child, dir, list->entry[i].name);
		if (err && err != -ENOENT && err != -ESTALE && err != -ENODATA && err != -EINVAL)
			e->v->err = err;
	}
}

static int each_work(struct leaving *v, int child)
{
	struct elsewhere e = { v, child };
	int err = 0;

	for (unsigned i = 0; i < WORK_DIRS && !err; i++) {
		struct request rq;

		rebalance_ask(v->r, &rq, REBALANCE_ASK_NS);
		err = child == v->child ? work_list(&rq, v->r->d, child, i, count_records, v)
					: work_list(&rq, v->r->d, child, i, judge_records, &e);
		request_finish(&rq);
		err = err == -ENOENT ? 0 : err ? err : v->err;
	}
	return err;
}

/* Marks of the root there: an intent may have a name to put back. */
static int look_at_root(struct leaving *v)
{
	struct rebalance *r = v->r;
	struct getxattr_in in = { .inode = r->dir, .name = DHT_MARKS_XATTR };
	struct getxattr_out out = { 0 };
	struct request rq;
	int err;

	rebalance_ask(r, &rq, REBALANCE_ASK_NS);
	err = place_say(&rq, r->d, &(struct place){ .flags = PLACE_HERE });
	if (!err)
		err = directory_list(&rq, r->d, v->child, r->dir, 0, count_names, v);
	if (!err)
		err = getxattr_on(&rq, r->d->x->child[v->child], &in, &out);
	if (!err && (out.value.size < 2 || memcmp(out.value.bytes, "0 ", 2) != 0))
		is_under_way(v, "a name that is marked");
	fop_out_clear(FOP_getxattr, &out);
	request_finish(&rq);
	return err;
}

/* Nothing new comes there: names are refused by the layouts, and objects by the bricks, who know that they leave. So what is found to have none has none. */
int leaving_look(struct leaving *v)
{
	int err = look_at_root(v);

	for (int i = 0; i < v->r->d->x->children && !err; i++)
		err = has_subvolume(v->r->d, (uint64_t)i) ? each_work(v, i) : 0;
	if (!err)
		err = MUTANT("look-at-no-directories") ? 0 : leaving_each_away(v, v->child, 0, judge_each, v);
	err = err ? err : v->err;
	if (err)
		return rebalance_problem(v->r, err, "what %s still has can't be looked at: %s", subvolume_name(v->r, v->child),
					 error_text(err));
	v->stays.open = v->kept > v->stays.open ? v->kept : v->stays.open;
	v->stays.looked = true;
	return 0;
}

bool leaving_is_empty(const struct leaving *v)
{
	const struct stays *s = &v->stays;

	return s->looked && !s->names && !s->files && !s->directories && !s->unsaid && !s->records && !s->open;
}

/* ---- and on disk ---- */

/* Of the directories in which names were removed; what is not there has lost none. */
static int sync_hidden(struct leaving *v, unsigned number, bool work)
{
	cleanup_inode struct inode *dir = NULL;
	struct gfid gfid = { { (uint8_t)number } };
	struct rebalance *r = v->r;
	struct request rq;
	int err;

	rebalance_ask(r, &rq, REBALANCE_ASK_NS);
	err = place_say_newest(&rq, r->d);
	if (!err)
		err = work ? work_dir(&rq, r->d, v->child, number, false, &dir)
			   : away_dir(&rq, r->d, v->child, &gfid, false, &dir);
	if (!err)
		err = directory_sync(&rq, r->d, v->child, dir);
	if (err == -ESTALE)
		hidden_forget(r->d, v->child);
	request_finish(&rq);
	return err == -ENOENT ? 0 : err;
}

static int sync_root(struct leaving *v)
{
	struct request rq;
	int err;

	rebalance_ask(v->r, &rq, REBALANCE_ASK_NS);
	err = place_say(&rq, v->r->d, &(struct place){ .flags = PLACE_HERE });
	if (!err)
		err = directory_sync(&rq, v->r->d, v->child, v->r->dir);
	request_finish(&rq);
	return err;
}

int leaving_sync(struct leaving *v)
{
	int err = sync_root(v);

	for (unsigned i = 0; i < AWAY_DIRS && !err; i++)
		err = sync_hidden(v, i, false);
	for (unsigned i = 0; i < WORK_DIRS && !err; i++)
		err = sync_hidden(v, i, true);
	return err ? rebalance_problem(v->r, err, "that %s is empty can't be synced there: %s", subvolume_name(v->r, v->child),
				       error_text(err))
		   : 0;
}
