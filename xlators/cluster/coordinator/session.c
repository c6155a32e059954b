/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator as a client: it takes the token of what it heals or compares, so that nobody changes it meanwhile. */
#include "coordinator.h"

enum { TRIES = 200, LOOK_NS = 100000000 };

static int client_verb(struct coordinator *c, int member, enum replica_verb verb, struct pack *p)
{
	struct replica_in in = { .verb = verb };
	struct replica_out out = { 0 };
	struct request rq;
	int err = pack_end(p, &in.data);

	if (err)
		return err;
	request_init(&rq, c->x->graph, 0);
	rq.group_count = 0;
	rq.deadline_ns = clock_ns() + coordinator_lease_ns(c) * 2;
	err = fop_call(&rq, c->x->child[member], FOP_replica, &in, &out);
	request_finish(&rq);
	free(in.data.bytes);
	if (!err)
		fop_out_clear(FOP_replica, &out);
	return err;
}

int session_attach(struct coordinator *c, const struct view *v)
{
	int err = 0;

	for (int i = 0; i < c->members && !err; i++) {
		struct pack p = { 0 };

		if (v->state[i] != MEMBER_IN)
			continue;
		pack_bytes(&p, c->session.bytes, sizeof(c->session.bytes));
		err = client_verb(c, i, REPLICA_ATTACH, &p);
	}
	return err;
}

/* ---- one task at a time ---- */

static size_t place_in(const struct gfid_list *l, const struct gfid *g)
{
	size_t i = 0;

	while (i < l->count && !gfid_equal(&l->gfid[i], g))
		i++;
	return i;
}

static bool take_out(struct gfid_list *l, const struct gfid *g)
{
	size_t i = place_in(l, g);
	bool there = i < l->count;

	if (there)
		l->gfid[i] = l->gfid[--l->count];
	return there;
}

/* All tasks here are one session to the granter, which gives it at once what it has already: two of them would heal the same object,
 * and when the first has let go of it the second would write what it had read before over what a client has written since. */
static int claim(struct coordinator *c, const struct gfid *g, bool (*stop)(void *), void *arg)
{
	int err = -EAGAIN;

	while (err == -EAGAIN && !stop(arg)) {
		pthread_mutex_lock(&c->lock);
		if (place_in(&c->held, g) == c->held.count)
			err = list_add(&c->held, g);
		else if (task_cond_wait(&c->let_go, &c->lock, clock_ns() + LOOK_NS) == -ECANCELED)
			err = -ECANCELED;
		pthread_mutex_unlock(&c->lock);
	}
	return err == -EAGAIN ? -ERECOVERING : err;
}

static bool let_go(struct coordinator *c, const struct gfid *g)
{
	bool wanted;

	pthread_mutex_lock(&c->lock);
	take_out(&c->held, g);
	wanted = take_out(&c->wanted, g);
	pthread_mutex_unlock(&c->lock);
	task_cond_broadcast(&c->let_go);
	return wanted;
}

void session_recalled(struct coordinator *c, const struct gfid *g)
{
	pthread_mutex_lock(&c->lock);
	if (place_in(&c->held, g) < c->held.count && place_in(&c->wanted, g) == c->wanted.count)
		list_add(&c->wanted, g); /* no memory: it waits a little longer */
	pthread_mutex_unlock(&c->lock);
}

/* ---- tokens ---- */

int session_acquire(struct coordinator *c, const struct view *v, const struct gfid *g, bool (*stop)(void *), void *arg)
{
	int granter = view_granter(v, g), err = claim(c, g, stop, arg);

	if (err)
		return err;
	err = -ERECOVERING;
	for (int i = 0; i < TRIES && err == -ERECOVERING && !stop(arg); i++) {
		struct pack p = { 0 };

		pack_u64(&p, v->epoch);
		pack_u64(&p, clock_ns()); /* it only has to rise */
		pack_gfid(&p, g);
		err = MUTANT("heal-without-token") ? (pack_free(&p), 0) : client_verb(c, granter, REPLICA_ACQUIRE, &p);
	}
	if (err)
		let_go(c, g);
	return err;
}

bool session_release(struct coordinator *c, const struct view *v, const struct gfid *g)
{
	struct pack p = { 0 };

	pack_u64(&p, v->epoch);
	pack_u64(&p, 0);
	pack_u64(&p, clock_ns());
	pack_gfid(&p, g);
	client_verb(c, view_granter(v, g), REPLICA_RELEASE, &p);
	return let_go(c, g);
}
