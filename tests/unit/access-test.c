/* SPDX-License-Identifier: Apache-2.0 */
/* features/access against the kernel: the same objects are made on a real file system and over debug/memory, the same callers ask
 * for the same things, and both must answer alike. Needs root (to be everyone) and a file system with ACLs; else skipped. */
#include "access-test.h"
#include "test-tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { OPEN_FOR_EXEC = 040 }; /* __FMODE_EXEC, as features/access knows it */

#define GRAPH                                                                                                                  \
	"volume memory\ntype debug/memory\nend-volume\n"                                                                       \
	"volume hold\ntype debug/hold\nsubvolumes memory\nend-volume\n"                                                        \
	"volume stats\ntype debug/io-stats\nsubvolumes hold\nend-volume\n"                                                     \
	"volume access\ntype features/access\nsubvolumes stats\nend-volume\n"

static char dir[64];
unsigned seed;
atomic_int failures;

/* ---- access(2) ---- */

enum { OBJECTS = 300, CALLERS = 24 };

static void ask_kernel(const struct object *objects, const struct caller *c, int8_t (*answer)[8])
{
	int fds[2];

	CHECK(!pipe(fds));
	if (!fork()) {
		caller_become_for_good(c);
		for (int i = 0; i < OBJECTS; i++)
			for (int mask = 0; mask < 8; mask++)
				answer[i][mask] = access(objects[i].path, mask) ? -errno : 0;
		_exit(write(fds[1], answer, OBJECTS * 8) != OBJECTS * 8);
	}
	close(fds[1]);
	CHECK(read(fds[0], answer, OBJECTS * 8) == OBJECTS * 8);
	close(fds[0]);
	wait(NULL);
}

static void compare_access(struct tree *t, const struct object *objects, const struct caller *c, int8_t (*answer)[8])
{
	caller_become(t, c);
	for (int i = 0; i < OBJECTS; i++) {
		for (int mask = 0; mask < 8; mask++) {
			int err = tree_access(t, objects[i].path, mask);

			if (err == answer[i][mask])
				continue;
			fprintf(stderr, "%s, asked for %d by %s: the kernel says %d, access says %d\n",
				object_text(&objects[i]), mask, caller_text(c), answer[i][mask], err);
			failures++;
		}
	}
}

/* Without groups the answer must be the same, or that they are needed; and that only where some group would make a difference. */
static void compare_unknown(struct tree *t, const struct object *o, const struct caller *c, int mask)
{
	struct caller other = *c;
	int some[2] = { 0 }, err;

	for (unsigned subset = 0; subset < 8; subset++) {
		other.count = 0;
		for (int i = 0; i < 3; i++)
			if (subset >> i & 1)
				other.groups[other.count++] = all_groups[i];
		caller_become(t, &other);
		some[tree_access(t, o->path, mask) != 0]++;
	}
	t->group_count = -1;
	err = tree_access(t, o->path, mask);
	if (err == -ENEEDGROUPS ? some[0] && some[1] : err ? !some[0] : !some[1])
		return;
	fprintf(stderr, "%s, asked for %d by %s without groups: %d, with: %d times yes, %d times no\n", object_text(o), mask,
		caller_text(c), err, some[0], some[1]);
	failures++;
}

static void access_like_the_kernel(void *arg)
{
	struct tree *t = arg;
	static struct object objects[OBJECTS];
	static int8_t answer[OBJECTS][8];

	for (int i = 0; i < OBJECTS; i++) {
		char path[32];

		snprintf(path, sizeof(path), "o%d", i);
		objects[i] = object_any(path, dice(3) ? S_IFREG : S_IFDIR);
		object_make(t, &objects[i]);
	}
	for (int i = 0; i < CALLERS; i++) {
		struct caller c = caller_any();

		ask_kernel(objects, &c, answer);
		compare_access(t, objects, &c, answer);
		for (int n = 0; n < OBJECTS; n++)
			compare_unknown(t, &objects[n], &c, dice(8));
	}
}

