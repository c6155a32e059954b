/* SPDX-License-Identifier: Apache-2.0 */
/* debug/io-stats: counts fops, errors and bytes, and keeps a latency histogram per fop, readable while it runs. */
#include <stdatomic.h>
#include <stdio.h>

#include "xlator.h"

/* Four buckets to the power of two of nanoseconds, so a quantile read from them is at most 25 % too high. Each lane is used
 * by one shard (or shared by those with the same remainder), so that counting causes no traffic between cores. */
enum { BUCKETS = 160, LANES = 8 };
struct counters {
	_Atomic uint64_t errors, bytes, total_ns, bucket[BUCKETS];
};
struct io_stats {
	struct counters lane[LANES][FOP_COUNT];
	_Atomic uint64_t since_ns;
};
struct sums { /* of all lanes */
	uint64_t count, errors, bytes, total_ns, bucket[BUCKETS];
};

static unsigned bucket_of(uint64_t ns)
{
	unsigned log2, bucket;

	if (ns < 4)
		return ns;
	log2 = 63 - __builtin_clzll(ns);
	bucket = 4 * (log2 - 1) + (ns >> (log2 - 2) & 3);
	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static uint64_t bucket_end(unsigned bucket)
{
	unsigned log2 = bucket / 4 + 1;

	return bucket < 4 ? bucket + 1 : (uint64_t)(4 + bucket % 4 + 1) << (log2 - 2);
}

static void add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static uint64_t bytes_moved(enum fop fop, const void *out)
{
	const struct read_out *read = out;
	const struct write_out *write = out;
	const struct copy_range_out *copy = out;

	switch (fop) {
	case FOP_read:
		return read->data ? read->data->size : 0;
	case FOP_write:
		return write->written;
	case FOP_copy_range:
		return copy->copied;
	default:
		return 0;
	}
}

static int io_stats_any(struct request *rq, struct xlator *x, enum fop fop, const void *in, void *out)
{
	struct io_stats *p = x->private;
	const struct shard *shard = shard_self();
	struct counters *c = &p->lane[shard ? shard_number(shard) % LANES : 0][fop];
	uint64_t begin = clock_ns(), ns;
	int err = fop_pass(rq, x, fop, in, out);

	ns = clock_ns() - begin;
	add(&c->bucket[bucket_of(ns)], 1);
	add(&c->total_ns, ns);
	if (err)
		add(&c->errors, 1);
	else
		add(&c->bytes, bytes_moved(fop, out));
	return err;
}

static void sum_up(const struct io_stats *p, int fop, struct sums *s)
{
	*s = (struct sums){ 0 };
	for (int lane = 0; lane < LANES; lane++) {
		const struct counters *c = &p->lane[lane][fop];

		s->errors += c->errors;
		s->bytes += c->bytes;
		s->total_ns += c->total_ns;
		for (int i = 0; i < BUCKETS; i++) {
			s->bucket[i] += c->bucket[i];
			s->count += c->bucket[i];
		}
	}
}

/* Microseconds below which this share of the fops lay. */
static double quantile_us(const struct sums *s, double share)
{
	uint64_t seen = 0, wanted = s->count * share;

	for (unsigned i = 0; i < BUCKETS; i++) {
		seen += s->bucket[i];
		if (seen > wanted || (seen == s->count && seen))
			return bucket_end(i) / 1000.0;
	}
	return 0;
}

static void print_text(const struct io_stats *p, FILE *f)
{
	struct sums s;

	fprintf(f, "  %-11s %12s %10s %14s %10s %10s %10s %10s\n", "fop", "count", "errors", "bytes", "mean us", "p50 us",
		"p99 us", "max us");
	for (int fop = 1; fop < FOP_COUNT; fop++) {
		sum_up(p, fop, &s);
		if (s.count)
			fprintf(f, "  %-11s %12llu %10llu %14llu %10.1f %10.1f %10.1f %10.1f\n", fop_name(fop),
				(unsigned long long)s.count, (unsigned long long)s.errors, (unsigned long long)s.bytes,
				s.total_ns / 1000.0 / s.count, quantile_us(&s, 0.5), quantile_us(&s, 0.99), quantile_us(&s, 1));
	}
}

static void print_histogram(const struct sums *s, FILE *f)
{
	const char *comma = "";

	for (unsigned i = 0; i < BUCKETS; i++) {
		if (!s->bucket[i])
			continue;
		fprintf(f, "%s[%llu,%llu]", comma, (unsigned long long)bucket_end(i), (unsigned long long)s->bucket[i]);
		comma = ",";
	}
}

/* "histogram" is a list of [upper end in ns, count]. */
static void print_json(const struct io_stats *p, FILE *f)
{
	const char *comma = "";
	struct sums s;

	fprintf(f, "{\"seconds\":%.3f,\"fops\":{", (clock_ns() - p->since_ns) / 1e9);
	for (int fop = 1; fop < FOP_COUNT; fop++) {
		sum_up(p, fop, &s);
		if (!s.count)
			continue;
		fprintf(f,
			"%s\"%s\":{\"count\":%llu,\"errors\":%llu,\"bytes\":%llu,\"total_ns\":%llu,\"p50_us\":%.3f,\"p99_us\":%.3f,"
			"\"max_us\":%.3f,\"histogram\":[",
			comma, fop_name(fop), (unsigned long long)s.count, (unsigned long long)s.errors,
			(unsigned long long)s.bytes, (unsigned long long)s.total_ns, quantile_us(&s, 0.5),
			quantile_us(&s, 0.99), quantile_us(&s, 1));
		print_histogram(&s, f);
		fputs("]}", f);
		comma = ",";
	}
	fputs("}}\n", f);
}

static void reset(struct io_stats *p)
{
	for (int lane = 0; lane < LANES; lane++) {
		for (int fop = 0; fop < FOP_COUNT; fop++) {
			struct counters *c = &p->lane[lane][fop];

			c->errors = c->bytes = c->total_ns = 0;
			for (int i = 0; i < BUCKETS; i++)
				c->bucket[i] = 0;
		}
	}
	p->since_ns = clock_ns();
}

static int io_stats_init(struct xlator *x, struct problem *problem)
{
	struct io_stats *p = x->private;

	(void)problem;
	p->since_ns = clock_ns();
	return 0;
}

static void io_stats_dump(struct xlator *x, FILE *f)
{
	print_text(x->private, f);
}

static int io_stats_command(struct xlator *x, int argc, char **argv, FILE *f)
{
	if (argc == 1 && !strcmp(argv[0], "stats"))
		print_text(x->private, f);
	else if (argc == 2 && !strcmp(argv[0], "stats") && !strcmp(argv[1], "json"))
		print_json(x->private, f);
	else if (argc == 1 && !strcmp(argv[0], "reset"))
		reset(x->private);
	else
		return fprintf(f, "volume %s takes the commands stats [json] and reset\n", x->name), -EINVAL;
	return 0;
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.name = "debug/io-stats",
	.summary = "counts operations and their latencies",
	.private_size = sizeof(struct io_stats),
	.min_children = 1,
	.max_children = 1,
	.init = io_stats_init,
	.dump = io_stats_dump,
	.command = io_stats_command,
	.any = io_stats_any,
};
