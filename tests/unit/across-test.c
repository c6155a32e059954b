/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: renames over two subvolumes; who does one may die at any message, and others end it: the tree is as before or as after. */
#include "half-way.h"

#include "place.h"

PROPERTY(a_file_gets_a_name_at_another_subvolume)
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b"), *c = name_at(2, "c");
	struct attr before, after;

	CHECK_INT(put(a, "text"), 0);
	CHECK_INT(tree_getattr(&tree, a, &before), 0);
	CHECK_INT(tree_rename(&tree, a, b, 0), 0);
	CHECK(!there(a) && reads(b, "text"));
	CHECK_INT(tree_getattr(&tree, b, &after), 0);
	CHECK(gfid_equal(&before.gfid, &after.gfid) && after.nlink == 1);
	CHECK_INT(census().anchors, 1);
	CHECK_INT(tree_rename(&tree, b, c, 0), 0); /* a pointer */
	CHECK(!there(b) && reads(c, "text") && links(c) == 1);
	CHECK_INT(census().anchors, 1);
	CHECK_INT(tree_rename(&tree, c, a, 0), 0); /* back home: in place again */
	CHECK(!there(c) && reads(a, "text") && links(a) == 1);
	CHECK_INT(holder(a), 0);
	CHECK_INT(census().anchors, 0);
	CHECK_INT(census().work, 0);
	CHECK_INT(tree_rename(&tree, b, a, 0), -ENOENT);
	CHECK(reads(a, "text"));
}

PROPERTY(what_is_replaced_goes)
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b"), *c = name_at(2, "c");

	CHECK_INT(put(a, "text"), 0);
	CHECK_INT(put(b, "other"), 0);
	CHECK_INT(tree_rename(&tree, a, b, RENAME_NOREPLACE), -EEXIST);
	CHECK_INT(tree_rename(&tree, a, b, 0), 0);
	CHECK(!there(a) && reads(b, "text"));
	CHECK_INT(put(c, "third"), 0);
	CHECK_INT(tree_rename(&tree, c, b, 0), 0); /* over a pointer */
	CHECK(reads(b, "third"));
	CHECK_INT(census().anchors, 1);
	CHECK_INT(tree_link(&tree, b, a), 0);
	CHECK_INT(tree_rename(&tree, a, b, 0), 0); /* two names of one file: nothing is done */
	CHECK(there(a) && links(b) == 2);
	CHECK_INT(tree_unlink(&tree, a), 0);
	CHECK_INT(tree_mkdir(&tree, a, 0755), 0);
	CHECK_INT(tree_rename(&tree, b, a, 0), -EISDIR);
	CHECK_INT(tree_rename(&tree, a, b, 0), -ENOTDIR);
	CHECK_INT(tree_unlink(&tree, b), 0);
	CHECK_INT(census().anchors, 0);
	CHECK_INT(census().work, 0);
}

PROPERTY(two_files_change_places)
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b");

	CHECK_INT(put(a, "text"), 0);
	CHECK_INT(tree_rename(&tree, a, b, RENAME_EXCHANGE), -ENOENT);
	CHECK_INT(put(b, "other"), 0);
	CHECK_INT(tree_rename(&tree, a, b, RENAME_EXCHANGE), 0);
	CHECK(reads(a, "other") && reads(b, "text"));
	CHECK_INT(census().anchors, 2);
	CHECK_INT(tree_rename(&tree, a, b, RENAME_EXCHANGE), 0);
	CHECK(reads(a, "text") && reads(b, "other") && links(a) == 1 && links(b) == 1);
	CHECK_INT(census().anchors, 0);
	CHECK_INT(census().work, 0);
}

/* ---- half way ---- */

static int plain(const char *a, const char *b, const char *c)
{
	(void)b, (void)c;
	return put(a, "text");
}

static int replacing(const char *a, const char *b, const char *c)
{
	int err = put(b, "other");

	return err ? err : plain(a, b, c);
}

