/* SPDX-License-Identifier: Apache-2.0 */
/* What clients ask of a member: attaching, tokens, what is settled or has failed. */
#include "verbs.h"

static void put_view(struct asked *a)
{
	struct reply_view r;

	pthread_mutex_lock(&a->m->lock);
	r.view = a->m->view;
	r.serving = !member_serves(a->m, MEMBER_BACK) && !a->m->frozen;
	r.writable = a->m->writable;
	pthread_mutex_unlock(&a->m->lock);
	r.view.tenant = request_is_tenants(a->rq);
	r.view.root = gfid_spread(request_top(a->rq));
	for (unsigned i = 0; i < r.view.members && r.view.tenant; i++) /* of processes and disks he need not know */
		r.view.incarnation[i] = r.view.disk[i] = 0;
	pack_reply_view(&a->answer, &r);
}

/* With the lock held. One client has few sessions: one for each afr in its graph, and while that is changed those of two graphs. */
static int attach_session(struct member *m, const struct request *rq, const uint8_t id[16])
{
	struct session *s = session_by_id(m, id, false);
	const struct client *client = rq->client;
	struct owner owner;
	int err = owner_of(m, rq, &owner);

	if (!err)
		err = tenant_admits(m, s, &owner);
	if (!err && !session_may_attach(m, id, owner.tenant))
		err = -EVIEW;
	if (err)
		return err;
	if ((!s || s->client != client) && sessions_of_client(m, client) >= SESSIONS_MAX)
		return -EMFILE;
	s = session_by_id(m, id, true);
	if (!s)
		return -ENOMEM;
	session_belongs(s, &owner);
	s->client = client;
	s->attached = m->view.epoch;
	return 0;
}

int verb_attach(struct asked *a)
{
	uint8_t id[16];
	int err = 0;

	unpack_bytes(&a->u, id, sizeof(id));
	if (a->u.failed || session_is_nobody(id))
		return -EINVAL;
	pthread_mutex_lock(&a->m->lock);
	if (a->m->view.epoch)
		err = attach_session(a->m, a->rq, id);
	pthread_mutex_unlock(&a->m->lock);
	put_view(a);
	return err;
}

/* The session that asks, if it is attached and speaks of this epoch; with the lock held then. */
static struct session *in_that_epoch(struct asked *a, uint64_t epoch)
{
	struct session *s;

	pthread_mutex_lock(&a->m->lock);
	s = session_of(a->m, a->rq);
	if (s && epoch == a->m->view.epoch && !a->u.failed)
		return s;
	pthread_mutex_unlock(&a->m->lock);
	return NULL;
}

static struct session *in_epoch(struct asked *a)
{
	return in_that_epoch(a, unpack_u64(&a->u));
}

/* All gfids that follow, without the lock: looking at vouchers takes its time. One that may not be named is zeros. malloc'ed; NULL: no memory. */
static struct gfid *named(struct asked *a, size_t *count)
{
	struct gfid *list = malloc((size_t)(a->u.end - a->u.at) + sizeof(*list));

	for (*count = 0; list && unpack_more(&a->u); ++*count)
		if (verb_gfid(a, &list[*count]))
			list[*count] = (struct gfid){ { 0 } };
	return list;
}

int verb_acquire(struct asked *a)
{
	uint64_t epoch = unpack_u64(&a->u), number = unpack_u64(&a->u);
	struct gfid g;
	int err = verb_gfid(a, &g);
	bool goes_on = unpack_more(&a->u) && unpack_u8(&a->u);

	return err ? err : token_acquire(a->m, a->rq, epoch, number, &g, goes_on);
}

/* Given back, or kept to read. */
static int give_up(struct asked *a, void (*how)(struct member *, struct session *, uint64_t, const struct gfid *))
{
	struct session *s = in_epoch(a);
	uint64_t number;

	if (!s)
		return -EVIEW;
	session_settle(a->m, s, unpack_u64(&a->u));
	number = unpack_u64(&a->u);
	while (unpack_more(&a->u)) {
		struct gfid g = verb_gfid_held(a);

		how(a->m, s, number, &g);
	}
	pthread_mutex_unlock(&a->m->lock);
	return 0;
}

int verb_release(struct asked *a)
{
	return give_up(a, token_release);
}

int verb_lower(struct asked *a)
{
	return give_up(a, token_lower);
}

int verb_settle(struct asked *a)
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

int verb_detach(struct asked *a)
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

