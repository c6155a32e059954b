/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of which one word is a verb, and the options that several of them have. */
#ifndef STRATUS_VERBS_H
#define STRATUS_VERBS_H
#include <stdbool.h>
#include <stdint.h>

#include "arguments.h"
#include "command.h"

/* Options that do not go with each verb of a command. */
enum {
	WITH_DRY_RUN = 1 << 0,
	WITH_REPLICA = 1 << 1,
	WITH_ARBITER = 1 << 2,
	WITH_START = 1 << 3,
	WITH_BRICKS = 1 << 4,
	WITH_MOUNT = 1 << 5,
	WITH_PURGE = 1 << 6,
	WITH_WAIT = 1 << 7,
	WITH_TENANTS = 1 << 8,
	WITH_IDS = 1 << 9,
	WITH_LIMITS = 1 << 10,
	WITH_TLS = 1 << 11,
	WITH_ENCRYPT = 1 << 12,
	WITH_CANCEL = 1 << 13,
	WITH_ACCESS = 1 << 14,
	WITH_SERVER = 1 << 15,
	WITH_QUOTA = 1 << 16,
	WITH_JSON = 1 << 17,
	WITH_KEEP = 1 << 18,
	WITH_FORCE = 1 << 19,
	WITH_NEW_DISK = 1 << 20,
};

struct arguments; /* each command has its own */
struct problem;
struct verb {
	const char *name;
	int min, max;	  /* words, with the verb */
	unsigned options; /* WITH_... that may be given */
	int (*run)(const struct arguments *, struct problem *);
};
/* Runs the one of the verbs (the last has no name) that is called `word`. `words`: how many there are, with it; `given`: the options
 * that were. Returns the exit status; on EXIT_USAGE nothing was done. */
int verbs_run(const char *program, const struct verb *, const char *word, int words, unsigned given, const struct arguments *);

/* A number, or one with K, M, G, T (of 1024); "none" is 0. -EINVAL */
int amount_take(const char *text, uint64_t *amount);
/* --json, --stratusd: the input is a struct ask_form. */
struct ask_form {
	const char *stratusd; /* NULL: the only one */
	bool json;
};
extern const struct argp ask_argp;
/* A command of words and these, with ask_argp as its first child: asked_option is its parser, the input a struct asked. */
struct asked {
	struct words words;
	struct ask_form ask;
};
error_t asked_option(int key, char *value, struct argp_state *);
/* Prints "PROGRAM: warning: SENTENCE" to stderr if there is one (spec_warning()). */
struct spec;
void warn_of(const char *program, const struct spec *);
/* --replica, --arbiter, --tenants, --tls-dir: the input is a struct spec_form. */
extern const struct argp form_argp;
#endif
