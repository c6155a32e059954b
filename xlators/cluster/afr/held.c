/* SPDX-License-Identifier: Apache-2.0 */
/* Changes that are good only while a lock is held (held.h). Each member looks at its own locks, and a change is acknowledged when all that are IN have found the
 * lock there, as it is taken at all of them. Where this client knows that one has given it up nothing is sent: whoever stands above takes it anew. */
#include "held.h"

#include <fcntl.h>

#include "change.h"

static struct inode *changed_by(enum fop fop, const void *in)
{
	const struct setattr_in *set = in;

	switch ((int)fop) {
	case FOP_write:
		return ((const struct write_in *)in)->file->inode;
	case FOP_setattr:
		return set->inode ? set->inode : set->file->inode;
	case FOP_fallocate:
		return ((const struct fallocate_in *)in)->file->inode;
	case FOP_setxattr:
		return ((const struct setxattr_in *)in)->inode;
	default:
		return NULL;
	}
}

static bool is_of(const struct held_lock *h, const struct held_mark *m)
{
	return h->lock.kind == LOCK_POSIX && h->lock.type != F_UNLCK && h->lock.owner == m->owner && h->lock.pid == m->pid &&
	       h->lock.start <= m->end && m->start <= h->lock.end;
}

/* Adds these members to those that gave it up; who did. */
static unsigned given_up(struct afr *a, const struct request *rq, enum fop fop, const void *in, unsigned now)
{
	struct held_mark m;
	struct inode *inode = held_of(rq, &m) > 0 ? changed_by(fop, in) : NULL;
	struct object *o = inode ? inode_slot(inode, a->x) : NULL;
	unsigned who = 0;

	if (!o)
		return 0;
	pthread_mutex_lock(&o->lock);
	for (unsigned i = 0; i < o->helds; i++)
		if (is_of(&o->held[i], &m))
			who |= o->held[i].lost |= now;
	pthread_mutex_unlock(&o->lock);
	return who;
}

bool lock_given_up(struct afr *a, const struct request *rq, enum fop fop, const void *in, unsigned members)
{
	return rq->extensions && given_up(a, rq, fop, in, 0) & members;
}

void lock_refused(struct changing *c, const struct view *v, struct fan *f)
{
	unsigned who = 0;

	for (int i = 0; i < v->members; i++)
		who |= fan_result(f, i)->asked && fan_result(f, i)->status == -ENOTHELD ? 1u << i : 0;
	if (who)
		given_up(c->a, c->rq, c->fop, c->in, who);
}
