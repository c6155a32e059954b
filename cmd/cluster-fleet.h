/* SPDX-License-Identifier: Apache-2.0 */
/* Moves names and files of a volume's tenants: for each a graph that acts for him, some at a time, until all have been dealt with. */
#ifndef STRATUS_CLUSTER_FLEET_H
#define STRATUS_CLUSTER_FLEET_H
#include <jansson.h>
#include <stdbool.h>

#include "graph.h"
#include "volgen.h"

struct fleet;

/* sums (may be NULL): a document "rebalance/VOLUME", whose numbers are gone on with; of the tenants whose ids are below its "through" nothing is left to do. */
struct fleet *fleet_create(const json_t *document);
void fleet_destroy(struct fleet *); /* ends what is under way */
/* What the volume's specification says now, and the volfile of its clients. -ENOMEM: it goes on by what it was told before. */
int fleet_want(struct fleet *, const struct spec *, const char *text);
/* A step: starts, asks and ends graphs. True: all tenants that it has been told of are dealt with. */
bool fleet_work(struct fleet *);
/* All that there is: numbers over all tenants, "tenants", "tenants-done", "through", "at-work", "seconds-left", "problem". */
json_t *fleet_told(struct fleet *);
/* The same, of the tenants that are done. */
json_t *fleet_done(struct fleet *);
void fleet_each_graph(struct fleet *, void (*fn)(struct graph *, void *), void *arg);
/* A tenant of the specification is not among those below `through`, so names of it were never dealt with. */
bool fleet_lacks(const struct spec *, const json_t *document);
#endif
