/* SPDX-License-Identifier: Apache-2.0 */
/* storage/posix on the file system of the build directory: what it promises about names, identities, handles and data.
 * Needs root (trusted attributes, handles); skipped otherwise. */
#include "test.h"

#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "graph.h"

#define VOLUME_ID "6d6a1f70-0d3c-4c1d-9a65-3d1a7c1f4b01"
#define BRICK_ID  "0f0e0d0c-0b0a-4908-8706-050403020100"
#define OTHER_ID  "11111111-2222-4333-8444-555555555555"

/* ---- a brick for each test; checks inside tasks return, as cmocka can't jump from one stack to another ---- */

static char base[128];
static struct graph *graph;
static struct xlator *brick;
static struct inode *root;
static atomic_int failures;

#define CHECK(condition)                                                                                                       \
	do {                                                                                                                   \
		if (!(condition)) {                                                                                            \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                        \
			failures++;                                                                                            \
			return;                                                                                                \
		}                                                                                                              \
	} while (0)
#define CHECK_INT(is, should)                                                                                                  \
	do {                                                                                                                   \
		long long is_ = (is), should_ = (should);                                                                      \
		if (is_ != should_) {                                                                                          \
			fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #is, is_, should_);               \
			failures++;                                                                                            \
			return;                                                                                                \
		}                                                                                                              \
	} while (0)

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static const char *path_of(const char *format, const char *name)
{
	static __thread char text[4][512];
	static __thread int turn;
	char *t = text[turn++ % 4];

	snprintf(t, 512, format, base, name);
	return t;
}

static const char *in_brick(const char *name)
{
	return path_of("%s/brick/%s", name);
}

static int try_open(const char *directory, const char *volume, const char *id, const char *more, struct graph **made,
		    struct problem *p)
{
	char text[1024];
	struct volfile v;
	int err;

	snprintf(
		text, sizeof text,
		"volume posix\n type storage/posix\n option directory %s\n option volume-id %s\n option brick-id %s\n%send-volume\n",
		directory, volume, id, more);
	*made = NULL;
	memset(p, 0, sizeof *p);
	err = volfile_parse(text, strlen(text), "test.vol", &v, p);
	if (err)
		return err;
	err = graph_create(&v, NULL, NULL, made, p);
	volfile_free(&v);
	if (!err && (err = graph_start(*made, p))) {
		graph_destroy(*made);
		*made = NULL;
	}
	return err;
}

static void close_graph(struct graph *g)
{
	graph_stop(g);
	graph_destroy(g);
}

static void open_brick(void)
{
	struct problem p;

	if (try_open(path_of("%s/brick%s", ""), VOLUME_ID, BRICK_ID, " option free-space-floor 0\n", &graph, &p))
		fail_msg("%s", p.text);
	brick = graph->top;
	root = inode_get(graph->inodes, &gfid_root, S_IFDIR);
	assert_non_null(root);
}

static void close_brick(void)
{
	inode_unref(root);
	close_graph(graph);
}

