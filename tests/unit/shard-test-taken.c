/* SPDX-License-Identifier: Apache-2.0 */
/* features/layout: a name that moves away, and is taken where it was, is not seen to be gone before that is on disk. */
#include "shard-test.h"

struct asked {
	struct inode *d;
	const char *name;
	struct task *task;
	int err;
	atomic_bool done;
};
static char goes[64], goes_too[64], stays[64]; /* names of d: the first two move away from here */

static void unlink_job(void *arg)
{
	struct asked *a = arg;

	a->task = task_self();
	a->err = drop(&v8, a->d, a->name, FOP_unlink);
	a->done = true;
}

static void look_job(void *arg)
{
	struct asked *a = arg;

	a->err = look(&v8, a->d, a->name, NULL, NULL);
	a->done = true;
}

static void marks_job(void *arg)
{
	struct asked *a = arg;
	struct getxattr_out out = { 0 };

	a->err = call(&v8, FOP_getxattr, &(struct getxattr_in){ .inode = a->d, .name = DHT_MARKS_XATTR }, &out);
	fop_out_clear(FOP_getxattr, &out);
	a->done = true;
}

static void choose(struct inode *d, const struct layout *l, bool moves, char name[64], const char *prefix)
{
	uint64_t key;
	int i = 0;

	do {
		snprintf(name, 64, "%s%d", prefix, i++);
		key = layout_key(&d->gfid, name);
	} while (layout_owner(l, key)->id != SELF || (layout_owner_next(l, key)->id != SELF) != moves);
}

/* A directory with those names, to which a member more has come. */
static void make_moving(struct inode *top, struct inode **d, struct layout *l)
{
	struct layout_member more = { .id = MEMBERS, .weight = 1, .next = 1 };

	*l = layout_of(7);
	CHECK_INT(make_dir(&v0, top, "d", d), 0);
	CHECK_INT(put_layout(*d, l), 0);
	CHECK_INT(layout_grow(l, &more, 1), 0);
	choose(*d, l, true, goes, "goes");
	choose(*d, l, true, goes_too, "too");
	choose(*d, l, false, stays, "stays");
	CHECK_INT(make_file(&v7, *d, goes, O_EXCL), 0);
	CHECK_INT(make_file(&v7, *d, goes_too, O_EXCL), 0);
	CHECK_INT(make_file(&v7, *d, stays, O_EXCL), 0);
}

/* It may have been made where it belongs by then, and would be at both after a power cut here. */
PROPERTY_AS(, a_moving_name_is_gone_when_that_is_on_disk)
{
	cleanup_inode struct inode *top = root(), *d = NULL;
	static struct asked drops, looks, asks;
	struct layout l;

	make_moving(top, &d, &l);
	CHECK_INT(put_layout(d, &l), 0);
	drops = looks = (struct asked){ .d = d, .name = goes };
	asks = (struct asked){ .d = d };
	hold_tell("hold", "fsync");
	task_spawn(NULL, unlink_job, &drops);
	hold_wait(1);
	task_spawn(NULL, look_job, &looks);
	task_spawn(NULL, marks_job, &asks);
	CHECK_INT(look(&v8, d, stays, NULL, NULL), 0); /* nobody else waits */
	CHECK_INT(drop(&v8, d, stays, FOP_unlink), 0);
	CHECK_INT(look(&v8, d, stays, NULL, NULL), -ENOENT);
	CHECK_INT(look(&v8, d, goes_too, NULL, NULL), 0);
	task_sleep_ms(50);
	CHECK(!drops.done && !looks.done && !asks.done);
	hold_wait(1); /* they share one */
	hold_tell("release", "all");
	wait_for(&drops.done);
	wait_for(&looks.done);
	wait_for(&asks.done);
	CHECK_INT(drops.err, 0);
	CHECK_INT(looks.err, -ENOENT);
	CHECK_INT(asks.err, 0);
	CHECK_INT(look(&v8, d, goes, NULL, NULL), -ENOENT); /* without another one */
	hold_tell("hold", "none");
}

