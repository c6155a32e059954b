/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/coordinator: who is the truth after members went down, and what the register says of that. The test is the members, and the view that is made. */
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coordinator.h"
#include "register.h"

enum { MEMBERS = 3, OWED_SCRUB = 1, OWED_RECOVERY = 2 };

static struct view made; /* the last one; epoch 0: none */
static bool made_cold;
static unsigned held; /* how often those that are left were to sync */

/* ---- what is around it ---- */

int view_change(struct coordinator *c, struct view *next, bool cold, const char *why)
{
	(void)why;
	made = *next;
	made.epoch = c->view.epoch + 1;
	made_cold = cold;
	return 0;
}

void few_hold(struct coordinator *c)
{
	(void)c;
	held++;
}

int recover(struct coordinator *c)
{
	(void)c;
	return -EIO;
}

bool member_live(const struct coordinator *c, int i)
{
	return c->member[i].known;
}

bool member_silent(const struct coordinator *c, int i)
{
	return !c->member[i].known;
}

bool lacking_is_due(const struct coordinator *c)
{
	(void)c;
	return false;
}

void lacking_take_all(struct coordinator *c, const struct view *next)
{
	(void)c, (void)next;
}

bool departing_waits(const struct coordinator *c)
{
	(void)c;
	return false;
}

int scrub_start(struct coordinator *c, bool repair)
{
	(void)c, (void)repair;
	return 0;
}

/* ---- a set ---- */

static struct coordinator c;

/* Its members 0 and 2 are IN, which were made equal to 2 when the power of 0 had gone; 1 is away, and had everything. */
static void begin(void)
{
	c = (struct coordinator){ .members = MEMBERS, .lease_ms = 2000, .cold_wait_ms = 3600000 };
	pthread_mutex_init(&c.lock, NULL);
	c.view = (struct view){ .epoch = 7,
				.members = MEMBERS,
				.arbiter = REPLICAS_MAX,
				.state = { MEMBER_IN, MEMBER_OUT, MEMBER_IN },
				.order = { 2, 0, 1 },
				.away = 1u << 1 };
	for (int i = 0; i < MEMBERS; i++) {
		uint64_t number = 10 * (uint64_t)(i + 1);

		c.view.incarnation[i] = number;
		c.view.boot[i] = number + 1;
		c.view.disk[i] = number + 2;
		c.member[i].c = &c;
		c.member[i].number = i;
		c.member[i].known = i != 1;
		c.member[i].last =
			(struct lease_reply){ .epoch = 7, .incarnation = number, .boot = number + 1, .disk = number + 2 };
	}
	c.owed = c.stored_owed = (struct owed){ .scrub = true, .recovery = true, .held = true };
	c.stored = 7;
	made = (struct view){ 0 };
	held = 0;
}

static void restart(int i, bool power)
{
	c.member[i].last.incarnation++;
	c.member[i].last.boot += power ? 1000 : 0;
	c.member[i].last.epoch = 0;
}

static void end(void)
{
	pthread_mutex_destroy(&c.lock);
}

/* ---- what holds ---- */

static void the_truth_of_a_recovery_that_was_broken_off_is_that_of_the_next_one(void **state)
{
	(void)state;
	begin();
	restart(2, true);
	decide(&c);
	assert_int_equal(made.epoch, 8);
	assert_true(made_cold);
	assert_int_equal(made.state[0], MEMBER_IN);
	assert_int_equal(view_first(&made), 2);
	assert_int_equal(made.away, 1u << 1);
	end();
}

static void who_was_being_recovered_waits_for_the_truth(void **state)
{
	(void)state;
	begin();
	c.member[2].known = false;
	decide(&c);
	assert_int_equal(made.epoch, 0);
	assert_false(c.writable);
	assert_int_equal(held, 1);
	end();
}

