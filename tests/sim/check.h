/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the checker: the search (check-search.c), names as one object (check-names.c), all else (check.c). */
#ifndef STRATUS_SIM_CHECK_H
#define STRATUS_SIM_CHECK_H
#include "history.h"

/* Not for translators, which find what the simulator exports. */
#pragma GCC visibility push(hidden)
struct entry {
	const struct operation *op;
	uint64_t call, ret;
	bool optional;	/* may have been done at any later time, or never */
	bool reads;	/* leaves the state as it is */
	unsigned index; /* the model's own: READDIR's name */
};
struct model {
	const char *name;
	size_t state_size;
	/* False: it can't have happened in this state with this outcome. */
	bool (*apply)(const struct entry *, void *state);
};
enum { STATE_MAX = 1024 };

/* An operation for a search; what tells nothing is left out. `index` is the model's own. */
void add_entry(struct entry *, unsigned *count, const struct operation *, unsigned index);
/* The run has failed if no order of them explains all answers, from that state on. */
void check_entries(const struct model *, struct entry *, unsigned count, const void *initial, const char *what);
void check_names(struct entry *);

/* Objects by number: their place in here, from 1 on. */
enum { OBJECTS_MAX = 2000, DIRS_MAX = 80 };
extern struct objects {
	struct gfid gfid[OBJECTS_MAX];
	bool directory[OBJECTS_MAX], there[OBJECTS_MAX]; /* there: in the end it still has a name */
	unsigned count;
	unsigned dir[DIRS_MAX], dirs; /* objects that are directories */
} objects;
unsigned object_number(const struct gfid *); /* 0: none */
#pragma GCC visibility pop
#endif
