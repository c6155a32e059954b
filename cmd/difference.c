/* SPDX-License-Identifier: Apache-2.0 */
/* Compares two texts by their longest common subsequence of lines. */
#include "difference.h"

#include <stdlib.h>
#include <string.h>

struct lines {
	const char **line;
	size_t *length, count;
};

static int split(const char *text, struct lines *l)
{
	size_t count = 1;

	for (const char *c = text; *c; c++)
		count += *c == '\n';
	*l = (struct lines){ calloc(count, sizeof *l->line), calloc(count, sizeof *l->length), 0 };
	if (!l->line || !l->length)
		return -1;
	while (*text) {
		l->line[l->count] = text;
		l->length[l->count] = strcspn(text, "\n");
		text += l->length[l->count++];
		text += *text == '\n';
	}
	return 0;
}

static int same(const struct lines *a, size_t i, const struct lines *b, size_t k)
{
	return a->length[i] == b->length[k] && !memcmp(a->line[i], b->line[k], a->length[i]);
}

/* common[i][k]: how many lines a from i and b from k have in common. */
static void measure(const struct lines *a, const struct lines *b, unsigned *common)
{
	size_t width = b->count + 1;

	for (size_t i = a->count; i-- > 0;)
		for (size_t k = b->count; k-- > 0;) {
			unsigned *here = &common[i * width + k], down = here[width], right = here[1];

			*here = same(a, i, b, k) ? here[width + 1] + 1 : down > right ? down : right;
		}
}

static size_t print(const struct lines *a, const struct lines *b, const unsigned *common, FILE *to)
{
	size_t width = b->count + 1, i = 0, k = 0, changed = 0;

	while (i < a->count || k < b->count) {
		if (i < a->count && k < b->count && same(a, i, b, k)) {
			i++;
			k++;
			continue;
		}
		changed++;
		if (k == b->count || (i < a->count && common[(i + 1) * width + k] >= common[i * width + k + 1])) {
			fprintf(to, "-%.*s\n", (int)a->length[i], a->line[i]);
			i++;
		} else {
			fprintf(to, "+%.*s\n", (int)b->length[k], b->line[k]);
			k++;
		}
	}
	return changed;
}

static void free_lines(struct lines *l)
{
	free(l->line);
	free(l->length);
}

size_t difference_print(const char *before, const char *after, FILE *to)
{
	struct lines a = { 0 }, b = { 0 };
	unsigned *common = NULL;
	size_t changed = 0;

	if (!split(before, &a) && !split(after, &b))
		common = calloc((a.count + 1) * (b.count + 1), sizeof *common);
	if (common) {
		measure(&a, &b, common);
		changed = print(&a, &b, common, to);
	} else if (strcmp(before, after)) { /* too long to compare */
		fprintf(to, "-(%zu bytes)\n+(%zu bytes)\n", strlen(before), strlen(after));
		changed = 2;
	}
	free(common);
	free_lines(&a);
	free_lines(&b);
	return changed;
}
