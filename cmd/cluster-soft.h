/* SPDX-License-Identifier: Apache-2.0 */
/* Soft limits of tenants over several servers, or replica sets: doc/usage.md. What is said of them goes with what is said of allotments (cluster-allot.h), both ways; libcore/soft.h has the protocol. */
#ifndef STRATUS_CLUSTER_SOFT_H
#define STRATUS_CLUSTER_SOFT_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- cluster-soft.c: each server, in the thread of allotments ---- */

json_t *softs_say(bool *has_rows); /* the part of the next message */
/* What was answered to it (NULL: nothing); it was sent at that time. True: there is something to do soon. */
bool softs_hear(const json_t *answer, uint64_t sent_ns);
void softs_stop(void);

/* ---- cluster-soft-lead.c: the one that leads ---- */

void softs_take(const char *server, const json_t *said); /* in the thread of allotments, as softs_decide */
bool softs_has_rows(const json_t *said);
bool softs_decide(void);				    /* true: something waits for what servers are to say, or hear */
json_t *softs_tell(const char *server, const json_t *said); /* to who said that; any thread */
void softs_forget(void);				    /* another one leads */
/* The key of a tenant's document. malloc'ed */
char *soft_key(const char *pool, uint64_t base);
uint64_t soft_number(void); /* a random one, never 0 */
#endif
