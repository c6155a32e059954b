/* SPDX-License-Identifier: Apache-2.0 */
/* sim/disk: objects, as inodes know them and as handles name them. */
#include "disk-xlator.h"

struct disk_object *disk_object_of(struct sim_disk *p, const struct inode *inode)
{
	return inode ? disk_find(p->disk, &inode->gfid) : NULL;
}

void disk_put_attr(struct sim_disk *p, const struct attr *a)
{
	disk_change(p->disk, &(struct disk_change){ .kind = CHANGE_ATTR, .gfid = a->gfid, .attr = *a });
}

void disk_touch(struct sim_disk *p, struct disk_object *o)
{
	struct attr a = o->attr;

	a.ctime = time_now();
	a.mtime = p->rq->time_ns ? change_time(&o->changed, p->rq, NULL) : a.ctime;
	disk_put_attr(p, &a);
}

void disk_set_links(struct sim_disk *p, struct disk_object *o, uint32_t nlink)
{
	struct attr a = o->attr;

	a.nlink = nlink;
	a.ctime = time_now();
	disk_put_attr(p, &a);
}

/* Something is known of the inode: it is to tell when it goes. */
static struct inode *inode_of(struct sim_disk *p, const struct disk_object *o)
{
	struct inode *inode = inode_get(p->x->inodes, &o->attr.gfid, o->attr.mode & S_IFMT);

	if (inode && !inode_slot(inode, p->x))
		inode_slot_set(inode, p->x, p);
	return inode;
}

void disk_free_if_gone(struct sim_disk *p, const struct gfid *g)
{
	struct disk_object *o = disk_find(p->disk, g);

	if (!o || o->attr.nlink)
		return;
	disk_change(p->disk, &(struct disk_change){ .kind = CHANGE_FREE, .gfid = *g, .offset = o->serial });
	disk_commit(p->disk);
}

void disk_attr_of(const struct disk_object *o, struct attr *a)
{
	*a = o->attr;
	a->blocks = (a->size + 511) / 512;
}

int disk_give(struct sim_disk *p, struct disk_object *o, struct inode **inode, struct attr *attr)
{
	*inode = inode_of(p, o);
	disk_attr_of(o, attr);
	return *inode ? 0 : -ESTALE;
}

/* ---- handles ---- */

struct disk_handle {
	struct gfid gfid;
	uint64_t serial;
};

int disk_inode_handle(struct xlator *x, struct inode *inode, void *bytes, size_t *size)
{
	const struct disk_object *o = disk_object_of(x->private, inode);
	struct disk_handle h;

	if (!o)
		return -ESTALE;
	h = (struct disk_handle){ inode->gfid, o->serial };
	memcpy(bytes, &h, sizeof(h));
	*size = sizeof(h);
	return 0;
}

int disk_inode_from_handle(struct xlator *x, const void *bytes, size_t size, struct inode **inode)
{
	struct sim_disk *p = x->private;
	const struct disk_object *o;
	struct disk_handle h;

	if (size != sizeof(h))
		return -ESTALE;
	memcpy(&h, bytes, sizeof(h));
	o = disk_find(p->disk, &h.gfid);
	if (!o || o->serial != h.serial)
		return -ESTALE;
	*inode = inode_of(p, o);
	return *inode ? 0 : -ESTALE;
}
