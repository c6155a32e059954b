/* SPDX-License-Identifier: Apache-2.0 */
/* The deciding side of allotments, where the cluster's leader is. What servers say is taken into the documents of the store, several at once; who wants more gets what nobody has, or
 * all others are told, and give up what they can. When all have looked (or are away) what was not granted is refused. Only the documents last: what is remembered here servers
 * say again to whoever leads next. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "allot.h"
#include "cluster-allot-sharing.h"
#include "cluster-allot.h"
#include "cluster-soft.h"
#include "cluster.h"
#include "fop.h"
#include "json.h"
#include "log.h"
#include "path.h"
#include "store.h"
#include "task.h"

enum { REPORTS_MAX = 64, PEERS_MAX = 4096, WANTS_MAX = 65536, COMMIT_MAX = 128 };
static const uint64_t away_ns = 10000000000, kept_ns = 5000000000;

/* ---- what is known ---- */

struct peer { /* a server, or a replica set: heard by the server where it decides about limits */
	char name[ALLOT_UNIT_NAME + 1];
	uint64_t heard_ns, term;
	uint64_t parts; /* of a server: of the turn, that were taken */
	json_int_t done;
};
struct want {
	char pool[GFID_TEXT];
	uint64_t base;
	char server[ALLOT_UNIT_NAME + 1]; /* by which it was said */
	struct allot_said said;
	json_int_t event;
	uint64_t mentioned_ns;
	struct amount lacks; /* by the last look; what the others are asked for */
	bool known;	     /* its server has taken up the document: what it lacks is that */
	bool answered, granted;
	uint64_t version; /* of the document, when it was */
	struct want *next;
};
struct began { /* a unit that has no document, and says what it has */
	char pool[GFID_TEXT];
	uint64_t base, heard_ns;
	struct allot_said said;
	struct began *next;
};

static struct {
	pthread_mutex_t lock; /* guards all but what only the thread uses: volumes, began, working */
	bool active;
	json_int_t token, event, shown; /* the last event; the last of which it is known who is to be asked for what */
	uint64_t since_ns, news;
	json_t *report[REPORTS_MAX];
	size_t reports;
	struct peer peer[PEERS_MAX];
	size_t peers;
	struct want *want; /* in the order of their events */
	size_t wants;
	struct began *began;
} lead = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- documents that are being changed ---- */

struct working {
	char *key;
	char pool[GFID_TEXT];
	uint64_t base;
	const struct sharing *volume;
	struct amount limit;
	struct allot_doc doc;
	uint64_t version;
	bool is, changed, committed;
	struct working *next;
};

/* One of a server, or a set, that has no brick of the volume any more counts no more: what is there is not the volume's. */
static void drop_strangers(struct working *w)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->doc.units; i++)
		if (sharing_has(w->volume, w->doc.unit[i].name))
			w->doc.unit[kept++] = w->doc.unit[i];
	w->changed |= kept && kept < w->doc.units;
	w->doc.units = kept;
}

static void read_working(struct working *w)
{
	struct blob value = { 0 };
	int err = store_get(cluster_store(), w->key, &value, &w->version);

	/* an empty one, or one that makes no sense, is none (any more); one of strangers only still is one */
	w->is = !err && !allot_parse(value.bytes, value.size, &w->doc) && w->doc.units;
	if (w->is)
		drop_strangers(w);
	free(value.bytes);
}

/* NULL: no limit of the tenant is shared, as far as is known here. */
static struct working *work_on(struct working **list, const char *pool, uint64_t base)
{
	const struct sharing *v = sharing_find(pool);
	struct amount limit;
	struct working *w;

	for (w = *list; w; w = w->next)
		if (w->base == base && !strcmp(w->pool, pool))
			return w;
	if (!v || !sharing_limit(v, base, &limit) || !(w = calloc(1, sizeof *w)))
		return NULL;
	snprintf(w->pool, sizeof w->pool, "%s", pool);
	w->base = base;
	w->key = allotment_key(pool, base);
	w->volume = v;
	w->limit = limit;
	read_working(w);
	w->next = *list;
	*list = w;
	return w;
}

static void free_working(struct working *list)
{
	while (list) {
		struct working *w = list;

		list = w->next;
		free(w->key);
		free(w);
	}
}

/* A specification that changes what is limited empties the documents in the same commit: so if it is now what it was before they were read, they were read as it knows them. */
static bool are_current(const struct working *list)
{
	while (list && sharing_is_current(list->volume))
		list = list->next;
	return !list;
}

