/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: whoever empties the subvolume that is to leave may die after any of the changes that he makes: the next one, who knows only what the bricks tell him, comes to the end. */
#include "dht-tree.h"

/* The second has connections of its own, as one that was started anew. */
enum { LEAVER = 3, OTHERS = 3 };
#define SECOND                                                                                                                   \
	"volume h0\n type test/handles\n subvolumes c0\nend-volume\nvolume h1\n type test/handles\n subvolumes c1\nend-volume\n" \
	"volume h2\n type test/handles\n subvolumes c2\nend-volume\nvolume h3\n type test/handles\n subvolumes c3\nend-volume\n" \
	"volume second\n type cluster/dht\n option lean 0\n option leaving 3\n option sweep-interval 10ms\n subvolumes h0 h1 h2 h3\nend-volume\n"
#define FIRST " option leaving 3\n option sweep-interval 10ms\n"

static char told[4096];

static int command(const char *client, const char *verb, const char *second)
{
	char *argv[] = { (char *)verb, (char *)second, (char *)"wait=1" };
	FILE *f = fmemopen(told, sizeof(told), "w");
	struct xlator *x = tree_find(&tree, client);
	int err = x->type->command(x, strcmp(verb, "fsck") ? 2 : 3, argv, f);

	fclose(f);
	return err;
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

static char dir[64], below[80], deep[96], file[64], one[64], other[64], symbolic[96], came[64], renamed[80];

static void name_all(void)
{
	snprintf(dir, sizeof(dir), "%s", name_at(LEAVER, "d"));
	snprintf(below, sizeof(below), "%s/below", dir);
	snprintf(deep, sizeof(deep), "%s/deep", below);
	snprintf(symbolic, sizeof(symbolic), "%s/symbolic", below);
	snprintf(file, sizeof(file), "%s", name_at(LEAVER, "f"));
	snprintf(one, sizeof(one), "%s", name_at(LEAVER, "one"));
	snprintf(other, sizeof(other), "%s", name_at(0, "other"));
	snprintf(came, sizeof(came), "%s", name_at(1, "came"));
	snprintf(renamed, sizeof(renamed), "%s/renamed", came);
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
	err = err ? err : tree_mkdir(&tree, came, 0700);
	err = err ? err : tree_mkdir(&tree, name_at(LEAVER, "r"), 0700);
	return err ? err : tree_rename(&tree, name_at(LEAVER, "r"), renamed, 0);
}

static bool is_all_there(void)
{
	struct attr d, b;

	return !tree_getattr(&tree, dir, &d) && (d.mode & 07777) == 0751 && !tree_getattr(&tree, below, &b) &&
	       (b.mode & 07777) == 0705 && reads(deep, "deep") && reads(file, "text") && reads(one, "two names") &&
	       same_file(one, other) && links(one) == 2 && links(symbolic) == 1 && !tree_getattr(&tree, renamed, &d);
}

static bool is_whole(void)
{
	return !command("second", "fsck", "repair") && !strstr(told, "finding ") && !strstr(told, "problem ");
}

/* ---- it dies ---- */

static unsigned changes; /* that it makes */
static bool dies;

static void die_and_go_on(void)
{
	name_all();
	CHECK_INT(fill(), 0);
	all_die_after(changes);
	CHECK_INT(command("dht", "rebalance", "start"), 0);
	dies = !is_done("dht", changes);
	command("dht", "rebalance", "stop");
	all_die_after(0);
	CHECK_INT(command("second", "rebalance", "start"), 0);
	CHECK(is_done("second", 0));
	at("second");
	CHECK(is_all_there());
	CHECK(is_whole());
}

static void try_one(void *arg)
{
	(void)arg;
	die_and_go_on();
	if (failures)
		fprintf(stderr, "who empties it died after %u changes (LEAVE_CUT=%u repeats that); then: %s\n", changes,
			changes, told);
}

static void whoever_dies_is_gone_on_for(void **state)
{
	const char *wanted = getenv("LEAVE_CUT");
	int only = wanted ? atoi(wanted) : 0;

	(void)state;
	more_volumes = SECOND;
	dies = true;
	for (changes = only ? (unsigned)only : 1; dies; changes++) {
		run(try_one, FIRST, "64M");
		if (only)
			break;
	}
	more_volumes = "";
	print_message("%u changes\n", changes);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(whoever_dies_is_gone_on_for),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
