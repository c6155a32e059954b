/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of the fop `replica`: what clients and the coordinator ask of a member. */
#include <endian.h>
#include <fcntl.h>
#include <xxhash.h>

#include "member.h"

enum { FREEZE_NS = 2000000000, GFIDS_IN_ONE = 3000, PIECE = 1 << 20 };

struct asked {
	struct request *rq;
	struct member *m;
	const struct replica_in *in;
	struct replica_out *out;
	struct unpack u;
	struct pack answer;
};

/* ---- of clients ---- */

static void put_view(struct asked *a)
{
	struct reply_view r;

	pthread_mutex_lock(&a->m->lock);
	r.view = a->m->view;
	r.serving = !member_serves(a->m, MEMBER_BACK) && !a->m->frozen;
	r.writable = a->m->writable;
	pthread_mutex_unlock(&a->m->lock);
	pack_reply_view(&a->answer, &r);
}

static int attach(struct asked *a)
{
	struct session *s;
	uint8_t id[16];

	unpack_bytes(&a->u, id, sizeof(id));
	if (a->u.failed)
		return -EINVAL;
	pthread_mutex_lock(&a->m->lock);
	s = session_by_id(a->m, id, true);
	if (s && a->m->view.epoch) {
		s->client = a->rq->client;
		s->attached = a->m->view.epoch;
	}
	pthread_mutex_unlock(&a->m->lock);
	put_view(a);
	return s ? 0 : -ENOMEM;
}

/* The session that asks, if it is attached and speaks of this epoch; with the lock held then. */
static struct session *in_epoch(struct asked *a)
{
	uint64_t epoch = unpack_u64(&a->u);
	struct session *s;

	pthread_mutex_lock(&a->m->lock);
	s = session_of(a->m, a->rq);
	if (s && epoch == a->m->view.epoch && !a->u.failed)
		return s;
	pthread_mutex_unlock(&a->m->lock);
	return NULL;
}

static int acquire(struct asked *a)
{
	uint64_t epoch = unpack_u64(&a->u);
	struct gfid g = unpack_gfid(&a->u);

	return a->u.failed ? -EINVAL : token_acquire(a->m, a->rq, epoch, &g);
}

static int release(struct asked *a)
{
	struct session *s = in_epoch(a);

	if (!s)
		return -EVIEW;
	session_settle(a->m, s, unpack_u64(&a->u));
	while (unpack_more(&a->u)) {
		struct gfid g = unpack_gfid(&a->u);

		token_release(a->m, s, &g);
	}
	pthread_mutex_unlock(&a->m->lock);
	return 0;
}

static int settle(struct asked *a)
{
	struct session *s = in_epoch(a);
	bool frozen;

	if (!s)
		return -EVIEW;
	session_settle(a->m, s, unpack_u64(&a->u));
	frozen = a->m->frozen;
	pthread_mutex_unlock(&a->m->lock);
	return frozen ? -EVIEW : 0;
}

static int detach(struct asked *a)
{
	struct session *s = in_epoch(a);

	if (!s)
		return -EVIEW;
	session_settle(a->m, s, unpack_u64(&a->u));
	session_detach(a->m, s);
	sessions_sweep(a->m);
	pthread_mutex_unlock(&a->m->lock);
	return 0;
}

static int try_tokens(struct asked *a)
{
	struct session *s = in_epoch(a);

	if (!s)
		return -EVIEW;
	while (unpack_more(&a->u)) {
		struct gfid g = unpack_gfid(&a->u);

		pack_u8(&a->answer, !a->u.failed && token_try(a->m, s, &g));
	}
	pthread_mutex_unlock(&a->m->lock);
	return 0;
}

/* What it is told here holds until grant_from_ns of the next view. */
static int believe(struct asked *a)
{
	struct session *s = in_epoch(a);
	int err;

	if (!s)
		return -EVIEW;
	err = a->m->frozen ? -EVIEW : member_serves(a->m, MEMBER_BACK);
	if (!err)
		a->m->believed_ns = clock_ns();
	pthread_mutex_unlock(&a->m->lock);
	return err;
}

