/* SPDX-License-Identifier: Apache-2.0 */
/* Whom a certificate is for: names and identities are checked here, once. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ca.h"
#include "log.h"
#include "path.h"

enum { NAME_MAX_BYTES = 64, HOST_MAX = 253, LABEL_MAX = 63 };

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

/* As names of volumes are. */
static bool is_name(const char *text, size_t size)
{
	static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

	return size && size <= NAME_MAX_BYTES && *text != '.' && *text != '-' && strspn(text, fine) >= size;
}

/* ---- servers ---- */

static bool is_address(const char *host)
{
	struct in6_addr any;

	return inet_pton(AF_INET, host, &any) == 1 || inet_pton(AF_INET6, host, &any) == 1;
}

/* No wildcards: who breaks into one server is then not all others as well. */
static bool is_host(const char *host)
{
	if (strlen(host) > HOST_MAX)
		return false;
	for (const char *at = host;; at++) {
		size_t length = strspn(at, letters);

		if (!length || length > LABEL_MAX || *at == '-')
			return false;
		at += length;
		if (!*at)
			return strspn(host, "0123456789.") != strlen(host); /* a mistyped address is no name */
		if (*at != '.')
			return false;
	}
}

static int add_host(struct subject *s, const char *host, struct problem *p)
{
	if (!is_address(host) && !is_host(host))
		return problem_set(p, EINVAL, "'%.80s' is neither a host name nor an address", host);
	if (s->hosts == CA_HOSTS_MAX)
		return problem_set(p, EINVAL, "more than %d names of one server", CA_HOSTS_MAX);
	for (size_t i = 0; i < s->hosts; i++)
		if (!strcmp(s->host[i], host))
			return 0;
	s->host[s->hosts++] = path_format("%s", host);
	return 0;
}

int subject_server(struct subject *s, const char *hosts, struct problem *p)
{
	cleanup_path char *copy = path_format("%s", hosts);
	char *rest = copy, *one;
	int err = 0;

	*s = (struct subject){ .uri = "stratus:server" };
	while (!err && (one = strsep(&rest, ",")))
		err = add_host(s, one, p);
	if (!err) /* a common name is 64 bytes at most (RFC 5280, appendix A); what counts is in the alternative names */
		snprintf(s->name, sizeof s->name, "%s", strlen(s->host[0]) < sizeof s->name ? s->host[0] : "server");
	return err;
}

void subject_free(struct subject *s)
{
	for (size_t i = 0; i < s->hosts; i++)
		free(s->host[i]);
	s->hosts = 0;
}

/* ---- all others ---- */

int subject_named(struct subject *s, const char *kind, const char *name, struct problem *p)
{
	*s = (struct subject){ .uri = "stratus:admin" };
	if (!is_name(name, strlen(name)))
		return problem_set(p, EINVAL, "'%.80s' is no name: take 1 to %d letters, digits, '-', '_' and '.'", name,
				   NAME_MAX_BYTES);
	snprintf(s->name, sizeof s->name, "%s", name);
	if (strcmp(kind, "admin")) /* which admin it is makes no difference to what it may do */
		snprintf(s->uri, sizeof s->uri, "stratus:%s/%s", kind, name);
	return 0;
}

/* "NAME" or "NAME/NAME": of them `parts` at most. */
static bool is_path(const char *text, unsigned parts)
{
	for (; parts; parts--) {
		size_t length = strcspn(text, "/");

		if (!is_name(text, length))
			return false;
		if (!text[length])
			return true;
		text += length + 1;
	}
	return false;
}

static bool is_identity(const char *uri)
{
	static const char client[] = "stratus:client/", tenant[] = "stratus:tenant/";

	if (!strncmp(uri, client, strlen(client)))
		return is_path(uri + strlen(client), 1);
	if (!strncmp(uri, tenant, strlen(tenant)))
		return is_path(uri + strlen(tenant), 2);
	return !strcmp(uri, "stratus:admin");
}

int subject_uri(struct subject *s, const char *uri, struct problem *p)
{
	const char *last = strrchr(uri, '/');

	*s = (struct subject){ "" };
	if (!strcmp(uri, "stratus:server"))
		return problem_set(p, EINVAL, "a server's certificate has the server's names in it: use --server HOST");
	if (!is_identity(uri))
		return problem_set(
			p, EINVAL,
			"'%.80s' is no identity: there are stratus:admin, stratus:client/NAME, stratus:tenant/NAME and "
			"stratus:tenant/NAME/ACCESSPOINT",
			uri);
	snprintf(s->uri, sizeof s->uri, "%s", uri);
	snprintf(s->name, sizeof s->name, "%s", last ? last + 1 : "admin");
	return 0;
}
