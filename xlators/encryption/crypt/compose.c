/* SPDX-License-Identifier: Apache-2.0 */
/* What blocks are to be, sealed: from what is written, and from what was there. */
#include "spread.h"
#include "write.h"

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

static bool is_all_new(const struct change *c, unsigned i)
{
	uint64_t begin = (c->first + i) * BLOCK;

	return c->offset <= begin && c->offset + c->size >= begin + length_in(c->first + i, c->new_size);
}

/* The plaintext of block i as it is to be: in the caller's bytes if they are all of it, else put together in `scratch`. */
static const char *plain_of(const struct change *c, unsigned i, char scratch[BLOCK])
{
	uint64_t begin = (c->first + i) * BLOCK, end = begin + length_in(c->first + i, c->new_size);
	uint64_t from = c->offset > begin ? c->offset : begin, to = at_most(c->offset + c->size, end);

	if (is_all_new(c, i))
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

/* ---- what need not be read ---- */

static bool slot_is_known(const struct change *c, unsigned i)
{
	return c->known && c->known->which[(c->first + i) % GROUP] != KNOWN_NOT;
}

static bool need_not_read(const struct change *c, unsigned i)
{
	bool contents = c->before && c->before->block == c->first + i;

	return i >= c->existing || (slot_is_known(c, i) && (contents || is_all_new(c, i)));
}

void change_needs(struct change *c)
{
	unsigned begin = 0, end = c->existing;

	while (begin < end && need_not_read(c, begin))
		begin++;
	while (end > begin && need_not_read(c, end - 1))
		end--;
	c->need = begin;
	c->needs = end - begin;
}

bool change_knows_some(const struct change *c)
{
	for (unsigned i = 0; i < c->existing; i++)
		if (need_not_read(c, i))
			return true;
	return false;
}

static bool is_read(const struct change *c, unsigned i)
{
	return i >= c->need && i < c->need + c->needs;
}

/* Its slots as they are on the brick; NULL: there are none. */
static const uint8_t *pair_before(const struct change *c, unsigned i)
{
	if (is_read(c, i))
		return piece_pair(c->piece, (unsigned)(c->first + i - c->piece->first));
	return i < c->existing ? c->known->pairs + (c->first + i) % GROUP * SLOT_PAIR : NULL;
}

static struct found found_before(const struct change *c, unsigned i)
{
	struct slot_value s;
	struct found found = { .slot = c->known->which[(c->first + i) % GROUP] };

	slot_decode(pair_before(c, i) + found.slot * SLOT, &s);
	found.serial = (uint8_t)(s.flags >> SLOT_SERIAL_SHIFT);
	return found;
}

/* ---- sealing ---- */

static char *sealed_block(const struct change *c, unsigned i)
{
	return c->sealed->data + (c->slots ? 0 : BLOCK) + i * (size_t)BLOCK;
}

uint8_t *change_pair(const struct change *c, unsigned i)
{
	return (uint8_t *)(c->slots ?: c->sealed)->data + i * (size_t)SLOT_PAIR;
}

/* Seals block i, whose plaintext is put together in `scratch` if need be, and puts its new slot where the one that fits is not. */
static int seal_block(const struct file_key *key, struct change *c, unsigned i, char scratch[BLOCK], const struct found *found)
{
	struct slot_value s = { .length = (uint16_t)length_in(c->first + i, c->new_size) };
	uint8_t *pair = change_pair(c, i);
	const uint8_t *was = pair_before(c, i);
	const char *plain = plain_of(c, i, scratch);
	int err;

	if (was)
		memcpy(pair, was, SLOT_PAIR);
	memcpy(s.nonce, c->nonces + i * NONCE, NONCE);
	s.flags = (uint16_t)((uint8_t)(found->serial + 1) << SLOT_SERIAL_SHIFT);
	err = block_seal(key, c->first + i, &s, plain, sealed_block(c, i));
	c->which[i] = found->slot == 0;
	slot_encode(&s, pair + c->which[i] * SLOT);
	if (c->after && i == c->count - 1)
		memcpy(c->after->plain, plain, s.length);
	return err;
}

/* What needs nobody's help, on whatever thread: nearly all blocks. -EAGAIN: this one does. */
static int seal_simply(const struct file_key *key, struct change *c, unsigned i)
{
	struct found found = { .slot = -1 };
	char scratch[BLOCK];
	unsigned was = length_in(c->first + i, c->old_size);
	int n = (int)was;

	if (is_read(c, i))
		n = piece_open(key, c->piece, (unsigned)(c->first + i - c->piece->first), scratch, &found);
	else if (i < c->existing)
		found = found_before(c, i);
	if (n < 0 || (unsigned)n != was)
		return -EAGAIN;
	if (i < c->existing && !is_read(c, i) && !is_all_new(c, i))
		memcpy(scratch, c->before->plain, was);
	if (!is_all_new(c, i))
		memset(scratch + was, 0, sizeof(scratch) - was);
	return seal_block(key, c, i, scratch, &found);
}

static int seal_one(struct op *o, const struct file_key *key, struct change *c, unsigned i)
{
	struct found found = { .slot = -1 };
	char scratch[BLOCK] = { 0 };
	unsigned was = length_in(c->first + i, c->old_size);
	int n = piece_block_of(o, key, c->piece, (unsigned)(c->first + i - c->piece->first), c->old_size, scratch, &found);

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
	struct change *c = s->c;
	unsigned at = i;

	for (; at >= c->count; c++)
		at -= c->count;
	s->result[i] = (int8_t)seal_simply(s->key, c, at);
}

int change_seal(struct op *o, const struct file_key *key, struct change *c, unsigned n)
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
