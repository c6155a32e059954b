/* SPDX-License-Identifier: Apache-2.0 */
/* What one client knows of a file is not all: another one has changed it, has other keys, or the brick has lost the lock. */
#include "crypt-test.h"

#include "log.h"

static bool reads(struct tree *t, const char *path, const char *text)
{
	struct buffer *data = NULL;
	struct file *file;
	size_t size = 0;
	const void *bytes;
	bool so = !tree_open_file(t, path, O_RDONLY, &file);
	int err = so ? tree_read(t, file, 0, 1000, &data) : -ENOENT;

	bytes = err ? NULL : buffer_bytes(data, &size);
	if (err || size != strlen(text) || memcmp(bytes, text, size) != 0) {
		fprintf(stderr, "%s: %s, %zu bytes, not '%s'\n", path, strerror(-err), size, text);
		so = false;
	}
	buffer_unref(data);
	if (file)
		tree_release(t, file);
	return so;
}

/* As a shell does `echo text >path`. */
static int echo(struct tree *t, const char *path, const char *text)
{
	struct file *file;
	int err = tree_open_file(t, path, O_WRONLY | O_TRUNC, &file);

	if (err)
		return err;
	err = tree_write(t, file, 0, text, strlen(text));
	tree_release(t, file);
	return err;
}

/* The newer client's key file has been rotated, which B does not know. */
static void without_its_epoch(struct bed *bed)
{
	struct file *file;

	CHECK_INT(tree_create(&bed->newer, "later", O_RDWR | O_EXCL, 0644, &file), 0);
	CHECK_INT(tree_write(&bed->newer, file, 0, "a", 1), 0);
	CHECK_INT(echo(&bed->b, "later", "b"), -ENOKEY);
	CHECK_INT(reads(&bed->newer, "later", "a"), true);
	CHECK_INT(echo(&bed->newer, "later", ""), 0);
	CHECK_INT(tree_open_file(&bed->b, "later", O_WRONLY, NULL), 0);
	CHECK_INT(tree_write(&bed->newer, file, 0, "cc", 2), 0);
	CHECK_INT(reads(&bed->newer, "later", "cc"), true);
	tree_release(&bed->newer, file);
}

void who_lacks_an_epoch_changes_nothing(void *bed)
{
	log_open("/dev/null");
	without_its_epoch(bed);
	log_open("/dev/stderr");
}

/* Somebody has destroyed the header of an empty file that A knows; B gives it another one. */
void an_empty_file_may_get_another_key(void *arg)
{
	struct bed *bed = arg;
	struct gfid gfid;
	struct file *file, *other;

	CHECK_INT(tree_create(&bed->a, "renewed", O_RDWR | O_EXCL, 0644, &file), 0);
	CHECK_INT(tree_write(&bed->a, file, 0, "first", 5), 0);
	CHECK_INT(echo(&bed->a, "renewed", ""), 0);
	gfid = file->inode->gfid;
	CHECK_INT(raw_header(bed, &gfid, "nothing", 7), 0);
	CHECK_INT(tree_open_file(&bed->b, "renewed", O_RDWR, &other), 0);
	CHECK_INT(tree_write(&bed->b, other, 0, "second", 6), 0);
	CHECK_INT(reads(&bed->a, "renewed", "second"), true);
	CHECK_INT(tree_write(&bed->a, file, 2, "x", 1), 0);
	CHECK_INT(reads(&bed->b, "renewed", "sexond"), true);
	CHECK_INT(echo(&bed->b, "renewed", ""), 0);
	CHECK_INT(tree_write(&bed->a, file, 0, "third", 5), 0);
	CHECK_INT(reads(&bed->b, "renewed", "third"), true);
	tree_release(&bed->b, other);
	tree_release(&bed->a, file);
}

