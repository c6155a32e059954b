/* SPDX-License-Identifier: Apache-2.0 */
/* The socket below OpenSSL, which reads and writes a record of at most 16 KiB at a time: many are sent, and received, at once. */
#ifndef STRATUS_TLS_BIO_H
#define STRATUS_TLS_BIO_H
#include <openssl/bio.h>
#include <stdatomic.h>
#include <stdbool.h>

/* For a non-blocking socket, which stays the caller's; goes with the SSL that it is given to. System calls are added to the two numbers.
 * NULL: no memory. */
BIO *tls_bio_create(int fd, atomic_uint_fast64_t *receives, atomic_uint_fast64_t *sends);
/* A new turn: before it, after a receive that brought little, no other one is tried. Who gets no more waits for the socket anyhow. */
void tls_bio_begin(BIO *);
/* Sends what was gathered, as far as the socket takes it. 0, also if some is left; or -errno. */
int tls_bio_flush(BIO *);
/* So many bytes are left. */
size_t tls_bio_holds(BIO *);
/* Something was received that OpenSSL has not asked for yet. */
bool tls_bio_pending(BIO *);
#endif
