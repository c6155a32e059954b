/* SPDX-License-Identifier: Apache-2.0 */
/* One fop at several members at once, each asked by its own names for inodes and files. */
#include <linux/falloc.h>

#include "afr.h"
#include "graph.h"
#include "held.h"

struct branch {
	struct fan *fan;
	struct request *rq;
	struct task *task; /* while it runs; guarded by fan.lock */
	int child;
	struct replica_stamp stamp;
	struct member_result result;
};
struct fan { /* referred to by the caller and by each branch that runs */
	struct afr *a;
	enum fop fop;
	void *in;
	pthread_mutex_t lock;
	struct task_cond answered;
	int refs;
	bool left; /* by the caller: nobody takes what comes later */
	struct branch branch[REPLICAS_MAX];
};

/* ---- one call ---- */

static bool mask_bit(unsigned mask, int i)
{
	return mask >> i & 1;
}

static int use_loc(struct afr *a, struct loc *l, int child)
{
	int err = l->parent ? object_resolve(a, l->parent, child) : 0;

	if (err)
		return err;
	if (!l->inode)
		return 0;
	err = object_resolve(a, l->inode, child);
	if (err && l->parent && l->name) { /* the name is enough */
		l->inode = NULL;
		err = 0;
	}
	return err;
}

/* Replaces what the fields lend by what the child knows; of files these are references (drop_files). */
static int translate(struct afr *a, enum fop fop, void *in, int child)
{
	int err = 0;

	for (const struct field *f = fop_info[fop].in; f->name && !err; f++) {
		void *at = (char *)in + f->offset;

		if (f->kind == FIELD_LOC) {
			err = use_loc(a, at, child);
		} else if (f->kind == FIELD_INODE && *(struct inode **)at) {
			err = object_resolve(a, *(struct inode **)at, child);
		} else if (f->kind == FIELD_FILE && *(struct file **)at) {
			err = file_at(a, *(struct file **)at, child, at);
		}
	}
	return err == -ENOENT ? -ENAMELESS : err;
}

static void named_seen(struct afr *a, struct inode *inode, int member, struct inode *parent, const char *name, uint64_t since)
{
	object_seen(a, inode, member, parent, name);
	if (inode && parent && name && S_ISDIR(inode->type))
		directory_seen(a, parent, name, inode, since);
}

/* `since`: the moment before it was asked. */
static void note_seen(struct afr *a, int member, enum fop fop, const void *in, const void *out, uint64_t since)
{
	const struct lookup_in *lookup = in;
	const struct lookup_out *found = out;
	const struct dirents *d;

	switch ((int)fop) {
	case FOP_lookup:
		named_seen(a, found->inode, member, lookup->loc.name ? lookup->loc.parent : NULL, lookup->loc.name, since);
		break;
	case FOP_mknod:
	case FOP_mkdir:
	case FOP_symlink:
	case FOP_create: /* all have the loc first, and the inode */
		named_seen(a, found->inode, member, lookup->loc.parent, lookup->loc.name, since);
		break;
	case FOP_readdir:
		d = &((const struct readdir_out *)out)->entries;
		for (uint32_t i = 0; i < d->count; i++)
			named_seen(a, d->entry[i].inode, member, ((const struct readdir_in *)in)->file->inode, d->entry[i].name,
				   since);
		break;
	default:
		break;
	}
}
_Static_assert(offsetof(struct mknod_in, loc) == 0 && offsetof(struct create_in, loc) == 0 &&
		       offsetof(struct mkdir_in, loc) == 0 && offsetof(struct symlink_in, loc) == 0,
	       "see note_seen");
_Static_assert(offsetof(struct create_out, inode) == 0 && offsetof(struct mknod_out, inode) == 0 &&
		       offsetof(struct lookup_out, inode) == 0,
	       "see note_seen");

/* The arbiter holds no data: it hears only that there was such a change. Of what is preallocated it does the last byte, without which it
 * would not refuse what others refuse: another kind, or a place beyond what files may have. */
static int without_data(struct afr *a, enum fop fop, void *in, int child, struct buffer **empty)
{
	struct fallocate_in *f = in;
	struct write_in *w = in;

	if (child != a->arbiter_at)
		return 0;
	switch ((int)fop) {
	case FOP_write:
		*empty = buffer_create(0);
		w->data = *empty;
		return *empty ? 0 : -ENOMEM;
	case FOP_fallocate:
		if (f->length > 1 && f->offset <= UINT64_MAX - f->length) {
			f->offset += f->length - 1;
			f->length = 1;
		}
		f->mode |= FALLOC_FL_KEEP_SIZE;
		return 0;
	case FOP_copy_range:
		((struct copy_range_in *)in)->length = 0;
		return 0;
	default:
		return 0;
	}
}

