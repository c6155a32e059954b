/* SPDX-License-Identifier: Apache-2.0 */
/* Healing: members that were changed differently become the same again, whatever the order in which their objects are healed.
 * HEAL_SEED=N replays one tree; HEAL_ROUNDS=N makes it longer; HEAL_TALK=1 tells each change and each heal. */
#include "test.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "heal.h"
#include "tree.h"

enum { MEMBERS = 3, TASKS_MAX = 3, RETRIES = 20, PATH_ROOM = 4096 };

static struct tree tree;
static struct xlator *member[MEMBERS];
static char base[128];
static bool on_disk;
static atomic_int failures;

#define FAIL(...) (fprintf(stderr, __VA_ARGS__), fprintf(stderr, "\n"), failures++)

/* ---- chance ---- */

static uint64_t seed, state;

static uint32_t chance(uint32_t below)
{
	uint64_t z = state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return below ? (uint32_t)((z ^ z >> 31) % below) : 0;
}

/* ---- what may differ: a list of objects, as the bricks' indexes would have it; all of it is to be healed ---- */

struct queued {
	struct gfid gfid;
	struct inode *kept, *parent; /* as long as they are in memory, members that forget everything are asked by handle */
};
static struct {
	pthread_mutex_t lock;
	struct queued *entry;
	size_t count, room;
	_Atomic unsigned running, retries;
	bool walk; /* children of each directory are to be healed, too */
} queue = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void enqueue_below(const struct gfid *gfid, struct inode *parent)
{
	pthread_mutex_lock(&queue.lock);
	for (size_t i = 0; i < queue.count; i++)
		if (gfid_equal(&queue.entry[i].gfid, gfid)) {
			pthread_mutex_unlock(&queue.lock);
			return;
		}
	if (queue.count == queue.room) {
		queue.room = queue.room * 2 + 64;
		queue.entry = realloc(queue.entry, queue.room * sizeof(*queue.entry));
	}
	queue.entry[queue.count++] =
		(struct queued){ *gfid, inode_find(tree.graph->inodes, gfid), parent ? inode_ref(parent) : NULL };
	pthread_mutex_unlock(&queue.lock);
}

static void enqueue(const struct gfid *gfid)
{
	enqueue_below(gfid, NULL);
}

static void forget(struct queued *q)
{
	inode_unref(q->kept);
	inode_unref(q->parent);
}

static bool dequeue(struct queued *q, unsigned turn)
{
	bool got;

	pthread_mutex_lock(&queue.lock);
	got = queue.count;
	if (got) {
		size_t i = turn % queue.count;

		*q = queue.entry[i];
		queue.entry[i] = queue.entry[--queue.count];
	}
	pthread_mutex_unlock(&queue.lock);
	return got;
}

/* ---- what a test does to members ---- */

static uint64_t clock_of_changes = 1000000000000000000;

static void begin_change(int at)
{
	tree.at = member[at];
	tree.time_ns = clock_of_changes;
}

static void touched(int at, const char *path)
{
	cleanup_inode struct inode *inode = NULL;

	tree.at = member[at];
	if (!tree_walk(&tree, path, &inode))
		enqueue(&inode->gfid);
}

/* As the notes of changes that were under way have it: names, not whole directories. */
static struct {
	bool on;
	size_t count;
	struct name_note {
		struct gfid directory;
		char name[256];
	} note[1000];
} names;

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
	if (!err && names.on)
		note_name(&loc.parent->gfid, loc.name);
	else if (!err)
		enqueue(&loc.parent->gfid);
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

static bool add_name(char *path, const char *name)
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
		if (!add_name(path, name) || (directory && !chance(4)))
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
		add_name(path, name);
}

/* Does something at every member of the mask: the same, with the same gfid. */
struct change {
	int kind;
	char a[PATH_ROOM], b[PATH_ROOM];
	struct gfid gfid;
	uint64_t offset;
	uint32_t size, number;
	char byte;
};

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
		if (!add_name(below, name))
			return -ENAMETOOLONG;
		err = remove_tree(at, below);
		touched_parent(at, below);
		if (err)
			return err;
	}
}

