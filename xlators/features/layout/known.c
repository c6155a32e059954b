/* SPDX-License-Identifier: Apache-2.0 */
/* features/layout: what the xattrs of objects say, read once; and the gates. */
#include "shard.h"

#include <fcntl.h>

struct known *known_of(struct xlator *x, struct inode *inode)
{
	struct known *k = inode_slot(inode, x);

	if (k)
		return k;
	k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	pthread_mutex_init(&k->lock, NULL);
	k->taken = 1; /* perhaps, by who was here before */
	k->version = atomic_fetch_add(&((struct checks *)x->private)->file_changes, 1) + 1;
	if (!inode_slot_set(inode, x, k))
		return k;
	known_free(k);
	return inode_slot(inode, x); /* the other one's; or NULL: no memory */
}

void known_free(struct known *k)
{
	pthread_mutex_destroy(&k->lock);
	free(k->layout);
	free(k->mark);
	free(k);
}

/* With the lock held. */
static void drop(struct known *k)
{
	free(k->layout);
	free(k->mark);
	k->layout = NULL;
	k->mark = NULL;
	k->marks = 0;
	k->points = k->kept = k->shard = k->read = false;
	k->broken = 0;
	k->changes++;
}

void known_forget(struct xlator *x, struct inode *inode)
{
	struct known *k = inode ? inode_slot(inode, x) : NULL;

	if (!k)
		return;
	pthread_mutex_lock(&k->lock);
	drop(k);
	k->taken++;
	k->version = atomic_fetch_add(&((struct checks *)x->private)->file_changes, 1) + 1;
	pthread_mutex_unlock(&k->lock);
}

/* ---- reading ---- */

int read_xattr(struct request *rq, struct xlator *x, struct inode *inode, const char *name, struct blob *value)
{
	struct getxattr_in in = { .inode = inode, .name = name };
	struct getxattr_out out = { 0 };
	uid_t uid = rq->uid;
	int err;

	rq->uid = 0;
	err = getxattr_on(rq, x->child[0], &in, &out);
	rq->uid = uid;
	*value = out.value;
	return err;
}

int complain(struct xlator *x, const struct inode *inode, const char *name)
{
	char text[GFID_TEXT];

	log_error(x, NULL, "%s of %s makes no sense: nothing is done there until it is put right or removed", name,
		  gfid_text(&inode->gfid, text));
	return -EIO;
}

static int read_pointer(struct request *rq, struct xlator *x, struct inode *inode, struct known *k)
{
	struct blob value = { 0 };
	int err = read_xattr(rq, x, inode, DHT_POINTER_XATTR, &value);

	if (!err && pointer_decode(value.bytes, value.size, &k->pointer))
		k->broken = complain(x, inode, DHT_POINTER_XATTR);
	k->points = !err;
	free(value.bytes);
	return err == -ENODATA || err == -EOPNOTSUPP ? 0 : err;
}

static int read_layout(struct request *rq, struct xlator *x, struct inode *inode, struct known *k)
{
	struct blob value = { 0 };
	int err = read_xattr(rq, x, inode, DHT_LAYOUT_XATTR, &value);

	if (!err) {
		k->layout = calloc(1, sizeof(*k->layout)); /* one that makes no sense is asked for its version, too */
		err = k->layout ? 0 : -ENOMEM;
	}
	if (!err && layout_decode(value.bytes, value.size, k->layout))
		k->broken = complain(x, inode, DHT_LAYOUT_XATTR);
	free(value.bytes);
	return err == -ENODATA || err == -EOPNOTSUPP ? 0 : err;
}

/* A shard that is not at home is below the directory itself. It may have no layout yet: who finds it must not take it for the whole. */
static int read_home(struct request *rq, struct xlator *x, struct inode *inode, struct known *k)
{
	struct blob value = { 0 };
	struct parent p;
	int err = read_xattr(rq, x, inode, DHT_PARENT_XATTR, &value);

	k->shard = !err && !parent_decode(value.bytes, value.size, &p) && gfid_equal(&p.gfid, &inode->gfid);
	free(value.bytes);
	return err == -ENODATA || err == -EOPNOTSUPP ? 0 : err;
}

