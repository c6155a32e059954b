/* SPDX-License-Identifier: Apache-2.0 */
/* Near the limit of an account the first member decides, and the others follow (T11 in doc/tenants.md): so none does what another refuses. A member that is not the first, and sees that
 * there may not be room, does nothing and says so; it is asked again when the first has answered. */
#include "change.h"

enum { NEAR_NS = 2000000000 }; /* so long after somebody was near to a limit the others are not even asked at once */

/* What takes from it, or leaves it, is done by all at once. */
static bool may_grow(const struct changing *c)
{
	const struct setattr_in *set = c->in;

	switch ((int)c->fop) {
	case FOP_unlink:
	case FOP_rmdir:
	case FOP_removexattr:
		return false;
	case FOP_setattr:
		return set->set.valid & (SET_SIZE | SET_UID);
	default:
		return true;
	}
}

static unsigned members_of(const struct view *v)
{
	return view_mask(v, MUTANT("only-in") ? MEMBER_IN : MEMBER_BACK);
}

unsigned limit_asks(struct changing *c, const struct view *v)
{
	uint64_t until = atomic_load(&c->a->near_ns);
	int first = view_first(v);

	if (c->sent == v->epoch &&
	    !MUTANT("forget-the-others")) /* others may have done it: what the first says alone is not all */
		return members_of(v);
	return until && first >= 0 && clock_ns() < until && may_grow(c) ? 1u << first : members_of(v);
}

/* It has done it, or refuses for a reason that others have as well, or (ENOROOM) that is below what judges limits: there was room within the limit. Not EUNSYNCED, by which it does not come to look at limits. (It may say itself that it is to be asked, once more: its set has an allotment, and it waits for more. That an object without a name is not at the first says nothing of the others.) */
static bool has_decided(int err)
{
	if (err == -ESTALE || err == -ENAMELESS)
		return true;
	return !err || (err != -EOVERLIMIT && err != -EASKFIRST && err != -EVIEW && err != -ERECOVERING && err != -EUNSYNCED &&
			!answer_may_be_done(err) && err != -EROFS);
}

void limit_decided(struct changing *c, const struct view *v, struct fan *f, const struct replica_stamp *stamp)
{
	unsigned all = members_of(v), rest = 0;
	bool near = false;
	struct replica_stamp decided = *stamp;
	int first = view_first(v);

	for (int i = 0; i < v->members; i++) {
		struct member_result *r = fan_result(f, i);

		if (!(all >> i & 1) || (r->asked && r->status != -EASKFIRST))
			continue;
		near |= r->asked;
		rest |= 1u << i;
		r->status = -EASKFIRST;
	}
	if (near || (first >= 0 && fan_result(f, first)->status == -EOVERLIMIT))
		atomic_store(&c->a->near_ns, clock_ns() + NEAR_NS);
	if (!rest || first < 0 || !has_decided(fan_result(f, first)->status))
		return;
	decided.flags |= REPLICA_DECIDED;
	fan_again(f, c->rq, rest, &decided);
}