static int of_pointer(const char *a, const char *b, const char *c)
{
	int err = put(c, "text");

	(void)b;
	return err ? err : tree_rename(&tree, c, a, 0);
}

static int homewards(const char *a, const char *b, const char *c)
{
	int err = put(b, "text");

	(void)c;
	return err ? err : tree_rename(&tree, b, a, 0);
}

static int over_pointer(const char *a, const char *b, const char *c)
{
	int err = put(c, "other");

	if (!err)
		err = tree_rename(&tree, c, b, 0);
	return err ? err : put(a, "text");
}

static const struct scene scenes[] = {
	{ "to a free name", plain, "text", NULL },
	{ "over a file", replacing, "text", "other" },
	{ "of a pointer", of_pointer, "text", NULL },
	{ "to where it stands", homewards, "text", NULL },
	{ "over a pointer", over_pointer, "text", "other" },
	{ "in exchange", replacing, "text", "other", .flags = RENAME_EXCHANGE },
	{ "in exchange with a pointer", over_pointer, "text", "other", .flags = RENAME_EXCHANGE },
};

PROPERTY_WITH(who_dies_half_way_has_done_it_or_not, SWEEPS, "1M")
{
	play_dying(scenes, sizeof(scenes) / sizeof(*scenes));
}

PROPERTY_WITH(an_answer_that_is_lost_loses_nothing_else, SWEEPS, "1M")
{
	play_lost_answers(scenes, sizeof(scenes) / sizeof(*scenes));
}

static const struct scene at_one_subvolume[] = {
	{ "to a free name", plain, "text", NULL, .beside = true },
	{ "over a file", replacing, "text", "other", .beside = true },
	{ "of a pointer", of_pointer, "text", NULL, .beside = true },
	{ "over a pointer", over_pointer, "text", "other", .beside = true },
	{ "in exchange", replacing, "text", "other", .flags = RENAME_EXCHANGE, .beside = true },
	{ "in exchange with a pointer", over_pointer, "text", "other", .flags = RENAME_EXCHANGE, .beside = true },
};

PROPERTY_WITH(what_is_asked_for_twice_is_done_once, SWEEPS, "1M")
{
	play_again(at_one_subvolume, sizeof(at_one_subvolume) / sizeof(*at_one_subvolume));
	play_again(scenes, sizeof(scenes) / sizeof(*scenes));
}

/* The number of that one is none of a subvolume any more; and it is what a record has where nothing arrives. */
static void who_dies_half_way_where_the_first_has_left(void **state)
{
	gone = 1;
	who_dies_half_way_has_done_it_or_not(state);
	gone = 0;
}

PROPERTY_WITH(who_is_slow_renames_in_the_end, SWEEPS, "1M")
{
	play_slow(scenes, sizeof(scenes) / sizeof(*scenes));
}

/* Of a rename into an empty directory that is cut off: what others hear of the directory then is what has become of the rename. */
static void fill_half_way(unsigned messages, bool done, unsigned *sent)
{
	const char *file = name_at(0, "a"), *directory = name_at(1, "b"), *other = name_at(2, "c");
	char in[80];
	int err;

	snprintf(in, sizeof(in), "%s/in", directory);
	CHECK_INT(put(file, "text"), 0);
	CHECK_INT(put_directory(directory, ""), 0);
	CHECK_INT(put_directory(other, ""), 0);
	cut_after(messages, done);
	tree_rename(&tree, file, in, 0);
	*sent = cut_end();
	err = tree_rename(&tree, other, directory, 0);
	CHECK(!err || err == -ENOTEMPTY);
	CHECK(reads(err ? in : file, "text") && !there(err ? file : in) && there(other) == (err != 0));
	tree_unlink(&tree, err ? in : file);
	tree_rmdir(&tree, directory);
	tree_rmdir(&tree, other);
	CHECK(settles(0));
}

