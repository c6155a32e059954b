/* SPDX-License-Identifier: Apache-2.0 */
/* What the two parts of cloud-test share: a brick for the tenants acme and globex, and who asks. */
#ifndef CLOUD_TEST_H
#define CLOUD_TEST_H
#include "test.h"
#include "test-check.h"
#include "test-tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "tree.h"

enum { RANGE = 65536, ACME = 65536, GLOBEX = 131072 };
#define ACME_ID		      "aaaaaaaa-0000-4000-8000-000000000001"
#define GLOBEX_ID	      "bbbbbbbb-0000-4000-8000-000000000002"
#define TENANTS(acme, globex) "acme " ACME_ID " 65536 65536 " acme ", globex " GLOBEX_ID " 131072 65536 " globex

extern char dir[64]; /* the brick */
extern unsigned seed;
extern atomic_int failures;
extern struct client acme, globex, server;

/* Runs fn in a task, with a tree of a new brick; fails if `failures` have been counted. */
void with(const char *options, const char *tenants, void (*fn)(void *));
/* From here on the tree is that one's, as the user `id`; paths begin at what he has as root. */
int become(struct tree *, struct client *who, uint32_t id);
struct blob acl_of(uint32_t user, uint32_t group); /* static storage: one at a time */
unsigned next_random(void);

void no_id_is_outside_the_range_on_the_brick_or_at_the_mount(void **state); /* cloud-test-random.c */
/* ---- cloud-test-spread.c: below features/cloud there is features/layout ---- */
void names_of_a_tenants_root_are_judged_by_what_clients_call_it(void **state);
void a_gfid_of_another_tenant_is_answered_like_one_that_nobody_has(void **state);
void a_tenant_is_told_paths_from_its_own_root(void **state);
void what_tells_of_all_tenants_is_told_to_none(void **state);
void what_makes_no_sense_is_not_stored(void **state);
void names_are_spread_by_tenants_only(void **state);
void who_moves_a_tenants_files_is_in_that_tree_whatever_its_state(void **state);
void nobody_but_a_server_acts_for_a_tenant(void **state);
void who_moves_may_make_what_options_refuse(void **state);
#endif
