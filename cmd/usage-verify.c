/* SPDX-License-Identifier: Apache-2.0 */
/* Each brick is walked between two readings of its counters. Where a reading says that nothing of an account is under way, and the next that nothing has begun since, the walk has
 * met what was charged, or the counters are wrong. Else it is done again, for those accounts. doc/usage.md has the argument. */
#include "usage-verify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "json.h"
#include "log.h"
#include "path.h"
#include "process.h"
#include "walk.h"

enum { PAUSE_US = 200000 };
static const char ledger_name[] = "/.stratus/usage";
enum state { IN_USE, RECOUNTED, AGREES, DIFFERED /* the last time: a second walk is to confirm it */, DIFFERS };
static const char *const words[] = {
	[IN_USE] = "in use", [RECOUNTED] = "being recounted", [AGREES] = "agrees", [DIFFERED] = "in use", [DIFFERS] = "differs"
};

struct check {		      /* of one account on one brick, or of a directory with a limit */
	char *name;	      /* of the account */
	json_int_t directory; /* its tag; 0: it is none */
	size_t place;	      /* in the reading */
	enum state state;
	json_int_t bytes, inodes;	      /* charged */
	json_int_t found_bytes, found_inodes; /* by the walk */
};
struct brick {
	const struct process *process;
	const char *volume; /* the translator that counts */
	const char *tenant; /* the only one that matters; NULL: all do */
	char *path, *pool;
	struct check *check; /* as `account` */
	struct walk_account *account;
	size_t accounts, count; /* behind the accounts are the directories */
	unsigned walks;
};

/* ---- readings ---- */

static json_t *read_counters(const struct brick *b, struct problem *p)
{
	cleanup_path char *line = path_format("ctl %s reading", b->volume);
	char *answer = NULL;
	json_t *reading = NULL;

	if (process_ask(b->process, line, &answer, p))
		return NULL;
	reading = json_loads(answer, 0, NULL);
	if (!reading)
		problem_set(p, EPROTO, "process %d can't tell what it has counted: it may be of another version",
			    (int)process_pid(b->process));
	free(answer);
	return reading;
}

static bool matters(const struct brick *b, const char *name)
{
	return !b->tenant || !strcmp(name, b->tenant);
}

static void free_checks(struct brick *b)
{
	for (size_t i = 0; i < b->count; i++)
		free(b->check[i].name);
	free(b->check);
	free(b->account);
	b->check = NULL;
	b->account = NULL;
	b->count = 0;
}

/* A directory is somebody's by the account that it belonged to when it got its limit. */
static char *name_of_owner(const struct brick *b, json_int_t base)
{
	size_t i = b->accounts - 1;

	while (i && (json_int_t)b->account[i].base != base)
		i--;
	return path_format("%s", b->check[i].name);
}

struct tagged {
	json_int_t tag;
	size_t place;
};

static int compare_tags(const void *a, const void *b)
{
	const struct tagged *x = a, *y = b;

	return x->tag < y->tag ? -1 : x->tag > y->tag;
}

/* By their tags. */
static void take_directories(struct brick *b, const json_t *list)
{
	size_t count = json_array_size(list);
	struct tagged *order = calloc(count + 1, sizeof *order);

	if (!order)
		abort(); /* as path_format */
	for (size_t i = 0; i < count; i++)
		order[i] = (struct tagged){ json_number(json_array_get(list, i), "directory"), i };
	qsort(order, count, sizeof *order, compare_tags);
	for (size_t i = 0; i < count; i++) {
		struct check *c = &b->check[b->accounts + i];

		c->directory = order[i].tag;
		c->place = order[i].place;
		c->name = name_of_owner(b, json_number(json_array_get(list, c->place), "base"));
		b->account[b->accounts + i].base = (uint64_t)c->directory;
	}
	free(order);
}

