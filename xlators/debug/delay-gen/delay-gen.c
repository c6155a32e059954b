/* SPDX-License-Identifier: Apache-2.0 */
/* debug/delay-gen: makes a share of the chosen fops wait before they go on, as a slow disk or network would. */
#include <stdatomic.h>
#include <stdio.h>

#include "fop-set.h"
#include "xlator.h"

struct delay_gen {
	char *fops;
	double percent;
	uint64_t delay_ms, jitter_ms;
	int64_t seed;
	_Atomic uint64_t set, tried, delayed;
};

static const struct option options[] = {
	{ "fops", OPTION_STRING, OPTION_AT(struct delay_gen, fops), "all",
	  "which fops: names, all, none, mutating, reading, -NAME", .live = true, .check = fop_set_check },
	{ "percent", OPTION_PERCENT, OPTION_AT(struct delay_gen, percent), "100", "share of them that wait", .live = true },
	{ "delay", OPTION_DURATION, OPTION_AT(struct delay_gen, delay_ms), "10ms", "how long", .live = true },
	{ "jitter", OPTION_DURATION, OPTION_AT(struct delay_gen, jitter_ms), "0ms", "and up to so much longer, at random",
	  .live = true },
	{ "seed", OPTION_INT, OPTION_AT(struct delay_gen, seed), "1", "the same seed delays the same ones in order" },
	{ NULL },
};

/* splitmix64, as in debug/error-gen. */
static uint64_t nth_random(uint64_t seed, uint64_t n)
{
	uint64_t z = seed + n * 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static int delay_gen_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	struct delay_gen *p = x->private;
	uint64_t n, jitter_ms = p->jitter_ms;
	int err = 0;

	if (!fop_set_has(p->set, fop))
		return fop_pass(rq, x, fop, in, out);
	n = 2 * atomic_fetch_add(&p->tried, 1);
	if ((nth_random(p->seed, n) >> 11) * (100.0 / (1ULL << 53)) < p->percent) {
		atomic_fetch_add(&p->delayed, 1);
		err = task_sleep_ms(p->delay_ms + (jitter_ms ? nth_random(p->seed, n + 1) % (jitter_ms + 1) : 0));
	}
	return err == -ECANCELED ? err : fop_pass(rq, x, fop, in, out);
}

static int delay_gen_init(struct xlator *x, struct problem *problem)
{
	struct delay_gen *p = x->private;
	uint64_t set = 0;
	int err = fop_set_parse(p->fops, &set, problem);

	p->set = set;
	return err;
}

static void delay_gen_reconfigure(struct xlator *x, const struct option *option)
{
	struct delay_gen *p = x->private;

	(void)option;
	fop_set_change(p->fops, &p->set, x);
}

static void delay_gen_dump(struct xlator *x, FILE *f)
{
	struct delay_gen *p = x->private;

	fprintf(f, "  tried: %llu\n  delayed: %llu\n", (unsigned long long)p->tried, (unsigned long long)p->delayed);
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "debug/delay-gen",
	.summary = "delays a share of the operations",
	.options = options,
	.private_size = sizeof(struct delay_gen),
	.min_children = 1,
	.max_children = 1,
	.init = delay_gen_init,
	.reconfigure = delay_gen_reconfigure,
	.dump = delay_gen_dump,
	.any = delay_gen_any,
};
