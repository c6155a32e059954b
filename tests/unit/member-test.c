/* SPDX-License-Identifier: Apache-2.0 */
/* features/replica: what a member refuses while a recovery is under way, and what it does once that has ended. The test is its coordinator and its
 * client. On debug/memory, or (as root) on storage/posix. */
#include "test-tasks.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "replica.h"
#include "tree.h"

#define LEASE_NS 60000000000ull

static struct tree tree;
static char base[128];
static int failures;
static struct client coordinator, client;
static const uint8_t secret[REPLICA_SECRET_SIZE], session[16] = { 1 };
static struct view view;
static uint64_t sequence;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void open_member(const char *leaf)
{
	struct problem problem = { "" };
	char text[1024], path[160];
	FILE *f;

	snprintf(base, sizeof(base), "%s/member.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp");
	assert_non_null(mkdtemp(base));
	snprintf(path, sizeof(path), "%s/brick", base);
	assert_int_equal(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/secret", base);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "%064d\n", 0);
	fclose(f);
	snprintf(text, sizeof(text),
		 "volume leaf\n%s%s%send-volume\nvolume replica\n type features/replica\n option state-dir %s/state\n"
		 " option secret-file %s/secret\n option member 0\n subvolumes leaf\nend-volume\n",
		 leaf, strstr(leaf, "posix") ? base : "", strstr(leaf, "posix") ? "/brick\n" : "", base, base);
	failures = 0;
	sequence = 0;
	if (tree_open(&tree, text, &problem))
		fail_msg("%s", problem.text);
}

static void on(const char *leaf, task_fn *fn)
{
	open_member(leaf);
	assert_int_equal(task_call(fn, NULL), 0);
	tree_close(&tree);
	nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	assert_int_equal(failures, 0);
}

#define ON_MEMORY " type debug/memory\n"
#define ON_POSIX                                                                                                               \
	" type storage/posix\n option volume-id 6d6a1f70-0d3c-4c1d-9a65-3d1a7c1f4b01\n"                                        \
	" option brick-id 0f0e0d0c-0b0a-4908-8706-050403020100\n option free-space-floor 0\n option directory "

/* ---- the coordinator ---- */

/* Takes what `more` holds. */
static int tell(enum replica_verb verb, uint64_t epoch, struct pack *more, struct blob *answer)
{
	struct replica_in in = { .verb = verb };
	struct replica_out out = { 0 };
	struct pack p = { 0 };
	int err;

	pack_bytes(&p, secret, sizeof(secret));
	pack_u64(&p, epoch);
	pack_bytes(&p, more->bytes, more->size);
	pack_free(more);
	tree.client = &coordinator;
	err = pack_end(&p, &in.data);
	if (!err)
		err = tree_call(&tree, tree.at, FOP_replica, &in, &out);
	if (answer) {
		*answer = out.data;
		out.data = (struct blob){ 0 };
	}
	fop_out_clear(FOP_replica, &out);
	free(in.data.bytes);
	return err;
}

static int lease(struct lease_reply *r)
{
	struct lease_call c = { .epoch = view.epoch, .clock = clock_ns(), .lease_ns = LEASE_NS, .writable = true };
	struct blob answer = { 0 };
	struct pack p = { 0 };
	struct unpack u;
	int err;

	pack_lease_call(&p, &c);
	err = tell(REPLICA_LEASE, view.epoch, &p, &answer);
	u = unpack_blob(&answer);
	unpack_lease_reply(&u, r);
	free(answer.bytes);
	return err;
}

static int attach(void)
{
	struct replica_in in = { .verb = REPLICA_ATTACH };
	struct replica_out out = { 0 };
	struct pack p = { 0 };
	int err;

	pack_bytes(&p, session, sizeof(session));
	tree.client = &client;
	err = pack_end(&p, &in.data);
	if (!err)
		err = tree_call(&tree, tree.at, FOP_replica, &in, &out);
	fop_out_clear(FOP_replica, &out);
	free(in.data.bytes);
	return err;
}

/* The next view, of this member alone. `under_way` is recovered in it; NULL: nothing. */
static int change_view(const struct note *under_way)
{
	struct lease_reply r = { 0 };
	struct pack p = { 0 };
	int err = lease(&r);

	view = (struct view){ .epoch = r.epoch + 1, .members = 1, .arbiter = REPLICAS_MAX };
	view.state[0] = MEMBER_IN;
	view.incarnation[0] = r.incarnation;
	pack_view(&p, &view);
	err = err ? err : tell(REPLICA_FREEZE, view.epoch, &p, NULL);
	if (!err && under_way) {
		pack_note(&p, under_way);
		err = tell(REPLICA_ADD_NOTES, view.epoch, &p, NULL);
	}
	pack_view(&p, &view);
	pack_u32(&p, 0);
	err = err ? err : tell(REPLICA_ACTIVATE, view.epoch, &p, NULL);
	err = err ? err : lease(&r);
	return err ? err : attach();
}

static int resolve(struct note *n)
{
	struct pack p = { 0 };

	n->resolved = true;
	pack_note(&p, n);
	return tell(REPLICA_RESOLVE, view.epoch, &p, NULL);
}

/* ---- both ---- */

static int call(struct client *from, const struct replica_stamp *stamp, enum fop fop, const void *in, void *out)
{
	struct request rq;
	int err;

	request_init(&rq, tree.graph, 0);
	rq.client = from;
	err = stamp_attach(&rq, stamp);
	if (!err)
		err = fop_call(&rq, tree.at, fop, in, out);
	request_finish(&rq);
	return err;
}

static int change(uint64_t number, enum fop fop, const void *in, void *out)
{
	struct replica_stamp stamp = { .epoch = view.epoch, .sequence = number, .time = 1000000000 };

	return call(&client, &stamp, fop, in, out);
}

static struct inode *root(void)
{
	return inode_get(tree.graph->inodes, &gfid_root, S_IFDIR);
}

static int make(const char *name, struct file **file)
{
	cleanup_inode struct inode *parent = root();
	struct create_in in = { .loc = { .parent = parent, .name = name }, .flags = O_RDWR, .mode = 0644 };
	struct create_out out = { 0 };
	int err;

	gfid_create(&in.gfid);
	err = change(++sequence, FOP_create, &in, &out);
	*file = err ? NULL : file_ref(out.file);
	fop_out_clear(FOP_create, &out);
	return err;
}

/* *n: its note. */
static int drop(const char *name, struct note *n)
{
	cleanup_inode struct inode *parent = root();
	struct unlink_in in = { .loc = { .parent = parent, .name = name } };
	struct unlink_out out = { 0 };
	int err = note_of(FOP_unlink, &in, n);

	memcpy(n->session, session, sizeof(session));
	n->sequence = ++sequence;
	n->status = 0;
	return err ? err : change(sequence, FOP_unlink, &in, &out);
}

static int put(uint64_t number, struct file *file)
{
	struct write_in in = { .file = file, .data = buffer_from("data", 4) };
	struct write_out out = { 0 };
	int err = change(number, FOP_write, &in, &out);

	buffer_unref(in.data);
	return err;
}

/* ---- the tests ---- */

/* What lost its name by an unlink that may be undone is made anew then: what had been done to the one that is left would be lost. */
static void nameless_(void *arg)
{
	cleanup_file struct file *dropped = NULL, *other = NULL;
	struct note n;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("dropped", &dropped), 0);
	CHECK_INT(make("other", &other), 0);
	CHECK_INT(drop("dropped", &n), 0);
	CHECK_INT(put(++sequence, dropped), 0);
	CHECK_INT(change_view(&n), 0);
	CHECK_INT(put(++sequence, dropped), -ERECOVERING);
	CHECK_INT(put(sequence + 1, other), 0);
	CHECK_INT(resolve(&n), 0);
	CHECK_INT(put(sequence, dropped), 0);
}

