/* SPDX-License-Identifier: Apache-2.0 */
/* Files with several names that were seen in a walk stay in memory, so that a member which knows nothing by itself is asked for them by
 * handle, and takes a second object with the same gfid for the copy that it is. */
#include "heal-internal.h"

enum { ROOM_MIN = 1024, LINKS_MOST = 1 << 22 };

struct kept_links {
	size_t count, room;  /* a power of two; at most half of it is in use */
	struct inode **slot; /* by address */
	unsigned walks;	     /* that want them */
};

int heal_keep_links(struct heal *h)
{
	struct kept_links *k;

	pthread_mutex_lock(&h->links_lock);
	k = h->links;
	if (!k) {
		k = calloc(1, sizeof(*k));
		if (k)
			k->slot = calloc(ROOM_MIN, sizeof(*k->slot));
		if (!k || !k->slot) {
			free(k);
			pthread_mutex_unlock(&h->links_lock);
			return -ENOMEM;
		}
		k->room = ROOM_MIN;
		h->links = k;
	}
	k->walks++;
	pthread_mutex_unlock(&h->links_lock);
	return 0;
}

static void links_free(struct kept_links *k)
{
	for (size_t i = 0; i < k->room; i++)
		inode_unref(k->slot[i]);
	free(k->slot);
	free(k);
}

void heal_forget_links(struct heal *h)
{
	struct kept_links *k;

	pthread_mutex_lock(&h->links_lock);
	k = h->links;
	if (k && --k->walks)
		k = NULL;
	else
		h->links = NULL;
	pthread_mutex_unlock(&h->links_lock);
	if (k)
		links_free(k);
}

static struct inode **place_of(struct inode **slot, size_t room, const struct inode *inode)
{
	size_t i = ((uintptr_t)inode >> 4) * 0x9e3779b97f4a7c15u >> 20 & (room - 1);

	while (slot[i] && slot[i] != inode)
		i = (i + 1) & (room - 1);
	return &slot[i];
}

static bool grow(struct kept_links *k)
{
	struct inode **slot = calloc(2 * k->room, sizeof(*slot));

	if (!slot)
		return false;
	for (size_t i = 0; i < k->room; i++)
		if (k->slot[i])
			*place_of(slot, 2 * k->room, k->slot[i]) = k->slot[i];
	free(k->slot);
	k->slot = slot;
	k->room *= 2;
	return true;
}

static void keep(struct kept_links *k, struct inode *inode)
{
	if (*place_of(k->slot, k->room, inode) || k->count >= LINKS_MOST || (2 * k->count >= k->room && !grow(k)))
		return;
	*place_of(k->slot, k->room, inode) = inode_ref(inode);
	k->count++;
}

/* Under the lock from the first look on: another member's walk may end just then. */
void link_keep(struct heal *h, struct inode *inode, const struct attr *attr)
{
	if (!inode || S_ISDIR(attr->mode) || attr->nlink < 2)
		return;
	pthread_mutex_lock(&h->links_lock);
	if (h->links)
		keep(h->links, inode);
	pthread_mutex_unlock(&h->links_lock);
}
