/* SPDX-License-Identifier: Apache-2.0 */
/* Directories that are away: a pointer has the name, and the directory stands in `away` under its own gfid, with an xattr that says below which
 * directory the pointer is. So from any directory the way up can be found, and none gets below itself (D10 in doc/distribution.md). */
#include "dht.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 8 }; /* at what each power cut of a subvolume may undo */

/* ---- below which directory it is ---- */

/* *p: turn 0 if nothing is said yet. */
static int read_parent(struct request *rq, struct dht *d, int child, struct inode *dir, struct parent *p)
{
	struct getxattr_in in = { .inode = dir, .name = DHT_PARENT_XATTR };
	struct getxattr_out out = { 0 };
	int err = getxattr_on(rq, d->x->child[child], &in, &out);

	*p = (struct parent){ 0 };
	if (!err && parent_decode(out.value.bytes, out.value.size, p))
		err = -EIO;
	fop_out_clear(FOP_getxattr, &out);
	return err == -ENODATA ? 0 : err;
}

static int write_parent(struct request *rq, struct dht *d, int child, struct inode *dir, const struct parent *p)
{
	uint8_t bytes[PARENT_SIZE];
	struct setxattr_in in = { .inode = dir, .name = DHT_PARENT_XATTR, .value = { PARENT_SIZE, bytes } };
	struct setxattr_out out = { 0 };

	parent_encode(p, bytes);
	return setxattr_on(rq, d->x->child[child], &in, &out);
}

int parent_say_first(struct request *rq, struct dht *d, int child, struct inode *made, int owner, const struct gfid *parent)
{
	struct who user = become_root(rq);
	int err = write_parent(rq, d, child, made, &(struct parent){ 1, (uint32_t)owner, *parent });

	become(rq, user);
	return err;
}

int parent_is_first(struct request *rq, struct dht *d, const struct aim *aim, bool *yes)
{
	struct parent p = { 0 };
	int err = parent_look(rq, d, aim->child, &aim->gfid, &p);

	*yes = !err && p.turn <= 1;
	return err;
}

int parent_look(struct request *rq, struct dht *d, int child, const struct gfid *dir, struct parent *p)
{
	struct aim aim = { .gfid = *dir, .child = child, .dir = true };
	struct lookup_out there = { 0 };
	struct who user = become_root(rq);
	int err = look_at_anchor(rq, d, &aim, &there);

	if (!err)
		err = read_parent(rq, d, child, there.inode, p);
	fop_out_clear(FOP_lookup, &there);
	become(rq, user);
	return err;
}

/* Once: if it says that it is at home elsewhere, or that it is here. What is said later by who moves the directory counts. The shard is looked up first: a brick
 * can't be asked for what it has not told of. */
static int say_once(struct request *rq, struct dht *d, int child, const struct gfid *dir, bool elsewhere, struct parent next)
{
	struct aim aim = { .gfid = *dir, .child = child, .dir = true };
	struct lookup_out there = { 0 };
	struct who user = become_root(rq);
	struct parent p = { 0 };
	int err = look_at_anchor(rq, d, &aim, &there);

	if (!err)
		err = read_parent(rq, d, child, there.inode, &p);
	next.turn = p.turn + 1;
	if (!err && gfid_equal(&p.gfid, dir) == elsewhere)
		err = write_parent(rq, d, child, there.inode, &next);
	fop_out_clear(FOP_lookup, &there);
	become(rq, user);
	return err;
}

int parent_leads_on(struct request *rq, struct dht *d, const struct gfid *dir, int from, int to)
{
	return say_once(rq, d, from, dir, false, (struct parent){ .subvolume = (uint32_t)to, .gfid = *dir });
}

int parent_changes_home(struct request *rq, struct dht *d, const struct gfid *dir, int from, int to, int owner,
			const struct gfid *above)
{
	int err = say_once(rq, d, to, dir, true, (struct parent){ .subvolume = (uint32_t)owner, .gfid = *above });

	return err && err != -EFENCED ? err : parent_leads_on(rq, d, dir, from, to);
}

/* While the record stands the name is marked, and the directory gets no other parent: so the turn that was read is the last. */
static int say_parent(struct request *rq, struct dht *d, const struct intent *it, const struct side *s, struct inode *dir)
{
	struct parent p;
	int err = read_parent(rq, d, s->aim.child, dir, &p);

	if (err)
		return err;
	p = (struct parent){ p.turn + 2, (uint32_t)s->child, s->parent }; /* 1: parent_changes_home, which may be under way */
	err = intent_stands(rq, d, it);
	return err || MUTANT("keep-parent") ? err : write_parent(rq, d, s->aim.child, dir, &p);
}

/* ---- what was moved ---- */

