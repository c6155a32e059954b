/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines: time, level, process, request id, where, what; one line each, easy to grep. */
#ifndef STRATUS_LOG_H
#define STRATUS_LOG_H
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG, LOG_TRACE };

struct request;
struct xlator;
/* Writes to stderr until log_open() has named a file (reopened by log_reopen(), for logrotate). 0 or -errno. */
int log_open(const char *path);
void log_reopen(void);
/* What stands in each line as the program: "stratusd", "mount". Borrowed for ever. */
void log_program(const char *name);
void log_set_level(enum log_level);
enum log_level log_get_level(void);
/* "error" ... "trace"; -EINVAL. */
int log_level_parse(const char *name, enum log_level *);
const char *log_level_name(enum log_level);

void log_write(enum log_level, const struct xlator *, const struct request *, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* x and rq may be NULL. */
extern enum log_level log_threshold;
#define log_at(level, x, rq, ...)                                                                                              \
	do {                                                                                                                   \
		if ((level) <= log_threshold)                                                                                  \
			log_write((level), (x), (rq), __VA_ARGS__);                                                            \
	} while (0)
#define log_error(x, rq, ...)	log_at(LOG_ERROR, x, rq, __VA_ARGS__)
#define log_warning(x, rq, ...) log_at(LOG_WARNING, x, rq, __VA_ARGS__)
#define log_info(x, rq, ...)	log_at(LOG_INFO, x, rq, __VA_ARGS__)
#define log_debug(x, rq, ...)	log_at(LOG_DEBUG, x, rq, __VA_ARGS__)

/* An error for the user: one sentence that names the cause and the next step. */
struct problem {
	char text[512];
	int error; /* errno of the cause */
};
/* Writes the sentence, unless one is there already (the first cause counts), with "?" for control characters, for it may quote what came from elsewhere; returns -error, so `return problem_set(...)`. */
int problem_set(struct problem *, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));

struct reasons { /* why something fails that is tried again and again; zeros: none yet */
	uint64_t told[8];
	unsigned count;
};
/* True, once for each: it is to be told. Reasons may alternate; numbers in them ("after 3 ms") make no difference. */
bool reasons_new(struct reasons *, const char *text);
#endif
