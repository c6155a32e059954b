/* SPDX-License-Identifier: Apache-2.0 */
/* Intents that their owners do not end: whoever needs a name that one holds, or finds the record old (sweep.c), takes it over and does the rest, or
 * takes back what was done (doc/distribution.md, Intents). The owner may live: it finds out by its next step. */
#include "dht.h"

#include <errno.h>
#include <string.h>

/* ---- decided ---- */

static int end_victim(struct request *rq, struct dht *d, const struct intent *it, int n)
{
	struct standing victim;
	int err = waits_look(rq, d, it, n, &victim);

	if (err || gfid_is_null(&victim.gfid))
		return err;
	if (it->side[n].arrival != ARRIVES_NOTHING && gfid_equal(&victim.gfid, arrival_gfid(&it->side[n]))) {
		log_error(d->x, NULL,
			  "what was renamed to \"%s\" waits for its name still, though that was decided: nothing is removed",
			  it->side[n].name);
		return -EIO;
	}
	if (S_ISDIR(victim.type) && !victim.points && !gfid_equal(&victim.gfid, &it->side[n].goes.gfid)) {
		log_error(d->x, NULL,
			  "the directory that was \"%s\" waits still, though where it went was decided: nothing is removed",
			  it->side[n].name);
		return -EIO;
	}
	if (victim.points && !is_stub(&victim.aim) && !MUTANT("keep-victims-anchor"))
		err = drop_anchor(rq, d, &victim.aim);
	return err ? err : waits_remove(rq, d, it, n, &victim.gfid);
}

int intent_finish(struct request *rq, struct dht *d, const struct intent *it)
{
	struct who user = become_root(rq);
	int err = 0;

	for (int n = 0; n < it->sides && !err; n++)
		err = end_victim(rq, d, it, n);
	if (!err)
		err = intent_remove(rq, d, it);
	become(rq, user);
	return err;
}

/* ---- not decided ---- */

/* All steps were taken back: what waits is what would have arrived, or that was not made. */
static int drop_arrival(struct request *rq, struct dht *d, const struct intent *it, int n)
{
	const struct side *s = &it->side[n];
	struct standing waits;
	int err = waits_look(rq, d, it, n, &waits);

	if (err || s->arrival == ARRIVES_NOTHING || (!gfid_is_null(&waits.gfid) && !gfid_equal(&waits.gfid, arrival_gfid(s))))
		return err;
	if (s->arrival == ARRIVES_POINTER)
		err = drop_anchor(rq, d, &s->aim);
	return err || gfid_is_null(&waits.gfid) ? err : waits_remove(rq, d, it, n, &waits.gfid);
}

int intent_forgo(struct request *rq, struct dht *d, struct intent *it)
{
	struct who user = become_root(rq);
	int err = it->state == INTENT_UNDONE ? 0 : intent_becomes(rq, d, it, INTENT_UNDONE);

	for (int n = 0; n < it->sides && !err; n++)
		err = drop_arrival(rq, d, it, n);
	if (!err)
		err = intent_remove(rq, d, it);
	become(rq, user);
	return err;
}

/* In exchange both had something; and so had what replaces a directory. */
static bool had_something(const struct intent *it, int n)
{
	return it->side[!n].arrival != ARRIVES_NOTHING || !gfid_is_null(&it->side[n].goes.gfid);
}

/* What arrived goes back to where it waited, in exchange for what had the name before, if anything. While the name is marked nobody else puts the same
 * there; and it waited before the record said that steps may be taken.
 *
 * A step moves something between two directories. A replica set whose members all lost their power may have it in both then: its members had not come
 * equally far, and each directory is made equal for itself. One of the two names just goes. (Not of a link, which others may have put there before.) */
static int take_back_arrival(struct request *rq, struct dht *d, const struct intent *it, int n)
{
	const struct gfid *arrival = arrival_gfid(&it->side[n]);
	struct standing waits, named;
	bool link = it->side[n].arrival == ARRIVES_LINK;
	int err = waits_look(rq, d, it, n, &waits);

	if (err || (link && gfid_equal(&waits.gfid, arrival)))
		return err;
	err = name_look(rq, d, it, n, &named);
	if (err || !gfid_equal(&named.gfid, arrival))
		return err;
	if (gfid_equal(&waits.gfid, arrival) && !had_something(it, n))
		return name_remove(rq, d, it, n, arrival);
	if ((gfid_is_null(&waits.gfid) || gfid_equal(&waits.gfid, arrival)) && had_something(it, n)) {
		log_error(d->x, NULL, "what had the name \"%s\" before a rename is not there: nothing is taken back",
			  it->side[n].name);
		return -EIO;
	}
	return side_step(rq, d, it, n, &(struct step_in){ .moved = *arrival, .other = waits.gfid });
}

