/* SPDX-License-Identifier: Apache-2.0 */
/* While names of a directory are moved from one subvolume to another: "Lookup and create in a transition" of doc/distribution.md.
 *
 * Who had such a name is asked first. What is there counts; what is not there never comes to be there again, for bricks refuse to make it. So from then on
 * it is a name of the one that is to have it. A name is never made beside another one: what would be replaced is moved first. */
#include "dht.h"

#include <errno.h>
#include <string.h>

enum { TRIES = 32 };
#define MOVE_NS 60000000000u

/* Such a name, and whose it is. */
static bool is_moving(const struct request *rq, struct dht *d, const struct loc *loc, struct owners *o)
{
	const struct spread *s = loc->parent && loc->name ? spread_said(rq, d, loc->parent) : NULL;

	if (!s || !s->layout.moving || (is_root(loc->parent) && !strcmp(loc->name, DHT_HIDDEN)))
		return false;
	*o = owners_said(rq, d, loc->parent, loc->name);
	return o->from != o->to;
}

/* Its volume file may be older than the layout. */
static bool has(const struct dht *d, int child)
{
	return has_subvolume(d, (uint64_t)child);
}

/* What stands there; null: nothing. As who asks: what he may not look at he may not change either. */
static int is_there(struct request *rq, struct dht *d, const struct loc *loc, int child, struct gfid *there)
{
	struct lookup_in in = { .loc = { .parent = loc->parent, .name = loc->name } };
	struct lookup_out out = { 0 };
	int err = has(d, child) ? place_say(rq, d, &(struct place){ 0 }) : subvolume_lacking(d);

	if (!err)
		err = shard_reach(rq, d, loc->parent, child);
	if (!err)
		err = lookup_on(rq, d->x->child[child], &in, &out);
	*there = err ? (struct gfid){ { 0 } } : out.inode->gfid;
	fop_out_clear(FOP_lookup, &out);
	return err == -ENOENT ? 0 : err;
}

/* ---- what has the name is looked up, or goes ---- */

static int at_either(struct request *rq, struct dht *d, enum fop fop, const void *in, void *out, struct owners o)
{
	int first = MUTANT("new-before-old") ? o.to : o.from, second = first == o.from ? o.to : o.from;
	const struct loc *loc = in;
	int err = has(d, first) ? shard_reach(rq, d, loc->parent, first) : -ENOENT;

	if (!err)
		err = call_at(rq, d, fop, in, out, first);

	if (err != -ENOENT)
		return err;
	err = has(d, second) ? place_say(rq, d, &(struct place){ 0 }) : subvolume_lacking(d);
	if (!err)
		err = shard_reach(rq, d, loc->parent, second);
	return err ? err : call_at(rq, d, fop, in, out, second);
}

/* ---- something gets the name ---- */

static int make_once(struct request *rq, struct dht *d, enum fop fop, const void *in, void *out, struct owners o)
{
	const struct create_in *create = in;
	const struct loc *loc = fop == FOP_link ? &((const struct link_in *)in)->loc : in; /* all others have it first */
	struct gfid there;
	int err = is_there(rq, d, loc, o.from, &there);

	if (err)
		return err;
	if (gfid_is_null(&there) || MUTANT("skip-old-owner"))
		return NOT_MOVING; /* the one that is to have it makes it */
	if (fop != FOP_create || create->flags & O_EXCL)
		return -EEXIST;
	err = open_at(rq, d, create, out, o.from);
	return err == -ENOENT ? -EAGAIN : err;
}

static int make(struct request *rq, struct dht *d, enum fop fop, const void *in, void *out, struct owners o)
{
	int err = -EAGAIN;

	for (int tries = 0; err == -EAGAIN && tries < TRIES; tries++)
		err = make_once(rq, d, fop, in, out, o);
	return err == -EAGAIN ? -ESTALE : err;
}

/* ---- rename ---- */

