/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants' clients that went without a word, and hold others up: what they left that is alike at all members goes without a new view (doc/tenants.md, T14). */
#include "verbs.h"

/* Longer than any belief (BELIEF_WAIT_MS), and than it takes to connect again. */
#define AWAY_NS 2000000000ull
enum { TOLD = 32, NOTES_TOLD = 64, FENCED_MAX = 4096 };

/* ---- who; with the lock held ---- */

static bool is_away(const struct session *s)
{
	uint64_t since = s->client ? atomic_load(&s->client->alone_since_ns) : s->gone_ns;

	return since && clock_ns() >= since + AWAY_NS;
}

static bool has_orphans(const struct session *s)
{
	const struct kept_note *k = s->first;

	while (k && (!k->orphan || k->recovering || k->resolved))
		k = k->next;
	return k;
}

/* What failed is settled as soon as all members know that, and may be done at some of them only. */
static bool is_in_doubt(const struct kept_note *k)
{
	return !k->resolved && (k->recovering || k->failed);
}

static bool has_failed(const struct session *s)
{
	const struct kept_note *k = s->first;

	while (k && (k->resolved || !k->failed))
		k = k->next;
	return k;
}

/* Who reads what it has changed waits until that is settled; it was asked for that long ago, or has no connection by which to hear of it. What is being done here yet
 * it can't settle. */
bool session_keeps_readers(const struct member *m, const struct session *s)
{
	uint64_t now = clock_ns(), most = m->token_timeout_ms * 1000000;
	const struct kept_note *k = s->first;

	if (!s->asked_ns || now < s->asked_ns + most)
		return false;
	while (k && (k->resolved || k->recovering || k->note.status == NOTE_UNKNOWN || now < k->begun_ns + most))
		k = k->next;
	return k;
}

static bool holds_up(const struct member *m, const struct session *s)
{
	return session_sticks(s) || session_keeps_readers(m, s) || (!s->client && (s->tokens || has_orphans(s)));
}

static bool is_fenced(const struct member *m, const uint8_t id[16])
{
	for (unsigned i = 0; i < m->fenced_count; i++)
		if (!memcmp(m->fenced[i], id, sizeof(m->fenced[i])))
			return true;
	return false;
}

/* Who is fenced has been asked about already, and is waited for by a view if that did not help. What failed needs one, which must not wait for this. */
static bool is_departing(const struct member *m, const struct session *s)
{
	return s->tenant && is_away(s) && holds_up(m, s) && !is_fenced(m, s->id) && !has_failed(s);
}

unsigned departing(const struct member *m)
{
	unsigned count = 0;

	for (const struct session *s = m->sessions; s && m->tenants; s = s->next)
		count += is_departing(m, s);
	return count;
}

/* ---- out of this epoch; with the lock held ---- */

bool session_may_attach(struct member *m, const uint8_t id[16], struct tenant *t)
{
	bool yes = !is_fenced(m, id) || MUTANT("return-at-once");

	if (!yes && t)
		t->returned = true;
	return yes;
}

/* Remembered though nothing else is known of it: what it sends only here must not come in between what others do now. */
static int fence(struct member *m, const uint8_t id[16])
{
	uint8_t(*grown)[16];

	if (is_fenced(m, id))
		return 0;
	if (m->fenced_count == FENCED_MAX)
		return -EMFILE;
	grown = realloc(m->fenced, (m->fenced_count + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	m->fenced = grown;
	memcpy(m->fenced[m->fenced_count++], id, sizeof(*grown));
	return 0;
}

void fences_drop(struct member *m)
{
	free(m->fenced);
	m->fenced = NULL;
	m->fenced_count = 0;
	for (struct tenant *t = m->tenants; t; t = t->next)
		t->returned = false;
}

/* All members have done what is noted here and not in doubt: it is resolved, as by a recovery. */
static void free_session(struct member *m, struct session *s, uint64_t settled)
{
	struct kept_note *next;

	s->settled = settled > s->settled ? settled : s->settled;
	for (struct kept_note *k = s->first; k; k = next) {
		next = k->next;
		if (is_in_doubt(k))
			continue;
		k->resolved |= !k->note.status;
		k->orphan &= !k->resolved;
		if (k->note.sequence <= s->settled && k->note.status != NOTE_UNKNOWN)
			note_remove(m, k);
	}
	s->asked_ns = 0;
	tokens_drop(m, s);
	sessions_sweep(m);
}

/* ---- what the coordinator asks ---- */

/* So many at a time, in turn. */
int verb_departing(struct asked *a, uint64_t epoch)
{
	struct member *m = a->m;
	unsigned at = 0, told = 0, from = m->departing_from;
	int err;

	pthread_mutex_lock(&m->lock);
	err = epoch == m->view.epoch ? 0 : -EVIEW;
	for (const struct session *s = m->sessions; s && !err && told < TOLD; s = s->next) {
		if (!is_departing(m, s) || at++ < from)
			continue;
		pack_bytes(&a->answer, s->id, sizeof(s->id));
		told++;
	}
	m->departing_from = told == TOLD ? from + told : 0;
	pthread_mutex_unlock(&m->lock);
	return err;
}

static void put_note(struct asked *a, const struct kept_note *k)
{
	struct note n;

	memcpy(&n, &k->note, offsetof(struct note, object) + k->note.objects * sizeof(n.object[0]));
	n.status = is_in_doubt(k) ? NOTE_UNKNOWN : n.status;
	pack_note(&a->answer, &n);
}

/* What it has left here; nothing of one that is not known. */
static void put_left(struct asked *a, const struct session *s)
{
	pack_u64(&a->answer, s ? s->settled : 0);
	for (const struct kept_note *k = s ? s->first : NULL; k; k = k->next)
		if (!k->resolved)
			put_note(a, k);
}

static int step(struct asked *a, const uint8_t id[16], enum depart_step step, uint64_t settled)
{
	struct member *m = a->m;
	struct session *s = session_by_id(m, id, false);
	bool away = !s || (s->tenant && is_away(s) && s->notes <= NOTES_TOLD);
	int err = step == DEPART_FENCE && away && !MUTANT("depart-unfenced") ? fence(m, id) : 0;

	if (step == DEPART_FREE && !is_fenced(m, id) && !MUTANT("depart-unfenced"))
		return -EVIEW;
	if (step == DEPART_FREE && s)
		free_session(m, s, settled);
	if (err || step == DEPART_FREE)
		return err;
	if (step == DEPART_FENCE && away && s && s->client)
		session_orphan(m, s);
	pack_u8(&a->answer, away);
	if (away)
		put_left(a, s);
	return 0;
}

int verb_depart(struct asked *a, uint64_t epoch)
{
	uint8_t id[16], which;
	uint64_t settled;
	int err;

	unpack_bytes(&a->u, id, sizeof(id));
	which = unpack_u8(&a->u);
	settled = unpack_u64(&a->u);
	if (a->u.failed || session_is_nobody(id) || which > DEPART_FREE)
		return -EINVAL;
	pthread_mutex_lock(&a->m->lock);
	err = epoch != a->m->view.epoch || a->m->frozen ? -EVIEW : step(a, id, which, settled);
	pthread_mutex_unlock(&a->m->lock);
	return err;
}
