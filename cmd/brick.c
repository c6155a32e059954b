/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares the directories of bricks. */
#include "brick.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "path.h"

static char *mark_of(const struct spec_brick *b, const char *state)
{
	char id[GFID_TEXT];

	return path_format("%s/bricks/%s", state, gfid_text(&b->id, id));
}

static int check_known(const struct spec_brick *b, struct problem *p)
{
	cleanup_path char *format = path_format("%s/.stratus/format", b->directory);

	if (!access(format, F_OK))
		return 0;
	return problem_set(p, ENODEV,
			   "%s was a brick, but is none now: mount its disk, or give the volume another brick (`stratus brick "
			   "replace`)",
			   b->directory);
}

int secret_create(char secret[SECRET_DIGITS + 1], struct problem *p)
{
	unsigned char random[SECRET_DIGITS / 2];

	if (getrandom(random, sizeof random, 0) != sizeof random)
		return problem_set(p, EIO, "the system has no random numbers: %m");
	for (size_t i = 0; i < sizeof random; i++)
		sprintf(secret + 2 * i, "%02x", random[i]);
	return 0;
}

static bool says(const char *path, const char *secret)
{
	char found[SECRET_DIGITS + 1] = "";
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	bool same;

	if (fd < 0)
		return false;
	same = !fstat(fd, &st) && (st.st_mode & 07777) == 0600 && read(fd, found, SECRET_DIGITS) == SECRET_DIGITS &&
	       !strcmp(found, secret);
	close(fd);
	return same;
}

int secret_write(const char *path, const char *secret, struct problem *p)
{
	cleanup_path char *fresh = path_format("%s.new", path);
	int fd, err = 0;

	if (says(path, secret))
		return 0;
	unlink(fresh);
	fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, secret, SECRET_DIGITS) != SECRET_DIGITS || fsync(fd))
		err = errno ? errno : EIO;
	if (fd >= 0)
		close(fd);
	if (!err && rename(fresh, path))
		err = errno;
	return err ? problem_set(p, err, "can't write the secret %s: %s", path, strerror(err)) : 0;
}

int brick_prepare(const struct spec_brick *b, const char *state, const char *secret, struct problem *p)
{
	cleanup_path char *mark = mark_of(b, state), *private = path_format("%s/.stratus", b->directory);
	cleanup_path char *file = path_format("%s/secret", private);
	int err;

	err = !access(mark, F_OK) ? check_known(b, p) : path_make_directory(b->directory, 0755, p);
	if (err || !secret)
		return err;
	err = path_make_directory(private, 0700, p);
	return err ? err : secret_write(file, secret, p);
}

int brick_mark(const struct spec_brick *b, const char *state, struct problem *p)
{
	cleanup_path char *mark = mark_of(b, state), *text = path_format("%s\n", b->directory);

	if (!access(mark, F_OK))
		return 0;
	path_make_parents(mark);
	return path_write(mark, text, strlen(text), p);
}
