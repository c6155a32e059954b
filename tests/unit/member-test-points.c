/* SPDX-License-Identifier: Apache-2.0 */
/* features/replica for the clients of a tenant's access points: what they may have of what the tenant may, and what they are shown. */
#include "member-test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SESSIONS = 4, MOST = 16 }; /* of a tenant: see open_member() */

static struct client acme = { .identity = "stratus:tenant/acme" },
		     web = { .identity = "stratus:tenant/acme/access/cccccccc-0000-4000-8000-000000000001" },
		     docs = { .identity = "stratus:tenant/acme/access/cccccccc-0000-4000-8000-000000000002" };
static const struct gfid webs = { { 1 } }, docss = { { 2 } }, nones;
static const uint8_t acme_id[16] = { 0xac }, web_id[16] = { 0xeb }, docs_id[16] = { 0xdc };
static struct gfid tenants_tree, webs_top; /* zeros: nobody has a part of anything */

static int ask(struct client *who, const struct gfid *access, uint64_t number, enum fop fop, const void *in, void *out)
{
	struct replica_stamp stamp = { .epoch = number ? view.epoch : 0, .sequence = number, .time = number ? 1000000000 : 0 };
	struct request rq;
	int err;

	request_init(&rq, tree.graph, 0);
	rq.client = who;
	rq.access = *access;
	rq.tree = tenants_tree;
	rq.top = webs_top;
	err = stamp_attach(&rq, &stamp);
	if (!err)
		err = fop_call(&rq, tree.at, fop, in, out);
	request_finish(&rq);
	return err;
}

static int verb(struct client *who, const struct gfid *access, uint32_t what, struct pack *p)
{
	struct replica_in in = { .verb = what };
	struct replica_out out = { 0 };
	int err = pack_end(p, &in.data);

	if (!err)
		err = ask(who, access, 0, FOP_replica, &in, &out);
	fop_out_clear(FOP_replica, &out);
	free(in.data.bytes);
	return err;
}

static int come(struct client *who, const struct gfid *access, const uint8_t id[16])
{
	struct pack p = { 0 };

	pack_bytes(&p, id, 16);
	return verb(who, access, REPLICA_ATTACH, &p);
}

/* ---- not more than half ---- */

static int acquire_once(struct client *who, const struct gfid *access, const struct gfid *g)
{
	struct pack p = { 0 };

	pack_u64(&p, view.epoch);
	pack_u64(&p, ++sequence);
	pack_gfid(&p, g);
	if (gfid_equal(g, &gfid_rename_token))
		pack_bytes(&p, (const uint8_t[VOUCHER_SIZE]){ 0 }, VOUCHER_SIZE);
	return verb(who, access, REPLICA_ACQUIRE, &p);
}

static int acquire_that(struct client *who, const struct gfid *access, const struct gfid *g)
{
	int err = -ERECOVERING;

	for (int i = 0; i < 10 && err == -ERECOVERING; i++) /* after a start nothing is granted for a moment */
		err = acquire_once(who, access, g);
	return err;
}

static int acquire(struct client *who, const struct gfid *access)
{
	struct gfid g;

	gfid_create(&g);
	return acquire_that(who, access, &g);
}

static int touch(struct client *who, const struct gfid *access, uint64_t number)
{
	cleanup_inode struct inode *inode = root();
	struct setattr_in in = { .inode = inode, .set = { .valid = SET_MODE, .mode = 0755 } };
	struct setattr_out out = { 0 };

	return ask(who, access, number, FOP_setattr, &in, &out);
}

static void sessions_(void *arg)
{
	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(come(&web, &webs, web_id), 0);
	CHECK_INT(come(&docs, &docss, docs_id), 0);
	CHECK_INT(come(&docs, &docss, (const uint8_t[16]){ 1, 1 }), -EMFILE);
	CHECK_INT(come(&web, &webs, (const uint8_t[16]){ 1, 2 }), -EMFILE);
	for (uint8_t i = SESSIONS / 2; i < SESSIONS; i++)
		CHECK_INT(come(&acme, &nones, (const uint8_t[16]){ 2, i }), 0);
	CHECK_INT(come(&acme, &nones, (const uint8_t[16]){ 3 }), -EMFILE);
}

