/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: files that are elsewhere than their names, and what is left of them by one who fails half way. */
#include "dht-tree.h"

#include <stdatomic.h>

#include "born.h"
#include "place.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE	 2
#endif
#define SWEEPS "option sweep-interval 10ms"

/* ---- links ---- */

PROPERTY(a_link_to_what_is_elsewhere_is_a_name_like_others)
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b"), *c = name_at(2, "c");

	CHECK_INT(put(a, "text"), 0);
	CHECK_INT(tree_link(&tree, a, b), 0);
	CHECK_INT(tree_link(&tree, b, c), 0);
	CHECK_INT(tree_link(&tree, a, c), -EEXIST);
	CHECK_INT(census().anchors, 2);
	CHECK_INT(census().work, 0);
	CHECK(same_file(a, b) && same_file(a, c));
	CHECK_INT(links(b), 3);
	CHECK(reads(b, "text"));
	CHECK_INT(put(c, "TEXT"), 0); /* opened, as it is there */
	CHECK(reads(a, "TEXT"));
	CHECK_INT(tree_create(&tree, c, O_RDWR | O_EXCL, 0644, NULL), -EEXIST);
	CHECK_INT(tree_mkdir(&tree, b, 0755), -EEXIST);
	CHECK_INT(tree_unlink(&tree, a), 0);
	CHECK_INT(links(c), 2);
	CHECK(reads(b, "TEXT"));
	CHECK_INT(tree_unlink(&tree, b), 0);
	CHECK_INT(tree_unlink(&tree, b), -ENOENT);
	CHECK_INT(links(c), 1);
	CHECK_INT(tree_unlink(&tree, c), 0);
	CHECK_INT(census().anchors, 0);
	CHECK_INT(census().work, 0);
	CHECK_INT(tree_getattr(&tree, c, &(struct attr){ 0 }), -ENOENT);
}

PROPERTY(links_and_fifos_have_names_elsewhere_and_directories_have_none)
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b"), *c = name_at(0, "c"), *d = name_at(3, "d");
	char *target = NULL;
	struct attr of;

	CHECK_INT(tree_symlink(&tree, "where it leads", a), 0);
	CHECK_INT(tree_link(&tree, a, b), 0);
	CHECK_INT(tree_readlink(&tree, b, &target), 0);
	CHECK(!strcmp(target, "where it leads"));
	free(target);
	CHECK_INT(tree_mknod(&tree, c, S_IFIFO | 0644, 0), 0);
	CHECK_INT(tree_link(&tree, c, d), 0);
	CHECK_INT(tree_getattr(&tree, d, &of), 0);
	CHECK(S_ISFIFO(of.mode) && of.nlink == 2);
	CHECK_INT(tree_unlink(&tree, d), 0);
	CHECK_INT(tree_unlink(&tree, b), 0);
	CHECK_INT(census().anchors, 0);
}

static int list_root(struct readdir_out *out)
{
	struct readdir_in in = { .size = 1 << 16, .flags = READDIR_PLUS };
	int err = tree_opendir(&tree, "", &in.file);

	for (int i = 0; !err && i < SUBVOLUMES && out->entries.count == 0; i++)
		err = tree_call(&tree, tree.at, FOP_readdir, &in, out);
	tree_release(&tree, in.file);
	return err;
}

PROPERTY(a_listing_tells_of_pointers_what_they_lead_to)
{
	const char *a = name_at(1, "a"), *b = name_at(0, "b");
	struct readdir_out out = { 0 };
	struct attr of;

	CHECK_INT(put(a, "text"), 0);
	CHECK_INT(tree_link(&tree, a, b), 0);
	CHECK_INT(tree_getattr(&tree, a, &of), 0);
	CHECK_INT(list_root(&out), 0);
	CHECK_INT(out.entries.count, 1); /* the first subvolume's: the pointer */
	CHECK(!strcmp(out.entries.entry->name, b));
	CHECK(S_ISREG(out.entries.entry->type) && gfid_equal(&out.entries.entry->gfid, &of.gfid));
	CHECK(!out.entries.entry->inode && !out.entries.entry->attr.mode);
	fop_out_clear(FOP_readdir, &out);
	CHECK_INT(tree_getattr(&tree, "", &of), 0);
	CHECK_INT(of.nlink, 2); /* .stratus.dht is no directory of the mount's */
}

