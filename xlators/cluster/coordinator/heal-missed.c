/* SPDX-License-Identifier: Apache-2.0 */
/* What a member lacks, or what lies in its limbo, though another has it in a directory that no list told of: where that is. */
#include <stdlib.h>

#include "heal-internal.h"

enum { STEPS_UP = 256 };

struct gfids {
	struct gfid *gfid;
	size_t count, room;
};

static int gfids_add(struct gfids *l, const struct gfid *g)
{
	size_t room = l->room ? 2 * l->room : 64;
	struct gfid *grown = l->count < l->room ? l->gfid : realloc(l->gfid, room * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	if (l->count == l->room)
		l->room = room;
	l->gfid = grown;
	l->gfid[l->count++] = *g;
	return 0;
}

static int by_gfid(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct gfid));
}

static bool gfids_have(const struct gfids *l, const struct gfid *g)
{
	return l->count && bsearch(g, l->gfid, l->count, sizeof(*g), by_gfid);
}

/* References, so that the member knows by their gfids what has been found there. */
struct held {
	struct inode **inode;
	size_t count, room;
};

static int hold(struct held *l, struct inode *inode)
{
	size_t room = l->room ? 2 * l->room : 16;
	struct inode **grown = l->count < l->room ? l->inode : realloc(l->inode, room * sizeof(struct inode *));

	if (!grown)
		return -ENOMEM;
	if (l->count == l->room)
		l->room = room;
	l->inode = grown;
	l->inode[l->count++] = inode_ref(inode);
	return 0;
}

static void held_clear(struct held *l)
{
	while (l->count)
		inode_unref(l->inode[--l->count]);
	free(l->inode);
}

/* ---- a tree of one member ---- */

struct walk {
	struct heal *h;
	struct request *rq;
	int at;
	struct held left;	    /* directories not yet looked into */
	struct inode *directory;    /* that is looked into */
	const struct gfids *wanted; /* NULL: all that is there is told */
	struct gfids *told;	    /* gfids of these; or of the directories that name what is wanted */
	struct held *naming;	    /* those directories */
};

static bool is_last_told(const struct walk *w)
{
	return w->told->count && gfid_equal(&w->told->gfid[w->told->count - 1], &w->directory->gfid);
}

static int tell_directory(struct walk *w)
{
	int err = hold(w->naming, w->directory);

	return err ? err : gfids_add(w->told, &w->directory->gfid);
}

static int visit(void *walk, const struct dirent_plus *e)
{
	struct walk *w = walk;
	int err = 0;

	if (gfid_equal(&e->gfid, &gfid_limbo) || limbo_keeps(w->directory, e->name))
		return 0;
	if (!w->wanted)
		err = gfids_add(w->told, &e->gfid);
	else if (gfids_have(w->wanted, &e->gfid) && !is_last_told(w))
		err = tell_directory(w);
	return !err && S_ISDIR(e->inode->type) ? hold(&w->left, e->inode) : err;
}

/* A directory that can't be read, for the disk is bad there, is passed over: without it nothing is known of what it names, with or without the rest. */
static int look_into(struct walk *w)
{
	int err;

	w->directory = w->left.inode[--w->left.count];
	err = heal_list(w->h, w->rq, w->at, w->directory, visit, w);
	inode_unref(w->directory);
	return err == -EIO ? 0 : err;
}

static int walk(struct walk *w, struct inode *top)
{
	int err = hold(&w->left, top);

	while (!err && w->left.count)
		err = look_into(w);
	held_clear(&w->left);
	return err;
}

/* ---- what is missed ---- */

static int list_limbo(struct heal *h, struct request *rq, int at, struct gfids *lies)
{
	struct walk w = { .h = h, .rq = rq, .at = at, .told = lies };
	cleanup_inode struct inode *limbo = NULL;
	int err = limbo_find(h, rq, at, &limbo);

	if (!err)
		err = walk(&w, limbo);
	if (!err && lies->count)
		qsort(lies->gfid, lies->count, sizeof(*lies->gfid), by_gfid);
	return err == -ENOENT ? 0 : err;
}

static int find_names(struct heal *h, struct request *rq, int at, const struct gfids *lies, struct gfids *directories,
		      struct held *naming)
{
	struct walk w = { .h = h, .rq = rq, .at = at, .wanted = lies, .told = directories, .naming = naming };
	cleanup_thing struct thing root = { 0 };
	int err = thing_known(h, rq, &gfid_root, at, &root);

	return err ? err : walk(&w, root.inode);
}

struct missing {
	struct heal *h;
	struct request *rq;
	int from, to;
	int (*each)(void *arg, const struct gfid *directory);
	void *arg;
};

/* The directory, and those above it as far as `to` does not have them. */
static int tell_up(struct missing *m, struct gfid directory)
{
	int err = 0;

	for (int i = 0; i < STEPS_UP && !err; i++) {
		cleanup_links struct links_told links = { 0 };
		cleanup_thing struct thing there = { 0 };

		err = m->each(m->arg, &directory);
		if (err || !thing_known(m->h, m->rq, &directory, m->to, &there))
			break;
		err = gfid_equal(&directory, &gfid_root) ? -ENOENT : place_ask(m->h, m->rq, &directory, m->from, &links);
		if (!err && links.count)
			directory = links.link[0].parent;
		else
			err = err ? err : -ENOENT;
	}
	return err == -ENOENT ? 0 : err;
}

int heal_missed(struct heal *h, struct request *rq, int from, int to, int (*each)(void *, const struct gfid *), void *arg)
{
	struct missing m = { h, rq, from, to, each, arg };
	struct gfids lies = { 0 }, directories = { 0 };
	struct held naming = { 0 };
	int err = list_limbo(h, rq, to, &lies);

	if (!err && lies.count)
		err = find_names(h, rq, from, &lies, &directories, &naming);
	for (size_t i = 0; i < directories.count && !err; i++)
		err = tell_up(&m, directories.gfid[i]);
	held_clear(&naming);
	free(lies.gfid);
	free(directories.gfid);
	return err;
}

static int tell_above(struct missing *m, const struct gfid *gfid)
{
	cleanup_links struct links_told links = { 0 };
	int err = links_ask(m->h, m->rq, gfid, m->from, &links);

	for (uint32_t i = 0; i < links.count && !err; i++)
		err = tell_up(m, links.link[i].parent);
	return err == -ENOENT ? 0 : err;
}

int heal_lacking(struct heal *h, struct request *rq, const struct gfid *gfid, int from, int to,
		 int (*each)(void *, const struct gfid *), void *arg)
{
	struct missing m = { h, rq, from, to, each, arg };
	cleanup_thing struct thing source = { 0 }, target = { 0 };
	int err = thing_find(h, rq, gfid, to, from, &source);

	if (err)
		return not_found(err) ? 0 : err;
	err = thing_find(h, rq, gfid, from, to, &target);
	if (!not_found(err))
		return err;
	return S_ISDIR(source.inode->type) ? tell_up(&m, *gfid) : tell_above(&m, gfid);
}
