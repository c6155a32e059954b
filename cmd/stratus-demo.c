/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus demo`: the words for it, and what it tells. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "demo.h"
#include "json.h"
#include "path.h"
#include "service.h"
#include "verbs.h"

enum { KEY_DIR = 1000, KEY_MOUNT, KEY_BRICKS, KEY_REPLICA, KEY_JSON, KEY_PURGE, KEY_ENCRYPT, KEY_TENANTS, BRICKS_MAX = 64 };

struct arguments {
	struct words words;
	char *directory;
	struct demo_form form;
	bool json, purge, encrypt;
};

static unsigned number(const char *text, unsigned max, const char *what, struct argp_state *state)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*end || n < 1 || n > max)
		argp_error(state, "%s must be a number from 1 to %u, not '%s'", what, max, text);
	return n;
}

static error_t option(int key, char *value, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case KEY_DIR:
		free(a->directory);
		a->directory = path_format("%s", value);
		return 0;
	case KEY_MOUNT:
		a->form.mount = value;
		return 0;
	case KEY_BRICKS:
		a->form.bricks = number(value, BRICKS_MAX, "--bricks", state);
		return 0;
	case KEY_REPLICA:
		a->form.replica = number(value, SPEC_REPLICA_MAX, "--replica", state);
		return 0;
	case KEY_TENANTS:
		a->form.tenants = value;
		return 0;
	case KEY_JSON:
		a->json = true;
		return 0;
	case KEY_PURGE:
		a->purge = true;
		return 0;
	case KEY_ENCRYPT:
		a->encrypt = true;
		return 0;
	default:
		return words_take(&a->words, key, value, state);
	}
}

static char *usual_directory(void)
{
	const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");

	if (!geteuid())
		return path_format("/var/lib/stratus-demo");
	if (data && *data == '/')
		return path_format("%s/stratus-demo", data);
	return path_format("%s/.local/share/stratus-demo", home && *home == '/' ? home : "/tmp");
}

static json_t *bricks_json(const struct demo *d)
{
	json_t *list = json_array();

	for (size_t i = 0; i < d->spec.bricks; i++) {
		const struct process *mount = demo_mount(d, 0);
		json_t *pid = mount ? json_integer(process_pid(mount)) : json_null();

		json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:o}", "brick", d->spec.brick[i].directory, "mount",
						      d->mount, "mounted", mount != NULL, "pid", pid));
	}
	return list;
}

static json_t *mounts_json(const struct demo *d)
{
	json_t *list = json_array();

	for (size_t i = 0; i < demo_mounts(d); i++) {
		const struct process *mount = demo_mount(d, i);
		cleanup_path char *directory = demo_mountpoint(d, i);
		json_t *pid = mount ? json_integer(process_pid(mount)) : json_null();

		json_array_append_new(list, json_pack("{s:s?, s:s, s:b, s:o}", "tenant",
						      d->spec.has_tenants ? d->spec.tenant[i].name : NULL, "mount", directory,
						      "mounted", mount != NULL, "pid", pid));
	}
	return list;
}

static void print_json(const struct demo *d)
{
	const struct process *server = demo_server(d);
	json_t *pid = server ? json_integer(process_pid(server)) : json_null();
	json_t *all = json_pack("{s:s, s:b, s:o, s:s, s:i, s:i, s:i, s:o, s:o}", "directory", d->directory, "running",
				server != NULL, "server-pid", pid, "host", d->spec.server[0].host, "port",
				(int)spec_brick_port(&d->spec.brick[0]), "service-port", (int)d->port, "replica",
				d->spec.replica ? (int)d->spec.replica : 1, "bricks", bricks_json(d), "mounts", mounts_json(d));

	json_show(all);
	json_decref(all);
}

static void print_mount(const struct demo *d, size_t number)
{
	const struct process *mount = demo_mount(d, number);
	cleanup_path char *directory = demo_mountpoint(d, number);

	if (d->spec.has_tenants)
		printf("tenant %s: ", d->spec.tenant[number].name);
	if (mount)
		printf("mounted at %s by process %d\n", directory, process_pid(mount));
	else
		printf("not mounted\n");
}

static void print_text(const struct demo *d)
{
	const struct process *server = demo_server(d);

	printf("demo in %s\n", d->directory);
	if (server)
		printf("  server: process %d, volfiles at 127.0.0.1:%u\n", process_pid(server), d->port);
	else
		printf("  server: not running\n");
	for (size_t i = 0; i < d->spec.bricks; i++)
		printf("  brick %s\n", d->spec.brick[i].directory);
	fputs("  ", stdout);
	if (d->spec.replica)
		printf("%u replicas, ", d->spec.replica);
	if (spec_subvolumes(&d->spec) > 1)
		printf("spread over %zu %s, ", spec_subvolumes(&d->spec), d->spec.replica ? "sets" : "bricks");
	print_mount(d, 0);
	for (size_t i = 1; i < demo_mounts(d); i++) {
		fputs("  ", stdout);
		print_mount(d, i);
	}
}

/* For a shell: in quotes if it must be. */
static char *quoted(const char *path)
{
	return strpbrk(path, " \t\\\"$&;()*?[]<>|") && !strchr(path, '\'') ? path_format("'%s'", path)
									   : path_format("%s", path);
}

/* How the user can call this program: by its bare name if that has worked just now. */
static char *own_name(void)
{
	char *path = strchr(program_invocation_name, '/') ? realpath("/proc/self/exe", NULL) : NULL;

	return path ? path : path_format("stratus");
}

static void print_tenants_tries(const struct demo *d)
{
	cleanup_path char *first = demo_mountpoint(d, 0), *last = demo_mountpoint(d, demo_mounts(d) - 1);
	cleanup_path char *one = quoted(first), *other = quoted(last), *self = own_name(), *dir = quoted(d->directory);
	const char *name = d->spec.tenant[0].name;
	int server = demo_server(d) ? process_pid(demo_server(d)) : 0;

	printf("\nTry:\n"
	       "  cp -a /usr/include %s/ && ls -l %s       # neither sees the other\n"
	       "  %s usage --stratusd %d             # what each is charged, to the byte\n"
	       "  %s tenant resize %s %s --quota 100M --stratusd %d; df -h %s\n"
	       "  %s tenant suspend %s %s --stratusd %d     # and resume\n",
	       one, other, self, server, self, d->spec.volume, name, server, one, self, d->spec.volume, name, server);
	printf("  %s demo stop --dir %s      # the data stay; with --purge they go\n", self, dir);
}

static void print_tries(const struct demo *d)
{
	cleanup_path char *m = quoted(d->mount), *self = own_name();
	int server = demo_server(d) ? process_pid(demo_server(d)) : 0;
	cleanup_path char *brick = quoted(d->spec.brick[0].directory), *dir = quoted(d->directory);

	printf("\nTry:\n"
	       "  cp -a /usr/include %s/ && diff -r --no-dereference /usr/include %s/include\n"
	       "  ls -l %s                 # %s\n",
	       m, m, brick, d->spec.replica ? "each brick is a plain directory" : "the brick is a plain directory");
	printf("  %s status --stratusd %d          # servers, bricks, replica sets\n"
	       "  %s volume info %s --stratusd %d\n"
	       "  %s stats %d    # operations and their latencies\n"
	       "  %s dump %s     # all facts of the mount's process\n",
	       self, server, self, d->spec.volume, server, self, server, self, m);
	printf("  %s demo status --dir %s\n"
	       "  %s demo stop --dir %s      # the data stay; with --purge they go\n",
	       self, dir, self, dir);
}

static int start(const struct arguments *a, struct problem *p)
{
	struct demo d = { 0 };
	int err = 0;

	if (a->form.replica > 1 && a->form.bricks % a->form.replica)
		return problem_set(p, EINVAL, "%u bricks are no sets of %u: give a multiple", a->form.bricks, a->form.replica);
	if (a->form.tenants)
		err = demo_check_names(a->form.tenants, p);
	if (!err)
		err = demo_create(&d, a->directory, &a->form, p);
	if (!err && a->encrypt)
		err = demo_encrypt(&d, p);
	if (!err)
		err = demo_start(&d, p);
	if (!err && a->json)
		print_json(&d);
	if (!err && !a->json) {
		print_text(&d);
		d.spec.has_tenants ? print_tenants_tries(&d) : print_tries(&d);
	}
	demo_close(&d);
	return err;
}

static int status(const struct arguments *a, struct problem *p)
{
	struct demo d = { 0 };
	int err = demo_open(&d, a->directory, p);

	if (!err && a->json)
		print_json(&d);
	else if (!err)
		print_text(&d);
	demo_close(&d);
	return err;
}

static int stop(const struct arguments *a, struct problem *p)
{
	struct demo d = { 0 };
	int err = demo_open(&d, a->directory, p);

	if (!err)
		err = demo_stop(&d, p);
	if (!err && a->purge)
		err = demo_purge(&d, p);
	if (!err && a->json)
		print_json(&d);
	else if (!err)
		printf(a->purge ? "stopped, and what the demo made in %s removed\n" : "stopped; the data stay in %s\n",
		       d.directory);
	demo_close(&d);
	return err;
}

int command_demo(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "dir", KEY_DIR, "DATADIR", 0,
		  "Where all of it lies (/var/lib/stratus-demo for root, ~/.local/share/stratus-demo for others)", 0 },
		{ "mount", KEY_MOUNT, "DIR", 0, "Where to mount (/mnt/stratus-demo, or ~/stratus-demo)", 0 },
		{ "bricks", KEY_BRICKS, "N", 0,
		  "Number of bricks (3; with --replica, as many); more than R: files are spread over them", 0 },
		{ "replica", KEY_REPLICA, "R", 0, "Copies of each file; N is a multiple of it (3; with --bricks, 1)", 0 },
		{ "encrypt", KEY_ENCRYPT, NULL, 0,
		  "Mount a fresh demo with a key, which is made in DATADIR: nothing on the bricks can be read", 0 },
		{ "tenants", KEY_TENANTS, "NAME[,NAME...]", 0,
		  "One brick for these, who see nothing of each other: a mount for each, DIR/NAME, over TLS", 0 },
		{ "purge", KEY_PURGE, NULL, 0, "With stop: remove what the demo made in DATADIR", 0 },
		{ "json", KEY_JSON, NULL, 0, "Print JSON", 0 },
		{ 0 },
	};
	static const struct argp argp = {
		options,
		option,
		"\nstatus\nstop",
		"Runs a whole cluster on this machine, for trying things. Returns when the mount is usable. The data "
		"stay when it is stopped; "
		"the next start uses them again.",
		NULL,
		NULL,
		NULL,
	};
	static const struct verb verbs[] = {
		{ "start", 0, 1, WITH_BRICKS | WITH_MOUNT | WITH_REPLICA | WITH_ENCRYPT | WITH_TENANTS, start },
		{ "status", 1, 1, 0, status },
		{ "stop", 1, 1, WITH_PURGE, stop },
		{ 0 },
	};
	const char *word[1] = { "start" };
	struct arguments a = { .words = { word, 0, 1, 0 }, .directory = usual_directory() };
	unsigned given;
	int result;

	arguments_parse(&argp, argc, argv, 0, NULL, &a);
	given = (a.form.bricks ? WITH_BRICKS : 0) | (a.form.mount ? WITH_MOUNT : 0) | (a.form.replica ? WITH_REPLICA : 0) |
		(a.purge ? WITH_PURGE : 0) | (a.encrypt ? WITH_ENCRYPT : 0) | (a.form.tenants ? WITH_TENANTS : 0);
	result = verbs_run(argv[0], verbs, word[0], a.words.count, given, &a);
	free(a.directory);
	return result;
}
