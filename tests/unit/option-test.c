/* SPDX-License-Identifier: Apache-2.0 */
/* Typed options: every kind parses and prints back, bounds hold, and misspelt names are answered with the nearest one. */
#include "test.h"

#include <errno.h>
#include <string.h>

#include "log.h"
#include "option.h"

struct all {
	bool flag;
	int64_t number, choice;
	uint64_t size, wait;
	double share;
	char *text, *path, *words, *list;
	uint64_t pause;
};
static const struct option_owner owner = { "volume v (kind/v)", "test.vol", 3 };

static const struct option table[] = {
	{ "flag", OPTION_BOOL, offsetof(struct all, flag), "off", "a switch", .live = true },
	{ "number", OPTION_INT, offsetof(struct all, number), "5", "a number", -10, 10 },
	{ "size", OPTION_SIZE, offsetof(struct all, size), "4K", "bytes", 1, 1 << 30 },
	{ "wait", OPTION_DURATION, offsetof(struct all, wait), "30s", "time", .live = true },
	{ "share", OPTION_PERCENT, offsetof(struct all, share), "1%", "percent" },
	{ "choice", OPTION_ENUM, offsetof(struct all, choice), "red", "colour", 0, 0, "red|green|blue" },
	{ "text", OPTION_STRING, offsetof(struct all, text), "", "words" },
	{ "path", OPTION_PATH, offsetof(struct all, path), NULL, "where" },
	{ "words", OPTION_STRING, offsetof(struct all, words), "those that were there at first", "words", .live = true },
	{ "list", OPTION_STRING, offsetof(struct all, list), "", "words", .live = true, .parsed = true },
	{ "pause", OPTION_DURATION, offsetof(struct all, pause), "1s", "time", 100, 3600000 },
	{ 0 },
};

static int apply(struct all *a, const char *name, const char *value, struct problem *p)
{
	struct option_value v[] = { { (char *)"path", (char *)"/p", 1 }, { (char *)name, (char *)value, 7 } };

	memset(p, 0, sizeof(*p));
	options_free(table, a);
	return options_apply(table, a, &owner, v, 2, p);
}

static void presets_fill_what_is_not_given(void **state)
{
	struct option_value v = { (char *)"path", (char *)"/x", 1 };
	struct problem p = { 0 };
	struct all a = { 0 };

	(void)state;
	assert_int_equal(options_apply(table, &a, &owner, &v, 1, &p), 0);
	assert_false(a.flag);
	assert_int_equal(a.number, 5);
	assert_int_equal(a.size, 4096);
	assert_int_equal(a.wait, 30000);
	assert_int_equal(a.choice, 0);
	assert_string_equal(a.path, "/x");
	options_free(table, &a);
}

static void units_are_understood(void **state)
{
	static const struct {
		const char *name, *text;
		uint64_t value;
	} good[] = { { "size", "1M", 1 << 20 }, { "size", "1.5KiB", 1536 }, { "size", "0.0000001 P", 112589990 },
		     { "size", "17", 17 },	{ "wait", "250ms", 250 },   { "wait", "2m", 120000 },
		     { "wait", "7", 7000 },	{ "wait", "0.5s", 500 } };
	struct problem p;
	struct all a = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_int_equal(apply(&a, good[i].name, good[i].text, &p), 0);
		assert_int_equal(*good[i].name == 's' ? a.size : a.wait, good[i].value);
	}
	options_free(table, &a);
}

static void bad_values_are_refused_with_line_and_reason(void **state)
{
	static const char *const bad[][2] = { { "flag", "maybe" }, { "number", "11" },	   { "number", "5x" },
					      { "number", "0x5" }, { "size", "2G" },	   { "size", "-1" },
					      { "size", "1Q" },	   { "size", "0" },	   { "share", "101" },
					      { "choice", "gre" }, { "path", "relative" }, { "size", "99999999999999999999" },
					      { "wait", "" } };
	struct problem p;
	struct all a = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(apply(&a, bad[i][0], bad[i][1], &p), -EINVAL);
		assert_ptr_equal(strstr(p.text, "test.vol:7: volume v (kind/v): option"), p.text);
		assert_non_null(strstr(p.text, bad[i][0]));
	}
	options_free(table, &a);
}

static void bounds_are_told_with_their_units(void **state)
{
	struct problem p;
	struct all a = { 0 };

	(void)state;
	assert_int_equal(apply(&a, "pause", "10ms", &p), -EINVAL);
	assert_non_null(strstr(p.text, "from 100ms to 1h"));
	assert_int_equal(apply(&a, "size", "2G", &p), -EINVAL);
	assert_non_null(strstr(p.text, "from 1 to 1G"));
	assert_int_equal(apply(&a, "number", "11", &p), -EINVAL);
	assert_non_null(strstr(p.text, "from -10 to 10"));
	options_free(table, &a);
}

static void numbers_are_decimal(void **state)
{
	struct problem p;
	struct all a = { 0 };

	(void)state;
	assert_int_equal(apply(&a, "number", "010", &p), 0);
	assert_int_equal(a.number, 10);
	assert_int_equal(apply(&a, "number", "-010", &p), 0);
	assert_int_equal(a.number, -10);
	assert_int_equal(apply(&a, "size", "010K", &p), 0);
	assert_int_equal(a.size, 10240);
	assert_int_equal(apply(&a, "wait", "010.5", &p), 0);
	assert_int_equal(a.wait, 10500);
	assert_int_equal(apply(&a, "share", "010%", &p), 0);
	assert_true(a.share == 10);
	options_free(table, &a);
}

