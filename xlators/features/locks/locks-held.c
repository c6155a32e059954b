/* SPDX-License-Identifier: Apache-2.0 */
/* Changes that are good only while their session holds a lock (held.h). From the look at the lock to the end of the change nobody else gets what is in its way:
 * so whoever has the lock after that finds the change done, or it is not done any more. */
#include "held.h"

#include <fcntl.h>

#include "locks.h"

/* In the session of the request: what an earlier one held ends with it. */
static bool is_held(const struct lock_inode *at, const struct pin *pin)
{
	const struct held *want = &pin->held;

	for (const struct held *h = at->held[LOCK_POSIX]; h; h = h->next)
		if (h->party.client == want->party.client && h->party.owner == want->party.owner &&
		    h->incarnation == want->incarnation && h->lock.type == F_WRLCK && h->lock.start <= want->lock.start &&
		    h->lock.end >= want->lock.end && h->lock.pid == want->lock.pid)
			return true;
	return false;
}

static int pin_set(struct locks *p, struct pin *pin)
{
	int err = -ENOTHELD;

	locks_take(p);
	if (pin->at && pin->held.party.client && is_held(pin->at, pin)) {
		pin->next = pin->at->pin;
		pin->at->pin = pin;
		pin->at->pins++;
		err = 0;
	}
	p->not_held += err != 0;
	pthread_mutex_unlock(&p->lock);
	return err;
}

/* Who has the lock wants it with another pid. */
static bool owner_waits(const struct pin *pin)
{
	const struct party *of = &pin->held.party;

	for (const struct waiter *w = of->client->waiter; w; w = w->client_next)
		if (w->at == pin->at && w->want.lock.kind == LOCK_POSIX && w->want.party.owner == of->owner &&
		    w->want.lock.pid != pin->held.lock.pid)
			return true;
	return false;
}

/* Whoever else waits for what is done waits for its lock, too. While that is held nobody is looked at: that may be much work, and would be done after each change. */
static void pin_take_out(struct locks *p, struct pin *pin)
{
	struct pin **at = &pin->at->pin;

	locks_take(p);
	while (*at != pin)
		at = &(*at)->next;
	*at = pin->next;
	pin->at->pins--;
	if (!is_held(pin->at, pin) || owner_waits(pin))
		grant_waiters(p, pin->at, true);
	pthread_mutex_unlock(&p->lock);
}

static int change_held(struct request *rq, struct xlator *x, const struct held_mark *m, enum fop fop, struct inode *inode,
		       const void *in, void *out)
{
	struct locks *p = x->private;
	struct pin pin = { .at = inode_slot(inode, x) };
	int err;

	pin.held = (struct held){ .party = { client_get(p, rq->client, false), m->owner },
				  .lock = { .kind = LOCK_POSIX,
					    .type = F_WRLCK,
					    .start = m->start,
					    .end = m->end,
					    .owner = m->owner,
					    .pid = m->pid },
				  .incarnation = rq->client ? rq->client->incarnation : 0 };
	err = pin_set(p, &pin);
	if (!err) {
		err = fop_pass(rq, x, fop, in, out);
		pin_take_out(p, &pin);
	}
	client_put(x, pin.held.party.client);
	return err;
}

static int change(struct request *rq, struct xlator *x, enum fop fop, struct inode *inode, const void *in, void *out)
{
	struct held_mark m;
	int said = held_of(rq, &m);

	return said > 0 ? change_held(rq, x, &m, fop, inode, in, out) : said ? said : fop_pass(rq, x, fop, in, out);
}

int locks_write(struct request *rq, struct xlator *x, const struct write_in *in, struct write_out *out)
{
	return change(rq, x, FOP_write, in->file->inode, in, out);
}

int locks_setattr(struct request *rq, struct xlator *x, const struct setattr_in *in, struct setattr_out *out)
{
	return change(rq, x, FOP_setattr, in->inode ? in->inode : in->file->inode, in, out);
}

int locks_fallocate(struct request *rq, struct xlator *x, const struct fallocate_in *in, struct fallocate_out *out)
{
	return change(rq, x, FOP_fallocate, in->file->inode, in, out);
}

int locks_setxattr(struct request *rq, struct xlator *x, const struct setxattr_in *in, struct setxattr_out *out)
{
	return change(rq, x, FOP_setxattr, in->inode, in, out);
}
