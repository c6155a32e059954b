/* SPDX-License-Identifier: Apache-2.0 */
/* The graphs that move names of a volume's root to subvolumes that were added, and names of directories that have grown large: each is a client's, without a
 * mount, whose cluster/dht does it (its command "rebalance"). They run where the cluster's leader is: for the root as long as the store wants it; for large directories
 * while the volume is served, if its specification says how many names that is (widen-at). Of a volume with tenants: one for each of some of them at a time
 * (cluster-fleet.c).
 *
 * One thread starts, stops and asks the graphs: that takes as long as bricks do to answer, and nobody else waits for it. `lock` covers the list of
 * movers and what is told of them, never a graph that starts, stops or is asked. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "client-graph.h"
#include "cluster-fleet.h"
#include "cluster-rebalance.h"
#include "cluster.h"
#include "json.h"
#include "log.h"
#include "mover-graph.h"
#include "path.h"
#include "store.h"
#include "task.h"

enum { ASK_MS = 500, FLEET_MS = 20, RETRY_MS = 5000 };
#define NOTE_NS 2000000000u

struct mover {
	char *volume, *text;	    /* text: the volfile of the graph */
	struct graph *graph;	    /* NULL: could not be started yet */
	json_t *told;		    /* by cluster/dht, or {"problem"} */
	bool wanted, moves, widens; /* moves: names of the root, as the store wants it; widens: large directories */
	bool paused; /* what is moved keeps its place, and nothing more is begun; but a layout that is half written is written */
	bool stopped;	     /* that is all that it is there for: nobody is told of it */
	struct fleet *fleet; /* of a volume with tenants, in place of the graph */
	json_int_t begun;    /* as the store's document says: see cluster-rebalance.h */
	json_int_t noted_through;
	uint64_t noted_ns;
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

static void set_fleet(struct mover *m, struct fleet *f)
{
	pthread_mutex_lock(&all.lock);
	m->fleet = f;
	pthread_mutex_unlock(&all.lock);
}

static void halt(struct mover *m)
{
	struct graph *g = m->graph;
	struct fleet *f = m->fleet;

	set_fleet(m, NULL);
	fleet_destroy(f);
	if (g) {
		set_graph(m, NULL);
		mover_graph_end(g, *json_text(m->told, "problem"));
	}
	if (f || g)
		log_info(NULL, NULL, "volume %s: names are not moved from here any more", m->volume);
}

