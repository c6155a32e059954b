/* SPDX-License-Identifier: Apache-2.0 */
/* features/replica: tokens that several sessions have to read, and what becomes of them when one of these wants to change the object. */
#include "member-test.h"

#include <stdlib.h>

#include "option.h"
#include "test-check.h"

/* `settled` is nothing. */
static int about(struct client *who, enum replica_verb verb, uint64_t number, const struct gfid *g, struct blob *answer)
{
	struct replica_in in = { .verb = verb };
	struct replica_out out = { 0 };
	struct pack p = { 0 };
	int err;

	pack_u64(&p, view.epoch);
	if (verb == REPLICA_RELEASE || verb == REPLICA_LOWER)
		pack_u64(&p, 0);
	pack_u64(&p, number);
	pack_gfid(&p, g);
	err = pack_end(&p, &in.data);
	tree.client = who;
	if (!err)
		err = tree_call(&tree, tree.at, FOP_replica, &in, &out);
	free(in.data.bytes);
	if (answer && !err) {
		*answer = out.data;
		out.data = (struct blob){ 0 };
	}
	fop_out_clear(FOP_replica, &out);
	return err;
}

/* What the session gets; -errno. */
static int share(struct client *who, const struct gfid *g)
{
	struct blob answer = { 0 };
	int err = about(who, REPLICA_SHARE, ++sequence, g, &answer);
	struct unpack u = unpack_blob(&answer);
	int got = unpack_u8(&u);

	free(answer.bytes);
	return err ? err : got;
}

/* After a start nothing is granted for a moment. */
static int share_first(struct client *who, const struct gfid *g)
{
	int got = share(who, g);

	for (int i = 0; i < tries_of(1) && got == SHARE_NONE; i++) {
		task_sleep_ms(1);
		got = share(who, g);
	}
	return got;
}

static int acquire(struct client *who, const struct gfid *g)
{
	return about(who, REPLICA_ACQUIRE, ++sequence, g, NULL);
}

static int detach(struct client *who)
{
	struct pack p = { 0 };

	pack_u64(&p, view.epoch);
	pack_u64(&p, 0);
	return say(who, REPLICA_DETACH, &p);
}

static void several_read_(void *arg)
{
	struct gfid g;
	uint64_t early;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	gfid_create(&g);
	CHECK_INT(share_first(&client, &g), SHARE_ALL); /* who is alone may change it, too */
	CHECK_INT(share(&stranger, &g), SHARE_NONE);
	early = sequence;
	CHECK_INT(about(&client, REPLICA_LOWER, early, &g, NULL), 0);
	CHECK_INT(share(&stranger, &g), SHARE_READ);
	CHECK_INT(share(&client, &g), SHARE_READ);
	CHECK_INT(acquire(&client, &g), -ERECOVERING); /* the other one reads */
	CHECK_INT(about(&stranger, REPLICA_RELEASE, early, &g, NULL), 0);
	CHECK_INT(acquire(&client, &g), -ERECOVERING); /* it has been asked for since that was sent */
	CHECK_INT(about(&stranger, REPLICA_RELEASE, sequence, &g, NULL), 0);
	CHECK_INT(acquire(&client, &g), 0);
	CHECK_INT(about(&client, REPLICA_LOWER, early, &g, NULL), 0); /* it comes late */
	CHECK_INT(share(&stranger, &g), SHARE_NONE);
	CHECK_INT(share(&client, &g), SHARE_ALL);
}

static void a_token_that_several_read_under_is_changed_by_none(void **state)
{
	(void)state;
	on(ON_MEMORY, several_read_);
}

