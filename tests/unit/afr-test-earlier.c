/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/afr: what is told of a change that was sent in an earlier view and is done, where only the arbiter has a note of it, whose attributes count for nothing: what
 * stands under the name, if it is that object. */
#include "afr-test.h"

#include <fcntl.h>

/* ---- what is done: each gives the name "n" ---- */

typedef int giving(struct xlator *at, const struct gfid *gfid, struct gfid *named, struct attr *);

static giving *give; /* what the test is about */
static bool reads;   /* what is made, too, if it is a file */

static int release(struct xlator *at, struct file *opened)
{
	struct release_in in = { .file = opened };
	struct release_out out = { 0 };

	return tree_call(&tree, at, FOP_release, &in, &out);
}

/* Who reads through what was opened opens it where the object is. */
static int read_and_release(struct xlator *at, struct file *opened)
{
	struct read_in read = { .file = opened, .size = 4 };
	struct read_out data = { 0 };
	int err = tree_call(&tree, at, FOP_read, &read, &data);

	fop_out_clear(FOP_read, &data);
	release(at, opened);
	return err;
}

static int create(struct xlator *at, const struct gfid *gfid, struct gfid *named, struct attr *attr)
{
	cleanup_inode struct inode *root = inode_get(tree.graph->inodes, &gfid_root, S_IFDIR);
	struct create_in in = {
		.loc = { .parent = root, .name = "n" }, .gfid = *gfid, .flags = O_RDWR | O_CREAT | O_EXCL, .mode = 0644
	};
	struct create_out out = { 0 };
	int err = tree_call(&tree, at, FOP_create, &in, &out);

	if (!err) {
		*named = out.inode->gfid;
		*attr = out.attr;
		err = reads ? read_and_release(at, out.file) : release(at, out.file);
	}
	fop_out_clear(FOP_create, &out);
	return err;
}

static int make_directory(struct xlator *at, const struct gfid *gfid, struct gfid *named, struct attr *attr)
{
	cleanup_inode struct inode *root = inode_get(tree.graph->inodes, &gfid_root, S_IFDIR);
	struct mkdir_in in = { .loc = { .parent = root, .name = "n" }, .gfid = *gfid, .mode = 0755 };
	struct mkdir_out out = { 0 };
	int err = tree_call(&tree, at, FOP_mkdir, &in, &out);

	if (!err) {
		*named = out.inode->gfid;
		*attr = out.attr;
	}
	fop_out_clear(FOP_mkdir, &out);
	return err;
}

static int link_file(struct xlator *at, const struct gfid *gfid, struct gfid *named, struct attr *attr)
{
	cleanup_inode struct inode *root = inode_get(tree.graph->inodes, &gfid_root, S_IFDIR);
	struct link_in in = { file->inode, { .parent = root, .name = "n" } };
	struct link_out out = { 0 };
	int err = tree_call(&tree, at, FOP_link, &in, &out);

	(void)gfid;
	*named = file->inode->gfid;
	*attr = out.attr;
	return err;
}

/* ---- what is told ---- */

/* The first member does it, and leaves; the second does not, and has been healed in the view in which the client asks what became of it. Of that view the client hears from the
 * second, when it has sent it. */
static void know_by_arbiter_only(void)
{
	all_say("views", "1");
	all_say("out", "0");
	say(member[1], "refuses", "1");
	say(member[1], "healed", "1");
	say(member[2], "did", "1");
}

static int change_where_it_is_healed(uint32_t mode)
{
	int err;

	tree.at = locks[1];
	err = tree_setattr(&tree, "n", &(struct setattr){ .valid = SET_MODE, .mode = mode });
	tree.at = tree.graph->top;
	return err;
}

static void stands_there(void *arg)
{
	struct gfid gfid, healed, named;
	struct attr there, told;

	(void)arg;
	gfid_create(&gfid);
	CHECK_INT(make_file(), 0);
	CHECK_INT(give(locks[1], &gfid, &healed, &there), 0);
	CHECK_INT(change_where_it_is_healed(0600), 0);
	know_by_arbiter_only();
	CHECK_INT(give(tree.at, &gfid, &named, &told), 0);
	CHECK_INT(counted_at(1, "refused: "), 1);
	CHECK_INT(counted_at(1, "asked: "), 1);
	CHECK_INT(counted_at(2, "asked: "), 1);
	CHECK_INT(gfid_equal(&named, &healed), true);
	CHECK_INT(told.mode, (there.mode & S_IFMT) | 0600);
	CHECK_INT(told.nlink, there.nlink);
	tree_release(&tree, file);
}

/* Others may have been before the client in the view in which it asks. It is done all the same; that another is there already, or nothing, would have it done once more, or a program
 * told that somebody else was faster. */
static void has_gone(const struct gfid *gfid, uint32_t mode)
{
	struct gfid named;
	struct attr attr;

	know_by_arbiter_only();
	CHECK_INT(give(tree.at, gfid, &named, &attr), 0);
	CHECK_INT(counted_at(2, "asked: "), 1);
	CHECK_INT(gfid_equal(&named, give == link_file ? &file->inode->gfid : gfid), true);
	CHECK_INT(gfid_equal(&attr.gfid, &named), true);
	CHECK_INT(attr.mode, mode);
	tree_release(&tree, file);
}

static uint32_t mode_given(void)
{
	return give == make_directory ? S_IFDIR | 0755 : S_IFREG | 0644;
}

static void stands_for_another(void *arg)
{
	struct gfid gfid, other, named;
	struct attr attr;

	(void)arg;
	gfid_create(&gfid);
	gfid_create(&other);
	CHECK_INT(make_file(), 0);
	CHECK_INT(create(locks[1], &other, &named, &attr), 0);
	has_gone(&gfid, mode_given());
}

