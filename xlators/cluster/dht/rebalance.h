/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the rebalancer of cluster/dht: the steps and commands (rebalance.c), layouts and the roots of those that come (rebalance-join.c), names that are moved
 * (rebalance-moves.c). All requests are root's. */
#ifndef STRATUS_DHT_REBALANCE_H
#define STRATUS_DHT_REBALANCE_H
#include "dht.h"

#define REBALANCE_ASK_NS 30000000000u

enum { PROBLEM = 512 };
enum rebalance_state { IDLE, RUNNING, DONE, STOPPED };
struct rebalance {
	struct dht *d;
	pthread_mutex_t lock; /* guards what follows */
	struct task_cond changed;
	enum rebalance_state state;
	bool stopping, hurry; /* hurry: the graph is to end */
	unsigned waiters;     /* for its end */
	struct task *task;
	const char *step;
	uint64_t moved, left;
	char problem[PROBLEM];
};

/* What it waits for; returns err. It is told in the log once. */
int rebalance_problem(struct rebalance *, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));
void rebalance_count(struct rebalance *, uint64_t moved, uint64_t left);
bool rebalance_stops(struct rebalance *);
bool rebalance_pause(struct rebalance *, uint64_t ms); /* false: it is to stop */
void rebalance_ask(struct rebalance *, struct request *, uint64_t ns);
static inline const char *subvolume_name(const struct rebalance *r, int child)
{
	return r->d->x->child[child]->name;
}

/* ---- rebalance-join.c ---- */
/* Those that come get owner, mode and ACL of the home's root. */
int copy_roots(struct rebalance *, const struct layout *);
/* To all members at once. -EAGAIN: one has a later one. */
int layout_push(struct rebalance *, const struct layout *);
/* At the home first, so there is one that counts. All, or it is not 0. (Where names come to be may have it before all where they come from: who makes one there has
 * heard by the same version that it is not where it was.) */
int layout_write(struct rebalance *, const struct layout *);

/* ---- rebalance-moves.c ---- */
/* Until no name that is to be elsewhere is there, or can come back. -ECANCELED: it is to stop. */
int clear_sources(struct rebalance *, const struct layout *);
#endif
