/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/dht, fsck: each thing that it finds is made by hand, told, put right, and gone then; what is right stays as it was. */
#include "fsck-test.h"

#include "place.h"

enum { AWAY_DIR_PATH = 96 };
char *told;

const char *named(int child, const char *prefix)
{
	static char names[64][64];
	static unsigned next;

	return strcpy(names[next++ % 64], name_at(child < (int)gone ? SUBVOLUMES - 1 : child, prefix));
}

int fsck(const char *words)
{
	char copy[64], *rest = copy, *argv[4] = { (char *)"fsck" }, *word;
	size_t size;
	FILE *f;
	int argc = 1, err;

	free(told);
	f = open_memstream(&told, &size);
	snprintf(copy, sizeof(copy), "%s", words);
	while (argc < 4 && (word = strsep(&rest, " ")))
		if (*word)
			argv[argc++] = word;
	if (strcmp(tree.at->name, "dht") != 0)
		at("dht");
	err = tree.at->type->command(tree.at, argc, argv, f);
	fclose(f);
	return err;
}

int count(const char *line)
{
	int n = 0;

	for (const char *at_ = told; (at_ = strstr(at_, line)); at_ += strlen(line))
		n += at_ == told || at_[-1] == '\n';
	return n;
}

/* So many of that kind, and nothing else. */
static bool finds(const char *words, const char *what, int number)
{
	char line[64];
	bool yes;

	snprintf(line, sizeof(line), "finding %s\n", what);
	yes = !fsck(words) && count(line) == number && count("finding ") == number && count("away ") == 1;
	if (!yes)
		fprintf(stderr, "fsck %s does not find %d %s, but says:\n%s", words, number, what, told);
	return yes;
}

bool is_clean(void)
{
	return finds("wait=1", "nothing", 0);
}

bool found_and_mended(const char *what, int number)
{
	struct census before = census(), after;

	if (!finds("wait=1", what, number))
		return false;
	after = census();
	if (before.anchors != after.anchors || before.work != after.work || count("done ") ||
	    !finds("repair wait=1", what, number))
		return false;
	if (count("done ") == number)
		return is_clean();
	fprintf(stderr, "not all was put right: %s", told);
	return false;
}

void at_brick(int child)
{
	char volume[8];

	snprintf(volume, sizeof(volume), "l%d", child);
	at(volume);
}

char kept[3][64];
static char kept_file[80]; /* in kept[2] */

int build_kept(void)
{
	int err;

	strcpy(kept[0], named(2, "kept"));
	strcpy(kept[1], named(3, "also"));
	strcpy(kept[2], named(0, "dir"));
	snprintf(kept_file, sizeof(kept_file), "%s/file", kept[2]);
	err = put(kept[0], "kept");
	if (!err)
		err = tree_link(&tree, kept[0], kept[1]);
	if (!err)
		err = tree_mkdir(&tree, kept[2], 0755);
	if (!err)
		err = put(named(1, "moves"), "moved");
	if (!err)
		err = tree_link(&tree, named(1, "moves"), kept_file);
	return err ? err : tree_unlink(&tree, named(1, "moves"));
}

bool is_kept(void)
{
	return reads(kept[0], "kept") && reads(kept[1], "kept") && links(kept[0]) == 2 && reads(kept_file, "moved") &&
	       links(kept_file) == 1;
}

/* Objects with a gfid of the caller's. */
static int mkdir_with(const char *path, const struct gfid *gfid)
{
	struct mkdir_in in = { .gfid = *gfid, .mode = 0755 };
	struct mkdir_out out = { 0 };
	int err = tree_loc(&tree, path, &in.loc);

	if (!err)
		err = tree_call(&tree, tree.at, FOP_mkdir, &in, &out);
	fop_out_clear(FOP_mkdir, &out);
	inode_unref(in.loc.parent);
	return err;
}

static int mknod_with(const char *path, const struct gfid *gfid)
{
	struct mknod_in in = { .gfid = *gfid, .mode = S_IFREG | 0644 };
	struct mknod_out out = { 0 };
	int err = tree_loc(&tree, path, &in.loc);

	if (!err)
		err = tree_call(&tree, tree.at, FOP_mknod, &in, &out);
	fop_out_clear(FOP_mknod, &out);
	inode_unref(in.loc.parent);
	return err;
}

