/* SPDX-License-Identifier: Apache-2.0 */
/* Where the cluster's leader is: adds up what servers, and who decides for a replica set, say of tenants that have soft limits, and notes in the store since when it has been too much. What is
 * remembered here they say again to whoever leads next. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "by-base.h"
#include "cluster-allot-sharing.h"
#include "cluster-soft-speakers.h"
#include "cluster-soft.h"
#include "cluster.h"
#include "fop.h"
#include "json.h"
#include "log.h"
#include "soft.h"
#include "store.h"
#include "task.h"

enum { COMMIT_MAX = 32 }; /* changes in one commit: others follow */
static const uint64_t away_ns = 10000000000;
static struct soft_unit nobody; /* of which nothing was heard */

struct summed {			 /* a tenant */
	struct soft_limit limit; /* begins with `base` */
	struct soft_sum sum;
	struct soft_doc doc, next; /* as the store has it; as it is to be */
	uint64_t version;
	bool is; /* it has one */
	bool changed;
};
struct volume {
	char name[STORE_KEY_MAX], pool[GFID_TEXT];
	uint64_t version; /* of the specification */
	char unit[ALLOT_UNITS_MAX][ALLOT_UNIT_NAME + 1], view[ALLOT_UNITS_MAX][STORE_KEY_MAX];
	size_t units;
	struct summed *at; /* by base */
	size_t count;
	struct soft_row *rows;
	bool marked;
	struct volume *next;
};

static struct {
	pthread_mutex_t lock; /* the thread of allotments alone changes what is here; others read it under the lock */
	struct volume *volume;
	uint64_t tick, since_ns; /* the last tick that was told */
	bool busy;		 /* what was decided is not in the store yet */
	bool urgent;		 /* something waits for a count */
	bool stale;		 /* nor is what is here as the store has it */
} lead = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- volumes, as the specifications say ---- */

static struct summed *find_summed(struct volume *v, uint64_t base)
{
	size_t place = place_by_base(v->at, v->count, sizeof *v->at, base);

	return place < v->count && v->at[place].limit.base == base ? &v->at[place] : NULL;
}

static size_t unit_number(const struct volume *v, const char *name)
{
	size_t i = 0;

	while (i < v->units && strcmp(v->unit[i], name))
		i++;
	return i;
}

static void read_document(const struct volume *v, struct summed *s)
{
	char *key = soft_key(v->pool, s->limit.base);
	struct blob value = { 0 };

	s->is = key && !store_get(cluster_store(), key, &value, &s->version);
	if (!s->is || soft_parse(value.bytes, value.size, &s->doc))
		s->doc = (struct soft_doc){ 0 };
	free(value.bytes);
	free(key);
}

/* Of who had a soft limit before the sums go on. A count that is under way may have been of other servers. Who had none may have had one before that: a server that has heard of the newest specification only has told all, as far as it
 * knows, and would tell nothing more. */
static void take_over(struct volume *v, struct volume *before, struct summed *s)
{
	const struct summed *was = find_summed(before, s->limit.base);

	for (size_t i = 0; !was && i < v->units; i++) {
		struct speaker *from = speaker_find(v->unit[i]);

		if (from)
			soft_renew(&from->unit);
	}
	for (size_t i = 0; was && i < v->units; i++) {
		size_t k = unit_number(before, v->unit[i]);

		if (k < before->units)
			s->sum.row[i] = was->sum.row[k];
	}
}

static void free_volume(struct volume *v)
{
	free(v->at);
	free(v->rows);
	free(v);
}

static struct volume *make_volume(const struct sharing *from, struct volume *before)
{
	struct volume *v = calloc(1, sizeof *v);
	size_t rows = from->softs * from->units;

