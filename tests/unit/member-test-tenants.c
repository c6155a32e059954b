/* SPDX-License-Identifier: Apache-2.0 */
/* features/replica: what clients of a tenant can bring about for others, and how much of a member they may have (T9 and T10 in doc/tenants.md). */
#include "member-test.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>

static struct client acme = { .identity = "stratus:tenant/acme" }, acmes = { .identity = "stratus:tenant/acme/admin" },
		     globex = { .identity = "stratus:tenant/globex" };
static const uint8_t acme_id[16] = { 3 }, acmes_id[16] = { 4 }, globex_id[16] = { 5 }, more_id[16] = { 6 };

static int say_number(struct client *who, enum replica_verb verb, uint64_t number)
{
	struct pack p = { 0 };

	pack_u64(&p, view.epoch);
	pack_u64(&p, number);
	return say(who, verb, &p);
}

static int suspect(struct client *who, uint32_t members)
{
	struct pack p = { 0 };

	pack_u64(&p, view.epoch);
	pack_u32(&p, members);
	pack_u32(&p, EIO);
	return say(who, REPLICA_SUSPECT, &p);
}

static int acquire(struct client *who, const struct gfid *g)
{
	struct pack p = { 0 };

	pack_u64(&p, view.epoch);
	pack_u64(&p, ++sequence);
	pack_gfid(&p, g);
	return say(who, REPLICA_ACQUIRE, &p);
}

/* After a start nothing is granted for a moment. */
static int acquire_first(struct client *who, const struct gfid *g)
{
	int err = -ERECOVERING;

	for (int i = 0; i < 10 && err == -ERECOVERING; i++)
		err = acquire(who, g);
	return err;
}

/* A change of the root's attributes. */
static int touch_root(struct client *who, uint64_t number)
{
	cleanup_inode struct inode *inode = root();
	struct replica_stamp stamp = { .epoch = view.epoch, .sequence = number, .time = 1000000000 };
	struct setattr_in in = { .inode = inode, .set = { .valid = SET_MODE, .mode = 0755 } };
	struct setattr_out out = { 0 };

	return call(who, &stamp, NULL, FOP_setattr, &in, &out);
}

static int view_with_tenants(void)
{
	int err = change_view(NULL);

	err = err ? err : attach(&acme, acme_id);
	return err ? err : attach(&globex, globex_id);
}

static void suspects_(void *arg)
{
	struct lease_reply r;

	(void)arg;
	other_members = 2;
	CHECK_INT(view_with_tenants(), 0);
	CHECK_INT(suspect(&acme, 4), 0);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.suspects, 0);
	CHECK_INT(r.doubted, 4);
	CHECK_INT(suspect(&acme, 2), 0);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.doubted, 0); /* it has just been heard */
	CHECK_INT(suspect(&globex, 2), 0);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.doubted, 2);
	CHECK_INT(r.suspects, 0);
	CHECK_INT(suspect(&client, 2), 0);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.suspects, 2);
	other_members = 0;
}

static void a_tenant_has_members_asked_and_no_more(void **state)
{
	(void)state;
	on(ON_MEMORY, suspects_);
}

static void left_(void *arg)
{
	struct lease_reply r;

	(void)arg;
	CHECK_INT(view_with_tenants(), 0);
	CHECK_INT(touch_root(&acme, 1), 0);
	CHECK_INT(say_number(&acme, REPLICA_FAILED, 1), 0);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.orphans, 0);
	CHECK_INT(r.tenants_left, 1);
	CHECK_INT(view_with_tenants(), 0);
	CHECK_INT(touch_root(&acme, 2), 0);
	CHECK_INT(say_number(&acme, REPLICA_FAILED, 2), 0);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.tenants_left, 0); /* not so soon again */
	CHECK_INT(touch_root(&globex, 1), -ERECOVERING);
	CHECK_INT(view_with_tenants(), 0);
	CHECK_INT(touch_root(&client, 1), 0);
	CHECK_INT(say_number(&client, REPLICA_FAILED, 1), 0);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.orphans, 1);
	CHECK_INT(r.tenants_left, 0);
}

