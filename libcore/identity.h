/* SPDX-License-Identifier: Apache-2.0 */
/* Who somebody is by his certificate: the URI of scheme `stratus:` in it, of which doc/security.md has the forms. */
#ifndef STRATUS_IDENTITY_H
#define STRATUS_IDENTITY_H
#include <stdbool.h>
#include <stddef.h>

enum identity_kind {
	IDENTITY_NOBODY,       /* nobody has vouched for him */
	IDENTITY_SERVER,       /* stratus:server: a process of the provider */
	IDENTITY_ADMIN,	       /* stratus:admin: of the cluster */
	IDENTITY_CLIENT,       /* stratus:client/NAME */
	IDENTITY_TENANT,       /* stratus:tenant/NAME: a client of the tenant */
	IDENTITY_TENANT_ADMIN, /* stratus:tenant/NAME/admin: all that a client may, and administration of this tenant */
	IDENTITY_ACCESS,       /* stratus:tenant/NAME/access/ID: a client that is confined to an access point of the tenant */
};
enum { IDENTITY_NAME = 64, IDENTITY_TEXT = 192 }; /* of a name; room for any of the URIs */
struct identity {
	enum identity_kind kind;
	char name[IDENTITY_NAME + 1];	/* the client's, or the tenant's */
	char access[IDENTITY_NAME + 1]; /* the access point's */
};

/* Of one of these forms, just so, or -EBADMSG; then, and for NULL or "", which is 0, it is nobody. */
int identity_parse(const char *uri, struct identity *);
/* Of what names are made: 1 to 64 letters, digits, '-', '_' and '.', the first none of '-' and '.'. */
bool identity_is_name(const char *text, size_t size);

/* A client of a tenant, whatever else. */
static inline bool identity_is_tenants(const struct identity *i)
{
	return i->kind == IDENTITY_TENANT || i->kind == IDENTITY_TENANT_ADMIN || i->kind == IDENTITY_ACCESS;
}
#endif
