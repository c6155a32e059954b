/* SPDX-License-Identifier: Apache-2.0 */
/* Access points of a specification: what bricks are told of them, what is refused, and how they come and go. */
#include "volgen-test.h"

#define TENANT_WITH(points) "  - {name: acme, id: " IDS(5) ", base: 65536, count: 1000, access: [" points "]}\n"
#define POINT(id, rest)	    "{id: " IDS(id) ", " rest "}"
#define SOME                                                                                                                   \
	TENANT_WITH(POINT(6, "directory: /a/b, uid: 7, gid: 8") ", " POINT(                                                    \
		7, "directory: \"/od%20d/\\\"é\", read-only: true, expires: 1999999999") ", " POINT(8, "directory: /"))

static void access_points_are_told_to_the_brick(void **state)
{
	struct volgen_files files;
	struct volfile v;

	(void)state;
	comes_back(HEAD SERVER BRICK BY_TLS "tenants:\n" SOME);
	make(HEAD SERVER BRICK BY_TLS "tenants:\n" SOME, &files);
	parse(&files, "server-a.vol", &v);
	assert_string_equal(value(&v, "brick0", "access"),
			    "acme " IDS(6) " 7 8 rw 0 /a/b, acme " IDS(7) " - - ro 1999999999 /od%20d/%22%c3%a9, acme " IDS(
				    8) " - - rw 0 /");
	volfile_free(&v);
	volgen_free(&files);
	make(HEAD SERVER BRICK BY_TLS "tenants: []\n", &files);
	parse(&files, "server-a.vol", &v);
	assert_string_equal(value(&v, "brick0", "access"), "");
	volfile_free(&v);
	volgen_free(&files);
}

static void each_member_of_a_set_is_told_of_them(void **state)
{
	static const char *const brick[] = { "brick0", "brick1", "brick2" };
	struct volgen_files files;
	struct volfile v;

	(void)state;
	make(HEAD SERVER "replica: 3\nbricks:\n" BRICK_AT(1) BRICK_AT(2) BRICK_AT(3) BY_TLS "tenants:\n" SOME, &files);
	parse(&files, "server-a.vol", &v);
	for (size_t i = 0; i < sizeof brick / sizeof *brick; i++)
		assert_non_null(strstr(value(&v, brick[i], "access"), "acme " IDS(6) " 7 8 rw 0 /a/b, "));
	volfile_free(&v);
	volgen_free(&files);
}

static void access_points_that_make_no_sense_are_refused(void **state)
{
	static const char *const bad[][2] = {
		{ POINT(6, "uid: 1, gid: 1"), "has no 'directory'" },
		{ "{directory: /a}", "has no 'id'" },
		{ POINT(6, "directory: a"), "from the tenant's root" },
		{ POINT(6, "directory: /a/../b"), "from the tenant's root" },
		{ POINT(6, "directory: /%2e%2e"), "from the tenant's root" },
		{ POINT(6, "directory: /a/"), "from the tenant's root" },
		{ POINT(6, "directory: /a%0"), "two digits" },
		{ POINT(6, "directory: /a%00"), "two digits" },
		{ POINT(6, "directory: /a, uid: 1"), "or neither" },
		{ POINT(6, "directory: /a, uid: 1000, gid: 0"), "0 to 999" },
		{ POINT(6, "directory: /a, expires: soon"), "is no limit" },
		{ POINT(6, "directory: /a, read-only: 1"), "neither 'true'" },
		{ POINT(6, "directory: /a, readonly: true"), "did you mean 'read-only'" },
		{ POINT(6, "directory: /a") ", " POINT(6, "directory: /b"), "the same id" },
	};
	char text[2048];

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct problem p = { "" };
		struct spec s;

		snprintf(text, sizeof text,
			 HEAD SERVER BRICK
			 "tenants:\n  - {name: acme, id: " IDS(5) ", base: 65536, count: 1000, access: [%s]}\n",
			 bad[i][0]);
		if (!spec_parse(text, strlen(text), "x", &s, &p))
			fail_msg("taken: %s", bad[i][0]);
		if (!strstr(p.text, bad[i][1]))
			fail_msg("of %s it is said: %s", bad[i][0], p.text);
		spec_free(&s);
	}
}

