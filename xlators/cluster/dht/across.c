/* SPDX-License-Identifier: Apache-2.0 */
/* rename(2) between names at two subvolumes, so that nobody sees half of it (D5, D6 in doc/distribution.md). What
 * arrives waits in `work` beside its name-to-be: a pointer that has its anchor already, or a link where the object is there. Then both
 * names are marked, what arrives changes places with what had the name, what leaves goes, it is decided, and the rest is cleared away. (Listings
 * do not wait: they always find the new name, if it was there, and the old one, the new one, or both.) The data stay where they are.
 *
 * Directories have one name: what arrives of one is a pointer, and it is put under its own gfid once it is decided that it has left its name. One
 * that is replaced, or removed by rmdir(2) behind a pointer, must be empty: that the brick could remove it decides. */
#include "dht.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { TRIES = 8, RENAMES = 32, LEARN_MS = 20 };
#define MARKS_NS 15000000000u
#define MOVES_NS 25000000000u /* all of the volume wait for that one */
#define STEPS_NS 60000000000u /* to end what was begun, whatever becomes of the caller */

/* What has one of the names, and where that is. */
struct found {
	struct gfid stands;   /* what has the name: the object, or a pointer; null: nothing */
	uid_t owner;	      /* of that */
	struct inode *object; /* a reference */
	struct attr attr;     /* of the object */
	int child;
};
struct move {
	struct request *rq;
	struct dht *d;
	const struct loc *loc[2];
	uint32_t flags;
	struct found found[2];
	struct intent it;
	bool refused;  /* perhaps for the layout that was known of a wide directory that is to go */
	bool ended;    /* by others, who took it for that of one who died */
	bool doubtful; /* whether the directory that goes has gone, which decides, can't be seen: how it ends tells */
};

static void found_clear(struct found *f)
{
	inode_unref(f->object);
	*f = (struct found){ 0 };
}

/* ---- looking ---- */

static int take_found(struct found *f, struct lookup_out *out, int child)
{
	f->object = inode_ref(out->inode);
	f->attr = out->attr;
	f->child = child;
	fop_out_clear(FOP_lookup, out);
	return 0;
}

static int look_once(struct move *m, int n)
{
	int child = m->it.side[n].child, err, at;
	struct lookup_in in = { .loc = { .parent = m->loc[n]->parent, .name = m->loc[n]->name } };
	struct lookup_out out = { 0 };
	struct aim aim;

	err = lookup_on(m->rq, m->d->x->child[child], &in, &out);
	if (err)
		return err;
	m->found[n].stands = out.inode->gfid;
	m->found[n].owner = (uid_t)out.attr.uid;
	if (!(out.attr.flags & ATTR_POINTER))
		return take_found(&m->found[n], &out, child);
	err = aim_of(m->d, &out, &aim);
	fop_out_clear(FOP_lookup, &out);
	memset(&out, 0, sizeof(out));
	if (!err)
		err = object_look(m->rq, m->d, &aim, &out, &at);
	if (err)
		return err == -ENOENT || err == -ESTALE ? -EAGAIN : err; /* it has just gone, or moved */
	return take_found(&m->found[n], &out, at);
}

static int look_at_side(struct move *m, int n)
{
	int err = -EAGAIN;

	for (int tries = 0; err == -EAGAIN && tries < TRIES; tries++) {
		if (tries)
			task_sleep_ms(1u << tries);
		found_clear(&m->found[n]);
		err = look_once(m, n);
	}
	if (err != -EAGAIN)
		return err;
	log_error(m->d->x, m->rq,
		  "a rename ends with EIO: its name \"%s\" at %s leads to what is not there, however often one looks",
		  m->loc[n]->name, m->d->x->child[m->it.side[n].child]->name);
	return -EIO;
}

static bool is_directory(const struct found *f)
{
	return f->object && S_ISDIR(f->attr.mode);
}