static int suspect(struct asked *a)
{
	struct session *s = in_epoch(a);
	uint32_t mask, reason;

	if (!s)
		return -EVIEW;
	mask = unpack_u32(&a->u) & view_mask(&a->m->view, MEMBER_BACK) & ~(1u << a->m->number);
	reason = unpack_u32(&a->u);
	for (unsigned i = 0; i < REPLICAS_MAX; i++)
		if (mask >> i & 1)
			a->m->reason[i] = reason;
	a->m->suspects |= mask;
	pthread_mutex_unlock(&a->m->lock);
	return 0;
}

static int failed(struct asked *a)
{
	struct session *s = in_epoch(a);
	struct kept_note *k;

	if (!s)
		return -EVIEW;
	k = note_find(s, unpack_u64(&a->u));
	if (k)
		k->orphan = true;
	pthread_mutex_unlock(&a->m->lock);
	return 0;
}

static enum note_outcome outcome_of(const struct kept_note *k)
{
	if (!k)
		return OUTCOME_NONE;
	return !k->note.status ? OUTCOME_DONE : k->note.status == -EIO ? OUTCOME_UNKNOWN : OUTCOME_NOT_DONE;
}

/* Of a change that was sent in an epoch before this one: all that recovery found out is known here, if this member is IN. */
static int outcome(struct asked *a)
{
	struct session *s = in_epoch(a);
	const struct kept_note *k;
	int err;

	if (!s)
		return -EVIEW;
	err = member_serves(a->m, MEMBER_IN);
	k = note_find(s, unpack_u64(&a->u));
	if (!err && k && !k->resolved)
		err = -ERECOVERING;
	pack_u8(&a->answer, outcome_of(k));
	pack_u64(&a->answer, k ? k->note.value : 0);
	pack_u64(&a->answer, a->m->since);
	pthread_mutex_unlock(&a->m->lock);
	return err;
}

static int skip(struct asked *a)
{
	struct session *s = in_epoch(a);
	int err = 0;

	if (!s)
		return -EVIEW;
	if (a->m->frozen) /* the coordinator has looked already whether anything is pending */
		err = -EVIEW;
	else if (member_state(a->m) != MEMBER_BACK)
		err = -EINVAL;
	while (!err && unpack_more(&a->u)) {
		struct gfid g = unpack_gfid(&a->u);

		err = a->m->pending.count < PENDING_MAX ? member_add_pending(a->m, &g) : -ENOMEM;
	}
	a->m->skipped++;
	pthread_mutex_unlock(&a->m->lock);
	return err;
}

/* It has no name, and not only none that the leaf can tell (long ones it may not know whole). */
static int has_no_name(struct request *rq, struct member *m, struct inode *inode, bool *none)
{
	struct getattr_in in = { .inode = inode };
	struct getattr_out out = { 0 };
	int err = getattr_on(rq, m->x->child[0], &in, &out);

	*none = !err && !out.attr.nlink;
	return err;
}

static int links_of(struct request *rq, struct member *m, struct inode *inode, struct blob *links)
{
	int err = m->leaf->type->inode_links(m->leaf, inode, links);
	struct unpack u = unpack_blob(links);
	bool none = false;

	if (err || unpack_u32(&u))
		return err;
	err = has_no_name(rq, m, inode, &none);
	return err ? err : none ? 0 : -EXDEV;
}

/* -EXDEV: it has names, but none is told. */
static int put_links(struct asked *a, struct inode *inode)
{
	struct blob links = { 0 };
	int err;

	if (!inode || !a->m->leaf || !a->m->leaf->type->inode_links)
		return -EINVAL;
	err = links_of(a->rq, a->m, inode, &links);
	if (!err)
		pack_bytes(&a->answer, links.bytes, links.size);
	free(links.bytes);
	return err;
}

