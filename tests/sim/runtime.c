/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime of the simulator, in place of libcore/runtime.c: one thread runs the tasks of all nodes in an order that chance chooses,
 * and the clock jumps to the next timer when nothing is ready. A node is a shard. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"
#include "task-internal.h"

enum { STEP_NS = 2000, TIMERS_EACH = 16 };

struct sim_shard {
	struct shard shard; /* first */
	struct node *node;
	bool dead;
};

bool runtime_never_blocks = true;
bool verbose, verbose_calls;

static struct {
	uint64_t now, events;
	struct task **ready;
	unsigned ready_count, ready_room;
	struct sim_shard *shard[NODES_MAX * 64]; /* alive */
	unsigned shards;
	bool running; /* the clock is ours */
	uint64_t hash;
	char failure[512];
} sim = { .now = S };

/* ---- chance: splitmix64 ---- */

static uint64_t chance_state[STREAMS];

static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

void chance_begin(uint64_t seed)
{
	for (unsigned i = 0; i < STREAMS; i++)
		chance_state[i] = mix(seed * 0x9e3779b97f4a7c15u + i * 0xd1342543de82ef95u + 1);
	sim.hash = seed;
	sim.running = true;
}

uint64_t chance(enum chance_stream s)
{
	return mix(chance_state[s] += 0x9e3779b97f4a7c15u);
}

uint64_t chance_below(enum chance_stream s, uint64_t limit)
{
	return limit ? chance(s) % limit : 0;
}

uint64_t chance_between(enum chance_stream s, uint64_t a, uint64_t b)
{
	return a + chance_below(s, b - a + 1);
}

bool chance_of(enum chance_stream s, unsigned part_per_million)
{
	return part_per_million && chance_below(s, 1000000) < part_per_million;
}

/* ---- trace ---- */

void trace_mix(uint64_t v)
{
	sim.hash = mix(sim.hash ^ v);
}

uint64_t trace_hash(void)
{
	return sim.hash;
}

void trace(const char *format, ...)
{
	const struct node *n = node_self();
	char line[1024];
	va_list args;
	int size;

	va_start(args, format);
	size = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	trace_mix(sim.now);
	for (int i = 0; i < size && i < (int)sizeof(line) - 1; i++)
		sim.hash = (sim.hash ^ (uint8_t)line[i]) * 0x100000001b3u;
	if (verbose)
		fprintf(stderr, "%10.6f %-7s %s\n", (double)(sim.now - S) / 1e9, n ? n->name : "world", line);
}

void sim_fail(const char *format, ...)
{
	va_list args;

	if (sim.failure[0])
		return;
	va_start(args, format);
	vsnprintf(sim.failure, sizeof(sim.failure), format, args);
	va_end(args);
	trace("FAILURE: %s", sim.failure);
}

const char *sim_failure(void)
{
	return sim.failure[0] ? sim.failure : NULL;
}

/* ---- the clock ---- */

uint64_t sim_now(void)
{
	return sim.now;
}

uint64_t sim_events(void)
{
	return sim.events;
}

static uint64_t local_time(const struct node *n, uint64_t now)
{
	int64_t drift = (int64_t)(now / 1000000) * n->drift_ppm + (int64_t)(now % 1000000) * n->drift_ppm / 1000000;

	return now + (uint64_t)n->mono_skew + (uint64_t)drift;
}

/* When the node's monotonic clock shows that time. */
static uint64_t world_time(const struct node *n, uint64_t local)
{
	__int128 at = (__int128)local - 1 - n->mono_skew;
	uint64_t now = at <= 0 ? 0 : (uint64_t)(at * 1000000 / (1000000 + n->drift_ppm));

	while (local_time(n, now) + 1 < local)
		now++;
	return now;
}

/* The C library's, for all that is in this process. */
int clock_gettime(clockid_t clock, struct timespec *to)
{
	const struct node *n = sim.running ? node_self() : NULL;
	uint64_t ns = sim.now;

	if (!sim.running)
		return (int)syscall(SYS_clock_gettime, clock, to);
	if (n)
		ns = local_time(n, ns);
	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
		ns = 1800000000 * S + sim.now + (uint64_t)(n ? n->wall_skew : 0);
	to->tv_sec = (time_t)(ns / S);
	to->tv_nsec = (long)(ns % S);
	return 0;
}

