/* SPDX-License-Identifier: Apache-2.0 */
/* What a server tells of tenants that have soft limits, and what it hears: the documents of the store, as its own copy has them, and until when that copy was true. It speaks for the bricks here that are
 * in no replica set, and for each set about whose limits a member here decides. */
#include "cluster-soft.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allot.h"
#include "cluster.h"
#include "fop.h"
#include "inode.h"
#include "json.h"
#include "path.h"
#include "soft.h"
#include "store.h"
#include "task.h"

enum { SOFT_ROWS_MAX = 512, PART_ROWS_MIN = 8 };

struct known { /* a document */
	char *key;
	uint64_t version;
	struct soft_doc doc;
	bool is;
};
/* Who tells of one unit, and has a session with who leads. */
struct speaker {
	char unit[ALLOT_UNIT_NAME + 1]; /* the replica set; "": this server */
	uint64_t term, coming;		/* of a set: the view in which a member here decides; and as it is found to be now */
	uint64_t process, session, number;
	/* What is too long for one message goes on in the next: all of these together are a turn. */
	size_t skip, total;
	uint64_t turn; /* the tick that was heard before it began */
	uint64_t told; /* and before the last one that has ended */
	struct speaker *next;
};
static struct {
	struct speaker own, *set;
	uint64_t tick;	     /* the last that was heard */
	uint64_t index;	     /* of the store, when the documents were read */
	struct known *known; /* by key */
	size_t count;
	json_t *pending; /* answers that hold as soon as our copy of the store is as new as the leader's was */
	uint64_t pending_ns, pending_index;
} softs;

char *soft_key(const char *pool, uint64_t base)
{
	return path_format("over/%s.%" PRIu64, pool, base);
}

uint64_t soft_number(void)
{
	struct gfid random;
	uint64_t number;

	gfid_create(&random);
	memcpy(&number, random.bytes + 8, sizeof number);
	return number >> 1 | 1;
}

/* ---- the documents ---- */

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct known *)a)->key, ((const struct known *)b)->key);
}

static const struct known *find_known(const struct known *list, size_t count, const char *key)
{
	struct known wanted = { .key = (char *)key };

	return count ? bsearch(&wanted, list, count, sizeof wanted, by_key) : NULL;
}

static void read_known(struct known *k)
{
	struct blob value = { 0 };

	k->is = !store_get(cluster_store(), k->key, &value, &k->version) && !soft_parse(value.bytes, value.size, &k->doc);
	free(value.bytes);
}

static void free_known(struct known *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(list[i].key);
	free(list);
}

/* Only what has changed is read. */
static void read_documents(void)
{
	char **keys = store_keys(cluster_store(), "over/");
	size_t count = 0;
	struct known *list;

	while (keys && keys[count])
		count++;
	list = calloc(count + 1, sizeof *list);
	for (size_t i = 0; list && i < count; i++) {
		const struct known *was = find_known(softs.known, softs.count, keys[i]);

		if (was && was->version == store_version(cluster_store(), keys[i]))
			list[i] = *was;
		list[i].key = path_format("%s", keys[i]);
		if (!list[i].version)
			read_known(&list[i]);
	}
	if (list && keys) {
		free_known(softs.known, softs.count);
		softs.known = list;
		softs.count = count;
	} else {
		free(list);
	}
	free(keys);
}

static void apply(struct soft_list *list, void *arg)
{
	const struct allot_pool *pool = arg;

	for (size_t i = 0; i < list->count; i++) {
		cleanup_path char *key = soft_key(pool->name, list->at[i].base);
		const struct known *k = find_known(softs.known, softs.count, key);

		soft_apply(&list->at[i], k && k->is ? &k->doc : NULL, k ? k->version : 0);
	}
}

static void apply_pool(struct allot_pool *pool, void *unused)
{
	(void)unused;
	pool->with_soft(pool->pool, apply, pool);
}

/* ---- who speaks ---- */

static struct speaker *find_set(const char *unit)
{
	struct speaker *s = softs.set;

	while (s && strcmp(s->unit, unit))
		s = s->next;
	return s;
}

static bool speaks_for(const struct speaker *s, const struct allot_pool *pool)
{
	if (!pool->unit)
		return !*s->unit;
	return !strcmp(s->unit, pool->unit) && pool->term(pool->pool) == s->term;
}

static void unhear(struct soft_list *list, void *unused)
{
	(void)unused;
	for (size_t i = 0; i < list->count; i++)
		soft_unheard(&list->at[i]);
}

static void unhear_pool(struct allot_pool *pool, void *arg)
{
	if (speaks_for(arg, pool))
		pool->with_soft(pool->pool, unhear, NULL);
}

