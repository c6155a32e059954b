/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/afr: who holds a lock hears that it may be lost when those that gave it up could be a view, and not before; and what goes to a member that is
 * being healed, too. */
#include "afr-test.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "dht/place.h"

struct tree tree;
struct client client = { .id = { 1 }, .incarnation = 1, .name = "test", .refs = 1 };
int failures, members;
static int back = -1; /* a member that is BACK */
static bool arbiter;  /* the last is one */
struct xlator *member[MOST], *hold[MOST], *locks[MOST];
struct file *file;

/* ---- who is above ---- */

static atomic_int told;
atomic_int disbelieved;

static void witness_notify(struct xlator *x, struct xlator *from, const struct event *e)
{
	(void)x;
	(void)from;
	if (e->kind == EVENT_LOCK_LOST && e->lock.owner == OWNER)
		atomic_fetch_add(&told, 1);
	if (e->kind == EVENT_DISBELIEVE)
		atomic_fetch_add(&disbelieved, 1);
}

static const struct xlator_type witness_type = { .name = "witness", .notify = witness_notify };
static struct xlator witness = { .type = &witness_type, .name = "witness" }, *witnesses[] = { &witness };

/* ---- the set ---- */

static const char *most = "2h"; /* that anything waits */

static struct xlator **own_parents;

static void set_open(int count)
{
	struct problem p = { "" };
	char text[2048], name[16], *at = text;

	members = count;
	atomic_store(&told, 0);
	for (int i = 0; i < count; i++)
		at += sprintf(
			at,
			"volume leaf%d\ntype debug/memory\nend-volume\n"
			"volume locks%d\ntype features/locks\nsubvolumes leaf%d\nend-volume\n"
			"volume hold%d\ntype debug/hold\nsubvolumes locks%d\nend-volume\n"
			"volume member%d\ntype test/member\noption members %d\noption back %d\nsubvolumes hold%d\nend-volume\n",
			i, i, i, i, i, i, count, back, i);
	/* What a test keeps at a member is kept until it lets it go, however slow the machine is. */
	sprintf(at,
		"volume set\ntype cluster/afr\noption member-timeout 1h\noption max-wait %s\noption arbiter %s\nsubvolumes member0 member1 %s\nend-volume\n",
		most, arbiter ? "on" : "off", count == 3 ? "member2" : "");
	if (tree_open(&tree, text, &p))
		fail_msg("%s", p.text);
	tree.client = &client;
	for (int i = 0; i < count; i++) {
		sprintf(name, "member%d", i);
		member[i] = tree_find(&tree, name);
		sprintf(name, "locks%d", i);
		locks[i] = tree_find(&tree, name);
		sprintf(name, "hold%d", i);
		hold[i] = tree_find(&tree, name);
		event_up(member[i], &(struct event){ .kind = EVENT_CHILD_UP });
	}
	own_parents = tree.graph->top->parent;
	tree.graph->top->parent = witnesses;
	tree.graph->top->parents = 1;
}

static void set_close(void)
{
	tree.graph->top->parent = own_parents;
	tree.graph->top->parents = 0;
	tree_close(&tree);
}

struct lock lock_of(uint32_t type, uint64_t owner)
{
	return (struct lock){ .kind = LOCK_POSIX, .type = type, .start = 10, .end = 19, .owner = owner };
}

int lock(struct xlator *at, struct file *through, struct lock l)
{
	struct setlk_in in = { .file = through, .lock = l };
	struct setlk_out out = { 0 };

	return tree_call(&tree, at, FOP_setlk, &in, &out);
}

static void give_up(int i, uint64_t owner)
{
	event_up(member[i], &(struct event){ .kind = EVENT_LOCK_LOST, .inode = file->inode, .lock = lock_of(F_WRLCK, owner) });
}

