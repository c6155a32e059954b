/* SPDX-License-Identifier: Apache-2.0 */
/* Listing directories: the brick's batches are dealt out in the pieces that the kernel asks for.
 *
 * Offsets that the kernel sees: 0 is the start, 1 comes after ".", 2 after "..", and a brick's cookie c is c + 2, except that
 * the greatest cookie (ext4's "end") stays the greatest offset. What a piece leaves over stays in the open directory. */
#include <dirent.h>
#include <sys/stat.h>

#include "fuse-internal.h"

enum { AFTER_DOT = 1, AFTER_DOTS = 2, BATCH_SIZE = 128 * 1024, PIECE_MIN = 1024, PIECE_MAX = 1 << 20 };
enum { KEPT_ENTRIES = 16384, KEPT_MS = 400, GATHERED_MAX = 8 * KEPT_ENTRIES };
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

/* ---- what was fetched ---- */

static void batch_clear(struct batch *b)
{
	struct readdir_out out = { .entries = b->entries };
	fop_out_clear(FOP_readdir, &out);
}

static void listing_clear(struct listing *l)
{
	for (unsigned i = 0; i < l->batches; i++)
		batch_clear(&l->batch[i]);
	free(l->batch);
	if (l->gathered)
		atomic_fetch_sub(l->gathered, l->entries);
	*l = (struct listing){ 0 };
}

static void listing_drop(struct handle *h)
{
	listing_clear(&h->listing);
	h->batch = h->at = 0;
}

/* What the kernel forgets shall be forgotten. */
static void strip(struct batch *b)
{
	for (uint32_t i = 0; i < b->entries.count && !b->without_nodes; i++) {
		struct dirent_plus *e = &b->entries.entry[i];
		if (!e->inode)
			e->attr.mode = 0; /* nothing is known of it */
		inode_unref(e->inode);
		e->inode = NULL;
	}
	b->without_nodes = true;
}

static void strip_all(struct listing *l)
{
	for (unsigned i = 0; i < l->batches; i++)
		strip(&l->batch[i]);
}

/* It continues what was fetched from the start on, which may be of use again, and there is room for it. */
static bool follows(const struct mount *m, const struct listing *l, const struct batch *b)
{
	const struct dirents *d = l->batches ? &l->batch[l->batches - 1].entries : NULL;
	return d && d->count && d->entry[d->count - 1].next_offset == b->cookie && l->batch[0].cookie == 0 &&
	       l->batch[0].since && b->since && l->entries + b->entries.count <= KEPT_ENTRIES && !l->untold &&
	       clock_ns() < l->begun_ns + KEPT_MS * 1000000ul && atomic_load(&m->gathered) <= GATHERED_MAX;
}

/* Takes the batch over. */
static int listing_add(struct mount *m, struct handle *h, struct batch b)
{
	struct listing *l = &h->listing;
	if (!follows(m, l, &b))
		listing_drop(h);
	struct batch *more = realloc(l->batch, (l->batches + 1) * sizeof(*more));
	if (!more) {
		batch_clear(&b);
		return -ENOMEM;
	}
	l->batch = more;
	if (l->batches)
		strip(&l->batch[l->batches - 1]);
	else
		l->begun_ns = clock_ns();
	h->batch = l->batches;
	h->at = 0;
	h->cookie = b.cookie;
	l->batch[l->batches++] = b;
	l->entries += b.entries.count;
	l->gathered = &m->gathered;
	atomic_fetch_add(l->gathered, b.entries.count);
	l->whole = l->batch[0].cookie == 0 && b.since && (b.entries.end || !b.entries.count);
	return 0;
}

/* ---- whole listings are kept for a while ----
 *
 * Who lists a directory again gets what was fetched before, if the translator below vouches that no name of it has changed since then. Attributes
 * are told anew only if they, too, are as they were; what the kernel was told lately it is not told again. So this is for as long only as
 * the kernel still believes most of it. A kept listing is used whole or not at all, because the offsets of another one may be those of
 * another brick. */

