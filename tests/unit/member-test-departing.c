/* SPDX-License-Identifier: Apache-2.0 */
/* features/replica: what a tenant's client that is gone keeps others from goes without a view, once the coordinator has heard the same from all members (T14 in doc/tenants.md). */
#include "member-test.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "option.h"
#include "test-check.h"

#define LONG_AGO_NS 3000000000ull
static struct client acme = { .identity = "stratus:tenant/acme" }, acmes = { .identity = "stratus:tenant/acme/admin" };
static const uint8_t acme_id[16] = { 3 }, acmes_id[16] = { 4 };

/* ---- what is said ---- */

static int acquire(struct client *who)
{
	int err = -ERECOVERING;

	for (int i = 0; i < 10 && err == -ERECOVERING; i++) { /* after a start nothing is granted for a moment */
		struct pack p = { 0 };

		pack_u64(&p, view.epoch);
		pack_u64(&p, ++sequence);
		pack_gfid(&p, &gfid_rename_token);
		err = say(who, REPLICA_ACQUIRE, &p);
	}
	return err;
}

static int touch_root(struct client *who, uint64_t number)
{
	cleanup_inode struct inode *inode = root();
	struct replica_stamp stamp = { .epoch = view.epoch, .sequence = number, .time = 1000000000 };
	struct setattr_in in = { .inode = inode, .set = { .valid = SET_MODE, .mode = 0755 } };
	struct setattr_out out = { 0 };

	return call(who, &stamp, NULL, FOP_setattr, &in, &out);
}

/* By somebody else: who has an unsettled change of it is waited for. */
static int look_at_root(void)
{
	cleanup_inode struct inode *inode = root();
	struct getattr_in in = { .inode = inode };
	struct getattr_out out = { 0 };

	return call(&stranger, &(struct replica_stamp){ 0 }, NULL, FOP_getattr, &in, &out);
}

static int number(struct client *who, enum replica_verb verb, uint64_t of)
{
	struct pack p = { 0 };

	pack_u64(&p, view.epoch);
	pack_u64(&p, of);
	return say(who, verb, &p);
}

static struct note last; /* of those that the last step() told */

static int step(const uint8_t id[16], enum depart_step what, bool *away, unsigned *notes)
{
	struct blob answer = { 0 };
	struct pack p = { 0 };
	struct unpack u;
	int err;

	pack_bytes(&p, id, 16);
	pack_u8(&p, what);
	pack_u64(&p, 0);
	err = tell(REPLICA_DEPART, view.epoch, &p, &answer);
	u = unpack_blob(&answer);
	*away = unpack_u8(&u);
	unpack_u64(&u);
	for (*notes = 0; unpack_more(&u); ++*notes)
		unpack_note(&u, &last);
	free(answer.bytes);
	return err;
}

static unsigned departing(uint8_t first[16])
{
	struct blob answer = { 0 };
	struct pack p = { 0 };
	struct lease_reply r = { 0 };
	struct unpack u;

	failures += lease(&r) || tell(REPLICA_DEPARTING, view.epoch, &p, &answer) || answer.size != 16 * r.departing;
	u = unpack_blob(&answer);
	unpack_bytes(&u, first, 16);
	free(answer.bytes);
	return r.departing;
}

static bool comes_to_depart(const uint8_t id[16])
{
	uint8_t first[16] = { 0 };

	for (int i = 0; i < tries_of(10) && !departing(first); i++)
		task_sleep_ms(10);
	return !memcmp(first, id, sizeof(first));
}

static int come(void)
{
	int err = change_view(NULL);

	acme.alone_since_ns = 0;
	err = err ? err : attach(&acme, acme_id);
	return err ? err : attach(&acmes, acmes_id);
}

/* ---- what holds ---- */

static void ended_(void *arg)
{
	struct lease_reply r;
	unsigned notes;
	bool away;

	(void)arg;
	CHECK_INT(come(), 0);
	CHECK_INT(acquire(&acme), 0);
	CHECK_INT(touch_root(&acme, 1), 0);
	tree.at->type->client_gone(tree.at, &acme);
	CHECK_INT(acquire(&acmes), -ERECOVERING);
	CHECK(comes_to_depart(acme_id));
	CHECK_INT(step(acme_id, DEPART_FREE, &away, &notes), -EVIEW); /* it might come back */
	CHECK_INT(acquire(&acmes), -ERECOVERING);
	CHECK_INT(step(acme_id, DEPART_ASK, &away, &notes), 0);
	CHECK(away && notes == 1);
	CHECK_INT(step(acme_id, DEPART_FENCE, &away, &notes), 0);
	CHECK(away && notes == 1);
	CHECK_INT(step(acme_id, DEPART_FREE, &away, &notes), 0);
	CHECK_INT(acquire(&acmes), 0);
	CHECK_INT(look_at_root(), 0);
	CHECK_INT(lease(&r), 0);
	CHECK(!r.tenants_left && !r.departing);
}

