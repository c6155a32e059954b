/* SPDX-License-Identifier: Apache-2.0 */
/* Access points (doc/tenants.md, A1 to A5): their clients see a directory and nothing else, act as who they are told, and change nothing where they may only
 * read. */
#include "cloud-access-test.h"

#include "replica.h"

#define WEB	"cccccccc-0000-4000-8000-000000000001"
#define DOCS	"cccccccc-0000-4000-8000-000000000002"
#define NESTED	"cccccccc-0000-4000-8000-000000000003"
#define ALL	"cccccccc-0000-4000-8000-000000000004"
#define OPEN	"cccccccc-0000-4000-8000-000000000005"
#define URI(id) "stratus:tenant/acme/access/" id
#define POINTS                                                                                                                 \
	"acme " WEB " 1000 1001 rw 0 /web, acme " DOCS " 1000 1001 ro 0 /docs, acme " NESTED " 5 5 rw 0 /web/below, acme " ALL \
	" 0 0 ro 0 /, acme " OPEN " - - rw 0 /od%20d%2c"

static struct client web = { .identity = URI(WEB), .name = "web", .id = { 10 } },
		     docs = { .identity = URI(DOCS), .name = "docs", .id = { 11 } },
		     nested = { .identity = URI(NESTED), .name = "nested", .id = { 12 } },
		     all = { .identity = URI(ALL), .name = "all", .id = { 13 } },
		     unforced = { .identity = URI(OPEN), .name = "unforced", .id = { 14 } };

/* As the tenant: directories and files. Theirs of 1000 are the access points' own. */
static void furnish(struct tree *t)
{
	static const struct setattr own = { .valid = SET_UID | SET_GID, .uid = 1000, .gid = 1001 };

	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_mkdir(t, "web", 0755), 0);
	CHECK_INT(tree_mkdir(t, "docs", 0755), 0);
	CHECK_INT(tree_mkdir(t, "web/below", 0777), 0);
	CHECK_INT(tree_mkdir(t, "private", 0777), 0);
	CHECK_INT(tree_mkdir(t, "od d,", 0755), 0);
	CHECK_INT(tree_put(t, "private/secret", "s"), 0);
	CHECK_INT(tree_put(t, "web/page", "page"), 0);
	CHECK_INT(tree_put(t, "web/roots", "r"), 0);
	CHECK_INT(tree_put(t, "docs/text", "text"), 0);
	CHECK_INT(tree_setattr(t, "web", &own), 0);
	CHECK_INT(tree_setattr(t, "docs", &own), 0);
	CHECK_INT(tree_setattr(t, "docs/text", &own), 0);
	CHECK_INT(tree_setattr(t, "web/page", &own), 0);
}

/* ---- A1, A2: nothing else ---- */

static int handle_of(struct tree *t, const char *path, uint8_t *bytes, size_t *size)
{
	cleanup_inode struct inode *inode = NULL;
	int err = tree_walk(t, path, &inode);

	*size = HANDLE_SIZE_MAX;
	return err ? err : leaf->type->tenant_handle(leaf, &bearer, inode, bytes, size);
}

static int by_handle(const uint8_t *bytes, size_t size)
{
	struct inode *inode = NULL;
	int err = leaf->type->tenant_from_handle(leaf, &bearer, bytes, size, &inode);

	inode_unref(inode);
	return err;
}

/* The handle that one has of the path is good for him, and for nobody else of them. */
static void is_of_one_only(struct tree *t, struct client *who, const char *path)
{
	static struct client *const each[] = { &acme, &admin, &web, &docs, &nested, &all, &unforced };
	uint8_t bytes[HANDLE_SIZE_MAX];
	size_t size;

	CHECK_INT(become(t, who, 0), 0);
	CHECK_INT(handle_of(t, path, bytes, &size), 0);
	for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
		bool same = each[i] == who || (who == &acme && each[i] == &admin);

		CHECK_INT(become(t, each[i], 0), 0);
		CHECK_INT(by_handle(bytes, size), same ? 0 : -ESTALE);
	}
}