const char *lost_name(const struct gfid *gfid, char path[64])
{
	char text[GFID_TEXT];

	snprintf(path, 64, "lost+found/%s", gfid_text(gfid, text));
	return path;
}

PROPERTY(what_is_right_is_not_found)
{
	CHECK_INT(build_kept(), 0);
	CHECK(is_clean());
	CHECK(strstr(told, "\npointers 2\naway 2\n"));
	CHECK(finds("repair wait=1", "nothing", 0));
	CHECK(is_kept());
	CHECK_INT(fsck("mend"), -EINVAL);
	CHECK_INT(fsck("wait=x"), -EINVAL);
}

/* ---- what is away, and pointers ---- */

PROPERTY(an_anchor_without_pointer_goes_if_the_file_has_other_names)
{
	const char *a = named(0, "a"), *b = named(1, "b");

	CHECK_INT(build_kept(), 0);
	CHECK_INT(put(a, "text"), 0);
	CHECK_INT(tree_link(&tree, a, b), 0);
	at_brick(1);
	CHECK_INT(tree_unlink(&tree, b), 0);
	at("dht");
	CHECK_INT(links(a), 2);
	CHECK(found_and_mended("away-without-pointer", 1));
	CHECK_INT(links(a), 1);
	CHECK(reads(a, "text") && is_kept());
	CHECK_INT(tree_getattr(&tree, "lost+found", &(struct attr){ 0 }), -ENOENT);
}

/* In `away` of that subvolume, with a layout by which it is at home at another. */
static int make_left_home(int child, int home, char path[AWAY_DIR_PATH])
{
	struct layout l = { .version = 2, .home = (uint32_t)home, .count = 1, .member = { { (uint32_t)home, 1, 1 } } };
	char text[GFID_TEXT], away[32];
	uint8_t bytes[LAYOUT_SIZE_MAX];
	struct attr of;
	int err;

	at_brick(child);
	tree_mkdir(&tree, DHT_HIDDEN "/away", 0777); /* if it is not there */
	err = tree_mkdir(&tree, "left", 0755);
	if (!err)
		err = tree_setxattr(&tree, "left", DHT_LAYOUT_XATTR, bytes, (uint32_t)layout_encode(&l, bytes), 0);
	if (!err)
		err = tree_getattr(&tree, "left", &of);
	snprintf(away, sizeof(away), DHT_HIDDEN "/away/%02x", of.gfid.bytes[0]);
	tree_mkdir(&tree, away, 0777);
	snprintf(path, AWAY_DIR_PATH, "%s/d.%s", away, gfid_text(&of.gfid, text));
	return err ? err : tree_rename(&tree, "left", path, 0);
}

PROPERTY(what_is_left_where_a_directory_was_at_home_goes_if_it_is_empty)
{
	char path[AWAY_DIR_PATH], inside[AWAY_DIR_PATH + 8];

	CHECK_INT(build_kept(), 0);
	CHECK_INT(make_left_home(1, 2, path), 0);
	CHECK(found_and_mended("shard", 1));
	CHECK_INT(make_left_home(1, 2, path), 0);
	snprintf(inside, sizeof(inside), "%s/file", path);
	CHECK_INT(put(inside, "text"), 0);
	CHECK(finds("repair wait=1", "shard", 1));
	CHECK(!count("done "));
	at_brick(1);
	CHECK(reads(inside, "text"));
	at("dht");
	CHECK(is_kept());
}

/* A directory that is at home at a subvolume, with a pointer; and the part that was made of it at another one, which says that its home is there. Its path. */
static int make_next_home(int home, int child, const char *name, char path[AWAY_DIR_PATH])
{
	struct parent p = { .turn = 2, .subvolume = (uint32_t)home };
	char text[GFID_TEXT], away[32];
	uint8_t bytes[PARENT_SIZE];
	struct attr of;
	int err = tree_mkdir(&tree, name, 0755);

	if (!err)
		err = tree_getattr(&tree, name, &of);
	at_brick(child);
	snprintf(away, sizeof(away), DHT_HIDDEN "/away/%02x", of.gfid.bytes[0]);
	tree_mkdir(&tree, DHT_HIDDEN "/away", 0777); /* if they are not there */
	tree_mkdir(&tree, away, 0777);
	snprintf(path, AWAY_DIR_PATH, "%s/d.%s", away, gfid_text(&of.gfid, text));
	if (!err)
		err = mkdir_with(path, &of.gfid);
	p.gfid = of.gfid;
	parent_encode(&p, bytes);
	if (!err)
		err = tree_setxattr(&tree, path, DHT_PARENT_XATTR, bytes, sizeof(bytes), 0);
	at("dht");
	return err;
}

