/* SPDX-License-Identifier: Apache-2.0 */
/* What members tell with their leases, between versions. */
#include "test.h"

#include <stdlib.h>

#include "replica.h"

enum {
	WITHOUT_LEAVING = 4,
	WITHOUT_UNSYNCED = WITHOUT_LEAVING + 4,
	WITHOUT_UNNAMED = WITHOUT_UNSYNCED + 8,
	WITHOUT_DEPARTING = WITHOUT_UNNAMED + 4,
	WITHOUT_REPEATED = WITHOUT_DEPARTING + 4,
	WITHOUT_TENANTS = 3 * 4 + 16 + 8
}; /* three numbers, and one failure */

static struct lease_reply told(uint32_t cut)
{
	struct lease_reply before = { .clock = 1,
				      .incarnation = 2,
				      .disk = 3,
				      .free = 4,
				      .boot = 5,
				      .tenants_left = 6,
				      .doubted = 7,
				      .failures = 1,
				      .repeated = 8,
				      .departing = 9,
				      .unnamed = 10,
				      .unsynced = 1,
				      .leaving = 1 },
			   after = { 0 };
	struct pack p = { 0 };
	struct blob blob = { 0 };
	struct unpack u;

	pack_lease_reply(&p, &before);
	assert_int_equal(pack_end(&p, &blob), 0);
	blob.size -= cut;
	u = unpack_blob(&blob);
	unpack_lease_reply(&u, &after);
	assert_false(u.failed);
	free(blob.bytes);
	return after;
}

static void a_member_tells_the_boot_of_its_machine(void **s)
{
	(void)s;
	assert_int_equal(told(0).tenants_left, 6);
	assert_int_equal(told(0).doubted, 7);
	assert_int_equal(told(0).failures, 1);
	assert_int_equal(told(0).boot, 5);
	assert_int_equal(told(0).free, 4);
}

static void a_member_that_tells_no_boot_is_understood(void **s)
{
	(void)s;
	assert_int_equal(told(WITHOUT_REPEATED + WITHOUT_TENANTS + 8).boot, 0);
	assert_int_equal(told(WITHOUT_REPEATED + WITHOUT_TENANTS + 8).free, 4);
}

static void a_member_that_tells_nothing_of_tenants_is_understood(void **s)
{
	(void)s;
	assert_int_equal(told(WITHOUT_REPEATED + WITHOUT_TENANTS).boot, 5);
	assert_int_equal(told(WITHOUT_REPEATED + WITHOUT_TENANTS).tenants_left, 0);
	assert_int_equal(told(WITHOUT_REPEATED + WITHOUT_TENANTS).failures, 0);
}

static void a_member_that_tells_of_no_repeated_changes_is_understood(void **s)
{
	(void)s;
	assert_int_equal(told(0).repeated, 8);
	assert_int_equal(told(WITHOUT_REPEATED).repeated, 0);
	assert_int_equal(told(WITHOUT_REPEATED).failures, 1);
}

static void a_member_that_does_not_tell_that_it_is_leaving_is_understood(void **state)
{
	(void)state;
	assert_int_equal(told(0).leaving, 1);
	assert_int_equal(told(WITHOUT_LEAVING).leaving, 0);
	assert_int_equal(told(WITHOUT_LEAVING).unsynced, 1);
}

static void a_member_that_does_not_tell_what_its_disk_has_lost_is_understood(void **state)
{
	(void)state;
	assert_int_equal(told(0).unsynced, 1);
	assert_int_equal(told(WITHOUT_UNSYNCED).unsynced, 0);
	assert_true(told(WITHOUT_UNSYNCED).unnamed == 10);
}

/* Then a power cut may have taken anything of its list. */
static void a_member_that_does_not_tell_from_when_its_list_is_whole_is_understood(void **s)
{
	(void)s;
	assert_int_equal(told(0).unnamed, 10);
	assert_true(told(WITHOUT_UNNAMED).unnamed == UINT64_MAX);
	assert_int_equal(told(WITHOUT_UNNAMED).departing, 9);
}

static void a_member_that_tells_of_nobody_who_departs_is_understood(void **s)
{
	(void)s;
	assert_int_equal(told(0).departing, 9);
	assert_int_equal(told(WITHOUT_DEPARTING).departing, 0);
	assert_int_equal(told(WITHOUT_DEPARTING).repeated, 8);
}

static void a_coordinator_that_does_not_say_whom_it_needs_or_that_changes_wait_is_understood(void **s)
{
	struct lease_call before = { .epoch = 1, .unproven = true, .changes_wait = true, .needed = true }, after = { 0 };
	struct pack p = { 0 };
	struct blob blob = { 0 };
	struct unpack u;

	(void)s;
	pack_lease_call(&p, &before);
	assert_int_equal(pack_end(&p, &blob), 0);
	u = unpack_blob(&blob);
	unpack_lease_call(&u, &after);
	assert_true(after.unproven && after.changes_wait && after.needed && !u.failed);
	blob.size--;
	u = unpack_blob(&blob);
	unpack_lease_call(&u, &after);
	assert_true(after.unproven && after.changes_wait && !after.needed && !u.failed);
	blob.size--;
	u = unpack_blob(&blob);
	unpack_lease_call(&u, &after);
	assert_true(after.unproven && !after.changes_wait && !u.failed);
	free(blob.bytes);
}

/* As a later version might have it. */
static void what_follows_is_skipped(void **s)
{
	struct lease_reply before = { .boot = 5 }, after = { 0 };
	struct pack p = { 0 };
	struct blob blob = { 0 };
	struct unpack u;

	(void)s;
	pack_lease_reply(&p, &before);
	pack_u64(&p, 6);
	assert_int_equal(pack_end(&p, &blob), 0);
	u = unpack_blob(&blob);
	unpack_lease_reply(&u, &after);
	assert_false(u.failed);
	assert_int_equal(after.boot, 5);
	free(blob.bytes);
}

static void the_boot_stays_while_the_machine_runs(void **s)
{
	(void)s;
	assert_int_equal(runtime_boot(), runtime_boot());
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_member_tells_the_boot_of_its_machine),
		cmocka_unit_test(a_member_that_tells_no_boot_is_understood),
		cmocka_unit_test(a_member_that_tells_nothing_of_tenants_is_understood),
		cmocka_unit_test(a_member_that_tells_of_no_repeated_changes_is_understood),
		cmocka_unit_test(a_member_that_tells_of_nobody_who_departs_is_understood),
		cmocka_unit_test(a_member_that_does_not_tell_what_its_disk_has_lost_is_understood),
		cmocka_unit_test(a_member_that_does_not_tell_from_when_its_list_is_whole_is_understood),
		cmocka_unit_test(a_coordinator_that_does_not_say_whom_it_needs_or_that_changes_wait_is_understood),
		cmocka_unit_test(a_member_that_does_not_tell_that_it_is_leaving_is_understood),
		cmocka_unit_test(what_follows_is_skipped),
		cmocka_unit_test(the_boot_stays_while_the_machine_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
