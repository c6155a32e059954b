/* SPDX-License-Identifier: Apache-2.0 */
/* Who of a tenant asks: its clients, and its administrator. What a translator below features/cloud sees of that is seen by test/asks.
 * Needs root and a file system with ACLs and trusted attributes. */
#include "cloud-access-test.h"

#define GRAPH                                                                                                                  \
	"volume posix\ntype storage/posix\noption directory %s\noption volume-id 11111111-2222-3333-4444-555555555555\n"       \
	"option brick-id 11111111-2222-3333-4444-666666666666\nend-volume\n"                                                   \
	"volume locks\ntype features/locks\nsubvolumes posix\nend-volume\n"                                                    \
	"volume access\ntype features/access\nsubvolumes locks\nend-volume\n"                                                  \
	"volume asks\ntype test/asks\nsubvolumes access\nend-volume\n"                                                         \
	"volume cloud\ntype features/cloud\n%soption tenants \"%s\"\nsubvolumes asks\nend-volume\n"

char dir[64];
atomic_int failures;
struct xlator *cloud, *leaf;
const struct asks *asked;
struct bearer bearer;
struct client acme = { .identity = "stratus:tenant/acme", .name = "acme", .id = { 1 } },
	      admin = { .identity = "stratus:tenant/acme/admin", .name = "admin", .id = { 2 } },
	      server = { .identity = "stratus:server", .name = "server", .id = { 3 } };

/* ---- the stack ---- */

void with(const char *options, void (*fn)(void *))
{
	struct problem p = { "" };
	struct tree t;
	char text[2048];

	if (geteuid())
		skip();
	failures = 0;
	test_directory(dir, sizeof(dir), "cloud-access-test");
	umask(0);
	snprintf(text, sizeof(text), GRAPH, dir, options, TENANTS("active"));
	if (tree_open(&t, text, &p))
		fail_msg("%s", p.text);
	cloud = tree_find(&t, "cloud");
	leaf = tree_find(&t, "posix");
	asked = tree_find(&t, "asks")->private;
	task_call(fn, &t);
	tree_close(&t);
	test_remove(dir);
	assert_int_equal(failures, 0);
}

int change(const char *option, const char *text)
{
	struct problem p = { "" };
	int err = option_change(cloud->type->options, cloud->private, "test", option, text, &p);

	if (!err)
		cloud->type->reconfigure(cloud, option_find(cloud->type->options, option));
	return err;
}

int become(struct tree *t, struct client *who, uint32_t id)
{
	return tree_become(t, cloud, who, id, &bearer);
}

/* ---- the administrator ---- */

static void administration(void *arg)
{
	struct tree *t = arg;
	struct attr a;

	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_put(t, "file", "x"), 0);
	CHECK(asked->tenants && !asked->administers);
	CHECK_INT(become(t, &admin, 0), 0);
	CHECK_INT(tree_getattr(t, "file", &a), 0); /* all that a client may */
	CHECK(asked->tenants && asked->administers);
	CHECK_INT(asked->uid, ACME);
	CHECK_INT(tree_put(t, "other", "x"), 0);
	CHECK_INT(become(t, &server, 0), 0);
	CHECK_INT(tree_getattr(t, "tenants/acme/other", &a), 0);
	CHECK_INT(a.uid, ACME);
	CHECK(!asked->tenants && !asked->administers);
	CHECK_INT(change("tenants", TENANTS("suspended")), 0);
	CHECK_INT(become(t, &admin, 0), -EACCES);
	CHECK_INT(tree_getattr(t, "", &a), -EACCES);
}

static void an_administrator_is_a_client_that_is_told_from_the_others(void **state)
{
	(void)state;
	with("", administration);
}

static int start(void **state)
{
	(void)state;
	return runtime_start(2, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_administrator_is_a_client_that_is_told_from_the_others),
		cmocka_unit_test(an_access_point_shows_its_directory_and_nothing_else),
		cmocka_unit_test(its_directory_is_what_has_the_path_when_a_session_begins),
		cmocka_unit_test(its_directory_is_what_the_set_has_at_the_path),
		cmocka_unit_test(its_clients_are_who_it_says_whoever_they_say_they_are),
		cmocka_unit_test(by_one_that_reads_nothing_is_changed),
		cmocka_unit_test(an_access_point_ends_when_it_is_revoked_or_expires_or_its_tenant_is_suspended),
		cmocka_unit_test(by_its_path_none_is_found_on_several_bricks),
		cmocka_unit_test(tables_of_access_points_that_make_no_sense_are_refused),
		cmocka_unit_test(over_several_bricks_the_limit_tells_which_directory_it_is),
		cmocka_unit_test(by_one_nothing_is_said_or_asked_of_bricks),
		cmocka_unit_test(it_ends_when_the_limit_is_taken_away),
		cmocka_unit_test(nobody_is_cut_off_by_who_may_not_take_the_limit_away),
		cmocka_unit_test(what_is_elsewhere_is_not_shown),
		cmocka_unit_test(a_name_that_an_intent_holds_is_waited_for),
		cmocka_unit_test(who_waits_for_a_name_is_judged_anew),
		cmocka_unit_test(what_a_limit_above_its_directory_holds_is_not_told),
		cmocka_unit_test(what_is_kept_free_for_clients_that_spread_is_not_for_it),
		cmocka_unit_test(there_are_none_on_several_sets),
		cmocka_unit_test(whatever_its_clients_call_something_is_a_name),
		cmocka_unit_test(a_limit_that_can_not_be_read_is_not_taken_away),
	};

	return cmocka_run_group_tests(tests, start, tasks_stop);
}
