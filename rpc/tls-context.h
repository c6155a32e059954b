/* SPDX-License-Identifier: Apache-2.0 */
/* What rpc/tls.c wants of rpc/tls-context.c: sessions by the files that are in force, and what is revoked by them. */
#ifndef STRATUS_TLS_CONTEXT_H
#define STRATUS_TLS_CONTEXT_H
#include <openssl/ssl.h>

#include "tls.h"

SSL *tls_session(struct tls *, bool *server); /* NULL: memory is short */
bool tls_expect_host(SSL *,
		     const char *host); /* the certificate must be for it; before the handshake. False: memory is short */
int tls_identity(const SSL *, char *uri, size_t size); /* see stream_identity() */
const char *tls_reason(void);			       /* OpenSSL's word for the first error */
/* Whether the session could not begin any more: its authorities are others now, or the peer's certificate is on a list. */
bool tls_refuses(struct tls *, SSL *);
#endif