static int read_kept(struct request *rq, struct xlator *x, struct inode *inode, struct known *k)
{
	struct blob value = { 0 };
	struct pointer p;
	int err = read_xattr(rq, x, inode, DHT_KEPT_XATTR, &value);

	k->kept = !err;
	if (!err && !pointer_decode(value.bytes, value.size, &p))
		k->keeper = p.mover;
	free(value.bytes);
	return err == -ENODATA || err == -EOPNOTSUPP ? 0 : err;
}

/* All that there may be. */
static int read_marked(struct request *rq, struct xlator *x, struct inode *inode, struct known *k)
{
	struct ours has;
	int err = marks_read(rq, x, inode, k, &has);

	if (!err && has.kept)
		err = read_kept(rq, x, inode, k);
	if (!err && has.pointer)
		err = read_pointer(rq, x, inode, k);
	if (!err && has.layout)
		err = read_layout(rq, x, inode, k);
	if (!err && has.parent)
		err = read_home(rq, x, inode, k);
	return err;
}

/* What was read belongs to k now, unless there has been a change meanwhile, or somebody else has read it. */
static void keep(struct known *k, struct known *fresh, unsigned changes)
{
	if (!k->read && !k->alone && k->changes == changes) {
		k->read = true;
		k->broken = fresh->broken;
		k->points = fresh->points;
		k->kept = fresh->kept;
		k->keeper = fresh->keeper;
		k->shard = fresh->shard;
		k->pointer = fresh->pointer;
		k->layout = fresh->layout;
		k->marks = fresh->marks;
		k->mark = fresh->mark;
		fresh->layout = NULL;
		fresh->mark = NULL;
	}
}

static struct facts facts_in(const struct known *k)
{
	struct facts f = { .points = k->points,
			   .wide = k->layout != NULL,
			   .marked = k->marks > 0,
			   .kept = k->kept,
			   .keeper = k->keeper,
			   .shard = k->shard,
			   .pointer = k->pointer };

	f.version = k->layout ? k->layout->version : 0;
	f.home = k->layout ? k->layout->home : 0;
	f.moving = k->layout && k->layout->moving;
	f.goes = k->marks == 1 && (k->mark[0].hash == mark_hash(MARK_GOES) || k->mark[0].hash == mark_hash(MARK_DYING));
	if (f.goes)
		f.by = k->mark[0];
	return f;
}

/* *facts (may be NULL): as they were at some moment of the call. */
static int read_all(struct request *rq, struct xlator *x, struct inode *inode, struct known *k, struct facts *facts)
{
	struct known fresh = { 0 };
	unsigned changes;
	int err;

	pthread_mutex_lock(&k->lock);
	changes = k->changes;
	if (k->read) {
		err = k->broken;
		if (facts)
			*facts = facts_in(k);
		pthread_mutex_unlock(&k->lock);
		return err;
	}
	pthread_mutex_unlock(&k->lock);
	err = read_marked(rq, x, inode, &fresh);
	if (!err) {
		err = fresh.broken;
		if (facts)
			*facts = facts_in(&fresh);
		pthread_mutex_lock(&k->lock);
		keep(k, &fresh, changes);
		pthread_mutex_unlock(&k->lock);
	}
	free(fresh.layout);
	free(fresh.mark);
	return err;
}

int known_locked(struct request *rq, struct xlator *x, struct inode *inode, struct known *k)
{
	enum { TRIES = 16 }; /* it may have been made anew just now, by a heal */
	int err = 0;

	for (int tries = 0; !err && tries < TRIES; tries++) {
		err = read_all(rq, x, inode, k, NULL);
		if (err)
			return err;
		pthread_mutex_lock(&k->lock);
		if (k->read)
			return 0;
		pthread_mutex_unlock(&k->lock);
	}
	return -ESTALE;
}

/* A pointer is empty, a link to one byte, or a node. (A stub has data. But it loses the name by which it could be found before that is not marked any more.) What
 * has a name that is not counted has several. */
static bool is_plain(const struct attr *a)
{
	return a->nlink < 2 && ((S_ISREG(a->mode) && a->size) || (S_ISLNK(a->mode) && a->size > 1));
}

