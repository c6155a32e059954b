/* SPDX-License-Identifier: Apache-2.0 */
/* features/layout over a brick: what it refuses and what passes, that a change of layout and requests by the old one are never done at once,
 * and what it makes of nonsense. */
#include "shard-test.h"

struct tree tree;
const struct place nowhere;
atomic_int failures;
static char dir[64];
static const char *layout_options = ""; /* beside its number */
const char *below = "";

void run_on(task_fn *fn, const char *leaf)
{
	struct problem problem = { "" };
	char text[1024], command[128];

	test_directory(dir, sizeof(dir), "shard-test");
	snprintf(text, sizeof(text),
		 "%svolume leaf\n %s%s\nend-volume\nvolume access\n type features/access\n subvolumes leaf\nend-volume\n"
		 "volume hold\n type debug/hold\n subvolumes access\nend-volume\n"
		 "volume layout\n type features/layout\n option subvolume %d\n%s subvolumes hold\nend-volume\n",
		 below, leaf, *leaf == 't' && strstr(leaf, "posix") ? dir : "", SELF, layout_options);
	failures = 0;
	if (tree_open(&tree, text, &problem))
		fail_msg("%s", problem.text);
	assert_int_equal(task_call(fn, NULL), 0);
	tree_close(&tree);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
	assert_int_equal(failures, 0);
}

/* ---- calls ---- */

/* Versions are of the directories of the request's names, in their order, unless it says of which. */
static int say(struct request *rq, const struct place *p, enum fop fop, const void *in)
{
	struct place by_directory = *p;
	bool said = !gfid_is_null(&p->directory[0]);
	int n = 0;

	for (const struct field *f = fop_info[fop].in; f->name && n < 2 && !said; f++) {
		const struct loc *loc = (const void *)((const char *)in + f->offset);

		if (f->kind == FIELD_LOC && loc->parent && p->version[n] &&
		    (!n || !gfid_equal(&loc->parent->gfid, &by_directory.directory[0])))
			by_directory.directory[n] = loc->parent->gfid;
		n += f->kind == FIELD_LOC;
	}
	for (n = 0; n < 2; n++)
		if (gfid_is_null(&by_directory.directory[n]))
			by_directory.version[n] = 0;
	return place_attach(rq, &by_directory);
}

/* As root, with what the next thing is born with, if that is said. */
static struct born_xattr born_next[2];
static unsigned born_count;
bool sent_again;
int call(const struct place *p, enum fop fop, const void *in, void *out)
{
	struct request rq;
	int err;

	request_init(&rq, tree.graph, 0);
	rq.group_count = 0;
	rq.resent = sent_again;
	err = p == &nowhere ? 0 : say(&rq, p, fop, in);
	if (!err)
		err = born_attach(&rq, born_next, born_count);
	if (born_count)
		born_count = 0;
	if (!err)
		err = fop_call(&rq, tree.at, fop, in, out);
	request_finish(&rq);
	return err;
}

static struct loc loc_of(struct inode *parent, const char *name)
{
	return (struct loc){ .parent = parent, .name = name };
}

int look(const struct place *p, struct inode *parent, const char *name, struct inode **inode, struct attr *attr)
{
	struct lookup_in in = { .loc = loc_of(parent, name) };
	struct lookup_out out = { 0 };
	int err = call(p, FOP_lookup, &in, &out);

	if (!err && attr)
		*attr = out.attr;
	if (!err && inode)
		*inode = inode_ref(out.inode);
	fop_out_clear(FOP_lookup, &out);
	return err;
}

int make_dir(const struct place *p, struct inode *parent, const char *name, struct inode **inode)
{
	struct mkdir_in in = { .loc = loc_of(parent, name), .mode = 0755 };
	struct mkdir_out out = { 0 };
	int err;

	gfid_create(&in.gfid);
	err = call(p, FOP_mkdir, &in, &out);
	if (!err && inode)
		*inode = inode_ref(out.inode);
	fop_out_clear(FOP_mkdir, &out);
	return err;
}

int make_file(const struct place *p, struct inode *parent, const char *name, int flags)
{
	struct create_in in = { .loc = loc_of(parent, name), .flags = (uint32_t)(O_RDWR | O_CREAT | flags), .mode = 0644 };
	struct create_out out = { 0 };
	struct release_out released = { 0 };
	int err;

	gfid_create(&in.gfid);
	err = call(p, FOP_create, &in, &out);
	if (!err)
		call(&nowhere, FOP_release, &(struct release_in){ .file = out.file }, &released);
	fop_out_clear(FOP_create, &out);
	return err;
}

