/* SPDX-License-Identifier: Apache-2.0 */
/* features/replica: what a member says is durable, and what its disk has taken and not kept (doc/replication.md, What a disk has lost). */
#include "member-test.h"

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test-check.h"

enum { SOON_MS = 5, TRIES = 2000 };

/* ---- what is durable ---- */

static atomic_int syncs, sync_error; /* how often the leaf was to sync its disk; what it says */

static int counted_sync(struct xlator *leaf)
{
	(void)leaf;
	atomic_fetch_add(&syncs, 1);
	return atomic_load(&sync_error);
}

static int told_fsync(struct request *rq, struct xlator *leaf, const struct fsync_in *in, struct fsync_out *out)
{
	(void)rq, (void)leaf, (void)in, (void)out;
	return atomic_load(&sync_error);
}

static struct read_in reread_of; /* that part of the file was to be read from the disk */

static void noted_reread(struct xlator *leaf, const struct file *file, uint64_t offset, uint64_t length)
{
	(void)leaf, (void)file;
	reread_of = (struct read_in){ .offset = offset, .size = (uint32_t)length };
}

static int come_back_from_away(void)
{
	int err;

	anew = 1;
	err = come_back(&gfid_root);
	anew = 0;
	return err;
}

static int sync_when_the_disk_says(int err)
{
	struct pack none = { 0 };

	sync_error = err;
	return tell(REPLICA_SYNC, view.epoch, &none, NULL);
}

static struct xlator_type counting;

static void count_syncs(void)
{
	struct xlator *leaf = tree_find(&tree, "leaf");

	counting = *leaf->type;
	counting.sync = counted_sync;
	counting.fsync = told_fsync;
	counting.reread = noted_reread;
	sync_error = 0;
	leaf->type = &counting;
}

static void synced_(void *arg)
{
	(void)arg;
	count_syncs();
	CHECK_INT(change_view(NULL), 0);
	syncs = 0;
	CHECK_INT(sync_when_the_disk_says(0), 0);
	CHECK_INT(syncs, 1);
	CHECK_INT(sync_when_the_disk_says(-EIO), -EIO);
}

/* What a heal or a recovery has brought counts as durable when that is answered: marks go, and who has it alone may leave. */
static void who_is_told_to_sync_has_done_so_when_it_answers(void **state)
{
	(void)state;
	on(ON_MEMORY, synced_);
}

/* A later generation begins: leases, until the leaf was asked to sync what is before it, or that is told to be on disk. */
static int begin_generation(struct lease_reply *now)
{
	uint64_t before;
	int err = lease(now), asked = syncs;

	before = now->synced;
	generation = now->generation + 4; /* what is told is two behind */
	for (int i = 0; i < TRIES && !err && syncs == asked && now->synced == before; i++) {
		task_sleep_ms(SOON_MS);
		err = lease(now);
	}
	return err;
}

static void generation_(void *arg)
{
	struct lease_reply r = { 0 };
	cleanup_file struct file *file = NULL;
	uint64_t before;

	(void)arg;
	count_syncs();
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	CHECK_INT(lease(&r), 0);
	before = r.synced;
	sync_error = -EIO;
	CHECK_INT(begin_generation(&r), 0);
	CHECK_INT(r.synced, before);
	task_sleep_ms(SOON_MS);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.synced, before);
	CHECK_INT(r.unsynced, 1);
	sync_error = 0; /* of what it could not write the disk says nothing any more */
	CHECK_INT(begin_generation(&r), 0);
	task_sleep_ms(SOON_MS);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.synced, before);
	CHECK_INT(r.unsynced, 1);
	CHECK_INT(come_back_from_away(), 0);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.unsynced, 0);
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(begin_generation(&r), 0);
	for (int i = 0; i < TRIES && r.synced == before; i++) {
		task_sleep_ms(SOON_MS);
		CHECK_INT(lease(&r), 0);
	}
	CHECK_INT(r.synced, generation - 2);
}

static int compare(struct file *file, uint64_t offset, uint64_t length)
{
	struct replica_in in = { .verb = REPLICA_CHECKSUM, .inode = file->inode };
	struct replica_out out = { 0 };
	struct pack p = { 0 };
	int err;

	pack_secret(&p);
	pack_u64(&p, offset);
	pack_u64(&p, length);
	tree.client = &coordinator;
	err = pack_end(&p, &in.data);
	if (!err)
		err = tree_call(&tree, tree.at, FOP_replica, &in, &out);
	free(in.data.bytes);
	fop_out_clear(FOP_replica, &out);
	return err;
}

