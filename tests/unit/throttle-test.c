/* SPDX-License-Identifier: Apache-2.0 */
/* features/throttle: limits by a clock of the test's own, shares by counting what goes on when one place is given back at a time. TEST_SEED
 * repeats a run. */
#include "test-tasks.h"
#include "test.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bucket.h"
#include "tree.h"

enum { ACME = 65536, GLOBEX = 131072, NOBODY = 999999, PLAYERS = 64 };
#define SECOND UINT64_C(1000000000)
#define GRAPH                                                                                                                  \
	"volume memory\ntype debug/memory\nend-volume\n"                                                                       \
	"volume hold\ntype debug/hold\noption fops %s\nsubvolumes memory\nend-volume\n"                                        \
	"volume throttle\ntype features/throttle\noption at-once %s\noption tenants \"%s\"\nsubvolumes hold\nend-volume\n"
#define NO_LIMITS "acme 65536, globex 131072"

static struct tree tree;
static unsigned seed;

struct player { /* a task that asks again and again */
	uint32_t root;
	enum fop fop;
	uint32_t size;	 /* of listings that it asks for */
	unsigned rounds; /* 0: until it is told to stop */
	uint64_t deadline_ns;
	bool hurries;
	atomic_uint done, failed, told_on, told_off, told_crowded;
	atomic_int last;
	atomic_bool stop, ended;
	_Atomic(struct task *) task;
	_Atomic(struct request *) rq;
};
static struct player player[PLAYERS];
static unsigned players;

static unsigned next_random(void)
{
	seed = seed * 1103515245 + 12345;
	return seed >> 8;
}

/* ---- buckets ---- */

static uint64_t cost_of_turn(unsigned i)
{
	return i % 17 ? next_random() % 900 : 5000; /* some are larger than the burst */
}

/* Whoever takes as soon as he may gets RATE * (T + 1) and one request at most in each stretch of T seconds, and no less than RATE * T from the
 * beginning. */
static void a_bucket_gives_its_rate_and_one_burst(void **state)
{
	static uint64_t at[4000], sum[4001];
	struct bucket b = { 0 };
	uint64_t now = 1, when;

	(void)state;
	bucket_set(&b, 1000, 1, now);
	for (unsigned i = 0; i < 4000; i++) {
		uint64_t cost = cost_of_turn(i);

		when = bucket_when(&b, cost, now);
		assert_true(!when || when > now);
		now = when ? when : now;
		assert_int_equal(bucket_when(&b, cost, now), 0);
		bucket_take(&b, cost, now);
		at[i] = now;
		sum[i + 1] = sum[i] + cost;
		now += i % 100 ? 0
			       : next_random() * (uint64_t)97 % (3 * SECOND); /* a pause fills it no higher than the burst */
		for (unsigned k = i > 200 ? i - 200 : 0; k <= i; k++)
			assert_true((double)(sum[i + 1] - sum[k]) <= 1000 * ((double)(at[i] - at[k]) / SECOND + 1) + 5001);
	}
}

static void what_is_owed_and_given_back_has_bounds(void **state)
{
	struct bucket b = { 0 };
	uint64_t now = 5;

	(void)state;
	bucket_set(&b, 100, 1, now);
	for (int i = 0; i < 10000; i++)
		bucket_owe(&b, 1, now);
	assert_int_equal(bucket_when(&b, 1, now), now + 101 * (uint64_t)SECOND / 100 + 1);
	bucket_return(&b, 10000);
	assert_int_equal(bucket_when(&b, 100, now), 0);
	bucket_take(&b, 100, now);
	assert_true(bucket_when(&b, 1, now) > now);
	bucket_set(&b, 100, 1, now); /* the same again gives nothing */
	assert_true(bucket_when(&b, 1, now) > now);
	bucket_set(&b, 0, 1, now);
	assert_int_equal(bucket_when(&b, UINT64_MAX, now), 0);
}

/* ---- the stack ---- */

static void open_stack(const char *held, const char *at_once, const char *tenants)
{
	struct problem p = { "" };
	char text[2048];

	snprintf(text, sizeof(text), GRAPH, held, at_once, tenants);
	if (tree_open(&tree, text, &p))
		fail_msg("%s", p.text);
	players = 0;
}

static char *tell(const char *volume, const char *a, const char *b)
{
	struct xlator *x = tree_find(&tree, volume);
	char *argv[] = { (char *)a, (char *)b }, *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_int_equal(x->type->command(x, b ? 2 : 1, argv, f), 0);
	fclose(f);
	return text;
}

