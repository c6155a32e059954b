/* SPDX-License-Identifier: Apache-2.0 */
/* From which of the changes of an object its mtime comes, when requests bring the time (request.time_ns): replicas that get the same
 * changes, in whatever order, end with the same mtime. For leaves. */
#ifndef STRATUS_CHANGE_TIME_H
#define STRATUS_CHANGE_TIME_H
#include "fop.h"
#include "task.h"

/* Of one object; zero-filled at first. Changes of one client may be done in another order than they were sent, so the youngest
 * counts. Changes of different clients follow each other (tokens see to that), whatever their clocks say: the last counts. */
struct change_time {
	const struct client *by; /* only compared */
	bool known;		 /* there was one */
	uint64_t youngest;
	struct time mtime; /* what that change gave */
};
static inline struct time time_of_ns(uint64_t ns)
{
	ns &= ~TIME_KEPT;
	return (struct time){ (int64_t)(ns / 1000000000), (uint32_t)(ns % 1000000000) };
}
static inline uint64_t time_ns(struct time t)
{
	return (uint64_t)t.sec * 1000000000 + t.nsec;
}
static inline struct time time_now(void)
{
	return time_of_ns(clock_wall_ns());
}
/* What mtime is to be after the request's change. `set`: what a setattr asks for (NULL: the time of the change). A setattr without
 * a time overrules all before it. A request whose time is to be kept (TIME_KEPT) counts as no change, if there was one. Called, and obeyed, under a
 * lock. */
static inline struct time change_time(struct change_time *c, const struct request *rq, const struct time *set)
{
	bool kept = rq->time_ns & TIME_KEPT && c->known;

	if (!kept && (c->by != rq->client || rq->time_ns >= c->youngest || !rq->time_ns))
		*c = (struct change_time){ rq->client, true, rq->time_ns & ~TIME_KEPT, set ? *set : time_of_ns(rq->time_ns) };
	return c->mtime;
}
#endif
