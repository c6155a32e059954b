/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of clients, and the notes of their changes that are not known to be everywhere. All with member.lock held. */
#include "member.h"

/* ---- notes ---- */

static size_t bucket_of(const struct gfid *g)
{
	return gfid_hash(g) % NOTE_BUCKETS;
}

/* By which of its objects the note hangs in that bucket: the first that belongs there. */
static unsigned hangs_by(const struct kept_note *k, size_t bucket)
{
	unsigned i = 0;

	while (i < k->note.objects && bucket_of(&k->note.object[i].gfid) != bucket)
		i++;
	return i;
}

static struct kept_note **next_in(struct kept_note *k, size_t bucket)
{
	return &k->by[hangs_by(k, bucket)];
}

static void link_objects(struct member *m, struct kept_note *k)
{
	for (unsigned i = 0; i < k->note.objects; i++) {
		size_t bucket = bucket_of(&k->note.object[i].gfid);

		if (hangs_by(k, bucket) != i)
			continue;
		k->by[i] = m->bucket[bucket];
		k->by_link[i] = &m->bucket[bucket];
		if (k->by[i])
			k->by[i]->by_link[hangs_by(k->by[i], bucket)] = &k->by[i];
		m->bucket[bucket] = k;
	}
}

static void unlink_objects(struct kept_note *k)
{
	for (unsigned i = 0; i < k->note.objects; i++) {
		size_t bucket = bucket_of(&k->note.object[i].gfid);

		if (hangs_by(k, bucket) != i)
			continue;
		*k->by_link[i] = k->by[i];
		if (k->by[i])
			k->by[i]->by_link[hangs_by(k->by[i], bucket)] = k->by_link[i];
	}
}

static size_t number_bucket(const struct session *s, uint64_t sequence)
{
	return (s->tag ^ sequence) * 0x9e3779b97f4a7c15u >> 52; /* Fibonacci hashing (Knuth 3, 6.4) */
}
_Static_assert(NOTE_BUCKETS == 1 << 12, "see number_bucket");

static void link_numbered(struct member *m, struct kept_note *k)
{
	struct kept_note **at = &m->numbered[number_bucket(k->session, k->note.sequence)];

	k->same_next = *at;
	k->same_link = at;
	if (*at)
		(*at)->same_link = &k->same_next;
	*at = k;
}

void note_keep_inodes(struct member *m, struct kept_note *k)
{
	for (unsigned i = 0; i < k->note.objects; i++)
		if (!k->inode[i])
			k->inode[i] = inode_find(m->x->inodes, &k->note.object[i].gfid);
}

void note_free(struct kept_note *k)
{
	for (unsigned i = 0; i < k->note.objects; i++)
		inode_unref(k->inode[i]);
	free(k);
}

struct kept_note *note_add(struct member *m, struct session *s, const struct note *n)
{
	size_t size = offsetof(struct kept_note, note.object) + n->objects * sizeof(n->object[0]);
	struct kept_note *k = malloc(size);

	if (!k)
		return NULL;
	memset(k, 0, offsetof(struct kept_note, note));
	memcpy(&k->note, n, size - offsetof(struct kept_note, note));
	memcpy(k->note.session, s->id, sizeof(s->id));
	k->session = s;
	s->newest = n->sequence > s->newest ? n->sequence : s->newest;
	k->before = s->last;
	if (s->last)
		s->last->next = k;
	else
		s->first = k;
	s->last = k;
	s->notes++;
	if (s->tenant)
		s->tenant->notes++;
	k->begun_ns = clock_ns();
	k->all_next = m->notes;
	k->all_link = &m->notes;
	if (m->notes)
		m->notes->all_link = &k->all_next;
	m->notes = k;
	link_objects(m, k);
	link_numbered(m, k);
	note_keep_inodes(m, k);
	atomic_fetch_add(&m->noted, 1);
	return k;
}

void note_recovers(struct member *m, struct kept_note *k, bool yes)
{
	unsigned step = yes ? 1 : -1u;

	if (k->recovering == yes)
		return;
	k->recovering = yes;
	m->recovering += step;
	m->hidden += note_hides(&k->note) ? step : 0;
}

void note_remove(struct member *m, struct kept_note *k)
{
	struct session *s = k->session;

	*(k->before ? &k->before->next : &s->first) = k->next;
	*(k->next ? &k->next->before : &s->last) = k->before;
	*k->same_link = k->same_next;
	if (k->same_next)
		k->same_next->same_link = k->same_link;
	*k->all_link = k->all_next;
	if (k->all_next)
		k->all_next->all_link = k->all_link;
	unlink_objects(k);
	s->notes--;
	if (s->tenant)
		s->tenant->notes--;
	note_recovers(m, k, false);
	atomic_fetch_sub(&m->noted, 1);
	note_free(k);
}

void notes_drop_all(struct member *m)
{
	while (m->notes)
		note_remove(m, m->notes);
}

struct kept_note *note_find(const struct member *m, const struct session *s, uint64_t sequence)
{
	struct kept_note *k = sequence > s->newest ? NULL : m->numbered[number_bucket(s, sequence)];

	while (k && (k->session != s || k->note.sequence != sequence))
		k = k->same_next;
	return k;
}

static bool touches(const struct note *n, const struct gfid *g, const char *name)
{
	for (unsigned i = 0; i < n->objects; i++) {
		const struct note_object *o = &n->object[i];

		if (gfid_equal(&o->gfid, g) && (!name || o->kind != NOTE_NAME || !strcmp(o->name, name)))
			return true;
	}
	return false;
}

enum { SENT_AGAIN_MS = 1200 };

