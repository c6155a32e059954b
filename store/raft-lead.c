/* SPDX-License-Identifier: Apache-2.0 */
/* Who leads, who is a member and answers, and how much this server knows again. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "log.h"
#include "raft-shared.h"

enum { STALE_MS = 800, SILENT_MS = 3000 };

/* libraft gives up when it can't write or apply: it takes part in nothing any more. */
bool shared_is_broken(struct shared *l)
{
	return raft_state(&l->raft) == RAFT_UNAVAILABLE && !l->raft.close_cb;
}

static void lead(struct shared *l, bool leads)
{
	bool changed;

	pthread_mutex_lock(&l->lock);
	changed = l->leads != leads;
	l->leads = leads;
	pthread_mutex_unlock(&l->lock);
	if (!changed)
		return;
	log_info(NULL, NULL, leads ? "this server leads the cluster now" : "this server does not lead the cluster any more");
	pthread_mutex_lock(&l->store->lock);
	l->store->turns++;
	pthread_cond_broadcast(&l->store->changed);
	pthread_mutex_unlock(&l->store->lock);
}

/* All that was committed before we led is applied now. */
static void caught_up(struct raft_barrier *request, int status)
{
	struct shared *l = request->data;

	l->barrier_pending = false;
	if (status || raft_state(&l->raft) != RAFT_LEADER || l->barrier_is_old)
		return;
	pthread_mutex_lock(&l->lock);
	l->unproved = false;
	pthread_mutex_unlock(&l->lock);
	lead(l, true);
}

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* libraft says who has answered since it began to count, which it does anew each second: just then nobody has. Whoever was not known before may take its time. */
static void note_heard(struct shared *l)
{
	const struct raft_configuration *c = &l->raft.configuration;
	size_t count = c->n < MEMBERS ? c->n : MEMBERS;
	struct heard next[MEMBERS] = { 0 };

	for (size_t i = 0; i < count; i++) {
		bool now = l->raft.leader_state.progress[i].recent_recv;

		next[i] = (struct heard){ c->servers[i].id, now_ns(), now };
		for (size_t k = 0; k < MEMBERS && l->listens && !now; k++)
			if (l->heard[k].id == next[i].id)
				next[i] = l->heard[k];
	}
	memcpy(l->heard, next, sizeof next);
	l->listens = true;
}

void shared_note_members(struct shared *l)
{
	const struct raft_configuration *c = &l->raft.configuration;
	bool is_leader = raft_state(&l->raft) == RAFT_LEADER;
	const char *address;
	raft_id leader;

	raft_leader(&l->raft, &leader, &address);
	if (is_leader)
		note_heard(l);
	else
		l->listens = false;
	pthread_mutex_lock(&l->lock);
	l->members = c->n < MEMBERS ? c->n : MEMBERS;
	for (size_t i = 0; i < l->members; i++) {
		const struct raft_server *from = &c->servers[i];
		struct store_member *m = &l->member[i];

		*m = (struct store_member){ .id = from->id, .leads = from->id == leader, .votes = from->role == RAFT_VOTER };
		m->answered = is_leader && l->heard[i].answered;
		m->up = from->id == l->id || m->leads || (is_leader && l->heard[i].ns + SILENT_MS * 1000000ull > now_ns());
		snprintf(m->address, sizeof m->address, "%s", from->address);
	}
	pthread_mutex_unlock(&l->lock);
}

/* With the lock held: what is known of the lead is from a moment ago. */
static bool is_fresh(const struct shared *l)
{
	return l->ticked_ns + STALE_MS * 1000000ull > now_ns();
}

/* A process that was stopped for a while may have been replaced meanwhile, and libraft notices only by and by. What a majority takes
 * from now on proves that it was not; what was sent before, and is answered now, does not. */
