/* SPDX-License-Identifier: Apache-2.0 */
/* Which directory a name stands for, as it was seen last: rmdir must have the token of what it removes, and need not ask what that is while the
 * token of the parent has been here since. A table in which the names that fall on one place drive each other out. */
#include "afr.h"

static struct known_directory *place(struct afr *a, const struct gfid *parent, uint64_t name)
{
	return &a->known[(gfid_hash(parent) ^ name) % KNOWN_DIRECTORIES];
}

static bool is(const struct known_directory *k, const struct gfid *parent, uint64_t name)
{
	return k->name == name && gfid_equal(&k->parent, parent);
}

void directory_seen(struct afr *a, const struct inode *parent, const char *name, const struct inode *found, uint64_t since)
{
	uint64_t hash = name_hash(name);
	struct known_directory *k;

	pthread_mutex_lock(&a->lock);
	k = place(a, &parent->gfid, hash);
	if (!is(k, &parent->gfid, hash) || k->since <= since) /* else the name was changed after that */
		*k = (struct known_directory){ parent->gfid, found->gfid, hash, since };
	pthread_mutex_unlock(&a->lock);
}

void directory_changed(struct afr *a, const struct loc *loc)
{
	uint64_t hash = name_hash(loc->name);
	struct known_directory *k;

	pthread_mutex_lock(&a->lock);
	k = place(a, &loc->parent->gfid, hash);
	*k = (struct known_directory){ loc->parent->gfid, { { 0 } }, hash, afr_moment() };
	pthread_mutex_unlock(&a->lock);
}

/* Two names may have one hash. */
static bool is_named(struct afr *a, struct inode *inode, const struct loc *loc)
{
	struct object *o = inode_slot(inode, a->x);
	bool yes;

	if (!o)
		return false;
	pthread_mutex_lock(&o->lock);
	yes = o->parent == loc->parent && o->name && !strcmp(o->name, loc->name);
	pthread_mutex_unlock(&o->lock);
	return yes;
}

struct inode *directory_known(struct afr *a, const struct loc *loc)
{
	uint64_t hash = name_hash(loc->name);
	struct span name = { .kind = SPAN_NAME, .start = hash, .end = hash };
	struct object *parent = object_of(a, loc->parent);
	struct inode *inode;
	struct known_directory k;

	pthread_mutex_lock(&a->lock);
	k = *place(a, &loc->parent->gfid, hash);
	pthread_mutex_unlock(&a->lock);
	if (!parent || !is(&k, &loc->parent->gfid, hash) || gfid_is_null(&k.gfid) || !object_names_hold(a, parent, k.since) ||
	    spans_collide(parent, &name))
		return NULL;
	inode = inode_find(a->x->inodes, &k.gfid);
	if (!inode || is_named(a, inode, loc))
		return inode;
	inode_unref(inode);
	return NULL;
}

bool directory_stands(struct afr *a, const struct loc *loc, const struct inode *directory)
{
	struct object *parent = object_of(a, loc->parent);
	uint64_t hash = name_hash(loc->name);
	struct known_directory k;

	pthread_mutex_lock(&a->lock);
	k = *place(a, &loc->parent->gfid, hash);
	pthread_mutex_unlock(&a->lock);
	return parent && is(&k, &loc->parent->gfid, hash) && gfid_equal(&k.gfid, &directory->gfid) &&
	       object_names_hold(a, parent, k.since);
}
