/* SPDX-License-Identifier: Apache-2.0 */
/* How often the view is changed because a member lacks a directory (lacking.c): a member that loses it again, or a client that makes such
 * directories, must not keep all others waiting. */
#ifndef STRATUS_LACKING_LIMIT_H
#define STRATUS_LACKING_LIMIT_H
#include "replica.h"

enum { LACKS_KEPT = 256 };
struct lacking_limit {
	struct gfid directory[LACKS_KEPT]; /* the last that were made equal for this, and when */
	uint64_t taken_ns[LACKS_KEPT];
	unsigned taken;		    /* of all */
	uint64_t view_ns, pause_ns; /* the last such view, and how long after it the next one may come */
};
/* Not within a minute after it was made equal last; nor where so many others were that this is not known. */
bool lacking_may_take(const struct lacking_limit *, const struct gfid *directory, uint64_t now);
void lacking_take(struct lacking_limit *, const struct gfid *directory, uint64_t now);
/* One view is for all that are found by then. The next one comes a second later at the soonest, and the more of them come, the later: up to 16 s. */
bool lacking_may_view(const struct lacking_limit *, uint64_t now);
void lacking_view(struct lacking_limit *, uint64_t now);
#endif
