/* SPDX-License-Identifier: Apache-2.0 */
/* Gives the subvolumes that came to the volume their part of the root's names ("Adding a subvolume, in detail" in doc/distribution.md): writes the layout in
 * which names are moved, moves them, and writes the one in which they have been. What it knows is on the disks of the bricks: so who is killed is gone
 * on for by the next one, and two at once do no harm. No data are moved: what had a name stays where it is, behind a pointer. */
#include "rebalance.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "location.h"

enum { STEP_MS = 1000, PAUSE_MS = 20 };
/* Then what is under way is cancelled; a step that may not be left half ends by its own time, MOVE_NS at most. */
#define STOP_NS 5000000000u

static const char *const state_names[] = { "idle", "running", "done", "stopped" };

/* ---- what status tells ---- */

static void set_step(struct rebalance *r, const char *step)
{
	pthread_mutex_lock(&r->lock);
	r->step = step;
	pthread_mutex_unlock(&r->lock);
}

void rebalance_count(struct rebalance *r, uint64_t moved, uint64_t left)
{
	pthread_mutex_lock(&r->lock);
	r->moved += moved;
	r->left = left;
	pthread_mutex_unlock(&r->lock);
}

int rebalance_problem(struct rebalance *r, int err, const char *format, ...)
{
	char text[PROBLEM];
	va_list args;
	bool is_new;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	pthread_mutex_lock(&r->lock);
	is_new = strcmp(text, r->problem) != 0;
	memcpy(r->problem, text, sizeof(text));
	pthread_mutex_unlock(&r->lock);
	if (is_new)
		log_warning(r->d->x, NULL, "rebalance: %s", text);
	return err;
}

static void no_problem(struct rebalance *r)
{
	pthread_mutex_lock(&r->lock);
	r->problem[0] = '\0';
	pthread_mutex_unlock(&r->lock);
}

bool rebalance_stops(struct rebalance *r)
{
	bool stopping;

	pthread_mutex_lock(&r->lock);
	stopping = r->stopping;
	pthread_mutex_unlock(&r->lock);
	return stopping;
}

bool rebalance_pause(struct rebalance *r, uint64_t ms)
{
	uint64_t until = clock_ns() + ms * 1000000;
	bool stopping;

	pthread_mutex_lock(&r->lock);
	while (!r->stopping && clock_ns() < until)
		task_cond_wait(&r->changed, &r->lock, until);
	stopping = r->stopping;
	pthread_mutex_unlock(&r->lock);
	return !stopping;
}

/* ---- requests, as root ---- */

void rebalance_ask(struct rebalance *r, struct request *rq, uint64_t ns)
{
	request_init(rq, r->d->x->graph, 0);
	rq->group_count = 0;
	rq->deadline_ns = clock_ns() + ns;
}

/* ---- the whole ---- */

static int move_and_settle(struct rebalance *r, const struct layout *moving)
{
	struct layout l = *moving;
	int err = copy_roots(r, &l);

	if (err)
		return err;
	set_step(r, "moving");
	err = clear_sources(r, &l);
	if (!err)
		err = copy_roots(r, &l); /* by now all that change them know of those that came */
	if (err)
		return err;
	set_step(r, "settling");
	layout_settle(&l);
	return layout_write(r, &l);
}

/* From where it stands: 1: there is nothing to do. Else once more. */
static int go_on(struct rebalance *r)
{
	const struct spread *now = spread_of(r->d);
	struct layout l;
	struct request rq;
	uint64_t least = 0;
	int silent = -1, err, written;

	rebalance_ask(r, &rq, REBALANCE_ASK_NS);
	err = layout_ask_all(&rq, r->d, &now, &least, &silent);
	request_finish(&rq);
	l = now->layout;
	written = !now->lacks && l.version > least ? layout_push(r, &l) : 0; /* nobody waits for one that is down */
	if (err)
		return rebalance_problem(r, err, "waiting for %s: %s",
					 silent < 0 ? "a volume file that has all subvolumes" : subvolume_name(r, silent),
					 strerror(-err));
	err = written;
	if (!err && l.moving)
		return move_and_settle(r, &l);
	if (err || !now->grows)
		return err ? err : 1;
	l = now->grown;
	set_step(r, "joining");
	err = copy_roots(r, &l);
	return err ? err : layout_write(r, &l);
}

