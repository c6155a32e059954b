/* SPDX-License-Identifier: Apache-2.0 */
/* Turns: among the tasks of this mount by a task lock, among mounts by a POSIX lock at the bricks, on a range that no file's contents reach and
 * under an owner that no process has. The brick's lock is kept for a while, as the next request often comes at once. */
#include <fcntl.h>
#include <unistd.h>

#include "crypt.h"
#include "held.h"

enum {
	IDLE_MS = 20, /* so long after its last use the brick's lock goes back */
	UNLOCK_AGAIN_MS = 500,
	LOOK_AGAIN_MS = 2000,
};
static const uint64_t lock_at = 1ull << SIZE_MAX_BITS;

uint64_t hold_owner(const struct crypt *c, const struct inode *inode)
{
	return c->owner ^ gfid_hash(&inode->gfid);
}

/* All that is taken and given back by who has the turn. */
static struct lock lock_of(const struct crypt *c, const struct inode *inode, const struct node *n, uint32_t type)
{
	return (struct lock){ .kind = LOCK_POSIX,
			      .type = type,
			      .start = lock_at,
			      .end = lock_at,
			      .owner = hold_owner(c, inode),
			      .pid = n->turns };
}

static int set_lock(struct request *rq, struct xlator *x, struct file *through, uint32_t type, bool wait)
{
	struct node *n = inode_slot(through->inode, x);
	struct setlk_in in = { through, lock_of(crypt_of(x), through->inode, n, type) };
	struct setlk_out out = { 0 };
	uint64_t owner = rq->lock_owner;
	int err;

	in.lock.wait = wait;
	rq->lock_owner = in.lock.owner;
	if (type == F_UNLCK)
		task_shield(true);
	err = setlk_on(rq, x->child[0], &in, &out);
	if (type == F_UNLCK)
		task_shield(false);
	rq->lock_owner = owner;
	if (err == -EOPNOTSUPP)
		log_error(
			x, rq,
			"there are no locks below: features/locks must stand above the brick, or mounts would undo each other's writes");
	return err;
}

struct watchdog {
	struct timer timer;
	struct task *task;
	atomic_bool barked;
};

static void bark(void *arg)
{
	struct watchdog *w = arg;

	atomic_store(&w->barked, true);
	task_cancel(w->task);
}

/* In line with the others, so that nobody starves. -EAGAIN: it took long. */
static int wait_for_lock(struct op *o, uint32_t type)
{
	struct watchdog w = { .timer = { .fn = bark }, .task = task_self() };
	bool watched;
	int err;

	w.timer.arg = &w;
	watched = !timer_set(shard_self(), &w.timer, clock_ns() + LOOK_AGAIN_MS * 1000000ull);
	err = set_lock(o->rq, o->x, o->file, type, true);
	if (watched)
		timer_cancel(&w.timer);
	if (!atomic_load(&w.barked))
		return err;
	if (err != -ECANCELED)
		task_wait(
			1); /* if nobody below has taken the cancel it must not reach a later wait; long past, so this does not wait */
	return err == -ECANCELED ? -EAGAIN : err;
}

/* A lock that waits has no deadline, also where nobody can give it for lack of a quorum. So it is asked for without waiting first, and now and
 * then again: that fails as any other request does. */
static int take_lock(struct op *o, uint32_t type)
{
	int err;

	do {
		err = set_lock(o->rq, o->x, o->file, type, false);
		if (err == -EAGAIN)
			err = wait_for_lock(o, type);
		if (err == -EAGAIN && o->rq->deadline_ns && clock_ns() > o->rq->deadline_ns)
			err = -ETIMEDOUT;
	} while (err == -EAGAIN);
	return err == -ENOTCONN ? -EIO : err; /* as writing says it where there is no quorum */
}

/* With the turn: there is nothing to give back any more. */
static void lock_is_gone(struct node *n)
{
	struct file *through = n->through;

	n->through = NULL;
	n->owed = n->size_known = false;
	free(n->tail);
	n->tail = NULL;
	file_unref(through);
}

/* With the turn. Until the brick has answered it may hold the lock, which stops all other mounts: so it is owed, and the tender tries again. What
 * the brick no longer knows went with its locks. One that is lost is given back, too: of a replica set some members may have it. */
static int let_lock_go(struct request *rq, struct xlator *x, struct node *n)
{
	int err = set_lock(rq, x, n->through, F_UNLCK, false);

	n->size_known = false;
	n->owed = err && err != -ESTALE && err != -EBADF && err != -ENOENT;
	if (n->owed)
		return err == -ENOTCONN ? -EIO : err; /* as writing says it where there is no quorum */
	lock_is_gone(n);
	return 0;
}

static uint64_t ms_since(uint64_t then_ns)
{
	return (clock_ns() - then_ns) / 1000000;
}

/* ---- giving it back ---- */

struct tender {
	struct xlator *x;
	struct inode *inode;
};

static bool stopping(struct crypt *c)
{
	bool is;

	pthread_mutex_lock(&c->lock);
	is = c->stopping;
	pthread_mutex_unlock(&c->lock);
	return is;
}

