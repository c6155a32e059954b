/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus volgen`: volfiles from a specification, and specifications with fresh ids. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "graph.h"
#include "json.h"
#include "path.h"
#include "service.h"
#include "verbs.h"
#include "volfiles.h"

enum { KEY_INIT = 1000, KEY_JSON, KEY_STDOUT, KEY_PORT, KEY_STATE, KEY_TABLE, BRICKS = 1024, TEXT_MAX = 1 << 20 };

struct arguments {
	struct words words;
	const char *init, *out, *table;
	char *state;
	struct spec_form form;
	bool json, to_stdout;
};

static error_t option(int key, char *value, struct argp_state *state)
{
	struct arguments *a = state->input;
	char *end;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->form;
		return 0;
	case KEY_INIT:
		a->init = value;
		return 0;
	case KEY_JSON:
		a->json = true;
		return 0;
	case KEY_STDOUT:
		a->to_stdout = true;
		return 0;
	case KEY_PORT:
		a->form.port = strtoul(value, &end, 10);
		if (*end || a->form.port < 1 || a->form.port > 65535)
			argp_error(state, "'%s' is no port: take a number from 1 to 65535", value);
		return 0;
	case KEY_STATE:
		free(a->state);
		a->state = path_absolute(value);
		return 0;
	case KEY_TABLE:
		a->table = value;
		return 0;
	case 'o':
		a->out = value;
		return 0;
	default:
		return words_take(&a->words, key, value, state);
	}
}

/* ---- the command ---- */

static void print_files(const struct volgen_files *files, const struct arguments *a)
{
	json_t *list = json_array(), *one;

	for (size_t i = 0; i < files->count; i++) {
		cleanup_path char *path = path_format("%s/%s", a->out ? a->out : ".", files->file[i].name);

		if (!a->json) {
			puts(path);
			continue;
		}
		one = json_pack("{s:s, s:s}", "name", files->file[i].name, "side",
				strncmp(files->file[i].name, "server-", 7) ? "client" : "server");
		json_object_set_new(one, a->to_stdout ? "text" : "path",
				    json_string(a->to_stdout ? files->file[i].text : path));
		json_array_append_new(list, one);
	}
	if (a->json)
		json_show(list);
	json_decref(list);
}

static int generate(const struct arguments *a, struct problem *p)
{
	struct volgen_files files = { 0 };
	struct spec spec;
	int err = spec_read(a->words.word[0], &spec, p);

	if (!err)
		err = volfiles_of(&spec, a->state, &files, p);
	if (!err && !a->to_stdout)
		err = volfiles_write(&files, a->out ? a->out : ".", p);
	if (!err && a->to_stdout && !a->json)
		for (size_t i = 0; i < files.count; i++)
			printf("# ---- %s\n%s\n", files.file[i].name, files.file[i].text);
	else if (!err)
		print_files(&files, a);
	if (!err)
		warn_of("stratus volgen", &spec);
	spec_free(&spec);
	volgen_free(&files);
	return err;
}

static int init(const struct arguments *a, struct problem *p)
{
	struct spec spec;
	char *text = NULL;
	size_t size;
	FILE *to;
	int err = spec_init(a->init, a->words.word, a->words.count, &a->form, &spec, p);

	to = err ? NULL : open_memstream(&text, &size);
	if (to) {
		spec_print(&spec, to);
		fclose(to);
		if (!a->out)
			fputs(text, stdout);
		else if (!access(a->out, F_OK))
			err = problem_set(p, EEXIST, "%s is there already: its ids may be in use, so it is not overwritten",
					  a->out);
		else
			err = path_write(a->out, text, size, p);
	}
	free(text);
	spec_free(&spec);
	return err;
}

/* ---- filter cloud ---- */

static bool is_filter(const struct arguments *a)
{
	return !a->init && !strcmp(a->words.word[0], "filter");
}

static int print_filtered(const struct arguments *a, const char *text, size_t size, struct problem *p)
{
	struct volfile file = { 0 };
	char *made = NULL;
	size_t length;
	FILE *to = open_memstream(&made, &length);
	int err = to ? volfile_parse(text, size, "standard input", &file, p) : -ENOMEM;

	if (!err)
		err = volgen_filter_cloud(&file, a->table ? a->table : "", to, p);
	if (to)
		fclose(to);
	if (!err && a->out)
		err = path_write(a->out, made, length, p);
	else if (!err)
		fputs(made, stdout);
	volfile_free(&file);
	free(made);
	return err;
}

static int filter(const struct arguments *a, struct problem *p)
{
	char *text = malloc(TEXT_MAX + 1);
	size_t size = text ? fread(text, 1, TEXT_MAX + 1, stdin) : 0;
	int err = -ENOMEM;

	if (text && size > TEXT_MAX)
		err = problem_set(p, EFBIG, "standard input: a volfile has at most %d bytes", TEXT_MAX);
	else if (text)
		err = print_filtered(a, text, size, p);
	free(text);
	return err;
}

/* Options that do nothing beside each other. */
static const char *misused(const struct arguments *a)
{
	if (is_filter(a) && (a->words.count != 2 || strcmp(a->words.word[1], "cloud")))
		return "there is one filter: `filter cloud`";
	if (is_filter(a) && (a->state || a->json || a->to_stdout))
		return "--state, --json and --stdout do not go with a filter";
	if (a->table && !is_filter(a))
		return "--table goes with `filter cloud`";
	if (!a->init && a->words.count > 1 && !is_filter(a))
		return "one specification at a time";
	if (!a->init && (a->form.port || a->form.replica || a->form.arbiter || a->form.tenants || a->form.tls))
		return "--port, --replica, --arbiter, --tenants and --tls-dir go with --init";
	if (a->init && (a->state || a->json || a->to_stdout))
		return "--state, --json and --stdout do not go with --init, which prints a specification";
	if (a->out && a->to_stdout)
		return "--out does not go with --stdout: nothing is written";
	return NULL;
}

int command_volgen(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "out", 'o', "PATH", 0,
		  "Write the volfiles into this directory (without: the working directory); with --init, write the "
		  "specification to this file",
		  0 },
		{ "stdout", KEY_STDOUT, NULL, 0, "Print the volfiles instead of writing files", 0 },
		{ "json", KEY_JSON, NULL, 0, "Print the names of the files (with --stdout: and their text) as JSON", 0 },
		{ "init", KEY_INIT, "VOLUME", 0, "Print a specification with fresh ids for bricks given as HOST:/DIRECTORY",
		  0 },
		{ "port", KEY_PORT, "NUMBER", 0, "With --init: the port of the servers (24007)", 0 },
		{ "table", KEY_TABLE, "TENANTS", 0, "With filter cloud: the option tenants of features/cloud", 0 },
		{ "state", KEY_STATE, "DIR", 0,
		  "Where the coordinators of a replicated volume keep their views and its secret (/var/lib/stratus)", 0 },
		{ 0 },
	};
	static const struct argp_child children[] = { { &form_argp, 0, "With --init:", 1 }, { 0 } };
	static const struct argp argp = {
		options,
		option,
		"SPEC\n--init VOLUME HOST:/DIRECTORY...\nfilter cloud",
		"Writes the volfiles of the servers (server-NAME.vol) and of the clients (client-VOLUME.vol), and of the coordinator of a "
		"replicated volume (coordinator-VOLUME.vol; of each of several sets, coordinator-VOLUME:N.vol), from a specification. `filter cloud` reads a "
		"server's volfile from the standard input and writes it with features/cloud above each brick. doc/volfile.md describes both formats.",
		children,
		NULL,
		NULL,
	};
	struct problem p = { "" };
	static const char *word[BRICKS];
	struct arguments a = { .words = { word, 1, BRICKS, 0 } };
	const char *wrong;
	int status = EXIT_USAGE;

	arguments_parse(&argp, argc, argv, 0, NULL, &a);
	wrong = misused(&a);
	if (wrong)
		fprintf(stderr, "%s: %s; see %s --help\n", argv[0], wrong, argv[0]);
	else
		status = (a.init	  ? init(&a, &p)
			  : is_filter(&a) ? filter(&a, &p)
					  : generate(&a, &p))
				 ? problem_print(argv[0], &p)
				 : 0;
	free(a.state);
	return status;
}
