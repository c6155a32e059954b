/* SPDX-License-Identifier: Apache-2.0 */
/* A demo: a volume of bricks below one directory, its server, and a mount of each brick, all on this machine. */
#ifndef STRATUS_DEMO_H
#define STRATUS_DEMO_H
#include <stdbool.h>
#include <sys/types.h>

#include "process.h"
#include "volfiles.h"

/* DIRECTORY holds spec.yaml, demo.json (the mount point), volfiles/, brickN/, log/. */
struct demo {
	char *directory, *mount;
	struct spec spec;
	struct processes running; /* all of this user's */
};
/* Opens the demo in the directory. -ENOENT: there is none. */
int demo_open(struct demo *, const char *directory, struct problem *);
/* The same, but makes what is missing. bricks 0 and mount NULL: as they were, or 1 and the usual place. */
int demo_create(struct demo *, const char *directory, const char *mount, unsigned bricks, struct problem *);
int demo_start(struct demo *, struct problem *);
int demo_stop(struct demo *, struct problem *);	 /* data stay */
int demo_purge(struct demo *, struct problem *); /* when stopped: the directory and all below it */
void demo_close(struct demo *);

const struct process *demo_server(const struct demo *); /* NULL: not running */
const struct process *demo_mount(const struct demo *, size_t brick);
char *demo_mountpoint(const struct demo *, size_t brick); /* malloc'ed */
#endif
