/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: directories that grow large are given more subvolumes, while they are used, and whoever does it dies. */
#include "widen-test.h"

#include <stdatomic.h>

#include "place.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE	 2
#endif
enum { NAMES = 40, LARGE = 16 };

#define WIDENS(name)                                                                                                           \
	static void name##_(void *arg);                                                                                        \
	static void name(void **state)                                                                                         \
	{                                                                                                                      \
		(void)state;                                                                                                   \
		widen_at = LARGE;                                                                                              \
		more_volumes = OTHER_CLIENT("second") OTHER_CLIENT("third");                                                   \
		run(name##_, " option sweep-interval 10ms\n", "256M");                                                         \
		widen_at = 8192;                                                                                               \
		more_volumes = "";                                                                                             \
	}                                                                                                                      \
	static void name##_(void *arg __attribute__((unused)))

/* ---- the one who widens ---- */

static char told[2048];

static int command(const char *client, const char *one, const char *two, const char *three)
{
	char *argv[] = { (char *)one, (char *)two, (char *)three }, *said = NULL; /* three: or NULL */
	size_t size;
	FILE *f = open_memstream(&said, &size);
	struct xlator *x = tree_find(&tree, client);
	int err = x->type->command(x, three ? 3 : 2, argv, f);

	fclose(f);
	snprintf(told, sizeof(told), "%s", said);
	free(said);
	return err;
}

int widening(const char *client, const char *verb)
{
	return command(client, "rebalance", "widen", verb);
}

bool is_whole(void)
{
	bool whole = !command("dht", "fsck", "repair", "wait=1") && !strstr(told, "finding ") && !strstr(told, "problem ");

	if (!whole)
		fprintf(stderr, "%s", told);
	return whole;
}

/* As the brick has it; version 0: it has none. */
int layout_at(int child, const struct gfid *gfid, const char *path, struct layout *l)
{
	struct getxattr_in in = { .name = DHT_LAYOUT_XATTR };
	struct getxattr_out out = { 0 };
	char volume[8], text[GFID_TEXT], hidden[128];
	int err;

	*l = (struct layout){ .version = 0 };
	snprintf(volume, sizeof(volume), "m%d", child);
	at(volume);
	err = path ? tree_walk(&tree, path, &in.inode) : -ENOENT;
	if (err) {
		snprintf(hidden, sizeof(hidden), DHT_HIDDEN "/away/%02x/d.%s", gfid->bytes[0], gfid_text(gfid, text));
		err = tree_walk(&tree, hidden, &in.inode);
	}
	if (!err)
		err = tree_call(&tree, tree.at, FOP_getxattr, &in, &out);
	if (!err)
		err = layout_decode(out.value.bytes, out.value.size, l);
	fop_out_clear(FOP_getxattr, &out);
	inode_unref(in.inode);
	at("dht");
	return err;
}

unsigned members_of(const char *path, bool *settled)
{
	struct layout l, newest = { .version = 0 };
	struct attr a;
	int missing = 0;

	*settled = true;
	if (tree_getattr(&tree, path, &a))
		return 0;
	for (int i = 0; i < SUBVOLUMES; i++)
		if (!layout_at(i, &a.gfid, path, &l) && l.version > newest.version)
			newest = l;
	for (unsigned i = 0; i < newest.count; i++)
		missing += layout_at((int)newest.member[i].id, &a.gfid, path, &l) || l.version != newest.version;
	*settled = !newest.moving && !missing;
	return newest.version ? newest.count : 1;
}

static unsigned told_of(const char *what)
{
	const char *at = strstr(told, what);

	return at ? (unsigned)atoi(at + strlen(what)) : 0;
}

static bool becomes_wide(const char *path, unsigned members)
{
	bool settled = false;
	unsigned n = 0;

	for (int i = 0; i < tries_of(2); i++) { /* a minute: with ThreadSanitizer all of it is slow */
		n = members_of(path, &settled);
		if (n >= members && settled && !census().work)
			return true;
		task_sleep_ms(1);
	}
	fprintf(stderr, "%s is at %u, %s\n", path, n, settled ? "settled" : "not settled");
	return false;
}

/* ---- what is in it ---- */

const char *in(const char *dir, const char *what, int i)
{
	static char names[8][96];
	static unsigned next;
	char *name = names[next++ % 8];

	snprintf(name, 96, "%s/%s%d", dir, what, i);
	return name;
}

int fill(const char *dir, const char *what, int from, int to)
{
	int err = 0;

	for (int i = from; i < to && !err; i++)
		err = put(in(dir, what, i), in("text", what, i));
	return err;
}

int missing(const char *dir, const char *what, int to)
{
	int n = 0;

	for (int i = 0; i < to; i++)
		n += !reads(in(dir, what, i), in("text", what, i));
	return n;
}

int listed(const char *dir)
{
	struct dirents list = { 0 };
	struct file *file = NULL;
	int n = tree_opendir(&tree, dir, &file);

	if (n)
		return n;
	n = tree_readdir(&tree, file, &list);
	n = n ? n : (int)list.count;
	fop_out_clear(FOP_readdir, &list);
	tree_release(&tree, file);
	return n;
}

int removed(const char *dir, const char *what, int to)
{
	int err = 0;

	for (int i = 0; i < to && !err; i++)
		err = tree_unlink(&tree, in(dir, what, i));
	return err;
}

/* A wide directory with NAMES files, that nobody widens any more. */
static bool make_wide(const char *dir)
{
	bool done = !tree_mkdir(&tree, dir, 0755) && !fill(dir, "f", 0, NAMES), settled = false;

	while (done && !settled) { /* who is stopped may have begun to make it wider still */
		done = !widening("third", "start") && becomes_wide(dir, 2) && !widening("third", "stop");
		for (int i = 0; done && !settled && i < 1000; i++) {
			settled = members_of(dir, &settled) >= 2 && settled && !census().work;
			task_sleep_ms(1);
		}
	}
	return done;
}

/* While a name of it is led elsewhere, or what was begun is ended by a sweep, a file has a link more ("What is seen" in doc/distribution.md). */
static bool comes_to_links(const char *name, unsigned count)
{
	for (int i = 0; i < tries_of(1) && links(name) != count; i++)
		task_sleep_ms(1);
	return links(name) == count;
}

/* ---- properties ---- */

WIDENS(a_large_directory_gets_more_subvolumes)
{
	bool settled;
	struct attr a;

	CHECK_INT(tree_mkdir(&tree, "small", 0755), 0);
	CHECK_INT(fill("small", "f", 0, LARGE - 4), 0);
	CHECK_INT(tree_mkdir(&tree, "d", 0750), 0);
	CHECK_INT(fill("d", "f", 0, NAMES), 0);
	CHECK_INT(tree_mkdir(&tree, "d/below", 0700), 0);
	CHECK_INT(put("d/below/in", "in"), 0);
	CHECK_INT(tree_link(&tree, "d/f1", "d/link"), 0);
	CHECK_INT(widening("second", "start"), 0);
	CHECK(becomes_wide("d", 2));
	CHECK_INT(missing("d", "f", NAMES), 0);
	CHECK_INT(listed("d"), NAMES + 2);
	CHECK(comes_to_links("d/f1", 2)); /* for a moment it is one more: it goes on growing */
	CHECK(same_file("d/f1", "d/link"));
	CHECK(reads("d/below/in", "in"));
	CHECK_INT(tree_getattr(&tree, "d", &a), 0);
	CHECK_INT(a.mode & 07777, 0750);
	CHECK_INT(a.nlink, 3);
	CHECK_INT(fill("d", "g", 0, 3 * NAMES), 0);
	CHECK(becomes_wide("d", 4));
	CHECK_INT(missing("d", "f", NAMES) + missing("d", "g", 3 * NAMES), 0);
	CHECK_INT(listed("d"), 4 * NAMES + 2);
	CHECK_INT(members_of("small", &settled), 1);
	CHECK(is_whole());
	CHECK_INT(tree_rmdir(&tree, "d"), -ENOTEMPTY);
	CHECK_INT(removed("d", "f", NAMES) + removed("d", "g", 3 * NAMES), 0);
	CHECK_INT(tree_unlink(&tree, "d/link"), 0);
	CHECK_INT(tree_rmdir(&tree, "d"), -ENOTEMPTY);
	CHECK_INT(tree_unlink(&tree, "d/below/in"), 0);
	CHECK_INT(tree_rmdir(&tree, "d/below"), 0);
	CHECK_INT(listed("d"), 0);
	CHECK_INT(widening("second", "stop"), 0);
	CHECK_INT(tree_rmdir(&tree, "d"), 0);
	CHECK_INT(tree_getattr(&tree, "d", &a), -ENOENT);
	CHECK(is_whole());
	CHECK_INT(census().work, 0);
	CHECK_INT(census().anchors, 0);
}

/* Of the newest layout of the directory, or of what it is to become: it may be growing on by now. */
static bool shares_are_equal(const char *path)
{
	struct layout l, newest = { .version = 0 };
	struct attr a;
	bool yes;

	if (tree_getattr(&tree, path, &a))
		return false;
	for (int i = 0; i < SUBVOLUMES; i++)
		if (!layout_at(i, &a.gfid, path, &l) && l.version > newest.version)
			newest = l;
	yes = newest.count > 1;
	for (unsigned i = 1; i < newest.count; i++)
		yes &= newest.member[i].next == newest.member[0].next;
	return yes;
}

static void weights_are_asked_for_(void *arg)
{
	(void)arg;
	CHECK_INT(tree_mkdir(&tree, "d", 0755), 0);
	CHECK_INT(fill("d", "f", 0, NAMES), 0);
	CHECK_INT(widening("weighs", "start"), 0);
	CHECK(becomes_wide("d", 2));
	CHECK(shares_are_equal("d"));
	CHECK_INT(listed("d"), NAMES);
	CHECK_INT(fill("d", "g", 0, 3 * NAMES), 0);
	CHECK(becomes_wide("d", 4));
	CHECK(shares_are_equal("d"));
	CHECK_INT(listed("d"), 4 * NAMES);
	CHECK_INT(widening("weighs", "stop"), 0);
	CHECK(is_whole());
}

/* ---- the home leaves ---- */

/* The directory's home is the first of them, which all know that have seen it before. */
static void who_has_not_heard_that_the_home_left_is_told_what_was_changed_since_(void *arg)
{
	cleanup_inode struct inode *known = NULL;
	struct getattr_in in = { 0 };
	struct getattr_out out = { 0 };
	char dir[64];
	struct request rq;

	(void)arg;
	snprintf(dir, sizeof(dir), "%s", name_at(0, "d"));
	CHECK(make_wide(dir));
	at("second");
	CHECK_INT(tree_walk(&tree, dir, &known), 0);
	CHECK_INT(command("leaves", "rebalance", "start", NULL), 0);
	do {
		CHECK_INT(command("leaves", "rebalance", "status", NULL), 0);
		task_sleep_ms(1);
	} while (!strstr(told, "state done"));
	at("leaves");
	CHECK_INT(tree_setattr(&tree, dir, &(struct setattr){ .valid = SET_MODE | SET_GID, .mode = 0700, .gid = 77 }), 0);
	at("second");
	request_init(&rq, tree.graph, 0); /* not by its name, which would tell */
	rq.group_count = 0;
	in.inode = known;
	CHECK_INT(getattr_on(&rq, tree.at, &in, &out), 0);
	CHECK_INT(out.attr.mode & 07777, 0700);
	CHECK_INT(out.attr.gid, 77);
	request_finish(&rq);
}

static void who_has_not_heard_that_the_home_left_is_told_what_was_changed_since(void **state)
{
	(void)state;
	widen_at = LARGE;
	more_volumes = OTHER_CLIENT("second") OTHER_CLIENT(
		"third") "volume leaves\n type cluster/dht\n option lean 0\n option leaving 0\n option sweep-interval 10ms\n subvolumes c0 c1 c2 c3\nend-volume\n";
	run(who_has_not_heard_that_the_home_left_is_told_what_was_changed_since_, " option sweep-interval 10ms\n", "256M");
	widen_at = 8192;
	more_volumes = "";
}

/* They are of the root's names. */
static void a_wide_directory_has_equal_shares_whatever_weights_are_asked_for(void **state)
{
	(void)state;
	widen_at = LARGE;
	more_volumes =
		"volume weighs\n type cluster/dht\n option lean 0\n option sweep-interval 10ms\n option weights 1,5,9,13\n subvolumes c0 c1 c2 c3\nend-volume\n";
	run(weights_are_asked_for_, " option sweep-interval 10ms\n option weights 1,5,9,13\n", "256M");
	widen_at = 8192;
	more_volumes = "";
}

WIDENS(a_directory_that_grows_wide_keeps_the_time_of_its_birth)
{
	struct attr at_home, wide;
	char dir[64], home[8];

	for (int i = 0; i < SUBVOLUMES; i++) {
		snprintf(dir, sizeof(dir), "%s", name_at(i, "d"));
		CHECK(make_wide(dir));
		CHECK_INT(tree_getattr(&tree, dir, &wide), 0);
		snprintf(home, sizeof(home), "m%d", i);
		at(home);
		CHECK_INT(tree_getattr(&tree, dir, &at_home), 0);
		at("dht");
		CHECK_INT(wide.btime.sec, at_home.btime.sec);
		CHECK_INT(wide.btime.nsec, at_home.btime.nsec);
	}
}

WIDENS(names_in_a_wide_directory_are_used_as_in_any)
{
	struct setattr set = { .valid = SET_MODE, .mode = 0711 };
	struct attr a;

	CHECK(make_wide("d"));
	for (int i = 0; i < NAMES; i++) {
		const char *f = in("d", "f", i), *n = in("d", "n", i), *t = in("d", "n", i);
		char temporary[100];

		CHECK_INT(tree_rename(&tree, f, n, 0), 0);
		CHECK_INT(tree_getattr(&tree, f, &a), -ENOENT);
		CHECK(reads(n, in("text", "f", i)));
		CHECK_INT(tree_link(&tree, n, f), 0);
		CHECK_INT(links(f), 2);
		CHECK_INT(tree_unlink(&tree, n), 0);
		CHECK_INT(tree_create(&tree, f, O_RDWR | O_EXCL, 0644, NULL), -EEXIST);
		CHECK_INT(tree_mkdir(&tree, n, 0755), 0);
		CHECK_INT(tree_rename(&tree, n, in("d", "o", i), 0), 0);
		CHECK_INT(tree_rename(&tree, in("d", "o", i), in("", "top", i) + 1, 0), 0);
		CHECK_INT(tree_rmdir(&tree, in("", "top", i) + 1), 0);
		snprintf(temporary, sizeof(temporary), "%s.tmp", t);
		CHECK_INT(put(temporary, "tmp"), 0);
		CHECK_INT(tree_rename(&tree, temporary, t, 0), 0);
		CHECK_INT(tree_unlink(&tree, t), 0);
	}
	CHECK_INT(missing("d", "f", NAMES), 0);
	CHECK_INT(listed("d"), NAMES);
	CHECK_INT(tree_setattr(&tree, "d", &set), 0);
	at("second");
	CHECK_INT(tree_getattr(&tree, "d", &a), 0);
	CHECK_INT(a.mode & 07777, 0711);
	set = (struct setattr){ .valid = SET_MTIME | SET_ATIME, .mtime = { 1000, 5 }, .atime = { 2000, 6 } };
	CHECK_INT(tree_setattr(&tree, "d", &set), 0);
	at("dht");
	CHECK_INT(tree_getattr(&tree, "d", &a), 0);
	CHECK_INT(a.mtime.sec, 1000);
	CHECK_INT(a.atime.sec, 2000);
	CHECK_INT(tree_setxattr(&tree, "d", "user.x", "1", 1, 0), 0);
	CHECK_INT(tree_rename(&tree, "d", "e", 0), 0);
	CHECK_INT(missing("e", "f", NAMES), 0);
	CHECK_INT(listed("e"), NAMES);
	CHECK_INT(tree_mkdir(&tree, "over", 0755), 0);
	CHECK_INT(tree_rename(&tree, "e", "over", 0), 0);
	CHECK_INT(missing("over", "f", NAMES), 0);
	CHECK_INT(tree_mkdir(&tree, "more", 0755), 0);
	CHECK_INT(tree_rename(&tree, "more", "over", 0), -ENOTEMPTY);
	CHECK_INT(tree_rename(&tree, "over", "over/f", 0), -EINVAL);
	CHECK_INT(tree_mkdir(&tree, "over/below", 0755), 0);
	CHECK_INT(tree_rename(&tree, "over", "over/below/x", 0), -EINVAL);
	CHECK_INT(tree_rmdir(&tree, "over/below"), 0);
	CHECK_INT(removed("over", "f", NAMES), 0);
	CHECK_INT(put("more/kept", "kept"), 0);
	CHECK_INT(tree_rename(&tree, "more", "over", 0), 0);
	CHECK(reads("over/kept", "kept"));
	CHECK_INT(listed("over"), 1);
	CHECK(is_whole());
	CHECK_INT(census().work, 0);
}

/* ---- under load ---- */

static struct {
	atomic_int running, wrong, removed;
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
	bad += !comes_to_links(spare, 2);
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
	char name[96], spare[96];

	for (int round = 0; !load.stop; round++) {
		/* (Not by in(): who fills a directory meanwhile has its names in use while he waits.) */
		snprintf(name, sizeof(name), "d/n%d", i * 100 + round % 40);
		snprintf(spare, sizeof(spare), "%s/m%d", i & 1 ? "d" : "e", i * 100 + round % 40);
		use_name(name, spare, round);
	}
	load.running--;
}

WIDENS(names_are_used_while_their_directory_grows_wide)
{
	enum { USERS = 4 };

	CHECK_INT(tree_mkdir(&tree, "d", 0755) + tree_mkdir(&tree, "e", 0755), 0);
	CHECK_INT(fill("d", "f", 0, NAMES) + fill("e", "f", 0, NAMES), 0);
	others_go_on(true);
	load.stop = false;
	load.wrong = 0;
	load.running = USERS;
	for (int i = 0; i < USERS; i++)
		CHECK_INT(task_spawn(NULL, user, (void *)(intptr_t)i), 0);
	task_sleep_ms(20);
	CHECK_INT(widening("second", "start"), 0);
	for (int i = 0; i < tries_of(1) && told_of("moved ") < 2;
	     i++) { /* directories. (Who looks at bricks turns the users to them, too.) */
		task_sleep_ms(1);
		CHECK_INT(widening("second", "status"), 0);
	}
	CHECK_INT(fill("d", "g", 0, 2 * NAMES), 0);
	task_sleep_ms(200);
	load.stop = true;
	while (load.running)
		task_sleep_ms(1);
	others_go_on(false);
	CHECK(becomes_wide("d", 4));
	CHECK_INT(widening("second", "stop"), 0);
	CHECK_INT(load.wrong, 0);
	CHECK_INT(missing("d", "f", NAMES) + missing("d", "g", 2 * NAMES) + missing("e", "f", NAMES), 0);
	CHECK_INT(listed("d"), 3 * NAMES);
	CHECK_INT(listed("e"), NAMES);
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
		err = read_more(r, 200);
	return err;
}

/* From the beginning, the middle and the end of what was whole, then of what was at two subvolumes. */
WIDENS(a_listing_tells_each_name_once_though_the_directory_grows_wide_meanwhile)
{
	struct reader r[4] = { { 0 } };
	int names = NAMES;

	CHECK_INT(tree_mkdir(&tree, "d", 0755), 0);
	CHECK_INT(fill("d", "f", 0, NAMES), 0);
	for (int round = 0; round < 2 && !failures; round++) {
		for (int i = 0; i < 4; i++) {
			r[i] = (struct reader){ 0 };
			CHECK_INT(tree_opendir(&tree, "d", &r[i].dir), 0);
			for (int k = 0; k < i * 3; k++)
				CHECK_INT(read_more(&r[i], 200), 0);
		}
		CHECK_INT(read_to_end(&r[3]), 0);
		CHECK_INT(r[3].names, names);
		r[3].end = false;
		CHECK_INT(widening("second", "once"), 0);
		CHECK(becomes_wide("d", round ? 4 : 2));
		for (int i = 0; i < 4; i++) {
			CHECK_INT(read_to_end(&r[i]), 0);
			CHECK_INT(r[i].names, names);
			r[i] = (struct reader){ .dir = r[i].dir };
			CHECK_INT(read_to_end(&r[i]), 0);
			CHECK_INT(r[i].names, names);
			tree_release(&tree, r[i].dir);
		}
		CHECK_INT(fill("d", "g", 0, 2 * NAMES), 0);
		names = 3 * NAMES;
	}
}

/* ---- files are brought home meanwhile ---- */

/* Of the files of "d" so many stand at another subvolume than their names. */
static void put_some_away(int away)
{
	char name[96];

	CHECK_INT(tree_mkdir(&tree, "d", 0755), 0);
	for (int i = 0; i < away; i++) {
		snprintf(name, sizeof(name), "%s", name_at((owner("d") + 1) % SUBVOLUMES, "x"));
		CHECK_INT(put(name, in("text", "f", i)), 0);
		CHECK_INT(tree_rename(&tree, name, in("d", "f", i), 0), 0);
	}
	CHECK_INT(fill("d", "f", away, FEW), 0);
}

static bool has_brought(void)
{
	for (int i = 0; i < tries_of(1); i++) {
		command("dht", "rebalance", "status", NULL);
		if (strstr(told, "state done"))
			return true;
		task_sleep_ms(1);
	}
	fprintf(stderr, "%s", told);
	return false;
}

/* *brought: so many files more. Others stay, or are brought when the directory is wide. */
static void bring_and_widen(int turns, unsigned *brought)
{
	put_some_away(FEW / 2);
	CHECK_INT(command("dht", "rebalance", "start", NULL), 0);
	for (int i = 0; i < turns; i++)
		task_yield();
	CHECK_INT(widening("second", "once"), 0);
	CHECK(has_brought());
	CHECK_INT(told_of("failed "), 0);
	*brought += told_of("\nfiles ");
	CHECK(becomes_wide("d", 2));
	CHECK_INT(missing("d", "f", FEW), 0);
	CHECK_INT(listed("d"), FEW);
	for (int i = 0; i < FEW; i++)
		CHECK_INT(links(in("d", "f", i)), 1);
	if (!failures)
		CHECK(is_whole());
	clear_directory("d");
	if (failures)
		fprintf(stderr, "after %d turns\n%s", turns, told);
}

static void bring_and_widen_often(void *arg)
{
	unsigned brought = 0;

	(void)arg;
	others_go_on(true);
	for (int i = 0; i < 40 && !failures; i++)
		bring_and_widen(9 * i, &brought);
	others_go_on(false);
	CHECK(brought > 0);
	CHECK_INT(census().anchors, 0);
}

static void files_are_brought_home_while_their_directory_grows_wide(void **state)
{
	(void)state;
	few_are_many(bring_and_widen_often);
}

/* ---- a wide directory goes, or something comes to be in it ---- */

static void remover(void *arg)
{
	(void)arg;
	while (!load.stop) {
		if (!tree_rmdir(&tree, "d"))
			load.removed++;
		task_sleep_ms(1);
	}
	load.running--;
}

WIDENS(what_was_made_in_a_directory_is_there_or_the_directory_has_gone_before)
{
	others_go_on(true);
	for (int round = 0; round < 12 && !failures; round++) {
		int made = 0, err = 0, ended = 0;

		CHECK_INT(tree_mkdir(&tree, "d", 0755), 0);
		CHECK_INT(fill("d", "f", 0, LARGE), 0);
		CHECK_INT(widening("second", "once"), 0);
		CHECK_INT(removed("d", "f", LARGE), 0);
		load.stop = false;
		load.removed = 0;
		load.running = 1;
		CHECK_INT(task_spawn(NULL, remover, NULL), 0);
		for (int i = 0; i < 200 && !ended; i++) {
			err = put(in("d", "x", i), "x");
			ended = err == -ENOENT || err == -ESTALE;
			made = err ? 0 : 1;
			CHECK(ended || !err);
			if (made)
				CHECK(reads(in("d", "x", i), "x"));
			if (made)
				CHECK_INT(tree_unlink(&tree, in("d", "x", i)), 0);
			if (i % 16 == 15)
				task_sleep_ms(2);
		}
		load.stop = true;
		while (load.running)
			task_sleep_ms(1);
		CHECK(ended ? load.removed == 1 : true);
		if (!load.removed)
			CHECK_INT(tree_rmdir(&tree, "d"), 0);
	}
	others_go_on(false);
	CHECK(is_whole());
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_large_directory_gets_more_subvolumes),
		cmocka_unit_test(a_wide_directory_has_equal_shares_whatever_weights_are_asked_for),
		cmocka_unit_test(a_directory_that_grows_wide_keeps_the_time_of_its_birth),
		cmocka_unit_test(names_in_a_wide_directory_are_used_as_in_any),
		cmocka_unit_test(who_has_not_heard_that_the_home_left_is_told_what_was_changed_since),
		cmocka_unit_test(names_are_used_while_their_directory_grows_wide),
		cmocka_unit_test(a_listing_tells_each_name_once_though_the_directory_grows_wide_meanwhile),
		cmocka_unit_test(what_one_began_to_widen_another_ends),
		cmocka_unit_test(who_dies_while_a_wide_directory_goes_has_removed_it_or_not),
		cmocka_unit_test(names_are_made_again_where_a_wide_directory_dies_for_nobody),
		cmocka_unit_test(files_are_brought_home_while_their_directory_grows_wide),
		cmocka_unit_test(what_was_made_in_a_directory_is_there_or_the_directory_has_gone_before),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
