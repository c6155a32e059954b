/* SPDX-License-Identifier: Apache-2.0 */
/* features/locks: ranges against a model of single bytes, waiting, deadlocks, and the end of files and sessions. */
#include "locks-test.h"

atomic_int failures;

const char plain[] = "volume memory\ntype debug/memory\nend-volume\n"
		     "volume locks\ntype features/locks\noption max-locks 100\nsubvolumes memory\nend-volume\n";

static void open_file(void *arg)
{
	struct world *w = arg;

	CHECK(!tree_create(&w->tree, "f", O_RDWR, 0644, &w->file));
}

void open_world(struct world *w, const char *volfile)
{
	struct problem problem = { "" };

	failures = 0;
	if (tree_open(&w->tree, volfile, &problem))
		fail_msg("%s", problem.text);
	assert_int_equal(task_call(open_file, w), 0);
}

void close_world(struct world *w)
{
	file_unref(w->file);
	tree_close(&w->tree);
	assert_int_equal(failures, 0);
}

struct client clients[3] = {
	{ .id = { 1 }, .incarnation = 1, .name = "one" },
	{ .id = { 2 }, .incarnation = 1, .name = "two" },
	{ .id = { 3 }, .incarnation = 1, .name = "three" },
};

int set(struct world *w, int client, struct lock lock)
{
	struct tree t = w->tree;
	struct setlk_in in = { .file = w->file, .lock = lock };
	struct setlk_out out;

	t.client = &clients[client];
	return tree_call(&t, t.at, FOP_setlk, &in, &out);
}

struct lock posix(uint32_t type, uint64_t owner, uint64_t start, uint64_t end)
{
	return (struct lock){ .kind = LOCK_POSIX, .type = type, .owner = owner, .start = start, .end = end, .pid = owner };
}

struct lock waiting(struct lock lock)
{
	lock.wait = 1;
	return lock;
}

struct lock reclaiming(struct lock lock)
{
	lock.reclaim = 1;
	return lock;
}

struct lock flock_of(uint32_t type, uint64_t owner)
{
	return (struct lock){ .kind = LOCK_FLOCK, .type = type, .owner = owner };
}

/* The type of the lock that stands in the way of a write lock of nobody's. */
uint32_t seen(struct world *w, enum lock_kind kind, uint64_t start, uint64_t end)
{
	struct getlk_in in = { .file = w->file, .lock = posix(F_WRLCK, 999, start, end) };
	struct getlk_out out = { 0 };
	int rc;

	in.lock.kind = kind;
	rc = tree_call(&w->tree, w->tree.at, FOP_getlk, &in, &out);
	return rc ? UINT32_MAX : out.lock.type;
}

static void flush(struct world *w, int client, uint64_t owner)
{
	struct tree t = w->tree;
	struct flush_in in = { .file = w->file, .owner = owner };
	struct flush_out out;

	t.client = &clients[client];
	CHECK(!tree_call(&t, t.at, FOP_flush, &in, &out));
}

uint64_t counter(struct world *w, const char *name)
{
	char *text = NULL, *at;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	struct xlator *x = tree_find(&w->tree, "locks");
	uint64_t value;

	x->type->dump(x, f);
	fclose(f);
	at = strstr(text, name);
	value = at ? strtoull(at + strlen(name) + 1, NULL, 10) : UINT64_MAX;
	free(text);
	return value;
}

/* ---- ranges equal the model ---- */

enum { BYTES = 24, PARTIES = 4, OPERATIONS = 20000 };
struct model {
	uint8_t type[PARTIES][BYTES + 1]; /* the last stands for all bytes beyond */
	unsigned seed;
};

static uint64_t end_of(unsigned last)
{
	return last == BYTES ? UINT64_MAX : (uint64_t)last;
}

static bool model_conflict(const struct model *m, unsigned party, uint32_t type, unsigned first, unsigned last)
{
	for (unsigned other = 0; other < PARTIES; other++)
		for (unsigned i = first; i <= last && other != party; i++)
			if (m->type[other][i] == F_WRLCK || (m->type[other][i] == F_RDLCK && type == F_WRLCK))
				return true;
	return false;
}