/* 1: there is nothing to do. */
static int judge_found(const struct move *m)
{
	const struct found *from = &m->found[0], *to = &m->found[1];

	if (!to->object)
		return m->flags & RENAME_EXCHANGE ? -ENOENT : 0;
	if (m->flags & RENAME_NOREPLACE)
		return -EEXIST;
	if (!(m->flags & RENAME_EXCHANGE) && is_directory(from) != is_directory(to))
		return is_directory(to) ? -EISDIR : -ENOTDIR;
	return gfid_equal(&from->object->gfid, &to->object->gfid);
}

/* What is told of both names must have been so of both at one moment. -EAGAIN */
static int judge(struct move *m)
{
	struct gfid first = m->found[0].stands;
	int verdict = judge_found(m), err;

	if (!verdict || MUTANT("look-apart"))
		return verdict;
	err = look_at_side(m, 0);
	return err ? err : gfid_equal(&first, &m->found[0].stands) ? verdict : -EAGAIN;
}

static int may_change(struct move *m, int child, struct inode *inode, uint32_t mask)
{
	struct access_in in = { .inode = inode, .mask = mask };
	struct access_out out;

	return access_on(m->rq, m->d->x->child[child], &in, &out);
}

/* In a sticky directory. */
static int may_remove(struct move *m, int n)
{
	struct getattr_in in = { .inode = m->loc[n]->parent };
	struct getattr_out out = { 0 };
	uid_t uid = m->rq->uid;
	int err;

	if (!uid || !m->found[n].object)
		return 0;
	err = getattr_on(m->rq, m->d->x->child[m->it.side[n].child], &in, &out);
	if (err || !(out.attr.mode & S_ISVTX))
		return err;
	return out.attr.uid == uid || m->found[n].owner == uid ? 0 : -EPERM;
}

/* Nobody makes us prepare what he may not do. A directory that gets another parent is changed itself (the bricks, which see it go to `work`
 * and come from there, leave that to us). */
static int may(struct move *m)
{
	int err = 0;

	for (int n = 0; n < m->it.sides && !err; n++)
		err = may_change(m, m->it.side[n].child, m->loc[n]->parent, W_OK | X_OK);
	for (int n = 0; n < m->it.sides && !err; n++)
		err = may_remove(m, n);
	for (int n = 0; n < m->it.sides && !err; n++)
		if (moves_directory(&m->it, n) && m->it.moves)
			err = may_change(m, m->found[!n].child, m->found[!n].object, W_OK);
	return err;
}

/* ---- what arrives ---- */

static void plan_arrival(struct move *m, int n)
{
	const struct found *f = &m->found[!n];
	struct side *s = &m->it.side[n];

	if (n == 0 && !(m->flags & RENAME_EXCHANGE))
		return;
	s->arrival = is_directory(f) ? ARRIVES_DIRECTORY : f->child == s->child ? ARRIVES_LINK : ARRIVES_POINTER;
	s->aim = (struct aim){ .gfid = f->object->gfid, .child = f->child, .dir = is_directory(f) };
	gfid_create(&s->aim.pgfid);
}

/* All that the newest layout names, and those that names are moving from or to. The name may lead to a subvolume that has left the directory: that has no part in it. */
static void plan_shards(struct move *m, int n)
{
	const struct spread *s = spread_in(m->d, m->found[n].object);

	if (!layout_find(&s->layout, (uint32_t)m->found[n].child))
		m->it.side[n].goes.child = (int)s->layout.home;
	m->it.version = s->layout.version;
	for (unsigned i = 0; i < s->layout.count; i++)
		m->it.shard[m->it.shards++] = (int)s->layout.member[i].id;
}

static void plan_leaver(struct move *m, int n)
{
	const struct found *f = &m->found[n];
	struct aim *goes = &m->it.side[n].goes;

	if (!is_directory(f))
		return;
	*goes = (struct aim){ .gfid = f->object->gfid, .child = f->child, .dir = true };
	if (!gfid_equal(&f->stands, &goes->gfid))
		goes->pgfid = f->stands;
	if (f->attr.flags & ATTR_WIDE)
		plan_shards(m, n);
}

