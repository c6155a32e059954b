/* SPDX-License-Identifier: Apache-2.0 */
/* features/locks: changes that are good only while their session holds a lock (libcore/held.h). */
#include "test-tasks.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "held.h"
#include "tree.h"

static atomic_int failures;
#define CHECK(condition)                                                                                                       \
	((condition) ? 0 : (fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition), failures++))

static const char volfile[] = "volume memory\ntype debug/memory\nend-volume\n"
			      "volume hold\ntype debug/hold\nsubvolumes memory\nend-volume\n"
			      "volume locks\ntype features/locks\nsubvolumes hold\nend-volume\n";
enum { OWNER = 7, TURN = 3, FIRST = 10, LAST = 19 };

static struct tree tree;
static struct xlator *hold;
static struct file *file;
static struct client one = { .id = { 1 }, .incarnation = 1, .name = "one" },
		     one_later = { .id = { 1 }, .incarnation = 2, .name = "one" },
		     two = { .id = { 2 }, .incarnation = 1, .name = "two" };
static const struct held_mark mark = { OWNER, FIRST, LAST, TURN };

static int set(struct client *client, uint32_t type, uint32_t pid, struct lock how)
{
	struct tree t = tree;
	struct setlk_in in = { file, how };
	struct setlk_out out;

	in.lock.kind = LOCK_POSIX;
	in.lock.type = type;
	in.lock.start = FIRST;
	in.lock.end = LAST;
	in.lock.owner = OWNER;
	in.lock.pid = pid;
	t.client = client;
	return tree_call(&t, t.at, FOP_setlk, &in, &out);
}

static int lock(struct client *client)
{
	return set(client, F_WRLCK, TURN, (struct lock){ 0 });
}

static void unlock(struct client *client)
{
	CHECK(!set(client, F_UNLCK, TURN, (struct lock){ 0 }));
}

static int change(struct client *client, const struct held_mark *m, enum fop fop)
{
	struct buffer *data = buffer_from("x", 1);
	union {
		struct write_in write;
		struct setattr_in setattr;
		struct fallocate_in fallocate;
		struct setxattr_in setxattr;
		struct compound_in compound;
	} in = { 0 };
	union {
		struct write_out write;
		struct setattr_out setattr;
		struct fallocate_out fallocate;
		struct setxattr_out setxattr;
		struct compound_out compound;
	} out = { 0 };
	struct request rq;
	int err;

	if (fop == FOP_write)
		in.write = (struct write_in){ .file = file, .data = data };
	else if (fop == FOP_setattr)
		in.setattr = (struct setattr_in){ .file = file, .set = { .valid = SET_SIZE, .size = 5 } };
	else if (fop == FOP_fallocate)
		in.fallocate = (struct fallocate_in){ .file = file, .length = 10 };
	else if (fop == FOP_setxattr)
		in.setxattr =
			(struct setxattr_in){ .inode = file->inode, .name = (char *)"user.a", .value = { 1, (void *)"b" } };
	request_init(&rq, tree.graph, 0);
	rq.client = client;
	err = held_attach(&rq, m);
	if (!err)
		err = fop_call(&rq, tree.at, fop, &in, &out);
	request_finish(&rq);
	buffer_unref(data);
	return err;
}

static int write_one(struct client *client, const struct held_mark *m)
{
	return change(client, m, FOP_write);
}

static uint64_t size_now(void)
{
	struct attr a = { 0 };

	CHECK(!tree_getattr(&tree, "f", &a));
	return a.size;
}

/* ---- what counts as held ---- */

static void is_refused_unless_held(void *arg)
{
	struct held_mark wider = mark, others = mark, earlier = mark;

	(void)arg;
	wider.end++;
	others.owner++;
	earlier.pid--;
	CHECK(write_one(&one, &mark) == -ENOTHELD);
	CHECK(!set(&one, F_RDLCK, TURN, (struct lock){ 0 }));
	CHECK(write_one(&one, &mark) == -ENOTHELD);
	CHECK(!lock(&one));
	CHECK(write_one(&one, &wider) == -ENOTHELD);
	CHECK(write_one(&one, &others) == -ENOTHELD);
	CHECK(write_one(&one, &earlier) == -ENOTHELD);
	CHECK(write_one(&two, &mark) == -ENOTHELD);
	CHECK(write_one(&one_later, &mark) == -ENOTHELD);
	CHECK(size_now() == 0);
	CHECK(!write_one(&one, &mark));
	CHECK(size_now() == 1);
	unlock(&one);
	CHECK(write_one(&one, &mark) == -ENOTHELD);
}

