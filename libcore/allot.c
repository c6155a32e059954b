/* SPDX-License-Identifier: Apache-2.0 */
/* See allot.h. Each rule that keeps the sum of what is enforced within the limit is by the name that it has in doc/usage.md. */
#include "allot.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static struct amount least_of(struct amount a, struct amount b)
{
	return (struct amount){ least(a.bytes, b.bytes), least(a.inodes, b.inodes) };
}

static struct amount most_of(struct amount a, struct amount b)
{
	return (struct amount){ most(a.bytes, b.bytes), most(a.inodes, b.inodes) };
}

static bool equal(struct amount a, struct amount b)
{
	return a.bytes == b.bytes && a.inodes == b.inodes;
}

/* ---- the document ---- */

/* NAME INCARNATION SINCE HEARD BYTES INODES [TERM], a line for each unit. */
static int parse_line(const char *line, struct allot_unit *u)
{
	char more;
	int n;

	u->term = 0;
	n = sscanf(line, "%64s %" SCNx64 " %" SCNu64 " %" SCNu64 " %" SCNd64 " %" SCNd64 " %" SCNu64 " %c", u->name,
		   &u->incarnation, &u->since, &u->heard, &u->may.bytes, &u->may.inodes, &u->term, &more);
	return (n == 6 || n == 7) && strcspn(line, " ") <= ALLOT_UNIT_NAME && u->may.bytes >= 0 && u->may.inodes >= 0 &&
			       u->may.bytes < INT64_MAX / ALLOT_UNITS_MAX && u->may.inodes < INT64_MAX / ALLOT_UNITS_MAX
		       ? 0
		       : -EINVAL;
}

int allot_parse(const char *text, size_t size, struct allot_doc *d)
{
	char copy[ALLOT_TEXT_MAX], *rest = copy, *line;

	d->units = 0;
	if (size >= sizeof(copy))
		return -EINVAL;
	memcpy(copy, text, size);
	copy[size] = '\0';
	while ((line = strsep(&rest, "\n"))) {
		struct allot_unit u;

		if (!*line)
			continue;
		if (d->units == ALLOT_UNITS_MAX || parse_line(line, &u) || allot_find(d, u.name))
			return -EINVAL;
		d->unit[d->units++] = u;
	}
	return 0;
}

size_t allot_print(const struct allot_doc *d, char text[ALLOT_TEXT_MAX])
{
	size_t size = 0;

	text[0] = '\0';
	for (const struct allot_unit *u = d->unit; u < d->unit + d->units; u++) {
		size += (size_t)snprintf(text + size, ALLOT_TEXT_MAX - size,
					 "%s %" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64, u->name, u->incarnation,
					 u->since, u->heard, u->may.bytes, u->may.inodes);
		if (u->term)
			size += (size_t)snprintf(text + size, ALLOT_TEXT_MAX - size, " %" PRIu64, u->term);
		text[size++] = '\n';
	}
	text[size] = '\0';
	return size;
}

struct allot_unit *allot_find(struct allot_doc *d, const char *name)
{
	for (size_t i = 0; i < d->units; i++)
		if (!strcmp(d->unit[i].name, name))
			return &d->unit[i];
	return NULL;
}

struct amount allot_total(const struct allot_doc *d)
{
	struct amount sum = { 0 };

	for (size_t i = 0; i < d->units; i++)
		sum = amount_sum(sum, d->unit[i].may);
	return sum;
}

/* ---- turns ---- */

/* If some came or went meanwhile others may have been missed. */
size_t allot_turn_begin(struct allot_turn *t, size_t total)
{
	if (total != t->total)
		t->skip = 0;
	t->total = total;
	if (!t->skip) {
		t->part = 0;
		t->before = t->looked;
	}
	return t->skip;
}

uint64_t allot_turn_end(struct allot_turn *t, size_t upto)
{
	t->skip = upto < t->total ? upto : 0;
	t->done = t->skip ? 0 : t->before;
	return t->part++;
}

void allot_turn_fail(struct allot_turn *t)
{
	t->skip = 0;
}

bool allot_turn_heard(uint64_t *parts, uint64_t part, bool taken)
{
	bool whole = taken && (!part || part == *parts);

	*parts = whole ? part + 1 : 0;
	return whole;
}