/* The object, if it is in use here and no name leads to it. -EXDEV: one does. */
static int nameless(struct request *rq, struct member *m, const struct gfid *g, struct inode **found)
{
	cleanup_inode struct inode *inode = inode_find(m->x->inodes, g);
	struct blob links = { 0 };
	struct unpack u;
	int err;

	if (!inode || !m->leaf->type->inode_links)
		return -ENOENT;
	err = links_of(rq, m, inode, &links);
	u = unpack_blob(&links);
	if (!err && unpack_u32(&u))
		err = -EXDEV;
	free(links.bytes);
	if (!err)
		*found = inode_ref(inode);
	return err == -ESTALE ? -ENOENT : err;
}

/* It has lost its name elsewhere, and will here. Until then it is not lost to those who have it open, but a member that is BACK need not
 * hear of it. */
static int named_yet(struct member *m, const struct gfid *g)
{
	int err = -ERECOVERING;

	pthread_mutex_lock(&m->lock);
	if (member_state(m) == MEMBER_BACK) {
		err = member_add_pending(m, g);
		err = err ? err : -EPENDING;
	}
	pthread_mutex_unlock(&m->lock);
	return err;
}

/* A client that has such an object open elsewhere can't find it here by a name. Whoever knows the gfid had it open, or may. */
static int find_unlinked(struct asked *a)
{
	struct gfid g = unpack_gfid(&a->u);
	bool dead;
	int err;

	pthread_mutex_lock(&a->m->lock);
	dead = member_dead(a->m, &g);
	pthread_mutex_unlock(&a->m->lock);
	err = a->u.failed || dead ? -ENOENT : nameless(a->rq, a->m, &g, &a->out->inode);
	return err == -EXDEV ? named_yet(a->m, &g) : err;
}

/* ---- of the coordinator: leases ---- */

struct syncing {
	struct member *m;
	uint64_t began; /* the generation that ended the one to be synced */
};

/* Waits for the changes of the generation that ended, then makes all durable. */
static void sync_task(void *arg)
{
	struct syncing *s = arg;
	struct member *m = s->m;
	unsigned parity = (s->began - 1) & 1;
	bool fit;
	int err = 0;

	pthread_mutex_lock(&m->lock);
	while (m->running[parity] && !m->stopping && !err)
		err = task_cond_wait(&m->event, &m->lock, NO_DEADLINE);
	fit = !m->stopping && !err && member_state(m) == MEMBER_IN;
	pthread_mutex_unlock(&m->lock);
	err = fit && m->leaf->type->sync ? (MUTANT("lie-about-sync") ? 0 : m->leaf->type->sync(m->leaf)) : -EIO;
	pthread_mutex_lock(&m->lock);
	/* One less than ended: another member may have counted a change of ours in the generation before (doc/replication.md). Not
	 * while a view is on its way: the coordinator may have said that nothing here counts as synced (distrust()). */
	if (!err && member_state(m) == MEMBER_IN && !m->frozen && s->began > m->index.synced + 2)
		index_set_synced(&m->index, s->began - (MUTANT("sync-too-new") ? 0 : 2));
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
		for (unsigned i = 0; i < k->note.objects && !k->resolved && !err && !MUTANT("forget-unsettled"); i++)
			err = index_touch(&m->index, &k->note.object[i].gfid, k->inode[i] ? k->inode[i]->type : 0, m->leaf,
					  k->inode[i]);
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
	/* Also at a member that is BACK, which syncs nothing yet: what it notes now must not look older than it is. */
	if (member_state(m) >= (MUTANT("stay-behind") ? MEMBER_IN : MEMBER_BACK))
		begin_generation(m, c->generation);
	if (member_state(m) == MEMBER_IN)
		index_prune(&m->index, c->prune < m->index.synced && !MUTANT("prune-early") ? c->prune : m->index.synced);
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

static int lease(struct asked *a)
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
	sessions_sweep(m);
	r.clock = clock_ns();
	r.incarnation = m->incarnation;
	r.disk = m->index.disk;
	r.epoch = m->view.epoch;
	r.generation = m->index.generation;
	r.synced = m->index.synced;
	r.suspects = m->suspects;
	memcpy(r.reason, m->reason, sizeof(r.reason));
	r.orphans = orphans(m);
	r.stuck = tokens_stuck(m);
	r.pending = m->all_pending ? UINT64_MAX : m->pending.count;
	r.index = m->index.count;
	r.notes = atomic_load(&m->noted);
	r.tokens = m->tokens;
	pthread_mutex_unlock(&m->lock);
	pack_lease_reply(&a->answer, &r);
	return 0;
}

