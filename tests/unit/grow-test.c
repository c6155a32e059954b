/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: a fourth subvolume comes to a volume of three, and gets its part of the root's names, as weights say, while they are used and listed. */
#include "grow-test.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE	 2
#endif

/* ---- layouts ---- */

static void before_it(struct layout *l)
{
	layout_implied(l, 0, BEFORE);
}

void while_it_moves(struct layout *l)
{
	before_it(l);
	if (layout_grow(l, &(struct layout_member){ .id = NEW, .weight = 1 }, 1))
		abort();
}

static int old_owner(const char *name)
{
	struct layout l;

	before_it(&l);
	return (int)layout_owner(&l, layout_key(&gfid_root, name))->id;
}

const char *moving_name(int from, const char *prefix)
{
	static char names[8][64];
	static unsigned next;
	char *name = names[next++ % 8];
	int i = 0;

	do
		snprintf(name, 64, "%s%d", prefix, i++);
	while (from < 0 ? owner(name) == NEW : owner(name) != NEW || old_owner(name) != from);
	return name;
}

int begin_to_move(void)
{
	struct layout l;
	int err = 0;

	while_it_moves(&l);
	for (int i = 0; i < SUBVOLUMES && !err; i++)
		err = put_layout(i, &l);
	return err;
}

/* ---- the rebalancer ---- */

char told[1024];

int command(const char *client, const char *verb, const char *second)
{
	char *argv[] = { (char *)verb, (char *)second, (char *)"wait=1" }, *said = NULL;
	size_t size;
	FILE *f = open_memstream(&said, &size);
	struct xlator *x = tree_find(&tree, client);
	int err = x->type->command(x, strcmp(verb, "fsck") ? 2 : 3, argv, f);

	fclose(f);
	snprintf(told, sizeof(told), "%s", said);
	free(said);
	return err;
}

bool is_done(const char *client)
{
	for (int i = 0; i < 20000; i++) {
		if (!command(client, "rebalance", "status") && strstr(told, "state done"))
			return true;
		task_sleep_ms(1);
	}
	fprintf(stderr, "%s", told);
	return false;
}

bool grows(const char *client)
{
	return !command(client, "rebalance", "start") && is_done(client);
}

bool is_whole(void)
{
	bool yes = !command("dht", "fsck", "repair") && !strstr(told, "finding ") && !strstr(told, "problem ");

	if (!yes)
		fprintf(stderr, "%s", told);
	return yes;
}

/* ---- a tree ---- */

static const char *number(const char *what, int i)
{
	static char names[8][64];
	static unsigned next;
	char *name = names[next++ % 8];

	snprintf(name, 64, "%s%d", what, i);
	return name;
}

int fill(void)
{
	int err = 0;

	for (int i = 0; i < NAMES && !err; i++) {
		char below[80];

		snprintf(below, sizeof(below), "d%d/in", i);
		err = put(number("f", i), number("text of ", i)) ? -EIO : 0;
		err = err ? err : tree_mkdir(&tree, number("d", i), 0700 + (i & 7));
		err = err ? err : put(below, number("below ", i)) ? -EIO : 0;
		err = err ? err : tree_symlink(&tree, number("to ", i), number("s", i));
		err = err ? err : tree_mknod(&tree, number("p", i), S_IFIFO | 0600, 0);
		err = err ? err : tree_mknod(&tree, number("c", i), S_IFCHR | 0600, 0x103);
		err = err ? err : tree_link(&tree, number("f", i), number("l", i));
	}
	return err;
}

static bool is_there(int i)
{
	char below[80], *target = NULL;
	struct attr d, p, c;
	bool ok;

	snprintf(below, sizeof(below), "d%d/in", i);
	ok = reads(number("f", i), number("text of ", i)) && reads(number("l", i), number("text of ", i)) &&
	     links(number("f", i)) == 2 && same_file(number("f", i), number("l", i)) && reads(below, number("below ", i)) &&
	     !tree_getattr(&tree, number("d", i), &d) && (d.mode & 07777) == 0700u + (unsigned)(i & 7) &&
	     !tree_readlink(&tree, number("s", i), &target) && !strcmp(target, number("to ", i)) &&
	     !tree_getattr(&tree, number("p", i), &p) && S_ISFIFO(p.mode) && !tree_getattr(&tree, number("c", i), &c) &&
	     S_ISCHR(c.mode) && c.rdev == 0x103;
	free(target);
	return ok;
}

