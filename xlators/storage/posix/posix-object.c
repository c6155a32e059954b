/* SPDX-License-Identifier: Apache-2.0 */
/* From descriptors and names to inodes: which object it is, and what is kept in memory of it. */
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "posix.h"

enum { FIND_TRIES = 8 };

/* ---- attributes ---- */

static struct time time_of(const struct statx_timestamp *t)
{
	return (struct time){ t->tv_sec, t->tv_nsec };
}

void attr_fill(struct xlator *x, struct inode *inode, const struct statx *st, struct attr *attr)
{
	struct object *o = object_of(x, inode);

	*attr = (struct attr){
		.gfid = inode->gfid,
		.mode = st->stx_mode,
		.nlink = st->stx_nlink,
		.uid = st->stx_uid,
		.gid = st->stx_gid,
		.rdev = makedev(st->stx_rdev_major, st->stx_rdev_minor),
		.size = st->stx_size,
		.blocks = st->stx_blocks,
		.blksize = st->stx_blksize,
		.atime = time_of(&st->stx_atime),
		.mtime = time_of(&st->stx_mtime),
		.ctime = time_of(&st->stx_ctime),
		.btime = time_of_ns(atomic_load(&o->birth)),
		.flags = atomic_load(&o->acl) == ACL_NONE ? ATTR_NO_ACL : 0,
	};
	if (inode == brick_of(x)->root && attr->nlink > 2)
		attr->nlink--; /* our own directory isn't there for anybody */
	if (st->stx_mode & (S_ISUID | S_ISGID))
		atomic_store(&o->privileged, true);
}

int attr_of(struct xlator *x, struct inode *inode, const struct hold *h, struct attr *attr)
{
	struct statx st;
	int err = object_of(x, inode) ? hold_stat(h, &st) : -ESTALE;

	if (!err)
		acl_learn(object_of(x, inode), h, S_ISDIR(st.stx_mode));
	if (!err)
		attr_fill(x, inode, &st, attr);
	return err;
}

/* ---- from a descriptor to an inode ---- */

static pthread_mutex_t *index_place(struct handle_index *index, const struct kernel_handle *handle, struct object ***bucket)
{
	uint64_t hash = 14695981039346656037u; /* FNV-1a */

	for (uint32_t i = 0; i < handle->size; i++)
		hash = (hash ^ handle->bytes[i]) * 1099511628211u;
	hash ^= hash >> 32;
	*bucket = &index->bucket[hash % INDEX];
	return &index->lock[hash % INDEX % INDEX_LOCKS];
}

void object_index(struct brick *b, struct object *o)
{
	struct object **bucket;
	pthread_mutex_t *lock = index_place(&b->index, &o->handle, &bucket);

	pthread_mutex_lock(lock);
	o->next = *bucket;
	*bucket = o;
	pthread_mutex_unlock(lock);
}

void object_unindex(struct brick *b, struct object *o)
{
	struct object **at;
	pthread_mutex_t *lock = index_place(&b->index, &o->handle, &at);

	pthread_mutex_lock(lock);
	while (*at && *at != o)
		at = &(*at)->next;
	if (*at)
		*at = o->next;
	pthread_mutex_unlock(lock);
}

/* The inode of that handle, if it is in memory: a reference. */
static struct inode *indexed(struct xlator *x, const struct kernel_handle *handle)
{
	struct object **bucket, *o;
	pthread_mutex_t *lock = index_place(&brick_of(x)->index, handle, &bucket);
	struct gfid gfid;

	pthread_mutex_lock(lock);
	for (o = *bucket; o && !kernel_handles_equal(&o->handle, handle); o = o->next)
		;
	if (o)
		gfid = o->gfid;
	pthread_mutex_unlock(lock);
	return o ? inode_find(x->inodes, &gfid) : NULL;
}

struct inode *object_in_memory(struct xlator *x, const struct hold *h)
{
	struct kernel_handle handle;

	return kernel_handle_of(h->fd, &handle) ? NULL : indexed(x, &handle);
}

/* 1, 0, -errno. */
static int object_same(struct object *o, const struct hold *h)
{
	struct kernel_handle now;
	int same = kernel_handle_of(h->fd, &now);

	if (same)
		return same;
	pthread_mutex_lock(&o->lock);
	same = kernel_handles_equal(&o->handle, &now);
	pthread_mutex_unlock(&o->lock);
	return same;
}

static int object_create(const struct hold *h, const struct statx *st, const struct gfid *gfid, struct time birth,
			 struct object **made)
{
	struct object *o = calloc(1, sizeof *o);
	int err = o ? kernel_handle_of(h->fd, &o->handle) : -ENOMEM;

