/* SPDX-License-Identifier: Apache-2.0 */
/* Writing, by groups: read what is kept or may still be needed, write the new slots beside those that fit, then the blocks. Until a block
 * is there its old slot fits, from then on its new one: so whatever ends the writing between two pages leaves the old block or the new one.
 * Where the order does not matter messages go side by side, and while blocks are on their way what comes after them is sealed. */
#include <fcntl.h>
#include <openssl/rand.h>

#include "write.h"

/* What goes to the brick in one message. */
struct sending {
	struct aside aside;
	bool under_way;
	uint64_t at;
	struct buffer *data;
	uint32_t flags;
	size_t written;
	int err;
};

/* Groups that go on together. Either such as lie within the file, each group's blocks a message of its own, or such as make it longer: these are
 * one message, pages in order, or there might be blocks behind an end that is not there yet. */
struct batch {
	struct change c[TOGETHER];
	unsigned n;
	bool grows;
	struct buffer *merged; /* of those that grow; the groups' buffers are parts of it */
	struct sending blocks[TOGETHER];
	unsigned messages;
};

static int write_some(struct op *o, uint64_t offset, struct buffer *data, uint32_t flags, size_t *written)
{
	struct write_in in = { .file = o->file, .offset = offset, .flags = flags & ~(uint32_t)WRITE_APPEND, .data = data };
	struct write_out out = { 0 };
	int err = change_begin(o);

	*written = 0;
	if (err)
		return err;
	err = write_on(o->rq, o->x->child[0], &in, &out);
	change_end();
	*written = err ? 0 : at_most(out.written, data->size);
	return err ? err : out.written < data->size ? -ENOSPC : 0;
}

int write_sealed(struct op *o, uint64_t offset, struct buffer *data, uint32_t flags)
{
	size_t written;

	return write_some(o, offset, data, flags, &written);
}

/* ---- to the brick ---- */

static size_t bytes_of(const struct change *c)
{
	return (c->count - 1) * (size_t)BLOCK + length_in(c->first + c->count - 1, c->new_size);
}

/* Else a power cut could leave a block that no slot fits. */
int make_durable(struct op *o)
{
	struct fsync_in in = { .file = o->file, .datasync = 1 };
	struct fsync_out out = { 0 };

	if (o->n->fresh)
		atomic_fetch_add(&o->c->unordered, 1);
	return o->c->ordered && !o->n->fresh ? fsync_on(o->rq, o->x->child[0], &in, &out) : 0;
}

/* Slots and blocks of a group that begins here are one: pages come to the brick in order, so one request does for both. */
static bool begins(const struct change *c)
{
	return !c->existing && c->first % GROUP == 0;
}

static size_t sealed_size(const struct change *c)
{
	return (begins(c) ? BLOCK : 0) + bytes_of(c);
}

/* Where the seals are to be: in `merged`, or in a buffer of their own. */
static int make_room(struct change *c, struct buffer *merged, size_t merged_at)
{
	bool in_front = begins(c);

	c->at = in_front ? slots_at(c->first) : block_at(c->first);
	c->nonces = malloc(c->count * (size_t)NONCE);
	c->slots = in_front ? NULL : buffer_create(c->count * (size_t)SLOT_PAIR);
	c->sealed = merged ? buffer_slice(merged, merged_at, sealed_size(c)) : buffer_create(sealed_size(c));
	if (!c->nonces || !c->sealed || (!in_front && !c->slots))
		return -ENOMEM;
	memset(in_front ? c->sealed->data : c->slots->data, 0, in_front ? BLOCK : c->slots->size);
	return RAND_bytes(c->nonces, (int)(c->count * NONCE)) > 0 ? 0 : -EIO;
}

static int make_rooms(struct batch *b)
{
	size_t all = 0, at = 0;
	int err = 0;

	for (unsigned i = 0; i < b->n && b->grows; i++)
		all += sealed_size(&b->c[i]);
	if (all && !(b->merged = buffer_create(all)))
		return -ENOMEM;
	for (unsigned i = 0; i < b->n && !err; i++) {
		err = make_room(&b->c[i], b->merged, at);
		at += err ? 0 : b->c[i].sealed->size;
	}
	return err;
}

