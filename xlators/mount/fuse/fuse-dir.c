/* SPDX-License-Identifier: Apache-2.0 */
/* Listing directories: the brick's batches are dealt out in the pieces that the kernel asks for.
 *
 * Offsets that the kernel sees: 0 is the start, 1 comes after ".", 2 after "..", and a brick's cookie c is c + 2, except that
 * the greatest cookie (ext4's "end") stays the greatest offset. What a piece leaves over is kept in the open directory. */
#include <dirent.h>
#include <sys/stat.h>

#include "fuse-internal.h"

enum { AFTER_DOT = 1, AFTER_DOTS = 2, BATCH_SIZE = 64 * 1024, PIECE_MIN = 1024, PIECE_MAX = 1 << 20 };
static const uint64_t last = INT64_MAX;

/* One reply under construction; there is room for both dots at least. */
struct piece {
	struct ask *ask;
	bool plus;
	uint64_t since, believe_ms; /* the names were asked for then, and may be believed for so long */
	size_t used, room;
	char bytes[] __attribute__((aligned(8)));
};

static uint64_t offset_of(uint64_t cookie)
{
	return cookie < last - AFTER_DOTS ? cookie + AFTER_DOTS : last;
}

static uint64_t cookie_of(uint64_t offset)
{
	return offset < last ? offset - AFTER_DOTS : last;
}

void listing_drop(struct handle *h)
{
	struct readdir_out out = { .entries = h->listing };
	fop_out_clear(FOP_readdir, &out);
	h->listing = (struct dirents){ 0 };
	h->listed = false;
	h->at = 0;
}

/* False: no room. Without an inode the kernel gets the name only. */
static bool piece_add(struct piece *p, const char *name, uint64_t ino, mode_t type, uint64_t offset, struct inode *inode,
		      const struct attr *attr)
{
	size_t length = strlen(name), head = p->plus ? sizeof(struct fuse_entry_out) : 0;
	size_t size = FUSE_DIRENT_ALIGN(head + FUSE_NAME_OFFSET + length);
	if (size > p->room - p->used)
		return false;
	char *at = p->bytes + p->used;
	memset(at + size - 8, 0, 8); /* the padding */
	if (p->plus) {
		entry_fill(p->ask, (struct fuse_entry_out *)at, inode, attr);
		if (inode && p->believe_ms)
			believe_listed(p->ask, (struct fuse_entry_out *)at, inode, attr, p->since, p->believe_ms);
		if (inode)
			node_remember(p->ask->mount, inode);
	}
	struct fuse_dirent *d = (struct fuse_dirent *)(at + head);
	*d = (struct fuse_dirent){ .ino = ino, .off = offset, .namelen = length, .type = IFTODT(type) };
	memcpy(d->name, name, length);
	p->used += size;
	return true;
}

/* The number of ".." is not known here; it is that of the directory itself at the root, and nobody relies on others. */
static uint64_t piece_add_dots(struct piece *p, const struct inode *directory, uint64_t offset)
{
	uint64_t ino = gfid_ino(&directory->gfid);
	if (offset == 0 && piece_add(p, ".", ino, S_IFDIR, AFTER_DOT, NULL, NULL))
		offset = AFTER_DOT;
	if (offset == AFTER_DOT && piece_add(p, "..", ino, S_IFDIR, AFTER_DOTS, NULL, NULL))
		offset = AFTER_DOTS;
	return offset;
}

/* Finds the place in what is kept; false: it is not there. */
static bool listing_seek(struct handle *h, uint64_t cookie)
{
	if (!h->listed || h->cookie == cookie)
		return h->listed;
	for (uint32_t i = 0; i < h->listing.count; i++)
		if (h->listing.entry[i].next_offset == cookie) {
			h->at = i + 1;
			h->cookie = cookie;
			return true;
		}
	return false;
}

