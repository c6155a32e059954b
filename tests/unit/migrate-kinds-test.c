/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: symbolic links, fifos, sockets and devices that stand elsewhere than their names are brought home as files are, whoever uses them, or dies at it. */
#include "migrate-tree.h"

enum kind { LINK, SHORT_LINK, FIFO, SOCKET, DEVICE, KINDS };
static const mode_t type[KINDS] = { S_IFLNK, S_IFLNK, S_IFIFO, S_IFSOCK, S_IFCHR };
static const char *const target[KINDS] = { "../some/where else", "x" };

static int make(enum kind kind, const char *path)
{
	return target[kind] ? tree_symlink(&tree, target[kind], path)
			    : tree_mknod(&tree, path, type[kind] | 0640, kind == DEVICE ? 0x105 : 0);
}

static bool is_as_made(enum kind kind, const char *path)
{
	char *leads_to = NULL;
	struct attr a;
	bool yes = !tree_getattr(&tree, path, &a) && (a.mode & S_IFMT) == type[kind] && a.nlink == 1;

	if (yes && target[kind])
		yes = !tree_readlink(&tree, path, &leads_to) && !strcmp(leads_to, target[kind]);
	else if (yes)
		yes = a.rdev == (kind == DEVICE ? 0x105 : 0) && (a.mode & 07777) == 0640;
	free(leads_to);
	return yes;
}

/* At subvolume 0, with its name at 1. */
static const char *put_away(enum kind kind)
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b");

	if (make(kind, a) || tree_rename(&tree, a, b, 0) || census().anchors != 1) {
		fprintf(stderr, "%s, of kind %d, can't be put away\n", b, kind);
		failures++;
	}
	return b;
}

static int give_it(const char *b)
{
	struct setattr set = { .valid = SET_UID | SET_GID, .uid = 7, .gid = 8 };

	return tree_setattr(&tree, b, &set);
}

static bool is_given(const char *b)
{
	struct attr a;

	return !tree_getattr(&tree, b, &a) && a.uid == 7 && a.gid == 8;
}

MOVES(links_and_nodes_are_brought_with_all_that_belongs_to_them, SWEEPS)
{
	struct setattr times = { .valid = SET_ATIME | SET_MTIME, .atime = { 11, 12 }, .mtime = { 13, 14 } };

	for (enum kind kind = 0; kind < KINDS && !failures; kind++) {
		const char *b = put_away(kind);
		struct blob value = { 0 };
		struct attr before, after;

		CHECK_INT(give_it(b), 0);
		CHECK_INT(tree_setxattr(&tree, b, "trusted.one", "1", 1, 0), 0);
		CHECK_INT(tree_setattr(&tree, b, &times), 0);
		CHECK_INT(tree_getattr(&tree, b, &before), 0);
		CHECK(brings(b, "brought"));
		CHECK_INT(census().anchors, 0);
		CHECK(is_as_made(kind, b) && is_given(b));
		CHECK_INT(tree_getattr(&tree, b, &after), 0);
		CHECK(gfid_equal(&before.gfid, &after.gfid));
		CHECK(after.mtime.sec == 13 && after.mtime.nsec == 14 && after.atime.sec == 11);
		CHECK_INT(tree_getxattr(&tree, b, "trusted.one", &value), 0);
		CHECK(value.size == 1 && !memcmp(value.bytes, "1", 1));
		free(value.bytes);
		CHECK(brings(b, "nothing"));
		at("second");
		CHECK(is_as_made(kind, b));
		at("dht");
		CHECK(settles(0));
		CHECK_INT(holder(b), 1);
		CHECK(is_as_made(kind, b));
		at("second");
		CHECK(is_as_made(kind, b));
		CHECK_INT(tree_unlink(&tree, b), 0);
		at("dht");
		CHECK(settles(0));
		if (failures)
			fprintf(stderr, "kind %d\n", kind);
	}
}

/* By the object that he has looked up before, and not by its name. */
MOVES(who_knows_it_where_it_was_goes_on, "option sweep-interval 1h")
{
	for (enum kind kind = 0; kind < KINDS && !failures; kind++) {
		const char *b = put_away(kind);
		struct setattr_in in = { .set = { .valid = SET_UID | SET_GID, .uid = 7, .gid = 8 } };
		struct setattr_out out = { 0 };

		CHECK_INT(tree_walk(&tree, b, &in.inode), 0);
		CHECK(brings(b, "brought"));
		CHECK_INT(tree_call(&tree, tree.at, FOP_setattr, &in, &out), 0);
		CHECK(is_given(b) && is_as_made(kind, b));
		inode_unref(in.inode);
		CHECK_INT(tree_unlink(&tree, b), 0);
	}
}

