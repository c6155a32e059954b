/* SPDX-License-Identifier: Apache-2.0 */
/* Reads: at one member that is IN; another is asked when it can't answer. */
#include "afr.h"

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

struct look look_at(struct afr *a, struct inode *inode, enum span_kind kind, uint64_t start, uint64_t end)
{
	return (struct look){ inode, { .kind = kind, .start = start, .end = end }, atomic_load(&a->undone) };
}

static struct look look_of(struct afr *a, enum fop fop, const void *in, struct inode *inode)
{
	const struct lookup_in *lookup = in;
	const struct read_in *read = in;
	uint64_t h;

	switch ((int)fop) {
	case FOP_lookup:
		if (!lookup->loc.name)
			return look_at(a, inode, SPAN_ALL, 0, UINT64_MAX);
		h = name_hash(lookup->loc.name);
		return look_at(a, lookup->loc.parent, SPAN_NAME, h, h);
	case FOP_getattr:
		return look_at(a, inode, SPAN_ALL, 0, UINT64_MAX);
	case FOP_read:
		return look_at(a, inode, SPAN_DATA, read->offset, read->offset + read->size);
	case FOP_seek:
		return look_at(a, inode, SPAN_DATA, 0, UINT64_MAX);
	case FOP_access:
	case FOP_getxattr:
	case FOP_listxattr: /* what data and names have nothing to do with */
		return look_at(a, inode, SPAN_NAME, 0, 0);
	default:
		return look_at(a, NULL, SPAN_NAME, 0, 0);
	}
}

int look_holds(struct afr *a, const struct look *l, uint64_t deadline)
{
	struct object *o = l->inode && !MUTANT("read-own-unsettled") ? inode_slot(l->inode, a->x) : NULL;

	return o ? spans_settled(o, &l->span, l->undone, deadline) : 0;
}

#define UNREAD_NS 2000000000ul
struct reading {
	struct afr *a;
	struct request *rq;
	enum fop fop;
	const void *in;
	void *out;
	struct inode *inode;
	uint64_t deadline;
	int member;    /* who answered */
	int last;      /* error of the last member that could not */
	bool unproven; /* one may not be read */
	unsigned lost; /* those that do not answer */
	uint64_t since;
};

/* A name tells of what it stands for, too. */
static int settled(const struct reading *r, int status, const struct look *seen)
{
	const struct lookup_in *lookup = r->in;
	const struct lookup_out *found = r->out;
	struct look child = *seen;
	int err = look_holds(r->a, seen, r->deadline);

	if (err || r->fop != FOP_lookup || !lookup->loc.name || status)
		return err;
	child.inode = found->inode;
	child.span = (struct span){ .kind = SPAN_ALL, .end = UINT64_MAX };
	return look_holds(r->a, &child, r->deadline);
}

bool afr_elsewhere(int err)
{
	return err == -EVIEW || err == -ENOTCONN || err == -ETIMEDOUT || err == -EIO || err == -ESTALE || err == -ENAMELESS ||
	       err == -EBADF || err == -ERECOVERING;
}

/* All members of the view that are IN, one after the other. -EAGAIN: none could, but the view may be another by now. */
static int each_member(struct reading *r, const struct view *v)
{
	bool data = r->fop == FOP_read || r->fop == FOP_seek;
	unsigned tried = 0;
	int member, err;

	r->last = -ERECOVERING;
	r->unproven = false;
	r->lost = 0;
	while ((member = afr_reader(r->a, v, r->inode, data, tried)) >= 0) {
		tried |= 1u << member;
		r->member = member;
		err = one_call(r->a, r->rq, member, r->fop, r->in, r->out, NULL);
		if (err == -EVIEW)
			afr_view_stale(r->a, v->epoch);
		if (!afr_elsewhere(err))
			return err;
		if (err == -ERECOVERING)
			afr_unproven(r->a, member);
		else
			r->last = err;
		r->unproven |= err == -ERECOVERING;
		r->lost |= err == -ENOTCONN || err == -ETIMEDOUT ? 1u << member : 0;
	}
	return -EAGAIN;
}

void afr_unread(struct afr *a, const struct view *v, unsigned lost, uint64_t since)
{
	uint64_t now = clock_ns(), told = atomic_load(&a->unread_ns);

	if (now < since + UNREAD_NS || (told && now < told + UNREAD_NS) ||
	    !atomic_compare_exchange_strong(&a->unread_ns, &told, now))
		return;
	afr_suspect(a, v, lost, -ENOTCONN);
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

	seen = look_of(r->a, r->fop, r->in, r->inode);
	if (!err)
		err = afr_view(r->a, r->deadline, &v);
	if (!err)
		err = each_member(r, &v);
	if (err == -EAGAIN && r->unproven && r->lost)
		afr_unread(r->a, &v, r->lost, r->since);
	if (err == -EAGAIN)
		return err;
	holds = settled(r, err, &seen);
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
	struct reading r = { afr_of(x), rq, fop, in, out, subject(fop, in), 0, -1, -EIO, false, 0, clock_ns() };
	unsigned rounds = 0;
	bool unsure;
	int err;

	r.deadline = afr_deadline(r.a, rq);
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