static void compared_(void *arg)
{
	cleanup_file struct file *file = NULL;

	(void)arg;
	count_syncs();
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	CHECK_INT(put(++sequence, file), 0);
	reread_of.size = 0;
	CHECK_INT(compare(file, 1, 2), 0);
	CHECK_INT(reread_of.size, 0); /* what others read just now need not come from the disk for a scrub */
	CHECK_INT(come_back(&file->inode->gfid), 0);
	CHECK_INT(compare(file, 1, 2), 0);
	CHECK_INT(reread_of.offset, 1);
	CHECK_INT(reread_of.size, 2);
}

/* What its disk could not write is in memory yet, and equal. */
static void who_is_healed_is_compared_by_what_is_on_its_disk(void **state)
{
	(void)state;
	on(ON_MEMORY, compared_);
}

static int sync_file(struct file *file, int disk)
{
	struct replica_stamp stamp = { .epoch = view.epoch, .flags = REPLICA_READ };
	struct fsync_out out = { 0 };

	sync_error = disk;
	return call(&client, &stamp, NULL, FOP_fsync, &(struct fsync_in){ .file = file }, &out);
}

static void unkept_(void *arg)
{
	struct lease_reply r = { 0 };
	cleanup_file struct file *file = NULL, *other = NULL;

	(void)arg;
	count_syncs();
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	CHECK_INT(make("g", &other), 0);
	CHECK_INT(sync_file(file, -EIO), -EIO);
	CHECK_INT(sync_file(file, 0), -EIO); /* whoever asks, and in whatever view */
	CHECK_INT(sync_file(other, 0), 0);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.unsynced, 1);
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(sync_file(file, 0), -EIO);
	CHECK_INT(sync_file(other, 0), 0);
	CHECK_INT(come_back_from_away(), 0);
	CHECK_INT(sync_file(file, 0), 0);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.unsynced, 0);
}

/* The kernel tells once what it could not write. */
static void a_file_of_which_the_disk_has_lost_something_is_not_synced_before_it_is_healed(void **state)
{
	(void)state;
	on(ON_MEMORY, unkept_);
}

/* Who is away when this member has its changes on disk is healed by that list: without it, all of the disk must be walked. */
static void kept_(void *arg)
{
	struct lease_reply r = { 0 };
	cleanup_file struct file *file = NULL;
	uint64_t before;

	(void)arg;
	count_syncs();
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	CHECK_INT(settle(sequence), 0); /* or it would count in the next generation, too */
	CHECK_INT(lease(&r), 0);
	before = r.synced;
	CHECK_INT(begin_generation(&r), 0);
	for (int i = 0; i < TRIES && r.synced == before; i++) {
		task_sleep_ms(SOON_MS);
		CHECK_INT(lease(&r), 0);
	}
	CHECK_INT(r.synced, generation - 2);
	CHECK_INT(is_listed(&file->inode->gfid, 0), true);
	prune = r.synced;
	for (int i = 0; i < TRIES && is_listed(&file->inode->gfid, 0); i++) {
		CHECK_INT(begin_generation(&r), 0);
		task_sleep_ms(SOON_MS);
	}
	CHECK_INT(is_listed(&file->inode->gfid, 0), false);
}

static void what_is_on_disk_here_is_listed_until_all_have_it(void **state)
{
	(void)state;
	prune = 0;
	on(ON_MEMORY, kept_);
	prune = 0;
}

/* Else the lists of what changed are cut, and after a power cut nobody knows what it lost. */
static void what_is_told_to_be_on_disk_was_synced(void **state)
{
	(void)state;
	on(ON_MEMORY, generation_);
}

static void again_(void *arg)
{
	struct pack none = { 0 };
	cleanup_file struct file *file = NULL;

	(void)arg;
	count_syncs();
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	CHECK_INT(come_back_from_away(), 0);
	CHECK_INT(sync_file(file, -EIO), -EIO); /* of what healing wrote; and the disk tells it to nobody else */
	sync_error = 0;
	CHECK_INT(tell(REPLICA_SYNC, view.epoch, &none, NULL), -EIO);
	CHECK_INT(come_back_from_away(), 0);
	CHECK_INT(tell(REPLICA_SYNC, view.epoch, &none, NULL), 0);
}

