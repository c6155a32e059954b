/* SPDX-License-Identifier: Apache-2.0 */
/* Names, targets of symbolic links, and sizes in attributes. */
#include "crypt.h"

void attr_translate(struct attr *a)
{
	if (S_ISREG(a->mode))
		a->size = size_of_contents(a->size);
	else if (S_ISLNK(a->mode))
		a->size = target_size(a->size);
}

int loc_seal(struct xlator *x, const struct loc *loc, struct sealed_loc *s)
{
	s->loc = *loc;
	if (!loc->name)
		return 0;
	s->loc.name = s->name;
	return loc->parent ? name_seal(crypt_of(x)->keys, &loc->parent->gfid, loc->name, s->name) : -EINVAL;
}

int crypt_lookup(struct request *rq, struct xlator *x, const struct lookup_in *in, struct lookup_out *out)
{
	struct sealed_loc sealed;
	struct lookup_in below;
	int err = loc_seal(x, &in->loc, &sealed);

	below.loc = sealed.loc;
	if (!err)
		err = lookup_on(rq, x->child[0], &below, out);
	if (!err)
		attr_translate(&out->attr);
	return err;
}

int crypt_getattr(struct request *rq, struct xlator *x, const struct getattr_in *in, struct getattr_out *out)
{
	int err = getattr_on(rq, x->child[0], in, out);

	if (!err)
		attr_translate(&out->attr);
	return err;
}

int crypt_mkdir(struct request *rq, struct xlator *x, const struct mkdir_in *in, struct mkdir_out *out)
{
	struct mkdir_in below = *in;
	struct sealed_loc sealed;
	int err = loc_seal(x, &in->loc, &sealed);

	below.loc = sealed.loc;
	return err ? err : mkdir_on(rq, x->child[0], &below, out);
}

int crypt_unlink(struct request *rq, struct xlator *x, const struct unlink_in *in, struct unlink_out *out)
{
	struct sealed_loc sealed;
	int err = loc_seal(x, &in->loc, &sealed);
	struct unlink_in below = { sealed.loc };

	return err ? err : unlink_on(rq, x->child[0], &below, out);
}

int crypt_rmdir(struct request *rq, struct xlator *x, const struct rmdir_in *in, struct rmdir_out *out)
{
	struct sealed_loc sealed;
	int err = loc_seal(x, &in->loc, &sealed);
	struct rmdir_in below = { sealed.loc };

	return err ? err : rmdir_on(rq, x->child[0], &below, out);
}

int crypt_rename(struct request *rq, struct xlator *x, const struct rename_in *in, struct rename_out *out)
{
	struct sealed_loc from, to;
	int err = loc_seal(x, &in->from, &from);
	struct rename_in below = { .from = from.loc, .flags = in->flags };

	if (!err)
		err = loc_seal(x, &in->to, &to);
	if (err)
		return err;
	below.to = to.loc;
	return rename_on(rq, x->child[0], &below, out);
}

int crypt_link(struct request *rq, struct xlator *x, const struct link_in *in, struct link_out *out)
{
	struct sealed_loc sealed;
	int err = loc_seal(x, &in->loc, &sealed);
	struct link_in below = { in->inode, sealed.loc };

	if (!err)
		err = link_on(rq, x->child[0], &below, out);
	if (!err)
		attr_translate(&out->attr);
	return err;
}

/* ---- symbolic links ---- */

static void log_refused(struct request *rq, struct xlator *x, const struct gfid *id, const char *why)
{
	char gfid[GFID_TEXT];

	atomic_fetch_add(&crypt_of(x)->refused, 1);
	log_error(x, rq, "%s: %s: it is refused (EIO)", gfid_text(id, gfid), why);
}

/* Its target is sealed for the gfid: were it made with another, nobody could read it. */
static int check_gfid(struct request *rq, struct xlator *x, const struct symlink_in *below, struct symlink_out *out)
{
	struct unlink_in in = { below->loc };
	struct unlink_out nothing = { 0 };

	if (gfid_equal(&out->inode->gfid, &below->gfid))
		return 0;
	unlink_on(rq, x->child[0], &in, &nothing);
	log_refused(rq, x, &out->inode->gfid, "a symbolic link was made with another gfid than it was to have");
	fop_out_clear(FOP_symlink, out);
	return -EIO;
}

