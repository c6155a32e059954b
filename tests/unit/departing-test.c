/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/coordinator: tenants' clients that are gone. What all members have alike goes without a view, and nothing else. The test is the members. */
#include "test-check.h"
#include "test-tasks.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator.h"

int failures;
static const uint8_t gone_id[16] = { 9 };
static struct coordinator *leader;

/* What each member says of the session. */
static struct said {
	bool away, lacks, differs;
	int status;
	uint64_t settled;
} said[3];
static unsigned asked, fenced, freed; /* members */
static uint64_t settled;	      /* as FREE told */
static bool returns;		      /* it is back by the time of FENCE at the last */

/* ---- what is around it ---- */

int heal_request(struct heal *h, struct request *rq)
{
	(void)h;
	request_init(rq, NULL, 0);
	return 0;
}

void heal_request_end(struct request *rq)
{
	request_finish(rq);
}

static void put_note(struct pack *p, const struct said *s)
{
	struct note n = { .session = { 9 }, .sequence = 5, .fop = FOP_setattr, .objects = 1, .tenants = true };

	n.object[0].kind = NOTE_META;
	n.object[0].gfid = (struct gfid){ { s->differs ? 8 : 7 } };
	n.status = s->status;
	pack_note(p, &n);
}

static int depart(int member, struct unpack *u, struct pack *answer)
{
	const struct said *s = &said[member];
	enum depart_step step;
	uint8_t id[16];

	unpack_bytes(u, id, sizeof(id));
	step = unpack_u8(u);
	if (step == DEPART_FREE) {
		freed |= 1u << member;
		settled = unpack_u64(u);
		return 0;
	}
	*(step == DEPART_FENCE ? &fenced : &asked) |= 1u << member;
	pack_u8(answer, s->away && !memcmp(id, gone_id, sizeof(id)) && !(returns && step == DEPART_FENCE && member == 2));
	pack_u64(answer, s->settled);
	if (!s->lacks)
		put_note(answer, s);
	return 0;
}

int heal_verb(struct heal *h, struct request *rq, int member, enum replica_verb verb, struct inode *inode, struct pack *more,
	      struct replica_out *out)
{
	struct unpack u = { .at = more ? more->bytes : NULL, .end = more ? more->bytes + more->size : NULL };
	struct pack answer = { 0 };
	int err = 0;

	(void)h, (void)rq, (void)inode;
	if (verb == REPLICA_DEPARTING)
		pack_bytes(&answer, gone_id, sizeof(gone_id));
	else
		err = verb == REPLICA_DEPART ? depart(member, &u, &answer) : -EOPNOTSUPP;
	if (more)
		pack_free(more);
	return err ? err : pack_end(&answer, &out->data);
}

int coordinator_spawn(struct coordinator *c, task_fn *fn, void *arg)
{
	(void)c;
	fn(arg);
	return 0;
}

void coordinator_task_ends(struct coordinator *c)
{
	(void)c;
}

/* ---- what holds ---- */

static void begin(void)
{
	struct coordinator *c = leader = calloc(1, sizeof(*c));

	if (!c)
		abort();
	pthread_mutex_init(&c->lock, NULL);
	c->members = 3;
	c->lease_ms = 2000;
	c->heartbeat_ms = 250;
	c->view = (struct view){ .epoch = 4, .members = 3, .arbiter = REPLICAS_MAX, .order = { 0, 1, 2 } };
	for (int i = 0; i < 3; i++) {
		c->view.state[i] = MEMBER_IN;
		c->member[i].last.epoch = 4;
		said[i] = (struct said){ .away = true };
	}
	c->member[0].last.departing = 1;
	asked = fenced = freed = 0;
	settled = 0;
	returns = false;
}

static void end(void)
{
	pthread_mutex_destroy(&leader->lock);
	free(leader);
}

static void looked(void)
{
	leader->departures.next_ns = 0;
	asked = fenced = freed = 0;
	departing_look(leader);
}

static void alike_(void *arg)
{
	(void)arg;
	begin();
	said[1].settled = 3;
	looked();
	CHECK(asked == 7 && fenced == 7 && freed == 7);
	CHECK_INT(settled, 3);
	CHECK_INT(leader->departures.freed, 1);
	freed = 0;
	departing_look(leader); /* not at once again */
	CHECK_INT(freed, 0);
	end();
}

static void unlike_(void *arg)
{
	(void)arg;
	begin();
	said[1].lacks = true;
	looked();
	CHECK(asked == 7 && !fenced && !freed);
	said[1].settled = 5; /* it is done everywhere, as its client has said there, and nobody knows of a failure */
	looked();
	CHECK_INT(freed, 7);
	said[2].status = NOTE_UNKNOWN; /* somebody does: it is settled though the others may lack it */
	looked();
	CHECK(!fenced && !freed);
	said[2].status = 0;
	said[1] = (struct said){ .away = true, .differs = true };
	looked();
	CHECK(!fenced && !freed);
	said[1] = (struct said){ .away = true, .status = -ENOSPC };
	looked();
	CHECK(!fenced && !freed);
	said[1] = (struct said){ .away = true, .status = NOTE_UNKNOWN, .settled = 5 };
	looked();
	CHECK(!fenced && !freed);
	end();
}

static void here_(void *arg)
{
	(void)arg;
	begin();
	said[1].away = false;
	looked();
	CHECK(!fenced && !freed);
	said[1].away = true;
	returns = true;
	looked();
	CHECK(fenced == 7 && !freed);
	end();
}

/* Who is BACK may have skipped it. */
static void back_(void *arg)
{
	(void)arg;
	begin();
	leader->view.state[2] = MEMBER_BACK;
	looked();
	CHECK(asked == 7 && !fenced && !freed);
	for (int i = 0; i < 3; i++)
		said[i].lacks = true;
	looked();
	CHECK_INT(freed, 7);
	leader->view.state[2] = MEMBER_OUT;
	looked();
	CHECK(asked == 3 && freed == 3);
	end();
}

static void patience_(void *arg)
{
	(void)arg;
	begin();
	CHECK(departing_waits(leader)); /* nobody has looked yet */
	looked();
	CHECK(departing_waits(leader));
	leader->departures.since_ns -= 4000000000ull;
	CHECK(!departing_waits(leader)); /* it did not help */
	leader->member[0].last.departing = 0;
	looked();
	CHECK(!departing_waits(leader) && !asked);
	end();
}

static void run(task_fn *fn)
{
	failures = 0;
	assert_int_equal(task_call(fn, NULL), 0);
	assert_int_equal(failures, 0);
}

static void what_all_have_alike_goes(void **state)
{
	(void)state;
	run(alike_);
}

static void what_differs_waits_for_a_view(void **state)
{
	(void)state;
	run(unlike_);
}

static void who_is_connected_to_any_member_is_not_gone(void **state)
{
	(void)state;
	run(here_);
}

static void while_a_member_is_back_only_who_has_changed_nothing_is_let_go(void **state)
{
	(void)state;
	run(back_);
}

static void a_view_waits_for_it_and_not_for_long(void **state)
{
	(void)state;
	run(patience_);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_all_have_alike_goes),
		cmocka_unit_test(what_differs_waits_for_a_view),
		cmocka_unit_test(who_is_connected_to_any_member_is_not_gone),
		cmocka_unit_test(while_a_member_is_back_only_who_has_changed_nothing_is_let_go),
		cmocka_unit_test(a_view_waits_for_it_and_not_for_long),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
