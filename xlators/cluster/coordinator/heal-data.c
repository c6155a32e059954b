/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a file: pieces that differ are copied, holes stay holes. */
#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include "heal-internal.h"

enum { PIECE = 1 << 20, CHECKSUM = 16, LOOK_NS = 100000000 };

struct copying {
	struct pair *p;
	struct file *source, *target;
	bool fresh; /* the target had no bytes: nothing to compare with */
};

/* ---- files ---- */

static int file_open(struct pair *p, int at, uint32_t flags, struct file **file)
{
	struct open_in in = { .inode = p->inode, .flags = flags };
	struct open_out out = { 0 };
	int err = heal_call(p->h, p->rq, at, FOP_open, &in, &out);

	*file = out.file;
	return err;
}

static void file_close(struct pair *p, int at, struct file *file)
{
	struct release_in in = { .file = file };
	struct release_out out = { 0 };

	if (!file)
		return;
	heal_call(p->h, p->rq, at, FOP_release, &in, &out);
	file_unref(file);
}

static int set_length(struct pair *p, uint64_t size)
{
	struct setattr_in in = { .inode = p->inode, .set = { .valid = SET_SIZE, .size = size } };
	struct setattr_out out = { 0 };

	p->changed = true;
	return heal_call(p->h, p->rq, p->to, FOP_setattr, &in, &out);
}

/* Where the next data or hole begins; `end` if nothing follows. Who can't tell has data everywhere. */
static int seek(struct copying *c, bool at_source, uint32_t whence, uint64_t offset, uint64_t end, uint64_t *found)
{
	struct seek_in in = { .file = at_source ? c->source : c->target, .offset = offset, .whence = whence };
	struct seek_out out = { 0 };
	int err = heal_call(c->p->h, c->p->rq, at_source ? c->p->from : c->p->to, FOP_seek, &in, &out);

	if (err == -EOPNOTSUPP || err == -EINVAL)
		*found = whence == SEEK_DATA ? offset : end;
	else
		*found = err || out.offset > end ? end : out.offset;
	return err == -EOPNOTSUPP || err == -EINVAL || err == -ENXIO ? 0 : err;
}

/* ---- writing ---- */

static int write_all(struct copying *c, uint64_t offset, struct buffer *data)
{
	size_t done = 0;
	int err = 0;

	c->p->changed = true;
	while (!err && done < data->size) {
		cleanup_buffer struct buffer *rest = buffer_slice(data, done, data->size - done);
		struct write_in in = { .file = c->target, .offset = offset + done, .data = rest };
		struct write_out out = { 0 };

		err = rest ? heal_call(c->p->h, c->p->rq, c->p->to, FOP_write, &in, &out) : -ENOMEM;
		if (!err && !out.written)
			err = -EIO;
		done += out.written;
	}
	return err;
}

/* Waits until the bytes are within the bandwidth. Another one counts at once: what was waited for by the old one is not waited for any more. */
static int pay(struct heal *h, uint64_t bytes)
{
	uint64_t now = clock_ns(), until = atomic_load(&h->paid_until_ns), bandwidth = atomic_load(&h->bandwidth), from;
	int err = 0;

	if (!bandwidth)
		return 0;
	do {
		from = until > now ? until : now;
	} while (!atomic_compare_exchange_weak(&h->paid_until_ns, &until, from + bytes * 1000000000 / bandwidth));
	while (!err && (now = clock_ns()) < from) {
		if (atomic_load(&h->bandwidth) != bandwidth) {
			atomic_store(&h->paid_until_ns, now);
			break;
		}
		err = atomic_load(&h->halt)
			      ? -ECANCELED
			      : task_sleep_ms(from - now < LOOK_NS ? (from - now) / 1000000 + 1 : LOOK_NS / 1000000);
	}
	return err;
}

static int copy_piece(struct copying *c, uint64_t offset, uint32_t size)
{
	struct read_in in = { .file = c->source, .offset = offset, .size = size };
	struct read_out out = { 0 };
	int err = heal_call(c->p->h, c->p->rq, c->p->from, FOP_read, &in, &out);

	if (!err && out.data) {
		atomic_fetch_add(&c->p->h->bytes, out.data->size);
		err = pay(c->p->h, out.data->size);
		err = err ? err : write_all(c, offset, out.data);
	}
	fop_out_clear(FOP_read, &out);
	return err;
}

static int write_zeros(struct copying *c, uint64_t from, uint64_t end)
{
	cleanup_buffer struct buffer *zeros = buffer_create(PIECE);
	int err = zeros ? 0 : -ENOMEM;

	if (zeros)
		memset(zeros->data, 0, zeros->size);
	for (uint64_t at = from; at < end && !err; at += PIECE) {
		cleanup_buffer struct buffer *some = buffer_slice(zeros, 0, end - at < PIECE ? end - at : PIECE);

		err = some ? write_all(c, at, some) : -ENOMEM;
	}
	return err;
}

