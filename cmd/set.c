/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the coordinator of a replica set through the control socket of its process. */
#include "set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-client.h"
#include "json.h"
#include "log.h"
#include "path.h"

int sets_process(const char *target, struct process *process, struct problem *p)
{
	return target ? process_find(target, process, p) : keeper_find(NULL, process, p);
}

int set_ask(const struct process *process, const json_t *set, const char *words, char **answer, struct problem *p)
{
	cleanup_path char *line = path_format("ctl %s %s", json_text(set, "coordinator"), words);

	*answer = NULL;
	return process_ask(process, line, answer, p);
}

/* ---- the sets of a process ---- */

static json_t *of_volume(const json_t *list, const char *member, const char *volume)
{
	json_t *one;
	size_t i;

	json_array_foreach((json_t *)list, i, one) if (!strcmp(json_text(one, member), volume)) return one;
	return NULL;
}

static int add_set(const struct process *process, const char *coordinator, json_t *list, struct problem *p)
{
	json_t *named, *set;
	char *answer = NULL;
	int err;

	if (of_volume(list, "coordinator", coordinator))
		return problem_set(p, EINVAL,
				   "several coordinators of process %d are called '%s': give each a stratusd of its own",
				   process_pid(process), coordinator);
	named = json_pack("{s:s}", "coordinator", coordinator);
	err = set_ask(process, named, "status --json", &answer, p);
	set = err ? NULL : json_loads(answer, 0, NULL);
	free(answer);
	if (!err && !json_is_object(set))
		err = problem_set(p, EPROTO, "the coordinator %s has not answered in JSON: it may be of another version",
				  coordinator);
	if (!err && !json_object_update(set, named))
		json_array_append(list, set);
	json_decref(named);
	json_decref(set);
	return err;
}

/* A set is called VOLUME, or VOLUME:NUMBER in a volume that began with several, and where others came (spec_set_name). */
static bool is_of(const char *set, const char *volume)
{
	size_t length = strlen(volume);

	return !strncmp(set, volume, length) && (!set[length] || set[length] == ':');
}

static size_t number_of(const char *set)
{
	const char *colon = strchr(set, ':');

	return colon ? strtoul(colon + 1, NULL, 10) : 0;
}

static const json_t *find_brick(const json_t *volume, size_t number)
{
	cleanup_path char *name = path_format("brick%zu", number);
	json_t *brick;
	size_t i;

	json_array_foreach(json_object_get(volume, "bricks"), i,
			   brick) if (!strcmp(json_text(brick, "name"), name)) return brick;
	return NULL;
}

/* What the cluster store calls the members: they are bricks of the volume, whose numbers follow from the set's. */
static void name_set(json_t *set, const json_t *volume)
{
	size_t first = number_of(json_text(set, "volume")) * (size_t)json_number(volume, "replica"), i;
	const json_t *brick;
	json_t *member;

	json_array_foreach(json_object_get(set, "members"), i, member)
	{
		brick = find_brick(volume, first + i);
		json_object_set_new(member, "brick", json_string(json_text(brick, "name")));
		json_object_set_new(member, "server", json_string(json_text(brick, "server")));
		json_object_set_new(member, "directory", json_string(json_text(brick, "directory")));
	}
}

static void name_members(json_t *list, const json_t *volumes)
{
	json_t *volume, *set;
	size_t v, i;

	json_array_foreach((json_t *)volumes, v, volume) json_array_foreach(list, i, set)
	{
		if (is_of(json_text(set, "volume"), json_text(volume, "name")))
			name_set(set, volume);
	}
}

int sets_find(const struct process *process, json_t **list, struct problem *p)
{
	json_t *volume, *all = NULL;
	size_t i;
	int err = 0;

	*list = json_array();
	json_array_foreach(json_object_get(process->info, "volumes"), i, volume)
	{
		if (!err && !strcmp(json_text(volume, "type"), "cluster/coordinator"))
			err = add_set(process, json_text(volume, "name"), *list, p);
	}
	if (!err && keeper_is(process))
		err = keeper_ask(process, "cluster status", NULL, &all, p);
	if (!err)
		name_members(*list, json_object_get(all, "volumes"));
	json_decref(all);
	return err;
}

/* ---- one of them ---- */

/* Why the store's volume has no coordinator here. */
static int explain_volume(const json_t *v, const char *name, struct problem *p)
{
	const char *why = json_text(json_object_get(v, "set"), "problem");

	if (!v)
		return problem_set(p, ENOENT, "there is no volume '%s' here: `stratus volume info` lists those there are",
				   name);
	if (json_number(v, "replica") < 2)
		return problem_set(p, EINVAL, "volume %s has no replicas: there is nothing to heal from or to compare with",
				   name);
	if (!json_is_true(json_object_get(v, "started")))
		return problem_set(p, EINVAL, "volume %s is stopped: `stratus volume start %s` starts it", name, name);
	if (*why)
		return problem_set(p, EIO, "the coordinator of volume %s does not run: %s", name, why);
	return problem_set(
		p, EREMOTE,
		"the coordinator of volume %s is not here: it runs on the server that leads, as `stratus status` tells", name);
}

