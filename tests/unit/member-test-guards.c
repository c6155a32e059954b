/* SPDX-License-Identifier: Apache-2.0 */
/* features/replica: what a member must refuse, remember and tell, one by one. Each of these tests fails with one of the mutants (tests/sim/mutants.seeds)
 * that the simulator needs luck to find. */
#include "member-test.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "test-check.h"

enum { SOON_MS = 5, TRIES = 2000 };

/* ---- leases, generations ---- */

/* A view without a lease as yet; then one that had ended when it came. */
static void ended_lease_(void *arg)
{
	struct lease_call late = { .clock = clock_ns() - 2000000000, .lease_ns = 1000000000, .writable = true };
	cleanup_file struct file *file = NULL;
	struct pack p = { 0 };

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	CHECK_INT(look(), 0);
	CHECK_INT(freeze(), 0);
	pack_view(&p, &view);
	pack_u32(&p, 0);
	CHECK_INT(tell(REPLICA_ACTIVATE, view.epoch, &p, NULL), 0);
	late.epoch = view.epoch;
	pack_lease_call(&p, &late);
	CHECK_INT(tell(REPLICA_LEASE, view.epoch, &p, NULL), 0);
	CHECK_INT(look(), -EVIEW);
}

static void nothing_is_read_without_a_lease(void **state)
{
	(void)state;
	on(ON_MEMORY, ended_lease_);
}

static void back_(void *arg)
{
	cleanup_file struct file *file = NULL;
	struct lease_reply r;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	CHECK_INT(come_back(&gfid_root), 0);
	CHECK_INT(look(), -EVIEW);
	generation = 7;
	CHECK_INT(lease(&r), 0);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.generation, 7);
}

static void who_is_healed_is_not_read_but_begins_generations(void **state)
{
	(void)state;
	on(ON_MEMORY, back_);
}

/* Is it in the list of what changed after that generation? */
bool is_listed(const struct gfid *g, uint64_t above)
{
	struct blob answer = { 0 };
	struct pack p = { 0 };
	struct unpack u;
	bool found = false;

	pack_u64(&p, above);
	pack_u64(&p, 0);
	if (tell(REPLICA_INDEX, view.epoch, &p, &answer))
		return false;
	u = unpack_blob(&answer);
	unpack_u8(&u);
	unpack_u64(&u);
	while (unpack_more(&u)) {
		struct gfid one = unpack_gfid(&u);

		unpack_u32(&u);
		found |= gfid_equal(&one, g);
	}
	free(answer.bytes);
	return found;
}

static void unsettled_(void *arg)
{
	cleanup_file struct file *file = NULL, *other = NULL;
	struct lease_reply r;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("other", &other), 0);
	CHECK_INT(settle(sequence), 0);
	CHECK_INT(make("f", &file), 0);
	CHECK_INT(lease(&r), 0);
	generation = r.generation + 1;
	CHECK_INT(lease(&r), 0);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.generation, generation);
	CHECK_INT(is_listed(&file->inode->gfid, generation - 1), true);
	CHECK_INT(is_listed(&other->inode->gfid, generation - 1), false);
}

static void what_is_not_settled_counts_in_the_next_generation_too(void **state)
{
	(void)state;
	on(ON_MEMORY, unsettled_);
}

static void started_anew_(void *arg)
{
	cleanup_file struct file *file = NULL;
	struct gfid g;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	g = file->inode->gfid;
	file_unref(file);
	file = NULL;
	CHECK_INT(reopen(), 0);
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(is_listed(&g, 0), true);
}

static void what_changed_is_listed_by_a_process_that_is_started_anew(void **state)
{
	(void)state;
	on(ON_MEMORY, started_anew_);
}

static uint64_t synced_now(void)
{
	struct lease_reply r = { 0 };

	return lease(&r) ? 0 : r.synced;
}

/* It has synced its disk; then it is found to differ, and started anew before it was healed. */
static void distrusted_(void *arg)
{
	struct pack p = { 0 };

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	for (int i = 0; i < TRIES && !synced_now(); i++) {
		generation++;
		task_sleep_ms(SOON_MS);
	}
	CHECK_INT(synced_now() > 0, true);
	CHECK_INT(reopen(), 0);
	CHECK_INT(synced_now() > 0, true);
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(freeze(), 0);
	CHECK_INT(tell(REPLICA_DISTRUST, view.epoch, &p, NULL), 0);
	CHECK_INT(reopen(), 0);
	CHECK_INT(synced_now(), 0);
}