/* ---- what the kernel can't be asked ---- */

static void expect_open_file_rights(struct tree *t)
{
	struct caller c = { .uid = 1001, .gid = 2001 };
	struct buffer *data = NULL;
	struct file *file;
	struct setattr set = { .valid = SET_MODE, .mode = 01777 };

	t->uid = 0;
	CHECK(!tree_mkdir(t, "tmp", 0777));
	CHECK(!tree_setattr(t, "tmp", &set));
	caller_become(t, &c);
	CHECK(!tree_create(t, "tmp/f", O_RDWR, 0, &file)); /* the creator may use what the mode forbids */
	CHECK(!tree_write(t, file, 0, "x", 1));
	CHECK(tree_open_file(t, "tmp/f", O_RDONLY, NULL) == -EACCES);
	tree_release(t, file);
	set.mode = 0600;
	CHECK(!tree_setattr(t, "tmp/f", &set));
	CHECK(!tree_open_file(t, "tmp/f", O_RDONLY, &file));
	CHECK(tree_write(t, file, 0, "x", 1) == -EBADF);
	set.mode = 0;
	CHECK(!tree_setattr(t, "tmp/f", &set)); /* an open file keeps its right */
	CHECK(!tree_read(t, file, 0, 1, &data) && data->size == 1);
	buffer_unref(data);
	tree_release(t, file);
	set.mode = 0600;
	CHECK(!tree_setattr(t, "tmp/f", &set));
	CHECK(!tree_open_file(t, "tmp/f", O_WRONLY, &file));
	CHECK(tree_read(t, file, 0, 1, &data) == -EBADF);
	tree_release(t, file);
}

static void open_files(void *arg)
{
	expect_open_file_rights(arg);
}

static void setuid_is_lost(void *arg)
{
	struct tree *t = arg;
	struct caller owner = { .uid = 1001, .gid = 2001 }, other = { .uid = 1002, .gid = 2001 };
	struct setattr set = { .valid = SET_MODE, .mode = 0777 };
	struct file *file;
	struct attr attr;

	t->uid = 0;
	CHECK(!tree_mkdir(t, "tmp", 0777));
	CHECK(!tree_setattr(t, "tmp", &set));
	for (int how = 0; how < 3; how++) {
		caller_become(t, &owner);
		CHECK(!tree_create(t, "tmp/s", O_RDWR, 0, NULL));
		set.mode = 04777;
		CHECK(!tree_setattr(t, "tmp/s", &set));
		caller_become(t, &other);
		if (how == 0) {
			CHECK(!tree_open_file(t, "tmp/s", O_WRONLY, &file));
			CHECK(!tree_write(t, file, 0, "x", 1));
			tree_release(t, file);
		} else if (how == 1) {
			CHECK(!tree_open_file(t, "tmp/s", O_RDWR | O_TRUNC, NULL));
		} else {
			CHECK(!tree_setattr(t, "tmp/s", &(struct setattr){ .valid = SET_SIZE }));
		}
		CHECK(!tree_getattr(t, "tmp/s", &attr) && !(attr.mode & S_ISUID));
		CHECK(!tree_unlink(t, "tmp/s"));
	}
}