static void what_a_tenant_leaves_makes_few_views(void **state)
{
	(void)state;
	on(ON_MEMORY, left_);
}

static int too_full(struct request *rq, struct xlator *x, const struct fallocate_in *in, struct fallocate_out *out)
{
	(void)rq, (void)x, (void)in, (void)out;
	return -ENOSPC;
}

static int too_full_to_write(struct request *rq, struct xlator *x, const struct write_in *in, struct write_out *out)
{
	(void)rq, (void)x, (void)in, (void)out;
	return -ENOSPC;
}

/* What has no room at this member is told: others that did the same, and have room, show that it is this one's disk. But a liar may ask each member for another length, and the notes are alike. */
static void full_(void *arg)
{
	struct xlator *leaf = tree_find(&tree, "leaf");
	struct create_in in = { .flags = O_RDWR, .mode = 0644 };
	struct replica_stamp stamp = { .sequence = 1, .time = 1000000000 };
	cleanup_inode struct inode *parent = root();
	static struct xlator_type full;
	struct fallocate_in allocate = { .length = 1ull << 40 };
	struct fallocate_out allocated = { 0 };
	cleanup_buffer struct buffer *data = NULL;
	struct write_in write = { .data = NULL };
	struct write_out written = { 0 };
	struct create_out made = { 0 };
	struct lease_reply r;

	(void)arg;
	full = *leaf->type;
	full.fallocate = too_full;
	full.write = too_full_to_write;
	leaf->type = &full;
	CHECK_INT(view_with_tenants(), 0);
	in.loc = (struct loc){ .parent = parent, .name = "f" };
	gfid_create(&in.gfid);
	stamp.epoch = view.epoch;
	CHECK_INT(call(&acme, &stamp, NULL, FOP_create, &in, &made), 0);
	allocate.file = made.file;
	stamp.sequence = 2;
	CHECK_INT(call(&acme, &stamp, NULL, FOP_fallocate, &allocate, &allocated), -ENOSPC);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.failures, 0);
	data = buffer_from("data", 4);
	write.file = made.file;
	write.data = data;
	stamp.sequence = 3;
	CHECK_INT(call(&acme, &stamp, NULL, FOP_write, &write, &written), -ENOSPC);
	fop_out_clear(FOP_create, &made);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.failures, 1);
}

static void no_room_for_more_than_a_note_tells_of_says_nothing_of_a_disk(void **state)
{
	(void)state;
	on(ON_MEMORY, full_);
}

static struct statfs disk_tells;

static int too_full_to_make(struct request *rq, struct xlator *x, const struct create_in *in, struct create_out *out)
{
	(void)rq, (void)x, (void)in, (void)out;
	return -ENOSPC;
}

static int tell_disk(struct request *rq, struct xlator *x, const struct statfs_in *in, struct statfs_out *out)
{
	(void)rq, (void)x, (void)in;
	out->statfs = disk_tells;
	return 0;
}

static bool tells_of(const struct lease_reply *r, const uint8_t id[16])
{
	for (unsigned i = 0; i < r->failures; i++)
		if (!memcmp(r->failure[i].session, id, 16))
			return true;
	return false;
}

/* The member has no room for what a client of a tenant makes, and tells so, or does not. */
static void make_in_vain(struct client *who, const uint8_t id[16], uint64_t bavail, uint64_t files, uint64_t ffree, bool tells)
{
	cleanup_inode struct inode *parent = root();
	struct create_in in = { .loc = { .parent = parent, .name = "f" }, .flags = O_RDWR, .mode = 0644 };
	struct replica_stamp stamp = { .sequence = 1, .time = 1000000000 };
	struct create_out made = { 0 };
	struct lease_reply r;

	disk_tells = (struct statfs){ 4096, 4096, 1 << 20, 1 << 18, bavail, files, ffree, 255 };
	CHECK_INT(view_with_tenants(), 0);
	gfid_create(&in.gfid);
	stamp.epoch = view.epoch;
	CHECK_INT(call(who, &stamp, NULL, FOP_create, &in, &made), -ENOSPC);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(tells_of(&r, id), tells);
}

