/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants of a specification: what bricks are told of them, what may change, and that the quick reader says what YAML says. */
#include "volgen-test.h"

static void tenants_are_told_to_the_brick(void **state)
{
	struct volgen_files files;
	struct volfile v;

	(void)state;
	comes_back(HEAD SERVER BRICK BY_TLS "tenants:\n" TENANTS "tenant-base: 200000\n");
	comes_back(HEAD SERVER BRICK BY_TLS "tenants: []\n");
	make(HEAD SERVER BRICK BY_TLS "tenants:\n" TENANTS, &files);
	assert_int_equal(files.count, 2);
	parse(&files, "server-a.vol", &v);
	assert_string_equal(value(&v, "brick0", "tenants"),
			    "acme " IDS(5) " 65536 65536 active, globex " IDS(6) " 131072 10 suspended");
	for (size_t i = 0; i < v.volumes; i++)
		assert_string_not_equal(v.volume[i].type, "features/layout");
	assert_string_equal(v.volume[v.volumes - 2].type, "features/cloud");
	assert_string_equal(v.volume[v.volumes - 3].type, "features/throttle"); /* where it is known whose a request is */
	assert_string_equal(v.volume[v.volumes - 4].type, "features/lease");
	assert_string_equal(value(&v, "brick0-throttle", "tenants"), "acme 65536, globex 131072");
	volfile_free(&v);
	parse(&files, "client-v.vol", &v);
	for (size_t i = 0; i < v.volumes; i++)
		assert_string_not_equal(v.volume[i].type, "cluster/dht");
	volfile_free(&v);
	volgen_free(&files);
}

/* Each server has a pool of its own bricks, and knows that there are others. */
static void limits_of_tenants_hold_over_several_servers(void **state)
{
	static const char text[] = HEAD "servers: {a: {host: h}, b: {host: i}}\nbricks:\n" BRICK_AT(
		1) "  - {server: b, directory: /d, id: " IDS(2) "}\n" BRICK_AT(3) BY_TLS
		"tenants:\n" TENANT("acme", 8, "base: 65536, count: 65536, bytes: 5, inodes: 6");
	struct volgen_files files;
	struct volfile v;

	(void)state;
	make(text, &files);
	parse(&files, "server-a.vol", &v);
	assert_string_equal(value(&v, "brick2-usage", "pool"), IDS(9));
	assert_string_equal(value(&v, "brick2-usage", "pool-bricks"), "2");
	assert_string_equal(value(&v, "brick2-usage", "pool-servers"), "2");
	volfile_free(&v);
	parse(&files, "server-b.vol", &v);
	assert_string_equal(value(&v, "brick1-usage", "pool-bricks"), "1");
	assert_string_equal(value(&v, "brick1-usage", "pool-servers"), "2");
	assert_string_equal(value(&v, "brick1-usage", "accounts"), "acme 65536 65536 5 6");
	volfile_free(&v);
	volgen_free(&files);
}

