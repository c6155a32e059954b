/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants and their access points as JSON, by which stratusd tells them and `stratus` prints them. */
#ifndef STRATUS_TENANT_JSON_H
#define STRATUS_TENANT_JSON_H
#include <jansson.h>

#include "volgen.h"

/* What a tenant may have: for the provider with what it is on the bricks (id, base), for others without. */
json_t *tenant_json(const struct spec *, const struct spec_tenant *, bool for_provider);
json_t *access_json(const struct spec *, const struct spec_tenant *, const struct spec_access *);
json_t *access_list_json(const struct spec *, const struct spec_tenant *);
/* directory, uid, gid, read_only, expires, as access_json() tells them; `directory` is borrowed from the object. -EINVAL and a sentence. */
int access_from_json(const json_t *, struct spec_access *, struct problem *);
#endif
