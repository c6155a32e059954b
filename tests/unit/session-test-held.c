/* SPDX-License-Identifier: Apache-2.0 */
/* What protocol/server makes of calls that a translator holds back, and both of locks that wait. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "message.h"
#include "session-test.h"

enum { MORE = 5, MOMENT_MS = 50 };

static struct file *file;
static atomic_int written; /* by the last of several */

static void append_one(void *arg)
{
	(void)arg;
	written = write_file(file, 0, "x", 1, WRITE_APPEND);
}

static void begin(struct aside *first)
{
	disk->crowd = 0;
	disk->crowded = true;
	file = create("held");
	*first = (struct aside){ .fn = append_one };
	start_aside(first);
	UNTIL(disk->crowd == 1);
}

static void end(void)
{
	release(file);
	assert_int_equal(remove_file("held"), 0);
}

static bool all_done(struct aside *a, int count)
{
	while (count && a[count - 1].done)
		count--;
	return !count;
}

/* A moment is enough, mostly: if it is not this sees nothing, and does not fail. */
static void crowd(void *arg)
{
	static struct aside call[MORE + 1];
	unsigned before = disk->appends;

	(void)arg;
	begin(&call[0]);
	for (int i = 1; i <= MORE; i++) {
		call[i] = (struct aside){ .fn = append_one };
		start_aside(&call[i]);
	}
	task_sleep_ms(MOMENT_MS);
	assert_int_equal(disk->crowd, 1);
	assert_int_equal(counter(server, "held back "), 1);
	disk->crowded = false;
	UNTIL(all_done(call, MORE + 1));
	assert_int_equal(disk->appends - before, MORE + 1);
	assert_int_equal(counter(server, "held back "), 0);
	end();
}

void a_session_of_a_crowd_is_not_read_until_what_is_held_goes_on(void **state)
{
	(void)state;
	both(crowd);
}

static struct aside held;

static void begin_held(void *arg)
{
	(void)arg;
	begin(&held);
}

static void end_held(void *arg)
{
	(void)arg;
	UNTIL(held.done);
	end();
}

/* It could not be asked for again: that is an error, for it might have been done. */
void what_is_held_back_is_done_when_the_server_stops(void **state)
{
	unsigned before = disk->appends;

	(void)state;
	start_server("");
	start_client("");
	task_call(begin_held, NULL);
	stop(&server);
	assert_int_equal(disk->appends - before, 1);
	disk->crowded = false;
	start_server("");
	task_call(end_held, NULL);
	assert_int_equal(written, 1);
	assert_int_equal(disk->appends - before, 1);
	stop(&client);
	stop(&server);
}

/* ---- locks that wait ---- */

#ifdef __SANITIZE_THREAD__ /* which knows no more than 8128 tasks */
enum { WAITING = WIRE_WAIT_SLOTS / 4 };
#else
enum { WAITING = WIRE_WAIT_SLOTS + 1 };
#endif
enum { HOLDER = 1, OTHER = 2, FIRST_WAITER = 3 };

static atomic_int not_cancelled;

static void wait_for_lock(void *arg)
{
	atomic_fetch_add(&not_cancelled, lock(file, FIRST_WAITER + (uintptr_t)arg, F_WRLCK, true) != -ECANCELED);
}

static void crowded_lock(void *arg)
{
	static struct aside waiter[WAITING];
	unsigned long most = WAITING < WIRE_WAIT_SLOTS ? WAITING : WIRE_WAIT_SLOTS;

	(void)arg;
	file = create("locked");
	assert_int_equal(lock(file, HOLDER, F_WRLCK, false), 0);
	for (uintptr_t i = 0; i < WAITING; i++) {
		waiter[i] = (struct aside){ .fn = wait_for_lock, .arg = (void *)i };
		start_aside(&waiter[i]);
	}
	UNTIL(counter(server, "waiting ") == most && counter(client, "waiting ") == WAITING - most);
	assert_int_equal(stat_root(), 0);
	assert_int_equal(lock(file, OTHER, F_WRLCK, false), -EAGAIN);
	assert_int_equal(lock(file, HOLDER, F_UNLCK, false), 0);
	assert_int_equal(lock(file, OTHER, F_UNLCK, false), 0);
	for (int i = 0; i < WAITING; i++)
		task_cancel(waiter[i].task);
	UNTIL(all_done(waiter, WAITING));
	assert_true(not_cancelled <= 1); /* who got it when it was given back */
	release(file);
	assert_int_equal(remove_file("locked"), 0);
}

void a_lock_is_given_back_while_as_many_wait_as_may(void **state)
{
	(void)state;
	both(crowded_lock);
}
