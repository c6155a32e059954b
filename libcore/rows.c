/* SPDX-License-Identifier: Apache-2.0 */
/* See rows.h. */
#include "rows.h"

#include <errno.h>
#include <string.h>

enum { BLOCK = 4096, FEW = 64, SHOWN = 160 };

struct rows rows_of(const char *text)
{
	return (struct rows){ text, text + strlen(text) };
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static void split(struct words *r)
{
	size_t size = (size_t)(r->whole.end - r->whole.at);
	char *at = r->text;

	r->count = 0;
	if (size > ROW_MAX) {
		r->count = ROW_WORDS + 1;
		return;
	}
	memcpy(at, r->whole.at, size);
	at[size] = '\0';
	while (*at) {
		if (r->count == ROW_WORDS) {
			r->count++;
			return;
		}
		r->word[r->count++] = at;
		while (*at && !is_blank(*at))
			at++;
		while (is_blank(*at))
			*at++ = '\0';
	}
}

bool rows_next(struct rows *rows, struct words *r)
{
	while (rows->at < rows->end) {
		const char *at = rows->at, *end = memchr(at, ',', (size_t)(rows->end - at));

		end = end ? end : rows->end;
		rows->at = end < rows->end ? end + 1 : end;
		while (at < end && is_blank(*at))
			at++;
		while (at < end && is_blank(end[-1]))
			end--;
		if (at == end)
			continue;
		r->whole = (struct rows){ at, end };
		split(r);
		return true;
	}
	return false;
}

int words_shown(const struct words *r)
{
	return r->whole.end - r->whole.at < SHOWN ? (int)(r->whole.end - r->whole.at) : SHOWN;
}

size_t rows_count(struct rows rows)
{
	size_t n = 1;

	while ((rows.at = memchr(rows.at, ',', (size_t)(rows.end - rows.at)))) {
		rows.at++;
		n++;
	}
	return n;
}

int word_number(const char *word, uint64_t most, uint64_t *number)
{
	uint64_t n = 0;

	if (!*word)
		return -EINVAL;
	for (; *word; word++) {
		unsigned digit = (unsigned)*word - '0';

		if (digit > 9 || digit > most || n > (most - digit) / 10)
			return -EINVAL;
		n = 10 * n + digit;
	}
	*number = n;
	return 0;
}

/* ---- what differs ---- */

/* With how many bytes both begin, at most `most`. */
static size_t same_from(const char *a, const char *b, size_t most)
{
	size_t n = 0;

	while (most - n >= BLOCK && !memcmp(a + n, b + n, BLOCK))
		n += BLOCK;
	while (n < most && a[n] == b[n])
		n++;
	return n;
}

/* The same of what both end with. */
static size_t same_to(const char *a, const char *b, size_t most)
{
	size_t n = 0;

	while (most - n >= BLOCK && !memcmp(a - n - BLOCK, b - n - BLOCK, BLOCK))
		n += BLOCK;
	while (n < most && a[-1 - (ptrdiff_t)n] == b[-1 - (ptrdiff_t)n])
		n++;
	return n;
}

static bool ends_row(const char *at, const char *end)
{
	return at == end || *at == ',';
}

void rows_compare(const char *before, const char *after, struct rows_change *c)
{
	struct rows a = rows_of(before), b = rows_of(after);
	size_t sizes[] = { (size_t)(a.end - a.at), (size_t)(b.end - b.at) };
	size_t most = sizes[sizes[1] < sizes[0]], same = same_from(a.at, b.at, most);

	while (same && !(ends_row(a.at + same, a.end) && ends_row(b.at + same, b.end)))
		same--;
	a.at += same;
	b.at += same;
	same = same_to(a.end, b.end, most - same);
	while (same && a.end[-(ptrdiff_t)same] != ',') /* the last row before it ends there in both */
		same--;
	c->gone = (struct rows){ a.at, a.end - same };
	c->come = (struct rows){ b.at, b.end - same };
}

bool rows_few_differ(const char *before, const char *after, struct rows_change *c)
{
	if (!before)
		return false;
	rows_compare(before, after, c);
	return rows_count(c->gone) + rows_count(c->come) <= FEW;
}
