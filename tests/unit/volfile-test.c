/* SPDX-License-Identifier: Apache-2.0 */
/* Volfiles: the grammar, and one sentence with file and line for each mistake. */
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

static int parse(const char *text, struct volfile *v, struct problem *p)
{
	memset(p, 0, sizeof(*p));
	return volfile_parse(text, strlen(text), "test.vol", v, p);
}

static void a_volfile_becomes_volumes_in_order(void **state)
{
	struct volfile v;
	struct problem p;

	(void)state;
	assert_int_equal(parse("# a comment\nvolume a\n  type storage/posix # another\n  option directory \"/with space\"\n"
			       "  option words one two\nend-volume\n\nvolume b\n type debug/trace\n subvolumes a\nend-volume",
			       &v, &p),
			 0);
	assert_int_equal(v.volumes, 2);
	assert_string_equal(v.volume[0].name, "a");
	assert_string_equal(v.volume[0].option[0].value, "/with space");
	assert_string_equal(v.volume[0].option[1].value, "one two");
	assert_int_equal(v.volume[0].option[1].line, 5);
	assert_string_equal(v.volume[1].subvolume[0], "a");
	volfile_free(&v);
}

/* Of so many bytes of two kinds that must be written with a backslash, between others; one is at the border of what is looked through at a time. */
static void a_word_in_quotes_may_be_long_and_has_any_bytes(void **state)
{
	static const char head[] = "volume a\ntype debug/null\noption word \"", tail[] = "\"\nend-volume\n";
	enum { SIZE = 200000 };
	char *value = malloc(SIZE + 1), *text = malloc(sizeof(head) + 2 * SIZE + sizeof(tail)), *to;
	struct volfile v;
	struct problem p;

	(void)state;
	for (unsigned period = 1; period <= 65537; period = period < 8 ? period + 1 : period < 65535 ? 65535 : period + 1) {
		to = text + sprintf(text, "%s", head);
		for (unsigned i = 0; i < SIZE; i++) {
			value[i] = i % period ? "x, #"[i % 4] : "\\\""[i / period % 2];
			if (value[i] == '"' || value[i] == '\\')
				*to++ = '\\';
			*to++ = value[i];
		}
		value[SIZE] = '\0';
		strcpy(to, tail);
		assert_int_equal(parse(text, &v, &p), 0);
		assert_string_equal(v.volume[0].option[0].value, value);
		volfile_free(&v);
		*to = '\0'; /* the quote is not closed */
		assert_int_equal(parse(text, &v, &p), -EINVAL);
		volfile_free(&v);
		strcpy(to, "\\"); /* nor here */
		assert_int_equal(parse(text, &v, &p), -EINVAL);
		volfile_free(&v);
	}
	free(value);
	free(text);
}

static void each_mistake_names_its_line(void **state)
{
	static const struct {
		const char *text, *line, *word;
	} bad[] = {
		{ "", "test.vol", "no volume" },
		{ "type a/b\n", ":1:", "volume" },
		{ "volume\n", ":1:", "one name" },
		{ "volume a\nvolume b\n", ":2:", "end-volume" },
		{ "volume a\ntype a/b\nend-volume\nvolume a\n", ":4:", "already" },
		{ "volume a\nend-volume\n", ":2:", "type" },
		{ "volume a\ntype nokind\n", ":2:", "KIND/NAME" },
		{ "volume a\ntype ../x\n", ":2:", "KIND/NAME" },
		{ "volume a\ntype a//b\n", ":2:", "KIND/NAME" },
		{ "volume a\ntype ./a/b\n", ":2:", "KIND/NAME" },
		{ "volume a\ntype a/b/c\n", ":2:", "KIND/NAME" },
		{ "volume a\ntype a/\n", ":2:", "KIND/NAME" },
		{ "volume a\ntype a/b\noption x\n", ":3:", "value" },
		{ "volume a\ntype a/b\noption x 1\noption x 2\n", ":4:", "twice" },
		{ "volume a\ntype a/b\nsubvolumes b\n", ":3:", "no volume above" },
		{ "volume a\ntype a/b\nsubvolumes a\n", ":3:", "its own subvolume" },
		{ "volume a\ntype a/b\nsubvolumes b\nend-volume\n# volume b\n\t volume\tb # c\ntype c/d\nend-volume\n",
		  ":3:", "called \"b\": it stands below, in line 6" },
		{ "volume a\ntype a/b\noption x \"open\n", ":3:", "quote" },
		{ "volume a\ntype a/b\n", ":2:", "ends before" },
		{ "volume a\nfrobnicate\n", ":2:", "frobnicate" },
	};
	struct volfile v;
	struct problem p;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(parse(bad[i].text, &v, &p), -EINVAL);
		assert_non_null(strstr(p.text, bad[i].line));
		assert_non_null(strstr(p.text, bad[i].word));
	}
}

static void limits_are_kept(void **state)
{
	size_t size = 2 << 20;
	char *text = malloc(size);
	struct problem p = { 0 };
	struct volfile v;

	(void)state;
	assert_non_null(text);
	memset(text, 'a', size);
	assert_int_equal(volfile_parse(text, size, "big.vol", &v, &p), -EINVAL);
	memset(text, 0, 10);
	memset(&p, 0, sizeof(p));
	assert_int_equal(volfile_parse(text, 10, "zero.vol", &v, &p), -EINVAL);
	memset(&p, 0, sizeof(p));
	for (size_t i = 0; i < size; i += 2)
		memcpy(text + i, "w ", 2);
	assert_int_equal(volfile_parse(text, 1 << 20, "words.vol", &v, &p), -EINVAL);
	assert_non_null(strstr(p.text, "too many words"));
	free(text);
}

static void a_drawing_names_every_volume(void **state)
{
	struct volfile v;
	struct problem p;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	assert_int_equal(
		parse("volume a\ntype storage/posix\nend-volume\nvolume q\"x\ntype debug/trace\nsubvolumes a\nend-volume", &v,
		      &p),
		0);
	graph_dot(&v, out);
	fclose(out);
	assert_non_null(strstr(text, "\"a\" [label"));
	assert_non_null(strstr(text, "\"q\\\"x\" -> \"a\""));
	free(text);
	volfile_free(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_volfile_becomes_volumes_in_order),
		cmocka_unit_test(a_word_in_quotes_may_be_long_and_has_any_bytes),
		cmocka_unit_test(each_mistake_names_its_line),
		cmocka_unit_test(limits_are_kept),
		cmocka_unit_test(a_drawing_names_every_volume),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
