/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants' clients, who may lie: what they have here is bounded, and what they say moves nobody (doc/tenants.md, T9 and T10). All with
 * member.lock held. */
#include "member.h"

/* SUSPECT_NS: cluster/afr's member-timeout, as it is by default. SLOW_NS: a change that takes longer is told as failed; it is as long, for the same
 * reason. PAUSE: from one view for a tenant to the next, doubled each time, and forgotten after QUIET_NS without one. */
#define SUSPECT_NS   4000000000ull
#define SLOW_NS	     4000000000ull
#define FAILED_NS    10000000000ull
#define PAUSE_MIN_NS 5000000000ull
#define PAUSE_MAX_NS 40000000000ull
#define QUIET_NS     600000000000ull
#define SAY_AGAIN_NS 60000000000ull

/* ---- who ---- */

static bool is(const struct tenant *t, const char *name, const struct gfid *id)
{
	return (*name && !strcmp(t->name, name)) || (!gfid_is_null(id) && gfid_equal(&t->id, id));
}

/* By its name, or the id of its tree: who moves what it has may be here before it is. NULL: no memory. */
static struct tenant *known(struct member *m, const char *name, const struct gfid *id)
{
	struct tenant *t = m->tenants;

	while (t && !is(t, name, id))
		t = t->next;
	if (!t && (t = calloc(1, sizeof(*t)))) {
		t->next = m->tenants;
		m->tenants = t;
	}
	if (t && *name)
		snprintf(t->name, sizeof(t->name), "%s", name);
	if (t && !gfid_is_null(id))
		t->id = *id;
	return t;
}

int owner_of(struct member *m, const struct request *rq, struct owner *o)
{
	struct identity who = { .kind = IDENTITY_NOBODY };
	bool tenants = rq->client && !identity_parse(rq->client->identity, &who) && identity_is_tenants(&who);

	*o = (struct owner){ .access = rq->access };
	if (!tenants && !request_is_tenants(rq))
		return 0;
	o->tree = known(m, tenants ? who.name : "", &rq->tree);
	o->tenant = tenants ? o->tree : NULL;
	return o->tree ? 0 : -ENOMEM;
}

/* Once a minute at most, however often it happens. */
static bool refuse(struct member *m, struct tenant *t, const char *what, int64_t most, const char *option)
{
	uint64_t now = clock_ns();

	if (!t->refused_ns || now > t->refused_ns + SAY_AGAIN_NS) {
		t->refused_ns = now;
		log_warning(m->x, NULL, "tenant %s has %lld %s here, which is as many as it may: more are refused (option %s)",
			    t->name, (long long)most, what, option);
	}
	return true;
}

enum kept { KEPT_SESSIONS, KEPT_NOTES, KEPT_TOKENS };

static unsigned kept_of(const struct session *s, enum kept what)
{
	return what == KEPT_NOTES ? s->notes : what == KEPT_TOKENS ? s->tokens : 1;
}

/* Whom a tenant lets in to one directory gets no more than half of what the tenant has here, all access points together: he must not keep the tenant from working
 * elsewhere. `all`: what the tenant has; they are counted only if that is as much. */
static bool points_have_half(const struct member *m, const struct tenant *t, const struct gfid *access, enum kept what,
			     unsigned all, int64_t most)
{
	int64_t sum = 0;

	if (gfid_is_null(access) || all < most / 2)
		return false;
	for (const struct session *s = m->sessions; s; s = s->next)
		if (s->tenant == t && !gfid_is_null(&s->access))
			sum += kept_of(s, what);
	return sum >= most / 2;
}

int tenant_admits(struct member *m, const struct session *s, const struct owner *o)
{
	struct tenant *t = o->tenant;

	if (s && s->owned && (s->tenant != t || s->tree != o->tree || !gfid_equal(&s->access, &o->access)))
		return -EACCES;
	if (t && (!s || s->tenant != t) &&
	    (t->sessions >= m->tenant_sessions ||
	     points_have_half(m, t, &o->access, KEPT_SESSIONS, t->sessions, m->tenant_sessions)))
		return refuse(m, t, "sessions", m->tenant_sessions, "tenant-sessions") ? -EMFILE : 0;
	return 0;
}

void session_belongs(struct session *s, const struct owner *o)
{
	struct tenant *t = o->tenant;

	s->owned = true;
	s->access = o->access;
	if (o->tree && !s->tree) {
		s->tree = o->tree;
		s->tree->visitors++;
	}
	if (!t || s->tenant)
		return;
	s->tenant = t;
	t->sessions++;
	t->tokens += s->tokens;
	t->notes += s->notes;
}

void session_leaves(struct session *s)
{
	if (s->tenant)
		s->tenant->sessions--;
	if (s->tree)
		s->tree->visitors--;
}

/* ---- how much ---- */

bool tenant_notes_full(struct member *m, const struct session *s)
{
	return s->tenant &&
	       (s->tenant->notes >= m->tenant_changes ||
		points_have_half(m, s->tenant, &s->access, KEPT_NOTES, s->tenant->notes, m->tenant_changes)) &&
	       refuse(m, s->tenant, "changes that are not settled", m->tenant_changes, "tenant-changes");
}

bool tenant_tokens_full(struct member *m, const struct session *s)
{
	return s->tenant &&
	       (s->tenant->tokens >= m->tenant_tokens ||
		points_have_half(m, s->tenant, &s->access, KEPT_TOKENS, s->tenant->tokens, m->tenant_tokens)) &&
	       refuse(m, s->tenant, "tokens", m->tenant_tokens, "tenant-tokens");
}