/* ---- who decides ---- */

static struct allot_unit *add_unit(struct allot_doc *d, const char *name)
{
	struct allot_unit *u;

	if (d->units == ALLOT_UNITS_MAX)
		return NULL;
	u = &d->unit[d->units++];
	*u = (struct allot_unit){ .name = "" };
	memcpy(u->name, name, strnlen(name, ALLOT_UNIT_NAME));
	return u;
}

static unsigned kinds_of(struct amount limit)
{
	return (limit.bytes ? ALLOT_BYTES : 0) | (limit.inodes ? ALLOT_INODES : 0);
}

bool allot_knows(const struct allot_said *s, struct amount limit)
{
	return s->kinds == kinds_of(limit);
}

/* A8: who was left out may count less than there is in the set, by what it alone has removed since. */
bool allot_speaks(const struct allot_said *s, uint64_t epoch)
{
	return s->term == epoch;
}

/* A2, A3: nothing has grown by this incarnation yet, and nothing does any more by the one before. What it said before that one was taken up is too old to be true. A7: who decided in an
 * earlier view may be alive, and not know it. */
static bool take_up(struct allot_doc *d, struct allot_unit *u, uint64_t next, const struct allot_said *s)
{
	if (!s->seen || (u && s->seen < u->since) || (!u && !(u = add_unit(d, s->unit))))
		return false;
	u->incarnation = s->incarnation;
	u->term = s->term;
	u->since = next;
	u->heard = s->gift;
	if (s->capped)
		u->may = least_of(u->may, s->cap);
	u->may = most_of(u->may, s->taken);
	return true;
}

bool allot_take(struct allot_doc *d, uint64_t next, const struct allot_said *s, struct amount limit, bool *heard)
{
	struct allot_unit *u = allot_find(d, s->unit);
	struct amount was;

	*heard = allot_knows(s, limit);
	if (!*heard || (u && s->term < u->term)) /* A8 */
		return false;
	if (!u || u->incarnation != s->incarnation)
		return *heard = take_up(d, u, next, s);
	if (s->gift < u->heard) /* it has given something up since */
		return false;
	was = u->may;
	if (s->gift > u->heard && s->capped)
		u->may = least_of(u->may, s->cap); /* A3 */
	u->may = most_of(u->may, s->taken);	   /* A4: it is there, whoever brought it */
	if (s->gift == u->heard)
		return !equal(was, u->may);
	u->heard = s->gift;
	return true;
}

static int64_t share(int64_t has, int64_t wants, int64_t limit, int64_t total, size_t units)
{
	int64_t lacks = wants - has, left = limit - total, more;

	if (!limit || lacks <= 0 || left <= 0)
		return 0;
	more = least(lacks, left);
	return more + (left - more) / (2 * (int64_t)units);
}

bool allot_grant(struct allot_doc *d, const char *unit, struct amount wants, struct amount limit, size_t units)
{
	struct allot_unit *u = allot_find(d, unit);
	struct amount total = allot_total(d), more;

	if (!u || !units)
		return false;
	more.bytes = share(u->may.bytes, wants.bytes, limit.bytes, total.bytes, units);
	more.inodes = share(u->may.inodes, wants.inodes, limit.inodes, total.inodes, units);
	u->may = amount_sum(u->may, more);
	return more.bytes || more.inodes;
}

bool allot_begin(struct allot_doc *d, uint64_t gone, const struct allot_said *said, size_t units, struct amount limit)
{
	d->units = 0;
	for (size_t i = 0; i < units; i++) {
		bool is_new = !said[i].seen && said[i].gone == gone && allot_knows(&said[i], limit);
		struct allot_unit *u = is_new ? add_unit(d, said[i].unit) : NULL;

		if (!u)
			return false;
		u->incarnation = said[i].incarnation;
		u->term = said[i].term;
		u->since = gone + 1;
		u->heard = said[i].gift;
		u->may = said[i].taken;
	}
	return true;
}

/* ---- who holds one ---- */

static bool is_silent(const struct allot_own *own)
{
	return own->silent || own->left_out;
}

