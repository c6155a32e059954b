/* SPDX-License-Identifier: Apache-2.0 */
/* How a key file is opened: by a passphrase (from a terminal, a descriptor, or systemd), a file, or a recovery code. */
#ifndef STRATUS_UNLOCK_H
#define STRATUS_UNLOCK_H
#include "arguments.h"
#include "keyfile.h"

struct unlock {
	const char *passphrase_fd, *secret_file; /* as given, or NULL */
	bool recovery;
	enum slot_kind kind; /* of the secret */
	void *secret;	     /* locked memory of KEYFILE_SECRET_MAX bytes */
	size_t size;
};
/* --passphrase-fd, --secret-file, --recovery-code: a child parser whose input is a struct unlock. */
extern const struct argp unlock_argp;

/* Gets the secret: where nobody says from where, the systemd credential stratus.passphrase, else the terminal. */
int unlock_ask(struct unlock *, const char *path, struct problem *);
/* With what was got. After a fork the caller's copy is not locked any more: so it is made anew. */
int unlock_open(struct unlock *, const struct keyfile *, struct masters **, struct problem *);
void unlock_end(struct unlock *); /* wipes */

/* A new passphrase, asked for twice on a terminal; or what the descriptor has. */
int passphrase_new(const char *fd, void *secret, size_t *size, struct problem *);
/* The bytes of a file, at least 16 of them if it is to protect something. */
int secret_file_read(const char *path, void *secret, size_t *size, struct problem *);
#endif
