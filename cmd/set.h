/* SPDX-License-Identifier: Apache-2.0 */
/* The commands' side of a replica set: its coordinator, in a process of this machine. */
#ifndef STRATUS_SET_H
#define STRATUS_SET_H
#include <jansson.h>

#include "process.h"

struct problem;
/* A stratusd that may run coordinators: `target` (see process_find()), or the one with a cluster store if that is NULL. */
int sets_process(const char *target, struct process *, struct problem *);
/* The sets that the process coordinates, as a list of what each coordinator says of itself ("status --json"). To it are added
 * "coordinator", the translator's name, and what the cluster store knows of the members' bricks: "brick", "server", "directory". */
int sets_find(const struct process *, json_t **list, struct problem *);
/* Those of that volume among them, or the one of that name (VOLUME:NUMBER, where a volume has several), as a list of its own; NULL, and the
 * reason why there is none. */
json_t *sets_choose(const struct process *, const json_t *list, const char *name, struct problem *);
/* Whether all started sets of the cluster store are in the list; a sentence for the first that is not. */
int sets_complete(const struct process *, const json_t *list, struct problem *);
/* The set of them that has a member called so (N, brickN, or SERVER:/DIRECTORY), and the member's number there. Borrowed; NULL and a
 * sentence. */
json_t *sets_member(const json_t *sets, const char *name, int *member, struct problem *);
/* Sends words to the set's coordinator and gives its answer (malloc'ed). */
int set_ask(const struct process *, const json_t *set, const char *words, char **answer, struct problem *);
/* Whether it can be changed, in words. */
const char *set_state(const json_t *set);
/* The rest of a line that begins with a member's name: its state, what is pending there, how far its healing is, and when it may be done. */
void set_print_member(const json_t *member);
#endif
