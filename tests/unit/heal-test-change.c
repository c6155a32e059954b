/* SPDX-License-Identifier: Apache-2.0 */
/* What heal-test does to members: changes by chance, each with the note that a brick would make of it. */
#include "heal-test.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static uint64_t state;

void chance_begin(uint64_t from)
{
	state = from;
}

uint32_t chance(uint32_t below)
{
	uint64_t z = state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return below ? (uint32_t)((z ^ z >> 31) % below) : 0;
}

struct names names;
uint64_t change_clock = 1000000000000000000;

void change_begin(int at)
{
	tree.at = member[at];
	tree.time_ns = change_clock;
}

static void touched(int at, const char *path)
{
	cleanup_inode struct inode *inode = NULL;

	tree.at = member[at];
	if (!tree_walk(&tree, path, &inode))
		queue_add(&inode->gfid);
}

static void note_name(const struct gfid *directory, const char *name)
{
	struct name_note *n = &names.note[names.count];

	if (!name[0] || names.count == sizeof(names.note) / sizeof(*names.note))
		return;
	n->directory = *directory;
	snprintf(n->name, sizeof(n->name), "%s", name);
	names.count++;
}

static void touched_parent(int at, const char *path)
{
	struct loc loc;
	int err;

	tree.at = member[at];
	err = tree_loc(&tree, path, &loc);
	if (!err && names.on && S_ISDIR(loc.parent->type)) /* a file there names nothing: no brick notes that */
		note_name(&loc.parent->gfid, loc.name);
	else if (!err && !names.on)
		queue_add(&loc.parent->gfid);
	inode_unref(loc.parent);
}

/* A name of the directory, by chance; false: it has none. */
static bool any_name(const char *path, char *name, bool *directory)
{
	struct file *file = NULL;
	struct dirents list = { 0 };
	bool got;

	if (tree_opendir(&tree, path, &file))
		return false;
	got = !tree_readdir(&tree, file, &list) && list.count;
	if (got) {
		const struct dirent_plus *e = &list.entry[chance(list.count)];

		snprintf(name, 256, "%s", e->name);
		*directory = S_ISDIR(e->type);
	}
	struct readdir_out out = { list };

	fop_out_clear(FOP_readdir, &out);
	tree_release(&tree, file);
	return got;
}

bool path_add(char *path, const char *name)
{
	size_t length = strlen(path);

	if (length + strlen(name) + 2 > PATH_ROOM)
		return false;
	snprintf(path + length, PATH_ROOM - length, "%s%s", length ? "/" : "", name);
	return true;
}

/* A path that the member has. Directories only: perhaps the root (""). */
static void any_path(int at, bool directories, char *path)
{
	char name[256];
	bool directory = true;

	tree.at = member[at];
	path[0] = '\0';
	for (int depth = 0; directory && depth < 8 && any_name(path, name, &directory); depth++) {
		if (directories && (!directory || !chance(3)))
			break;
		if (!path_add(path, name) || (directory && !chance(4)))
			break;
	}
}

static void new_path(int at, char *path)
{
	char name[256];
	int length = chance(10) ? 0 : 30 + (int)chance(200);

	any_path(at, true, path);
	snprintf(
		name, sizeof(name), "%.*s%c%u", length,
		"-a-very-long-name-which-needs-more-room-than-the-identity-has-in-an-inode-and-which-goes-on-and-on-and-on-and-on-"
		"until-it-is-nearly-as-long-as-a-name-may-be-at-all-which-is-two-hundred-and-fifty-five-bytes-or-so-they-say-these",
		(char)('a' + chance(6)), chance(4));
	if (path[0] == '-' || strlen(path) + 260 < PATH_ROOM)
		path_add(path, name);
}

static bool is_file(const char *path)
{
	struct attr a;

	return !tree_getattr(&tree, path, &a) && S_ISREG(a.mode);
}

