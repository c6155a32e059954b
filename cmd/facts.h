/* SPDX-License-Identifier: Apache-2.0 */
/* Members of the JSON object with which a process answers "info"; each begins with its comma. */
#ifndef STRATUS_FACTS_H
#define STRATUS_FACTS_H
#include <stdio.h>

struct graph;
void fact_string(FILE *, const char *name, const char *value);
void fact_strings(FILE *, const char *name, const char *const *values, size_t count);
void fact_volumes(FILE *, struct graph *const *graphs, size_t count); /* "volumes": [{"name": ..., "type": ...}] */
#endif
