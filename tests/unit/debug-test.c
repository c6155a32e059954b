/* SPDX-License-Identifier: Apache-2.0 */
/* The debug translators, each over a brick in memory: they do what they are told, and leave the rest alone. */
#include "test-tasks.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "fop-set.h"
#include "tree.h"

#define MEMORY "volume memory\ntype debug/memory\nend-volume\n"

struct made { /* directories that a task made, and what each said */
	struct tree *tree;
	int count;
	int result[1000];
	uint64_t took_ns;
	struct task *task;
	atomic_bool done;
};

static void make(void *arg)
{
	struct made *m = arg;
	uint64_t begin = clock_ns();
	char name[32];

	m->task = task_self();
	for (int i = 0; i < m->count; i++) {
		snprintf(name, sizeof(name), "%p-%d", arg, i);
		m->result[i] = tree_mkdir(m->tree, name, 0755);
	}
	m->took_ns = clock_ns() - begin;
	m->done = true;
}

static void open_tree(struct tree *t, const char *volfile)
{
	struct problem problem = { "" };

	if (tree_open(t, volfile, &problem))
		fail_msg("%s", problem.text);
}

static void refuses(const char *volfile, const char *because)
{
	struct problem problem = { "" };
	struct tree t;

	assert_true(tree_open(&t, volfile, &problem) < 0);
	if (!strstr(problem.text, because))
		fail_msg("\"%s\" doesn't say \"%s\"", problem.text, because);
}

static char *tell(struct tree *t, const char *volume, const char *a, const char *b, const char *c)
{
	struct xlator *x = tree_find(t, volume);
	char *argv[] = { (char *)a, (char *)b, (char *)c, NULL }, *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	int err = x->type->command(x, !a ? 0 : !b ? 1 : !c ? 2 : 3, argv, f);

	fclose(f);
	assert_int_equal(err, 0);
	return text;
}

static void change(struct tree *t, const char *volume, const char *option, const char *value)
{
	struct xlator *x = tree_find(t, volume);
	struct problem problem = { "" };

	assert_int_equal(option_change(x->type->options, x->private, x->name, option, value, &problem), 0);
	x->type->reconfigure(x, option_find(x->type->options, option));
}

static int failed(const struct made *m)
{
	int count = 0;

	for (int i = 0; i < m->count; i++)
		count += m->result[i] != 0;
	return count;
}

#define ERRORS(options) MEMORY "volume errors\ntype debug/error-gen\n" options "subvolumes memory\nend-volume\n"

/* ---- fop-set ---- */

static void sets_of_fops_are_words_added_and_taken_away(void **state)
{
	struct problem problem = { "" };
	uint64_t set;

	(void)state;
	assert_int_equal(fop_set_parse("read, write", &set, &problem), 0);
	assert_true(set == (1ULL << FOP_read | 1ULL << FOP_write));
	assert_int_equal(fop_set_parse("", &set, &problem), 0);
	assert_true(set == 0);
	assert_int_equal(fop_set_parse("all,-lookup", &set, &problem), 0);
	assert_true(fop_set_has(set, FOP_read) && !fop_set_has(set, FOP_lookup) && fop_set_has(set, FOP_compound));
	assert_int_equal(fop_set_parse("mutating", &set, &problem), 0);
	assert_true(fop_set_has(set, FOP_mkdir) && !fop_set_has(set, FOP_read));
	assert_int_equal(fop_set_parse("-lookup,-read", &set, &problem), 0);
	assert_true(fop_set_has(set, FOP_write) && !fop_set_has(set, FOP_read) && !fop_set_has(set, FOP_lookup));
	assert_int_equal(fop_set_parse("raed", &set, &problem), -EINVAL);
	assert_string_equal(problem.text, "there is no fop \"raed\"; did you mean \"read\"?");
}

static void says(const char *text, const char *what)
{
	struct problem problem = { "" };
	uint64_t set;

	assert_int_equal(fop_set_parse(text, &set, &problem), -EINVAL);
	if (!strstr(problem.text, what))
		fail_msg("of \"%s\": %s", text, problem.text);
}

