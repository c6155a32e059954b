/* SPDX-License-Identifier: Apache-2.0 */
/* Names of up to 255 bytes, with the brick in view: each operation is one message, as with short ones, and what somebody else makes of the
 * brick's names shows no wrong one. */
#include "crypt-test.h"

#include <sys/xattr.h>

#include "log.h"

/* Three names of 255 bytes in one directory: of ASCII, of two-byte characters, of three-byte ones. */
enum { NAMES = 3, PATH_ROOM = 600 };
static void long_name(unsigned which, char name[NAME_ROOM])
{
	static const char *const parts[NAMES] = { "a long name, ", "\xc3\xa4\xd0\x96", "\xe6\xbc\xa2\xe5\xad\x97" };
	size_t part = strlen(parts[which]);

	for (size_t i = 0; i < NAME_MAX_BYTES; i++)
		name[i] = i < NAME_MAX_BYTES / part * part ? parts[which][i % part] : 'x';
	name[NAME_MAX_BYTES] = '\0';
}

static char *in_directory(const char *directory, unsigned which, char path[PATH_ROOM])
{
	char name[NAME_ROOM];

	long_name(which, name);
	snprintf(path, PATH_ROOM, "%.300s/%s", directory, name);
	return path;
}

/* Names of the directory, and whether that one is among them. */
static int list(struct tree *t, const char *directory, const char *wanted, bool *found, struct dirents *all)
{
	struct file *file;
	int err = tree_opendir(t, directory, &file);

	*found = false;
	if (err)
		return err;
	err = tree_readdir(t, file, all);
	for (uint32_t i = 0; i < all->count; i++)
		*found |= !strcmp(all->entry[i].name, wanted);
	tree_release(t, file);
	return err;
}

static bool shows(struct tree *t, const char *directory, const char *wanted, uint32_t *count)
{
	struct readdir_out all = { 0 };
	bool found;
	int err = list(t, directory, wanted, &found, &all.entries);

	*count = all.entries.count;
	fop_out_clear(FOP_readdir, &all);
	return !err && found;
}

/* ---- all operations ---- */

static bool listed(struct bed *bed, unsigned which, uint32_t names)
{
	char name[NAME_ROOM];
	uint32_t count;

	long_name(which, name);
	return shows(&bed->b, "d", name, &count) && count == names;
}

static void each_kind_has_a_long_name(struct bed *bed)
{
	char path[PATH_ROOM], other[PATH_ROOM], *target;
	struct attr attr;
	struct file *file;

	CHECK_INT(tree_create(&bed->a, in_directory("d", 0, path), O_RDWR | O_EXCL, 0644, &file), 0);
	CHECK_INT(tree_write(&bed->a, file, 0, "contents", 8), 0);
	tree_release(&bed->a, file);
	CHECK_INT(tree_create(&bed->b, path, O_RDWR | O_EXCL, 0644, NULL), -EEXIST);
	CHECK_INT(tree_link(&bed->b, path, in_directory("d", 1, other)), 0);
	CHECK_INT(tree_getattr(&bed->a, other, &attr), 0);
	CHECK_INT(attr.nlink == 2 && attr.size == 8, true);
	CHECK_INT(listed(bed, 0, 2) && listed(bed, 1, 2), true);
	CHECK_INT(tree_mkdir(&bed->a, in_directory("d", 2, path), 0755), 0);
	CHECK_INT(tree_rename(&bed->b, other, in_directory(path, 1, (char[PATH_ROOM]){ 0 }), 0), 0);
	CHECK_INT(tree_rmdir(&bed->a, path), -ENOTEMPTY);
	CHECK_INT(tree_unlink(&bed->a, in_directory(path, 1, other)), 0);
	CHECK_INT(tree_rmdir(&bed->a, path), 0);
	CHECK_INT(tree_symlink(&bed->a, "target", path), 0);
	CHECK_INT(tree_readlink(&bed->b, path, &target), 0);
	CHECK_INT(strcmp(target, "target"), 0);
	free(target);
	CHECK_INT(tree_mknod(&bed->a, in_directory("d", 1, path), S_IFIFO | 0644, 0), 0);
	CHECK_INT(listed(bed, 0, 3) && listed(bed, 1, 3) && listed(bed, 2, 3), true);
}