static void one_operation(struct world *w, struct model *m)
{
	unsigned party = rand_r(&m->seed) % PARTIES, first = (unsigned)rand_r(&m->seed) % (BYTES + 1);
	unsigned last = first + (unsigned)rand_r(&m->seed) % (BYTES + 1 - first);
	int err;
	uint32_t type = (uint32_t[]){ F_RDLCK, F_WRLCK, F_UNLCK }[rand_r(&m->seed) % 3];

	err = set(w, party % 2, posix(type, 10 + party / 2, first, end_of(last)));
	if (type != F_UNLCK && model_conflict(m, party, type, first, last)) {
		CHECK(err == -EAGAIN);
		return;
	}
	CHECK(err == 0);
	memset(m->type[party] + first, type, last - first + 1);
}

static void compare(struct world *w, const struct model *m)
{
	for (int i = 0; i <= BYTES; i++) {
		uint32_t want = F_UNLCK;

		for (int party = 0; party < PARTIES; party++)
			want = m->type[party][i] != F_UNLCK ? m->type[party][i] : want;
		CHECK(seen(w, LOCK_POSIX, i, i == BYTES ? UINT64_MAX : (uint64_t)i) == want);
	}
}

static void against_model(void *arg)
{
	struct world *w = arg;
	const char *given = getenv("TEST_SEED");
	struct model m = { .seed = given ? (unsigned)atoi(given) : (unsigned)clock_wall_ns() };

	printf("TEST_SEED=%u\n", m.seed);
	memset(m.type, F_UNLCK, sizeof(m.type));
	for (int i = 0; i < OPERATIONS && !failures; i++) {
		one_operation(w, &m);
		if (i % 16 == 0)
			compare(w, &m);
	}
	for (int party = 0; party < PARTIES; party++)
		flush(w, party % 2, 10 + party / 2);
	CHECK(seen(w, LOCK_POSIX, 0, UINT64_MAX) == F_UNLCK);
}

static void ranges_split_and_merge_like_single_bytes(void **state)
{
	struct world w;

	(void)state;
	open_world(&w, plain);
	task_call(against_model, &w);
	close_world(&w);
}

/* ---- waiting ---- */

void ask(void *arg)
{
	struct asker *a = arg;
	int err;

	a->task = task_self();
	err = set(a->world, a->client, a->lock);
	if (a->order)
		a->place = atomic_fetch_add(a->order, 1);
	a->result = err;
}

/* Starts it and waits until it really waits. */
void ask_and_wait(struct asker *a)
{
	uint64_t before = counter(a->world, "waited:");

	a->result = 1;
	assert_int_equal(task_spawn(NULL, ask, a), 0);
	assert_true(EVENTUALLY(counter(a->world, "waited:") == before + 1));
}

struct order {
	struct world *world;
	int client;
	struct lock lock;
	int result;
};

static void obey(void *arg)
{
	struct order *o = arg;

	o->result = set(o->world, o->client, o->lock);
}

int set_now(struct world *w, int client, struct lock lock)
{
	struct order o = { w, client, lock, 0 };

	task_call(obey, &o);
	return o.result;
}

const char large[] = "volume memory\ntype debug/memory\nend-volume\n"
		     "volume locks\ntype features/locks\noption max-locks 40000\nsubvolumes memory\nend-volume\n";

/* Many who ask as `like` does, each with an owner of its own; they all wait. The dump tells of each, so it is not read for each. */
void park(struct asker *a, int count, struct asker like)
{
	uint64_t before = counter(like.world, "waited:");

	for (int i = 0; i < count; i++) {
		a[i] = like;
		a[i].lock.owner += i;
		a[i].result = 1;
		assert_int_equal(task_spawn(runtime_shard(i % 2), ask, &a[i]), 0);
	}
	assert_true(EVENTUALLY(counter(like.world, "waited:") == before + count));
}

/* How many of them have that result. */
int count_of(struct asker *a, int count, int result)
{
	int have = 0;

	for (int i = 0; i < count; i++)
		have += a[i].result == result;
	return have;
}

