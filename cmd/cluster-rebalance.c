/* SPDX-License-Identifier: Apache-2.0 */
/* Has names of a volume's root moved to subvolumes that were added. What is wanted is in the store ("rebalance/VOLUME"), so that whoever leads
 * goes on with it; the work is done by cluster/dht (its command "rebalance") of a client's graph in this process.
 *
 *   cluster rebalance start|stop|status VOLUME      JSON: what the store says, and for the one that leads how far it is
 *
 * A document: "state" (running, as long as it is wanted; stopped; done; failed), and what cluster/dht said when it ended: "version", "moved",
 * "left", "problem", and of how many "subvolumes".
 *
 * One thread starts, stops and asks the graphs: that takes as long as bricks do to answer, and nobody else waits for it. `lock` covers the list of
 * movers and what is told of them, never a graph that starts, stops or is asked. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "client-graph.h"
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
	bool wanted;
	struct mover *next;
};

static struct {
	pthread_mutex_t lock;
	struct mover *movers; /* only the thread changes the list */
	pthread_t thread;
	bool started;
	atomic_bool ending;
} rebalance = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- what the store says ---- */

/* *document: NULL if there is none. *version: the one that a change must name. */
static int read_document(const char *volume, json_t **document, uint64_t *version)
{
	cleanup_path char *key = path_format("rebalance/%s", volume);
	struct blob value = { 0 };
	int err = store_get(cluster_store(), key, &value, version);

	*document = err ? NULL : json_loadb(value.bytes, value.size, 0, NULL);
	free(value.bytes);
	return err == -ENOENT ? 0 : err;
}

static int write_document(const char *volume, json_t *document, uint64_t version)
{
	cleanup_path char *key = path_format("rebalance/%s", volume), *text = json_dumps(document, 0);
	struct blob value = { .size = text ? strlen(text) : 0, .bytes = text };

	return text ? store_replace(cluster_store(), key, version, &value) : -ENOMEM;
}

static bool has_state(const json_t *document, const char *state)
{
	return !strcmp(json_text(document, "state"), state);
}

/* What cluster/dht says when it has ended, or is stopped. */
static json_t *make_document(const char *state, size_t subvolumes, const json_t *told)
{
	static const char *const kept[] = { "version", "moved", "left", "problem" };
	json_t *document = json_pack("{s:s, s:I}", "state", state, "subvolumes", (json_int_t)subvolumes);

	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
		if (json_object_get(told, kept[i]))
			json_object_set(document, kept[i], json_object_get(told, kept[i]));
	return document;
}

/* ---- movers ---- */

static struct mover *find_mover(const char *volume)
{
	struct mover *m = rebalance.movers;

	while (m && strcmp(m->volume, volume))
		m = m->next;
	return m;
}

static void set_told(struct mover *m, json_t *told)
{
	pthread_mutex_lock(&rebalance.lock);
	json_decref(m->told);
	m->told = told;
	pthread_mutex_unlock(&rebalance.lock);
}

static void set_graph(struct mover *m, struct graph *g)
{
	pthread_mutex_lock(&rebalance.lock);
	m->graph = g;
	pthread_mutex_unlock(&rebalance.lock);
}

static int ask(struct graph *g, const char *verb, FILE *to, struct problem *p)
{
	char *word[] = { (char *)"rebalance", (char *)verb, NULL };

	return client_graph_ask(client_graph_dht(g), 2, word, to, p);
}

static int ask_for_deed(struct graph *g, const char *verb, struct problem *p)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);
	int err = to ? ask(g, verb, to, p) : -ENOMEM;

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
	if (!*json_text(m->told, "problem")) /* else a brick that is away would be waited for */
		ask_for_deed(g, "stop",
			     &ignored); /* between two names: a graph that ends in one leaves it to be ended by others */
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
	if (starts && !err) {
		err = ask_for_deed(g, "start", &p);
		if (err)
			graph_stop(g);
	}
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
	pthread_mutex_lock(&rebalance.lock);
	m->next = rebalance.movers;
	rebalance.movers = m;
	pthread_mutex_unlock(&rebalance.lock);
}

/* Takes the text. Another one than before: the graph is made anew. */
static void want(const char *volume, char *text)
{
	struct mover *m = find_mover(volume);

	if (!m) {
		add_mover(volume, text);
		return;
	}
	if (strcmp(m->text, text))
		halt(m);
	free(m->text);
	m->text = text;
	m->wanted = true;
}

static void drop_unwanted(void)
{
	for (struct mover **at = &rebalance.movers, *m; (m = *at);) {
		if (m->wanted) {
			at = &m->next;
			continue;
		}
		halt(m);
		pthread_mutex_lock(&rebalance.lock);
		*at = m->next;
		pthread_mutex_unlock(&rebalance.lock);
		json_decref(m->told);
		free(m->volume);
		free(m->text);
		free(m);
	}
}