static bool is_there(int child, const char *path)
{
	struct attr of;
	bool yes;

	at_brick(child);
	yes = !tree_getattr(&tree, path, &of);
	at("dht");
	return yes;
}

/* Where its home stays nobody needs it. */
PROPERTY(a_part_of_a_directory_that_no_layout_names_goes_if_it_is_empty)
{
	char path[AWAY_DIR_PATH];

	CHECK_INT(build_kept(), 0);
	CHECK_INT(make_next_home(3, 1, named(3, "home"), path), 0);
	CHECK(found_and_mended("shard", 1));
	CHECK(!is_there(1, path) && is_kept());
}

/* Where its home leaves the volume it is to be the home, as it is, and its pointer is led to it last. */
PROPERTY_WITH(where_a_directory_is_to_be_at_home_is_not_found, " option leaving 3\n", "256M")
{
	char path[AWAY_DIR_PATH];

	CHECK_INT(build_kept(), 0);
	CHECK_INT(make_next_home(3, 1, named(3, "home"), path), 0);
	CHECK(finds("wait=1", "nothing", 0));
	CHECK(finds("repair wait=1", "nothing", 0));
	CHECK(is_there(1, path));
	CHECK_INT(make_next_home(2, 1, named(2, "other"), path), 0);
	CHECK(found_and_mended("shard", 1));
}

/* So it is as long as the roots say that it leaves: who was told that it does not any more has not set all right yet. */
PROPERTY(nor_where_the_removal_was_cancelled_just_now)
{
	uint8_t bytes[LEAVES_SIZE];
	char path[AWAY_DIR_PATH];

	leaves_encode(3, bytes);
	CHECK_INT(build_kept(), 0);
	CHECK_INT(make_next_home(3, 1, named(3, "home"), path), 0);
	at_brick(2);
	CHECK_INT(tree_setxattr(&tree, "", DHT_LEAVES_XATTR, bytes, sizeof(bytes), 0), 0);
	CHECK(finds("repair wait=1", "nothing", 0));
	CHECK(is_there(1, path));
	at_brick(2);
	CHECK_INT(tree_removexattr(&tree, "", DHT_LEAVES_XATTR), 0);
	CHECK(found_and_mended("shard", 1));
}

PROPERTY(the_last_name_of_a_file_is_not_lost)
{
	const char *a = named(0, "a"), *b = named(1, "b");
	struct attr of;
	char path[64];

	CHECK_INT(build_kept(), 0);
	for (int i = 0; i < 4; i++) { /* in place or not, wherever lost+found is */
		const char *from = named(i, "from"), *to = named((i + 1) % 4, "to");

		CHECK_INT(put(from, "text"), 0);
		CHECK_INT(tree_getattr(&tree, from, &of), 0);
		CHECK_INT(tree_rename(&tree, from, to, 0), 0);
		at_brick((i + 1) % 4);
		CHECK_INT(tree_unlink(&tree, to), 0);
		at("dht");
		CHECK(found_and_mended("away-without-pointer", 1));
		CHECK(reads(lost_name(&of.gfid, path), "text") && links(path) == 1);
	}
	CHECK_INT(put(a, "both"), 0); /* two anchors, and no name */
	CHECK_INT(tree_getattr(&tree, a, &of), 0);
	CHECK_INT(tree_link(&tree, a, b), 0);
	CHECK_INT(tree_link(&tree, a, named(2, "c")), 0);
	at_brick(0);
	CHECK_INT(tree_unlink(&tree, a), 0);
	at_brick(1);
	CHECK_INT(tree_unlink(&tree, b), 0);
	at_brick(2);
	CHECK_INT(tree_unlink(&tree, named(2, "c")), 0);
	CHECK(found_and_mended("away-without-pointer", 2));
	CHECK(reads(lost_name(&of.gfid, path), "both") && links(path) == 1);
	CHECK(is_kept());
}

