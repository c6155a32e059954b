/* SPDX-License-Identifier: Apache-2.0 */
/* What the ledger's counters are held to: what an account may have, hard and soft, what is claimed of that by changes under way, and what is left. */
#include <errno.h>

#include "ledger-file.h"

/* ---- limits ---- */

/* Over several bricks something is put aside before it is removed, and who is at his limit must be able to do that. */
static struct amount kept_free(const struct ledger *l, struct amount limit)
{
	enum { BYTES = 1 << 20, INODES = 64, PART = 16 };

	if (!l->pool)
		return (struct amount){ 0 };
	return (struct amount){ limit.bytes / PART < BYTES ? limit.bytes / PART : BYTES,
				limit.inodes / PART < INODES ? limit.inodes / PART : INODES };
}

static bool has_limit(const struct hold *h)
{
	return h->limit.bytes || h->limit.inodes || h->grace;
}

/* What it may have now: no more than the soft limit, if it has been above that for longer than it may. */
static struct amount limit_now(const struct ledger *l, uint32_t row)
{
	const struct hold *h = &l->hold[row];
	struct over since = l->file->row[0][row].over;
	struct amount limit = h->limit;
	uint64_t now = h->grace && (since.bytes || since.inodes) ? (uint64_t)time(NULL) : 0;

	if (h->soft.bytes && since.bytes && now >= since.bytes + h->grace)
		limit.bytes = h->soft.bytes;
	if (h->soft.inodes && since.inodes && now >= since.inodes + h->grace)
		limit.inodes = h->soft.inodes;
	return limit;
}

/* Over several servers, or sets, nobody here knows how much all have of a soft limit: soft_may() is asked. */
static struct amount limit_for(const struct ledger *l, uint32_t row, bool last)
{
	struct amount limit = pool_has_allotments(l) ? l->hold[row].limit : limit_now(l, row);

	return last ? limit : minus(limit, kept_free(l, limit));
}

static int64_t part_or(int64_t limit, int64_t least)
{
	enum { PART = 16 };

	return limit / PART > least ? limit / PART : least;
}

static int64_t below(int64_t limit, int64_t by)
{
	return !limit ? 0 : limit > by ? limit - by : 1;
}

static int64_t smaller(int64_t limit, int64_t known)
{
	return !limit || limit < known ? limit : known > 0 ? known : 1;
}

/* What the set is allotted is a limit for asking, too. */
static struct amount least_known(struct amount limit, struct amount known)
{
	return (struct amount){ smaller(limit.bytes, known.bytes), smaller(limit.inodes, known.inodes) };
}

static struct amount near_by(const struct ledger *l, struct amount limit)
{
	enum { INODE = 65536 }; /* so many bytes to each */

	return (struct amount){ part_or(limit.bytes, l->near), part_or(limit.inodes, l->near / INODE) };
}

struct amount limit_near(const struct ledger *l, struct amount limit)
{
	struct amount by = near_by(l, limit);

	return (struct amount){ below(limit.bytes, by.bytes), below(limit.inodes, by.inodes) };
}

struct amount limit_beyond(const struct ledger *l, struct amount limit)
{
	struct amount by = near_by(l, limit);

	return (struct amount){ limit.bytes ? limit.bytes + by.bytes : 0, limit.inodes ? limit.inodes + by.inodes : 0 };
}

/* At a member of a replica set which is not the first. It asks so early that what is under way at the first, and has not come here, is less than that; and where it
 * does as the first has decided, or as a client says that it has, it may be above the limit for the same reason, and by no more. A soft limit that may become hard counts as
 * one before it is time: the members' clocks differ. (One of several sets: soft_asks().) */
static struct amount limit_of_other(struct ledger *l, uint32_t row, enum limits_rule rule)
{
	const struct hold *h = &l->hold[row];
	struct amount limit = h->limit;