static int take_back_leaving(struct request *rq, struct dht *d, const struct intent *it, int n)
{
	struct standing waits, named;
	int err = waits_look(rq, d, it, n, &waits);

	if (err || gfid_is_null(&waits.gfid))
		return err;
	err = name_look(rq, d, it, n, &named);
	if (err)
		return err;
	if (gfid_equal(&named.gfid, &waits.gfid) && S_ISDIR(waits.type) && !waits.points) {
		log_error(d->x, NULL, "the directory \"%s\" has two names after a power cut: nothing is taken back",
			  it->side[n].name);
		return -EIO;
	}
	if (gfid_equal(&named.gfid, &waits.gfid))
		return waits_remove(rq, d, it, n, &waits.gfid);
	return side_step(rq, d, it, n, &(struct step_in){ .arrives = true, .moved = waits.gfid });
}

/* In the opposite order. */
static int take_back(struct request *rq, struct dht *d, const struct intent *it)
{
	int err = 0;

	for (int n = 0; n < it->sides && !err; n++)
		err = it->side[n].arrival == ARRIVES_NOTHING ? take_back_leaving(rq, d, it, n)
							     : take_back_arrival(rq, d, it, n);
	return err;
}

/* ---- taking over ---- */

struct parents {		       /* of the names */
	struct inode *dir[MARKS_MOST]; /* references */
	bool gone;		       /* one of them */
};

static void parents_clear(struct parents *p)
{
	for (int n = 0; n < MARKS_MOST; n++)
		inode_unref(p->dir[n]);
}

/* They are kept, so that they stay known. Of an intent that may have taken steps both are needed: marks keep them from being removed. */
static int find_parents(struct request *rq, struct dht *d, const struct intent *it, struct parents *p)
{
	int err = 0;

	for (int n = 0; n < it->sides && !err; n++) {
		err = side_find(rq, d, &it->side[n], &p->dir[n]);
		p->gone |= err == -ESTALE;
		err = err == -ESTALE && it->state != INTENT_OPEN ? 0 : err;
	}
	return err;
}

static bool is_absent(int err)
{
	return err == -ENOENT || err == -ESTALE;
}

/* What has the mark of what is to go. The names are fenced: it stands still, or goes. NULL: it has gone. */
static int find_leaving(struct request *rq, struct dht *d, const struct intent *it, int n, struct inode **dir)
{
	return n == SIDE_GOES ? leaver_find(rq, d, it, dir) : dying_find(rq, d, it, n, dir);
}

/* Where another intent's mark is, ours has gone: it was decided, or no step was ever taken, for nobody held all marks. The same where the directory
 * has gone, which it can't while names in it are marked. */
static int mark_anew(struct request *rq, struct dht *d, const struct intent *it, struct parents *p, bool *all)
{
	int err = 0;

	*all = true;
	for (int n = 0; n < marks_end_of(it) && !err; n++) {
		bool goes = n >= SIDE_GOES;

		if (!has_mark(it, n))
			continue;
		if (goes && !p->dir[n])
			err = find_leaving(rq, d, it, n, &p->dir[n]);
		if (err || (goes && !p->dir[n]))
			continue;
		err = side_mark(rq, d, it, n);
		if (goes && is_absent(err)) /* it has just gone */
			err = 0;
		if (err != -EMARKED && !(p->gone && is_absent(err)))
			continue;
		*all = false;
		err = 0;
	}
	return err ? err : intent_stands(rq, d, it);
}

int intent_unmark(struct request *rq, struct dht *d, const struct intent *it, bool gone)
{
	int err = 0;

	for (int n = 0; n < marks_end_of(it); n++) {
		int one = has_mark(it, n) ? side_unmark(rq, d, it, n) : 0;

		if (one == -EFENCED || ((gone || n >= SIDE_GOES) && is_absent(one)))
			one = 0;
		err = err ? err : one;
		if (one && !n &&
		    it->state != INTENT_PREPARED) /* the first syncs what the record says, so the others must not go before */
			break;
	}
	return err;
}

