/* SPDX-License-Identifier: Apache-2.0 */
/* The certificates by which a process is known, and those of the authorities that have signed them: when they end, and a warning of that each day before. */
#ifndef STRATUS_CERTIFICATES_H
#define STRATUS_CERTIFICATES_H
#include <jansson.h>

struct control_handler;
struct graph;
typedef void certificates_each_graph(void (*fn)(struct graph *, void *), void *arg);

/* Reads the files that the graphs' translators name (tls-certificate, tls-authorities), and those of `directory` (may be NULL). A list of objects, one for each file and role:
 * "role" ("own": the process's certificate; "authority": of those above it the one that ends first, or of the authorities that are trusted, if none of them is above it), "file",
 * "begins" and "ends" (seconds since 1970), "near" (ending_is_near()); or "role", "file" and "problem", a sentence: it can't be read. */
json_t *certificates_find(certificates_each_graph *, const char *directory);

/* Whether the certificate in the file is one by which a server may be known now, and at that address (NULL: any); a sentence and -EINVAL if not, -EKEYEXPIRED if it was, or will be.
 * With no address it need not be said to be a server's: only other servers of a cluster ask for that. */
struct problem;
int certificates_check_server(const char *file, const char *host, struct problem *);

/* A thread that looks three times a minute, and warns in the log once a day. Where there is no thread for it the log says so. `directory` is copied. */
void certificates_watch(const struct control_handler *, const char *directory);
void certificates_unwatch(void); /* before the graphs go */
#endif
