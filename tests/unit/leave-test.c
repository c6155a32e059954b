/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: the last of four subvolumes is to leave the volume: names, directories and files go to the others, while they are used. */
#include "dht-tree.h"

#include "place.h"

/* IN_ROOT: names there for each number. */
enum { LEAVER = 3, NAMES = 24, MANY = 30, IN_ROOT = 4 };

/* "dht" knows that one leaves; "second" does not, nor does it move anything. "mover" has connections of its own, as one that was started anew. */
#define OWN_HANDLES                                                                                                              \
	"volume h0\n type test/handles\n subvolumes c0\nend-volume\nvolume h1\n type test/handles\n subvolumes c1\nend-volume\n" \
	"volume h2\n type test/handles\n subvolumes c2\nend-volume\nvolume h3\n type test/handles\n subvolumes c3\nend-volume\n" \
	"volume mover\n type cluster/dht\n option lean 0\n option leaving 3\n option sweep-interval 10ms\n subvolumes h0 h1 h2 h3\nend-volume\n"
#define OTHER_CLIENTS                                                                                                                            \
	"volume second\n type cluster/dht\n option lean 0\n option initial 4\n subvolumes c0 c1 c2 c3\nend-volume\n"                             \
	"volume third\n type cluster/dht\n option lean 0\n option leaving 3\n option sweep-interval 10ms\n subvolumes c0 c1 c2 c3\nend-volume\n" \
	"volume scatters\n type cluster/dht\n option lean 0\n option scatter 1\n subvolumes c0 c1 c2 c3\nend-volume\n"                           \
	"volume without\n type cluster/dht\n option lean 0\n option initial 3\n subvolumes c0 c1 c2\nend-volume\n"