#define LIMITED "0123456789abcdef"
static const char by_limit[] = HEAD SERVER SIX BY_TLS "tenants:\n" TENANT_WITH(
	POINT(6, "directory: \"@4." LIMITED "\"") ", " POINT(7, "directory: \"@0." LIMITED "\", read-only: true"));

static void on_several_bricks_directories_are_told_by_their_limits(void **state)
{
	static const char *const bad[] = { "/a", "@0.0123456789abcde", "@0.0123456789ABCDEF", LIMITED, ("0." LIMITED), "" };
	static const char none[] = HEAD SERVER SIX BY_TLS "tenants:\n" TENANTS;
	struct spec_access like = { .directory = (char *)"@5." LIMITED, .uid = SPEC_ACCESS_ANY, .gid = SPEC_ACCESS_ANY };
	struct volgen_files files;
	struct problem p = { "" };
	struct volfile v;
	struct gfid id;
	struct spec s;

	(void)state;
	comes_back(by_limit);
	make(by_limit, &files);
	parse(&files, "server-a.vol", &v);
	for (int i = 0; i < 6; i++) {
		char brick[16];

		snprintf(brick, sizeof brick, "brick%d", i);
		assert_string_equal(value(&v, brick, "access"),
				    "acme " IDS(6) " - - rw 0 @4." LIMITED ", acme " IDS(7) " - - ro 0 @0." LIMITED);
	}
	volfile_free(&v);
	volgen_free(&files);
	assert_int_equal(spec_parse(none, strlen(none), "x", &s, &p), 0);
	assert_int_equal(spec_create_access(&s, "acme", &like, &id, &p), 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		like.directory = (char *)bad[i];
		p.text[0] = '\0';
		assert_int_equal(spec_create_access(&s, "acme", &like, &id, &p), -EINVAL);
		assert_non_null(strstr(p.text, "`stratus quota show DIRECTORY` tells"));
	}
	like.directory = (char *)"@6." LIMITED;
	p.text[0] = '\0';
	assert_int_equal(spec_create_access(&s, "acme", &like, &id, &p), -EINVAL);
	assert_non_null(strstr(p.text, "no brick 6"));
	spec_free(&s);
	assert_int_equal(spec_parse(HEAD SERVER BRICK BY_TLS "tenants:\n" TENANTS,
				    strlen(HEAD SERVER BRICK BY_TLS "tenants:\n" TENANTS), "x", &s, &p),
			 0);
	like.directory = (char *)"@0." LIMITED;
	assert_int_equal(spec_create_access(&s, "acme", &like, &id, &p), -EINVAL); /* there a path does */
	spec_free(&s);
}

/* Its clients speak to that brick, and to no other. */
static void they_have_the_volfile_of_one_brick(void **state)
{
	static const char to_grow[] =
		HEAD SERVER BRICK BY_TLS "began-with: 1\ntenants:\n" TENANT_WITH(POINT(6, "directory: \"@0." LIMITED "\""));
	struct problem p = { "" };
	struct spec s;
	char *text;

	(void)state;
	assert_int_equal(spec_parse(by_limit, strlen(by_limit), "x", &s, &p), 0);
	assert_int_equal(volgen_one_brick(&s, 4, &text, &p), 0);
	assert_non_null(strstr(text, "option remote-subvolume brick4\n"));
	assert_null(strstr(strstr(text, "remote-subvolume") + 1, "remote-subvolume"));
	assert_null(strstr(text, "cluster/"));
	assert_non_null(strstr(text, "mount/fuse"));
	free(text);
	spec_free(&s);
	assert_int_equal(spec_parse(to_grow, strlen(to_grow), "x", &s, &p), 0);
	assert_int_equal(volgen_one_brick(&s, 0, &text, &p), 0);
	assert_null(strstr(text, "cluster/"));
	free(text);
	spec_free(&s);
}