/* It had the other name itself, and waits now. */
static int put_away(struct request *rq, struct dht *d, const struct intent *it, int n)
{
	cleanup_inode struct inode *work = NULL, *away = NULL;
	const struct aim *aim = &it->side[n].aim;
	char waits[HIDDEN_NAME], anchor[HIDDEN_NAME];
	struct rename_in in = { .from.name = side_name(it, !n, waits),
				.to.name = anchor_name(aim, anchor),
				.flags = RENAME_NOREPLACE };
	struct rename_out out = { 0 };
	int err = side_dir(rq, d, it, !n, &work);

	if (!err)
		err = away_dir(rq, d, aim->child, &aim->gfid, true, &away);
	in.from.parent = work;
	in.to.parent = away;
	if (!err)
		err = place_say(rq, d, &(struct place){ .flags = PLACE_POINTER, .expected = { aim->gfid } });
	if (!err)
		err = rename_on(rq, d->x->child[aim->child], &in, &out);
	place_say(rq, d, &(struct place){ 0 });
	if (err == -ESTALE)
		hidden_forget(d, aim->child);
	return err;
}

/* It stands still where it waits. */
static int is_to_be_put_away(struct request *rq, struct dht *d, const struct intent *it, int n, bool *yes)
{
	const struct aim *aim = &it->side[n].aim;
	struct standing waits = { 0 };
	int err = aim->child == it->side[!n].child ? waits_look(rq, d, it, !n, &waits) : 0;

	*yes = !err && !waits.points && gfid_equal(&waits.gfid, &aim->gfid);
	return err;
}

/* On disk before the record says so. Where the mark was taken away others are doing the same. */
static int confirm_mark(struct request *rq, struct dht *d, const struct intent *it, int n)
{
	int err = side_confirm(rq, d, it, n);

	return err == -EFENCED || err == -EMARKED || err == -ENOENT || err == -ESTALE ? 0 : err;
}

/* The power may have gone before it was confirmed, and what was done with it: so it is looked at once more. */
static int put_away_surely(struct request *rq, struct dht *d, const struct intent *it, int n)
{
	bool waits = true;
	int err = 0;

	for (int tries = 0; !err && waits; tries++) {
		err = tries < TRIES ? put_away(rq, d, it, n) : -EIO;
		if (err || MUTANT("trust-settled"))
			break;
		err = confirm_mark(rq, d, it, !n);
		if (!err)
			err = is_to_be_put_away(rq, d, it, n, &waits);
	}
	return err;
}

static int settle(struct request *rq, struct dht *d, const struct intent *it, int n)
{
	const struct side *s = &it->side[n];
	cleanup_inode struct inode *dir = inode_get(d->x->inodes, &s->aim.gfid, S_IFDIR); /* so that it stays known */
	struct lookup_out out = { 0 };
	bool waits = false;
	int err = dir ? is_to_be_put_away(rq, d, it, n, &waits) : -ENOMEM;

	if (!err && waits) {
		err = say_parent(rq, d, it, s, dir); /* nothing is away that does not say it */
		return err ? err : put_away_surely(rq, d, it, n);
	}
	if (!err)
		err = look_at_anchor(rq, d, &s->aim, &out);
	if (!err)
		err = say_parent(rq, d, it, s, out.inode);
	fop_out_clear(FOP_lookup, &out);
	return err;
}

/* The directory behind it has gone. *stood: the name stood for it still. */
static int remove_pointer(struct request *rq, struct dht *d, const struct intent *it, bool *stood)
{
	const struct side *s = &it->side[0];
	cleanup_inode struct inode *parent = side_parent(d, &s->parent);
	struct rmdir_in in = { .loc = { .parent = parent, .name = s->name } };
	struct rmdir_out out = { 0 };
	struct place p = { .flags = PLACE_POINTER, .expected = { s->goes.pgfid }, .intent = it->id, .attempt = it->attempt };
	struct standing named;
	int err = parent ? name_look(rq, d, it, 0, &named) : -ENOMEM;

	*stood = !err && gfid_equal(&named.gfid, &s->goes.pgfid);
	if (err || !*stood) /* it went before */
		return err;
	err = place_say(rq, d, &p);
	if (!err)
		err = rmdir_on(rq, d->x->child[s->child], &in, &out);
	place_say(rq, d, &(struct place){ 0 });
	if (err != -ENOENT && err != -ESTALE)
		return err;
	err = name_look(rq, d, it, 0, &named); /* an earlier try may have done it */
	return err ? err : gfid_equal(&named.gfid, &s->goes.pgfid) ? -EIO : 0;
}

/* As in put_away_surely. */
static int remove_pointer_surely(struct request *rq, struct dht *d, const struct intent *it)
{
	bool stood = true;
	int err = 0;

	for (int tries = 0; !err && stood; tries++) {
		err = tries < TRIES ? remove_pointer(rq, d, it, &stood) : -EIO;
		if (MUTANT("trust-settled"))
			break;
		if (!err && stood)
			err = confirm_mark(rq, d, it, 0);
	}
	return err;
}