static void what_an_ended_session_has_left_goes_without_a_view(void **state)
{
	(void)state;
	on(ON_MEMORY, ended_);
}

/* The first note that a new view takes over. */
static int first_note(struct note *n)
{
	struct blob answer = { 0 };
	struct pack p = { 0 };
	struct unpack u;
	int err = freeze();

	pack_u64(&p, 0);
	err = err ? err : tell(REPLICA_NOTES, view.epoch, &p, &answer);
	u = unpack_blob(&answer);
	unpack_note(&u, n);
	free(answer.bytes);
	return err ? err : u.failed ? -EPROTO : 0;
}

/* Or it would believe in tokens that others have. It is a reason for a view, as other things that its tenant leaves. */
static void returns_(void *arg)
{
	struct lease_reply r;
	struct note n = { 0 };
	unsigned notes;
	bool away;

	(void)arg;
	CHECK_INT(come(), 0);
	CHECK_INT(touch_root(&acme, 1), 0);
	acme.alone_since_ns = clock_ns() - LONG_AGO_NS;
	CHECK_INT(step(acme_id, DEPART_FENCE, &away, &notes), 0);
	CHECK(away);
	CHECK_INT(step(acme_id, DEPART_FREE, &away, &notes), 0);
	acme.alone_since_ns = 0;
	CHECK_INT(touch_root(&acme, 2), -EVIEW);
	CHECK_INT(attach(&acme, acme_id), -EVIEW);
	CHECK_INT(touch_root(&acme, 2), -EVIEW);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.tenants_left, 1);
	CHECK_INT(first_note(&n), 0); /* so it is told there that this was done */
	CHECK(n.sequence == 1 && n.resolved && !n.status);
	CHECK_INT(come(), 0);
	CHECK_INT(touch_root(&acme, 2), 0);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.tenants_left, 0);
}

static void who_returns_waits_for_the_next_view(void **state)
{
	(void)state;
	on(ON_MEMORY, returns_);
}

/* What it sends only there would come in between. */
static void stranger_(void *arg)
{
	unsigned notes;
	bool away;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(step(acme_id, DEPART_FENCE, &away, &notes), 0);
	CHECK(away && !notes);
	CHECK_INT(attach(&acme, acme_id), -EVIEW);
}

static void who_was_never_here_does_not_come_either(void **state)
{
	(void)state;
	on(ON_MEMORY, stranger_);
}

static void impatient(void)
{
	struct problem problem = { "" };
	struct xlator *x = tree.at;

	if (option_change(x->type->options, x->private, x->name, "token-timeout", "100ms", &problem))
		failures++;
}

/* Its session goes on at the server, for it may come back. */
static void silent_(void *arg)
{
	uint8_t first[16];
	unsigned notes;
	bool away;

	(void)arg;
	CHECK_INT(come(), 0);
	impatient();
	CHECK_INT(acquire(&acme), 0);
	acme.alone_since_ns = clock_ns() - LONG_AGO_NS;
	CHECK_INT(departing(first), 0); /* nobody waits for it */
	CHECK_INT(acquire(&acmes), -ERECOVERING);
	CHECK(comes_to_depart(acme_id));
	acme.alone_since_ns = 0;
	CHECK_INT(departing(first), 0);
	CHECK_INT(step(acme_id, DEPART_FENCE, &away, &notes), 0);
	CHECK(!away);
	CHECK_INT(touch_root(&acme, 1), 0); /* it was not fenced */
	acme.alone_since_ns = clock_ns();
	CHECK_INT(step(acme_id, DEPART_ASK, &away, &notes), 0);
	CHECK(!away); /* since a moment only */
}

static void only_who_has_no_connection_is_gone(void **state)
{
	(void)state;
	on(ON_MEMORY, silent_);
}

