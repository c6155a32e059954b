/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants of several bricks: what their clients say to features/layout is of their own trees, whatever they say. */
#include "cloud-test.h"

#include "born.h"
#include "layout.h"
#include "location.h"
#include "place.h"

enum { BRICKS = 4 };

static const struct place nothing;

static int ask(struct tree *t, const struct place *p, enum fop fop, const void *in, void *out)
{
	struct request rq;
	int err;

	request_init(&rq, t->graph, 0);
	rq.client = t->client;
	rq.uid = t->uid;
	rq.gid = t->gid;
	rq.group_count = 0;
	err = place_attach(&rq, p);
	if (!err)
		err = fop_call(&rq, t->at, fop, in, out);
	request_finish(&rq);
	return err;
}

/* As who has no cluster/dht. */
static int unplaced(struct tree *t, enum fop fop, const void *in, void *out)
{
	struct request rq;
	int err;

	request_init(&rq, t->graph, 0);
	rq.client = t->client;
	rq.group_count = 0;
	err = fop_call(&rq, t->at, fop, in, out);
	request_finish(&rq);
	return err;
}

static struct inode *top(struct tree *t)
{
	struct inode *inode = NULL;

	failures += tree_walk(t, "", &inode) != 0;
	return inode;
}

static int look(struct tree *t, const char *name)
{
	cleanup_inode struct inode *root = top(t);
	struct lookup_in in = { .loc = { .parent = root, .name = name } };
	struct lookup_out out = { 0 };
	int err = ask(t, &nothing, FOP_lookup, &in, &out);

	fop_out_clear(FOP_lookup, &out);
	return err;
}

/* *text (may be NULL): the value, for the caller to free. */
static int get(struct tree *t, const char *path, const char *name, char **text)
{
	cleanup_inode struct inode *inode = NULL;
	struct getxattr_in in = { .name = name };
	struct getxattr_out out = { 0 };
	int err = tree_walk(t, path, &inode);

	in.inode = inode;
	if (!err)
		err = ask(t, &nothing, FOP_getxattr, &in, &out);
	if (text)
		*text = err ? NULL : strndup(out.value.bytes, out.value.size);
	fop_out_clear(FOP_getxattr, &out);
	return err;
}

static int set(struct tree *t, const char *name, const void *bytes, uint32_t size)
{
	cleanup_inode struct inode *inode = NULL;
	struct setxattr_in in = { .name = name, .value = { size, (void *)bytes } };
	struct setxattr_out out = { 0 };
	int err = tree_walk(t, "own", &inode);

	in.inode = inode;
	return err ? err : ask(t, &nothing, FOP_setxattr, &in, &out);
}

static struct gfid gfid_at(struct tree *t, const char *path)
{
	struct attr a = { 0 };

	failures += tree_getattr(t, path, &a) != 0;
	return a.gfid;
}

static int path_of(struct tree *t, const struct gfid *gfid, char **text)
{
	char name[sizeof(DHT_PATH_XATTR) + GFID_TEXT], of[GFID_TEXT];

	snprintf(name, sizeof(name), DHT_PATH_XATTR "%s", gfid_text(gfid, of));
	return get(t, "", name, text);
}

/* ---- the root ---- */

static void root_is_that_of_the_volume(void *arg)
{
	struct tree *t = arg;
	struct layout implied;
	unsigned here = 0;

	layout_implied(&implied, 0, BRICKS);
	CHECK_INT(become(t, &acme, 0), 0);
	for (int i = 0; i < 64; i++) {
		char name[16];
		bool belongs;

		snprintf(name, sizeof(name), "name%d", i);
		belongs = layout_owner(&implied, layout_key(&gfid_root, name))->id == 0;
		here += belongs;
		CHECK_INT(look(t, name), belongs ? -ENOENT : -ELAYOUT);
	}
	CHECK(here > 4 && here < 60);
	CHECK_INT(look(t, DHT_HIDDEN), -ENOENT);
	CHECK_INT(tree_mkdir(t, "own", 0755), 0);
	CHECK_INT(get(t, "own", "trusted.dht.layout", NULL), -ENODATA);
}

