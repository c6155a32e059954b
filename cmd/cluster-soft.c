/* SPDX-License-Identifier: Apache-2.0 */
/* What a server tells of tenants that have soft limits, and what it hears: the documents of the store, as its own copy has them, and until when that copy was true. */
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

enum { SOFT_ROWS_MAX = 512 };

struct known { /* a document */
	char *key;
	uint64_t version;
	struct soft_doc doc;
	bool is;
};
static struct {
	uint64_t process, session, number, tick; /* of the messages; the last tick that was heard */
	uint64_t index;				 /* of the store, when the documents were read */
	struct known *known;			 /* by key */
	size_t count;
	json_t *pending; /* answers that hold as soon as our copy of the store is as new as the leader's was */
	uint64_t pending_ns, pending_index;
	/* What is too long for one message goes on in the next: all of these together are a turn. */
	size_t skip, total;
	uint64_t turn; /* the tick that was heard before it began */
	uint64_t told; /* and before the last one that has ended */
} softs;

char *soft_key(const char *pool, uint64_t base)
{
	return path_format("over/%s.%" PRIu64, pool, base);
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

/* ---- what is said ---- */

struct saying {
	json_t *rows;
	size_t met, total;
	const char *pool;
};

static json_t *pair(int64_t a, int64_t b)
{
	return json_pack("[I,I]", (json_int_t)a, (json_int_t)b);
}

static void say(struct soft_list *list, void *arg)
{
	struct saying *to = arg;
	struct soft_said s;

	to->total += list->count;
	for (size_t i = 0; i < list->count; i++) {
		if (json_array_size(to->rows) >= SOFT_ROWS_MAX)
			return;
		if (to->met++ < softs.skip)
			continue;
		if (soft_say(&list->at[i], softs.number, &s))
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
	pool->with_soft(pool->pool, say, to);
}

static void unhear(struct soft_list *list, void *unused)
{
	(void)unused;
	for (size_t i = 0; i < list->count; i++)
		soft_unheard(&list->at[i]);
}

static void unhear_pool(struct allot_pool *pool, void *unused)
{
	(void)unused;
	pool->with_soft(pool->pool, unhear, NULL);
}

/* All that was said of a tenant counts as sent when its message is; so the tick is that of before the turn. If some came or went meanwhile others may have been missed. */
static void end_message(const struct saying *to)
{
	bool is_full = json_array_size(to->rows) >= SOFT_ROWS_MAX, is_same = !softs.skip || to->total == softs.total;

	if (!is_full && is_same)
		softs.told = softs.turn;
	softs.skip = is_full && is_same ? to->met : 0;
	softs.total = to->total;
}

static uint64_t random_number(void)
{
	struct gfid random;
	uint64_t number;

	gfid_create(&random);
	memcpy(&number, random.bytes + 8, sizeof number);
	return number >> 1 | 1;
}

json_t *softs_say(bool *has_rows)
{
	struct saying to = { .rows = json_array() };

	if (!softs.process)
		softs.process = random_number();
	softs.number++;
	if (!softs.skip)
		softs.turn = softs.tick;
	allot_each_pool(say_pool, &to);
	end_message(&to);
	*has_rows = json_array_size(to.rows);
	return json_pack("{s:I, s:I, s:I, s:I, s:o}", "process", (json_int_t)softs.process, "session",
			 (json_int_t)softs.session, "number", (json_int_t)softs.number, "tick", (json_int_t)softs.told, "rows",
			 to.rows);
}

/* ---- and heard ---- */

struct hearing {
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
	pool->with_soft(pool->pool, hear, arg);
}

static void confirm(struct soft_list *list, void *arg)
{
	list->confirmed_ns = ((const struct hearing *)arg)->confirmed_ns;
}

static void confirm_pool(struct allot_pool *pool, void *arg)
{
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

	if (!strcmp(pool->name, h->pool))
		pool->with_soft(pool->pool, take_answered, h);
}

static void drop_pending(void)
{
	json_decref(softs.pending);
	softs.pending = NULL;
}

/* S4: what the leader knew when it answered is known here now. */
static void take_pending(void)
{
	struct hearing h = { .confirmed_ns = softs.pending_ns };
	const json_t *row;
	size_t i;

	if (!softs.pending || softs.index < softs.pending_index)
		return;
	allot_each_pool(confirm_pool, &h);
	json_array_foreach(json_object_get(softs.pending, "answered"), i, row)
	{
		h.pool = json_text(row, "pool");
		h.base = (uint64_t)json_number(row, "base");
		h.ask = (uint64_t)json_number(row, "ask");
		allot_each_pool(answered_pool, &h);
	}
	drop_pending();
}

static void take_answer(const json_t *answer, uint64_t sent_ns)
{
	struct hearing h = { .upto = (uint64_t)json_number(answer, "upto") };
	uint64_t session = (uint64_t)json_number(answer, "session");

	softs.tick = (uint64_t)json_number(answer, "tick");
	if (session != softs.session) {
		softs.session = session;
		softs.skip = softs.turn = softs.told = 0;
		allot_each_pool(unhear_pool, NULL);
		drop_pending();
		return;
	}
	allot_each_pool(hear_pool, &h);
	if (softs.pending || !session || !json_object_get(answer, "index"))
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
	memset(&softs, 0, sizeof softs);
}
