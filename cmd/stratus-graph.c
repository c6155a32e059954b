/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus graph`: draws a volfile. */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "graph.h"
#include "path.h"
#include "service.h"

enum { KEY_JSON = 1000, KEY_SVG };

struct arguments {
	struct words words;
	const char *svg;
	bool json;
};

static error_t option(int key, char *value, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case KEY_JSON:
		a->json = true;
		return 0;
	case KEY_SVG:
		a->svg = value;
		return 0;
	default:
		return words_take(&a->words, key, value, state);
	}
}

static void exec_dot(int from, const char *svg)
{
	dup2(from, 0);
	close(from);
	execlp("dot", "dot", "-Tsvg", "-o", svg, NULL);
	_exit(127);
}

/* Into a file beside it first: what was there stays if dot fails. */
static int draw_svg(const struct volfile *v, const char *svg, struct problem *p)
{
	cleanup_path char *staged = path_format("%s.new-%d", svg, getpid());
	int ends[2], status = 0;
	pid_t child;
	FILE *to;

	signal(SIGPIPE, SIG_IGN); /* dot may be gone before it has read all */
	if (pipe(ends) || (child = fork()) < 0)
		return problem_set(p, errno, "can't start dot: %m");
	if (!child) {
		close(ends[1]);
		exec_dot(ends[0], staged);
	}
	close(ends[0]);
	to = fdopen(ends[1], "w");
	if (to) {
		graph_dot(v, to);
		fclose(to);
	}
	waitpid(child, &status, 0);
	if (WIFEXITED(status) && !WEXITSTATUS(status) && !rename(staged, svg))
		return 0;
	unlink(staged);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return problem_set(
			p, ENOENT,
			"SVG is drawn by the program dot, which is not here: install graphviz, or leave --svg out and "
			"draw the text elsewhere");
	return problem_set(p, EIO, "dot could not write %s: check the directory and its permissions", svg);
}

static json_t *volume_json(const struct volfile_volume *v)
{
	json_t *options = json_object(), *below = json_array();

	for (size_t i = 0; i < v->options; i++)
		json_object_set_new(options, v->option[i].name, json_string(v->option[i].value));
	for (size_t i = 0; i < v->subvolumes; i++)
		json_array_append_new(below, json_string(v->subvolume[i]));
	return json_pack("{s:s, s:s, s:o, s:o}", "name", v->name, "type", v->type, "options", options, "subvolumes", below);
}

static void print_json(const struct volfile *v)
{
	json_t *list = json_array();

	for (size_t i = 0; i < v->volumes; i++)
		json_array_append_new(list, volume_json(&v->volume[i]));
	json_dumpf(list, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(list);
}

int command_graph(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "svg", KEY_SVG, "FILE", 0, "Draw a picture into FILE (needs graphviz)", 0 },
		{ "json", KEY_JSON, NULL, 0, "Print the volumes as JSON", 0 },
		{ 0 },
	};
	static const struct argp argp = {
		options, option, "VOLFILE", "Draws the graph of a volfile: as text for dot on stdout, or as SVG.",
		NULL,	 NULL,	 NULL,
	};
	struct problem p = { "" };
	struct volfile v;
	const char *word[1];
	struct arguments a = { .words = { word, 1, 1, 0 } };
	int err;

	arguments_parse(&argp, argc, argv, 0, NULL, &a);
	err = volfile_read(word[0], &v, &p);
	if (err)
		return problem_print(argv[0], &p);
	if (a.svg)
		err = draw_svg(&v, a.svg, &p);
	else if (a.json)
		print_json(&v);
	else
		graph_dot(&v, stdout);
	volfile_free(&v);
	return err ? problem_print(argv[0], &p) : 0;
}