static void order(const char *a, const char *b)
{
	free(tell("hold", a, b));
}

static unsigned parked(void)
{
	char *text = tell("hold", "list", NULL);
	unsigned count = 0;

	for (char *at = text; (at = strstr(at, "parked:")); at++)
		count++;
	free(text);
	return count;
}

static uint64_t number_of(const char *key)
{
	char *text = tell("throttle", "status", "--json"), what[64];
	uint64_t sum = 0;

	snprintf(what, sizeof(what), "\"%s\": ", key);
	for (char *at = text; (at = strstr(at, what)); at++)
		sum += strtoull(at + strlen(what), NULL, 10);
	free(text);
	return sum;
}

static void change(const char *option, const char *value)
{
	struct xlator *x = tree_find(&tree, "throttle");
	struct problem p = { "" };

	if (option_change(x->type->options, x->private, "throttle", option, value, &p))
		fail_msg("%s", p.text);
	x->type->reconfigure(x, option_find(x->type->options, option));
}

/* ---- players ---- */

static struct player *player_of(struct request *rq)
{
	for (unsigned i = 0; i < PLAYERS; i++)
		if (atomic_load(&player[i].rq) == rq)
			return &player[i];
	return NULL;
}

static void held(struct request *rq, bool on, bool crowded)
{
	struct player *p = player_of(rq);

	atomic_fetch_add(on ? &p->told_on : &p->told_off, 1);
	atomic_fetch_add(&p->told_crowded, crowded);
}

static int ask(struct player *p)
{
	struct inode *root = inode_get(tree.graph->inodes, &gfid_root, S_IFDIR);
	struct file file = { .inode = root };
	struct getattr_in getattr = { .inode = root };
	struct statfs_in statfs = { .inode = root };
	struct readdir_in readdir = { .file = &file, .size = p->size };
	struct flush_in flush = { .file = &file };
	struct replica_in replica = { 0 }; /* which nobody here knows: it is answered all the same */
	union {
		struct getattr_out getattr;
		struct statfs_out statfs;
		struct readdir_out readdir;
		struct flush_out flush;
		struct replica_out replica;
	} out;
	struct request rq;
	int err;

	memset(&out, 0, sizeof(out));
	request_init(&rq, tree.graph, 0);
	rq.root = p->root;
	rq.deadline_ns = p->deadline_ns;
	rq.held = held;
	rq.hurry = p->hurries;
	atomic_store(&p->rq, &rq);
	err = fop_call(&rq, tree.at, p->fop,
		       p->fop == FOP_getattr   ? (void *)&getattr
		       : p->fop == FOP_statfs  ? (void *)&statfs
		       : p->fop == FOP_readdir ? (void *)&readdir
		       : p->fop == FOP_replica ? (void *)&replica
					       : (void *)&flush,
		       &out);
	atomic_store(&p->rq, NULL);
	if (!err)
		fop_out_clear(p->fop, &out);
	request_finish(&rq);
	inode_unref(root);
	return err;
}

static void play(void *arg)
{
	struct player *p = arg;

	p->task = task_self();
	while (!p->stop && (!p->rounds || p->done + p->failed < p->rounds)) {
		int err = ask(p);

		p->last = err;
		atomic_fetch_add(err == -ECANCELED || err == -ETIMEDOUT ? &p->failed : &p->done, 1);
	}
	p->ended = true;
}

static struct player *start(uint32_t root, enum fop fop, unsigned rounds)
{
	struct player *p = &player[players++];

	assert_true(players <= PLAYERS);
	memset(p, 0, sizeof(*p));
	p->root = root;
	p->fop = fop;
	p->rounds = rounds;
	p->size = 100000;
	return p;
}

static void go(struct player *p)
{
	assert_int_equal(task_spawn(runtime_shard(players % runtime_shards()), play, p), 0);
}

static void flood(uint32_t root, unsigned count)
{
	while (count--)
		go(start(root, FOP_getattr, 0));
}

static unsigned done_by(uint32_t root)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < players; i++)
		sum += player[i].root == root ? player[i].done : 0;
	return sum;
}

static bool all_ended(void)
{
	for (unsigned i = 0; i < players; i++)
		if (!player[i].ended)
			return false;
	return true;
}