static void plan(struct move *m)
{
	m->it.shards = 0;
	m->it.of_directories = is_directory(&m->found[0]) || is_directory(&m->found[1]) ||
			       (m->it.sides > 1 && m->it.side[0].child == m->it.side[1].child);
	m->it.moves = m->it.of_directories && m->it.sides > 1 && m->loc[0]->parent != m->loc[1]->parent
			      ? 1 + (int)spread_of(m->d)->layout.home
			      : 0;
	for (int n = 0; n < m->it.sides && m->it.sides > 1; n++)
		plan_arrival(m, n);
	if (!(m->flags & RENAME_EXCHANGE))
		plan_leaver(m, m->it.sides - 1);
}

static int prepare_link(struct move *m, int n, const struct loc *waits)
{
	struct link_in in = { .inode = m->found[!n].object, .loc = *waits };
	struct link_out out = { 0 };
	struct who user = become_root(m->rq);
	int err = link_on(m->rq, m->d->x->child[m->it.side[n].child], &in, &out);

	become(m->rq, user);
	return err;
}

static int prepare_arrival(struct move *m, int n)
{
	cleanup_inode struct inode *dir = NULL;
	const struct side *s = &m->it.side[n];
	const struct found *f = &m->found[!n];
	char name[HIDDEN_NAME];
	struct loc waits = { .name = side_name(&m->it, n, name) };
	int err = side_dir(m->rq, m->d, &m->it, n, &dir);

	waits.parent = dir;
	if (!err && s->arrival != ARRIVES_LINK)
		err = pointer_prepare(m->rq, m->d, s->child, &waits, &s->aim, f->object, &f->attr,
				      s->aim.child != m->it.side[0].child && s->aim.child != m->it.side[1].child);
	else if (!err)
		err = prepare_link(m, n, &waits);
	return err;
}

static int prepare_arrivals(struct move *m)
{
	int err = 0;

	for (int n = 0; n < m->it.sides && !err; n++)
		if (m->it.side[n].arrival != ARRIVES_NOTHING)
			err = prepare_arrival(m, n);
	return err;
}

/* ---- marks ---- */

static int mark_one(struct move *m, int n)
{
	struct mark_place at = mark_place(&m->it, n);
	cleanup_inode struct inode *parent = side_parent(m->d, &at.parent);
	uint64_t deadline_ns = m->rq->deadline_ns;
	struct patience p = { 0 };
	int err = parent ? 0 : -ENOMEM;

	if (err)
		return err;
	m->rq->deadline_ns = clock_ns() + (n == SIDE_MOVES ? MOVES_NS : MARKS_NS); /* so that there is time to give up */
	do
		err = side_mark(m->rq, m->d, &m->it, n);
	while (err == -EMARKED && !marks_wait_to_mark(m->rq, m->d, &p, at.child, parent));
	m->rq->deadline_ns = deadline_ns;
	if (err != -EMARKED)
		return err;
	log_error(m->d->x, m->rq,
		  "a rename ends with EIO: others have held \"%s\" at %s for all of the time that there is to mark it", at.name,
		  m->d->x->child[at.child]->name);
	return -EIO;
}

static bool comes_after(const struct side *a, const struct side *b)
{
	int parents = memcmp(a->parent.bytes, b->parent.bytes, sizeof(a->parent.bytes));

	if (a->child != b->child)
		return a->child > b->child;
	return parents ? parents > 0 : strcmp(a->name, b->name) > 0;
}

/* Where the root's home is: it is told if that moves, or has moved; then the record is to say so (-ESTALE: begun again). */
static int mark_moves(struct move *m)
{
	cleanup_inode struct inode *root = root_of(m->d);
	uint64_t until = clock_ns() + MOVES_NS;
	int err = root ? mark_one(m, SIDE_MOVES) : -ENOMEM;

	while (err == -ELAYOUT && clock_ns() < until) {
		err = learn_newer(m->rq, m->d, root);
		if (!err && m->it.moves != 1 + (int)spread_of(m->d)->layout.home)
			return -ESTALE;
		if (!err)
			err = task_sleep_ms(LEARN_MS);
		if (!err)
			err = mark_one(m, SIDE_MOVES);
	}
	if (err != -ELAYOUT)
		return err;
	log_error(m->d->x, m->rq, "a rename ends with EIO: the root's home was moving for all of the time that there is");
	return -EIO;
}