/* It is settled once all members know that it failed, and may be done here only. */
static void failed_(void *arg)
{
	struct note n = { 0 };
	struct lease_reply r;
	uint8_t first[16];
	unsigned notes;
	bool away;

	(void)arg;
	CHECK_INT(come(), 0);
	impatient();
	CHECK_INT(acquire(&acme), 0);
	CHECK_INT(touch_root(&acme, 1), 0);
	acme.alone_since_ns = clock_ns() - LONG_AGO_NS;
	CHECK_INT(acquire(&acmes), -ERECOVERING);
	CHECK(comes_to_depart(acme_id));
	CHECK_INT(number(&acme, REPLICA_FAILED, 1), 0);
	CHECK_INT(number(&acme, REPLICA_SETTLE, 1), 0);
	CHECK_INT(departing(first), 0); /* nor does a view wait for it */
	CHECK_INT(step(acme_id, DEPART_ASK, &away, &notes), 0);
	CHECK(away && notes == 1 && last.status == NOTE_UNKNOWN);
	CHECK_INT(step(acme_id, DEPART_FENCE, &away, &notes), 0);
	CHECK(away && notes == 1 && last.status == NOTE_UNKNOWN);
	CHECK_INT(step(acme_id, DEPART_FREE, &away, &notes), 0); /* of a coordinator that does not see it */
	CHECK_INT(lease(&r), 0);
	CHECK(r.tenants_left);
	CHECK_INT(first_note(&n), 0);
	CHECK(n.sequence == 1 && !n.resolved);
	CHECK_INT(come(), 0);
	CHECK_INT(touch_root(&acme, 2), 0);
	acme.alone_since_ns = clock_ns() - LONG_AGO_NS;
	CHECK_INT(step(acme_id, DEPART_ASK, &away, &notes), 0);
	CHECK(away && notes == 1 && last.sequence == 2 && !last.status);
}

static void what_failed_half_done_waits_for_a_view(void **state)
{
	(void)state;
	on(ON_MEMORY, failed_);
}

/* Then it is not done, and nobody is asked to recover it. */
static void late_(void *arg)
{
	unsigned notes;
	bool away;

	(void)arg;
	CHECK_INT(come(), 0);
	CHECK_INT(number(&acme, REPLICA_FAILED, 1), 0);
	for (int i = 0; i < 20; i++) /* told until all members have heard it */
		CHECK_INT(number(&acme, REPLICA_FAILED, 2), 0);
	CHECK_INT(touch_root(&acme, 1), -EVIEW);
	CHECK_INT(touch_root(&acme, 2), -EVIEW);
	acme.alone_since_ns = clock_ns() - LONG_AGO_NS;
	CHECK_INT(step(acme_id, DEPART_ASK, &away, &notes), 0);
	CHECK(away && !notes);
}

static void what_comes_after_it_is_known_as_failed_is_not_done(void **state)
{
	(void)state;
	on(ON_MEMORY, late_);
}

static struct reader {
	int err;
	atomic_bool over;
} reader;

static void read_root(void *arg)
{
	(void)arg;
	reader.err = look_at_root();
	reader.over = true;
}

/* Who reads waits for what is not settled. */
static void read_(void *arg)
{
	struct lease_reply r;
	unsigned notes;
	bool away;

	(void)arg;
	CHECK_INT(come(), 0);
	impatient();
	CHECK_INT(touch_root(&acme, 1), 0);
	acme.alone_since_ns = clock_ns() - LONG_AGO_NS;
	reader.over = false;
	CHECK_INT(task_spawn(NULL, read_root, NULL), 0);
	CHECK(comes_to_depart(acme_id));
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.tenants_left, 1); /* should it not be alike at all */
	CHECK_INT(step(acme_id, DEPART_FENCE, &away, &notes), 0);
	CHECK(away && notes == 1);
	CHECK_INT(step(acme_id, DEPART_FREE, &away, &notes), 0);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.tenants_left, 0);
	while (!reader.over)
		task_sleep_ms(1);
	CHECK_INT(reader.err, 0);
}

static void what_it_has_changed_is_read_without_a_view(void **state)
{
	(void)state;
	on(ON_MEMORY, read_);
}

static void nobodys_(void *arg)
{
	unsigned notes;
	bool away;

	(void)arg;
	CHECK_INT(come(), 0);
	client.alone_since_ns = clock_ns() - LONG_AGO_NS;
	CHECK_INT(step(session, DEPART_FENCE, &away, &notes), 0);
	CHECK(!away);
	client.alone_since_ns = 0;
	CHECK_INT(attach(&client, session), 0);
}

/* For those a view is made at once. */
static void who_is_no_tenants_client_does_not_depart(void **state)
{
	(void)state;
	on(ON_MEMORY, nobodys_);
}

const struct CMUnitTest departures[] = {
	cmocka_unit_test(what_an_ended_session_has_left_goes_without_a_view),
	cmocka_unit_test(who_returns_waits_for_the_next_view),
	cmocka_unit_test(who_was_never_here_does_not_come_either),
	cmocka_unit_test(only_who_has_no_connection_is_gone),
	cmocka_unit_test(what_failed_half_done_waits_for_a_view),
	cmocka_unit_test(what_comes_after_it_is_known_as_failed_is_not_done),
	cmocka_unit_test(what_it_has_changed_is_read_without_a_view),
	cmocka_unit_test(who_is_no_tenants_client_does_not_depart),
};
const unsigned departures_count = sizeof departures / sizeof *departures;
