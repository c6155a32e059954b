/* SPDX-License-Identifier: Apache-2.0 */
/* features/throttle: limits and fair shares of the tenants of a brick. doc/throttle.md has the reasons. */
#include "throttle.h"

#include <inttypes.h>

#define AT(field) OPTION_AT(struct throttle, field)
static const struct option options[] = {
	{ "tenants", OPTION_STRING, AT(tenants), "",
	  "\"NAME BASE [OPS [BYTES [WEIGHT]]], ...\": the tenant whose first user id is BASE may have so many operations and bytes in a "
	  "second (0: no limit), and has a share of that weight (1) when others want the storage, too",
	  .live = true, .parsed = true },
	{ "at-once", OPTION_INT, AT(at_once), "32",
	  "so many requests of tenants are passed on at one time; the others wait, and go on by the weights of their tenants",
	  1, 65536, .live = true },
	{ NULL },
};

/* ---- what a request costs ---- */

enum { LISTING = 32 << 10, PART_BYTES = 32 << 10, PARTS_OF_FSYNC = 32, COPY_MAX = 128 << 20 };

static struct cost cost_of_data(uint64_t bytes, uint64_t data)
{
	return (struct cost){ .ops = 1, .bytes = bytes, .parts = 1 + bytes / PART_BYTES, .data = data };
}

static struct cost cost_of(enum fop, const void *in);

static struct cost cost_of_steps(const struct steps *steps)
{
	struct cost sum = { 0 };

	for (uint32_t i = 0; i < steps->count; i++) {
		struct cost one = cost_of((enum fop)steps->step[i].fop, steps->step[i].in);

		sum = (struct cost){ sum.ops + one.ops, sum.bytes + one.bytes, sum.parts + one.parts, sum.data + one.data };
	}
	return sum;
}

/* What no place is waited for, nor a limit, has no parts: it frees what others may wait for, or waits for other clients itself. */
static struct cost cost_of(enum fop fop, const void *in)
{
	const struct copy_range_in *copy = in;
	uint64_t size;

	switch (fop) {
	case FOP_flush:
	case FOP_release:
	case FOP_setlk:
	case FOP_getlk:
	case FOP_lease:	  /* others of the tenant wait for what it gives up */
	case FOP_replica: /* and for a token one waits here */
		return (struct cost){ .ops = 1 };
	case FOP_read:
		return cost_of_data(((const struct read_in *)in)->size, 0);
	case FOP_write:
		size = ((const struct write_in *)in)->data->size;
		return cost_of_data(size, size);
	case FOP_copy_range: /* what was really copied shows */
		return cost_of_data(copy->length < COPY_MAX ? copy->length : COPY_MAX, 0);
	case FOP_readdir:
		size = ((const struct readdir_in *)in)->size / LISTING + 1;
		return (struct cost){ .ops = size, .parts = size };
	case FOP_fsync:
		return (struct cost){ .ops = 1, .parts = PARTS_OF_FSYNC };
	case FOP_compound:
		return cost_of_steps(&((const struct compound_in *)in)->steps);
	default:
		return (struct cost){ .ops = 1, .parts = 1 };
	}
}

static uint64_t moved(enum fop, const void *out);

static uint64_t moved_by_steps(const struct results *r)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < r->count; i++)
		if (!r->result[i].status && r->result[i].out)
			sum += moved((enum fop)r->result[i].fop, r->result[i].out);
	return sum;
}

static uint64_t moved(enum fop fop, const void *out)
{
	const struct read_out *read = out;

	switch (fop) {
	case FOP_read:
		return read->data ? read->data->size : 0;
	case FOP_write:
		return ((const struct write_out *)out)->written;
	case FOP_copy_range:
		return ((const struct copy_range_out *)out)->copied;
	case FOP_compound:
		return moved_by_steps(&((const struct compound_out *)out)->results);
	default:
		return 0;
	}
}

/* ---- requests ---- */

static void correct(struct throttle *t, struct tenant *who, const struct cost *c, uint64_t bytes)
{
	if (bytes == c->bytes || !atomic_load(&who->limited))
		return;
	pthread_mutex_lock(&t->lock);
	bucket_return(&who->bytes, (double)c->bytes - (double)bytes);
	pthread_mutex_unlock(&t->lock);
}

static int pass_at_once(struct request *rq, struct xlator *x, struct tenant *who, enum fop fop, const void *in, void *out,
			const struct cost *c)
{
	struct throttle *t = x->private;

	if (atomic_load(&who->limited)) {
		pthread_mutex_lock(&t->lock);
		bucket_owe(&who->ops, c->ops, clock_ns());
		pthread_mutex_unlock(&t->lock);
	}
	return fop_pass(rq, x, fop, in, out);
}

struct turn { /* on the stack of a request that has a place below */
	struct admission admission;
	struct throttle *throttle;
	struct tenant *who;
};

static void aside(struct admission *a, bool on)
{
	struct turn *turn = (struct turn *)a; /* its first member */

	turn_aside(turn->throttle, turn->who, on);
}

static int pass_in_turn(struct request *rq, struct xlator *x, struct tenant *who, enum fop fop, const void *in, void *out)
{
	struct turn turn = { { aside }, x->private, who };
	struct admission *before = rq->admission;
	int err;

	rq->admission = &turn.admission;
	err = fop_pass(rq, x, fop, in, out);
	rq->admission = before;
	return err;
}

