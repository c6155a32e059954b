/* SPDX-License-Identifier: Apache-2.0 */
/* The root, and other directories that are at several subvolumes: each has a shard, with the same owner, mode and ACL. What is changed of them is changed at
 * all, one after the other; user xattrs are at the home. */
#include "dht.h"

#define TAKE_BACK_NS 30000000000u /* a subvolume that hangs must not keep all others' changes of the root waiting */

static int home_of(struct dht *d, const struct inode *dir)
{
	return (int)spread_in(d, dir)->layout.home;
}

/* ---- one and the same fop at several, at once ---- */

/* NULL: no memory. *err: 0 if one has succeeded at least, else what they said. */
static struct fanout *ask(struct request *rq, struct dht *d, enum fop fop, const void *in, uint64_t mask, int *err)
{
	struct fanout *f = fanout_start(rq, d->x, fop, in, mask);

	*err = f ? 0 : -ENOMEM;
	if (!f || fanout_wait(f, d->x->children, rq->deadline_ns))
		return f;
	for (int i = 0; i < d->x->children && !*err; i++)
		if (mask >> i & 1)
			fanout_out(f, i, err);
	*err = fanout_error(rq, *err);
	return f;
}

/* ---- attributes ---- */

static void latest(struct time *to, const struct time *from)
{
	if (from->sec > to->sec || (from->sec == to->sec && from->nsec > to->nsec))
		*to = *from;
}

static void join(struct attr *to, const struct attr *from)
{
	to->size += from->size;
	to->blocks += from->blocks;
	to->nlink = to->nlink < 2 || from->nlink < 2 ? 1 : to->nlink + from->nlink - 2; /* some file systems do not count */
	to->flags &= from->flags;
	latest(&to->atime, &from->atime);
	latest(&to->mtime, &from->mtime);
	latest(&to->ctime, &from->ctime);
}

/* A brick's directory may have been there before the volume, with another mode. */
static void compare(struct dht *d, const struct attr *a, const struct attr *b, int child)
{
	if ((a->mode == b->mode && a->uid == b->uid && a->gid == b->gid) || atomic_exchange(&d->differ, true))
		return;
	log_warning(d->x, NULL,
		    "owner or mode of a directory differ: %o of %u:%u, but %o of %u:%u at %s; chown and chmod make them equal",
		    a->mode & 07777, a->uid, a->gid, b->mode & 07777, b->uid, b->gid, d->x->child[child]->name);
}

/* Whose a directory is, its mode and birth: what the home has (others know no birth but that of their shard). Who knows an older layout than who has changed them asks others, too, which have left since, and were not told. (If the home
 * itself has left it refuses.) */
static int as_home_says(struct attr *attr, const struct getattr_out *home, int err)
{
	attr->btime = home ? home->attr.btime : (struct time){ 0 };
	if (!home)
		return err == -ESTALE || err == -ENOENT ? -ESTALE : 0; /* the others are about to go */
	attr->mode = home->attr.mode;
	attr->uid = home->attr.uid;
	attr->gid = home->attr.gid;
	return 0;
}

int shards_getattr(struct request *rq, struct dht *d, struct inode *dir, struct attr *attr)
{
	struct getattr_in in = { .inode = dir };
	uint64_t mask = members_present_in(d, dir);
	struct fanout *f;
	uint32_t uncounted = 0; /* directories that no mount shows */
	bool any = false, refused = false;
	int err, gone = 0;

	shards_reach(rq, d, dir);
	f = ask(rq, d, FOP_getattr, &in, mask, &err);
	for (int i = 0; i < d->x->children && !err; i++) {
		const struct getattr_out *out = NULL;
		int why = 0;

		if (mask >> i & 1)
			out = fanout_out(f, i, &why);
		refused |= why == -ELAYOUT; /* the layout has changed: there may be others, too */
		if (out && any)
			compare(d, attr, &out->attr, i);
		uncounted += out && is_root(dir) && atomic_load(&d->has_hidden) >> i & 1;
		if (out && any)
			join(attr, &out->attr);
		else if (out)
			*attr = out->attr;
		any |= out != NULL;
	}
	if (!err && refused)
		err = -ELAYOUT;
	if (!err && mask >> home_of(d, dir) & 1)
		err = as_home_says(attr, fanout_out(f, home_of(d, dir), &gone), gone);
	fanout_drop(f);
	attr->flags &= ~(uint32_t)ATTR_WIDE; /* which is between the brick and this one */
	if (!err && attr->nlink >= 2 + uncounted)
		attr->nlink -= uncounted;
	return err;
}

