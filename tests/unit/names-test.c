/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of names as listxattr tells them (fop.h), also from who tells what can't be: the bytes are of exact size, so that a sanitizer sees what is read behind them. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "fop.h"

static struct blob list_of(const char *bytes, size_t size)
{
	struct blob b = { .size = (uint32_t)size, .bytes = size ? malloc(size) : NULL };

	if (size)
		memcpy(b.bytes, bytes, size);
	return b;
}

/* Each followed by a comma. */
static const char *names_of(const struct blob *b)
{
	static char text[64];
	const char *at = NULL;

	*text = '\0';
	while ((at = blob_next_name(b, at))) {
		strcat(text, at);
		strcat(text, ",");
	}
	return text;
}

static void check_names(const char *bytes, size_t size, const char *names)
{
	struct blob b = list_of(bytes, size);

	assert_string_equal(names_of(&b), names);
	free(b.bytes);
}

static void each_name_is_told_once(void **state)
{
	(void)state;
	check_names("", 0, "");
	check_names("a", 2, "a,");
	check_names("user.a\0b\0c", 11, "user.a,b,c,");
	check_names("a\0\0b", 5, "a,,b,");
}

static void what_is_not_ended_is_no_name(void **state)
{
	(void)state;
	check_names("a", 1, "");
	check_names("a\0bc", 4, "a,");
}

static bool is_not(const void *arg, const char *name)
{
	return strncmp(name, arg, strlen(arg)) != 0;
}

static void check_kept(const char *bytes, size_t size, const char *without, const char *names)
{
	struct blob b = list_of(bytes, size);

	blob_keep_names(&b, is_not, without);
	assert_string_equal(names_of(&b), names);
	free(b.bytes);
}

static void those_that_are_wanted_stay_in_their_order(void **state)
{
	(void)state;
	check_kept("", 0, "x", "");
	check_kept("x1\0a\0x22\0bcd\0x3\0e", 18, "x", "a,bcd,e,");
	check_kept("long.name\0a\0long.too\0b", 23, "a", "long.name,long.too,b,");
	check_kept("x1\0x2", 6, "x", "");
	check_kept("a\0b", 4, "x", "a,b,");
	check_kept("x\0a\0b", 5, "x", "a,");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_name_is_told_once),
		cmocka_unit_test(what_is_not_ended_is_no_name),
		cmocka_unit_test(those_that_are_wanted_stay_in_their_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
