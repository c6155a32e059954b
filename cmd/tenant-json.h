/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants and their access points as JSON, by which stratusd tells them and `stratus` prints them; and what is asked to become of one. */
#ifndef STRATUS_TENANT_JSON_H
#define STRATUS_TENANT_JSON_H
#include <jansson.h>

#include "volgen.h"

/* What a tenant may have: for the provider with what it is on the bricks (id, base), for others without. */
json_t *tenant_json(const struct spec *, const struct spec_tenant *, bool for_provider);
/* What that tells; the name is borrowed from the object. -EINVAL: it is none; what it does not tell is 0. */
int tenant_from_json(const json_t *, struct spec_tenant *);
/* What `stratus tenant` asks for: the verb (create, resize, suspend, resume, delete) and, if it has any, how many ids (0: as usual) and which limits. The verb is no part of the
 * JSON; the name is borrowed from it. */
struct tenant_edit {
	const char *verb, *name;
	uint32_t ids;
	struct spec_limits limits;
};
json_t *tenant_edit_json(const struct tenant_edit *); /* NULL: the name is no text, or memory is short */
int tenant_edit_from_json(const json_t *, struct tenant_edit *, struct problem *); /* -EINVAL and a sentence */
/* Changes the specification so; arg: the struct tenant_edit. */
int tenant_edit_spec(struct spec *, void *arg, struct problem *);
json_t *access_json(const struct spec *, const struct spec_tenant *, const struct spec_access *);
json_t *access_list_json(const struct spec *, const struct spec_tenant *);
/* directory, uid, gid, read_only, expires, as access_json() tells them; `directory` is borrowed from the object. -EINVAL and a sentence. */
int access_from_json(const json_t *, struct spec_access *, struct problem *);
#endif
