/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: files that stand elsewhere than their names are brought home while they are in use; those that can't be, and all of them. */
#include "migrate-test.h"

/* ---- what is moved ---- */

static bool rebalances(void)
{
	static char text[1024];
	char *start[] = { (char *)"rebalance", (char *)"start" }, *status[] = { (char *)"rebalance", (char *)"status" };
	struct xlator *x = tree_find(&tree, "dht");

	if (x->type->command(x, 2, start, stderr))
		return false;
	for (int i = 0; i < tries_of(10); i++) {
		FILE *f = fmemopen(text, sizeof(text), "w");

		x->type->command(x, 2, status, f);
		fclose(f);
		if (strstr(text, "state done"))
			break;
		task_sleep_ms(10);
	}
	memcpy(told, text, sizeof(told) - 1);
	return strstr(text, "state done");
}

const char *put_away(const char *text)
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b");

	if (put(a, text) || tree_rename(&tree, a, b, 0) || census().anchors != 1) {
		fprintf(stderr, "%s can't be put away\n", b);
		failures++;
	}
	return b;
}

bool is_whole(const char *b, const char *text)
{
	for (int i = 0; i < tries_of(10); i++) {
		if (reads(b, text) && links(b) == 1 && census().work == 0)
			return true;
		task_sleep_ms(10);
	}
	return false;
}

bool has_xattr(int subvolume, struct inode *inode, const char *name)
{
	struct getxattr_in in = { .inode = inode, .name = (char *)name };
	struct getxattr_out out = { 0 };
	char volume[8];
	bool yes;

	snprintf(volume, sizeof(volume), "m%d", subvolume);
	yes = !tree_call(&tree, tree_find(&tree, volume), FOP_getxattr, &in, &out);
	fop_out_clear(FOP_getxattr, &out);
	return yes;
}

MOVES(a_file_is_brought_to_where_its_name_is, SWEEPS)
{
	const char *b = put_away("text");
	struct attr before, after;

	CHECK_INT(tree_getattr(&tree, b, &before), 0);
	CHECK(brings(b, "brought"));
	CHECK(reads(b, "text") && links(b) == 1);
	CHECK_INT(tree_getattr(&tree, b, &after), 0);
	CHECK(gfid_equal(&before.gfid, &after.gfid) && before.mode == after.mode && before.uid == after.uid);
	CHECK(before.mtime.sec == after.mtime.sec && before.mtime.nsec == after.mtime.nsec);
	CHECK_INT(census().anchors, 0);
	CHECK(brings(b, "nothing"));
	CHECK(settles(0));
	CHECK_INT(holder(b), 1);
	CHECK_INT(put(b, "TEXT"), 0);
	CHECK(reads(b, "TEXT") && links(b) == 1);
	at("second");
	CHECK(reads(b, "TEXT") && links(b) == 1);
	CHECK_INT(tree_unlink(&tree, b), 0);
	at("dht");
	CHECK(settles(0));
}

MOVES(what_belongs_to_it_comes_along, SWEEPS)
{
	static const char big[100000] = "begin";
	struct setattr set = { .valid = SET_MODE | SET_UID | SET_GID, .mode = 04751, .uid = 7, .gid = 8 };
	struct setattr times = { .valid = SET_ATIME | SET_MTIME, .atime = { 11, 12 }, .mtime = { 13, 14 } };
	struct blob value = { 0 };
	struct file *file = NULL;
	const char *b = put_away("x");
	struct attr a;

	CHECK_INT(tree_open_file(&tree, b, O_RDWR, &file), 0);
	CHECK_INT(tree_write(&tree, file, 3 << 20, big, sizeof(big)), 0);
	tree_release(&tree, file);
	CHECK_INT(tree_setxattr(&tree, b, "user.one", "1", 1, 0), 0);
	CHECK_INT(tree_setxattr(&tree, b, "user.two", "22", 2, 0), 0);
	CHECK_INT(tree_setattr(&tree, b, &set), 0);
	CHECK_INT(tree_setattr(&tree, b, &times), 0);
	CHECK(brings(b, "brought"));
	CHECK_INT(tree_getattr(&tree, b, &a), 0);
	CHECK(a.size == (3 << 20) + sizeof(big) && (a.mode & 07777) == 04751 && a.uid == 7 && a.gid == 8);
	CHECK(a.mtime.sec == 13 && a.mtime.nsec == 14 && a.atime.sec == 11);
	CHECK_INT(tree_getxattr(&tree, b, "user.two", &value), 0);
	CHECK(value.size == 2 && !memcmp(value.bytes, "22", 2));
	free(value.bytes);
	CHECK(settles(0));
}

