/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates that will end: from when on that is told, how often, and in which words. Times are seconds since 1970. */
#ifndef STRATUS_ENDING_H
#define STRATUS_ENDING_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { ENDING_DAYS = 30, ENDING_DAY_S = 86400 };

/* It ends within ENDING_DAYS, and half of its lifetime has passed: one that is good for a week is not told of all its life. One that has ended is near, too. */
bool ending_is_near(int64_t begins, int64_t ends, int64_t now);

struct ending_told { /* zeros: nothing was told yet */
	int64_t last;
	bool any, ended;
};
/* Whether it is to be told of now, and if so it was: once a day, and when it has ended at once. */
bool ending_is_due(struct ending_told *, int64_t begins, int64_t ends, int64_t now);

/* Of an object as certificates_find() makes them: what is so, and if it is near, what to do. malloc'ed. */
char *ending_sentence(const json_t *, int64_t now);
#endif
