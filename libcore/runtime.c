/* SPDX-License-Identifier: Apache-2.0 */
/* Shards: event loops, the threads that drive them, and the watchdog that finds loops stuck in a system call. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "task-internal.h"

/* Who drives a loop: one thread at a time. While a task runs, shard.turn is odd. The watchdog looks every millisecond, or every fourth while it finds no task running; a
 * shard that shows the same odd turn twice is stuck in a task, so the watchdog makes the turn even, which takes the loop
 * from that thread, and gives it to a spare one. The stuck thread notices when its task waits or ends, and becomes a
 * spare. So a request runs start to end on the thread that read it, without a hand-off, unless it really blocks. */

enum { TICK_US = 1000, CALM_TICK_US = 4000, IDLE_TICKS = 5, THREADS_MAX = 256, RUN_BATCH = 64, EVENTS = 64 };
enum { SPARE_KEPT = 4, SPARE_IDLE_S = 5 }; /* a burst of calls that block leaves threads behind: most of them end */

struct thread {
	pthread_t id;
	pthread_cond_t work;
	struct shard *shard; /* to drive next */
	struct thread *next_spare, *next_all;
};

static struct {
	struct shard *shard;
	unsigned shards;
	pthread_mutex_t lock; /* guards what follows */
	struct thread *spare, *all;
	unsigned threads, spares;
	pthread_t watchdog;
	pthread_cond_t watchdog_wake;
	bool has_watchdog;
	atomic_bool watchdog_asleep, stopping;
	atomic_uint polling; /* loops that poll busily */
	atomic_uint_fast64_t busy_poll_ns;
	atomic_uint_fast64_t looked_ns; /* at how many threads want a CPU */
	atomic_uint short_of_cpus;	/* how often there were too few, in 1/SHORT_ALWAYS of the last looks */
	int load_fd, cpus;
} rt = { .load_fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER, .watchdog_wake = PTHREAD_COND_INITIALIZER };

bool runtime_never_blocks;

