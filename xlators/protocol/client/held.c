/* SPDX-License-Identifier: Apache-2.0 */
/* The locks that the brick has granted on an inode: POSIX ranges by owner, split and merged as fcntl(2) has it, and flock. */
#include <fcntl.h>

#include "client.h"

static bool same_holder(const struct lock *a, const struct lock *b)
{
	return a->kind == b->kind && a->owner == b->owner;
}

static struct held_lock *held_create(const struct held_lock *like, uint64_t start, uint64_t end)
{
	struct held_lock *h = malloc(sizeof(*h));

	if (!h)
		return NULL;
	*h = *like;
	h->lock.start = start;
	h->lock.end = end;
	return h;
}

/* Takes the range out of every lock of that holder. The tail of one that is split comes from *spare. */
static void cut(struct remote_inode *i, const struct lock *l, struct held_lock **spare)
{
	for (struct held_lock **at = &i->held, *h; (h = *at);) {
		uint64_t start = h->lock.start, end = h->lock.end;

		if (!same_holder(&h->lock, l) || end < l->start || start > l->end) {
			at = &h->next;
			continue;
		}
		if (start < l->start && end > l->end) { /* only once: ranges of a holder are disjoint */
			struct held_lock *tail = *spare;

			*spare = NULL;
			*tail = *h;
			tail->lock.start = l->end + 1;
			h->lock.end = l->start - 1;
			h->next = tail;
			return;
		}
		if (start < l->start) {
			h->lock.end = l->start - 1;
			at = &h->next;
		} else if (end > l->end) {
			h->lock.start = l->end + 1;
			at = &h->next;
		} else {
			*at = h->next;
			free(h);
		}
	}
}

int held_set(struct remote_inode *i, const struct file *file, const struct lock *l, uint64_t incarnation)
{
	struct held_lock now = { .lock = *l, .file = file, .incarnation = incarnation }, *h, *spare;
	uint64_t end = l->kind == LOCK_FLOCK ? UINT64_MAX : l->end;

	now.lock.wait = now.lock.reclaim = 0;
	now.lock.start = l->kind == LOCK_FLOCK ? 0 : l->start;
	now.lock.end = end;
	h = held_create(&now, now.lock.start, end);
	spare = held_create(&now, 0, 0);
	if (!h || !spare) {
		free(h);
		free(spare);
		return -ENOMEM;
	}
	pthread_mutex_lock(&i->lock);
	cut(i, &now.lock, &spare);
	if (l->type != F_UNLCK) {
		h->next = i->held;
		i->held = h;
		h = NULL;
	}
	pthread_mutex_unlock(&i->lock);
	free(h);
	free(spare);
	return 0;
}

/* Those through the file; NULL: the owner's POSIX locks. */
static void drop(struct remote_inode *i, uint64_t owner, const struct file *file)
{
	pthread_mutex_lock(&i->lock);
	for (struct held_lock **at = &i->held, *h; (h = *at);) {
		if (file ? h->file == file : h->lock.kind == LOCK_POSIX && h->lock.owner == owner) {
			*at = h->next;
			free(h);
		} else {
			at = &h->next;
		}
	}
	pthread_mutex_unlock(&i->lock);
}

void held_drop_owner(struct remote_inode *i, uint64_t owner)
{
	drop(i, owner, NULL);
}

void held_drop_file(struct remote_inode *i, const struct file *file)
{
	drop(i, 0, file);
}

void held_free(struct held_lock *h)
{
	struct held_lock *next;

	for (; h; h = next) {
		next = h->next;
		free(h);
	}
}
