/* SPDX-License-Identifier: Apache-2.0 */
/* A check for tests that run in tasks: it counts in `failures` and returns, as cmocka can't jump from one stack to another. */
#ifndef STRATUS_TEST_CHECK_H
#define STRATUS_TEST_CHECK_H
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                                       \
	do {                                                                                                                   \
		if (!(condition)) {                                                                                            \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                \
			failures++;                                                                                            \
			return;                                                                                                \
		}                                                                                                              \
	} while (0)

/* How often a condition is looked at, each time after so many ms: for two minutes, as the machine may have much else to do; for ten seconds where it is to show a deliberate mistake
 * (tests/sim/mutants.sh). */
static inline int tries_of(int ms)
{
	return (getenv("STRATUS_MUTANT") ? 10000 : 120000) / ms;
}
#endif
