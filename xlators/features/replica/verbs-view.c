/* SPDX-License-Identifier: Apache-2.0 */
/* A new view: freeze, collect the notes, activate, resolve. */
#include "verbs.h"

/* GO_ON: a client tries to connect once in a second, at least. */
enum { FREEZE_NS = 2000000000, GO_ON_MS = 3000 };

/* With the lock held. Only the first member of the view decides about limits; while it is frozen it does not either, so no change that is under way waits for that. */
static void tell_decides(struct member *m, uint64_t epoch)
{
	for (struct xlator *x = m->x; x->children; x = x->child[0])
		if (x->child[0]->type->decides) {
			x->child[0]->type->decides(x->child[0], epoch);
			return;
		}
}

int verb_freeze(struct asked *a, uint64_t epoch)
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
		tell_decides(m, 0);
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

static void put_note(struct asked *a, const struct kept_note *k)
{
	struct note n;

	memcpy(&n, &k->note, offsetof(struct note, object) + k->note.objects * sizeof(n.object[0]));
	n.resolved = k->resolved;
	n.tenants = k->session->tenant;
	pack_note(&a->answer, &n);
}

/* Not of one that was started anew since it was frozen: it has forgotten them, and has another disk perhaps. */
int verb_notes(struct asked *a, uint64_t epoch)
{
	uint64_t from = unpack_u64(&a->u), at = 0;
	bool frozen;

	pthread_mutex_lock(&a->m->lock);
	frozen = a->m->frozen && a->m->coming == epoch;
	for (const struct kept_note *k = a->m->notes; k && a->answer.size < REPLICA_BLOB_MAX - 2048; k = k->all_next)
		if (at++ >= from)
			put_note(a, k);
	pthread_mutex_unlock(&a->m->lock);
	return frozen || MUTANT("notes-unfrozen") ? 0 : -EVIEW;
}

int verb_repeated(struct asked *a, uint64_t epoch)
{
	bool now;

	pthread_mutex_lock(&a->m->lock);
	now = epoch == a->m->view.epoch;
	for (const struct kept_note *k = a->m->notes; k && now && a->answer.size < REPLICA_BLOB_MAX / 8; k = k->all_next)
		if (k->repeated)
			put_note(a, k);
	pthread_mutex_unlock(&a->m->lock);
	return now ? 0 : -EVIEW;
}

int verb_add_notes(struct asked *a, uint64_t epoch)
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

int verb_add_pending(struct asked *a, uint64_t epoch)
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
		gfid_set_free(&m->unhealed);
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

/* Unless something is being recovered yet. */
static void forget_half_made(struct member *m)
{
	if (!m->recovering)
		gfid_set_free(&m->half_made);
}

/* All that is not resolved must be recovered; at a member that is BACK it is pending, too. A process that takes part for the first time (`new`)
 * does not know what the one before it had done. */
static int take_notes(struct member *m, bool new)
{
	struct kept_note *next;

	for (struct kept_note *k = m->staged; k; k = k->all_next) {
		struct session *s = session_by_id(m, k->note.session, false);
		const struct kept_note *own = s ? note_find(m, s, k->note.sequence) : NULL;

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
		note_recovers(m, added, !added->resolved);
		for (unsigned i = 0; i < k->note.objects && added->recovering && member_state(m) == MEMBER_BACK; i++)
			member_add_pending(m, &k->note.object[i].gfid);
	}
	staged_drop(m);
	return 0;
}

int verb_activate(struct asked *a, uint64_t epoch)
{
	struct member *m = a->m;
	enum member_state before;
	bool returns, goes_on, anew;
	struct view v;
	int err = 0;

	unpack_view(&a->u, &v);
	returns = unpack_more(&a->u) && unpack_u32(&a->u) >> m->number & 1;
	goes_on = unpack_more(&a->u) && unpack_u8(&a->u);		 /* a coordinator before this one does not say so */
	anew = unpack_more(&a->u) && unpack_u32(&a->u) >> m->number & 1; /* nor one before this */
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
		m->active_ns = clock_ns();
		m->frozen = false;
		m->grant_from_ns = m->believed_ns + BELIEF_WAIT_MS * 1000000;
		m->suspects = m->doubted = 0;
		tenants_left(m, true);
		tokens_drop(m, NULL);
		fences_drop(m);
		take_pending(m, before);
		for (struct session *s = m->sessions; s; s = s->next) /* for what is recovered now */
			s->asked_ns = 0;
		err = take_notes(m, !m->since);
		forget_half_made(m);
		if (anew) /* all that was not synced is pending */
			losses_forget(m);
		if (goes_on || (!m->since && member_state(m) == MEMBER_IN &&
				epoch > 1)) /* it comes from a cold start: else it would be BACK */
			m->go_on_until_ns = clock_ns() + GO_ON_MS * 1000000ull;
		if (!m->since || returns ||
		    member_state(m) == MEMBER_BACK) /* what was told while it was away it has not heard */
			m->since = epoch;
		if (err) /* it has forgotten what must be recovered, so it must not serve */
			m->view.epoch = 0;
		tell_decides(m, !err && view_first(&v) == (int)m->number ? epoch : 0);
		sessions_sweep(m);
		task_cond_broadcast(&m->event);
	}
	pthread_mutex_unlock(&m->lock);
	if (!err)
		event_up(m->x, &(struct event){ .kind = EVENT_VIEW });
	return err;
}

/* It was found to differ in what no index tells of. */
int verb_distrust(struct asked *a, uint64_t epoch)
{
	int err = -EVIEW;

	pthread_mutex_lock(&a->m->lock);
	if (a->m->frozen && epoch == a->m->coming)
		err = MUTANT("trust-all") ? 0 : index_distrust(&a->m->index);
	pthread_mutex_unlock(&a->m->lock);
	return err;
}

int verb_resolve(struct asked *a, uint64_t epoch)
{
	int err = 0;

	pthread_mutex_lock(&a->m->lock);
	if (epoch != a->m->view.epoch)
		err = -EVIEW;
	while (!err && unpack_more(&a->u)) {
		struct session *s;
		struct kept_note *k;
		struct note n;

		unpack_note(&a->u, &n);
		err = a->u.failed ? -EINVAL : 0;
		s = err ? NULL : session_by_id(a->m, n.session, false);
		k = s ? note_find(a->m, s, n.sequence) : NULL;
		if (!k)
			continue;
		k->note.status = n.status;
		k->note.value = n.value;
		if (!n.resolved) /* only what became of it here, while it is being recovered */
			continue;
		k->resolved = true;
		note_recovers(a->m, k, false);
		k->orphan = false;
		if (!a->m->frozen && (n.sequence <= s->settled || session_is_nobody(n.session)))
			note_remove(a->m, k);
	}
	if (!err)
		forget_half_made(a->m);
	task_cond_broadcast(&a->m->event);
	pthread_mutex_unlock(&a->m->lock);
	return err;
}