time_t time(time_t *to)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	if (to)
		*to = t.tv_sec;
	return t.tv_sec;
}

ssize_t getrandom(void *to, size_t size, unsigned flags)
{
	uint8_t *at = to;

	if (!sim.running)
		return syscall(SYS_getrandom, to, size, flags);
	for (size_t i = 0; i < size; i += 8) {
		uint64_t v = chance(CHANCE_RANDOM);

		memcpy(at + i, &v, size - i < 8 ? size - i : 8);
	}
	return (ssize_t)size;
}

int nanosleep(const struct timespec *t, struct timespec *left)
{
	(void)left;
	if (!sim.running)
		return (int)syscall(SYS_nanosleep, t, left);
	if (task_self())
		task_sleep_ms((uint64_t)t->tv_sec * 1000 + (uint64_t)t->tv_nsec / 1000000 + 1);
	return 0;
}

int usleep(useconds_t us)
{
	return nanosleep(&(struct timespec){ us / 1000000, us % 1000000 * 1000 }, NULL);
}

/* ---- shards ---- */

struct node *node_of_shard(const struct shard *s)
{
	return s ? ((const struct sim_shard *)s)->node : NULL;
}

struct node *node_self(void)
{
	return node_of_shard(shard_self());
}

void shard_begin(struct node *n)
{
	struct sim_shard *s = calloc(1, sizeof(*s));

	pthread_mutex_init(&s->shard.lock, NULL);
	s->node = n;
	n->shard = &s->shard;
	n->life++;
	sim.shard[sim.shards++] = s;
}

void shard_end(struct node *n)
{
	struct sim_shard *s = (struct sim_shard *)n->shard;
	unsigned kept = 0;

	s->dead = true;
	n->shard = NULL;
	for (unsigned i = 0; i < sim.ready_count; i++)
		if (sim.ready[i]->shard != &s->shard)
			sim.ready[kept++] = sim.ready[i];
	sim.ready_count = kept;
	for (unsigned i = 0; i < sim.shards; i++)
		if (sim.shard[i] == s)
			memmove(&sim.shard[i], &sim.shard[i + 1], (--sim.shards - i) * sizeof(s));
}

void shard_task_ended(struct shard *s)
{
	atomic_fetch_sub(&s->live, 1);
}

void shard_enqueue(struct task *t)
{
	if (((struct sim_shard *)t->shard)->dead)
		return;
	if (sim.ready_count == sim.ready_room) {
		sim.ready_room = sim.ready_room ? 2 * sim.ready_room : 1024;
		sim.ready = realloc(sim.ready, sim.ready_room * sizeof(*sim.ready));
	}
	sim.ready[sim.ready_count++] = t;
}

struct after {
	struct timer timer;
	task_fn *fn;
	void *arg;
};

static void after_rings(void *arg)
{
	struct after a = *(struct after *)arg;

	free(arg);
	a.fn(a.arg);
}

static int ring_later(struct shard *s, uint64_t at_ns, task_fn *fn, void *arg)
{
	struct after *a = calloc(1, sizeof(*a));

	*a = (struct after){ .fn = fn, .arg = arg };
	a->timer.fn = after_rings;
	a->timer.arg = a;
	return timer_set(s, &a->timer, at_ns);
}

void sim_after(struct node *n, uint64_t delay_ns, task_fn *fn, void *arg)
{
	if (n->shard)
		ring_later(n->shard, local_time(n, sim.now + delay_ns) + 1, fn, arg);
}

int shard_call(struct shard *s, task_fn *fn, void *arg)
{
	return ring_later(s, 1, fn, arg);
}

struct shard *shard_self(void)
{
	struct driver *d = driver_self();

	return d->task ? d->task->shard : d->loop_of;
}

void shard_kick(struct shard *s)
{
	(void)s;
}

