/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a command's verb, and refuses options that do not go with it. */
#include "verbs.h"

#include <errno.h>

#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "path.h"
#include "service.h"
#include "volgen.h"

enum { VERBS_MAX = 16 };

static const char *const option_names[] = { "--dry-run",
					    "--replica",
					    "--arbiter",
					    "--start",
					    "--bricks",
					    "--mount",
					    "--purge",
					    "--wait",
					    "--tenants",
					    "--ids",
					    "a limit or weight",
					    "--tls-dir",
					    "--encrypt",
					    "--cancel",
					    "what an access point is to be",
					    "--server",
					    "--bytes or --inodes",
					    "--json",
					    "--keep-bricks",
					    "--force",
					    "--new-disk" };

/* "--start goes with create and new" */
static int misplaced(const char *program, const struct verb *verbs, unsigned given)
{
	unsigned bit = (unsigned)__builtin_ctz(given), found = 0, left = 0;

	for (const struct verb *v = verbs; v->name; v++)
		left += v->options >> bit & 1;
	fprintf(stderr, "%s: %s goes with ", program, option_names[bit]);
	for (const struct verb *v = verbs; v->name; v++)
		if (v->options >> bit & 1)
			fprintf(stderr, "%s%s", !found++ ? "" : found == left ? " and " : ", ", v->name);
	fprintf(stderr, "; see %s --help\n", program);
	return EXIT_USAGE;
}

int verbs_run(const char *program, const struct verb *verbs, const char *word, int words, unsigned given,
	      const struct arguments *a)
{
	const char *names[VERBS_MAX] = { NULL };
	struct problem p = { "" };
	const struct verb *v = verbs;

	for (; v->name && strcmp(v->name, word); v++)
		names[v - verbs] = v->name;
	if (!v->name)
		return word_unknown(program, word, names);
	if (words < v->min || words > v->max)
		return word_count_wrong(program, word);
	if (given & ~v->options)
		return misplaced(program, verbs, given & ~v->options);
	return v->run(a, &p) ? problem_print(program, &p) : 0;
}

/* ---- options that several commands have ---- */

int amount_take(const char *text, uint64_t *amount)
{
	static const char units[] = "KMGT";
	char *end;
	unsigned long long number = strtoull(text, &end, 10);
	const char *unit = *end ? strchr(units, *end & ~0x20) : NULL;
	int shift = unit ? 10 * (int)(unit - units + 1) : 0;

	if (!strcmp(text, "none")) {
		*amount = 0;
		return 0;
	}
	if (*text < '0' || *text > '9' || (*end && (!unit || end[1])) || number > (uint64_t)INT64_MAX >> shift)
		return -EINVAL;
	*amount = (uint64_t)number << shift;
	return 0;
}

static error_t ask_option(int key, char *value, struct argp_state *state)
{
	struct ask_form *a = state->input;

	switch (key) {
	case 'j':
		a->json = true;
		return 0;
	case 's':
		a->stratusd = value;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option ask_options[] = {
	{ "json", 'j', NULL, 0, "Print JSON", 0 },
	{ "stratusd", 's', "PROCESS", 0, "The stratusd to ask, if it is not the only one with a cluster store here", 0 },
	{ 0 },
};
const struct argp ask_argp = { ask_options, ask_option, NULL, NULL, NULL, NULL, NULL };

error_t asked_option(int key, char *value, struct argp_state *state)
{
	struct asked *a = state->input;

	if (key == ARGP_KEY_INIT) {
		state->child_inputs[0] = &a->ask;
		return 0;
	}
	return words_take(&a->words, key, value, state);
}

void warn_of(const char *program, const struct spec *s)
{
	cleanup_path char *text = spec_warning(s);

	if (text)
		fprintf(stderr, "%s: warning: %s\n", program, text);
}

enum { KEY_REPLICA = 2000, KEY_ARBITER, KEY_TENANTS, KEY_TLS, KEY_GROWABLE };

static error_t form_option(int key, char *value, struct argp_state *state)
{
	struct spec_form *form = state->input;
	char *end;

	switch (key) {
	case KEY_REPLICA:
		form->replica = strtoul(value, &end, 10);
		if (*end || form->replica < 2 || form->replica > SPEC_REPLICA_MAX)
			argp_error(state, "'%s' is no number of replicas: take one from 2 to %d", value, SPEC_REPLICA_MAX);
		return 0;
	case KEY_ARBITER:
		form->arbiter = true;
		return 0;
	case KEY_TLS:
		if (*value != '/' || !value[1])
			argp_error(state, "'%s' is no absolute path: the directory is one of each machine", value);
		form->tls = value;
		return 0;
	case KEY_TENANTS:
		form->tenants = true;
		return 0;
	case KEY_GROWABLE:
		form->growable = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option form_options[] = {
	{ "replica", KEY_REPLICA, "NUMBER", 0, "So many bricks hold the same files; of more bricks, each so many", 0 },
	{ "arbiter", KEY_ARBITER, NULL, 0, "Of three replicas the last brick of each set holds no file data", 0 },
	{ "tenants", KEY_TENANTS, NULL, 0, "It is for tenants, who are told apart by their certificates (doc/tenants.md)", 0 },
	{ "growable", KEY_GROWABLE, NULL, 0,
	  "With --tenants and one brick, or one replica set: others can be added; tenants' mounts have no leases then, and a set no access points",
	  0 },
	{ "tls-dir", KEY_TLS, "DIR", 0, "With TLS, by cert.pem, key.pem, ca.pem and crl.pem in this directory of each machine",
	  0 },
	{ 0 },
};
const struct argp form_argp = { form_options, form_option, NULL, NULL, NULL, NULL, NULL };
