/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a server that is alone: one file, replaced as a whole by each commit.
 *
 * The new state is written beside the old one and synced, then renamed over it, then the directory is synced; only then is it
 * served. A crash leaves the old state or the new one. An error after the rename leaves nobody sure which of them a crash
 * would show, so the store fails then, rather than serve what may be taken back. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend.h"
#include "log.h"

void (*store_step)(const char *next);

struct file_log {
	pthread_mutex_t order; /* one commit at a time; taken before store.lock */
	int directory, lock_file;
};

static void step(const char *next)
{
	if (store_step)
		store_step(next);
}

/* ---- the file ---- */

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

static int stage(int directory, const struct blob *text)
{
	int fd = openat(directory, "state.new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	int err = fd < 0 ? -errno : write_all(fd, text->bytes, text->size);

	if (fd >= 0)
		close(fd);
	return err;
}

/* *doubt: it failed when it may have been done already. */
static int persist(struct file_log *l, const struct state *next, bool *doubt)
{
	struct blob text;
	int err = state_encode(next, &text);

	if (err)
		return err;
	step("write");
	err = stage(l->directory, &text);
	free(text.bytes);
	if (err)
		return err;
	step("rename");
	*doubt = true;
	if (renameat(l->directory, "state.new", l->directory, "state"))
		return -errno;
	step("sync");
	if (fsync(l->directory))
		return -errno;
	*doubt = false;
	step("publish");
	return 0;
}

static char *read_text(int fd, size_t *size)
{
	struct stat st;
	char *text;

	if (fstat(fd, &st))
		return NULL;
	if (st.st_size > STORE_SIZE_MAX) {
		errno = EFBIG;
		return NULL;
	}
	text = malloc(st.st_size + 1);
	for (*size = 0; text && *size < (size_t)st.st_size;) {
		ssize_t n = TEMP_FAILURE_RETRY(read(fd, text + *size, st.st_size - *size));

		if (n <= 0) {
			free(text);
			errno = n ? errno : EIO;
			return NULL;
		}
		*size += n;
	}
	return text;
}

static int load(struct store *s, const char *directory, struct problem *p)
{
	struct file_log *l = s->log;
	int fd = openat(l->directory, "state", O_RDONLY | O_NOFOLLOW | O_CLOEXEC), err;
	char *text = NULL;
	size_t size = 0;

	if (fd < 0 && errno == ENOENT)
		return 0; /* a new store */
	if (fd >= 0)
		text = read_text(fd, &size);
	if (!text)
		err = problem_set(p, errno, "can't read the store %s/state: %m; check the disk", directory);
	else if ((err = state_decode(text, size, &s->state)))
		problem_set(p, -err, "the store %s/state is damaged: restore it from a copy", directory);
	free(text);
	if (fd >= 0)
		close(fd);
	return err;
}

/* ---- committing ---- */

static void fail(struct store *s, int err)
{
	pthread_mutex_lock(&s->lock);
	s->failed = true;
	pthread_mutex_unlock(&s->lock);
	log_error(NULL, NULL,
		  "the store can't be written (%s), and what is on the disk is not known: see to the disk, then restart",
		  strerror(-err));
}

/* Nobody else changes the state meanwhile, so it may be read without store.lock. */
static int commit_in_order(struct store *s, const struct store_change *change, size_t count)
{
	struct state next;
	bool doubt = false;
	int err = s->failed ? -EIO : state_copy(&s->state, &next);

	if (err)
		return err;
	err = state_apply(&next, change, count);
	if (!err)
		err = persist(s->log, &next, &doubt);
	if (doubt)
		fail(s, err);
	if (err)
		state_free(&next);
	else
		store_publish(s, &next);
	return err;
}

static int commit(struct store *s, const struct store_change *change, size_t count)
{
	struct file_log *l = s->log;
	int err;

	pthread_mutex_lock(&l->order);
	err = commit_in_order(s, change, count);
	pthread_mutex_unlock(&l->order);
	return err;
}

/* ---- opening ---- */

static int claim(struct file_log *l, const char *directory, struct problem *p)
{
	l->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l->directory < 0)
		return problem_set(p, errno, "can't open the directory %s: %m", directory);
	l->lock_file = openat(l->directory, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (l->lock_file < 0)
		return problem_set(p, errno, "can't open %s/lock: %m", directory);
	if (flock(l->lock_file, LOCK_EX | LOCK_NB))
		return problem_set(p, errno == EWOULDBLOCK ? EBUSY : errno,
				   "another process uses the store in %s: stop the other stratusd, or give this one another "
				   "directory",
				   directory);
	return 0;
}

static void close_log(struct store *s)
{
	struct file_log *l = s->log;

	if (l->lock_file >= 0)
		close(l->lock_file);
	if (l->directory >= 0)
		close(l->directory);
	pthread_mutex_destroy(&l->order);
	free(l);
}

static const struct log_type file = { .commit = commit, .close = close_log };

int store_open(const char *directory, struct store **opened, struct problem *p)
{
	struct file_log *l = calloc(1, sizeof *l);
	struct store *s = l ? store_create(&file) : NULL;
	int err;

	if (!s) {
		free(l);
		return -ENOMEM;
	}
	l->directory = l->lock_file = -1;
	pthread_mutex_init(&l->order, NULL);
	s->log = l;
	err = store_make_directory(directory, p);
	if (!err)
		err = claim(l, directory, p);
	if (!err)
		err = load(s, directory, p);
	if (err)
		store_close(s);
	else
		*opened = s;
	return err;
}
