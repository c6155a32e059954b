/* SPDX-License-Identifier: Apache-2.0 */
/* features/replica: what a member refuses while a recovery is under way, and what it does once that has ended. The test is its coordinator and its
 * client. On debug/memory, or (as root) on storage/posix. */
#include "member-test.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct tree tree;
static char base[128], volfile[1024];
int failures;
struct client coordinator, client, stranger;
static const uint8_t secret[REPLICA_SECRET_SIZE];
const uint8_t session[16] = { 1 }, strangers[16] = { 2 };
struct view view;
unsigned other_members;
uint32_t anew;
uint64_t sequence, generation, prune;
bool unproven, unwritable, changes_wait;
const char *below = "";
unsigned set_number;

static int open_tree(struct problem *p)
{
	char text[sizeof(volfile) + 32];

	snprintf(text, sizeof(text), volfile, set_number);
	return tree_open(&tree, text, p);
}

static void open_member(const char *leaf)
{
	struct problem problem = { "" };
	char path[160];
	FILE *f;

	test_directory(base, sizeof(base), "member");
	snprintf(path, sizeof(path), "%s/brick", base);
	assert_int_equal(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/secret", base);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "%064d\n", 0);
	fclose(f);
	snprintf(
		volfile, sizeof(volfile),
		"%svolume leaf\n%s%s%send-volume\nvolume replica\n type features/replica\n option state-dir %s/state\n"
		" option secret-file %s/secret\n option member 0\n option set %%u\n option tenant-sessions 4\n option tenant-tokens 16\n"
		" option tenant-changes 16\n subvolumes leaf\nend-volume\n",
		below, leaf, strstr(leaf, "posix") ? base : "", strstr(leaf, "posix") ? "/brick\n" : "", base, base);
	failures = 0;
	sequence = generation = 0;
	if (open_tree(&problem))
		fail_msg("%s", problem.text);
}

const char *state_path(const char *name)
{
	static char path[200];

	snprintf(path, sizeof(path), "%s/state/%s", base, name);
	return path;
}

int reopen(void)
{
	struct problem problem = { "" };

	tree_close(&tree);
	return open_tree(&problem);
}

void on(const char *leaf, task_fn *fn)
{
	open_member(leaf);
	assert_int_equal(task_call(fn, NULL), 0);
	tree_close(&tree);
	test_remove(base);
	assert_int_equal(failures, 0);
}

/* ---- the coordinator ---- */

void pack_secret(struct pack *p)
{
	pack_bytes(p, secret, sizeof(secret));
	pack_u64(p, view.epoch);
}

int tell(enum replica_verb verb, uint64_t epoch, struct pack *more, struct blob *answer)
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

static bool needed; /* as leases say */

int lease(struct lease_reply *r)
{
	struct lease_call c = { .epoch = view.epoch,
				.clock = clock_ns(),
				.lease_ns = LEASE_NS,
				.generation = generation,
				.prune = prune,
				.writable = !unwritable,
				.unproven = unproven,
				.changes_wait = changes_wait,
				.needed = needed };
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

/* As a client: the brick's answer is not looked at. */
int say(struct client *who, uint32_t verb, struct pack *p)
{
	struct replica_in in = { .verb = verb };
	struct replica_out out = { 0 };
	int err = pack_end(p, &in.data);

	tree.client = who;
	if (!err)
		err = tree_call(&tree, tree.at, FOP_replica, &in, &out);
	fop_out_clear(FOP_replica, &out);
	free(in.data.bytes);
	return err;
}

int attach(struct client *who, const uint8_t id[16])
{
	struct pack p = { 0 };

	pack_bytes(&p, id, sizeof(session));
	return say(who, REPLICA_ATTACH, &p);
}

/* The next view, with this member in that state. Of several it is BACK, and another is IN. */
static int next_view(enum member_state state)
{
	struct lease_reply r = { 0 };
	struct pack p = { 0 };
	int err = lease(&r);

	view = (struct view){ .epoch = r.epoch + 1, .members = 2, .arbiter = REPLICAS_MAX, .order = { 0, 1 } };
	view.members = (uint8_t)(state == MEMBER_IN ? 1 + other_members : 2);
	view.state[1] = state == MEMBER_IN ? MEMBER_OUT : MEMBER_IN;
	view.state[0] = state;
	for (unsigned i = 1; i <= other_members; i++) {
		view.state[i] = MEMBER_IN;
		view.order[i] = (uint8_t)i;
	}
	view.incarnation[0] = r.incarnation;
	pack_view(&p, &view);
	return err ? err : tell(REPLICA_FREEZE, view.epoch, &p, NULL);
}

static int activate(int err)
{
	struct lease_reply r;
	struct pack p = { 0 };

	pack_view(&p, &view);
	pack_u32(&p, 0);
	pack_u8(&p, 0);
	pack_u32(&p, anew);
	err = err ? err : tell(REPLICA_ACTIVATE, view.epoch, &p, NULL);
	err = err ? err : lease(&r);
	err = err ? err : attach(&client, session);
	return err ? err : attach(&stranger, strangers);
}

int freeze(void)
{
	return next_view(MEMBER_IN);
}

int change_view(const struct note *under_way)
{
	struct pack p = { 0 };
	int err = freeze();

	if (!err && under_way) {
		pack_note(&p, under_way);
		err = tell(REPLICA_ADD_NOTES, view.epoch, &p, NULL);
	}
	return activate(err);
}

int come_back(const struct gfid *pending)
{
	struct pack p = { 0 };
	int err = next_view(MEMBER_BACK);

	pack_u8(&p, 0);
	pack_gfid(&p, pending);
	return activate(err ? err : tell(REPLICA_ADD_PENDING, view.epoch, &p, NULL));
}

int resolve(struct note *n)
{
	struct pack p = { 0 };

	n->resolved = true;
	pack_note(&p, n);
	return tell(REPLICA_RESOLVE, view.epoch, &p, NULL);
}

/* ---- both ---- */

int call(struct client *from, const struct replica_stamp *stamp, const struct place *place, enum fop fop, const void *in,
	 void *out)
{
	struct request rq;
	int err;

	request_init(&rq, tree.graph, 0);
	rq.client = from;
	err = stamp_attach(&rq, stamp);
	if (!err && place)
		err = place_attach(&rq, place);
	if (!err)
		err = fop_call(&rq, tree.at, fop, in, out);
	request_finish(&rq);
	return err;
}

int change(uint64_t number, enum fop fop, const void *in, void *out)
{
	struct replica_stamp stamp = { .epoch = view.epoch, .sequence = number, .time = 1000000000 };

	return call(&client, &stamp, NULL, fop, in, out);
}

struct inode *root(void)
{
	return inode_get(tree.graph->inodes, &gfid_root, S_IFDIR);
}

int make_as(const char *name, const struct gfid *gfid, struct file **file)
{
	cleanup_inode struct inode *parent = root();
	struct create_in in = { .loc = { .parent = parent, .name = name }, .flags = O_RDWR, .mode = 0644 };
	struct create_out out = { 0 };
	int err;

	in.gfid = *gfid;
	err = change(++sequence, FOP_create, &in, &out);
	*file = err ? NULL : file_ref(out.file);
	fop_out_clear(FOP_create, &out);
	return err;
}

int make(const char *name, struct file **file)
{
	struct gfid gfid;

	gfid_create(&gfid);
	return make_as(name, &gfid, file);
}

int drop(const char *name, struct note *n)
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

int put(uint64_t number, struct file *file)
{
	struct write_in in = { .file = file, .data = buffer_from("data", 4) };
	struct write_out out = { 0 };
	int err = change(number, FOP_write, &in, &out);

	buffer_unref(in.data);
	return err;
}

/* ---- the tests ---- */

struct note *note_with(enum fop fop, const void *in, const struct gfid *first, const struct gfid *second)
{
	static struct note n;
	struct place place = { 0 };
	struct request rq;

	if (first)
		place.expected[0] = *first;
	if (second)
		place.expected[1] = *second;
	request_init(&rq, tree.graph, 0);
	if (note_of(fop, in, &n) || place_attach(&rq, &place))
		failures++;
	note_expect(&n, &rq);
	request_finish(&rq);
	memcpy(n.session, session, sizeof(session));
	n.sequence = ++sequence;
	n.status = 0;
	return &n;
}

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

static void a_file_without_a_name_is_not_changed_while_it_may_be_made_anew(void **state)
{
	(void)state;
	on(ON_MEMORY, nameless_);
	if (!geteuid())
		on(ON_POSIX, nameless_);
}

/* What becomes of a change of what has no name, while that is recovered. */
static int put_while(struct note *n, struct file *file)
{
	int err = change_view(n), resolved;

	if (!err)
		err = put(++sequence, file);
	resolved = resolve(n);
	return resolved ? resolved : err;
}

static void others_recover_(void *arg)
{
	static const uint8_t nobody[16];
	cleanup_file struct file *dropped = NULL, *other = NULL;
	cleanup_inode struct inode *parent = root();
	struct unlink_in unlinked = { .loc = { .parent = parent, .name = "dropped" } };
	struct rmdir_in removed = { .loc = { .parent = parent, .name = "directory" } };
	struct rename_in renamed = { .from = { .parent = parent, .name = "from" },
				     .to = { .parent = parent, .name = "dropped" } };
	struct write_in wrote = { .data = NULL };
	const struct gfid *gone, *there;
	static struct note n;
	struct note *cold;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("dropped", &dropped), 0);
	CHECK_INT(make("other", &other), 0);
	CHECK_INT(drop("dropped", &n), 0);
	wrote.file = other;
	gone = &dropped->inode->gfid;
	there = &other->inode->gfid;
	CHECK_INT(put_while(note_with(FOP_write, &wrote, NULL, NULL), dropped), 0);
	CHECK_INT(put_while(note_with(FOP_rmdir, &removed, NULL, NULL), dropped), -ERECOVERING);
	CHECK_INT(put_while(note_with(FOP_unlink, &unlinked, NULL, NULL), dropped), -ERECOVERING);
	CHECK_INT(put_while(note_with(FOP_unlink, &unlinked, gone, NULL), dropped), -ERECOVERING);
	CHECK_INT(put_while(note_with(FOP_unlink, &unlinked, there, NULL), dropped), 0);
	CHECK_INT(put_while(note_with(FOP_rename, &renamed, there, NULL), dropped), -ERECOVERING);
	CHECK_INT(put_while(note_with(FOP_rename, &renamed, there, gone), dropped), -ERECOVERING);
	CHECK_INT(put_while(note_with(FOP_rename, &renamed, there, there), dropped), 0);
	cold = note_with(FOP_write, &wrote, NULL, NULL);
	memcpy(cold->session, nobody, sizeof(nobody));
	CHECK_INT(put_while(cold, dropped), -ERECOVERING);
	CHECK_INT(put(++sequence, dropped), 0);
}

static void a_file_without_a_name_is_changed_while_nothing_can_give_it_one(void **state)
{
	(void)state;
	on(ON_MEMORY, others_recover_);
	if (!geteuid())
		on(ON_POSIX, others_recover_);
}

/* ---- how many names there are ---- */

static unsigned waits(void)
{
	char *text = NULL, *at;
	unsigned count = 0;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	tree.at->type->dump(tree.at, f);
	fclose(f);
	at = strstr(text, "waits: ");
	if (at)
		count = (unsigned)atoi(at + strlen("waits: "));
	free(text);
	return count;
}

struct counting { /* of the names of what is open, by somebody else */
	struct file *file;
	atomic_bool ended;
	int err;
	uint32_t nlink;
};

static void count_names(void *arg)
{
	struct counting *c = arg;
	struct getattr_in in = { .inode = c->file->inode };
	struct getattr_out out = { 0 };

	c->err = call(&stranger, &(struct replica_stamp){ .epoch = view.epoch }, NULL, FOP_getattr, &in, &out);
	c->nlink = out.attr.nlink;
	atomic_store(&c->ended, true);
}

/* True if it waits for something, instead of ending. */
static bool waits_while_counting(struct counting *c, struct file *file)
{
	unsigned before = waits();

	*c = (struct counting){ .file = file };
	if (task_spawn(NULL, count_names, c))
		return false;
	while (!atomic_load(&c->ended) && waits() == before)
		task_sleep_ms(1);
	return waits() != before;
}

static void counted(struct counting *c)
{
	while (!atomic_load(&c->ended))
		task_sleep_ms(1);
}

int settle(uint64_t up_to)
{
	struct pack p = { 0 };

	pack_u64(&p, view.epoch);
	pack_u64(&p, up_to);
	return say(&client, REPLICA_SETTLE, &p);
}

static int give_second_name(struct file *file)
{
	cleanup_inode struct inode *parent = root();
	struct link_in in = { .inode = file->inode, .loc = { .parent = parent, .name = "second" } };
	struct link_out out = { 0 };

	return change(++sequence, FOP_link, &in, &out);
}

/* The name "second", as cluster/dht does it with a pointer. */
static int drop_expected(struct file *file, struct note **n)
{
	cleanup_inode struct inode *parent = root();
	struct unlink_in in = { .loc = { .parent = parent, .name = "second" } };
	struct unlink_out out = { 0 };
	struct place place = { .expected = { file->inode->gfid } };
	struct replica_stamp stamp = { .epoch = view.epoch, .time = 1000000000 };

	*n = note_with(FOP_unlink, &in, &file->inode->gfid, NULL);
	stamp.sequence = (*n)->sequence;
	return call(&client, &stamp, &place, FOP_unlink, &in, &out);
}

static void expected_(void *arg)
{
	cleanup_file struct file *file = NULL;
	static struct counting c;
	struct note *n;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("first", &file), 0);
	CHECK_INT(give_second_name(file), 0);
	CHECK_INT(settle(sequence), 0);
	CHECK_INT(drop_expected(file, &n), 0);
	CHECK_INT(waits_while_counting(&c, file), true);
	CHECK_INT(settle(sequence), 0);
	counted(&c);
	CHECK_INT(c.err, 0);
	CHECK_INT(c.nlink, 1);
	CHECK_INT(give_second_name(file), 0);
	CHECK_INT(settle(sequence), 0);
	CHECK_INT(drop_expected(file, &n), 0);
	CHECK_INT(change_view(n), 0);
	CHECK_INT(waits_while_counting(&c, file), true);
	n->status = -ECANCELED;
	CHECK_INT(resolve(n), 0);
	counted(&c);
	CHECK_INT(c.err, 0);
}