/* All in one order, so that no two wait for each other. */
static int mark_all(struct move *m)
{
	int first = m->it.sides > 1 && comes_after(&m->it.side[0], &m->it.side[1]) ? 1 : 0;
	int err = m->it.moves && !MUTANT("move-unmarked") ? mark_moves(m) : 0;

	if (!err)
		err = mark_one(m, first);
	if (!err && m->it.sides > 1)
		err = mark_one(m, !first);
	for (int n = SIDE_GOES; n < marks_end_of(&m->it) && !err; n++)
		if (has_mark(&m->it, n))
			err = mark_one(m, n);
	return err;
}

/* ---- under the marks ---- */

static int take_step(struct move *m, int n)
{
	const struct side *s = &m->it.side[n];
	struct step_in in = { .arrives = s->arrival != ARRIVES_NOTHING };

	if (in.arrives) {
		in.moved = *arrival_gfid(s);
		in.other = m->found[n].stands;
	} else {
		in.moved = m->found[n].stands;
	}
	return side_step(m->rq, m->d, &m->it, n, &in);
}

/* What has the new name by now: another file than before is replaced as well. -EAGAIN: that needs another look. */
static int look_at_target(struct move *m)
{
	struct standing now;
	int err;

	if (m->flags & RENAME_EXCHANGE)
		return 0;
	err = name_look(m->rq, m->d, &m->it, 1, &now);
	if (err || gfid_equal(&now.gfid, &m->found[1].stands))
		return err;
	if (m->it.of_directories || S_ISDIR(now.type) ||
	    gfid_equal(now.points ? &now.aim.gfid : &now.gfid, &m->found[0].object->gfid) ||
	    (m->flags & RENAME_NOREPLACE && !gfid_is_null(&now.gfid)))
		return -EAGAIN;
	m->found[1].stands = now.gfid;
	return 0;
}

static int still_stands(struct move *m, int n)
{
	struct standing now;
	int err = name_look(m->rq, m->d, &m->it, n, &now);

	return err ? err : gfid_equal(&now.gfid, &m->found[n].stands) ? 0 : -EAGAIN;
}

/* On disk, with what is to be decided; a brick that lost its power since may have lost the step. */
static int confirm(struct move *m, int n)
{
	const struct side *s = &m->it.side[n];
	struct standing now;
	int err = side_confirm(m->rq, m->d, &m->it, n);

	if (!err)
		err = name_look(m->rq, m->d, &m->it, n, &now);
	if (err)
		return err;
	if (s->arrival == ARRIVES_NOTHING)
		return gfid_is_null(&now.gfid) ? 0 : -EAGAIN;
	return gfid_equal(&now.gfid, arrival_gfid(s)) ? 0 : -EAGAIN;
}

/* Where the anchor is a sync has come since it was made; but before that the power may have gone there, and it, too: then nothing else would lead to the
 * file. */
static int confirm_anchor(struct move *m, int n)
{
	const struct side *s = &m->it.side[n];
	struct lookup_out out = { 0 };
	int err;

	if (s->arrival != ARRIVES_POINTER || MUTANT("trust-anchor"))
		return 0;
	err = look_at_anchor(m->rq, m->d, &s->aim, &out);
	fop_out_clear(FOP_lookup, &out);
	return err == -ENOENT || err == -ESTALE ? -EAGAIN : err;
}

static int confirm_all(struct move *m)
{
	int err = confirm(m, 1);

	if (!err)
		err = confirm(m, 0);
	if (!err)
		err = confirm_anchor(m, 1);
	return err ? err : confirm_anchor(m, 0);
}

/* What the record says is on disk. (A brick that lost its power before that says what it was before.) */
static int confirm_record(struct move *m)
{
	int err = side_confirm(m->rq, m->d, &m->it, 0);

	return err || MUTANT("trust-record") ? err : intent_stands(m->rq, m->d, &m->it);
}

/* That steps may be taken is on disk before the first is. The new name first: what is renamed is listed twice rather than not at all. */
static int steps(struct move *m)
{
	int err = confirm_record(m);

	if (!err && m->it.sides == 1) /* rmdir: the name goes at last */
		return still_stands(m, 0);
	if (!err)
		err = look_at_target(m);
	for (int n = m->it.sides - 1; n >= 0 && !err; n--)
		err = take_step(m, n);
	if (!err)
		err = check_no_circle(m->rq, m->d, &m->it);
	return err ? err : confirm_all(m);
}

