/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus xlator`: what translators there are, and their options, from their typed tables. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "module.h"
#include "service.h"

enum { KEY_JSON = 1000, KEY_MAN };

struct arguments {
	struct words words;
	bool json, man;
};

static error_t option(int key, char *value, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case KEY_JSON:
		a->json = true;
		return 0;
	case KEY_MAN:
		a->man = true;
		return 0;
	default:
		return words_take(&a->words, key, value, state);
	}
}

static const char *const kinds[] = {
	[OPTION_BOOL] = "on|off",     [OPTION_INT] = "number",	[OPTION_SIZE] = "size", [OPTION_DURATION] = "duration",
	[OPTION_PERCENT] = "percent", [OPTION_STRING] = "text", [OPTION_PATH] = "path", [OPTION_ENUM] = "choice",
};

static const char *kind(const struct option *o)
{
	return o->kind == OPTION_ENUM && o->choices ? o->choices : kinds[o->kind];
}

static bool bounded(const struct option *o)
{
	return (o->min || o->max) && (o->kind == OPTION_INT || o->kind == OPTION_SIZE || o->kind == OPTION_DURATION);
}

static const char *unit(const struct option *o)
{
	return o->kind == OPTION_SIZE ? " bytes" : o->kind == OPTION_DURATION ? " ms" : "";
}

/* "duration, 0 to 1000 ms, default 30s, live" */
static void print_facts(const struct option *o, FILE *to)
{
	fputs(kind(o), to);
	if (bounded(o))
		fprintf(to, ", %" PRId64 " to %" PRId64 "%s", o->min, o->max, unit(o));
	if (!o->preset)
		fputs(", must be given", to);
	else if (*o->preset)
		fprintf(to, ", default %s", o->preset);
	if (o->live)
		fputs(", live", to);
}

static void print_text(const struct xlator_type *t)
{
	printf("%s: %s\n", t->name, t->summary ? t->summary : "");
	if (t->max_children < 0)
		printf("subvolumes: %d or more\n", t->min_children);
	else if (t->max_children == t->min_children)
		printf("subvolumes: %d\n", t->min_children);
	else
		printf("subvolumes: %d to %d\n", t->min_children, t->max_children);
	for (const struct option *o = t->options; o && o->name; o++) {
		printf("\n  %s (", o->name);
		print_facts(o, stdout);
		printf(")\n      %s\n", o->help ? o->help : "");
	}
}

static void print_roff(const char *text)
{
	if (*text == '.' || *text == '\'')
		fputs("\\&", stdout);
	for (; *text; text++)
		fputs(*text == '-' ? "\\-" : *text == '\\' ? "\\e" : (char[]){ *text, 0 }, stdout);
}

static void print_man(const struct xlator_type *t)
{
	printf(".SS ");
	print_roff(t->name);
	putchar('\n');
	print_roff(t->summary ? t->summary : "");
	putchar('\n');
	for (const struct option *o = t->options; o && o->name; o++) {
		printf(".TP\n.B ");
		print_roff(o->name);
		printf("\n.RI ( ");
		print_facts(o, stdout);
		printf(" )\n");
		print_roff(o->help ? o->help : "");
		putchar('\n');
	}
}

static json_t *option_json(const struct option *o)
{
	json_t *j = json_pack("{s:s, s:s, s:s?, s:s?, s:b}", "name", o->name, "kind", kind(o), "default", o->preset, "help",
			      o->help, "live", o->live);

	if (bounded(o)) {
		json_object_set_new(j, "min", json_integer(o->min));
		json_object_set_new(j, "max", json_integer(o->max));
	}
	return j;
}

static json_t *type_json(const struct xlator_type *t)
{
	json_t *options = json_array();

	for (const struct option *o = t->options; o && o->name; o++)
		json_array_append_new(options, option_json(o));
	return json_pack("{s:s, s:s?, s:i, s:i, s:o}", "type", t->name, "summary", t->summary, "min-subvolumes",
			 t->min_children, "max-subvolumes", t->max_children, "options", options);
}

static void print_json(json_t *j)
{
	json_dumpf(j, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(j);
}

/* One that can't be loaded is told of, and the others are listed all the same. Exit status. */
static int list(const struct arguments *a, const char *program)
{
	char **names = module_names();
	json_t *all = json_array();
	int status = 0;

	for (char **n = names; n && *n; n++) {
		const struct xlator_type *t;
		struct problem p = { "" };

		if (module_load(*n, &t, &p))
			status = problem_print(program, &p);
		else if (a->json)
			json_array_append_new(all, type_json(t));
		else if (a->man)
			print_man(t);
		else
			printf("%-20s %s\n", t->name, t->summary ? t->summary : "");
	}
	if (a->json)
		print_json(json_incref(all));
	json_decref(all);
	module_names_free(names);
	return status;
}

static int help(const char *type, const struct arguments *a, struct problem *p)
{
	const struct xlator_type *t;
	int err = module_load(type, &t, p);

	if (err)
		return err;
	if (a->json)
		print_json(type_json(t));
	else if (a->man)
		print_man(t);
	else
		print_text(t);
	return 0;
}

int command_xlator(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "json", KEY_JSON, NULL, 0, "Print JSON", 0 },
		{ "man", KEY_MAN, NULL, 0, "Print a section of a manual page", 0 },
		{ 0 },
	};
	static const struct argp argp = {
		options,
		option,
		"list\nhelp TYPE",
		"Lists the translators that can be loaded, or explains the options of one.",
		NULL,
		NULL,
		NULL,
	};
	struct problem p = { "" };
	const char *word[2];
	struct arguments a = { .words = { word, 1, 2, 0 } };
	int err;

	arguments_parse(&argp, argc, argv, 0, NULL, &a);
	if (a.words.count == 1 && !strcmp(word[0], "list"))
		return list(&a, argv[0]);
	else if (a.words.count == 2 && !strcmp(word[0], "help"))
		err = help(word[1], &a, &p);
	else {
		fprintf(stderr, "stratus xlator: say `stratus xlator list` or `stratus xlator help TYPE`\n");
		return EXIT_USAGE;
	}
	return err ? problem_print(argv[0], &p) : 0;
}