int facts_of(struct request *rq, struct xlator *x, struct inode *inode, const struct attr *attr, struct facts *facts)
{
	struct known *k;

	*facts = (struct facts){ 0 };
	if (attr && is_plain(attr))
		return 0;
	k = known_of(x, inode);
	return k ? read_all(rq, x, inode, k, facts) : -ENOMEM;
}

/* ---- gates ---- */

static int enter(struct known *k, uint64_t deadline_ns, bool alone)
{
	int err = 0;

	pthread_mutex_lock(&k->lock);
	k->waiting += alone;
	while (!err && (k->alone || (alone ? k->inside : k->waiting)))
		err = task_cond_wait(&k->changed, &k->lock, deadline_ns);
	k->waiting -= alone;
	if (err && alone && !k->waiting)
		task_cond_broadcast(&k->changed);
	if (!err && alone)
		k->alone = true;
	else if (!err)
		k->inside++;
	pthread_mutex_unlock(&k->lock);
	return err;
}

static void leave(struct known *k, bool alone)
{
	pthread_mutex_lock(&k->lock);
	if (alone)
		k->alone = false;
	else
		k->inside--;
	if (alone || !k->inside)
		task_cond_broadcast(&k->changed);
	pthread_mutex_unlock(&k->lock);
}

int known_enter(struct known *k, uint64_t deadline_ns)
{
	return enter(k, deadline_ns, false);
}

void known_leave(struct known *k)
{
	leave(k, false);
}

/* In the order of addresses, so that no two wait for each other. */
int inside_enter(struct inside *i, struct request *rq, struct xlator *x, struct inode *a, struct inode *b)
{
	struct known *k = known_of(x, a), *l = b && b != a ? known_of(x, b) : NULL;
	int err = k && (l || !b || b == a) ? 0 : -ENOMEM;

	*i = (struct inside){ 0 };
	if (!err)
		err = enter(l && l < k ? l : k, rq->deadline_ns, false);
	if (err)
		return err;
	i->first = l && l < k ? l : k;
	if (!l)
		return 0;
	err = enter(l < k ? k : l, rq->deadline_ns, false);
	if (!err)
		i->second = l < k ? k : l;
	else
		inside_leave(i);
	return err;
}

static void leave_victim(struct inside *i)
{
	if (i->victim)
		leave(i->victim, false);
	i->victim = NULL;
	inode_unref(i->kept);
	i->kept = NULL;
}

/* Who waited here would hold others' gates meanwhile. */
int inside_enter_victim(struct inside *i, struct xlator *x, struct inode *directory)
{
	struct known *k = known_of(x, directory);
	int err = k ? 0 : -ENOMEM;

	if (err)
		return err;
	leave_victim(i); /* of an earlier try */
	pthread_mutex_lock(&k->lock);
	if (k->alone || k->waiting)
		err = -EMARKED;
	else
		k->inside++;
	pthread_mutex_unlock(&k->lock);
	if (err)
		return err;
	i->victim = k;
	i->kept = inode_ref(directory);
	return 0;
}

void inside_leave(struct inside *i)
{
	leave_victim(i);
	if (i->second)
		leave(i->second, false);
	if (i->first)
		leave(i->first, false);
	*i = (struct inside){ 0 };
}

/* ---- changes ---- */

static bool can_be_opened(const struct inode *inode)
{
	return S_ISDIR(inode->type) || S_ISREG(inode->type);
}

int sync_opened(struct request *rq, struct xlator *x, struct inode *inode)
{
	struct opendir_in opendir = { .inode = inode };
	struct open_in open = { .inode = inode, .flags = O_RDONLY };
	struct open_out out = { 0 }; /* an opendir_out is the same */
	struct fsync_in sync = { 0 };
	struct fsync_out synced = { 0 };
	struct release_out released = { 0 };
	uid_t uid = rq->uid;
	int err;

	rq->uid = 0;
	err = S_ISDIR(inode->type) ? opendir_on(rq, x->child[0], &opendir, (struct opendir_out *)&out)
				   : open_on(rq, x->child[0], &open, &out);
	sync.file = out.file;
	if (!err) {
		err = fsync_on(rq, x->child[0], &sync, &synced);
		release_on(rq, x->child[0], &(struct release_in){ .file = out.file }, &released);
	}
	rq->uid = uid;
	file_unref(out.file);
	return err;
}

