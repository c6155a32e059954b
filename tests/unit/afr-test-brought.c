/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/afr: a member that has come back is brought open files and their locks, and meanwhile those are given back, or closed: then it keeps none of them. */
#include "afr-test-brought.h"

#include <fcntl.h>

enum { TRIES = 10000 }; /* one each millisecond */

static void write_aside(void *arg)
{
	struct doing *d = arg;

	d->result = tree_write(&tree, file, 0, "data", 4);
	atomic_store(&d->done, true);
}

static void unlock_aside(void *arg)
{
	struct doing *d = arg;

	d->result = lock(tree.at, file, lock_of(F_UNLCK, OWNER));
	atomic_store(&d->done, true);
}

void await(struct doing *d)
{
	while (!atomic_load(&d->done))
		task_sleep_ms(1);
}

void let_go(int i)
{
	say(hold[i], "hold", "none");
	say(hold[i], "release", "all");
}

int flush(struct file *through, uint64_t owner)
{
	struct flush_in in = { .file = through, .owner = owner };
	struct flush_out out = { 0 };

	return tree_call(&tree, tree.at, FOP_flush, &in, &out);
}

/* "f" is open and locked, but not at member 2, which comes back. A write needs it there: `fop` of that is kept at the member. */
void come_back(struct doing *write, char *fop)
{
	*write = (struct doing){ .result = 1 };
	CHECK_INT(make_unopened(), 0);
	all_say("out", "2");
	next_view();
	CHECK_INT(tree_open_file(&tree, "f", O_RDWR, &file), 0);
	CHECK_INT(lock(tree.at, file, lock_of(F_WRLCK, OWNER)), 0);
	all_say("out", "-1");
	all_say("back", "2");
	view_number("2");
	say(hold[2], "hold", fop);
	task_spawn(NULL, write_aside, write);
	while (!parked_at(2))
		task_sleep_ms(1);
}

/* Maybe a moment later. The last try is that of the test. */
void is_free_at(int i, struct inode *inode)
{
	struct open_in open = { .inode = inode, .flags = O_RDWR };
	struct open_out opened = { 0 };

	CHECK_INT(tree_call(&tree, locks[i], FOP_open, &open, &opened), 0);
	for (int tries = 0; tries < TRIES && lock(locks[i], opened.file, lock_of(F_WRLCK, STRANGER)); tries++)
		task_sleep_ms(1);
	CHECK_INT(lock(locks[i], opened.file, lock_of(F_WRLCK, STRANGER)), 0);
	CHECK_INT(lock(locks[i], opened.file, lock_of(F_UNLCK, STRANGER)), 0);
	fop_out_clear(FOP_open, &opened);
}

/* ---- given back ---- */

static void given_back_while_it_is_brought(void *arg)
{
	struct doing write;

	(void)arg;
	come_back(&write, "setlk");
	CHECK_INT(lock(tree.at, file, lock_of(F_UNLCK, OWNER)), 0);
	let_go(2);
	await(&write);
	is_free_at(2, file->inode);
	tree_release(&tree, file);
}

/* All of the bringing falls between the moment in which member 2 would have been told and that in which it is noted. */
static void brought_while_it_is_given_back(void *arg)
{
	struct doing write, unlock = { .result = 1 };

	(void)arg;
	come_back(&write, "open");
	say(hold[1], "hold", "setlk");
	task_spawn(NULL, unlock_aside, &unlock);
	while (!parked_at(1))
		task_sleep_ms(1);
	let_go(2);
	await(&write);
	let_go(1);
	await(&unlock);
	CHECK_INT(unlock.result, 0);
	is_free_at(2, file->inode);
	tree_release(&tree, file);
}

/* The file stays open: what was taken by who closes one of its descriptors is free. */
static void flushed_while_it_is_brought(void *arg)
{
	struct doing write;

	(void)arg;
	come_back(&write, "setlk");
	CHECK_INT(flush(file, OWNER), 0);
	let_go(2);
	await(&write);
	is_free_at(2, file->inode);
	tree_release(&tree, file);
}

