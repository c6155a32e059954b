/* SPDX-License-Identifier: Apache-2.0 */
/* Translators as files: which there are, and what their tables say, without making a graph. */
#ifndef STRATUS_MODULE_H
#define STRATUS_MODULE_H
#include "xlator.h"

/* The type "KIND/NAME", loaded for the rest of the process; NULL and a sentence that names the nearest one there is. */
const struct xlator_type *module_load(const char *type, struct problem *);
/* Names of all translators that can be found, sorted, NULL-ended; free with module_names_free. NULL: memory is short.
 */
char **module_names(void);
void module_names_free(char **);
#endif