/* ---- rename ---- */

PROPERTY(rename_takes_pointers_along_and_replaces_them)
{
	enum { MANY = 1000 };
	const char *a = name_at(0, "a"), *b = name_at(1, "b"), *c = name_at(1, "c"), *d = name_at(1, "d");

	CHECK_INT(put(a, "text"), 0);
	CHECK_INT(tree_link(&tree, a, b), 0);
	cut_after(MANY, false);
	CHECK_INT(tree_rename(&tree, b, c, 0), 0); /* of one: refused, a look, the rename, and the object's ctime */
	CHECK_INT(cut_end(), 4);
	CHECK(reads(c, "text"));
	CHECK_INT(tree_getattr(&tree, b, &(struct attr){ 0 }), -ENOENT);
	CHECK_INT(put(d, "other"), 0);
	CHECK_INT(tree_rename(&tree, d, c, RENAME_NOREPLACE), -EEXIST);
	CHECK_INT(tree_rename(&tree, d, c, RENAME_EXCHANGE), 0);
	CHECK(reads(c, "other") && reads(d, "text"));
	CHECK_INT(tree_rename(&tree, c, d, 0), 0); /* over one */
	CHECK(reads(d, "other"));
	CHECK_INT(links(a), 1);
	CHECK_INT(census().anchors, 0);
	CHECK_INT(tree_link(&tree, a, b), 0);
	CHECK_INT(tree_link(&tree, a, c), 0);
	CHECK_INT(tree_rename(&tree, b, c, 0), 0); /* two names of one file: both stay */
	CHECK_INT(links(a), 3);
	CHECK_INT(tree_rename(&tree, d, b, 0), 0);
	CHECK_INT(tree_unlink(&tree, c), 0);
	CHECK_INT(links(a), 1);
	CHECK_INT(census().anchors, 0);
	CHECK_INT(census().work, 0);
}

/* ---- room ---- */

/* A name that belongs to a brick with no room left. */
static const char *fill(int child, unsigned percent)
{
	const char *name = name_at(child, "filler");
	static char bytes[1 << 20];
	struct file *file = NULL;

	if (tree_create(&tree, name, O_RDWR, 0644, &file))
		return NULL;
	if (tree_write(&tree, file, 0, bytes, sizeof(bytes) / 100 * percent) < 0)
		name = NULL;
	tree_release(&tree, file);
	return name;
}

/* What is known of the room is some seconds old at most. */
static bool becomes_known(const char *probe)
{
	bool known = false;

	for (int i = 0; i < tries_of(10) && !known; i++) {
		if (tree_create(&tree, probe, O_RDWR | O_EXCL, 0644, NULL))
			return false;
		known = census().anchors;
		if (tree_unlink(&tree, probe))
			return false;
		task_sleep_ms(10);
	}
	return known;
}

PROPERTY_WITH(new_files_go_where_room_is, "option min-free 10", "1M")
{
	const char *name;
	char path[64];
	int elsewhere = 0;

	CHECK(fill(2, 95));
	CHECK(becomes_known(name_at(2, "probe")));
	CHECK_INT(tree_mkdir(&tree, name_at(2, "d"), 0755), 0);
	for (int i = 0; i < 16; i++) {
		snprintf(path, sizeof(path), "%s/f%d", name_at(2, "d"), i);
		CHECK_INT(tree_create(&tree, path, O_RDWR | O_EXCL, 0640, NULL), 0);
		CHECK_INT(tree_create(&tree, path, O_RDWR | O_EXCL, 0640, NULL), -EEXIST);
		CHECK_INT(put(path, "text"), 0);
		CHECK(reads(path, "text"));
		CHECK_INT(links(path), 1);
	}
	elsewhere = (int)census().anchors;
	CHECK_INT(elsewhere, 16);
	CHECK_INT(census().work, 0);
	for (int i = 0; i < 16; i++) {
		snprintf(path, sizeof(path), "%s/f%d", name_at(2, "d"), i);
		CHECK_INT(tree_unlink(&tree, path), 0);
	}
	CHECK_INT(census().anchors, 0);
	CHECK_INT(tree_rmdir(&tree, name_at(2, "d")), 0);
	name = name_at(2, "node");
	CHECK_INT(tree_mknod(&tree, name, S_IFREG | 0600, 0), 0);
	CHECK_INT(census().anchors, 1);
	CHECK_INT(tree_create(&tree, name_at(1, "f"), O_RDWR, 0644, NULL), 0);
	CHECK_INT(census().anchors, 1); /* where there is room, there it is */
}

