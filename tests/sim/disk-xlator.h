/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of sim/disk share: the translator, and its objects as the calls use them. */
#ifndef STRATUS_SIM_DISK_XLATOR_H
#define STRATUS_SIM_DISK_XLATOR_H
#include "disk.h"

enum { DISK_FILE_MAX = 8 << 20 };

struct sim_disk {
	int64_t member;
	char *state_dir;
	struct disk *disk;
	struct xlator *x;
	struct request *rq; /* whose call is just being done */
};

/* -ENOSPC, before anything is done. */
static inline int disk_has_no_room(struct sim_disk *p)
{
	p->rq->untouched = true;
	return -ENOSPC;
}

/* ---- disk-objects.c ---- */
struct disk_object *disk_object_of(struct sim_disk *, const struct inode *); /* NULL: there is none, or no inode */
/* Changes the attributes of the object whose gfid is in them, but for its size. */
void disk_put_attr(struct sim_disk *, const struct attr *);
void disk_touch(struct sim_disk *, struct disk_object *);		      /* the contents have changed: ctime and mtime */
void disk_set_links(struct sim_disk *, struct disk_object *, uint32_t nlink); /* and ctime */
void disk_free_if_gone(struct sim_disk *, const struct gfid *);		      /* if it has no link any more */
void disk_attr_of(const struct disk_object *, struct attr *);		      /* as callers see them: with blocks */
/* The object's inode, which is the caller's, and its attributes. 0 or -ESTALE. */
int disk_give(struct sim_disk *, struct disk_object *, struct inode **, struct attr *);
/* These are in the translator's table. */
int disk_inode_handle(struct xlator *, struct inode *, void *bytes, size_t *size);
int disk_inode_from_handle(struct xlator *, const void *bytes, size_t size, struct inode **);

/* What a call does to the disk, when its moment has come: args and result are those of its fop. 0 or -errno. */
typedef int disk_act(struct sim_disk *, const void *args, void *result);

/* ---- disk-names.c ---- */
disk_act disk_do_lookup, disk_do_mknod, disk_do_mkdir, disk_do_symlink, disk_do_readlink, disk_do_link, disk_do_unlink,
	disk_do_rmdir, disk_do_rename, disk_do_readdir;
/* A new object with its first name. -EEXIST: *made is what has the name, NULL if the gfid is in use instead. */
int disk_make(struct sim_disk *, const struct loc *, const struct gfid *, mode_t, const char *target,
	      struct disk_object **made);
int disk_inode_links(struct xlator *, struct inode *, struct blob *); /* in the translator's table */

/* ---- disk-files.c ---- */
disk_act disk_do_create, disk_do_open, disk_do_opendir, disk_do_read, disk_do_write, disk_do_fallocate, disk_do_seek,
	disk_do_copy_range, disk_do_fsync;
void disk_forget_file(struct xlator *, struct file *, void *slot);
void disk_resize(struct sim_disk *, struct disk_object *, uint64_t size);

/* ---- disk-attrs.c ---- */
disk_act disk_do_getattr, disk_do_setattr, disk_do_setxattr, disk_do_getxattr, disk_do_listxattr, disk_do_removexattr;
#endif
