/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting until others have done at all members what is under way here. */
#include <stdio.h>

#include "member.h"

enum { ASK_NS = 50000000 };

/* With the lock held. The event names nothing: on the way to its client each inode becomes a handle, and
 * what was read, or the directory in which that was looked for, need be none that this client may have. */
int note_wait_settled(struct member *m, struct kept_note *k, uint64_t until)
{
	struct event e = { .kind = EVENT_SETTLE, .client = k->session->client };
	int err;

	if (clock_ns() >= until)
		return -EVIEW;
	m->waits++;
	k->session->asked_ns = k->session->asked_ns ? k->session->asked_ns : clock_ns();
	if (e.client) {
		pthread_mutex_unlock(&m->lock);
		event_up(m->x, &e);
		pthread_mutex_lock(&m->lock);
	}
	err = atomic_load(&m->noted) ? task_cond_wait(&m->event, &m->lock, clock_ns() + ASK_NS) : 0;
	return err == -ECANCELED ? err : -EAGAIN;
}

int recovered_wait(struct member *m, uint64_t until)
{
	if (clock_ns() >= until)
		return -EVIEW;
	m->waits++;
	return task_cond_wait(&m->event, &m->lock, clock_ns() + ASK_NS) == -ECANCELED ? -ECANCELED : -EAGAIN;
}

/* ---- link(2) and unlink(2) ---- */

/* Another name of it goes, perhaps the last. */
static const struct loc *name_that_goes(enum fop fop, const void *in)
{
	const struct rename_in *rename = in;
	const struct unlink_in *unlink = in;

	if (fop == FOP_unlink)
		return &unlink->loc;
	return fop == FOP_rename && !(rename->flags & RENAME_EXCHANGE) ? &rename->to : NULL;
}

static bool stands_for(struct request *rq, struct xlator *x, const struct loc *loc, struct gfid *gfid)
{
	struct lookup_in in = { .loc = { .parent = loc->parent, .name = loc->name } };
	struct lookup_out out = { 0 };
	bool yes = !lookup_on(rq, x->child[0], &in, &out);

	if (yes)
		*gfid = out.inode->gfid;
	fop_out_clear(FOP_lookup, &out);
	return yes;
}

/* One at a time is looked for; what the session itself has under way it answers for. */
static struct kept_note *link_of(struct member *m, const struct request *rq, const struct gfid *gfid)
{
	struct session *s = session_of(m, rq);
	struct kept_note *k = note_on(m, gfid, NULL, s);

	while (k && (k->note.fop != FOP_link || k->resolved))
		k = note_next_on(m, k, gfid, s);
	return k;
}

int link_wait_settled(struct request *rq, struct xlator *x, const struct replica_stamp *stamp, enum fop fop, const void *in)
{
	const struct loc *loc = name_that_goes(fop, in);
	uint64_t until = clock_ns() + READ_WAIT_NS;
	struct member *m = member_of(x);
	struct gfid gfid;
	int err = -EAGAIN;

	while (loc && err == -EAGAIN && atomic_load(&m->links) && stands_for(rq, x, loc, &gfid) &&
	       !MUTANT("unlink-beside-link")) {
		cleanup_member struct member *locked = member_locked(x);
		struct kept_note *k = m->frozen || stamp->epoch != m->view.epoch ? NULL : link_of(locked, rq, &gfid);

		err = k ? note_wait_settled(locked, k, until) : 0;
	}
	return err == -ECANCELED ? err : 0;
}