PROPERTY_WITH(a_brick_that_is_full_all_at_once_is_done_without, "", "1M")
{
	const char *name = name_at(3, "f");

	let_fail(3, "create", "ENOSPC");
	CHECK_INT(put(name, "text"), 0);
	let_work(3);
	CHECK_INT(census().anchors, 1);
	CHECK(reads(name, "text"));
}

/* And what is made on the way is not. */
PROPERTY_WITH(what_is_made_elsewhere_is_born_with_what_was_asked_for, "", "1M")
{
	const char *name = name_at(3, "f");
	struct create_in in = { .loc = { .name = name }, .flags = O_RDWR | O_EXCL, .mode = 0644 };
	struct create_out out = { 0 };
	struct blob value = { 0 };
	struct request rq;

	in.loc.parent = inode_get(tree.at->inodes, &gfid_root, S_IFDIR);
	gfid_create(&in.gfid);
	let_fail(3, "create", "ENOSPC");
	request_init(&rq, tree.graph, 0);
	CHECK_INT(born_attach(&rq, &(struct born_xattr){ "user.birth", "here", 4 }, 1), 0);
	CHECK_INT(fop_call(&rq, tree.at, FOP_create, &in, &out), 0);
	request_finish(&rq);
	let_work(3);
	CHECK_INT(census().anchors, 1);
	CHECK_INT(tree_getxattr(&tree, name, "user.birth", &value), 0);
	CHECK_INT(value.size, 4);
	free(value.bytes);
	for (int i = 0; i < SUBVOLUMES; i++) {
		char volume[8];

		snprintf(volume, sizeof(volume), "m%d", i);
		at(volume);
		CHECK(tree_getxattr(&tree, DHT_HIDDEN, "user.birth", &value) < 0);
	}
	at("dht");
	fop_out_clear(FOP_create, &out);
	inode_unref(in.loc.parent);
}

PROPERTY_WITH(without_min_free_a_full_brick_says_so, "option min-free 0", "1M")
{
	CHECK(fill(2, 99));
	let_fail(2, "create", "ENOSPC");
	CHECK_INT(tree_create(&tree, name_at(2, "f"), O_RDWR, 0644, NULL), -ENOSPC);
	let_work(2);
	CHECK_INT(census().anchors, 0);
}

PROPERTY_WITH(when_all_are_full_files_are_where_their_names_are, "option min-free 50", "1M")
{
	for (int i = 0; i < SUBVOLUMES; i++)
		CHECK(fill(i, 60));
	CHECK_INT(tree_create(&tree, name_at(2, "f"), O_RDWR, 0644, NULL), 0);
	CHECK_INT(census().anchors, 0);
}

/* ---- half way ---- */

static const char *const fops[] = { "lookup", "getattr", "mknod", "mkdir", "create", "link", "rename", "unlink", "symlink" };
enum { FOPS_HERE = sizeof(fops) / sizeof(*fops) };
static const char *const errors[] = { "EIO", "ENOSPC", "EACCES" };

static int failing; /* the subvolume that will */

/* From now on the first such request fails. */
static void arm(void)
{
	set_option(failing, "count", "1");
	set_option(failing, "percent", "100");
}

/* Calls fn with each of these fops to fail at the one or the other subvolume, once, in each of three ways. */
static void each_failure(void (*fn)(void))
{
	for (failing = 0; failing < 2; failing++)
		for (int f = 0; f < FOPS_HERE; f++)
			for (unsigned e = 0; e < 3; e++) {
				set_option(failing, "fops", fops[f]);
				set_option(failing, "errno", errors[e]);
				fn();
				let_work(failing);
				if (!failures)
					continue;
				fprintf(stderr, "with %s at %d: %s\n", fops[f], failing, errors[e]);
				return;
			}
}

