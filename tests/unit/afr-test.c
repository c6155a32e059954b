/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/afr: who holds a lock hears that it may be lost when those that gave it up could be a view, and not before; what goes to a member that is
 * being healed, too; what is read of a change that is under way; that a token is kept until it has ended; and that what was lost in one view may be there in another. */
#include "test-tasks.h"
#include "test.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "replica.h"
#include "tree.h"

enum { MOST = 3, OWNER = 7, STRANGER = 8 };
static struct tree tree;
static struct client client = { .id = { 1 }, .incarnation = 1, .name = "test", .refs = 1 };
static int failures, members, back = -1; /* a member that is BACK */
static struct xlator *member[MOST], *hold[MOST], *locks[MOST];
static struct file *file;

/* ---- who is above ---- */

static atomic_int told;

static void witness_notify(struct xlator *x, struct xlator *from, const struct event *e)
{
	(void)x;
	(void)from;
	if (e->kind == EVENT_LOCK_LOST && e->lock.owner == OWNER)
		atomic_fetch_add(&told, 1);
}

static const struct xlator_type witness_type = { .name = "witness", .notify = witness_notify };
static struct xlator witness = { .type = &witness_type, .name = "witness" }, *witnesses[] = { &witness };

/* ---- the set ---- */

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
	sprintf(at, "volume set\ntype cluster/afr\nsubvolumes member0 member1 %s\nend-volume\n", count == 3 ? "member2" : "");
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

static struct lock lock_of(uint32_t type, uint64_t owner)
{
	return (struct lock){ .kind = LOCK_POSIX, .type = type, .start = 10, .end = 19, .owner = owner };
}

