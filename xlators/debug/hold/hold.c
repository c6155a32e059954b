/* SPDX-License-Identifier: Apache-2.0 */
/* debug/hold: parks chosen requests until a command (or a test) lets them go, so that a test can order what happens. */
#include <pthread.h>
#include <stdio.h>

#include "fop-set.h"
#include "xlator.h"

struct parked { /* on the stack of the request's task */
	struct task *task;
	const struct request *rq;
	enum fop fop;
	uint64_t since_ns;
	bool released;
	struct parked *next;
};
struct hold {
	char *fops;
	int64_t count;
	pthread_mutex_t lock;
	uint64_t set;
	uint64_t left;	      /* how many more to park */
	struct parked *first; /* oldest first */
};

static const struct option options[] = {
	{ "fops", OPTION_STRING, OPTION_AT(struct hold, fops), "none", "park these: names, all, none, mutating, reading, -NAME",
	  .live = true, .check = fop_set_check },
	{ "count", OPTION_INT, OPTION_AT(struct hold, count), "0", "park no more than so many, 0: no limit", .max = INT64_MAX,
	  .live = true },
	{ NULL },
};

static bool park(struct hold *p, struct parked *me)
{
	struct parked **at = &p->first;
	bool parked;

	pthread_mutex_lock(&p->lock);
	parked = fop_set_has(p->set, me->fop) && p->left;
	if (parked) {
		p->left -= p->left != UINT64_MAX;
		while (*at)
			at = &(*at)->next;
		*at = me;
	}
	pthread_mutex_unlock(&p->lock);
	return parked;
}

/* Takes the request from the list and wakes it. The lock is held: the memory of *at may go once it isn't. */
static void let_go(struct parked **at)
{
	struct parked *one = *at;

	*at = one->next;
	one->released = true;
	task_wake(one->task);
}

static uint64_t release(struct hold *p, uint64_t most)
{
	uint64_t n;

	pthread_mutex_lock(&p->lock);
	for (n = 0; p->first && n < most; n++)
		let_go(&p->first);
	pthread_mutex_unlock(&p->lock);
	return n;
}

/* True if a command let it go; else the request takes itself from the list. */
static bool leave(struct hold *p, struct parked *me)
{
	struct parked **at = &p->first;
	bool released;

	pthread_mutex_lock(&p->lock);
	released = me->released;
	while (!released && *at != me)
		at = &(*at)->next;
	if (!released)
		*at = me->next;
	pthread_mutex_unlock(&p->lock);
	return released;
}

static bool is_released(struct hold *p, struct parked *me)
{
	bool released;

	pthread_mutex_lock(&p->lock);
	released = me->released;
	pthread_mutex_unlock(&p->lock);
	return released;
}

static int hold_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	struct hold *p = x->private;
	struct parked me = { .task = task_self(), .rq = rq, .fop = fop, .since_ns = clock_ns() };
	int err = 0;

	if (!park(p, &me))
		return fop_pass(rq, x, fop, in, out);
	while (!err && !is_released(p, &me))
		err = task_wait(fop_info[fop].flags & FOP_WAITS ? NO_DEADLINE : rq->deadline_ns);
	if (!leave(p, &me))
		return err;
	return err == -ECANCELED ? err : fop_pass(rq, x, fop, in, out);
}

static void set_fops(struct hold *p, uint64_t set, uint64_t count)
{
	pthread_mutex_lock(&p->lock);
	p->set = set;
	p->left = count ? count : UINT64_MAX;
	pthread_mutex_unlock(&p->lock);
}

static int hold_init(struct xlator *x, struct problem *problem)
{
	struct hold *p = x->private;
	uint64_t set = 0;
	int err = fop_set_parse(p->fops, &set, problem);

	pthread_mutex_init(&p->lock, NULL);
	set_fops(p, set, p->count);
	return err;
}

static void hold_reconfigure(struct xlator *x, const struct option *option)
{
	struct hold *p = x->private;
	_Atomic uint64_t set = p->set;

	(void)option;
	fop_set_change(p->fops, &set, x);
	set_fops(p, set, p->count);
}

static void hold_stop(struct xlator *x)
{
	set_fops(x->private, 0, 0);
	release(x->private, UINT64_MAX);
}

static void hold_finish(struct xlator *x)
{
	struct hold *p = x->private;

	pthread_mutex_destroy(&p->lock);
}

static void hold_dump(struct xlator *x, FILE *f)
{
	struct hold *p = x->private;
	uint64_t now = clock_ns();

	pthread_mutex_lock(&p->lock);
	for (const struct parked *one = p->first; one; one = one->next)
		fprintf(f, "  parked: %s rq=%llx ms=%llu\n", fop_name(one->fop), (unsigned long long)one->rq->id,
			(unsigned long long)(now - one->since_ns) / 1000000);
	pthread_mutex_unlock(&p->lock);
}

static int number(const char *text, uint64_t *n)
{
	char *end;

	*n = strtoull(text, &end, 10);
	return *end || end == text || *text == '-' ? -EINVAL : 0;
}

static int command_hold(struct hold *p, int argc, char **argv, FILE *f)
{
	struct problem problem = { "" };
	uint64_t set, count = 0;

	if (argc < 2 || argc > 3 || (argc == 3 && number(argv[2], &count)))
		return -EINVAL;
	if (fop_set_parse(argv[1], &set, &problem)) {
		fprintf(f, "%s\n", problem.text);
		return -EINVAL;
	}
	set_fops(p, set, count);
	return 0;
}

static int command_release(struct hold *p, int argc, char **argv, FILE *f)
{
	uint64_t most = 1;

	if (argc > 2 || (argc == 2 && strcmp(argv[1], "all") && number(argv[1], &most)))
		return -EINVAL;
	if (argc == 2 && !strcmp(argv[1], "all"))
		most = UINT64_MAX;
	fprintf(f, "released %llu\n", (unsigned long long)release(p, most));
	return 0;
}

static int hold_command(struct xlator *x, int argc, char **argv, FILE *f)
{
	if (argc >= 1 && !strcmp(argv[0], "hold"))
		return command_hold(x->private, argc, argv, f);
	if (argc >= 1 && !strcmp(argv[0], "release"))
		return command_release(x->private, argc, argv, f);
	if (argc != 1 || strcmp(argv[0], "list"))
		return -EINVAL;
	hold_dump(x, f);
	return 0;
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "debug/hold",
	.summary = "parks chosen requests until they are released",
	.options = options,
	.private_size = sizeof(struct hold),
	.min_children = 1,
	.max_children = 1,
	.init = hold_init,
	.stop = hold_stop,
	.finish = hold_finish,
	.reconfigure = hold_reconfigure,
	.dump = hold_dump,
	.command = hold_command,
	.any = hold_any,
};
