/* SPDX-License-Identifier: Apache-2.0 */
/* A's message is on its way, with what was beside its bytes when A had the lock, and B has changed that since: it does no harm, whenever it comes. */
#include "crypt-test.h"

#include <stdatomic.h>

static unsigned say_hold(struct bed *bed, char *word, char *more)
{
	char *words[] = { word, more };
	struct xlator *hold = tree_find(&bed->a, "hold");
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	unsigned parked = 0;

	hold->type->command(hold, more ? 2 : 1, words, f);
	fclose(f);
	for (char *at = text; (at = strstr(at, "parked: ")); at++)
		parked++;
	free(text);
	return parked;
}

struct late {
	struct bed *bed;
	struct file *file;
	const char *bytes;
	uint64_t offset;
	int err;
	atomic_bool done;
};

static void write_late(void *arg)
{
	struct late *l = arg;

	l->err = tree_write(&l->bed->a, l->file, l->offset, l->bytes, strlen(l->bytes));
	atomic_store(&l->done, true);
}

static void begin_late(struct late *l)
{
	say_hold(l->bed, (char *)"hold", (char *)"write");
	task_spawn(NULL, write_late, l);
	while (say_hold(l->bed, (char *)"list", NULL) != 1)
		task_sleep_ms(1);
}

static void let_it_go(struct late *l)
{
	say_hold(l->bed, (char *)"hold", (char *)"none");
	say_hold(l->bed, (char *)"release", (char *)"all");
	while (!atomic_load(&l->done))
		task_sleep_ms(1);
}

static bool both_read(struct bed *bed, struct file *a, struct file *b, const char *text)
{
	bool right = true;

	for (int i = 0; i < 2; i++) {
		struct buffer *data = NULL;
		size_t size = 0;
		int err = i ? tree_read(&bed->b, b, 0, 100, &data) : tree_read(&bed->a, a, 0, 100, &data);
		const void *bytes = err ? NULL : buffer_bytes(data, &size);

		right = right && !err && size == strlen(text) && !memcmp(bytes, text, size);
		if (!right)
			fprintf(stderr, "%c reads %.*s (%d)\n", "AB"[i], (int)size, (const char *)bytes, err);
		buffer_unref(data);
	}
	return right;
}

/* As protocol/client does it when the brick has a new session. */
static int reclaim(struct bed *bed, struct file *file)
{
	struct setlk_in in = { file,
			       { .kind = LOCK_POSIX, .type = F_WRLCK, .start = 1ull << 62, .end = 1ull << 62, .reclaim = 1 } };
	struct setlk_out out = { 0 };
	char *text = NULL, *at;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	bed->locks->type->dump(bed->locks, f);
	fclose(f);
	at = strstr(text, "owner=");
	in.lock.owner = at ? strtoull(at + 6, &at, 16) : 0;
	in.lock.pid = at ? (uint32_t)atoi(strstr(at, "pid=") + 4) : 0;
	free(text);
	bed->locks->type->client_gone(bed->locks, &bed->client);
	bed->client.incarnation++;
	return tree_call(&bed->a, bed->locks, FOP_setlk, &in, &out);
}

/* Its session has ended, and it is sent again in the next one: without the lock, or after that has been reclaimed. */
void a_late_write_undoes_nothing(void *arg)
{
	struct bed *bed = arg;
	struct late l = { .bed = bed, .bytes = "AAA", .offset = 1 };
	struct file *other;

	CHECK_INT(tree_create(&bed->a, "late", O_RDWR | O_EXCL, 0644, &l.file), 0);
	CHECK_INT(tree_open_file(&bed->b, "late", O_RDWR, &other), 0);
	CHECK_INT(tree_write(&bed->a, l.file, 0, "0123456789", 10), 0);
	begin_late(&l);
	bed->locks->type->client_gone(bed->locks, &bed->client);
	bed->client.incarnation++;
	CHECK_INT(tree_write(&bed->b, other, 6, "BBB", 3), 0);
	let_it_go(&l);
	CHECK_INT(l.err, 0);
	CHECK_INT(both_read(bed, l.file, other, "0AAA45BBB9"), true);
	tree_release(&bed->b, other);
	tree_release(&bed->a, l.file);
}

void a_late_write_is_done_if_the_lock_was_reclaimed(void *arg)
{
	struct bed *bed = arg;
	struct late l = { .bed = bed, .bytes = "AAA", .offset = 1 };
	unsigned locks;

	CHECK_INT(tree_create(&bed->a, "late", O_RDWR | O_EXCL, 0644, &l.file), 0);
	CHECK_INT(tree_write(&bed->a, l.file, 0, "0123456789", 10), 0);
	begin_late(&l);
	locks = bed_locks(bed);
	bed_lie(bed, "writes", 0);
	CHECK_INT(reclaim(bed, l.file), 0);
	let_it_go(&l);
	CHECK_INT(l.err, 0);
	CHECK_INT(bed_locks(bed), locks);
	CHECK_INT(bed_count(bed, "writes"), 0); /* no further one */
	tree_release(&bed->a, l.file);
}

