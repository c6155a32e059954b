/* SPDX-License-Identifier: Apache-2.0 */
/* The view as the client knows it: fetched from the members, which have it from the coordinator. */
#include "afr.h"

enum { FETCH_NS = 1000000000, PAUSE_MIN_MS = 5, PAUSE_MAX_MS = 100 };

/* ---- tasks ---- */

int afr_spawn(struct afr *a, task_fn *fn, void *arg)
{
	bool stopping;
	int err;

	pthread_mutex_lock(&a->lock);
	stopping = a->stopping;
	a->tasks += !stopping;
	pthread_mutex_unlock(&a->lock);
	if (stopping)
		return -ECANCELED;
	err = task_spawn(NULL, fn, arg);
	if (err)
		afr_task_ends(a);
	return err;
}

/* On the caller's shard; also at the end, which waits for him. */
static int spawn_here(struct afr *a, task_fn *fn, void *arg)
{
	int err;

	pthread_mutex_lock(&a->lock);
	a->tasks++;
	pthread_mutex_unlock(&a->lock);
	err = task_spawn(task_shard(task_self()), fn, arg);
	if (err)
		afr_task_ends(a);
	return err;
}

int afr_spawn_single(struct afr *a, bool *running, task_fn *fn)
{
	bool runs;
	int err;

	pthread_mutex_lock(&a->lock);
	runs = *running;
	*running = true;
	pthread_mutex_unlock(&a->lock);
	if (runs)
		return -EALREADY;
	err = afr_spawn(a, fn, a);
	if (err) {
		pthread_mutex_lock(&a->lock);
		*running = false;
		pthread_mutex_unlock(&a->lock);
	}
	return err;
}

void afr_task_ends(struct afr *a)
{
	pthread_mutex_lock(&a->lock);
	a->tasks--;
	task_cond_broadcast(&a->changed); /* with the lock: stop may free all of it as soon as that is let go */
	pthread_mutex_unlock(&a->lock);
}

/* ---- verbs ---- */

uint64_t afr_deadline(const struct afr *a, const struct request *rq)
{
	uint64_t own = clock_ns() + a->max_wait_ms * 1000000;

	return rq->deadline_ns && rq->deadline_ns < own ? rq->deadline_ns : own;
}

void own_request(struct afr *a, struct request *rq)
{
	request_init(rq, a->x->graph, 0);
	rq->group_count = 0;
	rq->deadline_ns = clock_ns() + a->member_timeout_ms * 1000000;
}

int afr_ask(struct afr *a, int child, enum replica_verb verb, struct inode *inode, struct pack *more, uint64_t deadline,
	    struct replica_out *out)
{
	struct replica_in in = { .verb = verb, .inode = inode };
	struct replica_stamp who = { .session = session_tag(a->session) };
	struct request rq;
	int err = more ? pack_end(more, &in.data) : 0;

	if (err)
		return err;
	request_init(&rq, a->x->graph, 0);
	rq.group_count = 0;
	rq.deadline_ns = deadline;
	err = stamp_attach(&rq, &who);
	if (!err)
		err = fop_call(&rq, a->x->child[child], FOP_replica, &in, out);
	request_finish(&rq);
	free(in.data.bytes);
	return err;
}

int afr_verb(struct afr *a, int child, enum replica_verb verb, struct inode *inode, struct pack *more, uint64_t deadline,
	     struct blob *answer)
{
	struct replica_out out = { 0 };
	int err = afr_ask(a, child, verb, inode, more, deadline, &out);

	if (err)
		return err;
	if (answer) {
		*answer = out.data;
		out.data = (struct blob){ 0 };
	}
	fop_out_clear(FOP_replica, &out);
	return 0;
}

struct telling {
	struct afr *a;
	pthread_mutex_t lock;
	struct task_cond done;
	unsigned left, good;
};
struct told {
	struct telling *t;
	int child;
	enum replica_verb verb;
	struct pack more;
};

static void tell_one(void *arg)
{
	struct told *one = arg;
	struct telling *t = one->t;
	int err = afr_verb(t->a, one->child, one->verb, NULL, &one->more, clock_ns() + FETCH_NS, NULL);

	pthread_mutex_lock(&t->lock);
	t->left--;
	t->good |= err ? 0 : 1u << one->child;
	task_cond_broadcast(&t->done);
	pthread_mutex_unlock(&t->lock);
}

