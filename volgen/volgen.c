/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the volfiles of a volume: the stack of each server, and that of the clients. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "path.h"
#include "volgen.h"

struct writer {
	const struct spec *spec;
	const char *state; /* directory of the coordinator */
	FILE *to;	   /* the file that is being written: its text */
	char *text;
	size_t size;
	bool *used; /* by index in spec->by_type */
	char *tenants, *access, *accounts,
		*shares; /* as the translators take them, the same for all bricks: there may be many thousands */
};

/* What volgen writes itself: the same text for all volumes of a type would be wrong. */
static const char *const own[][2] = {
	{ "storage/posix", "directory" },
	{ "storage/posix", "volume-id" },
	{ "storage/posix", "brick-id" },
	{ "features/locks", "state-dir" },
	{ "features/replica", "state-dir" },
	{ "features/replica", "secret-file" },
	{ "features/replica", "member" },
	{ "features/replica", "set" },
	{ "features/layout", "subvolume" },
	{ "features/layout", "initial" },
	{ "features/layout", "initial-from" },
	{ "features/layout", "leaving" },
	{ "features/lease", "record" },
	{ "features/cloud", "tenants" },
	{ "features/cloud", "access" },
	{ "features/cloud", "spread" },
	{ "features/cloud", "replicas" },
	{ "features/throttle", "tenants" },
	{ "features/usage", "ledger" },
	{ "features/usage", "accounts" },
	{ "features/usage", "pool" },
	{ "features/usage", "pool-bricks" },
	{ "features/usage", "pool-servers" },
	{ "features/usage", "pool-sets" },
	{ "features/usage", "set" },
	{ "protocol/server", "listen" },
	{ "protocol/client", "remote-host" },
	{ "protocol/client", "remote-port" },
	{ "protocol/client", "volume-id" },
	{ "protocol/client", "brick-id" },
	{ "protocol/client", "remote-subvolume" },
	{ "cluster/afr", "arbiter" },
	{ "cluster/dht", "initial" },
	{ "cluster/dht", "initial-from" },
	{ "cluster/dht", "leaving" },
	{ "cluster/coordinator", "volume" },
	{ "cluster/coordinator", "state-file" },
	{ "cluster/coordinator", "secret-file" },
	{ "cluster/coordinator", "arbiter" },
	{ "mount/fuse", "mountpoint" },
	{ "mount/fuse", "fsname" },
};

static void option(struct writer *w, const char *name, const char *value)
{
	fprintf(w->to, "    option %s ", name);
	volgen_print_word(value, w->to);
	fputc('\n', w->to);
}

static void begin(struct writer *w, const char *name, const char *type)
{
	fprintf(w->to, "\nvolume %s\n    type %s\n", name, type);
}

static void end(struct writer *w, const char *type, const char *below)
{
	for (size_t i = 0; i < w->spec->types; i++) {
		const struct spec_options *o = &w->spec->by_type[i];

		if (strcmp(o->type, type))
			continue;
		w->used[i] = true;
		for (size_t k = 0; k < o->options; k++)
			option(w, o->option[k].name, o->option[k].value);
	}
	if (below)
		fprintf(w->to, "    subvolumes %s\n", below);
	fputs("end-volume\n", w->to);
}

static const char *last_part(const char *type)
{
	return strchr(type, '/') + 1;
}

/* The name of the i-th translator of a stack; the uppermost is called as the stack. Types have no dots. */
static char *stack_name(const char *stack, const struct spec_list *types, size_t i)
{
	const char *name = last_part(types->item[i]);
	unsigned before = 0;

	for (size_t k = 0; k < i; k++)
		before += !strcmp(last_part(types->item[k]), name);
	if (i + 1 == types->count)
		return path_format("%s", stack);
	return before ? path_format("%s-%s.%u", stack, name, before + 1) : path_format("%s-%s", stack, name);
}

static void ids(struct writer *w, const struct spec_brick *b)
{
	char id[GFID_TEXT];

	option(w, "volume-id", gfid_text(&w->spec->id, id));
	option(w, "brick-id", gfid_text(&b->id, id));
}

/* At the same server, with itself. */
static size_t bricks_beside(const struct spec *s, const struct spec_brick *b)
{
	size_t count = 0;

	for (size_t i = 0; i < s->bricks; i++)
		count += s->brick[i].server == b->server;
	return count;
}

/* Who has the names as long as no layout is written. */
static void beginning(struct writer *w)
{
	cleanup_path char *initial = path_format("%zu", spec_began_with(w->spec));
	cleanup_path char *from = path_format("%u", w->spec->began_at);

	option(w, "initial", initial);
	if (w->spec->began_at)
		option(w, "initial-from", from);
}

