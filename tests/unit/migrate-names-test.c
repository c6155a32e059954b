/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: files with several names are brought home by one of them while they are in use by all; the other names lead to there, and get pointers of their own. Who does it may die
 * at any message, and others end it. */
#include "migrate-tree.h"

#include "place.h"

/* The file is at subvolume 0, and none of its names: two are at 1, one at 2, one at 3 in a directory. */
enum { NAMES = 4 };
static char name[NAMES][96];

static void make_names(const char *text)
{
	const char *a, *dir = name_at(3, "dir");

	tree_mkdir(&tree, dir, 0755);
	snprintf(name[3], sizeof(name[3]), "%s/d", dir);
	snprintf(name[0], sizeof(name[0]), "%s", name_at(1, "b"));
	snprintf(name[1], sizeof(name[1]), "%s", name_at(1, "bb"));
	snprintf(name[2], sizeof(name[2]), "%s", name_at(2, "c"));
	a = name_at(0, "a");
	CHECK_INT(put(a, text), 0);
	CHECK_INT(tree_rename(&tree, a, name[0], 0), 0);
	for (int i = 1; i < NAMES; i++)
		CHECK_INT(tree_link(&tree, name[0], name[i]), 0);
	CHECK_INT(census().anchors, NAMES);
}

static void remove_names(void)
{
	for (int i = 0; i < NAMES; i++)
		CHECK_INT(tree_unlink(&tree, name[i]), 0);
}

static bool all_read(const char *text)
{
	bool yes = true;

	for (int i = 0; i < NAMES && yes; i++) {
		yes = reads(name[i], text) && links(name[i]) == NAMES && same_file(name[0], name[i]);
		if (!yes)
			fprintf(stderr, "%s: %u links, %s\n", name[i], links(name[i]),
				reads(name[i], text) ? "as it was" : "another text");
	}
	return yes;
}

static bool rebalances(void)
{
	char *start[] = { (char *)"rebalance", (char *)"start" }, *status[] = { (char *)"rebalance", (char *)"status" };
	struct xlator *x = tree_find(&tree, "dht");
	char text[1024] = "";

	if (x->type->command(x, 2, start, stderr))
		return false;
	for (int i = 0; i < tries_of(10) && !strstr(text, "state done"); i++) {
		FILE *f = fmemopen(text, sizeof(text), "w");

		x->type->command(x, 2, status, f);
		fclose(f);
		task_sleep_ms(10);
	}
	return strstr(text, "state done");
}

static bool file_reads(struct file *file, const char *text)
{
	struct buffer *data = NULL;
	int err = tree_read(&tree, file, 0, 100, &data);
	bool yes = !err && data->size == strlen(text) && !memcmp(data->data, text, data->size);

	buffer_unref(data);
	return yes;
}

/* ---- all its names ---- */

MOVES(it_is_brought_with_all_its_names, SWEEPS)
{
	make_names("text");
	CHECK(brings(name[0], "brought, and has other names"));
	CHECK_INT(holder(name[0]), 1);
	CHECK(all_read("text"));
	at("second");
	CHECK(all_read("text"));
	CHECK_INT(put(name[2], "TEXT"), 0);
	CHECK(all_read("TEXT"));
	at("dht");
	CHECK(brings(name[0], "nothing"));
	CHECK(brings(name[1], "led"));
	CHECK(brings(name[1], "nothing"));
	CHECK(brings(name[2], "led"));
	CHECK(all_read("TEXT"));
	CHECK(rebalances());
	CHECK(settles(NAMES - 1));
	CHECK(all_read("TEXT"));
	at("second");
	CHECK(all_read("TEXT"));
	remove_names();
	at("dht");
	CHECK(settles(0));
}

MOVES(a_rebalance_leads_all_names_to_it, SWEEPS)
{
	make_names("text");
	CHECK(rebalances());
	CHECK(settles(NAMES - 1));
	CHECK(all_read("text"));
	remove_names();
	CHECK(settles(0));
}

