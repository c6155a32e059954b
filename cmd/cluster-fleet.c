/* SPDX-License-Identifier: Apache-2.0 */
/* There may be many thousands of tenants, most of them idle and with next to nothing: so AT_A_TIME of them have a graph, in the order of their ids, which is that in which they came. One
 * that gets no further (a brick is away, a file is locked) makes room for others, and has its turn again when they have had theirs. What is done is known by one number,
 * "through": all tenants with lower ids are. It is in the store, so whoever leads next goes on from there; what is dealt with twice is nothing the second time.
 *
 * One thread calls all of it but fleet_told and fleet_each_graph: `lock` is for these. */
#include "cluster-fleet.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cluster.h"
#include "json.h"
#include "log.h"
#include "mover-graph.h"
#include "path.h"
#include "task.h"

enum { AT_A_TIME = 4, DOUBLED_MOST = 10 };
#define PATIENCE_NS 20000000000u /* without progress, if others wait */
#define WAITS_NS                                                                                                               \
	120000000000u /* so long while it waits for what is old to be ended: two of cluster/dht's sweep-intervals, and what that takes */
#define RETRY_NS 5000000000u /* after a graph could not be started */

struct member { /* a tenant */
	char name[65];
	struct gfid id;
	uint32_t base;
	bool done, at_work;
	unsigned turn; /* how often it has had to make room, or could not be begun */
	unsigned made_room;
};
struct slot {
	struct member *member; /* NULL: none */
	struct graph *graph;
	json_t *told;
	uint64_t seen; /* what it had done when it was last seen to get further */
	uint64_t seen_ns;
};
struct fleet {
	pthread_mutex_t lock;
	char *volume, *text;
	struct member *member; /* by base */
	size_t members;
	uint32_t begin, end; /* done before; the first id that no tenant has */
	struct slot slot[AT_A_TIME];
	json_t *sums; /* of those that are done */
	uint64_t started_ns, retry_ns;
	size_t done_here;
	char problem[512]; /* of the last one that could not be begun */
};

/* ---- numbers ---- */

static bool is_sum(const char *key)
{
	static const char *const sums[] = { "moved", "files", "bytes", "copied", "failed" };

	for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
		if (!strcmp(key, sums[i]))
			return true;
	return !strncmp(key, "skipped-", 8);
}

static void add(json_t *sums, const json_t *told, bool under_way)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)told, key, value)
	{
		bool counts = is_sum(key) || (under_way && (!strcmp(key, "left") || !strncmp(key, "stays-", 6)));

		if (counts && json_is_integer(value))
			json_object_set_new(sums, key, json_integer(json_number(sums, key) + json_integer_value(value)));
	}
}

static uint32_t through_of(const json_t *document)
{
	json_int_t through = json_number(document, "through");

	return through > 0 && through <= UINT32_MAX ? (uint32_t)through : 0;
}

struct fleet *fleet_create(const json_t *document)
{
	struct fleet *f = calloc(1, sizeof *f);

	if (!f)
		return NULL;
	pthread_mutex_init(&f->lock, NULL);
	f->sums = json_object();
	add(f->sums, document, false);
	f->begin = through_of(document);
	f->started_ns = clock_ns();
	return f;
}

/* ---- graphs ---- */

static void end_slot(struct fleet *f, struct slot *s, bool at_once)
{
	struct graph *g = s->graph;

	if (s->member)
		s->member->at_work = false;
	pthread_mutex_lock(&f->lock);
	json_decref(s->told);
	*s = (struct slot){ 0 };
	pthread_mutex_unlock(&f->lock);
	if (g)
		mover_graph_end(g, at_once);
}

static void end_all(struct fleet *f)
{
	for (size_t i = 0; i < AT_A_TIME; i++)
		end_slot(f, &f->slot[i], f->slot[i].told && *json_text(f->slot[i].told, "problem"));
}

