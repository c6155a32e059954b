/* SPDX-License-Identifier: Apache-2.0 */
/* Random arguments and results of fops, and a side of the wire that has a few objects only: for codec tests and fuzzing. */
#ifndef STRATUS_WIRE_VALUES_H
#define STRATUS_WIRE_VALUES_H
#include "codec.h"

enum { WIRE_OBJECTS = 8 };

void wire_values_init(unsigned seed);
void wire_values_finish(void);
uint64_t wire_random(void);
void wire_random_in(int fop, void *in);
void wire_random_out(int fop, const void *in, void *out);
extern const struct codec_ops wire_values_ops;
#endif