static void confined(void *arg)
{
	struct tree *t = arg;
	struct dirents listed;
	struct file *f;
	struct attr a;

	furnish(t);
	CHECK_INT(become(t, &web, 0), 0);
	CHECK_INT(tree_getattr(t, "page", &a), 0);
	CHECK_INT(tree_getattr(t, "private", &a), -ENOENT);
	CHECK_INT(tree_getattr(t, "..", &a), -EINVAL);
	CHECK_INT(tree_opendir(t, "", &f), 0);
	CHECK_INT(tree_readdir(t, f, &listed), 0);
	CHECK_INT(listed.count, 3);
	fop_out_clear(FOP_readdir, &(struct readdir_out){ listed });
	tree_release(t, f);
	CHECK_INT(become(t, &nested, 0), 0);
	CHECK_INT(tree_put(t, "deep", "d"), 0);
	CHECK_INT(become(t, &web, 0), 0);
	CHECK_INT(tree_getattr(t, "below/deep", &a), 0);
	CHECK_INT(become(t, &unforced, 0), 0);
	CHECK_INT(tree_put(t, "here", "h"), 0);
	is_of_one_only(t, &web, "page");
	is_of_one_only(t, &web, "below/deep");
	is_of_one_only(t, &web, "");
	is_of_one_only(t, &nested, "deep");
	is_of_one_only(t, &nested, "");
	is_of_one_only(t, &all, "web/page");
	is_of_one_only(t, &all, "");
	is_of_one_only(t, &acme, "web/page");
	is_of_one_only(t, &acme, "web");
}

void an_access_point_shows_its_directory_and_nothing_else(void **state)
{
	(void)state;
	with("option access \"" POINTS "\"\n", confined);
}

/* ---- A3: which directory that is ---- */

static void found_by_path(void *arg)
{
	struct tree *t = arg;
	struct attr a;

	CHECK_INT(become(t, &web, 0), -ENOENT);
	furnish(t);
	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_rename(t, "docs", "gone", 0), 0);
	CHECK_INT(tree_symlink(t, "/private", "docs"), 0);
	CHECK_INT(become(t, &docs, 0), -ENOTDIR);
	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_unlink(t, "docs"), 0);
	CHECK_INT(tree_put(t, "docs", "a file"), 0);
	CHECK_INT(become(t, &docs, 0), -ENOTDIR);
	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_rename(t, "web", "moved", 0), 0);
	CHECK_INT(tree_symlink(t, "moved", "web"), 0);
	CHECK_INT(become(t, &nested, 0), -ENOTDIR);
	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_unlink(t, "web"), 0);
	CHECK_INT(tree_mkdir(t, "web", 0777), 0);
	CHECK_INT(become(t, &web, 0), 0);
	CHECK_INT(tree_getattr(t, "page", &a), -ENOENT);
}

void its_directory_is_what_has_the_path_when_a_session_begins(void **state)
{
	(void)state;
	with("option access \"" POINTS "\"\n", found_by_path);
}

/* What was at the path while this member was away may be somebody else's: it answers as the set has it, or not (features/replica, own.c). */
static void asked_of_the_set(void *arg)
{
	struct tree *t = arg;

	furnish(t);
	CHECK_INT(become(t, &nested, 0), 0);
	CHECK_INT(asked->looked, REPLICA_OWN | REPLICA_READ);
}

void its_directory_is_what_the_set_has_at_the_path(void **state)
{
	(void)state;
	with("option replicas on\noption access \"" POINTS "\"\n", asked_of_the_set);
}

/* ---- A4: who they are ---- */

static void forced(void *arg)
{
	static const struct setattr to_root = { .valid = SET_UID, .uid = 0 };
	static const gid_t groups[] = { 0, 7, 4000000000 };
	struct tree *t = arg;
	struct stat st;
	char path[128];
	struct attr a;

	furnish(t);
	for (size_t i = 0; i < 3; i++) { /* root, somebody else, and one who is nobody here */
		CHECK_INT(become(t, &web, (uint32_t[]){ 0, 7, 4000000000 }[i]), 0);
		t->groups = groups;
		t->group_count = i == 1 ? -1 : 3;
		CHECK_INT(tree_getattr(t, "page", &a), 0);
		CHECK_INT(asked->uid, ACME + 1000);
		CHECK_INT(asked->gid, ACME + 1001);
		CHECK_INT(asked->group_count, 0);
		CHECK(asked->tenants && !asked->administers);
		CHECK_INT(a.uid, 1000);
		CHECK_INT(tree_setattr(t, "page", &to_root), -EPERM);
		CHECK_INT(tree_access(t, "roots", 2), -EACCES);
	}
	CHECK_INT(tree_put(t, "made", "m"), 0);
	CHECK_INT(tree_getattr(t, "roots", &a), 0);
	CHECK_INT(a.uid, 0); /* as it is */
	snprintf(path, sizeof(path), "%s/tenants/acme/web/made", dir);
	CHECK_INT(stat(path, &st), 0);
	CHECK_INT(st.st_uid, ACME + 1000);
	CHECK_INT(st.st_gid, ACME + 1001);
	CHECK_INT(become(t, &unforced, 7), 0);
	CHECK_INT(tree_getattr(t, "", &a), 0);
	CHECK_INT(asked->uid, ACME + 7);
	CHECK_INT(become(t, &unforced, 4000000000), 0);
	CHECK_INT(tree_getattr(t, "", &a), -EINVAL);
}

void its_clients_are_who_it_says_whoever_they_say_they_are(void **state)
{
	(void)state;
	with("option access \"" POINTS "\"\n", forced);
}