static void who_is_found_to_differ_has_synced_nothing_when_it_is_started_anew(void **state)
{
	(void)state;
	if (!geteuid())
		on(ON_POSIX, distrusted_);
}

/* ---- notes ---- */

static int ask_outcome(uint64_t number)
{
	struct pack p = { 0 };

	pack_u64(&p, view.epoch);
	pack_u64(&p, number);
	return say(&client, REPLICA_OUTCOME, &p);
}

static void told_(void *arg)
{
	cleanup_file struct file *file = NULL;
	struct lease_reply r;
	struct pack p = { 0 };
	struct note n;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	pack_u64(&p, 0);
	CHECK_INT(tell(REPLICA_NOTES, view.epoch, &p, NULL), -EVIEW);
	CHECK_INT(make("f", &file), 0);
	CHECK_INT(drop("f", &n), 0);
	CHECK_INT(change_view(&n), 0);
	CHECK_INT(ask_outcome(n.sequence), -ERECOVERING);
	CHECK_INT(resolve(&n), 0);
	unwritable = true;
	CHECK_INT(lease(&r), 0);
	CHECK_INT(ask_outcome(n.sequence), -ERECOVERING);
	unwritable = false;
	CHECK_INT(lease(&r), 0);
	CHECK_INT(ask_outcome(n.sequence), 0);
}

static int sync_of(uint64_t incarnation)
{
	struct pack p = { 0 };

	pack_u64(&p, incarnation);
	return tell(REPLICA_SYNC, view.epoch, &p, NULL);
}

/* While others are being made equal changes wait; where too few are left they fail. A sync is that of the process which was asked. */
static void wait_(void *arg)
{
	cleanup_file struct file *file = NULL, *again = NULL;
	struct lease_reply r = { 0 };
	struct pack none = { 0 };

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	unwritable = true;
	CHECK_INT(lease(&r), 0);
	CHECK_INT(make("f", &file), -EROFS);
	changes_wait = true;
	CHECK_INT(lease(&r), 0);
	CHECK_INT(make("f", &file), -ERECOVERING);
	unwritable = changes_wait = false;
	CHECK_INT(lease(&r), 0);
	CHECK_INT(make("f", &again), 0);
	CHECK_INT(sync_of(r.incarnation), 0);
	CHECK_INT(sync_of(r.incarnation + 1), -EVIEW);
	CHECK_INT(tell(REPLICA_SYNC, view.epoch, &none, NULL), 0); /* a coordinator of a version before does not say which */
}

static void changes_wait_until_members_are_equal(void **state)
{
	(void)state;
	unwritable = changes_wait = false;
	on(ON_MEMORY, wait_);
}

static void what_is_done_is_told_when_a_quorum_has_it(void **state)
{
	(void)state;
	unwritable = false;
	on(ON_MEMORY, told_);
}

static void orphan_(void *arg)
{
	cleanup_file struct file *file = NULL;
	struct lease_reply r;
	struct pack p = { 0 };

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	pack_u64(&p, view.epoch);
	pack_u64(&p, 0);
	CHECK_INT(say(&client, REPLICA_DETACH, &p), 0);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.orphans > 0, true);
}

static void a_session_that_ends_leaves_what_is_not_settled_to_the_coordinator(void **state)
{
	(void)state;
	on(ON_MEMORY, orphan_);
}

static int acquire(const struct gfid *g)
{
	static uint64_t number;
	struct pack p = { 0 };

	pack_u64(&p, view.epoch);
	pack_u64(&p, ++number);
	pack_gfid(&p, g);
	return say(&stranger, REPLICA_ACQUIRE, &p);
}

/* A write of the file `f` is recovered. The token of another shows when tokens are granted again at all. */
static void recovered_(void *arg)
{
	cleanup_file struct file *file = NULL, *other = NULL;
	struct write_in wrote = { .data = NULL };
	static struct note n;
	int err = -ERECOVERING;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	CHECK_INT(make("other", &other), 0);
	wrote.file = file;
	n = *note_with(FOP_write, &wrote, NULL, NULL);
	CHECK_INT(change_view(&n), 0);
	CHECK_INT(put(++sequence, file), -ERECOVERING);
	CHECK_INT(put(++sequence, other), 0);
	for (int i = 0; i < TRIES && err == -ERECOVERING; i++)
		err = acquire(&other->inode->gfid);
	CHECK_INT(err, 0);
	CHECK_INT(acquire(&file->inode->gfid), -ERECOVERING);
	CHECK_INT(resolve(&n), 0);
	CHECK_INT(acquire(&file->inode->gfid), 0);
}

