/* SPDX-License-Identifier: Apache-2.0 */
/* features/replica: tokens that several sessions have to read, and what becomes of them when one of these wants to change the object. */
#include "member-test.h"

#include <stdlib.h>

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

	for (int i = 0; i < 5000 && got == SHARE_NONE; i++) {
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

const struct CMUnitTest tokens[] = {
	cmocka_unit_test(a_token_that_several_read_under_is_changed_by_none),
	cmocka_unit_test(who_wants_to_change_what_it_reads_gives_that_up),
	cmocka_unit_test(who_reads_and_leaves_is_not_waited_for),
};
const unsigned tokens_count = sizeof(tokens) / sizeof(*tokens);