static void batch_clear(struct batch *b)
{
	for (unsigned i = 0; i < b->n; i++) {
		free(b->c[i].nonces);
		buffer_unref(b->c[i].slots);
		buffer_unref(b->c[i].sealed);
		free(b->c[i].known);
	}
	buffer_unref(b->merged);
	b->merged = NULL;
	b->n = 0;
}

/* So many blocks behind each other must be read from this group on. */
static unsigned needs_from(const struct change *c, const struct change *end)
{
	unsigned n = c->needs;

	for (; c + 1 < end && c[1].needs && c[1].first + c[1].need == c->first + c->need + c->needs; c++)
		n += c[1].needs;
	return n;
}

/* Which pieces bring what must be read: few, as the groups lie behind each other. */
static unsigned plan_pieces(struct batch *b, struct piece piece[TOGETHER])
{
	struct piece *last = NULL;
	unsigned pieces = 0;

	for (struct change *c = b->c; c < b->c + b->n; c++) {
		change_needs(c);
		c->piece = NULL;
	}
	for (struct change *c = b->c; c < b->c + b->n; c++) {
		if (c->needs && (!last || c->first + c->need + c->needs > last->first + last->count)) {
			last = &piece[pieces++];
			piece_plan(c->first + c->need, needs_from(c, b->c + b->n), last);
		}
		c->piece = c->needs ? last : NULL;
	}
	return pieces;
}

/* The groups from `from` on for which this piece is enough. */
static unsigned groups_of(const struct batch *b, unsigned from, const struct piece *p)
{
	unsigned n = from;

	while (n < b->n && (!b->c[n].piece || b->c[n].piece == p))
		n++;
	return n - from;
}

/* What one message has brought is sealed while the others are on their way. */
static int seal_pieces(struct op *o, const struct file_key *key, struct batch *b, struct piece *p, unsigned pieces)
{
	unsigned at = 0;
	int err = 0, one;

	for (unsigned i = 1; i < pieces; i++)
		piece_start(o, &p[i]);
	for (unsigned i = 0; i < pieces; i++) {
		unsigned n = groups_of(b, at, &p[i]);

		one = i ? piece_end(o, &p[i]) : piece_read(o, &p[i]);
		err = err ? err : one;
		if (!err)
			err = change_seal(o, key, b->c + at, n);
		piece_clear(&p[i]);
		at += n;
	}
	return err ? err : change_seal(o, key, b->c + at, b->n - at);
}

/* All but what goes to the brick. */
static int prepare(struct op *o, const struct file_key *key, struct batch *b)
{
	struct piece piece[TOGETHER];
	unsigned pieces;
	int err = known_get(o, b->c, b->n);

	if (!err)
		err = make_rooms(b);
	if (err)
		return err;
	pieces = plan_pieces(b, piece);
	if (!pieces && b->c[0].existing)
		atomic_fetch_add(&o->c->unread, 1);
	return seal_pieces(o, key, b, piece, pieces);
}

/* The next group's part of what is to be written. */
static struct change next_change(uint64_t size_now, uint64_t offset, const char *bytes, size_t size, uint32_t flags)
{
	struct change c = { .first = offset / BLOCK, .offset = offset, .bytes = bytes, .flags = flags, .old_size = size_now };
	uint64_t end = (c.first / GROUP + 1) * GROUP * (uint64_t)BLOCK, blocks = (size_now + BLOCK - 1) / BLOCK;

	c.size = (size_t)at_most(size, end - offset);
	c.count = (unsigned)((offset + c.size + BLOCK - 1) / BLOCK - c.first);
	c.new_size = offset + c.size > size_now ? offset + c.size : size_now;
	c.existing = blocks > c.first ? (unsigned)at_most(blocks - c.first, c.count) : 0;
	return c;
}

/* Such as lie within the file as it is need be ordered only once. */
static bool goes_along(const struct batch *b, const struct change *next)
{
	return b->grows ? b->n < MERGED && begins(next) : next->new_size == next->old_size;
}

/* Contents of a block before and after a write, of which only a part is written. */
struct tails {
	struct tail *before, *after;
};

static void use_tails(struct change *c, const struct tails *t)
{
	const struct tail *before = t->before;

	c->before = before && before->block >= c->first && before->block < c->first + c->count ? before : NULL;
	c->after = t->after && t->after->block == c->first + c->count - 1 ? t->after : NULL;
}