/* ---- A5: reading ---- */

static int in_compound(struct tree *t, enum fop fop, void *in)
{
	struct getattr_in get = { .inode = ((struct setattr_in *)in)->inode };
	struct step step[2] = { { .fop = FOP_getattr, .in = &get }, { .fop = fop, .in = in } };
	struct compound_in compound = { .steps = { 2, step } };
	struct compound_out out = { 0 };
	int err = tree_call(t, t->at, FOP_compound, &compound, &out);

	fop_out_clear(FOP_compound, &out);
	return err;
}

static int lock(struct tree *t, struct file *f, int type)
{
	struct setlk_in in = { .file = f, .lock = { .kind = LOCK_FLOCK, .type = (uint32_t)type, .end = UINT64_MAX } };
	struct setlk_out out;

	return tree_call(t, t->at, FOP_setlk, &in, &out);
}

static void through_a_file(struct tree *t)
{
	struct fallocate_in room = { .length = 10 };
	struct fallocate_out roomy;
	struct fsync_in sync = { 0 };
	struct fsync_out synced;
	struct buffer *data = NULL;
	struct file *f = NULL;

	CHECK_INT(tree_open_file(t, "text", O_WRONLY, &f), -EROFS);
	CHECK_INT(tree_open_file(t, "text", O_RDWR, &f), -EROFS);
	CHECK_INT(tree_open_file(t, "text", O_RDONLY | O_TRUNC, &f), -EROFS);
	CHECK_INT(tree_open_file(t, "text", O_RDONLY, &f), 0);
	CHECK_INT(tree_read(t, f, 0, 10, &data), 0);
	CHECK_INT(data ? (long long)data->size : -1, 4);
	buffer_unref(data);
	CHECK_INT(tree_write(t, f, 0, "x", 1), -EROFS);
	room.file = sync.file = f;
	CHECK_INT(tree_call(t, t->at, FOP_fallocate, &room, &roomy), -EROFS);
	CHECK_INT(tree_call(t, t->at, FOP_fsync, &sync, &synced), 0);
	CHECK_INT(lock(t, f, F_WRLCK), -EROFS);
	CHECK_INT(lock(t, f, F_RDLCK), 0);
	CHECK_INT(lock(t, f, F_UNLCK), 0);
	tree_release(t, f);
}

static void reading(void *arg)
{
	static const struct setattr mode = { .valid = SET_MODE, .mode = 0777 };
	struct tree *t = arg;
	cleanup_inode struct inode *inode = NULL;
	struct setattr_in set = { .set = mode };
	struct attr a;

	furnish(t);
	CHECK_INT(become(t, &docs, 0), 0);
	CHECK_INT(tree_getattr(t, "text", &a), 0);
	CHECK_INT(tree_create(t, "new", O_RDWR | O_CREAT, 0644, NULL), -EROFS);
	CHECK_INT(tree_mkdir(t, "new", 0755), -EROFS);
	CHECK_INT(tree_mknod(t, "new", S_IFIFO | 0644, 0), -EROFS);
	CHECK_INT(tree_symlink(t, "x", "new"), -EROFS);
	CHECK_INT(tree_link(t, "text", "new"), -EROFS);
	CHECK_INT(tree_unlink(t, "text"), -EROFS);
	CHECK_INT(tree_rmdir(t, "text"), -EROFS);
	CHECK_INT(tree_rename(t, "text", "new", 0), -EROFS);
	CHECK_INT(tree_setattr(t, "text", &mode), -EROFS);
	CHECK_INT(tree_setxattr(t, "text", "user.a", "b", 1, 0), -EROFS);
	CHECK_INT(tree_removexattr(t, "text", "user.a"), -EROFS);
	CHECK_INT(tree_access(t, "text", 2), -EROFS);
	CHECK_INT(tree_access(t, "text", 4), 0);
	CHECK_INT(tree_walk(t, "text", &inode), 0);
	set.inode = inode;
	CHECK_INT(in_compound(t, FOP_setattr, &set), -EROFS);
	through_a_file(t);
	CHECK_INT(become(t, &all, 0), 0); /* as the tenant's root */
	CHECK_INT(tree_setattr(t, "docs/text", &mode), -EROFS);
}

void by_one_that_reads_nothing_is_changed(void **state)
{
	(void)state;
	with("option access \"" POINTS "\"\n", reading);
}

/* ---- the end of it ---- */

