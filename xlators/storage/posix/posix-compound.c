/* SPDX-License-Identifier: Apache-2.0 */
/* compound: steps with conditions, alone at the objects they name (doc/compound.md). */
#include "posix.h"

/* A compound under way. */
struct compound_run {
	struct brick *brick;
	const struct request *rq;
	struct compound_run *next; /* in the brick's list */
	uint64_t wanted[GATES / 64], taken[GATES / 64];
};

/* ---- gates: plain changes of an inode together, a compound alone ----
 * A request passes its gates in the order of their addresses, so no two wait for each other. */

static struct gate *gate_of(struct brick *b, const struct inode *inode)
{
	uint64_t number;

	if (!inode)
		return NULL;
	memcpy(&number, inode->gfid.bytes + 8, sizeof number);
	return &b->gate[(number ^ number >> 32) % GATES];
}

static int gate_enter(struct gate *g, uint64_t deadline_ns, bool alone)
{
	int err = 0;

	pthread_mutex_lock(&g->lock);
	g->compounds += alone;
	while (!err && (g->alone || (alone ? g->inside : g->compounds)))
		err = task_cond_wait(&g->changed, &g->lock, deadline_ns);
	if (err && alone && !--g->compounds)
		task_cond_broadcast(&g->changed);
	if (!err && alone)
		g->alone = true;
	else if (!err)
		g->inside++;
	pthread_mutex_unlock(&g->lock);
	return err;
}

