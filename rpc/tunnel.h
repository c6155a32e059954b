/* SPDX-License-Identifier: Apache-2.0 */
/* TLS for libraries that know plain descriptors only (libmicrohttpd, libraft): a thread carries bytes between a connection and one end of a
 * socket pair, whose other end is theirs. */
#ifndef STRATUS_TUNNEL_H
#define STRATUS_TUNNEL_H
#include <sys/socket.h>

#include "tls.h"

enum { TUNNEL_IDENTITY = 192 };
struct tunnel_peer {
	char identity[TUNNEL_IDENTITY]; /* by its certificate: see stream_identity(); "": it has none */
	struct sockaddr_storage address;
	socklen_t size;
};

struct tunnels;
struct tunnels *tunnels_create(const struct tls_files *, struct problem *);
/* Ends all of them: libraries find their ends closed. Nothing is called any more when it returns. NULL is fine. */
void tunnels_destroy(struct tunnels *);

/* Takes over a descriptor that listens (one; non-blocking). `accepted`, on the tunnels' thread: a peer has come through the handshake,
 * `fd` is its plain end (non-blocking), from now on the callee's. */
int tunnels_listen(struct tunnels *, int fd, void (*accepted)(void *arg, int fd, const struct tunnel_peer *), void *arg);
/* Connects; the certificate must be for `host`. `connected`, once, on the tunnels' thread, or in tunnels_destroy(): `fd` as above, or
 * -errno with a word why. */
int tunnels_connect(struct tunnels *, const struct sockaddr *, socklen_t, const char *host,
		    void (*connected)(void *arg, int fd, const struct tunnel_peer *, const char *why), void *arg);
#endif
