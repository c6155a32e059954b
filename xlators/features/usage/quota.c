/* SPDX-License-Identifier: Apache-2.0 */
/* The hard limit of an account. What a change may add at most is claimed before it is done, and the claim ends when it has been settled; claims and what is
 * charged are together never more than the limit. Where nobody can tell before how much it will be, more is claimed. */
#include <errno.h>

#include "usage.h"

static const char *why_not(uint64_t number)
{
	if (!number)
		return "not all bricks that the volume has at this server are served by this process";
	if (!allot_is_asked())
		return "limits over several servers, or replica sets, are agreed on by stratusd with --state (and --cluster), and this process is none";
	return "what may be charged here of limits over several servers, or replica sets, can't be asked for just now (`stratus status` tells "
	       "whether a server leads)";
}

/* A set's new view must not wait for a claim: so its first member lets the client ask once more, soon, and at once if it is the first no more. */
static bool decides_for_set(struct usage *u, const struct request *rq)
{
	return rq->limits == LIMITS_FIRST && pool_is_of_set(&u->ledger);
}

static bool asks_again(struct usage *u, const struct request *rq, int ms)
{
	enum { IN_SET_MS = 1000 };

	return decides_for_set(u, rq) && (ms >= IN_SET_MS || !pool_has_decider(&u->ledger));
}

/* So, too, if nobody waits for the answer just now. */
static int given_up(struct usage *u, const struct request *rq)
{
	return decides_for_set(u, rq) ? -EASKFIRST : -EDQUOT;
}

/* Other bricks may be about to start. If one does not come nobody can tell that there is room. An allotment may be too small as others have more than they need: it is refused when they were asked,
 * or if nobody can be asked. Who decides may wait for others longer. */
static int claim_of_pool(struct request *rq, struct xlator *x, uint32_t row, struct amount more, bool last)
{
	enum { WAIT_MS = 5000, DECIDES_MS = 20000, STEP_MS = 10 };
	struct usage *u = usage_of(x);
	uint64_t base = ledger_base(&u->ledger, row), number = 0;
	enum pool_answer answer = POOL_SILENT;
	int err = ledger_claim(&u->ledger, row, more, last, rq->limits);
	bool again = false;

	if (err == -EAGAIN)
		number = pool_wait(&u->ledger, base, more);
	for (int ms = 0; err == -EAGAIN && ms < (answer == POOL_HEARD ? DECIDES_MS : WAIT_MS); ms += STEP_MS) {
		again = asks_again(u, rq, ms);
		if (again)
			break;
		if (answer == POOL_REFUSED || task_sleep_ms(STEP_MS) || (rq->deadline_ns && clock_ns() > rq->deadline_ns)) {
			err = answer == POOL_REFUSED ? -EDQUOT : given_up(u, rq);
			break;
		}
		err = ledger_claim(&u->ledger, row, more, last, rq->limits);
		if (err != -EAGAIN || !number)
			continue;
		answer = pool_answer(&u->ledger, base, &number);
		if (answer == POOL_REFUSED) /* what was given in the end is there by now */
			err = ledger_claim(&u->ledger, row, more, last, rq->limits);
	}
	if (number)
		pool_unwait(&u->ledger, base, more);
	if (err == -EAGAIN && (!again || (answer == POOL_SILENT && pool_has_decider(&u->ledger))) &&
	    !atomic_exchange(&u->lonely, true))
		log_error(x, NULL, "%s: nothing grows of who has a limit", why_not(number));
	if (err == -EAGAIN)
		err = again ? -EASKFIRST : -EDQUOT;
	return err;
}

/* Where a soft limit over several servers, or replica sets, has become hard: somebody may have made room for it meanwhile, elsewhere. In a set the first member waits for that, as for an allotment, and
 * others let themselves be asked after it. */
static int pass_soft(struct request *rq, struct xlator *x, uint32_t row, struct amount more)
{
	enum { WAIT_MS = 5000, STEP_MS = 10 };
	struct usage *u = usage_of(x);
	uint64_t number = 0;
	enum soft_answer answer;
	bool again = false;

	if (rq->limits == LIMITS_ASK || rq->limits == LIMITS_DECIDED)
		return rq->limits == LIMITS_ASK && soft_asks(&u->ledger, row) ? -EASKFIRST : 0;
	answer = soft_may(&u->ledger, row, more, &number);
	for (int ms = 0; answer == SOFT_WAITS && ms < WAIT_MS && !again; ms += STEP_MS) {
		if (task_sleep_ms(STEP_MS) || (rq->deadline_ns && clock_ns() > rq->deadline_ns))
			return given_up(u, rq);
		answer = soft_may(&u->ledger, row, more, &number);
		again = asks_again(u, rq, ms);
	}
	if (answer == SOFT_WAITS && (!again || pool_has_decider(&u->ledger)) && !atomic_exchange(&u->lonely, true))
		log_error(x, NULL, "%s: nothing grows of who has a soft limit with a time of grace", why_not(1));
	if (answer == SOFT_WAITS)
		return again ? -EASKFIRST : -EDQUOT;
	return answer == SOFT_PASSES ? 0 : -EDQUOT;
}

