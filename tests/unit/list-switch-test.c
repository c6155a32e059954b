/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: a listing that was begun in one graph goes on in the one that takes its place. */
#include "dht-tree.h"

enum { FILES = 64, BATCH_SIZE = 300 };

static struct {
	struct file *dir;
	uint64_t offset;
	bool seen[FILES];
	int names, twice;
} reader;

static const char *name_of(int i)
{
	static char name[16];

	snprintf(name, sizeof(name), "f%d", i);
	return name;
}

/* 1: that was all. */
static int read_more(void)
{
	struct readdir_in in = { .file = reader.dir, .offset = reader.offset, .size = BATCH_SIZE };
	struct readdir_out out = { 0 };
	int err = tree_call(&tree, tree.at, FOP_readdir, &in, &out);
	bool end = !err && (out.entries.end || !out.entries.count);

	for (uint32_t i = 0; !err && i < out.entries.count; i++) {
		int n = atoi(out.entries.entry[i].name + 1);

		reader.offset = out.entries.entry[i].next_offset;
		reader.twice += reader.seen[n];
		reader.names += !reader.seen[n];
		reader.seen[n] = true;
	}
	fop_out_clear(FOP_readdir, &out);
	return err ? err : end;
}

static int first_seen(void)
{
	int i = 0;

	while (i < FILES && !reader.seen[i])
		i++;
	return i;
}

/* What was told goes: so by counting nobody could find the place. */
static void begin(void *arg)
{
	(void)arg;
	for (int i = 0; i < FILES; i++)
		CHECK_INT(tree_create(&tree, name_of(i), O_RDWR, 0644, NULL), 0);
	CHECK_INT(tree_opendir(&tree, "", &reader.dir), 0);
	for (int i = 0; i < 3; i++)
		CHECK_INT(read_more(), 0);
	CHECK_INT(tree_unlink(&tree, name_of(first_seen())), 0);
}

static void go_on(void *arg)
{
	int err;

	(void)arg;
	while (!(err = read_more()))
		;
	CHECK_INT(err, 1);
	CHECK_INT(reader.names, FILES);
	CHECK_INT(reader.twice, 0);
	tree_release(&tree, reader.dir);
}

static const char *volume(int log_size)
{
	static char text[2048];
	int n = 0;

	for (int i = 0; i < SUBVOLUMES; i++)
		n += snprintf(
			text + n, sizeof(text) - n,
			"volume m%d\n type debug/memory\n option limit 16M\nend-volume\n"
			"volume l%d\n type features/layout\n option subvolume %d\n option initial 4\n subvolumes m%d\nend-volume\n",
			i, i, i, i);
	snprintf(text + n, sizeof(text) - n,
		 "volume dht\n type cluster/dht\n option lean 0\n option log-size %d\n subvolumes l0 l1 l2 l3\nend-volume\n",
		 log_size);
	return text;
}

static void a_listing_goes_on_at_its_place_in_a_graph_that_takes_the_place_of_another(void **state)
{
	struct problem problem = { "" };
	struct volfile file = { 0 };
	const char *text;

	(void)state;
	assert_int_equal(tree_open(&tree, volume(4096), &problem), 0);
	assert_int_equal(task_call(begin, NULL), 0);
	text = volume(8192);
	assert_int_equal(volfile_parse(text, strlen(text), "test", &file, &problem), 0);
	if (graph_switch(&tree.graph, &file, &problem))
		fail_msg("%s", problem.text);
	volfile_free(&file);
	tree.at = tree.graph->top;
	assert_int_equal(task_call(go_on, NULL), 0);
	tree_close(&tree);
	assert_int_equal(failures, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_listing_goes_on_at_its_place_in_a_graph_that_takes_the_place_of_another),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
