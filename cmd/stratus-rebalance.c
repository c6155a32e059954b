/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus rebalance`: has names moved to subvolumes that were added, holds that up, ends it, and tells how far it is. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster-client.h"
#include "command.h"
#include "json.h"
#include "path.h"
#include "service.h"
#include "verbs.h"

enum { KEY_WAIT = 1000, POLL_MS = 200 };

struct arguments {
	struct words words;
	struct ask_form ask;
	bool wait;
};

static int ask(const struct arguments *a, const struct process *keeper, const char *verb, json_t **answer, struct problem *p)
{
	cleanup_path char *line = path_format("cluster rebalance %s %s", verb, a->words.word[1]);

	return keeper_ask(keeper, line, NULL, answer, p);
}

static bool is(const json_t *answer, const char *state)
{
	return !strcmp(json_text(answer, "state"), state);
}

/* ---- what is told ---- */

#define N JSON_INTEGER_FORMAT

static const char *why(const char *reason);

/* "alpha:/b1 alpha:/b2 " */
static void print_leaving(const json_t *d)
{
	const json_t *list = json_object_get(d, "leaving");
	json_t *one;
	size_t i;

	json_array_foreach((json_t *)list, i, one) printf("%s ", json_string_value(one));
}

static void print_skipped(const json_t *d, const char *what)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)d, key, value) if (!strncmp(key, "skipped-", 8))
		printf("  %" N " files %s: %s\n", json_integer_value(value), what, why(key + 8));
}

/* Of a volume with tenants: each has names of his own. */
static void print_tenants(const json_t *d)
{
	json_int_t left = json_number(d, "seconds-left");
	const char *before = " (at work: ";
	json_t *one;
	size_t i;

	if (!json_object_get(d, "tenants"))
		return;
	printf("  %" N " of %" N " tenants are done", json_number(d, "tenants-done"), json_number(d, "tenants"));
	json_array_foreach(json_object_get(d, "at-work"), i, one)
	{
		printf("%s%s", before, json_string_value(one));
		before = ", ";
	}
	if (i)
		putchar(')');
	if (left)
		printf("; about %" N " s are left, if the others have as much", left);
	putchar('\n');
}

/* Of the step that is under way. */
static void print_time(const json_t *d)
{
	if (json_object_get(d, "seconds-left") && !json_object_get(d, "tenants"))
		printf("; about %" N " s are left of this", json_number(d, "seconds-left"));
}

static void print_emptied(const json_t *d)
{
	printf("volume %s: ", json_text(d, "volume"));
	print_leaving(d);
	printf("is being emptied%s%s%s: %" N " names have moved, and %" N " files (%" N " bytes)",
	       *json_text(d, "step") ? " (" : "", json_text(d, "step"), *json_text(d, "step") ? ")" : "",
	       json_number(d, "moved"), json_number(d, "files"), json_number(d, "bytes"));
	if (json_object_get(d, "stays-names"))
		printf("; at the last look it had %" N " names, %" N " files, %" N " directories, and %" N " things under way",
		       json_number(d, "stays-names"), json_number(d, "stays-files"), json_number(d, "stays-directories"),
		       json_number(d, "stays-records"));
	if (json_number(d, "stays-open"))
		printf("; %" N
		       " files that have gone were moved just now, or are open since before: it waits until they are closed",
		       json_number(d, "stays-open"));
	print_time(d);
	putchar('\n');
	print_tenants(d);
	print_skipped(d, "can't be brought away now");
	if (*json_text(d, "problem"))
		printf("  it waits: %s\n", json_text(d, "problem"));
}

static void print_running(const json_t *d)
{
	if (json_object_get(d, "leaving")) {
		print_emptied(d);
		return;
	}
	printf("volume %s: names move", json_text(d, "volume"));
	if (!strcmp(json_text(d, "step"), "files"))
		printf(" no more; %" N " files (%" N " bytes) have come to where their names are", json_number(d, "files"),
		       json_number(d, "bytes"));
	else if (*json_text(d, "step"))
		printf(" (%s): %" N " moved, %" N " seen that are to", json_text(d, "step"), json_number(d, "moved"),
		       json_number(d, "left"));
	else if (!json_is_true(json_object_get(d, "leads")))
		printf("; how far it is knows the server that leads, as `stratus status` tells");
	print_time(d);
	putchar('\n');
	print_tenants(d);
	if (*json_text(d, "problem"))
		printf("  it waits: %s\n", json_text(d, "problem"));
}

static const char *why(const char *reason)
{
	static const char *const reasons[][2] = {
		{ "kind", "they are links or nodes at bricks of an older version" },
		{ "links", "they are where another of their names is" },
		{ "locked", "they are locked" },
		{ "changes", "they are large, and were being changed" },
		{ "recent", "they were moved, and who had them open then has them open still" },
		{ "full", "there is no room at their names" },
		{ "busy", "they were in use by something else that moves names" },
		{ "wide", "their names are in directories that have grown wide" },
	};

	for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
		if (!strcmp(reason, reasons[i][0]))
			return reasons[i][1];
	return reason;
}

static void print_idle(const json_t *d)
{
	json_int_t spread = json_number(d, "spread-over"), all = json_number(d, "subvolumes");
	const char *volume = json_text(d, "volume");

	if (spread == all)
		printf("volume %s: no bricks were added, there is nothing to move\n", volume);
	else
		printf("volume %s: names are spread over %" N " of %" N
		       " subvolumes; `stratus rebalance start %s` moves some to the "
		       "others\n",
		       volume, spread, all, volume);
}

static void print_done(const json_t *d, const char *volume)
{
	printf("volume %s: all %" N " subvolumes have their part of the names; %" N " have moved, and %" N " files (%" N
	       " bytes) have come to where their names are\n",
	       volume, json_number(d, "subvolumes"), json_number(d, "moved"), json_number(d, "files"), json_number(d, "bytes"));
	print_skipped(d, "stay elsewhere");
	if (json_number(d, "failed"))
		printf("  %" N " files could not be brought, as the log tells; `stratus rebalance start %s` tries again\n",
		       json_number(d, "failed"), volume);
}

static void print_ended(const json_t *d)
{
	const char *volume = json_text(d, "volume");

	if (is(d, "done"))
		print_done(d, volume);
	else if (is(d, "failed"))
		printf("volume %s: failed after %" N " names: %s; `stratus rebalance start %s` tries again\n", volume,
		       json_number(d, "moved"), json_text(d, "problem"), volume);
	else
		printf("volume %s: %s after %" N " names; `stratus rebalance start %s` goes on\n", volume,
		       json_text(d, "state"), json_number(d, "moved"), volume);
}

static void print(const struct arguments *a, const json_t *d)
{
	if (a->ask.json)
		json_show(d);
	else if (is(d, "running"))
		print_running(d);
	else if (is(d, "idle"))
		print_idle(d);
	else
		print_ended(d);
	fflush(stdout);
}

/* ---- verbs ---- */

static bool differs(const json_t *now, const json_t *before)
{
	static const char *const told[] = {
		"state", "step", "moved", "files", "problem", "stays-files", "stays-directories", "stays-open", "tenants-done"
	};
	bool other = !before;

	for (size_t i = 0; i < sizeof told / sizeof *told && !other; i++) {
		const json_t *x = json_object_get(now, told[i]), *y = json_object_get(before, told[i]);

		other = (x || y) && !json_equal(x, y);
	}
	return other;
}

/* Until it is in this state no more. *answer: the last one. Each that differs is told, but for the last. */
static int wait_while(const struct arguments *a, const struct process *keeper, const char *state, json_t **answer,
		      struct problem *p)
{
	json_t *shown = NULL;
	int err = 0;

	while (!err && is(*answer, state)) {
		if (!a->ask.json && differs(*answer, shown))
			print(a, *answer);
		json_decref(shown);
		shown = *answer;
		*answer = NULL;
		usleep(POLL_MS * 1000);
		err = ask(a, keeper, "status", answer, p);
	}
	json_decref(shown);
	return err;
}

static int start(const struct arguments *a, const struct process *keeper, json_t **answer, struct problem *p)
{
	int err = ask(a, keeper, "start", answer, p);

	if (!err && a->wait)
		err = wait_while(a, keeper, "running", answer, p);
	if (err)
		return err;
	print(a, *answer);
	if (a->wait && is(*answer, "done") && json_number(*answer, "failed"))
		return problem_set(p, EIO,
				   "not all files could be brought: see the log, mend what it tells of, and start it again");
	if (!a->wait || is(*answer, "done") || is(*answer, "idle"))
		return 0;
	return problem_set(p, ECANCELED, "it is %s, not done", json_text(*answer, "state"));
}

static int stop(const struct arguments *a, const struct process *keeper, json_t **answer, struct problem *p)
{
	int err = ask(a, keeper, "stop", answer, p);

	if (!err)
		err = wait_while(a, keeper, "stopping", answer, p);
	if (!err)
		print(a, *answer);
	return err;
}

static int hold(const struct arguments *a, const struct process *keeper, json_t **answer, struct problem *p)
{
	int err = ask(a, keeper, "pause", answer, p);

	if (!err)
		print(a, *answer);
	return err;
}

static int status(const struct arguments *a, const struct process *keeper, json_t **answer, struct problem *p)
{
	int err = ask(a, keeper, "status", answer, p);

	if (!err)
		print(a, *answer);
	return err;
}

static int with_keeper(const struct arguments *a,
		       int (*fn)(const struct arguments *, const struct process *, json_t **, struct problem *),
		       struct problem *p)
{
	struct process keeper = { 0 };
	json_t *answer = NULL;
	int err = keeper_find(a->ask.stratusd, &keeper, p);

	if (!err)
		err = fn(a, &keeper, &answer, p);
	json_decref(answer);
	process_free(&keeper);
	return err;
}

static int rebalance_start(const struct arguments *a, struct problem *p)
{
	return with_keeper(a, start, p);
}

static int rebalance_stop(const struct arguments *a, struct problem *p)
{
	return with_keeper(a, stop, p);
}

static int rebalance_pause(const struct arguments *a, struct problem *p)
{
	return with_keeper(a, hold, p);
}

static int rebalance_status(const struct arguments *a, struct problem *p)
{
	return with_keeper(a, status, p);
}

static error_t option(int key, char *value, struct argp_state *state)
{
	struct arguments *a = state->input;

	if (key == ARGP_KEY_INIT) {
		state->child_inputs[0] = &a->ask;
		return 0;
	}
	if (key != KEY_WAIT)
		return words_take(&a->words, key, value, state);
	a->wait = true;
	return 0;
}

int command_rebalance(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "wait", KEY_WAIT, NULL, 0, "With start: tell how far it is, and return when it has ended", 0 }, { 0 }
	};
	static const struct argp_child children[] = { { &ask_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		options,
		option,
		"start VOLUME\npause VOLUME\nstop VOLUME\nstatus VOLUME",
		"Has names of the root of a volume moved to bricks that were added (`stratus brick add`), while it is in use. `start` begins "
		"or goes on, on the server that leads, and after a crash on the one that leads next; `pause` has it stand still where it "
		"is; `stop` ends it after the name that is being moved; `status` tells how far it is, and what the last one did.",
		children,
		NULL,
		NULL,
	};
	static const struct verb verbs[] = {
		{ "start", 2, 2, WITH_WAIT, rebalance_start },
		{ "pause", 2, 2, 0, rebalance_pause },
		{ "stop", 2, 2, 0, rebalance_stop },
		{ "status", 2, 2, 0, rebalance_status },
		{ 0 },
	};
	const char *word[2];
	struct arguments a = { .words = { word, 1, 2, 0 } };

	arguments_parse(&argp, argc, argv, 0, NULL, &a);
	return verbs_run(argv[0], verbs, word[0], a.words.count, a.wait ? WITH_WAIT : 0, &a);
}
