/* SPDX-License-Identifier: Apache-2.0 */
/* Writing, by groups: read what is kept or may still be needed, write the new slots beside those that fit, then the blocks. Until a block
 * is there its old slot fits, from then on its new one: so whatever ends the writing between two pages leaves the old block or the new one. */
#include <openssl/rand.h>

#include "crypt.h"
#include "spread.h"

struct change { /* of blocks of one group */
	uint64_t first;
	unsigned count;
	uint64_t offset; /* of the new bytes, in the file */
	const char *bytes;
	size_t size;
	uint64_t old_size, new_size; /* of the file */
	uint32_t flags;
	unsigned existing;	   /* blocks that were there before: the first ones */
	const struct piece *piece; /* with these as they are, from block `in_piece` of it on */
	unsigned in_piece;
	uint8_t *nonces;	       /* 12 bytes for each block */
	struct buffer *sealed, *slots; /* what is to be written, and where; NULL: the slots are in front of the blocks */
	uint64_t at;
};
enum { TOGETHER = 8, NONCE = 12 };

static uint64_t at_most(uint64_t value, uint64_t most)
{
	return value < most ? value : most;
}

/* Bytes of a block in a file of that size. */
static unsigned length_in(uint64_t block, uint64_t size)
{
	return size > block * BLOCK ? (unsigned)at_most(size - block * BLOCK, BLOCK) : 0;
}

int piece_block_of(struct op *o, const struct file_key *key, const struct piece *p, unsigned at, uint64_t size, void *to,
		   struct found *found)
{
	int n = piece_block(o, key, p, at, to, found);

	if (n < 0 || (unsigned)n == length_in(p->first + at, size))
		return n < 0 ? n : 0;
	turn_forget_size(o);
	if (atomic_load(&o->n->lost)) {
		o->again = true;
		return -ESTALE;
	}
	o->where = p->first + at;
	o->why = "it does not have the length that the file's length says";
	return -EREMOTEIO;
}

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

/* ---- composing ---- */

/* The plaintext of block i as it is to be: in the caller's bytes if they are all of it, else put together in `scratch`. */
static const char *plain_of(const struct change *c, unsigned i, char scratch[BLOCK])
{
	uint64_t begin = (c->first + i) * BLOCK, end = begin + length_in(c->first + i, c->new_size);
	uint64_t from = c->offset > begin ? c->offset : begin, to = at_most(c->offset + c->size, end);

	if (from == begin && to == end)
		return c->bytes + (begin - c->offset);
	if (from < to)
		memcpy(scratch + (from - begin), c->bytes + (from - c->offset), to - from);
	return scratch;
}

static bool keeps_some(const struct change *c, unsigned i)
{
	uint64_t begin = (c->first + i) * BLOCK, old_end = begin + length_in(c->first + i, c->old_size);

	return i < c->existing && (c->offset > begin || c->offset + c->size < old_end);
}

static char *sealed_block(const struct change *c, unsigned i)
{
	return c->sealed->data + (c->slots ? 0 : BLOCK) + i * (size_t)BLOCK;
}

/* Seals block i, whose plaintext is put together in `scratch` if need be, and puts its new slot where the one that fits is not. */
static int seal_block(const struct file_key *key, const struct change *c, unsigned i, char scratch[BLOCK],
		      const struct found *found)
{
	struct slot_value s = { .length = (uint16_t)length_in(c->first + i, c->new_size) };
	uint8_t *pair = (uint8_t *)(c->slots ?: c->sealed)->data + i * (size_t)SLOT_PAIR;
	const uint8_t *was = i < c->existing ? piece_pair(c->piece, c->in_piece + i) : NULL;
	int err;

	if (was)
		memcpy(pair, was, SLOT_PAIR);
	memcpy(s.nonce, c->nonces + i * NONCE, NONCE);
	s.flags = (uint16_t)((uint8_t)(found->serial + 1) << SLOT_SERIAL_SHIFT);
	err = block_seal(key, c->first + i, &s, plain_of(c, i, scratch), sealed_block(c, i));
	slot_encode(&s, pair + (found->slot == 0 ? SLOT : 0));
	return err;
}

/* What needs nobody's help, on whatever thread: nearly all blocks. -EAGAIN: this one does. */
static int seal_simply(const struct file_key *key, const struct change *c, unsigned i)
{
	struct found found = { .slot = -1 };
	char scratch[BLOCK];
	unsigned was = length_in(c->first + i, c->old_size);
	int n = i < c->existing ? piece_open(key, c->piece, c->in_piece + i, scratch, &found) : 0;

	if (i < c->existing && (n < 0 || (unsigned)n != was))
		return -EAGAIN;
	memset(scratch + was, 0, sizeof(scratch) - was);
	return seal_block(key, c, i, scratch, &found);
}

static int seal_one(struct op *o, const struct file_key *key, const struct change *c, unsigned i)
{
	struct found found = { .slot = -1 };
	char scratch[BLOCK] = { 0 };
	unsigned was = length_in(c->first + i, c->old_size);
	int n = piece_block_of(o, key, c->piece, c->in_piece + i, c->old_size, scratch, &found);

	if (n < 0 && (n != -EBADMSG || o->again || keeps_some(c, i)))
		return n;
	if (n < 0)
		memset(scratch, 0, sizeof(scratch)); /* it could not be read any more; all of it is replaced */
	else
		memset(scratch + was, 0, sizeof(scratch) - was);
	return seal_block(key, c, i, scratch, &found);
}

