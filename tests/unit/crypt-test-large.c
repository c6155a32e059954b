/* SPDX-License-Identifier: Apache-2.0 */
/* Large requests: few messages, and the same bytes as ever, though several cores seal and open them. */
#include "crypt-test.h"

enum { MIB = 1 << 20, MOST = 4 * MIB, MESSAGE_PAGES = 260, PARTS = 3, IN_ORDER = 2 /* messages for 1 MiB */ };

struct large {
	struct bed *bed;
	struct chance chance;
	struct file *file, *other;
	uint8_t bytes[MOST], fresh[MOST];
	size_t size;
};

static bool read_is_right(struct large *l, struct tree *by, struct file *file, uint64_t offset, size_t size)
{
	struct buffer *data = NULL;
	size_t got = 0, want = offset < l->size ? l->size - offset : 0;
	int err = tree_read(by, file, offset, size, &data);
	const void *bytes = err ? NULL : buffer_bytes(data, &got);
	bool right = !err && got == (want < size ? want : size) && !memcmp(bytes, l->bytes + offset, got);

	if (!right)
		fprintf(stderr, "%zu bytes at %llu of %zu: %s, %zu\n", size, (unsigned long long)offset, l->size,
			strerror(-err), got);
	buffer_unref(data);
	return right;
}

static int put(struct large *l, struct tree *by, struct file *file, uint64_t offset, size_t size)
{
	fill(&l->chance, l->fresh, size);
	memcpy(l->bytes + offset, l->fresh, size);
	l->size = offset + size > l->size ? offset + size : l->size;
	return tree_write(by, file, offset, l->fresh, size);
}

static void forget_counts(struct bed *bed)
{
	bed_lie(bed, "reads", 0);
	bed_lie(bed, "writes", 0);
}

/* 1 MiB is so many messages, wherever it begins; half of it is one. */
static void count_reads(struct large *l)
{
	static const struct {
		uint64_t offset, size;
		unsigned messages;
	} read[] = { { 0, 100, 1 },
		     { 700000, 100, 1 },
		     { 0, MIB / 2, 1 },
		     { 0, MIB, PARTS },
		     { MIB, MIB, PARTS },
		     { BLOCK - 1, MIB, PARTS },
		     { 40 * BLOCK + 7, MIB, PARTS },
		     { 2 * MIB + 12345, MIB, PARTS },
		     { 100, MESSAGE_PAGES * BLOCK - 100, PARTS } };

	CHECK_INT(put(l, &l->bed->a, l->file, 0, 3 * MIB + 50000), 0);
	for (unsigned i = 0; i < sizeof(read) / sizeof(*read); i++) {
		forget_counts(l->bed);
		CHECK_INT(read_is_right(l, &l->bed->a, l->file, read[i].offset, read[i].size), true);
		CHECK_INT(bed_count(l->bed, "reads"), read[i].messages);
	}
}

struct span {
	uint64_t offset;
	size_t size;
};

/* So many messages does the second of two writes take that are under one lock. */
static void count_second(struct large *l, struct span first, struct span second, unsigned reads, unsigned writes)
{
	bool in_one = false;

	for (int i = 0; i < 100 && !in_one && !failures; i++) {
		unsigned locks;

		if (i) /* what is known from the time before must not count */
			CHECK_INT(put(l, &l->bed->b, l->other, second.offset, second.size), 0);
		CHECK_INT(put(l, &l->bed->a, l->file, first.offset, first.size), 0);
		locks = bed_locks(l->bed);
		forget_counts(l->bed);
		CHECK_INT(put(l, &l->bed->a, l->file, second.offset, second.size), 0);
		in_one = bed_locks(l->bed) == locks; /* else it took long, and the lock was given back between */
	}
	CHECK_INT(in_one, true);
	CHECK_INT(bed_count(l->bed, "reads"), reads);
	CHECK_INT(bed_count(l->bed, "writes"), writes);
}

/* What is replaced whole is not read; of the ends, what is not known from the write before. */
static void count_writes(struct large *l)
{
	static const struct span whole = { 10 * BLOCK, 258 * BLOCK }, anywhere = { MIB + 77, MIB }, one = { MIB, MIB },
				 next = { 2 * MIB, MIB }, page = { 50 * PAGE, PAGE }, end = { 3 * MIB + 50000, 100 },
				 more = { 3 * MIB + 50100, 5000 }, most = { 3 * MIB + 55100, MIB / 2 };
	struct file *small;

	count_second(l, anywhere, whole, 0, PARTS);
	count_second(l, whole, whole, 0, PARTS);
	count_second(l, one, next, 1, PARTS);
	count_second(l, whole, anywhere, 2, PARTS);
	count_second(l, whole, page, 1, 1); /* of two blocks, a part each */
	count_second(l, end, more, 0, 1);
	count_second(l, more, most, 0, 1);
	CHECK_INT(read_is_right(l, &l->bed->b, l->other, 0, l->size), true);
	CHECK_INT(tree_create(&l->bed->a, "small", O_RDWR | O_EXCL, 0644, &small), 0);
	forget_counts(l->bed);
	CHECK_INT(tree_write(&l->bed->a, small, 0, l->fresh, 3000), 0);
	CHECK_INT(bed_count(l->bed, "reads"), 0);
	CHECK_INT(bed_count(l->bed, "writes"), 1);
	forget_counts(l->bed);
	CHECK_INT(tree_write(&l->bed->a, small, 3000, l->fresh, MIB), 0);
	CHECK_INT(bed_count(l->bed, "writes"), IN_ORDER);
	tree_release(&l->bed->a, small);
}

