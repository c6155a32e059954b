/* SPDX-License-Identifier: Apache-2.0 */
/* A client's graph without a mount, for what is done to a whole volume by its cluster/dht. */
#ifndef STRATUS_CLIENT_GRAPH_H
#define STRATUS_CLIENT_GRAPH_H
#include <stdio.h>

#include "graph.h"

/* What is to be mounted is not. */
void client_graph_drop_mount(struct volfile *);
/* Its connections are the provider's, for what that tenant has. */
int client_graph_act_for(struct volfile *, const struct gfid *tenant);
bool client_graph_is_distributed(const struct volfile *);
struct xlator *client_graph_dht(const struct graph *);
/* Sends words to cluster/dht. An error is one of the command itself. */
int client_graph_ask(struct xlator *dht, int words, char **word, FILE *to, struct problem *);
#endif
