/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht, while a subvolume leaves: directories that are there, or away there, while they are made, renamed and removed; and what those who died have left of them. */
#include "leave-test.h"

#include "place.h"

/* Stops it when it has given some directories to others, and nobody has come by their names yet. */
static void stop_at_directories(void)
{
	enum { TURNS = 500 };

	others_go_on(true);
	CHECK(!command("dht", "rebalance", "start"));
	do
		task_yield();
	while (!command("dht", "rebalance", "status") && !strstr(told, "step directories\n") && !strstr(told, "state done"));
	for (int i = 0; i < TURNS; i++)
		task_yield();
	CHECK(!command("dht", "rebalance", "stop"));
	others_go_on(false);
}

static char removed[MANY][64];

static void remove_all(void *arg)
{
	(void)arg;
	for (int i = 0; i < MANY && !load.wrong; i++)
		wants("rmdir", removed[i], tree_rmdir(&tree, removed[i]), 0);
	load.running--;
}

LEAVES(directories_that_are_removed_meanwhile_do_not_hold_it_up)
{
	for (int i = 0; i < MANY; i++) {
		snprintf(removed[i], sizeof(removed[i]), "%s", name_at(LEAVER, path("r%d-", i)));
		CHECK_INT(tree_mkdir(&tree, removed[i], 0755), 0);
	}
	stop_at_directories();
	at("second");
	load.wrong = 0;
	load.running = 1;
	CHECK_INT(task_spawn(NULL, remove_all, NULL), 0);
	task_sleep_ms(100); /* most have gone by then; one whose names are being moved waits for the rebalance to go on */
	CHECK(leaves("dht"));
	while (load.running)
		task_sleep_ms(1);
	CHECK_INT(load.wrong, 0);
	at("dht");
	CHECK_INT(listed(""), 0);
	CHECK(is_whole());
}

/* As by one who had given the pointer to another place, and died before he said so where the directory was. */
static int say_the_root_again(const char *name, const struct gfid *gfid)
{
	uint8_t bytes[PARENT_SIZE];
	char path[96], text[GFID_TEXT];
	struct blob now = { 0 };
	struct parent p;
	int err;

	snprintf(path, sizeof(path), DHT_HIDDEN "/away/%02x/d.%s", gfid->bytes[0], gfid_text(gfid, text));
	at("l3");
	err = tree_getxattr(&tree, path, DHT_PARENT_XATTR, &now);
	if (!err)
		err = parent_decode(now.bytes, now.size, &p);
	free(now.bytes);
	if (err)
		return err;
	parent_encode(&(struct parent){ p.turn + 1, (uint32_t)owner(name), gfid_root }, bytes);
	return tree_setxattr(&tree, path, DHT_PARENT_XATTR, bytes, sizeof(bytes), 0);
}

LEAVES(who_comes_after_one_that_died_ends_what_that_did_of_a_directory)
{
	const char *name = name_at(LEAVER, "d");
	struct attr a;

	CHECK_INT(tree_mkdir(&tree, name, 0755), 0);
	CHECK_INT(tree_getattr(&tree, name, &a), 0);
	CHECK(leaves("dht"));
	CHECK_INT(say_the_root_again(name, &a.gfid), 0);
	CHECK(leaves("mover"));
	at("dht");
	CHECK(is_whole());
}

/* The directory above it can't be read, as if the walk had missed the name because that was renamed. */
LEAVES(what_a_directory_says_itself_is_enough_where_its_name_is_not_found)
{
	static const char garbage[] = "trusted.dht.m.0123456789abcdef";
	char parent[64], dir[64];
	struct attr a;

	snprintf(parent, sizeof(parent), "%s", name_at(0, "p"));
	snprintf(dir, sizeof(dir), "%s", name_at(LEAVER, "d"));
	CHECK_INT(tree_mkdir(&tree, parent, 0755), 0);
	CHECK_INT(tree_mkdir(&tree, dir, 0755), 0);
	CHECK_INT(tree_getattr(&tree, dir, &a), 0);
	CHECK_INT(tree_rename(&tree, dir, path_in(parent, "moved"), 0), 0);
	CHECK(leaves("dht"));
	CHECK_INT(say_the_root_again(dir, &a.gfid), 0);
	at("l0");
	CHECK_INT(tree_setxattr(&tree, parent, garbage, "?", 1, 0), 0);
	at("dht");
	CHECK_INT(tree_getattr(&tree, path_in(parent, "moved"), &a), -EIO);
	CHECK(leaves("mover"));
	at("m0");
	CHECK_INT(tree_removexattr(&tree, parent, garbage), 0);
}