void allot_decides(struct allot_own *own, uint64_t incarnation, uint64_t term)
{
	own->silent = !term;
	if (!term)
		return;
	own->term = term;
	own->incarnation = incarnation;
	own->taken_up = own->capped = own->is_needed = own->left_out = false;
	own->gift = 0;
	own->sent = own->decided; /* what was said for an earlier view is not answered any more */
}

void allot_apply(struct allot_own *own, const struct allot_doc *d, uint64_t version, const char *unit)
{
	const struct allot_unit *u = d ? allot_find((struct allot_doc *)d, unit) : NULL;

	if (version < own->seen || version < own->gone)
		return;
	own->seen = d ? version : 0;
	own->gone = d ? 0 : version;
	own->doubted = false;
	own->left_out = u && u->term > own->term; /* A7 */
	own->is_needed &= !own->left_out;
	own->taken_up = u && u->incarnation == own->incarnation;
	own->may = u ? u->may : (struct amount){ 0 };
	own->total = d ? allot_total(d) : (struct amount){ 0 };
	own->units = u ? d->units : 0;
	own->number = u ? (unsigned)(u - d->unit) : 0;
	own->before = (struct amount){ 0 };
	for (unsigned i = 0; i < own->number; i++)
		own->before = amount_sum(own->before, d->unit[i].may);
	if (own->taken_up && u->heard >= own->gift)
		own->capped = false;
}

static struct amount enforced(const struct allot_own *own)
{
	return own->capped ? least_of(own->may, own->cap) : own->may;
}

bool allot_may(const struct allot_own *own, struct amount limit, struct amount *may)
{
	*may = enforced(own);
	if (limit.bytes && own->total.bytes > limit.bytes) /* A5 */
		may->bytes = 0;
	if (limit.inodes && own->total.inodes > limit.inodes)
		may->inodes = 0;
	if (is_silent(own) || !own->taken_up || own->doubted)
		*may = (struct amount){ 0 };
	return !is_silent(own) && own->taken_up && !own->doubted;
}

static void give_up(struct allot_own *own, struct amount less)
{
	if (!less.bytes && !less.inodes)
		return;
	own->cap = enforced(own);
	own->cap.bytes -= less.bytes;
	own->cap.inodes -= less.inodes;
	own->capped = true;
	own->gift++;
}

/* With what waits, if it is only to take what it was given. */
static int64_t free_of(int64_t may, int64_t taken, int64_t keep, int64_t waiting)
{
	return most(0, may - taken - keep - (taken + keep + waiting <= may ? waiting : 0));
}

static int64_t gift(int64_t limit, int64_t free, int64_t need)
{
	return limit && need > 0 ? least(free, most(need, free / 2)) : 0;
}

void allot_give(struct allot_own *own, struct amount taken, struct amount keep, struct amount limit, struct amount need)
{
	struct amount may = enforced(own);

	own->is_needed = !is_silent(own) && !own->taken_up;
	if (is_silent(own) || !own->taken_up)
		return;
	give_up(own,
		(struct amount){
			gift(limit.bytes, free_of(may.bytes, taken.bytes, keep.bytes, own->waiting.bytes), need.bytes),
			gift(limit.inodes, free_of(may.inodes, taken.inodes, keep.inodes, own->waiting.inodes), need.inodes) });
}

void allot_shrink(struct allot_own *own, struct amount taken, struct amount limit)
{
	struct amount may = enforced(own), less = { 0 };
	bool bytes = limit.bytes && own->total.bytes > limit.bytes, inodes = limit.inodes && own->total.inodes > limit.inodes;

	if (!is_silent(own) && !own->taken_up)
		own->is_needed |= bytes || inodes;
	if (is_silent(own) || !own->taken_up)
		return;
	if (bytes)
		less.bytes = most(0, may.bytes - taken.bytes);
	if (inodes)
		less.inodes = most(0, may.inodes - taken.inodes);
	give_up(own, less);
}

/* What has no limit is not spoken of: it would change all the time. */
static struct amount limited(struct amount a, struct amount limit)
{
	return (struct amount){ limit.bytes ? a.bytes : 0, limit.inodes ? a.inodes : 0 };
}

