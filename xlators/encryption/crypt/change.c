/* SPDX-License-Identifier: Apache-2.0 */
/* A block is replaced by one page, which comes whole or not at all. Blocks that are replaced whole depend on nothing that is there; of the two at the
 * ends the rest is read, unless it is known. Many pages are several messages: while one is on its way the next is sealed. */
#include "change.h"

#include <fcntl.h>
#include <openssl/rand.h>

#include "beside.h"
#include "spread.h"

enum { NONCE = 12, NEAR = 16 }; /* NEAR: one message reads both ends of so many pages */

static uint64_t end_of(const struct change *c)
{
	return c->offset + c->size;
}

static void clear_edges(struct change *c)
{
	while (c->edges)
		free(c->edge[--c->edges]);
}

void change_clear(struct change *c)
{
	clear_edges(c);
	buffer_unref(c->pages);
	c->pages = NULL;
}

int change_init(struct change *c, uint64_t offset, const char *bytes, size_t size)
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
	const struct change *c;
	const struct file_key *key;
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
	if (page_seal(s->key, block, &seal, c->bytes + (block * BLOCK - c->offset), page_in(c, block)))
		atomic_store(&s->failed, true);
}

/* Of the blocks from `first` on those that are replaced whole. */
static int seal_whole(const struct change *c, const struct file_key *key, uint64_t first, unsigned count)
{
	uint64_t begin = (c->offset + BLOCK - 1) / BLOCK, end = end_of(c) / BLOCK;
	struct sealing s = { .c = c, .key = key, .begin = first > begin ? first : begin };
	unsigned n;

	end = first + count < end ? first + count : end;
	n = end > s.begin ? (unsigned)(end - s.begin) : 0;
	if (n && RAND_bytes(s.nonces, (int)(n * NONCE)) <= 0)
		return -EIO;
	spread(n, SPREAD, seal_one, &s);
	return atomic_load(&s.failed) ? -EIO : 0;
}

int change_seal(struct change *c, const struct file_key *key)
{
	c->key = key;
	return seal_whole(c, key, c->first, c->count);
}

/* ---- the ends ---- */

/* Which blocks there are at the ends of which the new bytes are not all, or may not be. */
static int make_edges(struct change *c)
{
	uint64_t at[2], last = end_of(c) / BLOCK;
	unsigned n = 0;

	clear_edges(c);
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
	if (!err)
		atomic_store(&o->n->key_fits, true);
	buffer_unref(p.data);
	return err;
}

static int read_edges(struct op *o, const struct file_key *key, const struct change *c, struct tail **edge, unsigned n)
{
	struct tail *wanted[2];
	unsigned reads = 0;
	int err = 0;

	for (unsigned i = 0; i < n; i++)
		if (must_be_read(o, c, edge[i]))
			wanted[reads++] = edge[i];
	if (reads == 2 && c->count <= NEAR)
		return read_between(o, key, wanted, reads);
	for (unsigned i = 0; i < reads && !err; i++)
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
	err = change_end(o, err);
	if (!err)
		*written = out.written < pages->size ? out.written : pages->size;
	return err ? err : *written < pages->size ? -ENOSPC : 0;
}

int write_pages(struct op *o, uint64_t block, struct buffer *pages)
{
	size_t written;

	return send(o, block, pages, 0, &written);
}

/* ---- in pieces ---- */

struct piece {
	struct op o;
	uint64_t first;
	unsigned count;
	size_t written; /* bytes of pages */
	int err;
};

struct pieces {
	struct change *c;
	const struct file_key *key;
	uint64_t size; /* of the file, as it is to be */
	uint32_t flags;
	bool sealed; /* the whole blocks are */
	bool edges_read;
	bool in_order; /* each is there before the next is sent: the file must not become longer over blocks that are not there yet */
	pthread_mutex_t lock; /* guards all below */
	struct task_cond went;
	unsigned there;
	bool stopped;
	unsigned n;
	struct piece piece[PARTS];
};

static int seal_piece(struct pieces *all, struct piece *p)
{
	struct change *c = all->c;
	struct tail *edge[2];
	unsigned n = 0;
	int err;

	for (unsigned i = 0; i < c->edges; i++)
		if (c->edge[i]->block >= p->first && c->edge[i]->block < p->first + p->count)
			edge[n++] = c->edge[i];
	err = all->edges_read ? 0 : read_edges(&p->o, all->key, c, edge, n);
	for (unsigned i = 0; i < n && !err; i++)
		err = seal_edge(c, all->key, all->size, edge[i]);
	return err || all->sealed ? err : seal_whole(c, all->key, p->first, p->count);
}

/* Until those before it are there. -ECANCELED: one of them will not be. */
static int await_those_before(struct pieces *all, unsigned i)
{
	bool stopped;

	pthread_mutex_lock(&all->lock);
	task_shield(true);
	while (all->there < i && !all->stopped)
		task_cond_wait(&all->went, &all->lock, NO_DEADLINE);
	task_shield(false);
	stopped = all->stopped;
	pthread_mutex_unlock(&all->lock);
	return stopped ? -ECANCELED : 0;
}

