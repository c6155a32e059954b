/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/coordinator: of the tasks that heal, one at a time moves a name at a member, for each move goes by where directories are now. */
#include "test-tasks.h"
#include "test.h"

#include <stdatomic.h>

#include "heal-internal.h"

enum { LONG_MS = 50 };

static int failures;
static struct heal h = { .links_lock = PTHREAD_MUTEX_INITIALIZER };
static atomic_bool same_began, same_ended, other_ended;

static void move_at_the_same(void *arg)
{
	(void)arg;
	move_begin(&h, 1);
	atomic_store(&same_began, true);
	move_end(&h, 1);
	atomic_store(&same_ended, true);
}

static void move_at_another(void *arg)
{
	(void)arg;
	move_begin(&h, 2);
	move_end(&h, 2);
	atomic_store(&other_ended, true);
}

static void moves_(void *arg)
{
	(void)arg;
	move_begin(&h, 1);
	CHECK_INT(task_spawn(NULL, move_at_the_same, NULL), 0);
	CHECK_INT(task_spawn(NULL, move_at_another, NULL), 0);
	while (!atomic_load(&other_ended))
		task_sleep_ms(1);
	task_sleep_ms(LONG_MS);
	CHECK_INT(atomic_load(&same_began), false);
	move_end(&h, 1);
	while (!atomic_load(&same_ended))
		task_sleep_ms(1);
}

static void one_task_at_a_time_moves_a_name_at_a_member(void **state)
{
	(void)state;
	assert_int_equal(task_call(moves_, NULL), 0);
	assert_int_equal(failures, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_task_at_a_time_moves_a_name_at_a_member),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
