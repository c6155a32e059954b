/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the volfile service that tenants' administrators may use. What somebody asks for is looked for below his own tenant and nowhere
 * else, so of what is others' he is told what he is told of what is not there.
 *
 *   GET    /v1/usage                                   what the tenant is charged on the bricks of this server
 *   GET    /v1/volume/VOLUME/tenant/TENANT             its limits, and what it is charged on the bricks of this server
 *   GET    /v1/volume/VOLUME/tenant/TENANT/access      its access points
 *   POST   /v1/volume/VOLUME/tenant/TENANT/access      makes one
 *   DELETE /v1/volume/VOLUME/tenant/TENANT/access/ID   revokes it */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cluster.h"
#include "cluster-tenant.h"
#include "identity.h"
#include "json.h"
#include "log.h"
#include "path.h"
#include "task.h"
#include "tenant-json.h"

enum { CHANGES = 30, CHANGES_S = 60 }; /* of one tenant: each is a commit of the whole specification */
enum {
	OK = 200,
	CREATED = 201,
	BAD = 400,
	MISSING = 404,
	WRONG_METHOD = 405,
	CONFLICT = 409,
	TOO_MANY = 429,
	FAILED = 500,
	ELSEWHERE = 503
};

struct wish {
	const char *tenant, *method, *body;
	char volume[IDENTITY_NAME + 1];
	char id[GFID_TEXT]; /* of an access point; "": all of them */
	bool usage, access;
};

/* ---- what is asked for ---- */

static bool take_word(const char **at, char *word, size_t room)
{
	size_t length = strcspn(*at, "/");

	if (!length || length >= room)
		return false;
	memcpy(word, *at, length);
	word[length] = '\0';
	*at += length;
	return true;
}

static bool skip(const char **at, const char *text)
{
	size_t length = strlen(text);

	if (strncmp(*at, text, length) != 0)
		return false;
	*at += length;
	return true;
}

/* False: there is nothing of that path. `tenant` is that of the path. */
static bool parse(const char *url, struct wish *w, char tenant[IDENTITY_NAME + 1])
{
	if (!strcmp(url, "/v1/usage"))
		return w->usage = true;
	if (!skip(&url, "/v1/volume/") || !take_word(&url, w->volume, sizeof w->volume) || !skip(&url, "/tenant/") ||
	    !take_word(&url, tenant, IDENTITY_NAME + 1))
		return false;
	if (!*url)
		return true;
	if (!skip(&url, "/access"))
		return false;
	w->access = true;
	return !*url || (skip(&url, "/") && take_word(&url, w->id, sizeof w->id) && !*url);
}

bool cluster_tenant_has(const char *url)
{
	char tenant[IDENTITY_NAME + 1] = "";
	struct wish w = { .usage = false };

	return parse(url, &w, tenant);
}

/* ---- what is charged ---- */

struct tally {
	const char *tenant, *volume; /* NULL: each */
	json_t *bricks;
};

static void keep_own(json_t *brick, const struct tally *t)
{
	json_t *account, *kept = json_array();
	size_t i;

	json_array_foreach(json_object_get(brick, "accounts"), i, account)
	{
		if (!strcmp(json_text(account, "account"), t->tenant))
			json_array_append(kept, account);
	}
	json_object_set_new(brick, "accounts", kept);
}

/* What the brick is called stands in the specification, too; where it is is the provider's. */
static void ask_brick(struct xlator *x, const char *volume, const struct tally *t)
{
	char *argv[] = { (char *)"status", (char *)"--json", (char *)t->tenant }, *text = NULL;
	cleanup_path char *name = path_format("%s:%.*s", volume, (int)strcspn(x->name, "-"), x->name);
	size_t size;
	FILE *to = open_memstream(&text, &size);
	int err = to ? x->type->command(x, 3, argv, to) : -ENOMEM;
	json_t *brick;

	if (to)
		fclose(to);
	brick = err ? NULL : json_loads(text, 0, NULL);
	free(text);
	if (!brick)
		return;
	keep_own(brick, t);
	json_object_del(brick, "ledger");
	json_object_set_new(brick, "brick", json_string(name));
	json_object_set_new(brick, "bricks", json_integer(1));
	if (json_array_size(json_object_get(brick, "accounts")))
		json_array_append(t->bricks, brick);
	json_decref(brick);
}

