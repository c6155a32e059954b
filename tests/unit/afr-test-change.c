/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/afr: what is read of a change that is under way; that its token is kept until it has ended; and that what was lost in one view may be there in another.
 * Each of these tests fails with one of the mutants (tests/sim/mutants.seeds) that the simulator needs luck to find. */
#include "afr-test-doing.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "dht/place.h"
#include "replica.h"

/* ---- what is under way ---- */

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

/* One of two names of the file, which is said to stand for it. */
static void unlink_one(void *arg)
{
	cleanup_inode struct inode *root = inode_get(tree.graph->inodes, &gfid_root, S_IFDIR);
	struct unlink_in in = { .loc = { .parent = root, .name = "f" } };
	struct place place = { .expected = { file->inode->gfid } };
	struct unlink_out out = { 0 };
	struct doing *d = arg;
	struct request rq;

	request_init(&rq, tree.graph, 0);
	rq.client = &client;
	d->err = place_attach(&rq, &place);
	d->err = d->err ? d->err : unlink_on(&rq, tree.at, &in, &out);
	request_finish(&rq);
	atomic_store(&d->done, true);
}

static void count_names(void *arg)
{
	struct getattr_in in = { .inode = file->inode };
	struct getattr_out out = { 0 };
	struct doing *d = arg;

	d->err = tree_call(&tree, tree.at, FOP_getattr, &in, &out);
	atomic_store(&d->done, true);
}

static bool is_gone_at(int i)
{
	struct getattr_in in = { .inode = file->inode };
	struct getattr_out out = { 0 };

	return !tree_call(&tree, locks[i], FOP_getattr, &in, &out) && out.attr.nlink == 1;
}

static int link_everywhere(void)
{
	int err = 0;

	for (int i = 0; i < members && !err; i++) {
		tree.at = locks[i];
		err = tree_link(&tree, "f", "g");
	}
	tree.at = tree.graph->top;
	return err;
}

static void counts_what_is_under_way(void *arg)
{
	struct doing unlinks = { .err = 1 }, counts = { .err = 1 };
	unsigned before;

	(void)arg;
	CHECK_INT(make_file(), 0);
	CHECK_INT(link_everywhere(), 0);
	say(hold[1], "hold", "unlink");
	say(hold[2], "hold", "unlink");
	task_spawn(NULL, unlink_one, &unlinks);
	while (!is_gone_at(0))
		task_sleep_ms(1);
	before = sum_of("getattrs: ");
	task_spawn(NULL, count_names, &counts);
	await("getattrs: ", before + 1);
	task_sleep_ms(100); /* as above */
	CHECK_INT(atomic_load(&counts.done), false);
	for (int i = 1; i < members; i++) {
		say(hold[i], "hold", "none");
		say(hold[i], "release", "all");
	}
	while (!atomic_load(&unlinks.done) || !atomic_load(&counts.done))
		task_sleep_ms(1);
	CHECK_INT(unlinks.err, 0);
	CHECK_INT(counts.err, 0);
	tree_release(&tree, file);
}

static void how_many_names_there_are_is_told_when_an_unlink_has_been_done(void **state)
{
	(void)state;
	on_set(3, counts_what_is_under_way);
}

/* Longer than what write_data() writes. */
static void write_over(void *arg)
{
	struct doing *d = arg;

	d->err = tree_write(&tree, file, 0, "the rest", 8);
	atomic_store(&d->done, true);
}

/* The first is done at one member, and not yet at the others. If the second were sent now, it could come there before the first. */
static void waits_for_its_own(void *arg)
{
	struct doing first = { .err = 1 }, second = { .err = 1 };

	(void)arg;
	CHECK_INT(make_file(), 0);
	say(hold[1], "hold", "write");
	say(hold[2], "hold", "write");
	task_spawn(NULL, write_data, &first);
	while (!is_written_at(0))
		task_sleep_ms(1);
	task_spawn(NULL, write_over, &second);
	for (int i = 0; i < 200 && is_written_at(0); i++) /* without a reason to wait it would be there by now */
		task_sleep_ms(1);
	CHECK_INT(is_written_at(0), true);
	for (int i = 1; i < members; i++) {
		say(hold[i], "hold", "none");
		say(hold[i], "release", "all");
	}
	while (!atomic_load(&first.done) || !atomic_load(&second.done))
		task_sleep_ms(1);
	CHECK_INT(first.err, 0);
	CHECK_INT(second.err, 0);
	for (int i = 0; i < members; i++)
		CHECK_INT(is_written_at(i), false);
	tree_release(&tree, file);
}