/* Below features/cloud each brick has features/layout, and leases, as all bricks without replicas. */
static void tenants_of_several_bricks_spread_names(void **state)
{
	static const char *const types[] = { "storage/posix",	"features/usage",    "features/locks",
					     "features/access", "features/layout",   "debug/io-stats",
					     "features/lease",	"features/throttle", "features/cloud" };
	enum { TYPES = sizeof types / sizeof *types };
	struct volgen_files files;
	struct volfile v;

	(void)state;
	comes_back(HEAD SERVER SIX BY_TLS "tenants:\n" TENANT("acme", 8, "base: 65536, count: 65536, bytes: 5, inodes: 6"));
	make(HEAD SERVER SIX BY_TLS "tenants:\n" TENANT("acme", 8, "base: 65536, count: 65536, bytes: 5, inodes: 6"), &files);
	parse(&files, "server-a.vol", &v);
	assert_int_equal(v.volumes, 6 * TYPES + 1);
	for (size_t i = 0; i + 1 < v.volumes; i++)
		assert_string_equal(v.volume[i].type, types[i % TYPES]);
	assert_string_equal(value(&v, "brick5", "spread"), "on");
	assert_string_equal(value(&v, "brick5-layout", "subvolume"), "5");
	assert_string_equal(value(&v, "brick5-layout", "initial"), "6");
	assert_string_equal(value(&v, "brick5-usage", "pool"), IDS(9));
	assert_string_equal(value(&v, "brick5-usage", "pool-bricks"), "6");
	assert_string_equal(value(&v, "brick5-usage", "pool-servers"), "1");
	assert_string_equal(value(&v, "brick5-usage", "accounts"), "acme 65536 65536 5 6");
	volfile_free(&v);
	parse(&files, "client-v.vol", &v);
	assert_string_equal(v.volume[12].type, "cluster/dht");
	assert_string_equal(v.volume[11].type, "features/believe");
	volfile_free(&v);
	volgen_free(&files);
}

/* features/replica knows tenants by what features/cloud above it says, and nothing below it holds a change back. */
static void tenants_of_a_replica_set_have_cloud_above_it(void **state)
{
	static const char *const types[] = { "storage/posix",  "features/usage",   "features/locks",	"features/access",
					     "debug/io-stats", "features/replica", "features/throttle", "features/cloud" };
	enum { TYPES = sizeof types / sizeof *types, MEMBERS = 3 };
	static const char text[] =
		HEAD SERVER "replica: 3\nbricks:\n" BRICK_AT(1) BRICK_AT(2) BRICK_AT(3) BY_TLS "tenants:\n" TENANTS;
	struct volgen_files files;
	struct volfile v;

	(void)state;
	comes_back(text);
	comes_back(SET(BY_TLS
		       "tenants:\n" TENANT("acme", 8,
					   "base: 65536, count: 1, bytes: 5"))); /* of three servers: each counts for itself */
	make(text, &files);
	assert_int_equal(files.count, 3);
	parse(&files, "server-a.vol", &v);
	assert_int_equal(v.volumes, MEMBERS * TYPES + 1);
	for (size_t i = 0; i + 1 < v.volumes; i++)
		assert_string_equal(v.volume[i].type, types[i % TYPES]);
	assert_string_equal(value(&v, "brick2", "replicas"), "on");
	volfile_free(&v);
	parse(&files, "client-v.vol", &v);
	assert_string_equal(v.volume[MEMBERS].type, "cluster/afr");
	volfile_free(&v);
	volgen_free(&files);
}

static void has_none(const struct volfile *v, const char *volume, const char *option)
{
	for (size_t i = 0; i < v->volumes; i++)
		for (size_t k = 0; k < v->volume[i].options; k++)
			if (!strcmp(v->volume[i].name, volume))
				assert_string_not_equal(v->volume[i].option[k].name, option);
}

