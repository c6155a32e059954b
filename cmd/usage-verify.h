/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus usage verify`: counts what is on bricks, and compares it with what is charged there. */
#ifndef STRATUS_USAGE_VERIFY_H
#define STRATUS_USAGE_VERIFY_H
#include <jansson.h>

struct problem;
struct process;
enum verified { VERIFY_AGREES, VERIFY_DIFFERS, VERIFY_UNKNOWN };
/* Adds to the array `bricks` what was found on each brick of the process, of that tenant (NULL: of all). What is in use is looked at again for so many seconds. */
int verify_process(const struct process *, const char *tenant, unsigned wait_s, json_t *bricks, struct problem *);
enum verified verify_result(const json_t *bricks); /* of all: differs, if one does */
void verify_print(const json_t *bricks);
#endif
