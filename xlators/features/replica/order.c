/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the kernel; apart from the rest, for libcore has a struct statfs of its own. */
#include "order.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { FS_EXT = 0xEF53, FS_XFS = 0x58465342, FS_TMPFS = 0x01021994 };

/* ext4 may have been made without one, and ext2 has the same number: /sys/fs/ext4/DEVICE/journal_task is a process's number, or "<none>". Where it can't be asked: no. */
static bool ext_has_journal(int directory_fd)
{
	char link[64], device[512], path[128], first = '\0';
	const char *name;
	struct stat st;
	ssize_t length;
	int fd;

	if (fstat(directory_fd, &st))
		return false;
	snprintf(link, sizeof(link), "/sys/dev/block/%u:%u", major(st.st_dev), minor(st.st_dev));
	length = readlink(link, device, sizeof(device) - 1);
	device[length < 0 ? 0 : length] = '\0';
	name = strrchr(device, '/');
	if (!name)
		return false;
	snprintf(path, sizeof(path), "/sys/fs/ext4%.64s/journal_task", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, &first, 1) != 1)
		first = '\0';
	close(fd);
	return first >= '0' && first <= '9';
}

/* One journal, in order. Of others that is not known: the fsync of Btrfs writes what it is asked for ahead of what was before. tmpfs has nothing to lose. */
bool names_are_ordered(int directory_fd)
{
	struct statfs s;

	if (fstatfs(directory_fd, &s))
		return false;
	return (s.f_type == FS_EXT && ext_has_journal(directory_fd)) || s.f_type == FS_XFS || s.f_type == FS_TMPFS;
}
