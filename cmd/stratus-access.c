/* SPDX-License-Identifier: Apache-2.0 */
/* `stratus access`: access points of tenants (doc/tenants.md): by the provider in the committed specification, or by a tenant's administrator, who asks stratusd. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cluster-client.h"
#include "command.h"
#include "json.h"
#include "path.h"
#include "remote.h"
#include "service.h"
#include "tenant-json.h"
#include "verbs.h"

enum { KEY_UID = 1000, KEY_GID, KEY_READ_ONLY, KEY_EXPIRES };

struct arguments {
	struct words words;
	struct ask_form ask;
	struct remote remote;
	struct spec_access like;
	bool has_form;
};

/* "30d", "12h", "90m", "45s": from now on, in seconds since the epoch. */
static int take_end(const char *text, uint64_t *end_s)
{
	static const char units[] = "smhd";
	static const uint64_t unit_s[] = { 1, 60, 3600, 86400 };
	char *end;
	unsigned long long number = strtoull(text, &end, 10);
	const char *unit = *end ? strchr(units, *end) : units;

	if (*text < '0' || *text > '9' || strlen(text) > 9 || !number || !unit || (*end && end[1]))
		return -EINVAL;
	*end_s = (uint64_t)time(NULL) + number * unit_s[unit - units];
	return 0;
}

static unsigned take_id(const char *text, struct argp_state *state)
{
	char *end;
	unsigned long id = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || id >= SPEC_ACCESS_ANY)
		argp_error(state, "'%s' is no user or group id", text);
	return (unsigned)id;
}

static error_t option(int key, char *value, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->ask;
		state->child_inputs[1] = &a->remote;
		return 0;
	case KEY_UID:
		a->like.uid = take_id(value, state);
		break;
	case KEY_GID:
		a->like.gid = take_id(value, state);
		break;
	case KEY_READ_ONLY:
		a->like.read_only = true;
		break;
	case KEY_EXPIRES:
		if (take_end(value, &a->like.expires))
			argp_error(state, "'%s' is no time from now: write 30d, 12h, 90m or 45s", value);
		break;
	default:
		return words_take(&a->words, key, value, state);
	}
	a->has_form = true;
	return 0;
}

static const char *volume_of(const struct arguments *a)
{
	return a->words.word[1];
}

static const char *tenant_of(const struct arguments *a)
{
	return a->words.word[2];
}

/* ---- showing: one is an object as access_json() makes it ---- */

static void print_ids(const json_t *one)
{
	if (json_is_null(json_object_get(one, "uid")))
		printf(" %21s", "any any");
	else
		printf(" %10" JSON_INTEGER_FORMAT " %10" JSON_INTEGER_FORMAT, json_number(one, "uid"), json_number(one, "gid"));
}

static void print_end(const json_t *one)
{
	time_t end = (time_t)json_number(one, "expires");
	char text[32] = "never";
	struct tm tm;

	if (end)
		strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&end, &tm));
	printf(" %-20s%s", json_is_true(json_object_get(one, "expired")) ? "expired" : text,
	       json_is_true(json_object_get(one, "read_only")) ? " ro" : " rw");
}

static void print_one(const json_t *one)
{
	printf("%s", json_text(one, "id"));
	print_ids(one);
	print_end(one);
	printf(" %s\n", json_text(one, "directory"));
}

static void print_all(const struct arguments *a, const json_t *list)
{
	json_t *one;
	size_t i;

	if (a->ask.json) {
		json_show(list);
		return;
	}
	printf("%-36s %10s %10s %-20s %s %s\n", "ACCESS POINT", "UID", "GID", "EXPIRES", "  ", "DIRECTORY");
	json_array_foreach((json_t *)list, i, one) print_one(one);
}

static void print_created(const struct arguments *a, const json_t *one)
{
	if (a->ask.json)
		json_show(one);
	else
		printf("access point %s of tenant %s: its certificates say URI:%s (`stratus cert issue --access %s/%s`)\n",
		       json_text(one, "id"), json_text(one, "tenant"), json_text(one, "identity"), json_text(one, "tenant"),
		       json_text(one, "id"));
}

static void print_revoked(const struct arguments *a, const char *id)
{
	json_t *one = json_pack("{s:s}", "id", id);

	if (a->ask.json)
		json_show(one);
	else
		printf("access point %s is revoked: its sessions are cut off within a second\n", id);
	json_decref(one);
}

/* ---- here, by the cluster store ---- */

