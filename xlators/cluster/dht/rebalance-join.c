/* SPDX-License-Identifier: Apache-2.0 */
/* What is written before and after names are moved: the roots of those that come, and layouts. */
#include "rebalance.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the root of one that comes ---- */

/* Owner, mode and ACLs of the root at one subvolume. */
enum { ACLS = 2 };
static const char *const acl_names[ACLS] = { "system.posix_acl_access", "system.posix_acl_default" };
struct rights {
	struct attr attr;
	struct blob acl[ACLS]; /* no bytes: there is none */
};

static void rights_clear(struct rights *r)
{
	for (int i = 0; i < ACLS; i++)
		free(r->acl[i].bytes);
	*r = (struct rights){ 0 };
}

static int rights_read(struct request *rq, struct xlator *at, struct inode *root, struct rights *r)
{
	struct getattr_in get = { .inode = root };
	struct getattr_out got = { 0 };
	int err = getattr_on(rq, at, &get, &got);

	*r = (struct rights){ .attr = got.attr };
	for (int i = 0; i < ACLS && !err; i++) {
		struct getxattr_in in = { .inode = root, .name = acl_names[i] };
		struct getxattr_out out = { 0 };

		err = getxattr_on(rq, at, &in, &out);
		r->acl[i] = out.value;
		err = err == -ENODATA || err == -EOPNOTSUPP ? 0 : err;
	}
	return err;
}

static bool same_bytes(const struct blob *a, const struct blob *b)
{
	return a->size == b->size && (!a->size || !memcmp(a->bytes, b->bytes, a->size));
}

static bool same_rights(const struct rights *a, const struct rights *b)
{
	return a->attr.mode == b->attr.mode && a->attr.uid == b->attr.uid && a->attr.gid == b->attr.gid &&
	       same_bytes(&a->acl[0], &b->acl[0]) && same_bytes(&a->acl[1], &b->acl[1]);
}

/* The mode at last: an ACL changes it. */
static int rights_write(struct request *rq, struct xlator *at, struct inode *root, const struct rights *r)
{
	struct setattr_in set = { .inode = root,
				  .set = { .valid = SET_MODE | SET_UID | SET_GID,
					   .mode = r->attr.mode & 07777,
					   .uid = r->attr.uid,
					   .gid = r->attr.gid } };
	struct setattr_out done = { 0 };
	int err = 0;

	for (int i = 0; i < ACLS && !err; i++) {
		struct setxattr_in in = { .inode = root, .name = acl_names[i], .value = r->acl[i] };
		struct setxattr_out out = { 0 };
		struct removexattr_in none = { .inode = root, .name = acl_names[i] };
		struct removexattr_out none_out = { 0 };

		err = r->acl[i].size ? setxattr_on(rq, at, &in, &out) : removexattr_on(rq, at, &none, &none_out);
		err = err == -ENODATA || err == -EOPNOTSUPP ? 0 : err;
	}
	return err ? err : setattr_on(rq, at, &set, &done);
}

/* 1: they were the same. */
static int copy_rights(struct request *rq, struct xlator *from, struct xlator *to, struct inode *root)
{
	struct rights home, there;
	int err = rights_read(rq, to, root, &there), second;

	second = rights_read(rq, from, root, &home);
	err = err ? err : second;
	if (!err)
		err = same_rights(&home, &there) ? 1 : rights_write(rq, to, root, &home);
	rights_clear(&home);
	rights_clear(&there);
	return err;
}

/* Until they are seen to be the same: somebody may change them meanwhile, at the home first. */
static int copy_root(struct request *rq, struct rebalance *r, int home, int child)
{
	enum { TRIES = 16 };
	cleanup_inode struct inode *root = root_of(r->d);
	int err = root ? place_say(rq, r->d, &(struct place){ .flags = PLACE_SHARD }) : -ENOMEM;

	for (int tries = 0; tries < TRIES && !err; tries++)
		err = copy_rights(rq, r->d->x->child[home], r->d->x->child[child], root);
	return err > 0 ? 0 : err ? err : -EBUSY;
}

int copy_roots(struct rebalance *r, const struct layout *l)
{
	int err = 0;

	for (unsigned i = 0; i < l->count && !err; i++) {
		struct request rq;

		if (l->member[i].weight || !l->member[i].next)
			continue;
		rebalance_ask(r, &rq, REBALANCE_ASK_NS);
		err = copy_root(&rq, r, (int)l->home, (int)l->member[i].id);
		request_finish(&rq);
		if (err)
			rebalance_problem(r, err, "the root's owner, mode and ACL can't be given to %s: %s",
					  subvolume_name(r, (int)l->member[i].id), strerror(-err));
	}
	return err;
}

/* ---- layouts ---- */

/* At all of the mask at once. -EAGAIN: one has a later one. */
static int write_at(struct rebalance *r, const struct layout *l, uint64_t mask)
{
	cleanup_inode struct inode *root = root_of(r->d);
	uint8_t bytes[LAYOUT_SIZE_MAX];
	struct setxattr_in in = { .inode = root,
				  .name = DHT_LAYOUT_XATTR,
				  .value = { (uint32_t)layout_encode(l, bytes), bytes } };
	struct fanout *f = NULL;
	struct request rq;
	int err;

	rebalance_ask(r, &rq, REBALANCE_ASK_NS);
	err = root ? place_say(&rq, r->d, &(struct place){ 0 }) : -ENOMEM;
	if (!err)
		f = fanout_start(&rq, r->d->x, FOP_setxattr, &in, mask);
	err = f ? 0 : -ENOMEM;
	if (f)
		fanout_wait(f, r->d->x->children, rq.deadline_ns);
	for (int i = 0; f && i < r->d->x->children; i++) {
		int one = 0;

		if (!(mask >> i & 1) || fanout_out(f, i, &one))
			continue;
		one = fanout_error(&rq, one);
		err = one == -EFENCED ? -EAGAIN
				      : rebalance_problem(r, one, "%s does not take the new layout: %s", subvolume_name(r, i),
							  strerror(-one));
	}
	if (f)
		fanout_drop(f);
	request_finish(&rq);
	return err;
}

static uint64_t mask_of(const struct layout *l)
{
	uint64_t mask = 0;

	for (unsigned i = 0; i < l->count; i++)
		mask |= 1ull << l->member[i].id;
	return mask;
}

int layout_push(struct rebalance *r, const struct layout *l)
{
	return write_at(r, l, mask_of(l));
}

int layout_write(struct rebalance *r, const struct layout *l)
{
	uint64_t home = 1ull << l->home;
	int err = MUTANT("bear-home-last") ? write_at(r, l, mask_of(l) & ~home) : 0;

	err = err ? err : write_at(r, l, home);
	return err ? err : write_at(r, l, mask_of(l) & ~home);
}