unsigned afr_tell(struct afr *a, unsigned mask, enum replica_verb verb, const struct pack *what)
{
	struct telling t = { .a = a, .lock = PTHREAD_MUTEX_INITIALIZER };
	struct told one[REPLICAS_MAX];

	task_shield(true);
	for (int i = 0; i < a->members; i++) {
		if (!(mask >> i & 1))
			continue;
		one[i] = (struct told){ &t, i, verb, { 0 } };
		pack_bytes(&one[i].more, what->bytes, what->size);
		pthread_mutex_lock(&t.lock);
		t.left++;
		pthread_mutex_unlock(&t.lock);
		if (task_spawn(task_shard(task_self()), tell_one, &one[i])) {
			pack_free(&one[i].more);
			pthread_mutex_lock(&t.lock);
			t.left--;
			pthread_mutex_unlock(&t.lock);
		}
	}
	pthread_mutex_lock(&t.lock);
	while (t.left)
		task_cond_wait(&t.done, &t.lock, NO_DEADLINE);
	pthread_mutex_unlock(&t.lock);
	task_shield(false);
	return t.good;
}

/* At the end, when nothing is under way any more: the tokens are given back, so nobody need wait for a new view. */
void afr_detach(struct afr *a)
{
	struct pack p = { 0 };

	if (!a->view.epoch)
		return;
	pack_u64(&p, a->view.epoch);
	pack_u64(&p, flights_settled(a));
	afr_tell(a, atomic_load(&a->up), REPLICA_DETACH, &p);
	pack_free(&p);
}

/* ---- fetching ---- */

struct fetch { /* of who asks, and of those tasks that have no answer yet: he may not wait for all of them */
	struct afr *a;
	pthread_mutex_t lock;
	struct task_cond done;
	unsigned asked, references; /* asked: a mask of those who have not answered */
	struct view best;
	bool found;
	struct fetch_one {
		struct fetch *f;
		int child;
	} one[REPLICAS_MAX];
};

static void fetch_release(struct fetch *f)
{
	bool last;

	pthread_mutex_lock(&f->lock);
	last = !--f->references;
	pthread_mutex_unlock(&f->lock);
	if (!last)
		return;
	pthread_mutex_destroy(&f->lock);
	free(f);
}

static void consider(struct fetch *f, const struct reply_view *r)
{
	if (!r->serving || r->view.members != f->a->members || r->view.epoch < f->best.epoch)
		return;
	f->best = r->view;
	f->found = true;
}

static void fetch_one(void *arg)
{
	struct fetch_one *one = arg;
	struct fetch *f = one->f;
	struct afr *a = f->a;
	struct blob answer = { 0 };
	struct pack id = { 0 };
	struct reply_view r;
	struct unpack u;
	int err;

	pack_bytes(&id, a->session, sizeof(a->session));
	err = afr_verb(a, one->child, REPLICA_ATTACH, NULL, &id, clock_ns() + FETCH_NS, &answer);
	u = unpack_blob(&answer);
	if (!err)
		unpack_reply_view(&u, &r);
	err = err ? err : u.failed ? -EBADMSG : 0;
	if (!err && r.view.tenant && !root_agrees(a, one->child)) {
		afr_child_changed(a->x, one->child, false);
		err = -EXDEV;
	}
	pthread_mutex_lock(&f->lock);
	if (!err)
		consider(f, &r);
	f->asked &= ~(1u << one->child);
	task_cond_broadcast(&f->done);
	pthread_mutex_unlock(&f->lock);
	free(answer.bytes);
	fetch_release(f);
	afr_task_ends(a);
}

/* Whom the view is without is not waited for: he may be gone, or silent. */
static bool is_enough(const struct fetch *f)
{
	return !f->asked || (f->found && !(f->asked & view_mask(&f->best, MEMBER_BACK)));
}

/* Attaches to every member that is connected; the newest view that one of them serves. */
static bool fetch(struct afr *a, struct view *v)
{
	struct fetch *f = calloc(1, sizeof(*f));
	unsigned up = atomic_load(&a->up);
	bool found;

	if (!f)
		return false;
	*f = (struct fetch){ .a = a, .lock = PTHREAD_MUTEX_INITIALIZER, .references = 1 };
	task_shield(true);
	pthread_mutex_lock(&f->lock);
	for (int i = 0; i < a->members; i++) {
		if (!(up >> i & 1))
			continue;
		f->one[i] = (struct fetch_one){ f, i };
		if (spawn_here(a, fetch_one, &f->one[i]))
			continue;
		f->asked |= 1u << i;
		f->references++;
	}
	while (!is_enough(f))
		task_cond_wait(&f->done, &f->lock, NO_DEADLINE);
	*v = f->best;
	found = f->found;
	pthread_mutex_unlock(&f->lock);
	task_shield(false);
	fetch_release(f);
	return found;
}

