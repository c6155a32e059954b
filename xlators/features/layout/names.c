/* SPDX-License-Identifier: Apache-2.0 */
/* features/layout: may this be done with that name, here and by that layout? All of it inside the gates of the directories. */
#include "shard.h"

#include <fcntl.h>
#include <stdio.h>

enum { TRIES = 16 };

struct call {
	struct request *rq;
	struct xlator *x;
	const struct place *place;
	enum fop fop;
	const void *in;
	void *out;
	struct inside *inside;
	bool moves; /* its (first) name is to be elsewhere */
	bool ours;  /* a name is marked by the intent of which this is a step */
};

int refused(struct xlator *x, int err)
{
	struct checks *c = x->private;
	atomic_uint_fast64_t *counter = err == -ELAYOUT	   ? &c->elsewhere
					: err == -EPOINTER ? &c->pointers
					: err == -EWIDE	   ? &c->wide
					: err == -EMOVED   ? &c->moved
					: err == -EMARKED  ? &c->marked
							   : NULL;

	if (counter)
		atomic_fetch_add(counter, 1);
	return err;
}

bool names_fop(enum fop fop, const void *in)
{
	switch ((int)fop) {
	case FOP_lookup:
		return ((const struct lookup_in *)in)->loc.name;
	case FOP_create:
	case FOP_mknod:
	case FOP_mkdir:
	case FOP_symlink:
	case FOP_unlink:
	case FOP_rmdir:
	case FOP_rename:
	case FOP_link:
		return true;
	default:
		return false;
	}
}

/* ---- where the name belongs ---- */

static bool moves_away(const struct layout *l, uint32_t self, uint64_t key)
{
	return l && l->moving && layout_owner_next(l, key)->id != self;
}

/* Whoever has had it, while names are moved; but nothing new comes to be where they are moved from. */
static bool belongs(const struct layout *l, uint32_t self, uint64_t key, bool makes)
{
	if (layout_owner_next(l, key)->id == self)
		return true;
	return l->moving && (!makes || MUTANT("bear-make-moving-at-source")) && layout_owner(l, key)->id == self;
}

static bool is_step(const struct call *c)
{
	return !gfid_is_null(&c->place->intent);
}

static bool has_version(const struct call *c, const struct loc *loc, int name, uint64_t version)
{
	uint64_t said = place_version(c->place, request_gfid(c->rq, &loc->parent->gfid), name);

	return said == version || (said < version && MUTANT("accept-old-layout"));
}

/* The steps of an intent pass by its marks: the name is dealt with as it was when it was marked. With the lock of k held. */
static bool follows_layout(const struct call *c, const struct known *k, const struct loc *loc, int name, bool makes)
{
	const struct checks *p = c->x->private;
	const struct gfid *directory = request_gfid(c->rq, &loc->parent->gfid);
	const struct layout *l = k->layout;

	if (is_step(c))
		return true;
	if (request_is_confined(c->rq)) /* who knows of no layouts works with what has one member */
		return !l || (!l->moving && l->count == 1 && l->member[0].id == (uint32_t)p->subvolume);
	if (c->place->flags & PLACE_HERE) /* who changes something there has judged it by a layout */
		return !l || !(fop_info[c->fop].flags & FOP_MUTATES) || place_version(c->place, directory, name) == l->version;
	if (!has_version(c, loc, name, l ? l->version : 0))
		return false;
	if (!l && p->initial && is_top(c->rq, loc->parent))
		l = &p->implied;
	return !l || belongs(l, (uint32_t)p->subvolume, layout_key(directory, loc->name), makes);
}

static int judge_place(struct call *c, const struct loc *loc, int name, bool makes)
{
	struct known *k = inode_slot(loc->parent, c->x);
	int err;

	if (is_top(c->rq, loc->parent) && !request_is_confined(c->rq) && !strcmp(loc->name, DHT_HIDDEN))
		return 0;
	err = known_locked(c->rq, c->x, loc->parent, k);
	if (err)
		return err;
	if (k->points)
		err = -EMOVED;
	else if (!follows_layout(c, k, loc, name, makes))
		err = -ELAYOUT;
	if (!err && !name)
		c->moves = moves_away(k->layout, (uint32_t)((struct checks *)c->x->private)->subvolume,
				      layout_key(request_gfid(c->rq, &loc->parent->gfid), loc->name));
	if (!err)
		err = mark_judge(k, c->place, loc->name, c->fop == FOP_lookup, &c->ours);
	if (!err && makes && is_dying(k, c->place))
		err = -EMARKED;
	pthread_mutex_unlock(&k->lock);
	return err;
}

