/* SPDX-License-Identifier: Apache-2.0 */
/* features/lease: tells clients that what they read of an object may be believed, and recalls that before somebody else changes the object. The
 * protocol, and why nobody reads what is old, is in doc/leases.md. */
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "fop-set.h"
#include "lease-table.h"

enum { OBJECTS_MOST = 6, LATE_MS = 300, ROOTS = 256, TOLD = 1024 };

struct hearing {
	struct gfid gfid;
	uint64_t told_ns;
};
struct holder { /* a client that asks for the brick's word */
	const struct client *client;
	struct lessee by;
	uint64_t epoch;
	uint64_t proved_ns; /* when it asked last */
	struct recall *recalls;
	struct hearing *
		told; /* TOLD of them, by hash, of a client of an access point: others of the tenant have its bit, and of what only these were told it hears nothing. NULL: of another client */
	struct holder *next;
};
struct recall {		       /* the waiter's */
	struct holder *holder; /* NULL: released, or nothing is believed there any more */
	const struct client *client;
	uint64_t number, sent_ns;
	struct gfid gfid;
	struct recall *next;	  /* of the holder */
	struct recall *of_waiter; /* all that one change waits for */
};

struct leases {
	char *record; /* option */

	struct xlator *x;
	struct lease_table table;
	uint64_t quiet_until_ns; /* what an earlier process has told may be believed until then */
	atomic_uint_fast64_t leased, unleased, recalled, overdue;
	uint64_t overdue_told_ns; /* when the log was told of one; guarded by the lock */

	pthread_mutex_t lock; /* guards what follows */
	struct task_cond released;
	struct holder *holders[ROOTS]; /* by tenant: one has nothing to do with another's */
	uint64_t numbers, epochs, recalls;
	bool recorded;
};

static const struct option options[] = {
	{ "record", OPTION_STRING, OPTION_AT(struct leases, record), "",
	  "a file that is there as long as a client may believe something; without it a start is as if one did" },
	{ NULL },
};

/* ---- clients, with the lock held ---- */

static bool is_active(const struct holder *h, uint64_t now)
{
	return h->proved_ns && now < h->proved_ns + LEASE_WAIT_MS * 1000000ull;
}

/* Those of the provider have 0, and a list that no tenant shares. */
static struct holder **list_of(struct leases *l, uint32_t root)
{
	return &l->holders[root ? 1 + (root >> 16) % (ROOTS - 1) : 0];
}

static struct holder *holder_of(struct leases *l, const struct request *rq)
{
	struct holder *h = rq->client ? *list_of(l, rq->root) : NULL;

	while (h && h->client != rq->client)
		h = h->next;
	return h;
}

static struct holder *holder_add(struct leases *l, const struct request *rq)
{
	struct holder *h = calloc(1, sizeof(*h)), **list = list_of(l, rq->root);

	if (h && request_is_confined(rq) && !(h->told = calloc(TOLD, sizeof(*h->told)))) {
		free(h);
		return NULL;
	}
	if (!h)
		return NULL;
	h->client = rq->client;
	h->by = (struct lessee){ ++l->numbers, rq->root };
	h->next = *list;
	*list = h;
	return h;
}

/* It believes nothing any more. */
static void let_go(struct leases *l, struct holder *h)
{
	h->proved_ns = 0;
	if (h->told)
		memset(h->told, 0, TOLD * sizeof(*h->told));
	for (struct recall *r = h->recalls; r; r = r->next)
		r->holder = NULL;
	h->recalls = NULL;
	task_cond_broadcast(&l->released);
}

static bool was_told(const struct holder *h, const struct gfid *g)
{
	return !h->told || gfid_equal(&h->told[gfid_hash(g) % TOLD].gfid, g);
}

/* False: there is no room for it, so it gets no lease. */
static bool note_told(struct leases *l, const struct request *rq, const struct gfid *g)
{
	struct holder *h;
	struct hearing *at;
	uint64_t now = clock_ns();
	bool yes;

	if (!request_is_confined(rq))
		return true;
	pthread_mutex_lock(&l->lock);
	h = holder_of(l, rq);
	at = h && h->told ? &h->told[gfid_hash(g) % TOLD] : NULL;
	yes = at && (gfid_equal(&at->gfid, g) || !at->told_ns || now > at->told_ns + LEASE_KEPT_MS * 1000000ull);
	if (yes)
		*at = (struct hearing){ *g, now }; /* what had its place is not believed any more */
	pthread_mutex_unlock(&l->lock);
	return yes;
}

