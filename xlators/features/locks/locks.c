/* SPDX-License-Identifier: Apache-2.0 */
/* features/locks: POSIX and flock locks of all clients of a brick, waiting ones, and their return after a restart. */
#include "locks.h"

#include "held.h"
#include "locked.h"

#include <fcntl.h>
#include <sys/stat.h>

static const struct option options[] = {
	{ "state-dir", OPTION_STRING, OPTION_AT(struct locks, state_dir), "",
	  "directory for the durable list of clients that hold locks (absolute; empty: none)" },
	{ "grace-period", OPTION_DURATION, OPTION_AT(struct locks, grace_ms), "30s",
	  "after a restart clients that held locks may get them back for so long, before anyone gets new ones" },
	{ "max-locks", OPTION_INT, OPTION_AT(struct locks, max_locks), "65536",
	  "locks that one client, or all clients of one tenant together, may hold or wait for", .min = 1, .max = 1 << 30,
	  .live = true },
	{ NULL },
};

/* ---- inodes ---- */

static struct lock_inode *lock_inode_of(struct xlator *x, struct inode *inode)
{
	struct locks *p = x->private;
	struct lock_inode *at = inode_slot(inode, x);

	if (at)
		return at;
	at = calloc(1, sizeof(*at));
	if (!at)
		return NULL;
	at->inode = inode;
	if (inode_slot_set(inode, x, at)) {
		free(at);
		return inode_slot(inode, x);
	}
	locks_take(p);
	at->next = p->inode;
	if (at->next)
		at->next->prev = at;
	p->inode = at;
	pthread_mutex_unlock(&p->lock);
	return at;
}

static bool any_held(const struct held *h, const void *arg)
{
	(void)h;
	(void)arg;
	return true;
}

static void locks_forget_inode(struct xlator *x, struct inode *inode, void *slot)
{
	struct locks *p = x->private;
	struct lock_inode *at = slot;

	(void)inode;
	locks_take(p);
	held_drop(at, LOCK_POSIX, any_held, NULL);
	held_drop(at, LOCK_FLOCK, any_held, NULL);
	if (at->next)
		at->next->prev = at->prev;
	*(at->prev ? &at->prev->next : &p->inode) = at->next;
	pthread_mutex_unlock(&p->lock);
	free(at);
}

/* ---- waiting: the lock is held ---- */

static void begin_granting(struct locks *p, struct lock_inode *at)
{
	at->grant_next = NULL;
	at->grant_prev = p->last_granting;
	*(at->grant_prev ? &at->grant_prev->grant_next : &p->granting) = at;
	p->last_granting = at;
}

static void end_granting(struct locks *p, struct lock_inode *at)
{
	*(at->grant_prev ? &at->grant_prev->grant_next : &p->granting) = at->grant_next;
	*(at->grant_next ? &at->grant_next->grant_prev : &p->last_granting) = at->grant_prev;
}

/* Where it goes on. What is listed has somebody who waits, whose file keeps the inode. */
static void grant_from(struct locks *p, struct lock_inode *at, struct waiter *w)
{
	if (w && !at->grant)
		begin_granting(p, at);
	if (!w && at->grant)
		end_granting(p, at);
	at->grant = w;
}

static void unlist(struct locks *p, struct waiter *w)
{
	struct lock_inode *at = w->at;
	struct lock_client *c = w->want.party.client;

	if (at->grant == w)
		grant_from(p, at, w->next);
	*(w->prev ? &w->prev->next : &at->waiter) = w->next;
	*(w->next ? &w->next->prev : &at->last_waiter) = w->prev;
	at->waiting--;
	if (w->client_next)
		w->client_next->client_prev = w->client_prev;
	*(w->client_prev ? &w->client_prev->client_next : &c->waiter) = w->client_next;
	c->waiting--;
	client_count(c, -1);
}

static void enlist(struct locks *p, struct waiter *w)
{
	struct lock_inode *at = w->at;
	struct lock_client *c = w->want.party.client;

	w->next = NULL;
	w->prev = at->last_waiter;
	*(w->prev ? &w->prev->next : &at->waiter) = w;
	at->last_waiter = w;
	at->waiting++;
	w->client_prev = NULL;
	w->client_next = c->waiter;
	if (c->waiter)
		c->waiter->client_prev = w;
	c->waiter = w;
	c->waiting++;
	client_count(c, 1);
	p->waited++;
}

