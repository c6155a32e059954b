/* SPDX-License-Identifier: Apache-2.0 */
/* features/cloud over features/access and storage/posix: tenants of one brick see nothing of each other, and what is theirs has ids of theirs.
 * Needs root and a file system with ACLs and trusted attributes. TEST_SEED repeats a run. */
#include "cloud-test.h"

#include <sys/sysmacros.h>

#include "born.h"

enum { FORGED = 100000 };
#define GRAPH                                                                                                                  \
	"volume posix\ntype storage/posix\noption directory %s\noption volume-id 11111111-2222-3333-4444-555555555555\n"       \
	"option brick-id 11111111-2222-3333-4444-666666666666\nend-volume\n"                                                   \
	"volume locks\ntype features/locks\nsubvolumes posix\nend-volume\n"                                                    \
	"volume access\ntype features/access\nsubvolumes locks\nend-volume\n"                                                  \
	"volume layout\ntype features/layout\noption subvolume 0\noption initial 4\nsubvolumes access\nend-volume\n"           \
	"volume cloud\ntype features/cloud\n%soption tenants \"%s\"\nsubvolumes layout\nend-volume\n"

char dir[64];
unsigned seed;
atomic_int failures;
static struct xlator *cloud, *leaf;
struct client acme = { .identity = "stratus:tenant/acme", .name = "acme", .id = { 1 } },
	      globex = { .identity = "stratus:tenant/globex", .name = "globex", .id = { 2 } },
	      server = { .identity = "stratus:server", .name = "server", .id = { 3 } };
static struct gfid acme_id, globex_id;

/* ---- the stack ---- */

void with(const char *options, const char *tenants, void (*fn)(void *))
{
	struct problem p = { "" };
	struct tree t;
	char text[2048];

	if (geteuid())
		skip();
	failures = 0;
	test_directory(dir, sizeof(dir), "cloud-test");
	umask(0);
	snprintf(text, sizeof(text), GRAPH, dir, options, tenants);
	if (tree_open(&t, text, &p))
		fail_msg("%s", p.text);
	cloud = tree_find(&t, "cloud");
	leaf = tree_find(&t, "posix");
	task_call(fn, &t);
	tree_close(&t);
	test_remove(dir);
	assert_int_equal(failures, 0);
}

int become(struct tree *t, struct client *who, uint32_t id)
{
	struct bearer bearer;

	return tree_become(t, cloud, who, id, &bearer);
}

/* ---- apart from each other ---- */

static void apart(void *arg)
{
	struct tree *t = arg;
	struct dirents all;
	struct file *f;
	struct attr a;

	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_put(t, "same", "acme's"), 0);
	CHECK_INT(tree_put(t, "only", "acme's"), 0);
	CHECK_INT(become(t, &globex, 0), 0);
	CHECK_INT(tree_put(t, "same", "of globex"), 0);
	CHECK_INT(tree_getattr(t, "only", &a), -ENOENT);
	CHECK_INT(tree_getattr(t, "same", &a), 0);
	CHECK_INT((long long)a.size, 9);
	CHECK_INT(tree_getattr(t, "tenants", &a), -ENOENT);
	CHECK_INT(tree_getattr(t, "..", &a), -EINVAL);
	CHECK_INT(tree_opendir(t, "", &f), 0);
	CHECK_INT(tree_readdir(t, f, &all), 0);
	CHECK_INT(all.count, 1);
	fop_out_clear(FOP_readdir, &(struct readdir_out){ all });
	tree_release(t, f);
	CHECK_INT(become(t, &server, 0), 0);
	CHECK_INT(tree_getattr(t, "tenants/acme/only", &a), 0);
	CHECK_INT(a.uid, ACME);
	CHECK_INT(tree_getattr(t, "tenants/globex", &a), 0);
	CHECK_INT(a.uid, GLOBEX);
	CHECK(gfid_equal(&a.gfid, &globex_id));
}

static void tenants_see_nothing_of_each_other(void **state)
{
	(void)state;
	with("", TENANTS("active", "active"), apart);
}

/* ---- handles ---- */

unsigned next_random(void)
{
	seed = seed * 1103515245 + 12345;
	return seed >> 8;
}

