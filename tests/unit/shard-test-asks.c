/* SPDX-License-Identifier: Apache-2.0 */
/* features/layout: what clients say by PLACE, of all versions, again, and as nonsense. */
#include "shard-test.h"

/* As a client of before version 5 asks, who leaves it to the brick. */
static int rename_of_old(struct inode *top, const char *from, const char *to)
{
	static const uint8_t place[104] = { 0 };
	struct rename_in in = { .from = loc_of(top, from), .to = loc_of(top, to) };
	struct rename_out out = { 0 };
	struct request rq;
	int err;

	request_init(&rq, tree.graph, 0);
	rq.group_count = 0;
	request_extend(&rq.extensions, PLACE_EXTENSION, 4, true, place, sizeof(place));
	err = rename_on(&rq, tree.at, &in, &out);
	request_finish(&rq);
	return err;
}

PROPERTY_AS(, older_clients_rename_pointers_as_they_did)
{
	cleanup_inode struct inode *top = root();
	struct attr attr;

	born_pointer();
	CHECK_INT(make_file(&v0, top, "p", O_EXCL), 0);
	CHECK_INT(move(&v0, top, "p", top, "q", 0), -EPOINTER);
	CHECK_INT(rename_of_old(top, "p", "q"), 0);
	CHECK_INT(look(&v0, top, "q", NULL, &attr), 0);
	CHECK(attr.flags & ATTR_POINTER);
}

static int with_extension(uint32_t version, const void *bytes, uint32_t size, int times)
{
	cleanup_inode struct inode *top = root();
	struct lookup_in in = { .loc = loc_of(top, "e") };
	struct lookup_out out = { 0 };
	struct request rq;
	int err;

	request_init(&rq, tree.graph, 0);
	rq.group_count = 0;
	while (times-- > 0)
		request_extend(&rq.extensions, PLACE_EXTENSION, version, true, bytes, size);
	err = lookup_on(&rq, tree.at, &in, &out);
	request_finish(&rq);
	fop_out_clear(FOP_lookup, &out);
	return err;
}

PROPERTY_AS(, what_is_expected_is_there_or_nothing_is_done)
{
	cleanup_inode struct inode *top = root(), *a = NULL, *b = NULL;
	struct place p = { 0 };

	CHECK_INT(make_dir(&v0, top, "a", &a), 0);
	CHECK_INT(make_dir(&v0, top, "b", &b), 0);
	p.expected[0] = b->gfid;
	CHECK_INT(drop(&p, top, "a", FOP_rmdir), -ESTALE);
	CHECK_INT(drop(&p, top, "nothing", FOP_rmdir), -ESTALE);
	CHECK_INT(move(&p, top, "a", top, "c", 0), -ESTALE);
	p.expected[0] = a->gfid;
	p.expected[1] = a->gfid;
	CHECK_INT(move(&p, top, "a", top, "b", 0), -ESTALE);
	CHECK_INT(move(&p, top, "a", top, "nothing", 0), -ESTALE);
	CHECK_INT(look(&v0, top, "nothing", NULL, NULL), -ENOENT);
	p.expected[1] = b->gfid;
	CHECK_INT(move(&p, top, "a", top, "b", 0), 0);
	CHECK_INT(drop(&p, top, "b", FOP_rmdir), 0);
}

/* The answer to the first was lost: it has been done, and what has the name now was made since. */
PROPERTY_AS(, what_is_sent_again_takes_nothing_that_was_made_since)
{
	cleanup_inode struct inode *top = root(), *first = NULL, *second = NULL, *there = NULL;
	struct place p = { 0 };

	CHECK_INT(make_dir(&v0, top, "a", &first), 0);
	CHECK_INT(drop(&v0, top, "a", FOP_rmdir), 0);
	CHECK_INT(make_dir(&v0, top, "a", &second), 0);
	p.expected[0] = first->gfid;
	sent_again = true;
	CHECK_INT(drop(&p, top, "a", FOP_rmdir), 0);
	sent_again = false;
	CHECK_INT(look(&v0, top, "a", &there, NULL), 0);
	CHECK_INT(there == second, 1);
	CHECK_INT(drop(&p, top, "a", FOP_rmdir), -ESTALE);
}

