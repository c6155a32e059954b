/* SPDX-License-Identifier: Apache-2.0 */
/* features/believe: what those above may believe without asking (believe_ms in xlator.h), where the brick below gives leases and recalls them
 * (features/lease). The protocol, and why nobody reads what is old, is in doc/leases.md.
 *
 * Nothing is kept for each object. Moments are of the clock, so how old a lease is shows in the moment; and of recalls and of this client's own
 * changes it is noted by the object's hash when the last one was. Two objects of one hash cost a question more than needed. */
#include "lease.h"

enum { PROVE_AGAIN_MS = LEASE_PROOF_MS / 3, TAKEN_MS = 20, MARGIN_MS = 2000, HASHES = 4096, ANSWER_MS = 2000 };

struct own {					    /* changes of objects of one hash by this client */
	atomic_uint any, meta;			    /* under way */
	atomic_uint_fast64_t touched, touched_meta; /* when the last one ended */
};

struct believer {
	struct xlator *x;
	atomic_uint_fast64_t recalled[HASHES]; /* what was asked for before is not believed */
	struct own own[HASHES];
	atomic_uint_fast64_t gap;      /* the same, of all objects */
	atomic_uint_fast64_t taken_ns; /* when something was told last that the kernel takes in later */
	atomic_uint_fast64_t believed, refused, recalls;
	atomic_bool up;

	pthread_mutex_t lock; /* guards what follows */
	struct task_cond ended;
	uint64_t epoch, proved_ns;
	bool proving, stopping;
	unsigned tasks;
};

/* One for all bricks of the process, so that cluster/dht can hand on what one of them gave. */
static atomic_uint_fast64_t last_moment;

static uint64_t moment_at_least(uint64_t least)
{
	uint64_t last = atomic_load(&last_moment);

	do
		least = last > least ? last : least;
	while (!atomic_compare_exchange_weak(&last_moment, &last, least));
	return least;
}

static uint64_t this_moment(void)
{
	return moment_at_least(clock_ns());
}

/* After all that have been given. */
static uint64_t next_moment(void)
{
	uint64_t last = this_moment();

	while (!atomic_compare_exchange_weak(&last_moment, &last, last + 1))
		;
	return last + 1;
}

static void rise(atomic_uint_fast64_t *at, uint64_t to)
{
	uint64_t was = atomic_load(at);

	while (was < to && !atomic_compare_exchange_weak(at, &was, to))
		;
}

static unsigned hash_of(const struct gfid *g)
{
	return gfid_hash(g) % HASHES;
}

/* ---- tasks ---- */

static bool task_begins(struct believer *b, task_fn *fn, void *arg)
{
	bool yes;

	pthread_mutex_lock(&b->lock);
	yes = !b->stopping && !task_spawn(NULL, fn, arg);
	b->tasks += yes;
	pthread_mutex_unlock(&b->lock);
	return yes;
}

static void task_ends(struct believer *b)
{
	pthread_mutex_lock(&b->lock);
	b->tasks--;
	task_cond_broadcast(&b->ended);
	pthread_mutex_unlock(&b->lock);
}

/* ---- the brick's word ---- */

static int say(struct believer *b, enum lease_verb verb, uint64_t number, uint64_t *epoch)
{
	struct lease_in in = { .verb = verb, .number = number };
	struct lease_out out = { 0 };
	struct request rq;
	int err;

	request_init(&rq, b->x->graph, 0);
	rq.group_count = 0;
	rq.deadline_ns = clock_ns() + ANSWER_MS * 1000000ull;
	err = fop_call(&rq, b->x->child[0], FOP_lease, &in, &out);
	request_finish(&rq);
	if (epoch)
		*epoch = out.epoch;
	return err;
}

