/* SPDX-License-Identifier: Apache-2.0 */
/* The commands' side of the cluster store: the stratusd that keeps it, found by its control socket. */
#ifndef STRATUS_CLUSTER_CLIENT_H
#define STRATUS_CLUSTER_CLIENT_H
#include <jansson.h>

#include "process.h"
#include "volgen.h"

/* The stratusd with a store: `target` (see process_find()), or the only one there is if that is NULL. */
int keeper_find(const char *target, struct process *, struct problem *);
bool keeper_is(const struct process *);		   /* whether it has a store */
const char *keeper_server(const struct process *); /* what it is called in specifications */
bool keeper_knows(const struct process *, const char *server);
/* Sends a command ("cluster ..."), perhaps with a text; its answer as JSON. */
int keeper_ask(const struct process *, const char *line, const char *body, json_t **answer, struct problem *);
/* The committed specification. */
int keeper_get(const struct process *, const char *volume, struct spec *, uint64_t *version, struct problem *);
/* Commits it in place of `version` ("any", "new" or a number). The answer: version, before, after (the texts, which may be long), problems; COMMIT_BRIEFLY: changed instead
 * of the texts; COMMIT_DRY: nothing is changed; COMMIT_FORCE: added to one of these, a brick is replaced whatever the others of its set have. */
enum commit_form { COMMIT, COMMIT_BRIEFLY, COMMIT_DRY, COMMIT_FORCE };
int keeper_commit(const struct process *, const char *version, enum commit_form, const struct spec *, json_t **answer,
		  struct problem *);
/* What is committed holds; a brick that could not take it over is a failure of the command all the same: -EIO, and a sentence. */
int keeper_judge(const json_t *answer, struct problem *);
#endif
