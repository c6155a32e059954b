/* SPDX-License-Identifier: Apache-2.0 */
/* features/lease: who is recalled what. Clients share bits, so a recall may go to more than were told of an object; but who has a part of a tenant's tree only, by an access point, hears of
 * nothing that is not his. And who waits until they have released it holds up no other tenant. The test is the clients: it hears recalls where protocol/server would, and releases them. */
#include "test-check.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "lease-table.h"
#include "test-tasks.h"
#include "tree.h"

enum { ACME = 65536, GLOBEX = 131072, BITS = 64, SLOTS = 1024, ASIDE = 64 };

static const char volumes[] =
	"volume m\n type debug/memory\nend-volume\n"
	"volume lease\n type features/lease\n subvolumes m\nend-volume\n"
	"volume throttle\n type features/throttle\n option at-once 1\n option tenants \"acme 65536, globex 131072\"\n subvolumes lease\nend-volume\n"
	"volume clients\n type debug/hold\n subvolumes throttle\nend-volume\n";

static struct tree tree;
static struct xlator *lease;
static atomic_int failures;

struct asker {
	struct client client;
	bool guest;
	struct gfid heard; /* the last */
	atomic_uint recalls;
	void (*hears)(void); /* instead of nothing; in the task of who changes it */
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
	if (a->hears)
		a->hears();
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

/* ---- who waits for them ---- */

static struct asker slow = { .client = { .name = "slow", .id = { 4 } } };
static atomic_bool let_go;
static atomic_uint ended;
static unsigned spawned;

static uint64_t told_by_throttle(const char *key)
{
	struct xlator *x = tree_find(&tree, "throttle");
	char *argv[] = { (char *)"status", (char *)"--json" }, *text = NULL, what[64];
	size_t size;
	FILE *f = open_memstream(&text, &size);
	uint64_t sum = 0;

	failures += x->type->command(x, 2, argv, f) != 0;
	fclose(f);
	snprintf(what, sizeof(what), "\"%s\": ", key);
	for (char *at = text; (at = strstr(at, what)); at++)
		sum += strtoull(at + strlen(what), NULL, 10);
	free(text);
	return sum;
}

static void become(uint64_t (*is)(void), uint64_t wanted)
{
	for (int i = tries_of(1); is() != wanted; i--) {
		CHECK(i);
		task_sleep_ms(1);
	}
}

static uint64_t below(void)
{
	return told_by_throttle("below");
}

static uint64_t not_ended(void)
{
	return spawned - ended;
}

static uint64_t aside(void)
{
	return told_by_throttle("aside");
}

static uint64_t waiting(void)
{
	return told_by_throttle("waiting");
}

/* Through all of the stack; 0, or what has come of it. */
static int ask(uint32_t root, struct inode *inode, bool to_change)
{
	struct setattr_in set = { .inode = inode, .set = { .valid = SET_MODE, .mode = 0600 } };
	struct getattr_in get = { .inode = inode };
	union {
		struct setattr_out set;
		struct getattr_out get;
	} out = { 0 };
	struct request rq;
	int err;

	as(&changer, &rq);
	rq.uid = rq.root = root;
	rq.deadline_ns = clock_ns() + tries_of(1) * UINT64_C(1000000);
	err = to_change ? fop_call(&rq, tree.at, FOP_setattr, &set, &out) : fop_call(&rq, tree.at, FOP_getattr, &get, &out);
	request_finish(&rq);
	return err;
}

static void wait_to_be_let_go(void)
{
	while (!atomic_load(&let_go))
		task_sleep_ms(1);
}

static void change_one(void *arg)
{
	failures += ask(ACME, arg, true) != 0;
	inode_unref(arg);
	atomic_fetch_add(&ended, 1);
}

static void spawn_change(struct inode *inode)
{
	spawned++;
	CHECK(!task_spawn(runtime_shard(0), change_one, inode_ref(inode)));
}

static struct inode *make_another(void)
{
	static unsigned number;
	struct gfid g = fresh();
	char name[16];

	snprintf(name, sizeof(name), "another-%u", number++);
	return make(&g, name);
}

/* One of its changes more waits. It is made again, of another file, where that is not so: what changes just now in the same bucket of the table is not believed, and a machine
 * may be so slow that nothing is believed any more when the change comes. */
static void one_more_aside(unsigned already)
{
	while (!failures && aside() == already) {
		cleanup_inode struct inode *inode = make_another();
		unsigned before = ended;

		CHECK_INT(prove(&slow), 0);
		if (!believes(&slow, inode))
			continue;
		spawn_change(inode);
		for (int i = tries_of(1); aside() == already && ended == before; i--) {
			CHECK(i);
			task_sleep_ms(1);
		}
	}
}

static void fill(struct inode *other)
{
	for (unsigned i = 0; i < ASIDE && !failures; i++) {
		one_more_aside(i);
		CHECK_INT(below(), 0);
		CHECK_INT(ask(GLOBEX, other, false), 0); /* the one place is another's */
		if (i < ASIDE - 1)
			CHECK_INT(ask(ACME, other, false), 0); /* and its own */
	}
}

static void wait_aside(void *arg)
{
	struct gfid g = fresh();
	cleanup_inode struct inode *other = make(&g, "other");
	unsigned before;

	(void)arg;
	CHECK_INT(ask(ACME, other, true), 0); /* the first waits for what an earlier process may have told */
	slow.hears = wait_to_be_let_go;
	atomic_store(&let_go, false);
	CHECK_INT(prove(&changer), 0);
	fill(other);
	before = ended;
	spawn_change(other);
	if (!failures)
		become(waiting, 1); /* of one tenant no more are let wait for others so */
	failures += ended != before || aside() != ASIDE;
	failures += ask(GLOBEX, other, false) != 0;
	atomic_store(&let_go, true);
	become(not_ended, 0); /* whose turn to wait has ended takes a place below again, until it ends itself */
	become(below, 0);
	CHECK_INT(aside(), 0);
	CHECK_INT(waiting(), 0);
}

static void who_waits_for_its_own_clients_holds_up_no_other_tenant(void **state)
{
	(void)state;
	with_clients(wait_aside);
}

static bool beside;

/* Neither the tenant's own questions nor another's wait for it, if they come before it goes on. */
static void wait_for_quiet(void *arg)
{
	struct gfid g = fresh();
	cleanup_inode struct inode *inode = make(&g, "early");
	unsigned before = ended;

	(void)arg;
	spawn_change(inode);
	while (!failures && !aside() && ended == before)
		task_sleep_ms(1);
	CHECK_INT(ask(ACME, inode, false), 0);
	CHECK_INT(ask(GLOBEX, inode, false), 0);
	beside = ended == before;
	become(not_ended, 0);
	become(below, 0);
	CHECK_INT(aside(), 0);
}

/* On a machine on which a second is too short for that it is done again. */
static void what_waits_after_a_start_holds_up_nobody(void **state)
{
	(void)state;
	beside = false;
	for (int i = 0; i < 10 && !beside; i++)
		with_clients(wait_for_quiet);
	assert_true(beside);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_of_an_access_point_hears_no_recalls_of_what_others_were_told),
		cmocka_unit_test(what_a_client_of_an_access_point_believes_is_recalled_whatever_else_it_asks_for),
		cmocka_unit_test(who_waits_for_its_own_clients_holds_up_no_other_tenant),
		cmocka_unit_test(what_waits_after_a_start_holds_up_nobody),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