void shard_kick(struct shard *s)
{
	uint64_t one = 1;

	while (write(s->event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* A loop that is to stop waits for its tasks, and may be about to sleep when the last one has ended. */
void shard_task_ended(struct shard *s)
{
	if (atomic_fetch_sub(&s->live, 1) == 1 && atomic_load(&rt.stopping))
		shard_kick(s);
}

void shard_enqueue(struct task *t)
{
	struct shard *s = t->shard;
	bool kick;

	pthread_mutex_lock(&s->lock);
	t->next = NULL;
	if (s->last)
		s->last->next = t;
	else
		s->first = t;
	s->last = t;
	kick = s->sleeping;
	s->sleeping = false;
	pthread_mutex_unlock(&s->lock);
	if (kick)
		shard_kick(s);
}

static struct task *dequeue(struct shard *s)
{
	struct task *t;

	pthread_mutex_lock(&s->lock);
	t = s->first;
	if (t) {
		s->first = t->next;
		if (!s->first)
			s->last = NULL;
	}
	pthread_mutex_unlock(&s->lock);
	return t;
}

int shard_call(struct shard *s, task_fn *fn, void *arg)
{
	struct call *c = malloc(sizeof(*c));
	bool kick;

	if (!c)
		return -ENOMEM;
	*c = (struct call){ fn, arg, NULL };
	pthread_mutex_lock(&s->lock);
	if (s->last_call)
		s->last_call->next = c;
	else
		s->first_call = c;
	s->last_call = c;
	kick = s->sleeping;
	s->sleeping = false;
	pthread_mutex_unlock(&s->lock);
	if (kick)
		shard_kick(s);
	return 0;
}

static void run_calls(struct shard *s)
{
	struct call *c, *next;

	pthread_mutex_lock(&s->lock);
	c = s->first_call;
	s->first_call = s->last_call = NULL;
	pthread_mutex_unlock(&s->lock);
	for (; c; c = next) {
		next = c->next;
		c->fn(c->arg);
		free(c);
	}
}

/* Says that the loop will sleep, unless there is work. Returns the timeout for epoll_wait. */
static int prepare_sleep(struct shard *s, int timeout)
{
	pthread_mutex_lock(&s->lock);
	if (s->first || s->first_call)
		timeout = 0;
	else if (s->heap_count && (timeout < 0 || s->heap[0]->at_ns + 2000000 < clock_ns() + (uint64_t)timeout * 1000000))
		timeout = 0; /* an earlier timer was set since the timeout (which is rounded up) was computed */
	else
		s->sleeping = true;
	pthread_mutex_unlock(&s->lock);
	return timeout;
}

static void woke(struct shard *s)
{
	pthread_mutex_lock(&s->lock);
	s->sleeping = false;
	pthread_mutex_unlock(&s->lock);
	if (!runtime_never_blocks && atomic_load(&rt.watchdog_asleep)) {
		pthread_mutex_lock(&rt.lock);
		atomic_store(&rt.watchdog_asleep, false);
		pthread_cond_signal(&rt.watchdog_wake);
		pthread_mutex_unlock(&rt.lock);
	}
}

static bool finished(struct shard *s)
{
	bool idle;

	if (!atomic_load(&rt.stopping) || atomic_load(&s->live))
		return false;
	pthread_mutex_lock(&s->lock);
	idle = !s->first && !s->first_call;
	pthread_mutex_unlock(&s->lock);
	return idle;
}

/* ---- busy polling ---- */

/* A CPU that sleeps, above all a virtual one, takes longer to wake up (20 to 200 us) than a request needs. So while requests
 * come in quick succession a loop polls for the next one for a while before it sleeps. It yields to whoever can use the CPU. Whoever
 * gets it may keep it for a slice, while work that has come waits: who sleeps would have been woken, and mostly run at once. So after such
 * a yield, whatever was found after it, the loop sleeps for many times as long as was lost before it polls again. It polls only while that
 * succeeds, for up to a few times as long as work usually is in coming; else it tries once in a while, when a sleep was short, to find out. */
enum { LUCK_MAX = 8, CROWDED_LOSES = 2, CROWDED_SHARE = 32, PROBE_EACH = 32, SHORT_SLEEP_NS = 1000000, CROWDED_NS = 50000 };
enum { LOOK_NS = 2000000, SHORT_ALWAYS = 64, SHORT_SHARE = 8 };
enum { POLL_MIN_NS = 50000, POLL_FACTOR = 4, USUAL_SHARE = 8, SHARDS_MANY = 4 };

void runtime_busy_poll(uint64_t ns)
{
	atomic_store(&rt.busy_poll_ns, sysconf(_SC_NPROCESSORS_ONLN) > 1 ? ns : 0);
}

static uint64_t poll_time(const struct shard *s)
{
	uint64_t most = atomic_load_explicit(&rt.busy_poll_ns, memory_order_relaxed), wanted = POLL_FACTOR * s->usual_ns;

	wanted = wanted < POLL_MIN_NS ? POLL_MIN_NS : wanted;
	return wanted < most ? wanted : most;
}

/* Number of events. *crowded: others need the CPU. */
static int poll_busily(struct shard *s, struct epoll_event *events, uint64_t now, bool *crowded)
{
	uint64_t end = now + poll_time(s), before;
	int n;

	while (!(n = epoll_wait(s->epoll_fd, events, EVENTS, 0)) && now < end && !*crowded) {
		sched_yield();
		before = now;
		now = clock_ns();
		*crowded = now - before > CROWDED_NS;
		if (*crowded)
			s->poll_after_ns = now + CROWDED_SHARE * (now - before);
	}
	return n;
}

/* Threads of this machine that run or want to; 0: not known. */
static unsigned threads_running(void)
{
	char text[64];
	ssize_t n = rt.load_fd < 0 ? -1 : pread(rt.load_fd, text, sizeof(text) - 1, 0);
	unsigned running;

	text[n > 0 ? n : 0] = '\0';
	return sscanf(text, "%*s %*s %*s %u", &running) == 1 ? running : 0;
}

unsigned runtime_free_cpus(void)
{
	unsigned running = threads_running(), cpus = (unsigned)rt.cpus;

	return !running ? cpus - 1 : running < cpus ? cpus - running : 0;
}

/* Who polls keeps a CPU from threads that wait in the queue of another one, and a yield does not tell of them. So while there are mostly
 * more of them than CPUs nobody polls. */
static bool cpus_are_short(uint64_t now)
{
	uint64_t last = atomic_load_explicit(&rt.looked_ns, memory_order_relaxed);
	unsigned share = atomic_load_explicit(&rt.short_of_cpus, memory_order_relaxed);

	if (now - last > LOOK_NS && atomic_compare_exchange_strong(&rt.looked_ns, &last, now)) {
		share -= share / SHORT_SHARE;
		share += threads_running() > (unsigned)rt.cpus ? SHORT_ALWAYS / SHORT_SHARE : 0;
		atomic_store_explicit(&rt.short_of_cpus, share, memory_order_relaxed);
	}
	return share > SHORT_ALWAYS / 2;
}

static bool worth_polling(const struct shard *s, int timeout, uint64_t now)
{
	bool worth = timeout && atomic_load_explicit(&rt.busy_poll_ns, memory_order_relaxed) &&
		     (s->luck || s->short_sleeps >= PROBE_EACH);

	if (!worth)
		return false;
	if (!cpus_are_short(now))
		return now >= s->poll_after_ns;
	atomic_fetch_add(&runtime_counters.not_polled, 1);
	return false;
}

static bool awake(struct shard *s)
{
	bool yes;

	pthread_mutex_lock(&s->lock);
	yes = !s->sleeping;
	pthread_mutex_unlock(&s->lock);
	return yes;
}

static bool others_awake(const struct shard *s)
{
	for (unsigned i = 0; i < rt.shards; i++)
		if (&rt.shard[i] != s && awake(&rt.shard[i]))
			return true;
	return false;
}

/* Few loops of a process poll at a time: they take CPUs that others could use. Where there are few CPUs one that polls does so while
 * requests come one by one; not while another loop has work, too. */
static bool may_poll(const struct shard *s)
{
	if (rt.shards < SHARDS_MANY && others_awake(s))
		return false;
	if (atomic_fetch_add(&rt.polling, 1) <= rt.shards / 4)
		return true;
	atomic_fetch_sub(&rt.polling, 1);
	return false;
}

static void note_luck(struct shard *s, bool found, bool crowded)
{
	int loses = crowded ? CROWDED_LOSES : 1;

	s->short_sleeps = 0;
	s->luck = found ? LUCK_MAX : s->luck > loses ? s->luck - loses : 0;
}

static int wait_for_events(struct shard *s, struct epoll_event *events, int timeout, uint64_t begin)
{
	bool crowded = false;
	int n = 0;

	if (worth_polling(s, timeout, begin) && may_poll(s)) {
		n = poll_busily(s, events, begin, &crowded);
		atomic_fetch_sub(&rt.polling, 1);
		note_luck(s, n > 0 && !crowded, crowded);
	}
	return n ? n : epoll_wait(s->epoll_fd, events, EVENTS, timeout);
}

static int next_events(struct shard *s, struct epoll_event *events, int timeout)
{
	uint64_t begin = clock_ns(), waited;
	int n = wait_for_events(s, events, timeout, begin);

	waited = clock_ns() - begin;
	if (waited < SHORT_SLEEP_NS) {
		s->usual_ns += waited / USUAL_SHARE - s->usual_ns / USUAL_SHARE;
		s->short_sleeps += s->short_sleeps < PROBE_EACH;
	}
	return n;
}

/* Drives the loop until it is taken over or the runtime stops. */
static void drive(struct driver *d, struct shard *s)
{
	struct epoll_event events[EVENTS];
	struct task *t;

	d->loop_of = s;
	while (!finished(s)) {
		for (int i = 0; i < RUN_BATCH && (t = dequeue(s)); i++)
			if (!task_run(d, s, t))
				return;
		int timeout = prepare_sleep(s, timers_run(s));
		int n = next_events(s, events, timeout);
		woke(s);
		for (int i = 0; i < n; i++) {
			struct watch *w = events[i].data.ptr;
			if (w)
				w->ready(w, events[i].events);
		}
		run_calls(s);
	}
	d->loop_of = NULL;
}

static void note_stack(struct driver *d)
{
	pthread_attr_t attr;
	void *bottom;

	if (pthread_getattr_np(pthread_self(), &attr))
		return;
	pthread_attr_getstack(&attr, &bottom, &d->stack_size);
	d->stack_bottom = bottom;
	pthread_attr_destroy(&attr);
}

static void become_spare(struct thread *me)
{
	me->next_spare = rt.spare;
	rt.spare = me;
	rt.spares++;
}

static void no_spare_any_more(struct thread *me)
{
	struct thread **at = &rt.spare;

	while (*at != me)
		at = &(*at)->next_spare;
	*at = me->next_spare;
	rt.spares--;
}

/* A spare thread that nobody needed for long takes itself off the lists and ends. */
static bool retire(struct thread *me)
{
	struct thread **at;

	if (me->shard || rt.spares <= SPARE_KEPT || atomic_load(&rt.stopping))
		return false;
	no_spare_any_more(me);
	for (at = &rt.all; *at != me; at = &(*at)->next_all)
		;
	*at = me->next_all;
	rt.threads--;
	pthread_detach(me->id);
	pthread_cond_destroy(&me->work);
	free(me);
	return true;
}

/* Called with rt.lock held. The shard to drive next. NULL: the thread ends, and `me` may be gone. */
static struct shard *next_shard(struct thread *me)
{
	struct shard *s;

	while (!me->shard && !atomic_load(&rt.stopping)) {
		struct timespec until;

		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += SPARE_IDLE_S;
		if (pthread_cond_clockwait(&me->work, &rt.lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT && retire(me))
			return NULL;
	}
	s = me->shard;
	me->shard = NULL;
	if (!s) /* it ends: a loop that is taken over now must not be handed to it, for nobody would drive that */
		no_spare_any_more(me);
	return s;
}

static void *thread_main(void *arg)
{
	struct thread *me = arg;
	struct shard *s;

	note_stack(driver_self());
	pthread_mutex_lock(&rt.lock);
	while ((s = next_shard(me))) {
		pthread_mutex_unlock(&rt.lock);
		drive(driver_self(), s);
		pthread_mutex_lock(&rt.lock);
		become_spare(me);
	}
	pthread_mutex_unlock(&rt.lock);
	return NULL;
}

/* Called with rt.lock held. */
static int thread_add(struct shard *s)
{
	struct thread *me = calloc(1, sizeof(*me));
	sigset_t all, old;
	int err;

	if (!me)
		return -ENOMEM;
	pthread_cond_init(&me->work, NULL);
	me->shard = s;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&me->id, NULL, thread_main, me);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err) {
		free(me);
		return -err;
	}
	me->next_all = rt.all;
	rt.all = me;
	rt.threads++;
	return 0;
}

void shard_hand_over(struct shard *s)
{
	struct thread *spare;

	pthread_mutex_lock(&rt.lock);
	while (!(spare = rt.spare) && thread_add(s)) { /* nobody else can drive the loop: wait for a thread */
		pthread_mutex_unlock(&rt.lock);
		sched_yield();
		pthread_mutex_lock(&rt.lock);
	}
	if (spare) {
		rt.spare = spare->next_spare;
		rt.spares--;
		spare->shard = s;
		pthread_cond_signal(&spare->work);
	}
	pthread_mutex_unlock(&rt.lock);
}

/* True if the loop is awake. */
static bool check_shard(struct shard *s, bool *running)
{
	uint64_t turn = atomic_load(&s->turn);
	bool stuck = (turn & 1) && turn == s->turn_seen, may;

	s->turn_seen = turn;
	*running |= turn & 1;
	if (!stuck)
		return awake(s);
	pthread_mutex_lock(&rt.lock);
	may = rt.spare || rt.threads < THREADS_MAX;
	pthread_mutex_unlock(&rt.lock);
	if (may && atomic_compare_exchange_strong(&s->turn, &turn, turn + 1)) {
		atomic_fetch_add(&runtime_counters.takeovers, 1);
		shard_hand_over(s);
	}
	return true;
}

static void *watchdog_main(void *arg)
{
	struct timespec tick = { 0, TICK_US * 1000 };
	int idle = 0; /* ticks */

	(void)arg;
	while (!atomic_load(&rt.stopping)) {
		bool busy = false, running = false;

		nanosleep(&tick, NULL);
		for (unsigned i = 0; i < rt.shards; i++)
			busy |= check_shard(&rt.shard[i], &running);
		tick.tv_nsec = (running ? TICK_US : CALM_TICK_US) * 1000;
		idle = busy ? 0 : idle + 1;
		if (idle < IDLE_TICKS)
			continue;
		pthread_mutex_lock(&rt.lock);
		atomic_store(&rt.watchdog_asleep, true);
		for (unsigned i = 0; i < rt.shards; i++) /* one that woke just before has not seen that we sleep */
			if (awake(&rt.shard[i]))
				atomic_store(&rt.watchdog_asleep, false);
		while (atomic_load(&rt.watchdog_asleep) && !atomic_load(&rt.stopping))
			pthread_cond_wait(&rt.watchdog_wake, &rt.lock);
		pthread_mutex_unlock(&rt.lock);
		idle = 0;
	}
	return NULL;
}

static int shard_init(struct shard *s, unsigned number)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.ptr = NULL };

	s->number = number;
	pthread_mutex_init(&s->lock, NULL);
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->epoll_fd < 0 || s->event_fd < 0 || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->event_fd, &event))
		return -errno;
	return 0;
}