static void brick_options(struct writer *w, const char *type, size_t number)
{
	const struct spec_brick *b = &w->spec->brick[number];
	cleanup_path char *locks = path_format("%s/.stratus/locks", b->directory);
	cleanup_path char *replica = path_format("%s/.stratus/replica", b->directory);
	cleanup_path char *leases = path_format("%s/.stratus/leases", b->directory);
	cleanup_path char *secret = path_format("%s/.stratus/secret", b->directory);
	cleanup_path char *member = path_format("%zu", w->spec->replica ? number % w->spec->replica : 0);
	size_t set_number = number / spec_set_size(w->spec);
	cleanup_path char *subvolume = path_format("%zu", set_number);
	cleanup_path char *ledger = path_format("%s/.stratus/usage", b->directory);
	cleanup_path char *here = path_format("%zu", bricks_beside(w->spec, b));
	cleanup_path char *all_servers = path_format("%zu", spec_servers_of_bricks(w->spec));
	cleanup_path char *all_sets = path_format("%zu", spec_subvolumes(w->spec));
	char pool[GFID_TEXT];
	cleanup_path char *set = path_format("%s.%s", gfid_text(&w->spec->id, pool), subvolume);

	if (!strcmp(type, "storage/posix")) {
		option(w, "directory", b->directory);
		ids(w, b);
	} else if (!strcmp(type, "features/locks")) {
		option(w, "state-dir", locks);
	} else if (!strcmp(type, "features/replica")) {
		option(w, "state-dir", replica);
		option(w, "secret-file", secret);
		option(w, "member", member);
		if (w->spec->has_tenants && number >= w->spec->replica)
			option(w, "set", subvolume);
	} else if (!strcmp(type, "features/layout")) {
		option(w, "subvolume", subvolume);
		beginning(w);
		if (w->spec->leaving && set_number == w->spec->leaver)
			option(w, "leaving", "on");
	} else if (!strcmp(type, "features/lease")) {
		option(w, "record", leases);
	} else if (!strcmp(type, "features/cloud")) {
		option(w, "tenants", w->tenants);
		if (spec_is_spread(w->spec))
			option(w, "spread", "on");
		if (w->spec->replica)
			option(w, "replicas", "on");
		if (!spec_is_spread(w->spec) || !w->spec->replica)
			option(w, "access", w->access);
	} else if (!strcmp(type, "features/throttle")) {
		option(w, "tenants", w->shares);
	} else if (!strcmp(type, "features/usage")) {
		option(w, "ledger", ledger);
		option(w, "accounts", w->accounts);
		if (spec_is_spread(w->spec) && !w->spec->replica)
			option(w, "pool", gfid_text(&w->spec->id, pool));
		if (spec_is_spread(w->spec) && !w->spec->replica)
			option(w, "pool-bricks", here);
		if (spec_is_spread(w->spec) && !w->spec->replica)
			option(w, "pool-servers", all_servers);
		if (w->spec->replica)
			option(w, "set", set);
		if (spec_is_spread(w->spec) && w->spec->replica)
			option(w, "pool", gfid_text(&w->spec->id, pool));
		if (spec_is_spread(w->spec) && w->spec->replica)
			option(w, "pool-sets", all_sets);
	}
}

enum { STACK_ABOVE = 64 };

static void put(struct spec_list *list, const char *type)
{
	list->item[list->count++] = (char *)type;
}

/* posix, features/usage if there are tenants, locks, access, features/layout if there are several subvolumes or may be, what the specification puts above them, features/replica,
 * or features/lease where there are no replicas, and above all features/throttle and features/cloud. */
static void brick_stack(struct writer *w, const char *stack, size_t number)
{
	char *types[5 + STACK_ABOVE + 3];
	const struct spec_list *above = &w->spec->server_translators;
	struct spec_list list = { types, 0 };
	cleanup_path char *below = NULL;

	put(&list, "storage/posix");
	if (w->spec->has_tenants)
		put(&list, "features/usage");
	put(&list, "features/locks");
	put(&list, "features/access");
	if (spec_is_spread(w->spec))
		put(&list, "features/layout");
	if (!w->spec->has_server_translators)
		put(&list, "debug/io-stats");
	for (size_t i = 0; i < above->count; i++)
		put(&list, above->item[i]);
	if (w->spec->replica)
		put(&list, "features/replica");
	if (spec_has_leases(w->spec))
		put(&list, "features/lease");
	if (w->spec->has_tenants) {
		put(&list, "features/throttle");
		put(&list, "features/cloud");
	}
	for (size_t i = 0; i < list.count; i++) {
		char *name = stack_name(stack, &list, i);

		begin(w, name, types[i]);
		brick_options(w, types[i], number);
		end(w, types[i], below);
		free(below);
		below = name;
	}
}