/* ---- what has the name ---- */

/* As the user: what he can't look at he can't take away, and the error is the same. */
static int look(const struct call *c, const struct loc *loc, struct lookup_out *found, struct facts *facts)
{
	struct lookup_in in = { .loc = { .parent = loc->parent, .name = loc->name } };
	int err = lookup_on(c->rq, c->x->child[0], &in, found);

	if (!err)
		err = facts_of(c->rq, c->x, found->inode, &found->attr, facts);
	if (err)
		fop_out_clear(FOP_lookup, found);
	return err;
}

/* An intent may have to take back what it did in there. But one may have marked it as what is to go. */
static int judge_marks_in(const struct call *c, struct inode *victim)
{
	struct facts f = { 0 };
	int err = 0;

	if (!S_ISDIR(victim->type) || MUTANT("rmdir-marked"))
		return 0;
	err = inside_enter_victim(c->inside, c->x, victim);
	if (!err)
		err = facts_of(c->rq, c->x, victim, NULL, &f);
	if (!err && f.wide && !(c->place->flags & PLACE_SHARD))
		err = -EWIDE; /* it was not when it was looked at first */
	if (!err && f.goes && mark_is_of(&f.by, c->place))
		return 0;
	return err ? err : f.marked ? -EMARKED : is_step(c) && !c->ours ? -EFENCED : 0;
}

static int judge_victim(const struct call *c, const struct facts *f)
{
	if (f->points && !(c->place->flags & PLACE_POINTER) && !MUTANT("take-pointers"))
		return -EPOINTER;
	return f->wide && !(c->place->flags & PLACE_SHARD) ? -EWIDE : 0;
}

/* What is left of a file that was moved keeps its anchors for the pointers that lead there still. Where it is now has the same, and those go first: who takes one away here
 * says that he knows, by what he expects. */
static bool leads_on(const struct call *c, const struct facts *f)
{
	return f->points && !gfid_is_null(&f->pointer.mover) && gfid_is_null(&c->place->expected[0]) && !MUTANT("drop-once");
}

/* The leaf refuses another object than was looked at. What the caller says it saw there stands: the leaf compares it, too. */
static struct loc exactly(const struct loc *loc, struct inode *found)
{
	return (struct loc){ .parent = loc->parent,
			     .name = loc->name,
			     .inode = loc->inode || MUTANT("take-another") ? loc->inode : found };
}

/* The name (0: the first, 1: the second) must stand for what the client says, if it says so. `err` of the look at it. */
static int expected(const struct call *c, int name, int err, const struct lookup_out *found)
{
	const struct gfid *gfid = &c->place->expected[name];

	if (gfid_is_null(gfid) || (err && err != -ENOENT) || MUTANT("expect-nothing"))
		return err;
	return err || !gfid_equal(gfid, &found->inode->gfid) ? -ESTALE : 0;
}

static bool stands_for(const struct call *c, int name, const struct lookup_out *found)
{
	return found->inode && gfid_equal(&c->place->expected[name], &found->inode->gfid);
}

/* Of a request that is sent again: the name stands for something else by now. */
static bool taken_since(const struct call *c, int err, const struct lookup_out *found)
{
	return c->rq->resent && !MUTANT("forget-resent") && !err && !gfid_is_null(&c->place->expected[0]) &&
	       !stands_for(c, 0, found);
}

static bool is_named(const struct call *c, const struct loc *loc, int name)
{
	return loc->inode || !gfid_is_null(&c->place->expected[name]);
}

static int remove_found(const struct call *c, const struct unlink_in *in)
{
	struct lookup_out found = { 0 };
	struct facts facts;
	int err = look(c, &in->loc, &found, &facts);

	if (err == -ENOENT && c->rq->resent && is_step(c)) /* nobody but its intent knows */
		return -ESTALE;
	if (err == -ENOENT && c->rq->resent &&
	    c->moves) /* nor does anybody know that it was not moved: who has it now is asked */
		return err;
	if (err == -ENOENT &&
	    c->rq->resent) /* it went with the first try: the leaf, which is told what that was, removes no other */
		return in->loc.inode ? fop_call(c->rq, c->x->child[0], c->fop, in, c->out) : 0;
	if (taken_since(c, err, &found)) { /* so did what was expected: what has the name now was made later */
		fop_out_clear(FOP_lookup, &found);
		return is_step(c) ? -ESTALE : 0;
	}
	err = expected(c, 0, err, &found);
	if (!err)
		err = leads_on(c, &facts) ? -EPOINTER : judge_victim(c, &facts);
	if (!err && c->fop == FOP_rmdir)
		err = judge_marks_in(c, found.inode);
	if (!err) {
		struct unlink_in exact = { .loc = exactly(&in->loc, found.inode) };

		err = fop_call(c->rq, c->x->child[0], c->fop, &exact, c->out);
	}
	fop_out_clear(FOP_lookup, &found);
	return err;
}