	if (err) {
		free(o);
		return err;
	}
	pthread_mutex_init(&o->lock, NULL);
	atomic_init(&o->ino, st->stx_ino);
	o->gfid = *gfid;
	atomic_init(&o->birth, time_ns(birth));
	o->place = -1;
	o->born_from = TAIL_OLD;
	atomic_store(&o->privileged, st->stx_mode & (S_ISUID | S_ISGID));
	*made = o;
	return 0;
}

/* Does the object that the inode means so far still live? 1, 0, -errno. */
static int alive(struct xlator *x, struct inode *inode)
{
	cleanup_hold struct hold h = HOLD_NONE;
	struct statx st;
	int err = hold_inode(x, inode, &h);

	if (!err)
		err = hold_stat(&h, &st);
	return err == -ESTALE ? 0 : err ? err : st.stx_nlink > 0;
}

/* If the gfid's former object is gone (this one was restored from a copy, say), the inode now means this one. */
static int object_replace(struct xlator *x, struct inode *inode, struct object *o, const struct hold *h, const struct statx *st,
			  struct time birth)
{
	struct descriptor *former;
	struct kernel_handle handle;
	struct statx now;
	int living, err;
	bool tail_mended;

	/* Itself a former one, which somebody has open yet and may ask for by its handle, but which lacks what was written since. */
	if (!st->stx_nlink)
		return -ESTALE;
	living = alive(x, inode);
	err = kernel_handle_of(h->fd, &handle);
	if (!err && living > 0)
		err = hold_stat(h, &now);
	if (err || living)
		return err ? err : living < 0 ? living : now.stx_nlink ? -EEXIST : -ESTALE; /* since it was looked at last */
	directory_drop(x, inode);
	object_unindex(brick_of(x), o);
	tail_mended = tail_mend(x, h, st, &inode->gfid);
	pthread_mutex_lock(&o->lock);
	o->handle = handle;
	o->mended = o->mended || tail_mended;
	atomic_store(&o->tail, TAIL_ASK); /* somebody may be asking the former one */
	o->born_from = TAIL_OLD;
	former = o->kept; /* somebody may have the former one open yet: see opened_check() */
	o->kept = NULL;
	atomic_store(&o->ino, st->stx_ino);
	pthread_mutex_unlock(&o->lock);
	descriptor_unref(former);
	atomic_store(&o->seen, 0);
	atomic_store(&o->birth, time_ns(birth));
	time_forget(x, o);
	acl_changed(o);
	object_index(brick_of(x), o);
	return 0;
}

static int object_confirm(struct xlator *x, struct inode *inode, struct object *o, const struct hold *h, const struct statx *st,
			  struct time birth)
{
	static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
	int same = object_same(o, h);

	if (same)
		return same < 0 ? same : 0;
	pthread_mutex_lock(&one_at_a_time);
	same = object_same(o, h);
	if (!same)
		same = object_replace(x, inode, o, h, st, birth);
	pthread_mutex_unlock(&one_at_a_time);
	return same < 0 ? same : 0;
}

/* It was not in memory. */
static int object_remember(struct xlator *x, struct inode *inode, const struct hold *h, const struct statx *st,
			   struct time birth)
{
	struct object *fresh;
	int err = object_create(h, st, &inode->gfid, birth, &fresh);

	if (err)
		return err;
	fresh->mended = tail_mend(x, h, st, &inode->gfid);
	err = inode_slot_set(inode, x, fresh);
	if (!err) {
		object_index(brick_of(x), fresh);
		return 0;
	}
	pthread_mutex_destroy(&fresh->lock);
	free(fresh);
	return err;
}

/* One at a time: once it is remembered it may be open, and what tail_mend sees be half of a write. */
static int object_bind(struct xlator *x, struct inode *inode, const struct hold *h, const struct statx *st, struct time birth)
{
	pthread_mutex_t *lock = &brick_of(x)->tail_lock[inode->gfid.bytes[15] % MUTEXES];
	struct object *o = object_of(x, inode);
	int err = -EEXIST;

	if (!o) {
		pthread_mutex_lock(lock);
		o = object_of(x, inode);
		if (!o)
			err = object_remember(x, inode, h, st, birth);
		pthread_mutex_unlock(lock);
		if (err != -EEXIST)
			return err;
		o = object_of(x, inode);
	}
	return object_confirm(x, inode, o, h, st, birth);
}

int object_attach(struct xlator *x, const struct hold *h, const struct statx *st, const struct gfid *gfid, struct time birth,
		  struct inode **inode)
{
	struct inode *known = inode_get(x->inodes, gfid, st->stx_mode & S_IFMT);
	int err;

	*inode = NULL;
	if (!known) {
		cleanup_inode struct inode *other = inode_find(x->inodes, gfid);

		return other ? -EEXIST : -ENOMEM;
	}
	err = object_bind(x, known, h, st, birth);
	if (err)
		inode_unref(known);
	else
		*inode = known;
	return err;
}

