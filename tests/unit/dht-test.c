/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht over bricks in memory: where names are, what is refused, the root's attributes and listing, and a subvolume that fails. */
#include "dht-tree.h"

#include <stdatomic.h>

#include "place.h"

PROPERTY(names_of_the_root_are_at_their_owners_and_what_is_below_with_them)
{
	char path[64];
	int top;

	for (int i = 0; i < 64; i++) {
		snprintf(path, sizeof(path), "d%d", i);
		CHECK_INT(tree_mkdir(&tree, path, 0755), 0);
		CHECK_INT(holder(path), owner(path));
		snprintf(path, sizeof(path), "d%d/f", i);
		CHECK_INT(tree_create(&tree, path, O_RDWR, 0644, NULL), 0);
		snprintf(path, sizeof(path), "d%d/d", i);
		CHECK_INT(tree_mkdir(&tree, path, 0755), 0);
		snprintf(path, sizeof(path), "d%d", i);
		CHECK_INT(holder(path), owner(path));
		top = owner(path);
		snprintf(path, sizeof(path), "d%d/f", i);
		CHECK_INT(holder(path), top);
	}
	CHECK_INT(tree_unlink(&tree, "d7/f"), 0);
	CHECK_INT(tree_rmdir(&tree, "d7/d"), 0);
	CHECK_INT(tree_rmdir(&tree, "d7"), 0);
	CHECK_INT(holder("d7"), -1);
}

PROPERTY(what_is_written_is_read)
{
	struct file *file;
	struct buffer *data = NULL;
	char name[16];
	size_t size;

	for (int i = 0; i < 16; i++) {
		snprintf(name, sizeof(name), "file%d", i);
		CHECK_INT(tree_create(&tree, name, O_RDWR, 0644, &file), 0);
		CHECK_INT(tree_write(&tree, file, 0, name, strlen(name)), 0);
		tree_release(&tree, file);
		CHECK_INT(tree_open_file(&tree, name, O_RDONLY, &file), 0);
		CHECK_INT(tree_read(&tree, file, 0, 16, &data), 0);
		buffer_bytes(data, &size);
		CHECK_INT(size, strlen(name));
		buffer_unref(data);
		tree_release(&tree, file);
	}
}

PROPERTY(a_name_under_which_a_file_is_written_first_is_where_it_will_be)
{
	static const char *const forms[] = { ".%s.Ab12Cd", "%s.tmp", "%s~", "%s.new", "%s.part", "%s.lock" };
	char name[32], first[64];

	for (int i = 0; i < 24; i++) {
		snprintf(name, sizeof(name), "report-%d", i);
		snprintf(first, sizeof(first), forms[i % 6], name);
		CHECK_INT(tree_create(&tree, first, O_RDWR, 0644, NULL), 0);
		CHECK_INT(tree_rename(&tree, first, name, 0), 0);
		CHECK_INT(holder(name), owner(name));
	}
}

PROPERTY(what_is_over_several_subvolumes_is_refused)
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b"), *c = name_at(0, "c");
	struct copy_range_in in = { .length = 10 };
	struct copy_range_out out = { 0 };
	char inside[64];

	CHECK_INT(tree_mkdir(&tree, a, 0755), 0);
	snprintf(inside, sizeof(inside), "%s/f", a);
	CHECK_INT(tree_create(&tree, inside, O_RDWR, 0644, &in.from), 0);
	CHECK_INT(tree_rename(&tree, inside, c, 0), 0); /* at the same */
	CHECK_INT(tree_link(&tree, c, inside), 0);
	CHECK_INT(tree_rename(&tree, c, inside, RENAME_EXCHANGE), 0);
	CHECK_INT(tree_create(&tree, b, O_RDWR, 0644, &in.to), 0);
	CHECK_INT(tree_call(&tree, tree.at, FOP_copy_range, &in, &out), -EXDEV);
	tree_release(&tree, in.from);
	tree_release(&tree, in.to);
}

