/* SPDX-License-Identifier: Apache-2.0 */
/* Listings: opendir and readdir, with inodes and attributes where asked. */
#include <dirent.h>
#include <sys/syscall.h>

#include "posix.h"

enum { ENTRIES_BYTES = 32768, LISTING_MOST = 1 << 20, PLAIN_COST = 24, PLUS_COST = 152 };

int brick_opendir(struct request *rq, struct xlator *x, const struct opendir_in *in, struct opendir_out *out)
{
	int fd;

	(void)rq;
	if (!in->inode || !S_ISDIR(in->inode->type))
		return in->inode ? -ENOTDIR : -EINVAL;
	fd = object_reopen(x, in->inode, O_RDONLY | O_DIRECTORY);
	return fd < 0 ? fd : opened_create(x, in->inode, O_RDONLY | O_DIRECTORY, fd, &out->file);
}

/* Fills the buffer from `offset` on, unless it stands there already. -errno, 0 at the end, 1. */
static int fill(struct opened *o, uint64_t offset)
{
	long n;

	if (o->at < o->filled && o->next == offset)
		return 1;
	if (!o->entries && !(o->entries = malloc(ENTRIES_BYTES)))
		return -ENOMEM;
	o->at = o->filled = 0;
	if (o->next != offset || !offset) {
		if (lseek(o->descriptor->fd, (off_t)offset, SEEK_SET) < 0)
			return result(-1);
		o->next = offset;
	}
	n = syscall(SYS_getdents64, o->descriptor->fd, o->entries, ENTRIES_BYTES);
	if (n < 0)
		return result(n);
	o->filled = (size_t)n;
	return n > 0;
}

static bool shown(struct xlator *x, const struct inode *directory, const char *name)
{
	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return false;
	return directory != brick_of(x)->root || strcmp(name, PRIVATE_DIRECTORY);
}

static void plus(struct xlator *x, int directory, struct inode *parent, struct dirent_plus *e)
{
	if (object_find(x, directory, parent, e->name, &e->inode, &e->attr))
		return;
	e->gfid = e->inode->gfid;
	e->type = e->attr.mode & S_IFMT;
}

static uint32_t type_of(int directory, const struct dirent64 *d)
{
	struct stat st;

	if (d->d_type != DT_UNKNOWN)
		return DTTOIF(d->d_type);
	return fstatat(directory, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : st.st_mode & S_IFMT;
}

struct listing {
	struct dirents *to;
	uint32_t room, allocated; /* bytes the caller can still take; entries there is memory for */
	bool plus;
};

static int add(struct listing *l, const struct dirent64 *d, uint32_t type)
{
	struct dirents *to = l->to;

	if (to->count == l->allocated) {
		uint32_t more = l->allocated ? l->allocated * 2 : 32;
		void *grown = realloc(to->entry, more * sizeof *to->entry);

		if (!grown)
			return -ENOMEM;
		to->entry = grown;
		l->allocated = more;
	}
	struct dirent_plus *e = &to->entry[to->count];

	*e = (struct dirent_plus){ .next_offset = (uint64_t)d->d_off, .type = type, .name = strdup(d->d_name) };
	if (!e->name)
		return -ENOMEM;
	to->count++;
	return 0;
}

/* 1 when the caller has enough. */
static int take_entry(struct xlator *x, struct opened *o, struct inode *directory, struct listing *l)
{
	const struct dirent64 *d = (const void *)(o->entries + o->at);
	int fd = o->descriptor->fd;

	if (shown(x, directory, d->d_name)) {
		size_t cost = (l->plus ? PLUS_COST : PLAIN_COST) + ((strlen(d->d_name) + 7) & ~(size_t)7);

		if (cost > l->room && l->to->count)
			return 1;
		int err = add(l, d, type_of(fd, d));

		if (err)
			return err;
		l->room -= cost > l->room ? l->room : (uint32_t)cost;
		if (l->plus)
			plus(x, fd, directory, &l->to->entry[l->to->count - 1]);
	}
	o->at += d->d_reclen;
	o->next = (uint64_t)d->d_off;
	return 0;
}

/* The directory's lock is held: two requests on one open directory go one after the other. */
static int list(struct xlator *x, struct opened *o, struct inode *directory, uint64_t offset, struct listing *l)
{
	int err = 0, more = 1;

	for (uint64_t from = offset; !err; from = o->next) {
		more = fill(o, from);
		if (more <= 0)
			break;
		while (!err && o->at < o->filled)
			err = take_entry(x, o, directory, l);
	}
	l->to->end = more == 0;
	return more < 0 ? more : err < 0 ? err : 0;
}

int brick_readdir(struct request *rq, struct xlator *x, const struct readdir_in *in, struct readdir_out *out)
{
	struct opened *o = opened_of(x, in->file);
	struct listing l = { .to = &out->entries,
			     .room = in->size < LISTING_MOST ? in->size : LISTING_MOST,
			     .plus = in->flags & READDIR_PLUS };
	int err = opened_check(x, in->file);

	(void)rq;
	if (err || !o->directory)
		return err ? err : -ENOTDIR;
	if (in->offset > INT64_MAX)
		return -EINVAL;
	pthread_mutex_lock(&o->lock);
	err = list(x, o, in->file->inode, in->offset, &l);
	pthread_mutex_unlock(&o->lock);
	if (err)
		fop_out_clear(FOP_readdir, out);
	return err;
}
