/* SPDX-License-Identifier: Apache-2.0 */
/* The mark: how far this server's log is known to be committed and on its disk, in a file beside the log. A log that ends before it
 * has lost something. It follows by some tenths of a second, so that no commit waits for it. */
#ifndef STRATUS_RAFT_MARK_H
#define STRATUS_RAFT_MARK_H
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct problem;
struct raft_mark {
	int fd; /* -1: none is kept */
	uint64_t index;
	unsigned slot; /* where that is */
	bool busy;     /* a write is under way, of what follows */
	uint64_t next;
	int err;
	uv_work_t work;
};
/* What the file in the directory (a descriptor) says; 0 if there is none, or nothing was ever written to it. -EINVAL: it is damaged. */
int raft_mark_read(int directory, uint64_t *index, struct problem *);
/* Opens it, or makes it. */
int raft_mark_open(struct raft_mark *, int directory, struct problem *);
/* On the loop: writes it there by and by, if that is more than it says. */
void raft_mark_raise(struct raft_mark *, uv_loop_t *, uint64_t index);
/* Writes it at once; the loop has ended, or does not use it yet. */
void raft_mark_close(struct raft_mark *, uint64_t index);
#endif