PROPERTY_WITH(a_directory_holds_nothing_that_is_taken_back, SWEEPS, "1M")
{
	unsigned at, sent;

	for (int done = 0; done < 2; done++)
		for (at = sent = first_moment(1); !failures && sent >= at; at += moment_step(1)) {
			fill_half_way(at, done, &sent);
			if (failures)
				fprintf(stderr, "after %u messages%s\n", at, done ? ", and one that was not answered" : "");
		}
}

static void forget_one(const struct scene *s, char kind)
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b"), *c = name_at(2, "c");

	CHECK_INT(s->build(a, b, c), 0);
	forget(kind);
	CHECK_INT(tree_rename(&tree, a, b, s->flags), 0);
	cut_end();
	CHECK(says(b, s->from) && says(a, s->flags & RENAME_EXCHANGE ? s->to : NULL));
	CHECK(nothing_is_under_way());
	tree_unlink(&tree, a);
	tree_unlink(&tree, b);
	CHECK(settles(0));
}

/* Anchors and what the record says: the rename begins again. */
PROPERTY_WITH(what_a_brick_lost_with_its_power_loses_no_file, SWEEPS, "1M")
{
	static const char kinds[] = "aid";

	for (const char *kind = kinds; *kind; kind++)
		for (unsigned i = 0; i < sizeof(scenes) / sizeof(*scenes) && !failures; i++) {
			forget_one(&scenes[i], *kind);
			if (failures)
				fprintf(stderr, "%s, lost: %c\n", scenes[i].what, *kind);
		}
}

static void link_at(const char *brick, const char *path, const char *name)
{
	at(brick);
	CHECK_INT(tree_link(&tree, path, name), 0);
	at("dht");
}

static const char *const left_over = DHT_HIDDEN "/work/0/w.00000000-0000-4000-8000-000000000001.1";

/* Until the directory of `work` is there. */
static void make_work(const char *a, const char *b)
{
	for (int i = 0; i < 64; i++) {
		CHECK_INT(put(a, "text"), 0);
		CHECK_INT(tree_rename(&tree, a, b, 0), 0);
		CHECK_INT(put(a, "other"), 0);
		CHECK_INT(tree_rename(&tree, a, b, 0), 0);
		CHECK_INT(tree_rename(&tree, b, a, 0), 0);
		CHECK_INT(tree_unlink(&tree, a), 0);
	}
}

/* What had the name before, or was to have it: left over by a power cut, or by one who died. */
PROPERTY_WITH(what_waits_for_no_intent_goes, SWEEPS, "1M")
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b");

	make_work(a, b);
	CHECK_INT(put(b, "in place"), 0);
	link_at("m1", b, left_over);
	CHECK_INT(links(b), 2);
	CHECK(settles(0));
	CHECK(reads(b, "in place") && links(b) == 1);
	CHECK_INT(put(a, "away"), 0);
	CHECK_INT(tree_rename(&tree, a, b, 0), 0);
	link_at("m1", b, left_over);
	CHECK(settles(1)); /* a pointer that has its name */
	CHECK(reads(b, "away") && links(b) == 1);
	link_at("m1", b, left_over);
	at("m1");
	CHECK_INT(tree_unlink(&tree, b), 0);
	at("dht");
	CHECK(settles(0));
}

/* Who has put it there may be about to go on: it goes at the third look, not at the first, and between looks there is that time. */
PROPERTY_WITH(what_is_young_is_left_to_who_made_it, "option sweep-interval 500ms", "1M")
{
	enum { TWO_PAUSES_NS = 1000000000 };
	const char *a = name_at(0, "a"), *b = name_at(1, "b");
	uint64_t begin;

	make_work(a, b);
	CHECK_INT(put(b, "in place"), 0);
	task_sleep_ms(500); /* the first look there comes soon after that */
	begin = clock_ns();
	link_at("m1", b, left_over);
	while (links(b) == 2)
		task_sleep_ms(5);
	CHECK(clock_ns() >= begin + TWO_PAUSES_NS);
}