void fleet_destroy(struct fleet *f)
{
	if (!f)
		return;
	end_all(f);
	json_decref(f->sums);
	free(f->member);
	free(f->volume);
	free(f->text);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

static void set_problem(struct fleet *f, const char *text)
{
	pthread_mutex_lock(&f->lock);
	if (*text && strcmp(text, f->problem)) /* once, not at each attempt */
		log_error(NULL, NULL, "volume %s: %s", f->volume, text);
	snprintf(f->problem, sizeof f->problem, "%s", text);
	pthread_mutex_unlock(&f->lock);
}

static void launch(struct fleet *f, struct slot *s, struct member *m)
{
	cleanup_path char *name = path_format("%s:rebalance:%s", f->volume, m->name), *text = NULL;
	struct problem p = { "" };
	struct graph *g = NULL;
	int err = mover_graph_create(name, f->text, &m->id, &g, &p);
	bool starts = !err;

	if (starts)
		err = graph_start(g, &p);
	if (starts && !err)
		err = mover_graph_tell(g, false, "start", &p);
	if (starts && err)
		graph_stop(g);
	if (err) {
		graph_destroy(g);
		m->turn++;
		f->retry_ns = clock_ns() + RETRY_NS;
		text = path_format("names of tenant %s can't be moved: %s", m->name, *p.text ? p.text : error_text(err));
		set_problem(f, text);
		return;
	}
	set_problem(f, "");
	m->at_work = true;
	pthread_mutex_lock(&f->lock);
	*s = (struct slot){ m, g, json_object(), 0, clock_ns() };
	pthread_mutex_unlock(&f->lock);
}

/* ---- who is to be dealt with ---- */

static int by_base(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	return x->base < y->base ? -1 : x->base > y->base;
}

static struct member *find_member(struct fleet *f, uint32_t base)
{
	struct member key = { .base = base };

	return f->members ? bsearch(&key, f->member, f->members, sizeof key, by_base) : NULL;
}

static struct member as_before(struct fleet *f, const struct spec_tenant *t)
{
	const struct member *was = find_member(f, t->base);
	struct member m = { .id = t->id, .base = t->base, .done = t->base < f->begin };

	snprintf(m.name, sizeof m.name, "%s", t->name);
	if (was) {
		m.done = was->done;
		m.at_work = was->at_work;
		m.turn = was->turn;
		m.made_room = was->made_room;
	}
	return m;
}

/* The graph of one that was deleted meanwhile goes: its files are removed by the bricks. */
static void keep_slots(struct fleet *f, const struct spec *s)
{
	for (size_t i = 0; i < AT_A_TIME; i++) {
		const struct spec_tenant *t = f->slot[i].member ? spec_tenant_find(s, f->slot[i].member->name) : NULL;

		if (f->slot[i].member && (!t || t->state == SPEC_TENANT_DELETED))
			end_slot(f, &f->slot[i], true);
	}
}

static void swap_members(struct fleet *f, struct member *list, size_t count, uint32_t end)
{
	struct member *old = f->member;
	uint32_t base[AT_A_TIME];

	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < AT_A_TIME; i++)
		base[i] = f->slot[i].member ? f->slot[i].member->base : 0;
	f->member = list;
	f->members = count;
	f->end = end;
	for (size_t i = 0; i < AT_A_TIME; i++)
		f->slot[i].member = base[i] ? find_member(f, base[i]) : NULL;
	pthread_mutex_unlock(&f->lock);
	free(old);
}

int fleet_want(struct fleet *f, const struct spec *s, const char *text)
{
	struct member *list = calloc(s->tenants + 1, sizeof *list);
	size_t count = 0;

	if (!list)
		return -ENOMEM;
	if (f->text && strcmp(f->text, text))
		end_all(f); /* another volfile than before: graphs are made anew */
	free(f->text);
	f->text = path_format("%s", text);
	if (!f->volume)
		f->volume = path_format("%s", s->volume);
	keep_slots(f, s);
	for (size_t i = 0; i < s->tenants; i++)
		if (s->tenant[i].state != SPEC_TENANT_DELETED)
			list[count++] = as_before(f, &s->tenant[i]);
	qsort(list, count, sizeof *list, by_base);
	swap_members(f, list, count, s->tenant_base);
	return 0;
}

bool fleet_lacks(const struct spec *s, const json_t *document)
{
	for (size_t i = 0; i < s->tenants; i++)
		if (s->tenant[i].state != SPEC_TENANT_DELETED && s->tenant[i].base >= through_of(document))
			return true;
	return false;
}

/* Who has made room least often, the oldest of these. */
static struct member *next_member(struct fleet *f)
{
	struct member *next = NULL;

	for (size_t i = 0; i < f->members; i++) {
		struct member *m = &f->member[i];

		if (!m->done && !m->at_work && (!next || m->turn < next->turn))
			next = m;
	}
	return next;
}

static bool others_wait(struct fleet *f)
{
	return next_member(f) != NULL;
}

/* ---- work ---- */

static uint64_t progress(const json_t *told)
{
	static const char *const counted[] = { "version", "moved", "files", "copied" };
	uint64_t sum = 1;

	for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
		sum += (uint64_t)json_number(told, counted[i]);
	return sum;
}

/* Who has made room begins from the start: so each time there is twice the patience, or one who has much to look at, and little to move, would never come to his end. */
static uint64_t patience(const json_t *told, unsigned made_room)
{
	const char *step = json_text(told, "step");
	uint64_t first = !strcmp(step, "records") || !strcmp(step, "waiting for what is open") ? WAITS_NS : PATIENCE_NS;

	return first << (made_room < DOUBLED_MOST ? made_room : DOUBLED_MOST);
}

