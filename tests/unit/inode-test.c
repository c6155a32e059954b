/* SPDX-License-Identifier: Apache-2.0 */
/* The inode table: one inode for a gfid, references, idle ones, and slots whose destructors run exactly once. */
#include "test.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "xlator.h"

static atomic_int forgotten;

static void forget(struct xlator *x, struct inode *i, void *slot)
{
	(void)x, (void)i;
	forgotten++;
	free(slot);
}

static const struct xlator_type type = { .name = "test/test", .forget_inode = forget };
static struct xlator owner = { .type = &type }, other = { .type = &type };

static bool
	signals_come; /* while the kernel gives random bytes: more than 256 at once are cut, and now and then it gives none */
static int calls;

/* The C library's, for all that is in this process. */
__attribute__((visibility("default"))) ssize_t getrandom(void *to, size_t size, unsigned flags)
{
	if (signals_come && ++calls % 3 == 1) {
		errno = EINTR;
		return -1;
	}
	return syscall(SYS_getrandom, to, signals_come && size > 256 ? 256 : size, flags);
}

static void a_signal_keeps_nobody_from_getting_a_gfid(void **state)
{
	enum { MANY = 200 };
	struct gfid g[MANY];

	(void)state;
	signals_come = true;
	for (int i = 0; i < MANY; i++) {
		gfid_create(&g[i]);
		for (int k = 0; k < i; k++)
			assert_false(gfid_equal(&g[i], &g[k]));
	}
	signals_come = false;
	assert_true(calls > 0);
}

static void a_gfid_has_one_inode(void **state)
{
	struct inode_table *t = inode_table_create();
	struct gfid g;
	struct inode *a, *b;

	(void)state;
	gfid_create(&g);
	a = inode_get(t, &g, S_IFREG | 0644);
	b = inode_get(t, &g, S_IFREG);
	assert_ptr_equal(a, b);
	assert_null(inode_get(t, &g, S_IFDIR)); /* a peer that lies about the type */
	inode_unref(a);
	inode_unref(b);
	assert_null(inode_find(t, &g));
	inode_table_destroy(t);
}

/* Else who has only the gfid would keep the others, who know what it is, from it. */
static void who_has_only_the_gfid_says_no_type(void **state)
{
	struct inode_table *t = inode_table_create();
	struct gfid g;
	struct inode *a, *b;

	(void)state;
	gfid_create(&g);
	a = inode_get(t, &g, 0);
	assert_int_equal(a->type, 0);
	b = inode_get(t, &g, S_IFLNK | 0777);
	assert_ptr_equal(a, b);
	assert_int_equal(a->type, S_IFLNK);
	assert_null(inode_get(t, &g, S_IFREG));
	inode_unref(b);
	b = inode_get(t, &g, 0);
	assert_ptr_equal(a, b);
	assert_int_equal(a->type, S_IFLNK);
	inode_unref(a);
	inode_unref(b);
	inode_table_destroy(t);
}