static void a_lock_that_is_given_back_while_it_is_brought_does_not_stay(void **state)
{
	(void)state;
	on_set(3, given_back_while_it_is_brought);
	on_set(3, brought_while_it_is_given_back);
	on_set(3, flushed_while_it_is_brought);
}

/* Who closes it can't be told where the locks are to be given back: nobody would know of them any more, and all members have them. */
static void flushed_without_a_view(void *arg)
{
	struct flush_in in = { .owner = OWNER };
	struct flush_out out = { 0 };
	struct request rq;

	(void)arg;
	tree.client = NULL; /* as what is brought: at a real member all of it is of one session */
	CHECK_INT(make_file(), 0);
	CHECK_INT(lock(tree.at, file, lock_of(F_WRLCK, OWNER)), 0);
	for (int i = 0; i < members; i++)
		connection(i, EVENT_CHILD_DOWN);
	next_view();
	in.file = file;
	request_init(&rq, tree.graph, 0);
	rq.deadline_ns = clock_ns() + 50000000;
	CHECK_INT(fop_call(&rq, tree.at, FOP_flush, &in, &out), -EIO);
	request_finish(&rq);
	for (int i = 0; i < members; i++)
		connection(i, EVENT_CHILD_UP);
	for (int i = 0; i < members; i++)
		is_free_at(i, file->inode);
	tree_release(&tree, file);
}

static void a_flush_is_heard_of_though_there_is_no_view(void **state)
{
	(void)state;
	on_set(3, flushed_without_a_view);
}

/* The file is open there, and what member 2 had refused is brought later: what is asked of it meanwhile, by so many setlks, overtakes that. */
static void overtaken(int (*give_back)(void), unsigned own)
{
	struct open_in open = { .flags = O_RDWR };
	struct open_out opened = { 0 };
	unsigned before;

	all_say("back", "2");
	next_view();
	CHECK_INT(make_file(), 0);
	open.inode = file->inode;
	CHECK_INT(tree_call(&tree, locks[2], FOP_open, &open, &opened), 0);
	CHECK_INT(lock(locks[2], opened.file, lock_of(F_WRLCK, STRANGER)), 0);
	CHECK_INT(lock(tree.at, file, lock_of(F_WRLCK, OWNER)), 0);
	say(hold[2], "hold", "setlk");
	while (!parked_at(2))
		task_sleep_ms(1);
	CHECK_INT(lock(locks[2], opened.file, lock_of(F_UNLCK, STRANGER)), 0);
	say(hold[2], "hold", "none");
	before = counted_at(2, "setlks: ");
	CHECK_INT(give_back(), 0);
	CHECK_INT(counted_at(2, "setlks: "), before + own);
	say(hold[2], "release", "all");
	while (counted_at(2, "setlks: ") == before + own) /* it has come */
		task_sleep_ms(1);
	fop_out_clear(FOP_open, &opened);
	is_free_at(2, file->inode);
	tree_release(&tree, file);
}

static int unlock_it(void)
{
	return lock(tree.at, file, lock_of(F_UNLCK, OWNER));
}

static int flush_it(void)
{
	return flush(file, OWNER);
}

static void overtaken_by_an_unlock(void *arg)
{
	(void)arg;
	overtaken(unlock_it, 1);
}

static void overtaken_by_a_flush(void *arg)
{
	(void)arg;
	overtaken(flush_it, 0);
}

bool is_held_at(int i, struct file *at)
{
	struct getlk_in in = { .file = at, .lock = lock_of(F_WRLCK, STRANGER) };
	struct getlk_out out = { 0 };

	return !tree_call(&tree, locks[i], FOP_getlk, &in, &out) && out.lock.type != F_UNLCK;
}

void connection(int i, enum event_kind kind)
{
	event_up(member[i], &(struct event){ .kind = kind });
}