static void complete(struct fleet *f, struct slot *s, json_t *told)
{
	pthread_mutex_lock(&f->lock);
	s->member->done = true;
	add(f->sums, told, false);
	f->done_here++;
	pthread_mutex_unlock(&f->lock);
	end_slot(f, s, false);
}

static void look_at(struct fleet *f, struct slot *s)
{
	json_t *told = mover_graph_ask(s->graph);
	uint64_t now = progress(told);
	struct problem ignored;
	bool done = !strcmp(json_text(told, "state"), "done");

	pthread_mutex_lock(&f->lock);
	json_decref(s->told);
	s->told = json_incref(told);
	pthread_mutex_unlock(&f->lock);
	if (now != s->seen) {
		s->seen = now;
		s->seen_ns = clock_ns();
	}
	if (done) {
		complete(f, s, told);
	} else if (clock_ns() > s->seen_ns + patience(told, s->member->made_room) && others_wait(f)) {
		s->member->turn++;
		s->member->made_room++;
		end_slot(f, s, *json_text(told, "problem"));
	} else if (!strcmp(json_text(told, "state"), "stopped") || !strcmp(json_text(told, "state"), "paused")) {
		mover_graph_tell(s->graph, false, "start", &ignored); /* by hand: the store wants it to run */
	}
	json_decref(told);
}

static void fill(struct fleet *f, struct slot *s)
{
	struct member *next = clock_ns() < f->retry_ns ? NULL : next_member(f);

	if (next)
		launch(f, s, next);
}

bool fleet_work(struct fleet *f)
{
	bool busy = false;

	for (size_t i = 0; i < AT_A_TIME; i++)
		if (f->slot[i].member)
			look_at(f, &f->slot[i]);
		else
			fill(f, &f->slot[i]);
	for (size_t i = 0; i < AT_A_TIME; i++)
		busy |= f->slot[i].member != NULL;
	return !busy && !others_wait(f);
}

/* ---- what is told ---- */

/* With the lock held. */
static uint32_t through(const struct fleet *f)
{
	for (size_t i = 0; i < f->members; i++)
		if (!f->member[i].done)
			return f->member[i].base;
	return f->end;
}

static size_t count_done(const struct fleet *f)
{
	size_t done = 0;

	for (size_t i = 0; i < f->members; i++)
		done += f->member[i].done;
	return done;
}

/* With the lock held. */
static json_t *tell_done(struct fleet *f)
{
	json_t *told = json_deep_copy(f->sums);

	json_object_set_new(told, "tenants", json_integer((json_int_t)f->members));
	json_object_set_new(told, "tenants-done", json_integer((json_int_t)count_done(f)));
	json_object_set_new(told, "through", json_integer(through(f)));
	return told;
}

json_t *fleet_done(struct fleet *f)
{
	json_t *told;

	pthread_mutex_lock(&f->lock);
	told = tell_done(f);
	pthread_mutex_unlock(&f->lock);
	return told;
}

/* As fast as it went so far: a tenant with many files takes longer than one with none. */
static void tell_time(const struct fleet *f, json_t *told)
{
	uint64_t left = f->members - count_done(f), seconds = (clock_ns() - f->started_ns) / 1000000000;

	if (f->done_here)
		json_object_set_new(told, "seconds-left", json_integer((json_int_t)(seconds * left / f->done_here)));
}

static void tell_slot(const struct slot *s, json_t *told, json_t *names)
{
	const char *why = json_text(s->told, "problem");

	json_array_append_new(names, json_string(s->member->name));
	add(told, s->told, true);
	if (*json_text(s->told, "step"))
		json_object_set(told, "step", json_object_get(s->told, "step"));
	if (*json_text(s->told, "leaving"))
		json_object_set(told, "leaving", json_object_get(s->told, "leaving"));
	if (*why)
		json_object_set_new(told, "problem", json_sprintf("tenant %s: %s", s->member->name, why));
}

json_t *fleet_told(struct fleet *f)
{
	json_t *told, *names = json_array();

	pthread_mutex_lock(&f->lock);
	told = tell_done(f);
	for (size_t i = 0; i < AT_A_TIME; i++)
		if (f->slot[i].member)
			tell_slot(&f->slot[i], told, names);
	if (*f->problem)
		json_object_set_new(told, "problem", json_string(f->problem));
	tell_time(f, told);
	pthread_mutex_unlock(&f->lock);
	json_object_set_new(told, "at-work", names);
	json_object_set_new(told, "state", json_string("running"));
	return told;
}

void fleet_each_graph(struct fleet *f, void (*fn)(struct graph *, void *), void *arg)
{
	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < AT_A_TIME; i++)
		if (f->slot[i].graph)
			fn(f->slot[i].graph, arg);
	pthread_mutex_unlock(&f->lock);
}
