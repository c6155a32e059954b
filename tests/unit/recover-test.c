/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/coordinator: the steps of a recovery. The test is the members, and what heals them. */
#include "test-tasks.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator.h"

static int failures;
static unsigned undone, told;	  /* members whose logs were undone, or that were told what a change is by now */
static bool truth_is_gone, lacks; /* the last member, the directory of what was changed */
static int told_of_it;		  /* what that member was told last that a change is */
static bool nowhere;		  /* nothing that is known of gives the last member what was changed */
static bool unlisted;		  /* directories may differ of which no list tells */
static unsigned walked;		  /* how often the truth's whole tree would have been walked */
static bool listed_after;	  /* the recovery has not found that lists lack something */
static unsigned unlogged;	  /* changes of members that would stay if the recovery ended here and was undone */
static unsigned healed;		  /* how often a member was made equal */
static int clients_told;	  /* what clients are told that the change is */
static bool not_done;		  /* the truth has not done what others may have done */
static bool of_tenants;		  /* the change is of a client whose word is not enough */
static bool kept_in_use;	  /* the directory that turned out to lack something */
static bool nameless;		  /* it is a link(2), which all have done but one, where its object had no name left */
static bool two, both_have; /* there is another change of the object, which only the last member has done; or the truth, too */
static int others_say,
	other_was; /* what that member was told last that the other change is; and what that was when it was made equal first */
static unsigned resolved; /* how often all were told what has become of the changes */

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

int heal_find(struct heal *h, struct request *rq, const struct gfid *g, int from, int at, struct inode **inode)
{
	struct gfid directory = { { 8 } };

	(void)h, (void)rq, (void)from;
	kept_in_use |= gfid_equal(g, &directory) && !at;
	*inode = NULL;
	return truth_is_gone && !at ? -ENOTCONN : 0;
}

int heal_name(struct heal *h, struct request *rq, const struct gfid *directory, const char *name, int from, int to)
{
	(void)rq, (void)directory, (void)name, (void)from, (void)to;
	unlogged += !h->logs || !h->logs_made;
	return 0;
}

int heal_object(struct heal *h, struct request *rq, const struct gfid *g, int from, int to, uint64_t start, uint64_t end)
{
	(void)rq, (void)g, (void)from, (void)start, (void)end;
	if (to == 2 && other_was == 1)
		other_was = others_say;
	healed++;
	unlogged += !h->logs || !h->logs_made;
	return truth_is_gone ? -ENOTCONN : (lacks || nowhere) && to == 2 ? -ESRCH : 0;
}

int heal_whole(struct heal *h, struct request *rq, const struct gfid *g, int from, int to)
{
	(void)h, (void)rq, (void)g, (void)from, (void)to;
	return 0;
}

bool heal_adrift(struct heal *h, struct request *rq, const struct gfid *g, int at)
{
	(void)h, (void)rq, (void)g, (void)at;
	return false;
}

bool heal_knows(struct heal *h, struct request *rq, const struct gfid *g, int from, int at)
{
	(void)h, (void)rq, (void)g, (void)from, (void)at;
	return true;
}

int heal_lacking(struct heal *h, struct request *rq, const struct gfid *g, int from, int to,
		 int (*each)(void *, const struct gfid *), void *arg)
{
	struct gfid directory = { { 8 } };

	(void)h, (void)rq, (void)g, (void)from;
	return lacks && to == 2 ? each(arg, &directory) : 0;
}

int heal_missed(struct heal *h, struct request *rq, int from, int to, int (*each)(void *, const struct gfid *), void *arg)
{
	(void)h, (void)rq, (void)from, (void)to, (void)each, (void)arg;
	walked++;
	return 0;
}

int heal_undo(struct heal *h, struct request *rq, int at, int (*each)(void *, const struct gfid *, const char *), void *arg)
{
	(void)h, (void)rq, (void)each, (void)arg;
	undone |= 1u << at;
	return 0;
}

int heal_end_log(struct heal *h, struct request *rq, int at)
{
	(void)h, (void)rq, (void)at;
	return 0;
}

int heal_purge_limbo(struct heal *h, struct request *rq, int at)
{
	(void)h, (void)rq, (void)at;
	return 0;
}

int heal_sync(struct heal *h, struct request *rq, int *failed)
{
	(void)h, (void)rq, (void)failed;
	return 0;
}

void heal_forget_sync(struct heal *h)
{
	(void)h;
}

int tell_member(struct coordinator *c, int member, enum replica_verb verb, struct pack *more)
{
	struct unpack u = { .at = more ? more->bytes : NULL, .end = more ? more->bytes + more->size : NULL };
	struct note n = { 0 };

	(void)c;
	if (verb == REPLICA_RESOLVE) {
		told |= 1u << member;
		unpack_note(&u, &n);
		told_of_it = member == 2 && n.sequence == 1 ? n.status : told_of_it;
		others_say = member == 2 && n.sequence == 2 ? n.status : others_say;
	}
	pack_free(more);
	return 0;
}