/* What is said to members of one set does not count in another; and what has no limit is not added up. */
static void tenants_of_several_sets_have_all_of_both(void **state)
{
	static const char *const types[] = { "storage/posix",	 "features/usage",    "features/locks",
					     "features/access",	 "features/layout",   "debug/io-stats",
					     "features/replica", "features/throttle", "features/cloud" };
	enum { TYPES = sizeof types / sizeof *types, MEMBERS = 3 };
	static const char text[] = HEAD SERVER "replica: 3\n" SIX BY_TLS "tenants:\n" TENANTS;
	struct volgen_files files;
	struct volfile v;

	(void)state;
	comes_back(text);
	comes_back(
		HEAD SERVER
		"replica: 3\n" SIX BY_TLS
		"tenants:\n" TENANT("acme", 8, "base: 65536, count: 1, bytes: 5, state: deleted")); /* it is in nobody's way */
	make(text, &files);
	assert_int_equal(files.count, 4); /* a coordinator each */
	parse(&files, "server-a.vol", &v);
	assert_int_equal(v.volumes, 2 * MEMBERS * TYPES + 1);
	for (size_t i = 0; i + 1 < v.volumes; i++)
		assert_string_equal(v.volume[i].type, types[i % TYPES]);
	assert_string_equal(value(&v, "brick4", "spread"), "on");
	assert_string_equal(value(&v, "brick4", "replicas"), "on");
	assert_string_equal(value(&v, "brick4-replica", "member"), "1");
	assert_string_equal(value(&v, "brick4-replica", "set"), "1");
	has_none(&v, "brick1-replica", "set");
	assert_string_equal(value(&v, "brick4-layout", "subvolume"), "1");
	assert_string_equal(value(&v, "brick4-usage", "set"), IDS(9) ".1");
	assert_string_equal(value(&v, "brick4-usage", "pool"), IDS(9));
	assert_string_equal(value(&v, "brick4-usage", "pool-sets"), "2");
	has_none(&v, "brick4-usage", "pool-bricks");
	volfile_free(&v);
	parse(&files, "client-v.vol", &v);
	assert_string_equal(v.volume[2 * (MEMBERS + 1)].type, "cluster/dht");
	volfile_free(&v);
	volgen_free(&files);
}

/* Roots are implied by what there was first; limits are of all bricks. With one brick that may get others there is what spreads names from the beginning. */
static void bricks_of_tenants_come_and_go(void **state)
{
	struct volgen_files files;
	struct volfile v;

	(void)state;
	comes_back(HEAD SERVER SIX BY_TLS "tenants:\n" TENANTS "began-with: 2\nleaving: true\n");
	make(HEAD SERVER SIX BY_TLS "tenants:\n" TENANTS "began-with: 2\nleaving: true\n", &files);
	parse(&files, "server-a.vol", &v);
	assert_string_equal(value(&v, "brick5-layout", "initial"), "2");
	assert_string_equal(value(&v, "brick5-layout", "leaving"), "on");
	assert_string_equal(value(&v, "brick0-usage", "pool-bricks"), "6");
	volfile_free(&v);
	parse(&files, "client-v.vol", &v);
	assert_string_equal(value(&v, "dht", "initial"), "2");
	assert_string_equal(value(&v, "dht", "leaving"), "5");
	volfile_free(&v);
	volgen_free(&files);
	make(HEAD SERVER BRICK BY_TLS "tenants:\n" TENANTS "began-with: 1\n", &files);
	parse(&files, "server-a.vol", &v);
	assert_string_equal(value(&v, "brick0", "spread"), "on");
	assert_string_equal(value(&v, "brick0-lease", "record"), "/d/.stratus/leases");
	volfile_free(&v);
	parse(&files, "client-v.vol", &v);
	assert_string_equal(v.volume[1].type, "features/believe");
	assert_string_equal(v.volume[2].type, "cluster/dht");
	volfile_free(&v);
	volgen_free(&files);
}

#define RULED                                                                                                                  \
	TENANT("acme", 5, "base: 65536, count: 65536, ops: 500, weight: 7")                                                    \
	TENANT("globex", 6, "base: 131072, count: 10, bandwidth: 65536")                                                       \
	TENANT("gone", 7, "base: 131082, count: 10, ops: 1, state: deleted")

#define SOFT                                                                                                                   \
	TENANT("acme", 5, "base: 65536, count: 65536, soft-bytes: 7")                                                          \
	TENANT("globex", 6, "base: 131072, count: 10, bytes: 9, inodes: 8, soft-bytes: 7, soft-inodes: 6, grace: 60")

