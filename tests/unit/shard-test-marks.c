/* SPDX-License-Identifier: Apache-2.0 */
/* features/layout: a name that is marked is its intent's alone. */
#include "shard-test.h"

static int set_mark(const struct place *p, struct inode *d, const char *name)
{
	struct mark m = { mark_hash(name), p->intent, p->attempt, 1 };
	uint8_t bytes[MARK_SIZE];
	char xattr[MARK_NAME];

	mark_encode(&m, bytes);
	return call(p, FOP_setxattr,
		    &(struct setxattr_in){ .inode = d, .name = mark_name(m.hash, xattr), .value = { MARK_SIZE, bytes } },
		    &(struct setxattr_out){ 0 });
}

static int remove_mark(const struct place *p, struct inode *d, const char *name)
{
	char xattr[MARK_NAME];

	return call(p, FOP_removexattr, &(struct removexattr_in){ .inode = d, .name = mark_name(mark_hash(name), xattr) },
		    &(struct removexattr_out){ 0 });
}

PROPERTY_AS(, a_marked_name_is_its_intents_alone)
{
	struct place mine = { .intent = { { 1 } }, .attempt = 1 }, next = mine, other = { .intent = { { 2 } }, .attempt = 9 };
	cleanup_inode struct inode *top = root(), *d = NULL, *e = NULL;

	next.attempt = 2;
	CHECK_INT(make_dir(&v0, top, "d", &d), 0);
	CHECK_INT(make_dir(&v0, top, "e", &e), 0);
	CHECK_INT(make_file(&v0, d, "x", 0), 0);
	CHECK_INT(move(&mine, d, "x", e, "y", 0), -EFENCED); /* it has no mark yet */
	CHECK_INT(set_mark(&mine, d, "x"), 0);
	CHECK_INT(set_mark(&mine, d, "x"), 0); /* sent again */
	CHECK_INT(set_mark(&other, d, "x"), -EMARKED);
	CHECK_INT(remove_mark(&other, d, "x"), -EFENCED);
	CHECK_INT(look(&v0, d, "x", NULL, NULL), -EMARKED);
	CHECK_INT(make_file(&v0, d, "x", O_EXCL), -EMARKED);
	CHECK_INT(drop(&v0, d, "x", FOP_unlink), -EMARKED);
	CHECK_INT(move(&v0, d, "x", e, "y", 0), -EMARKED);
	CHECK_INT(make_file(&v0, e, "z", 0), 0);
	CHECK_INT(move(&v0, e, "z", d, "x", 0), -EMARKED);
	CHECK_INT(move(&other, d, "x", e, "y", 0), -EFENCED);
	CHECK_INT(make_file(&v0, d, "another", 0), 0); /* which is free */
	CHECK_INT(look(&mine, d, "x", NULL, NULL), 0);
	CHECK_INT(move(&mine, d, "x", e, "y", 0), 0);
	CHECK_INT(look(&mine, d, "x", NULL, NULL), -ENOENT);
	CHECK_INT(set_mark(&next, d, "x"), 0); /* taken over */
	CHECK_INT(set_mark(&mine, d, "x"), -EFENCED);
	CHECK_INT(move(&mine, e, "y", d, "x", 0), -EFENCED);
	CHECK_INT(remove_mark(&mine, d, "x"), -EFENCED);
	CHECK_INT(move(&next, e, "y", d, "x", 0), 0);
	CHECK_INT(remove_mark(&next, d, "x"), 0);
	CHECK_INT(remove_mark(&next, d, "x"), 0);
	CHECK_INT(move(&next, d, "x", e, "y", 0), -EFENCED);
	CHECK_INT(look(&v0, d, "x", NULL, NULL), 0);
}

/* Who begins an intent has found by a layout that the name is to be marked here: by another one it may be elsewhere. Who takes one over ends it where it was begun. */
PROPERTY_AS(, a_name_is_marked_by_the_layout_by_which_it_was_found)
{
	struct place mine = { .intent = { { 1 } }, .attempt = 1 }, next = { .intent = { { 2 } }, .attempt = 2 };
	cleanup_inode struct inode *top = root(), *d = NULL;
	struct layout l = layout_of(7);

	CHECK_INT(make_dir(&v0, top, "d", &d), 0);
	CHECK_INT(put_layout(d, &l), 0);
	mine.directory[0] = next.directory[0] = d->gfid;
	CHECK_INT(set_mark(&mine, d, "x"), -ELAYOUT);
	mine.version[0] = 8;
	CHECK_INT(set_mark(&mine, d, "x"), -ELAYOUT);
	mine.version[0] = 7;
	CHECK_INT(set_mark(&mine, d, "x"), 0);
	CHECK_INT(set_mark(&next, d, "y"), 0);
}

/* What an intent took out of there it may have to put back. */
PROPERTY_AS(, a_directory_with_marked_names_stays)
{
	struct place mine = { .intent = { { 1 } }, .attempt = 1 };
	cleanup_inode struct inode *top = root(), *d = NULL, *e = NULL;

	CHECK_INT(make_dir(&v0, top, "d", &d), 0);
	CHECK_INT(make_dir(&v0, top, "e", &e), 0);
	CHECK_INT(set_mark(&mine, d, "x"), 0);
	CHECK_INT(drop(&v0, top, "d", FOP_rmdir), -EMARKED);
	CHECK_INT(move(&v0, top, "e", top, "d", 0), -EMARKED);
	CHECK_INT(remove_mark(&mine, d, "x"), 0);
	CHECK_INT(move(&v0, top, "e", top, "d", 0), 0);
	CHECK_INT(drop(&v0, top, "d", FOP_rmdir), 0);
}

/* What somebody changes there after it was copied would be lost. */
PROPERTY_AS(, a_file_that_is_being_moved_is_changed_by_nobody)
{
	struct place mine = { .intent = { { 1 } }, .attempt = 1 };
	cleanup_inode struct inode *top = root(), *file = NULL;

	CHECK_INT(make_file(&v0, top, "f", O_EXCL), 0);
	CHECK_INT(look(&v0, top, "f", &file, NULL), 0);
	CHECK_INT(object_fop(&v0, FOP_setattr, file), 0);
	CHECK_INT(set_mark(&mine, file, MARK_GOES), 0);
	CHECK_INT(object_fop(&v0, FOP_setattr, file), -EMARKED);
	CHECK_INT(object_fop(&v0, FOP_setxattr, file), -EMARKED);
	CHECK_INT(object_fop(&v0, FOP_getattr, file), 0);
	CHECK_INT(remove_mark(&mine, file, MARK_GOES), 0);
	CHECK_INT(object_fop(&v0, FOP_setattr, file), 0);
	CHECK_INT(object_fop(&v0, FOP_setxattr, file), 0);
}

PROPERTY_AS(, a_directory_has_no_more_marks_than_there_is_room_for)
{
	struct place mine = { .intent = { { 1 } }, .attempt = 1 };
	cleanup_inode struct inode *top = root(), *d = NULL;
	char name[16];

	CHECK_INT(make_dir(&v0, top, "d", &d), 0);
	for (int i = 0; i <= MARKS_MAX; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		CHECK_INT(set_mark(&mine, d, name), i < MARKS_MAX ? 0 : -EMARKED);
	}
	CHECK_INT(set_mark(&mine, d, "n3"), 0); /* that is there */
	CHECK_INT(remove_mark(&mine, d, "n3"), 0);
	CHECK_INT(set_mark(&mine, d, name), 0);
}
