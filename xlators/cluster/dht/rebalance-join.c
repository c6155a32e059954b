/* SPDX-License-Identifier: Apache-2.0 */
/* What is written before and after names are moved: the roots of those that come, and layouts. */
#include "rebalance.h"

#include <errno.h>
#include <string.h>

/* ---- the root of one that comes ---- */

static int copy_acl(struct request *rq, struct inode *root, struct xlator *from, struct xlator *to, const char *name)
{
	struct getxattr_in get = { .inode = root, .name = name };
	struct getxattr_out got = { 0 };
	struct setxattr_in set = { .inode = root, .name = name };
	struct setxattr_out done = { 0 };
	struct removexattr_in none = { .inode = root, .name = name };
	struct removexattr_out none_done = { 0 };
	int err = getxattr_on(rq, from, &get, &got);

	if (err == -EOPNOTSUPP)
		return 0;
	set.value = got.value;
	if (!err)
		err = setxattr_on(rq, to, &set, &done);
	else if (err == -ENODATA)
		err = removexattr_on(rq, to, &none, &none_done);
	fop_out_clear(FOP_getxattr, &got);
	return err == -ENODATA || err == -EOPNOTSUPP ? 0 : err;
}

/* Owner, mode and ACL as the home has them. */
static int copy_root_once(struct request *rq, struct rebalance *r, int home, int child, struct attr *copied)
{
	cleanup_inode struct inode *root = root_of(r->d);
	struct xlator *from = r->d->x->child[home], *to = r->d->x->child[child];
	struct getattr_in get = { .inode = root };
	struct getattr_out got = { 0 };
	struct setattr_in set = { .inode = root };
	struct setattr_out done = { 0 };
	int err = root ? place_say(rq, r->d, &(struct place){ .flags = PLACE_SHARD }) : -ENOMEM;

	if (!err)
		err = getattr_on(rq, from, &get, &got);
	if (!err)
		err = copy_acl(rq, root, from, to, "system.posix_acl_access");
	if (!err)
		err = copy_acl(rq, root, from, to, "system.posix_acl_default");
	set.set.valid = SET_MODE | SET_UID | SET_GID;
	set.set.mode = got.attr.mode & 07777;
	set.set.uid = got.attr.uid;
	set.set.gid = got.attr.gid;
	*copied = got.attr;
	return err ? err : setattr_on(rq, to, &set, &done);
}

static bool same_rights(const struct attr *a, const struct attr *b)
{
	return a->mode == b->mode && a->uid == b->uid && a->gid == b->gid;
}

/* Until it is still so: who changes them meanwhile may have been here before us. */
static int copy_root(struct request *rq, struct rebalance *r, int home, int child)
{
	enum { TRIES = 16 };
	struct attr before = { 0 }, now = { 0 };
	int err = copy_root_once(rq, r, home, child, &now);

	for (int tries = 0; tries < TRIES && !err && !(tries && same_rights(&before, &now)); tries++) {
		before = now;
		err = copy_root_once(rq, r, home, child, &now);
	}
	return err;
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