PROPERTY_AS(, hostile_places_are_refused)
{
	enum { SIZE = 104, SIZE_3 = 72, SIZE_2 = 52 };
	static const uint8_t good[SIZE + 4] = { 0 }, flags[SIZE] = { 0, 0, 0, 8 }, flags_3[SIZE_3] = { 0, 0, 0, PLACE_HERE };
	static const uint8_t of_none[SIZE] = { [4 + 16 + 7] = 7 }, twice[SIZE] = { [4] = 1, [4 + 24] = 1 };
	static const uint8_t version_3[SIZE_3] = { [4 + 7] = 7 };
	cleanup_inode struct inode *top = root(), *e = NULL;
	struct setxattr_in ours = { .name = DHT_LAYOUT_XATTR, .value = { 1, (void *)"x" } };
	struct step step = { .fop = FOP_setxattr, .in = &ours };
	struct compound_in compound = { .steps = { 1, &step } };
	struct compound_out done = { 0 };
	struct lookup_in bare = { .loc.inode = top };
	struct lookup_out found = { 0 };

	CHECK_INT(make_dir(&v0, top, "e", &e), 0);
	for (uint32_t size = 0; size <= sizeof(good); size++)
		CHECK_INT(with_extension(PLACE_EXTENSION_VERSION, good, size, 1), size == SIZE ? 0 : -EINVAL);
	CHECK_INT(with_extension(1, good, SIZE, 1), -EOPNOTSUPP);
	CHECK_INT(with_extension(2, good, SIZE_2, 1), 0); /* of a client from before there were marks */
	CHECK_INT(with_extension(2, good, SIZE, 1), -EINVAL);
	CHECK_INT(with_extension(3, good, SIZE_3, 1), 0); /* from before versions said their directories */
	CHECK_INT(with_extension(3, version_3, SIZE_3, 1), -ELAYOUT);
	CHECK_INT(with_extension(3, good, SIZE, 1), -EINVAL);
	CHECK_INT(with_extension(3, flags_3, SIZE_3, 1), -EOPNOTSUPP);
	CHECK_INT(with_extension(4, good, SIZE, 1), 0); /* from before pointers were told from what is renamed */
	CHECK_INT(with_extension(6, good, SIZE, 1), -EOPNOTSUPP);
	CHECK_INT(with_extension(PLACE_EXTENSION_VERSION | 1 << 8, good, SIZE, 1), -EOPNOTSUPP);
	CHECK_INT(with_extension(PLACE_EXTENSION_VERSION, flags, SIZE, 1), -EOPNOTSUPP);
	CHECK_INT(with_extension(PLACE_EXTENSION_VERSION, of_none, SIZE, 1), -EINVAL);
	CHECK_INT(with_extension(PLACE_EXTENSION_VERSION, twice, SIZE, 1), -EINVAL);
	CHECK_INT(with_extension(PLACE_EXTENSION_VERSION, good, SIZE, 2), -EINVAL);
	ours.inode = e;
	CHECK_INT(call(&nowhere, FOP_compound, &compound, &done), -EPERM); /* what it knows would be old */
	step.fop = FOP_getattr;
	step.in = &(struct getattr_in){ .inode = e };
	CHECK_INT(call(&v0, FOP_compound, &compound, &done), -EOPNOTSUPP);
	CHECK_INT(call(&v0, FOP_lookup, &bare, &found), 0); /* by itself: no name, no version */
	fop_out_clear(FOP_lookup, &found);
	CHECK_INT(make_file(&v0, top, "", 0), -EINVAL);
}

