/* SPDX-License-Identifier: Apache-2.0 */
/* The limbo: a directory in the root, where each object that lost its place at a member waits for another, or for its end. */
#include "heal-internal.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif
enum { SAME_NAME_MAX = 100 };

/* ---- the directory ---- */

int limbo_find(struct heal *h, struct request *rq, int at, struct inode **limbo)
{
	cleanup_thing struct thing root = { 0 }, t = { 0 };
	int err = thing_known(h, rq, &gfid_root, at, &root);

	if (!err)
		err = thing_lookup(h, rq, at, root.inode, LIMBO, &t);
	if (err)
		return err;
	if (!S_ISDIR(t.inode->type))
		return -ENOTDIR;
	*limbo = inode_ref(t.inode);
	return 0;
}

/* The limbo comes and goes without a trace in the root's times: if somebody changes the root just then, his time stays. */
static int limbo_make(struct heal *h, struct request *rq, int at)
{
	cleanup_thing struct thing root = { 0 };
	struct mkdir_in in = { .loc = { .name = LIMBO }, .gfid = gfid_limbo, .mode = 0700 };
	struct mkdir_out out = { 0 };
	int err = thing_known(h, rq, &gfid_root, at, &root);

	if (err)
		return err;
	in.loc.parent = root.inode;
	err = heal_call_kept(h, rq, at, FOP_mkdir, &in, &out, &root.attr.mtime);
	fop_out_clear(FOP_mkdir, &out);
	return err == -EEXIST ? 0 : err;
}

int limbo_open(struct heal *h, struct request *rq, int at, struct inode **limbo)
{
	int err = limbo_find(h, rq, at, limbo);

	if (err != -ENOENT)
		return err;
	err = limbo_make(h, rq, at);
	return err ? err : limbo_find(h, rq, at, limbo);
}

/* ---- in and out ---- */

void move_begin(struct heal *h, int at)
{
	pthread_mutex_lock(&h->links_lock);
	while (h->moving >> at & 1)
		task_cond_wait(&h->moved, &h->links_lock, NO_DEADLINE);
	h->moving |= MUTANT("move-whatever") ? 0 : 1u << at;
	pthread_mutex_unlock(&h->links_lock);
}

void move_end(struct heal *h, int at)
{
	pthread_mutex_lock(&h->links_lock);
	h->moving &= ~(1u << at);
	pthread_mutex_unlock(&h->links_lock);
	task_cond_broadcast(&h->moved);
}

static int unlink_name(struct heal *h, struct request *rq, int at, struct inode *directory, const char *name)
{
	struct unlink_in in = { .loc = { .parent = directory, .name = name } };
	struct unlink_out out = { 0 };

	return heal_call(h, rq, at, FOP_unlink, &in, &out);
}

/* The limbo has the name already: of the same object, so one of the two is enough? */
static bool is_there(struct heal *h, struct request *rq, int at, struct inode *limbo, const char *name,
		     const struct thing *what)
{
	cleanup_thing struct thing t = { 0 };

	return !S_ISDIR(what->inode->type) && !thing_lookup(h, rq, at, limbo, name, &t) && t.inode == what->inode &&
	       t.attr.nlink > 1;
}

int limbo_take(struct heal *h, struct request *rq, int at, struct inode *directory, const char *name, const struct thing *what)
{
	cleanup_inode struct inode *limbo = NULL;
	char text[GFID_TEXT], place[GFID_TEXT + 16];
	struct rename_in in = { .from = { directory, what->inode, name }, .flags = RENAME_NOREPLACE };
	struct rename_out out = { 0 };
	int err = limbo_open(h, rq, at, &limbo);

	if (!err)
		err = log_name_was(h, rq, at, &directory->gfid, name, &what->inode->gfid);
	if (err)
		return err;
	in.to = (struct loc){ .parent = limbo, .name = place };
	snprintf(place, sizeof(place), "%s", gfid_text(&what->inode->gfid, text));
	err = heal_call(h, rq, at, FOP_rename, &in, &out);
	if (err == -EEXIST && is_there(h, rq, at, limbo, place, what))
		return unlink_name(h, rq, at, directory, name);
	for (int i = 1; err == -EEXIST && i < SAME_NAME_MAX; i++) {
		snprintf(place, sizeof(place), "%s.%d", text, i);
		err = heal_call(h, rq, at, FOP_rename, &in, &out);
	}
	return is_gone(err) ? 0 : err;
}

/* What has the name there gets the other, if it is that object. Between move_begin() and move_end(). */
static int give(struct heal *h, struct request *rq, int at, const struct gfid *gfid, struct inode *directory, const char *name,
		const struct loc *to)
{
	cleanup_thing struct thing t = { 0 };
	struct rename_in in = { .to = *to, .flags = RENAME_NOREPLACE };
	struct rename_out out = { 0 };
	int err = thing_lookup(h, rq, at, directory, name, &t);

	if (!err && !gfid_equal(&t.inode->gfid, gfid))
		err = -ENOENT;
	if (!err)
		err = log_name_was(h, rq, at, &directory->gfid, name, gfid);
	if (!err)
		err = log_was_free(h, rq, at, to);
	if (err)
		return err;
	in.from = (struct loc){ directory, t.inode, name };
	return heal_call(h, rq, at, FOP_rename, &in, &out);
}

