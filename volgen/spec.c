/* SPDX-License-Identifier: Apache-2.0 */
/* Reads, checks and prints the specification of a volume. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "log.h"
#include "path.h"
#include "volgen.h"
#include "word.h"

struct reader {
	yaml_document_t document;
	struct spec *spec;
	struct problem *problem;
};

struct key { /* of a mapping: what it is called and who takes its value */
	const char *name;
	int (*take)(struct reader *, yaml_node_t *value, void *target);
};

static unsigned line_of(const yaml_node_t *n)
{
	return n->start_mark.line + 1;
}

#define bad(r, line, format, ...) problem_set((r)->problem, EINVAL, "%s:%u: " format, (r)->spec->path, (line), ##__VA_ARGS__)

void *spec_grow(void *array, size_t *count, size_t size)
{
	char **at = array, *grown = realloc(*at, (*count + 1) * size);

	if (!grown)
		abort(); /* a few bytes, in a tool */
	*at = grown;
	return memset(grown + (*count)++ * size, 0, size);
}

/* ---- scalars ---- */

/* No control characters (C0, DEL, C1), and nothing that YAML takes for a line break or for no character when it is not
 * escaped: U+2028, U+2029, U+FEFF, U+FFFE, U+FFFF. libyaml gives valid UTF-8. */
static bool printable(const char *text)
{
	static const char *const never[] = { "\xe2\x80\xa8", "\xe2\x80\xa9", "\xef\xbb\xbf", "\xef\xbf\xbe", "\xef\xbf\xbf" };

	for (const unsigned char *at = (const unsigned char *)text; *at; at++)
		if (*at < ' ' || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0))
			return false;
	for (size_t i = 0; i < sizeof never / sizeof *never; i++)
		if (strstr(text, never[i]))
			return false;
	return true;
}

static int take_text(struct reader *r, yaml_node_t *n, void *target)
{
	const char *text = (const char *)n->data.scalar.value;
	char **to = target;

	if (n->type != YAML_SCALAR_NODE)
		return bad(r, line_of(n), "expected one value here, not a list or mapping");
	if (strlen(text) != n->data.scalar.length || !printable(text))
		return bad(r, line_of(n), "control characters and line breaks can't be written to a volfile");
	*to = path_format("%s", text);
	return 0;
}

static int take_name(struct reader *r, yaml_node_t *n, void *target)
{
	static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	char *name, **to = target;
	int err = take_text(r, n, target);

	if (err)
		return err;
	name = *to;
	if (!*name || strlen(name) > 64 || strspn(name, fine) != strlen(name) || *name == '.' || *name == '-')
		return bad(r, line_of(n), "'%.80s' is no name: take 1 to 64 letters, digits, '-', '_' and '.'", name);
	return 0;
}

static int take_host(struct reader *r, yaml_node_t *n, void *target)
{
	char **to = target;
	int err = take_text(r, n, target);

	if (!err && (!**to || strlen(*to) > 255 || strpbrk(*to, " []/\"#")))
		return bad(r, line_of(n), "'%.80s' is neither a host name nor an address", *to);
	return err;
}

/* The same directory in other words would pass for another one. */
static bool has_detour(const char *path)
{
	for (const char *at = path; (at = strchr(at, '/')); at++) {
		size_t length = strcspn(at + 1, "/");

		if ((!length && at[1]) || (length == 1 && at[1] == '.') || (length == 2 && at[1] == '.' && at[2] == '.'))
			return true;
	}
	return false;
}

static int take_path(struct reader *r, yaml_node_t *n, void *target)
{
	char **to = target;
	int err = take_text(r, n, target);

	if (!err && **to != '/')
		return bad(r, line_of(n), "the directory '%.200s' must be an absolute path", *to);
	for (size_t length = err ? 0 : strlen(*to); length > 1 && (*to)[length - 1] == '/';)
		(*to)[--length] = '\0';
	if (!err && has_detour(*to))
		return bad(r, line_of(n), "the directory '%.200s' must be written without '//', '.' and '..'", *to);
	return err;
}

