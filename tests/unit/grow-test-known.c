/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht, while a subvolume comes: who learns of the layout in the middle of something, or not at all; and what a brick allows by the one that it has. */
#include "grow-test.h"

#include "place.h"

/* ---- who learns of the layout in the middle of something ---- */

static bool is_marked(const char *brick, const char *name)
{
	struct blob value = { 0 };
	char xattr[MARK_NAME];
	bool yes;

	at(brick);
	yes = !tree_getxattr(&tree, "", mark_name(mark_hash(name), xattr), &value);
	at("dht");
	free(value.bytes);
	return yes;
}

/* There are no names that move. */
static int move_all(void)
{
	struct layout l;
	int err = begin_to_move();

	while_it_moves(&l);
	layout_settle(&l);
	for (int i = 0; i < SUBVOLUMES && !err; i++)
		err = put_layout(i, &l);
	return err;
}

struct late {
	unsigned messages; /* after which it waits */
	const char *a, *b;
	bool marked; /* the new name was, by then */
	atomic_bool begun, over;
	int err;
};
static struct late late;

static void rename_late(void *arg)
{
	(void)arg;
	stay_before(late.messages);
	late.begun = true;
	late.err = tree_rename(&tree, late.a, late.b, 0);
	cut_end();
	late.over = true;
}

/* The new name has gone to another subvolume since it was looked at, and this client knows. */
static void learns_meanwhile_(void *arg)
{
	struct attr a;

	(void)arg;
	late = (struct late){ .messages = late.messages, .a = name_at(0, "a"), .b = moving_name(1, "b") };
	CHECK_INT(put(late.a, "text"), 0);
	CHECK_INT(task_spawn(NULL, rename_late, NULL), 0);
	while (!late.begun || (!stays() && !late.over))
		task_sleep_ms(1);
	late.marked = late.over || is_marked("m1", late.b);
	if (!late.marked) { /* else it would have to come to its end before they have all moved */
		CHECK_INT(move_all(), 0);
		CHECK_INT(tree_getattr(&tree, moving_name(2, "other"), &a), -ENOENT);
	}
	stay_no_more();
	while (!late.over)
		task_sleep_ms(1);
	CHECK_INT(late.err, 0);
	CHECK(reads(late.b, "text") && !links(late.a));
	CHECK_INT(holder(late.b), late.marked ? 1 : NEW);
	CHECK_INT(census().work, 0);
	if (failures)
		fprintf(stderr, "after %u messages\n", late.messages);
}

static void what_was_found_by_one_layout_is_not_marked_by_the_next(void **state)
{
	unsigned messages = 0;

	(void)state;
	initial = BEFORE;
	do {
		late.messages = messages;
		run(learns_meanwhile_, "", "64M");
	} while (!late.marked && messages++ < 100);
	initial = SUBVOLUMES;
	assert_true(late.marked && messages > 5);
}

/* ---- who does not know all ---- */

static void begin_late(void *arg)
{
	(void)arg;
	task_sleep_ms(500); /* fsck has looked at the layout by now, and waits for long before it does so again */
	load.wrong += command("second", "rebalance", "start") != 0;
	load.running--;
}

GROWS(who_repairs_by_the_layout_before_renames_nothing)
{
	char *argv[] = { (char *)"fsck", (char *)"repair", (char *)"wait=5000" }, *said = NULL;
	struct xlator *x = tree_find(&tree, "dht");
	size_t size;
	FILE *f = open_memstream(&said, &size);

	CHECK_INT(fill(), 0);
	at("m2"); /* something that fsck wants to look at more than once */
	CHECK_INT(put(moving_name(0, "stray"), "stray"), 0);
	at("dht");
	load.wrong = 0;
	load.running = 1;
	CHECK_INT(task_spawn(NULL, begin_late, NULL), 0);
	CHECK_INT(x->type->command(x, 3, argv, f), 0);
	fclose(f);
	CHECK(strstr(said, "problem ") && strstr(said, "run it again"));
	free(said);
	while (load.running)
		task_sleep_ms(1);
	CHECK_INT(load.wrong, 0);
	CHECK(is_done("second"));
	CHECK(all_there());
	CHECK(all_at_their_owners());
}