static void each_kind_is_refused(void *arg)
{
	static const enum fop kinds[] = { FOP_write, FOP_setattr, FOP_fallocate, FOP_setxattr };

	(void)arg;
	for (int held = 0; held < 2; held++) {
		for (unsigned i = 0; i < 4; i++)
			CHECK(change(&one, &mark, kinds[i]) == (held ? 0 : -ENOTHELD));
		CHECK(!lock(&one));
	}
	CHECK(change(&one, &mark, FOP_compound) == -EOPNOTSUPP);
	CHECK(write_one(&one, &(struct held_mark){ OWNER, LAST, FIRST, TURN }) == -EINVAL);
}

/* ---- what is under way ---- */

static int command(char *word, char *more)
{
	char *words[] = { word, more };
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	int parked = 0;

	hold->type->command(hold, more ? 2 : 1, words, f);
	fclose(f);
	for (char *at = text; (at = strstr(at, "parked: ")); at++)
		parked++;
	free(text);
	return parked;
}

static uint64_t counter(const char *name)
{
	char *text = NULL, *at;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	uint64_t value;

	tree.at->type->dump(tree.at, f);
	fclose(f);
	at = strstr(text, name);
	value = at ? strtoull(at + strlen(name), NULL, 10) : UINT64_MAX;
	free(text);
	return value;
}

struct aside {
	struct client *client;
	uint32_t pid;
	int result;
	atomic_bool done;
};

static void write_aside(void *arg)
{
	struct aside *a = arg;

	a->result = write_one(a->client, &mark);
	atomic_store(&a->done, true);
}

static void lock_aside(void *arg)
{
	struct aside *a = arg;

	a->result = set(a->client, F_WRLCK, a->pid, (struct lock){ .wait = 1 });
	atomic_store(&a->done, true);
}

static void await(struct aside *a)
{
	while (!atomic_load(&a->done))
		task_sleep_ms(1);
}

static void nobody_gets_the_lock_before_it_ends(void *arg)
{
	struct aside late = { .client = &one }, next = { .client = &two, .pid = 1 };

	(void)arg;
	CHECK(!lock(&one));
	command((char *)"hold", (char *)"write");
	task_spawn(NULL, write_aside, &late);
	while (command((char *)"list", NULL) != 1)
		task_sleep_ms(1);
	unlock(&one);
	CHECK(set(&two, F_WRLCK, 1, (struct lock){ 0 }) == -EAGAIN);
	CHECK(set(&one, F_WRLCK, TURN + 1, (struct lock){ 0 }) ==
	      -EAGAIN); /* by its own client neither: it would come after what that does */
	task_spawn(NULL, lock_aside, &next);
	task_sleep_ms(20);
	CHECK(!atomic_load(&next.done));
	command((char *)"hold", (char *)"none");
	command((char *)"release", (char *)"all");
	await(&late);
	await(&next);
	CHECK(late.result == 0);
	CHECK(next.result == 0);
	CHECK(write_one(&one, &mark) == -ENOTHELD);
}

/* It waits for the change only. */
static void its_owner_gets_it_with_another_pid_when_it_ends(void *arg)
{
	struct aside late = { .client = &one }, again = { .client = &one, .pid = TURN + 1 };

	(void)arg;
	CHECK(!lock(&one));
	command((char *)"hold", (char *)"write");
	task_spawn(NULL, write_aside, &late);
	while (command((char *)"list", NULL) != 1)
		task_sleep_ms(1);
	task_spawn(NULL, lock_aside, &again);
	while (!counter("waited:"))
		task_sleep_ms(1);
	CHECK(!atomic_load(&again.done));
	command((char *)"hold", (char *)"none");
	command((char *)"release", (char *)"all");
	await(&late);
	await(&again);
	CHECK(late.result == 0);
	CHECK(again.result == 0);
	CHECK(write_one(&one, &mark) == -ENOTHELD);
}

