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
extern struct bearer bearer; /* of who one has become */

/* Runs fn in a task, with a tree of a new brick; fails if `failures` have been counted. */
void with(const char *options, void (*fn)(void *));
int change(const char *option, const char *text); /* live */
/* From here on the tree is that one's, as the user `id`; paths begin at what he has as root. */
int become(struct tree *, struct client *who, uint32_t id);
/* ---- cloud-access-test-points.c ---- */
void an_access_point_shows_its_directory_and_nothing_else(void **state);
void its_directory_is_what_has_the_path_when_a_session_begins(void **state);
void its_directory_is_what_the_set_has_at_the_path(void **state);
void its_clients_are_who_it_says_whoever_they_say_they_are(void **state);
void by_one_that_reads_nothing_is_changed(void **state);
void an_access_point_ends_when_it_is_revoked_or_expires_or_its_tenant_is_suspended(void **state);
void by_its_path_none_is_found_on_several_bricks(void **state);
void tables_of_access_points_that_make_no_sense_are_refused(void **state);
/* ---- cloud-access-test-limits.c ---- */
void over_several_bricks_the_limit_tells_which_directory_it_is(void **state);
void by_one_nothing_is_said_or_asked_of_bricks(void **state);
void it_ends_when_the_limit_is_taken_away(void **state);
void nobody_is_cut_off_by_who_may_not_take_the_limit_away(void **state);
void what_is_elsewhere_is_not_shown(void **state);
void a_name_that_an_intent_holds_is_waited_for(void **state);
void who_waits_for_a_name_is_judged_anew(void **state);
void what_a_limit_above_its_directory_holds_is_not_told(void **state);
void what_is_kept_free_for_clients_that_spread_is_not_for_it(void **state);
void there_are_none_on_several_sets(void **state);
extern struct client site_web;				 /* of an access point of `site` */
void on_bricks(const char *options, void (*fn)(void *)); /* as with(), one brick of several */
void furnish_site(struct tree *); /* a directory `site` with a limit, in it the file `page`; access points */
/* ---- cloud-access-test-names.c ---- */
void whatever_its_clients_call_something_is_a_name(void **state);
void a_limit_that_can_not_be_read_is_not_taken_away(void **state);
#endif