/* ---- of the coordinator: a new view ---- */

static int freeze(struct asked *a, uint64_t epoch)
{
	struct member *m = a->m;
	uint64_t until = clock_ns() + FREEZE_NS;
	struct view next;
	int err = 0;

	unpack_view(&a->u, &next);
	if (a->u.failed || m->number >= next.members)
		return -EINVAL;
	pthread_mutex_lock(&m->lock);
	if (epoch <= m->view.epoch || next.incarnation[m->number] != m->incarnation)
		err = -EVIEW;
	if (!err) {
		m->frozen = true;
		m->coming = epoch;
		gfid_set_free(&m->staged_pending);
		m->staged_all = false;
		staged_drop(m);
		task_cond_broadcast(&m->event);
	}
	while (!err && (m->running[0] || m->running[1]) && !MUTANT("freeze-at-once"))
		err = task_cond_wait(&m->event, &m->lock, until);
	pthread_mutex_unlock(&m->lock);
	return err;
}

/* Not of one that was started anew since it was frozen: it has forgotten them, and has another disk perhaps. */
static int notes(struct asked *a, uint64_t epoch)
{
	uint64_t from = unpack_u64(&a->u), at = 0;
	bool frozen;

	pthread_mutex_lock(&a->m->lock);
	frozen = a->m->frozen && a->m->coming == epoch;
	for (const struct kept_note *k = a->m->notes; k && a->answer.size < REPLICA_BLOB_MAX - 2048; k = k->all_next) {
		struct note n;

		if (at++ < from)
			continue;
		memcpy(&n, &k->note, offsetof(struct note, object) + k->note.objects * sizeof(n.object[0]));
		n.resolved = k->resolved;
		pack_note(&a->answer, &n);
	}
	pthread_mutex_unlock(&a->m->lock);
	return frozen || MUTANT("notes-unfrozen") ? 0 : -EVIEW;
}

static int add_notes(struct asked *a, uint64_t epoch)
{
	int err = 0;

	pthread_mutex_lock(&a->m->lock);
	if (!a->m->frozen || epoch != a->m->coming)
		err = -EVIEW;
	while (!err && unpack_more(&a->u)) {
		struct note n;

		unpack_note(&a->u, &n);
		err = a->u.failed ? -EINVAL : staged_add(a->m, &n);
	}
	pthread_mutex_unlock(&a->m->lock);
	return err;
}

static int add_pending(struct asked *a, uint64_t epoch)
{
	bool all = unpack_u8(&a->u);
	int err = 0;

	pthread_mutex_lock(&a->m->lock);
	if (epoch == a->m->view.epoch && member_state(a->m) == MEMBER_BACK) { /* found while it is healed */
		while (err >= 0 && unpack_more(&a->u)) {
			struct gfid g = unpack_gfid(&a->u);

			err = member_add_pending(a->m, &g);
		}
	} else if (a->m->frozen && epoch == a->m->coming) {
		a->m->staged_all |= all;
		while (err >= 0 && unpack_more(&a->u)) {
			struct gfid g = unpack_gfid(&a->u);

			err = gfid_set_add(&a->m->staged_pending, &g);
		}
	} else {
		err = -EVIEW;
	}
	pthread_mutex_unlock(&a->m->lock);
	return err < 0 ? err : 0;
}

static void take_pending(struct member *m, enum member_state before)
{
	enum member_state now = member_state(m);
	size_t cursor = 0;
	const struct gfid *g;

	gfid_set_free(&m->follows);
	if (now != MEMBER_BACK || before != MEMBER_BACK) {
		gfid_set_free(&m->pending);
		gfid_set_free(&m->again);
		gfid_set_free(&m->healed);
		m->all_pending = false;
	}
	if (now != MEMBER_BACK)
		return;
	if (m->staged_all && !m->all_pending)
		gfid_set_free(&m->healed);
	m->all_pending |= m->staged_all;
	while ((g = gfid_set_next(&m->staged_pending, &cursor)))
		member_add_pending(m, g);
	gfid_set_free(&m->staged_pending);
}