static bool is_record(const char *name, char state, unsigned attempt, char id[37])
{
	char letter;
	unsigned n;

	return sscanf(name, "%c.%36[^.].%u", &letter, id, &n) == 3 && letter == state && n == attempt;
}

/* At subvolume 0. */
static bool find_record(char state, unsigned attempt, char work[64], char id[37])
{
	bool found = false;

	at("m0");
	for (unsigned k = 0; k < 16 && !found; k++) {
		struct dirents list = { 0 };
		struct file *dir = NULL;

		snprintf(work, 64, DHT_HIDDEN "/work/%x", k);
		if (tree_opendir(&tree, work, &dir))
			continue;
		if (!tree_readdir(&tree, dir, &list))
			for (uint32_t i = 0; i < list.count && !found; i++)
				found = is_record(list.entry[i].name, state, attempt, id);
		fop_out_clear(FOP_readdir, &list);
		tree_release(&tree, dir);
	}
	at("dht");
	return found;
}

/* What a step has moved has both names then. */
static void half_undo(int side, const char *path, bool *moved)
{
	char work[64], id[37], waits[160], brick[8];

	*moved = false;
	if (!find_record('i', 1, work, id))
		return;
	snprintf(brick, sizeof(brick), "m%d", side);
	snprintf(waits, sizeof(waits), "%s/w.%s.%d", work, id, side);
	at(brick);
	*moved = there(waits) != there(path);
	if (*moved)
		CHECK_INT(there(path) ? tree_link(&tree, path, waits) : tree_link(&tree, waits, path), 0);
	at("dht");
}

static void half_undo_at(const struct scene *s, int side, unsigned messages, unsigned *sent)
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b"), *c = name_at(2, "c");
	bool moved;

	CHECK_INT(s->build(a, b, c), 0);
	cut_after(messages, false);
	tree_rename(&tree, a, b, s->flags);
	*sent = cut_end();
	half_undo(side, side ? b : a, &moved);
	if (moved)
		CHECK(gets_whole(s, a, b, &moved));
	tree_unlink(&tree, a);
	tree_unlink(&tree, b);
}

static bool links_arrive(const struct scene *s)
{
	return s->build == homewards;
}

/* As by a replica set whose members lost their power together. (Of a link nobody knows who has put it there.) */
PROPERTY_WITH(a_step_that_was_half_undone_is_taken_back, SWEEPS, "1M")
{
	for (unsigned i = 0; i < sizeof(scenes) / sizeof(*scenes) && !failures; i++)
		for (int side = 0; side < (links_arrive(&scenes[i]) ? 1 : 2) && !failures && !scenes[i].to; side++) {
			unsigned at, sent;

			for (at = sent = first_moment(1); !failures && sent >= at; at += moment_step(1)) {
				half_undo_at(&scenes[i], side, at, &sent);
				if (failures)
					fprintf(stderr, "%s, name %d, after %u messages\n", scenes[i].what, side, at);
			}
			CHECK(settles(0));
		}
}

/* Of one who died: whoever wants the directory away ends it. */
PROPERTY_WITH(a_mark_that_was_left_over_keeps_no_directory, SWEEPS, "1M")
{
	const char *dir = name_at(0, "dir"), *b = name_at(1, "b");
	char inside[64];
	unsigned sent = 1;

	for (unsigned at = 6; at < sent + 6 && at < 30 && !failures; at++) {
		CHECK_INT(tree_mkdir(&tree, dir, 0755), 0);
		snprintf(inside, sizeof(inside), "%s/x", dir);
		CHECK_INT(put(inside, "text"), 0);
		cut_after(at, false);
		tree_rename(&tree, inside, b, 0);
		sent = cut_end();
		if (there(b))
			CHECK_INT(tree_unlink(&tree, b), 0);
		else
			CHECK_INT(tree_unlink(&tree, inside), 0);
		CHECK_INT(tree_rmdir(&tree, dir), 0);
	}
}

