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

int own_call(struct request *rq, struct xlator *x, enum fop fop, const struct replica_stamp *stamp, const void *in, void *out)
{
	struct member *m = member_of(x);
	unsigned parity = 0;
	struct note n;
	int err;

	if (note_of(fop, in, &n))
		return fop_pass(rq, x, fop, in, out);
	pthread_mutex_lock(&m->lock);
	err = begins(m, fop, &n, &parity);
	pthread_mutex_unlock(&m->lock);
	if (err)
		return err;
	rq->time_ns = stamp->time;
	err = fop_pass(rq, x, fop, in, out);
	pthread_mutex_lock(&m->lock);
	if (!err)
		touch_made(m, fop, out);
	no_longer_running(m, parity);
	pthread_mutex_unlock(&m->lock);
	return err;
}
