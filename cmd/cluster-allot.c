/* SPDX-License-Identifier: Apache-2.0 */
/* The asking side of allotments: a thread that tells the leader of what waits here and what is given up, and applies to the pools of this process what the store has by then. It asks
 * often while something is wanted somewhere, and five times a second else, for others may need what is free here. */
#include "cluster-allot.h"

#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "allot.h"
#include "cluster-soft.h"
#include "cluster.h"
#include "fop.h"
#include "json.h"
#include "log.h"
#include "path.h"
#include "source.h"
#include "store.h"
#include "task.h"
#include "tls-dir.h"

enum { HOT_MS = 10, IDLE_MS = 200, LEAST_MS = 5, ROWS_MAX = 256, LISTED_MAX = 65536, CONNECT_S = 2, ANSWER_S = 4 };

struct place { /* a tenant of a pool */
	char pool[GFID_TEXT];
	char unit[ALLOT_UNIT_NAME + 1];
	uint64_t base;
};
static struct {
	pthread_t thread;
	bool running;
	atomic_bool ending;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool woken;
	CURL *easy;
	uint64_t index;	 /* of the store, whose documents were applied to all that is remembered */
	json_int_t lead; /* of whom what follows was heard */
	struct allot_turn turn;
	bool silent; /* it was said in the log that nobody answers */
} asking = { .lock = PTHREAD_MUTEX_INITIALIZER };

char *allotment_key(const char *pool, uint64_t base)
{
	return path_format("allot/%s.%" PRIu64, pool, base);
}

void allotments_wake(void)
{
	pthread_mutex_lock(&asking.lock);
	asking.woken = true;
	pthread_cond_signal(&asking.changed);
	pthread_mutex_unlock(&asking.lock);
}

/* ---- the pools here ---- */

struct places {
	struct place *at;
	size_t count;
	bool pools;	 /* there are some, though nobody may be remembered there */
	json_t *decides; /* [SET, EPOCH] for each replica set about whose limits a member here decides */
};

static void list_pool(struct allot_pool *p, void *arg)
{
	struct places *all = arg;
	uint64_t *base = malloc(LISTED_MAX * sizeof *base);
	size_t count = base ? p->list(p->pool, base, LISTED_MAX) : 0;
	struct place *grown = realloc(all->at, (all->count + count + 1) * sizeof *grown);

	all->pools = true;
	if (p->unit && p->term(p->pool))
		json_array_append_new(all->decides, json_pack("[s, I]", p->unit, (json_int_t)p->term(p->pool)));
	for (size_t i = 0; grown && i < count; i++) {
		snprintf(grown[all->count].pool, sizeof grown->pool, "%s", p->name);
		snprintf(grown[all->count].unit, sizeof grown->unit, "%s", p->unit ? p->unit : cluster_name());
		grown[all->count++].base = base[i];
	}
	all->at = grown ? grown : all->at;
	free(base);
}

struct known {
	const char *unit;
	struct allot_doc doc;
	uint64_t version;
	bool is;
};

/* False: it could not be read. */
static bool read_document(const char *pool, uint64_t base, struct known *k)
{
	cleanup_path char *key = allotment_key(pool, base);
	struct blob value = { 0 };
	int err = store_get(cluster_store(), key, &value, &k->version);

	/* an empty one, or one that makes no sense, is none (any more) */
	k->is = !err && !allot_parse(value.bytes, value.size, &k->doc) && k->doc.units;
	free(value.bytes);
	return !err || err == -ENOENT;
}

static void get_seen(struct allot_own *own, struct amount taken, struct amount keep, struct amount limit, void *arg)
{
	uint64_t *least = arg, seen = own->doubted ? 0 : own->seen ? own->seen : own->gone;

	(void)taken, (void)keep, (void)limit;
	*least = seen < *least ? seen : *least;
}

static void apply(struct allot_own *own, struct amount taken, struct amount keep, struct amount limit, void *arg)
{
	const struct known *k = arg;

	(void)taken, (void)keep, (void)limit;
	allot_apply(own, k->is ? &k->doc : NULL, k->version, k->unit);
}

/* As long as nothing was committed only those that were not looked at yet. */
static void refresh(const struct place *at, bool is_new_index)
{
	struct known *k = malloc(sizeof *k);
	uint64_t seen = UINT64_MAX;

	allot_with_unit(at->pool, at->unit, false, at->base, get_seen, &seen);
	if (k && seen != UINT64_MAX && (is_new_index || !seen) && read_document(at->pool, at->base, k)) {
		k->unit = at->unit;
		allot_with_unit(at->pool, at->unit, false, at->base, apply, k);
	}
	free(k);
}

/* ---- what is said ---- */

struct saying {
	json_t *rows;
	const struct place *at;
};

static void shrink(struct allot_own *own, struct amount taken, struct amount keep, struct amount limit, void *unused)
{
	(void)keep, (void)unused;
	allot_shrink(own, taken, limit);
}

