/* SPDX-License-Identifier: Apache-2.0 */
/* Walks a tree of one subvolume, as the brick has it. What it holds grows with the depth of the tree, not with its size. */
#include "fsck.h"

#include <errno.h>

struct level { /* a directory that is being read, and those above it */
	struct level *above;
	struct inode *dir; /* references */
	struct file *file;
	struct readdir_out batch;
	uint32_t next;
	uint64_t offset;
	size_t length; /* of its path */
};
struct walk {
	struct fsck *f;
	int child;
	enter_fn *enters;
	visit_fn *visit;
	struct level *top;
	char *path;
	size_t room;
};

static struct xlator *child_of(const struct walk *w)
{
	return w->f->d->x->child[w->child];
}

char *spot_path(const struct spot *s)
{
	char *path;

	return asprintf(&path, "%s%s%s", s->path, *s->path ? "/" : "", s->entry->name) < 0 ? NULL : path;
}

/* ---- levels ---- */

/* The path, with the name behind it if there is one. */
static int set_path(struct walk *w, size_t length, const char *name)
{
	size_t more = name ? strlen(name) + 2 : 1;
	char *longer;

	if (length + more > w->room) {
		longer = realloc(w->path, 2 * (length + more));
		if (!longer)
			return -ENOMEM;
		w->path = longer;
		w->room = 2 * (length + more);
	}
	if (name)
		snprintf(w->path + length, more, "%s%s", length ? "/" : "", name);
	else
		w->path[length] = '\0';
	return 0;
}

static void pop(struct walk *w)
{
	struct level *l = w->top;
	struct release_in in = { .file = l->file };
	struct release_out out = { 0 };

	w->top = l->above;
	if (l->file) {
		fsck_ask(w->f);
		release_on(w->f->rq, child_of(w), &in, &out);
	}
	file_unref(l->file);
	inode_unref(l->dir);
	fop_out_clear(FOP_readdir, &l->batch);
	free(l);
	if (w->top)
		set_path(w, w->top->length, NULL); /* shorter: that can't fail */
}

static int open_dir(struct walk *w, struct level *l)
{
	struct opendir_in in = { .inode = l->dir };
	struct opendir_out out = { 0 };
	int err = fsck_ask(w->f);

	if (!err)
		err = opendir_on(w->f->rq, child_of(w), &in, &out);
	l->file = out.file;
	return err;
}

/* It may have gone since it was listed; then there is nothing in it. */
static int push(struct walk *w, struct inode *dir, const char *name)
{
	struct level *l = calloc(1, sizeof(*l));
	int err = l ? set_path(w, w->top ? w->top->length : strlen(w->path), name) : -ENOMEM;

	if (err) {
		free(l);
		return err;
	}
	l->above = w->top;
	l->dir = inode_ref(dir);
	l->length = strlen(w->path);
	w->top = l;
	if (w->enters)
		err = w->enters(w->f, w->child, dir, w->path);
	if (!err)
		err = open_dir(w, l);
	if (err != -ENOENT && err != -ESTALE)
		return err ? fsck_problem(w->f, err, "/%s can't be read at %s: %s", w->path, child_of(w)->name, error_text(err))
			   : 0;
	pop(w);
	return 0;
}

/* 1: there is no more. */
static int read_more(struct walk *w, struct level *l)
{
	struct readdir_in in = { .file = l->file, .offset = l->offset, .size = 32 << 10, .flags = READDIR_PLUS };
	bool end = l->batch.entries.end;
	int err;

	fop_out_clear(FOP_readdir, &l->batch);
	l->batch = (struct readdir_out){ 0 };
	l->next = 0;
	if (end)
		return 1;
	err = fsck_ask(w->f);
	if (!err)
		err = readdir_on(w->f->rq, child_of(w), &in, &l->batch);
	if (err == -ENOENT || err == -ESTALE)
		return 1;
	if (err)
		return fsck_problem(w->f, err, "/%s can't be read at %s: %s", w->path, child_of(w)->name, error_text(err));
	if (!l->batch.entries.count)
		return 1;
	l->offset = l->batch.entries.entry[l->batch.entries.count - 1].next_offset;
	return 0;
}

/* ---- entries ---- */

/* What the listing could not tell, a lookup can, or says why not. 1: it has gone. */
static int complete(struct walk *w, const struct spot *s)
{
	struct dirent_plus *e = s->entry;
	struct lookup_out out = { 0 };
	int err;

	if (e->inode)
		return 0;
	err = fsck_ask(w->f);
	if (!err)
		err = fsck_lookup(w->f, w->child, s->dir, e->name, &out);
	if (err == -ENOENT || err == -ESTALE)
		return 1;
	w->f->incomplete |= err == -EMARKED; /* an intent holds it: nobody knows what it is until that has ended */
	if (err == -EMARKED)
		return 1;
	if (err == -EIO)
		err = judge_broken(w->f, s);
	if (err)
		return err;
	e->inode = out.inode;
	e->attr = out.attr;
	return e->inode ? 0 : 1;
}

static int meet(struct walk *w, struct level *l, struct dirent_plus *e)
{
	struct spot s = { w->child, l->dir, w->path, e };
	int err = complete(w, &s);

	if (err)
		return err > 0 ? 0 : err;
	err = w->visit(w->f, &s);
	if (err != DESCEND)
		return err;
	w->f->counts.directories++;
	return push(w, e->inode, e->name);
}

int fsck_walk(struct fsck *f, int child, struct inode *top, const char *path, enter_fn *enters, visit_fn *visit)
{
	struct walk w = { .f = f, .child = child, .enters = enters, .visit = visit };
	int err = set_path(&w, 0, *path ? path : NULL);

	if (!err)
		err = push(&w, top, NULL);
	while (!err && w.top) {
		struct level *l = w.top;

		if (l->next < l->batch.entries.count) {
			err = meet(&w, l, &l->batch.entries.entry[l->next++]);
			continue;
		}
		err = read_more(&w, l);
		if (err > 0) {
			pop(&w);
			err = 0;
		}
	}
	while (w.top)
		pop(&w);
	free(w.path);
	return err;
}

/* ---- one path ---- */

int fsck_find(struct fsck *f, int child, const char *path, struct inode **dir, const char **name)
{
	char *copy = strdup(path), *rest = copy, *next;
	int err = copy ? fsck_ask(f) : -ENOMEM;

	*name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	*dir = root_of(f->d);
	if (!err && !*dir)
		err = -ENOMEM;
	while (!err && (next = strsep(&rest, "/")) && rest)
		err = step_down(f->rq, f->d->x->child[child], dir, next);
	free(copy);
	if (!err)
		err = fsck_say_layout(f, child, *dir);
	if (!err)
		return 0;
	inode_unref(*dir);
	*dir = NULL;
	return err;
}
