/* SPDX-License-Identifier: Apache-2.0 */
/* Volfiles and the graphs that they define: parsing, loading, linking, starting, switching. */
#ifndef STRATUS_GRAPH_H
#define STRATUS_GRAPH_H
#include <stdio.h>

#include "xlator.h"

/* ---- the text: volume NAME / type KIND/NAME / option NAME VALUE / subvolumes NAME... / end-volume ---- */
struct volfile_volume {
	char *name, *type;
	struct option_value *option;
	size_t options;
	char **subvolume;
	size_t subvolumes;
	unsigned line;
};
struct volfile {
	struct volfile_volume *volume;
	size_t volumes;
	char *path; /* for messages */
};
/* Parses; never more than 64 MiB of text, 4096 volumes. -EINVAL and a sentence with file and line. */
int volfile_parse(const char *text, size_t size, const char *path, struct volfile *, struct problem *);
int volfile_read(const char *path, struct volfile *, struct problem *);
/* In place of the value that it has, if it has one. -ENOMEM */
int volfile_set_option(struct volfile_volume *, const char *name, const char *value);
void volfile_free(struct volfile *);

/* ---- the graph ---- */
struct graph {
	struct xlator **xlator; /* in the volfile's order: children before parents */
	bool *borrowed;		/* [count]: belongs to another graph, which starts, stops and frees it */
	size_t count;
	struct xlator *top; /* the last volume of the file */
	struct inode_table *inodes;
	char *path;	      /* the volfile's, for messages */
	unsigned number;      /* rises with each graph of the process */
	atomic_uint requests; /* that use it */
	bool owns_inodes;
	void (*on_unmount)(struct graph *); /* set by the program: the top was unmounted from outside */
};

/* Loads, checks and links, but starts nothing. `inodes` NULL: makes a table. With `old`, translators that are the same there
 * (name, type, options, and all below them) and whose type is marked shareable are taken over with their state. */
int graph_create(const struct volfile *, struct inode_table *inodes, struct graph *old, struct graph **, struct problem *);
/* Starts from the leaves up. On failure everything started is stopped again. */
int graph_start(struct graph *, struct problem *);
/* Tells all translators that the process is going to end. True: none has anything left to wait for; until then call it again. */
bool graph_retire(struct graph *);
void graph_stop(struct graph *);    /* from the top down */
void graph_destroy(struct graph *); /* stopped, and no request uses it */
/* Replaces *active by a graph made from the volfile, while requests run: creates and starts the new one, waits until the old
 * one's requests have ended, stops and frees it. On failure *active stays as it was. Not from a task. */
int graph_switch(struct graph **active, const struct volfile *, struct problem *);
/* If the volfile differs from the graph only in live options, changes these and returns 1; 0 if a switch is needed. */
int graph_reconfigure(struct graph *, const struct volfile *, struct problem *);
struct xlator *graph_find(struct graph *, const char *name); /* or NULL */
void graph_dot(const struct volfile *, FILE *);		     /* draws it: input of dot(1) */
void graph_dump(struct graph *, FILE *);		     /* every translator: options and dump() */
#endif