static int handle_of(struct tree *t, const struct gfid *tenant, const char *path, uint8_t *bytes, size_t *size)
{
	cleanup_inode struct inode *inode = NULL;
	int err = tree_walk(t, path, &inode);

	*size = HANDLE_SIZE_MAX;
	if (err)
		return err;
	return tenant ? leaf->type->tenant_handle(leaf, &(struct bearer){ .tenant = *tenant }, inode, bytes, size)
		      : leaf->type->inode_handle(leaf, inode, bytes, size);
}

static int by_handle(const struct gfid *tenant, const uint8_t *bytes, size_t size)
{
	struct inode *inode = NULL;
	int err = tenant ? leaf->type->tenant_from_handle(leaf, &(struct bearer){ .tenant = *tenant }, bytes, size, &inode)
			 : leaf->type->inode_from_handle(leaf, bytes, size, &inode);

	inode_unref(inode);
	return err;
}

static void handles(void *arg)
{
	struct tree *t = arg;
	uint8_t good[HANDLE_SIZE_MAX], root[HANDLE_SIZE_MAX], plain[HANDLE_SIZE_MAX], bad[HANDLE_SIZE_MAX];
	size_t size, root_size, plain_size;

	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_put(t, "file", "secret"), 0);
	CHECK_INT(handle_of(t, &acme_id, "file", good, &size), 0);
	CHECK_INT(handle_of(t, &acme_id, "", root, &root_size), 0);
	CHECK_INT(handle_of(t, NULL, "file", plain, &plain_size), 0);
	CHECK_INT(by_handle(&acme_id, good, size), 0);
	/* Real ones, of somebody else: replayed by the other tenant, a tenant's as a server's, a server's as a tenant's. */
	CHECK_INT(by_handle(&globex_id, good, size), -ESTALE);
	CHECK_INT(by_handle(&globex_id, root, root_size), -ESTALE);
	CHECK_INT(by_handle(&globex_id, plain, plain_size), -ESTALE);
	CHECK_INT(by_handle(&acme_id, plain, plain_size), -ESTALE);
	CHECK_INT(by_handle(NULL, good, size), -ESTALE);
	for (int i = 0; i < FORGED; i++) {
		size_t at = next_random() % size, length = i % 3 ? size : next_random() % sizeof(bad);

		for (size_t k = 0; i % 2 && k < sizeof(bad); k++)
			bad[k] = (uint8_t)next_random();
		if (i % 2 == 0) {
			memcpy(bad, good, sizeof(bad));
			bad[at] ^= (uint8_t)(1 + next_random() % 255);
		}
		CHECK_INT(by_handle(i % 5 ? &acme_id : &globex_id, bad, length), -ESTALE);
	}
}

static void handles_are_bound_to_the_tenant(void **state)
{
	(void)state;
	with("", TENANTS("active", "active"), handles);
}

/* ---- ids on the way in ---- */

struct blob acl_of(uint32_t user, uint32_t group)
{
	static struct {
		struct posix_acl_xattr_header head;
		struct posix_acl_xattr_entry entry[6];
	} acl;

	acl.head.a_version = POSIX_ACL_XATTR_VERSION;
	acl.entry[0] = (struct posix_acl_xattr_entry){ ACL_USER_OBJ, 7, ACL_UNDEFINED_ID };
	acl.entry[1] = (struct posix_acl_xattr_entry){ ACL_USER, 5, user };
	acl.entry[2] = (struct posix_acl_xattr_entry){ ACL_GROUP_OBJ, 5, ACL_UNDEFINED_ID };
	acl.entry[3] = (struct posix_acl_xattr_entry){ ACL_GROUP, 4, group };
	acl.entry[4] = (struct posix_acl_xattr_entry){ ACL_MASK, 7, ACL_UNDEFINED_ID };
	acl.entry[5] = (struct posix_acl_xattr_entry){ ACL_OTHER, 0, ACL_UNDEFINED_ID };
	return (struct blob){ sizeof(acl), &acl };
}

static const uint32_t strange[] = { RANGE, RANGE + 1, ACME, GLOBEX, GLOBEX + 1, 0x7fffffff, 0xfffffffe, 0xffffffff };

