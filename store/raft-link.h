/* SPDX-License-Identifier: Apache-2.0 */
/* Carries what who has called sends to libraft, message by message, each looked at before (raft-frame.h). */
#ifndef STRATUS_RAFT_LINK_H
#define STRATUS_RAFT_LINK_H
#include "raft-greeting.h"
#include "raft-wire.h"

struct link;
/* Takes `outer`, from which the greeting was read; *inner is what libraft is to read. NULL: it could not be made, and `outer` is closed. It is on the list until one of its ends is. */
struct link *link_create(uv_pipe_t *outer, const struct hello *, const struct wire_peers *, struct link **list,
			 struct uv_stream_s **inner);
void links_make_way(struct link *list,
		    uint64_t id); /* before one more of that server: there are only so many, and the silent ones go */
void link_close(struct link *);
bool links_bring(const struct link *list,
		 const uint8_t cluster[CLUSTER_ID]); /* a message of a caller of that cluster is on its way */
uv_pipe_t *pipe_open(uv_loop_t *, int fd);	     /* takes the descriptor; raft_malloc'ed; NULL: it is closed */
void pipe_close(uv_pipe_t *);			     /* and frees it; NULL is fine */
#endif