static void ask_graph(struct graph *g, void *arg)
{
	const struct tally *t = arg;

	if (t->volume && strcmp(g->path, t->volume))
		return;
	for (size_t i = 0; i < g->count; i++)
		if (!strcmp(g->xlator[i]->type->name, "features/usage") && g->xlator[i]->started)
			ask_brick(g->xlator[i], g->path, t);
}

static json_t *bricks_of(const char *tenant, const char *volume)
{
	struct tally t = { tenant, volume, json_array() };

	cluster_each_graph(ask_graph, &t);
	return t.bricks;
}

static void add_up(json_t *sum, const json_t *account)
{
	static const char *const numbers[] = { "bytes", "inodes" };

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		json_object_set_new(sum, numbers[i],
				    json_integer(json_number(sum, numbers[i]) + json_number(account, numbers[i])));
}

/* As `stratus tenant info` tells it: the sum of this server's bricks, or NULL. */
static json_t *charged(const char *tenant, const char *volume)
{
	json_t *bricks = bricks_of(tenant, volume), *brick, *sum = NULL;
	bool exact = true;
	size_t i;

	json_array_foreach(bricks, i, brick)
	{
		json_t *account = json_array_get(json_object_get(brick, "accounts"), 0);

		exact &= json_is_true(json_object_get(brick, "exact"));
		if (sum)
			add_up(sum, account);
		else
			sum = json_incref(account);
	}
	if (sum) {
		json_object_set_new(sum, "exact", json_boolean(exact));
		json_object_set_new(sum, "bricks", json_integer((json_int_t)json_array_size(bricks)));
	}
	json_decref(bricks);
	return sum;
}

/* ---- so many changes, and no more ---- */

struct changer {
	char tenant[IDENTITY_NAME + 1];
	uint64_t since_ns;
	unsigned changes;
	struct changer *next;
};
static struct changer *changers; /* as many as there are tenants that administer themselves */

static bool may_change(const char *tenant)
{
	uint64_t now = clock_ns();
	struct changer *c = changers;

	while (c && strcmp(c->tenant, tenant))
		c = c->next;
	if (!c) {
		c = calloc(1, sizeof *c);
		if (!c)
			return false;
		snprintf(c->tenant, sizeof c->tenant, "%s", tenant);
		c->next = changers;
		changers = c;
	}
	if (now - c->since_ns > CHANGES_S * 1000000000ull) {
		c->since_ns = now;
		c->changes = 0;
	}
	return c->changes++ < CHANGES;
}

void cluster_tenant_finish(void)
{
	struct changer *c;

	while ((c = changers)) {
		changers = c->next;
		free(c);
	}
}

/* ---- answers ---- */

static unsigned say(char **text, unsigned status, const char *sentence)
{
	*text = path_format("%s\n", sentence);
	return status;
}

static unsigned tell(char **text, unsigned status, json_t *value)
{
	*text = json_dumps(value, JSON_COMPACT);
	json_decref(value);
	return *text ? status : say(text, FAILED, "not enough memory for the answer");
}

/* The same of a volume that is not there, and of one that has not this tenant. */
static unsigned nothing(char **text)
{
	return say(text, MISSING, "there is no such thing of yours");
}

static unsigned failed(char **text, int err, const struct problem *p)
{
	unsigned status = err == -ENOENT			 ? MISSING
			  : err == -EREMOTE || err == -ETIMEDOUT ? ELSEWHERE
			  : err == -EINVAL || err == -ENOTSUP	 ? BAD
			  : err == -ENOSPC || err == -ESTALE	 ? CONFLICT
								 : FAILED;

	/* What else may go wrong is of others' parts of the specification. */
	return say(text, status,
		   status == FAILED ? "it can't be done just now: your provider finds the reason in the log" : p->text);
}

struct change { /* of access points */
	const char *tenant;
	struct spec_access like;
	struct gfid id;
};

static int add(struct spec *s, void *arg, struct problem *p)
{
	struct change *c = arg;

	return spec_create_access(s, c->tenant, &c->like, &c->id, p);
}

static int revoke(struct spec *s, void *arg, struct problem *p)
{
	struct change *c = arg;

	return spec_revoke_access(s, c->tenant, &c->id, p);
}

