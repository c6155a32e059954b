/* SPDX-License-Identifier: Apache-2.0 */
/* Leases, and what the members tell when they take them; verbs to members. */
#include "coordinator.h"

/* ---- verbs ---- */

int coordinator_spawn(struct coordinator *c, task_fn *fn, void *arg)
{
	int err;

	if (atomic_load(&c->stopping))
		return -ECANCELED;
	pthread_mutex_lock(&c->lock);
	c->tasks++;
	pthread_mutex_unlock(&c->lock);
	err = task_spawn(NULL, fn, arg);
	if (err)
		coordinator_task_ends(c);
	return err;
}

void coordinator_task_ends(struct coordinator *c)
{
	pthread_mutex_lock(&c->lock);
	c->tasks--;
	task_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

int ask_member(struct coordinator *c, int member, enum replica_verb verb, struct pack *more, struct blob *answer,
	       uint64_t deadline)
{
	struct replica_out out = { 0 };
	struct request rq;
	int err = heal_request(&c->heal, &rq);

	rq.deadline_ns = deadline;
	if (err)
		pack_free(more);
	else
		err = heal_verb(&c->heal, &rq, member, verb, NULL, more, &out);
	heal_request_end(&rq);
	if (err)
		return err;
	if (answer) {
		*answer = out.data;
		out.data = (struct blob){ 0 };
	}
	fop_out_clear(FOP_replica, &out);
	return 0;
}

int tell_member(struct coordinator *c, int member, enum replica_verb verb, struct pack *more)
{
	return ask_member(c, member, verb, more, NULL, clock_ns() + coordinator_lease_ns(c));
}

struct telling {
	struct coordinator *c;
	pthread_mutex_t lock;
	struct task_cond done;
	unsigned left, good;
	uint64_t deadline;
};
struct told {
	struct telling *t;
	int member;
	enum replica_verb verb;
	struct pack more;
};

static void tell_task(void *arg)
{
	struct told *one = arg;
	struct telling *t = one->t;
	int err = ask_member(t->c, one->member, one->verb, &one->more, NULL, t->deadline);

	if (err)
		log_debug(t->c->x, NULL, "member %d: verb %d: %s", one->member, one->verb, error_text(err));
	pthread_mutex_lock(&t->lock);
	t->left--;
	t->good |= err ? 0 : 1u << one->member;
	task_cond_broadcast(&t->done);
	pthread_mutex_unlock(&t->lock);
}

unsigned tell_members(struct coordinator *c, unsigned mask, enum replica_verb verb, const struct pack *more,
		      uint64_t timeout_ns)
{
	struct telling t = { .c = c, .lock = PTHREAD_MUTEX_INITIALIZER, .deadline = clock_ns() + timeout_ns };
	struct told one[REPLICAS_MAX];

	for (int i = 0; i < c->members; i++) {
		if (!(mask >> i & 1))
			continue;
		one[i] = (struct told){ &t, i, verb, { 0 } };
		pack_bytes(&one[i].more, more->bytes, more->size);
		one[i].more.failed |= more->failed;
		pthread_mutex_lock(&t.lock);
		t.left++;
		pthread_mutex_unlock(&t.lock);
		if (task_spawn(NULL, tell_task, &one[i])) {
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
	return t.good;
}

/* ---- leases ---- */

bool member_live(const struct coordinator *c, int i)
{
	const struct remote_member *m = &c->member[i];

	return m->known && clock_ns() < m->heard_ns + coordinator_lease_ns(c);
}

bool member_silent(const struct coordinator *c, int i)
{
	const struct remote_member *m = &c->member[i];
	uint64_t lease = coordinator_lease_ns(c), now = clock_ns();

	if (!m->known)
		return now >= c->started_ns + (lease > c->first_answer_ms * 1000000 ? lease : c->first_answer_ms * 1000000);
	return !member_live(c, i) && m->asked_ns && now >= m->asked_ns + c->heartbeat_ms * 1000000;
}

/* A member that never told has synced nothing as far as anybody knows. */
uint64_t members_synced(const struct coordinator *c)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < c->members; i++) {
		uint64_t its = c->member[i].known ? c->member[i].last.synced : 0;

		least = its < least ? its : least;
	}
	return least;
}

/* What to offer the member; with the lock held. */
static struct lease_call offer(struct coordinator *c, struct remote_member *m)
{
	struct lease_call call = { .epoch = c->view.epoch, .writable = c->writable, .generation = c->generation };
	bool belongs =
		c->view.epoch && c->view.state[m->number] >= MEMBER_BACK && !m->leaving && !c->deposed && register_leads();

	call.prune = members_synced(c);
	call.needed = m->needed && m->last.leaving;
	call.changes_wait = c->changes_wait;
	call.unproven = c->owed.scrub && c->compared_epoch != c->view.epoch && m->number != view_first(&c->view);
	if (belongs && m->known && m->last.epoch == c->view.epoch && m->last.incarnation == c->view.incarnation[m->number]) {
		uint64_t end = m->clock_at_ns + coordinator_lease_ns(c) * 11 / 10;

		m->stepped_down = false; /* also if the answer is lost */
		call.clock = m->last.clock;
		call.lease_ns = coordinator_lease_ns(c);
		m->lease_end_ns = end > m->lease_end_ns ? end : m->lease_end_ns;
	} else if (belongs) {
		call.lease_ns = coordinator_lease_ns(c); /* without a clock: it only tells its own */
	}
	return call;
}

/* Whom a tenant doubts is asked at once; what he answers counts, or that he does not. With the lock held. */
static void ask_doubted(struct coordinator *c, uint32_t doubted)
{
	for (int i = 0; i < c->members; i++)
		c->member[i].hurry |= doubted >> i & 1;
}

static void heard(struct coordinator *c, struct remote_member *m, const struct lease_reply *r, bool stepped)
{
	uint64_t now = clock_ns();
	uint64_t before;
	bool first;

	pthread_mutex_lock(&c->lock);
	first = !m->known || m->last.incarnation != r->incarnation;
	before = m->last.epoch;
	if (first && m->known)
		m->lease_end_ns = 0; /* the process that had it is gone */
	m->last = *r;
	if (!first && r->epoch && before > r->epoch) /* an answer from before it took the view of now */
		m->last.epoch = before;
	m->known = true;
	m->heard_ns = m->clock_at_ns = now;
	m->asked_ns = 0;
	m->hurry = r->epoch == c->view.epoch && m->leased_epoch != r->epoch && !stepped; /* the next one grants */
	m->leased_epoch = r->epoch;
	m->stepped_down = stepped && r->epoch == c->view.epoch;
	ask_doubted(c, r->doubted);
	task_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

/* ---- what a disk did not do ---- */

/* The member's note of that change. -ENOENT: it has none. */
static int ask_did(struct coordinator *c, int member, const struct failure_told *f, uint64_t deadline, struct note *n)
{
	struct blob answer = { 0 };
	struct pack p = { 0 };
	struct unpack u;
	int err;

	pack_bytes(&p, f->session, sizeof(f->session));
	pack_u64(&p, f->sequence);
	err = ask_member(c, member, REPLICA_DID, &p, &answer, deadline);
	if (err)
		return err;
	u = unpack_blob(&answer);
	err = unpack_more(&u) ? 0 : -ENOENT;
	if (!err)
		unpack_note(&u, n);
	free(answer.bytes);
	return err ? err : u.failed ? -EPROTO : 0;
}

/* A change of a tenant's client, which may have sent it to this member alone, or something else to others. So it tells of the disk only if so many of the
 * others did just that, and say so, that they would do without the member. */
static bool others_did(struct coordinator *c, const struct view *v, int member, const struct failure_told *f, uint64_t deadline)
{
	struct note mine, its;
	struct view left = *v;

	if (ask_did(c, member, f, deadline, &mine) || mine.status >= 0 || mine.resolved)
		return false;
	for (int i = 0; i < v->members; i++)
		if (i == member || v->state[i] != MEMBER_IN || ask_did(c, i, f, deadline, &its) || its.status ||
		    !note_alike(&mine, &its, i == v->arbiter || member == v->arbiter))
			left.state[i] = MEMBER_OUT;
	return view_has_quorum(&left);
}

static void judge(struct coordinator *c, struct remote_member *m, const struct lease_reply *r)
{
	uint64_t deadline = clock_ns() + c->heartbeat_ms * 1000000; /* its next lease is due then */
	struct view v;
	bool failed = r->unsynced;

	pthread_mutex_lock(&c->lock);
	v = c->view;
	pthread_mutex_unlock(&c->lock);
	if (!v.epoch || r->epoch != v.epoch || (v.state[m->number] != MEMBER_IN && !failed))
		return;
	v.arbiter = c->arbiter ? 2 : REPLICAS_MAX;
	for (unsigned i = 0; i < r->failures && !failed; i++)
		failed = others_did(c, &v, m->number, &r->failure[i], deadline);
	pthread_mutex_lock(&c->lock);
	m->failed |= failed && c->view.epoch == v.epoch;
	if (failed)
		task_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

static int lease_once(struct coordinator *c, struct remote_member *m)
{
	struct lease_reply r = { 0 };
	struct blob answer = { 0 };
	struct lease_call call;
	struct pack p = { 0 };
	struct unpack u;
	int err;

	pthread_mutex_lock(&c->lock);
	call = offer(c, m);
	if (!m->asked_ns && clock_ns() >= m->heard_ns + coordinator_lease_ns(c) / 2)
		m->asked_ns = clock_ns();
	pthread_mutex_unlock(&c->lock);
	pack_lease_call(&p, &call);
	err = ask_member(c, m->number, REPLICA_LEASE, &p, &answer, clock_ns() + coordinator_lease_ns(c) / 2);
	if (err)
		return err;
	u = unpack_blob(&answer);
	unpack_lease_reply(&u, &r);
	free(answer.bytes);
	if (u.failed)
		return -EPROTO;
	heard(c, m, &r, !call.lease_ns);
	if (r.failures || r.unsynced)
		judge(c, m, &r);
	return 0;
}

static void complain(struct remote_member *m, int err, int *before)
{
	if (err && err != *before && err != -ENOTCONN && err != -ETIMEDOUT)
		log_warning(m->c->x, NULL, "member %d does not take a lease: %s%s", m->number, error_text(err),
			    err == -EPERM ? " (is the secret the same on all servers?)" : "");
	*before = err;
}

/* Until the next heartbeat; sooner when there is a new view to take. */
static void pause_lease(struct remote_member *m)
{
	uint64_t until = clock_ns() + m->c->heartbeat_ms * 1000000;
	uint64_t epoch;
	int err = 0;

	pthread_mutex_lock(&m->c->lock);
	epoch = m->c->view.epoch;
	while (!err && epoch == m->c->view.epoch && !m->hurry && !atomic_load(&m->c->stopping))
		err = task_cond_wait(&m->c->changed, &m->c->lock, until);
	m->hurry = false;
	pthread_mutex_unlock(&m->c->lock);
}

void lease_task(void *arg)
{
	struct remote_member *m = arg;
	struct coordinator *c = m->c;
	int before = 0;

	while (!atomic_load(&c->stopping)) {
		complain(m, lease_once(c, m), &before);
		pause_lease(m);
	}
	coordinator_task_ends(c);
}
