/* SPDX-License-Identifier: Apache-2.0 */
/* What features/usage tells to people and to `stratus`: its commands, and its part of a dump. */
#include "usage.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

static void print_json(FILE *out, const struct range *r, struct amount a, struct over since)
{
	fprintf(out,
		"{\"account\": \"%s\", \"bytes\": %" PRId64 ", \"inodes\": %" PRId64 ", \"bytes_limit\": %" PRId64
		", \"inodes_limit\": %" PRId64 ", \"bytes_soft\": %" PRId64 ", \"inodes_soft\": %" PRId64
		", \"grace\": %" PRIu64 ", \"bytes_over_since\": %" PRIu32 ", \"inodes_over_since\": %" PRIu32 "}",
		r->name, a.bytes, a.inodes, r->limit.bytes, r->limit.inodes, r->soft.bytes, r->soft.inodes, r->grace,
		since.bytes, since.inodes);
}

static void print_account(FILE *out, const struct range *r, struct amount a, struct over since)
{
	fprintf(out, "%-32s %20" PRId64 " %12" PRId64 " %20" PRId64 " %12" PRId64 "%s\n", r->name, a.bytes, a.inodes,
		r->limit.bytes, r->limit.inodes, since.bytes || since.inodes ? " (above its soft limit)" : "");
}

/* name NULL: all, and what is nobody's. */
static void print_accounts(struct ledger *l, FILE *out, bool json, const char *name)
{
	size_t count;

	void (*print)(FILE *, const struct range *, struct amount, struct over) = json ? print_json : print_account;

	if (!name)
		print(out, &(struct range){ .name = "-" }, ledger_amount(l, 0), (struct over){ 0 });
	pthread_mutex_lock(&l->lock);
	count = l->ranges.count;
	pthread_mutex_unlock(&l->lock);
	for (size_t i = 0; i < count; i++) {
		struct range r = { .count = 0 };

		pthread_mutex_lock(&l->lock);
		if (i < l->ranges.count)
			r = l->ranges.range[i];
		pthread_mutex_unlock(&l->lock);
		if (!r.count || (name && strcmp(r.name, name)))
			continue;
		if (json && !name)
			fputs(", ", out);
		print(out, &r, ledger_amount(l, r.row), ledger_over(l, r.row));
	}
}

/* As the store has it; of one that is served from a volfile nobody knows what it is called. */
static const char *volume_of(const struct xlator *x)
{
	const char *path = x->graph->path;

	return strchr(path, '/') ? "" : path;
}

static int print_status(struct xlator *x, FILE *out, bool json, const char *name)
{
	struct usage *u = usage_of(x);
	bool counting = atomic_load(&u->ledger.counting), owed = ledger_owes(&u->ledger);

	if (json)
		fprintf(out,
			"{\"volume\": \"%s\", \"ledger\": \"%s\", \"pool\": \"%s\", \"set\": \"%s\", \"first\": %s, \"exact\": %s, \"recount\": %s, \"recounted\": %zu, \"counted_at\": %" PRIu64
			", \"accounts\": [",
			volume_of(x), u->ledger_path, u->pool, u->set, atomic_load(&u->first) ? "true" : "false",
			owed ? "false" : "true", counting ? "true" : "false", ledger_seen_count(&u->ledger),
			ledger_counted_at(&u->ledger));
	else
		fprintf(out, "%-32s %20s %12s %20s %12s\n", "ACCOUNT", "BYTES", "INODES", "OF BYTES", "OF INODES");
	print_accounts(&u->ledger, out, json, name);
	if (json)
		fputs("]}\n", out);
	else if (owed && counting)
		fprintf(out, "These are not exact: %zu objects have been recounted so far.\n", ledger_seen_count(&u->ledger));
	else if (owed)
		fputs("These may not be exact: all is to be counted anew.\n", out);
	return 0;
}

