/* SPDX-License-Identifier: Apache-2.0 */
/* /lost+found of the volume: there goes what has lost its name, as a mount would have linked it, so it is placed as everything is. */
#include "fsck.h"

#include <errno.h>
#include <string.h>

static int look_in(struct fsck *f, struct inode *dir, const char *name, struct lookup_out *out)
{
	struct lookup_in in = { .loc = { .parent = dir, .name = name } };
	int err = fsck_ask(f);

	return err ? err : lookup_on(f->rq, f->d->x, &in, out);
}

static int make_lost(struct fsck *f, struct inode *root)
{
	struct mkdir_in in = { .loc = { .parent = root, .name = LOST }, .mode = 0700 };
	struct mkdir_out out = { 0 };
	int err = fsck_ask(f);

	gfid_create(&in.gfid);
	if (!err)
		err = mkdir_on(f->rq, f->d->x, &in, &out);
	fop_out_clear(FOP_mkdir, &out);
	return err == -EEXIST ? 0 : err;
}

/* A reference in *dir. */
static int lost(struct fsck *f, struct inode **dir)
{
	cleanup_inode struct inode *root = root_of(f->d);
	struct lookup_out out = { 0 };
	int err = root ? look_in(f, root, LOST, &out) : -ENOMEM;

	if (err == -ENOENT) {
		err = make_lost(f, root);
		if (!err)
			err = look_in(f, root, LOST, &out);
	}
	if (!err && !S_ISDIR(out.attr.mode))
		err = -ENOTDIR;
	*dir = err ? NULL : inode_ref(out.inode);
	fop_out_clear(FOP_lookup, &out);
	return err;
}

/* It may have been rescued by an earlier run that was ended before it was done. */
static int is_there(struct fsck *f, struct inode *dir, const char *name, const struct gfid *gfid)
{
	struct lookup_out out = { 0 };
	int err = look_in(f, dir, name, &out);

	if (!err && !gfid_equal(&out.inode->gfid, gfid))
		err = -EEXIST;
	fop_out_clear(FOP_lookup, &out);
	return err;
}

int rescue_object(struct fsck *f, int child, struct inode *inode)
{
	cleanup_inode struct inode *dir = NULL;
	char name[GFID_TEXT];
	struct link_in in = { .inode = inode, .loc = { .name = gfid_text(&inode->gfid, name) } };
	struct link_out out = { 0 };
	int err = lost(f, &dir);

	in.loc.parent = dir;
	if (!err)
		err = note_place(f->d, inode, child, true);
	if (!err)
		err = fsck_ask(f);
	if (!err)
		err = link_on(f->rq, f->d->x, &in, &out);
	return err == -EEXIST ? is_there(f, dir, name, &inode->gfid) : err;
}

static int write_text(struct fsck *f, struct file *file, const char *text)
{
	struct write_in in = { .file = file, .data = buffer_from(text, strlen(text)) };
	struct write_out out = { 0 };
	struct fsync_in sync = { .file = file };
	struct fsync_out synced = { 0 };
	int err = in.data ? write_on(f->rq, f->d->x, &in, &out) : -ENOMEM;

	buffer_unref(in.data);
	return err ? err : fsync_on(f->rq, f->d->x, &sync, &synced);
}

int rescue_text(struct fsck *f, const struct suspect *s, const char *text)
{
	cleanup_inode struct inode *dir = NULL;
	const char *last = strrchr(s->path, '/') ? strrchr(s->path, '/') + 1 : s->path;
	char own[GFID_TEXT], name[NAME_MAX + 1];
	struct create_in in = { .loc = { .name = name }, .flags = O_CREAT | O_WRONLY | O_TRUNC, .mode = 0600 };
	struct create_out out = { 0 };
	struct release_out released = { 0 };
	int err = lost(f, &dir);

	snprintf(name, sizeof(name), "%.*s.%s", (int)(NAME_MAX - GFID_TEXT), last, gfid_text(&s->own, own));
	in.loc.parent = dir;
	gfid_create(&in.gfid);
	if (!err)
		err = fsck_ask(f);
	if (!err)
		err = create_on(f->rq, f->d->x, &in, &out);
	if (err)
		return err;
	err = write_text(f, out.file, text);
	release_on(f->rq, f->d->x, &(struct release_in){ .file = out.file }, &released);
	fop_out_clear(FOP_create, &out);
	return err;
}