void names_of_a_tenants_root_are_judged_by_what_clients_call_it(void **state)
{
	(void)state;
	with("option spread on\n", TENANTS("active", "active"), root_is_that_of_the_volume);
}

/* ---- gfids ---- */

static void foreign_gfids(void *arg)
{
	struct tree *t = arg;
	struct gfid foreign[5], own, unknown;
	char *text;

	CHECK_INT(become(t, &globex, 0), 0);
	CHECK_INT(tree_mkdir(t, "secret", 0755), 0);
	CHECK_INT(tree_put(t, "secret/file", "x"), 0);
	foreign[0] = gfid_at(t, "secret");
	foreign[1] = gfid_at(t, "secret/file");
	CHECK_INT(gfid_parse(GLOBEX_ID, &foreign[2]), 0);
	foreign[3] = (struct gfid){ { [15] = 2 } };
	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_mkdir(t, "own", 0755), 0);
	CHECK_INT(tree_put(t, "own/file", "x"), 0);
	foreign[4] = gfid_at(t, "own/file"); /* no directory: as if nobody had it */
	gfid_create(&unknown);
	CHECK_INT(path_of(t, &unknown, NULL), -ESTALE);
	for (int i = 0; i < 5; i++)
		CHECK_INT(path_of(t, &foreign[i], NULL), -ESTALE);
	own = gfid_at(t, "own");
	CHECK_INT(path_of(t, &own, &text), 0);
	CHECK(text && strstr(text, "path /own\n"));
	CHECK(text && !strstr(text, "tenants") && !strstr(text, dir));
	free(text);
	CHECK_INT(path_of(t, &gfid_root, &text), 0);
	CHECK(text && strstr(text, "path /\n") && strstr(text, "00000000-0000-0000-0000-000000000001"));
	CHECK(text && !strstr(text, ACME_ID));
	free(text);
	t->uid = 7;
	CHECK_INT(path_of(t, &own, NULL), -EPERM);
}

void a_gfid_of_another_tenant_is_answered_like_one_that_nobody_has(void **state)
{
	(void)state;
	with("option spread on\n", TENANTS("active", "active"), foreign_gfids);
}

static void where_it_is(void *arg)
{
	struct tree *t = arg;
	char *text;

	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_mkdir(t, "own", 0755), 0);
	CHECK_INT(tree_put(t, "own/file", "x"), 0);
	CHECK_INT(tree_link(t, "own/file", "own/other"), 0);
	for (uint32_t user = 0; user < 2; user++) {
		t->uid = user;
		CHECK_INT(get(t, "own/file", LOCATION_XATTR, &text), 0);
		CHECK(text && !strstr(text, "directory") && !strstr(text, "tenants") && !strstr(text, dir));
		CHECK(text && !user == !!strstr(text, "path /own/file\n") && !user == !!strstr(text, "path /own/other\n"));
		free(text);
	}
}

void a_tenant_is_told_paths_from_its_own_root(void **state)
{
	(void)state;
	with("option spread on\n", TENANTS("active", "active"), where_it_is);
}

/* ---- what is said ---- */

static void what_is_told_of_all(void *arg)
{
	struct tree *t = arg;

	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_mkdir(t, "own", 0755), 0);
	CHECK_INT(tree_put(t, "own/file", "x"), 0);
	CHECK_INT(get(t, "own", DHT_MARKS_XATTR, NULL), -EOPNOTSUPP);
	CHECK_INT(get(t, "own/file", DHT_CHANGES_XATTR, NULL), -EOPNOTSUPP);
	CHECK_INT(get(t, "", DHT_CANDIDATES_XATTR, NULL), -EOPNOTSUPP);
	CHECK_INT(get(t, "own", "trusted.sfs", NULL), -ENODATA);
	CHECK_INT(get(t, "own", "trusted.usage.end", NULL), -ENODATA);
}

void what_tells_of_all_tenants_is_told_to_none(void **state)
{
	(void)state;
	with("option spread on\n", TENANTS("active", "active"), what_is_told_of_all);
}

