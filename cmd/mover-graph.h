/* SPDX-License-Identifier: Apache-2.0 */
/* A graph that moves names and files: a client's, without a mount, whose cluster/dht does it (its command "rebalance"). These wait as long as bricks do to answer. */
#ifndef STRATUS_MOVER_GRAPH_H
#define STRATUS_MOVER_GRAPH_H
#include <jansson.h>
#include <stdbool.h>

#include "graph.h"

/* Made from a client's volfile. acts_for (may be NULL): the tenant whose names these are. */
int mover_graph_create(const char *name, const char *text, const struct gfid *acts_for, struct graph **, struct problem *);
/* start or stop: of the root's names, or (widens) of large directories. */
int mover_graph_tell(struct graph *, bool widens, const char *verb, struct problem *);
/* What it says of itself, an object; {"problem"} if it does not. */
json_t *mover_graph_ask(struct graph *);
/* Between two names: a graph that ends in one leaves it to be ended by others. at_once: a brick that is away is not waited for. */
void mover_graph_end(struct graph *, bool at_once);
#endif
