/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of Raft by TLS: in the place of raft_uv_tcp_init() and raft_uv_tcp_close(). */
#ifndef STRATUS_RAFT_TLS_H
#define STRATUS_RAFT_TLS_H
#include <raft/uv.h>

struct problem;
struct tls_files;
/* Both sides must show a server's certificate, and the one that is called one with the address in it. The loop's thread is the only one
 * that calls what is in it. */
int raft_tls_init(struct raft_uv_transport *, struct uv_loop_s *, const struct tls_files *, struct problem *);
void raft_tls_close(struct raft_uv_transport *); /* also if its own close was never called; the loop is to run once more then */
#endif