/* Ordinary users can't read trusted.*, and are told all the same. */
PROPERTY_AS(, users_get_what_belongs_to_them)
{
	cleanup_inode struct inode *top = root(), *d = NULL;
	struct mkdir_in in = { .mode = 0755 };
	struct mkdir_out out = { 0 };
	struct create_in create = { .flags = O_RDWR | O_CREAT, .mode = 0644 };
	struct create_out created = { 0 };
	struct layout l = layout_of(7);
	struct request rq;

	CHECK_INT(make_dir(&nowhere, top, "d", &d), 0);
	CHECK_INT(put_layout(d, &l), 0);
	CHECK_INT(call(&nowhere, FOP_setattr, &(struct setattr_in){ .inode = d, .set = { .valid = SET_MODE, .mode = 0777 } },
		       &(struct setattr_out){ 0 }),
		  0);
	for (int good = 0; good < 2; good++) {
		request_init(&rq, tree.graph, 0);
		rq.group_count = 0;
		rq.uid = rq.gid = 1000;
		in.loc = loc_of(d, name_at(d, SELF, "u"));
		gfid_create(&in.gfid);
		CHECK_INT(say(&rq, good ? &v7 : &v8, FOP_mkdir, &in), 0);
		CHECK_INT(mkdir_on(&rq, tree.at, &in, &out), good ? 0 : -ELAYOUT);
		CHECK_INT(rq.uid, 1000);
		request_finish(&rq);
	}
	CHECK_INT(out.attr.uid, 1000);
	fop_out_clear(FOP_mkdir, &out);
	/* who opens is not judged by what the pointer's owner and mode are */
	born_pointer();
	CHECK_INT(make_file(&v7, d, name_at(d, SELF, "p"), O_EXCL), 0);
	request_init(&rq, tree.graph, 0);
	rq.group_count = 0;
	rq.uid = rq.gid = 1000;
	create.loc = loc_of(d, name_at(d, SELF, "p"));
	gfid_create(&create.gfid);
	CHECK_INT(say(&rq, &v7, FOP_create, &create), 0);
	CHECK_INT(create_on(&rq, tree.at, &create, &created), -EPOINTER);
	request_finish(&rq);
}

/* It may have been the home, and has left: what is changed since it was not told. */
PROPERTY_AS(, who_knows_less_is_not_told_a_mode_by_who_is_not_the_home)
{
	cleanup_inode struct inode *top = root(), *d = NULL;
	struct getattr_in in = { 0 };
	struct access_in may = { .mask = R_OK };
	struct getxattr_in acl = { .name = "system.posix_acl_access" };
	struct getattr_out out = { 0 };
	struct access_out may_out = { 0 };
	struct getxattr_out acl_out = { 0 };
	struct layout l = layout_of(7);
	struct place older = { .version = { 6 } }, same = { .version = { 7 } }, newer = { .version = { 8 } },
		     another = { .version = { 6 } };

	CHECK_INT(make_dir(&v0, top, "d", &d), 0);
	in.inode = may.inode = acl.inode = d;
	older.directory[0] = same.directory[0] = newer.directory[0] = d->gfid;
	another.directory[0] = gfid_root;
	l.home = l.member[l.member[0].id == SELF].id;
	CHECK_INT(put_layout(d, &l), 0);
	CHECK_INT(call(&older, FOP_getattr, &in, &out), -ELAYOUT);
	CHECK_INT(call(&older, FOP_access, &may, &may_out), -ELAYOUT);
	CHECK_INT(call(&older, FOP_getxattr, &acl, &acl_out), -ELAYOUT);
	CHECK_INT(call(&same, FOP_getattr, &in, &out), 0);
	CHECK_INT(call(&newer, FOP_getattr, &in, &out), 0);
	CHECK_INT(call(&another, FOP_getattr, &in, &out), 0); /* it says nothing of this one */
	older.flags = PLACE_SHARD;
	CHECK_INT(call(&older, FOP_getattr, &in, &out), 0);
	older.flags = 0;
	l.version = 8;
	l.home = SELF;
	CHECK_INT(put_layout(d, &l), 0);
	CHECK_INT(call(&older, FOP_getattr, &in, &out), 0);
}
