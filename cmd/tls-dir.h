/* SPDX-License-Identifier: Apache-2.0 */
/* A directory with the files of TLS, as `stratus cert issue` writes it: --tls-dir, or STRATUS_TLS_DIR. */
#ifndef STRATUS_TLS_DIR_H
#define STRATUS_TLS_DIR_H
struct problem;
struct volfile;
struct tls_dir {
	char *certificate, *key, *authorities;
	char *revoked; /* it may not be there yet */
};
/* Looks that the files are there. */
int tls_dir_open(const char *directory, struct tls_dir *, struct problem *);
void tls_dir_free(struct tls_dir *);
/* For the rest of the process: as if STRATUS_TLS_DIR had said so. */
void tls_dir_use(const char *directory);
const char *tls_dir_wanted(void); /* NULL: nobody says so */
/* If one is wanted, the clients of a volfile use its files in place of those that the volfile names, and one without TLS is refused. */
int tls_dir_apply(struct volfile *, struct problem *);
#endif
