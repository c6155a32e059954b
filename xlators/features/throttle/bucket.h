/* SPDX-License-Identifier: Apache-2.0 */
/* A token bucket: what may be used in a second, and at once. The caller says what time it is. */
#ifndef STRATUS_THROTTLE_BUCKET_H
#define STRATUS_THROTTLE_BUCKET_H
#include <stdint.h>

struct bucket {
	uint64_t rate; /* gained in a second; 0: there is no limit */
	double burst;  /* holds at most so much */
	double level;  /* may be below 0: what was used ahead of its time */
	uint64_t at_ns;
};
/* Holds what one second gives, but at least `least`. One that had no limit is full; else it keeps what it has. */
void bucket_set(struct bucket *, uint64_t rate, uint64_t least, uint64_t now_ns);
/* When so much may be taken: 0 (now), or a moment. What is more than the burst may be taken when the bucket is full. */
uint64_t bucket_when(struct bucket *, uint64_t cost, uint64_t now_ns);
void bucket_take(struct bucket *, uint64_t cost, uint64_t now_ns);
/* Without having asked; but not further below 0 than one burst. */
void bucket_owe(struct bucket *, uint64_t cost, uint64_t now_ns);
/* What was taken, and not used (or, below 0, used beyond that). */
void bucket_return(struct bucket *, double unused);
/* How long the bucket needs for so much; ns. */
uint64_t bucket_time(const struct bucket *, uint64_t cost);
#endif