static void tell_those_behind(struct pieces *all, int err)
{
	pthread_mutex_lock(&all->lock);
	all->there++;
	all->stopped |= err != 0;
	pthread_mutex_unlock(&all->lock);
	task_cond_broadcast(&all->went);
}

static int send_piece(struct pieces *all, struct piece *p)
{
	const struct change *c = all->c;
	size_t from = page_at(p->first - c->first), to = from + p->count * (size_t)PAGE;
	struct buffer *pages = buffer_slice(c->pages, from, (to < c->pages->size ? to : c->pages->size) - from);
	int err = pages ? send(&p->o, p->first, pages, all->flags, &p->written) : -ENOMEM;

	buffer_unref(pages);
	return err;
}

static void write_piece(void *arg, unsigned i, struct request *rq)
{
	struct pieces *all = arg;
	/* The last one first: of its end a page may have to be read. */
	unsigned at = all->in_order ? i : (i + all->n - 1) % all->n;
	struct piece *p = &all->piece[at];

	p->o.rq = rq;
	p->err = seal_piece(all, p);
	if (!p->err && all->in_order)
		p->err = await_those_before(all, at);
	if (!p->err)
		p->err = send_piece(all, p);
	if (all->in_order)
		tell_those_behind(all, p->err);
}

/* Where one waits for the other it is two: each costs the way to the brick and back. With O_SYNC each would wait for the disk, too. */
static unsigned pieces_of(const struct op *o, const struct pieces *all)
{
	unsigned n = all->c->count / PART_PAGES, most = o->file->flags & O_DSYNC ? 1 : all->in_order ? 2 : PARTS;

	return n > most ? most : n ? n : 1;
}

static void divide(const struct op *o, struct pieces *all)
{
	unsigned count = all->c->count;

	all->n = pieces_of(o, all);
	for (unsigned i = 0; i < all->n; i++) {
		unsigned begin = i * count / all->n, end = (i + 1) * count / all->n;

		all->piece[i] = (struct piece){ .o = *o, .first = all->c->first + begin, .count = end - begin };
	}
}

/* The error of the first that failed; *end: the block up to which all is there. */
static int judge(struct op *o, const struct pieces *all, uint64_t *end, bool *torn)
{
	const struct piece *p = all->piece;
	int err = 0;

	for (unsigned i = 0; i < all->n && !err; i++, p++) {
		err = p->err;
		*end = p->first + (err ? p->written / PAGE : p->count);
		*torn = err && p->written % PAGE;
		o->why = p->o.why;
		o->where = p->o.where;
		o->again |= p->o.again;
		o->refused |= p->o.refused;
	}
	return err;
}

/* Another mount may have given the file, when it was empty, another key. So with the first pages under a lock none goes out before those that are read
 * have been opened; later ones are read beside the writes. */
static int prepare_edges(struct op *o, struct pieces *all)
{
	struct change *c = all->c;
	int err = make_edges(c);

	all->edges_read = !atomic_load(&o->n->key_fits);
	return err || !all->edges_read ? err : read_edges(o, all->key, c, c->edge, c->edges);
}

static int write_pieces(struct op *o, struct pieces *all, uint64_t *end, bool *torn)
{
	int err = prepare_edges(o, all);

	*end = all->c->first;
	*torn = false;
	all->c->pages->size =
		(all->c->count - 1) * (size_t)PAGE + SEAL + length_in(all->c->first + all->c->count - 1, all->size);
	if (err)
		return err;
	divide(o, all);
	pthread_mutex_init(&all->lock, NULL);
	beside(o->rq, all->n, write_piece, all);
	pthread_mutex_destroy(&all->lock);
	return judge(o, all, end, torn);
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

/* The brick took a part: whole pages of it count. One that is torn and new is cut off again, as it fits no seal. */
static void failed(struct op *o, uint64_t end, bool torn, uint64_t old_size)
{
	turn_forget_tail(o);
	turn_forget_size(o);
	if (torn && end * BLOCK >= old_size)
		set_size(o, end * BLOCK);
}

int change_write(struct op *o, const struct file_key *key, struct change *c, uint32_t flags, size_t *done)
{
	uint64_t old = o->n->size, end = 0;
	struct pieces all = { .c = c, .key = key, .flags = flags, .sealed = c->key == key, .in_order = end_of(c) > old };
	bool torn;
	int err;

	all.size = all.in_order ? end_of(c) : old;
	err = write_pieces(o, &all, &end, &torn);
	if (err) {
		end *= BLOCK;
		*done += end <= c->offset ? 0 : end < end_of(c) ? end - c->offset : c->size;
		failed(o, end / BLOCK, torn, old);
		return err;
	}
	o->n->size = all.size;
	*done += c->size;
	keep_tail(o, c);
	return 0;
}