/* The same file at each member: changes by way of cluster/afr would need tokens. */
int make_named(const char *name)
{
	cleanup_inode struct inode *root = inode_get(tree.graph->inodes, &gfid_root, S_IFDIR);
	struct create_in in = { .loc = { .parent = root, .name = name }, .flags = O_RDWR, .mode = 0644 };
	int err = 0;

	gfid_create(&in.gfid);
	for (int i = 0; i < members && !err; i++) {
		struct create_out out = { 0 };

		err = tree_call(&tree, locks[i], FOP_create, &in, &out);
		if (!err) {
			struct release_in release = { .file = out.file };
			struct release_out released = { 0 };

			tree_call(&tree, locks[i], FOP_release, &release, &released);
		}
		fop_out_clear(FOP_create, &out);
	}
	return err;
}

int make_unopened(void)
{
	return make_named("f");
}

int make_file(void)
{
	int err = make_unopened();

	return err ? err : tree_open_file(&tree, "f", O_RDWR, &file);
}

/* ---- what holds ---- */

static void told_when_a_majority_gave_it_up(void *arg)
{
	(void)arg;
	CHECK_INT(make_file(), 0);
	CHECK_INT(lock(tree.at, file, lock_of(F_WRLCK, OWNER)), 0);
	give_up(0, OWNER);
	give_up(0, OWNER);
	give_up(1, STRANGER);
	CHECK_INT(told, 0);
	give_up(2, OWNER);
	CHECK_INT(told, 1);
	/* Taken anew, all have it. */
	CHECK_INT(lock(tree.at, file, lock_of(F_UNLCK, OWNER)), 0);
	give_up(1, OWNER);
	CHECK_INT(lock(tree.at, file, lock_of(F_WRLCK, OWNER)), 0);
	give_up(1, OWNER);
	CHECK_INT(told, 1);
	give_up(0, OWNER);
	CHECK_INT(told, 2);
	tree_release(&tree, file);
}

static void told_when_one_of_two_gave_it_up(void *arg)
{
	(void)arg;
	CHECK_INT(make_file(), 0);
	CHECK_INT(lock(tree.at, file, lock_of(F_WRLCK, OWNER)), 0);
	give_up(1, OWNER);
	CHECK_INT(told, 1);
	tree_release(&tree, file);
}

static uint64_t room_at(struct xlator *at)
{
	cleanup_inode struct inode *root = inode_get(tree.graph->inodes, &gfid_root, S_IFDIR);
	struct statfs_in in = { .inode = root };
	struct statfs_out out = { 0 };

	return tree_call(&tree, at, FOP_statfs, &in, &out) ? 0 : out.statfs.bavail;
}

static void fill(struct xlator *at, uint64_t size)
{
	struct open_in open = { .inode = file->inode, .flags = O_RDWR };
	struct open_out opened = { 0 };
	struct write_in write = { .offset = size };
	struct write_out written = { 0 };

	CHECK_INT(tree_call(&tree, at, FOP_open, &open, &opened), 0);
	write.file = opened.file;
	write.data = buffer_create(1 << 20);
	CHECK_INT(tree_call(&tree, at, FOP_write, &write, &written), 0);
	buffer_unref(write.data);
	fop_out_clear(FOP_open, &opened);
}

/* Whichever is read. */
static void statfs_is_that_of_the_fullest(void *arg)
{
	(void)arg;
	CHECK_INT(make_file(), 0);
	for (int i = 0; i < members; i++) {
		for (int k = 0; k <= i; k++)
			fill(locks[i], (uint64_t)k << 20);
		CHECK_INT(room_at(tree.at) && room_at(tree.at) == room_at(locks[i]), true);
		CHECK_INT(i && room_at(locks[i]) == room_at(locks[i - 1]), false);
	}
	tree_release(&tree, file);
}

struct taker {
	int result;
};

static void take(void *arg)
{
	struct taker *t = arg;
	struct lock l = lock_of(F_WRLCK, OWNER);

	l.wait = 1;
	t->result = lock(tree.at, file, l);
}