/* Of two members of one set that are here the one of an earlier view may not know that it does not decide any more. */
static void find_decider(struct allot_pool *pool, void *unused)
{
	uint64_t term = pool->unit ? pool->term(pool->pool) : 0;
	struct speaker *s = term ? find_set(pool->unit) : NULL;

	(void)unused;
	if (term && !s && (s = calloc(1, sizeof *s))) {
		snprintf(s->unit, sizeof s->unit, "%s", pool->unit);
		s->next = softs.set;
		softs.set = s;
	}
	if (s && term > s->coming)
		s->coming = term;
}

static void begin_term(struct speaker *s)
{
	s->term = s->coming;
	s->process = soft_number();
	s->session = s->number = s->turn = s->told = 0;
	s->skip = s->total = 0;
	allot_each_pool(unhear_pool, s);
}

static void find_speakers(void)
{
	if (!softs.own.process)
		softs.own.process = soft_number();
	for (struct speaker *s = softs.set; s; s = s->next)
		s->coming = 0;
	allot_each_pool(find_decider, NULL);
	for (struct speaker **at = &softs.set; *at;) {
		struct speaker *s = *at;

		if (s->coming) {
			if (s->coming != s->term)
				begin_term(s);
			at = &s->next;
			continue;
		}
		*at = s->next;
		free(s);
	}
}

/* ---- what is said ---- */

struct saying {
	const struct speaker *speaker;
	json_t *rows;
	size_t met, total, most;
	const char *pool;
	bool any; /* pools of which it speaks */
};

static json_t *pair(int64_t a, int64_t b)
{
	return json_pack("[I,I]", (json_int_t)a, (json_int_t)b);
}

static void say(struct soft_list *list, void *arg)
{
	struct saying *to = arg;
	struct soft_said s;

	to->any = true;
	to->total += list->count;
	for (size_t i = 0; i < list->count; i++) {
		if (json_array_size(to->rows) >= to->most)
			return;
		if (to->met++ < to->speaker->skip)
			continue;
		if (soft_say(&list->at[i], to->speaker->number, &s))
			json_array_append_new(to->rows,
					      json_pack("{s:s, s:I, s:o, s:o, s:o, s:I}", "pool", to->pool, "base",
							(json_int_t)s.base, "now", pair(s.now.bytes, s.now.inodes), "peak",
							pair(s.peak.bytes, s.peak.inodes), "carried",
							pair(s.carried.bytes, s.carried.inodes), "ask", (json_int_t)s.ask));
	}
}

static void say_pool(struct allot_pool *pool, void *arg)
{
	struct saying *to = arg;

	to->pool = pool->name;
	if (speaks_for(to->speaker, pool))
		pool->with_soft(pool->pool, say, to);
}

/* All that was said of a tenant counts as sent when its message is; so the tick is that of before the turn. If some came or went meanwhile others may have been missed. */
static void end_message(struct speaker *s, const struct saying *to)
{
	bool is_full = json_array_size(to->rows) >= to->most, is_same = !s->skip || to->total == s->total;

	if (!is_full && is_same)
		s->told = s->turn;
	s->skip = is_full && is_same ? to->met : 0;
	s->total = to->total;
}

/* NULL: of a set about which nobody here decides any more: what it has had since it was asked last is not said. */
static json_t *say_part(struct speaker *s, size_t most, bool *has_rows)
{
	struct saying to = { .speaker = s, .rows = json_array(), .most = most };

	s->number++;
	if (!s->skip)
		s->turn = softs.tick;
	allot_each_pool(say_pool, &to);
	if (*s->unit && !to.any) {
		json_decref(to.rows);
		return NULL;
	}
	end_message(s, &to);
	*has_rows |= json_array_size(to.rows) != 0;
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:o}", "unit", s->unit, "term", (json_int_t)s->term, "process",
			 (json_int_t)s->process, "session", (json_int_t)s->session, "number", (json_int_t)s->number, "tick",
			 (json_int_t)s->told, "rows", to.rows);
}

json_t *softs_say(bool *has_rows)
{
	json_t *said, *sets = json_array();
	size_t most = SOFT_ROWS_MAX, speakers = 1;

	*has_rows = false;
	find_speakers();
	for (const struct speaker *s = softs.set; s; s = s->next)
		speakers++;
	most = most / speakers > PART_ROWS_MIN ? most / speakers : PART_ROWS_MIN;
	said = say_part(&softs.own, most, has_rows);
	for (struct speaker *s = softs.set; s; s = s->next)
		json_array_append_new(sets, say_part(s, most, has_rows));
	json_object_set_new(said, "sets", sets);
	return said;
}

/* ---- and heard ---- */

struct hearing {
	const struct speaker *speaker;
	uint64_t upto, confirmed_ns, base, ask;
	const char *pool;
};