static void waiters_get_the_lock_in_order_of_arrival(void **state)
{
	struct world w;
	struct asker a[3];
	atomic_int order = 0;

	(void)state;
	open_world(&w, plain);
	assert_int_equal(set_now(&w, 0, posix(F_WRLCK, 1, 0, 9)), 0);
	for (int i = 0; i < 3; i++) {
		a[i] = (struct asker){
			.world = &w, .client = 1, .lock = waiting(posix(F_WRLCK, 20 + i, 5, 6)), .order = &order
		};
		ask_and_wait(&a[i]);
	}
	for (int i = 0; i < 3; i++) {
		assert_int_equal(i ? set_now(&w, 1, posix(F_UNLCK, 19 + i, 5, 6)) : set_now(&w, 0, posix(F_UNLCK, 1, 4, 7)), 0);
		assert_true(EVENTUALLY(a[i].result == 0));
		assert_int_equal(a[i].place, i);
		assert_true(i == 2 || a[i + 1].result == 1);
	}
	close_world(&w);
}

/* As it is less: who waits to read may do so now. */
static void who_has_a_lock_for_reading_only_from_now_on_lets_others_read(void **state)
{
	struct world w;
	struct asker first, second, third;

	(void)state;
	open_world(&w, plain);
	assert_int_equal(set_now(&w, 0, posix(F_WRLCK, 1, 0, 9)), 0);
	first = (struct asker){ .world = &w, .client = 1, .lock = waiting(posix(F_RDLCK, 2, 0, 4)) };
	ask_and_wait(&first);
	second = (struct asker){ .world = &w, .client = 1, .lock = waiting(posix(F_RDLCK, 3, 0, 9)) };
	ask_and_wait(&second);
	assert_int_equal(set_now(&w, 0, posix(F_RDLCK, 1, 0, 4)), 0);
	assert_true(EVENTUALLY(first.result == 0));
	assert_int_equal(second.result, 1);
	assert_int_equal(set_now(&w, 0, posix(F_RDLCK, 1, 5, 9)), 0);
	assert_true(EVENTUALLY(second.result == 0));
	for (int i = 1; i <= 3; i++)
		assert_int_equal(set_now(&w, i > 1, posix(F_UNLCK, i, 0, 9)), 0);
	/* the third has waited for the first only, and is in the way of the second, who has come before */
	assert_int_equal(set_now(&w, 0, posix(F_WRLCK, 1, 0, 4)), 0);
	assert_int_equal(set_now(&w, 1, posix(F_WRLCK, 3, 5, 9)), 0);
	second = (struct asker){ .world = &w, .client = 1, .lock = waiting(posix(F_RDLCK, 2, 0, 9)) };
	ask_and_wait(&second);
	third = (struct asker){ .world = &w, .client = 1, .lock = waiting(posix(F_RDLCK, 3, 0, 9)) };
	ask_and_wait(&third);
	assert_int_equal(set_now(&w, 0, posix(F_UNLCK, 1, 0, 9)), 0);
	assert_true(EVENTUALLY(third.result == 0));
	assert_true(EVENTUALLY(second.result == 0));
	close_world(&w);
}

static void who_reclaims_for_reading_only_lets_others_read(void **state)
{
	struct world w;
	struct asker reader;

	(void)state;
	open_world(&w, plain);
	assert_int_equal(set_now(&w, 0, reclaiming(posix(F_WRLCK, 1, 0, 9))), 0);
	reader = (struct asker){ .world = &w, .client = 1, .lock = waiting(posix(F_RDLCK, 2, 0, 4)) };
	ask_and_wait(&reader);
	assert_int_equal(set_now(&w, 0, reclaiming(posix(F_RDLCK, 1, 0, 9))), 0);
	assert_true(EVENTUALLY(reader.result == 0));
	close_world(&w);
}

static void a_cancelled_waiter_gets_ecanceled_and_no_lock(void **state)
{
	struct world w;
	struct asker a;

	(void)state;
	open_world(&w, plain);
	assert_int_equal(set_now(&w, 0, posix(F_WRLCK, 1, 0, 9)), 0);
	a = (struct asker){ .world = &w, .client = 1, .lock = waiting(posix(F_WRLCK, 2, 0, 9)) };
	ask_and_wait(&a);
	task_cancel(a.task);
	assert_true(EVENTUALLY(a.result != 1));
	assert_int_equal(a.result, -ECANCELED);
	assert_int_equal(set_now(&w, 0, posix(F_UNLCK, 1, 0, 9)), 0);
	assert_int_equal(set_now(&w, 2, posix(F_WRLCK, 3, 0, 9)), 0);
	close_world(&w);
}

