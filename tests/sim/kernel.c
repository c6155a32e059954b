/* SPDX-License-Identifier: Apache-2.0 */
/* sim/kernel: above a client's graph, the kernel with mount/fuse as far as they answer without asking: names and attributes that are
 * believed (believe_ms in xlator.h), and how that is taken back. See mount/fuse/fuse-believe.c, whose rules these are, and fs/fuse of Linux:
 *
 * - a directory is locked for changes of names, shared for lookups and listings; who finds a name that is believed locks nothing
 * - one epoch for all names, noted when a LOOKUP is sent, but for listings only when they are taken in
 * - attributes that were asked for before the last change, or before they were taken back, are not taken in; but those of an inode that it
 *   has not got are, for there is nothing by which they could be taken back
 * - attributes are looked at through a name that is believed, or through an open file
 *
 * From the answer until it is taken in some time may pass. */
#include <fcntl.h>

#include "mutant.h"
#include "sim.h"

enum { TAKEN_MS = 3, LATE_TAKEN_MS = 15, SLOW_PPM = 300000, ON_ITS_WAY_MS = 2000 };

struct known { /* slot of an inode */
	struct known *next, **link;
	struct inode *inode;
	struct attr attr;
	uint64_t until, version; /* of the attributes */
	uint64_t asked;		 /* moment at which the mode was asked for */
	uint64_t empty;		 /* moment at which it was made here, and nothing was in it; 0: not known */
	uint64_t new_ns;	 /* when it was last told of it without having it */
	unsigned opens, readers;
	bool writer;
	struct task_cond changed;
};
struct dentry {
	struct dentry *next;
	struct inode *directory, *inode; /* references; no inode: there is none such */
	char name[16];
	uint64_t until, epoch;
};
struct kernel {
	struct xlator *x;
	pthread_mutex_t lock; /* there is one thread: it never waits */
	uint64_t epoch, version;
	struct dentry *dentries;
	struct known *knowns;
};

static struct known *known_of(struct kernel *k, struct inode *inode)
{
	struct known *n = inode_slot(inode, k->x);

	if (n)
		return n;
	n = calloc(1, sizeof(*n));
	n->inode = inode;
	n->next = k->knowns;
	n->link = &k->knowns;
	if (n->next)
		n->next->link = &n->next;
	k->knowns = n;
	inode_slot_set(inode, k->x, n);
	return n;
}

static struct xlator *below(struct kernel *k)
{
	return k->x->child[0];
}

/* ---- locks of directories ---- */

static void hold(struct kernel *k, struct inode *directory, bool alone)
{
	struct known *n = known_of(k, directory);

	task_shield(true);
	pthread_mutex_lock(&k->lock);
	while (n->writer || (alone && n->readers))
		task_cond_wait(&n->changed, &k->lock, NO_DEADLINE);
	n->writer = alone;
	n->readers += !alone;
	pthread_mutex_unlock(&k->lock);
	task_shield(false);
}

static void let_go(struct kernel *k, struct inode *directory)
{
	struct known *n = known_of(k, directory);

	if (n->writer)
		n->writer = false;
	else
		n->readers--;
	task_cond_broadcast(&n->changed);
}

/* ---- names ---- */

static struct dentry **place(struct kernel *k, const struct inode *directory, const char *name)
{
	struct dentry **at = &k->dentries;

	while (*at && ((*at)->directory != directory || strcmp((*at)->name, name)))
		at = &(*at)->next;
	return at;
}

static void drop(struct dentry **at)
{
	struct dentry *d = *at;

	*at = d->next;
	inode_unref(d->directory);
	inode_unref(d->inode);
	free(d);
}

bool kernel_asks;

static bool valid(const struct kernel *k, const struct dentry *d)
{
	return d && !kernel_asks && d->epoch == k->epoch && clock_ns() < d->until;
}

static const struct dentry *believed(struct kernel *k, const struct inode *directory, const char *name)
{
	const struct dentry *d = *place(k, directory, name);

	return valid(k, d) ? d : NULL;
}

static void drop_name(struct kernel *k, const struct inode *directory, const char *name)
{
	struct dentry **at = place(k, directory, name);

	if (*at)
		drop(at);
}

static void drop_old(struct kernel *k)
{
	for (struct dentry **at = &k->dentries; *at;)
		if (valid(k, *at))
			at = &(*at)->next;
		else
			drop(at);
}