static int setup(void **state)
{
	(void)state;
	char here[] = "posix-test.XXXXXX", *whole;

	whole = mkdtemp(here) ? realpath(here, NULL) : NULL;
	if (!whole || snprintf(base, sizeof base, "%s", whole) >= (int)sizeof base)
		return -1;
	free(whole);
	failures = 0;
	if (mkdir(path_of("%s/brick%s", ""), 0755))
		return -1;
	open_brick();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close_brick();
	return nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void run(task_fn *fn)
{
	assert_int_equal(task_call(fn, NULL), 0);
	assert_int_equal(failures, 0);
}

#define PROPERTY(name)                                                                                                         \
	static void name##_(void *arg);                                                                                        \
	static void name(void **state)                                                                                         \
	{                                                                                                                      \
		(void)state;                                                                                                   \
		run(name##_);                                                                                                  \
	}                                                                                                                      \
	static void name##_(void *arg __attribute__((unused)))

/* ---- requests ---- */

struct rq {
	struct request r;
};
static void rq_end(struct rq *q)
{
	request_finish(&q->r);
}
#define REQUEST(name, user)                                                                                                    \
	__attribute__((cleanup(rq_end))) struct rq name;                                                                       \
	request_init(&name.r, graph, 0);                                                                                       \
	name.r.uid = (user);                                                                                                   \
	name.r.gid = (user);                                                                                                   \
	name.r.group_count = 0

static struct gfid fresh(void)
{
	struct gfid g;

	gfid_create(&g);
	return g;
}

static int make_file_as(struct request *rq, struct inode *parent, const char *name, mode_t mode, struct inode **inode,
			struct file **file)
{
	struct create_in in = {
		.loc = { .parent = parent, .name = name }, .gfid = fresh(), .flags = O_RDWR | O_EXCL, .mode = mode
	};
	struct create_out out = { 0 };
	int err = create_on(rq, brick, &in, &out);

	if (err)
		return err;
	if (inode)
		*inode = inode_ref(out.inode);
	if (file)
		*file = file_ref(out.file);
	fop_out_clear(FOP_create, &out);
	return 0;
}

static int make_file(struct inode *parent, const char *name, struct inode **inode, struct file **file)
{
	REQUEST(q, 0);

	return make_file_as(&q.r, parent, name, 0644, inode, file);
}

static int make_directory(struct inode *parent, const char *name, mode_t mode, struct inode **inode)
{
	REQUEST(q, 0);
	struct mkdir_in in = { .loc = { .parent = parent, .name = name }, .gfid = fresh(), .mode = mode };
	struct mkdir_out out = { 0 };
	int err = mkdir_on(&q.r, brick, &in, &out);

	if (!err && inode)
		*inode = inode_ref(out.inode);
	fop_out_clear(FOP_mkdir, &out);
	return err;
}

static int find(struct inode *parent, const char *name, struct inode **inode, struct attr *attr)
{
	REQUEST(q, 0);
	struct lookup_in in = { .loc = { .parent = parent, .name = name } };
	struct lookup_out out = { 0 };
	int err = lookup_on(&q.r, brick, &in, &out);

	if (!err && inode)
		*inode = inode_ref(out.inode);
	if (!err && attr)
		*attr = out.attr;
	fop_out_clear(FOP_lookup, &out);
	return err;
}

static int attr_get(struct inode *inode, struct file *file, struct attr *attr)
{
	REQUEST(q, 0);
	struct getattr_in in = { inode, file };
	struct getattr_out out = { 0 };
	int err = getattr_on(&q.r, brick, &in, &out);

	*attr = out.attr;
	return err;
}

static int set(struct request *rq, struct inode *inode, const struct setattr *s)
{
	struct setattr_in in = { .inode = inode, .set = *s };
	struct setattr_out out = { 0 };

	return setattr_on(rq, brick, &in, &out);
}

static int put(struct request *rq, struct file *file, uint64_t offset, uint32_t flags, const void *bytes, size_t size,
	       uint64_t *at)
{
	cleanup_buffer struct buffer *b = buffer_from(bytes, size);
	struct write_in in = { file, offset, flags, b };
	struct write_out out = { 0 };
	int err = write_on(rq, brick, &in, &out);

	if (at)
		*at = out.offset;
	return err ? err : (int)out.written;
}

static int get(struct file *file, uint64_t offset, void *bytes, uint32_t size)
{
	REQUEST(q, 0);
	struct read_in in = { file, offset, size };
	struct read_out out = { 0 };
	int err = read_on(&q.r, brick, &in, &out);

	if (!err) {
		err = (int)out.data->size;
		memcpy(bytes, out.data->data, out.data->size);
	}
	fop_out_clear(FOP_read, &out);
	return err;
}

static int drop(struct inode *parent, const char *name, bool directory)
{
	REQUEST(q, 0);
	struct unlink_in in = { { .parent = parent, .name = name } };
	struct rmdir_in rin = { { .parent = parent, .name = name } };
	struct unlink_out out;
	struct rmdir_out rout;

	return directory ? rmdir_on(&q.r, brick, &rin, &rout) : unlink_on(&q.r, brick, &in, &out);
}

static int move(struct request *rq, struct inode *from, const char *a, struct inode *to, const char *b, uint32_t flags,
		struct inode *moved)
{
	struct rename_in in = { { .parent = from, .name = a, .inode = moved }, { .parent = to, .name = b }, flags };
	struct rename_out out;

	return rename_on(rq, brick, &in, &out);
}

static int hard_link(struct request *rq, struct inode *inode, struct inode *parent, const char *name)
{
	struct link_in in = { inode, { .parent = parent, .name = name } };
	struct link_out out = { 0 };

	return link_on(rq, brick, &in, &out);
}

/* ---- the identity on disk, read without the translator's code ---- */

struct disk_link {
	struct gfid parent;
	unsigned length;
	char name[256];
};
struct disk_identity {
	struct gfid gfid;
	unsigned links, more;
	struct disk_link link[64];
	ssize_t size;
};

static bool disk_read(const char *path, struct disk_identity *d)
{
	uint8_t bytes[4096];
	ssize_t n = lgetxattr(path, "trusted.sfs", bytes, sizeof bytes), at = 26;

	d->size = n;
	if (n < at || bytes[0] != 1)
		return false;
	d->more = bytes[1];
	memcpy(d->gfid.bytes, bytes + 2, 16);
	for (d->links = 0; at + 18 <= n && d->links < 64; d->links++) {
		struct disk_link *l = &d->link[d->links];

		memcpy(l->parent.bytes, bytes + at, 16);
		l->length = bytes[at + 16];
		memcpy(l->name, bytes + at + 18, bytes[at + 17]);
		l->name[bytes[at + 17]] = '\0';
		at += 18 + bytes[at + 17];
	}
	return at == n;
}

static bool disk_has(const struct disk_identity *d, const struct inode *parent, const char *name)
{
	for (unsigned i = 0; i < d->links; i++)
		if (gfid_equal(&d->link[i].parent, &parent->gfid) && d->link[i].length == strlen(name) &&
		    !strncmp(d->link[i].name, name, strlen(d->link[i].name)))
			return true;
	return false;
}

/* ---- creation ---- */

static atomic_bool watching;

/* Whatever can be seen in the directory has an identity. */
static void *watch_directory(void *arg)
{
	atomic_int *bare = arg;
	struct disk_identity d;

	while (watching) {
		DIR *dir = opendir(in_brick("d"));
		struct dirent *e;

		while (dir && (e = readdir(dir))) {
			char path[600];

			snprintf(path, sizeof path, "%s/%s", in_brick("d"), e->d_name);
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
	CHECK_INT(find(root, "d", &d, NULL), 0);
	for (int i = 0; i < 250; i++) {
		snprintf(name, sizeof name, "f%d", i);
		CHECK_INT(make_file_as(&q.r, d, name, 0644, NULL, NULL), 0);
		snprintf(name, sizeof name, "d%d", i);
		CHECK_INT(make_directory(d, name, 0755, NULL), 0);
		snprintf(name, sizeof name, "l%d", i);
		struct symlink_in in = { { .parent = d, .name = name }, fresh(), "nowhere" };
		struct symlink_out out = { 0 };

		CHECK_INT(symlink_on(&q.r, brick, &in, &out), 0);
		fop_out_clear(FOP_symlink, &out);
		snprintf(name, sizeof name, "p%d", i);
		struct mknod_in min = { .loc = { .parent = d, .name = name }, .gfid = fresh(), .mode = S_IFIFO | 0600 };
		struct mknod_out mout = { 0 };

		CHECK_INT(mknod_on(&q.r, brick, &min, &mout), 0);
		CHECK_INT(mout.attr.uid, 1000);
		fop_out_clear(FOP_mknod, &mout);
	}
}

static void make_parent_(void *arg)
{
	(void)arg;
	CHECK_INT(make_directory(root, "d", 0777, NULL), 0);
}

static void nothing_is_visible_without_identity(void **state)
{
	atomic_int bare = 0;
	pthread_t thread;

	(void)state;
	run(make_parent_);
	watching = true;
	assert_int_equal(pthread_create(&thread, NULL, watch_directory, &bare), 0);
	run(make_many_);
	watching = false;
	pthread_join(thread, NULL);
	assert_int_equal(bare, 0);
}

PROPERTY(creation_sets_owner_mode_and_umask)
{
	cleanup_inode struct inode *inode = NULL, *d = NULL;
	struct attr a;
	REQUEST(q, 1000);
	struct create_in in = {
		.loc = { .parent = root, .name = "f" }, .gfid = fresh(), .flags = O_RDWR, .mode = 04777, .umask = 027
	};
	struct create_out out = { 0 };

	CHECK_INT(create_on(&q.r, brick, &in, &out), 0);
	CHECK_INT(out.attr.mode, S_IFREG | 04750);
	CHECK_INT(out.attr.uid, 1000);
	CHECK_INT(out.attr.gid, 1000);
	CHECK_INT(out.attr.nlink, 1);
	CHECK(gfid_equal(&out.attr.gfid, &in.gfid));
	fop_out_clear(FOP_create, &out);
	CHECK_INT(make_directory(root, "d", 02775, &d), 0);
	CHECK_INT(attr_get(d, NULL, &a), 0);
	CHECK_INT(a.mode, S_IFDIR | 0775);
	CHECK_INT(set(&q.r, d, &(struct setattr){ .valid = SET_GID | SET_MODE, .gid = 77, .mode = 02777 }), 0);
	CHECK_INT(make_file_as(&q.r, d, "inherits", 0644, &inode, NULL), 0);
	CHECK_INT(attr_get(inode, NULL, &a), 0);
	CHECK_INT(a.gid, 77);
	CHECK_INT(make_file_as(&q.r, d, "stripped", 02755, NULL, NULL), 0);
	CHECK_INT(find(d, "stripped", NULL, &a), 0);
	CHECK_INT(a.mode, S_IFREG | 0755); /* not in group 77 */
	CHECK_INT(make_directory(d, "sub", 0755, NULL), 0);
	CHECK_INT(find(d, "sub", NULL, &a), 0);
	CHECK_INT(a.mode, S_IFDIR | 02755);
	CHECK_INT(a.gid, 77);
}

PROPERTY(an_unknown_group_list_is_asked_for)
{
	cleanup_inode struct inode *d = NULL;
	REQUEST(q, 1000);

	CHECK_INT(make_directory(root, "d", 0777, &d), 0);
	CHECK_INT(set(&q.r, d, &(struct setattr){ .valid = SET_GID | SET_MODE, .gid = 77, .mode = 02777 }), 0);
	q.r.group_count = -1;
	CHECK_INT(make_file_as(&q.r, d, "f", 02755, NULL, NULL), -ENEEDGROUPS);
	CHECK_INT(find(d, "f", NULL, NULL), -ENOENT);
	CHECK_INT(make_file_as(&q.r, d, "f", 0755, NULL, NULL), 0);
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

static bool inherit_alike(struct inode *d, mode_t mode, mode_t mask)
{
	REQUEST(q, 0);
	struct create_in cin = {
		.loc = { .parent = d, .name = "f" }, .gfid = fresh(), .mode = mode, .umask = mask, .flags = O_RDWR
	};
	struct mkdir_in min = { .loc = { .parent = d, .name = "d" }, .gfid = fresh(), .mode = mode, .umask = mask };
	struct mknod_in nin = { .loc = { .parent = d, .name = "p" }, .gfid = fresh(), .mode = S_IFIFO | mode, .umask = mask };
	struct create_out cout = { 0 };
	struct mkdir_out mout = { 0 };
	struct mknod_out nout = { 0 };
	bool good = !create_on(&q.r, brick, &cin, &cout) && !mkdir_on(&q.r, brick, &min, &mout) &&
		    !mknod_on(&q.r, brick, &nin, &nout);

	fop_out_clear(FOP_create, &cout);
	fop_out_clear(FOP_mkdir, &mout);
	fop_out_clear(FOP_mknod, &nout);
	umask(mask); /* for the kernel's own; the brick's umask is 0 */
	close(open(path_of("%s/kernel/%s", "f"), O_CREAT | O_EXCL | O_RDWR, mode));
	mkdir(path_of("%s/kernel/%s", "d"), mode);
	mknod(path_of("%s/kernel/%s", "p"), S_IFIFO | mode, 0);
	umask(0);
	good = good && same_object(in_brick("d/f"), path_of("%s/kernel/%s", "f")) &&
	       same_object(in_brick("d/d"), path_of("%s/kernel/%s", "d")) &&
	       same_object(in_brick("d/p"), path_of("%s/kernel/%s", "p"));
	drop(d, "f", false), drop(d, "d", true), drop(d, "p", false);
	unlink(path_of("%s/kernel/%s", "f")), rmdir(path_of("%s/kernel/%s", "d")), unlink(path_of("%s/kernel/%s", "p"));
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

	CHECK_INT(make_directory(root, "d", 0755, &d), 0);
	CHECK(!mkdir(path_of("%s/kernel%s", ""), 0755));
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
		CHECK(inherit_alike(d, modes[i], 022));
	for (size_t l = 0; l < sizeof counts / sizeof *counts; l++) {
		size_t n = acl_make(&acl, lists[l], counts[l]);
		struct setxattr_in in = { .inode = d, .name = "system.posix_acl_default", .value = { (uint32_t)n, &acl } };
		struct setxattr_out out;

		CHECK_INT(setxattr_on(&q.r, brick, &in, &out), 0);
		CHECK(!setxattr(path_of("%s/kernel%s", ""), "system.posix_acl_default", &acl, n, 0));
		for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
			CHECK(inherit_alike(d, modes[i], i % 2 ? 077 : 0));
	}
}

/* ---- handles ---- */

PROPERTY(forged_handles_are_refused)
{
	cleanup_inode struct inode *inode = NULL, *back = NULL;
	uint8_t good[HANDLE_SIZE_MAX], bad[HANDLE_SIZE_MAX + 1];
	size_t size = sizeof good;

	CHECK_INT(make_file(root, "f", &inode, NULL), 0);
	CHECK_INT(brick->type->inode_handle(brick, inode, good, &size), 0);
	CHECK_INT(brick->type->inode_from_handle(brick, good, size, &back), 0);
	CHECK(back == inode);
	for (size_t i = 0; i < size * 8; i++) {
		struct inode *none = NULL;

		memcpy(bad, good, size);
		bad[i / 8] ^= (uint8_t)(1 << i % 8);
		CHECK_INT(brick->type->inode_from_handle(brick, bad, size, &none), -ESTALE);
		CHECK(!none);
	}
	for (size_t i = 0; i <= sizeof good; i++) {
		struct inode *none = NULL;

		memset(bad, 0, sizeof bad);
		memcpy(bad, good, size);
		if (i != size)
			CHECK_INT(brick->type->inode_from_handle(brick, bad, i, &none), -ESTALE);
	}
	size = 10;
	CHECK_INT(brick->type->inode_handle(brick, inode, bad, &size), -ENOBUFS);
}

static uint8_t kept_handle[HANDLE_SIZE_MAX];
static size_t kept_size;

static void keep_handle_(void *arg)
{
	cleanup_inode struct inode *inode = NULL;

	(void)arg;
	if (find(root, "f", &inode, NULL))
		CHECK_INT(make_file(root, "f", &inode, NULL), 0);
	kept_size = sizeof kept_handle;
	CHECK_INT(brick->type->inode_handle(brick, inode, kept_handle, &kept_size), 0);
}

static void use_handle_(void *arg)
{
	cleanup_inode struct inode *inode = NULL;
	struct attr a, b;

	(void)arg;
	CHECK_INT(brick->type->inode_from_handle(brick, kept_handle, kept_size, &inode), 0);
	CHECK_INT(attr_get(inode, NULL, &a), 0);
	CHECK_INT(find(root, "f", NULL, &b), 0);
	CHECK(gfid_equal(&a.gfid, &b.gfid));
	CHECK_INT(a.btime.nsec, b.btime.nsec);
}

static void refuse_handle_(void *arg)
{
	struct inode *inode = NULL;

	(void)arg;
	CHECK_INT(brick->type->inode_from_handle(brick, kept_handle, kept_size, &inode), -ESTALE);
}

static void rotate_key_(void *arg)
{
	char word[] = "rotate-key", *words[] = { word }, *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)arg;
	CHECK_INT(brick->type->command(brick, 1, words, out), 0);
	fclose(out);
	free(text);
}

static void handles_outlive_a_restart_and_one_key(void **state)
{
	(void)state;
	run(keep_handle_);
	close_brick();
	open_brick();
	run(use_handle_);
	run(rotate_key_);
	run(use_handle_);
	close_brick();
	open_brick();
	run(use_handle_);
	run(rotate_key_);
	run(refuse_handle_);
	run(keep_handle_);
	run(use_handle_);
}

static void find_nothing_by_handle_(void *arg)
{
	cleanup_inode struct inode *inode = NULL;
	struct attr a;
	int err = brick->type->inode_from_handle(brick, kept_handle, kept_size, &inode);

	(void)arg;
	CHECK_INT(err ? err : attr_get(inode, NULL, &a), -ESTALE);
}

static void unlink_f_(void *arg)
{
	(void)arg;
	CHECK_INT(drop(root, "f", false), 0);
	CHECK_INT(make_file(root, "f", NULL, NULL), 0); /* likely with the same inode number */
}

static void handles_of_removed_objects_are_stale(void **state)
{
	(void)state;
	run(keep_handle_);
	run(unlink_f_);
	run(find_nothing_by_handle_);
	close_brick();
	open_brick();
	run(refuse_handle_);
}

static void handles_of_another_brick_are_stale(void **state)
{
	struct problem p;

	(void)state;
	run(keep_handle_);
	close_brick();
	assert_int_equal(mkdir(path_of("%s/other%s", ""), 0755), 0);
	assert_int_equal(try_open(path_of("%s/other%s", ""), VOLUME_ID, OTHER_ID, "", &graph, &p), 0);
	brick = graph->top;
	run(refuse_handle_);
	close_graph(graph);
	open_brick();
}

/* ---- identity ---- */

PROPERTY(renames_and_links_keep_the_identity)
{
	cleanup_inode struct inode *f = NULL, *d = NULL, *e = NULL;
	struct disk_identity i;
	char name[256];
	REQUEST(q, 0);

	CHECK_INT(make_directory(root, "d", 0755, &d), 0);
	CHECK_INT(make_directory(root, "e", 0755, &e), 0);
	CHECK_INT(make_file(d, "one", &f, NULL), 0);
	CHECK(disk_read(in_brick("d/one"), &i) && i.links == 1 && disk_has(&i, d, "one") && gfid_equal(&i.gfid, &f->gfid));
	CHECK_INT(hard_link(&q.r, f, e, "two"), 0);
	CHECK(disk_read(in_brick("d/one"), &i) && i.links == 2 && disk_has(&i, d, "one") && disk_has(&i, e, "two"));
	CHECK_INT(move(&q.r, d, "one", root, "three", 0, NULL), 0);
	CHECK(disk_read(in_brick("three"), &i) && i.links == 2 && disk_has(&i, root, "three") && disk_has(&i, e, "two"));
	CHECK_INT(drop(e, "two", false), 0);
	CHECK(disk_read(in_brick("three"), &i) && i.links == 1 && disk_has(&i, root, "three"));
	CHECK_INT(move(&q.r, root, "d", e, "sub", 0, NULL), 0);
	CHECK(disk_read(in_brick("e/sub"), &i) && i.links == 1 && disk_has(&i, e, "sub"));
	CHECK_INT(move(&q.r, e, "sub", root, "three", RENAME_EXCHANGE, NULL), 0);
	CHECK(disk_read(in_brick("three"), &i) && i.links == 1 && disk_has(&i, root, "three"));
	CHECK(disk_read(in_brick("e/sub"), &i) && i.links == 1 && disk_has(&i, e, "sub") && gfid_equal(&i.gfid, &f->gfid));
	CHECK_INT(hard_link(&q.r, f, root, "again"), 0);
	CHECK_INT(move(&q.r, e, "sub", root, "again", 0, NULL), 0); /* two names of one object: nothing happens */
	CHECK(disk_read(in_brick("e/sub"), &i) && i.links == 2);
	CHECK_INT(make_file(root, "other", NULL, NULL), 0);
	CHECK_INT(move(&q.r, root, "other", e, "sub", 0, NULL), 0); /* a name of one that has two is taken */
	CHECK(disk_read(in_brick("again"), &i) && i.links == 1 && disk_has(&i, root, "again"));
	for (int n = 0; n < 70; n++) { /* more than the xattr holds, and back */
		snprintf(name, sizeof name, "%0*d", 60, n);
		CHECK_INT(hard_link(&q.r, f, root, name), 0);
	}
	CHECK(disk_read(in_brick("again"), &i) && i.links > 8 && i.more && i.size <= 1024);
	for (int n = 0; n < 70; n++) {
		snprintf(name, sizeof name, "%0*d", 60, n);
		CHECK_INT(drop(root, name, false), 0);
	}
	CHECK(disk_read(in_brick("again"), &i) && i.links == 1 && !i.more && disk_has(&i, root, "again"));
}

PROPERTY(the_identity_of_one_link_fits_into_the_inode)
{
	struct disk_identity i;
	char name[256];

	for (int length = 1; length < 256; length += 23) {
		memset(name, 'x', sizeof name);
		name[length] = '\0';
		CHECK_INT(make_file(root, name, NULL, NULL), 0);
		CHECK(disk_read(in_brick(name), &i) && i.links == 1 && i.size <= 68 && disk_has(&i, root, name));
	}
	name[254] = 'x';
	memset(name, 'y', 255);
	name[255] = '\0';
	CHECK_INT(make_file(root, name, NULL, NULL), 0);
	memset(name, 'z', 250);
	REQUEST(q, 0);
	char before[256];

	memset(before, 'y', 255);
	before[255] = '\0';
	CHECK_INT(move(&q.r, root, before, root, name, 0, NULL), 0);
	CHECK(disk_read(in_brick(name), &i) && i.links == 1 && i.size <= 68 && disk_has(&i, root, name));
}

PROPERTY(foreign_objects_get_an_identity)
{
	cleanup_inode struct inode *a = NULL, *again = NULL, *copy = NULL, *moved = NULL;
	struct disk_identity i;
	char bytes[1024];
	ssize_t n;

	CHECK(!close(open(in_brick("foreign"), O_CREAT | O_WRONLY, 0644)));
	CHECK_INT(find(root, "foreign", &a, NULL), 0);
	CHECK(disk_read(in_brick("foreign"), &i) && gfid_equal(&i.gfid, &a->gfid) && disk_has(&i, root, "foreign"));
	CHECK_INT(find(root, "foreign", &again, NULL), 0);
	CHECK(a == again);
	n = getxattr(in_brick("foreign"), "trusted.sfs", bytes, sizeof bytes);
	CHECK(!close(open(in_brick("copy"), O_CREAT | O_WRONLY, 0644))); /* cp -a copies the xattr too */
	CHECK(!setxattr(in_brick("copy"), "trusted.sfs", bytes, (size_t)n, 0));
	CHECK_INT(find(root, "copy", &copy, NULL), 0);
	CHECK(copy != a && !gfid_equal(&copy->gfid, &a->gfid));
	CHECK(!rename(in_brick("foreign"), in_brick("elsewhere"))); /* behind the brick's back */
	CHECK_INT(find(root, "elsewhere", &moved, NULL), 0);
	CHECK(moved == a);
	CHECK(disk_read(in_brick("elsewhere"), &i) && i.links == 1 && disk_has(&i, root, "elsewhere"));
	CHECK(!close(open(in_brick("odd"), O_CREAT | O_WRONLY, 0644)));
	CHECK(!setxattr(in_brick("odd"), "trusted.sfs", "nonsense", 8, 0));
	CHECK_INT(find(root, "odd", NULL, NULL), -EIO);
}

PROPERTY(internal_attributes_are_hidden)
{
	static const char *const names[] = { "trusted.sfs", "trusted.sfs.more", "trusted.stratus.mark" };
	cleanup_inode struct inode *f = NULL;
	REQUEST(q, 0);

	CHECK_INT(make_file(root, "f", &f, NULL), 0);
	for (int i = 0; i < 3; i++) {
		struct setxattr_in sin = { .inode = f, .name = names[i], .value = { 1, (void *)"x" } };
		struct getxattr_in gin = { f, names[i] };
		struct removexattr_in rin = { f, names[i] };
		struct setxattr_out sout;
		struct getxattr_out gout = { 0 };
		struct removexattr_out rout;

		CHECK_INT(setxattr_on(&q.r, brick, &sin, &sout), -EPERM);
		CHECK_INT(getxattr_on(&q.r, brick, &gin, &gout), -ENODATA);
		CHECK_INT(removexattr_on(&q.r, brick, &rin, &rout), -EPERM);
	}
	CHECK(!setxattr(in_brick("f"), "user.mine", "v", 1, 0));
	CHECK(!setxattr(in_brick("f"), "trusted.stratus.mark", "v", 1, 0));
	struct listxattr_in lin = { f };
	struct listxattr_out lout = { 0 };

	CHECK_INT(listxattr_on(&q.r, brick, &lin, &lout), 0);
	CHECK(lout.names.size == sizeof "user.mine" && !strcmp(lout.names.bytes, "user.mine"));
	fop_out_clear(FOP_listxattr, &lout);
}

/* ---- resent requests ---- */

PROPERTY(a_resent_request_succeeds_if_the_first_was_done)
{
	cleanup_inode struct inode *f = NULL, *d = NULL;
	struct create_in cin = {
		.loc = { .parent = root, .name = "f" }, .gfid = fresh(), .flags = O_RDWR | O_EXCL, .mode = 0600
	};
	struct mkdir_in min = { .loc = { .parent = root, .name = "d" }, .gfid = fresh(), .mode = 0700 };
	struct symlink_in sin = { .loc = { .parent = root, .name = "s" }, .gfid = fresh(), .target = "t" };
	struct mknod_in nin = { .loc = { .parent = root, .name = "p" }, .gfid = fresh(), .mode = S_IFIFO | 0600 };
	struct unlink_out uout;
	struct rmdir_out rout;
	REQUEST(q, 0);

	for (int i = 0; i < 3; i++) { /* done; resent: done; asked anew: there */
		struct create_out cout = { 0 };
		struct mkdir_out mout = { 0 };
		struct symlink_out sout = { 0 };
		struct mknod_out nout = { 0 };
		int expected = i < 2 ? 0 : -EEXIST;

		q.r.resent = i == 1;
		CHECK_INT(create_on(&q.r, brick, &cin, &cout), expected);
		CHECK_INT(mkdir_on(&q.r, brick, &min, &mout), expected);
		CHECK_INT(symlink_on(&q.r, brick, &sin, &sout), expected);
		CHECK_INT(mknod_on(&q.r, brick, &nin, &nout), expected);
		CHECK(i == 2 ||
		      (cout.file && gfid_equal(&cout.inode->gfid, &cin.gfid) && gfid_equal(&mout.attr.gfid, &min.gfid)));
		fop_out_clear(FOP_create, &cout);
		fop_out_clear(FOP_mkdir, &mout);
		fop_out_clear(FOP_symlink, &sout);
		fop_out_clear(FOP_mknod, &nout);
	}
	q.r.resent = true;
	min.gfid = fresh();
	struct mkdir_out mout = { 0 };

	CHECK_INT(mkdir_on(&q.r, brick, &min, &mout), -EEXIST); /* somebody else's */
	CHECK_INT(find(root, "f", &f, NULL), 0);
	CHECK_INT(find(root, "d", &d, NULL), 0);
	for (int i = 0; i < 2; i++)
		CHECK_INT(hard_link(&q.r, f, root, "g"), 0);
	CHECK_INT(hard_link(&q.r, f, root, "p"), -EEXIST);
	for (int i = 0; i < 2; i++)
		CHECK_INT(move(&q.r, root, "g", d, "h", 0, f), 0);
	for (int i = 0; i < 2; i++)
		CHECK_INT(move(&q.r, root, "d", root, "e", RENAME_NOREPLACE, d), 0);
	CHECK_INT(move(&q.r, root, "gone", root, "p", 0, f), -ENOENT);
	for (int i = 0; i < 2; i++)
		CHECK_INT(unlink_on(&q.r, brick, &(struct unlink_in){ { .parent = d, .name = "h", .inode = f } }, &uout), 0);
	CHECK_INT(make_file(d, "h", NULL, NULL), 0); /* a third party uses the name again: not ours to remove */
	CHECK_INT(unlink_on(&q.r, brick, &(struct unlink_in){ { .parent = d, .name = "h", .inode = f } }, &uout), 0);
	CHECK_INT(find(d, "h", NULL, NULL), 0);
	CHECK_INT(drop(d, "h", false), 0);
	for (int i = 0; i < 2; i++)
		CHECK_INT(rmdir_on(&q.r, brick, &(struct rmdir_in){ { .parent = root, .name = "e" } }, &rout), 0);
	struct setxattr_in xin = { .inode = f, .name = "user.a", .value = { 1, (void *)"1" }, .flags = XATTR_CREATE };
	struct setxattr_out xout;

	for (int i = 0; i < 2; i++)
		CHECK_INT(setxattr_on(&q.r, brick, &xin, &xout), 0);
	xin.value.bytes = (void *)"2";
	CHECK_INT(setxattr_on(&q.r, brick, &xin, &xout), -EEXIST);
	for (int i = 0; i < 2; i++)
		CHECK_INT(removexattr_on(&q.r, brick, &(struct removexattr_in){ f, "user.a" }, &(struct removexattr_out){ 0 }),
			  0);
}

PROPERTY(a_gfid_is_given_once)
{
	cleanup_inode struct inode *f = NULL;
	REQUEST(q, 0);

	CHECK_INT(make_file(root, "f", &f, NULL), 0);
	struct mkdir_in in = { .loc = { .parent = root, .name = "d" }, .gfid = f->gfid, .mode = 0700 };
	struct mknod_in nin = { .loc = { .parent = root, .name = "n" }, .gfid = f->gfid, .mode = S_IFREG | 0600 };
	struct mkdir_out out = { 0 };
	struct mknod_out nout = { 0 };

	CHECK_INT(mkdir_on(&q.r, brick, &in, &out), -EEXIST);
	CHECK_INT(mknod_on(&q.r, brick, &nin, &nout), -EEXIST);
	nin.gfid = (struct gfid){ { 0 } };
	CHECK_INT(mknod_on(&q.r, brick, &nin, &nout), -EINVAL);
}

/* ---- data ---- */

enum { APPENDS = 400, APPENDERS = 4 };
struct appender {
	struct file *file;
	char letter;
	uint64_t at[APPENDS];
	atomic_int *left;
	struct task *waiter;
};

static void append_many(void *arg)
{
	struct appender *a = arg;
	char bytes[100];
	REQUEST(q, 0);

	memset(bytes, a->letter, sizeof bytes);
	for (int i = 0; i < APPENDS; i++) {
		if (put(&q.r, a->file, 0, WRITE_APPEND, bytes, sizeof bytes, &a->at[i]) != sizeof bytes)
			failures++;
		if (i % 16 == 0)
			task_yield();
	}
	atomic_fetch_sub(a->left, 1);
	task_wake(a->waiter);
}

PROPERTY(appends_never_overlap)
{
	static struct appender a[APPENDERS];
	cleanup_inode struct inode *f = NULL;
	cleanup_file struct file *one = NULL, *two = NULL;
	atomic_int left = APPENDERS;
	struct open_out out = { 0 };
	char bytes[100];
	REQUEST(q, 0);

	CHECK_INT(make_file(root, "log", &f, &one), 0);
	CHECK_INT(open_on(&q.r, brick, &(struct open_in){ f, O_RDWR | O_APPEND }, &out), 0);
	two = out.file;
	for (int i = 0; i < APPENDERS; i++) { /* two on each of two open files, on both shards */
		a[i] = (struct appender){
			.file = i % 2 ? one : two, .letter = (char)('a' + i), .left = &left, .waiter = task_self()
		};
		CHECK_INT(task_spawn(runtime_shard((unsigned)i / 2), append_many, &a[i]), 0);
	}
	while (atomic_load(&left))
		task_wait(NO_DEADLINE);
	for (int i = 0; i < APPENDERS; i++)
		for (int k = 0; k < APPENDS; k++) {
			CHECK_INT(get(one, a[i].at[k], bytes, sizeof bytes), sizeof bytes);
			for (size_t b = 0; b < sizeof bytes; b++)
				CHECK_INT(bytes[b], a[i].letter);
		}
	struct attr attr;

	CHECK_INT(attr_get(f, NULL, &attr), 0);
	CHECK_INT(attr.size, APPENDERS * APPENDS * 100);
}

PROPERTY(an_unlinked_open_file_lives_on)
{
	cleanup_inode struct inode *f = NULL;
	cleanup_file struct file *file = NULL;
	struct open_out again = { 0 };
	struct attr a;
	char bytes[8];
	REQUEST(q, 0);

	CHECK_INT(make_file(root, "f", &f, &file), 0);
	CHECK_INT(put(&q.r, file, 0, 0, "content", 7, NULL), 7);
	CHECK_INT(drop(root, "f", false), 0);
	CHECK_INT(find(root, "f", NULL, NULL), -ENOENT);
	CHECK_INT(get(file, 0, bytes, 8), 7);
	CHECK_INT(attr_get(f, file, &a), 0);
	CHECK_INT(a.nlink, 0);
	CHECK_INT(attr_get(f, NULL, &a), 0); /* the inode knows that it is open */
	CHECK_INT(a.size, 7);
	CHECK_INT(set(&q.r, f, &(struct setattr){ .valid = SET_SIZE | SET_MODE, .size = 3, .mode = 0600 }), 0);
	CHECK_INT(get(file, 0, bytes, 8), 3);
	CHECK_INT(open_on(&q.r, brick, &(struct open_in){ f, O_RDONLY }, &again), 0);
	CHECK_INT(get(again.file, 0, bytes, 8), 3);
	fop_out_clear(FOP_open, &again);
	CHECK_INT(hard_link(&q.r, f, root, "back"), -ENOENT);
	file_unref(file);
	file = NULL;
	CHECK_INT(attr_get(f, NULL, &a), -ESTALE);
}

PROPERTY(direct_io_falls_back_where_it_must)
{
	cleanup_inode struct inode *f = NULL;
	cleanup_file struct file *file = NULL;
	struct open_out out = { 0 };
	static char bytes[10000], back[10000];
	uint64_t at;
	REQUEST(q, 0);

	memset(bytes, 'x', sizeof bytes);
	CHECK_INT(make_file(root, "f", &f, NULL), 0);
	CHECK_INT(open_on(&q.r, brick, &(struct open_in){ f, O_RDWR | O_DIRECT }, &out), 0);
	file = out.file;
	CHECK_INT(put(&q.r, file, 0, 0, bytes, 8192, NULL), 8192);
	CHECK_INT(put(&q.r, file, 8192, 0, bytes, 1000, NULL), 1000);
	CHECK_INT(put(&q.r, file, 0, WRITE_APPEND, bytes, 5, &at), 5);
	CHECK_INT(at, 9192);
	CHECK_INT(get(file, 0, back, 10000), 9197);
	CHECK(!memcmp(bytes, back, 9197));
	CHECK_INT(get(file, 4096, back, 4096), 4096);
	CHECK_INT(get(file, 3, back, 9), 9);
	CHECK_INT(get(file, 8192, back, 4096), 1005);
	CHECK_INT(get(file, 9197, back, 1), 0);
	CHECK_INT(get(file, 1 << 20, back, 4096), 0);
}

PROPERTY(an_open_file_does_only_what_it_was_opened_for)
{
	cleanup_inode struct inode *f = NULL, *d = NULL;
	cleanup_file struct file *reads = NULL, *writes = NULL;
	struct open_out out = { 0 };
	char byte;
	REQUEST(q, 0);

	CHECK_INT(make_file(root, "f", &f, NULL), 0);
	CHECK_INT(make_directory(root, "d", 0755, &d), 0);
	CHECK_INT(open_on(&q.r, brick, &(struct open_in){ d, O_RDONLY }, &out), -EISDIR);
	CHECK_INT(open_on(&q.r, brick, &(struct open_in){ f, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW }, &out), 0);
	reads = out.file;
	out.file = NULL;
	CHECK_INT(open_on(&q.r, brick, &(struct open_in){ f, O_WRONLY }, &out), 0);
	writes = out.file;
	CHECK_INT(put(&q.r, reads, 0, 0, "x", 1, NULL), -EBADF);
	CHECK_INT(get(writes, 0, &byte, 1), -EBADF);
	CHECK_INT(put(&q.r, writes, INT64_MAX, 0, "xx", 2, NULL), -EFBIG);
	CHECK_INT(put(&q.r, writes, UINT64_MAX, 0, "xx", 2, NULL), -EFBIG);
	CHECK_INT(get(reads, UINT64_MAX, &byte, 1), -EINVAL);
	CHECK_INT(fallocate_on(&q.r, brick, &(struct fallocate_in){ reads, 0, 0, 10 }, &(struct fallocate_out){ 0 }), -EBADF);
	CHECK_INT(readdir_on(&q.r, brick, &(struct readdir_in){ reads, 0, 4096, 0 }, &(struct readdir_out){ 0 }), -ENOTDIR);
}

PROPERTY(holes_are_punched_found_and_copied)
{
	cleanup_inode struct inode *f = NULL;
	cleanup_file struct file *a = NULL, *b = NULL;
	static char bytes[1 << 16];
	struct seek_out at = { 0 };
	struct copy_range_out copied = { 0 };
	struct attr attr;
	REQUEST(q, 0);

	memset(bytes, 'x', sizeof bytes);
	CHECK_INT(make_file(root, "a", &f, &a), 0);
	CHECK_INT(make_file(root, "b", NULL, &b), 0);
	CHECK_INT(put(&q.r, a, 0, 0, bytes, sizeof bytes, NULL), sizeof bytes);
	CHECK_INT(fallocate_on(&q.r, brick, &(struct fallocate_in){ a, 3, 8192, 8192 }, &(struct fallocate_out){ 0 }), 0);
	CHECK_INT(seek_on(&q.r, brick, &(struct seek_in){ a, 0, SEEK_HOLE }, &at), 0);
	CHECK_INT(at.offset, 8192);
	CHECK_INT(seek_on(&q.r, brick, &(struct seek_in){ a, 8192, SEEK_DATA }, &at), 0);
	CHECK_INT(at.offset, 16384);
	CHECK_INT(seek_on(&q.r, brick, &(struct seek_in){ a, 1 << 20, SEEK_DATA }, &at), -ENXIO);
	CHECK_INT(seek_on(&q.r, brick, &(struct seek_in){ a, 0, SEEK_SET }, &at), -EINVAL);
	CHECK_INT(fallocate_on(&q.r, brick, &(struct fallocate_in){ a, 0x1000, 0, 1 }, &(struct fallocate_out){ 0 }),
		  -EOPNOTSUPP);
	CHECK_INT(copy_range_on(&q.r, brick, &(struct copy_range_in){ a, 100, b, 50, 1 << 20 }, &copied), 0);
	CHECK_INT(copied.copied, sizeof bytes - 100);
	CHECK_INT(get(b, 50, bytes, 10), 10);
	CHECK(!memcmp(bytes, "xxxxxxxxxx", 10));
	CHECK_INT(fsync_on(&q.r, brick, &(struct fsync_in){ b, 1 }, &(struct fsync_out){ 0 }), 0);
	CHECK_INT(attr_get(NULL, b, &attr), 0);
	CHECK_INT(attr.size, 50 + sizeof bytes - 100);
}

/* ---- attributes ---- */

PROPERTY(privileges_go_with_changes_by_ordinary_users)
{
	static const uint8_t capability[20] = { 1, 0, 0, 2, 0, 4 };
	cleanup_inode struct inode *f = NULL;
	cleanup_file struct file *file = NULL;
	const struct setattr privileged = { .valid = SET_MODE, .mode = 06755 };
	struct attr a;
	REQUEST(user, 1000);
	REQUEST(admin, 0);

	CHECK_INT(make_file(root, "f", &f, &file), 0);
	CHECK_INT(set(&admin.r, f, &privileged), 0);
	CHECK_INT(put(&admin.r, file, 0, 0, "x", 1, NULL), 1);
	CHECK(!attr_get(f, NULL, &a) && (a.mode & 07777) == 06755);
	CHECK_INT(put(&admin.r, file, 0, WRITE_KILL_PRIV, "x", 1, NULL), 1);
	CHECK(!attr_get(f, NULL, &a) && (a.mode & 07777) == 0755);
	CHECK_INT(set(&admin.r, f, &privileged), 0);
	CHECK_INT(put(&user.r, file, 0, 0, "x", 1, NULL), 1);
	CHECK(!attr_get(f, NULL, &a) && (a.mode & 07777) == 0755);
	CHECK_INT(set(&admin.r, f, &privileged), 0);
	CHECK_INT(set(&user.r, f, &(struct setattr){ .valid = SET_SIZE }), 0);
	CHECK(!attr_get(f, NULL, &a) && (a.mode & 07777) == 0755);
	CHECK_INT(set(&admin.r, f, &privileged), 0);
	CHECK_INT(set(&admin.r, f, &(struct setattr){ .valid = SET_SIZE | SET_KILL_PRIV }), 0);
	CHECK(!attr_get(f, NULL, &a) && (a.mode & 07777) == 0755);
	CHECK_INT(set(&admin.r, f, &privileged), 0);
	CHECK_INT(set(&admin.r, f, &(struct setattr){ .valid = SET_UID, .uid = 5 }), 0); /* chown, by whomever */
	CHECK(!attr_get(f, NULL, &a) && (a.mode & 07777) == 0755 && a.uid == 5);
	CHECK_INT(set(&admin.r, f, &(struct setattr){ .valid = SET_MODE, .mode = 02644 }), 0);
	CHECK_INT(put(&user.r, file, 0, 0, "x", 1, NULL), 1); /* S_ISGID without group execution means locking */
	CHECK(!attr_get(f, NULL, &a) && (a.mode & 07777) == 02644);
	for (int i = 0; i < 3; i++) {
		CHECK(!setxattr(in_brick("f"), "security.capability", capability, sizeof capability, 0));
		if (i == 0)
			CHECK_INT(put(&admin.r, file, 0, 0, "x", 1, NULL), 1);
		else if (i == 1)
			CHECK_INT(set(&admin.r, f, &(struct setattr){ .valid = SET_SIZE }), 0);
		else
			CHECK_INT(set(&admin.r, f, &(struct setattr){ .valid = SET_GID, .gid = 9 }), 0);
		CHECK(getxattr(in_brick("f"), "security.capability", NULL, 0) < 0);
	}
	CHECK_INT(set(&user.r, f, &(struct setattr){ .valid = SET_MODE, .mode = 02755 }), 0);
	CHECK(!attr_get(f, NULL, &a) && (a.mode & 07777) == 0755); /* not in group 9 */
}

PROPERTY(times_are_set_to_the_nanosecond_or_left)
{
	cleanup_inode struct inode *f = NULL, *l = NULL;
	struct attr a, b;
	REQUEST(q, 0);
	struct symlink_in in = { .loc = { .parent = root, .name = "l" }, .gfid = fresh(), .target = "f" };
	struct symlink_out out = { 0 };

	CHECK_INT(make_file(root, "f", &f, NULL), 0);
	CHECK_INT(symlink_on(&q.r, brick, &in, &out), 0);
	l = inode_ref(out.inode);
	fop_out_clear(FOP_symlink, &out);
	for (int i = 0; i < 2; i++) {
		struct inode *x = i ? l : f;

		CHECK_INT(set(&q.r, x, &(struct setattr){ .valid = SET_ATIME, .atime = { 123456789, 987654321 } }), 0);
		CHECK_INT(attr_get(x, NULL, &a), 0);
		CHECK(a.atime.sec == 123456789 && a.atime.nsec == 987654321 && a.mtime.sec > 1000000000);
		CHECK_INT(set(&q.r, x, &(struct setattr){ .valid = SET_MTIME | SET_ATIME_NOW, .mtime = { -5, 1 } }), 0);
		CHECK_INT(attr_get(x, NULL, &b), 0);
		CHECK(b.mtime.sec == -5 && b.mtime.nsec == 1 && b.atime.sec > 1000000000);
	}
	CHECK_INT(set(&q.r, f, &(struct setattr){ .valid = SET_MTIME, .mtime = { 0, UTIME_NOW } }), -EINVAL);
	CHECK_INT(set(&q.r, l, &(struct setattr){ .valid = SET_UID, .uid = 42 }), 0);
	CHECK(!attr_get(l, NULL, &a) && a.uid == 42 && !attr_get(f, NULL, &a) && a.uid == 0);
	CHECK_INT(set(&q.r, l, &(struct setattr){ .valid = SET_MODE, .mode = 0600 }), -EOPNOTSUPP);
	CHECK_INT(set(&q.r, l, &(struct setattr){ .valid = SET_SIZE }), -EINVAL);
	struct readlink_out target = { 0 };

	CHECK_INT(readlink_on(&q.r, brick, &(struct readlink_in){ l }, &target), 0);
	CHECK(!strcmp(target.target, "f"));
	fop_out_clear(FOP_readlink, &target);
	CHECK_INT(readlink_on(&q.r, brick, &(struct readlink_in){ f }, &target), -EINVAL);
}

/* ---- directories ---- */

PROPERTY(the_private_directory_is_hidden)
{
	cleanup_inode struct inode *f = NULL, *d = NULL;
	struct opendir_out od = { 0 };
	struct readdir_out out = { 0 };
	struct attr a;
	REQUEST(q, 0);

	CHECK_INT(make_file(root, "f", &f, NULL), 0);
	CHECK_INT(make_directory(root, "d", 0755, &d), 0);
	CHECK_INT(find(root, ".stratus", NULL, NULL), -ENOENT);
	CHECK_INT(make_file(root, ".stratus", NULL, NULL), -EPERM);
	CHECK_INT(make_directory(root, ".stratus", 0755, NULL), -EPERM);
	CHECK_INT(drop(root, ".stratus", true), -ENOENT);
	CHECK_INT(move(&q.r, root, ".stratus", root, "x", 0, NULL), -ENOENT);
	CHECK_INT(move(&q.r, root, "f", root, ".stratus", 0, NULL), -EPERM);
	CHECK_INT(hard_link(&q.r, f, root, ".stratus"), -EPERM);
	CHECK_INT(find(root, "d/../.stratus", NULL, NULL), -EINVAL);
	CHECK_INT(find(d, "..", NULL, NULL), -EINVAL);
	CHECK_INT(make_file(d, ".stratus", NULL, NULL), 0); /* elsewhere it is a name like others */
	CHECK_INT(attr_get(root, NULL, &a), 0);
	CHECK_INT(a.nlink, 3);
	CHECK(gfid_equal(&a.gfid, &gfid_root));
	CHECK_INT(opendir_on(&q.r, brick, &(struct opendir_in){ root }, &od), 0);
	CHECK_INT(readdir_on(&q.r, brick, &(struct readdir_in){ od.file, 0, 4096, READDIR_PLUS }, &out), 0);
	CHECK_INT(out.entries.count, 2);
	for (uint32_t i = 0; i < 2; i++)
		CHECK(!strcmp(out.entries.entry[i].name, "f") || !strcmp(out.entries.entry[i].name, "d"));
	fop_out_clear(FOP_readdir, &out);
	fop_out_clear(FOP_opendir, &od);
}

/* Lists the directory from `offset` in pieces of so many bytes; counts what it sees of "nNNN" in seen. */
static int list_all(struct file *file, uint64_t offset, uint32_t size, uint32_t flags, int *seen, int *total)
{
	REQUEST(q, 0);
	bool end = false;

	for (*total = 0; !end;) {
		struct readdir_out out = { 0 };
		int err = readdir_on(&q.r, brick, &(struct readdir_in){ file, offset, size, flags }, &out);

		if (err)
			return err;
		for (uint32_t i = 0; i < out.entries.count; i++) {
			struct dirent_plus *e = &out.entries.entry[i];

			seen[atoi(e->name + 1)]++;
			(*total)++;
			offset = e->next_offset;
			if (flags &&
			    (!e->inode || e->type != (e->attr.mode & S_IFMT) || !gfid_equal(&e->gfid, &e->inode->gfid)))
				return -EUCLEAN;
		}
		end = out.entries.end;
		if (!end && !out.entries.count)
			return -ELOOP;
		fop_out_clear(FOP_readdir, &out);
	}
	return 0;
}

PROPERTY(listings_give_each_entry_once)
{
	enum { COUNT = 700 };
	static int seen[COUNT];
	cleanup_inode struct inode *d = NULL;
	struct opendir_out od = { 0 };
	char name[16];
	int total;
	REQUEST(q, 0);

	CHECK_INT(make_directory(root, "d", 0755, &d), 0);
	for (int i = 0; i < COUNT; i++) {
		snprintf(name, sizeof name, "n%d", i);
		CHECK_INT(i % 3 ? make_file(d, name, NULL, NULL) : make_directory(d, name, 0755, NULL), 0);
	}
	CHECK_INT(opendir_on(&q.r, brick, &(struct opendir_in){ d }, &od), 0);
	for (int round = 0; round < 4; round++) { /* also rewound */
		memset(seen, 0, sizeof seen);
		CHECK_INT(list_all(od.file, 0, (uint32_t[]){ 1, 300, 5000, UINT32_MAX }[round], round % 2, seen, &total), 0);
		CHECK_INT(total, COUNT);
		for (int i = 0; i < COUNT; i++)
			CHECK_INT(seen[i], 1);
	}
	fop_out_clear(FOP_opendir, &od);
}

static unsigned open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

PROPERTY(directories_that_were_removed_are_not_kept_open)
{
	unsigned before = open_descriptors();
	char name[16];

	for (int i = 0; i < 1500; i++) {
		cleanup_inode struct inode *d = NULL;

		snprintf(name, sizeof name, "d%d", i);
		CHECK_INT(make_directory(root, name, 0755, &d), 0);
		CHECK_INT(make_file(d, "f", NULL, NULL), 0);
		CHECK_INT(drop(d, "f", false), 0);
		CHECK_INT(drop(root, name, true), 0);
		struct attr a;

		CHECK_INT(attr_get(d, NULL, &a), -ESTALE);
	}
	CHECK(open_descriptors() <= before + 2);
}

PROPERTY(the_cache_of_directories_is_bounded)
{
	static struct inode *d[1300];
	unsigned before = open_descriptors();
	char name[16];

	for (int i = 0; i < 1300; i++) {
		snprintf(name, sizeof name, "d%d", i);
		CHECK_INT(make_directory(root, name, 0755, &d[i]), 0);
		CHECK_INT(make_file(d[i], "f", NULL, NULL), 0);
	}
	CHECK(open_descriptors() <= before + 1024 + 2);
	for (int i = 0; i < 1300; i++) {
		CHECK_INT(find(d[i], "f", NULL, NULL), 0);
		inode_unref(d[i]);
	}
}

/* ---- compound ---- */

static int compound(struct request *rq, struct step *steps, uint32_t count, struct compound_out *out)
{
	struct compound_in in = { { count, steps } };

	*out = (struct compound_out){ 0 };
	return compound_on(rq, brick, &in, out);
}

PROPERTY(a_compound_stops_at_a_condition_that_fails)
{
	cleanup_inode struct inode *f = NULL;
	cleanup_file struct file *file = NULL;
	struct setxattr_in mark = { .name = "user.mark", .value = { 1, (void *)"1" } };
	struct setattr_in grow = { .set = { .valid = SET_SIZE, .size = 10 } };
	struct compound_out out;
	struct attr a;
	REQUEST(q, 0);

	CHECK_INT(make_file(root, "f", &f, &file), 0);
	mark.inode = grow.inode = f;
	struct step steps[] = {
		{ { .kind = IF_NO_XATTR, .inode = f, .name = (char *)"user.mark" }, FOP_setxattr, &mark },
		{ { .kind = IF_SIZE, .inode = f, .size = 0 }, FOP_setattr, &grow },
		{ { .kind = IF_XATTR, .inode = f, .name = (char *)"user.mark", .value = { 1, (void *)"2" } },
		  FOP_setattr,
		  &grow },
		{ { .kind = IF_NOTHING }, FOP_setattr, &grow },
	};
	CHECK_INT(compound(&q.r, steps, 4, &out), 0);
	CHECK_INT(out.results.count, 3);
	CHECK_INT(out.results.result[1].status, 0);
	CHECK(out.results.result[1].out);
	CHECK_INT(out.results.result[2].status, -ECANCELED);
	CHECK(!out.results.result[2].out);
	fop_out_clear(FOP_compound, &out);
	CHECK(!attr_get(f, NULL, &a) && a.size == 10);
	CHECK_INT(compound(&q.r, steps, 4, &out), 0);
	CHECK_INT(out.results.count, 1);
	CHECK_INT(out.results.result[0].status, -ECANCELED);
	fop_out_clear(FOP_compound, &out);
	struct step bad[] = { { { 0 }, FOP_compound, &grow },
			      { { 0 }, FOP_setlk, &grow },
			      { { .kind = 99 }, FOP_setattr, &grow },
			      { { .kind = IF_XATTR }, FOP_setattr, &grow },
			      { { 0 }, 9999, &grow },
			      { { 0 }, FOP_setattr, NULL } };

	for (int i = 0; i < 6; i++)
		CHECK_INT(compound(&q.r, &bad[i], 1, &out), -EINVAL);
	CHECK_INT(compound(&q.r, steps, COMPOUND_MAX + 1, &out), -EINVAL);
	CHECK_INT(compound(&q.r, NULL, 0, &out), 0);
}

PROPERTY(a_compound_passes_results_on)
{
	cleanup_buffer struct buffer *data = buffer_from("hello", 5);
	struct mkdir_in dir = { .loc = { .parent = root, .name = "d" }, .gfid = fresh(), .mode = 0755 };
	struct create_in make = { .loc = { .name = "f" }, .gfid = fresh(), .flags = O_RDWR | O_EXCL, .mode = 0644 };
	struct write_in data_in = { .data = data };
	struct setxattr_in mark = { .name = "user.a", .value = { 1, (void *)"1" } };
	struct getattr_in look = { 0 };
	struct fsync_in sync = { 0 };
	struct step steps[] = {
		{ { .kind = IF_ABSENT, .loc = { .parent = root, .name = "d" } }, FOP_mkdir, &dir },
		{ { .kind = IF_ABSENT, .loc = { .name = "f" } }, FOP_create, &make },
		{ { .kind = IF_SIZE, .size = 0 }, FOP_write, &data_in },
		{ { 0 }, FOP_setxattr, &mark },
		{ { .kind = IF_SIZE, .size = 5 }, FOP_fsync, &sync },
		{ { .kind = IF_EXISTS, .loc = { .parent = root, .name = "d" } }, FOP_getattr, &look },
	};
	struct compound_out out;
	REQUEST(q, 0);

	CHECK_INT(compound(&q.r, steps, 6, &out), 0);
	CHECK_INT(out.results.count, 6);
	for (int i = 0; i < 6; i++)
		CHECK_INT(out.results.result[i].status, 0);
	CHECK_INT(((struct getattr_out *)out.results.result[5].out)->attr.size, 5);
	CHECK(gfid_equal(&((struct getattr_out *)out.results.result[5].out)->attr.gfid, &make.gfid));
	CHECK_INT(((struct write_out *)out.results.result[2].out)->written, 5);
	fop_out_clear(FOP_compound, &out);
	CHECK(getxattr(in_brick("d/f"), "user.a", NULL, 0) == 1);
	CHECK_INT(compound(&q.r, &steps[3], 1, &out), 0); /* nothing went before: no inode */
	CHECK_INT(out.results.result[0].status, -ESTALE);
	fop_out_clear(FOP_compound, &out);
}

/* A counter in an xattr, raised by "if it is n, make it n + 1", with plain changes beside: no step is lost. */
struct counting {
	struct inode *inode;
	atomic_int left, done;
	struct task *waiter;
};

static void count_up(void *arg)
{
	struct counting *c = arg;
	REQUEST(q, 0);

	for (int n = 0; atomic_load(&c->done) < 600;) {
		int next = n + 1;
		struct setxattr_in in = { .inode = c->inode, .name = "user.n", .value = { sizeof next, &next } };
		struct step step = {
			{ .kind = IF_XATTR, .inode = c->inode, .name = (char *)"user.n", .value = { sizeof n, &n } },
			FOP_setxattr,
			&in
		};
		struct compound_out out;

		if (compound(&q.r, &step, 1, &out))
			failures++;
		else if (!out.results.result[0].status)
			atomic_fetch_add(&c->done, 1), n++;
		else if (out.results.result[0].status == -ECANCELED)
			getxattr(in_brick("f"), "user.n", &n, sizeof n);
		else
			failures++;
		fop_out_clear(FOP_compound, &out);
		set(&q.r, c->inode, &(struct setattr){ .valid = SET_MODE, .mode = 0600 });
		task_yield();
	}
	atomic_fetch_sub(&c->left, 1);
	task_wake(c->waiter);
}

PROPERTY(compounds_are_alone_at_their_objects)
{
	cleanup_inode struct inode *f = NULL;
	struct counting c = { .left = 4, .waiter = task_self() };
	int n = 0;

	CHECK_INT(make_file(root, "f", &f, NULL), 0);
	CHECK(!setxattr(in_brick("f"), "user.n", &n, sizeof n, 0));
	c.inode = f;
	for (unsigned i = 0; i < 4; i++)
		CHECK_INT(task_spawn(runtime_shard(i % 2), count_up, &c), 0);
	while (atomic_load(&c.left))
		task_wait(NO_DEADLINE);
	CHECK(getxattr(in_brick("f"), "user.n", &n, sizeof n) == sizeof n);
	CHECK_INT(n, atomic_load(&c.done));
}

/* ---- the brick ---- */

static void expect_refusal(const char *directory, const char *volume, const char *more, const char *sentence)
{
	struct problem p;
	struct graph *g;

	assert_true(try_open(directory, volume, BRICK_ID, more, &g, &p) < 0);
	if (!strstr(p.text, sentence))
		fail_msg("\"%s\" does not say \"%s\"", p.text, sentence);
}

static unsigned entries_in(const char *path)
{
	DIR *dir = opendir(path);
	unsigned count = 0;

	if (!dir)
		return 0;
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void what_is_no_brick_of_ours_is_refused_untouched(void **state)
{
	char dir[140], file[160];

	(void)state;
	snprintf(dir, sizeof dir, "%s/new", base);
	expect_refusal(dir, VOLUME_ID, "", "does not exist");
	assert_int_not_equal(access(dir, F_OK), 0);
	assert_int_equal(mkdir(dir, 0755), 0);
	expect_refusal(dir, VOLUME_ID, " option format never\n", "is no brick");
	expect_refusal(dir, "abc", "", "is not a UUID");
	expect_refusal(dir, VOLUME_ID, " option free-space-floor much\n", "free-space-floor");
	snprintf(file, sizeof file, "%s/data", dir);
	close(open(file, O_CREAT | O_WRONLY, 0600));
	expect_refusal(dir, VOLUME_ID, "", "not empty");
	assert_int_equal(entries_in(dir), 3);
	expect_refusal(file, VOLUME_ID, "", "can't open");
	expect_refusal(path_of("%s/brick%s", ""), VOLUME_ID, "", "being served already");
	expect_refusal(path_of("%s/brick%s", ""), OTHER_ID, "", VOLUME_ID);
	expect_refusal(path_of("%s/brick%s", ""), OTHER_ID, "", OTHER_ID);
}

static void fill_staging_(void *arg)
{
	(void)arg;
	CHECK(!mkdir(in_brick(".stratus/staging/left"), 0700));
	CHECK(!close(open(in_brick(".stratus/staging/over"), O_CREAT | O_WRONLY, 0600)));
}

static void a_start_clears_what_a_crash_left(void **state)
{
	struct stat st;

	(void)state;
	run(fill_staging_);
	close_brick();
	assert_int_equal(unlink(in_brick(".stratus/format")), 0); /* as if the crash came while formatting */
	open_brick();
	assert_int_equal(entries_in(in_brick(".stratus/staging")), 2);
	assert_int_equal(stat(in_brick(".stratus"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(stat(in_brick(".stratus/keys"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void fill_up_(void *arg)
{
	cleanup_inode struct inode *f = NULL;
	cleanup_file struct file *file = NULL;
	REQUEST(q, 0);

	(void)arg;
	CHECK_INT(find(root, "f", &f, NULL), 0);
	struct open_out out = { 0 };

	CHECK_INT(open_on(&q.r, brick, &(struct open_in){ f, O_RDWR }, &out), 0);
	file = out.file;
	CHECK_INT(put(&q.r, file, 0, 0, "x", 1, NULL), -ENOSPC);
	CHECK_INT(make_file(root, "g", NULL, NULL), -ENOSPC);
	CHECK_INT(make_directory(root, "h", 0755, NULL), -ENOSPC);
	CHECK_INT(fallocate_on(&q.r, brick, &(struct fallocate_in){ file, 0, 0, 4096 }, &(struct fallocate_out){ 0 }), -ENOSPC);
	struct statfs_out s = { 0 };

	CHECK_INT(statfs_on(&q.r, brick, &(struct statfs_in){ root }, &s), 0);
	CHECK_INT(s.statfs.bavail, 0);
	CHECK(s.statfs.blocks > 0);
	CHECK_INT(fallocate_on(&q.r, brick, &(struct fallocate_in){ file, 3, 0, 4096 }, &(struct fallocate_out){ 0 }), 0);
	CHECK_INT(drop(root, "f", false), 0);
}

static void below_the_floor_nothing_is_added(void **state)
{
	struct problem p;

	(void)state;
	run(keep_handle_);
	close_brick();
	assert_int_equal(try_open(path_of("%s/brick%s", ""), VOLUME_ID, BRICK_ID, " option free-space-floor 99.99%\n", &graph,
				  &p),
			 0);
	brick = graph->top;
	root = inode_get(graph->inodes, &gfid_root, S_IFDIR);
	run(fill_up_);
}

static int start(void **state)
{
	(void)state;
	return runtime_start(2, 0);
}

static int stop(void **state)
{
	(void)state;
	runtime_stop();
	return 0;
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(nothing_is_visible_without_identity),
		T(creation_sets_owner_mode_and_umask),
		T(an_unknown_group_list_is_asked_for),
		T(inherited_acls_are_the_kernels),
		T(forged_handles_are_refused),
		T(handles_outlive_a_restart_and_one_key),
		T(handles_of_removed_objects_are_stale),
		T(handles_of_another_brick_are_stale),
		T(renames_and_links_keep_the_identity),
		T(the_identity_of_one_link_fits_into_the_inode),
		T(foreign_objects_get_an_identity),
		T(internal_attributes_are_hidden),
		T(a_resent_request_succeeds_if_the_first_was_done),
		T(a_gfid_is_given_once),
		T(appends_never_overlap),
		T(an_unlinked_open_file_lives_on),
		T(direct_io_falls_back_where_it_must),
		T(an_open_file_does_only_what_it_was_opened_for),
		T(holes_are_punched_found_and_copied),
		T(privileges_go_with_changes_by_ordinary_users),
		T(times_are_set_to_the_nanosecond_or_left),
		T(the_private_directory_is_hidden),
		T(listings_give_each_entry_once),
		T(directories_that_were_removed_are_not_kept_open),
		T(the_cache_of_directories_is_bounded),
		T(a_compound_stops_at_a_condition_that_fails),
		T(a_compound_passes_results_on),
		T(compounds_are_alone_at_their_objects),
		T(what_is_no_brick_of_ours_is_refused_untouched),
		T(a_start_clears_what_a_crash_left),
		T(below_the_floor_nothing_is_added),
	};

	if (geteuid() != 0) {
		puts("not root: skipped");
		return 77;
	}
	return cmocka_run_group_tests(tests, start, stop);
}
