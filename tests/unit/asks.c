/* SPDX-License-Identifier: Apache-2.0 */
/* See asks.h. */
#include "asks.h"

#include "replica.h"

static int asks_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	uint32_t looked = ((struct asks *)x->private)->looked;
	struct replica_stamp stamp;

	if (fop == FOP_lookup)
		looked = stamp_of(rq, &stamp) ? stamp.flags : 0;
	*(struct asks *)x->private = (struct asks){ rq->uid,
						    rq->root,
						    rq->gid,
						    rq->group_count > 0 ? rq->groups[0] : 0,
						    rq->group_count,
						    request_is_tenants(rq),
						    request_is_tenants_admin(rq),
						    looked };
	return fop_pass(rq, x, fop, in, out);
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "test/asks",
	.summary = "remembers who asked last",
	.private_size = sizeof(struct asks),
	.min_children = 1,
	.max_children = 1,
	.any = asks_any,
};