/* The same with a large file: what A writes of it is not sealed with the key that it knew, though only its last block tells that. */
void a_large_write_learns_of_another_key(void *arg)
{
	static uint8_t bytes[1 << 20];
	struct bed *bed = arg;
	struct chance c = { seed_of_run(13) };
	struct buffer *data = NULL;
	struct file *file, *other;
	size_t size;

	CHECK_INT(tree_create(&bed->a, "renewed-large", O_RDWR | O_EXCL, 0644, &file), 0);
	CHECK_INT(tree_write(&bed->a, file, 0, "first", 5), 0);
	CHECK_INT(echo(&bed->a, "renewed-large", ""), 0);
	CHECK_INT(raw_header(bed, &file->inode->gfid, "nothing", 7), 0);
	CHECK_INT(tree_open_file(&bed->b, "renewed-large", O_RDWR, &other), 0);
	fill(&c, bytes, sizeof(bytes));
	CHECK_INT(tree_write(&bed->b, other, 0, bytes, sizeof(bytes)), 0);
	fill(&c, bytes, sizeof(bytes) - 1);
	bed_lie(bed, "writes", 0);
	CHECK_INT(tree_write(&bed->a, file, 0, bytes, sizeof(bytes) - 1), 0);
	CHECK_INT(bed_count(bed, "writes"), 3); /* none with the old key */
	CHECK_INT(tree_read(&bed->b, other, 0, sizeof(bytes), &data), 0);
	CHECK_INT(memcmp(buffer_bytes(data, &size), bytes, sizeof(bytes)), 0);
	buffer_unref(data);
	tree_release(&bed->b, other);
	tree_release(&bed->a, file);
}

/* B makes a hole in a file that A has read; A writes a part of it. */
void a_writer_learns_of_holes(void *arg)
{
	struct bed *bed = arg;
	struct deed grow = { .kind = DEED_TRUNCATE, .offset = 300000 };
	struct file *file, *other;

	CHECK_INT(tree_create(&bed->a, "holes", O_RDWR | O_EXCL, 0644, &file), 0);
	CHECK_INT(tree_write(&bed->a, file, 0, "a", 1), 0);
	CHECK_INT(tree_open_file(&bed->b, "holes", O_RDWR, &other), 0);
	CHECK_INT(deed_do(&bed->b, other, &grow), 0);
	CHECK_INT(tree_write(&bed->a, file, 100001, "x", 1), 0);
	grow.offset = 200001;
	CHECK_INT(deed_do(&bed->a, file, &grow), 0);
	tree_release(&bed->b, other);
	tree_release(&bed->a, file);
}

/* ---- locks that are lost, or stay ---- */

static bool loses(struct bed *bed, struct file *file, struct model *m, const struct deed *d, int after)
{
	struct buffer *data = NULL;
	size_t size = 0;
	const void *bytes;
	bool right;

	bed_lie(bed, "lose", after);
	right = !deed_do(&bed->a, file, d) && !bed_count(bed, "unprotected");
	deed_model(m, d);
	right = right && !tree_read(&bed->b, file, 0, BED_MOST, &data);
	bytes = data ? buffer_bytes(data, &size) : NULL;
	right = right && size == m->size && !memcmp(bytes, m->bytes, size);
	buffer_unref(data);
	return right;
}

/* After each message in turn: nothing is sent without the lock, the deed is done all the same, and the program does not notice. */
void a_lost_lock_is_taken_again(void *arg)
{
	struct bed *bed = arg;
	struct model *m = calloc(1, sizeof(*m));
	struct chance c = { seed_of_run(11) };
	struct file *file;

	CHECK_INT(tree_create(&bed->a, "lost", O_RDWR | O_EXCL, 0644, &file), 0);
	bed_lie(bed, "unprotected", 0);
	for (int i = 0; i < 300; i++) {
		struct deed d = deed_choose(&c, m);
		bool right = loses(bed, file, m, &d, 1 + i % 9);

		if (!right)
			fprintf(stderr, "round %d: %s of %llu at %llu\n", i, deed_name(&d), (unsigned long long)d.size,
				(unsigned long long)d.offset);
		free(d.bytes);
		CHECK_INT(right, true);
	}
	bed_lie(bed, "lose", 0);
	tree_release(&bed->a, file);
	free(m);
}

/* The pieces before the loss are written; the rest follows with the lock taken anew, an append's where it began. */
static void loses_in_a_large_one(struct bed *bed, struct model *m, struct chance *c, int kind, int after)
{
	struct deed d = { .kind = kind, .size = 1 << 20, .bytes = malloc(1 << 20) };
	struct file *file;
	bool right;

	memset(m, 0, sizeof(*m));
	m->size = (1 << 20) + 77777;
	fill(c, m->bytes, m->size);
	fill(c, d.bytes, d.size);
	if (kind == DEED_APPEND)
		m->size = d.offset = 100000;
	CHECK_INT(tree_create(&bed->a, "large", O_RDWR | O_EXCL, 0644, &file), 0);
	CHECK_INT(tree_write(&bed->a, file, 0, m->bytes, m->size), 0);
	right = loses(bed, file, m, &d, after);
	if (!right)
		fprintf(stderr, "%s, lost after %d\n", deed_name(&d), after);
	CHECK_INT(right, true);
	free(d.bytes);
	tree_release(&bed->a, file);
	CHECK_INT(tree_unlink(&bed->a, "large"), 0);
}

