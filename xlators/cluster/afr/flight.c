/* SPDX-License-Identifier: Apache-2.0 */
/* Changes under way, and how the members hear that those before are settled. */
#include "afr.h"

enum { QUIET_MS = 20, AGAIN_MS = 100, AGAIN_MAX_MS = 1000, VIEW_NS = 1000000000 };

void flight_begin(struct afr *a, struct flight *f)
{
	pthread_mutex_lock(&a->lock);
	f->sequence = ++a->sequence;
	f->next = &a->flights;
	f->prev = a->flights.prev;
	f->prev->next = f;
	a->flights.prev = f;
	a->changes++;
	pthread_mutex_unlock(&a->lock);
}

static uint64_t settled(const struct afr *a)
{
	return a->flights.next == &a->flights ? a->sequence : a->flights.next->sequence - 1;
}

uint64_t flights_settled(struct afr *a)
{
	uint64_t s;

	pthread_mutex_lock(&a->lock);
	s = MUTANT("settle-unanswered") ? a->sequence : settled(a);
	pthread_mutex_unlock(&a->lock);
	return s;
}

/* Tells all members. False: the view has changed, or somebody did not answer. */
static bool tell(struct afr *a)
{
	struct pack p = { 0 };
	struct view v;
	uint64_t now;
	unsigned mask, good;

	if (afr_view(a, clock_ns() + VIEW_NS, &v))
		return false;
	pthread_mutex_lock(&a->lock);
	now = settled(a);
	pthread_mutex_unlock(&a->lock);
	mask = view_mask(&v, MEMBER_BACK);
	pack_u64(&p, v.epoch);
	pack_u64(&p, now);
	good = afr_tell(a, mask, REPLICA_SETTLE, &p);
	pack_free(&p);
	if (good != mask)
		afr_view_stale(a, v.epoch);
	pthread_mutex_lock(&a->lock);
	if (good == mask && a->view.epoch == v.epoch && now > a->told)
		a->told = now;
	pthread_mutex_unlock(&a->lock);
	return good == mask;
}

/* True when there is something to tell, and no change has ended of late. */
static bool due(struct afr *a, bool *more)
{
	bool yes;

	pthread_mutex_lock(&a->lock);
	*more = settled(a) > a->told && !a->stopping;
	yes = *more && clock_ns() - a->last_ns >= QUIET_MS * 1000000;
	if (!*more)
		a->settling = false;
	pthread_mutex_unlock(&a->lock);
	return yes;
}

static void settle_task(void *arg)
{
	struct afr *a = arg;
	uint64_t pause = QUIET_MS;
	bool more = true;

	while (more) {
		bool good;

		task_sleep_ms(pause);
		good = !due(a, &more) || tell(a);
		pause = good ? QUIET_MS : pause < AGAIN_MS ? AGAIN_MS : pause < AGAIN_MAX_MS ? 2 * pause : pause;
	}
	afr_task_ends(a);
}

void flight_end(struct afr *a, struct flight *f)
{
	bool start;

	pthread_mutex_lock(&a->lock);
	f->prev->next = f->next;
	f->next->prev = f->prev;
	a->last_ns = clock_ns();
	start = !a->settling && !a->stopping;
	pthread_mutex_unlock(&a->lock);
	if (start)
		afr_spawn_single(a, &a->settling, settle_task);
}

static void tell_task(void *arg)
{
	tell(arg);
	afr_task_ends(arg);
}

void afr_settle_now(struct afr *a)
{
	bool new;

	pthread_mutex_lock(&a->lock);
	new = settled(a) > a->told;
	pthread_mutex_unlock(&a->lock);
	if (new)
		afr_spawn(a, tell_task, a);
}

/* ---- changes that failed half done ---- */

struct abandoned {
	struct afr *a;
	struct flight *flight;
	uint64_t epoch;
};

/* All members that belong to the view know that it failed; or there is a newer view, for which all notes were collected. */
static bool known_as_failed(struct abandoned *b)
{
	struct pack p = { 0 };
	unsigned mask, good;
	struct view v;

	pthread_mutex_lock(&b->a->lock);
	v = b->a->view;
	pthread_mutex_unlock(&b->a->lock);
	if (v.epoch != b->epoch)
		return true;
	mask = view_mask(&v, MEMBER_BACK);
	pack_u64(&p, b->epoch);
	pack_u64(&p, b->flight->sequence);
	good = afr_tell(b->a, mask, REPLICA_FAILED, &p);
	pack_free(&p);
	if (good != mask)
		afr_view_stale(b->a, b->epoch);
	return good == mask;
}

static void abandon_task(void *arg)
{
	struct abandoned *b = arg;
	struct afr *a = b->a;
	struct view v;

	while (!known_as_failed(b) && !afr_stops(a)) {
		task_sleep_ms(AGAIN_MS);
		afr_view(a, clock_ns() + VIEW_NS, &v);
	}
	flight_end(a, b->flight);
	free(b->flight);
	free(b);
	atomic_fetch_sub(&a->abandoned, 1);
	afr_task_ends(a);
}

/* It ends with the view at the latest, which those make who wait for a token in vain. */
void flights_known(struct afr *a)
{
	while (atomic_load(&a->abandoned) && !afr_stops(a))
		task_sleep_ms(SOON_MS);
}

void flight_abandon(struct afr *a, struct flight *f, uint64_t epoch)
{
	struct abandoned *b = malloc(sizeof(*b));

	pthread_mutex_lock(&a->lock);
	a->failed++;
	pthread_mutex_unlock(&a->lock);
	if (b) {
		*b = (struct abandoned){ a, f, epoch };
		if (known_as_failed(b)) { /* first, so that we do not read what is to be undone */
			flight_end(a, f);
			free(f);
			free(b);
			return;
		}
		atomic_fetch_add(&a->abandoned, 1);
		if (!afr_spawn(a, abandon_task, b))
			return;
		atomic_fetch_sub(&a->abandoned, 1);
	}
	free(b); /* the flight stays, so nothing is settled any more: the notes remain until the session ends */
}