static void what_is_recovered_is_not_changed_nor_its_token_granted(void **state)
{
	(void)state;
	on(ON_MEMORY, recovered_);
}

/* ---- what is pending ---- */

static int copy(uint64_t number, struct file *from, struct file *to)
{
	struct copy_range_in in = { .from = from, .to = to, .length = 4 };
	struct copy_range_out out = { 0 };

	return change(number, FOP_copy_range, &in, &out);
}

static unsigned pending_now(int *err)
{
	struct blob answer = { 0 };
	struct pack p = { 0 };
	struct unpack u;
	unsigned count;

	pack_u64(&p, 0);
	*err = tell(REPLICA_PENDING, view.epoch, &p, &answer);
	u = unpack_blob(&answer);
	count = (unsigned)unpack_u64(&u);
	free(answer.bytes);
	return count;
}

/* How many of them stay. */
static int strike(const struct gfid *g, uint32_t *kept)
{
	struct blob answer = { 0 };
	struct pack p = { 0 };
	struct unpack u;
	int err;

	pack_u8(&p, 0);
	pack_gfid(&p, g);
	err = tell(REPLICA_STRIKE, view.epoch, &p, &answer);
	u = unpack_blob(&answer);
	*kept = unpack_u32(&u);
	free(answer.bytes);
	return err;
}

static void pending_(void *arg)
{
	cleanup_file struct file *file = NULL, *other = NULL;
	uint32_t kept;
	int err;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	CHECK_INT(make("other", &other), 0);
	CHECK_INT(put(++sequence, file), 0);
	CHECK_INT(come_back(&file->inode->gfid), 0);
	CHECK_INT(copy(++sequence, file, other), -EPENDING);
	CHECK_INT(pending_now(&err), 2); /* the target, too */
	CHECK_INT(err, 0);
	CHECK_INT(strike(&other->inode->gfid, &kept), 0);
	CHECK_INT(kept, 0);
	CHECK_INT(put(++sequence, file), -EPENDING);
	CHECK_INT(strike(&file->inode->gfid, &kept), 0);
	CHECK_INT(kept, 1);
	CHECK_INT(pending_now(&err), 1);
	CHECK_INT(strike(&file->inode->gfid, &kept), 0);
	CHECK_INT(kept, 0);
	CHECK_INT(put(++sequence, file), 0);
}

static void what_is_pending_is_not_changed_nor_copied_nor_struck_off_too_early(void **state)
{
	(void)state;
	on(ON_MEMORY, pending_);
}

/* ---- what healing removes ---- */

static int remove_for_good(const char *name)
{
	cleanup_inode struct inode *parent = root();
	struct replica_stamp stamp = { .epoch = view.epoch, .flags = REPLICA_HEAL, .time = 1000000000 };
	struct unlink_in in = { .loc = { .parent = parent, .name = name } };
	struct unlink_out out = { 0 };

	return call(&coordinator, &stamp, NULL, FOP_unlink, &in, &out);
}

static void removed_(void *arg)
{
	cleanup_file struct file *file = NULL;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	CHECK_INT(settle(sequence), 0);
	CHECK_INT(put(++sequence, file), 0);
	CHECK_INT(remove_for_good("f"), 0);
	CHECK_INT(put(++sequence, file), -ESTALE);
}

static void what_healing_removed_does_not_count_any_more_for_who_has_it_open(void **state)
{
	(void)state;
	on(ON_MEMORY, removed_);
}

static void break_disk(const char *percent)
{
	struct xlator *disk = tree_find(&tree, "leaf");
	struct problem problem = { "" };

	CHECK_INT(option_change(disk->type->options, disk->private, disk->name, "percent", percent, &problem), 0);
	disk->type->reconfigure(disk, option_find(disk->type->options, "percent"));
}

static int lose(const struct gfid *g)
{
	struct blob answer = { 0 };
	struct pack p = { 0 };
	int err;

	pack_gfid(&p, g);
	err = tell(REPLICA_LOSE, view.epoch, &p, &answer);
	free(answer.bytes);
	return err;
}

