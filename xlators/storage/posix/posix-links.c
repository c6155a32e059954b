/* SPDX-License-Identifier: Apache-2.0 */
/* The names of an object, as its identity tells of them; and making the brick durable. */
#include <dirent.h>
#include <endian.h>
#include <limits.h>

#include "posix.h"

/* ---- a name that the identity has cut ---- */

static bool fits(const struct identity_link *link, const char *name)
{
	return strlen(name) == link->length && !memcmp(name, link->name, link->kept);
}

/* The kernel knows the way to each directory that it has opened, and often to a file. */
static bool name_from_kernel(const struct hold *h, const struct identity_link *link, char name[256])
{
	char path[PATH_MAX];
	struct hold_path here;
	ssize_t n = readlink(hold_path(h, &here), path, sizeof path - 1);
	const char *last;

	if (n <= 0)
		return false;
	path[n] = '\0';
	last = strrchr(path, '/');
	if (!last || !fits(link, last + 1))
		return false;
	memcpy(name, last + 1, link->length + 1u);
	return true;
}

static bool search(DIR *dir, const struct identity_link *link, uint64_t ino, char name[256])
{
	struct dirent *e;

	while ((e = readdir(dir)))
		if (e->d_ino == ino && fits(link, e->d_name)) {
			memcpy(name, e->d_name, link->length + 1u);
			return true;
		}
	return false;
}

static bool name_from_parent(struct xlator *x, const struct identity_link *link, uint64_t ino, char name[256])
{
	cleanup_inode struct inode *parent = inode_find(x->inodes, &link->parent);
	int fd = parent && S_ISDIR(parent->type) ? object_reopen(x, parent, O_RDONLY | O_DIRECTORY) : -1;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	bool found = dir && search(dir, link, ino, name);

	if (dir)
		closedir(dir);
	else
		fd_close(&fd);
	return found;
}

static bool whole_name(struct xlator *x, const struct hold *h, uint64_t ino, const struct identity_link *link, char name[256])
{
	if (link->kept < link->length)
		return name_from_parent(x, link, ino, name) || name_from_kernel(h, link, name);
	memcpy(name, link->name, link->length);
	name[link->length] = '\0';
	return true;
}

/* ---- all names ---- */

static size_t put_link(uint8_t *to, const struct gfid *parent, const char *name)
{
	size_t length = strlen(name);

	memcpy(to, parent->bytes, 16);
	to[16] = (uint8_t)length;
	memcpy(to + 17, name, length);
	return 17 + length;
}

static int pack_links(struct xlator *x, const struct hold *h, const struct identity *identity, uint64_t ino, struct blob *links)
{
	uint8_t *bytes = malloc(4 + identity_links(identity) * (17 + 255u));
	struct identity_link link;
	uint32_t count = 0;
	size_t size = 4;
	char name[256];

	if (!bytes)
		return -ENOMEM;
	for (size_t at = 0; identity_next(identity, &at, &link);)
		if (whole_name(x, h, ino, &link, name)) {
			size += put_link(bytes + size, &link.parent, name);
			count++;
		}
	count = htobe32(count);
	memcpy(bytes, &count, sizeof count);
	*links = (struct blob){ (uint32_t)size, bytes };
	return 0;
}

int posix_inode_links(struct xlator *x, struct inode *inode, struct blob *links)
{
	cleanup_hold struct hold h = HOLD_NONE;
	struct identity identity;
	struct statx st;
	int err = hold_inode(x, inode, &h);

	if (!err)
		err = hold_stat(&h, &st);
	if (!err)
		err = identity_read(&h, &identity);
	return err == -ENODATA ? -EIO : err ? err : pack_links(x, &h, &identity, st.stx_ino, links);
}

int posix_sync(struct xlator *x)
{
	task_blocks();
	return result(syncfs(brick_of(x)->root_fd));
}
