/* SPDX-License-Identifier: Apache-2.0 */
/* features/layout: what is asked of a pointer, what a listing says of it, and what a directory that is spread has at all its subvolumes. */
#include "shard-test.h"

int object_fop(const struct place *p, enum fop fop, struct inode *inode)
{
	union {
		struct getattr_in getattr;
		struct setattr_in setattr;
		struct access_in access;
		struct open_in open;
		struct opendir_in opendir;
		struct getxattr_in getxattr;
		struct listxattr_in listxattr;
		struct setxattr_in setxattr;
	} in = { 0 };
	uint8_t out[sizeof(struct getattr_out) + 64] = { 0 };
	int err;

	if (fop == FOP_getattr)
		in.getattr.inode = inode;
	else if (fop == FOP_setattr)
		in.setattr = (struct setattr_in){ .inode = inode, .set = { .valid = SET_MODE, .mode = 0700 } };
	else if (fop == FOP_access)
		in.access.inode = inode;
	else if (fop == FOP_open)
		in.open = (struct open_in){ inode, O_RDWR };
	else if (fop == FOP_opendir)
		in.opendir.inode = inode;
	else if (fop == FOP_getxattr)
		in.getxattr = (struct getxattr_in){ inode, DHT_POINTER_XATTR };
	else if (fop == FOP_listxattr)
		in.listxattr.inode = inode;
	else
		in.setxattr = (struct setxattr_in){ inode, "user.x", { 1, (void *)"x" }, 0 };
	err = call(p, fop, &in, out);
	if (!err)
		fop_out_clear((int)fop, out);
	return err;
}

PROPERTY_AS(, a_pointer_says_where_the_object_is_and_is_not_taken_for_it)
{
	static const enum fop fops[] = { FOP_getattr, FOP_setattr,  FOP_access,	   FOP_open,
					 FOP_opendir, FOP_getxattr, FOP_listxattr, FOP_setxattr };
	cleanup_inode struct inode *top = root(), *file = NULL, *d = NULL, *e = NULL;
	struct place itself = { .flags = PLACE_POINTER };
	struct link_in link = { .loc = loc_of(top, "linked") };
	struct link_out linked = { 0 };
	struct attr attr;

	born_pointer();
	CHECK_INT(make_file(&v0, top, "p", O_EXCL), 0);
	born_pointer();
	CHECK_INT(make_dir(&v0, top, "dp", &d), 0);
	CHECK_INT(make_dir(&v0, top, "e", &e), 0);
	CHECK_INT(make_file(&v0, top, "f", O_EXCL), 0);
	CHECK_INT(look(&v0, top, "p", &file, &attr), 0);
	CHECK(attr.flags & ATTR_POINTER && S_ISREG(attr.mode) && attr.rdev == 3 && gfid_equal(&attr.gfid, &far.gfid));
	CHECK(!gfid_equal(&file->gfid, &far.gfid));
	CHECK_INT(look(&v0, top, "dp", NULL, &attr), 0);
	CHECK(attr.flags & ATTR_POINTER && S_ISDIR(attr.mode) && gfid_equal(&attr.gfid, &far.gfid));
	CHECK_INT(look(&v0, top, "f", NULL, &attr), 0);
	CHECK(!(attr.flags & ATTR_POINTER));
	CHECK_INT(look(&nowhere, top, "p", NULL, &attr), 0); /* to who doesn't ask by PLACE it is what it is */
	CHECK(!(attr.flags & ATTR_POINTER) && gfid_equal(&attr.gfid, &file->gfid));
	/* by name */
	CHECK_INT(make_file(&v0, top, "p", 0), -EPOINTER);
	CHECK_INT(make_file(&v0, top, "p", O_TRUNC), -EPOINTER);
	CHECK_INT(make_file(&v0, top, "p", O_EXCL), -EEXIST);
	CHECK_INT(make_file(&v0, top, "f", 0), 0);
	CHECK_INT(drop(&v0, top, "p", FOP_unlink), -EPOINTER);
	CHECK_INT(drop(&v0, top, "dp", FOP_rmdir), -EPOINTER);
	CHECK_INT(move(&v0, top, "f", top, "p", 0), -EPOINTER);
	CHECK_INT(move(&v0, top, "f", top, "p", RENAME_NOREPLACE), -EPOINTER);
	CHECK_INT(move(&v0, top, "f", top, "p", RENAME_EXCHANGE), -EPOINTER);
	CHECK_INT(move(&v0, top, "p", top, "f", RENAME_EXCHANGE), -EPOINTER);
	CHECK_INT(move(&v0, top, "dp", e, "dp", 0), -EPOINTER); /* a directory to another parent */
	link.inode = file;
	CHECK_INT(call(&v0, FOP_link, &link, &linked), -EPOINTER);
	/* in it nothing is done */
	CHECK_INT(make_dir(&v0, d, "x", NULL), -EMOVED);
	CHECK_INT(look(&v0, d, "x", NULL, NULL), -EMOVED);
	CHECK_INT(move(&v0, top, "f", d, "f", 0), -EMOVED);
	/* by itself */
	for (size_t i = 0; i < sizeof(fops) / sizeof(fops[0]); i++) {
		CHECK_INT(object_fop(&v0, fops[i], fops[i] == FOP_opendir ? d : file), -EMOVED);
		CHECK_INT(object_fop(&itself, fops[i], fops[i] == FOP_opendir ? d : file), 0);
		CHECK_INT(object_fop(&nowhere, fops[i], fops[i] == FOP_opendir ? d : file), 0);
	}
	CHECK_INT(move(&v0, top, "p", top, "p2", 0), -EPOINTER);
	CHECK_INT(move(&v0, top, "dp", top, "dp2", 0), -EPOINTER);
	/* who means itself may rename it as it is, and remove it */
	CHECK_INT(move(&itself, top, "p", top, "p2", 0), 0);
	CHECK_INT(move(&itself, top, "p2", e, "p", 0), 0);
	CHECK_INT(move(&itself, top, "dp", top, "dp2", 0), 0);
	CHECK_INT(look(&v0, e, "p", NULL, &attr), 0);
	CHECK(attr.flags & ATTR_POINTER);
	CHECK_INT(drop(&itself, e, "p", FOP_unlink), 0);
	CHECK_INT(move(&itself, top, "dp2", e, "dp", 0), 0);
	CHECK_INT(drop(&itself, e, "dp", FOP_rmdir), 0);
}

