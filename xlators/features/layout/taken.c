/* SPDX-License-Identifier: Apache-2.0 */
/* features/layout: that a name which moves away has gone here is on disk before it is seen ("Power cuts" in doc/distribution.md). */
#include "shard.h"

void taking_begin(struct known *k)
{
	pthread_mutex_lock(&k->lock);
	k->taking++;
	pthread_mutex_unlock(&k->lock);
}

void taking_end(struct known *k, bool taken)
{
	pthread_mutex_lock(&k->lock);
	k->taking--;
	k->taken += taken;
	pthread_mutex_unlock(&k->lock);
}

static bool is_on_disk(const struct known *k, unsigned number)
{
	return (int)(k->on_disk - number) >= 0;
}

/* With the lock held, but for the time of the fsync: all that were counted before that began are on disk after it. */
static int sync_counted(struct request *rq, struct xlator *x, struct inode *directory, struct known *k)
{
	unsigned counted = k->taken;
	int err;

	k->syncing = true;
	pthread_mutex_unlock(&k->lock);
	err = sync_opened(rq, x, directory);
	pthread_mutex_lock(&k->lock);
	k->syncing = false;
	if (!err && !is_on_disk(k, counted))
		k->on_disk = counted;
	task_cond_broadcast(&k->changed);
	return err;
}

int taken_sync(struct request *rq, struct xlator *x, struct inode *directory)
{
	struct known *k = known_of(x, directory);
	unsigned number;
	int err = 0;

	if (!k || MUTANT("take-unsynced"))
		return k ? 0 : -ENOMEM;
	pthread_mutex_lock(&k->lock);
	number = k->taken + (k->taking > 0); /* one may have gone that is not counted yet: so an fsync is to begin after this */
	k->taken = number;
	while (!err && !is_on_disk(k, number))
		err = k->syncing ? task_cond_wait(&k->changed, &k->lock, rq->deadline_ns) : sync_counted(rq, x, directory, k);
	pthread_mutex_unlock(&k->lock);
	return err;
}

void taken_synced(struct known *k, int err)
{
	pthread_mutex_lock(&k->lock);
	if (err)
		k->taken++;
	else
		k->on_disk = k->taken;
	pthread_mutex_unlock(&k->lock);
}
