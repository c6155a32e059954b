/* SPDX-License-Identifier: Apache-2.0 */
/* features/layout: a change of a layout and requests by the old one are never done at once. */
#include "shard-test.h"

void hold_tell(const char *word, const char *what)
{
	struct xlator *x = tree_find(&tree, "hold");
	char *argv[] = { (char *)word, (char *)what, NULL };
	FILE *f = fopen("/dev/null", "w");

	x->type->command(x, what ? 2 : 1, argv, f);
	fclose(f);
}

unsigned hold_parked(void)
{
	struct xlator *x = tree_find(&tree, "hold");
	char *argv[] = { (char *)"list", NULL }, *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	unsigned n = 0;

	x->type->command(x, 1, argv, f);
	fclose(f);
	for (const char *at = text; (at = strstr(at, "parked: ")); at++)
		n++;
	free(text);
	return n;
}

void hold_wait(unsigned n)
{
	for (int i = 0; i < tries_of(2) && hold_parked() != n; i++)
		task_sleep_ms(2);
	CHECK_INT(hold_parked(), n);
}

void wait_for(atomic_bool *done)
{
	for (int i = 0; i < tries_of(2) && !*done; i++)
		task_sleep_ms(2);
}

struct job {
	struct inode *d;
	const struct place *place;
	const char *name;
	struct layout layout;
	int err;
	atomic_bool done;
};

static void mkdir_job(void *arg)
{
	struct job *j = arg;

	j->err = make_dir(j->place, j->d, j->name, NULL);
	j->done = true;
}

static void layout_job(void *arg)
{
	struct job *j = arg;

	j->err = put_layout(j->d, &j->layout);
	j->done = true;
}

PROPERTY_AS(, a_layout_waits_for_who_is_inside_and_others_for_it)
{
	cleanup_inode struct inode *top = root(), *d = NULL;
	static struct job old, change, late, new;

	CHECK_INT(make_dir(&v0, top, "d", &d), 0);
	old = (struct job){ .d = d, .place = &v0, .name = name_at(d, SELF, "old") };
	change = (struct job){ .d = d, .layout = layout_of(7) };
	late = (struct job){ .d = d, .place = &v0, .name = name_at(d, SELF, "late") };
	new = (struct job){ .d = d, .place = &v7, .name = name_at(d, SELF, "new") };
	hold_tell("hold", "mkdir"); /* it has been judged, and is not done yet */
	task_spawn(NULL, mkdir_job, &old);
	hold_wait(1);
	task_spawn(NULL, layout_job, &change);
	task_sleep_ms(50);
	CHECK(!change.done);
	task_spawn(NULL, mkdir_job, &late); /* by the layout that still counts, but behind the one to come */
	task_spawn(NULL, mkdir_job, &new);
	task_sleep_ms(50);
	CHECK_INT(hold_parked(), 1);
	CHECK(!late.done && !new.done);
	hold_tell("hold", "none");
	hold_tell("release", "all");
	wait_for(&change.done);
	wait_for(&old.done);
	wait_for(&late.done);
	wait_for(&new.done);
	CHECK(old.done && change.done && late.done && new.done);
	CHECK_INT(old.err, 0);
	CHECK_INT(change.err, 0);
	CHECK_INT(late.err, -ELAYOUT);
	CHECK_INT(new.err, 0);
}

static void look_job(void *arg)
{
	struct job *j = arg;
	cleanup_inode struct inode *top = root();

	j->err = look(&v0, top, "d", NULL, NULL);
	j->done = true;
}

PROPERTY_AS(, what_was_read_before_a_change_is_not_kept_after_it)
{
	cleanup_inode struct inode *top = root(), *d = NULL;
	static struct job reader;
	struct layout l = layout_of(7);
	uint8_t bytes[POINTER_SIZE];
	struct attr attr;

	pointer_encode(&far, bytes);
	CHECK_INT(make_dir(&nowhere, top, "d", &d), 0);
	CHECK_INT(put_layout(d, &l), 0);
	CHECK_INT(look(&v0, top, "nothing", NULL, NULL), -ENOENT); /* the root's are read */
	reader = (struct job){ .d = d };
	hold_tell("hold", "getxattr");
	task_spawn(NULL, look_job, &reader);
	hold_wait(1); /* it has read that d is no pointer, and is about to read the layout */
	CHECK_INT(set(d, DHT_POINTER_XATTR, bytes, sizeof(bytes)), 0);
	hold_tell("hold", "none");
	hold_tell("release", "all");
	wait_for(&reader.done);
	CHECK_INT(reader.err, 0);
	CHECK_INT(look(&v0, top, "d", NULL, &attr), 0);
	CHECK(attr.flags & ATTR_POINTER);
}

