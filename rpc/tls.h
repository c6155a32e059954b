/* SPDX-License-Identifier: Apache-2.0 */
/* TLS 1.3 (RFC 8446) around a stream, by OpenSSL: both sides show a certificate, and each checks the other's (as RFC 9289 wants it
 * for RPC, but from the first byte on: there is no plain greeting before). */
#ifndef STRATUS_TLS_H
#define STRATUS_TLS_H
#include "stream.h"

struct tls_files {		 /* PEM */
	const char *certificate; /* our own, then those between it and the authority */
	const char *key;	 /* not encrypted */
	const char *authorities; /* who may have signed the peer's */
};
struct tls; /* what connections share */
/* Reads the files and checks that they fit. NULL, with a sentence that names the file, if they don't. */
struct tls *tls_create(const struct tls_files *, bool server, struct problem *);
void tls_destroy(struct tls *); /* NULL is fine; connections may live on */

extern const struct transport transport_tls;
/* Right after stream_open() with that transport. `host`: the name or address that the server's certificate must have (clients).
 * The handshake goes on by itself with the first bytes that are sent or awaited. 0 or -ENOMEM. */
int tls_begin(struct stream *, struct tls *, const char *host);
#endif