static void who_has_lost_what_healing_wrote_is_not_healed(void **state)
{
	(void)state;
	on(ON_MEMORY, again_);
}

/* ---- two at once ---- */

static atomic_int waiting, ended, succeeded, first_told;

/* Of two at once the first is told, after the other; which is told nothing. */
static int told_one(struct request *rq, struct xlator *leaf, const struct fsync_in *in, struct fsync_out *out)
{
	(void)rq, (void)leaf, (void)in, (void)out;
	if (atomic_fetch_add(&waiting, 1))
		return 0;
	for (int i = 0; i < TRIES && atomic_load(&waiting) < 2; i++)
		task_sleep_ms(SOON_MS);
	task_sleep_ms(SOON_MS);
	return first_told;
}

static void sync_one(void *arg)
{
	struct replica_stamp stamp = { .epoch = view.epoch, .flags = REPLICA_READ };
	struct fsync_out out = { 0 };

	if (!call(&client, &stamp, NULL, FOP_fsync, &(struct fsync_in){ .file = arg }, &out))
		atomic_fetch_add(&succeeded, 1);
	atomic_fetch_add(&ended, 1);
}

static void both_(void *arg)
{
	cleanup_file struct file *file = NULL;

	(void)arg;
	count_syncs();
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	counting.fsync = told_one;
	waiting = ended = succeeded = 0;
	for (int i = 0; i < 2; i++)
		CHECK_INT(task_spawn(NULL, sync_one, file), 0);
	for (int i = 0; i < TRIES && ended < 2; i++)
		task_sleep_ms(SOON_MS);
	CHECK_INT(ended, 2);
	CHECK_INT(succeeded, first_told ? 0 : 2);
}

/* Of an open file the kernel tells one who asks. */
static void of_two_syncs_of_an_open_file_none_succeeds_if_one_is_told_of_a_loss(void **state)
{
	(void)state;
	first_told = -EIO;
	on(ON_MEMORY, both_);
}

static void who_waits_for_another_sync_of_the_file_goes_on_when_that_ends(void **state)
{
	(void)state;
	first_told = 0;
	on(ON_MEMORY, both_);
}

static int good_sync(struct xlator *leaf)
{
	(void)leaf;
	return 0;
}

static bool is_unsynced(void)
{
	struct lease_reply r = { 0 };

	return !lease(&r) && r.unsynced;
}

static int whole_syncs_tell_one(struct xlator *leaf)
{
	(void)leaf;
	return told_one(NULL, NULL, NULL, NULL);
}

static void sync_all(void *arg)
{
	struct replica_in in = { .verb = REPLICA_SYNC };
	struct replica_out out = { 0 };
	struct pack p = { 0 };

	(void)arg;
	pack_secret(&p);
	tree.client = &coordinator;
	if (!pack_end(&p, &in.data) && !tree_call(&tree, tree.at, FOP_replica, &in, &out))
		atomic_fetch_add(&succeeded, 1);
	free(in.data.bytes);
	fop_out_clear(FOP_replica, &out);
	atomic_fetch_add(&ended, 1);
}

/* A member that is BACK: who is told that all is on its disk lets it be IN. */
static void both_of_all_(void *arg)
{
	(void)arg;
	count_syncs();
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(come_back_from_away(), 0);
	counting.sync = whole_syncs_tell_one;
	first_told = -EIO;
	waiting = ended = succeeded = 0;
	for (int i = 0; i < 2; i++)
		CHECK_INT(task_spawn(NULL, sync_all, NULL), 0);
	for (int i = 0; i < TRIES && ended < 2; i++)
		task_sleep_ms(SOON_MS);
	counting.sync = good_sync;
	CHECK_INT(ended, 2);
	CHECK_INT(succeeded, 0);
}

/* Of one descriptor the kernel tells one. */
static void of_two_syncs_of_the_disk_none_is_whole_if_one_is_told_of_a_loss(void **state)
{
	(void)state;
	on(ON_MEMORY, both_of_all_);
}

/* ---- who writes durably, and who makes members equal ---- */

static int (*memory_write)(struct request *, struct xlator *, const struct write_in *, struct write_out *);
static atomic_int write_error;