bool all_there(void)
{
	for (int i = 0; i < NAMES; i++)
		if (!is_there(i)) {
			fprintf(stderr, "%d is not as it was\n", i);
			return false;
		}
	return true;
}

bool all_at_their_owners(void)
{
	static const char *const what[] = { "f", "d", "s", "p", "c", "l" };

	for (size_t k = 0; k < sizeof(what) / sizeof(*what); k++)
		for (int i = 0; i < NAMES; i++)
			if (holder(number(what[k], i)) != owner(number(what[k], i)))
				return false;
	return true;
}

int listed(void)
{
	struct dirents list = { 0 };
	struct file *dir = NULL;
	int n = tree_opendir(&tree, "", &dir);

	if (n)
		return n;
	n = tree_readdir(&tree, dir, &list);
	n = n ? n : (int)list.count;
	fop_out_clear(FOP_readdir, &list);
	tree_release(&tree, dir);
	return n;
}

GROWS(a_subvolume_that_came_gets_its_names)
{
	struct setattr set = { .valid = SET_MODE, .mode = 01777 };
	struct attr a;

	CHECK_INT(fill(), 0);
	CHECK_INT(tree_setattr(&tree, "", &set), 0);
	CHECK_INT(listed(), 6 * NAMES);
	CHECK(grows("second"));
	CHECK(strstr(told, "version 2\n") && !strstr(told, "moved 0\n"));
	CHECK(all_there());
	CHECK(all_at_their_owners());
	CHECK_INT(listed(), 6 * NAMES);
	CHECK(is_whole());
	CHECK_INT(census().work, 0);
	at("m3");
	CHECK_INT(tree_getattr(&tree, "", &a), 0);
	CHECK_INT(a.mode & 07777, 01777);
	at("dht");
	set.mode = 0755;
	CHECK_INT(tree_setattr(&tree, "", &set), 0);
	CHECK_INT(put(name_at(NEW, "new"), "new"), 0);
	CHECK_INT(holder(name_at(NEW, "new")), NEW);
	for (int i = 0; i < NAMES; i++) { /* and what was moved goes as other names do */
		char below[80];

		snprintf(below, sizeof(below), "d%d/in", i);
		CHECK_INT(tree_rmdir(&tree, number("d", i)), -ENOTEMPTY);
		CHECK_INT(tree_unlink(&tree, below), 0);
		CHECK_INT(tree_rmdir(&tree, number("d", i)), 0);
		CHECK_INT(tree_unlink(&tree, number("f", i)), 0);
		CHECK_INT(tree_unlink(&tree, number("l", i)), 0);
		CHECK_INT(tree_unlink(&tree, number("s", i)), 0);
		CHECK_INT(tree_unlink(&tree, number("p", i)), 0);
		CHECK_INT(tree_unlink(&tree, number("c", i)), 0);
	}
	CHECK_INT(listed(), 1);
	CHECK_INT(census().anchors, 0);
}

GROWS(nothing_is_done_where_nothing_is_to_be_done)
{
	CHECK(grows("dht"));
	CHECK(grows("dht"));
	CHECK(strstr(told, "moved 0\n") && strstr(told, "version 2\n"));
	CHECK(grows("second"));
	CHECK(strstr(told, "moved 0\n") && strstr(told, "version 2\n"));
	CHECK_INT(command("dht", "rebalance", "no-such-verb"), -EINVAL);
	CHECK_INT(command("dht", "rebalance", "stop"), 0);
}

/* ---- each operation, on names that are still where they were ---- */

