/* SPDX-License-Identifier: Apache-2.0 */
/* What the administrators of tenants ask of stratusd, each of his own tenant (doc/cluster.md, "For tenants' administrators"). */
#ifndef STRATUS_CLUSTER_TENANT_H
#define STRATUS_CLUSTER_TENANT_H
#include <stdbool.h>

/* Whether a path of the service is one of these. */
bool cluster_tenant_has(const char *url);
/* Answers, as the administrator of `tenant`: who that is the caller knows by the certificate. `body` may be NULL. An HTTP status, and JSON or, from
 * 400 on, a sentence (malloc'ed). One thread at a time; it may wait for the store and for bricks. */
unsigned cluster_tenant_answer(const char *tenant, const char *method, const char *url, const char *body, char **text);
void cluster_tenant_finish(void); /* forgets who has changed how much */
#endif
