/* SPDX-License-Identifier: Apache-2.0 */
/* Leases, and the generations that come with them. */
#include "verbs.h"

struct syncing {
	struct member *m;
	uint64_t began; /* the generation that ended the one to be synced */
};

/* The disk is not waited for with the lock held. */
static void note_synced(struct member *m, uint64_t began)
{
	/* One less than ended: another member may have counted a change of ours in the generation before (doc/replication.md). */
	uint64_t synced = began < 2 ? 0 : began - (MUTANT("sync-too-new") ? 0 : 2);
	struct index_state s;
	bool in;

	pthread_mutex_lock(&m->lock);
	in = member_state(m) == MEMBER_IN && !m->frozen; /* frozen: it may have been distrusted just now */
	s = index_plan(&m->index, synced, m->prune < synced && !MUTANT("prune-early") ? m->prune : synced);
	pthread_mutex_unlock(&m->lock);
	task_blocks();
	if (!in || index_store(&m->index, &s)) /* first: what is missing must not look complete */
		return;
	pthread_mutex_lock(&m->lock);
	index_apply(&m->index, &s);
	pthread_mutex_unlock(&m->lock);
	index_remove_files(&m->index, &s);
}

/* Waits for the changes of the generation that ended, then makes all durable. */
static void sync_task(void *arg)
{
	struct syncing *s = arg;
	struct member *m = s->m;
	unsigned parity = (s->began - 1) & 1;
	bool fit, whole;
	int err = 0;

	pthread_mutex_lock(&m->lock);
	while (m->running[parity] && !m->stopping && !err)
		err = task_cond_wait(&m->event, &m->lock, NO_DEADLINE);
	fit = !m->stopping && !err && member_state(m) == MEMBER_IN;
	pthread_mutex_unlock(&m->lock);
	err = fit ? (MUTANT("lie-about-sync") ? 0 : member_sync(m, &whole)) : -EIO;
	if (!err && whole)
		note_synced(m, s->began);
	pthread_mutex_lock(&m->lock);
	m->tasks--;
	task_cond_broadcast(&m->event);
	pthread_mutex_unlock(&m->lock);
	free(s);
}

/* What is not known to be everywhere counts as changed in this generation, too: a member that did not get it by now must not have it behind
 * what it has synced. */
static int carry_over(struct member *m)
{
	int err = 0;

	for (const struct kept_note *k = m->notes; k && !err; k = k->all_next)
		for (unsigned i = 0; i < k->note.objects && !k->resolved && !err && !MUTANT("forget-unsettled"); i++) {
			const struct note_object *o = &k->note.object[i];

			err = index_touch(&m->index, &o->gfid, k->inode[i] ? k->inode[i]->type : 0, m->leaf, k->inode[i]);
			if (!err && o->kind == NOTE_NAME)
				err = index_names_change(&m->index, &o->gfid);
		}
	return err;
}

static void begin_generation(struct member *m, uint64_t generation)
{
	struct syncing *s;

	if (generation <= m->index.generation || m->tasks || m->running[generation & 1] || m->stopping)
		return;
	s = malloc(sizeof(*s));
	if (!s || index_begin(&m->index, generation)) {
		free(s);
		return;
	}
	if (carry_over(m)) /* its list lacks something, so it must not serve */
		m->view.epoch = 0;
	*s = (struct syncing){ m, generation };
	m->tasks++;
	if (task_spawn(NULL, sync_task, s)) {
		m->tasks--;
		free(s);
	}
}

static void take_lease(struct member *m, const struct lease_call *c)
{
	if (c->epoch != m->view.epoch || !m->view.epoch)
		return;
	if (!c->lease_ns)
		m->lease_until_ns = 0;
	else if (c->clock && c->clock <= clock_ns() && c->clock + c->lease_ns > m->lease_until_ns)
		m->lease_until_ns = (MUTANT("lease-from-now") ? clock_ns() : c->clock) + c->lease_ns;
	m->writable = c->writable;
	m->changes_wait = c->changes_wait;
	m->unproven = c->unproven && !MUTANT("read-unproven");
	/* Also at a member that is BACK, which syncs nothing yet: what it notes now must not look older than it is. */
	if (member_state(m) >= (MUTANT("stay-behind") ? MEMBER_IN : MEMBER_BACK))
		begin_generation(m, c->generation);
	m->prune = c->prune;
}

static void measure_space(struct asked *a, struct lease_reply *r)
{
	struct statfs_in in = { 0 };
	struct statfs_out out = { 0 };

	if (statfs_on(a->rq, a->m->x->child[0], &in, &out))
		return;
	r->space = out.statfs.blocks * out.statfs.frsize;
	r->free = out.statfs.bavail * out.statfs.frsize;
}

int verb_lease(struct asked *a)
{
	struct member *m = a->m;
	struct lease_call c = { 0 };
	struct lease_reply r = { 0 };

	unpack_lease_call(&a->u, &c);
	if (a->u.failed)
		return -EINVAL;
	measure_space(a, &r);
	pthread_mutex_lock(&m->lock);
	take_lease(m, &c);
	m->needed = c.needed;
	r.leaving = m->leaving;
	sessions_sweep(m);
	dead_sweep(m);
	r.clock = clock_ns();
	r.incarnation = m->incarnation;
	r.disk = m->index.disk;
	r.boot = m->boot;
	r.epoch = m->view.epoch;
	r.generation = m->index.generation;
	r.synced = m->index.synced;
	r.unnamed = m->index.unnamed;
	r.unsynced = m->unsynced;
	r.suspects = m->suspects;
	memcpy(r.reason, m->reason, sizeof(r.reason));
	r.orphans = orphans(m);
	r.stuck = tokens_stuck(m);
	r.repeated = repeated(m);
	r.departing = departing(m);
	r.pending = m->all_pending ? UINT64_MAX : m->pending.count;
	r.index = m->index.count;
	r.notes = atomic_load(&m->noted);
	r.tokens = m->tokens;
	tenants_tell(m, &r);
	pthread_mutex_unlock(&m->lock);
	pack_lease_reply(&a->answer, &r);
	return 0;
}

/* Of a change that some member's disk failed at. */
int verb_did(struct asked *a)
{
	uint8_t id[16];
	const struct kept_note *k;
	const struct note *n;
	struct session *s;
	uint64_t sequence;

	unpack_bytes(&a->u, id, sizeof(id));
	sequence = unpack_u64(&a->u);
	if (a->u.failed)
		return -EINVAL;
	pthread_mutex_lock(&a->m->lock);
	s = session_by_id(a->m, id, false);
	k = s ? note_find(a->m, s, sequence) : NULL;
	n = tenant_failure(a->m, id, sequence);
	if (n || k)
		pack_note(&a->answer, n ? n : &k->note);
	pthread_mutex_unlock(&a->m->lock);
	return 0;
}
