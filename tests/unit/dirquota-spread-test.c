/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of directories on several bricks: all that one holds is at the brick of its directory, so that brick counts and refuses alone; nothing gets out of, or into, it by
 * way of another brick, whoever tries. Needs root. */
#include "test.h"
#include "test-check.h"
#include "test-tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "born.h"
#include "layout.h"
#include "place.h"
#include "quota.h"
#include "tree.h"

enum { USER = 1000, BRICKS = 2 };
#define BRICK                                                                                                                     \
	"volume posix%d\n type storage/posix\n option directory %s/b%d\n option volume-id 11111111-2222-3333-4444-555555555555\n" \
	" option brick-id 11111111-2222-3333-4444-66666666666%d\nend-volume\n"                                                    \
	"volume usage%d\n type features/usage\n option ledger %s/ledger%d\n option accounts \"some 1000 10%s\"\n"                 \
	" option pool 11111111-2222-3333-4444-555555555555\n option pool-bricks 2\n subvolumes posix%d\nend-volume\n"             \
	"volume locks%d\n type features/locks\n option grace-period 0\n subvolumes usage%d\nend-volume\n"                         \
	"volume access%d\n type features/access\n subvolumes locks%d\nend-volume\n"                                               \
	"volume l%d\n type features/layout\n option subvolume %d\n option initial 2\n subvolumes access%d\nend-volume\n"
#define TOP                                                                                                                    \
	"volume dht\n type cluster/dht\n option initial 2\n option lean 0\n option min-free 0%%\n%s subvolumes l0 l1\nend-volume\n"

static char base[512];
static struct tree tree;
static atomic_int failures;

static void with(const char *limit, const char *options, void (*fn)(void *))
{
	struct problem p = { "" };
	static char text[16384];
	int n = 0;

	if (geteuid())
		skip();
	failures = 0;
	assert_non_null(getcwd(base, sizeof(base) - 48));
	strcat(base, "/dirquota-spread-test-XXXXXX");
	assert_non_null(mkdtemp(base));
	for (int i = 0; i < BRICKS; i++) {
		char brick[600];

		snprintf(brick, sizeof(brick), "%s/b%d", base, i);
		assert_int_equal(mkdir(brick, 0755), 0);
		assert_int_equal(chmod(brick, 0777), 0);
		n += snprintf(text + n, sizeof(text) - (size_t)n, BRICK, i, base, i, i, i, base, i, limit, i, i, i, i, i, i, i,
			      i);
	}
	snprintf(text + n, sizeof(text) - (size_t)n, TOP, options);
	if (tree_open(&tree, text, &p))
		fail_msg("%s", p.text);
	task_call(fn, NULL);
	tree_close(&tree);
	test_remove(base);
	assert_int_equal(failures, 0);
}

/* ---- names, and where they are ---- */

static const char *name_at(unsigned child, const char *prefix, char name[32])
{
	struct layout l;

	layout_implied(&l, 0, BRICKS);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, 32, "/%s%d", prefix, i);
		if (layout_owner(&l, layout_key(&gfid_root, name + 1))->id == child)
			break;
	}
	return name;
}

/* At which brick there is something of that path; -1: at none. */
static int holder(const char *path)
{
	char at[700];
	struct stat st;

	for (int i = 0; i < BRICKS; i++) {
		snprintf(at, sizeof(at), "%s/b%d%s", base, i, path);
		if (!lstat(at, &st))
			return i;
	}
	return -1;
}

static unsigned names_left;
static int count_hidden(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	const char *name = strrchr(path, '/') + 1;

	(void)st, (void)type, (void)ftw;
	names_left += strstr(path, DHT_HIDDEN) && strlen(name) > 16;
	return 0;
}

/* Anchors, directories that are away, and what waits or is recorded. */
static unsigned left_over(void)
{
	names_left = 0;
	nftw(base, count_hidden, 16, FTW_PHYS);
	return names_left;
}