static int take_transport(struct reader *r, yaml_node_t *n, void *target)
{
	enum spec_transport *to = target;
	char *text = NULL;
	int err = take_text(r, n, &text);

	if (!err && strcmp(text, "tls") && strcmp(text, "tcp"))
		err = bad(r, line_of(n), "'%.80s' is no transport: there are 'tls' and 'tcp'", text);
	*to = !err && !strcmp(text, "tls") ? SPEC_TLS : SPEC_TCP;
	free(text);
	return err;
}

static int take_file(struct reader *r, yaml_node_t *n, void *target)
{
	char **to = target;
	int err = take_text(r, n, target);

	if (!err && (**to != '/' || !(*to)[1]))
		return bad(r, line_of(n), "the file '%.200s' must be named by an absolute path", *to);
	return err;
}

static int take_number(struct reader *r, yaml_node_t *n, unsigned *to, unsigned min, unsigned max, const char *what)
{
	char *text = NULL, *end;
	int err = take_text(r, n, &text);
	unsigned long number = err ? 0 : strtoul(text, &end, 10);

	if (!err && (*end || number < min || number > max))
		err = bad(r, line_of(n), "'%.80s' is no %s: take one from %u to %u, or leave it out", text, what, min, max);
	*to = (unsigned)number;
	free(text);
	return err;
}

static int take_port(struct reader *r, yaml_node_t *n, void *target)
{
	return take_number(r, n, target, 1, 65535, "port");
}

static int take_replica(struct reader *r, yaml_node_t *n, void *target)
{
	return take_number(r, n, target, 2, SPEC_REPLICA_MAX, "number of replicas");
}

static int take_began(struct reader *r, yaml_node_t *n, void *target)
{
	return take_number(r, n, target, 1, SPEC_SUBVOLUMES_MAX, "number of subvolumes");
}

static int take_switch(struct reader *r, yaml_node_t *n, void *target)
{
	bool *to = target;
	char *text = NULL;
	int err = take_text(r, n, &text);

	if (!err && strcmp(text, "true") && strcmp(text, "false"))
		err = bad(r, line_of(n), "'%.80s' is neither 'true' nor 'false'", text);
	*to = !err && !strcmp(text, "true");
	free(text);
	return err;
}

static int take_began_at(struct reader *r, yaml_node_t *n, void *target)
{
	(void)target;
	r->spec->says_began_at = true;
	return take_number(r, n, &r->spec->began_at, 0, SPEC_SUBVOLUMES_MAX - 1, "number of a subvolume");
}

/* 'true': the last one, as it was when no other could leave. Which that is is known when all bricks are: check_leaving. */
static int take_leaving(struct reader *r, yaml_node_t *n, void *target)
{
	const char *text = (const char *)n->data.scalar.value;
	unsigned number;
	int err;

	r->spec->leaver = SIZE_MAX;
	if (n->type == YAML_SCALAR_NODE && (*text < '0' || *text > '9'))
		return take_switch(r, n, target);
	err = take_number(r, n, &number, 0, SPEC_SUBVOLUMES_MAX - 1, "number of a subvolume");
	r->spec->leaving = true;
	r->spec->leaver = number;
	return err;
}

/* A server's: whether it was given counts, too. */
static int take_server_port(struct reader *r, yaml_node_t *n, void *target)
{
	struct spec_server *s = target;

	s->has_port = true;
	return take_port(r, n, &s->port);
}

static int take_id(struct reader *r, yaml_node_t *n, void *target)
{
	char *text = NULL;
	int err = take_text(r, n, &text);

	if (!err && (gfid_parse(text, target) || gfid_is_null(target) || gfid_equal(target, &gfid_root)))
		err = bad(r, line_of(n),
			  "'%.80s' is no id: take a fresh one from uuidgen, or let `stratus volgen --init` write the "
			  "file",
			  text);
	free(text);
	return err;
}

