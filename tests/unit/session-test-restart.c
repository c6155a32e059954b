/* SPDX-License-Identifier: Apache-2.0 */
/* What a client finds when its brick was started anew: files and locks that it had, requests that were under way; and how long it waits for that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "session-test.h"
#include "test.h"

static atomic_uint lost_locks;

static void witness_notify(struct xlator *x, struct xlator *from, const struct event *e)
{
	(void)x;
	(void)from;
	atomic_fetch_add(&lost_locks, e->kind == EVENT_LOCK_LOST && e->lock.owner == 42);
}

static const struct xlator_type witness_type = { .name = "witness", .notify = witness_notify };
static struct xlator witness = { .type = &witness_type, .name = "witness" }, *witnesses[] = { &witness };
static struct file *locked_file;

static void take_lock(void *arg)
{
	(void)arg;
	locked_file = create("locked");
	assert_int_equal(lock(locked_file, 42, F_WRLCK, false), 0);
}

static void ask_without_lock(void *arg)
{
	(void)arg;
	assert_int_equal(write_file(locked_file, 0, "x", 1, 0), 1);
	assert_int_equal(atomic_load(&lost_locks), 1);
	release(locked_file);
	assert_int_equal(remove_file("locked"), 0);
}

/* Who holds it decides by it what he still sends. */
void a_lock_is_told_to_be_lost_before_requests_go_on(void **test)
{
	struct xlator **own;

	(void)test;
	start_server("");
	start_client("");
	task_call(take_lock, NULL); /* so all have been told that it is up, and nobody looks who is above */
	own = client->top->parent;
	client->top->parent = witnesses;
	client->top->parents = 1;
	stop(&server);
	memset(disk->held, 0, sizeof(disk->held));
	disk->held[0] = (struct lock){ .type = F_WRLCK, .owner = 43 };
	start_server("");
	task_call(ask_without_lock, NULL);
	memset(disk->held, 0, sizeof(disk->held));
	client->top->parent = own;
	client->top->parents = 0;
	stop(&client);
	stop(&server);
}

enum { REFUSALS = 300, TOLERANCE = 2000 }; /* bytes: an event has more than 20, and a ping comes now and then */

static unsigned long sent_for_refusals(struct file *file, bool reclaim, int refused)
{
	struct setlk_in in = { file,
			       { .kind = LOCK_POSIX, .type = F_WRLCK, .end = UINT64_MAX, .owner = 42, .reclaim = reclaim } };
	unsigned long before = counter(server, "bytes out ");
	struct setlk_out out;

	for (int i = 0; i < REFUSALS; i++)
		assert_int_equal(CALL(setlk, &in, &out), refused);
	return counter(server, "bytes out ") - before;
}

static void reclaim_much(void *arg)
{
	struct file *file = create("locked");
	unsigned long once;

	(void)arg;
	memset(disk->held, 0, sizeof(disk->held));
	disk->held[0] = (struct lock){ .type = F_WRLCK, .owner = 43 };
	once = sent_for_refusals(file, false, -EAGAIN);
	assert_in_range(sent_for_refusals(file, true, -ENOLCK), 1, once + TOLERANCE);
	memset(disk->held, 0, sizeof(disk->held));
	release(file);
	assert_int_equal(remove_file("locked"), 0);
}

/* He may ask for it as fast as he likes, and read nothing: what is sent without being asked for would be kept for him. */
void who_is_refused_a_reclaim_hears_it_in_the_answer_only(void **test)
{
	(void)test;
	both(reclaim_much);
}

static struct file *kept_file, *gone_file;

static void before_restart(void *arg)
{
	(void)arg;
	kept_file = create("kept");
	gone_file = create("gone");
	assert_int_equal(write_file(kept_file, 0, "abc", 3, 0), 3);
	assert_int_equal(lock(kept_file, 42, F_WRLCK, false), 0);
}

