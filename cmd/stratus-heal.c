/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus heal`: what is still to heal in replica sets, and a brick that is healed as a whole. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "json.h"
#include "path.h"
#include "service.h"
#include "set.h"
#include "verbs.h"

struct arguments {
	struct asked asked;
};

/* Calls fn with the replica sets that the process coordinates. */
static int with_sets(const struct arguments *a,
		     int (*fn)(const struct arguments *, const struct process *, const json_t *sets, struct problem *),
		     struct problem *p)
{
	struct process process = { 0 };
	json_t *list = NULL;
	int err = sets_process(a->asked.ask.stratusd, &process, p);

	if (!err)
		err = sets_find(&process, &list, p);
	if (!err)
		err = fn(a, &process, list, p);
	json_decref(list);
	process_free(&process);
	return err;
}

/* ---- status ---- */

static void print_name(const json_t *m)
{
	if (*json_text(m, "brick"))
		printf("  %-8s %s:%s  ", json_text(m, "brick"), json_text(m, "server"), json_text(m, "directory"));
	else
		printf("  member %" JSON_INTEGER_FORMAT "  ", json_number(m, "member"));
}

static void print_member(const json_t *m)
{
	print_name(m);
	set_print_member(m);
}

static void print_set(const json_t *set)
{
	json_t *member;
	size_t i;

	printf("volume %s: %s, view %" JSON_INTEGER_FORMAT " (%s)\n", json_text(set, "volume"), set_state(set),
	       json_number(set, "epoch"), json_text(set, "why"));
	json_array_foreach(json_object_get(set, "members"), i, member) print_member(member);
	printf("  healed since the coordinator was started: %" JSON_INTEGER_FORMAT " objects, %" JSON_INTEGER_FORMAT
	       " bytes of file data\n",
	       json_number(set, "healed_objects"), json_number(set, "healed_bytes"));
}

static void print_sets(const json_t *list, bool json)
{
	json_t *set;
	size_t i;

	if (json) {
		json_show(list);
		return;
	}
	json_array_foreach((json_t *)list, i, set) print_set(set);
	if (!json_array_size(list))
		puts("no replica set is coordinated here");
}

static int show_status(const struct arguments *a, const struct process *process, const json_t *list, struct problem *p)
{
	json_t *chosen;

	if (a->asked.words.count == 1) {
		print_sets(list, a->asked.ask.json);
		return sets_complete(process, list, p);
	}
	chosen = sets_choose(process, list, a->asked.words.word[1], p);
	if (!chosen)
		return -ENOENT;
	print_sets(chosen, a->asked.ask.json);
	json_decref(chosen);
	return 0;
}

static int heal_status(const struct arguments *a, struct problem *p)
{
	return with_sets(a, show_status, p);
}

/* ---- full ---- */

static void conclude(const struct arguments *a, const json_t *set, int member, char *answer)
{
	json_t *object;

	answer[strcspn(answer, "\n")] = '\0';
	if (!a->asked.ask.json) {
		puts(answer);
		return;
	}
	object = json_pack("{s:s, s:i, s:s}", "volume", json_text(set, "volume"), "member", member, "answer", answer);
	json_show(object);
	json_decref(object);
}

static int begin_full(const struct arguments *a, const struct process *process, const json_t *list, struct problem *p)
{
	json_t *chosen = sets_choose(process, list, a->asked.words.word[1], p), *set;
	int member = 0, err = -ENOENT;
	char *answer = NULL;

	set = chosen ? sets_member(chosen, a->asked.words.word[2], &member, p) : NULL;
	if (set) {
		cleanup_path char *words = path_format("heal full %d", member);

		err = set_ask(process, set, words, &answer, p);
	}
	if (!err)
		conclude(a, set, member, answer);
	free(answer);
	json_decref(chosen);
	return err;
}

static int heal_full(const struct arguments *a, struct problem *p)
{
	return with_sets(a, begin_full, p);
}

int command_heal(int argc, char **argv)
{
	static const struct argp_child children[] = { { &ask_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		NULL,
		asked_option,
		"status [VOLUME]\nfull VOLUME BRICK",
		"Healing of replica sets, on the server that coordinates them. `status` tells for each brick its state, what is pending "
		"there, what was healed so far and when it may be done. `full` heals a brick (brickN, its number, or "
		"SERVER:/DIRECTORY) as a whole, from the root down; it is not read meanwhile.",
		children,
		NULL,
		NULL,
	};
	static const struct verb verbs[] = { { "status", 1, 2, 0, heal_status }, { "full", 3, 3, 0, heal_full }, { 0 } };
	const char *word[3];
	struct arguments a = { .asked.words = { word, 1, 3, 0 } };

	arguments_parse(&argp, argc, argv, 0, NULL, &a.asked);
	return verbs_run(argv[0], verbs, word[0], a.asked.words.count, 0, &a);
}
