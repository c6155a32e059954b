/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus ps`: the processes that run. */
#include <string.h>

#include "command.h"
#include "json.h"
#include "control.h"
#include "process.h"
#include "service.h"

static bool as_json;

static error_t option(int key, char *value, struct argp_state *state)
{
	if (key != 'j')
		return words_take(state->input, key, value, state);
	as_json = true;
	return 0;
}

static void print_line(const struct process *process)
{
	json_t *volfiles = json_object_get(process->info, "volfiles"), *one;
	const char *mountpoint = process_mountpoint(process);
	size_t i;

	printf("%8d  %-9s", process_pid(process), process_program(process));
	if (mountpoint)
		printf(" %s from %s", mountpoint, json_string_value(json_object_get(process->info, "volfile")));
	if (json_object_get(process->info, "state"))
		printf(" the volumes of %s", json_string_value(json_object_get(process->info, "state")));
	if (!process_answers(process))
		fputs(" does not answer", stdout);
	json_array_foreach(volfiles, i, one) printf(" %s", json_string_value(one));
	putchar('\n');
}

static void print_all(const struct processes *all)
{
	json_t *list = json_array();

	for (size_t i = 0; i < all->count; i++) {
		json_object_set_new(all->one[i].info, "socket", json_string(all->one[i].socket));
		json_array_append(list, all->one[i].info);
		if (!as_json)
			print_line(&all->one[i]);
	}
	if (as_json) {
		json_show(list);
	} else if (!all->count) {
		printf("no process answers in %s\n", control_rundir());
	}
	json_decref(list);
}

int command_ps(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "json", 'j', NULL, 0, "Print JSON", 0 },
		{ 0 },
	};
	static const struct argp argp = {
		options,
		option,
		"",
		"Lists the servers and mounts that run, with their pids, mount points and volfiles: those of your "
		"user, whose control sockets "
		"lie in $STRATUS_RUN, or /run/stratus for root, or $XDG_RUNTIME_DIR/stratus.",
		NULL,
		NULL,
		NULL,
	};
	struct problem p = { "" };
	struct processes all;
	struct words words = { NULL, 0, 0, 0 };

	arguments_parse(&argp, argc, argv, 0, NULL, &words);
	if (processes_find(&all, &p))
		return problem_print(argv[0], &p);
	print_all(&all);
	processes_free(&all);
	return 0;
}