/* The first members have given it, the last lets it wait: what is lost meanwhile is told once it is there. */
static void told_of_what_was_lost_while_it_was_taken(void *arg)
{
	struct taker t = { 1 };
	struct open_in open = { .flags = O_RDWR };
	struct open_out opened = { 0 };

	(void)arg;
	CHECK_INT(make_file(), 0);
	open.inode = file->inode;
	CHECK_INT(tree_call(&tree, locks[2], FOP_open, &open, &opened), 0);
	CHECK_INT(lock(locks[2], opened.file, lock_of(F_WRLCK, STRANGER)), 0);
	CHECK_INT(task_spawn(NULL, take, &t), 0);
	while (lock(locks[1], opened.file, lock_of(F_WRLCK, STRANGER)) != -EAGAIN) /* until it is taken there */
		lock(locks[1], opened.file, lock_of(F_UNLCK, STRANGER)), task_sleep_ms(1);
	give_up(0, OWNER);
	CHECK_INT(t.result, 1);
	CHECK_INT(lock(locks[2], opened.file, lock_of(F_UNLCK, STRANGER)), 0);
	while (t.result == 1)
		task_sleep_ms(1);
	CHECK_INT(t.result, 0);
	CHECK_INT(told, 1);
	fop_out_clear(FOP_open, &opened);
	tree_release(&tree, file);
}

void on_set(int count, task_fn *fn)
{
	set_open(count);
	assert_int_equal(task_call(fn, NULL), 0);
	set_close();
	assert_int_equal(failures, 0);
}

void on_set_with_arbiter(task_fn *fn)
{
	arbiter = true;
	on_set(3, fn);
	arbiter = false;
}

void say(struct xlator *to, char *word, char *more)
{
	char *words[] = { word, more };
	FILE *f = fopen("/dev/null", "w");

	to->type->command(to, 2, words, f);
	fclose(f);
}

void all_say(char *word, char *more)
{
	for (int i = 0; i < members; i++)
		say(member[i], word, more);
}

void view_number(char *number)
{
	all_say("views", number);
	for (int i = 0; i < members; i++)
		event_up(member[i], &(struct event){ .kind = EVENT_VIEW });
}

void next_view(void)
{
	view_number("1");
}

bool parked_at(int i)
{
	char *words[] = { "list" }, *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	bool any;

	hold[i]->type->command(hold[i], 1, words, f);
	fclose(f);
	any = strstr(text, "parked: ");
	free(text);
	return any;
}

/* The last member lets it wait, and leaves the view: who is left gives it. */
static void taken_when_a_member_has_left(void *arg)
{
	struct taker t = { 1 };
	struct open_in open = { .flags = O_RDWR };
	struct open_out opened = { 0 };

	(void)arg;
	CHECK_INT(make_file(), 0);
	open.inode = file->inode;
	CHECK_INT(tree_call(&tree, locks[2], FOP_open, &open, &opened), 0);
	CHECK_INT(lock(locks[2], opened.file, lock_of(F_WRLCK, STRANGER)), 0);
	CHECK_INT(task_spawn(NULL, take, &t), 0);
	while (lock(locks[1], opened.file, lock_of(F_WRLCK, STRANGER)) != -EAGAIN) /* until it is taken there */
		lock(locks[1], opened.file, lock_of(F_UNLCK, STRANGER)), task_sleep_ms(1);
	CHECK_INT(t.result, 1);
	all_say("out", "2");
	next_view();
	while (t.result == 1)
		task_sleep_ms(1);
	CHECK_INT(t.result, 0);
	CHECK_INT(lock(locks[2], opened.file, lock_of(F_UNLCK, STRANGER)), 0);
	fop_out_clear(FOP_open, &opened);
	tree_release(&tree, file);
}

/* ---- members whose disks fail ---- */

static unsigned reports(void)
{
	char *text = NULL;
	unsigned count;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	tree.at->type->dump(tree.at, f);
	fclose(f);
	count = (unsigned)atoi(strstr(text, "members reported: ") + strlen("members reported: "));
	free(text);
	return count;
}

/* fn ends with the view without that member, for which it asks. */
static void is_done_without(char *ill, char *view, task_fn *fn)
{
	struct taker t = { 1 };
	unsigned before = reports();

	CHECK_INT(task_spawn(NULL, fn, &t), 0);
	while (reports() == before && t.result == 1)
		task_sleep_ms(1);
	all_say("out", ill);
	view_number(view);
	while (t.result == 1)
		task_sleep_ms(1);
	CHECK_INT(t.result, 0);
	CHECK_INT(reports() > before, true);
}

