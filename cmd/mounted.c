/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the mount of a path, by the kernel's number of it. */
#include "mounted.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void mounted_free(struct mounted *m)
{
	free(m->type);
	free(m->point);
	*m = (struct mounted){ NULL, NULL };
}

/* "\040" is a blank, for example. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from; from++) {
		unsigned value;

		if (*from == '\\' && sscanf(from + 1, "%3o", &value) == 1) {
			*to++ = (char)value;
			from += 3;
		} else {
			*to++ = *from;
		}
	}
	*to = '\0';
}

/* "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS... - TYPE ..." */
static bool fits(char *line, uint64_t id, struct mounted *m)
{
	const char *type = strstr(line, " - ");

	if (strtoull(line, NULL, 10) != id || !type || sscanf(type, " - %ms", &m->type) != 1 ||
	    sscanf(line, "%*s %*s %*s %*s %ms", &m->point) != 1)
		return false;
	unescape(m->point);
	return true;
}

static bool find(uint64_t id, struct mounted *m)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t room = 0;
	bool found = false;

	while (f && !found && getline(&line, &room, f) > 0)
		found = fits(line, id, m);
	free(line);
	if (f)
		fclose(f);
	return found;
}

int mounted_at(const char *path, struct mounted *m)
{
	struct statx st;

	mounted_free(m);
	if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE | STATX_MNT_ID, &st))
		return -errno;
	find(st.stx_mnt_id, m);
	return 0;
}

bool mounted_is_ours(const struct mounted *m)
{
	return m->type && m->point && !strcmp(m->type, "fuse.stratus");
}