/* ---- the root's attributes ---- */

static int chmod_root(mode_t mode)
{
	struct setattr set = { .valid = SET_MODE, .mode = mode };

	return tree_setattr(&tree, "", &set);
}

static unsigned mode_at(int child)
{
	char volume[8];
	struct attr a = { 0 };

	snprintf(volume, sizeof(volume), "m%d", child);
	at(volume);
	tree_getattr(&tree, "", &a);
	at("dht");
	return a.mode & 07777;
}

PROPERTY(the_root_has_one_mode_everywhere)
{
	CHECK_INT(chmod_root(0751), 0);
	for (int i = 0; i < SUBVOLUMES; i++)
		CHECK_INT(mode_at(i), 0751);
	let_fail(2, "setattr", "EIO");
	CHECK_INT(chmod_root(0700), -EIO);
	for (int i = 0; i < SUBVOLUMES; i++)
		CHECK_INT(mode_at(i), 0751);
}

PROPERTY(the_roots_acl_is_everywhere_and_other_xattrs_at_home)
{
	static const uint8_t acl[] = { 2, 0, 0,	  0,   1,   0,	 7,  0, 255, 255, 255, 255, 4,	 0,
				       5, 0, 255, 255, 255, 255, 32, 0, 5,   0,	  255, 255, 255, 255 };
	struct blob value = { 0 };
	char volume[8];

	CHECK_INT(tree_setxattr(&tree, "", "system.posix_acl_default", acl, sizeof(acl), 0), 0);
	CHECK_INT(tree_setxattr(&tree, "", "user.note", "x", 1, 0), 0);
	for (int i = 0; i < SUBVOLUMES; i++) {
		snprintf(volume, sizeof(volume), "m%d", i);
		at(volume);
		CHECK_INT(tree_getxattr(&tree, "", "system.posix_acl_default", &value), 0);
		free(value.bytes);
		CHECK_INT(tree_getxattr(&tree, "", "user.note", &value), i ? -ENODATA : 0);
		if (!i)
			free(value.bytes);
	}
	at("dht");
	let_fail(3, "setxattr,removexattr", "ENOSPC");
	CHECK_INT(tree_removexattr(&tree, "", "system.posix_acl_default"), -ENOSPC);
	for (int i = 0; i < SUBVOLUMES; i++) {
		snprintf(volume, sizeof(volume), "m%d", i);
		at(volume);
		CHECK_INT(tree_getxattr(&tree, "", "system.posix_acl_default", &value), 0);
		free(value.bytes);
	}
	at("dht");
	CHECK_INT(tree_setxattr(&tree, "", "trusted.dht.layout", "x", 1, 0), -EOPNOTSUPP);
}

PROPERTY(the_root_counts_all_its_directories_and_shows_the_latest_times)
{
	struct attr before, after;
	char name[16];

	CHECK_INT(tree_getattr(&tree, "", &before), 0);
	CHECK_INT(before.nlink, 2);
	for (int i = 0; i < 12; i++) {
		snprintf(name, sizeof(name), "d%d", i);
		tree.time_ns = (uint64_t)(i + 1) * 1000000000 + before.mtime.sec * 1000000000;
		CHECK_INT(tree_mkdir(&tree, name, 0755), 0);
		CHECK_INT(tree_getattr(&tree, "", &after), 0);
		CHECK_INT(after.nlink, 3 + i);
		CHECK_INT(after.mtime.sec, before.mtime.sec + i + 1);
	}
	tree.time_ns = 0;
}

/* ---- listings ---- */

struct seen {
	struct file *file;
	uint64_t after[2048]; /* where to go on after an entry */
	char name[2048][32];
	unsigned count;
};
static struct seen seen;

/* As many as come at once from there on; the count, or -errno. */
static int list_at(uint64_t offset, uint32_t size, struct readdir_out *out)
{
	struct readdir_in in = { .file = seen.file, .offset = offset, .size = size, .flags = READDIR_PLUS };
	int err;

	memset(out, 0, sizeof(*out));
	err = tree_call(&tree, tree.at, FOP_readdir, &in, out);
	return err ? err : (int)out->entries.count;
}