#define LEAVES(name)                                                                                                           \
	static void name##_(void *arg);                                                                                        \
	static void name(void **state)                                                                                         \
	{                                                                                                                      \
		(void)state;                                                                                                   \
		more_volumes = OTHER_CLIENTS OWN_HANDLES;                                                                      \
		run(name##_, " option leaving 3\n option sweep-interval 10ms\n", "256M");                                      \
		more_volumes = "";                                                                                             \
	}                                                                                                                      \
	static void name##_(void *arg __attribute__((unused)))

/* ---- the rebalancer ---- */

static char told[2048];

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

static bool says(const char *client, const char *line)
{
	for (int i = 0; i < 20000; i++) {
		if (!command(client, "rebalance", "status") && strstr(told, line))
			return true;
		task_sleep_ms(1);
	}
	fprintf(stderr, "%s", told);
	return false;
}

static bool leaves(const char *client)
{
	return !command(client, "rebalance", "start") && says(client, "state done");
}

static bool is_whole(void)
{
	bool yes = !command("dht", "fsck", "repair") && !strstr(told, "finding ") && !strstr(told, "problem ");

	if (!yes)
		fprintf(stderr, "%s", told);
	return yes;
}

/* ---- a tree ---- */

static const char *path(const char *format, int i)
{
	static char paths[8][96];
	static unsigned next;
	char *text = paths[next++ % 8];

	snprintf(text, 96, format, i);
	return text;
}

static const char *path_in(const char *dir, const char *name)
{
	static char paths[8][160];
	static unsigned next;
	char *text = paths[next++ % 8];

	snprintf(text, 160, "%s/%s", dir, name);
	return text;
}

static int fill(int from, int to)
{
	int err = 0;

	for (int i = from; i < to && !err; i++) {
		err = put(path("f%d", i), path("text of %d", i)) ? -EIO : 0;
		err = err ? err : tree_mkdir(&tree, path("d%d", i), 0700 + (i & 7));
		err = err ? err : tree_mkdir(&tree, path("d%d/sub", i), 0755);
		err = err ? err : tree_mkdir(&tree, path("d%d/sub/below", i), 0755);
		err = err ? err : put(path("d%d/in", i), path("in %d", i)) ? -EIO : 0;
		err = err ? err : put(path("d%d/sub/below/deep", i), path("deep %d", i)) ? -EIO : 0;
		err = err ? err : tree_symlink(&tree, path("../f%d", i), path("d%d/sub/link", i));
		err = err ? err : tree_symlink(&tree, path("d%d/in", i), path("l%d", i));
		err = err ? err : tree_mknod(&tree, path("n%d", i), S_IFIFO | 0600, 0);
	}
	return err;
}

static bool leads_to(const char *link, const char *where)
{
	char *target = NULL;
	bool yes = !tree_readlink(&tree, link, &target) && !strcmp(target, where);

	free(target);
	return yes && links(link) == 1;
}

static bool is_fifo(const char *name)
{
	struct attr a;

	return !tree_getattr(&tree, name, &a) && S_ISFIFO(a.mode) && a.nlink == 1;
}

static bool is_there(int i)
{
	struct attr d;

	return leads_to(path("d%d/sub/link", i), path("../f%d", i)) && leads_to(path("l%d", i), path("d%d/in", i)) &&
	       is_fifo(path("n%d", i)) && reads(path("f%d", i), path("text of %d", i)) &&
	       reads(path("d%d/in", i), path("in %d", i)) && reads(path("d%d/sub/below/deep", i), path("deep %d", i)) &&
	       !tree_getattr(&tree, path("d%d", i), &d) && (d.mode & 07777) == 0700u + (unsigned)(i & 7);
}

static bool all_there(int count)
{
	for (int i = 0; i < count; i++)
		if (!is_there(i) || links(path("f%d", i)) != 1) {
			fprintf(stderr, "%d is not as it was\n", i);
			return false;
		}
	return true;
}

static int listed(const char *dir_path)
{
	struct dirents list = { 0 };
	struct file *dir = NULL;
	int n = tree_opendir(&tree, dir_path, &dir);

	if (n)
		return n;
	n = tree_readdir(&tree, dir, &list);
	n = n ? n : (int)list.count;
	fop_out_clear(FOP_readdir, &list);
	tree_release(&tree, dir);
	return n;
}

LEAVES(all_that_it_has_goes_to_the_others)
{
	CHECK_INT(fill(0, NAMES), 0);
	CHECK(leaves("dht"));
	CHECK(strstr(told, "stays-names 0\n") && strstr(told, "stays-files 0\n") && strstr(told, "stays-directories 0\n"));
	CHECK(all_there(NAMES));
	CHECK_INT(listed(""), IN_ROOT * NAMES);
	for (int i = 0; i < NAMES; i++) {
		CHECK_INT(listed(path("d%d", i)), 2);
		CHECK_INT(listed(path("d%d/sub", i)), 2);
	}
	at("second");
	CHECK(all_there(NAMES));
	at("without");
	CHECK(all_there(NAMES));
	CHECK_INT(fill(NAMES, MANY), 0);
	CHECK_INT(listed(""), IN_ROOT * MANY);
	at("dht");
	CHECK(all_there(MANY));
	CHECK_INT(census().work, 0);
	CHECK_INT(census().kept, 0);
	for (int i = 0; i < NAMES; i += 2) { /* and what was moved goes as others do */
		CHECK_INT(tree_rmdir(&tree, path("d%d/sub/below", i)), -ENOTEMPTY);
		CHECK_INT(tree_unlink(&tree, path("d%d/sub/below/deep", i)), 0);
		CHECK_INT(tree_rename(&tree, path("d%d/sub/below", i), path("d%d", i + 1), 0), -ENOTEMPTY);
		CHECK_INT(tree_rename(&tree, path("d%d/sub/below", i), path("r%d", i), 0), 0);
		CHECK_INT(tree_rmdir(&tree, path("r%d", i)), 0);
		CHECK_INT(tree_unlink(&tree, path("d%d/sub/link", i)), 0);
		CHECK_INT(tree_rmdir(&tree, path("d%d/sub", i)), 0);
		CHECK_INT(tree_unlink(&tree, path("d%d/in", i)), 0);
		CHECK_INT(tree_rmdir(&tree, path("d%d", i)), 0);
	}
	CHECK(is_whole());
}

/* ---- while they are used ---- */

static struct {
	atomic_bool stop;
	atomic_int running, wrong;
} load;

/* Each has names of his own, in a directory that goes, and one that all use. */
static void wants(const char *what, const char *name, int got, int want)
{
	if (got == want)
		return;
	fprintf(stderr, "%s of %s: %d, not %d\n", what, name, got, want);
	load.wrong++;
}

/* With paths of its own: others go on meanwhile. */
static void is_as_before(int i)
{
	static const char *const file[] = { "f%d", "d%d/in", "d%d/sub/below/deep" };
	static const char *const text[] = { "text of %d", "in %d", "deep %d" };

	for (int k = 0; k < 3; k++) {
		char at_path[64], is[64];

		snprintf(at_path, sizeof(at_path), file[k], i);
		snprintf(is, sizeof(is), text[k], i);
		wants("what was in", at_path, reads(at_path, is), true);
	}
}

static void use(int self, int turn)
{
	char a[96], b[96];

	snprintf(a, sizeof(a), "d%d/sub/u%d-%d", turn % NAMES, self, turn % 3);
	snprintf(b, sizeof(b), "u%d-%d", self, turn % 5);
	wants("create", a, put(a, a), 0);
	wants("read", a, reads(a, a), true);
	wants("rename", a, tree_rename(&tree, a, b, 0), 0);
	wants("read", b, reads(b, a), true);
	wants("links", a, (int)links(a), 0);
	wants("mkdir", a, tree_mkdir(&tree, a, 0755), 0);
	wants("rmdir", a, tree_rmdir(&tree, a), 0);
	wants("unlink", b, tree_unlink(&tree, b), 0);
	is_as_before(turn % NAMES);
}

static void user(void *arg)
{
	for (int turn = 0; !load.stop && !load.wrong; turn++) {
		use((int)(intptr_t)arg, turn);
		task_sleep_ms(1);
	}
	load.running--;
}

static void list_one(int i)
{
	char dir[64];

	snprintf(dir, sizeof(dir), "d%d", i);
	wants("names", dir, listed(dir), 2);
}

static void list_again_and_again(void *arg)
{
	(void)arg;
	while (!load.stop && !load.wrong) {
		for (int i = 0; i < NAMES && !load.stop; i++)
			list_one(i);
		task_sleep_ms(1);
	}
	load.running--;
}

LEAVES(all_is_used_while_it_goes)
{
	enum { USERS = 3 };

	CHECK_INT(fill(0, NAMES), 0);
	at("second"); /* who does not know that it leaves */
	others_go_on(true);
	load.stop = false;
	load.wrong = 0;
	load.running = USERS + 1;
	for (int i = 0; i < USERS; i++)
		CHECK_INT(task_spawn(NULL, user, (void *)(intptr_t)i), 0);
	CHECK_INT(task_spawn(NULL, list_again_and_again, NULL), 0);
	CHECK(!command("dht", "rebalance", "start"));
	CHECK(says("dht", "stays-directories 0\n"));
	load.stop = true;
	while (load.running)
		task_sleep_ms(1);
	others_go_on(false);
	CHECK_INT(load.wrong, 0);
	CHECK(says("dht", "state done"));
	at("dht");
	CHECK(all_there(NAMES));
	CHECK_INT(listed(""), IN_ROOT * NAMES);
	CHECK(is_whole());
}

/* Stops it when it has given some directories to others, and nobody has come by their names yet. */
static void stop_at_directories(void)
{
	enum { TURNS = 500 };

	others_go_on(true);
	CHECK(!command("dht", "rebalance", "start"));
	do
		task_yield();
	while (!command("dht", "rebalance", "status") && !strstr(told, "step directories\n") && !strstr(told, "state done"));
	for (int i = 0; i < TURNS; i++)
		task_yield();
	CHECK(!command("dht", "rebalance", "stop"));
	others_go_on(false);
}

static char removed[MANY][64];

static void remove_all(void *arg)
{
	(void)arg;
	for (int i = 0; i < MANY && !load.wrong; i++)
		wants("rmdir", removed[i], tree_rmdir(&tree, removed[i]), 0);
	load.running--;
}

LEAVES(directories_that_are_removed_meanwhile_do_not_hold_it_up)
{
	for (int i = 0; i < MANY; i++) {
		snprintf(removed[i], sizeof(removed[i]), "%s", name_at(LEAVER, path("r%d-", i)));
		CHECK_INT(tree_mkdir(&tree, removed[i], 0755), 0);
	}
	stop_at_directories();
	at("second");
	load.wrong = 0;
	load.running = 1;
	CHECK_INT(task_spawn(NULL, remove_all, NULL), 0);
	task_sleep_ms(100); /* most have gone by then; one whose names are being moved waits for the rebalance to go on */
	CHECK(leaves("dht"));
	while (load.running)
		task_sleep_ms(1);
	CHECK_INT(load.wrong, 0);
	at("dht");
	CHECK_INT(listed(""), 0);
	CHECK(is_whole());
}

/* As by one who had given the pointer to another place, and died before he said so where the directory was. */
static int say_the_root_again(const char *name, const struct gfid *gfid)
{
	uint8_t bytes[PARENT_SIZE];
	char path[96], text[GFID_TEXT];
	struct blob now = { 0 };
	struct parent p;
	int err;

	snprintf(path, sizeof(path), DHT_HIDDEN "/away/%02x/d.%s", gfid->bytes[0], gfid_text(gfid, text));
	at("l3");
	err = tree_getxattr(&tree, path, DHT_PARENT_XATTR, &now);
	if (!err)
		err = parent_decode(now.bytes, now.size, &p);
	free(now.bytes);
	if (err)
		return err;
	parent_encode(&(struct parent){ p.turn + 1, (uint32_t)owner(name), gfid_root }, bytes);
	return tree_setxattr(&tree, path, DHT_PARENT_XATTR, bytes, sizeof(bytes), 0);
}

LEAVES(who_comes_after_one_that_died_ends_what_that_did_of_a_directory)
{
	const char *name = name_at(LEAVER, "d");
	struct attr a;

	CHECK_INT(tree_mkdir(&tree, name, 0755), 0);
	CHECK_INT(tree_getattr(&tree, name, &a), 0);
	CHECK(leaves("dht"));
	CHECK_INT(say_the_root_again(name, &a.gfid), 0);
	CHECK(leaves("mover"));
	at("dht");
	CHECK(is_whole());
}

/* The directory above it can't be read, as if the walk had missed the name because that was renamed. */
LEAVES(what_a_directory_says_itself_is_enough_where_its_name_is_not_found)
{
	static const char garbage[] = "trusted.dht.m.0123456789abcdef";
	char parent[64], dir[64];
	struct attr a;

	snprintf(parent, sizeof(parent), "%s", name_at(0, "p"));
	snprintf(dir, sizeof(dir), "%s", name_at(LEAVER, "d"));
	CHECK_INT(tree_mkdir(&tree, parent, 0755), 0);
	CHECK_INT(tree_mkdir(&tree, dir, 0755), 0);
	CHECK_INT(tree_getattr(&tree, dir, &a), 0);
	CHECK_INT(tree_rename(&tree, dir, path_in(parent, "moved"), 0), 0);
	CHECK(leaves("dht"));
	CHECK_INT(say_the_root_again(dir, &a.gfid), 0);
	at("l0");
	CHECK_INT(tree_setxattr(&tree, parent, garbage, "?", 1, 0), 0);
	at("dht");
	CHECK_INT(tree_getattr(&tree, path_in(parent, "moved"), &a), -EIO);
	CHECK(leaves("mover"));
	at("m0");
	CHECK_INT(tree_removexattr(&tree, parent, garbage), 0);
}

/* As one who died has left it, or one who did not see that the directory was removed. */
static int make_shard_of_nothing(int child, uint32_t home)
{
	char volume[8], xx[64], made[96], name[128], text[GFID_TEXT];
	uint8_t bytes[PARENT_SIZE];
	struct attr a;
	int err;

	snprintf(volume, sizeof(volume), "l%d", child);
	at(volume);
	snprintf(made, sizeof(made), "%s/away/made", DHT_HIDDEN);
	err = tree_mkdir(&tree, made, 0700);
	err = err ? err : tree_getattr(&tree, made, &a);
	if (err)
		return err;
	parent_encode(&(struct parent){ 2, home, a.gfid }, bytes);
	snprintf(xx, sizeof(xx), "%s/away/%02x", DHT_HIDDEN, a.gfid.bytes[0]);
	err = tree_mkdir(&tree, xx, 0700);
	if (err && err != -EEXIST)
		return err;
	snprintf(name, sizeof(name), "%s/d.%s", xx, gfid_text(&a.gfid, text));
	err = tree_setxattr(&tree, made, DHT_PARENT_XATTR, bytes, sizeof(bytes), 0);
	return err ? err : tree_rename(&tree, made, name, 0);
}

LEAVES(nothing_stays_that_was_made_for_a_directory_which_was_removed)
{
	const char *name = name_at(1, "d");

	CHECK_INT(tree_mkdir(&tree, name, 0755), 0); /* away at 1 then */
	CHECK_INT(tree_rename(&tree, name, name_at(0, "e"), 0), 0);
	CHECK_INT(make_shard_of_nothing(1, LEAVER), 0);
	CHECK(leaves("mover"));
	at("dht");
	CHECK(is_whole());
}

/* Of a removal that was cancelled, perhaps. Nobody but an administrator can tell that it is none's. */
/* Else a power cut might bring it back when it was looked. */
LEAVES(what_was_removed_there_is_on_disk_before_it_may_go)
{
	let_fail(LEAVER, "fsync", "EIO");
	CHECK_INT(command("dht", "rebalance", "start"), 0);
	CHECK(says("dht", "is empty can't be synced there"));
	CHECK(strstr(told, "state running"));
	let_work(LEAVER);
	CHECK(says("dht", "state done"));
}

/* Directories that are away at a subvolume. */
static int away_at(int child)
{
	int count = 0;

	at(path("m%d", child));
	for (int i = 0; i < 256; i++) {
		struct dirents list = { 0 };
		struct file *dir = NULL;

		if (tree_opendir(&tree, path(DHT_HIDDEN "/away/%02x", i), &dir))
			continue;
		if (!tree_readdir(&tree, dir, &list))
			for (uint32_t k = 0; k < list.count; k++)
				count += !strncmp(list.entry[k].name, "d.", 2);
		fop_out_clear(FOP_readdir, &list);
		tree_release(&tree, dir);
	}
	at("dht");
	return count;
}

/* Neither who makes it nor the brick has heard that this subvolume leaves; it would be taken out with it. */
LEAVES(nothing_is_put_away_there_after_its_names_have_left_it)
{
	int before;

	CHECK_INT(fill(0, IN_ROOT), 0);
	at("scatters");
	CHECK_INT(tree_mkdir(&tree, "first", 0755), 0); /* it knows the layout before */
	CHECK(leaves("mover"));
	before = away_at(LEAVER);
	at("scatters");
	for (int i = 0; i < MANY; i++) {
		at("scatters");
		CHECK_INT(tree_mkdir(&tree, path("new%d", i), 0755), 0);
		CHECK_INT(put(path("new%d/in", i), "text"), 0);
	}
	CHECK_INT(away_at(LEAVER), before);
	CHECK(away_at(0) > 0 || away_at(1) > 0 || away_at(2) > 0);
	at("dht");
	CHECK(is_whole());
	CHECK(all_there(IN_ROOT));
}

LEAVES(a_shard_that_no_layout_names_is_told_of)
{
	const char *name = name_at(LEAVER, "d");

	CHECK_INT(tree_mkdir(&tree, name, 0755), 0); /* away there then */
	CHECK_INT(tree_rename(&tree, name, name_at(0, "e"), 0), 0);
	CHECK_INT(make_shard_of_nothing(LEAVER, 0), 0);
	CHECK_INT(command("mover", "rebalance", "start"), 0);
	CHECK(says("mover", "which no layout names"));
	CHECK(strstr(told, "stays-directories 1\n") && strstr(told, "state running\n"));
	CHECK(!command("second", "fsck", "repair"));
	CHECK(says("mover", "state done"));
}

LEAVES(that_it_can_not_be_looked_at_is_told)
{
	CHECK_INT(tree_mkdir(&tree, name_at(LEAVER, "d"), 0755), 0);
	directories_fail(true);
	CHECK_INT(command("dht", "rebalance", "start"), 0);
	CHECK(says("dht", "problem the directories that are away at c3 can't be listed"));
	directories_fail(false);
	CHECK(says("dht", "state done"));
}

/* ---- what is renamed ---- */

/* A mark of an intent that nobody knows of (any more). */
static int mark_by_nobody(const char *volume, const char *dir, const char *name)
{
	struct mark m = { .attempt = 1, .subvolume = 0 };
	char xattr[MARK_NAME];
	uint8_t bytes[MARK_SIZE];

	gfid_create(&m.intent);
	mark_encode(&m, bytes);
	at(volume);
	return tree_setxattr(&tree, dir, mark_name(mark_hash(name), xattr), bytes, sizeof(bytes), 0);
}

LEAVES(a_mark_that_was_left_over_does_not_hold_it_up)
{
	char parent[64], dir[64], file[64];

	snprintf(parent, sizeof(parent), "%s", name_at(0, "p"));
	snprintf(dir, sizeof(dir), "%s", name_at(LEAVER, "d"));
	snprintf(file, sizeof(file), "%s", name_at(LEAVER, "f"));
	CHECK_INT(tree_mkdir(&tree, parent, 0755), 0);
	CHECK_INT(tree_mkdir(&tree, dir, 0755), 0);
	CHECK_INT(put(file, "text"), 0);
	CHECK_INT(tree_rename(&tree, dir, path_in(parent, "moved"), 0), 0);
	CHECK_INT(tree_rename(&tree, file, path_in(parent, "file"), 0), 0);
	CHECK_INT(mark_by_nobody("l0", parent, "moved"), 0);
	CHECK_INT(mark_by_nobody("l0", parent, "file"), 0);
	CHECK(leaves("mover"));
	at("dht");
	CHECK(reads(path_in(parent, "file"), "text"));
	CHECK(is_whole());
}

enum { RENAMED = 3, TOPS = 3 };
static char tops[TOPS][64];

/* From one directory to the next, and under other names, without a pause. */
static void renames(void *arg)
{
	int self = (int)(intptr_t)arg;
	char from[96], to[96];

	snprintf(from, sizeof(from), "%s/m%d-0", tops[0], self);
	for (int turn = 1; !load.stop && !load.wrong; turn++) {
		snprintf(to, sizeof(to), "%s/m%d-%d", tops[turn % TOPS], self, turn % 7);
		wants("rename", from, tree_rename(&tree, from, to, 0), 0);
		memcpy(from, to, sizeof(from));
		task_sleep_ms(1); /* one of all such renames goes on at a time */
	}
	load.running--;
}

/* The directories that go, and those above them. */
LEAVES(directories_that_are_renamed_all_the_time_do_not_hold_it_up)
{
	char dir[64];

	for (int i = 0; i < TOPS; i++) {
		snprintf(tops[i], sizeof(tops[i]), "%s", name_at(i, "top"));
		CHECK_INT(tree_mkdir(&tree, tops[i], 0755), 0);
	}
	for (int i = 0; i < RENAMED; i++) {
		snprintf(dir, sizeof(dir), "%s", name_at(LEAVER, path("m%d-", i)));
		CHECK_INT(tree_mkdir(&tree, dir, 0755), 0);
		CHECK_INT(put(path_in(dir, "in"), "text"), 0);
		CHECK_INT(tree_rename(&tree, dir, path_in(tops[0], path("m%d-0", i)), 0), 0);
	}
	others_go_on(true);
	load.stop = false;
	load.wrong = 0;
	load.running = RENAMED;
	at("third"); /* who is as quick to end what others are slow at as they are */
	for (int i = 0; i < RENAMED; i++)
		CHECK_INT(task_spawn(NULL, renames, (void *)(intptr_t)i), 0);
	CHECK(!command("mover", "rebalance", "start"));
	CHECK(says("mover", "stays-directories 0\n"));
	load.stop = true;
	while (load.running)
		task_sleep_ms(1);
	others_go_on(false);
	CHECK_INT(load.wrong, 0);
	CHECK(says("mover", "state done"));
	at("dht");
	CHECK_INT(listed(tops[0]) + listed(tops[1]) + listed(tops[2]), RENAMED);
	CHECK(is_whole());
}

/* ---- listings ---- */

struct reader {
	struct file *dir;
	uint64_t offset;
	char seen[IN_ROOT * NAMES][32];
	int names, twice;
};

static bool was_seen(struct reader *r, const char *name)
{
	for (int i = 0; i < r->names; i++)
		if (!strcmp(r->seen[i], name))
			return true;
	return false;
}

/* 1: that was all. */
static int read_more(struct reader *r, uint32_t size)
{
	struct readdir_in in = { .file = r->dir, .offset = r->offset, .size = size };
	struct readdir_out out = { 0 };
	int err = tree_call(&tree, tree.at, FOP_readdir, &in, &out);
	bool end = !err && (out.entries.end || !out.entries.count);

	for (uint32_t i = 0; !err && i < out.entries.count; i++) {
		const char *name = out.entries.entry[i].name;

		r->offset = out.entries.entry[i].next_offset;
		r->twice += was_seen(r, name);
		if (r->names < IN_ROOT * NAMES && !was_seen(r, name))
			snprintf(r->seen[r->names++], sizeof(r->seen[0]), "%s", name);
	}
	fop_out_clear(FOP_readdir, &out);
	return err ? err : end;
}

LEAVES(a_listing_tells_each_name_once_though_they_go_meanwhile)
{
	static struct reader begun[12], of_dir[NAMES];
	int err;

	CHECK_INT(fill(0, NAMES), 0);
	for (int i = 0; i < 12; i++) {
		begun[i] = (struct reader){ 0 };
		CHECK_INT(tree_opendir(&tree, "", &begun[i].dir), 0);
		for (int k = 0; k < i; k++)
			CHECK_INT(read_more(&begun[i], 300), 0);
	}
	for (int i = 0; i < NAMES; i++) {
		of_dir[i] = (struct reader){ 0 };
		CHECK_INT(tree_opendir(&tree, path("d%d", i), &of_dir[i].dir), 0);
		CHECK(read_more(&of_dir[i], 100) >= 0);
	}
	CHECK(leaves("third"));
	for (int i = 0; i < 12; i++) {
		while (!(err = read_more(&begun[i], 300)))
			;
		CHECK_INT(err, 1);
		CHECK_INT(begun[i].names, IN_ROOT * NAMES);
		CHECK_INT(begun[i].twice, 0);
		tree_release(&tree, begun[i].dir);
	}
	for (int i = 0; i < NAMES; i++) {
		while (!(err = read_more(&of_dir[i], 100)))
			;
		CHECK_INT(err, 1);
		CHECK_INT(of_dir[i].names, 2);
		CHECK_INT(of_dir[i].twice, 0);
		tree_release(&tree, of_dir[i].dir);
	}
}

/* "second" gives it its part again. Who reads may have come to any place by the time when it has gone, and by the time when it has come back. */
LEAVES(a_listing_tells_each_name_once_though_they_go_and_come_back)
{
	enum { BEFORE = 6, BETWEEN = 10 };
	static struct reader begun[BEFORE][BETWEEN];
	int err, missing = 0, twice = 0;

	CHECK_INT(fill(0, NAMES), 0);
	at("second");
	for (int i = 0; i < BEFORE; i++)
		for (int k = 0; k < BETWEEN; k++) {
			begun[i][k] = (struct reader){ 0 };
			CHECK_INT(tree_opendir(&tree, "", &begun[i][k].dir), 0);
			for (int n = 0; n < i; n++)
				CHECK_INT(read_more(&begun[i][k], 300), 0);
		}
	CHECK(leaves("dht"));
	for (int i = 0; i < BEFORE; i++)
		for (int k = 0; k < BETWEEN; k++)
			for (int n = 0; n < 2 * k; n++)
				CHECK(read_more(&begun[i][k], 300) >= 0);
	CHECK(leaves("second"));
	for (int i = 0; i < BEFORE; i++)
		for (int k = 0; k < BETWEEN; k++) {
			while (!(err = read_more(&begun[i][k], 300)))
				;
			CHECK_INT(err, 1);
			missing += IN_ROOT * NAMES - begun[i][k].names;
			twice += begun[i][k].twice;
			tree_release(&tree, begun[i][k].dir);
		}
	CHECK_INT(missing, 0);
	CHECK_INT(twice, 0);
}

/* ---- what stays keeps it ---- */

LEAVES(what_can_not_go_is_kept_and_told)
{
	char name[64], second[64];
	struct file *file = NULL;
	struct setlk_in lock = { .lock = { .kind = LOCK_FLOCK, .type = F_WRLCK, .owner = 1, .end = UINT64_MAX } };
	struct setlk_out out = { 0 };

	snprintf(name, sizeof(name), "%s", name_at(LEAVER, "f"));
	snprintf(second, sizeof(second), "%s", name_at(0, "g"));
	CHECK_INT(put(name, "two names"), 0);
	CHECK_INT(tree_link(&tree, name, second), 0);
	CHECK_INT(tree_open_file(&tree, name, O_RDWR, &file), 0);
	lock.file = file;
	CHECK_INT(tree_call(&tree, tree.at, FOP_setlk, &lock, &out), 0);
	CHECK(!command("dht", "rebalance", "start"));
	CHECK(says("dht", "skipped-locked"));
	CHECK(says("dht", "stays-files 2\n"));
	CHECK(!strstr(told, "state done"));
	CHECK(says("dht", "problem c3 still has the file with the anchor a."));
	CHECK(reads(name, "two names") && reads(second, "two names"));
	lock.lock.type = F_UNLCK;
	CHECK_INT(tree_call(&tree, tree.at, FOP_setlk, &lock, &out), 0);
	tree_release(&tree, file);
	CHECK(says("dht", "state done"));
	CHECK(reads(name, "two names") && reads(second, "two names"));
	CHECK(links(name) == 2 && same_file(name, second));
}

/* A pointer elsewhere than at the leaver, which would be told of if it were looked at: its anchor is not there. */
static int make_pointer_to_nothing(void)
{
	char from[64], to[64], anchor[128], text[2][GFID_TEXT];
	struct blob leads = { 0 };
	struct pointer p;
	struct attr a;
	int err;

	snprintf(from, sizeof(from), "%s", name_at(1, "n"));
	snprintf(to, sizeof(to), "%s", name_at(0, "n"));
	err = put(from, "text") ? -EIO : tree_rename(&tree, from, to, 0);
	at("m0");
	err = err ? err : tree_getattr(&tree, to, &a);
	err = err ? err : tree_getxattr(&tree, to, DHT_POINTER_XATTR, &leads);
	if (!err)
		err = pointer_decode(leads.bytes, leads.size, &p);
	free(leads.bytes);
	at("m1");
	if (!err) {
		snprintf(anchor, sizeof(anchor), DHT_HIDDEN "/away/%02x/a.%s.%s", p.gfid.bytes[0], gfid_text(&a.gfid, text[0]),
			 gfid_text(&p.gfid, text[1]));
		err = tree_unlink(&tree, anchor);
	}
	at("dht");
	return err;
}

/* Rounds that are seen to begin, of `files`; true: in none of them what leads to nothing was looked at. */
static bool passes_it_by(int rounds)
{
	bool inside = false, busy = false;

	for (int i = 0; i < 1000000 && rounds && !busy; i++) {
		command("dht", "rebalance", "status");
		busy = strstr(told, "skipped-busy");
		rounds -= !inside && strstr(told, "step files\n");
		inside = strstr(told, "step files\n");
		task_yield();
	}
	return !rounds && !busy;
}

LEAVES(what_is_open_does_not_have_all_pointers_looked_at_in_each_round)
{
	const char *name = name_at(LEAVER, "open");
	struct file *file = NULL;

	CHECK_INT(put(name, "text"), 0);
	CHECK_INT(tree_open_file(&tree, name, O_RDWR, &file), 0);
	CHECK_INT(make_pointer_to_nothing(), 0);
	others_go_on(true);
	CHECK_INT(command("dht", "rebalance", "start"), 0);
	CHECK(says("dht", "stays-open 1\n"));
	CHECK(passes_it_by(4));
	others_go_on(false);
	tree_release(&tree, file);
	CHECK(says("dht", "state done"));
}

/* ---- another one than the last ---- */

/* "other": a client that has just come, by a specification in which that subvolume has left; "again": by one in which a new brick has its number, "new". */
#define NEW_BRICK(id)                                                                                                                  \
	"volume newm\n type debug/memory\n option limit 256M\nend-volume\nvolume newk\n type features/locks\n option grace-period 0\n" \
	" subvolumes newm\nend-volume\nvolume new\n type features/layout\n option subvolume " id                                       \
	"\n option initial 1\n option initial-from 2\n option reopen-time 0\n subvolumes newk\nend-volume\n"                           \
	"volume gone\n type cluster/absent\nend-volume\n"
#define CLIENT_OF(name, children)                                                                                              \
	"volume " name                                                                                                         \
	"\n type cluster/dht\n option lean 0\n option initial 1\n option initial-from 2\n option sweep-interval 10ms\n"        \
	" subvolumes " children "\nend-volume\n"
#define LEAVES_AT(name, id, rest, back)                                                                                        \
	static void name##_(void *arg);                                                                                        \
	static void name(void **state)                                                                                         \
	{                                                                                                                      \
		(void)state;                                                                                                   \
		more_volumes = OTHER_CLIENTS NEW_BRICK(id) CLIENT_OF("other", rest) CLIENT_OF("again", back);                  \
		run(name##_, " option leaving " id "\n option sweep-interval 10ms\n", "256M");                                 \
		more_volumes = "";                                                                                             \
	}                                                                                                                      \
	static void name##_(void *arg __attribute__((unused)))

/* Under another name, at another subvolume, as who moves names does it: which file it leads to, and by which anchor, stays as it was. */
static int move_pointer(const char *from, const char *to)
{
	struct mknod_in in = { .loc.name = to, .mode = S_IFREG | 0600 };
	struct mknod_out out = { 0 };
	struct blob leads = { 0 };
	struct attr a = { 0 };
	int err;

	at("m2");
	err = tree_getattr(&tree, from, &a);
	if (!err)
		err = tree_getxattr(&tree, from, DHT_POINTER_XATTR, &leads);
	if (!err)
		err = tree_unlink(&tree, from);
	in.gfid = a.gfid;
	at("m0");
	if (!err)
		err = tree_walk(&tree, "", &in.loc.parent);
	if (!err)
		err = tree_call(&tree, tree.at, FOP_mknod, &in, &out);
	if (!err)
		err = tree_setxattr(&tree, to, DHT_POINTER_XATTR, leads.bytes, leads.size, 0);
	fop_out_clear(FOP_mknod, &out);
	inode_unref(in.loc.parent);
	free(leads.bytes);
	return err;
}

/* Of the leaver's, one that goes to that one. */
static const char *name_that_goes_to(int child)
{
	struct layout rest = { .version = 1, .count = LEAVER };
	static char prefix[16];
	const char *name = NULL;

	for (unsigned i = 0; i < LEAVER; i++)
		rest.member[i] = (struct layout_member){ i, 1, 1 };
	for (int i = 0; !i || (int)layout_owner(&rest, layout_key(&gfid_root, name))->id != child; i++) {
		snprintf(prefix, sizeof(prefix), "n%d-", i);
		name = name_at(LEAVER, prefix);
	}
	return name;
}

/* A removal was cancelled, and is begun again: the file was brought there by one name, and another one leads there by what is left of it at the subvolume to which the file
 * is to come, and at which that name is itself by now. */
LEAVES(a_name_beside_the_stub_to_which_it_leads_does_not_hold_it_up)
{
	const char *first = name_that_goes_to(0), *a = name_at(0, "a"), *second = name_at(2, "second"),
		   *beside = name_at(0, "beside");

	CHECK_INT(put(a, "text"), 0);
	CHECK_INT(tree_rename(&tree, a, first, 0), 0);
	CHECK_INT(tree_link(&tree, first, second), 0);
	CHECK_INT(command("second", "bring", first), 0);
	CHECK_INT(holder(first), LEAVER);
	CHECK_INT(move_pointer(second, beside), 0);
	at("third");
	CHECK(same_file(first, beside) && reads(beside, "text") && links(beside) == 2);
	CHECK(leaves("dht"));
	at("dht");
	CHECK(same_file(first, beside) && reads(beside, "text") && links(first) == 2);
	CHECK_INT(holder(first), 0);
	CHECK(is_whole());
}

static bool root_says(const char *value)
{
	struct blob got = { 0 };
	bool yes =
		!tree_getxattr(&tree, "", "user.a", &got) && got.size == strlen(value) && !memcmp(got.bytes, value, got.size);

	free(got.bytes);
	return yes;
}

/* Directories that get other parents: each takes the mark of /moves, where the root's home is by now. */
static void move_directories(int from, int to)
{
	for (int i = from; i + 1 < to; i += 2) {
		CHECK_INT(tree_rename(&tree, path("d%d/sub", i), path("d%d/came", i + 1), 0), 0);
		CHECK_INT(tree_rename(&tree, path("d%d/came", i + 1), path("d%d/sub", i), 0), 0);
	}
}

static void leaves_and_another_comes(void)
{
	CHECK_INT(fill(0, NAMES), 0);
	CHECK_INT(tree_setxattr(&tree, "", "user.a", "one", 3, 0), 0);
	CHECK(leaves("dht"));
	CHECK(all_there(NAMES) && root_says("one"));
	move_directories(0, NAMES);
	CHECK(is_whole());
	at("second"); /* does not know, but learns */
	CHECK(all_there(NAMES) && root_says("one"));
	move_directories(0, NAMES);
	at("other");
	CHECK(all_there(NAMES) && root_says("one"));
	CHECK_INT(fill(NAMES, MANY), 0);
	CHECK_INT(listed(""), IN_ROOT * MANY);
	move_directories(0, MANY);
	CHECK(!command("other", "fsck", "repair") && !strstr(told, "finding ") && !strstr(told, "problem "));
	at("again");
	CHECK(leaves("again")); /* begins, and ends: the new one has its part */
	CHECK(all_there(MANY) && root_says("one"));
	CHECK_INT(listed(""), IN_ROOT * MANY);
	move_directories(0, MANY);
	CHECK(!command("again", "fsck", "repair") && !strstr(told, "finding ") && !strstr(told, "problem "));
}

LEAVES_AT(the_first_leaves_and_another_takes_its_number, "0", "gone c1 c2 c3", "new c1 c2 c3")
{
	leaves_and_another_comes();
}

LEAVES_AT(one_in_the_middle_leaves_and_another_takes_its_number, "1", "c0 gone c2 c3", "c0 new c2 c3")
{
	leaves_and_another_comes();
}

/* ---- what is under way meanwhile ---- */

/* Nobody sweeps. */
#define LEAVES_UNSWEPT(name, id)                                                                                               \
	static void name##_(void *arg);                                                                                        \
	static void name(void **state)                                                                                         \
	{                                                                                                                      \
		(void)state;                                                                                                   \
		run(name##_, " option leaving " id "\n option sweep-interval 1h\n", "256M");                                   \
	}                                                                                                                      \
	static void name##_(void *arg __attribute__((unused)))

static struct {
	char a[64], b[64];
	int err;
	atomic_bool over;
} slow;

static void rename_slowly(void *arg)
{
	enum { OPENED = 24 };

	(void)arg;
	stay_before(OPENED);
	slow.err = tree_rename(&tree, slow.a, slow.b, 0);
	cut_end();
	slow.over = true;
}

/* Its number is what the record has where nothing arrives. */
LEAVES_UNSWEPT(a_rename_among_the_others_does_not_hold_up_the_first, "0")
{
	snprintf(slow.a, sizeof(slow.a), "%s", name_at(1, "a"));
	snprintf(slow.b, sizeof(slow.b), "%s", name_at(2, "b"));
	slow.over = false;
	CHECK_INT(put(slow.a, "text"), 0);
	CHECK_INT(task_spawn(NULL, rename_slowly, NULL), 0);
	while (!stays() && !slow.over)
		task_sleep_ms(1);
	CHECK(!slow.over && census().work > 0);
	CHECK_INT(command("dht", "rebalance", "start"), 0);
	CHECK(says("dht", "step records\n")); /* nothing is left there */
	stay_no_more();
	while (!slow.over)
		task_sleep_ms(1);
	CHECK_INT(slow.err, 0);
	CHECK(reads(slow.b, "text") && !links(slow.a));
	CHECK(says("dht", "state done"));
}

static struct {
	struct inode *dir; /* of `work`, at subvolume 1 */
	char name[2][64];
	atomic_bool stop, over;
} flips;

static bool find_record_in(const char *work)
{
	struct dirents list = { 0 };
	struct file *dir = NULL;
	bool found = false;

	if (tree_opendir(&tree, work, &dir))
		return false;
	if (!tree_readdir(&tree, dir, &list))
		for (uint32_t i = 0; i < list.count; i++)
			if (list.entry[i].name[0] == 'p' && list.entry[i].name[1] == '.') {
				snprintf(flips.name[0], sizeof(flips.name[0]), "%s", list.entry[i].name);
				found = true;
			}
	fop_out_clear(FOP_readdir, &list);
	tree_release(&tree, dir);
	return found;
}

static bool find_record(void)
{
	char work[64];
	bool found = false;

	at("m1");
	for (unsigned k = 0; k < 16 && !found; k++) {
		snprintf(work, sizeof(work), DHT_HIDDEN "/work/%x", k);
		found = find_record_in(work);
	}
	found = found && !tree_walk(&tree, work, &flips.dir);
	at("dht");
	snprintf(flips.name[1], sizeof(flips.name[1]), "%.*s9", (int)strlen(flips.name[0]) - 1, flips.name[0]);
	return found;
}

/* Who dies when the record is written, and nothing else is. */
static bool record_that_leads_to(int child)
{
	const char *a = name_at(1, "a"), *b = name_at(child, "b");
	unsigned sent = 1;
	bool found = false;

	if (put(a, "text"))
		return false;
	for (unsigned messages = 1; !found && sent >= messages; messages++) {
		cut_after(messages, false);
		tree_rename(&tree, a, b, 0);
		sent = cut_end();
		found = find_record();
	}
	return found;
}

static void flip_on_and_on(void *arg)
{
	struct xlator *x = tree_find(&tree, "m1");
	struct request rq;

	(void)arg;
	request_init(&rq, x->graph, 0);
	for (unsigned i = 0; !flips.stop; i++) {
		struct rename_in in = { .from = { .parent = flips.dir, .name = flips.name[i % 2] },
					.to = { .parent = flips.dir, .name = flips.name[(i + 1) % 2] } };
		struct rename_out out = { 0 };

		if (rename_on(&rq, x, &in, &out))
			failures++;
		task_yield();
	}
	request_finish(&rq);
	flips.over = true;
}

static bool is_seen(void)
{
	bool missed = false, seen = false;

	failures += command("dht", "rebalance", "start") != 0;
	for (int i = 0; i < 20000 && !missed && !seen && !failures; i++) {
		failures += command("dht", "rebalance", "status") != 0;
		missed = strstr(told, "step records\n") || strstr(told, "state done");
		seen = strstr(told, "stays-records 1\n");
		task_sleep_ms(1);
	}
	failures += command("dht", "rebalance", "stop") != 0;
	return seen;
}

/* Else nobody could end it when that has left: what it names would not be there. */
LEAVES_UNSWEPT(a_record_that_goes_on_meanwhile_is_seen, "3")
{
	enum { ROUNDS = 20 };

	CHECK(record_that_leads_to(LEAVER));
	others_go_on(true);
	flips.stop = flips.over = false;
	CHECK_INT(task_spawn(NULL, flip_on_and_on, NULL), 0);
	for (int i = 0; i < ROUNDS && !failures; i++)
		CHECK(is_seen());
	flips.stop = true;
	while (!flips.over)
		task_sleep_ms(1);
	others_go_on(false);
	inode_unref(flips.dir);
}

static int mark_moves(const char *brick)
{
	struct xlator *x = tree_find(&tree, brick);
	struct mark m = { .attempt = 1, .subvolume = 1 };
	struct place p = { .attempt = 1 };
	char xattr[MARK_NAME];
	uint8_t bytes[MARK_SIZE];
	struct inode *root = inode_get(x->inodes, &gfid_root, S_IFDIR);
	struct setxattr_in in = { .inode = root,
				  .name = mark_name(mark_hash(MARK_MOVES), xattr),
				  .value = { MARK_SIZE, bytes } };
	struct setxattr_out out = { 0 };
	struct request rq;
	int err;

	gfid_create(&m.intent);
	p.intent = m.intent;
	mark_encode(&m, bytes);
	request_init(&rq, x->graph, 0);
	err = place_attach(&rq, &p);
	err = err ? err : setxattr_on(&rq, x, &in, &out);
	request_finish(&rq);
	inode_unref(root);
	return err;
}

/* So nobody gives a directory another parent by the home that was, while others do so by the one that is. */
LEAVES_AT(moves_are_marked_at_the_home_of_the_root_only, "0", "gone c1 c2 c3", "new c1 c2 c3")
{
	CHECK_INT(mark_moves("l1"), -ELAYOUT);
	CHECK_INT(mark_moves("l0"), 0);
	CHECK(leaves("dht")); /* that mark is of nobody, and goes first */
	CHECK_INT(mark_moves("l0"), -ELAYOUT);
	CHECK_INT(mark_moves("l2"), -ELAYOUT);
	CHECK_INT(mark_moves("l1"), 0);
}

/* Of a directory that has no layout there (yet): by a version of it that is said, or 0. */
static int user_xattr(enum fop fop, struct inode *dir, uint64_t version)
{
	struct xlator *x = tree_find(&tree, "l0");
	struct place p = { .directory = { dir->gfid }, .version = { version } };
	struct setxattr_in set = { .inode = dir, .name = (char *)"user.a", .value = { 3, (char *)"two" } };
	struct getxattr_in get = { .inode = dir, .name = (char *)"user.a" };
	struct setxattr_out done = { 0 };
	struct getxattr_out got = { 0 };
	struct request rq;
	int err;

	request_init(&rq, x->graph, 0);
	err = place_attach(&rq, &p);
	err = err ? err : fop == FOP_setxattr ? setxattr_on(&rq, x, &set, &done) : getxattr_on(&rq, x, &get, &got);
	request_finish(&rq);
	fop_out_clear(FOP_getxattr, &got);
	return err;
}

/* Else what is set there would be lost: who moves the home copies those of the one that was, and writes the layout then. */
LEAVES(own_xattrs_are_not_set_where_the_home_is_to_be_before_they_were_copied)
{
	char dir[64];
	struct attr a;
	struct inode *inode;

	snprintf(dir, sizeof(dir), "%s", name_at(0, "d"));
	CHECK_INT(tree_mkdir(&tree, dir, 0755), 0);
	CHECK_INT(tree_getattr(&tree, dir, &a), 0);
	inode = inode_get(tree_find(&tree, "l0")->inodes, &a.gfid, S_IFDIR);
	CHECK_INT(user_xattr(FOP_setxattr, inode, 1), -ELAYOUT);
	CHECK_INT(user_xattr(FOP_getxattr, inode, 1), -ELAYOUT);
	CHECK_INT(user_xattr(FOP_setxattr, inode, 0), 0);
	CHECK_INT(user_xattr(FOP_getxattr, inode, 0), 0);
	inode_unref(inode);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_it_has_goes_to_the_others),
		cmocka_unit_test(all_is_used_while_it_goes),
		cmocka_unit_test(directories_that_are_removed_meanwhile_do_not_hold_it_up),
		cmocka_unit_test(who_comes_after_one_that_died_ends_what_that_did_of_a_directory),
		cmocka_unit_test(what_a_directory_says_itself_is_enough_where_its_name_is_not_found),
		cmocka_unit_test(nothing_stays_that_was_made_for_a_directory_which_was_removed),
		cmocka_unit_test(what_was_removed_there_is_on_disk_before_it_may_go),
		cmocka_unit_test(nothing_is_put_away_there_after_its_names_have_left_it),
		cmocka_unit_test(a_shard_that_no_layout_names_is_told_of),
		cmocka_unit_test(that_it_can_not_be_looked_at_is_told),
		cmocka_unit_test(a_mark_that_was_left_over_does_not_hold_it_up),
		cmocka_unit_test(directories_that_are_renamed_all_the_time_do_not_hold_it_up),
		cmocka_unit_test(a_listing_tells_each_name_once_though_they_go_meanwhile),
		cmocka_unit_test(a_listing_tells_each_name_once_though_they_go_and_come_back),
		cmocka_unit_test(a_name_beside_the_stub_to_which_it_leads_does_not_hold_it_up),
		cmocka_unit_test(what_can_not_go_is_kept_and_told),
		cmocka_unit_test(what_is_open_does_not_have_all_pointers_looked_at_in_each_round),
		cmocka_unit_test(the_first_leaves_and_another_takes_its_number),
		cmocka_unit_test(one_in_the_middle_leaves_and_another_takes_its_number),
		cmocka_unit_test(a_rename_among_the_others_does_not_hold_up_the_first),
		cmocka_unit_test(a_record_that_goes_on_meanwhile_is_seen),
		cmocka_unit_test(moves_are_marked_at_the_home_of_the_root_only),
		cmocka_unit_test(own_xattrs_are_not_set_where_the_home_is_to_be_before_they_were_copied),
	};

	if (getenv("LEAVE_TEST")) /* a pattern of names */
		cmocka_set_test_filter(getenv("LEAVE_TEST"));
	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