static void try_link(void)
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b");
	int err;

	CHECK_INT(put(a, "text"), 0);
	arm();
	err = tree_link(&tree, a, b);
	let_work(failing);
	CHECK(settles(!tree_getattr(&tree, b, &(struct attr){ 0 })));
	CHECK(err || same_file(a, b));
	CHECK_INT(links(a), same_file(a, b) ? 2 : 1);
	tree_unlink(&tree, a);
	tree_unlink(&tree, b);
	CHECK(settles(0));
}

PROPERTY_WITH(a_link_that_fails_half_way_leaves_nothing, SWEEPS, "1M")
{
	each_failure(try_link);
}

/* ---- a sweep takes what is being made ---- */

/* Clients of subvolume 1 and 0, which may be held up: of who links, where the name is; of who sweeps, where the file is, and where it lists. */
#define HELD                                                                                                                         \
	"volume names\n type debug/hold\n option fops rename\n subvolumes e1\nend-volume\n"                                          \
	"volume slow\n type cluster/dht\n option lean 0\n option initial 4\n option sweep-interval 1h\n subvolumes e0 names e2 e3\n" \
	"end-volume\n"                                                                                                               \
	"volume files\n type debug/hold\n option fops unlink\n subvolumes e0\nend-volume\n"                                          \
	"volume lists\n type debug/hold\n subvolumes e1\nend-volume\n"                                                               \
	"volume sweeper\n type cluster/dht\n option lean 0\n option initial 4\n option sweep-interval 10ms\n"                        \
	" subvolumes files lists e2 e3\nend-volume\n"

static struct linking {
	const char *a, *b;
	int err;
	atomic_bool over;
} linking;

static void link_them(void *arg)
{
	struct linking *l = arg;

	l->err = tree_link(&tree, l->a, l->b);
	l->over = true;
}

static void sweep_is_waited_for_(void *arg __attribute__((unused)))
{
	enum { LONG_MS = 1500 };
	linking = (struct linking){ .a = name_at(0, "a"), .b = name_at(1, "b") };
	CHECK_INT(put(linking.a, "text"), 0);
	at("slow");
	CHECK_INT(task_spawn(task_shard(task_self()), link_them, &linking), 0);
	CHECK(hold_has("names", "rename"));
	CHECK(hold_has("files", "unlink"));    /* the sweeper has taken it for what somebody left who died */
	hold_tell("lists", "hold", "readdir"); /* it takes nothing more */
	hold_tell("names", "hold", "none");
	hold_tell("names", "release", "all");
	task_sleep_ms(LONG_MS);
	CHECK(!linking.over);
	hold_tell("files", "hold", "none");
	hold_tell("files", "release", "all");
	for (int tries = 0; tries < 2000 && !linking.over; tries++)
		task_sleep_ms(5);
	CHECK(linking.over);
	CHECK_INT(linking.err, 0);
	at("dht");
	CHECK(same_file(linking.a, linking.b));
	CHECK_INT(links(linking.a), 2);
	CHECK(settles(1));
	hold_tell("lists", "hold", "none");
	hold_tell("lists", "release", "all");
}

static void a_sweep_that_takes_what_is_being_made_is_waited_for(void **state)
{
	(void)state;
	more_volumes = HELD;
	run(sweep_is_waited_for_, "option sweep-interval 1h", "1M");
	more_volumes = "";
}

/* Who is slower than sweeps are, for a while: each time that he comes to give his pointer its name it has been taken. */
static void sweeps_are_faster_(void *arg __attribute__((unused)))
{
	enum { TIMES = 20 }; /* he gives each up by another rename, which is held as well */

	linking = (struct linking){ .a = name_at(0, "a"), .b = name_at(1, "b") };
	CHECK_INT(put(linking.a, "text"), 0);
	hold_tell("files", "hold", "none");
	at("slow");
	CHECK_INT(task_spawn(task_shard(task_self()), link_them, &linking), 0);
	for (int i = 0; i < TIMES; i++) {
		CHECK(hold_has("names", "rename"));
		CHECK(settles(0));
		hold_tell("names", "release", "all");
	}
	CHECK(!linking.over);
	hold_tell("names", "hold", "none");
	hold_tell("names", "release", "all");
	for (int tries = 0; tries < tries_of(5) && !linking.over; tries++)
		task_sleep_ms(5);
	CHECK(linking.over);
	CHECK_INT(linking.err, 0);
	CHECK(same_file(linking.a, linking.b) && links(linking.a) == 2);
	CHECK(settles(1));
}

