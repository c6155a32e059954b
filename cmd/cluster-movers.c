/* SPDX-License-Identifier: Apache-2.0 */
/* The graphs that move names of a volume's root to subvolumes that were added, and names of directories that have grown large: each is a client's, without a
 * mount, whose cluster/dht does it (its command "rebalance"). They run where the cluster's leader is: for the root as long as the store wants it; for large directories
 * while the volume is served, if its specification says how many names that is (widen-at).
 *
 * One thread starts, stops and asks the graphs: that takes as long as bricks do to answer, and nobody else waits for it. `lock` covers the list of
 * movers and what is told of them, never a graph that starts, stops or is asked. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "client-graph.h"
#include "cluster-rebalance.h"
#include "cluster.h"
#include "json.h"
#include "location.h"
#include "log.h"
#include "path.h"
#include "store.h"
#include "task.h"

enum { ASK_MS = 500, RETRY_MS = 5000 };

struct mover {
	char *volume, *text; /* text: the volfile of the graph */
	struct graph *graph; /* NULL: could not be started yet */
	json_t *told;	     /* by cluster/dht, or {"problem"} */
	bool wanted, moves, widens; /* moves: names of the root, as the store wants it; widens: large directories */
	struct mover *next;
};

static struct {
	pthread_mutex_t lock;
	struct mover *movers; /* only the thread changes the list */
	pthread_t thread;
	bool started;
	atomic_bool ending;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct mover *find_mover(const char *volume)
{
	struct mover *m = all.movers;

	while (m && strcmp(m->volume, volume))
		m = m->next;
	return m;
}

static void set_told(struct mover *m, json_t *told)
{
	pthread_mutex_lock(&all.lock);
	json_decref(m->told);
	m->told = told;
	pthread_mutex_unlock(&all.lock);
}

static void set_graph(struct mover *m, struct graph *g)
{
	pthread_mutex_lock(&all.lock);
	m->graph = g;
	pthread_mutex_unlock(&all.lock);
}

static int ask(struct graph *g, bool widens, const char *verb, FILE *to, struct problem *p)
{
	char *word[] = { (char *)"rebalance", widens ? (char *)"widen" : (char *)verb, (char *)verb, NULL };

	return client_graph_ask(client_graph_dht(g), 2 + widens, word, to, p);
}

static int ask_for_deed(struct graph *g, bool widens, const char *verb, struct problem *p)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);
	int err = to ? ask(g, widens, verb, to, p) : -ENOMEM;

	if (to)
		fclose(to);
	free(text);
	return err;
}

static void halt(struct mover *m)
{
	struct problem ignored = { "" };
	struct graph *g = m->graph;

	if (!g)
		return;
	/* Between two names: a graph that ends in one leaves it to be ended by others. But a brick that is away would be waited for. */
	if (!*json_text(m->told, "problem")) {
		ask_for_deed(g, true, "stop", &ignored);
		ask_for_deed(g, false, "stop", &ignored);
	}
	set_graph(m, NULL);
	graph_stop(g);
	graph_destroy(g);
	log_info(NULL, NULL, "volume %s: names are not moved from here any more", m->volume);
}

static int make_graph(const struct mover *m, struct graph **g, struct problem *p)
{
	cleanup_path char *name = path_format("%s:rebalance", m->volume);
	struct volfile file = { 0 };
	int err = volfile_parse(m->text, strlen(m->text), name, &file, p);

	if (!err) {
		client_graph_drop_mount(&file);
		err = graph_create(&file, NULL, NULL, g, p);
	}
	volfile_free(&file);
	return err;
}

/* What fails is tried again. */
static void launch(struct mover *m)
{
	struct problem p = { "" };
	struct graph *g = NULL;
	int err = make_graph(m, &g, &p);
	bool starts = !err;

	if (starts)
		err = graph_start(g, &p);
	if (starts && !err && m->moves)
		err = ask_for_deed(g, false, "start", &p);
	if (starts && !err && m->widens)
		err = ask_for_deed(g, true, "start", &p);
	if (starts && err)
		graph_stop(g);
	if (!err) {
		set_graph(m, g);
		log_info(NULL, NULL, "volume %s: names are moved from here", m->volume);
		return;
	}
	graph_destroy(g);
	problem_set(&p, -err, "%s", strerror(-err));
	if (strcmp(p.text, json_text(m->told, "problem"))) /* once, not at each attempt */
		log_error(NULL, NULL, "volume %s: names can't be moved: %s", m->volume, p.text);
	set_told(m, json_pack("{s:s}", "problem", p.text));
}

