/* SPDX-License-Identifier: Apache-2.0 */
/* An end in good order: replica sets go on without this server's bricks before these are gone, and another server leads before it
 * has to find out that this one does not. See "A server that ends" in doc/replication.md. */
#include <time.h>
#include <unistd.h>

#include "cluster.h"
#include "log.h"
#include "store.h"

enum { LEAVE_MS = 5000, LOOK_MS = 5 };

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void retire(struct graph *g, void *done)
{
	*(bool *)done &= graph_retire(g);
}

/* Twice in a row: a coordinator that was asked before one of its members was may have heard of that one since. */
void cluster_leave(void)
{
	uint64_t until = now_ms() + LEAVE_MS;
	struct store_member other[2];
	unsigned in_a_row = 0;

	if (store_members(cluster_store(), other, 2) < 2) /* nobody would go on */
		return;
	while (in_a_row < 2 && now_ms() < until) {
		bool done = true;

		cluster_each_graph(retire, &done);
		in_a_row = done ? in_a_row + 1 : 0;
		usleep(LOOK_MS * 1000);
	}
	if (in_a_row < 2)
		log_info(NULL, NULL, "not all replica sets have come to rest without the bricks of this server within %d s",
			 LEAVE_MS / 1000);
}
