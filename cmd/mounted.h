/* SPDX-License-Identifier: Apache-2.0 */
/* Which mount a path is on. */
#ifndef STRATUS_MOUNTED_H
#define STRATUS_MOUNTED_H
#include <stdbool.h>

struct mounted {
	char *type, *point; /* as the kernel has them; NULL: not known */
};
#define cleanup_mounted __attribute__((cleanup(mounted_free)))
void mounted_free(struct mounted *);
/* The mount of what stands there, a symbolic link itself; an older one is freed. 0 or -errno of looking at it. */
int mounted_at(const char *path, struct mounted *);
bool mounted_is_ours(const struct mounted *);
#endif