unsigned tell_members(struct coordinator *c, unsigned mask, enum replica_verb verb, const struct pack *more,
		      uint64_t timeout_ns)
{
	struct unpack u = { .at = more ? more->bytes : NULL, .end = more ? more->bytes + more->size : NULL };
	struct note n = { 0 };

	(void)c, (void)timeout_ns;
	resolved += verb == REPLICA_RESOLVE;
	if (verb == REPLICA_RESOLVE) {
		unpack_note(&u, &n);
		clients_told = n.status;
	}
	return mask;
}

int missed_add(struct coordinator *c, const struct gfid *directory, struct inode *inode)
{
	(void)directory, (void)inode;
	c->missed.count++;
	return 0;
}

void missed_clear(struct coordinator *c)
{
	(void)c;
}

/* ---- what holds ---- */

/* Of three, all IN: a change of an object that only the first has done. Its error. */
static int recovered(bool owed)
{
	struct coordinator *c = calloc(1, sizeof(*c));
	static struct union_note u, other;
	int err;

	if (!c)
		return -ENOMEM;
	undone = told = resolved = walked = unlogged = healed = 0;
	kept_in_use = false;
	told_of_it = others_say = 0;
	other_was = 1;
	pthread_mutex_init(&c->lock, NULL);
	c->members = 3;
	c->lease_ms = 2000;
	c->heal_tasks = 1;
	c->owed.recovery = c->owed.scrub = owed;
	c->owed.unlisted = unlisted;
	c->view = (struct view){ .epoch = 2, .members = 3, .arbiter = REPLICAS_MAX, .order = { 0, 1, 2 } };
	for (int i = 0; i < 3; i++)
		c->view.state[i] = MEMBER_IN;
	u = (struct union_note){ .note = { .session = { 1 }, .sequence = 1, .fop = FOP_setattr, .objects = 1 },
				 .has = { !not_done } };
	u.note.tenants = of_tenants;
	u.note.object[0].kind = NOTE_META;
	u.note.object[0].gfid = (struct gfid){ { 7 } };
	u.status[1] = u.status[2] = NOTE_UNKNOWN;
	if (nameless) {
		u.note.fop = FOP_link;
		u.has[1] = u.has[2] = true;
		u.status[1] = -ENOENT;
		u.status[2] = 0;
	}
	other = u;
	other.note.sequence = 2;
	other.has[0] = both_have;
	other.has[2] = true;
	other.status[2] = 0;
	u.next = two ? &other : NULL;
	c->notes = &u;
	err = recover(c);
	listed_after = !c->owed.unlisted;
	pthread_mutex_destroy(&c->lock);
	free(c);
	return err;
}

static void well_(void *arg)
{
	(void)arg;
	truth_is_gone = false;
	CHECK_INT(recovered(true), 0);
	CHECK_INT(undone, 7);
	CHECK_INT(told, 6);
}

/* An earlier recovery may have been half done at any of them, by another truth. */
static void a_recovery_begins_with_undoing_what_each_member_has_of_an_earlier_one(void **state)
{
	(void)state;
	failures = 0;
	assert_int_equal(task_call(well_, NULL), 0);
	assert_int_equal(failures, 0);
}

static void logged_(void *arg)
{
	(void)arg;
	truth_is_gone = false;
	CHECK_INT(recovered(false), 0);
	CHECK_INT(resolved, 1);
	CHECK_INT(healed, 2);
	CHECK_INT(unlogged, 0);
	CHECK_INT(clients_told, 0);
}

/* Also where something is made that was not there: it may be half made when the recovery ends, and it, or the next one, is the truth. */
static void all_that_a_recovery_does_at_a_member_can_be_undone(void **state)
{
	(void)state;
	failures = 0;
	assert_int_equal(task_call(logged_, NULL), 0);
	assert_int_equal(failures, 0);
}

static void not_done_(void *arg)
{
	(void)arg;
	truth_is_gone = false;
	not_done = true;
	CHECK_INT(recovered(false), 0);
	not_done = false;
	CHECK_INT(healed, 2);
	CHECK_INT(clients_told, -ECANCELED);
}

/* The others are made to be as the truth, which has not done it. */
static void what_the_truth_has_not_done_is_told_to_be_undone(void **state)
{
	(void)state;
	failures = 0;
	assert_int_equal(task_call(not_done_, NULL), 0);
	not_done = false;
	assert_int_equal(failures, 0);
}

static void listed_(void *arg)
{
	(void)arg;
	truth_is_gone = unlisted = false;
	CHECK_INT(recovered(true), 0);
	CHECK_INT(walked, 0);
	unlisted = true;
	CHECK_INT(recovered(true), 0);
	CHECK_INT(walked, 2); /* of each other member what it lost */
	unlisted = false;
}