/* Another client may have put something else there since it was looked at. Who named the object hears of that; who named none meant the name. */
static int remove_name(const struct call *c)
{
	const struct unlink_in *in = c->in; /* a rmdir_in is the same */
	int err = -ESTALE;

	for (int tries = 0; err == -ESTALE && tries < TRIES; tries++) {
		err = remove_found(c, in);
		if (is_named(c, &in->loc, 0))
			break;
	}
	return err;
}

/* ---- rename ---- */

/* What is moved may be a pointer, whose anchor goes by its gfid and so stays what it is. But there is more to look at than this brick can see: where
 * two names change places, or a directory gets another parent; and the object's ctime changes. */
static int judge_moved(const struct call *c, const struct rename_in *in, const struct inode *moved, const struct facts *f)
{
	bool apart = S_ISDIR(moved->type) && in->from.parent != in->to.parent;

	if (!f->points || c->place->flags & PLACE_POINTER)
		return 0;
	return apart || in->flags & RENAME_EXCHANGE || !c->place->moves_pointers ? -EPOINTER : 0;
}

static int judge_replaced(const struct call *c, const struct rename_in *in, const struct facts *f)
{
	struct facts as = *f;

	as.wide &= !(in->flags & RENAME_EXCHANGE); /* that is not replaced */
	return judge_victim(c, &as);
}

/* A directory gets another parent. */
static bool reparents(const struct rename_in *in, const struct inode *from, const struct inode *to)
{
	if (in->from.parent == in->to.parent)
		return false;
	return S_ISDIR(from->type) || (in->flags & RENAME_EXCHANGE && to && S_ISDIR(to->type));
}

/* One that is moved by an intent, or to and from `work`, was looked at by a client. Who comes by an access point has one tree, whatever he calls what is in it. */
static int rename_apart(const struct call *c, const struct rename_in *in)
{
	struct checks *checks = c->x->private;
	int err = task_lock(&checks->moving, c->rq->deadline_ns);

	if (err)
		return err;
	if (!(c->place->flags & PLACE_POINTER) && !request_is_confined(c->rq) && !MUTANT("compare-no-trees"))
		err = trees_compare(c->rq, c->x, in->from.parent, in->to.parent);
	if (!err)
		err = rename_on(c->rq, c->x->child[0], in, c->out);
	task_unlock(&checks->moving);
	return err;
}

static int rename_found(const struct call *c, const struct rename_in *in, struct inode *from, bool *again)
{
	struct lookup_out found = { 0 };
	struct rename_in exact = *in;
	struct facts facts;
	bool only_new;
	int err = look(c, &in->to, &found, &facts);

	err = expected(c, 1, err, &found);

	only_new = err == -ENOENT && !in->flags;
	if (err == -ENOENT)
		err = in->to.inode ? -ESTALE
				   : 0; /* who names what is to be replaced wants that replaced, and nothing else done */
	else if (!err)
		err = judge_replaced(c, in, &facts);
	if (!err && found.inode && !(in->flags & RENAME_EXCHANGE))
		err = judge_marks_in(c, found.inode);
	if (!err) {
		exact.from = exactly(&in->from, from);
		exact.to = exactly(&in->to, found.inode);
		exact.flags |= only_new ? RENAME_NOREPLACE : 0;
		err = reparents(in, from, found.inode) ? rename_apart(c, &exact)
						       : rename_on(c->rq, c->x->child[0], &exact, c->out);
	}
	fop_out_clear(FOP_lookup, &found);
	*again = err == -EEXIST && only_new; /* the name has come since */
	return err;
}

/* It is sent again, and the old name has gone, or is another's (then `otherwise` is the error): was it done by the first try? If the client says
 * what it moves, or replaces, the new name tells; else the leaf knows. */