enum {
	MKDIR,
	FILE_,
	SYMLINK,
	FIFO,
	DEVICE,
	WRITE,
	TRUNCATE,
	PUNCH,
	CHMOD,
	CHOWN,
	UTIMES,
	XATTR,
	ACL,
	LINK,
	RENAME,
	UNLINK,
	RMDIR,
	REMOVE,
	KINDS
};

static int change_at(int at, const struct change *c)
{
	begin_change(at);
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
		enqueue(&c->gfid);
}

static void change_some(unsigned mask, bool noted)
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
	clock_of_changes += 1000000007;
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

/* ---- are they the same? ---- */

static void compare(const char *path);

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct dirent_plus *)a)->name, ((const struct dirent_plus *)b)->name);
}

static void list(int at, const char *path, struct readdir_out *out)
{
	struct file *file = NULL;

	tree.at = member[at];
	if (tree_opendir(&tree, path, &file))
		return;
	tree_readdir(&tree, file, &out->entries);
	tree_release(&tree, file);
	qsort(out->entries.entry, out->entries.count, sizeof(*out->entries.entry), by_name);
}

static void compare_names(int at, const char *path)
{
	struct readdir_out a = { 0 }, b = { 0 };
	char *below = malloc(PATH_ROOM);

	list(0, path, &a);
	list(at, path, &b);
	if (a.entries.count != b.entries.count)
		FAIL("\"%s\": %u names at 0, %u at %d", path, a.entries.count, b.entries.count, at);
	for (uint32_t i = 0; i < a.entries.count && i < b.entries.count; i++)
		if (strcmp(a.entries.entry[i].name, b.entries.entry[i].name)) {
			FAIL("in \"%s\": \"%s\" at 0, \"%s\" at %d", path, a.entries.entry[i].name, b.entries.entry[i].name,
			     at);
			break;
		}
	for (uint32_t i = 0; i < a.entries.count && at == MEMBERS - 1; i++) {
		snprintf(below, PATH_ROOM, "%s", path);
		if (add_name(below, a.entries.entry[i].name))
			compare(below);
	}
	free(below);
	fop_out_clear(FOP_readdir, &a);
	fop_out_clear(FOP_readdir, &b);
}

static struct buffer *content(int at, const char *path, const struct attr *a)
{
	struct file *file = NULL;
	struct buffer *b = NULL;
	char *target;

	tree.at = member[at];
	if (S_ISLNK(a->mode) && !tree_readlink(&tree, path, &target)) {
		b = buffer_from(target, strlen(target));
		free(target);
	} else if (S_ISREG(a->mode) && !tree_open_file(&tree, path, O_RDONLY, &file)) {
		if (tree_read(&tree, file, 0, a->size, &b))
			FAIL("can't read \"%s\" at %d", path, at);
		tree_release(&tree, file);
	}
	return b;
}

static void compare_content(int at, const char *path, const struct attr *a)
{
	cleanup_buffer struct buffer *x = content(0, path, a), *y = content(at, path, a);

	size_t at_byte = 0;

	while (x && y && at_byte < x->size && at_byte < y->size && x->data[at_byte] == y->data[at_byte])
		at_byte++;
	if (!x != !y || (x && (x->size != y->size || at_byte < x->size)))
		FAIL("\"%s\" has other bytes at %d, from %zu on (%zu, %zu)", path, at, at_byte, x ? x->size : 0,
		     y ? y->size : 0);
}