	if (rule == LIMITS_ASK && h->grace && !pool_is_of_set(l)) {
		limit.bytes = h->soft.bytes ? h->soft.bytes : limit.bytes;
		limit.inodes = h->soft.inodes ? h->soft.inodes : limit.inodes;
	}
	if (rule == LIMITS_ASK && pool_is_of_set(l))
		limit = least_known(limit, pool_known(l, l->file->row[0][row].base));
	return rule == LIMITS_ASK ? limit_near(l, limit) : limit_beyond(l, limit);
}

static bool fits(int64_t limit, int64_t may, int64_t used, int64_t more)
{
	return !limit || more <= 0 || used <= may - more;
}

/* Where there are allotments: what is within the limit and not within this server's has to wait. */
static int allotted(struct ledger *l, uint32_t row, struct amount limit, struct amount used, struct amount more, bool last)
{
	struct amount may, keep = last ? (struct amount){ 0 } : pool_keeps(l, kept_free(l, limit));

	if (!pool_may(l, l->file->row[0][row].base, l->hold[row].limit, &may))
		return -EAGAIN;
	may = minus(may, keep);
	return fits(limit.bytes, may.bytes, used.bytes, more.bytes) && fits(limit.inodes, may.inodes, used.inodes, more.inodes)
		       ? 0
		       : -EAGAIN;
}

uint64_t ledger_base(struct ledger *l, uint32_t row)
{
	uint64_t base;

	pthread_mutex_lock(&l->lock);
	base = l->file->row[0][row].base;
	pthread_mutex_unlock(&l->lock);
	return base;
}

int ledger_claim(struct ledger *l, uint32_t row, struct amount more, bool last, enum limits_rule rule)
{
	struct hold *h = &l->hold[row];
	struct amount others, used, limit;
	bool whole = pool_enter(l, l->file->row[0][row].base, &others);
	int err = 0;

	pthread_mutex_lock(&l->lock);
	limit = rule == LIMITS_ASK || rule == LIMITS_DECIDED ? limit_of_other(l, row, rule) : limit_for(l, row, last);
	used = plus(others, plus(l->file->row[l->file->bank][row].amount, h->orphans));
	if (!whole && has_limit(h))
		err = -EAGAIN;
	else if (is_over(limit.bytes, used.bytes, h->claimed.bytes, more.bytes) ||
		 is_over(limit.inodes, used.inodes, h->claimed.inodes, more.inodes))
		err = rule == LIMITS_ASK ? -EASKFIRST : -EDQUOT;
	else if (pool_has_allotments(l) && (h->limit.bytes || h->limit.inodes) && rule <= LIMITS_FIRST)
		err = allotted(l, row, h->limit, plus(used, h->claimed), more, last);
	if (!err)
		h->claimed = plus(h->claimed, more);
	pthread_mutex_unlock(&l->lock);
	pool_exit(l);
	return err;
}

void ledger_unclaim(struct ledger *l, uint32_t row, struct amount more)
{
	pthread_mutex_lock(&l->lock);
	l->hold[row].claimed = minus(l->hold[row].claimed, more);
	pthread_mutex_unlock(&l->lock);
}

/* With the lock held. */
static struct amount used_by(const struct ledger *l, const struct range *r)
{
	return r ? plus(l->file->row[l->file->bank][r->row].amount, l->hold[r->row].orphans) : (struct amount){ 0 };
}

struct amount ledger_taken(struct ledger *l, uint64_t base)
{
	const struct range *r;
	struct amount taken;

	pthread_mutex_lock(&l->lock);
	r = range_of(&l->ranges, (uint32_t)base);
	taken = r ? plus(used_by(l, r), l->hold[r->row].claimed) : (struct amount){ 0 };
	pthread_mutex_unlock(&l->lock);
	return taken;
}

void ledger_limit(struct ledger *l, uint64_t base, struct amount *limit, struct amount *keep)
{
	const struct range *r;

	pthread_mutex_lock(&l->lock);
	r = range_of(&l->ranges, (uint32_t)base);
	if (r && r->base == base) {
		*limit = r->limit;
		*keep = pool_keeps(l, kept_free(l, r->limit));
	}
	pthread_mutex_unlock(&l->lock);
}