struct asker {
	struct lessee by;    /* number 0: it can't be given a lease */
	bool active, others; /* it may believe something; somebody else may, of the same tenant or of the provider */
};

static void look_at(const struct holder *h, const struct request *rq, struct asker *a)
{
	uint64_t now = clock_ns();

	for (; h; h = h->next) {
		bool self = h->client == rq->client;

		a->by.number = self ? h->by.number : a->by.number;
		a->active |= self && is_active(h, now);
		a->others |= !self && is_active(h, now);
	}
}

/* What the provider's clients change may be any tenant's. */
static struct asker asker_of(struct leases *l, const struct request *rq)
{
	struct asker a = { .by.root = rq->root };

	pthread_mutex_lock(&l->lock);
	look_at(*list_of(l, 0), rq, &a);
	if (rq->root)
		look_at(*list_of(l, rq->root), rq, &a);
	for (unsigned i = 1; i < ROOTS && !rq->root && !a.others; i++)
		look_at(l->holders[i], rq, &a);
	pthread_mutex_unlock(&l->lock);
	return a;
}

/* ---- what is changed ---- */

struct changing {
	struct leases *l;
	struct asker by;
	unsigned count, found; /* the last ones of `found` were found by name: references */
	struct inode *object[OBJECTS_MOST];
	struct told told[OBJECTS_MOST];
};

static void note_object(void *arg, struct inode *inode)
{
	struct changing *c = arg;

	if (c->count < OBJECTS_MOST)
		c->object[c->count++] = inode;
}

static void find_by_name(struct request *rq, struct changing *c, const struct loc *loc)
{
	struct request own;
	struct lookup_in in = { .loc = { .parent = loc->parent, .name = loc->name } };
	struct lookup_out out = { 0 };

	if (!loc->parent || !loc->name || loc->inode || c->count == OBJECTS_MOST)
		return;
	request_init(&own, rq->graph, 0);
	own.group_count = 0;
	own.deadline_ns = rq->deadline_ns;
	if (!lookup_on(&own, c->l->x->child[0], &in, &out)) {
		c->object[c->count++] = inode_ref(out.inode);
		c->found++;
		fop_out_clear(FOP_lookup, &out);
	}
	request_finish(&own);
}

/* What has a name that the operation takes away, or gives to something else. Only others must hear of it; who comes to believe something after the
 * directories were marked learns nothing there by which it would be reached. */
static void find_victims(struct request *rq, struct changing *c, enum fop fop, const void *in)
{
	const struct rename_in *rename = in;

	if (!asker_of(c->l, rq).others)
		return;
	if (fop == FOP_unlink || fop == FOP_rmdir || fop == FOP_create)
		find_by_name(rq, c, in);
	if (fop == FOP_rename) {
		find_by_name(rq, c, &rename->from);
		find_by_name(rq, c, &rename->to);
	}
}

/* ---- recalls ---- */

static struct recall *recall_add(struct leases *l, struct holder *h, const struct gfid *g, struct recall *before)
{
	struct recall *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	*r = (struct recall){ h, h->client, ++l->recalls, clock_ns(), *g, h->recalls, before };
	h->recalls = r;
	return r;
}

static void recall_drop(struct recall *r)
{
	struct recall **at = r->holder ? &r->holder->recalls : NULL;

	while (at && *at != r)
		at = &(*at)->next;
	if (at)
		*at = r->next;
}

static void recalls_free(struct leases *l, struct recall *all)
{
	pthread_mutex_lock(&l->lock);
	for (struct recall *r = all; r; r = r->of_waiter)
		recall_drop(r);
	pthread_mutex_unlock(&l->lock);
	while (all) {
		struct recall *r = all;

		all = r->of_waiter;
		free(r);
	}
}

