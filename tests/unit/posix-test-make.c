/* SPDX-License-Identifier: Apache-2.0 */
/* storage/posix: making objects: nothing is seen half made, and owners, modes and ACLs are the kernel's. */
#include "posix-test.h"

#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/xattr.h>

static atomic_bool watching;

/* Whatever can be seen in the directory has an identity. */
static void *watch_directory(void *arg)
{
	atomic_int *bare = arg;
	struct disk_identity d;

	while (watching) {
		DIR *dir = opendir(test_brick_path("d"));
		struct dirent *e;

		while (dir && (e = readdir(dir))) {
			char path[600];

			snprintf(path, sizeof path, "%s/%s", test_brick_path("d"), e->d_name);
			if (e->d_name[0] != '.' && !disk_read(path, &d))
				(*bare)++;
		}
		if (dir)
			closedir(dir);
	}
	return NULL;
}

static void make_many_(void *arg)
{
	cleanup_inode struct inode *d = NULL;
	char name[32];
	REQUEST(q, 1000);

	(void)arg;
	CHECK_INT(ask_find(root, "d", &d, NULL), 0);
	for (int i = 0; i < 250; i++) {
		snprintf(name, sizeof name, "f%d", i);
		CHECK_INT(ask_make_file_as(&q.r, d, name, 0644, NULL, NULL), 0);
		snprintf(name, sizeof name, "d%d", i);
		CHECK_INT(ask_make_directory(d, name, 0755, NULL), 0);
		snprintf(name, sizeof name, "l%d", i);
		struct symlink_in in = { { .parent = d, .name = name }, fresh_gfid(), "nowhere" };
		struct symlink_out out = { 0 };

		CHECK_INT(symlink_on(&q.r, brick, &in, &out), 0);
		fop_out_clear(FOP_symlink, &out);
		snprintf(name, sizeof name, "p%d", i);
		struct mknod_in min = { .loc = { .parent = d, .name = name }, .gfid = fresh_gfid(), .mode = S_IFIFO | 0600 };
		struct mknod_out mout = { 0 };

		CHECK_INT(mknod_on(&q.r, brick, &min, &mout), 0);
		CHECK_INT(mout.attr.uid, 1000);
		fop_out_clear(FOP_mknod, &mout);
	}
}

/* As watch_directory, for what is born with a pointer. */
static void *watch_born(void *arg)
{
	atomic_int *bare = arg;
	char value[8];

	while (watching) {
		DIR *dir = opendir(test_brick_path("d"));
		struct dirent *e;

		while (dir && (e = readdir(dir))) {
			char path[600];

			snprintf(path, sizeof path, "%s/%s", test_brick_path("d"), e->d_name);
			if (e->d_name[0] != '.' && lgetxattr(path, "trusted.dht.pointer", value, sizeof value) != 2)
				(*bare)++;
		}
		if (dir)
			closedir(dir);
	}
	return NULL;
}

static const struct born_xattr born_two[] = { { "trusted.dht.pointer", "\0p", 2 }, { "trusted.dht.empty", NULL, 0 } };

/* Each of the four kinds; the name says which. */
static int make_kind(struct request *rq, struct inode *d, const char *name)
{
	struct loc loc = { .parent = d, .name = name };
	union {
		struct create_out create;
		struct mkdir_out mkdir;
		struct mknod_out mknod;
		struct symlink_out symlink;
	} out = { 0 };
	enum fop fop = name[0] == 'f' ? FOP_create : name[0] == 'd' ? FOP_mkdir : name[0] == 'p' ? FOP_mknod : FOP_symlink;
	int err;

	if (fop == FOP_create)
		err = create_on(rq, brick, &(struct create_in){ loc, fresh_gfid(), O_RDWR | O_EXCL, 0644, 0 }, &out.create);
	else if (fop == FOP_mkdir)
		err = mkdir_on(rq, brick, &(struct mkdir_in){ loc, fresh_gfid(), 0755, 0 }, &out.mkdir);
	else if (fop == FOP_mknod)
		err = mknod_on(rq, brick, &(struct mknod_in){ loc, fresh_gfid(), S_IFIFO | 0600, 0, 0 }, &out.mknod);
	else
		err = symlink_on(rq, brick, &(struct symlink_in){ loc, fresh_gfid(), "nowhere" }, &out.symlink);
	if (!err)
		fop_out_clear((int)fop, &out);
	return err;
}

