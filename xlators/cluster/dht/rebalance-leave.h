/* SPDX-License-Identifier: Apache-2.0 */
/* Between rebalance-leave.c, which empties a subvolume, and rebalance-look.c, which sees whether it is empty. */
#ifndef STRATUS_DHT_REBALANCE_LEAVE_H
#define STRATUS_DHT_REBALANCE_LEAVE_H
#include "rebalance.h"

struct leaving {
	struct rebalance *r;
	int child; /* who leaves */
	struct stays stays;
	uint64_t kept;	/* names that others keep for its stubs */
	int err;	/* of what could not be looked at */
	bool completes; /* while it is paused */
};

struct elsewhere { /* what is looked at at another subvolume */
	struct leaving *v;
	int child;
};

/* d.GFID, or another one. */
static inline int directory_parse(const char *name, struct gfid *gfid)
{
	return strncmp(name, "d.", 2) != 0 ? -EINVAL : gfid_parse(name + 2, gfid);
}

/* ---- rebalance-look.c ---- */
/* All directories of `away` there, or what there is of them. */
int leaving_each_away(struct leaving *, int child, uint32_t flags, meet_entries *, void *arg);
/* Fills `stays`. An error: not all could be looked at. */
int leaving_look(struct leaving *);
bool leaving_is_empty(const struct leaving *);
/* What was removed there is so on disk. */
int leaving_sync(struct leaving *);
#endif