/* Member 2 has missed that the lock was given back, and is brought that; meanwhile it is taken again. */
static void overtaken_by_a_lock(void *arg)
{
	struct open_in open = { .flags = O_RDWR };
	struct open_out opened = { 0 };
	unsigned before;

	(void)arg;
	tree.client = NULL; /* as what is brought: at a real member all of it is of one session */
	all_say("back", "2");
	next_view();
	CHECK_INT(make_file(), 0);
	open.inode = file->inode;
	CHECK_INT(tree_call(&tree, locks[2], FOP_open, &open, &opened), 0);
	CHECK_INT(lock(tree.at, file, lock_of(F_WRLCK, OWNER)), 0);
	connection(2, EVENT_CHILD_DOWN);
	CHECK_INT(lock(tree.at, file, lock_of(F_UNLCK, OWNER)), 0);
	CHECK_INT(is_held_at(2, opened.file), true);
	say(hold[2], "hold", "setlk");
	connection(2, EVENT_CHILD_UP);
	while (!parked_at(2))
		task_sleep_ms(1);
	say(hold[2], "hold", "none");
	before = counted_at(2, "setlks: ");
	CHECK_INT(lock(tree.at, file, lock_of(F_WRLCK, OWNER)), 0);
	CHECK_INT(counted_at(2, "setlks: "), before + 1);
	say(hold[2], "release", "all");
	while (counted_at(2, "setlks: ") == before + 1) /* it has come */
		task_sleep_ms(1);
	for (int tries = 0; tries < TRIES && !is_held_at(2, opened.file); tries++)
		task_sleep_ms(1);
	CHECK_INT(is_held_at(2, opened.file), true);
	fop_out_clear(FOP_open, &opened);
	tree_release(&tree, file);
}

static void a_lock_that_is_brought_is_overtaken_by_nothing(void **state)
{
	(void)state;
	on_set(3, overtaken_by_an_unlock);
	on_set(3, overtaken_by_a_flush);
	on_set(3, overtaken_by_a_lock);
}

/* ---- closed ---- */

/* Who writes waits for member 2 no more, as that has left the view; but what was begun there goes on, in its time. */
static void closed_before(char *fop)
{
	cleanup_inode struct inode *inode = NULL;
	struct doing write;
	char number[16];

	come_back(&write, fop);
	all_say("back", "-1");
	all_say("out", "2");
	for (int i = 3; !atomic_load(&write.done); i++) { /* in the next view it goes on, whatever of it is recovered */
		sprintf(number, "%d", i);
		view_number(number);
		CHECK_INT(lock(tree.at, file, lock_of(F_WRLCK, OWNER)), 0); /* by which the view is fetched */
		task_sleep_ms(10);
	}
	inode = inode_ref(file->inode);
	tree_release(&tree, file);
	let_go(2);
	while (!counted_at(2, "opened: "))
		task_sleep_ms(1);
	for (int tries = 0; tries < TRIES && !counted_at(2, "closed: "); tries++)
		task_sleep_ms(1);
	CHECK_INT(counted_at(2, "opened: "), 1);
	CHECK_INT(counted_at(2, "closed: "), 1);
	is_free_at(2, inode);
}

static void closed_while_it_is_opened(void *arg)
{
	(void)arg;
	closed_before("open");
}

static void closed_while_its_locks_are_brought(void *arg)
{
	(void)arg;
	closed_before("setlk");
}

static void a_file_that_is_closed_while_it_is_opened_at_a_member_does_not_stay_open_there(void **state)
{
	(void)state;
	on_set(3, closed_while_it_is_opened);
	on_set(3, closed_while_its_locks_are_brought);
}

const struct CMUnitTest brought_tests[] = {
	cmocka_unit_test(a_lock_that_is_given_back_while_it_is_brought_does_not_stay),
	cmocka_unit_test(a_flush_is_heard_of_though_there_is_no_view),
	cmocka_unit_test(a_lock_that_is_brought_is_overtaken_by_nothing),
	cmocka_unit_test(a_file_that_is_closed_while_it_is_opened_at_a_member_does_not_stay_open_there),
};
const unsigned brought_tests_count = sizeof(brought_tests) / sizeof(brought_tests[0]);