/* All that is not resolved must be recovered; at a member that is BACK it is pending, too. A process that takes part for the first time (`new`)
 * does not know what the one before it had done. */
static int take_notes(struct member *m, bool new)
{
	struct kept_note *next;

	for (struct kept_note *k = m->staged; k; k = k->all_next) {
		struct session *s = session_by_id(m, k->note.session, false);
		const struct kept_note *own = s ? note_find(s, k->note.sequence) : NULL;

		if (!k->note.resolved) /* what became of it here, not elsewhere */
			k->note.status = own ? own->note.status : new ? -EIO : NOTE_UNKNOWN;
		note_keep_inodes(m, k);
	}
	notes_drop_all(m);
	for (struct kept_note *k = m->staged; k; k = next) {
		struct session *s = session_by_id(m, k->note.session, true);
		struct kept_note *added = s ? note_add(m, s, &k->note) : NULL;

		next = k->all_next;
		if (!added)
			return -ENOMEM;
		added->resolved = k->note.resolved;
		added->recovering = !added->resolved;
		for (unsigned i = 0; i < k->note.objects && added->recovering && member_state(m) == MEMBER_BACK; i++)
			member_add_pending(m, &k->note.object[i].gfid);
	}
	staged_drop(m);
	return 0;
}

static int activate(struct asked *a, uint64_t epoch)
{
	struct member *m = a->m;
	enum member_state before;
	struct view v;
	int err = 0;

	unpack_view(&a->u, &v);
	if (a->u.failed || v.epoch != epoch || m->number >= v.members)
		return -EINVAL;
	pthread_mutex_lock(&m->lock);
	before = member_state(m);
	if (!m->frozen || m->coming != epoch || epoch <= m->view.epoch)
		err = -EVIEW;
	if ((m->running[0] || m->running[1]) && !MUTANT("freeze-at-once")) /* their notes would be dropped under them */
		err = -EVIEW;
	if (!err) {
		if (before < MEMBER_BACK ||
		    epoch != m->view.epoch + 1) /* others may have let clients believe without asking here */
			m->believed_ns = clock_ns();
		m->view = v;
		m->lease_until_ns = 0;
		m->frozen = false;
		m->grant_from_ns = m->believed_ns + BELIEF_WAIT_MS * 1000000;
		m->suspects = 0;
		tokens_drop(m, NULL);
		take_pending(m, before);
		err = take_notes(m, !m->since);
		if (!m->since || member_state(m) == MEMBER_BACK) /* what was told while it was away it has not heard */
			m->since = epoch;
		if (err) /* it has forgotten what must be recovered, so it must not serve */
			m->view.epoch = 0;
		sessions_sweep(m);
		task_cond_broadcast(&m->event);
	}
	pthread_mutex_unlock(&m->lock);
	if (!err)
		event_up(m->x, &(struct event){ .kind = EVENT_VIEW });
	return err;
}

/* It was found to differ in what no index tells of. */
static int distrust(struct asked *a, uint64_t epoch)
{
	int err = -EVIEW;

	pthread_mutex_lock(&a->m->lock);
	if (a->m->frozen && epoch == a->m->coming)
		err = MUTANT("trust-all") ? 0 : index_set_synced(&a->m->index, 0);
	pthread_mutex_unlock(&a->m->lock);
	return err;
}

static int resolve(struct asked *a, uint64_t epoch)
{
	static const uint8_t nobody[16]; /* the coordinator's own notes, after a cold start */
	int err = 0;

	pthread_mutex_lock(&a->m->lock);
	if (epoch != a->m->view.epoch)
		err = -EVIEW;
	while (!err && unpack_more(&a->u)) {
		struct session *s;
		struct kept_note *k;
		struct note n;

		unpack_note(&a->u, &n);
		s = a->u.failed ? NULL : session_by_id(a->m, n.session, false);
		k = s ? note_find(s, n.sequence) : NULL;
		if (!k)
			continue;
		k->note.status = n.status;
		k->note.value = n.value;
		if (!n.resolved) /* only what became of it here, while it is being recovered */
			continue;
		k->resolved = true;
		k->recovering = k->orphan = false;
		if (!a->m->frozen && (n.sequence <= s->settled || !memcmp(n.session, nobody, sizeof(nobody))))
			note_remove(a->m, k);
	}
	task_cond_broadcast(&a->m->event);
	pthread_mutex_unlock(&a->m->lock);
	return err;
}