static void add_mover(const char *volume, char *text)
{
	struct mover *m = calloc(1, sizeof *m);

	if (!m) {
		free(text);
		return; /* tried again later */
	}
	*m = (struct mover){ .volume = path_format("%s", volume), .text = text, .wanted = true };
	pthread_mutex_lock(&all.lock);
	m->next = all.movers;
	all.movers = m;
	pthread_mutex_unlock(&all.lock);
}

/* Takes the text. Another one than before: the graph is made anew. */
static void want(const char *volume, char *text, bool moves, bool widens)
{
	struct mover *m = find_mover(volume);

	if (!m) {
		add_mover(volume, text);
		m = find_mover(volume);
		if (m) {
			m->moves = moves;
			m->widens = widens;
		}
		return;
	}
	if (m->moves != moves || m->widens != widens)
		halt(m);
	m->moves = moves;
	m->widens = widens;
	if (strcmp(m->text, text))
		halt(m);
	free(m->text);
	m->text = text;
	m->wanted = true;
}

static void drop_unwanted(void)
{
	for (struct mover **at = &all.movers, *m; (m = *at);) {
		if (m->wanted) {
			at = &m->next;
			continue;
		}
		halt(m);
		pthread_mutex_lock(&all.lock);
		*at = m->next;
		pthread_mutex_unlock(&all.lock);
		json_decref(m->told);
		free(m->volume);
		free(m->text);
		free(m);
	}
}

/* ---- which there are to be ---- */

static bool grows_wide(const struct spec *s)
{
	for (size_t i = 0; i < s->types; i++)
		for (size_t k = 0; k < s->by_type[i].options && !strcmp(s->by_type[i].type, "features/layout"); k++)
			if (!strcmp(s->by_type[i].option[k].name, "widen-at"))
				return strcmp(s->by_type[i].option[k].value, "0") != 0;
	return false;
}

/* The volfile of its clients; NULL: it is not served now, or needs no mover. */
static char *client_text(const char *volume, bool moves, bool *widens)
{
	struct volgen_files files = { 0 };
	struct problem ignored = { "" };
	char *text = NULL;
	uint64_t version;
	struct spec s;
	int err = cluster_spec(volume, &s, &version, &ignored);

	*widens = !err && grows_wide(&s);
	if (!err && !s.stopped && (moves || *widens) && spec_subvolumes(&s) > 1 && !volgen(&s, cluster_state(), &files, &ignored))
		text = volgen_take(&files, VOLGEN_CLIENT);
	volgen_free(&files);
	spec_free(&s);
	return text;
}

/* The last bricks have been emptied, and nothing comes to them any more. If that can't be written now, it is when it is looked at next. */
static void take_out_emptied(const char *volume, const json_t *document)
{
	struct problem p = { "" };
	uint64_t version;
	struct spec s;
	int err = cluster_spec(volume, &s, &version, &p);
	bool emptied = !err && s.leaving && rebalance_is(document, "done") &&
		       (size_t)json_number(document, "subvolumes") < spec_subvolumes(&s);

	spec_free(&s);
	if (!emptied)
		return;
	err = cluster_take_out(volume, &p);
	if (err)
		log_error(NULL, NULL, "volume %s: its last bricks are empty, and can't be taken out: %s", volume,
			  *p.text ? p.text : strerror(-err));
	else
		log_info(NULL, NULL, "volume %s: its last bricks were empty, and have left it", volume);
}

static void consider(const char *volume)
{
	json_t *document;
	uint64_t version;
	bool widens, moves = !rebalance_read(volume, &document, &version) && rebalance_is(document, "running");
	char *text;

	take_out_emptied(volume, document);
	text = client_text(volume, moves, &widens);

	if (text)
		want(volume, text, moves, widens);
	json_decref(document);
}

static void agree(bool leads)
{
	static const char prefix[] = "volume/";
	char **keys = store_keys(cluster_store(), prefix);

	for (struct mover *m = all.movers; m; m = m->next)
		m->wanted = false;
	for (char **key = keys; key && *key && leads; key++)
		consider(*key + strlen(prefix));
	free(keys);
	drop_unwanted();
	for (struct mover *m = all.movers; m; m = m->next)
		if (!m->graph && !atomic_load(&all.ending))
			launch(m);
}

