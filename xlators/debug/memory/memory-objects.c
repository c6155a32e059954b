/* SPDX-License-Identifier: Apache-2.0 */
/* debug/memory: the table of objects, and what inodes know of them. */
#include "memory.h"

static struct object **bucket_of(struct memory *p, const struct gfid *gfid)
{
	return &p->bucket[(gfid->bytes[15] | gfid->bytes[14] << 8) % BUCKETS];
}

struct object *memory_object_new(struct memory *p, const struct gfid *gfid, mode_t mode)
{
	struct object *o = calloc(1, sizeof(*o));
	struct object **bucket = bucket_of(p, gfid);

	if (!o)
		return NULL;
	o->attr = (struct attr){ .gfid = *gfid, .mode = mode, .nlink = S_ISDIR(mode) ? 2 : 1, .blksize = 4096 };
	o->attr.atime = o->attr.mtime = o->attr.ctime = o->attr.btime = time_now();
	o->next = *bucket;
	*bucket = o;
	p->objects++;
	return o;
}

void memory_pair_free(struct pair **at)
{
	struct pair *pair = *at;

	*at = pair->next;
	free(pair->name);
	free(pair->value.bytes);
	free(pair);
}

void memory_entry_free(struct entry **at)
{
	struct entry *e = *at;

	*at = e->next;
	free(e->name);
	free(e);
}

void memory_object_free(struct memory *p, struct object *o)
{
	struct object **at = bucket_of(p, &o->attr.gfid);

	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	while (o->xattr)
		memory_pair_free(&o->xattr);
	while (o->entry)
		memory_entry_free(&o->entry);
	p->bytes -= S_ISREG(o->attr.mode) ? o->attr.size : 0;
	p->objects--;
	free(o->data);
	free(o);
}

struct object *memory_bearer(struct memory *p, const struct gfid *gfid)
{
	struct object *gone = NULL;

	for (struct object *o = *bucket_of(p, gfid); o; o = o->next) {
		if (!gfid_equal(&o->attr.gfid, gfid))
			continue;
		if (o->attr.nlink)
			return o;
		gone = o;
	}
	return gone;
}

/* An inode less knows it. (A second one of the same gfid may do so before the first is forgotten.) */
static void let_go(struct memory *p, struct object *o)
{
	o->known--;
	if (!o->known && !o->attr.nlink)
		memory_object_free(p, o);
}

struct object *memory_object_of(struct xlator *x, struct inode *inode)
{
	struct memory *p = x->private;
	struct object *was = inode_slot(inode, x), *o;

	if (was && was->attr.nlink)
		return was;
	o = memory_bearer(p, &inode->gfid);
	if (!o || o == was)
		return was;
	if (was) { /* it was removed, and made again with the same gfid */
		inode_slot_take(inode, x);
		let_go(p, was);
	}
	if (inode_slot_set(inode, x, o))
		return NULL;
	o->known++;
	return o;
}

static struct inode *inode_of(struct xlator *x, struct object *o)
{
	struct inode *inode = inode_get(x->inodes, &o->attr.gfid, o->attr.mode & S_IFMT);

	if (inode)
		memory_object_of(x, inode);
	return inode;
}

void memory_drop_link(struct memory *p, struct object *o)
{
	o->attr.nlink = S_ISDIR(o->attr.mode) ? 0 : o->attr.nlink - 1;
	o->attr.ctime = time_now();
	if (!o->attr.nlink && !o->known)
		memory_object_free(p, o);
}

void memory_forget_inode(struct xlator *x, struct inode *inode, void *slot)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *o = slot;

	(void)inode;
	let_go(p, o);
}

int memory_give(struct xlator *x, struct object *o, struct inode **inode, struct attr *attr)
{
	*inode = inode_of(x, o);
	*attr = o->attr;
	attr->blocks = (attr->size + 511) / 512;
	return *inode ? 0 : -ENOMEM;
}

void memory_touch(struct request *rq, struct object *o)
{
	o->attr.ctime = time_now();
	o->attr.mtime = rq->time_ns ? change_time(&o->changed, rq, NULL) : o->attr.ctime;
}