static void a_long_name_replaces_another(struct bed *bed)
{
	char from[PATH_ROOM], to[PATH_ROOM];
	struct attr attr;

	in_directory("d", 0, from);
	in_directory("d", 1, to); /* a fifo */
	CHECK_INT(tree_rename(&bed->a, from, to, RENAME_NOREPLACE), -EEXIST);
	CHECK_INT(tree_rename(&bed->a, from, to, RENAME_EXCHANGE), 0);
	CHECK_INT(tree_getattr(&bed->b, from, &attr), 0);
	CHECK_INT(S_ISFIFO(attr.mode), true);
	CHECK_INT(tree_rename(&bed->b, to, from, 0), 0);
	CHECK_INT(tree_getattr(&bed->a, from, &attr), 0);
	CHECK_INT(S_ISREG(attr.mode) && attr.size == 8, true);
	CHECK_INT(tree_getattr(&bed->a, to, &attr), -ENOENT);
	CHECK_INT(tree_rename(&bed->a, from, "d/short", 0), 0);
	CHECK_INT(tree_rename(&bed->b, "d/short", from, 0), 0);
	CHECK_INT(tree_unlink(&bed->b, from), 0);
	CHECK_INT(tree_unlink(&bed->a, in_directory("d", 2, to)), 0);
}

void long_names_do_all_that_short_ones_do(void *arg)
{
	struct bed *bed = arg;
	struct statfs_in in = { 0 };
	struct statfs_out out = { 0 };

	CHECK_INT(tree_mkdir(&bed->a, "d", 0755), 0);
	each_kind_has_a_long_name(bed);
	a_long_name_replaces_another(bed);
	CHECK_INT(tree_rmdir(&bed->a, "d"), 0);
	CHECK_INT(tree_walk(&bed->a, "", &in.inode), 0);
	CHECK_INT(tree_call(&bed->a, bed->a.at, FOP_statfs, &in, &out), 0);
	inode_unref(in.inode);
	CHECK_INT(out.statfs.namemax, 255);
}

void attributes_have_long_names(void *arg)
{
	struct bed *bed = arg;
	struct listxattr_in in = { 0 };
	struct listxattr_out out = { 0 };
	struct blob value = { 0 };
	char name[NAME_ROOM] = "user.";
	bool fits;

	memset(name + 5, 'n', XATTR_PLAIN_MAX);
	CHECK_INT(tree_mkdir(&bed->a, "d", 0755), 0);
	CHECK_INT(tree_setxattr(&bed->a, "d", name, "v", 1, XATTR_CREATE), 0);
	CHECK_INT(tree_getxattr(&bed->b, "d", name, &value), 0);
	CHECK_INT(value.size, 1);
	free(value.bytes);
	CHECK_INT(tree_walk(&bed->b, "d", &in.inode), 0);
	CHECK_INT(tree_call(&bed->b, bed->b.at, FOP_listxattr, &in, &out), 0);
	fits = out.names.size == strlen(name) + 1 && !memcmp(out.names.bytes, name, out.names.size);
	fop_out_clear(FOP_listxattr, &out);
	inode_unref(in.inode);
	CHECK_INT(fits, true);
	CHECK_INT(tree_removexattr(&bed->b, "d", name), 0);
}

/* A character of four bytes takes 3.4 when it is packed: the plain name is longer than the sealed one. */
static void of_four_bytes(char first, char name[NAME_ROOM])
{
	static const char character[] = "\xf0\x9f\x90\x98";

	snprintf(name, NAME_ROOM, "user.%c", first);
	while (strlen(name) + 4 <= 5 + XATTR_PLAIN_MAX)
		strcat(name, character);
}