static bool is_marked(int child, const char *name)
{
	char brick[8], xattr[MARK_NAME];
	struct blob value = { 0 };
	bool yes;

	snprintf(brick, sizeof(brick), "m%d", child);
	at(brick);
	yes = !tree_getxattr(&tree, "", mark_name(mark_hash(name), xattr), &value);
	at("dht");
	free(value.bytes);
	return yes;
}

static bool stands_at(int child, const char *name)
{
	char brick[8];
	bool yes;

	snprintf(brick, sizeof(brick), "m%d", child);
	at(brick);
	yes = there(name);
	at("dht");
	return yes;
}

/* As if the others had ended it, who have not taken a step. */
static void end_by_hand(const char *record, const char *b)
{
	char xattr[MARK_NAME];

	at("m1");
	tree_removexattr(&tree, "", mark_name(mark_hash(b), xattr));
	at("m0");
	CHECK_INT(tree_unlink(&tree, record), 0);
	at("dht");
}

/* False: the rename was not as far as that, or too far; or others were sooner. */
static bool mark_late(const char *a, const char *b)
{
	char work[64], id[37], record[128];
	bool open, prepared;

	if (!is_marked(0, a) || !stands_at(0, a) || stands_at(1, b))
		return false;
	fence_take_over();
	tree_getattr(&tree, a, &(struct attr){ 0 });
	cut_end();
	open = find_record('i', 9, work, id);
	prepared = !open && find_record('u', 9, work, id);
	if (!open && !prepared)
		return false;
	snprintf(record, sizeof(record), "%s/%c.%s.9", work, open ? 'i' : 'u', id);
	end_by_hand(record, b);
	return true;
}

static bool mark_late_after(unsigned messages)
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b");
	bool late;

	if (put(a, "text"))
		return false;
	cut_after(messages, false);
	tree_rename(&tree, a, b, 0);
	cut_end();
	late = mark_late(a, b);
	for (int i = 0; i < tries_of(10) && (is_marked(0, a) || is_marked(1, b)); i++)
		task_sleep_ms(10);
	failures += is_marked(0, a) || is_marked(1, b) || tree_unlink(&tree, there(a) ? a : b);
	if (failures)
		fprintf(stderr, "after %u messages\n", messages);
	return late;
}

/* Of one who takes an intent over when others do it, too, and is slow: they are at their end when he sets marks, which nobody meets. Where the test is slow, those who
 * sweep are sooner: then again. */
PROPERTY_WITH(marks_of_who_came_late_go, "option sweep-interval 50ms", "1M")
{
	unsigned late = 0;

	for (unsigned round = 0; round < 20 && !late; round++)
		for (unsigned messages = 12; messages < 40 && !failures; messages++)
			late += mark_late_after(messages);
	CHECK(late > 0);
	CHECK(nothing_is_under_way());
}

/* Of the owner, who has set marks when others were at their end: the rename begins anew, and would wait for them until a sweep. */
PROPERTY_WITH(an_owner_who_was_late_leaves_no_marks, "option sweep-interval 1h", "1M")
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b");
	int err;

	CHECK_INT(put(a, "text"), 0);
	end_meanwhile(1);
	err = tree_rename(&tree, a, b, 0);
	cut_end();
	CHECK(!is_marked(0, a) && !is_marked(1, b));
	CHECK_INT(err, 0);
	CHECK(reads(b, "text") && !there(a));
}

/* On a busy machine sweeps may be faster, many times. */
PROPERTY_WITH(an_owner_who_is_late_again_and_again_renames_in_the_end, "option sweep-interval 1h", "1M")
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b");

	CHECK_INT(put(a, "text"), 0);
	end_meanwhile(40);
	CHECK_INT(tree_rename(&tree, a, b, 0), 0);
	cut_end();
	CHECK(reads(b, "text") && !there(a));
	end_meanwhile(40);
	CHECK_INT(tree_rename(&tree, b, a, 0), 0);
	cut_end();
	CHECK(reads(a, "text") && !there(b));
	CHECK(nothing_is_under_way());
}

