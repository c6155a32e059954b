/* SPDX-License-Identifier: Apache-2.0 */
/* What those above may believe without asking (believe_ms in xlator.h), so that the kernel need not look up each name each time.
 *
 * Nobody else changes an object while its token is here. It is here until it is given back, before which EVENT_DISBELIEVE goes up, or
 * until there is another view, of which this client may not hear at once. So it must have had the word of all members, within the last
 * BELIEF_PROOF_MS, that they are still in this view; in the next one they grant no token before what was believed on the ground
 * of that word has run out (doc/replication.md).
 *
 * What was read may be older than this client's own last change. Moments tell: each time a token comes and each time a change ends
 * gets one, and what was read is believed if it was asked for after all of them, and no change is under way. */
#include "afr.h"

enum { PROVE_AGAIN_MS = BELIEF_PROOF_MS / 3, TAKEN_MS = 20 };

/* The last that was given. One for all replica sets of the process, so that a translator over several of them (cluster/dht) can hand on what
 * one of them gave, and later than any of an instance before. */
static atomic_uint_fast64_t moment;

void moments_begin(void)
{
	uint64_t last = atomic_load(&moment), now = clock_ns();

	while (last < now && !atomic_compare_exchange_weak(&moment, &last, now))
		;
}

static uint64_t next_moment(void)
{
	return atomic_fetch_add(&moment, 1) + 1;
}

uint64_t afr_moment(void)
{
	return atomic_load(&moment);
}

void object_gained(struct afr *a, struct object *o)
{
	o->gained = next_moment();
	pthread_mutex_lock(&a->lock);
	o->gaps = a->gaps;
	pthread_mutex_unlock(&a->lock);
}

void object_touched(struct object *o, enum touch what)
{
	o->touched[TOUCH_ANY] = next_moment();
	if (what == TOUCH_META)
		o->touched[TOUCH_META] = o->touched[TOUCH_ANY];
}

/* ---- the members' word ---- */

static void prove(struct afr *a)
{
	struct pack p = { 0 };
	uint64_t sent_ns, gaps;
	unsigned mask;
	struct view v;

	pthread_mutex_lock(&a->lock);
	v = a->view;
	gaps = a->gaps;
	pthread_mutex_unlock(&a->lock);
	mask = view_mask(&v, MEMBER_BACK);
	pack_u64(&p, v.epoch);
	sent_ns = clock_ns();
	if (afr_tell(a, mask, REPLICA_BELIEVE, &p) == mask && mask) {
		pthread_mutex_lock(&a->lock);
		a->proved_ns = sent_ns;
		a->proved_epoch = v.epoch;
		a->gaps_proved = gaps;
		pthread_mutex_unlock(&a->lock);
	}
	pack_free(&p);
}

static void prove_task(void *arg)
{
	struct afr *a = arg;

	prove(a);
	pthread_mutex_lock(&a->lock);
	a->proving = false;
	pthread_mutex_unlock(&a->lock);
	afr_task_ends(a);
}

/* The epoch for which their word is good now; 0: none. Asks for it anew in time; who finds none goes without. */
static uint64_t proved_epoch(struct afr *a, uint64_t *gaps)
{
	uint64_t now = clock_ns(), epoch = 0;
	bool ask = false;

	pthread_mutex_lock(&a->lock);
	*gaps = a->gaps;
	if (a->view.epoch && !a->stale && !a->stopping) {
		if (a->proved_epoch == a->view.epoch && a->gaps_proved == a->gaps &&
		    now < a->proved_ns + BELIEF_PROOF_MS * 1000000ull)
			epoch = a->view.epoch;
		ask = !a->proving && (!epoch || now > a->proved_ns + PROVE_AGAIN_MS * 1000000ull);
	}
	pthread_mutex_unlock(&a->lock);
	if (ask)
		afr_spawn_single(a, &a->proving, prove_task);
	return epoch;
}

/* ---- what is listed ---- */

enum { WANTED_MAX = 1024, TRY_NS = 1000000000 };

struct wanted {
	struct afr *a;
	uint64_t epoch, number;
	unsigned count, got;
	struct object *object[WANTED_MAX];
	int granter[WANTED_MAX];
	pthread_mutex_t lock;
	struct task_cond done;
	unsigned left; /* granters that are being asked */
};
struct wanted_of {
	struct wanted *w;
	int granter;
};

