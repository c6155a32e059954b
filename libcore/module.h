/* SPDX-License-Identifier: Apache-2.0 */
/* Translators as files: which there are, and what their tables say, without making a graph. */
#ifndef STRATUS_MODULE_H
#define STRATUS_MODULE_H
#include "xlator.h"

/* Looked for in the directories of STRATUS_XLATOR_PATH (colon-separated) first, then in the built-in one.
 * The type "KIND/NAME", loaded for the rest of the process. -errno and a sentence: if there is none, it names the nearest that there is; what is no
 * translator of this version, or has a table that can't be right (another name than its file's, two options of one name, an option outside of
 * private_size), is refused. */
int module_load(const char *type, const struct xlator_type **, struct problem *);
/* Names of all translators that can be found, sorted, NULL-ended; free with module_names_free. NULL: memory is short. */
char **module_names(void);
void module_names_free(char **);
#endif
