/* SPDX-License-Identifier: Apache-2.0 */
/* What a write makes of the blocks: up to MESSAGE_PAGES pages, sealed and sent in one message or in pieces. */
#ifndef STRATUS_CRYPT_CHANGE_H
#define STRATUS_CRYPT_CHANGE_H
#include "crypt.h"

struct change {
	uint64_t first, offset;
	unsigned count; /* of blocks, from `first` on */
	const char *bytes;
	size_t size;
	struct buffer *pages;	    /* as they are to be */
	const struct file_key *key; /* with it the whole blocks have been sealed; NULL: they have not */
	struct tail *edge[2];	    /* blocks that are not replaced whole, as they are to be */
	unsigned edges;
};

/* A beginning of what is to be written; the bytes are borrowed until change_clear. */
int change_init(struct change *, uint64_t offset, const char *bytes, size_t size);
void change_clear(struct change *);
/* The whole blocks, which depend on nothing but the key and their place: by anybody, before the turn has come. */
int change_seal(struct change *, const struct file_key *);
/* The rest, and the message, by who has the turn and knows the length. *done: so many bytes more are written, also if it fails. */
int change_write(struct op *, const struct file_key *, struct change *, uint32_t flags, size_t *done);
#endif
