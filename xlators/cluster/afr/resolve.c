/* SPDX-License-Identifier: Apache-2.0 */
/* Resolving: an object is made known to a member that has not shown it yet, by its names. */
#include "afr.h"

/* One search. What could not be found is not looked for again on another way, of which there are as many as the members tell names, for
 * each directory above; and all of it ends when a member has had its time. */
enum { FAILED_MAX = 128, DEPTH_MAX = 128 };
struct resolving {
	struct afr *a;
	int child;
	uint64_t deadline;
	struct gfid failed[FAILED_MAX]; /* the youngest of them */
	unsigned count;			/* of all */
};

static struct gfid *failed_before(struct resolving *r, const struct inode *inode)
{
	for (unsigned i = 0; i < r->count && i < FAILED_MAX; i++)
		if (gfid_equal(&r->failed[i], &inode->gfid))
			return &r->failed[i];
	return NULL;
}

static void note_failed(struct resolving *r, const struct inode *inode)
{
	if (!failed_before(r, inode))
		r->failed[r->count++ % FAILED_MAX] = inode->gfid;
}

static void forget_failed(struct resolving *r, const struct inode *inode)
{
	struct gfid *at = failed_before(r, inode);

	if (at)
		*at = (struct gfid){ 0 };
}

/* *lost: the member does not know the parent any more as it was told of it. */
static int look_for(struct resolving *r, const struct loc *loc, struct inode *inode, bool *lost)
{
	struct afr *a = r->a;
	struct replica_stamp stamp = { .flags = REPLICA_READ };
	struct lookup_in in = { .loc = *loc };
	struct lookup_out out = { 0 };
	struct request own;
	int err;

	own_request(a, &own);
	err = stamp_attach(&own, &stamp);
	if (!err)
		err = lookup_on(&own, a->x->child[r->child], &in, &out);
	request_finish(&own);
	*lost = err == -ESTALE;
	if (!err && out.inode)
		object_seen(a, out.inode, r->child, NULL, NULL);
	if (!err && out.inode != inode)
		err = -ESTALE;
	fop_out_clear(FOP_lookup, &out);
	return err == -ENOENT ? -ESTALE : err;
}

static int look(struct resolving *r, struct inode *parent, const char *name, struct inode *inode, bool *lost)
{
	return look_for(r, &(struct loc){ .parent = parent, .name = name }, inode, lost);
}

/* In a graph that has taken another's place nobody has looked up what was in use before; but the connection to the member may be the same, and
 * know it. */
static int look_as_before(struct resolving *r, struct inode *inode)
{
	bool ignored;

	return look_for(r, &(struct loc){ .inode = inode }, inode, &ignored);
}

static int resolve(struct resolving *, struct inode *, unsigned depth);

static int by_name(struct resolving *r, struct inode *inode, struct inode *parent, const char *name, unsigned depth)
{
	int err = resolve(r, parent, depth + 1);
	bool lost = false;

	if (err == -ENOENT) /* the directory has no name any more: that does not mean that the object has none */
		return -ESTALE;
	if (!err)
		err = look(r, parent, name, inode, &lost);
	if (!lost || gfid_equal(&parent->gfid, &gfid_root))
		return err;
	atomic_fetch_and(&object_of(r->a, parent)->known, ~(1u << r->child)); /* it was healed anew there: names lead to it */
	forget_failed(r, parent);
	err = resolve(r, parent, depth + 1);
	return err == -ENOENT ? -ESTALE : err ? err : look(r, parent, name, inode, &lost);
}

static int by_hint(struct resolving *r, struct inode *inode, struct object *o, unsigned depth)
{
	cleanup_inode struct inode *parent = NULL;
	char name[256] = "";

	pthread_mutex_lock(&o->lock);
	if (o->parent && o->name) {
		parent = inode_ref(o->parent);
		snprintf(name, sizeof(name), "%s", o->name);
	}
	pthread_mutex_unlock(&o->lock);
	return parent ? by_name(r, inode, parent, name, depth) : -ESTALE;
}