static bool lists_once(const struct blob *names, const char *wanted)
{
	const char *at = names->bytes, *end = at + names->size;
	unsigned found = 0;

	for (; at < end; at += strlen(at) + 1)
		found += !strcmp(at, wanted);
	return found == 1;
}

void lists_have_room_for_plain_names(void *arg)
{
	enum { COUNT = 5 };
	struct bed *bed = arg;
	struct listxattr_in in = { 0 };
	struct listxattr_out out = { 0 };
	char name[NAME_ROOM];
	size_t size = 0;
	bool fits;

	CHECK_INT(tree_mkdir(&bed->a, "many", 0755), 0);
	for (int i = 0; i < COUNT; i++) {
		of_four_bytes((char)('a' + i), name);
		size += strlen(name) + 1;
		CHECK_INT(tree_setxattr(&bed->a, "many", name, "v", 1, XATTR_CREATE), 0);
	}
	CHECK_INT(tree_walk(&bed->b, "many", &in.inode), 0);
	CHECK_INT(tree_call(&bed->b, bed->b.at, FOP_listxattr, &in, &out), 0);
	fits = out.names.size == size;
	for (int i = 0; i < COUNT && fits; i++) {
		of_four_bytes((char)('a' + i), name);
		fits = lists_once(&out.names, name);
	}
	fop_out_clear(FOP_listxattr, &out);
	inode_unref(in.inode);
	CHECK_INT(fits, true);
}

/* ---- a client that dies ---- */

enum change { CREATE, MKDIR, SYMLINK, LINK, RENAME, RENAME_OVER, UNLINK, CHANGES };

/* d has the long name 0, and for RENAME_OVER 1 as well. */
static int change(struct tree *t, enum change kind)
{
	char old[PATH_ROOM], new[PATH_ROOM];

	in_directory("d", 0, old);
	in_directory("d", 1, new);
	switch (kind) {
	case CREATE:
		return tree_create(t, new, O_RDWR | O_EXCL, 0644, NULL);
	case MKDIR:
		return tree_mkdir(t, new, 0755);
	case SYMLINK:
		return tree_symlink(t, "target", new);
	case LINK:
		return tree_link(t, old, new);
	case RENAME:
	case RENAME_OVER:
		return tree_rename(t, old, new, 0);
	default:
		return tree_unlink(t, old);
	}
}

static void clear(struct bed *bed)
{
	char path[PATH_ROOM];

	for (unsigned i = 0; i < NAMES; i++)
		if (tree_unlink(&bed->b, in_directory("d", i, path)) == -EISDIR)
			tree_rmdir(&bed->b, path);
}

/* One after each message: what is there is what was there before the change or after it, by the names that the brick has. */
static bool cut_one(struct bed *bed, enum change kind, unsigned messages)
{
	static const uint8_t after[CHANGES] = {
		[CREATE] = 3, [MKDIR] = 3, [SYMLINK] = 3, [LINK] = 3, [RENAME] = 2, [RENAME_OVER] = 2
	};
	unsigned before = kind == RENAME_OVER ? 3 : 1, seen = 0;
	char path[PATH_ROOM], name[NAME_ROOM];
	uint32_t count = 0, shown = 0;
	struct attr attr;
	bool cut;

	if (tree_mknod(&bed->b, in_directory("d", 0, path), S_IFREG | 0644, 0) ||
	    (kind == RENAME_OVER && tree_mknod(&bed->b, in_directory("d", 1, path), S_IFREG | 0644, 0)))
		failures++;
	bed_cut(bed, messages, 0);
	change(&bed->a, kind);
	cut = bed_heal(bed) > messages;
	for (unsigned i = 0; i < 2; i++) {
		long_name(i, name);
		seen |= (unsigned)(tree_getattr(&bed->b, in_directory("d", i, path), &attr) == 0) << i;
		shown |= (unsigned)shows(&bed->b, "d", name, &count) << i;
	}
	if ((seen != before && seen != after[kind]) || shown != seen || count != (seen & 1) + (seen >> 1)) {
		fprintf(stderr, "change %d, cut after %u messages: found %u, listed %u, %u names\n", kind, messages, seen,
			shown, count);
		failures++;
	}
	clear(bed);
	return cut;
}

