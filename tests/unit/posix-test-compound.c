/* SPDX-License-Identifier: Apache-2.0 */
/* storage/posix: compounds: their conditions, what is passed on, and that they are alone. */
#include "posix-test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

static int compound(struct request *rq, struct step *steps, uint32_t count, struct compound_out *out)
{
	struct compound_in in = { { count, steps } };

	*out = (struct compound_out){ 0 };
	return compound_on(rq, brick, &in, out);
}

PROPERTY(a_compound_stops_at_a_condition_that_fails)
{
	cleanup_inode struct inode *f = NULL;
	cleanup_file struct file *file = NULL;
	struct setxattr_in mark = { .name = "user.mark", .value = { 1, (void *)"1" } };
	struct setattr_in grow = { .set = { .valid = SET_SIZE, .size = 10 } };
	struct compound_out out;
	struct attr a;
	REQUEST(q, 0);

	CHECK_INT(ask_make_file(root, "f", &f, &file), 0);
	mark.inode = grow.inode = f;
	struct step steps[] = {
		{ { .kind = IF_NO_XATTR, .inode = f, .name = (char *)"user.mark" }, FOP_setxattr, &mark },
		{ { .kind = IF_SIZE, .inode = f, .size = 0 }, FOP_setattr, &grow },
		{ { .kind = IF_XATTR, .inode = f, .name = (char *)"user.mark", .value = { 1, (void *)"2" } },
		  FOP_setattr,
		  &grow },
		{ { .kind = IF_NOTHING }, FOP_setattr, &grow },
	};
	CHECK_INT(compound(&q.r, steps, 4, &out), 0);
	CHECK_INT(out.results.count, 3);
	CHECK_INT(out.results.result[1].status, 0);
	CHECK(out.results.result[1].out);
	CHECK_INT(out.results.result[2].status, -ECANCELED);
	CHECK(!out.results.result[2].out);
	fop_out_clear(FOP_compound, &out);
	CHECK(!ask_attr(f, NULL, &a) && a.size == 10);
	CHECK_INT(compound(&q.r, steps, 4, &out), 0);
	CHECK_INT(out.results.count, 1);
	CHECK_INT(out.results.result[0].status, -ECANCELED);
	fop_out_clear(FOP_compound, &out);
	struct step bad[] = { { { 0 }, FOP_compound, &grow },
			      { { 0 }, FOP_setlk, &grow },
			      { { .kind = 99 }, FOP_setattr, &grow },
			      { { .kind = IF_XATTR }, FOP_setattr, &grow },
			      { { 0 }, 9999, &grow },
			      { { 0 }, FOP_setattr, NULL } };

	for (int i = 0; i < 6; i++)
		CHECK_INT(compound(&q.r, &bad[i], 1, &out), -EINVAL);
	CHECK_INT(compound(&q.r, steps, COMPOUND_MAX + 1, &out), -EINVAL);
	CHECK_INT(compound(&q.r, NULL, 0, &out), 0);
}

PROPERTY(a_compound_passes_results_on)
{
	cleanup_buffer struct buffer *data = buffer_from("hello", 5);
	struct mkdir_in dir = { .loc = { .parent = root, .name = "d" }, .gfid = fresh_gfid(), .mode = 0755 };
	struct create_in make = { .loc = { .name = "f" }, .gfid = fresh_gfid(), .flags = O_RDWR | O_EXCL, .mode = 0644 };
	struct write_in data_in = { .data = data };
	struct setxattr_in mark = { .name = "user.a", .value = { 1, (void *)"1" } };
	struct getattr_in look = { 0 };
	struct fsync_in sync = { 0 };
	struct step steps[] = {
		{ { .kind = IF_ABSENT, .loc = { .parent = root, .name = "d" } }, FOP_mkdir, &dir },
		{ { .kind = IF_ABSENT, .loc = { .name = "f" } }, FOP_create, &make },
		{ { .kind = IF_SIZE, .size = 0 }, FOP_write, &data_in },
		{ { 0 }, FOP_setxattr, &mark },
		{ { .kind = IF_SIZE, .size = 5 }, FOP_fsync, &sync },
		{ { .kind = IF_EXISTS, .loc = { .parent = root, .name = "d" } }, FOP_getattr, &look },
	};
	struct compound_out out;
	REQUEST(q, 0);

	CHECK_INT(compound(&q.r, steps, 6, &out), 0);
	CHECK_INT(out.results.count, 6);
	for (int i = 0; i < 6; i++)
		CHECK_INT(out.results.result[i].status, 0);
	CHECK_INT(((struct getattr_out *)out.results.result[5].out)->attr.size, 5);
	CHECK(gfid_equal(&((struct getattr_out *)out.results.result[5].out)->attr.gfid, &make.gfid));
	CHECK_INT(((struct write_out *)out.results.result[2].out)->written, 5);
	fop_out_clear(FOP_compound, &out);
	CHECK(getxattr(test_brick_path("d/f"), "user.a", NULL, 0) == 1);
	CHECK_INT(compound(&q.r, &steps[3], 1, &out), 0); /* nothing went before: no inode */
	CHECK_INT(out.results.result[0].status, -ESTALE);
	fop_out_clear(FOP_compound, &out);
}

/* A counter in an xattr, raised by "if it is n, make it n + 1", with plain changes beside: no step is lost. */
struct counting {
	struct inode *inode;
	atomic_int left, done;
	struct task *waiter;
};

static void count_up(void *arg)
{
	struct counting *c = arg;
	REQUEST(q, 0);

	for (int n = 0; atomic_load(&c->done) < 600;) {
		int next = n + 1;
		struct setxattr_in in = { .inode = c->inode, .name = "user.n", .value = { sizeof next, &next } };
		struct step step = {
			{ .kind = IF_XATTR, .inode = c->inode, .name = (char *)"user.n", .value = { sizeof n, &n } },
			FOP_setxattr,
			&in
		};
		struct compound_out out;

		if (compound(&q.r, &step, 1, &out))
			failures++;
		else if (!out.results.result[0].status)
			atomic_fetch_add(&c->done, 1), n++;
		else if (out.results.result[0].status == -ECANCELED)
			getxattr(test_brick_path("f"), "user.n", &n, sizeof n);
		else
			failures++;
		fop_out_clear(FOP_compound, &out);
		ask_set(&q.r, c->inode, &(struct setattr){ .valid = SET_MODE, .mode = 0600 });
		task_yield();
	}
	atomic_fetch_sub(&c->left, 1);
	task_wake(c->waiter);
}

PROPERTY(compounds_are_alone_at_their_objects)
{
	cleanup_inode struct inode *f = NULL;
	struct counting c = { .left = 4, .waiter = task_self() };
	int n = 0;

	CHECK_INT(ask_make_file(root, "f", &f, NULL), 0);
	CHECK(!setxattr(test_brick_path("f"), "user.n", &n, sizeof n, 0));
	c.inode = f;
	for (unsigned i = 0; i < 4; i++)
		CHECK_INT(task_spawn(runtime_shard(i % 2), count_up, &c), 0);
	while (atomic_load(&c.left))
		task_wait(NO_DEADLINE);
	CHECK(getxattr(test_brick_path("f"), "user.n", &n, sizeof n) == sizeof n);
	CHECK_INT(n, atomic_load(&c.done));
}
