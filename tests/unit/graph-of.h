/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STRATUS_TEST_GRAPH_OF_H
#define STRATUS_TEST_GRAPH_OF_H
#include "graph.h"

/* The graph of a volfile's text, started; the caller leaves it. NULL: *problem says why not. */
struct graph *graph_of(const char *text, struct problem *);
#endif