static void close_stack(void)
{
	for (unsigned i = 0; i < players; i++)
		player[i].stop = true;
	order("hold", "none");
	change("tenants", NO_LIMITS);
	order("release", "all");
	assert_true(EVENTUALLY(all_ended()));
	assert_int_equal(number_of("below"), 0);
	assert_int_equal(number_of("waiting"), 0);
	for (unsigned i = 0; i < players; i++)
		assert_int_equal(player[i].told_on, player[i].told_off);
	tree_close(&tree);
}

/* All wait, but for one below; that one is let go. */
static void let_one_go(unsigned waiting)
{
	assert_true(EVENTUALLY(number_of("waiting") == waiting && parked() == 1));
	order("release", "1");
}

/* ---- shares ---- */

static void parts_are_given_by_weight(void **state)
{
	double a, g, apart = 0;

	(void)state;
	open_stack("getattr", "1", "acme 65536 0 0 3, globex 131072");
	flood(ACME, 7);
	assert_true(EVENTUALLY(number_of("waiting") == 6 && parked() == 1));
	flood(GLOBEX, 24); /* many of them are no more than one */
	for (int i = 0; i < 400; i++)
		let_one_go(30);
	assert_true(EVENTUALLY(number_of("waiting") == 30 && parked() == 1));
	a = done_by(ACME), g = done_by(GLOBEX);
	apart = a / 3 - g;
	assert_true(apart < 2 && apart > -2);
	assert_int_equal(a + g, 400);
	assert_true(number_of("held_by_share") >= 399 && !number_of("held_by_limit"));
	change("tenants", "acme 65536, globex 131072 0 0 3"); /* live */
	for (int i = 0; i < 200; i++)
		let_one_go(30);
	assert_true(EVENTUALLY(number_of("waiting") == 30 && parked() == 1));
	apart = (done_by(GLOBEX) - g) / 3 - (done_by(ACME) - a);
	assert_true(apart < 3 && apart > -3);
	close_stack();
}

static void who_costs_more_gets_less_often(void **state)
{
	double a, g;

	(void)state;
	open_stack("getattr,readdir", "1", NO_LIMITS);
	flood(ACME, 4);
	for (int i = 0; i < 4; i++)
		go(start(GLOBEX, FOP_readdir, 0)); /* of 100000 bytes: 4 operations */
	for (int i = 0; i < 200; i++)
		let_one_go(7);
	assert_true(EVENTUALLY(number_of("waiting") == 7 && parked() == 1));
	a = done_by(ACME), g = done_by(GLOBEX);
	assert_true(a - 4 * g < 9 && a - 4 * g > -9);
	close_stack();
}

static void a_newcomer_need_not_wait_for_a_flood(void **state)
{
	struct player *p;

	(void)state;
	open_stack("getattr", "1", NO_LIMITS);
	flood(ACME, 40);
	for (int i = 0; i < 100; i++)
		let_one_go(39);
	assert_true(EVENTUALLY(number_of("waiting") == 39 && parked() == 1));
	go(p = start(GLOBEX, FOP_getattr, 1));
	let_one_go(40); /* that which was below */
	let_one_go(40); /* it */
	assert_true(EVENTUALLY(p->ended));
	close_stack();
}

/* What somebody has left to others while he wanted nothing is not owed to him. */
static void who_was_away_has_saved_nothing(void **state)
{
	double a, g;

	(void)state;
	open_stack("getattr", "1", NO_LIMITS);
	flood(ACME, 4);
	for (int i = 0; i < 100; i++)
		let_one_go(3);
	assert_true(EVENTUALLY(number_of("waiting") == 3 && parked() == 1));
	a = done_by(ACME);
	flood(GLOBEX, 4);
	for (int i = 0; i < 40; i++)
		let_one_go(7);
	assert_true(EVENTUALLY(number_of("waiting") == 7 && parked() == 1));
	a = done_by(ACME) - a, g = done_by(GLOBEX);
	assert_true(a - g < 3 && g - a < 3);
	close_stack();
}

/* One that nobody knows has the share of one. */
static void nothing_is_left_idle(void **state)
{
	(void)state;
	open_stack("getattr", "5", "acme 65536 0 0 1, globex 131072 0 0 1000");
	flood(ACME, 12);
	assert_true(EVENTUALLY(parked() == 5 && number_of("waiting") == 7));
	flood(NOBODY, 3);
	for (int i = 0; i < 200; i++) {
		order("release", i % 3 ? "1" : "2");
		assert_true(EVENTUALLY(parked() == 5 && number_of("waiting") == 10));
	}
	assert_true(done_by(NOBODY) > 50);
	change("at-once", "9");
	assert_true(EVENTUALLY(parked() == 9 && number_of("waiting") == 6));
	change("at-once", "2");
	order("release", "8");
	assert_true(EVENTUALLY(parked() == 2 && number_of("waiting") == 13));
	close_stack();
}

