/* SPDX-License-Identifier: Apache-2.0 */
/* Asks stratusd by HTTPS, as a tenant's administrator does (cmd/cluster-tenant.c answers). */
#ifndef STRATUS_REMOTE_H
#define STRATUS_REMOTE_H
#include <argp.h>
#include <jansson.h>
#include <stdbool.h>

struct problem;
/* --server, --tls-dir: a child parser whose input is this. */
struct remote {
	const char *servers; /* "HOST[:PORT][,HOST[:PORT]...]"; NULL: none are named */
};
extern const struct argp remote_argp;
/* The first of the servers that answers; for a change one that can do it. `body` may be NULL and is borrowed; what comes is the caller's. */
int remote_ask(const struct remote *, const char *method, const char *path, const json_t *body, json_t **answer,
	       struct problem *);
/* What each of them answers to GET, which is a list: all in one. Where one has no answer, that of the others, and -errno. */
int remote_collect(const struct remote *, const char *path, json_t **list, struct problem *);
/* "/v1/volume/VOLUME/tenant/TENANT" and `more`; malloc'ed. Names that are none are refused: NULL. */
char *remote_path(const char *volume, const char *tenant, const char *more, struct problem *);
#endif