enum { HANDS = 8, TURNS = 500 };
struct shared {
	struct world *world;
	int inside, turns; /* not atomic: the lock must guard them */
	atomic_int left, owners;
};

static void take_turns(void *arg)
{
	struct shared *s = arg;
	int owner = atomic_fetch_add(&s->owners, 1);

	for (int i = 0; i < TURNS; i++) {
		CHECK(!set(s->world, owner % 3, waiting(posix(F_WRLCK, owner, 0, UINT64_MAX))));
		CHECK(s->inside++ == 0);
		s->turns++;
		task_yield();
		s->inside--;
		CHECK(!set(s->world, owner % 3, posix(F_UNLCK, owner, 0, UINT64_MAX)));
	}
	s->left--;
}

static void no_wake_up_is_lost_and_one_writer_excludes_all(void **state)
{
	struct world w;
	struct shared s = { .world = &w, .left = HANDS };

	(void)state;
	open_world(&w, plain);
	for (int i = 0; i < HANDS; i++)
		assert_int_equal(task_spawn(runtime_shard(i % 2), take_turns, &s), 0);
	assert_true(EVENTUALLY(s.left == 0));
	assert_int_equal(s.turns, HANDS * TURNS);
	close_world(&w);
}

enum { CROWD = 4000, PASSES = 20 };
struct passers {
	struct asker free; /* whose lock the crowd waits for */
	atomic_int left, owners;
};

/* Who comes while the crowd is being served comes after it; then he may come and go. */
static void pass_by(void *arg)
{
	struct passers *s = arg;
	struct world *w = s->free.world;
	int owner = atomic_fetch_add(&s->owners, 1);

	CHECK(!set(w, 2, waiting(posix(F_RDLCK, owner, 0, 9))));
	CHECK(counter(w, "granted:") >= 1 + CROWD + 1);
	for (int i = 0; i < PASSES; i++) {
		CHECK(!set(w, 2, posix(F_UNLCK, owner, 0, 9)));
		CHECK(!set(w, 2, waiting(posix(F_RDLCK, owner, 0, 9))));
	}
	CHECK(!set(w, 2, posix(F_UNLCK, owner, 0, 9)));
	s->left--;
}

/* On one shard, so they come when the first portion is done. */
static void free_and_pass_by(void *arg)
{
	struct passers *s = arg;

	CHECK(!task_spawn(NULL, ask, &s->free));
	for (int i = 0; i < HANDS; i++)
		CHECK(!task_spawn(NULL, pass_by, s));
}

/* Each who gets the lock makes it more work to grant it to the next: 8 million comparisons for all. */
static void a_crowd_gets_its_lock_in_portions_and_nobody_is_forgotten(void **state)
{
	static struct asker crowd[CROWD];
	struct passers s = { .left = HANDS, .owners = 1 };
	struct asker writer;
	struct world w;

	(void)state;
	open_world(&w, large);
	assert_int_equal(set_now(&w, 0, posix(F_WRLCK, 1, 0, 9)), 0);
	park(crowd, CROWD, (struct asker){ .world = &w, .client = 1, .lock = waiting(posix(F_RDLCK, 1, 0, 9)) });
	assert_int_equal(counter(&w, "paused:"), 0);
	s.free = (struct asker){ .world = &w, .client = 0, .lock = posix(F_UNLCK, 1, 0, 9), .result = 1 };
	task_call(free_and_pass_by, &s);
	assert_true(EVENTUALLY(s.free.result == 0 && s.left == 0));
	assert_true(EVENTUALLY(count_of(crowd, CROWD, 0) == CROWD));
	assert_true(counter(&w, "paused:") >= 100);
	writer = (struct asker){ .world = &w, .client = 2, .lock = waiting(posix(F_WRLCK, 1, 0, 9)) };
	ask_and_wait(&writer);
	gone(&w, 1);
	assert_true(EVENTUALLY(writer.result == 0));
	close_world(&w);
}