static void names_are_not_counted_while_one_is_taken_that_may_come_back(void **state)
{
	(void)state;
	on(ON_MEMORY, expected_);
	if (!geteuid())
		on(ON_POSIX, expected_);
}

/* As a recovery does that undoes the unlink. */
static int make_anew(const char *name, const struct gfid *gfid)
{
	cleanup_inode struct inode *parent = root();
	struct replica_stamp stamp = { .epoch = view.epoch, .flags = REPLICA_HEAL, .time = 1000000000 };
	struct mknod_in in = { .loc = { .parent = parent, .name = name }, .gfid = *gfid, .mode = S_IFREG | 0644 };
	struct mknod_out out = { 0 };
	int err = call(&coordinator, &stamp, NULL, FOP_mknod, &in, &out);

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

/* ---- while a scrub is owed ---- */

int look(void)
{
	cleanup_inode struct inode *top = root();
	struct lookup_in in = { .loc = { .parent = top, .name = "f" } };
	struct lookup_out out = { 0 };
	int err;

	tree.client = &client; /* its own changes it may see */
	err = tree_call(&tree, tree.at, FOP_lookup, &in, &out);
	fop_out_clear(FOP_lookup, &out);
	return err;
}

static void unproven_(void *arg)
{
	cleanup_file struct file *file = NULL;
	struct lease_reply r;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	CHECK_INT(look(), 0);
	unproven = true;
	CHECK_INT(lease(&r), 0);
	CHECK_INT(look(), -ERECOVERING);
	CHECK_INT(put(++sequence, file), 0); /* changes go to all */
	unproven = false;
	CHECK_INT(lease(&r), 0);
	CHECK_INT(look(), 0);
}

static void who_may_differ_from_the_first_is_not_read(void **state)
{
	(void)state;
	on(ON_MEMORY, unproven_);
}

/* ---- what clients send once more ---- */

/* How many changes the member tells of as sent once more; *err: of the answer. */
static unsigned tell_repeated(uint64_t epoch, int *err)
{
	struct blob answer = { 0 };
	struct pack p = { 0 };
	struct unpack u;
	unsigned count = 0;

	*err = tell(REPLICA_REPEATED, epoch, &p, &answer);
	u = unpack_blob(&answer);
	while (!*err && unpack_more(&u)) {
		struct note n;

		unpack_note(&u, &n);
		count += n.fop == FOP_write && n.sequence == sequence && !n.status;
	}
	free(answer.bytes);
	return count;
}

static void repeated_(void *arg)
{
	cleanup_file struct file *file = NULL;
	struct lease_reply r;
	int err;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	CHECK_INT(put(++sequence, file), 0);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.repeated, 0);
	CHECK_INT(put(sequence, file), 0);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.repeated, 1);
	CHECK_INT(tell_repeated(view.epoch, &err), 1);
	CHECK_INT(err, 0);
	tell_repeated(view.epoch - 1, &err);
	CHECK_INT(err, -EVIEW);
	CHECK_INT(settle(sequence), 0);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.repeated, 0);
}

