/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of directories below features/cloud: a tenant's administrator sets them in his own tree, as root, and nobody else; who may is told of his own only. Needs root. */
#include "test.h"
#include "test-tasks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "born.h"
#include "quota.h"
#include "tree.h"

#define GRAPH                                                                                                                        \
	"volume posix\n type storage/posix\n option directory %s/brick\n option volume-id 11111111-2222-3333-4444-555555555555\n"    \
	" option brick-id 11111111-2222-3333-4444-666666666666\nend-volume\n"                                                        \
	"volume usage\n type features/usage\n option ledger %s/ledger\n option accounts \"acme 65536 65536, globex 131072 65536\"\n" \
	"%s subvolumes posix\nend-volume\n"                                                                                          \
	"volume access\n type features/access\n subvolumes usage\nend-volume\n"                                                      \
	"volume cloud\n type features/cloud\n option tenants \"acme aaaaaaaa-0000-4000-8000-000000000001 65536 65536 active, "       \
	"globex aaaaaaaa-0000-4000-8000-000000000002 131072 65536 active\"\n subvolumes access\nend-volume\n"

static char base[512];
static struct tree tree;
static atomic_int failures;
static struct client acme = { .identity = "stratus:tenant/acme", .name = "acme", .id = { 1 } },
		     keeper = { .identity = "stratus:tenant/acme/admin", .name = "keeper", .id = { 2 } },
		     globex = { .identity = "stratus:tenant/globex/admin", .name = "globex", .id = { 3 } },
		     server = { .identity = "stratus:server", .name = "server", .id = { 4 } };

static void become(struct client *who, uint32_t id)
{
	struct bearer bearer;

	CHECK_INT(tree_become(&tree, tree_find(&tree, "cloud"), who, id, &bearer), 0);
}

static void with(const char *options, void (*fn)(void *))
{
	struct problem p = { "" };
	char text[4096], brick[600];

	if (geteuid())
		skip();
	failures = 0;
	assert_non_null(getcwd(base, sizeof(base) - 48));
	strcat(base, "/dirquota-tenant-test-XXXXXX");
	assert_non_null(mkdtemp(base));
	snprintf(brick, sizeof(brick), "%s/brick", base);
	assert_int_equal(mkdir(brick, 0755), 0);
	snprintf(text, sizeof(text), GRAPH, base, base, options);
	if (tree_open(&tree, text, &p))
		fail_msg("%s", p.text);
	task_call(fn, NULL);
	tree_close(&tree);
	test_remove(base);
	assert_int_equal(failures, 0);
}

static int set_quota(const char *path)
{
	return tree_setxattr(&tree, path, QUOTA_XATTR, "100000 10", 9, 0);
}

/* Whether the line is in what is told; -errno: nothing is. */
static int tells(const char *path, const char *name, const char *line)
{
	struct blob value = { 0 };
	int err = tree_getxattr(&tree, path, name, &value);
	char *text = err ? NULL : strndup(value.bytes, value.size);
	int is = err ? err : strstr(text, line) != NULL;

	free(text);
	free(value.bytes);
	return is;
}

static void set_by_some(void *arg)
{
	(void)arg;
	become(&acme, 0);
	CHECK_INT(tree_mkdir(&tree, "/q", 0777), 0);
	CHECK_INT(set_quota("/q"), -EPERM);
	CHECK_INT(tree_removexattr(&tree, "/q", QUOTA_XATTR), -EPERM);
	CHECK_INT(tells("/q", QUOTA_XATTR ".0", ""), -EPERM);
	become(&keeper, 1000);
	CHECK_INT(set_quota("/q"), -EPERM);
	CHECK_INT(tells("/q", QUOTA_XATTR ".0", ""), -EPERM);
	become(&keeper, 0);
	CHECK_INT(set_quota("/"), -EINVAL);
	CHECK_INT(set_quota("/q"), 0);
	CHECK_INT(tells("/", QUOTA_XATTR ".0", "\npath /q\n"), 1);
	CHECK_INT(tells("/", QUOTA_XATTR ".1", ""), -ENODATA);
	CHECK_INT(tells("/", QUOTA_XATTR ".x", ""), -EOPNOTSUPP);
	become(&globex, 0);
	CHECK_INT(tree_mkdir(&tree, "/g", 0777), 0);
	CHECK_INT(set_quota("/g"), 0);
	CHECK_INT(tells("/", QUOTA_XATTR ".0", "\npath /g\n"), 1);
	CHECK_INT(tells("/", QUOTA_XATTR ".0", "number 1\n"), 1);
	become(&acme, 0);
	CHECK_INT(tells("/q", QUOTA_XATTR, "bytes-limit 100000\n"), 1);
	CHECK_INT(tells("/q", QUOTA_XATTR, "\npath /q\n"), 1);
	CHECK_INT(tree_mkdir(&tree, "/q/s", 0755), 0);
	CHECK_INT(tells("/q/s", QUOTA_XATTR, "\ninodes 2\n"), 1);
	CHECK_INT(tells("/q/s", "trusted.usage.quota", ""), -ENODATA);
	CHECK_INT(tree_setxattr(&tree, "/q/s", "trusted.usage.quota", "12345678", 8, 0), -EPERM);
	become(&server, 0);
	CHECK_INT(tells("/tenants/acme/q", QUOTA_XATTR, "\npath /tenants/acme/q\n"), 1);
	CHECK_INT(tree_setxattr(&tree, "/tenants/acme/q", QUOTA_XATTR, "0 0", 3, 0), 0);
	CHECK_INT(tree_removexattr(&tree, "/tenants/globex/g", QUOTA_XATTR), 0);
	become(&acme, 0);
	CHECK_INT(tree_rmdir(&tree, "/q/s"), 0);
	CHECK_INT(tree_rmdir(&tree, "/q"), 0);
	become(&keeper, 0);
	CHECK_INT(tells("/", QUOTA_XATTR ".0", ""), -ENODATA);
}

static void limits_are_set_by_the_administrator_alone(void **s)
{
	(void)s;
	with("", set_by_some);
}

static void set_on_set(void *arg)
{
	(void)arg;
	become(&keeper, 0);
	CHECK_INT(tree_mkdir(&tree, "/q", 0777), 0);
	CHECK_INT(set_quota("/q"), -EPERM);
	CHECK_INT(tree_setxattr(&tree, "/q", QUOTA_XATTR, "100000 0 0123456789abcdef", 25, 0), -EPERM);
}

static void a_member_sets_none_by_itself(void **s)
{
	(void)s;
	with(" option pool 11111111-2222-3333-4444-555555555555\n option set 11111111-2222-3333-4444-777777777777\n",
	     set_on_set);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_are_set_by_the_administrator_alone),
		cmocka_unit_test(a_member_sets_none_by_itself),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
