/* SPDX-License-Identifier: Apache-2.0 */
/* What a member does of its own accord, and each other member by itself: features/cloud above makes the trees of tenants, and removes them. It is no
 * change of the set: nobody waits for it, and there is no note. But it is in the index, as a member that is away may lack it. */
#include "member.h"

/* With the lock held. Not before the set has a view: a member on which something has happened was in one, to the coordinator. While a recovery goes on, or
 * healing at this member, nothing is taken away under it. */
static int begins(struct member *m, enum fop fop, const struct note *n, unsigned *parity)
{
	bool removes = fop == FOP_unlink || fop == FOP_rmdir;
	int err = m->frozen || !m->view.epoch ? -EVIEW : 0;

	if (!err && removes && (m->recovering || member_state(m) == MEMBER_BACK))
		err = -ERECOVERING;
	if (!err)
		err = touch(m, n);
	if (err)
		return err;
	*parity = m->index.generation & 1;
	m->running[*parity]++;
	return 0;
}

/* What is in the directory here is what is in it elsewhere, or was a moment ago. `epoch`: of the view in which that is so. */
static int is_right(struct member *m, const struct gfid *directory, uint64_t *epoch)
{
	cleanup_member struct member *locked = member_locked(m->x);

	*epoch = locked->view.epoch;
	if (member_serves(m, MEMBER_BACK))
		return -EVIEW;
	return member_pending(m, directory) ? -EPENDING : note_recovering(m, directory) ? -ERECOVERING : 0;
}

/* A name that must not be taken for what it was before this member was away, or left out (REPLICA_READ). */
static int own_look(struct request *rq, struct xlator *x, const struct lookup_in *in, struct lookup_out *out)
{
	struct member *m = member_of(x);
	uint64_t before, after = 0;
	int err = in->loc.parent ? is_right(m, &in->loc.parent->gfid, &before) : -EINVAL, later;

	if (err)
		return err;
	err = fop_pass(rq, x, FOP_lookup, in, out);
	later = is_right(m, &in->loc.parent->gfid, &after);
	later = later ? later : before != after ? -EVIEW : 0;
	if (later && !err) {
		fop_out_clear(FOP_lookup, out);
		memset(out, 0, sizeof(*out));
	}
	return later ? later : err;
}

void suspect_self(struct member *m, int err)
{
	m->suspects |= 1u << m->number;
	m->reason[m->number] = (uint32_t)-err;
}

int own_call(struct request *rq, struct xlator *x, enum fop fop, const struct replica_stamp *stamp, const void *in, void *out)
{
	struct member *m = member_of(x);
	unsigned parity = 0;
	struct note n;
	int err;

	if (fop == FOP_lookup && stamp->flags & REPLICA_READ)
		return own_look(rq, x, in, out);
	if (note_of(fop, in, &n))
		return fop_pass(rq, x, fop, in, out);
	pthread_mutex_lock(&m->lock);
	err = begins(m, fop, &n, &parity);
	if (err == -EROFS || err == -EIO) /* the list of what changed is on the same disk; XFS says EIO when it has given up */
		suspect_self(m, err);
	pthread_mutex_unlock(&m->lock);
	if (err)
		return err;
	rq->time_ns = stamp->time;
	err = fop_pass(rq, x, fop, in, out);
	pthread_mutex_lock(&m->lock);
	if (!err)
		touch_made(m, fop, out);
	if (err == -EROFS) /* EIO may be of one directory of a tenant */
		suspect_self(m, err);
	no_longer_running(m, parity);
	pthread_mutex_unlock(&m->lock);
	return err;
}