GROWS(what_is_still_where_it_was_is_used_there)
{
	const char *f = moving_name(0, "f"), *d = moving_name(1, "d"), *g = moving_name(2, "g"), *still = moving_name(-1, "s");
	struct file *file = NULL;
	struct attr a;

	CHECK_INT(put(f, "f"), 0);
	CHECK_INT(tree_mkdir(&tree, d, 0755), 0);
	CHECK_INT(put(still, "still"), 0);
	CHECK_INT(begin_to_move(), 0);
	CHECK(reads(f, "f"));
	CHECK_INT(tree_create(&tree, f, O_RDWR | O_EXCL, 0644, NULL), -EEXIST);
	CHECK_INT(tree_create(&tree, f, O_RDWR, 0644, &file), 0); /* opens it */
	CHECK_INT(tree_write(&tree, file, 0, "g", 1), 0);
	tree_release(&tree, file);
	CHECK(reads(f, "g"));
	CHECK_INT(tree_mkdir(&tree, f, 0755), -EEXIST);
	CHECK_INT(tree_symlink(&tree, "x", d), -EEXIST);
	CHECK_INT(tree_mknod(&tree, f, S_IFIFO | 0600, 0), -EEXIST);
	CHECK_INT(tree_link(&tree, still, f), -EEXIST);
	CHECK_INT(tree_rename(&tree, still, f, RENAME_NOREPLACE), -EEXIST);
	CHECK_INT(tree_rmdir(&tree, f), -ENOTDIR);
	CHECK_INT(tree_unlink(&tree, d), -EISDIR);
	CHECK_INT(holder(f), 0);
	CHECK_INT(tree_getattr(&tree, g, &a), -ENOENT);
	CHECK_INT(put(g, "new"), 0);
	CHECK_INT(holder(g), NEW);
	CHECK_INT(tree_unlink(&tree, f), 0);
	CHECK_INT(tree_getattr(&tree, f, &a), -ENOENT);
	CHECK_INT(tree_unlink(&tree, f), -ENOENT);
	CHECK_INT(tree_mkdir(&tree, f, 0755), 0);
	CHECK_INT(holder(f), NEW);
	CHECK_INT(tree_rmdir(&tree, d), 0);
	CHECK_INT(tree_symlink(&tree, "x", d), 0);
	CHECK_INT(holder(d), NEW);
	CHECK_INT(listed(), 4);
	CHECK(grows("second"));
	CHECK(is_whole());
	CHECK_INT(listed(), 4);
}

GROWS(names_that_move_are_renamed)
{
	const char *a = moving_name(0, "a"), *b = moving_name(0, "b"), *c = moving_name(1, "c"), *d = moving_name(2, "d"),
		   *s = moving_name(-1, "s");

	CHECK_INT(put(a, "a"), 0);
	CHECK_INT(put(b, "b"), 0);
	CHECK_INT(put(c, "c"), 0);
	CHECK_INT(put(s, "s"), 0);
	CHECK_INT(begin_to_move(), 0);
	CHECK_INT(tree_rename(&tree, a, d, RENAME_NOREPLACE), 0); /* to what is not there */
	CHECK_INT(holder(d), NEW);
	CHECK(reads(d, "a") && !links(a));
	CHECK_INT(tree_rename(&tree, s, b, 0), 0); /* over what is still where it was */
	CHECK_INT(holder(b), NEW);
	CHECK(reads(b, "s") && !links(s));
	CHECK_INT(tree_rename(&tree, c, c, 0), 0);
	CHECK(reads(c, "c"));
	CHECK_INT(tree_rename(&tree, c, b, RENAME_EXCHANGE), 0);
	CHECK(reads(c, "s") && reads(b, "c"));
	CHECK_INT(holder(c), NEW);
	CHECK_INT(tree_rename(&tree, a, b, 0), -ENOENT);
	CHECK_INT(tree_rename(&tree, b, s, 0), 0);
	CHECK(reads(s, "c") && !links(b));
	CHECK_INT(tree_link(&tree, s, a), 0);
	CHECK_INT(holder(a), NEW);
	CHECK(links(a) == 2 && same_file(a, s));
	CHECK_INT(listed(), 4);
	CHECK(grows("second"));
	CHECK(is_whole());
	CHECK(reads(s, "c") && reads(a, "c") && reads(c, "s") && reads(d, "a"));
	CHECK_INT(census().work, 0);
}

GROWS(directories_that_move_are_renamed)
{
	const char *a = moving_name(0, "a"), *b = moving_name(1, "b"), *c = moving_name(2, "c"), *s = moving_name(-1, "s");
	char path[80], other[80];

	CHECK_INT(tree_mkdir(&tree, a, 0755), 0);
	CHECK_INT(tree_mkdir(&tree, b, 0755), 0);
	CHECK_INT(tree_mkdir(&tree, c, 0755), 0);
	snprintf(path, sizeof(path), "%s/in", a);
	CHECK_INT(put(path, "in"), 0);
	CHECK_INT(begin_to_move(), 0);
	snprintf(other, sizeof(other), "%s/below", a);
	CHECK_INT(tree_rename(&tree, a, other, 0), -EINVAL);
	CHECK_INT(tree_rename(&tree, a, b, 0), 0);
	snprintf(path, sizeof(path), "%s/in", b);
	CHECK(reads(path, "in"));
	CHECK_INT(tree_rename(&tree, c, b, 0), -ENOTEMPTY);
	snprintf(path, sizeof(path), "%s/c", b);
	CHECK_INT(tree_rename(&tree, c, path, 0), 0);
	CHECK_INT(tree_rename(&tree, b, s, 0), 0);
	snprintf(path, sizeof(path), "%s/in", s);
	CHECK(reads(path, "in"));
	CHECK_INT(listed(), 1);
	CHECK(grows("second"));
	CHECK(is_whole());
}

