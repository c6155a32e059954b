/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket of a running process: `stratus dump`, `stratus ctl`, log level, reload. */
#ifndef STRATUS_CONTROL_H
#define STRATUS_CONTROL_H
#include <stdbool.h>
#include <stdio.h>

struct graph;
struct problem;
/* A process answers on RUNDIR/PROGRAM-PID.sock (RUNDIR: $STRATUS_RUN, else /run/stratus for root, else
 * $XDG_RUNTIME_DIR/stratus). One line in, text out, then the connection closes; the first line of the answer is "ok" or
 * "error SENTENCE". Commands:
 *   ping | info (JSON: pid, program, graph, mount, bricks...) | dump | log-level [LEVEL] | options |
 *   set XLATOR OPTION VALUE | ctl XLATOR WORDS... | reload | stop
 * and what the program itself takes (command). A line whose last word is +SIZE is followed by so many bytes, at most
 * CONTROL_BODY_MAX. An XLATOR that several graphs have can be named as GRAPH:XLATOR, GRAPH being the graph's path. */
enum { CONTROL_BODY_MAX = 9 << 20 };
struct control_handler {
	const char *program; /* "stratusd", "mount" */
	/* Calls fn for each graph, none of which may go while it runs; a command of a translator runs in there. */
	void (*each_graph)(void (*fn)(struct graph *, void *), void *arg);
	void (*info)(FILE *);		 /* the members of the JSON object */
	int (*reload)(struct problem *); /* read the volfiles again */
	void (*stop)(void);
	/* Any other command; body: what followed the line, with a NUL behind it, or NULL. *known is false if it is none of the
	 * program's. May be NULL. */
	int (*command)(int words, char **word, const char *body, FILE *, bool *known, struct problem *);
};
int control_start(const struct control_handler *, struct problem *);
void control_stop(void);
const char *control_rundir(void); /* made if it is not there */
/* Nobody else can put sockets there, or links under the names of files to come. -EPERM and a sentence. */
int control_rundir_check(struct problem *);
/* The client's side: sends a line to the socket, and a text that follows it (the line must not name its size; NULL: none), and copies
 * the answer (without "ok") to `out`. 0, or -errno with a sentence; -ETIMEDOUT: no answer for so many seconds. */
enum { CONTROL_PROBE_S = 5, CONTROL_COMMAND_S = 120 };
int control_send(const char *socket_path, const char *line, const char *body, unsigned limit_s, FILE *out, struct problem *);
/* The program's name (malloc'ed) and the pid that a socket's path has; NULL: it is none of ours. */
char *control_owner(const char *socket_path, int *pid);
/* Also what SIGUSR1 does: writes all facts to RUNDIR/PROGRAM-PID.dump. */
void control_dump(FILE *);
#endif
