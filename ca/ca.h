/* SPDX-License-Identifier: Apache-2.0 */
/* A certificate authority of one's own (RFC 5280), in a directory: its key, its certificate, the registry of what it issued, and its
 * revocation list. doc/security.md says what the certificates mean. */
#ifndef STRATUS_CA_H
#define STRATUS_CA_H
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

struct problem;
struct authority;
#define CA_DIRECTORY "/etc/stratus/ca"
enum { CA_DAYS = 3650, CA_DAYS_LEAF = 365, CA_DAYS_MAX = 36500, CA_SERIAL_TEXT = 33, CA_HOSTS_MAX = 64, CA_URI_MAX = 192 };

/* Makes an authority. One that is there is never touched: *made is false then. What an init that was cut short has left is
 * finished. */
int authority_init(const char *directory, const char *name, unsigned days, bool *made, struct problem *);
/* Reads it. While it is open others wait. */
int authority_open(const char *directory, struct authority **, struct problem *);
void authority_close(struct authority *); /* NULL is fine */

/* ---- whom a certificate is for ---- */
struct subject {
	char name[65];		  /* for people: the common name */
	char uri[CA_URI_MAX];	  /* who it is: doc/security.md has the scheme */
	char *host[CA_HOSTS_MAX]; /* of a server: its names and addresses */
	size_t hosts;
};
int subject_server(struct subject *, const char *hosts, struct problem *); /* HOST[,HOST...] */
/* KIND: "client", "admin" or "tenant". */
int subject_named(struct subject *, const char *kind, const char *name, struct problem *);
int subject_tenant_admin(struct subject *, const char *tenant, struct problem *);
int subject_access(struct subject *, const char *point, struct problem *); /* TENANT/ID */
int subject_uri(struct subject *, const char *uri, struct problem *);
void subject_free(struct subject *);

/* ---- certificates ---- */
struct issued {
	char serial[CA_SERIAL_TEXT];
	time_t since, until, revoked; /* revoked: 0 if it is not */
	char *uri, *names;	      /* names: hosts with commas between, or the name for people */
};
/* In the order of their making; the authority's. */
const struct issued *authority_list(const struct authority *, size_t *count);
struct pems { /* malloc'ed, NUL-ended */
	char *certificate, *key;
};
/* A fresh key and its certificate, which is in the registry, for good, before this returns. `days`: 0 is CA_DAYS_LEAF, or less if
 * the authority ends before. */
int authority_issue(struct authority *, const struct subject *, unsigned days, struct pems *, char serial[CA_SERIAL_TEXT],
		    struct problem *);
void pems_free(struct pems *);
/* Puts it on the revocation list. *already: it was there; the list is written anew all the same. */
int authority_revoke(struct authority *, const char *serial, bool *already, struct problem *);
/* The serial number of a certificate in a file, if this authority has issued it; or of a text that is one. */
int authority_serial(const struct authority *, const char *text_or_file, char serial[CA_SERIAL_TEXT], struct problem *);

/* What a process of StratusFS needs, in a directory: cert.pem, key.pem (0600), ca.pem, crl.pem. Nothing that is there is
 * overwritten, unless `replace`, and another authority's ca.pem not even then. */
int authority_install(const struct authority *, const struct pems *, const char *directory, bool replace, struct problem *);
/* Whether that would be refused: to be asked before something is issued. */
int authority_check_place(const struct authority *, const char *directory, bool replace, struct problem *);
#endif