/* How much was asked of each member the notes do not say, and a liar may ask one of them for more. But where there is no room for anything nobody need be believed. */
static void full_of_all_(void *arg)
{
	struct xlator *leaf = tree_find(&tree, "leaf");
	static struct xlator_type full;

	(void)arg;
	full = *leaf->type;
	full.create = too_full_to_make;
	full.statfs = tell_disk;
	leaf->type = &full;
	make_in_vain(&acme, acme_id, 512, 1000, 10, false);
	make_in_vain(&acme, acme_id, 512, 0, 0, false); /* a file system that does not count its files */
	make_in_vain(&acme, acme_id, 3, 1000, 10, true);
	make_in_vain(&globex, globex_id, 512, 1000, 0, true);
}

static void a_full_disk_is_told_by_what_only_makes_things(void **state)
{
	(void)state;
	on(ON_MEMORY, full_of_all_);
}

/* ---- what is slow ---- */

static atomic_bool disk_stands;
static atomic_int durable_writes, ended;
static int (*memory_write)(struct request *, struct xlator *, const struct write_in *, struct write_out *);

static void stand(void)
{
	while (disk_stands)
		task_sleep_ms(5);
}

static int standing_fsync(struct request *rq, struct xlator *x, const struct fsync_in *in, struct fsync_out *out)
{
	(void)rq, (void)x, (void)in, (void)out;
	stand();
	return 0;
}

/* One that is a sync, too, is done at once, so that what is left is to wait for other syncs. */
static int standing_write(struct request *rq, struct xlator *x, const struct write_in *in, struct write_out *out)
{
	int err = memory_write(rq, x, in, out);

	if (in->file->flags & O_DSYNC)
		durable_writes++;
	else
		stand();
	return err;
}

struct writer { /* and its file */
	struct client *who;
	const char *name;
	int flags;
	struct file *file;
};

static int writer_make(struct writer *w)
{
	cleanup_inode struct inode *parent = root();
	struct create_in in = { .loc = { .parent = parent, .name = w->name }, .flags = O_RDWR | w->flags, .mode = 0644 };
	struct replica_stamp stamp = { .epoch = view.epoch, .sequence = 1, .time = 1000000000 };
	struct create_out made = { 0 };
	int err;

	gfid_create(&in.gfid);
	err = call(w->who, &stamp, NULL, FOP_create, &in, &made);
	w->file = err ? NULL : file_ref(made.file);
	fop_out_clear(FOP_create, &made);
	return err;
}

static void writer_write(void *arg)
{
	struct writer *w = arg;
	cleanup_buffer struct buffer *data = buffer_from("data", 4);
	struct replica_stamp stamp = { .epoch = view.epoch, .sequence = 2, .time = 1000000000 };
	struct write_out out = { 0 };

	if (call(w->who, &stamp, NULL, FOP_write, &(struct write_in){ .file = w->file, .data = data }, &out) != 0)
		failures++;
	ended++;
}

static void writer_sync(void *arg)
{
	struct writer *w = arg;
	struct replica_stamp stamp = { .epoch = view.epoch };
	struct fsync_out out = { 0 };

	if (call(w->who, &stamp, NULL, FOP_fsync, &(struct fsync_in){ .file = w->file }, &out) != 0)
		failures++;
	ended++;
}

static int wait_for(atomic_int *number, int value)
{
	for (int i = 0; i < 12000 && *number < value; i++)
		task_sleep_ms(5);
	return *number;
}

