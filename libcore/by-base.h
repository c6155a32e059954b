/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of tenants, or accounts, in the order of their first user ids. */
#ifndef STRATUS_BY_BASE_H
#define STRATUS_BY_BASE_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Where the one with that first user id is, or would come to be. Each begins with that, an uint64_t, and has `size` bytes. */
static inline size_t place_by_base(const void *list, size_t count, size_t size, uint64_t base)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		uint64_t there;

		memcpy(&there, (const char *)list + middle * size, sizeof(there));
		if (there < base)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}
#endif
