/* SPDX-License-Identifier: Apache-2.0 */
/* The transport of a volume in its specification. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "path.h"
#include "volgen.h"

#define bad(s, p, format, ...) problem_set((p), EINVAL, "%s:1: " format, (s)->path, ##__VA_ARGS__)

const char *spec_option(const struct spec *s, const char *type, const char *name)
{
	for (size_t i = 0; i < s->types; i++)
		for (size_t k = 0; k < s->by_type[i].options; k++)
			if (!strcmp(s->by_type[i].type, type) && !strcmp(s->by_type[i].option[k].name, name))
				return s->by_type[i].option[k].value;
	return NULL;
}

bool spec_has_tls(const struct spec *s)
{
	const char *given = spec_option(s, "protocol/server", "transport");

	return s->transport == SPEC_TLS || (given && !strcmp(given, "tls"));
}

int spec_check_transport(const struct spec *s, struct problem *p)
{
	static const char *const types[] = { "protocol/client", "protocol/server" };
	static const char *const options[] = { "transport", "tls-certificate", "tls-key", "tls-authorities", "tls-revoked" };

	if (s->transport == SPEC_TLS && !s->tls.key)
		return bad(s, p, "'transport: tls' needs 'tls', the paths of the files: doc/volfile.md shows one");
	if (s->transport != SPEC_TLS && s->tls.key)
		return bad(s, p, "'tls' goes with 'transport: tls'");
	for (size_t i = 0; s->transport && i < 2; i++)
		for (size_t k = 0; k < sizeof options / sizeof *options; k++)
			if (spec_option(s, types[i], options[k]))
				return bad(s, p, "option %s of %s follows from 'transport': leave it out", options[k],
					   types[i]);
	return 0;
}

static void print_file(const char *name, const char *path, FILE *to)
{
	if (!path)
		return;
	fprintf(to, "  %s: ", name);
	spec_print_scalar(path, to);
	fputc('\n', to);
}

void spec_print_transport(const struct spec *s, FILE *to)
{
	if (!s->transport)
		return;
	fprintf(to, "transport: %s\n", s->transport == SPEC_TLS ? "tls" : "tcp");
	if (s->transport != SPEC_TLS)
		return;
	fputs("tls:\n", to);
	print_file("certificate", s->tls.certificate, to);
	print_file("key", s->tls.key, to);
	print_file("authorities", s->tls.authorities, to);
	print_file("revoked", s->tls.revoked, to);
}

void spec_set_tls(struct spec *s, const char *directory)
{
	s->transport = SPEC_TLS;
	s->tls = (struct spec_tls){ path_format("%s/cert.pem", directory), path_format("%s/key.pem", directory),
				    path_format("%s/ca.pem", directory), path_format("%s/crl.pem", directory) };
}

/* ---- what is dangerous, but may be meant ---- */

static bool is_loopback(const char *address)
{
	return !strncmp(address, "127.", 4) || !strcmp(address, "::1") || !strcmp(address, "localhost");
}

char *spec_warning(const struct spec *s)
{
	if (spec_has_tls(s))
		return NULL;
	for (size_t i = 0; i < s->servers; i++) {
		const struct spec_server *server = &s->server[i];
		const char *address = server->listen ? server->listen : server->host;

		if (!is_loopback(address))
			return path_format(
				"volume %s has no TLS, and server %s listens on %s: whoever reaches that can read and "
				"change all files; doc/security.md says how to close it",
				s->volume, server->name, address);
	}
	return NULL;
}
