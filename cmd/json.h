/* SPDX-License-Identifier: Apache-2.0 */
/* Members of a JSON object that may be missing, and JSON on the terminal. */
#ifndef STRATUS_JSON_H
#define STRATUS_JSON_H
#include <jansson.h>

const char *json_text(const json_t *object, const char *name); /* "" if there is none */
json_int_t json_number(const json_t *object, const char *name);
void json_show(const json_t *); /* prints it */
#endif
