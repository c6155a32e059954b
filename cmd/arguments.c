/* SPDX-License-Identifier: Apache-2.0 */
/* Reads command lines by argp, and says more of what is wrong with one: the nearest option, the forms of a command. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "option.h"
#include "path.h"

/* ---- options that are none ---- */

enum { NAMES = 64 };
struct known {
	const char *name[NAMES + 1]; /* of long options, for the nearest */
	size_t names;
};

static void note(struct known *k, const char *name)
{
	if (k->names < NAMES)
		k->name[k->names++] = name;
}

static void note_all(struct known *k, const struct argp *a)
{
	for (const struct argp_option *o = a->options; o && (o->name || o->key || o->doc || o->group); o++)
		if (o->name)
			note(k, o->name);
	for (const struct argp_child *c = a->children; c && c->argp; c++)
		note_all(k, c->argp);
}

/* By its letter, or by so many letters of its name as there are. */
static const struct argp_option *find(const struct argp *a, int key, const char *name, size_t size)
{
	const struct argp_option *found = NULL;

	for (const struct argp_option *o = a->options; o && (o->name || o->key || o->doc || o->group); o++)
		if (name ? o->name && !strncmp(o->name, name, size) && (!found || !o->name[size]) : o->key == key)
			found = o;
	for (const struct argp_child *c = a->children; c && c->argp && !found; c++)
		found = find(c->argp, key, name, size);
	return found;
}

static bool takes_next(const struct argp_option *o)
{
	return o && o->arg && !(o->flags & OPTION_ARG_OPTIONAL);
}

/* -abc: does the word after it belong to the last of them? */
static bool letters_take_next(const struct argp *a, const char *letters)
{
	for (; *letters; letters++)
		if (takes_next(find(a, *letters, NULL, 0)))
			return !letters[1];
	return false;
}

static void check_name(const struct known *k, const char *program, const char *name, size_t size)
{
	char word[80];
	const char *nearest;

	snprintf(word, sizeof word, "%.*s", (int)size, name);
	for (size_t i = 0; i < k->names; i++)
		if (!strncmp(k->name[i], word, size))
			return;
	nearest = nearest_name(word, k->name);
	if (!nearest)
		return; /* argp says that there is none */
	fprintf(stderr, "%s: there is no option '--%s': did you mean '--%s'?; see %s --help\n", program, word, nearest,
		program);
	exit(EXIT_USAGE);
}

static void check_names(const struct argp *a, int argc, char **argv)
{
	struct known known = { .name = { "help", "usage", "version" }, .names = 3 };

	note_all(&known, a);
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		const char *word = argv[i];
		size_t size;

		if (word[0] != '-')
			continue;
		if (word[1] != '-') {
			i += letters_take_next(a, word + 1);
			continue;
		}
		size = strcspn(word += 2, "=");
		check_name(&known, argv[0], word, size);
		i += !word[size] && takes_next(find(a, 0, word, size));
	}
}

static const struct argp *parsed;

void arguments_parse(const struct argp *a, int argc, char **argv, unsigned flags, int *end, void *input)
{
	parsed = a;
	check_names(a, argc, argv);
	argp_parse(a, argc, argv, flags, end, input);
}

/* ---- words ---- */

/* argp_parse() puts what it was given below one of its own. */
static const char *forms_of(const struct argp *a)
{
	const char *found = a->args_doc ? a->args_doc : "";

	for (const struct argp_child *c = a->children; c && c->argp && !*found; c++)
		found = forms_of(c->argp);
	return found;
}

char *arguments_of_verb(const char *verb)
{
	cleanup_path char *forms = path_format("%s", parsed ? forms_of(parsed) : "");
	char *shown = path_format("%s", ""), *save;
	size_t size = strlen(verb);

	for (char *form = strtok_r(forms, "\n", &save); form; form = strtok_r(NULL, "\n", &save)) {
		char *longer;

		if (strncmp(form, verb, size) != 0 || (form[size] && form[size] != ' '))
			continue;
		longer = path_format("%s%s%s", shown, *shown ? " | " : "", form);
		free(shown);
		shown = longer;
	}
	return shown;
}

/* "something is missing: write SERVER:/VOLUME DIRECTORY | VOLFILE DIRECTORY" */
static void too_few(const struct words *w, struct argp_state *state)
{
	cleanup_path char *forms = path_format("%s", forms_of(state->root_argp)), *shown = path_format("%s", "");
	char *save;

	for (char *form = strtok_r(forms, "\n", &save); form; form = strtok_r(NULL, "\n", &save)) {
		char *longer = path_format("%s%s%s", shown, *shown ? " | " : ": write ", form);

		free(shown);
		shown = longer;
	}
	argp_error(state, "%s%s", w->count ? "something is missing" : "nothing to work on is named", shown);
}

error_t words_take(struct words *w, int key, char *value, struct argp_state *state)
{
	switch (key) {
	case ARGP_KEY_ARG:
		if (w->count == w->max)
			argp_error(state, "one word too many: '%s'", value);
		else
			w->word[w->count++] = value;
		return 0;
	case ARGP_KEY_END:
		if (w->count < w->min)
			too_few(w, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

unsigned days_take(const char *value, unsigned most, struct argp_state *state)
{
	char *end;
	unsigned long days = strtoul(value, &end, 10);

	if (*end || days < 1 || days > most)
		argp_error(state, "'%s' is no number of days: take one from 1 to %u", value, most);
	return (unsigned)days;
}