/* It can't be otherwise if no step was taken. -EIO: it is not so, and somebody has to look at it. */
static int check_untouched(struct request *rq, struct dht *d, const struct intent *it)
{
	struct standing waits;
	int err = 0;

	for (int n = 0; n < it->sides && !err; n++) {
		const struct side *s = &it->side[n];

		err = waits_look(rq, d, it, n, &waits);
		if (!err &&
		    (s->arrival == ARRIVES_NOTHING ? !gfid_is_null(&waits.gfid) : !gfid_equal(&waits.gfid, arrival_gfid(s))))
			err = -EIO;
	}
	if (err == -EIO)
		log_error(d->x, NULL,
			  "a rename of \"%s\" to \"%s\" is half done, and has lost its marks: nothing is taken back",
			  it->side[0].name, it->sides > 1 ? it->side[1].name : "");
	return err;
}

/* A mark that is set again syncs what was done; what a brick lost with its power before that is done again. */
static int take_back_surely(struct request *rq, struct dht *d, const struct intent *it, struct parents *p)
{
	bool all;
	int err = take_back(rq, d, it);

	if (!err)
		err = mark_anew(rq, d, it, p, &all);
	return err ? err : take_back(rq, d, it);
}

/* A directory that went for good has decided. */
static int take_back_or_go_on(struct request *rq, struct dht *d, struct intent *it, struct parents *p)
{
	bool decided;
	int err = leaver_has_gone(rq, d, it, &decided);

	if (err)
		return err;
	if (decided)
		return intent_becomes(rq, d, it, INTENT_DECIDED);
	err = MUTANT("forget-steps") ? 0 : take_back_surely(rq, d, it, p);
	return err ? err : intent_becomes(rq, d, it, INTENT_UNDONE);
}

/* Marks that were set anew, for they had gone, are of no use; but no intent lets go of its own before it says that it may. */
static int end_open(struct request *rq, struct dht *d, struct intent *it, struct parents *p, bool all)
{
	int err;

	if (all)
		return take_back_or_go_on(rq, d, it, p);
	err = check_untouched(rq, d, it);
	return err ? err : intent_becomes(rq, d, it, INTENT_UNDONE);
}

/* To those above: what was done to the names was done by this client, so nothing has taken back what it believes of them; and as soon as the marks have gone
 * others see it. */
static void tell_changed(struct dht *d, const struct intent *it)
{
	for (int n = 0; n < it->sides; n++) {
		cleanup_inode struct inode *parent = side_parent(d, &it->side[n].parent);
		struct event e = { .kind = EVENT_DISBELIEVE, .inode = parent };

		if (parent && (!n || !gfid_equal(&it->side[0].parent, &it->side[1].parent)))
			event_up(d->x, &e);
	}
}

int intent_let_go(struct request *rq, struct dht *d, struct intent *it, bool gone)
{
	int err = 0;

	if (it->state == INTENT_DECIDED && it->of_directories) {
		err = intent_settle(rq, d, it);
		if (!err)
			err = intent_becomes(rq, d, it, INTENT_SETTLED);
	}
	if (!err)
		tell_changed(d, it);
	return err ? err : intent_unmark(rq, d, it, gone);
}

static int end_marked(struct request *rq, struct dht *d, struct intent *it, struct parents *p)
{
	bool all;
	int err = mark_anew(rq, d, it, p, &all);

	if (!err && it->state == INTENT_OPEN)
		err = end_open(rq, d, it, p, all);
	else if (!err && it->state == INTENT_DECIDED && all && MUTANT("undo-decided"))
		err = take_back_surely(rq, d, it, p);
	if (!err && all)
		err = mark_anew(rq, d, it, p, &all); /* so what the record says is on disk, too */
	return err ? err : intent_let_go(rq, d, it, p->gone);
}

static int thaw(struct request *rq, struct dht *d, const struct intent *it)
{
	int err = side_unmark(rq, d, it, SIDE_GOES);

	return is_absent(err) || err == -EFENCED ? 0 : err;
}