static int take_type(struct reader *r, yaml_node_t *n, void *target)
{
	static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_/";
	char *slash, **to = target;
	int err = take_text(r, n, target);

	if (err)
		return err;
	slash = strchr(*to, '/');
	if (!slash || slash == *to || !slash[1] || strchr(slash + 1, '/') || strspn(*to, fine) != strlen(*to))
		return bad(r, line_of(n), "'%.80s' is no translator: write KIND/NAME, such as debug/trace", *to);
	return 0;
}

/* ---- mappings ---- */

static yaml_node_t *node(struct reader *r, int index)
{
	return yaml_document_get_node(&r->document, index);
}

static int unknown_key(struct reader *r, const yaml_node_t *n, const struct key *keys)
{
	const char *names[24] = { NULL }, *name = (const char *)n->data.scalar.value, *nearest;

	for (size_t i = 0; keys[i].name && i < 23; i++)
		names[i] = keys[i].name;
	nearest = nearest_name(name, names);
	return bad(r, line_of(n), "'%.80s' means nothing here%s%s%s", name, nearest ? ": did you mean '" : "",
		   nearest ? nearest : "", nearest ? "'?" : "");
}

static int check_mapping(struct reader *r, yaml_node_t *n, const char *what)
{
	yaml_node_pair_t *first = n->data.mapping.pairs.start, *end = n->data.mapping.pairs.top;

	if (n->type != YAML_MAPPING_NODE)
		return bad(r, line_of(n), "%s takes a mapping (lines 'NAME: VALUE' below it)", what);
	for (yaml_node_pair_t *at = first; at < end; at++) {
		const yaml_node_t *key = node(r, at->key);

		if (key->type != YAML_SCALAR_NODE)
			return bad(r, line_of(key), "expected a name before the colon");
		for (yaml_node_pair_t *before = first; before < at; before++)
			if (!strcmp((char *)node(r, before->key)->data.scalar.value, (char *)key->data.scalar.value))
				return bad(r, line_of(key), "'%.80s' is given twice", key->data.scalar.value);
	}
	return 0;
}

static int take_mapping(struct reader *r, yaml_node_t *n, const char *what, const struct key *keys, char *target,
			const size_t *offsets)
{
	int err = check_mapping(r, n, what);

	if (err)
		return err;
	for (yaml_node_pair_t *at = n->data.mapping.pairs.start; at < n->data.mapping.pairs.top && !err; at++) {
		const yaml_node_t *key = node(r, at->key);
		size_t i = 0;

		while (keys[i].name && strcmp(keys[i].name, (char *)key->data.scalar.value))
			i++;
		err = keys[i].name ? keys[i].take(r, node(r, at->value), target + offsets[i]) : unknown_key(r, key, keys);
	}
	return err;
}

static int take_tls(struct reader *r, yaml_node_t *n, void *target)
{
	static const struct key keys[] = { { "certificate", take_file },
					   { "key", take_file },
					   { "authorities", take_file },
					   { "revoked", take_file },
					   { 0 } };
	static const size_t offsets[] = { offsetof(struct spec_tls, certificate), offsetof(struct spec_tls, key),
					  offsetof(struct spec_tls, authorities), offsetof(struct spec_tls, revoked) };
	struct spec_tls *tls = target;
	int err = take_mapping(r, n, "'tls'", keys, target, offsets);

	if (!err && (!tls->certificate || !tls->key || !tls->authorities))
		return bad(r, line_of(n), "'tls' has no '%s'",
			   !tls->certificate ? "certificate"
			   : !tls->key	     ? "key"
					     : "authorities");
	return err;
}

