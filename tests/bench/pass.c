/* SPDX-License-Identifier: Apache-2.0 */
/* bench/pass: handles every operation by `.any` and passes it on; what it costs is what any such translator costs. */
#include "xlator.h"

static int pass_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	return fop_pass(rq, x, fop, in, out);
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "bench/pass",
	.summary = "passes every operation on by hand",
	.min_children = 1,
	.max_children = 1,
	.any = pass_any,
};