static int punch(struct copying *c, uint64_t from, uint64_t end)
{
	struct fallocate_in in = {
		.file = c->target, .mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, .offset = from, .length = end - from
	};
	struct fallocate_out out = { 0 };
	int err = heal_call(c->p->h, c->p->rq, c->p->to, FOP_fallocate, &in, &out);

	c->p->changed = true;
	return err == -EOPNOTSUPP || err == -EINVAL ? write_zeros(c, from, end) : err;
}

/* ---- comparing ---- */

/* Asks both members at once. 1: they are the same; 0; -errno. */
static int compare(struct pair *p, const struct replica_in *in)
{
	struct fanout *f = fanout_start(p->rq, p->h->x, FOP_replica, in, 1ull << p->from | 1ull << p->to);
	const struct replica_out *a, *b;
	int same, err, err2;

	if (!f)
		return -ENOMEM;
	fanout_wait(f, 2, p->rq->deadline_ns ? p->rq->deadline_ns : clock_ns() + HEAL_CALL_NS);
	a = fanout_out(f, p->from, &err);
	b = fanout_out(f, p->to, &err2);
	heal_note_failed(p->h, p->from, err);
	heal_note_failed(p->h, p->to, err2);
	if (!err)
		err = err2;
	if (!err && (a->data.size != CHECKSUM || b->data.size != CHECKSUM))
		err = -EIO;
	same = err == -EINPROGRESS ? -ETIMEDOUT : err ? err : !memcmp(a->data.bytes, b->data.bytes, CHECKSUM);
	if (err == -EINPROGRESS)
		fanout_cancel(f);
	fanout_leave(f, NULL);
	return same;
}

static int same_bytes(struct pair *p, uint64_t offset, uint64_t length)
{
	struct replica_in in;
	struct pack range = { 0 };
	int err;

	if (atomic_load(&p->h->halt))
		return -ECANCELED;
	pack_u64(&range, offset);
	pack_u64(&range, length);
	err = heal_verb_in(p->h, REPLICA_CHECKSUM, p->inode, &range, &in);
	if (!err)
		err = compare(p, &in);
	free(in.data.bytes);
	return err;
}

/* ---- ranges ---- */

static int heal_bytes(struct copying *c, uint64_t from, uint64_t end)
{
	int err = 0;

	for (uint64_t at = from, size; at < end && !err; at += size) {
		size = end - at < PIECE ? end - at : PIECE;
		int same = c->fresh ? 0 : same_bytes(c->p, at, size);

		err = same < 0 ? same : same ? 0 : copy_piece(c, at, (uint32_t)size);
	}
	return err;
}

/* A hole of the source: whatever the target has there goes. */
static int heal_hole(struct copying *c, uint64_t from, uint64_t end)
{
	uint64_t data, hole;
	int err = 0;

	for (uint64_t at = from; at < end && !err && !c->fresh; at = hole) {
		hole = end;
		err = seek(c, false, SEEK_DATA, at, end, &data);
		if (err || data >= end)
			break;
		err = seek(c, false, SEEK_HOLE, data, end, &hole);
		if (!err)
			err = hole > data ? punch(c, data, hole) : -EIO;
	}
	return err;
}

static int heal_range(struct copying *c, uint64_t from, uint64_t end)
{
	uint64_t data, hole;
	int err = 0;

	for (uint64_t at = from; at < end && !err; at = hole) {
		hole = end;
		err = seek(c, true, SEEK_DATA, at, end, &data);
		if (!err && data > at)
			err = heal_hole(c, at, data);
		if (err || data >= end)
			break;
		err = seek(c, true, SEEK_HOLE, data, end, &hole);
		if (!err)
			err = hole > data ? heal_bytes(c, data, hole) : -EIO;
	}
	return err;
}

int pair_data(struct pair *p, uint64_t start, uint64_t end)
{
	struct copying c = { .p = p, .fresh = p->target.size == 0 };
	uint64_t size = p->source.size;
	int err = size == p->target.size ? 0 : set_length(p, size);

	if (end > size)
		end = size;
	if (err || start >= end)
		return err;
	err = file_open(p, p->from, O_RDONLY, &c.source);
	if (!err)
		err = file_open(p, p->to, O_RDWR, &c.target);
	if (!err)
		err = heal_range(&c, start, end);
	file_close(p, p->from, c.source);
	file_close(p, p->to, c.target);
	return err;
}
