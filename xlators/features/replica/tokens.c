/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens: who may change an object. The granter hands them out first come, first served, and asks for them back. */
#include "member.h"

enum { WAIT_NS = 1000000000, TELL_AGAIN_NS = 200000000 };
enum { TOKENS_FREELY = TOKENS_MAX / 2 }; /* who has more gets only what it needs for a change */

static struct token **place_in(struct member *m, const struct gfid *g, const struct tenant *tree)
{
	struct token **at = &m->token[gfid_hash(g) & (m->token_room - 1)];

	while (*at && (!gfid_equal(&(*at)->gfid, g) || (*at)->tree != tree))
		at = &(*at)->next;
	return at;
}

/* Directories of one tenant's tree never come into another's, so who moves one does not wait for who moves one elsewhere. */
static const struct tenant *tree_of(const struct session *s, const struct gfid *g)
{
	return s && gfid_equal(g, &gfid_rename_token) && !MUTANT("one-rename-token") ? s->tree : NULL;
}

static struct token **place(struct member *m, const struct gfid *g, const struct session *s)
{
	return place_in(m, g, tree_of(s, g));
}

/* Stays as it is if memory is short. */
static void grow(struct member *m)
{
	size_t room = 2 * m->token_room;
	struct token **larger = calloc(room, sizeof(*larger));

	if (!larger)
		return;
	for (size_t i = 0; i < m->token_room; i++)
		while (m->token[i]) {
			struct token *t = m->token[i], **to = &larger[gfid_hash(&t->gfid) & (room - 1)];

			m->token[i] = t->next;
			t->next = *to;
			*to = t;
		}
	free(m->token);
	m->token = larger;
	m->token_room = room;
}

static void take_from(struct token *t)
{
	struct session *s = t->holder;

	if (!s)
		return;
	*(t->older ? &t->older->newer : &s->oldest) = t->newer;
	*(t->newer ? &t->newer->older : &s->youngest) = t->older;
	t->older = t->newer = NULL;
	t->holder = NULL;
	s->tokens--;
	s->stuck -= t->stuck;
	if (s->tenant)
		s->tenant->tokens--;
}

static void give_to(struct token *t, struct session *s)
{
	take_from(t);
	t->holder = s;
	t->older = s->youngest;
	*(s->youngest ? &s->youngest->newer : &s->oldest) = t;
	s->youngest = t;
	s->tokens++;
	s->stuck += t->stuck;
	if (s->tenant)
		s->tenant->tokens++;
}

static void stick(struct member *m, struct token *t)
{
	t->stuck = true;
	t->holder->stuck++;
	t->stuck_by = t->holder->tenant;
	if (t->stuck_by)
		t->stuck_by->stuck++;
	else
		m->stuck++;
}

static void unstick(struct member *m, struct token *t)
{
	if (t->stuck && t->stuck_by)
		t->stuck_by->stuck--;
	else
		m->stuck -= t->stuck;
	if (t->stuck && t->holder)
		t->holder->stuck--;
	t->stuck = false;
	t->stuck_by = NULL;
}

/* The waiters are on the stacks of tasks that will find their queue gone. */
static void destroy(struct member *m, struct token **at)
{
	struct token *t = *at;

	take_from(t);
	unstick(m, t);
	*at = t->next;
	m->tokens--;
	free(t);
}

/* The session that waits longest, and is there yet; it waits no more. */
static const struct token_wait *next_waiter(struct token *t)
{
	const struct token_wait *w = NULL;

	while (t->first && !w) {
		w = t->first->session->client ? t->first : NULL;
		t->first = t->first->next;
	}
	if (!t->first)
		t->last = NULL;
	return w;
}

static void granted(struct member *m, struct token *t, const struct token_wait *w)
{
	give_to(t, w->session);
	t->number = w->number;
	unstick(m, t);
	t->told_ns = 0;
	t->recalled_ns = t->first ? clock_ns() : 0;
}

/* After a start of all members anew nobody knows what was under way but its clients: these get the time to come and do it once more before
 * others change what it touched. Healing changes nothing of what they see. */
static bool is_turn(const struct member *m, const struct token_wait *w)
{
	return w->goes_on || clock_ns() >= m->go_on_until_ns || w->session->client == atomic_load(&m->coordinator);
}

/* To the one who waits longest; the token goes if there is none. */
static void pass_on(struct member *m, struct token **at)
{
	struct token *t = *at;
	const struct token_wait *next;

	take_from(t);
	if (t->first && !is_turn(m, t->first)) { /* it takes it when it is */
		unstick(m, t);
		t->told_ns = t->recalled_ns = 0;
		return;
	}
	next = next_waiter(t);
	if (next) {
		granted(m, t, next);
		task_cond_broadcast(&m->event);
		return;
	}
	unstick(m, t);
	*at = t->next;
	m->tokens--;
	free(t);
}

static struct token *make(struct member *m, const struct gfid *g, const struct session *s)
{
	struct token *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	if (m->tokens >= m->token_room)
		grow(m);
	t->gfid = *g;
	t->tree = tree_of(s, g);
	m->tokens++;
	return *place(m, g, s) = t;
}

/* ---- waiting ---- */

/* Who waits comes again and again, with little time in between: it is asked back since the first of them came. */
static void note_wait(struct token *t)
{
	uint64_t now = clock_ns();

	if (!t->recalled_ns || now - t->waited_ns > WAIT_NS)
		t->recalled_ns = now;
	t->waited_ns = now;
}