/* It is decided, and no name can be in them. That at home first: who finds its name finds all of it. */
static int remove_wide(struct request *rq, struct dht *d, const struct intent *it)
{
	int err = leaver_remove(rq, d, it);

	if (err == -ENOENT || err == -ESTALE) /* it went before */
		err = 0;
	return err ? err : shards_remove(rq, d, it);
}

int intent_settle(struct request *rq, struct dht *d, const struct intent *it)
{
	struct who user = become_root(rq);
	int err = it->shards ? remove_wide(rq, d, it) : 0;

	if (!err && it->sides == 1 && !gfid_is_null(&leaver(it)->pgfid))
		err = remove_pointer_surely(rq, d, it);
	for (int n = 0; n < it->sides && !err; n++)
		if (moves_directory(it, n))
			err = settle(rq, d, it, n);
	become(rq, user);
	return err;
}

/* ---- no circles ---- */

struct climb {
	struct request *rq;
	struct dht *d;
	const struct aim *from; /* is it on the way up from */
	int child;		/* this directory? */
	struct gfid dir;
	char path[PATH_MAX], above[PATH_MAX];
};

static bool is_below(const char *path, const char *above)
{
	size_t length = strlen(above);

	return !strncmp(path, above, length) && (!path[length] || path[length] == '/');
}

/* Of what is in a tree of its own, and not in the root's: the directory on top of that. -EMARKED: it is being moved itself. */
static int top_of(const char *path, bool *root, struct gfid *top)
{
	static const char away[] = "/" DHT_HIDDEN "/away/";
	char text[GFID_TEXT];

	*root = !is_below(path, "/" DHT_HIDDEN);
	if (*root)
		return 0;
	if (strncmp(path, away, sizeof(away) - 1) != 0 || strlen(path) < sizeof(away) - 1 + 5)
		return -EMARKED;
	snprintf(text, sizeof(text), "%s", path + sizeof(away) - 1 + 5); /* XX/d. */
	return gfid_parse(text, top) ? -EMARKED : 0;
}

static int climb_over(struct climb *c, const struct gfid *top)
{
	struct aim aim = { .gfid = *top, .child = c->child, .dir = true };
	struct lookup_out out = { 0 };
	struct parent p;
	int err = look_at_anchor(c->rq, c->d, &aim, &out);

	if (!err)
		err = read_parent(c->rq, c->d, c->child, out.inode, &p);
	fop_out_clear(FOP_lookup, &out);
	if (!err && !p.turn)
		err = -EMARKED; /* somebody has just put it there, and will say it in a moment */
	if (!err && !has_subvolume(c->d, p.subvolume)) {
		log_error(c->d->x, c->rq, "a directory's parent is at subvolume %u, and there is none of that number here",
			  p.subvolume);
		err = -EIO;
	}
	if (err)
		return err == -ENOENT ? -EAGAIN : err;
	c->child = (int)p.subvolume;
	c->dir = p.gfid;
	return 0;
}

/* 1: that was the root's tree. */
static int climb_tree(struct climb *c)
{
	struct gfid top;
	bool root;
	int err;

	if (gfid_equal(&c->dir, &c->from->gfid))
		return -EINVAL;
	if (gfid_equal(&c->dir, &gfid_root))
		return 1;
	err = path_at(c->rq, c->d, c->child, &c->dir, c->path);
	if (!err && c->child == c->from->child) {
		err = path_at(c->rq, c->d, c->child, &c->from->gfid, c->above);
		if (!err && is_below(c->path, c->above))
			return -EINVAL;
	}
	if (!err)
		err = top_of(c->path, &root, &top);
	if (err)
		return err == -ESTALE ? -EAGAIN : err;
	return root ? 1 : climb_over(c, &top);
}

static int check_one(struct request *rq, struct dht *d, const struct side *s)
{
	enum { TREES_MAX = 4096 };
	struct climb *c = malloc(sizeof(*c));
	int err = c ? 0 : -ENOMEM;

	if (err)
		return err;
	c->rq = rq;
	c->d = d;
	c->from = &s->aim;
	c->child = s->child;
	c->dir = s->parent;
	for (int i = 0; i < TREES_MAX && !err; i++)
		err = climb_tree(c);
	free(c);
	return err > 0 ? 0 : err ? err : -EIO;
}

int check_no_circle(struct request *rq, struct dht *d, const struct intent *it)
{
	struct who user = become_root(rq);
	int err = 0;

	for (int n = 0; n < it->sides && !err && it->moves; n++)
		if (moves_directory(it, n) && !MUTANT("let-circle"))
			err = check_one(rq, d, &it->side[n]);
	become(rq, user);
	return err;
}