bool tenant_tokens_many(const struct member *m, const struct session *s)
{
	return s->tenant && s->tenant->tokens >= m->tenant_tokens / 4;
}

bool tenant_tokens_over(const struct member *m, const struct session *s)
{
	return s->tenant && s->tenant->tokens > m->tenant_tokens / 2;
}

struct session *tenant_greedy(struct member *m, struct session *s)
{
	struct session *most = s;

	for (struct session *other = m->sessions; other; other = other->next)
		if (other->tenant == s->tenant && other->client && other->tokens > most->tokens)
			most = other;
	return most;
}

/* ---- what they say ---- */

void tenant_suspects(struct member *m, struct tenant *t, uint32_t members)
{
	uint64_t now = clock_ns();

	if (!members || (t->suspected_ns && now < t->suspected_ns + SUSPECT_NS))
		return;
	t->suspected_ns = now;
	m->doubted |= members;
}

/* Others that did what has the same note have done the same: of the rest how much room and time it takes is in what the note does not tell (how long an
 * allocation is, or an attribute that something is born with). That it takes room is told all the same where the disk has none for anything. */
static bool is_whole(const struct note *n)
{
	return n->fop == FOP_write || n->fop == FOP_unlink || n->fop == FOP_rmdir || n->fop == FOP_rename || n->fop == FOP_link;
}

void tenant_failed(struct session *s, const struct note *n, int status, bool full)
{
	struct failed_change *f = &s->tenant->failed;
	bool vague = (status == -ENOSPC && (!full || MUTANT("wait-for-room"))) || status == -ETIMEDOUT;

	if (vague && !is_whole(n) && !MUTANT("believe-length"))
		return;
	memcpy(&f->note, n, offsetof(struct note, object) + n->objects * sizeof(n->object[0]));
	memcpy(f->note.session, s->id, sizeof(s->id));
	f->note.status = status;
	f->at_ns = clock_ns();
}

const struct note *tenant_failure(const struct member *m, const uint8_t session[16], uint64_t sequence)
{
	for (const struct tenant *t = m->tenants; t; t = t->next) {
		const struct note *n = &t->failed.note;

		if (t->failed.at_ns && n->sequence == sequence && !memcmp(n->session, session, sizeof(n->session)))
			return n;
	}
	return NULL;
}

/* Who waits for a disk that hangs can't be answered with an error. But how long a sync of a file takes is a matter of how much of it was written: that is no sign. */
static void note_slow(struct member *m, uint64_t now)
{
	for (const struct kept_note *k = m->notes; k; k = k->all_next)
		if (k->session->tenant && k->note.status == NOTE_UNKNOWN && !k->recovering && !k->waits &&
		    now > k->begun_ns + SLOW_NS)
			tenant_failed(k->session, &k->note, -ETIMEDOUT, false);
}

/* ---- what they leave ---- */

static void count_left(struct member *m)
{
	for (struct tenant *t = m->tenants; t; t = t->next)
		t->left = t->stuck + t->returned;
	for (const struct session *s = m->sessions; s; s = s->next)
		if (s->tenant)
			s->tenant->left += (!s->client && s->tokens) || session_keeps_readers(m, s);
	for (const struct kept_note *k = m->notes; k; k = k->all_next)
		if (k->session->tenant)
			k->session->tenant->left += k->orphan && !k->recovering && !k->resolved;
}

static void charge_for_view(struct tenant *t, uint64_t now)
{
	uint64_t twice = t->pause_ns * 2 < PAUSE_MAX_NS ? t->pause_ns * 2 : PAUSE_MAX_NS;

	t->pause_ns = !t->tidied_ns || now > t->tidied_ns + QUIET_NS ? PAUSE_MIN_NS : twice;
	t->tidied_ns = now;
}

unsigned tenants_left(struct member *m, bool charge)
{
	uint64_t now = clock_ns();
	unsigned left = 0;

	if (!m->tenants)
		return 0;
	count_left(m);
	for (struct tenant *t = m->tenants; t; t = t->next) {
		if (!t->left)
			continue;
		if (!t->tidied_ns || now >= t->tidied_ns + t->pause_ns)
			left += t->left;
		if (charge)
			charge_for_view(t, now);
	}
	return left;
}

/* In turn, where there are many. */
void tenants_tell(struct member *m, struct lease_reply *r)
{
	uint64_t now = clock_ns();
	struct tenant *last = NULL;

	if (!m->tenants)
		return;
	r->tenants_left = tenants_left(m, false);
	r->doubted = m->doubted;
	m->doubted = 0;
	note_slow(m, now);
	for (struct tenant *t = m->tenants; t && r->failures < FAILURES_TOLD; t = t->next) {
		if (!t->failed.at_ns || now > t->failed.at_ns + FAILED_NS)
			continue;
		memcpy(r->failure[r->failures].session, t->failed.note.session, sizeof(t->failed.note.session));
		r->failure[r->failures++].sequence = t->failed.note.sequence;
		last = t;
	}
	if (r->failures < FAILURES_TOLD || !last || !last->next)
		return;
	for (struct tenant *t = last; t; t = t->next) /* those that came before go to the end */
		if (!t->next) {
			t->next = m->tenants;
			m->tenants = last->next;
			last->next = NULL;
			break;
		}
}

/* What is known of one that caused views is kept while it may count. */
void tenants_sweep(struct member *m, bool all)
{
	struct tenant **at = &m->tenants;

	while (*at) {
		struct tenant *t = *at;

		if (!all && (t->visitors || (t->tidied_ns && clock_ns() < t->tidied_ns + QUIET_NS))) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		free(t);
	}
}
