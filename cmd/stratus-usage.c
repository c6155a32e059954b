/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus usage`: what is charged to each tenant on the bricks of this machine (doc/usage.md). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "charged.h"
#include "cluster-client.h"
#include "command.h"
#include "json.h"
#include "path.h"
#include "process.h"
#include "remote.h"
#include "service.h"
#include "usage-verify.h"

enum { KEY_JSON = 1000, KEY_CSV, KEY_TENANT, KEY_STRATUSD, KEY_TOTAL, KEY_WAIT };
enum { WAIT_S = 60, WAIT_MAX_S = 86400 };
static const char ledger_name[] = "/.stratus/usage";

struct arguments {
	const char *stratusd, *tenant; /* NULL: all */
	bool json, csv, total, verify;
	int wait_s;	  /* -1: not given */
	unsigned missing; /* bricks that are not served, and stratusd that do not answer */
	unsigned asked;	  /* stratusd */
	struct remote remote;
};

static error_t option(int key, char *value, struct argp_state *state)
{
	struct arguments *a = state->input;
	char *end;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->remote;
		return 0;
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
	case KEY_WAIT:
		a->wait_s = (int)strtol(value, &end, 10);
		if (*end || end == value || a->wait_s < 0 || a->wait_s > WAIT_MAX_S)
			argp_error(state, "--wait takes seconds, 0 to %d, and not '%s'", WAIT_MAX_S, value);
		return 0;
	case ARGP_KEY_ARG:
		if (a->verify || strcmp(value, "verify"))
			argp_error(state, "'%s' is too much: usage takes options, and the word verify", value);
		a->verify = true;
		return 0;
	case ARGP_KEY_END:
		if (a->json && a->csv)
			argp_error(state, "--json and --csv are two forms of the same: choose one");
		if (a->verify && (a->csv || a->total))
			argp_error(state, "verify tells of each brick, as a table or with --json");
		if (!a->verify && a->wait_s >= 0)
			argp_error(state, "--wait goes with verify");
		if (a->remote.servers && (a->verify || a->stratusd))
			argp_error(state, "--server asks over the network: verify and --stratusd are for the server itself");
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

typedef int process_fn(const struct arguments *, const struct process *, json_t *bricks, struct problem *);

static int verify(const struct arguments *a, const struct process *process, json_t *bricks, struct problem *p)
{
	return verify_process(process, a->tenant, a->wait_s < 0 ? WAIT_S : (unsigned)a->wait_s, bricks, p);
}

static int ask_process(const struct arguments *a, const struct process *process, json_t *bricks, struct problem *p)
{
	char *answer = NULL;
	const char *at;
	int err;

	(void)a;
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

/* What is charged on these nobody tells just now. */
static unsigned tell_down(const json_t *volume, const char *server)
{
	unsigned down = 0;
	json_t *brick;
	size_t i;

	json_array_foreach(json_object_get(volume, "bricks"), i, brick)
	{
		if (strcmp(json_text(brick, "server"), server) || strcmp(json_text(brick, "state"), "down"))
			continue;
		down++;
		fprintf(stderr,
			"stratus usage: %s of volume %s is not served: what is charged there is missing; `stratus status` says why\n",
			json_text(brick, "directory"), json_text(volume, "name"));
	}
	return down;
}

/* Those that count, and are to be served by this process, and are not. */
static unsigned missing(const struct process *process)
{
	struct problem p = { "" };
	char *answer = NULL;
	json_t *cluster = NULL, *volume;
	unsigned down = 0;
	size_t i;

	if (!keeper_is(process)) /* it serves volume files */
		return 0;
	if (!process_ask(process, "cluster status", &answer, &p))
		cluster = json_loads(answer, 0, NULL);
	free(answer);
	if (!cluster) {
		fprintf(stderr, "stratus usage: stratusd %d does not tell which bricks it serves, so some may be missing: %s\n",
			(int)process_pid(process), *p.text ? p.text : "it answers something else than JSON");
		return 1;
	}
	json_array_foreach(json_object_get(cluster, "volumes"), i, volume)
	{
		if (json_is_true(json_object_get(volume, "tenants")) && json_is_true(json_object_get(volume, "started")))
			down += tell_down(volume, json_text(json_object_get(cluster, "self"), "name"));
	}
	json_decref(cluster);
	return down;
}

static unsigned tell_silent(const struct process *process)
{
	fprintf(stderr,
		"stratus usage: stratusd %d does not answer: what is charged at its bricks is missing; try again when it does\n",
		(int)process_pid(process));
	return 1;
}

static int ask_one(struct arguments *a, process_fn *fn, const struct process *process, json_t *bricks, struct problem *p)
{
	a->asked++;
	a->missing += process_answers(process) ? missing(process) : tell_silent(process);
	return counts(process) ? fn(a, process, bricks, p) : 0;
}

static int ask_all(struct arguments *a, process_fn *fn, json_t *bricks, struct problem *p)
{
	struct processes all = { 0 };
	int err = processes_find(&all, p);

	for (size_t i = 0; i < all.count && !err; i++)
		if (!strcmp(process_program(&all.one[i]), "stratusd"))
			err = ask_one(a, fn, &all.one[i], bricks, p);
	processes_free(&all);
	return err;
}

static int ask(struct arguments *a, process_fn *fn, json_t *bricks, struct problem *p)
{
	struct process one = { 0 };
	int err;

	if (!a->stratusd)
		return ask_all(a, fn, bricks, p);
	err = process_find(a->stratusd, &one, p);
	if (!err)
		err = ask_one(a, fn, &one, bricks, p);
	process_free(&one);
	return err;
}

/* What they tell the tenant's administrator. */
static int ask_servers(const struct arguments *a, json_t *bricks, struct problem *p)
{
	json_t *list = NULL;
	int err = remote_collect(&a->remote, "/v1/usage", &list, p);

	json_array_extend(bricks, list);
	json_decref(list);
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
	json_t *account, *sum;
	size_t i;

	json_array_foreach(json_object_get(brick, "accounts"), i, account)
	{
		sum = account_of(to, json_text(account, "account"));
		if (sum)
			charged_add(sum, account);
		else
			json_array_append(json_object_get(to, "accounts"), account);
	}
}

/* The id of the volume that a brick tells to be one of several bricks of, or of which its set is one: VOLUME.NUMBER. How long that is; 0: neither. */
static size_t volume_of(const json_t *brick, const char **volume)
{
	const char *pool = json_text(brick, "pool");

	*volume = *pool ? pool : json_text(brick, "set");
	return strcspn(*volume, ".");
}

static json_t *brick_of_volume(json_t *bricks, const json_t *like)
{
	const char *volume, *other;
	size_t size = volume_of(like, &volume), i;
	json_t *brick;

	json_array_foreach(bricks, i, brick)
	{
		if (size && volume_of(brick, &other) == size && !strncmp(other, volume, size))
			return brick;
	}
	return NULL;
}

static bool same_charges(json_t *a, json_t *b)
{
	json_t *account;
	size_t i;

	json_array_foreach(json_object_get(a, "accounts"), i, account)
	{
		const json_t *other = account_of(b, json_text(account, "account"));

		if (strcmp(json_text(account, "account"), "-") != 0 &&
		    (!other || json_number(other, "bytes") != json_number(account, "bytes") ||
		     json_number(other, "inodes") != json_number(account, "inodes")))
			return false;
	}
	return true;
}

static json_t *place_of_set(json_t *bricks, const char *set, size_t *place)
{
	json_t *brick;
	size_t i;

	json_array_foreach(bricks, i, brick)
	{
		*place = i;
		if (*set && !strcmp(json_text(brick, "set"), set))
			return brick;
	}
	return NULL;
}

/* Members of a replica set are charged for copies of the same: the bill is that of the first member, if it is served here. */
static json_t *one_of_each_set(json_t *bricks)
{
	json_t *some = json_array(), *brick, *other;
	size_t i, place;

	json_array_foreach(bricks, i, brick)
	{
		other = place_of_set(some, json_text(brick, "set"), &place);
		if (!other) {
			json_array_append(some, brick);
			continue;
		}
		if (!same_charges(brick, other)) {
			json_object_set_new(other, "members_differ", json_true());
			json_object_set_new(brick, "members_differ", json_true());
		}
		if (json_is_true(json_object_get(brick, "first")))
			json_array_set(some, place, brick);
	}
	return some;
}

/* Those of one volume become one. */
static json_t *add_up(json_t *bricks)
{
	json_t *sums = json_array(), *brick, *to;
	size_t i;

	json_array_foreach(bricks, i, brick)
	{
		to = brick_of_volume(sums, brick);
		if (!to) {
			json_array_append(sums, brick);
			continue;
		}
		add_accounts(to, brick);
		json_object_set_new(to, "bricks", json_integer(json_number(to, "bricks") + json_number(brick, "bricks")));
		json_object_set_new(to, "exact", json_boolean(is_exact(to) && is_exact(brick)));
		if (json_is_true(json_object_get(brick, "members_differ")))
			json_object_set_new(to, "members_differ", json_true());
		json_object_set_new(to, "recounted",
				    json_integer(json_number(to, "recounted") + json_number(brick, "recounted")));
	}
	return sums;
}

#define N "%" JSON_INTEGER_FORMAT

static void print_csv(const struct arguments *a, const json_t *brick, const json_t *account)
{
	(void)a;
	printf("%s,%s," N "," N "," N "," N ",%s," N "," N "," N "," N ",%s,%s\n", json_text(brick, "brick"),
	       json_text(account, "account"), json_number(account, "bytes"), json_number(account, "inodes"),
	       json_number(account, "bytes_limit"), json_number(account, "inodes_limit"), is_exact(brick) ? "yes" : "no",
	       json_number(account, "bytes_soft"), json_number(account, "inodes_soft"),
	       json_number(account, "bytes_over_since"), json_number(account, "inodes_over_since"),
	       json_is_true(json_object_get(brick, "members_differ")) ? "yes" : "no", json_text(brick, "volume"));
}

/* A sum by the volume, whose first brick may be another one tomorrow. */
static const char *called(const struct arguments *a, const json_t *brick)
{
	const char *volume = json_text(brick, "volume");

	return a->total && *volume ? volume : json_text(brick, "brick");
}

static void print_line(const struct arguments *a, const json_t *brick, const json_t *account)
{
	cleanup_path char *over = charged_over(account);

	printf("%-32s %-24s %16" JSON_INTEGER_FORMAT " %10" JSON_INTEGER_FORMAT " %16" JSON_INTEGER_FORMAT
	       " %10" JSON_INTEGER_FORMAT " %s%s\n",
	       called(a, brick), json_text(account, "account"), json_number(account, "bytes"), json_number(account, "inodes"),
	       json_number(account, "bytes_limit"), json_number(account, "inodes_limit"), over,
	       !is_exact(brick)						? " (not exact)"
	       : json_is_true(json_object_get(brick, "members_differ")) ? " (members of the set differ)"
									: "");
}

static void print_all(const struct arguments *a, const json_t *bricks)
{
	json_t *brick, *account;
	size_t i, k;

	if (a->csv)
		puts("brick,tenant,bytes,inodes,bytes_limit,inodes_limit,exact,bytes_soft,inodes_soft,bytes_over_since,inodes_over_since,members_differ,volume");
	else
		printf("%-32s %-24s %16s %10s %16s %10s\n", a->total ? "VOLUME" : "BRICK", "TENANT", "BYTES", "INODES",
		       "OF BYTES", "OF INODES");
	json_array_foreach((json_t *)bricks, i, brick)
	{
		json_array_foreach(json_object_get(brick, "accounts"), k, account)(a->csv ? print_csv : print_line)(a, brick,
														    account);
	}
	json_array_foreach((json_t *)bricks, i, brick)
	{
		if (!a->csv && !is_exact(brick))
			printf("%s: what is told was right before the last crash; a recount is under way, %" JSON_INTEGER_FORMAT
			       " objects so far\n",
			       called(a, brick), json_number(brick, "recounted"));
	}
}

static int show(const struct arguments *a, json_t *bricks, struct problem *p)
{
	bool some = false;
	json_t *brick;
	size_t i;

	if (!a->verify)
		keep_tenant(bricks, a->tenant);
	json_array_foreach(bricks, i, brick) some |= json_array_size(json_object_get(brick, "accounts")) > 0;
	if (!json_array_size(bricks) && !a->remote.servers && !a->asked)
		return problem_set(p, ENOENT, "no stratusd runs here: start it, and ask as the user that it runs as");
	if (!json_array_size(bricks))
		return problem_set(p, ENOENT, "no brick that counts %s: only those of volumes with tenants count",
				   a->remote.servers ? "is served there" : "has answered here");
	if (!some && a->remote.servers)
		return problem_set(p, ENOENT, "no brick there tells you of a tenant '%s'", a->tenant);
	if (!some)
		return problem_set(p, ENOENT, "no brick here knows a tenant '%s'", a->tenant);
	if (a->json)
		json_show(bricks);
	else if (a->verify)
		verify_print(bricks);
	else
		print_all(a, bricks);
	return 0;
}

static int tell_verified(const char *program, const struct arguments *a, const json_t *bricks)
{
	static const char *const sentences[] = {
		[VERIFY_AGREES] = "what is charged is what there is",
		[VERIFY_DIFFERS] =
			"what is charged is not what there is: `stratus ctl PROCESS features/usage recount` counts anew",
		[VERIFY_UNKNOWN] =
			"not all could be compared: what is in use can be when it rests, or while its tenant is suspended",
	};
	static const int status[] = { [VERIFY_AGREES] = 0, [VERIFY_DIFFERS] = 1, [VERIFY_UNKNOWN] = 2 };
	enum verified result = verify_result(bricks);

	if (result == VERIFY_AGREES && a->missing) { /* why has been told */
		fprintf(stderr, "%s: what could be compared agrees; not all could be\n", program);
		return status[VERIFY_UNKNOWN];
	}
	if (result != VERIFY_AGREES)
		fprintf(stderr, "%s: %s\n", program, sentences[result]);
	else if (!a->json)
		puts(sentences[result]);
	return status[result];
}

int command_usage(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "tenant", KEY_TENANT, "NAME", 0, "Of this one only", 0 },
		{ "total", KEY_TOTAL, NULL, 0, "Add up the bricks of each volume; as its brick the first one is told", 0 },
		{ "csv", KEY_CSV, NULL, 0, "Print lines of values, commas between them", 0 },
		{ "json", KEY_JSON, NULL, 0, "Print JSON", 0 },
		{ "stratusd", KEY_STRATUSD, "PROCESS", 0, "Of this stratusd (pid, socket); else of all on this machine", 0 },
		{ "wait", KEY_WAIT, "SECONDS", 0, "With verify: look again at what is in use, on each brick for so long (60)",
		  0 },
		{ 0 },
	};
	static const struct argp_child children[] = { { &remote_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		options,
		option,
		"\nverify",
		"What is charged to each tenant on the bricks of this machine, and the limits: bytes and inodes, exact to the byte unless it says "
		"otherwise. What belongs to no tenant is charged to '-'. doc/usage.md says how an object is charged. "
		"`verify`, as root on the server, counts what is on the bricks and compares. Exit status then: 0 all agrees; 1 something differs; 2 "
		"not all could be compared, or wrong command line; of usage itself 1 if a brick that counts is not served, or a server does not answer, which is told, and the others' numbers with it. With --server the tenant's administrator asks, by a certificate of "
		"stratus:tenant/NAME/admin, and is told of his tenant.",
		children,
		NULL,
		NULL,
	};
	struct arguments a = { .wait_s = -1 };
	struct problem p = { 0 };
	json_t *bricks = json_array(), *sums;
	int err, status = 0;

	arguments_parse(&argp, argc, argv, 0, NULL, &a);
	err = a.remote.servers ? ask_servers(&a, bricks, &p) : ask(&a, a.verify ? verify : ask_process, bricks, &p);
	if (!a.verify) {
		sums = one_of_each_set(bricks);
		json_decref(bricks);
		bricks = sums;
	}
	if (a.total) {
		sums = add_up(bricks);
		json_decref(bricks);
		bricks = sums;
	}
	if (!err)
		err = show(&a, bricks, &p);
	else if (json_array_size(bricks)) /* the rest is of use */
		show(&a, bricks, &p);
	if (!err && a.verify)
		status = tell_verified(argv[0], &a, bricks);
	if (!status && a.missing)
		status = a.verify ? 2 : 1;
	json_decref(bricks);
	if (err)
		problem_print(argv[0], &p);
	return err ? a.verify ? 2 : 1 : status;
}
