/* SPDX-License-Identifier: Apache-2.0 */
/* What protocol/client does with open files when connections are lost, and the session is not; or is, and one of the connections does not show it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <string.h>

#include "halter.h"
#include "session-test.h"

enum { OWNER = 42, OTHER = 43, CHANNELS = 2 }; /* one for each shard */

static unsigned open_files(const struct file *file)
{
	unsigned count = 0;

	pthread_mutex_lock(&disk->lock);
	for (int i = 0; i < LEAF_OBJECTS; i++)
		if (gfid_equal(&disk->object[i].gfid, &file->inode->gfid))
			count = disk->object[i].opens;
	pthread_mutex_unlock(&disk->lock);
	return count;
}

static void behind_a_halter(struct halter *h, const char *options)
{
	start_server("");
	halter_start(h, server_port());
	dial_by_way_of(h->port);
	start_client(options);
	dial_by_way_of(0);
}

static void end(struct halter *h)
{
	halter_stop(h);
	stop(&client);
	stop(&server);
}

/* ---- the session goes on ---- */

static void release_unheard(void *arg)
{
	struct halter *h = arg;
	struct file *locked, *open;

	UNTIL(counter(client, "connects: ") >= CHANNELS);
	locked = create("released");
	open = open_again(locked);
	assert_int_equal(lock(locked, OWNER, F_WRLCK, false), 0);
	assert_int_equal(open_files(open), 2);
	atomic_store(&h->keep[DOWN],
		     true); /* the client dials anew, and nobody greets it: it has no connection for longer than max-wait */
	command(client, "drop-connections");
	UNTIL(atomic_load(&h->accepted) >= 2 * CHANNELS);
	release(locked);
	assert_int_equal(open_files(open), 2);
	atomic_store(&h->keep[DOWN], false);
	UNTIL(open_files(open) == 1);
	UNTIL(!lock(open, OTHER, F_WRLCK, false));
	UNTIL(counter(client, "connects: ") >= 2 * CHANNELS);
	release(open);
	assert_int_equal(remove_file("released"), 0);
}

/* Else what is locked through it would be for as long as the client lives. */
void a_release_that_has_no_answer_is_sent_until_it_has_one(void **test)
{
	struct halter h;

	(void)test;
	behind_a_halter(&h, " option max-wait 100ms\n");
	task_call(release_unheard, &h);
	end(&h);
}

/* ---- one channel is half-open ---- */

static struct file *file;

static void open_locked(void *arg)
{
	(void)arg;
	UNTIL(counter(client, "connects: ") >= CHANNELS);
	file = create("once");
	assert_int_equal(lock(file, OWNER, F_WRLCK, false), 0);
	atomic_store(&disk->reclaims, 0);
}

static void write_one(void *arg)
{
	(void)arg;
	assert_int_equal(write_file(file, 0, "x", 1, 0), 1);
}

/* By each channel: one of them believes yet that it is in the session before. */
static void use_all(void *arg)
{
	struct aside each[CHANNELS];
	unsigned opens;

	(void)arg;
	UNTIL(atomic_load(&disk->reclaims) == 1); /* by the other one, after that has opened the file again */
	opens = atomic_load(&disk->opens);
	for (unsigned i = 0; i < CHANNELS; i++) {
		each[i] = (struct aside){ .fn = write_one };
		start_aside_at(i, &each[i]);
		UNTIL(atomic_load(&each[i].done));
	}
	assert_int_equal(atomic_load(&disk->opens), opens);
	assert_int_equal(open_files(file), 1);
	release(file);
	assert_int_equal(remove_file("once"), 0);
}

/* Twice, one of the two would stay open, and what is locked through it locked. */
void a_file_is_open_once_in_a_session_that_one_channel_has_not_heard_of(void **test)
{
	struct halter h;

	(void)test;
	behind_a_halter(&h, "");
	task_call(open_locked, NULL);
	atomic_store(&h.pair[1].deaf, true);
	stop(&server);
	memset(disk->held, 0, sizeof(disk->held));
	start_server("");
	task_call(use_all, NULL);
	end(&h);
}

/* ---- a lock that comes late ---- */

static struct file *late, *other;

