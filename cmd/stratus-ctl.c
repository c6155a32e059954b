/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus dump`, `stats`, `ctl`, `set`, `log-level`, `reload`: talking to a running process. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "path.h"
#include "process.h"
#include "service.h"

enum { KEY_JSON = 1000, KEY_RESET };

struct ctl {
	struct words words;
	bool json, reset;
};

static error_t ctl_option(int key, char *value, struct argp_state *state)
{
	struct ctl *c = state->input;

	switch (key) {
	case KEY_JSON:
		c->json = true;
		return 0;
	case KEY_RESET:
		c->reset = true;
		return 0;
	default:
		return words_take(&c->words, key, value, state);
	}
}

static const struct argp_option json_option[] = {
	{ "json", KEY_JSON, NULL, 0, "Print JSON", 0 },
	{ 0 },
};

#define TARGETS                                                                                                                \
	"PROCESS is a pid, a program (stratusd, mount) of which one runs, a mount point, a volfile or a control socket; `stratus ps` lists them all."

/* As it is if it is JSON, else as a string. */
static void print_answer(pid_t pid, char *answer)
{
	json_t *value = json_loads(answer, 0, NULL), *object;
	size_t length = strlen(answer);

	if (length && answer[length - 1] == '\n')
		answer[length - 1] = '\0';
	object = json_pack("{s:i, s:o}", "pid", pid, "answer", value ? value : json_string(answer));
	json_dumpf(object, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(object);
}

/* Asks the process named by the target; prints the answer, as the JSON string "answer" if that is wanted. */
static int ask_and_print(const char *program, const char *target, const char *line, bool json)
{
	struct problem p = { "" };
	struct process process = { 0 };
	char *answer = NULL;
	int err = process_find(target, &process, &p);

	if (!err)
		err = process_ask(&process, line, &answer, &p);
	if (!err && json)
		print_answer(process_pid(&process), answer);
	else if (!err)
		fputs(answer, stdout);
	free(answer);
	process_free(&process);
	return err ? problem_print(program, &p) : 0;
}

int command_dump(int argc, char **argv)
{
	static const struct argp argp = {
		json_option,
		ctl_option,
		"PROCESS",
		"Prints all facts of a running process: its graph with options and counters, its memory, and the "
		"requests in flight with "
		"the translators that they have passed.\v" TARGETS,
		NULL,
		NULL,
		NULL,
	};
	const char *word[1];
	struct ctl c = { .words = { word, 1, 1, 0 } };

	arguments_parse(&argp, argc, argv, 0, NULL, &c);
	return ask_and_print(argv[0], word[0], "dump", c.json);
}

int command_reload(int argc, char **argv)
{
	static const struct argp argp = {
		NULL,
		ctl_option,
		"PROCESS",
		"Makes a process read its volfiles again: a mount switches to the new graph without losing an open "
		"file, a server changes "
		"live options in place and says what needs a restart.\v" TARGETS,
		NULL,
		NULL,
		NULL,
	};
	const char *word[1];
	struct ctl c = { .words = { word, 1, 1, 0 } };

	arguments_parse(&argp, argc, argv, 0, NULL, &c);
	return ask_and_print(argv[0], word[0], "reload", false);
}

int command_log_level(int argc, char **argv)
{
	static const struct argp argp = {
		json_option,
		ctl_option,
		"PROCESS [LEVEL]",
		"Prints the log level of a running process, or changes it to error, warning, info, debug or "
		"trace.\v" TARGETS,
		NULL,
		NULL,
		NULL,
	};
	const char *word[2];
	struct ctl c = { .words = { word, 1, 2, 0 } };
	cleanup_path char *line = NULL;

	arguments_parse(&argp, argc, argv, 0, NULL, &c);
	line = path_format("log-level %s", c.words.count > 1 ? word[1] : "");
	return ask_and_print(argv[0], word[0], line, c.json);
}

int command_set(int argc, char **argv)
{
	static const struct argp argp = {
		NULL,
		ctl_option,
		"PROCESS VOLUME OPTION VALUE",
		"Changes a live option of a volume (a translator of the graph) until the process ends or reads its "
		"volfile again. "
		"`stratus xlator help TYPE` says which options are live.\v" TARGETS,
		NULL,
		NULL,
		NULL,
	};
	const char *word[4];
	struct ctl c = { .words = { word, 4, 4, 0 } };
	cleanup_path char *line = NULL;

	arguments_parse(&argp, argc, argv, 0, NULL, &c);
	line = path_format("set %s %s %s", word[1], word[2], word[3]);
	return ask_and_print(argv[0], word[0], line, false);
}

enum { CTL_WORDS = 64 };

/* How many are read for options: behind PROCESS and VOLUME all is the translator's, whatever it begins with, for a name may begin with "-". */
static int own_arguments(int argc, char **argv)
{
	int i = 1;

	for (int words = 0; i < argc && words < 2; i++) {
		if (!strcmp(argv[i], "--"))
			return argc;
		words += argv[i][0] != '-';
	}
	return i;
}

static void add_word(char **line, const char *word)
{
	char *longer = path_format("%s %s", *line, word);

	free(*line);
	*line = longer;
}

int command_ctl(int argc, char **argv)
{
	static const struct argp argp = {
		json_option,
		ctl_option,
		"PROCESS VOLUME WORDS...",
		"Sends a command to one translator of a running process and prints its answer. The translator's page "
		"says which commands it "
		"takes. What comes behind VOLUME is the translator's, also if it begins with \"-\".\v" TARGETS,
		NULL,
		NULL,
		NULL,
	};
	int own = own_arguments(argc, argv);
	const char *word[CTL_WORDS];
	struct ctl c = { .words = { word, own < argc ? 2 : 3, CTL_WORDS, 0 } };
	cleanup_path char *line = NULL;
	bool ended = false; /* the first "--" is no word, as everywhere */

	arguments_parse(&argp, own, argv, ARGP_IN_ORDER, NULL, &c);
	line = path_format("ctl");
	for (int i = 1; i < c.words.count; i++)
		add_word(&line, word[i]);
	for (int i = own; i < argc; i++) {
		bool ends = !ended && !strcmp(argv[i], "--");

		if (!ends)
			add_word(&line, argv[i]);
		ended |= ends;
	}
	return ask_and_print(argv[0], word[0], line, c.json);
}

/* One volume's counters, added to `all` as JSON, or printed. */
static int print_stats(const struct process *process, const char *volume, const struct ctl *c, json_t *all, struct problem *p)
{
	cleanup_path char *line = path_format("ctl %s %s", volume, c->reset ? "reset" : c->json ? "stats json" : "stats");
	char *answer = NULL;
	int err = process_ask(process, line, &answer, p);

	if (!err && c->json)
		json_object_set_new(all, volume, json_loads(answer, 0, NULL));
	else if (!err && !c->reset)
		printf("%s:\n%s", volume, answer);
	free(answer);
	return err;
}

static int stats_of(const struct process *process, const char *only, const struct ctl *c, struct problem *p)
{
	json_t *volume, *all = json_object();
	size_t i, found = 0;
	int err = 0;

	json_array_foreach(json_object_get(process->info, "volumes"), i, volume)
	{
		const char *name = json_string_value(json_object_get(volume, "name"));
		const char *type = json_string_value(json_object_get(volume, "type"));

		if (err || strcmp(type, "debug/io-stats") || (only && strcmp(name, only)))
			continue;
		found++;
		err = print_stats(process, name, c, all, p);
	}
	if (!err && !found)
		err = problem_set(
			p, ENOENT,
			"the graph has no debug/io-stats%s%s: mounts count with `client-translators: [debug/io-stats]` in the "
			"volume's specification (doc/volfile.md)",
			only ? " called " : "", only ? only : "");
	if (!err && c->json && !c->reset) {
		json_dumpf(all, stdout, JSON_INDENT(2));
		putchar('\n');
	}
	json_decref(all);
	return err;
}

int command_stats(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "json", KEY_JSON, NULL, 0, "Print JSON, with histograms", 0 },
		{ "reset", KEY_RESET, NULL, 0, "Set all counters to 0 instead", 0 },
		{ 0 },
	};
	static const struct argp argp = {
		options,
		ctl_option,
		"PROCESS [VOLUME]",
		"Prints the counters and latencies that the debug/io-stats translators of a running process "
		"hold.\v" TARGETS,
		NULL,
		NULL,
		NULL,
	};
	struct problem p = { "" };
	struct process process = { 0 };
	const char *word[2];
	struct ctl c = { .words = { word, 1, 2, 0 } };
	int err;

	arguments_parse(&argp, argc, argv, 0, NULL, &c);
	c.json &= !c.reset;
	err = process_find(word[0], &process, &p);
	if (!err)
		err = stats_of(&process, c.words.count > 1 ? word[1] : NULL, &c, &p);
	process_free(&process);
	return err ? problem_print(argv[0], &p) : 0;
}