static void hear(struct soft_list *list, void *arg)
{
	const struct hearing *h = arg;

	for (size_t i = 0; i < list->count; i++)
		soft_heard(&list->at[i], h->upto);
}

static void hear_pool(struct allot_pool *pool, void *arg)
{
	if (speaks_for(((const struct hearing *)arg)->speaker, pool))
		pool->with_soft(pool->pool, hear, arg);
}

static void confirm(struct soft_list *list, void *arg)
{
	list->confirmed_ns = ((const struct hearing *)arg)->confirmed_ns;
}

/* Not of a set whose decider has not been heard as that. */
static void confirm_pool(struct allot_pool *pool, void *arg)
{
	const struct speaker *s = pool->unit ? find_set(pool->unit) : NULL;

	if (!pool->unit || !pool->term(pool->pool) || (s && s->session && speaks_for(s, pool)))
		pool->with_soft(pool->pool, confirm, arg);
}

static void take_answered(struct soft_list *list, void *arg)
{
	const struct hearing *h = arg;
	struct soft_own *own = soft_find(list, h->base);

	if (own && h->ask > own->answered && h->ask <= own->asked)
		own->answered = h->ask;
}

static void answered_pool(struct allot_pool *pool, void *arg)
{
	struct hearing *h = arg;

	if (!strcmp(pool->name, h->pool) && speaks_for(h->speaker, pool))
		pool->with_soft(pool->pool, take_answered, h);
}

static void take_all_answered(const struct speaker *s, const json_t *part)
{
	struct hearing h = { .speaker = s };
	const json_t *row;
	size_t i;

	json_array_foreach(json_object_get(part, "answered"), i, row)
	{
		h.pool = json_text(row, "pool");
		h.base = (uint64_t)json_number(row, "base");
		h.ask = (uint64_t)json_number(row, "ask");
		allot_each_pool(answered_pool, &h);
	}
}

static void drop_pending(void)
{
	json_decref(softs.pending);
	softs.pending = NULL;
}

/* NULL: it is for who decided in an earlier view. */
static struct speaker *who_is_told(const json_t *part)
{
	struct speaker *s = find_set(json_text(part, "unit"));

	return s && s->process == (uint64_t)json_number(part, "process") ? s : NULL;
}

/* S4: what the leader knew when it answered is known here now. */
static void take_pending(void)
{
	struct hearing h = { .confirmed_ns = softs.pending_ns };
	const json_t *part;
	size_t i;

	if (!softs.pending || softs.index < softs.pending_index)
		return;
	allot_each_pool(confirm_pool, &h);
	take_all_answered(&softs.own, softs.pending);
	json_array_foreach(json_object_get(softs.pending, "sets"), i, part)
	{
		const struct speaker *s = who_is_told(part);

		if (s && s->session == (uint64_t)json_number(part, "session"))
			take_all_answered(s, part);
	}
	drop_pending();
}

/* False: another session has begun, so all is to be said anew. */
static bool hear_part(struct speaker *s, const json_t *part)
{
	struct hearing h = { .speaker = s, .upto = (uint64_t)json_number(part, "upto") };
	uint64_t session = (uint64_t)json_number(part, "session");

	if (session == s->session) {
		allot_each_pool(hear_pool, &h);
		return true;
	}
	s->session = session;
	s->skip = s->turn = s->told = 0;
	allot_each_pool(unhear_pool, s);
	return false;
}

static void take_answer(const json_t *answer, uint64_t sent_ns)
{
	bool goes_on = hear_part(&softs.own, answer);
	const json_t *part;
	size_t i;

	softs.tick = (uint64_t)json_number(answer, "tick");
	json_array_foreach(json_object_get(answer, "sets"), i, part)
	{
		struct speaker *s = who_is_told(part);

		if (s)
			hear_part(s, part);
	}
	if (!goes_on)
		drop_pending();
	if (!goes_on || softs.pending || !softs.own.session || !json_object_get(answer, "index"))
		return;
	softs.pending = json_incref((json_t *)answer);
	softs.pending_ns = sent_ns;
	softs.pending_index = (uint64_t)json_number(answer, "index");
}

bool softs_hear(const json_t *answer, uint64_t sent_ns)
{
	uint64_t index = store_index(cluster_store()); /* before they are read */

	if (answer)
		take_answer(answer, sent_ns);
	if (index != softs.index)
		read_documents();
	softs.index = index;
	allot_each_pool(apply_pool, NULL);
	take_pending();
	return softs.pending || json_is_true(json_object_get(answer, "urgent"));
}

void softs_stop(void)
{
	drop_pending();
	free_known(softs.known, softs.count);
	while (softs.set) {
		struct speaker *s = softs.set;

		softs.set = s->next;
		free(s);
	}
	memset(&softs, 0, sizeof softs);
}
