/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the runtime: what task.c, runtime.c, sync.c and timer.c share. */
#ifndef STRATUS_TASK_INTERNAL_H
#define STRATUS_TASK_INTERNAL_H
#include <stdatomic.h>

#include "task.h"

enum task_state {
	TASK_IDLE,     /* in the pool */
	TASK_READY,    /* in a run queue */
	TASK_RUNNING,  /* on a thread */
	TASK_NOTIFIED, /* running, and a wake has come: the next wait returns at once */
	TASK_WAITING,
};

struct task {
	void *sp;
	atomic_int state;
	struct shard *shard;
	task_fn *fn;
	void *arg;
	struct task *next; /* in the run queue or the pool */
	char *stack;	   /* lowest usable byte */
	atomic_bool cancelled, timed_out;
	int shielded;
	atomic_uint_fast64_t wait_until; /* deadline of the current wait, 0 when none */
	struct timer timer;		 /* set at or before wait_until; it re-arms itself (see task_expired) */
	void *asan_fake_stack, *tsan_fiber;
	unsigned valgrind_id;
};

struct call { /* shard_call */
	task_fn *fn;
	void *arg;
	struct call *next;
};

struct shard {
	unsigned number;
	int epoll_fd, event_fd;
	pthread_mutex_t lock; /* guards the queues, the heap and `sleeping`; short */
	struct task *first, *last;
	struct call *first_call, *last_call;
	struct timer **heap;
	unsigned heap_count, heap_room;
	bool sleeping;		   /* in epoll_wait, or about to: who adds work must write event_fd */
	atomic_uint_fast64_t turn; /* odd while a task runs under the loop; changing it takes the loop over */
	uint64_t turn_seen;	   /* by the watchdog */
	atomic_uint_fast64_t live; /* tasks */
	int luck, short_sleeps;	   /* of busy polling; the driver's own, like the next */
	uint64_t usual_ns;	   /* how long work is in coming */
	uint64_t poll_after_ns;	   /* not before that */
};

/* What a thread knows of itself. */
struct driver {
	void *sp;	   /* of the loop, while a task runs */
	struct task *task; /* running */
	struct shard *loop_of;
	enum { AFTER_WAIT, AFTER_YIELD, AFTER_END } after;
	void *asan_fake_stack, *tsan_fiber;
	const void *stack_bottom;
	size_t stack_size;
};

struct driver *driver_self(void);
extern bool runtime_never_blocks;
extern struct runtime_counters {
	atomic_uint_fast64_t live, peak, total, switches, takeovers, stacks, not_polled;
} runtime_counters;

/* Adds a ready task to its shard's queue, and wakes the loop if it sleeps. */
void shard_enqueue(struct task *);
void shard_task_ended(struct shard *);
void shard_kick(struct shard *);
/* Runs the task on this thread until it waits or ends. False if the loop was taken over meanwhile: leave it at once. */
bool task_run(struct driver *, struct shard *, struct task *);
bool task_release_loop(struct driver *); /* true if this thread held it until now */
void shard_hand_over(struct shard *);	 /* a spare thread drives the shard from now on */
void task_pool_destroy(void);
/* Due timers: runs them. Returns ms until the next one, -1 if none. */
int timers_run(struct shard *);
#endif