/* ---- of the coordinator: healing ---- */

static int list_index(struct asked *a)
{
	uint64_t above = unpack_u64(&a->u), cursor = unpack_u64(&a->u), at = cursor & UINT32_MAX;
	const struct index *i = &a->m->index;
	unsigned count = 0;
	struct pack list = { 0 };

	pthread_mutex_lock(&a->m->lock);
	if (cursor >> 32 != i->compactions) /* entries have moved: from the beginning, twice told is no harm */
		at = 0;
	for (; at < i->count && count < GFIDS_IN_ONE; at++) {
		if (i->entry[at].generation <= above)
			continue;
		pack_gfid(&list, &i->entry[at].gfid);
		pack_u32(&list, i->entry[at].type);
		count++;
	}
	pack_u8(&a->answer, above < i->floor);
	pack_u64(&a->answer, at < i->count ? (uint64_t)i->compactions << 32 | at : 0);
	pthread_mutex_unlock(&a->m->lock);
	pack_bytes(&a->answer, list.bytes, list.size);
	pack_free(&list);
	return 0;
}

static int list_pending(struct asked *a)
{
	size_t cursor = unpack_u64(&a->u);
	const struct gfid *g;

	pthread_mutex_lock(&a->m->lock);
	if (!cursor)
		gfid_set_free(&a->m->again);
	pack_u64(&a->answer, a->m->pending.count);
	pack_u8(&a->answer, a->m->all_pending);
	for (unsigned n = 0; n < GFIDS_IN_ONE && (g = gfid_set_next(&a->m->pending, &cursor)); n++)
		pack_gfid(&a->answer, g);
	pthread_mutex_unlock(&a->m->lock);
	return 0;
}

/* Those that are open here without a name were not healed: nobody gets to see them here any more. */
static int bury(struct request *rq, struct member *m, uint64_t epoch, struct unpack gfids)
{
	int err = 0;

	while (err >= 0 && unpack_more(&gfids)) {
		struct gfid g = unpack_gfid(&gfids);
		cleanup_inode struct inode *inode = NULL;

		if (nameless(rq, m, &g, &inode) || !S_ISREG(inode->type))
			continue;
		pthread_mutex_lock(&m->lock);
		err = epoch == m->view.epoch ? gfid_set_add(&m->dead, &g) : -EVIEW;
		pthread_mutex_unlock(&m->lock);
	}
	return err < 0 ? err : 0;
}

static int strike(struct asked *a, uint64_t epoch)
{
	uint8_t flags = unpack_u8(&a->u);
	struct member *m = a->m;
	int err = flags & STRIKE_GONE ? bury(a->rq, m, epoch, a->u) : 0;
	uint32_t kept = 0;

	if (err)
		return err;
	pthread_mutex_lock(&m->lock);
	if (epoch != m->view.epoch)
		err = -EVIEW;
	while (!err && unpack_more(&a->u)) {
		struct gfid g = unpack_gfid(&a->u);

		if (gfid_set_has(&m->again, &g) &&
		    !MUTANT("strike-anyway")) { /* a change was skipped while it was healed: once more */
			kept++;
			continue;
		}
		gfid_set_remove(&m->pending, &g);
		gfid_set_remove(&m->follows, &g);
		if (m->all_pending && gfid_set_add(&m->healed, &g) < 0)
			err = -ENOMEM;
	}
	if (!err && flags & STRIKE_REST) {
		m->all_pending = false;
		gfid_set_free(&m->healed);
	}
	pthread_mutex_unlock(&m->lock);
	pack_u32(&a->answer, kept);
	return err;
}