static int take_server(struct reader *r, yaml_node_t *name, yaml_node_t *value)
{
	static const struct key keys[] = {
		{ "host", take_host }, { "port", take_server_port }, { "listen", take_host }, { 0 }
	};
	static const size_t offsets[] = { offsetof(struct spec_server, host), 0, offsetof(struct spec_server, listen) };
	struct spec_server *s = spec_grow(&r->spec->server, &r->spec->servers, sizeof *s);
	int err;

	s->port = SPEC_PORT;
	s->line = line_of(name);
	err = take_name(r, name, &s->name);
	if (!err && !(value->type == YAML_SCALAR_NODE && !value->data.scalar.length)) /* "alpha:" alone is fine */
		err = take_mapping(r, value, "a server", keys, (char *)s, offsets);
	if (!err && !s->host)
		s->host = path_format("%s", s->name);
	return err;
}

static int take_servers(struct reader *r, yaml_node_t *n, void *target)
{
	int err = check_mapping(r, n, "'servers'");

	(void)target;
	if (err)
		return err;
	for (yaml_node_pair_t *at = n->data.mapping.pairs.start; at < n->data.mapping.pairs.top && !err; at++)
		err = take_server(r, node(r, at->key), node(r, at->value));
	return err;
}

static int take_brick(struct reader *r, yaml_node_t *n)
{
	static const struct key keys[] = { { "server", take_text }, { "directory", take_path }, { "id", take_id },
					   { "port", take_port },   { "gone", take_switch },	{ 0 } };
	static const size_t offsets[] = { offsetof(struct spec_brick, server_name), offsetof(struct spec_brick, directory),
					  offsetof(struct spec_brick, id), offsetof(struct spec_brick, port),
					  offsetof(struct spec_brick, gone) };
	struct spec_brick *b = spec_grow(&r->spec->brick, &r->spec->bricks, sizeof *b);
	int err;

	b->line = line_of(n);
	err = take_mapping(r, n, "a brick", keys, (char *)b, offsets);
	if (err)
		return err;
	if (b->gone && (b->server_name || b->directory || b->port || !gfid_is_null(&b->id)))
		return bad(
			r, b->line,
			"'gone: true' keeps the place of a brick that has left, and has nothing beside it: remove the other lines");
	if (!b->gone && (!b->server_name || !b->directory || gfid_is_null(&b->id)))
		return bad(r, b->line, "this brick has no %s",
			   !b->server_name ? "'server'"
			   : !b->directory ? "'directory'"
					   : "'id': take a fresh one from uuidgen");
	return 0;
}

static int each_item(struct reader *r, yaml_node_t *n, const char *what, int (*take)(struct reader *, yaml_node_t *))
{
	int err = n->type == YAML_SEQUENCE_NODE ? 0 : bad(r, line_of(n), "%s takes a list (lines '- ...' below it)", what);

	for (yaml_node_item_t *at = n->data.sequence.items.start; !err && at < n->data.sequence.items.top; at++)
		err = take(r, node(r, *at));
	return err;
}

static int take_bricks(struct reader *r, yaml_node_t *n, void *target)
{
	(void)target;
	return each_item(r, n, "'bricks'", take_brick);
}

static int take_state(struct reader *r, yaml_node_t *n, void *target)
{
	char *text = NULL;
	int err = take_text(r, n, &text), state = err ? err : spec_tenant_state_parse(text);

	if (!err && state < 0)
		err = bad(r, line_of(n), "'%.80s' is no state: write active, suspended or deleted", text);
	if (!err)
		*(enum spec_tenant_state *)target = (enum spec_tenant_state)state;
	free(text);
	return err;
}

static int take_ids(struct reader *r, yaml_node_t *n, void *target)
{
	return take_number(r, n, target, 1, UINT32_MAX - 1, "number of user ids");
}

static int take_amount(struct reader *r, yaml_node_t *n, void *target)
{
	char *text = NULL, *end;
	int err = take_text(r, n, &text);
	unsigned long long amount = err ? 0 : strtoull(text, &end, 10);

	if (!err && (*end || *text < '0' || *text > '9' || amount > INT64_MAX))
		err = bad(r, line_of(n), "'%.80s' is no limit: write a whole number, or 0 for none", text);
	*(uint64_t *)target = amount;
	free(text);
	return err;
}

