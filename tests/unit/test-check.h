/* SPDX-License-Identifier: Apache-2.0 */
/* A check for tests that run in tasks: it counts in `failures` and returns, as cmocka can't jump from one stack to another. */
#ifndef STRATUS_TEST_CHECK_H
#define STRATUS_TEST_CHECK_H
#include <stdio.h>

#define CHECK(condition)                                                                                                       \
	do {                                                                                                                   \
		if (!(condition)) {                                                                                            \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                \
			failures++;                                                                                            \
			return;                                                                                                \
		}                                                                                                              \
	} while (0)
#endif