/* 0: it was given back; else when to look again. */
static uint64_t tend(const struct tender *t, struct request *rq, struct node *n)
{
	struct crypt *c = crypt_of(t->x);
	bool stops = stopping(c), in_use;
	uint64_t again_ms = 0;

	if (task_lock(&n->turn, NO_DEADLINE))
		return IDLE_MS;
	rq->client = n->client; /* who took it gives it back */
	in_use = !n->owed && ms_since(n->used_ns) < IDLE_MS && ms_since(n->held_ns) < c->hold_ms;
	if (n->through && !stops && in_use)
		again_ms = IDLE_MS;
	else if (n->through && let_lock_go(rq, t->x, n) && !stops)
		again_ms = UNLOCK_AGAIN_MS;
	else if (n->through)
		lock_is_gone(n); /* the session ends, and its locks with it */
	n->tended = again_ms;
	task_unlock(&n->turn);
	return again_ms;
}

static void forget_tender(struct crypt *c)
{
	pthread_mutex_lock(&c->lock);
	c->tenders--;
	pthread_mutex_unlock(&c->lock);
}

static void tender_task(void *arg)
{
	struct tender *t = arg;
	struct crypt *c = crypt_of(t->x);
	struct node *n = node_of(t->x, t->inode);
	struct request rq;
	uint64_t again_ms = IDLE_MS;

	request_init(&rq, t->x->graph, 0);
	do
		task_sleep_ms(stopping(c) ? 1 : again_ms);
	while ((again_ms = tend(t, &rq, n)));
	request_finish(&rq);
	inode_unref(t->inode);
	free(t);
	forget_tender(c);
}

/* False: nobody would give it back later. */
static bool start_tender(struct op *o)
{
	struct tender *t = malloc(sizeof(*t));
	bool stops;

	if (!t)
		return false;
	*t = (struct tender){ o->x, inode_ref(o->inode) };
	pthread_mutex_lock(&o->c->lock);
	stops = o->c->stopping;
	o->c->tenders += !stops;
	pthread_mutex_unlock(&o->c->lock);
	if (!stops && !task_spawn(NULL, tender_task, t))
		return true;
	if (!stops)
		forget_tender(o->c);
	inode_unref(t->inode);
	free(t);
	return false;
}

void hold_stop(struct xlator *x)
{
	struct crypt *c = crypt_of(x);
	bool left;

	pthread_mutex_lock(&c->lock);
	c->stopping = true;
	pthread_mutex_unlock(&c->lock);
	do {
		pthread_mutex_lock(&c->lock);
		left = c->tenders;
		pthread_mutex_unlock(&c->lock);
		if (left && task_self())
			task_sleep_ms(1);
		else if (left)
			usleep(1000);
	} while (left);
}

/* ---- turns ---- */

/* Whether the lock is held and can be relied on. What is not is given back first. */
static int still_held(struct op *o, bool *held)
{
	struct node *n = o->n;
	int err = n->through && (n->owed || atomic_load(&n->lost) || atomic_load(&n->unsure)) ? let_lock_go(o->rq, o->x, n) : 0;

	*held = !err && n->through;
	return err;
}

/* With the turn, which is given back if it fails. */
static int hold_lock(struct op *o)
{
	struct node *n = o->n;
	int err;

	atomic_store(&n->lost, false); /* before, so that a loss that comes at once counts */
	atomic_store(&n->unsure, false);
	n->turns++;
	err = take_lock(o, F_WRLCK);
	if (err)
		return err;
	atomic_fetch_add(&o->c->locks, 1);
	n->through = file_ref(o->file);
	n->client = o->rq->client;
	n->held_ns = n->used_ns = clock_ns();
	n->size_known = false;
	atomic_store(&n->key_fits, false);
	turn_forget_tail(o);
	if (!n->tended)
		n->tended = start_tender(o);
	return 0;
}

bool turn_take_now(struct op *o)
{
	o->queued = task_trylock(&o->n->turn);
	return o->queued;
}

int turn_take(struct op *o)
{
	struct node *n = o->n;
	bool held;
	int err = o->queued ? 0 : task_lock(&n->turn, o->rq->deadline_ns);

	o->queued = false;
	if (err)
		return err;
	o->again = false;
	err = still_held(o, &held);
	if (!err && !held)
		err = hold_lock(o);
	if (err)
		task_unlock(&n->turn);
	o->turn = !err;
	return err;
}

void turn_give(struct op *o)
{
	struct node *n = o->n;

	o->turn = false;
	n->used_ns = clock_ns();
	if ((!n->tended || ms_since(n->held_ns) >= o->c->hold_ms) && let_lock_go(o->rq, o->x, n) && !n->tended) {
		n->tended = start_tender(o);
		if (!n->tended)
			lock_is_gone(n);
	}
	task_unlock(&n->turn);
}

/* It begins anew, with the lock taken once more, and the length asked for again. */
static int begin_anew(struct op *o)
{
	o->again = true;
	return -ESTALE;
}