static void enqueue(struct token *t, struct token_wait *w)
{
	struct token_wait **at = &t->first;

	while (*at && ((*at)->goes_on || !w->goes_on))
		at = &(*at)->next;
	w->next = *at;
	*at = w;
	if (!w->next)
		t->last = w;
	w->session->waits++;
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
}

/* Asks the holder, now and then; the lock is let go meanwhile. */
static void recall(struct member *m, struct token *t)
{
	uint64_t now = clock_ns();
	struct event e = { .kind = EVENT_RECALL, .client = t->holder ? t->holder->client : NULL };

	/* The coordinator may need long to heal a large file; it gives the token back. */
	if (!t->stuck && t->recalled_ns && t->holder && t->holder->client != atomic_load(&m->coordinator) &&
	    now - t->recalled_ns > m->token_timeout_ms * 1000000)
		stick(m, t);
	if (!e.client || (t->told_ns && now - t->told_ns < TELL_AGAIN_NS))
		return;
	event_set_gfid(&e, &t->gfid);
	t->told_ns = now;
	m->recalls++;
	pthread_mutex_unlock(&m->lock);
	event_up(m->x, &e);
	pthread_mutex_lock(&m->lock);
}

/* A client that holds very many is asked for the one that it has had for longest; of a tenant's clients together, the one that has most. */
static void thin_out(struct member *m, struct session *s)
{
	bool over = tenant_tokens_over(m, s);
	struct token *t;
	struct event e = { .kind = EVENT_RECALL };

	s = over ? tenant_greedy(m, s) : s;
	t = s->oldest;
	e.client = s->client;
	if ((!over && s->tokens <= TOKENS_MAX) || !t || !e.client || e.client == atomic_load(&m->coordinator))
		return;
	event_set_gfid(&e, &t->gfid);
	give_to(t, s); /* to the end: it may be in use */
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
	struct token *t = *place(m, g, s);
	bool vacant;

	if (!t && s->tokens >= 2 * TOKENS_MAX)
		return -ERECOVERING;
	if (!t && tenant_tokens_full(m, s))
		return -ENOLCK;
	if (!t && !(t = make(m, g, s)))
		return -ENOMEM;
	vacant = !t->holder && (!t->first || t->first == w) && is_turn(m, w);
	if (may_grant(m, g) && (t->holder == s || vacant || MUTANT("grant-twice"))) {
		dequeue(t, w);
		if (t->holder != s)
			granted(m, t, w);
		if (t->number < w->number)
			t->number = w->number;
		thin_out(m, s);
		return 0;
	}
	if (t->holder == s)
		return -EAGAIN;
	if (!*queued)
		enqueue(t, w);
	*queued = true;
	note_wait(t);
	recall(m, t);
	return -EAGAIN;
}

static uint64_t look_again(const struct member *m)
{
	uint64_t now = clock_ns(), soon = now + TELL_AGAIN_NS;

	soon = m->grant_from_ns > now && m->grant_from_ns < soon ? m->grant_from_ns : soon;
	return m->go_on_until_ns > now && m->go_on_until_ns < soon ? m->go_on_until_ns : soon;
}

int token_acquire(struct member *m, struct request *rq, uint64_t epoch, uint64_t number, const struct gfid *g, bool goes_on)
{
	uint64_t deadline = clock_ns() + WAIT_NS;
	struct token_wait w = { .number = number, .goes_on = goes_on };
	bool queued = false;
	struct session *s;
	struct token *t;
	int err;

	pthread_mutex_lock(&m->lock);
	for (;;) {
		s = session_of(m, rq);
		err = s && (!queued || s == w.session) ? check(m, g, epoch) : -EVIEW;
		if (!queued)
			w.session = s;
		if (!err)
			err = attempt(m, s, g, &w, &queued);
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
	t = *place(m, g, w.session);
	if (t)
		dequeue(t, &w);
	if (t && !t->holder && !t->first)
		destroy(m, place(m, g, w.session));
	if (queued)
		w.session->waits--;
	pthread_mutex_unlock(&m->lock);
	return err;
}

/* What a session made nobody else can have the token of yet, so it gets it with the answer. */
bool token_grant_new(struct member *m, struct session *s, const struct gfid *g)
{
	struct token *t;

	if (check(m, g, s->attached) || !s->client || !may_grant(m, g) || *place(m, g, s) || s->tokens >= TOKENS_FREELY ||
	    tenant_tokens_many(m, s) || !(t = make(m, g, s)))
		return false;
	give_to(t, s);
	return true;
}

bool token_try(struct member *m, struct session *s, uint64_t number, const struct gfid *g)
{
	struct token *t = *place(m, g, s);
	bool yes = t ? t->holder == s && !t->first && may_grant(m, g) && !check(m, g, s->attached)
		     : clock_ns() >= m->go_on_until_ns && token_grant_new(m, s, g);

	if (yes && (*place(m, g, s))->number < number)
		(*place(m, g, s))->number = number;
	return yes;
}

/* ---- giving up ---- */

void token_release(struct member *m, struct session *s, uint64_t number, const struct gfid *g)
{
	struct token **at = place(m, g, s);

	if (*at && (*at)->holder == s && (*at)->number <= number)
		pass_on(m, at);
}

void tokens_drop(struct member *m, struct session *s)
{
	for (size_t i = 0; !s && i < m->token_room; i++)
		while (m->token[i])
			destroy(m, &m->token[i]);
	while (s && s->oldest)
		pass_on(m, place_in(m, &s->oldest->gfid, s->oldest->tree));
	task_cond_broadcast(&m->event);
}

unsigned tokens_stuck(const struct member *m)
{
	return m->stuck;
}