/* Of its name at that subvolume. */
static int drop_anchors(int child, const char *path)
{
	struct attr of;
	struct dirents list = { 0 };
	struct file *dir = NULL;
	char text[GFID_TEXT], away[64], anchor[160];
	int err = tree_getattr(&tree, path, &of);

	at_brick(child);
	snprintf(away, sizeof(away), DHT_HIDDEN "/away/%02x", of.gfid.bytes[0]);
	if (!err)
		err = tree_opendir(&tree, away, &dir);
	if (err)
		return err;
	err = tree_readdir(&tree, dir, &list);
	tree_release(&tree, dir);
	for (uint32_t i = 0; i < list.count && !err; i++) {
		snprintf(anchor, sizeof(anchor), "%s/%s", away, list.entry[i].name);
		if (strstr(anchor, gfid_text(&of.gfid, text)))
			err = tree_unlink(&tree, anchor);
	}
	fop_out_clear(FOP_readdir, &list);
	at("dht");
	return err;
}

PROPERTY(a_pointer_to_nothing_becomes_a_text)
{
	const char *a = named(0, "a"), *b = named(1, "b");
	struct dirents list = { 0 };
	struct file *dir = NULL;
	char path[320];

	CHECK_INT(build_kept(), 0);
	CHECK_INT(put(a, "text"), 0);
	CHECK_INT(tree_rename(&tree, a, b, 0), 0);
	CHECK_INT(drop_anchors(0, b), 0);
	CHECK(found_and_mended("pointer-to-nothing", 1));
	CHECK_INT(tree_getattr(&tree, b, &(struct attr){ 0 }), -ENOENT);
	CHECK_INT(tree_opendir(&tree, "lost+found", &dir), 0);
	CHECK_INT(tree_readdir(&tree, dir, &list), 0);
	tree_release(&tree, dir);
	CHECK_INT(list.count, 1);
	CHECK(!strncmp(list.entry[0].name, b, strlen(b)));
	snprintf(path, sizeof(path), "lost+found/%s", list.entry[0].name);
	fop_out_clear(FOP_readdir, &list);
	CHECK(links(path) == 1 && !reads(path, ""));
	CHECK(is_kept());
}

PROPERTY(a_pointer_whose_object_has_other_names_gets_its_anchor_back)
{
	const char *a = named(0, "a"), *b = named(1, "b"), *c = named(2, "c");

	CHECK_INT(build_kept(), 0);
	CHECK_INT(put(a, "text"), 0);
	CHECK_INT(tree_link(&tree, a, b), 0);
	CHECK_INT(tree_link(&tree, a, c), 0);
	CHECK_INT(drop_anchors(0, b), 0);
	CHECK(found_and_mended("pointer-to-nothing", 2));
	CHECK(same_file(a, b) && same_file(a, c) && reads(b, "text") && links(c) == 3);
	CHECK(is_kept());
}

/* A file at 1 that was brought by one of its names; the other leads there by what is left at 0. */
static const char *first, *second;

static void bring_with_names(void)
{
	const char *a = named(0, "a");
	char *argv[] = { (char *)"bring", NULL };

	first = named(1, "b");
	second = named(2, "c");
	argv[1] = (char *)first;
	CHECK_INT(build_kept(), 0);
	CHECK_INT(put(a, "text"), 0);
	CHECK_INT(tree_rename(&tree, a, first, 0), 0);
	CHECK_INT(tree_link(&tree, first, second), 0);
	CHECK_INT(tree.at->type->command(tree.at, 2, argv, stderr), 0);
	CHECK_INT(holder(first), 1);
}

PROPERTY(what_leads_on_by_what_is_left_of_a_moved_file_is_right)
{
	bring_with_names();
	CHECK(is_clean());
	CHECK(finds("repair wait=1", "nothing", 0));
	CHECK(same_file(first, second) && reads(second, "text") && links(first) == 2);
	CHECK(is_kept());
}

