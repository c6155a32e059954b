/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of files for the command line tools: made absolute, read, written atomically. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "path.h"

char *path_format(const char *format, ...)
{
	char *text;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		errx(1, "out of memory: stop other programs and try again");
	va_end(args);
	return text;
}

char *path_shown(const char *path)
{
	char *text, *to;
	bool plain = true;

	for (const char *at = path; *at; at++)
		plain &= (unsigned char)*at >= ' ' && *at != 0x7f;
	text = to = plain ? path_format("%s", path) : path_format("$'%*s'", (int)strlen(path) * 4, "");
	if (plain)
		return text;
	for (to += 2; *path; path++)
		if ((unsigned char)*path < ' ' || *path == 0x7f)
			to += sprintf(to, "\\%03o", (unsigned char)*path);
		else
			to += sprintf(to, *path == '\'' || *path == '\\' ? "\\%c" : "%c", *path);
	strcpy(to, "'");
	return text;
}

void path_free_at(char **path)
{
	free(*path);
}

char *path_absolute(const char *path)
{
	char here[PATH_MAX];

	if (*path == '/' || !getcwd(here, sizeof here))
		return path_format("%s", path);
	return path_format("%s/%s", strcmp(here, "/") ? here : "", path);
}

/* A directory that was just made is there after a crash only when the one above it was written. */
static void sync_parent(const char *path)
{
	cleanup_path char *copy = path_format("%s", path);
	int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	fsync(fd);
	close(fd);
}

void path_make_parents(const char *path)
{
	cleanup_path char *copy = path_format("%s", path);

	for (char *at = strchr(copy + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		if (!mkdir(copy, 0755))
			sync_parent(copy);
		*at = '/';
	}
}

bool path_is_directory(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

int path_make_directory(const char *path, mode_t mode, struct problem *p)
{
	if (!mkdir(path, mode) || (errno == EEXIST && path_is_directory(path)))
		return 0;
	return problem_set(p, errno, "can't make the directory %s: %m%s", path,
			   errno == ENOENT ? "; make the one above it first" : "");
}

static int write_all(int fd, const char *bytes, size_t size)
{
	while (size) {
		ssize_t n = TEMP_FAILURE_RETRY(write(fd, bytes, size));

		if (n < 0)
			return -errno;
		bytes += n;
		size -= n;
	}
	return fsync(fd) ? -errno : 0;
}

int path_write_mode(const char *path, const void *bytes, size_t size, mode_t mode, struct problem *p)
{
	cleanup_path char *staged = path_format("%s.new-%d", path, getpid());
	int fd = open(staged, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode), err;

	err = fd < 0 ? -errno : write_all(fd, bytes, size);
	if (fd >= 0)
		close(fd);
	if (!err && rename(staged, path))
		err = -errno;
	if (!err)
		return 0;
	if (fd >= 0)
		unlink(staged);
	return problem_set(p, -err, "can't write %s: %s; check the directory and its permissions", path, strerror(-err));
}

int path_write(const char *path, const void *bytes, size_t size, struct problem *p)
{
	return path_write_mode(path, bytes, size, 0644, p);
}

char *path_read(const char *path, size_t limit, size_t *size, struct problem *p)
{
	FILE *file = fopen(path, "re");
	char *text = file ? malloc(limit + 2) : NULL;

	*size = text ? fread(text, 1, limit + 1, file) : 0;
	if (!text || ferror(file))
		problem_set(p, errno, "can't read %s: %m", path);
	else if (*size > limit)
		problem_set(p, EFBIG, "%s is larger than %zu bytes: it can't be what is wanted here", path, limit);
	if (file)
		fclose(file);
	if (p->text[0]) {
		free(text);
		return NULL;
	}
	text[*size] = '\0';
	return text;
}