static bool of_use(const struct listing *l)
{
	return l->whole && !l->untold && clock_ns() < l->begun_ns + KEPT_MS * 1000000ul;
}

/* With the lock held. */
static struct listing kept_remove(struct mount *m, unsigned i)
{
	struct listing l = m->kept[i].listing;
	m->kept_count--;
	memmove(&m->kept[i], &m->kept[i + 1], (m->kept_count - i) * sizeof(m->kept[0]));
	return l;
}

/* With the lock held; those that have to go are left in `out`. */
static unsigned kept_make_room(struct mount *m, const struct gfid *directory, uint32_t entries,
			       struct listing out[KEPT_LISTINGS])
{
	unsigned n = 0;
	for (unsigned i = 0; i < m->kept_count;)
		if (gfid_equal(&m->kept[i].directory, directory) || !of_use(&m->kept[i].listing))
			out[n++] = kept_remove(m, i);
		else
			entries += m->kept[i++].listing.entries;
	while (m->kept_count && (m->kept_count == KEPT_LISTINGS || entries > KEPT_ENTRIES)) {
		out[n] = kept_remove(m, 0);
		entries -= out[n++].entries;
	}
	return n;
}

void listing_let_go(struct mount *m, struct handle *h)
{
	const struct gfid *directory = &h->file->inode->gfid;
	struct listing out[KEPT_LISTINGS];
	if (!of_use(&h->listing)) {
		listing_drop(h);
		return;
	}
	strip_all(&h->listing);
	pthread_mutex_lock(&m->kept_lock);
	unsigned n = kept_make_room(m, directory, h->listing.entries, out);
	m->kept[m->kept_count++] = (struct kept_listing){ *directory, h->listing };
	pthread_mutex_unlock(&m->kept_lock);
	h->listing = (struct listing){ 0 };
	while (n > 0)
		listing_clear(&out[--n]);
}

void listings_forget(struct mount *m)
{
	pthread_mutex_lock(&m->kept_lock);
	while (m->kept_count > 0)
		listing_clear(&m->kept[--m->kept_count].listing);
	pthread_mutex_unlock(&m->kept_lock);
}

static struct listing kept_take(struct mount *m, const struct gfid *directory)
{
	struct listing l = { 0 };
	pthread_mutex_lock(&m->kept_lock);
	for (unsigned i = 0; i < m->kept_count && !l.batches; i++)
		if (gfid_equal(&m->kept[i].directory, directory))
			l = kept_remove(m, i);
	pthread_mutex_unlock(&m->kept_lock);
	return l;
}

/* All names are still those that were fetched. */
static bool still_so(struct ask *a, struct inode *directory, const struct listing *l)
{
	return of_use(l) && ask_moment(a) && believe_ms(ask_child(a), directory, BELIEVE_NAMES, l->batch[0].since) > 0;
}

/* Opened or rewound: a fresh look, or one that is as good. */
static void listing_begin(struct ask *a, struct handle *h)
{
	struct inode *directory = h->file->inode;
	if (!h->listing.batches && !h->fetched)
		h->listing = kept_take(a->mount, &directory->gfid);
	if (!still_so(a, directory, &h->listing)) {
		listing_drop(h);
		return;
	}
	strip_all(&h->listing); /* what is told of a file must not be older than its last change */
	h->listing.again = true;
	h->batch = h->at = 0;
	h->cookie = 0;
	atomic_fetch_add(&a->mount->listed_again, 1);
}

/* ---- pieces ---- */

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

static const struct dirents *batch_now(const struct handle *h)
{
	return &h->listing.batch[h->batch].entries;
}

static bool batch_done(const struct handle *h)
{
	return h->at == batch_now(h)->count && h->batch + 1 < h->listing.batches;
}