static int recalls_of_object(struct changing *c, struct holder *list, unsigned i, struct recall **all)
{
	uint64_t now = clock_ns();

	for (struct holder *h = list; h; h = h->next) {
		struct recall *r;

		if (h->by.number == c->by.by.number || (h->by.root && h->by.root != c->told[i].root) ||
		    !(c->told[i].bits & client_bit(h->by.number)) || !is_active(h, now) || !was_told(h, &c->object[i]->gfid))
			continue;
		r = recall_add(c->l, h, &c->object[i]->gfid, *all);
		if (!r)
			return -ENOMEM;
		*all = r;
	}
	return 0;
}

/* -ENOMEM. */
static int recalls_make(struct changing *c, struct recall **all)
{
	struct leases *l = c->l;
	int err = 0;

	pthread_mutex_lock(&l->lock);
	for (unsigned i = 0; i < c->count && !err; i++) {
		err = recalls_of_object(c, *list_of(l, 0), i, all);
		if (!err && c->told[i].root)
			err = recalls_of_object(c, *list_of(l, c->told[i].root), i, all);
	}
	pthread_mutex_unlock(&l->lock);
	return err;
}

static void recalls_send(struct leases *l, const struct recall *all)
{
	for (const struct recall *r = all; r; r = r->of_waiter) {
		struct event e = { .kind = EVENT_RECALL, .client = r->client, .lock.owner = r->number };

		event_set_gfid(&e, &r->gfid);
		event_up(l->x, &e);
		atomic_fetch_add(&l->recalled, 1);
	}
}

/* With the lock held, so seldom: the log may be slow, and who never releases anything does so as often as he likes. */
static void tell_overdue(struct leases *l, const struct holder *h, uint64_t now)
{
	enum { TELL_S = 60 };

	if (l->overdue_told_ns && now < l->overdue_told_ns + TELL_S * 1000000000ull)
		return;
	l->overdue_told_ns = now;
	log_info(l->x, NULL,
		 "%s has not released what was recalled; its leases have run out (others of the next minute are not told)",
		 h->client->name);
}

/* Each releases it, or runs out of its word. The wait is short, and what was begun must not be left: it can't be cancelled. */
static void recalls_wait(struct leases *l, struct recall *all)
{
	task_shield(true);
	pthread_mutex_lock(&l->lock);
	for (struct recall *r = all; r; r = r->of_waiter)
		while (r->holder) {
			struct holder *h = r->holder;

			if (is_active(h, clock_ns())) {
				task_cond_wait(&l->released, &l->lock, h->proved_ns + LEASE_WAIT_MS * 1000000ull);
				continue;
			}
			atomic_fetch_add(&l->overdue, 1);
			tell_overdue(l, h, clock_ns());
			let_go(l, h);
		}
	pthread_mutex_unlock(&l->lock);
	task_shield(false);
}

static int recall_others(struct request *rq, struct changing *c)
{
	struct recall *all = NULL;
	uint64_t bits = 0;
	int err;

	for (unsigned i = 0; i < c->count; i++)
		bits |= c->told[i].bits;
	if (!bits)
		return 0;
	err = recalls_make(c, &all);
	if (!err && all) {
		request_aside(rq, true);
		recalls_send(c->l, all);
		recalls_wait(c->l, all);
		request_aside(rq, false);
	}
	recalls_free(c->l, all);
	for (unsigned i = 0; i < c->count && !err; i++)
		if (c->told[i].bits)
			table_clear(&c->l->table, &c->object[i]->gfid, c->by.by.number);
	return err;
}

/* Clients of an earlier process may believe what it told them, and have not heard that it has ended. */
static void wait_quiet(struct request *rq, struct leases *l)
{
	uint64_t now = clock_ns();

	if (now >= l->quiet_until_ns)
		return;
	task_shield(true);
	request_aside(rq, true);
	for (; now < l->quiet_until_ns; now = clock_ns())
		task_sleep_ms((l->quiet_until_ns - now) / 1000000 + 1);
	request_aside(rq, false);
	task_shield(false);
}

static void mark(struct changing *c, unsigned from)
{
	for (unsigned i = from; i < c->count; i++)
		c->told[i] = table_change(&c->l->table, &c->object[i]->gfid, c->by.by.number);
}

