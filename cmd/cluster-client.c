/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the stratusd that keeps the cluster store. */
#include "json.h"
#include "cluster-client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "log.h"
#include "path.h"

const char *keeper_server(const struct process *keeper)
{
	const char *name = json_string_value(json_object_get(keeper->info, "server"));

	return name ? name : "";
}

bool keeper_knows(const struct process *keeper, const char *server)
{
	json_t *name;
	size_t i;

	if (!strcmp(keeper_server(keeper), server))
		return true;
	json_array_foreach(json_object_get(keeper->info, "servers"), i, name)
	{
		if (!strcmp(json_string_value(name), server))
			return true;
	}
	return false;
}

bool keeper_is(const struct process *process)
{
	return json_is_string(json_object_get(process->info, "state"));
}

static int find_only(struct process *keeper, struct problem *p)
{
	struct processes all;
	size_t found = 0, which = 0;
	pid_t silent = 0;
	int err = processes_find(&all, p);

	if (err)
		return err;
	for (size_t i = 0; i < all.count; i++)
		if (keeper_is(&all.one[i])) {
			found++;
			which = i;
		} else if (!process_answers(&all.one[i]) && !strcmp(process_program(&all.one[i]), "stratusd")) {
			silent = process_pid(&all.one[i]);
		}
	if (found == 1) {
		*keeper = all.one[which];
		all.one[which] = (struct process){ 0 };
	} else if (found) {
		err = problem_set(p, EINVAL,
				  "%zu stratusd with a cluster store run here: name one of `stratus ps` with --stratusd",
				  found);
	} else if (silent) {
		err = problem_set(p, ETIMEDOUT, "process %d (stratusd) does not answer; see its log", silent);
	} else {
		err = problem_set(p, ENOENT,
				  "no stratusd with a cluster store answers in %s: run this on a server, as its user, after "
				  "`stratusd --state DIR`",
				  control_rundir());
	}
	processes_free(&all);
	return err;
}

int keeper_find(const char *target, struct process *keeper, struct problem *p)
{
	int err;

	if (!target)
		return find_only(keeper, p);
	err = process_find(target, keeper, p);
	if (err || keeper_is(keeper))
		return err;
	process_free(keeper);
	return problem_set(p, EINVAL, "%s keeps no cluster store: name a `stratusd --state DIR`", target);
}

int keeper_ask(const struct process *keeper, const char *line, const char *body, json_t **answer, struct problem *p)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);
	int err = to ? control_send(keeper->socket, line, body, CONTROL_COMMAND_S, to, p) : -ENOMEM;

	if (to)
		fclose(to);
	*answer = err ? NULL : json_loads(text, 0, NULL);
	if (!err && *text && !*answer)
		err = problem_set(p, EPROTO, "stratusd has answered something else than JSON: it may be of another version");
	free(text);
	return err;
}

int keeper_get(const struct process *keeper, const char *volume, struct spec *s, uint64_t *version, struct problem *p)
{
	cleanup_path char *line = path_format("cluster get %s", volume), *path = path_format("volume %s", volume);
	const char *text;
	json_t *answer;
	int err = keeper_ask(keeper, line, NULL, &answer, p);

	*s = (struct spec){ 0 };
	if (err)
		return err;
	text = json_string_value(json_object_get(answer, "text"));
	*version = json_integer_value(json_object_get(answer, "version"));
	err = text ? spec_parse(text, strlen(text), path, s, p) : -EPROTO;
	json_decref(answer);
	return err;
}

int keeper_commit(const struct process *keeper, const char *version, enum commit_form form, const struct spec *s,
		  json_t **answer, struct problem *p)
{
	static const char *const forms[] = { [COMMIT] = "", [COMMIT_BRIEFLY] = " brief", [COMMIT_DRY] = " dry-run" };
	cleanup_path char *line =
		path_format("cluster commit %s%s%s", version, forms[form % COMMIT_FORCE], form >= COMMIT_FORCE ? " force" : "");
	cleanup_path char *text = spec_text(s);

	return text ? keeper_ask(keeper, line, text, answer, p) : -ENOMEM;
}

int keeper_judge(const json_t *answer, struct problem *p)
{
	const char *problems = json_text(answer, "problems");

	return *problems
		       ? problem_set(
				 p, EIO,
				 "committed, but not all is served yet (stratusd tries again; `stratus status` tells when it is): %.*s",
				 (int)strcspn(problems, "\n"), problems)
		       : 0;
}
