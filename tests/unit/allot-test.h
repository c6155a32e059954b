/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of allot-test share: chance. */
#ifndef STRATUS_ALLOT_TEST_H
#define STRATUS_ALLOT_TEST_H
#include "test.h"

extern uint64_t state; /* of the numbers that follow */
unsigned below(unsigned n);

/* allot-test-steps.c */
extern const struct CMUnitTest steps[];
extern const unsigned steps_count;
#endif