/* All at once, or none: what is not in the store is said again. */
static int commit(struct working *list)
{
	struct store_change change[COMMIT_MAX];
	struct blob value[COMMIT_MAX];
	size_t count = 0;
	int err = 0;

	for (struct working *w = list; w && count < COMMIT_MAX; w = w->next) {
		char *text = w->changed ? malloc(ALLOT_TEXT_MAX) : NULL;

		if (!text)
			continue;
		w->committed = true;
		value[count] = (struct blob){ .size = allot_print(&w->doc, text), .bytes = text };
		change[count] = (struct store_change){ w->key, w->version, &value[count] };
		count++;
	}
	if (count)
		err = store_commit(cluster_store(), change, count);
	for (size_t i = 0; i < count; i++)
		free(value[i].bytes);
	for (struct working *w = list; w; w = w->next) {
		if (w->changed && !w->committed && !err)
			err = -EAGAIN;
		w->version += w->changed && w->committed;
	}
	return err;
}

/* ---- a document begins ---- */

static struct began *find_began(const struct working *w, const char *unit)
{
	struct began *b = lead.began;

	while (b && (b->base != w->base || strcmp(b->pool, w->pool) || strcmp(b->said.unit, unit)))
		b = b->next;
	return b;
}

/* False: what is limited is not known there yet. */
static bool note_began(const struct working *w, const struct allot_said *s)
{
	struct began *b = find_began(w, s->unit);

	if (!b && (b = calloc(1, sizeof *b))) {
		snprintf(b->pool, sizeof b->pool, "%s", w->pool);
		b->base = w->base;
		b->next = lead.began;
		lead.began = b;
	}
	if (b && s->term >= b->said.term) {
		b->said = *s;
		b->heard_ns = clock_ns();
	}
	return allot_knows(s, w->limit);
}

static void forget_began(uint64_t before_ns)
{
	for (struct began **at = &lead.began; *at;) {
		struct began *b = *at;

		if (b->heard_ns >= before_ns) {
			at = &b->next;
			continue;
		}
		*at = b->next;
		free(b);
	}
}

/* A1: when each server has said what it has, none grows before the document names it. */
static void begin(struct working *w)
{
	struct allot_said *said = calloc(w->volume->units, sizeof *said);
	size_t count = 0;

	for (size_t i = 0; said && i < w->volume->units; i++) {
		const struct began *b = find_began(w, w->volume->unit[i]);

		if (b)
			said[count++] = b->said;
	}
	if (count == w->volume->units && allot_begin(&w->doc, w->version, said, count, w->limit))
		w->is = w->changed = true;
	free(said);
}

/* ---- what is said ---- */

static struct amount amount_of(const json_t *row, const char *name)
{
	const json_t *pair = json_object_get(row, name);
	struct amount a = { json_integer_value(json_array_get(pair, 0)), json_integer_value(json_array_get(pair, 1)) };

	return a;
}

static bool is_sane(struct amount a)
{
	return a.bytes >= 0 && a.inodes >= 0 && a.bytes < INT64_MAX / ALLOT_UNITS_MAX && a.inodes < INT64_MAX / ALLOT_UNITS_MAX;
}

static bool read_said(const char *server, const json_t *row, struct allot_said *s)
{
	*s = (struct allot_said){ .incarnation = (uint64_t)json_number(row, "incarnation"),
				  .term = (uint64_t)json_number(row, "term"),
				  .seen = (uint64_t)json_number(row, "seen"),
				  .gone = (uint64_t)json_number(row, "gone"),
				  .kinds = (unsigned)json_number(row, "kinds"),
				  .taken = amount_of(row, "taken"),
				  .gift = (uint64_t)json_number(row, "gift"),
				  .capped = json_is_true(json_object_get(row, "capped")),
				  .cap = amount_of(row, "cap"),
				  .round = (uint64_t)json_number(row, "round"),
				  .wants = amount_of(row, "wants") };
	snprintf(s->unit, sizeof s->unit, "%s", *json_text(row, "unit") ? json_text(row, "unit") : server);
	return s->incarnation && is_sane(s->taken) && is_sane(s->cap) && is_sane(s->wants);
}

