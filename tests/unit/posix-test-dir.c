/* SPDX-License-Identifier: Apache-2.0 */
/* storage/posix: listings, and the directories that are kept open. */
#include "posix-test.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>

PROPERTY(the_private_directory_is_hidden)
{
	cleanup_inode struct inode *f = NULL, *d = NULL;
	struct opendir_out od = { 0 };
	struct readdir_out out = { 0 };
	struct attr a;
	REQUEST(q, 0);

	CHECK_INT(ask_make_file(root, "f", &f, NULL), 0);
	CHECK_INT(ask_make_directory(root, "d", 0755, &d), 0);
	CHECK_INT(ask_find(root, ".stratus", NULL, NULL), -ENOENT);
	CHECK_INT(ask_make_file(root, ".stratus", NULL, NULL), -EPERM);
	CHECK_INT(ask_make_directory(root, ".stratus", 0755, NULL), -EPERM);
	CHECK_INT(ask_drop(root, ".stratus", true), -ENOENT);
	CHECK_INT(ask_move(&q.r, root, ".stratus", root, "x", 0, NULL), -ENOENT);
	CHECK_INT(ask_move(&q.r, root, "f", root, ".stratus", 0, NULL), -EPERM);
	CHECK_INT(ask_link(&q.r, f, root, ".stratus"), -EPERM);
	CHECK_INT(ask_find(root, "d/../.stratus", NULL, NULL), -EINVAL);
	CHECK_INT(ask_find(d, "..", NULL, NULL), -EINVAL);
	CHECK_INT(ask_make_file(d, ".stratus", NULL, NULL), 0); /* elsewhere it is a name like others */
	CHECK_INT(ask_attr(root, NULL, &a), 0);
	CHECK_INT(a.nlink, 3);
	CHECK(gfid_equal(&a.gfid, &gfid_root));
	CHECK_INT(opendir_on(&q.r, brick, &(struct opendir_in){ root }, &od), 0);
	CHECK_INT(readdir_on(&q.r, brick, &(struct readdir_in){ od.file, 0, 4096, READDIR_PLUS }, &out), 0);
	CHECK_INT(out.entries.count, 2);
	for (uint32_t i = 0; i < 2; i++)
		CHECK(!strcmp(out.entries.entry[i].name, "f") || !strcmp(out.entries.entry[i].name, "d"));
	fop_out_clear(FOP_readdir, &out);
	fop_out_clear(FOP_opendir, &od);
}

/* Lists the directory from `offset` in pieces of so many bytes; counts what it sees of "nNNN" in seen. */
static int list_all(struct file *file, uint64_t offset, uint32_t size, uint32_t flags, int *seen, int *total)
{
	REQUEST(q, 0);
	bool end = false;

	for (*total = 0; !end;) {
		struct readdir_out out = { 0 };
		int err = readdir_on(&q.r, brick, &(struct readdir_in){ file, offset, size, flags }, &out);

		if (err)
			return err;
		for (uint32_t i = 0; i < out.entries.count; i++) {
			struct dirent_plus *e = &out.entries.entry[i];

			seen[atoi(e->name + 1)]++;
			(*total)++;
			offset = e->next_offset;
			if (flags &&
			    (!e->inode || e->type != (e->attr.mode & S_IFMT) || !gfid_equal(&e->gfid, &e->inode->gfid)))
				return -EUCLEAN;
		}
		end = out.entries.end;
		if (!end && !out.entries.count)
			return -ELOOP;
		fop_out_clear(FOP_readdir, &out);
	}
	return 0;
}