struct slow {
	const char *a, *b;
	int err;
	atomic_bool over;
};

static void rename_slowly(void *arg)
{
	struct slow *s = arg;

	s->err = tree_rename(&tree, s->a, s->b, 0);
	s->over = true;
}

PROPERTY_WITH(all_do_it_at_once_and_each_file_has_one_name, SWEEPS, "1M")
{
	enum { TIMES = 60, CLIENTS = 3 };
	const char *a = name_at(0, "a"), *b = name_at(1, "b");

	for (int i = 0; i < TIMES && !failures; i++) {
		struct slow s[CLIENTS] = { { a, b, 0, false }, { b, a, 0, false }, { a, b, 0, false } };
		bool one, other;

		CHECK_INT(put(a, "text"), 0);
		CHECK_INT(put(b, "other"), 0);
		for (int k = 0; k < CLIENTS; k++)
			CHECK_INT(task_spawn(NULL, rename_slowly, &s[k]), 0);
		for (int k = 0; k < CLIENTS; k++)
			while (!s[k].over)
				task_sleep_ms(1);
		one = there(a);
		other = there(b);
		CHECK(one != other); /* each rename leaves one file */
		CHECK_INT(links(one ? a : b), 1);
		tree_unlink(&tree, one ? a : b);
	}
	CHECK(settles(0));
}

struct late {
	unsigned at;
	struct slow slow;
};

static void rename_late(void *arg)
{
	struct late *l = arg;

	stay_before(l->at);
	l->slow.err = tree_rename(&tree, l->slow.a, l->slow.b, 0);
	cut_end();
	l->slow.over = true;
}

/* Two of the same rename, one in the middle of the other, after so many of its messages: one has done it, and for the other the name is not there. (It
 * must not take the two names for two of one file, of which it has seen one before, one after.) */
static void rename_twice(const char *a, const char *b, unsigned messages)
{
	struct late l = { messages, { a, b, 1, false } };
	int err;

	CHECK_INT(task_spawn(NULL, rename_late, &l), 0);
	while (!stays() && !l.slow.over)
		task_sleep_ms(1);
	err = tree_rename(&tree, a, b, 0);
	stay_no_more();
	while (!l.slow.over)
		task_sleep_ms(1);
	CHECK(err == 0 || err == -ENOENT);
	CHECK_INT(l.slow.err, err ? 0 : -ENOENT);
	CHECK(!there(a) && reads(b, "text"));
	CHECK_INT(tree_unlink(&tree, b), 0);
}

PROPERTY_WITH(both_names_are_judged_as_they_were_at_one_moment, SWEEPS, "1M")
{
	enum { LOOKS = 3 }; /* messages before it begins to change something */
	const char *a = name_at(0, "a"), *b = name_at(1, "b"), *beside = name_at(0, "d");

	for (unsigned at = 0; at < LOOKS && !failures; at++) {
		CHECK_INT(put(a, "text"), 0);
		rename_twice(a, b, at);
		CHECK_INT(put(b, "text"), 0); /* as a pointer, at one subvolume */
		CHECK_INT(tree_rename(&tree, b, a, 0), 0);
		rename_twice(a, beside, at);
		if (failures)
			fprintf(stderr, "after %u messages\n", at);
	}
	CHECK(settles(0));
}

/* ---- a subvolume has left, and a record tells of it still ---- */

/* Who knows that, and sweeps. */
#define AFTER                                                                                                                       \
	"volume after\n type cluster/dht\n option lean 0\n option initial 3\n option initial-from 1\n option sweep-interval 10ms\n" \
	" subvolumes left c1 c2 c3\nend-volume\n"

static struct {
	unsigned messages; /* after so many who renames dies */
	bool undone, opened;
} departed;