static void soft_limits_of_tenants_are_told_to_the_brick(void **state)
{
	struct volgen_files files;
	struct volfile v;

	(void)state;
	comes_back(HEAD SERVER BRICK BY_TLS "tenants:\n" SOFT);
	comes_back(HEAD "servers: {a: {host: h}, b: {host: i}}\nbricks:\n" BRICK_AT(
		1) "  - {server: b, directory: /d, id: " IDS(2) "}\n" BY_TLS "tenants:\n" SOFT);
	make(HEAD SERVER BRICK BY_TLS "tenants:\n" SOFT, &files);
	parse(&files, "server-a.vol", &v);
	assert_string_equal(value(&v, "brick0-usage", "accounts"), "acme 65536 65536 0 0 7 0, globex 131072 10 9 8 7 6 60");
	volfile_free(&v);
	volgen_free(&files);
}

/* ---- what is read line by line is what YAML says ---- */

#define MANY_TENANTS                                                                                                           \
	TENANT("acme", 5, "base: 65536, count: 65536, soft-bytes: 7, grace: 60")                                               \
	TENANT("globex", 6, "base: 131072, count: 10, bytes: 9, inodes: 8, soft-bytes: 7, soft-inodes: 6, ops: 3")             \
	TENANT("gone", 7, "base: 131082, count: 10, bandwidth: 65536, weight: 4, state: deleted")                              \
	TENANT("rests", 8,                                                                                                     \
	       "base: 131092, count: 10, state: suspended, access: [{id: " IDS(                                                \
		       3) ", directory: /a/b, uid: 7, gid: 0}, "                                                               \
			  "{id: " IDS(4) ", directory: \"/od%20d\", read-only: true, expires: 1999999999}]")

static char *printed(const char *text)
{
	struct problem p = { "" };
	struct spec s, copy;
	char *out;

	assert_int_equal(spec_parse(text, strlen(text), "x", &s, &p), 0);
	spec_copy(&s, &copy);
	out = spec_text(&copy);
	spec_free(&copy);
	spec_free(&s);
	return out;
}

/* 0, or the error; what was read, or what is said. */
static int read_as(const char *text, char **said)
{
	struct problem p = { "" };
	struct spec s;
	int err = spec_parse(text, strlen(text), "x", &s, &p);

	*said = err ? strdup(p.text) : spec_text(&s);
	if (!err)
		for (size_t i = 0; i < s.tenants; i++) { /* which messages tell */
			char *more = NULL;

			assert_true(asprintf(&more, "%s%u ", *said, s.tenant[i].line) > 0);
			free(*said);
			*said = more;
		}
	spec_free(&s);
	return err;
}

/* With another first line of the same length nobody takes it for a text that was written. */
static void reads_the_same(const char *text)
{
	char *other = strdup(text), *one, *two;

	assert_memory_equal(text, SPEC_HEAD, strlen(SPEC_HEAD));
	other[2] = 'a';
	assert_int_equal(read_as(text, &one), read_as(other, &two));
	assert_string_equal(one, two);
	free(other);
	free(one);
	free(two);
}

static char *replaced(const char *text, const char *from, const char *to)
{
	const char *at = strstr(text, from);
	char *out = NULL;

	assert_non_null(at);
	assert_true(asprintf(&out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) > 0);
	return out;
}