static int list(const struct place *p, struct inode *d, struct readdir_out *out)
{
	struct opendir_in open = { d };
	struct opendir_out opened = { 0 };
	struct readdir_in in = { .size = 100000, .flags = READDIR_PLUS };
	struct release_out released = { 0 };
	int err = call(p, FOP_opendir, &open, &opened);

	in.file = opened.file;
	if (!err)
		err = call(p, FOP_readdir, &in, out);
	if (opened.file)
		call(&nowhere, FOP_release, &(struct release_in){ .file = opened.file }, &released);
	file_unref(opened.file);
	return err;
}

PROPERTY_AS(, who_lists_goes_by_the_layout_too)
{
	cleanup_inode struct inode *top = root(), *d = NULL;
	struct layout l = layout_of(7);
	struct readdir_out out = { 0 };
	struct place p = { .version = { 7 } };

	CHECK_INT(make_dir(&v0, top, "d", &d), 0);
	CHECK_INT(put_layout(d, &l), 0);
	CHECK_INT(list(&v0, d, &out), -ELAYOUT);
	CHECK_INT(list(&(struct place){ .flags = PLACE_HERE }, d, &out), 0);
	fop_out_clear(FOP_readdir, &out);
	p.directory[0] = d->gfid;
	CHECK_INT(list(&p, d, &out), 0);
	fop_out_clear(FOP_readdir, &out);
}