/* The waiter may be gone as soon as the lock is released. */
static void settle(struct locks *p, struct waiter *w, int result)
{
	unlist(p, w);
	w->result = result;
	task_wake(w->task);
}

/* ---- granting: the lock is held, but between portions ---- */

/* Pairs of a lock and one who waits for one that are compared at a time, while nobody on the brick gets any lock. */
enum { PORTION = 1 << 16 };

/* Looks at the one who is next. Who has it for reading from now on, and had it for writing, may have been in the way of one before him. */
static void grant_next(struct locks *p, struct lock_inode *at)
{
	struct waiter *w = at->grant;

	if (held_conflict(at, &w->want)) {
		grant_from(p, at, w->next);
		return;
	}
	if (held_lowers(at, &w->want))
		grant_from(p, at, at->waiter);
	held_apply(at, &w->want, w->spare);
	p->granted++;
	settle(p, w, 0);
}

/* Each who gets his lock makes it more work for the next. */
static void grant_some(struct locks *p, struct lock_inode *at, uint64_t *work)
{
	while (at->grant && *work < PORTION) {
		*work += at->held_count + at->pins + 1;
		grant_next(p, at);
	}
}

static void let_others(struct locks *p, bool yields)
{
	p->paused++;
	pthread_mutex_unlock(&p->lock);
	if (yields && task_self())
		task_yield();
	locks_take_in_turn(p);
}

/* What was begun, by whomever. Also for who wants something of the inode now: else he could come before one who has waited. */
static void grant_rest(struct locks *p, struct lock_inode *at, bool yields)
{
	uint64_t work = 0;

	for (grant_some(p, at, &work); at->grant; grant_some(p, at, &work)) {
		let_others(p, yields);
		work = 0;
	}
}

/* All who wait are to be looked at, from the first on, so that nobody gets what one before him could have. It is the newest of those that are to be done. */
static void grant_anew(struct locks *p, struct lock_inode *at)
{
	grant_from(p, at, NULL);
	at->grant_number = ++p->grants;
	grant_from(p, at, at->waiter);
}

void grant_waiters(struct locks *p, struct lock_inode *at, bool yields)
{
	grant_anew(p, at);
	grant_rest(p, at, yields);
}

/* Of all inodes what was begun up to now. What begins meanwhile is done by others; no inode is kept from going while they have their turn. */
static void grant_all(struct locks *p)
{
	uint64_t work = 0, last = p->grants;

	while (p->granting && p->granting->grant_number <= last) {
		grant_some(p, p->granting, &work);
		if (work >= PORTION) {
			let_others(p, true);
			work = 0;
		}
	}
}

static int wait_for(struct locks *p, struct waiter *me)
{
	int err = 0, result;

	enlist(p, me);
	do {
		pthread_mutex_unlock(&p->lock);
		err = task_wait(NO_DEADLINE);
		locks_take(p);
	} while (me->result == -EINPROGRESS && !err);
	result = me->result;
	if (result == -EINPROGRESS)
		unlist(p, me);
	return result == -EINPROGRESS ? err : result;
}

/* ---- setlk ---- */

static int check(struct lock *lock)
{
	if (lock->kind > LOCK_FLOCK || (lock->type != F_RDLCK && lock->type != F_WRLCK && lock->type != F_UNLCK))
		return -EINVAL;
	if (lock->kind == LOCK_FLOCK) {
		lock->start = 0;
		lock->end = UINT64_MAX;
	}
	return lock->start <= lock->end ? 0 : -EINVAL;
}

static bool same_flock(const struct held *h, const void *arg)
{
	const struct held *want = arg;

	return h->party.client == want->party.client && h->party.owner == want->party.owner;
}

/* As if it had its lock still, and waited for the new one: it will do one of the two without being asked whether there is room. */
static void keep_place(struct waiter *me, int more)
{
	struct lock_client *c = me->want.party.client;

	me->at->held_count += (uint64_t)more;
	me->at->waiting += me->want.lock.wait ? (uint64_t)more : 0;
	c->locks += (uint64_t)more;
	client_count(c, more);
}

