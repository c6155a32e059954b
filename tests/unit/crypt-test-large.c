/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that reach over many groups: few messages, and the same bytes as ever, though several cores seal and open them. */
#include "crypt-test.h"

enum { MIB = 1 << 20, MOST = 4 * MIB };

struct large {
	struct bed *bed;
	struct chance chance;
	struct file *file, *other, *grown;
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
	bed_lie(bed, "reads-at-once", 0);
	bed_lie(bed, "writes-at-once", 0);
}

/* Reads and writes wait for each other in such numbers. */
static void let_meet(struct bed *bed, int reads, int writes)
{
	forget_counts(bed);
	bed_lie(bed, "reads-meet", reads);
	bed_lie(bed, "writes-meet", writes);
}

/* What does not depend on each other goes side by side; what makes the file longer does not. */
static void count_at_once(struct large *l)
{
	let_meet(l->bed, 2, 4);
	CHECK_INT(read_is_right(l, &l->bed->a, l->file, 0, MIB), true);
	CHECK_INT(bed_count(l->bed, "reads"), 2);
	CHECK_INT(read_is_right(l, &l->bed->a, l->file, 40 * BLOCK, BLOCK), true);
	CHECK_INT(bed_count(l->bed, "reads"), 4); /* a block, and its slots */
	CHECK_INT(put(l, &l->bed->a, l->file, MIB, MIB), 0);
	CHECK_INT(bed_count(l->bed, "writes"), 8);
	CHECK_INT(bed_count(l->bed, "missed"), 0);
	let_meet(l->bed, 0, 0);
	bed_yield(l->bed, true);
	CHECK_INT(tree_write(&l->bed->a, l->grown, 0, l->fresh, MIB), 0);
	CHECK_INT(bed_count(l->bed, "writes"), 2); /* two groups each, with their slots */
	CHECK_INT(bed_count(l->bed, "writes-at-once"), 1);
	bed_yield(l->bed, false);
}

/* A message brings 1 MiB of the brick, with the slots. */
static void count_messages(struct large *l)
{
	static const struct {
		uint64_t offset, size;
		unsigned reads;
	} read[] = { { 0, 100, 1 },
		     { 700000, 100, 2 },
		     { 0, 64 * BLOCK, 1 },
		     { 5 * BLOCK, 128 * BLOCK, 1 },
		     { 0, 192 * BLOCK, 1 },
		     { 0, MIB, 2 },
		     { MIB, MIB, 2 },
		     { 40 * BLOCK + 7, MIB, 2 },
		     { 2 * MIB + 12345, MIB, 2 } };

	CHECK_INT(put(l, &l->bed->a, l->file, 0, 3 * MIB + 50000), 0);
	for (unsigned i = 0; i < sizeof(read) / sizeof(*read); i++) {
		forget_counts(l->bed);
		CHECK_INT(read_is_right(l, &l->bed->a, l->file, read[i].offset, read[i].size), true);
		CHECK_INT(bed_count(l->bed, "reads"), read[i].reads);
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

/* What this mount has written itself it does not read to replace it; of what is from before it had the lock last, the slots. */
static void count_replaced(struct large *l)
{
	static const struct span all = { MIB, MIB }, some = { MIB + 100, 10 * BLOCK }, next = { MIB + 100 + 10 * BLOCK, 200 },
				 last = { MIB + 300 + 10 * BLOCK, BLOCK };
	struct bed *bed = l->bed;

	count_second(l, all, all, 0, 8); /* slots and blocks of four groups */
	count_second(l, all, some, 1, 2);
	count_second(l, some, next, 0, 2); /* where the last one ended */
	count_second(l, next, last, 2, 2); /* the block in which it ends, and its slots */
	CHECK_INT(put(l, &bed->a, l->file, MIB, MIB), 0);
	CHECK_INT(put(l, &bed->b, l->other, MIB + 70 * BLOCK, BLOCK), 0);
	forget_counts(bed);
	CHECK_INT(put(l, &bed->a, l->file, MIB, MIB), 0);
	CHECK_INT(bed_count(bed, "reads"),
		  4 + 1); /* pages of slots; the block that is the other one's, which is near to its slots */
	CHECK_INT(bed_count(bed, "writes"), 8);
	CHECK_INT(read_is_right(l, &bed->b, l->other, 0, l->size), true);
	CHECK_INT(put(l, &bed->b, l->other, 5, 1), 0);
	CHECK_INT(put(l, &bed->a, l->file, 3 * MIB, 50000), 0);
	CHECK_INT(put(l, &bed->a, l->file, 3 * MIB + 50000, 5), 0);
	CHECK_INT(read_is_right(l, &bed->b, l->other, 0, l->size), true);
}

/* The brick takes two blocks of the first of four groups: that is what was written; of the others, which went beside it, each block is old or new. */
static void one_of_several_is_short(struct large *l)
{
	struct write_in in = { .file = l->file, .offset = MIB };
	struct write_out out = { 0 };
	struct buffer *data = NULL;
	const uint8_t *bytes;
	size_t size;

	fill(&l->chance, l->fresh, MIB);
	in.data = buffer_from(l->fresh, MIB);
	bed_lie(l->bed, "short", 2 * BLOCK);
	CHECK_INT(tree_call(&l->bed->a, l->bed->a.at, FOP_write, &in, &out), 0);
	CHECK_INT(out.written, 2 * BLOCK);
	buffer_unref(in.data);
	CHECK_INT(tree_read(&l->bed->b, l->other, MIB, MIB, &data), 0);
	bytes = buffer_bytes(data, &size);
	CHECK_INT(size, MIB);
	CHECK_INT(memcmp(bytes, l->fresh, 2 * BLOCK), 0);
	for (size_t at = 0; at < MIB; at += BLOCK)
		CHECK_INT(!memcmp(bytes + at, l->fresh + at, BLOCK) || !memcmp(bytes + at, l->bytes + MIB + at, BLOCK), true);
	memcpy(l->bytes + MIB, bytes, MIB);
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
	    tree_open_file(&l->bed->b, "large", O_RDWR, &l->other) ||
	    tree_create(&l->bed->a, "grown", O_RDWR | O_EXCL, 0644, &l->grown))
		failures++;
	if (!failures)
		count_messages(l);
	if (!failures)
		count_replaced(l);
	if (!failures)
		count_at_once(l);
	if (!failures)
		one_of_several_is_short(l);
	if (!failures)
		do_anything(l);
	tree_release(&l->bed->a, l->file);
	tree_release(&l->bed->b, l->other);
	tree_release(&l->bed->a, l->grown);
	free(l);
}