static void say(struct allot_own *own, struct amount taken, struct amount keep, struct amount limit, void *arg)
{
	struct saying *to = arg;
	struct allot_said s;

	if (!allot_say(own, to->at->unit, taken, keep, limit, &s))
		return;
	json_array_append_new(to->rows,
			      json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:[I,I], s:I, s:b, s:[I,I], s:I, s:[I,I]}",
					"pool", to->at->pool, "unit", s.unit, "base", (json_int_t)to->at->base, "incarnation",
					(json_int_t)s.incarnation, "term", (json_int_t)s.term, "seen", (json_int_t)s.seen,
					"gone", (json_int_t)s.gone, "kinds", (json_int_t)s.kinds, "taken",
					(json_int_t)s.taken.bytes, (json_int_t)s.taken.inodes, "gift", (json_int_t)s.gift,
					"capped", s.capped, "cap", (json_int_t)s.cap.bytes, (json_int_t)s.cap.inodes, "round",
					(json_int_t)s.round, "wants", (json_int_t)s.wants.bytes, (json_int_t)s.wants.inodes));
}

static uint64_t say_some(const struct places *all, json_t *rows)
{
	struct saying to = { .rows = rows };
	size_t at = allot_turn_begin(&asking.turn, all->count);

	for (; at < all->count && json_array_size(rows) < ROWS_MAX; at++) {
		to.at = &all->at[at];
		allot_with_unit(to.at->pool, to.at->unit, false, to.at->base, say, &to);
	}
	return allot_turn_end(&asking.turn, at);
}

static json_t *collect(struct places *all, bool *has_soft)
{
	json_t *rows = json_array();
	uint64_t index = store_index(cluster_store()), part; /* before they are read */

	for (size_t i = 0; i < all->count; i++) {
		const struct place *at = &all->at[i];

		refresh(at, index != asking.index);
		allot_with_unit(at->pool, at->unit, false, at->base, shrink, NULL);
	}
	asking.index = index;
	part = say_some(all, rows);
	return json_pack("{s:s, s:I, s:I, s:I, s:O, s:o, s:o}", "server", cluster_name(), "lead", asking.lead, "part",
			 (json_int_t)part, "done", (json_int_t)asking.turn.done, "decides", all->decides, "rows", rows, "soft",
			 softs_say(has_soft));
}

/* ---- and answered ---- */

static struct amount amount_of(const json_t *pair)
{
	return (struct amount){ json_integer_value(json_array_get(pair, 0)), json_integer_value(json_array_get(pair, 1)) };
}

struct giving {
	struct amount need;
	bool later; /* it is to be taken up first */
};

static void give(struct allot_own *own, struct amount taken, struct amount keep, struct amount limit, void *arg)
{
	struct giving *g = arg;

	allot_give(own, taken, keep, limit, g->need);
	g->later |= own->is_needed;
}

struct deciding {
	uint64_t incarnation, round, version;
	bool granted;
};

static void decided(struct allot_own *own, struct amount taken, struct amount keep, struct amount limit, void *arg)
{
	const struct deciding *d = arg;

	(void)taken, (void)keep, (void)limit;
	allot_answered(own, d->incarnation, d->round, d->version, d->granted);
}

static void note_heard(struct allot_own *own, struct amount taken, struct amount keep, struct amount limit, void *arg)
{
	(void)taken, (void)keep, (void)limit, (void)arg;
	own->last_heard_ns = clock_ns();
}

enum pace { LATER, SOON, NOW };

/* What others need is told of at once: they wait until all have looked. */
static enum pace take_answer(const json_t *answer, const json_t *said)
{
	const json_t *row;
	bool later = false, has_looked;
	size_t i;

	json_array_foreach(json_object_get(answer, "needs"), i, row)
	{
		struct giving g = { .need = amount_of(json_object_get(row, "need")) };

		allot_with_unit(json_text(row, "pool"), json_text(row, "unit"), true, (uint64_t)json_number(row, "base"), give,
				&g);
		later |= g.later;
	}
	json_array_foreach(json_object_get(answer, "answered"), i, row)
	{
		struct deciding d = { (uint64_t)json_number(row, "incarnation"), (uint64_t)json_number(row, "round"),
				      (uint64_t)json_number(row, "version"), json_is_true(json_object_get(row, "granted")) };

		allot_with_unit(json_text(row, "pool"), json_text(row, "unit"), false, (uint64_t)json_number(row, "base"),
				decided, &d);
	}
	json_array_foreach(json_object_get(said, "rows"), i, row)
		allot_with_unit(json_text(row, "pool"), json_text(row, "unit"), false, (uint64_t)json_number(row, "base"),
				note_heard, NULL);
	if (asking.lead != json_number(answer, "lead"))
		asking.turn = (struct allot_turn){ .total = 0 };
	asking.lead = json_number(answer, "lead");
	has_looked = !later && asking.turn.looked != (uint64_t)json_number(answer, "event");
	if (!later)
		asking.turn.looked = (uint64_t)json_number(answer, "event");
	if (!json_array_size(json_object_get(answer, "needs")))
		return json_array_size(json_object_get(said, "rows")) ? SOON : LATER;
	return has_looked ? NOW : SOON;
}

