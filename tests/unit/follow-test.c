/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: a file that another graph has opened, and that has moved since: the subvolume where it is now does not know it, and is asked to open it. */
#include "dht-tree.h"

/* Connections of "later": as of a graph that has taken the place of the one that has opened the file. */
#define LATER                                                                                                                    \
	"volume h0\n type test/handles\n subvolumes c0\nend-volume\nvolume h1\n type test/handles\n subvolumes c1\nend-volume\n" \
	"volume h2\n type test/handles\n subvolumes c2\nend-volume\nvolume h3\n type test/handles\n subvolumes c3\nend-volume\n" \
	"volume holds\n type debug/hold\n subvolumes h1\nend-volume\n"                                                           \
	"volume later\n type cluster/dht\n option lean 0\n option initial 4\n option sweep-interval 1h\n subvolumes h0 holds h2 h3\nend-volume\n"
enum { REQUESTS = 4 };

static struct file *file; /* that another graph has opened */

struct reading {
	int got;
	atomic_bool over;
};

static int read_four(void)
{
	struct buffer *data = NULL;
	int got = tree_read(&tree, file, 0, 4, &data);

	got = got ? got : data && data->size == 4 && !memcmp(data->data, "text", 4) ? 4 : 0;
	buffer_unref(data);
	return got;
}

static void read_aside(void *arg)
{
	struct reading *r = arg;

	r->got = read_four();
	atomic_store(&r->over, true);
}

static void open_before(void)
{
	const char *b = name_at(1, "b");

	CHECK_INT(put(b, "text"), 0);
	at("c1");
	CHECK_INT(tree_open_file(&tree, b, O_RDWR, &file), 0);
	at("later");
	CHECK(reads(b, "text"));
}

static unsigned parked(void)
{
	struct xlator *x = tree_find(&tree, "holds");
	char *argv[] = { (char *)"list" }, *text = NULL;
	unsigned many = 0;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	x->type->command(x, 1, argv, f);
	fclose(f);
	for (const char *p = text; (p = strstr(p, "parked: ")); p++)
		many++;
	free(text);
	return many;
}

static void is_opened_anew_(void *arg)
{
	(void)arg;
	open_before();
	CHECK_INT(read_four(), 4);
	CHECK_INT(read_four(), 4);
	tree_release(&tree, file);
}

/* All are sent before the first of them hears that the file is not known there. */
static void is_opened_anew_for_all_(void *arg)
{
	struct reading r[REQUESTS] = { { 0 } };

	(void)arg;
	open_before();
	hold_tell("holds", "hold", "read");
	for (int i = 0; i < REQUESTS; i++) {
		CHECK_INT(task_spawn(NULL, read_aside, &r[i]), 0);
	}
	for (int i = 0; i < 30000 && parked() < REQUESTS; i++)
		task_sleep_ms(1);
	CHECK_INT(parked(), REQUESTS);
	hold_tell("holds", "hold", "none");
	hold_tell("holds", "release", "all");
	for (int i = 0; i < REQUESTS; i++) {
		while (!atomic_load(&r[i].over))
			task_sleep_ms(1);
		CHECK_INT(r[i].got, 4);
	}
	CHECK_INT(read_four(), 4);
	tree_release(&tree, file);
}

static void what_another_graph_has_opened_and_has_moved_is_opened_where_it_is(void **state)
{
	(void)state;
	run(is_opened_anew_, "", "64M");
}

static void of_several_requests_on_what_has_moved_none_fails(void **state)
{
	(void)state;
	run(is_opened_anew_for_all_, "", "64M");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_another_graph_has_opened_and_has_moved_is_opened_where_it_is),
		cmocka_unit_test(of_several_requests_on_what_has_moved_none_fails),
	};

	more_volumes = LATER;
	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