/* Whoever asks for it: it is not he who changes the volume. */
static int move_away(struct request *rq, struct dht *d, const struct loc *loc, struct owners o)
{
	struct request own;
	int err;

	request_init(&own, d->x->graph, 0);
	own.group_count = 0;
	own.deadline_ns = rq->deadline_ns ? rq->deadline_ns : clock_ns() + MOVE_NS;
	err = place_say_in(&own, d, loc->parent);
	if (!err)
		err = name_move(&own, d, loc->parent, loc->name, o.from, o.to);
	request_finish(&own);
	if (err != -EEXIST)
		return err;
	log_error(d->x, rq, "\"%s\" is at %s and at %s, which is to have it: a rename to it ends with EIO", loc->name,
		  d->x->child[o.from]->name, d->x->child[o.to]->name);
	return -EIO;
}

/* No such name is where it was. -EAGAIN: it was, and has been moved. */
static int clear_the_way(struct request *rq, struct dht *d, const struct loc *loc, bool exclusive)
{
	struct owners o;
	struct gfid there = { { 0 } };
	int err = is_moving(rq, d, loc, &o) ? is_there(rq, d, loc, o.from, &there) : 0;

	if (err || gfid_is_null(&there) || MUTANT("replace-at-new-owner"))
		return err;
	if (exclusive)
		return -EEXIST;
	if (!has(d, o.to))
		return subvolume_lacking(d);
	err = move_away(rq, d, loc, o);
	return err ? err : -EAGAIN;
}

/* *there: what is renamed, if it may be moved meanwhile. */
static int find_source(struct request *rq, struct dht *d, const struct rename_in *in, int *child, struct gfid *there)
{
	struct owners o;
	int err;

	if (!is_moving(rq, d, &in->from, &o))
		return subvolume_of_name(rq, d, &in->from, FOP_rename, child);
	err = is_there(rq, d, &in->from, o.from, there);
	*child = gfid_is_null(there) ? o.to : o.from;
	return err || has(d, *child) ? err : subvolume_lacking(d);
}

static int rename_once(struct request *rq, struct dht *d, const struct rename_in *in, struct rename_out *out)
{
	int child[2], err = clear_the_way(rq, d, &in->to, in->flags & RENAME_NOREPLACE);
	struct gfid there = { { 0 } };

	if (!err && in->flags & RENAME_EXCHANGE)
		err = clear_the_way(rq, d, &in->from, false);
	if (!err)
		err = find_source(rq, d, in, &child[0], &there);
	if (!err)
		err = subvolume_of_name(rq, d, &in->to, FOP_rename, &child[1]);
	if (!err) /* so that a brick which is asked twice does not take what was moved for what was renamed */
		err = place_say(rq, d, &(struct place){ .expected = { there } });
	if (err)
		return err;
	err = child[0] == child[1] ? call_at(rq, d, FOP_rename, in, out, child[0]) : call_across(rq, d, in, child);
	return !gfid_is_null(&there) && (err == -ENOENT || err == -ESTALE) ? -EAGAIN : err;
}

static int rename_moving(struct request *rq, struct dht *d, const struct rename_in *in, struct rename_out *out)
{
	struct owners o;
	int err = -EAGAIN;

	if (!is_moving(rq, d, &in->from, &o) && !is_moving(rq, d, &in->to, &o))
		return NOT_MOVING;
	for (int tries = 0; err == -EAGAIN && tries < TRIES; tries++)
		err = rename_once(rq, d, in, out);
	return err == -EAGAIN ? -ESTALE : err;
}

int call_moving(struct request *rq, struct dht *d, enum fop fop, const void *in, void *out)
{
	struct owners o;

	switch ((int)fop) {
	case FOP_lookup:
	case FOP_unlink:
	case FOP_rmdir:
		return is_moving(rq, d, in, &o) ? at_either(rq, d, fop, in, out, o) : NOT_MOVING; /* all three have it first */
	case FOP_create:
	case FOP_mknod:
	case FOP_mkdir:
	case FOP_symlink:
		return is_moving(rq, d, in, &o) ? make(rq, d, fop, in, out, o) : NOT_MOVING;
	case FOP_link:
		return is_moving(rq, d, &((const struct link_in *)in)->loc, &o) ? make(rq, d, fop, in, out, o) : NOT_MOVING;
	case FOP_rename:
		return rename_moving(rq, d, in, out);
	default:
		return NOT_MOVING;
	}
}
