/* SPDX-License-Identifier: Apache-2.0 */
/* Writing: a block is replaced by one page, which comes whole or not at all; a request's pages are one message, in order. Blocks that are replaced
 * whole depend on nothing that is there: they are sealed before the turn has come. Of the two at the ends the rest is read, unless it is known. */
#include <openssl/rand.h>

#include "crypt.h"
#include "spread.h"

enum { NONCE = 12, NEAR = 16 }; /* NEAR: one message reads both ends of so many pages */

/* What one message writes. */
struct change {
	uint64_t first, offset;
	unsigned count; /* of blocks, from `first` on */
	const char *bytes;
	size_t size;
	struct buffer *pages;	    /* as they are to be */
	const struct file_key *key; /* with it the whole blocks have been sealed; NULL: they have not */
	struct tail *edge[2];	    /* blocks that are not replaced whole, as they are to be */
	unsigned edges;
};

static uint64_t end_of(const struct change *c)
{
	return c->offset + c->size;
}

static void clear_edges(struct change *c)
{
	while (c->edges)
		free(c->edge[--c->edges]);
}

static void change_clear(struct change *c)
{
	clear_edges(c);
	buffer_unref(c->pages);
	c->pages = NULL;
}

/* A beginning of what is to be written. */
static int change_init(struct change *c, uint64_t offset, const char *bytes, size_t size)
{
	uint64_t first = offset / BLOCK, most = (first + MESSAGE_PAGES) * BLOCK - offset;

	*c = (struct change){ .first = first, .offset = offset, .bytes = bytes, .size = size < most ? size : most };
	c->count = (unsigned)((end_of(c) + BLOCK - 1) / BLOCK - first);
	c->pages = buffer_create(c->count * (size_t)PAGE);
	return c->pages ? 0 : -ENOMEM;
}

static char *page_in(const struct change *c, uint64_t block)
{
	return c->pages->data + page_at(block - c->first);
}

/* ---- whole blocks ---- */

struct sealing {
	struct change *c;
	uint64_t begin; /* the first block that is replaced whole */
	uint8_t nonces[MESSAGE_PAGES * NONCE];
	atomic_bool failed;
};

static void seal_one(void *arg, unsigned i)
{
	struct sealing *s = arg;
	const struct change *c = s->c;
	uint64_t block = s->begin + i;
	struct seal seal = { .length = BLOCK };

	memcpy(seal.nonce, s->nonces + i * (size_t)NONCE, NONCE);
	if (page_seal(c->key, block, &seal, c->bytes + (block * BLOCK - c->offset), page_in(c, block)))
		atomic_store(&s->failed, true);
}

static int seal_whole(struct change *c, const struct file_key *key)
{
	struct sealing s = { .c = c, .begin = (c->offset + BLOCK - 1) / BLOCK };
	uint64_t end = end_of(c) / BLOCK;
	unsigned n = end > s.begin ? (unsigned)(end - s.begin) : 0;

	c->key = key;
	if (n && RAND_bytes(s.nonces, (int)(n * NONCE)) <= 0)
		return -EIO;
	spread(n, SPREAD, seal_one, &s);
	return atomic_load(&s.failed) ? -EIO : 0;
}

/* ---- the ends ---- */

/* Which blocks there are at the ends of which the new bytes are not all, or may not be. */
static int make_edges(struct change *c)
{
	uint64_t at[2], last = end_of(c) / BLOCK;
	unsigned n = 0;

	if (c->offset % BLOCK)
		at[n++] = c->first;
	if (end_of(c) % BLOCK && (!n || last != c->first))
		at[n++] = last;
	for (; c->edges < n; c->edges++) {
		c->edge[c->edges] = calloc(1, sizeof(struct tail));
		if (!c->edge[c->edges])
			return -ENOMEM;
		c->edge[c->edges]->block = at[c->edges];
	}
	return 0;
}

/* In a file of that size. */
static bool keeps_some(const struct change *c, uint64_t block, uint64_t size)
{
	uint64_t begin = block * BLOCK;
	unsigned was = length_in(block, size);

	return was && (c->offset > begin || end_of(c) < begin + was);
}

static bool must_be_read(const struct op *o, const struct change *c, struct tail *edge)
{
	const struct tail *known = o->n->tail;

	if (!keeps_some(c, edge->block, o->n->size))
		return false;
	if (!known || known->block != edge->block)
		return true;
	memcpy(edge->plain, known->plain, BLOCK);
	return false;
}

