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

enum { STEP_MS = 1000, PAUSE_MS = 20, LOOK_MS = 30000 };
/* Then what is under way is cancelled; a step that may not be left half ends by its own time, MOVE_NS at most. */
#define STOP_NS 5000000000u

static const char *const state_names[] = { "idle", "running", "done", "stopped" };

/* ---- what status tells ---- */

void rebalance_step(struct rebalance *r, const char *step)
{
	pthread_mutex_lock(&r->lock);
	r->step = step;
	r->progress = (struct progress){ 0 };
	pthread_mutex_unlock(&r->lock);
}

void rebalance_expect(struct rebalance *r, uint64_t all)
{
	pthread_mutex_lock(&r->lock);
	r->progress = (struct progress){ .all = all, .began_ns = clock_ns() };
	pthread_mutex_unlock(&r->lock);
}

void rebalance_advance(struct rebalance *r, uint64_t more)
{
	pthread_mutex_lock(&r->lock);
	r->progress.done += more;
	pthread_mutex_unlock(&r->lock);
}

/* As if what is left of the step took as long as what is done of it; -1: nobody knows. With the lock held. */
static int64_t seconds_left(const struct rebalance *r)
{
	const struct progress *p = &r->progress;
	double passed = (double)(clock_ns() - p->began_ns) / 1e9;

	if (r->state != RUNNING || r->paused || !p->all || !p->done || p->done > p->all)
		return -1;
	return (int64_t)(passed * (double)(p->all - p->done) / (double)p->done + 0.5);
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

void rebalance_no_problem(struct rebalance *r)
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

bool rebalance_is_paused(struct rebalance *r)
{
	bool paused;

	pthread_mutex_lock(&r->lock);
	paused = r->paused;
	pthread_mutex_unlock(&r->lock);
	return paused;
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

int move_and_settle(struct rebalance *r, const struct layout *moving)
{
	struct layout l = *moving;
	int err = copy_shards(r, &l);

	if (err)
		return err;
	rebalance_step(r, "moving");
	err = clear_sources(r, &l);
	if (!err)
		err = copy_shards(r, &l); /* by now all that change them know of those that came */
	if (err)
		return err;
	rebalance_step(r, "settling");
	layout_settle(&l);
	err = layout_write(r, &l);
	if (!err)
		tell_leavers(r, moving, &l);
	return err;
}

int layout_now(struct rebalance *r, const struct spread **now)
{
	struct request rq;
	uint64_t least = 0;
	int silent = -1, err, written;

	rebalance_ask(r, &rq, REBALANCE_ASK_NS);
	err = place_say_in(&rq, r->d, r->dir);
	if (!err)
		err = layout_ask_all(&rq, r->d, r->dir, now, &least, &silent);
	request_finish(&rq);
	written = *now && !(*now)->lacks && (*now)->layout.version > least ? layout_push(r, &(*now)->layout)
									   : 0; /* nobody waits for one that is down */
	if (err == -ESTALE)
		return err;
	if (err)
		return rebalance_problem(r, err, "waiting for %s: %s",
					 silent < 0 ? "a volume file that has all subvolumes" : subvolume_name(r, silent),
					 error_text(err));
	return written;
}

/* From where it stands: 1: there is nothing to do. Else once more. */
static int go_on(struct rebalance *r)
{
	const struct spread *now = spread_of(r->d);
	struct layout l;
	int err = layout_now(r, &now);

	if (!err && has_leaver(r->d))
		err = leaver_say(r);
	if (err)
		return err;
	l = now->layout;
	if (l.moving)
		return move_and_settle(r, &l);
	if (now->shrinks) {
		rebalance_step(r, "leaving");
		return layout_write(r, &now->shrunk);
	}
	if (!now->grows && !now->weighs)
		return 1;
	l = now->grows ? now->grown : now->weighed;
	rebalance_step(r, now->grows ? "joining" : "weighing");
	err = copy_shards(r, &l);
	return err ? err : layout_write(r, &l);
}

static bool pause_for(void *arg, uint64_t ms)
{
	return rebalance_pause(arg, ms);
}

/* ---- while it is paused ---- */

/* Bricks refuse names by a layout that others do not have yet: what was half written when somebody was killed, or a brick was down, is written, paused or not. */
static int complete_layouts(struct rebalance *r)
{
	struct inode *before = r->dir;
	const struct spread *now = NULL;
	int err, second, third;

	r->dir = root_of(r->d);
	err = r->dir ? layout_now(r, &now) : -ENOMEM;
	second = r->dir ? leavers_complete(r, false) : 0; /* also if one is down: it need not have a part of them */
	inode_unref(r->dir);
	r->dir = before;
	third = has_leaver(r->d) ? complete_directories(r, leaver_of(r)) : 0;
	return err ? err : second ? second : third;
}

/* Until it is to go on or to stop, or so long. */
static void stand_still(struct rebalance *r, uint64_t ms)
{
	uint64_t until = clock_ns() + ms * 1000000;

	pthread_mutex_lock(&r->lock);
	while (r->paused && !r->stopping && clock_ns() < until)
		task_cond_wait(&r->changed, &r->lock, until);
	pthread_mutex_unlock(&r->lock);
}

/* When all is complete nobody begins anything here; but one that led before may not have ended yet, and be killed only then: so it is looked at now and then, and
 * little of the time where that is much to look at. */
bool rebalance_goes_on(struct rebalance *r)
{
	int err = 0;

	while (rebalance_is_paused(r) && !rebalance_stops(r)) {
		uint64_t began = clock_ns(), took_ms;
		int before = err;

		err = complete_layouts(r);
		if (before && !err)
			rebalance_no_problem(r);
		took_ms = (clock_ns() - began) / 1000000;
		stand_still(r, err ? STEP_MS : LOOK_MS + 10 * took_ms); /* to ask one that is down takes long, and is no work */
	}
	return !rebalance_stops(r);
}

/* What one that was killed had under way may be in the way of a tenant who has no room to end it. */
static int end_what_was_left(struct rebalance *r)
{
	rebalance_step(r, "records");
	return sweep_records(r->d, pause_for, r);
}

/* The root's names are where they belong. 1: so is all else. */
static int bring_what_is_left(struct rebalance *r)
{
	int err = has_leaver(r->d) ? 0 : leavers_complete(r, true);

	rebalance_step(r, "files");
	if (!err)
		err = has_leaver(r->d) ? empty_leaver(r) : bring_files(r);
	if (!err)
		err = end_what_was_left(r);
	if (!err && has_leaver(r->d))
		err = leaver_unsay(r);
	return err ? err : 1;
}

static int give_to_those_that_came(struct rebalance *r)
{
	int err = 0;

	r->dir = root_of(r->d);
	while (r->dir && err <= 0 && rebalance_goes_on(r)) {
		err = go_on(r);
		if (err > 0)
			err = bring_what_is_left(r);
		if (err >= 0)
			rebalance_no_problem(r);
		else
			rebalance_pause(r, err == -EAGAIN ? PAUSE_MS : STEP_MS);
	}
	if (err > 0)
		log_info(
			r->d->x, NULL,
			"rebalance: the root's names are where they belong; %llu were moved, and %llu files brought to their names",
			(unsigned long long)r->moved, (unsigned long long)r->files);
	inode_unref(r->dir);
	r->dir = NULL;
	return err;
}

static void rebalance_task(void *arg)
{
	struct rebalance *r = arg;
	int err = 0;

	pthread_mutex_lock(&r->lock);
	r->task = task_self();
	pthread_mutex_unlock(&r->lock);
	if (r->widens)
		widen_run(r);
	else
		err = give_to_those_that_came(r);
	pthread_mutex_lock(&r->lock);
	r->state = err > 0 ? DONE : STOPPED;
	r->step = NULL;
	r->task = NULL;
	task_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock); /* it may be gone now */
}

/* ---- commands ---- */

static struct rebalance *rebalance_of(struct dht *d, bool widens)
{
	struct rebalance *r, *new = calloc(1, sizeof(*new)), **at = widens ? &d->widener : &d->rebalance;

	pthread_mutex_lock(&d->lock);
	if (!*at && new) {
		pthread_mutex_init(&new->lock, NULL);
		new->d = d;
		new->widens = widens;
		*at = new;
		new = NULL;
	}
	r = *at;
	pthread_mutex_unlock(&d->lock);
	free(new);
	return r;
}

/* With the lock held. The time for which it stood still is not that of what it does. */
static void resume(struct rebalance *r)
{
	if (r->paused)
		r->progress.began_ns += clock_ns() - r->paused_ns;
	r->paused = false;
	task_cond_broadcast(&r->changed);
}

/* Nothing is lost by it: a copy that is under way stays, and is said to be somebody's. */
static int hold(struct rebalance *r)
{
	int err = 0;

	pthread_mutex_lock(&r->lock);
	if (r->state != RUNNING || r->stopping)
		err = -ECANCELED;
	else if (!r->paused)
		r->paused_ns = clock_ns();
	r->paused |= !err;
	pthread_mutex_unlock(&r->lock);
	return err;
}

/* `paused`: it stands still from the first, whatever it would begin with. */
static int start(struct rebalance *r, bool paused)
{
	int err = 0;

	pthread_mutex_lock(&r->lock);
	resume(r);
	if (r->hurry || r->waiters)
		err = -ECANCELED;
	else if (r->state != RUNNING) {
		r->state = RUNNING;
		r->stopping = false;
		r->progress = (struct progress){ 0 };
		r->moved = r->left = r->files = r->file_bytes = r->failed = r->bytes = 0;
		memset(r->skipped, 0, sizeof(r->skipped));
		r->stays = (struct stays){ 0 };
		r->problem[0] = '\0';
		r->paused = paused;
		r->paused_ns = clock_ns();
		err = task_spawn(NULL, rebalance_task, r);
		r->state = err ? STOPPED : RUNNING;
	}
	pthread_mutex_unlock(&r->lock);
	return err;
}

/* As one that had begun, and is paused. */
static int start_paused(struct rebalance *r)
{
	return hold(r) ? start(r, true) : 0;
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

static void tell_files(const struct rebalance *r, FILE *to)
{
	static const char *const why[BRINGS] = {
		[BRING_KIND] = "kind",	   [BRING_LINKS] = "links", [BRING_LOCKED] = "locked", [BRING_CHANGES] = "changes",
		[BRING_RECENT] = "recent", [BRING_FULL] = "full",   [BRING_BUSY] = "busy",     [BRING_WIDE] = "wide"
	};

	fprintf(to, "files %llu\nbytes %llu\ncopied %llu\nfailed %llu\n", (unsigned long long)r->files,
		(unsigned long long)r->file_bytes, (unsigned long long)r->bytes, (unsigned long long)r->failed);
	for (int i = 0; i < BRINGS; i++)
		if (why[i] && r->skipped[i])
			fprintf(to, "skipped-%s %llu\n", why[i], (unsigned long long)r->skipped[i]);
}

static void tell_stays(const struct rebalance *r, FILE *to)
{
	const struct stays *s = &r->stays;

	fprintf(to, "leaving %s\n", subvolume_name(r, leaver_of(r)));
	if (s->looked)
		fprintf(to, "stays-names %llu\nstays-files %llu\nstays-directories %llu\nstays-records %llu\nstays-open %llu\n",
			(unsigned long long)s->names, (unsigned long long)s->files,
			(unsigned long long)(s->directories + s->unsaid), (unsigned long long)s->records,
			(unsigned long long)s->open);
}

static void tell(struct rebalance *r, FILE *to)
{
	struct location line = { 0 };
	struct blob text = { 0 };
	int64_t left;

	pthread_mutex_lock(&r->lock);
	left = seconds_left(r);
	fprintf(to, "state %s\n", r->state == RUNNING && r->paused ? "paused" : state_names[r->state]);
	if (r->state == RUNNING && r->step)
		fprintf(to, "step %s\n", r->step);
	fprintf(to, "version %llu\n", (unsigned long long)spread_of(r->d)->layout.version);
	fprintf(to, "moved %llu\nleft %llu\n", (unsigned long long)r->moved, (unsigned long long)r->left);
	if (left >= 0)
		fprintf(to, "seconds-left %lld\n", (long long)left);
	tell_files(r, to);
	if (has_leaver(r->d))
		tell_stays(r, to);
	if (r->problem[0])
		location_line(&line, "problem", "%s", r->problem); /* a name may be in it */
	else if (r->state == RUNNING && r->stays.idle && r->stays.what[0])
		location_line(&line, "problem", "%s still has %s", subvolume_name(r, leaver_of(r)), r->stays.what);
	pthread_mutex_unlock(&r->lock);
	if (!location_end(&line, &text) && text.size)
		fwrite(text.bytes, 1, text.size, to);
	free(text.bytes);
}

static void once(void *arg)
{
	widen_once(arg);
}

int rebalance_command(struct dht *d, int argc, char **argv, FILE *to)
{
	bool widens = argc == 2 && !strcmp(argv[0], "widen");
	const char *verb = argc == 1 + widens ? argv[widens] : "";
	struct rebalance *r = *verb ? rebalance_of(d, widens) : NULL;

	if (!*verb)
		return -EINVAL;
	if (!r)
		return -ENOMEM;
	if (!strcmp(verb, "status"))
		tell(r, to);
	else if (widens && !strcmp(verb, "once"))
		return task_self() ? (widen_once(d), 0) : task_call(once, d);
	else if (!strcmp(verb, "start"))
		return start(r, false);
	else if (!strcmp(verb, "start-paused") && !widens)
		return start_paused(r);
	else if (!strcmp(verb, "pause") && !widens)
		return hold(r);
	else if (!strcmp(verb, "stop"))
		stop(r);
	else
		return -EINVAL;
	return 0;
}

static void stop_for_good(struct dht *d, struct rebalance **at)
{
	struct rebalance *r;

	pthread_mutex_lock(&d->lock);
	r = *at;
	pthread_mutex_unlock(&d->lock);
	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->hurry = true;
	pthread_mutex_unlock(&r->lock);
	stop(r);
}

void rebalance_stop(struct dht *d)
{
	stop_for_good(d, &d->widener);
	stop_for_good(d, &d->rebalance);
}

static void destroy(struct rebalance *r)
{
	if (!r)
		return;
	pthread_mutex_destroy(&r->lock);
	free(r);
}

void rebalance_free(struct dht *d)
{
	destroy(d->widener);
	destroy(d->rebalance);
	d->widener = d->rebalance = NULL;
}