static void who_is_slower_than_sweeps_makes_the_name_in_the_end(void **state)
{
	(void)state;
	more_volumes = HELD;
	run(sweeps_are_faster_, "option sweep-interval 10ms", "1M");
	more_volumes = "";
}

static void try_unlink(void)
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b");
	int err;

	CHECK_INT(put(a, "text"), 0);
	CHECK_INT(tree_link(&tree, a, b), 0);
	arm();
	err = tree_unlink(&tree, b);
	let_work(failing);
	CHECK(!err == (tree_getattr(&tree, b, &(struct attr){ 0 }) == -ENOENT));
	CHECK(settles(err != 0));
	CHECK_INT(links(a), err ? 2 : 1);
	CHECK(reads(a, "text"));
	tree_unlink(&tree, a);
	tree_unlink(&tree, b);
	CHECK(settles(0));
}

PROPERTY_WITH(an_unlink_that_fails_half_way_is_ended, SWEEPS, "1M")
{
	each_failure(try_unlink);
}

static void try_rename(void)
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b"), *c = name_at(1, "c");
	int err;

	CHECK_INT(put(a, "text"), 0);
	CHECK_INT(tree_link(&tree, a, b), 0);
	CHECK_INT(put(c, "other"), 0);
	arm();
	err = tree_rename(&tree, c, b, 0);
	let_work(failing);
	CHECK(reads(b, err ? "text" : "other"));
	CHECK_INT(tree_getattr(&tree, c, &(struct attr){ 0 }), err ? 0 : -ENOENT);
	CHECK(settles(err != 0));
	CHECK_INT(links(a), err ? 2 : 1);
	tree_unlink(&tree, a);
	tree_unlink(&tree, b);
	tree_unlink(&tree, c);
	CHECK(settles(0));
}

PROPERTY_WITH(a_rename_over_a_pointer_that_fails_half_way_is_ended, SWEEPS, "1M")
{
	each_failure(try_rename);
}

/* Somebody else has begun it, and died: no client of this process knows of it. */
PROPERTY_WITH(what_a_dead_client_began_is_ended, SWEEPS, "1M")
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b");

	CHECK_INT(put(a, "text"), 0);
	let_fail(0, "unlink", "EIO"); /* the anchor stays */
	CHECK_INT(tree_link(&tree, a, b), 0);
	CHECK_INT(tree_unlink(&tree, b), 0);
	CHECK_INT(links(a), 2);
	CHECK_INT(census().work, 1);
	let_work(0);
	CHECK(settles(0));
	CHECK_INT(links(a), 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_link_to_what_is_elsewhere_is_a_name_like_others),
		cmocka_unit_test(links_and_fifos_have_names_elsewhere_and_directories_have_none),
		cmocka_unit_test(a_listing_tells_of_pointers_what_they_lead_to),
		cmocka_unit_test(rename_takes_pointers_along_and_replaces_them),
		cmocka_unit_test(new_files_go_where_room_is),
		cmocka_unit_test(a_brick_that_is_full_all_at_once_is_done_without),
		cmocka_unit_test(what_is_made_elsewhere_is_born_with_what_was_asked_for),
		cmocka_unit_test(without_min_free_a_full_brick_says_so),
		cmocka_unit_test(when_all_are_full_files_are_where_their_names_are),
		cmocka_unit_test(a_link_that_fails_half_way_leaves_nothing),
		cmocka_unit_test(a_sweep_that_takes_what_is_being_made_is_waited_for),
		cmocka_unit_test(who_is_slower_than_sweeps_makes_the_name_in_the_end),
		cmocka_unit_test(an_unlink_that_fails_half_way_is_ended),
		cmocka_unit_test(a_rename_over_a_pointer_that_fails_half_way_is_ended),
		cmocka_unit_test(what_a_dead_client_began_is_ended),
	};

	if (getenv("AWAY_TEST")) /* a pattern of names */
		cmocka_set_test_filter(getenv("AWAY_TEST"));
	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
