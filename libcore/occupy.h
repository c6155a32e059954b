/* SPDX-License-Identifier: Apache-2.0 */
/* Occupies the other one of two CPUs for a moment, so that the kernel leaves two threads that wake each other in turn on one: see occupy.c. */
#ifndef STRATUS_OCCUPY_H
#define STRATUS_OCCUPY_H
#include <stdbool.h>
#include <stdint.h>

/* A thread that yielded and was kept from its CPU for longer than that has been in somebody's way; then it stays away for so many times as long. */
enum { CROWDED_NS = 50000, CROWDED_SHARE = 32 };

/* Until then (clock_ns), or until somebody else wants the CPU. False: somebody wanted it a moment ago, or there is no thread for it. From any thread. */
bool occupy_until(uint64_t ns);
/* It is over for now. From any thread; nobody may call occupy_until() meanwhile. */
void occupy_end(void);

struct occupy_stats {
	uint64_t begun, given_way; /* how often a CPU was occupied, and left since somebody else wanted it */
	bool parked;		   /* the thread sleeps */
};
void occupy_stats(struct occupy_stats *);
#endif