PROPERTY(both_anchors_of_a_name_that_leads_on_go_with_it)
{
	bring_with_names();
	at_brick(2);
	CHECK_INT(tree_unlink(&tree, second), 0);
	at("dht");
	CHECK_INT(links(first), 2);
	CHECK(found_and_mended("away-without-pointer", 2));
	CHECK(reads(first, "text") && links(first) == 1 && is_kept());
}

PROPERTY(a_name_that_leads_on_to_no_anchor_gets_one)
{
	bring_with_names();
	CHECK_INT(drop_anchors(1, second), 0);
	CHECK(finds("wait=1", "pointer-to-nothing", 1));
	CHECK_INT(fsck("repair wait=1"), 0);
	CHECK(is_clean());
	CHECK(same_file(first, second) && reads(second, "text") && links(first) == 2);
	CHECK(is_kept());
}

static int point(int child, const char *path, const struct pointer *p)
{
	uint8_t bytes[POINTER_SIZE];
	int err;

	pointer_encode(p, bytes);
	at_brick(child);
	err = tree_setxattr(&tree, path, DHT_POINTER_XATTR, bytes, sizeof(bytes), 0);
	at("dht");
	return err;
}

PROPERTY(a_pointer_that_tells_a_wrong_place_is_set_right)
{
	const char *a = named(0, "a"), *b = named(1, "b");
	struct pointer p = { .subvolume = 3 };
	struct attr of;

	CHECK_INT(build_kept(), 0);
	CHECK_INT(put(a, "text"), 0);
	CHECK_INT(tree_link(&tree, a, b), 0);
	CHECK_INT(tree_getattr(&tree, a, &of), 0);
	p.gfid = of.gfid;
	CHECK_INT(point(1, b, &p), 0);
	CHECK(found_and_mended("pointer-to-nothing", 1));
	CHECK(same_file(a, b) && reads(b, "text"));
	p.subvolume = 77;
	CHECK_INT(point(1, b, &p), 0);
	CHECK(found_and_mended("pointer-to-nothing", 1));
	CHECK(same_file(a, b) && reads(b, "text"));
	p.subvolume = 0;
	gfid_create(&p.gfid); /* of something else */
	CHECK_INT(point(1, b, &p), 0);
	CHECK(found_and_mended("pointer-to-nothing", 1));
	CHECK(same_file(a, b) && reads(b, "text"));
	CHECK_INT(tree_unlink(&tree, b), 0);
	CHECK_INT(links(a), 1);
	CHECK(is_clean() && is_kept());
}

PROPERTY(an_xattr_that_makes_no_sense_is_set_right_or_goes)
{
	const char *a = named(0, "a"), *b = named(1, "b"), *c = named(2, "c");
	char mark[MARK_NAME];

	CHECK_INT(build_kept(), 0);
	CHECK_INT(put(a, "text"), 0);
	CHECK_INT(tree_link(&tree, a, b), 0);
	at_brick(1);
	CHECK_INT(tree_setxattr(&tree, b, DHT_POINTER_XATTR, "what", 4, 0), 0);
	CHECK(found_and_mended("senseless-xattr", 1)); /* its anchor tells */
	CHECK(same_file(a, b) && reads(b, "text"));
	CHECK_INT(put(c, ""), 0);
	at_brick(2);
	CHECK_INT(tree_setxattr(&tree, c, DHT_POINTER_XATTR, "what", 4, 0), 0);
	CHECK(found_and_mended("senseless-xattr", 1));
	CHECK_INT(tree_getattr(&tree, c, &(struct attr){ 0 }), -ENOENT);
	CHECK_INT(links("lost+found"), 2);
	/* a mark; what is in the directory is not known as long as that is there */
	CHECK_INT(tree_link(&tree, a, named(3, "e")), 0);
	at_brick(0);
	CHECK_INT(tree_setxattr(&tree, kept[2], mark_name(mark_hash("x"), mark), "what", 4, 0), 0);
	CHECK(found_and_mended("senseless-xattr", 1));
	at_brick(0);
	CHECK_INT(tree_setxattr(&tree, "", mark, "what", 4, 0), 0);
	CHECK(found_and_mended("senseless-xattr", 1));
	CHECK(is_kept());
}