static void rebalance_task(void *arg)
{
	struct rebalance *r = arg;
	int err = 0;

	pthread_mutex_lock(&r->lock);
	r->task = task_self();
	pthread_mutex_unlock(&r->lock);
	while (err <= 0 && !rebalance_stops(r)) {
		err = go_on(r);
		if (err >= 0)
			no_problem(r);
		else
			rebalance_pause(r, err == -EAGAIN ? PAUSE_MS : STEP_MS);
	}
	if (err > 0)
		log_info(r->d->x, NULL, "rebalance: the root's names are where they belong; %llu were moved",
			 (unsigned long long)r->moved);
	pthread_mutex_lock(&r->lock);
	r->state = err > 0 ? DONE : STOPPED;
	r->step = NULL;
	r->task = NULL;
	task_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock); /* it may be gone now */
}

/* ---- commands ---- */

static struct rebalance *rebalance_of(struct dht *d)
{
	struct rebalance *r, *new = calloc(1, sizeof(*new));

	pthread_mutex_lock(&d->lock);
	if (!d->rebalance && new) {
		pthread_mutex_init(&new->lock, NULL);
		new->d = d;
		d->rebalance = new;
		new = NULL;
	}
	r = d->rebalance;
	pthread_mutex_unlock(&d->lock);
	free(new);
	return r;
}

static int start(struct rebalance *r)
{
	int err = 0;

	pthread_mutex_lock(&r->lock);
	if (r->hurry || r->waiters)
		err = -ECANCELED;
	else if (r->state != RUNNING) {
		r->state = RUNNING;
		r->stopping = false;
		r->moved = r->left = 0;
		r->problem[0] = '\0';
		err = task_spawn(NULL, rebalance_task, r);
		r->state = err ? STOPPED : RUNNING;
	}
	pthread_mutex_unlock(&r->lock);
	return err;
}

static void wait_for_end(void *arg)
{
	struct rebalance *r = arg;
	uint64_t soon = clock_ns() + STOP_NS;

	pthread_mutex_lock(&r->lock);
	r->stopping = true;
	r->waiters++;
	task_cond_broadcast(&r->changed);
	while (!r->hurry && r->state == RUNNING && clock_ns() < soon)
		task_cond_wait(&r->changed, &r->lock, soon);
	if (r->task)
		task_cancel(r->task); /* what is down keeps nobody waiting: others end what it was at */
	while (r->state == RUNNING)
		task_cond_wait(&r->changed, &r->lock, NO_DEADLINE);
	r->waiters--;
	pthread_mutex_unlock(&r->lock);
}

static void stop(struct rebalance *r)
{
	if (task_self())
		wait_for_end(r);
	else
		task_call(wait_for_end, r);
}

static void tell(struct rebalance *r, FILE *to)
{
	struct location line = { 0 };
	struct blob text = { 0 };

	pthread_mutex_lock(&r->lock);
	fprintf(to, "state %s\n", state_names[r->state]);
	if (r->state == RUNNING && r->step)
		fprintf(to, "step %s\n", r->step);
	fprintf(to, "version %llu\n", (unsigned long long)spread_of(r->d)->layout.version);
	fprintf(to, "moved %llu\nleft %llu\n", (unsigned long long)r->moved, (unsigned long long)r->left);
	if (r->problem[0])
		location_line(&line, "problem", "%s", r->problem); /* a name may be in it */
	pthread_mutex_unlock(&r->lock);
	if (!location_end(&line, &text) && text.size)
		fwrite(text.bytes, 1, text.size, to);
	free(text.bytes);
}

int rebalance_command(struct dht *d, int argc, char **argv, FILE *to)
{
	struct rebalance *r = argc == 1 ? rebalance_of(d) : NULL;

	if (argc != 1)
		return -EINVAL;
	if (!r)
		return -ENOMEM;
	if (!strcmp(argv[0], "status"))
		tell(r, to);
	else if (!strcmp(argv[0], "start"))
		return start(r);
	else if (!strcmp(argv[0], "stop"))
		stop(r);
	else
		return -EINVAL;
	return 0;
}

void rebalance_stop(struct dht *d)
{
	struct rebalance *r;

	pthread_mutex_lock(&d->lock);
	r = d->rebalance;
	pthread_mutex_unlock(&d->lock);
	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->hurry = true;
	pthread_mutex_unlock(&r->lock);
	stop(r);
}

void rebalance_free(struct dht *d)
{
	if (!d->rebalance)
		return;
	pthread_mutex_destroy(&d->rebalance->lock);
	free(d->rebalance);
	d->rebalance = NULL;
}