int crypt_symlink(struct request *rq, struct xlator *x, const struct symlink_in *in, struct symlink_out *out)
{
	struct symlink_in below = *in;
	struct sealed_loc sealed;
	char *target = NULL;
	int err = loc_seal(x, &in->loc, &sealed);

	if (!err)
		err = target_seal(crypt_of(x)->keys, &in->gfid, in->target, &target);
	if (err)
		return err;
	below.loc = sealed.loc;
	below.target = target;
	err = symlink_on(rq, x->child[0], &below, out);
	if (!err)
		err = check_gfid(rq, x, &below, out);
	if (!err)
		attr_translate(&out->attr);
	free(target);
	return err;
}

int crypt_readlink(struct request *rq, struct xlator *x, const struct readlink_in *in, struct readlink_out *out)
{
	char *plain;
	int err = readlink_on(rq, x->child[0], in, out);

	if (err)
		return err;
	err = target_open(crypt_of(x)->keys, &in->inode->gfid, out->target, &plain);
	if (err == -EBADMSG) {
		log_refused(rq, x, &in->inode->gfid, "the target of a symbolic link was changed, or is that of another one");
		err = -EIO;
	}
	fop_out_clear(FOP_readlink, out);
	out->target = err ? NULL : plain;
	return err;
}

/* ---- directories ---- */

/* False: the entry is none of ours. */
static bool open_entry(struct xlator *x, const struct gfid *directory, struct dirent_plus *e)
{
	char name[NAME_ROOM], *copy;

	if (name_open(crypt_of(x)->keys, directory, e->name, name) || name_check(name) || !(copy = strdup(name)))
		return false;
	free(e->name);
	e->name = copy;
	if (e->inode)
		attr_translate(&e->attr);
	return true;
}

static void drop_entry(struct dirent_plus *e)
{
	free(e->name);
	inode_unref(e->inode);
}

static void log_hidden(struct request *rq, struct xlator *x, const struct gfid *directory, unsigned hidden)
{
	char gfid[GFID_TEXT];

	if (!atomic_fetch_add(&crypt_of(x)->hidden, hidden))
		log_warning(
			x, rq,
			"directory %s has names that are not sealed for it: they are hidden, and it can't be removed while they are there",
			gfid_text(directory, gfid));
}

/* Names that somebody else has put there. To fail would let a single one make the whole directory useless. */
static uint32_t open_entries(struct xlator *x, const struct gfid *directory, struct dirents *all)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < all->count; i++)
		if (open_entry(x, directory, &all->entry[i]))
			all->entry[kept++] = all->entry[i];
		else
			drop_entry(&all->entry[i]);
	return kept;
}

int crypt_readdir(struct request *rq, struct xlator *x, const struct readdir_in *in, struct readdir_out *out)
{
	const struct gfid *directory = &in->file->inode->gfid;
	struct readdir_in below = *in;
	uint32_t count, kept = 0;
	int err;

	do { /* until there is something to tell: nothing would mean the end */
		err = readdir_on(rq, x->child[0], &below, out);
		count = err ? 0 : out->entries.count;
		if (count)
			below.offset = out->entries.entry[count - 1].next_offset;
		kept = err ? 0 : open_entries(x, directory, &out->entries);
		if (kept < count)
			log_hidden(rq, x, directory, count - kept);
		out->entries.count = kept;
		if (!err && count && !kept && !out->entries.end)
			fop_out_clear(FOP_readdir, out);
	} while (!err && count && !kept && !out->entries.end);
	return err;
}

int crypt_statfs(struct request *rq, struct xlator *x, const struct statfs_in *in, struct statfs_out *out)
{
	int err = statfs_on(rq, x->child[0], in, out);

	if (!err)
		out->statfs.namemax = name_most(out->statfs.namemax);
	return err;
}
