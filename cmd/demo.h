/* SPDX-License-Identifier: Apache-2.0 */
/* A demo: a stratusd with a cluster store, a volume of bricks below one directory, and its mount, all on this machine. */
#ifndef STRATUS_DEMO_H
#define STRATUS_DEMO_H
#include <stdbool.h>
#include <sys/types.h>

#include "process.h"
#include "volgen.h"

/* DIRECTORY holds spec.yaml (what was committed last), demo.json (the mount point, the service's port), state/ (the cluster
 * store), brickN/, log/. */
struct demo {
	char *directory, *mount;
	unsigned port; /* of the volfile service */
	struct spec spec;
	struct processes running; /* all of this user's */
};
/* Opens the demo in the directory. -ENOENT: there is none. */
int demo_open(struct demo *, const char *directory, struct problem *);
/* The same, but makes what is missing. 0 and NULL: as it was, or 3 bricks in a replica set and the usual place. replica 1: none. */
struct demo_form {
	const char *mount;
	unsigned bricks, replica;
};
int demo_create(struct demo *, const char *directory, const struct demo_form *, struct problem *);
int demo_start(struct demo *, struct problem *);
int demo_stop(struct demo *, struct problem *);	 /* data stay */
int demo_purge(struct demo *, struct problem *); /* when stopped: what it made in the directory */
void demo_close(struct demo *);

const struct process *demo_server(const struct demo *); /* NULL: not running */
const struct process *demo_mount(const struct demo *);	/* NULL: not mounted */
#endif
