/* SPDX-License-Identifier: Apache-2.0 */
/* POSIX locks (fcntl) and flock: the bricks keep them, the kernel only asks. */
#include <fcntl.h>

#include "fuse-internal.h"

static const uint64_t to_the_end = INT64_MAX; /* as the kernel says it */

static struct lock lock_of(const struct ask *a, const struct fuse_lk_in *arg)
{
	bool flock = arg->lk_flags & FUSE_LK_FLOCK;
	return (struct lock){
		.kind = flock ? LOCK_FLOCK : LOCK_POSIX,
		.type = arg->lk.type,
		.start = flock ? 0 : arg->lk.start,
		.end = flock || arg->lk.end == to_the_end ? UINT64_MAX : arg->lk.end,
		.owner = arg->owner,
		.pid = arg->lk.pid,
		.wait = a->head.opcode == FUSE_SETLKW,
	};
}

int serve_getlk(struct ask *a)
{
	const struct fuse_lk_in *arg = (const void *)a->arg;
	struct getlk_in in = { .file = ((struct handle *)(uintptr_t)arg->fh)->file, .lock = lock_of(a, arg) };
	struct getlk_out out = { 0 };
	a->rq.lock_owner = arg->owner;
	int err = getlk_on(&a->rq, ask_child(a), &in, &out);
	if (err)
		return err;
	const struct lock *l = &out.lock;
	struct fuse_lk_out answer = {
		.lk = { .start = l->start, .end = l->end < to_the_end ? l->end : to_the_end, .type = l->type, .pid = l->pid }
	};
	reply(a, &answer, sizeof(answer));
	return 0;
}

int serve_setlk(struct ask *a)
{
	const struct fuse_lk_in *arg = (const void *)a->arg;
	struct setlk_in in = { .file = ((struct handle *)(uintptr_t)arg->fh)->file, .lock = lock_of(a, arg) };
	struct setlk_out out = { 0 };
	a->rq.lock_owner = arg->owner;
	atomic_store(&((struct handle *)(uintptr_t)arg->fh)->locked, true);
	if (in.lock.kind == LOCK_POSIX && in.lock.type != F_UNLCK) /* before the lock is there, so that no close misses it */
		atomic_store(&node_state(a->mount, in.file->inode)->locked, true);
	int err = setlk_on(&a->rq, ask_child(a), &in, &out);
	if (!err)
		reply(a, NULL, 0);
	return err;
}

void flock_drop(struct ask *a, struct file *file, uint64_t owner)
{
	struct setlk_in in = {
		.file = file,
		.lock = { .kind = LOCK_FLOCK, .type = F_UNLCK, .end = UINT64_MAX, .owner = owner, .pid = a->head.pid }
	};
	struct setlk_out out = { 0 };
	a->rq.lock_owner = owner;
	setlk_on(&a->rq, ask_child(a), &in, &out);
}
