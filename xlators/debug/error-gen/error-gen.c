/* SPDX-License-Identifier: Apache-2.0 */
/* debug/error-gen: fails a share of the chosen fops before they reach the child, to test what lies above. */
#include <stdatomic.h>
#include <stdio.h>

#include "fop-set.h"
#include "xlator.h"

struct error_gen {
	char *fops;
	double percent;
	int64_t error; /* index in errors */
	int64_t seed, count;
	_Atomic uint64_t set, tried, injected;
};

#define ERRORS(X)                                                                                                              \
	X(EIO)                                                                                                                 \
	X(ENOSPC)                                                                                                              \
	X(EACCES)                                                                                                              \
	X(EPERM) X(ENOENT) X(EAGAIN) X(EINTR) X(ENOMEM) X(ESTALE) X(ENOTCONN) X(ETIMEDOUT) X(EDQUOT) X(EROFS) X(ENOLCK)        \
		X(EBUSY) X(ENODATA) X(EEXIST) X(ENAMETOOLONG) X(ECANCELED) X(EOPNOTSUPP)
#define NUMBER(name) name,
#define CHOICE(name) "|" #name
static const int errors[] = { ERRORS(NUMBER) };
static const char choices[] = "" ERRORS(CHOICE);

static const struct option options[] = {
	{ "fops", OPTION_STRING, OPTION_AT(struct error_gen, fops), "all",
	  "which fops: names, all, none, mutating, reading, -NAME", .live = true, .check = fop_set_check },
	{ "percent", OPTION_PERCENT, OPTION_AT(struct error_gen, percent), "100", "share of them that fail", .live = true },
	{ "errno", OPTION_ENUM, OPTION_AT(struct error_gen, error), "EIO", "the error they fail with", .choices = choices + 1,
	  .live = true },
	{ "seed", OPTION_INT, OPTION_AT(struct error_gen, seed), "1", "the same seed fails the same ones in order" },
	{ "count", OPTION_INT, OPTION_AT(struct error_gen, count), "0",
	  "fail no more than so many, 0: no limit (setting it starts again)", .max = INT64_MAX, .live = true },
	{ NULL },
};

/* splitmix64 (Steele, Lea and Flood 2014): the n-th number of the seed's sequence, without shared state. */
static uint64_t nth_random(uint64_t seed, uint64_t n)
{
	uint64_t z = seed + n * 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static bool fails(struct error_gen *p)
{
	double dice = (nth_random(p->seed, atomic_fetch_add(&p->tried, 1) + 1) >> 11) * (100.0 / (1ULL << 53));
	uint64_t limit = p->count;

	if (dice >= p->percent)
		return false;
	if (atomic_fetch_add(&p->injected, 1) < limit || !limit)
		return true;
	atomic_fetch_sub(&p->injected, 1);
	return false;
}

static int error_gen_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	struct error_gen *p = x->private;

	if (fop_set_has(p->set, fop) && fails(p))
		return -errors[p->error];
	return fop_pass(rq, x, fop, in, out);
}

static int error_gen_init(struct xlator *x, struct problem *problem)
{
	struct error_gen *p = x->private;
	uint64_t set = 0;
	int err = fop_set_parse(p->fops, &set, problem);

	p->set = set;
	return err;
}

static void error_gen_reconfigure(struct xlator *x, const struct option *option)
{
	struct error_gen *p = x->private;

	if (!strcmp(option->name, "count"))
		p->injected = 0;
	fop_set_change(p->fops, &p->set, x);
}

static void error_gen_dump(struct xlator *x, FILE *f)
{
	struct error_gen *p = x->private;

	fprintf(f, "  tried: %llu\n  injected: %llu\n", (unsigned long long)p->tried, (unsigned long long)p->injected);
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "debug/error-gen",
	.summary = "fails a share of the operations",
	.options = options,
	.private_size = sizeof(struct error_gen),
	.min_children = 1,
	.max_children = 1,
	.init = error_gen_init,
	.reconfigure = error_gen_reconfigure,
	.dump = error_gen_dump,
	.any = error_gen_any,
};
