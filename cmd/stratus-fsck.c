/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus fsck`: loads a client's graph without a mount, and has its cluster/dht look at all subvolumes. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client-graph.h"
#include "cluster-client.h"
#include "command.h"
#include "found.h"
#include "json.h"
#include "location.h"
#include "path.h"
#include "service.h"
#include "source.h"
#include "task.h"
#include "tls-dir.h"

enum { KEY_REPAIR = 1000, KEY_TLS, KEY_TENANT, WAIT_S = 10, WAIT_MAX_S = 3600, CLEAN = 0, LEFT = 1, UNCHECKED = 2 };

struct arguments {
	struct words words;
	bool repair, json;
	unsigned wait_s;
	const char *log, *tenant; /* may be NULL */
};

/* ---- the graph ---- */

static int read_volfile(const char *name, struct volfile *v, struct problem *p)
{
	struct source *s = NULL;
	uint64_t version;
	char *text = NULL;
	int err;

	if (!source_is_one(name))
		return volfile_read(name, v, p);
	err = source_create(name, &s, p);
	if (!err)
		err = source_fetch(s, 0, &text, &version, p);
	if (!err)
		err = volfile_parse(text, strlen(text), name, v, p);
	if (!err)
		err = source_check(v, p);
	source_destroy(s);
	free(text);
	return err;
}

/* What is to be mounted is not. */
static int read_client(const char *name, struct volfile *v, struct problem *p)
{
	int err = read_volfile(name, v, p);

	if (!err)
		err = tls_dir_apply(v, p);
	if (!err)
		client_graph_drop_mount(v);
	if (!err && !strcmp(v->volume[v->volumes - 1].type, "protocol/server"))
		err = problem_set(p, EINVAL, "%s is the volfile of a server: name the client's volfile, or SERVER:/VOLUME",
				  name);
	return err;
}

/* By the provider, whom no limit of the tenant's holds up, and who is let in though it is suspended. */
static int act_for(const struct arguments *a, struct volfile *v, struct problem *p)
{
	const char *at = source_is_one(a->words.word[0]) ? strstr(a->words.word[0], ":/") + 2 : NULL;
	struct process keeper = { 0 };
	const struct spec_tenant *t;
	struct spec s = { 0 };
	uint64_t version;
	int err = at ? keeper_find(NULL, &keeper, p)
		     : problem_set(p, EINVAL, "--tenant is of a volume that stratusd serves: name it SERVER:/VOLUME");

	if (!err)
		err = keeper_get(&keeper, at, &s, &version, p);
	t = err ? NULL : spec_tenant_find(&s, a->tenant);
	if (!err && (!t || t->state == SPEC_TENANT_DELETED))
		err = problem_set(p, ENOENT, "volume %s has no tenant '%s': `stratus tenant list %s` shows them", at, a->tenant,
				  at);
	if (!err)
		err = client_graph_act_for(v, &t->id);
	spec_free(&s);
	process_free(&keeper);
	return err;
}

/* Who only looks ends nothing that others have begun. */
static int keep_from_sweeping(struct xlator *x, struct problem *p)
{
	return option_change(x->type->options, x->private, x->name, "sweep-interval", "24h", p);
}

static int ask(struct xlator *x, const struct arguments *a, FILE *to, struct problem *p)
{
	cleanup_path char *wait = path_format("wait=%u", a->wait_s * 1000);
	char *word[] = { (char *)"fsck", wait, (char *)"repair" };

	return client_graph_ask(x, a->repair ? 3 : 2, word, to, p);
}

static int check_graph(const struct volfile *v, const struct arguments *a, FILE *to, struct problem *p)
{
	struct graph *g = NULL;
	int err = graph_create(v, NULL, NULL, &g, p);

	if (err)
		return err;
	if (!a->repair)
		err = keep_from_sweeping(client_graph_dht(g), p);
	if (!err)
		err = graph_start(g, p);
	if (!err) {
		err = ask(client_graph_dht(g), a, to, p);
		graph_stop(g);
	}
	graph_destroy(g);
	return err;
}

/* *text: what it told (fsck.h of cluster/dht), malloc'ed. */
static int check(const struct volfile *v, const struct arguments *a, char **text, size_t *size, struct problem *p)
{
	int err = runtime_start(0, RUNTIME_NEVER_BLOCKS);
	FILE *to;

	if (err)
		return problem_set(p, -err, "can't start the event loops: %s", strerror(-err));
	to = open_memstream(text, size);
	err = to ? check_graph(v, a, to, p) : problem_set(p, ENOMEM, "no memory");
	if (to)
		fclose(to);
	runtime_stop();
	return err;
}

/* ---- what was told ---- */

static bool is_number(const char *key)
{
	return !strcmp(key, "directories") || !strcmp(key, "files") || !strcmp(key, "pointers") || !strcmp(key, "away");
}

/* A sentence about what could not be looked at goes to *p. */
static json_t *read_told(char *text, size_t size, struct problem *p)
{
	json_t *told = json_object(), *findings = json_array(), *last = NULL;
	char *at = text, *value;
	const char *key;

	json_object_set_new(told, "findings", findings);
	while ((value = location_next(&at, text + size, &key))) {
		if (!strcmp(key, "finding")) {
			last = json_object();
			json_array_append_new(findings, last);
		}
		if (!strcmp(key, "problem"))
			problem_set(p, EIO, "%s", value);
		else if (is_number(key))
			json_object_set_new(told, key, json_integer(atoll(value)));
		else if (last)
			json_object_set_new(last, key, found_text(value));
	}
	return told;
}

static size_t count_done(const json_t *told)
{
	json_t *one;
	size_t i, done = 0;

	json_array_foreach(json_object_get(told, "findings"), i, one) done += json_object_get(one, "done") != NULL;
	return done;
}

static void print_finding(const json_t *one)
{
	cleanup_path char *path = path_shown(json_text(one, "path"));

	printf("%s %s at %s (%s): %s", json_text(one, "finding"), path, json_text(one, "subvolume"), json_text(one, "gfid"),
	       json_text(one, "says"));
	if (json_object_get(one, "done"))
		printf("; repaired: %s", json_text(one, "done"));
	else if (json_object_get(one, "next"))
		printf("; left: %s", json_text(one, "next"));
	putchar('\n');
}

static void print_told(const json_t *told, const struct arguments *a)
{
	size_t count = json_array_size(json_object_get(told, "findings")), done = count_done(told), i;
	json_t *one;

	json_array_foreach(json_object_get(told, "findings"), i, one) print_finding(one);
	if (!json_object_get(told, "directories"))
		return;
	printf("%" JSON_INTEGER_FORMAT " directories, %" JSON_INTEGER_FORMAT " files in place, %" JSON_INTEGER_FORMAT
	       " pointers: ",
	       json_number(told, "directories"), json_number(told, "files"), json_number(told, "pointers"));
	if (!count)
		puts("nothing is wrong");
	else if (a->repair)
		printf("%zu found, %zu repaired, %zu left\n", count, done, count - done);
	else
		printf("%zu found; --repair puts right what can be\n", count);
}

static int tell(const struct arguments *a, json_t *told, bool distributed, const struct problem *p)
{
	size_t left = json_array_size(json_object_get(told, "findings")) - count_done(told);
	bool checked = !p->text[0];

	if (a->json) {
		json_object_set_new(told, "volume", found_text(a->words.word[0]));
		json_object_set_new(told, "distributed", json_boolean(distributed));
		json_object_set_new(told, "checked", json_boolean(checked));
		if (!checked)
			json_object_set_new(told, "problem", found_text(p->text));
		json_show(told);
	} else if (distributed) {
		print_told(told, a);
	} else {
		printf("%s has one subvolume: nothing is distributed, and there is nothing to check\n", a->words.word[0]);
	}
	return !checked ? UNCHECKED : left ? LEFT : CLEAN;
}

static int fsck(const struct arguments *a, struct problem *p)
{
	struct volfile v = { 0 };
	bool distributed = false;
	char *text = NULL;
	size_t size = 0;
	json_t *told;
	int err = read_client(a->words.word[0], &v, p);

	if (!err && a->tenant)
		err = act_for(a, &v, p);
	if (!err) {
		distributed = client_graph_is_distributed(&v);
		if (distributed)
			err = check(&v, a, &text, &size, p);
	}
	volfile_free(&v);
	told = read_told(text, size, p);
	free(text);
	err = err && !distributed && !a->json ? UNCHECKED : tell(a, told, distributed, p);
	json_decref(told);
	return err;
}

/* ---- the command ---- */

static error_t option(int key, char *value, struct argp_state *state)
{
	struct arguments *a = state->input;
	char *end;

	switch (key) {
	case 'j':
		a->json = true;
		return 0;
	case 'l':
		a->log = value;
		return 0;
	case KEY_REPAIR:
		a->repair = true;
		return 0;
	case KEY_TLS:
		tls_dir_use(value);
		return 0;
	case KEY_TENANT:
		a->tenant = value;
		return 0;
	case 'w':
		a->wait_s = (unsigned)strtoul(value, &end, 10);
		if (*end || end == value || a->wait_s < 1 || a->wait_s > WAIT_MAX_S)
			argp_error(state, "--wait takes seconds, 1 to %d, and not '%s'", WAIT_MAX_S, value);
		return 0;
	default:
		return words_take(&a->words, key, value, state);
	}
}

static int prepare(const struct arguments *a, struct problem *p)
{
	int err;

	if (geteuid())
		return problem_set(p, EPERM, "all of the volume can be looked at by root only: run it as root");
	log_program("fsck");
	signal(SIGPIPE, SIG_IGN);
	if (!a->log) {
		log_set_level(LOG_ERROR);
		return 0;
	}
	err = log_open(a->log);
	return err ? problem_set(p, -err, "can't write the log %s: %s", a->log, strerror(-err)) : 0;
}

int command_fsck(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "repair", KEY_REPAIR, NULL, 0, "Put right what can be put right without loss", 0 },
		{ "json", 'j', NULL, 0, "Print JSON", 0 },
		{ "tls-dir", KEY_TLS, "DIR", 0,
		  "Only by TLS, with cert.pem, key.pem, ca.pem and crl.pem in DIR (STRATUS_TLS_DIR)", 0 },
		{ "tenant", KEY_TENANT, "NAME", 0,
		  "What that tenant has, by the provider: on a server, with a server's certificate. Nothing is refused for the tenant's limits, and a suspended one can be looked at",
		  0 },
		{ "wait", 'w', "SECONDS", 0, "Time between two looks at what may be wrong (10)", 0 },
		{ "log", 'l', "FILE", 0, "Write what is put right into FILE, too, and what went wrong on the way", 0 },
		{ 0 },
	};
	static const struct argp argp = {
		options,
		option,
		"SERVER[,SERVER...][:PORT]:/VOLUME\nVOLFILE",
		"Looks at all subvolumes of a volume for names, files and records that do not fit together, while it is in use. Exit status: 0 "
		"nothing is wrong, or all was put right; 1 something is left; 2 not all could be looked at, and nothing is known, or wrong "
		"command line.",
		NULL,
		NULL,
		NULL,
	};
	const char *word[1];
	struct arguments a = { .words = { word, 1, 1, 0 }, .wait_s = WAIT_S };
	struct problem p = { "" };
	int status = UNCHECKED;

	arguments_parse(&argp, argc, argv, 0, NULL, &a);
	if (!prepare(&a, &p))
		status = fsck(&a, &p);
	if (p.text[0])
		problem_print(argv[0], &p);
	return status;
}