void a_crash_leaves_one_of_the_names(void *arg)
{
	struct bed *bed = arg;

	CHECK_INT(tree_mkdir(&bed->a, "d", 0755), 0);
	for (enum change kind = 0; kind < CHANGES; kind++)
		for (unsigned messages = 0; cut_one(bed, kind, messages) && !failures; messages++)
			;
}

/* ---- the provider ---- */

/* The brick's directory of the sealed name in its root. */
static void brick_path(struct bed *bed, const char *name, char path[PATH_ROOM])
{
	struct readdir_out all = { 0 };
	bool found;

	path[0] = '\0';
	if (!list(&bed->brick, name, "", &found, &all.entries) && all.entries.count)
		snprintf(path, PATH_ROOM, "%s%s%s", name, *name ? "/" : "", all.entries.entry[0].name);
	fop_out_clear(FOP_readdir, &all);
}

/* The brick's entry at `from` moves to `to`: then d of the mount shows nothing, and finds nothing. */
static bool hides(struct bed *bed, const char *from, const char *to)
{
	char path[PATH_ROOM];
	struct attr attr;
	uint32_t count = 1;
	bool so = !strcmp(from, to) || !tree_rename(&bed->brick, from, to, 0);

	shows(&bed->b, "d", "", &count);
	so = so && !count;
	for (unsigned i = 0; i < NAMES; i++)
		so = so && tree_getattr(&bed->b, in_directory("d", i, path), &attr) == -ENOENT;
	if (!so)
		fprintf(stderr, "a name that was changed at the brick is shown, or found: %s\n", to);
	return tree_rename(&bed->brick, to, from, 0) == 0 && so;
}

static void any_change_hides(struct bed *bed, const char *sealed, size_t top)
{
	char changed[PATH_ROOM];
	struct chance c = { seed_of_run(9) };

	for (int i = 0; i < 400 && !failures; i++) {
		size_t at = top + chance(&c, strlen(sealed) - top);

		strcpy(changed, sealed);
		if (chance(&c, 4))
			changed[at] = (char)(1 + chance(&c, 255));
		else
			changed[at + 1] = '\0';
		if (changed[at] == '/' || !strcmp(changed, sealed) || (at == top && changed[at] == '.'))
			continue;
		CHECK_INT(hides(bed, sealed, changed), true);
	}
}

void a_provider_shows_no_wrong_long_name(void *arg)
{
	struct bed *bed = arg;
	char path[PATH_ROOM], directory[PATH_ROOM], sealed[PATH_ROOM], elsewhere[PATH_ROOM], *slash;
	struct attr attr;
	uint32_t count;

	CHECK_INT(tree_mkdir(&bed->a, "d", 0755), 0);
	CHECK_INT(tree_mknod(&bed->a, in_directory("d", 1, path), S_IFREG | 0644, 0), 0);
	brick_path(bed, "", directory);
	brick_path(bed, directory, sealed);
	slash = strrchr(sealed, '/');
	CHECK_INT(slash && slash[1] == '~', true);
	any_change_hides(bed, sealed, (size_t)(slash + 1 - sealed));
	CHECK_INT(tree_getattr(&bed->b, path, &attr), 0); /* as it was again */
	/* The text of another directory's name, and the short form of one */
	CHECK_INT(tree_mkdir(&bed->brick, "x", 0755), 0);
	snprintf(elsewhere, sizeof(elsewhere), "x%s", slash);
	CHECK_INT(tree_rename(&bed->brick, sealed, elsewhere, 0), 0);
	CHECK_INT(tree_getattr(&bed->b, path, &attr), -ENOENT);
	CHECK_INT(tree_mkdir(&bed->a, "e", 0755), 0);
	CHECK_INT(tree_mknod(&bed->a, in_directory("e", 1, path), S_IFREG | 0644, 0), 0);
	CHECK_INT(shows(&bed->b, "d", "", &count), false);
	CHECK_INT(count, 0);
}