static void slow_(void *arg)
{
	struct xlator *leaf = tree_find(&tree, "leaf");
	struct writer waits = { .who = &acme, .name = "f", .flags = O_DSYNC }, stands = { .who = &globex, .name = "g" };
	static struct xlator_type slow;
	struct lease_reply r = { 0 };

	(void)arg;
	slow = *leaf->type;
	memory_write = slow.write;
	slow.write = standing_write;
	slow.fsync = standing_fsync;
	leaf->type = &slow;
	disk_stands = true;
	durable_writes = ended = 0;
	CHECK_INT(view_with_tenants(), 0);
	CHECK_INT(writer_make(&waits), 0);
	CHECK_INT(writer_make(&stands), 0);
	CHECK_INT(task_spawn(NULL, writer_sync, &waits), 0);
	task_sleep_ms(5);
	CHECK_INT(task_spawn(NULL, writer_write, &waits), 0);
	CHECK_INT(wait_for(&durable_writes, 1), 1);
	CHECK_INT(task_spawn(NULL, writer_write, &stands), 0);
	for (int i = 0; i < 12000 && !r.failures;
	     i++) { /* it began last: when it is slow, the other one has waited for longer */
		task_sleep_ms(5);
		CHECK_INT(lease(&r), 0);
	}
	CHECK_INT(r.failures, 1);
	CHECK_INT(memcmp(r.failure[0].session, globex_id, sizeof(globex_id)), 0);
	disk_stands = false;
	CHECK_INT(wait_for(&ended, 3), 3);
	file_unref(waits.file);
	file_unref(stands.file);
}

/* A sync takes as long as much was written: else who writes much, and then a little durably, makes the member look broken. */
static void a_durable_write_that_waits_for_a_sync_of_its_file_is_not_slow(void **state)
{
	(void)state;
	on(ON_MEMORY, slow_);
}

static void bounds_(void *arg)
{
	struct gfid g;

	(void)arg;
	CHECK_INT(view_with_tenants(), 0);
	CHECK_INT(attach(&globex, acme_id), -EACCES);
	CHECK_INT(attach(&client, acme_id), -EACCES);
	CHECK_INT(attach(&acmes, acmes_id), 0);
	CHECK_INT(attach(&acmes, (const uint8_t[16]){ 7 }), 0);
	CHECK_INT(attach(&acme, (const uint8_t[16]){ 8 }), 0);
	CHECK_INT(attach(&acmes, more_id), -EMFILE); /* four of all its clients */
	CHECK_INT(attach(&globex, more_id), 0);
	for (int i = 0; i < 16; i++) {
		gfid_create(&g);
		CHECK_INT(acquire_first(i & 1 ? &acme : &acmes, &g), 0);
	}
	gfid_create(&g);
	CHECK_INT(acquire(&acme, &g), -ENOLCK);
	CHECK_INT(acquire(&globex, &g), 0);
	for (uint64_t i = 1; i <= 16; i++)
		CHECK_INT(touch_root(&acme, i), 0);
	CHECK_INT(touch_root(&acme, 17), -ERECOVERING);
	CHECK_INT(touch_root(&globex, 1), 0);
	CHECK_INT(say_number(&acme, REPLICA_SETTLE, 1), 0);
	CHECK_INT(touch_root(&acme, 17), 0);
}

static void one_tenants_sessions_tokens_and_changes_are_bounded(void **state)
{
	(void)state;
	on(ON_MEMORY, bounds_);
}

static void moves_(void *arg)
{
	(void)arg;
	CHECK_INT(view_with_tenants(), 0);
	CHECK_INT(acquire_first(&acme, &gfid_rename_token), 0);
	CHECK_INT(acquire(&globex, &gfid_rename_token), 0);
	CHECK_INT(acquire(&client, &gfid_rename_token), 0);
	CHECK_INT(acquire(&stranger, &gfid_rename_token), -ERECOVERING);
}

static void tenants_do_not_wait_for_each_others_renames(void **state)
{
	(void)state;
	on(ON_MEMORY, moves_);
}

const struct CMUnitTest tenants[] = {
	cmocka_unit_test(a_tenant_has_members_asked_and_no_more),
	cmocka_unit_test(what_a_tenant_leaves_makes_few_views),
	cmocka_unit_test(no_room_for_more_than_a_note_tells_of_says_nothing_of_a_disk),
	cmocka_unit_test(a_full_disk_is_told_by_what_only_makes_things),
	cmocka_unit_test(a_durable_write_that_waits_for_a_sync_of_its_file_is_not_slow),
	cmocka_unit_test(one_tenants_sessions_tokens_and_changes_are_bounded),
	cmocka_unit_test(tenants_do_not_wait_for_each_others_renames),
};
const unsigned tenants_count = sizeof(tenants) / sizeof(tenants[0]);