/* ---- what stands under a name ---- */

/* Somebody put it on the brick behind our back, or copied an object of ours with its attributes. */
static int adopt(struct xlator *x, const struct hold *h, struct identity *identity, struct inode *parent, const char *name,
		 int flags)
{
	uint64_t now = clock_wall_ns();
	struct gfid gfid;
	char text[GFID_TEXT];
	int err;

	gfid_create(&gfid);
	identity_make(identity, &gfid, (struct time){ (int64_t)(now / 1000000000), (uint32_t)(now % 1000000000) });
	identity_add(identity, &parent->gfid, name);
	err = identity_write(h, identity, flags);
	if (err == -EEXIST)
		return identity_read(h, identity); /* another request was faster */
	if (err) {
		log_warning(x, NULL, "can't give an identity to \"%s\" in %s: %s", name, gfid_text(&parent->gfid, text),
			    strerror(-err));
		return err;
	}
	atomic_fetch_add(&brick_of(x)->adopted, 1);
	return 0;
}

static int identify(struct xlator *x, const struct hold *h, const struct statx *st, struct identity *identity,
		    struct inode *parent, const char *name, struct inode **inode)
{
	int err = identity_read(h, identity);
	struct gfid gfid;

	if (err == -ENODATA)
		err = adopt(x, h, identity, parent, name, XATTR_CREATE);
	for (int attempt = 0; !err && attempt < 2; attempt++) {
		identity_gfid(identity, &gfid);
		err = object_attach(x, h, st, &gfid, identity_birth(identity), inode);
		if (err != -EEXIST || attempt)
			break;
		log_warning(x, NULL, "\"%s\" carries the identity of another object: it is a copy, and gets its own", name);
		err = adopt(x, h, identity, parent, name, 0);
	}
	return err == -EEXIST ? -EIO : err;
}

/* -ESTALE: it has lost the name since it was opened. */
static int find_opened(struct xlator *x, int directory, struct inode *parent, const char *name, struct inode **inode,
		       struct attr *attr)
{
	cleanup_hold struct hold h = { .fd = name_open(directory, name), .path = true };
	struct link_name here = { &parent->gfid, name };
	struct identity identity;
	struct statx st;
	int err = h.fd < 0 ? h.fd : hold_stat(&h, &st);

	if (!err && !st.stx_nlink)
		err = -ESTALE;
	if (!err)
		err = identify(x, &h, &st, &identity, parent, name, inode);
	if (!err && object_of(x, *inode)->mended)
		err = hold_stat(&h, &st);
	if (err)
		return err;
	acl_learn(object_of(x, *inode), &h, S_ISDIR(st.stx_mode));
	attr_fill(x, *inode, &st, attr);
	links_repair(x, &h, &st, &identity, parent, name);
	atomic_store(&object_of(x, *inode)->seen, name_hash(&here));
	return 0;
}

/* The slow way: opens the object and asks it who it is. By then another may have the name, under the same gfid even, if a heal makes it anew. */
static int find_cold(struct xlator *x, int directory, struct inode *parent, const char *name, struct inode **inode,
		     struct attr *attr)
{
	int err = -ESTALE;

	for (int tries = 0; tries < FIND_TRIES && err == -ESTALE; tries++)
		err = find_opened(x, directory, parent, name, inode, attr);
	return err;
}

/* An object that is in memory and was seen under this name before: two system calls, and nothing is opened. -EAGAIN: go
 * the slow way. */
static int find_warm(struct xlator *x, int directory, struct inode *parent, const char *name, struct inode **inode,
		     struct attr *attr)
{
	struct link_name here = { &parent->gfid, name };
	cleanup_inode struct inode *known = NULL;
	struct kernel_handle handle;
	struct statx st;
	struct object *o;
	int err = kernel_handle_named(brick_of(x), directory, name, &handle);

	if (err)
		return err == -ENOENT ? err : -EAGAIN;
	known = indexed(x, &handle);
	o = object_of(x, known);
	if (!o || atomic_load(&o->seen) != name_hash(&here) ||
	    statx(directory, name, AT_SYMLINK_NOFOLLOW | AT_STATX_SYNC_AS_STAT, STATX_BASIC_STATS, &st) < 0 ||
	    st.stx_ino != atomic_load(&o->ino))
		return -EAGAIN;
	attr_fill(x, known, &st, attr);
	*inode = known;
	known = NULL;
	return 0;
}

int object_find(struct xlator *x, int directory, struct inode *parent, const char *name, struct inode **inode,
		struct attr *attr)
{
	int err = find_warm(x, directory, parent, name, inode, attr);

	return err == -EAGAIN ? find_cold(x, directory, parent, name, inode, attr) : err;
}
