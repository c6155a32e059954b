/* SPDX-License-Identifier: Apache-2.0 */
/* Reading: without a lock first; what does not fit is read again, for somebody may just be changing it, and then while nobody can. */
#include "crypt.h"

#include "beside.h"
#include "spread.h"

enum { TRIES = 3 }; /* the last with the lock */

/* ---- pages, as they are on the brick ---- */

int pages_read(struct op *o, uint64_t first, unsigned count, struct pages *p)
{
	struct read_in in = { .file = o->file, .offset = page_at(first), .size = count * (uint32_t)PAGE };
	struct read_out out = { 0 };
	int err = read_on(o->rq, o->x->child[0], &in, &out);

	*p = (struct pages){ .first = first, .count = count, .data = out.data };
	return err;
}

static const uint8_t *page_of(const struct pages *p, unsigned at, size_t *size)
{
	size_t all, begin = at * (size_t)PAGE;
	const uint8_t *bytes = buffer_bytes(p->data, &all);

	*size = all > begin ? all - begin : 0;
	if (*size > PAGE)
		*size = PAGE;
	return *size ? bytes + begin : NULL;
}

/* Mostly more are asked for than the file has. */
static unsigned pages_there(const struct pages *p)
{
	size_t size, n;

	buffer_bytes(p->data, &size);
	n = (size + PAGE - 1) / PAGE;
	return n < p->count ? (unsigned)n : p->count;
}

/* ---- blocks ---- */