/* Of a change that recovery has resolved. If half of it is there, its client does the rest soon. If it is done, its client may not know yet, and
 * let others believe what was before. */
static bool seen_by_others(const struct member *m, const struct kept_note *k)
{
	if (!k->note.status)
		return clock_ns() >= m->grant_from_ns;
	if (k->note.status == -ENOSPC && k->session->client)
		return clock_ns() > m->active_ns + SENT_AGAIN_MS * 1000000ull;
	return true;
}

struct kept_note *note_on(struct member *m, const struct gfid *g, const char *name, const struct session *not_of)
{
	size_t bucket = bucket_of(g);
	struct kept_note *k = m->bucket[bucket];

	while (k && ((k->session == not_of && !k->recovering && !k->orphan) || !touches(&k->note, g, name) ||
		     (k->resolved && seen_by_others(m, k))))
		k = *next_in(k, bucket);
	return k;
}

bool note_blocks(struct member *m, const struct gfid *g)
{
	size_t bucket = bucket_of(g);
	struct kept_note *k = m->bucket[bucket];

	while (k && (k->resolved || !(k->recovering || k->orphan) || !touches(&k->note, g, NULL)))
		k = *next_in(k, bucket);
	return k || gfid_set_has(&m->half_made, g);
}

bool note_recovering(struct member *m, const struct gfid *g)
{
	size_t bucket = bucket_of(g);
	struct kept_note *k = m->bucket[bucket];

	while (k && (!k->recovering || !touches(&k->note, g, NULL)))
		k = *next_in(k, bucket);
	return k || gfid_set_has(&m->half_made, g);
}

static bool counts(const struct session *s)
{
	return !s->tenant || MUTANT("move-on-failed");
}

unsigned orphans(const struct member *m)
{
	unsigned count = 0;

	for (const struct session *s = m->sessions; s; s = s->next)
		count += !s->client && s->tokens && counts(s);
	for (const struct kept_note *k = m->notes; k; k = k->all_next)
		count += k->orphan && !k->recovering && !k->resolved && counts(k->session);
	return count;
}

unsigned repeated(const struct member *m)
{
	unsigned count = 0;

	for (const struct kept_note *k = m->notes; k; k = k->all_next)
		count += k->repeated;
	return count;
}

/* ---- sessions ---- */

struct session *session_by_id(struct member *m, const uint8_t id[16], bool make)
{
	struct session *s = m->sessions;

	while (s && memcmp(s->id, id, sizeof(s->id)))
		s = s->next;
	if (s || !make)
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	memcpy(s->id, id, sizeof(s->id));
	s->tag = session_tag(id);
	s->gone_ns = clock_ns();
	s->next = m->sessions;
	m->sessions = s;
	return s;
}

unsigned sessions_of_client(const struct member *m, const struct client *client)
{
	unsigned count = 0;

	for (const struct session *s = m->sessions; s; s = s->next)
		count += s->client == client;
	return count;
}

struct session *session_of(struct member *m, const struct request *rq)
{
	struct replica_stamp stamp = { 0 };
	struct session *s = m->sessions;

	stamp_of(rq, &stamp);
	while (s && (!rq->client || s->client != rq->client || (stamp.session && s->tag != stamp.session)))
		s = s->next;
	return s && s->attached == m->view.epoch ? s : NULL;
}

/* Not while the coordinator collects the notes, page by page: none may go from before those that it has yet to read. */
void session_settle(struct member *m, struct session *s, uint64_t settled)
{
	struct kept_note *next;
	bool any = false;

	if (settled <= s->settled || m->frozen)
		return;
	s->settled = settled;
	s->asked_ns = 0;
	if (MUTANT("settle-at-once"))
		settled = UINT64_MAX;
	for (struct kept_note *k = s->first; k; k = next) {
		next = k->next;
		if (k->note.sequence > settled || k->recovering || (k->orphan && !k->resolved))
			continue;
		if (k->note.status == NOTE_UNKNOWN &&
		    !k->resolved) /* it is being done just now, and goes when that has ended */
			continue;
		note_remove(m, k);
		any = true;
	}
	if (any)
		task_cond_broadcast(&m->event);
}

void session_fail(struct member *m, struct session *s, uint64_t sequence)
{
	struct kept_note *k = note_find(m, s, sequence);

	if (k) {
		k->orphan = true;
		k->failed = !MUTANT("failed-departs");
		return;
	}
	if (session_has_failed(m, s, sequence)) /* it is told again until all have heard it, which must not push out others */
		return;
	if (s->failed_epoch != m->view.epoch)
		s->failed_count = 0;
	s->failed_epoch = m->view.epoch;
	s->failed[s->failed_count++ % FAILED_KEPT] = sequence;
}

bool session_has_failed(const struct member *m, const struct session *s, uint64_t sequence)
{
	for (unsigned i = 0; s->failed_epoch == m->view.epoch && i < s->failed_count && i < FAILED_KEPT; i++)
		if (s->failed[i] == sequence)
			return true;
	return false;
}

/* Its tokens are given to nobody else in this epoch: the client may be there still, and believe in them. */
void session_orphan(struct member *m, struct session *s)
{
	s->client = NULL;
	s->gone_ns = clock_ns();
	s->attached = 0;
	for (struct kept_note *k = s->first; k; k = k->next)
		k->orphan = !MUTANT("forget-orphans");
	task_cond_broadcast(&m->event);
}

void session_detach(struct member *m, struct session *s)
{
	session_orphan(m, s); /* first: it must not be given a token that it waits for itself */
	tokens_drop(m, s);
}
