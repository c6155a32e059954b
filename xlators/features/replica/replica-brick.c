/* SPDX-License-Identifier: Apache-2.0 */
/* features/replica: a brick's part in a replica set. */
#include "member.h"

static const struct option options[] = {
	{ "state-dir", OPTION_PATH, OPTION_AT(struct member, state_dir), NULL,
	  "directory for the list of what changed, on the brick's file system: made if only its last part is missing" },
	{ "secret-file", OPTION_PATH, OPTION_AT(struct member, secret_file), NULL,
	  "file with the set's secret, 64 hexadecimal digits, that the coordinator proves itself by" },
	{ "member", OPTION_INT, OPTION_AT(struct member, number), NULL, "place of this brick in the set, from 0", 0,
	  REPLICAS_MAX - 1 },
	{ "set", OPTION_INT, OPTION_AT(struct member, set), "0",
	  "number of this set among those of the volume, from 0: what shows a member that another has told a tenant of an object counts within one set",
	  0, UINT32_MAX },
	{ "token-timeout", OPTION_DURATION, OPTION_AT(struct member, token_timeout_ms), "5s",
	  "a client that does not give a token back for so long is taken for dead", 100, 3600000, .live = true },
	{ "tenant-sessions", OPTION_INT, OPTION_AT(struct member, tenant_sessions), "256",
	  "sessions of one tenant's clients; one more is refused (EMFILE)", 1, 1000000, .live = true },
	{ "tenant-tokens", OPTION_INT, OPTION_AT(struct member, tenant_tokens), "131072",
	  "tokens that one tenant's clients hold; from half of them on the oldest are asked back, beyond all of them a change is refused (ENOLCK)",
	  16, 16777216, .live = true },
	{ "tenant-changes", OPTION_INT, OPTION_AT(struct member, tenant_changes), "8192",
	  "changes of one tenant's clients that are not known to be everywhere; one more waits", 16, 1048576, .live = true },
	{ NULL },
};

/* ---- the member's place ---- */

enum member_state member_state(const struct member *m)
{
	return m->view.epoch && m->number < m->view.members ? m->view.state[m->number] : MEMBER_OUT;
}

int member_serves(const struct member *m, enum member_state at_least)
{
	return member_state(m) >= at_least && (clock_ns() < m->lease_until_ns || MUTANT("serve-without-lease")) ? 0 : -EVIEW;
}

bool member_pending(const struct member *m, const struct gfid *g)
{
	return gfid_set_has(&m->pending, g) || (m->all_pending && !gfid_set_has(&m->healed, g));
}

bool member_dead(const struct member *m, const struct gfid *g)
{
	return m->dead.count && gfid_set_has(&m->dead, g);
}

int member_add_pending(struct member *m, const struct gfid *g)
{
	int err = gfid_set_add(&m->pending, g);

	if (err >= 0)
		err = gfid_set_add(&m->again, g);
	return err < 0 ? err : 0;
}

/* ---- notes for the epoch to come ---- */

int staged_add(struct member *m, const struct note *n)
{
	size_t size = offsetof(struct kept_note, note.object) + n->objects * sizeof(n->object[0]);
	struct kept_note *k = calloc(1, size);

	if (!k)
		return -ENOMEM;
	memcpy(&k->note, n, size - offsetof(struct kept_note, note));
	k->all_next = m->staged;
	m->staged = k;
	return 0;
}

void staged_drop(struct member *m)
{
	while (m->staged) {
		struct kept_note *k = m->staged;

		m->staged = k->all_next;
		note_free(k);
	}
}

/* ---- start and stop ---- */

static struct xlator *leaf_below(struct xlator *x)
{
	while (x->children == 1)
		x = x->child[0];
	return x->children ? NULL : x;
}

static int replica_init(struct xlator *x, struct problem *p)
{
	struct member *m = x->private;
	struct gfid random;

	m->x = x;
	m->index = (struct index){ .directory_fd = -1, .file_fd = -1, .names_fd = -1 };
	pthread_mutex_init(&m->lock, NULL);
	gfid_create(&random);
	memcpy(&m->incarnation, random.bytes, sizeof(m->incarnation));
	m->incarnation |= 1;
	m->boot = runtime_boot();
	m->believed_ns = clock_ns();
	m->token_room = TOKEN_ROOM;
	m->token = calloc(m->token_room, sizeof(*m->token));
	return m->token ? 0 : problem_set(p, ENOMEM, "no memory");
}

static int replica_start(struct xlator *x, struct problem *p)
{
	struct member *m = x->private;
	int err;

	m->leaf = leaf_below(x);
	if (!m->leaf || !m->leaf->type->sync)
		return problem_set(p, EINVAL,
				   "features/replica must stand above one leaf that can be synced, such as storage/posix");
	err = secret_read(m->secret_file, m->secret, p);
	if (!err)
		err = voucher_begin(m, p);
	if (!err)
		err = index_open(&m->index, m->state_dir, p);
	if (!err)
		losses_begin(m);
	return err;
}

/* Once it serves no more, by a view without it, nobody has to wait until its lease has ended. */
static bool replica_retire(struct xlator *x)
{
	struct member *m = member_locked(x);
	bool done;

	m->leaving = true;
	done = member_serves(m, MEMBER_BACK) || m->needed;
	pthread_mutex_unlock(&m->lock);
	return done;
}

