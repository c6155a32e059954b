/* SPDX-License-Identifier: Apache-2.0 */
/* features/locks: how many locks a client, and a tenant, may have, and whose they are. */
#include "locks-test.h"

static void take_many(void *arg)
{
	struct world *w = arg;

	for (int i = 0; i < 100; i++)
		CHECK(!set(w, 0, posix(F_WRLCK, i, 2 * i, 2 * i)));
	CHECK(set(w, 0, posix(F_WRLCK, 0, 1000, 1000)) == -ENOLCK);
	CHECK(!set(w, 0, posix(F_RDLCK, 5, 10, 10))); /* that makes no more of them */
	CHECK(!set(w, 0, posix(F_RDLCK, 5, 10, 10)));
	CHECK(!set(w, 0, posix(F_WRLCK, 5, 10, 11)));
	CHECK(set(w, 0, posix(F_RDLCK, 5, 11, 11)) == -ENOLCK); /* that does */
	CHECK(!set(w, 1, posix(F_WRLCK, 0, 1000, 1000)));
	CHECK(!set(w, 0, posix(F_UNLCK, 0, 0, 0)));
	CHECK(!set(w, 0, posix(F_WRLCK, 0, 1002, 1002)));
	CHECK(!set(w, 0, posix(F_UNLCK, 1, 2, 2)));
	CHECK(!set(w, 0, posix(F_WRLCK, 1, 2000, 2100)));
	CHECK(set(w, 0, posix(F_UNLCK, 1, 2050, 2050)) == -ENOLCK); /* two would be left of it */
	CHECK(!set(w, 0, posix(F_UNLCK, 1, 2100, 2100)));
	CHECK(!set(w, 0, posix(F_UNLCK, 1, 2000, 2099)));
	CHECK(!set(w, 0, posix(F_WRLCK, 1, 2000, 2100)));
	CHECK(!set(w, 0, posix(F_UNLCK, 2, 4, 4)));
	CHECK(set(w, 0, posix(F_RDLCK, 1, 2050, 2050)) == -ENOLCK); /* that would be two more: it, and what is behind it */
	CHECK(!set(w, 0, posix(F_RDLCK, 1, 2000, 2050)));
	CHECK(set(w, 2, (struct lock){ .kind = 7, .type = F_RDLCK }) == -EINVAL);
	CHECK(set(w, 2, (struct lock){ .type = 17 }) == -EINVAL);
	CHECK(set(w, 2, posix(F_RDLCK, 1, 5, 4)) == -EINVAL);
}

void one_client_gets_so_many_locks_and_no_more(void **state)
{
	struct world w;

	(void)state;
	open_world(&w, plain);
	task_call(take_many, &w);
	close_world(&w);
}

enum {
	HELD = 4095,
	WAITING = 64,
	LONG_ONE = 1 << 20
}; /* one who waits more would be more than 2^18 times that two are compared */

static void take_ranges(void *arg)
{
	struct world *w = arg;

	for (uint64_t i = 0; i < HELD - 1; i++)
		CHECK(!set(w, 0, posix(F_WRLCK, 1, 2 * i, 2 * i)));
	CHECK(!set(w, 0, posix(F_WRLCK, 1, LONG_ONE, LONG_ONE + 10)));
}

