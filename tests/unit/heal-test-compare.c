/* SPDX-License-Identifier: Apache-2.0 */
/* Are all members of heal-test the same? */
#include "heal-test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct dirent_plus *)a)->name, ((const struct dirent_plus *)b)->name);
}

void members_list(int at, const char *path, struct readdir_out *out)
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

	members_list(0, path, &a);
	members_list(at, path, &b);
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
		if (path_add(below, a.entries.entry[i].name))
			members_compare(below);
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

void members_compare(const char *path)
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

/* ---- all names of one member ---- */

static struct {
	size_t count, room;
	struct remembered {
		char *path;
		struct gfid gfid;
	} * name;
} remembered;

static void remember(int at, const char *path)
{
	struct readdir_out out = { 0 };
	char *below = malloc(PATH_ROOM);

	members_list(at, path, &out);
	for (uint32_t i = 0; i < out.entries.count; i++) {
		const struct dirent_plus *e = &out.entries.entry[i];
		struct attr a = { 0 };

		snprintf(below, PATH_ROOM, "%s", path);
		tree.at = member[at];
		if (!path_add(below, e->name) || tree_getattr(&tree, below, &a))
			continue;
		if (remembered.count == remembered.room) {
			remembered.room = 2 * remembered.room + 64;
			remembered.name = realloc(remembered.name, remembered.room * sizeof(*remembered.name));
		}
		remembered.name[remembered.count++] = (struct remembered){ strdup(below), a.gfid };
		if (S_ISDIR(a.mode))
			remember(at, below);
	}
	free(below);
	fop_out_clear(FOP_readdir, &out);
}

void names_remember(int at)
{
	remember(at, "");
}

void names_check(int at)
{
	tree.at = member[at];
	for (size_t i = 0; i < remembered.count; i++) {
		struct remembered *r = &remembered.name[i];
		struct attr a = { 0 };

		if (tree_getattr(&tree, r->path, &a))
			FAIL("\"%s\" has been lost at %d", r->path, at);
		else if (!gfid_equal(&a.gfid, &r->gfid))
			FAIL("\"%s\" is another object at %d", r->path, at);
		free(r->path);
	}
	free(remembered.name);
	memset(&remembered, 0, sizeof(remembered));
}
