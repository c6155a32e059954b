/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs in process: linking, gaps, options, switching under load, and fan-out with answers that come late. */
#include "test-tasks.h"
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "graph.h"

#define MEMORY "volume m\n type debug/memory\nend-volume\n"
#define NULLS                                                                                                                  \
	"volume n1\n type debug/null\n subvolumes m\nend-volume\nvolume n2\n type debug/null\n subvolumes n1\nend-volume\n"

static struct graph *make(const char *text, struct inode_table *inodes, struct problem *p)
{
	struct volfile v;
	struct graph *g = NULL;

	memset(p, 0, sizeof(*p));
	if (volfile_parse(text, strlen(text), "test.vol", &v, p))
		return NULL;
	if (graph_create(&v, inodes, NULL, &g, p) == 0 && graph_start(g, p)) {
		graph_destroy(g);
		g = NULL;
	}
	volfile_free(&v);
	return g;
}

static void unmake(struct graph *g)
{
	graph_stop(g);
	graph_destroy(g);
}

static void translators_that_handle_nothing_are_skipped(void **state)
{
	struct problem p;
	struct graph *g = make(MEMORY NULLS, NULL, &p);

	(void)state;
	assert_non_null(g);
	for (int op = 1; op < FOP_COUNT; op++)
		if (graph_find(g, "m")->handler[op] == graph_find(g, "m"))
			assert_ptr_equal(g->top->handler[op], graph_find(g, "m"));
	unmake(g);
}

static void bad_graphs_are_refused_with_a_sentence(void **state)
{
	static const char *const bad[][2] = {
		{ "\nvolume a\n type no/such\nend-volume\n", "test.vol:2: volume a: there is no translator 'no/such'" },
		{ "volume a\n type debug/memry\nend-volume\n", "did you mean 'debug/memory'?" },
		{ "volume a\n type debug/memory\n option limt 5\nend-volume\n",
		  "test.vol:3: volume a (debug/memory) has no option \"limt\"; did you mean \"limit\"" },
		{ "volume a\n type debug/memory\n option limit no\nend-volume\n",
		  "test.vol:3: volume a (debug/memory): option limit" },
		{ "\nvolume a\n type debug/null\nend-volume\n",
		  "test.vol:2: volume a (debug/null) takes 1 subvolume, but has no line `subvolumes`" },
		{ MEMORY "volume a\n type debug/memory\n subvolumes m\nend-volume\n",
		  "takes no subvolumes, but its line `subvolumes` names 1" },
	};
	struct problem p;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_null(make(bad[i][0], NULL, &p));
		if (!strstr(p.text, bad[i][1]))
			fail_msg("\"%s\" does not say \"%s\"", p.text, bad[i][1]);
	}
}

/* What would overwrite memory later, or be taken for something else, is not loaded. */
static void modules_with_flaws_are_refused_with_a_sentence(void **state)
{
	static const char *const bad[][2] = {
		{ "version", "is for API version 77, and this StratusFS has version 1" },
		{ "name", "has the name \"test/Flawed\", but the file is where test/flawed is looked for" },
		{ "twice", "two options \"number\"" },
		{ "choices", "\"number\" has no choices" },
		{ "size", "option \"flag\" ends at byte 16 of the private struct, but private_size is 9" },
		{ "outside", "option \"flag\" ends at byte 17 of the private struct" },
	};
	struct problem p;
	struct graph *g;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		setenv("FLAW", bad[i][0], 1);
		assert_null(make("volume a\n type test/flawed\nend-volume\n", NULL, &p));
		if (!strstr(p.text, bad[i][1]))
			fail_msg("\"%s\" does not say \"%s\"", p.text, bad[i][1]);
	}
	unsetenv("FLAW");
	g = make("volume a\n type test/flawed\nend-volume\n", NULL, &p);
	assert_non_null(g);
	unmake(g);
}

struct job {
	struct graph **graph;
	atomic_int stop, errors, done;
};

static int stat_root(struct graph *g)
{
	struct request rq;
	struct inode *root = inode_get(g->inodes, &gfid_root, S_IFDIR);
	struct getattr_in in = { root, NULL };
	struct getattr_out out = { 0 };
	int err;

	request_init(&rq, g, 0);
	err = getattr_on(&rq, g->top, &in, &out);
	request_finish(&rq);
	inode_unref(root);
	return err;
}

static void stat_once(void *arg)
{
	struct job *j = arg;

	j->errors = stat_root(*j->graph);
	j->done = 1;
}

static struct task_lock switching;

static void stat_until_stopped(void *arg)
{
	struct job *j = arg;

	while (!j->stop) {
		struct graph *g;

		/* what mount/fuse does: take the active graph and count ourselves in, in one step */
		if (task_lock(&switching, NO_DEADLINE))
			break;
		g = __atomic_load_n(j->graph, __ATOMIC_ACQUIRE);
		atomic_fetch_add(&g->requests, 1);
		task_unlock(&switching);
		if (stat_root(g))
			j->errors++;
		atomic_fetch_sub(&g->requests, 1);
		task_yield();
	}
	j->done++;
}