static int explain(const struct process *process, const json_t *list, const char *set, struct problem *p)
{
	cleanup_path char *volume = path_format("%.*s", (int)strcspn(set, ":"), set);
	json_t *all = NULL;
	int err;

	if (!keeper_is(process))
		return problem_set(p, ENOENT, "process %d coordinates no volume '%s'%s%s", process_pid(process), volume,
				   json_array_size(list) ? ", but " : "", json_text(json_array_get(list, 0), "volume"));
	err = keeper_ask(process, "cluster status", NULL, &all, p);
	if (!err)
		err = explain_volume(of_volume(json_object_get(all, "volumes"), "name", volume), volume, p);
	json_decref(all);
	return err;
}

json_t *sets_choose(const struct process *process, const json_t *list, const char *name, struct problem *p)
{
	cleanup_path char *plain = path_format("%.*s", (int)strcspn(name, ":"), name);
	const char *colon = strchr(name, ':');
	json_t *chosen = json_array(), *set;
	size_t i;

	json_array_foreach((json_t *)list, i, set)
	{
		if (is_of(json_text(set, "volume"), name))
			json_array_append(chosen, set);
	}
	if (!json_array_size(chosen) && colon && !strcmp(colon, ":0")) /* the first of a volume that began with it */
		json_array_append(chosen, of_volume(list, "volume", plain));
	if (json_array_size(chosen))
		return chosen;
	explain(process, list, name, p);
	json_decref(chosen);
	return NULL;
}

/* Those before it may have left: so sets are known by the numbers of their first bricks, which are told in their order. */
static bool has_set(const json_t *list, const json_t *v, const json_t *brick)
{
	const char *name = json_text(v, "name"),
		   *number = json_text(brick, "name") + strcspn(json_text(brick, "name"), "0123456789");
	size_t set_number = strtoul(number, NULL, 10) / (size_t)json_number(v, "replica");
	cleanup_path char *set = path_format("%s:%zu", name, set_number);

	return of_volume(list, "volume", set) || (!set_number && of_volume(list, "volume", name));
}

static bool has_all(const json_t *list, const json_t *v)
{
	size_t replica = (size_t)json_number(v, "replica"), i;
	bool all = true;
	json_t *brick;

	json_array_foreach(json_object_get(v, "bricks"), i, brick)
	{
		if (replica > 1 && i % replica == 0)
			all &= has_set(list, v, brick);
	}
	return all;
}

int sets_complete(const struct process *process, const json_t *list, struct problem *p)
{
	json_t *all = NULL, *v;
	size_t i;
	int err = keeper_is(process) ? keeper_ask(process, "cluster status", NULL, &all, p) : 0;

	json_array_foreach(json_object_get(all, "volumes"), i, v)
	{
		if (!err && json_is_true(json_object_get(v, "started")) && !has_all(list, v))
			err = explain_volume(v, json_text(v, "name"), p);
	}
	json_decref(all);
	return err;
}

/* What the store calls the member; without a store it is counted. malloc'ed. */
static char *brick_name(const json_t *m, size_t number)
{
	const char *name = json_text(m, "brick");

	return *name ? path_format("%s", name) : path_format("brick%zu", number);
}

static bool is_called(const json_t *m, const char *name, size_t number)
{
	cleanup_path char *brick = brick_name(m, number);
	cleanup_path char *place = path_format("%s:%s", json_text(m, "server"), json_text(m, "directory"));

	return !strcmp(name, brick) || !strcmp(name, brick + strlen("brick")) ||
	       (*json_text(m, "server") && !strcmp(name, place));
}

static void explain_member(const json_t *sets, const char *name, struct problem *p)
{
	const json_t *set = json_array_get(sets, 0), *last_set = json_array_get(sets, json_array_size(sets) - 1);
	const json_t *members = json_object_get(last_set, "members");
	size_t count = json_array_size(members);
	cleanup_path char *first = brick_name(json_array_get(json_object_get(set, "members"), 0), 0);
	cleanup_path char *last = brick_name(json_array_get(members, count - 1), json_array_size(sets) * count - 1);

	problem_set(p, ENOENT, "volume %s has no brick '%s': it has %s to %s", json_text(set, "volume"), name, first, last);
}

json_t *sets_member(const json_t *sets, const char *name, int *member, struct problem *p)
{
	size_t k, i, number = 0;
	json_t *set, *m;

	json_array_foreach((json_t *)sets, k, set) json_array_foreach(json_object_get(set, "members"), i, m)
	{
		*member = (int)i;
		if (is_called(m, name, number++))
			return set;
	}
	explain_member(sets, name, p);
	return NULL;
}

const char *set_state(const json_t *set)
{
	if (json_is_true(json_object_get(set, "writable")))
		return "writable";
	return json_is_true(json_object_get(set, "changes_wait")) ? "changes wait until its members are equal" : "read only";
}

void set_print_member(const json_t *m)
{
	json_int_t eta = json_number(m, "eta_seconds");

	fputs(json_text(m, "state"), stdout);
	if (!json_is_true(json_object_get(m, "answers")))
		fputs(", does not answer", stdout);
	else if (json_is_true(json_object_get(m, "all_pending")))
		fputs(", all is pending", stdout);
	else
		printf(", %" JSON_INTEGER_FORMAT " pending", json_number(m, "pending"));
	if (json_is_true(json_object_get(m, "healing")))
		printf(", healed %" JSON_INTEGER_FORMAT, json_number(m, "healed"));
	if (json_is_true(json_object_get(m, "to_heal")))
		fputs(", is to be healed", stdout);
	if (eta >= 0)
		printf(", ready in about %" JSON_INTEGER_FORMAT " s", eta);
	putchar('\n');
}
