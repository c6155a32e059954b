/* SPDX-License-Identifier: Apache-2.0 */
/* What is charged to one tenant of a volume, and what is said of soft limits. */
#ifndef STRATUS_CHARGED_H
#define STRATUS_CHARGED_H
#include <jansson.h>

struct process;
/* On the bricks that the process serves, added up: bytes, inodes, bytes_over_since, inodes_over_since, exact, bricks. One that could not be asked is not in it, and `exact` is false then. NULL: it tells of none. */
json_t *charged_to(const struct process *, const char *volume, const char *tenant);
/* Adds the numbers of another brick of the same volume; what is a limit, or since when, each tells the same. */
void charged_add(json_t *sum, const json_t *account);
/* "above its soft limit of bytes for 3 h", malloc'ed; "" if it is not. */
char *charged_over(const json_t *account);
#endif
