/* SPDX-License-Identifier: Apache-2.0 */
/* What a process that stays has to do beside its work: leave the terminal, log, write its pid, obey signals. */
#ifndef STRATUS_SERVICE_H
#define STRATUS_SERVICE_H
#include <stdbool.h>

#include "arguments.h"
#include "control.h"
#include "log.h"

struct service {
	const char *program;  /* "stratusd", "mount" */
	const char *log_name; /* the log's name where --log gives none: without directory and ".log" */
	char *log, *pid_file; /* from the command line, may be NULL */
	bool foreground;
	int ready; /* the pipe on which the first process waits, -1 if there is none */
};
/* --foreground, --log, --log-level, --pid-file: a child parser whose input is a struct service. */
extern const struct argp service_argp;

/* Blocks the signals that service_run() takes, then goes to the background: the first process stays until
 * service_ready(), or until this one ends, and exits with its status. To be called before there are threads. */
int service_begin(struct service *, struct problem *);
/* From here log lines go to the log file. */
int service_open_log(struct service *, struct problem *);
/* All is served: writes the pid file, tells a service manager (NOTIFY_SOCKET; with --foreground), lets the first process exit 0, and lets go of the terminal. */
int service_ready(struct service *, struct problem *);
/* Obeys signals until SIGTERM or SIGINT, of which it logs who sent it: SIGHUP reopens the log and reloads, SIGUSR1 dumps. */
void service_run(struct service *, const struct control_handler *);
void service_stop(void); /* as if SIGTERM had come; from any thread */
void service_end(struct service *);

/* Prints "PROGRAM: SENTENCE" to stderr; returns the exit status 1. */
int problem_print(const char *program, const struct problem *);
#endif