static void enter(struct kernel *k, struct inode *directory, const char *name, struct inode *inode, uint64_t epoch, uint64_t ms)
{
	struct dentry *d;

	drop_name(k, directory, name);
	if (!ms)
		return;
	d = calloc(1, sizeof(*d));
	*d = (struct dentry){ .next = k->dentries, .until = clock_ns() + ms * MS, .epoch = epoch };
	d->directory = inode_ref(directory);
	d->inode = inode ? inode_ref(inode) : NULL;
	snprintf(d->name, sizeof(d->name), "%s", name);
	k->dentries = d;
}

/* ---- attributes ---- */

/* What was asked for before is not taken in. */
static void attributes_gone(struct kernel *k, struct inode *inode)
{
	struct known *n = known_of(k, inode);

	n->version = ++k->version;
	n->until = 0;
}

static void take(struct kernel *k, struct inode *inode, const struct attr *attr, uint64_t version, uint64_t ms)
{
	struct known *n = known_of(k, inode);

	if (n->version > version)
		return;
	n->attr = *attr;
	n->until = ms ? clock_ns() + ms * MS : 0;
}

static bool reachable(const struct kernel *k, const struct known *n)
{
	const struct dentry *d = k->dentries;

	while (d && !(d->inode == n->inode && valid(k, d)))
		d = d->next;
	return d || n->opens;
}

/* Is there an inode? Names that are no longer believed keep it, too. */
static bool present(const struct kernel *k, const struct known *n)
{
	const struct dentry *d = k->dentries;

	while (d && d->inode != n->inode)
		d = d->next;
	return d || n->opens;
}

static uint64_t attributes_ms(struct kernel *k, struct inode *inode, const struct attr *attr, enum believe what, uint64_t since)
{
	bool may = since && !S_ISDIR(attr->mode) && attr->nlink == 1;

	if (may && !present(k, known_of(k, inode)))
		known_of(k, inode)->new_ns = clock_ns();
	return may ? believe_ms(below(k), inode, what, since) : 0;
}

static void on_the_way(uint64_t most_ms)
{
	if (chance_of(CHANCE_ORDER, SLOW_PPM))
		task_sleep_ms(chance_below(CHANCE_ORDER, most_ms + 1));
}

/* ---- lookup, getattr, listings ---- */

struct asking { /* how it was when it was sent */
	uint64_t epoch, version, moment;
};
static struct asking asking(struct kernel *k)
{
	return (struct asking){ k->epoch, k->version, moment_now(below(k)) };
}

/* The answer of a lookup, or of the making of something. No inode: there is none such. */
static void learn(struct kernel *k, const struct loc *loc, struct inode *inode, const struct attr *attr, enum believe what,
		  struct asking a)
{
	uint64_t ms = believe_ms(below(k), loc->parent, BELIEVE_NAME, a.moment);
	uint64_t attr_ms = ms && inode && what != BELIEVE_NAME ? attributes_ms(k, inode, attr, what, a.moment) : 0;

	on_the_way(TAKEN_MS);
	enter(k, loc->parent, loc->name, inode, a.epoch, ms);
	if (!inode)
		return;
	take(k, inode, attr, a.version, attr_ms);
	if (S_ISDIR(attr->mode)) {
		known_of(k, inode)->attr = *attr;
		known_of(k, inode)->asked = a.moment;
	}
}

/* As mount/fuse/fuse-names.c has it, of a directory in which nothing was made yet. */
static bool known_empty(struct kernel *k, struct inode *directory)
{
	uint64_t since = known_of(k, directory)->empty;

	return since && !kernel_asks && believe_ms(below(k), directory, BELIEVE_NAMES, since) > 0;
}

static int kernel_lookup(struct request *rq, struct xlator *x, const struct lookup_in *in, struct lookup_out *out)
{
	struct kernel *k = x->private;
	const struct dentry *d;
	struct asking a;
	int err;

	if (!in->loc.name)
		return fop_pass(rq, x, FOP_lookup, in, out);
	drop_old(k);
	d = believed(k, in->loc.parent, in->loc.name);
	if (d && d->inode) {
		out->inode = inode_ref(d->inode);
		out->attr = known_of(k, d->inode)->attr;
	}
	if (d) {
		trace("believed: %s", in->loc.name);
		return d->inode ? 0 : -ENOENT;
	}
	if (known_empty(k, in->loc.parent)) {
		trace("believed: no %s", in->loc.name);
		return -ENOENT;
	}
	hold(k, in->loc.parent, false);
	a = asking(k);
	err = fop_pass(rq, x, FOP_lookup, in, out);
	if (!err || err == -ENOENT)
		learn(k, &in->loc, err ? NULL : out->inode, &out->attr, BELIEVE_ATTR, a);
	let_go(k, in->loc.parent);
	return err;
}