/* In a process of its own, which ends by the assertion. Returns what it has logged. */
static void leak(const struct gfid *g, char *log, size_t size)
{
	int ends[2], status;
	size_t n = 0;
	ssize_t got;

	assert_int_equal(pipe(ends), 0);
	if (!fork()) {
		struct inode_table *t = inode_table_create();
		struct inode *i = inode_get(t, g, S_IFREG);

		dup2(ends[1], STDERR_FILENO);
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
		signal(SIGABRT, SIG_DFL);
		file_create(inode_ref(i), 0);
		inode_table_destroy(t);
		_exit(0);
	}
	close(ends[1]);
	while (n < size - 1 && (got = read(ends[0], log + n, size - 1 - n)) > 0)
		n += (size_t)got;
	log[n] = 0;
	close(ends[0]);
	wait(&status);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void what_is_held_at_the_end_is_named(void **state)
{
	char log[8192], text[GFID_TEXT], want[128];
	struct gfid g;

	(void)state;
	gfid_create(&g);
	leak(&g, log, sizeof(log));
	snprintf(want, sizeof(want), "inode %s of type 100000 has 3 references", gfid_text(&g, text));
	assert_non_null(strstr(log, want));
	snprintf(want, sizeof(want), "of inode %s, has 1 references", text);
	assert_non_null(strstr(log, want));
}

static void idle_inodes_go_least_recently_used_first(void **state)
{
	struct inode_table *t = inode_table_create();
	struct gfid g[10];
	struct inode *i;

	(void)state;
	inode_table_keep(t, 3);
	for (int n = 0; n < 10; n++) {
		gfid_create(&g[n]);
		i = inode_get(t, &g[n], S_IFREG);
		assert_int_equal(inode_slot_set(i, &owner, malloc(1)), 0);
		inode_unref(i);
	}
	assert_int_equal(inode_table_count(t), 3);
	assert_int_equal(forgotten, 7);
	assert_null(inode_find(t, &g[6]));
	i = inode_find(t, &g[7]);
	assert_non_null(i);
	inode_unref(i);
	inode_table_destroy(t);
	assert_int_equal(forgotten, 10);
}

static void slots_belong_to_their_translator(void **state)
{
	struct inode_table *t = inode_table_create();
	struct gfid g;
	struct inode *i;
	void *mine = malloc(1), *theirs = malloc(1);

	(void)state;
	forgotten = 0;
	gfid_create(&g);
	i = inode_get(t, &g, S_IFREG);
	assert_int_equal(inode_slot_set(i, &owner, mine), 0);
	assert_int_equal(inode_slot_set(i, &other, theirs), 0);
	assert_int_equal(inode_slot_set(i, &owner, theirs), -EEXIST);
	assert_ptr_equal(inode_slot(i, &owner), mine);
	slots_purge(t, &owner);
	assert_int_equal(forgotten, 1);
	assert_null(inode_slot(i, &owner));
	assert_ptr_equal(inode_slot_take(i, &other), theirs);
	free(theirs);
	inode_unref(i);
	assert_int_equal(forgotten, 1);
	inode_table_destroy(t);
}

static struct inode_table *shared;
static struct gfid some[16];

static void *get_and_put(void *arg)
{
	(void)arg;
	for (int n = 0; n < 20000; n++) {
		struct inode *i = inode_get(shared, &some[n % 16], S_IFREG);

		if (!inode_slot(i, &owner)) {
			void *value = malloc(1);

			if (inode_slot_set(i, &owner, value))
				free(value);
		}
		inode_unref(i);
	}
	return NULL;
}

static void threads_agree_on_references(void **state)
{
	pthread_t thread[4];

	(void)state;
	shared = inode_table_create();
	for (int n = 0; n < 16; n++)
		gfid_create(&some[n]);
	for (int n = 0; n < 4; n++)
		assert_int_equal(pthread_create(&thread[n], NULL, get_and_put, NULL), 0);
	for (int n = 0; n < 4; n++)
		pthread_join(thread[n], NULL);
	assert_int_equal(inode_table_count(shared), 0);
	inode_table_destroy(shared);
}

/* ---- who leaves while a translator goes ---- */

static sem_t leaves, purges;
static atomic_int inodes_gone;
static void *inode_had; /* for the translator, when the file's destructor ended */

static void forget_slow_inode(struct xlator *x, struct inode *i, void *slot)
{
	(void)x, (void)i, (void)slot;
	atomic_fetch_add(&inodes_gone, 1);
}

/* It is in here when the translator is purged, and stays for as long as that would take. */
static void forget_slow_file(struct xlator *x, struct file *f, void *slot)
{
	struct timespec nap = { 0, 1000000 };

	(void)slot;
	sem_post(&leaves);
	sem_wait(&purges);
	for (int ms = 0; ms < 200 && !atomic_load(&inodes_gone); ms++)
		nanosleep(&nap, NULL);
	inode_had = inode_slot(f->inode, x);
}

static const struct xlator_type slow_type = { .name = "test/slow",
					      .forget_inode = forget_slow_inode,
					      .forget_file = forget_slow_file };
static struct xlator slow = { .type = &slow_type };

static void *let_go_of(void *file)
{
	file_unref(file);
	return NULL;
}

/* The destructor of a file's slot may look at the inode's. */
static void what_an_inode_keeps_outlives_files_that_are_let_go_of(void **state)
{
	struct inode_table *t = inode_table_create();
	struct gfid g;
	struct inode *i;
	struct file *f;
	pthread_t thread;
	int kept = 0, open = 0;

	(void)state;
	sem_init(&leaves, 0, 0);
	sem_init(&purges, 0, 0);
	gfid_create(&g);
	i = inode_get(t, &g, S_IFREG);
	f = file_create(i, 0);
	assert_int_equal(inode_slot_set(i, &slow, &kept), 0);
	assert_int_equal(file_slot_set(f, &slow, &open), 0);
	assert_int_equal(pthread_create(&thread, NULL, let_go_of, f), 0);
	sem_wait(&leaves);
	sem_post(&purges);
	slots_purge(t, &slow);
	pthread_join(thread, NULL);
	assert_ptr_equal(inode_had, &kept);
	assert_int_equal(atomic_load(&inodes_gone), 1);
	assert_null(inode_slot(i, &slow));
	inode_unref(i);
	inode_table_destroy(t);
}

static void gfids_print_and_parse(void **state)
{
	struct gfid g, back;
	char text[GFID_TEXT];

	(void)state;
	gfid_create(&g);
	assert_int_equal(gfid_parse(gfid_text(&g, text), &back), 0);
	assert_true(gfid_equal(&g, &back));
	assert_int_equal(gfid_ino(&gfid_root), 1);
	assert_int_equal(gfid_parse("00000000-0000-0000-0000-00000000000", &back), -EINVAL);
	assert_int_equal(gfid_parse("00000000-0000-0000-0000-0000000000011", &back), -EINVAL);
	assert_int_equal(gfid_parse("0000000g-0000-0000-0000-000000000001", &back), -EINVAL);
}

/* ---- gfids that were chosen ---- */

enum { CHOSEN = 64, PLACES = 1024 };
static const uint64_t nothing[2], another[2] = { 1, 2 };

static int in_one_place(const struct gfid g[CHOSEN])
{
	int count[PLACES] = { 0 }, most = 0;

	for (int n = 0; n < CHOSEN; n++)
		if (++count[gfid_hash(&g[n]) % PLACES] > most)
			most = count[gfid_hash(&g[n]) % PLACES];
	return most;
}

/* What CPython 3.11 says with PYTHONHASHSEED=0: hash(bytes(range(16))). */
static void gfids_are_hashed_by_siphash_1_3(void **state)
{
	struct gfid g;

	(void)state;
	for (int i = 0; i < 16; i++)
		g.bytes[i] = (uint8_t)i;
	gfid_hash_key(nothing);
	assert_true(gfid_hash(&g) == 0x8972188433a5c5b7);
}

static void who_knows_one_key_makes_no_chains_under_another(void **state)
{
	struct gfid g[CHOSEN];

	(void)state;
	gfid_hash_key(nothing);
	for (int n = 0; n < CHOSEN; n++)
		do
			gfid_create(&g[n]);
		while (gfid_hash(&g[n]) % PLACES);
	assert_int_equal(in_one_place(g), CHOSEN);
	gfid_hash_key(another);
	assert_in_range(in_one_place(g), 1, 8);
}

/* Only the last eight bytes were hashed once. */
static void gfids_that_end_alike_are_not_in_one_place(void **state)
{
	struct gfid g[CHOSEN] = { 0 };

	(void)state;
	for (int n = 0; n < CHOSEN; n++)
		g[n].bytes[0] = (uint8_t)n;
	assert_in_range(in_one_place(g), 1, 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_signal_keeps_nobody_from_getting_a_gfid),
		cmocka_unit_test(a_gfid_has_one_inode),
		cmocka_unit_test(who_has_only_the_gfid_says_no_type),
		cmocka_unit_test(what_is_held_at_the_end_is_named),
		cmocka_unit_test(idle_inodes_go_least_recently_used_first),
		cmocka_unit_test(slots_belong_to_their_translator),
		cmocka_unit_test(threads_agree_on_references),
		cmocka_unit_test(what_an_inode_keeps_outlives_files_that_are_let_go_of),
		cmocka_unit_test(gfids_print_and_parse),
		cmocka_unit_test(gfids_that_end_alike_are_not_in_one_place), /* under this process's own key */
		cmocka_unit_test(gfids_are_hashed_by_siphash_1_3),
		cmocka_unit_test(who_knows_one_key_makes_no_chains_under_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
