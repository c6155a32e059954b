/* SPDX-License-Identifier: Apache-2.0 */
/* features/replica below features/cloud: who asks is confined to a tenant's tree, be it the tenant, or the provider's process that moves what it has. */
#include "member-test.h"

#include <stdlib.h>

static const struct gfid acmes_tree = { { 0xa } }, globexs_tree = { { 0xb } };
static struct client acme = { .identity = "stratus:tenant/acme" }, globex = { .identity = "stratus:tenant/globex" },
		     mover = { .identity = "stratus:server" };
static const uint8_t acme_id[16] = { 0xac }, globex_id[16] = { 0xeb }, mover_id[16] = { 0x3c };

/* As who asks comes from features/cloud. */
static int ask(struct client *who, const struct gfid *its, const uint8_t id[16], const struct place *place, enum fop fop,
	       const void *in, void *out)
{
	struct replica_stamp stamp = { .epoch = fop == FOP_replica ? 0 : view.epoch,
				       .sequence = fop == FOP_replica ? 0 : ++sequence,
				       .time = 1000000000,
				       .session = session_tag(id) };
	struct request rq;
	int err;

	request_init(&rq, tree.graph, 0);
	rq.client = who;
	rq.tree = *its;
	err = stamp_attach(&rq, &stamp);
	if (!err && place)
		err = place_attach(&rq, place);
	if (!err)
		err = fop_call(&rq, tree.at, fop, in, out);
	request_finish(&rq);
	return err;
}

static int verb(struct client *who, const struct gfid *its, const uint8_t id[16], uint32_t what, struct pack *p)
{
	struct replica_in in = { .verb = what };
	struct replica_out out = { 0 };
	int err = pack_end(p, &in.data);

	if (!err)
		err = ask(who, its, id, NULL, FOP_replica, &in, &out);
	fop_out_clear(FOP_replica, &out);
	free(in.data.bytes);
	return err;
}

static int come(struct client *who, const struct gfid *its, const uint8_t id[16])
{
	struct pack p = { 0 };

	pack_bytes(&p, id, 16);
	return verb(who, its, id, REPLICA_ATTACH, &p);
}

static int all_come(void)
{
	int err = change_view(NULL);

	err = err ? err : come(&acme, &acmes_tree, acme_id);
	err = err ? err : come(&globex, &globexs_tree, globex_id);
	return err ? err : come(&mover, &acmes_tree, mover_id);
}

/* ---- what names stand for ---- */

/* By somebody else: who has an unsettled change of it is waited for. */
static int look_at(struct inode *inode)
{
	struct getattr_in in = { .inode = inode };
	struct getattr_out out = { 0 };

	return call(&stranger, &(struct replica_stamp){ 0 }, NULL, FOP_getattr, &in, &out);
}

static int make_as_acme(const char *name)
{
	cleanup_inode struct inode *parent = root();
	struct mknod_in in = { .loc = { .parent = parent, .name = name }, .mode = S_IFREG | 0644 };
	struct mknod_out out = { 0 };
	int err;

	gfid_create(&in.gfid);
	err = ask(&acme, &acmes_tree, acme_id, NULL, FOP_mknod, &in, &out);
	fop_out_clear(FOP_mknod, &out);
	return err;
}

static int unlink_as(struct client *who, const uint8_t id[16], const char *name, const struct gfid *expected)
{
	cleanup_inode struct inode *parent = root();
	struct unlink_in in = { .loc = { .parent = parent, .name = name } };
	struct unlink_out out = { 0 };

	return ask(who, &acmes_tree, id, &(struct place){ .expected = { *expected } }, FOP_unlink, &in, &out);
}

static int rename_as(struct client *who, const uint8_t id[16], const char *from, const char *to, const struct gfid *expected)
{
	cleanup_inode struct inode *parent = root();
	struct rename_in in = { .from = { .parent = parent, .name = from }, .to = { .parent = parent, .name = to } };
	struct rename_out out = { 0 };

	return ask(who, &acmes_tree, id, &(struct place){ .expected = { { { 0 } }, *expected } }, FOP_rename, &in, &out);
}