static int take_directory(struct reader *r, yaml_node_t *n, void *target)
{
	char **to = target;
	int err = take_text(r, n, target);

	return !err && word_decode(*to) ? bad(r, line_of(n), "in '%.80s' a %% is not followed by two digits of 0 to f", *to)
					: err;
}

static int take_user(struct reader *r, yaml_node_t *n, void *target)
{
	return take_number(r, n, target, 0, UINT32_MAX - 1, "user or group id");
}

static int take_access_point(struct reader *r, yaml_node_t *n)
{
	static const struct key keys[] = { { "id", take_id },
					   { "directory", take_directory },
					   { "uid", take_user },
					   { "gid", take_user },
					   { "read-only", take_switch },
					   { "expires", take_amount },
					   { 0 } };
	static const size_t offsets[] = { offsetof(struct spec_access, id),	   offsetof(struct spec_access, directory),
					  offsetof(struct spec_access, uid),	   offsetof(struct spec_access, gid),
					  offsetof(struct spec_access, read_only), offsetof(struct spec_access, expires) };
	struct spec_tenant *t = &r->spec->tenant[r->spec->tenants - 1];
	struct spec_access *a = spec_grow(&t->access, &t->accesses, sizeof *a);

	a->uid = a->gid = SPEC_ACCESS_ANY;
	a->line = line_of(n);
	return take_mapping(r, n, "an access point", keys, (char *)a, offsets);
}

static int take_access(struct reader *r, yaml_node_t *n, void *target)
{
	(void)target;
	return each_item(r, n, "'access'", take_access_point);
}

static int take_tenant(struct reader *r, yaml_node_t *n)
{
	static const struct key keys[] = { { "name", take_name },
					   { "id", take_id },
					   { "base", take_ids },
					   { "count", take_ids },
					   { "state", take_state },
					   { "bytes", take_amount },
					   { "inodes", take_amount },
					   { "soft-bytes", take_amount },
					   { "soft-inodes", take_amount },
					   { "grace", take_amount },
					   { "ops", take_amount },
					   { "bandwidth", take_amount },
					   { "weight", take_amount },
					   { "access", take_access },
					   { 0 } };
	static const size_t offsets[] = { offsetof(struct spec_tenant, name),	     offsetof(struct spec_tenant, id),
					  offsetof(struct spec_tenant, base),	     offsetof(struct spec_tenant, count),
					  offsetof(struct spec_tenant, state),	     offsetof(struct spec_tenant, bytes),
					  offsetof(struct spec_tenant, inodes),	     offsetof(struct spec_tenant, soft_bytes),
					  offsetof(struct spec_tenant, soft_inodes), offsetof(struct spec_tenant, grace),
					  offsetof(struct spec_tenant, ops),	     offsetof(struct spec_tenant, bandwidth),
					  offsetof(struct spec_tenant, weight),	     0 };
	struct spec_tenant *t = spec_grow(&r->spec->tenant, &r->spec->tenants, sizeof *t);
	int err;

	t->line = line_of(n);
	err = take_mapping(r, n, "a tenant", keys, (char *)t, offsets);
	if (!err && (!t->name || gfid_is_null(&t->id) || !t->base || !t->count))
		err = bad(r, t->line, "this tenant has no %s: `stratus tenant create` gives it one",
			  !t->name		 ? "'name'"
			  : gfid_is_null(&t->id) ? "'id'"
			  : !t->base		 ? "'base'"
						 : "'count'");
	return err;
}

static int take_tenants(struct reader *r, yaml_node_t *n, void *target)
{
	(void)target;
	r->spec->has_tenants = true;
	return each_item(r, n, "'tenants'", take_tenant);
}