/* One name out of the list: 0 and the parent's inode. */
static int next_link(struct afr *a, struct unpack *u, struct inode **parent, char name[256])
{
	struct gfid g = unpack_gfid(u);
	size_t length = unpack_u8(u);

	unpack_bytes(u, name, length);
	name[length] = '\0';
	if (u->failed || name_check(name))
		return -ESTALE;
	*parent = inode_get(a->x->inodes, &g, S_IFDIR);
	return *parent ? 0 : -ENOMEM;
}

/* By its gfid, which the member may have in use. DIRECTORY: or in its index; UNLINKED: and it has no name there any more. */
static int by_gfid(struct afr *a, struct inode *inode, int child, enum replica_verb verb)
{
	struct replica_out out = { 0 };
	struct pack p = { 0 };
	int err;

	pack_named(a, &p, &inode->gfid);
	err = afr_ask(a, child, verb, NULL, &p, clock_ns() + VERB_NS, &out);
	if (!err && out.inode == inode)
		object_seen(a, inode, child, NULL, NULL);
	else if (!err)
		err = -ESTALE;
	fop_out_clear(FOP_replica, &out);
	return err;
}

/* The names that a member tells of the object, which it may know by its gfid only. */
static int links_at(struct afr *a, struct inode *inode, int from, bool known, struct blob *links)
{
	uint64_t deadline = clock_ns() + a->member_timeout_ms * 1000000;
	struct pack p = { 0 };

	if (known)
		return afr_verb(a, from, REPLICA_LINKS, inode, NULL, deadline, links);
	pack_named(a, &p, &inode->gfid);
	return afr_verb(a, from, REPLICA_NAMES, NULL, &p, deadline, links);
}

/* Along the names that the member `from` tells. -ENOENT: it has none. */
static int by_links_of(struct resolving *r, struct inode *inode, int from, bool known, unsigned depth, bool *named)
{
	struct afr *a = r->a;
	struct blob links = { 0 };
	int err = -ESTALE;
	struct unpack u;
	unsigned count;

	if (links_at(a, inode, from, known, &links))
		return -ESTALE;
	u = unpack_blob(&links);
	count = unpack_u32(&u);
	if (!u.failed && !count)
		err = -ENOENT;
	*named |= !u.failed && count;
	for (unsigned i = 0; i < count && err == -ESTALE; i++) {
		cleanup_inode struct inode *parent = NULL;
		char name[256];

		if (next_link(a, &u, &parent, name))
			break;
		err = by_name(r, inode, parent, name, depth);
	}
	free(links.bytes);
	return err;
}

/* The same with all members that belong to the set: one may know only what it was in vain, before a recovery. The member itself is asked last: it
 * may have the object under names that nobody has told us of, and the others may be away. */
static int by_links(struct resolving *r, struct inode *inode, struct object *o, unsigned depth)
{
	bool directory = S_ISDIR(inode->type), named = false;
	struct afr *a = r->a;
	int err = -ESTALE;
	unsigned in;

	if (directory && !by_gfid(a, inode, r->child, REPLICA_DIRECTORY))
		return 0;
	pthread_mutex_lock(&a->lock);
	in = view_mask(&a->view, MEMBER_IN) & atomic_load(&a->up);
	pthread_mutex_unlock(&a->lock);
	for (int n = 1; n <= a->members; n++) {
		int one = -ESTALE, i = (r->child + n) % a->members;

		if (in >> i & 1)
			one = by_links_of(r, inode, i, atomic_load(&o->known) >> i & 1, depth, &named);
		if (one != -ESTALE && one != -ENOENT)
			return one;
		err = one == -ENOENT ? one : err;
	}
	return named ? -ESTALE : err;
}

/* In another view it may have a name again: a power cut of all undoes an unlink that was not synced. */
static bool is_lost(struct afr *a, struct object *o, int child)
{
	uint64_t epoch;

	if (!(atomic_load(&o->lost) >> child & 1))
		return false;
	pthread_mutex_lock(&a->lock);
	epoch = a->view.epoch;
	pthread_mutex_unlock(&a->lock);
	if (epoch == atomic_load(&o->lost_epoch) || MUTANT("lost-for-ever"))
		return true;
	atomic_store(&o->lost, 0);
	return false;
}

