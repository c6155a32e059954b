/* SPDX-License-Identifier: Apache-2.0 */
/* Is the volume encrypted, and nobody below has its key? Then nothing is mounted: names would be noise, and what is written would lie among
 * the encrypted files as it is. Whoever has the key (encryption/crypt) does not show its mark. */
#include "fuse-internal.h"

enum { UNKNOWN, PLAIN, SEALED };
enum { LOOK_MS = 5000, MARK_SIZE = 32 };
static const char mark[] = "user.stratus.volume", magic[] = "SFV1"; /* doc/crypt.md */

bool is_mark(const struct inode *inode, const char *name)
{
	return gfid_equal(&inode->gfid, &gfid_root) && !strcmp(name, mark);
}

static int root_learn(struct request *rq, struct xlator *below, struct inode *root)
{
	struct lookup_in in = { .loc = { .inode = root } };
	struct lookup_out out = { 0 };
	int err = lookup_on(rq, below, &in, &out);

	fop_out_clear(FOP_lookup, &out);
	return err;
}

/* What a server says instead of an answer; all else is one, and says that there is no such mark. */
static bool no_answer(int err)
{
	return err == -ENOTCONN || err == -ETIMEDOUT || err == -EIO || err == -ENOMEM || err == -ECANCELED ||
	       err == -ERESTARTGRAPH || err == -ESHUTDOWN;
}

static int ask_for_mark(struct xlator *x, uint64_t deadline_ns)
{
	struct inode *root = inode_get(x->inodes, &gfid_root, S_IFDIR);
	struct getxattr_in in = { .inode = root, .name = (char *)mark };
	struct getxattr_out out = { 0 };
	struct request rq;
	int err;

	request_init(&rq, x->graph, 0);
	rq.group_count = 0;
	rq.deadline_ns = deadline_ns;
	err = root ? root_learn(&rq, x->child[0], root) : -ENOMEM;
	if (!err)
		err = getxattr_on(&rq, x->child[0], &in, &out);
	if (!err)
		err = out.value.size == MARK_SIZE && !memcmp(out.value.bytes, magic, 4) ? -ENOKEY : 0;
	fop_out_clear(FOP_getxattr, &out);
	request_finish(&rq);
	inode_unref(root);
	return err == -ENOKEY || no_answer(err) ? err : 0;
}

static void look(void *arg)
{
	struct xlator *x = arg;
	struct fuse_private *p = x->private;
	int err = ask_for_mark(x, clock_ns() + LOOK_MS * 1000000ull);

	if (!err || err == -ENOKEY)
		atomic_store(&p->sealed, err ? SEALED : PLAIN);
}

int sealed_look(struct xlator *x, struct problem *problem)
{
	struct fuse_private *p = x->private;

	if (task_self())
		look(x);
	else if (task_call(look, x))
		return problem_set(problem, ENOMEM, "%s: no task can be started", x->name);
	return atomic_load(&p->sealed) == SEALED
		       ? problem_set(problem, ENOKEY,
				     "the volume is encrypted, and this mount has no key: mount it with --key KEYFILE")
		       : 0;
}

/* The servers did not answer when the mount began: so who comes first asks, and nobody gets by before. */
static int ask_late(struct ask *a)
{
	struct fuse_private *p = a->top->private;
	int err = ask_for_mark(a->top, a->rq.deadline_ns);

	if (err && err != -ENOKEY)
		return err;
	if (err && atomic_exchange(&p->sealed, SEALED) != SEALED)
		log_error(a->top, &a->rq, "the volume is encrypted, and this mount has no key: mount it with --key KEYFILE");
	else if (!err)
		atomic_store(&p->sealed, PLAIN);
	return err;
}

int sealed_check(struct ask *a)
{
	const struct fuse_private *p = a->top->private;
	int state = atomic_load_explicit(&p->sealed, memory_order_relaxed);

	if (state == PLAIN || a->op->serve == serve_release || a->op->serve == serve_flush)
		return 0;
	return state == SEALED ? -ENOKEY : ask_late(a);
}