MOVES(one_that_is_at_home_by_one_of_its_names_stays, SWEEPS)
{
	make_names("text");
	CHECK_INT(tree_link(&tree, name[0], name_at(0, "h")), 0);
	CHECK(brings(name[0], "at home by another"));
	CHECK(reads(name[0], "text") && links(name[2]) == NAMES + 1);
	CHECK_INT(tree_unlink(&tree, name_at(0, "h")), 0);
	CHECK(brings(name[2], "brought"));
	CHECK_INT(holder(name[2]), 2);
	CHECK(all_read("text"));
	CHECK(rebalances());
	CHECK(settles(NAMES - 1));
}

/* Until all names have been led there, they are what they were. */
MOVES(names_that_lead_by_where_it_was_are_used, SWEEPS)
{
	const char *o, *p;

	make_names("text");
	o = name_at(0, "o");
	p = name_at(3, "p");
	CHECK(brings(name[0], "brought"));
	at("second");
	CHECK_INT(tree_rename(&tree, name[2], o, 0), 0);
	CHECK(reads(o, "text") && links(o) == NAMES);
	CHECK_INT(tree_link(&tree, name[3], p), 0);
	CHECK(reads(p, "text") && links(name[0]) == NAMES + 1);
	CHECK_INT(tree_unlink(&tree, p), 0);
	CHECK_INT(tree_unlink(&tree, name[3]), 0);
	CHECK_INT(links(o), NAMES - 1);
	CHECK_INT(put(name[3], "new"), 0);
	CHECK_INT(tree_rename(&tree, name[3], name[1], 0), 0);
	CHECK(reads(name[1], "new") && links(o) == NAMES - 2);
	CHECK_INT(tree_rename(&tree, o, name[0], 0), 0); /* both are of one file */
	CHECK(reads(name[0], "text") && reads(o, "text"));
	CHECK_INT(tree_unlink(&tree, name[0]), 0);
	CHECK(reads(o, "text") && links(o) == 1);
	at("dht");
	CHECK(rebalances());
	CHECK(settles(1)); /* it is not brought again before its stub has gone */
	CHECK(rebalances());
	CHECK(settles(0));
	CHECK(reads(o, "text") && links(o) == 1);
}

/* Where one name is, and leads to where another is in place. */
MOVES(of_two_names_of_it_at_one_subvolume_none_replaces_the_other, SWEEPS)
{
	make_names("text");
	CHECK(brings(name[0], "brought"));
	CHECK(brings(name[1], "led"));
	CHECK_INT(tree_rename(&tree, name[0], name[1], 0), 0);
	CHECK(all_read("text"));
	CHECK_INT(tree_rename(&tree, name[1], name[0], 0), 0);
	CHECK(all_read("text"));
}

MOVES(who_has_it_open_goes_on, SWEEPS)
{
	struct file *file = NULL;

	make_names("text");
	at("second");
	CHECK_INT(tree_open_file(&tree, name[3], O_RDWR, &file), 0);
	at("dht");
	CHECK(brings(name[0], "brought"));
	CHECK(rebalances());
	at("second");
	CHECK(file_reads(file, "text"));
	CHECK_INT(tree_write(&tree, file, 0, "TEXT", 4), 0);
	CHECK(all_read("TEXT"));
	remove_names();
	CHECK(file_reads(file, "TEXT"));
	tree_release(&tree, file);
	at("dht");
	CHECK(settles(0));
}

/* ---- who does it dies ---- */

enum death { UNSENT, UNANSWERED, LOST };
static const char *by; /* which name he brings it by */

static void die_after(unsigned messages, enum death how)
{
	if (how == LOST)
		lose_answer(messages);
	else
		cut_after(messages, how == UNANSWERED);
}

static bool nothing_is_under_way(void)
{
	for (int i = 0; i < tries_of(10) && census().work; i++)
		task_sleep_ms(10);
	return !census().work;
}

