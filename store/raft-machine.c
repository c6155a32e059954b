/* SPDX-License-Identifier: Apache-2.0 */
/* What was committed is applied to the state, in order, and the state is kept as a snapshot in place of the entries before it. */
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "raft-shared.h"

/* The log is in memory, too: large entries are kept in smaller numbers. */
enum { SNAPSHOT_AFTER = 512, SNAPSHOT_AFTER_LEAST = 16, LOG_BYTES = 64 << 20 };

/* How many entries there may be before a snapshot takes their place; half of them stay, for who was away. */
void machine_bound_log(struct shared *l, size_t bytes)
{
	size_t entries;

	l->entry_bytes -= l->entry_bytes / 64;
	l->entry_bytes = bytes > l->entry_bytes ? bytes : l->entry_bytes;
	entries = LOG_BYTES / (l->entry_bytes + 1);
	entries = entries > SNAPSHOT_AFTER ? SNAPSHOT_AFTER : entries < SNAPSHOT_AFTER_LEAST ? SNAPSHOT_AFTER_LEAST : entries;
	raft_set_snapshot_threshold(&l->raft, (unsigned)entries);
	raft_set_snapshot_trailing(&l->raft, (unsigned)entries / 2);
}

static int apply(struct raft_fsm *fsm, const struct raft_buffer *text, void **result)
{
	struct shared *l = fsm->data;
	struct store_change *change;
	size_t count;
	int err = changes_decode(text->base, text->len, &change, &count);

	if (!err) {
		pthread_mutex_lock(&l->store->lock);
		err = state_apply(&l->store->state, change, count);
		pthread_cond_broadcast(&l->store->changed);
		pthread_mutex_unlock(&l->store->lock);
		changes_free(change, count);
		cluster_learn(l);
	}
	if (err == -ENOMEM) { /* to go on would make this server's state another than the others' */
		log_error(NULL, NULL,
			  "out of memory while the cluster's state was changed: this server's part of the store stops");
		return RAFT_NOMEM;
	}
	machine_bound_log(l, text->len);
	*result = (void *)(intptr_t)err;
	return 0;
}

static int snapshot(struct raft_fsm *fsm, struct raft_buffer **buffers, unsigned *count)
{
	struct shared *l = fsm->data;
	struct blob text = { 0 };
	int err;

	pthread_mutex_lock(&l->store->lock);
	err = state_encode(&l->store->state, &text);
	pthread_mutex_unlock(&l->store->lock);
	*buffers = err ? NULL : raft_malloc(sizeof **buffers);
	if (!*buffers) {
		free(text.bytes);
		return RAFT_NOMEM;
	}
	(*buffers)->base = raft_calloc(1, (text.size + 7) / 8 * 8); /* the backend wants whole words */
	(*buffers)->len = (text.size + 7) / 8 * 8;
	*count = 1;
	if ((*buffers)->base)
		memcpy((*buffers)->base, text.bytes, text.size);
	else
		raft_free(*buffers);
	free(text.bytes);
	return (*buffers)->base ? 0 : RAFT_NOMEM;
}

static int restore(struct raft_fsm *fsm, struct raft_buffer *text)
{
	struct shared *l = fsm->data;
	struct state next;
	size_t size = text->len;

	while (size && !((char *)text->base)[size - 1])
		size--; /* what snapshot() has added */
	if (state_decode(text->base, size, &next))
		return RAFT_MALFORMED;
	store_publish(l->store, &next);
	cluster_learn(l);
	raft_free(text->base);
	return 0;
}

void machine_init(struct shared *l)
{
	l->fsm = (struct raft_fsm){ .version = 1, .data = l, .apply = apply, .snapshot = snapshot, .restore = restore };
}