/* With the lock held. The same round again is the same want. */
static void note_want(const char *server, const char *pool, uint64_t base, const struct allot_said *s)
{
	struct want *w, **at;

	for (at = &lead.want; (w = *at); at = &w->next)
		if (w->base == base && !strcmp(w->said.unit, s->unit) && !strcmp(w->pool, pool))
			break;
	if (w && s->term < w->said.term) /* A8 */
		return;
	if (w && w->said.incarnation == s->incarnation && w->said.round == s->round) {
		w->mentioned_ns = clock_ns();
		w->said.wants = s->wants;
		return;
	}
	if (w) { /* a new one stands at the end */
		*at = w->next;
		lead.wants--;
	} else if (lead.wants >= WANTS_MAX || !(w = calloc(1, sizeof *w))) {
		return;
	}
	while (*at)
		at = &(*at)->next;
	*w = (struct want){ .base = base, .said = *s, .event = ++lead.event, .mentioned_ns = clock_ns() };
	snprintf(w->pool, sizeof w->pool, "%s", pool);
	snprintf(w->server, sizeof w->server, "%s", server);
	*at = w;
	lead.wants++;
}

static struct peer *need_peer(const char *name)
{
	for (size_t i = 0; i < lead.peers; i++)
		if (!strcmp(lead.peer[i].name, name))
			return &lead.peer[i];
	if (lead.peers == PEERS_MAX || strlen(name) > ALLOT_UNIT_NAME)
		return NULL;
	lead.peer[lead.peers] = (struct peer){ .done = 0 };
	snprintf(lead.peer[lead.peers].name, sizeof lead.peer[0].name, "%s", name);
	return &lead.peer[lead.peers++];
}

/* Who decided about a set's limits in an earlier view may not know yet that it does so no more. (But a set that came in another one's place begins with small numbers.) */
static void note_heard(struct peer *p, uint64_t term, json_int_t unused)
{
	(void)unused;
	if (!p || (term < p->term && clock_ns() < p->heard_ns + away_ns))
		return;
	p->term = term;
	p->heard_ns = clock_ns();
}

static void note_done(struct peer *p, uint64_t term, json_int_t done)
{
	if (p && term == p->term && done > p->done)
		p->done = done;
}

/* For each replica set about whose limits the server that says this decides. */
static void each_decided(const json_t *said, void (*fn)(struct peer *, uint64_t term, json_int_t), json_int_t arg)
{
	const json_t *pair;
	size_t i;

	json_array_foreach(json_object_get(said, "decides"), i, pair)
	{
		const char *set = json_string_value(json_array_get(pair, 0));

		if (set)
			fn(need_peer(set), (uint64_t)json_integer_value(json_array_get(pair, 1)), arg);
	}
}

/* False: some of it must be said again. */
static bool take_row(struct working **list, const char *server, const json_t *row)
{
	const char *pool = json_text(row, "pool");
	uint64_t base = (uint64_t)json_number(row, "base");
	struct working *w = work_on(list, pool, base);
	struct allot_said s;
	uint64_t epoch;
	bool heard = true;

	if (!read_said(server, row, &s))
		return true; /* it would be the same again, and others' rows are not to wait for it */
	if (w && !sharing_epoch(w->volume, s.unit, &epoch))
		return true; /* it has not heard yet that it has no brick any more; or nobody decides there */
	if (w && !allot_speaks(&s, epoch))
		return true; /* A8: nor would that be heard the next time */
	if (w && w->is)
		w->changed |= allot_take(&w->doc, w->version + 1, &s, w->limit, &heard);
	else if (w)
		heard = note_began(w, &s);
	if (s.round) {
		pthread_mutex_lock(&lead.lock);
		note_want(server, pool, base, &s);
		pthread_mutex_unlock(&lead.lock);
	}
	return heard;
}

struct heard {
	const char *server;
	bool all; /* that it says */
	json_int_t done;
};

static void note_report(const struct heard *h, const json_t *report, bool committed)
{
	struct peer *p = need_peer(h->server);

	if (!p || !allot_turn_heard(&p->parts, (uint64_t)json_number(report, "part"), h->all && committed))
		return;
	note_done(p, 0, h->done);
	each_decided(report, note_done, h->done);
}

static struct heard take_report(struct working **list, const json_t *report)
{
	const char *server = json_text(report, "server");
	bool heard = json_number(report, "lead") == lead.token;
	const json_t *row;
	size_t i;

	json_array_foreach(json_object_get(report, "rows"), i, row) heard &= take_row(list, server, row);
	softs_take(server, json_object_get(report, "soft"));
	return (struct heard){ server, heard, json_number(report, "done") };
}

