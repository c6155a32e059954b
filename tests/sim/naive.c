/* SPDX-License-Identifier: Apache-2.0 */
/* sim/naive: replication as one must not do it, for the checker to be checked: all goes to all bricks; a change counts when a majority
 * has made it, and a read takes the first answer. */
#include "sim.h"

static int naive_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	bool changes = fop_info[fop].flags & FOP_MUTATES || fop == FOP_open || fop == FOP_opendir || fop == FOP_release;
	int need = changes ? x->children / 2 + 1 : 1, err = -EIO, e;
	struct fanout *f = fanout_start(rq, x, fop, in, UINT64_MAX);

	if (!f)
		return -ENOMEM;
	fanout_wait(f, need, 0);
	for (int i = 0; i < x->children; i++) {
		if (fanout_out(f, i, &e)) {
			err = fanout_take(f, i, out);
			break;
		}
		err = e == -EINPROGRESS ? err : e;
	}
	fanout_leave(f, NULL);
	return err;
}

const struct xlator_type sim_naive_type = {
	.api = STRATUS_API_VERSION,
	.name = "sim/naive",
	.summary = "wrong on purpose",
	.min_children = 1,
	.max_children = -1,
	.any = naive_any,
};
