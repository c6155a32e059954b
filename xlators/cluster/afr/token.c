/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens: an object's is asked of its granter, kept while it is used, and given back when somebody else asks or the object is forgotten. */
#include "afr.h"

static void start_giving_back(struct afr *, struct object *);

static const struct gfid *gfid_of(const struct object *o)
{
	return o->inode ? &o->inode->gfid : &gfid_rename_token;
}

static int ask(struct afr *a, struct object *o, uint64_t epoch, bool goes_on, uint64_t deadline)
{
	uint64_t until = clock_ns() + VERB_NS;
	struct pack p = { 0 };
	uint64_t number;
	int granter;

	pthread_mutex_lock(&a->lock);
	granter = a->view.epoch == epoch ? view_granter(&a->view, gfid_of(o)) : -1;
	a->acquired++;
	number = ++a->asked;
	pthread_mutex_unlock(&a->lock);
	if (granter < 0)
		return -EVIEW;
	pack_u64(&p, epoch);
	pack_u64(&p, number);
	if (o->inode)
		pack_found(a, &p, o->inode, granter);
	else
		pack_named(a, &p, gfid_of(o));
	pack_u8(&p, goes_on);
	return afr_verb(a, granter, REPLICA_ACQUIRE, NULL, &p, until < deadline ? until : deadline, NULL);
}

/* ---- tokens of what was forgotten ---- */

enum { LEAVING_MAX = 1024, LEAVING_WAIT_MS = 20 };

/* How: RELEASE or LOWER. */
static void give_up(struct afr *a, enum replica_verb how, const struct view *v, uint64_t number, const struct gfid *list,
		    unsigned count)
{
	for (int i = 0; i < v->members; i++) {
		struct pack p = { 0 };
		unsigned its = 0;

		pack_u64(&p, v->epoch);
		pack_u64(&p, flights_settled(a));
		pack_u64(&p, number);
		for (unsigned k = 0; k < count; k++)
			if (!gfid_is_null(&list[k]) && view_granter(v, &list[k]) == i) {
				pack_gfid(&p, &list[k]);
				its++;
			}
		if (its)
			afr_verb(a, i, how, NULL, &p, clock_ns() + VERB_NS, NULL);
		pack_free(&p);
	}
}

/* Those that are known again keep it: it may have been asked for, and granted, before it was in the list. */
static void keep_known(struct afr *a, unsigned count)
{
	for (unsigned k = 0; k < count; k++) {
		cleanup_inode struct inode *inode = inode_find(a->x->inodes, &a->leaving[k]);

		if (!inode)
			continue;
		pthread_mutex_lock(&a->lock);
		a->leaving[k] = (struct gfid){ 0 };
		pthread_mutex_unlock(&a->lock);
	}
}

static void leave_task(void *arg)
{
	struct afr *a = arg;
	bool more = true;
	uint64_t number;
	struct view v;
	unsigned count;

	while (more) {
		task_sleep_ms(LEAVING_WAIT_MS);
		pthread_mutex_lock(&a->lock);
		if (atomic_load(&a->abandoned) &&
		    !a->stopping) { /* not flights_known: who wants one of them again must not wait for that */
			pthread_mutex_unlock(&a->lock);
			continue;
		}
		count = a->leaving_sent = a->leaving_count;
		a->released += count;
		number = a->asked;
		v = a->view;
		pthread_mutex_unlock(&a->lock);
		keep_known(a, count); /* nobody moves the first ones meanwhile */
		give_up(a, REPLICA_RELEASE, &v, number, a->leaving, count);
		pthread_mutex_lock(&a->lock);
		a->leaving_count -= count;
		memmove(a->leaving, a->leaving + count, a->leaving_count * sizeof(*a->leaving));
		a->leaving_sent = 0;
		more = a->leaving_count;
		a->leaves = more;
		task_cond_broadcast(&a->changed);
		pthread_mutex_unlock(&a->lock);
	}
	afr_task_ends(a);
}