/* ---- wants ---- */

static bool is_over(struct amount total, struct amount limit)
{
	return (limit.bytes && total.bytes > limit.bytes) || (limit.inodes && total.inodes > limit.inodes);
}

static int64_t lacking(int64_t limit, int64_t wants, int64_t may, int64_t total)
{
	int64_t lacks = wants > may ? wants - may : 0;

	return limit ? lacks + (total > limit ? total - limit : 0) : 0;
}

static void grant(struct want *want, struct working *w)
{
	struct allot_unit *u;
	struct amount total;

	want->known = false;
	want->lacks = (struct amount){ 1, 1 }; /* without a document: whoever is needed takes it up */
	if (!w || !w->is)
		return;
	want->lacks = (struct amount){ 0 };
	u = allot_find(&w->doc, want->said.unit);
	if (!u || u->incarnation != want->said.incarnation)
		return;
	w->changed |= allot_grant(&w->doc, want->said.unit, want->said.wants, w->limit, w->volume->units);
	total = allot_total(&w->doc);
	want->known = true;
	want->lacks = (struct amount){ lacking(w->limit.bytes, want->said.wants.bytes, u->may.bytes, total.bytes),
				       lacking(w->limit.inodes, want->said.wants.inodes, u->may.inodes, total.inodes) };
}

/* All have looked since it was wanted, or are away: more can't be had. Of its own server, too, for that may have had more than it may. */
static bool all_have_looked(const struct want *want, const struct sharing *v)
{
	uint64_t now = clock_ns();

	for (size_t i = 0; i < v->units; i++) {
		const struct peer *p = need_peer(v->unit[i]);
		uint64_t heard_ns = p && p->heard_ns > lead.since_ns ? p->heard_ns : lead.since_ns;

		if (p && p->done < want->event && now < heard_ns + away_ns)
			return false;
	}
	return true;
}

static void answer(struct want *want, struct working *w)
{
	want->granted = !w || (w->is && want->known && !want->lacks.bytes && !want->lacks.inodes &&
			       !is_over(allot_total(&w->doc), w->limit));
	if (!want->granted && !all_have_looked(want, w->volume))
		return;
	want->answered = true;
	want->version = w ? w->version : 0;
}

/* With the lock held. */
static void forget_wants(uint64_t before_ns)
{
	for (struct want **at = &lead.want; *at;) {
		struct want *w = *at;

		if (w->mentioned_ns >= before_ns) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		lead.wants--;
		free(w);
	}
}

static void grant_all(struct working **list)
{
	for (struct want *want = lead.want; want; want = want->next) {
		struct working *w = want->answered ? NULL : work_on(list, want->pool, want->base);

		if (w && !w->is)
			begin(w);
		if (!want->answered)
			grant(want, w);
	}
}

/* True: one was. */
static bool answer_all(struct working **list)
{
	bool any = false;

	for (struct want *want = lead.want; want; want = want->next)
		if (!want->answered) {
			answer(want, work_on(list, want->pool, want->base));
			any |= want->answered;
		}
	return any;
}

/* ---- the thread ---- */

static size_t take_reports(json_t **report)
{
	size_t count;

	pthread_mutex_lock(&lead.lock);
	count = lead.reports;
	memcpy(report, lead.report, count * sizeof *report);
	lead.reports = 0;
	pthread_mutex_unlock(&lead.lock);
	return count;
}

static void begin_to_lead(void)
{
	struct gfid random;

	gfid_create(&random);
	memcpy(&lead.token, random.bytes, sizeof lead.token);
	lead.token &= INT64_MAX;
	lead.event = lead.shown = 1;
	lead.since_ns = clock_ns();
	lead.news = (uint64_t)lead.token >> 1 | 1;
	lead.peers = 0;
	lead.active = true;
}

static void tell_news(void)
{
	pthread_mutex_lock(&lead.lock);
	lead.news++;
	pthread_mutex_unlock(&lead.lock);
	cluster_http_wake_listeners();
}

