/* SPDX-License-Identifier: Apache-2.0 */
/* test/tear: after so many messages nothing goes through any more, as if the client had died; the last one, if it writes, comes through only up
 * to a page boundary, as when its server is killed. Its first child is the one it passes all to. */
#include "xlator.h"

struct tear {
	pthread_mutex_t lock;
	bool counts;
	unsigned left, sent, pages; /* pages: of the last write; 0: all of it, with no answer */
	char order[64];		    /* w and f: what was written and made durable */
};

enum verdict { THROUGH, TORN, LOST };

static enum verdict judge(struct tear *t, enum fop fop)
{
	enum verdict v = THROUGH;
	size_t n;

	pthread_mutex_lock(&t->lock);
	n = strlen(t->order);
	if ((fop == FOP_write || fop == FOP_fsync) && n + 1 < sizeof(t->order))
		t->order[n] = fop == FOP_write ? 'w' : 'f';
	if (t->counts) {
		v = t->sent < t->left ? THROUGH : t->sent == t->left ? TORN : LOST;
		t->sent++;
	}
	pthread_mutex_unlock(&t->lock);
	return v;
}

static int write_some(struct request *rq, struct xlator *x, const struct write_in *in)
{
	const struct tear *t = x->private;
	size_t most = t->pages * (size_t)4096 - in->offset % 4096;
	struct write_in some = *in;
	struct write_out out = { 0 };

	if (!t->pages || most >= in->data->size)
		return write_on(rq, x->child[0], in, &out);
	some.data = buffer_slice(in->data, 0, most);
	write_on(rq, x->child[0], &some, &out);
	buffer_unref(some.data);
	return 0;
}

static int tear_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	struct tear *t = x->private;
	enum verdict v = fop == FOP_release ? THROUGH : judge(t, fop);

	if (v == THROUGH)
		return fop_pass(rq, x, fop, in, out);
	if (v == TORN && fop == FOP_write)
		write_some(rq, x, in);
	else if (v == TORN && fop_info[fop].flags & FOP_MUTATES && !fop_pass(rq, x, fop, in, out)) {
		fop_out_clear((int)fop, out);
		memset(out, 0, fop_info[fop].out_size);
	}
	return -ENOTCONN;
}

/* cut MESSAGES PAGES, end: prints how many messages were sent since the cut was asked for. order: what was done since it was asked
 * last. */
static int tear_command(struct xlator *x, int argc, char **argv, FILE *f)
{
	struct tear *t = x->private;

	pthread_mutex_lock(&t->lock);
	if (!strcmp(argv[0], "order")) {
		fputs(t->order, f);
		memset(t->order, 0, sizeof(t->order));
	} else {
		fprintf(f, "%u", t->sent);
	}
	t->counts = argc >= 3;
	t->left = argc >= 3 ? (unsigned)atoi(argv[1]) : 0;
	t->pages = argc >= 3 ? (unsigned)atoi(argv[2]) : 0;
	t->sent = 0;
	pthread_mutex_unlock(&t->lock);
	return 0;
}

static int tear_init(struct xlator *x, struct problem *p)
{
	(void)p;
	pthread_mutex_init(&((struct tear *)x->private)->lock, NULL);
	return 0;
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "test/tear",
	.summary = "lets a client die between two pages",
	.private_size = sizeof(struct tear),
	.min_children = 1,
	.max_children = -1,
	.init = tear_init,
	.command = tear_command,
	.any = tear_any,
};