	if (!v || !(v->at = calloc(from->softs + 1, sizeof *v->at)) || !(v->rows = calloc(rows + 1, sizeof *v->rows))) {
		if (v)
			free_volume(v);
		return NULL;
	}
	snprintf(v->name, sizeof v->name, "%s", from->name);
	snprintf(v->pool, sizeof v->pool, "%s", from->pool);
	v->version = from->version;
	v->units = from->units;
	memcpy(v->unit, from->unit, sizeof v->unit);
	memcpy(v->view, from->view, sizeof v->view);
	for (size_t i = 0; i < from->softs; i++) {
		struct summed *s = &v->at[v->count++];

		s->limit = from->soft[i];
		s->sum.row = v->rows + i * v->units;
		read_document(v, s);
		if (before)
			take_over(v, before, s);
	}
	return v;
}

static void look_at(const struct sharing *from, void *unused)
{
	struct volume **at = &lead.volume, *made;

	(void)unused;
	while (*at && strcmp((*at)->name, from->name))
		at = &(*at)->next;
	if (*at && (*at)->version == from->version && !lead.stale) {
		(*at)->marked = true;
		return;
	}
	made = make_volume(from, *at && !strcmp((*at)->pool, from->pool) ? *at : NULL);
	if (!made)
		return;
	made->marked = true;
	if (*at) {
		made->next = (*at)->next;
		free_volume(*at);
	}
	*at = made;
}

static void drop_unmarked(void)
{
	for (struct volume **at = &lead.volume; *at;) {
		struct volume *v = *at;

		if (v->marked) {
			v->marked = false;
			at = &v->next;
			continue;
		}
		*at = v->next;
		free_volume(v);
	}
}

static void refresh(void)
{
	sharing_each(look_at, NULL);
	drop_unmarked();
	lead.stale = false;
}

/* ---- what is said ---- */

static struct volume *find_volume(const char *pool)
{
	struct volume *v = lead.volume;

	while (v && strcmp(v->pool, pool))
		v = v->next;
	return v;
}

static struct amount amount_of(const json_t *row, const char *name)
{
	const json_t *pair = json_object_get(row, name);

	return (struct amount){ json_integer_value(json_array_get(pair, 0)), json_integer_value(json_array_get(pair, 1)) };
}

static bool is_sane(struct amount a)
{
	return a.bytes >= 0 && a.inodes >= 0 && a.bytes < INT64_MAX / ALLOT_UNITS_MAX && a.inodes < INT64_MAX / ALLOT_UNITS_MAX;
}

static bool read_said(const json_t *row, struct soft_said *s)
{
	struct amount carried = amount_of(row, "carried");

	*s = (struct soft_said){ .base = (uint64_t)json_number(row, "base"),
				 .now = amount_of(row, "now"),
				 .peak = amount_of(row, "peak"),
				 .carried = { (uint32_t)carried.bytes, (uint32_t)carried.inodes },
				 .ask = (uint64_t)json_number(row, "ask") };
	return is_sane(s->now) && is_sane(s->peak);
}

/* False: of a tenant that has no soft limit, as far as is known here. */
static bool take_row(const struct speaker *from, const json_t *row, bool is_trial)
{
	struct volume *v = find_volume(json_text(row, "pool"));
	struct soft_said said;
	struct summed *s;
	size_t number;

	if (!v || !read_said(row, &said) || !(s = find_summed(v, said.base)))
		return false;
	number = unit_number(v, from->name);
	if (!is_trial && number < v->units)
		soft_take(&s->sum.row[number], &from->unit, &said, lead.tick + 1);
	return true;
}

static bool take_rows(const struct speaker *from, const json_t *rows, bool is_trial)
{
	const json_t *row;
	bool all = true;
	size_t i;

	json_array_foreach(rows, i, row) all &= take_row(from, row, is_trial);
	return all;
}

/* One of which not all can be understood is to come again. */
static void take_part(struct speaker *s, const json_t *said)
{
	const json_t *rows = json_object_get(said, "rows");
	uint64_t process = (uint64_t)json_number(said, "process"), term = (uint64_t)json_number(said, "term");

	if (!s || !speaker_decides(s, term))
		return;
	s->heard_ns = clock_ns();
	if ((process != s->unit.process || take_rows(s, rows, true)) &&
	    soft_hear(&s->unit, term, process, (uint64_t)json_number(said, "session"), (uint64_t)json_number(said, "number"),
		      (uint64_t)json_number(said, "tick"), soft_number()))
		take_rows(s, rows, false);
}

