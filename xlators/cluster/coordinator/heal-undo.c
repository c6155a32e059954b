/* SPDX-License-Identifier: Apache-2.0 */
/* A recovery's log at each member: what its names stood for before, so that an unfinished one can be undone where the truth is gone. It lies
 * in the limbo: log/DIRECTORY/NAME is a symlink whose target is the gfid of what had the name, or "-" for nothing. */
#include "heal-internal.h"

static const char log_name[] = LOG, nothing[] = "-";

/* ---- writing it ---- */

static int made_or_there(int err)
{
	return err == -EEXIST ? 0 : err;
}

static int open_below(struct heal *h, struct request *rq, int at, struct inode *directory, const char *name, struct thing *t)
{
	struct mkdir_in in = { .loc = { .parent = directory, .name = name }, .mode = 0700 };
	struct mkdir_out out = { 0 };
	int err = thing_lookup(h, rq, at, directory, name, t);

	if (err != -ENOENT)
		return err;
	gfid_create(&in.gfid);
	err = heal_call(h, rq, at, FOP_mkdir, &in, &out);
	fop_out_clear(FOP_mkdir, &out);
	err = made_or_there(err);
	return err ? err : thing_lookup(h, rq, at, directory, name, t);
}

/* Of a name that is in the log already the older entry holds: that is what it stood for before all of this. */
int log_name_was(struct heal *h, struct request *rq, int at, const struct gfid *directory, const char *name,
		 const struct gfid *was)
{
	cleanup_inode struct inode *limbo = NULL;
	cleanup_thing struct thing log = { 0 }, d = { 0 };
	char text[GFID_TEXT], target[GFID_TEXT];
	struct symlink_in in = { .target = was ? gfid_text(was, target) : nothing };
	struct symlink_out out = { 0 };
	int err;

	if (!h->logs || gfid_equal(directory, &gfid_limbo))
		return 0;
	err = limbo_open(h, rq, at, &limbo);
	if (!err)
		err = open_below(h, rq, at, limbo, log_name, &log);
	if (!err)
		err = open_below(h, rq, at, log.inode, gfid_text(directory, text), &d);
	if (err)
		return err;
	in.loc = (struct loc){ .parent = d.inode, .name = name };
	gfid_create(&in.gfid);
	err = heal_call(h, rq, at, FOP_symlink, &in, &out);
	fop_out_clear(FOP_symlink, &out);
	return made_or_there(err);
}

int log_was_free(struct heal *h, struct request *rq, int at, const struct loc *place)
{
	cleanup_thing struct thing t = { 0 };
	int err = h->logs ? thing_lookup(h, rq, at, place->parent, place->name, &t) : 0;

	if (!h->logs || (err && err != -ENOENT))
		return err;
	return t.inode ? -EEXIST : log_name_was(h, rq, at, &place->parent->gfid, place->name, NULL);
}

/* ---- reading it ---- */

struct place {
	struct gfid directory, was; /* null: nothing was there */
	char *name;
};
struct undo {
	struct heal *h;
	struct request *rq;
	int at;
	size_t count, room;
	struct place *place;
	struct gfid directory; /* that is being read */
};

static void undo_clear(struct undo *u)
{
	for (size_t i = 0; i < u->count; i++)
		free(u->place[i].name);
	free(u->place);
}

static struct place *add(struct undo *u)
{
	size_t room = u->room ? 2 * u->room : 64;
	struct place *grown = u->count < u->room ? u->place : realloc(u->place, room * sizeof(*grown));

	if (!grown)
		return NULL;
	if (u->count == u->room)
		u->room = room;
	u->place = grown;
	grown = &u->place[u->count];
	*grown = (struct place){ .directory = u->directory };
	return grown;
}

static int read_place(void *undo, const struct dirent_plus *e)
{
	struct undo *u = undo;
	struct readlink_in in = { .inode = e->inode };
	struct readlink_out out = { 0 };
	struct place *p = add(u);
	int err = p ? heal_call(u->h, u->rq, u->at, FOP_readlink, &in, &out) : -ENOMEM;

	if (!err && strcmp(out.target, nothing) != 0 && gfid_parse(out.target, &p->was))
		err = -EIO;
	fop_out_clear(FOP_readlink, &out);
	if (err)
		return err;
	p->name = strdup(e->name);
	u->count += p->name != NULL;
	return p->name ? 0 : -ENOMEM;
}

static int read_directory(void *undo, const struct dirent_plus *e)
{
	struct undo *u = undo;

	if (gfid_parse(e->name, &u->directory))
		return -EIO;
	return heal_list(u->h, u->rq, u->at, e->inode, read_place, u);
}

/* *log: -ENOENT: there is none. */
static int find_log(struct heal *h, struct request *rq, int at, struct inode **limbo, struct thing *log)
{
	int err = limbo_find(h, rq, at, limbo);

	return err ? err : thing_lookup(h, rq, at, *limbo, log_name, log);
}

/* ---- undoing ---- */

/* Wherever the member has it. */
static int find_anywhere(struct undo *u, const struct gfid *g, struct thing *t)
{
	cleanup_thing struct thing root = { 0 };
	cleanup_inode struct inode *in = NULL;
	char name[256];
	int err = thing_known(u->h, u->rq, g, u->at, t);

	if (err != -ENOENT)
		return err;
	err = thing_known(u->h, u->rq, &gfid_root, u->at, &root);
	if (!err)
		err = search_below(u->h, u->rq, g, u->at, root.inode, &in, name);
	if (!err)
		err = thing_lookup(u->h, u->rq, u->at, in, name, t);
	return !err && !gfid_equal(&t->inode->gfid, g) ? -EAGAIN : err;
}