static int set_limit(const char *path, const char *limit)
{
	uid_t uid = tree.uid;
	int err;

	tree.uid = 0;
	err = tree_setxattr(&tree, path, QUOTA_XATTR, limit, strlen(limit), 0);
	tree.uid = uid;
	return err;
}

static bool tells(const char *path, const char *name, const char *part)
{
	struct blob value = { 0 };
	uid_t uid = tree.uid;
	char *text;
	bool yes;

	tree.uid = 0;
	if (tree_getxattr(&tree, path, name, &value))
		value = (struct blob){ 0, NULL };
	tree.uid = uid;
	text = value.bytes ? strndup(value.bytes, value.size) : strdup("");
	yes = strstr(text, part);
	if (!yes)
		fprintf(stderr, "%s of %s: %s", name, path, text);
	free(text);
	free(value.bytes);
	return yes;
}

static int put(const char *path, size_t size)
{
	struct file *file = NULL;
	char *bytes = calloc(1, size + 1);
	int err = tree_create(&tree, path, O_RDWR | O_CREAT | O_EXCL, 0644, &file);

	if (!err) {
		err = tree_write(&tree, file, 0, bytes, size);
		tree_release(&tree, file);
	}
	free(bytes);
	return err < 0 ? err : 0;
}

static const char *in(const char *directory, const char *name)
{
	static char path[4][96];
	static unsigned next;

	return snprintf(path[next % 4], sizeof(path[0]), "%s/%s", directory, name) < 0 ? NULL : path[next++ % 4];
}

/* ---- the properties ---- */

static char here[32], there[32], q[32]; /* directories at the bricks 0 and 1; that with the limit, at 0 */

static void make_three(const char *limit)
{
	tree.uid = USER;
	CHECK_INT(tree_mkdir(&tree, name_at(0, "here", here), 0777), 0);
	CHECK_INT(tree_mkdir(&tree, name_at(1, "there", there), 0777), 0);
	CHECK_INT(tree_mkdir(&tree, name_at(0, "q", q), 0777), 0);
	CHECK_INT(set_limit(q, limit), 0);
}

static void crosses_nothing(void *arg)
{
	(void)arg;
	make_three("1000000 100");
	CHECK_INT(put(in(q, "in"), 100), 0);
	CHECK_INT(tree_mkdir(&tree, in(q, "sub"), 0777), 0);
	CHECK_INT(tree_mkdir(&tree, in(q, "other"), 0777), 0);
	CHECK_INT(put(in(there, "out"), 100), 0);
	CHECK_INT(put(in(here, "out"), 100), 0);
	CHECK_INT(tree_mkdir(&tree, in(there, "dir"), 0777), 0);
	for (int i = 0; i < 2; i++) {
		const char *outside = i ? there : here;

		CHECK_INT(tree_rename(&tree, in(q, "in"), in(outside, "in"), 0), -EXDEV);
		CHECK_INT(tree_rename(&tree, in(q, "in"), in(outside, "out"), 0), -EXDEV);
		CHECK_INT(tree_rename(&tree, in(q, "sub"), in(outside, "sub"), 0), -EXDEV);
		CHECK_INT(tree_rename(&tree, in(outside, "out"), in(q, "out"), 0), -EXDEV);
		CHECK_INT(tree_rename(&tree, in(outside, "out"), in(q, "in"), 0), -EXDEV);
		CHECK_INT(tree_rename(&tree, in(outside, "out"), in(q, "in"), 2), -EXDEV);
		CHECK_INT(tree_link(&tree, in(q, "in"), in(outside, "in")), -EXDEV);
		CHECK_INT(tree_link(&tree, in(outside, "out"), in(q, "out")), -EXDEV);
	}
	CHECK_INT(tree_rename(&tree, in(there, "dir"), in(q, "dir"), 0), -EXDEV);
	CHECK_INT(left_over(), 0);
	CHECK_INT(tree_rename(&tree, in(q, "in"), in(q, "sub/in"), 0), 0);
	CHECK_INT(tree_rename(&tree, in(q, "sub"), in(q, "other/sub"), 0), 0);
	CHECK_INT(tree_link(&tree, in(q, "other/sub/in"), in(q, "linked")), 0);
	CHECK(tells(q, QUOTA_XATTR, "inodes 4\n"));
	CHECK_INT(left_over(), 0);
}

