/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime: shards (one event loop each), and tasks (functions with a stack of their own that may wait). */
#ifndef STRATUS_TASK_H
#define STRATUS_TASK_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A file operation is a plain function on a task: it returns 0 or -errno, and where it must wait it calls something
 * that ends in task_wait(). The thread below then runs other tasks. See doc/runtime.md.
 *
 * A task belongs to one shard. It normally runs on the thread that drives the shard's loop. If a task stays in one
 * system call for more than a moment, another thread takes the loop over (see runtime.c), and the task goes on beside
 * it; so a task may resume on another thread than it waited on. Hence:
 *  - no pthread mutex is held across anything that waits;
 *  - take errno with errno_now() in functions that also wait: the compiler may keep the address of errno over the wait;
 *  - what tasks of one shard share has a lock of its own, unless the runtime was started with RUNTIME_NEVER_BLOCKS;
 *  - its stack has 128 KiB: what is large, or of a size that others choose, goes to the heap. Below it is a page that nobody may touch, so the
 *    process ends with SIGSEGV and nothing is overwritten. */

struct task;
struct shard;
typedef void task_fn(void *arg);

/* ---- runtime and shards ---- */

enum { RUNTIME_NEVER_BLOCKS = 1 }; /* tasks make no blocking system call (a client): loops are never taken over */

/* Starts `shards` event loops (0: one per core, at most 4). Returns 0 or -errno. Once per process. */
int runtime_start(unsigned shards, unsigned flags);
/* Stops all loops after the tasks have ended (the caller has made sure that they will), joins the threads and frees
 * everything. Not from a task. */
void runtime_stop(void);
/* How long a loop polls for more work before it sleeps, while work comes in quick succession. 0 (as it begins): never. Live.
 * Ignored on a machine with one CPU. */
void runtime_busy_poll(uint64_t ns);
/* Tells this start of the machine from all others: while it is the same the kernel has all that was written, whatever processes ended.
 * 0: not known. */
uint64_t runtime_boot(void);
unsigned runtime_shards(void);
/* May a translator have threads of its own? Not in the simulator, where one thread does all, in an order that replays. */
bool runtime_has_threads(void);
/* CPUs of this machine that no thread runs on, or waits for, just now; all but one where that is not known. Costs a read of /proc/loadavg, 1 us. */
unsigned runtime_free_cpus(void);
struct shard *runtime_shard(unsigned number);
unsigned shard_number(const struct shard *);
/* The shard of the running task, or of the loop that runs this thread; NULL on a thread of another kind. */
struct shard *shard_self(void);
/* Calls fn(arg) on the loop of the shard, between tasks, soon; from any thread. fn must not wait. -ENOMEM. */
int shard_call(struct shard *, task_fn *fn, void *arg);

/* Watches a descriptor (level-triggered). The callback runs on the loop, must not wait, and gets EPOLL* bits.
 * The memory of the watch is the caller's; it may go after shard_unwatch() plus one shard_call() round. */
struct watch {
	int fd;
	void (*ready)(struct watch *, uint32_t events);
	struct shard *shard; /* set by shard_watch */
};
int shard_watch(struct shard *, struct watch *, uint32_t events);
int shard_rewatch(struct watch *, uint32_t events);
void shard_unwatch(struct watch *);

/* ---- tasks ---- */

/* Starts fn(arg) as a task on the shard (NULL: the own one, else shard 0); from any thread. -ENOMEM, -EAGAIN (limit). */
int task_spawn(struct shard *, task_fn *fn, void *arg);
/* Same, and runs it at once, before returning, until it first waits or ends. Only on the shard's loop (not in a task). */
int task_run_now(struct shard *, task_fn *fn, void *arg);
struct task *task_self(void); /* NULL outside of tasks */
struct shard *task_shard(const struct task *);

enum { NO_DEADLINE = 0 };
uint64_t clock_ns(void);      /* monotonic time; 0 is never returned */
uint64_t clock_wall_ns(void); /* time since the epoch */

/* Waits for task_wake(). 0 when woken, -ETIMEDOUT once deadline_ns (monotonic) is past, -ECANCELED if the task was
 * cancelled (each cancel is reported once, by this or a later wait). May return 0 without reason: check and wait again.
 * A wake before the wait is not lost. */
int task_wait(uint64_t deadline_ns);
void task_wake(struct task *); /* from any thread; safe on tasks that have ended (their memory is kept) */
/* Makes the task's current or next wait return -ECANCELED. From any thread, if the caller knows that the task lives. */
void task_cancel(struct task *);
/* Waits deaf to cancels (they stay pending): for code that must finish what it began. Nests. */
void task_shield(bool on);
int task_sleep_ms(uint64_t ms);
void task_yield(void);
/* "I am about to block in a system call for long (fsync): let another thread have the loop now." No-op outside tasks. */
void task_blocks(void);
int errno_now(void);

struct runtime_stats {
	uint64_t tasks_live, tasks_peak, tasks_total, switches, takeovers, stacks;
	uint64_t not_polled; /* times that a loop slept at once, for lack of CPUs, where it would have polled */
};
void runtime_stats(struct runtime_stats *);

/* ---- waiting for each other: locks across waits. All may be used between shards, and zero-filled means ready. ---- */

struct task_waiter;
struct task_lock {
	atomic_flag guard; /* short; guards the list; see sync.c */
	bool held;
	struct task_waiter *first, *last;
};
/* 0; -ETIMEDOUT, -ECANCELED. Strictly first come, first served. */
int task_lock(struct task_lock *, uint64_t deadline_ns);
void task_unlock(struct task_lock *);
bool task_trylock(struct task_lock *);

/* A condition: waiters sleep until the next signal. The caller checks what it waits for under a pthread mutex of its own,
 * which cond_wait releases while it waits. */
struct task_cond {
	atomic_flag guard;
	struct task_waiter *first, *last;
};
int task_cond_wait(struct task_cond *, pthread_mutex_t *, uint64_t deadline_ns);
void task_cond_signal(struct task_cond *);    /* wakes the first */
void task_cond_broadcast(struct task_cond *); /* wakes all */

/* Waits on a plain thread too: runs fn(arg) as a task and blocks the calling thread until it has ended (tests, tools,
 * start-up code). Not on a loop or task. */
int task_call(task_fn *fn, void *arg);

/* A one-shot timer on the shard's loop; fn runs there and must not wait: it spawns a task for what does. Memory is the caller's. From another
 * thread one can't know whether fn is running just now: so who stops calls timer_cancel() by shard_call(), and waits until that has run
 * (doc/translator-tutorial.md, "Something now and then"). */
struct timer {
	uint64_t at_ns;
	task_fn *fn;
	void *arg;
	struct shard *shard;
	unsigned slot; /* position in the heap + 1, 0 when not set */
};
int timer_set(struct shard *, struct timer *, uint64_t at_ns); /* again: moves it */
void timer_cancel(struct timer *); /* after return fn does not start (if called on the timer's shard) */

#endif