static int write_some(const struct change *c)
{
	cleanup_file struct file *file = NULL;
	char *bytes = malloc(c->size + 1);
	int err = is_file(c->a) ? tree_open_file(&tree, c->a, O_RDWR, &file) : -EINVAL;

	for (uint32_t i = 0; i < c->size; i++)
		bytes[i] = (char)(c->byte + (char)(i / 1000));
	if (!err)
		err = tree_write(&tree, file, c->offset, bytes, c->size);
	free(bytes);
	if (!err) {
		struct release_in in = { .file = file };
		struct release_out out = { 0 };

		tree_call(&tree, tree.at, FOP_release, &in, &out);
	}
	return err;
}

static int punch(const struct change *c)
{
	struct file *file = NULL;
	int err = is_file(c->a) ? tree_open_file(&tree, c->a, O_RDWR, &file) : -EINVAL;
	struct fallocate_in in = { file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, c->offset, c->size + 1 };
	struct fallocate_out out = { 0 };

	if (err)
		return err;
	err = tree_call(&tree, tree.at, FOP_fallocate, &in, &out);
	tree_release(&tree, file);
	return err;
}

static int make(const struct change *c, mode_t type)
{
	struct mknod_in node = { .gfid = c->gfid, .mode = type | (c->number & 0777), .rdev = S_ISCHR(type) ? 0x103 : 0 };
	struct mkdir_in dir = { .gfid = c->gfid, .mode = c->number & 01777 };
	struct symlink_in link = { .gfid = c->gfid, .target = c->b[0] ? c->b : "nowhere" };
	struct mknod_out out = { 0 }; /* the same for the three */
	struct loc loc;
	int err = tree_loc(&tree, c->a, &loc);

	node.loc = dir.loc = link.loc = loc;
	if (!err && S_ISDIR(type))
		err = tree_call(&tree, tree.at, FOP_mkdir, &dir, &out);
	else if (!err && S_ISLNK(type))
		err = tree_call(&tree, tree.at, FOP_symlink, &link, &out);
	else if (!err)
		err = tree_call(&tree, tree.at, FOP_mknod, &node, &out);
	fop_out_clear(FOP_mknod, &out);
	inode_unref(loc.parent);
	return err;
}

static int set(const struct change *c, uint32_t valid)
{
	struct setattr s = {
		.valid = valid, .mode = c->number & 07777, .uid = c->number % 7, .gid = c->number % 5, .size = c->size
	};

	s.mtime = s.atime = (struct time){ c->number, c->number % 1000000000 };
	if (valid == SET_MODE) {
		struct attr a;

		if (!tree_getattr(&tree, c->a, &a) && S_ISLNK(a.mode))
			return -EOPNOTSUPP;
	}
	return tree_setattr(&tree, c->a, &s);
}

static int set_xattr(const struct change *c)
{
	char name[32], value[3000];

	snprintf(name, sizeof(name), "trusted.%c", 'a' + c->number % 4);
	memset(value, c->byte, sizeof(value));
	return c->size % 4 ? tree_setxattr(&tree, c->a, name, value, c->size % (on_disk ? 600 : 3000), 0)
			   : tree_removexattr(&tree, c->a, name);
}

static int set_acl(const struct change *c)
{
	static const uint16_t tags[] = { 1, 2, 4, 0x10, 0x20 };
	uint8_t acl[44] = { 2 };

	for (unsigned i = 0; i < 5; i++) {
		uint16_t tag = htole16(tags[i]), may = htole16(c->number >> i & 7);
		uint32_t id = htole32(tags[i] == 2 ? c->number % 9 : UINT32_MAX);

		memcpy(acl + 4 + 8 * i, &tag, 2);
		memcpy(acl + 6 + 8 * i, &may, 2);
		memcpy(acl + 8 + 8 * i, &id, 4);
	}
	const char *name = c->size % 3 ? "system.posix_acl_access" : "system.posix_acl_default";

	if (!on_disk)
		return -EOPNOTSUPP;
	return c->size % 5 ? tree_setxattr(&tree, c->a, name, acl, sizeof(acl), 0) : tree_removexattr(&tree, c->a, name);
}

