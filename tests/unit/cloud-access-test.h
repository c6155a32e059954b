/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of cloud-access-test share: a brick for the tenant acme, its clients, and who was seen below. */
#ifndef CLOUD_ACCESS_TEST_H
#define CLOUD_ACCESS_TEST_H
#include "test.h"
#include "test-check.h"
#include "test-tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "asks.h"
#include "tree.h"

enum { ACME = 65536 };
#define TENANTS(acme) "acme aaaaaaaa-0000-4000-8000-000000000001 65536 65536 " acme

extern char dir[64]; /* the brick */
extern atomic_int failures;
extern struct xlator *cloud, *leaf;
extern const struct asks *asked;
extern struct client acme, admin, server;

/* Runs fn in a task, with a tree of a new brick; fails if `failures` have been counted. */
void with(const char *options, void (*fn)(void *));
int change(const char *option, const char *text); /* live */
/* From here on the tree is that one's, as the user `id`; paths begin at what he has as root. */
int become(struct tree *, struct client *who, uint32_t id);
int put(struct tree *, const char *path, const char *text); /* a new file */
#endif
