/* SPDX-License-Identifier: Apache-2.0 */
/* A demo: a stratusd with a cluster store, a volume of bricks below one directory, and its mount, all on this machine. */
#ifndef STRATUS_DEMO_H
#define STRATUS_DEMO_H
#include <stdbool.h>
#include <sys/types.h>

#include "process.h"
#include "volgen.h"

/* DIRECTORY holds spec.yaml (what was committed last), demo.json (the mount point, the service's port), state/ (the cluster
 * store), brickN/, log/; with tenants also ca/ (an authority), and what it issued: tls/ for the server, tenant-NAME/. */
struct demo {
	char *directory, *mount;
	unsigned port; /* of the volfile service */
	bool fresh;    /* made just now */
	struct spec spec;
	struct processes running; /* all of this user's */
};
/* Opens the demo in the directory. -ENOENT: there is none. */
int demo_open(struct demo *, const char *directory, struct problem *);
/* The same, but makes what is missing. 0 and NULL: as it was, or 3 bricks in a replica set and the usual place. replica 1: none. */
struct demo_form {
	const char *mount;
	unsigned bricks, replica;
	const char *tenants; /* NAME,NAME...: each has a mount of its own, below the mount point */
};
int demo_create(struct demo *, const char *directory, const struct demo_form *, struct problem *);
int demo_encrypt(struct demo *,
		 struct problem *); /* before the first start: with a key in the directory, demo.key and demo.secret */
int demo_start(struct demo *, struct problem *);
int demo_stop(struct demo *, struct problem *);	 /* data stay */
int demo_purge(struct demo *, struct problem *); /* when stopped: what it made in the directory */
void demo_close(struct demo *);

const struct process *demo_server(const struct demo *); /* NULL: not running */
size_t demo_mounts(const struct demo *);		/* 1, or as many as there are tenants */
char *demo_mountpoint(const struct demo *, size_t number);
const struct process *demo_mount(const struct demo *, size_t number); /* NULL: not mounted */

/* ---- demo-tenants.c ---- */
char *demo_file(const struct demo *, const char *name); /* in its directory */
/* Certificates of the server and of each tenant, and the tenants in the specification. */
int demo_make_tenants(struct demo *, const char *names, struct problem *);
int demo_check_names(const char *names, struct problem *);			  /* they can be names of tenants */
int demo_check_tenants(const struct demo *, const char *names, struct problem *); /* just these are there */
char *demo_tls(const struct demo *, size_t mount); /* the directory with the files of that mount's tenant; NULL: no TLS */
#endif