/* A member that is not connected may come back any moment, but it is not waited for as for one that works. */
enum { DOWN_MS = 1000 };

static uint64_t member_deadline(struct afr *a, const struct request *rq, int member)
{
	bool up = atomic_load(&a->up) >> member & 1;
	uint64_t own = clock_ns() + (up || a->member_timeout_ms < DOWN_MS ? a->member_timeout_ms : DOWN_MS) * 1000000;

	return rq->deadline_ns && rq->deadline_ns < own ? rq->deadline_ns : own;
}

/* It was not for the object that the member refused, but for the file, or another object. */
static bool knows_yet(struct afr *a, struct inode *inode, int child)
{
	int err = afr_verb(a, child, REPLICA_LINKS, inode, NULL, clock_ns() + a->member_timeout_ms * 1000000, NULL);

	return !err || err == -EXDEV;
}

/* The member does not know it by that handle any more (its disk was replaced): names may lead there. */
static void forget_known(struct afr *a, enum fop fop, const void *in, int child)
{
	for (const struct field *f = fop_info[fop].in; f->name; f++) {
		const void *at = (const char *)in + f->offset;
		const struct loc *l = at;
		struct inode *inode[2] = { NULL, NULL };

		if (f->kind == FIELD_LOC) {
			inode[0] = l->parent;
			inode[1] = l->inode;
		} else if (f->kind == FIELD_INODE) {
			inode[0] = *(struct inode *const *)at;
		} else if (f->kind == FIELD_FILE && *(struct file *const *)at) {
			inode[0] = (*(struct file *const *)at)->inode;
		}
		for (int i = 0; i < 2; i++)
			if (inode[i] && inode_slot(inode[i], a->x) && !knows_yet(a, inode[i], child))
				atomic_fetch_and(&((struct object *)inode_slot(inode[i], a->x))->known, ~(1u << child));
	}
}

/* What translate has put in the place of ours. */
static void drop_files(struct afr *a, enum fop fop, const void *in, void *copy, int child, bool stale)
{
	for (const struct field *f = fop_info[fop].in; f->name; f++) {
		struct file *const *ours = (const void *)((const char *)in + f->offset);
		struct file **its = (void *)((char *)copy + f->offset);

		if (f->kind != FIELD_FILE || *its == *ours)
			continue;
		if (stale && *its)
			file_forget(a, *ours, child, *its);
		file_unref(*its);
	}
}

static int try_call(struct afr *a, struct request *rq, int member, enum fop fop, const void *in, void *out,
		    const struct replica_stamp *stamp);

int one_call(struct afr *a, struct request *rq, int member, enum fop fop, const void *in, void *out,
	     const struct replica_stamp *stamp)
{
	int err = try_call(a, rq, member, fop, in, out, stamp);

	if (err != -ESTALE)
		return err;
	forget_known(a, fop, in, member);
	return try_call(a, rq, member, fop, in, out, stamp);
}

static int try_call(struct afr *a, struct request *rq, int member, enum fop fop, const void *in, void *out,
		    const struct replica_stamp *stamp)
{
	char copy[512] __attribute__((aligned(16)));
	uint64_t before = rq->deadline_ns, since = afr_moment();
	struct buffer *empty = NULL;
	int err;

	_Static_assert(sizeof(struct compound_in) <= sizeof(copy) && sizeof(struct setattr_in) <= sizeof(copy), "room for all");
	memcpy(copy, in, fop_info[fop].in_size);
	if (stamp && !(stamp->flags & REPLICA_ASK) &&
	    lock_given_up(a, rq, fop, in, 1u << member)) /* where it is opened anew the lock would be taken there again */
		return -ENOTHELD;
	err = translate(a, fop, copy, member);
	if (!err && stamp)
		err = stamp_attach(rq, stamp);
	if (!err)
		err = without_data(a, fop, copy, member, &empty);
	if (!err) {
		if (!(fop_info[fop].flags & FOP_WAITS))
			rq->deadline_ns = member_deadline(a, rq, member);
		atomic_fetch_add(&a->outstanding[member], 1);
		err = fop_call(rq, a->x->child[member], fop, copy, out);
		atomic_fetch_sub(&a->outstanding[member], 1);
		rq->deadline_ns = before;
	}
	if (!err && empty)
		((struct write_out *)out)->written = (uint32_t)((const struct write_in *)in)->data->size;
	if (!err)
		note_seen(a, member, fop, in, out, since);
	buffer_unref(empty);
	drop_files(a, fop, in, copy, member, err == -ESTALE);
	return err;
}

/* ---- several ---- */

