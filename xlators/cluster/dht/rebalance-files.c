/* SPDX-License-Identifier: Apache-2.0 */
/* Files that stand elsewhere than their names are brought home (migrate.c): all directories of all subvolumes are walked, and what has a name there and is a pointer to a
 * file has that file brought. What is right already costs nothing, so a walk can begin anew at any time. */
#include "rebalance.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BRING_NS 120000000000u
#define CLOSE_NS 5000000000u
enum { PAUSE_MS = 10, SECOND_MS = 1000 };

struct level { /* a directory that is being read, and those above it */
	struct level *above;
	struct inode *dir; /* a reference */
	struct file *file;
	struct readdir_out batch;
	uint32_t next;
	uint64_t offset;
	unsigned depth; /* the root has 0 */
	bool hidden;	/* below DHT_HIDDEN */
};
struct walk {
	struct rebalance *r;
	int child;
	struct level *top;
};
struct bringer { /* a task */
	struct rebalance *r;
	struct inode *dir; /* a reference */
	char *name;
	int child;
};

/* ---- one file ---- */

/* 1: there is more to wait for. */
static int wait_for_turn(struct rebalance *r, uint64_t bytes)
{
	uint64_t rate = (uint64_t)r->d->rate, now = clock_ns(), until;

	pthread_mutex_lock(&r->lock);
	r->bytes += bytes;
	if (r->turn_ns < now)
		r->turn_ns = now;
	if (rate)
		r->turn_ns += bytes * 1000000000 / rate;
	until = r->turn_ns;
	pthread_mutex_unlock(&r->lock);
	if (rebalance_is_paused(r))
		return rebalance_pause(r, SECOND_MS) ? 1 : -ECANCELED;
	if (!rate || until <= now)
		return rebalance_stops(r) ? -ECANCELED : 0;
	now = (until - now) / 1000000 + 1;
	if (!rebalance_pause(r, now < SECOND_MS ? now : SECOND_MS))
		return -ECANCELED;
	return now > SECOND_MS;
}

static int pass(void *arg, uint64_t bytes)
{
	return wait_for_turn(arg, bytes);
}

static void note(struct rebalance *r, int what, uint64_t bytes)
{
	pthread_mutex_lock(&r->lock);
	r->again |= what == BROUGHT_NAMES;
	what = what == BROUGHT_NAMES ? BROUGHT : what;
	r->files += what == BROUGHT;
	r->file_bytes += what == BROUGHT ? bytes : 0;
	if (what > BRING_NOTHING && what < BRINGS)
		r->skipped[what]++;
	r->failed += what < 0;
	pthread_mutex_unlock(&r->lock);
}

static void bring_one(struct bringer *b)
{
	struct throttle throttle = { pass, b->r };
	struct loc loc = { .parent = b->dir, .name = b->name };
	uint64_t bytes = 0;
	struct request rq;
	int err;

	rebalance_ask(b->r, &rq, BRING_NS);
	err = file_bring(&rq, b->r->d, &loc, b->child, &throttle, &bytes);
	request_finish(&rq);
	if (err != -ECANCELED)
		note(b->r, err, bytes);
	if (err < 0 && err != -ECANCELED)
		rebalance_problem(b->r, err, "the file \"%s\" can't be brought to %s: %s", b->name,
				  subvolume_name(b->r, b->child), error_text(err));
}

static void bring_task(void *arg)
{
	struct bringer *b = arg;
	struct rebalance *r = b->r;

	bring_one(b);
	inode_unref(b->dir);
	free(b->name);
	free(b);
	pthread_mutex_lock(&r->lock);
	r->bringers--;
	task_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
}

/* Until fewer than so many are at it. While it is paused they stand still as well: so nothing more is begun, and what is half written of layouts is written from here. */
static void wait_for_bringers(struct rebalance *r, unsigned most)
{
	bool full = true;

	while (full) {
		rebalance_goes_on(r);
		pthread_mutex_lock(&r->lock);
		full = r->bringers && r->bringers >= most;
		if (full)
			task_cond_wait(&r->changed, &r->lock, clock_ns() + SECOND_MS * 1000000ull);
		pthread_mutex_unlock(&r->lock);
	}
}

