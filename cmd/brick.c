/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares the directories of bricks. */
#include "brick.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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

bool brick_was_served(const struct spec_brick *b)
{
	cleanup_path char *format = path_format("%s/.stratus/format", b->directory);

	return !access(format, F_OK);
}

static int check_known(const struct spec_brick *b, struct problem *p)
{
	if (brick_was_served(b))
		return 0;
	return problem_set(
		p, ENODEV,
		"%s was a brick, but is none now: mount its disk, or, if that is lost, replace it by another directory, or an empty disk "
		"there (`stratus brick replace --new-disk`)",
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

/* A directory that something else is in is left as it is. */
static int check_empty(const char *directory, struct problem *p)
{
	DIR *dir = opendir(directory);
	const struct dirent *e;
	bool empty = true;
	int err;

	if (!dir)
		return problem_set(p, errno, "can't read %s: %m", directory);
	while ((errno = 0, e = readdir(dir)))
		empty &= !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !strcmp(e->d_name, "lost+found") ||
			 !strcmp(e->d_name, ".stratus");
	err = errno;
	closedir(dir);
	if (err)
		return problem_set(p, err, "can't read %s: %s", directory, strerror(err));
	return empty ? 0 : problem_set(p, ENOTEMPTY, "%s is no brick and is not empty: name an empty directory", directory);
}

/* It is this brick, or may become it. (storage/posix looks more closely.) */
static int check_ours(const struct spec_brick *b, struct problem *p)
{
	cleanup_path char *path = path_format("%s/.stratus/format", b->directory);
	char found[GFID_TEXT] = "", id[GFID_TEXT];
	FILE *file = fopen(path, "re");
	int words;

	if (!file && errno != ENOENT)
		return problem_set(p, errno, "can't read %s: %m", path);
	if (!file)
		return check_empty(b->directory, p);
	words = fscanf(file, "stratus brick %*d volume %*s brick %36s", found);
	fclose(file);
	if (words == 1 && !strcmp(found, gfid_text(&b->id, id)))
		return 0;
	return problem_set(p, EINVAL, "%s is brick %s, not brick %s as the specification says: correct one of them",
			   b->directory, words == 1 ? found : "(its .stratus/format is damaged)", gfid_text(&b->id, id));
}

/* It will be made, in the one above it. */
static int check_above(const char *directory, struct problem *p)
{
	const char *slash = strrchr(directory, '/');
	cleanup_path char *above = path_format("%.*s", slash > directory ? (int)(slash - directory) : 1, directory);

	if (!path_is_directory(above))
		return problem_set(p, ENOENT, "%s can't be made, for %s is no directory: make that first", directory, above);
	return access(above, W_OK | X_OK) ? problem_set(p, errno, "%s can't be made: %s: %m", directory, above) : 0;
}

int brick_check_new(const struct spec_brick *b, struct problem *p)
{
	if (access(b->directory, F_OK))
		return errno == ENOENT ? check_above(b->directory, p)
				       : problem_set(p, errno, "%s can't be a brick: %m", b->directory);
	if (!path_is_directory(b->directory))
		return problem_set(p, ENOTDIR, "%s is no directory: name one that is empty, or does not exist yet",
				   b->directory);
	if (access(b->directory, R_OK | W_OK | X_OK))
		return problem_set(p, errno, "%s can't be a brick: %m", b->directory);
	return check_ours(b, p);
}

int brick_prepare(const struct spec_brick *b, const char *state, const char *secret, struct problem *p)
{
	cleanup_path char *mark = mark_of(b, state), *private = path_format("%s/.stratus", b->directory);
	cleanup_path char *file = path_format("%s/secret", private);
	int err;

	err = !access(mark, F_OK) ? check_known(b, p) : path_make_directory(b->directory, 0755, p);
	if (err || !secret)
		return err;
	err = check_ours(b, p);
	if (!err)
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
