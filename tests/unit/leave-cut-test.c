/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: whoever empties the subvolume that is to leave may die after any of the changes that he makes: the next one, who knows only what the bricks tell him, comes to the end. */
#include "dht-tree.h"
#include "place.h"

#include <time.h>

enum { WIDE = 12, FEW = 4 };
#ifdef __SANITIZE_THREAD__ /* which is slow, and not there for this */
enum { EACH = FEW, PAUSES = 8 * FEW };
#else
enum { EACH = 1, PAUSES = 2 * FEW };
#endif

/* The second has connections of its own, as one that was started anew. Who makes directories wide does not know yet that one leaves. */
#define HANDLES                                                                                                                  \
	"volume h0\n type test/handles\n subvolumes c0\nend-volume\nvolume h1\n type test/handles\n subvolumes c1\nend-volume\n" \
	"volume h2\n type test/handles\n subvolumes c2\nend-volume\nvolume h3\n type test/handles\n subvolumes c3\nend-volume\n"
#define LEAVING(number) " option leaving " number "\n option sweep-interval 10ms\n"
#define SECOND(number)                                                                                                         \
	"volume second\n type cluster/dht\n option lean 0\n" LEAVING(number) " subvolumes h0 h1 h2 h3\nend-volume\n"
#define USER                                                                                                                     \
	"volume u0\n type test/handles\n subvolumes c0\nend-volume\nvolume u1\n type test/handles\n subvolumes c1\nend-volume\n" \
	"volume u2\n type test/handles\n subvolumes c2\nend-volume\nvolume u3\n type test/handles\n subvolumes c3\nend-volume\n" \
	"volume user\n type cluster/dht\n option lean 0\n" LEAVING("3") " subvolumes u0 u1 u2 u3\nend-volume\n"
#define UNDOER                                                                                                                 \
	"volume undoer\n type cluster/dht\n option lean 0\n option sweep-interval 10ms\n subvolumes u0 u1 u2 u3\nend-volume\n"
#define WIDENER "volume widener\n type cluster/dht\n option lean 0\n option initial 4\n subvolumes c0 c1 c2 c3\nend-volume\n"

static char told[4096];

static int command_of(const char *client, int argc, char **argv)
{
	FILE *f = fmemopen(told, sizeof(told), "w");
	struct xlator *x = tree_find(&tree, client);
	int err = x->type->command(x, argc, argv, f);

	fclose(f);
	return err;
}

static int command(const char *client, const char *verb, const char *second)
{
	char *argv[] = { (char *)verb, (char *)second, (char *)"wait=1" };

	return command_of(client, strcmp(verb, "fsck") ? 2 : 3, argv);
}

static int widening(const char *verb)
{
	char *argv[] = { (char *)"rebalance", (char *)"widen", (char *)verb };

	return command_of("widener", 3, argv);
}

/* Is it done within a while? `changes`: or so many were tried. */
static bool is_done(const char *client, unsigned changes)
{
	enum { TRIES = 20000 };

	for (int i = 0; i < TRIES && (!changes || changes_tried() <= changes); i++) {
		if (!command(client, "rebalance", "status") && strstr(told, "state done"))
			return true;
		task_sleep_ms(1);
	}
	return false;
}

/* ---- what there is ---- */

static int leaver;
static bool has_wide; /* a directory that is at all four */
static char dir[64], below[80], deep[96], file[64], one[64], other[64], symbolic[96], came[64], goes[64], renamed[80], wide[64];

static void name_all(void)
{
	snprintf(dir, sizeof(dir), "%s", name_at(leaver, "d"));
	snprintf(below, sizeof(below), "%s/below", dir);
	snprintf(deep, sizeof(deep), "%s/deep", below);
	snprintf(symbolic, sizeof(symbolic), "%s/symbolic", below);
	snprintf(file, sizeof(file), "%s", name_at(leaver, "f"));
	snprintf(one, sizeof(one), "%s", name_at(leaver, "one"));
	snprintf(other, sizeof(other), "%s", name_at(2, "other"));
	snprintf(came, sizeof(came), "%s", name_at(1, "came"));
	snprintf(goes, sizeof(goes), "%s", name_at(leaver, "goes"));
	snprintf(renamed, sizeof(renamed), "%s/renamed", came);
	snprintf(wide, sizeof(wide), "%s", name_at(1, "wide"));
}

