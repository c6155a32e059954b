/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers: sizes are rounded up to a few classes, and freed ones are kept for the next who asks. */
#include "buffer.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 4096, CLASSES = 10, KEEP_BYTES = 8 << 20, HUGE = 2 << 20 }; /* classes: 4 KiB, 8 KiB ... 2 MiB */

static struct {
	pthread_mutex_t lock;
	struct buffer *free[CLASSES]; /* linked by `whole` */
	size_t kept, in_use;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int class_of(size_t size)
{
	int c = 0;

	while (c < CLASSES && ((size_t)ALIGN << c) < size)
		c++;
	return c;
}

static struct buffer *reuse(int c)
{
	struct buffer *b;

	pthread_mutex_lock(&pool.lock);
	b = pool.free[c];
	if (b) {
		pool.free[c] = b->whole;
		pool.kept -= b->room;
		pool.in_use += b->room;
	}
	pthread_mutex_unlock(&pool.lock);
	return b;
}

struct buffer *buffer_create(size_t size)
{
	int c = class_of(size);
	size_t room = c < CLASSES ? (size_t)ALIGN << c : (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	struct buffer *b = c < CLASSES ? reuse(c) : NULL;

	if (!b) {
		b = malloc(sizeof(*b));
		if (!b)
			return NULL;
		b->base = aligned_alloc(room < HUGE ? ALIGN : HUGE, room < HUGE ? room : (room + HUGE - 1) / HUGE * HUGE);
		if (b->base && room >= HUGE)
			madvise(b->base, HUGE, MADV_HUGEPAGE);
		if (!b->base) {
			free(b);
			return NULL;
		}
		pthread_mutex_lock(&pool.lock);
		pool.in_use += room;
		pthread_mutex_unlock(&pool.lock);
	}
	*b = (struct buffer){ .data = b->base, .size = size, .base = b->base, .room = room, .refs = 1 };
	return b;
}

struct buffer *buffer_from(const void *bytes, size_t size)
{
	struct buffer *b = buffer_create(size);

	if (b && size)
		memcpy(b->data, bytes, size);
	return b;
}

struct buffer *buffer_slice(struct buffer *whole, size_t offset, size_t size)
{
	struct buffer *b = malloc(sizeof(*b));

	assert(offset <= whole->size && size <= whole->size - offset);
	if (b)
		*b = (struct buffer){ .data = whole->data + offset, .size = size, .refs = 1, .whole = buffer_ref(whole) };
	return b;
}

struct buffer *buffer_copy(const struct buffer *b)
{
	return buffer_from(b->data, b->size);
}

struct buffer *buffer_ref(struct buffer *b)
{
	atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
	return b;
}

static void give_back(struct buffer *b)
{
	int c = class_of(b->room);
	bool keep;

	pthread_mutex_lock(&pool.lock);
	pool.in_use -= b->room;
	keep = c < CLASSES && pool.kept + b->room <= KEEP_BYTES;
	if (keep) {
		b->whole = pool.free[c];
		pool.free[c] = b;
		pool.kept += b->room;
	}
	pthread_mutex_unlock(&pool.lock);
	if (!keep) {
		free(b->base);
		free(b);
	}
}

void buffer_unref(struct buffer *b)
{
	if (!b || atomic_fetch_sub(&b->refs, 1) != 1)
		return;
	if (b->whole) {
		buffer_unref(b->whole);
		free(b);
	} else if (b->release) {
		b->release(b);
	} else {
		give_back(b);
	}
}

void buffer_unref_at(struct buffer **b)
{
	buffer_unref(*b);
}

size_t buffer_pool_bytes(void)
{
	size_t bytes;

	pthread_mutex_lock(&pool.lock);
	bytes = pool.in_use + pool.kept;
	pthread_mutex_unlock(&pool.lock);
	return bytes;
}