static char record_state_in(const char *work)
{
	struct dirents list = { 0 };
	struct file *dir = NULL;
	char state = '\0';

	if (tree_opendir(&tree, work, &dir))
		return '\0';
	if (!tree_readdir(&tree, dir, &list))
		for (uint32_t i = 0; i < list.count; i++)
			if (strchr("pidsu", list.entry[i].name[0]) && list.entry[i].name[1] == '.')
				state = list.entry[i].name[0];
	fop_out_clear(FOP_readdir, &list);
	tree_release(&tree, dir);
	return state;
}

/* '\0': there is no record at subvolume 1. */
static char record_state(void)
{
	char work[64], state = '\0';

	at("m1");
	for (unsigned k = 0; k < 16 && !state; k++) {
		snprintf(work, sizeof(work), DHT_HIDDEN "/work/%x", k);
		state = record_state_in(work);
	}
	at("dht");
	return state;
}

static void all_but_the_first_have_all_names(void)
{
	struct layout l = { .version = 2, .count = SUBVOLUMES - 1, .home = 1 };

	for (unsigned i = 1; i < SUBVOLUMES; i++)
		l.member[i - 1] = (struct layout_member){ i, 1, 1 };
	for (int i = 1; i < SUBVOLUMES; i++)
		CHECK_INT(put_layout(i, &l), 0);
}

static void first_departs_after(void *arg)
{
	const char *a = name_at(1, "a"), *b = name_at(0, "b");
	struct attr of;
	char state;

	(void)arg;
	CHECK_INT(put(a, "text"), 0);
	cut_after(departed.messages, false);
	tree_rename(&tree, a, b, 0);
	cut_end();
	state = record_state();
	departed.opened = state && state != 'p' && state != 'u';
	all_but_the_first_have_all_names();
	if (departed.opened) { /* steps may have been taken where nobody can look */
		task_sleep_ms(500);
		CHECK(record_state() == state);
		return;
	}
	for (int i = 0; i < tries_of(10) && (record_state() || is_marked(1, a)); i++)
		task_sleep_ms(10);
	CHECK(!record_state() && !is_marked(1, a));
	at("m1");
	CHECK_INT(tree_getattr(&tree, a, &of), 0);
	CHECK_INT(of.nlink, 1); /* no anchor is left */
	departed.undone |= state;
}

static void what_tells_of_one_that_has_left_is_undone_if_no_step_was_taken(void **state)
{
	enum { MOST = 60 };

	(void)state;
	departed.undone = departed.opened = false;
	more_volumes = AFTER;
	for (departed.messages = 1; departed.messages < MOST && !departed.opened; departed.messages++)
		run(first_departs_after, "option sweep-interval 1h", "1M");
	more_volumes = "";
	assert_true(departed.undone && departed.opened);
}

/* ---- a subvolume leaves only now ---- */

/* What waits there for names. */
static unsigned waits_at(const char *brick)
{
	unsigned n = 0;

	at(brick);
	for (unsigned k = 0; k < 16; k++) {
		struct dirents list = { 0 };
		struct file *dir = NULL;
		char work[64];

		snprintf(work, sizeof(work), DHT_HIDDEN "/work/%x", k);
		if (tree_opendir(&tree, work, &dir))
			continue;
		if (!tree_readdir(&tree, dir, &list))
			for (uint32_t i = 0; i < list.count; i++)
				n += list.entry[i].name[0] == 'w';
		fop_out_clear(FOP_readdir, &list);
		tree_release(&tree, dir);
	}
	at("dht");
	return n;
}

static bool comes_to_wait(const char *brick, unsigned count)
{
	for (int i = 0; i < tries_of(10) && waits_at(brick) != count; i++)
		task_sleep_ms(10);
	return waits_at(brick) == count;
}

/* "after" has looked for what is to be ended everywhere, after this was called: what was made at m2 meanwhile, which is of nobody, has gone. */
static void swept(const char *what)
{
	for (int i = 0; i < 2; i++) {
		link_at("m2", what, left_over);
		CHECK(comes_to_wait("m2", 0));
	}
}