static void names_cross_the_border_by_no_brick(void **s)
{
	(void)s;
	with("", "", crosses_nothing);
}

/* What is away has a pointer outside; into the directory neither comes. */
static void holds_together(void *arg)
{
	char away[32];

	(void)arg;
	make_three("1000000 100");
	CHECK_INT(put(in(there, "file"), 100), 0);
	CHECK_INT(tree_rename(&tree, in(there, "file"), in(here, "away"), 0), 0);
	CHECK_INT(left_over(), 1);
	CHECK_INT(tree_rename(&tree, in(here, "away"), in(q, "in"), 0), -EXDEV);
	CHECK_INT(tree_link(&tree, in(here, "away"), in(q, "in")), -EXDEV);
	CHECK_INT(tree_mkdir(&tree, in(q, "sub"), 0777), 0);
	CHECK_INT(holder(in(q, "sub")), 0);
	CHECK_INT(put(in(q, "sub/file"), 5000), 0);
	CHECK_INT(holder(in(q, "sub/file")), 0);
	CHECK(tells(q, QUOTA_XATTR, "inodes 3\n"));
	/* The directory itself goes where it likes, and keeps what it has. */
	CHECK_INT(tree_rename(&tree, q, name_at(1, "moved", away), 0), 0);
	CHECK_INT(tree_rename(&tree, away, in(there, "q"), 0), 0);
	CHECK(tells(in(there, "q/sub"), QUOTA_XATTR, "inodes 3\n"));
	CHECK(tells(in(there, "q/sub"), QUOTA_XATTR, "/q\n"));
	CHECK_INT(put(in(there, "q/sub/more"), 10), 0);
	CHECK(tells("/", QUOTA_XATTR ".0", "inodes 4\n"));
	CHECK(tells("/", QUOTA_XATTR ".0", "/q\n"));
}

static void a_directory_with_a_limit_keeps_what_is_in_it_at_one_brick(void **s)
{
	(void)s;
	with("", "", holds_together);
}

static void scatters(void *arg)
{
	(void)arg;
	tree.uid = USER;
	CHECK_INT(tree_mkdir(&tree, name_at(0, "q", q), 0777), 0);
	CHECK_INT(holder(q), 0); /* the pointer */
	CHECK_INT(left_over(), 1);
	CHECK_INT(set_limit(q, "100000000 100"), 0);
	CHECK_INT(tree_mkdir(&tree, in(q, "sub"), 0777), 0);
	CHECK_INT(tree_mkdir(&tree, in(q, "sub/sub"), 0777), 0);
	CHECK_INT(left_over(), 1);
	CHECK(tells(q, QUOTA_XATTR, "inodes 3\n"));
	CHECK(tells(in(q, "sub/sub"), QUOTA_XATTR, "path /q"));
	CHECK_INT(tree_mkdir(&tree, "/elsewhere", 0777), 0);
	CHECK_INT(left_over(), 2);
	CHECK_INT(tree_rmdir(&tree, in(q, "sub/sub")), 0);
	CHECK_INT(tree_rmdir(&tree, in(q, "sub")), 0);
	CHECK_INT(tree_rmdir(&tree, q), 0);
	CHECK_INT(tree_getxattr(&tree, "/", QUOTA_XATTR ".0", &(struct blob){ 0 }), -EPERM);
	tree.uid = 0;
	CHECK_INT(tree_getxattr(&tree, "/", QUOTA_XATTR ".0", &(struct blob){ 0 }), -ENODATA);
}

static void what_would_be_put_away_is_made_in_place_below_a_limit(void **s)
{
	(void)s;
	with("", " option scatter 1\n", scatters);
}

