/* SPDX-License-Identifier: Apache-2.0 */
/* For unit tests that run on tasks: the group's setup and teardown, and a check that may fail on a task, where cmocka's assertions must not jump. */
#ifndef STRATUS_TEST_TASKS_H
#define STRATUS_TEST_TASKS_H
#include <stdio.h>

#include "task.h"

/* In a function that returns void; counts in `failures`. */
#define CHECK_INT(is, should)                                                                                                  \
	do {                                                                                                                   \
		long long is_ = (is), should_ = (should);                                                                      \
		if (is_ != should_) {                                                                                          \
			fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #is, is_, should_);               \
			failures++;                                                                                            \
			return;                                                                                                \
		}                                                                                                              \
	} while (0)

static inline int tasks_start(void **state)
{
	(void)state;
	return runtime_start(2, 0);
}

static inline int tasks_stop(void **state)
{
	(void)state;
	fflush(NULL); /* what has failed is to be read, though a task of the failed test may hold this up */
	runtime_stop();
	return 0;
}
#endif