static int shards_lookup(struct request *rq, struct dht *d, struct inode *dir, struct lookup_out *out)
{
	int err = shards_getattr(rq, d, dir, &out->attr);

	if (!err)
		out->inode = inode_ref(dir);
	return err;
}

/* ---- statfs ---- */

static uint64_t in_units(uint64_t blocks, uint64_t from, uint64_t to)
{
	return (uint64_t)((unsigned __int128)blocks * from / to);
}

static void add_space(struct statfs *to, const struct statfs *from)
{
	uint64_t unit = from->frsize ? from->frsize : to->frsize;

	to->blocks += in_units(from->blocks, unit, to->frsize);
	to->bfree += in_units(from->bfree, unit, to->frsize);
	to->bavail += in_units(from->bavail, unit, to->frsize);
	to->files += from->files;
	to->ffree += from->ffree;
	to->namemax = from->namemax < to->namemax ? from->namemax : to->namemax;
}

/* Of all that are present: what is not there can't be used. */
int dht_statfs(struct request *rq, struct xlator *x, const struct statfs_in *in, struct statfs_out *out)
{
	struct dht *d = x->private;
	cleanup_inode struct inode *root = root_of(d);
	struct statfs_in at_root = { .inode = root };
	uint64_t mask = members_present(d);
	struct statfs sum = { 0 };
	struct fanout *f;
	int err;

	if (!root)
		return -ENOMEM;
	f = ask(rq, d, FOP_statfs, &at_root, mask, &err);
	for (int i = 0; i < x->children && !err; i++) {
		const struct statfs_out *one = NULL;
		int ignored;

		if (mask >> i & 1)
			one = fanout_out(f, i, &ignored);
		if (one && sum.frsize)
			add_space(&sum, &one->statfs);
		else if (one) {
			sum = one->statfs;
			sum.frsize = sum.frsize ? sum.frsize : 4096;
		}
	}
	fanout_drop(f);
	if (!err && in->inode && !is_root(in->inode))
		quota_show(rq, x, in->inode, &sum);
	out->statfs = sum;
	return err;
}

/* ---- changes, at all subvolumes ---- */

struct before { /* a change, and how to take it back */
	struct attr attr;
	uint32_t valid;	   /* of what: SET_MODE, ... */
	const char *acl;   /* or NULL */
	struct blob value; /* that it had */
	bool had;
};

static int look(struct request *rq, struct dht *d, struct inode *dir, struct before *b)
{
	struct getattr_in in = { .inode = dir };
	struct getattr_out out = { 0 };
	struct getxattr_in in_acl = { .inode = dir, .name = b->acl };
	struct getxattr_out acl = { 0 };
	struct xlator *at = d->x->child[home_of(d, dir)];
	int err = getattr_on(rq, at, &in, &out);

	b->attr = out.attr;
	if (err || !b->acl)
		return err;
	err = getxattr_on(rq, at, &in_acl, &acl);
	b->had = !err;
	b->value = acl.value;
	return err == -ENODATA ? 0 : err;
}

static int take_back_acl(struct request *rq, struct xlator *child, struct inode *dir, const struct before *b)
{
	struct setxattr_in in = { .inode = dir, .name = b->acl, .value = b->value };
	struct removexattr_in none = { .inode = dir, .name = b->acl };
	struct removexattr_out out_none = { 0 };
	struct setxattr_out out = { 0 };

	return b->had ? setxattr_on(rq, child, &in, &out) : removexattr_on(rq, child, &none, &out_none);
}

