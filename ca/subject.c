/* SPDX-License-Identifier: Apache-2.0 */
/* Whom a certificate is for: names and identities are checked here, once. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ca.h"
#include "identity.h"
#include "log.h"
#include "path.h"

enum { HOST_MAX = 253, LABEL_MAX = 63 };

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

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
	if (!identity_is_name(name, strlen(name)))
		return problem_set(p, EINVAL, "'%.80s' is no name: take 1 to %d letters, digits, '-', '_' and '.'", name,
				   IDENTITY_NAME);
	snprintf(s->name, sizeof s->name, "%s", name);
	if (strcmp(kind, "admin")) /* which admin it is makes no difference to what it may do */
		snprintf(s->uri, sizeof s->uri, "stratus:%s/%s", kind, name);
	return 0;
}

int subject_tenant_admin(struct subject *s, const char *tenant, struct problem *p)
{
	int err = subject_named(s, "tenant", tenant, p);

	if (!err)
		strcat(s->uri, "/admin"); /* a name is so short that there is room */
	return err;
}

int subject_access(struct subject *s, const char *point, struct problem *p)
{
	const char *slash = strchr(point, '/');
	cleanup_path char *tenant = path_format("%.*s", (int)strcspn(point, "/"), point);
	cleanup_path char *uri = path_format("stratus:tenant/%s/access/%s", tenant, slash ? slash + 1 : "");
	struct identity who;

	if (strlen(uri) >= sizeof s->uri || identity_parse(uri, &who))
		return problem_set(p, EINVAL, "'%.80s' is no access point: write TENANT/ID", point);
	return subject_uri(s, uri, p);
}

int subject_uri(struct subject *s, const char *uri, struct problem *p)
{
	const char *last = strrchr(uri, '/');
	struct identity who;
	int err = identity_parse(uri, &who);

	*s = (struct subject){ "" };
	if (who.kind == IDENTITY_SERVER)
		return problem_set(p, EINVAL, "a server's certificate has the server's names in it: use --server HOST");
	if (err || who.kind == IDENTITY_NOBODY)
		return problem_set(p, EINVAL,
				   "'%.80s' is no identity: there are stratus:admin, stratus:client/NAME, stratus:tenant/NAME, "
				   "stratus:tenant/NAME/admin and stratus:tenant/NAME/access/ID",
				   uri);
	snprintf(s->uri, sizeof s->uri, "%s", uri);
	snprintf(s->name, sizeof s->name, "%s", who.kind == IDENTITY_TENANT_ADMIN ? who.name : last ? last + 1 : "admin");
	return 0;
}