static void tenants_that_were_written_read_as_YAML_says(void **state)
{
	static const char *const changes[][2] = {
		{ "base: 65536", "base: 0" },
		{ "base: 65536", "base: 4294967295" },
		{ "base: 65536", "base: 065536" },
		{ "base: 65536", "base: x" },
		{ "base: 65536", "base: 65536\n    base: 65536" },
		{ "    base: 65536\n", "" },
		{ "    base: 65536\n", "    # none\n    base: 65536\n" },
		{ "    base: 65536\n", "\n    base: 65536\n" },
		{ "count: 10", "count: 10 " },
		{ "count: 10", "count:  10" },
		{ "soft-bytes: 7", "soft-bytes: 0" },
		{ "soft-bytes: 7", "soft-bytes: 9223372036854775808" },
		{ "soft-bytes: 7", "soft-bytes: 99999999999999999999" },
		{ "soft-bytes: 7", "soft-bites: 7" },
		{ "state: deleted", "state: dead" },
		{ "state: deleted", "state: active" },
		{ "state: deleted", "state: deleted\n    state: deleted" },
		{ "\"globex\"", "globex" },
		{ "\"globex\"", "\"glo bex\"" },
		{ "\"globex\"", "\"-globex\"" },
		{ "\"globex\"", "\"glo\\x62ex\"" },
		{ "\"globex\"", "\"globex" },
		{ "\"globex\"", "\"acme\"" },
		{ "  - name: \"globex\"", "  - name:" },
		{ "  - name: \"globex\"", "  -  name: \"globex\"" },
		{ "tenant-base: ", "tenant-base: x" },
		{ "tenant-base: ", "\ntenant-base: " },
		{ "tenant-base: ", "tenants:\n  - name: \"other\"\ntenant-base: " },
		{ "tenant-base: ", "  \ntenant-base: " },
		{ "tenant-base: ", "- name: \"other\"\ntenant-base: " },
		{ "tenants:\n", "tenants: \n" },
		{ "tenants:\n", "tenants:\n\n" },
		{ "00000000-", "0000000g-" },
		{ "    soft-bytes: 7\n", "\n    soft-bytes: 7\n" },
		{ "    state: suspended\n", "\n    state: suspended\n" },
		{ "    state: suspended\n", "# none\n    state: suspended\n" },
		{ "    access:\n", "    access: []\n" },
		{ "    access:\n", "    access:\n    access:\n" },
		{ "    access:\n", "" },
		{ "    access:\n", "    access:\n    ops: 7\n" },
		{ "    access:\n", "    access:\n  - name: \"x\"\n" },
		{ "      - id: ", "      -  id: " },
		{ "      - id: ", "    - id: " },
		{ "      - id: ", "      - " },
		{ "        directory: \"/a/b\"\n", "" },
		{ "directory: \"/a/b\"", "directory: /a/b" },
		{ "directory: \"/a/b\"", "directory: \"/a\\\"b\"" },
		{ "directory: \"/a/b\"", "directory: \"/a%2fb%2\"" },
		{ "directory: \"/a/b\"", "directory: \"/a%2fb%2e\"" },
		{ "directory: \"/a/b\"", "directory: \"/a\"\n        directory: \"/b\"" },
		{ "        uid: 7", "        uid: 10" },
		{ "        uid: 7", "        uid: 7\n        uid: 7" },
		{ "        uid: 7", "        uid: 4294967295" },
		{ "        gid: 0\n", "" },
		{ "        gid: 0", "      gid: 0" },
		{ "read-only: true", "read-only: false" },
		{ "read-only: true", "read-only: true\n        read-only: true" },
		{ "read-only: true", "read-only: true\n    state: active" },
		{ "read-only: true", "read-only: true\n    weight: 3" },
		{ "expires: 1999999999", "expires: 0" },
		{ "expires: 1999999999", "expires: x" },
		{ "host: \"h\"", "host: \"h\ntenants:\n  - name: \"" },
		{ "host: \"h\"", "host: [\ntenants:\n  - name: \"x\"\n]" },
		{ "host: \"h\"", "listen: |\ntenants:\n  - name: \"x\"\n" },
	};
	char *text = printed(HEAD SERVER BRICK BY_TLS "tenants:\n" MANY_TENANTS);

	(void)state;
	reads_the_same(text);
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		char *changed = replaced(text, changes[i][0], changes[i][1]);

		reads_the_same(changed);
		free(changed);
	}
	for (size_t size = strlen(text); size > strlen(SPEC_HEAD); size--) { /* cut off anywhere */
		text[size - 1] = '\0';
		reads_the_same(text);
	}
	free(text);
}