static void is_gone(void *arg)
{
	struct gfid gfid;

	(void)arg;
	gfid_create(&gfid);
	CHECK_INT(make_file(), 0);
	has_gone(&gfid, mode_given());
}

static void has_another_name(void *arg)
{
	struct gfid gfid, named;
	struct attr there;

	(void)arg;
	gfid_create(&gfid);
	CHECK_INT(make_file(), 0);
	CHECK_INT(give(locks[1], &gfid, &named, &there), 0);
	CHECK_INT(change_where_it_is_healed(0600), 0);
	tree.at = locks[1];
	CHECK_INT(tree_rename(&tree, "n", "elsewhere", 0), 0);
	tree.at = tree.graph->top;
	all_say("renamed", "1");
	has_gone(&gfid, (there.mode & S_IFMT) | 0600);
}

/* What is told where it is healed, where lookups and getattr end so. */
static void told_where(const char *looks, const char *tells, int wanted, struct attr *attr)
{
	struct gfid gfid, named;

	gfid_create(&gfid);
	CHECK_INT(make_file(), 0);
	CHECK_INT(give(locks[1], &gfid, &named, attr), 0);
	know_by_arbiter_only();
	say(member[1], "looks", (char *)looks);
	say(member[1], "tells", (char *)tells);
	CHECK_INT(give(tree.at, &gfid, &named, attr), wanted);
	CHECK_INT(counted_at(2, "asked: "), 1);
	if (!wanted)
		CHECK_INT(gfid_equal(&named, give == link_file ? &file->inode->gfid : &gfid), true);
	tree_release(&tree, file);
}

/* Who is above would wait, learn a newer layout or go elsewhere, and do it once more. */
static void is_marked_or_has_moved(void *arg)
{
	struct attr attr;

	(void)arg;
	told_where("4124", give == link_file ? "0" : "4123", 0, &attr); /* EMARKED, EMOVED */
	CHECK_INT(attr.mode, mode_given());
}

static void is_looked_for_by_an_older_layout(void *arg)
{
	struct attr attr;

	(void)arg;
	told_where("4120", "0", 0, &attr); /* ELAYOUT */
	CHECK_INT(attr.mode, mode_given());
}

static void has_no_name_left(void *arg)
{
	struct attr attr;

	(void)arg;
	told_where("2", "116", 0, &attr); /* ENOENT, ESTALE */
	CHECK_INT(attr.mode & S_IFMT, mode_given() & S_IFMT);
}

static void can_not_be_looked_at(void *arg)
{
	struct attr attr;

	(void)arg;
	told_where("5", "5", -EIO, &attr);
}

static void with_arbiter(giving *what, bool opened, task_fn *fn)
{
	give = what;
	reads = opened;
	on_set_with_arbiter(fn);
}

static void what_only_an_arbiter_says_is_done_is_told_by_what_stands_there(void **state)
{
	(void)state;
	with_arbiter(create, true, stands_there);
	with_arbiter(make_directory, true, stands_there);
	with_arbiter(link_file, true, stands_there);
}

static void what_is_done_and_was_renamed_or_removed_since_is_no_error(void **state)
{
	giving *all[] = { create, make_directory, link_file };

	(void)state;
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		with_arbiter(all[i], false, stands_for_another);
		with_arbiter(all[i], false, is_gone);
		with_arbiter(all[i], false, has_another_name);
		with_arbiter(all[i], false, is_marked_or_has_moved);
		with_arbiter(all[i], false, is_looked_for_by_an_older_layout);
		with_arbiter(all[i], false, has_no_name_left);
	}
}

static void what_is_done_and_can_not_be_looked_at_is_an_error(void **state)
{
	giving *all[] = { create, make_directory, link_file };

	(void)state;
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		with_arbiter(all[i], false, can_not_be_looked_at);
}

static void written(int flags, unsigned syncs)
{
	struct write_in in = { .data = buffer_from("data", 4) };
	struct write_out out = { 0 };
	int err = make_file();

	in.file = file;
	if (!err) {
		file->flags |= flags;
		know_by_arbiter_only();
		err = tree_call(&tree, tree.at, FOP_write, &in, &out);
	}
	buffer_unref(in.data);
	CHECK_INT(err, 0);
	CHECK_INT(counted_at(1, "refused: "), 1);
	CHECK_INT(counted_at(1, "fsyncs: "), syncs);
	CHECK_INT(counted_at(2, "fsyncs: "), syncs);
	tree_release(&tree, file);
}

static void written_and_synced(void *arg)
{
	(void)arg;
	written(O_DSYNC, 1);
}

static void written_alone(void *arg)
{
	(void)arg;
	written(0, 0);
}

/* A recovery brings what was written to who lacks it, and syncs nothing. */
static void what_is_to_be_synced_when_it_is_written_is_so_too_where_a_recovery_has_brought_it(void **state)
{
	(void)state;
	on_set_with_arbiter(written_and_synced);
	on_set_with_arbiter(written_alone);
}

const struct CMUnitTest earlier_tests[] = {
	cmocka_unit_test(what_only_an_arbiter_says_is_done_is_told_by_what_stands_there),
	cmocka_unit_test(what_is_done_and_was_renamed_or_removed_since_is_no_error),
	cmocka_unit_test(what_is_done_and_can_not_be_looked_at_is_an_error),
	cmocka_unit_test(what_is_to_be_synced_when_it_is_written_is_so_too_where_a_recovery_has_brought_it),
};
const unsigned earlier_tests_count = sizeof(earlier_tests) / sizeof(earlier_tests[0]);