int runtime_start(unsigned shards, unsigned flags)
{
	int err = 0;

	if (!shards) {
		long cores = sysconf(_SC_NPROCESSORS_ONLN);
		shards = cores < 1 ? 1 : cores > 4 ? 4 : (unsigned)cores;
	}
	rt.shard = calloc(shards, sizeof(*rt.shard));
	if (!rt.shard)
		return -ENOMEM;
	rt.shards = shards;
	rt.cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	rt.load_fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	runtime_never_blocks = flags & RUNTIME_NEVER_BLOCKS;
	atomic_store(&rt.stopping, false);
	for (unsigned i = 0; i < shards && !err; i++)
		err = shard_init(&rt.shard[i], i);
	pthread_mutex_lock(&rt.lock);
	for (unsigned i = 0; i < shards && !err; i++)
		err = thread_add(&rt.shard[i]);
	pthread_mutex_unlock(&rt.lock);
	if (!err && !runtime_never_blocks) {
		sigset_t all, old;

		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
		err = -pthread_create(&rt.watchdog, NULL, watchdog_main, NULL);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
		rt.has_watchdog = !err;
	}
	return err;
}

/* Off the list first: a loop may be taken over by a new one yet. */
static struct thread *take_thread(void)
{
	struct thread *t;

	pthread_mutex_lock(&rt.lock);
	t = rt.all;
	rt.all = t ? t->next_all : NULL;
	pthread_mutex_unlock(&rt.lock);
	return t;
}

