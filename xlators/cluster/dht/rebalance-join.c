/* SPDX-License-Identifier: Apache-2.0 */
/* What is written before and after names are moved: the shards of those that come, and layouts. */
#include "rebalance.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the shard of one that comes ---- */

/* Owner, mode and ACLs of the directory at one subvolume. */
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

/* What no layout names yet is meant as it stands there. */
static int sync_shard(struct rebalance *r, int child)
{
	struct request rq;
	int err;

	rebalance_ask(r, &rq, REBALANCE_ASK_NS);
	err = place_say(&rq, r->d, &(struct place){ .flags = PLACE_SHARD | PLACE_HERE });
	if (!err)
		err = directory_sync(&rq, r->d, child, r->dir);
	request_finish(&rq);
	return err;
}

/*
 * Until they are seen to be the same: somebody may change them meanwhile, at the home first. And that is seen after the shard is on disk (P5): a layout
 * that is written names it then, and nobody would make it again.
 */
static int copy_shard(struct request *rq, struct rebalance *r, int home, int child)
{
	enum { TRIES = 16 };
	bool synced = false;
	int err = place_say_in(rq, r->d, r->dir);

	if (!err)
		err = place_say(rq, r->d, &(struct place){ .flags = PLACE_SHARD });
	for (int tries = 0; tries < TRIES && !err; tries++) {
		bool same;

		err = copy_rights(rq, r->d->x->child[home], r->d->x->child[child], r->dir);
		same = err > 0;
		if (same && !synced && !MUTANT("name-unsynced-shard"))
			err = sync_shard(r, child);
		synced = same;
	}
	return err > 0 ? 0 : err ? err : -EBUSY;
}

int home_until(const struct layout *l)
{
	const struct layout_member *home = layout_find(l, l->home);

	for (unsigned i = 0; i < l->count && !home->weight; i++)
		home = l->member[i].weight ? &l->member[i] : home;
	return (int)home->id;
}

int copy_shards(struct rebalance *r, const struct layout *l)
{
	int err = 0;

	for (unsigned i = 0; i < l->count && !err; i++) {
		struct request rq;

		if (l->member[i].weight || !l->member[i].next)
			continue;
		rebalance_ask(r, &rq, REBALANCE_ASK_NS);
		err = copy_shard(&rq, r, home_until(l), (int)l->member[i].id);
		request_finish(&rq);
		if (err)
			rebalance_problem(r, err, "the directory's owner, mode and ACL can't be given to %s: %s",
					  subvolume_name(r, (int)l->member[i].id), error_text(err));
	}
	return err;
}

/* ---- layouts ---- */