static void the_end_of_a_session_serves_a_crowd_in_portions_too(void **state)
{
	static struct asker crowd[CROWD];
	struct world w;

	(void)state;
	open_world(&w, large);
	assert_int_equal(set_now(&w, 0, posix(F_WRLCK, 1, 0, 9)), 0);
	park(crowd, CROWD, (struct asker){ .world = &w, .client = 1, .lock = waiting(posix(F_RDLCK, 1, 0, 9)) });
	gone(&w, 0);
	assert_true(EVENTUALLY(count_of(crowd, CROWD, 0) == CROWD));
	assert_true(counter(&w, "paused:") >= 100);
	close_world(&w);
}

static void a_circle_of_waiters_is_refused(void **state)
{
	struct world w;
	struct asker a, b;

	(void)state;
	open_world(&w, plain);
	for (int i = 0; i < 3; i++)
		assert_int_equal(set_now(&w, i, posix(F_WRLCK, i, i, i)), 0);
	a = (struct asker){ .world = &w, .client = 0, .lock = waiting(posix(F_WRLCK, 0, 1, 1)) };
	ask_and_wait(&a);
	b = (struct asker){ .world = &w, .client = 1, .lock = waiting(posix(F_WRLCK, 1, 2, 2)) };
	ask_and_wait(&b);
	assert_int_equal(set_now(&w, 2, waiting(posix(F_WRLCK, 2, 0, 0))), -EDEADLK);
	assert_int_equal(set_now(&w, 2, posix(F_UNLCK, 2, 2, 2)), 0);
	assert_true(EVENTUALLY(b.result == 0));
	assert_int_equal(set_now(&w, 1, posix(F_UNLCK, 1, 1, 1)), 0);
	assert_true(EVENTUALLY(a.result == 0));
	close_world(&w);
}

enum { PARKED = 2000, READERS = 60 }; /* times each other: more than the steps of a search */

/* Each of the readers is in the way of the one who closes the circle, so what waits for each is looked for. */
static void what_others_park_hides_no_circle(void **state)
{
	static struct asker parked[PARKED];
	struct asker first, second;
	struct world w;

	(void)state;
	open_world(&w, large);
	assert_int_equal(set_now(&w, 0, posix(F_WRLCK, 1, 0, 0)), 0);
	assert_int_equal(set_now(&w, 0, posix(F_WRLCK, 1, 100, 100)), 0);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(set_now(&w, 1, posix(F_RDLCK, 2 + i, 10, 10)), 0);
	park(parked, PARKED, (struct asker){ .world = &w, .client = 2, .lock = waiting(posix(F_RDLCK, 1, 100, 100)) });
	second = (struct asker){ .world = &w, .client = 1, .lock = waiting(posix(F_WRLCK, 2, 0, 0)) };
	ask_and_wait(&second);
	first = (struct asker){ .world = &w, .client = 0, .lock = waiting(posix(F_WRLCK, 1, 10, 10)), .result = 1 };
	assert_int_equal(task_spawn(NULL, ask, &first), 0);
	assert_true(EVENTUALLY(first.result != 1));
	assert_int_equal(first.result, -EDEADLK);
	gone(&w, 2);
	assert_true(EVENTUALLY(count_of(parked, PARKED, -ENOTCONN) == PARKED));
	assert_int_equal(set_now(&w, 0, posix(F_UNLCK, 1, 0, 0)), 0);
	assert_true(EVENTUALLY(second.result == 0));
	close_world(&w);
}

/* ---- kinds ---- */

