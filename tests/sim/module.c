/* SPDX-License-Identifier: Apache-2.0 */
/* A module for graph.c to find: what it is stands in the program (SIM_TYPE). */
#include "leaf.h"

XLATOR_MODULE
extern struct xlator_type module_type __asm__("xlator_type");
struct xlator_type module_type __attribute__((visibility("default")));

__attribute__((constructor)) static void fill(void)
{
	memcpy(&module_type, &SIM_TYPE, sizeof(module_type));
}