static void print_counted(FILE *out, const struct reading *r)
{
	fprintf(out, "\"bytes\": %" PRId64 ", \"inodes\": %" PRId64 ", \"begun\": %" PRIu64 ", \"busy\": %s}", r->amount.bytes,
		r->amount.inodes, r->begun, r->busy ? "true" : "false");
}

/* For who counts by himself (`stratus usage verify`): one line of JSON. */
static int print_reading(struct xlator *x, FILE *out)
{
	struct usage *u = usage_of(x);
	struct reading *list = NULL;
	size_t count;
	int err = ledger_read(&u->ledger, &list, &count);

	if (err)
		return err;
	fprintf(out,
		"{\"ledger\": \"%s\", \"pool\": \"%s\", \"set\": \"%s\", \"exact\": %s, \"since\": %" PRIu64
		", \"accounts\": [",
		u->ledger_path, u->pool, u->set, ledger_owes(&u->ledger) ? "false" : "true", u->ledger.opened_ns);
	for (size_t i = 0; i < count && !list[i].dir; i++) {
		fprintf(out, "%s{\"account\": \"%s\", \"base\": %" PRIu64 ", \"count\": %" PRIu64 ", ", i ? ", " : "",
			list[i].range.name, list[i].range.base, list[i].range.count);
		print_counted(out, &list[i]);
	}
	fputs("], \"directories\": [", out);
	for (size_t i = 0, printed = 0; i < count; i++) {
		if (!list[i].dir)
			continue;
		fprintf(out, "%s{\"directory\": %" PRIu64 ", \"base\": %" PRIu64 ", ", printed++ ? ", " : "", list[i].dir,
			list[i].range.base);
		print_counted(out, &list[i]);
	}
	fputs("]}\n", out);
	free(list);
	return 0;
}

/* status [--json [ACCOUNT]] | directories [--json] | reading | recount */
int usage_command(struct xlator *x, int argc, char **argv, FILE *out)
{
	int err;

	if (argc == 1 && !strcmp(argv[0], "reading"))
		return print_reading(x, out);
	if ((argc == 1 || (argc == 2 && !strcmp(argv[1], "--json"))) && !strcmp(argv[0], "directories")) {
		dirs_print(x, out, argc == 2);
		return 0;
	}
	if (argc == 1 && !strcmp(argv[0], "status"))
		return print_status(x, out, false, NULL);
	if ((argc == 2 || argc == 3) && !strcmp(argv[0], "status") && !strcmp(argv[1], "--json"))
		return print_status(x, out, true, argc == 3 ? argv[2] : NULL);
	if (argc != 1 || strcmp(argv[0], "recount")) {
		fprintf(out,
			"volume %s takes the commands status [--json [TENANT]], directories [--json], reading and recount\n",
			x->name);
		return -EINVAL;
	}
	err = recount_start(x);
	if (err == -EBUSY)
		fputs("a recount is under way\n", out);
	return err == -EBUSY ? 0 : err;
}

void usage_dump(struct xlator *x, FILE *out)
{
	struct usage *u = usage_of(x);
	struct amount others = ledger_amount(&u->ledger, 0);

	fprintf(out, "  ledger: %s\n  exact: %s\n  recount: %s\n", u->ledger_path, ledger_owes(&u->ledger) ? "no" : "yes",
		atomic_load(&u->ledger.counting) ? "under way" : "none");
	fprintf(out, "  charged to nobody: %" PRId64 " bytes, %" PRId64 " inodes\n", others.bytes, others.inodes);
	fprintf(out, "  directories with limits: %zu\n", ledger_dirs(&u->ledger));
	fprintf(out, "  refused: %" PRIuFAST64 "\n", atomic_load(&u->refused));
	fprintf(out, "  settled: %" PRIuFAST64 "\n  without a note: %" PRIuFAST64 "\n  recovered: %" PRIuFAST64 "\n",
		atomic_load(&u->settled), atomic_load(&u->unnoted), atomic_load(&u->recovered));
}
