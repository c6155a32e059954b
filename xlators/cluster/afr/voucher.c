/* SPDX-License-Identifier: Apache-2.0 */
/* What a tenant's client must show with each gfid that it names to a member: that some member has told it of the object. Each member's handle of
 * it has the same voucher. */
#include "afr.h"

static struct xlator *connection(const struct afr *a, int child)
{
	struct xlator *x = a->x->child[child];

	while (x && !x->type->voucher)
		x = x->children == 1 ? x->child[0] : NULL;
	return x;
}

static int voucher(const struct afr *a, struct inode *inode, uint8_t voucher[VOUCHER_SIZE])
{
	int err = -ENODATA;

	for (int i = 0; i < a->members && err; i++) {
		struct xlator *x = connection(a, i);

		err = x ? x->type->voucher(x, inode, voucher) : err;
	}
	return err;
}

bool is_tenants(struct afr *a)
{
	bool yes;

	pthread_mutex_lock(&a->lock);
	yes = a->view.tenant;
	pthread_mutex_unlock(&a->lock);
	return yes;
}

static int voucher_of(struct afr *a, const struct gfid *g, uint8_t bytes[VOUCHER_SIZE])
{
	cleanup_inode struct inode *inode = inode_find(a->x->inodes, g);

	memset(bytes, 0, VOUCHER_SIZE);
	return inode ? voucher(a, inode, bytes) : -ENODATA;
}

void pack_named(struct afr *a, struct pack *p, const struct gfid *g)
{
	uint8_t bytes[VOUCHER_SIZE];

	pack_gfid(p, g);
	if (!is_tenants(a))
		return;
	voucher_of(a, g, bytes);
	pack_bytes(p, bytes, sizeof(bytes));
}

void pack_found(struct afr *a, struct pack *p, struct inode *inode, int child)
{
	uint8_t bytes[VOUCHER_SIZE];

	if (is_tenants(a) && voucher(a, inode, bytes))
		object_resolve(a, inode, child);
	pack_named(a, p, &inode->gfid);
}

bool voucher_known(struct afr *a, const struct gfid *g)
{
	uint8_t bytes[VOUCHER_SIZE];

	return !is_tenants(a) || gfid_equal(g, &gfid_root) || !voucher_of(a, g, bytes);
}

/* It is the same where the object is: by it directories are compared that are all called gfid_root. One that a member has none for is no tenant's. */
static bool root_of(const struct afr *a, int child, uint8_t bytes[VOUCHER_SIZE])
{
	cleanup_inode struct inode *root = inode_get(a->x->inodes, &gfid_root, S_IFDIR);
	struct xlator *x = root ? connection(a, child) : NULL;

	return x && !x->type->voucher(x, root, bytes);
}

bool root_agrees(struct afr *a, int child)
{
	uint8_t its[VOUCHER_SIZE];
	bool agrees;

	if (!root_of(a, child, its))
		return true;
	pthread_mutex_lock(&a->lock);
	if (!a->root_known)
		memcpy(a->root, its, sizeof(its));
	a->root_known = true;
	agrees = !memcmp(a->root, its, sizeof(its));
	pthread_mutex_unlock(&a->lock);
	if (!agrees)
		log_error(
			a->x, NULL,
			"member %d shows another directory than the others by this access point: its path led elsewhere in between. The member is not used; "
			"unmount, and mount again",
			child);
	return agrees;
}