void a_large_write_goes_on_when_the_lock_is_lost(void *bed)
{
	struct model *m = calloc(1, sizeof(*m));
	struct chance c = { seed_of_run(12) };

	bed_lie(bed, "unprotected", 0);
	for (int after = 1; after < 6 && !failures; after++) {
		loses_in_a_large_one(bed, m, &c, DEED_WRITE, after);
		loses_in_a_large_one(bed, m, &c, DEED_APPEND, after);
	}
	bed_lie(bed, "lose", 0);
	free(m);
}

/* Another mount has appended once the lock was lost: nothing is written over that. */
void an_append_leaves_what_others_append(void *arg)
{
	static const uint8_t bytes[1 << 20];
	struct bed *bed = arg;
	struct write_in in = { .flags = WRITE_APPEND };
	struct write_out out = { 0 };
	struct attr attr;

	CHECK_INT(tree_create(&bed->a, "appended", O_RDWR | O_EXCL, 0644, &in.file), 0);
	in.data = buffer_from(bytes, sizeof(bytes));
	bed_lie(bed, "grown", PAGE);
	bed_lie(bed, "lose", 2); /* the lock, the first piece */
	CHECK_INT(tree_call(&bed->a, bed->a.at, FOP_write, &in, &out), 0);
	bed_lie(bed, "grown", 0);
	bed_lie(bed, "size", 0);
	CHECK_INT(out.written > 0 && out.written < sizeof(bytes), true);
	CHECK_INT(tree_getattr(&bed->b, "appended", &attr), 0);
	CHECK_INT(attr.size, out.written);
	buffer_unref(in.data);
	tree_release(&bed->a, in.file);
}

/* The brick does not answer the unlock at first, or another file of the inode has become stale: B gets the lock nevertheless. */
void a_lock_does_not_stay(void *arg)
{
	struct bed *bed = arg;
	struct file *file, *other;

	CHECK_INT(tree_create(&bed->a, "stuck", O_RDWR | O_EXCL, 0644, &file), 0);
	CHECK_INT(tree_open_file(&bed->b, "stuck", O_RDWR, &other), 0);
	bed_lie(bed, "no-unlock", 2);
	CHECK_INT(tree_write(&bed->a, file, 0, "a", 1), 0);
	CHECK_INT(tree_write(&bed->b, other, 1, "b", 1), 0);
	CHECK_INT(reads(&bed->a, "stuck", "ab"), true);
	bed_lie(bed, "stale", 2); /* the lock, the write */
	CHECK_INT(tree_write(&bed->a, file, 0, "c", 1), 0);
	bed_lie(bed, "stale", 0);
	CHECK_INT(tree_write(&bed->b, other, 1, "d", 1), 0);
	CHECK_INT(reads(&bed->a, "stuck", "cd"), true);
	tree_release(&bed->b, other);
	tree_release(&bed->a, file);
}

static void write_and_close(struct bed *bed)
{
	struct file *file;

	CHECK_INT(tree_create(&bed->a, "closed", O_RDWR | O_EXCL, 0644, &file), 0);
	CHECK_INT(tree_write(&bed->a, file, 0, "a", 1), 0);
	tree_release(&bed->a, file);
}

/* Closing the file gives the lock back without a message, and others have it. Where 20 ms pass before, it was given back for that: so once is enough. */
void a_lock_goes_with_its_file(void *arg)
{
	struct bed *bed = arg;
	unsigned least = 1;
	struct file *other;

	for (int i = 0; i < 1000 && least && !failures; i++) {
		bed_lie(bed, "unlocks", 0);
		write_and_close(bed);
		least = bed_count(bed, "unlocks");
		CHECK_INT(tree_open_file(&bed->b, "closed", O_RDWR, &other), 0);
		CHECK_INT(tree_write(&bed->b, other, 1, "b", 1), 0);
		tree_release(&bed->b, other);
		CHECK_INT(reads(&bed->a, "closed", "ab"), true);
		CHECK_INT(tree_unlink(&bed->a, "closed"), 0);
	}
	CHECK_INT(least, 0);
}