int drop(const struct place *p, struct inode *parent, const char *name, enum fop fop)
{
	struct unlink_in in = { .loc = loc_of(parent, name) };
	struct unlink_out out = { 0 };

	return call(p, fop, &in, &out);
}

int move(const struct place *p, struct inode *a, const char *from, struct inode *b, const char *to, uint32_t flags)
{
	struct rename_in in = { loc_of(a, from), loc_of(b, to), flags };
	struct rename_out out = { 0 };

	return call(p, FOP_rename, &in, &out);
}

int set(struct inode *inode, const char *name, const void *value, size_t size)
{
	struct setxattr_in in = { inode, name, { (uint32_t)size, (void *)value }, 0 };
	struct setxattr_out out = { 0 };

	return call(&nowhere, FOP_setxattr, &in, &out);
}

static int unset(struct inode *inode, const char *name)
{
	struct removexattr_in in = { inode, name };
	struct removexattr_out out = { 0 };

	return call(&nowhere, FOP_removexattr, &in, &out);
}

struct layout layout_of(uint64_t version)
{
	struct layout l = { .version = version, .count = MEMBERS };

	for (unsigned i = 0; i < MEMBERS; i++)
		l.member[i] = (struct layout_member){ i, 1, 1 };
	return l;
}

int put_layout(struct inode *inode, const struct layout *l)
{
	uint8_t bytes[LAYOUT_SIZE_MAX];

	return set(inode, DHT_LAYOUT_XATTR, bytes, layout_encode(l, bytes));
}

struct inode *root(void)
{
	return inode_get(tree.graph->inodes, &gfid_root, S_IFDIR);
}

/* A name of the directory that is that member's. */
const char *find_name(const struct inode *parent, uint32_t member, const char *prefix, char name[64])
{
	struct layout l = layout_of(1);

	for (int i = 0; !i || layout_owner(&l, layout_key(&parent->gfid, name))->id != member; i++)
		snprintf(name, 64, "%s%d", prefix, i);
	return name;
}

/* The same in one of four buffers; from one task only. */
const char *name_at(const struct inode *parent, uint32_t member, const char *prefix)
{
	static char names[4][64];
	static unsigned next;

	return find_name(parent, member, prefix, names[next++ % 4]);
}

void born_pointer(void)
{
	static uint8_t bytes[POINTER_SIZE];

	pointer_encode(&far, bytes);
	born_next[0] = (struct born_xattr){ DHT_POINTER_XATTR, bytes, sizeof(bytes) };
	born_count = 1;
}

/* ---- versions ---- */

/* Each operation on names of the directory; what each said must be the same. */
static int each_name_fop(const struct place *p, struct inode *d, const char *old, const char *new)
{
	struct symlink_in symlink = { .loc = loc_of(d, new), .target = "t" };
	struct symlink_out symlinked = { 0 };
	struct mknod_in mknod = { .loc = loc_of(d, new), .mode = S_IFIFO | 0644 };
	struct mknod_out mknoded = { 0 };
	struct link_in link = { .loc = loc_of(d, new) };
	struct link_out linked = { 0 };
	int err[12], n = 0;

	if (look(&nowhere, d, old, &link.inode, NULL))
		return 1;
	gfid_create(&symlink.gfid);
	gfid_create(&mknod.gfid);
	err[n++] = look(p, d, old, NULL, NULL);
	err[n++] = make_file(p, d, old, 0);
	err[n++] = make_file(p, d, new, O_EXCL);
	drop(&nowhere, d, new, FOP_unlink);
	err[n++] = make_dir(p, d, new, NULL);
	drop(&nowhere, d, new, FOP_rmdir);
	err[n++] = call(p, FOP_symlink, &symlink, &symlinked);
	fop_out_clear(FOP_symlink, &symlinked);
	drop(&nowhere, d, new, FOP_unlink);
	err[n++] = call(p, FOP_mknod, &mknod, &mknoded);
	fop_out_clear(FOP_mknod, &mknoded);
	drop(&nowhere, d, new, FOP_unlink);
	err[n++] = call(p, FOP_link, &link, &linked);
	err[n++] = move(p, d, old, d, new, 0); /* both are the same file, if it was linked */
	drop(&nowhere, d, new, FOP_unlink);
	err[n++] = move(p, d, old, d, new, RENAME_NOREPLACE);
	if (!err[n - 1])
		move(&nowhere, d, new, d, old, 0);
	err[n++] = drop(p, d, old, FOP_unlink);
	make_dir(&nowhere, d, new, NULL);
	err[n++] = drop(p, d, new, FOP_rmdir);
	drop(&nowhere, d, new, FOP_rmdir);
	inode_unref(link.inode);
	for (int i = 1; i < n; i++)
		if (err[i] != err[0])
			fprintf(stderr, "operation %d said %d, others %d\n", i, err[i], err[0]);
	for (int i = 1; i < n; i++)
		if (err[i] != err[0])
			return 1;
	return err[0];
}