/* As one who died has left it, or one who did not see that the directory was removed. */
static int make_shard_of_nothing(int child, uint32_t home)
{
	char volume[8], xx[64], made[96], name[128], text[GFID_TEXT];
	uint8_t bytes[PARENT_SIZE];
	struct attr a;
	int err;

	snprintf(volume, sizeof(volume), "l%d", child);
	at(volume);
	snprintf(made, sizeof(made), "%s/away/made", DHT_HIDDEN);
	err = tree_mkdir(&tree, made, 0700);
	err = err ? err : tree_getattr(&tree, made, &a);
	if (err)
		return err;
	parent_encode(&(struct parent){ 2, home, a.gfid }, bytes);
	snprintf(xx, sizeof(xx), "%s/away/%02x", DHT_HIDDEN, a.gfid.bytes[0]);
	err = tree_mkdir(&tree, xx, 0700);
	if (err && err != -EEXIST)
		return err;
	snprintf(name, sizeof(name), "%s/d.%s", xx, gfid_text(&a.gfid, text));
	err = tree_setxattr(&tree, made, DHT_PARENT_XATTR, bytes, sizeof(bytes), 0);
	return err ? err : tree_rename(&tree, made, name, 0);
}

LEAVES(nothing_stays_that_was_made_for_a_directory_which_was_removed)
{
	const char *name = name_at(1, "d");

	CHECK_INT(tree_mkdir(&tree, name, 0755), 0); /* away at 1 then */
	CHECK_INT(tree_rename(&tree, name, name_at(0, "e"), 0), 0);
	CHECK_INT(make_shard_of_nothing(1, LEAVER), 0);
	CHECK(leaves("mover"));
	at("dht");
	CHECK(is_whole());
}

/* Of a removal that was cancelled, perhaps. Nobody but an administrator can tell that it is none's. */
/* Else a power cut might bring it back when it was looked. */
LEAVES(what_was_removed_there_is_on_disk_before_it_may_go)
{
	let_fail(LEAVER, "fsync", "EIO");
	CHECK_INT(command("dht", "rebalance", "start"), 0);
	CHECK(says("dht", "is empty can't be synced there"));
	CHECK(strstr(told, "state running"));
	let_work(LEAVER);
	CHECK(says("dht", "state done"));
}

/* Directories that are away at a subvolume. */
static int away_at(int child)
{
	int count = 0;

	at(path("m%d", child));
	for (int i = 0; i < 256; i++) {
		struct dirents list = { 0 };
		struct file *dir = NULL;

		if (tree_opendir(&tree, path(DHT_HIDDEN "/away/%02x", i), &dir))
			continue;
		if (!tree_readdir(&tree, dir, &list))
			for (uint32_t k = 0; k < list.count; k++)
				count += !strncmp(list.entry[k].name, "d.", 2);
		fop_out_clear(FOP_readdir, &list);
		tree_release(&tree, dir);
	}
	at("dht");
	return count;
}

/* Neither who makes it nor the brick has heard that this subvolume leaves; it would be taken out with it. */
LEAVES(nothing_is_put_away_there_after_its_names_have_left_it)
{
	int before;

	CHECK_INT(fill(0, IN_ROOT), 0);
	at("scatters");
	CHECK_INT(tree_mkdir(&tree, "first", 0755), 0); /* it knows the layout before */
	CHECK(leaves("mover"));
	before = away_at(LEAVER);
	at("scatters");
	for (int i = 0; i < MANY; i++) {
		at("scatters");
		CHECK_INT(tree_mkdir(&tree, path("new%d", i), 0755), 0);
		CHECK_INT(put(path("new%d/in", i), "text"), 0);
	}
	CHECK_INT(away_at(LEAVER), before);
	CHECK(away_at(0) > 0 || away_at(1) > 0 || away_at(2) > 0);
	at("dht");
	CHECK(is_whole());
	CHECK(all_there(IN_ROOT));
}

/* ---- what had no name yet ---- */

static int away_elsewhere(void)
{
	return away_at(0) + away_at(1) + away_at(2);
}

