/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the bricks of a volume what a tenant is charged, and puts into words what is above a soft limit. */
#include "charged.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "json.h"
#include "log.h"
#include "path.h"
#include "process.h"

void charged_add(json_t *sum, const json_t *account)
{
	static const char *const numbers[] = { "bytes", "inodes" };

	for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
		json_object_set_new(sum, numbers[k],
				    json_integer(json_number(sum, numbers[k]) + json_number(account, numbers[k])));
}

/* Of a replica set one member counts: the first, by whose word the set goes (doc/usage.md), or any if that is not served here. */
static size_t counting(const json_t *bricks, const char *set)
{
	size_t i, any = SIZE_MAX;
	const json_t *brick;

	json_array_foreach((json_t *)bricks, i, brick)
	{
		if (strcmp(json_text(brick, "set"), set))
			continue;
		if (json_is_true(json_object_get(brick, "first")))
			return i;
		any = any == SIZE_MAX ? i : any;
	}
	return any;
}

static void take(json_t **sum, const json_t *brick, const char *tenant)
{
	json_t *account;
	size_t i;

	json_array_foreach(json_object_get(brick, "accounts"), i, account)
	{
		if (strcmp(json_text(account, "account"), tenant))
			continue;
		if (*sum)
			charged_add(*sum, account);
		else
			*sum = json_incref(account);
		json_object_set_new(*sum, "bricks", json_integer(json_number(*sum, "bricks") + 1));
		if (json_is_false(json_object_get(brick, "exact")))
			json_object_set_new(*sum, "exact", json_false());
	}
}

/* False: it could not be asked. */
static bool ask(const struct process *process, const char *name, json_t *bricks)
{
	cleanup_path char *line = path_format("ctl %s status --json", name);
	struct problem p = { "" };
	char *answer = NULL;
	json_t *brick;

	if (process_ask(process, line, &answer, &p))
		return false;
	brick = json_loads(answer, 0, NULL);
	free(answer);
	return brick && !json_array_append_new(bricks, brick);
}

/* Translators are called VOLUME:NAME. */
json_t *charged_to(const struct process *process, const char *volume, const char *tenant)
{
	cleanup_path char *prefix = path_format("%s:", volume);
	json_t *of, *brick, *bricks = json_array(), *sum = NULL;
	bool whole = true;
	size_t i;

	json_array_foreach(json_object_get(process->info, "volumes"), i, of)
	{
		if (!strcmp(json_text(of, "type"), "features/usage") && !strncmp(json_text(of, "name"), prefix, strlen(prefix)))
			whole &= ask(process, json_text(of, "name"), bricks);
	}
	json_array_foreach(bricks, i, brick)
	{
		if (!*json_text(brick, "set") || counting(bricks, json_text(brick, "set")) == i)
			take(&sum, brick, tenant);
	}
	json_decref(bricks);
	if (sum && (!whole || !json_object_get(sum, "exact")))
		json_object_set_new(sum, "exact", json_boolean(whole));
	return sum;
}

/* ---- words ---- */

static char *duration(json_int_t seconds)
{
	static const struct {
		json_int_t seconds;
		const char *name;
	} units[] = { { 86400, "d" }, { 3600, "h" }, { 60, "min" }, { 1, "s" } };
	size_t i = 0;

	seconds = seconds < 0 ? 0 : seconds; /* the clock was put back */
	while (i < 3 && seconds < 2 * units[i].seconds)
		i++;
	return path_format("%" JSON_INTEGER_FORMAT " %s", seconds / units[i].seconds, units[i].name);
}

char *charged_over(const json_t *account)
{
	json_int_t bytes = json_number(account, "bytes_over_since"), inodes = json_number(account, "inodes_over_since");
	json_int_t since = !bytes || (inodes && inodes < bytes) ? inodes : bytes;
	cleanup_path char *time_text = duration((json_int_t)time(NULL) - since);

	if (!since)
		return path_format("%s", "");
	return path_format("above its soft limit of %s for %s",
			   !bytes    ? "inodes"
			   : !inodes ? "bytes"
				     : "bytes and inodes",
			   time_text);
}
