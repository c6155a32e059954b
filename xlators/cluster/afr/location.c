/* SPDX-License-Identifier: Apache-2.0 */
/* Where an object is: each member tells for itself, and nobody compares what they say. */
#include "afr.h"
#include "location.h"

enum { VIEW_MS = 1000 };

/* For who asks it is enough to hear that there is no view just now. */
static struct view view_soon(struct afr *a)
{
	struct view v = { 0 };

	if (afr_view(a, clock_ns() + VIEW_MS * 1000000ull, &v))
		v.epoch = 0;
	return v;
}

/* One that is not connected, or where the object can't be found: its protocol/client tells at least which brick it is. */
static void add_alone(struct afr *a, struct request *rq, int member, const struct getxattr_in *in, struct location *to)
{
	struct getxattr_out out = { 0 };
	int err = getxattr_on(rq, a->x->child[member], in, &out);

	if (err)
		location_line(to, "error", "%d", -err);
	else
		location_add(to, &out.value);
	fop_out_clear(FOP_getxattr, &out);
}

static void add_members(struct afr *a, struct request *rq, const struct getxattr_in *in, struct fan *f, struct location *to)
{
	static const char *const states[] = { "out", "back", "in" };
	struct view v = view_soon(a);

	for (int i = 0; i < a->members; i++) {
		const struct member_result *r = fan_result(f, i);

		location_line(to, "member", "%d %s", i, v.epoch ? states[v.state[i]] : "unknown");
		if (i == a->arbiter_at)
			location_line(to, "arbiter", "yes");
		if (r->asked && !r->status)
			location_add(to, &r->out.getxattr.value);
		else
			add_alone(a, rq, i, in, to);
	}
}

/* Also those answer that are not IN: what they have does not count, and that is told. */
static int afr_location(struct request *rq, struct afr *a, const struct getxattr_in *in, struct getxattr_out *out)
{
	struct replica_stamp stamp = { .flags = REPLICA_READ };
	struct request *own = request_copy(rq);
	int err = own ? stamp_attach(own, &stamp) : -ENOMEM;
	struct fan *f = err ? NULL : fan_call(a, own, atomic_load(&a->up), FOP_getxattr, in, NULL);
	struct location to = { 0 };

	if (f) {
		add_members(a, own, in, f, &to);
		fan_free(f);
		err = location_end(&to, &out->value);
	}
	if (own)
		request_free(own);
	return err || f ? err : -ENOMEM;
}

int afr_getxattr(struct request *rq, struct xlator *x, const struct getxattr_in *in, struct getxattr_out *out)
{
	return is_location(in->name) ? afr_location(rq, afr_of(x), in, out) : afr_read(rq, x, FOP_getxattr, in, out);
}