static void cut_at(unsigned messages, enum death how, bool leads, unsigned *sent)
{
	struct file *file = NULL;

	make_names("text");
	at("second");
	CHECK_INT(tree_open_file(&tree, name[3], O_RDWR, &file), 0);
	at("dht");
	CHECK(!leads || brings(name[0], "brought"));
	die_after(messages, how);
	bring(leads ? by : name[0]);
	*sent = cut_end();
	at("second");
	CHECK(reads(name[2], "text"));
	CHECK_INT(tree_write(&tree, file, 0, "TEXT", 4), 0);
	tree_release(&tree, file);
	CHECK(leads || all_read("TEXT")); /* (who leads a name has one more meanwhile) */
	CHECK(nothing_is_under_way());
	at("second");
	CHECK(all_read("TEXT"));
	at("dht");
	CHECK(all_read("TEXT"));
	CHECK(rebalances());
	CHECK(settles(NAMES - 1));
	CHECK(all_read("TEXT"));
	at("second");
	remove_names();
	at("dht");
	CHECK(settles(0));
}

static unsigned play_cuts(enum death how, bool leads, unsigned step)
{
	const unsigned each = moment_step(step);
	unsigned at_message = first_moment(step), sent = 0;

	do {
		cut_at(at_message, how, leads, &sent);
		if (failures)
			fprintf(stderr, "death %d, after %u messages\n", how, at_message);
		at_message += each;
	} while (!failures && sent > at_message - each);
	return at_message;
}

MOVES(who_dies_half_way_has_moved_it_or_not, SWEEPS)
{
	CHECK(play_cuts(UNSENT, false, 2) > 50);
}

MOVES(an_answer_that_is_lost_loses_nothing_else, SWEEPS)
{
	play_cuts(UNANSWERED, false, 11);
	play_cuts(LOST, false, 5);
}

MOVES(who_dies_while_he_leads_a_name_there_leaves_it, SWEEPS)
{
	by = name[2];
	CHECK(play_cuts(UNSENT, true, 2) > 15);
	by = name[1];
	play_cuts(UNANSWERED, true, 2);
	play_cuts(LOST, true, 3);
}

MOVES(an_anchor_that_is_lost_with_the_power_is_made_again, SWEEPS)
{
	make_names("text");
	forget('a');
	CHECK(brings(name[0], "brought, and"));
	CHECK(all_read("text"));
	forget('a');
	bring(name[2]);
	CHECK(nothing_is_under_way());
	CHECK(all_read("text"));
	CHECK(rebalances());
	CHECK(settles(NAMES - 1));
	CHECK(all_read("text"));
}

/* ---- what others do meanwhile ---- */

static int unlink_and_make(const char *b)
{
	int err = tree_unlink(&tree, b);

	return err ? err : put(b, "new");
}

static int replace_it(const char *b)
{
	int err = put(other_name, "new");

	return err ? err : tree_rename(&tree, other_name, b, 0);
}

static int write_it(const char *b)
{
	return put(b, "TEXT");
}

/* Who removes a name while the anchors are held leaves the old one for a sweep: until then there is one more. */
static bool comes_to(const char *path, unsigned count)
{
	for (int i = 0; i < tries_of(10) && links(path) == count + 1; i++)
		task_sleep_ms(10);
	return links(path) == count;
}

/* As many messages before the other begins as there are in all. */
MOVES(its_other_names_are_used_meanwhile, SWEEPS)
{
	static int (*const deeds[])(const char *) = { unlink_it, rename_it, link_it, unlink_and_make, replace_it, write_it };

	others_go_on(true);
	for (int i = (int)first_moment(1); i < 90 && !failures; i += (int)moment_step(1)) {
		int which = 1 + i / 6 % 3, kind = i % 6;
		struct deed d = { .perform = deeds[kind], .b = name[which] };
		static char other[96];

		make_names("text");
		snprintf(other, sizeof(other), "%s", name_at(i % 4, "o"));
		other_name = other;
		at("second");
		CHECK_INT(task_spawn(NULL, perform, &d), 0);
		for (int k = 0; k < i; k++)
			task_yield();
		CHECK_INT(bring(name[0]), 0);
		while (!d.over)
			task_sleep_ms(1);
		CHECK_INT(d.err, 0);
		CHECK(comes_to(name[0], kind == 2 ? NAMES + 1 : kind == 1 || kind == 5 ? NAMES : NAMES - 1));
		CHECK(reads(name[0], kind == 5 ? "TEXT" : "text"));
		CHECK(kind == 0 || kind == 1 || reads(name[which], kind == 2 ? "text" : kind == 5 ? "TEXT" : "new"));
		CHECK((kind != 1 && kind != 2) || (reads(other, "text") && same_file(name[0], other)));
		if (failures)
			fprintf(stderr, "deed %d of %s\n", i, name[which]);
		at("dht");
		CHECK(rebalances());
		for (int k = 0; k < NAMES; k++)
			tree_unlink(&tree, name[k]);
		tree_unlink(&tree, other);
		CHECK(settles(0));
		if (failures)
			fprintf(stderr, "deed %d\n", i);
	}
	others_go_on(false);
}