static unsigned edit(const struct wish *w, int (*fn)(struct spec *, void *, struct problem *), struct change *c, char **text)
{
	struct problem p = { "" };
	bool changed;
	int err;

	if (!may_change(w->tenant))
		return say(text, TOO_MANY, "so many changes are too many: wait a minute");
	err = cluster_edit(w->volume, fn, c, &changed, &p);
	if (!err)
		return OK;
	if (err != -ENOENT && err != -EINVAL && err != -ENOTSUP)
		log_warning(NULL, NULL, "volume %s: the administrator of tenant %s can't change its access points: %s",
			    w->volume, w->tenant, p.text);
	return failed(text, err, &p);
}

static unsigned create_access(const struct wish *w, char **text)
{
	struct change c = { .tenant = w->tenant };
	json_t *body = w->body ? json_loads(w->body, 0, NULL) : NULL;
	struct problem p = { "" };
	const struct spec *s;
	const struct spec_tenant *t;
	uint64_t version;
	unsigned status;
	int err = access_from_json(body, &c.like, &p);

	status = err ? failed(text, err, &p) : edit(w, add, &c, text);
	json_decref(body);
	if (status != OK)
		return status;
	log_info(NULL, NULL, "volume %s: the administrator of tenant %s has created an access point", w->volume, w->tenant);
	err = cluster_spec(w->volume, &s, &version, &p);
	t = err ? NULL : spec_tenant_find(s, w->tenant);
	status = t && spec_access_find(t, &c.id) ? tell(text, CREATED, access_json(s, t, spec_access_find(t, &c.id)))
						 : say(text, CONFLICT, "it is gone again");
	cluster_spec_release(s);
	return status;
}

static unsigned revoke_access(const struct wish *w, char **text)
{
	struct change c = { .tenant = w->tenant };
	unsigned status;

	if (gfid_parse(w->id, &c.id))
		return nothing(text);
	status = edit(w, revoke, &c, text);
	if (status != OK)
		return status;
	log_info(NULL, NULL, "volume %s: the administrator of tenant %s has revoked access point %s", w->volume, w->tenant,
		 w->id);
	return tell(text, OK, json_pack("{s:s}", "id", w->id));
}

static unsigned show(const struct wish *w, const struct spec *s, const struct spec_tenant *t, char **text)
{
	json_t *one, *sum;

	if (w->access)
		return tell(text, OK, access_list_json(s, t));
	one = tenant_json(s, t, false);
	sum = charged(w->tenant, w->volume);
	if (sum)
		json_object_set_new(one, "charged", sum);
	return tell(text, OK, one);
}

static unsigned answer_of_volume(const struct wish *w, char **text)
{
	struct problem p = { "" };
	const struct spec *s;
	uint64_t version;
	const struct spec_tenant *t = cluster_spec(w->volume, &s, &version, &p) ? NULL : spec_tenant_find(s, w->tenant);
	bool reads = !strcmp(w->method, "GET"), creates = !strcmp(w->method, "POST"), revokes = !strcmp(w->method, "DELETE");
	unsigned status;

	if (!t || t->state == SPEC_TENANT_DELETED)
		status = nothing(text);
	else if (reads && !*w->id)
		status = show(w, s, t, text);
	else if (creates && w->access && !*w->id && t->state == SPEC_TENANT_ACTIVE)
		status = create_access(w, text);
	else if (revokes && w->access && *w->id)
		status = revoke_access(w, text);
	else if (creates && w->access && !*w->id)
		status = say(text, CONFLICT, "the tenant is suspended");
	else
		status = say(text, WRONG_METHOD, "that can't be asked of it");
	cluster_spec_release(s);
	return status;
}

unsigned cluster_tenant_answer(const char *tenant, const char *method, const char *url, const char *body, char **text)
{
	struct wish w = { .tenant = tenant, .method = method, .body = body };
	char named[IDENTITY_NAME + 1] = "";

	if (!parse(url, &w, named) || (!w.usage && strcmp(named, tenant)))
		return nothing(text);
	if (!w.usage)
		return answer_of_volume(&w, text);
	return strcmp(method, "GET") ? say(text, WRONG_METHOD, "that can't be asked of it")
				     : tell(text, OK, bricks_of(tenant, NULL));
}
