/* SPDX-License-Identifier: Apache-2.0 */
/* Names: what is made, removed, renamed and linked is noted, with the directories and what a name stood for, before it changes, and settled after. */
#include "usage.h"

#include "born.h"

#include <fcntl.h>
#include <string.h>

enum { TRIES = 16 };

/* Directories in which names change, and what they stood for. */
struct changes {
	struct {
		struct inode *inode; /* a reference */
		struct charge *charge;
	} at[5];
	int count;
};

static int begin(struct request *rq, struct xlator *x, struct changes *c, struct inode *inode)
{
	int err;

	for (int i = 0; i < c->count; i++)
		if (c->at[i].inode == inode)
			return 0;
	err = c->count ? charge_begin_another(rq, x, inode, &c->at[c->count].charge)
		       : charge_begin(rq, x, inode, &c->at[c->count].charge);
	if (!err)
		c->at[c->count++].inode = inode_ref(inode);
	return err;
}

/* NULL: it is none of these. */
static struct charge *charge_of(const struct changes *c, const struct inode *inode)
{
	for (int i = 0; i < c->count; i++)
		if (c->at[i].inode == inode)
			return c->at[i].charge;
	return NULL;
}

static int claim_name(struct request *rq, struct xlator *x, struct changes *c, struct inode *dir, bool last,
		      struct claim *claim)
{
	return claim_more(rq, x, charge_of(c, dir), usage_of(x)->replicated ? 0 : DIRECTORY_SLACK, last, claim);
}

/* Whether it would come to have a name where another limit holds than for itself, or none. Both have begun. (Who makes members equal goes by the truth's names, and may bring tags after
 * them.) */
static bool crosses(const struct request *rq, struct xlator *x, const struct changes *c, const struct inode *inode,
		    const struct inode *into)
{
	return rq->limits != LIMITS_HEAL && charge_dir_outside(x, charge_of(c, inode)) != charge_dir_now(x, charge_of(c, into));
}

static void end(struct request *rq, struct xlator *x, struct changes *c)
{
	for (int i = 0; i < c->count; i++) {
		charge_end(rq, x, c->at[i].inode, c->at[i].charge);
		inode_unref(c->at[i].inode);
	}
	c->count = 0;
}

int usage_find(struct request *rq, struct xlator *x, const struct loc *loc, struct inode **found)
{
	struct lookup_in in = { .loc = { .parent = loc->parent, .name = loc->name } };
	struct lookup_out out = { 0 };
	int err;

	*found = loc->inode ? inode_ref(loc->inode) : NULL;
	if (loc->inode)
		return 0;
	err = lookup_on(rq, x->child[0], &in, &out);
	if (!err)
		*found = inode_ref(out.inode);
	fop_out_clear(FOP_lookup, &out);
	return err == -ENOENT ? 0 : err;
}

/* ---- making ---- */

struct birth {
	const struct loc *loc;
	const struct gfid *gfid;
	mode_t type;
	uint64_t size; /* of what is made, at most */
};

/* A first try of the same request has made it, and was counted: a reference, or NULL. */
static struct inode *made_before(struct request *rq, struct xlator *x, const struct birth *b)
{
	struct loc loc = { .parent = b->loc->parent, .name = b->loc->name };
	struct inode *found = NULL;

	if (rq->resent && !usage_find(rq, x, &loc, &found) && found && !gfid_equal(&found->gfid, b->gfid))
		inode_unref_at(&found);
	return found;
}

/* Nobody else changes it meanwhile: if it went the leaf would make another one, and what is noted be the first. *gone: it has already, so there is nothing to make again. */
static int make_again(struct request *rq, struct xlator *x, const struct birth *b, struct inode *made, enum fop fop,
		      const void *in, void *out, bool *gone)
{
	cleanup_inode struct inode *there = NULL;
	struct charge *c;
	int err = charge_begin_alone(rq, x, made, &c);

	*gone = err == -ESTALE;
	if (err)
		return err;
	there = made_before(rq, x, b);
	*gone = there != made;
	err = *gone ? -ESTALE : fop_call(rq, x->child[0], fop, in, out);
	charge_end(rq, x, made, c);
	return err;
}

/* It was made, and has failed then: it may not be known yet. */
static bool find_made(struct request *rq, struct xlator *x, const struct birth *b, const struct inode *born)
{
	cleanup_inode struct inode *found = NULL;

	return !usage_find(rq, x, &(struct loc){ .parent = b->loc->parent, .name = b->loc->name }, &found) && found == born;
}