/* Who asks to change what it reads has nothing of it any more while it waits, so two of them do not wait for each other. */
static void both_change_(void *arg)
{
	struct gfid g;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	gfid_create(&g);
	CHECK_INT(share_first(&client, &g), SHARE_ALL);
	CHECK_INT(about(&client, REPLICA_LOWER, sequence, &g, NULL), 0);
	CHECK_INT(share(&stranger, &g), SHARE_READ);
	CHECK_INT(acquire(&client, &g), -ERECOVERING);
	CHECK_INT(acquire(&stranger, &g), 0);
	CHECK_INT(acquire(&client, &g), -ERECOVERING);
	CHECK_INT(detach(&stranger), 0);
	CHECK_INT(acquire(&client, &g), 0);
}

static void who_wants_to_change_what_it_reads_gives_that_up(void **state)
{
	(void)state;
	on(ON_MEMORY, both_change_);
}

/* One that has ended as it should. */
static void reader_leaves_(void *arg)
{
	struct gfid g;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	gfid_create(&g);
	CHECK_INT(share_first(&client, &g), SHARE_ALL);
	CHECK_INT(about(&client, REPLICA_LOWER, sequence, &g, NULL), 0);
	CHECK_INT(share(&stranger, &g), SHARE_READ);
	CHECK_INT(detach(&stranger), 0);
	CHECK_INT(share(&client, &g), SHARE_READ);
	CHECK_INT(acquire(&client, &g), 0);
	CHECK_INT(share(&client, &g), SHARE_ALL);
}

static void who_reads_and_leaves_is_not_waited_for(void **state)
{
	(void)state;
	on(ON_MEMORY, reader_leaves_);
}

static void impatient(void)
{
	struct problem problem = { "" };
	struct xlator *x = tree.at;

	CHECK_INT(option_change(x->type->options, x->private, x->name, "token-timeout", "100ms", &problem), 0);
}

static int want_once(struct client *who, const struct gfid *g, struct lease_reply *r)
{
	int err = acquire(who, g);

	return lease(r) ? -EPROTO : err;
}

/* Asks for it until somebody is known to keep it. */
static int want(struct client *who, const struct gfid *g, struct lease_reply *r)
{
	int err = -ERECOVERING;

	for (int i = 0; i < 10 && err == -ERECOVERING; i++) {
		err = want_once(who, g, r);
		if (r->stuck || r->tenants_left)
			break;
	}
	return err;
}

/* Its views are rationed, whoever has come to read after it: the provider's process that moves what it has, say. */
static void tenant_keeps_(void *arg)
{
	static struct client acme = { .identity = "stratus:tenant/acme" };
	static const uint8_t acme_id[16] = { 3 };
	struct lease_reply r = { 0 };
	struct gfid g;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(attach(&acme, acme_id), 0);
	impatient();
	gfid_create(&g);
	CHECK_INT(share_first(&acme, &g), SHARE_ALL);
	CHECK_INT(about(&acme, REPLICA_LOWER, sequence, &g, NULL), 0);
	CHECK_INT(share(&client, &g), SHARE_READ);
	CHECK_INT(want(&stranger, &g, &r), -ERECOVERING);
	CHECK_INT(r.stuck, 0);
	CHECK_INT(r.tenants_left, 1);
	CHECK_INT(about(&acme, REPLICA_RELEASE, sequence, &g, NULL), 0); /* now it is the other's to give back */
	CHECK_INT(want(&stranger, &g, &r), -ERECOVERING);
	CHECK_INT(r.stuck, 1);
	CHECK_INT(r.tenants_left, 0);
}

/* It has it for a change, which can't end before the recovery has. */
static void keeps_while_changes_wait_(void *arg)
{
	struct lease_reply r = { 0 };
	struct gfid g;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	impatient();
	gfid_create(&g);
	CHECK_INT(share_first(&client, &g), SHARE_ALL);
	unwritable = changes_wait = true;
	CHECK_INT(lease(&r), 0);
	for (int i = 0; i < 3; i++)
		CHECK_INT(want_once(&stranger, &g, &r), -ERECOVERING);
	CHECK_INT(r.stuck, 0);
	unwritable = changes_wait = false;
	CHECK_INT(lease(&r), 0);
	CHECK_INT(want(&stranger, &g, &r), -ERECOVERING);
	CHECK_INT(r.stuck, 1);
}

