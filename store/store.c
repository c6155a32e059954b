/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a server that is alone: one file, replaced as a whole by each commit.
 *
 * The new state is written beside the old one and synced, then renamed over it, then the directory is synced; only then is it
 * served. A crash leaves the old state or the new one. An error after the rename leaves nobody sure which of them a crash
 * would show, so the store fails then, rather than serve what may be taken back. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "state.h"

void (*store_step)(const char *next);

struct store {
	pthread_mutex_t lock;  /* state; short, but never across I/O */
	pthread_mutex_t order; /* one commit at a time; taken before lock */
	pthread_cond_t changed;
	struct state state; /* committed */
	int directory, lock_file;
	bool failed, woken;
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
static int persist(struct store *s, const struct state *next, bool *doubt)
{
	struct blob text;
	int err = state_encode(next, &text);

	if (err)
		return err;
	step("write");
	err = stage(s->directory, &text);
	free(text.bytes);
	if (err)
		return err;
	step("rename");
	*doubt = true;
	if (renameat(s->directory, "state.new", s->directory, "state"))
		return -errno;
	step("sync");
	if (fsync(s->directory))
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
	int fd = openat(s->directory, "state", O_RDONLY | O_NOFOLLOW | O_CLOEXEC), err;
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

/* ---- opening ---- */

static int make_directory(const char *path, struct problem *p)
{
	if (mkdir(path, 0700) && errno != EEXIST)
		return problem_set(p, errno, "can't make the directory %s: %m; make the one above it, or name another", path);
	return 0;
}

static int claim(struct store *s, const char *directory, struct problem *p)
{
	s->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->directory < 0)
		return problem_set(p, errno, "can't open the directory %s: %m", directory);
	s->lock_file = openat(s->directory, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (s->lock_file < 0)
		return problem_set(p, errno, "can't open %s/lock: %m", directory);
	if (flock(s->lock_file, LOCK_EX | LOCK_NB))
		return problem_set(p, errno == EWOULDBLOCK ? EBUSY : errno,
				   "another process uses the store in %s: stop the other stratusd, or give this one another "
				   "directory",
				   directory);
	return 0;
}

int store_open(const char *directory, struct store **opened, struct problem *p)
{
	struct store *s = calloc(1, sizeof *s);
	pthread_condattr_t clock;
	int err = s ? make_directory(directory, p) : -ENOMEM;

	if (err) {
		free(s);
		return err;
	}
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->order, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&s->changed, &clock);
	pthread_condattr_destroy(&clock);
	s->directory = s->lock_file = -1;
	err = claim(s, directory, p);
	if (!err)
		err = load(s, directory, p);
	if (err)
		store_close(s);
	else
		*opened = s;
	return err;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	if (s->lock_file >= 0)
		close(s->lock_file);
	if (s->directory >= 0)
		close(s->directory);
	state_free(&s->state);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->order);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* ---- reading ---- */

static int copy_out(const struct document *d, struct blob *value)
{
	value->bytes = malloc(d->value.size + 1);
	if (!value->bytes)
		return -ENOMEM;
	memcpy(value->bytes, d->value.bytes, d->value.size + 1); /* with its NUL */
	value->size = d->value.size;
	return 0;
}

int store_get(struct store *s, const char *key, struct blob *value, uint64_t *version)
{
	const struct document *d;
	int err;

	*value = (struct blob){ 0 };
	pthread_mutex_lock(&s->lock);
	d = state_find(&s->state, key);
	*version = d ? d->version : 0;
	err = s->failed ? -EIO : !d || d->gone ? -ENOENT : copy_out(d, value);
	pthread_mutex_unlock(&s->lock);
	return err;
}

char **store_keys(struct store *s, const char *prefix)
{
	size_t count = 0, room, length = strlen(prefix);
	char **keys, *text;

	pthread_mutex_lock(&s->lock);
	room = (s->state.count + 1) * sizeof *keys;
	keys = malloc(room + s->state.count * STORE_KEY_MAX);
	text = (char *)keys + room;
	for (size_t i = 0; keys && i < s->state.count; i++)
		if (!s->state.document[i].gone && !strncmp(s->state.document[i].key, prefix, length)) {
			keys[count++] = text;
			text = stpcpy(text, s->state.document[i].key) + 1;
		}
	if (keys)
		keys[count] = NULL;
	pthread_mutex_unlock(&s->lock);
	return keys;
}

/* ---- changing ---- */

static void publish(struct store *s, struct state *next)
{
	pthread_mutex_lock(&s->lock);
	state_free(&s->state);
	s->state = *next;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static void fail(struct store *s, int err)
{
	pthread_mutex_lock(&s->lock);
	s->failed = true;
	pthread_mutex_unlock(&s->lock);
	log_error(NULL, NULL,
		  "the store can't be written (%s), and what is on the disk is not known: see to the disk, then restart",
		  strerror(-err));
}

static int commit_in_order(struct store *s, const struct store_change *change, size_t count)
{
	struct state next;
	bool doubt = false;
	int err = s->failed ? -EIO : state_copy(&s->state, &next);

	if (err)
		return err;
	err = state_apply(&next, change, count);
	if (!err)
		err = persist(s, &next, &doubt);
	if (doubt)
		fail(s, err);
	if (err)
		state_free(&next);
	else
		publish(s, &next);
	return err;
}

int store_commit(struct store *s, const struct store_change *change, size_t count)
{
	int err;

	pthread_mutex_lock(&s->order); /* state is written under both locks, so it may be read under either */
	err = commit_in_order(s, change, count);
	pthread_mutex_unlock(&s->order);
	return err;
}

int store_replace(struct store *s, const char *key, uint64_t version, const struct blob *value)
{
	return store_commit(s, &(struct store_change){ key, version, value }, 1);
}

/* ---- waiting ---- */

uint64_t store_index(struct store *s)
{
	uint64_t index;

	pthread_mutex_lock(&s->lock);
	index = s->state.index;
	pthread_mutex_unlock(&s->lock);
	return index;
}

uint64_t store_wait(struct store *s, uint64_t after, unsigned ms)
{
	struct timespec until;
	uint64_t index;
	int err = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += ms % 1000 * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&s->lock);
	while (s->state.index <= after && !s->woken && !err)
		err = pthread_cond_timedwait(&s->changed, &s->lock, &until);
	index = s->state.index;
	pthread_mutex_unlock(&s->lock);
	return index;
}

void store_wake(struct store *s)
{
	pthread_mutex_lock(&s->lock);
	s->woken = true;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}