static void make_born_(void *arg)
{
	cleanup_inode struct inode *d = NULL;
	char name[32], path[600], value[8];
	REQUEST(q, 1000);

	(void)arg;
	CHECK_INT(born_attach(&q.r, born_two, 2), 0);
	CHECK_INT(ask_find(root, "d", &d, NULL), 0);
	for (int i = 0; i < 250; i++)
		for (const char *kind = "fdlp"; *kind; kind++) {
			snprintf(name, sizeof name, "%c%d", *kind, i);
			CHECK_INT(make_kind(&q.r, d, name), 0);
			snprintf(path, sizeof path, "%s/%s", test_brick_path("d"), name);
			CHECK_INT(lgetxattr(path, "trusted.dht.pointer", value, sizeof value), 2);
			CHECK(!memcmp(value, "\0p", 2));
			CHECK_INT(lgetxattr(path, "trusted.dht.empty", value, sizeof value), 0);
		}
}

static void make_parent_(void *arg)
{
	(void)arg;
	CHECK_INT(ask_make_directory(root, "d", 0777, NULL), 0);
}

/* What `watch` sees of the directory while `make` runs lacks nothing. */
static void watched(void *(*watch)(void *), task_fn *make)
{
	atomic_int bare = 0;
	pthread_t thread;

	test_run(make_parent_);
	watching = true;
	assert_int_equal(pthread_create(&thread, NULL, watch, &bare), 0);
	test_run(make);
	watching = false;
	pthread_join(thread, NULL);
	assert_int_equal(bare, 0);
}

void nothing_is_visible_without_identity(void **state)
{
	(void)state;
	watched(watch_directory, make_many_);
}

void nothing_is_visible_without_what_it_is_born_with(void **state)
{
	(void)state;
	watched(watch_born, make_born_);
}

static unsigned names_in(const char *path)
{
	DIR *dir = opendir(path);
	unsigned n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n ? n - 2 : UINT32_MAX;
}

PROPERTY(what_cannot_be_born_leaves_nothing)
{
	static const struct {
		struct born_xattr x;
		int err;
	} bad[] = {
		{ { "trusted.sfs", "x", 1 }, -EPERM },			/* the identity */
		{ { "trusted.stratus.x", "x", 1 }, -EPERM },		/* the brick's own */
		{ { "system.posix_acl_access", "x", 1 }, -EOPNOTSUPP }, /* comes from parent and mode */
		{ { "nonsense", "x", 1 }, -EOPNOTSUPP },		/* the kernel refuses it, after the object is made */
	};
	cleanup_inode struct inode *d = NULL;

	CHECK_INT(ask_make_directory(root, "d", 0777, &d), 0);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		for (const char *kind = "fdlp"; *kind; kind++) {
			char name[2] = { *kind, 0 };
			struct born_xattr x[] = { born_two[0], bad[i].x };
			REQUEST(q, 0);

			CHECK_INT(born_attach(&q.r, x, 2), 0);
			CHECK_INT(make_kind(&q.r, d, name), bad[i].err);
			CHECK_INT(names_in(test_brick_path("d")), 0);
			CHECK_INT(names_in(test_brick_path(".stratus/staging")), 0);
		}
	REQUEST(q, 0);
	CHECK_INT(request_extend(&q.r.extensions, BORN_EXTENSION, BORN_EXTENSION_VERSION, true, "\1", 1), 0);
	CHECK_INT(make_kind(&q.r, d, "f"), -EINVAL);
	CHECK_INT(names_in(test_brick_path("d")), 0);
	REQUEST(c, 0);
	CHECK_INT(born_attach(&c.r, born_two, 2), 0);
	struct compound_out out = { 0 };

	CHECK_INT(compound_on(&c.r, brick, &(struct compound_in){ 0 }, &out), -EOPNOTSUPP);
}

