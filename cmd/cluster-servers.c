/* SPDX-License-Identifier: Apache-2.0 */
/* The servers of the cluster: who is a member of the shared store, and what specifications call them.
 *
 *   cluster add-server NAME ADDRESS:PORT
 *   cluster remove-server NAME [keep-bricks]
 *
 * With keep-bricks it leaves the shared store only, and is to come back: what specifications call it stays known. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cluster.h"
#include "fop.h"
#include "json.h"
#include "log.h"
#include "path.h"
#include "store.h"

enum { SERVERS_MAX = 16, NAME_MAX_BYTES = 64 };

int cluster_commit_problem(int err, struct problem *p)
{
	switch (err) {
	case 0:
		return 0;
	case -EREMOTE:
		return problem_set(
			p, EREMOTE,
			"another server leads the cluster, or none can: run this on the one that leads (`stratus status` "
			"names it)");
	case -ETIMEDOUT:
		return problem_set(p, ETIMEDOUT,
				   "no majority of the servers has agreed so far: it may still happen; see `stratus status`");
	default:
		return problem_set(p, -err, "the cluster store can't be written: %s; see stratusd's log", strerror(-err));
	}
}

/* The names alone, as store_keys() gives keys. */
char **cluster_servers(void)
{
	static const char prefix[] = "server/";
	char **keys = store_keys(cluster_store(), prefix);

	for (char **key = keys; key && *key; key++)
		*key += strlen(prefix);
	return keys;
}

bool cluster_has_server(const char *name)
{
	cleanup_path char *key = path_format("server/%s", name);
	struct blob value;
	uint64_t version;
	int err;

	if (!strcmp(name, cluster_name()))
		return true;
	err = store_get(cluster_store(), key, &value, &version);
	free(value.bytes);
	return !err;
}

/* http: where its volfile service is; NULL: that is not known here. */
static int note(const char *name, const char *address, const char *http)
{
	cleanup_path char *key = path_format("server/%s", name);
	cleanup_path char *text = http ? path_format("{\"address\": \"%s\", \"http\": \"%s\"}", address, http)
				       : path_format("{\"address\": \"%s\"}", address);
	struct blob value = { .size = strlen(text), .bytes = text }, old;
	uint64_t version;
	int err = store_get(cluster_store(), key, &old, &version);
	bool same = !err && !strcmp(old.bytes, text);

	free(old.bytes);
	return same ? 0 : store_replace(cluster_store(), key, version, &value);
}

/* The address on which it listens, or, if that is all addresses, that of the store with the port. */
static char *own_http(const char *address)
{
	const char *http = cluster_http_address(), *port = strrchr(http, ':');

	if (!port)
		return NULL;
	if (strncmp(http, "[::]:", 5) && strncmp(http, "0.0.0.0:", 8) && port > http)
		return path_format("%s", http);
	return path_format("%.*s%s", (int)strcspn(address, ":"), address, port);
}

int cluster_note_self(const char *address)
{
	cleanup_path char *http = own_http(address);

	return note(cluster_name(), address, http);
}

static const char *name_of(uint64_t id, char *const *names)
{
	for (; names && *names; names++)
		if (store_member_id(*names) == id)
			return *names;
	return "?";
}

char *cluster_leader_http(void)
{
	struct store_member member[SERVERS_MAX];
	size_t count = store_members(cluster_store(), member, SERVERS_MAX);
	char **names = cluster_servers(), *http = NULL;

	for (size_t i = 0; i < count && !http; i++) {
		cleanup_path char *key = path_format("server/%s", name_of(member[i].id, names));
		struct blob value = { 0 };
		uint64_t version;
		json_t *said;

		if (!member[i].leads || store_get(cluster_store(), key, &value, &version))
			continue;
		said = json_loads(value.bytes, 0, NULL);
		if (*json_text(said, "http"))
			http = path_format("%s", json_text(said, "http"));
		json_decref(said);
		free(value.bytes);
	}
	free(names);
	return http;
}