static bool batch_seek(struct handle *h, unsigned b, uint64_t cookie)
{
	const struct dirents *d = &h->listing.batch[b].entries;
	for (uint32_t i = 0; i < d->count; i++)
		if (d->entry[i].next_offset == cookie) {
			h->batch = b;
			h->at = i + 1;
			h->cookie = cookie;
			return true;
		}
	return false;
}

/* Finds the place in what was fetched; false: it is not there. What was given away before may have changed since, so it is fetched anew, but
 * for a listing that was kept: who went on where it ends would perhaps ask another brick. */
static bool listing_seek(struct handle *h, uint64_t cookie)
{
	const struct listing *l = &h->listing;
	if (!l->batches || h->cookie == cookie)
		return l->batches;
	bool found = batch_seek(h, h->batch, cookie);
	for (unsigned b = 0; l->again && !found && b < l->batches; b++)
		found = batch_seek(h, b, cookie);
	return found;
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
	a->rq.moment = plus ? ask_moment(a) : 0; /* a plain listing is not taken for one that is worth believing */
	int err = readdir_on(&a->rq, ask_child(a), &in, &out);
	h->fetched = true;
	if (err) {
		listing_drop(h);
		return err;
	}
	return listing_add(a->mount, h, (struct batch){ .entries = out.entries, .cookie = cookie, .since = a->rq.moment });
}

/* Inodes are of use to the kernel only if it may believe their names for a while. A reference, or NULL. */
static struct inode *to_tell(struct piece *p, const struct handle *h, const struct dirent_plus *e)
{
	const struct fuse_private *options = ask_options(p->ask);
	bool kept = options->attribute_timeout_ms > 0 && options->entry_timeout_ms > 0;
	if (!p->plus || (!kept && !p->believe_ms))
		return NULL;
	if (!h->listing.batch[h->batch].without_nodes)
		return e->inode ? inode_ref(e->inode) : NULL;
	struct inode *inode = p->believe_ms && e->attr.mode ? inode_find(h->file->inode->table, &e->gfid) : NULL;
	if (!inode || believe_worth(p->ask, inode, &e->attr, p->since))
		return inode;
	inode_unref(inode);
	return NULL;
}

static bool piece_add_entry(struct piece *p, const struct handle *h, const struct dirent_plus *e)
{
	cleanup_inode struct inode *inode = to_tell(p, h, e);
	uint64_t ino = gfid_is_null(&e->gfid) ? UINT32_MAX : gfid_ino(&e->gfid);
	return piece_add(p, e->name, ino, e->type, offset_of(e->next_offset), inode, &e->attr);
}

/* With what is left of one batch, at most. */
static void piece_fill(struct piece *p, struct handle *h)
{
	const struct dirents *d = batch_now(h);
	p->since = h->listing.batch[h->batch].since;
	p->believe_ms = p->plus ? believe_listing(p->ask, h->file->inode, p->since) : 0;
	h->listing.untold |= !p->believe_ms && !h->listing.again;
	while (h->at < d->count) {
		const struct dirent_plus *e = &d->entry[h->at];
		if (!piece_add_entry(p, h, e))
			return;
		h->cookie = e->next_offset;
		h->at++;
	}
}

/* At most one batch is fetched for a piece. An empty batch is the end, even if the brick does not say so. */
static int piece_make(struct piece *p, struct handle *h, uint64_t offset)
{
	if (offset == 0)
		listing_begin(p->ask, h);
	offset = piece_add_dots(p, h->file->inode, offset);
	uint64_t cookie = cookie_of(offset);
	bool there = listing_seek(h, cookie);
	if (there && batch_done(h)) {
		h->batch++;
		h->at = 0;
	}
	const struct dirents *d = there ? batch_now(h) : NULL;
	bool enough = d && (h->at < d->count || d->end || d->count == 0);
	int err = enough ? 0 : listing_fetch(p->ask, h, cookie, p->room, p->plus);
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