static void tokens_(void *arg)
{
	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(come(&acme, &nones, acme_id), 0);
	CHECK_INT(come(&web, &webs, web_id), 0);
	CHECK_INT(come(&docs, &docss, docs_id), 0);
	for (int i = 0; i < MOST / 2; i++)
		CHECK_INT(acquire(i & 1 ? &web : &docs, i & 1 ? &webs : &docss), 0);
	CHECK_INT(acquire(&web, &webs), -ENOLCK);
	CHECK_INT(acquire(&docs, &docss), -ENOLCK);
	for (int i = MOST / 2; i < MOST; i++)
		CHECK_INT(acquire(&acme, &nones), 0);
	CHECK_INT(acquire(&acme, &nones), -ENOLCK);
}

static void changes_(void *arg)
{
	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(come(&acme, &nones, acme_id), 0);
	CHECK_INT(come(&web, &webs, web_id), 0);
	CHECK_INT(come(&docs, &docss, docs_id), 0);
	for (uint64_t i = 1; i <= MOST / 4; i++) {
		CHECK_INT(touch(&web, &webs, i), 0);
		CHECK_INT(touch(&docs, &docss, i), 0);
	}
	CHECK_INT(touch(&web, &webs, MOST / 4 + 1), -ERECOVERING);
	CHECK_INT(touch(&docs, &docss, MOST / 4 + 1), -ERECOVERING);
	for (uint64_t i = 1; i <= MOST / 2; i++)
		CHECK_INT(touch(&acme, &nones, i), 0);
	CHECK_INT(touch(&acme, &nones, MOST / 2 + 1), -ERECOVERING);
}

static void a_tenants_access_points_have_half_of_what_it_may(void **state)
{
	(void)state;
	on(ON_MEMORY, sessions_);
	on(ON_MEMORY, tokens_);
	on(ON_MEMORY, changes_);
}

/* ---- the rename token ---- */

static int give_back(struct client *who, const struct gfid *access)
{
	struct pack p = { 0 };

	pack_u64(&p, view.epoch);
	pack_u64(&p, 0);
	pack_u64(&p, sequence);
	pack_gfid(&p, &gfid_rename_token);
	return verb(who, access, REPLICA_RELEASE, &p);
}

static void renames_(void *arg)
{
	enum { WAITS = 6 }; /* of a second; a slow machine may begin to count anew after some of them */

	(void)arg;
	tenants_tree = (struct gfid){ { 0xac } };
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(come(&acme, &nones, acme_id), 0);
	CHECK_INT(come(&web, &webs, web_id), 0);
	CHECK_INT(come(&docs, &docss, docs_id), 0);
	for (int i = 0; i < 100; i++) { /* as often as it likes, if it gives it back */
		CHECK_INT(acquire_that(&web, &webs, &gfid_rename_token), 0);
		CHECK_INT(give_back(&web, &webs), 0);
	}
	CHECK_INT(acquire_that(&acme, &nones, &gfid_rename_token), 0);
	for (int i = 0; i < WAITS; i++) /* the tenant's own may keep it from them */
		CHECK_INT(acquire_once(&web, &webs, &gfid_rename_token), -ERECOVERING);
	CHECK_INT(give_back(&acme, &nones), 0);
	CHECK_INT(acquire_that(&web, &webs, &gfid_rename_token), 0);
	for (int i = 0; i < WAITS; i++)
		CHECK_INT(acquire_once(&acme, &nones, &gfid_rename_token), -ERECOVERING);
	CHECK_INT(acquire_once(&web, &webs, &gfid_rename_token), 0); /* it has it yet */
	CHECK_INT(give_back(&web, &webs), 0);
	CHECK_INT(acquire_once(&web, &webs, &gfid_rename_token), -ENOLCK);
	CHECK_INT(acquire_once(&docs, &docss, &gfid_rename_token), -ENOLCK);
	CHECK_INT(acquire_once(&acme, &nones, &gfid_rename_token), 0);
	tenants_tree = nones;
}

static void who_keeps_the_rename_token_from_his_host_gets_it_no_more(void **state)
{
	(void)state;
	on(ON_MEMORY, renames_);
}

/* ---- handles ---- */

