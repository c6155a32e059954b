/* SPDX-License-Identifier: Apache-2.0 */
/* Which tenants have their turn: with graphs that say what the test wants, and a clock that it sets. */
#include "cluster-test.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-fleet.h"
#include "graph.h"
#include "mover-graph.h"
#include "task.h"

#define SECOND_NS 1000000000u
enum { AT_A_TIME = 4 };

/* ---- graphs and a clock ---- */

static uint64_t now_ns;
static const char *step; /* at which all of them are */
static bool broken;	 /* none can be made */
static unsigned needed;	 /* seconds without a pause, until one is done; it moves nothing */
struct graph_of_one {
	uint64_t began_ns;
};

uint64_t clock_ns(void)
{
	return now_ns;
}

int mover_graph_create(const char *name, const char *text, const struct gfid *acts_for, struct graph **g, struct problem *p)
{
	struct graph_of_one *one = malloc(sizeof(*one));

	(void)name, (void)text, (void)acts_for;
	assert_non_null(one);
	if (broken) {
		free(one);
		return problem_set(p, EIO, "broken");
	}
	one->began_ns = now_ns;
	*g = (struct graph *)one;
	return 0;
}

int graph_start(struct graph *g, struct problem *p)
{
	(void)g, (void)p;
	return 0;
}

void graph_stop(struct graph *g)
{
	(void)g;
}

void graph_destroy(struct graph *g)
{
	free(g);
}

int mover_graph_tell(struct graph *g, bool widens, const char *verb, struct problem *p)
{
	(void)g, (void)widens, (void)verb, (void)p;
	return 0;
}

json_t *mover_graph_ask(struct graph *g)
{
	const struct graph_of_one *one = (struct graph_of_one *)g;
	bool done = now_ns - one->began_ns >= (uint64_t)needed * SECOND_NS;

	return json_pack("{s:s, s:s, s:i}", "state", done ? "done" : "running", "step", step, "version", 2);
}

void mover_graph_end(struct graph *g, bool at_once)
{
	(void)at_once;
	free(g);
}

/* ---- turns ---- */

static struct fleet *fleet_make(size_t tenants)
{
	struct fleet *f = fleet_create(NULL);
	struct spec s;

	now_ns = SECOND_NS;
	spec_make(&s, tenants);
	assert_non_null(f);
	assert_int_equal(fleet_want(f, &s, "a volfile"), 0);
	spec_free(&s);
	return f;
}

/* So many seconds later. True: all are done. */
static bool goes_on(struct fleet *f, unsigned seconds)
{
	bool done = fleet_work(f);

	for (unsigned i = 0; i < seconds && !done; i++) {
		now_ns += SECOND_NS;
		done = fleet_work(f);
	}
	return done;
}

static bool is_at_work(struct fleet *f, const char *name)
{
	json_t *told = fleet_told(f), *one;
	bool yes = false;
	size_t i;

	json_array_foreach(json_object_get(told, "at-work"), i, one) yes |= !strcmp(json_string_value(one), name);
	json_decref(told);
	return yes;
}

/* What somebody has left who was killed is ended when it is old: that takes two of dht's sweep-intervals, 20 s as a rule, and what is waited for is no time lost. */
void whose_old_records_are_waited_for_is_not_put_off(void **state)
{
	struct fleet *f;

	(void)state;
	needed = 1000000;
	step = "records";
	f = fleet_make(AT_A_TIME + 1);
	goes_on(f, 100);
	assert_true(is_at_work(f, "t0"));
	assert_false(is_at_work(f, "t4"));
	goes_on(f, 30); /* but not for ever */
	assert_true(is_at_work(f, "t4"));
	fleet_destroy(f);
	step = "files";
	f = fleet_make(AT_A_TIME + 1);
	goes_on(f, 30);
	assert_true(is_at_work(f, "t4"));
	fleet_destroy(f);
}

/* Each begins from the start when it has its turn again. All of them have more to look at than the patience is with those that move nothing. */
void who_gets_no_further_makes_room_and_ends_all_the_same(void **state)
{
	struct fleet *f;

	(void)state;
	needed = 70;
	step = "files";
	f = fleet_make(3 * AT_A_TIME);
	assert_true(goes_on(f, 3600));
	fleet_destroy(f);
}

static const char *who_waits(struct fleet *f)
{
	static char name[8];
	unsigned waiting = 0;

	for (int i = 0; i <= AT_A_TIME; i++) {
		char one[8];

		snprintf(one, sizeof(one), "t%d", i);
		if (is_at_work(f, one))
			continue;
		memcpy(name, one, sizeof(name));
		waiting++;
	}
	assert_int_equal(waiting, 1);
	return name;
}

/* A server that can't start any for a while has taken nobody's time: when it can, who gets no further makes room as soon as ever. */
void who_could_not_be_begun_is_waited_for_no_longer(void **state)
{
	char waiting[8];
	struct fleet *f;

	(void)state;
	needed = 1000000;
	step = "files";
	broken = true;
	f = fleet_make(AT_A_TIME + 1);
	goes_on(f, 600);
	broken = false;
	goes_on(f, 6);
	snprintf(waiting, sizeof(waiting), "%s", who_waits(f));
	goes_on(f, 30);
	assert_true(is_at_work(f, waiting));
	fleet_destroy(f);
}