/* ---- link targets and attributes, changed by the provider ---- */

/* An object of the brick's directory, with what is sealed in it. */
struct thing {
	char path[PATH_ROOM];
	struct gfid gfid;
	char *target;
};

static int look_at(struct bed *bed, const char *directory, const char *name, struct thing *t)
{
	struct inode *inode;
	int err;

	snprintf(t->path, PATH_ROOM, "%.280s/%.280s", directory, name);
	err = tree_walk(&bed->brick, t->path, &inode);
	if (err)
		return err;
	t->gfid = inode->gfid;
	inode_unref(inode);
	return tree_readlink(&bed->brick, t->path, &t->target);
}

/* The same object, by its name and gfid, with that target. */
static int make_anew(struct bed *bed, const struct thing *t, char *target)
{
	struct symlink_in in = { .gfid = t->gfid, .target = target };
	struct symlink_out out = { 0 };
	int err = tree_unlink(&bed->brick, t->path);

	if (!err)
		err = tree_loc(&bed->brick, t->path, &in.loc);
	if (err)
		return err;
	err = tree_call(&bed->brick, bed->brick.at, FOP_symlink, &in, &out);
	inode_unref(in.loc.parent);
	fop_out_clear(FOP_symlink, &out);
	return err;
}

static int both_links(struct bed *bed, struct thing t[2])
{
	struct readdir_out all = { 0 };
	char directory[PATH_ROOM];
	bool found;
	int err;

	brick_path(bed, "", directory);
	err = list(&bed->brick, directory, "", &found, &all.entries);
	if (!err && all.entries.count != 2)
		err = -EINVAL;
	for (int i = 0; i < 2 && !err; i++)
		err = look_at(bed, directory, all.entries.entry[i].name, &t[i]);
	fop_out_clear(FOP_readdir, &all);
	return err;
}

static void is_refused_target(struct bed *bed, const char *path)
{
	unsigned before = bed_refused(bed);
	char *target = NULL;

	CHECK_INT(tree_readlink(&bed->b, path, &target), -EIO);
	CHECK_INT(tree_readlink(&bed->a, path, &target), -EIO);
	CHECK_INT(bed_refused(bed) - before, 1);
}

void a_provider_shows_no_wrong_target(void *arg)
{
	struct bed *bed = arg;
	struct thing t[2] = { 0 };
	char *target = NULL, changed[100];

	CHECK_INT(tree_mkdir(&bed->a, "d", 0755), 0);
	CHECK_INT(tree_symlink(&bed->a, "to/the/one", "d/one"), 0);
	CHECK_INT(tree_symlink(&bed->a, "to/another", "d/two"), 0);
	CHECK_INT(both_links(bed, t), 0);
	log_open("/dev/null");
	CHECK_INT(make_anew(bed, &t[0], t[1].target), 0);
	CHECK_INT(make_anew(bed, &t[1], t[0].target), 0);
	is_refused_target(bed, "d/one");
	is_refused_target(bed, "d/two");
	snprintf(changed, sizeof(changed), "%s", t[0].target);
	changed[7] = changed[7] == 'x' ? 'y' : 'x';
	CHECK_INT(make_anew(bed, &t[0], changed), 0);
	snprintf(changed, sizeof(changed), "%.*s", (int)strlen(t[1].target) - 4, t[1].target);
	CHECK_INT(make_anew(bed, &t[1], changed), 0);
	is_refused_target(bed, "d/one");
	is_refused_target(bed, "d/two");
	CHECK_INT(make_anew(bed, &t[0], (char *)"/etc/passwd"), 0);
	CHECK_INT(make_anew(bed, &t[1], (char *)"/etc/passwd"), 0);
	is_refused_target(bed, "d/one");
	is_refused_target(bed, "d/two");
	CHECK_INT(make_anew(bed, &t[0], t[0].target), 0);
	CHECK_INT(make_anew(bed, &t[1], t[1].target), 0);
	CHECK_INT(tree_readlink(&bed->b, "d/one", &target), 0);
	CHECK_INT(strcmp(target, "to/the/one"), 0);
	log_open("/dev/stderr");
	free(target);
	free(t[0].target);
	free(t[1].target);
}