/* Of a directory the mode is looked at each time whether it may be believed. */
static bool mode_believed(struct kernel *k, const struct known *n)
{
	return S_ISDIR(n->inode->type) && believe_ms(below(k), n->inode, BELIEVE_META, n->asked) > 0;
}

static int kernel_getattr(struct request *rq, struct xlator *x, const struct getattr_in *in, struct getattr_out *out)
{
	struct kernel *k = x->private;
	struct inode *inode = in->file ? in->file->inode : in->inode;
	struct known *n = known_of(k, inode);
	struct asking a;
	int err;

	if (mode_believed(k, n) || (clock_ns() < n->until && reachable(k, n))) {
		trace("believed: attributes");
		out->attr = n->attr;
		return 0;
	}
	a = asking(k);
	err = fop_pass(rq, x, FOP_getattr, in, out);
	if (err)
		return err;
	take(k, inode, &out->attr, a.version, 0);
	if (S_ISDIR(inode->type)) {
		n->attr = out->attr;
		n->asked = a.moment;
	}
	return 0;
}

static int kernel_readdir(struct request *rq, struct xlator *x, const struct readdir_in *in, struct readdir_out *out)
{
	struct kernel *k = x->private;
	struct inode *directory = in->file->inode;
	uint64_t ms, version = k->version, *attr_ms;
	int err;

	if (!(in->flags & READDIR_PLUS))
		return fop_pass(rq, x, FOP_readdir, in, out);
	hold(k, directory, false);
	rq->moment = moment_now(below(k));
	err = fop_pass(rq, x, FOP_readdir, in, out);
	ms = err ? 0 : believe_ms(below(k), directory, BELIEVE_NAMES, rq->moment);
	attr_ms = calloc(out->entries.count + 1, sizeof(*attr_ms));
	for (uint32_t i = 0; i < out->entries.count && ms; i++)
		if (out->entries.entry[i].inode)
			attr_ms[i] = attributes_ms(k, out->entries.entry[i].inode, &out->entries.entry[i].attr,
						   BELIEVE_ATTR_LATE, rq->moment);
	if (ms)
		on_the_way(LATE_TAKEN_MS);
	for (uint32_t i = 0; i < out->entries.count && ms; i++) {
		const struct dirent_plus *e = &out->entries.entry[i];

		if (!e->inode)
			continue;
		enter(k, directory, e->name, e->inode, k->epoch, ms);
		take(k, e->inode, &e->attr, version, attr_ms[i]);
	}
	free(attr_ms);
	let_go(k, directory);
	return err;
}

/* ---- names change ---- */

static int open_found(struct request *rq, struct xlator *x, const struct create_in *in, struct inode *inode,
		      struct create_out *out)
{
	struct open_in open = { inode_ref(inode), in->flags & ~(uint32_t)(O_CREAT | O_EXCL) };
	struct open_out opened = { 0 };
	struct kernel *k = x->private;
	int err = S_ISREG(inode->type) ? open_on(rq, below(k), &open, &opened) : S_ISDIR(inode->type) ? -EISDIR : -ENXIO;

	if (err) {
		inode_unref(open.inode);
		return err;
	}
	known_of(k, inode)->opens++;
	*out = (struct create_out){ open.inode, opened.file, known_of(k, inode)->attr };
	return 0;
}

/* What a CREATE finds there already is not believed, for its answer is taken in whatever was taken back since. */
static enum believe as_made(const struct create_in *create, const struct inode *inode)
{
	if (!create)
		return BELIEVE_ATTR;
	return gfid_equal(&create->gfid, &inode->gfid) ? BELIEVE_ATTR_LATE : BELIEVE_NAME;
}

