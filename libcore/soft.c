/* SPDX-License-Identifier: Apache-2.0 */
/* See soft.h. What makes it true is by the name that it has in doc/usage.md. */
#include "soft.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "by-base.h"

enum { CLEARLY = 20 }; /* less by that part of the limit */

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static struct amount most_of(struct amount a, struct amount b)
{
	return (struct amount){ most(a.bytes, b.bytes), most(a.inodes, b.inodes) };
}

static bool equal(struct amount a, struct amount b)
{
	return a.bytes == b.bytes && a.inodes == b.inodes;
}

/* ---- the document: BYTES INODES TOLD ---- */

int soft_parse(const char *text, size_t size, struct soft_doc *d)
{
	char copy[SOFT_TEXT_MAX], more;
	unsigned told;

	*d = (struct soft_doc){ 0 };
	if (size >= sizeof(copy))
		return -EINVAL;
	memcpy(copy, text, size);
	copy[size] = '\0';
	if (sscanf(copy, "%" SCNu32 " %" SCNu32 " %u %c", &d->over.bytes, &d->over.inodes, &told, &more) != 3 || told > 3)
		return -EINVAL;
	d->told[0] = told & 1;
	d->told[1] = told & 2;
	return 0;
}

size_t soft_print(const struct soft_doc *d, char text[SOFT_TEXT_MAX])
{
	return (size_t)snprintf(text, SOFT_TEXT_MAX, "%" PRIu32 " %" PRIu32 " %d\n", d->over.bytes, d->over.inodes,
				d->told[0] + 2 * d->told[1]);
}

/* ---- a server ---- */

static size_t place_of(const struct soft_list *l, uint64_t base)
{
	return place_by_base(l->at, l->count, sizeof(*l->at), base);
}

struct soft_own *soft_find(const struct soft_list *l, uint64_t base)
{
	size_t place = place_of(l, base);

	return place < l->count && l->at[place].base == base ? &l->at[place] : NULL;
}

struct soft_own *soft_need(struct soft_list *l, uint64_t base, struct amount now, struct over over)
{
	size_t place = place_of(l, base);
	struct soft_own *grown, *own = soft_find(l, base);

	if (own)
		return own;
	grown = realloc(l->at, (l->count + 1) * sizeof(*grown));
	if (!grown)
		return NULL;
	l->at = grown;
	memmove(grown + place + 1, grown + place, (l->count - place) * sizeof(*grown));
	l->count++;
	grown[place] = (struct soft_own){
		.base = base, .now = now, .peak = now, .fresh = now, .over = over, .carried = is_since(over)
	};
	return &grown[place];
}

void soft_drop(struct soft_list *l, uint64_t base)
{
	size_t place = place_of(l, base);

	if (!soft_find(l, base))
		return;
	l->count--;
	memmove(l->at + place, l->at + place + 1, (l->count - place) * sizeof(*l->at));
}

void soft_note(struct soft_own *own, struct amount now)
{
	own->now = now;
	own->peak = most_of(own->peak, now);
	own->fresh = most_of(own->fresh, now);
}

bool soft_say(struct soft_own *own, uint64_t number, struct soft_said *s)
{
	bool quiet = equal(own->now, own->sent) && equal(own->now, own->peak);

	if (own->mark && own->heard && quiet && own->asked <= own->answered)
		return false;
	if (!own->mark || (own->heard && !quiet)) {
		own->mark = number;
		own->heard = false;
		own->sent = own->fresh = own->now;
	}
	*s = (struct soft_said){ .base = own->base,
				 .now = own->now,
				 .peak = own->peak,
				 .carried = own->carried ? own->over : (struct over){ 0 },
				 .ask = own->asked > own->answered ? own->asked : 0 };
	return true;
}

void soft_heard(struct soft_own *own, uint64_t upto)
{
	if (!own->mark || own->heard || upto < own->mark)
		return;
	own->heard = true;
	own->carried = false;
	own->peak = own->fresh;
}

void soft_unheard(struct soft_own *own)
{
	own->mark = 0;
	own->heard = false;
}