static void lists(void *arg)
{
	char second[32];
	struct statfs_in statfs = { 0 };
	struct statfs_out told = { 0 };

	(void)arg;
	make_three("4096000 100");
	CHECK_INT(tree_mkdir(&tree, name_at(1, "r", second), 0777), 0);
	CHECK_INT(set_limit(second, "0 50"), 0);
	CHECK_INT(put(in(q, "file"), 50000), 0);
	CHECK(tells("/", QUOTA_XATTR ".0", "bytes-limit 4096000\n"));
	CHECK(tells("/", QUOTA_XATTR ".0", "number 0\n"));
	CHECK(tells(q, QUOTA_XATTR ".1", "inodes-limit 50\n"));
	CHECK(tells("/", QUOTA_XATTR ".1", "number 1048576\n"));
	CHECK(tells("/", QUOTA_XATTR ".1048576", "number 1048576\n"));
	tree.uid = 0;
	CHECK_INT(tree_getxattr(&tree, "/", QUOTA_XATTR ".1048577", &(struct blob){ 0 }), -ENODATA);
	CHECK_INT(tree_getxattr(&tree, "/", QUOTA_XATTR ".99999999999999999999", &(struct blob){ 0 }), -ENODATA);
	CHECK_INT(tree_getxattr(&tree, "/", QUOTA_XATTR ".x", &(struct blob){ 0 }), -EOPNOTSUPP);
	CHECK_INT(tree_walk(&tree, in(q, "file"), &statfs.inode), 0);
	CHECK_INT(tree_call(&tree, tree.at, FOP_statfs, &statfs, &told), 0);
	CHECK_INT(told.statfs.blocks * told.statfs.frsize, 4096000);
	CHECK_INT(told.statfs.files, 100);
	CHECK_INT(told.statfs.ffree, 98);
	CHECK(told.statfs.bavail * told.statfs.frsize < 4096000 - 50000);
	inode_unref(statfs.inode);
}

static void limits_of_all_bricks_are_listed_and_shown(void **s)
{
	(void)s;
	with("", "", lists);
}

/* ---- what a client may try that has no cluster/dht ---- */

static struct place saying = { .flags = PLACE_POINTER };

static int say(unsigned child, enum fop fop, const void *arguments, const struct born_xattr *born)
{
	char volume[8];
	union {
		struct setxattr_out set;
		struct mknod_out made;
	} out = { 0 };
	struct request rq;
	int err;

	snprintf(volume, sizeof(volume), "l%u", child);
	request_init(&rq, tree.graph, 0);
	rq.group_count = 0;
	err = place_attach(&rq, &saying);
	if (!err && born)
		err = born_attach(&rq, born, 1);
	if (!err)
		err = fop_call(&rq, tree_find(&tree, volume), fop, arguments, &out);
	if (!err)
		fop_out_clear((int)fop, &out);
	request_finish(&rq);
	return err;
}

static int set_at(unsigned child, const char *path, const char *name, const void *value, uint32_t size)
{
	struct setxattr_in arguments = { .name = name, .value = { size, (void *)value } };
	int err = tree_walk(&tree, path, &arguments.inode);

	if (!err)
		err = say(child, FOP_setxattr, &arguments, NULL);
	inode_unref(arguments.inode);
	return err;
}

static int write_layout(const char *path, unsigned first, unsigned count)
{
	uint8_t bytes[LAYOUT_SIZE_MAX];
	struct layout l = { .version = 1, .home = first, .count = count };

	for (unsigned i = 0; i < count; i++)
		l.member[i] = (struct layout_member){ first + i, 1, 1 };
	return set_at(0, path, DHT_LAYOUT_XATTR, bytes, (uint32_t)layout_encode(&l, bytes));
}