static int told_write(struct request *rq, struct xlator *leaf, const struct write_in *in, struct write_out *out)
{
	if (write_error)
		return write_error;
	atomic_fetch_add(&waiting, 1);
	return memory_write(rq, leaf, in, out);
}

static int make_durable(const char *name, struct file **file)
{
	cleanup_inode struct inode *parent = root();
	struct create_in in = { .loc = { .parent = parent, .name = name }, .flags = O_RDWR | O_DSYNC, .mode = 0644 };
	struct create_out out = { 0 };
	int err;

	gfid_create(&in.gfid);
	err = change(++sequence, FOP_create, &in, &out);
	*file = err ? NULL : file_ref(out.file);
	fop_out_clear(FOP_create, &out);
	return err;
}

static void count_writes(void)
{
	count_syncs();
	memory_write = counting.write;
	counting.write = told_write;
	write_error = 0;
}

static int write_when_the_disk_says(struct file *file, int err)
{
	write_error = err;
	err = put(++sequence, file);
	write_error = 0;
	return err;
}

static void durably_(void *arg)
{
	cleanup_file struct file *file = NULL, *durable = NULL, *other = NULL;

	(void)arg;
	count_writes();
	counting.sync = good_sync;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	CHECK_INT(make_durable("g", &durable), 0);
	CHECK_INT(make_durable("h", &other), 0);
	CHECK_INT(write_when_the_disk_says(file, -EIO), -EIO); /* which is no sync */
	CHECK_INT(write_when_the_disk_says(durable, -ENOSPC), -ENOSPC);
	CHECK_INT(sync_file(file, 0), 0);
	CHECK_INT(sync_file(durable, 0), 0);
	CHECK_INT(is_unsynced(), false);
	CHECK_INT(write_when_the_disk_says(durable, -EIO), -EIO);
	CHECK_INT(is_unsynced(), true);
	CHECK_INT(sync_file(durable, 0), -EIO);
	CHECK_INT(put(++sequence, durable), -EIO);
	CHECK_INT(put(++sequence, other), 0);
	CHECK_INT(sync_file(file, -EIO), -EIO);
	CHECK_INT(put(++sequence, file), 0); /* it says nothing of what is on the disk */
}

/* It may be the one that the kernel tells what others have written. */
static void a_durable_write_is_a_sync_of_the_file(void **state)
{
	(void)state;
	on(ON_MEMORY, durably_);
}

static int put_knowing(struct file *file, uint32_t flags)
{
	struct replica_stamp stamp = { .epoch = view.epoch, .sequence = ++sequence, .time = 1000000000, .flags = flags };
	cleanup_buffer struct buffer *data = buffer_from("data", 4);
	struct write_in in = { .file = file, .data = data };
	struct write_out out = { 0 };

	return call(&client, &stamp, NULL, FOP_write, &in, &out);
}

static void in_vain_(void *arg)
{
	cleanup_file struct file *file = NULL, *durable = NULL, *other = NULL;

	(void)arg;
	count_writes();
	counting.sync = good_sync;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	CHECK_INT(make_durable("g", &durable), 0);
	CHECK_INT(make_durable("h", &other), 0);
	CHECK_INT(sync_file(file, -EIO), -EIO);
	CHECK_INT(sync_file(durable, -EIO), -EIO);
	waiting = 0; /* counts what the leaf has written */
	CHECK_INT(put_knowing(durable, REPLICA_UNSYNCED), -EUNSYNCED);
	CHECK_INT(put_knowing(durable, 0), -EIO);
	CHECK_INT(waiting, 0);
	CHECK_INT(put_knowing(file, REPLICA_UNSYNCED), 0);
	CHECK_INT(put_knowing(other, REPLICA_UNSYNCED), 0);
	CHECK_INT(waiting, 2);
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(put_knowing(durable, REPLICA_UNSYNCED), -EUNSYNCED); /* in whatever view */
	CHECK_INT(come_back_from_away(), 0);
	CHECK_INT(sync_file(durable, 0), 0);
}

/* It would have to be recovered, and so would each that is tried after it. */
static void a_durable_write_of_a_file_that_is_not_synced_any_more_is_not_begun(void **state)
{
	(void)state;
	on(ON_MEMORY, in_vain_);
}