PROPERTY(what_is_asked_by_another_layout_is_refused_and_not_done)
{
	cleanup_inode struct inode *top = root(), *d = NULL, *e = NULL;
	const char *old, *new;
	struct layout l = layout_of(7);

	CHECK_INT(make_dir(&v0, top, "d", &d), 0);
	CHECK_INT(make_dir(&v0, top, "e", &e), 0);
	old = name_at(d, SELF, "old"), new = name_at(d, SELF, "new");
	CHECK_INT(make_file(&v0, d, old, O_EXCL), 0);
	CHECK_INT(each_name_fop(&v7, d, old, new), -ELAYOUT);
	CHECK_INT(each_name_fop(&v0, d, old, new), 0); /* removes it */
	CHECK_INT(make_file(&v0, d, old, O_EXCL), 0);
	CHECK_INT(put_layout(d, &l), 0);
	CHECK_INT(each_name_fop(&v0, d, old, new), -ELAYOUT);
	CHECK_INT(each_name_fop(&v8, d, old, new), -ELAYOUT);
	CHECK_INT(look(&nowhere, d, new, NULL, NULL), -ENOENT);
	CHECK_INT(each_name_fop(&v7, d, old, new), 0);
	CHECK_INT(make_file(&v7, d, old, O_EXCL), 0);
	l.version = 8;
	CHECK_INT(put_layout(d, &l), 0);
	CHECK_INT(each_name_fop(&v7, d, old, new), -ELAYOUT);
	/* each directory has its own */
	CHECK_INT(move(&v8, d, old, e, "there", 0), -ELAYOUT);
	CHECK_INT(move(&(struct place){ .version = { 0, 8 } }, d, old, e, "there", 0), -ELAYOUT);
	CHECK_INT(move(&(struct place){ .version = { 8, 0 } }, d, old, e, "there", 0), 0);
	CHECK_INT(move(&(struct place){ .version = { 0, 8 } }, e, "there", d, old, 0), 0);
	CHECK_INT(unset(d, DHT_LAYOUT_XATTR), 0);
	CHECK_INT(each_name_fop(&v8, d, old, new), -ELAYOUT);
	CHECK_INT(each_name_fop(&v0, d, old, new), 0);
}

PROPERTY(a_name_that_belongs_elsewhere_is_refused)
{
	cleanup_inode struct inode *top = root(), *d = NULL;
	struct layout l = layout_of(7), before = layout_of(7);
	struct attr attr;
	char name[32];
	int here = 0;

	CHECK_INT(make_dir(&v0, top, "d", &d), 0);
	CHECK_INT(put_layout(d, &l), 0);
	for (int i = 0; i < 200; i++) {
		bool ours;

		snprintf(name, sizeof(name), "n%d", i);
		ours = layout_owner(&l, layout_key(&d->gfid, name))->id == SELF;
		here += ours;
		CHECK_INT(make_file(&v7, d, name, O_EXCL), ours ? 0 : -ELAYOUT);
		CHECK_INT(look(&v7, d, name, NULL, NULL), ours ? 0 : -ELAYOUT);
	}
	CHECK(here > 20 && here < 90);
	CHECK_INT(look(&v0, top, "d", NULL, &attr), 0);
	CHECK(attr.flags & ATTR_WIDE);
	/* names that are to be moved: what is there is served at both, new ones are made only where they go */
	CHECK_INT(layout_weigh(&l, SELF, 5), 0);
	CHECK_INT(put_layout(d, &l), 0);
	for (int i = 0; i < 200; i++) {
		bool was, will;

		snprintf(name, sizeof(name), "n%d", i);
		was = layout_owner(&l, layout_key(&d->gfid, name))->id == SELF;
		will = layout_owner_next(&l, layout_key(&d->gfid, name))->id == SELF;
		CHECK_INT(look(&v8, d, name, NULL, NULL), was ? 0 : will ? -ENOENT : -ELAYOUT);
		CHECK_INT(make_file(&v8, d, name, 0), will ? 0 : -ELAYOUT);
	}
	l = before;
	CHECK_INT(layout_shrink(&l, &(uint32_t){ SELF }, 1, 0), 0); /* it leaves: makes nothing any more */
	CHECK_INT(put_layout(d, &l), 0);
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		CHECK_INT(make_file(&v8, d, name, O_EXCL), -ELAYOUT);
	}
	/* what has no name of its own has none that would belong somewhere */
	CHECK_INT(put_layout(top, &before), 0);
	CHECK_INT(make_dir(&v0, top, DHT_HIDDEN, NULL), 0);
	CHECK_INT(look(&v7, top, DHT_HIDDEN, NULL, NULL), 0);
	CHECK_INT(look(&v7, d, DHT_HIDDEN, NULL, NULL), -ELAYOUT);
}