static void what_frees_and_what_is_the_providers_is_never_held_back(void **state)
{
	struct player *p[4];

	(void)state;
	open_stack("getattr", "1", "acme 65536 1 0 1");
	flood(ACME, 5);
	assert_true(EVENTUALLY(parked() == 1 && number_of("waiting") == 4));
	p[0] = start(ACME, FOP_flush, 50);
	p[1] = start(0, FOP_statfs, 50);
	p[2] = start(0, FOP_readdir, 50);
	p[3] = start(ACME, FOP_replica, 50);
	for (int i = 0; i < 4; i++)
		go(p[i]);
	for (int i = 0; i < 4; i++)
		assert_true(EVENTUALLY(p[i]->ended));
	assert_int_equal(p[0]->done + p[1]->done + p[2]->done + p[3]->done, 200);
	close_stack();
}

/* ---- giving up ---- */

static void who_gives_up_leaves_the_queue_undone(void **state)
{
	struct player *late, *cancelled, *hurried;

	(void)state;
	open_stack("getattr", "1", NO_LIMITS);
	flood(ACME, 2);
	assert_true(EVENTUALLY(parked() == 1 && number_of("waiting") == 1));
	late = start(GLOBEX, FOP_getattr, 1);
	late->deadline_ns = clock_ns() + 1000000;
	go(late);
	assert_true(EVENTUALLY(late->ended));
	assert_int_equal(late->last, -ETIMEDOUT);
	go(cancelled = start(GLOBEX, FOP_getattr, 1));
	assert_true(EVENTUALLY(number_of("waiting") == 2));
	task_cancel(cancelled->task);
	assert_true(EVENTUALLY(cancelled->ended));
	assert_int_equal(cancelled->last, -ECANCELED);
	assert_int_equal(number_of("waiting"), 1);
	hurried = start(GLOBEX, FOP_getattr, 1);
	go(hurried);
	assert_true(EVENTUALLY(hurried->told_on == 1));
	atomic_store(&hurried->rq->hurry, true);
	task_wake(hurried->task);
	assert_true(EVENTUALLY(parked() == 2 && number_of("waiting") == 1));
	hurried = start(GLOBEX, FOP_getattr, 1);
	hurried->hurries = true; /* since before it came */
	go(hurried);
	assert_true(EVENTUALLY(parked() == 3 && number_of("waiting") == 1));
	order("release", "all");
	close_stack();
}

/* ---- limits ---- */

static void a_limit_holds_its_tenant_and_nobody_else(void **state)
{
	uint64_t begin = clock_ns();
	unsigned done;

	(void)state;
	open_stack("none", "4", "acme 65536 50, globex 131072");
	flood(ACME, 8);
	for (int i = 0; i < 4; i++)
		go(start(GLOBEX, FOP_getattr, 500));
	assert_true(EVENTUALLY(done_by(GLOBEX) == 2000));
	assert_true(EVENTUALLY(done_by(ACME) > 60)); /* it goes on */
	done = done_by(ACME);
	assert_true(done <= 50 * ((double)(clock_ns() - begin) / SECOND + 1) + 1);
	assert_true(number_of("held_by_limit") > 0 && number_of("held_by_limit_ns") > 0);
	close_stack();
}

/* The first asks for so much that the bucket needs more than a day. */
static void wait_for_long(void)
{
	struct player *first = start(ACME, FOP_readdir, 1);

	first->size = UINT32_MAX;
	go(first);
	assert_true(EVENTUALLY(first->ended));
	for (int i = 0; i < 10; i++)
		go(start(ACME, FOP_getattr, 1));
	assert_true(EVENTUALLY(number_of("waiting") == 10));
}

static void a_limit_can_be_lifted_and_set_while_they_wait(void **state)
{
	(void)state;
	open_stack("none", "4", "acme 65536 1");
	wait_for_long();
	change("tenants", "acme 65536 100 x"); /* makes no sense: nothing changes */
	assert_int_equal(number_of("ops"), 1);
	assert_int_equal(number_of("waiting"), 10);
	change("tenants", "acme 65536 0 100000");
	assert_true(EVENTUALLY(all_ended()));
	assert_int_equal(done_by(ACME), 11);
	change("tenants", "acme 65536 1");
	wait_for_long();
	change("tenants", ""); /* it is gone from the table */
	assert_true(EVENTUALLY(all_ended()));
	close_stack();
}

