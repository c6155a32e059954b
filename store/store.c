/* SPDX-License-Identifier: Apache-2.0 */
/* The committed state in memory: read, waited for, and changed through a log. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "backend.h"
#include "log.h"

struct store *store_create(const struct log_type *type)
{
	struct store *s = calloc(1, sizeof *s);
	pthread_condattr_t clock;

	if (!s)
		return NULL;
	s->type = type;
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&s->changed, &clock);
	pthread_condattr_destroy(&clock);
	return s;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	s->type->close(s);
	state_free(&s->state);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

int store_make_directory(const char *path, struct problem *p)
{
	char above[PATH_MAX];
	int fd, err = 0;

	if (mkdir(path, 0700))
		return errno == EEXIST
			       ? 0
			       : problem_set(p, errno,
					     "can't make the directory %s: %m; make the one above it, or name another", path);
	snprintf(above, sizeof above, "%s", path);
	fd = open(dirname(above), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd))
		err = problem_set(p, errno, "can't write the directory above %s: %m; check the disk", path);
	if (fd >= 0)
		close(fd);
	return err;
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

uint64_t store_version(struct store *s, const char *key)
{
	const struct document *d;
	uint64_t version;

	pthread_mutex_lock(&s->lock);
	d = state_find(&s->state, key);
	version = d ? d->version : 0;
	pthread_mutex_unlock(&s->lock);
	return version;
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

void store_publish(struct store *s, struct state *next)
{
	pthread_mutex_lock(&s->lock);
	state_free(&s->state);
	s->state = *next;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

int store_commit(struct store *s, const struct store_change *change, size_t count)
{
	return s->type->commit(s, change, count);
}

int store_replace(struct store *s, const char *key, uint64_t version, const struct blob *value)
{
	return store_commit(s, &(struct store_change){ key, version, value }, 1);
}

bool store_leads(struct store *s)
{
	return !s->type->leads || s->type->leads(s);
}

void store_hand_over(struct store *s)
{
	if (s->type->hand_over)
		s->type->hand_over(s);
}

/* ---- members ---- */

static int alone(struct problem *p)
{
	return problem_set(
		p, ENOTSUP,
		"this store is one server's alone: start the cluster's first stratusd with --cluster ADDRESS:PORT to share "
		"it");
}

int store_add(struct store *s, const char *name, const char *address, struct problem *p)
{
	return s->type->add ? s->type->add(s, name, address, p) : alone(p);
}

int store_remove(struct store *s, const char *name, struct problem *p)
{
	return s->type->remove ? s->type->remove(s, name, p) : alone(p);
}

size_t store_members(struct store *s, struct store_member *member, size_t max)
{
	return s->type->members ? s->type->members(s, member, max) : 0;
}

bool store_trouble(struct store *s, char *text, size_t size)
{
	return s->type->trouble && s->type->trouble(s, text, size);
}

/* ---- waiting ---- */

bool store_replayed(struct store *s)
{
	return !s->type->replayed || s->type->replayed(s);
}

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
	uint64_t index, turns;
	int err = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += ms % 1000 * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&s->lock);
	turns = s->turns;
	while (s->state.index <= after && s->turns == turns && !s->woken && !err)
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