static void what_is_no_set_of_fops_is_told_with_what_to_write(void **state)
{
	char longest[200];

	(void)state;
	says("quadrature", "take names of fops, as read");
	says("read,,wriet", "did you mean \"write\"?");
	says("READ", "there is no fop \"READ\"");
	says("all, - read", "right behind it");
	says("all,-", "right behind it");
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	says(longest, "take names of fops, as read");
}

/* ---- all that choose by fops ---- */

static const char *const choosers[] = { "error-gen", "delay-gen", "trace", "hold" };

static void open_chooser(struct tree *t, const char *type)
{
	char volfile[256];

	snprintf(volfile, sizeof(volfile),
		 MEMORY "volume chooser\ntype debug/%s\noption fops read\nsubvolumes memory\nend-volume\n", type);
	open_tree(t, volfile);
}

static void a_fop_that_there_is_not_is_refused_also_while_it_runs(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(choosers) / sizeof(*choosers); i++) {
		struct problem problem = { "" };
		char text[64], start[256];
		struct xlator *x;
		struct tree t;

		open_chooser(&t, choosers[i]);
		x = tree_find(&t, "chooser");
		assert_int_equal(option_change(x->type->options, x->private, "volume chooser", "fops", "mkdri,read", &problem),
				 -EINVAL);
		assert_string_equal(
			problem.text,
			"volume chooser: option fops can't be \"mkdri,read\": there is no fop \"mkdri\"; did you mean \"mkdir\"?");
		option_print(option_find(x->type->options, "fops"), x->private, text, sizeof(text));
		assert_string_equal(text, "read");
		tree_close(&t);
		snprintf(start, sizeof(start),
			 MEMORY "volume chooser\ntype debug/%s\noption fops mkdri\nsubvolumes memory\nend-volume\n",
			 choosers[i]);
		refuses(start, "option fops can't be \"mkdri\": there is no fop \"mkdri\"; did you mean \"mkdir\"?");
	}
}

/* Each fop, with nothing in it, as none comes to those below the lowest. */
static void call_each(void *arg)
{
	struct tree *t = arg;

	for (int fop = 1; fop < FOP_COUNT; fop++) {
		_Alignas(16) char in[512] = "", out[512] = "";

		assert_true(fop_info[fop].in_size <= sizeof(in) && fop_info[fop].out_size <= sizeof(out));
		assert_int_equal(tree_call(t, tree_find(t, "top"), fop, in, out), -EBUSY);
	}
}

static unsigned dumped(struct tree *t, const char *volume, const char *what)
{
	struct xlator *x = tree_find(t, volume);
	char *text = NULL, *at;
	unsigned count;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	x->type->dump(x, f);
	fclose(f);
	at = strstr(text, what);
	count = at ? (unsigned)strtoul(at + strlen(what), NULL, 10) : 0;
	free(text);
	return count;
}

static void each_fop_can_be_chosen(void **state)
{
	struct tree t;

	(void)state;
	open_tree(
		&t,
		ERRORS("option errno EBUSY\n") "volume top\ntype debug/delay-gen\noption delay 0ms\nsubvolumes errors\nend-volume\n");
	for (int fop = 1; fop < FOP_COUNT; fop++) {
		unsigned before = dumped(&t, "top", "delayed: ");

		change(&t, "top", "fops", fop_info[fop].name);
		task_call(call_each, &t);
		assert_int_equal(dumped(&t, "top", "delayed: "), before + 1);
	}
	assert_int_equal(dumped(&t, "errors", "injected: "), (FOP_COUNT - 1) * (FOP_COUNT - 1));
	tree_close(&t);
}

/* ---- null ---- */

static void null_is_skipped(void **state)
{
	struct tree t;

	(void)state;
	open_tree(&t, MEMORY "volume null\ntype debug/null\nsubvolumes memory\nend-volume\n");
	assert_ptr_equal(tree_find(&t, "null")->handler[FOP_read], tree_find(&t, "memory"));
	tree_close(&t);
}