/* A file that is there is opened as it is; one that a lost answer had told of is the one that was to be made. */
PROPERTY(what_exists_is_not_born_again)
{
	char value[8];
	struct create_in in = { { .parent = root, .name = "f" }, fresh_gfid(), O_RDWR, 0644, 0 };
	REQUEST(q, 0);

	CHECK_INT(ask_make_file(root, "f", NULL, NULL), 0);
	CHECK_INT(born_attach(&q.r, born_two, 2), 0);
	struct create_out out = { 0 };

	CHECK_INT(create_on(&q.r, brick, &in, &out), 0);
	fop_out_clear(FOP_create, &out);
	CHECK(getxattr(test_brick_path("f"), "trusted.dht.pointer", value, sizeof value) < 0);
	in.loc.name = "g";
	for (int i = 0; i < 2; i++) {
		out = (struct create_out){ 0 };
		q.r.resent = i;
		CHECK_INT(create_on(&q.r, brick, &in, &out), 0);
		fop_out_clear(FOP_create, &out);
		CHECK_INT(getxattr(test_brick_path("g"), "trusted.dht.pointer", value, sizeof value), 2);
	}
}

PROPERTY(creation_sets_owner_mode_and_umask)
{
	cleanup_inode struct inode *inode = NULL, *d = NULL;
	struct attr a;
	REQUEST(q, 1000);
	struct create_in in = {
		.loc = { .parent = root, .name = "f" }, .gfid = fresh_gfid(), .flags = O_RDWR, .mode = 04777, .umask = 027
	};
	struct create_out out = { 0 };

	CHECK_INT(create_on(&q.r, brick, &in, &out), 0);
	CHECK_INT(out.attr.mode, S_IFREG | 04750);
	CHECK_INT(out.attr.uid, 1000);
	CHECK_INT(out.attr.gid, 1000);
	CHECK_INT(out.attr.nlink, 1);
	CHECK(gfid_equal(&out.attr.gfid, &in.gfid));
	fop_out_clear(FOP_create, &out);
	CHECK_INT(ask_make_directory(root, "d", 02775, &d), 0);
	CHECK_INT(ask_attr(d, NULL, &a), 0);
	CHECK_INT(a.mode, S_IFDIR | 0775);
	CHECK_INT(ask_set(&q.r, d, &(struct setattr){ .valid = SET_GID | SET_MODE, .gid = 77, .mode = 02777 }), 0);
	CHECK_INT(ask_make_file_as(&q.r, d, "inherits", 0644, &inode, NULL), 0);
	CHECK_INT(ask_attr(inode, NULL, &a), 0);
	CHECK_INT(a.gid, 77);
	CHECK_INT(ask_make_file_as(&q.r, d, "stripped", 02755, NULL, NULL), 0);
	CHECK_INT(ask_find(d, "stripped", NULL, &a), 0);
	CHECK_INT(a.mode, S_IFREG | 0755); /* not in group 77 */
	CHECK_INT(ask_make_directory(d, "sub", 0755, NULL), 0);
	CHECK_INT(ask_find(d, "sub", NULL, &a), 0);
	CHECK_INT(a.mode, S_IFDIR | 02755);
	CHECK_INT(a.gid, 77);
}

PROPERTY(an_unknown_group_list_is_asked_for)
{
	cleanup_inode struct inode *d = NULL;
	REQUEST(q, 1000);

	CHECK_INT(ask_make_directory(root, "d", 0777, &d), 0);
	CHECK_INT(ask_set(&q.r, d, &(struct setattr){ .valid = SET_GID | SET_MODE, .gid = 77, .mode = 02777 }), 0);
	q.r.group_count = -1;
	CHECK_INT(ask_make_file_as(&q.r, d, "f", 02755, NULL, NULL), -ENEEDGROUPS);
	CHECK_INT(ask_find(d, "f", NULL, NULL), -ENOENT);
	CHECK_INT(ask_make_file_as(&q.r, d, "f", 0755, NULL, NULL), 0);
}

