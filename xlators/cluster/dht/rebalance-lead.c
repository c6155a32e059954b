/* SPDX-License-Identifier: Apache-2.0 */
/* Names that led to a directory on the subvolume that is to leave, where it is at home no more, lead to where it is by now ("Taking a subvolume out, in detail" in
 * doc/distribution.md). The walk over all directories comes by most of them (lead_home); what is renamed meanwhile may keep out of its way, so each directory is asked
 * for, too, by what it says itself (lead_gone). */
#include "rebalance.h"

#include <errno.h>
#include <string.h>

#define FIND_NS 60000000000u

int layout_at(struct request *rq, struct dht *d, int child, struct inode *dir, struct layout *l)
{
	struct getxattr_in in = { .inode = dir, .name = DHT_LAYOUT_XATTR };
	struct getxattr_out out = { 0 };
	int err = getxattr_on(rq, d->x->child[child], &in, &out);

	if (!err && layout_decode(out.value.bytes, out.value.size, l))
		err = -EIO;
	fop_out_clear(FOP_getxattr, &out);
	return err;
}

/* What was renamed, is marked, or went meanwhile is for the next round. */
static int unless_used(int err)
{
	return err == -EMARKED || err == -EFENCED || err == -ENOENT || err == -ESTALE || err == -ELAYOUT || err == -ENODATA
		       ? 0
		       : err;
}

/* *home: where the directory is by now, or who leaves, if that has a part of it still. -ENOENT, -ENODATA: it never came to have left. */
static int look_at_leaver(struct request *rq, struct rebalance *r, const struct gfid *gfid, struct attr *attr, int *home)
{
	struct aim was = { .gfid = *gfid, .child = given_by(r), .dir = true };
	struct lookup_out found = { 0 };
	struct layout l = { 0 };
	int err = look_at_anchor(rq, r->d, &was, &found);

	if (!err)
		err = layout_at(rq, r->d, was.child, found.inode, &l);
	*home = l.moving ? was.child : (int)l.home;
	*attr = found.attr;
	fop_out_clear(FOP_lookup, &found);
	return !err && !has_subvolume(r->d, (uint64_t)*home) ? -EIO : err;
}

/* ---- by the name ---- */

static int replace(struct request *rq, struct rebalance *r, const struct loc *loc, int child, const struct aim *now, int home,
		   const struct attr *of)
{
	struct aim next = { .gfid = now->gfid, .child = home, .dir = true };
	struct lookup_out there = { 0 };
	int err = look_at_anchor(rq, r->d, &next, &there);

	gfid_create(&next.pgfid);
	if (!err)
		err = pointer_replace(rq, r->d, child, loc, &now->pgfid, &next, of);
	fop_out_clear(FOP_lookup, &there);
	return err;
}

/* It is told so to who leaves at last: then nobody comes there by its name any more. Who died before that has left a name that leads home already. */
static int lead_by(struct request *rq, struct rebalance *r, const struct loc *loc, int child)
{
	cleanup_inode struct inode *pointer = NULL;
	int leaver = given_by(r), home = leaver;
	struct gfid gfid;
	struct attr attr;
	struct aim now;
	bool dir = false;
	int err = look_at_name(rq, r->d, child, loc, &pointer, &now, &gfid, &dir);

	if (err || !pointer || !dir)
		return err;
	err = look_at_leaver(rq, r, &now.gfid, &attr, &home);
	if (err || home == leaver || (now.child != leaver && now.child != home))
		return err;
	if (now.child == leaver)
		err = replace(rq, r, loc, child, &now, home, &attr);
	return err || MUTANT("say-old-home")
		       ? err
		       : parent_changes_home(rq, r->d, &now.gfid, leaver, home, child, &loc->parent->gfid);
}

int lead_home(struct rebalance *r, struct inode *dir, const char *name, int child)
{
	struct loc loc = { .parent = dir, .name = name };
	struct request rq;
	int err;

	rebalance_ask(r, &rq, REBALANCE_ASK_NS);
	err = place_say_in(&rq, r->d, dir);
	if (!err)
		err = lead_by(&rq, r, &loc, child);
	if (err == -ELAYOUT && !learn_there(&rq, r->d, dir, child) && !(err = place_say_in(&rq, r->d, dir)))
		err = lead_by(&rq, r, &loc, child);
	if (err == -EMARKED) /* perhaps by one who died, and of a name that nobody asks for */
		mark_end_left_over(&rq, r->d, child, dir, mark_hash(name));
	request_finish(&rq);
	return unless_used(err);
}

/* ---- by the directory ---- */

struct search {
	struct rebalance *r;
	const struct gfid *gfid; /* what a pointer is to lead to, */
	int child;		 /* there */
	int err;
};

static void lead_those(struct request *rq, void *arg, struct inode *dir, const struct dirents *list)
{
	struct search *s = arg;

	for (uint32_t i = 0; i < list->count && !s->err; i++) {
		const struct dirent_plus *e = &list->entry[i];

		if (e->attr.flags & ATTR_POINTER && gfid_equal(&e->attr.gfid, s->gfid))
			s->err = lead_home(s->r, dir, e->name, s->child);
	}
	rq->deadline_ns = clock_ns() + FIND_NS;
}

static int search(struct request *rq, struct rebalance *r, const struct parent *above, const struct gfid *gfid)
{
	struct search s = { r, gfid, (int)above->subvolume, 0 };
	struct side there = { .child = s.child, .parent = above->gfid };
	cleanup_inode struct inode *dir = NULL;
	int err = has_subvolume(r->d, above->subvolume) ? directory_at(rq, r->d, &there, &dir) : -EIO;

	if (!err)
		err = place_say(rq, r->d, &(struct place){ .flags = PLACE_HERE });
	if (!err)
		err = directory_list(rq, r->d, s.child, dir, READDIR_PLUS, lead_those, &s);
	return err ? err : s.err;
}

/* Does its home tell of a pointer, then that leads there, and none to who leaves will any more (who renames it goes by the one that is there). Else who leaves
 * tells where the name is. */
static int lead_one(struct request *rq, struct rebalance *r, const struct gfid *gfid)
{
	int leaver = given_by(r), home = leaver;
	struct parent said, at_home;
	struct attr attr;
	int err = look_at_leaver(rq, r, gfid, &attr, &home);

	if (!err && home != leaver)
		err = parent_look(rq, r->d, leaver, gfid, &said);
	if (err || home == leaver || gfid_equal(&said.gfid, gfid))
		return err;
	err = parent_look(rq, r->d, home, gfid, &at_home);
	if (err)
		return err;
	return gfid_equal(&at_home.gfid, gfid) ? search(rq, r, &said, gfid) : parent_leads_on(rq, r->d, gfid, leaver, home);
}

void lead_gone(struct rebalance *r, const struct gfid *gfid)
{
	char text[GFID_TEXT];
	struct request rq;
	int err;

	rebalance_ask(r, &rq, FIND_NS);
	err = place_say_newest(&rq, r->d);
	if (!err)
		err = unless_used(lead_one(&rq, r, gfid));
	request_finish(&rq);
	if (err)
		rebalance_problem(r, err, "what leads to the directory %s can't be led to where that is by now: %s",
				  gfid_text(gfid, text), error_text(err));
}