/* Like Linux, a flock that changes its type is given back first: so two that want more never wait for each other. While others have their turn they don't get the place of it. */
static void convert_flock(struct locks *p, struct waiter *me)
{
	if (me->want.lock.kind != LOCK_FLOCK || held_covers(me->at, &me->want) ||
	    !held_drop(me->at, LOCK_FLOCK, same_flock, &me->want))
		return;
	keep_place(me, 1);
	grant_waiters(p, me->at, true);
	keep_place(me, -1);
}

static int lost(struct locks *p)
{
	p->lost++;
	return -ENOLCK;
}

static bool has_ended(const struct waiter *me)
{
	return me->want.incarnation < me->want.party.client->ended;
}

/* So many more would be too many. Who wants none is not refused, though he have too many: max-locks is live. */
static bool has_most(const struct locks *p, const struct lock_client *c, unsigned more)
{
	uint64_t most = (uint64_t)p->max_locks;

	return more && (c->locks + c->waiting + more > most || (c->tenant && c->tenant->locks + more > most));
}

/* For more locks, or one more who waits, if it comes to that. It is asked before anything is given back: a flock that changes its type will have made room for its waiting and for the new one. */
static bool has_room(const struct locks *p, const struct waiter *me)
{
	const struct lock_client *c = me->want.party.client;
	bool conflict, waits;
	unsigned adds;

	if (!has_most(p, c, ADDS_MOST) && !held_too_many(me->at, ADDS_MOST, true))
		return true;
	conflict = held_conflict(me->at, &me->want);
	waits = conflict && me->want.lock.wait;
	adds = held_adds(me->at, &me->want);
	if (has_most(p, c, waits && me->want.lock.kind == LOCK_POSIX && !adds ? 1 : adds))
		return false;
	return waits ? !held_too_many(me->at, adds, true) : conflict || !adds || !held_too_many(me->at, adds, false);
}

/* Nobody is in its way. What the party then has for reading only others may read, too. */
static void take(struct locks *p, struct waiter *me)
{
	bool lowers = held_lowers(me->at, &me->want);

	held_apply(me->at, &me->want, me->spare);
	if (lowers)
		grant_waiters(p, me->at, true);
}

/* A reclaim is good if nothing can have come between: in the grace period, for who has a record. Where no records are kept
 * new locks don't wait, so another may have held the lock meanwhile; then it is given back for as long after the start, if
 * nobody holds it now. What the session never lost is simply still there. */
static int reclaim(struct locks *p, struct waiter *me)
{
	const struct lock_client *c = me->want.party.client;
	bool allowed = *p->state_dir ? p->grace_end_ns && c->reclaim != NOT_EXPECTED
				     : clock_ns() < p->started_ns + p->grace_ms * 1000000;

	if (held_covers(me->at, &me->want)) { /* by this session from now on: the end of an earlier one does not take it */
		held_apply(me->at, &me->want, me->spare);
		return 0;
	}
	if (!allowed || held_conflict(me->at, &me->want) || !has_room(p, me))
		return lost(p);
	take(p, me);
	return 0;
}

static int acquire(struct locks *p, struct waiter *me)
{
	if (me->want.lock.reclaim)
		return reclaim(p, me);
	if (!has_room(p, me)) /* he keeps what he has */
		return -ENOLCK;
	convert_flock(p, me);
	if (has_ended(me)) /* meanwhile, as others may have had their turn */
		return -ENOTCONN;
	if (!held_conflict(me->at, &me->want)) {
		p->granted++;
		take(p, me);
		return 0;
	}
	if (!me->want.lock.wait)
		return -EAGAIN;
	if (me->want.lock.kind == LOCK_POSIX && waits_for_itself(p, me)) {
		p->deadlocks++;
		return -EDEADLK;
	}
	return wait_for(p, me);
}