/* As strtod and strtoll would take them. */
static void what_looks_otherwise_than_a_number_is_none(void **state)
{
	static const char *const names[] = { "number", "size", "wait", "share" };
	static const char *const bad[] = { "",	 " ",	"+5",  " 5",  "5 ",  "0x5", "0x1p2", "5e0", "5e", "5.",
					   ".5", "inf", "nan", "- 5", "--5", "5x",  "5 x",   "5,5", "1_0" };
	struct problem p;
	struct all a = { 0 };

	(void)state;
	for (size_t n = 0; n < 4; n++)
		for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
			char told[100];

			snprintf(told, sizeof(told), "option %s can't be \"%s\": give it ", names[n], bad[i]);
			if (!apply(&a, names[n], bad[i], &p))
				fail_msg("%s is taken to be \"%s\"", names[n], bad[i]);
			if (!strstr(p.text, told))
				fail_msg("not told so: %s", p.text);
		}
	options_free(table, &a);
}

static void what_is_not_nothing_does_not_become_0(void **state)
{
	struct problem p;
	struct all a = { 0 };

	(void)state;
	assert_int_equal(apply(&a, "wait", "0.5ms", &p), -EINVAL);
	assert_int_equal(apply(&a, "wait", "1.5ms", &p), 0);
	assert_int_equal(a.wait, 1);
	assert_int_equal(apply(&a, "wait", "0.0ms", &p), 0);
	assert_int_equal(a.wait, 0);
	options_free(table, &a);
}

/* A fop may be reading the text while somebody changes the option. */
static void a_live_text_stays_for_who_reads_it(void **state)
{
	struct problem p;
	struct all a = { 0 };
	const char *reading;

	(void)state;
	assert_int_equal(apply(&a, "number", "1", &p), 0);
	reading = a.words;
	assert_int_equal(option_change(table, &a, "v", "words", "those that came after them all", &p), 0);
	assert_int_equal(option_change(table, &a, "v", "words", "and those that came at the end", &p), 0);
	assert_int_equal(option_change(table, &a, "v", "list", "what reconfigure makes another thing of", &p), 0);
	assert_string_equal(reading, "those that were there at first");
	assert_string_equal(a.words, "and those that came at the end");
	options_free(table, &a);
}

static void a_misspelt_name_is_answered_with_the_nearest(void **state)
{
	struct problem p;
	struct all a = { 0 };

	(void)state;
	assert_int_equal(apply(&a, "chioce", "red", &p), -EINVAL);
	assert_non_null(strstr(p.text, "test.vol:7: volume v (kind/v) has no option"));
	assert_non_null(strstr(p.text, "did you mean \"choice\""));
	options_free(table, &a);
}

static void a_required_option_is_missed(void **state)
{
	struct problem p = { 0 };
	struct all a = { 0 };

	(void)state;
	assert_int_equal(options_apply(table, &a, &owner, NULL, 0, &p), -EINVAL);
	assert_non_null(strstr(p.text, "test.vol:3: volume v (kind/v) needs the option \"path\""));
	options_free(table, &a);
}

static void only_live_options_change_while_running(void **state)
{
	struct problem p;
	struct all a = { 0 };

	(void)state;
	assert_int_equal(apply(&a, "number", "1", &p), 0);
	assert_int_equal(option_change(table, &a, "v", "flag", "on", &p), 0);
	assert_true(a.flag);
	assert_int_equal(option_change(table, &a, "v", "number", "2", &p), -EPERM);
	assert_int_equal(a.number, 1);
	options_free(table, &a);
}

static void values_print_as_they_parse(void **state)
{
	static const char *const values[][2] = { { "flag", "on" },     { "number", "-3" },   { "size", "4096" },
						 { "wait", "1500ms" }, { "share", "12.5%" }, { "choice", "blue" },
						 { "text", "a b" } };
	struct problem p;
	struct all a = { 0 };
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		assert_int_equal(apply(&a, values[i][0], values[i][1], &p), 0);
		option_print(option_find(table, values[i][0]), &a, text, sizeof(text));
		assert_string_equal(text, values[i][1]);
	}
	options_free(table, &a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(presets_fill_what_is_not_given),
		cmocka_unit_test(units_are_understood),
		cmocka_unit_test(bad_values_are_refused_with_line_and_reason),
		cmocka_unit_test(bounds_are_told_with_their_units),
		cmocka_unit_test(numbers_are_decimal),
		cmocka_unit_test(what_looks_otherwise_than_a_number_is_none),
		cmocka_unit_test(what_is_not_nothing_does_not_become_0),
		cmocka_unit_test(a_live_text_stays_for_who_reads_it),
		cmocka_unit_test(a_misspelt_name_is_answered_with_the_nearest),
		cmocka_unit_test(a_required_option_is_missed),
		cmocka_unit_test(only_live_options_change_while_running),
		cmocka_unit_test(values_print_as_they_parse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
