/* SPDX-License-Identifier: Apache-2.0 */
/* test/spread: asks all its children at once and answers when enough of them have; to test fan-out. */
#include "xlator.h"

struct spread {
	int64_t enough;
	atomic_int late;
};

static const struct option options[] = {
	{ "enough", OPTION_INT, OPTION_AT(struct spread, enough), "1", "answers to wait for", 1, 64, .live = true },
	{ NULL },
};

static void late(struct xlator *x, int child, int err, const void *out)
{
	struct spread *p = x->private;

	(void)child, (void)err, (void)out;
	p->late++;
}

static int spread_getattr(struct request *rq, struct xlator *x, const struct getattr_in *in, struct getattr_out *out)
{
	struct spread *p = x->private;
	struct fanout *f = fanout_start(rq, x, FOP_getattr, in, UINT64_MAX);
	int got, err = -EIO, e;

	if (!f)
		return -ENOMEM;
	got = fanout_wait(f, (int)p->enough, rq->deadline_ns);
	for (int i = 0; i < x->children && got >= p->enough && err; i++)
		if (fanout_out(f, i, &e))
			err = fanout_take(f, i, out);
	fanout_leave(f, late);
	return err;
}

static int spread_command(struct xlator *x, int argc, char **argv, FILE *f)
{
	(void)argc, (void)argv;
	fprintf(f, "%d", atomic_load(&((struct spread *)x->private)->late));
	return 0;
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "test/spread",
	.summary = "ask all children at once",
	.options = options,
	.private_size = sizeof(struct spread),
	.min_children = 1,
	.max_children = -1,
	.command = spread_command,
	.getattr = spread_getattr,
};
