/* SPDX-License-Identifier: Apache-2.0 */
/* What a recovery takes from a directory at a member is on disk there before the recovery ends: for who finds a name missing may make it elsewhere, and a power cut
 * must not bring it back here (P8 in doc/distribution.md). Not earlier: what was just made there may not be whole, and would be on disk, too. */
#include "heal-internal.h"

struct to_sync {
	int at;
	struct inode *directory; /* a reference */
	struct to_sync *next;
};

int note_taken(struct heal *h, int at, struct inode *directory)
{
	struct to_sync *t = h->syncs ? malloc(sizeof(*t)) : NULL;

	if (!h->syncs)
		return 0;
	if (!t)
		return -ENOMEM;
	*t = (struct to_sync){ at, inode_ref(directory), NULL };
	pthread_mutex_lock(&h->links_lock);
	t->next = h->to_sync;
	h->to_sync = t;
	pthread_mutex_unlock(&h->links_lock);
	return 0;
}

/* A process that was started anew does not know what the one before it has taken. */
int pair_note_taken(struct pair *p, int err)
{
	int noted = 0;

	if (err && err != -EAGAIN)
		return err;
	if (p->taken || p->h->cold)
		noted = note_taken(p->h, p->to, p->inode);
	if (!noted && p->h->cold)
		noted = note_taken(p->h, p->from, p->inode);
	return noted ? noted : err;
}

/* 0 also if it has gone. */
static int sync_directory(struct heal *h, struct request *rq, int at, struct inode *directory)
{
	struct opendir_in open = { directory };
	struct opendir_out opened = { 0 };
	struct fsync_out synced = { 0 };
	struct release_out released = { 0 };
	struct fsync_in sync = { 0 };
	struct release_in release;
	uint64_t given = rq->deadline_ns;
	int err = heal_call(h, rq, at, FOP_opendir, &open, &opened);

	if (err)
		return is_gone(err) ? 0 : err;
	sync.file = opened.file;
	rq->deadline_ns = given ? given : clock_ns() + HEAL_SYNC_NS;
	err = heal_call(h, rq, at, FOP_fsync, &sync, &synced);
	rq->deadline_ns = given;
	release = (struct release_in){ opened.file };
	heal_call(h, rq, at, FOP_release, &release, &released);
	fop_out_clear(FOP_opendir, &opened);
	return is_gone(err) ? 0 : err;
}

static void drop_first(struct heal *h)
{
	struct to_sync *t = h->to_sync;

	h->to_sync = t->next;
	inode_unref(t->directory);
	free(t);
}

int heal_sync(struct heal *h, struct request *rq, int *failed)
{
	int err = 0;

	h->syncs = false;
	while (h->to_sync && !err) {
		*failed = h->to_sync->at;
		err = sync_directory(h, rq, *failed, h->to_sync->directory);
		drop_first(h);
	}
	heal_forget_sync(h);
	return err;
}

void heal_forget_sync(struct heal *h)
{
	h->syncs = false;
	while (h->to_sync)
		drop_first(h);
}