/* ---- pointers ---- */

static int object_fop(const struct place *p, enum fop fop, struct inode *inode)
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

PROPERTY(a_pointer_says_where_the_object_is_and_is_not_taken_for_it)
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

PROPERTY(who_lists_goes_by_the_layout_too)
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

PROPERTY(a_listing_says_what_is_a_pointer)
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

PROPERTY(what_all_shards_must_have_is_not_changed_at_one)
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

/* ---- what was known is forgotten ---- */

PROPERTY(what_is_made_anew_is_not_what_it_was)
{
	cleanup_inode struct inode *top = root();
	struct mkdir_in in = { .loc = loc_of(top, "d"), .mode = 0755 };
	struct mkdir_out first = { 0 }, again = { 0 };
	struct layout l = layout_of(7);

	gfid_create(&in.gfid);
	CHECK_INT(call(&v0, FOP_mkdir, &in, &first), 0); /* a reference that stays, as a client's does */
	CHECK_INT(put_layout(first.inode, &l), 0);
	CHECK_INT(make_dir(&v7, first.inode, name_at(first.inode, SELF, "x"), NULL), 0);
	CHECK_INT(make_dir(&v0, first.inode, "x", NULL), -ELAYOUT);
	CHECK_INT(move(&nowhere, top, "d", top, "away", 0), 0);
	CHECK_INT(drop(&nowhere, first.inode, name_at(first.inode, SELF, "x"), FOP_rmdir), 0);
	CHECK_INT(drop(&nowhere, top, "away", FOP_rmdir), 0);
	CHECK_INT(call(&nowhere, FOP_mkdir, &in, &again), 0); /* as a heal would */
	CHECK(again.inode == first.inode);
	CHECK_INT(make_dir(&v7, again.inode, name_at(first.inode, SELF, "x"), NULL), -ELAYOUT);
	CHECK_INT(make_dir(&v0, again.inode, "x", NULL), 0);
	fop_out_clear(FOP_mkdir, &first);
	fop_out_clear(FOP_mkdir, &again);
}

PROPERTY(a_pointer_that_is_set_or_removed_is_seen_at_once)
{
	cleanup_inode struct inode *top = root(), *f = NULL;
	uint8_t bytes[POINTER_SIZE];
	struct attr attr;

	pointer_encode(&far, bytes);
	CHECK_INT(make_file(&v0, top, "f", O_EXCL), 0);
	CHECK_INT(look(&v0, top, "f", &f, &attr), 0);
	CHECK(!(attr.flags & ATTR_POINTER));
	CHECK_INT(set(f, DHT_POINTER_XATTR, bytes, sizeof(bytes)), 0);
	CHECK_INT(look(&v0, top, "f", NULL, &attr), 0);
	CHECK(attr.flags & ATTR_POINTER);
	CHECK_INT(object_fop(&v0, FOP_open, f), -EMOVED);
	CHECK_INT(unset(f, DHT_POINTER_XATTR), 0);
	CHECK_INT(object_fop(&v0, FOP_open, f), 0);
	CHECK_INT(unset(f, DHT_POINTER_XATTR), -ENODATA);
	CHECK_INT(object_fop(&v0, FOP_open, f), 0);
}

