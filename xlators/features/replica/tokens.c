/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens: who may change an object, or who may read it while nobody changes it. The granter hands them out first come, first served, and asks for them
 * back. */
#include "member.h"

enum { WAIT_NS = 1000000000, TELL_AGAIN_NS = 200000000, LOWER_AGAIN_NS = 500000000 };
enum { TOKENS_FREELY = TOKENS_MAX / 2 }; /* who has more gets only what it needs for a change */

static struct token **place_in(struct member *m, const struct gfid *g, const struct tenant *tree)
{
	struct token **at = &m->token[gfid_hash(g) & (m->token_room - 1)];

	while (*at && (!gfid_equal(&(*at)->gfid, g) || (*at)->tree != tree))
		at = &(*at)->next;
	return at;
}

/* Directories of one tenant's tree never come into another's, so who moves one does not wait for who moves one elsewhere. */
static struct tenant *tree_of(const struct session *s, const struct gfid *g)
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

/* ---- who has them ---- */

static struct hold *hold_of(const struct token *t, const struct session *s)
{
	struct hold *h = t ? t->holds : NULL;

	while (h && h->session != s)
		h = h->next;
	return h;
}

static bool has_all(const struct token *t, const struct hold *h)
{
	return h && !t->shared;
}

static void leave_order(struct hold *h)
{
	*(h->older ? &h->older->newer : &h->session->oldest) = h->newer;
	*(h->newer ? &h->newer->older : &h->session->youngest) = h->older;
	h->older = h->newer = NULL;
}

static void make_youngest(struct hold *h)
{
	struct session *s = h->session;

	h->older = s->youngest;
	*(s->youngest ? &s->youngest->newer : &s->oldest) = h;
	s->youngest = h;
}

/* ---- clients of access points, and the rename token, for which all of a tenant's wait ---- */

enum { KEPT_MOST_NS = 2000000000, KEPT_PART = 16 };

/* It is forgotten by and by: so they can hold up others for that long, and then for such a part of the time. */
static uint64_t kept_now(struct tenant *tree)
{
	uint64_t now = clock_ns(), less = (now - tree->kept_at_ns) / KEPT_PART;

	tree->kept_ns -= less < tree->kept_ns ? less : tree->kept_ns;
	tree->kept_at_ns = now;
	return tree->kept_ns;
}

static bool is_guests(const struct token *t, const struct session *s)
{
	return t->tree && !gfid_is_null(&s->access);
}

/* Since it was asked back, as long as somebody waited. */
static void count_kept(const struct hold *h)
{
	const struct token *t = h->token;
	uint64_t now = clock_ns(), until = t->waited_ns + WAIT_NS < now ? t->waited_ns + WAIT_NS : now;

	if (!is_guests(t, h->session) || !t->recalled_ns || until <= t->recalled_ns)
		return;
	kept_now(t->tree);
	t->tree->kept_ns += until - t->recalled_ns;
}

static bool have_kept_too_long(const struct token *t, const struct session *s)
{
	return is_guests(t, s) && kept_now(t->tree) > KEPT_MOST_NS;
}

static void take_from(struct hold *h)
{
	struct token *t = h->token;
	struct hold **at = &t->holds;

	count_kept(h);
	while (*at != h)
		at = &(*at)->next;
	*at = h->next;
	leave_order(h);
	h->session->tokens--;
	if (h->session->tenant)
		h->session->tenant->tokens--;
	if (h == &t->own)
		h->session = NULL;
	else
		free(h);
	t->shared &= t->holds != NULL;
}

/* NULL: no memory; not if nobody has it. */
static struct hold *give_to(struct token *t, struct session *s, uint64_t number)
{
	struct hold *h = t->own.session ? malloc(sizeof(*h)) : &t->own;

	if (!h)
		return NULL;
	*h = (struct hold){ .token = t, .session = s, .number = number, .next = t->holds };
	t->holds = h;
	make_youngest(h);
	s->tokens++;
	if (s->tenant)
		s->tenant->tokens++;
	return h;
}

static void note_number(struct hold *h, uint64_t number)
{
	h->number = h->number < number ? number : h->number;
}

/* Of several who read any tenant's: beside one who is none's it must not have a view made sooner. */
static struct tenant *who_sticks(const struct token *t)
{
	const struct hold *h = t->holds;

	while (h->next && !h->session->tenant)
		h = h->next;
	return h->session->tenant;
}

static void stick(struct member *m, struct token *t)
{
	t->stuck = true;
	t->stuck_by = who_sticks(t);
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
	t->stuck = false;
	t->stuck_by = NULL;
}

/* The waiters are on the stacks of tasks that will find their queue gone. */
static void destroy(struct member *m, struct token **at)
{
	struct token *t = *at;

	while (t->holds)
		take_from(t->holds);
	unstick(m, t);
	*at = t->next;
	m->tokens--;
	free(t);
}