/* Only the leaf knows whether it has made anything: what has the name or the gfid now may have been there before, be the answer an error or not. */
static void end_birth(struct request *rq, struct xlator *x, const struct birth *b, struct inode *born, struct charge *c,
		      int err)
{
	bool lost = rq->made && err && !find_made(rq, x, b, born);

	if (lost)
		recount_owe(x);
	if (rq->made && !lost)
		charge_end(rq, x, born, c);
	else
		charge_end_unborn(x, born, c);
}

static int make_counted(struct request *rq, struct xlator *x, const struct birth *b, enum fop fop, const void *in, void *out)
{
	cleanup_inode struct inode *born = NULL;
	struct charge *c = NULL;
	int err = charge_begin_birth(rq, x, b->loc, b->gfid, b->type, &born, &c);

	if (err == -EEXIST &&
	    rq->limits == LIMITS_HEAL) { /* the power took what would have told where the other one is: a scrub removes that */
		recount_owe(x);		 /* it has no note: who is killed in the middle owes it, too */
		err = fop_call(rq, x->child[0], fop, in, out);
		if (!err)
			recount_owe(x);
		return err;
	}
	rq->made = false;
	if (!err)
		err = fop_call(rq, x->child[0], fop, in, out);
	if (c)
		end_birth(rq, x, b, born, c, err);
	return err;
}

/* Who has no cluster/dht has nothing to put aside. */
static bool may_put_aside(const struct request *rq, const char *name)
{
	return is_put_aside(name) && !request_is_confined(rq);
}

/* A directory that gets a name may grow. */
static int make_claimed(struct request *rq, struct xlator *x, const struct birth *b, enum fop fop, const void *in, void *out,
			struct charge *dir)
{
	struct claim made = { 0 }, parent = { 0 };
	bool last = may_put_aside(rq, b->loc->name);
	struct extent then = { .size = b->size, .dir = charge_dir_now(x, dir) };
	struct born with;
	int err = born_of(rq, &with);

	then.xattrs =
		born_bytes(&with) + 2 * charge_extent(dir).xattrs; /* a default ACL of the directory may come to it twice */
	if (!err)
		err = claim_birth(rq, x, &then, last, &made);
	if (!err)
		err = claim_more(rq, x, dir, usage_of(x)->replicated ? 0 : DIRECTORY_SLACK, last, &parent);
	if (!err)
		err = make_counted(rq, x, b, fop, in, out);
	claim_end(x, &parent);
	claim_end(x, &made);
	return err;
}

static int make(struct request *rq, struct xlator *x, const struct birth *b, enum fop fop, const void *in, void *out)
{
	cleanup_inode struct inode *made = NULL;
	struct charge *dir;
	bool tagged, anew;
	int err = charge_begin(rq, x, b->loc->parent, &dir);

	if (err)
		return err;
	made = made_before(rq, x, b);
	err = dirs_born(rq, charge_dir_now(x, dir), &tagged);
	anew = !err && !made;
	if (!err && made)
		err = make_again(rq, x, b, made, fop, in, out, &anew);
	if (anew) /* also what the leaf says may be that it is stale: that is the answer then */
		err = make_claimed(rq, x, b, fop, in, out, dir);
	if (tagged)
		dirs_unborn(rq);
	charge_end(rq, x, b->loc->parent, dir);
	return err;
}

int usage_mknod(struct request *rq, struct xlator *x, const struct mknod_in *in, struct mknod_out *out)
{
	struct birth b = { &in->loc, &in->gfid, in->mode & S_IFMT ? in->mode & S_IFMT : S_IFREG, 0 };

	return make(rq, x, &b, FOP_mknod, in, out);
}

int usage_mkdir(struct request *rq, struct xlator *x, const struct mkdir_in *in, struct mkdir_out *out)
{
	return make(rq, x,
		    &(struct birth){ &in->loc, &in->gfid, S_IFDIR, usage_of(x)->replicated ? CHARGE_UNIT : DIRECTORY_SLACK },
		    FOP_mkdir, in, out);
}

int usage_symlink(struct request *rq, struct xlator *x, const struct symlink_in *in, struct symlink_out *out)
{
	return make(rq, x, &(struct birth){ &in->loc, &in->gfid, S_IFLNK, strlen(in->target) }, FOP_symlink, in, out);
}