/* As root, and not as who made the change: that may not be allowed to give away what was his. */
static void take_back(struct dht *d, int child, struct inode *dir, const struct before *b)
{
	struct setattr_in in = {
		.inode = dir, .set = { .valid = b->valid, .mode = b->attr.mode & 07777, .uid = b->attr.uid, .gid = b->attr.gid }
	};
	struct setattr_out out = { 0 };
	struct request rq;
	int err = 0;

	request_init(&rq, d->x->graph, 0);
	rq.group_count = 0;
	rq.deadline_ns = clock_ns() + TAKE_BACK_NS;
	err = place_say_in(&rq, d, dir);
	if (!err)
		err = place_say(&rq, d, &(struct place){ .flags = PLACE_SHARD });
	if (!err && b->acl)
		err = take_back_acl(&rq, d->x->child[child], dir, b);
	if (b->valid && (!err || err == -ENODATA))
		err = setattr_on(&rq, d->x->child[child], &in, &out);
	request_finish(&rq);
	if (err)
		log_error(
			d->x, NULL,
			"a directory's mode, owner or ACL could be changed at some subvolumes only, and not back at %s: %s; set them again",
			d->x->child[child]->name, error_text(err));
}

/* Members only: who comes gets what they have by then. Those that are down are asked first: if one can't do it, little has been done. */
static unsigned in_order(const struct request *rq, struct dht *d, const struct inode *dir, int order[SUBVOLUMES_MAX])
{
	uint64_t down = atomic_load(&d->down), members = spread_said(rq, d, dir)->members;
	unsigned n = 0;

	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < d->x->children; i++)
			if (members >> i & 1 && (down >> i & 1) == (pass == 0))
				order[n++] = i;
	return n;
}

static int change_each(struct request *rq, struct dht *d, enum fop fop, const void *in, struct inode *dir,
		       const struct before *b)
{
	int order[SUBVOLUMES_MAX], err = 0;
	unsigned n = in_order(rq, d, dir, order), done = 0;

	while (done < n && !err) {
		union {
			struct setattr_out setattr;
			struct setxattr_out setxattr;
			struct removexattr_out removexattr;
		} out = { 0 };

		err = shard_reach(rq, d, dir, order[done]);
		if (!err)
			err = fop_call(rq, d->x->child[order[done]], fop, in, &out);
		done += !err;
	}
	if (!err)
		return 0;
	task_shield(true);
	while (done-- > 0)
		take_back(d, order[done], dir, b);
	task_shield(false);
	return err;
}

static int change_all(struct request *rq, struct dht *d, struct inode *dir, enum fop fop, const void *in, struct before *b)
{
	int err = spread_said(rq, d, dir)->lacks ? subvolume_lacking(d) : task_lock(&d->changing, rq->deadline_ns);

	if (err)
		return err;
	err = look(rq, d, dir, b);
	if (!err)
		err = place_say(rq, d, &(struct place){ .flags = PLACE_SHARD }); /* of each by itself */
	if (!err)
		err = change_each(rq, d, fop, in, dir, b);
	place_say(rq, d, &(struct place){ 0 });
	task_unlock(&d->changing);
	free(b->value.bytes);
	return err;
}

static int shards_setattr(struct request *rq, struct dht *d, struct inode *dir, const struct setattr_in *in,
			  struct setattr_out *out)
{
	struct setattr_in by_inode = { .inode = dir, .set = in->set };
	struct before b = { .valid = in->set.valid & (SET_MODE | SET_UID | SET_GID) };
	int err;

	if (b.valid)
		b.valid |= SET_MODE; /* who gives it away may lose S_ISGID */
	err = change_all(rq, d, dir, FOP_setattr, &by_inode, &b);
	return err ? err : shards_getattr(rq, d, dir, &out->attr);
}

/* ---- extended attributes ---- */

static bool is_acl(const char *name)
{
	return !strcmp(name, "system.posix_acl_access") || !strcmp(name, "system.posix_acl_default");
}

