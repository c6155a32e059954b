/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of tls-test share: certificates in directories below one of the test's own, and two streams that are connected. */
#ifndef STRATUS_TLS_TEST_H
#define STRATUS_TLS_TEST_H
#include "test.h"

#include <stdbool.h>

#include "stream.h"
#include "tls.h"

int set_up(void **state); /* of a test: "ca" is an authority, "server" and "client" have certificates of it */
int tear_down(void **state);

char *file(const char *directory, const char *name); /* its path, which is the caller's */
void authority(const char *name);
void server_certificate(const char *ca, const char *out);
void tenant_certificate(const char *ca, const char *name, const char *out);
void run(const char *format, ...);
extern char top[64]; /* where all these directories are */
struct tls *use(const char *directory, bool server);

struct pair {
	struct stream client, server;
};
void join(struct pair *, struct tls *client, struct tls *server);
void join_by_tcp(struct pair *, struct tls *client, struct tls *server);
bool talk(struct pair *); /* a byte each way, and with it the handshake */
void part(struct pair *);
bool meet(struct tls *client, struct tls *server);

/* tls-test-refused.c */
extern const struct CMUnitTest refused_tests[];
extern const unsigned refused_tests_count;

/* tls-test-changes.c */
extern const struct CMUnitTest changed_tests[];
extern const unsigned changed_tests_count;
#endif