/* What only a client that speaks the wire by itself would ask for. */
static void tricks(void *arg)
{
	struct tree *t = arg;
	struct caller mallory = { .uid = 1001, .gid = 2001 };
	struct setattr_in set = { .set.valid = SET_SIZE };
	struct setattr_out out;
	struct inode *victim;
	struct file *own;
	struct attr attr;

	t->uid = 0;
	CHECK(!tree_mkdir(t, "tmp", 01777));
	CHECK(!tree_setattr(t, "tmp", &(struct setattr){ .valid = SET_MODE, .mode = 01777 }));
	CHECK(!tree_create(t, "tmp/program", O_RDWR, 0755, NULL));
	CHECK(!tree_setattr(t, "tmp/program", &(struct setattr){ .valid = SET_SIZE, .size = 5 }));
	CHECK(!tree_walk(t, "tmp/program", &victim));
	caller_become(t, &mallory);
	CHECK(tree_open_file(t, "tmp/program", O_RDWR | OPEN_FOR_EXEC, NULL) == -EACCES);
	CHECK(tree_open_file(t, "tmp/program", O_WRONLY | OPEN_FOR_EXEC, NULL) == -EACCES);
	CHECK(!tree_open_file(t, "tmp/program", O_RDONLY | OPEN_FOR_EXEC, NULL));
	CHECK(!tree_create(t, "tmp/own", O_RDWR, 0644, &own));
	set.inode = victim;
	set.file = own;
	CHECK(tree_call(t, t->at, FOP_setattr, &set, &out) == -EINVAL);
	set.set.valid = SET_MTIME_NOW;
	CHECK(tree_call(t, t->at, FOP_setattr, &set, &out) == -EINVAL);
	CHECK(!tree_getattr(t, "tmp/program", &attr) && attr.size == 5);
	tree_release(t, own);
	CHECK(tree_unlink(t, "tmp/program") == -EPERM);
	CHECK(tree_rename(t, "tmp/own", "tmp/program", 0) == -EPERM);
	CHECK(!tree_rename(t, "tmp/own", "tmp/new", 0));
	CHECK(!tree_unlink(t, "tmp/new"));
	inode_unref(victim);
}

static long calls(struct tree *t, const char *fop)
{
	char *argv[] = { "stats", "json", NULL }, *text = NULL, *at, key[64];
	struct xlator *x = tree_find(t, "stats");
	size_t size;
	FILE *f = open_memstream(&text, &size);
	long count;

	x->type->command(x, 2, argv, f);
	fclose(f);
	snprintf(key, sizeof(key), "\"%s\":{\"count\":", fop);
	at = strstr(text, key);
	count = at ? atol(at + strlen(key)) : 0;
	free(text);
	return count;
}

static void ask_often(void *arg)
{
	struct tree *t = arg;
	struct caller c = { .uid = 1001, .gid = 2001, .count = 1, .groups = { 2002 } };
	struct inode *inode;
	struct access_in in = { .mask = R_OK };
	struct access_out out;
	long before;

	t->uid = 0;
	CHECK(!tree_create(t, "f", O_RDWR, 0640, NULL));
	CHECK(!tree_walk(t, "f", &inode));
	in.inode = inode;
	caller_become(t, &c);
	CHECK(tree_call(t, t->at, FOP_access, &in, &out) == -EACCES);
	before = calls(t, "getattr") + calls(t, "getxattr");
	for (int i = 0; i < 1000; i++)
		CHECK(tree_call(t, t->at, FOP_access, &in, &out) == -EACCES);
	CHECK(calls(t, "getattr") + calls(t, "getxattr") == before);
	t->uid = 0;
	CHECK(!tree_setattr(t, "f", &(struct setattr){ .valid = SET_GID, .gid = 2002 }));
	caller_become(t, &c);
	CHECK(!tree_call(t, t->at, FOP_access, &in, &out)); /* but a change is seen at once */
	inode_unref(inode);
}

/* ---- compound ---- */

