/* SPDX-License-Identifier: Apache-2.0 */
/* Which volumes have bricks at several servers, or several replica sets, that share limits of tenants, as the committed specifications say. Of the thread of allotments alone. */
#ifndef STRATUS_CLUSTER_ALLOT_SHARING_H
#define STRATUS_CLUSTER_ALLOT_SHARING_H
#include "allot.h"
#include "inode.h"
#include "store.h"

struct limit { /* of a tenant */
	uint64_t base;
	struct amount limit;
};
struct soft_limit {
	uint64_t base, grace;
	struct amount soft;
	char name[ALLOT_UNIT_NAME + 1]; /* of the tenant */
};
struct sharing { /* a volume whose servers, or sets, share limits */
	char name[STORE_KEY_MAX], pool[GFID_TEXT];
	uint64_t version;
	char unit[ALLOT_UNITS_MAX][ALLOT_UNIT_NAME + 1];
	char view[ALLOT_UNITS_MAX][STORE_KEY_MAX]; /* of a set: the key of its view; "": the unit is a server */
	struct {
		uint64_t version, epoch; /* of that view, as it was looked at last; no epoch: there is none */
	} seen[ALLOT_UNITS_MAX];
	size_t units;
	struct limit *limit; /* by base */
	size_t limits;
	struct soft_limit *soft; /* by base */
	size_t softs;
	bool marked;
};
void sharing_look(void); /* at what has changed */
void sharing_forget(void);
const struct sharing *sharing_find(const char *pool); /* NULL: there is no such volume */
bool sharing_is_current(const struct sharing *);      /* false: the specification has changed since it was looked at */
bool sharing_has(const struct sharing *, const char *unit);
/* The epoch of the view that the store had of the set when it was looked at; 0: the unit is a server. False: it is none of the volume's, or a set that has no view. */
bool sharing_epoch(const struct sharing *, const char *unit, uint64_t *epoch);
/* False: no limit of the tenant is shared. */
void sharing_each(void (*fn)(const struct sharing *, void *), void *arg);
bool sharing_limit(const struct sharing *, uint64_t base, struct amount *limit);
#endif
