/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/coordinator: who is right where members differ. The test is the members: of three, the first differs from the others about the root. */
#include "test-tasks.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator.h"

static int failures;

/* ---- what is around it ---- */

int heal_piece(struct heal *h, struct request *rq, const struct gfid *g, int from, int to, uint64_t start, uint64_t length,
	       bool *more)
{
	(void)h, (void)rq, (void)g, (void)start, (void)length;
	*more = false;
	return !from != !to ? -EUCLEAN : 0;
}

int heal_request(struct heal *h, struct request *rq)
{
	(void)h;
	request_init(rq, NULL, 0);
	return 0;
}

void heal_request_end(struct request *rq)
{
	request_finish(rq);
}

int heal_verb(struct heal *h, struct request *rq, int member, enum replica_verb verb, struct inode *inode, struct pack *more,
	      struct replica_out *out)
{
	(void)h, (void)rq, (void)member, (void)verb, (void)inode, (void)out;
	pack_free(more);
	return -ENOENT;
}

int heal_show(struct heal *h, struct request *rq, struct inode *directory, const char *name, const struct gfid *g,
	      unsigned members)
{
	(void)h, (void)rq, (void)directory, (void)name, (void)g, (void)members;
	return 0;
}

int heal_list(struct heal *h, struct request *rq, int at, struct inode *directory,
	      int (*each)(void *, const struct dirent_plus *), void *arg)
{
	(void)h, (void)rq, (void)at, (void)directory, (void)each, (void)arg;
	return 0;
}

int session_attach(struct coordinator *c, const struct view *v)
{
	(void)c, (void)v;
	return 0;
}

int session_acquire(struct coordinator *c, const struct view *v, const struct gfid *g, bool (*stop)(void *), void *arg)
{
	(void)c, (void)v, (void)g, (void)stop, (void)arg;
	return 0;
}

bool session_release(struct coordinator *c, const struct view *v, const struct gfid *g)
{
	(void)c, (void)v, (void)g;
	return false;
}

int coordinator_spawn(struct coordinator *c, task_fn *fn, void *arg)
{
	(void)c;
	fn(arg);
	return 0;
}

void coordinator_task_ends(struct coordinator *c)
{
	(void)c;
}

int list_add(struct gfid_list *l, const struct gfid *g)
{
	(void)g;
	l->count++;
	return 0;
}

void list_free(struct gfid_list *l)
{
	*l = (struct gfid_list){ 0 };
}

/* ---- what holds ---- */

/* A mask of the members that are to be healed. */
static unsigned differ(bool owed)
{
	struct coordinator *c = calloc(1, sizeof(*c));
	struct xlator x = { .name = "coordinator", .inodes = inode_table_create() };
	unsigned mask = 0;

	if (!c || !x.inodes)
		return 0;
	pthread_mutex_init(&c->lock, NULL);
	c->x = &x;
	c->members = 3;
	c->heal.arbiter = -1;
	c->heal_piece = 1 << 20;
	c->owed.scrub = owed;
	c->view = (struct view){ .epoch = 1, .members = 3, .arbiter = REPLICAS_MAX, .order = { 0, 1, 2 } };
	for (int i = 0; i < 3; i++)
		c->view.state[i] = MEMBER_IN;
	if (scrub_start(c, true))
		failures++;
	for (int i = 0; i < 3; i++)
		mask |= c->member[i].demote ? 1u << i : 0;
	scrub_free(&c->scrub);
	pthread_mutex_destroy(&c->lock);
	free(c);
	inode_table_destroy(x.inodes);
	return mask;
}

static void names_(void *arg)
{
	(void)arg;
	CHECK_INT(differ(false), 1);
	CHECK_INT(differ(true), 6);
}

/* Each member's names are those of one moment before its power failed; a client that reads the first must not see them change back. */
static void most_are_right_but_the_first_about_names_while_a_scrub_is_owed(void **state)
{
	(void)state;
	failures = 0;
	assert_int_equal(task_call(names_, NULL), 0);
	assert_int_equal(failures, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(most_are_right_but_the_first_about_names_while_a_scrub_is_owed),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
