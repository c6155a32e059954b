/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht, while a subvolume comes: what holds it up, and not more than it must; who stops or pauses it, and who goes on with it. */
#include "grow-test.h"

/* ---- who does not see the end ---- */

/* Who is stopped may leave to the sweeps what it could not end; they take minutes, and fsck ends it at once. Nothing else is to be found. */
static bool only_unended(void)
{
	bool yes = !command("dht", "fsck", "repair") && !strstr(told, "problem ");

	for (const char *found = strstr(told, "finding "); yes && found; found = strstr(found + 1, "finding "))
		yes = !strncmp(found, "finding unended\n", 16);
	if (!yes)
		fprintf(stderr, "%s", told);
	return yes;
}

GROWS(what_one_rebalancer_began_another_ends)
{
	CHECK_INT(fill(), 0);
	for (int i = 0; i < 12; i++) {
		const char *who = i & 1 ? "second" : "dht";

		CHECK_INT(command(who, "rebalance", "start"), 0);
		task_sleep_ms((uint64_t)i);
		CHECK_INT(command(who, "rebalance", "stop"), 0);
		CHECK(all_there());
		CHECK_INT(listed(), 6 * NAMES);
	}
	CHECK_INT(command("second", "rebalance", "start"), 0);
	CHECK(grows("dht")); /* two at once */
	CHECK(is_done("second"));
	CHECK(all_there());
	CHECK(all_at_their_owners());
	CHECK(only_unended());
	CHECK(is_whole());
	CHECK_INT(census().work, 0);
}

GROWS(a_subvolume_that_is_down_is_waited_for)
{
	CHECK_INT(fill(), 0);
	let_fail(1, "all,-release", "ENOTCONN");
	CHECK_INT(command("second", "rebalance", "start"), 0);
	for (int i = 0; i < tries_of(1) && !strstr(told, "problem "); i++) {
		task_sleep_ms(1);
		CHECK_INT(command("second", "rebalance", "status"), 0);
	}
	CHECK(strstr(told, "state running") && strstr(told, "problem waiting for c1"));
	let_work(1);
	CHECK(is_done("second"));
	CHECK(!strstr(told, "problem "));
	CHECK(all_there());
	CHECK(is_whole());
}

/* Nor is it for what needs it not. */
GROWS(a_subvolume_that_goes_down_while_the_layout_is_given_to_all_stops_only_its_own_names)
{
	struct layout l;
	const char *name = moving_name(0, "n");
	struct attr a;

	CHECK_INT(put(moving_name(0, "there"), "there"), 0);
	while_it_moves(&l);
	CHECK_INT(put_layout(0, &l), 0); /* then who wrote it died, and then that one: */
	let_fail(1, "all,-release", "ENOTCONN");
	CHECK_INT(command("second", "rebalance", "start"), 0);
	CHECK_INT(tree_getattr(&tree, name, &a), -ENOENT);
	CHECK_INT(put(name, "new"), 0);
	CHECK_INT(holder(name), NEW);
	CHECK(reads(moving_name(0, "there"), "there"));
	let_work(1);
	CHECK(is_done("second"));
	CHECK(is_whole());
}

/* Each brick's own file system has one. */
GROWS(lost_and_found_of_a_brick_stays)
{
	struct attr a;

	for (int i = 0; i < SUBVOLUMES; i++) {
		char volume[8];

		snprintf(volume, sizeof(volume), "m%d", i);
		at(volume);
		CHECK_INT(tree_mkdir(&tree, "lost+found", 0700), 0);
	}
	at("dht");
	CHECK_INT(fill(), 0);
	CHECK(grows("second"));
	CHECK(all_there());
	CHECK_INT(tree_getattr(&tree, "lost+found", &a), 0);
	CHECK(is_whole());
}

