/* SPDX-License-Identifier: Apache-2.0 */
/* Allotments of tenants' limits, on volumes whose bricks are at several servers: doc/usage.md, "Over several servers". Each stratusd asks for the pools of its bricks; the one that
 * leads the cluster decides. libcore/allot.h has what is said, and why it is safe. */
#ifndef STRATUS_CLUSTER_ALLOT_H
#define STRATUS_CLUSTER_ALLOT_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct problem;
int allotments_start(struct problem *);
void allotments_stop(void);
/* What another server says (its certificate has been looked at), and what it is answered: malloc'ed, both JSON. NULL: this one does not lead, or (*bad) that
 * makes no sense. Does not wait. */
char *allotments_answer(const char *said, bool *bad);
enum { ALLOTMENTS_SAID_MAX = 256 << 10 };

/* A number that is another one when there is something for servers to hear; 0: this one does not lead. */
uint64_t allotments_news(void);

/* cluster-allot-listen.c, for cluster-allot.c */
struct tls_dir;
void allotments_listen(void);
void allotments_listen_no_more(void);
/* The other way round: body NULL: GET. */
void allotments_set_options(void *easy, const char *url, const char *body, FILE *to, const struct tls_dir *);

/* cluster-allot-lead.c, for cluster-allot.c */
struct json_t;
/* In the thread of allotments: takes what has been said into the store. False: this server does not lead. */
bool allotments_decide(void);
bool allotments_have_work(void); /* something was said */
void allotments_forget(void);
void allotments_wake(void); /* of cluster-allot.c */
/* The key of a tenant's document. malloc'ed */
char *allotment_key(const char *pool, uint64_t base);
#endif