static int set_in_compound(struct tree *t, struct inode *inode, const struct setattr *s)
{
	struct setattr_in set = { .inode = inode, .set = *s };
	struct getattr_in get = { .inode = inode };
	struct step step[2] = { { .fop = FOP_getattr, .in = &get }, { .fop = FOP_setattr, .in = &set } };
	struct compound_in in = { .steps = { 2, step } };
	struct compound_out out = { 0 };
	int err = tree_call(t, t->at, FOP_compound, &in, &out);

	if (!err)
		err = out.results.result[out.results.count - 1].status;
	fop_out_clear(FOP_compound, &out);
	return err;
}

static void strange_ids(void *arg)
{
	struct tree *t = arg;
	cleanup_inode struct inode *inode = NULL;
	struct attr a;

	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_put(t, "file", "x"), 0);
	CHECK_INT(tree_walk(t, "file", &inode), 0);
	for (size_t i = 0; i < sizeof(strange) / sizeof(*strange); i++) {
		uint32_t id = strange[i];
		gid_t groups[] = { 5, id };
		struct setattr owner = { .valid = SET_UID, .uid = id }, group = { .valid = SET_GID, .gid = id };
		struct blob user_acl = acl_of(id, 5), group_acl;

		CHECK_INT(tree_setattr(t, "file", &owner), -EINVAL);
		CHECK_INT(tree_setattr(t, "file", &group), -EINVAL);
		CHECK_INT(set_in_compound(t, inode, &owner), -EINVAL);
		CHECK_INT(tree_setxattr(t, "file", "system.posix_acl_access", user_acl.bytes, user_acl.size, 0), -EINVAL);
		group_acl = acl_of(5, id);
		CHECK_INT(tree_setxattr(t, "file", "system.posix_acl_access", group_acl.bytes, group_acl.size, 0), -EINVAL);
		t->uid = id;
		CHECK_INT(tree_getattr(t, "file", &a), -EINVAL);
		t->uid = 0, t->gid = id;
		CHECK_INT(tree_getattr(t, "file", &a), -EINVAL);
		t->gid = 0, t->groups = groups, t->group_count = 2;
		CHECK_INT(tree_getattr(t, "file", &a), -EINVAL);
		t->group_count = 0;
	}
	CHECK_INT(tree_getattr(t, "file", &a), 0);
	CHECK_INT(a.uid, 0);
	CHECK_INT(a.gid, 0);
}

static void ids_outside_the_range_are_refused_everywhere(void **state)
{
	(void)state;
	with("", TENANTS("active", "active"), strange_ids);
}

/* What others have put there is nobody's, and can't be named. */
static void others_ids(void *arg)
{
	struct tree *t = arg;
	char path[128];
	struct attr a;

	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_put(t, "file", "x"), 0);
	snprintf(path, sizeof(path), "%s/tenants/acme/file", dir);
	CHECK_INT(chown(path, ACME + RANGE, ACME - 1), 0);
	CHECK_INT(tree_getattr(t, "file", &a), 0);
	CHECK_INT(a.uid, 65534);
	CHECK_INT(a.gid, 65534);
}

static void an_id_of_somebody_else_is_shown_as_nobody(void **state)
{
	(void)state;
	with("", TENANTS("active", "active"), others_ids);
}

