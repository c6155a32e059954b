/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and making files. Who writes a part of a block must read the block: so a file that is only to be written is opened for both, and if
 * the caller may not read it, a companion is opened with the root's rights for the translator itself. */
#include <fcntl.h>

#include "born.h"
#include "crypt.h"

int open_own(struct request *rq, struct xlator *x, struct inode *inode, uint32_t flags, struct file **file)
{
	struct open_in in = { .inode = inode, .flags = O_RDWR | flags };
	struct open_out out = { 0 };
	struct who was = become_root(rq);
	int err = open_on(rq, x->child[0], &in, &out);

	become(rq, was);
	*file = out.file;
	return err;
}

void close_own(struct request *rq, struct xlator *x, struct file *file)
{
	struct release_in in = { .file = file };
	struct release_out out = { 0 };

	hold_file_closes(rq, x, file);
	release_on(rq, x->child[0], &in, &out);
	file_unref(file);
}

void crypt_forget_file(struct xlator *x, struct file *file, void *slot)
{
	(void)x;
	(void)file;
	file_unref(slot);
}

static int add_companion(struct request *rq, struct xlator *x, struct file *file)
{
	struct file *both;
	/* All writes go through it: those of a synchronous file must be durable. */
	int err = open_own(rq, x, file->inode, file->flags & (O_SYNC | O_DSYNC), &both);

	if (err)
		return err;
	err = file_slot_set(file, x, both);
	if (err)
		close_own(rq, x, both);
	return err == -EEXIST ? 0 : err; /* another request was faster */
}

/* After a graph switch the new graph's translator has no companion yet. */
int file_for_both(struct request *rq, struct xlator *x, struct file *file, struct file **both)
{
	int err = 0;

	if ((file->flags & O_ACCMODE) == O_WRONLY && !file_slot(file, x))
		err = add_companion(rq, x, file);
	*both = file_slot(file, x) ?: file;
	return err;
}

static uint32_t flags_below(uint32_t flags)
{
	flags &= ~(uint32_t)(O_TRUNC | O_APPEND | O_DIRECT);
	return (flags & O_ACCMODE) == O_WRONLY ? (flags & ~(uint32_t)O_ACCMODE) | O_RDWR : flags;
}

static bool only_writes(uint32_t flags)
{
	return (flags & O_ACCMODE) == O_WRONLY;
}

static int open_below(struct request *rq, struct xlator *x, const struct open_in *in, struct open_out *out)
{
	struct open_in below = { .inode = in->inode, .flags = flags_below(in->flags) };
	int err = open_on(rq, x->child[0], &below, out);

	if (err != -EACCES || !only_writes(in->flags))
		return err;
	below.flags = (below.flags & ~(uint32_t)O_ACCMODE) | O_WRONLY;
	return open_on(rq, x->child[0], &below, out);
}

/* An opened file whose opening has failed after all. */
static int give_up(struct request *rq, struct xlator *x, struct file *file, int err)
{
	struct release_in in = { .file = file };
	struct release_out out = { 0 };

	if (err)
		crypt_release(rq, x, &in, &out);
	return err;
}

/* The companion, and what O_TRUNC asks for. */
static int complete(struct request *rq, struct xlator *x, struct file *file, uint32_t flags, bool truncate, struct attr *attr)
{
	struct file *both;
	int err = file_for_both(rq, x, file, &both);

	if (!err && truncate && flags & O_TRUNC)
		err = truncate_opened(rq, x, file->inode, file, attr);
	return give_up(rq, x, file, err);
}

int crypt_open(struct request *rq, struct xlator *x, const struct open_in *in, struct open_out *out)
{
	int err = open_below(rq, x, in, out);

	if (err)
		return err;
	err = complete(rq, x, out->file, in->flags, true, NULL);
	if (err)
		fop_out_clear(FOP_open, out);
	return err;
}

