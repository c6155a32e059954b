/* SPDX-License-Identifier: Apache-2.0 */
/* test/cut: one task is cut off from all that lies below instances of this, after so many messages, as if its client had died there; or for one
 * message only. Or a brick loses with its power what it was asked to make. */
#include <stdlib.h>
#include <string.h>

#include "xlator.h"

static struct {			    /* of all instances */
	_Atomic(struct task *) who; /* NULL: nobody */
	unsigned left, sent;
	bool done;    /* the last message that goes through gets no answer */
	bool once;    /* the others go through again */
	bool forgets; /* the next anchor that is made has gone when that is answered */
} cut;

static int forget(struct request *rq, struct xlator *x, const struct loc *loc)
{
	struct unlink_in in = { .loc = *loc };
	struct unlink_out out = { 0 };

	cut.forgets = false;
	return unlink_on(rq, x->child[0], &in, &out);
}

static int cut_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	bool mine = cut.who && task_self() == cut.who && fop != FOP_release;
	int err;

	if (!mine)
		return fop_pass(rq, x, fop, in, out);
	if (cut.forgets && fop == FOP_link && !strncmp(((const struct link_in *)in)->loc.name, "a.", 2)) {
		err = fop_pass(rq, x, fop, in, out);
		return err ? err : forget(rq, x, &((const struct link_in *)in)->loc);
	}
	if (cut.sent++ < cut.left || (cut.once && cut.sent > cut.left + 1))
		return fop_pass(rq, x, fop, in, out);
	if (cut.sent != cut.left + 1 || !cut.done)
		return -ENOTCONN;
	err = fop_pass(rq, x, fop, in, out);
	if (!err) {
		fop_out_clear((int)fop, out);
		memset(out, 0, fop_info[fop].out_size);
	}
	return -ENOTCONN;
}

static int cut_command(struct xlator *x, int argc, char **argv, FILE *f)
{
	(void)x;
	if (argc != 2)
		return -EINVAL;
	fprintf(f, "%u", cut.sent);
	cut.forgets = !strcmp(argv[0], "forgets");
	cut.once = !strcmp(argv[0], "lost");
	cut.done = cut.once || !strcmp(argv[0], "unanswered");
	cut.left = (unsigned)strtoul(argv[1], NULL, 10);
	cut.sent = 0;
	cut.who = strcmp(argv[0], "end") ? task_self() : NULL;
	return 0;
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "test/cut",
	.summary = "cuts a task off",
	.min_children = 1,
	.max_children = 1,
	.command = cut_command,
	.any = cut_any,
};