static char *listen_address(const struct spec_server *s, unsigned port)
{
	const char *address = s->listen ? s->listen : s->host;

	return path_format(strchr(address, ':') ? "[%s]:%u" : "%s:%u", address, port);
}

/* The same files for both sides: what they are called follows from the machine, what is in them from who it is. */
static void transport(struct writer *w)
{
	const struct spec_tls *tls = &w->spec->tls;

	if (w->spec->transport != SPEC_TLS)
		return;
	option(w, "transport", "tls");
	option(w, "tls-certificate", tls->certificate);
	option(w, "tls-key", tls->key);
	option(w, "tls-authorities", tls->authorities);
	if (tls->revoked)
		option(w, "tls-revoked", tls->revoked);
}

/* The bricks of a server that listen on one port. */
static void write_server(struct writer *w, const struct spec_server *server, unsigned port)
{
	cleanup_path char *stacks = path_format("%s", ""), *address = listen_address(server, port);

	for (size_t i = 0; i < w->spec->bricks; i++) {
		cleanup_path char *stack = path_format("brick%zu", i);
		char *more;

		if (w->spec->brick[i].server != server || spec_brick_port(&w->spec->brick[i]) != port)
			continue;
		brick_stack(w, stack, i);
		more = path_format("%s%s%s", stacks, *stacks ? " " : "", stack);
		free(stacks);
		stacks = more;
	}
	begin(w, "server", "protocol/server");
	option(w, "listen", address);
	transport(w);
	end(w, "protocol/server", stacks);
}

/* The connection to a brick. A replica set does without a brick that is away, so nobody waits
 * long for one, not at the start either; a server that takes over may have many coordinators to start, one after the other. */
static void write_connection(struct writer *w, const char *name, size_t number, bool coordinator)
{
	const struct spec_brick *b = &w->spec->brick[number];
	cleanup_path char *brick = path_format("brick%zu", number), *port = path_format("%u", spec_brick_port(b));

	begin(w, name, "protocol/client");
	option(w, "remote-host", b->server->host);
	option(w, "remote-port", port);
	option(w, "remote-subvolume", brick);
	ids(w, b);
	transport(w);
	if (w->spec->replica && !spec_option(w->spec, "protocol/client", "max-wait"))
		option(w, "max-wait", "5s");
	if (w->spec->replica && !spec_option(w->spec, "protocol/client", "wait-for-brick"))
		option(w, "wait-for-brick", "on");
	if (coordinator && !spec_option(w->spec, "protocol/client", "start-wait"))
		option(w, "start-wait", "0");
	end(w, "protocol/client", NULL);
}

/* What stands over one set. */
static char *numbered(const struct writer *w, const char *name, size_t number)
{
	return spec_has_no_number(w->spec, number) ? path_format("%s", name) : path_format("%s%zu", name, number);
}

/* "NAME0 NAME1 ..." */
static char *names_from(const char *name, size_t first, size_t count)
{
	char *all = path_format("%s%zu", name, first);

	for (size_t i = first + 1; i < first + count; i++) {
		char *more = path_format("%s %s%zu", all, name, i);

		free(all);
		all = more;
	}
	return all;
}

static void write_member(struct writer *w, size_t number, bool coordinator)
{
	cleanup_path char *name = path_format("client%zu", number);

	write_connection(w, name, number, coordinator);
}

/* Connections to the bricks of a replica set, and the translator over them. */
static void write_set(struct writer *w, const char *name, const char *type, size_t set)
{
	size_t count = w->spec->replica, first = set * count;
	cleanup_path char *all = names_from("client", first, count), *called = spec_set_name(w->spec, set);
	cleanup_path char *view = path_format("%s/%s.view", w->state, called);
	cleanup_path char *secret = path_format("%s/%s.secret", w->state, w->spec->volume);

	bool coordinator = !strcmp(type, "cluster/coordinator");

	for (size_t i = first; i < first + count; i++)
		write_member(w, i, coordinator);
	begin(w, name, type);
	if (coordinator) {
		option(w, "volume", called);
		option(w, "state-file", view);
		option(w, "secret-file", secret);
		if (!spec_option(w->spec, type, "first-answer"))
			option(w, "first-answer", "3s");
	}
	if (w->spec->arbiter)
		option(w, "arbiter", "on");
	end(w, type, all);
}