static void after_restart(void *arg)
{
	struct read_in in = { kept_file, 0, 100 };
	struct read_out out = { 0 };

	(void)arg;
	assert_int_equal(CALL(read, &in, &out), 0);
	assert_memory_equal(out.data->data, "abc", 3);
	fop_out_clear(FOP_read, &out);
	assert_int_equal(write_file(kept_file, 3, "def", 3, 0), 3);
	assert_int_equal(write_file(gone_file, 0, "x", 1, 0), -ESTALE);
	assert_int_equal(atomic_load(&disk->reclaims), 1);
	assert_int_equal(lock(kept_file, 42, F_UNLCK, false), 0);
	release(kept_file);
	release(gone_file);
	assert_int_equal(remove_file("kept"), 0);
}

void files_and_locks_survive_a_restart_of_the_brick(void **test)
{
	(void)test;
	start_server("");
	start_client("");
	task_call(before_restart, NULL);
	stop(&server);
	for (int i = 0; i < LEAF_OBJECTS; i++) /* somebody removed one of them meanwhile */
		if (!strcmp(disk->object[i].name, "gone")) {
			free(disk->object[i].data);
			memset(&disk->object[i], 0, sizeof(disk->object[i]));
		}
	memset(disk->held, 0, sizeof(disk->held));
	start_server("");
	task_call(after_restart, NULL);
	stop(&client);
	stop(&server);
}

/* One inode, open twice; the lock is held through the first. */
static void before_locked_restart(void *arg)
{
	(void)arg;
	kept_file = create("kept");
	gone_file = open_again(kept_file);
	assert_int_equal(lock(kept_file, 42, F_WRLCK, false), 0);
	atomic_store(&disk->reclaims, 0);
}

static void release_kept(void *arg)
{
	(void)arg;
	release(kept_file);
}

static void after_locked_restart(void *arg)
{
	(void)arg;
	assert_int_equal(write_file(gone_file, 0, "abc", 3, 0), 3);
	assert_int_equal(atomic_load(&disk->reclaims), 1);
	assert_int_equal(lock(gone_file, 43, F_WRLCK, false), -EAGAIN);
	release(kept_file);
	assert_int_equal(lock(gone_file, 43, F_WRLCK, false), 0);
	release(gone_file);
	assert_int_equal(remove_file("kept"), 0);
}

static struct aside releasing;

static void release_beside(void *arg)
{
	(void)arg;
	releasing = (struct aside){ .fn = release_kept };
	start_aside(&releasing);
	UNTIL(counter(client, "waiting ") == 1); /* for the brick: what it had locked is not taken again any more */
}

static void after_release(void *arg)
{
	(void)arg;
	UNTIL(releasing.done);
	assert_int_equal(atomic_load(&disk->reclaims), 0);
	assert_int_equal(lock(gone_file, 43, F_WRLCK, false), 0);
	release(gone_file);
	assert_int_equal(remove_file("kept"), 0);
}

static void restart_locked(bool closed_meanwhile)
{
	start_server("");
	start_client("");
	task_call(before_locked_restart, NULL);
	stop(&server);
	memset(disk->held, 0, sizeof(disk->held));
	if (closed_meanwhile)
		task_call(release_beside, NULL);
	start_server("");
	task_call(closed_meanwhile ? after_release : after_locked_restart, NULL);
	stop(&client);
	stop(&server);
}

/* Also after a restart: it was taken again through that file, and not through another one which stays open. */
void a_lock_goes_with_the_file_that_it_was_taken_through(void **test)
{
	(void)test;
	restart_locked(false);
	restart_locked(true);
}

static void append_held(void *arg)
{
	assert_int_equal(write_file(arg, 0, "x", 1, WRITE_APPEND), -EIO);
}

static struct aside unsure = { .fn = append_held };

static void begin_append(void *arg)
{
	struct file *file = create("unsure");
	unsigned before = atomic_load(&disk->writes);

	(void)arg;
	unsure.arg = file;
	atomic_store(&disk->hold, true);
	start_aside(&unsure);
	UNTIL(atomic_load(&disk->writes) == before + 1);
}

static void end_append(void *arg)
{
	(void)arg;
	UNTIL(atomic_load(&unsure.done));
	release(unsure.arg);
	assert_int_equal(remove_file("unsure"), 0);
}