/* ---- error-gen ---- */

static void half_of_all_fail_and_the_same_seed_fails_the_same(void **state)
{
	static struct made m[2];
	struct tree t;

	(void)state;
	for (int i = 0; i < 2; i++) {
		m[i] = (struct made){ .tree = &t, .count = 1000 };
		open_tree(&t, ERRORS("option percent 50\noption errno ENOSPC\noption fops mkdir\noption seed 7\n"));
		task_call(make, &m[i]);
		tree_close(&t);
	}
	assert_in_range(failed(&m[0]), 400, 600);
	assert_memory_equal(m[0].result, m[1].result, sizeof(m[0].result));
	for (int i = 0; i < 1000; i++)
		assert_true(m[0].result[i] == 0 || m[0].result[i] == -ENOSPC);
}

static void errors_stop_at_the_count_and_change_while_running(void **state)
{
	struct made m;
	struct tree t;

	(void)state;
	open_tree(&t, ERRORS("option count 3\noption fops mkdir\n"));
	m = (struct made){ .tree = &t, .count = 10 };
	task_call(make, &m);
	assert_int_equal(failed(&m), 3);
	change(&t, "errors", "errno", "EDQUOT");
	change(&t, "errors", "count", "0");
	task_call(make, &m);
	assert_int_equal(failed(&m), 10);
	assert_int_equal(m.result[9], -EDQUOT);
	change(&t, "errors", "fops", "read");
	m.count = 5;
	struct made others = m;
	task_call(make, &others);
	assert_int_equal(failed(&others), 0);
	tree_close(&t);
}

static void options_that_make_no_sense_are_refused(void **state)
{
	(void)state;
	refuses(ERRORS("option fops mkdri\n"), "mkdir");
	refuses(ERRORS("option errno EWHAT\n"), "errno");
	refuses(ERRORS("option percent 101\n"), "percent");
	refuses(MEMORY "volume trace\ntype debug/trace\noption file here\nsubvolumes memory\nend-volume\n", "absolute");
}

/* ---- delay-gen ---- */

static void what_is_delayed_takes_at_least_so_long(void **state)
{
	struct made m;
	struct tree t;

	(void)state;
	open_tree(&t, MEMORY
		  "volume slow\ntype debug/delay-gen\noption delay 3ms\noption fops mkdir\nsubvolumes memory\nend-volume\n");
	m = (struct made){ .tree = &t, .count = 5 };
	task_call(make, &m);
	assert_int_equal(failed(&m), 0);
	assert_true(m.took_ns >= 15000000);
	change(&t, "slow", "percent", "0");
	struct made fast = { .tree = &t, .count = 5 };
	task_call(make, &fast);
	assert_int_equal(failed(&fast), 0);
	tree_close(&t);
}

/* ---- hold ---- */

#define HOLD(options) MEMORY "volume hold\ntype debug/hold\n" options "subvolumes memory\nend-volume\n"

static int parked(struct tree *t)
{
	char *text = tell(t, "hold", "list", NULL, NULL), *at = text;
	int count = 0;

	for (; (at = strstr(at, "parked: ")); at++)
		count++;
	free(text);
	return count;
}

static void the_parked_go_on_in_order_when_released(void **state)
{
	static struct made m[3];
	struct tree t;

	(void)state;
	open_tree(&t, HOLD("option fops mkdir\n"));
	for (int i = 0; i < 3; i++) {
		m[i] = (struct made){ .tree = &t, .count = 1 };
		task_spawn(NULL, make, &m[i]);
		assert_true(EVENTUALLY(parked(&t) == i + 1));
	}
	free(tell(&t, "hold", "release", NULL, NULL));
	assert_true(EVENTUALLY(m[0].done));
	assert_false(m[1].done || m[2].done);
	free(tell(&t, "hold", "release", "all", NULL));
	assert_true(EVENTUALLY(m[1].done && m[2].done));
	assert_int_equal(failed(&m[0]) + failed(&m[1]) + failed(&m[2]), 0);
	tree_close(&t);
}

