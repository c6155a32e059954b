/* SPDX-License-Identifier: Apache-2.0 */
/* The StratusFS processes of this user, found by their control sockets. */
#ifndef STRATUS_PROCESS_H
#define STRATUS_PROCESS_H
#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

struct problem;
struct process {
	char *socket;
	json_t *info; /* what it says of itself: program, pid, mountpoint or volfiles, volumes */
};
struct processes {
	struct process *one;
	size_t count;
};
/* All. Sockets that a killed process has left are removed. */
int processes_find(struct processes *, struct problem *);
void processes_free(struct processes *);
pid_t process_pid(const struct process *);
const char *process_program(const struct process *);
bool process_answers(const struct process *);		/* else nothing else is known of it */
const char *process_mountpoint(const struct process *); /* NULL for servers */

/* The process that `target` names: a pid, a mount point, a volfile, a control socket, or "stratusd" or "mount" if there
 * is one of it. Without one: -ENOENT or -EINVAL, and a sentence. One that does not answer: -ETIMEDOUT. */
int process_find(const char *target, struct process *, struct problem *);
void process_free(struct process *);
/* Sends a line and gives the answer as text (malloc'ed). */
int process_ask(const struct process *, const char *line, char **answer, struct problem *);
/* Waits until it has ended. 0, or -ETIMEDOUT. */
int process_wait(pid_t, unsigned seconds);
#endif