/* Under the lock, with a durable record if there is to be one. */
static int set_range(struct xlator *x, struct waiter *me)
{
	struct locks *p = x->private;
	struct lock_client *c = me->want.party.client;
	bool reclaims = me->want.lock.reclaim;
	int err = 0;

	locks_take(p);
	while (!err && *p->state_dir && !c->recorded && !reclaims) {
		pthread_mutex_unlock(&p->lock);
		err = record_write(x, c);
		locks_take(p);
	}
	grant_rest(p, me->at, true);
	if (!err && has_ended(me))
		err = -ENOTCONN;
	if (!err) {
		grace_note(p, c, reclaims);
		err = acquire(p, me);
	}
	if (!err)
		c->obsolete = false;
	pthread_mutex_unlock(&p->lock);
	return err;
}

/* Also what gives back can make more of them than anybody may have. */
static int unlock(struct xlator *x, struct waiter *me)
{
	struct locks *p = x->private;
	bool gives_back;
	int err = 0;

	locks_take(p);
	grant_rest(p, me->at, true);
	gives_back = held_gives_back(me->at, &me->want);
	if ((has_most(p, me->want.party.client, 1) || held_too_many(me->at, 1, false)) && held_splits(me->at, &me->want))
		err = -ENOLCK;
	else
		held_apply(me->at, &me->want, me->spare);
	if (gives_back)
		grant_waiters(p, me->at, true);
	pthread_mutex_unlock(&p->lock);
	return err;
}

/* A client that has sent reclaims and now asks for something new has no more to reclaim: that may end the grace period. */
static int admit(struct request *rq, struct xlator *x, const struct waiter *me)
{
	struct locks *p = x->private;

	if (me->want.lock.reclaim)
		return 0;
	locks_take(p);
	grace_note(p, me->want.party.client, false);
	pthread_mutex_unlock(&p->lock);
	return grace_wait(x, me->want.lock.wait ? NO_DEADLINE : rq->deadline_ns);
}

static void drop_through(struct xlator *, struct file *, bool yields);

/* Tells the end of the file that there are locks to drop. */
static int mark_file(struct xlator *x, const struct waiter *me)
{
	int err = file_slot_set((struct file *)me->want.file, x, x->private);

	return err && err != -EEXIST ? -ENOLCK : 0;
}

/* It may have been closed while this waited, when there was nothing to drop yet: so it is told once more. What is asked here refers to it, and it ends after that. */
static int set_or_drop(struct request *rq, struct xlator *x, struct waiter *me)
{
	int err;

	if (me->want.lock.type == F_UNLCK)
		return unlock(x, me);
	err = mark_file(x, me);
	if (!err)
		err = admit(rq, x, me);
	if (!err)
		err = set_range(x, me);
	if (!err && mark_file(x, me)) {
		drop_through(x, (struct file *)me->want.file, true);
		err = -ENOLCK;
	}
	return err;
}

static int setlk_with(struct request *rq, struct xlator *x, const struct setlk_in *in, struct lock_client *c)
{
	struct waiter me = { .task = task_self(), .result = -EINPROGRESS };
	int err;

	me.want = (struct held){ .party = { c, in->lock.owner },
				 .lock = in->lock,
				 .file = in->file,
				 .incarnation = rq->client ? rq->client->incarnation : 0 };
	err = check(&me.want.lock);
	if (err)
		return err;
	me.at = lock_inode_of(x, in->file->inode);
	me.spare[0] = malloc(sizeof(struct held));
	me.spare[1] = malloc(sizeof(struct held));
	err = me.at && me.spare[0] && me.spare[1] ? set_or_drop(rq, x, &me) : -ENOLCK;
	free(me.spare[0]);
	free(me.spare[1]);
	return err;
}

/* Anybody may ask for that as often as he likes. */
static bool is_time_to_tell(struct locks *p)
{
	enum { TELL_S = 60 };
	uint64_t told = atomic_load(&p->lost_told_ns), now = clock_ns();

	return (!told || now > told + TELL_S * 1000000000ull) && atomic_compare_exchange_strong(&p->lost_told_ns, &told, now);
}