static bool listens(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)server_port()),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool yes = fd >= 0 && !connect(fd, (struct sockaddr *)&at, sizeof(at));

	close(fd);
	return yes;
}

/* The server stops, and waits for what is held; nobody can ask it anew for the answer, which does not get through. */
static void *let_go(void *arg)
{
	bool stops = EVENTUALLY(!listens());

	command(client, "drop-connections");
	atomic_store(&disk->hold, false);
	assert_true(stops);
	return arg;
}

/* The brick does it, and is lost before it has answered; then `between` is done there. */
static void lose_the_answer(void (*begin)(void *), void (*between)(void), void (*end)(void *))
{
	pthread_t thread;

	start_server("");
	start_client("");
	task_call(begin, NULL);
	pthread_create(&thread, NULL, let_go, NULL);
	stop(&server);
	if (between)
		between();
	start_server("");
	pthread_join(thread, NULL);
	task_call(end, NULL);
	stop(&client);
	stop(&server);
}

void an_append_over_a_restart_is_an_error(void **test)
{
	(void)test;
	lose_the_answer(begin_append, NULL, end_append);
}

static struct file *first, *second;
static int exchanged;

static bool is_called(const struct file *f, const char *name)
{
	bool is = false;

	for (int i = 0; i < LEAF_OBJECTS; i++)
		if (gfid_equal(&disk->object[i].gfid, &f->inode->gfid))
			is = !strcmp(disk->object[i].name, name);
	return is;
}

static void exchange(void *arg)
{
	struct inode *dir = inode_get(client->inodes, &gfid_root, S_IFDIR);
	struct rename_in in = { { .parent = dir, .name = "first" }, { .parent = dir, .name = "second" }, RENAME_EXCHANGE };
	struct rename_out out = { 0 };

	(void)arg;
	exchanged = CALL(rename, &in, &out);
	inode_unref(dir);
}

static struct aside exchanging = { .fn = exchange };

static void begin_exchange(void *arg)
{
	unsigned before = atomic_load(&disk->renames);

	(void)arg;
	first = create("first");
	second = create("second");
	atomic_store(&exchanging.done, false);
	atomic_store(&disk->hold, true);
	start_aside(&exchanging);
	UNTIL(atomic_load(&disk->renames) == before + 1);
}

static void end_both(void)
{
	UNTIL(atomic_load(&exchanging.done));
	release(first);
	release(second);
	assert_int_equal(remove_file("first"), 0);
}

static void is_exchanged(void *arg)
{
	(void)arg;
	UNTIL(atomic_load(&exchanging.done));
	assert_int_equal(exchanged, 0);
	assert_true(is_called(first, "second") && is_called(second, "first"));
	end_both();
	assert_int_equal(remove_file("second"), 0);
}

static void another_has_renamed(void)
{
	for (int i = 0; i < LEAF_OBJECTS; i++)
		if (!strcmp(disk->object[i].name, "second"))
			strcpy(disk->object[i].name, "third");
}

static void nobody_knows(void *arg)
{
	(void)arg;
	UNTIL(atomic_load(&exchanging.done));
	assert_int_equal(exchanged, -EIO);
	assert_true(is_called(first, "third") && is_called(second, "first"));
	end_both();
	assert_int_equal(remove_file("third"), 0);
}

/* Done once more it would be undone. */
void an_exchange_over_a_restart_is_done_once(void **test)
{
	(void)test;
	lose_the_answer(begin_exchange, NULL, is_exchanged);
	lose_the_answer(begin_exchange, another_has_renamed, nobody_knows);
}

static void refused_soon(void *arg)
{
	uint64_t begun = clock_ns();

	(void)arg;
	assert_int_equal(stat_root(), -ENOTCONN);
	assert_in_range(clock_ns() - begun, 150000000, 25000000000); /* less than without the option */
	;
}

void requests_wait_for_the_brick_up_to_max_wait(void **test)
{
	(void)test;
	start_server("");
	start_client(" option max-wait 200ms\n");
	stop(&server);
	task_call(refused_soon, NULL);
	stop(&client);
}