/* How long members were waited for before that view does not count for who goes from now on. */
static void who_goes_after_a_view_was_made_is_waited_for_anew(void **state)
{
	(void)state;
	begin();
	c.quorum_lost_ns = 1;
	restart(2, true);
	decide(&c);
	assert_int_equal(made.epoch, 8);
	assert_int_equal(c.quorum_lost_ns, 0);
	end();
}

static void where_the_truth_has_lost_its_disk_one_that_was_away_is_waited_for(void **state)
{
	(void)state;
	begin();
	restart(2, true);
	c.member[2].last.disk += 1000;
	decide(&c);
	assert_int_equal(made.epoch, 0);
	assert_false(c.writable);
	c.member[1].known = true;
	restart(1, false);
	decide(&c);
	assert_int_equal(made.epoch, 8);
	assert_int_equal(view_first(&made), 1);
	assert_int_equal(made.state[2], MEMBER_OUT);
	end();
}

/* It may never come. */
static void where_the_truth_has_lost_its_disk_the_others_go_on_in_the_end(void **state)
{
	(void)state;
	begin();
	c.cold_wait_ms = 0;
	c.quorum_lost_ns = 1;
	restart(2, true);
	c.member[2].last.disk += 1000;
	decide(&c);
	assert_int_equal(made.epoch, 8);
	assert_int_equal(view_first(&made), 0);
	assert_int_equal(made.away, 1u << 1);
	end();
}

static void without_the_truth_it_is_one_that_was_away_and_kept_running(void **state)
{
	(void)state;
	begin();
	c.cold_wait_ms = 0;
	c.quorum_lost_ns = 1;
	c.member[2].known = false;
	c.member[1].known = true;
	restart(1, false);
	decide(&c);
	assert_int_equal(made.epoch, 8);
	assert_int_equal(view_first(&made), 1);
	assert_int_equal(made.state[0], MEMBER_IN);
	assert_int_equal(made.away, 1u << 2);
	end();
}

/* A recovery that fails again and again, as where a disk is bad, may need it. */
static void who_was_away_comes_in_while_the_recovery_is_owed(void **state)
{
	(void)state;
	begin();
	c.member[1].known = true;
	decide(&c);
	assert_int_equal(made.epoch, 8);
	assert_int_equal(view_mask(&made, MEMBER_IN), 7);
	assert_int_equal(view_first(&made), 2);
	end();
}

/* There changes went on, and the first had not synced. */
static void a_view_of_a_version_before_goes_by_whose_machine_kept_running(void **state)
{
	(void)state;
	begin();
	c.owed.held = false;
	restart(2, true);
	decide(&c);
	assert_int_equal(made.epoch, 8);
	assert_int_equal(view_first(&made), 0);
	end();
}

static void who_synced_while_nothing_could_be_acknowledged_kept_everything(void **state)
{
	(void)state;
	begin();
	c.owed = c.stored_owed = (struct owed){ 0 };
	c.view.away = 0;
	c.view.order[0] = 0;
	c.view.order[1] = 2;
	restart(0, true);
	restart(2, true);
	c.member[2].held_epoch = 7;
	decide(&c);
	assert_int_equal(made.epoch, 8);
	assert_int_equal(view_first(&made), 2);
	c.member[2].held_epoch = 6; /* of another view */
	decide(&c);
	assert_int_equal(view_first(&made), 0);
	end();
}

/* It may be slow, and with it would go what was acknowledged and not synced: it is tried again, but not for ever. */
static void a_truth_that_does_not_do_its_part_is_tried_again(void **state)
{
	(void)state;
	begin();
	c.member[1].known = true;
	c.view.state[1] = MEMBER_IN;
	c.view.away = 0;
	for (int tries = 0; tries < 5; tries++) {
		c.member[2].broken = true;
		decide(&c);
		assert_int_equal(made.epoch, 0);
	}
	c.member[2].broken = true;
	decide(&c);
	assert_int_equal(made.epoch, 8);
	assert_int_equal(made.state[2], MEMBER_OUT);
	end();
}

