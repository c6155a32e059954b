/* SPDX-License-Identifier: Apache-2.0 */
/* A command of `stratus`: what its word is, what it does, and how it reads its arguments. */
#ifndef STRATUS_COMMAND_H
#define STRATUS_COMMAND_H
#include <stdbool.h>
#include <stdio.h>

#include "arguments.h"
#include "log.h"

struct command {
	const char *name, *summary;
	int (*run)(int argc, char **argv); /* argv[0] is "stratus NAME"; returns the exit status */
};

/* The commands, each in the file of its name. */
int command_mount(int argc, char **argv);
int command_umount(int argc, char **argv);
int command_key(int argc, char **argv);
int command_reload(int argc, char **argv);
int command_volgen(int argc, char **argv);
int command_graph(int argc, char **argv);
int command_demo(int argc, char **argv);
int command_apply(int argc, char **argv);
int command_volume(int argc, char **argv);
int command_tenant(int argc, char **argv);
int command_access(int argc, char **argv);
int command_usage(int argc, char **argv);
int command_quota(int argc, char **argv);
int command_brick(int argc, char **argv);
int command_server(int argc, char **argv);
int command_status(int argc, char **argv);
int command_heal(int argc, char **argv);
int command_scrub(int argc, char **argv);
int command_fsck(int argc, char **argv);
int command_rebalance(int argc, char **argv);
int command_locate(int argc, char **argv);
int command_ca(int argc, char **argv);
int command_cert(int argc, char **argv);
int command_ps(int argc, char **argv);
int command_dump(int argc, char **argv);
int command_stats(int argc, char **argv);
int command_ctl(int argc, char **argv);
int command_set(int argc, char **argv);
int command_log_level(int argc, char **argv);
int command_xlator(int argc, char **argv);
int command_version(int argc, char **argv);
int mount_helper(int argc, char **argv); /* mount.stratus, as mount(8) calls it */

/* As argp_parse(); a long option that is none is told with the nearest there is, and ends the process with status 2. */
void arguments_parse(const struct argp *, int argc, char **argv, unsigned flags, int *end, void *input);
/* How that verb of the command that was parsed is written, "" if its help has no form of it. malloc'ed. */
char *arguments_of_verb(const char *verb);
/* Parses words without options into words[0..max) (NULL-ended); exits 2 if there are fewer than min, or more than max.
 */
struct words {
	const char **word;
	int min, max, count;
};
error_t words_take(struct words *, int key, char *value, struct argp_state *);
/* The number of days that an option says, 1 to `most`; exits 2 if it says anything else. */
unsigned days_take(const char *value, unsigned most, struct argp_state *);

enum { EXIT_USAGE = 2 };
/* A word that a command does not know (the names end with NULL), or too many or too few behind it: say so on stderr, return
 * EXIT_USAGE. */
int word_unknown(const char *program, const char *word, const char *const *names);
int word_count_wrong(const char *program, const char *word);
#endif