/* ---- the whole ---- */

/* Somebody has taken it over before a step could be taken, and does not know of what was made since. */
static void lost(struct move *m)
{
	struct who user = become_root(m->rq);

	for (int n = 0; n < m->it.sides; n++) {
		const struct side *s = &m->it.side[n];

		if (s->arrival == ARRIVES_NOTHING)
			continue;
		if (s->arrival != ARRIVES_POINTER || !drop_anchor(m->rq, m->d, &s->aim))
			waits_remove(m->rq, m->d, &m->it, n, arrival_gfid(s));
	}
	become(m->rq, user);
}

/* There is time for it, whatever became of the rest. */
static void begin_to_end(struct move *m)
{
	m->rq->deadline_ns = clock_ns() + STEPS_NS;
}

/* Nobody may take steps yet. What can't be done now is left to others. */
static void forgo(struct move *m)
{
	begin_to_end(m);
	if (!intent_unmark(m->rq, m->d, &m->it, true) && intent_forgo(m->rq, m->d, &m->it) == -EFENCED)
		lost(m);
}

/* Somebody else may have taken it over, or nobody knows what became of it: as the record says. *state: what that was; if there is none any more, for others have ended
 * it, how it ended; 0: nobody knows (-ENOENT), or could be asked. */
static int end_as_recorded(struct move *m, int *state)
{
	int home = m->it.side[0].child, err, told;
	enum intent_state ended;
	char name[HIDDEN_NAME];
	struct intent now;

	begin_to_end(m);
	err = intent_find(m->rq, m->d, home, &m->it.id, &now);
	*state = err ? 0 : (int)now.state;
	if (err == -ENOENT && !MUTANT("forget-ended")) {
		told = intent_ended(m->rq, m->d, home, &m->it.id, &ended);
		*state = told ? 0 : (int)ended;
		err = told && told != -ENODATA && told != -EOPNOTSUPP ? told : err;
	}
	return err ? err : intent_end(m->rq, m->d, home, intent_name(&now, name));
}

static int prepare(struct move *m)
{
	int err = intent_write(m->rq, m->d, &m->it);

	if (err)
		return err;
	err = prepare_arrivals(m);
	if (!err)
		err = mark_all(m);
	if (err)
		forgo(m);
	return err;
}

/* Those that were set when others had removed theirs. */
static void drop_own_marks(struct move *m)
{
	struct who user = become_root(m->rq);

	marks_drop(m->rq, m->d, &m->it);
	become(m->rq, user);
}

/* Both are marked, and nobody has taken it over: from now on steps may be taken. */
static int open_up(struct move *m)
{
	int state, ended, err = intent_becomes(m->rq, m->d, &m->it, INTENT_OPEN);

	if (!err || (err == -EFENCED && MUTANT("open-anyway")))
		return 0;
	ended = end_as_recorded(m, &state);
	if (ended == -ENOENT) /* the one who took it over may have been about to be done */
		lost(m);
	if (ended)
		drop_own_marks(m);
	return err;
}

/* Its first entries, as they stand there. As root: what is in it has no say in what becomes of it. */
static int first_entries(struct request *rq, struct xlator *child, struct inode *directory, struct readdir_out *list)
{
	struct opendir_in in = { .inode = directory };
	struct opendir_out out = { 0 };
	struct readdir_in read = { .size = 4096 };
	struct release_out released = { 0 };
	int err = opendir_on(rq, child, &in, &out);

	read.file = out.file;
	if (!err) {
		err = readdir_on(rq, child, &read, list);
		release_on(rq, child, &(struct release_in){ .file = out.file }, &released);
	}
	file_unref(out.file);
	return err;
}

typedef int entries_fn(struct request *, struct xlator *child, struct inode *directory, const struct dirents *);