/* Whoever gives one back has all who wait compared with all that is held, while nobody gets a lock of any file. */
void many_locks_and_many_who_wait_do_not_go_together(void **state)
{
	struct asker a[WAITING];
	atomic_int order = 0;
	struct world w;

	(void)state;
	open_world(&w, large);
	task_call(take_ranges, &w);
	for (int i = 0; i < WAITING; i++) {
		a[i] = (struct asker){
			.world = &w, .client = 1, .lock = waiting(posix(F_WRLCK, 20 + i, 0, 0)), .order = &order
		};
		ask_and_wait(&a[i]);
	}
	assert_int_equal(set_now(&w, 2, waiting(posix(F_WRLCK, 1, 0, 0))), -ENOLCK);
	assert_int_equal(set_now(&w, 2, posix(F_WRLCK, 1, 1, 1)), 0);
	assert_int_equal(set_now(&w, 0, posix(F_UNLCK, 1, LONG_ONE + 5, LONG_ONE + 5)), -ENOLCK); /* two would be left of it */
	assert_int_equal(set_now(&w, 2, reclaiming(posix(F_WRLCK, 1, 3, 3))), -ENOLCK);
	assert_int_equal(set_now(&w, 0, posix(F_UNLCK, 1, 0, UINT64_MAX)), 0);
	for (int i = 0; i < WAITING; i++) {
		assert_true(EVENTUALLY(a[i].result == 0));
		assert_int_equal(set_now(&w, 1, posix(F_UNLCK, 20 + i, 0, 0)), 0);
	}
	close_world(&w);
}

/* The waiting of one who wants more of it would be too much; that he has less of it instead is not. */
void a_flock_that_may_not_change_its_type_stays_what_it_was(void **state)
{
	static struct asker a[WAITING - 1];
	struct world w;

	(void)state;
	open_world(&w, large);
	task_call(take_ranges, &w);
	assert_int_equal(set_now(&w, 0, flock_of(F_RDLCK, 1)), 0);
	assert_int_equal(set_now(&w, 2, flock_of(F_RDLCK, 2)), 0);
	park(a, WAITING - 1, (struct asker){ .world = &w, .client = 1, .lock = waiting(posix(F_WRLCK, 20, 0, 0)) });
	assert_int_equal(set_now(&w, 0, waiting(flock_of(F_WRLCK, 1))), -ENOLCK);
	assert_int_equal(set_now(&w, 2, flock_of(F_UNLCK, 2)), 0);
	assert_int_equal(set_now(&w, 1, flock_of(F_WRLCK, 3)), -EAGAIN);
	assert_int_equal(set_now(&w, 0, waiting(flock_of(F_WRLCK, 1))), 0);
	assert_int_equal(set_now(&w, 0, flock_of(F_RDLCK, 1)), 0);
	assert_int_equal(set_now(&w, 2, flock_of(F_RDLCK, 2)), 0);
	gone(&w, 1);
	assert_true(EVENTUALLY(count_of(a, WAITING - 1, -ENOTCONN) == WAITING - 1));
	close_world(&w);
}

enum { FEW = 1000, FLOCK_CROWD = 200, MORE = 8 };
static const char few[] = "volume memory\ntype debug/memory\nend-volume\n"
			  "volume locks\ntype features/locks\noption max-locks 1000\nsubvolumes memory\nend-volume\n";
struct converter {
	struct asker convert;
	atomic_int begun, ended, refused;
};

static void take_one_more(void *arg)
{
	struct converter *c = arg;
	int at = LONG_ONE + 2 * atomic_fetch_add(&c->begun, 1);

	if (set(c->convert.world, 0, posix(F_WRLCK, 2, at, at)) == -ENOLCK)
		c->refused++;
	c->ended++;
}

/* On one shard, so they come when the first portion is done, and one of them does the last. */
static void convert_and_take_more(void *arg)
{
	struct converter *c = arg;

	CHECK(!task_spawn(NULL, ask, &c->convert));
	for (int i = 0; i < MORE; i++)
		CHECK(!task_spawn(NULL, take_one_more, c));
}

static void take_all_but_one(void *arg)
{
	struct world *w = arg;

	for (uint64_t i = 0; i < FEW - 1; i++)
		CHECK(!set(w, 0, posix(F_WRLCK, 1, 2 * i, 2 * i)));
	CHECK(!set(w, 0, flock_of(F_WRLCK, 1)));
}

