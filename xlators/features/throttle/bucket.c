/* SPDX-License-Identifier: Apache-2.0 */
/* The token bucket of a limit. */
#include "bucket.h"

#define SECOND 1e9

static void fill(struct bucket *b, uint64_t now_ns)
{
	if (now_ns <= b->at_ns)
		return;
	b->level += (double)b->rate * ((double)(now_ns - b->at_ns) / SECOND);
	if (b->level > b->burst)
		b->level = b->burst;
	b->at_ns = now_ns;
}

void bucket_set(struct bucket *b, uint64_t rate, uint64_t least, uint64_t now_ns)
{
	double burst = (double)(rate > least ? rate : least);

	if (b->rate)
		fill(b, now_ns);
	else
		b->level = burst;
	b->rate = rate;
	b->burst = burst;
	b->at_ns = now_ns;
	if (b->level > burst)
		b->level = burst;
}

uint64_t bucket_time(const struct bucket *b, uint64_t cost)
{
	double ns = b->rate ? (double)cost / (double)b->rate * SECOND : 0;

	return ns < (double)(INT64_MAX / 2) ? (uint64_t)ns : INT64_MAX / 2;
}

uint64_t bucket_when(struct bucket *b, uint64_t cost, uint64_t now_ns)
{
	double wanted = (double)cost < b->burst ? (double)cost : b->burst, lacks;

	if (!b->rate)
		return 0;
	fill(b, now_ns);
	lacks = wanted - b->level;
	/* What comes in one ns is not waited for: so what is rounded on the way never makes the moment be too early. */
	return lacks * SECOND <= (double)b->rate ? 0 : now_ns + (uint64_t)(lacks / (double)b->rate * SECOND) + 1;
}

void bucket_take(struct bucket *b, uint64_t cost, uint64_t now_ns)
{
	if (!b->rate)
		return;
	fill(b, now_ns);
	b->level -= (double)cost;
}

void bucket_owe(struct bucket *b, uint64_t cost, uint64_t now_ns)
{
	if (!b->rate)
		return;
	fill(b, now_ns);
	if (b->level - (double)cost >= -b->burst)
		b->level -= (double)cost;
}

void bucket_return(struct bucket *b, double unused)
{
	if (!b->rate)
		return;
	b->level += unused;
	if (b->level > b->burst)
		b->level = b->burst;
}