static void a_member_tells_what_was_sent_once_more(void **state)
{
	(void)state;
	on(ON_MEMORY, repeated_);
}

/* ---- an end in good order ---- */

static bool retires(void)
{
	return tree.at->type->retire(tree.at);
}

/* The coordinator has it step down: with no lease for the view. */
static int step_down(void)
{
	struct lease_call c = { .epoch = view.epoch };
	struct pack p = { 0 };

	pack_lease_call(&p, &c);
	return tell(REPLICA_LEASE, view.epoch, &p, NULL);
}

static void ends_(void *arg)
{
	cleanup_file struct file *file = NULL;
	struct lease_reply r;

	(void)arg;
	CHECK_INT(retires(), true); /* it is in no view */
	CHECK_INT(reopen(), 0);
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(make("f", &file), 0);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.leaving, 0);
	CHECK_INT(retires(), false);
	CHECK_INT(lease(&r), 0);
	CHECK_INT(r.leaving, 1);
	CHECK_INT(put(++sequence, file), 0); /* it serves as before */
	CHECK_INT(retires(), false);
	CHECK_INT(step_down(), 0);
	CHECK_INT(retires(), true);
}

static void who_ends_in_good_order_says_so_and_serves_until_the_view_is_without_it(void **state)
{
	(void)state;
	on(ON_MEMORY, ends_);
}