static void two_changes_of_the_same_bytes_are_sent_one_after_the_other(void **state)
{
	(void)state;
	on_set(3, waits_for_its_own);
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

static uint64_t soon_ns;

static void write_soon(void *arg)
{
	struct doing *d = arg;
	cleanup_buffer struct buffer *data = buffer_from("data", 4);
	struct write_in in = { .file = file, .data = data };
	struct write_out out = { 0 };
	struct request rq;

	request_init(&rq, tree.graph, 0);
	rq.client = &client;
	rq.deadline_ns = clock_ns() + soon_ns;
	d->err = fop_call(&rq, tree.at, FOP_write, &in, &out);
	request_finish(&rq);
	atomic_store(&d->done, true);
}

/* It was given up, and a member that may do it yet does not know that: what another client changes under the token could come before it there. */
static void gives_nothing_back_yet(void *arg)
{
	struct event wanted = { .kind = EVENT_RECALL };
	bool sent = false;

	(void)arg;
	CHECK_INT(make_file(), 0);
	event_set_gfid(&wanted, &file->inode->gfid);
	say(member[1], "deaf", "1");
	say(hold[1], "hold", "write");
	for (soon_ns = 100000000; !sent; soon_ns *= 2) { /* not before it is there, however slow the machine is */
		struct doing writes = { .err = 1 };

		task_spawn(NULL, write_soon, &writes);
		while (!atomic_load(&writes.done)) {
			sent |= parked_at(1);
			task_sleep_ms(1);
		}
		CHECK_INT(writes.err == 0, false);
	}
	for (int i = 0; i < members; i++)
		event_up(member[i], &wanted);
	task_sleep_ms(200); /* without a reason to wait it would have gone back by now */
	CHECK_INT(sum_of("releases: "), 0);
	say(member[1], "deaf", "0");
	while (!sum_of("releases: "))
		task_sleep_ms(1);
	say(hold[1], "hold", "none");
	say(hold[1], "release", "all");
	tree_release(&tree, file);
}

static void a_token_is_kept_until_all_know_what_has_failed(void **state)
{
	(void)state;
	on_set(3, gives_nothing_back_yet);
}

/* In another view somebody else may have it: the members know nothing of who had it before. Who went on with it would change what others do, who waited for it in vain would never be done:
 * it must be asked for, and that takes no time. */
static void asks_for_it_anew(void *arg)
{
	struct doing writes = { .err = 1 };
	unsigned acquired;

	(void)arg;
	CHECK_INT(make_file(), 0);
	CHECK_INT(tree_write(&tree, file, 0, "data", 4), 0);
	acquired = sum_of("acquires: ");
	next_view();
	soon_ns = 10000000000; /* then it fails, and says so here */
	write_soon(&writes);
	CHECK_INT(writes.err, 0);
	CHECK_INT(sum_of("acquires: "), acquired + 1);
	tree_release(&tree, file);
}

static void a_token_of_an_earlier_view_is_asked_for_anew(void **state)
{
	(void)state;
	on_set(3, asks_for_it_anew);
}

/* Not before it is changed: what is asked for by who reads only is kept to read. */
static void shares_its_token(void *arg)
{
	struct event wanted = { .kind = EVENT_RECALL, .lock.owner = RECALL_TO_SHARE };
	unsigned acquired;
	int before;

	(void)arg;
	CHECK_INT(make_file(), 0);
	CHECK_INT(tree_write(&tree, file, 0, "data", 4), 0);
	acquired = sum_of("acquires: ");
	CHECK_INT(tree_write(&tree, file, 0, "more", 4), 0);
	CHECK_INT(sum_of("acquires: "), acquired);
	event_set_gfid(&wanted, &file->inode->gfid);
	event_up(member[0], &wanted);
	await("lowers: ", 1);
	CHECK_INT(sum_of("releases: "), 0);
	before = atomic_load(&disbelieved);
	CHECK_INT(tree_write(&tree, file, 0, "data", 4), 0);
	CHECK_INT(atomic_load(&disbelieved), before + 1); /* others may have changed it before it was granted */
	CHECK_INT(sum_of("acquires: "), acquired + 1);
	CHECK_INT(tree_write(&tree, file, 0, "more", 4), 0);
	CHECK_INT(sum_of("acquires: "), acquired + 1);
	tree_release(&tree, file);
}

static void a_token_that_others_read_under_is_asked_for_to_change(void **state)
{
	(void)state;
	on_set(3, shares_its_token);
}

struct making {
	int err;
	struct file *made;
	atomic_bool done;
};

static void make_aside(void *arg)
{
	struct making *m = arg;

	m->err = tree_create(&tree, "new", O_RDWR, 0644, &m->made);
	atomic_store(&m->done, true);
}

/* So often what is made is asked for when it is written, where "f" was asked back while it was made. */
static void make_while_asked_back(uint64_t how, unsigned asked)
{
	struct event wanted = { .kind = EVENT_RECALL, .lock.owner = how };
	struct making making = { .err = 1 };
	unsigned before;

	CHECK_INT(make_file(), 0);
	all_say("grants", "1");
	event_set_gfid(&wanted, &file->inode->gfid);
	say(hold[2], "hold", "create");
	task_spawn(NULL, make_aside, &making);
	while (!parked_at(2))
		task_sleep_ms(1);
	event_up(member[0], &wanted);
	say(hold[2], "hold", "none");
	say(hold[2], "release", "all");
	while (!atomic_load(&making.done))
		task_sleep_ms(1);
	CHECK_INT(making.err, 0);
	before = sum_of("acquires: ");
	CHECK_INT(tree_write(&tree, making.made, 0, "data", 4), 0);
	CHECK_INT(sum_of("acquires: "), before + asked);
	tree_release(&tree, making.made);
	tree_release(&tree, file);
}

/* It may have been that one's. */
static void asked_back(void *arg)
{
	(void)arg;
	make_while_asked_back(0, 1);
}

static void asked_to_share(void *arg)
{
	(void)arg;
	make_while_asked_back(RECALL_TO_SHARE, 0);
}

static void what_is_made_comes_with_its_token_though_another_is_to_be_shared(void **state)
{
	(void)state;
	on_set(3, asked_back);
	on_set(3, asked_to_share);
}

/* ---- near a limit (T11 in doc/tenants.md) ---- */

#define TEXT_OF(number)	   TEXT_OF_IT(number)
#define TEXT_OF_IT(number) #number

/* One member has done it, another says that the first is to decide, and the first is not ready. When it is it refuses: if nobody but the first were asked once more that would look as if nothing had been
 * done anywhere, and the client be told so, while one member has it. */
static void asks_all_again(void *arg)
{
	struct doing writes = { .err = 1 };

	(void)arg;
	CHECK_INT(make_file(), 0);
	say(member[0], "refuses", "1");
	say(member[2], "limit", TEXT_OF(EASKFIRST));
	task_spawn(NULL, write_data, &writes);
	await("refused: ", 1);
	while (!is_written_at(1))
		task_sleep_ms(1);
	say(member[0], "limit", TEXT_OF(EOVERLIMIT));
	say(member[0], "refuses", "0");
	while (!sum_of("failed: ") && !atomic_load(&writes.done))
		task_sleep_ms(1);
	CHECK_INT(atomic_load(&writes.done), false); /* the object is recovered first */
	say(member[0], "limit", "0");
	say(member[2], "limit", "0");
	next_view();
	while (!atomic_load(&writes.done))
		task_sleep_ms(1);
	CHECK_INT(writes.err, 0);
	for (int i = 0; i < members; i++)
		CHECK_INT(is_written_at(i), true);
	tree_release(&tree, file);
}

static void write_to(struct doing *d)
{
	*d = (struct doing){ .err = 1 };
	write_data(d);
}

static char *number_of(int err)
{
	static char text[12];

	snprintf(text, sizeof(text), "%d", err);
	return text;
}

/* Whoever may write to a full set could hold it up, with a view for each write. */
static void has_no_room(void *arg)
{
	struct doing writes;

	(void)arg;
	CHECK_INT(make_file(), 0);
	all_say("limit", number_of(ENOROOM));
	write_to(&writes);
	CHECK_INT(writes.err, -ENOSPC);
	CHECK_INT(sum_of("failed: "), 0);
	all_say("limit", TEXT_OF(ENOSPC));
	write_to(&writes);
	CHECK_INT(writes.err, -ENOSPC);
	CHECK_INT(sum_of("failed: ") > 0, true); /* each may have taken more or less of it */
	all_say("limit", "0");
	next_view();
	write_to(&writes);
	CHECK_INT(writes.err, 0);
	tree_release(&tree, file);
}

static void what_none_had_room_for_and_none_has_begun_is_not_recovered(void **state)
{
	(void)state;
	on_set(3, has_no_room);
}

/* Whoever writes durably what all have lost could have a view made with each write. */
static void can_not_sync(void *arg)
{
	struct doing writes;

	(void)arg;
	CHECK_INT(make_file(), 0);
	file->flags |= O_DSYNC;
	all_say("limit", number_of(EUNSYNCED));
	write_to(&writes);
	CHECK_INT(writes.err, -EIO);
	CHECK_INT(sum_of("failed: "), 0);
	all_say("limit", "0");
	all_say("lost", "1");
	write_to(&writes);
	CHECK_INT(writes.err, -EIO);
	CHECK_INT(sum_of("failed: "), 0);
	write_to(&writes);
	CHECK_INT(writes.err, 0);
	tree_release(&tree, file);
}

static void what_none_can_sync_any_more_and_none_has_begun_is_not_recovered(void **state)
{
	(void)state;
	on_set(3, can_not_sync);
}

static uint64_t size_at(int i)
{
	struct getattr_in in = { .inode = file->inode };
	struct getattr_out out = { 0 };

	return tree_call(&tree, locks[i], FOP_getattr, &in, &out) ? 0 : out.attr.size;
}

static void write_more(void *arg)
{
	struct doing *d = arg;

	d->err = tree_write(&tree, file, 4, "more", 4);
	atomic_store(&d->done, true);
}

/* The first such write others have done. */
static void one_can_not_sync(void *arg)
{
	struct doing first = { .err = 1 }, more = { .err = 1 };

	(void)arg;
	CHECK_INT(make_file(), 0);
	file->flags |= O_DSYNC;
	say(member[1], "limit", number_of(EUNSYNCED));
	task_spawn(NULL, write_data, &first);
	while (!is_written_at(0) || !is_written_at(2))
		task_sleep_ms(1);
	CHECK_INT(atomic_load(&first.done), false);
	say(member[1], "limit", "0");
	next_view();
	while (!atomic_load(&first.done))
		task_sleep_ms(1);
	CHECK_INT(first.err, 0);
	CHECK_INT(sum_of("fsyncs: "), 0);
	say(member[1], "lost", "1");
	task_spawn(NULL, write_more, &more);
	while (sum_of("fsyncs: ") < (unsigned)members && !atomic_load(&more.done))
		task_sleep_ms(1);
	CHECK_INT(atomic_load(&more.done), false); /* until the member has left */
	for (int i = 0; i < members; i++)
		CHECK_INT(size_at(i), 4);
	view_number("2");
	while (!atomic_load(&more.done))
		task_sleep_ms(1);
	CHECK_INT(more.err, 0);
	for (int i = 0; i < members; i++)
		CHECK_INT(size_at(i), 8);
	tree_release(&tree, file);
}

static void what_one_could_not_sync_is_synced_before_it_is_written_durably_again(void **state)
{
	(void)state;
	on_set(3, one_can_not_sync);
}

static void what_the_first_refuses_and_another_has_done_is_not_told_to_be_refused(void **state)
{
	(void)state;
	on_set(3, asks_all_again);
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

/* A file that has lost its last name while it was open, and a member that has come back since, which never got it. What is copied from it to another file is not done there: if nobody told the member so, it
 * would be IN with the target as it was. */
static void copies_what_one_lacks(void *arg)
{
	struct copy_range_out out = { 0 };
	struct copy_range_in in = { .length = 4 };
	struct file *to = NULL;

	(void)arg;
	all_say("back", "2");
	next_view();
	CHECK_INT(make_named("g"), 0);
	CHECK_INT(make_unopened(), 0);
	CHECK_INT(unlink_at(2), 0);
	CHECK_INT(tree_open_file(&tree, "f", O_RDWR, &file), 0);
	CHECK_INT(tree_open_file(&tree, "g", O_RDWR, &to), 0);
	all_say("nameless", "1");
	in.from = file;
	in.to = to;
	CHECK_INT(tree_call(&tree, tree.at, FOP_copy_range, &in, &out), 0);
	CHECK_INT(counted_at(2, "skips: "), 1);
	all_say("nameless", "0");
	tree_release(&tree, to);
	tree_release(&tree, file);
}

static void what_a_member_could_not_copy_is_pending_there(void **state)
{
	(void)state;
	on_set(3, copies_what_one_lacks);
}

const struct CMUnitTest changes[] = {
	cmocka_unit_test(what_is_under_way_is_read_when_it_has_been_done),
	cmocka_unit_test(what_is_read_of_a_change_that_is_sent_anew_is_read_anew),
	cmocka_unit_test(how_many_names_there_are_is_told_when_an_unlink_has_been_done),
	cmocka_unit_test(two_changes_of_the_same_bytes_are_sent_one_after_the_other),
	cmocka_unit_test(a_token_is_kept_until_all_have_answered),
	cmocka_unit_test(a_token_is_kept_until_all_know_what_has_failed),
	cmocka_unit_test(a_token_of_an_earlier_view_is_asked_for_anew),
	cmocka_unit_test(a_token_that_others_read_under_is_asked_for_to_change),
	cmocka_unit_test(what_is_made_comes_with_its_token_though_another_is_to_be_shared),
	cmocka_unit_test(what_none_had_room_for_and_none_has_begun_is_not_recovered),
	cmocka_unit_test(what_none_can_sync_any_more_and_none_has_begun_is_not_recovered),
	cmocka_unit_test(what_one_could_not_sync_is_synced_before_it_is_written_durably_again),
	cmocka_unit_test(what_the_first_refuses_and_another_has_done_is_not_told_to_be_refused),
	cmocka_unit_test(what_was_lost_in_one_view_is_changed_in_the_next),
	cmocka_unit_test(what_a_member_could_not_copy_is_pending_there),
};
const unsigned changes_count = sizeof(changes) / sizeof(changes[0]);
