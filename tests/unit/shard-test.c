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
int say(struct request *rq, const struct place *p, enum fop fop, const void *in)
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
struct born_xattr born_next[2];
unsigned born_count;
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
		cmocka_unit_test(a_name_is_marked_by_the_layout_by_which_it_was_found),
		cmocka_unit_test(a_directory_with_marked_names_stays),
		cmocka_unit_test(a_file_that_is_being_moved_is_changed_by_nobody),
		cmocka_unit_test(a_directory_has_no_more_marks_than_there_is_room_for),
		cmocka_unit_test(older_clients_rename_pointers_as_they_did),
		cmocka_unit_test(hostile_places_are_refused),
		cmocka_unit_test(users_get_what_belongs_to_them),
		cmocka_unit_test(who_knows_less_is_not_told_a_mode_by_who_is_not_the_home),
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