static const char *in_wide(int i)
{
	static char path[96];

	snprintf(path, sizeof(path), "%s/n%d", wide, i);
	return path;
}

static int fill_wide(void)
{
	int err = tree_mkdir(&tree, wide, 0755);

	for (int i = 0; i < WIDE && !err; i++)
		err = put(in_wide(i), "wide") ? -EIO : 0;
	for (int i = 0; i < WIDE && !err; i++) /* to twice as many, if it is known to be large enough */
		err = widening("once");
	return err;
}

static int fill(void)
{
	int err = tree_mkdir(&tree, dir, 0751);

	err = err ? err : tree_mkdir(&tree, below, 0705);
	err = err ? err : put(deep, "deep") ? -EIO : 0;
	err = err ? err : tree_symlink(&tree, "where", symbolic);
	err = err ? err : put(file, "text") ? -EIO : 0;
	err = err ? err : put(one, "two names") ? -EIO : 0;
	err = err ? err : tree_link(&tree, one, other);
	err = err ? err : tree_setxattr(&tree, "", "user.a", "one", 3, 0);
	err = err ? err : tree_mkdir(&tree, came, 0700);
	err = err ? err : tree_mkdir(&tree, goes, 0700);
	err = err ? err : tree_rename(&tree, goes, renamed, 0);
	return err || !has_wide ? err : fill_wide();
}

static bool root_says_one(void)
{
	struct blob got = { 0 };
	bool yes = !tree_getxattr(&tree, "", "user.a", &got) && got.size == 3 && !memcmp(got.bytes, "one", 3);

	free(got.bytes);
	return yes;
}

static bool is_wide_there(void)
{
	bool yes = true;

	for (int i = 0; i < WIDE && yes && has_wide; i++)
		yes = reads(in_wide(i), "wide");
	return yes;
}

static bool is_all_there(void)
{
	struct attr d, b;

	return !tree_getattr(&tree, dir, &d) && (d.mode & 07777) == 0751 && !tree_getattr(&tree, below, &b) &&
	       (b.mode & 07777) == 0705 && reads(deep, "deep") && reads(file, "text") && reads(one, "two names") &&
	       same_file(one, other) && links(one) == 2 && links(symbolic) == 1 && !tree_getattr(&tree, renamed, &d) &&
	       root_says_one() && is_wide_there();
}

/* A file that is being moved has one link more, until the sweep has ended that. */
static bool comes_to_be_all_there(void)
{
	uint64_t until = clock_ns() + 60000000000u;
	bool yes = is_all_there();

	while (!yes && clock_ns() < until) {
		task_sleep_ms(1);
		yes = is_all_there();
	}
	return yes;
}

static bool is_whole(const char *client)
{
	bool yes = !command(client, "fsck", "repair") && !strstr(told, "finding ") && !strstr(told, "problem ");

	if (!yes)
		fprintf(stderr, "%s", told);
	return yes;
}

/* Nor that it leaves: what was said of that is taken back. */
static bool nobody_is_said_to_leave(void)
{
	static const char *const bricks[] = { "m0", "m1", "m2", "m3" };
	struct blob got = { 0 };
	bool yes = true;

	for (int i = 0; i < 4; i++) {
		at(bricks[i]);
		yes &= tree_getxattr(&tree, "", DHT_LEAVES_XATTR, &got) == -ENODATA;
		free(got.bytes);
		got = (struct blob){ 0 };
	}
	return yes;
}