static int is_empty_by(struct request *rq, struct dht *d, int at, struct inode *directory, entries_fn *say)
{
	struct readdir_out list = { 0 };
	struct who user = become_root(rq);
	int err = place_say(rq, d, &(struct place){ .flags = PLACE_HERE });

	if (!err)
		err = first_entries(rq, d->x->child[at], directory, &list);
	if (!err && list.entries.count)
		err = say(rq, d->x->child[at], directory, &list.entries);
	fop_out_clear(FOP_readdir, &list);
	place_say(rq, d, &(struct place){ 0 });
	become(rq, user);
	return err == -ENOENT || err == -ESTALE ? -EAGAIN : err;
}

static int is_not_empty(struct request *rq, struct xlator *child, struct inode *directory, const struct dirents *list)
{
	(void)rq, (void)child, (void)directory, (void)list;
	return -ENOTEMPTY;
}

int directory_is_empty(struct request *rq, struct dht *d, int at, struct inode *directory)
{
	return is_empty_by(rq, d, at, directory, is_not_empty);
}

/* What an intent has put there it may take back: so it is not there yet, and was not before. One name that is nobody's is enough. -EMARKED: there is none such; -EAGAIN:
 * nor any other by now. */
static int holds_a_name(struct request *rq, struct xlator *child, struct inode *directory, const struct dirents *list)
{
	int err = -EAGAIN;

	for (uint32_t i = 0; i < list->count && (err == -EAGAIN || err == -EMARKED); i++) {
		struct lookup_in in = { .loc = { .parent = directory, .name = list->entry[i].name } };
		struct lookup_out out = { 0 };
		int one = lookup_on(rq, child, &in, &out);

		fop_out_clear(FOP_lookup, &out);
		if (!one)
			err = -ENOTEMPTY;
		else if (one != -ENOENT && one != -ESTALE)
			err = one;
	}
	return err;
}

/* As an operation may say it. (A listing shows names that are marked.) */
static int may_replace(struct move *m, int at, struct inode *directory)
{
	return is_empty_by(m->rq, m->d, at, directory, MUTANT("count-steps") ? is_not_empty : holds_a_name);
}

/* No name comes to be in a shard that dies: so what is empty stays so. */
static int shards_are_empty(struct move *m, struct inode *directory)
{
	int err = 0;

	for (unsigned i = 0; i < m->it.shards && !err; i++)
		err = may_replace(m, m->it.shard[i], directory);
	return err;
}

static bool leaver_stands(struct move *m)
{
	cleanup_inode struct inode *dir = NULL;
	struct who user = become_root(m->rq);
	int err = leaver_find(m->rq, m->d, &m->it, &dir);

	become(m->rq, user);
	return !err && dir;
}

/* The directory that is to go: if the brick did not take it, or nobody knows, what is there tells, while the marks stand. A wide one goes when it is decided. */
static int take_leaver(struct move *m)
{
	int err = m->it.shards ? shards_are_empty(m, m->found[m->it.sides - 1].object) : leaver_remove(m->rq, m->d, &m->it);
	bool gone = false;

	if (m->it.shards)
		return err;
	if (!err || err == -ENOTEMPTY || err == -EMARKED)
		return err;
	/* others may have ended it, and given its names to something else since */
	m->doubtful = leaver_has_gone(m->rq, m->d, &m->it, &gone) != 0 || (!gone && !leaver_stands(m));
	return gone ? 0 : err;
}

static bool is_decided(int state)
{
	return state == INTENT_DECIDED || state == INTENT_SETTLED;
}

static int nobody_knows(struct move *m, int err)
{
	log_error(
		m->d->x, m->rq,
		"a rename of \"%s\" to \"%s\" ends with EIO: how it ended can't be told, for its record at %s has gone, or nobody answers there (%s)",
		m->it.side[0].name, m->it.sides > 1 ? m->it.side[1].name : "", m->d->x->child[m->it.side[0].child]->name,
		strerror(-err));
	return -EIO;
}

/* -EFENCED of the decision: perhaps it was made by a request whose answer was lost, and others have gone on since. */
static int decide(struct move *m)
{
	int state, err = intent_becomes(m->rq, m->d, &m->it, INTENT_DECIDED);

	if (!err)
		err = confirm_record(m);
	if (!err) {
		if (!intent_let_go(m->rq, m->d, &m->it, true))
			intent_finish(m->rq, m->d, &m->it);
		return 0;
	}
	end_as_recorded(m, &state);
	if (is_decided(state))
		return 0;
	if (!gfid_is_null(&leaver(&m->it)->gfid) && !m->it.shards && state != INTENT_UNDONE) /* that it has gone has decided */
		return 0;
	return state ? err : nobody_knows(m, err);
}

