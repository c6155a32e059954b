/* SPDX-License-Identifier: Apache-2.0 */
/* A file that was moved has a name more, .stratus.dht/work/X/k.ID, for who has its stub open. Nobody sees it, so it is not counted, as long as it is there. */
#include <stdio.h>

#include "shard.h"

static int look(struct request *rq, struct xlator *x, struct inode *parent, const char *name, struct lookup_out *found)
{
	struct lookup_in in = { .loc = { .parent = parent, .name = name } };

	return lookup_on(rq, x->child[0], &in, found);
}

static int find_work(struct request *rq, struct xlator *x, const struct gfid *mover, struct inode **work)
{
	char last[4];
	const char *const way[] = { DHT_HIDDEN, "work", last };
	int err;

	snprintf(last, sizeof(last), "%x", work_of(mover));
	*work = inode_get(x->inodes, request_top(rq), S_IFDIR);
	err = *work ? 0 : -ENOMEM;
	for (unsigned i = 0; i < sizeof(way) / sizeof(*way) && !err; i++) {
		struct lookup_out found = { 0 };

		err = look(rq, x, *work, way[i], &found);
		inode_unref(*work);
		*work = err ? NULL : inode_ref(found.inode);
		fop_out_clear(FOP_lookup, &found);
	}
	return err;
}

/* The count, as it was while the object had that name: it is never made again, so if it is there afterwards, too, it was among those that were counted. -ENOENT: it
 * has it not, or not any more. */
static int count_with(struct request *rq, struct xlator *x, struct inode *work, const struct gfid *mover,
		      const struct inode *inode, uint32_t *links)
{
	char name[HIDDEN_NAME];
	int err = 0;

	for (int looks = 0; looks < 2 && !err; looks++) {
		struct lookup_out found = { 0 };

		err = look(rq, x, work, kept_name(mover, name), &found);
		if (!err && !gfid_equal(&found.inode->gfid, &inode->gfid))
			err = -ENOENT;
		if (!err && !looks)
			*links = found.attr.nlink;
		fop_out_clear(FOP_lookup, &found);
	}
	return err;
}

/* -ENOENT: that name has gone, and what was counted may be older than that. */
static int count_without(struct request *rq, struct xlator *x, struct inode *inode, const struct gfid *mover, uint32_t *links)
{
	cleanup_inode struct inode *work = NULL;
	int err = find_work(rq, x, mover, &work);

	if (!err)
		err = count_with(rq, x, work, mover, inode, links);
	if (err != -ENOENT)
		*links -= *links > 1; /* if it is the only one the object is open, or about to go */
	return err;
}

/* Where nobody can look the name is taken to be there. */
void kept_leave_out(struct request *rq, struct xlator *x, struct inode *inode, const struct facts *f, struct attr *attr)
{
	struct getattr_in in = { .inode = inode };
	struct getattr_out out = { 0 };
	uid_t uid = rq->uid;

	if (gfid_is_null(&f->keeper)) {
		attr->nlink -= attr->nlink > 1;
		return;
	}
	rq->uid = 0;
	if (count_without(rq, x, inode, &f->keeper, &attr->nlink) == -ENOENT && !getattr_on(rq, x->child[0], &in, &out))
		attr->nlink = out.attr.nlink;
	rq->uid = uid;
}
