/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a brick's disk beside its room. */
#ifndef STRATUS_DISK_H
#define STRATUS_DISK_H
#include <stdbool.h>

bool disk_is_read_only(
	const char *directory); /* mounted so, or made so by the kernel after an error; false if that can't be found out */
#endif
