/* SPDX-License-Identifier: Apache-2.0 */
/* Soft limits: since when an account has had more than that, which each ledger of the pool keeps in its file, so that a restart does not forget it. What is said of it in the log is
 * said once: again only after the account had clearly less in between. With a time of grace a soft limit is hard when that is over (ledger.c). */
#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include "usage.h"

enum { CLEARLY = 20 }; /* less by that part of the limit */

/* ---- what all bricks of the pool have ---- */

struct whole {
	uint64_t base;
	struct amount used;
	struct over over; /* since the first of them, if a crash has come between */
	struct over set;
	bool told[2];
};

static uint32_t earlier(uint32_t a, uint32_t b)
{
	return a && b ? a < b ? a : b : a | b;
}

static void add(struct ledger *l, void *arg)
{
	struct whole *w = arg;
	struct over over;
	struct amount used = ledger_used(l, w->base, &over, w->told);

	w->used.bytes += used.bytes;
	w->used.inodes += used.inodes;
	w->over.bytes = earlier(w->over.bytes, over.bytes);
	w->over.inodes = earlier(w->over.inodes, over.inodes);
}

static void set(struct ledger *l, void *arg)
{
	const struct whole *w = arg;

	ledger_set_over(l, w->base, w->set, w->told);
}

/* ---- one limit ---- */

/* While bricks are missing nobody knows that it is less. */
static uint32_t since(uint32_t was, int64_t used, int64_t soft, bool whole)
{
	if (!soft || (used <= soft && whole))
		return 0;
	return was || used <= soft ? was : (uint32_t)time(NULL);
}

enum told { NOTHING, ABOVE, BELOW };

static enum told tell(bool *told, uint32_t was, uint32_t is, int64_t used, int64_t soft, bool whole)
{
	bool before = *told || was; /* it was told before the last restart */

	if (is)
		*told = true;
	else if (!soft || (whole && used <= soft - soft / CLEARLY))
		*told = false;
	else
		return NOTHING;
	return is && !before ? ABOVE : !is && before && soft ? BELOW : NOTHING;
}

/* ---- the log ---- */

static void say(const struct xlator *x, const struct range *r, const char *what, enum told told, int64_t used, int64_t soft)
{
	if (told == ABOVE && r->grace)
		log_warning(x, NULL,
			    "%s has %" PRId64 " %s, more than its soft limit of %" PRId64 ": in %" PRIu64
			    " s that becomes hard",
			    r->name, used, what, soft, r->grace);
	else if (told == ABOVE)
		log_warning(x, NULL, "%s has %" PRId64 " %s, more than its soft limit of %" PRId64, r->name, used, what, soft);
	else if (told == BELOW)
		log_info(x, NULL, "%s has %" PRId64 " %s, less than its soft limit of %" PRId64 " again", r->name, used, what,
			 soft);
}

/* ---- over several servers, or replica sets: the one that leads adds up (soft.h) ---- */

/* With the pool's lock held. True: it is to be told now. */
static bool tell_servers(struct ledger *l, const struct range *r, struct whole *w, bool whole)
{
	struct soft_list *list = pool_soft(l);
	struct soft_own *own = soft_find(list, r->base);
	uint64_t now = (uint64_t)time(NULL);
	struct amount was;

	w->set = (struct over){ 0 };
	w->told[0] = w->told[1] = false;
	if (!r->soft.bytes && !r->soft.inodes)
		soft_drop(list, r->base);
	else if (!own && !(own = whole ? soft_need(list, r->base, w->used, w->over) : NULL))
		w->set = w->over;
	else
		w->set = own->over;
	pool_each(l, set, w);
	if (!own || !whole || (!r->soft.bytes && !r->soft.inodes))
		return false;
	was = own->now;
	soft_note(own, w->used);
	return r->grace && is_since(w->set) && (w->used.bytes < was.bytes || w->used.inodes < was.inodes) &&
	       now >= earlier(w->set.bytes, w->set.inodes) + r->grace;
}

enum soft_answer soft_may(struct ledger *l, uint32_t row, struct amount more, uint64_t *number)
{
	enum soft_answer answer = SOFT_WAITS;
	struct soft_list *list;
	struct soft_own *own;
	struct amount others;
	struct range r;
	bool asks = false;

	if (!pool_has_allotments(l) || !ledger_has_soft(l, row, &r) || !r.grace)
		return SOFT_PASSES;
	pool_enter(l, r.base, &others);
	list = pool_soft(l);
	own = list ? soft_find(list, r.base) : NULL;
	if (!list || (own && !soft_holds(list, own, more, r.grace, clock_ns(), (uint64_t)time(NULL)))) {
		answer = SOFT_PASSES;
	} else if (own && !*number) {
		*number = own->asked = ++list->asks;
		asks = true;
	} else if (own && own->answered >= *number) {
		answer = SOFT_REFUSED;
	}
	pool_exit(l);
	if (asks)
		allot_wake();
	return answer;
}

bool soft_asks(struct ledger *l, uint32_t row)
{
	const struct soft_list *list;
	const struct soft_own *own;
	struct amount others;
	struct range r;
	bool asks;

	if (!pool_has_allotments(l) || !ledger_has_soft(l, row, &r) || !r.grace)
		return false;
	pool_enter(l, r.base, &others);
	list = pool_soft(l);
	own = list ? soft_find(list, r.base) : NULL;
	asks = list && (!own || soft_may_hold(list, own, r.grace, clock_ns()));
	pool_exit(l);
	return asks;
}

void soft_check(struct ledger *l, const struct xlator *x, uint32_t row)
{
	struct range r;
	struct amount others;
	struct whole w = { .base = 0 };
	enum told bytes, inodes;
	bool whole, at_once = false;

	if (!ledger_has_soft(l, row, &r))
		return;
	w.base = r.base;
	pthread_mutex_lock(&l->soft_lock);
	whole = pool_enter(l, r.base, &others);
	pool_each(l, add, &w);
	if (pool_soft(l)) {
		at_once = tell_servers(l, &r, &w, whole);
		pool_exit(l);
		pthread_mutex_unlock(&l->soft_lock);
		if (at_once)
			allot_wake();
		return;
	}
	w.set.bytes = since(w.over.bytes, w.used.bytes, r.soft.bytes, whole);
	w.set.inodes = since(w.over.inodes, w.used.inodes, r.soft.inodes, whole);
	bytes = tell(&w.told[0], w.over.bytes, w.set.bytes, w.used.bytes, r.soft.bytes, whole);
	inodes = tell(&w.told[1], w.over.inodes, w.set.inodes, w.used.inodes, r.soft.inodes, whole);
	pool_each(l, set, &w);
	pool_exit(l);
	pthread_mutex_unlock(&l->soft_lock);
	say(x, &r, "bytes", bytes, w.used.bytes, r.soft.bytes);
	say(x, &r, "inodes", inodes, w.used.inodes, r.soft.inodes);
}

/* Whose limit was lifted. */
static void drop_lifted(struct ledger *l)
{
	struct soft_list *list;
	struct amount others;
	struct range r;

	pool_enter(l, 0, &others);
	list = pool_soft(l);
	for (size_t i = list ? list->count : 0; i-- > 0;)
		if (!ledger_has_soft(l, ledger_row(l, (uint32_t)list->at[i].base), &r) || (!r.soft.bytes && !r.soft.inodes))
			soft_drop(list, list->at[i].base);
	pool_exit(l);
}

void soft_check_all(struct ledger *l, const struct xlator *x)
{
	uint32_t row;

	drop_lifted(l);
	for (size_t i = 0; ledger_row_at(l, i, &row); i++)
		soft_check(l, x, row);
}
