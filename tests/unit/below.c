/* SPDX-License-Identifier: Apache-2.0 */
/* test/below: as it starts, what is below it must be up, as it has heard; a leaf is up when it starts, and is shared by the graphs that follow. */
#include <errno.h>

#include "xlator.h"

struct below {
	bool up;
};

static void tell(struct xlator *x)
{
	struct event e = { .kind = EVENT_CHILD_UP };

	event_up(x, &e);
}

static int below_start(struct xlator *x, struct problem *p)
{
	struct below *b = x->private;
	const struct below *child = x->children ? x->child[0]->private : NULL;

	if (child && !child->up)
		return problem_set(p, EIO, "%s: %s has not heard that what is below it is up", x->name, x->child[0]->name);
	if (!x->children) {
		b->up = true;
		tell(x);
	}
	return 0;
}

static void below_notify(struct xlator *x, struct xlator *from, const struct event *e)
{
	struct below *b = x->private;

	(void)from;
	b->up = e->kind == EVENT_CHILD_UP;
	event_up(x, e);
}

static int below_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	return x->children ? fop_pass(rq, x, fop, in, out) : -EOPNOTSUPP;
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "test/below",
	.summary = "asks below as it starts",
	.private_size = sizeof(struct below),
	.max_children = 1,
	.shareable = true,
	.start = below_start,
	.notify = below_notify,
	.announce = tell,
	.any = below_any,
};
