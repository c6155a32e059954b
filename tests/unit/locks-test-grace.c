/* SPDX-License-Identifier: Apache-2.0 */
/* features/locks: what is kept of clients, and the time in which they get their locks again when the brick was started anew. */
#include "locks-test.h"

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "locks.h"

/* ---- the grace period ---- */

static char dir[64];

static void make_dir(void)
{
	test_directory(dir, sizeof(dir), "locks-test");
}

static int records(void)
{
	DIR *d = opendir(dir);
	int count = 0;

	while (d && readdir(d))
		count++;
	closedir(d);
	return count - 2;
}

static void remove_dir(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
}

static const char *durable(const char *grace)
{
	static char text[512];

	snprintf(text, sizeof(text),
		 "volume memory\ntype debug/memory\nend-volume\nvolume locks\ntype features/locks\noption state-dir %s\n"
		 "option grace-period %s\nsubvolumes memory\nend-volume\n",
		 dir, grace);
	return text;
}

void a_client_is_recorded_from_its_first_lock_to_its_end(void **state)
{
	struct world w;

	(void)state;
	make_dir();
	open_world(&w, durable("30s"));
	assert_int_equal(records(), 0);
	assert_int_equal(set_now(&w, 0, posix(F_WRLCK, 1, 0, 9)), 0);
	assert_int_equal(records(), 1);
	assert_int_equal(set_now(&w, 1, posix(F_RDLCK, 1, 20, 29)), 0);
	assert_int_equal(records(), 2);
	gone(&w, 1);
	assert_int_equal(records(), 1);
	close_world(&w);
	assert_int_equal(records(), 1);
	remove_dir();
}

static void *has_reclaimed(void *arg)
{
	struct xlator *x = arg;

	x->type->client_reclaimed(x, &clients[0]);
	return NULL;
}

/* Who has reclaimed nothing has no record any more. But others' records are written and removed one after the other, and meanwhile he has taken a lock. */
void who_takes_a_lock_while_its_record_is_to_be_removed_keeps_both(void **state)
{
	struct locks *locks;
	pthread_t thread;
	struct world w;

	(void)state;
	make_dir();
	open_world(&w, durable("300s"));
	assert_int_equal(set_now(&w, 0, posix(F_WRLCK, 1, 0, 9)), 0);
	close_world(&w);
	open_world(&w, durable("300s"));
	locks = tree_find(&w.tree, "locks")->private;
	pthread_mutex_lock(&locks->records);
	pthread_create(&thread, NULL, has_reclaimed, tree_find(&w.tree, "locks"));
	assert_true(EVENTUALLY(counter(&w, "expected:") == 0));
	usleep(50000); /* it has come to the directory */
	assert_int_equal(set_now(&w, 0, posix(F_WRLCK, 1, 0, 9)), 0);
	pthread_mutex_unlock(&locks->records);
	pthread_join(thread, NULL);
	assert_int_equal(records(), 1);
	assert_int_equal(set_now(&w, 0, posix(F_UNLCK, 1, 0, 9)), 0);
	gone(&w, 0);
	assert_int_equal(records(), 0);
	close_world(&w);
	remove_dir();
}

/* Clients 0 and 1 hold a lock each, then the brick restarts. */
static void restart(struct world *w, const char *grace)
{
	open_world(w, durable(grace));
	assert_int_equal(set_now(w, 0, posix(F_WRLCK, 1, 0, 9)), 0);
	assert_int_equal(set_now(w, 1, posix(F_WRLCK, 1, 20, 29)), 0);
	close_world(w);
	open_world(w, durable(grace));
}

static struct event last_event;
static atomic_int events;

static void witness_notify(struct xlator *x, struct xlator *from, const struct event *event)
{
	(void)x;
	(void)from;
	last_event = *event;
	events++;
}

static const struct xlator_type witness_type = { .name = "witness", .notify = witness_notify };
static struct xlator witness = { .type = &witness_type, .name = "witness" }, *witnesses[] = { &witness };

static void listen_above(struct world *w, bool on)
{
	struct xlator *x = w->tree.graph->top;

	static struct xlator **own;

	events = 0;
	own = on ? x->parent : own;
	x->parent = on ? witnesses : own;
	x->parents = on;
}