/* In each kind of answer. */
static void each_answer(void *arg)
{
	struct setattr give = { .valid = SET_UID | SET_GID, .uid = 1000, .gid = 1001 };
	struct tree *t = arg;
	cleanup_inode struct inode *inode = NULL;
	struct readdir_in list = { .size = 4096, .flags = READDIR_PLUS };
	struct readdir_out listed = { 0 };
	struct getattr_in get = { 0 };
	struct getattr_out got;
	struct step step[2] = { { .fop = FOP_getattr, .in = &get }, { .fop = FOP_getattr, .in = &get } };
	struct compound_in in = { .steps = { 2, step } };
	struct compound_out out = { 0 };
	struct request rq;

	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_put(t, "file", "x"), 0);
	CHECK_INT(tree_setattr(t, "file", &give), 0);
	CHECK_INT(tree_walk(t, "file", &inode), 0);
	get.inode = inode;
	CHECK_INT(tree_call(t, t->at, FOP_compound, &in, &out), 0);
	CHECK_INT(out.results.count, 2);
	for (int i = 0; i < 2; i++)
		CHECK_INT(((struct getattr_out *)out.results.result[i].out)->attr.uid, 1000);
	fop_out_clear(FOP_compound, &out);
	CHECK_INT(tree_opendir(t, "", &list.file), 0);
	CHECK_INT(tree_call(t, t->at, FOP_readdir, &list, &listed), 0);
	CHECK_INT(listed.entries.count, 1);
	CHECK(listed.entries.entry[0].inode);
	CHECK_INT(listed.entries.entry[0].attr.uid, 1000);
	CHECK_INT(listed.entries.entry[0].attr.gid, 1001);
	fop_out_clear(FOP_readdir, &listed);
	tree_release(t, list.file);
	/* The request is its sender's again afterwards. */
	request_init(&rq, t->graph, 0);
	rq.client = &acme;
	rq.uid = 5;
	rq.group_count = 1;
	rq.groups = malloc(sizeof(gid_t));
	rq.groups[0] = 6;
	for (int i = 0; i < 2; i++)
		CHECK_INT(fop_call(&rq, t->at, FOP_getattr, &get, &got), 0);
	CHECK_INT(rq.uid, 5);
	CHECK_INT(rq.gid, 0);
	CHECK_INT(rq.root, 0);
	CHECK_INT(rq.groups[0], 6);
	request_finish(&rq);
}

static void ids_are_the_tenants_in_each_kind_of_answer(void **state)
{
	(void)state;
	with("", TENANTS("active", "active"), each_answer);
}

/* ---- internal attributes, devices, privileges ---- */

static int born_with(struct tree *t, const char *xattr)
{
	const struct born_xattr born = { xattr, "x", 1 };
	struct mkdir_in in = { .mode = 0755 };
	struct mkdir_out out = { 0 };
	struct request rq;
	int err = tree_loc(t, "born", &in.loc);

	gfid_create(&in.gfid);
	request_init(&rq, t->graph, 0);
	rq.client = t->client;
	if (!err)
		err = born_attach(&rq, &born, 1);
	if (!err)
		err = fop_call(&rq, t->at, FOP_mkdir, &in, &out);
	request_finish(&rq);
	fop_out_clear(FOP_mkdir, &out);
	inode_unref(in.loc.parent);
	return err;
}

static int asked_in_compound(struct tree *t, const char *name)
{
	cleanup_inode struct inode *inode = NULL;
	int err = tree_walk(t, "file", &inode);
	struct getattr_in get = { .inode = inode };
	struct step step = { { .kind = IF_NO_XATTR, .inode = inode, .name = (char *)name }, FOP_getattr, &get };
	struct compound_in in = { .steps = { 1, &step } };
	struct compound_out out = { 0 };

	if (!err)
		err = tree_call(t, t->at, FOP_compound, &in, &out);
	fop_out_clear(FOP_compound, &out);
	return err;
}

static void internal(void *arg)
{
	static const char *const names[] = {
		"trusted.sfs",	    "trusted.stratus.x", "trusted.dht.layout",	    "trusted.own",  "security.capability",
		"security.selinux", "security.other",	 "system.stratus.location", "system.other", "odd"
	};
	struct tree *t = arg;
	cleanup_inode struct inode *inode = NULL;
	struct listxattr_in list;
	struct listxattr_out listed = { 0 };
	struct blob value;
	char path[128];

	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_put(t, "file", "x"), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		int err = tree_getxattr(t, "file", names[i], &value);

		CHECK(err == -ENODATA || err == -EOPNOTSUPP);
		err = tree_setxattr(t, "file", names[i], "x", 1, 0);
		CHECK(err == -EPERM || err == -EOPNOTSUPP);
		err = tree_removexattr(t, "file", names[i]);
		CHECK(err == -EPERM || err == -EOPNOTSUPP);
		err = born_with(t, names[i]);
		CHECK(err == -EPERM || err == -EOPNOTSUPP);
		CHECK_INT(asked_in_compound(t, names[i]), -EPERM);
	}
	CHECK_INT(born_with(t, "system.posix_acl_access"), -EOPNOTSUPP);
	CHECK_INT(tree_setxattr(t, "file", "user.own", "x", 1, 0), 0);
	snprintf(path, sizeof(path), "%s/tenants/acme/file", dir); /* what the provider puts there */
	CHECK_INT(setxattr(path, "trusted.own", "x", 1, 0), 0);
	CHECK_INT(tree_getxattr(t, "file", "trusted.own", &value), -ENODATA);
	CHECK_INT(born_with(t, "user.own"), 0);
	CHECK_INT(tree_walk(t, "file", &inode), 0);
	list.inode = inode;
	CHECK_INT(tree_call(t, t->at, FOP_listxattr, &list, &listed), 0);
	CHECK_INT(listed.names.size, sizeof("user.own"));
	fop_out_clear(FOP_listxattr, &listed);
}

