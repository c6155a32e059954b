/* SPDX-License-Identifier: Apache-2.0 */
/* A write on its way: what becomes of the blocks of one group, and of several groups that go on together. */
#ifndef STRATUS_CRYPT_WRITE_H
#define STRATUS_CRYPT_WRITE_H
#include "crypt.h"

struct change { /* of blocks of one group */
	uint64_t first;
	unsigned count;
	uint64_t offset; /* of the new bytes, in the file */
	const char *bytes;
	size_t size;
	uint64_t old_size, new_size; /* of the file */
	uint32_t flags;
	unsigned existing;	       /* blocks that were there before: the first ones */
	struct known *known;	       /* what is known of the group; NULL: nothing */
	const struct tail *before;     /* a block whose contents are known; NULL */
	struct tail *after;	       /* where the contents of the last block are kept; NULL: they are not */
	unsigned need, needs;	       /* blocks that must be read: from that one on so many */
	const struct piece *piece;     /* with these as they are */
	uint8_t *nonces;	       /* 12 bytes for each block */
	uint8_t which[GROUP];	       /* of each block, the slot that it gets */
	struct buffer *sealed, *slots; /* what is to be written, and where; NULL: the slots are in front of the blocks */
	uint64_t at;
};
enum { TOGETHER = 8, MERGED = 2, NONCE = 12 }; /* groups: that go on together at most; that go into one message */

static inline uint64_t at_most(uint64_t value, uint64_t most)
{
	return value < most ? value : most;
}

/* Bytes of a block in a file of that size. */
static inline unsigned length_in(uint64_t block, uint64_t size)
{
	return size > block * BLOCK ? (unsigned)at_most(size - block * BLOCK, BLOCK) : 0;
}

/* ---- compose.c ---- */
uint8_t *change_pair(const struct change *, unsigned i); /* the slots of its block as they are to be */
bool change_knows_some(const struct change *);		 /* something of it need not be read, if what is known is still so */
/* Which blocks must be read before: those of which something stays that is not known, or of which it is not known which slot fits. */
void change_needs(struct change *);
/* Seals the blocks of n groups, whose pieces have been read. */
int change_seal(struct op *, const struct file_key *, struct change *, unsigned n);

/* ---- known.c: by who has the turn ---- */
/* What is known of the groups becomes the caller's, by malloc; what is not so any more is not known. */
int known_get(struct op *, struct change *, unsigned n);
/* The change has been written. */
void known_learn(struct op *, struct change *);
#endif