/* What stands there now; t->inode NULL: nothing. */
static int look_at(struct undo *u, const struct place *p, struct thing *directory, struct thing *t)
{
	int err = find_anywhere(u, &p->directory, directory);

	if (!err)
		err = thing_lookup(u->h, u->rq, u->at, directory->inode, p->name, t);
	return err == -ENOENT && directory->inode ? 0 : err;
}

static bool is_right(const struct place *p, const struct thing *t)
{
	return t->inode ? gfid_equal(&t->inode->gfid, &p->was) : gfid_is_null(&p->was);
}

/* Whatever has come to the name goes to the limbo: it has an older place in the log, or the member did not have it. */
static int clear_place(struct undo *u, const struct place *p)
{
	cleanup_thing struct thing directory = { 0 }, t = { 0 };
	int err = look_at(u, p, &directory, &t);

	if (err == -ENOENT)
		return 0; /* told of by give_back(), if it matters */
	if (err || !t.inode || is_right(p, &t))
		return err;
	return limbo_take(u->h, u->rq, u->at, directory.inode, p->name, &t);
}

/* It had several names; or another object in the limbo has the name of its gfid. */
static int give_otherwise(struct undo *u, const struct place *p, const struct loc *to)
{
	cleanup_thing struct thing t = { 0 };
	struct link_in in = { .loc = *to };
	struct link_out out = { 0 };
	int err = find_anywhere(u, &p->was, &t);

	if (!err && S_ISDIR(t.inode->type))
		return limbo_dig(u->h, u->rq, u->at, &p->was, to);
	in.inode = t.inode;
	return err ? err : heal_call(u->h, u->rq, u->at, FOP_link, &in, &out);
}

static int give_back(struct undo *u, const struct place *p)
{
	cleanup_thing struct thing directory = { 0 }, t = { 0 };
	struct loc to = { .name = p->name };
	int err = look_at(u, p, &directory, &t);

	if (err || is_right(p, &t))
		return err;
	to.parent = directory.inode;
	err = limbo_give(u->h, u->rq, u->at, &p->was, &to);
	return err == -ENOENT ? give_otherwise(u, p, &to) : err;
}

/* The directory or the object is nowhere. What lies in the limbo stays there for people to look at. */
static int cannot_give(struct undo *u, const struct place *p)
{
	char directory[GFID_TEXT], was[GFID_TEXT];
	int err = limbo_keep(u->h, u->rq, u->at, &p->was);

	log_error(u->h->x, NULL,
		  "member %d: \"%s\" in directory %s can't be made %s again, as it was before a recovery that did not end%s",
		  u->at, p->name, gfid_text(&p->directory, directory), gfid_text(&p->was, was),
		  err ? ": it is nowhere" : ": it stays in " LIMBO);
	return err == -ENOENT ? 0 : err;
}

/* First all names are emptied that stand for something else; so when they are given back each directory is in its place or in the limbo, and
 * none below itself. Done twice it does nothing more. */
static int undo_all(struct undo *u)
{
	int err = 0;

	for (size_t i = 0; i < u->count && !err; i++)
		err = clear_place(u, &u->place[i]);
	for (size_t i = 0; i < u->count && !err; i++) {
		err = gfid_is_null(&u->place[i].was) ? 0 : give_back(u, &u->place[i]);
		if (err == -ENOENT)
			err = cannot_give(u, &u->place[i]);
	}
	return err;
}

static int tell_all(struct undo *u, int (*each)(void *, const struct gfid *, const char *), void *arg)
{
	int err = 0;

	for (size_t i = 0; i < u->count && !err; i++)
		err = each(arg, &u->place[i].directory, u->place[i].name);
	return err;
}

int heal_undo(struct heal *h, struct request *rq, int at, int (*each)(void *, const struct gfid *, const char *), void *arg)
{
	cleanup_inode struct inode *limbo = NULL;
	cleanup_thing struct thing log = { 0 };
	struct undo u = { .h = h, .rq = rq, .at = at };
	int err = find_log(h, rq, at, &limbo, &log);

	if (err)
		return err == -ENOENT ? 0 : err;
	err = heal_list(h, rq, at, log.inode, read_directory, &u);
	if (!err)
		err = tell_all(&u, each, arg);
	if (!err)
		err = undo_all(&u);
	undo_clear(&u);
	return err ? err : heal_end_log(h, rq, at);
}

/* In one step: a log of which half is gone would undo half. */
int heal_end_log(struct heal *h, struct request *rq, int at)
{
	cleanup_inode struct inode *limbo = NULL;
	cleanup_thing struct thing log = { 0 };
	char text[GFID_TEXT];
	struct rename_in in = { 0 };
	struct rename_out out = { 0 };
	int err = find_log(h, rq, at, &limbo, &log);

	if (err)
		return err == -ENOENT ? 0 : err;
	in.from = (struct loc){ limbo, log.inode, log_name };
	in.to = (struct loc){ .parent = limbo, .name = gfid_text(&log.inode->gfid, text) };
	return heal_call(h, rq, at, FOP_rename, &in, &out);
}