static int locks_setlk(struct request *rq, struct xlator *x, const struct setlk_in *in, struct setlk_out *out)
{
	struct lock_client *c = client_get(x->private, rq->client, true);
	int err = c ? setlk_with(rq, x, in, c) : -ENOLCK;

	(void)out;
	client_put(x, c);
	if (err == -ENOLCK && in->lock.reclaim) {
		struct event event = {
			.kind = EVENT_LOCK_LOST, .inode = in->file->inode, .client = rq->client, .lock = in->lock
		};

		if (is_time_to_tell(x->private))
			log_warning(x, rq, "a lock of %s can't be reclaimed (more of them in the next minute are not told)",
				    rq->client ? rq->client->name : "this process");
		event_up(x, &event);
	}
	return err;
}

static int locks_getlk(struct request *rq, struct xlator *x, const struct getlk_in *in, struct getlk_out *out)
{
	struct locks *p = x->private;
	struct held want = { .lock = in->lock, .party.owner = in->lock.owner };
	const struct lock_inode *at = inode_slot(in->file->inode, x);
	const struct held *h;
	int err = check(&want.lock);

	if (!err)
		err = grace_wait(x, rq->deadline_ns);
	if (err)
		return err;
	want.party.client = client_get(p, rq->client, false);
	locks_take(p);
	h = at ? held_conflict(at, &want) : NULL;
	out->lock = h ? h->lock : in->lock;
	pthread_mutex_unlock(&p->lock);
	if (!h)
		out->lock.type = F_UNLCK;
	out->lock.wait = out->lock.reclaim = 0;
	client_put(x, want.party.client);
	return 0;
}

/* ---- for those above ---- */

static bool may_be_reclaimed(const struct locks *p)
{
	return p->grace_end_ns || (!*p->state_dir && clock_ns() < p->started_ns + p->grace_ms * 1000000);
}

/* Nobody who asks waits for the end of the grace period; but it may be over. */
static bool is_locked(struct xlator *x, const struct lock_inode *at)
{
	struct locks *p = x->private;
	bool over, locked;

	locks_take(p);
	over = p->grace_end_ns && clock_ns() >= p->grace_end_ns;
	pthread_mutex_unlock(&p->lock);
	if (over)
		grace_wait(x, clock_ns());
	locks_take(p);
	locked = may_be_reclaimed(p) || (at && (at->held[0] || at->held[1] || at->waiter || at->pin));
	pthread_mutex_unlock(&p->lock);
	return locked;
}

static int locks_getxattr(struct request *rq, struct xlator *x, const struct getxattr_in *in, struct getxattr_out *out)
{
	if (strcmp(in->name, LOCKED_XATTR) != 0)
		return getxattr_on(rq, x->child[0], in, out);
	out->value.bytes = strdup(is_locked(x, inode_slot(in->inode, x)) ? "1" : "0");
	out->value.size = 1;
	return out->value.bytes ? 0 : -ENOMEM;
}

/* ---- the ends of things ---- */

static void drop(struct xlator *x, struct inode *inode, enum lock_kind kind, bool (*match)(const struct held *, const void *),
		 const void *arg, bool yields)
{
	struct locks *p = x->private;
	struct lock_inode *at = inode_slot(inode, x);

	if (!at)
		return;
	locks_take(p);
	if (held_drop(at, kind, match, arg))
		grant_waiters(p, at, yields);
	pthread_mutex_unlock(&p->lock);
}

static bool same_party(const struct held *h, const void *arg)
{
	const struct party *party = arg;

	return h->party.client == party->client && h->party.owner == party->owner;
}

static bool same_file(const struct held *h, const void *file)
{
	return h->file == file;
}

static void drop_posix(struct request *rq, struct xlator *x, struct file *file, uint64_t owner)
{
	struct party party = { .owner = owner };

	if (!inode_slot(file->inode, x))
		return;
	party.client = client_get(x->private, rq->client, false);
	if (party.client)
		drop(x, file->inode, LOCK_POSIX, same_party, &party, true);
	client_put(x, party.client);
}

/* The owners of POSIX locks have closed the file, too: a flush of theirs that got lost leaves nothing behind. */
static void drop_through(struct xlator *x, struct file *file, bool yields)
{
	drop(x, file->inode, LOCK_FLOCK, same_file, file, yields);
	drop(x, file->inode, LOCK_POSIX, same_file, file, yields);
}

static int locks_flush(struct request *rq, struct xlator *x, const struct flush_in *in, struct flush_out *out)
{
	drop_posix(rq, x, in->file, in->owner);
	return flush_on(rq, x->child[0], in, out);
}