/* Where there are too many the brick asks for them when it has too many. */
void token_leaves(struct afr *a, const struct gfid *g, uint64_t epoch)
{
	bool start;

	pthread_mutex_lock(&a->lock);
	if (!a->leaving)
		a->leaving = malloc(LEAVING_MAX * sizeof(*a->leaving));
	if (a->leaving && a->leaving_count < LEAVING_MAX && (!epoch || epoch == a->view.epoch) && !a->stopping)
		a->leaving[a->leaving_count++] = *g;
	start = a->leaving_count && !a->leaves; /* also when the list is full, as it is if the task could not be begun */
	pthread_mutex_unlock(&a->lock);
	if (start)
		afr_spawn_single(a, &a->leaves, leave_task); /* if it can't be: with the next one that leaves */
}

/* It is wanted again: what is on its way back must have come there before it is asked for. */
static void token_stays(struct afr *a, const struct gfid *g)
{
	pthread_mutex_lock(&a->lock);
	for (unsigned i = 0; i < a->leaving_count;) {
		if (!gfid_equal(&a->leaving[i], g)) {
			i++;
		} else if (i < a->leaving_sent) {
			task_cond_wait(&a->changed, &a->lock, NO_DEADLINE);
			i = 0;
		} else {
			a->leaving[i] = a->leaving[--a->leaving_count];
		}
	}
	pthread_mutex_unlock(&a->lock);
}

/* With o->lock held, which is let go meanwhile. What was had to read ends as it is asked for: others may change the object before this client does. */
static int acquire(struct afr *a, struct object *o, uint64_t epoch, uint64_t deadline)
{
	bool goes_on = o->retrying, read = o->token == TOKEN_HELD;
	int err;

	o->token = TOKEN_ASKED;
	o->recalled = false;
	pthread_mutex_unlock(&o->lock);
	task_shield(true);
	if (read && !MUTANT("read-on"))
		afr_disbelieve(a, o);
	token_stays(a, gfid_of(o));
	err = ask(a, o, epoch, goes_on, deadline);
	task_shield(false);
	pthread_mutex_lock(&o->lock);
	o->token = err ? TOKEN_NONE : TOKEN_HELD;
	o->shared = false;
	o->epoch = epoch;
	o->size_known = false;
	object_gained(a, o);
	task_cond_broadcast(&o->changed);
	return err;
}

/* With o->lock held. */
static bool reads_only(const struct object *o)
{
	return o->token == TOKEN_HELD && o->shared && !MUTANT("change-as-reader");
}

int token_pin(struct afr *a, struct object *o, uint64_t epoch, uint64_t deadline)
{
	bool mine = false;
	int err = 0;

	pthread_mutex_lock(&o->lock);
	while (!err) {
		if (MUTANT("no-tokens")) {
			o->token = TOKEN_HELD;
			o->shared = false;
			o->epoch = epoch;
		}
		if (o->token == TOKEN_HELD && o->epoch != epoch && !o->pins && !MUTANT("keep-old-token") &&
		    !MUTANT("use-old-token"))
			o->token = TOKEN_NONE;
		if (o->token == TOKEN_HELD && (o->epoch == epoch || MUTANT("use-old-token")) && !reads_only(o) &&
		    (!o->recalled || mine)) {
			o->pins++;
			break;
		}
		if (o->token != TOKEN_NONE && !reads_only(o)) {
			err = task_cond_wait(&o->changed, &o->lock, deadline);
			err = err == -ETIMEDOUT ? -EIO : err;
			continue;
		}
		err = acquire(a, o, epoch, deadline);
		mine = !err; /* whoever asked may use it once, even if it has been asked back meanwhile */
		if (err == -ERECOVERING && clock_ns() < deadline)
			err = 0;
	}
	pthread_mutex_unlock(&o->lock);
	return err;
}