/* What fails is tried again. */
static void launch(struct mover *m)
{
	cleanup_path char *name = path_format("%s:rebalance", m->volume);
	struct problem p = { "" };
	struct graph *g = NULL;
	int err = mover_graph_create(name, m->text, NULL, &g, &p);
	bool starts = !err;

	if (starts)
		err = graph_start(g, &p);
	if (starts && !err && m->moves)
		err = mover_graph_tell(g, false, m->paused ? "start-paused" : "start", &p);
	if (starts && !err && m->widens)
		err = mover_graph_tell(g, true, "start", &p);
	if (starts && err)
		graph_stop(g);
	if (!err) {
		set_graph(m, g);
		log_info(NULL, NULL, "volume %s: names are moved from here", m->volume);
		return;
	}
	graph_destroy(g);
	problem_set(&p, -err, "%s", error_text(err));
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

static void set_begun(struct mover *m, json_int_t begun)
{
	pthread_mutex_lock(&all.lock);
	m->begun = begun;
	pthread_mutex_unlock(&all.lock);
}

/* What has begun anew, for another subvolume is to leave or none is, begins with nothing done. */
static void agree_begun(struct mover *m, const json_t *document)
{
	if (m->begun != rebalance_begun(document))
		halt(m);
	set_begun(m, rebalance_begun(document));
}

/* Takes the text, of a volume with tenants. */
static void want_fleet(const struct spec *s, char *text, const json_t *document)
{
	struct mover *m = find_mover(s->volume);

	if (!m)
		add_mover(s->volume, path_format("%s", text));
	m = m ? m : find_mover(s->volume);
	if (m) {
		m->wanted = m->moves = true;
		agree_begun(m, document);
		if (!m->fleet) {
			set_fleet(m, fleet_create(document));
			log_info(NULL, NULL, "volume %s: names of its tenants are moved from here", m->volume);
		}
		if (m->fleet)
			fleet_want(m->fleet, s, text);
		free(m->text);
		m->text = path_format("%s", text);
	}
	free(text);
}

/* When what was to be halted for that has been: then it has stopped. */
static void agree_state_of(struct mover *m, const json_t *document)
{
	pthread_mutex_lock(&all.lock);
	m->stopped = rebalance_is(document, "stopped");
	m->paused = m->stopped || rebalance_is(document, "paused");
	pthread_mutex_unlock(&all.lock);
}

/* Takes the text. Another one than before: the graph is made anew. */
static void want(const char *volume, char *text, bool moves, bool widens, const json_t *document)
{
	struct mover *m = find_mover(volume);

	if (!m) {
		add_mover(volume, text);
		m = find_mover(volume);
		if (m) {
			m->moves = moves;
			m->widens = widens;
			agree_state_of(m, document);
			set_begun(m, rebalance_begun(document));
		}
		return;
	}
	agree_begun(m, document);
	if (m->moves != moves || m->widens != widens || m->stopped != rebalance_is(document, "stopped"))
		halt(m);
	m->moves = moves;
	m->widens = widens;
	agree_state_of(m, document);
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

/* The volfile of its clients; NULL: none can be made. */
static char *client_text(const struct spec *s)
{
	struct problem ignored = { "" };
	char *text;

	cluster_spec_client(s, &text, &ignored);
	return text;
}

/* The bricks that leave have been emptied, and nothing comes to them any more. If that can't be written now, it is when it is looked at next. */
static void take_out_emptied(const struct spec *s, const json_t *document)
{
	struct problem p = { "" };
	int err;

	if (!s->leaving || !rebalance_is(document, "done") || rebalance_numbers(document) != spec_staying(s) ||
	    (s->has_tenants && fleet_lacks(s, document)))
		return;
	err = cluster_take_out(s->volume, &p);
	if (err)
		log_error(NULL, NULL, "volume %s: the bricks that leave it are empty, and can't be taken out: %s", s->volume,
			  *p.text ? p.text : error_text(err));
	else
		log_info(NULL, NULL, "volume %s: bricks were empty, and have left it", s->volume);
}

/* Who became a tenant when names had moved, or were moving, has his over the bricks with which the volume began, until they have moved, too. But not to bricks that
 * others have no names at: the store does not know of his there, and they may be removed at once. He has his turn with the others then. */
static bool has_new_tenants(const struct spec *s, const json_t *document)
{
	return s->has_tenants && rebalance_is(document, "done") && rebalance_numbers(document) == spec_staying(s) &&
	       (s->leaving || spec_began_with(s) < spec_subvolumes(s)) && fleet_lacks(s, document);
}

/* holds: nobody moves names, but none waits for that either. (Of tenants it is not known in whose tree a layout may be half written.) */
static void consider_spec(const struct spec *s, const json_t *document)
{
	bool holds = !s->has_tenants && (rebalance_is(document, "paused") || rebalance_is(document, "stopped"));
	bool moves = rebalance_is(document, "running") || holds || has_new_tenants(s, document);
	bool widens = !s->has_tenants && grows_wide(s);
	char *text = NULL;

	take_out_emptied(s, document);
	if (!s->stopped && (moves || widens) && spec_subvolumes(s) > 1)
		text = client_text(s);
	if (text && s->has_tenants)
		want_fleet(s, text, document);
	else if (text)
		want(s->volume, text, moves, widens, document);
}

static void consider(const char *volume)
{
	struct problem ignored = { "" };
	json_t *document;
	uint64_t version;
	const struct spec *s;

	if (rebalance_read(volume, &document, &version))
		json_decref(document), document = NULL;
	if (!cluster_spec(volume, &s, &version, &ignored))
		consider_spec(s, document);
	cluster_spec_release(s);
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
		if (!m->graph && !m->fleet && !atomic_load(&all.ending))
			launch(m);
}

/* ---- how far they are ---- */

/* The subvolumes of its graph, without the one that has been emptied, if it is to say so. */
static uint64_t numbers_of(const struct mover *m, bool without_leaver)
{
	const struct xlator *dht = client_graph_dht(m->graph);
	uint64_t numbers = 0;

	for (int i = 0; i < dht->children; i++) {
		bool left = !strcmp(dht->child[i]->type->name, "cluster/absent") ||
			    (without_leaver && !strcmp(dht->child[i]->name, json_text(m->told, "leaving")));

		numbers |= left ? 0 : UINT64_C(1) << i;
	}
	return numbers;
}

/* numbers: of the subvolumes that have the names now. What it has done is not what has begun meanwhile, if something has; and of new tenants alone, not for others that came meanwhile. */
static void note_end_as(const struct mover *m, uint64_t numbers, const char *state, const json_t *told)
{
	json_t *now, *document = rebalance_document(state, numbers, m->begun, told);
	uint64_t version;

	if (!rebalance_read(m->volume, &now, &version) && rebalance_begun(now) == m->begun &&
	    (rebalance_is(now, "running") || (m->fleet && rebalance_is(now, "done") && rebalance_numbers(now) == numbers)) &&
	    !rebalance_write(m->volume, document, version))
		log_info(NULL, NULL, "volume %s: moving names is %s: %" JSON_INTEGER_FORMAT " moved%s%s", m->volume, state,
			 json_number(told, "moved"), *json_text(told, "problem") ? "; " : "", json_text(told, "problem"));
	json_decref(now);
	json_decref(document);
}

/* It is done, or will not be: the store remembers it, and agree() lets the graph go. If that can't be written now, it is when it is looked at next. */
static void note_end(const struct mover *m)
{
	note_end_as(m, numbers_of(m, rebalance_is(m->told, "done")), json_text(m->told, "state"), m->told);
}

/* What was told by hand counts for nothing: it is as the store wants it. */
static void agree_state(const struct mover *m)
{
	struct problem ignored;
	bool runs = rebalance_is(m->told, "running"), paused = rebalance_is(m->told, "paused"),
	     ended = rebalance_is(m->told, "stopped") || rebalance_is(m->told, "idle");

	if (m->paused && (runs || ended))
		mover_graph_tell(m->graph, false, runs ? "pause" : "start-paused", &ignored);
	else if (!m->paused && (paused || ended))
		mover_graph_tell(m->graph, false, "start", &ignored);
}

static void look_at(struct mover *m)
{
	set_told(m, mover_graph_ask(m->graph));
	if (rebalance_is(m->told, "done") || rebalance_is(m->told, "failed"))
		note_end(m);
	else
		agree_state(m);
}

/* ---- tenants ---- */

/* How far it is, now and then: who leads next goes on from there. */
static void note_progress(struct mover *m, const json_t *done)
{
	json_t *now, *document;
	uint64_t version;

	if (clock_ns() < m->noted_ns + NOTE_NS || json_number(done, "through") == m->noted_through)
		return;
	if (!rebalance_read(m->volume, &now, &version) && rebalance_is(now, "running") && rebalance_begun(now) == m->begun) {
		document = rebalance_document("running", rebalance_numbers(now), m->begun, done);
		if (!rebalance_write(m->volume, document, version))
			m->noted_through = json_number(done, "through");
		json_decref(document);
	}
	m->noted_ns = clock_ns();
	json_decref(now);
}

/* By the specification as it is now: a tenant may have come since. */
static void note_fleet_end(struct mover *m, const json_t *done)
{
	struct problem ignored = { "" };
	uint64_t version;
	const struct spec *s;

	if (!cluster_spec(m->volume, &s, &version, &ignored)) {
		if (!fleet_lacks(s, done))
			note_end_as(m, spec_staying(s), "done", done);
		else
			fleet_want(m->fleet, s, m->text);
	}
	cluster_spec_release(s);
}

static void work_at(struct mover *m)
{
	bool all_done = fleet_work(m->fleet);
	json_t *done = fleet_done(m->fleet);

	if (all_done)
		note_fleet_end(m, done);
	else
		note_progress(m, done);
	json_decref(done);
}

static bool work(void)
{
	bool fleets = false;

	for (struct mover *m = all.movers; m; m = m->next) {
		if (m->fleet)
			work_at(m);
		else if (m->graph && m->moves)
			look_at(m);
		fleets |= m->fleet != NULL;
	}
	return fleets;
}

static void *run(void *arg)
{
	uint64_t index = UINT64_MAX, seen, next_ns = 0;
	bool led = false, fleets;

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
		fleets = work();
		store_wait(cluster_store(), index, fleets ? FLEET_MS : all.movers ? ASK_MS : RETRY_MS);
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
		else if (m->fleet)
			fleet_each_graph(m->fleet, fn, arg);
	pthread_mutex_unlock(&all.lock);
}

json_t *movers_told(const char *volume)
{
	const struct mover *m;
	json_t *told = NULL;

	pthread_mutex_lock(&all.lock);
	m = find_mover(volume);
	if (m && m->fleet)
		told = fleet_told(m->fleet);
	else if (m && m->moves && !m->stopped)
		told = m->told ? json_deep_copy(m->told) : json_object();
	if (told)
		json_object_set_new(told, "begun", json_integer(m->begun));
	pthread_mutex_unlock(&all.lock);
	return told;
}