static void note_time(struct shared *l)
{
	pthread_mutex_lock(&l->lock);
	if (!is_fresh(l)) {
		l->unproved = true;
		l->barrier_is_old = true;
		l->listens = false;
	}
	l->ticked_ns = now_ns();
	pthread_mutex_unlock(&l->lock);
}

bool shared_leads(struct store *s)
{
	struct shared *l = s->log;
	bool yes;

	pthread_mutex_lock(&l->lock);
	yes = l->leads && !l->unproved && !atomic_load(&l->retired) && is_fresh(l);
	pthread_mutex_unlock(&l->lock);
	return yes;
}

/* What was at the end and is not committed may be taken back: then the log is shorter now. */
static void note_replayed(struct shared *l)
{
	raft_index end = raft_last_index(&l->raft);

	if (raft_last_applied(&l->raft) < (end < l->began_with ? end : l->began_with))
		return;
	pthread_mutex_lock(&l->lock);
	l->replayed = true;
	pthread_mutex_unlock(&l->lock);
	pthread_mutex_lock(&l->store->lock);
	l->store->turns++; /* for who waits */
	pthread_cond_broadcast(&l->store->changed);
	pthread_mutex_unlock(&l->store->lock);
}

bool shared_replayed(struct store *s)
{
	struct shared *l = s->log;
	bool yes;

	pthread_mutex_lock(&l->lock);
	yes = l->replayed;
	pthread_mutex_unlock(&l->lock);
	return yes;
}

/* What others have on disk may be applied before it is on this one. */
void shared_note_applied(struct shared *l)
{
	raft_index applied = raft_last_applied(&l->raft);

	applied = applied < l->raft.last_stored ? applied : l->raft.last_stored;
	l->applied = applied > l->applied ? applied : l->applied;
}

void shared_tick(uv_timer_t *timer)
{
	struct shared *l = timer->data;

	note_time(l);
	shared_note_applied(l);
	raft_mark_raise(&l->mark, &l->loop, l->applied);
	if (!shared_replayed(l->store))
		note_replayed(l);
	if (shared_is_broken(l) && !l->told) {
		l->told = true;
		log_error(
			NULL, NULL,
			"this server's part of the shared store in %s has stopped: %s; see to the disk, then restart stratusd",
			l->directory, *raft_errmsg(&l->raft) ? raft_errmsg(&l->raft) : "libraft does not say why");
	}
	if (raft_state(&l->raft) != RAFT_LEADER) {
		lead(l, false);
	} else if (!store_leads(l->store) && !l->barrier_pending && !atomic_load(&l->retired)) {
		l->barrier.data = l;
		l->barrier_is_old = false;
		l->barrier_pending = !raft_barrier(&l->raft, &l->barrier, caught_up);
	}
	members_keep(l);
	cluster_forget_if_silent(l);
	if (shared_leads(l->store))
		cluster_propose(l);
	shared_note_members(l);
}

/* Of those that vote and were heard just now, who has the most. */
raft_id shared_heir(struct shared *l)
{
	const struct raft_configuration *c = &l->raft.configuration;
	raft_index most = 0;
	raft_id heir = 0;

	for (size_t i = 0; raft_state(&l->raft) == RAFT_LEADER && i < l->members && i < c->n; i++) {
		raft_index has = l->raft.leader_state.progress[i].match_index;
		bool hears = l->heard[i].id == c->servers[i].id && l->heard[i].ns + STALE_MS * 1000000ull > now_ns();

		if (c->servers[i].id == l->id || c->servers[i].role != RAFT_VOTER || !hears || has < most)
			continue;
		heir = c->servers[i].id;
		most = has;
	}
	return heir;
}

size_t shared_members(struct store *s, struct store_member *member, size_t max)
{
	struct shared *l = s->log;
	size_t count;

	pthread_mutex_lock(&l->lock);
	count = l->members < max ? l->members : max;
	memcpy(member, l->member, count * sizeof *member);
	pthread_mutex_unlock(&l->lock);
	return count;
}
