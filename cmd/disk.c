/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the kernel whether a file system takes changes. */
#include "disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

/* proc_pid_mountinfo(5): the third word is the device, the last are the options of the file system. */
static bool is_of(const char *line, dev_t device)
{
	unsigned major, minor;

	return sscanf(line, "%*u %*u %u:%u", &major, &minor) == 2 && makedev(major, minor) == device;
}

/* After an error ext4 refuses changes, and since Linux 6.15 statvfs(3) does not tell. */
static bool is_emergency(dev_t device)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t size = 0;
	bool yes = false;

	while (mounts && !yes && getline(&line, &size, mounts) > 0) {
		const char *options = strrchr(line, ' ');

		yes = is_of(line, device) && options && strstr(options, "emergency_ro");
	}
	free(line);
	if (mounts)
		fclose(mounts);
	return yes;
}

bool disk_is_read_only(const char *directory)
{
	struct statvfs fs;
	struct stat st;

	if (statvfs(directory, &fs) || stat(directory, &st))
		return false;
	return fs.f_flag & ST_RDONLY || is_emergency(st.st_dev);
}