/* *size_now: of the file, and what it will be then. Returns for how many bytes the plan is. */
static size_t plan(uint64_t *size_now, uint64_t offset, const char *bytes, size_t size, uint32_t flags,
		   const struct tails *tails, struct batch *b)
{
	size_t planned = 0;

	*b = (struct batch){ 0 };
	while (planned < size && b->n < TOGETHER) {
		struct change c = next_change(*size_now, offset + planned, bytes + planned, size - planned, flags);

		if (b->n && !goes_along(b, &c))
			break;
		use_tails(&c, tails);
		b->c[b->n++] = c;
		b->grows |= c.new_size > *size_now;
		*size_now = c.new_size;
		planned += c.size;
	}
	return planned;
}

/* What came to the brick of a group's blocks: whole ones count. If what came ends within one that is new, that one is cut off again, as it fits no
 * slot. */
static void count_written(struct op *o, const struct change *c, size_t written, size_t *done)
{
	size_t lead = c->at == block_at(c->first) ? 0 : BLOCK, blocks = written > lead ? (written - lead) / BLOCK : 0;
	uint64_t end = (c->first + blocks) * BLOCK;
	bool torn = written > lead && (written - lead) % BLOCK;

	*done += end > c->offset ? (size_t)at_most(end - c->offset, c->size) : 0;
	if (torn && blocks >= c->existing)
		set_size(o, end > c->old_size ? end : c->old_size);
}

/* The same for a message, which has the blocks of all groups that grow, or those of one. */
static void count_message(struct op *o, const struct change *c, unsigned n, size_t written, size_t *done)
{
	for (unsigned i = 0; i < n && (written || !i); i++) {
		size_t part = (size_t)at_most(written, c[i].sealed->size);

		count_written(o, &c[i], part, done);
		written -= part;
	}
}

/* ---- side by side ---- */

static int send_one(struct op *o, void *arg)
{
	struct sending *s = arg;

	return write_some(o, s->at, s->data, s->flags, &s->written);
}

static void send_start(struct op *o, struct sending *s)
{
	aside_start(&s->aside, o, send_one, s);
	s->under_way = true;
}

static void send_end(struct op *o, struct sending *s)
{
	task_shield(true); /* what changes something is not cancelled */
	s->err = aside_end(&s->aside, o);
	task_shield(false);
	s->under_way = false;
}

static int send_slots(struct op *o, const struct batch *b)
{
	struct sending s[TOGETHER];
	unsigned n = 0;
	int err = 0;

	for (unsigned i = 0; i < b->n; i++)
		if (b->c[i].slots)
			s[n++] = (struct sending){ .at = slots_at(b->c[i].first), .data = b->c[i].slots };
	if (n == 1)
		return send_one(o, &s[0]);
	for (unsigned i = 0; i < n; i++)
		send_start(o, &s[i]);
	for (unsigned i = 0; i < n; i++) {
		send_end(o, &s[i]);
		err = err ? err : s[i].err;
	}
	return err;
}

/* What needs to be there before the blocks; then these. If there is something else to do they are under way when it returns. */
static int batch_send(struct op *o, struct batch *b, bool more)
{
	int err = send_slots(o, b);

	if (!err && b->c[0].existing)
		err = make_durable(o);
	b->messages = err ? 0 : b->grows ? 1 : b->n;
	for (unsigned i = 0; i < b->messages; i++) {
		struct buffer *data = b->merged ?: b->c[i].sealed;

		b->blocks[i] = (struct sending){ .at = b->c[i].at, .data = data, .flags = b->c[i].flags };
		if (b->messages == 1 && !more)
			b->blocks[i].err = send_one(o, &b->blocks[i]);
		else
			send_start(o, &b->blocks[i]);
	}
	if (more)
		task_yield(); /* so that they leave now */
	return err;
}

/* Counts what is a beginning of what was asked. */
static int batch_end(struct op *o, struct batch *b, size_t *done)
{
	unsigned each = b->grows ? b->n : 1;
	int err = 0;

	for (unsigned i = 0; i < b->messages; i++)
		if (b->blocks[i].under_way)
			send_end(o, &b->blocks[i]);
	for (unsigned i = 0; i < b->messages && !err; i++) {
		err = b->blocks[i].err;
		if (err)
			count_message(o, &b->c[i], each, b->blocks[i].written, done);
		for (unsigned k = 0; k < each && !err; k++) {
			*done += b->c[i + k].size;
			known_learn(o, &b->c[i + k]);
		}
	}
	batch_clear(b);
	return err;
}

