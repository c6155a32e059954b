/* SPDX-License-Identifier: Apache-2.0 */
/* Random operations of two tenants on one brick, which is looked at afterwards: whose ids are there, and whose at the mount? */
#include "cloud-test.h"

enum { NAMES = 40, OPERATIONS = 3000 };

static const char *any_path(void)
{
	static char path[4][32];
	static unsigned turn;
	unsigned n = next_random() % NAMES;
	char *p = path[turn++ % 4];

	snprintf(p, 32, n % 5 ? "d%u/n%u" : "d%u", n / 5, n);
	return p;
}

/* The range's ends more often, and some that are none of his. */
static uint32_t any_id(void)
{
	static const uint32_t ends[] = { 0, 1, RANGE - 2, RANGE - 1, RANGE, ACME, GLOBEX, 0xffffffff };
	unsigned n = next_random();

	return n % 4 ? n % RANGE : ends[next_random() % 8];
}

static void do_something(struct tree *t)
{
	struct setattr s = { .valid = 1 + next_random() % 7, .mode = next_random() & 07777, .uid = any_id(), .gid = any_id() };
	struct blob acl = acl_of(any_id(), any_id());
	const char *path = any_path();
	struct file *f = NULL;

	switch (next_random() % 9) {
	case 0:
		tree_mkdir(t, path, next_random() & 01777);
		break;
	case 1:
		tree_create(t, path, O_RDWR | O_CREAT, next_random() & 07777, &f);
		break;
	case 2:
		tree_symlink(t, "target", path);
		break;
	case 3:
		tree_mknod(t, path, S_IFIFO | (next_random() & 0777), 0);
		break;
	case 4:
		tree_setattr(t, path, &s);
		break;
	case 5:
		tree_setxattr(t, path, "system.posix_acl_access", acl.bytes, acl.size, 0);
		break;
	case 6:
		tree_setxattr(t, path, "system.posix_acl_default", acl.bytes, acl.size, 0);
		break;
	case 7:
		tree_rename(t, path, any_path(), 0);
		break;
	case 8:
		next_random() % 4 ? tree_link(t, any_path(), path) : tree_unlink(t, path);
		break;
	}
	if (f)
		tree_release(t, f);
}

static uint32_t lowest, beyond; /* what is allowed where a walk is just now */
static unsigned walked, acl_ids;

static bool inside(uint32_t id)
{
	return id >= lowest && id < beyond;
}

static void check_acl(const void *value, ssize_t size)
{
	const struct posix_acl_xattr_entry *e = (const void *)((const char *)value + 4);

	for (ssize_t i = 0; i < (size - 4) / 8; i++)
		if (e[i].e_tag == ACL_USER || e[i].e_tag == ACL_GROUP) {
			acl_ids++;
			failures += !inside(e[i].e_id);
		}
}

static int check_on_disk(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	static const char *const names[] = { "system.posix_acl_access", "system.posix_acl_default" };
	char value[1024];

	(void)type, (void)ftw;
	walked++;
	if (!inside(st->st_uid) || !inside(st->st_gid)) {
		fprintf(stderr, "%s is of %u:%u\n", path, st->st_uid, st->st_gid);
		failures++;
	}
	for (int i = 0; i < 2; i++)
		check_acl(value, lgetxattr(path, names[i], value, sizeof(value)));
	return 0;
}

static void check_brick(const char *tenant, uint32_t base)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/tenants/%s", dir, tenant);
	lowest = base;
	beyond = base + RANGE;
	nftw(path, check_on_disk, 16, FTW_PHYS);
}

static void check_bricks(void)
{
	check_brick("acme", ACME);
	check_brick("globex", GLOBEX);
}

static void check_mounted(struct tree *t, const char *path)
{
	struct blob value = { 0 };
	struct attr a;

	if (tree_getattr(t, path, &a))
		return;
	failures += !inside(a.uid) || !inside(a.gid);
	if (!tree_getxattr(t, path, "system.posix_acl_access", &value))
		check_acl(value.bytes, value.size);
	free(value.bytes);
}

static void check_at_the_mount(struct tree *t)
{
	char path[32];

	lowest = 0;
	beyond = RANGE;
	for (unsigned n = 0; n < NAMES; n++) {
		snprintf(path, sizeof(path), n % 5 ? "d%u/n%u" : "d%u", n / 5, n);
		check_mounted(t, path);
	}
}

static void round_trip(struct tree *t)
{
	for (int i = 0; i < 50; i++) {
		struct blob acl = acl_of(next_random() % RANGE, next_random() % RANGE), back = { 0 };
		uint8_t was[64];

		memcpy(was, acl.bytes, acl.size);
		CHECK_INT(tree_setxattr(t, "acl", "system.posix_acl_access", acl.bytes, acl.size, 0), 0);
		CHECK(!memcmp(was, acl.bytes, acl.size)); /* what was lent is as it was */
		CHECK_INT(tree_getxattr(t, "acl", "system.posix_acl_access", &back), 0);
		CHECK(back.size == acl.size && !memcmp(back.bytes, was, back.size));
		free(back.bytes);
	}
}

static void random_operations(void *arg)
{
	struct tree *t = arg;
	struct client *who[] = { &acme, &globex };

	for (int i = 0; i < OPERATIONS; i++) {
		CHECK_INT(become(t, who[next_random() % 2], next_random() % 3 ? 0 : any_id()), 0);
		do_something(t);
	}
	check_bricks();
	for (int i = 0; i < 2; i++) {
		CHECK_INT(become(t, who[i], 0), 0);
		check_at_the_mount(t);
		CHECK_INT(tree_put(t, "acl", "x"), 0);
		round_trip(t);
	}
	check_bricks(); /* with two ids in the ACL of each at least, whatever the random operations have left */
	CHECK(walked > 4 && acl_ids >= 4);
}

void no_id_is_outside_the_range_on_the_brick_or_at_the_mount(void **state)
{
	(void)state;
	printf("TEST_SEED=%u\n", seed);
	with("", TENANTS("active", "active"), random_operations);
}
