/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of the fop `replica`, as verbs.c calls them: 0 or -errno. */
#ifndef STRATUS_VERBS_H
#define STRATUS_VERBS_H
#include "member.h"

struct asked {
	struct request *rq;
	struct member *m;
	const struct replica_in *in;
	struct replica_out *out;
	struct unpack u;
	struct pack answer;
};

/* verbs.c */
/* The gfid that is named next. A tenant's root is what it is called here; of all else he must have a voucher, but of the rename token. -ESTALE: he has
 * none; -EINVAL: there is no gfid. */
int verb_gfid(struct asked *a, struct gfid *);
/* The same without a voucher: where only what the session has already is given up. */
struct gfid verb_gfid_held(struct asked *a);
bool member_is_back(struct member *); /* it is being healed. Not with the lock held */

/* verbs-client.c */
int verb_attach(struct asked *a);
int verb_acquire(struct asked *a);
int verb_release(struct asked *a);
int verb_settle(struct asked *a);
int verb_detach(struct asked *a);
int verb_suspect(struct asked *a);
int verb_failed(struct asked *a);
int verb_outcome(struct asked *a);
int verb_skip(struct asked *a);
int verb_try(struct asked *a);
int verb_share(struct asked *a);
int verb_lower(struct asked *a);
int verb_believe(struct asked *a);

/* verbs-names.c */
int verb_links(struct asked *a, struct inode *inode);
/* The object, if it is in use here and no name leads to it. -EXDEV: one does. */
int find_nameless(struct request *rq, struct member *m, const struct gfid *g, struct inode **found);
int verb_find_unlinked(struct asked *a);
int verb_find(struct asked *a);
int verb_find_directory(struct asked *a);
int verb_names(struct asked *a);

/* verbs-lease.c */
int verb_lease(struct asked *a);
int verb_did(struct asked *a);

/* verbs-view.c */
int verb_freeze(struct asked *a, uint64_t epoch);
int verb_notes(struct asked *a, uint64_t epoch);
int verb_repeated(struct asked *a, uint64_t epoch);
int verb_add_notes(struct asked *a, uint64_t epoch);
int verb_add_pending(struct asked *a, uint64_t epoch);
int verb_activate(struct asked *a, uint64_t epoch);
int verb_distrust(struct asked *a, uint64_t epoch);
int verb_resolve(struct asked *a, uint64_t epoch);

/* departing.c */
int verb_departing(struct asked *a, uint64_t epoch);
int verb_depart(struct asked *a, uint64_t epoch);

/* verbs-heal.c */
int verb_list_index(struct asked *a);
int verb_list_pending(struct asked *a);
int verb_strike(struct asked *a, uint64_t epoch);
int verb_follow(struct asked *a, uint64_t epoch);
int verb_checksum(struct asked *a);
int verb_lose(struct asked *a, uint64_t epoch);
#endif