/* NULL: there is no such set in a volume that shares limits. */
static struct speaker *need_set(const char *unit)
{
	for (const struct volume *v = lead.volume; v; v = v->next) {
		size_t number = unit_number(v, unit);

		if (number < v->units && *v->view[number])
			return speaker_need(unit, v->view[number]);
	}
	return NULL;
}

void softs_take(const char *name, const json_t *said)
{
	const json_t *part;
	size_t i;

	if (!json_is_object(said))
		return;
	pthread_mutex_lock(&lead.lock);
	refresh();
	take_part(speaker_need(name, ""), said);
	json_array_foreach(json_object_get(said, "sets"), i, part) take_part(need_set(json_text(part, "unit")), part);
	pthread_mutex_unlock(&lead.lock);
}

bool softs_has_rows(const json_t *said)
{
	bool has = json_array_size(json_object_get(said, "rows"));
	const json_t *part;
	size_t i;

	json_array_foreach(json_object_get(said, "sets"), i, part) has |= json_array_size(json_object_get(part, "rows"));
	return has;
}

/* ---- what becomes of it ---- */

static void find_units(const struct volume *v, const struct soft_unit *unit[ALLOT_UNITS_MAX])
{
	uint64_t now = clock_ns();

	for (size_t i = 0; i < v->units; i++) {
		struct speaker *s = speaker_find(v->unit[i]);
		uint64_t heard_ns = s && s->heard_ns > lead.since_ns ? s->heard_ns : lead.since_ns;

		unit[i] = s ? &s->unit : &nobody;
		if (s)
			s->unit.away = now > heard_ns + away_ns;
		else
			nobody.away = now > heard_ns + away_ns;
	}
}

static size_t judge_all(void)
{
	size_t changes = 0;

	lead.urgent = false;
	for (struct volume *v = lead.volume; v; v = v->next) {
		const struct soft_unit *unit[ALLOT_UNITS_MAX];

		find_units(v, unit);
		for (struct summed *s = v->at; s < v->at + v->count; s++) {
			s->next = s->doc;
			s->changed = soft_judge(&s->sum, unit, v->units, s->limit.soft, lead.tick + 1, (uint32_t)time(NULL),
						!s->is, &s->next) &&
				     changes < COMMIT_MAX;
			changes += s->changed;
			lead.urgent |= s->sum.is_urgent;
		}
	}
	lead.tick++;
	return changes;
}

/* The thread alone changes the list. */
static int commit(void)
{
	struct store_change change[COMMIT_MAX];
	struct blob value[COMMIT_MAX];
	char text[COMMIT_MAX][SOFT_TEXT_MAX];
	size_t count = 0;
	int err;

	for (struct volume *v = lead.volume; v; v = v->next)
		for (struct summed *s = v->at; s < v->at + v->count; s++) {
			if (!s->changed)
				continue;
			value[count] = (struct blob){ .size = soft_print(&s->next, text[count]), .bytes = text[count] };
			change[count] = (struct store_change){ soft_key(v->pool, s->limit.base), s->version, &value[count] };
			count++;
		}
	err = store_commit(cluster_store(), change, count);
	for (size_t i = 0; i < count; i++)
		free((char *)change[i].key);
	return err;
}

static void log_one(const struct volume *v, const struct summed *s, const char *what, bool is, int64_t sum, int64_t soft)
{
	if (is && s->limit.grace)
		log_warning(NULL, NULL,
			    "volume %s: %s has %" PRId64 " %s in all, more than its soft limit of %" PRId64 ": in %" PRIu64
			    " s that becomes hard",
			    v->name, s->limit.name, sum, what, soft, s->limit.grace);
	else if (is)
		log_warning(NULL, NULL, "volume %s: %s has %" PRId64 " %s in all, more than its soft limit of %" PRId64,
			    v->name, s->limit.name, sum, what, soft);
	else if (soft)
		log_info(NULL, NULL, "volume %s: %s has %" PRId64 " %s in all, less than its soft limit of %" PRId64 " again",
			 v->name, s->limit.name, sum, what, soft);
}