/* The accounts are those of the first reading: who comes later is none of this check. */
static void take_accounts(struct brick *b, const json_t *reading)
{
	const json_t *list = json_object_get(reading, "accounts"), *directories = json_object_get(reading, "directories"), *one;
	size_t i;

	b->path = path_format("%s", json_text(reading, "ledger"));
	if (strlen(b->path) > strlen(ledger_name))
		b->path[strlen(b->path) - strlen(ledger_name)] = '\0';
	b->pool = path_format("%s", json_text(reading, "pool"));
	b->accounts = json_array_size(list);
	b->count = b->accounts + json_array_size(directories);
	b->check = calloc(b->count + 1, sizeof *b->check);
	b->account = calloc(b->count + 1, sizeof *b->account);
	if (!b->check || !b->account)
		abort(); /* as path_format */
	json_array_foreach((json_t *)list, i, one)
	{
		b->check[i].name = path_format("%s", json_text(one, "account"));
		b->check[i].place = i;
		b->account[i].base = (uint64_t)json_number(one, "base");
		b->account[i].count = (uint64_t)json_number(one, "count");
	}
	if (b->accounts)
		take_directories(b, directories);
}

/* ---- comparing ---- */

static bool same(const json_t *a, const json_t *b, const char *member)
{
	return json_equal(json_object_get(a, member), json_object_get(b, member));
}

/* What the reading says of it; NULL: a directory that has no limit any more. */
static const json_t *reading_of(const json_t *reading, const struct check *c)
{
	const json_t *list = json_object_get(reading, c->directory ? "directories" : "accounts");
	const json_t *one = json_array_get(list, c->place);

	if (!c->directory || json_number(one, "directory") == c->directory)
		return one;
	for (size_t i = 0; i < json_array_size(list); i++)
		if (json_number(json_array_get(list, i), "directory") == c->directory)
			return json_array_get(list, i);
	return NULL;
}

/* Nothing of it was under way between the readings. */
static bool was_quiet(const json_t *before, const json_t *after, const struct check *c)
{
	const json_t *was = reading_of(before, c), *is = reading_of(after, c);

	return was && is && !json_is_true(json_object_get(was, "busy")) && same(was, is, "begun") && same(was, is, "base");
}

static void compare(struct check *c, const struct walk_account *found, const json_t *after)
{
	struct check was = *c;

	c->bytes = json_number(after, "bytes");
	c->inodes = json_number(after, "inodes");
	c->found_bytes = found->bytes;
	c->found_inodes = found->inodes;
	if (c->bytes == c->found_bytes && c->inodes == c->found_inodes)
		c->state = AGREES;
	else
		c->state = was.state == DIFFERED && was.bytes - was.found_bytes == c->bytes - c->found_bytes &&
					   was.inodes - was.found_inodes == c->inodes - c->found_inodes
				   ? DIFFERS
				   : DIFFERED;
}

static bool is_decided(const struct brick *b, const struct check *c)
{
	return c->state == AGREES || c->state == DIFFERS || !matters(b, c->name);
}

static void judge(struct brick *b, const json_t *before, const json_t *after)
{
	const json_t *list = json_object_get(after, "accounts");
	bool exact = json_is_true(json_object_get(before, "exact")) && json_is_true(json_object_get(after, "exact"));
	bool usable = same(before, after, "since") && json_array_size(list) >= b->accounts;
	bool still = usable && was_quiet(before, after,
					 &b->check[0]); /* of what is nobody's: with a directory whole trees may be moved */

	for (size_t i = 0; i < b->count; i++) {
		struct check *c = &b->check[i];
		bool quiet = still && was_quiet(before, after, c);

		if (is_decided(b, c) || (c->state == DIFFERED && !quiet))
			continue;
		compare(c, &b->account[i], reading_of(after, c));
		if (!exact)
			c->state = RECOUNTED;
		else if (!quiet)
			c->state = IN_USE;
	}
}

/* ---- a brick ---- */

static int walk_once(struct brick *b, struct problem *p)
{
	json_t *before = read_counters(b, p), *after = NULL;
	int err = before ? 0 : -1;

	if (!err && !b->check)
		take_accounts(b, before);
	if (!err)
		err = walk_brick(b->path, *json_text(before, "set"), b->account, b->accounts, b->account + b->accounts,
				 b->count - b->accounts, p);
	if (!err)
		after = read_counters(b, p);
	if (after) {
		judge(b, before, after);
		b->walks++;
	}
	json_decref(before);
	json_decref(after);
	return err || !after ? -1 : 0;
}