static void written_tenants_are_taken_line_by_line(void **state)
{
	char *text = printed(HEAD SERVER BRICK BY_TLS "tenants:\n" MANY_TENANTS), *rest;
	struct spec s = { 0 };
	size_t size;

	(void)state;
	rest = spec_take_written(text, strlen(text), &s, &size);
	assert_non_null(rest);
	assert_int_equal(s.tenants, 4);
	assert_string_equal(s.tenant[3].name, "rests");
	assert_null(memmem(rest, size, "acme", 4));
	spec_free_tenants(&s);
	free(rest);
	free(text);
}

static void limits_of_tenants_are_told_to_the_brick(void **state)
{
	struct volgen_files files;
	struct volfile v;

	(void)state;
	comes_back(HEAD SERVER BRICK BY_TLS "tenants:\n" RULED "tenant-base: 200000\n");
	make(HEAD SERVER BRICK BY_TLS "tenants:\n" RULED, &files);
	parse(&files, "server-a.vol", &v);
	assert_string_equal(value(&v, "brick0-throttle", "tenants"), "acme 65536 500 0 7, globex 131072 0 65536 1");
	volfile_free(&v);
	volgen_free(&files);
}

static void read_spec(const char *text, struct spec *s)
{
	struct problem p = { "" };

	if (spec_parse(text, strlen(text), "x", s, &p))
		fail_msg("%s", p.text);
}

static void ids_and_names_of_tenants_are_never_used_again(void **state)
{
	struct problem p = { "" };
	struct spec s, before;

	(void)state;
	read_spec(HEAD SERVER BRICK "tenants: []\n", &s);
	assert_int_equal(s.tenant_base, SPEC_TENANT_BASE);
	assert_int_equal(spec_create_tenant(&s, "acme", 0, &p), 0);
	assert_int_equal(spec_create_tenant(&s, "acme", 0, &p), 0);
	assert_int_equal(spec_create_tenant(&s, "acme", 7, &p), -EEXIST);
	assert_int_equal(spec_create_tenant(&s, "globex", 100, &p), 0);
	assert_int_equal(s.tenants, 2);
	assert_int_equal(s.tenant[1].base, 2 * 65536);
	assert_int_equal(s.tenant_base, 2 * 65536 + 100);
	assert_int_equal(spec_set_tenant(&s, "globex", SPEC_TENANT_DELETED, &p), 0);
	assert_int_equal(spec_create_tenant(&s, "globex", 0, &p), -EEXIST);
	assert_int_equal(spec_set_tenant(&s, "globex", SPEC_TENANT_ACTIVE, &p), -ENOENT);
	assert_int_equal(spec_create_tenant(&s, "third", UINT32_MAX - 100000, &p), -ENOSPC);
	assert_int_equal(spec_create_tenant(&s, "third", 0, &p), 0);
	assert_int_equal(s.tenant[2].base, 2 * 65536 + 100);
	spec_free(&s);
	read_spec(HEAD SERVER BRICK "tenants:\n" TENANTS "tenant-base: 200000\n", &before);
	read_spec(HEAD SERVER BRICK "tenants:\n" TENANTS TENANT("new", 7, "base: 200000, count: 1"), &s);
	assert_int_equal(spec_check_tenants_change(&s, &before, &p), 0);
	spec_free(&s);
	spec_free(&before);
}

static const char *const forbidden[] = {
	"",
	"tenants:\n" TENANTS, /* tenant-base falls */
	"tenants:\n" TENANTS TENANT("new", 7, "base: 150000, count: 1") "tenant-base: 200000\n",
	"tenants:\n" TENANT("globex", 6, "base: 131072, count: 10") "tenant-base: 200000\n",
	"tenants:\n" TENANT("acme", 5, "base: 65536, count: 65536")
		TENANT("globex", 7, "base: 131072, count: 10") "tenant-base: 200000\n",
	"tenants:\n" TENANT("acme", 5, "base: 65537, count: 65535")
		TENANT("globex", 6, "base: 131072, count: 10") "tenant-base: 200000\n",
	"tenants:\n" TENANT("acme", 5, "base: 65536, count: 65536")
		TENANT("globex", 6, "base: 131072, count: 11") "tenant-base: 200000\n",
};

