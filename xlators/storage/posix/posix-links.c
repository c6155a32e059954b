/* SPDX-License-Identifier: Apache-2.0 */
/* The names of an object, as its identity tells of them; and making the brick durable. */
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <sys/xattr.h>

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

bool link_name_whole(struct xlator *x, const struct hold *h, uint64_t ino, const struct identity_link *link, char name[256])
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
		if (link_name_whole(x, h, ino, &link, name)) {
			size += put_link(bytes + size, &link.parent, name);
			count++;
		}
	count = htobe32(count);
	memcpy(bytes, &count, sizeof count);
	*links = (struct blob){ (uint32_t)size, bytes };
	return 0;
}

/* Nobody takes the last name of an object out of the text when it goes. */
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
	if (!err && !st.stx_nlink)
		identity_forget_links(&identity);
	return err == -ENODATA ? -EIO : err ? err : pack_links(x, &h, &identity, st.stx_ino, links);
}

/* ---- a list that is wrong ---- */

static bool has_one_name(const struct statx *st)
{
	return S_ISDIR(st->stx_mode) || st->stx_nlink == 1;
}

/* It lists more names than it has, or one that is not its only one. */
static bool lists_too_many(const struct identity *id, const struct statx *st)
{
	return identity_links(id) > (has_one_name(st) ? 1 : st->stx_nlink);
}

static bool is_right(const struct identity *id, const struct statx *st, const struct link_name *here)
{
	if (lists_too_many(id, st))
		return false;
	return identity_has(id, here->parent, here->name) || (identity_is_full(id) && !has_one_name(st));
}

static bool still_named(struct xlator *x, const struct hold *h, struct inode *parent, const char *name, struct statx *st)
{
	cleanup_hold struct hold directory = HOLD_NONE;
	struct stat now;

	return !hold_inode(x, parent, &directory) && !fstatat(directory.fd, name, &now, AT_SYMLINK_NOFOLLOW) &&
	       !hold_stat(h, st) && now.st_ino == st->stx_ino;
}

static bool leads_to(struct xlator *x, const struct identity_link *link, uint64_t ino)
{
	cleanup_inode struct inode *parent = inode_find(x->inodes, &link->parent);
	cleanup_hold struct hold directory = HOLD_NONE;
	struct stat now;
	char name[256];

	if (!parent || link->kept < link->length || hold_inode(x, parent, &directory))
		return true; /* nobody can tell */
	memcpy(name, link->name, link->length);
	name[link->length] = '\0';
	return !fstatat(directory.fd, name, &now, AT_SYMLINK_NOFOLLOW) ? now.st_ino == ino : errno != ENOENT;
}

static void drop(struct identity *id, const struct identity_link *link)
{
	char name[256];

	memcpy(name, link->name, link->length);
	name[link->length] = '\0';
	identity_remove(id, &link->parent, name);
}

/* Those that lead elsewhere: a crash came before a rename that was noted already. */
static void drop_wrong(struct xlator *x, struct identity *id, uint64_t ino)
{
	struct identity all = *id;
	struct identity_link link;

	for (size_t at = 0; identity_next(&all, &at, &link);)
		if (!leads_to(x, &link, ino))
			drop(id, &link);
}

static bool is_listed_before(const struct identity *id, size_t end, const struct identity_link *link)
{
	struct identity_link other;

	for (size_t at = 0; identity_next(id, &at, &other) && at < end;)
		if (gfid_equal(&other.parent, &link->parent) && other.length == link->length && other.kept == link->kept &&
		    !memcmp(other.name, link->name, link->kept))
			return true;
	return false;
}

/* Those that are listed twice though not all names are listed. */
static void drop_doubles(struct identity *id, const struct statx *st)
{
	struct identity all = *id;
	struct identity_link link;

	for (size_t at = 0; lists_too_many(id, st) && identity_next(&all, &at, &link);)
		if (link.kept == link.length && is_listed_before(&all, at, &link))
			drop(id, &link);
}

/* Under the name's lock and the identity's, as others may be changing either. */
static void repair(struct xlator *x, const struct hold *h, struct inode *parent, const char *name)
{
	struct link_name here = { &parent->gfid, name };
	struct identity identity, before;
	struct statx st;

	if (!still_named(x, h, parent, name, &st) || identity_read(h, &identity) || is_right(&identity, &st, &here))
		return;
	before = identity;
	if (has_one_name(&st))
		identity_forget_links(&identity);
	identity_add(&identity, here.parent, name);
	if (lists_too_many(&identity, &st))
		drop_wrong(x, &identity, st.stx_ino);
	drop_doubles(&identity, &st);
	if (identity.size == before.size && !memcmp(identity.bytes, before.bytes, before.size))
		return; /* what leads elsewhere can't be told now */
	if (!identity_write(h, &identity, XATTR_REPLACE))
		atomic_fetch_add(&brick_of(x)->repaired, 1);
}

void links_repair(struct xlator *x, const struct hold *h, const struct statx *st, const struct identity *read,
		  struct inode *parent, const char *name)
{
	struct link_name here = { &parent->gfid, name };
	cleanup_names struct names_locked locked = { NULL, NULL };
	pthread_mutex_t *lock = &brick_of(x)->identity_lock[st->stx_ino % MUTEXES];

	if (is_right(read, st, &here))
		return;
	names_lock(&locked, brick_of(x), &here, NULL);
	pthread_mutex_lock(lock);
	repair(x, h, parent, name);
	pthread_mutex_unlock(lock);
}

/* After a write has failed the kernel has what it should have written, and takes it for written. */
void posix_reread(struct xlator *x, const struct file *file, uint64_t offset, uint64_t length)
{
	const struct opened *o = opened_of(x, (struct file *)file);

	if (o->directory || offset > INT64_MAX || length > INT64_MAX)
		return;
	task_blocks();
	posix_fadvise(o->descriptor->fd, (off_t)offset, (off_t)length, POSIX_FADV_DONTNEED);
}

int posix_sync(struct xlator *x)
{
	atomic_fetch_add(&brick_of(x)->syncs, 1);
	task_blocks();
	return result(syncfs(brick_of(x)->root_fd));
}
