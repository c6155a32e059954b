/* SPDX-License-Identifier: Apache-2.0 */
/* What features/lease (at a brick) and features/believe (at its clients) have in common: doc/leases.md. */
#ifndef STRATUS_LEASE_H
#define STRATUS_LEASE_H
#include "xlator.h"

/* What the fop `lease` says, from the client to the brick. */
enum lease_verb {
	LEASE_PROVE =
		1, /* answered with the epoch in which its leases are; -EAGAIN: something that was recalled is not released yet */
	LEASE_RELEASED, /* `number`: of the recall; nothing of that object is believed any more */
};

/* The brick's word is good for PROOF_MS from when it was asked for; what is told on its ground is believed for BELIEF_MS at most. So WAIT_MS after
 * the brick was last asked nothing is believed. What was read is believed for KEPT_MS, if nothing recalls it. */
enum { LEASE_PROOF_MS = 400, LEASE_BELIEF_MS = 600, LEASE_WAIT_MS = 1200, LEASE_KEPT_MS = 20000 };

enum { LEASED_EXTENSION = 7 }; /* as in rpc/extension.def; of an answer, empty */

/* EVENT_RECALL names the object by its gfid, in lock.start and lock.end; lock.owner is the number of the recall. */

typedef void lease_object(void *arg, struct inode *);
/* Tells of the objects of which the answer teaches something that may be believed: attributes, or names. */
void lease_taught(enum fop, const void *in, const void *out, lease_object *, void *arg);
/* Tells of those that the operation changes, as far as it names them: what is replaced or removed it may name only by its name. */
void lease_changed(enum fop, const void *in, lease_object *, void *arg);
/* It changes mode, owner or ACL. */
bool lease_changes_meta(enum fop, const void *in);
/* An answer of which something may be believed: it succeeded, or there is no such name. */
static inline bool lease_teaches(enum fop fop, int err)
{
	return !err || (fop == FOP_lookup && err == -ENOENT);
}
#endif