static int read_between(struct op *o, const struct file_key *key, struct tail **edge, unsigned n)
{
	uint64_t first = edge[0]->block;
	struct pages p;
	int err = pages_read(o, first, (unsigned)(edge[n - 1]->block - first) + 1, &p);

	atomic_fetch_add(&o->c->edges, n);
	for (unsigned i = 0; i < n && !err; i++)
		err = block_get(o, key, &p, (unsigned)(edge[i]->block - first), o->n->size, edge[i]->plain);
	buffer_unref(p.data);
	return err;
}

static int read_edges(struct op *o, const struct file_key *key, struct change *c)
{
	struct tail *wanted[2];
	unsigned n = 0;
	int err = 0;

	for (unsigned i = 0; i < c->edges; i++)
		if (must_be_read(o, c, c->edge[i]))
			wanted[n++] = c->edge[i];
	if (n == 2 && c->count <= NEAR)
		return read_between(o, key, wanted, n);
	for (unsigned i = 0; i < n && !err; i++)
		err = read_between(o, key, &wanted[i], 1);
	return err;
}

static int seal_edge(const struct change *c, const struct file_key *key, uint64_t size, struct tail *edge)
{
	uint64_t begin = edge->block * BLOCK, from = c->offset > begin ? c->offset : begin;
	uint64_t to = end_of(c) < begin + BLOCK ? end_of(c) : begin + BLOCK;
	struct seal s = { .length = (uint16_t)length_in(edge->block, size) };

	memcpy(edge->plain + (from - begin), c->bytes + (from - c->offset), to - from);
	return RAND_bytes(s.nonce, NONCE) > 0 ? page_seal(key, edge->block, &s, edge->plain, page_in(c, edge->block)) : -EIO;
}

static int seal_edges(struct op *o, const struct file_key *key, struct change *c, uint64_t size)
{
	int err;

	clear_edges(c);
	err = make_edges(c);
	if (!err)
		err = read_edges(o, key, c);
	for (unsigned i = 0; i < c->edges && !err; i++)
		err = seal_edge(c, key, size, c->edge[i]);
	return err;
}

/* ---- to the brick ---- */

static int send(struct op *o, uint64_t block, struct buffer *pages, uint32_t flags, size_t *written)
{
	struct write_in in = {
		.file = o->file, .offset = page_at(block), .flags = flags & ~(uint32_t)WRITE_APPEND, .data = pages
	};
	struct write_out out = { 0 };
	int err = change_begin(o);

	*written = 0;
	if (err)
		return err;
	err = write_on(o->rq, o->x->child[0], &in, &out);
	change_end();
	if (!err)
		*written = out.written < pages->size ? out.written : pages->size;
	return err ? err : *written < pages->size ? -ENOSPC : 0;
}

int write_pages(struct op *o, uint64_t block, struct buffer *pages)
{
	size_t written;

	return send(o, block, pages, 0, &written);
}

/* The brick took a part: whole pages of it count. One that is torn and new is cut off again, as it fits no seal. */
static void count_short(struct op *o, const struct change *c, size_t written, uint64_t old_size, size_t *done)
{
	uint64_t end = (c->first + written / PAGE) * BLOCK;

	if (end > c->offset)
		*done += end < end_of(c) ? end - c->offset : c->size;
	if (written % PAGE && end >= old_size)
		set_size(o, end);
}

/* The block in which the write has ended is kept: the next one often begins there. */
static void keep_tail(struct op *o, struct change *c)
{
	struct node *n = o->n;
	uint64_t last = end_of(c) / BLOCK;

	if (c->edges && c->edge[c->edges - 1]->block == last) {
		free(n->tail);
		n->tail = c->edge[--c->edges];
	} else if (n->tail && n->tail->block >= c->first && n->tail->block < last) {
		turn_forget_tail(o);
	}
}

static int change_write(struct op *o, const struct file_key *key, struct change *c, uint32_t flags, size_t *done)
{
	uint64_t old = o->n->size, size = end_of(c) > old ? end_of(c) : old;
	size_t written = 0;
	int err = c->key == key ? 0 : seal_whole(c, key);

	if (!err)
		err = seal_edges(o, key, c, size);
	c->pages->size = (c->count - 1) * (size_t)PAGE + SEAL + length_in(c->first + c->count - 1, size);
	if (!err)
		err = send(o, c->first, c->pages, flags, &written);
	if (err) {
		turn_forget_tail(o);
		turn_forget_size(o);
		count_short(o, c, written, old, done);
		return err;
	}
	o->n->size = size;
	*done += c->size;
	keep_tail(o, c);
	return 0;
}

