/* SPDX-License-Identifier: Apache-2.0 */
/* The key file: a tenant's master keys, sealed by a file key that each of several slots gives to who knows its secret (doc/crypt.md). */
#ifndef STRATUS_KEYFILE_H
#define STRATUS_KEYFILE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log.h"

enum {
	KEYFILE_SLOTS = 16,
	KEYFILE_EPOCHS = 64,
	KEYFILE_MASTER = 64,
	KEYFILE_NAME = 32,
	KEYFILE_SECRET_MAX = 65536,
	KEYFILE_CODE = 40, /* text of a recovery code, with its end */
};

enum slot_kind { SLOT_PASSPHRASE = 1, SLOT_KEYFILE, SLOT_RECOVERY, SLOT_KINDS };

/* What the file keeps secret. Only ever in locked memory. */
struct masters {
	uint32_t count; /* epochs 1 to count */
	uint8_t key[KEYFILE_EPOCHS][KEYFILE_MASTER];
	uint8_t file_key[64]; /* seals it */
};

struct keyslot {
	uint8_t kind, log_n; /* scrypt's cost, of passphrases */
	char name[KEYFILE_NAME];
	uint8_t salt[16], sealed[64 + 16];
};
struct keyfile {
	unsigned slots;
	struct keyslot slot[KEYFILE_SLOTS];
	uint8_t body[16 + 1 + KEYFILE_EPOCHS * KEYFILE_MASTER];
	uint32_t body_size;
};

/* A fresh file key and master key of epoch 1. *m is from secret_alloc. */
int keyfile_create(struct keyfile *, struct masters **m, struct problem *);
int keyfile_read(const char *path, struct keyfile *, struct problem *);
/* From reading to writing: nobody else changes it meanwhile. A descriptor, to be closed then. */
int keyfile_lock(const char *path, struct problem *);
/* Whole or not at all: the file is replaced, and keeps its owner and mode. `fresh`: there must be none yet. */
int keyfile_write(const char *path, const struct keyfile *, bool fresh, struct problem *);
/* Decodes; -EINVAL. */
int keyfile_decode(const uint8_t *bytes, size_t size, struct keyfile *);

/* By whichever slot of the kind (0: any) the secret fits. -EKEYREJECTED: none. */
int keyfile_unlock(const struct keyfile *, enum slot_kind, const void *secret, size_t size, struct masters **m,
		   struct problem *);
/* One slot more, for that secret. -EEXIST: the name is in use. */
int keyfile_add(struct keyfile *, const struct masters *, enum slot_kind, const char *name, const void *secret, size_t size,
		struct problem *);
int keyfile_remove(struct keyfile *, const char *name, struct problem *); /* the last one stays */
/* A new epoch, for files that are made from now on. */
int keyfile_rotate(struct keyfile *, struct masters *, struct problem *);
/* A fresh recovery code as text, and the way from what somebody has typed to its bytes. -EINVAL. */
int recovery_code(char text[KEYFILE_CODE]);
int recovery_parse(const char *text, uint8_t bytes[20]);
const char *slot_kind_name(unsigned kind);
#endif