static void lost_(void *arg)
{
	cleanup_file struct file *file = NULL;
	struct note n;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	CHECK_INT(lose(&file->inode->gfid), 0); /* it has a name */
	CHECK_INT(put(++sequence, file), 0);
	CHECK_INT(drop("f", &n), 0);
	CHECK_INT(settle(sequence), 0);
	break_disk("100");
	CHECK_INT(lose(&file->inode->gfid), -EIO); /* nobody knows whether it has one */
	break_disk("0");
	CHECK_INT(put(++sequence, file), 0);
	CHECK_INT(lose(&file->inode->gfid), 0);
	CHECK_INT(put(++sequence, file), -ESTALE);
}

/* It lacks what was done to it elsewhere. */
static void what_is_told_to_be_lost_is_lost_or_the_member_says_that_it_is_not(void **state)
{
	(void)state;
	below = "volume base\n type debug/memory\nend-volume\n";
	on(" type debug/error-gen\n option percent 0\n option fops getattr\n subvolumes base\n", lost_);
	below = "";
}

/* ---- disks that fill up ---- */

static void short_(void *arg)
{
	struct xlator *lie = tree_find(&tree, "leaf");
	char *cut[] = { (char[]){ "short" }, (char[]){ "2" } };
	cleanup_file struct file *file = NULL;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	CHECK_INT(put(++sequence, file), 0);
	lie->type->command(lie, 2, cut, stdout);
	CHECK_INT(put(++sequence, file), -ENOSPC);
	CHECK_INT(put(++sequence, file), 0);
}

/* Another member may have taken more of it. */
static void a_write_that_the_disk_takes_in_part_has_failed(void **state)
{
	(void)state;
	below = "volume base\n type debug/memory\nend-volume\n";
	on(" type test/lie\n subvolumes base\n", short_);
	below = "";
}

static int full_from_the_start(struct request *rq, struct xlator *x, const struct write_in *in, struct write_out *out)
{
	(void)x, (void)in, (void)out;
	rq->untouched = true;
	return -ENOSPC;
}

static int full_in_its_midst(struct request *rq, struct xlator *x, const struct write_in *in, struct write_out *out)
{
	(void)rq, (void)x, (void)in, (void)out;
	return -ENOSPC;
}

/* Who knows that a member has done nothing of it need not have it recovered; of old clients nothing is expected that they do not know. */
static void untouched_(void *arg)
{
	struct xlator *leaf = tree_find(&tree, "leaf");
	struct replica_stamp stamp = { .flags = REPLICA_ROOM, .time = 1000000000 };
	cleanup_buffer struct buffer *data = buffer_from("data", 4);
	struct write_in in = { .data = data };
	cleanup_file struct file *file = NULL;
	static struct xlator_type full;
	struct write_out out = { 0 };

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	full = *leaf->type;
	leaf->type = &full;
	full.write = full_from_the_start;
	in.file = file;
	stamp.epoch = view.epoch;
	stamp.sequence = ++sequence;
	CHECK_INT(call(&client, &stamp, NULL, FOP_write, &in, &out), -ENOROOM);
	CHECK_INT(put(++sequence, file), -ENOSPC);
	full.write = full_in_its_midst;
	stamp.sequence = ++sequence;
	CHECK_INT(call(&client, &stamp, NULL, FOP_write, &in, &out), -ENOSPC);
}

static void who_had_no_room_from_the_start_says_that_nothing_was_done(void **state)
{
	(void)state;
	on(ON_MEMORY, untouched_);
}

static void short_untouched_(void *arg)
{
	struct replica_stamp stamp = { .flags = REPLICA_ROOM, .time = 1000000000 };
	cleanup_buffer struct buffer *data = buffer_from("data", 4);
	struct xlator *lie = tree_find(&tree, "leaf");
	char *cut[] = { (char[]){ "short" }, (char[]){ "2" } };
	struct write_in in = { .data = data };
	cleanup_file struct file *file = NULL;
	struct write_out out = { 0 };

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	lie->type->command(lie, 2, cut, stdout);
	in.file = file;
	stamp.epoch = view.epoch;
	stamp.sequence = ++sequence;
	CHECK_INT(call(&client, &stamp, NULL, FOP_write, &in, &out), -ENOSPC);
}

static void what_the_disk_has_taken_in_part_is_not_said_to_be_untouched(void **state)
{
	(void)state;
	below = "volume base\n type debug/memory\nend-volume\n";
	on(" type test/lie\n subvolumes base\n", short_untouched_);
	below = "";
}

