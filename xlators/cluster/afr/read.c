/* SPDX-License-Identifier: Apache-2.0 */
/* Reads: at one member that is IN; another is asked when it can't answer. */
#include "afr.h"

enum { SOON_MS = 10 };

static struct inode *subject(enum fop fop, const void *in)
{
	for (const struct field *f = fop_info[fop].in; f->name; f++) {
		const void *at = (const char *)in + f->offset;

		if (f->kind == FIELD_FILE && *(struct file *const *)at)
			return (*(struct file *const *)at)->inode;
		if (f->kind == FIELD_INODE && *(struct inode *const *)at)
			return *(struct inode *const *)at;
		if (f->kind == FIELD_LOC)
			return ((const struct loc *)at)->inode ? ((const struct loc *)at)->inode
							       : ((const struct loc *)at)->parent;
	}
	return NULL;
}

/* Our own change that is being sent anew may be at some members only. */
static int wait_retried(struct afr *a, struct inode *inode, uint64_t deadline)
{
	struct object *o = inode ? inode_slot(inode, a->x) : NULL;
	int err = 0;

	if (!o)
		return 0;
	pthread_mutex_lock(&o->lock);
	while (o->retrying && !err)
		err = task_cond_wait(&o->changed, &o->lock, deadline);
	pthread_mutex_unlock(&o->lock);
	return err == -ETIMEDOUT ? -EIO : err;
}

/* ---- our own changes that are under way ---- */

/* A member may show what others have not done yet, and what comes to nothing in the end: so the answer waits until what was under way when
 * it came has ended; and where that failed it is asked for again. */
struct look {
	struct object *object;
	struct span span;
	uint64_t undone; /* before */
};

static void look_at(struct afr *a, struct look *l, struct inode *inode, enum span_kind kind, uint64_t start, uint64_t end)
{
	l->object = inode ? inode_slot(inode, a->x) : NULL;
	l->span = (struct span){ .kind = kind, .start = start, .end = end };
	l->undone = l->object ? object_undone(l->object) : 0;
}

/* What the request looks at. */
static void look(struct afr *a, enum fop fop, const void *in, struct inode *inode, struct look *l)
{
	const struct lookup_in *lookup = in;
	const struct read_in *read = in;
	uint64_t h;

	*l = (struct look){ 0 };
	switch ((int)fop) {
	case FOP_lookup:
		h = lookup->loc.name ? name_hash(lookup->loc.name) : 0;
		if (lookup->loc.name)
			look_at(a, l, lookup->loc.parent, SPAN_NAME, h, h);
		else
			look_at(a, l, inode, SPAN_ALL, 0, UINT64_MAX);
		break;
	case FOP_getattr:
	case FOP_readdir:
		look_at(a, l, inode, SPAN_ALL, 0, UINT64_MAX);
		break;
	case FOP_read:
		look_at(a, l, inode, SPAN_DATA, read->offset, read->offset + read->size);
		break;
	case FOP_seek:
		look_at(a, l, inode, SPAN_DATA, 0, UINT64_MAX);
		break;
	case FOP_access:
	case FOP_getxattr:
	case FOP_listxattr: /* what data and names have nothing to do with */
		look_at(a, l, inode, SPAN_NAME, 0, 0);
		break;
	default:
		break;
	}
}

/* 0: the answer holds; -EAGAIN: it may not. */
static int holds(const struct look *l, uint64_t deadline)
{
	int err = l->object ? spans_settled(l->object, &l->span, deadline) : 0;

	if (err || !l->object)
		return err;
	return object_undone(l->object) == l->undone ? 0 : -EAGAIN;
}

static int settled(struct afr *a, enum fop fop, const void *in, const void *out, int status, const struct look *seen,
		   uint64_t deadline)
{
	const struct lookup_in *lookup = in;
	const struct lookup_out *found = out;
	struct look child = { 0 };
	int err;

	if (fop == FOP_lookup && lookup->loc.name && !status && found->inode)
		look_at(a, &child, found->inode, SPAN_ALL, 0, UINT64_MAX);
	err = holds(seen, deadline);
	return err ? err : holds(&child, deadline);
}

/* Not the request's fault: another member may answer. */
static bool elsewhere(int err)
{
	return err == -EVIEW || err == -ENOTCONN || err == -ETIMEDOUT || err == -EIO || err == -ESTALE || err == -ENAMELESS ||
	       err == -EBADF || err == -ERECOVERING;
}

struct reading {
	struct afr *a;
	struct request *rq;
	enum fop fop;
	const void *in;
	void *out;
	struct inode *inode;
	uint64_t deadline;
	int member; /* who answered */
	int last;   /* error of the last member that could not */
};

/* All members of the view that are IN, one after the other. -EAGAIN: none could, but the view may be another by now. */
static int each_member(struct reading *r, const struct view *v)
{
	bool data = r->fop == FOP_read || r->fop == FOP_seek;
	unsigned tried = 0;
	int member, err;

	while ((member = afr_reader(r->a, v, r->inode, data, tried)) >= 0) {
		tried |= 1u << member;
		r->member = member;
		err = one_call(r->a, r->rq, member, r->fop, r->in, r->out, NULL);
		if (err == -EVIEW)
			afr_view_stale(r->a, v->epoch);
		if (!elsewhere(err))
			return err;
		r->last = err;
	}
	return -EAGAIN;
}

/* What all members say is true of the object, whatever it is: an unlinked file is stale at all of them. */
static bool conclusive(const struct reading *r, unsigned rounds)
{
	return (r->last == -ESTALE || r->last == -ENAMELESS || r->last == -EIO || r->last == -EBADF) && rounds > 2;
}

/* *unsure: there was an answer, but it may not hold. */
static int ask(struct reading *r, bool *unsure)
{
	struct look seen;
	struct view v;
	int holds, err = wait_retried(r->a, r->inode, r->deadline);

	look(r->a, r->fop, r->in, r->inode, &seen);
	if (!err)
		err = afr_view(r->a, r->deadline, &v);
	if (!err)
		err = each_member(r, &v);
	if (err == -EAGAIN || MUTANT("read-own-unsettled"))
		return err;
	holds = settled(r->a, r->fop, r->in, r->out, err, &seen, r->deadline);
	if (!holds)
		return err;
	if (!err) {
		fop_out_clear((int)r->fop, r->out);
		memset(r->out, 0, fop_info[r->fop].out_size);
	}
	*unsure = true;
	return holds;
}

int afr_read_at(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out, int *member)
{
	struct reading r = { afr_of(x), rq, fop, in, out, subject(fop, in), 0, -1, -EIO };
	uint64_t own = clock_ns() + r.a->max_wait_ms * 1000000;
	unsigned rounds = 0;
	bool unsure;
	int err;

	r.deadline = rq->deadline_ns && rq->deadline_ns < own ? rq->deadline_ns : own;
	do {
		unsure = false;
		err = ask(&r, &unsure);
		*member = r.member;
		if (err != -EAGAIN)
			return err;
		rounds += !unsure;
		if (!unsure && conclusive(&r, rounds))
			return r.last == -ENAMELESS ? -ESTALE : r.last;
		err = unsure ? 0 : task_sleep_ms(SOON_MS);
	} while (!err && clock_ns() < r.deadline);
	return err ? err : -EIO;
}

int afr_read(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	int member;

	return afr_read_at(rq, x, fop, in, out, &member);
}