/* A plain listing asks for inodes too: the number that stat(2) shows is made from the gfid. */
static int listing_fetch(struct ask *a, struct handle *h, uint64_t cookie, size_t size, bool plus)
{
	struct readdir_in in = {
		.file = h->file,
		.offset = cookie,
		.size = size > BATCH_SIZE ? size : BATCH_SIZE,
		.flags = READDIR_PLUS,
	};
	struct readdir_out out = { 0 };
	listing_drop(h);
	a->rq.moment = plus ? ask_moment(a) : 0; /* a plain listing is not taken for one that is worth believing */
	int err = readdir_on(&a->rq, ask_child(a), &in, &out);
	if (err)
		return err;
	h->since = a->rq.moment;
	h->listing = out.entries;
	h->cookie = cookie;
	h->listed = true;
	return 0;
}

/* Inodes are of use to the kernel only if it may believe their names for a while. */
static void piece_fill(struct piece *p, struct handle *h)
{
	const struct fuse_private *options = ask_options(p->ask);
	bool kept = options->attribute_timeout_ms > 0 && options->entry_timeout_ms > 0;
	p->since = h->since;
	p->believe_ms = p->plus ? believe_listing(p->ask, h->file->inode, h->since) : 0;
	while (h->at < h->listing.count) {
		struct dirent_plus *e = &h->listing.entry[h->at];
		uint64_t ino = gfid_is_null(&e->gfid) ? UINT32_MAX : gfid_ino(&e->gfid);
		struct inode *inode = kept || p->believe_ms ? e->inode : NULL;
		if (!piece_add(p, e->name, ino, e->type, offset_of(e->next_offset), inode, &e->attr))
			return;
		h->cookie = e->next_offset;
		h->at++;
	}
}

/* At most one batch is fetched for a piece. An empty batch is the end, even if the brick does not say so. */
static int piece_make(struct piece *p, struct handle *h, uint64_t offset)
{
	if (offset == 0)
		listing_drop(h); /* rewinddir: a fresh look */
	offset = piece_add_dots(p, h->file->inode, offset);
	uint64_t cookie = cookie_of(offset);
	bool kept = listing_seek(h, cookie) && (h->at < h->listing.count || h->listing.end || h->listing.count == 0);
	int err = kept ? 0 : listing_fetch(p->ask, h, cookie, p->room, p->plus);
	if (!err)
		piece_fill(p, h);
	return err;
}

/* The kernel did not hear of the entries. */
static void piece_undo(struct piece *p)
{
	struct mount *m = p->ask->mount;
	for (size_t at = 0; at < p->used;) {
		const struct fuse_direntplus *d = (const void *)(p->bytes + at);
		if (d->entry_out.nodeid)
			node_forget(m, node(m, d->entry_out.nodeid), 1);
		at += FUSE_DIRENTPLUS_SIZE(d);
	}
}

/* The lock is released before the reply: after it, the directory may be closed on another shard and the handle gone. */
static int list(struct ask *a, bool plus)
{
	const struct fuse_read_in *arg = (const void *)a->arg;
	struct handle *h = (struct handle *)(uintptr_t)arg->fh;
	size_t room = arg->size < PIECE_MAX ? arg->size : PIECE_MAX;
	struct piece *p = room >= PIECE_MIN ? malloc(sizeof(*p) + room) : NULL;
	if (!p)
		return room < PIECE_MIN ? -EINVAL : -ENOMEM;
	*p = (struct piece){ .ask = a, .plus = plus, .room = room };
	int err = task_lock(&h->lock, a->rq.deadline_ns);
	if (!err) {
		err = piece_make(p, h, arg->offset);
		task_unlock(&h->lock);
	}
	if (!err && reply(a, p->bytes, p->used) != 0 && plus)
		piece_undo(p);
	free(p);
	return err;
}

int serve_readdir(struct ask *a)
{
	return list(a, false);
}

int serve_readdirplus(struct ask *a)
{
	return list(a, true);
}
