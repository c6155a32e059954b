/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens: who may change an object. The granter hands them out first come, first served, and asks for them back. */
#include "member.h"

enum { WAIT_NS = 1000000000, TELL_AGAIN_NS = 200000000 };
enum { TOKENS_FREELY = 100000 }; /* more are granted only to who needs them */

static struct token **place(struct member *m, const struct gfid *g)
{
	struct token **at;
	uint64_t h;

	memcpy(&h, g->bytes + 8, sizeof(h));
	at = &m->token[(h * 0x9e3779b97f4a7c15u >> 20) % TOKEN_BUCKETS];
	while (*at && !gfid_equal(&(*at)->gfid, g))
		at = &(*at)->next;
	return at;
}

/* To the one who waits longest; the token goes if there is none. */
static void pass_on(struct member *m, struct token **at)
{
	struct token *t = *at;

	if (t->holder)
		t->holder->tokens--;
	m->stuck -= t->stuck;
	t->stuck = false;
	t->recalled_ns = t->told_ns = 0;
	t->holder = NULL;
	if (t->first) {
		t->holder = t->first->session;
		t->holder->tokens++;
		t->first = t->first->next;
		if (!t->first)
			t->last = NULL;
		else
			t->recalled_ns = clock_ns();
		task_cond_broadcast(&m->event);
		return;
	}
	*at = t->next;
	m->tokens--;
	free(t);
}

static struct token *make(struct member *m, struct token **at, const struct gfid *g)
{
	struct token *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->gfid = *g;
	m->tokens++;
	return *at = t;
}

/* ---- waiting ---- */

static void enqueue(struct token *t, struct token_wait *w)
{
	if (t->last)
		t->last->next = w;
	else
		t->first = w;
	t->last = w;
	if (!t->recalled_ns)
		t->recalled_ns = clock_ns();
}

static void dequeue(struct token *t, struct token_wait *w)
{
	struct token_wait *before = NULL, *at = t->first;

	while (at && at != w) {
		before = at;
		at = at->next;
	}
	if (!at)
		return;
	*(before ? &before->next : &t->first) = w->next;
	if (t->last == w)
		t->last = before;
	if (!t->first)
		t->recalled_ns = 0;
}

/* Asks the holder, now and then; the lock is let go meanwhile. */
static void recall(struct member *m, struct token *t)
{
	uint64_t now = clock_ns();
	struct event e = { .kind = EVENT_RECALL, .client = t->holder ? t->holder->client : NULL };

	/* The coordinator may need long to heal a large file; it gives the token back. */
	if (!t->stuck && t->recalled_ns && t->holder && t->holder->client != atomic_load(&m->coordinator) &&
	    now - t->recalled_ns > m->token_timeout_ms * 1000000) {
		t->stuck = true;
		m->stuck++;
	}
	if (!e.client || (t->told_ns && now - t->told_ns < TELL_AGAIN_NS))
		return;
	event_set_gfid(&e, &t->gfid);
	t->told_ns = now;
	m->recalls++;
	pthread_mutex_unlock(&m->lock);
	event_up(m->x, &e);
	pthread_mutex_lock(&m->lock);
}

/* In a new view not before nobody believes any more what was read under a token of an earlier one. */
static bool may_grant(struct member *m, const struct gfid *g)
{
	if (clock_ns() < m->grant_from_ns && !MUTANT("grant-believed"))
		return false;
	return !note_blocks(m, g) || MUTANT("grant-in-recovery");
}

static int check(struct member *m, const struct gfid *g, uint64_t epoch)
{
	int err = epoch == m->view.epoch && !m->frozen ? member_serves(m, MEMBER_IN) : -EVIEW;

	return err ? err : view_granter(&m->view, g) == m->number ? 0 : -EVIEW;
}

/* One look. 0: granted; -EAGAIN: wait. */
static int attempt(struct member *m, struct session *s, const struct gfid *g, struct token_wait *w, bool *queued)
{
	struct token **at = place(m, g), *t = *at;

	if (!t && !(t = make(m, at, g)))
		return -ENOMEM;
	if (may_grant(m, g) && (t->holder == s || MUTANT("grant-twice") || (!t->holder && (!t->first || t->first == w)))) {
		s->tokens += !t->holder;
		t->holder = s;
		dequeue(t, w);
		return 0;
	}
	if (t->holder == s)
		return -EAGAIN;
	if (!*queued)
		enqueue(t, w);
	*queued = true;
	recall(m, t);
	return -EAGAIN;
}

static uint64_t look_again(const struct member *m)
{
	uint64_t now = clock_ns(), soon = now + TELL_AGAIN_NS;

	return m->grant_from_ns > now && m->grant_from_ns < soon ? m->grant_from_ns : soon;
}

int token_acquire(struct member *m, struct request *rq, uint64_t epoch, const struct gfid *g)
{
	uint64_t deadline = clock_ns() + WAIT_NS;
	struct token_wait w = { 0 };
	bool queued = false;
	struct token *t;
	int err;

	pthread_mutex_lock(&m->lock);
	for (;;) {
		w.session = session_of(m, rq->client);
		err = w.session ? check(m, g, epoch) : -EVIEW;
		if (!err)
			err = attempt(m, w.session, g, &w, &queued);
		if (err != -EAGAIN)
			break;
		if (clock_ns() >= deadline) {
			err = -ERECOVERING;
			break;
		}
		m->waits++;
		err = task_cond_wait(&m->event, &m->lock, look_again(m));
		if (err == -ECANCELED)
			break;
	}
	t = *place(m, g);
	if (t)
		dequeue(t, &w);
	pthread_mutex_unlock(&m->lock);
	return err;
}

/* What a session made nobody else can have the token of yet, so it gets it with the answer. */
bool token_grant_new(struct member *m, struct session *s, const struct gfid *g)
{
	struct token **at = place(m, g), *t;

	if (check(m, g, s->attached) || !s->client || !may_grant(m, g) || *at || m->tokens >= TOKENS_FREELY ||
	    !(t = make(m, at, g)))
		return false;
	t->holder = s;
	s->tokens++;
	return true;
}

bool token_try(struct member *m, struct session *s, const struct gfid *g)
{
	const struct token *t = *place(m, g);

	if (!t)
		return token_grant_new(m, s, g);
	return t->holder == s && !t->first && may_grant(m, g) && !check(m, g, s->attached);
}

/* ---- giving up ---- */

void token_release(struct member *m, struct session *s, const struct gfid *g)
{
	struct token **at = place(m, g);

	if (*at && (*at)->holder == s)
		pass_on(m, at);
}

/* The waiters are on the stacks of tasks that will find their queue gone. */
static void destroy(struct member *m, struct token **at)
{
	struct token *t = *at;

	if (t->holder)
		t->holder->tokens--;
	m->stuck -= t->stuck;
	*at = t->next;
	m->tokens--;
	free(t);
}

void tokens_drop(struct member *m, const struct session *s)
{
	for (size_t i = 0; i < TOKEN_BUCKETS; i++) {
		struct token **at = &m->token[i];

		while (*at) {
			if (!s)
				destroy(m, at);
			else if ((*at)->holder == s)
				pass_on(m, at);
			else
				at = &(*at)->next;
		}
	}
	task_cond_broadcast(&m->event);
}

unsigned tokens_stuck(const struct member *m)
{
	return m->stuck;
}
