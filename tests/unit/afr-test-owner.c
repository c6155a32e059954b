/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/afr: POSIX locks belong to who took them. He has the file open twice, takes them through one of his files, and gives them back, or closes, through the other,
 * while a member is away: it keeps none, and lacks none. */
#include "afr-test-brought.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static struct file *second; /* the same as `file`, opened once more */

/* Not by its name: who looks that up waits for what is under way. */
static void open_second(void)
{
	struct open_in in = { .inode = file->inode, .flags = O_RDWR };
	struct open_out out = { 0 };

	CHECK_INT(tree_call(&tree, tree.at, FOP_open, &in, &out), 0);
	second = out.file;
}

static unsigned noted(void)
{
	char *text = NULL;
	unsigned count;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	tree.graph->top->type->dump(tree.graph->top, f);
	fclose(f);
	count = (unsigned)atoi(strstr(text, "locks noted: ") + strlen("locks noted: "));
	free(text);
	return count;
}

/* Member 2 has the first file open, with the lock, and has left the view; the second is not open there. */
static void lock_and_leave(void)
{
	tree.client = NULL; /* as what is brought: at a real member all of it is of one session */
	CHECK_INT(make_file(), 0);
	CHECK_INT(lock(tree.at, file, lock_of(F_WRLCK, OWNER)), 0);
	all_say("out", "2");
	next_view();
	open_second();
}

static int unlock_second(void)
{
	return lock(tree.at, second, lock_of(F_UNLCK, OWNER));
}

static int flush_second(void)
{
	return flush(second, OWNER);
}

static void left_by(int (*give_back)(void))
{
	lock_and_leave();
	CHECK_INT(give_back(), 0);
	tree_release(&tree, second); /* what is owed to member 2 does not go with it */
	is_free_at(2, file->inode);
	for (int tries = 0; tries < 10000 && noted(); tries++)
		task_sleep_ms(1);
	CHECK_INT(noted(), 0); /* and is not owed any more */
	tree_release(&tree, file);
}

static void unlocked_through_the_second(void *arg)
{
	(void)arg;
	left_by(unlock_second);
}

static void closed_through_the_second(void *arg)
{
	(void)arg;
	left_by(flush_second);
}

/* Through the first file member 2 is brought the lock just then. */
static void overtaken_at_the_first(int (*give_back)(void))
{
	struct doing write;

	tree.client = NULL;
	come_back(&write, "setlk");
	open_second();
	say(hold[2], "hold", "none");
	CHECK_INT(give_back(), 0);
	let_go(2);
	await(&write);
	is_free_at(2, file->inode);
	tree_release(&tree, second);
	tree_release(&tree, file);
}

static void unlocked_while_the_first_is_brought_it(void *arg)
{
	(void)arg;
	overtaken_at_the_first(unlock_second);
}

static void closed_while_the_first_is_brought_it(void *arg)
{
	(void)arg;
	overtaken_at_the_first(flush_second);
}

static void what_is_given_back_through_another_file_does_not_stay(void **state)
{
	(void)state;
	on_set(3, unlocked_through_the_second);
	on_set(3, closed_through_the_second);
	on_set(3, unlocked_while_the_first_is_brought_it);
	on_set(3, closed_while_the_first_is_brought_it);
}

/* Through the first file member 2 is brought just then that the lock was given back, and that is late. */
static void taken_while_the_first_is_brought_that_it_is_free(void *arg)
{
	struct open_in open = { .flags = O_RDWR };
	struct open_out opened = { 0 };
	unsigned before;

	(void)arg;
	tree.client = NULL;
	all_say("back", "2");
	next_view();
	CHECK_INT(make_file(), 0);
	open_second();
	open.inode = file->inode;
	CHECK_INT(tree_call(&tree, locks[2], FOP_open, &open, &opened), 0);
	CHECK_INT(lock(tree.at, file, lock_of(F_WRLCK, OWNER)), 0);
	connection(2, EVENT_CHILD_DOWN);
	CHECK_INT(lock(tree.at, file, lock_of(F_UNLCK, OWNER)), 0);
	say(hold[2], "hold", "setlk");
	connection(2, EVENT_CHILD_UP);
	while (!parked_at(2))
		task_sleep_ms(1);
	say(hold[2], "hold", "none");
	before = counted_at(2, "setlks: ");
	CHECK_INT(lock(tree.at, second, lock_of(F_WRLCK, OWNER)), 0);
	task_sleep_ms(1000); /* longer than it is until the lock is brought: not before what is late */
	say(hold[2], "release", "all");
	while (counted_at(2, "setlks: ") == before + 1) /* it has come */
		task_sleep_ms(1);
	for (int tries = 0; tries < 10000 && !is_held_at(2, opened.file); tries++)
		task_sleep_ms(1);
	CHECK_INT(is_held_at(2, opened.file), true);
	fop_out_clear(FOP_open, &opened);
	tree_release(&tree, second);
	tree_release(&tree, file);
}

/* A member that has the file open, and is in no view just then, gets what is taken meanwhile; and of what it had before, only those bytes that are as they were: the
 * others are free for no moment. */
static void taken_while_it_is_away(void *arg)
{
	struct lock wide = lock_of(F_RDLCK, OWNER);
	unsigned before;

	(void)arg;
	tree.client = NULL;
	wide.start = 0;
	wide.end = 29;
	CHECK_INT(make_file(), 0);
	CHECK_INT(lock(tree.at, file, wide), 0);
	all_say("out", "2");
	next_view();
	before = counted_at(2, "setlks: ");
	CHECK_INT(lock(tree.at, file, lock_of(F_WRLCK, OWNER)), 0);
	for (int tries = 0; tries < 10000 && counted_at(2, "setlks: ") < before + 3; tries++)
		task_sleep_ms(1);
	CHECK_INT(counted_at(2, "setlks: "), before + 3); /* 0-9, 20-29 and 10-19 */
	tree_release(&tree, file);
}

static void a_member_that_was_away_gets_what_was_taken(void **state)
{
	(void)state;
	on_set(3, taken_while_it_is_away);
}

static void what_is_taken_through_another_file_stays(void **state)
{
	(void)state;
	on_set(3, taken_while_the_first_is_brought_that_it_is_free);
}

/* Programs come and go while member 2 is away, which never heard of them: nothing of that is kept for it, though one of them has the file open there. */
static void come_and_go(void *arg)
{
	(void)arg;
	lock_and_leave();
	for (uint64_t owner = 100; owner < 110; owner++) {
		struct lock own = lock_of(F_WRLCK, owner);

		own.start = own.end = 50;
		CHECK_INT(lock(tree.at, second, own), 0);
		CHECK_INT(flush(second, owner), 0);
	}
	CHECK_INT(noted(), 1);
	tree_release(&tree, second);
	tree_release(&tree, file);
}

static void a_member_that_is_away_is_owed_nothing_of_those_whom_it_never_heard_of(void **state)
{
	(void)state;
	on_set(3, come_and_go);
}

const struct CMUnitTest owner_tests[] = {
	cmocka_unit_test(what_is_given_back_through_another_file_does_not_stay),
	cmocka_unit_test(a_member_that_was_away_gets_what_was_taken),
	cmocka_unit_test(what_is_taken_through_another_file_stays),
	cmocka_unit_test(a_member_that_is_away_is_owed_nothing_of_those_whom_it_never_heard_of),
};
const unsigned owner_tests_count = sizeof(owner_tests) / sizeof(owner_tests[0]);