static int list_all(uint32_t size)
{
	struct readdir_out out;
	uint64_t offset = 0;
	int n;

	seen.count = 0;
	while ((n = list_at(offset, size, &out)) > 0) {
		bool end = out.entries.end;

		for (int i = 0; i < n && seen.count < 2048; i++) {
			snprintf(seen.name[seen.count], sizeof(seen.name[0]), "%s", out.entries.entry[i].name);
			offset = seen.after[seen.count++] = out.entries.entry[i].next_offset;
		}
		fop_out_clear(FOP_readdir, &out);
		if (end)
			break;
	}
	return n < 0 ? n : (int)seen.count;
}

static int make_files(int count)
{
	char name[32];
	int err = 0;

	for (int i = 0; i < count && !err; i++) {
		snprintf(name, sizeof(name), "f%04d", i);
		err = tree_create(&tree, name, O_RDWR, 0644, NULL);
	}
	return err;
}

/* The entry that comes at that place. */
static const char *name_after(uint64_t offset)
{
	static char name[32];
	struct readdir_out out;
	int n = list_at(offset, 200, &out);

	snprintf(name, sizeof(name), "%s", n > 0 ? out.entries.entry[0].name : n ? "?" : "");
	if (n >= 0)
		fop_out_clear(FOP_readdir, &out);
	return name;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

PROPERTY(each_name_is_listed_once)
{
	static char sorted[2048][32];

	CHECK_INT(make_files(500), 0);
	for (uint32_t size = 200; size < 200000; size *= 10) {
		CHECK_INT(tree_opendir(&tree, "", &seen.file), 0);
		CHECK_INT(list_all(size), 500);
		memcpy(sorted, seen.name, sizeof(sorted));
		qsort(sorted, seen.count, sizeof(sorted[0]), compare_names);
		for (unsigned i = 0; i < 500; i++)
			CHECK_INT(atoi(sorted[i] + 1), i);
		tree_release(&tree, seen.file);
	}
}

static void seek_about(unsigned times)
{
	for (unsigned i = 0; i < times; i++) {
		unsigned to = (unsigned)rand() % (seen.count - 1);

		if (strcmp(name_after(seen.after[to]), seen.name[to + 1])) {
			fprintf(stderr, "after %u comes %s, not %s\n", to, name_after(seen.after[to]), seen.name[to + 1]);
			failures++;
			return;
		}
	}
}

PROPERTY(seekdir_comes_back_to_the_same_place)
{
	CHECK_INT(make_files(600), 0);
	CHECK_INT(tree_opendir(&tree, "", &seen.file), 0);
	CHECK_INT(list_all(1000), 600);
	seek_about(300);
	CHECK(!strcmp(name_after(0), seen.name[0]));
	CHECK(!strcmp(name_after(seen.after[599]), ""));
	seek_about(300);
	tree_release(&tree, seen.file);
}

/* As where the first listing was another open root's, which the mount has kept. */
PROPERTY(a_place_has_one_number_in_whatever_order_it_is_come_to)
{
	struct readdir_out out;
	bool right = true;

	CHECK_INT(make_files(600), 0);
	CHECK_INT(tree_opendir(&tree, "", &seen.file), 0);
	CHECK_INT(list_all(1000), 600);
	tree_release(&tree, seen.file);
	CHECK_INT(tree_opendir(&tree, "", &seen.file), 0);
	for (unsigned i = 0; i < 300; i++) {
		unsigned to = (unsigned)rand() % (seen.count - 1);
		int n = list_at(seen.after[to], 200 + (uint32_t)rand() % 2000, &out);

		for (int k = 0; k < n; k++)
			right &= !strcmp(out.entries.entry[k].name, seen.name[to + 1 + (unsigned)k]) &&
				 out.entries.entry[k].next_offset == seen.after[to + 1 + (unsigned)k];
		CHECK(n > 0);
		fop_out_clear(FOP_readdir, &out);
	}
	CHECK(right);
	tree_release(&tree, seen.file);
}

PROPERTY(places_stay_when_names_come_and_go)
{
	char name[32];

	CHECK_INT(make_files(400), 0);
	CHECK_INT(tree_opendir(&tree, "", &seen.file), 0);
	CHECK_INT(list_all(1000), 400);
	for (unsigned i = 1; i < 400; i += 3) { /* after seen.name[i - 1] comes what came after this one */
		CHECK_INT(tree_unlink(&tree, seen.name[i]), 0);
		snprintf(name, sizeof(name), "new%u", i);
		CHECK_INT(tree_create(&tree, name, O_RDWR, 0644, NULL), 0);
	}
	for (unsigned i = 1; i + 2 < 400; i += 3) {
		const char *next = name_after(seen.after[i]);

		CHECK(!strcmp(next, seen.name[i + 1]) || !strncmp(next, "new", 3));
		next = name_after(seen.after[i - 1]);
		CHECK(!strcmp(next, seen.name[i + 1]) || !strncmp(next, "new", 3));
	}
	tree_release(&tree, seen.file);
}

PROPERTY_WITH(a_short_log_finds_old_places_by_counting, "option log-size 256", "256M")
{
	CHECK_INT(make_files(2000), 0);
	CHECK_INT(tree_opendir(&tree, "", &seen.file), 0);
	CHECK_INT(list_all(1000), 2000);
	seek_about(500);
	tree_release(&tree, seen.file);
}

/* ---- a subvolume that can't be reached ---- */

PROPERTY(only_what_is_at_a_lost_subvolume_is_lost)
{
	const char *there = name_at(1, "x"), *elsewhere = name_at(2, "y");
	struct statfs_in in = { .inode = NULL };
	struct statfs_out all = { 0 }, some = { 0 };
	struct attr a;
	struct event down = { .kind = EVENT_CHILD_DOWN };

	CHECK_INT(tree_create(&tree, there, O_RDWR, 0644, NULL), 0);
	CHECK_INT(tree_create(&tree, elsewhere, O_RDWR, 0644, NULL), 0);
	CHECK_INT(tree_call(&tree, tree.at, FOP_statfs, &in, &all), 0);
	CHECK_INT(make_files(100), 0);
	CHECK_INT(tree_opendir(&tree, "", &seen.file), 0);
	let_fail(1, "all", "ENOTCONN");
	CHECK_INT(tree_getattr(&tree, there, &a), -ENOTCONN);
	CHECK_INT(tree_getattr(&tree, elsewhere, &a), 0);
	CHECK_INT(tree_getattr(&tree, "", &a), 0);
	CHECK_INT(tree_access(&tree, "", 4), 0);
	CHECK_INT(tree_call(&tree, tree.at, FOP_statfs, &in, &some), 0);
	CHECK(some.statfs.blocks && some.statfs.blocks < all.statfs.blocks);
	CHECK_INT(list_all(100000), -EIO); /* not a shorter list */
	CHECK(seen.count > 0);
	CHECK_INT(chmod_root(0700), -ENOTCONN);
	CHECK_INT(mode_at(0), 0755);
	tree_release(&tree, seen.file);
	event_up(tree_find(&tree, "e1"), &down);
	CHECK_INT(tree_opendir(&tree, "", &seen.file), 0);
	let_work(1); /* it is back when the listing comes there */
	CHECK_INT(list_all(100000), 102);
	tree_release(&tree, seen.file);
	for (int i = 0; i < SUBVOLUMES; i++)
		let_fail(i, "all", "ENOTCONN");
	CHECK_INT(tree_getattr(&tree, "", &a), -ENOTCONN);
	CHECK_INT(tree_call(&tree, tree.at, FOP_statfs, &in, &some), -ENOTCONN);
	CHECK_INT(tree_opendir(&tree, "", &seen.file), -ENOTCONN);
}

PROPERTY(an_inode_that_nobody_has_looked_up_here_is_found)
{
	const char *name = name_at(3, "f");
	struct getattr_in in = { 0 };
	struct getattr_out out = { 0 };

	CHECK_INT(tree_create(&tree, name, O_RDWR, 0640, NULL), 0);
	at("m3");
	CHECK_INT(tree_walk(&tree, name, &in.inode), 0);
	at("dht");
	CHECK_INT(tree_call(&tree, tree.at, FOP_getattr, &in, &out), 0);
	CHECK_INT(out.attr.mode & 07777, 0640);
	inode_unref(in.inode);
}

static void an_inode_is_found_(void *arg __attribute__((unused)))
{
	const char *name = name_at(1, "f");
	struct getattr_in in = { 0 };
	struct getattr_out out = { 0 };
	uint64_t began_ns = clock_ns();

	CHECK_INT(tree_create(&tree, name, O_RDWR, 0640, NULL), 0);
	CHECK_INT(tree_walk(&tree, name, &in.inode), 0);
	CHECK_INT(tree_call(&tree, tree_find(&tree, "newer"), FOP_getattr, &in, &out), 0);
	CHECK(clock_ns() < began_ns + 5000000000);
	inode_unref(in.inode);
}

static void an_inode_that_nobody_has_looked_up_here_is_found_though_a_subvolume_is_silent(void **state)
{
	(void)state;
	more_volumes = "volume h0\n type debug/hold\n option fops lookup\n subvolumes e0\nend-volume\n"
		       "volume newer\n type cluster/dht\n option initial 4\n subvolumes h0 e1 e2 e3\nend-volume\n";
	run(an_inode_is_found_, "", "256M");
	more_volumes = "";
}

PROPERTY(what_is_kept_for_dht_is_nobodys)
{
	struct attr a;

	CHECK_INT(tree_mkdir(&tree, ".stratus.dht", 0755), -EPERM);
	CHECK_INT(tree_getattr(&tree, ".stratus.dht", &a), -ENOENT);
	CHECK_INT(tree_mkdir(&tree, "d", 0755), 0);
	CHECK_INT(tree_mkdir(&tree, "d/.stratus.dht", 0755), 0);
}

/* ---- the layout of the root ---- */

#define OTHER_CLIENT(name, subvolumes)                                                                                         \
	"volume " name "\n type cluster/dht\n option lean 0\n subvolumes " subvolumes "\nend-volume\n"

/* With volumes beside dht that have the same subvolumes. */
static void run_with(task_fn *fn, const char *clients)
{
	more_volumes = clients;
	run(fn, "", "256M");
	more_volumes = "";
}

static int changes_nothing(const char *client, const char *name)
{
	struct attr a;
	struct file *file = NULL;
	int wrong = 0;

	at(client);
	wrong += tree_mkdir(&tree, name, 0755) != -EIO;
	wrong += tree_create(&tree, name, O_RDWR, 0644, NULL) != -EIO;
	wrong += tree_symlink(&tree, "x", name) != -EIO;
	wrong += tree_unlink(&tree, name) != -EIO;
	wrong += tree_rmdir(&tree, name) != -EIO;
	wrong += tree_rename(&tree, name, "other", 0) != -EIO;
	wrong += tree_getattr(&tree, name, &a) != -EIO;
	wrong += tree_open_file(&tree, name, O_RDONLY, &file) != -EIO;
	wrong += tree_opendir(&tree, "", &file) != -EIO; /* it would be a shorter list */
	return wrong;
}

static bool fsck_says(const char *client, const char *what)
{
	char *argv[] = { (char *)"fsck", (char *)"repair", (char *)"wait=1" }, *said = NULL;
	size_t size;
	FILE *f = open_memstream(&said, &size);
	struct xlator *x = tree_find(&tree, client);
	bool yes = !x->type->command(x, 3, argv, f);

	fclose(f);
	yes = yes && strstr(said, what);
	free(said);
	return yes;
}

static void other_order_(void *arg)
{
	const char *there = name_at(0, "there"), *new = name_at(1, "new"), *at_3 = name_at(3, "x");
	struct attr a;

	(void)arg;
	CHECK_INT(tree_mkdir(&tree, there, 0755), 0);
	CHECK_INT(tree_create(&tree, at_3, O_RDWR, 0644, NULL), 0);
	CHECK_INT(changes_nothing("swapped", there), 0);
	CHECK_INT(changes_nothing("swapped", new), 0);
	CHECK_INT(tree_getattr(&tree, at_3, &a), 0); /* it is right about that one */
	CHECK_INT(tree_rename(&tree, at_3, new, 0), -EIO);
	CHECK_INT(tree_rename(&tree, at_3, there, RENAME_EXCHANGE), -EIO);
	CHECK_INT(tree_link(&tree, at_3, new), -EIO);
	CHECK_INT(tree_getattr(&tree, at_3, &a), 0);
	CHECK_INT(a.nlink, 1);
	CHECK_INT(changes_nothing("fewer", at_3), 0);
	/* to judge by it would be to move all names */
	CHECK(fsck_says("swapped", "problem ") && !fsck_says("swapped", "finding "));
	CHECK_INT(holder(there), 0);
	CHECK_INT(holder(new), -1);
	CHECK_INT(holder(at_3), 3);
	CHECK_INT(tree_rmdir(&tree, there), 0);
}

static void who_has_the_subvolumes_in_another_order_or_fewer_changes_nothing(void **state)
{
	(void)state;
	run_with(other_order_, OTHER_CLIENT("swapped", "c1 c0 c2 c3") OTHER_CLIENT("fewer", "c0 c1 c2"));
}

static const struct layout three_of_four = { .version = 1, .count = 3, .member = { { 0, 1, 1 }, { 1, 1, 1 }, { 3, 1, 1 } } };

static int put_layouts(const struct layout *l)
{
	int err = 0;

	for (int i = 0; i < SUBVOLUMES && !err; i++)
		err = put_layout(i, l);
	return err;
}

static struct {
	atomic_int wrong, done;
	atomic_bool stop, stopped;
} looker;

/* Looks for what is not there, all the time. */
static void look_around(void *arg)
{
	char name[32];
	struct attr a;

	(void)arg;
	for (int i = 0; !looker.stop; i++) {
		int err;

		snprintf(name, sizeof(name), "nothing%d", i % 200);
		err = tree_getattr(&tree, name, &a);
		looker.wrong += err != -ENOENT;
		looker.done++;
		task_yield();
	}
	looker.stopped = true;
}

static void until_it_has_looked(int times)
{
	int enough = looker.done + times;

	for (int i = 0; i < 20000 && looker.done < enough; i++)
		task_sleep_ms(1);
}

static void follows_(void *arg)
{
	struct blob value = { 0 };
	struct file *root = NULL;
	struct attr a;
	char name[32];

	(void)arg;
	CHECK_INT(tree_mkdir(&tree, name_at(2, "before"), 0755), 0);
	CHECK_INT(tree_rmdir(&tree, name_at(2, "before")), 0);
	CHECK_INT(tree_opendir(&tree, "", &root), 0);
	looker.stop = looker.stopped = false;
	looker.wrong = looker.done = 0;
	CHECK_INT(task_spawn(runtime_shard(1), look_around, NULL), 0);
	for (int i = 0; i < SUBVOLUMES; i++) {
		task_sleep_ms(20);
		CHECK_INT(put_layout(i, &three_of_four), 0);
	}
	until_it_has_looked(11); /* not before: where some have it, and others do not, it may wait */
	looker.stop = true;
	while (!looker.stopped)
		task_sleep_ms(1);
	CHECK_INT(looker.wrong, 0);
	CHECK(looker.done > 10);
	for (int i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		CHECK_INT(tree_create(&tree, name, O_RDWR, 0644, NULL), 0);
		CHECK_INT(holder(name), layout_owner(&three_of_four, layout_key(&gfid_root, name))->id);
	}
	seen.file = root;
	CHECK_INT(list_all(1000), 60);
	tree_release(&tree, root);
	CHECK_INT(chmod_root(0711), 0);
	CHECK_INT(mode_at(1), 0711);
	CHECK_INT(mode_at(2), 0755); /* that has no part of the root; it gets what the others have when it comes */
	CHECK_INT(tree_getattr(&tree, "", &a), 0);
	CHECK(!(a.flags & ATTR_WIDE));
	CHECK_INT(tree_rename(&tree, "f1", "f2", 0), 0);
	CHECK_INT(tree_rename(&tree, "f3", "f4", RENAME_EXCHANGE), 0);
	/* whoever comes now knows nothing of it yet, and lists first */
	at("second");
	CHECK_INT(tree_opendir(&tree, "", &seen.file), 0);
	CHECK_INT(list_all(1000), 59);
	tree_release(&tree, seen.file);
	CHECK_INT(tree_getattr(&tree, "f4", &a), 0);
	CHECK_INT(tree_mkdir(&tree, name_at(2, "d"), 0755), 0);
	/* a subvolume without names is not asked for any */
	at("dht");
	let_fail(2, "all,-release", "ENOTCONN");
	CHECK_INT(tree_getattr(&tree, "", &a), 0);
	CHECK_INT(tree_opendir(&tree, "", &seen.file), 0);
	CHECK_INT(list_all(1000), 60);
	tree_release(&tree, seen.file);
	let_work(2);
	CHECK(!fsck_says("third", "finding ") && fsck_says("third", "files 5")); /* it would move what it takes for strays */
	CHECK_INT(holder("f5"), layout_owner(&three_of_four, layout_key(&gfid_root, "f5"))->id);
	CHECK_INT(tree_getxattr(&tree, "", DHT_LAYOUT_XATTR, &value), -ENODATA);
}

static void a_layout_on_disk_is_followed_in_the_middle_of_work(void **state)
{
	(void)state;
	run_with(follows_, OTHER_CLIENT("second", "c0 c1 c2 c3") OTHER_CLIENT("third", "c0 c1 c2 c3"));
}

PROPERTY(a_layout_is_learnt_without_its_home)
{
	struct layout l;

	layout_implied(&l, 0, SUBVOLUMES);
	l.version = 1;
	CHECK_INT(put_layouts(&l), 0);
	let_fail(0, "getxattr", "ENOTCONN");
	CHECK_INT(tree_mkdir(&tree, name_at(1, "d"), 0755), 0);
}

static const char *name_by(const struct layout *l, uint32_t id, const char *prefix)
{
	static char names[4][64];
	static unsigned next;
	char *name = names[next++ % 4];
	int i = 0;

	do
		snprintf(name, 64, "%s%d", prefix, i++);
	while (layout_owner(l, layout_key(&gfid_root, name))->id != id);
	return name;
}

PROPERTY(names_of_a_subvolume_that_the_volume_file_lacks_are_refused_and_no_others)
{
	struct layout l = three_of_four;
	const char *there, *known;
	struct attr a;

	l.member[2].id = SUBVOLUMES;
	there = name_by(&l, SUBVOLUMES, "there");
	known = name_by(&l, 1, "known");
	CHECK_INT(tree_mkdir(&tree, there, 0755), 0);
	CHECK_INT(put_layouts(&l), 0);
	CHECK_INT(changes_nothing("dht", there), 0);
	CHECK_INT(tree_mkdir(&tree, known, 0755), 0);
	CHECK_INT(tree_rename(&tree, known, there, 0), -EIO);
	CHECK_INT(tree_rmdir(&tree, known), 0);
	CHECK(fsck_says("dht", "problem ") && !fsck_says("dht", "finding "));
	layout_implied(&l, 0, SUBVOLUMES);
	l.version = 4;
	CHECK_INT(put_layouts(&l), 0);
	CHECK_INT(tree_mkdir(&tree, known, 0755), 0);
	CHECK_INT(tree_getattr(&tree, there, &a), 0);
}

PROPERTY(what_bricks_say_to_clients_is_in_no_xattr_of_the_mount)
{
	struct listxattr_in in = { 0 };
	struct listxattr_out out = { 0 };
	struct layout l;
	struct blob value = { 0 };

	layout_implied(&l, 0, SUBVOLUMES);
	l.version = 1;
	CHECK_INT(put_layouts(&l), 0);
	CHECK_INT(tree_setxattr(&tree, "", "user.a", "1", 1, 0), 0);
	CHECK_INT(tree_setxattr(&tree, "", "user.z", "1", 1, 0), 0);
	CHECK_INT(tree_walk(&tree, "", &in.inode), 0);
	CHECK_INT(tree_call(&tree, tree.at, FOP_listxattr, &in, &out), 0);
	CHECK_INT(out.names.size, 14);
	CHECK(!memmem(out.names.bytes, out.names.size, "trusted.dht", 11));
	fop_out_clear(FOP_listxattr, &out);
	inode_unref(in.inode);
	CHECK_INT(tree_getxattr(&tree, "", DHT_LAYOUT_XATTR, &value), -ENODATA);
	CHECK_INT(tree_setxattr(&tree, "", DHT_LAYOUT_XATTR, "x", 1, 0), -EOPNOTSUPP);
	CHECK_INT(tree_removexattr(&tree, "", DHT_LAYOUT_XATTR), -ENODATA);
}

/* What is listed may come again there, and who seeks back must not miss it for that. */
static void places_are_the_same_where_a_subvolume_has_no_names_yet(void **state)
{
	(void)state;
	initial = SUBVOLUMES - 1;
	run(seekdir_comes_back_to_the_same_place_, "", "256M");
	run(places_stay_when_names_come_and_go_, "", "256M");
	run(a_short_log_finds_old_places_by_counting_, "option log-size 256", "256M");
	initial = SUBVOLUMES;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(places_are_the_same_where_a_subvolume_has_no_names_yet),
		cmocka_unit_test(names_of_the_root_are_at_their_owners_and_what_is_below_with_them),
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(a_name_under_which_a_file_is_written_first_is_where_it_will_be),
		cmocka_unit_test(what_is_over_several_subvolumes_is_refused),
		cmocka_unit_test(the_root_has_one_mode_everywhere),
		cmocka_unit_test(the_roots_acl_is_everywhere_and_other_xattrs_at_home),
		cmocka_unit_test(the_root_counts_all_its_directories_and_shows_the_latest_times),
		cmocka_unit_test(each_name_is_listed_once),
		cmocka_unit_test(seekdir_comes_back_to_the_same_place),
		cmocka_unit_test(a_place_has_one_number_in_whatever_order_it_is_come_to),
		cmocka_unit_test(places_stay_when_names_come_and_go),
		cmocka_unit_test(a_short_log_finds_old_places_by_counting),
		cmocka_unit_test(only_what_is_at_a_lost_subvolume_is_lost),
		cmocka_unit_test(an_inode_that_nobody_has_looked_up_here_is_found),
		cmocka_unit_test(an_inode_that_nobody_has_looked_up_here_is_found_though_a_subvolume_is_silent),
		cmocka_unit_test(what_is_kept_for_dht_is_nobodys),
		cmocka_unit_test(who_has_the_subvolumes_in_another_order_or_fewer_changes_nothing),
		cmocka_unit_test(a_layout_on_disk_is_followed_in_the_middle_of_work),
		cmocka_unit_test(a_layout_is_learnt_without_its_home),
		cmocka_unit_test(names_of_a_subvolume_that_the_volume_file_lacks_are_refused_and_no_others),
		cmocka_unit_test(what_bricks_say_to_clients_is_in_no_xattr_of_the_mount),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