static void nonsense(void *arg)
{
	static const char *const ours[] = { DHT_POINTER_XATTR, DHT_KEPT_XATTR, DHT_LAYOUT_XATTR, DHT_PARENT_XATTR,
					    DHT_LEAVES_XATTR };
	struct tree *t = arg;
	char bytes[64] = { 0 }, name[MARK_NAME];
	uint8_t parent[PARENT_SIZE];

	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_mkdir(t, "own", 0755), 0);
	for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
		for (uint32_t size = 0; size <= sizeof(bytes); size++)
			CHECK_INT(set(t, ours[i], bytes, size), -EINVAL);
	CHECK_INT(set(t, mark_name(mark_hash("x"), name), "x", 1), -EINVAL);
	CHECK_INT(set(t, "trusted.dht.other", "x", 1), -EPERM);
	CHECK_INT(set(t, "trusted.dht.m.x", "x", 1), -EPERM);
	CHECK_INT(set(t, "trusted.sfs", "x", 1), -EPERM);
	parent_encode(&(struct parent){ 1, 2, gfid_root }, parent);
	CHECK_INT(set(t, DHT_PARENT_XATTR, parent, sizeof(parent)), 0);
	parent_encode(&(struct parent){ 2, 2, gfid_root }, parent);
	t->uid = 7;
	CHECK_INT(set(t, DHT_PARENT_XATTR, parent, sizeof(parent)), -EPERM);
}

void what_makes_no_sense_is_not_stored(void **state)
{
	(void)state;
	with("option spread on\n", TENANTS("active", "active"), nonsense);
}

/* ---- who may not ---- */

static void a_server_spreads(void *arg)
{
	struct tree *t = arg;

	CHECK_INT(become(t, &server, 0), 0);
	CHECK_INT(look(t, "tenants"), -EOPNOTSUPP);
}

static void not_spread(void *arg)
{
	struct tree *t = arg;

	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(tree_mkdir(t, "own", 0755), 0);
	CHECK_INT(look(t, "own"), -EOPNOTSUPP);
	CHECK_INT(tree_setxattr(t, "own", DHT_PARENT_XATTR, "x", 1, 0), -EPERM);
}

void names_are_spread_by_tenants_only(void **state)
{
	(void)state;
	with("option spread on\n", TENANTS("active", "active"), a_server_spreads);
	with("", TENANTS("active", "active"), not_spread);
}

/* ---- who moves ---- */

static struct client mover(const char *identity, const char *id)
{
	struct client c = { .identity = identity, .name = "mover", .id = { 9 } };

	if (gfid_parse(id, &c.acts_for))
		fail();
	return c;
}

static void what_a_mover_has(void *arg)
{
	struct client moves = mover("stratus:server", ACME_ID), others = mover("stratus:server", GLOBEX_ID);
	struct tree *t = arg;
	struct attr a;

	CHECK_INT(become(t, &others, 0), 0);
	CHECK_INT(tree_mkdir(t, "secret", 0755), 0);
	CHECK_INT(become(t, &moves, 0), 0);
	CHECK_INT(tree_mkdir(t, "own", 0755), 0);
	CHECK_INT(tree_getattr(t, "own", &a), 0);
	CHECK_INT(a.uid, 0);
	CHECK_INT(tree_getattr(t, "secret", &a), -ENOENT);
	CHECK_INT(tree_getattr(t, "tenants", &a), -ENOENT);
	CHECK_INT(look(t, DHT_HIDDEN), -ENOENT);
	CHECK_INT(get(t, "own", DHT_MARKS_XATTR, NULL), 0);
	CHECK_INT(get(t, "", DHT_CANDIDATES_XATTR, NULL), 0);
	CHECK_INT(get(t, "own", "trusted.sfs", NULL), -ENODATA);
	CHECK_INT(set(t, "trusted.sfs", "x", 1), -EPERM);
	t->uid = 7;
	CHECK_INT(get(t, "own", DHT_MARKS_XATTR, NULL), -EPERM);
	CHECK_INT(become(t, &server, 0), 0);
	CHECK_INT(tree_getattr(t, "tenants/acme/own", &a), 0);
	CHECK_INT(a.uid, ACME);
}

static void of_one_deleted(void *arg)
{
	struct client moves = mover("stratus:server", ACME_ID);

	CHECK_INT(become(arg, &moves, 0), -EACCES);
}

