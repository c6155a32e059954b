/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of files: made absolute, written atomically. Memory that is not there ends the program: these are tools. */
#ifndef STRATUS_PATH_H
#define STRATUS_PATH_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct problem;
char *path_format(const char *format, ...) __attribute__((format(printf, 1, 2))); /* malloc'ed text */
char *path_shown(const char *path); /* malloc'ed: as it is, or if a line can't show that as $'...', which bash(1) understands */
char *path_absolute(const char *path);	  /* malloc'ed; the file need not exist; symbolic links stay */
void path_make_parents(const char *path); /* the directories above it, 0755, for good; who opens it sees the errors */
bool path_is_directory(const char *path);
int path_make_directory(const char *path, mode_t mode, struct problem *); /* if it is not there */
/* A new file takes the place of the old one as a whole, also after a crash. */
int path_write(const char *path, const void *bytes, size_t size, struct problem *);
int path_write_mode(const char *path, const void *bytes, size_t size, mode_t mode, struct problem *); /* else it is 0644 */
char *path_read(const char *path, size_t limit, size_t *size, struct problem *); /* malloc'ed, NUL-ended; NULL: problem */
void path_free_at(char **);
#define cleanup_path __attribute__((cleanup(path_free_at)))
#endif
