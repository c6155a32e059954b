/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of options: how they are cut into rows and words, and that what differs between two is all that differs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"
#include "test.h"

static void a_text_is_cut_into_rows_and_words(void **state)
{
	struct rows rows = rows_of(" , acme  1\t2 ,,globex, a b c d e f g h i");
	struct words r;

	(void)state;
	assert_true(rows_next(&rows, &r));
	assert_int_equal(r.count, 3);
	assert_string_equal(r.word[0], "acme");
	assert_string_equal(r.word[1], "1");
	assert_string_equal(r.word[2], "2");
	assert_int_equal(words_shown(&r), strlen("acme  1\t2"));
	assert_true(rows_next(&rows, &r));
	assert_int_equal(r.count, 1);
	assert_string_equal(r.word[0], "globex");
	assert_true(rows_next(&rows, &r));
	assert_int_equal(r.count, ROW_WORDS + 1);
	assert_false(rows_next(&rows, &r));
}

static void a_row_that_is_too_long_has_too_many_words(void **state)
{
	char text[ROW_MAX + 2];
	struct rows rows;
	struct words r;

	(void)state;
	memset(text, 'x', sizeof(text));
	text[ROW_MAX] = '\0';
	rows = rows_of(text);
	assert_true(rows_next(&rows, &r));
	assert_int_equal(r.count, 1);
	text[ROW_MAX] = 'x';
	text[ROW_MAX + 1] = '\0';
	rows = rows_of(text);
	assert_true(rows_next(&rows, &r));
	assert_int_equal(r.count, ROW_WORDS + 1);
}

static void numbers_are_digits_up_to_a_limit(void **state)
{
	uint64_t n;

	(void)state;
	assert_int_equal(word_number("18446744073709551615", UINT64_MAX, &n), 0);
	assert_int_equal(n, UINT64_MAX);
	assert_int_equal(word_number("18446744073709551616", UINT64_MAX, &n), -EINVAL);
	assert_int_equal(word_number("5", 5, &n), 0);
	assert_int_equal(word_number("6", 5, &n), -EINVAL);
	assert_int_equal(word_number("", 5, &n), -EINVAL);
	assert_int_equal(word_number("+1", 5, &n), -EINVAL);
	assert_int_equal(word_number("-1", 5, &n), -EINVAL);
	assert_int_equal(word_number("1x", 100, &n), -EINVAL);
}

/* ---- differences ---- */

static void differ(const char *before, const char *after, const char *gone, const char *come)
{
	struct rows_change c;

	rows_compare(before, after, &c);
	assert_int_equal(c.gone.end - c.gone.at, strlen(gone));
	assert_memory_equal(c.gone.at, gone, strlen(gone));
	assert_int_equal(c.come.end - c.come.at, strlen(come));
	assert_memory_equal(c.come.at, come, strlen(come));
}

static void a_change_is_of_whole_rows(void **state)
{
	(void)state;
	differ("", "", "", "");
	differ("a 1", "a 1", "", "");
	differ("a 1", "a 1, b 2", "", ", b 2");
	differ("a 1, b 2", "a 1", ", b 2", "");
	differ("a 1, b 2", "a 1, b 22", ", b 2", ", b 22");
	differ("a 1, b 2, c 3", "a 1, b 4, c 3", ", b 2", ", b 4");
	differ("a 1, b 2", "b 2", "a 1, b 2", "b 2"); /* the first row has no comma before it */
	differ("a,c", "a,b,c", "", ",b");
	differ("a,a", "a,a,a", "", ",a");
	differ("", "a", "", "a");
}

enum { ROWS_MOST = 400, TEXT_MOST = ROWS_MOST * 24, CASES = 2000 };

/* What stands in the text, as one sorted list of its rows. */
static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

static size_t take(struct rows rows, char list[][24])
{
	struct words r;
	size_t n = 0;

	while (rows_next(&rows, &r))
		snprintf(list[n++], 24, "%.*s", words_shown(&r), r.whole.at);
	return n;
}

static void make(unsigned rows, char *text)
{
	*text = '\0';
	for (unsigned i = 0; i < rows; i++)
		text += sprintf(text, "%sn%d %d", i ? ", " : "", rand() % 1000, rand() % 3);
}

/* Some rows are taken out, put in, or changed; the text is at most one row longer. */
static void edit(const char *before, char *after)
{
	struct rows rows = rows_of(before);
	const char *comma = "";
	int changes = rand() % 3;
	struct words r;

	*after = '\0';
	while (rows_next(&rows, &r)) {
		int what = changes && rand() % 8 == 0 ? 1 + rand() % 3 : 0;

		changes -= what != 0;
		if (what != 1)
			after += sprintf(after, "%s%.*s", comma, words_shown(&r), r.whole.at), comma = ", ";
		if (what == 2)
			after += sprintf(after, "%snew %d", comma, rand() % 9), comma = ", ";
		if (what == 3)
			after += sprintf(after, "7");
	}
}

static void without_what_goes_and_with_what_comes_it_is_the_other(void **state)
{
	static char before[2 * TEXT_MOST], after[2 * TEXT_MOST];
	static char was[2 * ROWS_MOST][24], is[2 * ROWS_MOST][24], goes[2 * ROWS_MOST][24];
	const char *given = getenv("TEST_SEED");
	unsigned seed = given ? (unsigned)atoi(given) : (unsigned)time(NULL);

	(void)state;
	print_message("TEST_SEED=%u\n", seed);
	srand(seed);
	for (int i = 0; i < CASES; i++) {
		struct rows_change c;
		size_t had, has, gone;

		make((unsigned)rand() % ROWS_MOST, before);
		edit(before, after);
		rows_compare(before, after, &c);
		had = take(rows_of(before), was);
		gone = take(c.gone, goes);
		for (size_t k = 0; k < gone; k++) {
			size_t at = 0;

			while (at < had && strcmp(was[at], goes[k]))
				at++;
			assert_true(at < had);
			memmove(was[at], was[at + 1], (--had - at) * sizeof(*was));
		}
		had += take(c.come, was + had);
		has = take(rows_of(after), is);
		assert_int_equal(had, has);
		qsort(was, had, sizeof(*was), by_text);
		qsort(is, has, sizeof(*is), by_text);
		for (size_t k = 0; k < has; k++)
			assert_string_equal(was[k], is[k]);
	}
}

static void only_few_rows_are_a_change(void **state)
{
	static char text[TEXT_MOST];
	struct rows_change c;

	(void)state;
	make(10, text);
	assert_false(rows_few_differ(NULL, text, &c));
	assert_true(rows_few_differ("", text, &c));
	make(200, text);
	assert_false(rows_few_differ("", text, &c));
	assert_true(rows_few_differ(text, text, &c));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_text_is_cut_into_rows_and_words),
		cmocka_unit_test(a_row_that_is_too_long_has_too_many_words),
		cmocka_unit_test(numbers_are_digits_up_to_a_limit),
		cmocka_unit_test(a_change_is_of_whole_rows),
		cmocka_unit_test(without_what_goes_and_with_what_comes_it_is_the_other),
		cmocka_unit_test(only_few_rows_are_a_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
