/* SPDX-License-Identifier: Apache-2.0 */
/* test/handles: as a connection to a brick, it can name only such objects as it was told of, as long as somebody refers to their inodes, and such files as
 * were opened there. */
#include "xlator.h"

static bool is_told(struct xlator *x, struct inode *inode)
{
	return !inode || gfid_equal(&inode->gfid, &gfid_root) || inode_slot(inode, x);
}

static bool names_told(struct xlator *x, const struct loc *loc)
{
	return is_told(x, loc->parent && loc->name ? loc->parent : loc->inode);
}

static bool all_told(struct xlator *x, enum fop fop, const void *in)
{
	bool yes = true;

	for (const struct field *f = fop_info[fop].in; f->name; f++) {
		const void *at = (const char *)in + f->offset;

		if (f->kind == FIELD_LOC)
			yes &= names_told(x, at);
		else if (f->kind == FIELD_INODE)
			yes &= is_told(x, *(struct inode *const *)at);
	}
	return yes;
}

static bool all_opened(struct xlator *x, enum fop fop, const void *in)
{
	bool yes = true;

	for (const struct field *f = fop_info[fop].in; f->name; f++) {
		struct file *file = f->kind == FIELD_FILE ? *(struct file *const *)((const char *)in + f->offset) : NULL;

		yes &= !file || file_slot(file, x);
	}
	return yes;
}

static void tell(struct xlator *x, struct inode *inode)
{
	if (inode)
		inode_slot_set(inode, x, x); /* -EEXIST: it was told before */
}

static void tell_of(struct xlator *x, enum fop fop, const void *out)
{
	for (const struct field *f = fop_info[fop].out; f->name; f++) {
		const void *at = (const char *)out + f->offset;
		const struct dirents *list = at;

		if (f->kind == FIELD_INODE)
			tell(x, *(struct inode *const *)at);
		if (f->kind == FIELD_FILE && *(struct file *const *)at)
			file_slot_set(*(struct file *const *)at, x, x);
		for (uint32_t i = 0; f->kind == FIELD_DIRENTS && i < list->count; i++)
			tell(x, list->entry[i].inode);
	}
}

static int handles_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	int err = !all_told(x, fop, in) ? -ESTALE : !all_opened(x, fop, in) ? -EBADF : fop_pass(rq, x, fop, in, out);

	if (!err)
		tell_of(x, fop, out);
	return err;
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "test/handles",
	.summary = "names what it was told of",
	.min_children = 1,
	.max_children = 1,
	.any = handles_any,
};
