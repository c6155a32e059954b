/* SPDX-License-Identifier: Apache-2.0 */
/* The lines in which translators tell where an object is: any bytes come back, and a value has its limit. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "location.h"

static void any_bytes_come_back(void **state)
{
	char bytes[256], *at, *value;
	const char *key;
	struct location l = { 0 };
	struct blob blob;

	(void)state;
	for (int i = 0; i < 255; i++)
		bytes[i] = (char)(i + 1);
	bytes[255] = '\0';
	location_line(&l, "path", "%s", bytes);
	location_line(&l, "path", "%s", "%41%4");
	location_line(&l, "names", "%d", 7);
	assert_int_equal(location_end(&l, &blob), 0);
	assert_null(memchr(blob.bytes, '\t', blob.size));
	at = blob.bytes;
	assert_string_equal(location_next(&at, (char *)blob.bytes + blob.size, &key), bytes);
	assert_string_equal(key, "path");
	assert_string_equal(location_next(&at, (char *)blob.bytes + blob.size, &key), "%41%4");
	assert_string_equal(location_next(&at, (char *)blob.bytes + blob.size, &key), "7");
	assert_string_equal(key, "names");
	value = location_next(&at, (char *)blob.bytes + blob.size, &key);
	assert_null(value);
	free(blob.bytes);
}

/* As a brick may send them. */
static void other_lines_do_no_harm(void **state)
{
	char text[] = "\nkey\n key\npath %4\npath %\npath %zz\npath %00x\nno end";
	static const char *const values[] = { "", "", "key", "%4", "%", "%zz", "" };
	const char *key;
	char *at = text;

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		assert_string_equal(location_next(&at, text + sizeof(text) - 1, &key), values[i]);
	assert_null(location_next(&at, text + sizeof(text) - 1, &key));
	assert_null(location_next(&at, at, &key));
}

static void a_value_has_its_limit(void **state)
{
	struct location part = { 0 }, l = { 0 };
	struct blob blob, all;

	(void)state;
	location_line(&part, "path", "%0*d", 7000, 0);
	assert_int_equal(location_end(&part, &blob), 0);
	for (int i = 0; i < 20; i++)
		location_add(&l, &blob);
	assert_int_equal(location_end(&l, &all), 0);
	assert_true(all.size <= LOCATION_MAX && all.size > LOCATION_MAX - blob.size);
	assert_int_equal(all.size % blob.size, 0);
	free(all.bytes);
	free(blob.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_bytes_come_back),
		cmocka_unit_test(other_lines_do_no_harm),
		cmocka_unit_test(a_value_has_its_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
