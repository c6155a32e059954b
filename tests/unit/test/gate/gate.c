/* SPDX-License-Identifier: Apache-2.0 */
/* Lets everybody in, as features/cloud does its tenants. */
#include <errno.h>
#include <sys/stat.h>

#include "xlator.h"

static int gate_admit(struct xlator *x, const struct client *client, struct inode **root, struct bearer *bearer)
{
	(void)client;
	if (!root)
		return 0;
	*bearer = (struct bearer){ .tenant = { { 0 } } };
	*root = inode_get(x->inodes, &gfid_root, S_IFDIR);
	return *root ? 0 : -ENOMEM;
}

const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "test/gate",
	.summary = "lets everybody in",
	.min_children = 1,
	.max_children = 1,
	.admit = gate_admit,
};
XLATOR_MODULE