static int begin_to_bring(struct walk *w, struct inode *dir, const char *name)
{
	struct bringer *b = malloc(sizeof(*b));
	int err;

	wait_for_bringers(w->r, (unsigned)w->r->d->parallel);
	if (!b)
		return -ENOMEM;
	*b = (struct bringer){ w->r, inode_ref(dir), strdup(name), w->child };
	pthread_mutex_lock(&w->r->lock);
	w->r->bringers++;
	pthread_mutex_unlock(&w->r->lock);
	err = b->name ? task_spawn(NULL, bring_task, b) : -ENOMEM;
	if (!err)
		return 0;
	inode_unref(b->dir);
	free(b->name);
	free(b);
	pthread_mutex_lock(&w->r->lock);
	w->r->bringers--;
	pthread_mutex_unlock(&w->r->lock);
	return err;
}

/* ---- all directories ---- */

static int ask(struct walk *w, enum fop fop, const void *in, void *out)
{
	struct request rq;
	int err;

	rebalance_ask(w->r, &rq, REBALANCE_ASK_NS);
	err = place_say(&rq, w->r->d, &(struct place){ .flags = PLACE_HERE });
	if (!err)
		err = fop_call(&rq, w->r->d->x->child[w->child], fop, in, out);
	request_finish(&rq);
	return err;
}

static void pop(struct walk *w)
{
	struct level *l = w->top;
	struct release_in in = { .file = l->file };
	struct release_out out = { 0 };

	w->top = l->above;
	if (l->file) {
		task_shield(true);
		ask(w, FOP_release, &in, &out);
		task_shield(false);
	}
	file_unref(l->file);
	inode_unref(l->dir);
	fop_out_clear(FOP_readdir, &l->batch);
	free(l);
}

static bool answers(struct walk *w)
{
	cleanup_inode struct inode *root = root_of(w->r->d);
	struct getattr_in in = { .inode = root };
	struct getattr_out out = { 0 };

	return root && !ask(w, FOP_getattr, &in, &out);
}

/* A directory that can't be read keeps nobody from the others, if it is not the whole subvolume. One that has gone since has nothing in it. */
static int pass_over(struct walk *w, const struct inode *dir, int err)
{
	char text[GFID_TEXT];

	if (!err || err == -ENOENT || err == -ESTALE)
		return 0;
	if (err == -ECANCELED || err == -ENOMEM || is_root(dir) || rebalance_stops(w->r) || !answers(w))
		return err;
	note(w->r, err, 0);
	rebalance_problem(w->r, err, "the directory %s of %s can't be read, so files of names in it stay where they are: %s",
			  gfid_text(&dir->gfid, text), subvolume_name(w->r, w->child), error_text(err));
	return 0;
}

static int push(struct walk *w, struct inode *dir, bool hidden)
{
	struct level *l = calloc(1, sizeof(*l));
	struct opendir_in in = { .inode = dir };
	struct opendir_out out = { 0 };
	int err;

	if (!l)
		return -ENOMEM;
	l->above = w->top;
	l->dir = inode_ref(dir);
	l->hidden = hidden;
	l->depth = w->top ? w->top->depth + 1 : 0;
	w->top = l;
	err = ask(w, FOP_opendir, &in, &out);
	l->file = out.file;
	if (err)
		pop(w);
	return err ? pass_over(w, dir, err) : 0;
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
	err = ask(w, FOP_readdir, &in, &l->batch);
	if (err) {
		err = pass_over(w, l->dir, err);
		return err ? err : 1;
	}
	if (l->batch.entries.count)
		l->offset = l->batch.entries.entry[l->batch.entries.count - 1].next_offset;
	return !l->batch.entries.count;
}

/* What is away is below DHT_HIDDEN/away/XX; what is under way is none of ours. */
static bool is_skipped(const struct level *l, const char *name)
{
	return l->hidden && l->depth == 1 && strcmp(name, "away") != 0;
}

/* Of one that is wide, as far as it can be learnt, what is said of its names. */
static void learn_of(struct walk *w, struct inode *dir)
{
	struct request rq;

	rebalance_ask(w->r, &rq, REBALANCE_ASK_NS);
	learn_there(&rq, w->r->d, dir, w->child);
	request_finish(&rq);
}

static int enter(struct walk *w, const struct dirent_plus *e, bool hidden)
{
	if (e->attr.flags & ATTR_WIDE && !is_spread(w->r->d, e->inode))
		learn_of(w, e->inode);
	return push(w, e->inode, hidden);
}

