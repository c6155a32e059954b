/* SPDX-License-Identifier: Apache-2.0 */
/* Asks each features/usage and features/throttle for what it has counted, and writes it line by line. All lines of one metric stand together, as the format wants. */
#include "metrics.h"

#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "json.h"
#include "log.h"

static const char ledger_name[] = "/.stratus/usage";

/* ---- asking ---- */

static void ask_one(struct xlator *x, json_t *bricks)
{
	char *argv[] = { (char *)"status", (char *)"--json" }, *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);
	int err = to ? x->type->command(x, 2, argv, to) : -1;

	if (to)
		fclose(to);
	if (!err)
		json_array_append_new(bricks, json_loads(text, 0, NULL)); /* NULL is left out */
	free(text);
}

static void ask_each(struct graph *g, const char *type, json_t *bricks)
{
	for (size_t i = 0; i < g->count; i++)
		if (!strcmp(g->xlator[i]->type->name, type) && g->xlator[i]->started)
			ask_one(g->xlator[i], bricks);
}

static void ask_usage(struct graph *g, void *bricks)
{
	ask_each(g, "features/usage", bricks);
}

static void ask_throttle(struct graph *g, void *bricks)
{
	ask_each(g, "features/throttle", bricks);
}

/* ---- writing ---- */

static void write_label(const char *name, const char *value, size_t length, FILE *to)
{
	fprintf(to, "%s=\"", name);
	for (size_t i = 0; i < length; i++) {
		if (value[i] == '\\' || value[i] == '"')
			fputc('\\', to);
		if (value[i] == '\n')
			fputs("\\n", to);
		else
			fputc(value[i], to);
	}
	fputc('"', to);
}

static size_t directory_of(const json_t *brick, const char **directory)
{
	const char *tail = strstr(*directory = json_text(brick, "ledger"), ledger_name);

	return tail ? (size_t)(tail - *directory) : strlen(*directory);
}

/* What there is of both: no set without replicas, no volume where a volfile is served. */
static void write_place(const json_t *brick, FILE *to)
{
	static const char *const names[] = { "volume", "set" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *value = json_text(brick, names[i]);

		if (!*value)
			continue;
		fputc(',', to);
		write_label(names[i], value, strlen(value), to);
	}
}

static void write_brick(const json_t *brick, FILE *to)
{
	const char *directory;
	size_t size = directory_of(brick, &directory);

	write_label("brick", directory, size, to);
	write_place(brick, to);
}