static bool may_have_it(const struct token *t, const struct session *s)
{
	return s->client && !have_kept_too_long(t, s);
}

/* The session that waits longest, and is there yet; it waits no more. */
static const struct token_wait *next_waiter(struct token *t)
{
	const struct token_wait *w = NULL;

	while (t->first && !w) {
		w = may_have_it(t, t->first->session) ? t->first : NULL;
		t->first = t->first->next;
	}
	if (!t->first)
		t->last = NULL;
	return w;
}

static void granted(struct member *m, struct token *t, const struct token_wait *w)
{
	while (t->holds) /* nobody has it, but for a deliberate mistake */
		take_from(t->holds);
	give_to(t, w->session, w->number);
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

/* Nobody has it: to the one who waits longest. */
static void hand_on(struct member *m, struct token *t)
{
	const struct token_wait *next;

	unstick(m, t);
	if (t->first && !is_turn(m, t->first)) { /* it takes it when it is */
		t->told_ns = t->recalled_ns = 0;
		return;
	}
	next = next_waiter(t);
	if (!next)
		return;
	granted(m, t, next);
	task_cond_broadcast(&m->event);
}

/* The session has it no more. The token goes if nobody else has it, or waits for it. */
static void pass_on(struct member *m, struct token **at, struct hold *h)
{
	struct token *t = *at;
	bool stuck = t->stuck;

	take_from(h);
	unstick(m, t);
	if (stuck) /* those who have it still are given the time anew */
		t->recalled_ns = clock_ns();
	if (t->holds)
		return;
	hand_on(m, t);
	if (!t->holds && !t->first)
		destroy(m, at);
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

/* Those who have it and are there. *clients is malloc'ed; without memory nobody is told this time. */
static unsigned clients_of(const struct token *t, const struct client ***clients)
{
	unsigned count = 0, n = 0;

	for (const struct hold *h = t->holds; h; h = h->next)
		count += h->session->client != NULL;
	*clients = count ? malloc(count * sizeof(**clients)) : NULL;
	for (const struct hold *h = t->holds; h && *clients; h = h->next)
		if (h->session->client)
			(*clients)[n++] = h->session->client;
	return n;
}

/* Asks who has it, now and then; the lock is let go meanwhile. */
static void recall(struct member *m, struct token *t)
{
	uint64_t now = clock_ns();
	struct event e = { .kind = EVENT_RECALL };
	const struct client **client;
	unsigned count;

	if (m->changes_wait && t->recalled_ns &&
	    !MUTANT("stuck-while-waiting")) /* whoever has it for a change can't end that */
		t->recalled_ns = now;
	/* The coordinator may need long to heal a large file; it gives the token back. */
	if (!t->stuck && t->recalled_ns && t->holds && t->holds->session->client != atomic_load(&m->coordinator) &&
	    now - t->recalled_ns > m->token_timeout_ms * 1000000)
		stick(m, t);
	if (t->told_ns && now - t->told_ns < TELL_AGAIN_NS)
		return;
	count = clients_of(t, &client);
	if (!count)
		return;
	event_set_gfid(&e, &t->gfid);
	t->told_ns = now;
	m->recalls += count;
	pthread_mutex_unlock(&m->lock);
	for (unsigned i = 0; i < count; i++) {
		e.client = client[i];
		event_up(m->x, &e);
	}
	free(client);
	pthread_mutex_lock(&m->lock);
}

void ask_to_share(struct member *m, const struct client *client, const struct gfid *g)
{
	struct event e = { .kind = EVENT_RECALL, .client = client, .lock.owner = RECALL_TO_SHARE };

	event_set_gfid(&e, g);
	event_up(m->x, &e);
}

/* A client that holds very many is asked for the one that it has had for longest; of a tenant's clients together, the one that has most. */
static void thin_out(struct member *m, struct session *s)
{
	bool over = tenant_tokens_over(m, s);
	struct hold *h;
	struct event e = { .kind = EVENT_RECALL };

	s = over ? tenant_greedy(m, s) : s;
	h = s->oldest;
	e.client = s->client;
	if ((!over && s->tokens <= TOKENS_MAX) || !h || !e.client || e.client == atomic_load(&m->coordinator))
		return;
	event_set_gfid(&e, &h->token->gfid);
	leave_order(h); /* to the end: it may be in use */
	make_youngest(h);
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

/* Who asks for it to change an object believes nothing any more of what was read under it: so what it has to read ends here. */
static void end_reading(struct member *m, struct token *t, const struct session *s, uint64_t number)
{
	struct hold *h = hold_of(t, s);

	if (!h || has_all(t, h) || h->number > number)
		return;
	take_from(h);
	unstick(m, t); /* it may have been this one's fault, whose tenant may go; if others keep it, it becomes theirs */
	if (!t->holds && t->first)
		hand_on(m, t);
}

/* One look. 0: granted; -EAGAIN: wait. */
static int attempt(struct member *m, struct session *s, const struct gfid *g, struct token_wait *w, bool *queued)
{
	struct token *t = *place(m, g, s);
	bool vacant, here;

	if (!t && s->tokens >= 2 * TOKENS_MAX)
		return -ERECOVERING;
	if (!t && tenant_tokens_full(m, s))
		return -ENOLCK;
	if (!t && !(t = make(m, g, s)))
		return -ENOMEM;
	end_reading(m, t, s, w->number);
	here = has_all(t, hold_of(t, s));
	if (!here && have_kept_too_long(t, s))
		return -ENOLCK;
	vacant = !t->holds && (!t->first || t->first == w) && is_turn(m, w);
	vacant |= (t->shared && MUTANT("change-what-is-read")) || MUTANT("grant-twice");
	if (may_grant(m, g) && (here || vacant)) {
		dequeue(t, w);
		if (!here)
			granted(m, t, w);
		note_number(hold_of(t, s), w->number);
		thin_out(m, s);
		return 0;
	}
	if (here)
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
	if (t && !t->holds && !t->first)
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
	give_to(t, s, 0);
	return true;
}

bool token_try(struct member *m, struct session *s, uint64_t number, const struct gfid *g)
{
	struct token *t = *place(m, g, s);
	bool yes = t ? has_all(t, hold_of(t, s)) && !t->first && may_grant(m, g) && !check(m, g, s->attached)
		     : clock_ns() >= m->go_on_until_ns && token_grant_new(m, s, g);

	if (yes)
		note_number(hold_of(*place(m, g, s), s), number);
	return yes;
}

/* One more who reads; not while somebody waits to change it, who comes again and again. */
static struct hold *join(struct member *m, struct token *t, struct session *s)
{
	bool wanted = t->recalled_ns && clock_ns() - t->waited_ns <= WAIT_NS;
	bool may = t->shared && !wanted && clock_ns() >= m->go_on_until_ns && s->client && s->tokens < TOKENS_FREELY &&
		   !tenant_tokens_many(m, s);

	return may ? give_to(t, s, 0) : NULL;
}

/* Who has all of it, and is to be asked to share it: not all the time, for it may be changing the object. */
static const struct client *to_be_asked(struct token *t)
{
	const struct session *s = !t->shared && t->holds ? t->holds->session : NULL;
	uint64_t now = clock_ns();

	if (!s || !s->shares || (t->lower_ns && now < t->lower_ns + LOWER_AGAIN_NS))
		return NULL;
	t->lower_ns = now;
	return s->client;
}

enum share token_share(struct member *m, struct session *s, uint64_t number, const struct gfid *g, const struct client **has)
{
	struct token *t = *place(m, g, s);
	struct hold *h = hold_of(t, s);

	*has = NULL;
	if (!t)
		return token_try(m, s, number, g) ? SHARE_ALL : SHARE_NONE;
	if (t->first || !may_grant(m, g) || check(m, g, s->attached))
		return SHARE_NONE;
	h = h ? h : join(m, t, s);
	if (!h) {
		*has = to_be_asked(t);
		return SHARE_NONE;
	}
	note_number(h, number);
	return t->shared ? SHARE_READ : SHARE_ALL;
}

/* ---- giving up ---- */

void token_release(struct member *m, struct session *s, uint64_t number, const struct gfid *g)
{
	struct token **at = place(m, g, s);
	struct hold *h = hold_of(*at, s);

	if (h && h->number <= number)
		pass_on(m, at, h);
}

void token_lower(struct member *m, struct session *s, uint64_t number, const struct gfid *g)
{
	struct token *t = *place(m, g, s);
	const struct hold *h = hold_of(t, s);

	if (h && (h->number <= number || MUTANT("lower-late")))
		t->shared = true;
}

void tokens_drop(struct member *m, struct session *s)
{
	for (size_t i = 0; !s && i < m->token_room; i++)
		while (m->token[i])
			destroy(m, &m->token[i]);
	while (s && s->oldest)
		pass_on(m, place_in(m, &s->oldest->token->gfid, s->oldest->token->tree), s->oldest);
	task_cond_broadcast(&m->event);
}

bool session_sticks(const struct session *s)
{
	const struct hold *h = s->tenant && !s->tenant->stuck ? NULL : s->oldest;

	while (h && !h->token->stuck)
		h = h->newer;
	return h;
}

unsigned tokens_stuck(const struct member *m)
{
	return m->stuck;
}