static void prove_task(void *arg)
{
	struct believer *b = arg;
	uint64_t sent_ns = clock_ns(), epoch;
	int err = say(b, LEASE_PROVE, 0, &epoch);

	pthread_mutex_lock(&b->lock);
	if (!err && epoch != b->epoch) /* what was leased before is not recalled any more */
		rise(&b->gap, next_moment());
	if (!err) {
		b->epoch = epoch;
		b->proved_ns = sent_ns;
	}
	b->proving = false;
	pthread_mutex_unlock(&b->lock);
	task_ends(b);
}

/* It is asked for anew in time; who finds none goes without. Recalls go to the graph that has the connection now. */
static bool proved(struct believer *b)
{
	uint64_t now = clock_ns();
	bool yes, ask;

	pthread_mutex_lock(&b->lock);
	yes = b->epoch && b->x->child[0]->graph == b->x->graph && now < b->proved_ns + LEASE_PROOF_MS * 1000000ull;
	ask = atomic_load(&b->up) && !b->proving && (!yes || now > b->proved_ns + PROVE_AGAIN_MS * 1000000ull);
	b->proving |= ask;
	pthread_mutex_unlock(&b->lock);
	if (ask && !task_begins(b, prove_task, b)) {
		pthread_mutex_lock(&b->lock);
		b->proving = false;
		pthread_mutex_unlock(&b->lock);
	}
	return yes;
}

/* ---- what holds ---- */

static bool own_changed(const struct own *o, enum believe what, uint64_t since)
{
	if (what == BELIEVE_NAME)
		return false;
	if (what == BELIEVE_META)
		return atomic_load(&o->meta) || atomic_load(&o->touched_meta) > since;
	return atomic_load(&o->any) || atomic_load(&o->touched) > since;
}

static bool holds(struct believer *b, const struct inode *inode, enum believe what, uint64_t since)
{
	unsigned hash = hash_of(&inode->gfid);

	return since > atomic_load(&b->gap) && since >= atomic_load(&b->recalled[hash]) &&
	       clock_ns() < since + (LEASE_KEPT_MS - MARGIN_MS) * 1000000ull && !own_changed(&b->own[hash], what, since);
}

static uint64_t believe(struct xlator *x, struct inode *inode, enum believe what, uint64_t since)
{
	struct believer *b = x->private;

	if (!inode) {
		proved(b); /* its word comes while something is read */
		return this_moment();
	}
	if (what == BELIEVE_NAMES || what == BELIEVE_ATTR_LATE) /* before it is looked whether it holds */
		rise(&b->taken_ns, clock_ns());
	if (!proved(b) || !holds(b, inode, what, since)) {
		atomic_fetch_add(&b->refused, 1);
		return 0;
	}
	atomic_fetch_add(&b->believed, 1);
	return LEASE_BELIEF_MS;
}

/* ---- what is asked and changed by this client ---- */

struct touching {
	struct believer *b;
	bool meta, begins;
};

static void touch(void *arg, struct inode *inode)
{
	struct touching *t = arg;
	struct own *o = &t->b->own[hash_of(&inode->gfid)];
	uint64_t now = t->begins ? 0 : next_moment();

	if (t->begins) {
		atomic_fetch_add(&o->any, 1);
		atomic_fetch_add(&o->meta, t->meta);
		return;
	}
	rise(&o->touched, now);
	if (t->meta)
		rise(&o->touched_meta, now);
	atomic_fetch_sub(&o->meta, t->meta);
	atomic_fetch_sub(&o->any, 1);
}

static void doubt(void *arg, struct inode *inode)
{
	struct believer *b = arg;

	rise(&b->recalled[hash_of(&inode->gfid)], next_moment());
}

/* The brick says of this answer that it will recall it. */
static bool take_leased(struct request *rq)
{
	struct extension **at = &rq->reply_extensions;
	bool any = false;

	while (*at) {
		struct extension *e = *at;

		if (e->type != LEASED_EXTENSION) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		e->next = NULL;
		extensions_free(&e);
		any = true;
	}
	return any;
}