/* A brick that is a subvolume by itself is called clientN, too. */
static void write_brick(struct writer *w, const char *name, size_t number)
{
	cleanup_path char *connection = path_format("connection%zu", number);

	if (!spec_has_leases(w->spec)) {
		write_connection(w, name, number, false);
		return;
	}
	write_connection(w, connection, number, false);
	begin(w, name, "features/believe");
	end(w, "features/believe", connection);
}

/* Its name. */
static char *write_subvolume(struct writer *w, size_t number)
{
	char *name = w->spec->replica ? numbered(w, "afr", number) : path_format("client%zu", number);

	if (w->spec->replica)
		write_set(w, name, "cluster/afr", number);
	else
		write_brick(w, name, number);
	return name;
}

/* In place of one that has left. */
static char *write_absent(struct writer *w, size_t number)
{
	char *name = path_format("absent%zu", number);

	begin(w, name, "cluster/absent");
	end(w, "cluster/absent", NULL);
	return name;
}

static char *write_place(struct writer *w, size_t number)
{
	return spec_has_subvolume(w->spec, number) ? write_subvolume(w, number) : write_absent(w, number);
}

/* All subvolumes, and what spreads names over them. The name of the top. */
static char *write_subvolumes(struct writer *w)
{
	cleanup_path char *leaver = path_format("%zu", w->spec->leaver);
	char *all = write_place(w, 0);

	for (size_t i = 1; i < spec_places(w->spec); i++) {
		cleanup_path char *before = all, *name = write_place(w, i);

		all = path_format("%s %s", before, name);
	}
	if (!spec_is_spread(w->spec))
		return all;
	begin(w, "dht", "cluster/dht");
	/* A client of before there was such an option serves for a volume that never grew. */
	if (spec_began_with(w->spec) != spec_places(w->spec))
		beginning(w);
	if (w->spec->leaving)
		option(w, "leaving", leaver);
	end(w, "cluster/dht", all);
	free(all);
	return path_format("dht");
}

static void write_mount(struct writer *w, char *lowest)
{
	const struct spec_list *above = &w->spec->client_translators;
	cleanup_path char *below = lowest;

	for (size_t i = 0; i < above->count; i++) {
		char *name = stack_name("top", above, i);

		begin(w, name, above->item[i]);
		end(w, above->item[i], below);
		free(below);
		below = name;
	}
	begin(w, "mount", "mount/fuse");
	option(w, "fsname", w->spec->volume);
	end(w, "mount/fuse", below);
}

static void write_client(struct writer *w)
{
	write_mount(w, write_subvolumes(w));
}

static void begin_file(struct writer *w)
{
	w->to = open_memstream(&w->text, &w->size);
	if (!w->to)
		abort(); /* a few bytes, in a tool */
	fprintf(w->to, "# Made by stratus volgen for the volume %s: change its specification, not this file.\n",
		w->spec->volume);
}

static void end_file(struct writer *w, struct volgen_files *files, enum volgen_kind kind, size_t number, char *name)
{
	struct volgen_file *grown = realloc(files->file, (files->count + 1) * sizeof *grown);

	if (!grown || fclose(w->to))
		abort(); /* as above */
	files->file = grown;
	grown[files->count++] = (struct volgen_file){ name, w->text, kind, number };
}

static int check_options(const struct spec *s, struct problem *p)
{
	if (s->client_translators.count > STACK_ABOVE || s->server_translators.count > STACK_ABOVE)
		return problem_set(p, EINVAL, "%s: more than %d translators in one stack", s->path, STACK_ABOVE);
	for (size_t i = 0; i < s->types; i++)
		for (size_t k = 0; k < s->by_type[i].options; k++)
			for (size_t o = 0; o < sizeof own / sizeof *own; o++)
				if (!strcmp(own[o][0], s->by_type[i].type) && !strcmp(own[o][1], s->by_type[i].option[k].name))
					return problem_set(p, EINVAL,
							   "%s:%u: option %s of %s follows from the rest of the specification: "
							   "leave it out",
							   s->path, s->by_type[i].option[k].line, own[o][1], own[o][0]);
	return 0;
}

/* A client's certificate is all that tells whose it is. (While it is stopped it can still be said.) */
static int check_identity(const struct spec *s, struct problem *p)
{
	if (!s->has_tenants || s->stopped || spec_has_tls(s))
		return 0;
	return problem_set(p, EINVAL,
			   "%s: volume %s has tenants, who are told apart by their certificates: give it "
			   "'transport: tls' and the files that go with it",
			   s->path, s->volume);
}