static int locks_release(struct request *rq, struct xlator *x, const struct release_in *in, struct release_out *out)
{
	if (file_slot_take(in->file, x))
		drop_through(x, in->file, true);
	return release_on(rq, x->child[0], in, out);
}

static void locks_forget_file(struct xlator *x, struct file *file, void *slot)
{
	(void)slot;
	drop_through(x, file, false); /* whoever lets go of the last reference may hold something */
}

/* Flush and release may ride in a compound: what they drop is dropped when the compound is done. */
static void drop_after(struct request *rq, struct xlator *x, const struct step *step, const struct result *result,
		       struct file **last)
{
	const struct flush_in *flush = step->in;
	const struct release_in *release = step->in;
	struct file *file;

	if (result->status)
		return;
	if (step->fop == FOP_open)
		*last = ((struct open_out *)result->out)->file;
	if (step->fop == FOP_create)
		*last = ((struct create_out *)result->out)->file;
	if (step->fop == FOP_flush && (file = flush->file ? flush->file : *last))
		drop_posix(rq, x, file, flush->owner);
	if (step->fop == FOP_release && (file = release->file ? release->file : *last) && file_slot_take(file, x))
		drop_through(x, file, true);
}

static int locks_compound(struct request *rq, struct xlator *x, const struct compound_in *in, struct compound_out *out)
{
	struct file *last = NULL;
	int err;

	if (request_extension(rq, HELD_EXTENSION)) /* of which step would it be? */
		return -EOPNOTSUPP;
	for (uint32_t i = 0; i < in->steps.count; i++)
		if (in->steps.step[i].fop == FOP_setlk || in->steps.step[i].fop == FOP_getlk)
			return -EOPNOTSUPP;
	err = compound_on(rq, x->child[0], in, out);
	for (uint32_t i = 0; !err && i < out->results.count; i++)
		drop_after(rq, x, &in->steps.step[i], &out->results.result[i], &last);
	return err;
}

struct session { /* and all before it */
	const struct lock_client *client;
	uint64_t incarnation;
};

static bool of_session(const struct held *h, const void *arg)
{
	const struct session *session = arg;

	return h->party.client == session->client && h->incarnation <= session->incarnation;
}

static void give_up_waiters(struct locks *p, const struct session *session)
{
	struct waiter *next;

	for (struct waiter *w = session->client->waiter; w; w = next) {
		next = w->client_next;
		if (of_session(&w->want, session))
			settle(p, w, -ENOTCONN);
	}
}

static void drop_session(struct locks *p, const struct session *session)
{
	for (struct lock_inode *at = p->inode; at; at = at->next) {
		unsigned dropped = held_drop(at, LOCK_POSIX, of_session, session);

		dropped += held_drop(at, LOCK_FLOCK, of_session, session);
		if (dropped)
			grant_anew(p, at);
	}
	grant_all(p);
}

/* True if a later session of the client holds locks. */
static bool has_later(const struct locks *p, const struct session *session)
{
	for (const struct lock_inode *at = p->inode; at; at = at->next)
		for (int kind = 0; kind < 2; kind++)
			for (const struct held *h = at->held[kind]; h; h = h->next)
				if (h->party.client == session->client && h->incarnation > session->incarnation)
					return true;
	return false;
}

static void locks_client_gone(struct xlator *x, const struct client *client)
{
	struct locks *p = x->private;
	struct lock_client *c = client_get(p, client, false);
	struct session session = { c, client->incarnation };
	bool last;

	if (!c)
		return;
	locks_take(p);
	if (c->ended <= client->incarnation)
		c->ended = client->incarnation + 1;
	give_up_waiters(p, &session);
	last = !has_later(p, &session);
	pthread_mutex_unlock(&p->lock);
	if (last)
		record_remove(x, c); /* before its locks can become another's */
	locks_take(p);
	drop_session(p, &session);
	if (last)
		grace_done(p, c);
	pthread_mutex_unlock(&p->lock);
	client_put(x, c);
}