static int take_client_translator(struct reader *r, yaml_node_t *n)
{
	struct spec_list *list = &r->spec->client_translators;

	return take_type(r, n, spec_grow(&list->item, &list->count, sizeof *list->item));
}

static int take_client_translators(struct reader *r, yaml_node_t *n, void *target)
{
	(void)target;
	return each_item(r, n, "'client-translators'", take_client_translator);
}

static int take_server_translator(struct reader *r, yaml_node_t *n)
{
	struct spec_list *list = &r->spec->server_translators;

	return take_type(r, n, spec_grow(&list->item, &list->count, sizeof *list->item));
}

static int take_server_translators(struct reader *r, yaml_node_t *n, void *target)
{
	(void)target;
	r->spec->has_server_translators = true;
	return each_item(r, n, "'server-translators'", take_server_translator);
}

static int take_options_of(struct reader *r, yaml_node_t *type, yaml_node_t *values)
{
	struct spec_options *o = spec_grow(&r->spec->by_type, &r->spec->types, sizeof *o);
	int err = take_type(r, type, &o->type);

	o->line = line_of(type);
	if (!err)
		err = check_mapping(r, values, o->type);
	if (err)
		return err;
	for (yaml_node_pair_t *at = values->data.mapping.pairs.start; at < values->data.mapping.pairs.top && !err; at++) {
		struct option_value *value = spec_grow(&o->option, &o->options, sizeof *value);

		value->line = line_of(node(r, at->key));
		err = take_name(r, node(r, at->key), &value->name);
		if (!err)
			err = take_text(r, node(r, at->value), &value->value);
	}
	return err;
}

static int take_options(struct reader *r, yaml_node_t *n, void *target)
{
	int err = check_mapping(r, n, "'options'");

	(void)target;
	if (err)
		return err;
	for (yaml_node_pair_t *at = n->data.mapping.pairs.start; at < n->data.mapping.pairs.top && !err; at++)
		err = take_options_of(r, node(r, at->key), node(r, at->value));
	return err;
}

/* ---- what must hold for the whole ---- */

const struct spec_server *spec_server_find(const struct spec *s, const char *name)
{
	for (size_t i = 0; i < s->servers; i++)
		if (!strcmp(s->server[i].name, name))
			return &s->server[i];
	return NULL;
}

static int check_brick(struct reader *r, struct spec_brick *b)
{
	const struct spec *s = r->spec;

	if (b->gone)
		return 0;
	b->server = spec_server_find(s, b->server_name);
	if (!b->server)
		return bad(r, b->line, "the brick is on server '%.80s', which is not among the servers", b->server_name);
	if (gfid_equal(&b->id, &s->id))
		return bad(r, b->line, "the brick has the id of the volume: give it one of its own");
	for (const struct spec_brick *other = s->brick; other < b; other++) {
		if (other->gone)
			continue;
		if (gfid_equal(&b->id, &other->id))
			return bad(r, b->line, "the brick has the same id as that in line %u", other->line);
		if (b->server == other->server && !strcmp(b->directory, other->directory))
			return bad(r, b->line, "the brick has the same server and directory as that in line %u", other->line);
	}
	return 0;
}

static int check_whole(struct reader *r)
{
	const struct spec *s = r->spec;
	int err = 0;

	if (!s->volume || gfid_is_null(&s->id))
		return bad(r, 1, "%s is missing%s", s->volume ? "'id'" : "'volume'",
			   s->volume ? ": take a fresh one from uuidgen and keep it" : ", the name of the volume");
	if (!s->servers || !s->bricks)
		return bad(r, 1, "the volume has no %s: name at least one below '%s:'", s->servers ? "brick" : "server",
			   s->servers ? "bricks" : "servers");
	if (s->bricks > SPEC_BRICKS_MAX)
		return bad(r, 1, "more than %d bricks", SPEC_BRICKS_MAX);
	for (size_t i = 0; i < s->bricks && !err; i++)
		err = check_brick(r, &s->brick[i]);
	if (!err)
		err = spec_check_subvolumes(r->spec, r->problem);
	if (!err)
		err = spec_check_transport(r->spec, r->problem);
	return err ? err : spec_check_tenants(r->spec, r->problem);
}