/* All four have the loc first; what they give begins with the inode. */
static int make(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out, const struct attr *attr)
{
	struct kernel *k = x->private;
	const struct loc *loc = in;
	const struct create_in *create = fop == FOP_create ? in : NULL;
	const struct dentry *d;
	struct asking a;
	int err;

	hold(k, loc->parent, true);
	d = believed(k, loc->parent, loc->name);
	if (d && d->inode) {
		err = create && !(create->flags & O_EXCL) ? open_found(rq, x, create, d->inode, out) : -EEXIST;
	} else {
		a = asking(k);
		rq->moment = 0;
		err = fop_pass(rq, x, fop, in, out);
		if (!err && fop == FOP_mkdir && a.moment && rq->moment)
			known_of(k, *(struct inode **)out)->empty = a.moment = rq->moment;
		if (!err) { /* that a process hears of it from elsewhere before its own kernel has taken in the answer is left out */
			drop_name(k, loc->parent, loc->name);
			learn(k, loc, *(struct inode **)out, attr, as_made(create, *(struct inode **)out), a);
		} else if (err == -EEXIST)
			drop_name(k, loc->parent, loc->name);
		if (!err && create)
			known_of(k, *(struct inode **)out)->opens++;
	}
	let_go(k, loc->parent);
	return err;
}

static int kernel_create(struct request *rq, struct xlator *x, const struct create_in *in, struct create_out *out)
{
	return make(rq, x, FOP_create, in, out, &out->attr);
}

static int kernel_mkdir(struct request *rq, struct xlator *x, const struct mkdir_in *in, struct mkdir_out *out)
{
	return make(rq, x, FOP_mkdir, in, out, &out->attr);
}

static int kernel_symlink(struct request *rq, struct xlator *x, const struct symlink_in *in, struct symlink_out *out)
{
	return make(rq, x, FOP_symlink, in, out, &out->attr);
}

static int take_away(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	struct kernel *k = x->private;
	const struct loc *loc = in;
	const struct dentry *d;
	int err;

	hold(k, loc->parent, true);
	d = believed(k, loc->parent, loc->name);
	err = d && !d->inode ? -ENOENT : fop_pass(rq, x, fop, in, out);
	d = *place(k, loc->parent, loc->name);
	if (!err && d && d->inode)
		attributes_gone(k, d->inode);
	if (!err || err == -ENOENT || err == -EINTR)
		drop_name(k, loc->parent, loc->name);
	let_go(k, loc->parent);
	return err;
}

static int kernel_unlink(struct request *rq, struct xlator *x, const struct unlink_in *in, struct unlink_out *out)
{
	return take_away(rq, x, FOP_unlink, in, out);
}

static int kernel_rmdir(struct request *rq, struct xlator *x, const struct rmdir_in *in, struct rmdir_out *out)
{
	return take_away(rq, x, FOP_rmdir, in, out);
}

/* What is believed of the old name is of the new one then. */
static void move(struct kernel *k, const struct rename_in *in)
{
	struct dentry *d;

	d = *place(k, in->to.parent, in->to.name);
	if (d && d->inode)
		attributes_gone(k, d->inode);
	d = *place(k, in->from.parent, in->from.name);
	if (d && d->inode)
		attributes_gone(k, d->inode);
	if (in->from.parent == in->to.parent && !strcmp(in->from.name, in->to.name))
		return;
	drop_name(k, in->to.parent, in->to.name);
	if (!d)
		return;
	inode_unref(d->directory);
	d->directory = inode_ref(in->to.parent);
	snprintf(d->name, sizeof(d->name), "%s", in->to.name);
}

static int kernel_rename(struct request *rq, struct xlator *x, const struct rename_in *in, struct rename_out *out)
{
	struct kernel *k = x->private;
	struct inode *one = in->from.parent, *two = in->to.parent;
	const struct dentry *d;
	int err;

	if (memcmp(one->gfid.bytes, two->gfid.bytes, 16) > 0)
		one = in->to.parent, two = in->from.parent;
	hold(k, one, true);
	if (two != one)
		hold(k, two, true);
	d = believed(k, in->from.parent, in->from.name);
	err = d && !d->inode ? -ENOENT : fop_pass(rq, x, FOP_rename, in, out);
	if (!err)
		move(k, in);
	if (err == -ENOENT || err == -EINTR) {
		drop_name(k, in->from.parent, in->from.name);
		drop_name(k, in->to.parent, in->to.name);
	}
	let_go(k, one);
	if (two != one)
		let_go(k, two);
	return err;
}