static uint64_t xattrs_digest(int at, const char *path)
{
	struct listxattr_in in = { 0 };
	struct listxattr_out out = { 0 };
	uint64_t sum = 0, hash;
	int err;

	tree.at = member[at];
	err = tree_walk(&tree, path, &in.inode);
	err = err ? err : tree_call(&tree, tree.at, FOP_listxattr, &in, &out);
	inode_unref(in.inode);
	for (const char *n = out.names.bytes; !err && n < (char *)out.names.bytes + out.names.size; n += strlen(n) + 1) {
		struct blob value = { 0 };

		hash = 14695981039346656037u;
		for (const char *s = n; *s; s++)
			hash = (hash ^ (uint8_t)*s) * 1099511628211u;
		tree_getxattr(&tree, path, n, &value);
		for (uint32_t i = 0; i < value.size; i++)
			hash = (hash ^ ((uint8_t *)value.bytes)[i]) * 1099511628211u;
		free(value.bytes);
		sum += hash; /* whatever the order */
	}
	fop_out_clear(FOP_listxattr, &out);
	return sum;
}

static void compare_attr(int at, const char *path, const struct attr *a, const struct attr *b)
{
	if (!gfid_equal(&a->gfid, &b->gfid))
		FAIL("\"%s\" is another object at %d", path, at);
	if (a->mode != b->mode || a->uid != b->uid || a->gid != b->gid || a->nlink != b->nlink || a->rdev != b->rdev)
		FAIL("\"%s\": mode %o owner %u:%u links %u at 0, %o %u:%u %u at %d", path, a->mode, a->uid, a->gid, a->nlink,
		     b->mode, b->uid, b->gid, b->nlink, at);
	if (!S_ISDIR(a->mode) && a->size != b->size)
		FAIL("\"%s\" %02x%02x: size %lu at 0, %lu at %d", path, a->gfid.bytes[0], a->gfid.bytes[1],
		     (unsigned long)a->size, (unsigned long)b->size, at);
	if (a->mtime.sec != b->mtime.sec || a->mtime.nsec != b->mtime.nsec)
		FAIL("\"%s\": mtime %lld.%09u at 0, %lld.%09u at %d", path, (long long)a->mtime.sec, a->mtime.nsec,
		     (long long)b->mtime.sec, b->mtime.nsec, at);
}

static void compare(const char *path)
{
	struct attr a = { 0 }, b = { 0 };

	tree.at = member[0];
	if (tree_getattr(&tree, path, &a))
		FAIL("\"%s\" is not at 0", path);
	for (int at = 1; at < MEMBERS && failures < 20; at++) {
		tree.at = member[at];
		if (tree_getattr(&tree, path, &b)) {
			FAIL("\"%s\" is not at %d", path, at);
			continue;
		}
		compare_attr(at, path, &a, &b);
		if (xattrs_digest(0, path) != xattrs_digest(at, path))
			FAIL("\"%s\" has other xattrs at %d", path, at);
		if (S_ISDIR(a.mode))
			compare_names(at, path);
		else
			compare_content(at, path, &a);
	}
}

/* ---- healing ---- */

static int found(struct heal *h, int to, const struct gfid *gfid)
{
	(void)h, (void)to;
	if (names.on)
		FAIL("found was called");
	enqueue(gfid);
	return 0;
}
static struct heal heal = { .secret[31] = 's', .epoch = 7, .arbiter = -1, .found = found };

static void enqueue_children(struct request *rq, const struct gfid *gfid)
{
	cleanup_inode struct inode *inode = inode_find(tree.graph->inodes, gfid);
	struct opendir_in in = { .inode = inode };
	struct opendir_out out = { 0 };

	rq->time_ns = 1; /* the test's own doing, which never fails */
	if (!inode || !S_ISDIR(inode->type) || opendir_on(rq, member[0], &in, &out))
		return;
	struct readdir_in rin = { .file = out.file, .size = 100 << 20, .flags = READDIR_PLUS };
	struct readdir_out rout = { 0 };

	do {
		if (readdir_on(rq, member[0], &rin, &rout))
			break;
		for (uint32_t i = 0; i < rout.entries.count; i++) {
			rin.offset = rout.entries.entry[i].next_offset;
			if (rout.entries.entry[i].inode && strcmp(rout.entries.entry[i].name, LIMBO) != 0)
				enqueue_below(&rout.entries.entry[i].gfid, inode);
		}
		bool end = rout.entries.end;

		fop_out_clear(FOP_readdir, &rout);
		if (end)
			break;
	} while (true);
	struct release_in release = { .file = out.file };
	struct release_out released = { 0 };

	release_on(rq, member[0], &release, &released);
	fop_out_clear(FOP_opendir, &out);
}