static int take_document(struct reader *r)
{
	static const struct key keys[] = {
		{ "volume", take_name },
		{ "id", take_id },
		{ "servers", take_servers },
		{ "bricks", take_bricks },
		{ "options", take_options },
		{ "client-translators", take_client_translators },
		{ "server-translators", take_server_translators },
		{ "replica", take_replica },
		{ "arbiter", take_switch },
		{ "began-with", take_began },
		{ "began-at", take_began_at },
		{ "leaving", take_leaving },
		{ "stopped", take_switch },
		{ "transport", take_transport },
		{ "tls", take_tls },
		{ "tenants", take_tenants },
		{ "tenant-base", take_ids },
		{ 0 },
	};
	static const size_t offsets[] = { offsetof(struct spec, volume),
					  offsetof(struct spec, id),
					  0,
					  0,
					  0,
					  0,
					  0,
					  offsetof(struct spec, replica),
					  offsetof(struct spec, arbiter),
					  offsetof(struct spec, began),
					  0,
					  offsetof(struct spec, leaving),
					  offsetof(struct spec, stopped),
					  offsetof(struct spec, transport),
					  offsetof(struct spec, tls),
					  0,
					  offsetof(struct spec, tenant_base) };
	yaml_node_t *root = yaml_document_get_root_node(&r->document);
	int err = root ? take_mapping(r, root, "a specification", keys, (char *)r->spec, offsets)
		       : bad(r, 1, "the file is empty; `stratus volgen --init` writes a specification");

	return err ? err : check_whole(r);
}

int spec_parse(const char *text, size_t size, const char *path, struct spec *spec, struct problem *p)
{
	struct reader r = { .spec = spec, .problem = p };
	yaml_parser_t parser;
	cleanup_path char *rest = NULL;
	int err;

	*spec = (struct spec){ .path = path_format("%s", path) };
	if (!yaml_parser_initialize(&parser))
		return problem_set(p, ENOMEM, "out of memory");
	rest = spec_take_written(text, size, spec, &size);
	yaml_parser_set_input_string(&parser, (const unsigned char *)(rest ? rest : text), size);
	if (yaml_parser_load(&parser, &r.document)) {
		err = take_document(&r);
		yaml_document_delete(&r.document);
	} else {
		err = bad(&r, (unsigned)parser.problem_mark.line + 1, "this is not YAML: %s",
			  parser.problem ? parser.problem : "?");
	}
	yaml_parser_delete(&parser);
	return err;
}

int spec_read(const char *path, struct spec *spec, struct problem *p)
{
	size_t size;
	char *text = path_read(path, SPEC_MAX, &size, p);
	int err = text ? spec_parse(text, size, path, spec, p) : -EINVAL;

	if (!text)
		*spec = (struct spec){ 0 };
	free(text);
	return err;
}

static void free_options(struct spec_options *o)
{
	for (size_t i = 0; i < o->options; i++) {
		free(o->option[i].name);
		free(o->option[i].value);
	}
	free(o->option);
	free(o->type);
}

static void free_list(struct spec_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->item[i]);
	free(list->item);
}

void spec_free(struct spec *s)
{
	for (size_t i = 0; i < s->servers; i++) {
		free(s->server[i].name);
		free(s->server[i].host);
		free(s->server[i].listen);
	}
	for (size_t i = 0; i < s->bricks; i++) {
		free(s->brick[i].server_name);
		free(s->brick[i].directory);
	}
	for (size_t i = 0; i < s->types; i++)
		free_options(&s->by_type[i]);
	free(s->tls.certificate);
	free(s->tls.key);
	free(s->tls.authorities);
	free(s->tls.revoked);
	free_list(&s->client_translators);
	free_list(&s->server_translators);
	spec_free_tenants(s);
	free(s->server);
	free(s->brick);
	free(s->by_type);
	free(s->volume);
	free(s->path);
	*s = (struct spec){ 0 };
}