static void fops_reach_the_leaf(void **state)
{
	struct problem p;
	struct graph *g = make(MEMORY NULLS, NULL, &p);
	struct job j = { .graph = &g };

	(void)state;
	assert_non_null(g);
	assert_int_equal(task_call(stat_once, &j), 0);
	assert_int_equal(j.errors, 0);
	unmake(g);
}

static void lock_switching(void *arg)
{
	atomic_store((atomic_int *)arg, task_lock(&switching, NO_DEADLINE) ? -1 : 1);
}

static void unlock_switching(void *arg)
{
	(void)arg;
	task_unlock(&switching);
}

/* One switch as a program does it, with the handover point guarded as mount/fuse guards it. */
static int switch_to(struct graph **active, const char *text)
{
	struct problem p = { 0 };
	struct graph *new, *old = *active;
	atomic_int locked = 0;

	new = make(text, old->inodes, &p);
	if (!new)
		return -1;
	task_call(lock_switching, &locked);
	__atomic_store_n(active, new, __ATOMIC_RELEASE);
	task_call(unlock_switching, NULL);
	while (atomic_load(&old->requests))
		usleep(10);
	unmake(old);
	return 0;
}

static void a_thousand_switches_under_load_lose_nothing(void **state)
{
	static const char *const texts[] = { MEMORY NULLS, MEMORY };
	struct inode_table *inodes = inode_table_create();
	struct problem p;
	struct graph *g = make(texts[0], inodes, &p);
	struct job j = { .graph = &g };

	(void)state;
	assert_non_null(g);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(task_spawn(runtime_shard(i), stat_until_stopped, &j), 0);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(switch_to(&g, texts[i % 2]), 0);
	j.stop = 1;
	assert_true(EVENTUALLY(j.done == 4));
	assert_int_equal(j.errors, 0);
	assert_int_equal(requests_in_flight(), 0);
	unmake(g);
	assert_int_equal(inode_table_count(inodes), 0);
	inode_table_destroy(inodes);
}

/* ---- what a handler must give ---- */

static int says_so(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	(void)rq, (void)x, (void)fop, (void)in, (void)out;
	return *(int *)x->private;
}

/* How often the log has the words. */
static int logged(const char *path, const char *words)
{
	char line[1024];
	FILE *f = fopen(path, "r");
	int count = 0;

	while (fgets(line, sizeof(line), f))
		count += strstr(line, words) != NULL;
	fclose(f);
	return count;
}

static int answer(struct xlator *x, enum fop fop, int err, void *out)
{
	static const union {
		struct lookup_in lookup;
		struct create_in create;
	} nothing;
	struct request rq;

	request_init(&rq, NULL, 0);
	*(int *)x->private = err;
	err = fop_call(&rq, x, fop, &nothing, out);
	request_finish(&rq);
	return err;
}

/* The caller would crash, and the log had no word of who is to blame. */
static void who_gives_nothing_is_named_and_the_caller_gets_an_error(void **state)
{
	static const enum fop gives[] = { FOP_lookup, FOP_readlink, FOP_mknod, FOP_mkdir,  FOP_symlink,
					  FOP_create, FOP_open,	    FOP_read,  FOP_opendir };
	static const struct xlator_type type = { .name = "test/empty", .any = says_so };
	char path[] = "/tmp/graph-test-XXXXXX", words[64];
	struct inode_table *t = inode_table_create();
	union {
		struct lookup_out lookup;
		struct create_out create;
		struct readdir_out any;
	} out = { .any = { { 0 } } };
	int says = 0;
	struct xlator x = { .type = &type, .name = (char *)"empty", .private = &says };

	(void)state;
	close(mkstemp(path));
	log_open(path);
	for (enum fop fop = 1; fop < FOP_COUNT; fop++)
		x.handler[fop] = &x;
	for (size_t i = 0; i < sizeof(gives) / sizeof(*gives); i++) {
		snprintf(words, sizeof(words), "test/empty has returned 0 to %s without the", fop_name((int)gives[i]));
		for (int again = 0; again < 2; again++)
			assert_int_equal(answer(&x, gives[i], 0, &out), -EIO);
		assert_int_equal(logged(path, words), 1);
	}
	out.create.inode = inode_get(t, &gfid_root, S_IFREG); /* but no file */
	assert_int_equal(answer(&x, FOP_create, 0, &out), -EIO);
	assert_null(out.create.inode); /* given back */
	assert_int_equal(answer(&x, FOP_getattr, 4096, &out), -EIO);
	assert_int_equal(logged(path, "test/empty has returned 4096 to getattr"), 1);
	assert_int_equal(answer(&x, FOP_lookup, -ENOENT, &out), -ENOENT);
	assert_int_equal(answer(&x, FOP_unlink, 0, &out), 0);
	log_open("/dev/stderr");
	unlink(path);
	inode_table_destroy(t);
}

