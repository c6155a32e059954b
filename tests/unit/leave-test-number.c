/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht: a subvolume leaves that is not the last, and another takes its number; and what is asked of a home that is elsewhere by then. */
#include "leave-test.h"

#include "place.h"

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

/* ---- where a home is by then ---- */

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

const struct CMUnitTest numbers[] = {
	cmocka_unit_test(a_name_beside_the_stub_to_which_it_leads_does_not_hold_it_up),
	cmocka_unit_test(the_first_leaves_and_another_takes_its_number),
	cmocka_unit_test(one_in_the_middle_leaves_and_another_takes_its_number),
	cmocka_unit_test(moves_are_marked_at_the_home_of_the_root_only),
	cmocka_unit_test(own_xattrs_are_not_set_where_the_home_is_to_be_before_they_were_copied),
};
const unsigned numbers_count = sizeof(numbers) / sizeof(numbers[0]);