/* ---- in use ---- */

bool file_reads(struct file *file, const char *text)
{
	struct buffer *data = NULL;
	int err = tree_read(&tree, file, 0, 100, &data);
	bool yes = !err && data->size == strlen(text) && !memcmp(data->data, text, data->size);

	if (!yes)
		fprintf(stderr, "reads: %s\n", err ? strerror(-err) : "something else");
	buffer_unref(data);
	return yes;
}

MOVES(who_has_it_open_goes_on, SWEEPS)
{
	struct file *first = NULL, *second = NULL;
	const char *b = put_away("text");

	CHECK_INT(tree_open_file(&tree, b, O_RDWR, &first), 0);
	at("second");
	CHECK_INT(tree_open_file(&tree, b, O_RDWR, &second), 0);
	at("dht");
	CHECK(brings(b, "brought"));
	CHECK(file_reads(first, "text"));
	CHECK_INT(tree_write(&tree, first, 0, "TEXT", 4), 0);
	at("second");
	CHECK(file_reads(second, "TEXT"));
	CHECK_INT(tree_write(&tree, second, 4, "ed", 2), 0);
	at("dht");
	CHECK(reads(b, "TEXTed") && links(b) == 1);
	CHECK(file_reads(first, "TEXTed"));
	tree_release(&tree, first);
	task_sleep_ms(100); /* sweeps leave the stub alone that is open */
	at("second");
	CHECK(file_reads(second, "TEXTed"));
	tree_release(&tree, second);
	at("dht");
	CHECK(settles(0));
	CHECK(reads(b, "TEXTed"));
}

#define BELIEVING                                                                                                              \
	"volume believing\n type cluster/dht\n option lean 0\n option initial 4\n option sweep-interval 1h\n"                  \
	" subvolumes c0 c1 c2 c3\nend-volume\n"

static bool believes(const struct file *file, uint64_t since)
{
	return believe_ms(tree.at, file->inode, BELIEVE_ATTR, since);
}

/* The subvolume where it is now has not told this client of it before, so it recalls nothing. */
static void what_was_asked_where_it_was_(void *arg)
{
	const char *b = put_away("text");
	struct file *file = NULL;
	uint64_t since;

	(void)arg;
	at("believing");
	since = moment_now(tree.at);
	CHECK_INT(tree_open_file(&tree, b, O_RDWR, &file), 0);
	at("dht");
	CHECK(brings(b, "brought"));
	at("believing");
	CHECK(file_reads(file, "text"));
	CHECK(!believes(file, since));
	CHECK(believes(file, moment_now(tree.at)));
	tree_release(&tree, file);
	at("dht");
	CHECK(settles(0));
}

static void what_was_asked_where_it_was_is_not_believed(void **state)
{
	(void)state;
	more_volumes = BELIEVING;
	run(what_was_asked_where_it_was_, SWEEPS, "64M");
	more_volumes = "";
}

MOVES(who_has_it_open_has_it_after_it_was_removed, SWEEPS)
{
	struct file *file = NULL;
	const char *b = put_away("text");

	at("second");
	CHECK_INT(tree_open_file(&tree, b, O_RDONLY, &file), 0);
	at("dht");
	CHECK(brings(b, "brought"));
	CHECK_INT(tree_unlink(&tree, b), 0);
	task_sleep_ms(200);
	at("second");
	CHECK(file_reads(file, "text"));
	tree_release(&tree, file);
	at("dht");
	CHECK(settles(0));
}

/* ---- the name that it has for those ---- */

/* As others see it, and as who has moved it does. */
static bool has_one_name(const char *b)
{
	bool yes = links(b) == 1;

	at("other");
	yes &= links(b) == 1;
	at("dht");
	return yes;
}

