/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/absent: keeps the place of a subvolume that has left the volume, so that those after it keep their numbers. cluster/dht asks it for nothing. */
#include "xlator.h"

static int absent_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	(void)rq, (void)x, (void)fop, (void)in, (void)out;
	return -EIO;
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "cluster/absent",
	.summary = "the place of a subvolume that has left the volume",
	.any = absent_any,
};