PROPERTY_AS(, a_listing_says_what_is_a_pointer)
{
	cleanup_inode struct inode *top = root(), *d = NULL, *wide = NULL;
	struct layout l = layout_of(7);
	struct readdir_out out = { 0 };
	int pointers = 0, wides = 0, unsaid = 0;

	CHECK_INT(make_dir(&v0, top, "d", &d), 0);
	for (const char *name = "abcd"; *name; name++) {
		char one[2] = { *name, 0 };

		if (*name == 'b' || *name == 'd')
			born_pointer();
		CHECK_INT(make_file(&v0, d, one, O_EXCL), 0);
	}
	CHECK_INT(make_dir(&v0, d, "wide", &wide), 0);
	CHECK_INT(put_layout(wide, &l), 0);
	born_next[0] = (struct born_xattr){ DHT_POINTER_XATTR, "nonsense", 8 };
	born_count = 1;
	CHECK_INT(make_file(&v0, d, "broken", O_EXCL), 0);
	CHECK_INT(list(&v0, d, &out), 0);
	CHECK_INT(out.entries.count, 6);
	for (uint32_t i = 0; i < out.entries.count; i++) {
		const struct dirent_plus *e = &out.entries.entry[i];

		pointers += e->inode && e->attr.flags & ATTR_POINTER;
		wides += e->inode && e->attr.flags & ATTR_WIDE;
		unsaid += !e->inode;
		CHECK(!e->inode == !strcmp(e->name, "broken"));
		CHECK(gfid_is_null(&e->gfid) == !e->inode); /* it may be a pointer's own */
		CHECK(!e->inode || !(e->attr.flags & ATTR_POINTER) == (*e->name != 'b' && *e->name != 'd'));
	}
	fop_out_clear(FOP_readdir, &out);
	CHECK_INT(pointers, 2);
	CHECK_INT(wides, 1);
	CHECK_INT(unsaid, 1);
	CHECK_INT(look(&v0, d, "broken", NULL, NULL), -EIO);
	CHECK_INT(drop(&v0, d, "broken", FOP_unlink), -EIO);
	CHECK_INT(look(&v0, d, "a", NULL, NULL), 0);
	CHECK_INT(drop(&nowhere, d, "broken", FOP_unlink), 0); /* who heals may */
}

PROPERTY_AS(, what_all_shards_must_have_is_not_changed_at_one)
{
	static const uint8_t acl[] = { 2, 0, 0,	  0,   1,   0,	 7,  0, 255, 255, 255, 255, 4,	 0,
				       5, 0, 255, 255, 255, 255, 32, 0, 5,   0,	  255, 255, 255, 255 };
	cleanup_inode struct inode *top = root(), *d = NULL;
	struct place alone = { .flags = PLACE_SHARD };
	struct layout l = layout_of(7);
	struct setattr_in times = { .set = { .valid = SET_MTIME_NOW } };
	struct setattr_out set_out = { 0 };
	struct setxattr_in set_acl = { .name = "system.posix_acl_default", .value = { sizeof(acl), (void *)acl } };
	struct setxattr_out acl_out = { 0 };

	CHECK_INT(make_dir(&v0, top, "d", &d), 0);
	CHECK_INT(make_dir(&v0, top, "e", NULL), 0);
	CHECK_INT(put_layout(d, &l), 0);
	times.inode = set_acl.inode = d;
	CHECK_INT(object_fop(&v0, FOP_setattr, d), -EWIDE);
	CHECK_INT(call(&v0, FOP_setxattr, &set_acl, &acl_out), -EWIDE);
	CHECK_INT(drop(&v0, top, "d", FOP_rmdir), -EWIDE);
	CHECK_INT(move(&v0, top, "e", top, "d", 0), -EWIDE);
	CHECK_INT(call(&v0, FOP_setattr, &times, &set_out), 0);
	CHECK(set_out.attr.flags & ATTR_WIDE);
	CHECK_INT(object_fop(&v0, FOP_getattr, d), 0);
	CHECK_INT(object_fop(&v0, FOP_setxattr, d), -ELAYOUT); /* nor where it is at home */
	CHECK_INT(move(&v0, top, "d", top, "d2", 0), 0);       /* its shards go by its gfid */
	CHECK_INT(move(&v0, top, "d2", top, "e", RENAME_EXCHANGE), 0);
	CHECK_INT(object_fop(&alone, FOP_setattr, d),
		  -ELAYOUT); /* who knows no layout does not know where it is to be changed */
	alone.directory[0] = d->gfid;
	alone.version[0] = l.version;
	CHECK_INT(object_fop(&alone, FOP_setattr, d), 0);
	CHECK_INT(object_fop(&alone, FOP_setxattr, d), 0);
	CHECK_INT(call(&alone, FOP_setxattr, &set_acl, &acl_out), 0);
	CHECK_INT(drop(&alone, top, "e", FOP_rmdir), 0);
}
