/* SPDX-License-Identifier: Apache-2.0 */
/* A volume's volfiles: made from a specification, checked against the translators' tables, written. */
#ifndef STRATUS_VOLFILES_H
#define STRATUS_VOLFILES_H
#include "volgen.h"

/* `state`: as for volgen(). After an error there are no files. */
int volfiles_of(const struct spec *, const char *state, struct volgen_files *, struct problem *);
int volfiles_write(const struct volgen_files *, const char *directory, struct problem *);
#endif
