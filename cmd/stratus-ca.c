/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus ca`: an authority of one's own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ca.h"
#include "command.h"
#include "path.h"
#include "service.h"
#include "verbs.h"

enum { KEY_DIR = 1000, KEY_NAME, KEY_DAYS };

struct arguments {
	struct words words;
	char *directory;
	const char *name;
	unsigned days;
};

static error_t option(int key, char *value, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case KEY_DIR:
		free(a->directory);
		a->directory = path_absolute(value);
		return 0;
	case KEY_NAME:
		a->name = value;
		return 0;
	case KEY_DAYS:
		a->days = days_take(value, CA_DAYS_MAX, state);
		return 0;
	default:
		return words_take(&a->words, key, value, state);
	}
}

static int init(const struct arguments *a, struct problem *p)
{
	bool made;
	int err = authority_init(a->directory, a->name, a->days, &made, p);

	if (err)
		return err;
	if (made)
		printf("%s is a certificate authority now: ca.key there must stay secret, keep a backup of the directory\n",
		       a->directory);
	else
		printf("%s is a certificate authority already; nothing was changed\n", a->directory);
	return 0;
}

int command_ca(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "dir", KEY_DIR, "DIR", 0, "Where the authority is (" CA_DIRECTORY ")", 0 },
		{ "name", KEY_NAME, "NAME", 0, "What its certificate calls it (StratusFS)", 0 },
		{ "days", KEY_DAYS, "NUMBER", 0, "How long it is good (3650)", 0 },
		{ 0 },
	};
	static const struct argp argp = {
		options,
		option,
		"init",
		"Makes a certificate authority, for those who have none: ca.key, its secret key, ca.pem, its certificate, the registry of what "
		"it issues (`stratus cert`), and crl.pem, the list of what was revoked. One that is there is never changed.",
		NULL,
		NULL,
		NULL,
	};
	static const struct verb verbs[] = { { "init", 1, 1, 0, init }, { 0 } };
	const char *word[1];
	struct arguments a = {
		.words = { word, 1, 1, 0 }, .directory = path_format("%s", CA_DIRECTORY), .name = "StratusFS", .days = CA_DAYS
	};
	int status;

	arguments_parse(&argp, argc, argv, 0, NULL, &a);
	status = verbs_run(argv[0], verbs, word[0], a.words.count, 0, &a);
	free(a.directory);
	return status;
}
