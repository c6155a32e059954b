/* SPDX-License-Identifier: Apache-2.0 */
/* Who tells the leader of soft limits: each server of its bricks without replicas, and of each replica set the member that decides there, in the view that the store has. For cluster-soft-lead.c,
 * under its lock. */
#ifndef STRATUS_CLUSTER_SOFT_SPEAKERS_H
#define STRATUS_CLUSTER_SOFT_SPEAKERS_H
#include "soft.h"
#include "store.h"

struct speaker {
	char name[ALLOT_UNIT_NAME + 1]; /* of the server, or the set */
	char view[STORE_KEY_MAX];	/* the key of the set's view; "": it is a server */
	uint64_t version;		/* of that, as it was read last */
	struct soft_unit unit;
	uint64_t heard_ns, upto; /* upto: what is said of its messages up to there has been decided */
};
/* NULL: it was never heard. Of a set the epoch is what the store has now. */
struct speaker *speaker_find(const char *name);
struct speaker *speaker_need(const char *name, const char *view); /* NULL: there are too many */
/* Whether it is told by who decides; what another member of a set says, that did so in an earlier view, is not heard (S5). */
bool speaker_decides(const struct speaker *, uint64_t term);
void speakers_decided(void); /* all that was taken */
void speakers_forget(void);
#endif