/* Cut separately: what has the name may be another one until it is open. */
static int cut_opened(struct request *rq, struct xlator *x, struct create_out *out)
{
	struct setattr_in in = { .inode = out->inode, .set = { .valid = SET_SIZE | SET_KILL_PRIV } };
	struct setattr_out cut = { 0 };
	int err = usage_setattr(rq, x, &in, &cut);

	if (err)
		fop_out_clear(FOP_create, out);
	else
		out->attr = cut.attr;
	return err;
}

/* Who may make nothing more may still open what is there. */
static int open_there(struct request *rq, struct xlator *x, const struct create_in *in, struct create_out *out)
{
	struct lookup_in look = { .loc = { .parent = in->loc.parent, .name = in->loc.name } };
	struct lookup_out found = { 0 };
	struct open_in open = { .flags = in->flags & ~(O_CREAT | O_TRUNC) };
	struct open_out opened = { 0 };
	int err = lookup_on(rq, x->child[0], &look, &found);

	open.inode = found.inode;
	if (!err && !S_ISREG(found.inode->type))
		err = -EEXIST;
	if (!err)
		err = open_on(rq, x->child[0], &open, &opened);
	if (!err)
		*out = (struct create_out){ .inode = inode_ref(found.inode), .file = opened.file, .attr = found.attr };
	fop_out_clear(FOP_lookup, &found);
	return err;
}

int usage_create(struct request *rq, struct xlator *x, const struct create_in *in, struct create_out *out)
{
	struct birth b = { &in->loc, &in->gfid, S_IFREG, 0 };
	struct create_in whole = *in;
	int err;

	whole.flags &= ~O_TRUNC;
	err = make(rq, x, &b, FOP_create, &whole, out);
	if (err == -EDQUOT && !(in->flags & O_EXCL) && open_there(rq, x, in, out) == 0)
		err = 0;
	if (!err && in->flags & O_TRUNC && !gfid_equal(&out->inode->gfid, &in->gfid))
		err = cut_opened(rq, x, out);
	return err;
}

int usage_link(struct request *rq, struct xlator *x, const struct link_in *in, struct link_out *out)
{
	struct changes c = { .count = 0 };
	struct claim claim = { 0 };
	int err = begin(rq, x, &c, in->loc.parent);

	if (!err)
		err = begin(rq, x, &c, in->inode);
	if (!err && crosses(rq, x, &c, in->inode, in->loc.parent))
		err = -EXDEV;
	if (!err && usage_of(x)->replicated)
		err = claim_more(rq, x, charge_of(&c, in->inode), FURTHER_NAME, false, &claim);
	else if (!err)
		err = claim_name(rq, x, &c, in->loc.parent, may_put_aside(rq, in->loc.name), &claim);
	if (!err)
		err = link_on(rq, x->child[0], in, out);
	end(rq, x, &c);
	claim_end(x, &claim);
	return err;
}

/* ---- removing ---- */

/* One that has gone, and its name with it, is charged to nobody any more: a first try of the request has removed it, and the leaf, which is told what that
 * was, removes no other. */
static int begin_victim(struct request *rq, struct xlator *x, struct changes *c, const struct loc *loc, struct inode *victim)
{
	struct loc name = { .parent = loc->parent, .name = loc->name };
	cleanup_inode struct inode *found = NULL;
	int err = begin(rq, x, c, victim);

	if (err != -ESTALE || !rq->resent)
		return err;
	err = usage_find(rq, x, &name, &found);
	return err ? err : found && gfid_equal(&found->gfid, &victim->gfid) ? -ESTALE : 0;
}

/* The leaf is told which object was noted, and removes no other. */
static int remove_once(struct request *rq, struct xlator *x, enum fop fop, const struct unlink_in *in, void *out)
{
	struct changes c = { .count = 0 };
	cleanup_inode struct inode *victim = NULL;
	struct unlink_in exact = *in;
	int err = usage_find(rq, x, &in->loc, &victim);

	if (!err &&
	    !victim) /* whoever makes something of that name meanwhile wants it kept; a first try of the request has removed it */
		return rq->resent ? 0 : -ENOENT;
	if (!err)
		err = begin(rq, x, &c, in->loc.parent);
	if (!err)
		err = begin_victim(rq, x, &c, &in->loc, victim);
	exact.loc.inode = victim;
	if (!err)
		err = fop_call(rq, x->child[0], fop, &exact, out);
	end(rq, x, &c);
	return err;
}

