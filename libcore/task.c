/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks: stacks, switching, waiting and waking. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "task-internal.h"

#if defined(__SANITIZE_ADDRESS__)
#define ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define TSAN 1
#endif
#ifdef ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef TSAN
#include <sanitizer/tsan_interface.h>
#endif
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define VALGRIND_STACK_REGISTER(a, b) 0
#define VALGRIND_STACK_DEREGISTER(id) ((void)(id))
#endif

#if defined(ASAN) || defined(TSAN)
enum { STACK_SIZE = 512 << 10 };
#else
enum { STACK_SIZE = 128 << 10 }; /* only pages that were touched take memory */
#endif
enum { GUARD_SIZE = 4096, TASKS_MAX = 65536, IDLE_STACKS_MAX = 512 };

void task_switch(void **save, void *load);

struct runtime_counters runtime_counters;

/* The pool. Tasks are never freed while the runtime lives, so that waking one that has ended is harmless. */
static struct {
	pthread_mutex_t lock;
	struct task *with_stack, *without_stack;
	unsigned idle_stacks;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

__attribute__((noinline)) struct driver *driver_self(void)
{
	static _Thread_local struct driver driver;
	struct driver *d = &driver;

	__asm__ volatile("" : "+r"(d)); /* a task may come back on another thread: never remember the address */
	return d;
}

__attribute__((noinline)) int errno_now(void)
{
	__asm__ volatile("");
	return errno;
}

uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + 1;
}