/* Somebody below takes the watchdog's cancel for himself: the wait ends. */
void a_cancel_that_is_taken_below_hangs_nobody(void *arg)
{
	struct bed *bed = arg;
	struct setlk_in in = {
		.lock = { .kind = LOCK_POSIX, .type = F_WRLCK, .start = 1ull << 62, .end = 1ull << 62, .owner = 1 }
	};
	struct setlk_out out = { 0 };
	struct file *file;

	CHECK_INT(tree_create(&bed->a, "waits", O_RDWR | O_EXCL, 0644, &file), 0);
	in.file = file;
	CHECK_INT(tree_call(&bed->brick, bed->locks, FOP_setlk, &in, &out), 0);
	bed_lie(bed, "deaf", 1);
	CHECK_INT(tree_write(&bed->a, file, 0, "a", 1), -EIO);
	in.lock.type = F_UNLCK;
	CHECK_INT(tree_call(&bed->brick, bed->locks, FOP_setlk, &in, &out), 0);
	CHECK_INT(tree_write(&bed->a, file, 0, "a", 1), 0);
	tree_release(&bed->a, file);
}

/* ---- a brick that lies, or has no room ---- */

static void lies(struct bed *bed)
{
	static const char zeros[9000];
	struct deed cut = { .kind = DEED_TRUNCATE, .offset = 8500 };
	struct seek_in in = { .offset = 100, .whence = SEEK_HOLE };
	struct seek_out out = { 0 };
	struct file *file;

	CHECK_INT(tree_create(&bed->a, "lies", O_RDWR | O_EXCL, 0644, &file), 0);
	CHECK_INT(tree_write(&bed->a, file, 0, zeros, sizeof(zeros)), 0);
	for (int i = 0; i < 3; i++) {
		task_sleep_ms(100); /* until the lock was given back, and the length must be asked for */
		bed_lie(bed, i ? "size" : "read-empty", i == 1 ? -500 : 500);
		CHECK_INT(tree_write(&bed->a, file, i ? 8200 : 10, "x", 1), -EIO);
		if (!i)
			CHECK_INT(deed_do(&bed->a, file, &cut), -EIO);
		bed_lie(bed, i ? "size" : "read-empty", 0);
	}
	in.file = file;
	for (int i = 1; i < 3; i++) {
		bed_lie(bed, "seek", i);
		CHECK_INT(tree_call(&bed->a, bed->a.at, FOP_seek, &in, &out), 0);
		CHECK_INT(out.offset, sizeof(zeros));
	}
	cut.offset = 300000;
	CHECK_INT(deed_do(&bed->a, file, &cut), 0);
	bed_lie(bed, "seek", 1);
	in.offset = 290000;
	CHECK_INT(tree_call(&bed->a, bed->a.at, FOP_seek, &in, &out), -EIO);
	bed_lie(bed, "seek", 0);
	tree_release(&bed->a, file);
}

void a_brick_that_lies_changes_nothing(void *bed)
{
	log_open("/dev/null");
	lies(bed);
	log_open("/dev/stderr");
}

void a_short_write_counts_whole_blocks(void *arg)
{
	struct bed *bed = arg;
	static uint8_t bytes[5 * BLOCK];
	struct chance c = { 1 };
	struct buffer *data = NULL;
	struct file *file;
	size_t size;

	fill(&c, bytes, sizeof(bytes));
	for (int i = 0; i < 2; i++) {
		struct write_in in = { .data = buffer_from(bytes, sizeof(bytes)) };
		struct write_out out = { 0 };

		CHECK_INT(tree_create(&bed->a, i ? "torn" : "short", O_RDWR | O_EXCL, 0644, &file), 0);
		in.file = file;
		bed_lie(bed, "short", 2 * PAGE + i * 77); /* two blocks, and a bit */
		CHECK_INT(tree_call(&bed->a, bed->a.at, FOP_write, &in, &out), 0);
		CHECK_INT(out.written, 2 * BLOCK);
		buffer_unref(in.data);
		CHECK_INT(tree_read(&bed->b, file, 0, sizeof(bytes), &data), 0);
		CHECK_INT(memcmp(buffer_bytes(data, &size), bytes, 2 * BLOCK), 0);
		CHECK_INT(size, 2 * BLOCK);
		buffer_unref(data);
		CHECK_INT(tree_write(&bed->a, file, 2 * BLOCK, bytes + 2 * BLOCK, 3 * BLOCK), 0);
		tree_release(&bed->a, file);
	}
}
