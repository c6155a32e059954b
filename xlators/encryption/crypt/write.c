/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to write: in turn, and if others have it what can be done before is done (change.c). */
#include "change.h"

/* What is asked for, and how much of it is written. */
struct job {
	uint64_t offset;
	const char *bytes;
	size_t size, done;
	uint32_t flags;
};

/* In order, so that what is written is a beginning of what was asked, also if it fails. `ready`: the first part; NULL. */
static int write_parts(struct op *o, const struct file_key *key, struct change *ready, struct job *j)
{
	int err = 0;

	while (j->done < j->size && !err) {
		struct change own = { 0 }, *c = ready && !j->done ? ready : &own;

		if (c == &own)
			err = change_init(&own, j->offset + j->done, j->bytes + j->done, j->size - j->done);
		if (!err)
			err = change_write(o, key, c, j->flags, &j->done);
		change_clear(&own);
	}
	return err;
}

/* ---- zeros ---- */

int write_zeros(struct op *o, uint64_t offset, uint64_t size)
{
	static const char zeros[BLOCK];
	struct job j = { .offset = offset, .bytes = zeros, .size = (size_t)size };
	const struct file_key *key;
	uint64_t now;
	int err = turn_size(o, &now);

	if (!err)
		err = node_key_or_new(o, &key);
	return err ? err : write_parts(o, key, NULL, &j);
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

static int write_bytes(struct op *o, struct change *ready, struct job *j)
{
	const struct file_key *key;
	uint64_t now, offset = j->offset + j->done;
	int err = turn_size(o, &now);

	if (!err)
		err = check_end(offset, j->size - j->done);
	if (!err)
		err = node_key_or_new(o, &key);
	if (!err && offset > now)
		err = fill_gap(o, now, offset);
	return err ? err : write_parts(o, key, ready, j);
}

/* The rest of an append follows its beginning, if nobody else has appended meanwhile: else it is short. */
static int place(struct op *o, struct job *j)
{
	uint64_t now;
	int err = turn_size(o, &now);

	/* What was refused may have been done before, in a session that is over, and not been answered. At another end it would be there twice. */
	if (!err && !j->done && o->refused && now != j->offset)
		return -EIO;
	if (!err && !j->done)
		j->offset = now;
	return err ? err : now == j->offset + j->done ? 0 : -ESTALE;
}

static int write_in_turn(struct op *o, struct change *ready, struct job *j)
{
	int err = turn_take(o);

	if (err)
		return err;
	if (j->flags & WRITE_APPEND)
		err = place(o, j);
	if (!err)
		err = write_bytes(o, ready, j);
	turn_give(o);
	return err;
}

/* What has stopped for what has changed meanwhile goes on behind what is written. */
static int write_in_turns(struct op *o, struct change *ready, struct job *j)
{
	int err = 0;

	for (unsigned i = 0; i < TURNS; i++) {
		o->again = false;
		err = write_in_turn(o, ready, j);
		if (!err || !o->again)
			break;
	}
	return err;
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
	struct job j = { .offset = in->offset, .flags = in->flags };
	int err = ready ? prepare(o, in, ready) : 0;

	j.bytes = buffer_bytes(in->data, &j.size);
	if (!err)
		err = write_in_turns(o, ready, &j);
	change_clear(&c);
	out->written = (uint32_t)j.done;
	out->offset = j.offset;
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
	err = tampered(&o, err ? err : write_sealed(&o, in, out));
	return out->written ? 0 : err; /* the next write tells what has stopped this one */
}
