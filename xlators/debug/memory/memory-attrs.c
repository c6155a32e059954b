/* SPDX-License-Identifier: Apache-2.0 */
/* debug/memory: attributes and extended attributes. */
#include <sys/xattr.h>

#include "born.h"
#include "location.h"
#include "memory.h"

int memory_getattr(struct request *rq, struct xlator *x, const struct getattr_in *in, struct getattr_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *o = memory_object_of(x, in->inode ? in->inode : in->file->inode);

	(void)rq;
	(void)p;
	if (!o)
		return -ESTALE;
	out->attr = o->attr;
	out->attr.blocks = (o->attr.size + 511) / 512;
	return 0;
}

static void set_times(struct request *rq, struct object *o, const struct setattr *set)
{
	struct time clock = rq->time_ns ? time_of_ns(rq->time_ns) : time_now();
	struct time mtime = set->valid & SET_MTIME_NOW ? clock : set->mtime;

	if (set->valid & (SET_ATIME | SET_ATIME_NOW))
		o->attr.atime = set->valid & SET_ATIME_NOW ? clock : set->atime;
	if (set->valid & (SET_MTIME | SET_MTIME_NOW))
		o->attr.mtime = change_time(&o->changed, rq, &mtime);
	o->attr.ctime = time_now();
}

void memory_be_born(const struct request *rq, struct object *o)
{
	bool touched = time_ns(o->attr.mtime) != time_ns(o->attr.btime);

	if (!rq->time_ns)
		return;
	o->attr.btime = time_of_ns(rq->time_ns);
	if (!touched)
		o->attr.atime = o->attr.mtime = o->attr.btime;
}

int memory_setattr(struct request *rq, struct xlator *x, const struct setattr_in *in, struct setattr_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *o = memory_object_of(x, in->inode ? in->inode : in->file->inode);
	const struct setattr *set = &in->set;
	int err = 0;

	if (!o)
		return -ESTALE;
	if (set->valid & SET_SIZE)
		err = !S_ISREG(o->attr.mode) ? -EINVAL : set->size > INT64_MAX ? -EFBIG : memory_resize(rq, p, o, set->size);
	if (err)
		return err;
	if (set->valid & (SET_KILL_PRIV | SET_UID | SET_GID) && S_ISREG(o->attr.mode))
		o->attr.mode &= ~(S_ISUID | (o->attr.mode & S_IXGRP ? S_ISGID : 0));
	if (set->valid & SET_MODE)
		o->attr.mode = (o->attr.mode & S_IFMT) | (set->mode & 07777);
	if (set->valid & SET_UID)
		o->attr.uid = set->uid;
	if (set->valid & SET_GID)
		o->attr.gid = set->gid;
	set_times(rq, o, set);
	if (set->valid & SET_BIRTH && rq->time_ns)
		o->attr.btime = time_of_ns(rq->time_ns);
	out->attr = o->attr;
	return 0;
}

static struct pair **find_xattr(struct object *o, const char *name)
{
	struct pair **at = &o->xattr;

	while (*at && strcmp((*at)->name, name))
		at = &(*at)->next;
	return at;
}

static int pair_new(struct pair **at, const char *name)
{
	struct pair *pair = calloc(1, sizeof(*pair));

	if (!pair || !(pair->name = strdup(name))) {
		free(pair);
		return -ENOMEM;
	}
	*at = pair;
	return 0;
}

static int put_xattr(struct object *o, struct pair **at, const char *name, const void *value, uint32_t size)
{
	void *bytes = malloc(size ? size : 1);

	if (!bytes || (!*at && pair_new(at, name))) {
		free(bytes);
		return -ENOMEM;
	}
	if (size)
		memcpy(bytes, value, size);
	free((*at)->value.bytes);
	(*at)->value = (struct blob){ size, bytes };
	o->attr.ctime = time_now();
	return 0;
}

int memory_born(const struct request *rq, struct object *o)
{
	struct born born;
	int err = born_of(rq, &born);

	for (unsigned i = 0; i < born.count && !err; i++) {
		const struct born_xattr *x = &born.xattr[i];

		err = put_xattr(o, find_xattr(o, x->name), x->name, x->value, x->size);
	}
	return err;
}

int memory_setxattr(struct request *rq, struct xlator *x, const struct setxattr_in *in, struct setxattr_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *o = memory_object_of(x, in->inode);
	struct pair **at = o ? find_xattr(o, in->name) : NULL;

	(void)rq;
	(void)p;
	(void)out;
	if (!o)
		return -ESTALE;
	if (*at ? in->flags & XATTR_CREATE : in->flags & XATTR_REPLACE)
		return *at ? -EEXIST : -ENODATA;
	return put_xattr(o, at, in->name, in->value.bytes, in->value.size);
}

/* The names from the directory down to the object, before `end`; NULL: it is not there, or the path is too long. */
static char *path_below(const struct object *directory, const struct object *o, char *start, char *end)
{
	for (const struct entry *e = directory->entry; e; e = e->next) {
		size_t length = strlen(e->name);
		char *at = e->object == o ? end : path_below(e->object, o, start, end);

		if (!at || at < start + length + 1)
			continue;
		at -= length + 1;
		*at = '/';
		memcpy(at + 1, e->name, length);
		return at;
	}
	return NULL;
}

static int tell_location(struct memory *p, const struct object *o, struct blob *value)
{
	enum { ROOM = 4096 };
	char path[ROOM], *end = path + ROOM - 1, *at;
	const struct object *root = memory_bearer(p, &gfid_root);
	struct location to = { 0 };

	*end = '\0';
	at = o == root ? strcpy(end - 1, "/") : path_below(root, o, path, end);
	if (!at)
		return -ENODATA;
	location_line(&to, "path", "%s", at);
	return location_end(&to, value);
}

int memory_getxattr(struct request *rq, struct xlator *x, const struct getxattr_in *in, struct getxattr_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *o = memory_object_of(x, in->inode);
	struct pair **at = o ? find_xattr(o, in->name) : NULL;

	(void)rq;
	(void)p;
	if (o && is_location(in->name))
		return tell_location(p, o, &out->value);
	if (!o || !*at)
		return o ? -ENODATA : -ESTALE;
	out->value.bytes = malloc((*at)->value.size + 1);
	if (!out->value.bytes)
		return -ENOMEM;
	memcpy(out->value.bytes, (*at)->value.bytes, (*at)->value.size);
	out->value.size = (*at)->value.size;
	return 0;
}

int memory_listxattr(struct request *rq, struct xlator *x, const struct listxattr_in *in, struct listxattr_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *o = memory_object_of(x, in->inode);
	uint32_t size = 0;
	char *to;

	(void)rq;
	(void)p;
	if (!o)
		return -ESTALE;
	for (const struct pair *pair = o->xattr; pair; pair = pair->next)
		size += strlen(pair->name) + 1;
	to = out->names.bytes = malloc(size + 1);
	if (!to)
		return -ENOMEM;
	for (const struct pair *pair = o->xattr; pair; pair = pair->next)
		to = stpcpy(to, pair->name) + 1;
	out->names.size = size;
	return 0;
}

int memory_removexattr(struct request *rq, struct xlator *x, const struct removexattr_in *in, struct removexattr_out *out)
{
	cleanup_unlock struct memory *p = memory_lock(x);
	struct object *o = memory_object_of(x, in->inode);
	struct pair **at = o ? find_xattr(o, in->name) : NULL;

	(void)rq;
	(void)p;
	(void)out;
	if (!o || !*at)
		return o ? -ENODATA : -ESTALE;
	memory_pair_free(at);
	return 0;
}
