/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of Raft, plain or by TLS: in the place of raft_uv_tcp_init() and raft_uv_tcp_close(). */
#ifndef STRATUS_RAFT_WIRE_H
#define STRATUS_RAFT_WIRE_H
#include <raft/uv.h>

#include "raft-greeting.h"

struct problem;
struct tls_files;
/* Who decides; all is called on the loop. */
struct wire_peers {
	void *arg;
	void (*card)(void *arg, raft_id called, struct card *);	  /* what to say to that one */
	enum refusal (*greeted)(void *arg, const struct hello *); /* somebody calls */
	bool (*passes)(void *arg, const struct card *,
		       unsigned type); /* who has called sends a message of that type; false: the connection is closed */
	void (*told)(void *arg, raft_id called, const char *address,
		     const struct answer *); /* the one that was called has refused */
	void (*cluster)(void *arg, uint8_t id[CLUSTER_ID]);
};
/* `files`: NULL, or both sides must show a server's certificate, and the one that is called one with the address in it. The loop's thread is the only one
 * that calls what is in it. */
int raft_wire_init(struct raft_uv_transport *, struct uv_loop_s *, const struct tls_files *files, const struct wire_peers *,
		   struct problem *);
bool raft_wire_brings(struct raft_uv_transport *,
		      const uint8_t cluster[CLUSTER_ID]); /* a message of a caller of that cluster is on its way */
void raft_wire_close(
	struct raft_uv_transport *); /* also if its own close was never called; the loop is to run once more then */
#endif
