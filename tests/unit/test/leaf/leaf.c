/* SPDX-License-Identifier: Apache-2.0 */
/* A brick in memory, for tests of what stands above one: one directory, a few files, counters, and writes that can be held. */
#include "leaf.h"

#include <fcntl.h>
#include <sys/stat.h>

__attribute__((visibility("default"))) struct leaf leaf = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- objects; with the lock held ---- */

static struct leaf_object *by_gfid(const struct gfid *g)
{
	for (int i = 0; i < LEAF_OBJECTS; i++)
		if (leaf.object[i].used && gfid_equal(&leaf.object[i].gfid, g))
			return &leaf.object[i];
	return NULL;
}

static struct leaf_object *by_name(const char *name)
{
	for (int i = 0; i < LEAF_OBJECTS; i++)
		if (leaf.object[i].used && !strcmp(leaf.object[i].name, name))
			return &leaf.object[i];
	return NULL;
}

static struct leaf_object *add(const struct gfid *g, mode_t type, const char *name)
{
	for (int i = 0; i < LEAF_OBJECTS; i++) {
		struct leaf_object *o = &leaf.object[i];

		if (o->used)
			continue;
		*o = (struct leaf_object){ .gfid = *g, .type = type, .used = true, .data = calloc(1, LEAF_SIZE) };
		snprintf(o->name, sizeof(o->name), "%s", name);
		return o;
	}
	return NULL;
}

static void drop(struct leaf_object *o)
{
	free(o->data);
	memset(o, 0, sizeof(*o));
}

static void attr_of(const struct leaf_object *o, struct attr *a)
{
	*a = (struct attr){
		.gfid = o->gfid, .mode = o->type | 0644, .nlink = o->name[0] ? 1 : 0, .size = o->size, .blksize = 4096
	};
}

/* ---- fops ---- */

static int leaf_init(struct xlator *x, struct problem *p)
{
	(void)x;
	(void)p;
	pthread_mutex_lock(&leaf.lock);
	if (!by_gfid(&gfid_root))
		add(&gfid_root, S_IFDIR, "/");
	pthread_mutex_unlock(&leaf.lock);
	return 0;
}

static int inode_handle(struct xlator *x, struct inode *inode, void *bytes, size_t *size)
{
	(void)x;
	memcpy(bytes, inode->gfid.bytes, 16);
	memcpy((char *)bytes + 16, "leaf", 4);
	*size = 20;
	return 0;
}

static int inode_from_handle(struct xlator *x, const void *bytes, size_t size, struct inode **inode)
{
	struct leaf_object *o;
	struct gfid g;

	if (size != 20 || memcmp((const char *)bytes + 16, "leaf", 4))
		return -ESTALE;
	memcpy(g.bytes, bytes, 16);
	pthread_mutex_lock(&leaf.lock);
	o = by_gfid(&g);
	*inode = o ? inode_get(x->inodes, &g, o->type) : NULL;
	pthread_mutex_unlock(&leaf.lock);
	return *inode ? 0 : -ESTALE;
}

static int leaf_lookup(struct request *rq, struct xlator *x, const struct lookup_in *in, struct lookup_out *out)
{
	struct leaf_object *o;

	(void)rq;
	atomic_fetch_add(&leaf.calls, 1);
	pthread_mutex_lock(&leaf.lock);
	o = in->loc.name ? by_name(in->loc.name) : by_gfid(&in->loc.inode->gfid);
	if (o) {
		out->inode = inode_get(x->inodes, &o->gfid, o->type);
		attr_of(o, &out->attr);
	}
	pthread_mutex_unlock(&leaf.lock);
	return o ? 0 : -ENOENT;
}

static int leaf_getattr(struct request *rq, struct xlator *x, const struct getattr_in *in, struct getattr_out *out)
{
	struct leaf_object *o;

	(void)rq;
	(void)x;
	atomic_fetch_add(&leaf.calls, 1);
	pthread_mutex_lock(&leaf.lock);
	o = by_gfid(&in->inode->gfid);
	if (o)
		attr_of(o, &out->attr);
	pthread_mutex_unlock(&leaf.lock);
	return o ? 0 : -ESTALE;
}

static int leaf_access(struct request *rq, struct xlator *x, const struct access_in *in, struct access_out *out)
{
	const gid_t *groups;
	int count = request_groups(rq, &groups);

	(void)x;
	(void)in;
	(void)out;
	if (count < 0)
		return count;
	atomic_store(&leaf.groups, count);
	return 0;
}

static struct file *open_object(struct xlator *x, struct inode *inode, struct leaf_object *o, uint32_t flags)
{
	struct file *f = file_create(inode, flags);

	if (f && file_slot_set(f, x, o)) {
		file_unref(f);
		return NULL;
	}
	o->opens += f != NULL;
	return f;
}