void soft_apply(struct soft_own *own, const struct soft_doc *d, uint64_t version)
{
	struct over over = d ? d->over : (struct over){ 0 };

	if (!d && own->carried)
		return; /* who decides is to hear of it first */
	own->carried &= !d;
	own->version = version;
	own->changed |= own->over.bytes != over.bytes || own->over.inodes != over.inodes;
	own->over = over;
}

static bool is_over_time(uint32_t since, int64_t more, uint64_t grace_s, uint64_t now_s)
{
	return more > 0 && since && now_s >= since + grace_s;
}

bool soft_holds(const struct soft_list *l, const struct soft_own *own, struct amount more, uint64_t grace_s, uint64_t now_ns,
		uint64_t now_s)
{
	uint64_t old_s = (now_ns - l->confirmed_ns) / 1000000000;

	return !l->confirmed_ns || old_s >= grace_s || /* S4 */
	       is_over_time(own->over.bytes, more.bytes, grace_s, now_s) ||
	       is_over_time(own->over.inodes, more.inodes, grace_s, now_s);
}

bool soft_may_hold(const struct soft_list *l, const struct soft_own *own, uint64_t grace_s, uint64_t now_ns)
{
	return is_since(own->over) || !l->confirmed_ns || (now_ns - l->confirmed_ns) / 500000000 >= grace_s; /* half of it */
}

/* ---- who decides ---- */

bool soft_decides(const struct soft_unit *u, uint64_t term)
{
	return term == u->epoch;
}

bool soft_hear(struct soft_unit *u, uint64_t term, uint64_t process, uint64_t session, uint64_t number, uint64_t heard,
	       uint64_t fresh)
{
	if (!soft_decides(u, term))
		return false;
	if (process != u->process) {
		*u = (struct soft_unit){ .process = process, .session = fresh, .term = term, .epoch = u->epoch };
		return false;
	}
	if (session != u->session || number <= u->upto)
		return false;
	u->upto = number;
	u->heard = heard > u->heard ? heard : u->heard;
	return true;
}

void soft_renew(struct soft_unit *u)
{
	u->process = 0;
}

void soft_take(struct soft_row *r, const struct soft_unit *u, const struct soft_said *s, uint64_t tick)
{
	if (r->session != u->session)
		*r = (struct soft_row){ .session = u->session };
	r->now = s->now;
	r->most = most_of(r->most, most_of(s->now, s->peak));
	if (is_since(s->carried))
		r->carried = s->carried;
	r->ask_in = s->ask ? u->upto : r->ask_in;
	if (s->ask > r->ask && r->ask == r->answered) { /* a later one is said again when that is answered */
		r->ask = s->ask;
		r->ask_from = tick;
	}
}

static bool is_heard(const struct soft_unit *u)
{
	return u->session && soft_decides(u, u->term);
}

static bool is_known(const struct soft_row *r, const struct soft_unit *u)
{
	return is_heard(u) && r->session == u->session;
}

struct amount soft_total(const struct soft_sum *s, const struct soft_unit *const *unit, size_t units)
{
	struct amount sum = { 0 };

	for (size_t i = 0; i < units; i++)
		if (is_known(&s->row[i], unit[i]))
			sum = amount_sum(sum, s->row[i].now);
	return sum;
}

static uint32_t earlier(uint32_t a, uint32_t b)
{
	return a && b ? a < b ? a : b : a | b;
}

/* S2 */
static uint32_t since(uint32_t was, int64_t sum, int64_t soft, uint32_t carried, uint32_t now_s)
{
	if (!soft)
		return 0;
	return was || sum <= soft ? was : carried ? carried : now_s;
}

/* True: the count has ended. *whole: all were counted. */
static bool has_ended(const struct soft_sum *s, const struct soft_unit *const *unit, size_t units, bool *whole)
{
	*whole = true;
	for (size_t i = 0; i < units; i++) {
		const struct soft_row *r = &s->row[i];
		bool looked = is_heard(unit[i]) && unit[i]->heard >= s->tick;

		if (!looked && !unit[i]->away)
			return false;
		*whole &= looked && is_known(r, unit[i]) && r->began == r->session;
	}
	return true;
}