static void what_is_the_bricks_own_is_hidden_and_refused(void **state)
{
	(void)state;
	with("", TENANTS("active", "active"), internal);
}

static uint32_t mode_after_writing(struct tree *t, uint32_t who)
{
	struct setattr privileged = { .valid = SET_MODE, .mode = 06777 };
	struct file *f = NULL;
	struct attr a = { 0 };

	t->uid = t->gid = 0;
	tree_setattr(t, "given", &privileged);
	t->uid = t->gid = who;
	if (!tree_open_file(t, "given", O_WRONLY, &f))
		tree_write(t, f, 0, "x", 1);
	if (f)
		tree_release(t, f);
	tree_getattr(t, "given", &a);
	return a.mode & 07777;
}

static void powers(void *arg)
{
	struct tree *t = arg;
	struct setattr give = { .valid = SET_UID | SET_GID, .uid = 1000, .gid = 1000 },
		       mode = { .valid = SET_MODE, .mode = 0600 };
	struct attr a;

	CHECK_INT(become(t, &acme, 1000), 0);
	CHECK_INT(tree_put(t, "no", "x"), -EACCES); /* the root is the tenant's root's */
	t->uid = t->gid = 0;
	CHECK_INT(tree_put(t, "given", "x"), 0);
	CHECK_INT(tree_setattr(t, "given", &give), 0);
	CHECK_INT(tree_setattr(t, "given", &mode), 0);
	CHECK_INT(tree_access(t, "given", R_OK | W_OK), 0); /* root's powers */
	CHECK_INT(tree_mknod(t, "null", S_IFCHR | 0666, makedev(1, 3)), 0);
	t->uid = t->gid = 1001;
	CHECK_INT(tree_access(t, "given", R_OK), -EACCES);
	CHECK_INT(tree_setattr(t, "given", &give), -EPERM);
	CHECK_INT(tree_mknod(t, "zero", S_IFCHR | 0666, makedev(1, 5)), -EACCES);
	t->uid = t->gid = 1000;
	CHECK_INT(tree_access(t, "given", R_OK), 0);
	CHECK_INT(mode_after_writing(t, 0), 06777);
	CHECK_INT(mode_after_writing(t, 1002), 0777);
	CHECK_INT(become(t, &globex, 0), 0);
	CHECK_INT(tree_getattr(t, "given", &a), -ENOENT);
}

static void the_root_of_a_tenant_is_root_inside(void **state)
{
	(void)state;
	with("", TENANTS("active", "active"), powers);
}

static void policy(void *arg)
{
	struct tree *t = arg;
	struct setattr mode = { .valid = SET_MODE, .mode = 06755 };
	struct attr a;

	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_mknod(t, "null", S_IFCHR | 0666, makedev(1, 3)), -EPERM);
	CHECK_INT(tree_mknod(t, "fifo", S_IFIFO | 0666, 0), 0);
	CHECK_INT(tree_put(t, "file", "x"), 0);
	CHECK_INT(tree_setattr(t, "file", &mode), 0);
	CHECK_INT(tree_getattr(t, "file", &a), 0);
	CHECK_INT(a.mode & 07777, 0755);
}

static void privileges_and_devices_are_not_stored_where_the_policy_says_so(void **state)
{
	(void)state;
	with("option privileges drop\noption devices refuse\n", TENANTS("active", "active"), policy);
}

/* ---- who may ---- */