static void with_another_(void *arg)
{
	cleanup_file struct file *file = NULL;

	(void)arg;
	count_writes();
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make_durable("f", &file), 0);
	counting.fsync = told_one;
	first_told = -EIO;
	waiting = ended = succeeded = 0;
	CHECK_INT(task_spawn(NULL, sync_one, file), 0);
	for (int i = 0; i < TRIES && waiting < 1; i++)
		task_sleep_ms(SOON_MS);
	CHECK_INT(put(++sequence, file), -EIO);
	for (int i = 0; i < TRIES && ended < 1; i++)
		task_sleep_ms(SOON_MS);
	CHECK_INT(succeeded, 0);
}

/* Of an open file the kernel tells one. */
static void a_durable_write_has_failed_if_a_sync_of_the_file_is_told_of_a_loss_meanwhile(void **state)
{
	(void)state;
	on(ON_MEMORY, with_another_);
}

static int heal_sync(struct file *file, int disk)
{
	struct replica_stamp stamp = { .epoch = view.epoch, .flags = REPLICA_HEAL, .time = 1000000000 };
	struct fsync_out out = { 0 };

	sync_error = disk;
	return call(&coordinator, &stamp, NULL, FOP_fsync, &(struct fsync_in){ .file = file }, &out);
}

static void by_healing_(void *arg)
{
	struct replica_stamp stamp = { .epoch = view.epoch, .flags = REPLICA_HEAL, .time = 1000000000 };
	cleanup_inode struct inode *directory = root();
	cleanup_file struct file *file = NULL;
	struct opendir_out opened = { 0 };

	(void)arg;
	count_syncs();
	counting.sync = good_sync;
	CHECK_INT(change_view(NULL), 0);
	stamp.epoch = view.epoch;
	CHECK_INT(make("f", &file), 0);
	CHECK_INT(heal_sync(file, -EIO), -EIO);
	CHECK_INT(is_unsynced(), true);
	CHECK_INT(heal_sync(file, 0), -EIO);
	CHECK_INT(sync_file(file, 0), -EIO);
	CHECK_INT(call(&coordinator, &stamp, NULL, FOP_opendir, &(struct opendir_in){ directory }, &opened), 0);
	CHECK_INT(heal_sync(opened.file, -EIO), -EIO);
	CHECK_INT(heal_sync(opened.file, 0), 0); /* names are in the journal */
	fop_out_clear(FOP_opendir, &opened);
}

/* Else a recovery would be told what a client is not told any more. */
static void what_the_disk_tells_who_heals_is_remembered(void **state)
{
	(void)state;
	on(ON_MEMORY, by_healing_);
}

/* ---- and by whom it is known ---- */

/* A process that is started anew: in its first view. */
static int start_anew(void)
{
	int err = reopen();

	count_syncs();
	return err ? err : change_view(NULL);
}

/* Whether that file, which is made, is synced now. (What debug/memory had is gone.) */
static int sync_as(const char *name, const struct gfid *gfid)
{
	cleanup_file struct file *file = NULL;
	int err = make_as(name, gfid, &file);

	return err ? err : sync_file(file, 0);
}

static int lose(const char *name, struct gfid *gfid)
{
	cleanup_file struct file *file = NULL;
	int err;

	gfid_create(gfid);
	err = make_as(name, gfid, &file);
	return err ? err : sync_file(file, -EIO);
}

static void known_(void *arg)
{
	struct gfid f, g;

	(void)arg;
	count_syncs();
	counting.sync = good_sync;
	CHECK_INT(change_view(NULL), 0);
	gfid_create(&g);
	CHECK_INT(lose("f", &f), -EIO);
	CHECK_INT(sync_as("g", &g), 0);
	for (int starts = 0; starts < 2; starts++) {
		CHECK_INT(start_anew(), 0);
		CHECK_INT(is_unsynced(), true);
		CHECK_INT(sync_as("f", &f), -EIO);
		CHECK_INT(sync_as("g", &g), 0); /* though it was changed then, too */
	}
	CHECK_INT(come_back_from_away(), 0);
	CHECK_INT(is_unsynced(), false);
	CHECK_INT(reopen(), 0);
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(is_unsynced(), false);
}

/* For the kernel will not tell it once more. */
static void what_a_disk_has_lost_is_known_to_a_process_that_is_started_anew(void **state)
{
	(void)state;
	on(ON_MEMORY, known_);
}