GROWS(a_client_that_lacks_the_new_one_changes_nothing_of_it_and_tells_no_shorter_list)
{
	struct reader r = { 0 };
	struct setattr set = { .valid = SET_MODE, .mode = 0700 };
	const char *known = moving_name(-1, "known");
	struct attr a;

	CHECK_INT(fill(), 0);
	CHECK_INT(put(known, "known"), 0);
	at("lacking");
	CHECK_INT(tree_opendir(&tree, "", &r.dir), 0);
	CHECK_INT(read_more(&r, 1000), 0);
	at("dht");
	CHECK(grows("second"));
	at("lacking");
	CHECK_INT(read_to_end(&r), -EIO);
	tree_release(&tree, r.dir);
	CHECK_INT(tree_opendir(&tree, "", &r.dir), -EIO);
	CHECK_INT(tree_setattr(&tree, "", &set), -EIO);
	CHECK(reads(known, "known"));
	CHECK_INT(tree_unlink(&tree, known), 0);
	for (int i = 0; i < SUBVOLUMES; i++) {
		char volume[8];

		snprintf(volume, sizeof(volume), "m%d", i);
		at(volume);
		CHECK_INT(tree_getattr(&tree, "", &a), 0);
		CHECK_INT(a.mode & 07777, 0755);
	}
	at("dht");
	CHECK(all_there());
}

/* The first subvolume has seen it before, or so it seems; but the name has moved since. */
GROWS(what_is_asked_for_again_is_not_taken_for_done_where_names_move_away)
{
	const char *name = moving_name(0, "n");
	struct unlink_in in = { .loc = { .name = name } };
	struct place said = { .directory = { gfid_root }, .version = { 1 } };
	struct request rq;

	CHECK_INT(put(name, "n"), 0);
	CHECK_INT(begin_to_move(), 0);
	CHECK_INT(tree_walk(&tree, "", &in.loc.parent), 0);
	request_init(&rq, tree.graph, 0);
	rq.group_count = 0;
	rq.resent = true;
	CHECK_INT(place_attach(&rq, &said), 0);
	CHECK_INT(fop_call(&rq, tree_find(&tree, "l0"), FOP_unlink, &in, &(struct unlink_out){ 0 }), 0);
	CHECK_INT(fop_call(&rq, tree_find(&tree, "l0"), FOP_unlink, &in, &(struct unlink_out){ 0 }), -ENOENT);
	request_finish(&rq);
	inode_unref(in.loc.parent);
}

/* ---- bricks ---- */

/* As a client that says that version of the root's layout. */
static int call_said(int child, enum fop fop, const void *in, void *out, const struct place *said)
{
	struct request rq;
	char volume[8];
	int err;

	snprintf(volume, sizeof(volume), "l%d", child);
	request_init(&rq, tree.graph, 0);
	rq.group_count = 0;
	err = place_attach(&rq, said);
	if (!err)
		err = fop_call(&rq, tree_find(&tree, volume), fop, in, out);
	request_finish(&rq);
	return err;
}

static int set_mark(const struct place *said, uint8_t id)
{
	struct mark m = { mark_hash("x"), { { id } }, said->attempt, 0 };
	uint8_t bytes[MARK_SIZE];
	char xattr[MARK_NAME];
	struct setxattr_in in = { .name = mark_name(m.hash, xattr), .value = { MARK_SIZE, bytes } };
	int err = tree_walk(&tree, "", &in.inode);

	mark_encode(&m, bytes);
	if (!err)
		err = call_said(0, FOP_setxattr, &in, &(struct setxattr_out){ 0 }, said);
	inode_unref(in.inode);
	return err;
}

GROWS(an_intent_begins_by_the_layout_that_the_brick_has)
{
	struct place said = { .intent = { { 1 } }, .attempt = 1 };

	CHECK_INT(set_mark(&said, 1), 0); /* held from before */
	CHECK_INT(begin_to_move(), 0);
	CHECK_INT(set_mark(&said, 1), 0); /* set once more: it stands */
	said.intent.bytes[0] = 2;
	CHECK_INT(set_mark(&said, 2), -EMARKED);
	said.attempt = 2;
	said.intent.bytes[0] = 1;
	CHECK_INT(set_mark(&said, 1), 0); /* who takes over */
	at("l0");
	CHECK_INT(tree_removexattr(&tree, "", mark_name(mark_hash("x"), (char[MARK_NAME]){ "" })), 0);
	at("dht");
	said = (struct place){ .intent = { { 2 } }, .attempt = 1 };
	CHECK_INT(set_mark(&said, 2), -ELAYOUT);
	said.attempt = 2;
	CHECK_INT(set_mark(&said, 2), 0);
	said = (struct place){ .intent = { { 2 } }, .attempt = 3, .directory = { gfid_root }, .version = { 1 } };
	CHECK_INT(set_mark(&said, 2), 0);
}