static bool all_zeros(const uint8_t *bytes, size_t size)
{
	return !bytes[0] && !memcmp(bytes, bytes + 1, size - 1);
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

static int does_not_fit(struct op *o, const struct file_key *key, const struct pages *p, unsigned at, void *to)
{
	size_t size;
	const uint8_t *page = page_of(p, at, &size);
	bool zeros = all_zeros(page, size);
	struct seal s;
	int err;

	o->where = p->first + at;
	err = look_again(o, key, zeros);
	if (err && err != -EBADMSG)
		return err;
	if (!err && zeros && atomic_load(&o->n->sparse)) {
		memset(to, 0, size - SEAL);
		return (int)(size - SEAL);
	}
	seal_decode(page, &s);
	o->why = zeros				  ? "a block is empty, in a file that has no holes"
		 : !s.length			  ? "a block has no seal"
		 : !seal_may_fit(&s, size - SEAL) ? "its end was cut off, or moved"
						  : "a block was changed, or is from another place or time";
	return -EBADMSG;
}

static int open_page(const struct file_key *key, const struct pages *p, unsigned at, void *to)
{
	size_t size;
	const uint8_t *page = page_of(p, at, &size);

	return page_open(key, p->first + at, page, size, to);
}

int block_get(struct op *o, const struct file_key *key, const struct pages *p, unsigned at, uint64_t size, void *to)
{
	int n = open_page(key, p, at, to);

	if (n == -EBADMSG)
		n = does_not_fit(o, key, p, at, to);
	if (n < 0 || (unsigned)n == length_in(p->first + at, size))
		return n < 0 ? n : 0;
	if (atomic_load(&o->n->lost)) {
		o->again = true;
		return -ESTALE;
	}
	o->where = p->first + at;
	o->why = "it does not have the length that the file's length says";
	return -EREMOTEIO;
}

struct opening {
	const struct file_key *key;
	const struct pages *pages;
	char *to;
	int size[MESSAGE_PAGES]; /* of the blocks, or -EBADMSG */
};

static void open_one(void *arg, unsigned i)
{
	struct opening *open = arg;

	open->size[i] = open_page(open->key, open->pages, i, open->to + i * (size_t)BLOCK);
}

/* *got: bytes, of which all before the last block are there. What needs nobody's help is done by whichever cores are free. */
static int open_pages(struct op *o, const struct file_key *key, const struct pages *p, char *to, size_t *got)
{
	struct opening open = { .key = key, .pages = p, .to = to };
	unsigned there = pages_there(p);
	int n = 0;

	spread(there, SPREAD, open_one, &open);
	for (unsigned i = 0; n >= 0 && i < there && *got == i * (size_t)BLOCK; i++) {
		n = open.size[i] == -EBADMSG ? does_not_fit(o, key, p, i, to + i * (size_t)BLOCK) : open.size[i];
		*got += n > 0 ? (size_t)n : 0;
	}
	return n < 0 ? n : 0;
}

static int read_message(struct op *o, const struct file_key *key, uint64_t first, unsigned count, char *to, size_t *got)
{
	struct pages p;
	int err = pages_read(o, first, count, &p);

	*got = 0;
	if (!err)
		err = open_pages(o, key, &p, to, got);
	buffer_unref(p.data);
	return err;
}

/* One message's part of a request; several are on their way at once, and what has come is opened while the brick reads the next. */
struct part {
	struct op o;
	uint64_t first;
	unsigned count;
	char *to;
	size_t got;
	int err;
};
struct parts {
	const struct file_key *key;
	struct part part[PARTS];
};

static void read_part(void *arg, unsigned i, struct request *rq)
{
	struct parts *all = arg;
	struct part *p = &all->part[i];

	p->o.rq = rq;
	p->err = read_message(&p->o, all->key, p->first, p->count, p->to, &p->got);
}

static unsigned divide(const struct op *o, uint64_t first, unsigned count, char *to, struct part *part)
{
	unsigned n = count < 2 * PART_PAGES ? 1 : count / PART_PAGES;

	for (unsigned i = 0; i < n; i++) {
		unsigned begin = i * count / n, end = (i + 1) * count / n;

		part[i] = (struct part){
			.o = *o, .first = first + begin, .count = end - begin, .to = to + begin * (size_t)BLOCK
		};
	}
	return n;
}

/* As far as there are blocks one behind the other. */
static int join(struct op *o, const struct part *part, unsigned n, size_t *got)
{
	int err = 0;

	for (unsigned i = 0; i < n && !err; i++) {
		err = part[i].err;
		o->why = part[i].o.why;
		o->where = part[i].o.where;
		o->again = part[i].o.again;
		*got += part[i].got;
		if (part[i].got < part[i].count * (size_t)BLOCK)
			break;
	}
	return err;
}

static int read_parts(struct op *o, const struct file_key *key, uint64_t first, unsigned count, char *to, size_t *got)
{
	struct parts all = { .key = key };
	unsigned n = divide(o, first, count, to, all.part);

	*got = 0;
	beside(o->rq, n, read_part, &all);
	return join(o, all.part, n, got);
}

static int read_blocks(struct op *o, const struct file_key *key, uint64_t first, unsigned count, char *to, size_t *got)
{
	int err = 0;

	*got = 0;
	for (unsigned done = 0; done < count && !err && *got == done * (size_t)BLOCK; done += MESSAGE_PAGES) {
		unsigned n = count - done < MESSAGE_PAGES ? count - done : MESSAGE_PAGES;
		size_t more;

		err = read_parts(o, key, first + done, n, to + done * (size_t)BLOCK, &more);
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
	return err;
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
		err = tampered(&o, read_range(&o, key, in->offset / BLOCK, count, data->data, &got));
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

/* Holes are whole pages, so what the brick says of the pages holds for the blocks. */
static int seek_contents(struct op *o, uint64_t offset, uint64_t size, uint32_t whence, uint64_t *found)
{
	uint64_t least = page_at(offset / BLOCK) + SEAL + offset % BLOCK, at = least;
	int err = seek_below(o, &at, whence);

	if (err && (err != -ENXIO || whence == SEEK_DATA))
		return err;
	if (!err && at < least) {
		o->why = "a search in it ended before it began";
		return -EBADMSG;
	}
	*found = err || at >= size_on_brick(size) ? size : size_of_contents(at);
	if (*found < offset)
		*found = offset;
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
