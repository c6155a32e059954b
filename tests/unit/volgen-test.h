/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of specifications share: pieces of them, and looking at what becomes of one. */
#ifndef STRATUS_VOLGEN_TEST_H
#define STRATUS_VOLGEN_TEST_H
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "volgen.h"

#define IDS(n)	    "00000000-0000-4000-8000-00000000000" #n
#define HEAD	    "volume: v\nid: " IDS(9) "\n"
#define SERVER	    "servers: {a: {host: h}}\n"
#define BRICK	    "bricks: [{server: a, directory: /d, id: " IDS(1) "}]\n"
#define BRICK_AT(n) "  - {server: a, directory: /d" #n ", id: " IDS(n) "}\n"
/* Six bricks: brickN is the (N % replica)th member of set N / replica. */
#define SIX "bricks:\n" BRICK_AT(1) BRICK_AT(2) BRICK_AT(3) BRICK_AT(4) BRICK_AT(5) BRICK_AT(6)
/* Three bricks, of which the second has left. */
#define GAP		       "bricks:\n" BRICK_AT(1) "  - gone: true\n" BRICK_AT(3)
#define TLS		       "tls: {certificate: /t/c, key: /t/k, authorities: /t/a}\n"
#define TENANT(name, id, rest) "  - {name: " name ", id: " IDS(id) ", " rest "}\n"
#define TENANTS		       TENANT("acme", 5, "base: 65536, count: 65536") TENANT("globex", 6, "base: 131072, count: 10, state: suspended")
/* One replica set of three servers. */
#define SET(n)                                                                                                                 \
	"volume: v\nid: " IDS(                                                                                                 \
		9) "\nreplica: 3\n" n "servers: {a: {host: h}, b: {host: i}, c: {host: j}}\n"                                  \
		   "bricks:\n  - {server: a, directory: /d, id: " IDS(1) "}\n  - {server: b, directory: /d, id: " IDS(         \
			   2) "}\n  - {server: c, directory: /d, id: " IDS(3) "}\n"
#define BY_TLS "options: {protocol/server: {transport: tls}}\n"

/* A specification's files; volgen_free. It must be right. */
void make(const char *text, struct volgen_files *files);
/* One of them; volfile_free. */
void parse(const struct volgen_files *files, const char *name, struct volfile *v);
/* The option must be there; so must the volume, of that type. */
const char *value(const struct volfile *v, const char *volume, const char *option);
void has(const struct volfile *v, const char *volume, const char *type);
/* A specification that is printed is read as the same. */
void comes_back(const char *text);

int tenants_of_specifications(void);	/* the tests of volgen-test-tenants.c: how many failed */
int access_of_specifications(void);	/* of volgen-test-access.c */
int subvolumes_of_specifications(void); /* of volgen-test-subvolumes.c */
#endif