static const struct spec_tenant *find(const struct spec *s, const char *name, struct problem *p)
{
	const struct spec_tenant *t = spec_tenant_find(s, name);

	if (t && t->state != SPEC_TENANT_DELETED)
		return t;
	problem_set(p, ENOENT, "volume %s has no tenant '%s': `stratus tenant list %s` shows them", s->volume, name, s->volume);
	return NULL;
}

typedef int edit_fn(const struct arguments *, struct spec *, struct gfid *id, struct problem *);

static int commit(const struct process *keeper, const struct spec *s, uint64_t version, json_t **answer, struct problem *p)
{
	cleanup_path char *number = path_format("%" PRIu64, version);

	return keeper_commit(keeper, number, COMMIT_BRIEFLY, s, answer, p);
}

/* fn NULL: nothing is changed. `show` gets the tenant as it is then, and the id. */
static int with_store(const struct arguments *a, edit_fn *fn,
		      void (*show)(const struct arguments *, const struct spec *, const struct spec_tenant *,
				   const struct gfid *),
		      struct problem *p)
{
	struct process keeper = { 0 };
	struct spec s = { 0 };
	struct gfid id = { { 0 } };
	json_t *answer = NULL;
	uint64_t version = 0;
	int err = keeper_find(a->ask.stratusd, &keeper, p);

	if (!err)
		err = keeper_get(&keeper, volume_of(a), &s, &version, p);
	if (!err && !find(&s, tenant_of(a), p))
		err = -ENOENT;
	if (!err && fn)
		err = fn(a, &s, &id, p);
	if (!err && fn)
		err = commit(&keeper, &s, version, &answer, p);
	if (!err)
		show(a, &s, find(&s, tenant_of(a), p), &id);
	if (!err && fn)
		err = keeper_judge(answer, p);
	json_decref(answer);
	spec_free(&s);
	process_free(&keeper);
	return err;
}

static int add(const struct arguments *a, struct spec *s, struct gfid *id, struct problem *p)
{
	struct spec_access like = a->like;

	like.directory = (char *)a->words.word[3];
	return spec_create_access(s, tenant_of(a), &like, id, p);
}

static int take_id_word(const struct arguments *a, struct gfid *id, struct problem *p)
{
	return gfid_parse(a->words.word[3], id)
		       ? problem_set(p, EINVAL, "'%.80s' is no access point: `stratus access list` shows their ids",
				     a->words.word[3])
		       : 0;
}

static int take_away(const struct arguments *a, struct spec *s, struct gfid *id, struct problem *p)
{
	int err = take_id_word(a, id, p);

	return err ? err : spec_revoke_access(s, tenant_of(a), id, p);
}

static void show_list(const struct arguments *a, const struct spec *s, const struct spec_tenant *t, const struct gfid *id)
{
	json_t *list = access_list_json(s, t);

	(void)id;
	print_all(a, list);
	json_decref(list);
}

/* As the bricks look for it: by names alone, no link is followed. */
static bool stands_at(const struct spec_brick *b, const char *tenant, const char *directory)
{
	cleanup_path char *root = path_format("%s/tenants/%s", b->directory, tenant);
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
	int at = open(root, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), fd;

	directory += strspn(directory, "/");
	fd = at < 0 ? -1 : (int)syscall(SYS_openat2, at, *directory ? directory : ".", &how, sizeof how);
	if (fd >= 0)
		close(fd);
	if (at >= 0)
		close(at);
	return fd >= 0;
}

/* Nobody is let in before somebody makes it. Only of bricks of this machine it is known, and where a directory is known by its path. */
static void warn_of_missing(const struct arguments *a, const struct spec *s, const struct spec_tenant *t)
{
	const char *directory = a->words.word[3];
	bool here = false, there = false;

	for (size_t i = 0; i < s->bricks; i++) {
		const struct spec_brick *b = &s->brick[i];

		if (b->gone || access(b->directory, F_OK))
			continue;
		here = true;
		there |= stands_at(b, t->name, directory);
	}
	if (*directory == '/' && here && !there)
		fprintf(stderr,
			"stratus access: warning: tenant %s has no directory %s here: clients of the access point are refused until "
			"it is made\n",
			t->name, directory);
}

static void show_created(const struct arguments *a, const struct spec *s, const struct spec_tenant *t, const struct gfid *id)
{
	json_t *one = access_json(s, t, spec_access_find(t, id));

	warn_of_missing(a, s, t);
	print_created(a, one);
	json_decref(one);
}

static void show_revoked(const struct arguments *a, const struct spec *s, const struct spec_tenant *t, const struct gfid *id)
{
	char text[GFID_TEXT];

	(void)s, (void)t;
	print_revoked(a, gfid_text(id, text));
}