/* S3: what each had at the moment when the count began is no more than the most of it. */
static void end_count(struct soft_sum *s, size_t units, bool whole, struct amount soft, struct soft_doc *d)
{
	struct amount sum = { 0 };

	for (size_t i = 0; i < units; i++) {
		struct soft_row *r = &s->row[i];

		sum = amount_sum(sum, r->most);
		if (r->ask_from <= s->tick)
			r->answered = r->ask;
	}
	if (whole && sum.bytes <= soft.bytes)
		d->over.bytes = 0;
	if (whole && sum.inodes <= soft.inodes)
		d->over.inodes = 0;
	s->tick = 0;
}

static void begin_count(struct soft_sum *s, const struct soft_unit *const *unit, size_t units, uint64_t tick)
{
	s->tick = tick;
	for (size_t i = 0; i < units; i++) {
		s->row[i].began = is_known(&s->row[i], unit[i]) ? s->row[i].session : 0;
		s->row[i].most = s->row[i].now;
	}
}

static bool is_waited_for(const struct soft_sum *s, size_t units, uint64_t tick)
{
	for (size_t i = 0; i < units; i++)
		if (s->row[i].ask > s->row[i].answered && s->row[i].ask_from <= tick)
			return true;
	return false;
}

static bool told(bool was, uint32_t over, int64_t sum, int64_t soft, bool whole)
{
	return over || (was && soft && (!whole || sum > soft - soft / CLEARLY));
}

static struct over carried(const struct soft_sum *s, size_t units)
{
	struct over o = { 0 };

	for (size_t i = 0; i < units; i++) {
		o.bytes = earlier(o.bytes, s->row[i].carried.bytes);
		o.inodes = earlier(o.inodes, s->row[i].carried.inodes);
	}
	return o;
}

static void count(struct soft_sum *s, const struct soft_unit *const *unit, size_t units, struct amount soft, uint64_t tick,
		  struct soft_doc *d)
{
	bool whole;

	if (s->tick && has_ended(s, unit, units, &whole))
		end_count(s, units, whole, soft, d);
	else if (s->tick && !is_waited_for(s, units, s->tick) && is_waited_for(s, units, tick))
		s->tick = 0; /* who waits is not to wait for two */
	if (!s->tick && is_since(d->over))
		begin_count(s, unit, units, tick);
}

bool soft_judge(struct soft_sum *s, const struct soft_unit *const *unit, size_t units, struct amount soft, uint64_t tick,
		uint32_t now_s, bool is_first, struct soft_doc *d)
{
	struct amount sum = soft_total(s, unit, units);
	struct over from = is_first ? carried(s, units) : (struct over){ 0 };
	struct soft_doc was = *d;
	bool whole = true;

	d->over.bytes = since(d->over.bytes, sum.bytes, soft.bytes, from.bytes, now_s);
	d->over.inodes = since(d->over.inodes, sum.inodes, soft.inodes, from.inodes, now_s);
	count(s, unit, units, soft, tick, d);
	for (size_t i = 0; i < units && !is_since(d->over); i++) {
		s->row[i].answered = s->row[i].ask;
		s->row[i].carried = (struct over){ 0 };
	}
	if (!is_since(d->over))
		s->tick = 0;
	s->is_urgent = is_waited_for(s, units, tick) || (d->over.bytes && sum.bytes <= soft.bytes) ||
		       (d->over.inodes && sum.inodes <= soft.inodes);
	for (size_t i = 0; i < units; i++)
		whole &= is_known(&s->row[i], unit[i]);
	d->told[0] = told(d->told[0], d->over.bytes, sum.bytes, soft.bytes, whole);
	d->told[1] = told(d->told[1], d->over.inodes, sum.inodes, soft.inodes, whole);
	return memcmp(&was.over, &d->over, sizeof(was.over)) || was.told[0] != d->told[0] || was.told[1] != d->told[1];
}