/* What changes a want is done by this thread alone; others read them under the lock. */
static void decide(void)
{
	json_t *report[REPORTS_MAX];
	struct heard heard[REPORTS_MAX];
	struct working *list = NULL;
	size_t count = take_reports(report);
	bool news;
	int err;

	sharing_look(); /* when all of these are there: A8 */
	for (size_t i = 0; i < count; i++)
		heard[i] = take_report(&list, report[i]);
	pthread_mutex_lock(&lead.lock);
	forget_wants(clock_ns() - kept_ns);
	grant_all(&list);
	pthread_mutex_unlock(&lead.lock);
	err = are_current(list) ? commit(list) : -EAGAIN;
	pthread_mutex_lock(&lead.lock);
	for (size_t i = 0; i < count; i++)
		note_report(&heard[i], report[i], !err);
	news = !err && (answer_all(&list) | (lead.shown != lead.event));
	if (!err)
		lead.shown = lead.event;
	pthread_mutex_unlock(&lead.lock);
	for (size_t i = 0; i < count; i++)
		json_decref(report[i]);
	if (softs_decide() || news)
		tell_news();
	forget_began(clock_ns() - kept_ns);
	free_working(list);
}

bool allotments_decide(void)
{
	bool has_work;

	if (!store_leads(cluster_store()))
		return false;
	pthread_mutex_lock(&lead.lock);
	if (!lead.active)
		begin_to_lead();
	has_work = lead.reports || lead.want;
	pthread_mutex_unlock(&lead.lock);
	if (has_work)
		decide();
	return true;
}

bool allotments_have_work(void)
{
	bool has;

	pthread_mutex_lock(&lead.lock);
	has = lead.reports || lead.want;
	pthread_mutex_unlock(&lead.lock);
	return has;
}

void allotments_forget(void)
{
	pthread_mutex_lock(&lead.lock);
	lead.active = false;
	while (lead.reports)
		json_decref(lead.report[--lead.reports]);
	forget_wants(UINT64_MAX);
	pthread_mutex_unlock(&lead.lock);
	forget_began(UINT64_MAX);
	softs_forget();
	sharing_forget();
}

/* ---- answers ---- */

/* What was said just now is looked at by the thread; the answer is of what was there before. */
static json_t *tell(const char *server, const json_t *said)
{
	json_t *needs = json_array(), *answered = json_array();

	for (const struct want *w = lead.want; w; w = w->next) {
		bool own = !strcmp(w->server, server);

		if (own && w->answered)
			json_array_append_new(answered,
					      json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:b}", "pool", w->pool, "unit",
							w->said.unit, "base", (json_int_t)w->base, "incarnation",
							(json_int_t)w->said.incarnation, "round", (json_int_t)w->said.round,
							"version", (json_int_t)w->version, "granted", w->granted));
		else if ((!own || strcmp(w->said.unit, server)) && !w->answered && (w->lacks.bytes || w->lacks.inodes))
			json_array_append_new(needs, json_pack("{s:s, s:s, s:I, s:[I,I]}", "pool", w->pool, "unit",
							       w->said.unit, "base", (json_int_t)w->base, "need",
							       (json_int_t)w->lacks.bytes, (json_int_t)w->lacks.inodes));
	}
	return json_pack("{s:I, s:I, s:o, s:o, s:o}", "lead", lead.token, "event", lead.shown, "needs", needs, "answered",
			 answered, "soft", softs_tell(server, json_object_get(said, "soft")));
}

static bool queue(json_t *said, const char *server)
{
	struct peer *p = need_peer(server);

	if (!p || lead.reports == REPORTS_MAX)
		return false;
	note_heard(p, 0, 0);
	each_decided(said, note_heard, 0);
	lead.report[lead.reports++] = json_incref(said);
	return true;
}

char *allotments_answer(const char *text, bool *bad)
{
	json_t *said = json_loads(text, 0, NULL), *answer = NULL;
	const char *server = json_text(said, "server");
	char *told = NULL;

	*bad = !*server || !json_is_array(json_object_get(said, "rows"));
	if (!*bad && store_leads(cluster_store())) {
		pthread_mutex_lock(&lead.lock);
		if (lead.active && queue(said, server))
			answer = tell(server, said);
		pthread_mutex_unlock(&lead.lock);
		told = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
		json_decref(answer);
		if (told && (json_array_size(json_object_get(said, "rows")) || softs_has_rows(json_object_get(said, "soft"))))
			allotments_wake();
	}
	json_decref(said);
	return told;
}

uint64_t allotments_news(void)
{
	uint64_t news;

	pthread_mutex_lock(&lead.lock);
	news = lead.active && store_leads(cluster_store()) ? lead.news : 0;
	pthread_mutex_unlock(&lead.lock);
	return news;
}
