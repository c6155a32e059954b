/* SPDX-License-Identifier: Apache-2.0 */
/* Who somebody is by his certificate: each form, and nothing that looks like one. */
#include <errno.h>
#include <string.h>

#include "identity.h"
#include "test.h"

#define LONG "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl" /* 64 */

static void is(const char *uri, enum identity_kind kind, const char *name, const char *access)
{
	struct identity i;

	assert_int_equal(identity_parse(uri, &i), 0);
	assert_int_equal(i.kind, kind);
	assert_string_equal(i.name, name);
	assert_string_equal(i.access, access);
	assert_int_equal(identity_is_tenants(&i), kind >= IDENTITY_TENANT);
}

static void each_form_is_told_from_the_others(void **state)
{
	(void)state;
	is(NULL, IDENTITY_NOBODY, "", "");
	is("", IDENTITY_NOBODY, "", "");
	is("stratus:server", IDENTITY_SERVER, "", "");
	is("stratus:admin", IDENTITY_ADMIN, "", "");
	is("stratus:client/desk", IDENTITY_CLIENT, "desk", "");
	is("stratus:tenant/acme", IDENTITY_TENANT, "acme", "");
	is("stratus:tenant/admin", IDENTITY_TENANT, "admin", "");
	is("stratus:tenant/access", IDENTITY_TENANT, "access", "");
	is("stratus:tenant/acme/admin", IDENTITY_TENANT_ADMIN, "acme", "");
	is("stratus:tenant/admin/admin", IDENTITY_TENANT_ADMIN, "admin", "");
	is("stratus:tenant/acme/access/web", IDENTITY_ACCESS, "acme", "web");
	is("stratus:tenant/acme/access/admin", IDENTITY_ACCESS, "acme", "admin");
	is("stratus:tenant/" LONG "/access/" LONG, IDENTITY_ACCESS, LONG, LONG);
	assert_true(strlen("stratus:tenant/" LONG "/access/" LONG) < IDENTITY_TEXT);
}

static void what_only_looks_like_one_is_nobody(void **state)
{
	static const char *const none[] = {
		"stratus:",
		"stratus",
		"xstratus:admin",
		" stratus:admin",
		"stratus:admin ",
		"stratus:admins",
		"stratus:admin/root",
		"stratus:server2",
		"stratus:server/",
		"stratus:client",
		"stratus:client/",
		"stratus:client/a/b",
		"stratus:tenant",
		"stratus:tenant/",
		"stratus:tenant//admin",
		"stratus:tenant/acme/",
		"stratus:tenant/acme/photos",
		"stratus:tenant/acme/Admin",
		"stratus:tenant/acme/admin/",
		"stratus:tenant/acme/admins",
		"stratus:tenant/acme/admin/admin",
		"stratus:tenant/acme/access",
		"stratus:tenant/acme/access/",
		"stratus:tenant/acme/access/a/",
		"stratus:tenant/acme/access/a/b",
		"stratus:tenant/acme/access/.a",
		"stratus:tenant/acme/access/..",
		"stratus:tenant/.acme/admin",
		"stratus:tenant/-acme",
		"stratus:tenant/ac me",
		"stratus:tenant/" LONG "a",
		"stratus:tenant/a/access/" LONG "a",
		"STRATUS:tenant/acme",
		"tenant/acme",
	};
	struct identity i;

	(void)state;
	for (size_t n = 0; n < sizeof none / sizeof *none; n++) {
		memset(&i, 0x55, sizeof i);
		assert_int_equal(identity_parse(none[n], &i), -EBADMSG);
		assert_int_equal(i.kind, IDENTITY_NOBODY);
		assert_string_equal(i.name, "");
		assert_string_equal(i.access, "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_form_is_told_from_the_others),
		cmocka_unit_test(what_only_looks_like_one_is_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
