/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus scrub`: compares the bricks of a replica set, object by object. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "json.h"
#include "path.h"
#include "service.h"
#include "set.h"
#include "verbs.h"

enum { STOP_MS = 10000, STEP_MS = 100 };

struct arguments {
	struct asked asked; /* VOLUME VERB */
};

/* The coordinator's answer; a sentence in front of it says why it did not do what it was told. */
static int ask(const struct process *process, const json_t *set, const char *verb, bool json, char **answer, struct problem *p)
{
	cleanup_path char *words = path_format("scrub %s%s", verb, json ? " --json" : "");
	int err = set_ask(process, set, words, answer, p);

	if (err || !strncmp(*answer, json ? "{" : "scrub: ", json ? 1 : 7))
		return err;
	return problem_set(p, EBUSY, "volume %s: %.*s", json_text(set, "volume"), (int)strcspn(*answer, "\n"), *answer);
}

static bool is_running(const char *answer)
{
	json_t *status = json_loads(answer, 0, NULL);
	bool running = !strcmp(json_text(status, "state"), "running");

	json_decref(status);
	return running;
}

/* A scrub that was told to stop ends when the bricks have answered what it asked them last. */
static int await_end(const struct process *process, const json_t *set, struct problem *p)
{
	for (int ms = 0; ms < STOP_MS; ms += STEP_MS) {
		char *answer = NULL;
		int err = ask(process, set, "status", true, &answer, p);
		bool runs = !err && is_running(answer);

		free(answer);
		if (err || !runs)
			return err;
		usleep(STEP_MS * 1000);
	}
	return problem_set(p, ETIMEDOUT, "the scrub of volume %s was told to stop, but a brick has not answered yet",
			   json_text(set, "volume"));
}

/* Of one of several sets it is said which. */
static void print_text(const json_t *set, bool several, const char *answer)
{
	if (several || strchr(json_text(set, "volume"), ':'))
		printf("%s: ", json_text(set, "volume"));
	fputs(answer, stdout);
}

static int add_json(const json_t *set, const char *answer, json_t *all, struct problem *p)
{
	json_t *status = json_loads(answer, 0, NULL);

	if (!status)
		return problem_set(p, EPROTO, "the coordinator has not answered in JSON: it may be of another version");
	json_object_set(status, "volume", json_object_get(set, "volume"));
	json_array_append_new(all, status);
	return 0;
}

/* One set; what it says is printed, or comes to `all`. */
static int scrub(const struct arguments *a, const struct process *process, const json_t *set, bool several, json_t *all,
		 struct problem *p)
{
	const char *verb = a->asked.words.word[1];
	char *answer = NULL;
	int err = 0;

	if (!strcmp(verb, "stop")) {
		err = ask(process, set, verb, false, &answer, p);
		free(answer);
		answer = NULL;
		if (!err)
			err = await_end(process, set, p);
		verb = "status";
	}
	if (!err)
		err = ask(process, set, verb, a->asked.ask.json, &answer, p);
	if (!err && a->asked.ask.json)
		err = add_json(set, answer, all, p);
	else if (!err)
		print_text(set, several, answer);
	free(answer);
	return err;
}

/* All sets, also after one that refuses: the last problem is told. */
static int scrub_each(const struct arguments *a, const struct process *process, const json_t *chosen, struct problem *p)
{
	json_t *all = json_array(), *set;
	int err = 0;
	size_t i;

	json_array_foreach((json_t *)chosen, i, set)
	{
		int one = scrub(a, process, set, json_array_size(chosen) > 1, all, p);

		err = one ? one : err;
	}
	if (json_array_size(all))
		json_show(json_array_size(chosen) == 1 ? json_array_get(all, 0) : all);
	json_decref(all);
	return err;
}

static int run(const struct arguments *a, struct problem *p)
{
	struct process process = { 0 };
	json_t *list = NULL, *chosen = NULL;
	int err = sets_process(a->asked.ask.stratusd, &process, p);

	if (!err)
		err = sets_find(&process, &list, p);
	if (!err)
		chosen = sets_choose(&process, list, a->asked.words.word[0], p);
	if (!err)
		err = chosen ? scrub_each(a, &process, chosen, p) : -ENOENT;
	json_decref(chosen);
	json_decref(list);
	process_free(&process);
	return err;
}

int command_scrub(int argc, char **argv)
{
	static const struct argp_child children[] = { { &ask_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		NULL,
		asked_option,
		"VOLUME start|check|stop|status",
		"Compares all objects of all bricks of a replica set, on the server that coordinates it, while the volume is used. `check` "
		"tells what differs, `start` heals it, too. Both return at once: `status` tells how far it is and what it has found.",
		children,
		NULL,
		NULL,
	};
	static const struct verb verbs[] = { { "start", 2, 2, 0, run },
					     { "check", 2, 2, 0, run },
					     { "stop", 2, 2, 0, run },
					     { "status", 2, 2, 0, run },
					     { 0 } };
	const char *word[2];
	struct arguments a = { .asked.words = { word, 2, 2, 0 } };

	arguments_parse(&argp, argc, argv, 0, NULL, &a.asked);
	return verbs_run(argv[0], verbs, word[1], a.asked.words.count, 0, &a);
}