static int shards_setxattr(struct request *rq, struct dht *d, struct inode *dir, enum fop fop, const void *in, const char *name,
			   void *out)
{
	struct before b = { .valid = SET_MODE, .acl = name };

	return is_acl(name) ? change_all(rq, d, dir, fop, in, &b) : fop_call(rq, d->x->child[home_of(d, dir)], fop, in, out);
}

/* ---- what one can answer for all ---- */

/* At the home, or the first that can be reached: mode, owner and ACL are the same at all. */
static int anywhere(struct request *rq, struct dht *d, struct inode *dir, enum fop fop, const void *in, void *out)
{
	uint64_t mask = members_present_in(d, dir);
	int home = home_of(d, dir), err = -ENOTCONN;

	for (int i = -1; i < d->x->children && unreached(err); i++) {
		int at = i < 0 ? home : i;

		if (i != home && mask >> at & 1 && !(err = shard_reach(rq, d, dir, at)))
			err = fop_call(rq, d->x->child[at], fop, in, out);
	}
	return err;
}

static int shards_fsync(struct request *rq, struct dht *d, struct inode *dir, const struct fsync_in *in, struct fsync_out *out)
{
	uint64_t members = spread_in(d, dir)->members;
	int err = 0;

	for (int i = 0; i < d->x->children && !err; i++) {
		cleanup_file struct file *at = NULL;
		struct fsync_in one = { .datasync = in->datasync };

		if (!(members >> i & 1))
			continue;
		err = wide_at(rq, d, in->file, i, &at);
		one.file = at;
		if (!err)
			err = fsync_on(rq, d->x->child[i], &one, out);
	}
	return err;
}

/* At the home, with its own file in place of ours. */
static int at_home(struct request *rq, struct dht *d, struct inode *dir, enum fop fop, const void *in, void *out)
{
	const struct fop_info *info = &fop_info[fop];
	cleanup_file struct file *at = NULL;
	int home = home_of(d, dir);
	void *copy = malloc(info->in_size);
	int err = copy ? 0 : -ENOMEM;

	if (copy)
		memcpy(copy, in, info->in_size);
	for (const struct field *f = info->in; f->name && !err; f++) {
		struct file **file = (struct file **)((char *)copy + f->offset);

		if (f->kind != FIELD_FILE || !*file)
			continue;
		if (!at)
			err = wide_at(rq, d, *file, home, &at);
		*file = at;
	}
	if (!err)
		err = fop_call(rq, d->x->child[home], fop, copy, out);
	free(copy);
	return err;
}

static int shards_do(struct request *rq, struct dht *d, struct inode *dir, enum fop fop, const void *in, void *out)
{
	switch (fop) {
	case FOP_lookup:
		return shards_lookup(rq, d, dir, out);
	case FOP_getattr:
		return shards_getattr(rq, d, dir, &((struct getattr_out *)out)->attr);
	case FOP_setattr:
		return shards_setattr(rq, d, dir, in, out);
	case FOP_setxattr:
		return shards_setxattr(rq, d, dir, fop, in, ((const struct setxattr_in *)in)->name, out);
	case FOP_removexattr:
		return shards_setxattr(rq, d, dir, fop, in, ((const struct removexattr_in *)in)->name, out);
	case FOP_access:
		return anywhere(rq, d, dir, fop, in, out);
	case FOP_getxattr:
		return is_acl(((const struct getxattr_in *)in)->name) ? anywhere(rq, d, dir, fop, in, out)
								      : at_home(rq, d, dir, fop, in, out);
	case FOP_opendir:
		return wide_opendir(rq, d, dir, out);
	case FOP_readdir:
		return wide_readdir(rq, d, in, out);
	case FOP_fsync:
		return shards_fsync(rq, d, dir, in, out);
	default:
		return at_home(rq, d, dir, fop, in, out);
	}
}

int shards_fop(struct request *rq, struct dht *d, struct inode *dir, enum fop fop, const void *in, void *out)
{
	cleanup_inode struct inode *root = dir ? NULL : root_of(d);

	return dir || root ? shards_do(rq, d, dir ? dir : root, fop, in, out) : -ENOMEM;
}
