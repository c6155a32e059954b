/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/coordinator: decides who belongs to a replica set, and heals it. */
#include "coordinator.h"

static const struct option options[] = {
	{ "volume", OPTION_STRING, OPTION_AT(struct coordinator, volume), "volume",
	  "name of the volume, for the register and people" },
	{ "state-file", OPTION_PATH, OPTION_AT(struct coordinator, state_file), NULL,
	  "where the view is kept if this process has no cluster store" },
	{ "secret-file", OPTION_PATH, OPTION_AT(struct coordinator, secret_file), NULL,
	  "file with the set's secret, 64 hexadecimal digits, as the bricks have it" },
	{ "arbiter", OPTION_BOOL, OPTION_AT(struct coordinator, arbiter), "off",
	  "the last member holds names and attributes, but no data" },
	{ "lease", OPTION_DURATION, OPTION_AT(struct coordinator, lease_ms), "2s",
	  "a member serves for so long after it heard of the coordinator; so long it takes to leave out one that is silent",
	  200, 600000 },
	{ "first-answer", OPTION_DURATION, OPTION_AT(struct coordinator, first_answer_ms), "0",
	  "so long it waits when it was started for a member's first answer, and `lease` at least, before it leaves that one out",
	  0, 600000 },
	{ "heartbeat", OPTION_DURATION, OPTION_AT(struct coordinator, heartbeat_ms), "250ms", "how often leases are renewed",
	  20, 60000 },
	{ "sync-interval", OPTION_DURATION, OPTION_AT(struct coordinator, sync_ms), "10s",
	  "how often the members sync their disks, so that the list of what changed can be cut", 100, 3600000, .live = true },
	{ "cold-wait", OPTION_DURATION, OPTION_AT(struct coordinator, cold_wait_ms), "10s",
	  "when there are too few: how long those that are here wait for the others", 0, 3600000, .live = true },
	{ "heal-tasks", OPTION_INT, OPTION_AT(struct coordinator, heal_tasks), "16", "objects that are healed at once", 1, 256,
	  .live = true },
	{ "heal-bandwidth", OPTION_SIZE, OPTION_AT(struct coordinator, heal_bandwidth), "0",
	  "bytes of file data that healing copies in a second, at most; 0: as fast as it goes", .live = true },
	{ "heal-piece", OPTION_SIZE, OPTION_AT(struct coordinator, heal_piece), "32M",
	  "bytes of a file that are healed or compared at once; between them it can be written", 64, 1ull << 40, .live = true },
	{ "scrub-rate", OPTION_INT, OPTION_AT(struct coordinator, scrub_rate), "500",
	  "objects that a scrub compares in a second, at most; 0: as fast as it goes", 0, 1000000, .live = true },
	{ NULL },
};

/* ---- what is found while a directory is healed ---- */

static int found(struct heal *h, int to, const struct gfid *g)
{
	struct coordinator *c = (struct coordinator *)((char *)h - offsetof(struct coordinator, heal));
	struct pack p = { 0 };
	bool back;

	pthread_mutex_lock(&c->lock);
	back = c->view.state[to] == MEMBER_BACK;
	pthread_mutex_unlock(&c->lock);
	if (!back) /* a recovery: what is made anew is made whole */
		return 0;
	pack_u8(&p, 0);
	pack_gfid(&p, g);
	return tell_member(c, to, REPLICA_ADD_PENDING, &p);
}

/* ---- the loop ---- */

static int read_register(struct coordinator *c)
{
	uint64_t version = 0, until;
	struct view v = { 0 };
	struct owed owed = { 0 };
	int err = register_read(c, &v, &owed, &version);

	if (err && err != -ENOENT) {
		if (err != c->read_err)
			log_error(c->x, NULL, "the view can't be read: %s",
				  err == -EINVAL ? "it is of another set, or damaged" : strerror(-err));
		c->read_err = err;
		return err;
	}
	c->read_err = 0;
	pthread_mutex_lock(&c->lock);
	c->base = v;
	c->base.members = (uint8_t)c->members;
	c->stored = v.epoch;
	c->version = version;
	c->stored_owed = owed;
	c->owed.scrub |= owed.scrub;
	c->owed.unlisted |= owed.unlisted;
	c->owed.recovery = owed.recovery;
	c->owed.held = owed.held;
	c->view.epoch = 0;
	c->deposed = false;
	until = clock_ns() + register_handover_ns() + coordinator_lease_ns(c) * 11 / 10;
	for (int i = 0; i < c->members; i++) {
		c->member[i].lease_end_ns = until; /* what a coordinator before this one may have granted */
		c->member[i].leaving = c->member[i].stepped_down = false;
	}
	pthread_mutex_unlock(&c->lock);
	return 0;
}