static int change(struct request *rq, struct changing *c, enum fop fop, const void *in, void *out)
{
	struct leases *l = c->l;
	unsigned named = c->count;
	int err;

	wait_quiet(rq, l);
	mark(c, 0);
	find_victims(rq, c, fop, in);
	mark(c, named);
	err = recall_others(rq, c);
	if (!err)
		err = fop_call(rq, l->x->child[0], fop, in, out);
	for (unsigned i = 0; i < c->count; i++)
		table_changed(&l->table, &c->object[i]->gfid, c->by.by.number);
	for (unsigned i = c->count - c->found; i < c->count; i++)
		inode_unref(c->object[i]);
	return err;
}

/* ---- what is told ---- */

struct telling {
	struct leases *l;
	const struct request *rq;
	struct lessee by;
	uint64_t since;
	bool all;
};

static void lease_one(void *arg, struct inode *inode)
{
	struct telling *t = arg;

	t->all = t->all && note_told(t->l, t->rq, &inode->gfid) && table_lease(&t->l->table, &inode->gfid, t->by, t->since);
}

static void lease_told(struct request *rq, struct leases *l, const struct asker *a, uint64_t since, enum fop fop,
		       const void *in, const void *out)
{
	struct telling t = { l, rq, a->by, since, a->active };

	if (t.all)
		lease_taught(fop, in, out, lease_one, &t);
	if (t.all && !request_extend(&rq->reply_extensions, LEASED_EXTENSION, 1, false, "", 0))
		atomic_fetch_add(&l->leased, 1);
	else
		atomic_fetch_add(&l->unleased, 1);
}

static bool tells_something(enum fop fop)
{
	static const uint64_t fops = 1ull << FOP_lookup | 1ull << FOP_getattr | 1ull << FOP_setattr | 1ull << FOP_create |
				     1ull << FOP_mknod | 1ull << FOP_mkdir | 1ull << FOP_symlink | 1ull << FOP_link |
				     1ull << FOP_readdir;

	return fop_set_has(fops, fop);
}

static int lease_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	struct changing c = { .l = x->private };
	uint64_t since;
	int err;

	if (fop == FOP_compound) /* its steps may use what an earlier one of them makes */
		return -EOPNOTSUPP;
	lease_changed(fop, in, note_object, &c);
	if (!c.count && !tells_something(fop))
		return fop_call(rq, x->child[0], fop, in, out);
	c.by = asker_of(c.l, rq);
	since = table_time(&c.l->table);
	err = c.count ? change(rq, &c, fop, in, out) : fop_call(rq, x->child[0], fop, in, out);
	if (lease_teaches(fop, err) && tells_something(fop))
		lease_told(rq, c.l, &c.by, since, fop, in, out);
	return err;
}

/* ---- what clients say ---- */