unsigned spec_brick_port(const struct spec_brick *b)
{
	return b->port ? b->port : b->server->port;
}

/* ---- writing ---- */

void spec_print_scalar(const char *text, FILE *to)
{
	fputc('"', to);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', to);
		fputc(*text, to);
	}
	fputc('"', to);
}

static void print_list(const char *name, const struct spec_list *list, FILE *to)
{
	fprintf(to, "%s: [", name);
	for (size_t i = 0; i < list->count; i++)
		fprintf(to, "%s%s", i ? ", " : "", list->item[i]);
	fputs("]\n", to);
}

static void print_servers(const struct spec *s, FILE *to)
{
	fputs("servers:\n", to);
	for (size_t i = 0; i < s->servers; i++) {
		const struct spec_server *server = &s->server[i];

		fprintf(to, "  %s:\n    host: ", server->name);
		spec_print_scalar(server->host, to);
		fputc('\n', to);
		if (server->has_port)
			fprintf(to, "    port: %u\n", server->port);
		if (server->listen) {
			fputs("    listen: ", to);
			spec_print_scalar(server->listen, to);
			fputc('\n', to);
		}
	}
}

static void print_options(const struct spec *s, FILE *to)
{
	fputs("options:\n", to);
	for (size_t i = 0; i < s->types; i++) {
		fprintf(to, "  %s:%s\n", s->by_type[i].type, s->by_type[i].options ? "" : " {}");
		for (size_t k = 0; k < s->by_type[i].options; k++) {
			fprintf(to, "    %s: ", s->by_type[i].option[k].name);
			spec_print_scalar(s->by_type[i].option[k].value, to);
			fputc('\n', to);
		}
	}
}

static void print_brick(const struct spec_brick *b, FILE *to)
{
	char id[GFID_TEXT];

	if (b->gone) {
		fputs("  - gone: true\n", to);
		return;
	}
	fprintf(to, "  - server: \"%s\"\n    directory: ", b->server_name);
	spec_print_scalar(b->directory, to);
	fprintf(to, "\n    id: %s\n", gfid_text(&b->id, id));
	if (b->port)
		fprintf(to, "    port: %u\n", b->port);
}

void spec_print(const struct spec *s, FILE *to)
{
	char id[GFID_TEXT];

	fprintf(to, SPEC_HEAD " `stratus volgen` makes volfiles from this. Ids are for ever: never change "
			      "or copy them.\n");
	fprintf(to, "volume: \"%s\"\nid: %s\n", s->volume, gfid_text(&s->id, id));
	if (s->stopped)
		fputs("stopped: true\n", to);
	if (s->replica)
		fprintf(to, "replica: %u\n%s", s->replica, s->arbiter ? "arbiter: true\n" : "");
	if (s->began)
		fprintf(to, "began-with: %u\n", s->began);
	if (s->says_began_at)
		fprintf(to, "began-at: %u\n", s->began_at);
	if (s->leaving && s->leaver + 1 == spec_places(s))
		fputs("leaving: true\n", to); /* as a server of an older version reads it */
	else if (s->leaving)
		fprintf(to, "leaving: %zu\n", s->leaver);
	spec_print_transport(s, to);
	print_servers(s, to);
	fputs("bricks:\n", to);
	for (size_t i = 0; i < s->bricks; i++)
		print_brick(&s->brick[i], to);
	if (s->client_translators.count)
		print_list("client-translators", &s->client_translators, to);
	if (s->has_server_translators)
		print_list("server-translators", &s->server_translators, to);
	if (s->types)
		print_options(s, to);
	spec_print_tenants(s, to);
}

char *spec_text(const struct spec *s)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		return NULL;
	spec_print(s, to);
	fclose(to);
	return text;
}
