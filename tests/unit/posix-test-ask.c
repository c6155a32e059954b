/* SPDX-License-Identifier: Apache-2.0 */
/* storage/posix: what tests ask of the brick, and its identities, read without the translator's code. */
#include "posix-test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

struct gfid fresh_gfid(void)
{
	struct gfid g;

	gfid_create(&g);
	return g;
}

int ask_make_file_as(struct request *rq, struct inode *parent, const char *name, mode_t mode, struct inode **inode,
		     struct file **file)
{
	struct create_in in = {
		.loc = { .parent = parent, .name = name }, .gfid = fresh_gfid(), .flags = O_RDWR | O_EXCL, .mode = mode
	};
	struct create_out out = { 0 };
	int err = create_on(rq, brick, &in, &out);

	if (err)
		return err;
	if (inode)
		*inode = inode_ref(out.inode);
	if (file)
		*file = file_ref(out.file);
	fop_out_clear(FOP_create, &out);
	return 0;
}

int ask_make_file(struct inode *parent, const char *name, struct inode **inode, struct file **file)
{
	REQUEST(q, 0);

	return ask_make_file_as(&q.r, parent, name, 0644, inode, file);
}

int ask_make_directory(struct inode *parent, const char *name, mode_t mode, struct inode **inode)
{
	REQUEST(q, 0);
	struct mkdir_in in = { .loc = { .parent = parent, .name = name }, .gfid = fresh_gfid(), .mode = mode };
	struct mkdir_out out = { 0 };
	int err = mkdir_on(&q.r, brick, &in, &out);

	if (!err && inode)
		*inode = inode_ref(out.inode);
	fop_out_clear(FOP_mkdir, &out);
	return err;
}

int ask_find(struct inode *parent, const char *name, struct inode **inode, struct attr *attr)
{
	REQUEST(q, 0);
	struct lookup_in in = { .loc = { .parent = parent, .name = name } };
	struct lookup_out out = { 0 };
	int err = lookup_on(&q.r, brick, &in, &out);

	if (!err && inode)
		*inode = inode_ref(out.inode);
	if (!err && attr)
		*attr = out.attr;
	fop_out_clear(FOP_lookup, &out);
	return err;
}

int ask_attr(struct inode *inode, struct file *file, struct attr *attr)
{
	REQUEST(q, 0);
	struct getattr_in in = { inode, file };
	struct getattr_out out = { 0 };
	int err = getattr_on(&q.r, brick, &in, &out);

	*attr = out.attr;
	return err;
}

int ask_set(struct request *rq, struct inode *inode, const struct setattr *s)
{
	struct setattr_in in = { .inode = inode, .set = *s };
	struct setattr_out out = { 0 };

	return setattr_on(rq, brick, &in, &out);
}

int ask_put(struct request *rq, struct file *file, uint64_t offset, uint32_t flags, const void *bytes, size_t size,
	    uint64_t *at)
{
	cleanup_buffer struct buffer *b = buffer_from(bytes, size);
	struct write_in in = { file, offset, flags, b };
	struct write_out out = { 0 };
	int err = write_on(rq, brick, &in, &out);

	if (at)
		*at = out.offset;
	return err ? err : (int)out.written;
}

int ask_get(struct file *file, uint64_t offset, void *bytes, uint32_t size)
{
	REQUEST(q, 0);
	struct read_in in = { file, offset, size };
	struct read_out out = { 0 };
	int err = read_on(&q.r, brick, &in, &out);

	if (!err) {
		err = (int)out.data->size;
		memcpy(bytes, out.data->data, out.data->size);
	}
	fop_out_clear(FOP_read, &out);
	return err;
}

int ask_drop(struct inode *parent, const char *name, bool directory)
{
	REQUEST(q, 0);
	struct unlink_in in = { { .parent = parent, .name = name } };
	struct rmdir_in rin = { { .parent = parent, .name = name } };
	struct unlink_out out;
	struct rmdir_out rout;

	return directory ? rmdir_on(&q.r, brick, &rin, &rout) : unlink_on(&q.r, brick, &in, &out);
}

int ask_move(struct request *rq, struct inode *from, const char *a, struct inode *to, const char *b, uint32_t flags,
	     struct inode *moved)
{
	struct rename_in in = { { .parent = from, .name = a, .inode = moved }, { .parent = to, .name = b }, flags };
	struct rename_out out;

	return rename_on(rq, brick, &in, &out);
}

int ask_link(struct request *rq, struct inode *inode, struct inode *parent, const char *name)
{
	struct link_in in = { inode, { .parent = parent, .name = name } };
	struct link_out out = { 0 };

	return link_on(rq, brick, &in, &out);
}

/* ---- the identity on disk ---- */

bool disk_read(const char *path, struct disk_identity *d)
{
	uint8_t bytes[4096];
	ssize_t n = lgetxattr(path, "trusted.sfs", bytes, sizeof bytes), at = 26;

	d->size = n;
	if (n < at || bytes[0] != 1)
		return false;
	d->more = bytes[1];
	memcpy(d->gfid.bytes, bytes + 2, 16);
	for (d->links = 0; at + 18 <= n && d->links < 64; d->links++) {
		struct disk_link *l = &d->link[d->links];

		memcpy(l->parent.bytes, bytes + at, 16);
		l->length = bytes[at + 16];
		memcpy(l->name, bytes + at + 18, bytes[at + 17]);
		l->name[bytes[at + 17]] = '\0';
		at += 18 + bytes[at + 17];
	}
	return at == n;
}

bool disk_has(const struct disk_identity *d, const struct inode *parent, const char *name)
{
	for (unsigned i = 0; i < d->links; i++)
		if (gfid_equal(&d->link[i].parent, &parent->gfid) && d->link[i].length == strlen(name) &&
		    !strncmp(d->link[i].name, name, strlen(d->link[i].name)))
			return true;
	return false;
}
