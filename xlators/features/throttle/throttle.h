/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of features/throttle share: the tenants, their limits and weights, and the queues. doc/throttle.md has the design. */
#ifndef STRATUS_THROTTLE_H
#define STRATUS_THROTTLE_H
#include <pthread.h>
#include <stdatomic.h>

#include "bucket.h"
#include "rows.h"
#include "xlator.h"

enum { TENANT_NAME = 64, TENANTS_MAX = 16384, PLACES = 2 * TENANTS_MAX };
enum { WEIGHT_MAX = 1000, LEAST_BYTES = 64 << 10, LEAST_OPS = 1 };
enum { ASIDE = 64 };
enum { CROWD = 1024, CROWD_BYTES = 16 << 20, CROWD_S = 5 };

struct cost {
	uint64_t ops, bytes; /* against the limits */
	uint64_t parts;	     /* of a share; 0: it is never held back */
	uint64_t data;	     /* bytes that it keeps in memory */
};

struct waiter { /* a request that is held back: on its task's stack */
	struct task *task;
	const struct cost *cost;
	bool limited; /* by its tenant's limits, if only for a while */
	bool served;
	struct waiter *next, *prev;
};
enum reason { HELD_LIMIT, HELD_SHARE, REASONS };
struct held {
	uint64_t count, ns;
};

struct rule { /* as the option says it */
	char name[TENANT_NAME + 1];
	uint32_t base;
	uint64_t ops, bytes; /* in a second; 0: no limit */
	uint64_t weight;
};
struct rules {
	struct rule *rule; /* by base */
	size_t count;
};

/* Once made it stays: requests find it without a lock. */
struct tenant {
	uint32_t base;
	atomic_bool limited; /* a copy of whether a bucket has a rate */
	atomic_uint
		aside; /* of its requests wait below for other clients; as long as these are ASIDE, no more get a turn. Changed with the lock held */
	/* What follows is guarded by throttle.lock. */
	bool listed; /* the option names it */
	char name[TENANT_NAME + 1];
	uint64_t weight;
	struct bucket ops, bytes;
	struct waiter *first, *last;
	struct cost queued; /* the sum of those that wait */
	unsigned waiting;
	uint64_t ready_ns;	/* when the limits let the first one go; 0: they do */
	uint64_t start, finish; /* in virtual time: of the turn it waits for; of the last one */
	bool in_line;		/* among those that wait for a place below */
	struct held held[REASONS];
};

struct throttle {
	char *tenants; /* options */
	int64_t at_once;

	atomic_uint below;	 /* requests of tenants that are in the storage, without those that wait for other clients */
	atomic_uint line_length; /* a copy, for those who don't take the lock */
	_Atomic(struct tenant *) place[PLACES]; /* by base: open addressing */
	struct tenant others;			/* those that the option does not name (yet) */

	pthread_mutex_t lock;
	char *text;	     /* of the tenants that are listed; not guarded: options change one after the other */
	struct tenant **all; /* in the order in which they came */
	size_t count, room;
	struct tenant **line; /* a heap by start; has room for all, and the others */
	size_t in_line;
	uint64_t now; /* virtual: the start of the turn that was served last */
};

/* ---- table.c ---- */
/* "NAME BASE [OPS [BYTES [WEIGHT]]], ...". -EINVAL and a sentence; -ENOMEM. */
int rules_parse(struct rows, struct rules *, struct problem *);
void rules_free(struct rules *);
/* From now on these hold. All, or (-EINVAL, -ENOMEM, -ENOSPC, and a sentence) none. Of a text that differs in few rows from the one before only these are read. */
int tenants_take(struct throttle *, const char *text, struct problem *);
struct tenant *tenant_find(struct throttle *, uint32_t base); /* never NULL */
void tenants_free(struct throttle *);

/* ---- turns.c ---- */
/* Waits until the request may go on. 0: it has a place below, until turn_end. -ECANCELED, -ETIMEDOUT: it has none. */
int turn_take(struct throttle *, struct tenant *, struct request *, const struct cost *);
void turn_end(struct throttle *);
/* One that has a place below begins (on) to wait for other clients, and the place is another's; or ends to, and has one again without waiting for it. */
void turn_aside(struct throttle *, struct tenant *, bool on);
/* With the lock held: limits, weights or at-once have changed; those of one. */
void turns_changed(struct throttle *);
void turn_changed(struct throttle *, struct tenant *);
#endif
