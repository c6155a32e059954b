/* SPDX-License-Identifier: Apache-2.0 */
/* Reading: without a lock first; what does not fit is read again, for somebody may just be changing it, and then while nobody can. */
#include "crypt.h"

#include "spread.h"

enum {
	TOGETHER = 8, /* blocks so near to their slots are read with them in one request */
	TRIES = 3,    /* the last with the lock */
	AT_ONCE = 4,  /* messages */
};

/* ---- from the brick ---- */

int read_sealed(struct op *o, uint64_t offset, size_t size, struct buffer **data)
{
	struct read_in in = { .file = o->file, .offset = offset, .size = (uint32_t)size };
	struct read_out out = { 0 };
	int err = read_on(o->rq, o->x->child[0], &in, &out);

	*data = out.data;
	return err;
}

/* What is there of bytes that stand `at` on the brick; the buffer begins at `begin`. */
static const uint8_t *bytes_there(struct buffer *b, uint64_t begin, uint64_t at, size_t most, size_t *size)
{
	size_t all;
	const uint8_t *bytes = buffer_bytes(b, &all);

	*size = all > at - begin ? all - (size_t)(at - begin) : 0;
	if (*size > most)
		*size = most;
	return *size ? bytes + (at - begin) : NULL;
}

void piece_clear(struct piece *p)
{
	buffer_unref(p->slots);
	buffer_unref(p->data);
	p->slots = p->data = NULL;
}

/* Pages of slots lie between the blocks, and a message brings so many pages. */
static unsigned blocks_in_message(uint64_t first, unsigned count, uint64_t begin)
{
	unsigned n = count < PIECE_BLOCKS ? count : PIECE_BLOCKS, more;

	while (n > 1 && block_at(first + n - 1) + BLOCK - begin > PIECE_BLOCKS * (uint64_t)BLOCK)
		n--;
	more = (unsigned)((first + n) % GROUP);
	return n < count && more < n ? n - more : n;
}

void piece_plan(uint64_t first, unsigned count, struct piece *p)
{
	unsigned before = (unsigned)(first % GROUP);
	bool together = before <= TOGETHER || before <= count / 4;

	*p = (struct piece){ .first = first, .at = together ? slots_at(first - before) : block_at(first) };
	p->count = blocks_in_message(first, count, p->at);
	if (!together)
		p->apart = p->count < GROUP - before ? p->count : GROUP - before;
}

static int read_slots(struct op *o, void *arg)
{
	struct piece *p = arg;

	return read_sealed(o, slots_at(p->first), p->apart * (size_t)SLOT_PAIR, &p->slots);
}

static int read_data(struct op *o, struct piece *p)
{
	return read_sealed(o, p->at, (size_t)(block_at(p->first + p->count - 1) + BLOCK - p->at), &p->data);
}

int piece_read(struct op *o, struct piece *p)
{
	struct aside slots;
	int err = 0, other = 0;

	if (p->apart)
		aside_start(&slots, o, read_slots, p);
	err = read_data(o, p);
	if (p->apart)
		other = aside_end(&slots, o);
	if (!err)
		err = other;
	if (err)
		piece_clear(p);
	return err;
}

static int read_piece(struct op *o, void *arg)
{
	return piece_read(o, arg);
}

void piece_start(struct op *o, struct piece *p)
{
	aside_start(&p->aside, o, read_piece, p);
}

int piece_end(struct op *o, struct piece *p)
{
	int err = aside_end(&p->aside, o);

	if (err)
		piece_clear(p);
	return err;
}

const uint8_t *piece_pair(const struct piece *p, unsigned at)
{
	uint64_t block = p->first + at;
	bool apart = p->slots && block / GROUP == p->first / GROUP;
	size_t size;
	const uint8_t *pair =
		bytes_there(apart ? p->slots : p->data, apart ? slots_at(p->first) : p->at, slots_at(block), SLOT_PAIR, &size);

	return size == SLOT_PAIR ? pair : NULL;
}

static const uint8_t *piece_cipher(const struct piece *p, unsigned at, size_t *size)
{
	return bytes_there(p->data, p->at, block_at(p->first + at), BLOCK, size);
}

/* ---- blocks ---- */

static bool all_zeros(const uint8_t *bytes, size_t size)
{
	return !size || (!bytes[0] && !memcmp(bytes, bytes + 1, size - 1));
}

/* A slot may be for fewer bytes than there are only where a truncation has said that the rest does not count. */
static bool may_fit(const struct slot_value *s, size_t size)
{
	return s->length && (s->length == size || (s->length < size && s->flags & SLOT_SHRUNK));
}

/* Another mount may have made holes, or given the file, which was empty then, another key: the header tells. Who has the turn begins again with
 * that key, as a reader does once he has the lock. */
static int look_again(struct op *o, const struct file_key *key, bool zeros)
{
	const struct file_key *now = key;
	uint64_t where = o->where;
	int err = o->turn || (zeros && !atomic_load(&o->n->sparse)) ? node_reload(o, &now) : 0;

	o->where = where;
	o->again = o->again || (o->turn && !err && now != key);
	return err ? err : now != key ? -EBADMSG : 0;
}