/* Away at the subvolume that leaves, by who dies before it gets its name. Whatever else he leaves elsewhere stays, too. */
static bool make_without_name(void)
{
	enum { MESSAGES = 24, TIMES = 12 }; /* where it is put is drawn by lot */
	struct attr a;

	for (int i = 0; i < MESSAGES * TIMES; i++) {
		const char *name = path("made%d", i);
		int err;

		at("scatters");
		cut_after(1 + (unsigned)i % MESSAGES, false);
		tree_mkdir(&tree, name, 0755);
		cut_end();
		at("dht");
		err = tree_getattr(&tree, name, &a);
		if (err && away_at(LEAVER))
			return true;
		if (!err && tree_rmdir(&tree, name))
			return false;
	}
	return false;
}

/* All directories were given away as far as they can be, and who does it waits for what is under way. */
static bool is_given(void)
{
	for (int i = 0; i < 20000; i++) {
		if (!command("dht", "rebalance", "status") && strstr(told, "stays-records ") &&
		    !strstr(told, "stays-records 0\n"))
			return true;
		task_sleep_ms(1);
	}
	return false;
}

static void without_name_(void *arg)
{
	int elsewhere;

	(void)arg;
	CHECK(make_without_name());
	CHECK(census().work > 0);
	elsewhere = away_elsewhere();
	CHECK_INT(command("dht", "rebalance", "start"), 0);
	CHECK(is_given());
	CHECK_INT(away_elsewhere(), elsewhere + 1); /* it is at two subvolumes */
	CHECK_INT(command("dht", "rebalance", "stop"), 0);
	CHECK_INT(command("dht", "fsck", "repair"), 0);
	CHECK(strstr(told, "finding unended") && !strstr(told, "next "));
	CHECK_INT(census().work, 0);
	CHECK_INT(away_elsewhere(), 0); /* what is left where it was goes with that */
	CHECK(leaves("dht"));
}

/* Nobody sweeps before it has come to be at several subvolumes. */
static void what_had_no_name_when_its_maker_died_goes_though_it_was_given_away(void **state)
{
	(void)state;
	more_volumes =
		"volume scatters\n type cluster/dht\n option lean 0\n option scatter 1\n option sweep-interval 1h\n subvolumes c0 c1 c2 c3\nend-volume\n";
	run(without_name_, " option leaving 3\n option sweep-interval 1h\n", "256M");
	more_volumes = "";
}

LEAVES(a_shard_that_no_layout_names_is_told_of)
{
	const char *name = name_at(LEAVER, "d");

	CHECK_INT(tree_mkdir(&tree, name, 0755), 0); /* away there then */
	CHECK_INT(tree_rename(&tree, name, name_at(0, "e"), 0), 0);
	CHECK_INT(make_shard_of_nothing(LEAVER, 0), 0);
	CHECK_INT(command("mover", "rebalance", "start"), 0);
	CHECK(says("mover", "which no layout names"));
	CHECK(strstr(told, "stays-directories 1\n") && strstr(told, "state running\n"));
	CHECK(!command("second", "fsck", "repair"));
	CHECK(says("mover", "state done"));
}

LEAVES(that_it_can_not_be_looked_at_is_told)
{
	CHECK_INT(tree_mkdir(&tree, name_at(LEAVER, "d"), 0755), 0);
	directories_fail(true);
	CHECK_INT(command("dht", "rebalance", "start"), 0);
	CHECK(says("dht", "problem the directories that are away at c3 can't be listed"));
	directories_fail(false);
	CHECK(says("dht", "state done"));
}

/* ---- what is renamed ---- */

/* A mark of an intent that nobody knows of (any more). */
static int mark_by_nobody(const char *volume, const char *dir, const char *name)
{
	struct mark m = { .attempt = 1, .subvolume = 0 };
	char xattr[MARK_NAME];
	uint8_t bytes[MARK_SIZE];

	gfid_create(&m.intent);
	mark_encode(&m, bytes);
	at(volume);
	return tree_setxattr(&tree, dir, mark_name(mark_hash(name), xattr), bytes, sizeof(bytes), 0);
}