#define TWO                                                                                                                    \
	"volume a\n type debug/memory\nend-volume\nvolume ha\n type debug/hold\n subvolumes a\nend-volume\n"                   \
	"volume b\n type debug/memory\nend-volume\nvolume hb\n type debug/hold\n subvolumes b\nend-volume\n"                   \
	"volume s\n type test/spread\n option enough 1\n subvolumes ha hb\nend-volume\n"

static int ask(struct graph *g, const char *volume, const char *words)
{
	struct xlator *x = graph_find(g, volume);
	char copy[64], *argv[4], *save = NULL, text[64] = "";
	FILE *out = fmemopen(text, sizeof(text), "w");
	int argc = 0, err;

	snprintf(copy, sizeof(copy), "%s", words);
	for (char *w = strtok_r(copy, " ", &save); w && argc < 4; w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	err = x->type->command(x, argc, argv, out);
	fclose(out);
	return err ? err : atoi(text);
}

static bool parked(struct graph *g, const char *volume)
{
	char text[256] = "", *argv[] = { (char *)"list" };
	FILE *out = fmemopen(text, sizeof(text), "w");

	graph_find(g, volume)->type->command(graph_find(g, volume), 1, argv, out);
	fclose(out);
	return strstr(text, "parked") != NULL;
}

static void a_late_answer_meets_the_late_handler(void **state)
{
	struct problem p;
	struct graph *g = make(TWO, NULL, &p);
	struct job j = { .graph = &g };

	(void)state;
	assert_non_null(g);
	assert_int_equal(ask(g, "hb", "hold getattr"), 0);
	assert_int_equal(task_call(stat_once, &j), 0); /* child a is enough */
	assert_int_equal(j.errors, 0);
	assert_int_equal(ask(g, "s", "late"), 0);
	assert_true(EVENTUALLY(parked(g, "hb")));
	ask(g, "hb", "release all");
	assert_true(EVENTUALLY(ask(g, "s", "late") == 1));
	assert_true(EVENTUALLY(atomic_load(&g->requests) == 0));
	unmake(g);
}

static void fan_out_waits_for_as_many_as_asked(void **state)
{
	struct problem p;
	struct graph *g = make(TWO, NULL, &p);
	struct job j = { .graph = &g };

	(void)state;
	assert_non_null(g);
	*(int64_t *)g->top->private = 2; /* enough */
	assert_int_equal(ask(g, "hb", "hold getattr 1"), 0);
	assert_int_equal(task_spawn(NULL, stat_once, &j), 0);
	assert_true(EVENTUALLY(requests_in_flight() == 3)); /* ours and two branches, of which one is held */
	assert_true(EVENTUALLY(parked(g, "hb")));
	assert_int_equal(j.done, 0);
	ask(g, "hb", "release all");
	assert_true(EVENTUALLY(j.done));
	assert_int_equal(j.errors, 0);
	assert_true(EVENTUALLY(atomic_load(&g->requests) == 0));
	unmake(g);
}

#define BELOW                                                                                                                  \
	"volume leaf\n type test/below\nend-volume\n"                                                                          \
	"volume middle\n type test/below\n subvolumes leaf\nend-volume\n"                                                      \
	"volume top\n type test/below\n subvolumes middle\nend-volume\n"

/* What is shared with the graph before is known by those above it before these are asked. */
static void who_starts_in_a_switch_knows_what_is_below(void **state)
{
	struct problem p = { 0 };
	struct graph *g = make(BELOW, NULL, &p);
	struct xlator *leaf;
	struct volfile v = { 0 };

	(void)state;
	assert_non_null(g);
	leaf = graph_find(g, "leaf");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(volfile_parse(BELOW, strlen(BELOW), "below.vol", &v, &p), 0);
		if (graph_switch(&g, &v, &p))
			fail_msg("%s", p.text);
		volfile_free(&v);
		assert_ptr_equal(graph_find(g, "leaf"), leaf);
	}
	unmake(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(translators_that_handle_nothing_are_skipped, tasks_start, tasks_stop),
		cmocka_unit_test_setup_teardown(bad_graphs_are_refused_with_a_sentence, tasks_start, tasks_stop),
		cmocka_unit_test_setup_teardown(modules_with_flaws_are_refused_with_a_sentence, tasks_start, tasks_stop),
		cmocka_unit_test_setup_teardown(fops_reach_the_leaf, tasks_start, tasks_stop),
		cmocka_unit_test_setup_teardown(who_gives_nothing_is_named_and_the_caller_gets_an_error, tasks_start,
						tasks_stop),
		cmocka_unit_test_setup_teardown(a_thousand_switches_under_load_lose_nothing, tasks_start, tasks_stop),
		cmocka_unit_test_setup_teardown(a_late_answer_meets_the_late_handler, tasks_start, tasks_stop),
		cmocka_unit_test_setup_teardown(who_starts_in_a_switch_knows_what_is_below, tasks_start, tasks_stop),
		cmocka_unit_test_setup_teardown(fan_out_waits_for_as_many_as_asked, tasks_start, tasks_stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