/* At all of the mask at once. -EAGAIN: one has a later one. */
static int write_at(struct rebalance *r, const struct layout *l, uint64_t mask)
{
	uint8_t bytes[LAYOUT_SIZE_MAX];
	struct setxattr_in in = { .inode = r->dir,
				  .name = DHT_LAYOUT_XATTR,
				  .value = { (uint32_t)layout_encode(l, bytes), bytes } };
	struct fanout *f = NULL;
	struct request rq;
	int err;

	rebalance_ask(r, &rq, REBALANCE_ASK_NS);
	err = place_say_in(&rq, r->d, r->dir);
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
		err = one == -EFENCED || one == -EMARKED ? -EAGAIN
							 : rebalance_problem(r, one, "%s does not take the new layout: %s",
									     subvolume_name(r, i), error_text(one));
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

/* What a root has says so; a shard elsewhere tells itself. */
static int home_had(struct request *rq, struct rebalance *r, const struct layout *has, int *at)
{
	if (!is_root(r->dir))
		return home_of_shard(rq, r->d, r->dir, at);
	*at = (int)has->home;
	return has_subvolume(r->d, has->home) ? 0 : -EIO;
}

/* From where the home moves by that layout; -1: it does not, or has done so. Its new shard says where the home is as long as it is not that itself. */
static int home_before(struct rebalance *r, const struct layout *l, int *before)
{
	struct getxattr_in in = { .inode = r->dir, .name = DHT_LAYOUT_XATTR };
	struct getxattr_out out = { 0 };
	struct layout has = { 0 };
	struct request rq;
	int at = (int)l->home, err;

	*before = -1;
	if (!l->moving)
		return 0;
	rebalance_ask(r, &rq, REBALANCE_ASK_NS);
	err = place_say_in(&rq, r->d, r->dir);
	if (!err)
		err = getxattr_on(&rq, r->d->x->child[l->home], &in, &out);
	if (!err && layout_decode(out.value.bytes, out.value.size, &has))
		err = -EIO;
	if (err == -ENODATA && is_root(r->dir))
		layout_implied(&has, (uint32_t)r->d->initial_from, 1);
	if (!err || err == -ENODATA)
		err = has.version >= l->version ? 0 : home_had(&rq, r, &has, &at);
	*before = at == (int)l->home ? -1 : at;
	fop_out_clear(FOP_getxattr, &out);
	request_finish(&rq);
	return err;
}

bool directory_has_gone(struct rebalance *r, int home)
{
	struct getattr_in in = { .inode = r->dir };
	struct getattr_out out = { 0 };
	struct request rq;
	int err;

	rebalance_ask(r, &rq, REBALANCE_ASK_NS);
	err = place_say_newest(&rq, r->d);
	if (!err)
		err = getattr_on(&rq, r->d->x->child[home], &in, &out);
	request_finish(&rq);
	return err == -ESTALE || err == -ENOENT || (!err && !out.attr.nlink);
}

/* A directory in which names begin to move: who has it open there may have kept it from being known that it was removed, so that it took the layout. If it is there
 * after it has taken that it stays, for nobody removes what is in a transition: so no shard elsewhere has a layout of a directory that is not there. */
static int write_first(struct rebalance *r, const struct layout *l, int home)
{
	int err = write_at(r, l, 1ull << home);

	return err || !l->moving || is_root(r->dir) || !directory_has_gone(r, home) ? err : -ESTALE;
}

/* The mark of `/moves` is at the root's home: nobody sets it where that was any more, and who has it still ends before others set it where the home is by now. */
static int wait_for_moves(struct rebalance *r, int before)
{
	uint64_t hash = mark_hash(MARK_MOVES);
	struct request rq;
	struct mark m;
	int err;

	rebalance_ask(r, &rq, REBALANCE_ASK_NS);
	err = place_say_newest(&rq, r->d);
	if (!err)
		err = mark_of(&rq, r->d, before, r->dir, hash, &m);
	if (!err)
		err = mark_end_left_over(&rq, r->d, before, r->dir, hash);
	request_finish(&rq);
	return err == -ENODATA ? 0 : err == -EMARKED ? -EAGAIN : err;
}

/* Where the directory's own xattrs are nobody changes them by that layout, and by the one before nobody does when the old home has it. */
static int move_home(struct rebalance *r, const struct layout *l, int before)
{
	int err = write_first(r, l, before);
	struct request rq;

	if (!err && is_root(r->dir))
		err = wait_for_moves(r, before);
	if (err)
		return err;
	rebalance_ask(r, &rq, REBALANCE_ASK_NS);
	err = MUTANT("leave-xattrs") ? 0 : copy_home(&rq, r->d, r->dir, before, (int)l->home);
	request_finish(&rq);
	return err ? rebalance_problem(r, err, "a directory's extended attributes can't be copied from %s to %s: %s",
				       subvolume_name(r, before), subvolume_name(r, (int)l->home), error_text(err))
		   : 0;
}

int layout_push(struct rebalance *r, const struct layout *l)
{
	int before, err = home_before(r, l, &before);

	return err ? err : before < 0 ? write_at(r, l, mask_of(l)) : layout_write(r, l);
}

int layout_tell(struct rebalance *r, const struct layout *l, int child)
{
	return write_at(r, l, 1ull << child);
}

void tell_leavers(struct rebalance *r, const struct layout *moving, const struct layout *settled)
{
	uint64_t left = mask_of(moving) & ~mask_of(settled);

	if (left)
		write_at(r, settled, left);
}

int layout_write(struct rebalance *r, const struct layout *l)
{
	uint64_t home = 1ull << l->home;
	int before = -1, err = home_before(r, l, &before);

	if (!err && before >= 0)
		err = move_home(r, l, before);
	if (!err && MUTANT("bear-home-last"))
		err = write_at(r, l, mask_of(l) & ~home);
	if (!err)
		err = before < 0 ? write_first(r, l, (int)l->home) : write_at(r, l, home);
	return err ? err : write_at(r, l, mask_of(l) & ~home);
}
