/* SPDX-License-Identifier: Apache-2.0 */
/* features/lease: who is recalled what. Clients share bits, so a recall may go to more than were told of an object; but who has a part of a tenant's tree only, by an access point, hears of
 * nothing that is not his. The test is the clients: it hears recalls where protocol/server would, and releases them. */
#include "test-check.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "lease-table.h"
#include "test-tasks.h"
#include "tree.h"

enum { ACME = 65536, BITS = 64, SLOTS = 1024 };

static const char volumes[] = "volume m\n type debug/memory\nend-volume\n"
			      "volume lease\n type features/lease\n subvolumes m\nend-volume\n"
			      "volume clients\n type debug/hold\n subvolumes lease\nend-volume\n";

static struct tree tree;
static struct xlator *lease;
static int failures;

struct asker {
	struct client client;
	bool guest;
	struct gfid heard; /* the last */
	unsigned recalls;
};

/* ---- what clients ask ---- */

static void as(struct asker *a, struct request *rq)
{
	request_init(rq, tree.graph, 0);
	rq->client = &a->client;
	rq->uid = rq->gid = rq->root = ACME;
	rq->group_count = 0;
	rq->tree = (struct gfid){ { 1 } };
	if (a->guest)
		rq->access = rq->top = (struct gfid){ { 2 } };
}

static int tell(struct asker *a, enum lease_verb verb, uint64_t number)
{
	struct lease_in in = { .verb = verb, .number = number };
	struct lease_out out = { 0 };
	struct request rq;
	int err;

	as(a, &rq);
	err = lease->type->lease(&rq, lease, &in, &out);
	request_finish(&rq);
	return err;
}

static int prove(struct asker *a)
{
	return tell(a, LEASE_PROVE, 0);
}

/* Is he told that he may believe it? */
static bool believes(struct asker *a, struct inode *inode)
{
	struct getattr_in in = { .inode = inode };
	struct getattr_out out = { 0 };
	bool leased = false;
	struct request rq;

	as(a, &rq);
	failures += fop_call(&rq, lease, FOP_getattr, &in, &out) != 0;
	for (const struct extension *e = rq.reply_extensions; e; e = e->next)
		leased |= e->type == LEASED_EXTENSION;
	request_finish(&rq);
	return leased;
}

static void change(struct asker *a, struct inode *inode)
{
	struct setattr_in in = { .inode = inode, .set = { .valid = SET_MODE, .mode = 0600 } };
	struct setattr_out out = { 0 };
	struct request rq;

	as(a, &rq);
	failures += fop_call(&rq, lease, FOP_setattr, &in, &out) != 0;
	request_finish(&rq);
}

/* ---- what they hear ---- */

static void hear(struct xlator *x, struct xlator *from, const struct event *e)
{
	struct asker *a = (struct asker *)e->client; /* the client is its first member */

	(void)x, (void)from;
	if (e->kind != EVENT_RECALL)
		return;
	a->heard = event_gfid(e);
	a->recalls++;
	CHECK_INT(tell(a, LEASE_RELEASED, e->lock.owner), 0);
}

static void with_clients(void (*fn)(void *))
{
	struct problem p = { "" };
	const struct xlator_type *type;
	struct xlator_type hears;
	struct xlator *clients;

	failures = 0;
	if (tree_open(&tree, volumes, &p))
		fail_msg("%s", p.text);
	lease = tree_find(&tree, "lease");
	clients = tree_find(&tree, "clients");
	type = clients->type;
	hears = *type;
	hears.notify = hear;
	clients->type = &hears;
	task_call(fn, NULL);
	clients->type = type;
	tree_close(&tree);
	assert_int_equal(failures, 0);
}

/* ---- files ---- */

static struct inode *make(const struct gfid *g, const char *name)
{
	cleanup_inode struct inode *top = inode_get(tree.graph->inodes, &gfid_root, S_IFDIR);
	struct mknod_in in = { .loc = { .parent = top, .name = name }, .gfid = *g, .mode = S_IFREG | 0666 };
	struct mknod_out out = { 0 };

	failures += tree_call(&tree, tree_find(&tree, "m"), FOP_mknod, &in, &out) != 0;
	return out.inode;
}

static struct gfid fresh(void)
{
	struct gfid g;

	gfid_create(&g);
	return g;
}

static struct gfid fresh_in_slot_of(const struct gfid *other)
{
	struct gfid g = fresh();

	while (gfid_hash(&g) % SLOTS != gfid_hash(other) % SLOTS)
		g = fresh();
	return g;
}

/* ---- what holds ---- */

static struct asker guest = { .client = { .name = "guest", .id = { 1 } }, .guest = true },
		    sharer = { .client = { .name = "sharer", .id = { 2 } } },
		    changer = { .client = { .name = "changer", .id = { 3 } } };

/* The guest comes first, and the one who shares its bit when all others are taken. */
static void come(void)
{
	static struct asker others[BITS - 1];

	guest.recalls = sharer.recalls = changer.recalls = 0;
	CHECK_INT(prove(&guest), 0);
	for (int i = 0; i < BITS - 1; i++)
		CHECK_INT(prove(&others[i]), 0);
	CHECK_INT(prove(&sharer), 0);
	CHECK_INT(prove(&changer), 0);
}

/* Who has not said for a while that he is there believes nothing, and hears nothing: on a machine that is that slow it is done again. */
static void hears_of_his_own(void *arg)
{
	struct gfid a = fresh(), b = fresh();
	cleanup_inode struct inode *his = make(&a, "his"), *other = make(&b, "other");

	(void)arg;
	come();
	while (!failures && (!sharer.recalls || !guest.recalls)) {
		CHECK_INT(prove(&guest), 0);
		CHECK_INT(prove(&sharer), 0);
		if (!believes(&guest, his) || !believes(&sharer, other))
			continue;
		change(&changer, other);
		CHECK(!guest.recalls || gfid_equal(&guest.heard, &a));
		change(&changer, his);
		CHECK(!guest.recalls || gfid_equal(&guest.heard, &a));
	}
	CHECK_INT(changer.recalls, 0);
}

static void a_client_of_an_access_point_hears_no_recalls_of_what_others_were_told(void **state)
{
	(void)state;
	with_clients(hears_of_his_own);
}

/* What has a slot keeps it as long as it may be believed: what comes later has no lease, and what was there is recalled all the same. */
static void keeps_its_slot(void *arg)
{
	struct gfid a = fresh(), b = fresh_in_slot_of(&a);
	cleanup_inode struct inode *first = make(&a, "first"), *second = make(&b, "second");

	(void)arg;
	come();
	while (!failures && !guest.recalls) {
		uint64_t told_ns = clock_ns();

		CHECK_INT(prove(&guest), 0);
		if (!believes(&guest, first))
			continue;
		CHECK(!believes(&guest, second) || clock_ns() > told_ns + LEASE_KEPT_MS * 1000000ull);
		change(&changer, first);
	}
	CHECK(gfid_equal(&guest.heard, &a));
}

static void what_a_client_of_an_access_point_believes_is_recalled_whatever_else_it_asks_for(void **state)
{
	(void)state;
	with_clients(keeps_its_slot);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_of_an_access_point_hears_no_recalls_of_what_others_were_told),
		cmocka_unit_test(what_a_client_of_an_access_point_believes_is_recalled_whatever_else_it_asks_for),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