static void lock_late(void *arg)
{
	(void)arg;
	assert_int_equal(lock(late, OWNER, F_WRLCK, true), 0);
}

/* The brick grants it when the file through which it was asked for has been released. Whoever asked still refers to that. */
static void grant_late(void *arg)
{
	struct aside a = { .fn = lock_late };

	(void)arg;
	UNTIL(counter(client, "connects: ") >= CHANNELS);
	late = create("late");
	other = open_again(late);
	assert_int_equal(lock(other, OTHER, F_WRLCK, false), 0);
	start_aside(&a);
	UNTIL(atomic_load(&disk->lock_waits) == 1);
	release(file_ref(late));
	assert_int_equal(lock(other, OTHER, F_UNLCK, false), 0);
	UNTIL(atomic_load(&a.done));
	atomic_store(&disk->reclaims, 0);
}

static void nothing_is_lost(void *arg)
{
	(void)arg;
	assert_int_equal(write_file(other, 0, "x", 1, 0), 1);
	UNTIL(counter(client, "connects: ") >= 2 * CHANNELS);
	assert_int_equal(atomic_load(&disk->reclaims), 0);
	assert_int_equal(counter(client, "lost locks: "), 0);
	file_unref(late);
	release(other);
	assert_int_equal(remove_file("late"), 0);
}

/* It went with the file: nobody is told after a restart that it is lost, nor is it asked for. */
void a_lock_that_is_granted_through_what_was_released_is_not_kept(void **test)
{
	(void)test;
	start_server("");
	start_client("");
	task_call(grant_late, NULL);
	stop(&server);
	memset(disk->held, 0, sizeof(disk->held));
	start_server("");
	task_call(nothing_is_lost, NULL);
	stop(&client);
	stop(&server);
}

/* ---- a connection that is lost while files are opened again ---- */

static void the_server_has_forgotten(struct halter *h, const char *options)
{
	behind_a_halter(h, options);
	task_call(open_locked, NULL);
	atomic_store(&h->keep[UP], true); /* all but greetings */
	stop(&server);
	memset(disk->held, 0, sizeof(disk->held));
	start_server("");
}

static void begin_again(struct halter *h, bool cut)
{
	struct aside a = { .fn = write_one };
	unsigned accepted;

	start_aside(&a);
	UNTIL(atomic_load(&h->keeps)); /* the first file's */
	accepted = atomic_load(&h->accepted);
	if (cut)
		command(client, "drop-connections");
	else
		UNTIL(atomic_load(&h->accepted) > accepted);
	atomic_store(&h->keep[UP], false);
	UNTIL(atomic_load(&a.done));
	assert_int_equal(counter(client, "lost locks: "), 0);
	assert_int_equal(open_files(file), 1);
	release(file);
	assert_int_equal(remove_file("once"), 0);
}

static void lose_it_then(void *arg)
{
	begin_again(arg, true);
}

static void have_no_answer_then(void *arg)
{
	begin_again(arg, false);
}

/* Who recovers is who would take the connection down: waiting for an answer it would do so for ever, and all requests with it. */
void a_connection_lost_while_files_are_opened_again_is_made_again(void **test)
{
	struct halter h;

	(void)test;
	the_server_has_forgotten(&h, "");
	task_call(lose_it_then, &h);
	end(&h);
}

/* Nobody pings meanwhile: so the calls themselves have to be answered in that time. */
void a_connection_on_which_files_are_not_opened_again_in_time_is_made_again(void **test)
{
	struct halter h;

	(void)test;
	the_server_has_forgotten(&h, " option ping-timeout 100ms\n");
	task_call(have_no_answer_then, &h);
	end(&h);
}

static void is_recovering(void *arg)
{
	struct halter *h = arg;

	UNTIL(atomic_load(&h->keeps));
}

static void remove_it(void *arg)
{
	(void)arg;
	assert_int_equal(remove_file("once"), 0);
}

void a_client_stops_while_the_brick_does_not_open_its_files_again(void **test)
{
	struct halter h;

	(void)test;
	the_server_has_forgotten(&h, "");
	task_call(is_recovering, &h);
	file_unref(file);
	stop(&client);
	start_client("");
	task_call(remove_it, NULL);
	end(&h);
}
