/* SPDX-License-Identifier: Apache-2.0 */
/* Finds running processes through the sockets in the run directory, and asks them. */
#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "control.h"
#include "log.h"
#include "path.h"
#include "process.h"

static int ask_socket(const char *socket, const char *line, unsigned limit_s, char **answer, struct problem *p)
{
	size_t size;
	FILE *to = open_memstream(answer, &size);
	int err = to ? control_send(socket, line, NULL, limit_s, to, p) : -ENOMEM;

	if (to)
		fclose(to);
	if (err) {
		free(*answer);
		*answer = NULL;
	}
	return err;
}

int process_ask(const struct process *process, const char *line, char **answer, struct problem *p)
{
	return ask_socket(process->socket, line, CONTROL_COMMAND_S, answer, p);
}

static int process_open(const char *socket, struct process *process, struct problem *p)
{
	char *answer = NULL;
	int err = ask_socket(socket, "info", CONTROL_PROBE_S, &answer, p);

	if (err)
		return err;
	process->info = json_loads(answer, 0, NULL);
	process->socket = path_format("%s", socket);
	free(answer);
	if (json_is_object(process->info))
		return 0;
	process_free(process);
	return problem_set(p, EPROTO, "the process at %s does not say what it is: it may be of another version", socket);
}

void process_free(struct process *process)
{
	json_decref(process->info);
	free(process->socket);
	*process = (struct process){ 0 };
}

pid_t process_pid(const struct process *process)
{
	return json_integer_value(json_object_get(process->info, "pid"));
}

const char *process_program(const struct process *process)
{
	const char *program = json_string_value(json_object_get(process->info, "program"));

	return program ? program : "?";
}

const char *process_mountpoint(const struct process *process)
{
	return json_string_value(json_object_get(process->info, "mountpoint"));
}

bool process_answers(const struct process *process)
{
	return !json_is_false(json_object_get(process->info, "answers"));
}

/* What the name of its socket says of one that does not answer. */
static bool open_silent(const char *socket, struct process *process)
{
	int pid;
	char *program = control_owner(socket, &pid);

	if (!program)
		return false;
	process->info = json_pack("{s:s, s:i, s:b}", "program", program, "pid", pid, "answers", 0);
	process->socket = path_format("%s", socket);
	free(program);
	return true;
}

int processes_find(struct processes *all, struct problem *p)
{
	cleanup_path char *pattern = path_format("%s/*.sock", control_rundir());
	glob_t found = { 0 };
	int err = control_rundir_check(p);

	*all = (struct processes){ 0 };
	if (err)
		return err;
	err = glob(pattern, 0, NULL, &found);
	if (err && err != GLOB_NOMATCH)
		return problem_set(p, EACCES, "can't list the processes in %s: %m", control_rundir());
	all->one = calloc(found.gl_pathc + 1, sizeof *all->one);
	for (size_t i = 0; all->one && i < found.gl_pathc; i++) {
		struct problem ignored = { "" };

		err = process_open(found.gl_pathv[i], &all->one[all->count], &ignored);
		if (!err || (err == -ETIMEDOUT && open_silent(found.gl_pathv[i], &all->one[all->count])))
			all->count++;
		else if (err == -ECONNREFUSED)
			unlink(found.gl_pathv[i]);
	}
	globfree(&found);
	return all->one ? 0 : problem_set(p, ENOMEM, "out of memory");
}

void processes_free(struct processes *all)
{
	for (size_t i = 0; i < all->count; i++)
		process_free(&all->one[i]);
	free(all->one);
	*all = (struct processes){ 0 };
}

static bool serves(const struct process *process, const char *path)
{
	json_t *list = json_object_get(process->info, "volfiles"), *one;
	const char *volfile = json_string_value(json_object_get(process->info, "volfile"));
	size_t i;

	json_array_foreach(list, i, one) if (!strcmp(json_string_value(one), path)) return true;
	return volfile && !strcmp(volfile, path);
}

static bool named(const struct process *process, const char *target, const char *path)
{
	char pid[32];

	snprintf(pid, sizeof pid, "%d", process_pid(process));
	if (!strcmp(target, pid) || !strcmp(target, process_program(process)))
		return true;
	return (process_mountpoint(process) && !strcmp(path, process_mountpoint(process))) || serves(process, path);
}

/* The path as a process names it, without asking a mount that may not answer: only the directory above is resolved. */
static char *target_path(const char *target)
{
	char *whole = path_absolute(target), *slash, *real;
	size_t length = strlen(whole);

	while (length > 1 && whole[length - 1] == '/')
		whole[--length] = '\0';
	slash = strrchr(whole, '/');
	if (slash == whole)
		return whole;
	*slash = '\0';
	real = realpath(whole, NULL);
	if (real) {
		char *joined = path_format("%s/%s", strcmp(real, "/") ? real : "", slash + 1);

		free(real);
		free(whole);
		return joined;
	}
	*slash = '/';
	return whole;
}

int process_find(const char *target, struct process *process, struct problem *p)
{
	cleanup_path char *path = target_path(target);
	struct processes all;
	size_t matches = 0, which = 0, length = strlen(target);
	int err;

	if (length > 5 && !strcmp(target + length - 5, ".sock"))
		return process_open(target, process, p);
	err = processes_find(&all, p);
	if (err)
		return err;
	for (size_t i = 0; i < all.count; i++)
		if (named(&all.one[i], target, path)) {
			matches++;
			which = i;
		}
	if (matches == 1 && !process_answers(&all.one[which])) {
		err = problem_set(p, ETIMEDOUT, "process %d (%s) does not answer; see its log", process_pid(&all.one[which]),
				  process_program(&all.one[which]));
	} else if (matches == 1) {
		*process = all.one[which];
		all.one[which] = (struct process){ 0 };
	} else if (matches) {
		err = problem_set(p, EINVAL, "'%s' names %zu processes: take the pid of one from `stratus ps`", target,
				  matches);
	} else {
		err = problem_set(p, ENOENT,
				  "no process of yours is '%s': give a pid, mount point or volfile from `stratus ps`", target);
	}
	processes_free(&all);
	return err;
}

int process_wait(pid_t pid, unsigned seconds)
{
	struct pollfd ended = { .fd = pidfd_open(pid, 0), .events = POLLIN };
	int n;

	if (ended.fd < 0)
		return errno == ESRCH ? 0 : -errno;
	n = poll(&ended, 1, seconds * 1000);
	close(ended.fd);
	return n == 1 ? 0 : -ETIMEDOUT;
}