static int lock_of_stranger(int i, struct file *through)
{
	int err = lock(locks[i], through, lock_of(F_WRLCK, STRANGER));

	return err ? err : lock(locks[i], through, lock_of(F_UNLCK, STRANGER));
}

static void give_back(void *arg)
{
	struct taker *t = arg;

	t->result = lock(tree.at, file, lock_of(F_UNLCK, OWNER));
}

/* The first, which decides, or another. Then one fails that has it, as it is given back. */
static void done_without(char *ill)
{
	struct open_in open = { .flags = O_RDWR };
	struct open_out opened = { 0 };

	CHECK_INT(make_file(), 0);
	open.inode = file->inode;
	CHECK_INT(tree_call(&tree, locks[1], FOP_open, &open, &opened), 0);
	say(member[atoi(ill)], "ill", "1");
	is_done_without(ill, "1", take);
	CHECK_INT(lock_of_stranger(1, opened.file), -EAGAIN);
	all_say("out", "-1");
	view_number("2");
	is_done_without(ill, "3", give_back);
	CHECK_INT(lock_of_stranger(1, opened.file), 0);
	fop_out_clear(FOP_open, &opened);
	tree_release(&tree, file);
}

static void done_without_the_first(void *arg)
{
	(void)arg;
	done_without("0");
}

static void done_without_the_last(void *arg)
{
	(void)arg;
	done_without("2");
}

static void refused_where_all_fail(void *arg)
{
	(void)arg;
	CHECK_INT(make_file(), 0);
	all_say("ill", "1");
	CHECK_INT(lock(tree.at, file, lock_of(F_WRLCK, OWNER)), -EIO);
	CHECK_INT(reports(), 0);
	all_say("ill", "0");
	CHECK_INT(lock(tree.at, file, lock_of(F_WRLCK, OWNER)), 0);
	tree_release(&tree, file);
}

static void a_lock_is_taken_and_given_back_without_a_member_whose_disk_fails(void **state)
{
	(void)state;
	on_set(3, done_without_the_first);
	on_set(3, done_without_the_last);
}

static void where_all_disks_fail_no_member_is_to_blame(void **state)
{
	(void)state;
	on_set(3, refused_where_all_fail);
	on_set(2, refused_where_all_fail);
}

static void a_lock_is_lost_when_those_that_gave_it_up_could_be_a_view(void **state)
{
	(void)state;
	on_set(3, told_when_a_majority_gave_it_up);
	on_set(2, told_when_one_of_two_gave_it_up);
}

static void a_set_has_the_room_of_its_fullest_member(void **state)
{
	(void)state;
	on_set(3, statfs_is_that_of_the_fullest);
}

static void a_loss_while_a_lock_is_taken_is_told(void **state)
{
	(void)state;
	on_set(3, told_of_what_was_lost_while_it_was_taken);
}

static void who_waits_for_a_lock_at_a_member_that_leaves_gets_it_from_the_others(void **state)
{
	(void)state;
	on_set(3, taken_when_a_member_has_left);
}

/* ---- a member that is BACK ---- */

unsigned counted_at(int i, const char *what)
{
	char *text = NULL;
	unsigned count;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	member[i]->type->dump(member[i], f);
	fclose(f);
	count = (unsigned)atoi(strstr(text, what) + strlen(what));
	free(text);
	return count;
}

static int look_at(int i, const char *name)
{
	cleanup_inode struct inode *root = inode_get(tree.graph->inodes, &gfid_root, S_IFDIR);
	struct lookup_in in = { .loc = { .parent = root, .name = name } };
	struct lookup_out out = { 0 };
	int err = tree_call(&tree, locks[i], FOP_lookup, &in, &out);

	fop_out_clear(FOP_lookup, &out);
	return err;
}

