/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/afr: a change that is good only while a lock is held (libcore/held.h) is done by all members or by none, and where one is known to have given the lock up nothing
 * is sent. */
#include "afr-test-doing.h"

#include <fcntl.h>

#include "held.h"

static int set_lock(struct xlator *at, struct file *through, uint32_t type, uint32_t pid)
{
	struct setlk_in in = { through,
			       { .kind = LOCK_POSIX, .type = type, .start = 10, .end = 19, .owner = OWNER, .pid = pid } };
	struct setlk_out out = { 0 };

	return tree_call(&tree, at, FOP_setlk, &in, &out);
}

static int write_held(uint32_t pid)
{
	cleanup_buffer struct buffer *data = buffer_from("data", 4);
	struct write_in in = { .file = file, .data = data };
	struct write_out out = { 0 };
	struct request rq;
	int err;

	request_init(&rq, tree.graph, 0);
	rq.client = &client;
	err = held_attach(&rq, &(struct held_mark){ OWNER, 10, 19, pid });
	if (!err)
		err = fop_call(&rq, tree.at, FOP_write, &in, &out);
	request_finish(&rq);
	return err;
}

static int written(void)
{
	int count = 0;

	for (int i = 0; i < members; i++) {
		struct getattr_in in = { .inode = file->inode };
		struct getattr_out out = { 0 };

		count += !tree_call(&tree, locks[i], FOP_getattr, &in, &out) && out.attr.size == 4;
	}
	return count;
}

static unsigned failed(void)
{
	unsigned sum = 0;

	for (int i = 0; i < members; i++)
		sum += counted_at(i, "failed: ");
	return sum;
}

/* The member has no such lock any more, and this client has not heard of it. */
static void lose_at(int i)
{
	struct open_in open = { .inode = file->inode, .flags = O_RDWR };
	struct open_out opened = { 0 };

	CHECK_INT(tree_call(&tree, locks[i], FOP_open, &open, &opened), 0);
	CHECK_INT(set_lock(locks[i], opened.file, F_UNLCK, 0), 0);
	fop_out_clear(FOP_open, &opened);
}

static void take_anew(uint32_t pid)
{
	CHECK_INT(set_lock(tree.at, file, F_UNLCK, pid), 0);
	CHECK_INT(set_lock(tree.at, file, F_WRLCK, pid), 0);
	CHECK_INT(write_held(pid), 0);
	CHECK_INT(written(), members);
}

static void is_not_sent_if_one_gave_it_up(void *arg)
{
	(void)arg;
	CHECK_INT(make_file(), 0);
	CHECK_INT(set_lock(tree.at, file, F_WRLCK, 1), 0);
	event_up(member[1],
		 &(struct event){
			 .kind = EVENT_LOCK_LOST,
			 .inode = file->inode,
			 .lock = { .kind = LOCK_POSIX, .type = F_WRLCK, .start = 10, .end = 19, .owner = OWNER, .pid = 1 } });
	CHECK_INT(write_held(1), -ENOTHELD);
	CHECK_INT(written(), 0);
	CHECK_INT(failed(), 0);
	take_anew(2);
	tree_release(&tree, file);
}

static void is_refused_by_all(void *arg)
{
	(void)arg;
	CHECK_INT(make_file(), 0);
	CHECK_INT(set_lock(tree.at, file, F_WRLCK, 1), 0);
	for (int i = 0; i < members; i++)
		lose_at(i);
	CHECK_INT(write_held(1), -ENOTHELD);
	CHECK_INT(written(), 0);
	CHECK_INT(failed(), 0); /* nothing was done: there is nothing to recover */
	take_anew(2);
	tree_release(&tree, file);
}

static void write_aside(void *arg)
{
	struct doing *d = arg;

	d->err = write_held(1);
	atomic_store(&d->done, true);
}

/* The others have done it: that is recovered, as whatever members do not agree about, and then it is not sent any more. */
static void is_refused_by_one(void *arg)
{
	struct doing d = { 1 };

	(void)arg;
	CHECK_INT(make_file(), 0);
	CHECK_INT(set_lock(tree.at, file, F_WRLCK, 1), 0);
	lose_at(1);
	say(hold[2], "hold", "write");
	task_spawn(NULL, write_aside, &d);
	while (!parked_at(2))
		task_sleep_ms(1);
	say(hold[2], "release", "all");
	while (failed() < (unsigned)members ||
	       !parked_at(2)) /* it is tried again, for a while: not until that is over, whatever the machine does */
		task_sleep_ms(1);
	CHECK_INT(atomic_load(&d.done), false);
	next_view();
	say(hold[2], "hold", "none");
	say(hold[2], "release", "all");
	while (!atomic_load(&d.done))
		task_sleep_ms(1);
	CHECK_INT(d.err, -ENOTHELD);
	take_anew(2);
	tree_release(&tree, file);
}

static void what_needs_a_lock_that_one_member_gave_up_is_not_sent(void **state)
{
	(void)state;
	on_set(3, is_not_sent_if_one_gave_it_up);
	on_set(2, is_not_sent_if_one_gave_it_up);
}

static void what_all_refuse_for_the_lock_is_not_recovered(void **state)
{
	(void)state;
	on_set(3, is_refused_by_all);
}

static void what_one_refuses_for_the_lock_is_recovered_and_not_sent_again(void **state)
{
	(void)state;
	on_set(3, is_refused_by_one);
}

const struct CMUnitTest held_tests[] = {
	cmocka_unit_test(what_needs_a_lock_that_one_member_gave_up_is_not_sent),
	cmocka_unit_test(what_all_refuse_for_the_lock_is_not_recovered),
	cmocka_unit_test(what_one_refuses_for_the_lock_is_recovered_and_not_sent_again),
};
const unsigned held_tests_count = sizeof(held_tests) / sizeof(held_tests[0]);