static int say_layout(int child, const struct layout *l)
{
	uint8_t bytes[LAYOUT_SIZE_MAX];
	struct setxattr_in in = { .name = DHT_LAYOUT_XATTR, .value = { (uint32_t)layout_encode(l, bytes), bytes } };
	int err = tree_walk(&tree, "", &in.inode);

	if (!err)
		err = call_said(child, FOP_setxattr, &in, &(struct setxattr_out){ 0 }, &(struct place){ 0 });
	inode_unref(in.inode);
	return err;
}

GROWS(a_layout_is_replaced_by_a_later_one_only)
{
	struct layout l, other;

	while_it_moves(&l);
	other = l;
	other.member[NEW].next = 7;
	CHECK_INT(say_layout(0, &l), 0);
	CHECK_INT(say_layout(0, &l), 0);
	CHECK_INT(say_layout(0, &other), -EFENCED);
	layout_settle(&l);
	CHECK_INT(say_layout(0, &l), 0);
	CHECK_INT(say_layout(0, &other), -EFENCED);
}

/* So nobody takes for gone what may come back. */
GROWS(marks_of_the_root_are_counted)
{
	struct getxattr_in in = { .name = DHT_MARKS_XATTR };
	struct getxattr_out one = { 0 }, two = { 0 }, three = { 0 };
	struct place said = { .intent = { { 1 } }, .attempt = 1 };

	CHECK_INT(tree_walk(&tree, "", &in.inode), 0);
	CHECK_INT(call_said(0, FOP_getxattr, &in, &one, &(struct place){ 0 }), 0);
	CHECK_INT(call_said(0, FOP_getxattr, &in, &two, &(struct place){ 0 }), 0);
	CHECK(one.value.size == two.value.size && !memcmp(one.value.bytes, two.value.bytes, one.value.size));
	CHECK(!strncmp(one.value.bytes, "0 ", 2));
	CHECK_INT(set_mark(&said, 1), 0);
	fop_out_clear(FOP_getxattr, &two);
	CHECK_INT(call_said(0, FOP_getxattr, &in, &two, &(struct place){ 0 }), 0);
	CHECK(!strncmp(two.value.bytes, "1 ", 2));
	at("l0");
	CHECK_INT(tree_removexattr(&tree, "", mark_name(mark_hash("x"), (char[MARK_NAME]){ "" })), 0);
	at("dht");
	CHECK_INT(call_said(0, FOP_getxattr, &in, &three, &(struct place){ 0 }), 0);
	CHECK(!strncmp(three.value.bytes, "0 ", 2));
	CHECK(one.value.size != three.value.size || memcmp(one.value.bytes, three.value.bytes, one.value.size));
	fop_out_clear(FOP_getxattr, &one);
	fop_out_clear(FOP_getxattr, &two);
	fop_out_clear(FOP_getxattr, &three);
	inode_unref(in.inode);
}

const struct CMUnitTest known_tests[] = {
	cmocka_unit_test(what_was_found_by_one_layout_is_not_marked_by_the_next),
	cmocka_unit_test(who_repairs_by_the_layout_before_renames_nothing),
	cmocka_unit_test(a_client_that_lacks_the_new_one_changes_nothing_of_it_and_tells_no_shorter_list),
	cmocka_unit_test(what_is_asked_for_again_is_not_taken_for_done_where_names_move_away),
	cmocka_unit_test(an_intent_begins_by_the_layout_that_the_brick_has),
	cmocka_unit_test(a_layout_is_replaced_by_a_later_one_only),
	cmocka_unit_test(marks_of_the_root_are_counted),
};
const unsigned known_tests_count = sizeof(known_tests) / sizeof(known_tests[0]);