void runtime_stop(void)
{
	struct thread *t;

	pthread_mutex_lock(&rt.lock);
	atomic_store(&rt.stopping, true);
	pthread_cond_signal(&rt.watchdog_wake);
	for (t = rt.all; t; t = t->next_all)
		pthread_cond_signal(&t->work);
	pthread_mutex_unlock(&rt.lock);
	if (rt.has_watchdog)
		pthread_join(rt.watchdog, NULL);
	rt.has_watchdog = false;
	for (unsigned i = 0; i < rt.shards; i++)
		shard_kick(&rt.shard[i]);
	while ((t = take_thread())) {
		pthread_join(t->id, NULL);
		free(t);
	}
	rt.spare = NULL;
	rt.threads = rt.spares = 0;
	for (unsigned i = 0; i < rt.shards; i++) {
		run_calls(&rt.shard[i]);
		close(rt.shard[i].epoll_fd);
		close(rt.shard[i].event_fd);
		free(rt.shard[i].heap);
	}
	free(rt.shard);
	if (rt.load_fd >= 0)
		close(rt.load_fd);
	rt.load_fd = -1;
	rt.shard = NULL;
	rt.shards = 0;
	task_pool_destroy();
}

bool runtime_has_threads(void)
{
	return true;
}

unsigned runtime_shards(void)
{
	return rt.shards;
}