static void a_parked_request_can_be_cancelled_and_is_not_done(void **state)
{
	struct made m;
	struct tree t;

	(void)state;
	open_tree(&t, HOLD(""));
	free(tell(&t, "hold", "hold", "mkdir", "1"));
	m = (struct made){ .tree = &t, .count = 1 };
	task_spawn(NULL, make, &m);
	assert_true(EVENTUALLY(parked(&t) == 1));
	task_cancel(m.task);
	assert_true(EVENTUALLY(m.done));
	assert_int_equal(m.result[0], -ECANCELED);
	assert_int_equal(parked(&t), 0);
	m.done = false;
	task_call(make, &m); /* the count is used up; and nothing has that name */
	assert_int_equal(m.result[0], 0);
	tree_close(&t);
}

/* ---- io-stats ---- */

static void io_stats_counts_each_fop_and_its_errors(void **state)
{
	struct made m;
	struct tree t;
	char *text;

	(void)state;
	open_tree(&t, MEMORY "volume stats\ntype debug/io-stats\nsubvolumes memory\nend-volume\n");
	m = (struct made){ .tree = &t, .count = 20 };
	task_call(make, &m);
	task_call(make, &m); /* they exist */
	text = tell(&t, "stats", "stats", "json", NULL);
	assert_non_null(strstr(text, "\"mkdir\":{\"count\":40,\"errors\":20,\"bytes\":0,"));
	assert_null(strstr(text, "\"read\""));
	free(text);
	text = tell(&t, "stats", "stats", NULL, NULL);
	assert_non_null(strstr(text, "mkdir"));
	free(text);
	free(tell(&t, "stats", "reset", NULL, NULL));
	text = tell(&t, "stats", "stats", "json", NULL);
	assert_null(strstr(text, "mkdir"));
	free(text);
	tree_close(&t);
}

/* ---- trace ---- */

static void trace_writes_a_line_for_the_fop_and_one_for_its_answer(void **state)
{
	char path[] = "/tmp/trace-test.XXXXXX", volfile[512], text[4096] = "";
	static struct made m;
	int fd = mkstemp(path);
	struct tree t;

	(void)state;
	snprintf(volfile, sizeof(volfile),
		 MEMORY "volume trace\ntype debug/trace\noption fops mkdir\noption file %s\nsubvolumes memory\nend-volume\n",
		 path);
	open_tree(&t, volfile);
	m = (struct made){ .tree = &t, .count = 1 };
	task_call(make, &m);
	task_call(make, &m);
	tree_close(&t);
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	assert_non_null(strstr(text, "> mkdir"));
	assert_non_null(strstr(text, "< mkdir"));
	assert_non_null(strstr(text, "< mkdir failed: File exists"));
	assert_null(strstr(text, "lookup"));
	close(fd);
	unlink(path);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(sets_of_fops_are_words_added_and_taken_away),
		cmocka_unit_test(what_is_no_set_of_fops_is_told_with_what_to_write),
		cmocka_unit_test(a_fop_that_there_is_not_is_refused_also_while_it_runs),
		cmocka_unit_test(each_fop_can_be_chosen),
		cmocka_unit_test(null_is_skipped),
		cmocka_unit_test(half_of_all_fail_and_the_same_seed_fails_the_same),
		cmocka_unit_test(errors_stop_at_the_count_and_change_while_running),
		cmocka_unit_test(options_that_make_no_sense_are_refused),
		cmocka_unit_test(what_is_delayed_takes_at_least_so_long),
		cmocka_unit_test(the_parked_go_on_in_order_when_released),
		cmocka_unit_test(a_parked_request_can_be_cancelled_and_is_not_done),
		cmocka_unit_test(io_stats_counts_each_fop_and_its_errors),
		cmocka_unit_test(trace_writes_a_line_for_the_fop_and_one_for_its_answer),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