static int follow(struct asked *a, uint64_t epoch)
{
	struct gfid g = unpack_gfid(&a->u);
	int err;

	if (a->u.failed)
		return -EINVAL;
	pthread_mutex_lock(&a->m->lock);
	err = epoch == a->m->view.epoch && member_state(a->m) == MEMBER_BACK ? gfid_set_add(&a->m->follows, &g) : -EVIEW;
	if (err >= 0)
		gfid_set_remove(&a->m->again, &g);
	pthread_mutex_unlock(&a->m->lock);
	return err < 0 ? err : 0;
}

/* In memory, or by the handle that the index keeps. */
static int find(struct asked *a)
{
	struct gfid g = unpack_gfid(&a->u);
	uint8_t handle[INDEX_HANDLE_MAX];
	const struct index_entry *e;
	struct member *m = a->m;
	size_t size = 0;
	int err = -ENOENT;

	pthread_mutex_lock(&m->lock);
	if (member_dead(m, &g)) {
		pthread_mutex_unlock(&m->lock);
		return -ENOENT;
	}
	pthread_mutex_unlock(&m->lock);
	a->out->inode = inode_find(m->x->inodes, &g);
	if (!a->out->inode) {
		pthread_mutex_lock(&m->lock);
		e = index_find(&m->index, &g);
		if (e && e->handle) {
			size = e->handle_size;
			memcpy(handle, e->handle, size);
		}
		pthread_mutex_unlock(&m->lock);
		if (size && m->leaf->type->inode_from_handle)
			err = m->leaf->type->inode_from_handle(m->leaf, handle, size, &a->out->inode);
	}
	if (a->out->inode)
		err = put_links(a, a->out->inode);
	if (err == -EXDEV) {
		pack_u32(&a->answer, 0);
		err = 0;
	}
	if (err) {
		inode_unref(a->out->inode);
		a->out->inode = NULL;
		return err == -ESTALE ? -ENOENT : err;
	}
	return 0;
}

static int hash_file(struct asked *a, struct file *file, uint64_t offset, uint64_t length)
{
	XXH3_state_t *state = XXH3_createState();
	XXH128_canonical_t canonical;
	int err = state ? 0 : -ENOMEM;

	if (state)
		XXH3_128bits_reset(state);
	while (!err && length) {
		struct read_in in = { file, offset, length < PIECE ? (uint32_t)length : PIECE };
		struct read_out out = { 0 };
		uint32_t got;

		err = read_on(a->rq, a->m->x->child[0], &in, &out);
		got = err || !out.data ? 0 : out.data->size;
		if (got)
			XXH3_128bits_update(state, out.data->data, got);
		fop_out_clear(FOP_read, &out);
		offset += got;
		length -= got;
		if (got < in.size)
			break;
	}
	if (!err) {
		XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
		pack_bytes(&a->answer, canonical.digest, sizeof(canonical.digest));
	}
	XXH3_freeState(state);
	return err;
}

static int checksum(struct asked *a)
{
	uint64_t offset = unpack_u64(&a->u), length = unpack_u64(&a->u);
	struct open_in in = { a->in->inode, O_RDONLY };
	struct open_out out = { 0 };
	struct release_in done;
	struct release_out nothing = { 0 };
	int err;

	if (!a->in->inode || a->u.failed)
		return -EINVAL;
	err = open_on(a->rq, a->m->x->child[0], &in, &out);
	if (err)
		return err;
	err = hash_file(a, out.file, offset, length);
	done.file = out.file;
	release_on(a->rq, a->m->x->child[0], &done, &nothing);
	fop_out_clear(FOP_open, &out);
	return err;
}

/* It is open here without a name, and no member that can be trusted has it: so what is left of it here may be out of date. */
static int lose(struct asked *a, uint64_t epoch)
{
	struct gfid g = unpack_gfid(&a->u);
	cleanup_inode struct inode *inode = NULL;
	int err = 0;

	if (a->u.failed || nameless(a->rq, a->m, &g, &inode))
		return 0;
	pthread_mutex_lock(&a->m->lock);
	if (epoch == a->m->view.epoch)
		err = gfid_set_add(&a->m->dead, &g);
	else
		err = -EVIEW;
	pthread_mutex_unlock(&a->m->lock);
	return err < 0 ? err : 0;
}

