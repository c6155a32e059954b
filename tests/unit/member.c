/* SPDX-License-Identifier: Apache-2.0 */
/* test/member: a member of a set whose view never changes: all are IN, but for one that may be BACK. It gives every token to who asks for it, and unlinks
 * nothing of which it is told what it is expected to be. */
#include <stdatomic.h>

#include "dht/place.h"
#include "replica.h"

struct member {
	int64_t members, back;
	atomic_uint fsyncs, failed;
};
static const struct option options[] = {
	{ "members", OPTION_INT, OPTION_AT(struct member, members), NULL, "of the set", 2, REPLICAS_MAX },
	{ "back", OPTION_INT, OPTION_AT(struct member, back), "-1", "number of a member that is BACK; -1: none", -1,
	  REPLICAS_MAX },
	{ NULL },
};

static int member_replica(struct request *rq, struct xlator *x, const struct replica_in *in, struct replica_out *out)
{
	struct member *m = x->private;
	struct reply_view r = { .serving = true, .writable = true };
	struct pack p = { 0 };

	(void)rq;
	if (in->verb == REPLICA_DETACH || in->verb == REPLICA_ACQUIRE || in->verb == REPLICA_RELEASE ||
	    in->verb == REPLICA_SETTLE)
		return 0;
	if (in->verb == REPLICA_FAILED)
		atomic_fetch_add(&m->failed, 1);
	if (in->verb == REPLICA_FAILED)
		return 0;
	if (in->verb != REPLICA_ATTACH)
		return -EOPNOTSUPP;
	r.view = (struct view){ .epoch = 1, .members = (uint8_t)m->members, .arbiter = REPLICAS_MAX };
	for (int i = 0; i < m->members; i++) {
		r.view.order[i] = (uint8_t)i;
		r.view.state[i] = i == m->back ? MEMBER_BACK : MEMBER_IN;
		r.view.incarnation[i] = 1;
	}
	pack_reply_view(&p, &r);
	return pack_end(&p, &out->data);
}

static int member_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	struct member *m = x->private;

	if (fop == FOP_fsync)
		atomic_fetch_add(&m->fsyncs, 1);
	return fop == FOP_unlink && request_extension(rq, PLACE_EXTENSION) ? -ESTALE : fop_pass(rq, x, fop, in, out);
}

static void member_dump(struct xlator *x, FILE *f)
{
	struct member *m = x->private;

	fprintf(f, "fsyncs: %u\nfailed: %u\n", atomic_load(&m->fsyncs), atomic_load(&m->failed));
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "test/member",
	.summary = "a member of a set that never changes",
	.options = options,
	.private_size = sizeof(struct member),
	.min_children = 1,
	.max_children = 1,
	.any = member_any,
	.replica = member_replica,
	.dump = member_dump,
};