static void needed_(void *arg)
{
	struct lease_reply r;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	CHECK_INT(retires(), false);
	needed = true;
	CHECK_INT(lease(&r), 0);
	needed = false;
	CHECK_INT(retires(), true);
}

static void who_ends_and_can_not_be_spared_waits_for_nothing(void **state)
{
	(void)state;
	on(ON_MEMORY, needed_);
}

/* The secret alone does not do where certificates say who somebody is. */
static void certified_(void *arg)
{
	struct lease_reply r;

	(void)arg;
	CHECK_INT(change_view(NULL), 0);
	coordinator.identity = "stratus:client/desk";
	CHECK_INT(lease(&r), -EPERM);
	coordinator.identity = "stratus:server2";
	CHECK_INT(lease(&r), -EPERM);
	coordinator.identity = "stratus:server";
	CHECK_INT(lease(&r), 0);
	coordinator.identity = NULL; /* nobody has vouched for it: without TLS */
	CHECK_INT(lease(&r), 0);
}

static void with_certificates_only_servers_coordinate(void **state)
{
	(void)state;
	on(ON_MEMORY, certified_);
}

/* What it has not opened is not its own to close: descriptor 0 is another's. */
static void a_member_that_does_not_start_closes_nothing(void **state)
{
	static const char text[] = "volume leaf\n type debug/memory\nend-volume\n"
				   "volume replica\n type features/replica\n option state-dir /none/state\n"
				   " option secret-file /none/secret\n option member 0\n subvolumes leaf\nend-volume\n";
	struct problem p = { "" };
	struct tree none;

	(void)state;
	if (fcntl(0, F_GETFD) < 0)
		assert_int_equal(open("/dev/null", O_RDONLY), 0); /* the least that is free */
	assert_int_not_equal(tree_open(&none, text, &p), 0);
	assert_non_null(strstr(p.text, "/none/secret")); /* it has begun to start */
	assert_true(fcntl(0, F_GETFD) >= 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_member_that_does_not_start_closes_nothing),
		cmocka_unit_test(a_file_without_a_name_is_not_changed_while_it_may_be_made_anew),
		cmocka_unit_test(a_file_without_a_name_is_changed_while_nothing_can_give_it_one),
		cmocka_unit_test(names_are_not_counted_while_one_is_taken_that_may_come_back),
		cmocka_unit_test(what_came_by_a_stale_file_is_done_by_another),
		cmocka_unit_test(who_may_differ_from_the_first_is_not_read),
		cmocka_unit_test(a_member_tells_what_was_sent_once_more),
		cmocka_unit_test(who_ends_in_good_order_says_so_and_serves_until_the_view_is_without_it),
		cmocka_unit_test(who_ends_and_can_not_be_spared_waits_for_nothing),
		cmocka_unit_test(with_certificates_only_servers_coordinate),
	};

	int failed = cmocka_run_group_tests(tests, tasks_start, tasks_stop);

	failed += _cmocka_run_group_tests("tenants", tenants, tenants_count, tasks_start, tasks_stop);
	failed += _cmocka_run_group_tests("guards", guards, guards_count, tasks_start, tasks_stop);
	failed += _cmocka_run_group_tests("losses", losses, losses_count, tasks_start, tasks_stop);
	failed += _cmocka_run_group_tests("tokens", tokens, tokens_count, tasks_start, tasks_stop);
	failed += _cmocka_run_group_tests("departures", departures, departures_count, tasks_start, tasks_stop);
	failed += _cmocka_run_group_tests("points", points, points_count, tasks_start, tasks_stop);
	return failed + _cmocka_run_group_tests("trees", trees, trees_count, tasks_start, tasks_stop);
}
