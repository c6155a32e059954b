/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: who makes a directory wide, or removes one, and does not see the end. */
#include "widen-test.h"

void clear_directory(const char *dir)
{
	removed(dir, "f", FEW);
	CHECK_INT(tree_rmdir(&tree, dir), 0);
}

/* *cut: it was cut off, and had not come to its end. */
static void cut_widening(unsigned messages, bool done, bool *cut)
{
	CHECK_INT(tree_mkdir(&tree, "d", 0755), 0);
	CHECK_INT(fill("d", "f", 0, FEW), 0);
	cut_after(messages, done);
	CHECK_INT(widening("second", "once"), 0);
	*cut = cut_end() > messages;
	CHECK_INT(missing("d", "f", FEW), 0);
	CHECK_INT(listed("d"), FEW);
	CHECK_INT(put("d/f0", "TEXT"), 0); /* the rest of the file stays */
	for (int i = 0; i < tries_of(1) && census().work; i++) {
		CHECK_INT(widening("third", "once"), 0);
		task_sleep_ms(1);
	}
	CHECK_INT(census().work, 0);
	CHECK_INT(missing("d", "f", FEW), 1);
	CHECK_INT(listed("d"), FEW);
	if (!failures)
		CHECK(is_whole());
	clear_directory("d");
	if (failures)
		fprintf(stderr, "cut off after %u messages%s\n", messages, done ? ", of which the next was done" : "");
}

void few_are_many(void (*fn)(void *))
{
	widen_at = FEW;
	more_volumes = OTHER_CLIENT("second") OTHER_CLIENT("third");
	run(fn, " option sweep-interval 10ms\n", "256M");
	widen_at = 8192;
	more_volumes = "";
}

static void cut_all(void *arg)
{
	bool cut = true;

	(void)arg;
	for (unsigned i = first_moment(1); cut && !failures; i += moment_step(1)) {
		cut_widening(i, false, &cut);
		if (!failures && i % 8 == 0) /* what is on the disks is what it is one message later, and not done */
			cut_widening(i, true, &cut);
	}
}

void what_one_began_to_widen_another_ends(void **state)
{
	(void)state;
	few_are_many(cut_all);
}

static void make_empty_and_wide(const char *dir)
{
	bool settled;

	CHECK_INT(tree_mkdir(&tree, dir, 0755), 0);
	CHECK_INT(fill(dir, "f", 0, FEW), 0);
	CHECK_INT(widening("third", "once"), 0);
	CHECK(members_of(dir, &settled) == 2 && settled);
	CHECK_INT(removed(dir, "f", FEW), 0);
}

static bool there(const char *path)
{
	return !tree_getattr(&tree, path, &(struct attr){ 0 });
}

/* rmdir, or (over) a rename over it; full: not empty. */
static void cut_removal(unsigned messages, bool done, bool over, bool full, bool *cut)
{
	int err;

	make_empty_and_wide("d");
	if (full)
		CHECK_INT(put("d/f0", "0"), 0);
	if (over)
		CHECK_INT(tree_mkdir(&tree, "e", 0755) + (put("e/f1", "1") != 0), 0);
	cut_after(messages, done);
	err = over ? tree_rename(&tree, "e", "d", 0) : tree_rmdir(&tree, "d");
	*cut = cut_end() > messages;
	CHECK(err ? *cut || full : !full);
	for (int i = 0; i < tries_of(1) && census().work; i++)
		task_sleep_ms(1);
	CHECK_INT(census().work, 0);
	if (full)
		CHECK(reads("d/f0", "0") && (!over || reads("e/f1", "1")));
	else if (over)
		CHECK(there("e") ? reads("e/f1", "1") && there("d") && !there("d/f1") : reads("d/f1", "1"));
	if (!full && !over && there("d")) /* it was taken back: names can be made again */
		CHECK_INT(fill("d", "f", 0, FEW), 0);
	if (!failures)
		CHECK(is_whole());
	for (int i = 0; i < 2; i++) {
		const char *dir = i ? "e" : "d";

		if (!there(dir))
			continue;
		removed(dir, "f", FEW);
		tree_unlink(&tree, in(dir, "f", 1));
		CHECK_INT(tree_rmdir(&tree, dir), 0);
	}
	if (failures)
		fprintf(stderr, "cut off after %u messages%s%s%s\n", messages, done ? ", of which the next was done" : "",
			over ? ", over it" : "", full ? ", full" : "");
}

static void cut_removals(void *arg)
{
	(void)arg;
	for (int kind = 0; kind < 3; kind++) {
		const unsigned step = kind ? 3 : 1;
		bool cut = true;

		for (unsigned i = first_moment(step); cut && !failures; i += moment_step(step))
			cut_removal(i, i % 8 == 7, kind == 1, kind == 2, &cut);
	}
}

void who_dies_while_a_wide_directory_goes_has_removed_it_or_not(void **state)
{
	(void)state;
	few_are_many(cut_removals);
}

/* By the mark of one who was slow to set it, and has died since: his record had gone by then. */
static int dies_for_nobody(int child, const struct gfid *gfid)
{
	struct mark m = { .hash = mark_hash(MARK_DYING), .attempt = 2 };
	struct place p = { .attempt = 2 };
	char brick[8], xattr[MARK_NAME];
	uint8_t bytes[MARK_SIZE];
	struct setxattr_in in = { .name = mark_name(m.hash, xattr), .value = { MARK_SIZE, bytes } };
	struct setxattr_out out = { 0 };
	struct request rq;
	struct xlator *x;
	int err;

	snprintf(brick, sizeof(brick), "l%d", child);
	x = tree_find(&tree, brick);
	gfid_create(&m.intent);
	p.intent = m.intent;
	mark_encode(&m, bytes);
	in.inode = inode_get(x->inodes, gfid, S_IFDIR);
	request_init(&rq, x->graph, 0);
	err = place_attach(&rq, &p);
	err = err ? err : setxattr_on(&rq, x, &in, &out);
	request_finish(&rq);
	inode_unref(in.inode);
	return err;
}

static void die_for_nobody(const char *dir)
{
	struct layout l;
	struct attr a;
	int marked = 0;

	make_empty_and_wide(dir);
	CHECK_INT(tree_getattr(&tree, dir, &a), 0);
	for (int i = 0; i < SUBVOLUMES; i++)
		if (!layout_at(i, &a.gfid, dir, &l)) {
			CHECK_INT(dies_for_nobody(i, &a.gfid), 0);
			marked++;
		}
	CHECK_INT(marked, 2);
}

static void make_where_it_dies_for_nobody(void *arg)
{
	(void)arg;
	die_for_nobody("d");
	CHECK_INT(fill("d", "f", 0, FEW), 0);
	CHECK_INT(removed("d", "f", FEW), 0);
	CHECK_INT(tree_rmdir(&tree, "d"), 0);
	die_for_nobody("e");
	CHECK_INT(tree_rmdir(&tree, "e"), 0);
	CHECK(is_whole());
}

void names_are_made_again_where_a_wide_directory_dies_for_nobody(void **state)
{
	(void)state;
	few_are_many(make_where_it_dies_for_nobody);
}
