/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of each object: mode, owner and ACL, kept until a change passes through this translator. */
#include <linux/posix_acl.h>

#include "access.h"

struct node {		      /* slot of an inode */
	pthread_mutex_t lock; /* short; guards both */
	struct facts *facts;
	uint64_t version; /* rises with each change: who loaded before it doesn't store what it loaded */
};

void facts_unref(struct facts *f)
{
	if (f && atomic_fetch_sub(&f->refs, 1) == 1)
		free(f);
}

static struct node *node_of(struct xlator *x, struct inode *inode)
{
	struct node *n = inode_slot(inode, x);

	if (n)
		return n;
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	pthread_mutex_init(&n->lock, NULL);
	if (!inode_slot_set(inode, x, n))
		return n;
	free(n);
	return inode_slot(inode, x);
}

void access_forget_inode(struct xlator *x, struct inode *inode, void *slot)
{
	struct node *n = slot;

	(void)x;
	(void)inode;
	facts_unref(n->facts);
	pthread_mutex_destroy(&n->lock);
	free(n);
}

static struct facts *known(struct node *n, uint64_t *version)
{
	struct facts *f;

	pthread_mutex_lock(&n->lock);
	f = n->facts;
	*version = n->version;
	if (f)
		atomic_fetch_add(&f->refs, 1);
	pthread_mutex_unlock(&n->lock);
	return f;
}

/* Keeps a reference of its own, unless something changed since. */
static void store(struct node *n, struct facts *f, uint64_t version)
{
	struct facts *old = NULL;

	pthread_mutex_lock(&n->lock);
	if (n->version == version) {
		old = n->facts;
		n->facts = f;
		atomic_fetch_add(&f->refs, 1);
	}
	pthread_mutex_unlock(&n->lock);
	facts_unref(old);
}

static struct facts *facts_create(uint32_t mode, uint32_t uid, uint32_t gid, uint32_t entries)
{
	struct facts *f = calloc(1, sizeof(*f) + entries * sizeof(f->entry[0]));

	if (!f)
		return NULL;
	f->refs = 1;
	f->mode = mode;
	f->uid = uid;
	f->gid = gid;
	f->entries = entries;
	return f;
}

static struct facts *load(struct request *rq, struct xlator *x, struct node *n, struct inode *inode, uint64_t version, int *err)
{
	struct access *p = x->private;
	struct getattr_in in = { .inode = inode };
	struct getattr_out out = { 0 };
	struct facts *f;

	atomic_fetch_add_explicit(&p->loads, 1, memory_order_relaxed);
	*err = getattr_on(rq, x->child[0], &in, &out);
	if (*err)
		return NULL;
	f = facts_create(out.attr.mode, out.attr.uid, out.attr.gid, 0);
	if (f)
		store(n, f, version);
	else
		*err = -ENOMEM;
	return f;
}

struct facts *facts_get(struct request *rq, struct xlator *x, struct inode *inode, int *err)
{
	struct node *n = node_of(x, inode);
	struct facts *f;
	uint64_t version;

	*err = n ? 0 : -ENOMEM;
	if (!n)
		return NULL;
	f = known(n, &version);
	return f ? f : load(rq, x, n, inode, version, err);
}

static struct acl_entry entry_at(const struct facts *f, const uint8_t *at)
{
	struct acl_entry e = { at[0] | at[1] << 8, at[2] | at[3] << 8,
			       at[4] | at[5] << 8 | at[6] << 16 | (uint32_t)at[7] << 24 };

	if (e.tag == ACL_GROUP_OBJ)
		e.id = f->gid;
	return e;
}

static int by_id(const void *a, const void *b)
{
	const struct acl_entry *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* Those about groups from the end on, and sorted while nobody else knows the facts: no decision has to search for the others about a
 * group, where they may be thousands. */
static void fill_acl(struct facts *f, const uint8_t *form)
{
	uint32_t others = 0;

	f->first_group = f->entries;
	for (uint32_t i = 0; i < f->entries; i++) {
		struct acl_entry e = entry_at(f, form + 8 * (size_t)i);
		bool group = e.tag == ACL_GROUP_OBJ || e.tag == ACL_GROUP;

		f->entry[group ? --f->first_group : others++] = e;
	}
	qsort(f->entry + f->first_group, f->entries - f->first_group, sizeof(f->entry[0]), by_id);
}

/* The form of the xattr: a version (2), then entries of tag, permissions and id, all little-endian (linux/posix_acl_xattr.h).
 * A form that nobody could have set is an error, for guessing would be worse. */
static struct facts *with_acl(const struct facts *plain, const struct blob *value)
{
	const uint8_t *form = value->bytes;
	uint32_t entries = value->size >= 4 ? (value->size - 4) / 8 : 0;
	struct facts *f;

	if (value->size && (value->size < 4 || (value->size - 4) % 8 || form[0] != 2))
		return NULL;
	f = facts_create(plain->mode, plain->uid, plain->gid, entries);
	if (!f)
		return NULL;
	f->acl_known = true;
	if (entries)
		fill_acl(f, form + 4);
	return f;
}

static struct facts *load_acl(struct request *rq, struct xlator *x, struct inode *inode, const struct facts *plain, int *err)
{
	struct getxattr_in in = { .inode = inode, .name = "system.posix_acl_access" };
	struct getxattr_out out = { 0 };
	struct facts *f;

	*err = getxattr_on(rq, x->child[0], &in, &out);
	if (*err && *err != -ENODATA && *err != -EOPNOTSUPP)
		return NULL;
	*err = 0;
	f = with_acl(plain, &out.value);
	fop_out_clear(FOP_getxattr, &out);
	if (!f)
		*err = -EIO;
	return f;
}

struct facts *facts_get_acl(struct request *rq, struct xlator *x, struct inode *inode, int *err)
{
	struct node *n = node_of(x, inode);
	struct facts *plain, *full;
	uint64_t version;

	*err = n ? 0 : -ENOMEM;
	if (!n)
		return NULL;
	plain = known(n, &version);
	if (!plain)
		plain = load(rq, x, n, inode, version, err);
	if (!plain || plain->acl_known)
		return plain;
	full = load_acl(rq, x, inode, plain, err);
	if (full)
		store(n, full, version);
	facts_unref(plain);
	return full;
}

void facts_learn(struct xlator *x, struct inode *inode, const struct attr *a, uint64_t changes)
{
	struct access *p = x->private;
	struct node *n = inode_slot(inode, x) ? NULL : node_of(x, inode);
	struct facts *f = n ? facts_create(a->mode, a->uid, a->gid, 0) : NULL;
	struct facts *unused = f;

	if (!f)
		return;
	pthread_mutex_lock(&n->lock);
	if (!n->facts && p->changes == changes) {
		n->facts = f;
		unused = NULL;
	}
	pthread_mutex_unlock(&n->lock);
	facts_unref(unused);
}

void facts_forget(struct xlator *x, struct inode *inode)
{
	struct access *p = x->private;
	struct node *n;
	struct facts *old;

	p->changes++; /* before the rest: see facts_learn */
	n = inode_slot(inode, x);
	if (!n)
		return;
	pthread_mutex_lock(&n->lock);
	n->version++;
	old = n->facts;
	n->facts = NULL;
	pthread_mutex_unlock(&n->lock);
	facts_unref(old);
}