/* One object at a member that nobody can do without: the others are changed, once the register says that this is so. */
static void changes_go_on_if_the_recovery_fails_for_long(void **state)
{
	(void)state;
	begin();
	c.failing_ns = 1;
	decide(&c);
	assert_true(c.goes_on);
	assert_false(c.writable);
	c.owed.held = c.stored_owed.held = false;
	c.view.away = 0;
	decide(&c);
	assert_true(c.writable);
	end();
}

static void changes_wait_while_a_recovery_is_owed(void **state)
{
	(void)state;
	begin();
	tell_writable(&c, true);
	assert_false(c.writable);
	assert_true(c.changes_wait);
	c.owed.recovery = false; /* it has ended, and the register does not say so yet */
	tell_writable(&c, true);
	assert_false(c.writable);
	c.stored_owed.recovery = false;
	tell_writable(&c, true);
	assert_true(c.writable);
	assert_false(c.changes_wait);
	tell_writable(&c, false);
	assert_false(c.writable);
	assert_false(c.changes_wait);
	end();
}

/* ---- the register ---- */

static void in_a_file(char path[64])
{
	int fd;

	begin();
	snprintf(path, 64, "/tmp/stratus-decide-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	c.state_file = path;
}

static void out_of_the_file(void)
{
	char lock[80];

	snprintf(lock, sizeof(lock), "%s.lock", c.state_file);
	unlink(lock);
	unlink(c.state_file);
	end();
}

static void the_register_keeps_what_is_owed(void **state)
{
	struct owed owed;
	uint64_t version;
	struct view v;
	char path[64];

	(void)state;
	in_a_file(path);
	unlink(path);
	assert_int_equal(register_write(&c, &c.view, c.owed, 0), 0);
	assert_int_equal(register_read(&c, &v, &owed, &version), 0);
	assert_true(owed.recovery && owed.held && owed.scrub);
	assert_int_equal(v.away, 1u << 1);
	c.stored = v.epoch;
	assert_int_equal(register_write(&c, &c.view, (struct owed){ .held = true }, 0), 0);
	assert_int_equal(register_read(&c, &v, &owed, &version), 0);
	assert_false(owed.recovery || owed.held || owed.scrub);
	out_of_the_file();
}

static void the_register_of_a_version_before_is_read(void **state)
{
	struct pack p = { 0 };
	struct owed owed;
	uint64_t version;
	struct view v;
	char path[64];
	FILE *f;

	(void)state;
	in_a_file(path);
	pack_u32(&p, REGISTER_VIEW);
	pack_view(&p, &c.view);
	pack_u8(&p, OWED_SCRUB | OWED_RECOVERY);
	for (int i = 0; i < MEMBERS; i++)
		pack_u64(&p, c.view.boot[i]);
	pack_u32(&p, 0);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(p.bytes, 1, p.size, f), p.size);
	assert_int_equal(fclose(f), 0);
	pack_free(&p);
	assert_int_equal(register_read(&c, &v, &owed, &version), 0);
	assert_true(owed.recovery && owed.scrub);
	assert_false(owed.held);
	assert_int_equal(v.epoch, 7);
	out_of_the_file();
}

/* Its disk takes no changes, so it is never healed; what it says of others does not count, for it may know nothing. */
static void who_is_back_and_suspects_itself_is_left_out(void **state)
{
	(void)state;
	begin();
	c.owed = c.stored_owed = (struct owed){ 0 };
	c.view.state[1] = MEMBER_BACK;
	c.view.away = 0;
	c.member[1].known = true;
	c.member[1].last.suspects = 1u << 0;
	decide(&c);
	assert_int_equal(made.epoch, 0);
	c.member[1].last.suspects = 1u << 1;
	c.member[1].last.reason[1] = EROFS;
	decide(&c);
	assert_int_equal(made.epoch, 8);
	assert_int_equal(made.state[1], MEMBER_OUT);
	assert_int_equal(made.state[0], MEMBER_IN);
	end();
}