/* For what is nice to have, but nobody shall have to ask back often: who has asked once goes before. */
bool token_want(struct afr *a, struct object *o, uint64_t epoch)
{
	bool want;

	pthread_mutex_lock(&o->lock);
	if (o->token == TOKEN_HELD && o->epoch != epoch && !o->pins)
		o->token = TOKEN_NONE;
	want = o->token == TOKEN_NONE && !o->contended;
	if (want) {
		o->token = TOKEN_ASKED;
		o->recalled = false;
	}
	pthread_mutex_unlock(&o->lock);
	if (want) {
		task_shield(true);
		token_stays(a, gfid_of(o));
		task_shield(false);
	}
	return want;
}

void token_wanted(struct afr *a, struct object *o, uint64_t epoch, enum share got)
{
	pthread_mutex_lock(&o->lock);
	o->token = got ? TOKEN_HELD : TOKEN_NONE;
	o->shared = got == SHARE_READ;
	o->epoch = epoch;
	o->size_known = false;
	object_gained(a, o);
	if (got && o->recalled && !o->pins)
		start_giving_back(a, o);
	pthread_mutex_unlock(&o->lock);
	task_cond_broadcast(&o->changed);
}

/* If it was asked back before this was known here it has been given back, or will be: a message may have overtaken the answer. */
uint64_t token_given(struct afr *a, struct inode *inode, uint64_t epoch)
{
	struct object *o = object_of(a, inode);
	uint64_t gained = 0;

	if (!o)
		return 0;
	pthread_mutex_lock(&o->lock);
	if (o->token == TOKEN_NONE && !o->contended) {
		o->token = TOKEN_HELD;
		o->shared = false;
		o->epoch = epoch;
		o->size_known = false;
		object_gained(a, o);
		gained = o->gained;
	}
	pthread_mutex_unlock(&o->lock);
	return gained;
}

/* ---- tokens that are kept to read ---- */

enum { LOWERING_MAX = 1024, LOWERING_WAIT_MS = 2 };

/* It is had to read only from here on, whatever becomes of the message: whoever wants to change it asks for it anew. */
static bool lower(struct afr *a, const struct gfid *g, uint64_t epoch)
{
	cleanup_inode struct inode *inode = inode_find(a->x->inodes, g);
	struct object *o = inode ? inode_slot(inode, a->x) : NULL;
	bool yes;

	if (!o)
		return false;
	pthread_mutex_lock(&o->lock);
	yes = o->token == TOKEN_HELD && o->epoch == epoch && !o->pins && !o->recalled;
	o->shared |= yes;
	pthread_mutex_unlock(&o->lock);
	return yes;
}

/* The number is taken first: who asks for one of them anew has a higher one, and has all of it, should this come late. */
static void lower_all(struct afr *a, struct gfid *list, unsigned count)
{
	unsigned lowered = 0;
	uint64_t number;
	struct view v;

	pthread_mutex_lock(&a->lock);
	number = a->asked;
	v = a->view;
	pthread_mutex_unlock(&a->lock);
	for (unsigned i = 0; i < count; i++)
		if (lower(a, &list[i], v.epoch))
			lowered++;
		else
			list[i] = (struct gfid){ { 0 } };
	pthread_mutex_lock(&a->lock);
	a->lowered += lowered;
	pthread_mutex_unlock(&a->lock);
	flights_known(a);
	give_up(a, REPLICA_LOWER, &v, number, list, count);
}

static void lower_task(void *arg)
{
	struct afr *a = arg;
	struct gfid *list;
	unsigned count;
	bool more = true;

	while (more) {
		task_sleep_ms(LOWERING_WAIT_MS);
		pthread_mutex_lock(&a->lock);
		list = a->lowering;
		count = a->lowering_count;
		a->lowering = NULL;
		a->lowering_count = 0;
		pthread_mutex_unlock(&a->lock);
		lower_all(a, list, count);
		free(list);
		pthread_mutex_lock(&a->lock);
		more = a->lowering_count;
		a->lowers = more;
		pthread_mutex_unlock(&a->lock);
	}
	afr_task_ends(a);
}