static int rename_again(const struct call *c, const struct rename_in *in, int otherwise)
{
	struct lookup_out found = { 0 };
	bool moves = !gfid_is_null(&c->place->expected[0]), replaces = !gfid_is_null(&c->place->expected[1]), done, undone;
	struct facts facts;
	int err;

	if (!moves && !replaces)
		return rename_on(c->rq, c->x->child[0], in, c->out);
	err = look(c, &in->to, &found, &facts);
	done = moves && stands_for(c, 0, &found);
	undone = moves || (replaces && stands_for(c, 1, &found));
	fop_out_clear(FOP_lookup, &found);
	if (err && err != -ENOENT)
		return err;
	return done ? 0 : undone ? otherwise : rename_on(c->rq, c->x->child[0], in, c->out);
}

static int rename_looked_up(const struct call *c, bool *again)
{
	const struct rename_in *in = c->in;
	struct lookup_out found = { 0 };
	struct facts facts;
	int err = look(c, &in->from, &found, &facts);

	*again = false;
	if ((err == -ENOENT && c->rq->resent) || taken_since(c, err, &found)) {
		fop_out_clear(FOP_lookup, &found);
		return rename_again(c, in, err ? -ENOENT : -ESTALE);
	}
	err = expected(c, 0, err, &found);
	if (!err)
		err = judge_moved(c, in, found.inode, &facts);
	if (!err)
		err = rename_found(c, in, found.inode, again);
	fop_out_clear(FOP_lookup, &found);
	*again |= err == -ESTALE && !is_named(c, &in->from, 0) && !is_named(c, &in->to, 1); /* as in remove_name */
	return err;
}

static int rename_name(const struct call *c)
{
	bool again = true;
	int err = 0;

	for (int tries = 0; again && tries < TRIES; tries++)
		err = rename_looked_up(c, &again);
	return again ? -ESTALE : err;
}

/* ---- make ---- */

/* A file that is being moved gets no name more where it was. */
static int link_name(const struct call *c)
{
	const struct link_in *in = c->in;
	struct facts facts;
	int err = inside_enter_victim(c->inside, c->x, in->inode);

	if (!err)
		err = facts_of(c->rq, c->x, in->inode, NULL, &facts);
	if (!err && facts.points && !(c->place->flags & PLACE_POINTER))
		err = -EPOINTER;
	if (!err && facts.goes && !(c->place->flags & PLACE_POINTER))
		err = -EMARKED;
	return err ? err : link_on(c->rq, c->x->child[0], in, c->out);
}

/* The name may have changed hands since it was looked at. */
static int open_existing(const struct call *c, const struct create_in *in)
{
	struct create_out *out = c->out;
	struct release_out released = { 0 };
	struct facts facts;
	int err = create_on(c->rq, c->x->child[0], in, out);

	if (err)
		return err;
	err = facts_of(c->rq, c->x, out->inode, &out->attr, &facts);
	if (!err && facts.points && !MUTANT("open-pointers"))
		err = -EPOINTER;
	if (!err)
		return 0;
	release_on(c->rq, c->x->child[0], &(struct release_in){ .file = out->file }, &released);
	fop_out_clear(FOP_create, out);
	memset(out, 0, sizeof(*out));
	return err;
}

/* A new one, or else what is there if it is no pointer: that is never opened. */
static int create_name(const struct call *c)
{
	const struct create_in *in = c->in;
	struct lookup_out found = { 0 };
	struct create_in new = *in;
	struct facts facts;
	bool is_file;
	int err = -EEXIST;

	new.flags |= O_EXCL;
	for (int tries = 0; tries < TRIES && (err == -EEXIST || err == -ENOENT || err == -ESTALE); tries++) {
		err = create_on(c->rq, c->x->child[0], &new, c->out);
		if (err != -EEXIST || in->flags & O_EXCL)
			return err;
		err = look(c, &in->loc, &found, &facts);
		if (err)
			continue;
		err = facts.points && !MUTANT("open-pointers") ? -EPOINTER : open_existing(c, in);
		is_file = S_ISREG(found.attr.mode); /* what is none is not opened, but refused: EEXIST */
		fop_out_clear(FOP_lookup, &found);
		if (!is_file)
			return err;
	}
	return err;
}

/* ---- all ---- */

static int judged(const struct call *c)
{
	switch ((int)c->fop) {
	case FOP_unlink:
	case FOP_rmdir:
		return remove_name(c);
	case FOP_rename:
		return rename_name(c);
	case FOP_link:
		return link_name(c);
	case FOP_create:
		return create_name(c);
	default:
		return fop_call(c->rq, c->x->child[0], c->fop, c->in, c->out);
	}
}