/* By the time when others make them: a pointer that is a directory, and the directory. */
PROPERTY(directories_have_pointers_too)
{
	const char *name = named(1, "d");
	char path[AWAY_DIR_PATH], text[GFID_TEXT], inside[160];
	struct pointer p = { .subvolume = 0 };
	struct attr of;

	CHECK_INT(build_kept(), 0);
	CHECK_INT(tree_mkdir(&tree, "made", 0755), 0);
	CHECK_INT(tree_getattr(&tree, "made", &of), 0);
	CHECK_INT(tree_rmdir(&tree, "made"), 0);
	p.gfid = of.gfid;
	at_brick(0);
	tree_mkdir(&tree, DHT_HIDDEN, 0777);
	tree_mkdir(&tree, DHT_HIDDEN "/away", 0777);
	snprintf(path, sizeof(path), DHT_HIDDEN "/away/%02x", p.gfid.bytes[0]);
	tree_mkdir(&tree, path, 0777);
	snprintf(path, sizeof(path), DHT_HIDDEN "/away/%02x/d.%s", p.gfid.bytes[0], gfid_text(&p.gfid, text));
	CHECK_INT(mkdir_with(path, &p.gfid), 0);
	snprintf(inside, sizeof(inside), "%s/file", path);
	CHECK_INT(put(inside, "inside"), 0);
	at_brick(1);
	CHECK_INT(tree_mkdir(&tree, name, 0755), 0);
	CHECK_INT(point(1, name, &p), 0);
	CHECK(is_clean());
	CHECK_INT(point(1, name, &(struct pointer){ 2, p.gfid }), 0);
	CHECK(found_and_mended("pointer-to-nothing", 1));
	at_brick(0); /* it waits for a rename whose record is lost */
	tree_mkdir(&tree, DHT_HIDDEN "/work", 0777);
	tree_mkdir(&tree, DHT_HIDDEN "/work/5", 0777);
	CHECK_INT(tree_rename(&tree, path, DHT_HIDDEN "/work/5/w.15151515-1515-1515-1515-151515151515.0", 0), 0);
	CHECK_INT(fsck("wait=1"), 0);
	CHECK(count("finding ") == 2 && count("finding pointer-to-nothing\n") == 1);
	CHECK_INT(fsck("repair wait=1"), 0);
	CHECK(count("done ") == 1 && count("finding ") == 1 && is_clean());
	at_brick(0);
	CHECK(reads(inside, "inside"));
	at_brick(1);
	CHECK_INT(tree_rmdir(&tree, name), 0); /* nothing leads to it */
	CHECK(finds("repair wait=1", "away-without-pointer", 1));
	CHECK(count("next ") == 1 && !count("done "));
	at_brick(0);
	CHECK_INT(tree_unlink(&tree, inside), 0);
	CHECK(found_and_mended("away-without-pointer", 1));
	CHECK(is_kept());
}

/* ---- names of the root, and one file at two subvolumes ---- */

PROPERTY(a_name_where_it_does_not_belong_is_called_otherwise)
{
	const char *name = named(0, "name"), *dir = named(0, "folder");
	char inside[128], long_name[256];
	struct attr of;

	CHECK_INT(build_kept(), 0);
	CHECK_INT(put(name, "right"), 0);
	at_brick(2);
	CHECK_INT(put(name, "stray"), 0);
	CHECK_INT(tree_getattr(&tree, name, &of), 0);
	CHECK_INT(tree_mkdir(&tree, dir, 0755), 0);
	snprintf(inside, sizeof(inside), "%s/inside", dir);
	CHECK_INT(put(inside, "inside"), 0);
	CHECK(found_and_mended("stray", 2));
	CHECK(reads(name, "right") && is_kept());
	CHECK_INT(tree_getattr(&tree, dir, &of), -ENOENT);
	memset(long_name, 'x', 255);
	long_name[255] = '\0';
	at_brick((owner(long_name) + 1) % SUBVOLUMES);
	CHECK_INT(put(long_name, "long"), 0);
	CHECK(found_and_mended("stray", 1));
	at_brick(owner("lost+found") ? 0 : 1); /* a file system's own */
	CHECK_INT(tree_mkdir(&tree, "lost+found", 0700), 0);
	CHECK(is_clean());
}

