/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: the last of four subvolumes is to leave the volume: names, directories and files go to the others, while they are used and listed; and what can not go. */
#include "leave-test.h"

#include "place.h"

/* ---- the rebalancer ---- */

char told[2048];

int command(const char *client, const char *verb, const char *second)
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

bool says(const char *client, const char *line)
{
	for (int i = 0; i < 20000; i++) {
		if (!command(client, "rebalance", "status") && strstr(told, line))
			return true;
		task_sleep_ms(1);
	}
	fprintf(stderr, "%s", told);
	return false;
}

bool leaves(const char *client)
{
	return !command(client, "rebalance", "start") && says(client, "state done");
}

bool is_whole(void)
{
	bool yes = !command("dht", "fsck", "repair") && !strstr(told, "finding ") && !strstr(told, "problem ");

	if (!yes)
		fprintf(stderr, "%s", told);
	return yes;
}

/* ---- a tree ---- */

const char *path(const char *format, int i)
{
	static char paths[8][96];
	static unsigned next;
	char *text = paths[next++ % 8];

	snprintf(text, 96, format, i);
	return text;
}

const char *path_in(const char *dir, const char *name)
{
	static char paths[8][160];
	static unsigned next;
	char *text = paths[next++ % 8];

	snprintf(text, 160, "%s/%s", dir, name);
	return text;
}

int fill(int from, int to)
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

bool all_there(int count)
{
	for (int i = 0; i < count; i++)
		if (!is_there(i) || links(path("f%d", i)) != 1) {
			fprintf(stderr, "%d is not as it was\n", i);
			return false;
		}
	return true;
}

int listed(const char *dir_path)
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

struct load load;

/* Each has names of his own, in a directory that goes, and one that all use. */
void wants(const char *what, const char *name, int got, int want)
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

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_it_has_goes_to_the_others),
		cmocka_unit_test(all_is_used_while_it_goes),
		cmocka_unit_test(a_listing_tells_each_name_once_though_they_go_meanwhile),
		cmocka_unit_test(a_listing_tells_each_name_once_though_they_go_and_come_back),
		cmocka_unit_test(what_can_not_go_is_kept_and_told),
		cmocka_unit_test(what_is_open_does_not_have_all_pointers_looked_at_in_each_round),
	};
	int failed;

	if (getenv("LEAVE_TEST")) /* a pattern of names */
		cmocka_set_test_filter(getenv("LEAVE_TEST"));
	failed = cmocka_run_group_tests(tests, tasks_start, tasks_stop);
	failed += _cmocka_run_group_tests("directories", directories, directories_count, tasks_start, tasks_stop);
	failed += _cmocka_run_group_tests("numbers", numbers, numbers_count, tasks_start, tasks_stop);
	return failed + _cmocka_run_group_tests("records", records, records_count, tasks_start, tasks_stop);
}
