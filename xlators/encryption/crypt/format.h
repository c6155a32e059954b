/* SPDX-License-Identifier: Apache-2.0 */
/* What stands on the brick, as functions of bytes and nothing else: where blocks lie, their seals, headers, names (doc/crypt.md). */
#ifndef STRATUS_CRYPT_FORMAT_H
#define STRATUS_CRYPT_FORMAT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inode.h"
#include "keyfile.h"
#include "sealed.h"

enum {
	FORMAT_VERSION = SEALED_VERSION, /* of files' contents and headers */
	MARK_VERSION = 1,		 /* of names and the like, for the whole volume */
	PAGE = SEALED_PAGE,		 /* on the brick: a seal, and a block's contents */
	SEAL = SEALED_SEAL,		 /* nonce[12], tag[16], u16 length, u16 flags */
	BLOCK = PAGE - SEAL,		 /* bytes of contents */
	HEADER_SIZE = SEALED_HEADER,	 /* magic[4], u8 version, u8 cipher, u8 flags, u8 0, u32 epoch, sealed file key[48] */
	MARK_SIZE = 32,			 /* of the volume: magic[4], u8 version, u8[3] 0, sealed[24] */
	NAME_MAX_BYTES = 255,
	NAME_SHORT_MAX = 175, /* what is longer has the long form */
	NAME_ROOM = 256,
	TARGET_PLAIN_MAX = 3055,
	XATTR_PLAIN_MAX = 250, /* of a name, behind "user." */
	XATTR_SHORT_MAX = 170,
	XATTR_VALUE_MORE = 33, /* bytes by which a value grows */
};
#define HEADER_XATTR SEALED_HEADER_XATTR
#define MARK_XATTR   "user.stratus.volume"
#define OWN_XATTRS   "user.stratus."
#define SEALED_XATTR "user.~"

enum { CIPHER_AES_256_GCM = 1, CIPHER_CHACHA20_POLY1305 = 2 };
enum { HEADER_SPARSE = 1 };	      /* a page of zeros is a hole */
enum { SEAL_SHRUNK = SEALED_SHRUNK }; /* what stands in the page behind the sealed length counts as zeros */

/* Derived from the master keys; in locked memory. */
struct crypt_keys {
	uint32_t epochs;
	uint8_t wrap[KEYFILE_EPOCHS][64]; /* of epoch 1 and on */
	uint8_t name[64], target[64], xattr_name[64], xattr_value[64], mark[64];
	struct siv *names, *files; /* kept for `name` and the last epoch's `wrap`; NULL: they are not */
};
int crypt_keys_derive(struct crypt_keys *, const struct masters *);
/* What is used for each file is kept ready. -ENOMEM. */
int crypt_keys_keep(struct crypt_keys *);
void crypt_keys_drop(struct crypt_keys *);

struct file_key {
	uint8_t key[32];
	uint32_t epoch;
	uint8_t cipher, flags;
	struct gfid id;
	uint64_t number; /* unique in the process: by it a thread knows that it is set up for this key */
};
struct seal {
	uint8_t nonce[12], tag[16];
	uint16_t length, flags; /* length 0: there is none */
};

/* ---- where things lie ---- */
static inline uint64_t page_at(uint64_t block)
{
	return block * PAGE;
}
/* The length of the file on the brick, from that of its contents, and back. */
uint64_t size_on_brick(uint64_t size);
uint64_t size_of_contents(uint64_t on_brick);
enum { SIZE_MAX_BITS = 62 }; /* contents have fewer than 1 << 62 bytes: what is behind is for locks */

void seal_decode(const uint8_t bytes[SEAL], struct seal *);
void seal_encode(const struct seal *, uint8_t bytes[SEAL]);

/* ---- headers ---- */
/* A fresh key for a file. The caller fills id, cipher and flags. 0, -EIO. */
int file_key_create(const struct crypt_keys *, struct file_key *);
int header_encode(const struct crypt_keys *, const struct file_key *, uint8_t bytes[HEADER_SIZE]);
/* *why says what is wrong with it: -EBADMSG; -ENOKEY: it may be right, but is of a later epoch than the key file has; -EREMOTEIO: it is of another
 * version of the format. */
int header_decode(const struct crypt_keys *, const struct gfid *, const void *bytes, size_t size, struct file_key *,
		  const char **why);
int mark_encode(const struct crypt_keys *, uint8_t bytes[MARK_SIZE]);
/* -EKEYREJECTED: of another key; -EBADMSG: not one. */
int mark_decode(const struct crypt_keys *, const void *bytes, size_t size);

/* ---- names and other texts: letters, digits, '-' and '_' (RFC 4648, section 5, without padding); long ones see dense.h ---- */
/* 0, -ENOMEM; -ENAMETOOLONG, and that is: more than 255 bytes, or no UTF-8 and more than 231. */
int name_seal(const struct crypt_keys *, const struct gfid *directory, const char *name, char sealed[NAME_ROOM]);
int name_open(const struct crypt_keys *, const struct gfid *directory, const char *sealed, char name[NAME_ROOM]); /* -EBADMSG */
/* Bytes of a plain name, where a sealed one may have so many. */
uint64_t name_most(uint64_t sealed);
/* The texts are the caller's, by malloc. */
int target_seal(const struct crypt_keys *, const struct gfid *, const char *target, char **sealed);
int target_open(const struct crypt_keys *, const struct gfid *, const char *sealed, char **target);
uint64_t target_size(uint64_t sealed_size);
/* Both with "user." in front; the sealed one with SEALED_XATTR. */
int xattr_name_seal(const struct crypt_keys *, const struct gfid *, const char *name, char sealed[NAME_ROOM]);
int xattr_name_open(const struct crypt_keys *, const struct gfid *, const char *sealed, char name[NAME_ROOM]);
int xattr_value_seal(const struct crypt_keys *, const struct gfid *, const char *name, const void *value, size_t size,
		     void **sealed); /* 0, -ENOMEM, -EIO */
/* *value is the caller's, by malloc. -EBADMSG. */
int xattr_value_open(const struct crypt_keys *, const struct gfid *, const char *name, const void *sealed, size_t size,
		     void **value, size_t *value_size);
#endif