static int make_pointer(const char *path, const char *name)
{
	uint8_t bytes[POINTER_SIZE];
	struct born_xattr pointing = { DHT_POINTER_XATTR, bytes, POINTER_SIZE };
	struct mknod_in arguments = { .mode = S_IFREG | 0600 };
	struct pointer to = { .subvolume = 1 };
	int err;

	gfid_create(&to.gfid);
	gfid_create(&arguments.gfid);
	pointer_encode(&to, bytes);
	err = tree_walk(&tree, path, &arguments.loc.parent);
	arguments.loc.name = name;
	if (!err)
		err = say(0, FOP_mknod, &arguments, &pointing);
	inode_unref(arguments.loc.parent);
	return err;
}

static void lies(void *arg)
{
	char wide[32];

	(void)arg;
	make_three("1000000 100");
	CHECK_INT(tree_mkdir(&tree, in(q, "sub"), 0777), 0);
	CHECK_INT(put(in(q, "file"), 10), 0);
	CHECK_INT(write_layout(q, 0, 2), -EXDEV);
	CHECK_INT(write_layout(in(q, "sub"), 0, 2), -EXDEV);
	CHECK_INT(make_pointer(q, "pointer"), -EXDEV);
	CHECK_INT(make_pointer(in(q, "sub"), "pointer"), -EXDEV);
	CHECK_INT(make_pointer(here, "pointer"), 0);
	CHECK_INT(set_at(0, in(q, "file"), DHT_POINTER_XATTR, "x", 1) != 0, 1);
	CHECK_INT(tree_mkdir(&tree, name_at(0, "wide", wide), 0777), 0);
	CHECK_INT(write_layout(wide, 0, 2), 0);
	CHECK_INT(set_at(0, wide, QUOTA_XATTR, "1 1", 3), -ELAYOUT);
	saying = (struct place){ .flags = PLACE_HERE };
	CHECK_INT(set_at(0, wide, QUOTA_XATTR, "1 1", 3), -EBUSY);
	saying = (struct place){ .flags = PLACE_POINTER };
	tree.uid = 0;
	CHECK_INT(tree_removexattr(&tree, q, QUOTA_XATTR), 0);
	CHECK_INT(make_pointer(q, "pointer"), 0);
}

static void nothing_below_a_limit_leads_to_another_brick(void **s)
{
	(void)s;
	with("", "", lies);
}

/* Who has marked a name there may have taken it away, and is to be able to put it back. */
static void marks(void *arg)
{
	uint8_t bytes[MARK_SIZE];
	struct mark m = { .hash = mark_hash("name"), .intent = { { 1 } }, .attempt = 1, .subvolume = 1 };
	struct removexattr_in remove;
	char name[MARK_NAME], marked[32];

	(void)arg;
	make_three("0 0");
	saying = (struct place){ .intent = m.intent, .attempt = 1 };
	mark_encode(&m, bytes);
	remove.name = mark_name(m.hash, name);
	CHECK_INT(tree_mkdir(&tree, name_at(0, "marked", marked), 0777), 0);
	CHECK_INT(set_at(0, marked, name, bytes, MARK_SIZE), 0);
	CHECK_INT(set_at(0, marked, QUOTA_XATTR, "1 1", 3), -EMARKED);
	CHECK_INT(tree_walk(&tree, marked, &remove.inode), 0);
	CHECK_INT(say(0, FOP_removexattr, &remove, NULL), 0);
	inode_unref(remove.inode);
	CHECK_INT(set_at(0, marked, QUOTA_XATTR, "1 1", 3), 0);
	saying = (struct place){ .flags = PLACE_POINTER };
}

static void limits_of_directories_wait_for_renames(void **s)
{
	(void)s;
	with("", "", marks);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_cross_the_border_by_no_brick),
		cmocka_unit_test(a_directory_with_a_limit_keeps_what_is_in_it_at_one_brick),
		cmocka_unit_test(what_would_be_put_away_is_made_in_place_below_a_limit),
		cmocka_unit_test(limits_of_all_bricks_are_listed_and_shown),
		cmocka_unit_test(nothing_below_a_limit_leads_to_another_brick),
		cmocka_unit_test(limits_of_directories_wait_for_renames),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