static int kernel_link(struct request *rq, struct xlator *x, const struct link_in *in, struct link_out *out)
{
	struct kernel *k = x->private;
	const struct dentry *d;
	int err;

	hold(k, in->loc.parent, true);
	d = believed(k, in->loc.parent, in->loc.name);
	err = d && d->inode ? -EEXIST : fop_pass(rq, x, FOP_link, in, out);
	if (!err)
		attributes_gone(k, in->inode);
	if (!err || err == -EEXIST)
		drop_name(k, in->loc.parent, in->loc.name);
	let_go(k, in->loc.parent);
	return err;
}

/* ---- the rest ---- */

static int kernel_open(struct request *rq, struct xlator *x, const struct open_in *in, struct open_out *out)
{
	struct kernel *k = x->private;
	int err = fop_pass(rq, x, FOP_open, in, out);

	if (err)
		return err;
	if (!reachable(k, known_of(k, in->inode))) /* it would have been looked up */
		attributes_gone(k, in->inode);
	known_of(k, in->inode)->opens++;
	return 0;
}

static int kernel_release(struct request *rq, struct xlator *x, const struct release_in *in, struct release_out *out)
{
	struct known *n = known_of(x->private, in->file->inode);

	if (S_ISREG(n->inode->type))
		n->opens--;
	return fop_pass(rq, x, FOP_release, in, out);
}

static struct inode *changed_by(enum fop fop, const void *in)
{
	const struct setattr_in *set = in;

	switch ((int)fop) {
	case FOP_write:
		return ((const struct write_in *)in)->file->inode;
	case FOP_fallocate:
		return ((const struct fallocate_in *)in)->file->inode;
	case FOP_copy_range:
		return ((const struct copy_range_in *)in)->to->inode;
	case FOP_setattr:
		return set->file ? set->file->inode : set->inode;
	case FOP_setxattr:
		return ((const struct setxattr_in *)in)->inode;
	case FOP_removexattr:
		return ((const struct removexattr_in *)in)->inode;
	default:
		return NULL;
	}
}

static int kernel_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	struct inode *inode = changed_by(fop, in);
	int err = fop_pass(rq, x, fop, in, out);

	if (inode)
		attributes_gone(x->private, inode);
	return err;
}

static void kernel_notify(struct xlator *x, struct xlator *from, const struct event *e)
{
	struct kernel *k = x->private;
	struct known *n;

	(void)from;
	if (e->kind != EVENT_DISBELIEVE || MUTANT("keep-believing"))
		return;
	n = e->inode ? known_of(k, e->inode) : NULL;
	if (n && present(k, n))
		attributes_gone(k, e->inode);
	if (n && !S_ISDIR(e->inode->type)) {
		k->epoch += n->new_ns && clock_ns() < n->new_ns + ON_ITS_WAY_MS * MS;
		return;
	}
	k->epoch++;
	for (n = k->knowns; n; n = n->next)
		if (n->opens)
			attributes_gone(k, n->inode);
}

static int kernel_init(struct xlator *x, struct problem *p)
{
	struct kernel *k = x->private;

	(void)p;
	k->x = x;
	pthread_mutex_init(&k->lock, NULL);
	return 0;
}

static void kernel_forget_inode(struct xlator *x, struct inode *inode, void *slot)
{
	struct known *n = slot;

	(void)x, (void)inode;
	*n->link = n->next;
	if (n->next)
		n->next->link = n->link;
	free(n);
}

const struct xlator_type sim_kernel_type = {
	.api = STRATUS_API_VERSION,
	.name = "sim/kernel",
	.summary = "what a kernel believes without asking",
	.private_size = sizeof(struct kernel),
	.min_children = 1,
	.max_children = 1,
	.init = kernel_init,
	.notify = kernel_notify,
	.forget_inode = kernel_forget_inode,
	.any = kernel_any,
	.lookup = kernel_lookup,
	.getattr = kernel_getattr,
	.readdir = kernel_readdir,
	.create = kernel_create,
	.mkdir = kernel_mkdir,
	.symlink = kernel_symlink,
	.unlink = kernel_unlink,
	.rmdir = kernel_rmdir,
	.rename = kernel_rename,
	.link = kernel_link,
	.open = kernel_open,
	.release = kernel_release,
};