LEAVES(a_mark_that_was_left_over_does_not_hold_it_up)
{
	char parent[64], dir[64], file[64];

	snprintf(parent, sizeof(parent), "%s", name_at(0, "p"));
	snprintf(dir, sizeof(dir), "%s", name_at(LEAVER, "d"));
	snprintf(file, sizeof(file), "%s", name_at(LEAVER, "f"));
	CHECK_INT(tree_mkdir(&tree, parent, 0755), 0);
	CHECK_INT(tree_mkdir(&tree, dir, 0755), 0);
	CHECK_INT(put(file, "text"), 0);
	CHECK_INT(tree_rename(&tree, dir, path_in(parent, "moved"), 0), 0);
	CHECK_INT(tree_rename(&tree, file, path_in(parent, "file"), 0), 0);
	CHECK_INT(mark_by_nobody("l0", parent, "moved"), 0);
	CHECK_INT(mark_by_nobody("l0", parent, "file"), 0);
	CHECK(leaves("mover"));
	at("dht");
	CHECK(reads(path_in(parent, "file"), "text"));
	CHECK(is_whole());
}

enum { RENAMED = 3, TOPS = 3 };
static char tops[TOPS][64];

/* From one directory to the next, and under other names, without a pause. */
static void renames(void *arg)
{
	int self = (int)(intptr_t)arg;
	char from[96], to[96];

	snprintf(from, sizeof(from), "%s/m%d-0", tops[0], self);
	for (int turn = 1; !load.stop && !load.wrong; turn++) {
		snprintf(to, sizeof(to), "%s/m%d-%d", tops[turn % TOPS], self, turn % 7);
		wants("rename", from, tree_rename(&tree, from, to, 0), 0);
		memcpy(from, to, sizeof(from));
		task_sleep_ms(1); /* one of all such renames goes on at a time */
	}
	load.running--;
}

/* The directories that go, and those above them. */
LEAVES(directories_that_are_renamed_all_the_time_do_not_hold_it_up)
{
	char dir[64];

	for (int i = 0; i < TOPS; i++) {
		snprintf(tops[i], sizeof(tops[i]), "%s", name_at(i, "top"));
		CHECK_INT(tree_mkdir(&tree, tops[i], 0755), 0);
	}
	for (int i = 0; i < RENAMED; i++) {
		snprintf(dir, sizeof(dir), "%s", name_at(LEAVER, path("m%d-", i)));
		CHECK_INT(tree_mkdir(&tree, dir, 0755), 0);
		CHECK_INT(put(path_in(dir, "in"), "text"), 0);
		CHECK_INT(tree_rename(&tree, dir, path_in(tops[0], path("m%d-0", i)), 0), 0);
	}
	others_go_on(true);
	load.stop = false;
	load.wrong = 0;
	load.running = RENAMED;
	at("third"); /* who is as quick to end what others are slow at as they are */
	for (int i = 0; i < RENAMED; i++)
		CHECK_INT(task_spawn(NULL, renames, (void *)(intptr_t)i), 0);
	CHECK(!command("mover", "rebalance", "start"));
	CHECK(says("mover", "stays-directories 0\n"));
	load.stop = true;
	while (load.running)
		task_sleep_ms(1);
	others_go_on(false);
	CHECK_INT(load.wrong, 0);
	CHECK(says("mover", "state done"));
	at("dht");
	CHECK_INT(listed(tops[0]) + listed(tops[1]) + listed(tops[2]), RENAMED);
	CHECK(is_whole());
}

const struct CMUnitTest directories[] = {
	cmocka_unit_test(directories_that_are_removed_meanwhile_do_not_hold_it_up),
	cmocka_unit_test(who_comes_after_one_that_died_ends_what_that_did_of_a_directory),
	cmocka_unit_test(what_a_directory_says_itself_is_enough_where_its_name_is_not_found),
	cmocka_unit_test(nothing_stays_that_was_made_for_a_directory_which_was_removed),
	cmocka_unit_test(what_was_removed_there_is_on_disk_before_it_may_go),
	cmocka_unit_test(nothing_is_put_away_there_after_its_names_have_left_it),
	cmocka_unit_test(what_had_no_name_when_its_maker_died_goes_though_it_was_given_away),
	cmocka_unit_test(a_shard_that_no_layout_names_is_told_of),
	cmocka_unit_test(that_it_can_not_be_looked_at_is_told),
	cmocka_unit_test(a_mark_that_was_left_over_does_not_hold_it_up),
	cmocka_unit_test(directories_that_are_renamed_all_the_time_do_not_hold_it_up),
};
const unsigned directories_count = sizeof(directories) / sizeof(directories[0]);