/* A directory that was removed has taken its marks along. */
static int unmark_found(struct request *rq, struct dht *d, const struct intent *it)
{
	struct parents p = { 0 };
	int err = 0;

	for (int n = 0; n < it->sides && !err; n++) {
		err = side_find(rq, d, &it->side[n], &p.dir[n]);
		err = is_absent(err) ? 0 : err;
	}
	for (int n = SIDE_GOES; n < marks_end_of(it) && !err; n++) {
		err = has_mark(it, n) ? find_leaving(rq, d, it, n, &p.dir[n]) : 0;
		err = is_absent(err) ? 0 : err;
	}
	if (!err)
		err = intent_unmark(rq, d, it, true);
	if (!err && it->several)
		err = anchors_let_go(rq, d, it);
	if (!err && it->of_file)
		err = thaw(rq, d, it);
	parents_clear(&p);
	return err;
}

int marks_drop_now(struct request *rq, struct dht *d, const struct intent *it)
{
	struct intent now;
	int err = intent_find(rq, d, it->side[0].child, &it->id, &now);

	if (err == -ENOENT)
		return unmark_found(rq, d, it);
	return err ? err : -EBUSY;
}

void marks_drop(struct request *rq, struct dht *d, const struct intent *it)
{
	enum { LOOKS = 4, PAUSE_MS = 10 };
	int err = -EBUSY;

	for (int i = 0; i < LOOKS && err == -EBUSY; i++) { /* the other is at its end, perhaps */
		err = i ? task_sleep_ms(PAUSE_MS) : 0;
		if (!err)
			err = marks_drop_now(rq, d, it);
	}
	if (err)
		marks_owe(d, it);
}

/* A brick is down, or fails, that has one of the names. No step was taken, or all were taken back: so what others have need of goes, above all the mark of /moves, which all wait
 * for who give a directory another parent. The rest, and the record, when that brick is there again. Marks of earlier attempts go by being set anew; the first syncs what the
 * record says. */
static void let_go_what_answers(struct request *rq, struct dht *d, const struct intent *it)
{
	int err = it->state == INTENT_UNDONE ? side_mark(rq, d, it, 0) : -EBUSY;

	if (!err)
		err = intent_stands(rq, d, it); /* what was synced may be what it said before a power cut */
	for (int n = 1; n < marks_end_of(it) && !err; n++)
		if (has_mark(it, n) && !side_mark(rq, d, it, n))
			side_unmark(rq, d, it, n);
	if (!err)
		side_unmark(rq, d, it, 0);
}

static bool is_untouched(const struct intent *it)
{
	return it->state == INTENT_PREPARED || it->state == INTENT_UNDONE;
}

static int end_it(struct request *rq, struct dht *d, struct intent *it)
{
	struct parents p = { 0 };
	int found, err;

	if (it->of_file)
		return bring_end(rq, d, it);
	found = find_parents(rq, d, it, &p);
	err = found && !is_untouched(it) ? found : intent_take_over(rq, d, it);
	if (!err) {
		err = found ? found : end_marked(rq, d, it, &p);
		if (err)
			let_go_what_answers(rq, d, it);
		if (err && !found) /* else its record is there: who ends it later meets the marks */
			marks_drop(rq, d, it);
	}
	parents_clear(&p);
	if (err)
		return err;
	return it->state == INTENT_DECIDED || it->state == INTENT_SETTLED ? intent_finish(rq, d, it) : intent_forgo(rq, d, it);
}

/* ---- one that tells of a subvolume that has left ---- */

/* What waited there has gone with it, and so has the anchor of what waits here. */
static int drop_arrival_if_there(struct request *rq, struct dht *d, const struct intent *it, int n)
{
	const struct side *s = &it->side[n];
	bool waits = has_subvolume(d, (uint64_t)s->child), leads = has_subvolume(d, (uint64_t)s->aim.child);
	int err;

	if (s->arrival == ARRIVES_NOTHING)
		return 0;
	if (waits && leads)
		return drop_arrival(rq, d, it, n);
	if (waits) {
		err = waits_remove(rq, d, it, n, arrival_gfid(s));
		return err == -ESTALE ? 0 : err; /* another object waits, which is not of this */
	}
	return leads && s->arrival == ARRIVES_POINTER ? drop_anchor(rq, d, &s->aim) : 0;
}

/* What is not met here goes when it is met. */
static int unmark_what_is_there(struct request *rq, struct dht *d, const struct intent *it)
{
	struct parents p = { 0 };
	int err = 0;

	for (int n = 0; n < it->sides && !err; n++) {
		err = has_subvolume(d, (uint64_t)it->side[n].child) ? side_find(rq, d, &it->side[n], &p.dir[n]) : 0;
		err = is_absent(err) ? 0 : err;
	}
	for (int n = 0; n < marks_end_of(it) && !err; n++) {
		if (!has_mark(it, n) || !has_subvolume(d, (uint64_t)mark_place(it, n).child))
			continue;
		err = n >= SIDE_GOES ? find_leaving(rq, d, it, n, &p.dir[n]) : 0;
		if (!err)
			err = side_unmark(rq, d, it, n);
		err = is_absent(err) || err == -EFENCED ? 0 : err;
	}
	parents_clear(&p);
	return err;
}