static int lock(struct xlator *at, struct file *through, struct lock l)
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
static int make_unopened(void)
{
	cleanup_inode struct inode *root = inode_get(tree.graph->inodes, &gfid_root, S_IFDIR);
	struct create_in in = { .loc = { .parent = root, .name = "f" }, .flags = O_RDWR, .mode = 0644 };
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

static int make_file(void)
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

static void on_set(int count, task_fn *fn)
{
	set_open(count);
	assert_int_equal(task_call(fn, NULL), 0);
	set_close();
	assert_int_equal(failures, 0);
}

static void a_lock_is_lost_when_those_that_gave_it_up_could_be_a_view(void **state)
{
	(void)state;
	on_set(3, told_when_a_majority_gave_it_up);
	on_set(2, told_when_one_of_two_gave_it_up);
}

static void a_loss_while_a_lock_is_taken_is_told(void **state)
{
	(void)state;
	on_set(3, told_of_what_was_lost_while_it_was_taken);
}

/* ---- a member that is BACK ---- */

static unsigned counted_at(int i, const char *what)
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

/* ---- what is under way ---- */

struct doing {
	int err;
	atomic_bool done;
};

static void write_data(void *arg)
{
	struct doing *d = arg;

	d->err = tree_write(&tree, file, 0, "data", 4);
	atomic_store(&d->done, true);
}

static void read_data(void *arg)
{
	struct doing *d = arg;
	struct buffer *data = NULL;

	d->err = tree_read(&tree, file, 0, 4, &data);
	buffer_unref(data);
	atomic_store(&d->done, true);
}

static void say(struct xlator *to, char *word, char *more)
{
	char *words[] = { word, more };
	FILE *f = fopen("/dev/null", "w");

	to->type->command(to, 2, words, f);
	fclose(f);
}

static bool is_written_at(int i)
{
	struct getattr_in in = { .inode = file->inode };
	struct getattr_out out = { 0 };

	return !tree_call(&tree, locks[i], FOP_getattr, &in, &out) && out.attr.size == 4;
}

static unsigned sum_of(const char *what)
{
	unsigned sum = 0;

	for (int i = 0; i < members; i++)
		sum += counted_at(i, what);
	return sum;
}

static void await(const char *what, unsigned count)
{
	while (sum_of(what) < count)
		task_sleep_ms(1);
}

/* One member has it, the others not yet: if they never get it, nobody may have read it. */
static void reads_what_is_under_way(void *arg)
{
	struct doing writes = { .err = 1 }, reads = { .err = 1 };

	(void)arg;
	CHECK_INT(make_file(), 0);
	for (int i = 0; i < members; i++)
		CHECK_INT(counted_at(i, "reads: "), 0);
	say(hold[1], "hold", "write");
	say(hold[2], "hold", "write");
	task_spawn(NULL, write_data, &writes);
	while (!is_written_at(0))
		task_sleep_ms(1);
	task_spawn(NULL, read_data, &reads);
	await("reads: ", 1);
	task_sleep_ms(100); /* a member has answered it: without a reason to wait it would be done by now */
	CHECK_INT(atomic_load(&reads.done), false);
	CHECK_INT(atomic_load(&writes.done), false);
	for (int i = 1; i < members; i++) {
		say(hold[i], "hold", "none");
		say(hold[i], "release", "all");
	}
	while (!atomic_load(&writes.done) || !atomic_load(&reads.done))
		task_sleep_ms(1);
	CHECK_INT(writes.err, 0);
	CHECK_INT(reads.err, 0);
	tree_release(&tree, file);
}

static void all_say(char *word, char *more)
{
	for (int i = 0; i < members; i++)
		say(member[i], word, more);
}

static void next_view(void)
{
	all_say("views", "1");
	for (int i = 0; i < members; i++)
		event_up(member[i], &(struct event){ .kind = EVENT_VIEW });
}

/* There is another view before the others have it, in which it was not done, and others may do something before it is done again: who has read it, and waits
 * for it, must ask anew. */
static void reads_what_is_undone(void *arg)
{
	struct doing writes = { .err = 1 }, reads = { .err = 1 };

	(void)arg;
	CHECK_INT(make_file(), 0);
	say(hold[1], "hold", "write");
	say(hold[2], "hold", "write");
	task_spawn(NULL, write_data, &writes);
	while (!is_written_at(0))
		task_sleep_ms(1);
	task_spawn(NULL, read_data, &reads);
	await("reads: ", 1);
	for (int i = 1; i < members; i++) {
		say(member[i], "refuses", "1");
		say(hold[i], "hold", "none");
	}
	next_view();
	for (int i = 1; i < members; i++)
		say(hold[i], "release", "all");
	await("refused: ", 2);
	for (int i = 1; i < members; i++)
		say(member[i], "refuses", "0");
	while (!atomic_load(&writes.done) || !atomic_load(&reads.done))
		task_sleep_ms(1);
	CHECK_INT(writes.err, 0);
	CHECK_INT(reads.err, 0);
	CHECK_INT(sum_of("reads: ") > 1, true);
	tree_release(&tree, file);
}

static void what_is_read_of_a_change_that_is_sent_anew_is_read_anew(void **state)
{
	(void)state;
	on_set(3, reads_what_is_undone);
}

static void what_is_under_way_is_read_when_it_has_been_done(void **state)
{
	(void)state;
	on_set(3, reads_what_is_under_way);
}

/* ---- tokens ---- */

/* One member does not take it yet, so it is sent again and again; meanwhile another client wants the token. If it got it now, what it changes would come before
 * this at one member, and after it at the others. */
static void keeps_its_token(void *arg)
{
	struct doing writes = { .err = 1 };
	struct event wanted = { .kind = EVENT_RECALL };

	(void)arg;
	CHECK_INT(make_file(), 0);
	event_set_gfid(&wanted, &file->inode->gfid);
	say(member[2], "refuses", "1");
	task_spawn(NULL, write_data, &writes);
	await("refused: ", 1);
	for (int i = 0; i < members; i++)
		event_up(member[i], &wanted);
	await("refused: ", sum_of("refused: ") + 3);
	CHECK_INT(sum_of("releases: "), 0);
	say(member[2], "refuses", "0");
	while (!atomic_load(&writes.done))
		task_sleep_ms(1);
	CHECK_INT(writes.err, 0);
	while (!sum_of("releases: "))
		task_sleep_ms(1);
	tree_release(&tree, file);
}

static void a_token_is_kept_until_all_have_answered(void **state)
{
	(void)state;
	on_set(3, keeps_its_token);
}

/* ---- what is lost ---- */

/* One that nobody has asked for the file. */
static int stranger_to_file(void)
{
	for (int i = 0; i < members; i++)
		if (!counted_at(i, "lookups: "))
			return i;
	return -1;
}

static int unlink_at(int i)
{
	int err;

	tree.at = locks[i];
	err = tree_unlink(&tree, "f");
	tree.at = tree.graph->top;
	return err;
}

static int make_anew_at(int i, const struct gfid *gfid)
{
	cleanup_inode struct inode *root = inode_get(tree.graph->inodes, &gfid_root, S_IFDIR);
	struct mknod_in in = { .loc = { .parent = root, .name = "f" }, .mode = S_IFREG | 0644, .gfid = *gfid };
	struct mknod_out out = { 0 };
	int err = tree_call(&tree, locks[i], FOP_mknod, &in, &out);

	fop_out_clear(FOP_mknod, &out);
	return err;
}

static int change_mode(uint32_t mode)
{
	return tree_setattr(&tree, "f", &(struct setattr){ .valid = SET_MODE, .mode = mode });
}

static uint32_t mode_at(int i, struct inode *inode)
{
	struct getattr_in in = { .inode = inode };
	struct getattr_out out = { 0 };

	return tree_call(&tree, locks[i], FOP_getattr, &in, &out) ? 0 : out.attr.mode & 0777;
}

/* Its name goes everywhere, and at one member so does the file, which gets no changes from then on. Then the power takes that back there: in the next view it is
 * a file like others, and what is acknowledged is done there, too. */
static void has_it_again(void *arg)
{
	cleanup_inode struct inode *inode = NULL;
	int other;

	(void)arg;
	CHECK_INT(make_unopened(), 0);
	CHECK_INT(tree_walk(&tree, "f", &inode), 0);
	other = stranger_to_file();
	CHECK_INT(other >= 0, true);
	CHECK_INT(unlink_at(other), 0);
	all_say("nameless", "1");
	CHECK_INT(change_mode(0600), 0);
	CHECK_INT(make_anew_at(other, &inode->gfid), 0);
	CHECK_INT(change_mode(0620), 0);
	CHECK_INT(mode_at(other, inode), 0644);
	all_say("nameless", "0");
	next_view();
	CHECK_INT(change_mode(0640), 0);
	for (int i = 0; i < members; i++)
		CHECK_INT(mode_at(i, inode), 0640);
}

static void what_was_lost_in_one_view_is_changed_in_the_next(void **state)
{
	(void)state;
	on_set(3, has_it_again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lock_is_lost_when_those_that_gave_it_up_could_be_a_view),
		cmocka_unit_test(a_loss_while_a_lock_is_taken_is_told),
		cmocka_unit_test(who_is_healed_gets_every_change_and_sync),
		cmocka_unit_test(what_is_under_way_is_read_when_it_has_been_done),
		cmocka_unit_test(what_is_read_of_a_change_that_is_sent_anew_is_read_anew),
		cmocka_unit_test(a_token_is_kept_until_all_have_answered),
		cmocka_unit_test(what_was_lost_in_one_view_is_changed_in_the_next),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
