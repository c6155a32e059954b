/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: a fourth subvolume comes to a volume of three, and gets its part of the root's names, while they are used. */
#include "dht-tree.h"

#include <stdatomic.h>

#include "place.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE	 2
#endif
enum { BEFORE = 3, NEW = 3, NAMES = 60 };

#define OTHER_CLIENT(name)                                                                                                     \
	"volume " name "\n type cluster/dht\n option lean 0\n option initial 3\n subvolumes c0 c1 c2 c3\nend-volume\n"
#define LACKING_CLIENT(name)                                                                                                   \
	"volume " name "\n type cluster/dht\n option lean 0\n option sweep-interval 10ms\n subvolumes c0 c1 c2\nend-volume\n"
#define WEIGHING_CLIENT(name, weights)                                                                                         \
	"volume " name "\n type cluster/dht\n option lean 0\n option initial 3\n option weights " weights                      \
	"\n subvolumes c0 c1 c2 c3\nend-volume\n"
#define GROWS(name)                                                                                                            \
	static void name##_(void *arg);                                                                                        \
	static void name(void **state)                                                                                         \
	{                                                                                                                      \
		(void)state;                                                                                                   \
		initial = BEFORE;                                                                                              \
		more_volumes = OTHER_CLIENT("second") LACKING_CLIENT("lacking") WEIGHING_CLIENT("weighs", "1,1,1,4")           \
			WEIGHING_CLIENT("weighs-again", "3,1,1,2,9");                                                          \
		run(name##_, "", "256M");                                                                                      \
		initial = SUBVOLUMES;                                                                                          \
		more_volumes = "";                                                                                             \
	}                                                                                                                      \
	static void name##_(void *arg __attribute__((unused)))

/* ---- layouts ---- */

static void before_it(struct layout *l)
{
	layout_implied(l, 0, BEFORE);
}

static void while_it_moves(struct layout *l)
{
	before_it(l);
	if (layout_grow(l, &(struct layout_member){ .id = NEW, .weight = 1 }, 1))
		abort();
}

static int old_owner(const char *name)
{
	struct layout l;

	before_it(&l);
	return (int)layout_owner(&l, layout_key(&gfid_root, name))->id;
}

/* A name that moves from there to the new one; or -1: one that does not move. In one of eight buffers. */
static const char *moving_name(int from, const char *prefix)
{
	static char names[8][64];
	static unsigned next;
	char *name = names[next++ % 8];
	int i = 0;

	do
		snprintf(name, 64, "%s%d", prefix, i++);
	while (from < 0 ? owner(name) == NEW : owner(name) != NEW || old_owner(name) != from);
	return name;
}

/* Nobody moves names: each operation meets them where they were. */
static int begin_to_move(void)
{
	struct layout l;
	int err = 0;

	while_it_moves(&l);
	for (int i = 0; i < SUBVOLUMES && !err; i++)
		err = put_layout(i, &l);
	return err;
}

/* ---- the rebalancer ---- */

static char told[1024];

static int command(const char *client, const char *verb, const char *second)
{
	char *argv[] = { (char *)verb, (char *)second, (char *)"wait=1" }, *said = NULL;
	size_t size;
	FILE *f = open_memstream(&said, &size);
	struct xlator *x = tree_find(&tree, client);
	int err = x->type->command(x, strcmp(verb, "fsck") ? 2 : 3, argv, f);

	fclose(f);
	snprintf(told, sizeof(told), "%s", said);
	free(said);
	return err;
}

static bool is_done(const char *client)
{
	for (int i = 0; i < 20000; i++) {
		if (!command(client, "rebalance", "status") && strstr(told, "state done"))
			return true;
		task_sleep_ms(1);
	}
	fprintf(stderr, "%s", told);
	return false;
}

static bool grows(const char *client)
{
	return !command(client, "rebalance", "start") && is_done(client);
}

static bool is_whole(void)
{
	return !command("dht", "fsck", "repair") && !strstr(told, "finding ") && !strstr(told, "problem ");
}

/* ---- a tree ---- */

static const char *number(const char *what, int i)
{
	static char names[8][64];
	static unsigned next;
	char *name = names[next++ % 8];

	snprintf(name, 64, "%s%d", what, i);
	return name;
}

static int fill(void)
{
	int err = 0;

	for (int i = 0; i < NAMES && !err; i++) {
		char below[80];

		snprintf(below, sizeof(below), "d%d/in", i);
		err = put(number("f", i), number("text of ", i)) ? -EIO : 0;
		err = err ? err : tree_mkdir(&tree, number("d", i), 0700 + (i & 7));
		err = err ? err : put(below, number("below ", i)) ? -EIO : 0;
		err = err ? err : tree_symlink(&tree, number("to ", i), number("s", i));
		err = err ? err : tree_mknod(&tree, number("p", i), S_IFIFO | 0600, 0);
		err = err ? err : tree_mknod(&tree, number("c", i), S_IFCHR | 0600, 0x103);
		err = err ? err : tree_link(&tree, number("f", i), number("l", i));
	}
	return err;
}

static bool is_there(int i)
{
	char below[80], *target = NULL;
	struct attr d, p, c;
	bool ok;

	snprintf(below, sizeof(below), "d%d/in", i);
	ok = reads(number("f", i), number("text of ", i)) && reads(number("l", i), number("text of ", i)) &&
	     links(number("f", i)) == 2 && same_file(number("f", i), number("l", i)) && reads(below, number("below ", i)) &&
	     !tree_getattr(&tree, number("d", i), &d) && (d.mode & 07777) == 0700u + (unsigned)(i & 7) &&
	     !tree_readlink(&tree, number("s", i), &target) && !strcmp(target, number("to ", i)) &&
	     !tree_getattr(&tree, number("p", i), &p) && S_ISFIFO(p.mode) && !tree_getattr(&tree, number("c", i), &c) &&
	     S_ISCHR(c.mode) && c.rdev == 0x103;
	free(target);
	return ok;
}

static bool all_there(void)
{
	for (int i = 0; i < NAMES; i++)
		if (!is_there(i)) {
			fprintf(stderr, "%d is not as it was\n", i);
			return false;
		}
	return true;
}

static bool all_at_their_owners(void)
{
	static const char *const what[] = { "f", "d", "s", "p", "c", "l" };

	for (size_t k = 0; k < sizeof(what) / sizeof(*what); k++)
		for (int i = 0; i < NAMES; i++)
			if (holder(number(what[k], i)) != owner(number(what[k], i)))
				return false;
	return true;
}

static int listed(void)
{
	struct dirents list = { 0 };
	struct file *dir = NULL;
	int n = tree_opendir(&tree, "", &dir);

	if (n)
		return n;
	n = tree_readdir(&tree, dir, &list);
	n = n ? n : (int)list.count;
	fop_out_clear(FOP_readdir, &list);
	tree_release(&tree, dir);
	return n;
}

GROWS(a_subvolume_that_came_gets_its_names)
{
	struct setattr set = { .valid = SET_MODE, .mode = 01777 };
	struct attr a;

	CHECK_INT(fill(), 0);
	CHECK_INT(tree_setattr(&tree, "", &set), 0);
	CHECK_INT(listed(), 6 * NAMES);
	CHECK(grows("second"));
	CHECK(strstr(told, "version 2\n") && !strstr(told, "moved 0\n"));
	CHECK(all_there());
	CHECK(all_at_their_owners());
	CHECK_INT(listed(), 6 * NAMES);
	CHECK(is_whole());
	CHECK_INT(census().work, 0);
	at("m3");
	CHECK_INT(tree_getattr(&tree, "", &a), 0);
	CHECK_INT(a.mode & 07777, 01777);
	at("dht");
	set.mode = 0755;
	CHECK_INT(tree_setattr(&tree, "", &set), 0);
	CHECK_INT(put(name_at(NEW, "new"), "new"), 0);
	CHECK_INT(holder(name_at(NEW, "new")), NEW);
	for (int i = 0; i < NAMES; i++) { /* and what was moved goes as other names do */
		char below[80];

		snprintf(below, sizeof(below), "d%d/in", i);
		CHECK_INT(tree_rmdir(&tree, number("d", i)), -ENOTEMPTY);
		CHECK_INT(tree_unlink(&tree, below), 0);
		CHECK_INT(tree_rmdir(&tree, number("d", i)), 0);
		CHECK_INT(tree_unlink(&tree, number("f", i)), 0);
		CHECK_INT(tree_unlink(&tree, number("l", i)), 0);
		CHECK_INT(tree_unlink(&tree, number("s", i)), 0);
		CHECK_INT(tree_unlink(&tree, number("p", i)), 0);
		CHECK_INT(tree_unlink(&tree, number("c", i)), 0);
	}
	CHECK_INT(listed(), 1);
	CHECK_INT(census().anchors, 0);
}

GROWS(nothing_is_done_where_nothing_is_to_be_done)
{
	CHECK(grows("dht"));
	CHECK(grows("dht"));
	CHECK(strstr(told, "moved 0\n") && strstr(told, "version 2\n"));
	CHECK(grows("second"));
	CHECK(strstr(told, "moved 0\n") && strstr(told, "version 2\n"));
	CHECK_INT(command("dht", "rebalance", "no-such-verb"), -EINVAL);
	CHECK_INT(command("dht", "rebalance", "stop"), 0);
}

/* ---- each operation, on names that are still where they were ---- */

GROWS(what_is_still_where_it_was_is_used_there)
{
	const char *f = moving_name(0, "f"), *d = moving_name(1, "d"), *g = moving_name(2, "g"), *still = moving_name(-1, "s");
	struct file *file = NULL;
	struct attr a;

	CHECK_INT(put(f, "f"), 0);
	CHECK_INT(tree_mkdir(&tree, d, 0755), 0);
	CHECK_INT(put(still, "still"), 0);
	CHECK_INT(begin_to_move(), 0);
	CHECK(reads(f, "f"));
	CHECK_INT(tree_create(&tree, f, O_RDWR | O_EXCL, 0644, NULL), -EEXIST);
	CHECK_INT(tree_create(&tree, f, O_RDWR, 0644, &file), 0); /* opens it */
	CHECK_INT(tree_write(&tree, file, 0, "g", 1), 0);
	tree_release(&tree, file);
	CHECK(reads(f, "g"));
	CHECK_INT(tree_mkdir(&tree, f, 0755), -EEXIST);
	CHECK_INT(tree_symlink(&tree, "x", d), -EEXIST);
	CHECK_INT(tree_mknod(&tree, f, S_IFIFO | 0600, 0), -EEXIST);
	CHECK_INT(tree_link(&tree, still, f), -EEXIST);
	CHECK_INT(tree_rename(&tree, still, f, RENAME_NOREPLACE), -EEXIST);
	CHECK_INT(tree_rmdir(&tree, f), -ENOTDIR);
	CHECK_INT(tree_unlink(&tree, d), -EISDIR);
	CHECK_INT(holder(f), 0);
	CHECK_INT(tree_getattr(&tree, g, &a), -ENOENT);
	CHECK_INT(put(g, "new"), 0);
	CHECK_INT(holder(g), NEW);
	CHECK_INT(tree_unlink(&tree, f), 0);
	CHECK_INT(tree_getattr(&tree, f, &a), -ENOENT);
	CHECK_INT(tree_unlink(&tree, f), -ENOENT);
	CHECK_INT(tree_mkdir(&tree, f, 0755), 0);
	CHECK_INT(holder(f), NEW);
	CHECK_INT(tree_rmdir(&tree, d), 0);
	CHECK_INT(tree_symlink(&tree, "x", d), 0);
	CHECK_INT(holder(d), NEW);
	CHECK_INT(listed(), 4);
	CHECK(grows("second"));
	CHECK(is_whole());
	CHECK_INT(listed(), 4);
}

GROWS(names_that_move_are_renamed)
{
	const char *a = moving_name(0, "a"), *b = moving_name(0, "b"), *c = moving_name(1, "c"), *d = moving_name(2, "d"),
		   *s = moving_name(-1, "s");

	CHECK_INT(put(a, "a"), 0);
	CHECK_INT(put(b, "b"), 0);
	CHECK_INT(put(c, "c"), 0);
	CHECK_INT(put(s, "s"), 0);
	CHECK_INT(begin_to_move(), 0);
	CHECK_INT(tree_rename(&tree, a, d, RENAME_NOREPLACE), 0); /* to what is not there */
	CHECK_INT(holder(d), NEW);
	CHECK(reads(d, "a") && !links(a));
	CHECK_INT(tree_rename(&tree, s, b, 0), 0); /* over what is still where it was */
	CHECK_INT(holder(b), NEW);
	CHECK(reads(b, "s") && !links(s));
	CHECK_INT(tree_rename(&tree, c, c, 0), 0);
	CHECK(reads(c, "c"));
	CHECK_INT(tree_rename(&tree, c, b, RENAME_EXCHANGE), 0);
	CHECK(reads(c, "s") && reads(b, "c"));
	CHECK_INT(holder(c), NEW);
	CHECK_INT(tree_rename(&tree, a, b, 0), -ENOENT);
	CHECK_INT(tree_rename(&tree, b, s, 0), 0);
	CHECK(reads(s, "c") && !links(b));
	CHECK_INT(tree_link(&tree, s, a), 0);
	CHECK_INT(holder(a), NEW);
	CHECK(links(a) == 2 && same_file(a, s));
	CHECK_INT(listed(), 4);
	CHECK(grows("second"));
	CHECK(is_whole());
	CHECK(reads(s, "c") && reads(a, "c") && reads(c, "s") && reads(d, "a"));
	CHECK_INT(census().work, 0);
}

GROWS(directories_that_move_are_renamed)
{
	const char *a = moving_name(0, "a"), *b = moving_name(1, "b"), *c = moving_name(2, "c"), *s = moving_name(-1, "s");
	char path[80], other[80];

	CHECK_INT(tree_mkdir(&tree, a, 0755), 0);
	CHECK_INT(tree_mkdir(&tree, b, 0755), 0);
	CHECK_INT(tree_mkdir(&tree, c, 0755), 0);
	snprintf(path, sizeof(path), "%s/in", a);
	CHECK_INT(put(path, "in"), 0);
	CHECK_INT(begin_to_move(), 0);
	snprintf(other, sizeof(other), "%s/below", a);
	CHECK_INT(tree_rename(&tree, a, other, 0), -EINVAL);
	CHECK_INT(tree_rename(&tree, a, b, 0), 0);
	snprintf(path, sizeof(path), "%s/in", b);
	CHECK(reads(path, "in"));
	CHECK_INT(tree_rename(&tree, c, b, 0), -ENOTEMPTY);
	snprintf(path, sizeof(path), "%s/c", b);
	CHECK_INT(tree_rename(&tree, c, path, 0), 0);
	CHECK_INT(tree_rename(&tree, b, s, 0), 0);
	snprintf(path, sizeof(path), "%s/in", s);
	CHECK(reads(path, "in"));
	CHECK_INT(listed(), 1);
	CHECK(grows("second"));
	CHECK(is_whole());
}

/* ---- under load ---- */

static struct {
	atomic_int running, wrong;
	atomic_bool stop;
} load;

/* One name, which nobody else uses: each answer is known. */
static void use_name(const char *name, const char *spare, int round)
{
	struct attr a;
	int bad = 0;

	bad += put(name, "1") != 0;
	bad += !reads(name, "1");
	bad += tree_create(&tree, name, O_RDWR | O_EXCL, 0644, NULL) != -EEXIST;
	task_sleep_ms((uint64_t)(round % 5));
	bad += tree_rename(&tree, name, spare, round & 1 ? RENAME_NOREPLACE : 0) != 0;
	bad += tree_getattr(&tree, name, &a) != -ENOENT;
	bad += !reads(spare, "1");
	bad += tree_mkdir(&tree, name, 0755) != 0;
	task_sleep_ms((uint64_t)(round % 3));
	bad += tree_rename(&tree, name, spare, RENAME_EXCHANGE) != 0;
	bad += !reads(name, "1");
	bad += tree_link(&tree, name, spare) != -EEXIST;
	bad += tree_rmdir(&tree, spare) != 0;
	bad += tree_link(&tree, name, spare) != 0;
	bad += links(spare) != 2;
	bad += tree_unlink(&tree, name) != 0;
	bad += tree_getattr(&tree, name, &a) != -ENOENT;
	bad += tree_unlink(&tree, spare) != 0;
	if (bad)
		fprintf(stderr, "%s, %s, round %d: %d answers were wrong\n", name, spare, round, bad);
	load.wrong += bad;
}

static void user(void *arg)
{
	int i = (int)(intptr_t)arg;
	char name[32], spare[32];

	for (int round = 0; !load.stop; round++) {
		snprintf(name, sizeof(name), "n%d", i * 100 + round % 40);
		snprintf(spare, sizeof(spare), "m%d", i * 100 + round % 40);
		use_name(name, spare, round);
	}
	load.running--;
}

GROWS(names_are_used_while_they_move)
{
	enum { USERS = 6 };

	CHECK_INT(fill(), 0);
	others_go_on(true);
	load.stop = false;
	load.wrong = 0;
	load.running = USERS;
	for (int i = 0; i < USERS; i++)
		CHECK_INT(task_spawn(NULL, user, (void *)(intptr_t)i), 0);
	task_sleep_ms(50);
	CHECK(grows("second"));
	task_sleep_ms(50);
	load.stop = true;
	while (load.running)
		task_sleep_ms(1);
	others_go_on(false);
	CHECK_INT(load.wrong, 0);
	CHECK(all_there());
	CHECK(all_at_their_owners());
	CHECK_INT(listed(), 6 * NAMES);
	CHECK(is_whole());
	CHECK_INT(census().work, 0);
}

/* ---- listings ---- */

struct reader {
	struct file *dir;
	uint64_t offset;
	int names;
	bool end;
};

static int read_more(struct reader *r, uint32_t size)
{
	struct readdir_in in = { .file = r->dir, .offset = r->offset, .size = size };
	struct readdir_out out = { 0 };
	int err = tree_call(&tree, tree.at, FOP_readdir, &in, &out);

	if (!err && out.entries.count)
		r->offset = out.entries.entry[out.entries.count - 1].next_offset;
	r->names += err ? 0 : (int)out.entries.count;
	r->end = err || out.entries.end || !out.entries.count;
	fop_out_clear(FOP_readdir, &out);
	return err;
}

static int read_to_end(struct reader *r)
{
	int err = 0;

	while (!err && !r->end)
		err = read_more(r, 1000);
	return err;
}

GROWS(a_listing_tells_each_name_once_though_names_move_meanwhile)
{
	struct reader begun = { 0 }, first = { 0 };
	uint64_t middle;
	int names;

	CHECK_INT(fill(), 0);
	CHECK_INT(tree_opendir(&tree, "", &begun.dir), 0);
	CHECK_INT(tree_opendir(&tree, "", &first.dir), 0);
	CHECK_INT(read_more(&first, 1000), 0);
	for (int i = 0; i < 20; i++)
		CHECK_INT(read_more(&begun, 1000), 0);
	middle = begun.offset;
	names = begun.names;
	CHECK(grows("second"));
	CHECK_INT(read_to_end(&begun), 0);
	CHECK_INT(begun.names, 6 * NAMES);
	begun = (struct reader){ .dir = begun.dir, .offset = middle, .names = names };
	CHECK_INT(read_to_end(&begun), 0);
	CHECK(begun.names >= 6 * NAMES); /* what was after the middle and has been moved is told again, or now */
	begun = (struct reader){ .dir = begun.dir };
	CHECK_INT(read_to_end(&begun), 0);
	CHECK_INT(begun.names, 6 * NAMES);
	CHECK_INT(read_to_end(&first), 0);
	CHECK_INT(first.names, 6 * NAMES);
	tree_release(&tree, begun.dir);
	tree_release(&tree, first.dir);
}

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

/* ---- who does not see the end ---- */

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

/* ---- weights ---- */

static int owner_by(const uint16_t weights[SUBVOLUMES], const char *name)
{
	struct layout l = { .version = 1, .count = SUBVOLUMES };

	for (unsigned i = 0; i < SUBVOLUMES; i++)
		l.member[i] = (struct layout_member){ i, weights[i], weights[i] };
	return (int)layout_owner(&l, layout_key(&gfid_root, name))->id;
}

/* counts: of each, of the last look. */
static bool all_at(const uint16_t weights[SUBVOLUMES], unsigned counts[SUBVOLUMES])
{
	static const char *const what[] = { "f", "d", "s", "p", "c", "l" };
	bool yes = true;

	memset(counts, 0, SUBVOLUMES * sizeof(*counts));
	for (size_t k = 0; k < sizeof(what) / sizeof(*what); k++)
		for (int i = 0; i < NAMES; i++) {
			int at = holder(number(what[k], i));

			yes &= at >= 0 && at == owner_by(weights, number(what[k], i));
			if (at >= 0)
				counts[at]++;
		}
	return yes;
}

/* One comes with its weight; then one is raised and one lowered, one after the other. Who has no word of weights goes by what there is. */
GROWS(names_are_shared_as_the_weights_say)
{
	unsigned counts[SUBVOLUMES], before[SUBVOLUMES];

	CHECK_INT(fill(), 0);
	CHECK(grows("weighs"));
	CHECK(strstr(told, "version 2\n"));
	CHECK(all_at((const uint16_t[]){ 1, 1, 1, 4 }, before));
	CHECK(before[3] > before[0] + before[1] + before[2]);
	CHECK(all_there());
	CHECK_INT(listed(), 6 * NAMES);
	CHECK(grows("weighs-again"));
	CHECK(strstr(told, "version 6\n") && !strstr(told, "moved 0\n"));
	CHECK(all_at((const uint16_t[]){ 3, 1, 1, 2 }, counts));
	CHECK(counts[0] > before[0] && counts[3] < before[3]);
	CHECK(all_there());
	CHECK_INT(listed(), 6 * NAMES);
	CHECK(grows("dht"));
	CHECK(strstr(told, "version 6\n") && strstr(told, "moved 0\n"));
	CHECK(is_whole());
	CHECK_INT(census().work, 0);
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

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_subvolume_that_came_gets_its_names),
		cmocka_unit_test(nothing_is_done_where_nothing_is_to_be_done),
		cmocka_unit_test(what_is_still_where_it_was_is_used_there),
		cmocka_unit_test(names_that_move_are_renamed),
		cmocka_unit_test(directories_that_move_are_renamed),
		cmocka_unit_test(names_are_used_while_they_move),
		cmocka_unit_test(a_listing_tells_each_name_once_though_names_move_meanwhile),
		cmocka_unit_test(what_was_found_by_one_layout_is_not_marked_by_the_next),
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
		cmocka_unit_test(names_are_shared_as_the_weights_say),
		cmocka_unit_test(a_name_that_leads_to_nothing_is_told_and_waited_for),
		cmocka_unit_test(who_repairs_by_the_layout_before_renames_nothing),
		cmocka_unit_test(a_client_that_lacks_the_new_one_changes_nothing_of_it_and_tells_no_shorter_list),
		cmocka_unit_test(what_is_asked_for_again_is_not_taken_for_done_where_names_move_away),
		cmocka_unit_test(an_intent_begins_by_the_layout_that_the_brick_has),
		cmocka_unit_test(a_layout_is_replaced_by_a_later_one_only),
		cmocka_unit_test(marks_of_the_root_are_counted),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
