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

int afr_read_at(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out, int *member)
{
	struct reading r = { afr_of(x), rq, fop, in, out, subject(fop, in), 0, -1, -EIO };
	uint64_t own = clock_ns() + r.a->max_wait_ms * 1000000;
	unsigned rounds = 0;
	struct view v;
	int err;

	r.deadline = rq->deadline_ns && rq->deadline_ns < own ? rq->deadline_ns : own;
	do {
		err = wait_retried(r.a, r.inode, r.deadline);
		if (!err)
			err = afr_view(r.a, r.deadline, &v);
		if (!err)
			err = each_member(&r, &v);
		*member = r.member;
		if (err != -EAGAIN)
			return err;
		rounds++;
		if (conclusive(&r, rounds))
			return r.last == -ENAMELESS ? -ESTALE : r.last;
		err = task_sleep_ms(SOON_MS);
	} while (!err && clock_ns() < r.deadline);
	return err ? err : -EIO;
}

int afr_read(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	int member;

	return afr_read_at(rq, x, fop, in, out, &member);
}
