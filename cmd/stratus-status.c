/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus status`: the cluster, as the stratusd that keeps its store sees it. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cluster-client.h"
#include "command.h"
#include "config.h"
#include "ending.h"
#include "json.h"
#include "path.h"
#include "service.h"
#include "set.h"
#include "status-check.h"
#include "verbs.h"

enum { KEY_CHECK = 1000, KEY_FULL };
enum { STATUS_WRONG = 3 }; /* the exit status of --check */

struct arguments {
	struct asked asked;
	unsigned full_percent;
	bool check, full_given;
};

static void print_brick(const json_t *b)
{
	double gib = 1024.0 * 1024 * 1024;

	printf("  %-8s %s:%s port %" JSON_INTEGER_FORMAT " %s", json_text(b, "name"), json_text(b, "server"),
	       json_text(b, "directory"), json_number(b, "port"), json_text(b, "state"));
	if (json_is_true(json_object_get(b, "read-only")))
		printf(", its file system is read-only");
	if (json_object_get(b, "clients"))
		printf(", %" JSON_INTEGER_FORMAT " client%s", json_number(b, "clients"),
		       json_number(b, "clients") == 1 ? "" : "s");
	if (json_object_get(b, "bytes-free"))
		printf(", %.1f of %.1f GiB free", json_number(b, "bytes-free") / gib, json_number(b, "bytes-total") / gib);
	putchar('\n');
	if (*json_text(b, "problem"))
		printf("           %s\n", json_text(b, "problem"));
}

/* `first` is the number of the set's first brick. Where the coordinator runs on another server nothing is known of the set here. */
static void print_set(const json_t *v, const json_t *set, size_t first)
{
	json_t *bricks = json_object_get(v, "bricks"), *member;
	size_t i;

	if (*json_text(set, "problem"))
		printf("  replica set: %s\n", json_text(set, "problem"));
	if (!json_object_get(set, "members"))
		return;
	printf("  replica set: %s, view %" JSON_INTEGER_FORMAT " (%s)%s\n", set_state(set), json_number(set, "epoch"),
	       json_text(set, "why"),
	       json_is_true(json_object_get(set, "recovery_owed")) ? ", recovery is under way"
	       : json_is_true(json_object_get(set, "scrub_owed"))  ? ", what changed of late is to be compared"
								   : "");
	json_array_foreach(json_object_get(set, "members"), i, member)
	{
		printf("    %-8s ", json_text(json_array_get(bricks, first + i), "name"));
		set_print_member(member);
	}
}

static void print_sets(const json_t *v)
{
	json_t *sets = json_object_get(v, "sets"), *set = json_object_get(v, "set");
	size_t i;

	if (json_is_object(set))
		print_set(v, set, 0);
	json_array_foreach(sets, i, set) if (json_is_object(set)) print_set(v, set, i * (size_t)json_number(v, "replica"));
}

static void print_volume(const json_t *v)
{
	json_t *bricks = json_object_get(v, "bricks"), *brick;
	size_t i;

	printf("volume %s: %s, replica %" JSON_INTEGER_FORMAT "%s, version %" JSON_INTEGER_FORMAT "\n", json_text(v, "name"),
	       json_is_true(json_object_get(v, "started")) ? "started" : "stopped", json_number(v, "replica"),
	       json_is_true(json_object_get(v, "arbiter")) ? " with arbiter" : "", json_number(v, "version"));
	if (*json_text(v, "problem"))
		printf("  %s\n", json_text(v, "problem"));
	json_array_foreach(bricks, i, brick) print_brick(brick);
	if (json_is_false(json_object_get(v, "balanced")))
		printf("  bricks were added and do not have their part of the names yet: see `stratus rebalance status %s`\n",
		       json_text(v, "name"));
	print_sets(v);
}

static const char *leader_of(const json_t *servers)
{
	json_t *s;
	size_t i;

	json_array_foreach(servers, i, s) if (json_is_true(json_object_get(s, "leads"))) return json_text(s, "name");
	return "";
}

/* Only the one that leads hears from all: what the others don't know it does. */
static void print_server(const json_t *s, const char *leader)
{
	const char *state = json_text(s, "state");

	if (!strcmp(state, "waiting")) {
		printf("server %s waits to be taken in: `stratus server add %s %s`, on the server that leads\n",
		       json_text(s, "name"), json_text(s, "name"), json_text(s, "address"));
		return;
	}
	if (*leader && !strcmp(state, "unknown"))
		printf("server %s: not heard from here (%s leads, and knows)", json_text(s, "name"), leader);
	else
		printf("server %s: %s", json_text(s, "name"), state);
	if (json_object_get(s, "address"))
		printf(" at %s%s%s", json_text(s, "address"), json_is_true(json_object_get(s, "leads")) ? ", leads" : "",
		       json_is_true(json_object_get(s, "votes")) ? "" : ", does not vote yet");
	putchar('\n');
}

static void print_certificate(const json_t *c)
{
	cleanup_path char *sentence = ending_sentence(c, time(NULL));

	puts(sentence);
}

static bool waits(const json_t *servers)
{
	return !strcmp(json_text(json_array_get(servers, 0), "state"), "waiting");
}

static void print_all(const json_t *all)
{
	json_t *servers = json_object_get(all, "servers"), *volumes = json_object_get(all, "volumes"), *one;
	json_t *self = json_object_get(all, "self");
	size_t i;

	printf("this is server %s, process %" JSON_INTEGER_FORMAT ", volfiles at %s, version %s\n", json_text(self, "name"),
	       json_number(self, "pid"), json_text(self, "listen"), json_text(self, "version"));
	json_array_foreach(servers, i, one) print_server(one, leader_of(servers));
	if (*json_text(all, "trouble"))
		puts(json_text(all, "trouble"));
	json_array_foreach(json_object_get(all, "certificates"), i, one) print_certificate(one);
	json_array_foreach(volumes, i, one) print_volume(one);
	if (!json_array_size(volumes) && !waits(servers))
		puts("no volumes: `stratus volume create` makes one");
}

/* What is wrong, a line each. */
static int check(const struct arguments *a, const json_t *all)
{
	json_t *list = status_check(all, a->full_percent, PACKAGE_VERSION, time(NULL)), *one;
	int status = json_array_size(list) ? STATUS_WRONG : 0;
	size_t i;

	if (a->asked.ask.json)
		json_show(list);
	else
		json_array_foreach(list, i, one) puts(json_string_value(one));
	json_decref(list);
	return status;
}

/* *status: the exit status, if nothing has failed. */
static int show(const struct arguments *a, int *status, struct problem *p)
{
	struct process keeper = { 0 };
	json_t *all = NULL;
	int err = keeper_find(a->asked.ask.stratusd, &keeper, p);

	if (!err)
		err = keeper_ask(&keeper, "cluster status", NULL, &all, p);
	if (!err && a->check)
		*status = check(a, all);
	else if (!err && a->asked.ask.json)
		json_show(all);
	else if (!err)
		print_all(all);
	json_decref(all);
	process_free(&keeper);
	return err;
}

static unsigned percent_take(const char *text, struct argp_state *state)
{
	char *end;
	unsigned long percent = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || percent < 1 || percent > 100)
		argp_error(state, "--full '%s' is no number from 1 to 100", text);
	return (unsigned)percent;
}

static error_t option(int key, char *value, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->asked.ask;
		return 0;
	case KEY_CHECK:
		a->check = true;
		return 0;
	case KEY_FULL:
		a->full_percent = percent_take(value, state);
		a->full_given = true;
		return 0;
	case ARGP_KEY_END:
		if (a->full_given && !a->check)
			argp_error(state, "--full goes with --check");
		return words_take(&a->asked.words, key, value, state);
	default:
		return words_take(&a->asked.words, key, value, state);
	}
}

int command_status(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "check", KEY_CHECK, NULL, 0,
		  "Print what is wrong, a line for each thing, and nothing if all is well: the exit status is 0 then, "
		  "3 if something is wrong, and 1 if that could not be found out",
		  0 },
		{ "full", KEY_FULL, "PERCENT", 0, "With --check: a brick's file system that is used so far is wrong (90)", 0 },
		{ 0 },
	};
	static const struct argp_child children[] = { { &ask_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		options,
		option,
		"",
		"Shows the cluster: its servers and volumes, for each brick its state, clients and free space, for each replica "
		"set its view and what is still to heal; and when this server's certificates end. `stratus ps` lists processes.",
		children,
		NULL,
		NULL,
	};
	struct arguments a = { .asked.words = { NULL, 0, 0, 0 }, .full_percent = 90 };
	struct problem p = { "" };
	int status = 0;

	arguments_parse(&argp, argc, argv, 0, NULL, &a);
	return show(&a, &status, &p) ? problem_print(argv[0], &p) : status;
}
