/* SPDX-License-Identifier: Apache-2.0 */
/* Reference-counted bytes of file data: page-aligned, pooled, never changed by who did not make them. */
#ifndef STRATUS_BUFFER_H
#define STRATUS_BUFFER_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer {
	char *data;  /* first byte in use */
	size_t size; /* bytes in use */
	char *base;  /* start of the memory, aligned to 4096 */
	size_t room; /* bytes of memory from base */
	atomic_uint refs;
	struct buffer *whole;		  /* a slice keeps its whole alive */
	void (*release)(struct buffer *); /* who made it gets it back; NULL: the pool */
	void *owner;
};

/* A buffer of `size` bytes, aligned to 4096, contents undefined; one reference. NULL when memory is short. */
struct buffer *buffer_create(size_t size);
struct buffer *buffer_from(const void *bytes, size_t size);
/* A view of part of another, which it keeps alive. Offset and size must lie inside. */
struct buffer *buffer_slice(struct buffer *, size_t offset, size_t size);
/* A copy that the caller may change. */
struct buffer *buffer_copy(const struct buffer *);
struct buffer *buffer_ref(struct buffer *);
void buffer_unref(struct buffer *); /* NULL is fine */
static inline void *buffer_bytes(struct buffer *b, size_t *size)
{
	*size = b ? b->size : 0;
	return b ? b->data : NULL;
}
void buffer_unref_at(struct buffer **);
#define cleanup_buffer __attribute__((cleanup(buffer_unref_at)))
size_t buffer_pool_bytes(void); /* memory in buffers, in use and pooled */
#endif
