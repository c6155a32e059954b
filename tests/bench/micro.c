/* SPDX-License-Identifier: Apache-2.0 */
/* Measures what the core itself costs, in process: a translator that does nothing, one with `.any`, a task switch, a task.
 *
 *   micro [--check]     prints a table of nanoseconds; --check: status 1 if a goal is missed (twice the goal under noise)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "graph.h"

enum { EXTRA = 16, CALLS = 200000, SWITCHES = 200000, SPAWNS = 100000, ROUNDS = 7 };

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The best of the rounds: what disturbs only ever adds. */
static double best_of(double (*measure)(void *), void *arg)
{
	double ns[ROUNDS];

	for (int i = 0; i < ROUNDS; i++)
		ns[i] = measure(arg);
	qsort(ns, ROUNDS, sizeof *ns, by_value);
	return ns[0];
}

/* ---- translators ---- */

static struct graph *make_graph(const char *type, int count)
{
	static const char head[] = "volume v0\n type bench/leaf\nend-volume\n";
	char text[EXTRA * 80 + sizeof head];
	size_t n = strlen(strcpy(text, head));
	struct problem p = { "" };
	struct volfile v;
	struct graph *g = NULL;

	for (int i = 1; i <= count; i++)
		n += snprintf(text + n, sizeof text - n, "volume v%d\n type %s\n subvolumes v%d\nend-volume\n", i, type, i - 1);
	if (volfile_parse(text, n, "micro.vol", &v, &p) || graph_create(&v, NULL, NULL, &g, &p) || graph_start(g, &p)) {
		fprintf(stderr, "micro: %s\n", p.text);
		exit(1);
	}
	volfile_free(&v);
	return g;
}

static double call_ns(void *arg)
{
	struct graph *g = arg;
	struct flush_in in = { 0 };
	struct flush_out out;
	struct request rq;
	uint64_t begin;

	request_init(&rq, g, 0);
	begin = clock_ns();
	for (int i = 0; i < CALLS; i++)
		if (flush_on(&rq, g->top, &in, &out))
			abort();
	begin = clock_ns() - begin;
	request_finish(&rq);
	return (double)begin / CALLS;
}

struct graphs {
	struct graph *bare, *null, *pass;
	double bare_ns, null_ns, pass_ns;
};

static void measure_graphs(void *arg)
{
	struct graphs *g = arg;

	g->bare_ns = best_of(call_ns, g->bare);
	g->null_ns = best_of(call_ns, g->null);
	g->pass_ns = best_of(call_ns, g->pass);
}

/* ---- tasks ---- */

static double switch_ns(void *arg)
{
	struct runtime_stats before, after;
	uint64_t begin;

	(void)arg;
	runtime_stats(&before);
	begin = clock_ns();
	for (int i = 0; i < SWITCHES; i++)
		task_yield();
	begin = clock_ns() - begin;
	runtime_stats(&after);
	return (double)begin / (after.switches - before.switches);
}

static atomic_int spawned_left;
static struct task *spawner;

static void spawned(void *arg)
{
	(void)arg;
	if (atomic_fetch_sub(&spawned_left, 1) == 1)
		task_wake(spawner);
}

/* In batches, as requests come: the stacks stay warm. */
static double spawn_ns(void *arg)
{
	uint64_t begin = clock_ns();

	(void)arg;
	spawner = task_self();
	for (int batch = 0; batch < SPAWNS / 50; batch++) {
		atomic_store(&spawned_left, 50);
		for (int i = 0; i < 50; i++)
			if (task_spawn(task_shard(spawner), spawned, NULL))
				abort();
		while (atomic_load(&spawned_left))
			task_wait(NO_DEADLINE);
	}
	return (double)(clock_ns() - begin) / SPAWNS;
}

struct tasks {
	double switch_ns, spawn_ns;
};

static void measure_tasks(void *arg)
{
	struct tasks *t = arg;

	t->switch_ns = best_of(switch_ns, NULL);
	t->spawn_ns = best_of(spawn_ns, NULL);
}

static int missed(const char *what, double ns, double goal)
{
	printf("%-42s %8.1f ns", what, ns);
	if (goal > 0)
		printf("   goal %.0f%s", goal, ns > goal ? ": missed" : "");
	putchar('\n');
	return goal > 0 && ns > 2 * goal;
}

int main(int argc, char **argv)
{
	struct graphs g;
	struct tasks t;
	int bad = 0;

	if (runtime_start(1, RUNTIME_NEVER_BLOCKS)) {
		fprintf(stderr, "micro: the runtime does not start\n");
		return 1;
	}
	g = (struct graphs){ make_graph("", 0), make_graph("debug/null", EXTRA), make_graph("bench/pass", EXTRA), 0, 0, 0 };
	task_call(measure_graphs, &g);
	task_call(measure_tasks, &t);
	missed("a call through an empty graph", g.bare_ns, 0);
	bad |= missed("an extra translator that handles nothing", (g.null_ns - g.bare_ns) / EXTRA, 0.5);
	bad |= missed("an extra translator with .any", (g.pass_ns - g.bare_ns) / EXTRA, 20);
	bad |= missed("a task switch", t.switch_ns, 0);
	bad |= missed("a task, from spawn to end", t.spawn_ns, 0);
	graph_stop(g.bare), graph_stop(g.null), graph_stop(g.pass);
	graph_destroy(g.bare), graph_destroy(g.null), graph_destroy(g.pass);
	runtime_stop();
	return argc > 1 && !strcmp(argv[1], "--check") && bad;
}