static void ask_granter(void *arg)
{
	const struct wanted_of *of = arg;
	struct wanted *w = of->w;
	struct blob answer = { 0 };
	struct pack p = { 0 };
	struct unpack u;
	unsigned got = 0;

	pack_u64(&p, w->epoch);
	pack_u64(&p, w->number);
	for (unsigned i = 0; i < w->count; i++)
		if (w->granter[i] == of->granter)
			pack_named(w->a, &p, &w->object[i]->inode->gfid);
	if (afr_verb(w->a, of->granter, REPLICA_SHARE, NULL, &p, clock_ns() + TRY_NS, &answer))
		answer = (struct blob){ 0 };
	u = unpack_blob(&answer);
	for (unsigned i = 0; i < w->count; i++)
		if (w->granter[i] == of->granter) {
			enum share got_it = unpack_u8(&u);

			got_it = u.failed || got_it > SHARE_READ ? SHARE_NONE : got_it;
			token_wanted(w->a, w->object[i], w->epoch, got_it);
			got += got_it != SHARE_NONE;
		}
	free(answer.bytes);
	pthread_mutex_lock(&w->lock);
	w->got += got;
	w->left--;
	task_cond_broadcast(&w->done);
	pthread_mutex_unlock(&w->lock);
}

static void want(struct wanted *w, const struct view *v, struct inode *inode)
{
	struct object *o = inode && w->count < WANTED_MAX ? object_of(w->a, inode) : NULL;
	int granter = o ? view_granter(v, &inode->gfid) : -1;

	if (granter < 0 || !token_want(w->a, o, v->epoch))
		return;
	w->object[w->count] = o;
	w->granter[w->count++] = granter;
}

static void ask_granters(struct wanted *w)
{
	struct wanted_of of[REPLICAS_MAX];

	pthread_mutex_lock(&w->a->lock);
	w->number = ++w->a->asked; /* now that all that was on its way back has been answered: what comes late is older */
	pthread_mutex_unlock(&w->a->lock);
	task_shield(true);
	for (int i = 0; i < w->a->members; i++) {
		bool any = false;

		for (unsigned k = 0; k < w->count && !any; k++)
			any = w->granter[k] == i;
		if (!any)
			continue;
		of[i] = (struct wanted_of){ w, i };
		pthread_mutex_lock(&w->lock);
		w->left++;
		pthread_mutex_unlock(&w->lock);
		if (task_spawn(task_shard(task_self()), ask_granter, &of[i]))
			ask_granter(&of[i]);
	}
	pthread_mutex_lock(&w->lock);
	while (w->left)
		task_cond_wait(&w->done, &w->lock, NO_DEADLINE);
	pthread_mutex_unlock(&w->lock);
	task_shield(false);
}

static bool held(struct object *o, uint64_t epoch)
{
	bool yes;

	pthread_mutex_lock(&o->lock);
	yes = o->token == TOKEN_HELD && o->epoch == epoch && !o->recalled;
	pthread_mutex_unlock(&o->lock);
	return yes;
}

static struct wanted *wanted_begin(struct afr *a, struct view *v)
{
	struct wanted *w = calloc(1, sizeof(*w));

	pthread_mutex_lock(&a->lock);
	*v = a->view;
	pthread_mutex_unlock(&a->lock);
	if (!w || !v->epoch) {
		free(w);
		return NULL;
	}
	w->a = a;
	w->epoch = v->epoch;
	pthread_mutex_init(&w->lock, NULL);
	return w;
}