MOVES(those_that_have_several_names_are_brought_with_all_of_them, SWEEPS)
{
	static const enum kind kinds[] = { LINK, FIFO, DEVICE };

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		const char *b = put_away(kinds[i]), *c = name_at(2, "c");

		CHECK_INT(tree_link(&tree, b, c), 0);
		CHECK(brings(b, "brought, and has other names"));
		CHECK(brings(c, "led"));
		CHECK(links(b) == 2 && same_file(b, c));
		CHECK_INT(tree_unlink(&tree, b), 0);
		CHECK(is_as_made(kinds[i], c));
		CHECK(settles(1));
		CHECK(brings(c, "brought"));
		CHECK(is_as_made(kinds[i], c));
		CHECK_INT(tree_unlink(&tree, c), 0);
		CHECK(settles(0));
	}
}

/* ---- who does it dies: after the same messages as of a file (migrate-test), so not after each ---- */

static bool is_whole(enum kind kind, const char *b)
{
	for (int i = 0; i < tries_of(10); i++) {
		if (is_as_made(kind, b) && census().work == 0)
			return true;
		task_sleep_ms(10);
	}
	return false;
}

enum death { UNSENT, UNANSWERED, LOST };

static void die_after(unsigned messages, enum death how)
{
	if (how == LOST)
		lose_answer(messages);
	else
		cut_after(messages, how == UNANSWERED);
}

static void cut_at(enum kind kind, unsigned messages, enum death how, unsigned *sent)
{
	const char *b = put_away(kind);
	bool home;

	die_after(messages, how);
	bring(b);
	*sent = cut_end();
	at("second");
	CHECK_INT(give_it(b), 0);
	CHECK(is_whole(kind, b));
	at("dht");
	CHECK(is_given(b));
	home = holder(b) == 1 && census().anchors == 0;
	CHECK(brings(b, home ? "nothing" : "brought"));
	CHECK(is_given(b) && is_as_made(kind, b));
	CHECK_INT(tree_unlink(&tree, b), 0);
	CHECK(settles(0));
}

static void play_cuts(enum kind kind, enum death how, unsigned step)
{
	const unsigned by = moment_step(step);
	unsigned at_message = first_moment(step), sent = 0;

	do {
		cut_at(kind, at_message, how, &sent);
		if (failures)
			fprintf(stderr, "kind %d, death %d, after %u messages\n", kind, how, at_message);
		at_message += by;
	} while (!failures && sent > at_message - by);
	CHECK(at_message > 30);
}

MOVES(who_dies_half_way_has_moved_it_or_not, SWEEPS)
{
	play_cuts(LINK, UNSENT, 2);
	play_cuts(LINK, UNANSWERED, 11);
	play_cuts(FIFO, UNSENT, 9);
}

MOVES(an_answer_that_is_lost_loses_nothing_else, SWEEPS)
{
	play_cuts(LINK, LOST, 4);
	play_cuts(DEVICE, LOST, 13);
}

/* ---- what others do meanwhile ---- */

MOVES(it_is_used_meanwhile, SWEEPS)
{
	static int (*const deeds[])(const char *) = { unlink_it, rename_it, link_it, give_it };

	others_go_on(true);
	for (int i = (int)first_moment(1); i < 80 && !failures; i += (int)moment_step(1)) {
		enum kind kind = i % 3 ? LINK : FIFO;
		const char *b = put_away(kind);
		struct deed d = { .perform = deeds[i % 4], .b = b };

		other_name = name_at(i / 4 % 4, "o");
		at("second");
		CHECK_INT(task_spawn(NULL, perform, &d), 0);
		for (int k = 0; k < i; k++)
			task_yield();
		CHECK_INT(bring(b), 0);
		while (!d.over)
			task_sleep_ms(1);
		if (d.err)
			fprintf(stderr, "deed %d, of kind %d: %s\n", i, kind, strerror(-d.err));
		CHECK_INT(d.err, 0);
		CHECK(i % 4 != 1 || (links(b) == 0 && is_as_made(kind, other_name)));
		CHECK(i % 4 != 2 || (links(b) == 2 && same_file(b, other_name)));
		CHECK(i % 4 != 3 || (is_given(b) && is_as_made(kind, b)));
		at("dht");
		CHECK(i % 4 != 3 || is_given(b));
		tree_unlink(&tree, b);
		tree_unlink(&tree, other_name);
		CHECK(settles(0));
		if (failures)
			fprintf(stderr, "deed %d\n", i);
	}
	others_go_on(false);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(links_and_nodes_are_brought_with_all_that_belongs_to_them),
		cmocka_unit_test(who_knows_it_where_it_was_goes_on),
		cmocka_unit_test(those_that_have_several_names_are_brought_with_all_of_them),
		cmocka_unit_test(who_dies_half_way_has_moved_it_or_not),
		cmocka_unit_test(an_answer_that_is_lost_loses_nothing_else),
		cmocka_unit_test(it_is_used_meanwhile),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
