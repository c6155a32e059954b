/* SPDX-License-Identifier: Apache-2.0 */
/* See gate.h. */
#include "gate.h"

#include <errno.h>
#include <sys/stat.h>

static int gate_admit(struct xlator *x, const struct client *client, struct inode **root, struct bearer *bearer)
{
	struct gate *g = x->private;

	if (!root)
		return atomic_load(&g->refuses) ? -EACCES : 0;
	pthread_mutex_lock(&g->guard);
	g->root = client->root;
	pthread_mutex_unlock(&g->guard);
	atomic_fetch_add(&g->came, 1);
	*bearer = (struct bearer){ .tenant = { { 0 } } };
	*root = inode_get(x->inodes, &gfid_root, S_IFDIR);
	return *root ? 0 : -ENOMEM;
}

static int gate_getattr(struct request *rq, struct xlator *x, const struct getattr_in *in, struct getattr_out *out)
{
	struct gate *g = x->private;

	atomic_fetch_add(&g->held, 1);
	while (atomic_load(&g->holds))
		task_sleep_ms(1);
	atomic_fetch_sub(&g->held, 1);
	return getattr_on(rq, x->child[0], in, out);
}

static int gate_init(struct xlator *x, struct problem *p)
{
	struct gate *g = x->private;

	(void)p;
	pthread_mutex_init(&g->guard, NULL);
	return 0;
}

const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "test/gate",
	.summary = "lets everybody in",
	.private_size = sizeof(struct gate),
	.min_children = 1,
	.max_children = 1,
	.init = gate_init,
	.admit = gate_admit,
	.getattr = gate_getattr,
};
XLATOR_MODULE