/* A new generation, when all members that are here have begun the last one. */
static void turn_generation(struct coordinator *c)
{
	uint64_t now = clock_ns(), most = 0;
	bool all = true;

	pthread_mutex_lock(&c->lock);
	for (int i = 0; i < c->members; i++) {
		most = c->member[i].last.generation > most ? c->member[i].last.generation : most;
		if (c->view.state[i] == MEMBER_IN && c->member[i].last.generation < c->generation)
			all = false;
	}
	if (c->generation < most)
		c->generation = most;
	if (all && c->view.epoch && now > c->generation_ns + c->sync_ms * 1000000) {
		c->generation++;
		c->generation_ns = now;
	}
	pthread_mutex_unlock(&c->lock);
}

static void tidy_task(void *arg)
{
	struct coordinator *c = arg;
	unsigned in;

	pthread_mutex_lock(&c->lock);
	in = view_mask(&c->view, MEMBER_IN);
	pthread_mutex_unlock(&c->lock);
	for (int i = 0; i < c->members; i++) {
		struct request rq;

		if (!(in >> i & 1))
			continue;
		if (!heal_request(&c->heal, &rq))
			heal_purge_limbo(&c->heal, &rq, i);
		heal_request_end(&rq);
	}
	pthread_mutex_lock(&c->lock);
	c->tidying = false;
	task_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	coordinator_task_ends(c);
}

/* When all is well, nothing that was moved out of the way is wanted any more. A coordinator before this one may have left some. */
static void tidy_limbos(struct coordinator *c)
{
	bool clean;

	pthread_mutex_lock(&c->lock);
	clean = c->view.epoch && c->limbo_epoch != c->view.epoch && !c->unrecovered && !c->tidying &&
		view_mask(&c->view, MEMBER_BACK) == view_mask(&c->view, MEMBER_IN);
	if (clean)
		c->limbo_epoch = c->view.epoch;
	c->tidying |= clean;
	pthread_mutex_unlock(&c->lock);
	if (!clean || !coordinator_spawn(c, tidy_task, c))
		return;
	pthread_mutex_lock(&c->lock);
	c->tidying = false;
	pthread_mutex_unlock(&c->lock);
}

/* What was owed is done: the next coordinator need not do it again. And a recovery may have found that lists lack directories: that one must look, too. */
static void settle_owed(struct coordinator *c)
{
	struct owed owed;
	struct view v;
	int err;

	pthread_mutex_lock(&c->lock);
	v = c->view;
	owed = c->owed;
	pthread_mutex_unlock(&c->lock);
	if (v.epoch != c->stored || (owed.scrub == c->stored_owed.scrub && owed.unlisted == c->stored_owed.unlisted &&
				     owed.recovery >= c->stored_owed.recovery))
		return;
	if (view_has_quorum(&v) && !owed.recovery)
		v.away = 0; /* from here on there may be changes without them */
	err = register_write(c, &v, owed, c->version);
	pthread_mutex_lock(&c->lock);
	if (err) {
		c->deposed = true; /* whether it was stored or not: read it again */
	} else {
		c->version++;
		c->stored_owed = owed;
		c->view.away = v.away;
		tell_writable(c, c->writable || c->changes_wait);
	}
	pthread_mutex_unlock(&c->lock);
}

static void main_task(void *arg)
{
	struct coordinator *c = arg;
	bool ready = false;

	while (!atomic_load(&c->stopping)) {
		if (!ready || c->deposed)
			ready = !read_register(c);
		if (ready) {
			atomic_store(&c->heal.bandwidth, c->heal_bandwidth);
			decide(c);
			lacking_look(c);
			departing_look(c);
			scrub_owed(c);
			healers_start(c);
			tidy_limbos(c);
			settle_owed(c);
			turn_generation(c);
		}
		pthread_mutex_lock(&c->lock);
		if (!atomic_load(&c->stopping))
			task_cond_wait(&c->changed, &c->lock, clock_ns() + c->heartbeat_ms * 1000000);
		pthread_mutex_unlock(&c->lock);
	}
	healers_stop(c);
	coordinator_task_ends(c);
}

/* ---- the translator ---- */

