/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the store in memory, and its form as bytes: a machine that changes drive from one state to the next. It does
 * no I/O: the same changes in the same order give the same state on each server, whatever log brings them. */
#ifndef STRATUS_STORE_STATE_H
#define STRATUS_STORE_STATE_H
#include "fop.h"
#include "store.h"

struct document {
	char *key;
	struct blob value;
	uint64_t version;
	bool gone;
};
struct state {
	struct document *document; /* sorted by key */
	size_t count;
	uint64_t index;
};
/* On failure the state is as it was. */
int state_apply(struct state *, const struct store_change *, size_t count);
const struct document *state_find(const struct state *, const char *key); /* NULL: never was there */
int state_copy(const struct state *, struct state *);
void state_free(struct state *);
/* A change as bytes, for a log. What changes_decode() gives is freed by changes_free(). */
int changes_encode(const struct store_change *, size_t count, struct blob *);
int changes_decode(const void *bytes, size_t size, struct store_change **, size_t *count);
void changes_free(struct store_change *, size_t count);
/* The bytes: malloc'ed. state_decode() believes nothing: -EINVAL if they are not what state_encode() made. */
int state_encode(const struct state *, struct blob *);
int state_decode(const void *bytes, size_t size, struct state *);
#endif
