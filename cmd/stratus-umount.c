/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus umount`: unmounts and waits until the process behind the mount has ended. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "path.h"
#include "process.h"
#include "service.h"

enum { WAIT_SECONDS = 30 };
static bool lazy;

static error_t option(int key, char *value, struct argp_state *state)
{
	if (key != 'l')
		return words_take(state->input, key, value, state);
	lazy = true;
	return 0;
}

static int run_fusermount(const char *directory, struct problem *p)
{
	int status = 0;
	pid_t child = fork();

	if (!child) {
		execlp("fusermount3", "fusermount3", lazy ? "-uz" : "-u", directory, NULL);
		fprintf(stderr, "stratus umount: can't run fusermount3 (%m): install the package fuse3\n");
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return problem_set(p, errno, "can't start fusermount3: %m");
	return WIFEXITED(status) && !WEXITSTATUS(status)
		       ? 0
		       : problem_set(p, EBUSY, "fusermount3 did not unmount %s (see above): close what uses it, or use --lazy",
				     directory);
}

static int unmount(const char *directory, struct problem *p)
{
	if (geteuid())
		return run_fusermount(directory, p);
	if (!umount2(directory, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)))
		return 0;
	if (errno == EBUSY)
		return problem_set(p, EBUSY, "%s is in use: close what has files or its working directory there, or use --lazy",
				   directory);
	if (errno == EINVAL)
		return problem_set(p, EINVAL, "%s is not a mount point; `stratus ps` lists those there are", directory);
	return problem_set(p, errno, "can't unmount %s: %m", directory);
}

int command_umount(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "lazy", 'l', NULL, 0, "Detach it at once; it ends when nothing uses it any more", 0 },
		{ 0 },
	};
	static const struct argp argp = {
		options,     option,
		"DIRECTORY", "Unmounts a volume. Returns when its process has ended, so all is written and released.",
		NULL,	     NULL,
		NULL,
	};
	struct problem p = { "" }, ignored = { "" };
	struct process process = { 0 };
	const char *word[1];
	struct words words = { word, 1, 1, 0 };
	int err, known;

	arguments_parse(&argp, argc, argv, 0, NULL, &words);
	known = !process_find(word[0], &process, &ignored) && process_mountpoint(&process);
	err = unmount(known ? process_mountpoint(&process) : word[0], &p);
	if (!err && known && !lazy && process_wait(process_pid(&process), WAIT_SECONDS))
		err = problem_set(&p, ETIMEDOUT, "%s is unmounted, but its process %d still runs: see its log", word[0],
				  process_pid(&process));
	if (!err && !known && !lazy)
		fprintf(stderr, "%s: the process of %s was not found, so it was not waited for\n", argv[0], word[0]);
	process_free(&process);
	return err ? problem_print(argv[0], &p) : 0;
}