/* Each that many-th call of a heal fails at every member; 0: none. */
static unsigned faults;

static void fail_every(unsigned every)
{
	char word[] = "fail-every", number[16], *words[] = { word, number };

	snprintf(number, sizeof(number), "%u", every);
	for (int i = 0; i < MEMBERS; i++)
		member[i]->type->command(member[i], 2, words, stderr);
}

static void heal_some(void *arg)
{
	int to = *(int *)arg;
	struct request rq;
	struct queued q;

	if (heal_request(&heal, &rq))
		failures++;
	for (unsigned turn = (unsigned)(seed * 2654435761u); !failures && dequeue(&q, turn); turn = turn * 1103515245 + 12345) {
		int err = heal_object(&heal, &rq, &q.gfid, 0, to, 0, UINT64_MAX);
		char text[GFID_TEXT];

		if (getenv("HEAL_TALK"))
			fprintf(stderr, "%s at %d: %d\n", gfid_text(&q.gfid, text), to, err);
		if (err == -ENOTCONN && faults) {
			enqueue_below(&q.gfid, q.parent);
		} else if (err == -EAGAIN || err == -EEXIST || (err == -EIO && on_disk)) {
			enqueue_below(&q.gfid, q.parent);
			queue.retries++;
			if (queue.retries > RETRIES * (queue.count + 100))
				FAIL("healing %s at %d again and again: %s", gfid_text(&q.gfid, text), to, strerror(-err));
		} else if (err && err != -ENOENT) {
			FAIL("healing %s at %d: %s", gfid_text(&q.gfid, text), to, strerror(-err));
		} else if (queue.walk) {
			enqueue_children(&rq, &q.gfid);
			rq.time_ns = 0;
		}
		forget(&q);
	}
	heal_request_end(&rq);
	queue.running--;
}

static void purge(int to)
{
	struct request rq;
	int err = heal_request(&heal, &rq);

	if (!err)
		err = heal_purge_limbo(&heal, &rq, to);
	for (int i = 0; i < 10000 && err == -ENOTCONN && faults; i++)
		err = heal_purge_limbo(&heal, &rq, to);
	if (err)
		FAIL("purging the limbo of %d: %s", to, strerror(-err));
	heal_request_end(&rq);
}

/* ---- rounds ---- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void open_members(int kept)
{
	struct problem problem = { "" };
	char text[4096], name[16];
	size_t n = 0;

	for (int i = 0; i < MEMBERS; i++) {
		if (on_disk)
			n += (size_t)snprintf(text + n, sizeof(text) - n,
					      "volume leaf%d\n type storage/posix\n option directory %s/%d\n"
					      " option volume-id 6d6a1f70-0d3c-4c1d-9a65-3d1a7c1f4b01\n"
					      " option brick-id 0f0e0d0c-0b0a-4908-8706-05040302010%d\n"
					      " option free-space-floor 0\n option inodes-kept %d\nend-volume\n",
					      i, base, i, i, kept);
		else
			n += (size_t)snprintf(text + n, sizeof(text) - n, "volume leaf%d\n type debug/memory\nend-volume\n", i);
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      "volume m%d\n type test/answers\n subvolumes leaf%d\nend-volume\n", i, i);
	}
	snprintf(text + n, sizeof(text) - n, "volume top\n type test/spread\n subvolumes m0 m1 m2\nend-volume\n");
	if (tree_open(&tree, text, &problem))
		fail_msg("%s", problem.text);
	for (int i = 0; i < MEMBERS; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		member[i] = tree_find(&tree, name);
	}
	heal.x = tree.graph->top;
	if (!on_disk)
		inode_table_keep(tree.graph->inodes, 100000); /* so that they can be found */
}

