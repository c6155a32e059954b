/* SPDX-License-Identifier: Apache-2.0 */
/* What can be told without a key of a file that encryption/crypt has written: how its pages look on a brick (doc/crypt.md, "Contents"). */
#ifndef STRATUS_SEALED_H
#define STRATUS_SEALED_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

enum {
	SEALED_VERSION = 2,
	SEALED_HEADER = 60, /* magic[4], u8 version, ... */
	SEALED_PAGE = 4096, /* a seal, and a block's contents */
	SEALED_SEAL = 32,   /* nonce[12], tag[16], u16 length, u16 flags */
	SEALED_SHRUNK = 1,  /* flag: the page may be longer than the block */
};
#define SEALED_HEADER_XATTR "user.stratus.crypt"
#define SEALED_HEADER_MAGIC "SFC1"

static inline bool sealed_header_is_known(const uint8_t *bytes, ssize_t size)
{
	return size == SEALED_HEADER && !memcmp(bytes, SEALED_HEADER_MAGIC, 4) && bytes[4] == SEALED_VERSION;
}

/* Of a file's last page: so many of its bytes there must be, as its seal says. 0: it says nothing of that. */
static inline size_t sealed_page_size(const uint8_t seal[SEALED_SEAL])
{
	size_t length = (size_t)seal[28] << 8 | seal[29], flags = (size_t)seal[30] << 8 | seal[31];

	return !length || length > SEALED_PAGE - SEALED_SEAL || flags & SEALED_SHRUNK ? 0 : SEALED_SEAL + length;
}
#endif