static void say_leaver(const char *brick, int leaver)
{
	uint8_t bytes[LEAVES_SIZE];

	leaves_encode((uint32_t)leaver, bytes);
	at(brick);
	CHECK_INT(leaver < 0 ? tree_removexattr(&tree, "", DHT_LEAVES_XATTR)
			     : tree_setxattr(&tree, "", DHT_LEAVES_XATTR, bytes, sizeof(bytes), 0),
		  0);
	at("dht");
}

static void first_leaves_now(void *arg)
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b"), *c = name_at(2, "c"), *y = name_at(1, "y");
	unsigned waiting;

	(void)arg;
	make_work(y, c);
	CHECK_INT(put(c, "at another one"), 0);
	CHECK_INT(put(y, "text"), 0);
	CHECK_INT(tree_rename(&tree, y, a, 0),
		  0); /* so what waits is no pointer to the first, which "after" would leave alone for that */
	CHECK_INT(put(b, "what it replaces"), 0);
	cut_after(departed.messages, false);
	tree_rename(&tree, a, b, 0);
	departed.opened = cut_end() < departed.messages; /* all is done */
	waiting = waits_at("m1");
	departed.undone |= waiting > 0;
	say_leaver("m1", 0);
	all_but_the_first_have_all_names();
	swept(c);
	CHECK_INT(waits_at("m1"), waiting);
	say_leaver("m1", -1);
	CHECK(comes_to_wait("m1", 0));
}

/* By a client whose graph lacks it, and layouts do not have it any more: what waits for an intent that it can't look for is left alone as long as it leaves. */
static void what_waits_for_one_that_leaves_is_not_ended_by_who_lacks_it(void **state)
{
	enum { MOST = 60, EACH = 4 };

	(void)state;
	departed.undone = departed.opened = false;
	more_volumes = AFTER;
	for (departed.messages = 1; departed.messages < MOST && !departed.opened; departed.messages += EACH)
		run(first_leaves_now, "option sweep-interval 1h", "1M");
	more_volumes = "";
	assert_true(departed.undone && departed.opened);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_gets_a_name_at_another_subvolume),
		cmocka_unit_test(what_is_replaced_goes),
		cmocka_unit_test(two_files_change_places),
		cmocka_unit_test(who_dies_half_way_has_done_it_or_not),
		cmocka_unit_test(an_answer_that_is_lost_loses_nothing_else),
		cmocka_unit_test(what_is_asked_for_twice_is_done_once),
		cmocka_unit_test(who_is_slow_renames_in_the_end),
		cmocka_unit_test(a_directory_holds_nothing_that_is_taken_back),
		cmocka_unit_test(what_a_brick_lost_with_its_power_loses_no_file),
		cmocka_unit_test(what_waits_for_no_intent_goes),
		cmocka_unit_test(what_is_young_is_left_to_who_made_it),
		cmocka_unit_test(a_step_that_was_half_undone_is_taken_back),
		cmocka_unit_test(a_mark_that_was_left_over_keeps_no_directory),
		cmocka_unit_test(marks_of_who_came_late_go),
		cmocka_unit_test(an_owner_who_was_late_leaves_no_marks),
		cmocka_unit_test(an_owner_who_is_late_again_and_again_renames_in_the_end),
		cmocka_unit_test(all_do_it_at_once_and_each_file_has_one_name),
		cmocka_unit_test(both_names_are_judged_as_they_were_at_one_moment),
		cmocka_unit_test(who_dies_half_way_where_the_first_has_left),
		cmocka_unit_test(what_tells_of_one_that_has_left_is_undone_if_no_step_was_taken),
		cmocka_unit_test(what_waits_for_one_that_leaves_is_not_ended_by_who_lacks_it),
	};

	if (getenv("ACROSS_TEST")) /* a pattern of names */
		cmocka_set_test_filter(getenv("ACROSS_TEST"));
	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