/* ---- how much work it is ---- */

enum { LOCKS = 4000, WAITERS = 60 }; /* to compare each with each is more than one portion */

static void lock_much(void)
{
	struct tree t = tree;
	struct setlk_out out;

	t.client = &one;
	for (uint64_t i = 0; i < LOCKS; i++) {
		struct lock how = {
			.kind = LOCK_POSIX, .type = F_RDLCK, .start = 100 + 2 * i, .end = 100 + 2 * i, .owner = OWNER
		};
		struct setlk_in in = { file, how };

		CHECK(!tree_call(&t, t.at, FOP_setlk, &in, &out));
	}
}

/* Nobody of them can get anything. */
static void those_who_wait_are_not_looked_at(void *arg)
{
	static struct aside waits[WAITERS];
	uint64_t paused;

	(void)arg;
	lock_much();
	CHECK(!lock(&one));
	for (int i = 0; i < WAITERS; i++) {
		waits[i] = (struct aside){ .client = &two, .pid = 1 };
		task_spawn(NULL, lock_aside, &waits[i]);
	}
	while (counter("waited:") < WAITERS)
		task_sleep_ms(1);
	paused = counter("paused:");
	for (int i = 0; i < 10; i++)
		CHECK(!write_one(&one, &mark));
	CHECK(counter("paused:") == paused);
	unlock(&one);
	for (int i = 0; i < WAITERS; i++)
		await(&waits[i]);
	CHECK(counter("paused:") > paused);
}

/* ---- sessions ---- */

static void gone(struct client *client)
{
	tree.at->type->client_gone(tree.at, client);
}

static void is_good_again_once_reclaimed(void *arg)
{
	(void)arg;
	CHECK(!lock(&one));
	CHECK(!set(&one_later, F_WRLCK, TURN, (struct lock){ .reclaim = 1 })); /* its session has not ended yet */
	gone(&one);
	CHECK(!write_one(&one_later, &mark));
	gone(&one_later);
	one_later.incarnation++;
	CHECK(write_one(&one_later, &mark) == -ENOTHELD);
	CHECK(!lock(&two));
	CHECK(set(&one_later, F_WRLCK, TURN, (struct lock){ .reclaim = 1 }) == -ENOLCK);
	CHECK(write_one(&one_later, &mark) == -ENOTHELD);
	unlock(&two);
	CHECK(!set(&one_later, F_WRLCK, TURN, (struct lock){ .reclaim = 1 }));
	CHECK(!write_one(&one_later, &mark));
}

/* ---- running them ---- */

static void make(void *arg)
{
	(void)arg;
	CHECK(!tree_create(&tree, "f", O_RDWR, 0644, &file));
}

static void run(task_fn *fn)
{
	struct problem problem = { "" };

	failures = 0;
	if (tree_open(&tree, volfile, &problem))
		fail_msg("%s", problem.text);
	hold = tree_find(&tree, "hold");
	assert_int_equal(task_call(make, NULL), 0);
	assert_int_equal(task_call(fn, NULL), 0);
	file_unref(file);
	tree_close(&tree);
	assert_int_equal(failures, 0);
}

static void a_change_is_done_only_while_its_lock_is_held(void **state)
{
	(void)state;
	run(is_refused_unless_held);
	run(each_kind_is_refused);
}

static void what_is_under_way_keeps_its_lock_from_others(void **state)
{
	(void)state;
	run(nobody_gets_the_lock_before_it_ends);
	run(its_owner_gets_it_with_another_pid_when_it_ends);
}

static void a_change_whose_lock_stays_looks_at_nobody_who_waits(void **state)
{
	(void)state;
	run(those_who_wait_are_not_looked_at);
}

static void in_a_new_session_a_lock_must_have_been_reclaimed(void **state)
{
	(void)state;
	run(is_good_again_once_reclaimed);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_change_is_done_only_while_its_lock_is_held),
		cmocka_unit_test(what_is_under_way_keeps_its_lock_from_others),
		cmocka_unit_test(a_change_whose_lock_stays_looks_at_nobody_who_waits),
		cmocka_unit_test(in_a_new_session_a_lock_must_have_been_reclaimed),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