/* All are IN, and nothing is owed. */
static void begin_whole(void)
{
	begin();
	c.view.state[1] = MEMBER_IN;
	c.view.away = 0;
	c.member[1].known = true;
	c.owed = c.stored_owed = (struct owed){ .scrub = false };
}

static void go_on_in_made(void)
{
	c.view = made;
	made = (struct view){ 0 };
	for (int i = 0; i < MEMBERS; i++)
		c.member[i].last.epoch = c.view.epoch;
}

static void who_is_going_to_end_is_left_out_and_not_taken_back(void **state)
{
	(void)state;
	begin_whole();
	c.member[0].last.leaving = 1;
	assert_false(decided(&c)); /* it has said so, and nothing came of it yet */
	decide(&c);
	assert_int_equal(made.state[0], MEMBER_OUT);
	assert_int_equal(view_mask(&made, MEMBER_IN), 6);
	assert_false(c.member[0].needed);
	go_on_in_made();
	assert_true(decided(&c));
	decide(&c);
	assert_int_equal(made.epoch, 0); /* it still answers */
	c.member[0].last.leaving = 0;
	c.member[0].last.incarnation++; /* started anew */
	decide(&c);
	assert_int_equal(made.state[0], MEMBER_BACK);
	end();
}

/* One alone could go, but then the other one, without which nothing goes on, would come back to a view that it was not in. */
static void of_more_than_can_be_spared_nobody_is_left_out(void **state)
{
	(void)state;
	begin_whole();
	c.member[0].last.leaving = c.member[2].last.leaving = 1;
	decide(&c);
	assert_int_equal(made.epoch, 0);
	assert_true(c.member[0].needed && c.member[2].needed && !c.member[1].needed);
	assert_true(decided(&c)); /* there is nothing to wait for */
	end();
}

static void who_alone_has_everything_is_needed(void **state)
{
	(void)state;
	begin_whole();
	c.owed = c.stored_owed = (struct owed){ .recovery = true, .held = true };
	c.member[2].last.leaving = 1;
	decide(&c);
	assert_true(!made.epoch || made.state[2] == MEMBER_IN);
	assert_true(c.member[2].needed);
	end();
}

/* Of a coordinator that makes its first view the members are frozen until that is there. */
static void the_first_view_is_waited_for(void **state)
{
	(void)state;
	begin_whole();
	c.view.epoch = 0;
	assert_true(decided(&c));
	c.deciding = true;
	assert_false(decided(&c));
	end();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_back_and_suspects_itself_is_left_out),
		cmocka_unit_test(the_truth_of_a_recovery_that_was_broken_off_is_that_of_the_next_one),
		cmocka_unit_test(who_was_being_recovered_waits_for_the_truth),
		cmocka_unit_test(who_goes_after_a_view_was_made_is_waited_for_anew),
		cmocka_unit_test(where_the_truth_has_lost_its_disk_one_that_was_away_is_waited_for),
		cmocka_unit_test(where_the_truth_has_lost_its_disk_the_others_go_on_in_the_end),
		cmocka_unit_test(without_the_truth_it_is_one_that_was_away_and_kept_running),
		cmocka_unit_test(who_was_away_comes_in_while_the_recovery_is_owed),
		cmocka_unit_test(a_view_of_a_version_before_goes_by_whose_machine_kept_running),
		cmocka_unit_test(who_synced_while_nothing_could_be_acknowledged_kept_everything),
		cmocka_unit_test(a_truth_that_does_not_do_its_part_is_tried_again),
		cmocka_unit_test(changes_go_on_if_the_recovery_fails_for_long),
		cmocka_unit_test(changes_wait_while_a_recovery_is_owed),
		cmocka_unit_test(the_register_keeps_what_is_owed),
		cmocka_unit_test(the_register_of_a_version_before_is_read),
		cmocka_unit_test(who_is_going_to_end_is_left_out_and_not_taken_back),
		cmocka_unit_test(of_more_than_can_be_spared_nobody_is_left_out),
		cmocka_unit_test(who_alone_has_everything_is_needed),
		cmocka_unit_test(the_first_view_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