static void doubted_(void *arg)
{
	struct gfid f, g;

	(void)arg;
	count_syncs();
	CHECK_INT(change_view(NULL), 0);
	gfid_create(&f);
	gfid_create(&g);
	CHECK_INT(sync_as("f", &f), 0);
	CHECK_INT(sync_when_the_disk_says(-EIO), -EIO);
	sync_error = 0;
	CHECK_INT(sync_as("g", &g), 0);
	CHECK_INT(start_anew(), 0);
	CHECK_INT(sync_as("f", &f), -EIO);
	CHECK_INT(sync_as("g", &g), 0);
}

/* Who has it open is told; but who opens it anew need not be. */
static void what_a_sync_of_all_may_have_been_about_is_not_synced_after_a_start(void **state)
{
	(void)state;
	on(ON_MEMORY, doubted_);
}

static void many_(void *arg)
{
	enum { MORE = 65 };
	struct gfid g;
	char name[16];

	(void)arg;
	count_syncs();
	counting.sync = good_sync;
	CHECK_INT(change_view(NULL), 0);
	for (int i = 0; i < MORE; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		CHECK_INT(lose(name, &g), -EIO);
		if (i == MORE - 2) {
			gfid_create(&g);
			CHECK_INT(sync_as("as yet", &g), 0);
		}
	}
	CHECK_INT(start_anew(), 0);
	gfid_create(&g);
	CHECK_INT(sync_as("g", &g), -EIO);
}

static void who_has_lost_more_than_is_remembered_syncs_nothing(void **state)
{
	(void)state;
	on(ON_MEMORY, many_);
}

static void write_state(const char *name, const char *text)
{
	FILE *f = fopen(state_path(name), "w");

	CHECK_INT(f != NULL, true);
	if (!f)
		return;
	fputs(text, f);
	fclose(f);
}

static void cut_(void *arg)
{
	static const char *const texts[] = { "",
					     "stratus lost 1\n",
					     "stratus lost 1\n6d6a1f70-0d3c-4c1d-9a65-3d1a7c1f4b01\n",
					     "stratus lost 1\n6d6a1f70-0d3c-4c1d-9a6\nend\n",
					     "stratus lost 2\nend\n",
					     "stratus lost 1\nany\nend\n" };
	struct gfid g;

	(void)arg;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		write_state("lost", texts[i]);
		CHECK_INT(start_anew(), 0);
		gfid_create(&g);
		CHECK_INT(sync_as("g", &g), -EIO);
	}
	write_state("lost", "stratus lost 1\n6d6a1f70-0d3c-4c1d-9a65-3d1a7c1f4b01\nend\n");
	CHECK_INT(start_anew(), 0);
	CHECK_INT(sync_as("g", &g), 0);
	CHECK_INT(is_unsynced(), true);
}

/* An older version left it empty. */
static void a_list_of_what_is_lost_that_does_not_end_is_of_any_file(void **state)
{
	(void)state;
	on(ON_MEMORY, cut_);
}

static void spare_(void *arg)
{
	struct gfid f, g;

	(void)arg;
	gfid_create(&g);
	for (int again = 0; again < 2; again++) { /* what was used is there again when the member has been healed */
		count_syncs();
		CHECK_INT(change_view(NULL), 0);
		CHECK_INT(access(state_path("lost.spare"), F_OK), 0);
		CHECK_INT(mkdir(state_path("lost.new"), 0700), 0);
		CHECK_INT(lose("f", &f), -EIO);
		CHECK_INT(access(state_path("lost.spare"), F_OK), -1);
		CHECK_INT(rmdir(state_path("lost.new")), 0);
		CHECK_INT(lose("more", &f), -EIO);
		CHECK_INT(start_anew(), 0);
		CHECK_INT(is_unsynced(), true);
		CHECK_INT(sync_as("g", &g), -EIO);
		CHECK_INT(come_back_from_away(), 0);
		CHECK_INT(start_anew(), 0);
		CHECK_INT(is_unsynced(), false);
	}
}

/* It can rename one that it has, which is of any file then. */
static void a_disk_that_takes_no_new_file_makes_a_loss_known_to_who_is_started_anew(void **state)
{
	(void)state;
	on(ON_MEMORY, spare_);
}

