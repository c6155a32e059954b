/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus cert`: certificates of one's own authority, issued, revoked and listed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ca.h"
#include "command.h"
#include "json.h"
#include "path.h"
#include "service.h"
#include "verbs.h"

enum {
	KEY_DIR = 1000,
	KEY_SERVER,
	KEY_CLIENT,
	KEY_ADMIN,
	KEY_TENANT,
	KEY_TENANT_ADMIN,
	KEY_ACCESS,
	KEY_URI,
	KEY_DAYS,
	KEY_REPLACE,
	KEY_JSON
};

#define KINDS "--server, --client, --admin, --tenant, --tenant-admin, --access and --uri"

struct arguments {
	struct words words;
	char *directory;
	const char *out, *whom;
	int kind; /* KEY_SERVER, ...; 0: not given */
	unsigned days;
	bool twice, replace, json;
};

static error_t option(int key, char *value, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case KEY_DIR:
		free(a->directory);
		a->directory = path_absolute(value);
		return 0;
	case KEY_SERVER:
	case KEY_CLIENT:
	case KEY_ADMIN:
	case KEY_TENANT:
	case KEY_TENANT_ADMIN:
	case KEY_ACCESS:
	case KEY_URI:
		a->twice |= a->kind != 0;
		a->kind = key;
		a->whom = value;
		return 0;
	case KEY_DAYS:
		a->days = days_take(value, CA_DAYS_MAX, state);
		return 0;
	case KEY_REPLACE:
		a->replace = true;
		return 0;
	case KEY_JSON:
		a->json = true;
		return 0;
	case 'o':
		a->out = value;
		return 0;
	default:
		return words_take(&a->words, key, value, state);
	}
}

/* ---- issue ---- */

static int take_subject(const struct arguments *a, struct subject *s, struct problem *p)
{
	switch (a->kind) {
	case KEY_SERVER:
		return subject_server(s, a->whom, p);
	case KEY_CLIENT:
		return subject_named(s, "client", a->whom, p);
	case KEY_ADMIN:
		return subject_named(s, "admin", a->whom, p);
	case KEY_TENANT:
		return subject_named(s, "tenant", a->whom, p);
	case KEY_TENANT_ADMIN:
		return subject_tenant_admin(s, a->whom, p);
	case KEY_ACCESS:
		return subject_access(s, a->whom, p);
	default:
		return subject_uri(s, a->whom, p);
	}
}

static int issue_to(const struct arguments *a, struct authority *ca, const struct subject *s, struct problem *p)
{
	const char *out = a->out ? a->out : ".";
	char serial[CA_SERIAL_TEXT];
	struct pems pems;
	int err = authority_check_place(ca, out, a->replace, p); /* before there is a certificate that nobody has */

	if (!err)
		err = authority_issue(ca, s, a->days, &pems, serial, p);
	if (err)
		return err;
	err = authority_install(ca, &pems, out, a->replace, p);
	pems_free(&pems);
	if (err)
		return err;
	if (a->json)
		printf("{\"serial\": \"%s\", \"identity\": \"%s\"}\n", serial, s->uri);
	else
		printf("%s: a certificate of %s, serial number %s\n", out, s->uri, serial);
	return 0;
}

static int issue(const struct arguments *a, struct problem *p)
{
	struct authority *ca = NULL;
	struct subject s = { "" };
	int err = take_subject(a, &s, p);

	if (!err)
		err = authority_open(a->directory, &ca, p);
	if (!err)
		err = issue_to(a, ca, &s, p);
	authority_close(ca);
	subject_free(&s);
	return err;
}

/* ---- revoke ---- */

static int revoke(const struct arguments *a, struct problem *p)
{
	struct authority *ca = NULL;
	char serial[CA_SERIAL_TEXT];
	bool already = false;
	int err = authority_open(a->directory, &ca, p);

	if (!err)
		err = authority_serial(ca, a->words.word[1], serial, p);
	if (!err)
		err = authority_revoke(ca, serial, &already, p);
	authority_close(ca);
	if (err)
		return err;
	printf("%s %s revoked; it is refused where the new %s/crl.pem is copied to\n", serial, already ? "was already" : "is",
	       a->directory);
	return 0;
}

/* ---- list ---- */

static const char *state_of(const struct issued *one, time_t now)
{
	return one->revoked ? "revoked" : one->until <= now ? "expired" : "valid";
}

static void print_one(const struct issued *one, time_t now)
{
	char day[32];
	struct tm tm;

	strftime(day, sizeof day, "%Y-%m-%d", gmtime_r(&one->until, &tm));
	printf("%-32s  %-7s  %s  %-24s  %s\n", one->serial, state_of(one, now), day, one->uri, one->names);
}

static json_t *json_of(const struct issued *one, time_t now)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I}", "serial", one->serial, "state", state_of(one, now), "identity",
			      one->uri, "names", one->names, "since", (json_int_t)one->since, "until", (json_int_t)one->until);

	if (one->revoked)
		json_object_set_new(o, "revoked", json_integer(one->revoked));
	return o;
}

static int list(const struct arguments *a, struct problem *p)
{
	struct authority *ca = NULL;
	const struct issued *one;
	time_t now = time(NULL);
	json_t *all;
	size_t count;
	int err = authority_open(a->directory, &ca, p);

	if (err)
		return err;
	one = authority_list(ca, &count);
	all = json_array();
	if (!a->json)
		printf("%-32s  %-7s  %-10s  %-24s  %s\n", "SERIAL", "STATE", "UNTIL", "IDENTITY", "NAMES");
	for (size_t i = 0; i < count; i++)
		if (a->json)
			json_array_append_new(all, json_of(&one[i], now));
		else
			print_one(&one[i], now);
	if (a->json)
		json_show(all);
	json_decref(all);
	authority_close(ca);
	return 0;
}

/* ---- the command ---- */

/* Options that do nothing beside the verb, or each other. */
static const char *misused(const struct arguments *a)
{
	bool issues = !strcmp(a->words.word[0], "issue");

	if (a->twice)
		return "a certificate has one owner: one of " KINDS;
	if (issues && !a->kind)
		return "whom shall it be for? One of " KINDS;
	if (!issues && (a->kind || a->days || a->replace || a->out))
		return KINDS ", like --days, --replace and --out, go with issue";
	if (a->json && !strcmp(a->words.word[0], "revoke"))
		return "--json goes with issue and list";
	return NULL;
}

int command_cert(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "dir", KEY_DIR, "DIR", 0, "Where the authority is (" CA_DIRECTORY ")", 0 },
		{ "server", KEY_SERVER, "HOST[,HOST...]", 0, "For a server, by the names and addresses that others call it",
		  0 },
		{ "client", KEY_CLIENT, "NAME", 0, "For a client that is no tenant's", 0 },
		{ "admin", KEY_ADMIN, "NAME", 0, "For an administrator of the cluster", 0 },
		{ "tenant", KEY_TENANT, "NAME", 0, "For a tenant's clients", 0 },
		{ "tenant-admin", KEY_TENANT_ADMIN, "NAME", 0,
		  "For a tenant's administrator: all that its clients may, and administration of what is this tenant's", 0 },
		{ "access", KEY_ACCESS, "TENANT/ID", 0, "For a client that is confined to an access point of a tenant", 0 },
		{ "uri", KEY_URI, "URI", 0, "For an identity by its URI, such as stratus:tenant/NAME/access/ID", 0 },
		{ "days", KEY_DAYS, "NUMBER", 0, "How long it is good (365)", 0 },
		{ "out", 'o', "DIR", 0,
		  "Where cert.pem and key.pem go, with ca.pem and crl.pem: what --tls-dir takes (the working directory)", 0 },
		{ "replace", KEY_REPLACE, NULL, 0, "Put them in the place of those that are there", 0 },
		{ "json", KEY_JSON, NULL, 0, "Print JSON", 0 },
		{ 0 },
	};
	static const struct argp argp = {
		options,
		option,
		"issue (--server|--client|--admin|--tenant|--tenant-admin|--access|--uri) WHOM\nrevoke SERIAL|FILE\nlist",
		"Certificates of the authority that `stratus ca init` made. `issue` makes a key and its certificate, `revoke` puts one on the "
		"list crl.pem, `list` tells all there are. doc/security.md says what the certificates mean.",
		NULL,
		NULL,
		NULL,
	};
	static const struct verb verbs[] = {
		{ "issue", 1, 1, 0, issue }, { "revoke", 2, 2, 0, revoke }, { "list", 1, 1, 0, list }, { 0 }
	};
	const char *word[2], *wrong;
	struct arguments a = { .words = { word, 1, 2, 0 }, .directory = path_format("%s", CA_DIRECTORY) };
	int status = EXIT_USAGE;

	arguments_parse(&argp, argc, argv, 0, NULL, &a);
	wrong = misused(&a);
	if (wrong)
		fprintf(stderr, "%s: %s; see %s --help\n", argv[0], wrong, argv[0]);
	else
		status = verbs_run(argv[0], verbs, word[0], a.words.count, 0, &a);
	free(a.directory);
	return status;
}