/* The way up from what a client has a handle of. */
static int find_directory(struct asked *a)
{
	int err = find(a);

	if (err || S_ISDIR(a->out->inode->type))
		return err;
	inode_unref(a->out->inode);
	a->out->inode = NULL;
	return -ENOENT;
}

/* ---- who asks ---- */

static int from_client(struct asked *a)
{
	switch (a->in->verb) {
	case REPLICA_ATTACH:
		return attach(a);
	case REPLICA_DETACH:
		return detach(a);
	case REPLICA_ACQUIRE:
		return acquire(a);
	case REPLICA_RELEASE:
		return release(a);
	case REPLICA_SETTLE:
		return settle(a);
	case REPLICA_TRY:
		return try_tokens(a);
	case REPLICA_BELIEVE:
		return believe(a);
	case REPLICA_SUSPECT:
		return suspect(a);
	case REPLICA_FAILED:
		return failed(a);
	case REPLICA_LINKS:
		return put_links(a, a->in->inode);
	case REPLICA_DIRECTORY:
		return find_directory(a);
	case REPLICA_UNLINKED:
		return find_unlinked(a);
	case REPLICA_OUTCOME:
		return outcome(a);
	case REPLICA_SKIP:
		return skip(a);
	default:
		return -EOPNOTSUPP;
	}
}

static int from_coordinator(struct asked *a, uint64_t epoch)
{
	switch (a->in->verb) {
	case REPLICA_LEASE:
		return lease(a);
	case REPLICA_FREEZE:
		return freeze(a, epoch);
	case REPLICA_NOTES:
		return notes(a, epoch);
	case REPLICA_ADD_NOTES:
		return add_notes(a, epoch);
	case REPLICA_ADD_PENDING:
		return add_pending(a, epoch);
	case REPLICA_ACTIVATE:
		return activate(a, epoch);
	case REPLICA_RESOLVE:
		return resolve(a, epoch);
	case REPLICA_INDEX:
		return list_index(a);
	case REPLICA_PENDING:
		return list_pending(a);
	case REPLICA_STRIKE:
		return strike(a, epoch);
	case REPLICA_FIND:
		return find(a);
	case REPLICA_LOSE:
		return lose(a, epoch);
	case REPLICA_DISTRUST:
		return distrust(a, epoch);
	case REPLICA_FOLLOW:
		return follow(a, epoch);
	case REPLICA_SYNC:
		return MUTANT("heal-unsynced") ? 0 : a->m->leaf->type->sync(a->m->leaf);
	case REPLICA_CHECKSUM:
		return checksum(a);
	default:
		return -EOPNOTSUPP;
	}
}

/* Compares in a time that does not depend on where they differ. */
static bool secret_is(const struct member *m, const uint8_t given[REPLICA_SECRET_SIZE])
{
	uint8_t differs = 0;

	for (unsigned i = 0; i < REPLICA_SECRET_SIZE; i++)
		differs |= m->secret[i] ^ given[i];
	return !differs;
}

int member_verb(struct request *rq, struct xlator *x, const struct replica_in *in, struct replica_out *out)
{
	struct asked a = { rq, member_of(x), in, out, unpack_blob(&in->data), { 0 } };
	uint8_t secret[REPLICA_SECRET_SIZE];
	uint64_t epoch;
	int err;

	if (in->verb < REPLICA_LEASE) {
		err = from_client(&a);
	} else {
		unpack_bytes(&a.u, secret, sizeof(secret));
		epoch = unpack_u64(&a.u);
		if (a.u.failed || !secret_is(a.m, secret))
			return -EPERM;
		atomic_store(&a.m->coordinator, rq->client);
		err = from_coordinator(&a, epoch);
	}
	if (!err)
		err = pack_end(&a.answer, &out->data);
	if (err) {
		pack_free(&a.answer);
		fop_out_clear(FOP_replica, out);
	}
	return err;
}
