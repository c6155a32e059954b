/* SPDX-License-Identifier: Apache-2.0 */
/* See tenant-json.h. */
#include "tenant-json.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "log.h"
#include "path.h"

json_t *tenant_json(const struct spec *s, const struct spec_tenant *t, bool for_provider)
{
	json_t *one =
		json_pack("{s:s, s:s, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "volume", s->volume, "tenant",
			  t->name, "count", (json_int_t)t->count, "state", spec_tenant_state(t), "bytes_limit",
			  (json_int_t)t->bytes, "inodes_limit", (json_int_t)t->inodes, "bytes_soft", (json_int_t)t->soft_bytes,
			  "inodes_soft", (json_int_t)t->soft_inodes, "grace", (json_int_t)t->grace, "ops", (json_int_t)t->ops,
			  "bandwidth", (json_int_t)t->bandwidth, "weight", (json_int_t)(t->weight ? t->weight : 1));
	char id[GFID_TEXT];

	if (for_provider) {
		json_object_set_new(one, "id", json_string(gfid_text(&t->id, id)));
		json_object_set_new(one, "base", json_integer(t->base));
	}
	return one;
}

static uint64_t amount(const json_t *o, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(o, name));
}

int tenant_from_json(const json_t *o, struct spec_tenant *t)
{
	const char *id = json_string_value(json_object_get(o, "id")), *state = json_string_value(json_object_get(o, "state"));
	int found = state ? spec_tenant_state_parse(state) : -EINVAL;

	*t = (struct spec_tenant){ .name = (char *)json_string_value(json_object_get(o, "tenant")),
				   .base = (unsigned)amount(o, "base"),
				   .count = (unsigned)amount(o, "count"),
				   .state = found < 0 ? SPEC_TENANT_ACTIVE : (enum spec_tenant_state)found,
				   .bytes = amount(o, "bytes_limit"),
				   .inodes = amount(o, "inodes_limit"),
				   .soft_bytes = amount(o, "bytes_soft"),
				   .soft_inodes = amount(o, "inodes_soft"),
				   .grace = amount(o, "grace"),
				   .ops = amount(o, "ops"),
				   .bandwidth = amount(o, "bandwidth"),
				   .weight = amount(o, "weight") > 1 ? amount(o, "weight") : 0 };
	if (id)
		gfid_parse(id, &t->id);
	return t->name && found >= 0 ? 0 : -EINVAL;
}

/* ---- what is to become of one ---- */

static const struct limit {
	const char *name;
	size_t has, value;
} limits[] = {
#define LIMIT(of)                                                                                                              \
	{                                                                                                                      \
#of, offsetof(struct spec_limits, has_##of), offsetof(struct spec_limits, of)                                  \
	}
	LIMIT(bytes), LIMIT(inodes), LIMIT(soft_bytes), LIMIT(soft_inodes),
	LIMIT(grace), LIMIT(ops),    LIMIT(bandwidth),	LIMIT(weight),
#undef LIMIT
};
enum { LIMITS = sizeof limits / sizeof *limits };

json_t *tenant_edit_json(const struct tenant_edit *e)
{
	json_t *all = json_pack("{s:s, s:I}", "tenant", e->name, "ids", (json_int_t)e->ids);
	const char *at = (const char *)&e->limits;

	for (size_t i = 0; all && i < LIMITS; i++) {
		json_int_t value = (json_int_t) * (const uint64_t *)(at + limits[i].value);

		if (*(const bool *)(at + limits[i].has))
			json_object_set_new(all, limits[i].name, json_integer(value));
	}
	return all;
}

int tenant_edit_from_json(const json_t *all, struct tenant_edit *e, struct problem *p)
{
	json_int_t ids = json_integer_value(json_object_get(all, "ids"));
	char *at = (char *)&e->limits;

	e->name = json_string_value(json_object_get(all, "tenant"));
	e->ids = (uint32_t)ids;
	if (!e->name || ids < 0 || ids > UINT32_MAX)
		return problem_set(p, EINVAL,
				   "what is said of the tenant is no JSON object with its name, and a number of ids");
	for (size_t i = 0; i < LIMITS; i++) {
		const json_t *value = json_object_get(all, limits[i].name);

		if (!value)
			continue;
		if (!json_is_integer(value) || json_integer_value(value) < 0)
			return problem_set(p, EINVAL, "%s of a tenant is a number, 0 or more", limits[i].name);
		*(bool *)(at + limits[i].has) = true;
		*(uint64_t *)(at + limits[i].value) = (uint64_t)json_integer_value(value);
	}
	return 0;
}