static void unfounded_(void *arg)
{
	cleanup_file struct file *theirs = NULL;
	const struct gfid *g;

	(void)arg;
	CHECK_INT(all_come(), 0);
	CHECK_INT(make("theirs", &theirs), 0);
	CHECK_INT(settle(sequence), 0);
	g = &theirs->inode->gfid;
	for (int i = 0; i < 2; i++) {
		CHECK_INT(make_as_acme("own"), 0);
		CHECK_INT(make_as_acme("other"), 0);
		unlink_as(i ? &mover : &acme, i ? mover_id : acme_id, "own", g); /* features/layout would refuse it */
		rename_as(i ? &mover : &acme, i ? mover_id : acme_id, "other", "own", g);
		unlink_as(i ? &mover : &acme, i ? mover_id : acme_id, "own", g);
		unlink_as(i ? &mover : &acme, i ? mover_id : acme_id, "not there", g);
	}
	CHECK_INT(look_at(theirs->inode), 0); /* nobody settles what acme has changed */
}

static void what_a_tenant_expects_of_others_holds_up_nobody(void **state)
{
	(void)state;
	on(ON_MEMORY, unfounded_);
}

static void founded_(void *arg)
{
	cleanup_file struct file *taken = NULL;

	(void)arg;
	CHECK_INT(all_come(), 0);
	CHECK_INT(make("taken", &taken), 0);
	CHECK_INT(settle(sequence), 0);
	CHECK_INT(unlink_as(&acme, acme_id, "taken", &taken->inode->gfid), 0);
	CHECK_INT(look_at(taken->inode), -EVIEW); /* how many names it has is not settled */
}

static void what_a_tenant_takes_is_waited_for(void **state)
{
	(void)state;
	on(ON_MEMORY, founded_);
}

/* ---- directories that move ---- */

static int acquire_rename(struct client *who, const struct gfid *its, const uint8_t id[16])
{
	int err = -ERECOVERING;

	for (int i = 0; i < 10 && err == -ERECOVERING; i++) { /* after a start nothing is granted for a moment */
		struct pack p = { 0 };

		pack_u64(&p, view.epoch);
		pack_u64(&p, ++sequence);
		pack_gfid(&p, &gfid_rename_token);
		pack_bytes(&p, (uint8_t[VOUCHER_SIZE]){ 0 }, VOUCHER_SIZE);
		err = verb(who, its, id, REPLICA_ACQUIRE, &p);
	}
	return err;
}

static void moves_(void *arg)
{
	(void)arg;
	CHECK_INT(all_come(), 0);
	CHECK_INT(acquire_rename(&mover, &acmes_tree, mover_id), 0);
	CHECK_INT(acquire_rename(&globex, &globexs_tree, globex_id), 0);
	CHECK_INT(acquire_rename(&acme, &acmes_tree, acme_id), -ERECOVERING);
	CHECK_INT(come(&mover, &globexs_tree, mover_id), -EACCES); /* a session is of one tree */
}

static void who_moves_what_a_tenant_has_waits_for_its_renames(void **state)
{
	(void)state;
	on(ON_MEMORY, moves_);
}

/* ---- vouchers ---- */

static void sets_(void *arg)
{
	uint8_t own[VOUCHER_SIZE], others[VOUCHER_SIZE];
	struct gfid g;

	(void)arg;
	gfid_create(&g);
	CHECK_INT(tree.at->type->vouch(tree.at, &(struct bearer){ .tenant = acmes_tree }, &g, own), 0);
	set_number = 1;
	CHECK_INT(reopen(), 0);
	set_number = 0;
	CHECK_INT(tree.at->type->vouch(tree.at, &(struct bearer){ .tenant = acmes_tree }, &g, others), 0);
	CHECK_INT(!memcmp(own, others, VOUCHER_SIZE), 0);
}

static void vouchers_of_one_set_are_none_in_another(void **state)
{
	(void)state;
	on(ON_MEMORY, sets_);
}

const struct CMUnitTest trees[] = {
	cmocka_unit_test(what_a_tenant_expects_of_others_holds_up_nobody),
	cmocka_unit_test(what_a_tenant_takes_is_waited_for),
	cmocka_unit_test(who_moves_what_a_tenant_has_waits_for_its_renames),
	cmocka_unit_test(vouchers_of_one_set_are_none_in_another),
};
const unsigned trees_count = sizeof trees / sizeof *trees;