/* No step was taken, or all were taken back: so what there is of it just goes. Of any other nobody knows what was done where nobody can look any more. (A file that comes home has a copy, whose mover
 * knows more of it.) One that this graph lacks may have come, or leaves only now: then others end it. */
static int end_without(struct request *rq, struct dht *d, int home, struct intent *it)
{
	uint32_t before = it->attempt;
	int err;

	if (it->of_file || (it->state != INTENT_PREPARED && it->state != INTENT_UNDONE))
		return -EINVAL;
	err = knows_all(rq, d, home) ? -EIO : intent_take_over(rq, d, it);
	it->marked = before;
	if (!err)
		err = unmark_what_is_there(rq, d, it);
	for (int n = 0; n < it->sides && !err; n++)
		err = drop_arrival_if_there(rq, d, it, n);
	return err ? err : intent_remove(rq, d, it);
}

int intent_end(struct request *rq, struct dht *d, int home, const char *name)
{
	struct who user = become_root(rq);
	struct intent it;
	int err = intent_read(rq, d, home, name, &it);
	bool lacks = err == -ENXIO;

	if (lacks)
		err = end_without(rq, d, home, &it);
	if (err == -EINVAL)
		log_error(d->x, NULL, "%s in " DHT_HIDDEN "/work of %s makes no sense, and is left alone", name,
			  d->x->child[home]->name);
	if (!err && !lacks)
		err = end_it(rq, d, &it);
	if (!err)
		atomic_fetch_add(&d->taken_over, 1);
	become(rq, user);
	return err;
}

/* ---- who waits for a mark ---- */

int mark_of(struct request *rq, struct dht *d, int child, struct inode *dir, uint64_t hash, struct mark *m)
{
	char xattr[MARK_NAME];
	struct getxattr_in in = { .inode = dir, .name = mark_name(hash, xattr) };
	struct getxattr_out out = { 0 };
	int err = getxattr_on(rq, d->x->child[child], &in, &out);

	m->hash = hash;
	if (!err)
		err = mark_decode(out.value.bytes, out.value.size, m);
	fop_out_clear(FOP_getxattr, &out);
	return err;
}

/* With its subvolume all intents that were there have gone. One that this graph lacks may have come, or may have been given a number that was free, or leaves only now: of
 * the first two the layout tells, of that the root of who has the mark. */
static int intent_of(struct request *rq, struct dht *d, int child, const struct mark *m, struct intent *it)
{
	if (has_subvolume(d, m->subvolume))
		return intent_find(rq, d, (int)m->subvolume, &m->intent, it);
	return knows_all(rq, d, child) ? -EIO : -ENOENT;
}

/* A mark whose intent is not there was left over: intents are there before their marks, and go after them. */
static void end_holder(struct request *rq, struct dht *d, int child, struct inode *dir, const struct mark *m)
{
	int home = (int)m->subvolume, err;
	char name[HIDDEN_NAME];
	struct intent it;
	struct mark now;

	err = intent_of(rq, d, child, m, &it);
	if (!err)
		intent_end(rq, d, home, intent_name(&it, name));
	else if (err == -ENOENT && !mark_of(rq, d, child, dir, m->hash, &now) && gfid_equal(&now.intent, &m->intent) &&
		 now.attempt == m->attempt)
		mark_remove(rq, d, child, dir, m);
}

int mark_end_left_over(struct request *rq, struct dht *d, int child, struct inode *dir, uint64_t hash)
{
	struct mark m, now;
	struct intent it;
	int err = mark_of(rq, d, child, dir, hash, &m);

	if (err)
		return err == -ENODATA ? 0 : err;
	if (intent_of(rq, d, child, &m, &it) != -ENOENT)
		return -EMARKED;
	err = mark_of(rq, d, child, dir, hash, &now);
	if (err || !gfid_equal(&now.intent, &m.intent) || now.attempt != m.attempt)
		return err == -ENODATA ? 0 : -EMARKED;
	return mark_remove(rq, d, child, dir, &m);
}

