/* SPDX-License-Identifier: Apache-2.0 */
/* Heals the members that are BACK: each object on their pending lists, several at once, under its token. */
#include "coordinator.h"

enum { QUIET_MS = 50, BUSY_MS = 20, FRUITLESS = 20, PAUSE_MS = 2000, LACKS_SOME = 3 };
#define SLICE_NS    100000000ull
#define TELL_NS	    60000000000ull
#define PATIENCE_NS 5000000000ull
#define GONE_NS	    60000000000ull /* more than a client waits for members (cluster/afr, max-wait) */

struct queued {
	struct gfid gfid;
	struct inode *inode, *parent;  /* references, in a crawl and above: so that the member need not look for them */
	uint64_t waits_since_ns, done; /* it waits for others; how many had been healed by then */
	bool above;		       /* it is on no list, but what is waits for it */
	bool listed;		       /* what the directory names is in the queue, but it was not healed yet */
};
struct backlog { /* of one member */
	struct coordinator *c;
	int to;
	struct view view;
	pthread_mutex_t lock; /* guards what follows */
	struct task_cond changed;
	struct queued *queue; /* the last is taken first, so that a crawl keeps little in mind */
	size_t count, room;
	unsigned running;
	uint64_t done, failed;
	int err;		/* that ends all of it */
	bool met_gone;		/* in this round: something that is gone at the source, and has its name yet */
	uint64_t gone_since_ns; /* since when each round has met that; 0: the last has not */
	bool crawl;
	struct gfid_list above;	    /* that were healed in this round for what waits for them */
	struct gfid_list missed;    /* that were on no list, and have what lies in the limbo: each is healed for that once */
	struct inode **missed_kept; /* a reference on each, or NULL: so that the first knows it by its gfid until then */
	struct gfid stuck;	    /* one that failed in this round, and why */
	int why;
	/* the healer's own */
	unsigned fruitless; /* rounds since something was healed */
	uint64_t told_ns;
};

static bool stopping(struct backlog *b)
{
	bool stop;

	pthread_mutex_lock(&b->c->lock);
	stop = b->c->member[b->to].heal_stop || atomic_load(&b->c->stopping);
	pthread_mutex_unlock(&b->c->lock);
	return stop || b->err;
}

static bool stops(void *backlog)
{
	return stopping(backlog);
}

/* ---- the queue ---- */