static int take_name(struct request *rq, struct xlator *x, enum fop fop, const struct unlink_in *in, void *out)
{
	unsigned turn = recount_taking_begins(x);
	int err = -ESTALE;

	for (int tries = 0; err == -ESTALE && tries < TRIES; tries++) {
		err = remove_once(rq, x, fop, in, out);
		if (in->loc.inode)
			break;
	}
	recount_taking_ends(x, turn);
	return err;
}

int usage_unlink(struct request *rq, struct xlator *x, const struct unlink_in *in, struct unlink_out *out)
{
	return take_name(rq, x, FOP_unlink, in, out);
}

int usage_rmdir(struct request *rq, struct xlator *x, const struct rmdir_in *in, struct rmdir_out *out)
{
	struct unlink_in as = { .loc = in->loc };

	return take_name(rq, x, FOP_rmdir, &as, out);
}

/* ---- rename ---- */

/* What is moved is noted by its handle before its name goes: it may just be made. */
static int begin_moved(struct request *rq, struct xlator *x, struct changes *c, const struct rename_in *in,
		       struct inode **moved)
{
	int err = usage_find(rq, x, &in->from, moved);

	if (err || !*moved)
		return err ? err : rq->resent ? 0 : -ENOENT;
	err = begin(rq, x, c, *moved);
	if (!err && in->from.parent != in->to.parent && crosses(rq, x, c, *moved, in->to.parent))
		err = -EXDEV;
	if (!err && S_ISDIR((*moved)->type))
		recount_moved(x, *moved);
	return err;
}

static int begin_exchanged(struct request *rq, struct xlator *x, struct changes *c, const struct rename_in *in,
			   struct inode *victim)
{
	if (in->from.parent != in->to.parent && crosses(rq, x, c, victim, in->from.parent))
		return -EXDEV;
	if (S_ISDIR(victim->type))
		recount_moved(x, victim);
	return 0;
}

static int begin_rename(struct request *rq, struct xlator *x, struct changes *c, const struct rename_in *in,
			struct inode *victim, struct inode **moved, struct claim *claim)
{
	int err = begin(rq, x, c, in->from.parent);

	if (!err)
		err = begin(rq, x, c, in->to.parent);
	if (!err && victim)
		err = begin_victim(rq, x, c, &in->to, victim);
	if (!err)
		err = begin_moved(rq, x, c, in, moved);
	if (!err && in->flags & RENAME_EXCHANGE && victim && charge_of(c, victim)) /* else it has gone; the leaf says so */
		err = begin_exchanged(rq, x, c, in, victim);
	if (!err && !victim)
		err = claim_name(rq, x, c, in->to.parent, true, claim);
	return err;
}

/* What was found may have lost its name by now. ENOENT: a first try may have moved it just now. */
static bool has_changed(const struct rename_in *in, const struct rename_in *exact, int err)
{
	if (err == -ENOENT)
		return exact->from.inode && !in->from.inode;
	return (err == -ESTALE && (!in->to.inode || !in->from.inode)) || (err == -EEXIST && exact->flags != in->flags);
}

/* Nothing else than was noted may be moved, or replaced. */
static int rename_once(struct request *rq, struct xlator *x, const struct rename_in *in, struct rename_out *out, bool *again)
{
	struct changes c = { .count = 0 };
	cleanup_inode struct inode *victim = NULL, *moved = NULL;
	struct rename_in exact = *in;
	struct claim claim = { 0 };
	int err = usage_find(rq, x, &in->to, &victim);

	if (!err)
		err = begin_rename(rq, x, &c, in, victim, &moved, &claim);
	exact.from.inode = moved;
	exact.to.inode = victim;
	if (!victim)
		exact.flags |= in->flags & RENAME_EXCHANGE ? 0 : RENAME_NOREPLACE;
	if (!err)
		err = rename_on(rq, x->child[0], &exact, out);
	*again = has_changed(in, &exact, err);
	end(rq, x, &c);
	claim_end(x, &claim);
	return err;
}

int usage_rename(struct request *rq, struct xlator *x, const struct rename_in *in, struct rename_out *out)
{
	unsigned turn = recount_taking_begins(x);
	bool again = true;
	int err = 0;

	for (int tries = 0; again && tries < TRIES; tries++)
		err = rename_once(rq, x, in, out, &again);
	recount_taking_ends(x, turn);
	return err;
}