/* ---- how far they are ---- */

static bool is_number(const char *key)
{
	static const char *const numbers[] = { "version", "moved", "left", "files", "bytes", "copied", "failed" };

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (!strcmp(key, numbers[i]))
			return true;
	return !strncmp(key, "skipped-", 8) || !strncmp(key, "stays-", 6);
}

/* Names in it may be of any bytes. */
static json_t *text_of(const char *value)
{
	json_t *text = json_string(value);

	return text ? text : json_string("something with a name that is no UTF-8, as the log tells");
}

static json_t *read_told(char *text, size_t size)
{
	json_t *told = json_object();
	char *at = text, *value;
	const char *key;

	while ((value = location_next(&at, text + size, &key)))
		if (!json_object_get(told, key))
			json_object_set_new(told, key, is_number(key) ? json_integer(atoll(value)) : text_of(value));
	return told;
}

static size_t count_subvolumes(const struct graph *g)
{
	return (size_t)client_graph_dht(g)->children;
}

/* It is done, or will not be: the store remembers it, and agree() lets the graph go. If that can't be written now, it is when it is looked at next. */
static void note_end(const struct mover *m)
{
	bool leaves = json_object_get(m->told, "leaving") && rebalance_is(m->told, "done");
	json_t *now, *document = rebalance_document(json_text(m->told, "state"), count_subvolumes(m->graph) - leaves, m->told);
	uint64_t version;

	if (!rebalance_read(m->volume, &now, &version) && rebalance_is(now, "running") &&
	    !rebalance_write(m->volume, document, version))
		log_info(NULL, NULL, "volume %s: moving names is %s: %" JSON_INTEGER_FORMAT " moved%s%s", m->volume,
			 json_text(m->told, "state"), json_number(m->told, "moved"), *json_text(m->told, "problem") ? "; " : "",
			 json_text(m->told, "problem"));
	json_decref(now);
	json_decref(document);
}

static void look_at(struct mover *m)
{
	struct problem p = { "" };
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);
	int err;

	if (!to)
		return;
	err = ask(m->graph, false, "status", to, &p);
	fclose(to);
	set_told(m, err ? json_pack("{s:s}", "problem", p.text) : read_told(text, size));
	free(text);
	if (rebalance_is(m->told, "done") || rebalance_is(m->told, "failed"))
		note_end(m);
	else if (rebalance_is(m->told, "stopped")) /* by hand: the store wants it to run */
		ask_for_deed(m->graph, false, "start", &p);
}

static void *run(void *arg)
{
	uint64_t index = UINT64_MAX, seen, next_ns = 0;
	bool led = false;

	(void)arg;
	while (!atomic_load(&all.ending)) {
		bool leads = store_leads(cluster_store());

		seen = store_index(cluster_store());
		if (seen != index || leads != led || clock_ns() >= next_ns) {
			agree(leads);
			next_ns = clock_ns() + RETRY_MS * 1000000ull;
		}
		index = seen;
		led = leads;
		for (struct mover *m = all.movers; m; m = m->next)
			if (m->graph && m->moves)
				look_at(m);
		store_wait(cluster_store(), index, all.movers ? ASK_MS : RETRY_MS);
	}
	agree(false);
	return NULL;
}

int movers_start(struct problem *p)
{
	atomic_store(&all.ending, false);
	all.started = !pthread_create(&all.thread, NULL, run, NULL);
	return all.started ? 0 : problem_set(p, EAGAIN, "no thread for moving names: the process limit is reached");
}

void movers_stop(void)
{
	atomic_store(&all.ending, true);
	if (all.started)
		pthread_join(all.thread, NULL);
	all.started = false;
}

void movers_each_graph(void (*fn)(struct graph *, void *), void *arg)
{
	pthread_mutex_lock(&all.lock);
	for (struct mover *m = all.movers; m; m = m->next)
		if (m->graph)
			fn(m->graph, arg);
	pthread_mutex_unlock(&all.lock);
}

json_t *movers_told(const char *volume)
{
	const struct mover *m;
	json_t *told = NULL;

	pthread_mutex_lock(&all.lock);
	m = find_mover(volume);
	if (m && m->moves)
		told = m->told ? json_deep_copy(m->told) : json_object();
	pthread_mutex_unlock(&all.lock);
	return told;
}