static void slots_of(const struct piece *p, unsigned at, struct slot_value s[2])
{
	const uint8_t *pair = piece_pair(p, at);

	s[0].length = s[1].length = 0;
	if (!pair)
		return;
	slot_decode(pair, &s[0]);
	slot_decode(pair + SLOT, &s[1]);
}

static int nothing_fits(struct op *o, const struct file_key *key, const struct piece *p, unsigned at, void *to)
{
	struct slot_value s[2];
	size_t size;
	const uint8_t *cipher = piece_cipher(p, at, &size);
	bool zeros = all_zeros(cipher, size);
	int err;

	o->where = p->first + at;
	err = look_again(o, key, zeros);
	if (err && err != -EBADMSG)
		return err;
	if (!err && zeros && atomic_load(&o->n->sparse)) {
		memset(to, 0, size);
		return (int)size;
	}
	slots_of(p, at, s);
	o->why = zeros						  ? "a block is empty, in a file that has no holes"
		 : !s[0].length && !s[1].length			  ? "a block has no seal"
		 : !may_fit(&s[0], size) && !may_fit(&s[1], size) ? "its end was cut off, or moved"
								  : "a block was changed, or is from another place or time";
	return -EBADMSG;
}

int piece_open(const struct file_key *key, const struct piece *p, unsigned at, void *to, struct found *found)
{
	struct slot_value s[2];
	size_t size;
	const uint8_t *cipher = piece_cipher(p, at, &size);
	unsigned newer;

	*found = (struct found){ .slot = -1 };
	if (!size)
		return 0;
	slots_of(p, at, s);
	newer = s[1].length &&
		(!s[0].length || (int8_t)((s[1].flags >> SLOT_SERIAL_SHIFT) - (s[0].flags >> SLOT_SERIAL_SHIFT)) > 0);
	for (unsigned i = 0; i < 2; i++) {
		const struct slot_value *one = &s[newer ^ i];

		if (!may_fit(one, size) || block_open(key, p->first + at, one, cipher, to))
			continue;
		*found = (struct found){ (int)(newer ^ i), (uint8_t)(one->flags >> SLOT_SERIAL_SHIFT) };
		memset((char *)to + one->length, 0, size - one->length);
		return (int)size;
	}
	return -EBADMSG;
}

int piece_block(struct op *o, const struct file_key *key, const struct piece *p, unsigned at, void *to, struct found *found)
{
	int n = piece_open(key, p, at, to, found);

	return n == -EBADMSG ? nothing_fits(o, key, p, at, to) : n;
}

struct opening {
	const struct file_key *key;
	const struct piece *piece;
	char *to;
	int size[PIECE_BLOCKS]; /* of the blocks, or -EBADMSG */
};

static void open_one(void *arg, unsigned i)
{
	struct opening *open = arg;
	struct found found;

	open->size[i] = piece_open(open->key, open->piece, i, open->to + i * (size_t)BLOCK, &found);
}

/* *got: bytes. */
static int open_blocks(struct op *o, const struct file_key *key, const struct piece *p, char *to, size_t *got)
{
	struct opening open = { .key = key, .piece = p, .to = to };
	int n = 0;

	spread(p->count, SPREAD, open_one, &open);
	for (unsigned i = 0; n >= 0 && i < p->count && *got == i * (size_t)BLOCK; i++) {
		n = open.size[i] == -EBADMSG ? nothing_fits(o, key, p, i, to + i * (size_t)BLOCK) : open.size[i];
		*got += n > 0 ? (size_t)n : 0;
	}
	return n < 0 ? n : 0;
}

/* The messages go side by side, and what the first has brought is opened while the others are on their way. */
static int read_pieces(struct op *o, const struct file_key *key, struct piece *p, unsigned n, char *to, size_t *got)
{
	int err = 0, failed = 0;

	for (unsigned i = 1; i < n; i++)
		piece_start(o, &p[i]);
	for (unsigned i = 0; i < n; i++) {
		size_t at = (size_t)(p[i].first - p[0].first) * BLOCK, more = 0;

		err = i ? piece_end(o, &p[i]) : piece_read(o, &p[i]);
		if (!err && !failed && *got == at)
			err = open_blocks(o, key, &p[i], to + at, &more);
		*got += more;
		piece_clear(&p[i]);
		failed = failed ? failed : err;
	}
	return failed;
}

static int read_blocks(struct op *o, const struct file_key *key, uint64_t first, unsigned count, char *to, size_t *got)
{
	int err = 0;

	*got = 0;
	for (unsigned done = 0; done < count && !err && *got == done * (size_t)BLOCK;) {
		struct piece p[AT_ONCE];
		unsigned begin = done, n = 0;
		size_t more = 0;

		for (; done < count && n < AT_ONCE; done += p[n++].count)
			piece_plan(first + done, count - done, &p[n]);
		err = read_pieces(o, key, p, n, to + begin * (size_t)BLOCK, &more);
		*got += more;
	}
	return err;
}

