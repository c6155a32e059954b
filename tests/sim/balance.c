/* SPDX-License-Identifier: Apache-2.0 */
/* Prints how evenly layouts place names, how many move when a subvolume comes or goes, how whole trees spread, and what directories of
 * each size cost: the tables of doc/distribution.md. By the shipped layout.c; the same numbers each time. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"

enum { NAMES = 1000000, SUBVOLUMES_MAX = 1000, DIRECTORIES = 100000, SPLIT = 8192 };

static struct layout_member member[SUBVOLUMES_MAX + 1];
static uint64_t key[NAMES];
static uint16_t owner[NAMES];
static uint64_t count[SUBVOLUMES_MAX + 1];

/* splitmix64 (Steele, Lea, Flood, 2014): so that runs are alike. */
static uint64_t seed = 1;
static uint64_t chance(void)
{
	uint64_t z = seed += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static struct gfid some_gfid(void)
{
	struct gfid g;

	for (int i = 0; i < 16; i += 8) {
		uint64_t r = chance();

		memcpy(g.bytes + i, &r, 8);
	}
	return g;
}

/* How far from what the weights ask for. */
struct balance {
	double most, least, deviation;
};

static struct balance balance_of(unsigned n, double total)
{
	struct balance b = { 0, INFINITY, 0 };
	double weights = 0;

	for (unsigned i = 0; i < n; i++)
		weights += member[i].weight;
	for (unsigned i = 0; i < n; i++) {
		double of_mean = (double)count[i] * weights / (total * member[i].weight);

		b.most = fmax(b.most, of_mean);
		b.least = fmin(b.least, of_mean);
		b.deviation += (of_mean - 1) * (of_mean - 1) / n;
	}
	b.deviation = sqrt(b.deviation);
	return b;
}

static unsigned best(unsigned n, uint64_t k)
{
	return (unsigned)(member_best(member, n, k, false) - member);
}

/* The names of one directory, at n members; then one more comes, or the one in the middle goes. */
static void place(unsigned n, const char *kind, unsigned weights)
{
	unsigned came = 0, went = 0, wrong = 0, leaver = n / 2;
	double total = 0;

	for (unsigned i = 0; i <= n; i++)
		member[i] = (struct layout_member){ .id = 1 + i * 3, .weight = (uint16_t)(1 + i % weights) };
	for (unsigned i = 0; i <= n; i++)
		total += member[i].weight;
	memset(count, 0, sizeof(count));
	for (unsigned i = 0; i < NAMES; i++)
		count[owner[i] = (uint16_t)best(n, key[i])]++;
	for (unsigned i = 0; i < NAMES; i++) {
		unsigned now = best(n + 1, key[i]);

		came += now != owner[i];
		wrong += now != owner[i] && now != n;
	}
	struct balance b = balance_of(n, NAMES);
	uint16_t kept = member[leaver].weight;

	member[leaver].weight = 0;
	for (unsigned i = 0; i < NAMES; i++) {
		unsigned now = best(n, key[i]);

		went += now != owner[i];
		wrong += now != owner[i] && owner[i] != leaver;
	}
	printf("| %u | %s | %.4f | %.4f | %.4f | %.5f | %.5f | %.5f | %.5f | %u |\n", n, kind, b.most, b.least, b.deviation,
	       (double)came / NAMES, member[n].weight / total, (double)went / NAMES, kept / (total - member[n].weight), wrong);
}

static void place_all(void)
{
	static const unsigned sizes[] = { 3, 4, 6, 8, 16, 32, 64, 128, 256, 512, 1000 };
	struct gfid directory = some_gfid();

	for (unsigned i = 0; i < NAMES; i++) {
		char name[32];

		snprintf(name, sizeof(name), "IMG_%07u.JPG", i);
		key[i] = layout_key(&directory, name);
	}
	printf("| subvolumes | weights | max/mean | min/mean | stddev/mean | moved when one comes | ideal | moved when one goes | ideal | "
	       "moved among others |\n|---|---|---|---|---|---|---|---|---|---|\n");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		place(sizes[i], "equal", 1);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= 256; i++)
		place(sizes[i], "1 to 4", 4);
}