/* It outlives a process that is killed: then the next one waits. */
static void record(struct leases *l)
{
	int fd = *l->record && !l->recorded ? open(l->record, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;

	l->recorded |= fd >= 0;
	if (fd >= 0)
		close(fd);
}

static int prove(struct leases *l, const struct request *rq, uint64_t *epoch)
{
	struct holder *h = holder_of(l, rq);
	uint64_t now = clock_ns();

	h = h ? h : holder_add(l, rq);
	if (!h)
		return -ENOMEM;
	record(l);
	if (*l->record && !l->recorded)
		return -EIO;
	for (const struct recall *r = h->recalls; r; r = r->next)
		if (now > r->sent_ns + LATE_MS * 1000000ull)
			return -EAGAIN;
	if (!is_active(h, now)) {
		let_go(l, h);
		h->epoch = ++l->epochs;
	}
	h->proved_ns = now;
	*epoch = h->epoch;
	return 0;
}

static void release(struct leases *l, const struct request *rq, uint64_t number)
{
	struct holder *h = holder_of(l, rq);
	struct recall **at = h ? &h->recalls : NULL;

	while (at && *at && (*at)->number != number)
		at = &(*at)->next;
	if (!at || !*at)
		return;
	(*at)->holder = NULL;
	*at = (*at)->next;
	task_cond_broadcast(&l->released);
}

static int lease_lease(struct request *rq, struct xlator *x, const struct lease_in *in, struct lease_out *out)
{
	struct leases *l = x->private;
	int err = 0;

	if (!rq->client)
		return -EINVAL;
	pthread_mutex_lock(&l->lock);
	if (in->verb == LEASE_PROVE)
		err = prove(l, rq, &out->epoch);
	else if (in->verb == LEASE_RELEASED)
		release(l, rq, in->number);
	else
		err = -EOPNOTSUPP;
	pthread_mutex_unlock(&l->lock);
	return err;
}

/* ---- set-up ---- */

static int lease_init(struct xlator *x, struct problem *p)
{
	struct leases *l = x->private;

	(void)p;
	l->x = x;
	pthread_mutex_init(&l->lock, NULL);
	table_init(&l->table);
	l->epochs = clock_wall_ns(); /* so that it is another one after a restart */
	return 0;
}

static int lease_start(struct xlator *x, struct problem *p)
{
	struct leases *l = x->private;

	(void)p;
	if (!*l->record || !access(l->record, F_OK)) {
		l->quiet_until_ns = clock_ns() + LEASE_WAIT_MS * 1000000ull;
		l->recorded = *l->record;
	}
	return 0;
}

/* With the lock held. */
static unsigned count_active(const struct leases *l)
{
	uint64_t now = clock_ns();
	unsigned active = 0;

	for (unsigned i = 0; i < ROOTS; i++)
		for (const struct holder *h = l->holders[i]; h; h = h->next)
			active += is_active(h, now);
	return active;
}

static void lease_stop(struct xlator *x)
{
	struct leases *l = x->private;
	uint64_t now = clock_ns();

	pthread_mutex_lock(&l->lock);
	if (l->recorded && !count_active(l) && now >= l->quiet_until_ns)
		unlink(l->record);
	pthread_mutex_unlock(&l->lock);
}

static void lease_finish(struct xlator *x)
{
	struct leases *l = x->private;

	for (unsigned i = 0; i < ROOTS; i++)
		while (l->holders[i]) {
			struct holder *h = l->holders[i];

			l->holders[i] = h->next;
			free(h->told);
			free(h);
		}
	table_free(&l->table);
	pthread_mutex_destroy(&l->lock);
}

/* The event says not whose client it was. */
static struct holder **place_of(struct leases *l, const struct client *client)
{
	for (unsigned i = 0; i < ROOTS; i++)
		for (struct holder **at = &l->holders[i]; *at; at = &(*at)->next)
			if ((*at)->client == client)
				return at;
	return NULL;
}

static void lease_client_gone(struct xlator *x, const struct client *client)
{
	struct leases *l = x->private;
	struct holder **at, *h;

	pthread_mutex_lock(&l->lock);
	at = place_of(l, client);
	if (at) {
		h = *at;
		*at = h->next;
		let_go(l, h);
		free(h->told);
		free(h);
	}
	pthread_mutex_unlock(&l->lock);
}

static void lease_dump(struct xlator *x, FILE *f)
{
	struct leases *l = x->private;
	unsigned active;

	pthread_mutex_lock(&l->lock);
	active = count_active(l);
	pthread_mutex_unlock(&l->lock);
	fprintf(f, "  clients that believe something: %u\n", active);
	fprintf(f, "  objects of which they were told: %zu\n", table_count(&l->table));
	fprintf(f, "  answers with a lease: %" PRIu64 "\n", (uint64_t)l->leased);
	fprintf(f, "  answers without: %" PRIu64 "\n", (uint64_t)l->unleased);
	fprintf(f, "  recalls: %" PRIu64 "\n", (uint64_t)l->recalled);
	fprintf(f, "  recalls that were not answered: %" PRIu64 "\n", (uint64_t)l->overdue);
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "features/lease",
	.summary = "lets clients believe what they were told, and recalls it before somebody else changes it",
	.options = options,
	.private_size = sizeof(struct leases),
	.min_children = 1,
	.max_children = 1,
	.init = lease_init,
	.start = lease_start,
	.stop = lease_stop,
	.finish = lease_finish,
	.client_gone = lease_client_gone,
	.dump = lease_dump,
	.lease = lease_lease,
	.any = lease_any,
};