static struct amount growth(struct amount more)
{
	return (struct amount){ more.bytes > 0 ? more.bytes : 0, more.inodes > 0 ? more.inodes : 0 };
}

static bool is_nothing(struct amount a)
{
	return !a.bytes && !a.inodes;
}

/* Of the account, and of the directory in which it is. */
struct wanted {
	uint32_t row;
	struct amount more;
	uint64_t dir;
	struct amount dir_more;
};

/* It is never refused; but where there are allotments it takes of them what can be had, so that nobody else gets that. */
static int claim_of_mover(struct request *rq, struct xlator *x, uint32_t row, struct amount more, struct claim *c)
{
	if (row && !is_nothing(more) && pool_has_allotments(&usage_of(x)->ledger) && !claim_of_pool(rq, x, row, more, true))
		c->row = row, c->amount = more;
	return 0;
}

/* With what others add meanwhile: they have claims of their own. */
static int claim(struct request *rq, struct xlator *x, const struct wanted *w, bool last, struct claim *c)
{
	struct usage *u = usage_of(x);
	struct amount more = growth(w->more), dir_more = growth(w->dir_more);
	int err = 0;

	*c = (struct claim){ 0 };
	if (rq->limits != LIMITS_ALONE && rq->limits != LIMITS_HEAL)
		atomic_store_explicit(&u->first, rq->limits == LIMITS_FIRST, memory_order_relaxed);
	if (rq->limits == LIMITS_HEAL || !ledger_row(&u->ledger, rq->uid))
		return 0;
	if (rq->limits == LIMITS_ALONE && pool_is_of_set(&u->ledger)) /* each member does that by itself: a tenant's root */
		return 0;
	if (request_is_movers(rq))
		return claim_of_mover(rq, x, w->row, more, c);
	if (w->row && !is_nothing(more)) {
		err = pass_soft(rq, x, w->row, more);
		if (!err)
			err = claim_of_pool(rq, x, w->row, more, last);
		if (!err)
			c->row = w->row, c->amount = more;
	}
	if (!err && w->dir && !is_nothing(dir_more)) {
		err = ledger_dir_claim(&u->ledger, w->dir, dir_more, rq->limits);
		if (!err)
			c->dir = w->dir, c->dir_amount = dir_more;
	}
	if (err) {
		claim_end(x, c);
		atomic_fetch_add(&u->refused, err != -EASKFIRST);
	}
	return err == -EDQUOT && rq->limits != LIMITS_ALONE ? -EOVERLIMIT : err;
}

/* then: gets as many names as it has now, so that no link(2) meanwhile counts for a part of what is to be claimed; or NULL. */
static struct wanted held_by(struct charge *of, struct amount *now, struct extent *then)
{
	struct wanted w = { .row = 0 };

	pthread_mutex_lock(&of->lock);
	w.row = of->row;
	w.dir = of->dir;
	*now = of->charged;
	if (then)
		then->links = of->extent.links;
	pthread_mutex_unlock(&of->lock);
	return w;
}

int claim_growth(struct request *rq, struct xlator *x, struct charge *of, const struct extent *e, struct claim *c)
{
	struct extent whole = *e;
	struct amount then, now;
	struct wanted w = held_by(of, &now, &whole);

	then = charge_amount(&whole);
	w.more = w.dir_more = (struct amount){ then.bytes - now.bytes, 0 };
	return claim(rq, x, &w, false, c);
}

int claim_given(struct request *rq, struct xlator *x, struct charge *of, uint32_t row, const struct extent *e, struct claim *c)
{
	struct extent whole = *e;
	struct amount then, now;
	struct wanted w = held_by(of, &now, &whole);

	then = charge_amount(&whole);
	w.row = row;
	w.more = then;
	w.dir_more = (struct amount){ then.bytes - now.bytes, 0 };
	return claim(rq, x, &w, false, c);
}