static void fan_unref(struct fan *f)
{
	struct graph *graph = f->a->x->graph;
	int left;

	pthread_mutex_lock(&f->lock);
	left = --f->refs;
	pthread_mutex_unlock(&f->lock);
	if (left)
		return;
	for (int i = 0; i < REPLICAS_MAX; i++) {
		struct branch *b = &f->branch[i];

		if (b->result.done && !b->result.answered)
			fop_out_clear((int)f->fop, &b->result.out);
		if (b->rq)
			request_free(b->rq);
	}
	if (f->in)
		fop_in_clear((int)f->fop, f->in);
	free(f->in);
	pthread_mutex_destroy(&f->lock);
	free(f);
	atomic_fetch_sub(&graph->requests, 1);
}

/* What was opened and nobody takes would stay open at the member until the session ends. */
static void close_left(struct fan *f, struct branch *b)
{
	for (const struct field *field = fop_info[f->fop].out; field->name; field++) {
		struct file *const *opened = (const void *)((const char *)&b->result.out + field->offset);
		struct release_in in = { field->kind == FIELD_FILE ? *opened : NULL };
		struct release_out out = { 0 };
		struct request rq;

		if (!in.file)
			continue;
		own_request(f->a, &rq);
		task_shield(true); /* it may have been cancelled */
		release_on(&rq, f->a->x->child[b->child], &in, &out);
		task_shield(false);
		request_finish(&rq);
	}
}

static void run_branch(void *arg)
{
	struct branch *b = arg;
	struct fan *f = b->fan;
	bool left;
	int err;

	pthread_mutex_lock(&f->lock);
	b->task = b->rq->task = task_self();
	pthread_mutex_unlock(&f->lock);
	err = one_call(f->a, b->rq, b->child, f->fop, f->in, &b->result.out, b->stamp.epoch ? &b->stamp : NULL);
	pthread_mutex_lock(&f->lock);
	b->task = NULL;
	b->result.answered = err;
	b->result.granted = !err && granted_of(b->rq);
	b->result.done = true;
	left = f->left;
	pthread_mutex_unlock(&f->lock);
	task_cond_broadcast(&f->answered);
	if (left && !err)
		close_left(f, b);
	fan_unref(f);
}

static void start_branch(struct fan *f, struct request *rq, int child, const struct replica_stamp *stamp)
{
	struct branch *b = &f->branch[child];
	int err = 0;

	b->fan = f;
	b->child = child;
	b->stamp = stamp ? *stamp : (struct replica_stamp){ 0 };
	b->result.asked = true;
	b->rq = request_copy(rq);
	if (!b->rq)
		err = -ENOMEM;
	pthread_mutex_lock(&f->lock);
	f->refs++;
	pthread_mutex_unlock(&f->lock);
	if (!err)
		err = task_spawn(task_shard(task_self()), run_branch, b);
	if (!err)
		return;
	pthread_mutex_lock(&f->lock);
	f->refs--;
	b->result.answered = err;
	b->result.done = true;
	pthread_mutex_unlock(&f->lock);
}

/* The answers of members that have left the view matter no more. */
static bool waits_for_any(struct fan *f, unsigned view)
{
	for (int i = 0; i < f->a->members; i++)
		if (f->branch[i].result.asked && !f->branch[i].result.done && mask_bit(view, i))
			return true;
	return false;
}

static unsigned view_now(struct afr *a)
{
	unsigned mask;

	pthread_mutex_lock(&a->lock);
	mask = view_mask(&a->view, MEMBER_BACK);
	pthread_mutex_unlock(&a->lock);
	return mask;
}

enum { LOOK_NS = 100000000, LOOKS_STALE = 30 };

/* What the caller will see, whatever comes later. */
static void give_up_rest(struct fan *f)
{
	for (int i = 0; i < f->a->members; i++) {
		struct branch *b = &f->branch[i];

		b->result.status = b->result.done ? b->result.answered : -ETIMEDOUT;
		if (!b->result.asked || b->result.done)
			continue;
		if (b->task)
			task_cancel(b->task);
	}
}

/* Nobody else may fetch it: a client that waits for a lock may have nothing else to do. */
static unsigned view_fetched(struct afr *a, bool stale)
{
	struct view v;

	pthread_mutex_lock(&a->lock);
	a->stale |= stale;
	pthread_mutex_unlock(&a->lock);
	return afr_view(a, clock_ns() + LOOK_NS, &v) ? ~0u : view_mask(&v, MEMBER_BACK);
}

/* Whatever else it says, such as that its member is in no view: it is not to be tried again. */
static void cancelled(struct fan *f)
{
	for (int i = 0; i < f->a->members; i++)
		if (f->branch[i].result.status)
			f->branch[i].result.status = -ECANCELED;
}