/* Changes wait for that. */
static void where_lists_tell_of_all_directories_no_tree_is_walked(void **state)
{
	(void)state;
	failures = 0;
	assert_int_equal(task_call(listed_, NULL), 0);
	assert_int_equal(failures, 0);
}

static void not_found_(void *arg)
{
	(void)arg;
	truth_is_gone = unlisted = lacks = false;
	CHECK_INT(recovered(true), 0);
	CHECK_INT(listed_after, true);
	nowhere = true;
	CHECK_INT(recovered(true), 0);
	CHECK_INT(walked, 2);
	CHECK_INT(listed_after, false);
	of_tenants = true;
	CHECK_INT(recovered(false), 0);
	CHECK_INT(walked, 0);
	CHECK_INT(listed_after, true); /* a liar could have all trees walked, and all that is there scrubbed */
	of_tenants = nowhere = false;
}

/* They say that they tell of all; but the object can't be where they tell of. What lies in a limbo is not deleted before its directory was looked for. */
static void where_something_is_on_no_list_all_the_same_the_trees_are_walked(void **state)
{
	(void)state;
	failures = 0;
	assert_int_equal(task_call(not_found_, NULL), 0);
	of_tenants = nowhere = false;
	assert_int_equal(failures, 0);
}

static void gone_(void *arg)
{
	(void)arg;
	truth_is_gone = true;
	CHECK_INT(recovered(false) != 0, true);
	CHECK_INT(told, 0);
}

/* Or whoever is left would know no more what was done. */
static void no_member_is_spoiled_for_the_sake_of_a_truth_that_is_gone(void **state)
{
	(void)state;
	failures = 0;
	assert_int_equal(task_call(gone_, NULL), 0);
	assert_int_equal(failures, 0);
}

static void lacking_(void *arg)
{
	(void)arg;
	truth_is_gone = false;
	lacks = true;
	CHECK_INT(recovered(false), -EAGAIN);
	CHECK_INT(told_of_it, -EIO);
	CHECK_INT(resolved, 0);
	CHECK_INT(kept_in_use, true); /* or it could not be found when the recovery begins anew */
	lacks = false;
	CHECK_INT(recovered(false), 0);
	CHECK_INT(resolved, 1);
}

/* It begins anew with that directory, which no list tells of. Until then the member, should it be the truth of the next, does not say that it has done it; nor is the client told. */
static void what_a_member_has_no_directory_for_is_not_told_to_be_done(void **state)
{
	(void)state;
	failures = 0;
	assert_int_equal(task_call(lacking_, NULL), 0);
	lacks = false;
	assert_int_equal(failures, 0);
}

static void nameless_(void *arg)
{
	(void)arg;
	truth_is_gone = false;
	nameless = true;
	CHECK_INT(recovered(false), 0);
	CHECK_INT(clients_told, -ECANCELED);
}

/* The unlink of its last name was answered, and came sooner there. */
static void a_link_is_undone_if_its_object_had_no_name_left_at_a_member(void **state)
{
	(void)state;
	failures = 0;
	assert_int_equal(task_call(nameless_, NULL), 0);
	nameless = false;
	assert_int_equal(failures, 0);
}

static void two_(void *arg)
{
	(void)arg;
	truth_is_gone = false;
	two = true;
	CHECK_INT(recovered(false), 0);
	CHECK_INT(other_was, -EIO);
	CHECK_INT(others_say, -ENOTDONE); /* in the end */
	both_have = true;
	CHECK_INT(recovered(false), 0);
	CHECK_INT(other_was, 0);
}

/* What is made equal is all of the object. Should that member be the truth of the next, for this one does not come to its end, it must not say that it has what has gone by then. */
static void what_goes_when_another_change_of_the_object_is_recovered_is_not_told_to_be_done(void **state)
{
	(void)state;
	failures = 0;
	assert_int_equal(task_call(two_, NULL), 0);
	two = both_have = false;
	assert_int_equal(failures, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_recovery_begins_with_undoing_what_each_member_has_of_an_earlier_one),
		cmocka_unit_test(all_that_a_recovery_does_at_a_member_can_be_undone),
		cmocka_unit_test(what_the_truth_has_not_done_is_told_to_be_undone),
		cmocka_unit_test(where_lists_tell_of_all_directories_no_tree_is_walked),
		cmocka_unit_test(where_something_is_on_no_list_all_the_same_the_trees_are_walked),
		cmocka_unit_test(no_member_is_spoiled_for_the_sake_of_a_truth_that_is_gone),
		cmocka_unit_test(a_link_is_undone_if_its_object_had_no_name_left_at_a_member),
		cmocka_unit_test(what_goes_when_another_change_of_the_object_is_recovered_is_not_told_to_be_done),
		cmocka_unit_test(what_a_member_has_no_directory_for_is_not_told_to_be_done),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