/* In order, so that what is written is a beginning of what was asked. `ready`: the first part; NULL. */
static ssize_t write_parts(struct op *o, const struct file_key *key, struct change *ready, uint64_t offset, const char *bytes,
			   size_t size, uint32_t flags)
{
	size_t done = 0;
	int err = 0;

	while (done < size && !err) {
		struct change own = { 0 }, *c = ready && !done ? ready : &own;

		if (c == &own)
			err = change_init(&own, offset + done, bytes + done, size - done);
		if (!err)
			err = change_write(o, key, c, flags, &done);
		change_clear(&own);
	}
	return done ? (ssize_t)done : err;
}

/* ---- zeros ---- */

int write_zeros(struct op *o, uint64_t offset, uint64_t size)
{
	static const char zeros[BLOCK];
	const struct file_key *key;
	uint64_t now;
	int err = turn_size(o, &now);
	ssize_t n;

	if (!err)
		err = node_key_or_new(o, &key);
	if (err)
		return err;
	n = write_parts(o, key, NULL, offset, zeros, (size_t)size, 0);
	return n < 0 ? (int)n : n < (ssize_t)size ? -ENOSPC : 0;
}

/* What lies between the end and where it goes on: the rest of the last block as zeros, whole blocks as holes. */
static int fill_gap(struct op *o, uint64_t from, uint64_t to)
{
	uint64_t block_end = (from + BLOCK - 1) / BLOCK * BLOCK;
	int err = 0;

	if (to / BLOCK > block_end / BLOCK)
		err = node_allow_holes(o);
	if (!err && from < block_end && to >= block_end)
		err = write_zeros(o, from, block_end - from);
	return err;
}

/* ---- requests ---- */

static int check_end(uint64_t offset, size_t size)
{
	return offset >> SIZE_MAX_BITS || size > (1ull << SIZE_MAX_BITS) - offset ? -EFBIG : 0;
}

static ssize_t write_bytes(struct op *o, struct change *ready, uint64_t offset, const char *bytes, size_t size, uint32_t flags)
{
	const struct file_key *key;
	uint64_t now;
	int err = turn_size(o, &now);

	if (!err)
		err = check_end(offset, size);
	if (!err)
		err = node_key_or_new(o, &key);
	if (!err && offset > now)
		err = fill_gap(o, now, offset);
	return err ? err : write_parts(o, key, ready, offset, bytes, size, flags);
}

static int write_in_turn(struct op *o, struct change *ready, const struct write_in *in, struct write_out *out)
{
	size_t size;
	const char *bytes = buffer_bytes(in->data, &size);
	uint64_t offset = in->offset;
	int err = turn_take(o);
	ssize_t n;

	if (err)
		return err;
	if (in->flags & WRITE_APPEND)
		err = turn_size(o, &offset);
	n = err ? err : write_bytes(o, ready, offset, bytes, size, in->flags);
	turn_give(o);
	if (n < 0)
		return (int)n;
	out->written = (uint32_t)n;
	out->offset = offset;
	return 0;
}

/* While others have the turn: what needs only the key, where it is known, and the place. */
static int prepare(const struct op *o, const struct write_in *in, struct change *c)
{
	const struct file_key *key = node_known_key(o->n);
	int err = check_end(in->offset, in->data->size);

	if (!err)
		err = change_init(c, in->offset, in->data->data, in->data->size);
	return !err && key ? seal_whole(c, key) : err;
}

static int write_sealed(struct op *o, const struct write_in *in, struct write_out *out)
{
	struct change c = { 0 }, *ready = in->flags & WRITE_APPEND ? NULL : &c;
	int err = ready ? prepare(o, in, ready) : 0;

	if (!err)
		err = write_in_turn(o, ready, in, out);
	if (err && o->again) /* nothing was done */
		err = write_in_turn(o, ready, in, out);
	change_clear(&c);
	return err;
}

int crypt_write(struct request *rq, struct xlator *x, const struct write_in *in, struct write_out *out)
{
	struct op o = op_on(rq, x, in->file->inode, node_of(x, in->file->inode));
	int err = o.n ? file_for_both(rq, x, in->file, &o.file) : -ENOMEM;

	if (!err && (!in->data || !in->data->size)) {
		struct write_in below = *in;

		below.file = o.file;
		below.offset = 0;
		below.flags &= ~(uint32_t)WRITE_APPEND;
		return write_on(rq, x->child[0], &below, out);
	}
	return tampered(&o, err ? err : write_sealed(&o, in, out));
}