static void is_never_counted_(void *arg __attribute__((unused)))
{
	const char *b = put_away("text"), *c = name_at(2, "c");

	CHECK(brings(b, "brought"));
	CHECK(has_one_name(b));
	hold_tell("begins", "hold", "none");
	hold_tell("begins", "release", "all");
	CHECK(hold_has("ends", ""));
	CHECK(has_one_name(b));
	hold_tell("ends", "release", "1");
	CHECK(hold_has("ends", ""));
	CHECK(has_one_name(b));
	/* As if the sweeper had died here. */
	CHECK_INT(tree_rename(&tree, b, c, 0), 0);
	CHECK(has_one_name(c));
	CHECK(brings(c, "brought"));
	CHECK(has_one_name(c) && reads(c, "text"));
	hold_tell("ends", "hold", "none");
	hold_tell("ends", "release", "all");
	CHECK(settles(0));
	CHECK(has_one_name(c) && reads(c, "text"));
}

static void the_name_that_is_kept_is_never_counted(void **state)
{
	(void)state;
	more_volumes = SWEEPER;
	run(is_never_counted_, "option sweep-interval 1h", "64M");
	more_volumes = "";
}

MOVES(what_was_moved_a_moment_ago_stays, "option sweep-interval 1h")
{
	const char *b = put_away("text"), *c = name_at(2, "c");

	CHECK(brings(b, "brought"));
	CHECK_INT(tree_rename(&tree, b, c, 0), 0);
	CHECK(brings(c, "moved recently"));
	CHECK(reads(c, "text") && links(c) == 1);
}

static int lock(struct file *file, uint32_t type)
{
	struct setlk_in in = { .file = file, .lock = { .kind = LOCK_FLOCK, .type = type, .owner = 1, .end = UINT64_MAX } };
	struct setlk_out out = { 0 };

	return tree_call(&tree, tree.at, FOP_setlk, &in, &out);
}

MOVES(what_is_locked_stays, SWEEPS)
{
	struct file *file = NULL;
	const char *b = put_away("text");

	CHECK_INT(tree_open_file(&tree, b, O_RDWR, &file), 0);
	CHECK_INT(lock(file, F_WRLCK), 0);
	CHECK(brings(b, "locked"));
	CHECK_INT(lock(file, F_UNLCK), 0);
	CHECK(brings(b, "brought"));
	CHECK_INT(lock(file, F_WRLCK), 0);
	CHECK_INT(lock(file, F_UNLCK), 0);
	tree_release(&tree, file);
	CHECK(settles(0));
}

/* A member that joined later does not know of it. */
MOVES(what_is_locked_at_any_member_stays, SWEEPS)
{
	const char *b = put_away("text");

	lock_elsewhere(true);
	CHECK(brings(b, "locked"));
	lock_elsewhere(false);
	CHECK(brings(b, "brought"));
	CHECK(settles(0));
}

static int lock_posix(struct file *file, uint32_t type, uint64_t owner)
{
	struct setlk_in in = { .file = file, .lock = { .kind = LOCK_POSIX, .type = type, .owner = owner, .end = UINT64_MAX } };
	struct setlk_out out = { 0 };

	return tree_call(&tree, tree.at, FOP_setlk, &in, &out);
}

/* Also of what was locked by another open file: so it is for POSIX. */
MOVES(who_closes_a_moved_file_loses_his_locks, SWEEPS)
{
	struct file *file = NULL, *other = NULL;
	struct flush_in in = { .owner = 1 };
	struct flush_out out = { 0 };
	const char *b = put_away("text");

	CHECK_INT(tree_open_file(&tree, b, O_RDWR, &file), 0);
	CHECK_INT(tree_open_file(&tree, b, O_RDWR, &other), 0);
	CHECK(brings(b, "brought"));
	CHECK_INT(lock_posix(file, F_WRLCK, 1), 0);
	CHECK_INT(lock_posix(file, F_WRLCK, 2), -EAGAIN);
	in.file = other;
	CHECK_INT(tree_call(&tree, tree.at, FOP_flush, &in, &out), 0);
	CHECK_INT(lock_posix(file, F_WRLCK, 2), 0);
	tree_release(&tree, file);
	tree_release(&tree, other);
	CHECK(settles(0));
}

