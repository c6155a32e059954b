/* SPDX-License-Identifier: Apache-2.0 */
/* What rpc/tls.c wants of rpc/tls-context.c: sessions by the files that are in force, and what is revoked by them. */
#ifndef STRATUS_TLS_CONTEXT_H
#define STRATUS_TLS_CONTEXT_H
#include <openssl/ssl.h>

#include "tls.h"

/* `text` has to live as long as the session: tls_trouble() may return it. NULL: memory is short. */
enum { TLS_TROUBLE = 320 };
SSL *tls_session(struct tls *, char text[TLS_TROUBLE], bool *server);
bool tls_expect_host(SSL *,
		     const char *host); /* the certificate must be for it; before the handshake. False: memory is short */
int tls_identity(const SSL *, char *uri, size_t size); /* see stream_identity() */
const char *tls_reason(void);			       /* OpenSSL's word for the first error */
/* The same after a call for the session that failed; if it has refused the peer's certificate, why; and of one that has ended, whose it is, and since when. */
const char *tls_trouble(const SSL *);
/* Whether the session could not begin any more: its authorities are others now, or the peer's certificate is on a list. */
bool tls_refuses(struct tls *, SSL *);
#endif