static void locks_client_reclaimed(struct xlator *x, const struct client *client)
{
	struct locks *p = x->private;
	struct lock_client *c = client_get(p, client, false);

	if (!c)
		return;
	locks_take(p);
	grace_done(p, c);
	pthread_mutex_unlock(&p->lock);
	client_put(x, c);
}

/* ---- life ---- */

static int locks_init(struct xlator *x, struct problem *problem)
{
	struct locks *p = x->private;

	pthread_mutex_init(&p->turn, NULL);
	pthread_mutex_init(&p->lock, NULL);
	pthread_mutex_init(&p->records, NULL);
	if (*p->state_dir && *p->state_dir != '/')
		return problem_set(problem, EINVAL, "%s: option state-dir must be an absolute path, not \"%s\"", x->name,
				   p->state_dir);
	return 0;
}

static void locks_stop(struct xlator *x)
{
	struct locks *p = x->private;

	locks_take(p);
	for (struct lock_client *c = p->client; c; c = c->next)
		while (c->waiter)
			settle(p, c->waiter, -ENOTCONN);
	p->grace_end_ns = 0;
	task_cond_broadcast(&p->grace_over);
	pthread_mutex_unlock(&p->lock);
}

static void locks_finish(struct xlator *x)
{
	struct locks *p = x->private;

	client_free_all(p);
	pthread_mutex_destroy(&p->lock);
	pthread_mutex_destroy(&p->turn);
	pthread_mutex_destroy(&p->records);
}

static void dump_inode(const struct lock_inode *at, FILE *f)
{
	char gfid[GFID_TEXT];

	for (int kind = 0; kind < 2; kind++)
		for (const struct held *h = at->held[kind]; h; h = h->next)
			fprintf(f, "  held: %s %s %s %llu-%llu owner=%llx pid=%u\n", gfid_text(&at->inode->gfid, gfid),
				kind == LOCK_POSIX ? "posix" : "flock", h->lock.type == F_RDLCK ? "read" : "write",
				(unsigned long long)h->lock.start, (unsigned long long)h->lock.end,
				(unsigned long long)h->lock.owner, h->lock.pid);
	for (const struct waiter *w = at->waiter; w; w = w->next)
		fprintf(f, "  waits: %s %s %s %llu-%llu owner=%llx pid=%u\n", gfid_text(&at->inode->gfid, gfid),
			w->want.lock.kind == LOCK_POSIX ? "posix" : "flock", w->want.lock.type == F_RDLCK ? "read" : "write",
			(unsigned long long)w->want.lock.start, (unsigned long long)w->want.lock.end,
			(unsigned long long)w->want.lock.owner, w->want.lock.pid);
}

static void locks_dump(struct xlator *x, FILE *f)
{
	struct locks *p = x->private;

	locks_take(p);
	fprintf(f,
		"  granted: %llu\n  waited: %llu\n  deadlocks: %llu\n  lost: %llu\n  not held: %llu\n  paused: %llu\n  expected: %u\n  grace: %s\n",
		(unsigned long long)p->granted, (unsigned long long)p->waited, (unsigned long long)p->deadlocks,
		(unsigned long long)p->lost, (unsigned long long)p->not_held, (unsigned long long)p->paused, p->expected,
		p->grace_end_ns ? "on" : "off");
	for (const struct lock_inode *at = p->inode; at; at = at->next)
		dump_inode(at, f);
	pthread_mutex_unlock(&p->lock);
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "features/locks",
	.summary = "POSIX and flock locks of all clients",
	.options = options,
	.private_size = sizeof(struct locks),
	.min_children = 1,
	.max_children = 1,
	.init = locks_init,
	.start = grace_start,
	.stop = locks_stop,
	.finish = locks_finish,
	.forget_inode = locks_forget_inode,
	.forget_file = locks_forget_file,
	.client_gone = locks_client_gone,
	.client_reclaimed = locks_client_reclaimed,
	.dump = locks_dump,
	.getxattr = locks_getxattr,
	.getlk = locks_getlk,
	.setlk = locks_setlk,
	.flush = locks_flush,
	.release = locks_release,
	.compound = locks_compound,
	.write = locks_write,
	.setattr = locks_setattr,
	.fallocate = locks_fallocate,
	.setxattr = locks_setxattr,
};