static bool all_decided(const struct brick *b)
{
	for (size_t i = 0; i < b->count; i++)
		if (!is_decided(b, &b->check[i]))
			return false;
	return true;
}

/* A difference that was seen once is looked at a second time, however long that takes. */
static bool is_suspicious(const struct brick *b)
{
	for (size_t i = 0; i < b->count; i++)
		if (b->check[i].state == DIFFERED && matters(b, b->check[i].name))
			return true;
	return false;
}

static json_t *check_json(const struct check *c)
{
	json_t *one = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "account", c->name, "result", words[c->state], "bytes",
				c->bytes, "inodes", c->inodes, "found_bytes", c->found_bytes, "found_inodes", c->found_inodes);

	if (c->directory)
		json_object_set_new(one, "directory", json_integer(c->directory));
	return one;
}

static json_t *brick_json(const struct brick *b)
{
	json_t *list = json_array();

	for (size_t i = 0; i < b->count; i++)
		if (matters(b, b->check[i].name))
			json_array_append_new(list, check_json(&b->check[i]));
	return json_pack("{s:s, s:s, s:i, s:o}", "brick", b->path, "pool", b->pool, "walks", (int)b->walks, "accounts", list);
}

static time_t now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

static int verify_brick(struct brick *b, unsigned wait_s, json_t *bricks, struct problem *p)
{
	time_t until = now_s() + wait_s;
	int err = walk_once(b, p);
	bool suspicious = is_suspicious(b);

	while (!err && !all_decided(b) && (suspicious || now_s() < until)) {
		if (!suspicious)
			usleep(PAUSE_US);
		err = walk_once(b, p);
		suspicious = !suspicious && is_suspicious(b);
	}
	if (!err)
		json_array_append_new(bricks, brick_json(b));
	free_checks(b);
	free(b->path);
	free(b->pool);
	return err;
}

int verify_process(const struct process *process, const char *tenant, unsigned wait_s, json_t *bricks, struct problem *p)
{
	json_t *volume;
	int err = 0;
	size_t i;

	json_array_foreach(json_object_get(process->info, "volumes"), i, volume)
	{
		struct brick b = { .process = process, .volume = json_text(volume, "name"), .tenant = tenant };

		if (!err && !strcmp(json_text(volume, "type"), "features/usage"))
			err = verify_brick(&b, wait_s, bricks, p);
	}
	return err;
}

/* ---- telling ---- */

enum verified verify_result(const json_t *bricks)
{
	enum verified worst = VERIFY_AGREES;
	json_t *brick, *account;
	size_t i, k;

	json_array_foreach((json_t *)bricks, i, brick) json_array_foreach(json_object_get(brick, "accounts"), k, account)
	{
		const char *result = json_text(account, "result");

		if (!strcmp(result, words[DIFFERS]))
			return VERIFY_DIFFERS;
		if (strcmp(result, words[AGREES]))
			worst = VERIFY_UNKNOWN;
	}
	return worst;
}

static void print_one(const char *brick, const json_t *account)
{
	bool agrees = !strcmp(json_text(account, "result"), words[AGREES]);
	json_int_t bytes = json_number(account, "bytes"), inodes = json_number(account, "inodes");

	json_int_t directory = json_number(account, "directory");
	cleanup_path char *name = directory ? path_format("%s/%" JSON_INTEGER_FORMAT, json_text(account, "account"), directory)
					    : path_format("%s", json_text(account, "account"));

	printf("%-32s %-24s %16" JSON_INTEGER_FORMAT " %10" JSON_INTEGER_FORMAT " %s", brick, name, bytes, inodes,
	       json_text(account, "result"));
	if (!agrees)
		printf(": found %" JSON_INTEGER_FORMAT " bytes, %" JSON_INTEGER_FORMAT " inodes",
		       json_number(account, "found_bytes"), json_number(account, "found_inodes"));
	putchar('\n');
}

void verify_print(const json_t *bricks)
{
	json_t *brick, *account;
	size_t i, k;

	printf("%-32s %-24s %16s %10s %s\n", "BRICK", "TENANT", "BYTES", "INODES", "RESULT");
	json_array_foreach((json_t *)bricks, i, brick) json_array_foreach(json_object_get(brick, "accounts"), k, account)
		print_one(json_text(brick, "brick"), account);
}