static int remove_tree(int at, const char *path)
{
	char below[PATH_ROOM], name[256];
	bool directory;
	int err;

	tree.at = member[at];
	for (;;) {
		err = tree_unlink(&tree, path);
		if (err != -EISDIR && err != -EPERM)
			return err;
		err = tree_rmdir(&tree, path);
		if (err != -ENOTEMPTY)
			return err;
		if (!any_name(path, name, &directory))
			return -EIO;
		snprintf(below, sizeof(below), "%s", path);
		if (!path_add(below, name))
			return -ENAMETOOLONG;
		err = remove_tree(at, below);
		touched_parent(at, below);
		if (err)
			return err;
	}
}

int change_at(int at, const struct change *c)
{
	change_begin(at);
	switch (c->kind) {
	case MKDIR:
		return make(c, S_IFDIR);
	case FILE_:
		return make(c, S_IFREG);
	case SYMLINK:
		return make(c, S_IFLNK);
	case FIFO:
		return make(c, S_IFIFO);
	case DEVICE:
		return make(c, S_IFCHR);
	case WRITE:
		return write_some(c);
	case TRUNCATE:
		return set(c, SET_SIZE);
	case PUNCH:
		return punch(c);
	case CHMOD:
		return set(c, SET_MODE);
	case CHOWN:
		return set(c, SET_UID | SET_GID);
	case UTIMES:
		return set(c, SET_ATIME | SET_MTIME);
	case XATTR:
		return set_xattr(c);
	case ACL:
		return set_acl(c);
	case LINK:
		return tree_link(&tree, c->a, c->b);
	case RENAME:
		return tree_rename(&tree, c->a, c->b, 0);
	case UNLINK:
		return tree_unlink(&tree, c->a);
	case RMDIR:
		return tree_rmdir(&tree, c->a);
	default:
		return c->a[0] ? remove_tree(at, c->a) : -EBUSY;
	}
}

/* What the index of a brick would have of it (see note_of()). */
static void index_change(int at, const struct change *c)
{
	if (c->kind <= DEVICE || c->kind >= RENAME)
		touched_parent(at, c->a);
	if (c->kind == LINK || c->kind == RENAME)
		touched_parent(at, c->b);
	if (c->kind < RENAME)
		touched(at, c->a);
	if (c->kind <= DEVICE)
		queue_add(&c->gfid);
}

void change_some(unsigned mask, bool noted)
{
	static const uint8_t mostly[] = {
		MKDIR, MKDIR, FILE_, FILE_, FILE_, WRITE, WRITE, RENAME, RENAME, RENAME, LINK, XATTR
	};
	struct change *c = malloc(sizeof(*c));
	int at = 0;

	do
		at = (int)chance(MEMBERS);
	while (!(mask >> at & 1));
	*c = (struct change){ .kind = chance(2) ? mostly[chance(sizeof(mostly))] : (int)chance(names.on ? REMOVE : KINDS) };
	c->size = chance(3) ? chance(3000) : chance(3 << 20);
	c->offset = chance(3) ? 0 : chance(5) << 20 | chance(5000);
	c->number = chance(UINT32_MAX);
	c->byte = (char)chance(256);
	for (int i = 0; i < 16; i++)
		c->gfid.bytes[i] = (uint8_t)(chance(255) + 1);
	if (c->kind <= DEVICE)
		new_path(at, c->a);
	else
		any_path(at, c->kind == RMDIR, c->a);
	if (c->kind == LINK || c->kind == RENAME || c->kind == SYMLINK) {
		if (chance(4) || c->kind == SYMLINK)
			new_path(at, c->b);
		else
			any_path(at, false, c->b);
	}
	change_clock += 1000000007;
	if (getenv("HEAL_TALK"))
		fprintf(stderr, "change %d %02x%02x mask %x %.60s to %.60s, %u %u at %lu\n", c->kind, c->gfid.bytes[0],
			c->gfid.bytes[1], mask, c->a, c->b, c->number, c->size, c->offset);
	for (int i = 0; i < MEMBERS; i++)
		if (mask >> i & 1) {
			if (noted)
				index_change(i, c);
			change_at(i, c);
			if (noted)
				index_change(i, c);
		}
	tree.time_ns = 1;
	free(c);
}