/* To be taken next, or `first` in the queue: after all others. With references of its own. */
static int put(struct backlog *b, const struct queued *q, bool first)
{
	size_t room = b->room ? 2 * b->room : 1024;
	struct queued *grown;

	if (b->count == b->room) {
		grown = realloc(b->queue, room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		b->queue = grown;
		b->room = room;
	}
	if (first)
		memmove(b->queue + 1, b->queue, b->count * sizeof(*b->queue));
	grown = &b->queue[first ? 0 : b->count];
	b->count++;
	*grown = *q;
	grown->inode = q->inode ? inode_ref(q->inode) : NULL;
	grown->parent = q->parent ? inode_ref(q->parent) : NULL;
	return 0;
}

static int enqueue(struct backlog *b, const struct gfid *g, struct inode *inode, struct inode *parent)
{
	struct queued q = { .gfid = *g, .inode = inode, .parent = parent };
	int err;

	pthread_mutex_lock(&b->lock);
	err = put(b, &q, false);
	pthread_mutex_unlock(&b->lock);
	task_cond_broadcast(&b->changed);
	return err;
}

/* What must wait for others goes to the other end. */
static int enqueue_first(struct backlog *b, const struct queued *q)
{
	int err;

	pthread_mutex_lock(&b->lock);
	err = put(b, q, true);
	pthread_mutex_unlock(&b->lock);
	task_cond_broadcast(&b->changed);
	if (err)
		return err;
	task_sleep_ms(BUSY_MS);
	return 0;
}

static void drop_queue(struct backlog *b)
{
	for (size_t i = 0; i < b->count; i++) {
		inode_unref(b->queue[i].inode);
		inode_unref(b->queue[i].parent);
	}
	b->count = 0;
}

/* The next object; waits while others may still find some. False: there is nothing more. */
static bool take(struct backlog *b, struct queued *q)
{
	bool got = false;

	pthread_mutex_lock(&b->lock);
	while (!b->count && b->running && b->crawl && !b->err)
		task_cond_wait(&b->changed, &b->lock, NO_DEADLINE);
	if (b->count && !b->err) {
		*q = b->queue[--b->count];
		b->running++;
		got = true;
	}
	pthread_mutex_unlock(&b->lock);
	return got;
}

/* Of no use to go on: the view has changed or is to change, or the member is gone. */
static bool ends_all(int err)
{
	return err == -EVIEW || err == -ENOTCONN || err == -ETIMEDOUT || err == -ECANCELED;
}

static void did(struct backlog *b, const struct queued *q, int err)
{
	pthread_mutex_lock(&b->lock);
	b->running--;
	b->done += !err && !q->above; /* what it was healed for may wait for something else */
	b->failed += err != 0;
	if (ends_all(err)) {
		b->err = err;
	} else if (err) {
		b->stuck = q->gfid;
		b->why = err;
	}
	pthread_mutex_unlock(&b->lock);
	task_cond_broadcast(&b->changed);
	pthread_mutex_lock(&b->c->lock);
	b->c->member[b->to].healed += !err;
	pthread_mutex_unlock(&b->c->lock);
}

/* It waits for another directory, and is put back, as long as others get done. Where nothing does it might wait for ever: for one that failed
 * in this walk and is not looked at again. */
static bool may_wait(struct backlog *b, struct queued *q)
{
	uint64_t now = clock_ns();

	pthread_mutex_lock(&b->lock);
	if (!q->waits_since_ns || q->done != b->done) {
		q->waits_since_ns = now;
		q->done = b->done;
	}
	pthread_mutex_unlock(&b->lock);
	return now < q->waits_since_ns + PATIENCE_NS;
}

/* It was put back. */
static void waits(struct backlog *b)
{
	pthread_mutex_lock(&b->lock);
	b->running--;
	pthread_mutex_unlock(&b->lock);
	task_cond_broadcast(&b->changed);
}

/* ---- one object ---- */

struct listing {
	struct backlog *b;
	struct inode *directory;
};

static int add_child(void *listing, const struct dirent_plus *e)
{
	struct listing *l = listing;

	return enqueue(l->b, &e->gfid, e->inode, l->directory);
}

/* In a crawl: what a directory names is looked at, too. */
static int add_children(struct backlog *b, struct request *rq, const struct gfid *g, int from)
{
	cleanup_inode struct inode *inode = NULL;
	struct listing l = { b, NULL };
	int err = heal_find(&b->c->heal, rq, g, -1, from, &inode);

	if (err || !S_ISDIR(inode->type))
		return err == -ENOENT ? 0 : err;
	l.directory = inode;
	return heal_list(&b->c->heal, rq, from, inode, add_child, &l);
}

/* -EINPROGRESS: it stays on the list, for a change was skipped since that was fetched. */
static int strike(struct backlog *b, const struct gfid *g, bool gone)
{
	struct blob answer = { 0 };
	struct pack p = { 0 };
	struct unpack u;
	int err;

	pack_u8(&p, gone ? STRIKE_GONE : 0);
	pack_gfid(&p, g);
	err = ask_member(b->c, b->to, REPLICA_STRIKE, &p, &answer, clock_ns() + coordinator_lease_ns(b->c));
	if (err)
		return err;
	u = unpack_blob(&answer);
	err = unpack_u32(&u) ? -EINPROGRESS : 0;
	free(answer.bytes);
	return err;
}

/* Under the token: what was skipped so far is healed from here on, and data that are changed later are changed there, too. */
static int follow(struct backlog *b, const struct gfid *g)
{
	struct pack p = { 0 };

	pack_gfid(&p, g);
	return tell_member(b->c, b->to, REPLICA_FOLLOW, &p);
}

/* What the directory waits for may be below it: so that is looked at first, and again once the directory is as it should be. */
static int list_early(struct backlog *b, struct request *rq, struct queued *q, int from)
{
	int err = q->listed ? 0 : add_children(b, rq, &q->gfid, from);

	q->listed = !err;
	return err ? err : -EAGAIN;
}

/* The end of an object's healing, under its token. Written all the time it would never leave the list: so it is healed once more at once. */
static int finish(struct backlog *b, struct request *rq, struct queued *q, int from, bool gone)
{
	int err = strike(b, &q->gfid, gone);
	bool more;

	if (err != -EINPROGRESS || gone)
		return err == -EINPROGRESS ? 0 : err;
	err = follow(b, &q->gfid);
	if (!err)
		err = heal_piece(&b->c->heal, rq, &q->gfid, from, b->to, 0, UINT64_MAX, &more);
	if (!err)
		err = strike(b, &q->gfid, false);
	return err == -EINPROGRESS ? 0 : err;
}

/* Its name goes with its directory's healing, and until then the unlink may yet be undone: so it stays on the list. Not for ever: no
 * change is under way for longer than its client waits for members. */
static bool may_come_back(struct backlog *b, struct request *rq, const struct queued *q)
{
	uint64_t now = clock_ns(), since;

	if (!heal_named(&b->c->heal, rq, &q->gfid, b->to))
		return false;
	pthread_mutex_lock(&b->lock);
	b->met_gone = true;
	b->gone_since_ns = b->gone_since_ns ? b->gone_since_ns : now;
	since = b->gone_since_ns;
	pthread_mutex_unlock(&b->lock);
	return now < since + GONE_NS;
}

/* A piece of it; *at is where the next begins, 0: it is done. */
static int heal_under_token(struct backlog *b, struct request *rq, struct queued *q, uint64_t *at)
{
	int from = view_first(&b->view);
	uint64_t piece = b->c->heal_piece;
	bool more = false;
	int err = heal_piece(&b->c->heal, rq, &q->gfid, from, b->to, *at, piece, &more);

	if (err == -EAGAIN && b->crawl)
		return list_early(b, rq, q, from);
	if (!err && more) {
		err = *at ? 0 : follow(b, &q->gfid);
		*at += piece;
		return err;
	}
	*at = 0;
	if (err == -ENOENT && may_come_back(b, rq, q))
		return -EAGAIN;
	if (!err || err == -ENOENT)
		err = finish(b, rq, q, from, err);
	if (!err && b->crawl)
		err = add_children(b, rq, &q->gfid, from);
	return err;
}

enum { GIVE_WAY_MS = 500 };

/* *wanted: somebody else asked for the token. */
static int heal_some(struct backlog *b, struct queued *q, uint64_t *at, bool *wanted)
{
	const struct gfid *g = &q->gfid;
	struct request rq;
	int err = session_acquire(b->c, &b->view, g, stops, b);

	if (err)
		return err;
	err = heal_request(&b->c->heal, &rq);
	if (!err)
		err = heal_under_token(b, &rq, q, at);
	heal_request_end(&rq);
	*wanted = session_release(b->c, &b->view, g);
	return err;
}

/* Who writes to a large file while it is healed has half of the time. */
static int heal_one(struct backlog *b, struct queued *q)
{
	bool wanted = false;
	uint64_t at = 0;
	int err;

	do {
		uint64_t began = clock_ns(), spent;

		err = heal_some(b, q, &at, &wanted);
		spent = (clock_ns() - began) / 1000000;
		if (!err && at && wanted)
			task_sleep_ms(spent < GIVE_WAY_MS ? spent : GIVE_WAY_MS);
	} while (!err && at && !stopping(b));
	return !err && at ? -ECANCELED : err;
}

static int add_above(void *backlog, struct inode *directory)
{
	struct backlog *b = backlog;
	int err = 0;

	pthread_mutex_lock(&b->lock);
	for (size_t i = 0; i < b->above.count && !err; i++)
		err = gfid_equal(&b->above.gfid[i], &directory->gfid);
	if (!err)
		err = list_add(&b->above, &directory->gfid);
	if (!err)
		err = put(b, &(struct queued){ .gfid = directory->gfid, .inode = directory, .above = true }, false);
	pthread_mutex_unlock(&b->lock);
	return err > 0 ? 0 : err;
}

/* It waits for the directory that names it, and that is on no list: a power cut of all members took what their lists said of it. So that is healed,
 * too, and those above it as far as the member lacks them. */
static int heal_above_it(struct backlog *b, const struct gfid *g)
{
	struct request rq;
	int err = heal_request(&b->c->heal, &rq);

	if (!err)
		err = heal_above(&b->c->heal, &rq, g, view_first(&b->view), add_above, b);
	heal_request_end(&rq);
	return err ? err : -EAGAIN;
}

static void worker(void *arg)
{
	struct backlog *b = arg;
	struct queued q;

	while (!stopping(b) && take(b, &q)) {
		int err = heal_one(b, &q);

		if (err == -EAGAIN && !b->crawl && b->fruitless >= LACKS_SOME)
			err = heal_above_it(b, &q.gfid);
		if (err == -EAGAIN && b->crawl && may_wait(b, &q) && !(err = enqueue_first(b, &q)))
			waits(b);
		else
			did(b, &q, err);
		inode_unref(q.inode);
		inode_unref(q.parent);
	}
	pthread_mutex_lock(&b->c->lock);
	b->c->member[b->to].workers--;
	task_cond_broadcast(&b->c->changed);
	pthread_mutex_unlock(&b->c->lock);
}

/* ---- a member ---- */

static void run_workers(struct backlog *b)
{
	struct coordinator *c = b->c;

	for (int i = 0; i < c->heal_tasks; i++) {
		pthread_mutex_lock(&c->lock);
		c->member[b->to].workers++;
		pthread_mutex_unlock(&c->lock);
		if (task_spawn(runtime_shard((unsigned)i % runtime_shards()), worker, b)) {
			pthread_mutex_lock(&c->lock);
			c->member[b->to].workers--;
			pthread_mutex_unlock(&c->lock);
			break;
		}
	}
	pthread_mutex_lock(&c->lock);
	while (c->member[b->to].workers)
		task_cond_wait(&c->changed, &c->lock, NO_DEADLINE);
	pthread_mutex_unlock(&c->lock);
}

int pending_ask(struct coordinator *c, int member, uint64_t *count, bool *all, struct blob *answer, struct unpack *rest)
{
	struct pack p = { 0 };
	struct unpack u;
	int err;

	pack_u64(&p, 0);
	err = ask_member(c, member, REPLICA_PENDING, &p, answer, clock_ns() + coordinator_lease_ns(c));
	if (err)
		return err;
	u = unpack_blob(answer);
	*count = unpack_u64(&u);
	*all = unpack_u8(&u);
	if (rest)
		*rest = u;
	return u.failed ? -EPROTO : 0;
}

/* What is pending now, up to some thousands. */
static int fetch(struct backlog *b, uint64_t *count, bool *all)
{
	struct blob answer = { 0 };
	struct unpack u;
	int err = pending_ask(b->c, b->to, count, all, &answer, &u);

	if (err) {
		free(answer.bytes);
		return err;
	}
	drop_queue(b);
	while (unpack_more(&u) && !err) {
		struct gfid g = unpack_gfid(&u);

		err = u.failed ? -EPROTO : enqueue(b, &g, NULL, NULL);
	}
	free(answer.bytes);
	pthread_mutex_lock(&b->c->lock);
	b->c->member[b->to].heal_total = b->c->member[b->to].healed + *count;
	pthread_mutex_unlock(&b->c->lock);
	return err;
}

/* The whole tree, from the root down; then what is not known to be pending is known to be right. */
static int crawl(struct backlog *b)
{
	struct pack p = { 0 };
	int err;

	log_info(b->c->x, NULL, "member %d is healed as a whole", b->to);
	drop_queue(b);
	b->crawl = true;
	b->failed = 0;
	err = heal_keep_links(&b->c->heal);
	if (!err)
		err = enqueue(b, &gfid_root, NULL, NULL);
	if (!err)
		run_workers(b);
	heal_forget_links(&b->c->heal);
	b->crawl = false;
	if (err || b->err || b->failed || b->count || stopping(b))
		return err ? err : b->err ? b->err : -EAGAIN;
	pack_u8(&p, STRIKE_REST);
	return tell_member(b->c, b->to, REPLICA_STRIKE, &p);
}

static int purge(struct backlog *b)
{
	struct request rq;
	int err = heal_request(&b->c->heal, &rq);

	if (!err)
		err = heal_purge_limbo(&b->c->heal, &rq, b->to);
	heal_request_end(&rq);
	return err;
}

static int sync_of(const struct fanout *f, int member)
{
	int err;

	fanout_out(f, member, &err);
	return err;
}

/* A slow disk must not hold up who stops the coordinator. */
static void await_syncs(struct backlog *b, struct fanout *f, unsigned members, uint64_t deadline)
{
	int wanted = __builtin_popcount(members);
	bool waits = true;

	while (waits && clock_ns() < deadline && !atomic_load(&b->c->stopping)) {
		fanout_wait(f, wanted, clock_ns() + SLICE_NS);
		waits = false;
		for (int i = 0; i < b->c->members; i++)
			waits |= members >> i & 1 && sync_of(f, i) == -EINPROGRESS;
	}
	if (waits)
		fanout_cancel(f);
}

enum { SLOW_SYNCS = 3 };

/* The others are asked for more safety: who is slow is asked again, but one that can't is as good as lost, and must not keep the set from being
 * whole. */
static int matters(struct backlog *b, int member, int err)
{
	struct remote_member *m = &b->c->member[member];
	unsigned slow;

	if (member == b->to || err == -ECANCELED)
		return err;
	pthread_mutex_lock(&b->c->lock);
	slow = m->slow_syncs = err == -ETIMEDOUT ? m->slow_syncs + 1 : 0;
	pthread_mutex_unlock(&b->c->lock);
	return slow % SLOW_SYNCS ? err : 0;
}

static int judge_syncs(struct backlog *b, struct fanout *f, unsigned members)
{
	int err = 0;

	for (int i = 0; i < b->c->members; i++) {
		int one = members >> i & 1 ? sync_of(f, i) : 0;

		if (one == -EINPROGRESS)
			one = atomic_load(&b->c->stopping) ? -ECANCELED : -ETIMEDOUT;
		if (one && one != -ECANCELED && one != -EVIEW)
			log_warning(b->c->x, NULL, "member %d could not sync its disk after member %d was healed: %s", i, b->to,
				    error_text(one));
		one = members >> i & 1 ? matters(b, i, one) : 0;
		err = one ? one : err;
	}
	return err;
}

/* What healing wrote was fsynced elsewhere long ago: once the member is IN, it may be the one that all others are made equal to. And what
 * healing found there already is in no index of the member's own: so those that have it in theirs must not lose it either. */
static int make_durable(struct backlog *b)
{
	unsigned members = 1u << b->to | view_mask(&b->view, MEMBER_IN);
	struct heal *h = &b->c->heal;
	struct replica_in in = { 0 };
	struct fanout *f = NULL;
	struct request rq;
	int err = heal_request(h, &rq);

	rq.deadline_ns = clock_ns() + SYNC_NS;
	if (!err)
		err = heal_verb_in(h, REPLICA_SYNC, NULL, NULL, &in);
	if (!err)
		f = fanout_start(&rq, b->c->x, FOP_replica, &in, members);
	if (f) {
		await_syncs(b, f, members, rq.deadline_ns);
		err = judge_syncs(b, f, members);
		fanout_leave(f, NULL);
	} else if (!err) {
		err = -ENOMEM;
	}
	free(in.data.bytes);
	heal_request_end(&rq);
	return err;
}

/* Between two rounds: the longer, the longer nothing could be healed, and then people are told. */
static void rest(struct backlog *b, bool healed_some)
{
	unsigned pause = QUIET_MS;
	char text[GFID_TEXT];

	b->fruitless = healed_some ? 0 : b->fruitless + 1;
	if (healed_some)
		return;
	if (b->fruitless >= FRUITLESS) {
		pause = PAUSE_MS;
		if (clock_ns() > b->told_ns + TELL_NS && b->why) {
			b->told_ns = clock_ns();
			log_warning(b->c->x, NULL, "member %d can't be healed to the end: %s: %s; it is tried again and again",
				    b->to, gfid_text(&b->stuck, text), error_text(b->why));
		}
	}
	for (unsigned spent = 0; spent < pause && !stopping(b); spent += QUIET_MS)
		task_sleep_ms(QUIET_MS);
}

/* What the first does not know by its gfid would count as gone, and be struck off. */
static int keep_missed(struct backlog *b, const struct gfid *directory)
{
	struct inode **grown = realloc(b->missed_kept, (b->missed.count + 1) * sizeof(struct inode *)), *inode = NULL;
	struct request rq;
	int err;

	if (!grown)
		return -ENOMEM;
	b->missed_kept = grown;
	err = heal_request(&b->c->heal, &rq);
	if (!err)
		heal_find(&b->c->heal, &rq, directory, -1, view_first(&b->view), &inode);
	heal_request_end(&rq);
	err = err ? err : list_add(&b->missed, directory);
	if (!err)
		grown[b->missed.count - 1] = inode;
	else
		inode_unref(inode);
	return err;
}

static void forget_missed(struct backlog *b)
{
	for (size_t i = 0; i < b->missed.count; i++)
		inode_unref(b->missed_kept[i]);
	free(b->missed_kept);
	list_free(&b->missed);
}

static int add_missed(void *backlog, const struct gfid *directory)
{
	struct backlog *b = backlog;
	struct pack p = { 0 };
	int err;

	for (size_t i = 0; i < b->missed.count; i++)
		if (gfid_equal(&b->missed.gfid[i], directory))
			return 0;
	err = keep_missed(b, directory);
	if (err)
		return err;
	pack_u8(&p, 0);
	pack_gfid(&p, directory);
	return tell_member(b->c, b->to, REPLICA_ADD_PENDING, &p);
}

/* As in a recovery: what the lists don't tell of after a power cut of all must not be deleted for it. *count: directories that are pending now. */
static int pend_missed(struct backlog *b, uint64_t *count)
{
	size_t before = b->missed.count;
	struct request rq;
	bool owed;
	int err;

	pthread_mutex_lock(&b->c->lock);
	owed = b->c->owed.scrub;
	pthread_mutex_unlock(&b->c->lock);
	if (!owed || MUTANT("purge-blindly"))
		return 0;
	err = heal_request(&b->c->heal, &rq);
	if (!err)
		err = heal_missed(&b->c->heal, &rq, view_first(&b->view), b->to, add_missed, b);
	heal_request_end(&rq);
	*count = b->missed.count - before;
	return err;
}

static int heal_member(struct backlog *b)
{
	uint64_t count = 1;
	bool all = true;
	int err = session_attach(b->c, &b->view);

	while (!err && !stopping(b)) {
		err = fetch(b, &count, &all);
		if (!err && !count && !all)
			err = pend_missed(b, &count);
		if (err || (!count && !all))
			break;
		if (!b->count && !all)
			continue;
		b->met_gone = false;
		if (all) {
			err = crawl(b);
			rest(b, !err);
			err = err == -EAGAIN ? 0 : err;
			continue;
		}
		b->done = 0;
		list_free(&b->above);
		run_workers(b);
		b->gone_since_ns = b->met_gone ? b->gone_since_ns : 0;
		err = b->err;
		rest(b, b->done);
	}
	if (!err && !count && !all)
		err = purge(b);
	return err ? err : count || all ? -ECANCELED : 0;
}

static void healer(void *arg)
{
	struct remote_member *m = arg;
	struct coordinator *c = m->c;
	struct backlog b = { .c = c, .to = m->number, .lock = PTHREAD_MUTEX_INITIALIZER };
	int err;

	pthread_mutex_lock(&c->lock);
	b.view = c->view;
	m->healed = m->heal_total = 0;
	m->heal_started_ns = clock_ns();
	pthread_mutex_unlock(&c->lock);
	err = heal_member(&b);
	if (err && err != -ECANCELED && err != -EVIEW)
		log_warning(c->x, NULL, "the healing of member %d was interrupted: %s", m->number, error_text(err));
	if (err)
		task_sleep_ms(BUSY_MS);
	drop_queue(&b);
	list_free(&b.above);
	forget_missed(&b);
	free(b.queue);
	pthread_mutex_lock(&c->lock); /* the sync may take long, and stands in nobody's way: views may change meanwhile */
	m->healing = false;
	m->syncing = !err;
	task_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	if (!err) {
		err = make_durable(&b);
		for (unsigned spent = 0; err && spent < PAUSE_MS && !stopping(&b); spent += QUIET_MS)
			task_sleep_ms(QUIET_MS);
	}
	pthread_mutex_lock(&c->lock);
	m->healthy |= !err && c->view.epoch == b.view.epoch && !m->last.unsynced;
	m->syncing = false;
	task_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	coordinator_task_ends(c);
}

void healers_start(struct coordinator *c)
{
	for (int i = 0; i < c->members; i++) {
		struct remote_member *m = &c->member[i];
		bool start;

		pthread_mutex_lock(&c->lock);
		start = c->view.epoch && c->view.state[i] == MEMBER_BACK && !m->healing && !m->syncing && !m->healthy &&
			member_live(c, i) && m->last.epoch == c->view.epoch && !c->unrecovered;
		m->healing |= start;
		m->heal_stop = false;
		pthread_mutex_unlock(&c->lock);
		if (start && coordinator_spawn(c, healer, m)) {
			pthread_mutex_lock(&c->lock);
			m->healing = false;
			pthread_mutex_unlock(&c->lock);
		}
	}
}

void healers_stop(struct coordinator *c)
{
	atomic_store(&c->heal.halt, true);
	pthread_mutex_lock(&c->lock);
	for (int i = 0; i < c->members; i++) {
		struct remote_member *m = &c->member[i];

		m->heal_stop = true;
		while (m->healing)
			task_cond_wait(&c->changed, &c->lock, NO_DEADLINE);
		m->healthy = m->healthy && c->view.epoch && c->view.state[i] == MEMBER_BACK;
	}
	while (c->tidying)
		task_cond_wait(&c->changed, &c->lock, NO_DEADLINE);
	pthread_mutex_unlock(&c->lock);
	atomic_store(&c->heal.halt, atomic_load(&c->stopping));
}