void who_moves_a_tenants_files_is_in_that_tree_whatever_its_state(void **state)
{
	(void)state;
	with("option spread on\n", TENANTS("active", "active"), what_a_mover_has);
	with("option spread on\n", TENANTS("suspended", "suspended"), what_a_mover_has);
	with("option spread on\n", TENANTS("deleted", "active"), of_one_deleted);
	with("", TENANTS("active", "active"), of_one_deleted); /* nothing is moved there */
}

static void others_who_say_so(void *arg)
{
	static const char *const who[] = { NULL,
					   "",
					   "stratus:tenant/acme",
					   "stratus:tenant/globex",
					   "stratus:tenant/acme/admin",
					   "stratus:client/desk",
					   "stratus:admin",
					   "stratus:server/x",
					   "nonsense" };
	static const char *const whom[] = { ACME_ID, GLOBEX_ID, "00000000-0000-0000-0000-000000000001",
					    "00000000-0000-0000-0000-000000000002", "cccccccc-0000-4000-8000-000000000003" };

	for (size_t k = 0; k < sizeof(whom) / sizeof(*whom); k++) {
		struct client of_server = mover("stratus:server", whom[k]);

		for (size_t i = 0; i < sizeof(who) / sizeof(*who); i++) {
			struct client c = mover(who[i], whom[k]);

			CHECK_INT(become(arg, &c, 0), -EACCES);
		}
		CHECK_INT(become(arg, &of_server, 0), k < 2 ? 0 : -EACCES);
	}
}

void nobody_but_a_server_acts_for_a_tenant(void **state)
{
	(void)state;
	with("option spread on\n", TENANTS("active", "suspended"), others_who_say_so);
}

static int device(struct tree *t, const char *name)
{
	cleanup_inode struct inode *root = top(t);
	struct mknod_in in = { .loc = { .parent = root, .name = name }, .mode = S_IFCHR | 04755, .rdev = 1 };
	struct mknod_out out = { 0 };
	int err;

	gfid_create(&in.gfid);
	err = unplaced(t, FOP_mknod, &in, &out);

	fop_out_clear(FOP_mknod, &out);
	return err;
}

/* Born with a mark, as who moves a file makes it. */
static int copy(struct tree *t, const char *name)
{
	cleanup_inode struct inode *root = top(t);
	struct mknod_in in = { .loc = { .parent = root, .name = name }, .mode = S_IFREG | 0600 };
	struct mknod_out out = { 0 };
	uint8_t bytes[MARK_SIZE];
	struct born_xattr x;
	char of_mark[MARK_NAME];
	struct request rq;
	struct mark m = { .hash = mark_hash("x"), .attempt = 1 };
	int err;

	gfid_create(&in.gfid);
	gfid_create(&m.intent);
	mark_encode(&m, bytes);
	x = (struct born_xattr){ mark_name(m.hash, of_mark), bytes, MARK_SIZE };
	request_init(&rq, t->graph, 0);
	rq.client = t->client;
	rq.group_count = 0;
	err = born_attach(&rq, &x, 1);
	if (!err)
		err = fop_call(&rq, t->at, FOP_mknod, &in, &out);
	request_finish(&rq);
	fop_out_clear(FOP_mknod, &out);
	return err;
}

static void refused_to_tenants(void *arg)
{
	struct client moves = mover("stratus:server", ACME_ID);
	struct tree *t = arg;
	struct attr a;

	CHECK_INT(become(t, &acme, 0), 0);
	CHECK_INT(device(t, "made"), -EPERM);
	CHECK_INT(copy(t, "copy"), -EPERM);
	CHECK_INT(become(t, &moves, 0), 0);
	CHECK_INT(device(t, "made"), 0);
	CHECK_INT(copy(t, "copy"), 0);
	CHECK_INT(tree_getattr(t, "made", &a), 0);
	CHECK_INT(a.mode & 07777, 04755);
}

void who_moves_may_make_what_options_refuse(void **state)
{
	(void)state;
	with("option spread on\noption devices refuse\noption privileges drop\n", TENANTS("active", "active"),
	     refused_to_tenants);
}