/* Of all groups that go together. */
struct sealing {
	const struct file_key *key;
	struct change *c;
	int8_t result[TOGETHER * GROUP];
};

static void seal_some(void *arg, unsigned i)
{
	struct sealing *s = arg;
	const struct change *c = s->c;
	unsigned at = i;

	for (; at >= c->count; c++)
		at -= c->count;
	s->result[i] = (int8_t)seal_simply(s->key, c, at);
}

static int seal_all(struct op *o, const struct file_key *key, struct change *c, unsigned n)
{
	struct sealing s = { .key = key, .c = c };
	unsigned all = 0, at = 0;
	int err = 0;

	for (unsigned i = 0; i < n; i++)
		all += c[i].count;
	spread(all, SPREAD, seal_some, &s);
	for (unsigned i = 0; i < n && !err; at += c[i++].count)
		for (unsigned k = 0; k < c[i].count && !err; k++)
			err = s.result[at + k] == -EAGAIN ? seal_one(o, key, &c[i], k) : s.result[at + k];
	return err;
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

	return o->c->ordered ? fsync_on(o->rq, o->x->child[0], &in, &out) : 0;
}

/* Where the seals are to be. Slots and blocks of a group that begins here are one: pages come to the brick in order, so one request does for both. */
static int make_room(struct change *c)
{
	bool begins = !c->existing && c->first % GROUP == 0;
	size_t lead = begins ? BLOCK : 0;

	c->at = begins ? slots_at(c->first) : block_at(c->first);
	c->nonces = malloc(c->count * (size_t)NONCE);
	c->slots = begins ? NULL : buffer_create(c->count * (size_t)SLOT_PAIR);
	c->sealed = buffer_create(lead + c->count * (size_t)BLOCK);
	if (!c->nonces || !c->sealed || (!begins && !c->slots))
		return -ENOMEM;
	memset(begins ? c->sealed->data : c->slots->data, 0, begins ? BLOCK : c->slots->size);
	c->sealed->size = lead + bytes_of(c);
	return RAND_bytes(c->nonces, (int)(c->count * NONCE)) > 0 ? 0 : -EIO;
}

static void change_clear(struct change *c)
{
	free(c->nonces);
	buffer_unref(c->slots);
	buffer_unref(c->sealed);
}

/* What is there, with few messages: the groups lie behind each other. */
static int read_existing(struct op *o, struct change *c, unsigned n, struct piece *p)
{
	const struct piece *last = NULL;
	unsigned left = 0;
	int err = 0;

	for (unsigned i = 0; i < n; i++)
		left += c[i].existing;
	for (unsigned i = 0; i < n && c[i].existing && !err; left -= c[i++].existing) {
		if (!last || c[i].first + c[i].existing > last->first + last->count) {
			err = piece_read(o, c[i].first, left, p);
			last = p++;
		}
		c[i].piece = last;
		c[i].in_piece = (unsigned)(c[i].first - last->first);
	}
	return err;
}

/* All but what goes to the brick. */
static int prepare(struct op *o, const struct file_key *key, struct change *c, unsigned n)
{
	struct piece piece[TOGETHER] = { 0 };
	int err = read_existing(o, c, n, piece);

	for (unsigned i = 0; i < n && !err; i++)
		err = make_room(&c[i]);
	if (!err)
		err = seal_all(o, key, c, n);
	for (unsigned i = 0; i < TOGETHER; i++)
		piece_clear(&piece[i]);
	return err;
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

/* Groups that go together, so that they need be ordered only once: such as lie within the file as it is. The others come one by one, or slots
 * might be written behind an end that is not there yet. */
static unsigned plan(struct op *o, uint64_t offset, const char *bytes, size_t size, uint32_t flags, struct change c[TOGETHER])
{
	unsigned n = 0;

	do {
		c[n] = next_change(o->n->size, offset, bytes, size, flags);
		offset += c[n].size;
		bytes += c[n].size;
		size -= c[n].size;
	} while (c[n++].new_size == o->n->size && size && n < TOGETHER && offset < o->n->size);
	return n;
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

static int write_blocks(struct op *o, const struct change *c, size_t *done)
{
	size_t written;
	int err = write_some(o, c->at, c->sealed, c->flags, &written);

	if (err) {
		count_written(o, c, written, done);
		return err;
	}
	*done += c->size;
	o->n->size = c->new_size;
	return 0;
}

static int write_together(struct op *o, const struct file_key *key, struct change *c, unsigned n, size_t *done)
{
	int err = prepare(o, key, c, n);

	for (unsigned i = 0; i < n && !err; i++)
		err = c[i].slots ? write_sealed(o, slots_at(c[i].first), c[i].slots, 0) : 0;
	if (!err && c[0].existing)
		err = make_durable(o);
	for (unsigned i = 0; i < n && !err; i++)
		err = write_blocks(o, &c[i], done);
	for (unsigned i = 0; i < n; i++)
		change_clear(&c[i]);
	if (err)
		turn_forget_size(o);
	return err;
}

/* In order: what is written is a beginning of what was asked. */
static ssize_t write_groups(struct op *o, const struct file_key *key, uint64_t offset, const char *bytes, size_t size,
			    uint32_t flags)
{
	size_t done = 0;
	int err = 0;

	while (done < size && !err) {
		struct change c[TOGETHER];
		unsigned n = plan(o, offset + done, bytes + done, size - done, flags, c);

		err = write_together(o, key, c, n, &done);
	}
	return done ? (ssize_t)done : err;
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