uint64_t clock_wall_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool stack_map(struct task *t)
{
	char *base = mmap(NULL, STACK_SIZE + GUARD_SIZE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

	if (base == MAP_FAILED)
		return false;
	mprotect(base, GUARD_SIZE, PROT_NONE);
	t->stack = base + GUARD_SIZE;
	t->valgrind_id = VALGRIND_STACK_REGISTER(t->stack, t->stack + STACK_SIZE);
#ifdef TSAN
	t->tsan_fiber = __tsan_create_fiber(0); /* costly, so it stays with the stack */
#endif
	runtime_counters.stacks++;
	return true;
}

static void stack_unmap(struct task *t)
{
	VALGRIND_STACK_DEREGISTER(t->valgrind_id);
#ifdef TSAN
	__tsan_destroy_fiber(t->tsan_fiber);
#endif
	munmap(t->stack - GUARD_SIZE, STACK_SIZE + GUARD_SIZE);
	t->stack = NULL;
	t->sp = NULL;
	runtime_counters.stacks--;
}

static struct task *pool_get(void)
{
	struct task *t;

	pthread_mutex_lock(&pool.lock);
	t = pool.with_stack;
	if (t) {
		pool.with_stack = t->next;
		pool.idle_stacks--;
	} else {
		t = pool.without_stack;
		if (t)
			pool.without_stack = t->next;
	}
	pthread_mutex_unlock(&pool.lock);
	if (!t)
		t = calloc(1, sizeof(*t));
	if (t && !t->stack && !stack_map(t)) {
		pthread_mutex_lock(&pool.lock);
		t->next = pool.without_stack;
		pool.without_stack = t;
		pthread_mutex_unlock(&pool.lock);
		return NULL;
	}
	return t;
}

static void pool_put(struct task *t)
{
	pthread_mutex_lock(&pool.lock);
	if (pool.idle_stacks < IDLE_STACKS_MAX) {
		t->next = pool.with_stack;
		pool.with_stack = t;
		pool.idle_stacks++;
		pthread_mutex_unlock(&pool.lock);
		return;
	}
	pthread_mutex_unlock(&pool.lock);
	stack_unmap(t);
	pthread_mutex_lock(&pool.lock);
	t->next = pool.without_stack;
	pool.without_stack = t;
	pthread_mutex_unlock(&pool.lock);
}

void task_pool_destroy(void)
{
	struct task *t;

	while ((t = pool.with_stack)) {
		pool.with_stack = t->next;
		stack_unmap(t);
		free(t);
	}
	while ((t = pool.without_stack)) {
		pool.without_stack = t->next;
		free(t);
	}
	pool.idle_stacks = 0;
}

/* ---- switching, with what the sanitizers want to know ---- */

static void enter_task(struct driver *d, struct task *t)
{
#ifdef ASAN
	__sanitizer_start_switch_fiber(&d->asan_fake_stack, t->stack, STACK_SIZE);
#endif
#ifdef TSAN
	d->tsan_fiber = __tsan_get_current_fiber();
	__tsan_switch_to_fiber(t->tsan_fiber, 0);
#endif
	task_switch(&d->sp, t->sp);
#ifdef ASAN
	__sanitizer_finish_switch_fiber(d->asan_fake_stack, NULL, NULL);
#endif
}

/* Back to the loop of the thread that runs us now. Returns when somebody runs the task again, maybe elsewhere. */
static void leave_task(struct task *t, int after)
{
	struct driver *d = driver_self();

	d->after = after;
#ifdef ASAN
	t->asan_fake_stack = NULL;
	__sanitizer_start_switch_fiber(after == AFTER_END ? NULL : &t->asan_fake_stack, d->stack_bottom, d->stack_size);
#endif
#ifdef TSAN
	__tsan_switch_to_fiber(d->tsan_fiber, 0);
#endif
	task_switch(&t->sp, d->sp);
#ifdef ASAN
	d = driver_self();
	__sanitizer_finish_switch_fiber(t->asan_fake_stack, &d->stack_bottom, &d->stack_size);
#endif
}

static void task_entry(void)
{
	struct task *t = task_self();

#ifdef ASAN
	struct driver *d = driver_self();
	__sanitizer_finish_switch_fiber(NULL, &d->stack_bottom, &d->stack_size);
#endif
	for (;;) { /* each time for another task on the same stack */
		t->fn(t->arg);
		leave_task(t, AFTER_END);
	}
}

static void task_stack_prepare(struct task *t)
{
	uint64_t *top = (uint64_t *)(t->stack + STACK_SIZE);

#if defined(__x86_64__)
	top -= 3; /* entry must find the stack as after a call: 8 mod 16 */
	top[0] = 0;
	top[-1] = (uint64_t)(uintptr_t)task_entry;
	memset(top - 7, 0, 6 * sizeof(*top));
	t->sp = top - 7;
#else
	top -= 20;
	memset(top, 0, 20 * sizeof(*top));
	top[1] = (uint64_t)(uintptr_t)task_entry; /* x30 */
	t->sp = top;
#endif
}

bool task_release_loop(struct driver *d)
{
	struct shard *s = d->loop_of;
	uint64_t turn;

	if (!s || runtime_never_blocks)
		return false;
	turn = atomic_load(&s->turn);
	d->loop_of = NULL;
	return (turn & 1) && d->task && atomic_compare_exchange_strong(&s->turn, &turn, turn + 1);
}

static void task_finished(struct task *t)
{
	shard_task_ended(t->shard);
	atomic_fetch_sub(&runtime_counters.live, 1);
	atomic_store(&t->state, TASK_IDLE);
	pool_put(t);
}

static void after_switch(struct task *t, int after)
{
	int running = TASK_RUNNING;

	if (after == AFTER_END) {
		task_finished(t);
	} else if (after == AFTER_YIELD || !atomic_compare_exchange_strong(&t->state, &running, TASK_WAITING)) {
		atomic_store(&t->state, TASK_READY);
		shard_enqueue(t);
	}
}

bool task_run(struct driver *d, struct shard *s, struct task *t)
{
	uint64_t turn = 0;

	d->task = t;
	atomic_store(&t->state, TASK_RUNNING);
	if (!runtime_never_blocks) {
		turn = atomic_load_explicit(&s->turn, memory_order_relaxed) + 1;
		atomic_store_explicit(&s->turn, turn, memory_order_release);
	}
	atomic_fetch_add_explicit(&runtime_counters.switches, 1, memory_order_relaxed);
	enter_task(d, t);
	d->task = NULL;
	if (!runtime_never_blocks && d->loop_of && !atomic_compare_exchange_strong(&s->turn, &turn, turn + 1))
		d->loop_of = NULL;
	after_switch(t, d->after);
	return d->loop_of == s;
}

/* ---- the public side ---- */

struct task *task_self(void)
{
	return driver_self()->task;
}

struct shard *task_shard(const struct task *t)
{
	return t->shard;
}

static int task_make(struct shard *s, task_fn *fn, void *arg, struct task **made)
{
	struct task *t;
	uint64_t live;

	if (atomic_load(&runtime_counters.live) >= TASKS_MAX)
		return -EAGAIN;
	t = pool_get();
	if (!t)
		return -ENOMEM;
	if (t->timer.shard != s)
		timer_cancel(&t->timer); /* of an earlier life, in another shard's heap */
	t->shard = s;
	t->fn = fn;
	t->arg = arg;
	t->shielded = 0;
	atomic_store(&t->cancelled, false);
	atomic_store(&t->timed_out, false);
	atomic_store(&t->wait_until, 0);
	if (!t->sp)
		task_stack_prepare(t);
	atomic_fetch_add(&s->live, 1);
	atomic_fetch_add_explicit(&runtime_counters.total, 1, memory_order_relaxed);
	live = atomic_fetch_add(&runtime_counters.live, 1) + 1;
	if (live > atomic_load_explicit(&runtime_counters.peak, memory_order_relaxed))
		atomic_store_explicit(&runtime_counters.peak, live, memory_order_relaxed);
	atomic_store(&t->state, TASK_READY);
	*made = t;
	return 0;
}

int task_spawn(struct shard *s, task_fn *fn, void *arg)
{
	struct task *t;
	int err;

	if (!s)
		s = shard_self();
	if (!s)
		s = runtime_shard(0);
	err = task_make(s, fn, arg, &t);
	if (!err)
		shard_enqueue(t);
	return err;
}

int task_run_now(struct shard *s, task_fn *fn, void *arg)
{
	struct driver *d = driver_self();
	struct task *t;
	int err = task_make(s, fn, arg, &t);

	if (err)
		return err;
	/* Where loops can be taken over, the callback that called us may not go on after the task: the task runs right
	 * after the callback instead. */
	if (runtime_never_blocks && d->loop_of == s && !d->task)
		task_run(d, s, t);
	else
		shard_enqueue(t);
	return 0;
}

void task_wake(struct task *t)
{
	int state = atomic_load(&t->state);

	for (;;) {
		if (state == TASK_RUNNING) {
			if (atomic_compare_exchange_weak(&t->state, &state, TASK_NOTIFIED))
				return;
		} else if (state == TASK_WAITING) {
			if (atomic_compare_exchange_weak(&t->state, &state, TASK_READY)) {
				shard_enqueue(t);
				return;
			}
		} else {
			return;
		}
	}
}

/* The task's timer rang. It is not moved for each wait, so it may ring early: then it is set for the real deadline. */
static void task_expired(void *arg)
{
	struct task *t = arg;
	uint64_t until = atomic_load(&t->wait_until);

	if (!until)
		return;
	if (clock_ns() < until) {
		timer_set(t->shard, &t->timer, until);
		return;
	}
	atomic_store(&t->timed_out, true);
	task_wake(t);
}

static void arm_deadline(struct task *t, uint64_t deadline_ns)
{
	atomic_store(&t->wait_until, deadline_ns);
	if (!deadline_ns)
		return;
	pthread_mutex_lock(&t->shard->lock);
	bool early_enough = t->timer.slot && t->timer.at_ns <= deadline_ns;
	pthread_mutex_unlock(&t->shard->lock);
	if (early_enough)
		return;
	t->timer.fn = task_expired;
	t->timer.arg = t;
	timer_set(t->shard, &t->timer, deadline_ns);
}

static int wait_verdict(struct task *t, uint64_t deadline_ns)
{
	if (!t->shielded && atomic_load_explicit(&t->cancelled, memory_order_relaxed) && atomic_exchange(&t->cancelled, false))
		return -ECANCELED;
	if (deadline_ns && atomic_load(&t->timed_out) && clock_ns() >= deadline_ns)
		return -ETIMEDOUT;
	return 0;
}

int task_wait(uint64_t deadline_ns)
{
	struct task *t = task_self();
	int err, notified = TASK_NOTIFIED;

	assert(t);
	err = wait_verdict(t, deadline_ns);
	if (err)
		return err;
	if (atomic_compare_exchange_strong(&t->state, &notified, TASK_RUNNING))
		return 0;
	if (deadline_ns && deadline_ns <= clock_ns())
		return -ETIMEDOUT;
	atomic_store(&t->timed_out, false);
	arm_deadline(t, deadline_ns);
	leave_task(t, AFTER_WAIT);
	atomic_store(&t->wait_until, 0);
	return wait_verdict(t, deadline_ns);
}

void task_cancel(struct task *t)
{
	atomic_store(&t->cancelled, true);
	task_wake(t);
}

void task_shield(bool on)
{
	struct task *t = task_self();

	if (t)
		t->shielded += on ? 1 : -1;
}

int task_sleep_ms(uint64_t ms)
{
	uint64_t until = clock_ns() + ms * 1000000u;
	int err;

	do
		err = task_wait(until);
	while (!err);
	return err == -ETIMEDOUT ? 0 : err;
}

void task_yield(void)
{
	leave_task(task_self(), AFTER_YIELD);
}

void task_blocks(void)
{
	struct driver *d = driver_self();
	struct shard *s = d->loop_of;

	if (d->task && task_release_loop(d)) {
		atomic_fetch_add(&runtime_counters.takeovers, 1);
		shard_hand_over(s);
	}
}

struct waiting_call {
	task_fn *fn;
	void *arg;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool done;
};

static void run_waiting_call(void *arg)
{
	struct waiting_call *c = arg;

	c->fn(c->arg);
	pthread_mutex_lock(&c->lock);
	c->done = true;
	pthread_cond_signal(&c->ended);
	pthread_mutex_unlock(&c->lock);
}

int task_call(task_fn *fn, void *arg)
{
	struct waiting_call c = { fn, arg, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false };
	int err = task_spawn(runtime_shard(0), run_waiting_call, &c);

	if (err)
		return err;
	pthread_mutex_lock(&c.lock);
	while (!c.done)
		pthread_cond_wait(&c.ended, &c.lock);
	pthread_mutex_unlock(&c.lock);
	return 0;
}