static void compounds(void *arg)
{
	struct tree *t = arg;
	struct caller c = { .uid = 1001, .gid = 2001 };
	struct lookup_in look = { .loc.name = "secret" };
	struct open_in open = { .flags = O_RDONLY };
	struct unlink_in unlink = { .loc.name = "secret" };
	struct link_in link = { .loc.name = "new" };
	struct access_in unsound = { 0 };
	struct step steps[] = { { .fop = FOP_lookup, .in = &look }, { .fop = FOP_open, .in = &open } };
	struct compound_in in = { .steps = { 2, steps } };
	struct compound_out out = { 0 };
	struct inode *root;

	t->uid = 0;
	CHECK(!tree_create(t, "secret", O_RDWR, 0600, NULL));
	CHECK(!tree_walk(t, "", &root));
	look.loc.parent = unlink.loc.parent = link.loc.parent = root;
	caller_become(t, &c);
	/* The memory has no compound: what is refused must be refused without it, what is allowed must reach it. */
	steps[0].fop = FOP_unlink;
	steps[0].in = &unlink;
	CHECK(!tree_call(t, t->at, FOP_compound, &in, &out));
	CHECK(out.results.count == 1 && out.results.result[0].status == -EACCES && out.results.result[0].fop == FOP_unlink);
	fop_out_clear(FOP_compound, &out);
	steps[0].fop = FOP_open; /* of nothing */
	steps[0].in = &open;
	CHECK(!tree_call(t, t->at, FOP_compound, &in, &out));
	CHECK(out.results.count == 1 && out.results.result[0].status == -EINVAL);
	fop_out_clear(FOP_compound, &out);
	steps[0].fop = FOP_link; /* of what the caller may neither read nor write */
	steps[0].in = &link;
	CHECK(!tree_walk(t, "secret", &link.inode));
	CHECK(!tree_call(t, t->at, FOP_compound, &in, &out));
	CHECK(out.results.count == 1 && out.results.result[0].status == -EPERM);
	fop_out_clear(FOP_compound, &out);
	inode_unref(link.inode);
	steps[0].fop = FOP_access;
	steps[0].in = &unsound;
	CHECK(tree_call(t, t->at, FOP_compound, &in, &out) == -EINVAL);
	steps[0].fop = FOP_lookup;
	steps[0].in = &look;
	CHECK(tree_call(t, t->at, FOP_compound, &in, &out) == -EOPNOTSUPP);
	inode_unref(root);
}

/* ---- BORN_WITH ---- */

/* A directory with what it is born with, made by the user in a directory that all may write to. */
static int born_by(struct tree *t, uid_t uid, const char *name, const struct born_xattr *x)
{
	struct mkdir_in in = { .mode = 0755 };
	struct mkdir_out out = { 0 };
	struct request rq;
	int err = tree_loc(t, name, &in.loc);

	if (err)
		return err;
	gfid_create(&in.gfid);
	request_init(&rq, t->graph, 0);
	rq.uid = rq.gid = uid;
	rq.group_count = 0;
	err = born_attach(&rq, x, 1);
	if (!err)
		err = mkdir_on(&rq, t->at, &in, &out);
	request_finish(&rq);
	inode_unref(in.loc.parent);
	fop_out_clear(FOP_mkdir, &out);
	return err;
}

static void births(void *arg)
{
	static const struct {
		const char *name;
		int by_root, by_user;
	} each[] = {
		{ "trusted.dht.pointer", 0, 0 },
		{ "user.x", 0, 0 },
		{ "trusted.x", 0, -EPERM },
		{ "trusted.dhtx", 0, -EPERM },
		{ "trusted.stratus.x", -EPERM, -EPERM },
		{ "trusted.sfs", -EPERM, -EPERM },
		{ "security.capability", 0, -EPERM },
		{ "security.x", -EOPNOTSUPP, -EPERM },
		{ "system.posix_acl_default", -EOPNOTSUPP, -EOPNOTSUPP },
		{ "nonsense", -EOPNOTSUPP, -EOPNOTSUPP },
	};
	struct tree *t = arg;
	struct blob value = { 0 };
	char name[32];

	caller_become(t, &(struct caller){ 0 });
	CHECK(!tree_mkdir(t, "b", 0777));
	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++)
		for (int user = 0; user < 2; user++) {
			struct born_xattr x = { each[i].name, "v", 1 };
			struct attr attr;
			int expected = user ? each[i].by_user : each[i].by_root;

			snprintf(name, sizeof(name), "b/%zu-%d", i, user);
			CHECK(born_by(t, user ? 1000 : 0, name, &x) == expected);
			CHECK(tree_getattr(t, name, &attr) == (expected ? -ENOENT : 0));
		}
	CHECK(!tree_getxattr(t, "b/0-1", "trusted.dht.pointer", &value) && value.size == 1);
	free(value.bytes);
	CHECK(!tree_mkdir(t, "closed", 0755)); /* it opens no door */
	CHECK(born_by(t, 1000, "closed/x", &(struct born_xattr){ "trusted.dht.pointer", "v", 1 }) == -EACCES);
}