/* *found has the limits that hold now; *stops: of what a soft one is among these. */
static bool find_range(struct ledger *l, uint32_t uid, struct range *found, struct amount *stops)
{
	const struct range *r;

	pthread_mutex_lock(&l->lock);
	r = range_of(&l->ranges, uid);
	if (r) {
		*found = *r;
		found->limit = limit_now(l, r->row);
		*stops = (struct amount){ found->limit.bytes != r->limit.bytes, found->limit.inodes != r->limit.inodes };
	}
	pthread_mutex_unlock(&l->lock);
	return r;
}

/* A limit has no part that is none. */
static struct amount or_one(struct amount part, struct amount limit)
{
	return (struct amount){ part.bytes + (limit.bytes && !part.bytes), part.inodes + (limit.inodes && !part.inodes) };
}

bool ledger_left(struct ledger *l, uint32_t uid, struct amount *limit, struct amount *left, struct amount *usable)
{
	struct amount others, whole, kept, stops;
	struct range r;

	if (!find_range(l, uid, &r, &stops) || (!r.limit.bytes && !r.limit.inodes))
		return false;
	whole = r.limit;
	pool_enter(l, r.base, &others);
	kept = pool_keeps(l, kept_free(l, r.limit));
	r.limit = pool_server_share(l, r.base, r.limit, stops);
	pthread_mutex_lock(&l->lock);
	*left = minus(r.limit, plus(others, used_by(l, range_of(&l->ranges, uid))));
	pthread_mutex_unlock(&l->lock);
	if (pool_has_allotments(l)) /* there may be some here, but there is none in all */
		*left = (struct amount){ stops.bytes ? 0 : left->bytes, stops.inodes ? 0 : left->inodes };
	*limit = or_one(pool_share(l, r.limit), whole);
	*usable = pool_share(l, minus(*left, kept));
	*left = pool_share(l, *left);
	pool_exit(l);
	return true;
}

/* ---- soft limits ---- */

bool ledger_has_soft(struct ledger *l, uint32_t row, struct range *found)
{
	const struct range *r;
	const struct hold *h = &l->hold[row];
	bool has;

	pthread_mutex_lock(&l->lock);
	has = row && (h->soft.bytes || h->soft.inodes || l->file->row[0][row].over.bytes || l->file->row[0][row].over.inodes);
	r = has ? range_of(&l->ranges, (uint32_t)l->file->row[0][row].base) : NULL;
	if (r)
		*found = *r;
	pthread_mutex_unlock(&l->lock);
	return r;
}

struct amount ledger_used(struct ledger *l, uint64_t base, struct over *over, bool told[2])
{
	struct amount used = { 0 };
	const struct range *r;

	*over = (struct over){ 0 };
	pthread_mutex_lock(&l->lock);
	r = range_of(&l->ranges, (uint32_t)base);
	if (r) {
		used = used_by(l, r);
		*over = l->file->row[0][r->row].over;
		told[0] |= l->hold[r->row].told[0];
		told[1] |= l->hold[r->row].told[1];
	}
	pthread_mutex_unlock(&l->lock);
	return used;
}

void ledger_set_over(struct ledger *l, uint64_t base, struct over over, const bool told[2])
{
	const struct range *r;

	pthread_mutex_lock(&l->lock);
	r = range_of(&l->ranges, (uint32_t)base);
	if (r) {
		l->file->row[0][r->row].over = over;
		memcpy(l->hold[r->row].told, told, sizeof(l->hold[r->row].told));
	}
	pthread_mutex_unlock(&l->lock);
}

struct over ledger_over(struct ledger *l, uint32_t row)
{
	struct over over;

	pthread_mutex_lock(&l->lock);
	over = l->file->row[0][row].over;
	pthread_mutex_unlock(&l->lock);
	return over;
}

bool ledger_row_at(struct ledger *l, size_t number, uint32_t *row)
{
	bool is;

	pthread_mutex_lock(&l->lock);
	is = number < l->ranges.count;
	if (is)
		*row = l->ranges.range[number].row;
	pthread_mutex_unlock(&l->lock);
	return is;
}
