/* SPDX-License-Identifier: Apache-2.0 */
/* The copy of a file that is brought home: data with their holes, extended attributes, owner, mode, times. What is written bears the mark of who copies: if others
 * have ended his work, nothing of it is done any more. */
#include "dht.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 1 << 20 };

struct copying {
	struct request *rq;
	struct dht *d;
	const struct intent *it;
	struct inode *inode; /* of both */
	struct file *from, *to;
	const struct throttle *throttle;
};

static struct xlator *source(const struct copying *c)
{
	return c->d->x->child[c->it->side[0].aim.child];
}

static struct xlator *target(const struct copying *c)
{
	return c->d->x->child[c->it->side[0].child];
}

static int as_reader(const struct copying *c)
{
	return place_say(c->rq, c->d, &(struct place){ 0 });
}

static int as_writer(const struct copying *c)
{
	return place_say(c->rq, c->d,
			 &(struct place){ .flags = PLACE_POINTER, .intent = c->it->id, .attempt = attempt_of(c->it) });
}

/* ---- data ---- */

static int open_both(struct copying *c)
{
	struct open_in from = { .inode = c->inode, .flags = O_RDONLY }, to = { .inode = c->inode, .flags = O_RDWR };
	struct open_out out = { 0 };
	int err = as_reader(c);

	if (!err)
		err = open_on(c->rq, source(c), &from, &out);
	if (err)
		return err;
	c->from = out.file;
	out = (struct open_out){ 0 };
	err = as_writer(c);
	if (!err)
		err = open_on(c->rq, target(c), &to, &out);
	c->to = out.file;
	return err;
}

static void let_go(struct copying *c, struct xlator *at, struct file *file)
{
	struct release_in in = { .file = file };
	struct release_out out = { 0 };

	if (file)
		release_on(c->rq, at, &in, &out);
	file_unref(file);
}

static int set_size(struct copying *c, uint64_t size)
{
	struct setattr_in in = { .inode = c->inode, .file = c->to, .set = { .valid = SET_SIZE, .size = size } };
	struct setattr_out out = { 0 };
	int err = as_writer(c);

	return err ? err : setattr_on(c->rq, target(c), &in, &out);
}

/* Where the next data begin; the same place if that can't be told. -ENXIO: there are none. */
static int next_data(struct copying *c, uint64_t *at)
{
	struct seek_in in = { .file = c->from, .offset = *at, .whence = SEEK_DATA };
	struct seek_out out = { 0 };
	int err = as_reader(c);

	if (!err)
		err = seek_on(c->rq, source(c), &in, &out);
	if (!err && out.offset > *at)
		*at = out.offset;
	return err == -EOPNOTSUPP || err == -EINVAL || err == -ENOSYS ? 0 : err;
}

/* Up to the next hole, if that can be told. */
static uint32_t piece_at(struct copying *c, uint64_t at)
{
	struct seek_in in = { .file = c->from, .offset = at, .whence = SEEK_HOLE };
	struct seek_out out = { 0 };

	if (as_reader(c) || seek_on(c->rq, source(c), &in, &out) || out.offset <= at || out.offset - at > PIECE)
		return PIECE;
	return (uint32_t)(out.offset - at);
}

static bool is_zero(const struct buffer *b)
{
	const unsigned char *at = (const unsigned char *)b->data;

	return !b->size || (!at[0] && !memcmp(at, at + 1, b->size - 1));
}

/* It may take only a part of it. */
static int write_piece(struct copying *c, uint64_t offset, struct buffer *data)
{
	struct write_in in = { .file = c->to, .offset = offset, .data = data };
	struct write_out out = { 0 };
	int err = as_writer(c);

	if (!err)
		err = write_on(c->rq, target(c), &in, &out);
	return err ? err : out.written < data->size ? -ENOSPC : 0;
}

/* *at: where to go on; the end, where nothing was read. */
static int copy_piece(struct copying *c, uint64_t *at, bool *end)
{
	struct read_in in = { .file = c->from, .offset = *at, .size = piece_at(c, *at) };
	struct read_out out = { 0 };
	int err = as_reader(c);

	if (!err)
		err = read_on(c->rq, source(c), &in, &out);
	if (err)
		return err;
	*end = !out.data || !out.data->size;
	if (!*end && !is_zero(out.data))
		err = write_piece(c, *at, out.data);
	if (!*end)
		*at += out.data->size;
	if (!err && c->throttle && !*end)
		err = c->throttle->pass(c->throttle->arg, out.data->size);
	fop_out_clear(FOP_read, &out);
	return err;
}