/* The name moves away from here: that it has gone is on disk before anybody sees it, for then it may be made where it is to be, and must not be back here after a
 * power cut. (What an intent takes nobody sees before its mark goes, and that is synced.) */
static int judged_moving(struct call *c, struct inode *parent)
{
	struct known *k = inode_slot(parent, c->x);
	bool takes = c->fop == FOP_unlink || c->fop == FOP_rmdir || c->fop == FOP_rename;
	int err, synced = 0;

	if (c->ours)
		return judged(c);
	if (takes)
		taking_begin(k);
	err = judged(c);
	if (takes)
		taking_end(k, err != -ENOENT);
	if (takes && !err) {
		task_shield(true); /* it is done: who is not waited for any more hears that, and no error */
		synced = taken_sync(c->rq, c->x, parent);
		task_shield(false);
	} else if (!takes && err == -ENOENT) {
		synced = taken_sync(c->rq, c->x, parent);
	}
	return synced ? synced : err;
}

static const struct loc *first_loc(enum fop fop, const void *in)
{
	return fop == FOP_link	   ? &((const struct link_in *)in)->loc
	       : fop == FOP_rename ? &((const struct rename_in *)in)->from
				   : in; /* all others have it first */
}

static bool makes(enum fop fop)
{
	return fop == FOP_create || fop == FOP_mknod || fop == FOP_mkdir || fop == FOP_symlink || fop == FOP_link;
}

/* As objects in `away` are called. Who does not know yet that this subvolume is to go makes it where its name is, as when there is no room. */
static bool puts_away(enum fop fop, const char *name)
{
	char text[GFID_TEXT];
	struct gfid gfid;

	if (fop == FOP_link || !makes(fop) || (strncmp(name, "a.", 2) != 0 && strncmp(name, "d.", 2) != 0))
		return false;
	snprintf(text, sizeof(text), "%s", name + 2);
	return !gfid_parse(text, &gfid);
}

/* By the root's layout here, which says so before the first name leaves this subvolume: nobody asks whether the option has come. With the gates of both passed, so it is
 * done before that is written, and looked at after it, or refused. */
static int may_put_away(struct request *rq, struct xlator *x, struct inode *root)
{
	struct checks *c = x->private;
	struct known *k = known_of(x, root);
	const struct layout_member *own;
	int err = c->leaving ? -ENOSPC : k ? known_locked(rq, x, root, k) : -ENOMEM;

	if (err)
		return err;
	own = k->layout && !k->broken ? layout_find(k->layout, (uint32_t)c->subvolume) : NULL;
	if (k->layout && !k->broken && (!own || !own->next) && !MUTANT("put-where-it-leaves"))
		err = -ENOSPC;
	pthread_mutex_unlock(&k->lock);
	return err;
}

int names_judge(struct request *rq, struct xlator *x, const struct place *place, enum fop fop, const void *in, void *out)
{
	const struct loc *from = first_loc(fop, in), *to = fop == FOP_rename ? &((const struct rename_in *)in)->to : NULL;
	bool exchange = to && ((const struct rename_in *)in)->flags & RENAME_EXCHANGE;
	int err = !from->parent || !from->name || (to && (!to->parent || !to->name)) ? -EINVAL : 0;
	bool away = !err && !request_is_confined(rq) && puts_away(fop, from->name);
	cleanup_inode struct inode *root = away ? inode_get(x->inodes, request_top(rq), S_IFDIR) : NULL;
	cleanup_inside struct inside inside = { 0 }; /* behind what keeps the root: it goes first */
	struct call c = { rq, x, place, fop, in, out, &inside, false, false };

	if (away && !root)
		err = -ENOMEM;
	if (!err)
		err = inside_enter(&inside, rq, x, from->parent, to ? to->parent : root);
	if (!err)
		err = judge_place(&c, from, 0, makes(fop) || exchange);
	if (!err && to)
		err = judge_place(&c, to, 1, true);
	if (!err && !c.ours && is_step(&c) && fop_info[fop].flags & FOP_MUTATES && fop != FOP_rmdir)
		err = -EFENCED; /* its marks have gone. (Replica sets look up both names of a rename, of which one has none.) */
	if (!err && away)
		err = may_put_away(rq, x, root);
	if (!err)
		err = c.moves ? judged_moving(&c, from->parent) : judged(&c);
	return refused(x, err);
}