/* It is on disk with whatever was changed after it and is synced, for the file system has one journal: so the root is changed a little. */
static int sync_unopened(struct request *rq, struct xlator *x)
{
	cleanup_inode struct inode *root = inode_get(x->inodes, &gfid_root, S_IFDIR);
	struct setattr_in in = { .inode = root, .set.valid = SET_ATIME_NOW };
	struct setattr_out out = { 0 };
	uid_t uid = rq->uid;
	int err = -ENOMEM;

	rq->uid = 0;
	if (root)
		err = setattr_on(rq, x->child[0], &in, &out);
	rq->uid = uid;
	return err ? err : sync_opened(rq, x, root);
}

/* What is about to go gets no more shards. */
static int dies(struct request *rq, struct xlator *x, struct inode *inode)
{
	struct facts f;
	int err = facts_of(rq, x, inode, NULL, &f);

	return err ? err : f.goes ? -EMARKED : 0;
}

/* DHT_LAYOUT_XATTR: to a later version only, -EFENCED; *done: it says so already. Any other xattr passes. */
static int layout_may_change(struct request *rq, struct xlator *x, enum fop fop, struct inode *inode, const void *in,
			     bool *done)
{
	const struct setxattr_in *set = in;
	struct layout now, next;
	struct blob value = { 0 };
	int err;

	if (fop != FOP_setxattr || strcmp(set->name, DHT_LAYOUT_XATTR) != 0)
		return 0;
	if (layout_decode(set->value.bytes, set->value.size, &next))
		return -EINVAL;
	err = read_xattr(rq, x, inode, DHT_LAYOUT_XATTR, &value);
	if (!err && !layout_decode(value.bytes, value.size, &now) && now.version >= next.version) {
		*done = value.size == set->value.size && !memcmp(value.bytes, set->value.bytes, value.size);
		err = *done ? 0 : -EFENCED;
	}
	free(value.bytes);
	err = err == -ENODATA ? 0 : err;
	return err || *done ? err : dies(rq, x, inode);
}

static int judge_change(struct request *rq, struct xlator *x, const struct place *place, enum fop fop, struct inode *inode,
			const void *in, bool *done)
{
	int err;

	if (changes_mark(fop, in))
		return mark_may_change(rq, x, place, fop, inode, in, done);
	err = stub_may_change(rq, x, place, inode, in);
	if (!err)
		err = layout_may_change(rq, x, fop, inode, in, done);
	return err || *done ? err : parent_may_change(rq, x, fop, inode, in, done);
}

static int change_and_sync(struct request *rq, struct xlator *x, struct known *k, enum fop fop, struct inode *inode,
			   const void *in, void *out, bool done)
{
	int err = done ? 0 : fop_call(rq, x->child[0], fop, in, out);

	if (!err)
		err = can_be_opened(inode) ? sync_opened(rq, x, inode) : sync_unopened(rq, x);
	taken_synced(k, err);
	return err;
}

int change_alone(struct request *rq, struct xlator *x, const struct place *place, enum fop fop, struct inode *inode,
		 const void *in, void *out)
{
	struct checks *c = x->private;
	struct known *k = known_of(x, inode);
	bool done = false;
	int err = k ? enter(k, rq->deadline_ns, true) : -ENOMEM;

	if (err)
		return err;
	if (place)
		err = judge_change(rq, x, place, fop, inode, in, &done);
	if (!err)
		err = change_and_sync(rq, x, k, fop, inode, in, out, done);
	pthread_mutex_lock(&k->lock);
	drop(k); /* also when it failed: who knows */
	if (changes_mark(fop, in))
		atomic_fetch_add(mark_changes_of(c, &inode->gfid), 1);
	pthread_mutex_unlock(&k->lock);
	leave(k, true);
	atomic_fetch_add(&c->changes, 1);
	return err;
}