static int file_size(struct copying *c, uint64_t *size)
{
	struct getattr_in in = { .inode = c->inode };
	struct getattr_out out = { 0 };
	int err = as_reader(c);

	if (!err)
		err = getattr_on(c->rq, source(c), &in, &out);
	*size = out.attr.size;
	return err;
}

static int copy_all(struct copying *c)
{
	uint64_t at = 0, size;
	bool end = false;
	int err = set_size(c, 0); /* of an earlier copy nothing stays, also where there is a hole now */

	while (!err && !end) {
		err = next_data(c, &at);
		if (err == -ENXIO)
			break;
		if (!err)
			err = copy_piece(c, &at, &end);
	}
	if (err && err != -ENXIO)
		return err;
	err = file_size(c, &size);
	return err ? err : set_size(c, size);
}

int copy_data(struct request *rq, struct dht *d, const struct intent *it, struct inode *inode, const struct throttle *throttle)
{
	struct copying c = { rq, d, it, inode, NULL, NULL, throttle };
	int err = open_both(&c);

	if (!err)
		err = copy_all(&c);
	let_go(&c, source(&c), c.from);
	let_go(&c, target(&c), c.to);
	place_say(rq, d, &(struct place){ 0 });
	return err;
}

/* ---- extended attributes ---- */

/* What is said of the one object only. An ACL has a way of its own. */
static bool is_to_be_copied(const char *name)
{
	uint64_t hash;

	return strcmp(name, DHT_POINTER_XATTR) && strcmp(name, DHT_KEPT_XATTR) && !is_mark(name, &hash) &&
	       strncmp(name, "system.", 7) != 0;
}

static int list(struct copying *c, bool of_copy, struct listxattr_out *out)
{
	struct listxattr_in in = { .inode = c->inode };
	int err = of_copy ? as_writer(c) : as_reader(c);

	*out = (struct listxattr_out){ 0 };
	if (!err)
		err = listxattr_on(c->rq, of_copy ? target(c) : source(c), &in, out);
	return err == -EOPNOTSUPP ? 0 : err;
}

static int copy_xattr(struct copying *c, const char *name)
{
	struct getxattr_in in = { .inode = c->inode, .name = (char *)name };
	struct getxattr_out out = { 0 };
	struct setxattr_in set = { .inode = c->inode, .name = (char *)name };
	struct setxattr_out done = { 0 };
	int err = as_reader(c);

	if (!err)
		err = getxattr_on(c->rq, source(c), &in, &out);
	set.value = out.value;
	if (!err)
		err = as_writer(c);
	if (!err)
		err = setxattr_on(c->rq, target(c), &set, &done);
	fop_out_clear(FOP_getxattr, &out);
	return err;
}

/* The brick knows it, though it does not list it. */
static int copy_acl(struct copying *c)
{
	int err = copy_xattr(c, "system.posix_acl_access");

	return err == -ENODATA || err == -EOPNOTSUPP ? 0 : err;
}

static int copy_xattrs(struct copying *c)
{
	struct listxattr_out names;
	int err = list(c, false, &names);
	const char *at = NULL;

	while (!err && (at = blob_next_name(&names.names, at)))
		if (is_to_be_copied(at))
			err = copy_xattr(c, at);
	fop_out_clear(FOP_listxattr, &names);
	return err ? err : copy_acl(c);
}

/* ---- those of a directory whose home moves ---- */

static int say_here(struct request *rq, struct dht *d)
{
	return place_say(rq, d, &(struct place){ .flags = PLACE_HERE });
}

static bool is_of_directory(const char *name)
{
	return strncmp(name, DHT_XATTR, sizeof(DHT_XATTR) - 1) != 0 && strncmp(name, "system.", 7) != 0;
}

static int list_at(struct request *rq, struct xlator *at, struct inode *dir, struct listxattr_out *out)
{
	struct listxattr_in in = { .inode = dir };
	int err;

	*out = (struct listxattr_out){ 0 };
	err = listxattr_on(rq, at, &in, out);
	return err == -EOPNOTSUPP ? 0 : err;
}

