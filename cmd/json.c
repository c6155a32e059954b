/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and prints JSON objects. */
#include "json.h"

const char *json_text(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

json_int_t json_number(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

void json_show(const json_t *value)
{
	json_dumpf(value, stdout, JSON_INDENT(2));
	putchar('\n');
}