/* Two are at it, by two names. */
static int bring_it(const char *b)
{
	return bring(b);
}

MOVES(two_bring_it_to_two_places, SWEEPS)
{
	others_go_on(true);
	for (int i = (int)first_moment(1); i < 40 && !failures; i += (int)moment_step(1)) {
		struct deed d = { .perform = bring_it, .b = name[2] };

		make_names("text");
		CHECK_INT(task_spawn(NULL, perform, &d), 0);
		for (int k = 0; k < 3 * i; k++)
			task_yield();
		CHECK_INT(bring(name[0]), 0);
		while (!d.over)
			task_sleep_ms(1);
		CHECK(all_read("text"));
		CHECK(nothing_is_under_way());
		CHECK(rebalances());
		CHECK(settles(NAMES - 1));
		CHECK(all_read("text"));
		remove_names();
		CHECK(settles(0));
		if (failures)
			fprintf(stderr, "turn %d\n", i);
	}
	others_go_on(false);
}

/* Who brings it then may be so slow that he is taken over, too. */
static bool comes_home(void)
{
	enum { TRIES = 5 };
	bool yes = false;

	for (int i = 0; i < TRIES && !yes; i++)
		yes = rebalances() && settles(NAMES - 1);
	return yes;
}

/* One by the second of the names, who is late after so many messages: meanwhile the other brings it to the same place by the first one, and then the late one is taken
 * over. *between: he has so many. */
static void bring_between(unsigned messages, bool *between)
{
	struct late l;
	bool good;

	make_names("text");
	*between = bring_late(&l, name[1], messages);
	good = bring(name[0]) >= 0 && nothing_is_under_way() && all_read("text");
	bring_ends(&l);
	CHECK(good);
	CHECK(nothing_is_under_way());
	CHECK(all_read("text"));
	CHECK(comes_home());
	CHECK(all_read("text"));
	remove_names();
	CHECK(settles(0));
}

/* The moment after his record is there, and before he has marked anything, is short, and then it takes luck who is the first to come by: so that is tried more often. */
MOVES(two_bring_it_to_one_place, SWEEPS)
{
	enum { TURNS = 4, BEGINNING = 10 };
	unsigned messages = 0, turn = 0;
	bool between = true;

	while (!failures && between) {
		bring_between(messages, &between);
		if (failures)
			fprintf(stderr, "after %u messages\n", messages);
		messages += messages < BEGINNING ? 1 : moment_step(3);
		if (messages == BEGINNING)
			messages = ++turn < TURNS ? 0 : BEGINNING + first_moment(3);
	}
	CHECK(messages > 50);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_brought_with_all_its_names),
		cmocka_unit_test(a_rebalance_leads_all_names_to_it),
		cmocka_unit_test(one_that_is_at_home_by_one_of_its_names_stays),
		cmocka_unit_test(names_that_lead_by_where_it_was_are_used),
		cmocka_unit_test(of_two_names_of_it_at_one_subvolume_none_replaces_the_other),
		cmocka_unit_test(who_has_it_open_goes_on),
		cmocka_unit_test(who_dies_half_way_has_moved_it_or_not),
		cmocka_unit_test(an_answer_that_is_lost_loses_nothing_else),
		cmocka_unit_test(who_dies_while_he_leads_a_name_there_leaves_it),
		cmocka_unit_test(an_anchor_that_is_lost_with_the_power_is_made_again),
		cmocka_unit_test(its_other_names_are_used_meanwhile),
		cmocka_unit_test(two_bring_it_to_two_places),
		cmocka_unit_test(two_bring_it_to_one_place),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