PROPERTY(a_layout_that_makes_no_sense_stops_names_there_and_nothing_else)
{
	cleanup_inode struct inode *top = root(), *d = NULL;

	CHECK_INT(make_dir(&v0, top, "d", &d), 0);
	CHECK_INT(make_dir(&v0, top, "e", NULL), 0);
	CHECK_INT(set(d, DHT_LAYOUT_XATTR, "\1nonsense", 9), 0);
	CHECK_INT(make_dir(&v0, d, "x", NULL), -EIO);
	CHECK_INT(look(&v0, d, "x", NULL, NULL), -EIO);
	CHECK_INT(look(&v0, top, "d", NULL, NULL), -EIO);
	CHECK_INT(look(&v0, top, "e", NULL, NULL), 0);
	CHECK_INT(make_dir(&nowhere, d, "x", NULL), 0);
	CHECK_INT(unset(d, DHT_LAYOUT_XATTR), 0);
	CHECK_INT(look(&v0, d, "x", NULL, NULL), 0);
}

/* ---- the layout that is implied ---- */

static void each_is_judged(struct inode *top)
{
	const char *old = name_at(top, SELF, "old"), *new = name_at(top, SELF, "new");
	char far_name[64], far_new[64];

	find_name(top, SELF + 1, "old", far_name);
	find_name(top, SELF + 1, "new", far_new);
	CHECK_INT(make_file(&v0, top, old, O_EXCL), 0);
	CHECK_INT(move(&v0, top, old, top, far_name, 0), -ELAYOUT);
	CHECK_INT(each_name_fop(&v0, top, old, new), 0);	  /* removes it */
	CHECK_INT(make_file(&nowhere, top, far_name, O_EXCL), 0); /* heal */
	CHECK_INT(move(&v0, top, far_name, top, new, 0), -ELAYOUT);
	CHECK_INT(each_name_fop(&v0, top, far_name, far_new), -ELAYOUT);
	CHECK_INT(look(&(struct place){ .flags = PLACE_HERE }, top, far_name, NULL, NULL), 0);
	CHECK_INT(look(&v7, top, far_name, NULL, NULL), -ELAYOUT);
	CHECK_INT(move(&(struct place){ .flags = PLACE_HERE }, top, far_name, top, old, 0), 0);
	CHECK_INT(drop(&v0, top, old, FOP_unlink), 0);
}

static void implied_(void *arg)
{
	cleanup_inode struct inode *top = root(), *hidden = NULL;
	struct layout l = layout_of(7);
	char far_name[64];

	(void)arg;
	find_name(top, SELF + 1, "far", far_name);
	each_is_judged(top);
	CHECK_INT(make_dir(&v0, top, DHT_HIDDEN, &hidden), 0);
	CHECK_INT(make_dir(&v0, hidden, far_name, NULL), 0);
	CHECK_INT(put_layout(top, &l), 0);
	CHECK_INT(make_dir(&v0, top, name_at(top, SELF, "x"), NULL), -ELAYOUT);
	CHECK_INT(make_dir(&v7, top, name_at(top, SELF, "x"), NULL), 0);
	CHECK_INT(make_dir(&v7, top, far_name, NULL), -ELAYOUT);
	CHECK_INT(unset(top, DHT_LAYOUT_XATTR), 0);
	each_is_judged(top);
}

static void unknown_(void *arg)
{
	cleanup_inode struct inode *top = root();
	char far_name[64];

	(void)arg;
	find_name(top, SELF + 1, "far", far_name);
	CHECK_INT(make_dir(&v0, top, far_name, NULL), 0);
	CHECK_INT(make_dir(&v7, top, "x", NULL), -ELAYOUT);
}

static void joined_later_(void *arg)
{
	cleanup_inode struct inode *top = root();

	(void)arg;
	CHECK_INT(make_dir(&v0, top, "x", NULL), -ELAYOUT);
	CHECK_INT(make_dir(&v0, top, DHT_HIDDEN, NULL), 0);
}

static void names_of_the_root_are_judged_by_how_many_subvolumes_there_were_first(void **state)
{
	static const char disk[] = "type storage/posix\n option volume-id 6d6a1f70-0d3c-4c1d-9a65-3d1a7c1f4b01\n"
				   " option brick-id 0f0e0d0c-0b0a-4908-8706-050403020100\n option directory ";

	(void)state;
	run_on(unknown_, "type debug/memory");
	layout_options = " option initial 4\n";
	run_on(implied_, "type debug/memory");
	if (!geteuid())
		run_on(implied_, disk);
	layout_options = " option initial 1\n"; /* this one came later: nothing belongs to it yet */
	run_on(joined_later_, "type debug/memory");
	layout_options = "";
}

