/* SPDX-License-Identifier: Apache-2.0 */
/* bench/leaf: says yes to flush at once, so that what stands above it can be timed. */
#include "xlator.h"

static int leaf_flush(struct request *rq, struct xlator *x, const struct flush_in *in, struct flush_out *out)
{
	(void)rq, (void)x, (void)in, (void)out;
	return 0;
}

static int leaf_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	(void)rq, (void)x, (void)fop, (void)in, (void)out;
	return -EOPNOTSUPP;
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "bench/leaf",
	.summary = "the end of a graph that does nothing",
	.any = leaf_any,
	.flush = leaf_flush,
};