/* By how much it is more than the limit need not be said: all that waits together may be beyond what the leader takes for sane. */
static struct amount wanted(struct amount a, struct amount limit)
{
	static const int64_t sane = INT64_MAX / ALLOT_UNITS_MAX - 2;
	struct amount most = least_of(limit, (struct amount){ sane, sane });

	return least_of(limited(a, limit), (struct amount){ most.bytes + 1, most.inodes + 1 });
}

bool allot_say(struct allot_own *own, const char *unit, struct amount taken, struct amount keep, struct amount limit,
	       struct allot_said *s)
{
	bool waits = own->asked > own->decided, more;

	taken = limited(taken, limit);
	more = taken.bytes > own->may.bytes || taken.inodes > own->may.inodes;
	more &= own->seen != 0; /* what was moved here may be more than what may grow here */
	if (is_silent(own))
		return false;
	if (!waits && !(own->taken_up ? own->capped || more : own->is_needed || more))
		return false;
	*s = (struct allot_said){ .incarnation = own->incarnation,
				  .term = own->term,
				  .seen = own->seen,
				  .gone = own->gone,
				  .kinds = kinds_of(limit),
				  .taken = taken,
				  .gift = own->gift,
				  .capped = own->capped,
				  .cap = most_of(own->cap, (struct amount){ 0 }) };
	memcpy(s->unit, unit, strnlen(unit, ALLOT_UNIT_NAME));
	own->is_needed = false; /* who needs it says so again */
	if (waits && own->sent <= own->decided)
		own->sent = own->asked;
	if (waits) {
		s->round = own->sent;
		s->wants = wanted(amount_sum(amount_sum(taken, own->waiting), keep), limit);
	}
	return true;
}

void allot_answered(struct allot_own *own, uint64_t incarnation, uint64_t round, uint64_t version, bool granted)
{
	if (incarnation != own->incarnation || round != own->sent || own->sent <= own->decided ||
	    (own->seen < version && own->gone < version))
		return;
	own->decided = round;
	own->refused = granted ? own->refused : round;
}

/* ---- the pools of this process ---- */

static struct {
	pthread_mutex_t lock; /* taken before a pool's */
	struct allot_pool *first;
	_Atomic(void (*)(void)) waker;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

void allot_pool_add(struct allot_pool *p)
{
	pthread_mutex_lock(&all.lock);
	p->next = all.first;
	all.first = p;
	pthread_mutex_unlock(&all.lock);
}

void allot_pool_remove(struct allot_pool *p)
{
	pthread_mutex_lock(&all.lock);
	for (struct allot_pool **at = &all.first; *at; at = &(*at)->next)
		if (*at == p) {
			*at = p->next;
			break;
		}
	pthread_mutex_unlock(&all.lock);
}

void allot_each_pool(void (*fn)(struct allot_pool *, void *), void *arg)
{
	pthread_mutex_lock(&all.lock);
	for (struct allot_pool *p = all.first; p; p = p->next)
		fn(p, arg);
	pthread_mutex_unlock(&all.lock);
}

bool allot_with(const char *pool, uint64_t base,
		void (*fn)(struct allot_own *, struct amount taken, struct amount keep, struct amount limit, void *), void *arg)
{
	bool any = false;

	pthread_mutex_lock(&all.lock);
	for (struct allot_pool *p = all.first; p; p = p->next)
		if (!strcmp(p->name, pool)) {
			p->with(p->pool, base, fn, arg);
			any = true;
		}
	pthread_mutex_unlock(&all.lock);
	return any;
}

void allot_with_unit(const char *pool, const char *unit, bool others, uint64_t base,
		     void (*fn)(struct allot_own *, struct amount taken, struct amount keep, struct amount limit, void *),
		     void *arg)
{
	pthread_mutex_lock(&all.lock);
	for (struct allot_pool *p = all.first; p; p = p->next)
		if (!strcmp(p->name, pool) && (!p->unit || !strcmp(p->unit, unit) != others))
			p->with(p->pool, base, fn, arg);
	pthread_mutex_unlock(&all.lock);
}

void allot_wake(void)
{
	void (*fn)(void) = atomic_load(&all.waker);

	if (fn)
		fn();
}

void allot_set_waker(void (*fn)(void))
{
	atomic_store(&all.waker, fn);
}

bool allot_is_asked(void)
{
	return atomic_load(&all.waker);
}