/* One project: a tree of 100,000 directories under one in the root, with 9 files each in the mean (most have few). A directory stands
 * where its name is, or is scattered: once in `scatter`, and, if `lean` is not 0, whenever the subvolume has `lean` percent more than the
 * mean, as it was known 1,000 directories ago: then to one that has less. */
static unsigned home_of(unsigned n, unsigned at, unsigned scatter, bool full)
{
	struct gfid g = some_gfid();

	if (!full && !(scatter && chance() % scatter == 0))
		return at;
	return best(n, layout_key_object(&g));
}

/* Who has more than the mean gets none of what is scattered. */
static void lean_away(unsigned n, unsigned lean, double total, bool full[])
{
	for (unsigned i = 0; lean && i < n; i++) {
		full[i] = (double)count[i] > total / n * (100 + lean) / 100;
		member[i].weight = (double)count[i] <= total / n;
	}
}

static void tree(unsigned n, unsigned scatter, unsigned lean)
{
	static uint16_t home[DIRECTORIES];
	bool full[SUBVOLUMES_MAX] = { false };
	unsigned pointers = 0;
	double total = 0;

	memset(count, 0, sizeof(count));
	for (unsigned i = 0; i < n; i++)
		member[i] = (struct layout_member){ .id = i, .weight = 1 };
	for (unsigned d = 0; d < DIRECTORIES; d++) {
		unsigned at = d ? home[chance() % d] : best(n, chance());
		uint64_t files = (uint64_t)(exp((double)(chance() >> 11) * 0x5p-53) / 3.3);

		if (d && d % 1000 == 0)
			lean_away(n, lean, total, full);
		home[d] = (uint16_t)home_of(n, at, d ? scatter : 0, full[at]);
		pointers += home[d] != at;
		count[home[d]] += files + 1;
		total += (double)files + 1;
	}
	for (unsigned i = 0; i < n; i++)
		member[i].weight = 1;
	struct balance b = balance_of(n, total);

	printf("| %u | 1/%u | %u %% | %.0f | %.2f | %.2f | %.3f | %.3f |\n", n, scatter, lean, total, b.most, b.least,
	       b.deviation, (double)pointers / DIRECTORIES);
}

static void trees(void)
{
	static const unsigned sizes[] = { 4, 8, 64 };
	static const struct {
		unsigned scatter, lean;
	} policy[] = { { 64, 0 }, { 16, 0 }, { 4, 0 }, { 1, 0 }, { 64, 25 }, { 64, 5 }, { 16, 25 }, { 16, 5 } };

	seed = 2; /* whichever parts are printed */
	printf("\n| subvolumes | scattered | leans away from | names | max/mean | min/mean | stddev/mean | directories behind a pointer |\n"
	       "|---|---|---|---|---|---|---|---|\n");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (size_t k = 0; k < sizeof(policy) / sizeof(policy[0]); k++)
			tree(sizes[i], policy[k].scatter, policy[k].lean);
}

/* What the protocol of doc/distribution.md asks for, by the size of the directory; widened by twice whenever a member has SPLIT names. */
static void costs(void)
{
	static const unsigned sizes[] = { 0, 100, 8192, 10000, 100000, 1000000 };
	unsigned n = 8;

	printf("\n| entries | members of 8 | mkdir in it | create, unlink, lookup | ls: subvolumes | ls: readdirs of 128 KiB | rmdir when empty: "
	       "round trips, messages | names moved while it grew |\n|---|---|---|---|---|---|---|---|\n");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		unsigned spread = 1, moved = 0;

		while (spread < n && sizes[i] / spread > SPLIT) {
			moved += spread * SPLIT / 2;
			spread = spread * 2 < n ? spread * 2 : n;
		}
		unsigned batches = (sizes[i] / spread * 40 + 131071) / 131072;

		printf("| %u | %u | 1 | 1 | %u | %u | %u, %u | %u |\n", sizes[i], spread, spread,
		       spread * (batches ? batches : 1), spread == 1 ? 1 : 5, spread == 1 ? 1 : 3 * spread + 2, moved);
	}
}

/* With an argument: only that part. */
int main(int argc, char **argv)
{
	const char *part = argc > 1 ? argv[1] : "";

	if (!*part || !strcmp(part, "names"))
		place_all();
	if (!*part || !strcmp(part, "trees"))
		trees();
	if (!*part || !strcmp(part, "costs"))
		costs();
	return 0;
}