/* Of what was written to standard error meanwhile. */
static int complaints(FILE *log)
{
	char line[1000];
	int count = 0;

	rewind(log);
	while (fgets(line, sizeof(line), log))
		count += strstr(line, "/lost, by which the next process knows") != NULL;
	return count;
}

static void complained_(void *arg)
{
	FILE *log = tmpfile();
	int kept = dup(STDERR_FILENO), said[2] = { -1, -1 };
	char other[PATH_MAX];
	struct gfid f;

	(void)arg;
	count_syncs();
	counting.sync = good_sync; /* which the member asks for by itself, perhaps only when it has been healed */
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(lose("first", &f), -EIO);
	CHECK_INT(come_back_from_away(), 0);
	CHECK_INT(change_view(NULL), 0);
	for (int i = 0; i < TRIES && !access(state_path("lost"), F_OK); i++)
		task_sleep_ms(SOON_MS);
	unlink(state_path("lost.spare"));
	CHECK_INT(mkdir(state_path("lost.spare"), 0700), 0);
	CHECK_INT(mkdir(state_path("lost.new"), 0700), 0);
	snprintf(other, sizeof(other), "%s", state_path("other"));
	CHECK_INT(symlink("lost.new", other), 0);
	dup2(fileno(log), STDERR_FILENO);
	for (int i = 0; i < 20; i++) {
		char name[16];

		if (i == 10) {
			said[0] = complaints(log);
			CHECK_INT(renameat2(AT_FDCWD, other, AT_FDCWD, state_path("lost.new"), RENAME_EXCHANGE),
				  0); /* another error, and at no moment none: the member tries it by itself, too */
		}
		snprintf(name, sizeof(name), "f%d", i);
		CHECK_INT(lose(name, &f), -EIO);
	}
	said[1] = complaints(log);
	dup2(kept, STDERR_FILENO);
	close(kept);
	fclose(log);
	CHECK_INT(said[0], 1);
	CHECK_INT(said[1], 2);
}

/* Each sync that is refused tries it once more. */
static void that_a_loss_can_not_be_made_known_is_said_once_for_each_reason(void **state)
{
	(void)state;
	on(ON_MEMORY, complained_);
}

const struct CMUnitTest losses[] = {
	cmocka_unit_test(who_is_told_to_sync_has_done_so_when_it_answers),
	cmocka_unit_test(who_is_healed_is_compared_by_what_is_on_its_disk),
	cmocka_unit_test(a_file_of_which_the_disk_has_lost_something_is_not_synced_before_it_is_healed),
	cmocka_unit_test(what_is_told_to_be_on_disk_was_synced),
	cmocka_unit_test(what_is_on_disk_here_is_listed_until_all_have_it),
	cmocka_unit_test(who_has_lost_what_healing_wrote_is_not_healed),
	cmocka_unit_test(who_waits_for_another_sync_of_the_file_goes_on_when_that_ends),
	cmocka_unit_test(of_two_syncs_of_an_open_file_none_succeeds_if_one_is_told_of_a_loss),
	cmocka_unit_test(of_two_syncs_of_the_disk_none_is_whole_if_one_is_told_of_a_loss),
	cmocka_unit_test(a_durable_write_is_a_sync_of_the_file),
	cmocka_unit_test(a_durable_write_of_a_file_that_is_not_synced_any_more_is_not_begun),
	cmocka_unit_test(a_durable_write_has_failed_if_a_sync_of_the_file_is_told_of_a_loss_meanwhile),
	cmocka_unit_test(what_the_disk_tells_who_heals_is_remembered),
	cmocka_unit_test(what_a_disk_has_lost_is_known_to_a_process_that_is_started_anew),
	cmocka_unit_test(what_a_sync_of_all_may_have_been_about_is_not_synced_after_a_start),
	cmocka_unit_test(who_has_lost_more_than_is_remembered_syncs_nothing),
	cmocka_unit_test(a_list_of_what_is_lost_that_does_not_end_is_of_any_file),
	cmocka_unit_test(a_disk_that_takes_no_new_file_makes_a_loss_known_to_who_is_started_anew),
	cmocka_unit_test(that_a_loss_can_not_be_made_known_is_said_once_for_each_reason),
};
const unsigned losses_count = sizeof(losses) / sizeof(losses[0]);