static void end_tasks(void *arg)
{
	struct member *m = arg;
	bool whole;

	pthread_mutex_lock(&m->lock);
	while (m->tasks)
		task_cond_wait(&m->event, &m->lock, NO_DEADLINE);
	pthread_mutex_unlock(&m->lock);
	/* What the disk has lost is told once: not to a translator below that stops after this one. */
	member_sync(m, &whole);
}

static void replica_stop(struct xlator *x)
{
	struct member *m = x->private;

	pthread_mutex_lock(&m->lock);
	m->stopping = true;
	m->view.epoch = 0;
	pthread_mutex_unlock(&m->lock);
	task_cond_broadcast(&m->event);
	if (task_self())
		end_tasks(m);
	else
		task_call(end_tasks, m);
}

/* A client that has been away for so long does not ask any more what became of its changes. */
#define FORGET_NS 600000000000ull

static void forget_resolved(struct member *m, struct session *s)
{
	struct kept_note *next;

	for (struct kept_note *k = s->first; k; k = next) {
		next = k->next;
		if (k->resolved)
			note_remove(m, k);
	}
}

void sessions_sweep(struct member *m)
{
	struct session **at = &m->sessions;

	while (*at) {
		struct session *s = *at;

		if (!s->client && !m->frozen && clock_ns() > s->gone_ns + FORGET_NS)
			forget_resolved(m, s);
		if (s->client || s->first || s->tokens || s->waits) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		session_leaves(s);
		free(s);
	}
	tenants_sweep(m, false);
}

void dead_sweep(struct member *m)
{
	const struct gfid *g = NULL;

	for (unsigned i = 0; i < 256 && (g = gfid_set_next(&m->dead, &m->dead_at)); i++) {
		cleanup_inode struct inode *inode = inode_find(m->x->inodes, g);

		if (!inode)
			gfid_set_remove(&m->dead, g);
	}
	if (!g)
		m->dead_at = 0;
}

static void replica_finish(struct xlator *x)
{
	struct member *m = x->private;

	tokens_drop(m, NULL);
	fences_drop(m);
	free(m->token);
	notes_drop_all(m);
	staged_drop(m);
	while (m->sessions) {
		struct session *s = m->sessions;

		m->sessions = s->next;
		free(s);
	}
	tenants_sweep(m, true);
	gfid_set_free(&m->pending);
	gfid_set_free(&m->again);
	gfid_set_free(&m->healed);
	gfid_set_free(&m->staged_pending);
	gfid_set_free(&m->dead);
	gfid_set_free(&m->half_made);
	gfid_set_free(&m->follows);
	gfid_set_free(&m->unhealed);
	index_close(&m->index);
	EVP_MAC_CTX_free(m->voucher);
	pthread_mutex_destroy(&m->lock);
}

static void replica_client_gone(struct xlator *x, const struct client *client)
{
	struct member *m = x->private;
	const struct client *it = client;

	atomic_compare_exchange_strong(&m->coordinator, &it, NULL);
	pthread_mutex_lock(&m->lock);
	for (struct session *s = m->sessions; s; s = s->next)
		if (s->client == client)
			session_orphan(m, s);
	sessions_sweep(m);
	pthread_mutex_unlock(&m->lock);
}

static void replica_dump(struct xlator *x, FILE *f)
{
	static const char *const states[] = { "out", "back", "in" };
	struct member *m = member_locked(x);
	uint64_t now = clock_ns();
	unsigned unresolved = 0;
	char lost[16] = "nothing";

	if (m->lost.count > LOST_KEPT)
		snprintf(lost, sizeof(lost), "any");
	else if (m->unsynced)
		snprintf(lost, sizeof(lost), "%u", m->lost.count);
	for (const struct kept_note *k = m->notes; k; k = k->all_next)
		unresolved += !k->resolved;
	fprintf(f, "  state: %s\n  epoch: %llu\n  lease: %lld ms\n", states[member_state(m)], (unsigned long long)m->view.epoch,
		m->lease_until_ns > now ? (long long)((m->lease_until_ns - now) / 1000000) : 0);
	fprintf(f, "  generation: %llu\n  synced: %llu\n  lost: %s\n  index: %zu\n  pending: %zu%s\n",
		(unsigned long long)m->index.generation, (unsigned long long)m->index.synced, lost, m->index.count,
		m->pending.count, m->all_pending ? " and all else" : "");
	fprintf(f,
		"  notes: %u\n  unresolved: %u\n  tokens: %u\n  changes: %llu\n  skipped: %llu\n  refused: %llu\n  waits: %llu\n  recalls: %llu\n",
		atomic_load(&m->noted), unresolved, m->tokens, (unsigned long long)m->changes, (unsigned long long)m->skipped,
		(unsigned long long)m->refused, (unsigned long long)m->waits, (unsigned long long)m->recalls);
	pthread_mutex_unlock(&m->lock);
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "features/replica",
	.summary = "a brick's part in a replica set: views, tokens, and the list of what changed",
	.options = options,
	.private_size = sizeof(struct member),
	.min_children = 1,
	.max_children = 1,
	.init = replica_init,
	.start = replica_start,
	.retire = replica_retire,
	.stop = replica_stop,
	.finish = replica_finish,
	.client_gone = replica_client_gone,
	.dump = replica_dump,
	.vouch = voucher_make,
	.any = gate_any,
};