static int coordinator_init(struct xlator *x, struct problem *p)
{
	struct coordinator *c = x->private;
	int err;

	if (c->arbiter && x->children != 3)
		return problem_set(p, EINVAL, "volume %s: an arbiter makes sense only as the last of three members, not of %d",
				   x->name, x->children);
	if (c->heartbeat_ms * 3 > c->lease_ms)
		return problem_set(p, EINVAL, "volume %s: the lease must be at least three heartbeats", x->name);
	c->x = x;
	c->members = x->children;
	c->heal.x = x;
	c->heal.arbiter = c->arbiter ? 2 : -1;
	c->heal.found = found;
	gfid_create(&c->session);
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->heal.links_lock, NULL);
	c->lacking.look.x = x;
	c->lacking.look.arbiter = c->heal.arbiter;
	c->lacking.look.look = true;
	c->departures.ask.x = x;
	c->departures.ask.look = true;
	for (int i = 0; i < c->members; i++) {
		c->member[i].c = c;
		c->member[i].number = i;
	}
	err = secret_read(c->secret_file, c->heal.secret, p);
	memcpy(c->lacking.look.secret, c->heal.secret, sizeof(c->heal.secret));
	memcpy(c->departures.ask.secret, c->heal.secret, sizeof(c->heal.secret));
	return err;
}

static int coordinator_start(struct xlator *x, struct problem *p)
{
	struct coordinator *c = x->private;
	int err = 0;

	c->started_ns = clock_ns();
	for (int i = 0; i < c->members && !err; i++)
		err = coordinator_spawn(c, lease_task, &c->member[i]);
	if (!err)
		err = coordinator_spawn(c, main_task, c);
	return err ? problem_set(p, -err, "can't start the coordinator: %s", strerror(-err)) : 0;
}

static bool coordinator_retire(struct xlator *x)
{
	return decided(x->private);
}

static void wait_for_tasks(void *arg)
{
	struct coordinator *c = arg;

	pthread_mutex_lock(&c->lock);
	while (c->tasks)
		task_cond_wait(&c->changed, &c->lock, NO_DEADLINE);
	pthread_mutex_unlock(&c->lock);
	scrub_free(&c->scrub);
	lacking_forget(c);
	missed_clear(c);
}

static void coordinator_stop(struct xlator *x)
{
	struct coordinator *c = x->private;

	atomic_store(&c->stopping, true);
	atomic_store(&c->heal.halt, true);
	atomic_store(&c->lacking.look.halt, true);
	atomic_store(&c->departures.ask.halt, true);
	pthread_mutex_lock(&c->lock);
	for (int i = 0; i < c->members; i++)
		c->member[i].heal_stop = true;
	pthread_mutex_unlock(&c->lock);
	scrub_halt(c);
	task_cond_broadcast(&c->changed);
	if (task_self())
		wait_for_tasks(c);
	else
		task_call(wait_for_tasks, c);
}

static void coordinator_finish(struct xlator *x)
{
	struct coordinator *c = x->private;

	notes_free(c);
	list_free(&c->held);
	list_free(&c->wanted);
	for (int i = 0; i < c->members; i++)
		list_free(&c->member[i].differs);
	pthread_mutex_destroy(&c->heal.links_lock);
	pthread_mutex_destroy(&c->lock);
}

static void coordinator_notify(struct xlator *x, struct xlator *from, const struct event *e)
{
	struct coordinator *c = x->private;

	if (e->kind == EVENT_RECALL) {
		struct gfid g = event_gfid(e);

		session_recalled(c, &g);
	}
	if (e->kind != EVENT_CHILD_UP && e->kind != EVENT_CHILD_DOWN)
		return;
	pthread_mutex_lock(&c->lock);
	for (int i = 0; i < c->members; i++)
		if (x->child[i] == from)
			c->member[i].hurry = true;
	pthread_mutex_unlock(&c->lock);
	task_cond_broadcast(&c->changed);
}

XLATOR_MODULE
const struct xlator_type xlator_type = {
	.api = STRATUS_API_VERSION,
	.front = true,
	.name = "cluster/coordinator",
	.summary = "decides who belongs to a replica set, and heals it",
	.options = options,
	.private_size = sizeof(struct coordinator),
	.min_children = 2,
	.max_children = REPLICAS_MAX,
	.init = coordinator_init,
	.start = coordinator_start,
	.retire = coordinator_retire,
	.stop = coordinator_stop,
	.finish = coordinator_finish,
	.notify = coordinator_notify,
	.dump = coordinator_dump,
	.command = coordinator_command,
};