GROWS(one_name_that_can_not_be_moved_keeps_no_others)
{
	const char *bad = moving_name(0, "bad");

	CHECK_INT(put(bad, "old"), 0);
	CHECK_INT(fill(), 0);
	at("m3");
	CHECK_INT(put(bad, "somebody copied it"), 0);
	at("dht");
	CHECK_INT(command("second", "rebalance", "start"), 0);
	for (int i = 0; i < 20000 && !all_at_their_owners(); i++)
		task_sleep_ms(1);
	CHECK(all_at_their_owners());
	CHECK_INT(command("second", "rebalance", "status"), 0);
	CHECK(strstr(told, "state running") && strstr(told, "problem ") && strstr(told, bad));
	CHECK(reads(bad, "old"));
	at("m3");
	CHECK_INT(tree_unlink(&tree, bad), 0);
	at("dht");
	CHECK(is_done("second"));
	CHECK(reads(bad, "old"));
	CHECK(is_whole());
}

/* If its power went then nobody would make it again (P5). */
GROWS(what_comes_is_on_disk_before_a_layout_names_it)
{
	CHECK_INT(fill(), 0);
	let_fail(NEW, "fsync", "EIO");
	CHECK_INT(command("second", "rebalance", "start"), 0);
	for (int i = 0; i < tries_of(1) && !strstr(told, "problem "); i++) {
		task_sleep_ms(1);
		CHECK_INT(command("second", "rebalance", "status"), 0);
	}
	CHECK(strstr(told, "problem ") && strstr(told, "step joining"));
	let_work(NEW);
	CHECK(is_done("second"));
	CHECK(all_there());
	CHECK(is_whole());
}

/* As after a power cut. What it led to may have another name, so nobody but fsck, and who knows, removes it. */
GROWS(a_name_that_leads_to_nothing_is_told_and_waited_for)
{
	const char *lost = moving_name(0, "lost"), *file = moving_name(1, "file");

	CHECK_INT(put(file, "old"), 0);
	forget('a');
	CHECK_INT(tree_link(&tree, file, lost), 0);
	CHECK_INT(command("second", "rebalance", "start"), 0);
	for (int i = 0; i < 20000 && !strstr(told, "leads to nothing"); i++) {
		task_sleep_ms(1);
		CHECK_INT(command("second", "rebalance", "status"), 0);
	}
	CHECK(strstr(told, "state running") && strstr(told, "leads to nothing") && strstr(told, lost));
	CHECK_INT(tree_unlink(&tree, lost), 0);
	CHECK(is_done("second"));
	CHECK(reads(file, "old"));
	CHECK(is_whole());
}

/* ---- while it is paused ---- */

static bool comes_to_say(const char *what)
{
	for (int i = 0; i < 20000; i++) {
		if (!command("second", "rebalance", "status") && strstr(told, what))
			return true;
		task_sleep_ms(1);
	}
	fprintf(stderr, "%s", told);
	return false;
}

/* So it does not come to its end before somebody removes the other one. */
static void put_in_its_way(const char *bad)
{
	CHECK_INT(put(bad, "old"), 0);
	at("m3");
	CHECK_INT(put(bad, "somebody copied it"), 0);
	at("dht");
}

static void make_way(const char *bad)
{
	at("m3");
	CHECK_INT(tree_unlink(&tree, bad), 0);
	at("dht");
}

GROWS(it_stands_still_while_it_is_paused_and_goes_on_there)
{
	const char *bad = moving_name(0, "bad");

	put_in_its_way(bad);
	CHECK_INT(command("second", "rebalance", "pause"), -ECANCELED); /* nothing runs */
	CHECK_INT(fill(), 0);
	CHECK_INT(command("second", "rebalance", "start"), 0);
	CHECK(comes_to_say("seconds-left "));
	CHECK(comes_to_say("problem "));
	CHECK_INT(command("second", "rebalance", "pause"), 0);
	CHECK_INT(command("second", "rebalance", "pause"), 0);
	make_way(bad);
	task_sleep_ms(1500); /* it would look again after a second */
	CHECK(comes_to_say("state paused\n") && strstr(told, "version 1\n") && !strstr(told, "seconds-left"));
	CHECK_INT(command("second", "rebalance", "start"), 0);
	CHECK(is_done("second"));
	CHECK_INT(command("second", "rebalance", "pause"), -ECANCELED);
	CHECK(all_there());
	CHECK(is_whole());
}

/* Of the root there; 0: it has none. */
static uint64_t version_at(int child)
{
	char volume[8];
	struct blob got = { 0 };
	struct layout l = { 0 };

	snprintf(volume, sizeof(volume), "m%d", child);
	at(volume);
	if (!tree_getxattr(&tree, "", "trusted.dht.layout", &got) && layout_decode(got.bytes, got.size, &l))
		abort();
	free(got.bytes);
	at("dht");
	return l.version;
}