void marks_sweep(struct request *rq, struct dht *d, int child, struct inode *dir)
{
	struct listxattr_in in = { .inode = dir };
	struct listxattr_out out = { 0 };
	const char *at = NULL;
	uint64_t hash;

	if (listxattr_on(rq, d->x->child[child], &in, &out))
		return;
	while ((at = blob_next_name(&out.names, at)))
		if (is_mark(at, &hash))
			mark_end_left_over(rq, d, child, dir, hash);
	fop_out_clear(FOP_listxattr, &out);
}

/* Of a shard, too, whatever layout it has. */
static int names_here(struct request *rq, struct dht *d, int child, struct inode *dir, struct listxattr_out *out)
{
	struct listxattr_in in = { .inode = dir };
	int err = place_say(rq, d, &(struct place){ .flags = PLACE_HERE });

	if (!err)
		err = listxattr_on(rq, d->x->child[child], &in, out);
	place_say(rq, d, &(struct place){ 0 });
	return err;
}

/* All that hold names in the directory. */
static void end_holders_in(struct request *rq, struct dht *d, int child, struct inode *dir)
{
	struct listxattr_out out = { 0 };
	const char *at = NULL;
	struct mark m;

	if (names_here(rq, d, child, dir, &out))
		return;
	while ((at = blob_next_name(&out.names, at)))
		if (is_mark(at, &m.hash) && !mark_of(rq, d, child, dir, m.hash, &m))
			end_holder(rq, d, child, dir, &m);
	fop_out_clear(FOP_listxattr, &out);
}

/* A file that is being moved. */
static void end_mover_at(struct request *rq, struct dht *d, int child, struct inode *file)
{
	struct mark m;

	if (place_say(rq, d, &(struct place){ .flags = PLACE_POINTER }))
		return;
	if (!mark_of(rq, d, child, file, mark_hash(MARK_GOES), &m))
		end_holder(rq, d, child, file, &m);
	place_say(rq, d, &(struct place){ 0 });
}

static void end_holders_of(struct request *rq, struct dht *d, int child, struct inode *object)
{
	if (S_ISDIR(object->type))
		end_holders_in(rq, d, child, object);
	else
		end_mover_at(rq, d, child, object);
}

/* A file is being moved with all its names, and this leads to it by one of them. */
static void end_holder_of_anchors(struct request *rq, struct dht *d, const struct aim *aim, int child)
{
	cleanup_inode struct inode *dir = NULL;
	char held[ANCHORS_NAME];
	struct mark m;

	if (!away_dir(rq, d, child, &aim->gfid, false, &dir) &&
	    !mark_of(rq, d, child, dir, mark_hash(anchors_mark(&aim->gfid, held)), &m))
		end_holder(rq, d, child, dir, &m);
}

static void end_holders_behind(struct request *rq, struct dht *d, const struct aim *aim)
{
	struct lookup_out there = { 0 };
	int child, err = object_look(rq, d, aim, &there, &child);

	if (err == -EMARKED)
		end_holder_of_anchors(rq, d, aim, child);
	else if (!err)
		end_holders_of(rq, d, child, there.inode);
	fop_out_clear(FOP_lookup, &there);
}

/* The directory is to go, and names in it are marked; or the file is to change, to get a name more; or it is looked up by one of several that are held together. */
static void end_holders_below(struct request *rq, struct dht *d, int child, const struct loc *loc)
{
	struct lookup_in in = { .loc = { .parent = loc->parent, .name = loc->name } };
	struct lookup_out out = { 0 };
	struct aim aim;

	if (!lookup_on(rq, d->x->child[child], &in, &out)) {
		if (!(out.attr.flags & ATTR_POINTER))
			end_holders_of(rq, d, child, out.inode);
		else if (!aim_of(d, &out, &aim))
			end_holders_behind(rq, d, &aim);
	}
	fop_out_clear(FOP_lookup, &out);
}

/* No name comes to be in a directory that dies. Who wants to make one there meets that mark, whosever it is. */
static void end_who_has_it_die(struct request *rq, struct dht *d, int child, struct inode *dir)
{
	struct mark m;

	if (!mark_of(rq, d, child, dir, mark_hash(MARK_DYING), &m))
		end_holder(rq, d, child, dir, &m);
}