static void what_a_tenant_has_never_changes(void **state)
{
	struct spec s, before;
	char text[2048];

	(void)state;
	read_spec(HEAD SERVER BRICK "tenants:\n" TENANTS "tenant-base: 200000\n", &before);
	for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++) {
		struct problem p = { "" };

		snprintf(text, sizeof text, "%s%s", HEAD SERVER BRICK, forbidden[i]);
		read_spec(text, &s);
		if (!spec_check_tenants_change(&s, &before, &p) || !p.text[0])
			fail_msg("allowed: %s", forbidden[i]);
		spec_free(&s);
	}
	spec_free(&before);
}

static const char a_server[] = "volume posix\n type storage/posix\n option directory \"/a b\"\nend-volume\n"
			       "volume access\n type features/access\n subvolumes posix\nend-volume\n"
			       "volume server\n type protocol/server\n subvolumes access\nend-volume\n";

static int filter(const char *text, struct volfile *made, struct problem *p)
{
	struct volfile v;
	char *out = NULL;
	size_t size;
	FILE *to = open_memstream(&out, &size);
	int err;

	assert_int_equal(volfile_parse(text, strlen(text), "in", &v, p), 0);
	err = volgen_filter_cloud(&v, "acme " IDS(5) " 65536 1 active", to, p);
	fclose(to);
	if (!err)
		assert_int_equal(volfile_parse(out, size, "out", made, p), 0);
	volfile_free(&v);
	free(out);
	return err;
}

static void the_filter_puts_cloud_above_each_brick(void **state)
{
	struct problem p = { "" };
	struct volfile v;

	(void)state;
	assert_int_equal(filter(a_server, &v, &p), 0);
	assert_int_equal(v.volumes, 4);
	assert_string_equal(value(&v, "posix", "directory"), "/a b");
	assert_string_equal(v.volume[1].name, "access-shared");
	assert_string_equal(v.volume[2].name, "access");
	assert_string_equal(v.volume[2].type, "features/cloud");
	assert_string_equal(v.volume[2].subvolume[0], "access-shared");
	assert_string_equal(value(&v, "access", "tenants"), "acme " IDS(5) " 65536 1 active");
	assert_string_equal(v.volume[3].subvolume[0], "access");
	volfile_free(&v);
	assert_int_equal(filter("volume m\n type debug/memory\nend-volume\n", &v, &p), -EINVAL);
	assert_int_equal(filter("volume m\n type features/cloud\nend-volume\n", &v, &p), -EEXIST);
	assert_int_equal(filter("volume m\n type features/replica\nend-volume\n", &v, &p), -ENOTSUP);
}

int tenants_of_specifications(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(tenants_are_told_to_the_brick),
		cmocka_unit_test(tenants_of_several_bricks_spread_names),
		cmocka_unit_test(limits_of_tenants_hold_over_several_servers),
		cmocka_unit_test(tenants_of_a_replica_set_have_cloud_above_it),
		cmocka_unit_test(tenants_of_several_sets_have_all_of_both),
		cmocka_unit_test(bricks_of_tenants_come_and_go),
		cmocka_unit_test(soft_limits_of_tenants_are_told_to_the_brick),
		cmocka_unit_test(tenants_that_were_written_read_as_YAML_says),
		cmocka_unit_test(written_tenants_are_taken_line_by_line),
		cmocka_unit_test(limits_of_tenants_are_told_to_the_brick),
		cmocka_unit_test(ids_and_names_of_tenants_are_never_used_again),
		cmocka_unit_test(what_a_tenant_has_never_changes),
		cmocka_unit_test(the_filter_puts_cloud_above_each_brick),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
