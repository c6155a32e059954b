/* SPDX-License-Identifier: Apache-2.0 */
/* The socket below OpenSSL: what it writes, a record of at most 16 KiB at a time, is gathered and sent many records at once. */
#ifndef STRATUS_TLS_BIO_H
#define STRATUS_TLS_BIO_H
#include <openssl/bio.h>
#include <stdbool.h>

/* For a non-blocking socket, which stays the caller's; goes with the SSL that it is given to. NULL: no memory. */
BIO *tls_bio_create(int fd);
/* Sends what was gathered, as far as the socket takes it. 0, also if some is left; or -errno. */
int tls_bio_flush(BIO *);
/* Something is left. */
bool tls_bio_holds(BIO *);
#endif