static void gate_leave(struct gate *g, bool alone)
{
	pthread_mutex_lock(&g->lock);
	if (alone) {
		g->alone = false;
		g->compounds--;
	} else {
		g->inside--;
	}
	if (alone || (!g->inside && g->compounds))
		task_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

/* A step of a compound has passed already. Compounds are few: mostly this is one load. */
static bool in_compound(struct brick *b, const struct request *rq)
{
	const struct compound_run *c = NULL;

	if (!atomic_load_explicit(&b->compounds, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&b->compound_lock);
	for (c = b->compound; c && c->rq != rq; c = c->next)
		;
	pthread_mutex_unlock(&b->compound_lock);
	return c != NULL;
}

int passage_enter(struct passage *p, struct request *rq, struct xlator *x, const struct inode *a, const struct inode *b)
{
	struct gate *g = gate_of(brick_of(x), a), *h = gate_of(brick_of(x), b);
	int err = 0;

	if (in_compound(brick_of(x), rq))
		return 0;
	if (g == h)
		h = NULL;
	if (!g || (h && h < g)) {
		struct gate *swap = g;

		g = h;
		h = swap;
	}
	if (g)
		err = gate_enter(g, rq->deadline_ns, false);
	if (err)
		return err;
	p->first = g;
	if (h)
		err = gate_enter(h, rq->deadline_ns, false);
	if (!err)
		p->second = h;
	return err;
}

void passage_leave(struct passage *p)
{
	if (p->second)
		gate_leave(p->second, false);
	if (p->first)
		gate_leave(p->first, false);
	p->first = p->second = NULL;
}

/* ---- what a compound is at ---- */

#define cleanup_run __attribute__((cleanup(run_end)))

static void want(struct compound_run *c, const struct inode *inode)
{
	struct gate *g = gate_of(c->brick, inode);

	if (g)
		c->wanted[(g - c->brick->gate) / 64] |= 1ull << (g - c->brick->gate) % 64;
}

static void want_loc(struct compound_run *c, const struct loc *loc)
{
	want(c, loc->parent);
	want(c, loc->inode);
}

static void want_step(struct compound_run *c, const struct step *step)
{
	const char *in = step->in;

	want(c, step->condition.inode);
	want_loc(c, &step->condition.loc);
	for (const struct field *f = fop_info[step->fop].in; f->name; f++) {
		struct file *file;

		if (f->kind == FIELD_LOC)
			want_loc(c, (const void *)(in + f->offset));
		else if (f->kind == FIELD_INODE)
			want(c, *(struct inode *const *)(in + f->offset));
		else if (f->kind == FIELD_FILE && (file = *(struct file *const *)(in + f->offset)))
			want(c, file->inode);
	}
}

static int close_gates(struct compound_run *c, uint64_t deadline_ns)
{
	int err = 0;

	for (int i = 0; i < GATES && !err; i++) {
		if (!(c->wanted[i / 64] >> i % 64 & 1))
			continue;
		err = gate_enter(&c->brick->gate[i], deadline_ns, true);
		if (!err)
			c->taken[i / 64] |= 1ull << i % 64;
	}
	return err;
}

static void run_begin(struct compound_run *c)
{
	pthread_mutex_lock(&c->brick->compound_lock);
	c->next = c->brick->compound;
	c->brick->compound = c;
	atomic_fetch_add(&c->brick->compounds, 1);
	pthread_mutex_unlock(&c->brick->compound_lock);
}

static void run_end(struct compound_run *c)
{
	struct compound_run **at;

	pthread_mutex_lock(&c->brick->compound_lock);
	for (at = &c->brick->compound; *at != c; at = &(*at)->next)
		;
	*at = c->next;
	atomic_fetch_sub(&c->brick->compounds, 1);
	pthread_mutex_unlock(&c->brick->compound_lock);
	for (int i = 0; i < GATES; i++)
		if (c->taken[i / 64] >> i % 64 & 1)
			gate_leave(&c->brick->gate[i], true);
}

/* ---- conditions ---- */

struct last { /* what the steps so far gave; borrowed from their results */
	struct inode *inode;
	struct file *file;
};

static bool size_is(struct request *rq, struct xlator *x, struct inode *inode, uint64_t size)
{
	struct getattr_in in = { .inode = inode };
	struct getattr_out out = { 0 };

	return inode && !brick_getattr(rq, x, &in, &out) && out.attr.size == size;
}

/* 1: has just that value; 0: another or none; -errno. */
static int xattr_is(struct request *rq, struct xlator *x, struct inode *inode, const char *name, const struct blob *value)
{
	struct getxattr_in in = { .inode = inode, .name = name };
	struct getxattr_out out = { 0 };
	int err = inode ? brick_getxattr(rq, x, &in, &out) : -ESTALE;
	bool same;

	if (err)
		return err == -ENODATA ? 0 : err;
	same = !value ||
	       (out.value.size == value->size && (!value->size || !memcmp(out.value.bytes, value->bytes, value->size)));
	fop_out_clear(FOP_getxattr, &out);
	return same;
}

static int exists(struct xlator *x, const struct loc *given, const struct last *last)
{
	struct loc loc = *given;
	cleanup_hold struct hold parent = HOLD_NONE;
	struct stat st;

	if (!loc.parent)
		loc.parent = last->inode;
	int err = parent_hold(x, &loc, -ENOENT, &parent);

	if (!err)
		err = result(fstatat(parent.fd, loc.name, &st, AT_SYMLINK_NOFOLLOW));
	return !err ? 1 : err == -ENOENT ? 0 : err;
}

/* 0: it holds; -ECANCELED: it doesn't; other -errno: can't be known. */
static int check(struct request *rq, struct xlator *x, const struct condition *c, const struct last *last)
{
	struct inode *inode = c->inode ? c->inode : last->inode;
	int holds;

	switch ((enum condition_kind)c->kind) {
	case IF_NOTHING:
		return 0;
	case IF_SIZE:
		holds = size_is(rq, x, inode, c->size);
		break;
	case IF_XATTR:
		holds = xattr_is(rq, x, inode, c->name, &c->value);
		break;
	case IF_NO_XATTR:
		holds = xattr_is(rq, x, inode, c->name, NULL);
		holds = holds < 0 ? holds : !holds;
		break;
	case IF_EXISTS:
		holds = exists(x, &c->loc, last);
		break;
	case IF_ABSENT:
		holds = exists(x, &c->loc, last);
		holds = holds < 0 ? holds : !holds;
		break;
	default:
		return -EINVAL;
	}
	return holds < 0 ? holds : holds ? 0 : -ECANCELED;
}

/* ---- steps ---- */

union any_in {
#define X(op) struct op##_in op;
	FOPS(X)
#undef X
};

static void complete_loc(struct loc *loc, const struct last *last)
{
	if (loc->name && !loc->parent)
		loc->parent = last->inode;
	else if (!loc->name && !loc->inode)
		loc->inode = last->inode;
}

/* An inode or file that is NULL means the last one. Where a fop has both and its inode is given, no file is meant. */
static void complete(int fop, void *in, const struct last *last)
{
	bool inode_given = false;

	for (const struct field *f = fop_info[fop].in; f->name; f++) {
		struct inode **inode = (void *)((char *)in + f->offset);
		struct file **file = (void *)((char *)in + f->offset);

		if (f->kind == FIELD_LOC)
			complete_loc((void *)((char *)in + f->offset), last);
		if (f->kind == FIELD_INODE) {
			inode_given = *inode;
			*inode = *inode ? *inode : last->inode;
		}
		if (f->kind == FIELD_FILE && !*file && !inode_given)
			*file = last->file;
	}
}

static void remember(int fop, const void *out, struct last *last)
{
	for (const struct field *f = fop_info[fop].out; f->name; f++) {
		if (f->kind == FIELD_INODE)
			last->inode = *(struct inode *const *)((const char *)out + f->offset);
		if (f->kind == FIELD_FILE) {
			last->file = *(struct file *const *)((const char *)out + f->offset);
			last->inode = last->file ? last->file->inode : last->inode;
		}
	}
}

static int run_step(struct request *rq, struct xlator *x, const struct step *step, struct last *last, struct result *r)
{
	union any_in in;
	void *out;
	int err = check(rq, x, &step->condition, last);

	if (err)
		return err;
	out = calloc(1, fop_info[step->fop].out_size);
	if (!out)
		return -ENOMEM;
	memcpy(&in, step->in, fop_info[step->fop].in_size);
	complete((int)step->fop, &in, last);
	err = fop_call(rq, x, step->fop, &in, out);
	if (err) {
		free(out);
		return err;
	}
	r->out = out;
	remember((int)step->fop, out, last);
	return 0;
}

static bool step_allowed(const struct step *s)
{
	switch (s->fop) {
	case FOP_compound:
	case FOP_setlk:
	case FOP_getlk:
	case FOP_access:
		return false;
	default:
		return s->fop > 0 && s->fop < FOP_COUNT && s->in && s->condition.kind <= IF_ABSENT;
	}
}

static int check_steps(const struct steps *s)
{
	if (s->count > COMPOUND_MAX || (s->count && !s->step))
		return -EINVAL;
	for (uint32_t i = 0; i < s->count; i++)
		if (!step_allowed(&s->step[i]) ||
		    ((s->step[i].condition.kind == IF_XATTR || s->step[i].condition.kind == IF_NO_XATTR) &&
		     !s->step[i].condition.name))
			return -EINVAL;
	return 0;
}

/* The answer tells of each step that was tried, so the compound itself has succeeded also when the last has not. */
static void run_steps(struct request *rq, struct xlator *x, const struct steps *steps, struct results *results)
{
	struct last last = { NULL, NULL };
	int err = 0;

	while (!err && results->count < steps->count) {
		const struct step *step = &steps->step[results->count];
		struct result *r = &results->result[results->count++];

		err = run_step(rq, x, step, &last, r);
		r->fop = step->fop;
		r->status = err;
	}
}

int brick_compound(struct request *rq, struct xlator *x, const struct compound_in *in, struct compound_out *out)
{
	int err =
		request_extension(rq, BORN_EXTENSION) ? -EOPNOTSUPP : check_steps(&in->steps); /* of which step would it be? */

	if (err || !in->steps.count)
		return err;
	cleanup_run struct compound_run run = { .brick = brick_of(x), .rq = rq };

	run_begin(&run);
	for (uint32_t i = 0; i < in->steps.count; i++)
		want_step(&run, &in->steps.step[i]);
	err = close_gates(&run, rq->deadline_ns);
	if (err)
		return err;
	out->results.result = calloc(in->steps.count, sizeof *out->results.result);
	if (!out->results.result)
		return -ENOMEM;
	run_steps(rq, x, &in->steps, &out->results);
	return 0;
}
