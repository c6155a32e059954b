/* SPDX-License-Identifier: Apache-2.0 */
/* What unit tests share: cmocka with the headers it wants, and waiting for a condition with a limit. */
#ifndef STRATUS_TEST_H
#define STRATUS_TEST_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* True as soon as the condition holds; false if it does not within a minute, and more on a busy machine. Not on tasks. */
#define EVENTUALLY(condition)                                                                                                  \
	({                                                                                                                     \
		int tries_ = 0;                                                                                                \
		while (!(condition) && tries_++ < 600000)                                                                      \
			usleep(100);                                                                                           \
		tries_ < 600000;                                                                                               \
	})
#endif