struct shard *runtime_shard(unsigned number)
{
	return &rt.shard[number % rt.shards];
}

unsigned shard_number(const struct shard *s)
{
	return s->number;
}

struct shard *shard_self(void)
{
	struct driver *d = driver_self();

	return d->task ? d->task->shard : d->loop_of;
}

static int control_watch(struct watch *w, int how, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = w };

	return epoll_ctl(w->shard->epoll_fd, how, w->fd, &event) ? -errno : 0;
}

int shard_watch(struct shard *s, struct watch *w, uint32_t events)
{
	w->shard = s;
	return control_watch(w, EPOLL_CTL_ADD, events);
}

int shard_rewatch(struct watch *w, uint32_t events)
{
	return control_watch(w, EPOLL_CTL_MOD, events);
}

void shard_unwatch(struct watch *w)
{
	control_watch(w, EPOLL_CTL_DEL, 0);
}

uint64_t runtime_boot(void)
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	unsigned a, b, c;
	bool known = f && fscanf(f, "%8x-%4x-%4x", &a, &b, &c) == 3; /* a UUID: so much of it is random enough */

	if (f)
		fclose(f);
	return known ? (uint64_t)a << 32 | b << 16 | c : 0;
}

void runtime_stats(struct runtime_stats *stats)
{
	const struct runtime_counters *c = &runtime_counters;

	*stats = (struct runtime_stats){ c->live, c->peak, c->total, c->switches, c->takeovers, c->stacks, c->not_polled };
}