static int leaf_create(struct request *rq, struct xlator *x, const struct create_in *in, struct create_out *out)
{
	struct leaf_object *o;
	int err = 0;

	pthread_mutex_lock(&leaf.lock);
	o = by_name(in->loc.name);
	if (o && !(rq->resent && gfid_equal(&o->gfid, &in->gfid)))
		err = -EEXIST;
	if (!o) {
		atomic_fetch_add(&leaf.creates, 1);
		o = add(&in->gfid, S_IFREG, in->loc.name);
	}
	if (!err) {
		out->inode = inode_get(x->inodes, &o->gfid, o->type);
		out->file = open_object(x, out->inode, o, in->flags);
		attr_of(o, &out->attr);
	}
	pthread_mutex_unlock(&leaf.lock);
	return err;
}

static int leaf_open(struct request *rq, struct xlator *x, const struct open_in *in, struct open_out *out)
{
	struct leaf_object *o;

	(void)rq;
	atomic_fetch_add(&leaf.opens, 1);
	pthread_mutex_lock(&leaf.lock);
	o = by_gfid(&in->inode->gfid);
	if (o)
		out->file = open_object(x, in->inode, o, in->flags);
	pthread_mutex_unlock(&leaf.lock);
	return o ? 0 : -ESTALE;
}

static int leaf_opendir(struct request *rq, struct xlator *x, const struct opendir_in *in, struct opendir_out *out)
{
	struct open_in open = { in->inode, O_RDONLY | O_DIRECTORY };
	struct open_out opened = { 0 };
	int err = leaf_open(rq, x, &open, &opened);

	out->file = opened.file;
	return err;
}

static int leaf_read(struct request *rq, struct xlator *x, const struct read_in *in, struct read_out *out)
{
	struct leaf_object *o = file_slot(in->file, x);
	size_t size = 0;

	(void)rq;
	pthread_mutex_lock(&leaf.lock);
	if (in->offset < o->size)
		size = o->size - in->offset < in->size ? o->size - in->offset : in->size;
	out->data = buffer_from(o->data + in->offset, size);
	pthread_mutex_unlock(&leaf.lock);
	return 0;
}

static void hold_back(struct request *rq)
{
	rq->held(rq, true, true);
	atomic_fetch_add(&leaf.crowd, 1);
	while (atomic_load(&leaf.crowded) && !atomic_load(&rq->hurry))
		task_sleep_ms(1);
	rq->held(rq, false, false);
}

static int leaf_write(struct request *rq, struct xlator *x, const struct write_in *in, struct write_out *out)
{
	struct leaf_object *o = file_slot(in->file, x);

	if (atomic_load(&leaf.crowded))
		hold_back(rq);
	atomic_fetch_add(&leaf.writes, 1);
	atomic_fetch_add(&leaf.appends, in->flags & WRITE_APPEND ? 1 : 0);
	while (atomic_load(&leaf.hold))
		task_sleep_ms(1);
	pthread_mutex_lock(&leaf.lock);
	out->offset = in->flags & WRITE_APPEND ? o->size : in->offset;
	memcpy(o->data + out->offset, in->data->data, in->data->size);
	if (out->offset + in->data->size > o->size)
		o->size = out->offset + in->data->size;
	out->written = in->data->size;
	pthread_mutex_unlock(&leaf.lock);
	return 0;
}

static int leaf_readdir(struct request *rq, struct xlator *x, const struct readdir_in *in, struct readdir_out *out)
{
	struct dirents *d = &out->entries;

	(void)rq;
	pthread_mutex_lock(&leaf.lock);
	d->entry = calloc(LEAF_OBJECTS, sizeof(*d->entry));
	for (int i = in->offset; i < LEAF_OBJECTS; i++) {
		struct leaf_object *o = &leaf.object[i];
		struct dirent_plus *e = &d->entry[d->count];

		if (!o->used || !o->name[0] || o->type == S_IFDIR)
			continue;
		*e = (struct dirent_plus){ .next_offset = i + 1, .gfid = o->gfid, .type = o->type, .name = strdup(o->name) };
		if (in->flags & READDIR_PLUS) {
			e->inode = inode_get(x->inodes, &o->gfid, o->type);
			attr_of(o, &e->attr);
		}
		d->count++;
	}
	d->end = true;
	pthread_mutex_unlock(&leaf.lock);
	return 0;
}

/* As a real brick: the object goes when neither a name nor an open file is left. */
static int leaf_unlink(struct request *rq, struct xlator *x, const struct unlink_in *in, struct unlink_out *out)
{
	struct leaf_object *o;

	(void)rq;
	(void)x;
	(void)out;
	pthread_mutex_lock(&leaf.lock);
	o = by_name(in->loc.name);
	if (o)
		o->name[0] = 0;
	if (o && !o->opens)
		drop(o);
	pthread_mutex_unlock(&leaf.lock);
	return o ? 0 : -ENOENT;
}

static bool is_named(const struct loc *loc, const struct inode *inode)
{
	const struct leaf_object *o = by_name(loc->name);

	return o && (!inode || gfid_equal(&o->gfid, &inode->gfid));
}

