/* SPDX-License-Identifier: Apache-2.0 */
/* RENAME_EXCHANGE. If the brick is killed between doing it and answering, it is sent once more, and doing it once more would undo it. So the request says what each name
 * stands for: with that the brick tells whether it was done. */
#include <errno.h>
#include <stdio.h>

#include "client.h"
#include "place.h"

enum { TRIES = 32 };

bool exchange_is_unsaid(const struct request *rq, const struct rename_in *in)
{
	bool above =
		request_extension(rq, PLACE_EXTENSION); /* cluster/dht says it in its own way, and sends a lookup in none */

	return in->flags & RENAME_EXCHANGE && !above && !rq->resent && !(in->from.inode && in->to.inode);
}

static int look(struct remote *r, struct request *rq, const struct loc *loc, struct inode **inode, uint64_t *session)
{
	struct lookup_in in = { .loc = { .parent = loc->parent, .name = loc->name } };
	struct lookup_out out = { 0 };
	int err = remote_call_in(r, rq, FOP_lookup, &in, &out, session);

	if (!err)
		*inode = inode_ref(out.inode);
	fop_out_clear(FOP_lookup, &out);
	return err;
}

/* -EAGAIN: one of the names has become another object's since it was looked at. */
static int exchange_once(struct remote *r, struct request *rq, const struct rename_in *in, struct rename_out *out)
{
	cleanup_inode struct inode *from = NULL, *to = NULL;
	struct rename_in said = *in;
	uint64_t looked = 0, done = 0;
	int err = look(r, rq, &in->from, &from, &looked);

	if (!err)
		err = look(r, rq, &in->to, &to, &looked);
	if (err)
		return err;
	said.from.inode = from;
	said.to.inode = to;
	err = remote_call_in(r, rq, FOP_rename, &said, out, &done);
	if (err != -ESTALE)
		return err;
	if (done == looked) /* it was sent in one session: it was not done */
		return -EAGAIN;
	log_error(
		r->x, rq,
		"\"%s\" and \"%s\" were being exchanged when the brick was lost, and are other objects' by now: nobody knows whether that was done",
		in->from.name, in->to.name);
	return -EIO;
}

int exchange_names(struct remote *r, struct request *rq, const struct rename_in *in, struct rename_out *out)
{
	int err = exchange_once(r, rq, in, out);

	for (unsigned tries = 1; err == -EAGAIN && tries < TRIES; tries++) {
		task_sleep_ms(tries);
		err = exchange_once(r, rq, in, out);
	}
	return err == -EAGAIN ? -ESTALE : err;
}