static int read_locked(struct op *o, uint64_t first, unsigned count, char *to, size_t *got)
{
	const struct file_key *key;
	bool locked;
	int err = turn_take_reading(o, &locked);

	if (err)
		return err;
	err = node_reload(o, &key);
	if (!err)
		err = read_blocks(o, key, first, count, to, got);
	turn_give_reading(o, locked);
	return tampered(o, err);
}

static int read_range(struct op *o, const struct file_key *key, uint64_t first, unsigned count, char *to, size_t *got)
{
	int err = -EBADMSG;

	for (int i = 1; i < TRIES && err == -EBADMSG; i++) {
		err = read_blocks(o, key, first, count, to, got);
		if (err == -EBADMSG)
			atomic_fetch_add(&o->c->reread, 1);
	}
	return err == -EBADMSG ? read_locked(o, first, count, to, got) : err;
}

/* A file without contents may be one without a header. */
static int key_to_read(struct op *o, const struct file_key **key)
{
	struct getattr_in in = { .inode = o->inode, .file = o->file };
	struct getattr_out out = { 0 };
	int err = node_key(o, key), sized;

	if (err != -EBADMSG)
		return tampered(o, err);
	sized = getattr_on(o->rq, o->x->child[0], &in, &out);
	if (sized)
		return sized;
	*key = NULL;
	return out.attr.size ? tampered(o, err) : 0;
}

int crypt_read(struct request *rq, struct xlator *x, const struct read_in *in, struct read_out *out)
{
	struct op o = op_on(rq, x, in->file->inode, node_of(x, in->file->inode));
	size_t skip = in->offset % BLOCK, got = 0;
	unsigned count = (unsigned)((skip + in->size + BLOCK - 1) / BLOCK);
	const struct file_key *key;
	cleanup_buffer struct buffer *data = NULL;
	int err = o.n ? file_for_both(rq, x, in->file, &o.file) : -ENOMEM;

	if (!err)
		err = in->offset >> SIZE_MAX_BITS ? -EINVAL : key_to_read(&o, &key);
	if (err)
		return err;
	data = buffer_create(count ? count * (size_t)BLOCK : 1);
	if (!data)
		return -ENOMEM;
	if (key && count)
		err = read_range(&o, key, in->offset / BLOCK, count, data->data, &got);
	if (err)
		return err;
	got = got > skip ? got - skip : 0;
	out->data = buffer_slice(data, got ? skip : 0, got < in->size ? got : in->size);
	return out->data ? 0 : -ENOMEM;
}

/* ---- data and holes ---- */

static int seek_below(struct op *o, uint64_t *at, uint32_t whence)
{
	struct seek_in in = { .file = o->file, .offset = *at, .whence = whence };
	struct seek_out out = { 0 };
	int err = seek_on(o->rq, o->x->child[0], &in, &out);

	*at = out.offset;
	return err;
}

/* Where slots stand says nothing of the contents: the search goes on behind them. */
static int seek_contents(struct op *o, uint64_t offset, uint64_t size, uint32_t whence, uint64_t *found)
{
	uint64_t at = block_at(offset / BLOCK) + offset % BLOCK, least = at, end = size_on_brick(size);
	int err;

	while (!(err = seek_below(o, &at, whence)) && at >= least && at < end && at / BLOCK % (GROUP + 1) == 0)
		at = least = (at / BLOCK + 1) * BLOCK;
	if (err && (err != -ENXIO || whence == SEEK_DATA))
		return err;
	if (!err && at < least) {
		o->why = "a search in it ended before it began";
		return -EBADMSG;
	}
	*found = err || at >= end ? size : size_of_contents(at);
	if (*found < offset)
		*found = offset;
	if (*found > size)
		*found = size;
	return whence == SEEK_DATA && *found >= size ? -ENXIO : 0;
}

/* Where the header allows no holes there are none, whatever the brick says. */
static int seek_sealed(struct op *o, uint64_t offset, uint64_t size, uint32_t whence, uint64_t *found)
{
	const struct file_key *key;
	int err = atomic_load(&o->n->sparse) ? 0 : node_reload(o, &key);

	if (err)
		return err;
	if (atomic_load(&o->n->sparse))
		return seek_contents(o, offset, size, whence, found);
	*found = whence == SEEK_DATA ? offset : size;
	return 0;
}

int crypt_seek(struct request *rq, struct xlator *x, const struct seek_in *in, struct seek_out *out)
{
	struct op o = op_on(rq, x, in->file->inode, node_of(x, in->file->inode));
	struct getattr_in get = { .inode = o.inode, .file = in->file };
	struct getattr_out got = { 0 };
	uint64_t size;
	int err = o.n ? getattr_on(rq, x->child[0], &get, &got) : -ENOMEM;

	if (err)
		return err;
	o.file = in->file;
	if (in->whence != SEEK_DATA && in->whence != SEEK_HOLE)
		return -EINVAL;
	size = size_of_contents(got.attr.size);
	if (in->offset >= size)
		return -ENXIO;
	return tampered(&o, seek_sealed(&o, in->offset, size, in->whence, &out->offset));
}
