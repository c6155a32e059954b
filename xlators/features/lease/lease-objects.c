/* SPDX-License-Identifier: Apache-2.0 */
/* Of which objects an answer tells, and which ones an operation changes. */
#include <fcntl.h>

#include "fop.h"
#include "lease.h"

static void tell(lease_object *fn, void *arg, struct inode *inode)
{
	if (inode)
		fn(arg, inode);
}

/* Of fops whose `in` begins with inode and file. */
static struct inode *asked(const void *in)
{
	const struct getattr_in *a = in;

	return a->inode ? a->inode : a->file ? a->file->inode : NULL;
}

static void tell_listed(const struct dirents *list, lease_object *fn, void *arg)
{
	for (uint32_t i = 0; i < list->count; i++)
		tell(fn, arg, list->entry[i].inode);
}

void lease_taught(enum fop fop, const void *in, const void *out, lease_object *fn, void *arg)
{
	switch ((int)fop) {
	case FOP_getattr:
	case FOP_setattr:
		tell(fn, arg, asked(in));
		break;
	case FOP_lookup:
	case FOP_create:
	case FOP_mknod:
	case FOP_mkdir:
	case FOP_symlink:
		tell(fn, arg, ((const struct loc *)in)->parent); /* all begin with the loc, and what they give with the inode */
		tell(fn, arg, *(struct inode *const *)out);
		break;
	case FOP_link:
		tell(fn, arg, ((const struct link_in *)in)->inode);
		tell(fn, arg, ((const struct link_in *)in)->loc.parent);
		break;
	case FOP_readdir:
		tell(fn, arg, ((const struct readdir_in *)in)->file->inode);
		tell_listed(&((const struct readdir_out *)out)->entries, fn, arg);
		break;
	default:
		break;
	}
}

static void tell_loc(const struct loc *loc, lease_object *fn, void *arg)
{
	tell(fn, arg, loc->parent);
	tell(fn, arg, loc->inode);
}

void lease_changed(enum fop fop, const void *in, lease_object *fn, void *arg)
{
	switch ((int)fop) {
	case FOP_setattr:
		tell(fn, arg, asked(in));
		break;
	case FOP_setxattr: /* both begin with the inode; so does an open */
	case FOP_removexattr:
		tell(fn, arg, *(struct inode *const *)in);
		break;
	case FOP_open:
		if (((const struct open_in *)in)->flags & O_TRUNC)
			tell(fn, arg, ((const struct open_in *)in)->inode);
		break;
	case FOP_write:
	case FOP_fallocate: /* both begin with the file */
		tell(fn, arg, (*(struct file *const *)in)->inode);
		break;
	case FOP_copy_range:
		tell(fn, arg, ((const struct copy_range_in *)in)->to->inode);
		break;
	case FOP_create:
	case FOP_mknod:
	case FOP_mkdir:
	case FOP_symlink:
	case FOP_unlink:
	case FOP_rmdir:
		tell_loc(in, fn, arg);
		break;
	case FOP_rename:
		tell_loc(&((const struct rename_in *)in)->from, fn, arg);
		tell_loc(&((const struct rename_in *)in)->to, fn, arg);
		break;
	case FOP_link:
		tell(fn, arg, ((const struct link_in *)in)->inode);
		tell(fn, arg, ((const struct link_in *)in)->loc.parent);
		break;
	default:
		break;
	}
}

bool lease_changes_meta(enum fop fop, const void *in)
{
	if (fop == FOP_setattr)
		return ((const struct setattr_in *)in)->set.valid & (SET_MODE | SET_UID | SET_GID | SET_SIZE | SET_KILL_PRIV);
	/* Data take S_ISUID away. What is made says nothing of the directory's. */
	return fop == FOP_setxattr || fop == FOP_removexattr || fop == FOP_write || fop == FOP_fallocate ||
	       fop == FOP_copy_range;
}