PROPERTY(one_file_at_two_subvolumes_is_told)
{
	const char *a = named(0, "a"), *b = named(1, "b");
	struct attr of;

	CHECK_INT(build_kept(), 0);
	CHECK_INT(put(a, "text"), 0);
	CHECK_INT(tree_getattr(&tree, a, &of), 0);
	at_brick(1);
	CHECK_INT(mknod_with(b, &of.gfid), 0);
	CHECK(finds("wait=1", "twice", 1));
	CHECK(finds("repair wait=1", "twice", 1));
	CHECK(count("next ") == 1 && !count("done "));
	at_brick(1);
	CHECK_INT(tree_unlink(&tree, b), 0);
	at_brick(2); /* a copy of a brick: the same name, too */
	CHECK_INT(mknod_with(a, &of.gfid), 0);
	CHECK_INT(fsck("repair wait=1"), 0);
	CHECK(count("finding twice\n") == 1 && count("finding stray\n") == 1 && !count("done "));
	at_brick(2);
	CHECK_INT(tree_unlink(&tree, a), 0);
	CHECK(is_clean() && is_kept() && reads(a, "text"));
}

PROPERTY(what_nobody_knows_is_told)
{
	CHECK_INT(build_kept(), 0);
	at_brick(2);
	tree_mkdir(&tree, DHT_HIDDEN "/work", 0777); /* if it is not there */
	tree_mkdir(&tree, DHT_HIDDEN "/work/7", 0777);
	CHECK_INT(put(DHT_HIDDEN "/work/7/what", ""), 0);
	CHECK(finds("repair wait=1", "unknown", 1));
	CHECK(is_kept());
}

/* ---- when it is not judged ---- */

PROPERTY(without_a_subvolume_nothing_is_judged)
{
	const char *a = named(0, "a"), *b = named(1, "b");

	CHECK_INT(put(a, "text"), 0);
	CHECK_INT(tree_link(&tree, a, b), 0);
	for (int child = 0; child < SUBVOLUMES; child++) {
		let_fail(child, "all,-release", "ENOTCONN");
		CHECK_INT(fsck("repair wait=1"), 0);
		CHECK_INT(count("problem c"), 1);
		CHECK_INT(count("finding "), 0);
		let_work(child);
	}
	let_fail(1, "readdir", "ENOTCONN"); /* in the middle */
	CHECK_INT(fsck("repair wait=1"), 0);
	CHECK(count("problem ") == 1 && !count("finding ") && strstr(told, "at c1"));
	let_work(1);
	CHECK(is_clean());
	CHECK(same_file(a, b) && links(a) == 2);
}

/* Who moves a file with its names dies after so many messages. What he holds is told in words, or nothing is told of the volume; who repairs ends it. */
static bool moved_and_looked_at(unsigned messages, unsigned *sent)
{
	const char *a = named(0, "a"), *b = named(1, "b"), *c = named(2, "c");
	char *argv[] = { (char *)"bring", (char *)b };
	bool yes = !put(a, "text") && !tree_rename(&tree, a, b, 0) && !tree_link(&tree, b, c);

	cut_after(messages, false);
	tree.at->type->command(tree.at, 2, argv, stdout);
	*sent = cut_end();
	yes &= !fsck("wait=1") && !strstr(told, "Unknown error");
	yes &= !fsck("repair wait=1") && !strstr(told, "Unknown error") && !count("problem ") && is_clean();
	yes &= same_file(b, c) && reads(b, "text") && links(c) == 2;
	if (!yes)
		fprintf(stderr, "after %u messages: %s", messages, told);
	return yes && !tree_unlink(&tree, b) && !tree_unlink(&tree, c);
}

PROPERTY(what_is_held_by_who_moves_a_file_is_told_in_words)
{
	const unsigned step = moment_step(STEP);
	unsigned messages = first_moment(STEP), sent = 0;

	do {
		CHECK(moved_and_looked_at(messages, &sent));
		messages += step;
	} while (!failures && sent > messages - step);
	CHECK(messages > 20);
}