static int make_directory(struct inode *in, const char *name, struct inode **made)
{
	struct mkdir_in mkdir = { .loc = { .parent = in, .name = name }, .mode = 0777 };
	struct mkdir_out out = { 0 };
	int err;

	gfid_create(&mkdir.gfid);
	err = change(++sequence, FOP_mkdir, &mkdir, &out);
	*made = err ? NULL : inode_ref(out.inode);
	fop_out_clear(FOP_mkdir, &out);
	return err;
}

/* As web, with a voucher that is good: for an object of that gfid which some member has shown to it. */
static int find_directory(const struct inode *what)
{
	struct bearer bearer = { .tenant = tenants_tree, .access = webs };
	uint8_t voucher[VOUCHER_SIZE];
	struct pack p = { 0 };
	int err = tree.at->type->vouch(tree.at, &bearer, &what->gfid, voucher);

	pack_gfid(&p, &what->gfid);
	pack_bytes(&p, voucher, sizeof(voucher));
	return err ? err : verb(&web, &webs, REPLICA_DIRECTORY, &p);
}

static void handles_(void *arg)
{
	cleanup_inode struct inode *parent = root(), *acmes = NULL, *part = NULL, *below_it = NULL, *beside = NULL;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make_directory(parent, "acme", &acmes), 0);
	CHECK_INT(make_directory(acmes, "part", &part), 0);
	CHECK_INT(make_directory(part, "below", &below_it), 0);
	CHECK_INT(make_directory(acmes, "beside", &beside), 0);
	CHECK_INT(settle(sequence), 0);
	tenants_tree = acmes->gfid;
	webs_top = part->gfid;
	CHECK_INT(come(&web, &webs, web_id), 0);
	CHECK_INT(find_directory(below_it), 0);
	CHECK_INT(find_directory(beside), -ENOENT);
	CHECK_INT(find_directory(acmes), -ENOENT);
	tenants_tree = webs_top = nones;
}

static void who_has_a_part_is_given_a_handle_of_what_is_in_it_whatever_he_has_a_voucher_for(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	on(ON_POSIX, handles_);
}

/* ---- where what he has is named, too ---- */

static int make_in(struct inode *in, const char *name, struct inode **made)
{
	struct mknod_in mknod = { .loc = { .parent = in, .name = name }, .mode = S_IFREG | 0666 };
	struct mknod_out out = { 0 };
	int err;

	gfid_create(&mknod.gfid);
	err = change(++sequence, FOP_mknod, &mknod, &out);
	*made = err ? NULL : inode_ref(out.inode);
	fop_out_clear(FOP_mknod, &out);
	return err;
}

static int name_it(struct inode *what, struct inode *in, const char *name)
{
	struct link_in link = { what, { .parent = in, .name = name } };

	return change(++sequence, FOP_link, &link, &(struct link_out){ 0 });
}

static int unname(struct inode *in, const char *name)
{
	struct unlink_in unlink = { .loc = { .parent = in, .name = name } };

	return change(++sequence, FOP_unlink, &unlink, &(struct unlink_out){ 0 });
}

/* How many of its names web is told. */
static int names_told(struct inode *of)
{
	struct replica_in in = { .verb = REPLICA_LINKS, .inode = of };
	struct replica_out out = { 0 };
	int err = ask(&web, &webs, 0, FOP_replica, &in, &out), told = 0;
	struct unpack u = unpack_blob(&out.data);

	if (!err)
		told = (int)unpack_u32(&u);
	fop_out_clear(FOP_replica, &out);
	return err ? err : told;
}

enum { LONG = 250 };
static char inside[LONG + 1];

/* Of its names the brick lists as many as have room; of those that are left that is the one beside the part, and the kernel knows the one in it. */
static void name_more_than_are_listed(struct inode *what, struct inode *beside, struct inode *part)
{
	enum { MORE = 5 };
	char name[LONG + 1] = "";

	memset(name, 'n', LONG);
	for (int i = 0; i < MORE; i++) {
		name[0] = (char)('a' + i);
		CHECK_INT(name_it(what, beside, name), 0);
	}
	memcpy(inside, name, LONG);
	CHECK_INT(name_it(what, part, inside), 0);
	for (int i = 0; i < MORE; i++) {
		name[0] = (char)('a' + i);
		CHECK_INT(unname(beside, name), 0);
	}
}