/* ---- over the network ---- */

static int remotely(const struct arguments *a, const char *method, const char *more, const json_t *body, json_t **answer,
		    struct problem *p)
{
	cleanup_path char *path = remote_path(volume_of(a), tenant_of(a), more, p);

	*answer = NULL;
	return path ? remote_ask(&a->remote, method, path, body, answer, p) : -EINVAL;
}

static json_t *form_json(const struct arguments *a)
{
	const struct spec_access *l = &a->like;
	json_t *body = json_pack("{s:s, s:b, s:I}", "directory", a->words.word[3], "read_only", l->read_only, "expires",
				 (json_int_t)l->expires);

	if (body && l->uid != SPEC_ACCESS_ANY)
		json_object_set_new(body, "uid", json_integer(l->uid));
	if (body && l->gid != SPEC_ACCESS_ANY)
		json_object_set_new(body, "gid", json_integer(l->gid));
	return body;
}

static int create_remotely(const struct arguments *a, struct problem *p)
{
	json_t *body = form_json(a), *answer = NULL;
	int err = body ? remotely(a, "POST", "/access", body, &answer, p)
		       : problem_set(p, EINVAL, "the directory's name must be UTF-8");

	if (!err)
		print_created(a, answer);
	json_decref(body);
	json_decref(answer);
	return err;
}

static int list_remotely(const struct arguments *a, struct problem *p)
{
	json_t *answer = NULL;
	int err = remotely(a, "GET", "/access", NULL, &answer, p);

	if (!err)
		print_all(a, answer);
	json_decref(answer);
	return err;
}

static int revoke_remotely(const struct arguments *a, struct problem *p)
{
	char text[GFID_TEXT];
	struct gfid id;
	json_t *answer = NULL;
	int err = take_id_word(a, &id, p);

	if (!err) {
		cleanup_path char *more = path_format("/access/%s", gfid_text(&id, text));

		err = remotely(a, "DELETE", more, NULL, &answer, p);
	}
	if (!err)
		print_revoked(a, text);
	json_decref(answer);
	return err;
}

/* ---- the command ---- */

static int create(const struct arguments *a, struct problem *p)
{
	return a->remote.servers ? create_remotely(a, p) : with_store(a, add, show_created, p);
}

static int list(const struct arguments *a, struct problem *p)
{
	return a->remote.servers ? list_remotely(a, p) : with_store(a, NULL, show_list, p);
}

static int revoke_one(const struct arguments *a, struct problem *p)
{
	return a->remote.servers ? revoke_remotely(a, p) : with_store(a, take_away, show_revoked, p);
}

int command_access(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "uid", KEY_UID, "ID", 0, "With create: all that its clients do they do as this user of the tenant", 0 },
		{ "gid", KEY_GID, "ID", 0, "With create: and as this group, without others", 0 },
		{ "read-only", KEY_READ_ONLY, NULL, 0, "With create: its clients can change nothing", 0 },
		{ "expires", KEY_EXPIRES, "TIME", 0, "With create: it ends so long from now (30d, 12h, 90m, 45s)", 0 },
		{ 0 },
	};
	static const struct argp_child children[] = { { &ask_argp, 0, NULL, 0 }, { &remote_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		options,
		option,
		"create VOLUME TENANT /DIRECTORY|@BRICK.NUMBER\nlist VOLUME TENANT\nrevoke VOLUME TENANT ID",
		"Access points of a tenant: whose certificate says URI:stratus:tenant/TENANT/access/ID mounts that directory of the tenant's tree, and "
		"sees nothing else. Where a volume has several bricks, or may get them, the directory has a quota, and is written as `stratus quota show` tells it, @BRICK.NUMBER. They never change; a revoked one is cut off within a second. On a server the provider does this; with --server "
		"the tenant's administrator, by a certificate of stratus:tenant/TENANT/admin. doc/tenants.md has more.",
		children,
		NULL,
		NULL,
	};
	static const struct verb verbs[] = {
		{ "create", 4, 4, WITH_ACCESS, create }, { "list", 3, 3, 0, list }, { "revoke", 4, 4, 0, revoke_one }, { 0 }
	};
	const char *word[4];
	struct arguments a = { .words = { word, 1, 4, 0 }, .like = { .uid = SPEC_ACCESS_ANY, .gid = SPEC_ACCESS_ANY } };

	arguments_parse(&argp, argc, argv, 0, NULL, &a);
	return verbs_run(argv[0], verbs, a.words.word[0], a.words.count, a.has_form ? WITH_ACCESS : 0, &a);
}
