/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants' clients that went without a word, and hold others up. A view would end what they hold, but one for a tenant is made now and then only. Where such a client has
 * no connection to any member, and all members have done the same changes of it, nothing need be recovered: then what it left goes without a view (doc/tenants.md, T14). */
#include "coordinator.h"

/* So long a view is not made for what may go without one. */
#define PATIENCE_NS 3000000000ull
enum { AGAIN_NS = 1000000000, CHANGES_MAX = 64 };

struct left { /* a change that is not settled */
	struct note note;
	unsigned at;		/* members that have it */
	bool differs, in_doubt; /* being done, being recovered, or given up half done */
};
struct leaving { /* one session */
	struct coordinator *c;
	struct view view;
	unsigned in, all; /* members that take part; that are asked */
	uint8_t id[16];
	uint64_t settled; /* by what its client has told any of them */
	struct left left[CHANGES_MAX];
	unsigned count;
};

/* ---- what they say ---- */

static int ask(struct leaving *l, int member, enum replica_verb verb, struct pack *more, struct replica_out *out)
{
	struct heal *h = &l->c->departures.ask;
	struct request rq;
	int err = heal_request(h, &rq);

	rq.deadline_ns = clock_ns() + l->c->heartbeat_ms * 1000000;
	if (err)
		pack_free(more);
	else
		err = heal_verb(h, &rq, member, verb, NULL, more, out);
	heal_request_end(&rq);
	return err;
}

static int ask_step(struct leaving *l, int member, enum depart_step step, struct replica_out *out)
{
	struct pack p = { 0 };

	pack_bytes(&p, l->id, sizeof(l->id));
	pack_u8(&p, step);
	pack_u64(&p, l->settled);
	return ask(l, member, REPLICA_DEPART, &p, out);
}

static struct left *same(struct leaving *l, const struct note *n)
{
	for (unsigned i = 0; i < l->count; i++)
		if (note_same(&l->left[i].note, n))
			return &l->left[i];
	if (l->count == CHANGES_MAX)
		return NULL;
	l->left[l->count] = (struct left){ .note = *n };
	return &l->left[l->count++];
}

static bool take_note(struct leaving *l, int member, const struct note *n)
{
	struct left *k = same(l, n);

	if (!k)
		return false;
	k->at |= 1u << member;
	k->differs |= n->status || !note_alike(&k->note, n, member == l->view.arbiter || l->view.arbiter < REPLICAS_MAX);
	k->in_doubt |= n->status == NOTE_UNKNOWN;
	return true;
}

/* False: it is not away there, or that can't be told. */
static bool take_answer(struct leaving *l, int member, enum depart_step step)
{
	struct replica_out out = { 0 };
	bool away = !ask_step(l, member, step, &out);
	struct unpack u = unpack_blob(&out.data);
	uint64_t settled;

	away = away && unpack_u8(&u);
	settled = away ? unpack_u64(&u) : 0;
	l->settled = settled > l->settled ? settled : l->settled;
	while (away && unpack_more(&u)) {
		struct note n;

		unpack_note(&u, &n);
		away = !u.failed && take_note(l, member, &n);
	}
	fop_out_clear(FOP_replica, &out);
	return away && !u.failed;
}

/* What is settled is done at all members, or at none, unless its client has given it up: then each that has done it knows so, and says that it is in doubt. What
 * is not settled must be done at all: a member that is BACK may have skipped it, and would have to be told. */
static bool is_alike(const struct leaving *l, const struct left *k)
{
	if (k->in_doubt)
		return false;
	if (k->note.sequence <= l->settled || MUTANT("depart-unlike"))
		return true;
	return !k->differs && k->at == l->in && l->in == l->all;
}