static int believe_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	struct believer *b = x->private;
	struct touching t = { b, lease_changes_meta(fop, in), true };
	int err;

	lease_changed(fop, in, touch, &t);
	err = fop_call(rq, x->child[0], fop, in, out);
	t.begins = false;
	lease_changed(fop, in, touch, &t);
	if (fop == FOP_compound)
		rise(&b->gap, next_moment());
	if (!take_leased(rq) && lease_teaches(fop, err))
		lease_taught(fop, in, out, doubt, b);
	return err;
}

/* ---- events, set-up ---- */

struct recall {
	struct believer *b;
	struct gfid gfid;
	uint64_t number;
};

/* Some of it the kernel takes in some time after it was told, as if it were new then: that is waited for. What has no inode here the kernel knows
 * by no name, or by one of another graph. */
static void recall_task(void *arg)
{
	struct recall *r = arg;
	struct believer *b = r->b;
	struct inode *inode = inode_find(b->x->inodes, &r->gfid);
	struct event e = { .kind = EVENT_DISBELIEVE, .inode = inode };

	if (clock_ns() < atomic_load(&b->taken_ns) + TAKEN_MS * 1000000ull)
		task_sleep_ms(TAKEN_MS);
	event_up(b->x, &e);
	inode_unref(inode);
	say(b, LEASE_RELEASED, r->number, NULL);
	free(r);
	task_ends(b);
}

/* Without memory the brick waits until its word has run out. */
static void recalled(struct believer *b, const struct event *e)
{
	struct recall *r = malloc(sizeof(*r));
	struct gfid g = event_gfid(e);

	rise(&b->recalled[hash_of(&g)], next_moment());
	atomic_fetch_add(&b->recalls, 1);
	if (!r)
		return;
	*r = (struct recall){ b, g, e->lock.owner };
	if (!task_begins(b, recall_task, r))
		free(r);
}

static void believe_notify(struct xlator *x, struct xlator *from, const struct event *e)
{
	struct believer *b = x->private;

	(void)from;
	if (e->kind == EVENT_RECALL) {
		recalled(b, e);
		return;
	}
	if (e->kind == EVENT_CHILD_UP || e->kind == EVENT_CHILD_DOWN)
		atomic_store(&b->up, e->kind == EVENT_CHILD_UP);
	event_up(x, e);
}

static int believe_init(struct xlator *x, struct problem *p)
{
	struct believer *b = x->private;

	(void)p;
	b->x = x;
	pthread_mutex_init(&b->lock, NULL);
	atomic_store(&b->gap, next_moment());
	return 0;
}

static void wait_for_tasks(void *arg)
{
	struct believer *b = arg;

	pthread_mutex_lock(&b->lock);
	b->stopping = true;
	while (b->tasks)
		task_cond_wait(&b->ended, &b->lock, NO_DEADLINE);
	pthread_mutex_unlock(&b->lock);
}

static void believe_stop(struct xlator *x)
{
	if (task_self())
		wait_for_tasks(x->private);
	else
		task_call(wait_for_tasks, x->private); /* who follows the volume's file is a thread of its own */
}

static void believe_finish(struct xlator *x)
{
	pthread_mutex_destroy(&((struct believer *)x->private)->lock);
}

static void believe_dump(struct xlator *x, FILE *f)
{
	struct believer *b = x->private;

	fprintf(f, "  believed: %llu\n  to be asked: %llu\n  recalls: %llu\n", (unsigned long long)b->believed,
		(unsigned long long)b->refused, (unsigned long long)b->recalls);
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "features/believe",
	.summary = "says what may be believed without asking the brick, by the leases of features/lease",
	.private_size = sizeof(struct believer),
	.min_children = 1,
	.max_children = 1,
	.init = believe_init,
	.stop = believe_stop,
	.finish = believe_finish,
	.notify = believe_notify,
	.believe = believe,
	.dump = believe_dump,
	.any = believe_any,
};
