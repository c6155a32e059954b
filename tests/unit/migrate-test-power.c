/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: files are brought home, and a brick loses with its power what was not on its disk yet. */
#include "migrate-test.h"

#include "place.h"

static struct inode *walk_at(const char *brick, const char *path)
{
	struct inode *inode = NULL;

	at(brick);
	if (tree_walk(&tree, path, &inode))
		inode = NULL;
	at("dht");
	return inode;
}

/* A name in `work` at that brick. */
static bool find_name_in_work(const char *brick, char letter, char path[96])
{
	bool found = false;

	at(brick);
	for (unsigned k = 0; k < 16 && !found; k++) {
		struct dirents list = { 0 };
		struct file *dir = NULL;
		char work[64];

		snprintf(work, sizeof(work), DHT_HIDDEN "/work/%x", k);
		if (tree_opendir(&tree, work, &dir))
			continue;
		if (!tree_readdir(&tree, dir, &list))
			for (uint32_t i = 0; i < list.count && !found; i++) {
				found = list.entry[i].name[0] == letter && list.entry[i].name[1] == '.';
				snprintf(path, 96, "%s/%s", work, list.entry[i].name);
			}
		fop_out_clear(FOP_readdir, &list);
		tree_release(&tree, dir);
	}
	at("dht");
	return found;
}

static bool lose_name(char letter)
{
	char path[96];
	int err = -ENOENT;

	if (find_name_in_work("m1", letter, path)) {
		at("m1");
		err = tree_unlink(&tree, path);
		at("dht");
	}
	return !err;
}

/* It was given before anybody counted what the brick loses. */
MOVES(who_has_it_open_finds_it_though_the_name_that_it_keeps_was_lost, SWEEPS)
{
	struct file *file = NULL;
	const char *b = put_away("text");

	at("second");
	CHECK_INT(tree_open_file(&tree, b, O_RDWR, &file), 0);
	at("dht");
	forget('k');
	CHECK(brings(b, "brought"));
	cut_end();
	CHECK_INT(tree_unlink(&tree, b), 0);
	at("second");
	CHECK(file_reads(file, "text"));
	tree_release(&tree, file);
	at("dht");
	CHECK(settles(0));
}

/* Else it would be a stub under an anchor to which no pointer leads, and which nobody ends. */
MOVES(an_anchor_that_the_power_brings_back_is_put_away_once_more, SWEEPS)
{
	const char *b = put_away("text");

	forget('s');
	CHECK(brings(b, "brought"));
	cut_end();
	CHECK(reads(b, "text") && links(b) == 1);
	CHECK_INT(census().anchors, 0);
	CHECK(settles(0));
}

/* It has one name more by then, by which it is given the one that it was made by once more. */
MOVES(a_copy_that_has_lost_the_name_it_was_made_by_becomes_the_file, "option sweep-interval 1h")
{
	const char *b = put_away("text");
	struct late l;

	CHECK(bring_late_at(&l, b, 'c'));
	CHECK(lose_name('c'));
	bring_ends(&l);
	CHECK_INT(l.deed.err, 0);
	CHECK(is_whole(b, "text"));
	CHECK_INT(holder(b), 1);
}

static void is_found_by_its_name_(void *arg __attribute__((unused)))
{
	const char *b = put_away("text");
	struct inode *copy;

	cut_after(0, true);
	count_from_rename_of('c');
	bring(b);
	cut_end();
	copy = walk_at("m1", b);
	CHECK(copy && has_xattr(1, copy, DHT_POINTER_XATTR)); /* nobody takes it for the file yet */
	inode_unref(copy);
	CHECK(lose_name('k'));
	hold_tell("ends", "hold", "none");
	hold_tell("begins", "hold", "none");
	hold_tell("begins", "release", "all");
	CHECK(is_whole(b, "text"));
	CHECK(settles(0));
	CHECK_INT(holder(b), 1);
}

/* Who gave it its name died then, and others end it. */
static void a_copy_that_has_no_name_but_the_files_becomes_the_file(void **state)
{
	(void)state;
	more_volumes = SWEEPER;
	run(is_found_by_its_name_, "option sweep-interval 1h", "64M");
	more_volumes = "";
}

/* A rename from 0 to 1 that was decided, and could not remove the file's old name where that waits. */
static void rename_but_for_the_end(const char *a, const char *b, char waits[96])
{
	char record[96];

	CHECK_INT(put(a, "text"), 0);
	let_fail(0, "unlink", "EIO");
	tree_rename(&tree, a, b, 0);
	let_work(0);
	CHECK(find_name_in_work("m0", 'd', record) && find_name_in_work("m0", 'w', waits));
}

/* As a brick does that had removed it, and another name of the file, and loses that with its power: the file was brought to its new name between the two. */
static void remove_bring_restore(const char *b, const char *waits, const char *name)
{
	char stub[96] = "";

	at("m0");
	CHECK_INT(tree_unlink(&tree, waits), 0);
	at("dht");
	CHECK(brings(b, "brought"));
	CHECK(find_name_in_work("m0", 's', stub));
	at("m0");
	CHECK_INT(tree_link(&tree, stub, waits), 0);
	CHECK_INT(tree_link(&tree, stub, name), 0);
	at("dht");
}

static void waits_as_a_stub(bool record)
{
	char waits[96] = "", path[96];
	const char *b = name_at(1, "b"), *other = name_at(0, "o");

	rename_but_for_the_end(name_at(0, "a"), b, waits);
	remove_bring_restore(b, waits, other);
	if (!record && find_name_in_work("m0", 'd', path)) {
		at("m0");
		CHECK_INT(tree_unlink(&tree, path), 0);
		at("dht");
	}
	hold_tell("ends", "hold", "none");
	hold_tell("begins", "hold", "none");
	hold_tell("begins", "release", "all");
	CHECK_INT(tree_unlink(&tree, other), 0);
	CHECK(settles(0));
	CHECK(links(other) == 0 && reads(b, "text") && links(b) == 1);
}

static void waits_with_its_record_(void *arg __attribute__((unused)))
{
	waits_as_a_stub(true);
}

static void waits_alone_(void *arg __attribute__((unused)))
{
	waits_as_a_stub(false);
}

/* Or who ended the rename would try again for ever. */
static void an_old_name_that_waits_goes_though_the_file_was_moved_since(void **state)
{
	(void)state;
	more_volumes = SWEEPER;
	run(waits_with_its_record_, "option sweep-interval 1h", "64M");
	run(waits_alone_, "option sweep-interval 1h", "64M");
	more_volumes = "";
}

const struct CMUnitTest powers[] = {
	cmocka_unit_test(who_has_it_open_finds_it_though_the_name_that_it_keeps_was_lost),
	cmocka_unit_test(an_anchor_that_the_power_brings_back_is_put_away_once_more),
	cmocka_unit_test(a_copy_that_has_lost_the_name_it_was_made_by_becomes_the_file),
	cmocka_unit_test(a_copy_that_has_no_name_but_the_files_becomes_the_file),
	cmocka_unit_test(an_old_name_that_waits_goes_though_the_file_was_moved_since),
};
const unsigned powers_count = sizeof(powers) / sizeof(powers[0]);