static void flocks(void *arg)
{
	struct world *w = arg;
	struct file *other;

	CHECK(!set(w, 0, flock_of(F_RDLCK, 1)));
	CHECK(!set(w, 0, flock_of(F_RDLCK, 2)));
	CHECK(set(w, 0, flock_of(F_WRLCK, 3)) == -EAGAIN);
	CHECK(!set(w, 0, posix(F_WRLCK, 3, 0, UINT64_MAX))); /* the kinds don't see each other */
	CHECK(!set(w, 0, flock_of(F_UNLCK, 2)));
	CHECK(!set(w, 0, flock_of(F_WRLCK, 1)));
	CHECK(set(w, 0, flock_of(F_RDLCK, 2)) == -EAGAIN);
	flush(w, 0, 1); /* a flock belongs to the open file, not to who closes a descriptor */
	CHECK(seen(w, LOCK_FLOCK, 0, UINT64_MAX) == F_WRLCK);
	CHECK(!tree_open_file(&w->tree, "f", O_RDWR, &other));
	tree_release(&w->tree, w->file);
	w->file = other;
	CHECK(seen(w, LOCK_FLOCK, 0, UINT64_MAX) == F_UNLCK);
	CHECK(!set(w, 1, flock_of(F_WRLCK, 7)));
	other = w->file;
	CHECK(!tree_open_file(&w->tree, "f", O_RDWR, &w->file));
	file_unref(other); /* without a release, too */
	CHECK(seen(w, LOCK_FLOCK, 0, UINT64_MAX) == F_UNLCK);
}

static void flocks_belong_to_the_open_file(void **state)
{
	struct world w;

	(void)state;
	open_world(&w, plain);
	task_call(flocks, &w);
	close_world(&w);
}

static void flush_some(void *arg)
{
	struct world *w = arg;

	CHECK(!set(w, 0, posix(F_WRLCK, 1, 0, 0)));
	CHECK(!set(w, 0, posix(F_WRLCK, 2, 1, 1)));
	CHECK(!set(w, 1, posix(F_WRLCK, 1, 2, 2)));
	flush(w, 0, 1);
	CHECK(seen(w, LOCK_POSIX, 0, 0) == F_UNLCK);
	CHECK(seen(w, LOCK_POSIX, 1, 1) == F_WRLCK);
	CHECK(seen(w, LOCK_POSIX, 2, 2) == F_WRLCK);
}

static void flush_drops_the_locks_of_that_owner_only(void **state)
{
	struct world w;

	(void)state;
	open_world(&w, plain);
	task_call(flush_some, &w);
	close_world(&w);
}

/* The flush of an owner can get lost (a brick that hangs); the end of the file can't. */
static void close_some(void *arg)
{
	struct world *w = arg;
	struct file *first = w->file;

	CHECK(!set(w, 0, posix(F_WRLCK, 1, 0, 0)));
	CHECK(!tree_open_file(&w->tree, "f", O_RDWR, &w->file));
	CHECK(!set(w, 0, posix(F_WRLCK, 1, 2, 2)));
	CHECK(!set(w, 1, posix(F_WRLCK, 2, 4, 4)));
	tree_release(&w->tree, first);
	CHECK(seen(w, LOCK_POSIX, 0, 0) == F_UNLCK);
	CHECK(seen(w, LOCK_POSIX, 2, 2) == F_WRLCK);
	CHECK(seen(w, LOCK_POSIX, 4, 4) == F_WRLCK);
}

static void the_end_of_a_file_drops_what_was_locked_through_it(void **state)
{
	struct world w;

	(void)state;
	open_world(&w, plain);
	task_call(close_some, &w);
	close_world(&w);
}

static void open_again(void *arg)
{
	struct world *w = arg;

	CHECK(!tree_open_file(&w->tree, "f", O_RDWR, &w->file));
}

static void close_it(void *arg)
{
	struct world *w = arg;

	tree_release(&w->tree, w->file);
}

static void is_free(void *arg)
{
	CHECK(seen(arg, LOCK_POSIX, 0, 0) == F_UNLCK);
}

struct late {
	struct world world; /* whose file refers to what is closed, until it has the lock */
	struct lock lock;
	atomic_int result; /* 1: not yet */
};

static void ask_late(void *arg)
{
	struct late *l = arg;
	int err = set(&l->world, 1, l->lock);

	file_unref(l->world.file);
	l->result = err;
}

/* When the file was closed there was nothing to drop yet. */
static void who_gets_a_lock_through_a_file_that_was_closed_meanwhile_does_not_keep_it(void **state)
{
	struct world w;
	struct late l = { .lock = waiting(posix(F_WRLCK, 2, 0, 9)), .result = 1 };

	(void)state;
	open_world(&w, plain);
	l.world = w;
	task_call(open_again, &w);
	assert_int_equal(set_now(&w, 0, posix(F_WRLCK, 1, 0, 9)), 0);
	assert_int_equal(task_spawn(NULL, ask_late, &l), 0);
	assert_true(EVENTUALLY(counter(&w, "waited:") == 1));
	file_ref(l.world.file);
	task_call(close_it, &l.world);
	assert_int_equal(set_now(&w, 0, posix(F_UNLCK, 1, 0, 9)), 0);
	assert_true(EVENTUALLY(l.result != 1));
	task_call(is_free, &w);
	close_world(&w);
}