/* It is away at all of them, and all have done the same. */
static bool agrees(struct leaving *l, enum depart_step step)
{
	l->count = 0;
	l->settled = 0;
	for (int i = 0; i < l->view.members; i++)
		if (l->all >> i & 1 && !take_answer(l, i, step))
			return false;
	for (unsigned i = 0; i < l->count; i++)
		if (!is_alike(l, &l->left[i]))
			return false;
	return true;
}

/* ---- one after the other ---- */

/* What each has said holds when the last has said it: from FENCE on nothing more comes from it in this view. */
static void let_go(struct leaving *l)
{
	bool all = true;

	if (!agrees(l, DEPART_ASK) || !agrees(l, DEPART_FENCE))
		return;
	for (int i = 0; i < l->view.members; i++) {
		struct replica_out out = { 0 };

		if (l->all >> i & 1)
			all &= !ask_step(l, i, DEPART_FREE, &out);
		fop_out_clear(FOP_replica, &out);
	}
	if (!all) /* who did not hear it waits for a view */
		return;
	pthread_mutex_lock(&l->c->lock);
	l->c->departures.freed++;
	pthread_mutex_unlock(&l->c->lock);
	log_info(l->c->x, NULL,
		 "what a tenant's client has left that is gone is given up; %u of its changes were done everywhere", l->count);
}

static void look_at(struct leaving *l, int member)
{
	struct replica_out out = { 0 };
	struct unpack u;
	int err = ask(l, member, REPLICA_DEPARTING, NULL, &out);

	u = unpack_blob(&out.data);
	while (!err && unpack_more(&u)) {
		unpack_bytes(&u, l->id, sizeof(l->id));
		if (!u.failed)
			let_go(l);
	}
	fop_out_clear(FOP_replica, &out);
}

/* With the lock held. */
static bool tells_of_some(const struct coordinator *c, int member)
{
	const struct lease_reply *r = &c->member[member].last;

	return c->view.epoch && c->view.state[member] >= MEMBER_BACK && r->epoch == c->view.epoch && r->departing;
}

static unsigned who_tells(const struct coordinator *c)
{
	unsigned mask = 0;

	for (int i = 0; i < c->members; i++)
		mask |= tells_of_some(c, i) ? 1u << i : 0;
	return mask;
}

static void look(struct coordinator *c)
{
	struct leaving *l = calloc(1, sizeof(*l));
	unsigned who;

	if (!l)
		return;
	l->c = c;
	pthread_mutex_lock(&c->lock);
	l->view = c->view;
	who = who_tells(c);
	pthread_mutex_unlock(&c->lock);
	l->in = view_mask(&l->view, MEMBER_IN);
	l->all = view_mask(&l->view, MEMBER_BACK);
	atomic_store(&c->departures.ask.epoch, l->view.epoch);
	for (int i = 0; i < l->view.members; i++)
		if (who >> i & 1)
			look_at(l, i);
	free(l);
}

static void look_task(void *arg)
{
	struct coordinator *c = arg;

	look(c);
	pthread_mutex_lock(&c->lock);
	c->departures.next_ns = clock_ns() + AGAIN_NS;
	c->departures.looking = false;
	task_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	coordinator_task_ends(c);
}

void departing_look(struct coordinator *c)
{
	struct departures *d = &c->departures;
	uint64_t now = clock_ns();
	bool start, any;

	pthread_mutex_lock(&c->lock);
	any = who_tells(c);
	d->since_ns = !any ? 0 : d->since_ns ? d->since_ns : now;
	start = any && !c->unrecovered && !d->looking && now >= d->next_ns;
	d->looking |= start;
	pthread_mutex_unlock(&c->lock);
	if (!start || !coordinator_spawn(c, look_task, c))
		return;
	pthread_mutex_lock(&c->lock);
	d->looking = false;
	pthread_mutex_unlock(&c->lock);
}

bool departing_waits(const struct coordinator *c)
{
	const struct departures *d = &c->departures;

	return who_tells(c) && (!d->since_ns || clock_ns() < d->since_ns + PATIENCE_NS);
}