static void lose(struct afr *a, struct object *o, int child)
{
	pthread_mutex_lock(&a->lock);
	atomic_store(&o->lost_epoch, a->view.epoch);
	pthread_mutex_unlock(&a->lock);
	atomic_fetch_or(&o->lost, 1u << child);
	atomic_fetch_and(&o->known, ~(1u << child));
}

int object_absent(struct afr *a, struct inode *inode, int child)
{
	struct object *o = object_of(a, inode);
	bool known;
	int err;

	if (!o)
		return -ENOMEM;
	known = atomic_load(&o->known) >> child & 1;
	err = by_gfid(a, inode, child, REPLICA_UNLINKED);
	if (err == -ENOENT)
		lose(a, o, child);
	return err ? err : known ? -ESTALE : -ERECOVERING;
}

static int search(struct resolving *r, struct inode *inode, struct object *o, unsigned depth)
{
	struct afr *a = r->a;
	int err;

	pthread_mutex_lock(&a->lock);
	a->resolves++;
	pthread_mutex_unlock(&a->lock);
	err = S_ISDIR(inode->type) && depth > DEPTH_MAX / 2 ? by_gfid(a, inode, r->child, REPLICA_DIRECTORY) : -ESTALE;
	if (err)
		err = by_hint(r, inode, o, depth);
	if (err == -ESTALE &&
	    !atomic_load(&o->met)) /* else a member that does not know it by now may have another in its place */
		err = look_as_before(r, inode);
	if (err == -ESTALE)
		err = by_links(r, inode, o, depth);
	if (err == -ENOENT)
		err = by_gfid(a, inode, r->child, REPLICA_UNLINKED);
	if (err == -ENOENT) /* what it does not get from now on it must not be asked for */
		lose(a, o, r->child);
	return err;
}

static int resolve(struct resolving *r, struct inode *inode, unsigned depth)
{
	struct object *o = object_of(r->a, inode);
	int err;

	if (!o)
		return -ENOMEM;
	if (atomic_load(&o->known) >> r->child & 1 || gfid_equal(&inode->gfid, &gfid_root))
		return 0;
	if (is_lost(r->a, o, r->child))
		return -ENOENT;
	if (depth > DEPTH_MAX || failed_before(r, inode) || clock_ns() > r->deadline)
		return -ESTALE;
	err = search(r, inode, o, depth);
	if (err == -ESTALE)
		note_failed(r, inode);
	return err;
}

/* So many steps up; *steps: those that there were, to what the child knows. */
static struct inode *above(struct afr *a, struct inode *inode, int child, unsigned *steps)
{
	struct inode *at = inode_ref(inode), *next;
	unsigned most = *steps;

	for (*steps = 0; *steps < most; ++*steps) {
		struct object *o = inode_slot(at, a->x);

		if (!o || atomic_load(&o->known) >> child & 1 || !(next = object_parent(a, at)))
			break;
		inode_unref(at);
		at = next;
	}
	return at;
}

/* Of a tree that is deeper than one recursion may be the upper directories are made known first. */
static int make_known(struct afr *a, struct inode *inode, int child)
{
	struct resolving r = { .a = a, .child = child, .deadline = clock_ns() + a->member_timeout_ms * 1000000 };
	unsigned steps = STEPS_MAX, up;
	int err = 0;

	inode_unref(above(a, inode, child, &steps));
	while (steps > DEPTH_MAX / 2 && !err) {
		struct inode *at;

		steps -= DEPTH_MAX / 2;
		up = steps;
		at = above(a, inode, child, &up);
		err = up == steps ? resolve(&r, at, 0) : -ESTALE;
		inode_unref(at);
	}
	return resolve(&r, inode, 0);
}

int object_resolve(struct afr *a, struct inode *inode, int child)
{
	const struct object *o = object_of(a, inode);

	if (!o)
		return -ENOMEM;
	if (atomic_load(&o->known) >> child & 1 || gfid_equal(&inode->gfid, &gfid_root))
		return 0;
	return make_known(a, inode, child);
}