void gone(struct world *w, int client)
{
	struct xlator *x = tree_find(&w->tree, "locks");

	x->type->client_gone(x, &clients[client]);
}

static void the_end_of_a_session_frees_its_locks_and_ends_its_waits(void **state)
{
	struct world w;
	struct asker mine, theirs;

	(void)state;
	open_world(&w, plain);
	assert_int_equal(set_now(&w, 0, posix(F_WRLCK, 1, 0, 9)), 0);
	assert_int_equal(set_now(&w, 1, posix(F_WRLCK, 1, 20, 29)), 0);
	mine = (struct asker){ .world = &w, .client = 0, .lock = waiting(posix(F_WRLCK, 2, 20, 20)) };
	ask_and_wait(&mine);
	theirs = (struct asker){ .world = &w, .client = 2, .lock = waiting(posix(F_WRLCK, 3, 5, 5)) };
	ask_and_wait(&theirs);
	gone(&w, 0);
	assert_true(EVENTUALLY(mine.result != 1 && theirs.result != 1));
	assert_int_equal(mine.result, -ENOTCONN);
	assert_int_equal(theirs.result, 0);
	assert_int_equal(set_now(&w, 2, posix(F_WRLCK, 3, 20, 20)), -EAGAIN);
	close_world(&w);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_split_and_merge_like_single_bytes),
		cmocka_unit_test(waiters_get_the_lock_in_order_of_arrival),
		cmocka_unit_test(who_has_a_lock_for_reading_only_from_now_on_lets_others_read),
		cmocka_unit_test(who_reclaims_for_reading_only_lets_others_read),
		cmocka_unit_test(a_cancelled_waiter_gets_ecanceled_and_no_lock),
		cmocka_unit_test(no_wake_up_is_lost_and_one_writer_excludes_all),
		cmocka_unit_test(a_crowd_gets_its_lock_in_portions_and_nobody_is_forgotten),
		cmocka_unit_test(the_end_of_a_session_serves_a_crowd_in_portions_too),
		cmocka_unit_test(a_circle_of_waiters_is_refused),
		cmocka_unit_test(what_others_park_hides_no_circle),
		cmocka_unit_test(flocks_belong_to_the_open_file),
		cmocka_unit_test(flush_drops_the_locks_of_that_owner_only),
		cmocka_unit_test(the_end_of_a_file_drops_what_was_locked_through_it),
		cmocka_unit_test(who_gets_a_lock_through_a_file_that_was_closed_meanwhile_does_not_keep_it),
		cmocka_unit_test(one_client_gets_so_many_locks_and_no_more),
		cmocka_unit_test(many_locks_and_many_who_wait_do_not_go_together),
		cmocka_unit_test(a_flock_that_may_not_change_its_type_stays_what_it_was),
		cmocka_unit_test(a_flock_that_changes_its_type_keeps_its_place_among_so_many),
		cmocka_unit_test(the_clients_of_one_tenant_get_so_many_locks_together),
		cmocka_unit_test(nor_does_one_who_reclaims_get_more),
		cmocka_unit_test(the_id_of_another_tenants_client_is_of_no_use),
		cmocka_unit_test(the_end_of_a_session_frees_its_locks_and_ends_its_waits),
		cmocka_unit_test(a_client_is_recorded_from_its_first_lock_to_its_end),
		cmocka_unit_test(who_takes_a_lock_while_its_record_is_to_be_removed_keeps_both),
		cmocka_unit_test(in_the_grace_period_locks_are_reclaimed_before_new_ones_are_granted),
		cmocka_unit_test(who_had_no_lock_reclaims_nothing_and_is_told),
		cmocka_unit_test(the_grace_period_ends_and_forgets_who_did_not_come),
		cmocka_unit_test(a_wrong_state_dir_is_an_error_at_start),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
