/* SPDX-License-Identifier: Apache-2.0 */
/* Computing for one request on several cores. */
#ifndef STRATUS_SPREAD_H
#define STRATUS_SPREAD_H

/* Calls fn(arg, i) for each i below `count`, in no order, and returns when all have returned. The caller's thread works; so do other shards that
 * get to it in time, if there is more than one `piece` of consecutive numbers to do, as many as there are CPUs with nothing else to do. fn must not
 * wait, nor block. From a task. */
void spread(unsigned count, unsigned piece, void (*fn)(void *arg, unsigned i), void *arg);
/* The same with at most so many other shards, however busy the CPUs are. */
void spread_among(unsigned helpers, unsigned count, unsigned piece, void (*fn)(void *arg, unsigned i), void *arg);
#endif
