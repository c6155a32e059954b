/* SPDX-License-Identifier: Apache-2.0 */
/* Objects: where they are known, their tokens, and the spans of them that this client is changing. */
#include <endian.h>

#include "afr.h"

enum { DEPTH_MAX = 128, STEPS_MAX = 10000, VERB_NS = 5000000000 };

void object_init(struct object *o, struct inode *inode)
{
	o->inode = inode;
	pthread_mutex_init(&o->lock, NULL);
}

void object_free(struct object *o)
{
	inode_unref(o->parent);
	free(o->name);
	free(o->held);
	pthread_mutex_destroy(&o->lock);
	free(o);
}

struct object *object_of(struct afr *a, struct inode *inode)
{
	struct object *o = inode_slot(inode, a->x), *new;

	while (!o) {
		new = calloc(1, sizeof(*new));
		if (!new)
			return NULL;
		object_init(new, inode);
		switch (inode_slot_set(inode, a->x, new)) {
		case 0:
			return new;
		case -EEXIST:
			object_free(new);
			o = inode_slot(inode, a->x);
			break;
		default:
			object_free(new);
			return NULL;
		}
	}
	return o;
}

static struct inode *parent_of(struct afr *a, struct inode *inode)
{
	struct object *o = inode_slot(inode, a->x);
	struct inode *parent = NULL;

	if (!o)
		return NULL;
	pthread_mutex_lock(&o->lock);
	if (o->parent)
		parent = inode_ref(o->parent);
	pthread_mutex_unlock(&o->lock);
	return parent;
}

/* What is out of date may say that the directory is below itself: then nothing of that circle would ever be forgotten. */
static void cut_circle(struct afr *a, const struct inode *inode, struct inode *parent)
{
	struct inode *at = inode_ref(parent), *next, *cut = NULL;

	for (unsigned i = 0; i < STEPS_MAX && at && !cut; i++) {
		next = parent_of(a, at);
		if (next == inode) {
			struct object *o = inode_slot(at, a->x);

			pthread_mutex_lock(&o->lock);
			if (o->parent == inode) {
				cut = o->parent;
				o->parent = NULL;
			}
			pthread_mutex_unlock(&o->lock);
		}
		inode_unref(at);
		at = next;
	}
	inode_unref(at);
	inode_unref(cut);
}

void object_named(struct afr *a, struct inode *inode, struct inode *parent, const char *name)
{
	struct object *o = inode ? object_of(a, inode) : NULL;
	struct inode *old = NULL;
	bool moved;

	if (!o || !parent || !name || parent == inode)
		return;
	pthread_mutex_lock(&o->lock);
	moved = o->parent != parent;
	if (moved || !o->name || strcmp(o->name, name)) {
		char *copy = strdup(name);

		if (copy) {
			old = o->parent;
			o->parent = inode_ref(parent);
			free(o->name);
			o->name = copy;
		}
	}
	pthread_mutex_unlock(&o->lock);
	inode_unref(old);
	if (moved && S_ISDIR(inode->type))
		cut_circle(a, inode, parent);
}

void object_seen(struct afr *a, struct inode *inode, int child, struct inode *parent, const char *name)
{
	struct object *o = inode ? object_of(a, inode) : NULL;

	if (!o)
		return;
	if (!(atomic_load(&o->known) >> child & 1)) { /* mostly it is: then the line need not be ours alone */
		atomic_fetch_or(&o->known, 1u << child);
		atomic_store(&o->met, true);
	}
	object_named(a, inode, parent, name);
}

void object_drop_locks(struct object *o, uint32_t kind, uint64_t owner, const struct opened *through)
{
	unsigned left = 0;

	for (unsigned i = 0; i < o->helds; i++) {
		const struct held_lock *h = &o->held[i];

		if (h->lock.kind != kind || (through ? h->through != through : h->lock.owner != owner))
			o->held[left++] = *h;
	}
	o->helds = left;
}