/* Of what is elsewhere than at the one that leaves. But it may lead on from there, to a file that is at that one, and can't come back as long as its stub is kept by such a
 * name: so if a file stays there, or a stub with an anchor, these are looked at, too. (Where only directories stay, or what is open, each round would ask for all of them in vain.) */
static bool can_wait(const struct rebalance *r, int child)
{
	return can_stay(r->d, child) && !r->stays.files;
}

static int visit(struct walk *w, struct level *l, const struct dirent_plus *e)
{
	bool hidden = l->hidden || (!l->depth && !strcmp(e->name, DHT_HIDDEN));

	if (!e->inode || is_skipped(l, e->name))
		return 0;
	if (S_ISDIR(e->inode->type) && !(e->attr.flags & ATTR_POINTER))
		return enter(w, e, hidden && l->depth < 2);
	if (!(e->attr.flags & ATTR_POINTER) || l->hidden)
		return 0;
	if (is_spread(w->r->d, l->dir) && !is_at_home(w->r->d, l->dir, e->name, w->child))
		return 0;
	if (S_ISDIR(e->inode->type))
		return has_leaver(w->r->d) ? pass_over(w, e->inode, lead_home(w->r, l->dir, e->name, w->child)) : 0;
	if (can_wait(w->r, (int)e->attr.rdev))
		return 0;
	return begin_to_bring(w, l->dir, e->name);
}

/* Below away/XX directories are as others; its own entries are anchors. */
static int go_over(struct walk *w)
{
	int err = 0;

	while (!err && w->top && rebalance_goes_on(w->r)) {
		struct level *l = w->top;

		if (l->next < l->batch.entries.count) {
			rebalance_advance(w->r, 1);
			err = visit(w, l, &l->batch.entries.entry[l->next++]);
			continue;
		}
		err = read_more(w, l);
		if (err == 1) {
			pop(w);
			err = 0;
		}
	}
	return err;
}

static int walk_child(struct rebalance *r, int child)
{
	cleanup_inode struct inode *root = root_of(r->d);
	struct walk w = { .r = r, .child = child };
	int err = root ? push(&w, root, false) : -ENOMEM;

	if (!err)
		err = go_over(&w);
	while (w.top)
		pop(&w);
	return err;
}

/* About as many as there are inodes: so long it is left, if others have as many names to be brought as those that were seen. (A brick that shares its file system, or that
 * has files of several names, tells of others; then it is a guess.) */
static void expect_all(struct rebalance *r)
{
	cleanup_inode struct inode *root = root_of(r->d);
	struct statfs_in in = { .inode = root };
	uint64_t all = 0;

	for (int i = 0; root && i < r->d->x->children; i++) {
		struct walk w = { .r = r, .child = i };
		struct statfs_out out = { 0 };

		if (has_subvolume(r->d, (uint64_t)i) && !ask(&w, FOP_statfs, &in, &out) && out.statfs.files > out.statfs.ffree)
			all += out.statfs.files - out.statfs.ffree;
		fop_out_clear(FOP_statfs, &out);
	}
	rebalance_expect(r, all);
}

static int walk_all(struct rebalance *r)
{
	int err = 0;

	expect_all(r);
	for (int i = 0; i < r->d->x->children && !err && !rebalance_stops(r); i++) {
		err = has_subvolume(r->d, (uint64_t)i) ? walk_child(r, i) : 0;
		if (err && err != -ECANCELED)
			rebalance_problem(r, err, "the directories of %s can't be read: %s", subvolume_name(r, i),
					  error_text(err));
	}
	wait_for_bringers(r, 0);
	return rebalance_stops(r) ? -ECANCELED : err;
}

/* Other names of a file that was brought may have been passed by before. */
static bool goes_again(struct rebalance *r)
{
	bool again;

	pthread_mutex_lock(&r->lock);
	again = r->again;
	r->again = false;
	if (again)
		rebalance_forget_skipped(r);
	pthread_mutex_unlock(&r->lock);
	return again;
}

int bring_files(struct rebalance *r)
{
	int err;

	goes_again(r);
	do
		err = walk_all(r);
	while (!err && goes_again(r));
	return err;
}
