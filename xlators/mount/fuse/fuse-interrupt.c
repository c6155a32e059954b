/* SPDX-License-Identifier: Apache-2.0 */
/* Requests in flight by the kernel's number, and what an INTERRUPT does to them.
 *
 * The kernel sends one INTERRUPT when a signal reaches a process that waits for us, on any descriptor. A waiting lock is given
 * up at once. Everything else goes on, as on a local disk (a profiler's timer must not make stat(2) fail), unless the signal
 * kills the process: then nobody waits for the answer but a process that can't end. Fatal signals show as a pending SIGKILL,
 * and since no second INTERRUPT is sent, we look again until the request is done. Who is told to stop stops one wait, and may begin another, as one who asks
 * several bricks does: so he is told again and again, in no hurry, for he may be giving back what he had begun. */
#include <signal.h>
#include <stdio.h>

#include "fuse-internal.h"

enum { UNKNOWN_TRIES = 8, FIRST_MS = 1, LOOK_MS = 128 };
enum { AGAIN_NS = 3000000000 };

static struct bucket *bucket_of(struct mount *m, uint64_t unique)
{
	return &m->bucket[unique / 2 % BUCKETS]; /* the kernel counts by two */
}

void ask_enter(struct ask *a)
{
	struct bucket *b = bucket_of(a->mount, a->head.unique);
	pthread_mutex_lock(&b->lock);
	a->next = b->first;
	b->first = a;
	pthread_mutex_unlock(&b->lock);
}

/* After it nobody cancels the task. */
void ask_leave(struct ask *a)
{
	struct bucket *b = bucket_of(a->mount, a->head.unique);
	struct ask **at = &b->first;
	pthread_mutex_lock(&b->lock);
	while (*at != a)
		at = &(*at)->next;
	*at = a->next;
	pthread_mutex_unlock(&b->lock);
}

/* Called with the bucket's lock held. */
static void cancel(struct ask *a)
{
	a->interrupted = true;
	task_cancel(a->task);
}

static bool dying(pid_t pid)
{
	char path[64], line[128];
	unsigned long long pending = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	FILE *status = pid > 0 ? fopen(path, "re") : NULL;
	if (!status)
		return false;
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "SigPnd: %llx", &pending) == 1)
			break;
	fclose(status);
	return pending & 1ULL << (SIGKILL - 1);
}

enum look { NOT_THERE, GOES_ON, CANCELLED };

/* With pid NULL: cancels it. Else cancels only what waits for others, and says who asks. */
static enum look look_for(struct mount *m, uint64_t unique, pid_t *pid)
{
	struct bucket *b = bucket_of(m, unique);
	enum look found = NOT_THERE;
	pthread_mutex_lock(&b->lock);
	for (struct ask *a = b->first; a; a = a->next) {
		if (a->head.unique != unique)
			continue;
		found = !pid || a->op->waits ? CANCELLED : GOES_ON;
		if (found == CANCELLED)
			cancel(a);
		else
			*pid = a->head.pid;
	}
	pthread_mutex_unlock(&b->lock);
	return found;
}

static enum look look(struct mount *m, uint64_t unique)
{
	pid_t pid;
	enum look found = look_for(m, unique, &pid);
	return found == GOES_ON && dying(pid) ? look_for(m, unique, NULL) : found;
}

static bool is_there(struct mount *m, uint64_t unique)
{
	struct bucket *b = bucket_of(m, unique);
	bool there = false;
	pthread_mutex_lock(&b->lock);
	for (const struct ask *a = b->first; a; a = a->next)
		there |= a->head.unique == unique;
	pthread_mutex_unlock(&b->lock);
	return there;
}

struct chase {
	struct mount *mount;
	uint64_t unique;
	enum look found; /* last */
};

/* NOT_THERE at first: another shard has read the request and not begun it yet; or it has just been answered. */
static void chase(void *arg)
{
	struct chase *c = arg;
	struct mount *m = c->mount;
	enum look found = c->found;
	uint64_t told_ns = found == CANCELLED ? clock_ns() : 0;
	bool seen = found != NOT_THERE;
	for (unsigned i = 0, ms = FIRST_MS; !atomic_load(&m->gone); i++) {
		task_sleep_ms(ms);
		ms = ms < LOOK_MS ? ms * 2 : ms;
		if (told_ns && clock_ns() < told_ns + AGAIN_NS)
			found = is_there(m, c->unique) ? GOES_ON : NOT_THERE;
		else
			found = told_ns ? look_for(m, c->unique, NULL) : look(m, c->unique);
		if (found == NOT_THERE && (seen || i >= UNKNOWN_TRIES))
			break;
		seen |= found != NOT_THERE;
		told_ns = found == CANCELLED ? clock_ns() : told_ns;
	}
	atomic_fetch_sub(&m->users, 1);
	free(c);
}

void interrupt(struct device *d, uint64_t unique)
{
	enum look found = look(d->mount, unique);
	struct chase *c = malloc(sizeof(*c));
	if (!c)
		return;
	*c = (struct chase){ .mount = d->mount, .unique = unique, .found = found };
	atomic_fetch_add(&d->mount->users, 1);
	if (task_spawn(d->shard, chase, c) != 0) {
		atomic_fetch_sub(&d->mount->users, 1);
		free(c);
	}
}

void asks_cancel(struct mount *m)
{
	for (struct bucket *b = m->bucket; b < m->bucket + BUCKETS; b++) {
		pthread_mutex_lock(&b->lock);
		for (struct ask *a = b->first; a; a = a->next)
			cancel(a);
		pthread_mutex_unlock(&b->lock);
	}
	keep_cancel(m);
}
