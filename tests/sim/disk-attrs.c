/* SPDX-License-Identifier: Apache-2.0 */
/* sim/disk: attributes and extended attributes. */
#include <sys/xattr.h>

#include "disk-xlator.h"
#include "location.h"

static struct disk_object *either(struct sim_disk *p, struct inode *inode, struct file *file)
{
	return disk_object_of(p, inode ? inode : file ? file->inode : NULL);
}

int disk_do_getattr(struct sim_disk *p, const void *args, void *result)
{
	const struct getattr_in *in = args;
	struct disk_object *o = either(p, in->inode, in->file);

	if (!o)
		return -ESTALE;
	disk_attr_of(o, &((struct getattr_out *)result)->attr);
	return 0;
}

static void set_times(struct sim_disk *p, struct disk_object *o, struct attr *a, const struct setattr *set)
{
	struct time given = p->rq->time_ns ? time_of_ns(p->rq->time_ns) : time_now();

	a->ctime = time_now();
	if (set->valid & SET_BIRTH && p->rq->time_ns)
		a->btime = time_of_ns(p->rq->time_ns);
	if (set->valid & (SET_ATIME | SET_ATIME_NOW))
		a->atime = set->valid & SET_ATIME_NOW ? given : set->atime;
	if (set->valid & SET_MTIME_NOW && !p->rq->time_ns)
		a->mtime = given;
	else if (set->valid & (SET_MTIME | SET_MTIME_NOW))
		a->mtime = change_time(&o->changed, p->rq, set->valid & SET_MTIME_NOW ? &given : &set->mtime);
}

static void set_plain(struct attr *a, const struct setattr *set)
{
	if (set->valid & (SET_KILL_PRIV | SET_UID | SET_GID) && S_ISREG(a->mode))
		a->mode &= ~(uint32_t)(S_ISUID | S_ISGID);
	if (set->valid & SET_MODE)
		a->mode = (a->mode & S_IFMT) | (set->mode & 07777);
	if (set->valid & SET_UID)
		a->uid = set->uid;
	if (set->valid & SET_GID)
		a->gid = set->gid;
}

int disk_do_setattr(struct sim_disk *p, const void *args, void *result)
{
	const struct setattr_in *in = args;
	struct disk_object *o = either(p, in->inode, in->file);
	struct attr a;

	if (!o)
		return -ESTALE;
	if (in->set.valid & SET_SIZE && !S_ISREG(o->attr.mode))
		return S_ISDIR(o->attr.mode) ? -EISDIR : -EINVAL;
	if (in->set.valid & SET_SIZE && in->set.size > DISK_FILE_MAX)
		return -EFBIG;
	if (in->set.valid & SET_SIZE && in->set.size > o->attr.size && disk_faults(p->disk)->full)
		return -ENOSPC;
	if (in->set.valid & SET_SIZE)
		disk_resize(p, o, in->set.size);
	a = o->attr;
	set_plain(&a, &in->set);
	set_times(p, o, &a, &in->set);
	disk_put_attr(p, &a);
	disk_attr_of(o, &((struct setattr_out *)result)->attr);
	return 0;
}

static struct disk_pair *pair_of(struct disk_object *o, const char *name)
{
	struct disk_pair *x = o->xattr;

	while (x && strcmp(x->name, name))
		x = x->next;
	return x;
}

int disk_do_setxattr(struct sim_disk *p, const void *args, void *result)
{
	const struct setxattr_in *in = args;
	struct disk_object *o = disk_object_of(p, in->inode);
	struct disk_pair *x = o ? pair_of(o, in->name) : NULL;

	(void)result;
	if (!o)
		return -ESTALE;
	if (x ? in->flags & XATTR_CREATE : in->flags & XATTR_REPLACE)
		return x ? -EEXIST : -ENODATA;
	if (disk_faults(p->disk)->full)
		return disk_has_no_room(p);
	disk_change(p->disk, &(struct disk_change){ .kind = CHANGE_XATTR,
						    .gfid = o->attr.gfid,
						    .name = in->name,
						    .bytes = in->value.size ? in->value.bytes : "",
						    .size = in->value.size });
	disk_set_links(p, o, o->attr.nlink);
	return 0;
}

static bool find_below(struct sim_disk *p, const struct gfid *dir, const struct gfid *gfid, char *path, size_t room)
{
	const struct disk_object *d = disk_find(p->disk, dir);

	for (const struct disk_entry *e = d ? d->entry : NULL; e; e = e->next) {
		int n = snprintf(path, room, "/%s", e->name);

		if (gfid_equal(&e->gfid, gfid) || find_below(p, &e->gfid, gfid, path + n, room - (size_t)n))
			return true;
	}
	return false;
}

/* As much of it as cluster/dht needs: a directory's path. */
static int tell_location(struct sim_disk *p, const struct gfid *gfid, struct blob *value)
{
	char path[1000] = "";
	struct location to = { 0 };

	if (!find_below(p, &gfid_root, gfid, path, sizeof(path)))
		return -ENODATA;
	location_line(&to, "path", "%s", path);
	return location_end(&to, value);
}

int disk_do_getxattr(struct sim_disk *p, const void *args, void *result)
{
	const struct getxattr_in *in = args;
	struct getxattr_out *out = result;
	struct disk_object *o = disk_object_of(p, in->inode);
	struct disk_pair *x = o ? pair_of(o, in->name) : NULL;

	if (o && is_location(in->name))
		return tell_location(p, &in->inode->gfid, &out->value);
	if (!x)
		return o ? -ENODATA : -ESTALE;
	out->value.bytes = malloc(x->value.size + 1);
	memcpy(out->value.bytes, x->value.bytes, x->value.size);
	out->value.size = x->value.size;
	return 0;
}

int disk_do_listxattr(struct sim_disk *p, const void *args, void *result)
{
	const struct listxattr_in *in = args;
	struct listxattr_out *out = result;
	struct disk_object *o = disk_object_of(p, in->inode);
	uint32_t size = 0;
	char *to;

	if (!o)
		return -ESTALE;
	for (const struct disk_pair *x = o->xattr; x; x = x->next)
		size += (uint32_t)strlen(x->name) + 1;
	to = out->names.bytes = malloc(size + 1);
	for (const struct disk_pair *x = o->xattr; x; x = x->next)
		to = stpcpy(to, x->name) + 1;
	out->names.size = size;
	return 0;
}

int disk_do_removexattr(struct sim_disk *p, const void *args, void *result)
{
	const struct removexattr_in *in = args;
	struct disk_object *o = disk_object_of(p, in->inode);

	(void)result;
	if (!o || !pair_of(o, in->name))
		return o ? -ENODATA : -ESTALE;
	disk_change(p->disk, &(struct disk_change){ .kind = CHANGE_NO_XATTR, .gfid = o->attr.gfid, .name = in->name });
	disk_set_links(p, o, o->attr.nlink);
	return 0;
}
