/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus`: finds the command that its first word names. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "config.h"
#include "option.h"
#include "path.h"

static const struct command commands[] = {
	{ "mount", "mount a volume", command_mount },
	{ "umount", "unmount it", command_umount },
	{ "key", "keys for volumes that are encrypted", command_key },
	{ "volgen", "write volfiles from a specification", command_volgen },
	{ "graph", "draw the graph of a volfile", command_graph },
	{ "demo", "try it all on this machine", command_demo },
	{ "apply", "make a volume what its specification says", command_apply },
	{ "volume", "create, show, start, stop, delete, change volumes", command_volume },
	{ "usage", "what each tenant is charged on the bricks of this machine", command_usage },
	{ "tenant", "create, show, suspend, delete tenants of a volume", command_tenant },
	{ "access", "create, show, revoke access points of a tenant", command_access },
	{ "quota", "how much a directory of a mount may have", command_quota },
	{ "brick", "add bricks to a volume, replace one", command_brick },
	{ "server", "the servers of the cluster", command_server },
	{ "status", "servers, bricks, replica sets, free space", command_status },
	{ "heal", "what is still to heal; heal a brick as a whole", command_heal },
	{ "scrub", "compare the bricks of a replica set", command_scrub },
	{ "rebalance", "move names to bricks that were added", command_rebalance },
	{ "fsck", "check what is spread over subvolumes, and put it right", command_fsck },
	{ "locate", "on which bricks a file is, and why there", command_locate },
	{ "ca", "make a certificate authority", command_ca },
	{ "cert", "issue, revoke, list certificates", command_cert },
	{ "ps", "list running servers and mounts", command_ps },
	{ "dump", "all facts of a running process", command_dump },
	{ "stats", "counters and latencies of a running process", command_stats },
	{ "ctl", "send a command to a translator", command_ctl },
	{ "set", "change a live option", command_set },
	{ "log-level", "see or change what is logged", command_log_level },
	{ "reload", "read volfiles again", command_reload },
	{ "xlator", "list translators and their options", command_xlator },
	{ "version", "print the version", command_version },
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *to)
{
	fprintf(to, "Usage: stratus COMMAND [ARGUMENTS]\n\n");
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].summary);
	fprintf(to, "\n`stratus COMMAND --help` explains one. Exit status: 0 done, 1 failed, 2 wrong command line.\n");
}

static int unknown(const char *name)
{
	const char *names[COMMANDS + 1] = { NULL }, *nearest;

	for (size_t i = 0; i < COMMANDS; i++)
		names[i] = commands[i].name;
	nearest = nearest_name(name, names);
	fprintf(stderr, "stratus: there is no command '%s'%s%s%s; see stratus --help\n", name,
		nearest ? ": did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
	return EXIT_USAGE;
}

int word_unknown(const char *program, const char *word, const char *const *names)
{
	const char *nearest = nearest_name(word, names);

	fprintf(stderr, "%s: there is no '%s'%s%s%s; see %s --help\n", program, word, nearest ? ": did you mean '" : "",
		nearest ? nearest : "", nearest ? "'?" : "", program);
	return EXIT_USAGE;
}

int word_count_wrong(const char *program, const char *word)
{
	cleanup_path char *form = arguments_of_verb(word);

	if (*form)
		fprintf(stderr, "%s: '%s' takes other words: write %s %s\n", program, word, program, form);
	else
		fprintf(stderr, "%s: '%s' takes other words; see %s --help\n", program, word, program);
	return EXIT_USAGE;
}

static bool version_as_json;

static error_t version_option(int key, char *value, struct argp_state *state)
{
	if (key != 'j')
		return words_take(state->input, key, value, state);
	version_as_json = true;
	return 0;
}

int command_version(int argc, char **argv)
{
	static const struct argp_option options[] = { { "json", 'j', NULL, 0, "Print JSON", 0 }, { 0 } };
	static const struct argp argp = { options, version_option, "", "Prints the version.", NULL, NULL, NULL };
	struct words words = { NULL, 0, 0, 0 };

	arguments_parse(&argp, argc, argv, 0, NULL, &words);
	if (version_as_json)
		printf("{\"name\": \"%s\", \"version\": \"%s\"}\n", PACKAGE_NAME, PACKAGE_VERSION);
	else
		puts(PACKAGE_STRING);
	return 0;
}

static int run_command(const struct command *c, int argc, char **argv)
{
	cleanup_path char *name = path_format("stratus %s", c->name);

	argv[0] = name;
	return c->run(argc, argv);
}

/* Who writes to a full disk must hear of it: half a bill would pass for a whole one. At the exit, for argp ends by itself when it has told help. */
static void check_output(void)
{
	if (!fflush(stdout) && !ferror(stdout))
		return;
	fprintf(stderr, "stratus: not all of the output could be written: %s\n", strerror(errno));
	_exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
	const char *self = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	const char *name = argc > 1 ? argv[1] : "";

	atexit(check_output);
	argp_program_version = PACKAGE_STRING;
	argp_err_exit_status = EXIT_USAGE;
	if (!strcmp(self, "mount.stratus"))
		return mount_helper(argc, argv);
	if (!*name) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
		print_help(stdout);
		return 0;
	}
	if (!strcmp(name, "--version") || !strcmp(name, "-V"))
		name = "version";
	for (size_t i = 0; i < COMMANDS; i++)
		if (!strcmp(name, commands[i].name))
			return run_command(&commands[i], argc - 1, argv + 1);
	return unknown(name);
}
