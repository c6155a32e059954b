/* SPDX-License-Identifier: Apache-2.0 */
/* Libraft's messages as bytes, looked at before libraft does: it believes their numbers (how many entries, how long), and would read and write beyond its memory. */
#ifndef STRATUS_RAFT_FRAME_H
#define STRATUS_RAFT_FRAME_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FRAME_PREAMBLE = 16, FRAME_HEADER_MAX = 2 << 20 };
struct frame {
	unsigned type;	  /* RAFT_IO_... */
	uint32_t header;  /* bytes behind the preamble */
	uint64_t payload; /* bytes behind the header */
};
/* Each: NULL, or a word for what can't be. */
const char *frame_begin(struct frame *, const uint8_t preamble[FRAME_PREAMBLE]);
const char *frame_header(struct frame *, const uint8_t *header); /* it has so many bytes as frame_begin() has found */
/* The members of a cluster, as libraft writes them. */
const char *frame_configuration(const void *bytes, size_t size);
#endif
