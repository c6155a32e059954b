/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht, fsck: what one who died has left under way is ended, and what waits for nobody goes. */
#include "fsck-test.h"

#include "place.h"

static bool is_somewhere(const char *a, const char *b, const struct gfid *gfid)
{
	char path[64];

	return reads(a, "text") || reads(b, "text") || reads(lost_name(gfid, path), "text");
}

static void drop_records_in(const char *path)
{
	struct dirents list = { 0 };
	struct file *dir = NULL;
	char name[160];

	if (tree_opendir(&tree, path, &dir))
		return;
	CHECK_INT(tree_readdir(&tree, dir, &list), 0);
	tree_release(&tree, dir);
	for (uint32_t i = 0; i < list.count; i++) {
		snprintf(name, sizeof(name), "%s/%s", path, list.entry[i].name);
		if (strchr("pidsu", list.entry[i].name[0]) && list.entry[i].name[1] == '.')
			CHECK_INT(tree_unlink(&tree, name), 0);
	}
	fop_out_clear(FOP_readdir, &list);
}

static void drop_records(void)
{
	char path[64];

	for (int child = 0; child < SUBVOLUMES; child++)
		for (unsigned i = 0; i < 16; i++) {
			at_brick(child);
			snprintf(path, sizeof(path), DHT_HIDDEN "/work/%x", i);
			drop_records_in(path);
		}
	at("dht");
}

/* Cut off after so many messages; then all records go, as if their subvolume had lost them. */
static void cut_at(unsigned messages, bool loses, unsigned *sent)
{
	const char *a = named(0, "a"), *b = named(1, "b");
	struct attr of;

	CHECK_INT(put(a, "text"), 0);
	CHECK_INT(put(b, "text"), 0);
	CHECK_INT(tree_getattr(&tree, a, &of), 0);
	cut_after(messages, false);
	tree_rename(&tree, a, b, 0);
	*sent = cut_end();
	if (loses)
		drop_records();
	CHECK_INT(fsck("repair wait=1"), 0);
	CHECK(is_clean());
	CHECK_INT(census().work, 0);
	CHECK(is_somewhere(a, b, &of.gfid));
	CHECK(loses || (links(b) == 1 && (reads(a, "text") ? links(a) == 1 : true)));
	tree_unlink(&tree, a);
	tree_unlink(&tree, b);
	CHECK(is_kept());
}

static void cut_anywhere(bool loses, unsigned each)
{
	const unsigned step = moment_step(each);
	unsigned messages = first_moment(each), sent = 0;

	CHECK_INT(build_kept(), 0);
	do {
		cut_at(messages, loses, &sent);
		if (failures)
			fprintf(stderr, "after %u messages; then: %s\n", messages, told);
		messages += step;
	} while (!failures && sent > messages - step);
	CHECK(messages > 10);
}

PROPERTY(a_rename_of_one_who_died_is_ended)
{
	cut_anywhere(false, SLOW);
}

PROPERTY(those_of_a_volume_whose_first_has_left)
{
	enum { FEW = 5 };

	cut_anywhere(false, FEW * SLOW * SLOW);
}

static void a_rename_of_one_who_died_is_ended_where_the_first_has_left(void **state)
{
	gone = 1;
	those_of_a_volume_whose_first_has_left(state);
	gone = 0;
}

PROPERTY(a_rename_whose_record_is_lost_loses_no_file)
{
	cut_anywhere(true, SLOW);
}

/* One who dies at each message of a rename, and its record is lost; adds to *found how often what waits was all that fsck found then. */
static void lost_while_it_waits(const char *a, const char *b, unsigned *found)
{
	unsigned sent = 0, messages = 0;

	CHECK_INT(put(a, "text"), 0);
	do {
		cut_after(messages, false);
		tree_rename(&tree, a, b, 0);
		sent = cut_end();
		drop_records();
		CHECK_INT(fsck("wait=1"), 0);
		if (count("finding waits-without-intent\n") == 1 && count("finding ") == 1 && reads(a, "text")) {
			*found += 1;
			CHECK(found_and_mended("waits-without-intent", 1));
			CHECK(reads(a, "text") && links(a) == 1);
		}
		CHECK_INT(fsck("repair wait=1"), 0);
		messages += STEP;
	} while (sent > messages - STEP && reads(a, "text"));
	tree_unlink(&tree, a);
	tree_unlink(&tree, b);
}

/* How many messages a rename takes depends on the directories that are there, and these on its id: so once may not be enough. */
PROPERTY(what_waits_for_nothing_goes_with_its_anchor)
{
	unsigned found = 0;

	CHECK_INT(build_kept(), 0);
	for (int i = 0; i < ROUNDS && found < ENOUGH && !failures; i++)
		lost_while_it_waits(named(0, "a"), named(1, "b"), &found);
	CHECK(found >= ENOUGH);
	CHECK(is_kept());
}

PROPERTY(a_pointer_that_nobody_ends_is_ended)
{
	const char *a = named(0, "a"), *b = named(1, "b");

	CHECK_INT(build_kept(), 0);
	CHECK_INT(put(a, "text"), 0);
	CHECK_INT(tree_link(&tree, a, b), 0);
	let_fail(0, "unlink", "EIO"); /* the anchor stays */
	CHECK_INT(tree_unlink(&tree, b), 0);
	let_work(0);
	CHECK_INT(links(a), 2);
	CHECK(found_and_mended("unended", 1));
	CHECK_INT(links(a), 1);
	CHECK(is_kept());
}

PROPERTY(a_mark_of_nobody_is_removed)
{
	struct mark m = { .hash = mark_hash("file"), .attempt = 1, .subvolume = 1 };
	char xattr[MARK_NAME];
	uint8_t bytes[MARK_SIZE];

	CHECK_INT(build_kept(), 0);
	gfid_create(&m.intent);
	mark_encode(&m, bytes);
	at_brick(0);
	CHECK_INT(tree_setxattr(&tree, kept[2], mark_name(m.hash, xattr), bytes, sizeof(bytes), 0), 0);
	CHECK_INT(tree_setxattr(&tree, "", xattr, bytes, sizeof(bytes), 0), 0);
	CHECK(found_and_mended("mark-without-intent", 2));
	CHECK(is_kept());
}

const struct CMUnitTest under_way[] = {
	cmocka_unit_test(a_rename_of_one_who_died_is_ended),
	cmocka_unit_test(a_rename_whose_record_is_lost_loses_no_file),
	cmocka_unit_test(what_waits_for_nothing_goes_with_its_anchor),
	cmocka_unit_test(a_pointer_that_nobody_ends_is_ended),
	cmocka_unit_test(a_mark_of_nobody_is_removed),
	cmocka_unit_test(a_rename_of_one_who_died_is_ended_where_the_first_has_left),
};
const unsigned under_way_count = sizeof(under_way) / sizeof(under_way[0]);
