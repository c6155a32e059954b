/* SPDX-License-Identifier: Apache-2.0 */
/* A volume named as SERVER[,SERVER...][:PORT]:/VOLUME: its volfile comes from the servers, and changes there. */
#ifndef STRATUS_SOURCE_H
#define STRATUS_SOURCE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct problem;
struct source;
struct tls_dir;
struct volfile;
/* With TLS if STRATUS_TLS_DIR is set (cmd/tls-dir.h). */
bool source_is_one(const char *text); /* else it is a path */
int source_create(const char *text, struct source **, struct problem *);
/* The volfile (malloc'ed) and its version, from the first server that answers, beginning with the one that did the last time.
 * `after` not 0: waits for a later version than that, half a minute at most: -EAGAIN if there is none. -ECANCELED after
 * source_cancel(). */
int source_fetch(struct source *, uint64_t after, char **text, uint64_t *version, struct problem *);
/* Volfiles from servers may come in the clear: nothing in one may read or write this machine's files, or offer them to others. -EPERM. */
int source_check(const struct volfile *, struct problem *);
/* Sleeps; -ECANCELED if it was cancelled. */
int source_rest(struct source *, unsigned seconds);
void source_cancel(struct source *); /* from any thread; all that comes later fails, too */
void source_destroy(struct source *);
/* A handle of libcurl: TLS 1.3 with the files of the directory, and with no other authorities than theirs. */
void source_set_tls(void *easy, const struct tls_dir *);

/* Of what servers say instead of an answer; `cmd/remote.c` asks, too. */
/* In what stratusd refuses with a sentence, and in nothing else. */
#define SOURCE_SENTENCE_HEADER "X-Stratus-Sentence"
/* The sentence in the body of an answer that has come by this handle of libcurl's: its first line, in which what is not printable ASCII becomes "?", for it came from the network.
 * NULL: there is none of stratusd's. */
char *source_sentence(void *easy, char *body, size_t size);
/* Then that is said: -ENOTCONN. */
int source_is_strange(const char *server, long status, struct problem *);
/* Whether libcurl's reason is that the server does not take our certificate; then that is said, with EACCES. */
bool source_is_refused(const struct tls_dir *, const char *server, const char *reason, struct problem *);
/* Of several servers that have no answer one is told of: the first that refuses (EACCES), else the last. */
void source_keep(struct problem *kept, const struct problem *one);
#endif
