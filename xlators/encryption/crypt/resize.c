/* SPDX-License-Identifier: Apache-2.0 */
/* Truncation, both ways, and fallocate. */
#include <fcntl.h>
#include <linux/falloc.h>
#include <openssl/rand.h>

#include "crypt.h"

static uint64_t up_to_block(uint64_t offset)
{
	return (offset + BLOCK - 1) / BLOCK * BLOCK;
}

/* The length of the file on the brick, on the way to the one that was asked for. */
int set_size(struct op *o, uint64_t size)
{
	struct setattr_in in = { .inode = o->inode,
				 .file = o->file,
				 .set = { .valid = SET_SIZE, .size = size_on_brick(size) } };
	struct setattr_out out = { 0 };
	struct who was;
	int err = change_begin(o);

	if (err)
		return err;
	was = become_root(o->rq);
	err = setattr_on(o->rq, o->x->child[0], &in, &out);
	become(o->rq, was);
	err = change_end(o, err);
	if (err)
		o->n->size_known = false;
	else
		o->n->size = size;
	return err;
}

static int make_durable(struct op *o)
{
	struct fsync_in in = { .file = o->file, .datasync = 1 };
	struct fsync_out out = { 0 };

	return fsync_on(o->rq, o->x->child[0], &in, &out);
}

/* ---- shorter ---- */

/* The block as it will be, sealed so that it fits whether the file ends there already or not. */
static int shorten(struct op *o, const struct file_key *key, uint64_t block, const char *plain, unsigned length)
{
	struct seal s = { .length = (uint16_t)length, .flags = SEAL_SHRUNK };
	cleanup_buffer struct buffer *page = buffer_create(SEAL + length);
	int err = !page					     ? -ENOMEM
		  : RAND_bytes(s.nonce, sizeof(s.nonce)) > 0 ? page_seal(key, block, &s, plain, page->data)
							     : -EIO;

	return err ? err : write_pages(o, block, page);
}

/* Before the file ends within a block that block must fit a seal with its new length: after a power cut, too. */
static int prepare_end(struct op *o, uint64_t size)
{
	const struct file_key *key;
	struct pages p;
	char plain[BLOCK];
	int err = node_key_or_new(o, &key);

	if (!err)
		err = pages_read(o, size / BLOCK, 1, &p);
	if (err)
		return err;
	err = block_get(o, key, &p, 0, o->n->size, plain);
	buffer_unref(p.data);
	if (!err)
		err = shorten(o, key, size / BLOCK, plain, (unsigned)(size % BLOCK));
	return err ? err : make_durable(o);
}

static int shrink(struct op *o, uint64_t size, uint64_t now)
{
	int err = 0;

	if (size % BLOCK && now > up_to_block(size))
		err = set_size(o, up_to_block(size));
	return err || size % BLOCK == 0 ? err : prepare_end(o, size);
}

/* ---- longer ---- */

static int grow(struct op *o, uint64_t size, uint64_t now)
{
	uint64_t end = up_to_block(now) < size ? up_to_block(now) : size;
	int err = end > now ? write_zeros(o, now, end - now) : 0;

	return err || end == size ? err : node_allow_holes(o);
}

/* Who has not the file's master key, or does not know its format, could not write it again: he does not empty it either. */
static int may_change(struct op *o)
{
	const struct file_key *key;
	int err = node_key(o, &key);

	return err == -ENOKEY || err == -EREMOTEIO ? err : 0;
}

/* All but the change of the length itself. */
static int prepare_size(struct op *o, uint64_t size)
{
	uint64_t now;
	int err = turn_size(o, &now);

	if (!err)
		err = may_change(o);
	return err || size == now ? err : size < now ? shrink(o, size, now) : grow(o, size, now);
}

/* ---- setattr ---- */

static int change_size(struct op *o, const struct setattr_in *in, struct setattr_out *out)
{
	struct setattr_in below = *in;
	int err = prepare_size(o, in->set.size);

	below.set.size = size_on_brick(in->set.size);
	if (!err)
		err = change_begin(o);
	if (err)
		return err;
	return change_end(o, setattr_on(o->rq, o->x->child[0], &below, out));
}

static int resize_once(struct op *o, const struct setattr_in *in, struct setattr_out *out)
{
	int err = turn_take(o);

	if (err)
		return err;
	turn_forget_tail(o);
	err = change_size(o, in, out);
	if (err)
		o->n->size_known = false;
	else
		o->n->size = in->set.size;
	turn_forget_tail(o);
	turn_give(o);
	return err;
}

static int resize_in_turn(struct op *o, const struct setattr_in *in, struct setattr_out *out)
{
	unsigned tries = 0;
	int err;

	do
		err = resize_once(o, in, out);
	while (err && o->again && ++tries < TURNS);
	return err;
}

/* By name: whoever may write the file may, which the brick can only say of the change as a whole, and that is made last. */
static int resize_by_name(struct op *o, const struct setattr_in *in, struct setattr_out *out)
{
	struct access_in may = { .inode = o->inode, .mask = W_OK };
	struct access_out nothing = { 0 };
	int err = access_on(o->rq, o->x->child[0], &may, &nothing);

	if (!err)
		err = open_own(o->rq, o->x, o->inode, 0, &o->file);
	if (err)
		return err;
	err = resize_in_turn(o, in, out);
	close_own(o->rq, o->x, o->file);
	return err;
}

