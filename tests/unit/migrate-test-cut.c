/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: who brings a file home dies at any message, or stands still, or loses an answer, and others end it. */
#include "migrate-test.h"

void cut_at(unsigned messages, bool done, unsigned *sent)
{
	const char *b = put_away("text");
	struct file *file = NULL;
	bool home;

	at("second");
	CHECK_INT(tree_open_file(&tree, b, O_RDWR, &file), 0);
	at("dht");
	cut_after(messages, done);
	bring(b);
	*sent = cut_end();
	at("second");
	CHECK(file_reads(file, "text"));
	CHECK_INT(tree_write(&tree, file, 0, "TEXT", 4), 0);
	tree_release(&tree, file);
	CHECK(is_whole(b, "TEXT"));
	at("dht");
	CHECK(reads(b, "TEXT"));
	home = holder(b) == 1 && census().anchors == 0;
	CHECK(brings(b, home ? "nothing" : "brought"));
	CHECK_INT(tree_unlink(&tree, b), 0);
	CHECK(settles(0));
}

/* `done`: what is on the disks is what it is one message later, and not done; so there it need not be each. */
static void play_cuts(bool done, unsigned step)
{
	const unsigned by = moment_step(step);
	unsigned at_message = first_moment(step), sent = 0;

	do {
		cut_at(at_message, done, &sent);
		if (failures)
			fprintf(stderr, "after %u messages%s\n", at_message, done ? ", and one that was not answered" : "");
		at_message += by;
	} while (!failures && sent > at_message - by);
	CHECK(at_message > 30);
}

MOVES(who_dies_half_way_has_moved_it_or_not, SWEEPS)
{
	play_cuts(false, 1);
	play_cuts(true, 8);
}

/* Who brings it then may be so slow that he is taken over, too. */
static bool comes_home(const char *b)
{
	bool yes = false;

	for (int i = 0; i < tries_of(10) && !yes; i++) {
		yes = !bring(b) && (!strncmp(told, "brought", 7) || !strncmp(told, "nothing", 7));
		if (!yes)
			task_sleep_ms(10);
	}
	return yes && holder(b) == 1 && reads(b, "text");
}

/* Others end what he has begun, and let go of it; then he goes on, and does not know. */
static void stand_still(unsigned messages, bool *between)
{
	const char *b = put_away("text");
	struct late l;
	bool whole;

	*between = bring_late(&l, b, messages);
	whole = is_whole(b, "text");
	bring_ends(&l);
	CHECK(whole && is_whole(b, "text"));
	CHECK(comes_home(b));
	CHECK_INT(put(b, "TEXT"), 0);
	CHECK(is_whole(b, "TEXT"));
	CHECK_INT(tree_unlink(&tree, b), 0);
	CHECK(settles(0));
}

MOVES(who_stands_still_half_way_leaves_it_to_others, SWEEPS)
{
	unsigned messages = first_moment(2);
	bool between = true;

	for (; !failures && between; messages += moment_step(2)) {
		stand_still(messages, &between);
		if (failures)
			fprintf(stderr, "after %u messages\n", messages);
	}
	CHECK(messages > 30);
}

/* The record outlives the marks: until a sweep comes by, the name is anybody's. */
MOVES(what_died_at_its_very_end_keeps_nobody_from_the_name, SWEEPS)
{
	unsigned sent = 0;

	cut_at(1000, false, &sent);
	for (unsigned i = 0; i < 12 && !failures; i++) {
		const char *b = put_away("text"), *o = name_at((int)i % 4, "o");

		cut_after(sent - 1 - i / 4, i % 2);
		bring(b);
		cut_end();
		at("second");
		CHECK_INT(i & 2 ? tree_unlink(&tree, b) : tree_rename(&tree, b, o, 0), 0);
		CHECK(i & 2 || is_whole(o, "text"));
		at("dht");
		CHECK_INT(put(b, "new"), 0);
		CHECK(is_whole(b, "new"));
		CHECK(i & 2 || (!put(o, "TEXT") && reads(o, "TEXT")));
		CHECK(i & 2 || !tree_unlink(&tree, o));
		CHECK_INT(tree_unlink(&tree, b), 0);
		CHECK(settles(0));
		if (failures)
			fprintf(stderr, "cut %u\n", i);
	}
}

MOVES(an_answer_that_is_lost_loses_nothing_else, SWEEPS)
{
	const unsigned step = moment_step(1);
	unsigned at_message = first_moment(1), sent = 0;

	do {
		const char *b = put_away("text");

		lose_answer(at_message);
		bring(b);
		sent = cut_end();
		CHECK(is_whole(b, "text"));
		CHECK_INT(tree_unlink(&tree, b), 0);
		CHECK(settles(0));
		if (failures)
			fprintf(stderr, "the answer of message %u\n", at_message + 1);
		at_message += step;
	} while (!failures && sent > at_message - step);
}

const struct CMUnitTest cuts[] = {
	cmocka_unit_test(who_dies_half_way_has_moved_it_or_not),
	cmocka_unit_test(who_stands_still_half_way_leaves_it_to_others),
	cmocka_unit_test(what_died_at_its_very_end_keeps_nobody_from_the_name),
	cmocka_unit_test(an_answer_that_is_lost_loses_nothing_else),
};
const unsigned cuts_count = sizeof(cuts) / sizeof(cuts[0]);
