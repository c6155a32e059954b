/* SPDX-License-Identifier: Apache-2.0 */
/* Counts all objects anew, beside those that change them: after a power cut, or when told to.
 *
 * The tree is walked; each object that is met comes into the sum as it is charged at that moment, once (16 bytes tell it from others). From
 * then on its changes change the sum as well; and what is changed before it is met comes in as it is after that. What is moved meanwhile comes in
 * as it is moved, and directories that are moved are walked soon. So the sum is exact when the walk has ended, and the renames of that time.
 * What is removed before it is met is in the counters until that is settled, be it after the end: it comes in when the removal begins. */
#include <errno.h>

#include "usage.h"

enum { MOVED_MAX = 65536, BATCH = 64 << 10 };
enum { PAUSE_BITS = 11 }; /* of seconds between two of them */
enum { SHARE = 10 };	  /* they take no more than this part of the time */

/* ---- what moves, or goes, meanwhile ---- */

/* Of those that are under way when a recount begins nobody knows whether they have been looked at: it waits for them. */
unsigned recount_taking_begins(struct xlator *x)
{
	struct usage *u = usage_of(x);
	unsigned turn;

	pthread_mutex_lock(&u->lock);
	turn = u->turn & 1;
	u->taking[turn]++;
	pthread_mutex_unlock(&u->lock);
	return turn;
}

void recount_taking_ends(struct xlator *x, unsigned turn)
{
	struct usage *u = usage_of(x);

	pthread_mutex_lock(&u->lock);
	if (!--u->taking[turn])
		task_cond_broadcast(&u->changed);
	pthread_mutex_unlock(&u->lock);
}

static void await_taking(struct usage *u)
{
	unsigned before;

	pthread_mutex_lock(&u->lock);
	before = u->turn++ & 1;
	while (u->taking[before] && !u->stopping)
		task_cond_wait(&u->changed, &u->lock, NO_DEADLINE);
	pthread_mutex_unlock(&u->lock);
}

/* It is walked soon, if it was not yet: each directory is walked once. More than that at one time: this recount is in vain. */
void recount_moved(struct xlator *x, struct inode *dir)
{
	struct usage *u = usage_of(x);
	struct inode **grown = NULL;

	pthread_mutex_lock(&u->lock);
	if (u->walking && u->moved_count < MOVED_MAX)
		grown = realloc(u->moved, (u->moved_count + 1) * sizeof(*grown));
	if (grown) {
		u->moved = grown;
		grown[u->moved_count++] = inode_ref(dir);
	}
	u->missed |= u->walking && !grown;
	pthread_mutex_unlock(&u->lock);
}

static struct inode *next_moved(struct usage *u)
{
	struct inode *dir = NULL;

	pthread_mutex_lock(&u->lock);
	if (u->moved_count)
		dir = u->moved[--u->moved_count];
	pthread_mutex_unlock(&u->lock);
	return dir;
}

/* Whether the walk, which has ended so, has met all. */
static bool is_whole(struct usage *u, int err)
{
	bool whole;

	pthread_mutex_lock(&u->lock);
	whole = !err && !u->missed && !u->moved_count;
	pthread_mutex_unlock(&u->lock);
	return whole;
}

static void walk_begins(struct usage *u)
{
	pthread_mutex_lock(&u->lock);
	u->walking = true;
	pthread_mutex_unlock(&u->lock);
}

static void walk_ends(struct usage *u)
{
	pthread_mutex_lock(&u->lock);
	u->walking = false;
	while (u->moved_count)
		inode_unref(u->moved[--u->moved_count]);
	free(u->moved);
	u->moved = NULL;
	u->missed = false;
	pthread_mutex_unlock(&u->lock);
}

struct level { /* a directory that is being read; nothing of it is open while what is below is walked */
	struct inode *dir;
	uint64_t offset;
	struct inode **below; /* directories of the last batch that are to be walked yet */
	size_t count;
	bool end;
};
struct walk {
	struct request *rq;
	struct xlator *x;
	struct level *level;
	size_t depth, room;
};

static bool stops(struct xlator *x)
{
	struct usage *u = usage_of(x);
	bool stopping;

	pthread_mutex_lock(&u->lock);
	stopping = u->stopping;
	pthread_mutex_unlock(&u->lock);
	return stopping;
}

/* ---- the walk ---- */

