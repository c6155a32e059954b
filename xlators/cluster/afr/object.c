/* SPDX-License-Identifier: Apache-2.0 */
/* Objects: what this client keeps of each, and where it is known. */
#include "afr.h"

void object_init(struct object *o, struct inode *inode)
{
	o->inode = inode;
	pthread_mutex_init(&o->lock, NULL);
}

void object_free(struct object *o)
{
	inode_unref(o->parent);
	free(o->name);
	free(o->held);
	free(o->holder);
	pthread_mutex_destroy(&o->lock);
	free(o);
}

struct object *object_of(struct afr *a, struct inode *inode)
{
	struct object *o = inode_slot(inode, a->x), *new;

	while (!o) {
		new = calloc(1, sizeof(*new));
		if (!new)
			return NULL;
		object_init(new, inode);
		switch (inode_slot_set(inode, a->x, new)) {
		case 0:
			return new;
		case -EEXIST:
			object_free(new);
			o = inode_slot(inode, a->x);
			break;
		default:
			object_free(new);
			return NULL;
		}
	}
	return o;
}

struct inode *object_parent(struct afr *a, struct inode *inode)
{
	struct object *o = inode_slot(inode, a->x);
	struct inode *parent = NULL;

	if (!o)
		return NULL;
	pthread_mutex_lock(&o->lock);
	if (o->parent)
		parent = inode_ref(o->parent);
	pthread_mutex_unlock(&o->lock);
	return parent;
}

/* What is out of date may say that the directory is below itself: then nothing of that circle would ever be forgotten. */
static void cut_circle(struct afr *a, const struct inode *inode, struct inode *parent)
{
	struct inode *at = inode_ref(parent), *next, *cut = NULL;

	for (unsigned i = 0; i < STEPS_MAX && at && !cut; i++) {
		next = object_parent(a, at);
		if (next == inode) {
			struct object *o = inode_slot(at, a->x);

			pthread_mutex_lock(&o->lock);
			if (o->parent == inode) {
				cut = o->parent;
				o->parent = NULL;
			}
			pthread_mutex_unlock(&o->lock);
		}
		inode_unref(at);
		at = next;
	}
	inode_unref(at);
	inode_unref(cut);
}

void object_named(struct afr *a, struct inode *inode, struct inode *parent, const char *name)
{
	struct object *o = inode ? object_of(a, inode) : NULL;
	struct inode *old = NULL;
	bool moved;

	if (!o || !parent || !name || parent == inode)
		return;
	pthread_mutex_lock(&o->lock);
	moved = o->parent != parent;
	if (moved || !o->name || strcmp(o->name, name)) {
		char *copy = strdup(name);

		if (copy) {
			old = o->parent;
			o->parent = inode_ref(parent);
			free(o->name);
			o->name = copy;
		}
	}
	pthread_mutex_unlock(&o->lock);
	inode_unref(old);
	if (moved && S_ISDIR(inode->type))
		cut_circle(a, inode, parent);
}

void object_seen(struct afr *a, struct inode *inode, int child, struct inode *parent, const char *name)
{
	struct object *o = inode ? object_of(a, inode) : NULL;

	if (!o)
		return;
	if (!(atomic_load(&o->known) >> child & 1)) { /* mostly it is: then the line need not be ours alone */
		atomic_fetch_or(&o->known, 1u << child);
		atomic_store(&o->met, true);
	}
	object_named(a, inode, parent, name);
}

void object_drop_locks(struct object *o, uint32_t kind, uint64_t owner, const struct opened *through)
{
	unsigned left = 0;

	for (unsigned i = 0; i < o->helds; i++) {
		const struct held_lock *h = &o->held[i];

		if (h->lock.kind != kind || (through ? h->through != through : h->lock.owner != owner))
			o->held[left++] = *h;
	}
	o->helds = left;
}

bool object_drop_covered(struct object *o, const struct lock *by)
{
	unsigned left = 0;
	bool overlaps = false;

	for (unsigned i = 0; i < o->helds; i++) {
		const struct lock *l = &o->held[i].lock;
		bool same = l->kind == by->kind && l->owner == by->owner;

		if (same && l->start >= by->start && l->end <= by->end)
			continue;
		overlaps |= same && l->start <= by->end && by->start <= l->end;
		o->held[left++] = o->held[i];
	}
	o->helds = left;
	return overlaps;
}