int limbo_give(struct heal *h, struct request *rq, int at, const struct gfid *gfid, const struct loc *to)
{
	cleanup_inode struct inode *limbo = NULL;
	char name[GFID_TEXT];
	int err;

	move_begin(h, at);
	err = limbo_find(h, rq, at, &limbo);
	if (!err)
		err = give(h, rq, at, gfid, limbo, gfid_text(gfid, name), to);
	move_end(h, at);
	return err;
}

int limbo_dig(struct heal *h, struct request *rq, int at, const struct gfid *gfid, const struct loc *to)
{
	cleanup_inode struct inode *limbo = NULL, *in = NULL;
	char name[256];
	int err;

	move_begin(h, at);
	err = limbo_find(h, rq, at, &limbo);
	if (!err)
		err = search_below(h, rq, gfid, at, limbo, &in, name);
	if (!err)
		err = give(h, rq, at, gfid, in, name, to);
	move_end(h, at);
	return err;
}

#define KEPT "kept."

bool limbo_keeps(const struct inode *directory, const char *name)
{
	return gfid_equal(&directory->gfid, &gfid_limbo) && (!strcmp(name, LOG) || !strncmp(name, KEPT, strlen(KEPT)));
}

int limbo_keep(struct heal *h, struct request *rq, int at, const struct gfid *gfid)
{
	cleanup_inode struct inode *limbo = NULL;
	char name[sizeof(KEPT) + GFID_TEXT], text[GFID_TEXT];
	struct loc to = { .name = name };
	int err = limbo_find(h, rq, at, &limbo);

	to.parent = limbo;
	snprintf(name, sizeof(name), KEPT "%s", gfid_text(gfid, text));
	return err ? err : limbo_give(h, rq, at, gfid, &to);
}

/* ---- the end ---- */

struct level { /* of a tree that goes */
	struct inode *directory;
	char name[256];
	struct level *up;
};
struct removal {
	struct heal *h;
	struct request *rq;
	int at;
	struct level *top; /* the deepest */
	bool empty;	   /* but for what is kept */
};

static int rmdir_name(struct removal *r, struct inode *directory, const char *name)
{
	struct rmdir_in in = { .loc = { .parent = directory, .name = name } };
	struct rmdir_out out = { 0 };

	return heal_call(r->h, r->rq, r->at, FOP_rmdir, &in, &out);
}

/* 1: that is the top now. */
static int go_into(struct removal *r, const char *name)
{
	struct level *l = calloc(1, sizeof(*l));
	struct thing t = { 0 };
	int err = l ? thing_lookup(r->h, r->rq, r->at, r->top->directory, name, &t) : -ENOMEM;

	if (err) {
		free(l);
		return err;
	}
	*l = (struct level){ .directory = t.inode, .up = r->top };
	snprintf(l->name, sizeof(l->name), "%s", name);
	r->top = l;
	return 1;
}

static void go_back(struct removal *r)
{
	struct level *l = r->top;

	r->top = l->up;
	inode_unref(l->directory);
	free(l);
}

/* A directory that is not empty becomes the next level, and the rest waits. */
static int remove_entry(void *removal, struct dirent_plus *e)
{
	struct removal *r = removal;
	struct inode *directory = r->top->directory;
	int err;

	if (!r->top->up && !strncmp(e->name, KEPT, strlen(KEPT)))
		return 0;
	r->empty = false;
	if (!S_ISDIR(e->type)) {
		err = unlink_name(r->h, r->rq, r->at, directory, e->name);
	} else {
		err = rmdir_name(r, directory, e->name);
		if (err == -ENOTEMPTY || err == -EEXIST)
			err = go_into(r, e->name);
	}
	return err == -ENOENT ? 0 : err;
}

/* Everything below the first level. A directory is gone through again and again until it names nothing. */
static int remove_tree(struct removal *r)
{
	int err = 0;

	while (err >= 0) {
		r->empty = true;
		err = directory_list(r->h, r->rq, r->at, r->top->directory, 0, remove_entry, r);
		if (err || !r->empty)
			continue;
		if (!r->top->up)
			break;
		err = rmdir_name(r, r->top->up->directory, r->top->name);
		if (err == -ENOENT)
			err = 0;
		go_back(r);
	}
	return err;
}

static int limbo_remove(struct heal *h, struct request *rq, int at)
{
	cleanup_thing struct thing root = { 0 };
	int err = thing_known(h, rq, &gfid_root, at, &root);

	if (err)
		return err;
	struct rmdir_in in = { .loc = { .parent = root.inode, .name = LIMBO } };
	struct rmdir_out out = { 0 };

	err = heal_call_kept(h, rq, at, FOP_rmdir, &in, &out, &root.attr.mtime);
	return err == -ENOTEMPTY || err == -EEXIST ? 0 : err; /* what is kept */
}

int heal_purge_limbo(struct heal *h, struct request *rq, int at)
{
	struct level first = { 0 };
	struct removal r = { .h = h, .rq = rq, .at = at, .top = &first };
	int err = limbo_find(h, rq, at, &first.directory);

	if (err)
		return err == -ENOENT ? 0 : err;
	err = heal_end_log(h, rq, at);
	if (!err)
		err = remove_tree(&r);
	while (r.top->up)
		go_back(&r);
	inode_unref(first.directory);
	return err ? err : limbo_remove(h, rq, at);
}