/* ---- under load ---- */

struct load load;

/* One name, which nobody else uses: each answer is known. */
static void use_name(const char *name, const char *spare, int round)
{
	struct attr a;
	int bad = 0;

	bad += put(name, "1") != 0;
	bad += !reads(name, "1");
	bad += tree_create(&tree, name, O_RDWR | O_EXCL, 0644, NULL) != -EEXIST;
	task_sleep_ms((uint64_t)(round % 5));
	bad += tree_rename(&tree, name, spare, round & 1 ? RENAME_NOREPLACE : 0) != 0;
	bad += tree_getattr(&tree, name, &a) != -ENOENT;
	bad += !reads(spare, "1");
	bad += tree_mkdir(&tree, name, 0755) != 0;
	task_sleep_ms((uint64_t)(round % 3));
	bad += tree_rename(&tree, name, spare, RENAME_EXCHANGE) != 0;
	bad += !reads(name, "1");
	bad += tree_link(&tree, name, spare) != -EEXIST;
	bad += tree_rmdir(&tree, spare) != 0;
	bad += tree_link(&tree, name, spare) != 0;
	bad += links(spare) != 2;
	bad += tree_unlink(&tree, name) != 0;
	bad += tree_getattr(&tree, name, &a) != -ENOENT;
	bad += tree_unlink(&tree, spare) != 0;
	if (bad)
		fprintf(stderr, "%s, %s, round %d: %d answers were wrong\n", name, spare, round, bad);
	load.wrong += bad;
}

static void user(void *arg)
{
	int i = (int)(intptr_t)arg;
	char name[32], spare[32];

	for (int round = 0; !load.stop; round++) {
		snprintf(name, sizeof(name), "n%d", i * 100 + round % 40);
		snprintf(spare, sizeof(spare), "m%d", i * 100 + round % 40);
		use_name(name, spare, round);
	}
	load.running--;
}

GROWS(names_are_used_while_they_move)
{
	enum { USERS = 6 };

	CHECK_INT(fill(), 0);
	others_go_on(true);
	load.stop = false;
	load.wrong = 0;
	load.running = USERS;
	for (int i = 0; i < USERS; i++)
		CHECK_INT(task_spawn(NULL, user, (void *)(intptr_t)i), 0);
	task_sleep_ms(50);
	CHECK(grows("second"));
	task_sleep_ms(50);
	load.stop = true;
	while (load.running)
		task_sleep_ms(1);
	others_go_on(false);
	CHECK_INT(load.wrong, 0);
	CHECK(all_there());
	CHECK(all_at_their_owners());
	CHECK_INT(listed(), 6 * NAMES);
	CHECK(is_whole());
	CHECK_INT(census().work, 0);
}

/* ---- listings ---- */

int read_more(struct reader *r, uint32_t size)
{
	struct readdir_in in = { .file = r->dir, .offset = r->offset, .size = size };
	struct readdir_out out = { 0 };
	int err = tree_call(&tree, tree.at, FOP_readdir, &in, &out);

	if (!err && out.entries.count)
		r->offset = out.entries.entry[out.entries.count - 1].next_offset;
	r->names += err ? 0 : (int)out.entries.count;
	r->end = err || out.entries.end || !out.entries.count;
	fop_out_clear(FOP_readdir, &out);
	return err;
}

int read_to_end(struct reader *r)
{
	int err = 0;

	while (!err && !r->end)
		err = read_more(r, 1000);
	return err;
}