static int change_tenants(const char *text)
{
	struct problem p = { "" };
	int err = option_change(cloud->type->options, cloud->private, "test", "tenants", text, &p);

	if (!err)
		cloud->type->reconfigure(cloud, option_find(cloud->type->options, "tenants"));
	return err;
}

static void admission(void *arg)
{
	static const char *const nobody[] = { NULL,
					      "",
					      "stratus:admin",
					      "stratus:tenant/",
					      "stratus:tenant/nobody",
					      "stratus:tenant/acm",
					      "stratus:tenant/acme/x",
					      "stratus:tenant/acme/access/x",
					      "stratus:tenant/nobody/admin",
					      "stratus:servers",
					      "tenant/acme" };
	struct client stranger = acme;
	struct tree *t = arg;
	struct attr a;

	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_put(t, "file", "x"), 0);
	for (size_t i = 0; i < sizeof(nobody) / sizeof(*nobody); i++) {
		stranger.identity = nobody[i];
		CHECK_INT(cloud->type->admit(cloud, &stranger, NULL, NULL), -EACCES);
		t->client = &stranger;
		CHECK_INT(tree_getattr(t, "", &a), -EACCES);
	}
	t->client = &acme;
	CHECK_INT(change_tenants(TENANTS("suspended", "active")), 0);
	CHECK_INT(tree_getattr(t, "file", &a), -EACCES);
	CHECK_INT(cloud->type->admit(cloud, &acme, NULL, NULL), -EACCES);
	CHECK_INT(cloud->type->admit(cloud, &globex, NULL, NULL), 0);
	CHECK_INT(change_tenants("acme " ACME_ID " 131072 65536 active, globex " GLOBEX_ID " 131072 65536 active"), 0);
	CHECK_INT(tree_getattr(t, "file", &a), -EACCES); /* a table that makes no sense resumes nobody */
	CHECK_INT(change_tenants(TENANTS("active", "active")), 0);
	CHECK_INT(tree_getattr(t, "file", &a), 0);
}

static void who_is_no_active_tenant_gets_nothing(void **state)
{
	(void)state;
	with("", TENANTS("active", "active"), admission);
}

static void forbidden_gfids(void *arg)
{
	struct tree *t = arg;
	struct mkdir_in in = { .mode = 0755 };
	struct mkdir_out out = { 0 };
	struct replica_in replica = { .verb = 1 };
	struct replica_out told = { 0 };
	struct gfid bad[4] = { gfid_root, acme_id, globex_id, { { [15] = 2 } } };

	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_loc(t, "d", &in.loc), 0);
	for (int i = 0; i < 4; i++) {
		in.gfid = bad[i];
		CHECK_INT(tree_call(t, t->at, FOP_mkdir, &in, &out), -EINVAL);
	}
	inode_unref(in.loc.parent);
	CHECK_INT(tree_call(t, t->at, FOP_replica, &replica, &told), -EOPNOTSUPP);
}

static void what_the_brick_has_by_a_gfid_cannot_be_made_again(void **state)
{
	(void)state;
	with("", TENANTS("active", "active"), forbidden_gfids);
}

static bool is_there(const char *name)
{
	char path[128];
	struct stat st;

	snprintf(path, sizeof(path), "%s/tenants/%s", dir, name);
	return !lstat(path, &st);
}

static void deletion(void *arg)
{
	struct tree *t = arg;
	char path[64] = "d", name[64];

	CHECK_INT(become(t, &globex, 0), 0);
	CHECK_INT(tree_put(t, "stays", "x"), 0);
	CHECK_INT(become(t, &acme, 0), 0);
	for (int depth = 0; depth < 20; depth++) {
		CHECK_INT(tree_mkdir(t, path, 0), 0);
		for (int i = 0; i < 20; i++) {
			snprintf(name, sizeof(name), "%.40s/f%d", path, i);
			CHECK_INT(tree_put(t, name, "x"), 0);
		}
		strcat(path, "/d");
	}
	CHECK_INT(change_tenants(TENANTS("deleted", "active")), 0);
	CHECK_INT(become(t, &acme, 0), -EACCES);
	for (int i = 0; i < 24000 && is_there("acme"); i++)
		task_sleep_ms(5);
	CHECK(!is_there("acme"));
	CHECK(is_there("globex/stays"));
}