static void there_are_none_of_several_sets(void **state)
{
	static const char head[] = HEAD SERVER "replica: 3\nbricks:\n" BRICK_AT(1) BRICK_AT(2) BRICK_AT(3) BRICK_AT(4)
		BRICK_AT(5) BRICK_AT(6) BY_TLS;
	struct spec_access like = { .directory = (char *)"@0." LIMITED, .uid = SPEC_ACCESS_ANY, .gid = SPEC_ACCESS_ANY };
	struct problem p = { "" };
	char text[4096];
	struct gfid id;
	struct spec s;

	(void)state;
	snprintf(text, sizeof text, "%stenants:\n%s", head, TENANT_WITH(POINT(6, "directory: \"@0." LIMITED "\"")));
	assert_int_equal(spec_parse(text, strlen(text), "x", &s, &p), -EINVAL);
	assert_non_null(strstr(p.text, "without replicas"));
	spec_free(&s);
	snprintf(text, sizeof text, "%stenants:\n%s", head, TENANTS);
	assert_int_equal(spec_parse(text, strlen(text), "x", &s, &p), 0);
	assert_int_equal(spec_create_access(&s, "acme", &like, &id, &p), -ENOTSUP);
	spec_free(&s);
}

static void open_spec(struct spec *s)
{
	static const char text[] = HEAD SERVER BRICK "tenants:\n" TENANTS;
	struct problem p = { "" };

	assert_int_equal(spec_parse(text, strlen(text), "x", s, &p), 0);
}

static void they_come_and_go_and_never_change(void **state)
{
	struct spec_access like = { .directory = (char *)"/a", .uid = 9, .gid = 9, .expires = 100 };
	struct problem p = { "" };
	struct spec s, before;
	struct gfid id, more;

	(void)state;
	open_spec(&s);
	open_spec(&before);
	assert_int_equal(spec_create_access(&s, "nobody", &like, &id, &p), -ENOENT);
	assert_int_equal(spec_create_access(&s, "globex", &like, &id, &p), 0);
	like.uid = 10;
	assert_int_equal(spec_create_access(&s, "globex", &like, &more, &p), -EINVAL);
	like = (struct spec_access){ .directory = (char *)"a", .uid = SPEC_ACCESS_ANY, .gid = SPEC_ACCESS_ANY };
	assert_int_equal(spec_create_access(&s, "acme", &like, &more, &p), -EINVAL);
	like.directory = (char *)"/a";
	for (int i = 0; i < SPEC_ACCESS_OF_ONE; i++)
		assert_int_equal(spec_create_access(&s, "acme", &like, &more, &p), 0);
	assert_int_equal(spec_create_access(&s, "acme", &like, &more, &p), -ENOSPC);
	assert_int_equal(spec_revoke_access(&s, "acme", &id, &p), -ENOENT); /* it is globex's */
	assert_int_equal(spec_revoke_access(&s, "acme", &more, &p), 0);
	assert_int_equal(spec_revoke_access(&s, "acme", &more, &p), -ENOENT);
	assert_int_equal(spec_create_access(&s, "acme", &like, &more, &p), 0);
	assert_int_equal(spec_check_tenants_change(&s, &before, &p), 0);
	assert_int_equal(spec_check_tenants_change(&before, &s, &p), 0);
	assert_int_equal(spec_create_access(&before, "globex", &like, &more, &p), 0);
	before.tenant[1].access[0].id = id;
	p = (struct problem){ "" };
	assert_int_equal(spec_check_tenants_change(&s, &before, &p), -EINVAL);
	assert_non_null(strstr(p.text, "they never change"));
	assert_true(spec_access_has_expired(&s.tenant[1].access[0], 100));
	assert_false(spec_access_has_expired(&s.tenant[1].access[0], 99));
	assert_int_equal(spec_set_tenant(&s, "globex", SPEC_TENANT_DELETED, &p), 0);
	assert_int_equal(s.tenant[1].accesses, 0);
	spec_free(&s);
	spec_free(&before);
}

int access_of_specifications(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(access_points_are_told_to_the_brick),
		cmocka_unit_test(each_member_of_a_set_is_told_of_them),
		cmocka_unit_test(access_points_that_make_no_sense_are_refused),
		cmocka_unit_test(on_several_bricks_directories_are_told_by_their_limits),
		cmocka_unit_test(they_have_the_volfile_of_one_brick),
		cmocka_unit_test(there_are_none_of_several_sets),
		cmocka_unit_test(they_come_and_go_and_never_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