PROPERTY(listings_give_each_entry_once)
{
	enum { COUNT = 700 };
	static int seen[COUNT];
	cleanup_inode struct inode *d = NULL;
	struct opendir_out od = { 0 };
	char name[16];
	int total;
	REQUEST(q, 0);

	CHECK_INT(ask_make_directory(root, "d", 0755, &d), 0);
	for (int i = 0; i < COUNT; i++) {
		snprintf(name, sizeof name, "n%d", i);
		CHECK_INT(i % 3 ? ask_make_file(d, name, NULL, NULL) : ask_make_directory(d, name, 0755, NULL), 0);
	}
	CHECK_INT(opendir_on(&q.r, brick, &(struct opendir_in){ d }, &od), 0);
	for (int round = 0; round < 4; round++) { /* also rewound */
		memset(seen, 0, sizeof seen);
		CHECK_INT(list_all(od.file, 0, (uint32_t[]){ 1, 300, 5000, UINT32_MAX }[round], round % 2, seen, &total), 0);
		CHECK_INT(total, COUNT);
		for (int i = 0; i < COUNT; i++)
			CHECK_INT(seen[i], 1);
	}
	fop_out_clear(FOP_opendir, &od);
}

static unsigned open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void await_descriptors(unsigned most) /* the test's time limit is the only one */
{
	while (open_descriptors() > most)
		task_sleep_ms(1);
}

PROPERTY(directories_that_were_removed_are_not_kept_open)
{
	unsigned before = open_descriptors();
	char name[16];

	for (int i = 0; i < 1500; i++) {
		cleanup_inode struct inode *d = NULL;

		snprintf(name, sizeof name, "d%d", i);
		CHECK_INT(ask_make_directory(root, name, 0755, &d), 0);
		CHECK_INT(ask_make_file(d, "f", NULL, NULL), 0);
		CHECK_INT(ask_drop(d, "f", false), 0);
		CHECK_INT(ask_drop(root, name, true), 0);
		struct attr a;

		CHECK_INT(ask_attr(d, NULL, &a), -ESTALE);
	}
	await_descriptors(before + 2);
}

/* More at once than may wait to be closed: then who removes closes, too. */
PROPERTY(what_was_removed_is_closed_soon)
{
	enum { ROUNDS = 3, EACH = 1100 };
	unsigned before = open_descriptors();
	char name[16];

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < EACH; i++) {
			snprintf(name, sizeof name, "f%d", i);
			CHECK_INT(ask_make_file(root, name, NULL, NULL), 0);
		}
		for (int i = 0; i < EACH; i++) {
			snprintf(name, sizeof name, "f%d", i);
			CHECK_INT(ask_drop(root, name, false), 0);
		}
		CHECK(open_descriptors() <= before + 1024 + 1); /* one is being closed */
	}
	await_descriptors(before);
}

/* The directory that had it mostly goes next, and would wait for it. */
PROPERTY(what_was_removed_just_now_is_left_alone)
{
	unsigned before = open_descriptors();
	uint64_t begin;

	CHECK_INT(ask_make_file(root, "f", NULL, NULL), 0);
	begin = clock_ns();
	CHECK_INT(ask_drop(root, "f", false), 0);
	await_descriptors(before);
	CHECK(clock_ns() - begin >= 100000000);
}

static unsigned descriptors_before;

static void remove_one_(void *arg)
{
	(void)arg;
	CHECK_INT(ask_make_file(root, "f", NULL, NULL), 0);
	CHECK_INT(ask_drop(root, "f", false), 0);
}

static void count_descriptors_(void *arg)
{
	(void)arg;
	CHECK_INT(open_descriptors(), descriptors_before);
}

/* Who wants to unmount its disk need not wait. */
void a_brick_that_stops_has_closed_what_was_removed(void **state)
{
	(void)state;
	descriptors_before = open_descriptors();
	test_run(remove_one_);
	test_close_brick();
	test_open_brick();
	test_run(count_descriptors_);
}

PROPERTY(the_cache_of_directories_is_bounded)
{
	static struct inode *d[1300];
	unsigned before = open_descriptors();
	char name[16];

	for (int i = 0; i < 1300; i++) {
		snprintf(name, sizeof name, "d%d", i);
		CHECK_INT(ask_make_directory(root, name, 0755, &d[i]), 0);
		CHECK_INT(ask_make_file(d[i], "f", NULL, NULL), 0);
	}
	CHECK(open_descriptors() <= before + 1024 + 2);
	for (int i = 0; i < 1300; i++) {
		CHECK_INT(ask_find(d[i], "f", NULL, NULL), 0);
		inode_unref(d[i]);
	}
}