/* ---- which there are to be ---- */

static char *take_client(struct volgen_files *files)
{
	char *text = NULL;

	for (size_t i = 0; i < files->count && !text; i++)
		if (files->file[i].kind == VOLGEN_CLIENT) {
			text = files->file[i].text;
			files->file[i].text = NULL;
		}
	return text;
}

/* The volfile of its clients; NULL: it is not served now. */
static char *client_text(const char *volume)
{
	struct volgen_files files = { 0 };
	struct problem ignored = { "" };
	char *text = NULL;
	uint64_t version;
	struct spec s;
	int err = cluster_spec(volume, &s, &version, &ignored);

	if (!err && !s.stopped && spec_subvolumes(&s) > 1 && !volgen(&s, cluster_state(), &files, &ignored))
		text = take_client(&files);
	volgen_free(&files);
	spec_free(&s);
	return text;
}

static void consider(const char *volume)
{
	json_t *document;
	uint64_t version;
	char *text;

	if (!read_document(volume, &document, &version) && has_state(document, "running")) {
		text = client_text(volume);
		if (text)
			want(volume, text);
	}
	json_decref(document);
}

static void agree(bool leads)
{
	static const char prefix[] = "rebalance/";
	char **keys = store_keys(cluster_store(), prefix);

	for (struct mover *m = rebalance.movers; m; m = m->next)
		m->wanted = false;
	for (char **key = keys; key && *key && leads; key++)
		consider(*key + strlen(prefix));
	free(keys);
	drop_unwanted();
	for (struct mover *m = rebalance.movers; m; m = m->next)
		if (!m->graph && !atomic_load(&rebalance.ending))
			launch(m);
}

/* ---- how far they are ---- */

static bool is_number(const char *key)
{
	return !strcmp(key, "version") || !strcmp(key, "moved") || !strcmp(key, "left");
}

static json_t *read_told(char *text, size_t size)
{
	json_t *told = json_object();
	char *at = text, *value;
	const char *key;

	while ((value = location_next(&at, text + size, &key)))
		json_object_set_new(told, key, is_number(key) ? json_integer(atoll(value)) : json_string(value));
	return told;
}

static size_t count_subvolumes(const struct graph *g)
{
	return (size_t)client_graph_dht(g)->children;
}

/* It is done, or will not be: the store remembers it, and agree() lets the graph go. If that can't be written now, it is when it is looked at next. */
static void note_end(const struct mover *m)
{
	json_t *now, *document = make_document(json_text(m->told, "state"), count_subvolumes(m->graph), m->told);
	uint64_t version;

	if (!read_document(m->volume, &now, &version) && has_state(now, "running") &&
	    !write_document(m->volume, document, version))
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
	err = ask(m->graph, "status", to, &p);
	fclose(to);
	set_told(m, err ? json_pack("{s:s}", "problem", p.text) : read_told(text, size));
	free(text);
	if (has_state(m->told, "done") || has_state(m->told, "failed"))
		note_end(m);
	else if (has_state(m->told, "stopped")) /* by hand: the store wants it to run */
		ask_for_deed(m->graph, "start", &p);
}

static void *run(void *arg)
{
	uint64_t index = UINT64_MAX, seen, next_ns = 0;
	bool led = false;

	(void)arg;
	while (!atomic_load(&rebalance.ending)) {
		bool leads = store_leads(cluster_store());

		seen = store_index(cluster_store());
		if (seen != index || leads != led || clock_ns() >= next_ns) {
			agree(leads);
			next_ns = clock_ns() + RETRY_MS * 1000000ull;
		}
		index = seen;
		led = leads;
		for (struct mover *m = rebalance.movers; m; m = m->next)
			if (m->graph)
				look_at(m);
		store_wait(cluster_store(), index, rebalance.movers ? ASK_MS : RETRY_MS);
	}
	agree(false);
	return NULL;
}

int cluster_rebalance_start(struct problem *p)
{
	atomic_store(&rebalance.ending, false);
	rebalance.started = !pthread_create(&rebalance.thread, NULL, run, NULL);
	return rebalance.started ? 0 : problem_set(p, EAGAIN, "no thread for moving names: the process limit is reached");
}

void cluster_rebalance_stop(void)
{
	atomic_store(&rebalance.ending, true);
	if (rebalance.started)
		pthread_join(rebalance.thread, NULL);
	rebalance.started = false;
}

void cluster_rebalance_each_graph(void (*fn)(struct graph *, void *), void *arg)
{
	pthread_mutex_lock(&rebalance.lock);
	for (struct mover *m = rebalance.movers; m; m = m->next)
		if (m->graph)
			fn(m->graph, arg);
	pthread_mutex_unlock(&rebalance.lock);
}

