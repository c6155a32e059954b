/* SPDX-License-Identifier: Apache-2.0 */
/* Names that move to subvolumes that were added: what the store says of it, and the graphs of this server that do it. */
#ifndef STRATUS_CLUSTER_REBALANCE_H
#define STRATUS_CLUSTER_REBALANCE_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "graph.h"

/* ---- documents "rebalance/VOLUME" ---- */
/* *document: NULL if there is none. *version: the one that a change must name. */
int rebalance_read(const char *volume, json_t **document, uint64_t *version);
int rebalance_write(const char *volume, json_t *document, uint64_t version);
bool rebalance_is(const json_t *document, const char *state);
/* numbers: a mask of the subvolumes that it is about; begun: the version of the specification with which it began (0: before there was such a thing), by which who works at
 * an earlier one is told; told: what cluster/dht says, or NULL. */
json_t *rebalance_document(const char *state, uint64_t numbers, json_int_t begun, const json_t *told);
uint64_t rebalance_numbers(const json_t *document);
json_int_t rebalance_begun(const json_t *document);

/* Commits the specification without the bricks that are to leave, if some are. cluster-commit.c */
int cluster_take_out(const char *volume, struct problem *);

/* ---- movers: cluster-movers.c ---- */
int movers_start(struct problem *); /* the thread that sees to them */
void movers_stop(void);		    /* after store_wake() */
void movers_each_graph(void (*fn)(struct graph *, void *), void *arg);
/* What the volume's one here tells, a copy, with "begun" as it has it; NULL if there is none. */
json_t *movers_told(const char *volume);
#endif