/* Takes the reference over. Each directory is walked once, by whatever way it is met first. */
static int enter(struct walk *w, struct inode *dir)
{
	struct key key;

	if (charge_key(w->x, dir, &key) || !ledger_walks(&usage_of(w->x)->ledger, &key)) {
		inode_unref(dir);
		return 0;
	}
	if (w->depth == w->room) {
		size_t room = w->room ? 2 * w->room : 16;
		struct level *grown = realloc(w->level, room * sizeof(*grown));

		if (!grown) {
			inode_unref(dir);
			return -ENOMEM;
		}
		w->level = grown;
		w->room = room;
	}
	w->level[w->depth++] = (struct level){ .dir = dir };
	return 0;
}

static void leave(struct walk *w)
{
	struct level *l = &w->level[--w->depth];

	while (l->count)
		inode_unref(l->below[--l->count]);
	free(l->below);
	inode_unref(l->dir);
}

static bool is_dots(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

/* A listing does not tell why an entry is not told whole: it may have gone, be another file system's, or on a disk that fails. */
static int find(struct walk *w, struct level *l, const char *name, struct inode **inode)
{
	int err = usage_find(w->rq, w->x, &(struct loc){ .parent = l->dir, .name = name }, inode);

	return err == -EXDEV ? 0 : err;
}

static int meet(struct walk *w, struct level *l, const struct dirent_plus *e)
{
	cleanup_inode struct inode *inode = NULL;
	struct inode **grown;
	int err = 0;

	if (is_dots(e->name))
		return 0;
	if (e->inode)
		inode = inode_ref(e->inode);
	else
		err = find(w, l, e->name, &inode);
	if (!err && inode)
		err = charge_count(w->rq, w->x, inode);
	if (err || !inode || !S_ISDIR(inode->type))
		return err == -ESTALE || err == -ENOENT ? 0 : err; /* counted by who removed it */
	grown = realloc(l->below, (l->count + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	l->below = grown;
	grown[l->count++] = inode_ref(inode);
	return 0;
}

static int take_batch(struct walk *w, struct level *l, struct file *file)
{
	struct readdir_in in = { .file = file, .offset = l->offset, .size = BATCH, .flags = READDIR_PLUS };
	struct readdir_out out = { 0 };
	int err = readdir_on(w->rq, w->x->child[0], &in, &out);

	l->end = err || out.entries.end || !out.entries.count;
	for (uint32_t i = 0; i < out.entries.count && !err; i++) {
		l->offset = out.entries.entry[i].next_offset;
		err = meet(w, l, &out.entries.entry[i]);
	}
	fop_out_clear(FOP_readdir, &out);
	return err;
}

static int read_batch(struct walk *w, struct level *l)
{
	struct opendir_in in = { .inode = l->dir };
	struct opendir_out out = { 0 };
	struct release_in release = { 0 };
	struct release_out released = { 0 };
	int err = opendir_on(w->rq, w->x->child[0], &in, &out);

	if (!err) {
		err = take_batch(w, l, out.file);
		release.file = out.file;
		release_on(w->rq, w->x->child[0], &release, &released);
		file_unref(out.file);
	}
	if (err == -ENOENT || err == -ESTALE) { /* removed meanwhile: then it was empty */
		l->end = true;
		err = 0;
	}
	return err;
}

static int go_on(struct walk *w)
{
	struct level *l = &w->level[w->depth - 1];
	struct inode *moved = next_moved(usage_of(w->x));

	if (moved)
		return enter(w, moved);
	if (l->count)
		return enter(w, l->below[--l->count]); /* may move the levels */
	if (!l->end)
		return read_batch(w, l);
	leave(w);
	return 0;
}

static int walk(struct request *rq, struct xlator *x, struct inode *top)
{
	struct walk w = { .rq = rq, .x = x };
	int err = charge_count(rq, x, top);

	if (!err)
		err = enter(&w, inode_ref(top));
	while (!err && w.depth)
		err = stops(x) ? -ECANCELED : go_on(&w);
	while (w.depth)
		leave(&w);
	free(w.level);
	return err;
}

/* ---- the task ---- */

static int walk_moved(struct request *rq, struct xlator *x)
{
	struct inode *moved;
	int err = 0;

	while (!err && (moved = next_moved(usage_of(x)))) {
		err = walk(rq, x, moved);
		err = err == -ESTALE ? 0 : err;
		inode_unref(moved);
	}
	return err;
}

/* What a rename has moved in the middle of the walk is counted when it ends. */
static int count_all(struct request *rq, struct xlator *x)
{
	cleanup_inode struct inode *root = inode_get(x->inodes, &gfid_root, S_IFDIR);
	int err = root ? walk(rq, x, root) : -ENOMEM;

	if (!err)
		err = walk_moved(rq, x);
	if (!err)
		await_taking(usage_of(x));
	return err ? err : walk_moved(rq, x);
}

/* Whether it has met all. */
static bool count_once(struct xlator *x)
{
	struct usage *u = usage_of(x);
	struct request rq;
	uint64_t began = clock_ns();
	int err = ledger_count_begin(&u->ledger);
	bool complete, whole;

	walk_begins(u);
	request_init(&rq, x->graph, 0);
	rq.group_count = 0;
	if (!err)
		await_taking(u);
	if (!err)
		err = count_all(&rq, x);
	complete = is_whole(u, err);
	whole = ledger_count_end(&u->ledger, complete);
	soft_check_all(&u->ledger, x);
	request_finish(&rq);
	walk_ends(u);
	u->ended_ns = clock_ns();
	u->took_ns = u->ended_ns - began;
	if (!whole && err != -ECANCELED)
		log_warning(x, NULL, "a recount has not met all (%s); it begins again",
			    err ? error_text(err)
			    : complete
				    ? "directories that have limits were met after what is in them, or a disk failed meanwhile"
				    : "too much was moved meanwhile");
	return whole;
}

/* When the next one begins that nobody has asked for: the first soon, after so many that were in vain twice as late each time; but long enough after the last one. */
static uint64_t begins_ns(const struct usage *u, unsigned vain)
{
	uint64_t soon = clock_ns() + (1000000000ull << (vain < PAUSE_BITS ? vain : PAUSE_BITS));
	uint64_t rested = u->ended_ns + u->took_ns * (SHARE - 1);

	return soon > rested ? soon : rested;
}

/* False: it has ended. What became doubtful after the last one had ended is found here, or finds that it has ended. */
static bool goes_on(struct usage *u, unsigned vain)
{
	uint64_t until = begins_ns(u, vain);
	bool more;

	pthread_mutex_lock(&u->lock);
	more = vain || ledger_owes(&u->ledger);
	while (more && !u->stopping && !u->hurry && clock_ns() < until)
		task_cond_wait(&u->changed, &u->lock, until);
	more = more && !u->stopping;
	u->counting = more;
	u->counter = more ? task_self() : NULL;
	u->hurry = false;
	task_cond_broadcast(&u->changed);
	pthread_mutex_unlock(&u->lock);
	return more;
}

static void recount_task(void *arg)
{
	struct xlator *x = arg;
	struct usage *u = usage_of(x);
	unsigned vain = 0;

	while (goes_on(u, vain))
		vain = count_once(x) ? 0 : vain + 1;
}

/* -EBUSY: there is one, which begins now if it was to begin later, or once more if it has told its result and not ended yet. */
static int start(struct xlator *x, bool now)
{
	struct usage *u = usage_of(x);
	bool begins = now && (!atomic_load(&u->ledger.counting) || !ledger_owes(&u->ledger));
	int err;

	pthread_mutex_lock(&u->lock);
	err = u->counting || u->stopping ? -EBUSY : 0;
	u->hurry |= begins;
	if (!err || begins)
		ledger_owe(&u->ledger);
	if (!err)
		u->counting = true;
	task_cond_broadcast(&u->changed);
	pthread_mutex_unlock(&u->lock);
	if (err)
		return err;
	err = task_spawn(NULL, recount_task, x);
	if (err) {
		pthread_mutex_lock(&u->lock);
		u->counting = u->hurry = false;
		task_cond_broadcast(&u->changed);
		pthread_mutex_unlock(&u->lock);
	}
	return err;
}

int recount_start(struct xlator *x)
{
	return start(x, true);
}

void recount_owe(struct xlator *x)
{
	int err;

	ledger_owe(&usage_of(x)->ledger);
	err = start(x, false);
	if (err && err != -EBUSY)
		log_warning(x, NULL, "the recount that is needed could not be started: stratus ctl PROCESS %s recount",
			    x->name);
}

/* What waits for others in the middle of a call hears of that; one system call for a disk is waited for, as of any request: it can't be taken back, and uses what is about to go. */
static void wait_for_end(void *arg)
{
	enum { AGAIN_NS = 100000000 }; /* that it was told may have been taken for the end of another wait */
	struct usage *u = arg;

	pthread_mutex_lock(&u->lock);
	u->stopping = true;
	task_cond_broadcast(&u->changed);
	while (u->counting) {
		if (u->counter)
			task_cancel(u->counter);
		task_cond_wait(&u->changed, &u->lock, clock_ns() + AGAIN_NS);
	}
	pthread_mutex_unlock(&u->lock);
}

void recount_stop(struct xlator *x)
{
	struct usage *u = usage_of(x);

	if (task_self())
		wait_for_end(u);
	else
		task_call(wait_for_end, u);
}
