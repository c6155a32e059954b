/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to write: in turn, and if others have it what can be done before is done (change.c). */
#include "change.h"

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

/* What needs only the key, where it is known, and the place is sealed while others have the turn. Who has it at once seals while it sends. */
static int prepare(struct op *o, const struct write_in *in, struct change *c)
{
	const struct file_key *key = node_known_key(o->n);
	int err = check_end(in->offset, in->data->size);

	if (!err)
		err = change_init(c, in->offset, in->data->data, in->data->size);
	return !err && key && !turn_take_now(o) ? change_seal(c, key) : err;
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