void in_the_grace_period_locks_are_reclaimed_before_new_ones_are_granted(void **state)
{
	struct world w;
	struct asker fresh;

	(void)state;
	make_dir();
	restart(&w, "300s");
	fresh = (struct asker){ .world = &w, .client = 2, .lock = posix(F_WRLCK, 1, 100, 100), .result = 1 };
	task_spawn(NULL, ask, &fresh);
	assert_int_equal(set_now(&w, 0, reclaiming(posix(F_WRLCK, 1, 0, 9))), 0);
	assert_int_equal(set_now(&w, 1, reclaiming(posix(F_WRLCK, 1, 20, 29))), 0);
	assert_int_equal(fresh.result, 1);
	assert_int_equal(set_now(&w, 0, posix(F_UNLCK, 1, 0, 0)), 0); /* giving back says nothing of reclaims to come */
	assert_int_equal(fresh.result, 1);
	/* Both say that they are done: the second word ends the period. */
	struct asker done = { .world = &w, .client = 0, .lock = posix(F_WRLCK, 5, 200, 200), .result = 1 };
	task_spawn(NULL, ask, &done);
	assert_int_equal(set_now(&w, 1, posix(F_WRLCK, 5, 300, 300)), 0);
	assert_true(EVENTUALLY(done.result == 0 && fresh.result == 0));
	assert_int_equal(set_now(&w, 2, posix(F_WRLCK, 1, 5, 5)), -EAGAIN);
	assert_int_equal(records(), 3);
	close_world(&w);
	remove_dir();
}

void who_had_no_lock_reclaims_nothing_and_is_told(void **state)
{
	struct world w;

	(void)state;
	make_dir();
	restart(&w, "300s");
	listen_above(&w, true);
	assert_int_equal(set_now(&w, 2, reclaiming(posix(F_WRLCK, 1, 100, 100))), -ENOLCK);
	assert_int_equal(events, 1);
	assert_int_equal(last_event.kind, EVENT_LOCK_LOST);
	assert_ptr_equal(last_event.client, &clients[2]);
	assert_int_equal(set_now(&w, 0, reclaiming(posix(F_WRLCK, 1, 0, 9))), 0);
	assert_int_equal(set_now(&w, 1, reclaiming(posix(F_WRLCK, 1, 5, 29))), -ENOLCK);
	assert_int_equal(events, 2);
	listen_above(&w, false);
	close_world(&w);
	remove_dir();
}

void the_grace_period_ends_and_forgets_who_did_not_come(void **state)
{
	unsigned grace_ms = 50;
	char grace[16];
	struct world w;

	(void)state;
	make_dir();
	restart(&w, "50ms");
	while (set_now(&w, 0, reclaiming(posix(F_WRLCK, 1, 0, 9)))) { /* it had ended before this was asked */
		close_world(&w);
		remove_dir();
		make_dir();
		snprintf(grace, sizeof(grace), "%ums", grace_ms *= 2);
		assert_true(grace_ms < 60000);
		restart(&w, grace);
	}
	assert_int_equal(set_now(&w, 2, posix(F_WRLCK, 1, 20, 29)), 0);
	assert_int_equal(records(), 2); /* 0 and 2 */
	assert_int_equal(set_now(&w, 1, reclaiming(posix(F_WRLCK, 1, 50, 59))), -ENOLCK);
	assert_int_equal(set_now(&w, 2, posix(F_WRLCK, 1, 0, 0)), -EAGAIN);
	close_world(&w);
	remove_dir();
}

void a_wrong_state_dir_is_an_error_at_start(void **state)
{
	struct problem problem = { "" };
	struct tree t;

	(void)state;
	strcpy(dir, "/nowhere/at/all");
	assert_true(tree_open(&t, durable("1s"), &problem) < 0);
	assert_non_null(strstr(problem.text, "/nowhere/at/all"));
	strcpy(dir, "relative");
	problem.text[0] = '\0';
	assert_true(tree_open(&t, durable("1s"), &problem) < 0);
	assert_non_null(strstr(problem.text, "absolute"));
}