/* ---- ACLs: the same as the kernel makes, for every kind of object ---- */

struct acl_entry {
	uint16_t tag, perm;
	uint32_t id;
};
struct raw_acl {
	uint32_t version;
	struct acl_entry entry[8];
};

static size_t acl_make(struct raw_acl *acl, const struct acl_entry *entries, size_t count)
{
	acl->version = htole32(2);
	for (size_t i = 0; i < count; i++)
		acl->entry[i] = (struct acl_entry){ htole16(entries[i].tag), htole16(entries[i].perm), htole32(entries[i].id) };
	return 4 + count * sizeof(struct acl_entry);
}

static bool same_on_disk(const char *a, const char *b, const char *name)
{
	char x[1024], y[1024];
	ssize_t n = lgetxattr(a, name, x, sizeof x), m = lgetxattr(b, name, y, sizeof y);

	return n == m && (n < 0 || !memcmp(x, y, (size_t)n));
}

static bool same_object(const char *made, const char *kernel)
{
	struct stat a, b;

	if (lstat(made, &a) || lstat(kernel, &b))
		return false;
	if (a.st_mode != b.st_mode || !same_on_disk(made, kernel, "system.posix_acl_access") ||
	    !same_on_disk(made, kernel, "system.posix_acl_default")) {
		fprintf(stderr, "%s is %o, the kernel's is %o (or the ACLs differ)\n", made, a.st_mode, b.st_mode);
		return false;
	}
	return true;
}

static bool has_acl(const char *path)
{
	return lgetxattr(path, "system.posix_acl_access", NULL, 0) > 0 ||
	       lgetxattr(path, "system.posix_acl_default", NULL, 0) > 0;
}

/* Who is told that there is no ACL, neither of its own nor to hand down, does not ask. */
static bool told_truth(struct inode *d, const char *name, const char *path, const struct attr *made)
{
	struct attr found = { 0 };

	return !ask_find(d, name, NULL, &found) && !(has_acl(path) && (made->flags | found.flags) & ATTR_NO_ACL);
}

static bool inherit_alike(struct inode *d, mode_t mode, mode_t mask)
{
	REQUEST(q, 0);
	struct create_in cin = {
		.loc = { .parent = d, .name = "f" }, .gfid = fresh_gfid(), .mode = mode, .umask = mask, .flags = O_RDWR
	};
	struct mkdir_in min = { .loc = { .parent = d, .name = "d" }, .gfid = fresh_gfid(), .mode = mode, .umask = mask };
	struct mknod_in nin = {
		.loc = { .parent = d, .name = "p" }, .gfid = fresh_gfid(), .mode = S_IFIFO | mode, .umask = mask
	};
	struct create_out cout = { 0 };
	struct mkdir_out mout = { 0 };
	struct mknod_out nout = { 0 };
	bool good = !create_on(&q.r, brick, &cin, &cout) && !mkdir_on(&q.r, brick, &min, &mout) &&
		    !mknod_on(&q.r, brick, &nin, &nout);

	good = good && told_truth(d, "f", test_brick_path("d/f"), &cout.attr) &&
	       told_truth(d, "d", test_brick_path("d/d"), &mout.attr) && told_truth(d, "p", test_brick_path("d/p"), &nout.attr);
	fop_out_clear(FOP_create, &cout);
	fop_out_clear(FOP_mkdir, &mout);
	fop_out_clear(FOP_mknod, &nout);
	umask(mask); /* for the kernel's own; the brick's umask is 0 */
	close(open(test_path("%s/kernel/%s", "f"), O_CREAT | O_EXCL | O_RDWR, mode));
	mkdir(test_path("%s/kernel/%s", "d"), mode);
	mknod(test_path("%s/kernel/%s", "p"), S_IFIFO | mode, 0);
	umask(0);
	good = good && same_object(test_brick_path("d/f"), test_path("%s/kernel/%s", "f")) &&
	       same_object(test_brick_path("d/d"), test_path("%s/kernel/%s", "d")) &&
	       same_object(test_brick_path("d/p"), test_path("%s/kernel/%s", "p"));
	ask_drop(d, "f", false), ask_drop(d, "d", true), ask_drop(d, "p", false);
	unlink(test_path("%s/kernel/%s", "f")), rmdir(test_path("%s/kernel/%s", "d")), unlink(test_path("%s/kernel/%s", "p"));
	return good;
}