static void make_directories(void)
{
	char path[160];

	snprintf(base, sizeof(base), "%s/heal-test.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp");
	assert_non_null(mkdtemp(base));
	for (int i = 0; i < MEMBERS; i++) {
		snprintf(path, sizeof(path), "%s/%d", base, i);
		assert_int_equal(mkdir(path, 0755), 0);
	}
}

/* Each brick finds all that it has. (The members share one table of inodes, and what is removed at one is forgotten for all.) */
static struct {
	struct inode **inode;
	size_t count;
} kept;

static void keep_all(int at, const char *path)
{
	struct readdir_out out = { 0 };
	char *below = malloc(PATH_ROOM);

	list(at, path, &out);
	for (uint32_t i = 0; i < out.entries.count; i++) {
		const struct dirent_plus *e = &out.entries.entry[i];

		if (!(kept.count & (kept.count - 1)))
			kept.inode = realloc(kept.inode, (2 * kept.count + 1) * sizeof(*kept.inode));
		snprintf(below, PATH_ROOM, "%s", path);
		if (!add_name(below, e->name))
			continue;
		tree.at = member[at];
		kept.inode[kept.count] = NULL;
		if (!tree_walk(&tree, below, &kept.inode[kept.count]))
			kept.count++;
		if (S_ISDIR(e->type))
			keep_all(at, below);
	}
	free(below);
	fop_out_clear(FOP_readdir, &out);
}

static void keep_all_(void *arg)
{
	(void)arg;
	for (int i = 0; i < MEMBERS; i++)
		keep_all(i, "");
}

static struct gfid *noted;
static size_t noted_count;

/* The roots were made at different times, by different users. */
static void same_roots(void)
{
	struct setattr s = { .valid = SET_MTIME | SET_MODE | SET_UID | SET_GID, .mode = 0755, .mtime = { 1000, 1 } };

	for (int i = 0; i < MEMBERS; i++) {
		begin_change(i);
		if (tree_setattr(&tree, "", &s))
			failures++;
	}
}

static void change_all_(void *arg)
{
	(void)arg;
	same_roots();
	for (int i = 0; i < 90; i++)
		change_some(7, false);
	for (unsigned i = names.on ? 1 + chance(6) : 5 + chance(80); i--;)
		change_some(1 + chance(7), true);
	noted = calloc(queue.count + 1, sizeof(*noted));
	for (noted_count = 0; noted_count < queue.count; noted_count++) {
		noted[noted_count] = queue.entry[noted_count].gfid;
		forget(&queue.entry[noted_count]);
	}
	queue.count = 0;
}

/* Each name of the notes, in an order by chance; again while some wait for others. */
static void heal_names(int to)
{
	struct request rq;
	int tries = 0, waiting = 1;

	if (heal_request(&heal, &rq))
		failures++;
	for (size_t i = names.count; i > 1; i--) {
		size_t other = chance((uint32_t)i);
		struct name_note swap = names.note[i - 1];

		names.note[i - 1] = names.note[other];
		names.note[other] = swap;
	}
	while (waiting && !failures) {
		waiting = 0;
		for (size_t i = 0; i < names.count; i++) {
			int err = heal_name(&heal, &rq, &names.note[i].directory, names.note[i].name, 0, to);

			waiting += err == -EAGAIN;
			if (err && err != -EAGAIN && err != -ENOENT)
				FAIL("healing the name %s at %d: %s", names.note[i].name, to, strerror(-err));
		}
		if (tries++ > 20)
			FAIL("names wait for each other");
	}
	heal_request_end(&rq);
}

static void heal_all_(void *arg)
{
	unsigned tasks = 1 + (unsigned)(seed % TASKS_MAX);

	(void)arg;
	queue.retries = 0;
	fail_every(faults);
	for (int to = 1; to < MEMBERS && !failures; to++) {
		for (size_t i = 0; i < noted_count && !queue.walk; i++)
			enqueue(&noted[i]);
		if (queue.walk) {
			enqueue(&gfid_root);
			if (heal_keep_links(&heal))
				failures++;
		}
		if (names.on)
			heal_names(to);
		queue.running = tasks;
		for (unsigned i = 1; i < tasks; i++)
			if (task_spawn(NULL, heal_some, &to))
				queue.running--;
		heal_some(&to);
		while (queue.running)
			task_sleep_ms(1);
		while (queue.count)
			forget(&queue.entry[--queue.count]);
		if (!failures)
			purge(to);
		heal_forget_links(&heal);
		fail_every(to == MEMBERS - 1 ? 0 : faults);
	}
}