/* No mover goes through tenants' trees. */
static int check_wide(const struct spec *s, struct problem *p)
{
	const char *names = s->has_tenants ? spec_option(s, "features/layout", "widen-at") : NULL;

	return names && strcmp(names, "0") ? problem_set(p, EINVAL,
							 "%s: directories of tenants are at one brick each in this version: "
							 "remove 'widen-at' of features/layout",
							 s->path)
					   : 0;
}

static int check_used(const struct writer *w, struct problem *p)
{
	for (size_t i = 0; i < w->spec->types; i++)
		if (!w->used[i])
			return problem_set(p, EINVAL,
					   "%s:%u: there are options for %s, but no such translator in any stack: add it to "
					   "client-translators or server-translators, or remove them",
					   w->spec->path, w->spec->by_type[i].line, w->spec->by_type[i].type);
	return 0;
}

/* One volfile for each port that bricks of the server listen on. */
static void write_ports(struct writer *w, size_t number, struct volgen_files *files)
{
	const struct spec *s = w->spec;
	const struct spec_server *server = &s->server[number];

	for (size_t i = 0; i < s->bricks; i++) {
		bool done = s->brick[i].server != server; /* one that has gone has none */
		unsigned port = done ? 0 : spec_brick_port(&s->brick[i]);

		for (size_t before = 0; before < i && !done; before++)
			done = s->brick[before].server == server && spec_brick_port(&s->brick[before]) == port;
		if (done)
			continue;
		begin_file(w);
		write_server(w, server, port);
		end_file(w, files, VOLGEN_SERVER, number,
			 port == server->port ? path_format("server-%s.vol", server->name)
					      : path_format("server-%s-%u.vol", server->name, port));
	}
}

static void write_coordinator(struct writer *w, size_t set, struct volgen_files *files)
{
	cleanup_path char *called = spec_set_name(w->spec, set), *name = numbered(w, "coordinator", set);

	begin_file(w);
	write_set(w, name, "cluster/coordinator", set);
	end_file(w, files, VOLGEN_COORDINATOR, set, path_format("coordinator-%s.vol", called));
}

static void write_all(struct writer *w, struct volgen_files *files)
{
	const struct spec *s = w->spec;

	for (size_t i = 0; i < s->servers; i++)
		write_ports(w, i, files);
	begin_file(w);
	write_client(w);
	end_file(w, files, VOLGEN_CLIENT, 0, path_format("client-%s.vol", s->volume));
	for (size_t i = 0; s->replica && i < spec_places(s); i++)
		if (spec_has_subvolume(s, i))
			write_coordinator(w, i, files);
}

int volgen(const struct spec *s, const char *state, struct volgen_files *files, struct problem *p)
{
	struct writer w = { .spec = s, .state = state ? state : VOLGEN_STATE, .used = calloc(s->types + 1, sizeof *w.used) };
	int err = w.used ? check_options(s, p) : -ENOMEM;

	if (!err)
		err = check_identity(s, p);
	if (!err)
		err = check_wide(s, p);
	*files = (struct volgen_files){ 0 };
	if (!err) {
		w.tenants = spec_tenant_table(s);
		w.access = spec_access_table(s);
		w.accounts = spec_tenant_accounts(s);
		w.shares = spec_tenant_shares(s);
		write_all(&w, files);
	}
	if (!err)
		err = check_used(&w, p);
	if (err)
		volgen_free(files);
	free(w.used);
	free(w.tenants);
	free(w.access);
	free(w.accounts);
	free(w.shares);
	return err;
}

int volgen_one_brick(const struct spec *s, size_t number, char **text, struct problem *p)
{
	struct writer w = { .spec = s, .used = calloc(s->types + 1, sizeof *w.used) };
	int err = w.used ? check_options(s, p) : -ENOMEM;

	*text = NULL;
	if (!err) {
		begin_file(&w);
		write_mount(&w, write_subvolume(&w, number));
		if (fclose(w.to))
			abort(); /* as in end_file */
		*text = w.text;
	}
	free(w.used);
	return err;
}

char *volgen_take(struct volgen_files *files, enum volgen_kind kind)
{
	char *text = NULL;

	for (size_t i = 0; i < files->count && !text; i++)
		if (files->file[i].kind == kind) {
			text = files->file[i].text;
			files->file[i].text = NULL;
		}
	return text;
}

void volgen_free(struct volgen_files *files)
{
	for (size_t i = 0; i < files->count; i++) {
		free(files->file[i].name);
		free(files->file[i].text);
	}
	free(files->file);
	*files = (struct volgen_files){ 0 };
}
