/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what a process says about itself. */
#include <jansson.h>

#include "facts.h"
#include "graph.h"

static void print_member(FILE *to, const char *name, json_t *value)
{
	fprintf(to, ", \"%s\": ", name);
	json_dumpf(value, to, JSON_ENCODE_ANY);
	json_decref(value);
}

/* JSON is UTF-8, and paths may be anything. */
static json_t *text_json(const char *value)
{
	json_t *text = json_string(value);
	char *copy = text ? NULL : strdup(value);

	for (char *at = copy; at && *at; at++)
		*at = *at & 0x80 ? '?' : *at;
	if (copy)
		text = json_string(copy);
	free(copy);
	return text;
}

void fact_string(FILE *to, const char *name, const char *value)
{
	print_member(to, name, text_json(value));
}

void fact_strings(FILE *to, const char *name, const char *const *values, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, text_json(values[i]));
	print_member(to, name, list);
}

void fact_volumes(FILE *to, struct graph *const *graphs, size_t count)
{
	json_t *list = json_array();

	for (size_t g = 0; g < count; g++)
		for (size_t i = 0; i < graphs[g]->count; i++) {
			const struct xlator *x = graphs[g]->xlator[i];

			json_array_append_new(list, json_pack("{s:s, s:s}", "name", x->name, "type", x->type->name));
		}
	print_member(to, "volumes", list);
}