static void compare_all_(void *arg)
{
	(void)arg;
	compare("");
}

static void round_of(uint64_t number, bool cold)
{
	failures = 0;
	queue.count = 0;
	noted_count = 0;
	noted = NULL;
	seed = state = number;
	names.count = 0;
	queue.walk = !names.on && (cold || number % 5 == 4);
	if (on_disk)
		make_directories();
	open_members(16384);
	task_call(change_all_, NULL);
	if (!cold)
		task_call(keep_all_, NULL);
	if (cold) {
		tree_close(&tree);
		open_members(0);
	}
	task_call(heal_all_, NULL);
	if (!failures)
		task_call(compare_all_, NULL);
	free(noted);
	while (kept.count)
		inode_unref(kept.inode[--kept.count]);
	tree_close(&tree);
	if (on_disk)
		nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	if (failures)
		fail_msg("HEAL_SEED=%llu (%s%s)", (unsigned long long)number, on_disk ? "on disk" : "in memory",
			 cold ? ", cold" : "");
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { SHARE = 20 }; /* sanitizers make it slow: a sample */
#else
enum { SHARE = 1 };
#endif

static void rounds(unsigned count, bool disk, bool cold)
{
	const char *only = getenv("HEAL_SEED"), *more = getenv("HEAL_ROUNDS");
	uint64_t first = only ? strtoull(only, NULL, 0) : (uint64_t)time(NULL) * 1000;

	on_disk = disk;
	if (disk && geteuid())
		skip();
	count = only ? 1 : more ? (unsigned)atoi(more) : count;
	printf("HEAL_SEED=%llu and the %u after it\n", (unsigned long long)first, count - 1);
	for (unsigned i = 0; i < count; i++)
		round_of(first + i, cold);
}

static void members_in_memory_become_the_same(void **s)
{
	(void)s;
	rounds(150 / SHARE, false, false);
}

static void members_on_disk_become_the_same(void **s)
{
	(void)s;
	rounds(40 / SHARE, true, false);
}

static void members_that_know_nothing_any_more_become_the_same(void **s)
{
	(void)s;
	rounds(40 / SHARE, true, true);
}

static void names_of_unfinished_changes_become_the_same(void **s)
{
	(void)s;
	names.on = true;
	rounds(100, false, false);
	rounds(20, true, false);
	names.on = false;
}

/* What was half done when a call failed, perhaps after the deed, is done the next time. */
static void a_heal_that_fails_is_taken_up_again(void **s)
{
	(void)s;
	faults = 47;
	rounds(60, false, false);
	rounds(20, true, false);
	faults = 0;
}

/* ---- files, one by one ---- */

enum { MIB = 1 << 20 };

static void put(int at, const char *path, uint64_t offset, const char *bytes)
{
	struct file *file = NULL;

	begin_change(at);
	if (tree_open_file(&tree, path, O_RDWR, &file) || tree_write(&tree, file, offset, bytes, strlen(bytes)))
		FAIL("can't write to %s at %d", path, at);
	tree_release(&tree, file);
	tree.time_ns = 1;
}

static uint64_t blocks(int at, const char *path)
{
	struct attr a = { 0 };

	tree.at = member[at];
	if (tree_getattr(&tree, path, &a))
		FAIL("%s is not at %d", path, at);
	return a.blocks;
}

static int heal_file(const char *path, int to, uint64_t from, uint64_t end)
{
	cleanup_inode struct inode *inode = NULL;
	struct request rq;
	int err;

	tree.at = member[0];
	if (tree_walk(&tree, path, &inode))
		return -ENOENT;
	err = heal_request(&heal, &rq);
	err = err ? err : heal_object(&heal, &rq, &inode->gfid, 0, to, from, end);
	heal_request_end(&rq);
	return err;
}

static void make_everywhere(const char *path)
{
	static struct change c = { .kind = FILE_, .number = 0644 };

	snprintf(c.a, sizeof(c.a), "%s", path);
	gfid_create(&c.gfid);
	clock_of_changes += 1000000007;
	for (int i = 0; i < MEMBERS; i++)
		if (change_at(i, &c))
			FAIL("can't make %s at %d", path, i);
	tree.time_ns = 1;
}

static char byte_at(int at, const char *path, uint64_t offset)
{
	struct file *file = NULL;
	struct buffer *b = NULL;
	char byte = '?';

	tree.at = member[at];
	if (!tree_open_file(&tree, path, O_RDONLY, &file) && !tree_read(&tree, file, offset, 1, &b) && b->size)
		byte = b->data[0];
	buffer_unref(b);
	tree_release(&tree, file);
	return byte;
}

static void expect(bool holds, const char *what)
{
	if (!holds)
		FAIL("it does not hold: %s", what);
}

static void files_(void *arg)
{
	(void)arg;
	same_roots();
	make_everywhere("f");
	put(0, "f", 20 * MIB, "end");
	put(1, "f", 5 * MIB, "in a hole of the source");
	expect(!heal_file("f", 1, 0, UINT64_MAX) && !heal_file("f", 2, 0, UINT64_MAX), "sparse files are healed");
	expect(blocks(1, "f") < 1000 && blocks(2, "f") < 1000, "holes stay holes");
	heal.bytes = 0;
	put(0, "f", 3, "x");
	put(0, "f", 9 * MIB, "y");
	expect(!heal_file("f", 1, 0, UINT64_MAX), "differing pieces are healed");
	expect(heal.bytes < 4 * MIB, "only pieces that differ are copied");
	expect(!heal_file("f", 2, 9 * MIB, 9 * MIB + 1), "a range is healed");
	expect(byte_at(2, "f", 9 * MIB) == 'y' && byte_at(2, "f", 3) != 'x', "a range is all that is healed");
	expect(!heal_file("f", 2, 0, 10), "another range is healed");
	make_everywhere("arbitrated");
	heal.arbiter = 1;
	put(0, "arbitrated", 0, "data");
	expect(!heal_file("arbitrated", 1, 0, UINT64_MAX) && byte_at(1, "arbitrated", 0) == '?', "an arbiter gets no data");
	heal.arbiter = -1;
	expect(!heal_file("arbitrated", 1, 0, UINT64_MAX) && !heal_file("arbitrated", 2, 0, UINT64_MAX), "others do");
	compare("");
}

static void what_a_file_has_is_copied_where_it_differs(void **s)
{
	(void)s;
	if (geteuid())
		skip(); /* in memory there are no holes */
	failures = 0;
	on_disk = true;
	make_directories();
	open_members(16384);
	task_call(files_, NULL);
	tree_close(&tree);
	nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	assert_int_equal(failures, 0);
}

static int start(void **s)
{
	(void)s;
	return runtime_start(2, 0);
}

static int stop(void **s)
{
	(void)s;
	runtime_stop();
	free(queue.entry);
	free(kept.inode);
	return 0;
}

int main(void)
{
#ifdef __SANITIZE_THREAD__ /* the test's own counters are not made for it yet */
	printf("[  SKIPPED ] heal-test: not yet with ThreadSanitizer\n");
	return 77;
#endif
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_in_memory_become_the_same),
		cmocka_unit_test(members_on_disk_become_the_same),
		cmocka_unit_test(members_that_know_nothing_any_more_become_the_same),
		cmocka_unit_test(names_of_unfinished_changes_become_the_same),
		cmocka_unit_test(a_heal_that_fails_is_taken_up_again),
		cmocka_unit_test(what_a_file_has_is_copied_where_it_differs),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
