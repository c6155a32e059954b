/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: files that stand elsewhere than their names are brought home while they are in use; who does it may die at any message, and others end it. */
#include "migrate-tree.h"

#include <sys/xattr.h>

#include "place.h"

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

/* At subvolume 0, with its name at 1. */
static const char *put_away(const char *text)
{
	const char *a = name_at(0, "a"), *b = name_at(1, "b");

	if (put(a, text) || tree_rename(&tree, a, b, 0) || census().anchors != 1) {
		fprintf(stderr, "%s can't be put away\n", b);
		failures++;
	}
	return b;
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

static bool file_reads(struct file *file, const char *text)
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

/* Of who sweeps: begins when it is let, and ends what is kept step by step. */
#define SWEEPER                                                                                                                \
	"volume begins\n type debug/hold\n option fops readdir\n subvolumes e0\nend-volume\n"                                  \
	"volume ends\n type debug/hold\n option fops unlink,removexattr\n subvolumes e1\nend-volume\n"                         \
	"volume sweeper\n type cluster/dht\n option lean 0\n option initial 4\n option sweep-interval 10ms\n"                  \
	" subvolumes begins ends e2 e3\nend-volume\n"                                                                          \
	"volume other\n type cluster/dht\n option lean 0\n option initial 4\n option sweep-interval 1h\n"                      \
	" subvolumes e0 e1 e2 e3\nend-volume\n"

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

/* ---- who does it dies ---- */

static bool is_whole(const char *b, const char *text)
{
	for (int i = 0; i < tries_of(10); i++) {
		if (reads(b, text) && links(b) == 1 && census().work == 0)
			return true;
		task_sleep_ms(10);
	}
	return false;
}

static void cut_at(unsigned messages, bool done, unsigned *sent)
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

/* ---- what a brick loses with its power ---- */

static bool has_xattr(int subvolume, struct inode *inode, const char *name)
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

static struct inode *walk_at(const char *brick, const char *path)
{
	struct inode *inode = NULL;

	at(brick);
	if (tree_walk(&tree, path, &inode))
		inode = NULL;
	at("dht");
	return inode;
}

/* A name in `work` at that brick. */
static bool find_name_in_work(const char *brick, char letter, char path[96])
{
	bool found = false;

	at(brick);
	for (unsigned k = 0; k < 16 && !found; k++) {
		struct dirents list = { 0 };
		struct file *dir = NULL;
		char work[64];

		snprintf(work, sizeof(work), DHT_HIDDEN "/work/%x", k);
		if (tree_opendir(&tree, work, &dir))
			continue;
		if (!tree_readdir(&tree, dir, &list))
			for (uint32_t i = 0; i < list.count && !found; i++) {
				found = list.entry[i].name[0] == letter && list.entry[i].name[1] == '.';
				snprintf(path, 96, "%s/%s", work, list.entry[i].name);
			}
		fop_out_clear(FOP_readdir, &list);
		tree_release(&tree, dir);
	}
	at("dht");
	return found;
}

static bool lose_name(char letter)
{
	char path[96];
	int err = -ENOENT;

	if (find_name_in_work("m1", letter, path)) {
		at("m1");
		err = tree_unlink(&tree, path);
		at("dht");
	}
	return !err;
}

/* It was given before anybody counted what the brick loses. */
MOVES(who_has_it_open_finds_it_though_the_name_that_it_keeps_was_lost, SWEEPS)
{
	struct file *file = NULL;
	const char *b = put_away("text");

	at("second");
	CHECK_INT(tree_open_file(&tree, b, O_RDWR, &file), 0);
	at("dht");
	forget('k');
	CHECK(brings(b, "brought"));
	cut_end();
	CHECK_INT(tree_unlink(&tree, b), 0);
	at("second");
	CHECK(file_reads(file, "text"));
	tree_release(&tree, file);
	at("dht");
	CHECK(settles(0));
}

/* Else it would be a stub under an anchor to which no pointer leads, and which nobody ends. */
MOVES(an_anchor_that_the_power_brings_back_is_put_away_once_more, SWEEPS)
{
	const char *b = put_away("text");

	forget('s');
	CHECK(brings(b, "brought"));
	cut_end();
	CHECK(reads(b, "text") && links(b) == 1);
	CHECK_INT(census().anchors, 0);
	CHECK(settles(0));
}

/* It has one name more by then, by which it is given the one that it was made by once more. */
MOVES(a_copy_that_has_lost_the_name_it_was_made_by_becomes_the_file, "option sweep-interval 1h")
{
	const char *b = put_away("text");
	struct late l;

	CHECK(bring_late_at(&l, b, 'c'));
	CHECK(lose_name('c'));
	bring_ends(&l);
	CHECK_INT(l.deed.err, 0);
	CHECK(is_whole(b, "text"));
	CHECK_INT(holder(b), 1);
}

static void is_found_by_its_name_(void *arg __attribute__((unused)))
{
	const char *b = put_away("text");
	struct inode *copy;

	cut_after(0, true);
	count_from_rename_of('c');
	bring(b);
	cut_end();
	copy = walk_at("m1", b);
	CHECK(copy && has_xattr(1, copy, DHT_POINTER_XATTR)); /* nobody takes it for the file yet */
	inode_unref(copy);
	CHECK(lose_name('k'));
	hold_tell("ends", "hold", "none");
	hold_tell("begins", "hold", "none");
	hold_tell("begins", "release", "all");
	CHECK(is_whole(b, "text"));
	CHECK(settles(0));
	CHECK_INT(holder(b), 1);
}

/* Who gave it its name died then, and others end it. */
static void a_copy_that_has_no_name_but_the_files_becomes_the_file(void **state)
{
	(void)state;
	more_volumes = SWEEPER;
	run(is_found_by_its_name_, "option sweep-interval 1h", "64M");
	more_volumes = "";
}

/* A rename from 0 to 1 that was decided, and could not remove the file's old name where that waits. */
static void rename_but_for_the_end(const char *a, const char *b, char waits[96])
{
	char record[96];

	CHECK_INT(put(a, "text"), 0);
	let_fail(0, "unlink", "EIO");
	tree_rename(&tree, a, b, 0);
	let_work(0);
	CHECK(find_name_in_work("m0", 'd', record) && find_name_in_work("m0", 'w', waits));
}

/* As a brick does that had removed it, and another name of the file, and loses that with its power: the file was brought to its new name between the two. */
static void remove_bring_restore(const char *b, const char *waits, const char *name)
{
	char stub[96] = "";

	at("m0");
	CHECK_INT(tree_unlink(&tree, waits), 0);
	at("dht");
	CHECK(brings(b, "brought"));
	CHECK(find_name_in_work("m0", 's', stub));
	at("m0");
	CHECK_INT(tree_link(&tree, stub, waits), 0);
	CHECK_INT(tree_link(&tree, stub, name), 0);
	at("dht");
}

static void waits_as_a_stub(bool record)
{
	char waits[96] = "", path[96];
	const char *b = name_at(1, "b"), *other = name_at(0, "o");

	rename_but_for_the_end(name_at(0, "a"), b, waits);
	remove_bring_restore(b, waits, other);
	if (!record && find_name_in_work("m0", 'd', path)) {
		at("m0");
		CHECK_INT(tree_unlink(&tree, path), 0);
		at("dht");
	}
	hold_tell("ends", "hold", "none");
	hold_tell("begins", "hold", "none");
	hold_tell("begins", "release", "all");
	CHECK_INT(tree_unlink(&tree, other), 0);
	CHECK(settles(0));
	CHECK(links(other) == 0 && reads(b, "text") && links(b) == 1);
}

static void waits_with_its_record_(void *arg __attribute__((unused)))
{
	waits_as_a_stub(true);
}

static void waits_alone_(void *arg __attribute__((unused)))
{
	waits_as_a_stub(false);
}

/* Or who ended the rename would try again for ever. */
static void an_old_name_that_waits_goes_though_the_file_was_moved_since(void **state)
{
	(void)state;
	more_volumes = SWEEPER;
	run(waits_with_its_record_, "option sweep-interval 1h", "64M");
	run(waits_alone_, "option sweep-interval 1h", "64M");
	more_volumes = "";
}

/* ---- names meanwhile ---- */

/* What was given up leaves no such mark, nor does what was brought at its new place; a stub keeps its mark. (A write would end it, but only after
 * a while.) */
static bool is_frozen(const char *path)
{
	char mark[MARK_NAME];
	struct inode *inode = NULL;
	bool yes = tree_walk(&tree, path, &inode);

	mark_name(mark_hash(MARK_GOES), mark);
	for (int i = 0; i < SUBVOLUMES && !yes; i++)
		yes = has_xattr(i, inode, mark) && !has_xattr(i, inode, DHT_POINTER_XATTR);
	inode_unref(inode);
	return yes;
}

/* As many messages before the other begins as there are in all. */
MOVES(its_name_is_used_meanwhile, SWEEPS)
{
	static int (*const deeds[])(const char *) = { unlink_it, rename_it, link_it };

	others_go_on(true);
	for (int i = (int)first_moment(1); i < 60 && !failures; i += (int)moment_step(1)) {
		const char *b = put_away("text");
		struct deed d = { .perform = deeds[i % 3], .b = b };

		other_name = name_at(i % 4, "o");
		at("second");
		CHECK_INT(task_spawn(NULL, perform, &d), 0);
		for (int k = 0; k < i; k++)
			task_yield();
		CHECK_INT(bring(b), 0);
		while (!d.over)
			task_sleep_ms(1);
		CHECK_INT(d.err, 0);
		CHECK(i % 3 == 0 || !is_frozen(other_name));
		CHECK(i % 3 == 0 ? links(b) == 0 : reads(other_name, "text"));
		CHECK(i % 3 != 1 || links(b) == 0);
		CHECK(i % 3 != 2 || (links(b) == 2 && same_file(b, other_name)));
		tree_unlink(&tree, b);
		tree_unlink(&tree, other_name);
		at("dht");
		CHECK(settles(0));
		if (failures)
			fprintf(stderr, "deed %d\n", i);
	}
	others_go_on(false);
}

/* Nobody takes who brings it for dead, nor ends what he has begun. */
#define PATIENT                                                                                                                \
	"volume patient\n type cluster/dht\n option lean 0\n option initial 4\n option sweep-interval 1h\n"                    \
	" subvolumes e0 e1 e2 e3\nend-volume\n"

/* Another renames it as it stands after so many messages; or waits, and does so when it has been brought. */
static void rename_between(unsigned messages, bool *between)
{
	enum { WAITS_MS = 50 };
	const char *b = put_away("text");
	struct deed d = { .perform = rename_it, .b = b };
	struct late l;

	other_name = name_at(2, "o");
	*between = bring_late(&l, b, messages);
	at("patient");
	CHECK_INT(task_spawn(NULL, perform, &d), 0);
	for (int ms = 0; ms < WAITS_MS && !d.over; ms++)
		task_sleep_ms(1);
	bring_ends(&l);
	while (!d.over)
		task_sleep_ms(1);
	CHECK_INT(d.err, 0);
	CHECK_INT(links(b), 0);
	CHECK(reads(other_name, "text"));
	CHECK_INT(tree_unlink(&tree, other_name), 0);
	at("dht");
}

static void renamed_between_(void *arg __attribute__((unused)))
{
	unsigned messages = first_moment(1);
	bool between = true;

	for (; !failures && between; messages += moment_step(1)) {
		rename_between(messages, &between);
		if (failures)
			fprintf(stderr, "after %u messages\n", messages);
	}
	CHECK(messages > 30);
}

/* From when it is frozen until it has become a stub its name is marked: who would rename it waits. Else he would find a stub where he has begun with the file, and fail. */
static void its_name_is_renamed_before_it_is_brought_or_after(void **state)
{
	(void)state;
	more_volumes = PATIENT;
	run(renamed_between_, "option sweep-interval 1h", "64M");
	more_volumes = "";
}

/* ---- who has looked just before ---- */

static void tell_hold(const char *word, const char *what)
{
	struct xlator *x = tree_find(&tree, "h0");
	char *argv[] = { (char *)word, (char *)what, NULL };
	FILE *f = fopen("/dev/null", "w");

	x->type->command(x, what ? 2 : 1, argv, f);
	fclose(f);
}

static bool is_held(void)
{
	struct xlator *x = tree_find(&tree, "h0");
	char *argv[] = { (char *)"list", NULL }, *text = NULL;
	bool yes = false;
	size_t size;

	for (int i = 0; i < tries_of(2) && !yes; i++) {
		FILE *f = open_memstream(&text, &size);

		x->type->command(x, 1, argv, f);
		fclose(f);
		yes = strstr(text, "parked: ");
		free(text);
		task_sleep_ms(2);
	}
	return yes;
}

/* From where the name is he has come to where the file was, and there it is moved, or was: by one who dies after so many messages. */
static bool goes_on(struct deed *d, const char *fop, unsigned messages)
{
	const char *b = d->b;

	tell_hold("hold", fop);
	at("slow");
	if (task_spawn(NULL, perform, d) || !is_held())
		return false;
	at("dht");
	cut_after(messages, false);
	bring(b);
	cut_end();
	at("slow");
	tell_hold("hold", "none");
	tell_hold("release", "all");
	while (!d->over)
		task_sleep_ms(1);
	if (d->err)
		fprintf(stderr, "%u messages: %s\n", messages, strerror(-d->err));
	at("dht");
	return !d->err;
}

static int look_at_it(const char *b)
{
	struct attr a;

	return tree_getattr(&tree, b, &a);
}

MOVES(an_empty_file_is_found_while_it_is_moved, SWEEPS)
{
	unsigned sent = 0;

	cut_at(1000, false, &sent);
	for (unsigned i = 0; i < 18 && !failures; i++) {
		const char *b = put_away("");
		struct deed d = { .perform = look_at_it, .b = b };

		CHECK(goes_on(&d, "lookup", sent - i));
		CHECK(is_whole(b, ""));
		CHECK_INT(tree_unlink(&tree, b), 0);
		CHECK(settles(0));
	}
}

MOVES(what_was_moved_since_it_was_looked_at_is_renamed, SWEEPS)
{
	const char *b = put_away("text");
	struct deed d = { .perform = rename_it, .b = b };

	other_name = name_at(2, "o");
	CHECK(goes_on(&d, "link", 1000));
	CHECK(is_whole(other_name, "text"));
}

/* Name and file were at one subvolume; as long as somebody has it open, the stub stays there. */
MOVES(what_was_moved_since_it_was_looked_at_gets_a_link, SWEEPS)
{
	const char *b = put_away("text");
	struct deed d = { .perform = link_it, .b = b };
	struct file *file = NULL;

	other_name = name_at(0, "o");
	CHECK_INT(tree_open_file(&tree, b, O_RDONLY, &file), 0);
	CHECK(goes_on(&d, "link", 1000));
	CHECK(reads(b, "text") && links(b) == 2 && same_file(b, other_name));
	tree_release(&tree, file);
	CHECK(settles(1));
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
		cmocka_unit_test(who_dies_half_way_has_moved_it_or_not),
		cmocka_unit_test(who_stands_still_half_way_leaves_it_to_others),
		cmocka_unit_test(what_died_at_its_very_end_keeps_nobody_from_the_name),
		cmocka_unit_test(an_answer_that_is_lost_loses_nothing_else),
		cmocka_unit_test(who_has_it_open_finds_it_though_the_name_that_it_keeps_was_lost),
		cmocka_unit_test(an_anchor_that_the_power_brings_back_is_put_away_once_more),
		cmocka_unit_test(a_copy_that_has_lost_the_name_it_was_made_by_becomes_the_file),
		cmocka_unit_test(a_copy_that_has_no_name_but_the_files_becomes_the_file),
		cmocka_unit_test(an_old_name_that_waits_goes_though_the_file_was_moved_since),
		cmocka_unit_test(its_name_is_used_meanwhile),
		cmocka_unit_test(its_name_is_renamed_before_it_is_brought_or_after),
		cmocka_unit_test(an_empty_file_is_found_while_it_is_moved),
		cmocka_unit_test(what_was_moved_since_it_was_looked_at_is_renamed),
		cmocka_unit_test(what_was_moved_since_it_was_looked_at_gets_a_link),
		cmocka_unit_test(no_room_while_it_is_copied_is_no_room),
		cmocka_unit_test(a_rebalance_brings_all_files_home),
		cmocka_unit_test(a_rebalance_ends_what_a_dead_one_has_left),
		cmocka_unit_test(a_directory_that_cant_be_read_does_not_hold_up_the_others),
	};

	if (getenv("MIGRATE_TEST")) /* a pattern of names */
		cmocka_set_test_filter(getenv("MIGRATE_TEST"));
	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