static void a_table_with_one_user_id_twice_changes_nothing(void **state)
{
	(void)state;
	open_stack("none", "4", "acme 65536 1");
	wait_for_long();
	change("tenants", "acme 65536 1, globex 65536"); /* one row more */
	assert_int_equal(number_of("waiting"), 10);
	change("tenants", "globex 65536"); /* the same user id, another name and limit, in its place */
	assert_true(EVENTUALLY(all_ended()));
	close_stack();
}

/* Of one operation in a second more than five wait: the sixth is told to be of a crowd. */
static unsigned told_crowded(void)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < players; i++)
		sum += player[i].told_crowded;
	return sum;
}

static void a_crowd_is_told(void **state)
{
	(void)state;
	open_stack("none", "4", "acme 65536 1");
	for (int i = 0; i < 10; i++)
		go(start(ACME, FOP_getattr, 1));
	assert_true(EVENTUALLY(number_of("waiting") >= 7));
	assert_true(EVENTUALLY(told_crowded() >= 2)); /* the sixth, the seventh */
	assert_true(told_crowded() <= 5);
	close_stack();
}

/* ---- all at once ---- */

static void a_storm_ends(void **state)
{
	static const enum fop fops[] = { FOP_getattr, FOP_statfs, FOP_flush, FOP_readdir };
	static const char *const tables[] = { NO_LIMITS, "acme 65536 300 0 7, globex 131072 100000",
					      "globex 131072 500 65536 2", "acme 65536 1000000 0 1000" };

	(void)state;
	open_stack("none", "3", NO_LIMITS);
	for (int i = 0; i < 24; i++)
		go(start(i % 3 == 0 ? ACME : i % 3 == 1 ? GLOBEX : NOBODY, fops[next_random() % 4], 0));
	for (int i = 0; i < 300; i++) {
		struct player *p = &player[next_random() % players];

		if (i % 10 == 0)
			change("tenants", tables[next_random() % 4]);
		if (i % 10 == 5)
			change("at-once", next_random() % 2 ? "1" : "8");
		if (p->task)
			task_cancel(p->task);
		usleep(200);
	}
	for (unsigned i = 0; i < players; i++)
		assert_true(EVENTUALLY(player[i].done + player[i].failed > 0));
	close_stack();
}

/* ---- words ---- */

static void tables_that_make_no_sense_are_refused(void **state)
{
	static const char *const wrong[] = { "acme",
					     "acme 0",
					     "acme 65536 -1",
					     "acme 65536 0 0 0",
					     "acme 65536 0 0 1001",
					     "acme 65536 0 65535",
					     "acme 65536 0 0 1 1",
					     "acme 4294967296",
					     "acme 65536, globex 65536",
					     "acme 65536 1x",
					     "acme 65536 99999999999999999999" };
	char text[2048];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct problem p = { "" };
		struct tree t;

		snprintf(text, sizeof(text), GRAPH, "none", "1", wrong[i]);
		if (!tree_open(&t, text, &p))
			fail_msg("\"%s\" is taken", wrong[i]);
		if (!strstr(p.text, "option tenants: "))
			fail_msg("\"%s\": %s", wrong[i], p.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bucket_gives_its_rate_and_one_burst),
		cmocka_unit_test(what_is_owed_and_given_back_has_bounds),
		cmocka_unit_test(parts_are_given_by_weight),
		cmocka_unit_test(who_costs_more_gets_less_often),
		cmocka_unit_test(a_newcomer_need_not_wait_for_a_flood),
		cmocka_unit_test(who_was_away_has_saved_nothing),
		cmocka_unit_test(nothing_is_left_idle),
		cmocka_unit_test(what_frees_and_what_is_the_providers_is_never_held_back),
		cmocka_unit_test(who_gives_up_leaves_the_queue_undone),
		cmocka_unit_test(a_limit_holds_its_tenant_and_nobody_else),
		cmocka_unit_test(a_limit_can_be_lifted_and_set_while_they_wait),
		cmocka_unit_test(a_table_with_one_user_id_twice_changes_nothing),
		cmocka_unit_test(a_crowd_is_told),
		cmocka_unit_test(a_storm_ends),
		cmocka_unit_test(tables_that_make_no_sense_are_refused),
	};
	const char *text = getenv("TEST_SEED");

	seed = text ? (unsigned)strtoul(text, NULL, 10) : (unsigned)time(NULL);
	printf("TEST_SEED=%u\n", seed);
	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
