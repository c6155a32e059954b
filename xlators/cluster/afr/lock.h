/* SPDX-License-Identifier: Apache-2.0 */
/* What is locked through which file, and where: brought.c notes it, and brings it to members that did not hear of it; lock.c takes locks, and gives them back. */
#ifndef STRATUS_AFR_LOCK_H
#define STRATUS_AFR_LOCK_H
#include "afr.h"

static inline bool other_view(int err)
{
	return err == -EVIEW || err == -ENOTCONN || err == -ETIMEDOUT || err == -ESTALE;
}

/* What the lock's owner has from `at` on, up to *end or to where that may change; with the object's lock held. */
uint32_t held_at(const struct object *, const struct lock *, uint64_t at, uint64_t *end);

/* Before a lock is asked for through the file at those members: whoever gives it back, through whichever file, asks there, too. */
int lock_begins(struct afr *, struct file *, const struct lock *, unsigned members);
/* What a member is brought meanwhile is told from what it has been brought before. */
struct brings brings_of(struct object *);
/* It was taken at these members, or may have been. */
int lock_taken(struct afr *, struct file *, const struct lock *, unsigned members, const struct brings *before);
/* Before all of an owner is given back: from now on nothing of it is brought. lock_given_back() comes after that. */
void lock_all_leave(struct afr *, struct inode *, const struct lock *all);
/* It was given back: these have heard of it. */
int lock_given_back(struct afr *, struct file *, const struct lock *, unsigned told, const struct brings *before);
/* The same, where lock_all_leave() has noted it. */
void lock_all_left(struct afr *, struct inode *, const struct lock *all, unsigned told, const struct brings *before);
/* What was held before is there again, but not at these members, which may have anything. */
void lock_not_undone(struct afr *, struct file *, const struct lock *, unsigned members);
/* Other locks than ours may be held through the file at the member: they are brought soon. */
void lock_differs(struct afr *, struct file *, int member);
#endif