bool object_drop_covered(struct object *o, const struct lock *by)
{
	unsigned left = 0;
	bool overlaps = false;

	for (unsigned i = 0; i < o->helds; i++) {
		const struct lock *l = &o->held[i].lock;
		bool same = l->kind == by->kind && l->owner == by->owner;

		if (same && l->start >= by->start && l->end <= by->end)
			continue;
		overlaps |= same && l->start <= by->end && by->start <= l->end;
		o->held[left++] = o->held[i];
	}
	o->helds = left;
	return overlaps;
}

/* ---- spans ---- */

static bool collide(const struct span *a, const struct span *b)
{
	if (a->kind == SPAN_ALL || b->kind == SPAN_ALL)
		return true;
	if (a->kind != b->kind)
		return false;
	return a->kind == SPAN_NAME ? a->start == b->start : a->start < b->end && b->start < a->end;
}

static int span_lock(struct object *o, struct span *s, uint64_t deadline)
{
	int err = 0;

	pthread_mutex_lock(&o->lock);
	for (;;) {
		const struct span *other = o->spans;

		while (other && (!collide(other, s) || MUTANT("no-spans")))
			other = other->next;
		if (!other || err)
			break;
		err = task_cond_wait(&o->changed, &o->lock, deadline);
	}
	if (!err) {
		s->next = o->spans;
		o->spans = s;
	}
	pthread_mutex_unlock(&o->lock);
	return err;
}

static void span_unlock(struct object *o, struct span *s)
{
	struct span **at;

	pthread_mutex_lock(&o->lock);
	for (at = &o->spans; *at != s; at = &(*at)->next)
		;
	*at = s->next;
	object_touched(o, s->kind == SPAN_ALL ? TOUCH_META : TOUCH_ANY);
	pthread_mutex_unlock(&o->lock);
	task_cond_broadcast(&o->changed);
}

int spans_lock(struct object **o, struct span *s, unsigned count, uint64_t deadline)
{
	int err = 0;

	for (unsigned i = 0; i < count; i++) {
		err = span_lock(o[i], &s[i], deadline);
		if (err) {
			spans_unlock(o, s, i);
			return err == -ETIMEDOUT ? -EIO : err;
		}
	}
	return 0;
}

void spans_unlock(struct object **o, struct span *s, unsigned count)
{
	while (count-- > 0)
		span_unlock(o[count], &s[count]);
}

void spans_sent(struct object **o, struct span *s, unsigned count, bool on)
{
	for (unsigned i = 0; i < count; i++) {
		pthread_mutex_lock(&o[i]->lock);
		s[i].sent = on ? ++o[i]->sent : 0;
		pthread_mutex_unlock(&o[i]->lock);
		if (!on)
			task_cond_broadcast(&o[i]->changed);
	}
}

void spans_undone(struct afr *a, struct object **o, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		pthread_mutex_lock(&o[i]->lock);
		o[i]->undone = atomic_fetch_add(&a->undone, 1) + 1;
		pthread_mutex_unlock(&o[i]->lock);
	}
}

bool spans_any(struct object *o, uint64_t before)
{
	const struct span *s;
	bool any;

	pthread_mutex_lock(&o->lock);
	for (s = o->spans; s && !s->sent; s = s->next)
		;
	any = s || o->undone > before;
	pthread_mutex_unlock(&o->lock);
	return any;
}

bool spans_collide(struct object *o, const struct span *with)
{
	const struct span *s;

	pthread_mutex_lock(&o->lock);
	for (s = o->spans; s && !collide(s, with); s = s->next)
		;
	pthread_mutex_unlock(&o->lock);
	return s;
}

int spans_settled(struct object *o, const struct span *seen, uint64_t before, uint64_t deadline)
{
	const struct span *s;
	uint64_t until;
	int err = 0;

	pthread_mutex_lock(&o->lock);
	until = o->sent;
	do {
		for (s = o->spans; s; s = s->next)
			if (s->sent && s->sent <= until && collide(s, seen))
				break;
		if (s)
			err = task_cond_wait(&o->changed, &o->lock, deadline);
	} while (s && !err);
	if (!err && o->undone > before)
		err = -EAGAIN;
	pthread_mutex_unlock(&o->lock);
	return err == -ETIMEDOUT ? -EIO : err;
}