static void a_file_without_a_name_is_not_changed_while_something_is_recovered(void **state)
{
	(void)state;
	on(ON_MEMORY, nameless_);
	if (!geteuid())
		on(ON_POSIX, nameless_);
}

/* As a recovery does that undoes the unlink. */
static int make_anew(const char *name, const struct gfid *gfid)
{
	cleanup_inode struct inode *parent = root();
	struct replica_stamp stamp = { .epoch = view.epoch, .flags = REPLICA_HEAL, .time = 1000000000 };
	struct mknod_in in = { .loc = { .parent = parent, .name = name }, .gfid = *gfid, .mode = S_IFREG | 0644 };
	struct mknod_out out = { 0 };
	int err = call(&coordinator, &stamp, FOP_mknod, &in, &out);

	fop_out_clear(FOP_mknod, &out);
	return err;
}

static void opened_anew_(void *arg)
{
	cleanup_file struct file *former = NULL, *file = NULL;
	struct open_out opened = { 0 };
	struct open_in open = { .flags = O_RDWR };
	struct note n;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &former), 0);
	CHECK_INT(drop("f", &n), 0);
	CHECK_INT(change_view(&n), 0);
	CHECK_INT(make_anew("f", &former->inode->gfid), 0);
	CHECK_INT(put(++sequence, former), -ERECOVERING);
	CHECK_INT(resolve(&n), 0);
	CHECK_INT(put(sequence, former), -ESTALE);
	open.inode = former->inode;
	CHECK_INT(tree_call(&tree, tree.at, FOP_open, &open, &opened), 0);
	file = file_ref(opened.file);
	fop_out_clear(FOP_open, &opened);
	CHECK_INT(put(sequence, file), 0);
}

static void what_came_by_a_stale_file_is_done_by_another(void **state)
{
	(void)state;
	if (!geteuid())
		on(ON_POSIX, opened_anew_);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_without_a_name_is_not_changed_while_something_is_recovered),
		cmocka_unit_test(what_came_by_a_stale_file_is_done_by_another),
	};

	return cmocka_run_group_tests(tests, tasks_start, tasks_stop);
}