int verb_try(struct asked *a)
{
	uint64_t epoch = unpack_u64(&a->u), number = unpack_u64(&a->u);
	size_t count;
	struct gfid *list = named(a, &count);
	struct session *s = list ? in_that_epoch(a, epoch) : NULL;

	for (size_t i = 0; i < count && s; i++)
		pack_u8(&a->answer, !gfid_is_null(&list[i]) && token_try(a->m, s, number, &list[i]));
	if (s)
		pthread_mutex_unlock(&a->m->lock);
	free(list);
	return s ? 0 : list ? -EVIEW : -ENOMEM;
}

/* Who has them, without the lock. No more for one call than a client asks for at once: it asks again. */
static void ask_all_to_share(struct member *m, const struct client *const *has, const struct gfid *list, size_t count)
{
	enum { ASKS_MAX = 1024 };
	unsigned asks = 0;

	for (size_t i = 0; i < count && asks < ASKS_MAX; i++)
		if (has[i]) {
			ask_to_share(m, has[i], &list[i]);
			asks++;
		}
}

int verb_share(struct asked *a)
{
	uint64_t epoch = unpack_u64(&a->u), number = unpack_u64(&a->u);
	size_t count;
	struct gfid *list = named(a, &count);
	const struct client **has = list ? calloc(count + 1, sizeof(*has)) : NULL;
	struct session *s = has ? in_that_epoch(a, epoch) : NULL;

	if (s)
		s->shares = true;
	for (size_t i = 0; i < count && s; i++)
		pack_u8(&a->answer, gfid_is_null(&list[i]) ? SHARE_NONE : token_share(a->m, s, number, &list[i], &has[i]));
	if (s)
		pthread_mutex_unlock(&a->m->lock);
	if (s)
		ask_all_to_share(a->m, has, list, count);
	free(has);
	free(list);
	return s ? 0 : has ? -EVIEW : -ENOMEM;
}

/* What it is told here holds until grant_from_ns of the next view. */
int verb_believe(struct asked *a)
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

int verb_suspect(struct asked *a)
{
	struct session *s = in_epoch(a);
	uint32_t mask, reason;

	if (!s)
		return -EVIEW;
	mask = unpack_u32(&a->u) & view_mask(&a->m->view, MEMBER_BACK) & ~(1u << a->m->number);
	reason = unpack_u32(&a->u);
	if (s->tenant && !MUTANT("believe-suspect")) {
		tenant_suspects(a->m, s->tenant, mask);
		pthread_mutex_unlock(&a->m->lock);
		return 0;
	}
	for (unsigned i = 0; i < REPLICAS_MAX; i++)
		if (mask >> i & 1)
			a->m->reason[i] = reason;
	a->m->suspects |= mask;
	pthread_mutex_unlock(&a->m->lock);
	return 0;
}

int verb_failed(struct asked *a)
{
	struct session *s = in_epoch(a);

	if (!s)
		return -EVIEW;
	session_fail(a->m, s, unpack_u64(&a->u));
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
int verb_outcome(struct asked *a)
{
	struct session *s = in_epoch(a);
	const struct kept_note *k;
	int err;

	if (!s)
		return -EVIEW;
	err = member_serves(a->m, MEMBER_IN);
	k = note_find(a->m, s, unpack_u64(&a->u));
	if (!err && k && (!k->resolved || (!a->m->writable && !MUTANT("done-by-few")))) /* fewer than a quorum may have it */
		err = -ERECOVERING;
	pack_u8(&a->answer, outcome_of(k));
	pack_u64(&a->answer, k ? k->note.value : 0);
	pack_u64(&a->answer, a->m->since);
	pthread_mutex_unlock(&a->m->lock);
	return err;
}

/* With the lock held. */
static int skip(struct member *m, const struct gfid *g)
{
	if (gfid_is_null(g))
		return -ESTALE;
	return m->pending.count < PENDING_MAX ? member_add_pending(m, g) : -ENOMEM;
}

int verb_skip(struct asked *a)
{
	uint64_t epoch = unpack_u64(&a->u);
	size_t count;
	struct gfid *list = named(a, &count);
	struct session *s = list ? in_that_epoch(a, epoch) : NULL;
	int err = s ? 0 : list ? -EVIEW : -ENOMEM;

	if (s && a->m->frozen) /* the coordinator has looked already whether anything is pending */
		err = -EVIEW;
	else if (s && member_state(a->m) != MEMBER_BACK)
		err = -EINVAL;
	for (size_t i = 0; i < count && !err; i++)
		err = skip(a->m, &list[i]);
	if (s) {
		a->m->skipped++;
		pthread_mutex_unlock(&a->m->lock);
	}
	free(list);
	return err;
}