static void note_committed(const struct volume *v, struct summed *s)
{
	const struct soft_unit *unit[ALLOT_UNITS_MAX];
	struct amount sum;

	find_units(v, unit);
	sum = soft_total(&s->sum, unit, v->units);
	if (s->next.told[0] != s->doc.told[0])
		log_one(v, s, "bytes", s->next.told[0], sum.bytes, s->limit.soft.bytes);
	if (s->next.told[1] != s->doc.told[1])
		log_one(v, s, "inodes", s->next.told[1], sum.inodes, s->limit.soft.inodes);
	s->doc = s->next;
	s->version++;
	s->is = true;
}

static void end(bool failed)
{
	for (struct volume *v = lead.volume; v && !failed; v = v->next)
		for (struct summed *s = v->at; s < v->at + v->count; s++)
			if (s->changed)
				note_committed(v, s);
	if (!failed)
		speakers_decided();
	lead.busy = lead.stale = failed;
}

bool softs_decide(void)
{
	bool news;
	size_t changes;
	int err = 0;

	pthread_mutex_lock(&lead.lock);
	if (!lead.since_ns)
		lead.since_ns = clock_ns();
	refresh();
	changes = judge_all();
	lead.busy |= changes != 0;
	pthread_mutex_unlock(&lead.lock);
	if (changes)
		err = commit();
	pthread_mutex_lock(&lead.lock);
	end(err);
	news = lead.urgent || changes;
	pthread_mutex_unlock(&lead.lock);
	return news;
}

void softs_forget(void)
{
	pthread_mutex_lock(&lead.lock);
	while (lead.volume) {
		struct volume *v = lead.volume;

		lead.volume = v->next;
		free_volume(v);
	}
	speakers_forget();
	lead.since_ns = 0;
	lead.busy = lead.stale = false;
	pthread_mutex_unlock(&lead.lock);
}

/* ---- answers ---- */

/* Of what the last message that was taken asks. */
static json_t *list_answered(const struct speaker *to)
{
	json_t *answered = json_array();

	for (const struct volume *v = lead.volume; v; v = v->next) {
		size_t number = unit_number(v, to->name);

		for (const struct summed *s = v->at; s < v->at + v->count && number < v->units; s++) {
			const struct soft_row *r = &s->sum.row[number];

			if (r->ask && r->answered == r->ask && r->ask_in == to->unit.upto)
				json_array_append_new(answered,
						      json_pack("{s:s, s:I, s:I}", "pool", v->pool, "base",
								(json_int_t)s->limit.base, "ask", (json_int_t)r->ask));
		}
	}
	return answered;
}

static json_t *tell_speaker(const char *name, const json_t *said)
{
	json_int_t process = json_number(said, "process");
	const struct speaker *s = speaker_find(name);
	bool is = s && s->unit.session && s->unit.process == (uint64_t)process;

	return json_pack("{s:s, s:I, s:I, s:I, s:o}", "unit", json_text(said, "unit"), "process", process, "session",
			 is ? (json_int_t)s->unit.session : 0, "upto", is ? (json_int_t)s->upto : 0, "answered",
			 is && !lead.busy ? list_answered(s) : json_array());
}

json_t *softs_tell(const char *name, const json_t *said)
{
	json_t *told, *sets = json_array();
	const json_t *part;
	size_t i;

	pthread_mutex_lock(&lead.lock);
	told = tell_speaker(name, said);
	json_array_foreach(json_object_get(said, "sets"), i, part)
		json_array_append_new(sets, tell_speaker(json_text(part, "unit"), part));
	json_object_set_new(told, "sets", sets);
	json_object_set_new(told, "tick", json_integer((json_int_t)lead.tick));
	json_object_set_new(told, "urgent", json_boolean(lead.urgent));
	if (lead.since_ns && !lead.busy) /* all that was decided is in the store by now */
		json_object_set_new(told, "index", json_integer((json_int_t)store_index(cluster_store())));
	pthread_mutex_unlock(&lead.lock);
	return told;
}