/* What a mount knows of an end it does not believe once another one has had the lock. */
static void another_one_writes_between(struct large *l)
{
	struct bed *bed = l->bed;

	for (int i = 0; i < 5; i++) {
		CHECK_INT(put(l, &bed->a, l->file, MIB, 100), 0);
		CHECK_INT(put(l, &bed->b, l->other, MIB + 50, 100), 0);
		CHECK_INT(put(l, &bed->a, l->file, MIB + 100, 1), 0);
		CHECK_INT(read_is_right(l, &bed->b, l->other, MIB - 10, 1000), true);
	}
}

static void write_short(struct large *l, uint64_t offset, unsigned *written)
{
	struct write_in in = { .file = l->file, .offset = offset };
	struct write_out out = { 0 };

	*written = 0;
	fill(&l->chance, l->fresh, MIB);
	in.data = buffer_from(l->fresh, MIB);
	forget_counts(l->bed);
	bed_lie(l->bed, "short", 2 * PAGE);
	CHECK_INT(tree_call(&l->bed->a, l->bed->a.at, FOP_write, &in, &out), 0);
	buffer_unref(in.data);
	memcpy(l->bytes + offset, l->fresh, out.written);
	*written = out.written;
}

/* The brick takes two pages of a file that grows: the blocks in them are what was written, and nothing behind them was sent. */
static void a_large_one_is_short(struct large *l)
{
	uint64_t end = l->size;
	unsigned written;

	write_short(l, end, &written);
	CHECK_INT(written, (end / BLOCK + 2) * BLOCK - end);
	CHECK_INT(bed_count(l->bed, "writes"), 1);
	l->size += written;
	CHECK_INT(read_is_right(l, &l->bed->b, l->other, 0, l->size), true);
}

/* Within the file the others go on: what is told to be written is, and behind it each block is old or new. */
static void a_large_one_is_short_within(struct large *l)
{
	struct buffer *data = NULL;
	unsigned written;
	const uint8_t *bytes;
	size_t size;

	write_short(l, MIB, &written);
	CHECK_INT(written >= (MIB / BLOCK + 2) * BLOCK - MIB && written < MIB, true);
	CHECK_INT(tree_read(&l->bed->b, l->other, 0, MOST, &data), 0);
	bytes = buffer_bytes(data, &size);
	CHECK_INT(size, l->size);
	CHECK_INT(memcmp(bytes, l->bytes, MIB + written), 0);
	for (size_t at = written; at < MIB && !failures; at++)
		CHECK_INT(bytes[MIB + at] == l->fresh[at] || bytes[MIB + at] == l->bytes[MIB + at], true);
	memcpy(l->bytes, bytes, size);
	buffer_unref(data);
}

static void do_anything(struct large *l)
{
	for (int i = 0; i < 120 && !failures; i++) {
		bool b = chance(&l->chance, 2);
		uint64_t offset = chance(&l->chance, l->size), size = 1 + chance(&l->chance, 2 * MIB);

		size = size < MOST - offset ? size : MOST - offset;
		if (chance(&l->chance, 3) == 0)
			CHECK_INT(put(l, b ? &l->bed->b : &l->bed->a, b ? l->other : l->file, offset, size), 0);
		offset = chance(&l->chance, l->size);
		CHECK_INT(read_is_right(l, &l->bed->a, l->file, offset, size), true);
		CHECK_INT(read_is_right(l, &l->bed->b, l->other, offset / BLOCK * BLOCK, size), true);
	}
}

void large_requests_take_few_messages(void *bed)
{
	struct large *l = calloc(1, sizeof(*l));

	l->bed = bed;
	l->chance.state = seed_of_run(11);
	if (tree_create(&l->bed->a, "large", O_RDWR | O_EXCL, 0644, &l->file) ||
	    tree_open_file(&l->bed->b, "large", O_RDWR, &l->other))
		failures++;
	if (!failures)
		count_reads(l);
	if (!failures)
		count_writes(l);
	if (!failures)
		another_one_writes_between(l);
	if (!failures)
		a_large_one_is_short(l);
	if (!failures)
		a_large_one_is_short_within(l);
	if (!failures)
		do_anything(l);
	tree_release(&l->bed->a, l->file);
	tree_release(&l->bed->b, l->other);
	free(l);
}