void shard_hand_over(struct shard *s)
{
	(void)s;
}

unsigned runtime_free_cpus(void)
{
	return 0;
}

bool runtime_has_threads(void)
{
	return false;
}

unsigned runtime_shards(void)
{
	return 1;
}

struct shard *runtime_shard(unsigned number)
{
	(void)number;
	return shard_self();
}

unsigned shard_number(const struct shard *s)
{
	(void)s;
	return 0;
}

int runtime_start(unsigned shards, unsigned flags)
{
	(void)shards, (void)flags;
	return -EINVAL;
}

void runtime_stop(void)
{
}

void runtime_busy_poll(uint64_t ns)
{
	(void)ns;
}

uint64_t runtime_boot(void)
{
	const struct node *n = node_self();

	return n ? (uint64_t)(n - node) << 32 | (n->boot + 1) : 0;
}

void runtime_stats(struct runtime_stats *stats)
{
	const struct runtime_counters *c = &runtime_counters;

	*stats = (struct runtime_stats){ c->live, c->peak, c->total, c->switches, c->takeovers, c->stacks, c->not_polled };
}

/* There are no descriptors to watch in here. */
int shard_watch(struct shard *s, struct watch *w, uint32_t events)
{
	(void)s, (void)w, (void)events;
	return -ENOSYS;
}

int shard_rewatch(struct watch *w, uint32_t events)
{
	(void)w, (void)events;
	return -ENOSYS;
}

void shard_unwatch(struct watch *w)
{
	(void)w;
}

/* ---- crashes in the middle ---- */

void task_gone(void)
{
	for (;;)
		task_wait(NO_DEADLINE);
}

static void crash_counted(struct node *n)
{
	if (!n->crash_points || --n->crash_points)
		return;
	trace("crashes here");
	node_crash(n, false);
	task_gone();
}

void crash_point(void)
{
	struct node *n = task_self() ? node_self() : NULL;

	if (n && !n->crash_in_change)
		crash_counted(n);
}

void crash_point_change(void)
{
	struct node *n = task_self() ? node_self() : NULL;

	if (n)
		crash_counted(n);
}

/* ---- the loop ---- */

static void run_one(void)
{
	unsigned at = (unsigned)chance_below(CHANCE_ORDER, sim.ready_count);
	struct driver *d = driver_self();
	struct task *t = sim.ready[at];

	sim.ready[at] = sim.ready[--sim.ready_count];
	sim.now += 100 + chance_below(CHANCE_ORDER, STEP_NS);
	d->loop_of = t->shard;
	if (verbose)
		log_program(node_of_shard(t->shard)->name);
	task_run(d, t->shard, t);
	d->loop_of = NULL;
}

/* The shard whose first timer is the next to ring, and when. */
static struct sim_shard *next_timer(uint64_t *at)
{
	struct sim_shard *found = NULL;

	for (unsigned i = 0; i < sim.shards; i++) {
		struct sim_shard *s = sim.shard[i];
		uint64_t when;

		if (!s->shard.heap_count)
			continue;
		when = world_time(s->node, s->shard.heap[0]->at_ns);
		if (!found || when < *at) {
			found = s;
			*at = when;
		}
	}
	return found;
}

static void ring(struct sim_shard *s, uint64_t at)
{
	struct driver *d = driver_self();

	if (at > sim.now)
		sim.now = at;
	d->loop_of = &s->shard;
	if (verbose)
		log_program(s->node->name);
	timers_run(&s->shard);
	d->loop_of = NULL;
}

bool sim_run(bool (*done)(void), uint64_t limit_ns)
{
	while (!done() && !sim.failure[0]) {
		struct sim_shard *s = NULL;
		uint64_t at = 0;

		if (sim.now > limit_ns)
			return false;
		if (!sim.ready_count || ++sim.events % TIMERS_EACH == 0)
			s = next_timer(&at);
		if (s && (!sim.ready_count || at <= sim.now)) {
			sim.events++;
			ring(s, at);
		} else if (sim.ready_count) {
			run_one();
		} else {
			return false;
		}
	}
	return true;
}
