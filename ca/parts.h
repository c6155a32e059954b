/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the authority know of each other. */
#ifndef STRATUS_CA_PARTS_H
#define STRATUS_CA_PARTS_H
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "ca.h"
#include "log.h"

struct authority {
	char *directory;
	int lock; /* the directory, locked */
	EVP_PKEY *key;
	X509 *certificate;
	char *pem; /* the certificate's text */
	struct issued *issued;
	size_t count;
	unsigned long lists; /* how many revocation lists there have been: the number of the last */
};

/* ca.c */
int crypto_problem(struct problem *, const char *what); /* with OpenSSL's reason */
char *ca_path(const char *directory, const char *name); /* malloc'ed */
/* issue.c */
EVP_PKEY *key_make(void);
char *key_pem(EVP_PKEY *);     /* malloc'ed */
char *certificate_pem(X509 *); /* malloc'ed */
X509 *authority_certificate(EVP_PKEY *, const char *name, unsigned days);
/* registry.c: lines are added at the end and never changed. */
int registry_create(const char *directory, struct problem *);
int registry_read(struct authority *, struct problem *);
int registry_add(struct authority *, struct problem *, const char *format, ...) __attribute__((format(printf, 3, 4)));
struct issued *registry_find(const struct authority *, const char *serial);
/* The revocation list as the registry has it now, as a file. */
int list_write(struct authority *, struct problem *);
#endif