int change_begin(struct op *o)
{
	struct lock l = lock_of(o->c, o->inode, o->n, F_WRLCK);
	int err;

	if (atomic_load(&o->n->lost))
		return begin_anew(o);
	err = held_attach(o->rq, &(struct held_mark){ l.owner, l.start, l.end, l.pid });
	if (!err)
		task_shield(true);
	return err;
}

/* Whether it is done, or will be, may be known to nobody. */
static bool unanswered(int err)
{
	return err == -ENOTCONN || err == -ETIMEDOUT || err == -ECANCELED || err == -EIO;
}

int change_end(struct op *o, int err)
{
	task_shield(false);
	held_detach(o->rq);
	if (unanswered(err))
		atomic_store(&o->n->unsure, true);
	if (err != -ENOTHELD)
		return err;
	atomic_store(&o->n->lost, true);
	o->refused = true;
	return begin_anew(o);
}

int turn_take_reading(struct op *o, bool *locked)
{
	bool held;
	int err = task_lock(&o->n->turn, o->rq->deadline_ns);

	*locked = false;
	if (err)
		return err;
	err = still_held(o, &held);
	/* One that only writes is never read through, but its companion is. */
	if (!err && !held) {
		o->n->turns++;
		err = take_lock(o, F_RDLCK);
	}
	if (err)
		task_unlock(&o->n->turn);
	else
		*locked = !held;
	return err;
}

void turn_give_reading(struct op *o, bool locked)
{
	if (locked)
		set_lock(o->rq, o->x, o->file, F_UNLCK, false);
	task_unlock(&o->n->turn);
}

/* This mount has made the file, and nobody has written it since. */
static bool is_empty_still(struct op *o)
{
	return atomic_load(&o->n->born) && believe_ms(o->x->child[0], o->inode, BELIEVE_ATTR, o->n->born_at);
}

static int ask_size(struct op *o, uint64_t *size)
{
	struct getattr_in in = { .inode = o->inode, .file = o->file };
	struct getattr_out out = { 0 };
	int err = 0;

	if (!is_empty_still(o)) {
		atomic_fetch_add(&o->c->asked, 1);
		err = getattr_on(o->rq, o->x->child[0], &in, &out);
	}
	*size = size_of_contents(out.attr.size);
	return err;
}

int turn_size(struct op *o, uint64_t *size)
{
	struct node *n = o->n;
	int err = n->size_known ? 0 : ask_size(o, &n->size);

	if (err)
		return err;
	n->size_known = true;
	*size = n->size;
	return 0;
}

void turn_forget_tail(struct op *o)
{
	free(o->n->tail);
	o->n->tail = NULL;
}

void turn_forget_size(struct op *o)
{
	o->n->size_known = false;
}

bool hold_gives_first(const struct xlator *below)
{
	bool first = below->type->orders_locks;

	for (int i = 0; i < below->children && !first; i++)
		first = hold_gives_first(below->child[i]);
	return first;
}

/* Locks go with the file through which they were taken: so its release, which follows, gives the lock back without a message of its own. From here
 * on nobody relies on it. Who takes it meanwhile does so through another file, with which it stays then. */
void hold_file_closes(struct request *rq, struct xlator *x, struct file *file)
{
	struct node *n = S_ISREG(file->inode->type) ? inode_slot(file->inode, x) : NULL;

	if (!n)
		return;
	task_shield(true);
	if (!task_lock(&n->turn, NO_DEADLINE)) {
		if (n->through == file && (!crypt_of(x)->gives_first || let_lock_go(rq, x, n)))
			lock_is_gone(n);
		task_unlock(&n->turn);
	}
	task_shield(false);
}

/* A file that is stale may be the one through which the lock is held, or not. */
bool hold_lost(struct xlator *x, const struct event *e)
{
	struct node *n = e->inode && S_ISREG(e->inode->type) ? inode_slot(e->inode, x) : NULL;
	bool ours = e->kind == EVENT_LOCK_LOST && e->inode && e->lock.owner == hold_owner(crypt_of(x), e->inode);

	if (n && (ours || e->kind == EVENT_STALE_FILE))
		atomic_store(&n->lost, true);
	return ours;
}

/* ---- the locks of programs, which end where ours begin ---- */

static struct lock cut(const struct lock *l)
{
	struct lock cut = *l;

	if (l->kind == LOCK_POSIX && cut.end >= lock_at)
		cut.end = lock_at - 1;
	if (l->kind == LOCK_POSIX && cut.start >= lock_at)
		cut.start = lock_at - 1;
	return cut;
}

int crypt_setlk(struct request *rq, struct xlator *x, const struct setlk_in *in, struct setlk_out *out)
{
	struct setlk_in below = { in->file, cut(&in->lock) };

	return setlk_on(rq, x->child[0], &below, out);
}

int crypt_getlk(struct request *rq, struct xlator *x, const struct getlk_in *in, struct getlk_out *out)
{
	struct getlk_in below = { in->file, cut(&in->lock) };
	int err = getlk_on(rq, x->child[0], &below, out);

	if (!err && out->lock.kind == LOCK_POSIX && out->lock.end == lock_at - 1)
		out->lock.end = UINT64_MAX;
	return err;
}