static void exchange(const struct rename_in *in)
{
	struct leaf_object *from = by_name(in->from.name), *to = by_name(in->to.name);

	snprintf(from->name, sizeof(from->name), "%s", in->to.name);
	snprintf(to->name, sizeof(to->name), "%s", in->from.name);
}

/* Exchanges names only. As storage/posix, it tells by what is said of them whether that was done. */
static int leaf_rename(struct request *rq, struct xlator *x, const struct rename_in *in, struct rename_out *out)
{
	bool said = in->from.inode && in->to.inode, done, undone;

	(void)x;
	(void)out;
	pthread_mutex_lock(&leaf.lock);
	done = rq->resent && said && is_named(&in->from, in->to.inode) && is_named(&in->to, in->from.inode);
	undone = is_named(&in->from, in->from.inode) && is_named(&in->to, in->to.inode);
	if (!done && undone)
		exchange(in);
	pthread_mutex_unlock(&leaf.lock);
	atomic_fetch_add(&leaf.renames, 1);
	while (atomic_load(&leaf.hold))
		task_sleep_ms(1);
	return done || undone ? 0 : -ESTALE;
}

static void leaf_forget_file(struct xlator *x, struct file *file, void *slot)
{
	struct leaf_object *o = slot;

	(void)x;
	(void)file;
	pthread_mutex_lock(&leaf.lock);
	if (!--o->opens && !o->name[0])
		drop(o);
	pthread_mutex_unlock(&leaf.lock);
}

static int leaf_release(struct request *rq, struct xlator *x, const struct release_in *in, struct release_out *out)
{
	(void)rq;
	(void)x;
	(void)out;
	pthread_mutex_lock(&leaf.lock);
	for (int i = 0; i < LEAF_LOCKS; i++) /* as features/locks does it */
		if (leaf.held[i].owner && leaf.through[i] == in->file)
			leaf.held[i].owner = 0;
	pthread_mutex_unlock(&leaf.lock);
	return 0;
}

/* Whole-file locks by owner are all that the tests need. */
static bool try_lock(const struct lock *l, const struct file *through)
{
	int at = -1;

	for (int i = 0; i < LEAF_LOCKS; i++) {
		if (leaf.held[i].owner == l->owner)
			leaf.held[i].owner = 0;
		if (leaf.held[i].owner && l->type != F_UNLCK)
			return false;
		if (!leaf.held[i].owner)
			at = i;
	}
	if (l->type != F_UNLCK) {
		leaf.held[at] = *l;
		leaf.through[at] = through;
	}
	return true;
}

static int leaf_setlk(struct request *rq, struct xlator *x, const struct setlk_in *in, struct setlk_out *out)
{
	bool done = false;
	int err = 0;

	(void)out;
	atomic_fetch_add(&leaf.setlks, 1);
	atomic_fetch_add(&leaf.reclaims, in->lock.reclaim);
	atomic_fetch_add(&leaf.lock_waits, in->lock.wait);
	while (!done && !err) {
		pthread_mutex_lock(&leaf.lock);
		done = try_lock(&in->lock, in->file);
		pthread_mutex_unlock(&leaf.lock);
		if (!done)
			err = in->lock.wait ? task_sleep_ms(1) : in->lock.reclaim ? -ENOLCK : -EAGAIN;
	}
	atomic_fetch_sub(&leaf.lock_waits, in->lock.wait);
	if (err == -ENOLCK) /* as features/locks does */
		event_up(x,
			 &(struct event){
				 .kind = EVENT_LOCK_LOST, .inode = in->file->inode, .client = rq->client, .lock = in->lock });
	return done ? 0 : err;
}

static void leaf_client_gone(struct xlator *x, const struct client *client)
{
	(void)x;
	(void)client;
	atomic_fetch_add(&leaf.gone, 1);
}

static int leaf_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	(void)rq;
	(void)x;
	(void)fop;
	(void)in;
	(void)out;
	return -EOPNOTSUPP;
}

static const struct option options[] = { { "volume-id", OPTION_STRING, 0, "", "as storage/posix has it" }, { NULL } };

const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "test/leaf",
	.summary = "a brick in memory",
	.options = options,
	.private_size = sizeof(char *),
	.init = leaf_init,
	.forget_file = leaf_forget_file,
	.client_gone = leaf_client_gone,
	.inode_handle = inode_handle,
	.inode_from_handle = inode_from_handle,
	.any = leaf_any,
	.lookup = leaf_lookup,
	.getattr = leaf_getattr,
	.access = leaf_access,
	.create = leaf_create,
	.open = leaf_open,
	.opendir = leaf_opendir,
	.read = leaf_read,
	.write = leaf_write,
	.readdir = leaf_readdir,
	.unlink = leaf_unlink,
	.rename = leaf_rename,
	.release = leaf_release,
	.setlk = leaf_setlk,
};
XLATOR_MODULE