enum { WRITERS = 3 };
static atomic_uint writing;
static atomic_bool stop_writing;
static const char *live[WRITERS][3];

static void write_on_and_on(void *arg)
{
	const char **name = live[(uintptr_t)arg];

	while (!atomic_load(&stop_writing)) {
		put(name[0], "live");
		tree_link(&tree, name[0], name[2]);
		tree_rename(&tree, name[0], name[1], 0);
		tree_rename(&tree, name[1], name[2], 0);
		tree_unlink(&tree, name[1]);
		tree_unlink(&tree, name[2]);
	}
	atomic_fetch_sub(&writing, 1);
}

static void begin_writing(void)
{
	atomic_store(&stop_writing, false);
	others_go_on(true);
	for (unsigned i = 0; i < WRITERS; i++) {
		char prefix[16];

		snprintf(prefix, sizeof(prefix), "live%u-", i);
		for (int k = 0; k < 3; k++)
			live[i][k] = named((int)(i + (unsigned)k) % SUBVOLUMES, prefix);
		atomic_fetch_add(&writing, 1);
		if (task_spawn(NULL, write_on_and_on, (void *)(uintptr_t)i))
			abort();
	}
}

static void end_writing(void)
{
	atomic_store(&stop_writing, true);
	while (atomic_load(&writing))
		task_sleep_ms(1);
	others_go_on(false);
}

PROPERTY(what_clients_do_meanwhile_is_not_found)
{
	CHECK_INT(build_kept(), 0);
	begin_writing();
	for (int i = 0; i < LOOKS && !failures; i++)
		if (fsck(i % 2 ? "repair wait=20" : "wait=20") || count("finding ") || count("problem ")) {
			fprintf(stderr, "look %d: %s", i, told);
			failures++;
		}
	end_writing();
	CHECK(is_clean() && is_kept());
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_right_is_not_found),
		cmocka_unit_test(an_anchor_without_pointer_goes_if_the_file_has_other_names),
		cmocka_unit_test(the_last_name_of_a_file_is_not_lost),
		cmocka_unit_test(a_pointer_to_nothing_becomes_a_text),
		cmocka_unit_test(a_pointer_whose_object_has_other_names_gets_its_anchor_back),
		cmocka_unit_test(what_leads_on_by_what_is_left_of_a_moved_file_is_right),
		cmocka_unit_test(both_anchors_of_a_name_that_leads_on_go_with_it),
		cmocka_unit_test(a_name_that_leads_on_to_no_anchor_gets_one),
		cmocka_unit_test(a_pointer_that_tells_a_wrong_place_is_set_right),
		cmocka_unit_test(an_xattr_that_makes_no_sense_is_set_right_or_goes),
		cmocka_unit_test(directories_have_pointers_too),
		cmocka_unit_test(what_is_left_where_a_directory_was_at_home_goes_if_it_is_empty),
		cmocka_unit_test(a_part_of_a_directory_that_no_layout_names_goes_if_it_is_empty),
		cmocka_unit_test(where_a_directory_is_to_be_at_home_is_not_found),
		cmocka_unit_test(nor_where_the_removal_was_cancelled_just_now),
		cmocka_unit_test(a_name_where_it_does_not_belong_is_called_otherwise),
		cmocka_unit_test(one_file_at_two_subvolumes_is_told),
		cmocka_unit_test(what_nobody_knows_is_told),
		cmocka_unit_test(without_a_subvolume_nothing_is_judged),
		cmocka_unit_test(what_is_held_by_who_moves_a_file_is_told_in_words),
		cmocka_unit_test(what_clients_do_meanwhile_is_not_found),
	};
	int failed;

#ifdef __SANITIZE_THREAD__ /* what is right by hand is right or wrong with any build; it takes minutes */
	if (moments_are_told())
		cmocka_set_test_filter("what_*");
#endif
	if (getenv("FSCK_TEST")) /* a pattern of names */
		cmocka_set_test_filter(getenv("FSCK_TEST"));
	failed = cmocka_run_group_tests(tests, tasks_start, tasks_stop);
	failed += _cmocka_run_group_tests("under_way", under_way, under_way_count, tasks_start, tasks_stop);

	free(told);
	return failed;
}