/* A file, opened or made. */
static int make_empty(const struct place *p, struct inode *top, const char *name)
{
	struct create_in in = { .loc = { .parent = top, .name = name }, .flags = O_RDWR | O_CREAT, .mode = 0644 };
	struct create_out out = { 0 };
	struct release_out released = { 0 };
	struct request rq;
	int err;

	request_init(&rq, tree.graph, 0);
	rq.group_count = 0;
	gfid_create(&in.gfid);
	err = p == &nowhere ? 0 : place_attach(&rq, p);
	if (!err)
		err = create_on(&rq, tree.at, &in, &out);
	if (!err)
		release_on(&rq, tree.at, &(struct release_in){ .file = out.file }, &released);
	request_finish(&rq);
	fop_out_clear(FOP_create, &out);
	return err;
}

static void make_job(void *arg)
{
	struct job *j = arg;

	j->err = make_empty(&v0, j->d, "f");
	j->done = true;
}

/* While its xattrs are read another client puts something else there. Who asked meant the name. */
PROPERTY_AS(, what_is_replaced_while_it_is_looked_at_is_looked_at_again)
{
	cleanup_inode struct inode *top = root();
	static struct job looks, makes;

	CHECK_INT(look(&v0, top, "nothing", NULL, NULL), -ENOENT); /* the root's are read */
	CHECK_INT(make_dir(&nowhere, top, "d", NULL), 0);
	CHECK_INT(make_dir(&nowhere, top, "e", NULL), 0);
	CHECK_INT(make_empty(&nowhere, top, "f"), 0);
	CHECK_INT(make_empty(&nowhere, top, "g"), 0);
	looks = makes = (struct job){ .d = top };
	hold_tell("hold", "listxattr,getxattr");
	task_spawn(NULL, look_job, &looks);
	task_spawn(NULL, make_job, &makes);
	hold_wait(2);
	CHECK_INT(move(&nowhere, top, "e", top, "d", 0), 0);
	CHECK_INT(move(&nowhere, top, "g", top, "f", 0), 0);
	hold_tell("hold", "none");
	hold_tell("release", "all");
	wait_for(&looks.done);
	wait_for(&makes.done);
	CHECK_INT(looks.err, 0);
	CHECK_INT(makes.err, 0);
}

static void drop_job(void *arg)
{
	struct job *j = arg;

	j->err = drop(&v0, j->d, "f", FOP_unlink);
	j->done = true;
}

/* Between the look at it and the leaf another client puts a pointer there, which is not for everybody to remove. (debug/memory does not
 * compare what it is told to remove.) */
static void taken_late_(void *arg __attribute__((unused)))
{
	struct place pointers = { .flags = PLACE_POINTER };
	cleanup_inode struct inode *top = root();
	static struct job drops;

	CHECK_INT(look(&v0, top, "nothing", NULL, NULL), -ENOENT);
	CHECK_INT(make_empty(&nowhere, top, "f"), 0);
	born_pointer();
	CHECK_INT(make_file(&pointers, top, "g", O_EXCL), 0);
	drops = (struct job){ .d = top };
	hold_tell("hold", "unlink");
	task_spawn(NULL, drop_job, &drops);
	hold_wait(1);
	CHECK_INT(move(&pointers, top, "g", top, "f", 0), 0);
	hold_tell("hold", "none");
	hold_tell("release", "all");
	wait_for(&drops.done);
	CHECK_INT(drops.err, -EPOINTER);
	CHECK_INT(drop(&pointers, top, "f", FOP_unlink), 0);
}

void what_came_while_a_name_is_taken_is_not_taken(void **state)
{
	(void)state;
	if (!geteuid())
		run_on(taken_late_, LEAF_POSIX);
}

/* D2: whoever did something did it by a version that was the shard's at some moment of the call. */
struct storm {
	struct inode *d, *e;
	atomic_uint_fast64_t begun, set; /* versions */
	atomic_int running, done, refused, wrong;
};
static struct storm storm;
static char ball[64]; /* a name that belongs here in either directory */

static void changer(void *arg)
{
	(void)arg;
	for (uint64_t v = 1; v <= 60 && !storm.wrong; v++) {
		struct layout l = layout_of(v);

		storm.begun = v;
		if (put_layout(storm.d, &l) || put_layout(storm.e, &l))
			storm.wrong++;
		storm.set = v;
		task_yield();
	}
	storm.running--;
}

static void user(void *arg)
{
	bool crosses = arg;
	char prefix[32], name[64];

	for (int i = 0; storm.begun < 60 && !storm.wrong; i++) {
		uint64_t before = storm.set;
		struct place p = { .version = { before, before } };
		int err;

		snprintf(prefix, sizeof(prefix), "%p-%d-", (void *)&name, i);
		find_name(storm.d, SELF, prefix, name);
		err = crosses ? move(&p, storm.d, ball, storm.e, ball, 0) : make_dir(&p, storm.d, name, NULL);
		if (crosses && err == -ENOENT)
			err = move(&p, storm.e, ball, storm.d, ball, 0);
		storm.done += !err;
		storm.refused += err == -ELAYOUT;
		if (err && err != -ELAYOUT && err != -ENOENT)
			storm.wrong++;
		if (!err && storm.begun < before)
			storm.wrong++;
		task_yield();
	}
	storm.running--;
}