int crypt_release(struct request *rq, struct xlator *x, const struct release_in *in, struct release_out *out)
{
	struct file *both = file_slot_take(in->file, x);

	hold_file_closes(rq, x, in->file);
	if (both)
		close_own(rq, x, both);
	return release_on(rq, x->child[0], in, out);
}

/* ---- making ---- */

/* The header comes into being with the file. The key is the caller's. */
static int born_with_key(struct request *rq, struct xlator *x, const struct gfid *gfid, struct file_key **key)
{
	struct crypt *c = crypt_of(x);
	struct file_key *fresh = key_take(c);
	uint8_t bytes[HEADER_SIZE];
	struct born_xattr header = { HEADER_XATTR, bytes, HEADER_SIZE };
	int err;

	if (!fresh)
		return -ENOMEM;
	fresh->id = *gfid;
	fresh->cipher = (uint8_t)(c->cipher + 1);
	err = file_key_create(c->keys, fresh);
	if (!err)
		err = header_encode(c->keys, fresh, bytes);
	if (!err)
		err = born_attach(rq, &header, 1);
	if (err)
		key_give(c, fresh);
	else
		*key = fresh;
	return err;
}

/* What was there already has a key of its own; and what cluster/dht has made with another gfid gets one when it is first written. */
static void keep_key(struct xlator *x, struct inode *inode, const struct gfid *wanted, struct file_key *key, uint64_t since)
{
	struct node *n = inode && gfid_equal(&inode->gfid, wanted) ? node_of(x, inode) : NULL;

	if (n) {
		n->born_at = since;
		atomic_store(&n->born, true);
		node_set_key(crypt_of(x), n, key);
	} else {
		key_give(crypt_of(x), key);
	}
}

static int create_below(struct request *rq, struct xlator *x, const struct create_in *in, struct create_out *out)
{
	struct create_in below = *in;
	int err;

	below.flags = flags_below(in->flags);
	err = create_on(rq, x->child[0], &below, out);
	if (err != -EACCES || !only_writes(in->flags))
		return err;
	below.flags = (below.flags & ~(uint32_t)O_ACCMODE) | O_WRONLY;
	return create_on(rq, x->child[0], &below, out);
}

static int create_sealed(struct request *rq, struct xlator *x, const struct create_in *in, struct create_out *out)
{
	uint64_t since = moment_now(x->child[0]);
	struct file_key *key;
	int err = born_with_key(rq, x, &in->gfid, &key);

	if (err)
		return err;
	err = create_below(rq, x, in, out);
	born_attach(rq, NULL, 0);
	keep_key(x, err ? NULL : out->inode, &in->gfid, key, since);
	return err;
}

int crypt_create(struct request *rq, struct xlator *x, const struct create_in *in, struct create_out *out)
{
	struct create_in below = *in;
	struct sealed_loc sealed;
	int err = loc_seal(x, &in->loc, &sealed);

	below.loc = sealed.loc;
	if (!err)
		err = create_sealed(rq, x, &below, out);
	if (err)
		return err;
	attr_translate(&out->attr);
	err = complete(rq, x, out->file, in->flags, !gfid_equal(&out->inode->gfid, &in->gfid), &out->attr);
	if (err)
		fop_out_clear(FOP_create, out);
	return err;
}

int crypt_mknod(struct request *rq, struct xlator *x, const struct mknod_in *in, struct mknod_out *out)
{
	bool regular = S_ISREG(in->mode) || !(in->mode & S_IFMT);
	uint64_t since = moment_now(x->child[0]);
	struct mknod_in below = *in;
	struct sealed_loc sealed;
	struct file_key *key = NULL;
	int err = loc_seal(x, &in->loc, &sealed);

	below.loc = sealed.loc;
	if (!err && regular)
		err = born_with_key(rq, x, &in->gfid, &key);
	if (err)
		return err;
	err = mknod_on(rq, x->child[0], &below, out);
	if (regular) {
		born_attach(rq, NULL, 0);
		keep_key(x, err ? NULL : out->inode, &in->gfid, key, since);
	}
	if (!err)
		attr_translate(&out->attr);
	return err;
}