static void nobody_is_blamed_for_what_waits_for_a_recovery(void **state)
{
	(void)state;
	on(ON_MEMORY, keeps_while_changes_wait_);
}

static void what_a_tenant_keeps_others_who_read_make_no_view_for(void **state)
{
	(void)state;
	on(ON_MEMORY, tenant_keeps_);
}

/* One that asks to change what it reads reads no more: what others keep is not its tenant's fault, which may be gone by then. */
static void blame_goes_(void *arg)
{
	static struct client acme = { .identity = "stratus:tenant/acme" };
	static const uint8_t acme_id[16] = { 3 };
	struct lease_reply r = { 0 };
	struct gfid g;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(attach(&acme, acme_id), 0);
	impatient();
	gfid_create(&g);
	CHECK_INT(share_first(&client, &g), SHARE_ALL);
	CHECK_INT(about(&client, REPLICA_LOWER, sequence, &g, NULL), 0);
	CHECK_INT(share(&acme, &g), SHARE_READ);
	CHECK_INT(want(&stranger, &g, &r), -ERECOVERING);
	CHECK_INT(r.tenants_left, 1);
	CHECK_INT(acquire(&acme, &g), -ERECOVERING);
	CHECK_INT(want(&stranger, &g, &r), -ERECOVERING);
	CHECK(r.stuck == 1 && !r.tenants_left);
	CHECK_INT(detach(&acme), 0);
	CHECK_INT(about(&client, REPLICA_RELEASE, sequence, &g, NULL), 0);
	CHECK_INT(acquire(&stranger, &g), 0);
}

static void who_has_given_it_back_is_not_blamed_for_others(void **state)
{
	(void)state;
	on(ON_MEMORY, blame_goes_);
}

/* Who waits asks again and again; a reader that came in between would keep it waiting. After a second in which it does not ask it is not waited for: then it asks once more. */
static void none_joins_(void *arg)
{
	static struct client acme = { .identity = "stratus:tenant/acme" };
	static const uint8_t acme_id[16] = { 3 };
	enum { TRIES = 20 };
	int got = SHARE_READ;
	struct gfid g;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(attach(&acme, acme_id), 0);
	gfid_create(&g);
	CHECK_INT(share_first(&client, &g), SHARE_ALL);
	CHECK_INT(about(&client, REPLICA_LOWER, sequence, &g, NULL), 0);
	for (int i = 0; i < TRIES && got == SHARE_READ; i++) {
		CHECK_INT(acquire(&stranger, &g), -ERECOVERING);
		got = share(&acme, &g);
		if (got == SHARE_READ)
			CHECK_INT(about(&acme, REPLICA_RELEASE, sequence, &g, NULL), 0);
	}
	CHECK_INT(got, SHARE_NONE);
	CHECK_INT(about(&client, REPLICA_RELEASE, sequence, &g, NULL), 0);
	CHECK_INT(acquire(&stranger, &g), 0);
}

static void nobody_comes_to_read_while_somebody_waits_to_change(void **state)
{
	(void)state;
	on(ON_MEMORY, none_joins_);
}

const struct CMUnitTest tokens[] = {
	cmocka_unit_test(a_token_that_several_read_under_is_changed_by_none),
	cmocka_unit_test(who_wants_to_change_what_it_reads_gives_that_up),
	cmocka_unit_test(who_reads_and_leaves_is_not_waited_for),
	cmocka_unit_test(nobody_is_blamed_for_what_waits_for_a_recovery),
	cmocka_unit_test(what_a_tenant_keeps_others_who_read_make_no_view_for),
	cmocka_unit_test(who_has_given_it_back_is_not_blamed_for_others),
	cmocka_unit_test(nobody_comes_to_read_while_somebody_waits_to_change),
};
const unsigned tokens_count = sizeof(tokens) / sizeof(*tokens);