/* As long as its names move, and after that until nothing is left. */
static bool is_said_to_leave(void)
{
	char brick[8];
	struct blob got = { 0 };
	struct layout l;
	bool yes = true;

	for (int i = 0; i < 4; i++) {
		snprintf(brick, sizeof(brick), "m%d", i);
		at(brick);
		free(got.bytes);
		got = (struct blob){ 0 };
		if (i == leaver || tree_getxattr(&tree, "", DHT_LAYOUT_XATTR, &got) || layout_decode(got.bytes, got.size, &l) ||
		    !l.moving)
			continue;
		free(got.bytes);
		got = (struct blob){ 0 };
		yes &= !tree_getxattr(&tree, "", DHT_LEAVES_XATTR, &got);
	}
	free(got.bytes);
	at("dht");
	return yes;
}

/* ---- it dies ---- */

static unsigned changes; /* that it makes */
static bool dies;

/* What is being given to others has no pointer yet that leads there, and may be empty. It is none of the parts that no layout names. */
static void look_meanwhile(const char *client)
{
	int err = command(client, "fsck", "repair");

	CHECK(!err && !strstr(told, "finding shard"));
}

static bool looks;

static void die_and_go_on(void)
{
	name_all();
	CHECK_INT(fill(), 0);
	all_die_after(changes);
	CHECK_INT(command("dht", "rebalance", "start"), 0);
	dies = !is_done("dht", changes);
	command("dht", "rebalance", "stop");
	all_die_after(0);
	CHECK(is_said_to_leave());
	if (looks)
		look_meanwhile("second");
	CHECK_INT(command("second", "rebalance", "start"), 0);
	CHECK(is_done("second", 0));
	at("second");
	CHECK(comes_to_be_all_there());
	CHECK(is_whole("second"));
	CHECK(nobody_is_said_to_leave());
}

/* In each directory, so that whoever is to have the name must have the layout of that. */
static bool can_be_made(void)
{
	const char *const dirs[] = { dir, below, came, renamed, wide };
	bool yes = true;

	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs) - !has_wide && yes; i++)
		for (int k = 0; k < 4 && yes; k++) {
			char path[120];

			snprintf(path, sizeof(path), "%s/made%d", dirs[i], k);
			yes = !put(path, "made") && reads(path, "made") && !tree_unlink(&tree, path);
		}
	return yes;
}

/* The next one is paused: no name waits for that. */
static void die_and_pause(void)
{
	name_all();
	CHECK_INT(fill(), 0);
	all_die_after(changes);
	CHECK_INT(command("dht", "rebalance", "start"), 0);
	dies = !is_done("dht", changes);
	command("dht", "rebalance", "stop");
	all_die_after(0);
	CHECK_INT(command("second", "rebalance", "start-paused"), 0);
	at("user");
	CHECK(can_be_made());
	CHECK(comes_to_be_all_there());
	CHECK_INT(command("second", "rebalance", "status"), 0);
	CHECK(strstr(told, "state paused\n") && strstr(told, "moved 0\n") && strstr(told, "files 0\n"));
	CHECK_INT(command("second", "rebalance", "start"), 0);
	CHECK(is_done("second", 0));
	CHECK(is_all_there());
	CHECK(is_whole("second"));
}

/* It is to leave no more: then all is written that was half written, also of directories that it gave away. */
static void die_and_cancel(void)
{
	name_all();
	CHECK_INT(fill(), 0);
	all_die_after(changes);
	CHECK_INT(command("dht", "rebalance", "start"), 0);
	dies = !is_done("dht", changes);
	command("dht", "rebalance", "stop");
	all_die_after(0);
	if (!dies) /* it may have left */
		return;
	if (looks)
		look_meanwhile("undoer");
	CHECK_INT(command("undoer", "rebalance", "start"), 0);
	CHECK(is_done("undoer", 0));
	at("user");
	CHECK(can_be_made());
	CHECK(comes_to_be_all_there());
	CHECK_INT(command("undoer", "fsck", "repair"), 0); /* an empty shard that no layout names may be left */
	CHECK(is_whole("undoer"));
	CHECK(nobody_is_said_to_leave());
}

static bool pauses, cancels;