/* Who knows it where it was. */
MOVES(what_was_moved_is_there_without_the_subvolume_where_it_was, SWEEPS)
{
	cleanup_inode struct inode *known = NULL;
	char dir[64], path[80];
	struct dirents list = { 0 };
	struct file *file = NULL;
	const char *a = name_at(0, "a");

	snprintf(dir, sizeof(dir), "%s", name_at(1, "dir"));
	snprintf(path, sizeof(path), "%s/b", dir);
	CHECK_INT(tree_mkdir(&tree, dir, 0755), 0);
	CHECK_INT(put(a, "text"), 0);
	CHECK_INT(tree_rename(&tree, a, path, 0), 0);
	at("second");
	CHECK_INT(tree_walk(&tree, path, &known), 0);
	at("dht");
	CHECK(rebalances());
	CHECK(settles(0));
	let_fail(0, "all", "ENOTCONN");
	at("second");
	CHECK(reads(path, "text"));
	CHECK_INT(tree_opendir(&tree, dir, &file), 0);
	CHECK_INT(tree_readdir(&tree, file, &list), 0);
	CHECK_INT(list.count, 1);
	fop_out_clear(FOP_readdir, &list);
	tree_release(&tree, file);
	let_work(0);
	at("dht");
}

/* ---- changes meanwhile ---- */

struct writer {
	const char *name;
	struct file *file;
	unsigned written;
	int err;
	atomic_bool stop, over;
};

static void go_on_writing(void *arg)
{
	struct writer *w = arg;
	char text[16];

	while (!w->stop && !w->err) {
		int n = snprintf(text, sizeof(text), "%08u", w->written + 1);

		w->err = tree_write(&tree, w->file, 0, text, (size_t)n);
		w->written += !w->err;
		task_sleep_ms(0);
		task_yield();
	}
	w->over = true;
}

MOVES(no_change_is_lost, "option sweep-interval 100ms")
{
	others_go_on(true);
	for (int i = 0; i < 40 && !failures; i++) {
		const char *b = put_away("text");
		struct writer w = { .name = b };
		char last[16];
		int err;

		at("second");
		CHECK_INT(tree_open_file(&tree, b, O_RDWR, &w.file), 0);
		CHECK_INT(task_spawn(NULL, go_on_writing, &w), 0);
		task_sleep_ms((uint64_t)i % 4);
		err = bring(b);
		task_sleep_ms(2);
		w.stop = true;
		while (!w.over)
			task_sleep_ms(1);
		CHECK_INT(err, 0); /* or it is busy: who is slow may seem dead, and another ends it */
		CHECK_INT(w.err, 0);
		snprintf(last, sizeof(last), "%08u", w.written);
		CHECK(file_reads(w.file, last));
		tree_release(&tree, w.file);
		at("dht");
		CHECK(reads(b, last));
		CHECK_INT(tree_unlink(&tree, b), 0);
	}
	others_go_on(false);
	CHECK(settles(0));
}

/* ---- what fails ---- */

MOVES(no_room_while_it_is_copied_is_no_room, SWEEPS)
{
	const char *b = put_away("text");

	let_fail(1, "write", "ENOSPC");
	CHECK(brings(b, "no room"));
	let_work(1);
	CHECK(is_whole(b, "text"));
	CHECK(brings(b, "brought"));
	CHECK(settles(0));
}

/* ---- all of them ---- */

MOVES(a_rebalance_brings_all_files_home, SWEEPS)
{
	enum { FILES = 40 };
	char dir[64], from[FILES][96], to[FILES][96];

	snprintf(dir, sizeof(dir), "%s", name_at(2, "dir"));
	CHECK_INT(tree_mkdir(&tree, dir, 0755), 0);
	for (int i = 0; i < FILES; i++) {
		char prefix[16];

		snprintf(prefix, sizeof(prefix), "f%d-", i);
		snprintf(from[i], sizeof(from[i]), "%s", name_at(0, prefix));
		if (i % 2)
			snprintf(to[i], sizeof(to[i]), "%s/%s", dir, from[i]);
		else
			snprintf(to[i], sizeof(to[i]), "%s", name_at(1, prefix));
		CHECK_INT(put(from[i], from[i]), 0);
		CHECK_INT(tree_rename(&tree, from[i], to[i], 0), 0);
	}
	CHECK_INT(census().anchors, FILES);
	CHECK(rebalances());
	CHECK(strstr(told, "files 40"));
	CHECK_INT(census().anchors, 0);
	for (int i = 0; i < FILES; i++) {
		CHECK(reads(to[i], from[i]) && links(to[i]) == 1);
		CHECK(i % 2 || holder(to[i]) == 1);
	}
	CHECK(settles(0));
}