GROWS(a_listing_tells_each_name_once_though_names_move_meanwhile)
{
	struct reader begun = { 0 }, first = { 0 };
	uint64_t middle;
	int names;

	CHECK_INT(fill(), 0);
	CHECK_INT(tree_opendir(&tree, "", &begun.dir), 0);
	CHECK_INT(tree_opendir(&tree, "", &first.dir), 0);
	CHECK_INT(read_more(&first, 1000), 0);
	for (int i = 0; i < 20; i++)
		CHECK_INT(read_more(&begun, 1000), 0);
	middle = begun.offset;
	names = begun.names;
	CHECK(grows("second"));
	CHECK_INT(read_to_end(&begun), 0);
	CHECK_INT(begun.names, 6 * NAMES);
	begun = (struct reader){ .dir = begun.dir, .offset = middle, .names = names };
	CHECK_INT(read_to_end(&begun), 0);
	CHECK(begun.names >= 6 * NAMES); /* what was after the middle and has been moved is told again, or now */
	begun = (struct reader){ .dir = begun.dir };
	CHECK_INT(read_to_end(&begun), 0);
	CHECK_INT(begun.names, 6 * NAMES);
	CHECK_INT(read_to_end(&first), 0);
	CHECK_INT(first.names, 6 * NAMES);
	tree_release(&tree, begun.dir);
	tree_release(&tree, first.dir);
}

/* ---- weights ---- */

static int owner_by(const uint16_t weights[SUBVOLUMES], const char *name)
{
	struct layout l = { .version = 1, .count = SUBVOLUMES };

	for (unsigned i = 0; i < SUBVOLUMES; i++)
		l.member[i] = (struct layout_member){ i, weights[i], weights[i] };
	return (int)layout_owner(&l, layout_key(&gfid_root, name))->id;
}

/* counts: of each, of the last look. */
static bool all_at(const uint16_t weights[SUBVOLUMES], unsigned counts[SUBVOLUMES])
{
	static const char *const what[] = { "f", "d", "s", "p", "c", "l" };
	bool yes = true;

	memset(counts, 0, SUBVOLUMES * sizeof(*counts));
	for (size_t k = 0; k < sizeof(what) / sizeof(*what); k++)
		for (int i = 0; i < NAMES; i++) {
			int at = holder(number(what[k], i));

			yes &= at >= 0 && at == owner_by(weights, number(what[k], i));
			if (at >= 0)
				counts[at]++;
		}
	return yes;
}

/* One comes with its weight; then one is raised and one lowered, one after the other. Who has no word of weights goes by what there is. */
GROWS(names_are_shared_as_the_weights_say)
{
	unsigned counts[SUBVOLUMES], before[SUBVOLUMES];

	CHECK_INT(fill(), 0);
	CHECK(grows("weighs"));
	CHECK(strstr(told, "version 2\n"));
	CHECK(all_at((const uint16_t[]){ 1, 1, 1, 4 }, before));
	CHECK(before[3] > before[0] + before[1] + before[2]);
	CHECK(all_there());
	CHECK_INT(listed(), 6 * NAMES);
	CHECK(grows("weighs-again"));
	CHECK(strstr(told, "version 6\n") && !strstr(told, "moved 0\n"));
	CHECK(all_at((const uint16_t[]){ 3, 1, 1, 2 }, counts));
	CHECK(counts[0] > before[0] && counts[3] < before[3]);
	CHECK(all_there());
	CHECK_INT(listed(), 6 * NAMES);
	CHECK(grows("dht"));
	CHECK(strstr(told, "version 6\n") && strstr(told, "moved 0\n"));
	CHECK(is_whole());
	CHECK_INT(census().work, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_subvolume_that_came_gets_its_names),
		cmocka_unit_test(nothing_is_done_where_nothing_is_to_be_done),
		cmocka_unit_test(what_is_still_where_it_was_is_used_there),
		cmocka_unit_test(names_that_move_are_renamed),
		cmocka_unit_test(directories_that_move_are_renamed),
		cmocka_unit_test(names_are_used_while_they_move),
		cmocka_unit_test(a_listing_tells_each_name_once_though_names_move_meanwhile),
		cmocka_unit_test(names_are_shared_as_the_weights_say),
	};
	int failed;

	if (getenv("GROW_TEST")) /* a pattern of names */
		cmocka_set_test_filter(getenv("GROW_TEST"));
	failed = cmocka_run_group_tests(tests, tasks_start, tasks_stop);
	failed += _cmocka_run_group_tests("held up", held_up, held_up_count, tasks_start, tasks_stop);
	return failed + _cmocka_run_group_tests("known", known_tests, known_tests_count, tasks_start, tasks_stop);
}