/* cluster/afr looks both names of a rename up with the rename's own request. */
PROPERTY(a_version_is_of_its_directory_whatever_name_is_asked_for)
{
	cleanup_inode struct inode *top = root(), *d = NULL, *e = NULL;
	struct layout l = layout_of(7);
	struct place p = { .version = { 7, 0 } };
	const char *name;

	CHECK_INT(make_dir(&v0, top, "d", &d), 0);
	CHECK_INT(make_dir(&v0, top, "e", &e), 0);
	CHECK_INT(put_layout(d, &l), 0);
	name = name_at(d, SELF, "x");
	p.directory[0] = d->gfid;
	p.directory[1] = e->gfid;
	CHECK_INT(look(&p, d, name, NULL, NULL), -ENOENT);
	CHECK_INT(look(&p, e, "y", NULL, NULL), -ENOENT);
	p = (struct place){ .version = { 0, 7 }, .directory = { e->gfid, d->gfid } };
	CHECK_INT(look(&p, d, name, NULL, NULL), -ENOENT);
	CHECK_INT(look(&p, e, "y", NULL, NULL), -ENOENT);
	CHECK_INT(make_dir(&p, d, name, NULL), 0);
	CHECK_INT(move(&p, d, name, e, "y", 0), 0);
	CHECK_INT(move(&p, e, "y", d, name, 0), 0);
}

/* ---- who asks ---- */

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

PROPERTY(older_clients_rename_pointers_as_they_did)
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

PROPERTY(what_is_expected_is_there_or_nothing_is_done)
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
PROPERTY(what_is_sent_again_takes_nothing_that_was_made_since)
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

PROPERTY(hostile_places_are_refused)
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
PROPERTY(users_get_what_belongs_to_them)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_asked_by_another_layout_is_refused_and_not_done),
		cmocka_unit_test(a_name_that_belongs_elsewhere_is_refused),
		cmocka_unit_test(a_pointer_says_where_the_object_is_and_is_not_taken_for_it),
		cmocka_unit_test(a_listing_says_what_is_a_pointer),
		cmocka_unit_test(what_all_shards_must_have_is_not_changed_at_one),
		cmocka_unit_test(what_is_made_anew_is_not_what_it_was),
		cmocka_unit_test(a_pointer_that_is_set_or_removed_is_seen_at_once),
		cmocka_unit_test(a_layout_that_makes_no_sense_stops_names_there_and_nothing_else),
		cmocka_unit_test(names_of_the_root_are_judged_by_how_many_subvolumes_there_were_first),
		cmocka_unit_test(a_version_is_of_its_directory_whatever_name_is_asked_for),
		cmocka_unit_test(who_lists_goes_by_the_layout_too),
		cmocka_unit_test(what_is_sent_again_takes_nothing_that_was_made_since),
		cmocka_unit_test(what_is_expected_is_there_or_nothing_is_done),
		cmocka_unit_test(a_marked_name_is_its_intents_alone),
		cmocka_unit_test(a_directory_with_marked_names_stays),
		cmocka_unit_test(a_directory_has_no_more_marks_than_there_is_room_for),
		cmocka_unit_test(older_clients_rename_pointers_as_they_did),
		cmocka_unit_test(hostile_places_are_refused),
		cmocka_unit_test(users_get_what_belongs_to_them),
		cmocka_unit_test(a_layout_waits_for_who_is_inside_and_others_for_it),
		cmocka_unit_test(what_was_read_before_a_change_is_not_kept_after_it),
		cmocka_unit_test(nothing_is_done_by_a_layout_that_has_ended),
		cmocka_unit_test(what_came_while_a_name_is_taken_is_not_taken),
		cmocka_unit_test(what_is_replaced_while_it_is_looked_at_is_looked_at_again),
		cmocka_unit_test(who_is_about_to_lock_counts),
		cmocka_unit_test(a_moving_name_is_gone_when_that_is_on_disk),
		cmocka_unit_test(what_was_taken_is_told_to_who_is_interrupted_before_it_is_on_disk),
		cmocka_unit_test(who_misses_a_name_while_one_is_taken_waits_for_the_disk),
		cmocka_unit_test(what_was_taken_before_the_start_is_on_disk_before_it_is_missed),
		cmocka_unit_test(without_a_transition_no_name_waits_for_the_disk),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
