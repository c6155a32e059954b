/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines, each written by one write(2), so that lines of several threads and processes never mix. */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "xlator.h"

enum log_level log_threshold = LOG_INFO;

static const char *const names[] = { "error", "warning", "info", "debug", "trace" };
static struct {
	pthread_mutex_t lock; /* guards fd and path while they change */
	char *path;
	int fd;
	const char *program;
} out = { PTHREAD_MUTEX_INITIALIZER, NULL, STDERR_FILENO, "stratus" };

static int open_append(const char *path)
{
	return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
}

int log_open(const char *path)
{
	char *copy = strdup(path);
	int fd = copy ? open_append(path) : -1;

	if (fd < 0) {
		int err = copy ? -errno : -ENOMEM;
		free(copy);
		return err;
	}
	pthread_mutex_lock(&out.lock);
	if (out.fd != STDERR_FILENO)
		close(out.fd);
	free(out.path);
	out.fd = fd;
	out.path = copy;
	pthread_mutex_unlock(&out.lock);
	return 0;
}

void log_reopen(void)
{
	int fd;

	pthread_mutex_lock(&out.lock);
	fd = out.path ? open_append(out.path) : -1;
	if (fd >= 0) {
		close(out.fd);
		out.fd = fd;
	}
	pthread_mutex_unlock(&out.lock);
}

void log_program(const char *name)
{
	out.program = name;
}

void log_set_level(enum log_level level)
{
	log_threshold = level;
}

enum log_level log_get_level(void)
{
	return log_threshold;
}

const char *log_level_name(enum log_level level)
{
	return names[level];
}

int log_level_parse(const char *name, enum log_level *level)
{
	for (int i = LOG_ERROR; i <= LOG_TRACE; i++)
		if (!strcmp(name, names[i])) {
			*level = i;
			return 0;
		}
	return -EINVAL;
}

/* Of one line, and nothing that a terminal obeys (in UTF-8 what begins with 0xc2 may be such, too), whatever a peer sent. */
static void make_plain(char *text, size_t size)
{
	unsigned char *at = (unsigned char *)text;

	for (size_t i = 0; i < size; i++)
		if (at[i] < 0x20 || at[i] == 0x7f)
			at[i] = '?';
		else if (i && at[i - 1] == 0xc2 && at[i] < 0xa0)
			at[i - 1] = at[i] = '?';
}

/* 2026-01-31T12:00:00.123456Z info stratusd[77] rq=1a2b volume: message */
void log_write(enum log_level level, const struct xlator *x, const struct request *rq, const char *format, ...)
{
	char line[2048];
	struct timespec now;
	struct tm tm;
	size_t n;
	int more;
	va_list args;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	n = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &tm);
	n += (size_t)snprintf(line + n, sizeof(line) - n, ".%06ldZ %s %s[%d]", now.tv_nsec / 1000, names[level], out.program,
			      (int)getpid());
	if (rq)
		n += (size_t)snprintf(line + n, sizeof(line) - n, " rq=%" PRIx64, rq->id);
	n += (size_t)snprintf(line + n, sizeof(line) - n, " %.64s: ", x ? x->name : "-");
	va_start(args, format);
	more = vsnprintf(line + n, sizeof(line) - n - 1, format, args);
	va_end(args);
	if (more > 0)
		n += (size_t)more < sizeof(line) - n - 1 ? (size_t)more : sizeof(line) - n - 2;
	make_plain(line, n);
	line[n++] = '\n';
	pthread_mutex_lock(&out.lock);
	while (write(out.fd, line, n) < 0 && errno == EINTR)
		;
	pthread_mutex_unlock(&out.lock);
}

int problem_set(struct problem *p, int error, const char *format, ...)
{
	va_list args;

	if (p && !p->text[0]) {
		p->error = error;
		va_start(args, format);
		vsnprintf(p->text, sizeof(p->text), format, args);
		va_end(args);
		make_plain(p->text, strlen(p->text));
	}
	return -error;
}

/* FNV-1a. */
static uint64_t hash_without_numbers(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *text; text++)
		if (*text < '0' || *text > '9')
			hash = (hash ^ (uint8_t)*text) * 0x100000001b3;
	return hash;
}

bool reasons_new(struct reasons *r, const char *text)
{
	enum { ROOM = sizeof(r->told) / sizeof(*r->told) };
	uint64_t hash = hash_without_numbers(text);

	for (unsigned i = 0; i < ROOM && i < r->count; i++)
		if (r->told[i] == hash)
			return false;
	r->told[r->count++ % ROOM] = hash;
	return true;
}