/* It is not to be done, for that error. But whether it was decided by then may be for others to tell, who have taken it over: they may be at it. */
static int give_up(struct move *m, int err)
{
	uint64_t until = clock_ns() + MARKS_NS;
	bool ended;
	int state, asked;

	do {
		asked = end_as_recorded(m, &state);
		ended = !m->doubtful || is_decided(state) || state == INTENT_UNDONE || (!state && asked == -ENOENT);
	} while (!ended && clock_ns() < until && !task_sleep_ms(LEARN_MS));
	if (is_decided(state) && !gfid_is_null(&leaver(&m->it)->gfid)) /* the directory that was to go has gone */
		return 0;
	return m->doubtful && state != INTENT_UNDONE ? nobody_knows(m, err) : err;
}

static int carry_out(struct move *m)
{
	int err = prepare(m);

	if (!err)
		err = open_up(m);
	if (err)
		return err;
	err = steps(m);
	if (!err)
		err = take_leaver(m);
	return err ? give_up(m, err) : decide(m);
}

/* Nobody knows of it but who looks at marks: to the caller it has not begun. The file may have been brought to another subvolume since it was looked at. */
static bool to_begin_again(struct move *m, int err)
{
	m->refused = err == -ELAYOUT && m->it.shards;
	m->ended = err == -EFENCED;
	return m->refused || err == -EFENCED || err == -ENOENT || err == -ESTALE || err == -EEXIST || err == -EPOINTER ||
	       err == -EMOVED;
}

static void note_places(struct move *m)
{
	for (int n = 0; n < m->it.sides; n++)
		if (m->it.side[n].arrival != ARRIVES_NOTHING)
			note_place(m->d, m->found[!n].object, m->found[!n].child, m->it.side[n].arrival != ARRIVES_LINK);
}

static void name_sides(struct move *m, const int child[2])
{
	for (int n = 0; n < m->it.sides; n++) {
		struct side *s = &m->it.side[n];

		*s = (struct side){ .child = child[n], .parent = m->loc[n]->parent->gfid };
		snprintf(s->name, sizeof(s->name), "%s", m->loc[n]->name);
	}
	gfid_create(&m->it.id);
}

/* rmdir(2) of what is in place by now. 1: it has gone. */
static int remove_in_place(struct move *m)
{
	struct rmdir_in in = { .loc = { .parent = m->loc[0]->parent, .name = m->loc[0]->name } };
	struct rmdir_out out = { 0 };
	int err = rmdir_on(m->rq, m->d->x->child[m->it.side[0].child], &in, &out);

	return err == -EPOINTER || err == -EWIDE ? -EAGAIN : err ? err : 1;
}

static int judge_removal(struct move *m)
{
	if (!is_directory(&m->found[0]))
		return -ENOTDIR;
	if (m->found[0].attr.flags & ATTR_WIDE)
		return 0;
	return gfid_equal(&m->found[0].stands, &m->found[0].object->gfid) ? remove_in_place(m) : 0;
}

static int look_and_judge(struct move *m)
{
	int err = look_at_side(m, 0);

	if (err || m->it.sides == 1)
		return err ? err : judge_removal(m);
	err = look_at_side(m, 1);
	return err && err != -ENOENT ? err : judge(m);
}

static int reach_all(struct move *m, struct inode *dir)
{
	const struct layout *l = &spread_in(m->d, dir)->layout;
	int err = spread_in(m->d, dir)->lacks ? subvolume_lacking(m->d) : 0;

	for (unsigned i = 0; i < l->count && !err; i++)
		err = shard_reach(m->rq, m->d, dir, (int)l->member[i].id);
	return err;
}

