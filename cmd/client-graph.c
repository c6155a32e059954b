/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the mount off a client's graph, and finds cluster/dht in it. */
#include "client-graph.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"

static bool drop_top(struct volfile *v)
{
	struct volfile top = { .volume = calloc(1, sizeof *top.volume), .volumes = 1 };

	if (!top.volume)
		return false;
	*top.volume = v->volume[--v->volumes];
	volfile_free(&top);
	return true;
}

void client_graph_drop_mount(struct volfile *v)
{
	while (v->volumes > 1 && !strncmp(v->volume[v->volumes - 1].type, "mount/", 6) && drop_top(v))
		;
}

int client_graph_act_for(struct volfile *v, const struct gfid *tenant)
{
	char id[GFID_TEXT];
	int err = 0;

	gfid_text(tenant, id);
	for (size_t i = 0; i < v->volumes && !err; i++)
		if (!strcmp(v->volume[i].type, "protocol/client"))
			err = volfile_set_option(&v->volume[i], "acts-for", id);
	return err;
}

bool client_graph_is_distributed(const struct volfile *v)
{
	for (size_t i = 0; i < v->volumes; i++)
		if (!strcmp(v->volume[i].type, "cluster/dht"))
			return true;
	return false;
}

struct xlator *client_graph_dht(const struct graph *g)
{
	for (size_t i = 0; i < g->count; i++)
		if (!strcmp(g->xlator[i]->type->name, "cluster/dht"))
			return g->xlator[i];
	return NULL;
}

int client_graph_ask(struct xlator *dht, int words, char **word, FILE *to, struct problem *p)
{
	int err = dht->type->command(dht, words, word, to);

	return err ? problem_set(p, -err, "volume %s (%s) does not take the command: %s; is it of this version?", dht->name,
				 dht->type->name, error_text(err))
		   : 0;
}