static int throttle_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	struct throttle *t = x->private;
	struct tenant *who;
	struct cost c;
	int err;

	if (!rq->root || request_is_movers(rq)) /* the provider's own */
		return fop_pass(rq, x, fop, in, out);
	who = tenant_find(t, rq->root);
	c = cost_of(fop, in);
	if (!c.parts)
		return pass_at_once(rq, x, who, fop, in, out, &c);
	err = turn_take(t, who, rq, &c);
	if (err)
		return err;
	err = pass_in_turn(rq, x, who, fop, in, out);
	correct(t, who, &c, err ? 0 : moved(fop, out));
	turn_end(t);
	return err;
}

/* ---- life ---- */

static int throttle_init(struct xlator *x, struct problem *p)
{
	struct throttle *t = x->private;
	struct problem why = { "" };
	int err;

	pthread_mutex_init(&t->lock, NULL);
	strcpy(t->others.name, "-");
	t->others.weight = 1;
	err = tenants_take(t, t->tenants, &why);
	return err ? problem_set(p, -err, "volume %s: option %s", x->name, why.text) : 0;
}

static void throttle_finish(struct xlator *x)
{
	struct throttle *t = x->private;

	tenants_free(t);
	pthread_mutex_destroy(&t->lock);
}

/* What makes no sense changes nothing. */
static void throttle_reconfigure(struct xlator *x, const struct option *option)
{
	struct throttle *t = x->private;
	struct problem p = { "" };

	if (!strcmp(option->name, "tenants")) {
		if (tenants_take(t, t->tenants, &p))
			log_error(x, NULL, "the limits stay as they were: option %s", p.text);
		return;
	}
	pthread_mutex_lock(&t->lock);
	turns_changed(t);
	pthread_mutex_unlock(&t->lock);
}

/* ---- for people ---- */

static const char *brick_of(const struct xlator *x)
{
	while (x->children)
		x = x->child[0];
	for (size_t i = 0; i < x->given_count; i++)
		if (!strcmp(x->given[i].name, "directory"))
			return x->given[i].value;
	return x->name;
}

static void print_json(const struct tenant *one, FILE *f)
{
	const struct held *h = one->held;

	fprintf(f,
		"{\"tenant\": \"%s\", \"ops\": %" PRIu64 ", \"bandwidth\": %" PRIu64 ", \"weight\": %" PRIu64
		", \"waiting\": %u, \"aside\": %u, "
		"\"held_by_limit\": %" PRIu64 ", \"held_by_limit_ns\": %" PRIu64 ", \"held_by_share\": %" PRIu64
		", \"held_by_share_ns\": %" PRIu64 "}",
		one->name, one->ops.rate, one->bytes.rate, one->weight, one->waiting, one->aside, h[HELD_LIMIT].count,
		h[HELD_LIMIT].ns, h[HELD_SHARE].count, h[HELD_SHARE].ns);
}

static void print_text(const struct tenant *one, FILE *f)
{
	const struct held *h = one->held;

	fprintf(f,
		"  %s: ops %" PRIu64 ", bandwidth %" PRIu64 ", weight %" PRIu64
		", waiting %u, waiting for its other clients %u, held by its limits %" PRIu64 " for %.3f s, for others %" PRIu64
		" for %.3f s\n",
		one->name, one->ops.rate, one->bytes.rate, one->weight, one->waiting, one->aside, h[HELD_LIMIT].count,
		h[HELD_LIMIT].ns / 1e9, h[HELD_SHARE].count, h[HELD_SHARE].ns / 1e9);
}

static bool is_of_interest(const struct tenant *one)
{
	return one->waiting || one->aside || one->held[HELD_LIMIT].count || one->held[HELD_SHARE].count || one->ops.rate ||
	       one->bytes.rate || one->weight != 1;
}

/* All that the option names, or who had to wait. A copy of each: what it is printed to may block. */
static void print_each(struct throttle *t, FILE *f, void (*print)(const struct tenant *, FILE *), const char *between)
{
	const char *comma = "";

	for (size_t i = 0;; i++) {
		struct tenant one;
		bool more;

		pthread_mutex_lock(&t->lock);
		more = i <= t->count;
		if (more)
			one = i ? *t->all[i - 1] : t->others;
		pthread_mutex_unlock(&t->lock);
		if (!more)
			return;
		if (!one.listed && !is_of_interest(&one))
			continue;
		fputs(comma, f);
		print(&one, f);
		comma = between;
	}
}

static void throttle_dump(struct xlator *x, FILE *f)
{
	struct throttle *t = x->private;

	fprintf(f, "  below: %u of %lld\n  in line: %u tenants\n", atomic_load(&t->below), (long long)t->at_once,
		atomic_load(&t->line_length));
	print_each(t, f, print_text, "");
}

static int throttle_command(struct xlator *x, int argc, char **argv, FILE *f)
{
	struct throttle *t = x->private;

	if (argc < 1 || argc > 2 || strcmp(argv[0], "status") || (argc == 2 && strcmp(argv[1], "--json"))) {
		fprintf(f, "volume %s takes the command status [--json]\n", x->name);
		return -EINVAL;
	}
	if (argc == 1) {
		throttle_dump(x, f);
		return 0;
	}
	fprintf(f, "{\"brick\": \"%s\", \"below\": %u, \"at_once\": %lld, \"tenants\": [", brick_of(x), atomic_load(&t->below),
		(long long)t->at_once);
	print_each(t, f, print_json, ", ");
	fputs("]}\n", f);
	return 0;
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "features/throttle",
	.summary = "holds tenants to their limits and shares of a brick",
	.options = options,
	.private_size = sizeof(struct throttle),
	.min_children = 1,
	.max_children = 1,
	.init = throttle_init,
	.finish = throttle_finish,
	.reconfigure = throttle_reconfigure,
	.dump = throttle_dump,
	.command = throttle_command,
	.any = throttle_any,
};