void cluster_members_json(void *list)
{
	struct store_member member[SERVERS_MAX];
	size_t count = store_members(cluster_store(), member, SERVERS_MAX);
	char **names = cluster_servers();

	for (size_t i = 0; i < count; i++) {
		const struct store_member *m = &member[i];
		/* only the leader hears from all */
		const char *state = m->up ? "up" : store_leads(cluster_store()) ? "down" : "unknown";

		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b, s:b}", "name", name_of(m->id, names), "address",
						      m->address, "state", state, "leads", m->leads, "votes", m->votes));
	}
	free(names);
}

/* ---- changes ---- */

static int add(const char *name, const char *address, struct problem *p)
{
	static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	struct store_member member[SERVERS_MAX];
	size_t count;
	int err;

	if (!*name || strlen(name) > NAME_MAX_BYTES || strspn(name, fine) != strlen(name))
		return problem_set(p, EINVAL, "'%.80s' is no name of a server: take letters, digits, '-', '_' and '.'", name);
	count = store_members(cluster_store(), member, SERVERS_MAX);
	for (size_t i = 0; i < count; i++)
		if (member[i].id == store_member_id(name) && strcmp(member[i].address, address))
			return problem_set(
				p, EEXIST,
				"server %s is a member at %s: to give it another address `stratus server remove %s` first",
				name, member[i].address, name);
	if (count == SERVERS_MAX)
		return problem_set(p, E2BIG, "a cluster has at most %d servers", SERVERS_MAX);
	err = store_add(cluster_store(), name, address, p);
	return err ? err : cluster_commit_problem(note(name, address, NULL), p);
}

static int check_unused(const char *server, struct problem *p)
{
	static const char prefix[] = "volume/";
	char **keys = store_keys(cluster_store(), prefix);
	int err = keys ? 0 : -ENOMEM;

	for (char **key = keys; key && *key && !err; key++) {
		struct problem ignored = { "" };
		const struct spec *s;
		uint64_t version;

		if (!cluster_spec(*key + strlen(prefix), &s, &version, &ignored))
			for (size_t i = 0; i < s->bricks && !err; i++)
				if (!s->brick[i].gone && !strcmp(s->brick[i].server->name, server))
					err = problem_set(
						p, EBUSY,
						"server %s has the brick %s of volume %s: replace it (`stratus brick replace`) "
						"or delete the volume first; or --keep-bricks, if it comes back",
						server, s->brick[i].directory, s->volume);
		cluster_spec_release(s);
	}
	free(keys);
	return err;
}

static int remove_server(const char *name, bool keep_bricks, struct problem *p)
{
	cleanup_path char *key = path_format("server/%s", name);
	struct blob value = { 0 };
	uint64_t version;
	bool known;
	int err;

	if (!strcmp(name, cluster_name()))
		return problem_set(p, EINVAL,
				   "server %s leads the cluster: stop its stratusd, then remove it from the one that leads "
				   "next",
				   name);
	err = keep_bricks ? 0 : check_unused(name, p);
	if (err)
		return err;
	known = !store_get(cluster_store(), key, &value, &version);
	free(value.bytes);
	err = store_remove(cluster_store(), name, p);
	if (err == -ENOENT && known) { /* an earlier removal came so far */
		p->text[0] = '\0';
		err = 0;
	}
	if (err || !known || keep_bricks)
		return err;
	return cluster_commit_problem(store_replace(cluster_store(), key, version, NULL), p);
}

int cluster_server_command(int words, char **word, struct problem *p)
{
	if (!strcmp(word[1], "add-server") && words == 4)
		return add(word[2], word[3], p);
	if (!strcmp(word[1], "remove-server") && (words == 3 || (words == 4 && !strcmp(word[3], "keep-bricks"))))
		return remove_server(word[2], words == 4, p);
	return problem_set(p, EINVAL, "\"cluster %.60s\" takes other words", word[1]);
}
