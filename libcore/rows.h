/* SPDX-License-Identifier: Apache-2.0 */
/* Tables as options: rows with commas between, each of words with blanks between. There may be many thousands, of which a change of the option changes a few. */
#ifndef STRATUS_ROWS_H
#define STRATUS_ROWS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ROW_WORDS = 8, ROW_MAX = 1024 };
/* A part of a text. */
struct rows {
	const char *at, *end;
};
struct words {
	char *word[ROW_WORDS]; /* in `text` */
	unsigned count;	       /* ROW_WORDS + 1: there are more, or it is longer than ROW_MAX */
	struct rows whole;     /* as it stands there, without blanks around it */
	char text[ROW_MAX + 1];
};
struct rows rows_of(const char *text);
/* The next one that is not empty, which leaves `rows`. False: there is none. */
bool rows_next(struct rows *, struct words *);
int words_shown(const struct words *); /* so much of `whole` is for a sentence, as printf's precision */
size_t rows_count(struct rows);	       /* not fewer than there are */
/* A word that is a decimal number, of digits only. -EINVAL: it is none, or more than `most`. */
int word_number(const char *word, uint64_t most, uint64_t *number);

/* Without the rows that `gone` has, and with those that `come` has in their place, `before` is `after`. One that is in both has not changed, or has. */
struct rows_change {
	struct rows gone, come;
};
void rows_compare(const char *before, const char *after, struct rows_change *);
/* The same, if it is worth while to change a table by it, and not to read all of `after`: true. `before` may be NULL. */
bool rows_few_differ(const char *before, const char *after, struct rows_change *);
#endif
