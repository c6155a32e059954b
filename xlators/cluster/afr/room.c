/* SPDX-License-Identifier: Apache-2.0 */
/* statfs: what all members have room for, as each takes all of it. */
#include "afr.h"

enum { OTHERS_NS = 1000000000 };

static uint64_t room(const struct statfs *s)
{
	return s->bavail * s->frsize;
}

/* Bytes and inodes may be scarce at different members. */
static void take_smaller(struct statfs *to, const struct statfs *s)
{
	struct statfs had = *to;

	if (room(s) < room(to)) {
		*to = *s;
		to->files = had.files;
		to->ffree = had.ffree;
	}
	if (s->ffree < had.ffree) {
		to->files = s->files;
		to->ffree = s->ffree;
	}
	to->namemax = had.namemax;
}

/* An arbiter holds no data. Who can't be reached is not waited for. */
static unsigned with_data(struct afr *a, const struct view *v)
{
	unsigned mask = view_mask(v, MEMBER_IN) & atomic_load(&a->up);

	return a->arbiter_at < REPLICAS_MAX ? mask & ~(1u << a->arbiter_at) : mask;
}

static void ask_all(struct afr *a, struct request *rq, unsigned mask, const struct statfs_in *in, struct statfs *to)
{
	uint64_t before = rq->deadline_ns, soon = clock_ns() + OTHERS_NS;
	struct fan *f;

	rq->deadline_ns = before && before < soon ? before : soon;
	f = fan_call(a, rq, mask, FOP_statfs, in, NULL);
	rq->deadline_ns = before;
	for (int i = 0; f && i < a->members; i++) {
		const struct member_result *r = fan_result(f, i);

		if (r->asked && r->done && !r->status && r->out.statfs.statfs.frsize)
			take_smaller(to, &r->out.statfs.statfs);
	}
	if (f)
		fan_free(f);
}

/* What one tells is the answer where the others don't say more in time. */
int afr_statfs(struct request *rq, struct xlator *x, const struct statfs_in *in, struct statfs_out *out)
{
	struct afr *a = afr_of(x);
	int err = afr_read(rq, x, FOP_statfs, in, out);
	struct view v;

	if (!err && !afr_view(a, clock_ns() + OTHERS_NS, &v))
		ask_all(a, rq, with_data(a, &v), in, &out->statfs);
	return err;
}