/* It becomes IN as it is: so it gets every change, and what is to be durable is so there, too. */
static void goes_to_back(void *arg)
{
	struct fsync_out out = { 0 };

	(void)arg;
	CHECK_INT(make_file(), 0);
	CHECK_INT(tree_mkdir(&tree, "d", 0755), 0);
	for (int i = 0; i < members; i++)
		CHECK_INT(look_at(i, "d"), 0);
	CHECK_INT(tree_call(&tree, tree.at, FOP_fsync, &(struct fsync_in){ .file = file }, &out), 0);
	for (int i = 0; i < members; i++)
		CHECK_INT(counted_at(i, "fsyncs: "), 1);
	tree_release(&tree, file);
}

static void who_is_healed_gets_every_change_and_sync(void **state)
{
	(void)state;
	back = 2;
	on_set(3, goes_to_back);
	back = -1;
}

static atomic_int synced; /* 1: not yet; else how it ended */

static void sync_it(void *arg)
{
	struct fsync_out out = { 0 };

	(void)arg;
	atomic_store(&synced, tree_call(&tree, tree.at, FOP_fsync, &(struct fsync_in){ .file = file }, &out));
}

static void loses_once(void *arg)
{
	(void)arg;
	CHECK_INT(make_file(), 0);
	atomic_store(&synced, 1);
	say(member[0], "lost", "1");
	CHECK_INT(task_spawn(NULL, sync_it, NULL), 0);
	while (counted_at(0, "fsyncs: ") < 4 && atomic_load(&synced) == 1)
		task_sleep_ms(1);
	CHECK_INT(synced, 1);
	CHECK_INT(reports() > 0, true);
	next_view();
	while (atomic_load(&synced) == 1)
		task_sleep_ms(1);
	CHECK_INT(synced, 0);
	tree_release(&tree, file);
}

/* The kernel tells it once, and the member of whom it is true would belong to the view yet. */
static void what_a_disk_has_lost_is_not_synced_in_that_view(void **state)
{
	(void)state;
	on_set(3, loses_once);
}

/* ---- what a name stands for ---- */

static int unlink_expected(const char *name, const struct gfid *expected)
{
	cleanup_inode struct inode *root = inode_get(tree.graph->inodes, &gfid_root, S_IFDIR);
	struct unlink_in in = { .loc = { .parent = root, .name = name } };
	struct unlink_out out = { 0 };
	struct request rq;
	int err;

	request_init(&rq, tree.graph, 0);
	rq.client = &client;
	err = place_attach(&rq, &(struct place){ .expected = { *expected } });
	if (!err)
		err = fop_call(&rq, tree.at, FOP_unlink, &in, &out);
	request_finish(&rq);
	return err;
}

/* Who was slower than another finds that all members have something else there: nothing was done, and others need not wait until that is recovered. */
static void stands_for_another(void *arg)
{
	struct gfid other;

	(void)arg;
	gfid_create(&other);
	CHECK_INT(make_file(), 0);
	for (int i = 0; i < members; i++)
		say(member[i], "another", "1");
	CHECK_INT(unlink_expected("f", &other), -ESTALE);
	for (int i = 0; i < members; i++)
		CHECK_INT(counted_at(i, "failed: "), 0);
	tree_release(&tree, file);
}

static void what_all_refuse_for_another_has_the_name_is_not_recovered(void **state)
{
	(void)state;
	on_set(3, stands_for_another);
}

/* ---- what is being recovered ---- */

static int64_t size_at(int i)
{
	struct getattr_in in = { .inode = file->inode };
	struct getattr_out out = { 0 };
	int err = tree_call(&tree, locks[i], FOP_getattr, &in, &out);

	return err ? err : (int64_t)out.attr.size;
}