/* Of a wide directory that is to go all shards must be known. -ELAYOUT: that was not why it was refused. */
static int know_shards(struct move *m)
{
	const struct found *f = &m->found[m->it.sides - 1];
	const struct spread *known = is_directory(f) ? spread_in(m->d, f->object) : NULL;
	int err;

	if (!is_directory(f) || !(f->attr.flags & ATTR_WIDE) || m->flags & RENAME_EXCHANGE)
		return 0;
	err = note_place(m->d, f->object, f->child, !gfid_equal(&f->stands, &f->object->gfid));
	if (!err && (!known || m->refused))
		err = learn_newer(m->rq, m->d, f->object);
	if (err)
		return err;
	if (m->refused && known == spread_in(m->d, f->object))
		return -ELAYOUT;
	m->refused = false;
	return is_spread(m->d, f->object) ? reach_all(m, f->object) : -EAGAIN;
}

/* What can be seen already is not begun: one of the names may be on the way to the other's directory, and who ends for us what we began would not get
 * there. (It is looked at again when it counts.) */
static int may_succeed(struct move *m)
{
	int err = check_no_circle(m->rq, m->d, &m->it);

	if (!err && m->it.shards)
		err = shards_are_empty(m, m->found[m->it.sides - 1].object);
	else if (!err && !gfid_is_null(&leaver(&m->it)->gfid))
		err = may_replace(m, leaver(&m->it)->child, m->found[m->it.sides - 1].object);
	return err;
}

static int across_once(struct move *m, const int child[2])
{
	uint64_t deadline_ns = m->rq->deadline_ns;
	int err;

	name_sides(m, child);
	m->doubtful = false;
	err = look_and_judge(m);
	if (!err)
		err = know_shards(m);
	if (err)
		return err;
	plan(m);
	err = may(m);
	if (!err)
		err = may_succeed(m);
	for (int n = 0; n < m->it.sides && !err; n++)
		err = side_find_path(m->rq, m->d, &m->it.side[n], m->loc[n]->parent);
	if (err)
		return err;
	task_shield(true);
	m->rq->deadline_ns = clock_ns() + STEPS_NS;
	err = carry_out(m);
	err = to_begin_again(m, err) ? -EAGAIN : err;
	m->rq->deadline_ns = deadline_ns;
	task_shield(false);
	if (!err)
		note_places(m);
	return err;
}

/* -EMARKED: sweeps were faster each time. That is for a while, so it is tried for as long as a name is waited for that is marked. */
static int try_again_and_again(struct move *m, const int child[2])
{
	int err = -EAGAIN;

	for (int tries = 0; err == -EAGAIN && tries < RENAMES; tries++) {
		if (tries)
			task_sleep_ms((uint64_t)tries);
		err = across_once(m, child);
	}
	found_clear(&m->found[0]);
	found_clear(&m->found[1]);
	if (err != -EAGAIN)
		return err > 0 ? 0 : err;
	return m->ended ? -EMARKED : -ESTALE;
}

int rename_across(struct request *rq, struct dht *d, const struct rename_in *in, const int child[2])
{
	struct move m = { .rq = rq, .d = d, .loc = { &in->from, &in->to }, .flags = in->flags, .it.sides = 2 };
	int err;

	if (in->flags & ~(uint32_t)(RENAME_NOREPLACE | RENAME_EXCHANGE) || in->flags == (RENAME_NOREPLACE | RENAME_EXCHANGE))
		return -EINVAL;
	err = try_again_and_again(&m, child);
	if (!err)
		atomic_fetch_add(&d->renamed_across, 1);
	return err;
}

int name_move(struct request *rq, struct dht *d, struct inode *dir, const char *name, int from, int to)
{
	struct loc loc = { .parent = dir, .name = name };
	struct move m = { .rq = rq, .d = d, .loc = { &loc, &loc }, .flags = RENAME_NOREPLACE, .it.sides = 2 };
	int err = try_again_and_again(&m, (int[]){ from, to });

	return err == -ENOENT ? 0 : err;
}

int rmdir_away(struct request *rq, struct dht *d, const struct unlink_in *in, int owner)
{
	struct move m = { .rq = rq, .d = d, .loc = { &in->loc }, .it.sides = 1 };

	return try_again_and_again(&m, (int[]){ owner, owner });
}