int tenant_edit_spec(struct spec *s, void *arg, struct problem *p)
{
	const struct tenant_edit *e = arg;
	int err;

	if (!strcmp(e->verb, "create")) {
		err = spec_create_tenant(s, e->name, e->ids, p);
		return err ? err : spec_resize_tenant(s, e->name, &e->limits, p);
	}
	if (!strcmp(e->verb, "resize"))
		return spec_resize_tenant(s, e->name, &e->limits, p);
	if (!strcmp(e->verb, "suspend"))
		return spec_set_tenant(s, e->name, SPEC_TENANT_SUSPENDED, p);
	if (!strcmp(e->verb, "resume"))
		return spec_set_tenant(s, e->name, SPEC_TENANT_ACTIVE, p);
	if (!strcmp(e->verb, "delete"))
		return spec_set_tenant(s, e->name, SPEC_TENANT_DELETED, p);
	return problem_set(p, EINVAL, "\"%.20s\" is nothing that becomes of a tenant: create, resize, suspend, resume, delete",
			   e->verb);
}

/* ---- access points ---- */

/* A name that is no UTF-8 is told as the specification has it. */
static json_t *directory_json(const char *directory)
{
	cleanup_path char *path = spec_access_path(directory);
	json_t *text = json_string(directory);

	return text ? text : json_string(path);
}

json_t *access_json(const struct spec *s, const struct spec_tenant *t, const struct spec_access *a)
{
	cleanup_path char *identity = NULL;
	bool forced = a->uid != SPEC_ACCESS_ANY;
	char id[GFID_TEXT];

	identity = path_format("stratus:tenant/%s/access/%s", t->name, gfid_text(&a->id, id));
	return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:b, s:I, s:b}", "volume", s->volume, "tenant", t->name, "id", id,
			 "identity", identity, "directory", directory_json(a->directory), "uid",
			 forced ? json_integer(a->uid) : json_null(), "gid", forced ? json_integer(a->gid) : json_null(),
			 "read_only", a->read_only, "expires", (json_int_t)a->expires, "expired",
			 spec_access_has_expired(a, (uint64_t)time(NULL)));
}

json_t *access_list_json(const struct spec *s, const struct spec_tenant *t)
{
	json_t *list = json_array();

	for (size_t i = 0; i < t->accesses; i++)
		json_array_append_new(list, access_json(s, t, &t->access[i]));
	return list;
}

/* null, or none: any. */
static bool take_id(const json_t *value, unsigned *id)
{
	json_int_t number = json_integer_value(value);

	*id = SPEC_ACCESS_ANY;
	if (!value || json_is_null(value))
		return true;
	*id = (unsigned)number;
	return json_is_integer(value) && number >= 0 && number < SPEC_ACCESS_ANY;
}

int access_from_json(const json_t *o, struct spec_access *a, struct problem *p)
{
	const json_t *directory = json_object_get(o, "directory"), *read_only = json_object_get(o, "read_only");
	const json_t *expires = json_object_get(o, "expires");

	*a = (struct spec_access){ .directory = (char *)json_string_value(directory),
				   .read_only = json_is_true(read_only),
				   .expires = (uint64_t)json_integer_value(expires) };
	if (!a->directory || strlen(a->directory) != json_string_length(directory) ||
	    (read_only && !json_is_boolean(read_only)) ||
	    (expires && (!json_is_integer(expires) || json_integer_value(expires) < 0)) ||
	    !take_id(json_object_get(o, "uid"), &a->uid) || !take_id(json_object_get(o, "gid"), &a->gid))
		return problem_set(
			p, EINVAL,
			"an access point has a directory, and may have uid and gid, read_only (true, false) and expires (seconds "
			"since 1970)");
	return 0;
}