MOVES(a_directory_that_cant_be_read_does_not_hold_up_the_others, SWEEPS)
{
	const char *b = put_away("text");

	CHECK_INT(tree_mkdir(&tree, name_at(1, "bad"), 0755), 0);
	directories_fail(true);
	CHECK(rebalances());
	directories_fail(false);
	CHECK(strstr(told, "files 1") && !strstr(told, "failed 0"));
	CHECK_INT(holder(b), 1);
	CHECK(settles(0));
}

/* Who died may have left a record that nobody else asks for, and that keeps those from a name who have no room to end it. Nobody sweeps it away in time: that takes as long for each of 64 directories. */
static void rebalance_after_cut(unsigned messages, unsigned *sent)
{
	const char *b = put_away("text");

	cut_after(messages, false);
	bring(b);
	*sent = cut_end();
	CHECK(rebalances());
	CHECK_INT(census().work, 0);
	CHECK(reads(b, "text") && links(b) == 1);
	CHECK_INT(tree_unlink(&tree, b), 0);
	if (failures)
		fprintf(stderr, "after %u messages\n", messages);
}

static void rebalance_after_cuts(void *unused)
{
	unsigned sent = 0;

	(void)unused;
	rebalance_after_cut(1000, &sent);
	for (unsigned i = 1; i <= 5 && !failures; i++)
		rebalance_after_cut(sent * i / 6, &(unsigned){ 0 });
	for (unsigned i = 1; i <= 2 && !failures; i++)
		rebalance_after_cut(sent - i, &(unsigned){ 0 });
}

static void a_rebalance_ends_what_a_dead_one_has_left(void **state)
{
	(void)state;
	run(rebalance_after_cuts, "option sweep-interval 500ms", "64M");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_brought_to_where_its_name_is),
		cmocka_unit_test(what_belongs_to_it_comes_along),
		cmocka_unit_test(who_has_it_open_goes_on),
		cmocka_unit_test(what_was_asked_where_it_was_is_not_believed),
		cmocka_unit_test(who_has_it_open_has_it_after_it_was_removed),
		cmocka_unit_test(the_name_that_is_kept_is_never_counted),
		cmocka_unit_test(what_was_moved_a_moment_ago_stays),
		cmocka_unit_test(what_is_locked_stays),
		cmocka_unit_test(what_is_locked_at_any_member_stays),
		cmocka_unit_test(who_closes_a_moved_file_loses_his_locks),
		cmocka_unit_test(what_was_moved_is_there_without_the_subvolume_where_it_was),
		cmocka_unit_test(no_change_is_lost),
		cmocka_unit_test(no_room_while_it_is_copied_is_no_room),
		cmocka_unit_test(a_rebalance_brings_all_files_home),
		cmocka_unit_test(a_rebalance_ends_what_a_dead_one_has_left),
		cmocka_unit_test(a_directory_that_cant_be_read_does_not_hold_up_the_others),
	};
	int failed;

	if (getenv("MIGRATE_TEST")) /* a pattern of names */
		cmocka_set_test_filter(getenv("MIGRATE_TEST"));
	failed = cmocka_run_group_tests(tests, tasks_start, tasks_stop);
	failed += _cmocka_run_group_tests("cuts", cuts, cuts_count, tasks_start, tasks_stop);
	failed += _cmocka_run_group_tests("powers", powers, powers_count, tasks_start, tasks_stop);
	return failed + _cmocka_run_group_tests("meanwhile", meanwhile, meanwhile_count, tasks_start, tasks_stop);
}