static void begin(const char *name, const char *help, const char *kind, FILE *to)
{
	fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

static void write_accounts_with(const json_t *bricks, const char *name, const char *help, const char *member,
				const char *condition, FILE *to)
{
	json_t *brick, *account;
	size_t i, k;

	begin(name, help, "gauge", to);
	json_array_foreach((json_t *)bricks, i, brick) json_array_foreach(json_object_get(brick, "accounts"), k, account)
	{
		const char *tenant = json_text(account, "account");

		if (condition && !json_number(account, condition))
			continue;
		fprintf(to, "%s{", name);
		write_brick(brick, to);
		fputc(',', to);
		write_label("tenant", tenant, strlen(tenant), to);
		fprintf(to, "} %" JSON_INTEGER_FORMAT "\n", json_number(account, member));
	}
}

static void write_accounts(const json_t *bricks, const char *name, const char *help, const char *member, FILE *to)
{
	write_accounts_with(bricks, name, help, member, NULL, to);
}

/* Of who has one: there may be many thousands who have none. */
static void write_soft(const json_t *bricks, FILE *to)
{
	write_accounts_with(bricks, "stratus_quota_soft_bytes", "Bytes that the tenant should not have more of", "bytes_soft",
			    "bytes_soft", to);
	write_accounts_with(bricks, "stratus_quota_soft_inodes",
			    "Files, directories and links that the tenant should not have more of", "inodes_soft",
			    "inodes_soft", to);
	write_accounts_with(bricks, "stratus_quota_soft_bytes_exceeded_timestamp_seconds",
			    "Since when the tenant has had more bytes than its soft limit; 0: it has not", "bytes_over_since",
			    "bytes_soft", to);
	write_accounts_with(
		bricks, "stratus_quota_soft_inodes_exceeded_timestamp_seconds",
		"Since when the tenant has had more files, directories and links than its soft limit; 0: it has not",
		"inodes_over_since", "inodes_soft", to);
}

static void write_of_bricks(const json_t *bricks, const char *name, const char *help, bool (*is_so)(const json_t *brick),
			    FILE *to)
{
	json_t *brick;
	size_t i;

	begin(name, help, "gauge", to);
	json_array_foreach((json_t *)bricks, i, brick)
	{
		fprintf(to, "%s{", name);
		write_brick(brick, to);
		fprintf(to, "} %d\n", is_so(brick));
	}
}

static bool is_exact(const json_t *brick)
{
	return json_is_true(json_object_get(brick, "exact"));
}

/* A gauge of its own, no label: the first member of a set may be another one any time, and what is charged is a series of each brick. */
static bool is_billed(const json_t *brick)
{
	return !*json_text(brick, "set") || json_is_true(json_object_get(brick, "first"));
}

static void write_held_of(const json_t *brick, const json_t *tenant, const char *name, const char *why, const char *member,
			  double unit, FILE *to)
{
	const char *who = json_text(tenant, "tenant"), *where = json_text(brick, "brick");

	fprintf(to, "%s{", name);
	write_label("brick", where, strlen(where), to);
	write_place(brick, to);
	fputc(',', to);
	write_label("tenant", who, strlen(who), to);
	fprintf(to, ",why=\"%s\"} %.15g\n", why, (double)json_number(tenant, member) / unit);
}

static void write_held(const json_t *bricks, const char *name, const char *help, const char *by_limit, const char *by_share,
		       double unit, FILE *to)
{
	json_t *brick, *tenant;
	size_t i, k;

	begin(name, help, "counter", to);
	json_array_foreach((json_t *)bricks, i, brick) json_array_foreach(json_object_get(brick, "tenants"), k, tenant)
	{
		write_held_of(brick, tenant, name, "limit", by_limit, unit, to);
		write_held_of(brick, tenant, name, "share", by_share, unit, to);
	}
}

/* What features/throttle does not know: what counts on the same brick does. */
static void place(json_t *throttle, const json_t *bricks)
{
	const char *where = json_text(throttle, "brick"), *directory;
	json_t *brick;
	size_t i;

	json_array_foreach((json_t *)bricks, i, brick)
	{
		size_t size = directory_of(brick, &directory);

		if (strlen(where) != size || strncmp(where, directory, size) != 0)
			continue;
		json_object_set(throttle, "set", json_object_get(brick, "set"));
		json_object_set(throttle, "volume", json_object_get(brick, "volume"));
	}
}

static void place_all(json_t *throttles, const json_t *bricks)
{
	json_t *one;
	size_t i;

	json_array_foreach(throttles, i, one) place(one, bricks);
}

static void write_throttle(const json_t *bricks, FILE *to)
{
	write_held(bricks, "stratus_throttle_held_total",
		   "Requests of the tenant that were held back, by its limits or for others", "held_by_limit", "held_by_share",
		   1, to);
	write_held(bricks, "stratus_throttle_held_seconds_total", "How long they were held back, added up", "held_by_limit_ns",
		   "held_by_share_ns", 1e9, to);
}

static void write_certificates(const json_t *certificates, FILE *to)
{
	static const char name[] = "stratus_certificate_end_timestamp_seconds";
	json_t *one;
	size_t i;

	begin(name, "When the certificate of this stratusd ends (role own), or that of the authority that it is of", "gauge",
	      to);
	json_array_foreach((json_t *)certificates, i, one)
	{
		const char *role = json_text(one, "role"), *file = json_text(one, "file");

		if (*json_text(one, "problem"))
			continue;
		fprintf(to, "%s{", name);
		write_label("role", role, strlen(role), to);
		fputc(',', to);
		write_label("file", file, strlen(file), to);
		fprintf(to, "} %" JSON_INTEGER_FORMAT "\n", json_number(one, "ends"));
	}
}

void metrics_write(void (*each_graph)(void (*fn)(struct graph *, void *), void *arg), const json_t *certificates, FILE *to)
{
	json_t *bricks = json_array(), *throttles = json_array();

	each_graph(ask_usage, bricks);
	each_graph(ask_throttle, throttles);
	write_accounts(bricks, "stratus_usage_bytes", "Bytes that are charged to the tenant; - is what belongs to none",
		       "bytes", to);
	write_accounts(bricks, "stratus_usage_inodes", "Files, directories and links of the tenant", "inodes", to);
	write_accounts(bricks, "stratus_quota_bytes", "Bytes that the tenant may have; 0 is no limit", "bytes_limit", to);
	write_accounts(bricks, "stratus_quota_inodes", "Files, directories and links that the tenant may have; 0 is no limit",
		       "inodes_limit", to);
	write_soft(bricks, to);
	write_of_bricks(bricks, "stratus_usage_exact",
			"1: what is told of the brick is exact; 0: a recount is under way, or needed", is_exact, to);
	write_of_bricks(bricks, "stratus_usage_billed",
			"1: what is charged here is billed; 0: it is a copy of what the first member of the set is charged",
			is_billed, to);
	place_all(throttles, bricks);
	write_throttle(throttles, to);
	write_certificates(certificates, to);
	json_decref(bricks);
	json_decref(throttles);
}
