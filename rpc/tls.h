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
	const char *revoked;	 /* their revocation lists, one of each; "" or NULL: nothing is revoked */
	bool may_lack_list;	 /* there may be no such file yet: nothing is revoked until it comes */
};
struct tls; /* what connections share */
/* Reads the files and checks that they fit. NULL, with a sentence that names the file, if they don't. */
struct tls *tls_create(const struct tls_files *, bool server, struct problem *);
void tls_destroy(struct tls *); /* NULL is fine; connections may live on */
/* Looks whether the files have changed, at most twice a second however often it is called (new connections do so, too), and reads them
 * again; what is bad then changes nothing but the log. Returns a number that rises when authorities or lists have changed, or a certificate has
 * ended whose connection was asked before: then each connection is to be asked stream_is_refused(). */
uint64_t tls_look(struct tls *);
uint64_t tls_generation(struct tls *); /* that number, of the last look */

extern const struct transport transport_tls;
/* Right after stream_open() with that transport. `host`: the name or address that the server's certificate must have (clients).
 * The handshake goes on by itself with the first bytes that are sent or awaited. 0 or -ENOMEM. */
int tls_begin(struct stream *, struct tls *, const char *host);
/* Who the peer is by its certificate: the one URI of scheme `stratus:` among the subject's alternative names (doc/security.md), which is of one
 * of the forms that identity_parse() knows. Once the handshake is done, and from then on the same. -ENOENT: it has none (or the stream has
 * no TLS); -EBADMSG: several, one of no such form, or one that does not fit. */
int stream_identity(struct stream *, char *uri, size_t size);
/* It may not go on: its peer's certificate has ended, or by the files as they are now it was revoked, or the authorities are others than when it
 * began (then it may come back). To be asked once when the handshake is done, too: by that the certificate's end is known. */
bool stream_is_refused(struct stream *, struct tls *);
#endif