bool afr_stops(struct afr *a)
{
	bool yes;

	pthread_mutex_lock(&a->lock);
	yes = a->stopping;
	pthread_mutex_unlock(&a->lock);
	return yes;
}

static bool known(struct afr *a, struct view *v)
{
	bool yes;

	pthread_mutex_lock(&a->lock);
	yes = a->view.epoch && !a->stale;
	*v = a->view;
	pthread_mutex_unlock(&a->lock);
	return yes;
}

static void take(struct afr *a, const struct view *v)
{
	pthread_mutex_lock(&a->lock);
	if (v->epoch >= a->view.epoch) {
		a->views += v->epoch > a->view.epoch;
		a->view = *v;
		a->view.arbiter = a->arbiter_at;
		a->stale = false;
	}
	pthread_mutex_unlock(&a->lock);
	task_cond_broadcast(&a->changed);
}

int afr_view(struct afr *a, uint64_t deadline, struct view *v)
{
	uint64_t pause = PAUSE_MIN_MS;
	int err;

	if (known(a, v))
		return 0;
	err = task_lock(&a->refreshing, deadline);
	if (err)
		return err == -ETIMEDOUT ? -EIO : err;
	while (!err && !known(a, v)) {
		struct view fetched;

		if (fetch(a, &fetched)) {
			take(a, &fetched); /* an older one than was known is none */
			if (known(a, v))
				break;
		}
		if (clock_ns() >= deadline)
			err = -EIO;
		else
			err = afr_stops(a) ? -ENOTCONN : task_sleep_ms(pause);
		pause = pause * 2 < PAUSE_MAX_MS ? pause * 2 : PAUSE_MAX_MS;
	}
	task_unlock(&a->refreshing);
	return err;
}

void afr_view_stale(struct afr *a, uint64_t epoch)
{
	pthread_mutex_lock(&a->lock);
	if (a->view.epoch == epoch)
		a->stale = true;
	pthread_mutex_unlock(&a->lock);
}

/* ---- who reads ---- */

static int least_busy(struct afr *a, unsigned mask)
{
	int best = -1;

	for (int i = 0; i < a->members; i++)
		if (mask >> i & 1 && (best < 0 || atomic_load(&a->outstanding[i]) < atomic_load(&a->outstanding[best])))
			best = i;
	return best;
}

static int nth(unsigned mask, unsigned n)
{
	n %= (unsigned)__builtin_popcount(mask);
	while (n--)
		mask &= mask - 1;
	return __builtin_ctz(mask);
}

void afr_unproven(struct afr *a, int member)
{
	atomic_store(&a->unproven_ns[member], clock_ns());
}

#define UNPROVEN_NS 1000000000ul
static unsigned proven(struct afr *a, unsigned mask)
{
	for (int i = 0; i < a->members; i++) {
		uint64_t refused = atomic_load(&a->unproven_ns[i]);

		if (refused && clock_ns() < refused + UNPROVEN_NS)
			mask &= ~(1u << i);
	}
	return mask;
}

/* Attributes come from one member as long as it is there (ctime differs between bricks), which clients choose differently. */
int afr_reader(struct afr *a, const struct view *v, const struct inode *inode, bool data, unsigned not_those)
{
	unsigned mask = view_mask(v, MEMBER_IN) & ~not_those, connected = mask & atomic_load(&a->up);
	unsigned near;

	if (a->arbiter_at < REPLICAS_MAX) { /* it does not know how long files are */
		mask &= ~(1u << a->arbiter_at);
		connected &= mask;
	}
	mask = connected ? connected : mask;
	if (!mask)
		return -1;
	near = proven(a, mask);
	mask = near ? near : mask;
	near = mask & atomic_load(&a->local);
	if (a->policy == READ_LOCAL && near)
		mask = near;
	if (data && a->policy == READ_LEAST)
		return least_busy(a, mask);
	if (data && a->policy == READ_HASH && inode)
		return nth(mask, inode->gfid.bytes[9] + a->session[0]);
	return nth(mask, a->session[0]);
}
