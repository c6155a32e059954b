/* SPDX-License-Identifier: Apache-2.0 */
/* test/deaf: its first statfs waits for an hour, and begins anew when it is told to stop, once. */
#include <errno.h>
#include <stdatomic.h>

#include "xlator.h"

enum { HOUR_MS = 3600000 };

static int deaf_statfs(struct request *rq, struct xlator *x, const struct statfs_in *in, struct statfs_out *out)
{
	static atomic_bool later;
	int err = atomic_exchange(&later, true) ? 0 : task_sleep_ms(HOUR_MS);

	if (err == -ECANCELED)
		err = task_sleep_ms(HOUR_MS);
	return err ? err : statfs_on(rq, x->child[0], in, out);
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "test/deaf",
	.summary = "has to be told twice to stop",
	.min_children = 1,
	.max_children = 1,
	.statfs = deaf_statfs,
};