PROPERTY_AS(, what_was_taken_is_told_to_who_is_interrupted_before_it_is_on_disk)
{
	cleanup_inode struct inode *top = root(), *d = NULL;
	static struct asked drops;
	struct layout l;

	make_moving(top, &d, &l);
	CHECK_INT(put_layout(d, &l), 0);
	drops = (struct asked){ .d = d, .name = goes };
	hold_tell("hold", "fsync");
	task_spawn(NULL, unlink_job, &drops);
	hold_wait(1);
	task_cancel(drops.task);
	hold_wait(1);
	hold_tell("hold", "none");
	hold_tell("release", "all");
	wait_for(&drops.done);
	CHECK_INT(drops.err, 0);
}

/* One that is under way may have been done, as far as others know. */
PROPERTY_AS(, who_misses_a_name_while_one_is_taken_waits_for_the_disk)
{
	cleanup_inode struct inode *top = root(), *d = NULL;
	static struct asked drops, looks;
	struct layout l;

	make_moving(top, &d, &l);
	CHECK_INT(put_layout(d, &l), 0);
	drops = (struct asked){ .d = d, .name = goes };
	CHECK_INT(drop(&v8, d, goes_too, FOP_unlink), 0);
	looks = (struct asked){ .d = d, .name = goes_too };
	hold_tell("hold", "unlink,fsync");
	task_spawn(NULL, unlink_job, &drops);
	hold_wait(1);
	task_spawn(NULL, look_job, &looks);
	hold_wait(2);
	CHECK(!looks.done);
	hold_tell("hold", "none");
	hold_tell("release", "all");
	wait_for(&drops.done);
	wait_for(&looks.done);
	CHECK_INT(drops.err, 0);
	CHECK_INT(looks.err, -ENOENT);
}

/* Who was killed before it was on disk has left it to the next process. */
PROPERTY_AS(, what_was_taken_before_the_start_is_on_disk_before_it_is_missed)
{
	cleanup_inode struct inode *top = root(), *d = NULL;
	uint8_t bytes[LAYOUT_SIZE_MAX];
	static struct asked looks;
	struct layout l = layout_of(7);
	struct layout_member more = { .id = MEMBERS, .weight = 1, .next = 1 };
	struct request rq;

	CHECK_INT(make_dir(&nowhere, top, "d", &d), 0);
	CHECK_INT(layout_grow(&l, &more, 1), 0);
	choose(d, &l, true, goes, "goes");
	request_init(&rq, tree.graph, 0); /* below features/layout: nothing is known there */
	CHECK_INT(setxattr_on(&rq, tree_find(&tree, "hold"),
			      &(struct setxattr_in){ .inode = d,
						     .name = DHT_LAYOUT_XATTR,
						     .value = { (uint32_t)layout_encode(&l, bytes), bytes } },
			      &(struct setxattr_out){ 0 }),
		  0);
	request_finish(&rq);
	looks = (struct asked){ .d = d, .name = goes };
	hold_tell("hold", "fsync");
	task_spawn(NULL, look_job, &looks);
	hold_wait(1);
	CHECK(!looks.done);
	hold_tell("release", "all");
	wait_for(&looks.done);
	CHECK_INT(looks.err, -ENOENT);
	CHECK_INT(look(&v8, d, goes, NULL, NULL), -ENOENT);
	hold_tell("hold", "none");
}

/* Nothing of this is for what does not move. */
PROPERTY_AS(, without_a_transition_no_name_waits_for_the_disk)
{
	cleanup_inode struct inode *top = root(), *d = NULL;
	struct layout l;

	make_moving(top, &d, &l);
	hold_tell("hold", "fsync");
	CHECK_INT(drop(&v7, d, goes, FOP_unlink), 0);
	CHECK_INT(move(&v7, d, goes_too, d, stays, 0), 0);
	CHECK_INT(look(&v7, d, goes, NULL, NULL), -ENOENT);
	CHECK_INT(make_file(&v7, d, goes, O_EXCL), 0);
	hold_wait(0);
	hold_tell("hold", "none");
}