/* When a view begins each member says so for a moment. To write, all are asked at once; that is no reason to tell the program, who may truncate it, too. */
static void opens_what_all_recover(void *arg)
{
	(void)arg;
	CHECK_INT(make_unopened(), 0);
	all_say("recovering", "1");
	CHECK_INT(tree_open_file(&tree, "f", O_RDWR, &file), 0);
	CHECK_INT(tree_write(&tree, file, 0, "data", 4), 0);
	tree_release(&tree, file);
	all_say("recovering", "3");
	CHECK_INT(tree_open_file(&tree, "f", O_WRONLY | O_TRUNC, &file), 0);
	for (int i = 0; i < members; i++)
		CHECK_INT(size_at(i), 0);
	tree_release(&tree, file);
}

static void opening_to_write_waits_where_all_members_recover(void **state)
{
	(void)state;
	on_set(3, opens_what_all_recover);
	on_set(2, opens_what_all_recover);
	on_set_with_arbiter(opens_what_all_recover);
}

/* ---- what would wait for ever ---- */

static void on_set_of_the_impatient(task_fn *fn)
{
	most = "1s";
	on_set(3, fn);
	most = "2h";
}

static void waits_for_a_lock_of_what_nobody_knows(void *arg)
{
	struct lock l = lock_of(F_WRLCK, OWNER);

	(void)arg;
	l.wait = 1;
	CHECK_INT(make_file(), 0);
	all_say("unknowing", "1");
	CHECK_INT(lock(tree.at, file, l), -ESTALE);
	all_say("unknowing", "0");
	CHECK_INT(lock(tree.at, file, l), 0);
	tree_release(&tree, file);
}

static void who_waits_for_a_lock_of_a_file_that_is_gone_is_told(void **state)
{
	(void)state;
	on_set_of_the_impatient(waits_for_a_lock_of_what_nobody_knows);
}

/* As after a register was restored from a copy, and all bricks begun anew. */
static void meets_an_older_view(void *arg)
{
	(void)arg;
	view_number("3");
	CHECK_INT(tree_mkdir(&tree, "before", 0755), 0);
	all_say("views", "1");
	all_say("refuses", "1");
	CHECK_INT(tree_mkdir(&tree, "d", 0755), -EIO);
	all_say("refuses", "0");
	all_say("views", "4");
	CHECK_INT(tree_mkdir(&tree, "d", 0755), 0);
}

static void an_older_view_is_not_asked_for_for_ever(void **state)
{
	(void)state;
	on_set_of_the_impatient(meets_an_older_view);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lock_is_lost_when_those_that_gave_it_up_could_be_a_view),
		cmocka_unit_test(a_set_has_the_room_of_its_fullest_member),
		cmocka_unit_test(a_loss_while_a_lock_is_taken_is_told),
		cmocka_unit_test(who_waits_for_a_lock_at_a_member_that_leaves_gets_it_from_the_others),
		cmocka_unit_test(a_lock_is_taken_and_given_back_without_a_member_whose_disk_fails),
		cmocka_unit_test(where_all_disks_fail_no_member_is_to_blame),
		cmocka_unit_test(who_is_healed_gets_every_change_and_sync),
		cmocka_unit_test(what_a_disk_has_lost_is_not_synced_in_that_view),
		cmocka_unit_test(what_all_refuse_for_another_has_the_name_is_not_recovered),
		cmocka_unit_test(opening_to_write_waits_where_all_members_recover),
		cmocka_unit_test(who_waits_for_a_lock_of_a_file_that_is_gone_is_told),
		cmocka_unit_test(an_older_view_is_not_asked_for_for_ever),
	};
	int failed = cmocka_run_group_tests(tests, tasks_start, tasks_stop);

	failed += _cmocka_run_group_tests("changes", changes, changes_count, tasks_start, tasks_stop);
	failed += _cmocka_run_group_tests("earlier", earlier_tests, earlier_tests_count, tasks_start, tasks_stop);
	failed += _cmocka_run_group_tests("brought", brought_tests, brought_tests_count, tasks_start, tasks_stop);
	failed += _cmocka_run_group_tests("owner", owner_tests, owner_tests_count, tasks_start, tasks_stop);
	failed += _cmocka_run_group_tests("silent", silent_tests, silent_tests_count, tasks_start, tasks_stop);
	return failed + _cmocka_run_group_tests("held", held_tests, held_tests_count, tasks_start, tasks_stop);
}