/* ---- what another view has left ---- */

/* A change that was sent in the view before, and comes late. */
static void late_(void *arg)
{
	cleanup_file struct file *file = NULL;
	struct write_in wrote = { .data = NULL };
	struct write_out out = { 0 };
	struct replica_stamp stamp = { .time = 1000000000 };

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	wrote.file = file;
	stamp.epoch = view.epoch;
	stamp.sequence = ++sequence;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(call(&client, &stamp, NULL, FOP_write, &wrote, &out), -EVIEW);
	stamp.epoch = view.epoch;
	CHECK_INT(call(&client, &stamp, NULL, FOP_write, &wrote, &out), 0);
}

static void what_was_sent_in_another_view_is_refused(void **state)
{
	(void)state;
	on(ON_MEMORY, late_);
}

/* What was sent in this view, and comes when the member has told for the next one what it has done: nobody would hear of it. */
static void frozen_(void *arg)
{
	cleanup_file struct file *file = NULL;
	struct write_in wrote = { .data = NULL };
	struct write_out out = { 0 };
	struct replica_stamp stamp = { .time = 1000000000 };

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	CHECK_INT(put(++sequence, file), 0);
	wrote.file = file;
	stamp.epoch = view.epoch;
	stamp.sequence = ++sequence;
	CHECK_INT(freeze(), 0);
	CHECK_INT(call(&client, &stamp, NULL, FOP_write, &wrote, &out), -EVIEW);
}

static void nothing_is_changed_once_the_next_view_has_been_announced(void **state)
{
	(void)state;
	on(ON_MEMORY, frozen_);
}

/* A client was told that it may let others believe; in the next view it may not know yet that this is over. */
static void believed_(void *arg)
{
	struct pack p = { 0 };
	uint64_t asked_ns;
	struct gfid g;
	int err = -ERECOVERING;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	gfid_create(&g);
	for (int i = 0; i < TRIES && err == -ERECOVERING; i++)
		err = acquire(&g);
	CHECK_INT(err, 0);
	asked_ns = clock_ns();
	pack_u64(&p, view.epoch);
	CHECK_INT(say(&client, REPLICA_BELIEVE, &p), 0);
	CHECK_INT(change_view(NULL), 0);
	err = -ERECOVERING;
	for (int i = 0; i < TRIES && err == -ERECOVERING; i++)
		err = acquire(&g);
	CHECK_INT(err, 0);
	CHECK(clock_ns() >= asked_ns + BELIEF_WAIT_MS * 1000000);
}

static void no_token_is_granted_while_clients_may_believe(void **state)
{
	(void)state;
	on(ON_MEMORY, believed_);
}

const struct CMUnitTest guards[] = {
	cmocka_unit_test(nothing_is_read_without_a_lease),
	cmocka_unit_test(who_is_healed_is_not_read_but_begins_generations),
	cmocka_unit_test(what_is_not_settled_counts_in_the_next_generation_too),
	cmocka_unit_test(what_changed_is_listed_by_a_process_that_is_started_anew),
	cmocka_unit_test(who_is_found_to_differ_has_synced_nothing_when_it_is_started_anew),
	cmocka_unit_test(changes_wait_until_members_are_equal),
	cmocka_unit_test(what_is_done_is_told_when_a_quorum_has_it),
	cmocka_unit_test(a_session_that_ends_leaves_what_is_not_settled_to_the_coordinator),
	cmocka_unit_test(what_is_recovered_is_not_changed_nor_its_token_granted),
	cmocka_unit_test(what_is_pending_is_not_changed_nor_copied_nor_struck_off_too_early),
	cmocka_unit_test(a_write_that_the_disk_takes_in_part_has_failed),
	cmocka_unit_test(who_had_no_room_from_the_start_says_that_nothing_was_done),
	cmocka_unit_test(what_the_disk_has_taken_in_part_is_not_said_to_be_untouched),
	cmocka_unit_test(what_is_told_to_be_lost_is_lost_or_the_member_says_that_it_is_not),
	cmocka_unit_test(what_healing_removed_does_not_count_any_more_for_who_has_it_open),
	cmocka_unit_test(what_was_sent_in_another_view_is_refused),
	cmocka_unit_test(nothing_is_changed_once_the_next_view_has_been_announced),
	cmocka_unit_test(no_token_is_granted_while_clients_may_believe),
};
const unsigned guards_count = sizeof(guards) / sizeof(guards[0]);