static int copy_one(struct request *rq, struct xlator *from, struct xlator *to, struct inode *dir, const char *name)
{
	struct getxattr_in in = { .inode = dir, .name = name };
	struct getxattr_out out = { 0 };
	struct setxattr_in set = { .inode = dir, .name = name };
	struct setxattr_out done = { 0 };
	int err = getxattr_on(rq, from, &in, &out);

	set.value = out.value;
	if (!err)
		err = setxattr_on(rq, to, &set, &done);
	fop_out_clear(FOP_getxattr, &out);
	return err;
}

static int drop_one(struct request *rq, struct xlator *to, struct inode *dir, const char *name)
{
	struct removexattr_in in = { .inode = dir, .name = name };
	struct removexattr_out out = { 0 };

	return removexattr_on(rq, to, &in, &out);
}

/* All that the listing names is copied, or goes. */
static int each_listed(struct request *rq, struct dht *d, struct inode *dir, int listed, int from, int to)
{
	struct listxattr_out names;
	int err = list_at(rq, d->x->child[listed], dir, &names);
	const char *at = NULL;

	while (!err && (at = blob_next_name(&names.names, at)))
		if (is_of_directory(at))
			err = listed == from ? copy_one(rq, d->x->child[from], d->x->child[to], dir, at)
					     : drop_one(rq, d->x->child[to], dir, at);
	fop_out_clear(FOP_listxattr, &names);
	return err;
}

int copy_home(struct request *rq, struct dht *d, struct inode *dir, int from, int to)
{
	int err = place_say_in(rq, d, dir);

	if (!err)
		err = say_here(rq, d);
	if (!err)
		err = each_listed(rq, d, dir, to, from, to);
	if (!err)
		err = each_listed(rq, d, dir, from, from, to);
	place_say(rq, d, &(struct place){ 0 });
	return err;
}

/* ---- attributes ---- */

static int write_attributes(struct copying *c, const struct attr *a, uint32_t valid)
{
	struct setattr_in in = { .inode = c->inode,
				 .set = { .valid = valid,
					  .mode = a->mode & 07777,
					  .uid = a->uid,
					  .gid = a->gid,
					  .atime = a->atime,
					  .mtime = a->mtime } };
	struct setattr_out out = { 0 };
	int err = as_writer(c);

	return err ? err : setattr_on(c->rq, target(c), &in, &out);
}

static int sync_copy(struct copying *c)
{
	struct open_in in = { .inode = c->inode, .flags = O_RDWR };
	struct open_out out = { 0 };
	struct fsync_in sync = { 0 };
	struct fsync_out synced = { 0 };
	int err;

	if (!S_ISREG(c->inode->type)) /* can't be opened: but its mark is put on disk */
		return side_confirm(c->rq, c->d, c->it, SIDE_COPY);
	err = as_writer(c);
	if (!err)
		err = open_on(c->rq, target(c), &in, &out);
	sync.file = out.file;
	if (!err)
		err = fsync_on(c->rq, target(c), &sync, &synced);
	let_go(c, target(c), out.file);
	return err;
}

/* The mode after the owner and the ACL, which change it; capabilities go where data or the owner are changed, so xattrs come after these. */
int copy_rest(struct request *rq, struct dht *d, const struct intent *it, struct inode *inode)
{
	struct copying c = { .rq = rq, .d = d, .it = it, .inode = inode };
	struct getattr_in in = { .inode = inode };
	struct getattr_out out = { 0 };
	int err = as_reader(&c);

	if (!err)
		err = getattr_on(rq, source(&c), &in, &out);
	if (!err)
		err = write_attributes(&c, &out.attr, SET_UID | SET_GID);
	if (!err)
		err = copy_xattrs(&c);
	if (!err && !S_ISLNK(inode->type)) /* which has none */
		err = write_attributes(&c, &out.attr, SET_MODE);
	if (!err)
		err = write_attributes(&c, &out.attr, SET_ATIME | SET_MTIME);
	if (!err)
		err = sync_copy(&c);
	place_say(rq, d, &(struct place){ 0 });
	return err;
}