/* The tail of the last write is the caller's until tails_give. */
static struct tails tails_take(struct op *o, uint64_t end)
{
	struct tails t = { .before = o->n->tail };

	o->n->tail = NULL;
	if (end % BLOCK)
		t.after = malloc(sizeof(*t.after));
	if (t.after)
		t.after->block = end / BLOCK;
	return t;
}

static void tails_give(struct op *o, struct tails *t, uint64_t offset, uint64_t end, int err)
{
	bool stays = t->before && (t->before->block < offset / BLOCK || t->before->block * BLOCK >= end);
	struct tail **kept = err ? NULL : t->after ? &t->after : stays ? &t->before : NULL;

	if (kept) {
		o->n->tail = *kept;
		*kept = NULL;
	}
	free(t->before);
	free(t->after);
}

/* In order: what is written is a beginning of what was asked. While the blocks of some groups are on their way the next ones are sealed. */
static ssize_t write_batches(struct op *o, const struct file_key *key, uint64_t offset, const char *bytes, size_t size,
			     uint32_t flags, const struct tails *tails, int *failed)
{
	struct batch *two = malloc(2 * sizeof(*two)), *last = NULL;
	uint64_t size_then = o->n->size;
	size_t done = 0, planned = 0;
	int err = two ? 0 : -ENOMEM, sent;

	for (unsigned i = 0; planned < size && !err; i++) {
		struct batch *b = &two[i % 2];

		planned += plan(&size_then, offset + planned, bytes + planned, size - planned, flags, tails, b);
		err = prepare(o, key, b);
		sent = last ? batch_end(o, last, &done) : 0;
		err = sent ? sent : err;
		if (!err)
			err = batch_send(o, b, planned < size);
		last = b;
	}
	sent = last ? batch_end(o, last, &done) : 0;
	err = err ? err : sent;
	free(two);
	if (err)
		turn_forget_size(o);
	else
		o->n->size = size_then;
	*failed = err;
	return done ? (ssize_t)done : err;
}

static ssize_t write_groups(struct op *o, const struct file_key *key, uint64_t offset, const char *bytes, size_t size,
			    uint32_t flags)
{
	struct tails tails = tails_take(o, offset + size);
	int err;
	ssize_t n = write_batches(o, key, offset, bytes, size, flags, &tails, &err);

	tails_give(o, &tails, offset, offset + size, err);
	return n;
}

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
	n = write_groups(o, key, offset, zeros, (size_t)size, 0);
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

ssize_t write_bytes(struct op *o, uint64_t offset, const void *bytes, size_t size, uint32_t flags)
{
	const struct file_key *key;
	uint64_t now;
	int err = turn_size(o, &now);

	if (!err && (offset >> SIZE_MAX_BITS || size > (1ull << SIZE_MAX_BITS) - offset))
		err = -EFBIG;
	if (!err)
		err = node_key_or_new(o, &key);
	if (!err && offset > now)
		err = fill_gap(o, now, offset);
	return err ? err : write_groups(o, key, offset, bytes, size, flags);
}

static int write_in_turn(struct op *o, const struct write_in *in, struct write_out *out)
{
	size_t size;
	const void *bytes = buffer_bytes(in->data, &size);
	uint64_t offset = in->offset;
	int err = turn_take(o);
	ssize_t n;

	if (err)
		return err;
	if (in->file->flags & (O_SYNC | O_DSYNC))
		o->n->fresh = false;
	if (in->flags & WRITE_APPEND)
		err = turn_size(o, &offset);
	n = err ? err : write_bytes(o, offset, bytes, size, in->flags);
	turn_give(o);
	if (n < 0)
		return (int)n;
	out->written = (uint32_t)n;
	out->offset = offset;
	return 0;
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
	if (!err)
		err = write_in_turn(&o, in, out);
	if (err && o.again) /* nothing was done to the block at hand */
		err = write_in_turn(&o, in, out);
	return tampered(&o, err);
}