/* ---- the frame ---- */

static void run(task_fn *fn)
{
	struct problem problem = { "" };
	struct tree t;
	char command[128];

	failures = 0;
	if (geteuid())
		skip();
	test_directory(dir, sizeof(dir), "access-test");
	assert_int_equal(chmod(dir, 0755), 0);
	assert_int_equal(chdir(dir), 0);
	umask(0);
	if (tree_open(&t, GRAPH, &problem))
		fail_msg("%s", problem.text);
	task_call(fn, &t);
	tree_close(&t);
	assert_int_equal(chdir("/"), 0);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
	assert_int_equal(failures, 0);
}

#define TEST(property, fn)                                                                                                     \
	static void property(void **state)                                                                                     \
	{                                                                                                                      \
		(void)state;                                                                                                   \
		run(fn);                                                                                                       \
	}
TEST(access_answers_like_the_kernel_and_asks_for_groups_only_if_needed, access_like_the_kernel)
TEST(each_operation_is_allowed_or_refused_like_by_the_kernel, deeds_like_the_kernel)
TEST(many_groups_are_judged_as_by_a_walk_through_them, groups_like_a_walk)
TEST(open_files_keep_the_right_they_were_opened_with, open_files)
TEST(who_writes_or_truncates_takes_setuid_away, setuid_is_lost)
TEST(a_forged_request_gets_no_more_than_an_honest_one, tricks)
TEST(what_is_known_is_not_asked_again, ask_often)
TEST(each_step_of_a_compound_is_judged, compounds)
TEST(what_objects_are_born_with_is_judged, births)
TEST(in_a_sticky_directory_what_is_said_counts, what_is_said_counts)
TEST(in_a_sticky_directory_what_is_sent_again_is_done_once, sent_again_is_done_once)
TEST(in_a_sticky_directory_what_was_not_judged_is_spared, who_comes_between_is_spared)
TEST(who_has_a_name_when_it_is_done_is_judged, what_comes_is_judged)
TEST(what_a_first_try_may_have_moved_is_judged, what_was_moved_before_is_judged)

static int start(void **state)
{
	const char *given = getenv("TEST_SEED");

	(void)state;
	seed = given ? (unsigned)atol(given) : (unsigned)clock_wall_ns();
	printf("TEST_SEED=%u\n", seed);
	return runtime_start(2, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(access_answers_like_the_kernel_and_asks_for_groups_only_if_needed),
		cmocka_unit_test(each_operation_is_allowed_or_refused_like_by_the_kernel),
		cmocka_unit_test(many_groups_are_judged_as_by_a_walk_through_them),
		cmocka_unit_test(open_files_keep_the_right_they_were_opened_with),
		cmocka_unit_test(a_forged_request_gets_no_more_than_an_honest_one),
		cmocka_unit_test(who_writes_or_truncates_takes_setuid_away),
		cmocka_unit_test(what_is_known_is_not_asked_again),
		cmocka_unit_test(each_step_of_a_compound_is_judged),
		cmocka_unit_test(what_objects_are_born_with_is_judged),
		cmocka_unit_test(in_a_sticky_directory_what_is_said_counts),
		cmocka_unit_test(in_a_sticky_directory_what_is_sent_again_is_done_once),
		cmocka_unit_test(in_a_sticky_directory_what_was_not_judged_is_spared),
		cmocka_unit_test(who_has_a_name_when_it_is_done_is_judged),
		cmocka_unit_test(what_a_first_try_may_have_moved_is_judged),
	};

	return cmocka_run_group_tests(tests, start, tasks_stop);
}