static void wanted_end(struct wanted *w)
{
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* The directory first: without it the rest is of no use. */
bool afr_take_listed(struct afr *a, struct inode *directory, const struct dirents *d)
{
	struct view v;
	struct wanted *w = wanted_begin(a, &v);
	bool again;

	if (!w)
		return false;
	want(w, &v, directory);
	if (w->count)
		ask_granters(w);
	again = w->got;
	w->count = w->got = 0;
	if (object_of(a, directory) && held(object_of(a, directory), v.epoch)) {
		for (uint32_t i = 0; i < d->count; i++)
			want(w, &v, d->entry[i].inode);
		if (w->count)
			ask_granters(w);
		again |= w->got > 0;
	}
	wanted_end(w);
	return again;
}

/* ---- what names are looked up in, and what is read again ---- */

/* Each name on the way to a file is looked up for each use of it, as long as nobody vouches for it: so who looks up names in a directory tries for
 * its token, as who lists it does. That is one message for as many questions as this, and once in a second at most. So does who opens a file again and again, as
 * compilers do with headers whose directory nobody lists; but who reads each file once pays for none of them. */
enum { WALKED_OFTEN = 4, READ_OFTEN = 12 };
static const uint64_t walk_ns = 1000000000, read_ns = 10000000000;

struct walk {
	struct afr *a;
	struct inode *inode; /* reference */
};

static void walk_task(void *arg)
{
	struct walk *walk = arg;
	struct view v;
	struct wanted *w = wanted_begin(walk->a, &v);

	if (w) {
		want(w, &v, walk->inode);
		if (w->count)
			ask_granters(w);
		wanted_end(w);
	}
	inode_unref(walk->inode);
	afr_task_ends(walk->a);
	free(walk);
}

/* With the object's lock held. */
static bool may_be_tried(const struct object *o, uint64_t epoch)
{
	return !o->contended && (o->token == TOKEN_NONE || (o->token == TOKEN_HELD && o->epoch != epoch));
}

/* With the object's lock held: it is time to try. */
static bool used_often(struct object *o, bool directory)
{
	uint64_t now = clock_ns();

	if (now > o->walked_ns + (directory ? walk_ns : read_ns)) {
		o->walked_ns = now;
		o->walked = 0;
	}
	return ++o->walked == (directory ? WALKED_OFTEN : READ_OFTEN);
}

static void walk(struct afr *a, struct inode *inode)
{
	struct walk *w = malloc(sizeof(*w));

	if (!w)
		return;
	*w = (struct walk){ a, inode_ref(inode) };
	if (afr_spawn(a, walk_task, w)) {
		inode_unref(inode);
		free(w);
	}
}

/* ---- what holds ---- */

static bool changing(const struct object *o, enum believe what)
{
	for (const struct span *s = o->spans; s; s = s->next)
		if (what != BELIEVE_META || s->kind == SPAN_ALL)
			return true;
	return false;
}

/* With the lock held: nobody has changed it since that moment but, for BELIEVE_NAME, this client. */
static bool holds(const struct object *o, enum believe what, uint64_t since, uint64_t epoch, uint64_t gaps)
{
	if (o->token != TOKEN_HELD || o->epoch != epoch || o->gaps != gaps || o->recalled || o->gained > since)
		return false;
	if (what == BELIEVE_NAME)
		return true;
	return o->touched[what == BELIEVE_META ? TOUCH_META : TOUCH_ANY] <= since && !changing(o, what);
}

bool object_names_hold(struct afr *a, struct object *o, uint64_t since)
{
	uint64_t epoch, gaps;
	bool yes;

	pthread_mutex_lock(&a->lock);
	epoch = a->view.epoch;
	gaps = a->gaps;
	pthread_mutex_unlock(&a->lock);
	pthread_mutex_lock(&o->lock);
	yes = !o->shared && holds(o, BELIEVE_NAME, since, epoch, gaps);
	pthread_mutex_unlock(&o->lock);
	return yes;
}

uint64_t afr_believe(struct xlator *x, struct inode *inode, enum believe what, uint64_t since)
{
	struct afr *a = afr_of(x);
	struct object *o = inode ? inode_slot(inode, x) : NULL;
	uint64_t epoch, gaps;
	bool yes, often;

	if (!inode) {
		proved_epoch(a, &gaps); /* their word comes while something is read */
		return afr_moment();
	}
	if (!o)
		return 0;
	epoch = proved_epoch(a, &gaps);
	if (!epoch)
		return 0;
	pthread_mutex_lock(&o->lock);
	yes = holds(o, what, since, epoch, gaps);
	if (yes && (what == BELIEVE_NAMES || what == BELIEVE_ATTR_LATE))
		o->taken_late_ns = clock_ns();
	often = since && what == (S_ISDIR(inode->type) ? BELIEVE_NAME : BELIEVE_ATTR) && may_be_tried(o, epoch) &&
		used_often(o, S_ISDIR(inode->type));
	pthread_mutex_unlock(&o->lock);
	if (often)
		walk(a, inode);
	return yes ? BELIEF_MS : 0;
}

void afr_doubt(struct afr *a, struct object *o)
{
	pthread_mutex_lock(&o->lock);
	o->gaps = UINT64_MAX; /* of no use until the token comes again */
	pthread_mutex_unlock(&o->lock);
	afr_disbelieve(a, o);
}

/* Some of it the kernel takes in some time after it was told, as if it were new then: that is waited for. */
void afr_disbelieve(struct afr *a, struct object *o)
{
	struct event e = { .kind = EVENT_DISBELIEVE, .inode = o->inode };
	uint64_t late_ns, now = clock_ns();

	if (!o->inode)
		return;
	pthread_mutex_lock(&o->lock);
	late_ns = o->taken_late_ns;
	pthread_mutex_unlock(&o->lock);
	if (late_ns && now < late_ns + TAKEN_MS * 1000000)
		task_sleep_ms(TAKEN_MS);
	event_up(a->x, &e);
}