static void try_one(void *arg)
{
	(void)arg;
	if (pauses)
		die_and_pause();
	else if (cancels)
		die_and_cancel();
	else
		die_and_go_on();
	if (failures)
		fprintf(stderr, "who empties it died after %u changes (LEAVE_CUT=%u repeats that); then: %s\n", changes,
			changes, told);
}

/* After one in `step`, from one that $SEED chooses; with LONG=1 after each. */
static void after_each_change(const char *volumes, const char *options, unsigned step)
{
	const char *wanted = getenv("LEAVE_CUT"), *seed = getenv("SEED"), *lasts = getenv("LONG");
	unsigned only = wanted ? (unsigned)atoi(wanted) : 0, first = seed ? (unsigned)atoi(seed) : (unsigned)time(NULL);

	step = (lasts && !strcmp(lasts, "1")) || getenv("STRATUS_MUTANT") ? 1 : step; /* a mutant is not to be found by lot */
	first = only ? only : 1 + first % step + first_moment(step);
	more_volumes = volumes;
	dies = true;
	for (changes = first; dies; changes += moment_step(step)) {
		run(try_one, options, "64M");
		if (only)
			break;
	}
	more_volumes = "";
	print_message("%u changes; SEED=%u has the same ones\n", changes, first - 1);
}

static void whoever_dies_is_gone_on_for(void **state)
{
	(void)state;
	leaver = 3;
	after_each_change(HANDLES SECOND("3"), LEAVING("3"), EACH);
}

static void also_where_the_home_of_the_root_leaves(void **state)
{
	(void)state;
	leaver = 0;
	after_each_change(HANDLES SECOND("0"), LEAVING("0"), FEW);
}

static void also_where_directories_are_wide(void **state)
{
	(void)state;
	leaver = 3;
	has_wide = true;
	widen_at = 2;
	after_each_change(HANDLES SECOND("3") WIDENER, LEAVING("3"), FEW);
	has_wide = false;
	widen_at = 8192;
}

static void who_repairs_meanwhile_takes_nothing_away(void **state)
{
	(void)state;
	leaver = 3;
	looks = has_wide = true;
	widen_at = 2;
	after_each_change(HANDLES SECOND("3") WIDENER, LEAVING("3"), PAUSES);
	looks = has_wide = false;
	widen_at = 8192;
}

static void nor_does_who_repairs_when_it_was_cancelled(void **state)
{
	(void)state;
	leaver = 3;
	looks = cancels = true;
	after_each_change(HANDLES SECOND("3") USER UNDOER, LEAVING("3"), PAUSES);
	looks = cancels = false;
}

static void nothing_waits_for_one_that_is_paused(void **state)
{
	(void)state;
	leaver = 3;
	pauses = has_wide = true;
	widen_at = 2;
	after_each_change(HANDLES SECOND("3") USER WIDENER, LEAVING("3"), PAUSES);
	pauses = has_wide = false;
	widen_at = 8192;
}

static void nothing_waits_when_the_removal_was_cancelled(void **state)
{
	(void)state;
	leaver = 3;
	cancels = has_wide = true;
	widen_at = 2;
	after_each_change(HANDLES SECOND("3") USER UNDOER WIDENER, LEAVING("3"), PAUSES);
	cancels = has_wide = false;
	widen_at = 8192;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(whoever_dies_is_gone_on_for),
		cmocka_unit_test(also_where_the_home_of_the_root_leaves),
		cmocka_unit_test(also_where_directories_are_wide),
		cmocka_unit_test(who_repairs_meanwhile_takes_nothing_away),
		cmocka_unit_test(nor_does_who_repairs_when_it_was_cancelled),
		cmocka_unit_test(nothing_waits_for_one_that_is_paused),
		cmocka_unit_test(nothing_waits_when_the_removal_was_cancelled),
	};

	if (getenv("LEAVE_TEST")) /* a pattern of names */
		cmocka_set_test_filter(getenv("LEAVE_TEST"));
	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