/* Names by versions that have ended before the call began. None may be done. */
static void latecomer(void *arg)
{
	char name[64];

	(void)arg;
	find_name(storm.d, SELF, "late", name);
	while (storm.begun < 60 && !storm.wrong) {
		uint64_t before = storm.set;
		struct place p = { .version = { before - 1, before - 1 } };

		if (before && make_dir(&p, storm.d, name, NULL) != -ELAYOUT)
			storm.wrong++;
		if (before && look(&p, storm.d, name, NULL, NULL) != -ELAYOUT)
			storm.wrong++;
		task_yield();
	}
	storm.running--;
}

PROPERTY_AS(, nothing_is_done_by_a_layout_that_has_ended)
{
	cleanup_inode struct inode *top = root(), *d = NULL, *e = NULL;

	CHECK_INT(make_dir(&v0, top, "d", &d), 0);
	CHECK_INT(make_dir(&v0, top, "e", &e), 0);
	for (int i = 0;; i++) {
		struct layout l = layout_of(1);

		snprintf(ball, sizeof(ball), "ball%d", i);
		if (layout_owner(&l, layout_key(&d->gfid, ball))->id == SELF &&
		    layout_owner(&l, layout_key(&e->gfid, ball))->id == SELF)
			break;
	}
	CHECK_INT(make_dir(&v0, d, ball, NULL), 0);
	storm = (struct storm){ .d = d, .e = e, .running = 6 };
	task_spawn(runtime_shard(0), changer, NULL);
	for (unsigned i = 0; i < 2; i++) {
		task_spawn(runtime_shard(i), user, NULL);
		task_spawn(runtime_shard(i), user, &storm);
	}
	task_spawn(runtime_shard(1), latecomer, NULL);
	for (int i = 0; i < 10000 && storm.running; i++)
		task_sleep_ms(2);
	CHECK_INT(storm.running, 0);
	CHECK_INT(storm.wrong, 0);
	CHECK(storm.done > 0);
}

/* ---- locks ---- */

static int lock_it(struct file *file, uint32_t type)
{
	struct setlk_in in = { .file = file, .lock = { .kind = LOCK_POSIX, .type = type, .owner = 1, .end = UINT64_MAX } };
	struct setlk_out out = { 0 };

	return call(&v0, FOP_setlk, &in, &out);
}

struct asking {
	struct inode *inode;
	struct file *file;
	char text[CHANGES_TEXT];
	int err;
	atomic_bool done;
};

static void lock_job(void *arg)
{
	struct asking *a = arg;

	a->err = lock_it(a->file, F_WRLCK);
	a->done = true;
}

static void ask_job(void *arg)
{
	struct asking *a = arg;
	struct getxattr_in in = { .inode = a->inode, .name = DHT_CHANGES_XATTR };
	struct getxattr_out out = { 0 };

	a->err = call(&v0, FOP_getxattr, &in, &out);
	snprintf(a->text, sizeof(a->text), "%.*s", (int)out.value.size, (const char *)out.value.bytes);
	fop_out_clear(FOP_getxattr, &out);
	a->done = true;
}

static bool says_locked(const char *text)
{
	char self[GFID_TEXT];
	unsigned locked = 0;

	return sscanf(text, "%*u %36s %u", self, &locked) == 2 && locked;
}

/* The request ends while features/locks is being asked, which may have been before it was granted. (It is ended here by an unlock, so that nothing else tells of
 * it.) */
static void who_is_about_to_lock_counts_(void *arg __attribute__((unused)))
{
	cleanup_inode struct inode *top = root(), *f = NULL;
	static struct asking lock, ask, later;
	struct open_in open = { .flags = O_RDWR };
	struct open_out out = { 0 };
	struct release_out released = { 0 };

	CHECK_INT(make_file(&v0, top, "f", O_EXCL), 0);
	CHECK_INT(look(&v0, top, "f", &f, NULL), 0);
	open.inode = f;
	CHECK_INT(call(&v0, FOP_open, &open, &out), 0);
	lock = (struct asking){ .file = out.file };
	ask = later = (struct asking){ .inode = f };
	hold_tell("hold", "setlk");
	task_spawn(NULL, lock_job, &lock);
	hold_wait(1);
	hold_tell("hold", "getxattr");
	task_spawn(NULL, ask_job, &ask);
	hold_wait(2);
	hold_tell("hold", "none");
	hold_tell("release", "1");
	wait_for(&lock.done);
	CHECK_INT(lock.err, 0);
	CHECK_INT(lock_it(out.file, F_UNLCK), 0);
	hold_tell("release", "all");
	wait_for(&ask.done);
	CHECK(!ask.err && says_locked(ask.text));
	ask_job(&later);
	CHECK(!later.err && !says_locked(later.text));
	call(&v0, FOP_release, &(struct release_in){ .file = out.file }, &released);
	fop_out_clear(FOP_open, &out);
}

void who_is_about_to_lock_counts(void **state)
{
	(void)state;
	below = "volume memory\n type debug/memory\nend-volume\n";
	run_on(who_is_about_to_lock_counts_, "type features/locks\n option grace-period 0\n subvolumes memory");
	below = "";
}
