/* SPDX-License-Identifier: Apache-2.0 */
/* The forms of identities. Here only they are told apart: a new one is nobody's by mistake. */
#include "identity.h"

#include <errno.h>
#include <string.h>

bool identity_is_name(const char *text, size_t size)
{
	static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

	return size && size <= IDENTITY_NAME && *text != '.' && *text != '-' && strspn(text, fine) >= size;
}

static bool skip(const char **at, const char *text)
{
	size_t size = strlen(text);

	if (strncmp(*at, text, size) != 0)
		return false;
	*at += size;
	return true;
}

/* Up to the next '/', or the end. */
static bool take_name(const char **at, char name[IDENTITY_NAME + 1])
{
	size_t size = strcspn(*at, "/");

	if (!identity_is_name(*at, size))
		return false;
	memcpy(name, *at, size);
	name[size] = '\0';
	*at += size;
	return true;
}

static enum identity_kind take_tenant(const char **at, struct identity *i)
{
	if (!take_name(at, i->name))
		return IDENTITY_NOBODY;
	if (!**at)
		return IDENTITY_TENANT;
	if (skip(at, "/access/"))
		return take_name(at, i->access) ? IDENTITY_ACCESS : IDENTITY_NOBODY;
	return skip(at, "/admin") ? IDENTITY_TENANT_ADMIN : IDENTITY_NOBODY;
}

static enum identity_kind take(const char **at, struct identity *i)
{
	if (!skip(at, "stratus:"))
		return IDENTITY_NOBODY;
	if (skip(at, "tenant/"))
		return take_tenant(at, i);
	if (skip(at, "client/"))
		return take_name(at, i->name) ? IDENTITY_CLIENT : IDENTITY_NOBODY;
	return skip(at, "server") ? IDENTITY_SERVER : skip(at, "admin") ? IDENTITY_ADMIN : IDENTITY_NOBODY;
}

int identity_parse(const char *uri, struct identity *i)
{
	*i = (struct identity){ IDENTITY_NOBODY, "", "" };
	if (!uri || !*uri)
		return 0;
	i->kind = take(&uri, i);
	if (i->kind != IDENTITY_NOBODY && !*uri)
		return 0;
	*i = (struct identity){ IDENTITY_NOBODY, "", "" };
	return -EBADMSG;
}