int claim_more(struct request *rq, struct xlator *x, struct charge *of, uint64_t bytes, bool last, struct claim *c)
{
	struct amount now;
	struct wanted w = held_by(of, &now, NULL);

	w.more = w.dir_more = (struct amount){ (int64_t)bytes, 0 };
	return claim(rq, x, &w, last, c);
}

int claim_birth(struct request *rq, struct xlator *x, const struct extent *born, bool last, struct claim *c)
{
	struct amount more = charge_amount(born);

	return claim(rq, x, &(struct wanted){ ledger_row(&usage_of(x)->ledger, rq->uid), more, born->dir, more }, last, c);
}

static bool is_number(const char *name)
{
	size_t digits = strspn(name, "0123456789abcdef");

	return digits >= 1 && digits <= 2 && !name[digits];
}

bool is_put_aside(const char *name)
{
	size_t kind = strcspn(name, ".");
	char text[GFID_TEXT];
	struct gfid gfid;

	if (!strcmp(name, ".stratus.dht") || !strcmp(name, "away") || !strcmp(name, "work") || is_number(name))
		return true;
	snprintf(text, sizeof(text), "%s", name[kind] ? name + kind + 1 : "");
	return kind >= 1 && kind <= 3 && !gfid_parse(text, &gfid);
}

void claim_end(struct xlator *x, struct claim *c)
{
	if (c->amount.bytes || c->amount.inodes)
		ledger_unclaim(&usage_of(x)->ledger, c->row, c->amount);
	if (c->dir)
		ledger_dir_unclaim(&usage_of(x)->ledger, c->dir, c->dir_amount);
	*c = (struct claim){ 0 };
}

static uint64_t not_below_0(int64_t n)
{
	return n > 0 ? (uint64_t)n : 0;
}

/* Who has a limit sees that as the size of the file system. What is used is what is charged, though the brick be full of others' files. */
static void show_account(struct ledger *l, uint32_t uid, struct statfs *s)
{
	struct amount limit, left, usable;

	if (!ledger_left(l, uid, &limit, &left, &usable))
		return;
	if (limit.bytes) {
		s->blocks = (uint64_t)limit.bytes / s->frsize;
		s->bfree = not_below_0(left.bytes) / s->frsize;
		usable.bytes = (int64_t)(not_below_0(usable.bytes) / s->frsize);
		if (s->bavail > (uint64_t)usable.bytes)
			s->bavail = (uint64_t)usable.bytes;
	}
	if (limit.inodes) {
		s->files = (uint64_t)limit.inodes;
		s->ffree = not_below_0(left.inodes);
	}
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Below a directory with a limit the smaller of both is shown. */
static void show_dir(const struct dir *d, struct amount used, struct statfs *s)
{
	uint64_t blocks = (uint64_t)d->limit.bytes / s->frsize, files = (uint64_t)d->limit.inodes;

	if (d->limit.bytes) {
		uint64_t left = not_below_0(d->limit.bytes - used.bytes) / s->frsize;

		s->bfree = blocks < s->blocks ? left : smaller(s->bfree, left);
		s->bavail = smaller(s->bavail, left);
		s->blocks = smaller(s->blocks, blocks);
	}
	if (files) {
		uint64_t left = not_below_0(d->limit.inodes - used.inodes);

		s->ffree = s->files ? smaller(s->ffree, left) : left; /* some file systems do not count them */
		s->files = s->files ? smaller(s->files, files) : files;
	}
}

/* Who comes by an access point, and sees only a part of what the limit holds, is told what room there is for him, and no more: neither the limit, nor what others have below it. */
static void show_room(const struct dir *d, struct amount used, struct statfs *s)
{
	show_dir(d, used, s);
	if (d->limit.bytes)
		s->blocks = s->bfree = smaller(s->bfree, s->bavail);
	if (d->limit.inodes)
		s->files = s->ffree;
}

int usage_statfs(struct request *rq, struct xlator *x, const struct statfs_in *in, struct statfs_out *out)
{
	struct ledger *l = &usage_of(x)->ledger;
	struct statfs *s = &out->statfs;
	struct amount used;
	struct dir d;
	uint64_t id;
	int err = statfs_on(rq, x->child[0], in, out);

	if (err || !s->frsize || request_is_movers(rq)) /* who moves files is to know whether the brick has room */
		return err;
	show_account(l, rq->uid, s);
	if (!in->inode || charge_dir(rq, x, in->inode, &id) || !ledger_dir_read(l, id, &d, &used))
		return 0;
	if (dirs_is_seen(rq, x, &d))
		show_dir(&d, used, s);
	else
		show_room(&d, used, s);
	return 0;
}