/* The program was told that it failed, and has written again since; B, too. */
void what_was_given_up_does_not_come_later(void *arg)
{
	struct bed *bed = arg;
	struct late l = { .bed = bed, .bytes = "AAA", .offset = 1 };
	struct file *other;
	unsigned locks;

	CHECK_INT(tree_create(&bed->a, "late", O_RDWR | O_EXCL, 0644, &l.file), 0);
	CHECK_INT(tree_open_file(&bed->b, "late", O_RDWR, &other), 0);
	CHECK_INT(tree_write(&bed->a, l.file, 0, "0123456789", 10), 0);
	bed_lie(bed, "unanswered", 1);
	begin_late(&l);
	while (!atomic_load(&l.done)) /* the brick has not done it yet */
		task_sleep_ms(1);
	CHECK_INT(l.err, -ENOTCONN);
	locks = bed_locks(bed); /* here: if 20 ms have passed before it was begun it has taken one */
	say_hold(bed, (char *)"hold", (char *)"none");
	CHECK_INT(tree_write(&bed->a, l.file, 3, "aa", 2), 0);
	CHECK_INT(bed_locks(bed), locks + 1);
	CHECK_INT(tree_write(&bed->b, other, 6, "BBB", 3), 0);
	say_hold(bed, (char *)"release", (char *)"all");
	while (bed_count(bed, "late"))
		task_sleep_ms(1);
	CHECK_INT(both_read(bed, l.file, other, "012aa5BBB9"), true);
	tree_release(&bed->b, other);
	tree_release(&bed->a, l.file);
}

/* A brick that always says that the lock is not held ends no mount: a program is told. */
void a_brick_that_knows_no_lock_is_given_up(void *arg)
{
	struct bed *bed = arg;
	struct file *file;
	struct deed cut = { .kind = DEED_TRUNCATE, .offset = 5 }, allocate = { .kind = DEED_ALLOCATE, .size = 9000 };

	CHECK_INT(tree_create(&bed->a, "late", O_RDWR | O_EXCL, 0644, &file), 0);
	CHECK_INT(tree_write(&bed->a, file, 0, "0123456789", 10), 0);
	bed_lie(bed, "not-held", 1);
	CHECK_INT(tree_write(&bed->a, file, 0, "x", 1), -ESTALE);
	CHECK_INT(deed_do(&bed->a, file, &cut), -ESTALE);
	CHECK_INT(deed_do(&bed->a, file, &allocate), -ESTALE);
	bed_lie(bed, "not-held", 0);
	CHECK_INT(deed_do(&bed->a, file, &cut), 0);
	tree_release(&bed->a, file);
}

struct append {
	struct bed *bed;
	struct file *file;
	struct deed deed;
	int err;
	atomic_bool done;
};

static void append_aside(void *arg)
{
	struct append *p = arg;

	p->err = deed_do(&p->bed->a, p->file, &p->deed);
	atomic_store(&p->done, true);
}

static void append_over_sessions(struct append *p, int twice)
{
	CHECK_INT(tree_write(&p->bed->a, p->file, 0, "0123456789", 10), 0);
	p->deed = (struct deed){ .kind = DEED_APPEND, .offset = 10, .bytes = (uint8_t *)"AAA", .size = 3 };
	bed_lie(p->bed, "twice", twice);
	task_spawn(NULL, append_aside, p);
	while (bed_count(p->bed, "twice") != 3)
		task_sleep_ms(1);
	p->bed->locks->type->client_gone(p->bed->locks, &p->bed->client);
	p->bed->client.incarnation++;
	bed_lie(p->bed, "twice", 0);
	while (!atomic_load(&p->done))
		task_sleep_ms(1);
}

/* The session ends, and it is sent again in the next one, which has no lock. */
static void over_sessions(struct bed *bed, const char *name, int twice, int err)
{
	struct append p = { .bed = bed };
	struct file *other;

	CHECK_INT(tree_create(&bed->a, name, O_RDWR | O_EXCL, 0644, &p.file), 0);
	append_over_sessions(&p, twice);
	CHECK_INT(p.err, err);
	CHECK_INT(tree_open_file(&bed->b, name, O_RDWR, &other), 0);
	CHECK_INT(both_read(bed, p.file, other, "0123456789AAA"), true);
	tree_release(&bed->b, other);
	tree_release(&bed->a, p.file);
}

/* Done in the session before, of which nobody hears: it is not done again behind that. */
void a_late_append_is_there_once(void *arg)
{
	over_sessions(arg, "done", 1, -EIO);
	over_sessions(arg, "not-done", 2, 0);
}