static void the_files_of_a_deleted_tenant_go(void **state)
{
	(void)state;
	with("", TENANTS("active", "active"), deletion);
}

static void bad_tables_are_refused(void **state)
{
	static const char *const bad[] = {
		"acme",
		"acme " ACME_ID " 65536 65536",
		"acme " ACME_ID " 65536 65536 alive",
		"acme " ACME_ID " 65536 65536 active more",
		"acme " ACME_ID " 0 65536 active",
		"acme " ACME_ID " 65535 2 active",
		"acme " ACME_ID " 65536 0 active",
		"acme " ACME_ID " 4294967293 2 active",
		"acme " ACME_ID " 65536 99999999999 active",
		"acme " ACME_ID " -1 2 active",
		".. " ACME_ID " 65536 65536 active",
		"a/b " ACME_ID " 65536 65536 active",
		"acme 00000000-0000-0000-0000-000000000001 65536 65536 active",
		"acme 00000000-0000-0000-0000-000000000002 65536 65536 active",
		"acme nonsense 65536 65536 active",
		"acme " ACME_ID " 65536 65537 active, globex " GLOBEX_ID " 131072 65536 active",
		"acme " ACME_ID " 65536 65536 active, acme " GLOBEX_ID " 131072 65536 deleted",
		"acme " ACME_ID " 65536 65536 active, globex " ACME_ID " 131072 65536 active",
	};
	struct problem p;
	struct tree t;
	char text[2048];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(text, sizeof(text),
			 "volume m\ntype debug/memory\nend-volume\nvolume c\ntype features/cloud\noption tenants \"%s\"\n"
			 "subvolumes m\nend-volume\n",
			 bad[i]);
		p.text[0] = 0;
		if (!tree_open(&t, text, &p))
			fail_msg("taken: %s", bad[i]);
		assert_non_null(strstr(p.text, "option tenants:"));
	}
}

static int start(void **state)
{
	const char *given = getenv("TEST_SEED");

	(void)state;
	seed = given ? (unsigned)atol(given) : (unsigned)clock_wall_ns();
	gfid_parse(ACME_ID, &acme_id);
	gfid_parse(GLOBEX_ID, &globex_id);
	return runtime_start(2, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(tenants_see_nothing_of_each_other),
		cmocka_unit_test(handles_are_bound_to_the_tenant),
		cmocka_unit_test(ids_outside_the_range_are_refused_everywhere),
		cmocka_unit_test(an_id_of_somebody_else_is_shown_as_nobody),
		cmocka_unit_test(ids_are_the_tenants_in_each_kind_of_answer),
		cmocka_unit_test(what_is_the_bricks_own_is_hidden_and_refused),
		cmocka_unit_test(the_root_of_a_tenant_is_root_inside),
		cmocka_unit_test(privileges_and_devices_are_not_stored_where_the_policy_says_so),
		cmocka_unit_test(who_is_no_active_tenant_gets_nothing),
		cmocka_unit_test(what_the_brick_has_by_a_gfid_cannot_be_made_again),
		cmocka_unit_test(the_files_of_a_deleted_tenant_go),
		cmocka_unit_test(bad_tables_are_refused),
		cmocka_unit_test(names_of_a_tenants_root_are_judged_by_what_clients_call_it),
		cmocka_unit_test(a_gfid_of_another_tenant_is_answered_like_one_that_nobody_has),
		cmocka_unit_test(a_tenant_is_told_paths_from_its_own_root),
		cmocka_unit_test(what_tells_of_all_tenants_is_told_to_none),
		cmocka_unit_test(what_makes_no_sense_is_not_stored),
		cmocka_unit_test(names_are_spread_by_tenants_only),
		cmocka_unit_test(who_moves_a_tenants_files_is_in_that_tree_whatever_its_state),
		cmocka_unit_test(nobody_but_a_server_acts_for_a_tenant),
		cmocka_unit_test(who_moves_may_make_what_options_refuse),
		cmocka_unit_test(no_id_is_outside_the_range_on_the_brick_or_at_the_mount),
	};

	return cmocka_run_group_tests(tests, start, tasks_stop);
}
