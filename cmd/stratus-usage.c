/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus usage`: what is charged to each tenant on the bricks of this machine (doc/usage.md). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "json.h"
#include "process.h"
#include "service.h"

enum { KEY_JSON = 1000, KEY_CSV, KEY_TENANT, KEY_STRATUSD, KEY_TOTAL };
static const char ledger_name[] = "/.stratus/usage";

struct arguments {
	const char *stratusd, *tenant; /* NULL: all */
	bool json, csv, total;
};

static error_t option(int key, char *value, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case KEY_JSON:
		a->json = true;
		return 0;
	case KEY_CSV:
		a->csv = true;
		return 0;
	case KEY_TOTAL:
		a->total = true;
		return 0;
	case KEY_TENANT:
		a->tenant = value;
		return 0;
	case KEY_STRATUSD:
		a->stratusd = value;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is too much: usage takes options only", value);
		return 0;
	case ARGP_KEY_END:
		if (a->json && a->csv)
			argp_error(state, "--json and --csv are two forms of the same: choose one");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- asking ---- */

/* Of one brick: {"brick": DIRECTORY, "exact": ..., "accounts": [...]}; what follows it in the text, or NULL. */
static const char *take_brick(const char *text, json_t *bricks)
{
	size_t length = strcspn(text, "\n");
	json_t *status = json_loadb(text, length, 0, NULL);
	const char *ledger = json_text(status, "ledger"), *tail = strstr(ledger, ledger_name);

	if (!json_is_object(status)) {
		json_decref(status);
		return NULL;
	}
	json_object_set_new(status, "brick", json_stringn(ledger, tail ? (size_t)(tail - ledger) : strlen(ledger)));
	json_object_del(status, "ledger");
	json_object_set_new(status, "bricks", json_integer(1));
	json_array_append_new(bricks, status);
	return text + length + strspn(text + length, "\n");
}

static bool counts(const struct process *process)
{
	json_t *volume;
	size_t i;

	json_array_foreach(json_object_get(process->info, "volumes"), i, volume)
	{
		if (!strcmp(json_text(volume, "type"), "features/usage"))
			return true;
	}
	return false;
}

static int ask_process(const struct process *process, json_t *bricks, struct problem *p)
{
	char *answer = NULL;
	const char *at;
	int err;

	if (!counts(process))
		return 0;
	err = process_ask(process, "ctl features/usage status --json", &answer, p);
	at = err ? NULL : answer;
	while (at && *at)
		at = take_brick(at, bricks);
	if (!err && !at)
		err = problem_set(p, EPROTO, "process %d has answered something else than JSON: it may be of another version",
				  (int)process_pid(process));
	free(answer);
	return err;
}

static int ask_all(json_t *bricks, struct problem *p)
{
	struct processes all = { 0 };
	int err = processes_find(&all, p);

	for (size_t i = 0; i < all.count && !err; i++)
		if (!strcmp(process_program(&all.one[i]), "stratusd") && process_answers(&all.one[i]))
			err = ask_process(&all.one[i], bricks, p);
	processes_free(&all);
	return err;
}

static int ask(const struct arguments *a, json_t *bricks, struct problem *p)
{
	struct process one = { 0 };
	int err;

	if (!a->stratusd)
		return ask_all(bricks, p);
	err = process_find(a->stratusd, &one, p);
	if (!err)
		err = ask_process(&one, bricks, p);
	process_free(&one);
	return err;
}

/* ---- telling ---- */

static bool is_exact(const json_t *brick)
{
	return json_is_true(json_object_get(brick, "exact"));
}

static void keep_tenant(json_t *bricks, const char *tenant)
{
	json_t *brick, *account;
	size_t i, k;

	json_array_foreach(bricks, i, brick)
	{
		json_t *kept = json_array();

		json_array_foreach(json_object_get(brick, "accounts"), k, account)
		{
			if (!tenant || !strcmp(json_text(account, "account"), tenant))
				json_array_append(kept, account);
		}
		json_object_set_new(brick, "accounts", kept);
	}
}

static json_t *account_of(json_t *brick, const char *name)
{
	json_t *account;
	size_t i;

	json_array_foreach(json_object_get(brick, "accounts"), i, account)
	{
		if (!strcmp(json_text(account, "account"), name))
			return account;
	}
	return NULL;
}

/* Limits are of the sum, and each brick tells the same. */
static void add_accounts(json_t *to, json_t *brick)
{
	static const char *const numbers[] = { "bytes", "inodes" };
	json_t *account, *sum;
	size_t i;

	json_array_foreach(json_object_get(brick, "accounts"), i, account)
	{
		sum = account_of(to, json_text(account, "account"));
		if (!sum)
			json_array_append(json_object_get(to, "accounts"), account);
		for (size_t k = 0; sum && k < sizeof numbers / sizeof *numbers; k++)
			json_object_set_new(sum, numbers[k],
					    json_integer(json_number(sum, numbers[k]) + json_number(account, numbers[k])));
	}
}

static json_t *brick_of_pool(json_t *bricks, const char *pool)
{
	json_t *brick;
	size_t i;

	json_array_foreach(bricks, i, brick)
	{
		if (*pool && !strcmp(json_text(brick, "pool"), pool))
			return brick;
	}
	return NULL;
}

/* Those of one volume become one. */
static json_t *add_up(json_t *bricks)
{
	json_t *sums = json_array(), *brick, *to;
	size_t i;

	json_array_foreach(bricks, i, brick)
	{
		to = brick_of_pool(sums, json_text(brick, "pool"));
		if (!to) {
			json_array_append(sums, brick);
			continue;
		}
		add_accounts(to, brick);
		json_object_set_new(to, "bricks", json_integer(json_number(to, "bricks") + json_number(brick, "bricks")));
		json_object_set_new(to, "exact", json_boolean(is_exact(to) && is_exact(brick)));
		json_object_set_new(to, "recounted",
				    json_integer(json_number(to, "recounted") + json_number(brick, "recounted")));
	}
	return sums;
}

static void print_one(const struct arguments *a, const json_t *brick, const json_t *account)
{
	const char *form = a->csv ? "%s,%s,%" JSON_INTEGER_FORMAT ",%" JSON_INTEGER_FORMAT ",%" JSON_INTEGER_FORMAT
				    ",%" JSON_INTEGER_FORMAT ",%s\n"
				  : "%-32s %-24s %16" JSON_INTEGER_FORMAT " %10" JSON_INTEGER_FORMAT " %16" JSON_INTEGER_FORMAT
				    " %10" JSON_INTEGER_FORMAT " %s\n";

	printf(form, json_text(brick, "brick"), json_text(account, "account"), json_number(account, "bytes"),
	       json_number(account, "inodes"), json_number(account, "bytes_limit"), json_number(account, "inodes_limit"),
	       a->csv		 ? is_exact(brick) ? "yes" : "no"
	       : is_exact(brick) ? ""
				 : "(not exact)");
}

static void print_all(const struct arguments *a, const json_t *bricks)
{
	json_t *brick, *account;
	size_t i, k;

	if (a->csv)
		puts("brick,tenant,bytes,inodes,bytes_limit,inodes_limit,exact");
	else
		printf("%-32s %-24s %16s %10s %16s %10s\n", "BRICK", "TENANT", "BYTES", "INODES", "OF BYTES", "OF INODES");
	json_array_foreach((json_t *)bricks, i, brick)
	{
		json_array_foreach(json_object_get(brick, "accounts"), k, account) print_one(a, brick, account);
	}
	json_array_foreach((json_t *)bricks, i, brick)
	{
		if (!a->csv && !is_exact(brick))
			printf("%s: what is told was right before the last crash; a recount is under way, %" JSON_INTEGER_FORMAT
			       " objects so far\n",
			       json_text(brick, "brick"), json_number(brick, "recounted"));
	}
}

static int show(const struct arguments *a, json_t *bricks, struct problem *p)
{
	bool some = false;
	json_t *brick;
	size_t i;

	keep_tenant(bricks, a->tenant);
	json_array_foreach(bricks, i, brick) some |= json_array_size(json_object_get(brick, "accounts")) > 0;
	if (!json_array_size(bricks))
		return problem_set(p, ENOENT, "no brick that counts is served here: those of volumes with tenants do");
	if (!some)
		return problem_set(p, ENOENT, "no brick here knows a tenant '%s'", a->tenant);
	if (a->json)
		json_show(bricks);
	else
		print_all(a, bricks);
	return 0;
}

int command_usage(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "tenant", KEY_TENANT, "NAME", 0, "Of this one only", 0 },
		{ "total", KEY_TOTAL, NULL, 0, "Add up the bricks of each volume: they are told by the name of the first", 0 },
		{ "csv", KEY_CSV, NULL, 0, "Print lines of values, commas between them", 0 },
		{ "json", KEY_JSON, NULL, 0, "Print JSON", 0 },
		{ "stratusd", KEY_STRATUSD, "PROCESS", 0, "Of this stratusd (pid, socket); else of all on this machine", 0 },
		{ 0 },
	};
	static const struct argp argp = {
		options,
		option,
		NULL,
		"What is charged to each tenant on the bricks of this machine, and the limits: bytes and inodes, exact to the byte unless it says "
		"otherwise. What belongs to no tenant is charged to '-'. doc/usage.md says how an object is charged.",
		NULL,
		NULL,
		NULL,
	};
	struct arguments a = { 0 };
	struct problem p = { 0 };
	json_t *bricks = json_array(), *sums;
	int err;

	argp_parse(&argp, argc, argv, 0, NULL, &a);
	err = ask(&a, bricks, &p);
	if (a.total) {
		sums = add_up(bricks);
		json_decref(bricks);
		bricks = sums;
	}
	if (!err)
		err = show(&a, bricks, &p);
	json_decref(bricks);
	return err ? problem_print(argv[0], &p) : 0;
}