static bool all_come_to_have(uint64_t version)
{
	unsigned have = 0;

	for (int i = 0; i < 20000 && have < SUBVOLUMES; i++) {
		have = 0;
		for (int k = 0; k < SUBVOLUMES; k++)
			have += version_at(k) == version;
		task_sleep_ms(1);
	}
	return have == SUBVOLUMES;
}

GROWS(who_begins_paused_begins_nothing)
{
	CHECK_INT(fill(), 0);
	let_fail(1, "all,-release", "ENOTCONN");
	CHECK_INT(command("second", "rebalance", "start-paused"), 0);
	CHECK_INT(command("second", "rebalance", "start-paused"), 0);
	CHECK(comes_to_say("problem waiting for c1"));
	let_work(1);
	for (int i = 0; i < 20000 && strstr(told, "problem "); i++) { /* what it does not wait for any more is no problem */
		task_sleep_ms(1);
		CHECK_INT(command("second", "rebalance", "status"), 0);
	}
	CHECK(strstr(told, "state paused\n") && strstr(told, "moved 0\n") && !strstr(told, "problem "));
	CHECK(all_come_to_have(0));
	CHECK_INT(command("second", "rebalance", "start"), 0);
	CHECK(is_done("second"));
	CHECK_INT(command("second", "rebalance", "stop"), 0);
	CHECK_INT(command("second", "rebalance", "start-paused"), 0);
	CHECK(comes_to_say("state paused\n"));
	CHECK_INT(command("second", "rebalance", "stop"), 0);
	CHECK(comes_to_say("state stopped\n"));
	CHECK(all_there());
	CHECK(is_whole());
}

/* By whoever was killed, or led before. */
GROWS(what_is_half_written_is_written_while_it_is_paused)
{
	const char *name = moving_name(0, "made");
	struct layout l;

	CHECK_INT(fill(), 0);
	while_it_moves(&l);
	CHECK_INT(put_layout(0, &l), 0);
	CHECK_INT(command("second", "rebalance", "start-paused"), 0);
	CHECK(all_come_to_have(1));
	CHECK(comes_to_say("state paused\n") && strstr(told, "moved 0\n"));
	CHECK_INT(put(name, "text"), 0);
	CHECK(reads(name, "text"));
	CHECK_INT(command("second", "rebalance", "start"), 0);
	CHECK(is_done("second"));
	CHECK(all_there());
	CHECK(is_whole());
}

GROWS(who_is_paused_can_be_stopped)
{
	const char *bad = moving_name(0, "bad");

	put_in_its_way(bad);
	CHECK_INT(fill(), 0);
	CHECK_INT(command("second", "rebalance", "start"), 0);
	CHECK_INT(command("second", "rebalance", "pause"), 0);
	CHECK_INT(command("second", "rebalance", "stop"), 0);
	CHECK(comes_to_say("state stopped\n"));
	make_way(bad);
	CHECK(grows("second")); /* the pause has ended with it */
	CHECK(all_at_their_owners());
}

const struct CMUnitTest held_up[] = {
	cmocka_unit_test(what_one_rebalancer_began_another_ends),
	cmocka_unit_test(a_subvolume_that_is_down_is_waited_for),
	cmocka_unit_test(a_subvolume_that_goes_down_while_the_layout_is_given_to_all_stops_only_its_own_names),
	cmocka_unit_test(lost_and_found_of_a_brick_stays),
	cmocka_unit_test(one_name_that_can_not_be_moved_keeps_no_others),
	cmocka_unit_test(what_comes_is_on_disk_before_a_layout_names_it),
	cmocka_unit_test(it_stands_still_while_it_is_paused_and_goes_on_there),
	cmocka_unit_test(who_begins_paused_begins_nothing),
	cmocka_unit_test(what_is_half_written_is_written_while_it_is_paused),
	cmocka_unit_test(who_is_paused_can_be_stopped),
	cmocka_unit_test(a_name_that_leads_to_nothing_is_told_and_waited_for),
};
const unsigned held_up_count = sizeof(held_up) / sizeof(held_up[0]);