static void name_in_two_places(void)
{
	cleanup_inode struct inode *parent = root(), *acmes = NULL, *part = NULL, *beside = NULL, *what = NULL;

	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make_directory(parent, "acme", &acmes), 0);
	CHECK_INT(make_directory(acmes, "part", &part), 0);
	CHECK_INT(make_directory(acmes, "beside", &beside), 0);
	CHECK_INT(make_in(beside, "out", &what), 0);
	name_more_than_are_listed(what, beside, part);
	CHECK_INT(settle(sequence), 0);
}

/* As the brick has it. */
static int find_at_leaf(const char *path, struct inode **found)
{
	struct xlator *top = tree.at;
	int err;

	tree.at = tree_find(&tree, "leaf");
	err = tree_walk(&tree, path, found);
	tree.at = top;
	return err;
}

/* Started anew, so that nobody has the directory beside it in use, and only the object's own path can tell. */
static void names_(void *arg)
{
	cleanup_inode struct inode *acmes = NULL, *part = NULL, *what = NULL;
	char path[LONG + 16];

	(void)arg;
	name_in_two_places();
	snprintf(path, sizeof(path), "acme/part/%s", inside);
	CHECK_INT(reopen(), 0);
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(find_at_leaf("acme", &acmes), 0);
	CHECK_INT(find_at_leaf("acme/part", &part), 0);
	CHECK_INT(find_at_leaf(path, &what), 0);
	tenants_tree = acmes->gfid;
	webs_top = part->gfid;
	CHECK_INT(come(&web, &webs, web_id), 0);
	CHECK_INT(names_told(what), -EXDEV);
	tenants_tree = webs_top = nones;
}

static void who_has_a_part_is_told_no_name_beside_it_though_a_way_in_it_leads_there(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	on(ON_POSIX, names_);
}

/* ---- the directory with which a session begins ---- */

/* As features/cloud, once it knows that a client may come in. */
static int look_below_root(const char *name)
{
	struct replica_stamp stamp = { .flags = REPLICA_OWN | REPLICA_READ, .time = 1000000000 };
	cleanup_inode struct inode *parent = root();
	struct lookup_in in = { .loc = { .parent = parent, .name = name } };
	struct lookup_out out = { 0 };
	int err = call(NULL, &stamp, NULL, FOP_lookup, &in, &out);

	if (err && out.inode)
		err = -EPROTO;
	fop_out_clear(FOP_lookup, &out);
	return err;
}

static void stale_(void *arg)
{
	cleanup_inode struct inode *parent = root(), *part = NULL;
	cleanup_file struct file *other = NULL;
	static struct note n;

	(void)arg;
	CHECK_INT(look_below_root("part"), -EVIEW); /* it has just been started */
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make_directory(parent, "part", &part), 0);
	CHECK_INT(make("other", &other), 0);
	CHECK_INT(settle(sequence), 0);
	CHECK_INT(look_below_root("part"), 0);
	CHECK_INT(drop("other", &n), 0);
	CHECK_INT(change_view(&n), 0);
	CHECK_INT(look_below_root("part"), -ERECOVERING);
	CHECK_INT(resolve(&n), 0);
	CHECK_INT(look_below_root("part"), 0);
	CHECK_INT(come_back(&other->inode->gfid), 0);
	CHECK_INT(look_below_root("part"), 0);
	CHECK_INT(come_back(&gfid_root), 0); /* names in it may be others by now */
	CHECK_INT(look_below_root("part"), -EPENDING);
}

static void no_session_begins_with_what_a_member_had_before_it_was_away(void **state)
{
	(void)state;
	on(ON_MEMORY, stale_);
}

const struct CMUnitTest points[] = {
	cmocka_unit_test(a_tenants_access_points_have_half_of_what_it_may),
	cmocka_unit_test(who_keeps_the_rename_token_from_his_host_gets_it_no_more),
	cmocka_unit_test(who_has_a_part_is_given_a_handle_of_what_is_in_it_whatever_he_has_a_voucher_for),
	cmocka_unit_test(who_has_a_part_is_told_no_name_beside_it_though_a_way_in_it_leads_there),
	cmocka_unit_test(no_session_begins_with_what_a_member_had_before_it_was_away),
};
const unsigned points_count = sizeof points / sizeof *points;
