/* SPDX-License-Identifier: Apache-2.0 */
/* Removes the trees of deleted tenants, in the background. Nobody can reach them any more; what is left by a crash, or by an error, is removed
 * after the next start or change of the tenants. */
#include <time.h>

#include "cloud.h"

#include "replica.h"

enum { BATCH = 16 << 10, REST_MS = 1, AGAIN_MS = 100 };

struct level { /* a directory on the way down, and what it is called in the one above */
	struct inode *dir;
	char *name;
};
struct descent {
	struct request *rq;
	struct xlator *x;
	struct level *level;
	size_t depth, room;
};

static struct cloud *cloud_of(const struct xlator *x)
{
	return x->private;
}

static bool stopping(struct cloud *c)
{
	bool stop;

	pthread_mutex_lock(&c->lock);
	stop = c->purge.stop;
	pthread_mutex_unlock(&c->lock);
	return stop;
}

/* ---- one directory ---- */

static int push(struct descent *d, struct inode *dir, const char *name)
{
	if (d->depth == d->room) {
		size_t more = d->room ? d->room * 2 : 16;
		struct level *grown = realloc(d->level, more * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		d->level = grown;
		d->room = more;
	}
	d->level[d->depth] = (struct level){ inode_ref(dir), strdup(name) };
	return d->level[d->depth++].name ? 0 : -ENOMEM;
}

static void pop(struct descent *d)
{
	struct level *l = &d->level[--d->depth];

	inode_unref(l->dir);
	free(l->name);
}

static int list(struct descent *d, struct inode *dir, struct readdir_out *entries)
{
	struct opendir_in open = { .inode = dir };
	struct opendir_out opened = { 0 };
	struct readdir_in in = { .size = BATCH };
	struct release_in release;
	struct release_out released;
	int err = opendir_on(d->rq, d->x->child[0], &open, &opened);

	if (err)
		return err;
	in.file = release.file = opened.file;
	err = readdir_on(d->rq, d->x->child[0], &in, entries);
	release_on(d->rq, d->x->child[0], &release, &released);
	file_unref(opened.file);
	return err;
}

static int enter(struct descent *d, struct inode *dir, const char *name)
{
	struct lookup_in in = { .loc = { .parent = dir, .name = name } };
	struct lookup_out out = { 0 };
	int err = lookup_on(d->rq, d->x->child[0], &in, &out);

	if (!err)
		err = push(d, out.inode, name);
	fop_out_clear(FOP_lookup, &out);
	return err;
}

static int drop(struct descent *d, struct inode *dir, const char *name)
{
	struct unlink_in in = { .loc = { .parent = dir, .name = name } };
	struct unlink_out out;
	int err = unlink_on(d->rq, d->x->child[0], &in, &out);

	atomic_fetch_add(&cloud_of(d->x)->purge.removed, !err);
	return err;
}

/* 1: there may be more in it (or in one below that has been entered); 0: it is empty. */
static int thin_out(struct descent *d)
{
	struct inode *dir = d->level[d->depth - 1].dir;
	struct readdir_out out = { 0 };
	int err = list(d, dir, &out), some = out.entries.count > 0;
	bool entered = false;

	for (uint32_t i = 0; !err && !entered && i < out.entries.count; i++) {
		const struct dirent_plus *e = &out.entries.entry[i];

		entered = S_ISDIR(e->type);
		err = stopping(cloud_of(d->x)) ? -ECANCELED : entered ? enter(d, dir, e->name) : drop(d, dir, e->name);
	}
	fop_out_clear(FOP_readdir, &out);
	return err ? err : some;
}

static int remove_directory(struct descent *d, struct inode *parent)
{
	struct rmdir_in in = { .loc = { .parent = parent, .name = d->level[d->depth - 1].name } };
	struct rmdir_out out;
	int err = rmdir_on(d->rq, d->x->child[0], &in, &out);

	atomic_fetch_add(&cloud_of(d->x)->purge.removed, !err);
	return err;
}

/* ---- a tree ---- */

static int remove_tree(struct descent *d, struct inode *all)
{
	int err = 0;

	while (!err && d->depth) {
		err = thin_out(d);
		if (!err) {
			err = remove_directory(d, d->depth > 1 ? d->level[d->depth - 2].dir : all);
			if (!err)
				pop(d);
		} else if (err > 0) {
			err = task_sleep_ms(REST_MS); /* others come first */
		}
		if (err == -EVIEW || err == -ERECOVERING) /* the set is busy with itself */
			err = stopping(cloud_of(d->x)) ? -ECANCELED : task_sleep_ms(AGAIN_MS);
	}
	while (d->depth)
		pop(d);
	free(d->level);
	return err;
}

static int purge_tenant(struct request *rq, struct xlator *x, struct inode *all, const struct tenant *t)
{
	struct descent d = { .rq = rq, .x = x };
	int err = enter(&d, all, t->name);

	if (!err && !gfid_equal(&d.level[0].dir->gfid, &t->id))
		err = -EEXIST; /* somebody has put another directory there */
	if (err) {
		while (d.depth)
			pop(&d);
		free(d.level);
		return err;
	}
	pthread_mutex_lock(&cloud_of(x)->lock);
	strcpy(cloud_of(x)->purge.name, t->name);
	pthread_mutex_unlock(&cloud_of(x)->lock);
	log_info(x, NULL, "removing the files of the deleted tenant %s", t->name);
	err = remove_tree(&d, all);
	if (!err)
		log_info(x, NULL, "the files of the deleted tenant %s are removed", t->name);
	return err;
}

/* The next by name, after *t. */
static bool next_deleted(struct cloud *c, struct tenant *t)
{
	bool found = false;

	pthread_rwlock_rdlock(&c->table_lock);
	for (size_t i = 0; i < c->table.count && !found; i++) {
		found = c->table.tenant[i].state == TENANT_DELETED && strcmp(c->table.tenant[i].name, t->name) > 0;
		if (found)
			*t = c->table.tenant[i];
	}
	pthread_rwlock_unlock(&c->table_lock);
	return found;
}

static void purge_all(struct xlator *x)
{
	struct tenant t = { .name = "" };
	struct inode *all = NULL;
	struct request rq;
	int err;

	if (!next_deleted(cloud_of(x), &t))
		return;
	err = own_begin(&rq, x);
	if (!err)
		err = tree_all(&rq, x, &all);
	t.name[0] = 0;
	while (!err && !stopping(cloud_of(x)) && next_deleted(cloud_of(x), &t)) {
		int failed = purge_tenant(&rq, x, all, &t);

		if (failed && failed != -ENOENT && failed != -ECANCELED)
			log_error(x, NULL,
				  "can't remove the files of the deleted tenant %s: %s; `stratus ctl` with `purge` tries again",
				  t.name, error_text(failed));
	}
	inode_unref(all);
	request_finish(&rq);
}

static bool more_to_do(struct cloud *c)
{
	bool more;

	pthread_mutex_lock(&c->lock);
	more = c->purge.again && !c->purge.stop;
	c->purge.again = false;
	c->purge.running = more;
	c->purge.task = more ? c->purge.task : NULL;
	c->purge.name[0] = 0;
	pthread_mutex_unlock(&c->lock);
	return more;
}

static void purge_task(void *arg)
{
	struct xlator *x = arg;
	struct cloud *c = cloud_of(x);

	pthread_mutex_lock(&c->lock);
	c->purge.task = task_self();
	pthread_mutex_unlock(&c->lock);
	do
		purge_all(x);
	while (more_to_do(c));
}

void purge_wake(struct xlator *x)
{
	struct cloud *c = cloud_of(x);
	bool start;

	pthread_mutex_lock(&c->lock);
	start = !c->purge.running && !c->purge.stop;
	c->purge.again = !start;
	c->purge.running |= start;
	pthread_mutex_unlock(&c->lock);
	if (start && task_spawn(NULL, purge_task, x)) {
		pthread_mutex_lock(&c->lock);
		c->purge.running = false;
		pthread_mutex_unlock(&c->lock);
		log_error(x, NULL, "no memory to remove the files of deleted tenants: it is tried again after the next change");
	}
}

static bool running(struct cloud *c)
{
	bool yes;

	pthread_mutex_lock(&c->lock);
	c->purge.stop = true;
	yes = c->purge.running;
	if (yes && c->purge.task)
		task_cancel(c->purge.task);
	pthread_mutex_unlock(&c->lock);
	return yes;
}

void purge_stop(struct xlator *x)
{
	while (running(cloud_of(x)))
		if (task_self())
			task_sleep_ms(1);
		else
			nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	pthread_mutex_lock(&cloud_of(x)->lock);
	cloud_of(x)->purge.stop = false;
	pthread_mutex_unlock(&cloud_of(x)->lock);
}
