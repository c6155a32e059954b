/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/afr: nobody waits for a member that is silent once there is a view without it. The last of three is, for as long as the test wants, whatever deadlines there
 * are: so what has ended has ended without its answer. */
#include "afr-test-doing.h"

#include <fcntl.h>

enum { SILENT = 2, LOOKS = 20000 }; /* after so many, of 1 ms and more, it is said to wait */

static void let_speak(void)
{
	say(member[SILENT], "silent", "0");
	let_go(SILENT);
}

/* False if it waits for the silent one: then that speaks, for the end of the test waits for it, too. */
static bool ends(struct doing *d)
{
	bool in_time;

	for (int i = 0; i < LOOKS && !atomic_load(&d->done); i++)
		task_sleep_ms(1);
	in_time = atomic_load(&d->done);
	if (!in_time)
		let_speak();
	while (!atomic_load(&d->done))
		task_sleep_ms(1);
	return in_time;
}

/* The others have it; no client has been told. */
static void begin_view_without_it(void)
{
	all_say("out", "2");
	all_say("views", "1");
}

static void tell_of_view(void)
{
	for (int i = 0; i < SILENT; i++)
		event_up(member[i], &(struct event){ .kind = EVENT_VIEW });
}

static void await_asked(void)
{
	while (!counted_at(SILENT, "attaching: "))
		task_sleep_ms(1);
}

/* ---- who asks for the view ---- */

static void does_in_view_without_it(task_fn *what)
{
	struct doing d = { .err = 1 };

	CHECK_INT(counted_at(SILENT, "attached: ") > 0, true);
	begin_view_without_it();
	say(member[SILENT], "silent", "1");
	tell_of_view();
	CHECK_INT(task_spawn(NULL, what, &d), 0);
	CHECK_INT(ends(&d), true);
	await_asked(); /* it was to be asked, too */
	let_speak();
	CHECK_INT(d.err, 0);
	while (counted_at(SILENT, "attaching: "))
		task_sleep_ms(1);
	CHECK_INT(tree_write(&tree, file, 0, "more", 4), 0); /* what it says so late changes nothing */
	CHECK_INT(is_written_at(0) && is_written_at(1), true);
	CHECK_INT(is_written_at(SILENT), false);
}

static void reads_in_view_without_it(void *arg)
{
	(void)arg;
	CHECK_INT(make_file(), 0);
	does_in_view_without_it(read_data);
	tree_release(&tree, file);
}

static void writes_in_view_without_it(void *arg)
{
	(void)arg;
	CHECK_INT(make_file(), 0);
	does_in_view_without_it(write_data);
	tree_release(&tree, file);
}

static void who_asks_for_the_view_does_not_wait_for_whom_it_is_without(void **state)
{
	(void)state;
	on_set(3, reads_in_view_without_it);
	on_set(3, writes_in_view_without_it);
}

/* ---- what is under way when the view changes ---- */

static void begin_write(struct doing *d)
{
	for (int i = 0; i < members; i++)
		say(hold[i], "hold", "write");
	CHECK_INT(task_spawn(NULL, write_data, d), 0);
	for (int i = 0; i < members; i++)
		while (!parked_at(i))
			task_sleep_ms(1);
}

/* Those that belong to the next view answer that theirs is another by now. */
static void refuse(void)
{
	for (int i = 0; i < SILENT; i++) {
		say(member[i], "refuses", "1");
		let_go(i);
	}
	for (int i = 0; i < SILENT; i++)
		while (!counted_at(i, "refused: "))
			task_sleep_ms(1);
}

static void serve_again(void)
{
	for (int i = 0; i < SILENT; i++)
		say(member[i], "refuses", "0");
}

static void is_done_without_it(struct doing *d)
{
	CHECK_INT(ends(d), true);
	CHECK_INT(d->err, 0);
	CHECK_INT(is_written_at(0) && is_written_at(1), true);
	CHECK_INT(is_written_at(SILENT), false); /* it was never let go */
}

static void writes_when_view_changes(void *arg)
{
	struct doing d = { .err = 1 };

	(void)arg;
	CHECK_INT(make_file(), 0);
	begin_write(&d);
	begin_view_without_it();
	say(member[SILENT], "silent", "1");
	refuse();
	serve_again();
	is_done_without_it(&d);
	let_speak();
	tree_release(&tree, file);
}

/* They have stepped down, and the next view is not there yet: it is asked for until it is. */
static void writes_between_views(void *arg)
{
	struct doing d = { .err = 1 };
	unsigned before;

	(void)arg;
	CHECK_INT(make_file(), 0);
	begin_write(&d);
	before = counted_at(0, "attached: ");
	refuse();
	for (int i = 0; i < LOOKS && counted_at(0, "attached: ") == before; i++)
		task_sleep_ms(1);
	begin_view_without_it();
	serve_again();
	is_done_without_it(&d);
	let_speak();
	tree_release(&tree, file);
}

static void a_change_does_not_wait_for_whom_the_view_has_left_behind(void **state)
{
	(void)state;
	on_set(3, writes_when_view_changes);
}

static void a_change_asks_for_the_next_view_until_that_is_there(void **state)
{
	(void)state;
	on_set(3, writes_between_views);
}

/* ---- the end ---- */

struct stopping {
	atomic_bool begun, done;
};

static void stop_set(void *arg)
{
	struct stopping *s = arg;

	atomic_store(&s->begun, true);
	graph_stop(tree.graph);
	atomic_store(&s->done, true);
}

static bool reads_without_it(void)
{
	struct doing d = { .err = 1 };

	begin_view_without_it();
	say(member[SILENT], "silent", "1");
	tell_of_view();
	return !task_spawn(NULL, read_data, &d) && ends(&d) && !d.err;
}

/* Both are tasks of one shard: when this one sees that the other has begun, that waits within the stop of the top. */
static void stops_while_it_is_silent(void *arg)
{
	struct stopping s = { .begun = false };
	bool read, early;

	(void)arg;
	CHECK_INT(make_file(), 0);
	read = reads_without_it();
	tree_release(&tree, file);
	if (!read)
		let_speak();
	CHECK_INT(read, true);
	await_asked();
	CHECK_INT(task_spawn(task_shard(task_self()), stop_set, &s), 0);
	while (!atomic_load(&s.begun))
		task_sleep_ms(1);
	task_sleep_ms(100); /* if it did not wait for the one that is asked yet it would be done by now */
	early = atomic_load(&s.done);
	let_speak();
	while (!atomic_load(&s.done))
		task_sleep_ms(1);
	CHECK_INT(early, false);
	CHECK_INT(counted_at(SILENT, "attaching: "), 0);
}

static void the_end_waits_for_whoever_is_asked_for_the_view_yet(void **state)
{
	(void)state;
	on_set(3, stops_while_it_is_silent);
}

const struct CMUnitTest silent_tests[] = {
	cmocka_unit_test(who_asks_for_the_view_does_not_wait_for_whom_it_is_without),
	cmocka_unit_test(a_change_does_not_wait_for_whom_the_view_has_left_behind),
	cmocka_unit_test(a_change_asks_for_the_next_view_until_that_is_there),
	cmocka_unit_test(the_end_waits_for_whoever_is_asked_for_the_view_yet),
};
const unsigned silent_tests_count = sizeof(silent_tests) / sizeof(silent_tests[0]);