/* ---- the way to who leads ---- */

static size_t take_bytes(char *bytes, size_t one, size_t count, void *to)
{
	return fwrite(bytes, one, count, to);
}

static int is_ending(void *unused, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	(void)unused, (void)a, (void)b, (void)c, (void)d;
	return atomic_load(&asking.ending);
}

void allotments_set_options(void *easy, const char *url, const char *body, FILE *to, const struct tls_dir *tls)
{
	curl_easy_reset(easy); /* the connection stays */
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https");
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)ANSWER_S);
	curl_easy_setopt(easy, CURLOPT_MAXFILESIZE, (long)(1 << 20));
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_bytes);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, to);
	if (body)
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
	curl_easy_setopt(easy, CURLOPT_FAILONERROR, 1L);
	curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, is_ending);
	source_set_tls(easy, tls);
	/* Its address is that of --cluster, which its certificate need not have; only servers' certificates are for servers, and what it answers can do no harm: what
	 * may grow is said by the store. */
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
}

static json_t *ask_other(const char *said)
{
	cleanup_path char *server = cluster_leader_http();
	cleanup_path char *url = server ? path_format("https://%s/v1/allotments", server) : NULL;
	struct problem ignored = { "" };
	struct tls_dir tls;
	char *text = NULL;
	size_t size;
	FILE *to;
	json_t *answer = NULL;

	if (!url || !asking.easy || !tls_dir_wanted() || tls_dir_open(tls_dir_wanted(), &tls, &ignored))
		return NULL;
	to = open_memstream(&text, &size);
	if (to) {
		CURLcode code;

		allotments_set_options(asking.easy, url, said, to, &tls);
		code = curl_easy_perform(asking.easy);
		fclose(to);
		if (!code)
			answer = json_loads(text, 0, NULL);
		else if (!asking.silent && code != CURLE_HTTP_RETURNED_ERROR) /* one that led until now */
			log_info(NULL, NULL, "allotments: no answer from %s, which leads: %s", server,
				 curl_easy_strerror(code));
		asking.silent = code;
	}
	free(text);
	tls_dir_free(&tls);
	return answer;
}

static json_t *ask(json_t *said)
{
	char *text = json_dumps(said, JSON_COMPACT), *answer;
	json_t *parsed = NULL;
	bool bad;

	if (text && store_leads(cluster_store())) {
		answer = allotments_answer(text, &bad);
		parsed = answer ? json_loads(answer, 0, NULL) : NULL;
		free(answer);
	} else if (text) {
		parsed = ask_other(text);
	}
	free(text);
	return parsed;
}

/* When to look again. */
static enum pace exchange(void)
{
	struct places all = { .decides = json_array() };
	enum pace pace = LATER;
	bool has_soft;
	json_t *said, *answer;
	uint64_t sent_ns;

	allot_each_pool(list_pool, &all);
	if (all.pools) {
		said = collect(&all, &has_soft);
		sent_ns = clock_ns();
		answer = ask(said);
		pace = answer ? take_answer(answer, said) : LATER;
		if (!answer)
			allot_turn_fail(&asking.turn);
		if ((softs_hear(json_object_get(answer, "soft"), sent_ns) || has_soft) && pace == LATER)
			pace = SOON;
		json_decref(said);
		json_decref(answer);
	}
	json_decref(all.decides);
	free(all.at);
	return pace;
}

/* ---- the thread ---- */

static void rest(unsigned ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long)ms * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&asking.lock);
	while (!asking.woken && !pthread_cond_timedwait(&asking.changed, &asking.lock, &until))
		;
	asking.woken = false;
	pthread_mutex_unlock(&asking.lock);
}

static void *work(void *arg)
{
	(void)arg;
	while (!atomic_load(&asking.ending)) {
		enum pace pace = exchange();

		if (!allotments_decide())
			allotments_forget();
		usleep(LEAST_MS * 1000);
		if (pace != NOW)
			rest(pace == SOON || allotments_have_work() ? HOT_MS : IDLE_MS);
	}
	return NULL;
}

int allotments_start(struct problem *p)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&asking.changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	asking.easy = curl_global_init(CURL_GLOBAL_DEFAULT) ? NULL : curl_easy_init();
	atomic_store(&asking.ending, false);
	asking.running = !pthread_create(&asking.thread, NULL, work, NULL);
	if (!asking.running)
		return problem_set(p, EAGAIN, "no thread for allotments: the process limit is reached");
	allot_set_waker(allotments_wake);
	allotments_listen();
	return 0;
}

void allotments_stop(void)
{
	if (!asking.running)
		return;
	allot_set_waker(NULL);
	allotments_listen_no_more();
	atomic_store(&asking.ending, true);
	allotments_wake();
	pthread_join(asking.thread, NULL);
	asking.running = false;
	curl_easy_cleanup(asking.easy);
	asking.easy = NULL;
	allotments_forget();
	softs_stop();
}