static int resize(struct request *rq, struct xlator *x, const struct setattr_in *in, struct setattr_out *out)
{
	struct inode *inode = in->inode ? in->inode : in->file->inode;
	struct op o = op_on(rq, x, inode, node_of(x, inode));
	int err;

	if (!o.n)
		return -ENOMEM;
	if (in->set.size >> SIZE_MAX_BITS)
		return -EFBIG;
	if (!in->file)
		return tampered(&o, resize_by_name(&o, in, out));
	if ((in->file->flags & O_ACCMODE) == O_RDONLY)
		return -EINVAL;
	err = file_for_both(rq, x, in->file, &o.file);
	return tampered(&o, err ? err : resize_in_turn(&o, in, out));
}

int crypt_setattr(struct request *rq, struct xlator *x, const struct setattr_in *in, struct setattr_out *out)
{
	const struct inode *inode = in->inode ? in->inode : in->file->inode;
	int err = in->set.valid & SET_SIZE && S_ISREG(inode->type) ? resize(rq, x, in, out)
								   : setattr_on(rq, x->child[0], in, out);

	if (!err)
		attr_translate(&out->attr);
	return err;
}

int truncate_opened(struct request *rq, struct xlator *x, struct inode *inode, struct file *file, struct attr *attr)
{
	bool writes = (file->flags & O_ACCMODE) != O_RDONLY;
	struct setattr_in in = { .inode = inode, .file = writes ? file : NULL, .set = { .valid = SET_SIZE } };
	struct setattr_out out = { 0 };
	int err;

	in.set.valid |= rq->uid ? SET_KILL_PRIV : 0;
	err = crypt_setattr(rq, x, &in, &out);
	if (!err && attr)
		*attr = out.attr;
	return err;
}

/* ---- fallocate ---- */

static int allocate_at(struct op *o, uint32_t mode, uint64_t offset, uint64_t length)
{
	struct fallocate_in in = { .file = o->file, .mode = mode, .offset = offset, .length = length };
	struct fallocate_out out = { 0 };
	int err = change_begin(o);

	if (err)
		return err;
	return change_end(o, fallocate_on(o->rq, o->x->child[0], &in, &out));
}

/* Whole blocks become holes. */
static int punch_blocks(struct op *o, uint64_t first, uint64_t end)
{
	int err = node_allow_holes(o);

	return err ? err : allocate_at(o, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, page_at(first), page_at(end - first));
}

static int zero_range(struct op *o, uint64_t from, uint64_t to, uint64_t now)
{
	uint64_t first, end;
	int err = 0;

	to = to < now ? to : now;
	first = up_to_block(from);
	if (from < to && from < first)
		err = write_zeros(o, from, (to < first ? to : first) - from);
	end = to / BLOCK * BLOCK;
	if (!err && first < end)
		err = punch_blocks(o, first / BLOCK, end / BLOCK);
	if (!err && to > end && end >= first)
		err = write_zeros(o, end, to - end);
	return err;
}

static int lengthen(struct op *o, uint64_t size)
{
	int err = prepare_size(o, size);

	return err ? err : set_size(o, size);
}

static int allocate(struct op *o, const struct fallocate_in *in)
{
	uint64_t now, end = in->offset + in->length, first = in->offset / BLOCK;
	int err = turn_size(o, &now);

	if (!err)
		err = may_change(o);
	if (!err && in->mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
		err = zero_range(o, in->offset, end, now);
	/* What has been promised to be there is taken before the file grows into it. */
	if (!err && !(in->mode & FALLOC_FL_PUNCH_HOLE))
		err = allocate_at(o, FALLOC_FL_KEEP_SIZE, page_at(first), page_at(up_to_block(end) / BLOCK - first));
	if (!err && !(in->mode & FALLOC_FL_KEEP_SIZE) && end > now)
		err = lengthen(o, end);
	return err;
}

static int allocate_once(struct op *o, const struct fallocate_in *in)
{
	int err = turn_take(o);

	if (err)
		return err;
	turn_forget_tail(o);
	err = allocate(o, in);
	turn_forget_tail(o);
	turn_give(o);
	return err;
}

static int allocate_in_turn(struct op *o, const struct fallocate_in *in)
{
	unsigned tries = 0;
	int err;

	do
		err = allocate_once(o, in);
	while (err && o->again && ++tries < TURNS);
	return err;
}

int crypt_fallocate(struct request *rq, struct xlator *x, const struct fallocate_in *in, struct fallocate_out *out)
{
	static const uint32_t known = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
	struct op o = op_on(rq, x, in->file->inode, node_of(x, in->file->inode));
	int err = o.n ? file_for_both(rq, x, in->file, &o.file) : -ENOMEM;

	(void)out;
	if (!err && in->mode & ~known)
		err = -EOPNOTSUPP;
	if (!err && (in->offset >> SIZE_MAX_BITS || in->length > (1ull << SIZE_MAX_BITS) - in->offset))
		err = -EFBIG;
	if (!err && !in->length)
		err = -EINVAL;
	if (!err && (in->file->flags & O_ACCMODE) == O_RDONLY)
		err = -EBADF;
	return tampered(&o, err ? err : allocate_in_turn(&o, in));
}