static void end_at(struct request *rq, struct dht *d, const struct loc *loc, enum fop fop, int child)
{
	struct mark m;
	int err = mark_of(rq, d, child, loc->parent, mark_hash(loc->name), &m);

	if (!err)
		end_holder(rq, d, child, loc->parent, &m);
	else if (err == -ENODATA)
		end_who_has_it_die(rq, d, child, loc->parent);
	if (err == -ENODATA && (fop == FOP_rmdir || fop == FOP_rename || fop == FOP_create || fop == FOP_lookup))
		end_holders_below(rq, d, child, loc);
}

/* While the name is being moved it may be marked at either. */
static void end_at_name(struct request *rq, struct dht *d, const struct loc *loc, enum fop fop)
{
	struct owners o = { 0 };
	int child, err = 0;

	if (is_spread(d, loc->parent)) {
		o = owners_in(d, loc->parent, loc->name);
	} else {
		err = subvolume_of_name(rq, d, loc, fop, &child);
		o = (struct owners){ child, child };
	}
	if (!err && has_subvolume(d, (uint64_t)o.from))
		end_at(rq, d, loc, fop, o.from);
	if (!err && o.to != o.from && has_subvolume(d, (uint64_t)o.to))
		end_at(rq, d, loc, fop, o.to);
}

/* As root, and with nothing of what the caller's request says beside its names. Not 0: no memory. */
static int own_request(const struct request *rq, struct dht *d, struct request *own)
{
	request_init(own, d->x->graph, 0);
	own->group_count = 0;
	own->deadline_ns = rq->deadline_ns;
	return place_say(own, d, &(struct place){ 0 });
}

static void end_mover(struct request *rq, struct dht *d, struct inode *inode)
{
	int child;

	if (inode && !S_ISDIR(inode->type) && !subvolume_of(rq, d, inode, &child))
		end_mover_at(rq, d, child, inode);
}

static void end_holders(struct request *rq, struct dht *d, enum fop fop, const void *in)
{
	struct request own;
	int err = own_request(rq, d, &own);

	for (const struct field *f = fop_info[fop].in; f->name && !err; f++) {
		const void *at = (const char *)in + f->offset;
		const struct loc *loc = at;

		if (f->kind == FIELD_INODE)
			end_mover(&own, d, *(struct inode *const *)at);
		else if (f->kind == FIELD_FILE && *(struct file *const *)at)
			end_mover(&own, d, (*(struct file *const *)at)->inode);
		else if (f->kind == FIELD_LOC && loc->parent && loc->name)
			end_at_name(&own, d, loc, fop);
	}
	request_finish(&own);
}

/* There is no room for another mark, or this name has one. */
static void marks_end(struct request *rq, struct dht *d, int child, struct inode *dir)
{
	struct request own;

	if (!own_request(rq, d, &own))
		end_holders_in(&own, d, child, dir);
	request_finish(&own);
}

static bool is_patient(const struct dht *d, struct patience *p)
{
	uint64_t now = clock_ns(), since = p->taken_over_ns ? p->taken_over_ns : p->since_ns;

	if (!p->since_ns)
		*p = (struct patience){ .since_ns = now, .pause_ms = 1 };
	else if (now >= since + d->sweep_ms * 1000000)
		return false;
	return true;
}

static int pause_a_little(struct patience *p)
{
	enum { PAUSE_MOST_MS = 50 };
	int err = task_sleep_ms(p->pause_ms);

	p->pause_ms = 2 * p->pause_ms < PAUSE_MOST_MS ? 2 * p->pause_ms : PAUSE_MOST_MS;
	return err;
}

int marks_wait_to_mark(struct request *rq, struct dht *d, struct patience *p, int child, struct inode *dir)
{
	if (clock_ns() >= rq->deadline_ns)
		return -EIO;
	if (!is_patient(d, p)) {
		marks_end(rq, d, child, dir);
		p->taken_over_ns = clock_ns();
	}
	return pause_a_little(p);
}

int marks_wait(struct request *rq, struct dht *d, struct patience *p, enum fop fop, const void *in)
{
	if (clock_ns() >= rq->deadline_ns) {
		log_error(d->x, rq,
			  "%s ends with EIO: a name, or a file, of it was held by others, who did not end what they began",
			  fop_info[fop].name);
		return -EIO;
	}
	if (!is_patient(d, p)) {
		end_holders(rq, d, fop, in);
		p->taken_over_ns = clock_ns();
	}
	return pause_a_little(p);
}