/* It is given up first, and those who have waited for that have their turn: but it is counted as one that is held. */
void a_flock_that_changes_its_type_keeps_its_place_among_so_many(void **state)
{
	static struct asker crowd[FLOCK_CROWD];
	struct converter c = { 0 };
	struct world w;

	(void)state;
	open_world(&w, few);
	task_call(take_all_but_one, &w);
	park(crowd, FLOCK_CROWD, (struct asker){ .world = &w, .client = 1, .lock = waiting(flock_of(F_RDLCK, 1)) });
	c.convert = (struct asker){ .world = &w, .client = 0, .lock = waiting(flock_of(F_RDLCK, 1)), .result = 1 };
	task_call(convert_and_take_more, &c);
	assert_true(EVENTUALLY(c.convert.result == 0 && count_of(crowd, FLOCK_CROWD, 0) == FLOCK_CROWD));
	assert_true(EVENTUALLY(c.ended == MORE));
	assert_int_equal(c.refused, MORE);
	assert_true(counter(&w, "paused:") >= 2);
	close_world(&w);
}

static void belong(const char *first, const char *second, const char *third)
{
	clients[0].identity = first;
	clients[1].identity = second;
	clients[2].identity = third;
}

static void take_many_together(void *arg)
{
	struct world *w = arg;

	for (int i = 0; i < 100; i++)
		CHECK(!set(w, i % 2, posix(F_WRLCK, i, 2 * i, 2 * i)));
	for (int client = 0; client < 2; client++) {
		CHECK(set(w, client, posix(F_WRLCK, 0, 1000, 1000)) == -ENOLCK);
		CHECK(set(w, client, waiting(posix(F_WRLCK, 0, 1, 1))) == -ENOLCK);
	}
	CHECK(!set(w, 2, posix(F_WRLCK, 0, 1000, 1000)));
	CHECK(!set(w, 1, posix(F_UNLCK, 1, 2, 2)));
	CHECK(!set(w, 0, posix(F_WRLCK, 0, 1002, 1002)));
	CHECK(set(w, 0, posix(F_WRLCK, 0, 1004, 1004)) == -ENOLCK);
}

void the_clients_of_one_tenant_get_so_many_locks_together(void **state)
{
	struct world w;

	(void)state;
	open_world(&w, plain);
	belong("stratus:tenant/acme", "stratus:tenant/acme/access/web", "stratus:tenant/globex");
	task_call(take_many_together, &w);
	belong(NULL, NULL, NULL);
	close_world(&w);
}

static void reclaim_many(void *arg)
{
	struct world *w = arg;

	for (int i = 0; i < 100; i++)
		CHECK(!set(w, 0, reclaiming(posix(F_WRLCK, i, 2 * i, 2 * i))));
	CHECK(!set(w, 0, reclaiming(posix(F_WRLCK, 7, 14, 14)))); /* it has that one */
	CHECK(set(w, 0, reclaiming(posix(F_WRLCK, 0, 1000, 1000))) == -ENOLCK);
}

void nor_does_one_who_reclaims_get_more(void **state)
{
	struct world w;

	(void)state;
	open_world(&w, plain);
	task_call(reclaim_many, &w);
	close_world(&w);
}

static void take_as_another(void *arg)
{
	struct world *w = arg;

	CHECK(!set(w, 0, posix(F_WRLCK, 1, 1, 1)));
	clients[0].identity = "stratus:tenant/globex";
	CHECK(set(w, 0, posix(F_UNLCK, 1, 1, 1)) == -ENOLCK);
	CHECK(set(w, 0, posix(F_WRLCK, 1, 2, 2)) == -ENOLCK);
	clients[0].identity = "stratus:tenant/acme/access/web";
	CHECK(set(w, 0, posix(F_UNLCK, 1, 1, 1)) == -ENOLCK);
	CHECK(seen(w, LOCK_POSIX, 1, 1) == F_WRLCK);
}

void the_id_of_another_tenants_client_is_of_no_use(void **state)
{
	struct world w;

	(void)state;
	open_world(&w, plain);
	belong("stratus:tenant/acme", NULL, NULL);
	task_call(take_as_another, &w);
	belong(NULL, NULL, NULL);
	close_world(&w);
}