/* The names of the brick's two attributes of users. */
static int both_attributes(struct bed *bed, const char *path, char name[2][NAME_ROOM])
{
	struct listxattr_in in = { 0 };
	struct listxattr_out out = { 0 };
	int err = tree_walk(&bed->brick, path, &in.inode), found = 0;
	const char *at, *end;

	if (!err)
		err = tree_call(&bed->brick, bed->brick.at, FOP_listxattr, &in, &out);
	at = out.names.bytes, end = at + out.names.size;
	for (; !err && at < end; at += strlen(at) + 1)
		if (!strncmp(at, SEALED_XATTR, strlen(SEALED_XATTR)) && found < 2)
			snprintf(name[found++], NAME_ROOM, "%s", at);
	fop_out_clear(FOP_listxattr, &out);
	inode_unref(in.inode);
	return err ? err : found == 2 ? 0 : -ENODATA;
}

static void is_refused_value(struct bed *bed, const char *name)
{
	unsigned before = bed_refused(bed);
	struct blob value = { 0 };

	CHECK_INT(tree_getxattr(&bed->b, "d", name, &value), -EIO);
	CHECK_INT(tree_getxattr(&bed->a, "d", name, &value), -EIO);
	CHECK_INT(bed_refused(bed) - before, 1);
}

void a_provider_shows_no_wrong_attribute(void *arg)
{
	struct bed *bed = arg;
	char path[PATH_ROOM], name[2][NAME_ROOM];
	struct blob value[2] = { 0 }, seen = { 0 };

	CHECK_INT(tree_mkdir(&bed->a, "d", 0755), 0);
	CHECK_INT(tree_setxattr(&bed->a, "d", "user.one", "first", 5, 0), 0);
	CHECK_INT(tree_setxattr(&bed->a, "d", "user.two", "again", 5, 0), 0);
	brick_path(bed, "", path);
	CHECK_INT(both_attributes(bed, path, name), 0);
	for (int i = 0; i < 2; i++)
		CHECK_INT(tree_getxattr(&bed->brick, path, name[i], &value[i]), 0);
	log_open("/dev/null");
	for (int i = 0; i < 2; i++)
		CHECK_INT(tree_setxattr(&bed->brick, path, name[i], value[!i].bytes, value[!i].size, 0), 0);
	is_refused_value(bed, "user.one");
	is_refused_value(bed, "user.two");
	for (uint32_t at = 0; at < value[0].size; at++) {
		((uint8_t *)value[0].bytes)[at] ^= 4;
		CHECK_INT(tree_setxattr(&bed->brick, path, name[0], value[0].bytes, value[0].size, 0), 0);
		((uint8_t *)value[0].bytes)[at] ^= 4;
		CHECK_INT(tree_setxattr(&bed->brick, path, name[1], value[1].bytes, at, 0), 0);
		is_refused_value(bed, "user.one");
		is_refused_value(bed, "user.two");
	}
	for (int i = 0; i < 2; i++)
		CHECK_INT(tree_setxattr(&bed->brick, path, name[i], value[i].bytes, value[i].size, 0), 0);
	CHECK_INT(tree_getxattr(&bed->b, "d", "user.two", &seen), 0);
	CHECK_INT(seen.size == 5 && !memcmp(seen.bytes, "again", 5), true);
	log_open("/dev/stderr");
	free(seen.bytes);
	free(value[0].bytes);
	free(value[1].bytes);
}
