/* SPDX-License-Identifier: Apache-2.0 */
/* The difference of two short texts, line by line. */
#ifndef STRATUS_DIFFERENCE_H
#define STRATUS_DIFFERENCE_H
#include <stdio.h>

/* Prints "-LINE" and "+LINE" for what goes and comes, and nothing of what stays. The number of such lines. */
size_t difference_print(const char *before, const char *after, FILE *);
#endif