void token_lowered(struct afr *a, const struct gfid *g)
{
	bool start;

	pthread_mutex_lock(&a->lock);
	if (!a->lowering)
		a->lowering = malloc(LOWERING_MAX * sizeof(*a->lowering));
	if (a->lowering && a->lowering_count < LOWERING_MAX && !a->stopping)
		a->lowering[a->lowering_count++] = *g; /* else: when it is asked for the next time */
	start = a->lowering_count && !a->lowers;
	pthread_mutex_unlock(&a->lock);
	if (start)
		afr_spawn_single(a, &a->lowers, lower_task);
}

struct giving_back {
	struct afr *a;
	struct object *o;
	struct inode *inode; /* reference: keeps the object */
	uint64_t epoch;
};

/* Epoch 0: of now. */
static void release(struct afr *a, const struct gfid *gfid, uint64_t epoch)
{
	struct pack p = { 0 };
	uint64_t number;
	int granter;

	pthread_mutex_lock(&a->lock);
	number = a->asked;
	epoch = epoch ? epoch : a->view.epoch;
	granter = a->view.epoch == epoch ? view_granter(&a->view, gfid) : -1;
	a->released++;
	pthread_mutex_unlock(&a->lock);
	pack_u64(&p, epoch);
	pack_u64(&p, flights_settled(a));
	pack_u64(&p, number); /* it may come so late that the token has been asked for, and granted, anew */
	pack_gfid(&p, gfid);
	if (granter >= 0)
		afr_verb(a, granter, REPLICA_RELEASE, NULL, &p, clock_ns() + VERB_NS, NULL);
	pack_free(&p);
}

static void give_back(void *arg)
{
	struct giving_back *g = arg;

	afr_disbelieve(g->a, g->o);
	flights_known(g->a);
	release(g->a, gfid_of(g->o), g->epoch);
	pthread_mutex_lock(&g->o->lock);
	if (g->o->token == TOKEN_RETURNING)
		g->o->token = TOKEN_NONE;
	pthread_mutex_unlock(&g->o->lock);
	task_cond_broadcast(&g->o->changed);
	inode_unref(g->inode);
	afr_task_ends(g->a);
	free(g);
}

/* With o->lock held. */
static void start_giving_back(struct afr *a, struct object *o)
{
	struct giving_back *g = malloc(sizeof(*g));
	enum token_state before = o->token;

	if (!g) {
		o->recalled = false; /* it is used until it is asked for again */
		return;
	}
	*g = (struct giving_back){ a, o, o->inode ? inode_ref(o->inode) : NULL, o->epoch };
	o->token = TOKEN_RETURNING;
	if (afr_spawn(a, give_back, g)) {
		o->token = before;
		o->recalled = false;
		inode_unref(g->inode);
		free(g);
	}
}

void token_unpin(struct afr *a, struct object *o)
{
	pthread_mutex_lock(&o->lock);
	o->pins--;
	if (!o->pins && o->recalled && o->token == TOKEN_HELD)
		start_giving_back(a, o);
	pthread_mutex_unlock(&o->lock);
	task_cond_broadcast(&o->changed);
}

/* What is not here is given back, too: the granter believes that it is. */
void token_recalled(struct afr *a, struct object *o)
{
	uint64_t epoch;

	if (MUTANT("bear-no-release"))
		return;
	pthread_mutex_lock(&a->lock);
	epoch = a->view.epoch;
	pthread_mutex_unlock(&a->lock);
	pthread_mutex_lock(&o->lock);
	o->recalled = o->contended = true;
	if (o->token == TOKEN_HELD && o->epoch < epoch && !o->pins)
		o->token = TOKEN_NONE; /* it ended with its view, and must not pass for one of this view */
	if (!o->pins && (o->token == TOKEN_HELD || o->token == TOKEN_NONE)) {
		o->epoch = o->token == TOKEN_NONE ? epoch : o->epoch;
		start_giving_back(a, o);
	}
	pthread_mutex_unlock(&o->lock);
}
