/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of one request side by side: several messages on their way, and computing for one while another is. */
#ifndef STRATUS_BESIDE_H
#define STRATUS_BESIDE_H

struct request;

/* Calls fn(arg, i, rq) for each i below `count`, each on a task of this shard with a request of its own, and returns when all have returned. They
 * begin in order of i; the next one begins when those before it wait. What cancels the caller's task cancels them all. Where memory is short they
 * run one after the other, so none may wait for a later one. From a task; `rq` is the caller's. */
void beside(struct request *rq, unsigned count, void (*fn)(void *arg, unsigned i, struct request *rq), void *arg);
#endif