/* ---- commands ---- */

/* What a mover of this server tells, a copy; NULL if there is none. */
static json_t *told_here(const char *volume)
{
	const struct mover *m;
	json_t *told = NULL;

	pthread_mutex_lock(&rebalance.lock);
	m = find_mover(volume);
	if (m)
		told = m->told ? json_copy(m->told) : json_object();
	pthread_mutex_unlock(&rebalance.lock);
	return told;
}

/* How it stands: what the store says, and as long as it runs what is told here. */
static json_t *describe(const struct spec *s, const json_t *document, json_t *told)
{
	bool running = has_state(document, "running");
	json_t *all = document ? json_copy((json_t *)document) : json_pack("{s:s}", "state", "idle");

	if (running && told)
		json_object_update(all, told);
	if (running)
		json_object_set_new(all, "state", json_string("running"));
	else if (told && has_state(document, "stopped"))
		json_object_set_new(all, "state", json_string("stopping"));
	json_object_set_new(all, "here", json_boolean(told != NULL));
	json_object_set_new(all, "volume", json_string(s->volume));
	json_object_set_new(all, "subvolumes", json_integer((json_int_t)spec_subvolumes(s)));
	json_object_set_new(all, "began-with", json_integer((json_int_t)spec_began_with(s)));
	return all;
}

static int answer(const struct spec *s, FILE *to)
{
	json_t *document, *told, *all;
	uint64_t version;
	int err = read_document(s->volume, &document, &version);

	if (err)
		return err;
	told = told_here(s->volume);
	all = describe(s, document, told);
	json_dumpf(all, to, 0);
	json_decref(all);
	json_decref(told);
	json_decref(document);
	return 0;
}

static int replace_document(const struct spec *s, json_t *document, uint64_t version, struct problem *p)
{
	int err = write_document(s->volume, document, version);

	if (err == -ESTALE)
		return problem_set(p, ESTALE,
				   "somebody else has started or stopped it in the meantime: look at it and try again");
	return cluster_commit_problem(err, p);
}

/* All subvolumes have their part of the names, as far as the store knows. */
static bool is_balanced(const struct spec *s, const json_t *document)
{
	if (!document)
		return spec_began_with(s) == spec_subvolumes(s);
	return has_state(document, "done") && (size_t)json_number(document, "subvolumes") == spec_subvolumes(s);
}

static int begin(const struct spec *s, const json_t *document, uint64_t version, struct problem *p)
{
	json_t *wanted;
	int err;

	if (s->stopped)
		return problem_set(p, EBUSY, "volume %s is stopped: `stratus volume start %s` first", s->volume, s->volume);
	if (has_state(document, "running") || is_balanced(s, document))
		return 0;
	wanted = make_document("running", spec_subvolumes(s), NULL);
	err = replace_document(s, wanted, version, p);
	json_decref(wanted);
	return err;
}

static int end(const struct spec *s, const json_t *document, uint64_t version, struct problem *p)
{
	json_t *told, *wanted;
	int err;

	if (!has_state(document, "running"))
		return 0;
	told = told_here(s->volume);
	wanted = make_document("stopped", spec_subvolumes(s), told);
	err = replace_document(s, wanted, version, p);
	json_decref(wanted);
	json_decref(told);
	return err;
}

static int change(const struct spec *s, const char *verb, struct problem *p)
{
	json_t *document;
	uint64_t version;
	int err = read_document(s->volume, &document, &version);

	if (!err)
		err = !strcmp(verb, "start") ? begin(s, document, version, p) : end(s, document, version, p);
	json_decref(document);
	return err;
}

int cluster_rebalance_command(int words, char **word, FILE *out, struct problem *p)
{
	const char *verb = words == 4 ? word[2] : "";
	bool changes = !strcmp(verb, "start") || !strcmp(verb, "stop");
	uint64_t version;
	struct spec s;
	int err;

	if (!changes && strcmp(verb, "status"))
		return problem_set(p, EINVAL, "cluster rebalance takes start, stop or status, and a volume");
	err = cluster_spec(word[3], &s, &version, p);
	if (!err && changes)
		err = change(&s, verb, p);
	if (!err)
		err = answer(&s, out);
	spec_free(&s);
	return err;
}

int cluster_rebalance_check(const char *volume, struct problem *p)
{
	json_t *document;
	uint64_t version;
	int err = read_document(volume, &document, &version);

	if (!err && document && !has_state(document, "done"))
		err = problem_set(
			p, EBUSY,
			"names of volume %s are still to move to what was added last: `stratus rebalance start --wait %s` first",
			volume, volume);
	json_decref(document);
	return err;
}