PROPERTY(inherited_acls_are_the_kernels)
{
	static const struct acl_entry lists[][6] = {
		{ { 1, 7, -1 }, { 4, 5, -1 }, { 0x20, 1, -1 } },
		{ { 1, 6, -1 }, { 4, 4, -1 }, { 0x20, 0, -1 } },
		{ { 1, 7, -1 }, { 2, 7, 1001 }, { 4, 7, -1 }, { 0x10, 6, -1 }, { 0x20, 0, -1 } },
		{ { 1, 5, -1 }, { 4, 7, -1 }, { 8, 3, 1002 }, { 0x10, 7, -1 }, { 0x20, 5, -1 } },
		{ { 1, 7, -1 }, { 2, 4, 1 }, { 4, 5, -1 }, { 8, 6, 3 }, { 0x10, 5, -1 }, { 0x20, 4, -1 } },
	};
	static const mode_t modes[] = { 0777, 0666, 0640, 0421, 0000, 01777 };
	static const size_t counts[] = { 3, 3, 5, 5, 6 };
	cleanup_inode struct inode *d = NULL;
	struct raw_acl acl;
	REQUEST(q, 0);

	CHECK_INT(ask_make_directory(root, "d", 0755, &d), 0);
	CHECK(!mkdir(test_path("%s/kernel%s", ""), 0755));
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
		CHECK(inherit_alike(d, modes[i], 022));
	for (size_t l = 0; l < sizeof counts / sizeof *counts; l++) {
		size_t n = acl_make(&acl, lists[l], counts[l]);
		struct setxattr_in in = { .inode = d, .name = "system.posix_acl_default", .value = { (uint32_t)n, &acl } };
		struct setxattr_out out;

		CHECK_INT(setxattr_on(&q.r, brick, &in, &out), 0);
		CHECK(!setxattr(test_path("%s/kernel%s", ""), "system.posix_acl_default", &acl, n, 0));
		for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
			CHECK(inherit_alike(d, modes[i], i % 2 ? 077 : 0));
	}
}

/* File systems say that in several ways, and whoever compares replicas took them for different answers. */
PROPERTY(what_is_made_in_a_removed_directory_is_stale)
{
	struct attr attr;
	cleanup_inode struct inode *d = NULL;
	struct opendir_out od = { 0 };
	REQUEST(q, 0);

	CHECK_INT(ask_make_directory(root, "d", 0755, &d), 0);
	CHECK_INT(ask_make_file(root, "f", NULL, NULL), 0);
	CHECK_INT(opendir_on(&q.r, brick, &(struct opendir_in){ d }, &od), 0); /* so the brick can reach it still */
	CHECK_INT(ask_drop(root, "d", true), 0);
	CHECK_INT(ask_make_file(d, "f", NULL, NULL), -ESTALE);
	CHECK_INT(ask_make_directory(d, "e", 0755, NULL), -ESTALE);
	CHECK_INT(ask_move(&q.r, root, "f", d, "f", 0, NULL), -ESTALE);
	CHECK_INT(ask_find(root, "f", NULL, NULL), 0);
	CHECK_INT(ask_drop(root, "f", false), 0); /* what waits to be closed is of somebody else */
	CHECK_INT(ask_attr(d, NULL, &attr), 0);
	CHECK_INT(attr.nlink, 0);
	fop_out_clear(FOP_opendir, &od);
}
