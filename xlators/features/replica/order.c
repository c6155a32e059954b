/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the kernel; apart from the rest, for libcore has a struct statfs of its own. */
#include "order.h"

#include <sys/vfs.h>

enum { FS_EXT = 0xEF53, FS_XFS = 0x58465342, FS_TMPFS = 0x01021994 };

/* One journal, in order. Of others that is not known: the fsync of Btrfs writes what it is asked for ahead of what was before. tmpfs has nothing to lose. */
bool names_are_ordered(int directory_fd)
{
	struct statfs s;

	if (fstatfs(directory_fd, &s))
		return false;
	return s.f_type == FS_EXT || s.f_type == FS_XFS || s.f_type == FS_TMPFS;
}