/* What was cancelled where its member has left the view: not by the caller, who asks in the next one. */
static void left_behind(struct fan *f)
{
	for (int i = 0; i < f->a->members; i++)
		if (f->branch[i].result.status == -ECANCELED)
			f->branch[i].result.status = -ETIMEDOUT;
}

/* A call that waits has no deadline, and can be interrupted; whether it was done before that came is known when it has ended. */
static void wait_patiently(struct fan *f)
{
	uint64_t until;
	unsigned view = ~0u, looks = 0;
	int err = 0;

	pthread_mutex_lock(&f->lock);
	while (err != -ECANCELED && waits_for_any(f, view)) {
		err = task_cond_wait(&f->answered, &f->lock, clock_ns() + LOOK_NS);
		if (err != -ETIMEDOUT)
			continue;
		pthread_mutex_unlock(&f->lock);
		task_shield(true); /* a cancel, which comes but once, is for the wait */
		view = view_fetched(f->a, ++looks % LOOKS_STALE == 0);
		task_shield(false);
		pthread_mutex_lock(&f->lock);
	}
	task_shield(true);
	until = clock_ns() + 1000000000;
	give_up_rest(f);
	while (waits_for_any(f, ~0u) && clock_ns() < until)
		task_cond_wait(&f->answered, &f->lock, until);
	give_up_rest(f);
	if (err == -ECANCELED)
		cancelled(f);
	else
		left_behind(f);
	pthread_mutex_unlock(&f->lock);
	task_shield(false);
}

/* A member has said that its view is another one by now, so whoever is silent may have left that: the epoch that is over. 0: nobody has. */
static uint64_t epoch_over(const struct fan *f)
{
	for (int i = 0; i < f->a->members; i++)
		if (f->branch[i].result.asked && f->branch[i].result.done && f->branch[i].result.answered == -EVIEW)
			return f->branch[i].stamp.epoch;
	return 0;
}

static void wait_all(struct fan *f)
{
	unsigned view = ~0u, looks = 0;

	task_shield(true);
	pthread_mutex_lock(&f->lock);
	while (waits_for_any(f, view)) {
		uint64_t over = epoch_over(f);

		if ((!over || looks) && task_cond_wait(&f->answered, &f->lock, clock_ns() + LOOK_NS) != -ETIMEDOUT)
			continue;
		looks += over != 0;
		pthread_mutex_unlock(&f->lock);
		if (over)
			afr_view_stale(f->a, over);
		view = over ? view_fetched(f->a, false) : view_now(f->a);
		pthread_mutex_lock(&f->lock);
	}
	give_up_rest(f);
	pthread_mutex_unlock(&f->lock);
	task_shield(false);
}

struct fan *fan_call(struct afr *a, struct request *rq, unsigned mask, enum fop fop, const void *in,
		     const struct replica_stamp *stamp)
{
	struct fan *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	pthread_mutex_init(&f->lock, NULL);
	atomic_fetch_add(&a->x->graph->requests, 1);
	f->a = a;
	f->fop = fop;
	f->refs = 1;
	f->in = calloc(1, fop_info[fop].in_size);
	if (!f->in || fop_in_copy((int)fop, f->in, in)) {
		free(f->in);
		f->in = NULL;
		fan_unref(f);
		return NULL;
	}
	for (int i = 0; i < a->members; i++)
		if (mask_bit(mask, i))
			start_branch(f, rq, i, stamp);
	if (fop_info[fop].flags & FOP_WAITS)
		wait_patiently(f);
	else
		wait_all(f);
	return f;
}

void fan_again(struct fan *f, struct request *rq, unsigned mask, const struct replica_stamp *stamp)
{
	for (int i = 0; i < f->a->members; i++) {
		struct branch *b = &f->branch[i];

		if (!mask_bit(mask, i) || (b->result.asked && !b->result.done))
			continue;
		if (b->rq)
			request_free(b->rq);
		b->result = (struct member_result){ 0 };
		start_branch(f, rq, i, stamp);
	}
	wait_all(f);
}

struct member_result *fan_result(struct fan *f, int member)
{
	return &f->branch[member].result;
}

void fan_free(struct fan *f)
{
	unsigned done = 0;

	pthread_mutex_lock(&f->lock);
	f->left = true;
	for (int i = 0; i < f->a->members; i++)
		done |= f->branch[i].result.done && !f->branch[i].result.answered ? 1u << i : 0;
	pthread_mutex_unlock(&f->lock);
	task_shield(true);
	for (int i = 0; i < f->a->members; i++)
		if (mask_bit(done, i))
			close_left(f, &f->branch[i]);
	task_shield(false);
	fan_unref(f);
}