/* ---- tokens ---- */

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
	pack_gfid(&p, gfid_of(o));
	pack_u8(&p, goes_on);
	return afr_verb(a, granter, REPLICA_ACQUIRE, NULL, &p, until < deadline ? until : deadline, NULL);
}

/* ---- tokens of what was forgotten ---- */

enum { LEAVING_MAX = 1024, LEAVING_WAIT_MS = 20 };

static void send_leaving(struct afr *a, const struct view *v, uint64_t number, unsigned count)
{
	for (int i = 0; i < v->members; i++) {
		struct pack p = { 0 };
		unsigned its = 0;

		pack_u64(&p, v->epoch);
		pack_u64(&p, flights_settled(a));
		pack_u64(&p, number);
		for (unsigned k = 0; k < count; k++)
			if (!gfid_is_null(&a->leaving[k]) && view_granter(v, &a->leaving[k]) == i) {
				pack_gfid(&p, &a->leaving[k]);
				its++;
			}
		if (its)
			afr_verb(a, i, REPLICA_RELEASE, NULL, &p, clock_ns() + VERB_NS, NULL);
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
		count = a->leaving_sent = a->leaving_count;
		a->released += count;
		number = a->asked;
		v = a->view;
		pthread_mutex_unlock(&a->lock);
		keep_known(a, count); /* nobody moves the first ones meanwhile */
		send_leaving(a, &v, number, count);
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

/* With o->lock held, which is let go meanwhile. */
static int acquire(struct afr *a, struct object *o, uint64_t epoch, uint64_t deadline)
{
	bool goes_on = o->retrying;
	int err;

	o->token = TOKEN_ASKED;
	o->recalled = false;
	pthread_mutex_unlock(&o->lock);
	task_shield(true);
	token_stays(a, gfid_of(o));
	err = ask(a, o, epoch, goes_on, deadline);
	task_shield(false);
	pthread_mutex_lock(&o->lock);
	o->token = err ? TOKEN_NONE : TOKEN_HELD;
	o->epoch = epoch;
	o->size_known = false;
	object_gained(a, o);
	task_cond_broadcast(&o->changed);
	return err;
}

int token_pin(struct afr *a, struct object *o, uint64_t epoch, uint64_t deadline)
{
	bool mine = false;
	int err = 0;

	pthread_mutex_lock(&o->lock);
	while (!err) {
		if (MUTANT("no-tokens")) {
			o->token = TOKEN_HELD;
			o->epoch = epoch;
		}
		if (o->token == TOKEN_HELD && o->epoch != epoch && !o->pins && !MUTANT("keep-old-token"))
			o->token = TOKEN_NONE;
		if (o->token == TOKEN_HELD && o->epoch == epoch && (!o->recalled || mine)) {
			o->pins++;
			break;
		}
		if (o->token != TOKEN_NONE) {
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

void token_wanted(struct afr *a, struct object *o, uint64_t epoch, bool got)
{
	pthread_mutex_lock(&o->lock);
	o->token = got ? TOKEN_HELD : TOKEN_NONE;
	o->epoch = epoch;
	o->size_known = false;
	object_gained(a, o);
	if (got && o->recalled && !o->pins)
		start_giving_back(a, o);
	pthread_mutex_unlock(&o->lock);
	task_cond_broadcast(&o->changed);
}

/* If it was asked back before this was known here it has been given back, or will be: a message may have overtaken the answer. */
void token_given(struct afr *a, struct inode *inode, uint64_t epoch)
{
	struct object *o = object_of(a, inode);

	if (!o)
		return;
	pthread_mutex_lock(&o->lock);
	if (o->token == TOKEN_NONE && !o->contended) {
		o->token = TOKEN_HELD;
		o->epoch = epoch;
		o->size_known = false;
		object_gained(a, o);
	}
	pthread_mutex_unlock(&o->lock);
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

/* ---- making an object known to another member ---- */

/* One search. What could not be found is not looked for again on another way, of which there are as many as the members tell names, for
 * each directory above; and all of it ends when a member has had its time. */
enum { FAILED_MAX = 128 };
struct resolving {
	struct afr *a;
	int child;
	uint64_t deadline;
	struct gfid failed[FAILED_MAX]; /* the youngest of them */
	unsigned count;			/* of all */
};

static struct gfid *failed_before(struct resolving *r, const struct inode *inode)
{
	for (unsigned i = 0; i < r->count && i < FAILED_MAX; i++)
		if (gfid_equal(&r->failed[i], &inode->gfid))
			return &r->failed[i];
	return NULL;
}

static void note_failed(struct resolving *r, const struct inode *inode)
{
	if (!failed_before(r, inode))
		r->failed[r->count++ % FAILED_MAX] = inode->gfid;
}

static void forget_failed(struct resolving *r, const struct inode *inode)
{
	struct gfid *at = failed_before(r, inode);

	if (at)
		*at = (struct gfid){ 0 };
}

/* *lost: the member does not know the parent any more as it was told of it. */
static int look_for(struct resolving *r, const struct loc *loc, struct inode *inode, bool *lost)
{
	struct afr *a = r->a;
	struct replica_stamp stamp = { .flags = REPLICA_READ };
	struct lookup_in in = { .loc = *loc };
	struct lookup_out out = { 0 };
	struct request own;
	int err;

	own_request(a, &own);
	err = stamp_attach(&own, &stamp);
	if (!err)
		err = lookup_on(&own, a->x->child[r->child], &in, &out);
	request_finish(&own);
	*lost = err == -ESTALE;
	if (!err && out.inode)
		object_seen(a, out.inode, r->child, NULL, NULL);
	if (!err && out.inode != inode)
		err = -ESTALE;
	fop_out_clear(FOP_lookup, &out);
	return err == -ENOENT ? -ESTALE : err;
}

static int look(struct resolving *r, struct inode *parent, const char *name, struct inode *inode, bool *lost)
{
	return look_for(r, &(struct loc){ .parent = parent, .name = name }, inode, lost);
}

/* In a graph that has taken another's place nobody has looked up what was in use before; but the connection to the member may be the same, and
 * know it. */
static int look_as_before(struct resolving *r, struct inode *inode)
{
	bool ignored;

	return look_for(r, &(struct loc){ .inode = inode }, inode, &ignored);
}

static int resolve(struct resolving *, struct inode *, unsigned depth);

static int by_name(struct resolving *r, struct inode *inode, struct inode *parent, const char *name, unsigned depth)
{
	int err = resolve(r, parent, depth + 1);
	bool lost = false;

	if (err == -ENOENT) /* the directory has no name any more: that does not mean that the object has none */
		return -ESTALE;
	if (!err)
		err = look(r, parent, name, inode, &lost);
	if (!lost || gfid_equal(&parent->gfid, &gfid_root))
		return err;
	atomic_fetch_and(&object_of(r->a, parent)->known, ~(1u << r->child)); /* it was healed anew there: names lead to it */
	forget_failed(r, parent);
	err = resolve(r, parent, depth + 1);
	return err == -ENOENT ? -ESTALE : err ? err : look(r, parent, name, inode, &lost);
}

static int by_hint(struct resolving *r, struct inode *inode, struct object *o, unsigned depth)
{
	cleanup_inode struct inode *parent = NULL;
	char name[256] = "";

	pthread_mutex_lock(&o->lock);
	if (o->parent && o->name) {
		parent = inode_ref(o->parent);
		snprintf(name, sizeof(name), "%s", o->name);
	}
	pthread_mutex_unlock(&o->lock);
	return parent ? by_name(r, inode, parent, name, depth) : -ESTALE;
}

/* One name out of the list: 0 and the parent's inode. */
static int next_link(struct afr *a, struct unpack *u, struct inode **parent, char name[256])
{
	struct gfid g = unpack_gfid(u);
	size_t length = unpack_u8(u);

	unpack_bytes(u, name, length);
	name[length] = '\0';
	if (u->failed || name_check(name))
		return -ESTALE;
	*parent = inode_get(a->x->inodes, &g, S_IFDIR);
	return *parent ? 0 : -ENOMEM;
}

/* By its gfid, which the member may have in use. DIRECTORY: or in its index; UNLINKED: and it has no name there any more. */
static int by_gfid(struct afr *a, struct inode *inode, int child, enum replica_verb verb)
{
	struct replica_out out = { 0 };
	struct pack p = { 0 };
	int err;

	pack_gfid(&p, &inode->gfid);
	err = afr_ask(a, child, verb, NULL, &p, clock_ns() + VERB_NS, &out);
	if (!err && out.inode == inode)
		object_seen(a, inode, child, NULL, NULL);
	else if (!err)
		err = -ESTALE;
	fop_out_clear(FOP_replica, &out);
	return err;
}

/* Along the names that the member `from` tells. -ENOENT: it has none. */
static int by_links_of(struct resolving *r, struct inode *inode, int from, unsigned depth, bool *named)
{
	struct afr *a = r->a;
	struct blob links = { 0 };
	int err = -ESTALE;
	struct unpack u;
	unsigned count;

	if (afr_verb(a, from, REPLICA_LINKS, inode, NULL, clock_ns() + a->member_timeout_ms * 1000000, &links))
		return -ESTALE;
	u = unpack_blob(&links);
	count = unpack_u32(&u);
	if (!u.failed && !count)
		err = -ENOENT;
	*named |= !u.failed && count;
	for (unsigned i = 0; i < count && err == -ESTALE; i++) {
		cleanup_inode struct inode *parent = NULL;
		char name[256];

		if (next_link(a, &u, &parent, name))
			break;
		err = by_name(r, inode, parent, name, depth);
	}
	free(links.bytes);
	return err;
}

/* The same with all members that know the object and belong to the set: one may know only what it was in vain, before a recovery. */
static int by_links(struct resolving *r, struct inode *inode, struct object *o, unsigned depth)
{
	bool directory = S_ISDIR(inode->type), named = false;
	struct afr *a = r->a;
	int err = -ESTALE;
	unsigned in;

	if (directory && !by_gfid(a, inode, r->child, REPLICA_DIRECTORY))
		return 0;
	pthread_mutex_lock(&a->lock);
	in = view_mask(&a->view, MEMBER_IN) & ~(1u << r->child) & atomic_load(&a->up);
	pthread_mutex_unlock(&a->lock);
	for (int i = 0; i < a->members; i++) {
		bool known = atomic_load(&o->known) >> i & 1;
		int one = -ESTALE;

		if (in >> i & 1 && (known || (directory && !by_gfid(a, inode, i, REPLICA_DIRECTORY))))
			one = by_links_of(r, inode, i, depth, &named);
		if (one != -ESTALE && one != -ENOENT)
			return one;
		err = one == -ENOENT ? one : err;
	}
	return named ? -ESTALE : err;
}

/* In another view it may have a name again: a power cut of all undoes an unlink that was not synced. */
static bool is_lost(struct afr *a, struct object *o, int child)
{
	uint64_t epoch;

	if (!(atomic_load(&o->lost) >> child & 1))
		return false;
	pthread_mutex_lock(&a->lock);
	epoch = a->view.epoch;
	pthread_mutex_unlock(&a->lock);
	if (epoch == atomic_load(&o->lost_epoch) || MUTANT("lost-for-ever"))
		return true;
	atomic_store(&o->lost, 0);
	return false;
}

static void lose(struct afr *a, struct object *o, int child)
{
	pthread_mutex_lock(&a->lock);
	atomic_store(&o->lost_epoch, a->view.epoch);
	pthread_mutex_unlock(&a->lock);
	atomic_fetch_or(&o->lost, 1u << child);
	atomic_fetch_and(&o->known, ~(1u << child));
}

int object_absent(struct afr *a, struct inode *inode, int child)
{
	struct object *o = object_of(a, inode);
	bool known;
	int err;

	if (!o)
		return -ENOMEM;
	known = atomic_load(&o->known) >> child & 1;
	err = by_gfid(a, inode, child, REPLICA_UNLINKED);
	if (err == -ENOENT)
		lose(a, o, child);
	return err ? err : known ? -ESTALE : -ERECOVERING;
}

static int search(struct resolving *r, struct inode *inode, struct object *o, unsigned depth)
{
	struct afr *a = r->a;
	int err;

	pthread_mutex_lock(&a->lock);
	a->resolves++;
	pthread_mutex_unlock(&a->lock);
	err = S_ISDIR(inode->type) && depth > DEPTH_MAX / 2 ? by_gfid(a, inode, r->child, REPLICA_DIRECTORY) : -ESTALE;
	if (err)
		err = by_hint(r, inode, o, depth);
	if (err == -ESTALE &&
	    !atomic_load(&o->met)) /* else a member that does not know it by now may have another in its place */
		err = look_as_before(r, inode);
	if (err == -ESTALE)
		err = by_links(r, inode, o, depth);
	if (err == -ENOENT)
		err = by_gfid(a, inode, r->child, REPLICA_UNLINKED);
	if (err == -ENOENT) /* what it does not get from now on it must not be asked for */
		lose(a, o, r->child);
	return err;
}

static int resolve(struct resolving *r, struct inode *inode, unsigned depth)
{
	struct object *o = object_of(r->a, inode);
	int err;

	if (!o)
		return -ENOMEM;
	if (atomic_load(&o->known) >> r->child & 1 || gfid_equal(&inode->gfid, &gfid_root))
		return 0;
	if (is_lost(r->a, o, r->child))
		return -ENOENT;
	if (depth > DEPTH_MAX || failed_before(r, inode) || clock_ns() > r->deadline)
		return -ESTALE;
	err = search(r, inode, o, depth);
	if (err == -ESTALE)
		note_failed(r, inode);
	return err;
}

/* So many steps up; *steps: those that there were, to what the child knows. */
static struct inode *above(struct afr *a, struct inode *inode, int child, unsigned *steps)
{
	struct inode *at = inode_ref(inode), *next;
	unsigned most = *steps;

	for (*steps = 0; *steps < most; ++*steps) {
		struct object *o = inode_slot(at, a->x);

		if (!o || atomic_load(&o->known) >> child & 1 || !(next = parent_of(a, at)))
			break;
		inode_unref(at);
		at = next;
	}
	return at;
}

/* Of a tree that is deeper than one recursion may be the upper directories are made known first. */
static int make_known(struct afr *a, struct inode *inode, int child)
{
	struct resolving r = { .a = a, .child = child, .deadline = clock_ns() + a->member_timeout_ms * 1000000 };
	unsigned steps = STEPS_MAX, up;
	int err = 0;

	inode_unref(above(a, inode, child, &steps));
	while (steps > DEPTH_MAX / 2 && !err) {
		struct inode *at;

		steps -= DEPTH_MAX / 2;
		up = steps;
		at = above(a, inode, child, &up);
		err = up == steps ? resolve(&r, at, 0) : -ESTALE;
		inode_unref(at);
	}
	return resolve(&r, inode, 0);
}

int object_resolve(struct afr *a, struct inode *inode, int child)
{
	const struct object *o = object_of(a, inode);

	if (!o)
		return -ENOMEM;
	if (atomic_load(&o->known) >> child & 1 || gfid_equal(&inode->gfid, &gfid_root))
		return 0;
	return make_known(a, inode, child);
}
