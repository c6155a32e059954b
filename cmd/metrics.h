/* SPDX-License-Identifier: Apache-2.0 */
/* What this stratusd counts, for Prometheus. */
#ifndef STRATUS_METRICS_H
#define STRATUS_METRICS_H
#include <jansson.h>
#include <stdio.h>

struct graph;
/* In the text format 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats): what each tenant is charged on each brick of the graphs, and its limits. A
 * tenant is one label, so there are at most as many lines as bricks times tenants. And when the certificates end (certificates_find()). May wait for disks. */
void metrics_write(void (*each_graph)(void (*fn)(struct graph *, void *), void *arg), const json_t *certificates, FILE *);
#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"
#endif