static void ends(void *arg)
{
	struct client other = { .identity = "stratus:tenant/globex/access/" WEB, .name = "other", .id = { 20 } };
	struct tree *t = arg;
	char text[256];
	struct attr a;

	furnish(t);
	CHECK_INT(become(t, &other, 0), -EACCES);
	CHECK_INT(become(t, &web, 0), 0);
	snprintf(text, sizeof text, "acme " WEB " 1000 1001 rw %llu /web",
		 (unsigned long long)clock_wall_ns() / 1000000000 + 3600);
	CHECK_INT(change("access", text), 0);
	CHECK_INT(tree_getattr(t, "page", &a), 0);
	CHECK_INT(cloud->type->admit(cloud, &docs, NULL, NULL), -EACCES);
	CHECK_INT(change("access", "acme nonsense"), 0);
	CHECK_INT(tree_getattr(t, "page", &a), 0); /* a table that makes no sense changes nothing */
	CHECK_INT(change("access", "acme " WEB " 1000 1001 rw 1000000000 /web"), 0);
	CHECK_INT(tree_getattr(t, "page", &a), -EACCES); /* expired */
	CHECK_INT(cloud->type->admit(cloud, &web, NULL, NULL), -EACCES);
	CHECK_INT(change("access", POINTS), 0);
	CHECK_INT(tree_getattr(t, "page", &a), 0);
	CHECK_INT(change("tenants", TENANTS("suspended")), 0);
	CHECK_INT(tree_getattr(t, "page", &a), -EACCES);
	CHECK_INT(change("tenants", TENANTS("active")), 0);
	CHECK_INT(change("access", ""), 0);
	CHECK_INT(tree_getattr(t, "page", &a), -EACCES);
	CHECK_INT(cloud->type->admit(cloud, &acme, NULL, NULL), 0);
}

void an_access_point_ends_when_it_is_revoked_or_expires_or_its_tenant_is_suspended(void **state)
{
	(void)state;
	with("option access \"" POINTS "\"\n", ends);
}

static void over_several_bricks(void *arg)
{
	struct tree *t = arg;

	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_mkdir(t, "web", 0755), 0);
	CHECK_INT(become(t, &web, 0), -EACCES);
}

void by_its_path_none_is_found_on_several_bricks(void **state)
{
	(void)state;
	with("option spread on\noption access \"" POINTS "\"\n", over_several_bricks);
}

void tables_of_access_points_that_make_no_sense_are_refused(void **state)
{
	static const char *const bad[] = {
		"acme",
		"acme " WEB " 1 1 rw 0",
		"acme " WEB " 1 1 rw 0 /a b",
		"acme " WEB " 1 1 rw 0 @",
		"acme " WEB " 1 1 rw 0 @0",
		"acme " WEB " 1 1 rw 0 @0.",
		"acme " WEB " 1 1 rw 0 @.0123456789abcdef",
		"acme " WEB " 1 1 rw 0 @0.0123456789abcde",
		"acme " WEB " 1 1 rw 0 @0.0123456789abcdef0",
		"acme " WEB " 1 1 rw 0 @0.0123456789abcdeF",
		"acme " WEB " 1 1 rw 0 @0.0000000000000000",
		"acme " WEB " 1 1 rw 0 @-1.0123456789abcdef",
		"acme " WEB " 1 1 rw 0 @123456.0123456789abcdef",
		"acme " WEB " 1 1 rw 0 a",
		"acme " WEB " 1 1 rw 0 //a",
		"acme " WEB " 1 1 rw 0 /a/",
		"acme " WEB " 1 1 rw 0 /a/../b",
		"acme " WEB " 1 1 rw 0 /%2e%2e",
		"acme " WEB " 1 1 rw 0 /.",
		"acme " WEB " 1 1 rw 0 /a%2",
		"acme " WEB " 1 1 rw 0 /a%00",
		"acme " WEB " 1 1 rw 0 /a%2",
		"acme " WEB " 1 - rw 0 /a",
		"acme " WEB " - 1 rw 0 /a",
		"acme " WEB " -1 1 rw 0 /a",
		"acme " WEB " 1 4294967295 rw 0 /a",
		"acme " WEB " 1 1 wr 0 /a",
		"acme " WEB " 1 1 rw never /a",
		"acme " WEB " 1 1 rw 99999999999999999999 /a",
		"acme 00000000-0000-0000-0000-000000000000 1 1 rw 0 /a",
		"acme x 1 1 rw 0 /a",
		"../acme " WEB " 1 1 rw 0 /a",
		"acme " WEB " 1 1 rw 0 /a, acme " WEB " 1 1 rw 0 /b",
	};
	struct problem p;
	struct tree t;
	char text[1024];

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		snprintf(text, sizeof text,
			 "volume m\ntype debug/memory\nend-volume\nvolume c\ntype features/cloud\noption access \"%s\"\n"
			 "subvolumes m\nend-volume\n",
			 bad[i]);
		p.text[0] = 0;
		if (!tree_open(&t, text, &p))
			fail_msg("taken: %s", bad[i]);
		assert_non_null(strstr(p.text, "option access:"));
	}
}
